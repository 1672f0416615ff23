//! The one owner of the generator in a process, and the keeper that moves its watermark ahead.
//!
//! Asking for IDs is one linearizable step of tens of nanoseconds: a short lock around pure structs, and one clock reading
//! inside it. A channel to an actor and back would cost more than everything else a request does. Only who would pass the
//! watermark or the borrow limit waits, in a queue under the same lock.
//!
//! All decisions are made by what is pure: [`Mint`] says which IDs may be given, [`queue`] whose turn it is and who may wait at all,
//! [`demand`] how much is asked for. This file gives them the time and carries their wishes out; [`seat`](self) is the future
//! that waits, [`keeper`](self) what runs beside the requests.
//!
//! Who waits does nothing: whoever comes by serves the queue, be it the keeper, who is woken when time or a save has made
//! room, or a draw that has to wait itself. IDs are put into the seat of the one whose turn it is, so a connection whose thread
//! is busy holds up nobody.
//!
//! # Why IDs ascend although draws are served in slices
//!
//! The promise: an ID whose request was sent after the reply with another ID was received is larger. The mint gives slots in
//! ascending order, so whatever is drawn later is larger, and all that has to be seen is that the later request's IDs are drawn
//! later than every ID of that reply. A reply is written when its whole turn has its IDs ([`Issuer::draw`] returns them all or
//! none), so each slice of it was drawn before it was received. The other request was sent after that, and no ID is drawn for
//! a request before it is read. Slices of other draws may lie between those of one draw, and say nothing about it: they are
//! parts of requests that were under way at the same time. Within a draw, pieces are put in order of time, so they ascend; a
//! connection's next turn begins when the one before has ended, so they ascend over turns.
//!
//! Invariant: while anybody waits, nobody is served but by the queue.

pub mod demand;
mod keeper;
pub mod queue;
mod seat;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;

use getid_core::checks::{Fault, planted};
use getid_core::{
    Blocked, ClockEvent, Limits, Mint, Overload, Refusal, Reservation, SAVE_SLACK_MS, SavePoint, Severity,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use self::demand::Demand;
pub use self::keeper::{Keeper, KeeperError};
use self::queue::{FairQueue, Given, TooLong};
use self::seat::{Seat, Waiting};
pub use self::status::IssuerStatus;
use self::status::{SaveOutcome, Stats};
use crate::claim::{Claim, Identity, SaveError, Taken};
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::system::clock::{Clock, SystemClock};

/// How long a request waits for a save that hangs before it is refused (DESIGN: 1 s).
const SAVE_PATIENCE: Duration = Duration::from_secs(1);

/// How long a start without a record, or with a copy of one, waits before it reads the clock, a little more than
/// [`SAVE_SLACK_MS`].
///
/// Without a record the position is R + B, past anything a run that is over gave out. But when a state folder is deleted
/// and made anew under a running server, that one finds out at its next save only, and until then may give IDs as far as
/// its last watermark reaches: R + B + 200 ms, R being that of the save. After this pause, R + B is past that too. A folder
/// that was put in the place of another with an older copy of the record in it is no different.
const LOST_RUN_PAUSE: Duration = Duration::from_millis(SAVE_SLACK_MS + 50);

/// `id-max-wait-ms` until somebody says another, ms.
pub const MAX_WAIT_MS: u64 = 5000;

/// Turns of the queue that are served under one lock: some microseconds, for which draws that need not wait are held up.
const TURNS_AT_ONCE: usize = 64;

/// Timers have whole milliseconds; a sleep of 0 would spin.
const TIMER_STEP: Duration = Duration::from_millis(1);

/// Gives IDs to all connections of a process. Cheap to share by [`Arc`].
pub struct Issuer<C: Clock = SystemClock> {
    clock: C,
    identity: Identity,
    state: Mutex<State>,
    /// Told when there is something for the keeper to do: the watermark is near, or somebody waits.
    keeper: Notify,
    /// The zero of the times below. Waits are measured by the runtime's clock, as its timers are: a machine that was
    /// suspended has not waited for its disk.
    born: Instant,
    /// When the save in flight began, ns since `born`; 0: none.
    saving_since_ns: AtomicU64,
    /// Whether the lock was found poisoned: a draw has ended in a panic.
    panicked: AtomicBool,
    stats: Stats,
}

/// What the lock holds.
struct State {
    mint: Mint,
    queue: FairQueue<Arc<Seat>>,
    demand: Demand,
}

/// When the queue is to be served again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nobody waits.
    Idle,
    /// There is more to serve at once.
    More,
    /// Not before this time has passed, or a save has succeeded.
    After(Duration),
}

