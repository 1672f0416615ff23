//! Extractors of handlers: a request with its caller, and the parameters of its path.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};

use serde_json::{Map, Value};

use super::caller::Caller;
use super::endpoint::{Endpoint, HandlerState, KEPT_FOR};
use super::guard;
use super::idempotency::{self, KeyUnderWay};
use super::problem::Problem;
use super::query::Query;
use super::reply::ReplyFrame;
use super::schema::RequestBounds;
use getid_server::connection::LocalReply;
use getid_text::printable::printable_up_to;

/// A request's caller, its endpoint, headers and query.
pub(super) struct ApiRequest {
    pub(super) caller: Arc<Caller>,
    row: &'static Endpoint,
    bounds: RequestBounds,
    headers: HeaderMap,
    uri: Uri,
}

impl ApiRequest {
    /// Creates it from the parts of a request to this endpoint.
    pub(super) fn new(headers: HeaderMap, uri: Uri, row: &'static Endpoint, caller: Arc<Caller>) -> ApiRequest {
        let bounds = RequestBounds::of(&caller.server.config.get());
        ApiRequest { caller, row, bounds, headers, uri }
    }

    /// Returns the configured bounds at the time of the request.
    pub(super) fn bounds(&self) -> RequestBounds {
        self.bounds
    }

    /// Returns the header fields of the request.
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Parses the query.
    ///
    /// # Errors
    ///
    /// 400 for a parameter that is unknown, wrong, missing or repeated.
    pub(super) fn query(&self) -> Result<Query, Problem> {
        self.row.query(self.uri.query(), self.bounds())
    }

    /// Parses the JSON body and returns its fields; none for an empty body.
    ///
    /// # Errors
    ///
    /// 413 for a body that is too large, 400 for any other fault of it.
    pub(super) async fn body(&self, body: Body) -> Result<Map<String, Value>, Problem> {
        self.row.body(body, self.bounds()).await
    }

    /// Parses the header `Idempotency-Key`; `None` without it.
    ///
    /// # Errors
    ///
    /// 400 for a header that is not one key.
    pub(super) fn idempotency_key(&self) -> Result<Option<String>, Problem> {
        idempotency::key_of(&self.headers)
    }

    /// Returns the words of a command for the key of the request and the parameter `for` of its query: `REQUEST key`,
    /// or `REQUEST key FOR seconds`; none without a key.
    ///
    /// # Errors
    ///
    /// 400 for a header that is not one key, and for `for` without a key.
    pub(super) fn request_words(&self, query: &Query) -> Result<Vec<String>, Problem> {
        let kept_for = query.number(KEPT_FOR.name).map(|seconds| ["FOR".to_owned(), seconds.to_string()]);
        match (self.idempotency_key()?, kept_for) {
            (Some(key), kept_for) => {
                Ok(["REQUEST".to_owned(), key].into_iter().chain(kept_for.into_iter().flatten()).collect())
            }
            (None, None) => Ok(Vec::new()),
            (None, Some(_)) => {
                let detail = "'for' of the query keeps the answer of an Idempotency-Key, and the request has none; \
                              send both or none";
                Err(Problem::bad(detail.to_owned()))
            }
        }
    }

    /// Marks a key of the caller as under way until the returned value is dropped. `name` is the generator or the
    /// sequence that gives the IDs.
    ///
    /// # Errors
    ///
    /// 409 if a request of the same key is under way; a problem if the login is wrong or the server stops.
    pub(super) async fn begin_key(&self, name: &str, key: &str) -> Result<KeyUnderWay, Problem> {
        self.caller.begin_key(&self.headers, name, key).await
    }

    /// Checks whether the caller may use a protected path; for handlers of open paths.
    ///
    /// # Errors
    ///
    /// Those of the guard for a path that is not open.
    pub(super) fn check_admission(&self) -> Result<(), Problem> {
        guard::check_admission(&self.headers, &self.caller)
    }

    /// Whether the caller is logged in, or needs no login.
    ///
    /// # Errors
    ///
    /// A problem if the login is wrong or the server stops.
    pub(super) async fn is_logged_in(&self) -> Result<bool, Problem> {
        self.caller.is_logged_in(&self.headers).await
    }

    /// Runs a command as the caller and returns its reply.
    ///
    /// # Errors
    ///
    /// A problem if the login is wrong, the reply is an error, or the server stops.
    pub(super) async fn run(&self, args: &[&[u8]]) -> Result<ReplyFrame, Problem> {
        self.caller.run(&self.headers, args).await
    }

    /// Runs a command as the caller and returns its reply as RESP, errors included.
    ///
    /// # Errors
    ///
    /// A problem if the login is wrong or the server stops.
    pub(super) async fn run_bytes(&self, request: &[u8]) -> Result<LocalReply, Problem> {
        self.caller.run_bytes(&self.headers, request).await
    }
}

impl FromRequestParts<HandlerState> for ApiRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<ApiRequest, Problem> {
        // The router stores the caller in each request's extensions.
        let caller = parts.extensions.get::<Arc<Caller>>().cloned().ok_or_else(Problem::stopping)?;
        let (headers, uri) = (std::mem::take(&mut parts.headers), std::mem::take(&mut parts.uri));
        Ok(ApiRequest::new(headers, uri, state.row, caller))
    }
}

/// The path's only parameter.
pub(super) struct PathName(pub(super) String);

impl FromRequestParts<HandlerState> for PathName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<PathName, Problem> {
        let values = path_values(parts, state).await?;
        state.row.check_path(&values)?;
        let [name] = values;
        Ok(PathName(name))
    }
}

/// The path's parameters of a pool of worker ids and one worker id.
pub(super) struct WorkerIdPath {
    pub(super) pool: String,
    pub(super) id: String,
}

impl FromRequestParts<HandlerState> for WorkerIdPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<WorkerIdPath, Problem> {
        let [pool, id] = path_values(parts, state).await?;
        state.row.check_path(std::slice::from_ref(&pool))?;
        if id.len() > ID_BYTES_MAX || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            let shown = printable_up_to(&id, 40);
            return Err(Problem::bad(format!("'{shown}' in the path is not a worker id, expected a number")));
        }
        Ok(WorkerIdPath { pool, id })
    }
}

/// The path's two parameters: a generator's name, and an ID or a text.
pub(super) struct PathPair(pub(super) [String; 2]);

impl FromRequestParts<HandlerState> for PathPair {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &HandlerState) -> Result<PathPair, Problem> {
        let values = path_values(parts, state).await?;
        state.row.check_path(&values)?;
        Ok(PathPair(values))
    }
}

/// Returns the decoded parameters of the path.
async fn path_values<const COUNT: usize>(parts: &mut Parts, state: &HandlerState) -> Result<[String; COUNT], Problem> {
    let params = RawPathParams::from_request_parts(parts, state).await;
    let values: Vec<_> = params.iter().flat_map(|params| params.iter()).map(|(_, value)| value.to_owned()).collect();
    values.try_into().map_err(|_| invalid_path())
}

fn invalid_path() -> Problem {
    Problem::bad("the path is invalid: % needs two hex digits after it, and the decoded path must be UTF-8".to_owned())
}

/// The longest digits that are accepted for a worker id, more than any worker id has.
const ID_BYTES_MAX: usize = 10;
