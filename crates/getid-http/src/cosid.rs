//! The paths of CosId's proxy server, answered as it answers them (`http-api cosid`): a program with CosId's
//! `cosid-proxy` needs only another address.
//!
//! A segment is taken from the sequence that has the name of CosId's Redis key, so programs that reach it over HTTP and
//! over the Redis protocol share its values. A failure is a body of CosId's `ErrorResponse`: programs compare its
//! `code`, and people read its `msg`. CosId's server answers its own mistakes, unknown paths and wrong parameters with
//! status 500, and so does this one.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use super::caller::Caller;
use super::ids::of_named;
use super::problem::Problem;
use super::reply::{self, ReplyFrame, text_of};
use super::spring::{self, Parameters};
use super::state::Http;
use getid_redis::resp::ErrorKind;
use getid_text::percent;
use getid_text::printable::printable_up_to;

/// The longest `msg`, characters.
const MESSAGE_CHARS_MAX: usize = 1000;

/// Characters of a parameter or a path that an error quotes.
const QUOTED_CHARS_MAX: usize = 64;

/// `code` of a failure that CosId's programs do not tell apart from others.
const UNKNOWN: &str = "500";

/// The most parts of a path.
const PARTS_MAX: usize = 4;

/// Whether CosId's server answers this path.
pub(super) fn is_path(path: &str) -> bool {
    path.starts_with("/segments/") || path.starts_with("/machines/") || path == "/ids" || path.starts_with("/ids/")
}

/// A known path, with the decoded names in it.
#[derive(Debug, PartialEq, Eq)]
enum CosidPath {
    /// `/segments/distributor/{namespace}/{name}`, with the name of the sequence.
    Distributor(String),
    /// `/segments/{namespace}/{name}`, with the name of the sequence.
    Segment(String),
    /// `/ids`, `/ids/{name}`.
    Id(Option<String>),
    /// `/ids/as-string`, `/ids/as-string/{name}`.
    IdText(Option<String>),
}

impl CosidPath {
    /// Parses a path; `None` if it is unknown.
    fn read(path: &str) -> Option<CosidPath> {
        let decoded = |part: &str| {
            let part = percent::decode(part.as_bytes()).filter(|part| !part.is_empty())?;
            Some(String::from_utf8_lossy(&part).into_owned())
        };
        let parts = path.strip_prefix('/')?.splitn(PARTS_MAX + 1, '/').map(decoded).collect::<Option<Vec<_>>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Some(match parts[..] {
            ["segments", "distributor", namespace, name] => CosidPath::Distributor(sequence_name(namespace, name)),
            ["segments", namespace, name] => CosidPath::Segment(sequence_name(namespace, name)),
            ["ids"] => CosidPath::Id(None),
            ["ids", "as-string"] => CosidPath::IdText(None),
            ["ids", name] => CosidPath::Id(Some(name.to_owned())),
            ["ids", "as-string", name] => CosidPath::IdText(Some(name.to_owned())),
            _ => return None,
        })
    }

    /// Returns the methods of this path, as `Allow` has them.
    fn methods(&self) -> &'static [Method] {
        match self {
            CosidPath::Distributor(_) => &[Method::POST],
            CosidPath::Segment(_) => &[Method::PATCH],
            CosidPath::Id(_) | CosidPath::IdText(_) => &[Method::GET, Method::HEAD],
        }
    }
}

/// Returns the name of the Redis key with which CosId counts the segments of a name.
fn sequence_name(namespace: &str, name: &str) -> String {
    format!("cosid:{{{namespace}.{name}}}.adder")
}

