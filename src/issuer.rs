//! The one owner of the generator in a process, and the keeper that moves its watermark ahead.
//!
//! Asking for IDs is one linearizable step of tens of nanoseconds: a short lock around a pure struct, and one clock
//! reading inside it. A channel to an actor and back would cost more than everything else a request does. Only who
//! would pass the watermark or the borrow limit awaits, in order of arrival.
//!
//! All decisions are [`Mint`]'s; this file gives it the time, carries its wishes to the disk, and puts those who must
//! wait to sleep. Invariant: while anybody waits, nobody who came later is served.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use crate::clock::{Clock, SystemClock};
use crate::id::checks::{Checks, Sound};
use crate::id::mint::SAVE_SLACK_MS;
use crate::id::{Blocked, ClockEvent, Layout, Limits, Mint, Refusal, Reservation, SavePoint, Severity, Status};
use crate::watermark::{Identity, Record, SaveError, WatermarkStore};

/// How long a request waits for a save that hangs before it is refused (DESIGN: 1 s).
const SAVE_PATIENCE: Duration = Duration::from_secs(1);

/// Pause after a save that failed, before the next try: short enough that a full disk that was cleaned is noticed at
/// once, long enough that a dead one is not hammered.
const SAVE_RETRY: Duration = Duration::from_millis(250);

/// How long a start without a record waits before it reads the clock, a little more than [`SAVE_SLACK_MS`].
///
/// Without a record the position is R + B, past anything a run that is over gave out. But when a state folder is deleted
/// and made anew under a running server, that one finds out at its next save only, and until then may give IDs as far as
/// its last watermark reaches: R + B + 200 ms, R being that of the save. After this pause, R + B is past that too.
const LOST_RUN_PAUSE: Duration = Duration::from_millis(SAVE_SLACK_MS + 50);

/// Borrowing is reported in one warning a second at most.
const BORROW_REPORT_EVERY: Duration = Duration::from_secs(1);

/// Gives IDs to all connections of a process. Cheap to share by [`Arc`].
///
/// `K` is for tests of the tests; see [`crate::id::checks`].
pub struct Issuer<C: Clock = SystemClock, K: Checks = Sound> {
    clock: C,
    identity: Identity,
    mint: Mutex<Mint<K>>,
    /// Who waits is served in order: tokio's mutex is fair.
    queue: tokio::sync::Mutex<()>,
    /// How many stand in the queue, its head included.
    waiting: AtomicUsize,
    /// Told whenever the watermark, the clock or the state of the disk changed.
    moved: Notify,
    /// Told when a draw found the watermark near.
    keeper: Notify,
    /// The zero of the times below. Waits are measured by the runtime's clock, as its timers are: a machine that was
    /// suspended has not waited for its disk.
    born: Instant,
    /// When the save in flight began, ns since `born`; 0: none.
    saving_since_ns: AtomicU64,
    stats: Stats,
}

/// What the issuer counts beside the [`Mint`]'s own figures.
#[derive(Debug, Default)]
struct Stats {
    waits: AtomicU64,
    waited_ns: AtomicU64,
    refusals: AtomicU64,
    saves: AtomicU64,
    save_failures: AtomicU64,
    last_save_unix_ms: AtomicU64,
    last_save_us: AtomicU64,
    /// How long the longest save took since somebody asked, failed ones included; 0: there was none.
    longest_save_us: AtomicU64,
    /// How the last save went, as a [`SaveOutcome`].
    last_save: AtomicU8,
}

/// How a save went: for INFO, and to log a change once.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum SaveOutcome {
    Saved,
    Failed,
    ClaimLost,
    ClaimRetaken,
}

impl SaveOutcome {
    fn of(result: &Result<(), SaveError>) -> SaveOutcome {
        match result {
            Ok(()) => SaveOutcome::Saved,
            Err(SaveError::Io { .. }) => SaveOutcome::Failed,
            Err(SaveError::ClaimLost { .. }) => SaveOutcome::ClaimLost,
            Err(SaveError::ClaimRetaken { .. }) => SaveOutcome::ClaimRetaken,
        }
    }
}

