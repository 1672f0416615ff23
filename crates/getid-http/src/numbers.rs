//! Numbers without gaps: `/v1/numbers`, whose requests are subcommands of `NUMBER`.
//!
//! The *request* of a number is its handle: a text that the client chooses, in the field `request` of the body. To
//! reserve, the header `Idempotency-Key` may have it instead. Repeating any of these requests changes nothing.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::on;
use getid_core::server::SERIES_BYTES_MAX;
use getid_core::server::ledger::{DUE_S_MAX, NumberState, REASON_BYTES_MAX, REQUEST_BYTES_MAX};
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Map, Value, json};

use super::api_request::{ApiRequest, PathName};
use super::endpoint::{
    Endpoint, EndpointAccess, EndpointResponse, IDEMPOTENCY_KEY, Method, Parameter, in_path, optional,
};
use super::ids::{ID, NAME};
use super::openapi::TAG_NUMBERS;
use super::problem::Problem;
use super::reply;
use super::schema::{self, Field, Schema, TEXT, field, maybe};

pub(super) const ENDPOINTS: &[Endpoint] = &[RESERVE, COMMIT, RELEASE, VOID, SETTLE, LEDGER];

const REQUEST: Schema = Schema::Text { chars_min: 1, chars_max: REQUEST_BYTES_MAX, pattern: "" };

const REASON: Schema = Schema::Text { chars_min: 1, chars_max: REASON_BYTES_MAX, pattern: "" };

const KEY: Schema = Schema::Text { chars_min: 1, chars_max: SERIES_BYTES_MAX, pattern: "^[A-Za-z0-9_.-]+$" };

const DUE_S: Schema = Schema::Integer { min: 1, max: DUE_S_MAX as i64 };

const GENERATOR: Parameter = in_path("name", &NAME, "The generator, which is declared with 'gapless'.");

const OWN_REQUEST: Field = field("request", &REQUEST, "The request that has the number.");

const OWN_KEY: Field =
    maybe("key", &KEY, "The key of its series: then the user needs the right to this key, and not to the generator.");

const WHY: Field = field("reason", &REASON, "The reason, for the ledger.");

const RESERVE: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/numbers/{name}/reserve",
    tag: TAG_NUMBERS,
    id: "reserveNumber",
    summary: "Reserve a number for a request",
    description: "A request that has a number gets the same one again. Commit it when it is used, or release it. A \
                  reservation never expires.",
    access: EndpointAccess::Commands(&[("NUMBER RESERVE", "")]),
    parameters: &[GENERATOR, IDEMPOTENCY_KEY],
    body: Some(&[
        maybe("request", &REQUEST, "Your name for what gets the number; or the Idempotency-Key has it."),
        maybe("key", &KEY, "The key of the series, if the generator has a series for each key."),
        maybe("due_s", &DUE_S, "Seconds after which the reserved number is reported as overdue; the default is 3600."),
    ]),
    responses: &[EndpointResponse::ok(
        &Schema::Object(&[field("text", &ID, "The number."), OWN_REQUEST]),
        "The number of the request.",
    )],
    problems: &[404, 409, 422],
    route: |filter| on(filter, reserve),
};

async fn reserve(PathName(name): PathName, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    let key = request.idempotency_key()?;
    let body = request.body(body).await?;
    let own = match (text_of(&body, "request"), key.as_deref()) {
        (Some(own), Some(key)) if own != key => {
            let detail = "the body has a 'request', and Idempotency-Key is another; send one of them";
            return Err(Problem::bad(detail.to_owned()));
        }
        (Some(own), _) => own,
        (None, Some(key)) => key,
        (None, None) => {
            let detail = "the body has no 'request', which names what gets the number: {\"request\": \"order-77\"}";
            return Err(Problem::bad(detail.to_owned()));
        }
    };
    let due_s = body.get("due_s").and_then(schema::integer).map(|seconds| seconds.to_string());
    let mut args: Vec<&[u8]> = vec![b"NUMBER", b"RESERVE", name.as_bytes(), b"REQUEST", own.as_bytes()];
    args.extend(text_of(&body, "key").map(|key| [&b"KEY"[..], key.as_bytes()]).into_iter().flatten());
    args.extend(due_s.as_ref().map(|due_s| [&b"DUE"[..], due_s.as_bytes()]).into_iter().flatten());
    let _under_way = match &key {
        Some(key) => Some(request.begin_key(&name, key).await?),
        None => None,
    };
    let text = reply::text_of(&request.run(&args).await?).ok_or_else(Problem::stopping)?;
    Ok(reply::json(StatusCode::OK, &json!({ "text": text, "request": own })))
}

