//! What runs beside the requests: it reserves what sequences want, finds out what other servers have changed, connects
//! again, and lets what nobody asks for leave memory.
//!
//! It has a thread and a runtime of its own: nothing that clients do holds it up, and a database that hangs holds up
//! nobody but those who wait for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use getid_core::beat::Member;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::pool::{Health, Pool};
use super::table::{SHARDS, Told};
use super::tokens::Found;
use super::{Notes, SequenceSettings, Sequences};
use crate::sql::{Store, StoreError};
use crate::system::clock::Clock;
use crate::system::{io_threads, threads};
use crate::text::name_hash::hash_of;

/// How often a store is asked what has changed, and whether it is there.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// The pause after a store was not reached; twice as long after each further try, up to the second.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How often a server looks whether others have acknowledged its round.
const ROUND_EVERY: Duration = Duration::from_millis(200);

/// A store is held by servers for so long before it is logged, and before requests fail at once.
const HELD_FAILS_AFTER: Duration = Duration::from_secs(3);

/// Rows of changes in one answer at most.
const CHANGES_MAX: usize = 1000;

/// So long before values of a store may not be given any more, others take its place, ms.
const EXPIRES_EARLY_MS: u64 = 1_000;

/// Why there are no sequences.
#[derive(Debug, thiserror::Error)]
#[error("sequences get no thread: {0}")]
pub struct StartError(#[from] io::Error);

impl Sequences {
    /// The sequences of these stores, with a thread that serves them until [`Sequences::stop`]. Nothing is waited for:
    /// a store that is down is told of by the log, and comes back by itself.
    ///
    /// # Errors
    ///
    /// The system gives no thread, or no descriptor for its runtime.
    pub fn start(
        stores: Vec<Box<dyn Store>>,
        settings: SequenceSettings,
        notes: Notes,
        clock: Box<dyn Clock>,
    ) -> Result<Arc<Sequences>, StartError> {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let run = move || {
            // Made here, as it may not be dropped on a thread that has one of its own.
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

    /// The same on a runtime that is there; [`Sequences::run`] is to be run on it.
    pub fn on(
        handle: Handle,
        stores: Vec<Box<dyn Store>>,
        settings: SequenceSettings,
        notes: Notes,
        clock: Box<dyn Clock>,
    ) -> Arc<Sequences> {
        let stores = stores.into_iter().map(Arc::from).collect();
        Arc::new(Sequences::new(stores, settings, notes, clock, handle))
    }

    /// Serves the sequences until [`Sequences::stop`] is done.
    pub async fn run(self: &Arc<Self>) {
        let mut tasks = JoinSet::new();
        // One connection of each store after the other: they take turns.
        for nth in 0..2 {
            for pool in self.pools.iter().filter(|pool| nth < pool.connections()) {
                tasks.spawn(Arc::clone(self).serve_wishes(Arc::clone(pool)));
            }
        }
        for pool in &self.pools {
            tasks.spawn(Arc::clone(self).look_after(Arc::clone(pool)));
        }
        tasks.spawn(Arc::clone(self).advance_wishes());
        tasks.spawn(Arc::clone(self).sweep_for_ever());
        tokio::select! {
            () = self.ended.notified() => {}
            // Each of them goes on for ever.
            _ = tasks.join_next() => {
                self.is_closed.store(true, Relaxed);
                tracing::error!("sequences ran into a bug and give nothing any more; please report the lines above");
                self.ended.notified().await;
            }
        }
    }

    /// Reserves by one connection of a store what is wanted.
    async fn serve_wishes(self: Arc<Self>, pool: Arc<Pool>) {
        let mut health = self.health.subscribe();
        loop {
            health.mark_unchanged();
            if self.is_closed.load(Relaxed) {
                // What is under way is over, and nothing begins any more.
                return std::future::pending().await;
            }
            if pool.is_up() && self.confirmed.is_store_good(pool.index, self.now_ms()) {
                if !self.wishes.is_any() {
                    tokio::select! {
                        () = self.wishes.ready.notified() => {}
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
            if self.wishes.is_any() {
                // It may be had of another store.
                self.wishes.ready.notify_one();
            }
            if let Some(said) = self.speaks_for_all(&pool) {
                tokio::select! {
                    () = self.wishes.ready.notified() => self.fail_wishes(&said),
                    _ = health.changed() => {}
                    () = sleep(POLL_EVERY) => {}
                }
            } else if pool.is_up() {
                // It was not asked in time what has changed. It may have been by then.
                sleep(BACK_OFF.0).await;
            } else {
                let _ = health.changed().await;
            }
        }
    }

    /// What this store has said, if all are down, or held by servers for long, and it is the first of them.
    fn speaks_for_all(&self, pool: &Pool) -> Option<Arc<str>> {
        let said = |pool: &Arc<Pool>| match pool.health() {
            Health::Down { said, .. } => Some((pool.index, said)),
            Health::Up { .. } if pool.held_for() >= HELD_FAILS_AFTER => pool.held().map(|said| (pool.index, said)),
            Health::Opening | Health::Up { .. } => None,
        };
        if self.pools.iter().any(|pool| pool.is_up() && said(pool).is_none()) {
            return None;
        }
        let (first, said) = self.pools.iter().find_map(said)?;
        (first == pool.index).then_some(said)
    }

    /// Moves what is wanted later to what is wanted now, in time.
    async fn advance_wishes(self: Arc<Self>) {
        loop {
            let now_ms = self.now_ms();
            let next_ms = self.wishes.advance(now_ms);
            let wait = async {
                match next_ms {
                    Some(at_ms) => sleep(Duration::from_millis(at_ms.saturating_sub(now_ms).max(1))).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = wait => {}
                () = self.wishes.sooner.notified() => {}
            }
        }
    }

    /// Keeps one store connected, and what is known of its rows up to date.
    async fn look_after(self: Arc<Self>, pool: Arc<Pool>) {
        let mut care = Care::new();
        loop {
            let result = self.probe(&pool, &mut care).await;
            let wait = care.note(&pool, &result);
            if result.is_ok() {
                care.tokens_at = self.read_tokens(&pool, care.tokens_at, &mut care.tokens).await;
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

    /// Asks a store something harmless: what has changed, where others may change it.
    async fn probe(&self, pool: &Arc<Pool>, care: &mut Care) -> Result<(), StoreError> {
        let slot = pool.slot().await?;
        pool.ensure_connected(&slot).await?;
        care.check_uuid(pool)?;
        drop(slot);
        self.note_begun_periods(pool).await?;
        if !pool.store.is_shared() {
            return Ok(());
        }
        if !self.beat_if_due(pool, care).await? {
            // What is held is given until its time is over.
            self.confirmed.leave(pool.index);
            return Ok(());
        }
        let slot = pool.slot().await?;
        loop {
            let asked_ms = self.now_ms();
            let seen = care.seen;
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
                    "sequence store {} went back: it has fewer changes than before. What it had reserved for this \
                     server is thrown away",
                    pool.store.shown()
                );
                self.lose_store(pool.index);
            }
            care.seen = Some(changes.upto);
            for (key, generation) in &changes.rows {
                if self.set_generation(pool.index, key.as_str(), *generation) && self.pools.len() == 1 {
                    // One that was dropped and made anew begins where it likes. The notes tell one that was lost.
                    self.let_go(key);
                }
            }
            // With more to come nothing is confirmed yet.
            if changes.rows.len() < CHANGES_MAX {
                self.confirmed.note(pool.index, asked_ms);
                return Ok(());
            }
        }
    }

    /// Beats, unless this server may reserve and its next beat has time. Whether it may reserve.
    async fn beat_if_due(&self, pool: &Arc<Pool>, care: &mut Care) -> Result<bool, StoreError> {
        if pool.held().is_none() && care.beat_at > Instant::now() {
            return Ok(true);
        }
        let is_cleared = self.beat(pool).await?;
        if pool.member().as_mut().is_some_and(Member::take_loss) {
            // What rows were changed is not known any more.
            pool.drop_idle();
            self.lose_store(pool.index);
            care.seen = None;
        }
        care.beat_at = Instant::now() + Duration::from_secs(Sequences::beat_every_s(pool));
        care.note_held(pool, is_cleared);
        Ok(is_cleared)
    }

    /// A row has this generation: what was reserved before is thrown away. Whether it is news.
    pub(super) fn set_generation(&self, store: u8, key: &str, generation: u64) -> bool {
        let hash = hash_of(key.as_bytes());
        let now_ms = self.now_ms();
        let mut shard = self.table.shard(hash);
        let Some(entry) = super::Table::find(&mut shard, hash, key) else { return false };
        let is_news = entry.sequence.set_generation(store, generation);
        if is_news {
            if let Some(rare) = &mut entry.rare {
                rare.rows = Default::default();
                rare.is_compared = false;
                rare.alterations = rare.alterations.wrapping_add(1);
            }
            self.wish(entry, hash, now_ms);
        }
        is_news
    }

    /// Of a store that was not asked for so long, nothing is given any more; the others go on. Done a little before
    /// its time is over, so that nobody is refused for it.
    pub(super) fn throw_away_expired(&self) {
        if self.pools.len() == 1 {
            return;
        }
        let now_ms = self.now_ms();
        let soon_ms = now_ms + EXPIRES_EARLY_MS;
        let is_good = |pool: &Pool| pool.is_up() && self.confirmed.is_store_good(pool.index, now_ms);
        for pool in self.pools.iter().filter(|pool| self.confirmed.is_expired(pool.index, soon_ms)) {
            if self.pools.iter().any(|other| other.index != pool.index && is_good(other)) {
                // What it answers from now on is not taken; then nothing of it is held.
                self.confirmed.leave(pool.index);
                self.forget_store(pool.index);
                self.confirmed.exclude(pool.index);
            }
        }
    }

    /// Throws away what is held of a store.
    fn forget_store(&self, store: u8) {
        self.of_each(|sequence| sequence.forget_store(store));
    }

    /// Throws away what is held of a store that lost writes, and what is known of its rows.
    fn lose_store(&self, store: u8) {
        self.of_each(|sequence| sequence.lose_store(store));
    }

    fn of_each(&self, change: impl Fn(&mut getid_core::Sequence<oneshot::Sender<Told>>)) {
        for index in 0..SHARDS {
            let mut shard = self.table.nth_shard(index);
            let now_ms = self.now_ms();
            for entry in shard.iter_mut() {
                change(&mut entry.sequence);
                let hash = entry.hash();
                self.wish(entry, hash, now_ms);
            }
        }
    }
}

/// What the one who looks after a store remembers.
struct Care {
    /// Up to where changes were read.
    seen: Option<u64>,
    uuid: Option<String>,
    pause: Duration,
    /// Since when it is down, and was said to be.
    down_since: Option<Instant>,
    was_up: bool,
    /// When the next beat is due.
    beat_at: Instant,
    /// Since when the store is held by servers, and whether that is logged.
    held_since: Option<(Instant, bool)>,
    /// When tokens are read, if anybody wants them, and what was found the last time.
    tokens_at: Instant,
    tokens: Found,
}

impl Care {
    fn new() -> Care {
        let (now, tokens) = (Instant::now(), Found::default());
        let (seen, uuid, down_since, pause) = (None, None, None, BACK_OFF.0);
        Care { seen, uuid, pause, down_since, was_up: false, beat_at: now, held_since: None, tokens_at: now, tokens }
    }

    /// Another database at the same address has not reserved what is held.
    fn check_uuid(&mut self, pool: &Pool) -> Result<(), StoreError> {
        let Some(about) = pool.about() else { return Ok(()) };
        match &self.uuid {
            Some(uuid) if *uuid != about.uuid => {
                let shown = pool.store.shown();
                Err(StoreError::Refused(format!(
                    "{shown}: another database answers now than before. Make the first one answer there, or restart to \
                     use this one"
                )))
            }
            Some(_) => Ok(()),
            // A file that is yet to be made has none.
            None => {
                self.uuid = Some(about.uuid.clone()).filter(|uuid| !uuid.is_empty());
                Ok(())
            }
        }
    }

    /// Says that a store goes or comes, once each; when to look again.
    fn note(&mut self, pool: &Pool, result: &Result<(), StoreError>) -> Duration {
        match result {
            Ok(()) => {
                pool.set_up();
                self.tell_of_up(pool);
                self.pause = BACK_OFF.0;
                if self.held_since.is_some() { ROUND_EVERY } else { POLL_EVERY }
            }
            Err(error) => {
                let said = error.to_string();
                pool.set_down(&said);
                if self.down_since.is_none() {
                    self.down_since = Some(Instant::now());
                    tracing::error!("sequence store {said}. It is tried again until it answers");
                }
                let pause = self.pause;
                self.pause = (pause * 2).min(BACK_OFF.1);
                pause
            }
        }
    }

    /// Logs that servers hold the store, and that they do not any more.
    fn note_held(&mut self, pool: &Pool, is_cleared: bool) {
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
            && let Some(said) = pool.held()
        {
            *is_logged = true;
            tracing::error!("sequence store {said}");
        }
    }

    fn tell_of_up(&mut self, pool: &Pool) {
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
