//! Sequences: `/v1/sequences`, whose requests are `INCR` or subcommands of `SEQUENCE`.

use axum::body::Body;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::on;
use getid_core::server::{INCREMENT_MAX, NAME_BYTES_MAX, RESERVED_MAX, VALUE_MAX};
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Map, Value, json};

use super::api_request::{ApiRequest, PathName};
use super::endpoint::{
    Endpoint, EndpointAccess, EndpointResponse, IDEMPOTENCY_KEY, KEPT_FOR, Method, in_path, optional,
};
use super::openapi::TAG_SEQUENCES;
use super::problem::Problem;
use super::remedy::escaped;
use super::schema::{self, AMOUNT, Field, Schema, TEXT, field, maybe};
use super::{id_list, reply, resp_request};

pub(super) const ENDPOINTS: &[Endpoint] = &[LIST, GET, CREATE, CHANGE, COUNT];

/// A sequence's name. Blanks and the characters `{ } #` need an escape in a path.
const NAME: Schema = Schema::Text {
    chars_min: 1,
    chars_max: NAME_BYTES_MAX,
    pattern: "^[A-Za-z0-9_.:{}#-]([A-Za-z0-9_.:{}# -]*[A-Za-z0-9_.:{}#-])?$",
};

/// A value in a response.
const VALUE: Schema = Schema::Text { chars_min: 1, chars_max: 19, pattern: "^[0-9]+$" };

/// A value in a request: programs may send a text or an integer.
const ANY_POSITION: Schema = Schema::Integer { min: 0, max: VALUE_MAX };

const ANY_VALUE: Schema = Schema::Either(&[&VALUE, &ANY_POSITION]);

const APART: Schema = Schema::Integer { min: 1, max: INCREMENT_MAX as i64 };

const CACHE: Schema = Schema::Integer { min: 0, max: RESERVED_MAX as i64 };

const NAME_PARAMETER: &[super::endpoint::Parameter] = &[in_path("name", &NAME, "The sequence.")];

const LIST: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/sequences",
    tag: TAG_SEQUENCES,
    id: "listSequences",
    summary: "List sequences by name, page by page",
    description: "With 'match', a page may be short or empty, and still have a 'next'.",
    access: EndpointAccess::Commands(&[("SEQUENCE LIST", "")]),
    parameters: &[
        optional("after", &CURSOR, "The 'next' of the previous page, or a name after which the list begins."),
        optional(
            "limit",
            &Schema::Integer { min: 1, max: 1000 },
            "The number of sequences to read; the default is 100.",
        ),
        optional("match", &PATTERN, "A glob pattern for the names, as in Redis's KEYS: 'order*'."),
    ],
    body: None,
    responses: &[EndpointResponse::ok(
        &Schema::Object(&[
            field("sequences", &Schema::List { of: &LISTED, items_max: 1000 }, ""),
            field("next", &Schema::OrNull(&TEXT), "The 'after' of the next page; null: this page is the last one."),
            maybe("unreadable", &UNREADABLE, "The errors of rows that cannot be read."),
        ]),
        "One page.",
    )],
    problems: &[404],
    route: |filter| on(filter, list),
};

const CURSOR: Schema = Schema::Text { chars_min: 1, chars_max: 300, pattern: "" };

const UNREADABLE: Schema = Schema::List { of: &TEXT, items_max: 1000 };

const PATTERN: Schema = Schema::Text { chars_min: 1, chars_max: 255, pattern: "" };

const LISTED: Schema = Schema::Named(
    "ListedSequence",
    &Schema::Object(&[
        field("name", &NAME, ""),
        field(
            "next",
            &Schema::OrNull(&TEXT),
            "The next value in the store; null for a sealed sequence that the user may not open.",
        ),
        START,
        INCREMENT,
        OFFSET,
        CACHED,
        LAST_ONE,
        POLICY,
        ENDS,
    ]),
);

const START: Field = field("start", &VALUE, "The lower bound of values.");
const INCREMENT: Field = field("increment", &APART, "The distance between values.");
const OFFSET: Field = field("offset", &APART, "The offset of values within the increment.");
const CACHED: Field = field("cache", &CACHE, "The smallest number of values in a reservation.");
const LAST_ONE: Field = field("max", &VALUE, "The upper bound of values.");
const POLICY: Field = field(
    "policy",
    &Schema::Word(&["default", "wait", "error"]),
    "Whether a request waits for the store; default is the value of 'sequence-policy'.",
);