/// Everything INFO says about the generator.
#[derive(Clone, Debug)]
pub struct IssuerStatus {
    /// The mint's own account.
    pub mint: Status,
    /// Draws that are waiting now.
    pub waiting: usize,
    /// Draws that had to wait.
    pub waits: u64,
    /// Milliseconds they waited, summed.
    pub waited_ms: u64,
    /// Draws that were refused.
    pub refusals: u64,
    /// Saves of the watermark that succeeded.
    pub saves: u64,
    /// Saves that failed.
    pub save_failures: u64,
    /// When the last save succeeded, Unix ms; 0: never.
    pub last_save_unix_ms: u64,
    /// How long it took, in microseconds.
    pub last_save_us: u64,
    /// Whether the last save succeeded.
    pub last_save_ok: bool,
    /// How long the save in flight has been under way, in ms; 0: none.
    pub saving_ms: u64,
}

impl<C: Clock> Issuer<C> {
    /// Starts at what the store had `found`, and makes the first write. Without a record it takes 250 ms longer: whoever
    /// had the state folder before must not be giving IDs any more.
    ///
    /// # Errors
    ///
    /// The first write must succeed: a server that cannot keep its promise does not start.
    pub async fn start<S: WatermarkStore>(
        clock: C,
        identity: Identity,
        limits: Limits,
        found: Option<SavePoint>,
        store: S,
    ) -> Result<(Arc<Issuer<C>>, Keeper<C, S>), SaveError> {
        Issuer::start_with_checks(clock, identity, limits, found, store).await
    }
}

impl<C: Clock, K: Checks> Issuer<C, K> {
    /// [`Issuer::start`], for tests that take a check out.
    ///
    /// # Errors
    ///
    /// As [`Issuer::start`].
    #[doc(hidden)]
    pub async fn start_with_checks<S: WatermarkStore>(
        clock: C,
        identity: Identity,
        limits: Limits,
        found: Option<SavePoint>,
        mut store: S,
    ) -> Result<(Arc<Issuer<C, K>>, Keeper<C, S, K>), SaveError> {
        if found.is_none() {
            tokio::time::sleep(LOST_RUN_PAUSE).await;
        }
        let reading = clock.reading();
        let mint = Mint::with_checks(identity.layout, limits, found, reading);
        let issuer = Arc::new(Issuer {
            clock,
            identity,
            mint: Mutex::new(mint),
            queue: tokio::sync::Mutex::new(()),
            waiting: AtomicUsize::new(0),
            moved: Notify::new(),
            keeper: Notify::new(),
            born: Instant::now(),
            saving_since_ns: AtomicU64::new(0),
            stats: Stats::default(),
        });
        let wanted = issuer.lock().wanted_save(reading.boot_ns);
        if let Some(point) = wanted {
            issuer.save(&mut store, point).await?;
        }
        let sample_every = Duration::from_millis(issuer.lock().keeper_interval_ms());
        let keeper = Keeper { issuer: Arc::clone(&issuer), store, sample_every, reported: None };
        Ok((issuer, keeper))
    }

    /// Draws up to `n` IDs in one step, without waiting. Fewer than `n`, or none, when a bound is near or others wait.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]: no IDs now, and its text is the error reply.
    #[inline]
    pub fn try_draw(&self, n: u32) -> Result<Option<Reservation>, Refusal> {
        if self.waiting.load(Relaxed) > 0 {
            return Ok(None);
        }
        match self.draw_now(n, Mint::<K>::draw) {
            Ok(reservation) => Ok(Some(reservation)),
            Err(Blocked::Watermark | Blocked::Borrow { .. }) => Ok(None),
            Err(Blocked::Refused(refusal)) => {
                self.stats.refusals.fetch_add(1, Relaxed);
                Err(refusal)
            }
        }
    }

    /// Draws exactly `n` IDs, waiting in order where needed, and appends their reservations to `drawn`. What `drawn` holds
    /// already is the beginning of the same draw.
    ///
    /// Dropping the future gives the place in the queue back; IDs already drawn are lost, which is no harm.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; what `drawn` holds then is to be thrown away.
    pub async fn draw(&self, n: u32, drawn: &mut Vec<Reservation>) -> Result<(), Refusal> {
        if n == 0 {
            return Ok(());
        }
        let mut missing = n;
        if drawn.is_empty()
            && let Some(reservation) = self.try_draw(n)?
        {
            drawn.push(reservation);
            missing -= reservation.len;
        }
        if missing == 0 { Ok(()) } else { self.draw_waiting(missing, drawn).await }
    }

