//! IDs: `POST /v1/ids/{name}?count=n`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, RawQuery};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use redis_protocol::resp3::types::OwnedFrame;

use super::caller::Caller;
use super::problem::Problem;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// `count` IDs of the generator `name`; `-` is the unnamed one: `{"ids":["..."]}`.
pub(super) async fn draw(
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    Extension(caller): Extension<Arc<Caller>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let count = query.as_deref().and_then(|query| query.strip_prefix("count=")).unwrap_or("1");
    let mut args: Vec<&[u8]> = vec![b"MGETID", count.as_bytes()];
    if name != "-" {
        args.push(name.as_bytes());
    }
    let reply = caller.ask(&headers, &args).await?;
    let OwnedFrame::Array { data, .. } = reply else {
        return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "no array".to_owned()));
    };
    let ids: Vec<_> = data
        .into_iter()
        .map(|id| match id {
            OwnedFrame::BlobString { data, .. } => String::from_utf8_lossy(&data).into_owned(),
            OwnedFrame::Number { data, .. } => data.to_string(),
            _ => String::new(),
        })
        .collect();
    let body = serde_json::json!({ "ids": ids }).to_string();
    Ok(([(CONTENT_TYPE, JSON)], body).into_response())
}
