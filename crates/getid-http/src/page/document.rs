//! The rows of the table of endpoints for the page and its requests, with their schemas for `/openapi.json`.

use axum::routing::on;

use super::super::endpoint::{Endpoint, EndpointAccess, EndpointResponse, Method, in_path};
use super::super::ids::NAME;
use super::super::openapi::TAG_SERVER;
use super::super::schema::{AMOUNT, Field, Schema, TEXT, field, maybe};
use super::details::CLAIMS_SHOWN_MAX;
use getid_server::logging::LINES_MAX;

/// The page's rows of the table of endpoints.
pub(crate) const ENDPOINTS: &[Endpoint] =
    &[PAGE, STATUS_ONCE, STATUS_STREAM, STATUS_DETAILS, STATUS_GENERATOR, STATUS_SEQUENCES];

/// The status requires the right to INFO.
const ACCESS: EndpointAccess = EndpointAccess::Commands(&[("INFO", "always")]);

const PAGE: Endpoint = Endpoint {
    method: Method::Get,
    path: "/",
    tag: TAG_SERVER,
    id: "getPage",
    summary: "Open the page",
    description: "The page has no data: its script requests the stream, with the login of its user.",
    access: EndpointAccess::Public,
    parameters: &[],
    body: None,
    responses: &[EndpointResponse {
        status: 200,
        media: "text/html; charset=utf-8",
        schema: None,
        description: "The page.",
    }],
    problems: &[],
    route: |filter| on(filter, super::page),
};

const STATUS_ONCE: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status",
    tag: TAG_SERVER,
    id: "getStatus",
    summary: "Get the status",
    description: "The data of the page, at most a second old.",
    access: ACCESS,
    parameters: &[],
    body: None,
    responses: &[EndpointResponse::ok(&STATUS, "The status, with the history of the last ten minutes.")],
    problems: &[],
    route: |filter| on(filter, super::status),
};

const STATUS_STREAM: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status/stream",
    tag: TAG_SERVER,
    id: "watchStatus",
    summary: "Watch the status",
    description: "An endless stream of server-sent events, one a second, for at most 32 viewers at a time. Each event \
                  'status' has a status; only the first has a history. An event 'end' has the problem that ends the \
                  stream.",
    access: ACCESS,
    parameters: &[],
    body: None,
    responses: &[EndpointResponse { status: 200, media: "text/event-stream", schema: None, description: "Events." }],
    problems: &[],
    route: |filter| on(filter, super::stream),
};

const STATUS_DETAILS: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status/details",
    tag: TAG_SERVER,
    id: "getStatusDetails",
    summary: "Get details of the status",
    description: "The details have the user's rights, the last day, commands, errors and worker ids, at most a second \
                  old. For a user with the right to CONFIG GET, they also have the newest lines of the log and the \
                  claims of a fleet. The claims are at most five seconds old while the claim store answers.",
    access: ACCESS,
    parameters: &[],
    body: None,
    responses: &[EndpointResponse::ok(&DETAILS, "The details.")],
    problems: &[],
    route: |filter| on(filter, super::details),
};

const STATUS_GENERATOR: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status/generators/{name}",
    tag: TAG_SERVER,
    id: "getStatusGenerator",
    summary: "Get the details of one generator",
    description: "A user without the right to GENERATORS needs the right to GETID with the generator's name as its key.",
    access: EndpointAccess::Commands(&[("INFO", "always"), ("GENERATORS", "or GETID with this generator")]),
    parameters: &[in_path("name", &NAME, "The generator; '-' is the unnamed one.")],
    body: None,
    responses: &[EndpointResponse::ok(&GENERATOR_DETAILS, "The layout, and the chart of the last ten minutes.")],
    problems: &[404],
    route: |filter| on(filter, super::generator),
};

const STATUS_SEQUENCES: Endpoint = Endpoint {
    method: Method::Get,
    path: "/v1/status/sequences",
    tag: TAG_SERVER,
    id: "getStatusSequences",
    summary: "Get the first sequences of the store, and the user's rights to each",
    description: "/v1/sequences lists all of them, page by page.",
    access: EndpointAccess::Commands(&[("INFO", "always"), ("SEQUENCE LIST", "always")]),
    parameters: &[],
    body: None,
    responses: &[EndpointResponse::ok(&STATUS_SEQUENCES_SCHEMA, "The sequences, by name.")],
    problems: &[404],
    route: |filter| on(filter, super::sequences),
};