/// Returns a text of the body, which has passed the schema.
fn text_of<'a>(body: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    body.get(name).and_then(Value::as_str)
}

const COMMIT: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/numbers/{name}/commit",
    tag: TAG_NUMBERS,
    id: "commitNumber",
    summary: "Commit the number of a request",
    description: "The number is used. A committed number stays so.",
    access: EndpointAccess::Commands(&[("NUMBER COMMIT", "")]),
    parameters: &[GENERATOR],
    body: Some(&[OWN_REQUEST, OWN_KEY]),
    responses: &[EndpointResponse::ok(&SETTLED_REQUEST, "The number is committed.")],
    problems: &[404, 409],
    route: |filter| on(filter, commit),
};

const RELEASE: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/numbers/{name}/release",
    tag: TAG_NUMBERS,
    id: "releaseNumber",
    summary: "Release the number of a request",
    description: "Another request gets the number, unless its period has ended.",
    access: EndpointAccess::Commands(&[("NUMBER RELEASE", "")]),
    parameters: &[GENERATOR],
    body: Some(&[OWN_REQUEST, OWN_KEY]),
    responses: &[EndpointResponse::ok(&SETTLED_REQUEST, "The number is released.")],
    problems: &[404, 409],
    route: |filter| on(filter, release),
};

const VOID: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/numbers/{name}/void",
    tag: TAG_NUMBERS,
    id: "voidNumber",
    summary: "Mark the number of a request as not used",
    description: "No other request gets the number.",
    access: EndpointAccess::Commands(&[("NUMBER VOID", "")]),
    parameters: &[GENERATOR],
    body: Some(&[OWN_REQUEST, WHY, OWN_KEY]),
    responses: &[EndpointResponse::ok(&SETTLED_REQUEST, "The number is void.")],
    problems: &[404, 409],
    route: |filter| on(filter, void),
};

/// A request, and the state of the number that it had.
const SETTLED_REQUEST: Schema = Schema::Named(
    "SettledRequest",
    &Schema::Object(&[
        OWN_REQUEST,
        field("state", &Schema::Word(&["committed", "released", "void"]), "The state of its number."),
    ]),
);

async fn commit(name: PathName, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    settle_request(name, request, body, b"COMMIT", NumberState::Committed).await
}

async fn release(name: PathName, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    settle_request(name, request, body, b"RELEASE", NumberState::Released).await
}

async fn void(name: PathName, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    settle_request(name, request, body, b"VOID", NumberState::Void).await
}

/// Runs a command about the number of a request, after which the number is in `state`.
async fn settle_request(
    PathName(name): PathName,
    request: ApiRequest,
    body: Body,
    subcommand: &[u8],
    state: NumberState,
) -> Result<Response, Problem> {
    let body = request.body(body).await?;
    let own = text_of(&body, "request").unwrap_or_default();
    let mut args: Vec<&[u8]> = vec![b"NUMBER", subcommand, name.as_bytes(), own.as_bytes()];
    for (field, word) in [("reason", &b"REASON"[..]), ("key", b"KEY")] {
        args.extend(text_of(&body, field).map(|text| [word, text.as_bytes()]).into_iter().flatten());
    }
    request.run(&args).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "request": own, "state": state.word() })))
}

const SETTLE: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/numbers/{name}/settle",
    tag: TAG_NUMBERS,
    id: "settleNumber",
    summary: "Settle a number without its request",
    description: "For administrators: a number whose request is lost, or that is unclear after a restore.",
    access: EndpointAccess::Commands(&[("NUMBER SETTLE", "")]),
    parameters: &[GENERATOR],
    body: Some(&[
        field("text", &ID, "The number, as it was given."),
        field("state", &Schema::Word(&["committed", "void"]), "The state that the number gets."),
        WHY,
    ]),
    responses: &[EndpointResponse::ok(
        &Schema::Object(&[
            field("text", &ID, "The number."),
            field("state", &Schema::Word(&["committed", "void"]), "Its state."),
        ]),
        "The number is settled.",
    )],
    problems: &[404, 409],
    route: |filter| on(filter, settle),
};

