//! What there is to tell of a server at one moment, as plain numbers and texts.

use std::cell::LazyCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use getid_core::{Layout, Tick};

use super::{Counter, Metrics, Value};
use crate::claim::status::{ClaimRole, ClaimStatus};
use crate::config::Config;
use crate::generators::sequence::{SequenceTotals, SequencesStatus};
use crate::generators::time::IssuerStatus;
use crate::generators::{NamedStatus, end_of_life};
use crate::system::usage::CpuTime;
use crate::text::timestamp;
use crate::workers::PoolView;

/// What takes long to gather is gathered when the first row asks for it: many a client asks for one section of INFO
/// whenever it connects.
pub type Lazy<'a, T> = LazyCell<T, Box<dyn FnOnce() -> T + 'a>>;

/// Gathered by the server, in one place; read by the rows of the table.
#[derive(Debug)]
pub struct Facts<'a> {
    /// What is counted.
    pub metrics: &'a Metrics,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// Which server-id this is; `None`: `server-id auto`, and none is claimed.
    pub server_id: Option<u32>,
    /// What is said of the claim in a cluster store; `None`: it is kept in a folder, or nowhere.
    pub claim: Option<Arc<ClaimStatus>>,
    /// Epoch and bit widths of the IDs.
    pub layout: Layout,
    /// The generator of IDs, whose lock is taken.
    pub generator: Lazy<'a, IssuerStatus>,
    /// The named generators, each of which is asked.
    pub generators: Lazy<'a, Vec<NamedStatus>>,
    /// Sequences, each of which may be looked at; `None` without a store.
    pub sequences: Lazy<'a, Option<SequencesStatus>>,
    /// Pools of worker ids, each of which is looked at.
    pub workers: Lazy<'a, Vec<PoolView>>,
    /// The process.
    pub process: ProcessFacts<'a>,
    /// Memory, which the system tells in files.
    pub memory: Lazy<'a, MemoryFacts>,
    /// CPU time, which the system tells.
    pub cpu: Lazy<'a, CpuFacts>,
    /// Those who are connected, each of whom is looked at.
    pub clients: Lazy<'a, ClientFacts>,
    /// TLS; all zero without it.
    pub tls: TlsFacts,
    /// Lines of the log that had no room in its queue, or could not be written.
    pub log_lines_dropped: u64,
}

/// Of the process.
#[derive(Debug)]
pub struct ProcessFacts<'a> {
    /// 40 hex digits, new at each start.
    pub run_id: &'a str,
    /// The program, absolute.
    pub executable: &'a str,
    /// The configuration file, absolute; empty without one.
    pub config_file: &'a str,
    /// `port`, or `tls-port` where that is 0.
    pub tcp_port: u16,
    /// The wall clock, Unix microseconds.
    pub wall_unix_us: i64,
}

/// Of the memory of the process and its machine.
#[derive(Debug)]
pub struct MemoryFacts {
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// The machine's memory, bytes.
    pub machine_bytes: Option<u64>,
}

/// Of the CPU time of the process.
#[derive(Debug)]
pub struct CpuFacts {
    /// Its own.
    pub own: Option<CpuTime>,
    /// Its children's.
    pub of_children: Option<CpuTime>,
}

/// Of those who are connected now.
#[derive(Debug, Default)]
pub struct ClientFacts {
    /// How many there are.
    pub connected: usize,
    /// How many there may be.
    pub max: usize,
    /// How many came by the Unix socket.
    pub on_unix_socket: usize,
    /// How many wait for IDs.
    pub waiting: usize,
    /// The longest input of one that waits to be read, bytes.
    pub input_bytes_max: usize,
    /// The longest output of one that waits to be taken, bytes.
    pub output_bytes_max: usize,
    /// What all their buffers take, bytes.
    pub held_bytes: usize,
    /// What their buffers may take, bytes.
    pub held_bytes_max: Option<usize>,
    /// How many monitor.
    pub monitors: usize,
    /// Monitors that fell behind and were closed.
    pub monitors_dropped: u64,
    /// `CLIENT PAUSE`: what it holds, and for how long still, ms.
    pub pause: Option<(&'static str, u64)>,
}

/// Of TLS.
#[derive(Debug, Default)]
pub struct TlsFacts {
    /// Handshakes that succeeded.
    pub handshakes: u64,
    /// Handshakes that failed.
    pub failures: u64,
    /// Of those that succeeded, how many resumed an earlier session.
    pub resumed: u64,
    /// Handshakes that are under way.
    pub under_way: usize,
    /// The last second of the server's certificate, Unix time.
    pub ends_s: Option<i64>,
}

impl Facts<'_> {
    /// How many of these events there were.
    pub(super) fn counted(&self, counter: Counter) -> Value {
        self.metrics.counted(counter).into()
    }

    /// Whether several threads serve connections.
    pub(super) fn is_threaded(&self) -> bool {
        self.config.io_threads > 1
    }