    async fn draw_waiting(&self, mut missing: u32, drawn: &mut Vec<Reservation>) -> Result<(), Refusal> {
        let place = Place::take(self);
        let _head = self.queue.lock().await;
        let mut blocked_since = None;
        while missing > 0 {
            // Registered before the draw, so that a change between the draw and the sleep is not slept through.
            let mut moved = pin!(self.moved.notified());
            moved.as_mut().enable();
            // The rest of a draw waits at the borrow limit under either policy, or no large one could ever be served.
            let draw = if drawn.is_empty() { Mint::<K>::draw } else { Mint::<K>::draw_rest };
            match self.draw_now(missing, draw) {
                Ok(reservation) => {
                    drawn.push(reservation);
                    missing -= reservation.len;
                    blocked_since = None;
                }
                Err(Blocked::Refused(refusal)) => {
                    self.stats.refusals.fetch_add(1, Relaxed);
                    return Err(refusal);
                }
                Err(Blocked::Borrow { until_boot_ns }) => {
                    let wait = Duration::from_nanos(until_boot_ns.saturating_sub(self.clock.boot_ns()));
                    // At least a timer's step: a sleep of 0 would spin.
                    let _ = tokio::time::timeout(wait.max(Duration::from_millis(1)), moved).await;
                }
                Err(Blocked::Watermark) => {
                    self.keeper.notify_one();
                    let blocked = blocked_since.get_or_insert_with(Instant::now).elapsed();
                    // Who stood behind others while the save hung has waited for it too: a queue of a thousand is
                    // refused together, not one a second.
                    let waited = place.since.elapsed().min(self.saving_for().max(blocked));
                    let patience = SAVE_PATIENCE.saturating_sub(waited);
                    if patience.is_zero() {
                        self.stats.refusals.fetch_add(1, Relaxed);
                        return Err(Refusal::SaveTimeout);
                    }
                    let _ = tokio::time::timeout(patience, moved).await;
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn draw_now(
        &self,
        n: u32,
        draw: impl FnOnce(&mut Mint<K>, u64, u64) -> Result<Reservation, Blocked>,
    ) -> Result<Reservation, Blocked> {
        let mut mint = self.lock();
        // The clock is read inside the lock: then the order of draws is the order of their times.
        let result = draw(&mut mint, self.clock.boot_ns(), u64::from(n));
        let save_is_due = mint.is_save_due();
        drop(mint);
        if save_is_due {
            self.keeper.notify_one();
        }
        result
    }

    /// What INFO says.
    pub fn status(&self) -> IssuerStatus {
        let now_ns = self.clock.boot_ns();
        IssuerStatus {
            mint: self.lock().status(now_ns),
            waiting: self.waiting.load(Relaxed),
            waits: self.stats.waits.load(Relaxed),
            waited_ms: self.stats.waited_ns.load(Relaxed) / 1_000_000,
            refusals: self.stats.refusals.load(Relaxed),
            saves: self.stats.saves.load(Relaxed),
            save_failures: self.stats.save_failures.load(Relaxed),
            last_save_unix_ms: self.stats.last_save_unix_ms.load(Relaxed),
            last_save_us: self.stats.last_save_us.load(Relaxed),
            last_save_ok: self.stats.last_save.load(Relaxed) == SaveOutcome::Saved as u8,
            saving_ms: u64::try_from(self.saving_for().as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// How long the longest save took since the last call, in microseconds, failed ones included.
    pub fn take_longest_save_us(&self) -> Option<u64> {
        Some(self.stats.longest_save_us.swap(0, Relaxed)).filter(|&us| us > 0)
    }

    /// B as of the start, ms. Without a record to find, the next life relies on IDs not having been given further ahead.
    pub fn start_max_borrow_ms(&self) -> u64 {
        self.lock().start_max_borrow_ms()
    }

    /// Changes limits while running. Who waits goes by them too, at once. A borrow limit above
    /// [`Issuer::start_max_borrow_ms`] is sound only with a store that keeps what is saved.
    pub fn set_limits(&self, limits: Limits) {
        let mut mint = self.lock();
        mint.set_limits(limits);
        drop(mint);
        self.moved.notify_waiters();
        self.keeper.notify_one();
    }

    /// The clock this issuer goes by.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Layout and server-id.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// How long the save in flight has been under way; zero: none.
    fn saving_for(&self) -> Duration {
        match self.saving_since_ns.load(Relaxed) {
            0 => Duration::ZERO,
            since_ns => self.born.elapsed().saturating_sub(Duration::from_nanos(since_ns)),
        }
    }

    /// One save, with its account kept and the mint and the waiting told.
    async fn save<S: WatermarkStore>(&self, store: &mut S, point: SavePoint) -> Result<(), SaveError> {
        let began = Instant::now();
        self.saving_since_ns.store(ns(began - self.born).max(1), Relaxed);
        let result = store.save(&Record { identity: self.identity, point }).await;
        self.saving_since_ns.store(0, Relaxed);
        let took = began.elapsed();
        self.stats.longest_save_us.fetch_max((ns(took) / 1000).max(1), Relaxed);
        let mut mint = self.lock();
        match &result {
            Ok(()) => mint.saved(point),
            Err(error) => {
                let text = error.to_string().into();
                match error {
                    SaveError::Io { .. } => mint.save_failed(text),
                    SaveError::ClaimLost { what } => mint.claim_lost(what.as_str().into()),
                    SaveError::ClaimRetaken { found } => mint.claim_retaken(self.clock.boot_ns(), *found, text),
                }
            }
        }
        // Not a lock to hold while a log line is written: its reader may be slow.
        drop(mint);
        self.moved.notify_waiters();
        if result.is_ok() {
            self.stats.saves.fetch_add(1, Relaxed);
            self.stats.last_save_us.store(ns(took) / 1000, Relaxed);
            self.stats.last_save_unix_ms.store(self.clock.wall_unix_ms().max(0).cast_unsigned(), Relaxed);
        } else {
            self.stats.save_failures.fetch_add(1, Relaxed);
        }
        self.log_save(&result);
        result
    }

    /// One line when saving begins to fail, fails in another way, or works again.
    fn log_save(&self, result: &Result<(), SaveError>) {
        let outcome = SaveOutcome::of(result) as u8;
        let before = self.stats.last_save.swap(outcome, Relaxed);
        match result {
            _ if before == outcome => {}
            Ok(()) => tracing::warn!("the watermark can be saved again; IDs go on"),
            Err(error @ SaveError::Io { .. }) => tracing::error!(
                "saving the watermark failed: {error}. IDs go on up to the watermark on disk, then requests are refused \
                 until a save succeeds"
            ),
            Err(error @ SaveError::ClaimLost { .. }) => {
                tracing::error!("{error}. No IDs until the claim can be taken again");
            }
            Err(SaveError::ClaimRetaken { .. }) => {
                tracing::warn!(
                    "the claim was lost and has been taken again: IDs skip what another server may have given"
                );
            }
        }
    }

    fn sample(&self) {
        let events = self.lock().sample(self.clock.reading());
        for event in &events {
            log_clock_event(event);
        }
        if !events.is_empty() {
            self.moved.notify_waiters();
        }
    }

    /// Closed for good; what to store as the last act.
    fn close(&self) -> Option<SavePoint> {
        let last = self.lock().close();
        self.moved.notify_waiters();
        last
    }

    fn lock(&self) -> MutexGuard<'_, Mint<K>> {
        self.mint.lock().unwrap_or_else(|poisoned: PoisonError<_>| {
            // A broken invariant inside a draw: nobody knows what state it left. Refuse rather than repeat.
            let mut mint = poisoned.into_inner();
            mint.close();
            mint
        })
    }
}

/// A place in the queue; dropping it gives it back.
struct Place<'a, C: Clock, K: Checks> {
    issuer: &'a Issuer<C, K>,
    since: Instant,
}

impl<'a, C: Clock, K: Checks> Place<'a, C, K> {
    fn take(issuer: &'a Issuer<C, K>) -> Self {
        issuer.waiting.fetch_add(1, Relaxed);
        issuer.stats.waits.fetch_add(1, Relaxed);
        Place { issuer, since: Instant::now() }
    }
}

impl<C: Clock, K: Checks> Drop for Place<'_, C, K> {
    fn drop(&mut self) {
        self.issuer.waiting.fetch_sub(1, Relaxed);
        self.issuer.stats.waited_ns.fetch_add(ns(self.since.elapsed()), Relaxed);
    }
}

/// The task beside the issuer: samples the wall clock, and moves the watermark ahead before anybody needs it.
pub struct Keeper<C: Clock, S, K: Checks = Sound> {
    issuer: Arc<Issuer<C, K>>,
    store: S,
    sample_every: Duration,
    reported: Option<Instant>,
}

impl<C: Clock, S: WatermarkStore, K: Checks> Keeper<C, S, K> {
    /// Runs until `stop`, then closes the issuer for good and stores the exact position, once a save that is under way
    /// has ended.
    ///
    /// # Errors
    ///
    /// The last save failed: the next start goes on at the watermark, as after a crash.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), SaveError> {
        let issuer = Arc::clone(&self.issuer);
        let mut stop = pin!(stop);
        let mut clock_tick = tokio::time::interval(self.sample_every);
        clock_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut retry_at: Option<Instant> = None;
        let mut stopping = false;
        while !stopping {
            // Always in this order, so that a simulated life is the same each time.
            tokio::select! {
                biased;
                () = &mut stop => break,
                // While the disk fails, refused draws must not hurry the next try.
                () = issuer.keeper.notified(), if retry_at.is_none() => {}
                _ = clock_tick.tick() => {}
            }
            issuer.sample();
            self.report_borrowing();
            let sample_every = Duration::from_millis(issuer.lock().keeper_interval_ms());
            if sample_every != self.sample_every {
                self.sample_every = sample_every;
                clock_tick = tokio::time::interval_at(Instant::now() + sample_every, sample_every);
                clock_tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            }
            if retry_at.is_some_and(|at| Instant::now() < at) {
                continue;
            }
            retry_at = None;
            let wanted = issuer.lock().wanted_save(issuer.clock.boot_ns());
            let Some(point) = wanted else { continue };
            let mut save = pin!(issuer.save(&mut self.store, point));
            let result = loop {
                tokio::select! {
                    biased;
                    result = &mut save => break result,
                    () = &mut stop, if !stopping => {
                        stopping = true;
                        issuer.close();
                    }
                    // The clock is sampled on while a slow disk takes its time.
                    _ = clock_tick.tick() => issuer.sample(),
                }
            };
            let pauses = !matches!(result, Ok(()) | Err(SaveError::ClaimRetaken { .. }));
            retry_at = pauses.then(|| Instant::now() + SAVE_RETRY);
        }
        match issuer.close() {
            // Nobody knows what a panic inside a draw left: the next start goes on at the last watermark, as after a crash.
            Some(_) if issuer.mint.is_poisoned() => Ok(()),
            // Past the mint, which is closed for good and has nothing to learn from this save.
            Some(point) => self.store.save(&Record { identity: issuer.identity, point }).await,
            None => Ok(()),
        }
    }

    /// One warning a second at most, while more is asked for than the layout holds.
    fn report_borrowing(&mut self) {
        let now = Instant::now();
        if self.reported.is_some_and(|at| now < at + BORROW_REPORT_EVERY) {
            return;
        }
        let status = self.issuer.status().mint;
        if status.demanded_per_s <= status.capacity_per_s {
            return;
        }
        self.reported = Some(now);
        let advice = match Layout::shard_range_for(status.demanded_per_s) {
            Some(shard_range) => format!("shard-range {shard_range} would hold it"),
            None => "no shard-range holds it: spread the load over more servers".to_owned(),
        };
        tracing::warn!(
            "borrowing: {} ids a second are asked for, the layout holds {}; ids are {} ms ahead of the clock. {advice}",
            status.demanded_per_s,
            status.capacity_per_s,
            status.borrow_ms,
        );
    }
}

impl<C: Clock, S, K: Checks> Drop for Keeper<C, S, K> {
    fn drop(&mut self) {
        // Without its keeper nobody moves the watermark: those who wait for it must not wait for ever.
        self.issuer.close();
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn log_clock_event(event: &ClockEvent) {
    match event.severity() {
        Severity::Notice => tracing::info!("{event}"),
        Severity::Warning => tracing::warn!("{event}"),
        Severity::Error => tracing::error!("{event}"),
    }
}