impl<C: Clock> Issuer<C> {
    /// An issuer that begins at what the store had found. It gives no ID before [`Keeper::first_save`].
    ///
    /// Without a record, or with one that is a copy, it takes 250 ms longer: whoever had the state folder before must not be
    /// giving IDs any more.
    pub async fn prepare<S: Claim<Point = SavePoint>>(
        clock: C,
        identity: Identity,
        limits: Limits,
        claim: Taken<S>,
    ) -> (Arc<Issuer<C>>, Keeper<C, S>) {
        let found = claim.point;
        let is_copy = claim.is_copy && !planted(Fault::NoPauseForACopy);
        if (found.is_none() || is_copy) && !planted(Fault::NoPause) {
            tokio::time::sleep(LOST_RUN_PAUSE).await;
        }
        let reading = clock.reading();
        let mint = Mint::new(identity.layout, limits, found, reading);
        let issuer = Arc::new(Issuer {
            clock,
            identity,
            state: Mutex::new(State {
                mint,
                queue: FairQueue::new(identity.layout.shard_bits(), MAX_WAIT_MS),
                demand: Demand::new(reading.boot_ns),
            }),
            keeper: Notify::new(),
            born: Instant::now(),
            saving_since_ns: AtomicU64::new(0),
            panicked: AtomicBool::new(false),
            stats: Stats::default(),
        });
        let keeper = Keeper::new(Arc::clone(&issuer), claim);
        (issuer, keeper)
    }

    /// B as of the start, ms. Without a record to find, the next life relies on IDs not having been given further ahead.
    pub fn start_max_borrow_ms(&self) -> u64 {
        self.lock().mint.start_max_borrow_ms()
    }

    /// Changes limits while running. Who waits goes by them too, at once. A borrow limit above
    /// [`Issuer::start_max_borrow_ms`] is sound only with a store that keeps what is saved.
    pub fn set_limits(&self, limits: Limits) {
        self.lock().mint.set_limits(limits);
        self.keeper.notify_one();
    }

    /// Draws up to `n` IDs in one step, without waiting. Fewer than `n`, or none, when a bound is near or others wait.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]: no IDs now, and its text is the error reply.
    #[inline]
    pub fn try_draw(&self, n: u32) -> Result<Option<Reservation>, Refusal> {
        let mut state = self.lock();
        assert!(n != 7 || !planted(Fault::DrawPanics), "a fault that a test has planted");
        if !state.queue.is_empty() && !planted(Fault::PassesTheQueue) {
            return Ok(None);
        }
        // The clock is read inside the lock: then the order of draws is the order of their times.
        let result = state.mint.draw(self.clock.boot_ns(), n, false);
        let save_is_due = state.mint.is_save_due();
        drop(state);
        if save_is_due {
            self.keeper.notify_one();
        }
        match result {
            Ok(reservation) => Ok(Some(reservation)),
            Err(Blocked::Watermark | Blocked::Borrow { .. }) => Ok(None),
            Err(Blocked::Refused(refusal)) => {
                self.note_refused(n);
                Err(refusal)
            }
        }
    }