const STATUS_SEQUENCES_SCHEMA: Schema = Schema::Named(
    "StatusSequences",
    &Schema::Object(&[
        field("sequences", &SEQUENCES_LISTED, "The first sequences."),
        field("has_more", &Schema::Bool, "Whether there are more."),
    ]),
);

#[rustfmt::skip]
pub(super) const SEQUENCES_LISTED: Schema = Schema::List { of: &Schema::Object(&[
    field("name", &TEXT, "Its name."),
    field("next", &TEXT, "The next value in the store."),
    field("increment", &AMOUNT, "The distance between values."),
    field("cache", &AMOUNT, "The smallest number of values in a reservation."),
    field("may_count", &Schema::Bool, "Whether the user may get its next value."),
    field("may_raise", &Schema::Bool, "Whether the user may raise it."),
]), items_max: super::sequences::LISTED_MAX };

const STATUS: Schema = Schema::Named("Status", &Schema::Object(FIELDS));

const INTEGER: Schema = Schema::Integer { min: i64::MIN, max: i64::MAX };
const TEXT_OR_NULL: Schema = Schema::OrNull(&TEXT);
const AMOUNT_OR_NULL: Schema = Schema::OrNull(&AMOUNT);

/// A time of RFC 3339 in UTC; past the year 9999, Unix milliseconds.
const FAR_TIME: Schema = TEXT;

#[rustfmt::skip]
const FIELDS: &[Field] = &[
    field("time", &Schema::Time, "The time of this status."),
    field("giving", &Schema::Object(GIVING), "Whether IDs are given."),
    field("notices", &Schema::List { of: &Schema::Object(&[field("text", &TEXT, "A sentence.")]), items_max: usize::MAX },
        "Notices, the most urgent first."),
    field("rate", &Schema::Object(RATE), "Rates of the last second."),
    field("server", &Schema::Object(SERVER), "The process."),
    field("ids", &Schema::Object(IDS), "IDs by the clock."),
    field("borrow", &Schema::Object(BORROW), "How far IDs are ahead of the clock."),
    field("clock", &Schema::Object(CLOCK), "The system's clock, compared with the reference clock of IDs."),
    field("watermark", &Schema::Object(WATERMARK), "The saved upper bound of IDs."),
    field("layout", &Schema::Object(LAYOUT), "The layout of the unnamed generator."),
    field("claim", &Schema::Object(CLAIM), "The claim of the server-id."),
    field("clients", &Schema::Object(CLIENTS), "Connected clients."),
    field("memory", &Schema::Object(MEMORY), "The memory of the process."),
    field("generators", &Schema::Object(GENERATORS), "Named generators."),
    field("sequences", &Schema::OrNull(&Schema::Object(SEQUENCES)), "Sequences; null if the server has none."),
    maybe("history", &Schema::Object(HISTORY), "The last ten minutes, the oldest second first."),
];

#[rustfmt::skip]
const GIVING: &[Field] = &[
    field("state", &Schema::Word(&["giving", "busy", "paused", "standby", "refusing", "stopping"]), "The state in one word."),
    field("reason", &TEXT_OR_NULL, "The error that a request would get, or another reason."),
    field("remedy", &TEXT_OR_NULL, "The remedy."),
];

#[rustfmt::skip]
const RATE: &[Field] = &[
    field("ids_per_s", &AMOUNT, "IDs, of all generators by the clock."),
    field("values_per_s", &AMOUNT, "Values of sequences."),
    field("refused_per_s", &AMOUNT, "Requests for IDs or values that were refused."),
];

const SECONDS: Schema = Schema::List { of: &AMOUNT, items_max: 600 };

#[rustfmt::skip]
const HISTORY: &[Field] = &[
    field("ids_per_s", &SECONDS, "IDs, of all generators by the clock."),
    field("values_per_s", &SECONDS, "Values of sequences."),
    field("refused_per_s", &SECONDS, "Requests for IDs or values that were refused."),
];

