//! Sequences: named counters from a store, served from memory.
//!
//! A request takes what its sequence holds, under the lock of one shard, and never waits for the store: the driver
//! calls the stores, on a thread of its own. A draw that finds too little waits in the queue of the sequence
//! ([`getid_core::server::Sequence`]), which makes all decisions. This module has the clock, the stores and the
//! threads.
//!
//! Elsewhere: the statements of a database ([`getid_store::sql`]), and the writing of replies.
//!
//! Invariants: every given value was reserved by a statement whose success is known. Nothing is given if another server
//! may have raised a row, and this server could not learn of it for `sequence-ride-out-s`.

mod backup;
mod batcher;
mod beats;
mod begun;
mod confirm;
mod creation;
mod driver;
mod ends;
mod error;
mod fetch;
mod fetch_queue;
mod keys;
mod notes;
mod numbers;
mod pool;
mod range;
mod requests;
mod status;
mod stop;
mod sweep;
mod table;
mod tokens;
mod verbs;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use getid_core::server::{
    Run, SEQUENCE_NAME_RULE, SequencePolicy, SequenceRefusal, SequenceRequest, Spec, WaitPolicy, WaiterId,
};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use self::confirm::Confirmations;
pub use self::driver::StartError;
pub use self::error::SequenceError;
use self::fetch_queue::{FetchKind, FetchQueue};
use self::keys::KeyCounts;
pub use self::notes::SequenceNotes;
pub use self::numbers::NumberError;
use self::numbers::NumberQueue;
use self::pool::{StorePool, StoreUuids};
pub use self::range::RangeRequest;
use self::requests::RequestKeys;
pub use self::requests::{RequestError, RequestsStatus, is_near_request_max};
pub use self::status::{BUSIEST_MAX, LISTED_MAX, SequenceTotals, SequencesStatus, StoreStatus};
pub use self::stop::StopReport;
pub use self::table::CounterOpening;
use self::table::{DrawResult, ENTRIES_MAX, InsertError, SequenceEntry, Shard, Table, UNKNOWN_MAX};
use self::tokens::TinyidTokens;
pub use self::tokens::{TokenVerdict, no_token_table};
pub use self::verbs::{CreateOptions, RaiseReport, SequenceView};
use getid_store::sql::Store;
use getid_system::clock::Clock;
use getid_text::plural::thousands;
use std::sync::{Mutex, PoisonError};

/// Settings of sequences that an operator can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceSettings {
    /// Maximum wait of a request, ms (`sequence-wait-ms`).
    pub wait_ms: u64,
    /// Whether a request waits at all, if its sequence has no such option (`sequence-policy`).
    pub policy: WaitPolicy,
    /// Whether the first request for a name creates the sequence (`sequence-create on-first-use`).
    pub creates_on_first_use: bool,
    /// Maximum number of rows up to which a first request creates one (`sequence-max`).
    pub rows_max: u64,
    /// Maximum number of kept requests of one generator or sequence (`request-max`).
    pub requests_max: u64,
    /// `cache` of a sequence that a client creates without options (`sequence-cache`).
    pub cache: u32,
    /// Seconds for which a segment lasts at the recent rate, and for which values are given after a shared store last
    /// reported which rows were changed (`sequence-ride-out-s`). The value at the start of the process counts.
    pub ride_out_s: u64,
}

impl Default for SequenceSettings {
    fn default() -> SequenceSettings {
        SequenceSettings {
            wait_ms: 1_000,
            policy: WaitPolicy::Wait,
            creates_on_first_use: false,
            rows_max: 1_000_000,
            requests_max: 1_000_000,
            cache: Spec::default().cache,
            ride_out_s: 900,
        }
    }
}

impl SequenceSettings {
    /// Returns the options of a sequence that a client creates without any.
    pub fn spec(&self) -> Spec {
        Spec { cache: self.cache, ..Spec::default() }
    }
}

/// Outcome of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawOutcome {
    /// All values were in memory.
    All,
    /// The rest must wait: see [`Sequences::draw`].
    Waits,
}

