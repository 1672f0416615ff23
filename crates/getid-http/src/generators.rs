//! The declared generators: `GET /v1/generators`.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::{Value, json};

use super::api_request::{ApiRequest, PathName};
use super::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method, in_path};
use super::ids::NAME;
use super::openapi::TAG_IDS;
use super::problem::Problem;
use super::reply;
use super::schema::{AMOUNT, Schema, TEXT, field};
use getid_text::printable::printable_up_to;
use getid_text::suggest::did_you_mean;

pub(super) const ENDPOINTS: &[Endpoint] = &[LIST, GET];

const LIST: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/generators",
    tag: TAG_IDS,
    id: "listGenerators",
    summary: "List the named generators",
    description: "All generators that the configuration declares, 1,000 at most.",
    access: EndpointAccess::Commands(&[("GENERATORS", "")]),
    parameters: &[],
    body: None,
    responses: &[EndpointResponse::ok(
        &Schema::Object(&[field("generators", &GENERATORS, "The generators, by name.")]),
        "All named generators.",
    )],
    problems: &[],
    route: |filter| on(filter, list),
};

const GET: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/generators/{name}",
    tag: TAG_IDS,
    id: "getGenerator",
    summary: "Get one named generator",
    description: "",
    access: EndpointAccess::Commands(&[("GENERATORS", "")]),
    parameters: &[in_path("name", &NAME, "The generator's name.")],
    body: None,
    responses: &[EndpointResponse::ok(&GENERATOR, "The generator.")],
    problems: &[404],
    route: |filter| on(filter, get),
};

const GENERATORS: Schema = Schema::List { of: &GENERATOR, items_max: usize::MAX };

const GENERATOR: Schema = Schema::Named(
    "Generator",
    &Schema::Object(&[
        field("name", &NAME, ""),
        field("kind", &TEXT, "The kind: a layout preset, a kind of text, or a counter over a sequence."),
        field("layout", &Schema::OrNull(&TEXT), "The fields with their widths, or the template."),
        field("format", &Schema::OrNull(&TEXT), "The text format of its numbers."),
        field("epoch", &Schema::OrNull(&Schema::Time), "The start of its time."),
        field("capacity_per_sec", &Schema::OrNull(&AMOUNT), "The capacity of its layout, IDs per second."),
        field(
            "ends",
            &Schema::OrNull(&Schema::Time),
            "The last time of its time field; null: none, or past the year 9999.",
        ),
        field("position", &Schema::OrNull(&Schema::Time), "The time of its next ID."),
        field("ahead_ms", &AMOUNT, "How far the position is ahead of the clock, ms."),
        field("refusing", &TEXT, "The reason why it returns no IDs now; 'no' if it returns IDs."),
        field(
            "evenness",
            &Schema::OrNull(&TEXT),
            "How evenly its IDs spread over id % n, for n up to 1,024, while it gives few of them. Null for texts, \
             and for sequence and serial.",
        ),
        field(
            "seal",
            &Schema::OrNull(&Schema::Word(&["integer", "sealed"])),
            "What a sealed generator answers with. Null if it is not sealed.",
        ),
    ]),
);

async fn list(request: ApiRequest) -> Result<Response, Problem> {
    let generators = all(&request).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "generators": generators })))
}

async fn get(PathName(name): PathName, request: ApiRequest) -> Result<Response, Problem> {
    let generators = all(&request).await?;
    if let Some(found) = generators.iter().find(|own| own["name"] == name.as_str()) {
        return Ok(reply::json(StatusCode::OK, found));
    }
    let names = generators.iter().filter_map(|own| own["name"].as_str());
    let meant = did_you_mean(&name, names).map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
    let detail = format!("no generator '{}' is declared{meant}", printable_up_to(&name, 64));
    Err(Problem::new(StatusCode::NOT_FOUND, detail))
}

async fn all(request: &ApiRequest) -> Result<Vec<Value>, Problem> {
    let reply = request.run(&[b"GENERATORS"]).await?;
    match reply::shaped(&reply, &GENERATORS) {
        Value::Array(generators) => Ok(generators),
        _ => Ok(Vec::new()),
    }
}
