//! Counts of the ledgers of gapless generators, for INFO, metrics and the log.
//!
//! The counts are in the stores. So they are read by one task every ten seconds, one generator after the other, and
//! never for a request. A ledger whose store does not answer has no counts.
//!
//! Log lines: a ledger whose reserved numbers became overdue, whose numbers became unclear, or which gets near its
//! maximum of requests that released their numbers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use getid_core::server::ledger::LedgerCounts;
use getid_engine::generators::sequence::is_near_request_max;
use getid_text::plural::{counted, thousands};
use tokio::time::MissedTickBehavior;

use crate::Server;
use crate::logging::throttle::throttled;

/// Interval between two readings of a ledger's counts.
const READ_EVERY: Duration = Duration::from_secs(10);

/// Counts of the ledgers as they were last read, by the names of their generators.
#[derive(Debug, Default)]
pub struct LedgerWatch(Mutex<BTreeMap<String, LedgerCounts>>);

impl LedgerWatch {
    /// Returns the counts of all ledgers, by name.
    pub fn all(&self) -> Vec<(String, LedgerCounts)> {
        self.lock().iter().map(|(name, counts)| (name.clone(), *counts)).collect()
    }

    /// Replaces the counts of one ledger, and returns the earlier ones. `None`: the store does not answer.
    fn set(&self, name: &str, counts: Option<LedgerCounts>) -> Option<LedgerCounts> {
        match counts {
            Some(counts) => self.lock().insert(name.to_owned(), counts),
            None => self.lock().remove(name),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, LedgerCounts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the counts for as long as it is polled.
pub(super) async fn run(server: Arc<Server>) {
    let mut tick = tokio::time::interval(READ_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut alerts = BTreeMap::new();
    loop {
        tick.tick().await;
        let Some(sequences) = server.generators.sequences() else { continue };
        let settings = server.settings.get();
        let names: Vec<_> = settings.counters.iter().filter(|counter| counter.gapless().is_some()).collect();
        server.ledgers.lock().retain(|name, _| names.iter().any(|counter| counter.name() == name));
        for counter in names {
            let name = counter.name();
            let counts = sequences.ledger_counts(name).await.ok();
            server.ledgers.set(name, counts);
            if let Some(counts) = counts {
                let before = alerts.insert(name.to_owned(), counts);
                log_changes(&server, name, before, counts);
                log_released(&server, name, before, counts, sequences.requests_status().max);
            }
        }
    }
}

/// Logs that a ledger has overdue or unclear numbers, if it had fewer at the last reading.
fn log_changes(server: &Server, name: &str, before: Option<LedgerCounts>, now: LedgerCounts) {
    let before = before.unwrap_or_default();
    if now.overdue > before.overdue {
        let numbers = counted(now.overdue, "reserved number");
        throttled!(
            server.throttle,
            NumberOverdue,
            "generator {name} has {numbers} whose requests did not settle them in time; NUMBER LEDGER {name} STATE \
             reserved lists them"
        );
    }
    if now.unclear > before.unclear {
        let numbers = counted(now.unclear, "unclear number");
        throttled!(
            server.throttle,
            NumberUnclear,
            "generator {name} has {numbers}, because its store went back; NUMBER LEDGER {name} STATE unclear lists \
             them, and NUMBER SETTLE settles each"
        );
    }
}

/// Logs that a ledger gets near `max` requests that released their numbers, once it does.
fn log_released(server: &Server, name: &str, before: Option<LedgerCounts>, now: LedgerCounts, max: u64) {
    let is_near = |counts: LedgerCounts| is_near_request_max(counts.released_requests, max);
    if is_near(now) && !before.is_some_and(is_near) {
        let (requests, max) = (thousands(now.released_requests), thousands(max));
        throttled!(
            server.throttle,
            NumberReleased,
            "generator {name} has {requests} requests that released their numbers, and 'request-max' allows {max}: \
             further releases are refused then. Commit or void numbers, or raise 'request-max'"
        );
    }
}