#[rustfmt::skip]
const SERVER: &[Field] = &[
    field("version", &TEXT, "The version of getid."),
    field("server_id", &AMOUNT_OR_NULL, "The directive server-id; null with auto, while none is claimed."),
    field("run_id", &TEXT, "40 hex digits, new at each start."),
    field("uptime_s", &AMOUNT, "Seconds since the start."),
    field("requests_per_s", &AMOUNT, "Requests a second, of both ports."),
    field("port", &AMOUNT, "The Redis port, or tls-port if it is the only one; 0: none."),
    field("tls_port", &AMOUNT, "The directive tls-port."),
    field("ids_max", &AMOUNT, "The directive id-mgetid-max."),
];

#[rustfmt::skip]
const IDS: &[Field] = &[
    field("issued", &AMOUNT, "IDs given since the start, of all generators."),
    field("issued_unnamed", &AMOUNT, "IDs of the unnamed generator since the start."),
    field("per_s_unnamed", &AMOUNT, "IDs of the unnamed generator, given or refused, in the last second."),
    field("capacity_per_s", &AMOUNT, "The capacity of the layout, IDs per second."),
    field("waiting", &AMOUNT, "IDs for which requests wait."),
    field("wait_ms", &AMOUNT, "The wait of a large request now, ms."),
    field("wait_limit_ms", &AMOUNT, "The directive id-max-wait-ms."),
    field("refused", &AMOUNT, "Requests refused since the start."),
    field("position", &Schema::Time, "The time of the next ID."),
];

#[rustfmt::skip]
const BORROW: &[Field] = &[
    field("ms", &AMOUNT, "How far the next ID is ahead, ms."),
    field("limit_ms", &AMOUNT, "The directive id-max-borrow-ms."),
    field("highest_ms", &AMOUNT, "The largest value of 'ms' since the start."),
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
    field("time", &Schema::Time, "The watermark as a time."),
    field("last_save", &Schema::OrNull(&Schema::Time), "The time of the last save."),
    field("last_save_us", &AMOUNT, "The duration of the last save, microseconds."),
    field("is_ok", &Schema::Bool, "False if the last save failed."),
    field("saves", &AMOUNT, "Saves that succeeded."),
    field("failures", &AMOUNT, "Saves that failed."),
    field("saving_ms", &AMOUNT, "The time since the start of the save in progress, ms; 0: none."),
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
    field("folder", &TEXT, "The state folder."),
    field("cluster", &Schema::OrNull(&Schema::Object(CLUSTER_CLAIM)), "The claim in a store; null if it is in the folder."),
];

#[rustfmt::skip]
const CLUSTER_CLAIM: &[Field] = &[
    field("role", &Schema::Word(&["holder", "standby"]), "The role of this server."),
    field("store", &TEXT, "The directive claim-store, without a password."),
    field("product", &TEXT, "The product and version of the store; empty before its first answer."),
    field("instance_name", &TEXT, "This server's name in the claim."),
    field("holder", &Schema::OrNull(&Schema::Object(HOLDER)), "The holder; null if there is none, or none is known."),
    field("not_eligible", &TEXT_OR_NULL, "The reason why this standby cannot take over."),
    field("timeout_ms", &AMOUNT, "The directive claim-timeout-ms."),
    field("ride_through_ms", &AMOUNT, "How long IDs are given if the store stops answering now, ms."),
    field("last_answer", &Schema::OrNull(&Schema::Time), "The time of the store's last answer."),
    field("beats", &AMOUNT, "Writes that were acknowledged."),
    field("last_beat_us", &AMOUNT, "The duration of the last write, microseconds."),
    field("errors", &AMOUNT, "Calls of the store that failed."),
    field("error", &TEXT_OR_NULL, "The last failure; null once the store has answered again."),
    field("takeovers", &AMOUNT, "Claims that this process has taken over."),
    field("losses", &AMOUNT, "Claims that this process has lost."),
    field("last_takeover", &Schema::OrNull(&Schema::Object(TAKEOVER)), "The last takeover by this process."),
];

