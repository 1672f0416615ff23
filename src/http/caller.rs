//! Who asks on one connection, and the client of the server's that asks for them.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;

use super::credentials::Credentials;
use super::problem::Problem;
use super::reply::{self, Reply};
use super::request;
use crate::acl::Origin;
use crate::server::Server;
use crate::server::connection::LocalClient;
use crate::server::registry::{Client, Ends, Stop};

/// One connection's side of the server.
pub(super) struct Caller {
    pub(super) server: Arc<Server>,
    pub(super) origin: Origin,
    /// The user that the client's certificate names.
    pub(super) certificate_user: Option<String>,
    ends: Ends,
    /// Between requests; a request takes it, and one that is let go of in the middle drops it.
    idle: Mutex<Option<Box<Desk>>>,
    /// Wrong logins of this connection.
    wrong_logins: Mutex<u32>,
    /// The client of the request at hand, or of the last one.
    client: Mutex<Option<Arc<Client>>>,
    /// The connection's task, which looks around when its client is told to end.
    waker: OnceLock<Waker>,
}

/// A client of the server's, and whom it is logged in as.
struct Desk {
    client: LocalClient,
    /// The `Authorization` that it logged in by; empty: none.
    login: Vec<u8>,
    /// The version of the settings that it did so under: later ones may have another password.
    settings: u64,
}

impl Caller {
    pub(super) fn new(server: Arc<Server>, origin: Origin, ends: Ends, certificate_user: Option<String>) -> Caller {
        let (idle, wrong_logins, client) = Default::default();
        Caller { server, origin, certificate_user, ends, idle, wrong_logins, client, waker: OnceLock::new() }
    }

    /// The reply to a command by whoever these headers are of.
    ///
    /// # Errors
    ///
    /// A problem for a login that is wrong, an error reply, or a server that stops.
    pub(super) async fn ask(&self, headers: &HeaderMap, args: &[&[u8]]) -> Result<Reply, Problem> {
        let mut words = Vec::new();
        request::encode(args, &mut words);
        reply::read(&self.ask_bytes(headers, &words).await?)
    }

    /// The same as bytes of RESP, errors included.
    pub(super) async fn ask_bytes(&self, headers: &HeaderMap, request: &[u8]) -> Result<Vec<u8>, Problem> {
        let mut desk = self.desk(headers).await?;
        let reply = desk.client.ask(request).await.map_err(|_| Problem::stopping())?;
        self.keep(desk);
        Ok(reply)
    }

    /// The desk of whoever these headers are of.
    async fn desk(&self, headers: &HeaderMap) -> Result<Box<Desk>, Problem> {
        let login = headers.get(AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
        let settings = self.server.settings.version();
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_same = |desk: &Desk| desk.settings == settings && bool::from(desk.login.as_slice().ct_eq(login));
        if let Some(desk) = idle.filter(|desk| is_same(desk))
            && desk.client.client().stopping() == Stop::No
        {
            return Ok(desk);
        }
        let mut desk = self.open(settings)?;
        if login.is_empty() {
            if let Some(user) = &self.certificate_user
                && !desk.client.log_in_by_certificate(user)
            {
                return Err(Problem::stopping());
            }
        } else {
            let Credentials { user, password } =
                Credentials::read(login).map_err(|malformed| Problem::unauthorized(malformed.to_string()))?;
            let mut words = Vec::new();
            request::encode(&[b"AUTH", user.as_bytes(), password.as_bytes()], &mut words);
            desk.client.set_wrong_logins(*self.wrong_logins.lock().unwrap_or_else(PoisonError::into_inner));
            let reply = desk.client.ask(&words).await.map_err(|_| Problem::stopping())?;
            *self.wrong_logins.lock().unwrap_or_else(PoisonError::into_inner) = desk.client.wrong_logins();
            reply::read(&reply)?;
            desk.login = login.to_vec();
        }
        Ok(desk)
    }

    /// A desk of somebody who has said nothing.
    fn open(&self, settings: u64) -> Result<Box<Desk>, Problem> {
        let client = LocalClient::new(&self.server, self.origin, self.ends.clone()).ok_or_else(Problem::stopping)?;
        if let Some(waker) = self.waker.get() {
            client.client().stopping_or_wake(waker);
        }
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(client.client()));
        Ok(Box::new(Desk { client, login: Vec::new(), settings }))
    }

    fn keep(&self, desk: Box<Desk>) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(desk);
    }

    /// Whether the client is told to end, by `CLIENT KILL` or because its user is gone; if it is later, that wakes the
    /// connection's task, whose waker this is.
    pub(super) fn stopping(&self, waker: &Waker) -> Stop {
        self.waker.get_or_init(|| waker.clone());
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.as_ref().map_or(Stop::No, |client| client.stopping_or_wake(waker))
    }
}
