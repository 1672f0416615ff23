//! The thread of the sequences: it fetches segments, reads changes by other servers, reconnects stores, and removes
//! unused sequences from memory.
//!
//! It has a thread and a runtime of its own, so that no client delays it. A database that hangs delays only the
//! requests that wait for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use getid_core::server::beat::Member;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::pool::{Health, StorePool};
use super::table::{DrawResult, SHARDS};
use super::tokens::TokensRead;
use super::{SequenceNotes, SequenceSettings, Sequences};
use getid_store::sql::{Store, StoreError, TableKind};
use getid_system::clock::Clock;
use getid_system::{io_threads, threads};
use getid_text::name_hash::hash_of;

/// Interval at which a store is queried for changes, and for being reachable.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// Pause after a store was not reached: doubled after each further attempt, up to the second value.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Interval at which a server checks whether others have acknowledged its round.
const ROUND_EVERY: Duration = Duration::from_millis(200);

/// Time for which other servers hold a store before it is logged, and before requests fail at once.
pub(super) const HELD_FAILS_AFTER: Duration = Duration::from_secs(3);

/// Maximum number of changed rows in one answer.
const CHANGES_MAX: usize = 1000;

/// Time before values of a store expire at which other stores replace it, ms.
const EXPIRES_EARLY_MS: u64 = 1_000;

