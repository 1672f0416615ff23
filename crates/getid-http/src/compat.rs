//! Paths of other ID servers, and the callers of requests to them (`http-api`).
//!
//! Those servers define their paths, so they are not in the table of endpoints, nor in `/openapi.json`.

use axum::http::HeaderMap;

use super::caller::Caller;
use super::problem::Problem;
use super::reply::ReplyFrame;

/// The paths of Leaf. One that ends with `/` stands for all paths that begin with it, as in the lists below.
pub(super) const LEAF_PATHS: &[&str] = &["/api/", "/decodeSnowflakeId", "/decodeSnowflakeId/"];

/// The paths of Tinyid.
pub(super) const TINYID_PATHS: &[&str] = &["/tinyid/"];

/// The paths of CosId's proxy server.
pub(super) const COSID_PATHS: &[&str] = &["/segments/", "/machines/", "/ids", "/ids/"];

/// Whether a path is one of these.
pub(super) fn is_of(path: &str, paths: &[&str]) -> bool {
    paths.iter().any(|own| if own.ends_with('/') { path.starts_with(own) } else { path == *own })
}

/// The caller of a request to another server's path, with its headers and the user of `http-api`.
pub(super) struct CompatCaller<'a> {
    pub(super) connection: &'a Caller,
    pub(super) user: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
}

impl CompatCaller<'_> {
    /// Runs a command as the user, or else as that of the headers.
    pub(super) async fn run(&self, args: &[&[u8]]) -> Result<ReplyFrame, Problem> {
        self.connection.run_as(self.user, self.headers, args).await
    }
}
