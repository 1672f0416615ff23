//! Decodes an ID, and computes the IDs of a span of time: `GET /v1/ids/{name}` and `GET /v1/spans`.
//!
//! On the first path, `POST` has a generator's name where `GET` has an ID, so the parameter has one name for both.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use getid_core::{FieldLayout, Layout, NamedGenerator, is_name};
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Value, json};

use super::ask::{Ask, Name};
use super::endpoint::{Access, Answer, Endpoint, Method, in_path, optional, required};
use super::ids::{ID, NAME, UNNAMED, of_named};
use super::openapi::TAG_IDS;
use super::problem::Problem;
use super::reply::{self, Reply};
use super::schema::{AMOUNT, Schema, TEXT, field};
use crate::command::parse_id;

pub(super) const ENDPOINTS: &[Endpoint] = &[DECODE, SPAN];

const DECODE: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/ids/{name}",
    tag: TAG_IDS,
    id: "decodeId",
    summary: "What an ID says",
    description: "Without a generator, all readings that are possible are told: that of the unnamed generator, where \
                  it is an ID of it, and those of at most 100 named ones. The reading whose time is nearest to now \
                  comes first, then those whose time has not come, then those without time.",
    access: Access::Commands(&[("DECODEID", "")]),
    parameters: &[
        in_path("name", &ID, "The ID, as its generator wrote it."),
        optional("generator", &NAME, "Whose ID it is; '-' is the unnamed generator."),
    ],
    body: None,
    answers: &[Answer::ok(&DECODED, "What it says.")],
    problems: &[404],
    route: |filter| on(filter, decode),
};

const DECODED: Schema = Schema::Named(
    "DecodedId",
    &Schema::Object(&[
        field("id", &TEXT, "As it was asked for."),
        field("readings", &Schema::List { of: &READING, items_max: usize::MAX }, ""),
    ]),
);

const MS: Schema = Schema::Integer { min: i64::MIN, max: i64::MAX };

const READING: Schema = Schema::Named(
    "Reading",
    &Schema::Object(&[
        field("generator", &Schema::OrNull(&TEXT), "Whose ID it would be; null is the unnamed generator."),
        field("kind", &Schema::OrNull(&TEXT), "The generator's kind."),
        field(
            "time",
            &Schema::OrNull(&Schema::Time),
            "When it was given, of a serial number when the period begins that it shows; null where IDs hold none, or \
             past the year 9999.",
        ),
        field("unix_ms", &Schema::OrNull(&MS), "The same in milliseconds of Unix time."),
        field("ahead_ms", &Schema::OrNull(&MS), "How far that is ahead of the server's clock."),
        field("note", &Schema::OrNull(&TEXT), "Why there is no time, or what else it means."),
        field("fields", &Schema::List { of: &FIELD, items_max: usize::MAX }, "From the most significant bit down."),
    ]),
);

const FIELD: Schema = Schema::Object(&[
    field("name", &TEXT, ""),
    field("bits", &Schema::OrNull(&AMOUNT), "Its width; null where the number is no layout of bits."),
    field("value", &TEXT, "In decimal digits."),
]);

/// Decodes the ID by one generator, or by all that could have made it.
async fn decode(Name(id): Name, ask: Ask) -> Result<Response, Problem> {
    let query = ask.query()?;
    let generator = query.text("generator");
    let named = generator.filter(|name| *name != UNNAMED);
    let mut args: Vec<&[u8]> = vec![b"DECODEID", id.as_bytes()];
    args.extend(named.map(str::as_bytes));
    let told = ask.run(&args).await.map_err(|problem| match named {
        Some(name) => with_hint(of_named(problem, name), &id, generator),
        None => with_hint(problem, &id, generator),
    })?;
    let readings = match named {
        Some(name) => vec![reading_of(&ask, &told, name, &id)],
        None => readings(&ask, &told, &id, generator.is_none()),
    };
    if readings.is_empty() {
        return Err(Problem::bad("it is not an ID of the unnamed generator".to_owned()));
    }
    Ok(reply::json(StatusCode::OK, &json!({ "id": id, "readings": readings })))
}

/// Adds a hint to the error for a name in place of an ID: the client probably means a `POST`. The hint is given for any
/// name, so that it does not reveal which generators exist.
fn with_hint(mut problem: Problem, id: &str, generator: Option<&str>) -> Problem {
    let is_a_name = is_name(id) && (id == UNNAMED || id.bytes().any(|byte| byte.is_ascii_alphabetic()));
    if problem.status == StatusCode::BAD_REQUEST && generator.is_none() && is_a_name {
        let whose =
            if id == UNNAMED { "the unnamed generator".to_owned() } else { format!("a generator named '{id}'") };
        problem.detail = format!("{}; POST /v1/ids/{id} gives IDs of {whose}", problem.detail);
    }
    problem
}

