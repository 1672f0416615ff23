//! `GET /v1/status/details`: data that the page requests every few seconds beside the status. It has the reader's
//! rights, the last day, commands and errors, pools of worker ids, lines of the log, and the claims of a fleet. The log
//! and the claims require an administrative right.

use std::time::Duration;

use axum::http::HeaderMap;
use getid_core::Role;
use getid_core::server::CounterKind;
use schemars::JsonSchema;
use serde::Serialize;

use super::history::{DayHistory, POINTS_OF_STEP, STEPS};
use super::now::{Time, short};
use crate::caller::Caller;
use crate::problem::Problem;
use crate::schema::UNNAMED;
use getid_engine::claim::listing::{ClaimList, ListLimits, ListedClaim};
use getid_redis::command;
use getid_server::Server;
use getid_server::connection::LocalClient;
use getid_server::logging::LINES_MAX;
use getid_server::metrics::Facts;
use getid_system::clock::{Clock as _, wall_unix_ms};

/// The most commands that are listed: those with the most calls.
const COMMANDS_MAX: usize = 16;

/// The most error codes that are listed: the most frequent.
const ERRORS_MAX: usize = 32;

/// The most ledgers that are listed: those with the most numbers that need a person.
const LEDGERS_MAX: usize = 100;

/// Full names of the commands that the page offers.
const OFFERED: [&str; 11] = [
    ADMINISTRATIVE,
    "getid",
    "mgetid",
    "decodeid",
    "generators",
    "incr",
    "sequence|create",
    "sequence|list",
    "sequence|next",
    "sequence|raise",
    "workerid|list",
];

/// The command whose right shows the log and the claims of other servers: its users administer or watch the server.
const ADMINISTRATIVE: &str = "config|get";

/// The most claims that are listed: as many as the page shows.
const CLAIMS_SHOWN_MAX: usize = 200;

/// The details for one reader; times are RFC 3339 in UTC.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Details<'a> {
    /// The user of the request, and the user's rights.
    reader: ReaderRights,
    #[serde(flatten)]
    common: &'a SharedDetails,
    /// The newest lines of the log that are a notice, a warning or an error; the newest first. Null for a user
    /// without the right to CONFIG GET.
    #[schemars(length(max = LINES_MAX))]
    log: Option<&'a [LogDetails]>,
    /// Null without a claim store, and for a user without the right to CONFIG GET.
    fleet: Option<FleetDetails>,
}

/// Details that are equal for all readers, gathered at most once a second.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct SharedDetails {
    /// The last day, the oldest minute first.
    day: DayHistory,
    /// Commands with the most calls since the start or CONFIG RESETSTAT.
    #[schemars(length(max = COMMANDS_MAX))]
    commands: Vec<CommandDetails>,
    /// Error replies by code, the most frequent first.
    #[schemars(length(max = ERRORS_MAX))]
    errors: Vec<ErrorDetails>,
    /// Pools of worker ids.
    #[schemars(length(max = 100))]
    worker_pools: Vec<PoolDetails>,
    /// Ledgers of gapless generators, those with unclear and overdue numbers first; at most ten seconds old.
    #[schemars(length(max = LEDGERS_MAX))]
    ledgers: Vec<LedgerDetails>,
    #[serde(skip)]
    log: Vec<LogDetails>,
    /// Names of all generators; `-` is the unnamed one.
    #[serde(skip)]
    generators: Vec<String>,
    /// Names of the sequences in the status.
    #[serde(skip)]
    sequences: Vec<String>,
}

