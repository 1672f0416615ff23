//! The generators that are declared: `GET /v1/generators`.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use serde_json::{Value, json};

use super::ask::{Ask, Name};
use super::endpoint::{Access, Answer, Endpoint, Method, in_path};
use super::ids::NAME;
use super::openapi::TAG_IDS;
use super::problem::Problem;
use super::reply;
use super::schema::{AMOUNT, Schema, TEXT, field};
use crate::text::printable::printable_up_to;
use crate::text::suggest::did_you_mean;

pub(super) const ENDPOINTS: &[Endpoint] = &[LIST, TELL];

const LIST: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/generators",
    tag: TAG_IDS,
    id: "listGenerators",
    summary: "The named generators",
    description: "All that the configuration declares, which are 1,000 at most.",
    access: Access::Commands(&[("GENERATORS", "")]),
    parameters: &[],
    body: None,
    answers: &[Answer::ok(
        &Schema::Object(&[field("generators", &GENERATORS, "In the order of their names.")]),
        "All.",
    )],
    problems: &[],
    route: |filter| on(filter, list),
};

const TELL: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/generators/{name}",
    tag: TAG_IDS,
    id: "getGenerator",
    summary: "One named generator",
    description: "",
    access: Access::Commands(&[("GENERATORS", "")]),
    parameters: &[in_path("name", &NAME, "Its name.")],
    body: None,
    answers: &[Answer::ok(&GENERATOR, "What is known of it.")],
    problems: &[404],
    route: |filter| on(filter, tell),
};

const GENERATORS: Schema = Schema::List { of: &GENERATOR, items_max: usize::MAX };

const GENERATOR: Schema = Schema::Named(
    "Generator",
    &Schema::Object(&[
        field("name", &NAME, ""),
        field("kind", &TEXT, "A preset of a layout, a kind of text, or one that counts by a sequence."),
        field("layout", &Schema::OrNull(&TEXT), "Its fields with their widths, or its template."),
        field("format", &Schema::OrNull(&TEXT), "How its numbers are written as text."),
        field("epoch", &Schema::OrNull(&Schema::Time), "When its time begins to count."),
        field("capacity_per_sec", &Schema::OrNull(&AMOUNT), "IDs that its layout holds in a second."),
        field(
            "ends",
            &Schema::OrNull(&Schema::Time),
            "When its time field is full; null: never, or past the year 9999.",
        ),
        field("position", &Schema::OrNull(&Schema::Time), "The time of its next ID."),
        field("ahead_ms", &AMOUNT, "How far that is ahead of the clock."),
        field("refusing", &TEXT, "Why it gives no IDs now; no: it gives them."),
    ]),
);

async fn list(ask: Ask) -> Result<Response, Problem> {
    let told = all(&ask).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "generators": told })))
}

async fn tell(Name(name): Name, ask: Ask) -> Result<Response, Problem> {
    let told = all(&ask).await?;
    if let Some(found) = told.iter().find(|own| own["name"] == name.as_str()) {
        return Ok(reply::json(StatusCode::OK, found));
    }
    let names = told.iter().filter_map(|own| own["name"].as_str());
    let meant = did_you_mean(&name, names).map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
    let detail = format!("no generator '{}' is declared{meant}", printable_up_to(&name, 64));
    Err(Problem::new(StatusCode::NOT_FOUND, detail))
}

async fn all(ask: &Ask) -> Result<Vec<Value>, Problem> {
    let told = ask.run(&[b"GENERATORS"]).await?;
    match reply::shaped(&told, &GENERATORS) {
        Value::Array(told) => Ok(told),
        _ => Ok(Vec::new()),
    }
}