    /// What this server is to its server-id.
    pub(super) fn role(&self) -> &'static str {
        if self.is_standby() { "standby" } else { "master" }
    }

    /// Whether it waits for the claim of its server-id.
    pub fn is_standby(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.role == ClaimRole::Standby)
    }

    /// For how long IDs go on if the claim store does not answer from now on, ms; 0 of a standby.
    pub fn ride_through_ms(&self, claim: &ClaimStatus) -> u64 {
        // So long it was when the store was last asked.
        let told_ms = claim.ride_through_ms;
        let Some(held_ms) = self.generator.held_for_ms else { return told_ms };
        // IDs go by the reference clock: the wall clock may be wrong.
        let mint = &self.generator.mint;
        told_ms.min(held_ms).min(mint.watermark.0.saturating_sub(mint.reference.0))
    }

    /// Whether it has the right to give IDs with its server-id.
    pub(super) fn claim_state(&self) -> &'static str {
        match (self.is_standby(), self.generator.claim_lost) {
            (true, _) => "standby",
            (false, true) => "lost",
            (false, false) => "held",
        }
    }

    /// Of all sequences; all zero without a store.
    pub(super) fn sequence_totals(&self) -> SequenceTotals {
        self.sequences.as_ref().map(|own| own.totals).unwrap_or_default()
    }

    /// Of those that are not told of one by one.
    pub(super) fn unlisted_sequences(&self) -> SequenceTotals {
        self.sequences.as_ref().map(SequencesStatus::unlisted).unwrap_or_default()
    }

    /// What is said while more IDs of the unnamed generator are asked for than the layout holds, as in the log.
    pub fn shortage(&self) -> Option<String> {
        self.layout.shortage(self.generator.demanded_per_s)
    }

    /// Whether the last save of the watermark did not fail. A standby, which has none to save, has none that failed.
    pub fn last_save_ok(&self) -> bool {
        self.is_standby() || self.generator.last_save_ok
    }

    /// [`Facts::last_save_ok`] in Redis's words.
    pub(super) fn last_save(&self) -> &'static str {
        if self.last_save_ok() { "ok" } else { "err" }
    }

    /// Days until the server's certificate ends, negative once it has ended.
    pub fn certificate_days_left(&self) -> Option<i64> {
        self.tls.ends_s.map(|ends_s| self.days_until(ends_s.saturating_mul(1000)))
    }

    /// Whole days until a Unix time in ms, negative once it has passed.
    pub fn days_until(&self, unix_ms: i64) -> i64 {
        end_of_life::days_left(unix_ms, self.process.wall_unix_us.div_euclid(1000))
    }

    /// The time of a tick.
    pub(super) fn time(&self, tick: Tick) -> Value {
        timestamp::format_rfc3339(self.unix_ms(tick)).into()
    }

    /// The time of a tick, Unix ms.
    pub(super) fn unix_ms(&self, tick: Tick) -> i64 {
        tick.unix_ms(self.layout.epoch())
    }
}

#[cfg(test)]
impl<'a> Facts<'a> {
    /// Those of a server that has done nothing.
    pub(crate) fn of_tests(metrics: &'a Metrics) -> Facts<'a> {
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
            workers: lazy(Vec::new()),
            tls: TlsFacts::default(),
            log_lines_dropped: 0,
        }
    }
}

/// The value of a gauge that others keep.
pub(super) fn load(gauge: &AtomicU64) -> Value {
    gauge.load(Relaxed).into()
}

#[cfg(test)]
mod tests {
    use getid_core::Tick;

    use super::*;

    /// What was told at the last beat is not true any more when time has passed.
    #[test]
    fn what_is_left_without_the_claim_store_is_of_this_moment() {
        let (metrics, claim) = (Metrics::default(), ClaimStatus { ride_through_ms: 1500, ..ClaimStatus::default() });
        let left_ms = |held_for_ms, watermark_ms| {
            let mut facts = Facts::of_tests(&metrics);
            let mut generator = IssuerStatus { held_for_ms, ..IssuerStatus::default() };
            (generator.mint.watermark, generator.mint.reference) = (Tick(watermark_ms), Tick(10_000));
            facts.generator = Lazy::new(Box::new(move || generator));
            // A jump that is not followed.
            facts.process.wall_unix_us = 1000 * facts.unix_ms(Tick(7_200_000));
            facts.ride_through_ms(&claim)
        };
        assert_eq!(left_ms(Some(700), 20_000), 700, "the hold");
        assert_eq!(left_ms(Some(700), 10_300), 300, "the watermark");
        assert_eq!((left_ms(Some(700), 9_000), left_ms(Some(0), 20_000)), (0, 0));
        assert_eq!(left_ms(Some(9000), 20_000), 1500);
    }

    #[test]
    fn a_standby_has_no_save_that_failed() {
        let metrics = Metrics::default();
        let told = |claim: Option<ClaimRole>, last_save_ok| {
            let mut facts = Facts::of_tests(&metrics);
            facts.claim = claim.map(|role| Arc::new(ClaimStatus { role, ..ClaimStatus::default() }));
            facts.generator = Lazy::new(Box::new(move || IssuerStatus { last_save_ok, ..IssuerStatus::default() }));
            facts.last_save()
        };
        assert_eq!((told(None, true), told(None, false)), ("ok", "err"));
        assert_eq!((told(Some(ClaimRole::Holder), true), told(Some(ClaimRole::Holder), false)), ("ok", "err"));
        assert_eq!((told(Some(ClaimRole::Standby), true), told(Some(ClaimRole::Standby), false)), ("ok", "ok"));
    }
}
