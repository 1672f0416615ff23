//! `GET /openapi.json`: the table of endpoints as an `OpenAPI` 3.1 document.

use std::sync::{Arc, Mutex, PoisonError};

use axum::response::Response;
use axum::routing::on;
use serde_json::{Map, Value, json};

use super::ask::Ask;
use super::coding::StaticText;
use super::endpoint::{self, Access, Answer, Endpoint, Method, Parameter, Place};
use super::schema::{Bounds, Components, Schema, TEXT, field, maybe};

pub(super) const ENDPOINTS: &[Endpoint] = &[DOCUMENT];

const DOCUMENT: Endpoint = Endpoint {
    method: Method::Get,
    path: "/openapi.json",
    tag: TAG_SERVER,
    id: "getOpenapi",
    summary: "This document",
    description: "It has the bounds that the configuration sets now.",
    access: Access::Anybody,
    parameters: &[],
    body: None,
    answers: &[Answer::ok(&Schema::Map(&Schema::Anything), "An OpenAPI document.")],
    problems: &[],
    route: |filter| on(filter, document),
};

/// Headings of the document, each for a group of endpoints.
pub(super) const TAG_IDS: &str = "ids";
pub(super) const TAG_SEQUENCES: &str = "sequences";
pub(super) const TAG_WORKERS: &str = "workers";
pub(super) const TAG_SERVER: &str = "server";

const TAGS: [(&str, &str); 4] = [
    (TAG_IDS, "IDs of the unnamed generator and of named ones."),
    (TAG_SEQUENCES, "Counters that never go back, kept in a database."),
    (TAG_WORKERS, "Worker ids, leased to programs that make IDs themselves."),
    (TAG_SERVER, "The server itself: probes, figures, this document."),
];

/// A problem of RFC 9457.
const PROBLEM: Schema = Schema::Object(&[
    field("status", &Schema::Integer { min: 400, max: 599 }, "The status of the response."),
    field("title", &TEXT, "What the status means."),
    field("detail", &TEXT, "What was wrong, and what to do."),
    maybe("code", &TEXT, "The first word of the command's error, such as NOPERM, BUSY, LOADING or MISCONF."),
]);

/// The last document that was made, and its bounds.
static LAST: Mutex<Option<(Bounds, Arc<StaticText>)>> = Mutex::new(None);

async fn document(ask: Ask) -> Response {
    text(ask.bounds()).response(ask.headers())
}

fn text(bounds: Bounds) -> Arc<StaticText> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((known, text)) if *known == bounds => Arc::clone(text),
        _ => {
            let text = Arc::new(StaticText::new("application/json", whole(bounds).to_string()));
            *last = Some((bounds, Arc::clone(&text)));
            text
        }
    }
}

/// Returns the document with the configured bounds.
fn whole(bounds: Bounds) -> Value {
    let mut components = Components::new();
    Schema::Named("Problem", &PROBLEM).document(bounds, &mut components);
    let mut paths = Map::new();
    for row in endpoint::all() {
        let path = paths.entry(row.path).or_insert_with(|| json!({}));
        path[row.method.word()] = operation(row, bounds, &mut components);
    }
    let tags: Vec<_> = TAGS.iter().map(|(name, text)| json!({ "name": name, "description": text })).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "GETID",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Unique, time-ordered IDs, and sequences. IDs and values of sequences are strings, for a \
                            number of 64 bits is not exact in every JSON reader. A request does what a command of the \
                            Redis port does, for the same users under the same rules; 'x-getid-commands' says which.",
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
    })
}

fn operation(row: &Endpoint, bounds: Bounds, components: &mut Components) -> Value {
    let parameters: Vec<_> = row.parameters.iter().map(|own| parameter(own, bounds, components)).collect();
    let mut told = json!({
        "operationId": row.id,
        "tags": [row.tag],
        "summary": row.summary,
        "responses": responses(row, bounds, components),
    });
    if !row.description.is_empty() {
        told["description"] = json!(row.description);
    }
    if !parameters.is_empty() {
        told["parameters"] = json!(parameters);
    }
    match row.access {
        Access::Anybody => told["security"] = json!([]),
        Access::Commands(commands) => {
            // Without a login it depends on the rights of the user 'default'.
            told["security"] = json!([{ "basic": [] }, { "bearer": [] }, {}]);
            let commands: Vec<_> =
                commands.iter().map(|(command, when)| json!({ "command": command, "when": when })).collect();
            told["x-getid-commands"] = json!(commands);
        }
    }
    if let Some(fields) = row.body {
        let schema = Schema::Object(fields).document(bounds, components);
        let is_required = fields.iter().any(|field| field.is_required);
        told["requestBody"] =
            json!({ "required": is_required, "content": { "application/json": { "schema": schema } } });
    }
    told
}

fn parameter(own: &Parameter, bounds: Bounds, components: &mut Components) -> Value {
    let (place, is_required) = match own.place {
        Place::Path => ("path", true),
        Place::Query { is_required } => ("query", is_required),
    };
    let mut told = json!({
        "name": own.name,
        "in": place,
        "required": is_required,
        "description": own.description,
        "schema": own.schema.document(bounds, components),
    });
    if matches!(own.schema, Schema::Flag) {
        told["allowEmptyValue"] = json!(true);
    }
    told
}

/// Statuses of problems that any request may have.
const OF_ALL: [u16; 6] = [400, 401, 403, 421, 431, 503];

/// Statuses of problems of requests that may have a body.
const OF_CHANGES: [u16; 3] = [408, 413, 415];

fn responses(row: &Endpoint, bounds: Bounds, components: &mut Components) -> Value {
    let mut told = Map::new();
    for answer in row.answers {
        let mut body = json!({});
        if let Some(schema) = answer.schema {
            body["schema"] = schema.document(bounds, components);
        }
        let answers = told.entry(answer.status.to_string());
        let own = answers.or_insert_with(|| json!({ "description": answer.description, "content": {} }));
        // Several answers of one status differ in their media type.
        own["content"][answer.media] = body;
    }
    let of_changes: &[u16] = if row.method == Method::Get { &[] } else { &OF_CHANGES };
    let mut problems: Vec<_> = OF_ALL.iter().chain(of_changes).chain(row.problems).copied().collect();
    problems.sort_unstable();
    for status in problems {
        told.entry(status.to_string()).or_insert_with(|| problem(status));
    }
    Value::Object(told)
}

fn problem(status: u16) -> Value {
    let description = match status {
        400 => "The request is wrong; the detail names what, and what is expected.",
        401 => "There is no login, or a wrong one.",
        403 => "The user may not do that.",
        404 => "There is no such generator or sequence, or the server keeps none.",
        408 => "The body did not come in time.",
        409 => "It cannot be done to what is there.",
        413 => "The body is larger than 64 KiB.",
        415 => "The body is not said to be JSON, or has a Content-Encoding.",
        421 => "Without a login, Host must be an address, localhost, or a name in http-host.",
        431 => "The head of the request is too large.",
        503 => "Not now; Retry-After says when to ask again.",
        _ => "It was not done; the detail says why.",
    };
    let schema = json!({ "$ref": "#/components/schemas/Problem" });
    json!({ "description": description, "content": { "application/problem+json": { "schema": schema } } })
}
