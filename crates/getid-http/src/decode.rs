//! Decodes an ID, and computes the IDs of a span of time: `GET /v1/ids/{name}` and `GET /v1/spans`.
//!
//! On the first path, `POST` has a generator's name where `GET` has an ID, so the parameter has one name for both.

use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use getid_core::server::is_name;
use getid_core::{Declaration, FieldLayout, FieldNotation, KIND_READINGS_MAX, Layout};
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Value, json};

use super::api_request::{ApiRequest, PathName};
use super::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method, in_path, optional, required};
use super::ids::{ID, NAME, of_named};
use super::openapi::TAG_IDS;
use super::problem::Problem;
use super::reply::{self, ReplyFrame};
use super::schema::{AMOUNT, Field, Schema, TEXT, UNNAMED, field};
use getid_redis::command::{KIND_READERS, parse_id};

pub(super) const ENDPOINTS: &[Endpoint] = &[DECODE, SPAN];

const DECODE: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/ids/{name}",
    tag: TAG_IDS,
    id: "decodeId",
    summary: "Decode an ID",
    description: "Without a generator, the response has every possible reading: that of the unnamed generator, if it \
                  is one of its IDs, those of at most 100 named generators, and those of at most 8 kinds that no \
                  generator declares. The reading whose time is nearest to now comes first, then readings with a \
                  future time, then readings without a time.",
    access: EndpointAccess::Commands(&[("DECODEID", "")]),
    parameters: &[
        in_path("name", &ID, "The ID, as its generator returned it."),
        optional("generator", &NAME, "The generator of the ID; '-' is the unnamed one."),
    ],
    body: None,
    responses: &[EndpointResponse::ok(&DECODED, "The readings.")],
    problems: &[404],
    route: |filter| on(filter, decode),
};

const DECODED: Schema = Schema::Named(
    "DecodedId",
    &Schema::Object(&[
        field("id", &TEXT, "The ID of the request."),
        field("readings", &Schema::List { of: &READING, items_max: usize::MAX }, "The readings of generators."),
        field(
            "kinds",
            &Schema::List { of: &KIND_READING, items_max: KIND_READINGS_MAX },
            "The readings of kinds that no generator declares. Empty if the request names a generator.",
        ),
    ]),
);

const MS: Schema = Schema::Integer { min: i64::MIN, max: i64::MAX };

const READING: Schema = Schema::Named(
    "Reading",
    &Schema::Object(&[
        field("generator", &Schema::OrNull(&TEXT), "The generator of this reading; null is the unnamed one."),
        field("kind", &Schema::OrNull(&TEXT), "The generator's kind."),
        READING_TIME,
        READING_UNIX_MS,
        READING_AHEAD_MS,
        READING_NOTE,
        READING_FIELDS,
    ]),
);

const KIND_READING: Schema = Schema::Named(
    "KindReading",
    &Schema::Object(&[
        field("kind", &TEXT, "The kind of this reading."),
        field("what", &TEXT, "The description of the kind."),
        READING_TIME,
        READING_UNIX_MS,
        READING_AHEAD_MS,
        READING_NOTE,
        READING_FIELDS,
    ]),
);

const READING_TIME: Field = field(
    "time",
    &Schema::OrNull(&Schema::Time),
    "The time of the ID, or the start of a serial number's period. Null if the IDs have no time, or past the year 9999.",
);
const READING_UNIX_MS: Field = field("unix_ms", &Schema::OrNull(&MS), "The time as Unix time, ms.");
const READING_AHEAD_MS: Field =
    field("ahead_ms", &Schema::OrNull(&MS), "How far the time is ahead of the server's clock, ms.");
const READING_NOTE: Field = field("note", &Schema::OrNull(&TEXT), "Why there is no time, or another note.");
const READING_FIELDS: Field =
    field("fields", &Schema::List { of: &FIELD, items_max: usize::MAX }, "The fields, the most significant first.");