#[rustfmt::skip]
const HOLDER: &[Field] = &[
    field("name", &TEXT, "The holder's instance-name."),
    field("host", &TEXT, "The host name of its machine."),
    field("address", &TEXT, "Its address for clients; empty if unknown."),
    field("is_this", &Schema::Bool, "Whether the holder is this process."),
    field("since", &Schema::OrNull(&Schema::Time), "The start of the claim, by the holder's clock."),
    field("until", &Schema::OrNull(&Schema::Time), "The end of its IDs if it stops writing now."),
];

#[rustfmt::skip]
const TAKEOVER: &[Field] = &[
    field("at", &Schema::OrNull(&Schema::Time), "The time of the takeover."),
    field("cause", &TEXT, "The reason why the claim was free."),
    field("took_ms", &AMOUNT, "The time from the detection of the cause to the first ID, ms."),
];

#[rustfmt::skip]
const CLIENTS: &[Field] = &[
    field("connected", &AMOUNT, "Clients of the Redis port."),
    field("max", &AMOUNT, "The directive maxclients."),
    field("peak", &AMOUNT, "The largest number of connected clients since the start."),
    field("waiting", &AMOUNT, "Clients that wait for IDs."),
    field("over_http", &AMOUNT, "Clients of the HTTP port that have sent a request."),
    field("over_http_max", &AMOUNT, "The directive http-max-clients."),
];

#[rustfmt::skip]
const MEMORY: &[Field] = &[
    field("resident_bytes", &AMOUNT, "Resident memory now."),
    field("peak_bytes", &AMOUNT, "The largest resident memory seen."),
    field("machine_bytes", &AMOUNT_OR_NULL, "The memory of the machine."),
];

#[rustfmt::skip]
const GENERATORS: &[Field] = &[
    field("count", &AMOUNT, "The number of named generators."),
    field("busiest", &Schema::List { of: &Schema::Object(GENERATOR), items_max: super::status::GENERATORS_MAX },
        "The busiest ones."),
];

#[rustfmt::skip]
const GENERATOR: &[Field] = &[
    field("name", &TEXT, "Its name."),
    field("kind", &TEXT, "The declared kind."),
    field("layout", &TEXT_OR_NULL, "The template of a serial number."),
    field("last", &TEXT_OR_NULL, "For a generator over a sequence: the last value that this server gave."),
    field("format", &TEXT_OR_NULL, "The text format of its IDs."),
    field("per_s", &Schema::OrNull(&Schema::Number), "IDs given or refused in the last second; over 10 s for a counter."),
    field("issued", &AMOUNT_OR_NULL, "IDs given since the start, or since its sequence was loaded."),
    field("ahead_ms", &AMOUNT_OR_NULL, "How far the next ID is ahead of the clock, ms."),
    field("position", &Schema::OrNull(&FAR_TIME), "The time of the next ID."),
    field("ends", &Schema::OrNull(&FAR_TIME), "The last time of its IDs; past the year 9999, Unix milliseconds."),
    field("days_left", &Schema::OrNull(&INTEGER), "Days until the end."),
    field("refusing", &TEXT_OR_NULL, "The reason why it gives no IDs now."),
];

#[rustfmt::skip]
const SEQUENCES: &[Field] = &[
    field("in_memory", &AMOUNT, "Sequences in memory."),
    field("given", &AMOUNT, "Values given since the start."),
    field("held", &AMOUNT, "Values that are reserved and not given."),
    field("waiting", &AMOUNT, "Requests that wait."),
    field("refused", &AMOUNT, "Requests refused since the start."),
    field("fetches", &AMOUNT, "Fetches since the start."),
    field("fetches_failed", &AMOUNT, "Fetches that failed since the start."),
    field("busiest", &Schema::List { of: &Schema::Object(SEQUENCE), items_max: getid_engine::generators::sequence::BUSIEST_MAX },
        "The busiest ones."),
    field("stores", &Schema::List { of: &Schema::Object(STORE), items_max: usize::MAX }, "The stores."),
];

