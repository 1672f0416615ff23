//! Failures, as bodies of CosId's `ErrorResponse`.
//!
//! CosId's programs know the codes `M-01` to `M-03`. Its server answers all other mistakes by the code 500: with status
//! 400 if a value is refused, else with status 500, also for those that Spring finds.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use crate::problem::Problem;
use crate::spring::MESSAGE_CHARS_MAX;
use getid_text::printable::printable_up_to;

/// Characters of a parameter, a name or a path that an error quotes.
const QUOTED_CHARS_MAX: usize = 64;

/// `code` of a failure without a code of its own.
const UNKNOWN: &str = "500";

/// Why a request failed: the status, and the fields of CosId's `ErrorResponse`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CosidFailure {
    status: StatusCode,
    code: Cow<'static, str>,
    message: String,
}

impl CosidFailure {
    fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, message: &str) -> CosidFailure {
        CosidFailure { status, code: code.into(), message: printable_up_to(message, MESSAGE_CHARS_MAX) }
    }

    /// Returns the failure of a refused value, Java's `IllegalArgumentException`.
    pub(super) fn invalid(message: &str) -> CosidFailure {
        CosidFailure::new(StatusCode::BAD_REQUEST, UNKNOWN, message)
    }

    /// Returns the failure of any other exception.
    pub(super) fn other(message: &str) -> CosidFailure {
        CosidFailure::new(StatusCode::INTERNAL_SERVER_ERROR, UNKNOWN, message)
    }

    /// Returns a failure that CosId's programs know by its code.
    pub(super) fn known(code: &'static str, message: &str) -> CosidFailure {
        CosidFailure::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(super) fn of_path(path: &str) -> CosidFailure {
        CosidFailure::other(&format!("404 NOT_FOUND \"No static resource {}.\"", quoted(path.trim_start_matches('/'))))
    }

    pub(super) fn of_method(method: &Method, supported: &str) -> CosidFailure {
        let reason = format!("\"Request method '{}' is not supported.\"", quoted(method.as_str()));
        CosidFailure::other(&format!("405 METHOD_NOT_ALLOWED {reason} This path supports {supported}"))
    }

    pub(super) fn missing(parameter: &str) -> CosidFailure {
        CosidFailure::other(&format!("400 BAD_REQUEST \"Required query parameter '{parameter}' is not present.\""))
    }

    /// Returns the failure of a parameter of another type.
    pub(super) fn mismatch(parameter: &str, found: &str, expected: &str) -> CosidFailure {
        let found = quoted(found);
        CosidFailure::other(&format!("400 BAD_REQUEST \"Type mismatch.\" {parameter} is '{found}', must be {expected}"))
    }

    /// Returns the failure of a reply that no command has.
    pub(super) fn unexpected() -> CosidFailure {
        CosidFailure::other("a reply has an unknown form; this is a bug of getid, report it")
    }

    pub(super) fn response(self) -> Response {
        let body = CosidErrorBody { code: &self.code, msg: &self.message, errors: [] };
        // The status alone decides the headers of a problem.
        let mut response = Problem::new(self.status, String::new()).into_response();
        *response.body_mut() = Body::from(serde_json::to_vec(&body).unwrap_or_default());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

impl From<Problem> for CosidFailure {
    /// Keeps the status of what CosId's server does not have: logins, rights, and servers that wait or stop.
    fn from(problem: Problem) -> CosidFailure {
        let (status, message) = (problem.status, problem.detail.as_str());
        match status {
            StatusCode::BAD_REQUEST => CosidFailure::invalid(message),
            StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE => CosidFailure::new(status, status.as_str().to_owned(), message),
            _ => CosidFailure::other(message),
        }
    }
}

/// Returns a client's text as a message quotes it.
pub(super) fn quoted(text: &str) -> String {
    printable_up_to(text, QUOTED_CHARS_MAX)
}

/// A body of CosId's `ErrorResponse`, with its fields in their order.
#[derive(Serialize)]
struct CosidErrorBody<'a> {
    code: &'a str,
    msg: &'a str,
    /// Always empty: only validated bodies have such errors, and CosId has none.
    errors: [(); 0],
}
