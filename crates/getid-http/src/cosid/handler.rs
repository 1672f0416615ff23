//! The caller of a request, whose commands the requests become.

use axum::http::HeaderMap;

use crate::caller::Caller;
use crate::problem::Problem;
use crate::reply::ReplyFrame;

/// The caller of a request, with its headers and the configured user.
pub(super) struct CosidHandler<'a> {
    pub(super) caller: &'a Caller,
    pub(super) user: Option<&'a str>,
    pub(super) headers: &'a HeaderMap,
}

impl CosidHandler<'_> {
    pub(super) async fn run(&self, args: &[&[u8]]) -> Result<ReplyFrame, Problem> {
        self.caller.run_as(self.user, self.headers, args).await
    }
}
