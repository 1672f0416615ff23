//! Refuses requests before the caller is known: requests that a browser may have sent for another site's page, and
//! clients that may not connect from where they are.
//!
//! A foreign page can make a browser send requests here in two ways. It can send them across sites. Then the browser
//! names their origin (`Origin`, `Sec-Fetch-Site`), and sends no JSON without a permission that this server never
//! gives. Or the page's name can be made to resolve to this server, so that both count as one site. Then `Host` is that
//! name.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use hyper::body::Body as _;

use super::caller::Caller;
use super::compat::{COSID_PATHS, LEAF_PATHS, TINYID_PATHS, is_of};
use super::credentials::Credentials;
use super::problem::Problem;
use getid_config::Config;
use getid_text::printable::printable_up_to;

/// The header in which a browser names the relation of the page's site to this one.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Checks whether a request may proceed.
///
/// # Errors
///
/// The problem that is the response.
pub(super) fn check(request: &Request, caller: &Caller) -> Result<(), Problem> {
    let path = request.uri().path();
    check_method(request.method(), path)?;
    let config = caller.server.config.get();
    let is_probe = matches!(path, "/livez" | "/readyz");
    let is_open = (is_probe && config.http.open.probes) || (path == "/metrics" && config.http.open.metrics);
    let headers = request.headers();
    if !is_open {
        check_protection(&config, caller)?;
    }
    // The page has no data: its script requests them, with a login or by a known name.
    let (is_page, is_exempt) = (path == "/", is_compat_path(path) && !is_by_page(path, headers));
    if !is_probe && !is_page && !is_exempt {
        check_host(headers, &config, caller)?;
    }
    if !is_exempt {
        check_coding(headers, request.body().is_end_stream())?;
    }
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    if is_change && !is_exempt {
        check_change(headers, request.body().is_end_stream(), &config.http.hosts)?;
    }
    Ok(())
}

/// Whether this is a path of another server, whose clients do not know this API.
pub(super) fn is_compat_path(path: &str) -> bool {
    [LEAF_PATHS, TINYID_PATHS, COSID_PATHS].into_iter().any(|paths| is_of(path, paths))
}

/// Whether a page sent a request to a path that only programs use. CosId's paths decide who has a machine id, and its
/// programs send no `Origin`, which browsers add to each change.
fn is_by_page(path: &str, headers: &HeaderMap) -> bool {
    is_of(path, COSID_PATHS) && (headers.contains_key(ORIGIN) || headers.contains_key(SEC_FETCH_SITE))
}

/// Refuses methods that ask about the server or a way through it, and not about a path. With `OPTIONS` a browser asks
/// whether a foreign page may send a request. Paths of other servers answer as those do.
fn check_method(method: &Method, path: &str) -> Result<(), Problem> {
    let is_refused = matches!(*method, Method::TRACE | Method::CONNECT | Method::OPTIONS);
    if !is_refused || is_compat_path(path) {
        return Ok(());
    }
    let detail = format!("the method {method} is not supported; /openapi.json lists the methods of each path");
    Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail))
}

/// Checks a request that [`check`] let pass only because its path is open.
///
/// # Errors
///
/// The problem that is the response.
pub(super) fn check_admission(headers: &HeaderMap, caller: &Caller) -> Result<(), Problem> {
    let config = caller.server.config.get();
    check_protection(&config, caller)?;
    check_host(headers, &config, caller)
}

fn check_protection(config: &Config, caller: &Caller) -> Result<(), Problem> {
    let default_is_open = || caller.server.settings.get().users.default_user().is_nopass();
    if !config.protection().refuses_connection(caller.origin, true) || !default_is_open() {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::FORBIDDEN,
        "getid is in protected mode and has no password: it answers only clients on this machine, whatever the value \
         of http-bind. Set requirepass; or set bind, to give IDs to other machines without a password; or set \
         protected-mode no if this port cannot be reached from outside"
            .to_owned(),
    ))
}

fn check_host(headers: &HeaderMap, config: &Config, caller: &Caller) -> Result<(), Problem> {
    if is_known_host(headers, &config.http.hosts) || has_secret_login(headers, caller) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "without a login, Host must be an address, localhost, or a name in http-host".to_owned(),
    ))
}

/// Whether the host is known. A foreign name may be made to resolve to this server, and then its pages count as this
/// server's.
fn is_known_host(headers: &HeaderMap, known: &[String]) -> bool {
    // HTTP/1.0 may omit the field; a browser's requests never do.
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = host_of(host);
    let name = name.strip_suffix('.').unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || known.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns `Host` without its port, and an IPv6 address without its brackets.
fn host_of(host: &str) -> &str {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        return address;
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

/// Whether the request has a password that its user requires, or a certificate. A user without a password proves
/// nothing: a foreign page could log in too.
fn has_secret_login(headers: &HeaderMap, caller: &Caller) -> bool {
    let Some(login) = headers.get(AUTHORIZATION) else { return caller.certificate_user.is_some() };
    let Ok(Credentials { user, .. }) = Credentials::read(login.as_bytes()) else { return false };
    // For a user that does not exist no password is right either.
    !caller.server.settings.get().users.get(user.as_bytes()).is_some_and(|user| user.is_nopass())
}

/// Refuses changes by foreign pages. A foreign form can be sent here, but without a JSON body, and the browser names
/// its origin.
fn check_change(headers: &HeaderMap, is_empty: bool, known: &[String]) -> Result<(), Problem> {
    let is_cross_site = headers.get(ORIGIN).is_some_and(|origin| !is_own_origin(origin, headers.get(HOST), known))
        || headers.get(SEC_FETCH_SITE).is_some_and(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"));
    if is_cross_site {
        let detail = "the request is from a page of another site: its Origin is not this server's";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail.to_owned()));
    }
    let is_json = || {
        headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
            kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
        })
    };
    if is_empty || is_json() {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "the body must be empty, or JSON with Content-Type: application/json".to_owned(),
    ))
}

/// Refuses compressed bodies, which this server does not decode.
fn check_coding(headers: &HeaderMap, is_empty: bool) -> Result<(), Problem> {
    if is_empty {
        return Ok(());
    }
    let is_coded = |coding: &HeaderValue| !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    match headers.get_all(CONTENT_ENCODING).iter().find(|coding| is_coded(coding)) {
        None => Ok(()),
        Some(coding) => {
            let coding = printable_up_to(&String::from_utf8_lossy(coding.as_bytes()), CODING_CHARS_MAX);
            let detail =
                format!("the body has the Content-Encoding '{coding}', which is not supported; send it uncompressed");
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
        }
    }
}

/// Characters of a content coding that an error quotes.
const CODING_CHARS_MAX: usize = 40;

/// Whether an origin is this server's: its host and port are those of `Host`, or its host is in `http-host`. The scheme
/// is ignored, and in the second case the port too: a proxy in front may end TLS and have its own port.
fn is_own_origin(origin: &HeaderValue, host: Option<&HeaderValue>, known: &[String]) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    let Some(own) = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) else { return false };
    let is_host = host.and_then(|host| host.to_str().ok()).is_some_and(|host| own.eq_ignore_ascii_case(host));
    is_host || known.iter().any(|known| known.eq_ignore_ascii_case(host_of(own)))
}

/// Adds the header fields that all responses have.
pub(super) fn with_security_headers(mut response: Response) -> Response {
    let is_refused_method = response.status() == StatusCode::METHOD_NOT_ALLOWED;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if is_refused_method {
        // The path's methods if the router set them; else all methods of the port.
        headers.entry(ALLOW).or_insert(HeaderValue::from_static("GET, HEAD, POST, PATCH"));
    }
    response
}
