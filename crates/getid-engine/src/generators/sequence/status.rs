//! Status of sequences and their stores.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use getid_core::server::beat::AwaitedServer;
use getid_core::server::{Key, SequenceStatus};

use super::pool::{Health, StorePool};
use super::table::{SHARDS, Table};
use super::{RequestsStatus, Sequences};
use getid_store::sql::TableKind as Tables;
use getid_text::name_hash::hash_of;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shortest interval between two warnings about sequences near their end, ms.
const WARN_EVERY_MS: u64 = 1_000;

/// Maximum number of sequences with a line in INFO.
pub const BUSIEST_MAX: usize = 16;

/// Maximum number of sequences that `/metrics` lists.
pub const LISTED_MAX: usize = 1_000;

/// Number of sequences kept for each shard, four times its share of [`LISTED_MAX`]. Hashes spread names over shards, so
/// one of the busiest of all is hardly ever missing.
const BUSIEST_OF_SHARD: usize = LISTED_MAX.div_ceil(SHARDS) * 4;

/// Number of sequences in memory up to which all are read for each status, which takes about a millisecond. Above it,
/// each shard's sums are those of its last sweep, at most 16 s ago.
const LOOKED_AT_MAX: usize = 4_096;

/// Counters of all sequences.
#[derive(Default)]
pub(super) struct SequenceCounts {
    pub(super) went_back: AtomicU64,
    pub(super) fetches: AtomicU64,
    pub(super) fetches_failed: AtomicU64,
    waited: AtomicU64,
    refused: AtomicU64,
    warned_ms: AtomicU64,
}

impl SequenceCounts {
    /// Returns true if another warning may be logged.
    pub(super) fn may_warn(&self, now_ms: u64) -> bool {
        let last = self.warned_ms.load(Relaxed);
        let may = last == 0 || now_ms >= last + WARN_EVERY_MS;
        may && self.warned_ms.compare_exchange(last, now_ms.max(1), Relaxed, Relaxed).is_ok()
    }

    /// Counts a draw that had to wait.
    pub(super) fn waited(&self) {
        self.waited.fetch_add(1, Relaxed);
    }

    /// Counts a refused draw.
    #[cold]
    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }
}

/// The sums of each shard when it was last read.
pub(super) struct ShardTallies(Box<[Mutex<ShardTally>]>);

/// The sums of a shard, and its busiest sequences.
#[derive(Default)]
struct ShardTally {
    given: u64,
    held: u64,
    waiting: u64,
    busiest: Vec<BusySequence>,
}

struct BusySequence {
    per_s: f64,
    key: Key,
}

