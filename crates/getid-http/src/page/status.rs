//! The server's status at one moment, as JSON for the page.

use std::sync::atomic::Ordering::Relaxed;

use getid_core::Tick;
use getid_core::server::{CounterDeclaration, CounterKind, SequenceStatus};
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
pub(super) const GENERATORS_MAX: usize = 50;

/// The longest outside text, characters.
const TEXT_CHARS_MAX: usize = 500;

/// A server at one moment. IDs and values of sequences are strings, times are RFC 3339 in UTC.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    time: String,
    giving: GivingStatus,
    notices: Vec<Notice>,
    rate: SecondRates,
    server: ServerStatus,
    ids: IdsStatus,
    borrow: BorrowStatus,
    clock: ClockStatus,
    watermark: WatermarkStatus,
    layout: LayoutStatus,
    claim: PageClaimStatus,
    clients: ClientsStatus,
    memory: MemoryStatus,
    generators: GeneratorsStatus,
    sequences: Option<PageSequencesStatus>,
}

#[derive(Debug, Serialize)]
struct ServerStatus {
    version: &'static str,
    server_id: Option<u32>,
    run_id: String,
    uptime_s: u64,
    requests_per_s: u64,
    port: u16,
    tls_port: u16,
    ids_max: u32,
}

#[derive(Debug, Serialize)]
struct IdsStatus {
    /// IDs of all generators.
    issued: u64,
    issued_unnamed: u64,
    per_s_unnamed: u64,
    capacity_per_s: u64,
    waiting: u64,
    wait_ms: u64,
    wait_limit_ms: u64,
    refused: u64,
    position: String,
}

#[derive(Debug, Serialize)]
struct BorrowStatus {
    ms: u64,
    limit_ms: u64,
    highest_ms: u64,
    policy: &'static str,
}

#[derive(Debug, Serialize)]
struct ClockStatus {
    offset_ms: i64,
    set_back: u64,
    jumps: u64,
    holds_jump: bool,
}

#[derive(Debug, Serialize)]
struct WatermarkStatus {
    /// How far the saved watermark is ahead of the position.
    lead_ms: u64,
    time: String,
    last_save: Option<String>,
    last_save_us: u64,
    is_ok: bool,
    saves: u64,
    failures: u64,
    saving_ms: u64,
}

#[derive(Debug, Serialize)]
struct LayoutStatus {
    server_id_bits: u32,
    shard_bits: u32,
    random_bits: u32,
    epoch: String,
    ends: String,
    days_left: i64,
}

/// The claim of the server-id.
#[derive(Debug, Serialize)]
struct PageClaimStatus {
    state: &'static str,
    folder: String,
    /// The claim in a store that servers share.
    cluster: Option<ClusterClaimStatus>,
}

#[derive(Debug, Serialize)]
struct ClusterClaimStatus {
    role: &'static str,
    store: String,
    product: String,
    instance_name: String,
    holder: Option<PageHolderStatus>,
    not_eligible: Option<String>,
    timeout_ms: u64,
    ride_through_ms: u64,
    last_answer: Option<String>,
    beats: u64,
    last_beat_us: u64,
    errors: u64,
    error: Option<String>,
    takeovers: u64,
    losses: u64,
    last_takeover: Option<PageTakeoverStatus>,
}

#[derive(Debug, Serialize)]
struct PageHolderStatus {
    name: String,
    host: String,
    address: String,
    is_this: bool,
    since: Option<String>,
    until: Option<String>,
}

#[derive(Debug, Serialize)]
struct PageTakeoverStatus {
    at: Option<String>,
    cause: String,
    took_ms: u64,
}

#[derive(Debug, Serialize)]
struct ClientsStatus {
    connected: usize,
    max: usize,
    peak: u64,
    waiting: usize,
    over_http: usize,
    over_http_max: u32,
}

#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "a unit belongs to a number's name")]
struct MemoryStatus {
    resident_bytes: u64,
    peak_bytes: u64,
    machine_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct GeneratorsStatus {
    count: usize,
    /// The busiest generators.
    busiest: Vec<GeneratorStatus>,
}

#[derive(Debug, Serialize)]
struct GeneratorStatus {
    name: String,
    kind: String,
    /// The template of a generator over a sequence.
    layout: Option<String>,
    /// The last value of a generator over a sequence.
    last: Option<String>,
    format: Option<String>,
    per_s: Option<f64>,
    issued: Option<u64>,
    ahead_ms: Option<u64>,
    position: Option<String>,
    ends: Option<String>,
    days_left: Option<i64>,
    refusing: Option<String>,
}

#[derive(Debug, Serialize)]
struct PageSequencesStatus {
    in_memory: usize,
    given: u64,
    held: u64,
    waiting: u64,
    refused: u64,
    fetches: u64,
    fetches_failed: u64,
    /// The busiest sequences.
    busiest: Vec<PageSequence>,
    stores: Vec<PageStore>,
}

#[derive(Debug, Serialize)]
struct PageSequence {
    name: String,
    last: Option<String>,
    until: Option<String>,
    left: u64,
    segment: u32,
    per_s: f64,
    fetched_ms_ago: Option<u64>,
    fetch_ms: u32,
    waiting: usize,
    errors: u32,
}

#[derive(Debug, Serialize)]
struct PageStore {
    address: String,
    state: &'static str,
    for_s: u64,
    database: String,
    slowest_ms: u64,
    errors: u64,
    reason: Option<String>,
}

impl Status {
    /// Gathers the status; `rate` has the rates of the last second.
    pub(super) fn of(server: &Server, rate: SecondRates) -> Status {
        let facts = server.facts();
        Status {
            time: timestamp::format_rfc3339(facts.process.wall_unix_us.div_euclid(1000)),
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
fn time_of(facts: &Facts<'_>, tick: Tick) -> String {
    timestamp::format_rfc3339(tick.unix_ms(facts.layout.epoch()))
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
            last_save: last_save.map(timestamp::format_rfc3339),
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

/// Returns a Unix time in ms as text; `None` for 0.
fn time_at(unix_ms: u64) -> Option<String> {
    let unix_ms = i64::try_from(unix_ms).ok().filter(|&unix_ms| unix_ms > 0)?;
    Some(timestamp::format_rfc3339(unix_ms))
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
            epoch: timestamp::format_rfc3339(layout.first_unix_ms()),
            ends: timestamp::format_rfc3339(layout.last_unix_ms()),
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
            format: declaration.format().map(|format| format.to_string().split_off("format ".len())),
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
        let status = server.generators.counter_status(own.name()).map(|(_, status)| status);
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
