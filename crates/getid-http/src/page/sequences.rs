//! `GET /v1/status/sequences`: the first sequences of the store, and the reader's rights to each. The list is that of
//! `SEQUENCE LIST`, which returns all sequences, whatever keys the user may access.

use std::sync::Arc;

use axum::Extension;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::on;
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Value, json};

use super::status::check_info_access;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method};
use crate::openapi::TAG_SERVER;
use crate::problem::Problem;
use crate::reply;
use crate::schema::{AMOUNT, Schema, TEXT, field};

/// The most sequences that are listed.
const LISTED_MAX: usize = 100;

pub(super) const SEQUENCES: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status/sequences",
    tag: TAG_SERVER,
    id: "getStatusSequences",
    summary: "Get the first sequences of the store, and the user's rights to each",
    description: "/v1/sequences lists all of them, page by page.",
    access: EndpointAccess::Commands(&[("INFO", "always"), ("SEQUENCE LIST", "always")]),
    parameters: &[],
    body: None,
    responses: &[EndpointResponse::ok(&STATUS_SEQUENCES, "The sequences, by name.")],
    problems: &[404],
    route: |filter| on(filter, sequences),
};

const STATUS_SEQUENCES: Schema = Schema::Named(
    "StatusSequences",
    &Schema::Object(&[
        field("sequences", &LISTED, "The first sequences."),
        field("has_more", &Schema::Bool, "Whether there are more."),
    ]),
);

#[rustfmt::skip]
const LISTED: Schema = Schema::List { of: &Schema::Object(&[
    field("name", &TEXT, "Its name."),
    field("next", &Schema::OrNull(&TEXT), "The next value in the store; null if the user may not open its texts."),
    field("increment", &AMOUNT, "The distance between values."),
    field("cache", &AMOUNT, "The smallest number of values in a reservation."),
    field("ends", &Schema::OrNull(&Schema::Time), "From then on it gives no values; null if it has no end."),
    field("may_count", &Schema::Bool, "Whether the user may get its next value."),
    field("may_raise", &Schema::Bool, "Whether the user may raise it."),
]), items_max: LISTED_MAX };

async fn sequences(Extension(caller): Extension<Arc<Caller>>, headers: HeaderMap) -> Result<Response, Problem> {
    check_info_access(&caller, &headers).await?;
    let count = LISTED_MAX.to_string();
    let reply = caller.run(&headers, &[b"SEQUENCE", b"LIST", b"CURSOR", b"", b"COUNT", count.as_bytes()]).await?;
    let OwnedFrame::Array { data, .. } = &reply else { return Err(Problem::stopping()) };
    let has_more = data.first().and_then(reply::text_of).is_some_and(|next| !next.is_empty());
    let mut all = data.get(1).map_or_else(|| json!([]), |all| reply::shaped(all, &LISTED));
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