/// The user of the request and the user's rights.
#[derive(Debug, JsonSchema, Serialize)]
struct ReaderRights {
    /// The user.
    user: String,
    /// Commands of the page that the user may run.
    may: Vec<&'static str>,
    /// Generators of which the user may get IDs; '-' is the unnamed one.
    generators: Vec<String>,
    /// Sequences of the status whose values the user may get.
    sequences: Vec<String>,
    /// Sequences of the status that the user may raise.
    sequences_to_raise: Vec<String>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct CommandDetails {
    /// The full name of the command.
    name: &'static str,
    /// Calls that ran.
    calls: u64,
    /// Calls that were answered by an error.
    failed: u64,
    /// Requests that were rejected before they ran.
    rejected: u64,
    /// Half of the calls took no longer, microseconds.
    #[schemars(range(min = 0))]
    p50_us: f64,
    /// 99 % of the calls took no longer, microseconds.
    #[schemars(range(min = 0))]
    p99_us: f64,
    /// 99.9 % of the calls took no longer, microseconds.
    #[schemars(range(min = 0))]
    p999_us: f64,
}

#[derive(Debug, JsonSchema, Serialize)]
struct ErrorDetails {
    /// The error's first word.
    code: String,
    /// Replies with it since the start or CONFIG RESETSTAT.
    count: u64,
}

#[derive(Debug, JsonSchema, Serialize)]
struct PoolDetails {
    /// The pool.
    name: String,
    /// The address of its store.
    store: String,
    /// Whether its leases were read.
    is_known: bool,
    /// The number of worker ids; each is below it.
    size: u32,
    /// Ids that are leased, by all servers.
    leased: u32,
    /// The duration of a lease, ms.
    lease_ms: u64,
    /// Ids that this server has leased.
    leases: u64,
    /// Leases that this server has renewed.
    renewals: u64,
    /// Renewals and releases that this server has refused.
    refused: u64,
    /// Requests that found no free id.
    exhausted: u64,
    /// Calls of the store that failed.
    errors: u64,
}

#[derive(Debug, JsonSchema, Serialize)]
struct LedgerDetails {
    /// The generator.
    generator: String,
    /// Reserved numbers.
    reserved: u64,
    /// Reserved numbers that their requests did not settle in time.
    overdue: u64,
    /// Released numbers of the newest period.
    released: u64,
    /// Numbers that an administrator must settle.
    unclear: u64,
    /// Requests, each with a row of the store for ever.
    requests: u64,
    /// Requests that released their numbers for other requests.
    requests_released: u64,
}

#[derive(Debug, JsonSchema, Serialize)]
struct LogDetails {
    /// The time of the line.
    time: Time,
    /// The level of the line.
    #[schemars(extend("enum" = ["notice", "warning", "error"]))]
    level: &'static str,
    /// The message and the fields of the line, the first 400 characters.
    text: String,
}

#[derive(Debug, JsonSchema, Serialize)]
struct FleetDetails {
    /// The time of the last reading; null before the first one.
    read: Option<Time>,
    /// The error of the last reading; the claims are those of the last successful one.
    error: Option<String>,
    /// Whether there are more.
    has_more: bool,
    /// The first claims, by server-id.
    #[schemars(length(max = CLAIMS_SHOWN_MAX))]
    claims: Vec<ClaimDetails>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct ClaimDetails {
    /// The server-id of the claim.
    server_id: u32,
    /// Whether a server holds it.
    #[schemars(extend("enum" = ["held", "free", "moved", "unreadable"]))]
    state: &'static str,
    /// The instance-name of the holder, or of the last one.
    name: String,
    /// The host name of its machine.
    host: String,
    /// The address of the server for clients; empty if unknown.
    address: String,
    /// The start of the claim, by the holder's clock.
    since: Option<Time>,
    /// The age of the record at the reading, by its writer's clock, ms; negative: that clock is ahead.
    written_ms_ago: Option<i64>,
    /// Silence after which a standby takes over, ms.
    timeout_ms: u64,
}

/// Age and wait of a page's list of claims.
const CLAIMS_LIMITS: ListLimits = ListLimits { age_max: Duration::from_secs(5), wait_max: Duration::from_millis(300) };

/// Returns the details as JSON, for the user that these headers log in.
///
/// # Errors
///
/// A problem if the login is wrong or the server stops.
pub(crate) async fn details_of(
    common: &SharedDetails,
    server: &Server,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Vec<u8>, Problem> {
    let reader = caller.inspect(headers, |client| ReaderRights::of(client, common)).await?;
    let (mut log, mut fleet) = (None, None);
    if reader.may.contains(&ADMINISTRATIVE) {
        log = Some(common.log.as_slice());
        if let Some(lister) = server.claim().and_then(|claim| claim.lister()) {
            fleet = Some(FleetDetails::of(&*lister.list(CLAIMS_LIMITS, wall_unix_ms).await));
        }
    }
    let details = Details { reader, common, log, fleet };
    Ok(serde_json::to_vec(&details).unwrap_or_default())
}

impl SharedDetails {
    pub(super) fn of(day: DayHistory, server: &Server) -> SharedDetails {
        let facts = server.facts();
        let (generators, sequences) = names(server, &facts);
        SharedDetails {
            day,
            commands: commands(&facts),
            errors: errors(&facts),
            worker_pools: pools(&facts),
            ledgers: ledgers(&facts),
            log: server.log.recent().into_iter().rev().map(LogDetails::of).collect(),
            generators,
            sequences,
        }
    }
}

/// Returns the names of all generators, and of the sequences in the status.
fn names(server: &Server, facts: &Facts<'_>) -> (Vec<String>, Vec<String>) {
    let mut generators = vec![UNNAMED.to_owned()];
    generators.extend(facts.generators.iter().map(|own| own.generator.declaration().name().to_owned()));
    generators.extend(server.settings.get().counters.iter().map(|own| own.name().to_owned()));
    let busiest = facts.sequences.as_ref().map(|own| own.busiest.iter().map(|(name, _)| name.clone()).collect());
    (generators, busiest.unwrap_or_default())
}

impl ReaderRights {
    fn of(client: &LocalClient, common: &SharedDetails) -> ReaderRights {
        let may: Vec<_> = OFFERED.into_iter().filter(|command| client.may_run(command, None)).collect();
        let named = |all: &[String], command| -> Vec<String> {
            all.iter().filter(|name| client.may_run(command, Some(name.as_bytes()))).cloned().collect()
        };
        ReaderRights {
            user: client.view().user.to_string(),
            may,
            generators: common.generators.iter().filter(|name| may_draw(client, name)).cloned().collect(),
            sequences: named(&common.sequences, "incr"),
            sequences_to_raise: named(&common.sequences, "sequence|raise"),
        }
    }
}

/// Whether the client's user may get IDs of this generator.
fn may_draw(client: &LocalClient, name: &str) -> bool {
    client.may_run("getid", (name != UNNAMED).then_some(name.as_bytes()))
}

/// Fails unless the user may get IDs of this generator, or run `GENERATORS`, which shows all of them.
///
/// # Errors
///
/// The problem of `GENERATORS`, or one if the login is wrong or the server stops.
pub(crate) async fn check_generator_access(caller: &Caller, headers: &HeaderMap, name: &str) -> Result<(), Problem> {
    let may = |client: &LocalClient| client.may_run("generators", None) || may_draw(client, name);
    if caller.inspect(headers, may).await? {
        return Ok(());
    }
    caller.run(headers, &[b"GENERATORS"]).await.map(drop)
}

fn ledgers(facts: &Facts<'_>) -> Vec<LedgerDetails> {
    let mut all: Vec<_> = facts
        .ledgers
        .iter()
        .map(|(name, counts)| LedgerDetails {
            generator: name.clone(),
            reserved: counts.reserved,
            overdue: counts.overdue,
            released: counts.released,
            unclear: counts.unclear,
            requests: counts.requests,
            requests_released: counts.released_requests,
        })
        .collect();
    all.sort_by(|one, other| {
        (other.unclear, other.overdue)
            .cmp(&(one.unclear, one.overdue))
            .then_with(|| one.generator.cmp(&other.generator))
    });
    all.truncate(LEDGERS_MAX);
    all
}

fn commands(facts: &Facts<'_>) -> Vec<CommandDetails> {
    let mut all: Vec<_> = command::rows()
        .filter_map(|row| Some((row.full_name, facts.metrics.command(row.verb)?)))
        .map(|(name, totals)| {
            #[expect(clippy::cast_precision_loss, reason = "a time for people")]
            let us = |per_mille| totals.histogram.percentile_ns(per_mille) as f64 / 1000.0;
            CommandDetails {
                name,
                calls: totals.calls,
                failed: totals.failed,
                rejected: totals.rejected,
                p50_us: us(500),
                p99_us: us(990),
                p999_us: us(999),
            }
        })
        .collect();
    all.sort_by_key(|command| std::cmp::Reverse(command.calls));
    all.truncate(COMMANDS_MAX);
    all
}

fn errors(facts: &Facts<'_>) -> Vec<ErrorDetails> {
    let mut all = facts.metrics.errors();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all.truncate(ERRORS_MAX);
    all.into_iter().map(|(code, count)| ErrorDetails { code: code.word(), count }).collect()
}

fn pools(facts: &Facts<'_>) -> Vec<PoolDetails> {
    let pool = |own: &getid_engine::workers::PoolView| PoolDetails {
        name: own.name.clone(),
        store: short(&own.store),
        is_known: own.is_known,
        size: own.rules.size,
        leased: own.leased,
        lease_ms: own.rules.lease_ms,
        leases: own.counts.leases,
        renewals: own.counts.renewals,
        refused: own.counts.refused,
        exhausted: own.counts.exhausted,
        errors: own.counts.errors,
    };
    facts.workers.iter().map(pool).collect()
}

impl LogDetails {
    fn of(line: getid_server::logging::RecentLine) -> LogDetails {
        LogDetails { time: Time::at(line.unix_ms), level: line.level, text: line.text }
    }
}

impl FleetDetails {
    fn of(list: &ClaimList) -> FleetDetails {
        FleetDetails {
            read: list.read_unix_ms.map(Time::at),
            error: list.error.as_deref().map(short),
            has_more: list.has_more || list.claims.len() > CLAIMS_SHOWN_MAX,
            claims: list.claims.iter().take(CLAIMS_SHOWN_MAX).map(ClaimDetails::of).collect(),
        }
    }
}

impl ClaimDetails {
    fn of(claim: &ListedClaim) -> ClaimDetails {
        ClaimDetails {
            server_id: claim.server_id,
            state: claim.state,
            name: short(&claim.name),
            host: short(&claim.host),
            address: short(&claim.address),
            since: (claim.since_unix_ms > 0).then(|| Time::at(claim.since_unix_ms)),
            written_ms_ago: claim.written_unix_ms.map(|written| claim.read_unix_ms.saturating_sub(written)),
            timeout_ms: claim.timeout_ms,
        }
    }
}

/// The details of one generator.
#[derive(JsonSchema, Serialize)]
pub(crate) struct GeneratorDetails {
    /// The name of the generator; '-' is the unnamed one.
    name: String,
    /// The output of 'getid layout --json'; null for a generator over a sequence.
    #[schemars(with = "serde_json::Value")]
    explanation: Option<getid_tools::explanation::Explanation>,
    /// For a generator over a sequence.
    counter: Option<CounterDetails>,
    /// Names of fields that come with each request.
    request_fields: Vec<String>,
    /// The last ten minutes.
    chart: ChartDetails,
}

#[derive(JsonSchema, Serialize)]
struct CounterDetails {
    /// The declared kind.
    #[schemars(extend("enum" = ["sequence", "serial"]))]
    kind: &'static str,
    /// The line of the configuration.
    declaration: String,
    /// The template of a serial number.
    template: Option<String>,
    /// The time zone of its periods.
    zone: Option<String>,
    /// The period after which it restarts.
    reset: &'static str,
    /// The sequence that it draws from; null before the first request since the start.
    sequence: Option<String>,
    /// The last value that this server gave.
    last: Option<String>,
    /// Reserved values that are left.
    left: Option<u64>,
    /// The number of its keys, as its store last reported it; null without series, and before the first report.
    keys: Option<u64>,
    /// The most keys that it may have; null without series.
    keys_max: Option<u32>,
}

#[derive(JsonSchema, Serialize)]
struct ChartDetails {
    /// Seconds of a step.
    step_s: u32,
    /// IDs given in each step, the oldest first.
    #[schemars(length(max = STEPS))]
    given: Vec<u32>,
}

impl GeneratorDetails {
    /// Returns the details of the generator with this name; `None` if there is none.
    pub(crate) fn of(chart: Vec<u32>, server: &Server, name: &str) -> Option<GeneratorDetails> {
        use getid_tools::explanation::{EvennessScope, Explanation};
        use getid_tools::subject::Subject;

        let now_unix_ms = server.issuer().clock().wall_unix_us().div_euclid(1000);
        let explain =
            |declaration: &_, unnamed| Explanation::new(declaration, unnamed, EvennessScope::default(), now_unix_ms);
        let chart = ChartDetails { step_s: POINTS_OF_STEP, given: chart };
        let details = |explanation, counter, request_fields| GeneratorDetails {
            name: name.to_owned(),
            explanation,
            counter,
            request_fields,
            chart,
        };
        if name == UNNAMED {
            let declaration = Subject::Unnamed(server.issuer().identity().layout).declaration()?;
            return Some(details(Some(explain(&declaration, true)), None, Vec::new()));
        }
        if let [Some(own)] = server.generators_named(&[name.to_owned()]).as_slice() {
            let declaration = own.generator.declaration();
            let of_request = declaration.layout().fields().iter().filter(|field| field.role == Role::Request);
            let of_request = of_request.map(|field| field.name.clone()).collect();
            return Some(details(Some(explain(declaration, false)), None, of_request));
        }
        let settings = server.settings.get();
        let counter = settings.counters.iter().find(|own| own.name() == name)?;
        let status = server.shown_counter_status(name);
        let (template, zone) = match counter.kind() {
            CounterKind::Serial(serial) => (Some(serial.template.text().to_owned()), serial.zone.clone()),
            CounterKind::Sequence(_) => (None, None),
        };
        let counter = CounterDetails {
            kind: counter.word(),
            declaration: format!("generator {}", counter.words().join(" ")),
            template,
            zone,
            reset: counter.reset().word(),
            last: status.as_ref().and_then(|(_, status)| status.last_given).map(|value| value.to_string()),
            left: status.as_ref().map(|(_, status)| status.left),
            sequence: status.map(|(key, _)| key.to_string()),
            keys: counter.series().and_then(|_| server.generators.sequences()?.keys_of(name)),
            keys_max: counter.series().map(|series| series.keys_max),
        };
        Some(details(None, Some(counter), Vec::new()))
    }
}