/// Answers every path of CosId's proxy server, and other paths with its prefixes.
pub(super) async fn answer(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Response {
    let config = http.server.config.get();
    let user = config.http.apis.cosid.as_ref().and_then(|api| api.user.as_deref());
    let parameters = CosidParameters(Parameters::of_query(request.uri().query()));
    let handler = CosidHandler { caller: &caller, user, headers: request.headers() };
    let response = handler.respond(request.uri().path(), request.method(), &parameters).await;
    response.unwrap_or_else(|failure| failure.response())
}

/// Why a request failed: the status, and the fields of CosId's `ErrorResponse`.
#[derive(Debug, PartialEq, Eq)]
struct CosidFailure {
    status: StatusCode,
    code: Cow<'static, str>,
    message: String,
}

impl CosidFailure {
    fn new(status: StatusCode, code: &'static str, message: impl AsRef<str>) -> CosidFailure {
        CosidFailure { status, code: code.into(), message: printable_up_to(message.as_ref(), MESSAGE_CHARS_MAX) }
    }

    /// Returns the failure of an `IllegalArgumentException`.
    fn invalid(message: impl AsRef<str>) -> CosidFailure {
        CosidFailure::new(StatusCode::BAD_REQUEST, UNKNOWN, message)
    }

    /// Returns the failure of any other exception, Spring's own included.
    fn unknown(message: impl AsRef<str>) -> CosidFailure {
        CosidFailure::new(StatusCode::INTERNAL_SERVER_ERROR, UNKNOWN, message)
    }

    fn of_path(path: &str) -> CosidFailure {
        let path = printable_up_to(path.trim_start_matches('/'), QUOTED_CHARS_MAX);
        CosidFailure::unknown(format!("404 NOT_FOUND \"No static resource {path}.\""))
    }

    fn of_method(method: &Method, supported: &str) -> CosidFailure {
        let method = printable_up_to(method.as_str(), QUOTED_CHARS_MAX);
        let reason = format!("\"Request method '{method}' is not supported.\"");
        CosidFailure::unknown(format!("405 METHOD_NOT_ALLOWED {reason} This path supports {supported}"))
    }

    fn response(self) -> Response {
        let body = ErrorBody { code: &self.code, msg: &self.message, errors: [] };
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
        match problem.status {
            StatusCode::BAD_REQUEST => CosidFailure::invalid(problem.detail),
            status @ (StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE) => CosidFailure {
                code: status.as_str().to_owned().into(),
                ..CosidFailure::new(status, "", problem.detail)
            },
            _ => CosidFailure::unknown(problem.detail),
        }
    }
}

/// A body of CosId's `ErrorResponse`, with its fields in their order.
#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'a str,
    msg: &'a str,
    /// Always empty: only validated bodies have such errors, and CosId has none.
    errors: [(); 0],
}

/// A request's parameters: CosId's server reads them from the query alone.
struct CosidParameters(Parameters);

impl CosidParameters {
    fn required<T>(&self, name: &str, value: Option<T>) -> Result<T, CosidFailure> {
        value.ok_or_else(|| {
            CosidFailure::unknown(format!("400 BAD_REQUEST \"Required query parameter '{name}' is not present.\""))
        })
    }

    /// Returns an integer, of which Spring takes the first value.
    fn integer(&self, name: &str) -> Result<i64, CosidFailure> {
        let text = self.required(name, self.0.first(name).filter(|text| !text.is_empty()))?;
        spring::integer(text).ok_or_else(|| mismatch(name, text, "an integer of 64 bits"))
    }
}

/// Returns the failure of a parameter of another type.
fn mismatch(name: &str, found: &str, expected: &str) -> CosidFailure {
    let found = printable_up_to(found, QUOTED_CHARS_MAX);
    CosidFailure::unknown(format!("400 BAD_REQUEST \"Type mismatch.\" {name} is '{found}', must be {expected}"))
}

/// The caller of a request, with its headers and the configured user.
struct CosidHandler<'a> {
    caller: &'a Caller,
    user: Option<&'a str>,
    headers: &'a HeaderMap,
}

