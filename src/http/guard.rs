//! What is refused before anybody looks at who asks: requests that a page of somebody else's may have made a browser
//! send, and clients that may not come in from where they are.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;

use super::caller::Caller;
use super::problem::Problem;
use super::router;

/// Whether a request may go on.
///
/// # Errors
///
/// The problem that it is answered with.
pub(super) fn check(request: &Request, caller: &Caller) -> Result<(), Problem> {
    let path = request.uri().path();
    let config = caller.server.config.get();
    let is_probe = router::is_probe(path);
    let is_open = (is_probe && config.http.open.probes) || (router::is_metrics(path) && config.http.open.metrics);
    let headers = request.headers();
    if !is_open {
        let default_is_open = caller.server.settings.get().users.default_user().is_nopass();
        if config.protection().turns_away(caller.origin, default_is_open) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "getid is in protected mode and has no password: it answers this machine only. Set requirepass, or \
                 protected-mode no once nobody from outside can reach this port"
                    .to_owned(),
            ));
        }
    }
    // The page has no data: its script asks for it, with a login or by a name that is known.
    let (is_page, is_of_others) = (path == "/", router::is_of_others(path));
    if !is_probe
        && !is_page
        && !is_of_others
        && !headers.contains_key("authorization")
        && !is_known_host(headers, &config.http.hosts)
    {
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "without a login, Host must be an address, localhost, or a name in http-host".to_owned(),
        ));
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes && !is_of_others {
        check_change(headers, caller)?;
    }
    Ok(())
}

/// A name that somebody else has may be made to point here, and then a page of theirs counts as ours.
fn is_known_host(headers: &HeaderMap, known: &[String]) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return true };
    let name = host_of(host).to_ascii_lowercase();
    name == "localhost" || name.parse::<IpAddr>().is_ok() || known.contains(&name)
}

/// `Host` without its port, and an IPv6 address without its brackets.
fn host_of(host: &str) -> &str {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        return address;
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// A form of another page's can be sent here, but not with a JSON body, and its browser says where it is from.
fn check_change(headers: &HeaderMap, caller: &Caller) -> Result<(), Problem> {
    if let Some(origin) = headers.get(ORIGIN) {
        let scheme = if caller.is_tls { "https" } else { "http" };
        let own = headers.get(HOST).and_then(|host| host.to_str().ok()).map(|host| format!("{scheme}://{host}"));
        if own.as_deref().map(str::as_bytes) != Some(origin.as_bytes()) {
            return Err(Problem::new(StatusCode::FORBIDDEN, "Origin is another site's".to_owned()));
        }
    }
    let is_empty = !headers.contains_key(TRANSFER_ENCODING)
        && headers.get(CONTENT_LENGTH).is_none_or(|length| length.as_bytes() == b"0");
    let is_json = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    });
    if is_empty || is_json {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "the body must be empty, or JSON with Content-Type: application/json".to_owned(),
    ))
}

/// A response with what all responses have.
pub(super) fn sealed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