/// End of a sequence or of one of its rows.
const ENDS: Field =
    field("ends", &Schema::OrNull(&Schema::Time), "From then on it gives no values; null if it has no end.");

async fn list(request: ApiRequest) -> Result<Response, Problem> {
    let query = request.query()?;
    let limit = query.number("limit").unwrap_or(100).to_string();
    let mut args: Vec<&[u8]> = vec![b"SEQUENCE", b"LIST"];
    let pattern = query.text("match").map(pattern);
    args.extend(pattern.as_ref().map(String::as_bytes));
    args.extend([&b"CURSOR"[..], query.text("after").unwrap_or_default().as_bytes()]);
    args.extend([&b"COUNT"[..], limit.as_bytes()]);
    let reply = request.run(&args).await?;
    let OwnedFrame::Array { data, .. } = &reply else { return Err(Problem::stopping()) };
    let next = data.first().and_then(reply::text_of).filter(|next| !next.is_empty());
    let all = data.get(1).map(|all| reply::shaped(all, &Schema::List { of: &LISTED, items_max: usize::MAX }));
    let mut page = json!({ "sequences": all, "next": next });
    if let Some(unreadable) = data.get(2) {
        page["unreadable"] = reply::shaped(unreadable, &UNREADABLE);
    }
    Ok(reply::json(StatusCode::OK, &page))
}

/// Escapes a pattern that the command would read as its option, since patterns have no fixed position.
fn pattern(text: &str) -> String {
    let is_word = ["cursor", "count"].iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_word { format!("\\{text}") } else { text.to_owned() }
}

const GET: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/sequences/{name}",
    tag: TAG_SEQUENCES,
    id: "getSequence",
    summary: "Get the state of a sequence",
    description: "",
    access: EndpointAccess::Commands(&[("SEQUENCE INFO", "")]),
    parameters: NAME_PARAMETER,
    body: None,
    responses: &[EndpointResponse::ok(&SEQUENCE, "The sequence.")],
    problems: &[404, 409],
    route: |filter| on(filter, get),
};

const RATE: Schema = Schema::Number;

const SEQUENCE: Schema = Schema::Named(
    "Sequence",
    &Schema::Object(&[
        field("name", &NAME, ""),
        field("last", &TEXT, "The last value that counts as given."),
        START,
        INCREMENT,
        OFFSET,
        CACHED,
        LAST_ONE,
        POLICY,
        ENDS,
        field("last_given_here", &Schema::OrNull(&VALUE), "The last value that this server gave."),
        field("reserved_until", &Schema::OrNull(&VALUE), "The last value that this server has reserved."),
        field("left", &AMOUNT, "Reserved values that are left on this server."),
        field("a_kill_skips", &AMOUNT, "Values that would be skipped if this server were killed now."),
        field("given", &AMOUNT, "Values that this server gave since it loaded the sequence."),
        field("per_s_in_10_s", &RATE, "Values per second, over the last 10 seconds."),
        field("per_s_in_5_min", &RATE, "Values per second, over the last 5 minutes."),
        field("per_s_in_30_min", &RATE, "Values per second, over the last 30 minutes."),
        field("reserved_at_a_time", &AMOUNT, "The current number of values in a reservation."),
        field("reserved_ms_ago", &Schema::OrNull(&AMOUNT), "The age of the last reservation, ms."),
        field("reserved_in_ms", &AMOUNT, "The duration of the last reservation, ms."),
        field("waits", &AMOUNT, "Requests that waited for the store."),
        field("waiting", &AMOUNT, "Requests that wait now."),
        field("errors", &AMOUNT, "Reservations that failed."),
        field("rows", &Schema::List { of: &ROW, items_max: usize::MAX }, "The row of the sequence in each store."),
        field("raise_effective_in_s", &AMOUNT, "Seconds until a change holds on every server."),
    ]),
);

const ROW: Schema = Schema::Object(&[
    field("store", &TEXT, "The address of the store."),
    field("state", &Schema::Word(&["live", "dropped", "went back"]), ""),
    field("next", &TEXT, ""),
    INCREMENT,
    OFFSET,
    field("version", &AMOUNT, ""),
    field("generation", &AMOUNT, "The number of changes by operators."),
    field("created", &Schema::OrNull(&Schema::Time), ""),
    field("updated", &Schema::OrNull(&Schema::Time), ""),
    ENDS,
]);