impl Default for ShardTallies {
    fn default() -> ShardTallies {
        ShardTallies((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl ShardTally {
    fn add(&mut self, key: &Key, status: &SequenceStatus) {
        self.given += status.used;
        self.held += status.left;
        self.waiting += status.waiting as u64;
        let per_s = status.per_s[0];
        if self.busiest.last().is_none_or(|last| self.busiest.len() < BUSIEST_OF_SHARD || is_busier((per_s, key), last))
        {
            let place = self.busiest.partition_point(|other| !is_busier((per_s, key), other));
            self.busiest.insert(place, BusySequence { per_s, key: key.clone() });
            self.busiest.truncate(BUSIEST_OF_SHARD);
        }
    }
}

/// Returns true if it is used more; of equal ones, if its name is first.
fn is_busier((per_s, key): (f64, &Key), other: &BusySequence) -> bool {
    other.per_s.total_cmp(&per_s).then_with(|| key.cmp(&other.key)).is_lt()
}

/// Totals of all sequences in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceTotals {
    /// Number of sequences in memory.
    pub in_memory: usize,
    /// Number of values given in this life.
    pub given: u64,
    /// Number of values held. A kill of the process skips them, and those of a running fetch.
    pub held: u64,
    /// Number of draws that wait now.
    pub waiting: u64,
    /// Number of draws that had to wait.
    pub waited: u64,
    /// Number of refused draws.
    pub refused: u64,
    /// Number of fetches begun, each for one sequence.
    pub fetches: u64,
    /// Number of fetches whose statement failed, or whose outcome is unknown.
    pub fetches_failed: u64,
    /// Number of running fetches.
    pub fetching: usize,
    /// Number of times a store was found to have gone back.
    pub went_back: u64,
}

/// Status of all sequences and stores.
#[derive(Clone, Debug, Default)]
pub struct SequencesStatus {
    /// Totals of all sequences.
    pub totals: SequenceTotals,
    /// The busiest sequences in memory, by name.
    pub busiest: Vec<(String, SequenceStatus)>,
    /// The stores, in the order of the configuration.
    pub stores: Vec<StoreStatus>,
    /// Request keys.
    pub requests: RequestsStatus,
    /// Time to which [`SequenceStatus::fetched_ms`] relates.
    pub clock_ms: u64,
}

/// Status of a store.
#[derive(Clone, Debug)]
pub struct StoreStatus {
    /// Address of the store, without a password.
    pub shown: String,
    /// The database and its version; empty before it has answered.
    pub product: String,
    /// Uuid of the store; empty before it has answered.
    pub uuid: String,
    /// Kind of the store's tables.
    pub table: Tables,
    /// Whether other servers may use the same rows.
    pub is_shared: bool,
    /// Whether it answers; `None`: it was not queried yet.
    pub is_up: Option<bool>,
    /// Whether it answers but nothing is reserved there, while servers compare what the store may have lost.
    pub is_held: bool,
    /// Number of other live servers that share it.
    pub servers: usize,
    /// Servers for which the store waits.
    pub awaited: Vec<AwaitedServer>,
    /// Time since it began, or stopped, to answer, ms.
    pub for_ms: u64,
    /// Error, if it does not answer or is held.
    pub reason: Option<String>,
    /// Settings with which a commit may be lost.
    pub warnings: Vec<String>,
    /// Number of statements sent.
    pub statements: u64,
    /// Number of failed statements, and of connections that were not opened.
    pub errors: u64,
    /// Duration of the slowest statement, ms.
    pub slowest_ms: u64,
    /// Number of statements that were not answered in time, and may still be done.
    pub abandoned: usize,
    /// Number of values reserved.
    pub reserved: u64,
}

impl StoreStatus {
    /// Returns in one word whether values can be reserved there.
    pub fn state(&self) -> &'static str {
        match self.is_up {
            None => "opening",
            Some(true) if self.is_held => "held",
            Some(true) => "up",
            Some(false) => "down",
        }
    }
}

#[cfg(any(test, feature = "fixtures"))]
impl StoreStatus {
    /// Returns the status of a store that answers.
    pub fn of_tests() -> StoreStatus {
        StoreStatus {
            shown: "mysql://shop:***@db/ids".to_owned(),
            product: "MariaDB 10.11".to_owned(),
            uuid: "0".repeat(36),
            table: Tables::Native,
            is_shared: true,
            is_up: Some(true),
            is_held: false,
            servers: 2,
            awaited: Vec::new(),
            for_ms: 61_999,
            reason: None,
            warnings: Vec::new(),
            statements: 12,
            errors: 1,
            slowest_ms: 5,
            abandoned: 0,
            reserved: 1200,
        }
    }
}

impl SequencesStatus {
    /// Returns the totals without the sequences in `busiest`: their number, and the values they have given, hold and
    /// wait for.
    pub fn unlisted(&self) -> SequenceTotals {
        let listed = |of: fn(&SequenceStatus) -> u64| self.busiest.iter().map(|(_, status)| of(status)).sum::<u64>();
        let SequenceTotals { in_memory, given, held, waiting, .. } = self.totals;
        // Each was read separately, so the parts may be a little more than the whole.
        SequenceTotals {
            in_memory: in_memory.saturating_sub(self.busiest.len()),
            given: given.saturating_sub(listed(|status| status.used)),
            held: held.saturating_sub(listed(|status| status.left)),
            waiting: waiting.saturating_sub(listed(|status| status.waiting as u64)),
            ..SequenceTotals::default()
        }
    }
}

impl Sequences {
    /// Returns the status of all sequences and stores, with at most `limit` of the busiest sequences.
    pub fn status(&self, limit: usize) -> SequencesStatus {
        SequencesStatus {
            totals: self.totals(),
            busiest: self.statuses(limit),
            stores: self.stores(),
            requests: self.requests_status(),
            clock_ms: self.now_ms(),
        }
    }

    /// Returns the busiest sequences in memory, by name, at most `limit`.
    pub fn statuses(&self, limit: usize) -> Vec<(String, SequenceStatus)> {
        self.tally_if_few();
        let mut all: Vec<(f64, Key)> = Vec::new();
        for tally in &self.tallies.0 {
            all.extend(lock(tally).busiest.iter().map(|busy| (busy.per_s, busy.key.clone())));
        }
        all.sort_by(|(a_per_s, a), (b_per_s, b)| b_per_s.total_cmp(a_per_s).then_with(|| a.cmp(b)));
        all.truncate(limit);
        all.sort_by(|(_, a), (_, b)| a.cmp(b));
        // Sequences that have left memory meanwhile are omitted.
        let statuses = all.iter().filter_map(|(_, key)| {
            let name = key.as_str();
            Some((name.to_owned(), self.status_of(hash_of(name.as_bytes()), name)?))
        });
        statuses.collect()
    }

    /// Reads all sequences, if they are few.
    fn tally_if_few(&self) {
        if self.table.count() <= LOOKED_AT_MAX {
            let now_ms = self.now_ms();
            (0..SHARDS).for_each(|index| self.tally(index, now_ms));
        }
    }

    /// Updates the sums of a shard.
    pub(super) fn tally(&self, index: usize, now_ms: u64) {
        let mut tally = ShardTally::default();
        let mut shard = self.table.nth_shard(index);
        tally.given = shard.given_by_removed;
        for entry in shard.iter_mut().filter(|entry| entry.flags.is_known) {
            tally.add(&entry.key, &entry.sequence.status(now_ms));
        }
        // Stored under the shard's lock, so that the number of given values never falls.
        if let Some(own) = self.tallies.0.get(index) {
            *lock(own) = tally;
        }
        drop(shard);
    }

    /// Returns the status of a sequence in memory.
    pub fn status_of(&self, hash: u64, name: &str) -> Option<SequenceStatus> {
        let now_ms = self.now_ms();
        let mut shard = self.table.shard(hash);
        Table::find(&mut shard, hash, name).map(|entry| entry.sequence.status(now_ms))
    }

    /// Returns the time to which [`SequenceStatus::fetched_ms`] relates.
    pub fn clock_ms(&self) -> u64 {
        self.now_ms()
    }

    /// Returns the totals of all sequences.
    pub fn totals(&self) -> SequenceTotals {
        self.tally_if_few();
        let counts = &self.counts;
        let mut totals = SequenceTotals {
            in_memory: self.table.count(),
            waited: counts.waited.load(Relaxed),
            refused: counts.refused.load(Relaxed),
            fetches: counts.fetches.load(Relaxed),
            fetches_failed: counts.fetches_failed.load(Relaxed),
            fetching: self.fetching.load(Relaxed),
            went_back: counts.went_back.load(Relaxed),
            ..SequenceTotals::default()
        };
        for tally in &self.tallies.0 {
            let tally = lock(tally);
            totals.given += tally.given;
            totals.held += tally.held;
            totals.waiting += tally.waiting;
        }
        totals
    }

    /// Returns the stores, in the order of the configuration.
    pub fn stores(&self) -> Vec<StoreStatus> {
        self.pools.iter().map(|pool| store_status(pool)).collect()
    }
}

fn lock(tally: &Mutex<ShardTally>) -> MutexGuard<'_, ShardTally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn store_status(pool: &StorePool) -> StoreStatus {
    let about = pool.about();
    let (is_up, since, reason) = match pool.health() {
        Health::Opening => (None, None, None),
        Health::Up { since } => (Some(true), Some(since), None),
        Health::Down { since, reason } => (Some(false), Some(since), Some(reason.to_string())),
    };
    let held = pool.held().filter(|_| is_up == Some(true));
    let (servers, awaited) = pool.member().as_ref().map(|own| (own.others_live(), own.awaited())).unwrap_or_default();
    let ms = |passed: std::time::Duration| u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
    let text = |of: fn(&getid_store::sql::StoreInfo) -> &String| about.as_deref().map(of).cloned().unwrap_or_default();
    StoreStatus {
        shown: pool.store.shown().to_owned(),
        product: text(|about| &about.product),
        uuid: text(|about| &about.uuid),
        table: pool.store.table(),
        is_shared: pool.store.is_shared(),
        is_up,
        is_held: held.is_some(),
        servers,
        awaited,
        for_ms: since.map_or(0, |since| ms(since.elapsed())),
        reason: reason.or_else(|| held.map(|held| held.to_string())),
        warnings: about.map(|about| about.warnings.clone()).unwrap_or_default(),
        statements: pool.counts.statements.load(Relaxed),
        errors: pool.counts.errors.load(Relaxed),
        slowest_ms: pool.counts.slowest_ms.load(Relaxed),
        abandoned: pool.abandoned(),
        reserved: pool.counts.reserved.load(Relaxed),
    }
}
