//! The caller of one connection, and the server's client that runs its commands.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use subtle::ConstantTimeEq as _;

use super::credentials::Credentials;
use super::held::Held;
use super::problem::Problem;
use super::reply::{self, Reply};
use super::request;
use crate::acl::Origin;
use crate::server::Server;
use crate::server::connection::LocalClient;
use crate::server::registry::{Client, HttpAdmission, SocketInfo, StopMode};

/// One connection's access to the server.
pub(super) struct Caller {
    pub(super) server: Arc<Server>,
    pub(super) origin: Origin,
    /// The user that the client's certificate names.
    pub(super) certificate_user: Option<String>,
    ends: SocketInfo,
    /// The connection's entry among those whose buffers are counted.
    admission: Arc<HttpAdmission>,
    /// The client between requests. A request takes it; a request that is cancelled drops it.
    idle: Mutex<Option<Box<Desk>>>,
    /// Number of wrong logins of this connection.
    wrong_logins: Mutex<u32>,
    /// The client of the current or the last request.
    client: Mutex<Option<Arc<Client>>>,
    /// Waker of the connection's task, woken when its client is signalled to end.
    waker: OnceLock<Waker>,
}

/// A client of the server, and the user that it is logged in as.
struct Desk {
    client: LocalClient,
    /// The `Authorization` header that it logged in with; empty if none.
    login: Vec<u8>,
    /// The user that it acts as without a password (`http-api ... user`).
    acts_as: Option<String>,
    /// Version of the settings at the login: later settings may have another password.
    settings: u64,
}

impl Caller {
    pub(super) fn new(
        server: Arc<Server>,
        origin: Origin,
        ends: SocketInfo,
        certificate_user: Option<String>,
    ) -> Caller {
        let (idle, wrong_logins, client) = Default::default();
        let admission = Arc::new(server.clients.admit_http_connection(ends.peer.clone()));
        Caller { server, origin, certificate_user, ends, admission, idle, wrong_logins, client, waker: OnceLock::new() }
    }

    /// Returns a counter for a buffer of the connection.
    pub(super) fn held(&self) -> Held {
        Held::new(Arc::clone(&self.server), Arc::clone(&self.admission))
    }

    /// Runs a command as the user of these headers and returns its reply.
    ///
    /// # Errors
    ///
    /// A problem if the login is wrong, the reply is an error, or the server stops.
    pub(super) async fn ask(&self, headers: &HeaderMap, args: &[&[u8]]) -> Result<Reply, Problem> {
        reply::read(&self.ask_bytes(headers, &request::of(args)).await?)
    }

    /// Runs a command as the user of these headers and returns the RESP bytes of its reply, errors included.
    pub(super) async fn ask_bytes(&self, headers: &HeaderMap, request: &[u8]) -> Result<Vec<u8>, Problem> {
        self.ask_at(self.desk(headers).await?, request).await
    }

    /// Runs a command as `user` without a password; if it is `None`, as the user of the headers.
    ///
    /// # Errors
    ///
    /// Those of [`Caller::ask`], and a problem if the user does not exist any more or is off.
    pub(super) async fn ask_as(
        &self,
        user: Option<&str>,
        headers: &HeaderMap,
        args: &[&[u8]],
    ) -> Result<Reply, Problem> {
        let Some(user) = user else { return self.ask(headers, args).await };
        reply::read(&self.ask_at(self.desk_of(user)?, &request::of(args)).await?)
    }

    async fn ask_at(&self, mut desk: Box<Desk>, request: &[u8]) -> Result<Vec<u8>, Problem> {
        let reply = desk.client.ask(request).await.map_err(|_| Problem::stopping())?;
        self.keep(desk);
        Ok(reply)
    }

    /// Whether the user of these headers is logged in, or needs no login.
    ///
    /// # Errors
    ///
    /// A problem if the login is wrong or the server stops.
    pub(super) async fn is_logged_in(&self, headers: &HeaderMap) -> Result<bool, Problem> {
        self.inspect(headers, LocalClient::is_authenticated).await
    }

    /// Returns the result of `of`, called with the client that these headers are logged in as.
    ///
    /// # Errors
    ///
    /// A problem if the login is wrong or the server stops.
    pub(super) async fn inspect<T>(
        &self,
        headers: &HeaderMap,
        of: impl FnOnce(&LocalClient) -> T,
    ) -> Result<T, Problem> {
        let desk = self.desk(headers).await?;
        let result = of(&desk.client);
        self.keep(desk);
        Ok(result)
    }

    /// Takes the client of the last request if this request can use it.
    fn kept(&self, is_same: impl FnOnce(&Desk) -> bool) -> Option<Box<Desk>> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        idle.filter(|desk| is_same(desk) && desk.client.client().stopping() == StopMode::No)
    }

    /// Returns a client that acts as `user` without a password.
    fn desk_of(&self, user: &str) -> Result<Box<Desk>, Problem> {
        let settings = self.server.settings.version();
        if let Some(desk) = self.kept(|desk| desk.settings == settings && desk.acts_as.as_deref() == Some(user)) {
            return Ok(desk);
        }
        let mut desk = self.open(settings)?;
        if !desk.client.log_in_as(user) {
            return Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("http-api acts as the user '{user}' here, and there is no such user now, or it is off"),
            ));
        }
        desk.acts_as = Some(user.to_owned());
        Ok(desk)
    }

    /// Returns a client that is logged in by these headers.
    async fn desk(&self, headers: &HeaderMap) -> Result<Box<Desk>, Problem> {
        let login = headers.get(AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
        let settings = self.server.settings.version();
        let is_same = |desk: &Desk| {
            desk.acts_as.is_none() && desk.settings == settings && bool::from(desk.login.as_slice().ct_eq(login))
        };
        if let Some(desk) = self.kept(is_same) {
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
            let request = request::of(&[b"AUTH", user.as_bytes(), password.as_bytes()]);
            desk.client.set_wrong_logins(*self.wrong_logins.lock().unwrap_or_else(PoisonError::into_inner));
            let reply = desk.client.ask(&request).await.map_err(|_| Problem::stopping())?;
            *self.wrong_logins.lock().unwrap_or_else(PoisonError::into_inner) = desk.client.wrong_logins();
            reply::read(&reply)?;
            desk.login = login.to_vec();
        }
        Ok(desk)
    }

    /// Creates a client that is not logged in.
    fn open(&self, settings: u64) -> Result<Box<Desk>, Problem> {
        let client = LocalClient::new(&self.server, self.origin, self.ends.clone()).ok_or_else(Problem::stopping)?;
        if let Some(waker) = self.waker.get() {
            client.client().stopping_or_wake(waker);
        }
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(client.client()));
        Ok(Box::new(Desk { client, login: Vec::new(), acts_as: None, settings }))
    }

    fn keep(&self, desk: Box<Desk>) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(desk);
    }

    /// Whether the client of the last request has been signalled to end since.
    pub(super) fn is_told_to_end(&self) -> bool {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.as_ref().is_some_and(|client| client.stopping() != StopMode::No)
    }

    /// Returns whether the client must end: by `CLIENT KILL`, because its user was deleted, or because its buffers are
    /// among the largest. `waker` is the connection's; it is woken if that happens later.
    pub(super) fn stopping(&self, waker: &Waker) -> StopMode {
        self.waker.get_or_init(|| waker.clone());
        if self.admission.connection.is_evicted_or_wake(waker) {
            return StopMode::Now;
        }
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.as_ref().map_or(StopMode::No, |client| client.stopping_or_wake(waker))
    }
}
