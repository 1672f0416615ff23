//! Routes all paths: those of the table of endpoints, and errors for all others.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::routing::any;

use super::compat::{COSID_PATHS, LEAF_PATHS, TINYID_PATHS};
use super::endpoint::{Endpoint, HandlerState, Parameter};
use super::problem::Problem;
use super::schema::RequestBounds;
use super::state::Http;
use super::{cosid, leaf, table, tinyid};
use getid_text::printable::printable_up_to;
use getid_text::suggest::is_near;

pub(super) fn router(http: &Arc<Http>) -> Router {
    let of_row = |row: &'static Endpoint| {
        let served = HandlerState { http: Arc::clone(http), row };
        let route = (row.route)(row.method.filter()).with_state(served);
        let has_query = row.parameters.iter().any(Parameter::is_of_query);
        // The page is for people, who may follow a link to which a parameter was added.
        if has_query || row.path == "/" {
            return route;
        }
        route.layer(from_fn(move |request: Request, next: Next| async move {
            row.query(request.uri().query(), RequestBounds::default())?;
            Ok::<_, Problem>(next.run(request).await)
        }))
    };
    table::all()
        .fold(Router::new(), |router, row| router.route(row.path, of_row(row)))
        .merge(compat_routes(http))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
}

/// Returns the routes of other servers' paths that are answered here: all paths with their prefixes, since those
/// servers have their own errors.
fn compat_routes(http: &Arc<Http>) -> Router {
    let apis = &http.server.config.get().http.apis;
    let all = [
        (apis.leaf.is_some(), LEAF_PATHS, any(leaf::answer)),
        (apis.tinyid.is_some(), TINYID_PATHS, any(tinyid::answer)),
        (apis.cosid.is_some(), COSID_PATHS, any(cosid::answer)),
    ];
    let mut router = Router::new();
    for (path, answer) in all
        .into_iter()
        .filter(|(is_on, ..)| *is_on)
        .flat_map(|(_, paths, answer)| paths.iter().map(move |path| (*path, answer.clone())))
    {
        if path.ends_with('/') {
            router = router.route(&format!("{path}{{*rest}}"), answer.clone());
        }
        router = router.route(path, answer);
    }
    router.with_state(Arc::clone(http))
}

async fn not_found(uri: Uri) -> Problem {
    let hint = hint(uri.path()).unwrap_or_default();
    let detail = format!("unknown path{hint}; /openapi.json lists all paths");
    Problem::new(StatusCode::NOT_FOUND, detail)
}

/// Returns what was probably meant by an unknown path.
fn hint(path: &str) -> Option<String> {
    // The most frequent mistake.
    if let Some(shorter) = path.strip_suffix('/').filter(|shorter| table::is_known(shorter)) {
        return Some(format!(": use {}", printable_up_to(shorter, PATH_CHARS_MAX)));
    }
    // A missing name, as in POST /v1/ids.
    let path = path.strip_suffix('/').unwrap_or(path);
    let meant = table::all()
        .find(|row| row.continues(path))
        .or_else(|| table::all().find(|row| is_near_path(path, row.path)))?;
    let known: Vec<_> = table::all().filter(|row| row.path == meant.path).map(requests).collect();
    Some(format!(": use {}", known.join(" or ")))
}

/// Characters of a path that an error quotes.
const PATH_CHARS_MAX: usize = 200;

/// Describes an endpoint for an error: `POST /v1/ids/{name} (get IDs of a generator)`.
fn requests(row: &Endpoint) -> String {
    let mut summary = row.summary.to_owned();
    // A summary is a few words in ASCII, and none begins with a name.
    if let Some(first) = summary.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    format!("{} {} ({summary})", row.method.word().to_ascii_uppercase(), row.path)
}

/// Whether each part of a path equals or resembles that of the endpoint; a name may be any.
fn is_near_path(path: &str, known: &str) -> bool {
    let same_length = path.split('/').count() == known.split('/').count();
    let are_near = |(part, known): (&str, &str)| part == known || known.starts_with('{') || is_near(part, known);
    same_length && path.len() <= PATH_CHARS_MAX && path.split('/').zip(known.split('/')).all(are_near)
}

async fn not_allowed(method: Method, uri: Uri) -> Problem {
    let rows = table::all().filter(|row| row.has_path(uri.path())).map(requests);
    let supported = rows.collect::<Vec<_>>().join(" and ");
    let detail = format!(
        "this path does not support {}; it supports {supported}; /openapi.json describes each",
        method.as_str()
    );
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
}
