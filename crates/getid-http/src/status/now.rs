//! The server's status at one moment, as JSON for the page.

use std::sync::atomic::Ordering::Relaxed;

use getid_core::Tick;
use getid_core::server::{CounterDeclaration, CounterKind, SequenceStatus};
use schemars::JsonSchema;
use serde::Serialize;

use super::history::SecondRates;
use super::notices::{GivingStatus, Notice};
use getid_engine::claim::status as claim;
use getid_engine::generators::NamedStatus;
use getid_engine::generators::sequence::{BUSIEST_MAX, StoreStatus};
use getid_server::Server;
use getid_server::metrics::Facts;
use getid_text::timestamp;

/// The most generators that are listed: the busiest.
const GENERATORS_MAX: usize = 50;

/// The longest outside text, characters.
const TEXT_CHARS_MAX: usize = 500;

/// A time of RFC 3339 in UTC, with milliseconds.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(extend("format" = "date-time"))]
pub(super) struct Time(String);

impl Time {
    /// Returns a Unix time in ms as text.
    pub(super) fn at(unix_ms: i64) -> Time {
        Time(timestamp::format_rfc3339(unix_ms))
    }
}

/// A server at one moment. IDs and values of sequences are strings, times are RFC 3339 in UTC.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Status {
    /// The time of this status.
    time: Time,
    /// Whether IDs are given.
    giving: GivingStatus,
    /// Notices, the most urgent first.
    notices: Vec<Notice>,
    /// Rates of the last second.
    rate: SecondRates,
    /// The process.
    server: ServerStatus,
    /// IDs by the clock.
    ids: IdsStatus,
    /// How far IDs are ahead of the clock.
    borrow: BorrowStatus,
    /// The system's clock, compared with the reference clock of IDs.
    clock: ClockStatus,
    /// The saved upper bound of IDs.
    watermark: WatermarkStatus,
    /// The layout of the unnamed generator.
    layout: LayoutStatus,
    /// The claim of the server-id.
    claim: PageClaimStatus,
    /// Connected clients.
    clients: ClientsStatus,
    /// The memory of the process.
    memory: MemoryStatus,
    /// Named generators.
    generators: GeneratorsStatus,
    /// Sequences; null if the server has none.
    sequences: Option<PageSequencesStatus>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct ServerStatus {
    /// The version of getid.
    version: &'static str,
    /// The directive server-id; null with auto, while none is claimed.
    server_id: Option<u32>,
    /// 40 hex digits, new at each start.
    run_id: String,
    /// Seconds since the start.
    uptime_s: u64,
    /// Requests a second, of both ports.
    requests_per_s: u64,
    /// The Redis port, or tls-port if it is the only one; 0: none.
    port: u16,
    /// The directive tls-port.
    tls_port: u16,
    /// The directive id-mgetid-max.
    ids_max: u32,
}

#[derive(Debug, JsonSchema, Serialize)]
struct IdsStatus {
    /// IDs given since the start, of all generators.
    issued: u64,
    /// IDs of the unnamed generator since the start.
    issued_unnamed: u64,
    /// IDs of the unnamed generator, given or refused, in the last second.
    per_s_unnamed: u64,
    /// The capacity of the layout, IDs per second.
    capacity_per_s: u64,
    /// IDs for which requests wait.
    waiting: u64,
    /// The wait of a large request now, ms.
    wait_ms: u64,
    /// The directive id-max-wait-ms.
    wait_limit_ms: u64,
    /// Requests refused since the start.
    refused: u64,
    /// The time of the next ID.
    position: Time,
}

#[derive(Debug, JsonSchema, Serialize)]
struct BorrowStatus {
    /// How far the next ID is ahead, ms.
    ms: u64,
    /// The directive id-max-borrow-ms.
    limit_ms: u64,
    /// The largest value of 'ms' since the start.
    highest_ms: u64,
    /// The directive id-borrow-policy.
    policy: &'static str,
}

#[derive(Debug, JsonSchema, Serialize)]
struct ClockStatus {
    /// How far the system's clock is ahead, ms; negative: behind, after it was set back.
    offset_ms: i64,
    /// Number of times that the clock was set back.
    set_back: u64,
    /// Number of times that the clock jumped ahead.
    jumps: u64,
    /// Whether a jump ahead is not followed yet.
    holds_jump: bool,
}

