//! The facts about a server at one moment, as plain numbers and texts.

use std::cell::LazyCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use getid_core::server::ledger::LedgerCounts;
use getid_core::{Layout, Tick};

use super::{Counter, MetricValue, Metrics};
use getid_config::Config;
use getid_engine::claim::status::{ClaimRole, ClaimStatus};
use getid_engine::generators::sequence::{RequestsStatus, SequenceTotals, SequencesStatus};
use getid_engine::generators::time::IssuerStatus;
use getid_engine::generators::{NamedStatus, end_of_life};
use getid_engine::workers::PoolView;
use getid_system::usage::CpuTime;
use getid_text::timestamp;

/// A fact that is expensive to gather: it is gathered when the first row reads it. Many clients read one section of
/// INFO whenever they connect.
pub type Lazy<'a, T> = LazyCell<T, Box<dyn FnOnce() -> T + 'a>>;

/// The facts that the server gathers in one place, and that the rows of the table read.
#[derive(Debug)]
pub struct Facts<'a> {
    /// Counters of the server.
    pub metrics: &'a Metrics,
    /// Configuration in force.
    pub config: Arc<Config>,
    /// Server-id of this server; `None` with `server-id auto` while none is claimed.
    pub server_id: Option<u32>,
    /// State of the claim in a cluster store; `None` if the claim is in a folder, or if there is none.
    pub claim: Option<Arc<ClaimStatus>>,
    /// Layout of the IDs: epoch and bit widths.
    pub layout: Layout,
    /// State of the generator of IDs; takes its lock.
    pub generator: Lazy<'a, IssuerStatus>,
    /// State of the named generators; reads each of them.
    pub generators: Lazy<'a, Vec<NamedStatus>>,
    /// State of the sequences, which may read each of them; `None` without a store.
    pub sequences: Lazy<'a, Option<SequencesStatus>>,
    /// Counts of the ledgers of gapless generators, by name; at most ten seconds old.
    pub ledgers: Lazy<'a, Vec<(String, LedgerCounts)>>,
    /// State of the pools of worker ids; reads each of them.
    pub workers: Lazy<'a, Vec<PoolView>>,
    /// Facts about the process.
    pub process: ProcessFacts<'a>,
    /// Memory, which the system reports in files.
    pub memory: Lazy<'a, MemoryFacts>,
    /// CPU time, which the system reports.
    pub cpu: Lazy<'a, CpuFacts>,
    /// Facts about connected clients; reads each of them.
    pub clients: Lazy<'a, ClientFacts>,
    /// Counters of TLS; all zero without it.
    pub tls: TlsFacts,
    /// Log lines that were dropped because the queue was full, or that could not be written.
    pub log_lines_dropped: u64,
}

/// Facts about the process.
#[derive(Debug)]
pub struct ProcessFacts<'a> {
    /// Random id of the run: 40 hex digits, new at each start.
    pub run_id: &'a str,
    /// Absolute path of the program.
    pub executable: &'a str,
    /// Absolute path of the configuration file; empty without one.
    pub config_file: &'a str,
    /// The directive `port`, or `tls-port` if `port` is 0.
    pub tcp_port: u16,
    /// Wall clock, in Unix microseconds.
    pub wall_unix_us: i64,
}

/// Memory of the process and its machine.
#[derive(Debug)]
pub struct MemoryFacts {
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Memory of the machine, in bytes.
    pub machine_bytes: Option<u64>,
}

/// CPU time of the process.
#[derive(Debug)]
pub struct CpuFacts {
    /// CPU time of the process itself.
    pub own: Option<CpuTime>,
    /// CPU time of its children.
    pub(crate) of_children: Option<CpuTime>,
}

