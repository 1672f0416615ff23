//! `GET /openapi.json`: the endpoints as an `OpenAPI` 3.1 document.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use serde_json::{Map, Value, json};

use super::api_request::ApiRequest;
use super::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method, Parameter, ParameterLocation};
use super::schema::{Components, RequestBounds, Schema, TEXT, field, maybe};
use super::state::Http;

pub(super) const ENDPOINTS: &[Endpoint] = &[DOCUMENT];

const DOCUMENT: Endpoint = Endpoint {
    method: Method::Get,
    path: "/openapi.json",
    tag: TAG_SERVER,
    id: "getOpenapi",
    summary: "Get this document",
    description: "The document has the current bounds of the configuration.",
    access: EndpointAccess::Public,
    parameters: &[],
    body: None,
    responses: &[EndpointResponse::ok(&Schema::Map(&Schema::Anything), "An OpenAPI document.")],
    problems: &[],
    route: |filter| on(filter, openapi),
};

/// Headings of the document, each for a group of endpoints.
pub(super) const TAG_IDS: &str = "ids";
pub(super) const TAG_SEQUENCES: &str = "sequences";
pub(super) const TAG_NUMBERS: &str = "numbers";
pub(super) const TAG_WORKERS: &str = "workers";
pub(super) const TAG_SERVER: &str = "server";

const TAGS: [(&str, &str); 5] = [
    (TAG_IDS, "IDs of the unnamed generator and of named ones."),
    (TAG_SEQUENCES, "Counters in a database, which never go back."),
    (TAG_NUMBERS, "Numbers without gaps: each one is reserved for a request, and then committed, released or void."),
    (TAG_WORKERS, "Worker ids, leased to programs that generate IDs themselves."),
    (TAG_SERVER, "The server: probes, metrics, its status, this document."),
];

/// A problem of RFC 9457.
const PROBLEM: Schema = Schema::Object(&[
    field("status", &Schema::Integer { min: 400, max: 599 }, "The status of the response."),
    field("title", &TEXT, "The name of the status."),
    field("detail", &TEXT, "The error and its remedy."),
    maybe("code", &TEXT, "The first word of the command's error, such as NOPERM, BUSY, LOADING or MISCONF."),
]);

/// Serves `GET /openapi.json`.
async fn openapi(State(http): State<Arc<Http>>, request: ApiRequest) -> Response {
    http.openapi(request.bounds()).response(request.headers())
}

/// Returns the document of these endpoints with the configured bounds, as JSON.
pub(super) fn document(rows: impl Iterator<Item = &'static Endpoint>, bounds: RequestBounds) -> String {
    let mut components = Components::new();
    Schema::Named("Problem", &PROBLEM).document(bounds, &mut components);
    let mut paths = Map::new();
    for row in rows {
        let path = paths.entry(row.path).or_insert_with(|| json!({}));
        path[row.method.word()] = operation(row, bounds, &mut components);
    }
    let tags: Vec<_> = TAGS.iter().map(|(name, text)| json!({ "name": name, "description": text })).collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "GETID",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Unique, time-ordered IDs, and sequences. IDs and values of sequences are strings, because \
                            not every JSON reader has exact 64-bit numbers. Each request runs a command of the Redis \
                            port, with the same users and rules; 'x-getid-commands' names the command.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "basic": { "type": "http", "scheme": "basic", "description": "A user and its password." },
                "bearer": { "type": "http", "scheme": "bearer", "description": "'user:password' as the token." },
            },
        },
    });
    document.to_string()
}

fn operation(row: &Endpoint, bounds: RequestBounds, components: &mut Components) -> Value {
    let parameters: Vec<_> = row.parameters.iter().map(|own| parameter(own, bounds, components)).collect();
    let mut operation = json!({
        "operationId": row.id,
        "tags": [row.tag],
        "summary": row.summary,
        "responses": responses(row, bounds, components),
    });
    if !row.description.is_empty() {
        operation["description"] = json!(row.description);
    }
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    match row.access {
        EndpointAccess::Public => operation["security"] = json!([]),
        EndpointAccess::Commands(commands) => {
            // Without a login it depends on the rights of the user 'default'.
            operation["security"] = json!([{ "basic": [] }, { "bearer": [] }, {}]);
            let commands: Vec<_> =
                commands.iter().map(|(command, when)| json!({ "command": command, "when": when })).collect();
            operation["x-getid-commands"] = json!(commands);
        }
    }
    if let Some(fields) = row.body {
        let schema = Schema::Object(fields).document(bounds, components);
        let is_required = fields.iter().any(|field| field.is_required);
        operation["requestBody"] =
            json!({ "required": is_required, "content": { "application/json": { "schema": schema } } });
    }
    operation
}

fn parameter(own: &Parameter, bounds: RequestBounds, components: &mut Components) -> Value {
    let (place, is_required) = match own.location {
        ParameterLocation::Path => ("path", true),
        ParameterLocation::Query { is_required } => ("query", is_required),
        ParameterLocation::Header => ("header", false),
    };
    let mut document = json!({
        "name": own.name,
        "in": place,
        "required": is_required,
        "description": own.description,
        "schema": own.schema.document(bounds, components),
    });
    if matches!(own.schema, Schema::Flag) {
        document["allowEmptyValue"] = json!(true);
    }
    document
}

/// Statuses of problems that any request may have.
const COMMON_STATUSES: [u16; 6] = [400, 401, 403, 421, 431, 503];

/// Statuses of problems of requests that may have a body.
const CHANGE_STATUSES: [u16; 3] = [408, 413, 415];

fn responses(row: &Endpoint, bounds: RequestBounds, components: &mut Components) -> Value {
    let mut responses = Map::new();
    for response in row.responses {
        let mut body = json!({});
        if let Some(schema) = response.schema {
            body["schema"] = schema.document(bounds, components);
        }
        let same_status = responses.entry(response.status.to_string());
        let own = same_status.or_insert_with(|| json!({ "description": response.description, "content": {} }));
        // Several responses of one status differ in their media type.
        own["content"][response.media] = body;
    }
    let of_changes: &[u16] = if row.method == Method::Get { &[] } else { &CHANGE_STATUSES };
    let mut problems: Vec<_> = COMMON_STATUSES.iter().chain(of_changes).chain(row.problems).copied().collect();
    problems.sort_unstable();
    for status in problems {
        responses.entry(status.to_string()).or_insert_with(|| problem(status));
    }
    Value::Object(responses)
}

fn problem(status: u16) -> Value {
    let description = match status {
        400 => "The request is invalid; the detail names the fault and the expected value.",
        401 => "The login is missing or wrong.",
        403 => "The user has no permission for the request.",
        404 => "The generator, sequence or request does not exist, or the server has no sequences.",
        408 => "The body did not arrive in time.",
        409 => "The request conflicts with the current state.",
        413 => "The body is larger than 64 KiB.",
        415 => "The Content-Type is not application/json, or the body has a Content-Encoding.",
        421 => "Without a login, Host must be an address, localhost, or a name in http-host.",
        422 => "The Idempotency-Key was used with other arguments.",
        431 => "The head of the request is too large.",
        503 => "The server cannot answer now; retry after the time in Retry-After.",
        _ => "The request failed; the detail has the reason.",
    };
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    json!({ "description": description, "content": { "application/problem+json": { "schema": schema } } })
}
