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
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use crate::clock::{Clock, SystemClock};
use crate::id::{Blocked, ClockEvent, Layout, Limits, Mint, Refusal, Reservation, SavePoint, Severity, Status};
use crate::watermark::{Identity, Record, SaveError, WatermarkStore};

/// How long a request waits for a save that hangs before it is refused (DESIGN: 1 s).
const SAVE_PATIENCE: Duration = Duration::from_secs(1);

/// Pause after a save that failed, before the next try: short enough that a full disk that was cleaned is noticed at
/// once, long enough that a dead one is not hammered.
const SAVE_RETRY: Duration = Duration::from_millis(250);

/// Borrowing is reported in one warning a second at most.
const BORROW_REPORT_EVERY: Duration = Duration::from_secs(1);

/// Gives IDs to all connections of a process. Cheap to share by [`Arc`].
pub struct Issuer<C: Clock = SystemClock> {
    clock: C,
    identity: Identity,
    mint: Mutex<Mint>,
    /// Who waits is served in order: tokio's mutex is fair.
    queue: tokio::sync::Mutex<()>,
    /// How many stand in the queue, its head included.
    waiting: AtomicUsize,
    /// Told whenever the watermark, the clock or the state of the disk changed.
    moved: Notify,
    /// Told when a draw found the watermark near.
    keeper: Notify,
    /// When the save in flight began, boot time in ns; 0: none.
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
    last_save_failed: AtomicBool,
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
    /// Starts at what the store had `found`, and makes the first write.
    ///
    /// # Errors
    ///
    /// The first write must succeed: a server that cannot keep its promise does not start.
    pub async fn start<S: WatermarkStore>(
        clock: C,
        identity: Identity,
        limits: Limits,
        found: Option<SavePoint>,
        mut store: S,
    ) -> Result<(Arc<Issuer<C>>, Keeper<C, S>), SaveError> {
        let reading = clock.reading();
        let mint = Mint::new(identity.layout, limits, found, reading);
        let issuer = Arc::new(Issuer {
            clock,
            identity,
            mint: Mutex::new(mint),
            queue: tokio::sync::Mutex::new(()),
            waiting: AtomicUsize::new(0),
            moved: Notify::new(),
            keeper: Notify::new(),
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
        match self.draw_now(n, Mint::draw) {
            Ok(reservation) => Ok(Some(reservation)),
            Err(Blocked::Watermark | Blocked::Borrow { .. }) => Ok(None),
            Err(Blocked::Refused(refusal)) => {
                self.stats.refusals.fetch_add(1, Relaxed);
                Err(refusal)
            }
        }
    }

    /// Draws exactly `n` IDs, waiting in order where needed, and appends their reservations to `drawn`.
    ///
    /// Dropping the future gives the place in the queue back; IDs already drawn are lost, which is no harm.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; what `drawn` holds then is to be thrown away.
    pub async fn draw(&self, n: u32, drawn: &mut Vec<Reservation>) -> Result<(), Refusal> {
        let missing = match self.try_draw(n)? {
            Some(reservation) => {
                drawn.push(reservation);
                n - reservation.len
            }
            None => n,
        };
        if missing == 0 { Ok(()) } else { self.draw_waiting(missing, missing < n, drawn).await }
    }

    /// Draws `missing` more IDs, waiting in order; `begun` when these are the rest of a draw that was cut.
    ///
    /// # Errors
    ///
    /// As [`Issuer::draw`].
    pub async fn draw_waiting(
        &self,
        mut missing: u32,
        mut begun: bool,
        drawn: &mut Vec<Reservation>,
    ) -> Result<(), Refusal> {
        let place = Place::take(self);
        let _head = self.queue.lock().await;
        let mut blocked_since_ns = None;
        while missing > 0 {
            // Registered before the draw, so that a change between the draw and the sleep is not slept through.
            let mut moved = pin!(self.moved.notified());
            moved.as_mut().enable();
            // The rest of a draw waits at the borrow limit under either policy, or no large one could ever be served.
            let draw = if begun { Mint::draw_rest } else { Mint::draw };
            match self.draw_now(missing, draw) {
                Ok(reservation) => {
                    drawn.push(reservation);
                    missing -= reservation.len;
                    begun = true;
                    blocked_since_ns = None;
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
                    let now_ns = self.clock.boot_ns();
                    let ms_since = |since_ns: u64| now_ns.saturating_sub(since_ns) / 1_000_000;
                    let blocked_ms = ms_since(*blocked_since_ns.get_or_insert(now_ns));
                    let saving_ms = match self.saving_since_ns.load(Relaxed) {
                        0 => 0,
                        since_ns => ms_since(since_ns),
                    };
                    // Who stood behind others while the save hung has waited for it too: a queue of a thousand is
                    // refused together, not one a second.
                    let waited_ms = ms_since(place.since_ns).min(saving_ms.max(blocked_ms));
                    let patience = SAVE_PATIENCE.saturating_sub(Duration::from_millis(waited_ms));
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
        draw: impl FnOnce(&mut Mint, u64, u64) -> Result<Reservation, Blocked>,
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
        let saving_ms = match self.saving_since_ns.load(Relaxed) {
            0 => 0,
            since_ns => now_ns.saturating_sub(since_ns) / 1_000_000,
        };
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
            last_save_ok: !self.stats.last_save_failed.load(Relaxed),
            saving_ms,
        }
    }

    /// The clock this issuer goes by.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Layout and server-id.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// One save, with its account kept and the mint and the waiting told.
    async fn save<S: WatermarkStore>(&self, store: &mut S, point: SavePoint) -> Result<(), SaveError> {
        let began_ns = self.clock.boot_ns();
        self.saving_since_ns.store(began_ns.max(1), Relaxed);
        let result = store.save(&Record { identity: self.identity, point }).await;
        self.saving_since_ns.store(0, Relaxed);
        let failed_before = self.stats.last_save_failed.swap(result.is_err(), Relaxed);
        let mut mint = self.lock();
        match &result {
            Ok(()) => {
                mint.saved(point);
                self.stats.saves.fetch_add(1, Relaxed);
                self.stats.last_save_us.store(self.clock.boot_ns().saturating_sub(began_ns) / 1000, Relaxed);
                let wall_ms = self.clock.wall_unix_ms().max(0).cast_unsigned();
                self.stats.last_save_unix_ms.store(wall_ms, Relaxed);
                if failed_before {
                    tracing::warn!("the watermark can be saved again; IDs go on");
                }
            }
            Err(error) => {
                let text = error.to_string().into();
                match error {
                    SaveError::Io { .. } => mint.save_failed(text),
                    SaveError::ClaimLost { what } => mint.claim_lost(what.as_str().into()),
                    SaveError::ClaimRetaken { found } => mint.claim_retaken(self.clock.boot_ns(), *found, text),
                }
                self.stats.save_failures.fetch_add(1, Relaxed);
                if failed_before {
                    tracing::trace!("saving the watermark failed again: {error}");
                } else {
                    tracing::error!(
                        "saving the watermark failed: {error}. IDs go on up to the watermark on disk, then requests are \
                         refused until a save succeeds"
                    );
                }
            }
        }
        drop(mint);
        self.moved.notify_waiters();
        result
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

    fn lock(&self) -> MutexGuard<'_, Mint> {
        self.mint.lock().unwrap_or_else(|poisoned: PoisonError<_>| {
            // A broken invariant inside a draw: nobody knows what state it left. Refuse rather than repeat.
            let mut mint = poisoned.into_inner();
            mint.close();
            mint
        })
    }
}

/// A place in the queue; dropping it gives it back.
struct Place<'a, C: Clock> {
    issuer: &'a Issuer<C>,
    since_ns: u64,
}

impl<'a, C: Clock> Place<'a, C> {
    fn take(issuer: &'a Issuer<C>) -> Self {
        issuer.waiting.fetch_add(1, Relaxed);
        issuer.stats.waits.fetch_add(1, Relaxed);
        Place { issuer, since_ns: issuer.clock.boot_ns() }
    }
}

impl<C: Clock> Drop for Place<'_, C> {
    fn drop(&mut self) {
        self.issuer.waiting.fetch_sub(1, Relaxed);
        let waited_ns = self.issuer.clock.boot_ns().saturating_sub(self.since_ns);
        self.issuer.stats.waited_ns.fetch_add(waited_ns, Relaxed);
    }
}

/// The task beside the issuer: samples the wall clock, and moves the watermark ahead before anybody needs it.
pub struct Keeper<C: Clock, S> {
    issuer: Arc<Issuer<C>>,
    store: S,
    sample_every: Duration,
    reported: Option<Instant>,
}

impl<C: Clock, S: WatermarkStore> Keeper<C, S> {
    /// Runs until `stop`, then closes the issuer for good and stores the exact position.
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
        loop {
            tokio::select! {
                () = &mut stop => break,
                _ = clock_tick.tick() => {}
                () = issuer.keeper.notified() => {}
            }
            issuer.sample();
            self.report_borrowing();
            if retry_at.is_some_and(|at| Instant::now() < at) {
                continue;
            }
            let wanted = issuer.lock().wanted_save(issuer.clock.boot_ns());
            if let Some(point) = wanted {
                let mut save = pin!(issuer.save(&mut self.store, point));
                // The clock is sampled on while a slow disk takes its time.
                let result = loop {
                    tokio::select! {
                        result = &mut save => break result,
                        _ = clock_tick.tick() => issuer.sample(),
                    }
                };
                retry_at = result.is_err().then(|| Instant::now() + SAVE_RETRY);
            }
        }
        let last = issuer.lock().close();
        issuer.moved.notify_waiters();
        match last {
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

impl<C: Clock, S> Drop for Keeper<C, S> {
    fn drop(&mut self) {
        // Without its keeper nobody moves the watermark: those who wait for it must not wait for ever.
        self.issuer.lock().close();
        self.issuer.moved.notify_waiters();
    }
}

fn log_clock_event(event: &ClockEvent) {
    match event.severity() {
        Severity::Notice => tracing::info!("{event}"),
        Severity::Warning => tracing::warn!("{event}"),
        Severity::Error => tracing::error!("{event}"),
    }
}
