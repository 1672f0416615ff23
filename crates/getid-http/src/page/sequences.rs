//! `GET /v1/status/sequences`: the first sequences of the store, and the reader's rights to each. The list is that of
//! `SEQUENCE LIST`, which returns all sequences, whatever keys the user may access.

use std::sync::Arc;

use axum::Extension;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Value, json};

use super::check_info_access;
use super::document::SEQUENCES_LISTED;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::reply;

/// The most sequences that are listed.
pub(super) const LISTED_MAX: usize = 100;

pub(super) async fn sequences(
    Extension(caller): Extension<Arc<Caller>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_info_access(&caller, &headers).await?;
    let count = LISTED_MAX.to_string();
    let reply = caller.run(&headers, &[b"SEQUENCE", b"LIST", b"CURSOR", b"", b"COUNT", count.as_bytes()]).await?;
    let OwnedFrame::Array { data, .. } = &reply else { return Err(Problem::stopping()) };
    let has_more = data.first().and_then(reply::text_of).is_some_and(|next| !next.is_empty());
    let mut all = data.get(1).map_or_else(|| json!([]), |all| reply::shaped(all, &SEQUENCES_LISTED));
    caller
        .inspect(&headers, |client| {
            for one in all.as_array_mut().into_iter().flatten() {
                let may =
                    |command| one["name"].as_str().is_some_and(|name| client.may_run(command, Some(name.as_bytes())));
                let (may_count, may_raise) = (may("incr"), may("sequence|raise"));
                one["may_count"] = Value::Bool(may_count);
                one["may_raise"] = Value::Bool(may_raise);
            }
        })
        .await?;
    Ok(reply::json(StatusCode::OK, &json!({ "sequences": all, "has_more": has_more })))
}