#[rustfmt::skip]
const SEQUENCE: &[Field] = &[
    field("name", &TEXT, "Its name."),
    field("last", &TEXT_OR_NULL, "The last value that this server gave."),
    field("until", &TEXT_OR_NULL, "The last reserved value."),
    field("left", &AMOUNT, "Reserved values that are left."),
    field("segment", &AMOUNT, "Values of the last fetch."),
    field("per_s", &Schema::Number, "Values a second, over 10 s."),
    field("fetched_ms_ago", &AMOUNT_OR_NULL, "The age of the last fetch, ms."),
    field("fetch_ms", &AMOUNT, "The duration of the last fetch, ms."),
    field("waiting", &AMOUNT, "Requests that wait."),
    field("errors", &AMOUNT, "Fetches that failed."),
];

#[rustfmt::skip]
const STORE: &[Field] = &[
    field("address", &TEXT, "Its address without a password."),
    field("state", &Schema::Word(&["opening", "up", "held", "down"]), "Whether the store can reserve values."),
    field("for_s", &AMOUNT, "Time in this state, seconds."),
    field("database", &TEXT, "The database and its version."),
    field("slowest_ms", &AMOUNT, "The slowest statement, ms."),
    field("errors", &AMOUNT, "Statements that failed."),
    field("reason", &TEXT_OR_NULL, "The store's error, if it does not answer."),
];

const DETAILS: Schema = Schema::Named("StatusDetails", &Schema::Object(DETAILS_FIELDS));

#[rustfmt::skip]
const DETAILS_FIELDS: &[Field] = &[
    field("reader", &Schema::Object(READER), "The user of the request, and the user's rights."),
    field("day", &Schema::Object(DAY), "The last day, the oldest minute first."),
    field("commands", &Schema::List { of: &Schema::Object(COMMAND), items_max: super::details::COMMANDS_MAX },
        "Commands with the most calls since the start or CONFIG RESETSTAT."),
    field("errors", &Schema::List { of: &Schema::Object(ERROR), items_max: super::details::ERRORS_MAX },
        "Error replies by code, the most frequent first."),
    field("worker_pools", &Schema::List { of: &Schema::Object(WORKERS), items_max: 100 }, "Pools of worker ids."),
    field("log", &Schema::OrNull(&Schema::List { of: &Schema::Object(LINE), items_max: LINES_MAX }),
        "The newest lines of the log that are a notice, a warning or an error; the newest first. Null for a user \
         without the right to CONFIG GET."),
    field("fleet", &Schema::OrNull(&Schema::Object(FLEET)),
        "Null without a claim store, and for a user without the right to CONFIG GET."),
];

#[rustfmt::skip]
const READER: &[Field] = &[
    field("user", &TEXT, "The user."),
    field("may", &TEXTS, "Commands of the page that the user may run."),
    field("generators", &TEXTS, "Generators of which the user may get IDs; '-' is the unnamed one."),
    field("sequences", &TEXTS, "Sequences of the status whose values the user may get."),
    field("sequences_to_raise", &TEXTS, "Sequences of the status that the user may raise."),
];

const TEXTS: Schema = Schema::List { of: &TEXT, items_max: usize::MAX };

const MINUTES: Schema = Schema::List { of: &AMOUNT, items_max: 1440 };

#[rustfmt::skip]
const DAY: &[Field] = &[
    field("ids_per_s", &MINUTES, "IDs a second, the mean of each minute."),
    field("ids_per_s_max", &MINUTES, "The most IDs of a second of each minute."),
    field("values_per_s", &MINUTES, "Values of sequences a second, the mean of each minute."),
    field("refused", &MINUTES, "Requests for IDs or values that were refused in each minute."),
];

#[rustfmt::skip]
const COMMAND: &[Field] = &[
    field("name", &TEXT, "Its full name."),
    field("calls", &AMOUNT, "Calls that ran."),
    field("failed", &AMOUNT, "Calls that were answered by an error."),
    field("rejected", &AMOUNT, "Requests that were rejected before they ran."),
    field("p50_us", &Schema::Number, "Half of the calls took no longer, microseconds."),
    field("p99_us", &Schema::Number, "99 % of the calls took no longer, microseconds."),
    field("p999_us", &Schema::Number, "99.9 % of the calls took no longer, microseconds."),
];

#[rustfmt::skip]
const ERROR: &[Field] = &[
    field("code", &TEXT, "The error's first word."),
    field("count", &AMOUNT, "Replies with it since the start or CONFIG RESETSTAT."),
];

