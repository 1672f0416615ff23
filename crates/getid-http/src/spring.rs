//! Common parts of Leaf, Tinyid and CosId, whose servers are programs of Spring Boot. The error bodies are those of its
//! version 1.5, which Leaf and Tinyid have.

use std::borrow::Cow;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{ACCEPT, ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use getid_core::server::{NamedCounters, NamedGenerators, SEQUENCE_NAME_RULE, is_sequence_name};
use serde::Serialize;

use super::body::BODY_BYTES_MAX;
use super::problem::Problem;
use getid_server::Server;
use getid_server::logging::throttle::throttled;
use getid_system::clock::wall_unix_ms;
use getid_text::percent::decode_form;
use getid_text::printable::printable_up_to;

/// The longest message of this server, characters.
pub(super) const MESSAGE_CHARS_MAX: usize = 1000;

/// Characters of a name in the log.
const NAME_CHARS_MAX: usize = 64;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain;charset=UTF-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json;charset=UTF-8");

/// A body of Spring Boot's `DefaultErrorAttributes`, with its fields in their order.
#[derive(Serialize)]
struct ErrorBody<'a> {
    timestamp: i64,
    status: u16,
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception: Option<&'a str>,
    message: &'a str,
    path: &'a str,
}

/// Returns an error with Spring's body. `path` is as it was sent.
pub(super) fn error(status: StatusCode, exception: Option<&str>, message: &str, path: &str) -> Response {
    let body = ErrorBody {
        timestamp: wall_unix_ms(),
        status: status.as_u16(),
        error: status.canonical_reason().unwrap_or("Error"),
        exception,
        message,
        path,
    };
    let mut response = (status, json(&body)).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let realm = HeaderValue::from_static("Basic realm=\"getid\", charset=\"UTF-8\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, realm);
    }
    response
}

/// Returns Spring's response for an unknown path.
pub(super) fn not_found(path: &str) -> Response {
    error(StatusCode::NOT_FOUND, None, "No message available", path)
}

/// Returns the response to a missing, wrong or insufficient login, which neither Leaf nor Tinyid has. Their clients
/// treat each status but 200 as a failure, and people read the message.
pub(super) fn refused(problem: &Problem, path: &str) -> Option<Response> {
    let is_refusal = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
    let message = printable_up_to(&problem.detail, MESSAGE_CHARS_MAX);
    is_refusal.contains(&problem.status).then(|| error(problem.status, None, &message, path))
}

/// Logs a name that no sequence can have: the client only learns that there is none.
pub(super) fn log_invalid_name(server: &Server, what: &str, name: &str) {
    if !is_sequence_name(name) {
        let name = printable_up_to(name, NAME_CHARS_MAX);
        throttled!(server.throttle, UnservedName, "{what} '{name}' cannot be served: a name has {SEQUENCE_NAME_RULE}");
    }
}

/// Returns a text with Spring's content type: plain, except for a client that prefers JSON and parses a number.
pub(super) fn text(headers: &HeaderMap, body: String) -> Response {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let kind = if is_json_first(accept) { JSON } else { TEXT };
    ([(CONTENT_TYPE, kind)], body).into_response()
}

/// Whether JSON has the highest weight of the types without wildcards.
fn is_json_first(accept: &str) -> bool {
    let mut best = ("", 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse().ok()).unwrap_or(1.0);
        if !kind.is_empty() && !kind.contains('*') && quality > best.1 {
            best = (kind, quality);
        }
    }
    best.0.eq_ignore_ascii_case("application/json")
}

/// Returns a value as JSON.
pub(super) fn json(value: &impl Serialize) -> Response {
    ([(CONTENT_TYPE, JSON)], serde_json::to_vec(value).unwrap_or_default()).into_response()
}

/// Returns the response to `OPTIONS`, which calls no handler.
pub(super) fn options() -> Response {
    ([(ALLOW, HeaderValue::from_static("GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS"))], Body::empty()).into_response()
}

/// Returns the response if it depends on the method alone.
pub(super) fn of_method(method: &Method, path: &str) -> Option<Response> {
    match *method {
        Method::OPTIONS => Some(options()),
        Method::GET | Method::HEAD | Method::POST | Method::PUT | Method::PATCH | Method::DELETE => None,
        _ => {
            let mut response = error(
                StatusCode::METHOD_NOT_ALLOWED,
                Some("org.springframework.web.HttpRequestMethodNotSupportedException"),
                &format!("Request method '{method}' not supported"),
                path,
            );
            response
                .headers_mut()
                .extend([(ALLOW, HeaderValue::from_static("GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS"))]);
            Some(response)
        }
    }
}

