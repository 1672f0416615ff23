//! The caller of one connection, and the server's client that runs its commands.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use subtle::ConstantTimeEq as _;

use super::buffer_memory::BufferMemory;
use super::credentials::Credentials;
use super::idempotency::{KeyScope, KeyUnderWay, KeysUnderWay};
use super::problem::Problem;
use super::reply::{self, ReplyFrame};
use super::resp_request;
use getid_redis::acl::Origin;
use getid_server::Server;
use getid_server::connection::{LocalClient, LocalReply};
use getid_server::registry::{Client, HttpAdmission, SocketInfo, StopMode};

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
    idle: Mutex<Option<Box<LoggedInClient>>>,
    /// Keys of requests that are under way on any connection of the port.
    keys: Arc<KeysUnderWay>,
    /// Number of wrong logins of this connection.
    wrong_logins: Mutex<u32>,
    /// The client of the current or the last request.
    client: Mutex<Option<Arc<Client>>>,
    /// Waker of the connection's task, woken when its client is signalled to end.
    waker: OnceLock<Waker>,
}

/// A client of the server, and the user that it is logged in as.
struct LoggedInClient {
    client: LocalClient,
    /// The `Authorization` header that it logged in with; empty if none.
    login: Vec<u8>,
    /// The user that it acts as without a password (`http-api ... user`).
    assumed_user: Option<String>,
    /// Version of the settings at the login: later settings may have another password.
    settings: u64,
}

impl Caller {
    pub(super) fn new(
        server: Arc<Server>,
        origin: Origin,
        ends: SocketInfo,
        certificate_user: Option<String>,
        keys: Arc<KeysUnderWay>,
    ) -> Caller {
        let (idle, wrong_logins, client) = Default::default();
        let admission = Arc::new(server.clients.admit_http_connection(ends.peer.clone()));
        let waker = OnceLock::new();
        Caller { server, origin, certificate_user, ends, admission, idle, keys, wrong_logins, client, waker }
    }

    /// Returns a counter for a buffer of the connection.
    pub(super) fn buffer_memory(&self) -> BufferMemory {
        BufferMemory::new(Arc::clone(&self.server), Arc::clone(&self.admission))
    }

    /// Runs a command as the user of these headers and returns its reply.
    ///
    /// # Errors
    ///
    /// A problem if the login is wrong, the reply is an error, or the server stops.
    pub(super) async fn run(&self, headers: &HeaderMap, args: &[&[u8]]) -> Result<ReplyFrame, Problem> {
        reply::read(&self.run_bytes(headers, &resp_request::encode(args)).await?)
    }

    /// Runs a command as the user of these headers and returns its reply as RESP, errors included.
    pub(super) async fn run_bytes(&self, headers: &HeaderMap, request: &[u8]) -> Result<LocalReply, Problem> {
        self.run_on(self.client_by_login(headers).await?, request).await
    }

    /// Runs a command as `user` without a password; if it is `None`, as the user of the headers.
    ///
    /// # Errors
    ///
    /// Those of [`Caller::run`], and a problem if the user does not exist any more or is off.
    pub(super) async fn run_as(
        &self,
        user: Option<&str>,
        headers: &HeaderMap,
        args: &[&[u8]],
    ) -> Result<ReplyFrame, Problem> {
        let Some(user) = user else { return self.run(headers, args).await };
        reply::read(&self.run_on(self.client_as(user)?, &resp_request::encode(args)).await?)
    }

    async fn run_on(&self, mut logged_in: Box<LoggedInClient>, request: &[u8]) -> Result<LocalReply, Problem> {
        let reply = logged_in.client.ask(request).await.map_err(|_| Problem::stopping())?;
        self.store_idle(logged_in);
        Ok(reply)
    }

    /// Marks a key of the user of these headers, and of what gives the IDs, as under way until the returned value is
    /// dropped.
    ///
    /// # Errors
    ///
    /// 409 if a request of the same key is under way; a problem if the login is wrong or the server stops.
    pub(super) async fn begin_key(&self, headers: &HeaderMap, name: &str, key: &str) -> Result<KeyUnderWay, Problem> {
        let user = self.inspect(headers, |client| Arc::clone(&client.view().user)).await?;
        self.keys.begin(KeyScope { user, name: name.to_owned(), key: key.to_owned() })
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
        let logged_in = self.client_by_login(headers).await?;
        let result = of(&logged_in.client);
        self.store_idle(logged_in);
        Ok(result)
    }