const FIELD: Schema = Schema::Object(&[
    field("name", &TEXT, ""),
    field("bits", &Schema::OrNull(&AMOUNT), "The width; null if the number has no layout of bits."),
    field("value", &TEXT, "The value in decimal digits."),
    field("text", &Schema::OrNull(&TEXT), "The value as an IPv4 address, if it is one."),
]);

/// Decodes the ID by one generator, or by all that could have made it.
async fn decode(PathName(id): PathName, request: ApiRequest) -> Result<Response, Problem> {
    let query = request.query()?;
    let generator = query.text("generator");
    let named = generator.filter(|name| *name != UNNAMED);
    let mut args: Vec<&[u8]> = vec![b"DECODEID", id.as_bytes()];
    args.extend(named.map(str::as_bytes));
    let reply = request.run(&args).await.map_err(|problem| match named {
        Some(name) => with_hint(of_named(problem, name), &id, generator),
        None => with_hint(problem, &id, generator),
    })?;
    let readings = match named {
        Some(name) => vec![reading_of(&request, &reply, name, &id)],
        None => readings(&request, &reply, &id, generator.is_none()),
    };
    let kinds = if generator.is_none() { kind_readings(&reply, &id) } else { Vec::new() };
    if readings.is_empty() && kinds.is_empty() {
        let last = i64::MAX;
        return Err(Problem::bad(format!("the ID is not one of the unnamed generator: it is at most {last}")));
    }
    Ok(reply::json(StatusCode::OK, &json!({ "id": id, "readings": readings, "kinds": kinds })))
}

/// Adds a hint to the error for a name in place of an ID: the client probably means a `POST`. The hint is given for any
/// name, so that it does not reveal which generators exist.
fn with_hint(mut problem: Problem, id: &str, generator: Option<&str>) -> Problem {
    let is_generator_name = is_name(id) && (id == UNNAMED || id.bytes().any(|byte| byte.is_ascii_alphabetic()));
    if problem.status == StatusCode::BAD_REQUEST && generator.is_none() && is_generator_name {
        let generator =
            if id == UNNAMED { "the unnamed generator".to_owned() } else { format!("a generator named '{id}'") };
        problem.detail = format!("{}; POST /v1/ids/{id} returns IDs of {generator}", problem.detail);
    }
    problem
}

/// Returns the unnamed generator's reading and those of the named ones, the most plausible first.
fn readings(request: &ApiRequest, reply: &ReplyFrame, id: &str, with_named: bool) -> Vec<Value> {
    let mut readings = Vec::new();
    if reply::find(reply, "time").is_some() {
        let layout = request.caller.server.issuer().identity().layout;
        readings.push(reading(reply, fields_of_unnamed(layout, id)));
    }
    if let Some(OwnedFrame::Map { data, .. }) = reply::find(reply, "generators").filter(|_| with_named) {
        readings.extend(
            data.iter().filter_map(|(name, reply)| Some(reading_of(request, reply, &reply::text_of(name)?, id))),
        );
    }
    readings.sort_by_key(distance);
    readings
}

/// Returns the readings of kinds, in the order of the reply.
fn kind_readings(reply: &ReplyFrame, id: &str) -> Vec<Value> {
    let Some(OwnedFrame::Map { data, .. }) = reply::find(reply, "kinds") else { return Vec::new() };
    // The parser of replies keeps no order of a map.
    let mut readings: Vec<_> = data
        .iter()
        .filter_map(|(word, reply)| {
            let reader = KIND_READERS.find(&reply::text_of(word)?)?;
            let mut reading = reply::shaped(reply, &KIND_READING);
            reading["kind"] = reader.declaration().kind().word.into();
            reading["fields"] = fields_of(reader.declaration(), id).into();
            Some(reading)
        })
        .collect();
    // Kinds with equal times are in the order of the table.
    let place = |reading: &Value| KIND_READERS.iter().position(|reader| reading["kind"] == reader.declaration().name());
    readings.sort_by_key(|reading| (distance(reading), place(reading)));
    readings
}

