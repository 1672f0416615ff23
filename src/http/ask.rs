//! What handlers take of a request.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};

use serde_json::{Map, Value};

use super::caller::Caller;
use super::endpoint::{Endpoint, Served};
use super::guard;
use super::problem::Problem;
use super::query::Query;
use super::reply::Reply;
use super::schema::Bounds;
use crate::text::printable::printable_up_to;

/// Who asks, and how.
pub(super) struct Ask {
    pub(super) caller: Arc<Caller>,
    row: &'static Endpoint,
    bounds: Bounds,
    headers: HeaderMap,
    uri: Uri,
}

impl Ask {
    /// What these parts of a request for this endpoint say.
    pub(super) fn new(headers: HeaderMap, uri: Uri, row: &'static Endpoint, caller: Arc<Caller>) -> Ask {
        let bounds = Bounds::of(&caller.server.config.get());
        Ask { caller, row, bounds, headers, uri }
    }

    /// What the configuration bounded when the request came.
    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// What the request's head says beside its first line.
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// What the query says.
    ///
    /// # Errors
    ///
    /// 400 for a parameter that is unknown, wrong, missing or there twice.
    pub(super) fn query(&self) -> Result<Query, Problem> {
        self.row.query(self.uri.query(), self.bounds())
    }

    /// The fields of the body, which is JSON; none of one that is empty.
    ///
    /// # Errors
    ///
    /// 413 for a body that is too large, 400 for all else that is wrong with it.
    pub(super) async fn body(&self, body: Body) -> Result<Map<String, Value>, Problem> {
        self.row.body(body, self.bounds()).await
    }

    /// Whether whoever asks may do what needs a login, for a path that is open.
    ///
    /// # Errors
    ///
    /// What the guard says of any other path.
    pub(super) fn check_admission(&self) -> Result<(), Problem> {
        guard::check_admission(&self.headers, &self.caller)
    }

    /// Whether whoever asks is logged in, or needs no login.
    ///
    /// # Errors
    ///
    /// A problem for a login that is wrong, or a server that stops.
    pub(super) async fn is_logged_in(&self) -> Result<bool, Problem> {
        self.caller.is_logged_in(&self.headers).await
    }

    /// The reply to a command by whoever asks.
    ///
    /// # Errors
    ///
    /// A problem for a login that is wrong, an error reply, or a server that stops.
    pub(super) async fn run(&self, args: &[&[u8]]) -> Result<Reply, Problem> {
        self.caller.ask(&self.headers, args).await
    }

    /// The same as bytes of RESP, errors included.
    ///
    /// # Errors
    ///
    /// A problem for a login that is wrong, or a server that stops.
    pub(super) async fn run_bytes(&self, request: &[u8]) -> Result<Vec<u8>, Problem> {
        self.caller.ask_bytes(&self.headers, request).await
    }
}

impl FromRequestParts<Served> for Ask {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, served: &Served) -> Result<Ask, Problem> {
        // It was put in when the request came.
        let caller = parts.extensions.get::<Arc<Caller>>().cloned().ok_or_else(Problem::stopping)?;
        let (headers, uri) = (std::mem::take(&mut parts.headers), std::mem::take(&mut parts.uri));
        Ok(Ask::new(headers, uri, served.row, caller))
    }
}

/// What stands in the path for the only name in braces.
pub(super) struct Name(pub(super) String);

impl FromRequestParts<Served> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, served: &Served) -> Result<Name, Problem> {
        let params = RawPathParams::from_request_parts(parts, served).await;
        let name = params.as_ref().ok().and_then(|params| params.iter().next()).map(|(_, name)| name.to_owned());
        let name = name.ok_or_else(|| {
            Problem::bad("the path is wrong: behind % are two hex digits, and all is UTF-8 in the end".to_owned())
        })?;
        served.row.check_name(&name)?;
        Ok(Name(name))
    }
}

/// What stands in the path for a pool of worker ids, and for one of them.
pub(super) struct PoolAndId {
    pub(super) pool: String,
    pub(super) id: String,
}

impl FromRequestParts<Served> for PoolAndId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, served: &Served) -> Result<PoolAndId, Problem> {
        let params = RawPathParams::from_request_parts(parts, served).await;
        let found: Vec<_> = params.iter().flat_map(|params| params.iter()).map(|(_, value)| value.to_owned()).collect();
        let [pool, id] = <[String; 2]>::try_from(found).map_err(|_| {
            Problem::bad("the path is wrong: behind % are two hex digits, and all is UTF-8 in the end".to_owned())
        })?;
        served.row.check_name(&pool)?;
        if id.len() > ID_BYTES_MAX || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            let shown = printable_up_to(&id, 40);
            return Err(Problem::bad(format!("'{shown}' in the path is no worker id, expected a number")));
        }
        Ok(PoolAndId { pool, id })
    }
}

/// Digits of a worker id, and a few too many.
const ID_BYTES_MAX: usize = 10;
