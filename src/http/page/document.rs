//! What `/openapi.json` says of the page and of what it asks for.

use axum::routing::on;

use super::super::endpoint::{Access, Answer, Endpoint, Method};
use super::super::openapi::TAG_SERVER;
use super::super::schema::{AMOUNT, Field, Schema, TEXT, field, maybe};

/// Rows of the table of endpoints.
pub(in crate::http) const ENDPOINTS: &[Endpoint] = &[PAGE, STATUS_ONCE, STATUS_STREAM];

/// Whoever may ask for INFO may look.
const ACCESS: Access = Access::Commands(&[("INFO", "always")]);

const PAGE: Endpoint = Endpoint {
    method: Method::Get,
    path: "/",
    tag: TAG_SERVER,
    id: "getPage",
    summary: "The page for people",
    description: "It has no data itself: its script asks for the stream, with the login that its reader gives.",
    access: Access::Anybody,
    parameters: &[],
    body: None,
    answers: &[Answer { status: 200, media: "text/html; charset=utf-8", schema: None, description: "The page." }],
    problems: &[],
    route: |filter| on(filter, super::page),
};

const STATUS_ONCE: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status",
    tag: TAG_SERVER,
    id: "getStatus",
    summary: "What the page shows",
    description: "At most a second old.",
    access: ACCESS,
    parameters: &[],
    body: None,
    answers: &[Answer::ok(&STATUS, "The status, and what was given in the last ten minutes.")],
    problems: &[],
    route: |filter| on(filter, super::status),
};

const STATUS_STREAM: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status/stream",
    tag: TAG_SERVER,
    id: "watchStatus",
    summary: "The same once a second",
    description: "Server-sent events without end, for 32 viewers at a time. Each event 'status' has a status; only the \
                  first has a history. An event 'end' has the problem that the stream ends for.",
    access: ACCESS,
    parameters: &[],
    body: None,
    answers: &[Answer { status: 200, media: "text/event-stream", schema: None, description: "Events." }],
    problems: &[],
    route: |filter| on(filter, super::stream),
};

const STATUS: Schema = Schema::Named("Status", &Schema::Object(FIELDS));

const INTEGER: Schema = Schema::Integer { min: i64::MIN, max: i64::MAX };
const TEXT_OR_NULL: Schema = Schema::OrNull(&TEXT);
const AMOUNT_OR_NULL: Schema = Schema::OrNull(&AMOUNT);

/// RFC 3339 in UTC; past the year 9999, Unix milliseconds.
const FAR_TIME: Schema = TEXT;

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    field("time", &Schema::Time, "When that was."),
    field("giving", &Schema::Object(GIVING), "Whether IDs are given."),
    field("notices", &Schema::List { of: &Schema::Object(&[field("text", &TEXT, "A sentence.")]), items_max: usize::MAX },
        "What needs somebody soon, the most urgent first."),
    field("rate", &Schema::Object(RATE), "What was given in the last second."),
    field("server", &Schema::Object(SERVER), "The process."),
    field("ids", &Schema::Object(IDS), "IDs by the clock."),
    field("borrow", &Schema::Object(BORROW), "How far IDs are ahead of the clock."),
    field("clock", &Schema::Object(CLOCK), "The system's clock beside the one that IDs are made by."),
    field("watermark", &Schema::Object(WATERMARK), "Up to where IDs may be given, which is on disk."),
    field("layout", &Schema::Object(LAYOUT), "The unnamed generator's."),
    field("claim", &Schema::Object(CLAIM), "Who has the server-id."),
    field("clients", &Schema::Object(CLIENTS), "Those who are connected."),
    field("memory", &Schema::Object(MEMORY), "The process's."),
    field("generators", &Schema::Object(GENERATORS), "Those with names."),
    field("sequences", &Schema::OrNull(&Schema::Object(SEQUENCES)), "Null where nothing keeps any."),
    maybe("history", &Schema::Object(HISTORY), "The last ten minutes, the oldest second first."),
];

#[rustfmt::skip]
const GIVING: &[Field] = &[
    field("state", &Schema::Word(&["giving", "busy", "paused", "standby", "refusing", "stopping"]), "In one word."),
    field("reason", &TEXT_OR_NULL, "The error that a request would get, or what else there is to say."),
    field("remedy", &TEXT_OR_NULL, "What to do."),
];

#[rustfmt::skip]
const RATE: &[Field] = &[
    field("ids_per_s", &AMOUNT, "IDs, of all generators by the clock."),
    field("values_per_s", &AMOUNT, "Values of sequences."),
    field("refused_per_s", &AMOUNT, "Requests for either that were refused."),
];

const SECONDS: Schema = Schema::List { of: &AMOUNT, items_max: 600 };

#[rustfmt::skip]
const HISTORY: &[Field] = &[
    field("ids_per_s", &SECONDS, "IDs, of all generators by the clock."),
    field("values_per_s", &SECONDS, "Values of sequences."),
    field("refused_per_s", &SECONDS, "Requests for either that were refused."),
];

