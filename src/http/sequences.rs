//! Sequences: `/v1/sequences`, whose requests are `INCR` or subcommands of `SEQUENCE`.

use axum::body::Body;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::on;
use getid_core::{INCREMENT_MAX, NAME_BYTES_MAX, RESERVED_MAX, VALUE_MAX};
use redis_protocol::resp3::types::OwnedFrame;
use serde_json::{Map, Value, json};

use super::ask::{Ask, Name};
use super::endpoint::{Access, Answer, Endpoint, Method, in_path, optional};
use super::openapi::TAG_SEQUENCES;
use super::problem::Problem;
use super::remedy::escaped;
use super::reply;
use super::schema::{self, AMOUNT, Field, Schema, TEXT, field, maybe};

pub(super) const ENDPOINTS: &[Endpoint] = &[LIST, TELL, CREATE, CHANGE, COUNT];

/// A sequence's name. Blanks and the characters `{ } #` need an escape in a path.
const NAME: Schema = Schema::Text {
    chars_min: 1,
    chars_max: NAME_BYTES_MAX,
    pattern: "^[A-Za-z0-9_.:{}#-]([A-Za-z0-9_.:{}# -]*[A-Za-z0-9_.:{}#-])?$",
};

/// A value in a response.
const VALUE: Schema = Schema::Text { chars_min: 1, chars_max: 19, pattern: "^[0-9]+$" };

/// A value in a request: programs may send a text or an integer.
const ANY_VALUE: Schema = Schema::Either(&[&VALUE, &Schema::Integer { min: 0, max: VALUE_MAX }]);

const APART: Schema = Schema::Integer { min: 1, max: INCREMENT_MAX as i64 };

const CACHE: Schema = Schema::Integer { min: 0, max: RESERVED_MAX as i64 };

const OF_NAME: &[super::endpoint::Parameter] = &[in_path("name", &NAME, "The sequence.")];

const LIST: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/sequences",
    tag: TAG_SEQUENCES,
    id: "listSequences",
    summary: "Sequences in the order of their names, page by page",
    description: "With 'match', a page may be short, or empty, and have a 'next' all the same.",
    access: Access::Commands(&[("SEQUENCE LIST", "")]),
    parameters: &[
        optional("after", &CURSOR, "The 'next' of the page before, or a name to begin behind."),
        optional("limit", &Schema::Integer { min: 1, max: 1000 }, "Sequences to look at; 100 if it is left away."),
        optional("match", &PATTERN, "Only names that are like this, as in Redis's KEYS: 'order*'."),
    ],
    body: None,
    answers: &[Answer::ok(
        &Schema::Object(&[
            field("sequences", &Schema::List { of: &LISTED, items_max: 1000 }, ""),
            field("next", &Schema::OrNull(&TEXT), "'after' of the next page; null: this is the last one."),
            maybe("unreadable", &UNREADABLE, "What is wrong with rows that cannot be read."),
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
        field("next", &TEXT, "What the store gives next."),
        START,
        INCREMENT,
        OFFSET,
        CACHED,
        LAST_ONE,
        POLICY,
    ]),
);

const START: Field = field("start", &VALUE, "No value is below it.");
const INCREMENT: Field = field("increment", &APART, "How far values are apart.");
const OFFSET: Field = field("offset", &APART, "Which of the values that far apart.");
const CACHED: Field = field("cache", &CACHE, "Values of a reservation at least.");
const LAST_ONE: Field = field("max", &VALUE, "The last value that there may be.");
const POLICY: Field = field(
    "policy",
    &Schema::Word(&["default", "wait", "error"]),
    "Whether a request waits for the store; default is what 'sequence-policy' says.",
);

async fn list(ask: Ask) -> Result<Response, Problem> {
    let query = ask.query()?;
    let limit = query.number("limit").unwrap_or(100).to_string();
    let mut args: Vec<&[u8]> = vec![b"SEQUENCE", b"LIST"];
    let pattern = query.text("match").map(pattern);
    args.extend(pattern.as_ref().map(String::as_bytes));
    args.extend([&b"CURSOR"[..], query.text("after").unwrap_or_default().as_bytes()]);
    args.extend([&b"COUNT"[..], limit.as_bytes()]);
    let told = ask.run(&args).await?;
    let OwnedFrame::Array { data, .. } = &told else { return Err(Problem::stopping()) };
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

const TELL: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/sequences/{name}",
    tag: TAG_SEQUENCES,
    id: "getSequence",
    summary: "All that is known of a sequence",
    description: "",
    access: Access::Commands(&[("SEQUENCE INFO", "")]),
    parameters: OF_NAME,
    body: None,
    answers: &[Answer::ok(&SEQUENCE, "What is known of it.")],
    problems: &[404, 409],
    route: |filter| on(filter, tell),
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
        field("last_given_here", &Schema::OrNull(&VALUE), "The last value that this server gave."),
        field("reserved_until", &Schema::OrNull(&VALUE), "The last value that this server holds."),
        field("left", &AMOUNT, "Values that it holds."),
        field("a_kill_skips", &AMOUNT, "Values that would be lost if it were killed now."),
        field("given", &AMOUNT, "Values that it gave since it has the sequence in memory."),
        field("per_s_in_10_s", &RATE, "Values a second in the last 10 seconds."),
        field("per_s_in_5_min", &RATE, "The same in 5 minutes."),
        field("per_s_in_30_min", &RATE, "The same in 30 minutes."),
        field("reserved_at_a_time", &AMOUNT, "Values of a reservation now."),
        field("reserved_ms_ago", &Schema::OrNull(&AMOUNT), "When the last reservation was."),
        field("reserved_in_ms", &AMOUNT, "How long it took."),
        field("waits", &AMOUNT, "Requests that had to wait for the store."),
        field("waiting", &AMOUNT, "Requests that wait now."),
        field("errors", &AMOUNT, "Reservations that failed."),
        field("rows", &Schema::List { of: &ROW, items_max: usize::MAX }, "Its row in each store."),
        field("a_raise_holds_everywhere_in_s", &AMOUNT, "When no server gives anything of before a change."),
    ]),
);