async fn settle(PathName(name): PathName, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    let body = request.body(body).await?;
    let field = |field: &str| text_of(&body, field).unwrap_or_default();
    let (text, state, reason) = (field("text"), field("state"), field("reason"));
    let verb: &[u8] = if state == NumberState::Committed.word() { b"COMMIT" } else { b"VOID" };
    let args: [&[u8]; 7] = [b"NUMBER", b"SETTLE", name.as_bytes(), text.as_bytes(), verb, b"REASON", reason.as_bytes()];
    request.run(&args).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "text": text, "state": state })))
}

const LEDGER: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/numbers/{name}/ledger",
    tag: TAG_NUMBERS,
    id: "listNumbers",
    summary: "List the states of all numbers, page by page",
    description: "In the order of key, period and number. Each number from 1 to the highest of a period is in one row; \
                  a range of void or unclear numbers is one row.",
    access: EndpointAccess::Commands(&[("NUMBER LEDGER", "")]),
    parameters: &[
        GENERATOR,
        optional("key", &KEY, "Only the series of this key."),
        optional("period", &PERIOD, "Only this period, such as Y20260101."),
        optional("state", &STATE, "Only numbers in this state."),
        optional("after", &CURSOR, "The 'next' of the previous page."),
        optional("limit", &Schema::Integer { min: 1, max: 1000 }, "The number of rows in a page; the default is 100."),
    ],
    body: None,
    responses: &[EndpointResponse::ok(
        &Schema::Object(&[
            field("numbers", &Schema::List { of: &LISTED, items_max: 1000 }, ""),
            field("next", &Schema::OrNull(&TEXT), "The 'after' of the next page; null: this page is the last one."),
        ]),
        "One page.",
    )],
    problems: &[404, 409],
    route: |filter| on(filter, ledger),
};

const PERIOD: Schema = Schema::Text { chars_min: 1, chars_max: 16, pattern: "^[A-Za-z0-9]+$" };

const CURSOR: Schema = Schema::Text { chars_min: 1, chars_max: 600, pattern: "" };

const STATE: Schema = Schema::Word(&[
    NumberState::Reserved.word(),
    NumberState::Committed.word(),
    NumberState::Released.word(),
    NumberState::Void.word(),
    NumberState::Unclear.word(),
]);

/// A number as text.
const VALUE: Schema = Schema::Text { chars_min: 1, chars_max: 19, pattern: "^[0-9]+$" };

const LISTED: Schema = Schema::Named(
    "LedgerNumber",
    &Schema::Object(&[
        field("number", &VALUE, "The number, from 1 in each period."),
        field("last", &VALUE, "The last number of a range; else the same."),
        field("text", &ID, "The number as it was given; of a range the first."),
        field("key", &Schema::OrNull(&KEY), "The key of its series; null without one."),
        field("period", &Schema::OrNull(&PERIOD), "The period of its counter; null without one."),
        field("state", &STATE, ""),
        field("since", &Schema::OrNull(&Schema::Time), "The time of the state."),
        field("due", &Schema::OrNull(&Schema::Time), "The time from which a reserved number is overdue."),
        field("overdue", &Schema::Bool, "Whether a reserved number is overdue."),
        field("request", &Schema::OrNull(&TEXT), "The request; null if it has none, or the user may not see it."),
        field("user", &Schema::OrNull(&TEXT), "The user of the request."),
        field("reason", &Schema::OrNull(&TEXT), "Why the number is in the state."),
    ]),
);

async fn ledger(PathName(name): PathName, request: ApiRequest) -> Result<Response, Problem> {
    let query = request.query()?;
    let limit = query.number("limit").unwrap_or(100).to_string();
    let mut args: Vec<&[u8]> = vec![b"NUMBER", b"LEDGER", name.as_bytes()];
    for (parameter, word) in [("key", &b"KEY"[..]), ("period", b"PERIOD"), ("state", b"STATE"), ("after", b"CURSOR")] {
        args.extend(query.text(parameter).map(|text| [word, text.as_bytes()]).into_iter().flatten());
    }
    args.extend([&b"COUNT"[..], limit.as_bytes()]);
    let reply = request.run(&args).await?;
    let OwnedFrame::Array { data, .. } = &reply else { return Err(Problem::stopping()) };
    let Some((next, rows)) = data.split_first() else { return Err(Problem::stopping()) };
    let next = reply::text_of(next).filter(|next| !next.is_empty());
    let numbers: Vec<Value> = rows.iter().map(|row| reply::shaped(row, &LISTED)).collect();
    Ok(reply::json(StatusCode::OK, &json!({ "numbers": numbers, "next": next })))
}
