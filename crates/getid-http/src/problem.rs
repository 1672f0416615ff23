//! Error responses: problem documents of RFC 9457.

use axum::http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::head::RequestFault;
use super::remedy::for_http;
use getid_redis::resp::{ErrorKind, ErrorReply};
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
    /// Kind of a command's error reply; `None` for problems of HTTP itself.
    pub(super) kind: Option<ErrorKind>,
    /// The first word of that reply, such as `NOPERM`.
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
        Problem { status, kind: None, code: None, detail }
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

    /// Returns the problem of an error reply of this kind; `text` is without `-` and line end.
    pub(super) fn of_error(kind: ErrorKind, text: &str) -> Problem {
        let (code, message) = text.split_once(' ').unwrap_or((text, ""));
        let mut detail = for_http(if message.is_empty() { text } else { message });
        if kind == ErrorKind::NotLoggedIn {
            detail.push_str(LOGIN);
        }
        if kind == ErrorKind::UnknownCommand {
            // All commands of this port are in the table. The error quotes the name.
            let command = message.split('\'').nth(1).unwrap_or_default();
            detail = format!(
                "this request runs the command {command}, which this server does not have: 'rename-command' in its \
                 configuration has removed or renamed it"
            );
        }
        Problem { status: status_of(kind), kind: Some(kind), code: Some(code.to_owned()), detail }
    }
}

impl From<&ErrorReply> for Problem {
    fn from(error: &ErrorReply) -> Problem {
        Problem::of_error(error.kind, &String::from_utf8_lossy(&error.text))
    }
}

/// Returns the status of an error reply.
fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Invalid | ErrorKind::Arity => StatusCode::BAD_REQUEST,
        ErrorKind::NotLoggedIn | ErrorKind::WrongPassword => StatusCode::UNAUTHORIZED,
        ErrorKind::NoPermission | ErrorKind::UnknownCommand => StatusCode::FORBIDDEN,
        ErrorKind::NotFound | ErrorKind::NoSuchSequence | ErrorKind::SequencesOff => StatusCode::NOT_FOUND,
        ErrorKind::Conflict | ErrorKind::Contended => StatusCode::CONFLICT,
        ErrorKind::OtherArguments => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Unavailable | ErrorKind::Standby => StatusCode::SERVICE_UNAVAILABLE,
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
    use crate::leaf::LeafFailure;
    use crate::tinyid;
    use getid_engine::generators::sequence::SequenceError;
    use getid_engine::workers::WorkerError;
    use getid_server::error_replies;

    #[test]
    fn each_kind_of_error_has_a_status_and_a_failure_of_leaf_and_tinyid() {
        use LeafFailure::{NoSuchKey, NotReady, NothingLeft};
        for (kind, status, leaf, tinyid) in [
            (ErrorKind::Invalid, 400, NothingLeft, "a b"),
            (ErrorKind::Arity, 400, NothingLeft, "a b"),
            (
                ErrorKind::NotLoggedIn,
                401,
                NothingLeft,
                "a b Send the header Authorization: Bearer USER:PASSWORD, or Basic.",
            ),
            (ErrorKind::WrongPassword, 401, NothingLeft, "a b"),
            (ErrorKind::NoPermission, 403, NothingLeft, "a b"),
            (ErrorKind::NotFound, 404, NothingLeft, "a b"),
            (ErrorKind::NoSuchSequence, 404, NoSuchKey, "can not find biztype:orders"),
            (ErrorKind::SequencesOff, 404, NotReady, "a b"),
            (ErrorKind::Conflict, 409, NothingLeft, "a b"),
            (ErrorKind::OtherArguments, 422, NothingLeft, "a b"),
            (ErrorKind::Contended, 409, NothingLeft, "get next segmentId conflict"),
            (ErrorKind::Unavailable, 503, NothingLeft, "a b"),
            (ErrorKind::Standby, 503, NotReady, "a b"),
        ] {
            let problem = Problem::of_error(kind, "CODE a b");
            assert_eq!((problem.status.as_u16(), problem.code.as_deref()), (status, Some("CODE")), "{kind:?}");
            assert_eq!(LeafFailure::of_segment(&problem), leaf, "{kind:?}");
            assert_eq!(tinyid::message_of(&problem, "orders"), tinyid, "{kind:?}");
        }
        let problem = Problem::of_error(
            ErrorKind::UnknownCommand,
            "ERR unknown command 'MGETID', with args beginning with: '2' ",
        );
        assert_eq!(problem.status, StatusCode::FORBIDDEN);
        assert!(problem.detail.starts_with("this request runs the command MGETID, which"), "{}", problem.detail);
        assert_eq!(LeafFailure::of_segment(&Problem::stopping()), NotReady);
    }

    #[test]
    fn errors_of_commands_have_a_status() {
        let check = |reply: ErrorReply, status: u16| {
            assert_eq!(Problem::from(&reply).status.as_u16(), status, "{reply:?}");
        };
        for (refusal, status) in [
            (SequenceRefusal::NoSuch, 404),
            (SequenceRefusal::Dropped { last: 7 }, 404),
            (SequenceRefusal::Ended { unix_ms: 7 }, 409),
            (SequenceRefusal::NoSeries, 404),
            (SequenceRefusal::TooManySeries { max: 7 }, 409),
            (SequenceRefusal::AtMax { max: 7 }, 409),
            (SequenceRefusal::BadRow("its step is 0".into()), 409),
            (SequenceRefusal::WentBack, 503),
            (SequenceRefusal::TooLarge { values: 7, max: 6 }, 400),
            (SequenceRefusal::Busy { waited_ms: 7 }, 503),
            (SequenceRefusal::Closed, 503),
        ] {
            check(error_replies::of_sequence(&SequenceError::Refused(refusal), "orders"), status);
        }
        for (error, status) in [
            (SequenceError::Lower { last: 7 }, 409),
            (SequenceError::TooMany { max: 7 }, 409),
            (SequenceError::MaxBelow { max: 7, last: 8 }, 409),
            (SequenceError::Unknown("gone".to_owned()), 503),
            (SequenceError::Not("its values end at 7".to_owned()), 400),
        ] {
            check(error_replies::of_sequence(&error, "orders"), status);
        }
        let of_lease = |why| WorkerError::Lease { pool: "p".to_owned(), id: 7, why };
        let no_lease = |why| WorkerError::NoLease { pool: "p".to_owned(), why };
        for (error, status) in [
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
        ] {
            check(error_replies::of_workers(&error), status);
        }
        for refusal in [Refusal::Busy { ahead_ms: 1, max_borrow_ms: 1 }, Refusal::SaveTimeout, Refusal::Closed] {
            check((&refusal).into(), 503);
        }
        let wrong = Spec::default().with(&["cache", "x"]).unwrap_err();
        check(format!("ERR sequence 'orders': {wrong}").into(), 400);
        check(getid_redis::session::SEQUENCES_OFF, 404);
    }
}
