//! Answers that are no success: problem documents of RFC 9457.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::head::Fault;
use crate::text::printable::printable_up_to;

/// The media type of a problem document.
pub(super) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Characters of a detail.
const DETAIL_CHARS_MAX: usize = 1000;

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    /// The first word of the error that a command is answered with, such as `NOPERM`; none for problems of HTTP's own.
    pub(super) code: Option<String>,
    /// One or more sentences for people.
    pub(super) detail: String,
}

/// As it is written. `type` is left away, which means `about:blank`: the title is the status's own.
#[derive(Serialize)]
struct Document<'a> {
    status: u16,
    title: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: String) -> Problem {
        Problem { status, code: None, detail }
    }

    /// The request is wrong.
    pub(super) fn bad(detail: String) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn unauthorized(detail: String) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, detail)
    }

    /// Why a head or a body was refused.
    pub(super) fn of_fault(fault: Fault) -> Problem {
        let (status, text) = fault.answer();
        Problem::new(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), text.to_owned())
    }

    /// What was to come has not.
    pub(super) fn late(detail: &str) -> Problem {
        Problem::new(StatusCode::REQUEST_TIMEOUT, detail.to_owned())
    }

    /// The server stops, or whoever asked was told to go.
    pub(super) fn stopping() -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "this connection was told to end: connect again".to_owned())
    }

    /// What an error reply means, `-` and line end left away.
    pub(super) fn of_error(text: &str) -> Problem {
        let (code, said) = text.split_once(' ').unwrap_or((text, ""));
        let status = match code {
            "NOAUTH" | "WRONGPASS" => StatusCode::UNAUTHORIZED,
            "NOPERM" | "DENIED" => StatusCode::FORBIDDEN,
            "BUSY" | "MISCONF" | "UNBLOCKED" | "LOADING" => StatusCode::SERVICE_UNAVAILABLE,
            "NOSUCHSEQ" => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_REQUEST,
        };
        let detail = if said.is_empty() { text } else { said };
        Problem { status, code: Some(code.to_owned()), detail: detail.to_owned() }
    }
}

impl Problem {
    /// The document.
    pub(super) fn to_json(&self) -> String {
        let detail = printable_up_to(&self.detail, DETAIL_CHARS_MAX);
        let title = self.status.canonical_reason().unwrap_or("Error");
        let document = Document { status: self.status.as_u16(), title, detail: &detail, code: self.code.as_deref() };
        serde_json::to_string(&document).unwrap_or_default()
    }
}

/// The answer to a connection for which there is no place, as it is sent.
pub(super) fn no_place() -> Vec<u8> {
    let document = Document {
        status: 503,
        title: "Service Unavailable",
        detail: "all places of http-max-clients are at work; try again in a second",
        code: None,
    };
    let body = serde_json::to_string(&document).unwrap_or_default();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         cache-control: no-store\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

impl From<Problem> for Response {
    fn from(problem: Problem) -> Response {
        problem.into_response()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, [(CONTENT_TYPE, PROBLEM_JSON)], self.to_json()).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"getid\", charset=\"UTF-8\""));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
