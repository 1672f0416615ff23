//! A row of the table of endpoints.
//!
//! A row is beside its handler. The handler gets the row with each request ([`HandlerState`]) and parses
//! parameters and body by it ([`ApiRequest`](super::api_request::ApiRequest)). So the document describes the checks.

use std::sync::Arc;

use axum::extract::FromRef;
use axum::routing::{MethodFilter, MethodRouter};
use getid_core::server::request_key::{FOR_S_MAX, FOR_S_MIN, REQUEST_BYTES_MAX};

use super::schema::{Field, Schema};
use super::state::Http;

/// One method of one path.
pub(super) struct Endpoint {
    pub(super) method: Method,
    /// The path, with names in braces, each of which is in `parameters`.
    pub(super) path: &'static str,
    /// The heading of the document.
    pub(super) tag: &'static str,
    /// The operation's name in programs that are generated from the document.
    pub(super) id: &'static str,
    /// A few words that describe the operation.
    pub(super) summary: &'static str,
    /// Description in sentences; may be empty.
    pub(super) description: &'static str,
    pub(super) access: EndpointAccess,
    /// If none is of the query, the router refuses queries. Otherwise the handler parses them by
    /// [`ApiRequest`](super::api_request::ApiRequest).
    pub(super) parameters: &'static [Parameter],
    /// The fields of its JSON body, which is optional if no field is required; `None`: it takes no body.
    pub(super) body: Option<&'static [Field]>,
    pub(super) responses: &'static [EndpointResponse],
    /// Statuses of its problems, in addition to those of every endpoint.
    pub(super) problems: &'static [u16],
    /// The route of its handler for the filter of its method: `|filter| on(filter, handler)`.
    pub(super) route: fn(MethodFilter) -> MethodRouter<HandlerState>,
}

impl Endpoint {
    /// Whether this endpoint is at this path.
    pub(super) fn has_path(&self, path: &str) -> bool {
        is_of_template(path, self.path)
    }

    /// Whether this endpoint is at this path with a further parameter.
    pub(super) fn continues(&self, path: &str) -> bool {
        self.path.rsplit_once("/{").is_some_and(|(before, _)| is_of_template(path, before))
    }
}

/// Whether a path has the parts of a template, in which a name in braces is any part that is not empty.
fn is_of_template(path: &str, template: &str) -> bool {
    let parts = path.split('/');
    let is_it = |(own, part): (&str, &str)| own == part || (own.starts_with('{') && !part.is_empty());
    template.split('/').count() == parts.clone().count() && template.split('/').zip(parts).all(is_it)
}

/// State that a handler gets with the request. A handler that needs no row takes `State<Arc<Http>>`.
#[derive(Clone)]
pub(super) struct HandlerState {
    pub(super) http: Arc<Http>,
    /// The endpoint of the request.
    pub(super) row: &'static Endpoint,
}

impl FromRef<HandlerState> for Arc<Http> {
    fn from_ref(state: &HandlerState) -> Arc<Http> {
        Arc::clone(&state.http)
    }
}

/// An endpoint's method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// GET, which includes HEAD.
    Get,
    Post,
    Patch,
}

impl Method {
    /// Returns the method's name in the document.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Method::Get => "get",
            Method::Post => "post",
            Method::Patch => "patch",
        }
    }

    /// Returns the method's filter for the router.
    pub(super) const fn filter(self) -> MethodFilter {
        match self {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Patch => MethodFilter::PATCH,
        }
    }
}

/// Permission that an endpoint requires.
pub(super) enum EndpointAccess {
    /// The right to run these commands, each under the condition in the second text.
    Commands(&'static [(&'static str, &'static str)]),
    /// No permission beyond that to connect.
    Public,
}

/// A parameter of a path, a query or a head.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) location: ParameterLocation,
    pub(super) schema: &'static Schema,
    pub(super) description: &'static str,
}

impl Parameter {
    /// Whether the parameter is one of the query.
    pub(super) fn is_of_query(&self) -> bool {
        matches!(self.location, ParameterLocation::Query { .. })
    }
}

/// The location of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterLocation {
    /// Between slashes; always present.
    Path,
    /// After the question mark.
    Query { is_required: bool },
    /// The header field of this name, which is optional.
    Header,
}

/// A successful response.
pub(super) struct EndpointResponse {
    pub(super) status: u16,
    /// The media type, such as `application/json`.
    pub(super) media: &'static str,
    /// The schema of a JSON body.
    pub(super) schema: Option<&'static Schema>,
    pub(super) description: &'static str,
}

impl EndpointResponse {
    /// Returns a response of status 200 with a JSON body.
    pub(super) const fn ok(schema: &'static Schema, description: &'static str) -> EndpointResponse {
        EndpointResponse { status: 200, media: "application/json", schema: Some(schema), description }
    }
}

/// Declares a parameter of a path.
pub(super) const fn in_path(name: &'static str, schema: &'static Schema, description: &'static str) -> Parameter {
    Parameter { name, location: ParameterLocation::Path, schema, description }
}

/// Declares an optional parameter of a query.
pub(super) const fn optional(name: &'static str, schema: &'static Schema, description: &'static str) -> Parameter {
    Parameter { name, location: ParameterLocation::Query { is_required: false }, schema, description }
}

/// Declares a required parameter of a query.
pub(super) const fn required(name: &'static str, schema: &'static Schema, description: &'static str) -> Parameter {
    Parameter { name, location: ParameterLocation::Query { is_required: true }, schema, description }
}

/// A string of RFC 9651 with 1 to 128 characters.
const KEY_PATTERN: &str = r#"^"([ !#-\[\]-~]|\\["\\]){1,128}"$"#;

/// The header `Idempotency-Key`, for endpoints that give IDs.
pub(super) const IDEMPOTENCY_KEY: Parameter = Parameter {
    name: "Idempotency-Key",
    location: ParameterLocation::Header,
    schema: &Schema::Text { chars_min: 3, chars_max: 2 * REQUEST_BYTES_MAX + 2, pattern: KEY_PATTERN },
    description: "Your name for this request, in double quotes: a repeated request gets the same answer, from every \
                  server of the store.",
};

/// The parameter that sets for how long the answer of an `Idempotency-Key` is kept.
pub(super) const KEPT_FOR: Parameter = optional(
    "for",
    &Schema::Integer { min: FOR_S_MIN as i64, max: FOR_S_MAX as i64 },
    "Seconds for which the answer of the Idempotency-Key is kept at least; the default is 86400.",
);
