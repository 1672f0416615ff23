//! The paths of CosId's proxy server, answered as it answers them (`http-api cosid`): a program with CosId's module
//! cosid-proxy needs only another address.
//!
//! A segment is taken from the sequence that has the name of CosId's Redis key, so programs that reach it over HTTP and
//! over the Redis protocol share its values. A failure is a body of CosId's `ErrorResponse`: programs compare its
//! `code`, and people read its `msg`. CosId's server answers its own mistakes, unknown paths and wrong parameters with
//! status 500, and so does this one.

mod failure;
mod machines;
mod parameters;
mod segments;

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::header::ALLOW;
use axum::response::{IntoResponse as _, Response};

use self::failure::CosidFailure;
use self::machines::{distribute, guard, revert};
use self::parameters::CosidParameters;
use self::segments::{create_distributor, next_max_id, sequence_name};
use super::caller::Caller;
use super::compat::CompatCaller;
use super::ids::of_named;
use super::reply::{self, text_of};
use super::spring;
use super::state::Http;
use getid_redis::resp::ErrorKind;
use getid_text::percent;

/// The most parts of a path.
const PARTS_MAX: usize = 4;

/// A known path, with the decoded names in it.
#[derive(Debug, PartialEq, Eq)]
enum CosidPath {
    /// `/segments/distributor/{namespace}/{name}`, with the name of the sequence.
    Distributor(String),
    /// `/segments/{namespace}/{name}`, with the name of the sequence.
    Segment(String),
    /// `/machines/{namespace}`, with the namespace.
    Machines(String),
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
            ["machines", namespace] => CosidPath::Machines(namespace.to_owned()),
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
            CosidPath::Machines(_) => &[Method::POST, Method::DELETE, Method::PATCH],
            CosidPath::Id(_) | CosidPath::IdText(_) => &[Method::GET, Method::HEAD],
        }
    }
}

/// Answers every path of CosId's proxy server, and other paths with its prefixes.
pub(super) async fn answer(
    State(http): State<Arc<Http>>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Response {
    let config = http.server.config.get();
    let user = config.http.apis.cosid.as_ref().and_then(|api| api.user.as_deref());
    let parameters = CosidParameters::of_query(request.uri().query());
    let caller = CompatCaller { connection: &caller, user, headers: request.headers() };
    let response = respond(&caller, request.uri().path(), request.method(), &parameters).await;
    response.unwrap_or_else(CosidFailure::response)
}

async fn respond(
    caller: &CompatCaller<'_>,
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
        CosidPath::Distributor(sequence) => create_distributor(caller, sequence, parameters).await,
        CosidPath::Segment(sequence) => next_max_id(caller, sequence, parameters).await,
        CosidPath::Machines(namespace) => match *method {
            Method::POST => distribute(caller, namespace, parameters).await,
            Method::DELETE => revert(caller, namespace, parameters).await,
            _ => guard(caller, namespace, parameters).await,
        },
        CosidPath::Id(name) => id(caller, name.as_deref(), IdForm::Number).await,
        CosidPath::IdText(name) => id(caller, name.as_deref(), IdForm::Text).await,
    }
}

/// Whether there is a generator of this name, and its IDs are no numbers.
fn gives_texts(caller: &CompatCaller<'_>, name: &str) -> bool {
    let settings = caller.connection.server.settings.get();
    spring::gives_numbers(name, &settings.generators, &settings.counters)
        .is_some_and(|are_numbers| !are_numbers || settings.sealers.answering(name).is_some())
}

/// Returns an ID of a generator; `None`: of the unnamed one.
async fn id(caller: &CompatCaller<'_>, name: Option<&str>, form: IdForm) -> Result<Response, CosidFailure> {
    let args: &[&[u8]] = match name {
        // The field `@`, which no generator has, prevents a draw, and the user's rights are still checked.
        Some(name) if form == IdForm::Number && gives_texts(caller, name) => &[b"GETID", name.as_bytes(), b"@"],
        Some(name) => &[b"GETID", name.as_bytes()],
        None => &[b"GETID"],
    };
    let reply = caller.run(args).await.map_err(|problem| match (problem.kind, name) {
        (Some(ErrorKind::Invalid | ErrorKind::Arity), Some(name)) if args.len() == 3 => CosidFailure::invalid(
            &format!("the IDs of the generator '{name}' are texts: request /ids/as-string/{name}"),
        ),
        (Some(ErrorKind::NotFound | ErrorKind::Arity), Some(name)) => {
            CosidFailure::invalid(&of_named(problem, name).detail)
        }
        _ => problem.into(),
    })?;
    let id = text_of(&reply).ok_or_else(CosidFailure::unexpected)?;
    Ok(match form {
        IdForm::Number => reply::json_text(id.into_bytes()),
        IdForm::Text => spring::text(caller.headers, id),
    })
}

/// The form of an ID.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IdForm {
    /// A JSON number.
    Number,
    /// Plain text.
    Text,
}