async fn get(PathName(name): PathName, request: ApiRequest) -> Result<Response, Problem> {
    let reply = request.run(&[b"SEQUENCE", b"INFO", name.as_bytes()]).await?;
    Ok(reply::json(StatusCode::OK, &reply::shaped(&reply, &SEQUENCE)))
}

const CREATE: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/sequences/{name}",
    tag: TAG_SEQUENCES,
    id: "createSequence",
    summary: "Create a sequence",
    description: "A dropped sequence continues above its last value, unless 'fresh' is true.",
    access: EndpointAccess::Commands(&[("SEQUENCE CREATE", "")]),
    parameters: NAME_PARAMETER,
    body: Some(&[
        maybe("start", &ANY_VALUE, "The lower bound of values; the default is 1."),
        maybe("increment", &APART, "The distance between values; the default is 1."),
        maybe("offset", &APART, "The offset of values within the increment, at most 'increment'; the default is 1."),
        maybe(
            "cache",
            &CACHE,
            "The smallest number of values in a reservation; the default is 100. 0: each value is stored first.",
        ),
        maybe("max", &ANY_VALUE, "The upper bound of values."),
        maybe("policy", &WAIT_OR_ERROR, "Whether a request waits for the store."),
        maybe("fresh", &Schema::Bool, "Begin at 'start', even if a sequence of this name was dropped."),
    ]),
    responses: &[EndpointResponse {
        status: 201,
        media: "application/json",
        schema: Some(&Schema::Object(&[field("name", &NAME, "")])),
        description: "The sequence is created; Location has its path.",
    }],
    problems: &[404, 409],
    route: |filter| on(filter, create),
};

const WAIT_OR_ERROR: Schema = Schema::Word(&["wait", "error"]);

async fn create(PathName(name): PathName, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    let mut body = request.body(body).await?;
    let is_fresh = body.remove("fresh") == Some(Value::Bool(true));
    let words = words(&body);
    let mut args: Vec<&[u8]> = vec![b"SEQUENCE", b"CREATE", name.as_bytes()];
    args.extend(words.iter().map(String::as_bytes));
    args.extend(is_fresh.then_some(&b"FRESH"[..]));
    request.run(&args).await?;
    let mut response = reply::json(StatusCode::CREATED, &json!({ "name": name }));
    if let Ok(location) = HeaderValue::try_from(format!("/v1/sequences/{}", escaped(&name))) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Returns options as words of a command.
fn words(body: &Map<String, Value>) -> Vec<String> {
    body.iter().flat_map(|(name, value)| [name.clone(), word(value)]).collect()
}

/// Returns a value that matches its schema as a word of a command.
fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        number => schema::integer(number).unwrap_or_default().to_string(),
    }
}

const CHANGE: Endpoint = Endpoint {
    method: Method::Patch,
    path: "/v1/sequences/{name}",
    tag: TAG_SEQUENCES,
    id: "changeSequence",
    summary: "Change the options of a sequence, or raise it",
    description: "Send 'last' alone, or options. No request moves a sequence back.",
    access: EndpointAccess::Commands(&[("SEQUENCE ALTER", "with options"), ("SEQUENCE RAISE", "with 'last'")]),
    parameters: NAME_PARAMETER,
    body: Some(&[
        maybe("last", &ANY_VALUE, "The next value is above this one."),
        maybe("increment", &APART, "The distance between values."),
        maybe("offset", &APART, "The offset of values within the increment, at most 'increment'."),
        maybe("cache", &CACHE, "The smallest number of values in a reservation."),
        maybe("max", &ANY_VALUE, "The upper bound of values."),
        maybe("policy", &WAIT_OR_ERROR, "Whether a request waits for the store."),
    ]),
    responses: &[EndpointResponse::ok(
        &Schema::Object(&[
            field("name", &NAME, ""),
            field("effective_in_s", &AMOUNT, "Seconds until the change holds on every server; 0: now."),
        ]),
        "The sequence is changed.",
    )],
    problems: &[404, 409],
    route: |filter| on(filter, change),
};