/// Returns the unnamed generator's reading and those of the named ones, the most plausible first.
fn readings(ask: &Ask, told: &Reply, id: &str, with_named: bool) -> Vec<Value> {
    let mut readings = Vec::new();
    if reply::find(told, "time").is_some() {
        let layout = ask.caller.server.issuer().identity().layout;
        readings.push(reading(told, fields_of_unnamed(layout, id)));
    }
    if let Some(OwnedFrame::Map { data, .. }) = reply::find(told, "generators").filter(|_| with_named) {
        readings.extend(data.iter().filter_map(|(name, told)| Some(reading_of(ask, told, &reply::text_of(name)?, id))));
    }
    readings.sort_by_key(|reading| reading["ahead_ms"].as_i64().map_or(u64::MAX, i64::unsigned_abs));
    readings
}

fn reading_of(ask: &Ask, told: &Reply, name: &str, id: &str) -> Value {
    let settings = ask.caller.server.settings.get();
    let generators = &settings.generators;
    let generator = generators.find(name.as_bytes()).and_then(|place| generators.get(place));
    let fields = if let Some((_, generator)) = generator {
        fields_of(generator, id)
    } else {
        let value = reply::find(told, "value").and_then(reply::text_of);
        value.map(|value| json!({ "name": "value", "bits": null, "value": value })).into_iter().collect()
    };
    reading(told, fields)
}

fn reading(told: &Reply, fields: Vec<Value>) -> Value {
    let mut reading = reply::shaped(told, &READING);
    reading["fields"] = fields.into();
    reading
}

/// Bits of an ID of the unnamed generator.
const ID_BITS: u32 = 63;

fn fields_of_unnamed(layout: Layout, id: &str) -> Vec<Value> {
    // The command has parsed it with the same function.
    let Ok(id) = parse_id(id.as_bytes()) else { return Vec::new() };
    let parts = layout.split(id);
    let below = layout.server_bits() + layout.shard_bits() + layout.random_bits();
    let field = |name: &str, bits: u32, value: u64| json!({ "name": name, "bits": bits, "value": value.to_string() });
    vec![
        field("time", ID_BITS - below, id.get() >> below),
        field("server_id", layout.server_bits(), parts.server.into()),
        field("shard", layout.shard_bits(), parts.shard.into()),
        field("random", layout.random_bits(), parts.random.into()),
    ]
}

fn fields_of(generator: &Arc<NamedGenerator>, id: &str) -> Vec<Value> {
    let declaration = generator.declaration();
    // A reload in between may have changed the generator.
    let Some(number) = declaration.read(id) else { return Vec::new() };
    let told = declaration.layout().places().map(|(field, shift)| {
        let value = FieldLayout::value(field, shift, number).to_string();
        json!({ "name": field.name, "bits": field.bits, "value": value })
    });
    told.collect()
}

const SPAN: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/spans",
    tag: TAG_IDS,
    id: "spanOfIds",
    summary: "The lowest and the highest ID of a span of time",
    description: "For a query such as 'all rows of yesterday' by their IDs.",
    access: Access::Commands(&[("IDSPAN", "")]),
    parameters: &[
        required("from", &TIME, "The first time: RFC 3339 (a plus is written %2B), a day, Unix time in ms, or now."),
        required("to", &TIME, "The last one, inclusive."),
        optional("generator", &NAME, "The generator; without it, or with '-', the unnamed one."),
    ],
    body: None,
    answers: &[Answer::ok(
        &Schema::Named("Span", &Schema::Object(&[field("lowest", &ID, ""), field("highest", &ID, "")])),
        "Both are inclusive.",
    )],
    problems: &[404, 409],
    route: |filter| on(filter, span),
};

const TIME: Schema = Schema::Text { chars_min: 1, chars_max: 64, pattern: "" };

/// Returns the lowest and the highest ID that can carry a time of `from` to `to`.
async fn span(ask: Ask) -> Result<Response, Problem> {
    let query = ask.query()?;
    let [from, to] = ["from", "to"].map(|name| query.text(name).unwrap_or_default().as_bytes());
    let mut args: Vec<&[u8]> = vec![b"IDSPAN", from, to];
    let named = query.text("generator").filter(|name| *name != UNNAMED);
    args.extend(named.map(str::as_bytes));
    let told = ask.run(&args).await.map_err(|problem| match named {
        Some(name) => of_named(problem, name),
        None => problem,
    })?;
    let OwnedFrame::Array { data, .. } = &told else { return Err(Problem::stopping()) };
    let [lowest, highest] = [0, 1].map(|place| data.get(place).and_then(reply::text_of));
    Ok(reply::json(StatusCode::OK, &json!({ "lowest": lowest, "highest": highest })))
}