/// The sequences of a server.
pub struct Sequences {
    table: Table,
    fetch_queue: FetchQueue,
    pools: Vec<Arc<StorePool>>,
    confirmed: Confirmations,
    /// Permits for sequences that read a marked row again.
    reread_slots: Semaphore,
    notes: SequenceNotes,
    settings: Mutex<SequenceSettings>,
    clock: Box<dyn Clock>,
    /// Runtime of the driver's thread.
    handle: Handle,
    /// Notified whenever a store's health changes.
    health: watch::Sender<()>,
    /// Number of running fetches.
    fetching: AtomicUsize,
    /// Notified when a fetch ends.
    fetched: Notify,
    missing: Mutex<sweep::MissingNames>,
    begun: begun::BegunPeriods,
    keys: KeyCounts,
    tallies: status::ShardTallies,
    tokens: TinyidTokens,
    requests: RequestKeys,
    numbers: NumberQueue,
    is_closed: AtomicBool,
    ended: Notify,
    counts: status::SequenceCounts,
    first_value: OnceLock<FirstValue>,
    /// Whether the action at the first value is done.
    has_given: AtomicBool,
}

/// Action at the first value of a life, before the client gets it. Returns false if it could not be done yet; then the
/// next value counts as the first.
pub type FirstValue = Box<dyn Fn() -> bool + Send + Sync>;

impl Sequences {
    fn new(
        stores: Vec<Arc<dyn Store>>,
        settings: SequenceSettings,
        notes: SequenceNotes,
        clock: Box<dyn Clock>,
        handle: Handle,
    ) -> Sequences {
        let confirmed = Confirmations::new(stores.iter().map(|store| store.is_shared()), settings.ride_out_s);
        let health = watch::Sender::new(());
        let tokens = TinyidTokens::new(stores.len());
        let begun = begun::BegunPeriods::new(stores.len());
        let places = Arc::<StoreUuids>::default();
        let pool = |(index, store)| Arc::new(StorePool::new(index, store, health.clone(), Arc::clone(&places)));
        let pools = (0_u8..).zip(stores).map(pool).collect();
        Sequences {
            table: Table::new(ENTRIES_MAX),
            fetch_queue: FetchQueue::default(),
            pools,
            confirmed,
            reread_slots: Semaphore::new(fetch::LOOKING_MAX),
            notes,
            settings: Mutex::new(settings),
            clock,
            handle,
            health,
            fetching: AtomicUsize::new(0),
            fetched: Notify::new(),
            missing: Mutex::default(),
            begun,
            keys: KeyCounts::default(),
            tallies: status::ShardTallies::default(),
            tokens,
            requests: RequestKeys::default(),
            numbers: NumberQueue::default(),
            is_closed: AtomicBool::new(false),
            ended: Notify::new(),
            counts: status::SequenceCounts::default(),
            first_value: OnceLock::new(),
            has_given: AtomicBool::new(false),
        }
    }

    /// Sets the action at the first value, once. Must be called before the first request.
    pub(crate) fn at_first_value(&self, first_value: FirstValue) {
        // A second call would be an error of the start.
        let _ = self.first_value.set(first_value);
    }

    /// Notes that values were given, if there are any in `runs`.
    #[inline]
    fn note_values(&self, runs: &[Run]) {
        if !self.has_given.load(Relaxed) && !runs.is_empty() {
            self.note_first_value();
        }
    }

    #[cold]
    fn note_first_value(&self) {
        if self.first_value.get().is_some_and(|first_value| first_value()) {
            self.has_given.store(true, Relaxed);
        }
    }