async fn change(PathName(name): PathName, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    let body = request.body(body).await?;
    let words = words(&body);
    let args: Vec<&[u8]> = match (body.get("last"), words.len()) {
        (None, 0) => {
            let detail = "the body names nothing to change; send 'last', or options such as 'cache'";
            return Err(Problem::bad(detail.to_owned()));
        }
        (Some(_), 2) => vec![b"SEQUENCE", b"RAISE", name.as_bytes(), words[1].as_bytes()],
        (Some(_), _) => {
            let detail = "the body has 'last' and options, which are two changes; send one after the other";
            return Err(Problem::bad(detail.to_owned()));
        }
        (None, _) => [&b"SEQUENCE"[..], b"ALTER", name.as_bytes()]
            .into_iter()
            .chain(words.iter().map(String::as_bytes))
            .collect(),
    };
    let reply = request.run(&args).await?;
    // The reply is `OK`, or `OK here, and on every server in 30 s`.
    let text = reply::text_of(&reply).unwrap_or_default();
    let in_s: u64 = text.split(' ').find_map(|word| word.parse().ok()).unwrap_or_default();
    Ok(reply::json(StatusCode::OK, &json!({ "name": name, "effective_in_s": in_s })))
}

pub(super) const COUNT: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/sequences/{name}/values",
    tag: TAG_SEQUENCES,
    id: "nextValues",
    summary: "Get the next values of a sequence",
    description: "Each value is given once, unless the Idempotency-Key of the request is known. Values ascend; those \
                  of one request are consecutive, 'increment' apart.",
    access: EndpointAccess::Commands(&[
        ("INCR", "without count, or with 1"),
        ("SEQUENCE NEXT", "with a count above 1, with 'above', or with an Idempotency-Key"),
    ]),
    parameters: &[
        in_path("name", &NAME, "The sequence."),
        optional("count", &Schema::Count(|bounds| bounds.values), "The number of values; the default is 1."),
        optional("above", &ANY_POSITION, "All values are above this one, which another server of the store gave."),
        KEPT_FOR,
        IDEMPOTENCY_KEY,
    ],
    body: None,
    responses: &[EndpointResponse::ok(
        &Schema::Object(&[field(
            "values",
            &Schema::List { of: &VALUE, items_max: usize::MAX },
            "The requested number of values; fewer, at least one, if there are no more up to the max.",
        )]),
        "The values.",
    )],
    problems: &[404, 409, 422],
    route: |filter| on(filter, count),
};

/// Returns the next values of the sequence `name`: `{"values":["..."]}`.
pub(super) async fn count(PathName(name): PathName, request: ApiRequest, body: Body) -> Result<Response, Problem> {
    let query = request.query()?;
    let count = query.number("count").unwrap_or(1);
    let words = request.request_words(&query)?;
    request.body(body).await?;
    let above = query.number("above").map(|value| value.to_string());
    if count == 1 && above.is_none() && words.is_empty() {
        let reply = request.run_bytes(&resp_request::encode(&[b"INCR", name.as_bytes()])).await?;
        return Ok(reply::json_text(id_list::of_reply(id_list::VALUES, &reply)?));
    }
    let counted = count.to_string();
    let mut next: Vec<&[u8]> = vec![b"SEQUENCE", b"NEXT", name.as_bytes(), b"COUNT", counted.as_bytes()];
    if let Some(above) = &above {
        next.extend([&b"ABOVE"[..], above.as_bytes()]);
    }
    let reply = match words.get(1) {
        Some(key) => {
            let _under_way = request.begin_key(&name, key).await?;
            let args: Vec<_> = next.into_iter().chain(words.iter().map(String::as_bytes)).collect();
            request.run(&args).await?
        }
        None => request.run(&next).await?,
    };
    let values: Vec<_> = match reply {
        OwnedFrame::Array { data, .. } => match data.as_slice() {
            &[
                OwnedFrame::Number { data: first, .. },
                OwnedFrame::Number { data: last, .. },
                OwnedFrame::Number { data: increment, .. },
            ] => {
                let values = (0..count).map(|index| first.saturating_add(index.saturating_mul(increment)));
                values.take_while(|value| *value <= last).map(|value| value.to_string()).collect()
            }
            _ => return Err(Problem::stopping()),
        },
        one => reply::text_of(&one).into_iter().collect(),
    };
    Ok(reply::json(StatusCode::OK, &json!({ "values": values })))
}
