//! `/livez` and `/readyz`: one line each, for whoever starts, stops and balances servers.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use super::Http;
use super::endpoint::{Access, Answer, Endpoint, Method};
use super::openapi::TAG_SERVER;

pub(super) const ENDPOINTS: &[Endpoint] = &[LIVEZ, READYZ];

/// One line of text.
const LINE: &str = "text/plain; charset=utf-8";

const LIVEZ: Endpoint = Endpoint {
    method: Method::Get,
    path: "/livez",
    tag: TAG_SERVER,
    id: "isLive",
    summary: "Whether the process works",
    description: "",
    access: Access::Anybody,
    parameters: &[],
    body: None,
    answers: &[Answer { status: 200, media: LINE, schema: None, description: "It answers." }],
    problems: &[],
    route: |filter| on(filter, livez),
};

const READYZ: Endpoint = Endpoint {
    method: Method::Get,
    path: "/readyz",
    tag: TAG_SERVER,
    id: "isReady",
    summary: "Whether IDs are given",
    description: "",
    access: Access::Anybody,
    parameters: &[],
    body: None,
    answers: &[
        Answer { status: 200, media: LINE, schema: None, description: "They are." },
        Answer { status: 503, media: LINE, schema: None, description: "They are not, and why, in one line." },
    ],
    problems: &[],
    route: |filter| on(filter, readyz),
};

/// The process works: it answers.
async fn livez() -> &'static str {
    "ok\n"
}

/// Whether IDs are given.
async fn readyz(State(http): State<Arc<Http>>) -> (StatusCode, &'static str) {
    // At the borrow limit they are, though not to everybody at once.
    match http.server.issuer().refusing().filter(|refusal| !refusal.is_overload()) {
        None => (StatusCode::OK, "ready\n"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "no ids are given now; who logs in is told why\n"),
    }
}
