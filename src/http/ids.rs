//! IDs: `POST /v1/ids/{name}?count=n`.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Map, Value, json};

use super::ask::{Ask, Name};
use super::endpoint::{Access, Answer, Endpoint, Method, in_path, optional};
use super::openapi::TAG_IDS;
use super::problem::Problem;
use super::reply;
use super::schema::{Field, Schema, field, maybe};

pub(super) const ENDPOINTS: &[Endpoint] = &[DRAW];

/// The path's name of the unnamed generator.
pub(super) const UNNAMED: &str = "-";

/// The name of a generator or a sequence. What else is asked for is told to be no name.
pub(super) const NAME: Schema = Schema::Text { chars_min: 1, chars_max: 255, pattern: "^[A-Za-z0-9_.:-]+$" };

/// An ID: digits, or what its generator's format writes.
pub(super) const ID: Schema = Schema::Text { chars_min: 1, chars_max: 255, pattern: "" };

const FIELDS: &[Field] = &[maybe(
    "fields",
    &Schema::Map(&Schema::Either(&[
        &Schema::Integer { min: 0, max: i64::MAX },
        &Schema::Text { chars_min: 1, chars_max: 20, pattern: "^[0-9]+$" },
    ])),
    "Values of the fields that come with the request, where the generator has such fields.",
)];

const DRAW: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/ids/{name}",
    tag: TAG_IDS,
    id: "drawIds",
    summary: "Get IDs of a generator",
    description: "IDs are new with each request, so it is a POST. Of one request they ascend, as do those of requests \
                  that follow one another.",
    access: Access::Commands(&[("GETID", "without count, or with 1"), ("MGETID", "with a count above 1")]),
    parameters: &[
        in_path("name", &NAME, "The generator; '-' is the unnamed one."),
        optional("count", &Schema::Count(|bounds| bounds.ids), "How many; 1 if it is left away."),
    ],
    body: Some(FIELDS),
    answers: &[Answer::ok(
        &Schema::Named(
            "Ids",
            &Schema::Object(&[field(
                "ids",
                &Schema::List { of: &ID, items_max: usize::MAX },
                "As many as were asked for.",
            )]),
        ),
        "The IDs.",
    )],
    problems: &[404],
    route: |filter| on(filter, draw),
};

/// `count` IDs of the generator `name`: `{"ids":["..."]}`.
async fn draw(Name(name): Name, ask: Ask, body: Body) -> Result<Response, Problem> {
    let count = ask.query()?.number("count").unwrap_or(1);
    let body = ask.body(body).await?;
    let counted = count.to_string();
    let mut args: Vec<&[u8]> = if count == 1 { vec![b"GETID"] } else { vec![b"MGETID", counted.as_bytes()] };
    let fields = fields(&body);
    if name != UNNAMED {
        args.push(name.as_bytes());
        args.extend(fields.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]));
    } else if !fields.is_empty() {
        return Err(Problem::bad("the unnamed generator takes no fields with a request".to_owned()));
    }
    let ids: Vec<_> = match ask.run(&args).await? {
        OwnedFrame::Array { data, .. } => data.iter().filter_map(reply::text_of).collect(),
        one => reply::text_of(&one).into_iter().collect(),
    };
    Ok(reply::json(StatusCode::OK, &json!({ "ids": ids })))
}

/// What comes with the request, as words of the command.
fn fields(body: &Map<String, Value>) -> Vec<(&str, String)> {
    let Some(Value::Object(fields)) = body.get("fields") else { return Vec::new() };
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        number => super::schema::integer(number).unwrap_or_default().to_string(),
    };
    fields.iter().map(|(name, value)| (name.as_str(), word(value))).collect()
}