/// Error of a start of the sequences.
#[derive(Debug, thiserror::Error)]
#[error("the thread of the sequences cannot start: {0}")]
pub struct StartError(#[from] io::Error);

impl Sequences {
    /// Starts the sequences of these stores, with a thread that serves them until [`Sequences::stop`]. Does not wait
    /// for a store: an unreachable one is logged and reconnected automatically.
    ///
    /// # Errors
    ///
    /// The system provides no thread, or no descriptor for its runtime.
    pub fn start(
        stores: Vec<Box<dyn Store>>,
        settings: SequenceSettings,
        notes: SequenceNotes,
        clock: Box<dyn Clock>,
    ) -> Result<Arc<Sequences>, StartError> {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let run = move || {
            // The thread makes its runtime, because a runtime must not be dropped on a thread that runs another.
            let runtime = match io_threads::blocking_runtime() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let sequences = Sequences::on(runtime.handle().clone(), stores, settings, notes, clock);
            let _ = ready.send(Ok(Arc::clone(&sequences)));
            runtime.block_on(sequences.run());
            // A statement that hangs must not keep the process alive.
            runtime.shutdown_background();
        };
        threads::spawn("getid-sequences", run)?;
        Ok(is_ready.recv().map_err(io::Error::other)??)
    }

    /// Makes the sequences on an existing runtime. The caller must run [`Sequences::run`] on it.
    pub fn on(
        handle: Handle,
        stores: Vec<Box<dyn Store>>,
        settings: SequenceSettings,
        notes: SequenceNotes,
        clock: Box<dyn Clock>,
    ) -> Arc<Sequences> {
        let stores = stores.into_iter().map(Arc::from).collect();
        Arc::new(Sequences::new(stores, settings, notes, clock, handle))
    }

    /// Serves the sequences until [`Sequences::stop`] is done.
    pub async fn run(self: &Arc<Self>) {
        let mut tasks = JoinSet::new();
        // First one connection of each store, then the second: they take turns.
        for nth in 0..2 {
            for pool in self.pools.iter().filter(|pool| nth < pool.connections()) {
                tasks.spawn(Arc::clone(self).serve_fetch_queue(Arc::clone(pool)));
            }
        }
        for pool in &self.pools {
            tasks.spawn(Arc::clone(self).monitor(Arc::clone(pool)));
            tasks.spawn(Arc::clone(self).serve_creations(Arc::clone(pool)));
        }
        if let [only] = &self.pools[..] {
            tasks.spawn(Arc::clone(self).serve_numbers(Arc::clone(only)));
        }
        tasks.spawn(Arc::clone(self).advance_fetch_queue());
        tasks.spawn(Arc::clone(self).sweep_for_ever());
        if let [pool] = &self.pools[..]
            && pool.store.table() == TableKind::Native
        {
            tasks.spawn(Arc::clone(self).serve_lookups(Arc::clone(pool)));
            tasks.spawn(Arc::clone(self).serve_claims(Arc::clone(pool)));
            tasks.spawn(Arc::clone(self).remove_requests_for_ever(Arc::clone(pool)));
        }
        tokio::select! {
            () = self.ended.notified() => {}
            // No task ends without a bug.
            _ = tasks.join_next() => {
                self.is_closed.store(true, Relaxed);
                tracing::error!("the thread of the sequences panicked, and no more values are given; please report the \
                 lines above");
                self.ended.notified().await;
            }
        }
    }

    /// Serves the fetch queue over one connection of a store.
    async fn serve_fetch_queue(self: Arc<Self>, pool: Arc<StorePool>) {
        let mut health = self.health.subscribe();
        loop {
            health.mark_unchanged();
            if self.is_closed.load(Relaxed) {
                // The running fetches have ended, and no new one begins.
                return std::future::pending().await;
            }
            if pool.is_up() && self.confirmed.is_store_good(pool.index, self.now_ms()) {
                if !self.fetch_queue.has_due() {
                    tokio::select! {
                        () = self.fetch_queue.ready.notified() => {}
                        _ = health.changed() => {}
                    }
                    continue;
                }
                let Ok(slot) = pool.slot().await else { return std::future::pending().await };
                if pool.is_up() {
                    self.fetch(&pool, &slot).await;
                }
                continue;
            }
            if self.fetch_queue.has_due() {
                // Another store may serve it.
                self.fetch_queue.ready.notify_one();
            }
            if let Some(reason) = self.reports_outage(&pool) {
                tokio::select! {
                    () = self.fetch_queue.ready.notified() => self.fail_queued_fetches(&reason),
                    _ = health.changed() => {}
                    () = sleep(POLL_EVERY) => {}
                }
            } else if pool.is_up() {
                // The last query for changes was not in time. The next one may be done soon.
                sleep(BACK_OFF.0).await;
            } else {
                let _ = health.changed().await;
            }
        }
    }

    /// Returns this store's error, if all stores are down, or held by servers for long, and it is the first of them.
    fn reports_outage(&self, pool: &StorePool) -> Option<Arc<str>> {
        let reason = |pool: &Arc<StorePool>| match pool.health() {
            Health::Down { reason, .. } => Some((pool.index, reason)),
            Health::Up { .. } if pool.held_for() >= HELD_FAILS_AFTER => pool.held().map(|reason| (pool.index, reason)),
            Health::Opening | Health::Up { .. } => None,
        };
        if self.pools.iter().any(|pool| pool.is_up() && reason(pool).is_none()) {
            return None;
        }
        let (first, reason) = self.pools.iter().find_map(reason)?;
        (first == pool.index).then_some(reason)
    }

    /// Moves fetches from the later queue to the current one when they are due.
    async fn advance_fetch_queue(self: Arc<Self>) {
        loop {
            let now_ms = self.now_ms();
            let next_ms = self.fetch_queue.advance(now_ms);
            let wait = async {
                match next_ms {
                    Some(at_ms) => sleep(Duration::from_millis(at_ms.saturating_sub(now_ms).max(1))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = wait => {}
                () = self.fetch_queue.sooner.notified() => {}
            }
        }
    }

    /// Keeps one store connected, and the state of its rows up to date.
    async fn monitor(self: Arc<Self>, pool: Arc<StorePool>) {
        let mut monitor = StoreMonitor::new();
        loop {
            let result = self.probe(&pool, &mut monitor).await;
            let wait = monitor.note(&pool, &result);
            if result.is_ok() {
                monitor.tokens_at = self.read_tokens(&pool, monitor.tokens_at, &mut monitor.tokens).await;
            }
            if result.is_err() {
                sleep(wait).await;
                continue;
            }
            tokio::select! {
                () = sleep(wait) => {}
                // A statement has failed.
                () = pool.probe.notified() => {}
            }
        }
    }

    /// Probes a store with a harmless query: for changes, if other servers may make them.
    async fn probe(&self, pool: &Arc<StorePool>, monitor: &mut StoreMonitor) -> Result<(), StoreError> {
        let slot = pool.slot().await?;
        pool.ensure_connected(&slot).await?;
        monitor.check_uuid(pool)?;
        drop(slot);
        self.note_begun_periods(pool).await?;
        if !pool.store.is_shared() {
            return Ok(());
        }
        if !self.beat_if_due(pool, monitor).await? {
            // Values in memory are given until they expire.
            self.confirmed.leave(pool.index);
            return Ok(());
        }
        let slot = pool.slot().await?;
        loop {
            let asked_ms = self.now_ms();
            let seen = monitor.seen;
            let changes = pool
                .run(&slot, move |mut connection| {
                    Box::pin(async move {
                        let changes = connection.changes(seen).await;
                        (connection, changes)
                    })
                })
                .await?;
            if seen.is_some_and(|seen| changes.upto < seen) {
                tracing::error!(
                    "sequence store {} went back: it has fewer changes than before. Its reservations for this server \
                     are discarded",
                    pool.store.shown()
                );
                self.lose_store(pool.index);
            }
            monitor.seen = Some(changes.upto);
            for (key, generation) in &changes.rows {
                if self.set_generation(pool.index, key.as_str(), *generation) && self.pools.len() == 1 {
                    // A sequence that was dropped and created again begins at any value. The notes detect one that was
                    // lost.
                    self.let_go(key);
                }
            }
            // Nothing is confirmed while more changes follow.
            if changes.rows.len() < CHANGES_MAX {
                self.confirmed.note(pool.index, asked_ms);
                return Ok(());
            }
        }
    }

    /// Beats, unless this server may reserve and its next beat is not due. Returns true if it may reserve.
    async fn beat_if_due(&self, pool: &Arc<StorePool>, monitor: &mut StoreMonitor) -> Result<bool, StoreError> {
        if pool.held().is_none() && monitor.beat_at > Instant::now() {
            return Ok(true);
        }
        let is_cleared = self.beat(pool).await?;
        if pool.member().as_mut().is_some_and(Member::take_loss) {
            // Which rows were changed is no longer known.
            pool.drop_idle();
            self.lose_store(pool.index);
            monitor.seen = None;
        }
        monitor.beat_at = Instant::now() + Duration::from_secs(Sequences::beat_every_s(pool));
        monitor.note_held(pool, is_cleared);
        Ok(is_cleared)
    }

    /// Sets a row's generation, which drops earlier reservations. Returns true if it is new.
    pub(super) fn set_generation(&self, store: u8, key: &str, generation: u64) -> bool {
        let hash = hash_of(key.as_bytes());
        let now_ms = self.now_ms();
        let mut shard = self.table.shard(hash);
        let Some(entry) = super::Table::find(&mut shard, hash, key) else { return false };
        let is_news = entry.sequence.set_generation(store, generation);
        if is_news {
            entry.forget_lanes();
            self.enqueue_fetch(entry, hash, now_ms);
        }
        is_news
    }

    /// Drops the values of stores that have not answered for too long, while another store serves. It does so shortly
    /// before they expire, so that no request is refused for it.
    pub(super) fn throw_away_expired(&self) {
        if self.pools.len() == 1 {
            return;
        }
        let now_ms = self.now_ms();
        let soon_ms = now_ms + EXPIRES_EARLY_MS;
        let is_good = |pool: &StorePool| pool.is_up() && self.confirmed.is_store_good(pool.index, now_ms);
        for pool in self.pools.iter().filter(|pool| self.confirmed.is_expired(pool.index, soon_ms)) {
            if self.pools.iter().any(|other| other.index != pool.index && is_good(other)) {
                // First its new answers are not held, then its values are dropped.
                self.confirmed.leave(pool.index);
                self.forget_store(pool.index);
                self.confirmed.exclude(pool.index);
            }
        }
    }

    /// Drops the values of a store.
    fn forget_store(&self, store: u8) {
        self.change_each(|sequence| sequence.forget_store(store));
    }

    /// Drops the values of a store that lost writes, and the state of its rows.
    fn lose_store(&self, store: u8) {
        self.change_each(|sequence| sequence.lose_store(store));
    }

    fn change_each(&self, change: impl Fn(&mut getid_core::server::Sequence<oneshot::Sender<DrawResult>>)) {
        for index in 0..SHARDS {
            let mut shard = self.table.nth_shard(index);
            let now_ms = self.now_ms();
            for entry in shard.iter_mut() {
                change(&mut entry.sequence);
                let hash = entry.hash();
                self.enqueue_fetch(entry, hash, now_ms);
            }
        }
    }
}

/// State of a store's monitor task.
struct StoreMonitor {
    /// Position up to which changes were read.
    seen: Option<u64>,
    uuid: Option<String>,
    pause: Duration,
    /// Time since which it is down, once logged.
    down_since: Option<Instant>,
    was_up: bool,
    /// Time of the next beat.
    beat_at: Instant,
    /// Time since which other servers hold the store, and whether that is logged.
    held_since: Option<(Instant, bool)>,
    /// Time of the next read of tokens, if any are used, and the last result.
    tokens_at: Instant,
    tokens: TokensRead,
}

impl StoreMonitor {
    fn new() -> StoreMonitor {
        let (now, tokens) = (Instant::now(), TokensRead::default());
        let (seen, uuid, down_since, pause) = (None, None, None, BACK_OFF.0);
        StoreMonitor {
            seen,
            uuid,
            pause,
            down_since,
            was_up: false,
            beat_at: now,
            held_since: None,
            tokens_at: now,
            tokens,
        }
    }

    /// Fails if another database answers at the address: it has not reserved the values in memory.
    fn check_uuid(&mut self, pool: &StorePool) -> Result<(), StoreError> {
        let Some(about) = pool.about() else { return Ok(()) };
        match &self.uuid {
            Some(uuid) if *uuid != about.uuid => {
                let shown = pool.store.shown();
                Err(StoreError::Refused(format!(
                    "{shown}: a different database answers now. Make the first one answer there, or restart to \
                     use this one"
                )))
            }
            Some(_) => Ok(()),
            // A file that does not exist yet has no UUID.
            None => {
                self.uuid = Some(about.uuid.clone()).filter(|uuid| !uuid.is_empty());
                Ok(())
            }
        }
    }

    /// Logs once that a store goes down or comes up. Returns the pause before the next probe.
    fn note(&mut self, pool: &StorePool, result: &Result<(), StoreError>) -> Duration {
        match result {
            Ok(()) => {
                pool.set_up();
                self.log_up(pool);
                self.pause = BACK_OFF.0;
                if self.held_since.is_some() { ROUND_EVERY } else { POLL_EVERY }
            }
            Err(error) => {
                let reason = error.to_string();
                pool.set_down(&reason);
                if self.down_since.is_none() {
                    self.down_since = Some(Instant::now());
                    tracing::error!("sequence store {reason}. It is tried again until it answers");
                }
                let pause = self.pause;
                self.pause = (pause * 2).min(BACK_OFF.1);
                pause
            }
        }
    }

    /// Logs that other servers hold the store, and that they no longer do.
    fn note_held(&mut self, pool: &StorePool, is_cleared: bool) {
        if is_cleared {
            if let Some((since, true)) = self.held_since.take() {
                let (shown, s) = (pool.store.shown(), since.elapsed().as_secs_f64());
                tracing::warn!("sequence store {shown}: values are reserved again, after {s:.1} s");
            }
            return;
        }
        let (since, is_logged) = self.held_since.get_or_insert_with(|| (Instant::now(), false));
        if !*is_logged
            && since.elapsed() >= HELD_FAILS_AFTER
            && let Some(reason) = pool.held()
        {
            *is_logged = true;
            tracing::error!("sequence store {reason}");
        }
    }

    fn log_up(&mut self, pool: &StorePool) {
        let shown = pool.store.shown();
        let about = pool.about();
        if let Some(since) = self.down_since.take() {
            let s = since.elapsed().as_secs_f64();
            tracing::warn!("sequence store {shown} answers again, after {s:.1} s");
        } else if self.was_up {
            return;
        }
        self.was_up = true;
        if let Some(about) = about {
            tracing::info!("sequence store {shown}: {}", about.product);
            for warning in &about.warnings {
                tracing::warn!("sequence store {shown}: {warning}");
            }
        }
    }
}
