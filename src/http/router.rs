//! All paths: those of the table of endpoints, and what is said of all others.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::routing::any;

use super::endpoint::{self, Endpoint, Place, Served};
use super::problem::Problem;
use super::schema::Bounds;
use super::{Http, leaf, tinyid};

pub(super) fn router(http: &Arc<Http>) -> Router {
    let of_row = |row: &'static Endpoint| {
        let served = Served { http: Arc::clone(http), row };
        let route = (row.route)(row.method.filter()).with_state(served);
        let has_query = row.parameters.iter().any(|parameter| parameter.place != Place::Path);
        // The page is for people, who may come by a link that somebody has added words to.
        if has_query || row.path == "/" {
            return route;
        }
        route.layer(from_fn(move |request: Request, next: Next| async move {
            row.query(request.uri().query(), Bounds::default())?;
            Ok::<_, Problem>(next.run(request).await)
        }))
    };
    endpoint::all()
        .fold(Router::new(), |router, row| router.route(row.path, of_row(row)))
        .merge(of_others(http))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
}

/// The paths of other servers that are answered here: all that begins as they do, with their own words for what there
/// is not. They are not in the table, and so not in /openapi.json: their own documents say what they do.
fn of_others(http: &Arc<Http>) -> Router {
    let mut router = Router::new();
    let apis = &http.server.config.get().http.apis;
    if apis.leaf.is_some() {
        for path in ["/api/", "/api/{*rest}", "/decodeSnowflakeId", "/decodeSnowflakeId/"] {
            router = router.route(path, any(leaf::answer));
        }
    }
    if apis.tinyid.is_some() {
        for path in ["/tinyid/", "/tinyid/{*rest}"] {
            router = router.route(path, any(tinyid::answer));
        }
    }
    router.with_state(Arc::clone(http))
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
    path.starts_with("/api/") || path.starts_with("/tinyid/") || path.starts_with("/decodeSnowflakeId")
}

async fn not_found(uri: Uri) -> Problem {
    let path = uri.path();
    // The one mistake that is made again and again.
    let shorter = path.strip_suffix('/').filter(|shorter| endpoint::all().any(|row| row.path == *shorter));
    let hint = shorter.map_or_else(String::new, |shorter| format!(", but at {shorter}"));
    let detail = format!("there is nothing at this path{hint}; /openapi.json says what there is");
    Problem::new(StatusCode::NOT_FOUND, detail)
}

async fn not_allowed(method: Method) -> Problem {
    let detail = format!("this path does not take {}; /openapi.json says what it takes", method.as_str());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}
