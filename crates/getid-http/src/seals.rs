//! Sealed IDs: `GET /v1/seal/{name}/{id}` and `GET /v1/open/{name}/{text}`.
//!
//! They are `SEALID` and `OPENID`, and `OPENID` is a right of its own.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use getid_seal::{KEYS_MAX, Sealer};
use serde_json::json;

use super::api_request::{ApiRequest, PathPair};
use super::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method, in_path};
use super::ids::{ID, NAME};
use super::openapi::TAG_IDS;
use super::problem::Problem;
use super::reply;
use super::schema::{Schema, TEXT, field};

pub(super) const ENDPOINTS: &[Endpoint] = &[SEAL, OPEN];

const SEAL: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/seal/{name}/{id}",
    tag: TAG_IDS,
    id: "sealId",
    summary: "Seal an ID",
    description: "Returns the text of an ID that reveals nothing of it. The ID need not have been given.",
    access: EndpointAccess::Commands(&[("SEALID", "")]),
    parameters: &[
        in_path("name", &NAME, "The generator, which is declared with 'seal'."),
        in_path("id", &ID, "The ID, an integer of at most 63 bits."),
    ],
    body: None,
    responses: &[EndpointResponse::ok(&SEALED, "The ID and its text.")],
    problems: &[404, 409],
    route: |filter| on(filter, seal),
};

const OPEN: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/open/{name}/{text}",
    tag: TAG_IDS,
    id: "openId",
    summary: "Open a sealed ID",
    description: "Returns the ID of a sealed text. A text that is opened need not be one that a server gave: look its \
                  ID up.",
    access: EndpointAccess::Commands(&[("OPENID", "")]),
    parameters: &[
        in_path("name", &NAME, "The generator, which is declared with 'seal'."),
        in_path("text", &ID, "The sealed text."),
    ],
    body: None,
    responses: &[EndpointResponse::ok(&SEALED, "The ID and its text.")],
    problems: &[404, 409],
    route: |filter| on(filter, open),
};

const SEALED: Schema = Schema::Named(
    "SealedId",
    &Schema::Object(&[
        field("generator", &TEXT, ""),
        field("id", &ID, "The ID."),
        field("text", &ID, "Its sealed text."),
        field(
            "key",
            &Schema::OrNull(&Schema::Integer { min: 0, max: KEYS_MAX as i64 - 1 }),
            "The key number in the text, of the key file. Null if a reload has just removed this key.",
        ),
    ]),
);

/// Returns the sealed text of the ID.
async fn seal(PathPair([name, id]): PathPair, request: ApiRequest) -> Result<Response, Problem> {
    let text = reply::text_of(&request.run(&[b"SEALID", name.as_bytes(), id.as_bytes()]).await?);
    let text = text.ok_or_else(Problem::stopping)?;
    Ok(sealed(&request, &name, &id, &text))
}

/// Returns the ID of the sealed text.
async fn open(PathPair([name, text]): PathPair, request: ApiRequest) -> Result<Response, Problem> {
    let id = reply::text_of(&request.run(&[b"OPENID", name.as_bytes(), text.as_bytes()]).await?);
    let id = id.ok_or_else(Problem::stopping)?;
    Ok(sealed(&request, &name, &id, &text))
}

fn sealed(request: &ApiRequest, name: &str, id: &str, text: &str) -> Response {
    let settings = request.caller.server.settings.get();
    let sealer: Option<&Sealer> = settings.sealers.find(name.as_bytes());
    let key = sealer.and_then(|sealer| sealer.open(text.as_bytes()).ok()).map(|opened| opened.key);
    reply::json(StatusCode::OK, &json!({ "generator": name, "id": id, "text": text, "key": key }))
}
