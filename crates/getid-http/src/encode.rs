//! The ID of a time and values of fields: `GET /v1/encode/{name}`.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::json;

use super::api_request::{ApiRequest, PathName};
use super::decode::TIME;
use super::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method, in_path, optional, required};
use super::ids::{ID, NAME};
use super::openapi::TAG_IDS;
use super::problem::Problem;
use super::reply;
use super::schema::{Schema, field};

pub(super) const ENDPOINTS: &[Endpoint] = &[ENCODE];

const ENCODE: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/encode/{name}",
    tag: TAG_IDS,
    id: "encodeId",
    summary: "Compose the ID of a time and values of fields",
    description: "For tests, backfills and range queries. Without 'force' the ID is none that the generator has given \
                  or will give: its time is before the generator's first ID on this server, and its server-id is this \
                  server's. The same request returns the same ID.",
    access: EndpointAccess::Commands(&[("ENCODEID", "")]),
    parameters: &[
        in_path("name", &NAME, "The generator; '-' is the unnamed one."),
        required("time", &TIME, "The time: RFC 3339 (a plus is written %2B), a day, Unix time in ms, or now."),
        optional(
            "fields",
            &FIELDS,
            "Values of fields, as in worker:3,counter:5. The others are 0, and the largest \
                                     value with 'highest'.",
        ),
        optional("highest", &Schema::Flag, "The highest ID of the time in place of the lowest."),
        optional("force", &Schema::Flag, "The ID is for comparison only, and the generator may give it too."),
    ],
    body: None,
    responses: &[EndpointResponse::ok(
        &Schema::Named("EncodedId", &Schema::Object(&[field("id", &ID, "")])),
        "The ID, as its generator would return it.",
    )],
    problems: &[404, 409],
    route: |filter| on(filter, encode),
};

/// Fields of the widest layout, with names and values.
const FIELDS: Schema =
    Schema::Text { chars_min: 1, chars_max: 8192, pattern: "^[A-Za-z0-9_-]+:[0-9.]+(,[A-Za-z0-9_-]+:[0-9.]+)*$" };

/// Composes the ID.
async fn encode(PathName(name): PathName, request: ApiRequest) -> Result<Response, Problem> {
    let query = request.query()?;
    let time = query.text("time").unwrap_or_default();
    let mut args: Vec<&[u8]> = vec![b"ENCODEID", name.as_bytes(), b"TIME", time.as_bytes()];
    for word in query.text("fields").into_iter().flat_map(|fields| fields.split(',')) {
        let Some((field, value)) = word.split_once(':') else {
            let text =
                "'fields' of the query has a field without a value; expected field:value, as in worker:3,counter:5";
            return Err(Problem::bad(text.to_owned()));
        };
        args.extend([field.as_bytes(), value.as_bytes()]);
    }
    args.extend(query.text("highest").map(|_| &b"HIGHEST"[..]));
    args.extend(query.text("force").map(|_| &b"FORCE"[..]));
    let reply = request.run(&args).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "id": reply::text_of(&reply) })))
}
