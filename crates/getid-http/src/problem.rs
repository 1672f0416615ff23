//! Error responses: problem documents of RFC 9457.

use axum::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::head::RequestFault;
use super::remedy::for_http;
use getid_text::printable::printable_up_to;

/// The media type of a problem document.
pub(super) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Sentence after the error of a missing login.
const LOGIN: &str = " Send the header Authorization: Bearer USER:PASSWORD, or Basic.";

/// The longest detail, characters.
const DETAIL_CHARS_MAX: usize = 1000;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    /// The first word of a command's error reply, such as `NOPERM`; `None` for problems of HTTP itself.
    pub(super) code: Option<String>,
    /// One or more sentences for people.
    pub(super) detail: String,
}

/// A problem in JSON. `type` is omitted, which means `about:blank`: the title is that of the status.
#[derive(Serialize)]
struct ProblemDocument<'a> {
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

    /// Returns the problem of a wrong request.
    pub(super) fn bad(detail: String) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn unauthorized(detail: String) -> Problem {
        Problem::new(StatusCode::UNAUTHORIZED, detail)
    }

    /// Returns the problem of a refused head or body.
    pub(super) fn of_fault(fault: RequestFault) -> Problem {
        let (status, text) = fault.response();
        Problem::new(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), text.to_owned())
    }

    /// Returns the problem of a request that did not arrive in time.
    pub(super) fn late(detail: String) -> Problem {
        Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
    }

    /// Returns the problem of a request to a server that stops, or by a client that was signalled to end.
    pub(super) fn stopping() -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "this connection is being closed; connect again".to_owned())
    }

    /// Returns the problem of an error reply, which is passed without `-` and line end.
    pub(super) fn of_error(text: &str) -> Problem {
        let (code, message) = text.split_once(' ').unwrap_or((text, ""));
        let status = match code {
            "NOAUTH" | "WRONGPASS" => StatusCode::UNAUTHORIZED,
            "NOPERM" | "DENIED" => StatusCode::FORBIDDEN,
            "BUSY" | "LOADING" | "MISCONF" | "UNBLOCKED" | "TRYAGAIN" => StatusCode::SERVICE_UNAVAILABLE,
            "WRONGTYPE" | "EXHAUSTED" | "EXPIRED" | "REVOKED" | "WRONGTOKEN" => StatusCode::CONFLICT,
            _ => status_of(message),
        };
        let mut detail = for_http(if message.is_empty() { text } else { message });
        if code == "NOAUTH" {
            detail.push_str(LOGIN);
        }
        if let Some(command) = renamed_command(message) {
            detail = format!(
                "this request runs the command {command}, which this server does not have: 'rename-command' in its \
                 configuration has removed or renamed it"
            );
        }
        Problem { status, code: Some(code.to_owned()), detail }
    }
}

impl Problem {
    /// Returns the document as JSON.
    pub(super) fn to_json(&self) -> String {
        let detail = printable_up_to(&self.detail, DETAIL_CHARS_MAX);
        let title = self.status.canonical_reason().unwrap_or("Error");
        let document =
            ProblemDocument { status: self.status.as_u16(), title, detail: &detail, code: self.code.as_deref() };
        serde_json::to_string(&document).unwrap_or_default()
    }
}

/// Returns the raw response for a connection for which there is no slot.
pub(super) fn no_slot() -> Vec<u8> {
    let detail = "all connections of http-max-clients are busy; retry in a second";
    bare(503, "Service Unavailable", detail, "retry-after: 1\r\n")
}

/// Returns the raw response to plain HTTP on a TLS port.
pub(super) fn no_tls() -> Vec<u8> {
    bare(
        400,
        "Bad Request",
        "this port requires TLS, and the request is plain HTTP: write https:// before the address",
        "",
    )
}