    /// Draws exactly `n` IDs, waiting in the queue where needed, and appends their reservations to `drawn`. What `drawn` holds
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
        if missing > 0 {
            drawn.append(&mut self.join(missing, !drawn.is_empty())?.await?);
        }
        Ok(())
    }

    /// Takes a place in the queue for `n` IDs. `begun`: the draw has some already.
    fn join(&self, n: u32, begun: bool) -> Result<Waiting<'_, C>, Refusal> {
        let seat = Arc::new(Seat::new());
        let mut state = self.lock();
        let is_first = state.queue.is_empty();
        if let Err(refusal) = self.admit(&mut state, n) {
            drop(state);
            self.note_refused(n);
            return Err(refusal);
        }
        let ticket = state.queue.join(self.now_ns(), n, begun, Arc::clone(&seat));
        drop(state);
        self.stats.waits.fetch_add(1, Relaxed);
        let waiting = Waiting { issuer: self, seat, ticket, since: Instant::now(), is_over: false };
        // What time has made room for is given out by whoever comes by. The keeper does the rest.
        if self.serve_some() == Next::More || (is_first && !planted(Fault::FirstDoesNotWake)) {
            self.keeper.notify_one();
        }
        Ok(waiting)
    }

    /// Whether a draw of `n` may wait.
    fn admit(&self, state: &mut State, n: u32) -> Result<(), Refusal> {
        let boot_ns = self.clock.boot_ns();
        let late_ms = state.mint.late_ms(boot_ns);
        let Err(TooLong { wait_ms, max_wait_ms }) = state.queue.admit(n, late_ms) else { return Ok(()) };
        let queued = state.queue.queued() + u64::from(n);
        let asked_per_s = state.demand.at(boot_ns, self.settled_ids(state), queued);
        Err(state.mint.overload(Overload { wait_ms, max_wait_ms, late_ms, asked_per_s }))
    }

    /// Serves the queue as far as time and watermark allow.
    pub(crate) fn serve(&self) -> Next {
        loop {
            match self.serve_some() {
                Next::More => {}
                next => return next,
            }
        }
    }

    /// The same, but some turns only.
    fn serve_some(&self) -> Next {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        let next = self.serve_turns(&mut state, &mut wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        next
    }

    fn serve_turns(&self, state: &mut State, wakers: &mut Vec<Waker>) -> Next {
        let State { mint, queue, .. } = state;
        let now_ns = self.now_ns();
        let boot_ns = self.clock.boot_ns();
        let is_whole = mint.is_drawn_whole();
        for _ in 0..TURNS_AT_ONCE {
            let Some(turn) = queue.turn(now_ns) else { return Next::Idle };
            // The rest of a draw waits at the borrow limit under either policy, or no large one could ever be served.
            let ids = if is_whole && !turn.begun { turn.missing } else { turn.ids };
            match mint.draw(boot_ns, ids, turn.begun) {
                Ok(piece) => match queue.give(turn.ticket, piece.len) {
                    Some(Given::All(seat)) => {
                        seat.put(piece);
                        wakers.extend(seat.end(Ok(())));
                    }
                    Some(Given::Some(seat)) => seat.put(piece),
                    None => {}
                },
                Err(Blocked::Refused(refusal)) => {
                    self.note_refused(turn.missing);
                    wakers.extend(queue.leave(turn.ticket).and_then(|seat| seat.end(Err(refusal))));
                }
                Err(Blocked::Borrow { until_boot_ns }) => {
                    let wait = Duration::from_nanos(until_boot_ns.saturating_sub(boot_ns));
                    // With many in the queue, a wake-up should be worth it.
                    let least = if queue.queued() > queue.ids_per_ms() { 2 * TIMER_STEP } else { TIMER_STEP };
                    return Next::After(wait.max(least));
                }
                Err(Blocked::Watermark) => return self.refuse_impatient(queue, now_ns, wakers),
            }
        }
        Next::More
    }

    /// Behind a save that hangs: refuses those who have waited long enough for it, and says when the next one has.
    ///
    /// Who has waited behind others while the save hung has waited for it too: a thousand are refused together, not one a
    /// second. A save that has not begun has not made anybody wait.
    fn refuse_impatient(&self, queue: &mut FairQueue<Arc<Seat>>, now_ns: u64, wakers: &mut Vec<Waker>) -> Next {
        let saving = self.saving_for();
        while let Some((ticket, missing, since_ns)) = queue.eldest() {
            let waited = Duration::from_nanos(now_ns.saturating_sub(since_ns)).min(saving);
            let patience = SAVE_PATIENCE.saturating_sub(waited);
            if !patience.is_zero() {
                return Next::After(patience.max(TIMER_STEP));
            }
            self.note_refused(missing);
            wakers.extend(queue.leave(ticket).and_then(|seat| seat.end(Err(Refusal::SaveTimeout))));
        }
        Next::Idle
    }

    /// One refusal more, of a draw that misses `n` IDs.
    fn note_refused(&self, n: u32) {
        self.stats.refusals.fetch_add(1, Relaxed);
        self.stats.refused_ids.fetch_add(u64::from(n), Relaxed);
    }

    /// IDs given or refused since the start.
    fn settled_ids(&self, state: &State) -> u64 {
        state.mint.ids_issued().saturating_add(self.stats.refused_ids.load(Relaxed))
    }

    /// What INFO says.
    pub fn status(&self) -> IssuerStatus {
        let boot_ns = self.clock.boot_ns();
        let mut state = self.lock();
        let mint = state.mint.status(boot_ns);
        let next_draw = state.mint.can_draw(boot_ns);
        let awaits_save = next_draw == Err(Blocked::Watermark);
        let refusing = match next_draw {
            Err(Blocked::Refused(refusal)) => Some(refusal),
            // What cannot be had at once is refused where it would wait too long.
            Ok(()) | Err(Blocked::Watermark | Blocked::Borrow { .. }) => self.admit(&mut state, 1).err(),
        };
        let (waiting, waiting_ids) = (state.queue.len(), state.queue.queued());
        let (asked_per_s, demanded_per_s) = (state.demand.settled_per_s(), state.demand.per_s());
        let ids_per_ms = state.queue.ids_per_ms();
        drop(state);
        let saving_for = self.saving_for();
        // Who waits for a save has one second of patience, and this one has used it up.
        let hangs = awaits_save && saving_for >= SAVE_PATIENCE;
        IssuerStatus {
            refusing: refusing.or(hangs.then_some(Refusal::SaveTimeout)),
            mint,
            waiting,
            waiting_ids,
            asked_per_s,
            demanded_per_s,
            wait_ms: waiting_ids.div_ceil(ids_per_ms),
            waits: self.stats.waits.load(Relaxed),
            waited_ms: self.stats.waited_ns.load(Relaxed) / 1_000_000,
            refusals: self.stats.refusals.load(Relaxed),
            saves: self.stats.saves.load(Relaxed),
            save_failures: self.stats.save_failures.load(Relaxed),
            last_save_unix_ms: self.stats.last_save_unix_ms.load(Relaxed),
            last_save_us: self.stats.last_save_us.load(Relaxed),
            last_save_ok: self.stats.last_save.load(Relaxed) == SaveOutcome::Saved as u8,
            saving_ms: u64::try_from(saving_for.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Why a request for one ID would be refused now, without drawing one; `None`: it would be served, perhaps after a wait.
    pub fn refusing(&self) -> Option<Refusal> {
        self.status().refusing
    }

    /// How long the longest save took since the last call, in microseconds, failed ones included.
    pub fn take_longest_save_us(&self) -> Option<u64> {
        Some(self.stats.longest_save_us.swap(0, Relaxed)).filter(|&us| us > 0)
    }

    /// The warning to log while more is asked for than there is, if so.
    fn borrowing(&self) -> Option<String> {
        let boot_ns = self.clock.boot_ns();
        let state = self.lock();
        state.mint.borrowing(boot_ns, state.demand.per_s())
    }

    /// Changes `id-max-wait-ms`, ms: how long a draw may have to wait, by what is queued before it; one that would wait longer
    /// is refused. [`MAX_WAIT_MS`] before the first call.
    pub fn set_max_wait_ms(&self, max_wait_ms: u64) {
        self.lock().queue.set_max_wait_ms(max_wait_ms);
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

    /// The time of waits, ns.
    fn now_ns(&self) -> u64 {
        ns(self.born.elapsed())
    }

    /// How long the save in flight has been under way; zero: none.
    fn saving_for(&self) -> Duration {
        match self.saving_since_ns.load(Relaxed) {
            0 => Duration::ZERO,
            since_ns => self.born.elapsed().saturating_sub(Duration::from_nanos(since_ns)),
        }
    }

    /// One save, with its account kept and the mint and the waiting told.
    pub(crate) async fn save<S: Claim<Point = SavePoint>>(
        &self,
        claim: &mut Taken<S>,
        point: SavePoint,
    ) -> Result<(), SaveError<SavePoint>> {
        let began = Instant::now();
        self.saving_since_ns.store(ns(began - self.born).max(1), Relaxed);
        let result = claim.save(point).await;
        self.saving_since_ns.store(0, Relaxed);
        let took = began.elapsed();
        self.stats.longest_save_us.fetch_max((ns(took) / 1000).max(1), Relaxed);
        let mut state = self.lock();
        let mint = &mut state.mint;
        match &result {
            Ok(()) => mint.saved(point),
            Err(error) => {
                let text = error.to_string().into();
                match error {
                    SaveError::Io { .. } => mint.save_failed(text),
                    SaveError::ClaimLost { what } => mint.claim_lost(what.as_str().into()),
                    SaveError::ClaimRetaken { found, .. } => mint.claim_retaken(self.clock.boot_ns(), *found, text),
                }
            }
        }
        // Not a lock to hold while a log line is written: its reader may be slow.
        drop(state);
        // It may be what they wait for.
        if self.serve_some() == Next::More {
            self.keeper.notify_one();
        }
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
    fn log_save(&self, result: &Result<(), SaveError<SavePoint>>) {
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

    /// Reads the clocks, and says what they did.
    pub(crate) fn sample(&self) {
        let reading = self.clock.reading();
        let mut state = self.lock();
        let events = state.mint.sample(reading);
        let (settled, queued) = (self.settled_ids(&state), state.queue.queued());
        state.demand.sample(reading.boot_ns, settled, queued);
        drop(state);
        for event in &events {
            log_clock_event(event);
        }
    }

    /// Closed for good; what to store as the last act. Who waits is refused.
    ///
    /// `None` when nothing may be written: the clock is absurd, or nobody knows what a panic inside a draw left. The next start
    /// goes on at the last watermark then, as after a crash.
    pub(crate) fn close(&self) -> Option<SavePoint> {
        let mut state = self.lock();
        let last = state.mint.close();
        let mut wakers = Vec::new();
        while let Some((ticket, missing, _)) = state.queue.eldest() {
            self.note_refused(missing);
            wakers.extend(state.queue.leave(ticket).and_then(|seat| seat.end(Err(Refusal::Closed))));
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        last.filter(|_| !self.has_panicked() || planted(Fault::PoisonedCloseIsStored))
    }

    /// The point to save now, if any.
    pub(crate) fn wanted(&self) -> Option<SavePoint> {
        self.lock().mint.wanted_save(self.clock.boot_ns())
    }

    /// Waits until there is something for the keeper to do.
    pub(crate) async fn woken(&self) {
        self.keeper.notified().await;
    }

    /// Whether a draw has ended in a panic, as of the last time that the lock was taken.
    fn has_panicked(&self) -> bool {
        self.panicked.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned: PoisonError<_>| {
            // A broken invariant inside a draw: nobody knows what state it left. Refuse rather than repeat, and let the keeper
            // end the process.
            let mut state = poisoned.into_inner();
            self.panicked.store(true, Relaxed);
            if !planted(Fault::PoisonDoesNotClose) {
                state.mint.close();
            }
            self.keeper.notify_one();
            state
        })
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