#[rustfmt::skip]
const SERVER: &[Field] = &[
    field("version", &TEXT, "Of getid."),
    field("server_id", &AMOUNT_OR_NULL, "The directive server-id; null with auto, while none is claimed."),
    field("run_id", &TEXT, "40 hex digits, new at each start."),
    field("uptime_s", &AMOUNT, "Seconds since the start."),
    field("requests_per_s", &AMOUNT, "Requests a second, of both ports."),
];

#[rustfmt::skip]
const IDS: &[Field] = &[
    field("issued", &AMOUNT, "IDs given since the start, of all generators."),
    field("issued_unnamed", &AMOUNT, "Of the unnamed one."),
    field("per_s_unnamed", &AMOUNT, "IDs of the unnamed one given or refused in the last second."),
    field("capacity_per_s", &AMOUNT, "IDs a second that its layout holds."),
    field("waiting", &AMOUNT, "IDs that are waited for."),
    field("wait_ms", &AMOUNT, "How long a large request would wait now, ms."),
    field("wait_limit_ms", &AMOUNT, "The directive id-max-wait-ms."),
    field("refused", &AMOUNT, "Requests that were refused since the start."),
    field("position", &Schema::Time, "The time of the next ID."),
];

#[rustfmt::skip]
const BORROW: &[Field] = &[
    field("ms", &AMOUNT, "How far the next ID is ahead, ms."),
    field("limit_ms", &AMOUNT, "The directive id-max-borrow-ms."),
    field("highest_ms", &AMOUNT, "The furthest since the start, ms."),
    field("policy", &TEXT, "The directive id-borrow-policy."),
];

#[rustfmt::skip]
const CLOCK: &[Field] = &[
    field("offset_ms", &INTEGER, "How far the system's clock is ahead, ms; negative: behind, after it was set back."),
    field("set_back", &AMOUNT, "Times it was set back."),
    field("jumps", &AMOUNT, "Times it jumped ahead."),
    field("holds_jump", &Schema::Bool, "Whether a jump ahead is not followed yet."),
];

#[rustfmt::skip]
const WATERMARK: &[Field] = &[
    field("lead_ms", &AMOUNT, "How far it is ahead of the next ID, ms."),
    field("time", &Schema::Time, "The same as a time."),
    field("last_save", &Schema::OrNull(&Schema::Time), "When it was last saved."),
    field("last_save_us", &AMOUNT, "How long that took, microseconds."),
    field("is_ok", &Schema::Bool, "False if the last save failed."),
    field("saves", &AMOUNT, "Saves that succeeded."),
    field("failures", &AMOUNT, "Saves that failed."),
    field("saving_ms", &AMOUNT, "How long the save that is under way has taken, ms; 0: none is."),
];

#[rustfmt::skip]
const LAYOUT: &[Field] = &[
    field("server_id_bits", &AMOUNT, "The directive id-range."),
    field("shard_bits", &AMOUNT, "The directive shard-range."),
    field("random_bits", &AMOUNT, "The directive random-range."),
    field("epoch", &Schema::Time, "The directive id-epoch."),
    field("ends", &Schema::Time, "The last time that an ID can carry."),
    field("days_left", &INTEGER, "Days until then, negative once it has passed."),
];

#[rustfmt::skip]
const CLAIM: &[Field] = &[
    field("state", &TEXT, "The directive id-state."),
    field("folder", &TEXT, "Where the state is."),
    field("cluster", &Schema::OrNull(&Schema::Object(CLUSTER_CLAIM)), "Null where the claim is in that folder."),
];

#[rustfmt::skip]
const CLUSTER_CLAIM: &[Field] = &[
    field("role", &Schema::Word(&["holder", "standby"]), "What this server is."),
    field("store", &TEXT, "The directive claim-store, without a password."),
    field("product", &TEXT, "What the store calls itself; empty until it has answered."),
    field("instance_name", &TEXT, "This server's name in the claim."),
    field("holder", &Schema::OrNull(&Schema::Object(HOLDER)), "Null while nobody has it, or nobody knows."),
    field("not_eligible", &TEXT_OR_NULL, "Why this standby would not take it over."),
    field("timeout_ms", &AMOUNT, "The directive claim-timeout-ms."),
    field("ride_through_ms", &AMOUNT, "For how long IDs go on if the store does not answer from now on, ms."),
    field("last_answer", &Schema::OrNull(&Schema::Time), "When the store last answered."),
    field("beats", &AMOUNT, "Writes that were acknowledged."),
    field("last_beat_us", &AMOUNT, "How long the last of them took, microseconds."),
    field("errors", &AMOUNT, "Calls of the store that failed."),
    field("error", &TEXT_OR_NULL, "The last failure; null once the store has answered again."),
    field("takeovers", &AMOUNT, "How often this process has taken a claim."),
    field("losses", &AMOUNT, "How often it had one and lost it."),
    field("last_takeover", &Schema::OrNull(&Schema::Object(TAKEOVER)), "The last time that it took one."),
];