/// Parses an integer as Spring does: without blanks, and hexadecimal behind `0x` or `#`.
pub(super) fn integer(text: &str) -> Option<i64> {
    let trimmed = without_blanks(text);
    let (sign, digits) = trimmed.strip_prefix('-').map_or(("", trimmed.as_str()), |digits| ("-", digits));
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")).or_else(|| digits.strip_prefix('#'));
    hex.map_or_else(|| trimmed.parse(), |hex| i64::from_str_radix(&format!("{sign}{hex}"), 16)).ok()
}

/// Returns the text without its white space, as an error of Spring quotes a number.
pub(super) fn without_blanks(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace()).collect()
}

/// Whether the IDs of a generator are numbers; `None` if there is no such generator.
pub(super) fn gives_numbers(name: &str, generators: &NamedGenerators, counters: &NamedCounters) -> Option<bool> {
    let generator = generators.find(name.as_bytes()).and_then(|index| generators.get(index));
    let numbers = generator.map(|(_, generator)| generator.declaration().is_integer());
    let counter = counters.find(name.as_bytes()).and_then(|index| counters.get(index));
    numbers.or_else(|| counter.map(|counter| counter.is_integer()))
}

/// A request's parameters, from the query and a form.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    all: Vec<(String, String)>,
}

impl Parameters {
    /// Parses the parameters of the query.
    pub(super) fn of_query(query: Option<&str>) -> Parameters {
        let mut parameters = Parameters::default();
        parameters.add(query.unwrap_or_default().as_bytes());
        parameters
    }

    /// Parses the parameters of the query, and then those of a form.
    pub(super) async fn of(request: Request) -> Parameters {
        let mut parameters = Parameters::of_query(request.uri().query());
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let has_form = kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
            && [Method::POST, Method::PUT, Method::PATCH].contains(request.method());
        if has_form && let Ok(form) = to_bytes(request.into_body(), BODY_BYTES_MAX).await {
            parameters.add(&form);
        }
        parameters
    }

    /// Parses `application/x-www-form-urlencoded`, without parts whose percent encoding is invalid.
    fn add(&mut self, encoded: &[u8]) {
        for part in encoded.split(|&byte| byte == b'&').filter(|part| !part.is_empty()) {
            let at = part.iter().position(|&byte| byte == b'=');
            let (name, value) = at.map_or((part, &[][..]), |at| (&part[..at], &part[at + 1..]));
            if let (Some(name), Some(value)) = (decoded(name), decoded(value)) {
                self.all.push((name, value));
            }
        }
    }

    /// Returns the first value of this name.
    pub(super) fn first(&self, name: &str) -> Option<&str> {
        self.all.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of this name, joined with commas as Spring does.
    pub(super) fn joined(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut values = self.all.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str());
        let first = values.next()?;
        Some(values.fold(Cow::Borrowed(first), |all, value| Cow::Owned(format!("{all},{value}"))))
    }
}

/// Decodes one part of a form and replaces invalid UTF-8; `None` if a `%` has no two digits after it.
fn decoded(encoded: &[u8]) -> Option<String> {
    Some(String::from_utf8_lossy(&decode_form(encoded)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_values_are_one_text_and_the_first_is_first() {
        let parameters = Parameters::of_query(Some("a=1&b&a=2&%=3&=4&&a=%2C&d+e=+%ff"));
        assert_eq!(parameters.first("a"), Some("1"));
        assert_eq!(parameters.joined("a").as_deref(), Some("1,2,,"));
        assert_eq!((parameters.first("b"), parameters.first("c"), parameters.joined("c")), (Some(""), None, None));
        assert_eq!(parameters.first("d e"), Some(" \u{fffd}"));
    }

    #[test]
    fn json_is_used_if_it_has_the_highest_weight() {
        for (accept, is_json) in [
            ("", false),
            ("*/*", false),
            ("application/json", true),
            ("application/json, application/*+json", true),
            ("text/plain, application/json, */*", false),
            ("text/plain;q=0.5, application/json;q=0.9", true),
            ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", false),
        ] {
            assert_eq!(is_json_first(accept), is_json, "{accept}");
        }
    }
}
