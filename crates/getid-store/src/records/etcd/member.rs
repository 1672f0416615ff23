//! One member of the cluster, with its idle connections, its login and its requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use tokio::time::{Instant, timeout_at};

use super::failure::{self, MemberFailure, RequestContext};
use super::link::{ExchangeError, MemberLink, MemberReply, no_certificate};
use super::{ANSWER_BYTES_MAX, gateway};
use getid_text::printable::printable;
use getid_text::store_url::{EtcdAddress, StoreTls};

/// Most idle connections that are kept.
const IDLE_MAX: usize = 8;

/// Time for which a refused login is not repeated: etcd checks passwords slowly on purpose.
const REFUSED_FOR: Duration = Duration::from_secs(1);

/// A member, at one of the address's endpoints.
pub(super) struct Member {
    address: EtcdAddress,
    host: String,
    port: u16,
    /// Name of the member in errors.
    place: String,
    idle: Mutex<Vec<MemberLink>>,
    /// Locked during a login, so that other requests wait for the same token.
    login: tokio::sync::Mutex<LoginState>,
    is_auth_disabled: AtomicBool,
}

/// State of a login.
enum LoginState {
    /// There was no login, or it has expired.
    None,
    Token(Arc<HeaderValue>),
    /// The login was refused. Requests before this time fail with the same error.
    Refused(String, Instant),
}

/// A request with its time limits.
pub(super) struct TimedRequest {
    pub(super) path: &'static str,
    pub(super) body: Bytes,
    /// Most bytes of the answer.
    pub(super) bytes_max: usize,
    /// Time by which the request must be sent.
    pub(super) connected_by: Instant,
    pub(super) answer_by: Instant,
}