/// Facts about the connected clients.
#[derive(Debug, Default)]
pub struct ClientFacts {
    /// Number of clients.
    pub connected: usize,
    /// Most clients at a time.
    pub max: usize,
    /// Number of clients on the Unix socket.
    pub(crate) on_unix_socket: usize,
    /// Number of clients that wait for IDs.
    pub waiting: usize,
    /// Largest unread input of a client, in bytes.
    pub(crate) input_bytes_max: usize,
    /// Largest output that waits to be sent to a client, in bytes.
    pub(crate) output_bytes_max: usize,
    /// Memory of all clients' buffers, in bytes.
    pub held_bytes: usize,
    /// Limit of the clients' buffers, in bytes.
    pub(crate) held_bytes_max: Option<usize>,
    /// Number of clients that run MONITOR.
    pub monitors: usize,
    /// Monitors that fell behind and were closed.
    pub monitors_dropped: u64,
    /// State of `CLIENT PAUSE`: the held actions, and the rest of the pause in ms.
    pub pause: Option<(&'static str, u64)>,
}

/// Facts about TLS.
#[derive(Debug, Default)]
pub struct TlsFacts {
    /// Handshakes that succeeded.
    pub handshakes: u64,
    /// Handshakes that failed.
    pub failures: u64,
    /// Successful handshakes that resumed an earlier session.
    pub resumed: u64,
    /// Handshakes in progress.
    pub under_way: usize,
    /// Last second of the server's certificate, in Unix time.
    pub(crate) ends_s: Option<i64>,
}

impl Facts<'_> {
    /// Returns the number of these events.
    pub(super) fn counted(&self, counter: Counter) -> MetricValue {
        self.metrics.counted(counter).into()
    }

    /// Returns true if several threads serve connections.
    pub(super) fn is_threaded(&self) -> bool {
        self.config.io_threads > 1
    }

    /// Returns the role of this server in Redis's words.
    pub(super) fn role(&self) -> &'static str {
        if self.is_standby() { "standby" } else { "master" }
    }

    /// Returns true if this server waits for the claim of its server-id.
    pub fn is_standby(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.role == ClaimRole::Standby)
    }

    /// Returns how long IDs continue if the claim store stops answering now, in ms; 0 for a standby.
    pub fn ride_through_ms(&self, claim: &ClaimStatus) -> u64 {
        // The value as of the last call of the store.
        let reported_ms = claim.ride_through_ms;
        let Some(held_ms) = self.generator.held_for_ms else { return reported_ms };
        // IDs follow the reference clock: the wall clock may be wrong.
        let mint = &self.generator.mint;
        reported_ms.min(held_ms).min(mint.watermark.0.saturating_sub(mint.reference.0))
    }

    /// Returns the state of the claim of this server's server-id.
    pub(super) fn claim_state(&self) -> &'static str {
        match (self.is_standby(), self.generator.claim_lost) {
            (true, _) => "standby",
            (false, true) => "lost",
            (false, false) => "held",
        }
    }

    /// Returns the totals of all sequences; all zero without a store.
    pub(super) fn sequence_totals(&self) -> SequenceTotals {
        self.sequences.as_ref().map(|own| own.totals).unwrap_or_default()
    }

    /// Returns the status of request keys; all zero without a store.
    pub(super) fn requests(&self) -> RequestsStatus {
        self.sequences.as_ref().map(|own| own.requests).unwrap_or_default()
    }

    /// Returns the totals of the sequences without a line of their own.
    pub(super) fn unlisted_sequences(&self) -> SequenceTotals {
        self.sequences.as_ref().map(SequencesStatus::unlisted).unwrap_or_default()
    }

    /// Returns the warning of the log while more IDs of the unnamed generator are requested than the layout holds.
    pub fn shortage(&self) -> Option<String> {
        self.layout.shortage(self.generator.demanded_per_s)
    }

    /// Returns true unless the last save of the watermark failed. A standby saves nothing, so it has no failed save.
    pub fn last_save_ok(&self) -> bool {
        self.is_standby() || self.generator.last_save_ok
    }

    /// Returns [`Facts::last_save_ok`] in Redis's words.
    pub(super) fn last_save(&self) -> &'static str {
        if self.last_save_ok() { "ok" } else { "err" }
    }

    /// Returns the days until the server's certificate ends, negative once it has ended.
    pub fn certificate_days_left(&self) -> Option<i64> {
        self.tls.ends_s.map(|ends_s| self.days_until(ends_s.saturating_mul(1000)))
    }

    /// Returns the whole days until a Unix time in ms, negative once it has passed.
    pub fn days_until(&self, unix_ms: i64) -> i64 {
        end_of_life::days_left(unix_ms, self.process.wall_unix_us.div_euclid(1000))
    }

    /// Returns the time of a tick as text.
    pub(super) fn time(&self, tick: Tick) -> MetricValue {
        timestamp::format_rfc3339(self.unix_ms(tick)).into()
    }

    /// Returns the time of a tick, in Unix ms.
    pub(super) fn unix_ms(&self, tick: Tick) -> i64 {
        tick.unix_ms(self.layout.epoch())
    }
}