/// Returns a raw response that hyper never sees, and that closes the connection.
fn bare(status: u16, title: &str, detail: &str, more: &str) -> Vec<u8> {
    let body = serde_json::to_string(&ProblemDocument { status, title, detail, code: None }).unwrap_or_default();
    format!(
        "HTTP/1.1 {status} {title}\r\ncontent-type: application/problem+json\r\n{more}cache-control: no-store\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Beginnings of plain `ERR` texts that are not a fault of the request's form.
const PREFIXES: [(&str, StatusCode); 10] = [
    ("no such worker pool '", StatusCode::NOT_FOUND),
    ("there are no worker pools", StatusCode::NOT_FOUND),
    ("no generator '", StatusCode::NOT_FOUND),
    ("no such sequence '", StatusCode::NOT_FOUND),
    ("sequences are off", StatusCode::NOT_FOUND),
    ("server is shutting down", StatusCode::SERVICE_UNAVAILABLE),
    ("no ids are given", StatusCode::SERVICE_UNAVAILABLE),
    ("unknown command '", StatusCode::FORBIDDEN),
    ("unknown subcommand '", StatusCode::FORBIDDEN),
    ("a sequence never goes back", StatusCode::CONFLICT),
];

/// Parts of texts that describe a state which conflicts with the request.
const PARTS: [(&str, StatusCode); 8] = [
    ("was never leased", StatusCode::NOT_FOUND),
    ("is there already", StatusCode::CONFLICT),
    ("has no more values", StatusCode::CONFLICT),
    ("has no more numbers", StatusCode::CONFLICT),
    ("was not made: there are", StatusCode::CONFLICT),
    (", and it is at ", StatusCode::CONFLICT),
    ("has more digits than", StatusCode::CONFLICT),
    ("belongs to server-id", StatusCode::CONFLICT),
];

/// Returns the status of an error without a code of its own.
fn status_of(message: &str) -> StatusCode {
    let prefixed = PREFIXES.iter().find(|(text, _)| message.starts_with(text));
    let found = prefixed.or_else(|| PARTS.iter().find(|(text, _)| message.contains(text)));
    found.map_or(StatusCode::BAD_REQUEST, |(_, status)| *status)
}

/// Returns the name of an unknown command. All commands of this port are in the table, so it must have been renamed.
fn renamed_command(message: &str) -> Option<&str> {
    let (name, _) = message.strip_prefix("unknown command '")?.split_once('\'')?;
    Some(name)
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
        if self.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use getid_core::Refusal;
    use getid_core::server::worker::{LeaseRefusal, NoLease};
    use getid_core::server::{SequenceRefusal, Spec};

    use super::*;
    use getid_engine::generators::sequence::SequenceError;
    use getid_engine::workers::WorkerError;

    fn of_lease(why: LeaseRefusal) -> WorkerError {
        WorkerError::Lease { pool: "p".to_owned(), id: 7, why }
    }

    fn no_lease(why: NoLease) -> WorkerError {
        WorkerError::NoLease { pool: "p".to_owned(), why }
    }

    fn status(text: &str) -> u16 {
        Problem::of_error(text).status.as_u16()
    }

    /// The texts come from the code that makes them, so changing a text cannot change a status unnoticed.
    #[test]
    fn errors_of_commands_have_a_status() {
        let of_sequences = [
            (SequenceRefusal::NoSuch, 404),
            (SequenceRefusal::Dropped { last: 7 }, 404),
            (SequenceRefusal::AtMax { max: 7 }, 409),
            (SequenceRefusal::WentBack, 503),
            (SequenceRefusal::TooLarge { values: 7, max: 6 }, 400),
            (SequenceRefusal::Busy { waited_ms: 0 }, 503),
            (SequenceRefusal::Busy { waited_ms: 7 }, 503),
            (SequenceRefusal::Unconfirmed { ride_out_s: 7, reason: "gone".into() }, 503),
            (SequenceRefusal::Lost { store: "gone".into() }, 503),
            (SequenceRefusal::Closed, 503),
        ];
        for (refusal, expected) in of_sequences {
            assert_eq!(status(&refusal.of("orders")), expected, "{}", refusal.of("orders"));
        }
        let of_operators = [
            (SequenceError::Lower { last: 7 }, 409),
            (SequenceError::TooMany { max: 7 }, 409),
            (SequenceError::Unknown("gone".to_owned()), 503),
            (SequenceError::Not("its values end at 7".to_owned()), 400),
            (SequenceError::Not("max is 7, and it is at 8 already".to_owned()), 409),
        ];
        for (error, expected) in of_operators {
            assert_eq!(status(&error.of("orders")), expected, "{}", error.of("orders"));
        }
        let of_workers = [
            (WorkerError::NoSuchPool { pool: "p".to_owned() }, 404),
            (WorkerError::NotLeased { pool: "p".to_owned(), id: 7 }, 404),
            (WorkerError::Busy, 503),
            (WorkerError::Store { reason: String::new() }, 503),
            (WorkerError::Unknown { reason: String::new() }, 503),
            (of_lease(LeaseRefusal::WrongToken), 409),
            (of_lease(LeaseRefusal::Released), 409),
            (of_lease(LeaseRefusal::Over { not_after_ms: 1, now_ms: 2, is_leased_again: false }), 409),
            (of_lease(LeaseRefusal::Revoked { not_after_ms: 1 }), 409),
            (of_lease(LeaseRefusal::LastAhead { last_ms: 2, now_ms: 1 }), 400),
            (no_lease(NoLease::NotOpen { opens_ms: 2, now_ms: 1 }), 503),
            (no_lease(NoLease::Exhausted { leased: 1, holders: Vec::new(), next_free_ms: 2, now_ms: 1 }), 409),
        ];
        for (error, expected) in of_workers {
            assert_eq!(status(&error.to_string()), expected, "{error}");
        }
        let busy = Refusal::Busy { ahead_ms: 1, max_borrow_ms: 1 };
        assert_eq!([busy, Refusal::SaveTimeout, Refusal::Closed].map(|refusal| status(&refusal.to_string())), [503; 3]);
        let wrong = Spec::default().with(&["cache", "x"]).unwrap_err();
        assert_eq!(status(&format!("ERR sequence 'orders': {wrong}")), 400);
        assert_eq!(status(getid_redis::session::SEQUENCES_OFF), 404);
        for (text, expected) in [
            ("NOAUTH Authentication required.", 401),
            ("WRONGPASS invalid username-password pair or user is disabled.", 401),
            ("NOPERM this user has no permissions to run the 'getid' command", 403),
            ("DENIED Redis is running in protected mode", 403),
            ("WRONGTYPE 'orders' is a generator", 409),
            ("LOADING standby for server-id 3: held by host-a", 503),
            ("ERR syntax error", 400),
            ("ERR 9 is not an id: an id has 63 bits, so it is at most 9223372036854775807", 400),
            ("ODD", 400),
        ] {
            assert_eq!(status(text), expected, "{text}");
        }
    }

    #[test]
    fn the_problem_of_a_renamed_command_names_it() {
        let problem = Problem::of_error("ERR unknown command 'MGETID', with args beginning with: '2' ");
        assert_eq!(problem.status, StatusCode::FORBIDDEN);
        assert!(problem.detail.starts_with("this request runs the command MGETID, which"), "{}", problem.detail);
    }
}