#[derive(Debug, JsonSchema, Serialize)]
struct WatermarkStatus {
    /// How far the watermark is ahead of the next ID, ms.
    lead_ms: u64,
    /// The watermark as a time.
    time: Time,
    /// The time of the last save.
    last_save: Option<Time>,
    /// The duration of the last save, microseconds.
    last_save_us: u64,
    /// False if the last save failed.
    is_ok: bool,
    /// Saves that succeeded.
    saves: u64,
    /// Saves that failed.
    failures: u64,
    /// The time since the start of the save in progress, ms; 0: none.
    saving_ms: u64,
}

#[derive(Debug, JsonSchema, Serialize)]
struct LayoutStatus {
    /// The directive id-range.
    server_id_bits: u32,
    /// The directive shard-range.
    shard_bits: u32,
    /// The directive random-range.
    random_bits: u32,
    /// The directive id-epoch.
    epoch: Time,
    /// The last time that an ID can carry.
    ends: Time,
    /// Days until the last time that an ID can carry, negative once it has passed.
    days_left: i64,
}

/// The claim of the server-id.
#[derive(Debug, JsonSchema, Serialize)]
struct PageClaimStatus {
    /// The directive id-state.
    state: &'static str,
    /// The state folder.
    folder: String,
    /// The claim in a store; null if it is in the folder.
    cluster: Option<ClusterClaimStatus>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct ClusterClaimStatus {
    /// The role of this server.
    #[schemars(extend("enum" = ["holder", "standby"]))]
    role: &'static str,
    /// The directive claim-store, without a password.
    store: String,
    /// The product and version of the store; empty before its first answer.
    product: String,
    /// This server's name in the claim.
    instance_name: String,
    /// The holder; null if there is none, or none is known.
    holder: Option<PageHolderStatus>,
    /// The reason why this standby cannot take over.
    not_eligible: Option<String>,
    /// The directive claim-timeout-ms.
    timeout_ms: u64,
    /// How long IDs are given if the store stops answering now, ms.
    ride_through_ms: u64,
    /// The time of the store's last answer.
    last_answer: Option<Time>,
    /// Writes that were acknowledged.
    beats: u64,
    /// The duration of the last write, microseconds.
    last_beat_us: u64,
    /// Calls of the store that failed.
    errors: u64,
    /// The last failure; null once the store has answered again.
    error: Option<String>,
    /// Claims that this process has taken over.
    takeovers: u64,
    /// Claims that this process has lost.
    losses: u64,
    /// The last takeover by this process.
    last_takeover: Option<PageTakeoverStatus>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct PageHolderStatus {
    /// The holder's instance-name.
    name: String,
    /// The host name of its machine.
    host: String,
    /// The address of the holder for clients; empty if unknown.
    address: String,
    /// Whether the holder is this process.
    is_this: bool,
    /// The start of the claim, by the holder's clock.
    since: Option<Time>,
    /// The end of its IDs if it stops writing now.
    until: Option<Time>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct PageTakeoverStatus {
    /// The time of the takeover.
    at: Option<Time>,
    /// The reason why the claim was free.
    cause: String,
    /// The time from the detection of the cause to the first ID, ms.
    took_ms: u64,
}

#[derive(Debug, JsonSchema, Serialize)]
struct ClientsStatus {
    /// Clients of the Redis port.
    connected: usize,
    /// The directive maxclients.
    max: usize,
    /// The largest number of connected clients since the start.
    peak: u64,
    /// Clients that wait for IDs.
    waiting: usize,
    /// Clients of the HTTP port that have sent a request.
    over_http: usize,
    /// The directive http-max-clients.
    over_http_max: u32,
}

#[derive(Debug, JsonSchema, Serialize)]
#[expect(clippy::struct_field_names, reason = "a unit belongs to a number's name")]
struct MemoryStatus {
    /// Resident memory now.
    resident_bytes: u64,
    /// The largest resident memory seen.
    peak_bytes: u64,
    /// The memory of the machine.
    machine_bytes: Option<u64>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct GeneratorsStatus {
    /// The number of named generators.
    count: usize,
    /// The busiest ones.
    #[schemars(length(max = GENERATORS_MAX))]
    busiest: Vec<GeneratorStatus>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct GeneratorStatus {
    /// The name of the generator.
    name: String,
    /// The declared kind.
    kind: String,
    /// The template of a serial number.
    layout: Option<String>,
    /// For a generator over a sequence: the last value that this server gave.
    last: Option<String>,
    /// The text format of its IDs.
    format: Option<String>,
    /// IDs given or refused in the last second; over 10 s for a counter.
    #[schemars(range(min = 0))]
    per_s: Option<f64>,
    /// IDs given since the start, or since its sequence was loaded.
    issued: Option<u64>,
    /// How far the next ID is ahead of the clock, ms.
    ahead_ms: Option<u64>,
    /// The time of the next ID.
    position: Option<String>,
    /// The last time of its IDs; past the year 9999, Unix milliseconds.
    ends: Option<String>,
    /// Days until the last time of the generator's IDs.
    days_left: Option<i64>,
    /// The reason why it gives no IDs now.
    refusing: Option<String>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct PageSequencesStatus {
    /// Sequences in memory.
    in_memory: usize,
    /// Values given since the start.
    given: u64,
    /// Values that are reserved and not given.
    held: u64,
    /// Requests that wait.
    waiting: u64,
    /// Requests refused since the start.
    refused: u64,
    /// Fetches since the start.
    fetches: u64,
    /// Fetches that failed since the start.
    fetches_failed: u64,
    /// The busiest ones.
    #[schemars(length(max = BUSIEST_MAX))]
    busiest: Vec<PageSequence>,
    /// The stores.
    stores: Vec<PageStore>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct PageSequence {
    /// The name of the sequence.
    name: String,
    /// The last value that this server gave.
    last: Option<String>,
    /// The last reserved value.
    until: Option<String>,
    /// Reserved values that are left.
    left: u64,
    /// Values of the last fetch.
    segment: u32,
    /// Values a second, over 10 s.
    #[schemars(range(min = 0))]
    per_s: f64,
    /// The age of the last fetch, ms.
    fetched_ms_ago: Option<u64>,
    /// The duration of the last fetch, ms.
    fetch_ms: u32,
    /// Requests that wait.
    waiting: usize,
    /// Fetches that failed.
    errors: u32,
}

#[derive(Debug, JsonSchema, Serialize)]
struct PageStore {
    /// The address of the store without a password.
    address: String,
    /// Whether the store can reserve values.
    #[schemars(extend("enum" = ["opening", "up", "held", "down"]))]
    state: &'static str,
    /// Time in this state, seconds.
    for_s: u64,
    /// The database and its version.
    database: String,
    /// The slowest statement, ms.
    slowest_ms: u64,
    /// Statements that failed.
    errors: u64,
    /// The store's error, if it does not answer.
    reason: Option<String>,
}

impl Status {
    /// Gathers the status; `rate` has the rates of the last second.
    pub(super) fn of(server: &Server, rate: SecondRates) -> Status {
        let facts = server.facts();
        Status {
            time: Time::at(facts.process.wall_unix_us.div_euclid(1000)),
            giving: GivingStatus::of(&facts, server.is_stopping()),
            notices: Notice::all(&facts),
            rate,
            server: ServerStatus {
                version: env!("CARGO_PKG_VERSION"),
                server_id: facts.server_id,
                run_id: facts.process.run_id.to_owned(),
                uptime_s: facts.metrics.uptime_s(),
                requests_per_s: facts.metrics.rate.per_s(),
                port: facts.process.tcp_port,
                tls_port: facts.config.tls_port,
                ids_max: facts.config.id_mgetid_max,
            },
            ids: IdsStatus::of(&facts),
            borrow: BorrowStatus {
                ms: facts.generator.mint.borrow_ms,
                limit_ms: facts.config.id_max_borrow_ms,
                highest_ms: facts.generator.mint.highest_borrow_ms,
                policy: facts.config.id_borrow_policy.word(),
            },
            clock: ClockStatus {
                offset_ms: facts.generator.mint.clock_offset_ms,
                set_back: facts.generator.mint.rollbacks,
                jumps: facts.generator.mint.jumps,
                holds_jump: facts.generator.mint.holds_jump,
            },
            watermark: WatermarkStatus::of(&facts),
            layout: LayoutStatus::of(&facts),
            claim: PageClaimStatus {
                state: facts.config.id_state.word(),
                folder: facts.config.state_dir.display().to_string(),
                cluster: facts.claim.as_deref().map(|claim| ClusterClaimStatus::of(claim, &facts)),
            },
            clients: ClientsStatus::of(&facts, server.clients.over_http()),
            memory: MemoryStatus {
                resident_bytes: facts.memory.resident_bytes,
                peak_bytes: facts.metrics.memory_peak(),
                machine_bytes: facts.memory.machine_bytes,
            },
            generators: GeneratorsStatus::of(&facts, server),
            sequences: PageSequencesStatus::of(&facts),
        }
    }
}

/// Returns the time of a tick of the unnamed generator.
fn time_of(facts: &Facts<'_>, tick: Tick) -> Time {
    Time::at(tick.unix_ms(facts.layout.epoch()))
}

impl IdsStatus {
    fn of(facts: &Facts<'_>) -> IdsStatus {
        let (own, mint) = (&*facts.generator, &facts.generator.mint);
        IdsStatus {
            issued: mint.ids_issued + mint.line_ids_issued,
            issued_unnamed: mint.ids_issued,
            per_s_unnamed: own.asked_per_s,
            capacity_per_s: facts.layout.capacity_per_s(),
            waiting: own.waiting_ids,
            wait_ms: own.wait_ms,
            wait_limit_ms: facts.config.id_max_wait_ms,
            refused: own.refusals,
            position: time_of(facts, mint.position.max(mint.reference)),
        }
    }
}

impl WatermarkStatus {
    fn of(facts: &Facts<'_>) -> WatermarkStatus {
        let (own, mint) = (&*facts.generator, &facts.generator.mint);
        let last_save = i64::try_from(own.last_save_unix_ms).ok().filter(|&unix_ms| unix_ms > 0);
        WatermarkStatus {
            lead_ms: mint.watermark.0.saturating_sub(mint.position.max(mint.reference).0),
            time: time_of(facts, mint.watermark),
            last_save: last_save.map(Time::at),
            last_save_us: own.last_save_us,
            is_ok: facts.last_save_ok(),
            saves: own.saves,
            failures: own.save_failures,
            saving_ms: own.saving_ms,
        }
    }
}

impl ClusterClaimStatus {
    fn of(claim: &claim::ClaimStatus, facts: &Facts<'_>) -> ClusterClaimStatus {
        ClusterClaimStatus {
            role: match claim.role {
                claim::ClaimRole::Holder => "holder",
                claim::ClaimRole::Standby => "standby",
            },
            store: short(&claim.store),
            product: short(&claim.product),
            instance_name: short(&claim.instance_name),
            holder: claim.holder.as_ref().map(|holder| PageHolderStatus {
                name: short(&holder.name),
                host: short(&holder.host),
                address: short(&holder.address),
                is_this: holder.instance == claim.instance,
                since: time_at(holder.since_unix_ms),
                until: time_at(holder.until_unix_ms),
            }),
            not_eligible: claim.not_eligible.as_deref().map(short),
            timeout_ms: claim.timeout_ms,
            ride_through_ms: facts.ride_through_ms(claim),
            last_answer: time_at(claim.last_answer_unix_ms),
            beats: claim.beats,
            last_beat_us: claim.last_beat_us,
            errors: claim.errors,
            error: Some(claim.error.as_str()).filter(|error| !error.is_empty()).map(short),
            takeovers: claim.takeovers,
            losses: claim.losses,
            last_takeover: claim.last_takeover.as_ref().map(|takeover| PageTakeoverStatus {
                at: time_at(takeover.at_unix_ms),
                cause: short(&takeover.cause),
                took_ms: takeover.took_ms,
            }),
        }
    }
}

/// Returns the beginning of an outside text.
pub(super) fn short(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// Returns a Unix time in ms; `None` for 0.
fn time_at(unix_ms: u64) -> Option<Time> {
    i64::try_from(unix_ms).ok().filter(|&unix_ms| unix_ms > 0).map(Time::at)
}

impl ClientsStatus {
    fn of(facts: &Facts<'_>, over_http: usize) -> ClientsStatus {
        ClientsStatus {
            connected: facts.clients.connected,
            max: facts.clients.max,
            peak: facts.metrics.clients_peak.load(Relaxed),
            waiting: facts.clients.waiting,
            over_http,
            over_http_max: facts.config.http.clients_max,
        }
    }
}

impl LayoutStatus {
    fn of(facts: &Facts<'_>) -> LayoutStatus {
        let layout = facts.layout;
        LayoutStatus {
            server_id_bits: layout.server_bits(),
            shard_bits: layout.shard_bits(),
            random_bits: layout.random_bits(),
            epoch: Time::at(layout.first_unix_ms()),
            ends: Time::at(layout.last_unix_ms()),
            days_left: facts.days_until(layout.last_unix_ms()),
        }
    }
}

impl GeneratorsStatus {
    fn of(facts: &Facts<'_>, server: &Server) -> GeneratorsStatus {
        let named = &*facts.generators;
        let mut order: Vec<&NamedStatus> = named.iter().collect();
        // Generators with about equal rates are sorted by name, or they would swap places each second.
        order.sort_by_key(|own| std::cmp::Reverse(own.asked_per_s.checked_ilog2()));
        let mut count = order.len();
        let mut busiest: Vec<_> =
            order.into_iter().take(GENERATORS_MAX).map(|own| GeneratorStatus::of(facts, own)).collect();
        for counter in server.settings.get().counters.iter() {
            count += 1;
            if busiest.len() < GENERATORS_MAX {
                busiest.push(GeneratorStatus::of_counter(counter, server));
            }
        }
        GeneratorsStatus { count, busiest }
    }
}

impl GeneratorStatus {
    fn of(facts: &Facts<'_>, own: &NamedStatus) -> GeneratorStatus {
        let declaration = own.generator.declaration();
        let ends_unix_ms = declaration.ends_unix_ms();
        GeneratorStatus {
            name: declaration.name().to_owned(),
            kind: declaration.kind().word.to_owned(),
            layout: None,
            last: None,
            format: declaration.written_as(),
            per_s: Some(counted_per_s(own.asked_per_s)),
            issued: Some(own.issued),
            ahead_ms: declaration.layout().has_time().then_some(own.ahead_ms),
            position: own.position_unix_ms.map(timestamp::format_rfc3339),
            ends: ends_unix_ms.map(timestamp::format_rfc3339),
            days_left: ends_unix_ms.map(|unix_ms| facts.days_until(unix_ms)),
            refusing: own.refusing.as_ref().map(ToString::to_string),
        }
    }

    /// Returns the status of a generator over a sequence, with the sequence's figures.
    fn of_counter(own: &CounterDeclaration, server: &Server) -> GeneratorStatus {
        let status = server.shown_counter_status(own.name()).map(|(_, status)| status);
        let (layout, format) = match own.kind() {
            CounterKind::Sequence(None) => (None, None),
            CounterKind::Sequence(Some(format)) => (None, Some(format.to_string().split_off("format ".len()))),
            CounterKind::Serial(serial) => {
                (Some(serial.template.text().to_owned()), Some(format!("reset {}", serial.reset.word())))
            }
        };
        GeneratorStatus {
            name: own.name().to_owned(),
            kind: own.word().to_owned(),
            layout,
            last: status.as_ref().and_then(|status| status.last_given).map(|value| value.to_string()),
            format,
            per_s: Some(status.as_ref().map_or(0.0, |status| rounded(status.per_s[0]))),
            issued: Some(status.as_ref().map_or(0, |status| status.used)),
            ahead_ms: None,
            position: None,
            ends: None,
            days_left: None,
            refusing: None,
        }
    }
}

/// Rounds a rate to two decimals.
fn rounded(per_s: f64) -> f64 {
    (per_s * 100.0).round() / 100.0
}

#[expect(clippy::cast_precision_loss, reason = "a rate is far below 2^53")]
fn counted_per_s(per_s: u64) -> f64 {
    per_s as f64
}

impl PageSequencesStatus {
    fn of(facts: &Facts<'_>) -> Option<PageSequencesStatus> {
        let own = facts.sequences.as_ref()?;
        let mut busiest: Vec<_> =
            own.busiest.iter().map(|(name, status)| PageSequence::of(name, status, own.clock_ms)).collect();
        debug_assert!(busiest.len() <= BUSIEST_MAX);
        // Sorted like generators: they are already sorted by name.
        busiest.sort_by_key(|one| std::cmp::Reverse(one.magnitude()));
        Some(PageSequencesStatus {
            in_memory: own.totals.in_memory,
            given: own.totals.given,
            held: own.totals.held,
            waiting: own.totals.waiting,
            refused: own.totals.refused,
            fetches: own.totals.fetches,
            fetches_failed: own.totals.fetches_failed,
            busiest,
            stores: own.stores.iter().map(PageStore::of).collect(),
        })
    }
}

impl PageSequence {
    /// Returns the magnitude of its rate, in powers of two of a hundredth.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative, and casts saturate"
    )]
    fn magnitude(&self) -> Option<u32> {
        ((self.per_s * 100.0) as u64).checked_ilog2()
    }

    fn of(name: &str, status: &SequenceStatus, clock_ms: u64) -> PageSequence {
        PageSequence {
            name: name.to_owned(),
            last: status.last_given.map(|value| value.to_string()),
            until: status.reserved_until.map(|value| value.to_string()),
            left: status.left,
            segment: status.segment_values,
            per_s: rounded(status.per_s[0]),
            fetched_ms_ago: status.fetched_ms.map(|at_ms| clock_ms.saturating_sub(at_ms)),
            fetch_ms: status.fetch_took_ms,
            waiting: status.waiting,
            errors: status.errors,
        }
    }
}

impl PageStore {
    fn of(store: &StoreStatus) -> PageStore {
        PageStore {
            address: store.shown.clone(),
            state: store.state(),
            for_s: store.for_ms / 1000,
            database: short(&store.product),
            slowest_ms: store.slowest_ms,
            errors: store.errors,
            reason: store.reason.as_deref().map(short),
        }
    }
}