impl Member {
    pub(super) fn new(address: &EtcdAddress, host: &str, port: u16) -> Member {
        let shown = if host.contains(':') { format!("[{host}]") } else { printable(host).into_owned() };
        Member {
            address: address.clone(),
            host: host.to_owned(),
            port,
            place: format!("etcd at {shown}:{port}"),
            idle: Mutex::new(Vec::new()),
            login: tokio::sync::Mutex::new(LoginState::None),
            is_auth_disabled: AtomicBool::new(false),
        }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Returns true if the address has a user, and etcd reported that authentication is disabled.
    pub(super) fn is_auth_disabled(&self) -> bool {
        self.is_auth_disabled.load(Ordering::Relaxed)
    }

    /// Sends a request once, or twice if the login has expired.
    pub(super) async fn ask(&self, asking: TimedRequest) -> Result<Bytes, MemberFailure> {
        let mut tries = 0;
        loop {
            let token = self.limited(asking.connected_by, self.token(asking.connected_by)).await?;
            match self.exchange(&asking, token.as_deref()).await {
                Err(MemberFailure::LoginExpired(_)) if tries == 0 => {
                    tries = 1;
                    self.forget(token.as_ref()).await;
                }
                Err(MemberFailure::LoginExpired(text)) => return Err(MemberFailure::Refused(text)),
                answer => return answer,
            }
        }
    }

    /// Sends a request, and waits for its answer.
    async fn exchange(&self, asking: &TimedRequest, token: Option<&HeaderValue>) -> Result<Bytes, MemberFailure> {
        let mut link = self.limited(asking.connected_by, self.link()).await?;
        // A member that only takes TLS closes a connection that begins otherwise.
        let hint = match self.address.tls {
            StoreTls::No if !link.is_proven() => "; if it accepts only TLS, write tls=verify; or no etcd listens there",
            _ => "",
        };
        let request = self.request(asking, token);
        let Ok(reply) = timeout_at(asking.answer_by, link.ask(request, asking.bytes_max)).await else {
            return Err(MemberFailure::Unknown(format!("{} has not answered in time", self.place)));
        };
        let MemberReply { status, body, is_reusable } = reply.map_err(|broken| match broken {
            ExchangeError::Unsent(what) => MemberFailure::Away(format!("{} ended the connection: {what}", self.place)),
            ExchangeError::Sent(what) => {
                MemberFailure::Unknown(format!("{} ended the connection: {what}{hint}", self.place))
            }
            ExchangeError::NoCertificate(alert) => MemberFailure::Unfit(no_certificate(&self.place, &alert)),
            ExchangeError::TooLong => {
                let (path, max) = (asking.path, asking.bytes_max);
                MemberFailure::TooLong(format!("{} answered {path} with more than {max} bytes", self.place))
            }
        })?;
        if is_reusable {
            self.keep(link);
        }
        if status == 200 { Ok(body) } else { Err(failure::of_answer(self.context(asking.path), status, &body)) }
    }

    fn request(&self, asking: &TimedRequest, token: Option<&HeaderValue>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(asking.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = hyper::Uri::from_static(asking.path);
        let headers = request.headers_mut();
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if let Ok(host) = HeaderValue::try_from(format!("{host}:{}", self.port)) {
            headers.insert(HOST, host);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        request
    }

    /// Returns the token of a login if the address has a user and etcd requires one.
    async fn token(&self, by: Instant) -> Result<Option<Arc<HeaderValue>>, MemberFailure> {
        let (Some(user), false) = (&self.address.user, self.is_auth_disabled()) else { return Ok(None) };
        let mut login = self.login.lock().await;
        match &*login {
            LoginState::Token(token) => return Ok(Some(Arc::clone(token))),
            LoginState::Refused(text, until) if Instant::now() < *until => {
                return Err(MemberFailure::Refused(text.clone()));
            }
            LoginState::Refused(..) | LoginState::None => {}
        }
        let path = gateway::LOGIN;
        let password = self.address.password.as_deref().unwrap_or_default();
        let body = Bytes::from(gateway::login(user, password));
        let asking = TimedRequest { path, body, bytes_max: ANSWER_BYTES_MAX, connected_by: by, answer_by: by };
        let answer = match self.exchange(&asking, None).await {
            Err(MemberFailure::AuthDisabled(_)) => {
                self.is_auth_disabled.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            Err(MemberFailure::Refused(text)) => {
                *login = LoginState::Refused(text.clone(), Instant::now() + REFUSED_FOR);
                return Err(MemberFailure::Refused(text));
            }
            // A login changes no record.
            Err(MemberFailure::Unknown(text) | MemberFailure::TooLong(text)) => return Err(MemberFailure::Away(text)),
            answer => answer?,
        };
        let found = gateway::login_answer(&answer).ok().and_then(|token| HeaderValue::try_from(token).ok());
        let Some(mut token) = found else {
            return Err(MemberFailure::Unfit(format!("{} answered {path} without a token", self.place)));
        };
        token.set_sensitive(true);
        let token = Arc::new(token);
        *login = LoginState::Token(Arc::clone(&token));
        Ok(Some(token))
    }

    /// Clears the login, unless another request has renewed it.
    async fn forget(&self, used: Option<&Arc<HeaderValue>>) {
        self.is_auth_disabled.store(false, Ordering::Relaxed);
        let mut login = self.login.lock().await;
        if let (LoginState::Token(token), Some(used)) = (&*login, used)
            && Arc::ptr_eq(token, used)
        {
            *login = LoginState::None;
        }
    }

    /// Returns an open idle connection, or a new one.
    async fn link(&self) -> Result<MemberLink, MemberFailure> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match idle {
                None => return Box::pin(MemberLink::open(&self.address, &self.host, self.port, &self.place)).await,
                Some(mut link) => {
                    if link.is_of_this_runtime() && link.is_open().await {
                        return Ok(link);
                    }
                }
            }
        }
    }

    fn keep(&self, link: MemberLink) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(link);
        }
    }

    /// Limits a step before the request is sent; its time-out means that nothing was done.
    async fn limited<T>(
        &self,
        end: Instant,
        step: impl Future<Output = Result<T, MemberFailure>>,
    ) -> Result<T, MemberFailure> {
        match timeout_at(end, step).await {
            Ok(done) => done,
            Err(_) => Err(MemberFailure::Away(format!("{} is not reached in time", self.place))),
        }
    }

    fn context(&self, path: &'static str) -> RequestContext<'_> {
        let user = self.address.user.as_deref();
        RequestContext { place: &self.place, path, user, prefix: &self.address.prefix }
    }
}
