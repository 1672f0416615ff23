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
use getid_text::printable::printable_up_to;

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
        "The ID, as its generator would return it; of a sealed generator the integer.",
    )],
    problems: &[404, 409],
    route: |filter| on(filter, encode),
};

/// Fields with names and values. Percent-encoded they fit the first line of a request.
const FIELDS: Schema =
    Schema::Text { chars_min: 1, chars_max: 2048, pattern: "^[A-Za-z0-9_-]+:[0-9.]+(,[A-Za-z0-9_-]+:[0-9.]+)*$" };

/// Options of `ENCODEID`, which no field is named after in a request.
const OPTIONS: [&str; 3] = ["TIME", "HIGHEST", "FORCE"];

/// Returns true for the bytes of a field's name.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-".contains(&byte)
}

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
        // Words of a query must not become options of the command.
        let is_word = |name: &str| !name.is_empty() && name.bytes().all(is_name_byte);
        let is_option = OPTIONS.iter().any(|option| field.eq_ignore_ascii_case(option));
        let is_value = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if is_option || !is_word(field) || !is_value {
            let text = format!(
                "'fields' of the query has '{}', which is not a field and its value in digits, as in \
                 worker:3,counter:5",
                printable_up_to(word, 64)
            );
            return Err(Problem::bad(text));
        }
        args.extend([field.as_bytes(), value.as_bytes()]);
    }
    args.extend(query.text("highest").map(|_| &b"HIGHEST"[..]));
    args.extend(query.text("force").map(|_| &b"FORCE"[..]));
    let reply = request.run(&args).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "id": reply::text_of(&reply) })))
}