    /// Returns the current settings.
    pub fn settings(&self) -> SequenceSettings {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the settings, except `ride_out_s`.
    pub fn set_settings(&self, settings: SequenceSettings) {
        let mut own = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        *own = SequenceSettings { ride_out_s: own.ride_out_s, ..settings };
    }

    /// Returns the maximum wait of a request, ms.
    pub fn wait_ms(&self) -> u64 {
        self.settings().wait_ms
    }

    fn policy(&self) -> SequencePolicy {
        let settings = self.settings();
        SequencePolicy { ride_out_ms: settings.ride_out_s.saturating_mul(1000), waits: settings.policy }
    }

    fn now_ms(&self) -> u64 {
        self.clock.boot_ns() / 1_000_000
    }

    /// Makes the draws from several sequences, with these hashes, wait less for memory.
    pub fn prefetch(&self, hashes: impl Iterator<Item = u64>) {
        self.table.prefetch(hashes);
    }

    /// Gives values in memory for `asks`, in their order, and never waits. Asks without enough values go into `left`,
    /// the first of them perhaps with only a part of its commands.
    ///
    /// `now_ms` is [`Sequences::clock_ms`], read once for all draws of a turn. `name` is a sequence's, or the text of a
    /// period's key; `hash` is its [`getid_text::name_hash::hash_of`].
    ///
    /// # Errors
    ///
    /// The refusal for the asks in `left`. The values in `runs` were given nevertheless.
    pub fn try_draw(
        &self,
        now_ms: u64,
        hash: u64,
        name: &str,
        asks: &mut dyn Iterator<Item = SequenceRequest>,
        runs: &mut Vec<Run>,
        left: &mut Vec<SequenceRequest>,
    ) -> Result<DrawOutcome, SequenceRefusal> {
        let drawn = self.give(now_ms, hash, name, asks, runs, left);
        self.note_values(runs);
        drawn.inspect_err(|_| self.counts.refused())
    }

    #[inline]
    fn give(
        &self,
        now_ms: u64,
        hash: u64,
        name: &str,
        asks: &mut dyn Iterator<Item = SequenceRequest>,
        runs: &mut Vec<Run>,
        left: &mut Vec<SequenceRequest>,
    ) -> Result<DrawOutcome, SequenceRefusal> {
        let mut shard = self.table.shard(hash);
        let given = self.may_give(now_ms);
        let known = Table::find(&mut shard, hash, name);
        let (Ok(()), Some(entry)) = (&given, known) else {
            left.extend(asks);
            given?;
            self.table.insert(&mut shard, hash, name, now_ms).map_err(no_room)?;
            return Ok(DrawOutcome::Waits);
        };
        for ask in asks {
            let times = if left.is_empty() { entry.sequence.draw(now_ms, ask, runs) } else { ask.times };
            if times > 0 {
                left.push(SequenceRequest { times, ..ask });
            }
        }
        self.enqueue_fetch(entry, hash, now_ms);
        if left.is_empty() {
            return Ok(DrawOutcome::All);
        }
        let may = entry.sequence.may_wait(now_ms, &self.policy(), left);
        // A draw that may not wait causes a fetch nevertheless.
        self.enqueue_fetch(entry, hash, now_ms);
        may.map(|()| DrawOutcome::Waits)
    }

    /// Waits for the asks that [`Sequences::try_draw`] has left over, until `deadline` at most. The draw joins the
    /// queue at this call, before the future is polled for the first time. A request for several sequences calls it for
    /// each, and then waits for one after the other. Dropping the future leaves the queue.
    ///
    /// # Errors
    ///
    /// The refusal for `left`.
    pub fn draw<'a>(
        &'a self,
        hash: u64,
        name: &'a str,
        left: Vec<SequenceRequest>,
        deadline: Instant,
        runs: &'a mut Vec<Run>,
    ) -> impl Future<Output = Result<(), SequenceRefusal>> + Send + use<'a> {
        let began = Instant::now();
        let joined = self.join(hash, name, left, runs).inspect_err(|_| self.counts.refused());
        async move {
            self.note_values(runs);
            let Some((receiver, place)) = joined? else { return Ok(()) };
            let result = place.result(receiver, began, deadline).await;
            runs.extend(result.inspect_err(|_| self.counts.refused())?);
            self.note_values(runs);
            Ok(())
        }
    }

    /// Joins the queue of a sequence. Returns `None` if all values are in memory by now.
    fn join<'a>(
        &'a self,
        hash: u64,
        name: &'a str,
        left: Vec<SequenceRequest>,
        runs: &mut Vec<Run>,
    ) -> Result<Option<(oneshot::Receiver<DrawResult>, QueuedDraw<'a>)>, SequenceRefusal> {
        let now_ms = self.now_ms();
        self.may_give(now_ms)?;
        let mut shard = self.table.shard(hash);
        if Table::find(&mut shard, hash, name).is_none() {
            self.table.insert(&mut shard, hash, name, now_ms).map_err(no_room)?;
        }
        let Some(entry) = Table::find(&mut shard, hash, name) else { return Err(SequenceRefusal::Closed) };
        let mut asks = Vec::with_capacity(left.len());
        for ask in left {
            let times = if asks.is_empty() { entry.sequence.draw(now_ms, ask, runs) } else { ask.times };
            if times > 0 {
                asks.push(SequenceRequest { times, ..ask });
            }
        }
        if asks.is_empty() {
            self.enqueue_fetch(entry, hash, now_ms);
            return Ok(None);
        }
        let may = entry.sequence.may_wait(now_ms, &self.policy(), &asks);
        if may.is_err() {
            self.enqueue_fetch(entry, hash, now_ms);
        }
        may?;
        let (sender, receiver) = oneshot::channel();
        let waiter = entry.sequence.join(asks, sender);
        self.counts.waited();
        self.enqueue_fetch(entry, hash, now_ms);
        Ok(Some((receiver, QueuedDraw { sequences: self, hash, name, waiter, is_over: false })))
    }

    /// Queues a sequence for the driver, if it needs a fetch.
    #[inline]
    fn enqueue_fetch(&self, entry: &mut SequenceEntry, hash: u64, now_ms: u64) {
        if entry.flags.is_queued || entry.flags.is_fetching {
            return;
        }
        let kind = if entry.flags.is_known { FetchKind::Known } else { FetchKind::New };
        if entry.sequence.wants_fetch(now_ms) {
            entry.flags.is_queued = true;
            self.fetch_queue.push(kind, hash);
        } else if let Some(at_ms) = entry.sequence.retry_at_ms() {
            entry.flags.is_queued = true;
            self.fetch_queue.push_later(at_ms, kind, hash);
        }
    }

    #[inline]
    fn may_give(&self, now_ms: u64) -> Result<(), SequenceRefusal> {
        if self.is_closed.load(Relaxed) {
            return Err(SequenceRefusal::Closed);
        }
        if self.confirmed.is_good(now_ms) { Ok(()) } else { Err(self.unconfirmed()) }
    }

    #[cold]
    fn unconfirmed(&self) -> SequenceRefusal {
        let reason = self.pools.iter().find_map(|pool| pool.down().or_else(|| pool.held()));
        let reason = reason.unwrap_or_else(|| {
            let shown = self.pools.first().map_or("", |pool| pool.store.shown());
            format!("{shown}: it has not answered yet").into()
        });
        SequenceRefusal::Unconfirmed { ride_out_s: self.settings().ride_out_s, reason }
    }

    /// Returns the last value that this server gave of a sequence in memory.
    pub fn last_given_now(&self, hash: u64, name: &str) -> Option<i64> {
        let mut shard = self.table.shard(hash);
        Table::find(&mut shard, hash, name).and_then(|entry| entry.sequence.last_given())
    }

    /// Adds the counter of a serial number's period, which [`Sequences::try_draw`] then finds by the text of its key.
    /// Its row is begun with the first reservation, if the store's clock is near enough.
    ///
    /// # Errors
    ///
    /// Memory holds no more sequences.
    pub fn open_period(&self, hash: u64, key: &str, counter_opening: CounterOpening) -> Result<(), SequenceRefusal> {
        let mut shard = self.table.shard(hash);
        let entry = self.period(&mut shard, hash, key, counter_opening)?;
        let begun = entry.take_begun();
        drop(shard);
        if let Some((from_unix_ms, begun)) = begun {
            self.begun.push(from_unix_ms, &begun);
        }
        Ok(())
    }

    /// Returns the number of keys of a generator with series, as its store last reported it; `None` before the first
    /// report of this life.
    pub fn keys_of(&self, generator: &str) -> Option<u64> {
        self.keys.of(generator)
    }

    /// Adds the counter of a period that is not in use yet, and fetches values of it, so that the first request does
    /// not wait.
    ///
    /// # Errors
    ///
    /// Memory holds no more sequences.
    pub(crate) fn prepare_period(
        &self,
        hash: u64,
        key: &str,
        counter_opening: CounterOpening,
    ) -> Result<(), SequenceRefusal> {
        let cache = counter_opening.spec.cache;
        let mut shard = self.table.shard(hash);
        let entry = self.period(&mut shard, hash, key, counter_opening)?;
        entry.sequence.fetch_ahead(cache);
        self.enqueue_fetch(entry, hash, self.now_ms());
        Ok(())
    }

    fn period<'a>(
        &self,
        shard: &'a mut Shard,
        hash: u64,
        key: &str,
        counter_opening: CounterOpening,
    ) -> Result<&'a mut SequenceEntry, SequenceRefusal> {
        let is_there = Table::find(shard, hash, key).is_some();
        if !is_there {
            self.table.insert(shard, hash, key, self.now_ms()).map_err(no_room)?;
        }
        let entry = Table::find(shard, hash, key).ok_or(SequenceRefusal::Closed)?;
        entry.rare().counter_opening = Some(counter_opening);
        Ok(entry)
    }
}