const ROW: Schema = Schema::Object(&[
    field("store", &TEXT, "The address of the store."),
    field("state", &Schema::Word(&["live", "dropped", "went back"]), ""),
    field("next", &TEXT, ""),
    INCREMENT,
    OFFSET,
    field("version", &AMOUNT, ""),
    field("generation", &AMOUNT, "How often an operator has changed it."),
    field("created", &Schema::OrNull(&Schema::Time), ""),
    field("updated", &Schema::OrNull(&Schema::Time), ""),
]);

async fn tell(Name(name): Name, ask: Ask) -> Result<Response, Problem> {
    let told = ask.run(&[b"SEQUENCE", b"INFO", name.as_bytes()]).await?;
    Ok(reply::json(StatusCode::OK, &reply::shaped(&told, &SEQUENCE)))
}

const CREATE: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/sequences/{name}",
    tag: TAG_SEQUENCES,
    id: "createSequence",
    summary: "Make a sequence",
    description: "One that was dropped goes on above its last value, unless 'fresh' is true.",
    access: Access::Commands(&[("SEQUENCE CREATE", "")]),
    parameters: OF_NAME,
    body: Some(&[
        maybe("start", &ANY_VALUE, "No value is below it; 1 if it is left away."),
        maybe("increment", &APART, "How far values are apart; 1 if it is left away."),
        maybe("offset", &APART, "Which of the values that far apart, at most 'increment'; 1 if it is left away."),
        maybe(
            "cache",
            &CACHE,
            "Values of a reservation at least; 100 if it is left away. 0: each is in the store first.",
        ),
        maybe("max", &ANY_VALUE, "The last value that there may be."),
        maybe("policy", &WAIT_OR_ERROR, "Whether a request waits for the store."),
        maybe("fresh", &Schema::Bool, "Begin at 'start', though one of this name was dropped."),
    ]),
    answers: &[Answer {
        status: 201,
        media: "application/json",
        schema: Some(&Schema::Object(&[field("name", &NAME, "")])),
        description: "It is made; Location says where it is.",
    }],
    problems: &[404, 409],
    route: |filter| on(filter, create),
};

const WAIT_OR_ERROR: Schema = Schema::Word(&["wait", "error"]);