    /// Takes the client of the last request if this request can use it.
    fn take_idle(&self, is_same: impl FnOnce(&LoggedInClient) -> bool) -> Option<Box<LoggedInClient>> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        idle.filter(|logged_in| is_same(logged_in) && logged_in.client.client().stopping() == StopMode::No)
    }

    /// Returns a client that acts as `user` without a password.
    fn client_as(&self, user: &str) -> Result<Box<LoggedInClient>, Problem> {
        let settings = self.server.settings.version();
        if let Some(logged_in) = self
            .take_idle(|logged_in| logged_in.settings == settings && logged_in.assumed_user.as_deref() == Some(user))
        {
            return Ok(logged_in);
        }
        let mut logged_in = self.new_client(settings)?;
        if !logged_in.client.log_in_as(user) {
            return Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the user '{user}' of http-api does not exist any more, or is off"),
            ));
        }
        logged_in.assumed_user = Some(user.to_owned());
        Ok(logged_in)
    }

    /// Returns a client that is logged in by these headers.
    async fn client_by_login(&self, headers: &HeaderMap) -> Result<Box<LoggedInClient>, Problem> {
        let login = headers.get(AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
        let settings = self.server.settings.version();
        let is_same = |logged_in: &LoggedInClient| {
            logged_in.assumed_user.is_none()
                && logged_in.settings == settings
                && bool::from(logged_in.login.as_slice().ct_eq(login))
        };
        if let Some(logged_in) = self.take_idle(is_same) {
            return Ok(logged_in);
        }
        let mut logged_in = self.new_client(settings)?;
        if login.is_empty() {
            if let Some(user) = &self.certificate_user
                && !logged_in.client.log_in_by_certificate(user)
            {
                return Err(Problem::stopping());
            }
        } else {
            let Credentials { user, password } =
                Credentials::read(login).map_err(|malformed| Problem::unauthorized(malformed.to_string()))?;
            let request = resp_request::encode(&[b"AUTH", user.as_bytes(), password.as_bytes()]);
            logged_in.client.set_wrong_logins(*self.wrong_logins.lock().unwrap_or_else(PoisonError::into_inner));
            let reply = logged_in.client.ask(&request).await.map_err(|_| Problem::stopping())?;
            *self.wrong_logins.lock().unwrap_or_else(PoisonError::into_inner) = logged_in.client.wrong_logins();
            reply::read(&reply)?;
            logged_in.login = login.to_vec();
        }
        Ok(logged_in)
    }

    /// Creates a client that is not logged in.
    fn new_client(&self, settings: u64) -> Result<Box<LoggedInClient>, Problem> {
        let client = LocalClient::new(&self.server, self.origin, self.ends.clone()).ok_or_else(Problem::stopping)?;
        if let Some(waker) = self.waker.get() {
            client.client().stopping_or_wake(waker);
        }
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(client.client()));
        Ok(Box::new(LoggedInClient { client, login: Vec::new(), assumed_user: None, settings }))
    }

    fn store_idle(&self, logged_in: Box<LoggedInClient>) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(logged_in);
    }

    /// Whether the client of the last request has been signalled to end since.
    pub(super) fn is_stopping(&self) -> bool {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.as_ref().is_some_and(|client| client.stopping() != StopMode::No)
    }

    /// Returns whether the client must end: by `CLIENT KILL`, because its user was deleted, or because its buffers are
    /// among the largest. `waker` is the connection's; it is woken if that happens later.
    pub(super) fn stop_or_wake(&self, waker: &Waker) -> StopMode {
        self.waker.get_or_init(|| waker.clone());
        if self.admission.connection.is_evicted_or_wake(waker) {
            return StopMode::Now;
        }
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.as_ref().map_or(StopMode::No, |client| client.stopping_or_wake(waker))
    }
}
