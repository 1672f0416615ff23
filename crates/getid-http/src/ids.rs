//! IDs: `POST /v1/ids/{name}?count=n`.

use axum::body::Body;
use axum::response::Response;
use axum::routing::on;
use getid_core::server::{NAME_BYTES_MAX, SERIES_BYTES_MAX};
use serde_json::{Map, Value};

use super::api_request::{ApiRequest, PathName};
use super::endpoint::{
    Endpoint, EndpointAccess, EndpointResponse, IDEMPOTENCY_KEY, KEPT_FOR, Method, in_path, optional,
};
use super::openapi::TAG_IDS;
use super::problem::Problem;
use super::schema::{self, Field, Schema, UNNAMED, field, maybe};
use super::{id_list, reply, resp_request};
use getid_redis::resp::ErrorKind;
use getid_redis::session::no_generator;
use getid_text::printable::printable_up_to;

pub(super) const ENDPOINTS: &[Endpoint] = &[DRAW];

/// The name of a generator or a sequence. Any other text is refused as no name.
pub(super) const NAME: Schema = Schema::Text { chars_min: 1, chars_max: NAME_BYTES_MAX, pattern: "^[A-Za-z0-9_.:-]+$" };

/// An ID: digits, or a text in its generator's format.
pub(super) const ID: Schema = Schema::Text { chars_min: 1, chars_max: 255, pattern: "" };

/// The key of a series. The command folds it as the generator declares.
const KEY: Schema = Schema::Text { chars_min: 1, chars_max: SERIES_BYTES_MAX, pattern: "^[A-Za-z0-9_.-]+$" };

/// The command of nearly all requests.
const GETID: &[u8] = b"*1\r\n$5\r\nGETID\r\n";

const FIELDS: &[Field] = &[maybe(
    "fields",
    &Schema::Map(&Schema::Either(&[
        &Schema::Integer { min: 0, max: i64::MAX },
        &Schema::Text { chars_min: 1, chars_max: 20, pattern: "^[0-9]+$" },
    ])),
    "Values of the generator's request fields, if it has any.",
)];

pub(super) const DRAW: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/ids/{name}",
    tag: TAG_IDS,
    id: "drawIds",
    summary: "Get IDs of a generator",
    description: "Each request returns new IDs, unless its Idempotency-Key is known. IDs ascend within a request, and \
                  over successive requests.",
    access: EndpointAccess::Commands(&[("GETID", "without count, or with 1"), ("MGETID", "with a count above 1")]),
    parameters: &[
        in_path("name", &NAME, "The generator; '-' is the unnamed one."),
        optional("count", &Schema::Count(|bounds| bounds.ids), "The number of IDs; the default is 1."),
        optional("key", &KEY, "The key of the series, for a generator that has one for each key."),
        KEPT_FOR,
        IDEMPOTENCY_KEY,
    ],
    body: Some(FIELDS),
    responses: &[EndpointResponse::ok(
        &Schema::Named(
            "Ids",
            &Schema::Object(&[field(
                "ids",
                &Schema::List { of: &ID, items_max: usize::MAX },
                "The requested number of IDs.",
            )]),
        ),
        "The IDs.",
    )],
    problems: &[404, 409, 422],
    route: |filter| on(filter, draw),
};

/// Returns `count` IDs of the generator `name`: `{"ids":["..."]}`.
pub(super) async fn draw(PathName(name): PathName, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    let query = request.query()?;
    let (count, key) = (query.number("count").unwrap_or(1), query.text("key"));
    let words = request.request_words(&query)?;
    let body = request.body(body).await?;
    if count == 1 && name == UNNAMED && body.is_empty() && words.is_empty() && key.is_none() {
        return Ok(reply::json_text(id_list::of_reply(id_list::IDS, &request.run_bytes(GETID).await?)?));
    }
    let counted = count.to_string();
    let mut args: Vec<&[u8]> = if count == 1 { vec![b"GETID"] } else { vec![b"MGETID", counted.as_bytes()] };
    let fields = fields(&body);
    if name == UNNAMED && fields.is_empty() && key.is_none() {
        // Only with a request the command names the unnamed generator.
        args.extend((!words.is_empty()).then_some(name.as_bytes()));
    } else if name != UNNAMED {
        check_fields(&request, &name, &fields)?;
        args.push(name.as_bytes());
        args.extend(key.iter().flat_map(|key| [&b"key"[..], key.as_bytes()]));
        args.extend(fields.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]));
    } else if key.is_some() {
        return Err(Problem::bad("the unnamed generator has no series; send no 'key'".to_owned()));
    } else {
        return Err(Problem::bad("the unnamed generator has no request fields; send no 'fields'".to_owned()));
    }
    args.extend(words.iter().map(String::as_bytes));
    let _under_way = match words.get(1) {
        Some(word) => Some(request.begin_key(&name, word).await?),
        None => None,
    };
    let reply = request.run_bytes(&resp_request::encode(&args)).await?;
    let ids = id_list::of_reply(id_list::IDS, &reply);
    Ok(reply::json_text(if name == UNNAMED { ids? } else { ids.map_err(|problem| of_named(problem, &name))? }))
}

/// Returns the problem of a command with a generator's name. If no generator is declared, the command takes no name,
/// and its arity error is replaced by the error for an unknown name.
pub(super) fn of_named(problem: Problem, name: &str) -> Problem {
    if problem.kind != Some(ErrorKind::Arity) {
        return problem;
    }
    Problem::from(&no_generator(name.as_bytes(), &[]))
}

/// Words of the command, which are no fields unless the generator declares a field of that name.
const OPTIONS: [&str; 3] = ["REQUEST", "FOR", "KEY"];

/// Checks that no field of the body would be an option of the command.
fn check_fields(request: &ApiRequest, name: &str, fields: &[(&str, String)]) -> Result<(), Problem> {
    let is_option = |field: &str| OPTIONS.iter().any(|option| field.eq_ignore_ascii_case(option));
    let Some((option, _)) = fields.iter().find(|(field, _)| is_option(field)) else { return Ok(()) };
    let settings = request.caller.server.settings.get();
    let generators = &settings.generators;
    let generator = generators.find(name.as_bytes()).and_then(|place| generators.get(place));
    let is_declared =
        generator.is_some_and(|(_, generator)| generator.request_fields().iter().any(|field| field.name == *option));
    if is_declared {
        return Ok(());
    }
    Err(Problem::bad(format!("unknown field '{option}' of generator '{}'", printable_up_to(name, 64))))
}

/// Returns the request's fields as words of the command.
fn fields(body: &Map<String, Value>) -> Vec<(&str, String)> {
    let Some(Value::Object(fields)) = body.get("fields") else { return Vec::new() };
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        number => schema::integer(number).unwrap_or_default().to_string(),
    };
    fields.iter().map(|(name, value)| (name.as_str(), word(value))).collect()
}