#[cold]
fn no_room(why: InsertError) -> SequenceRefusal {
    let what = match why {
        InsertError::Name => format!("no sequence can have this name: it has {SEQUENCE_NAME_RULE}"),
        InsertError::Entries => format!(
            "{} other sequences are in memory, and there is no room for more: unused ones leave after 10 minutes",
            thousands(ENTRIES_MAX as u64)
        ),
        InsertError::Unknown => format!(
            "{} names without a confirmed row are being looked up in the store: try again in a second",
            thousands(UNKNOWN_MAX as u64)
        ),
    };
    SequenceRefusal::BadRow(what.into())
}

/// A place in the queue of a sequence. Dropping it leaves the queue.
struct QueuedDraw<'a> {
    sequences: &'a Sequences,
    hash: u64,
    name: &'a str,
    waiter: WaiterId,
    is_over: bool,
}

impl QueuedDraw<'_> {
    /// Waits for the result of the draw, which `began` at that time, until `deadline` at most.
    async fn result(
        mut self,
        mut receiver: oneshot::Receiver<DrawResult>,
        began: Instant,
        deadline: Instant,
    ) -> DrawResult {
        let result = match timeout_at(deadline, &mut receiver).await {
            Ok(received) => received.unwrap_or(Err(SequenceRefusal::Closed)),
            Err(_) => match self.leave(began.elapsed()) {
                Some(refusal) => Err(refusal),
                // It was served at the same moment.
                None => receiver.try_recv().unwrap_or(Err(SequenceRefusal::Closed)),
            },
        };
        self.is_over = true;
        result
    }

    /// Leaves the queue, and returns the refusal for the draw. `None`: it was served before.
    fn leave(&mut self, waited: Duration) -> Option<SequenceRefusal> {
        self.is_over = true;
        let mut shard = self.sequences.table.shard(self.hash);
        let entry = Table::find(&mut shard, self.hash, self.name)?;
        entry.sequence.leave(self.waiter)?;
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let refusal = entry.sequence.after_wait(waited_ms);
        // The draws behind it may have enough values.
        let deliveries = self.sequences.serve(entry, self.sequences.now_ms());
        drop(shard);
        fetch::deliver(deliveries);
        Some(refusal)
    }
}

impl Drop for QueuedDraw<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // The refusal is not sent to a client.
            let _ = self.leave(Duration::ZERO);
        }
    }
}