#[rustfmt::skip]
const HOLDER: &[Field] = &[
    field("name", &TEXT, "Its instance-name."),
    field("host", &TEXT, "Its machine."),
    field("address", &TEXT, "Where its clients reach it; empty where that is not known."),
    field("is_this", &Schema::Bool, "Whether it is this process."),
    field("since", &Schema::OrNull(&Schema::Time), "Since when, by its own clock."),
    field("until", &Schema::OrNull(&Schema::Time), "Until when at the latest it gives IDs if it writes no more."),
];

#[rustfmt::skip]
const TAKEOVER: &[Field] = &[
    field("at", &Schema::OrNull(&Schema::Time), "When."),
    field("cause", &TEXT, "Why it could."),
    field("took_ms", &AMOUNT, "How long it took from the moment at which the cause was seen to the first ID, ms."),
];

#[rustfmt::skip]
const CLIENTS: &[Field] = &[
    field("connected", &AMOUNT, "On the Redis port."),
    field("max", &AMOUNT, "The directive maxclients."),
    field("peak", &AMOUNT, "The most at one time."),
    field("waiting", &AMOUNT, "Those that wait for IDs."),
    field("over_http", &AMOUNT, "Clients of the HTTP port that have asked for something."),
    field("over_http_max", &AMOUNT, "The directive http-max-clients."),
];

#[rustfmt::skip]
const MEMORY: &[Field] = &[
    field("resident_bytes", &AMOUNT, "Now."),
    field("peak_bytes", &AMOUNT, "The most that was seen."),
    field("machine_bytes", &AMOUNT_OR_NULL, "The machine's."),
];

#[rustfmt::skip]
const GENERATORS: &[Field] = &[
    field("count", &AMOUNT, "How many there are."),
    field("busiest", &Schema::List { of: &Schema::Object(GENERATOR), items_max: super::status::GENERATORS_MAX },
        "Those that give most."),
];

#[rustfmt::skip]
const GENERATOR: &[Field] = &[
    field("name", &TEXT, "Its name."),
    field("kind", &TEXT, "What it is declared as."),
    field("layout", &TEXT_OR_NULL, "The template of a serial number."),
    field("format", &TEXT_OR_NULL, "How its IDs are written."),
    field("per_s", &AMOUNT_OR_NULL, "IDs given or refused in the last second; null of one that a sequence counts."),
    field("issued", &AMOUNT_OR_NULL, "IDs given since the start."),
    field("ahead_ms", &AMOUNT_OR_NULL, "How far the next ID is ahead of the clock, ms."),
    field("position", &Schema::OrNull(&FAR_TIME), "The time of the next ID."),
    field("ends", &Schema::OrNull(&FAR_TIME), "When the time of its IDs ends; past the year 9999, Unix milliseconds."),
    field("days_left", &Schema::OrNull(&INTEGER), "Days until then."),
    field("refusing", &TEXT_OR_NULL, "Why it gives none now."),
];

#[rustfmt::skip]
const SEQUENCES: &[Field] = &[
    field("in_memory", &AMOUNT, "Sequences in memory."),
    field("given", &AMOUNT, "Values given since the start."),
    field("held", &AMOUNT, "Values that are reserved and not given."),
    field("waiting", &AMOUNT, "Requests that wait."),
    field("refused", &AMOUNT, "Requests that were refused since the start."),
    field("fetches", &AMOUNT, "Fetches since the start."),
    field("fetches_failed", &AMOUNT, "Those that failed."),
    field("busiest", &Schema::List { of: &Schema::Object(SEQUENCE), items_max: crate::generators::sequence::BUSIEST_MAX },
        "Those that give most."),
    field("stores", &Schema::List { of: &Schema::Object(STORE), items_max: usize::MAX }, "Where they are kept."),
];

#[rustfmt::skip]
const SEQUENCE: &[Field] = &[
    field("name", &TEXT, "Its name."),
    field("last", &TEXT_OR_NULL, "The value that this server gave last."),
    field("until", &TEXT_OR_NULL, "The last that it holds."),
    field("left", &AMOUNT, "How many it holds."),
    field("segment", &AMOUNT, "Values of the last fetch."),
    field("per_s", &Schema::Number, "Values a second, over 10 s."),
    field("fetched_ms_ago", &AMOUNT_OR_NULL, "How long ago the last fetch was, ms."),
    field("fetch_ms", &AMOUNT, "How long it took, ms."),
    field("waiting", &AMOUNT, "Requests that wait."),
    field("errors", &AMOUNT, "Fetches that failed."),
];

#[rustfmt::skip]
const STORE: &[Field] = &[
    field("address", &TEXT, "Its address without a password."),
    field("state", &Schema::Word(&["opening", "up", "held", "down"]), "Whether values can be reserved there."),
    field("for_s", &AMOUNT, "For how long, seconds."),
    field("database", &TEXT, "The database and its version."),
    field("slowest_ms", &AMOUNT, "The slowest statement, ms."),
    field("errors", &AMOUNT, "Statements that failed."),
    field("said", &TEXT_OR_NULL, "What was said, if it does not answer."),
];