#[cfg(any(test, feature = "fixtures"))]
impl<'a> Facts<'a> {
    /// Returns the facts of a new server.
    pub fn of_tests(metrics: &'a Metrics) -> Facts<'a> {
        fn lazy<'a, T: 'a>(facts: T) -> Lazy<'a, T> {
            Lazy::new(Box::new(move || facts))
        }
        Facts {
            metrics,
            config: Arc::new(Config::default()),
            server_id: Some(0),
            claim: None,
            layout: Layout::default(),
            generator: lazy(IssuerStatus::default()),
            generators: lazy(Vec::new()),
            process: ProcessFacts { run_id: "", executable: "", config_file: "", tcp_port: 0, wall_unix_us: 0 },
            memory: lazy(MemoryFacts { resident_bytes: 0, machine_bytes: None }),
            cpu: lazy(CpuFacts { own: None, of_children: None }),
            clients: lazy(ClientFacts::default()),
            sequences: lazy(None),
            ledgers: lazy(Vec::new()),
            workers: lazy(Vec::new()),
            tls: TlsFacts::default(),
            log_lines_dropped: 0,
        }
    }
}

/// Returns the value of a gauge.
pub(super) fn gauge_value(gauge: &AtomicU64) -> MetricValue {
    gauge.load(Relaxed).into()
}

#[cfg(test)]
mod tests {
    use getid_core::Tick;

    use super::*;

    /// The value of the last beat becomes outdated as time passes.
    #[test]
    fn the_ride_through_is_computed_for_the_present_moment() {
        let (metrics, claim) = (Metrics::default(), ClaimStatus { ride_through_ms: 1500, ..ClaimStatus::default() });
        let left_ms = |held_for_ms, watermark_ms| {
            let mut facts = Facts::of_tests(&metrics);
            let mut generator = IssuerStatus { held_for_ms, ..IssuerStatus::default() };
            (generator.mint.watermark, generator.mint.reference) = (Tick(watermark_ms), Tick(10_000));
            facts.generator = Lazy::new(Box::new(move || generator));
            // A forward jump of the wall clock that the reference clock does not follow.
            facts.process.wall_unix_us = 1000 * facts.unix_ms(Tick(7_200_000));
            facts.ride_through_ms(&claim)
        };
        assert_eq!(left_ms(Some(700), 20_000), 700, "the hold ends first");
        assert_eq!(left_ms(Some(700), 10_300), 300, "the watermark ends first");
        assert_eq!((left_ms(Some(700), 9_000), left_ms(Some(0), 20_000)), (0, 0));
        assert_eq!(left_ms(Some(9000), 20_000), 1500);
    }

    #[test]
    fn a_standby_has_no_failed_save() {
        let metrics = Metrics::default();
        let last_save_of = |claim: Option<ClaimRole>, last_save_ok| {
            let mut facts = Facts::of_tests(&metrics);
            facts.claim = claim.map(|role| Arc::new(ClaimStatus { role, ..ClaimStatus::default() }));
            facts.generator = Lazy::new(Box::new(move || IssuerStatus { last_save_ok, ..IssuerStatus::default() }));
            facts.last_save()
        };
        assert_eq!((last_save_of(None, true), last_save_of(None, false)), ("ok", "err"));
        assert_eq!(
            (last_save_of(Some(ClaimRole::Holder), true), last_save_of(Some(ClaimRole::Holder), false)),
            ("ok", "err")
        );
        assert_eq!(
            (last_save_of(Some(ClaimRole::Standby), true), last_save_of(Some(ClaimRole::Standby), false)),
            ("ok", "ok")
        );
    }
}