async fn create(Name(name): Name, ask: Ask, body: Body) -> Result<Response, Problem> {
    let mut body = ask.body(body).await?;
    let is_fresh = body.remove("fresh") == Some(Value::Bool(true));
    let words = words(&body);
    let mut args: Vec<&[u8]> = vec![b"SEQUENCE", b"CREATE", name.as_bytes()];
    args.extend(words.iter().map(String::as_bytes));
    args.extend(is_fresh.then_some(&b"FRESH"[..]));
    ask.run(&args).await?;
    let mut response = reply::json(StatusCode::CREATED, &json!({ "name": name }));
    if let Ok(place) = HeaderValue::try_from(format!("/v1/sequences/{}", escaped(&name))) {
        response.headers_mut().insert(LOCATION, place);
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
    description: "Either 'last' alone, or options. Nothing moves a sequence back.",
    access: Access::Commands(&[("SEQUENCE ALTER", "with options"), ("SEQUENCE RAISE", "with 'last'")]),
    parameters: OF_NAME,
    body: Some(&[
        maybe("last", &ANY_VALUE, "The next value is past it."),
        maybe("increment", &APART, "How far values are apart."),
        maybe("offset", &APART, "Which of the values that far apart, at most 'increment'."),
        maybe("cache", &CACHE, "Values of a reservation at least."),
        maybe("max", &ANY_VALUE, "The last value that there may be."),
        maybe("policy", &WAIT_OR_ERROR, "Whether a request waits for the store."),
    ]),
    answers: &[Answer::ok(
        &Schema::Object(&[
            field("name", &NAME, ""),
            field("holds_everywhere_in_s", &AMOUNT, "When no server gives anything of before; 0: now."),
        ]),
        "It is changed.",
    )],
    problems: &[404, 409],
    route: |filter| on(filter, change),
};

async fn change(Name(name): Name, ask: Ask, body: Body) -> Result<Response, Problem> {
    let body = ask.body(body).await?;
    let words = words(&body);
    let args: Vec<&[u8]> = match (body.get("last"), words.len()) {
        (None, 0) => {
            let detail = "the body says nothing to change: give it 'last', or options such as 'cache'";
            return Err(Problem::bad(detail.to_owned()));
        }
        (Some(_), 2) => vec![b"SEQUENCE", b"RAISE", name.as_bytes(), words[1].as_bytes()],
        (Some(_), _) => {
            let detail = "the body has 'last' beside options, which are two changes: send one after the other";
            return Err(Problem::bad(detail.to_owned()));
        }
        (None, _) => [&b"SEQUENCE"[..], b"ALTER", name.as_bytes()]
            .into_iter()
            .chain(words.iter().map(String::as_bytes))
            .collect(),
    };
    let told = ask.run(&args).await?;
    // The reply is `OK`, or `OK here, and on every server in 30 s`.
    let said = reply::text_of(&told).unwrap_or_default();
    let in_s: u64 = said.split(' ').find_map(|word| word.parse().ok()).unwrap_or_default();
    Ok(reply::json(StatusCode::OK, &json!({ "name": name, "holds_everywhere_in_s": in_s })))
}

const COUNT: Endpoint = Endpoint {
    method: Method::Post,
    path: "/v1/sequences/{name}/values",
    tag: TAG_SEQUENCES,
    id: "nextValues",
    summary: "Get the next values of a sequence",
    description: "Each is given once, and they ascend. Those of one request follow one another, 'increment' apart.",
    access: Access::Commands(&[("INCR", "without count, or with 1"), ("SEQUENCE NEXT", "with a count above 1")]),
    parameters: &[
        in_path("name", &NAME, "The sequence."),
        optional("count", &Schema::Count(|bounds| bounds.values), "How many; 1 if it is left away."),
    ],
    body: None,
    answers: &[Answer::ok(
        &Schema::Object(&[field(
            "values",
            &Schema::List { of: &VALUE, items_max: usize::MAX },
            "As many as were asked for.",
        )]),
        "The values.",
    )],
    problems: &[404, 409],
    route: |filter| on(filter, count),
};

async fn count(Name(name): Name, ask: Ask, body: Body) -> Result<Response, Problem> {
    let count = ask.query()?.number("count").unwrap_or(1);
    ask.body(body).await?;
    let counted = count.to_string();
    let args: &[&[u8]] = match count {
        1 => &[b"INCR", name.as_bytes()],
        _ => &[b"SEQUENCE", b"NEXT", name.as_bytes(), b"COUNT", counted.as_bytes()],
    };
    let values: Vec<_> = match ask.run(args).await.map_err(of_row)? {
        OwnedFrame::Array { data, .. } => match data.as_slice() {
            [OwnedFrame::Number { data: first, .. }, _, OwnedFrame::Number { data: increment, .. }] => {
                (0..count).map(|place| (first + place * increment).to_string()).collect()
            }
            _ => return Err(Problem::stopping()),
        },
        one => reply::text_of(&one).into_iter().collect(),
    };
    Ok(reply::json(StatusCode::OK, &json!({ "values": values })))
}

/// Changes a bad request about the sequence's row to a conflict: the request itself was checked before.
fn of_row(problem: Problem) -> Problem {
    let is_of_row = problem.status == StatusCode::BAD_REQUEST && problem.detail.starts_with("sequence '");
    if is_of_row { Problem { status: StatusCode::CONFLICT, ..problem } } else { problem }
}
