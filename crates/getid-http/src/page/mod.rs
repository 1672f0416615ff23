//! The page for people (`GET /`) and its data: `GET /v1/status` once, `GET /v1/status/stream` continuously.
//!
//! The page is one file without data, for every client that may connect. Its script requests the data with the reader's
//! login, which requires the right to `INFO`. A generator, the log and the claims of a fleet require rights of their
//! own.
//!
//! Invariant: outside text (names, addresses, a database's messages) is only in the JSON, never in the HTML, and the
//! script makes text nodes of it. The page's content security policy forbids scripts everything else.

mod sequences;
mod status;
mod stream;

use std::sync::LazyLock;

use axum::http::header::{CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::on;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

use super::coding::StaticText;
use super::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method};
use super::openapi::TAG_SERVER;

pub(super) const ENDPOINTS: &[Endpoint] =
    &[PAGE, status::ONCE, stream::STREAM, status::DETAILS, status::GENERATOR, sequences::SEQUENCES];

/// The page's file.
const HTML: &str = include_str!("index.html");

const PAGE: Endpoint = Endpoint {
    method: Method::Get,
    path: "/",
    tag: TAG_SERVER,
    id: "getPage",
    summary: "Open the page",
    description: "The page has no data: its script requests the stream, with the login of its user.",
    access: EndpointAccess::Public,
    parameters: &[],
    body: None,
    responses: &[EndpointResponse {
        status: 200,
        media: "text/html; charset=utf-8",
        schema: None,
        description: "The page.",
    }],
    problems: &[],
    route: |filter| on(filter, page),
};

/// Serves `GET /`.
async fn page(request: HeaderMap) -> Response {
    static TEXT: LazyLock<StaticText> = LazyLock::new(|| StaticText::new("text/html; charset=utf-8", HTML));
    static POLICY: LazyLock<HeaderValue> = LazyLock::new(policy);
    let headers = [
        (CONTENT_SECURITY_POLICY, POLICY.clone()),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ];
    (headers, TEXT.response(&request)).into_response()
}

/// Returns the policy that allows the page's style and script by their hashes, requests to this server, and nothing
/// else.
fn policy() -> HeaderValue {
    let hash = |tag: &str| STANDARD.encode(digest(&SHA256, inside(HTML, tag).as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
        hash("style"),
        hash("script")
    );
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

/// Returns the content of the first element of this name.
fn inside<'a>(html: &'a str, tag: &str) -> &'a str {
    let (_, from) = html.split_once(&format!("<{tag}>")).unwrap_or_default();
    from.split_once(&format!("</{tag}>")).unwrap_or_default().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_style_and_one_script_and_requests_only_this_server() {
        for tag in ["style", "script"] {
            assert_eq!(HTML.matches(&format!("<{tag}")).count(), 1, "{tag}");
            assert!(inside(HTML, tag).len() > 1000, "{tag}");
        }
        // Constructs that the policy forbids, or that would send a request elsewhere.
        for forbidden in
            [" style=\"", " onclick", "innerHTML", "insertAdjacent", "document.write", "eval(", "//cdn", "url(h"]
        {
            assert!(!HTML.contains(forbidden), "{forbidden}");
        }
        let addresses: Vec<_> = HTML.match_indices("://").map(|(at, _)| &HTML[at..(at + 40).min(HTML.len())]).collect();
        // Known addresses are a name of XML and the address of a Redis port, to copy.
        let is_known = |from: &&str| from.starts_with("://www.w3.org/2000/svg") || from.starts_with("://${user}");
        assert!(addresses.iter().all(is_known), "{addresses:?}");
    }

    #[test]
    fn the_policy_allows_by_hash_only() {
        let policy = policy();
        let policy = policy.to_str().expect("text");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(policy.matches("'sha256-").count(), 2, "{policy}");
        assert_eq!((inside("<a>x</a><a>y</a>", "a"), inside("<b>", "a")), ("x", ""));
    }
}