/// Returns how far the time of a reading is from now, ms; the largest number for one without a time.
fn distance(reading: &Value) -> u64 {
    reading["ahead_ms"].as_i64().map_or(u64::MAX, i64::unsigned_abs)
}

fn reading_of(request: &ApiRequest, reply: &ReplyFrame, name: &str, id: &str) -> Value {
    let settings = request.caller.server.settings.get();
    let generators = &settings.generators;
    let generator = generators.find(name.as_bytes()).and_then(|index| generators.get(index));
    let fields = if let Some((_, generator)) = generator {
        fields_of(generator.declaration(), id)
    } else {
        let value = reply::find(reply, "value").and_then(reply::text_of);
        value.map(|value| json!({ "name": "value", "bits": null, "value": value, "text": null })).into_iter().collect()
    };
    reading(reply, fields)
}

fn reading(reply: &ReplyFrame, fields: Vec<Value>) -> Value {
    let mut reading = reply::shaped(reply, &READING);
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
    let field = |name: &str, bits: u32, value: u64| json!({ "name": name, "bits": bits, "value": value.to_string(), "text": null });
    vec![
        field("time", ID_BITS - below, id.get() >> below),
        field("server_id", layout.server_bits(), parts.server.into()),
        field("shard", layout.shard_bits(), parts.shard.into()),
        field("random", layout.random_bits(), parts.random.into()),
    ]
}

fn fields_of(declaration: &Declaration, id: &str) -> Vec<Value> {
    // A reload in between may have changed the generator.
    let Some(number) = declaration.read(id) else { return Vec::new() };
    let fields = declaration.layout().places().map(|(field, shift)| {
        let value = FieldLayout::value(field, shift, number);
        let address = u64::try_from(value).ok().filter(|_| field.notation() == FieldNotation::Address);
        let text = address.map(|value| field.declared_value(value));
        json!({ "name": field.name, "bits": field.bits, "value": value.to_string(), "text": text })
    });
    fields.collect()
}

const SPAN: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/spans",
    tag: TAG_IDS,
    id: "spanOfIds",
    summary: "Get the lowest and the highest ID of a span of time",
    description: "For queries by ID, such as 'all rows of yesterday'.",
    access: EndpointAccess::Commands(&[("IDSPAN", "")]),
    parameters: &[
        required("from", &TIME, "The first time: RFC 3339 (a plus is written %2B), a day, Unix time in ms, or now."),
        required("to", &TIME, "The last time, inclusive."),
        optional("generator", &NAME, "The generator; the default, and '-', is the unnamed one."),
    ],
    body: None,
    responses: &[EndpointResponse::ok(
        &Schema::Named("Span", &Schema::Object(&[field("lowest", &ID, ""), field("highest", &ID, "")])),
        "Both are inclusive.",
    )],
    problems: &[404, 409],
    route: |filter| on(filter, span),
};

pub(super) const TIME: Schema = Schema::Text { chars_min: 1, chars_max: 64, pattern: "" };

/// Returns the lowest and the highest ID that can carry a time of `from` to `to`.
async fn span(request: ApiRequest) -> Result<Response, Problem> {
    let query = request.query()?;
    let [from, to] = ["from", "to"].map(|name| query.text(name).unwrap_or_default().as_bytes());
    let mut args: Vec<&[u8]> = vec![b"IDSPAN", from, to];
    let named = query.text("generator").filter(|name| *name != UNNAMED);
    args.extend(named.map(str::as_bytes));
    let reply = request.run(&args).await.map_err(|problem| match named {
        Some(name) => of_named(problem, name),
        None => problem,
    })?;
    let OwnedFrame::Array { data, .. } = &reply else { return Err(Problem::stopping()) };
    let [lowest, highest] = [0, 1].map(|index| data.get(index).and_then(reply::text_of));
    Ok(reply::json(StatusCode::OK, &json!({ "lowest": lowest, "highest": highest })))
}
