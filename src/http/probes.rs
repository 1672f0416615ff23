//! `/livez` and `/readyz`: one line each, for whoever starts, stops and balances servers.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use super::Http;

/// The process works: it answers.
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// Whether IDs are given.
pub(super) async fn readyz(State(http): State<Arc<Http>>) -> (StatusCode, &'static str) {
    // At the borrow limit they are, though not to everybody at once.
    match http.server.issuer().refusing().filter(|refusal| !refusal.is_overload()) {
        None => (StatusCode::OK, "ready\n"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "no ids are given now; who logs in is told why\n"),
    }
}