impl CosidHandler<'_> {
    async fn respond(
        &self,
        path: &str,
        method: &Method,
        parameters: &CosidParameters,
    ) -> Result<Response, CosidFailure> {
        let requested = CosidPath::read(path).ok_or_else(|| CosidFailure::of_path(path))?;
        if !requested.methods().contains(method) {
            let supported = requested.methods().iter().map(Method::as_str).collect::<Vec<_>>().join(",");
            return match *method {
                Method::OPTIONS => Ok(([(ALLOW, format!("{supported},OPTIONS"))], Body::empty()).into_response()),
                _ => Err(CosidFailure::of_method(method, &supported)),
            };
        }
        match &requested {
            CosidPath::Distributor(sequence) => self.create_distributor(sequence, parameters).await,
            CosidPath::Segment(sequence) => self.next_max_id(sequence, parameters).await,
            CosidPath::Id(name) => self.id(name.as_deref(), IdForm::Number).await,
            CosidPath::IdText(name) => self.id(name.as_deref(), IdForm::Text).await,
        }
    }

    async fn run(&self, args: &[&[u8]]) -> Result<ReplyFrame, Problem> {
        self.caller.run_as(self.user, self.headers, args).await
    }

    /// Creates the sequence of a distributor, whose first segment begins above `offset`, if it does not exist.
    async fn create_distributor(&self, sequence: &str, parameters: &CosidParameters) -> Result<Response, CosidFailure> {
        let (offset, step) = (parameters.integer("offset")?, parameters.integer("step")?);
        if offset < 0 {
            let message = format!("offset:[{offset}] must be greater than or equal to 0!");
            return Err(CosidFailure::invalid(message));
        }
        check_step(step)?;
        self.run(&[b"SETNX", sequence.as_bytes(), offset.to_string().as_bytes()]).await?;
        Ok(Response::default())
    }

    /// Returns the last value of the next segment, which has `step` values.
    async fn next_max_id(&self, sequence: &str, parameters: &CosidParameters) -> Result<Response, CosidFailure> {
        let step = parameters.integer("step")?;
        check_step(step)?;
        let max = self.caller.server.config.get().sequences.incrby_max;
        if step > i64::from(max) {
            let message = format!("step:[{step}] is too large: sequence-incrby-max of this server allows {max}");
            return Err(CosidFailure::invalid(message));
        }
        let count = step.to_string();
        let reply = self.run(&[b"SEQUENCE", b"NEXT", sequence.as_bytes(), b"COUNT", count.as_bytes()]).await?;
        let max_id = max_id_of(&reply, step, sequence)?;
        Ok(reply::json_text(max_id.to_string().into_bytes()))
    }

    /// Whether there is a generator of this name, and its IDs are no numbers.
    fn gives_texts(&self, name: &str) -> bool {
        let settings = self.caller.server.settings.get();
        spring::gives_numbers(name, &settings.generators, &settings.counters)
            .is_some_and(|are_numbers| !are_numbers || settings.sealers.answering(name).is_some())
    }

    /// Returns an ID of a generator; `None`: of the unnamed one.
    async fn id(&self, name: Option<&str>, form: IdForm) -> Result<Response, CosidFailure> {
        let args: &[&[u8]] = match name {
            // The field `@`, which no generator has, prevents a draw, and the user's rights are still checked.
            Some(name) if form == IdForm::Number && self.gives_texts(name) => &[b"GETID", name.as_bytes(), b"@"],
            Some(name) => &[b"GETID", name.as_bytes()],
            None => &[b"GETID"],
        };
        let reply = self.run(args).await.map_err(|problem| match (problem.kind, name) {
            (Some(ErrorKind::NotFound | ErrorKind::Arity), Some(name)) => {
                CosidFailure::invalid(of_named(problem, name).detail)
            }
            (Some(ErrorKind::Invalid), Some(name)) if args.len() == 3 => CosidFailure::invalid(format!(
                "the IDs of the generator '{name}' are texts: request /ids/as-string/{name}"
            )),
            _ => problem.into(),
        })?;
        let id = text_of(&reply).ok_or_else(unexpected)?;
        Ok(match form {
            IdForm::Number => reply::json_text(id.into_bytes()),
            IdForm::Text => spring::text(self.headers, id),
        })
    }
}

/// The form of an ID.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IdForm {
    /// A JSON number.
    Number,
    /// Plain text.
    Text,
}

fn check_step(step: i64) -> Result<(), CosidFailure> {
    if step > 0 {
        return Ok(());
    }
    Err(CosidFailure::invalid(format!("step:[{step}] must be greater than 0!")))
}

/// Returns the last value of a range of `step` values. CosId uses each number of `max_id - step < id <= max_id`.
///
/// # Errors
///
/// Fails if other servers or stores can have numbers among them, or if the sequence has fewer values left. The values
/// of the range are skipped.
fn max_id_of(reply: &ReplyFrame, step: i64, sequence: &str) -> Result<i64, CosidFailure> {
    let ReplyFrame::Array { data, .. } = reply else { return Err(unexpected()) };
    let numbers: Vec<i64> = data.iter().map_while(|number| text_of(number)?.parse().ok()).collect();
    let [first, last, increment] = numbers[..] else { return Err(unexpected()) };
    if increment != 1 {
        return Err(CosidFailure::unknown(format!(
            "the values of the sequence '{sequence}' are {increment} apart, and CosId uses the numbers between them too: \
             it needs 'increment 1', and a single sequence-store"
        )));
    }
    if last - first != step - 1 {
        let left = last - first + 1;
        let message =
            format!("the sequence '{sequence}' had {left} values left below its max, fewer than step:[{step}]");
        return Err(CosidFailure::unknown(message));
    }
    Ok(last)
}

fn unexpected() -> CosidFailure {
    CosidFailure::unknown("a reply has an unknown form; this is a bug of getid, report it")
}