#[rustfmt::skip]
const WORKERS: &[Field] = &[
    field("name", &TEXT, "The pool."),
    field("store", &TEXT, "The address of its store."),
    field("is_known", &Schema::Bool, "Whether its leases were read."),
    field("size", &AMOUNT, "The number of worker ids; each is below it."),
    field("leased", &AMOUNT, "Ids that are leased, by all servers."),
    field("lease_ms", &AMOUNT, "The duration of a lease, ms."),
    field("leases", &AMOUNT, "Ids that this server has leased."),
    field("renewals", &AMOUNT, "Leases that this server has renewed."),
    field("refused", &AMOUNT, "Renewals and releases that this server has refused."),
    field("exhausted", &AMOUNT, "Requests that found no free id."),
    field("errors", &AMOUNT, "Calls of the store that failed."),
];

#[rustfmt::skip]
const LINE: &[Field] = &[
    field("time", &Schema::Time, "The time of the line."),
    field("level", &Schema::Word(&["notice", "warning", "error"]), "Its level."),
    field("text", &TEXT, "Its message and fields, the first 400 characters."),
];

#[rustfmt::skip]
const FLEET: &[Field] = &[
    field("read", &Schema::OrNull(&Schema::Time), "The time of the last reading; null before the first one."),
    field("error", &TEXT_OR_NULL, "The error of the last reading; the claims are those of the last successful one."),
    field("has_more", &Schema::Bool, "Whether there are more."),
    field("claims", &Schema::List { of: &Schema::Object(CLAIM_LISTED), items_max: CLAIMS_SHOWN_MAX },
        "The first claims, by server-id."),
];

#[rustfmt::skip]
const CLAIM_LISTED: &[Field] = &[
    field("server_id", &AMOUNT, "The server-id of the claim."),
    field("state", &Schema::Word(&["held", "free", "moved", "unreadable"]), "Whether a server holds it."),
    field("name", &TEXT, "The instance-name of the holder, or of the last one."),
    field("host", &TEXT, "The host name of its machine."),
    field("address", &TEXT, "Its address for clients; empty if unknown."),
    field("since", &Schema::OrNull(&Schema::Time), "The start of the claim, by the holder's clock."),
    field("written_ms_ago", &Schema::OrNull(&INTEGER),
        "The age of the record at the reading, by its writer's clock, ms; negative: that clock is ahead."),
    field("timeout_ms", &AMOUNT, "Silence after which a standby takes over, ms."),
];

const GENERATOR_DETAILS: Schema = Schema::Named("StatusGenerator", &Schema::Object(GENERATOR_DETAILS_FIELDS));

#[rustfmt::skip]
const GENERATOR_DETAILS_FIELDS: &[Field] = &[
    field("name", &TEXT, "Its name; '-' is the unnamed one."),
    field("explanation", &Schema::OrNull(&Schema::Anything),
        "The output of 'getid layout --json'; null for a generator over a sequence."),
    field("counter", &Schema::OrNull(&Schema::Object(COUNTER)), "For a generator over a sequence."),
    field("request_fields", &TEXTS, "Names of fields that come with each request."),
    field("chart", &Schema::Object(CHART), "The last ten minutes."),
];

#[rustfmt::skip]
const COUNTER: &[Field] = &[
    field("kind", &Schema::Word(&["sequence", "serial"]), "The declared kind."),
    field("declaration", &TEXT, "The line of the configuration."),
    field("template", &TEXT_OR_NULL, "The template of a serial number."),
    field("zone", &TEXT_OR_NULL, "The time zone of its periods."),
    field("reset", &TEXT, "The period after which it restarts."),
    field("sequence", &TEXT_OR_NULL, "The sequence that it draws from; null before the first request since the start."),
    field("last", &TEXT_OR_NULL, "The last value that this server gave."),
    field("left", &AMOUNT_OR_NULL, "Reserved values that are left."),
];

#[rustfmt::skip]
const CHART: &[Field] = &[
    field("step_s", &AMOUNT, "Seconds of a step."),
    field("given", &Schema::List { of: &AMOUNT, items_max: 60 }, "IDs given in each step, the oldest first."),
];
