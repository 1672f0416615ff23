//! All paths, and what answers them.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::routing::{get, post};

use super::problem::Problem;
use super::{Http, ids, probes};

pub(super) fn router(http: Arc<Http>) -> Router {
    Router::new()
        .route("/livez", get(probes::livez))
        .route("/readyz", get(probes::readyz))
        .route("/v1/ids/{name}", post(ids::draw))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .with_state(http)
}

/// Whether it is a probe's.
pub(super) fn is_probe(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz")
}

pub(super) fn is_metrics(path: &str) -> bool {
    path == "/metrics"
}

/// Whether it is a path of another server's, whose clients know nothing of ours.
pub(super) fn is_of_others(path: &str) -> bool {
    path.starts_with("/api/") || path.starts_with("/tinyid/") || path == "/decodeSnowflakeId"
}

async fn not_found() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is nothing at this path; /openapi.json says what there is".to_owned())
}

async fn not_allowed(method: Method) -> Problem {
    let detail = format!("this path does not take {}; /openapi.json says what it takes", method.as_str());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}
