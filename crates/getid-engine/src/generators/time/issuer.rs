//! The issuer: the lock around the mint and the generators' own state, the operations under it, and draws that do
//! without it.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use getid_core::server::checks::{Fault, planted};
use getid_core::{Blocked, BorrowPolicy, ClockEvent, Layout, Limits, Mint, Refusal, Reservation, SavePoint, Severity};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::lane::SharedLane;
use super::queue::{DrawProgress, Ticket};
use super::source::{IdSource, IssuerNamed, SourceSlots};
use super::status::{IssuerStatus, SaveOutcome, SaveStats};
use super::sync::{Mutex, MutexGuard, PoisonError};
use super::wait_slot::WaitSlot;
use crate::claim::{AcquiredClaim, Claim, Declarations, Identity, SaveError, random_bits};
use getid_system::clock::{Clock, SystemClock};
use getid_system::patience::patience;

/// Time after which a draw that waits for a hanging save is refused.
const SAVE_WAIT_MAX: Duration = Duration::from_secs(1);

/// Reason of a standby's refusals between the write that takes its claim and its first save.
const TAKING_OVER: &str = "standby: the claim was taken a moment ago, and the first save is under way";

/// Default of `id-max-wait-ms`, ms.
pub const MAX_WAIT_MS: u64 = 5000;

/// Number of queue turns served under one lock. They take some microseconds, in which other draws are delayed.
const TURNS_PER_BATCH: usize = 64;

/// Timers have whole milliseconds; a sleep of 0 would spin.
const TIMER_STEP: Duration = Duration::from_millis(1);

/// The source of IDs for all connections of a process. Cheap to share by [`Arc`].
///
/// The mint decides which IDs may be given, the queue whose turn it is and which draw may wait at all. A lock, and not
/// an actor: a channel there and back would cost more than the rest of a request.
///
/// A waiting draw does nothing itself. Any task serves the queue: the keeper, which is woken when time or a save has
/// made room, or a draw that has to wait. It puts the IDs into the slot of the draw whose turn it is, so a connection
/// whose thread is busy delays no other.
///
/// # Why IDs ascend although draws are served in slices
///
/// The promise: an ID whose request was sent after the reply with another ID was received is larger. The mint gives
/// slots in ascending order, so every later draw has larger IDs. It remains to show that the later request's IDs are
/// drawn after every ID of that reply.
///
/// A reply is written when its whole turn has its IDs ([`Issuer::draw`] returns them all or none), so each slice of it
/// was drawn before it was received. The other request was sent after that, and no ID is drawn for a request before it
/// is read. Slices of other draws may lie between those of one draw, which is irrelevant: they are parts of concurrent
/// requests.
///
/// Within a draw, pieces are in order of time, so they ascend; a connection's next turn begins when the one before has
/// ended, so they ascend over turns. The lane changes none of this: an exchange that succeeds is a draw between two
/// holders of the lock, and each holder begins at the lane's position.
pub struct Issuer<C: Clock = SystemClock> {
    pub(super) clock: C,
    layout: Layout,
    /// Changes at most once, before the first ID: `server-id auto`.
    server_id: AtomicU32,
    /// Words with which nearly every draw is made, without the lock.
    lane: SharedLane,
    state: Mutex<IssuerState>,
    /// Notified when the keeper has work: the watermark is near, or a draw waits.
    pub(super) for_keeper: Notify,
    /// Zero of the times below. Waits are measured by the runtime's clock, like its timers: the time of a suspended
    /// machine does not count as a wait for its disk.
    born: Instant,
    /// Start of the running save, ns since `born`; 0: none.
    saving_since_ns: AtomicU64,
    /// Whether the lock was found poisoned, after a draw ended in a panic.
    panicked: AtomicBool,
    /// Whether saves go to a claim store.
    saves_to_a_store: AtomicBool,
    stats: SaveStats,
}

pub(super) struct IssuerState {
    pub(super) mint: Mint,
    pub(super) unnamed: IdSource,
    /// All generators that had a name in this life, by index.
    pub(super) named: Vec<IssuerNamed>,
    /// Declarations of all named generators, those of earlier lives in the record included.
    pub(super) declarations: Arc<Declarations>,
    /// Declarations of the last successful save of this life, since the claim was taken.
    saved: Option<Arc<Declarations>>,
    pub(super) max_wait_ms: u64,
}

impl IssuerState {
    pub(super) fn source(&mut self, which: SourceIndex) -> (&mut Mint, &mut IdSource) {
        match which {
            SourceIndex::Unnamed => (&mut self.mint, &mut self.unnamed),
            SourceIndex::Named(index) => (&mut self.mint, &mut self.named[index].source),
        }
    }

    /// Notes the declarations that a save has left in the record.
    fn note_declarations(
        &mut self,
        result: &Result<(), SaveError<SavePoint>>,
        saved: Arc<Declarations>,
        layout: Layout,
    ) {
        match result {
            Ok(()) => self.saved = Some(saved),
            Err(SaveError::ClaimRetaken { declarations: found, found: point, .. }) => {
                let point = point.filter(|point| !point.is_nothing());
                let from_unix_ms = point.map_or(i64::MAX, |point| point.reference.unix_ms(layout.epoch()));
                let over = declared_over(found, &saved, &self.declarations, from_unix_ms);
                let over = Arc::new(Declarations::clone(&over).with_earlier_since(&self.declarations));
                self.saved = None;
                self.declarations = match point {
                    None => over,
                    Some(point) => since_behind(over, point, i64::MAX, layout),
                };
            }
            Err(_) => {}
        }
    }

    fn sources(&mut self) -> (&mut Mint, impl Iterator<Item = &mut IdSource>) {
        let named = self.named.iter_mut().map(|named| &mut named.source);
        (&mut self.mint, std::iter::once(&mut self.unnamed).chain(named))
    }
}

/// Kind of a generator, with its index.
#[derive(Clone, Copy, Debug)]
pub(super) enum SourceIndex {
    Unnamed,
    /// Index among the named generators.
    Named(usize),
}

/// A save that is due, with its content.
#[derive(Clone, Debug)]
pub struct DueSave {
    point: SavePoint,
    declarations: Arc<Declarations>,
}

/// Time at which the queue must be served next.
///
/// The smaller is the sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextServe {
    /// At once: there is more to serve.
    More,
    /// After this time, or after a successful save.
    After(Duration),
    /// Never: no draw waits.
    Idle,
}

impl<C: Clock> Issuer<C> {
    /// Makes an issuer that begins at the record found. It gives no ID before a first save has succeeded.
    pub fn new(clock: C, identity: Identity, limits: Limits, found: Option<SavePoint>) -> Issuer<C> {
        Issuer::with_declarations(clock, identity, limits, found, Arc::default())
    }

    /// Makes an issuer for a server whose record has these declarations.
    pub fn with_declarations(
        clock: C,
        identity: Identity,
        limits: Limits,
        found: Option<SavePoint>,
        declarations: Arc<Declarations>,
    ) -> Issuer<C> {
        let reading = clock.reading();
        let ids_per_s = identity.layout.capacity_per_s();
        let mint = Mint::new(identity.layout, limits, found, reading);
        let start_unix_ms = start_unix_ms(&mint, reading.boot_ns, identity.layout);
        let declarations = match found.filter(|found| !found.is_nothing()) {
            // A life that was stopped before its first ID has left declarations, and no IDs.
            None => Arc::new(Declarations::clone(&declarations).with_first_life(start_unix_ms)),
            Some(found) => since_behind(declarations, found, start_unix_ms, identity.layout),
        };
        Issuer {
            clock,
            layout: identity.layout,
            server_id: AtomicU32::new(identity.server_id),
            lane: SharedLane::new(identity.layout),
            state: Mutex::new(IssuerState {
                mint,
                unnamed: IdSource::new(SourceSlots::Slots, ids_per_s, MAX_WAIT_MS, reading.boot_ns),
                named: Vec::new(),
                declarations,
                saved: None,
                max_wait_ms: MAX_WAIT_MS,
            }),
            for_keeper: Notify::new(),
            born: Instant::now(),
            saving_since_ns: AtomicU64::new(0),
            panicked: AtomicBool::new(false),
            saves_to_a_store: AtomicBool::new(false),
            stats: SaveStats::default(),
        }
    }

    /// Returns B as of the start, ms. Where no record is kept, the next run relies on no ID having been given further
    /// ahead.
    pub fn start_max_borrow_ms(&self) -> u64 {
        self.lock().mint.start_max_borrow_ms()
    }

    /// Changes limits at run time, for waiting draws too. A borrow limit above [`Issuer::start_max_borrow_ms`] is sound
    /// only with a claim that keeps what is saved.
    pub fn set_limits(&self, limits: Limits) {
        self.lock().mint.set_limits(limits);
        self.for_keeper.notify_one();
    }

    /// Draws up to `n` IDs in one step, without a wait. Returns fewer than `n`, or none, when a bound is near or others
    /// wait.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]: no IDs now, and its text is the error reply.
    #[inline]
    pub fn try_draw(&self, n: u32) -> Result<Option<Reservation>, Refusal> {
        // That fault occurs under the lock.
        match if planted(Fault::DrawPanics) { None } else { self.lane.draw(&self.clock, n) } {
            Some(reservation) => Ok(Some(reservation)),
            None => self.try_draw_by_the_lock(n),
        }
    }

    #[inline(never)]
    fn try_draw_by_the_lock(&self, n: u32) -> Result<Option<Reservation>, Refusal> {
        let mut state = self.lock();
        assert!(n != 7 || !planted(Fault::DrawPanics), "a fault that a test has planted");
        if !state.unnamed.queue.is_empty() && !planted(Fault::PassesTheQueue) {
            return Ok(None);
        }
        // The clock is read inside the lock, so the order of draws is the order of their times.
        let result = state.mint.draw(self.clock.boot_ns(), n, false);
        let save_is_due = state.mint.is_save_due();
        drop(state);
        if save_is_due {
            self.for_keeper.notify_one();
        }
        match result {
            Ok(reservation) => Ok(Some(reservation)),
            Err(Blocked::Watermark | Blocked::Borrow { .. }) => Ok(None),
            Err(Blocked::Refused(refusal)) => {
                self.lock().unnamed.note_refused(n);
                Err(refusal)
            }
        }
    }

    /// Draws exactly `n` IDs, waits in the queue where needed, and appends the reservations to `drawn`. Reservations
    /// already in `drawn` are the beginning of the same draw.
    ///
    /// Dropping the future gives up the place in the queue; IDs already drawn are lost, which is harmless.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; the caller then discards `drawn`.
    pub async fn draw(&self, n: u32, drawn: &mut Vec<Reservation>) -> Result<(), Refusal> {
        self.draw_from(SourceIndex::Unnamed, n, drawn).await
    }

    pub(super) async fn draw_from(
        &self,
        which: SourceIndex,
        n: u32,
        drawn: &mut Vec<Reservation>,
    ) -> Result<(), Refusal> {
        if n == 0 {
            return Ok(());
        }
        let mut missing = n;
        if drawn.is_empty() {
            let at_once = match which {
                SourceIndex::Unnamed => self.try_draw(n)?,
                SourceIndex::Named(index) => self.try_draw_named(index, n)?,
            };
            if let Some(reservation) = at_once {
                drawn.push(reservation);
                missing -= reservation.len;
            }
        }
        if missing > 0 {
            drawn.append(&mut self.join(which, missing, !drawn.is_empty())?.await?);
        }
        Ok(())
    }

    /// Joins the queue for `n` IDs. `begun`: the draw has some already.
    fn join(&self, which: SourceIndex, n: u32, begun: bool) -> Result<WaitingDraw<'_, C>, Refusal> {
        let slot = Arc::new(WaitSlot::new());
        let mut state = self.lock();
        let (mint, source) = state.source(which);
        let is_first = source.queue.is_empty();
        source.admit(mint, self.clock.boot_ns(), n).inspect_err(|_| source.note_refused(n))?;
        let ticket = source.queue.join(self.now_ns(), n, begun, Arc::clone(&slot));
        source.waits += 1;
        drop(state);
        let waiting = WaitingDraw { issuer: self, which, slot, ticket, since: Instant::now(), is_over: false };
        // IDs that are available by now are given at once. The keeper does the rest.
        if self.serve_batch() == NextServe::More || (is_first && !planted(Fault::FirstDoesNotWake)) {
            self.for_keeper.notify_one();
        }
        Ok(waiting)
    }

    /// Serves the queues as far as time and watermark allow.
    pub fn serve(&self) -> NextServe {
        loop {
            match self.serve_batch() {
                NextServe::More => {}
                next => return next,
            }
        }
    }

    fn serve_batch(&self) -> NextServe {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        let next = self.serve_turns(&mut state, &mut wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        next
    }

    fn serve_turns(&self, state: &mut IssuerState, wakers: &mut Vec<Waker>) -> NextServe {
        let (now_ns, boot_ns) = (self.now_ns(), self.clock.boot_ns());
        let (mint, sources) = state.sources();
        let waiting: Vec<_> = sources.filter(|source| !source.queue.is_empty()).collect();
        // Draws that wait for one generator do not wait for another's queue.
        let turns = (TURNS_PER_BATCH / waiting.len().max(1)).max(1);
        let serve = |source| self.serve_source(mint, source, turns, (now_ns, boot_ns), wakers);
        waiting.into_iter().map(serve).min().unwrap_or(NextServe::Idle)
    }

    fn serve_source(
        &self,
        mint: &mut Mint,
        source: &mut IdSource,
        turns: usize,
        (now_ns, boot_ns): (u64, u64),
        wakers: &mut Vec<Waker>,
    ) -> NextServe {
        // A draw that has not begun is served whole or refused, rather than piece by piece.
        let is_whole = mint.limits().policy == BorrowPolicy::Error;
        for _ in 0..turns {
            let Some(turn) = source.queue.turn(now_ns) else { return NextServe::Idle };
            // The rest of a draw waits at the borrow limit under either policy, or no large one could ever be served.
            let ids = if is_whole && !turn.begun { turn.missing } else { turn.ids };
            match source.draw(mint, boot_ns, ids, turn.begun) {
                Ok(piece) => match source.queue.give(turn.ticket, piece.len) {
                    Some(DrawProgress::All(slot)) => {
                        slot.put(piece);
                        wakers.extend(slot.end(Ok(())));
                    }
                    Some(DrawProgress::Some(slot)) => slot.put(piece),
                    None => {}
                },
                Err(Blocked::Refused(refusal)) => {
                    source.note_refused(turn.missing);
                    wakers.extend(source.queue.leave(turn.ticket).and_then(|slot| slot.end(Err(refusal))));
                }
                Err(Blocked::Borrow { until_boot_ns }) => {
                    let wait = Duration::from_nanos(until_boot_ns.saturating_sub(boot_ns));
                    // With many draws in the queue, a wake-up should serve several.
                    let is_long = source.queue.ms_for(source.queue.queued()) > 1;
                    let least = if is_long { 2 * TIMER_STEP } else { TIMER_STEP };
                    return NextServe::After(wait.max(least));
                }
                Err(Blocked::Watermark) => return self.refuse_timed_out(source, now_ns, wakers),
            }
        }
        NextServe::More
    }

    /// Refuses the draws that have waited for a hanging save for [`SAVE_WAIT_MAX`]. Returns when the next one has.
    ///
    /// Waiting behind others while the save hung counts as waiting for it: a thousand draws are refused together, not
    /// one a second. Time before the save began does not count.
    fn refuse_timed_out(&self, source: &mut IdSource, now_ns: u64, wakers: &mut Vec<Waker>) -> NextServe {
        let saving = self.saving_for();
        while let Some((ticket, missing, since_ns)) = source.queue.eldest() {
            let waited = Duration::from_nanos(now_ns.saturating_sub(since_ns)).min(saving);
            let left = patience(SAVE_WAIT_MAX).saturating_sub(waited);
            if !left.is_zero() {
                return NextServe::After(left.max(TIMER_STEP));
            }
            source.note_refused(missing);
            wakers.extend(source.queue.leave(ticket).and_then(|slot| slot.end(Err(self.save_timeout()))));
        }
        NextServe::Idle
    }

    /// Returns R, Unix ms.
    pub fn reference_unix_ms(&self) -> i64 {
        let status = self.lock().mint.status(self.clock.boot_ns());
        status.reference.unix_ms(self.layout.epoch())
    }

    /// Returns R in Unix ms, for a serial number that shows it, or for a value of a sequence. From then on R never goes
    /// back, in this life or a later one. See [`Mint::give_reference`].
    ///
    /// # Errors
    ///
    /// [`Refusal::Clock`]: the clock is absurd.
    pub(crate) fn give_reference_unix_ms(&self) -> Result<i64, Refusal> {
        let reference = self.lock().mint.give_reference(self.clock.boot_ns())?;
        Ok(reference.unix_ms(self.layout.epoch()))
    }

    /// Returns a time, in Unix ms, before which this server has given no ID of a generator, and gives none; `None`: it
    /// is not known. Without a name it is that of the unnamed generator. From then on R never goes back, as after an
    /// ID. As for an ID, the record must have the generator: otherwise a later life could begin before this one.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]: this server does not have its claim, its clock is absurd, or no save with the generator has
    /// succeeded.
    pub fn given_since(&self, name: Option<&str>) -> Result<Option<i64>, Refusal> {
        let mut state = self.lock();
        let boot_ns = self.clock.boot_ns();
        if let Err(Blocked::Refused(
            refusal @ (Refusal::Closed | Refusal::Clock(_) | Refusal::ClaimLost(_) | Refusal::Standby(_)),
        )) = state.mint.can_draw(boot_ns)
        {
            return Err(refusal);
        }
        let since = state.declarations.since(name);
        if since.is_none() {
            return Ok(None);
        }
        if state.saved.as_ref().and_then(|saved| saved.since(name)).is_none() {
            return Err(self.save_timeout());
        }
        state.mint.give_reference(boot_ns)?;
        Ok(since)
    }

    /// Returns the status for INFO.
    pub fn status(&self) -> IssuerStatus {
        let state = self.lock();
        let boot_ns = self.clock.boot_ns();
        let IssuerState { mint, unnamed: source, .. } = &*state;
        let (refusing, awaits_save) = source.refusing(mint, boot_ns);
        let waiting_ids = source.queue.queued();
        let last_save = self.stats.last_save.load(Relaxed);
        let claim_lost = last_save == SaveOutcome::ClaimLost as u8;
        let mut status = IssuerStatus {
            refusing,
            mint: mint.status(boot_ns),
            waiting: source.queue.len(),
            waiting_ids,
            asked_per_s: source.demand().settled_per_s(),
            demanded_per_s: source.demand().per_s(),
            wait_ms: source.queue.ms_for(waiting_ids),
            waits: source.waits,
            waited_ms: source.waited_ns / 1_000_000,
            refusals: source.refusals,
            saves: self.stats.saves.load(Relaxed),
            save_failures: self.stats.save_failures.load(Relaxed),
            last_save_unix_ms: self.stats.last_save_unix_ms.load(Relaxed),
            last_save_us: self.stats.last_save_us.load(Relaxed),
            last_save_ok: !claim_lost && last_save != SaveOutcome::Failed as u8,
            claim_lost,
            saving_ms: 0,
            held_for_ms: mint.held_for_ms(boot_ns),
        };
        drop(state);
        status.refusing = self.refusing_for(status.refusing, awaits_save);
        status.saving_ms = u64::try_from(self.saving_for().as_millis()).unwrap_or(u64::MAX);
        status
    }

    /// Returns why a draw of one ID would be refused, if so: a draw that waits for a hanging save is.
    pub(super) fn refusing_for(&self, refusing: Option<Refusal>, awaits_save: bool) -> Option<Refusal> {
        // It would wait for this save, which has used up the time already.
        let hangs = awaits_save && self.saving_for() >= patience(SAVE_WAIT_MAX);
        refusing.or_else(|| hangs.then(|| self.save_timeout()))
    }

    fn save_timeout(&self) -> Refusal {
        if self.saves_to_a_store.load(Relaxed) { Refusal::StoreTimeout } else { Refusal::SaveTimeout }
    }

    /// Returns why a draw of one ID would be refused now; `None`: it would be served, perhaps after a wait. Draws
    /// nothing.
    pub fn refusing(&self) -> Option<Refusal> {
        self.status().refusing
    }

    /// Returns the duration of the longest save since the last call, in microseconds, failed ones included.
    pub fn take_longest_save_us(&self) -> Option<u64> {
        Some(self.stats.longest_save_us.swap(0, Relaxed)).filter(|&us| us > 0)
    }

    /// Returns the warning to log while demand exceeds capacity, if so.
    pub fn borrowing(&self) -> Option<String> {
        let state = self.lock();
        let boot_ns = self.clock.boot_ns();
        state.mint.borrowing(boot_ns, state.unnamed.demand().per_s())
    }

    /// Changes `id-max-wait-ms`, ms: a draw whose wait behind the queue would be longer is refused. [`MAX_WAIT_MS`]
    /// before the first call.
    pub fn set_max_wait_ms(&self, max_wait_ms: u64) {
        let mut state = self.lock();
        state.max_wait_ms = max_wait_ms;
        state.sources().1.for_each(|source| source.queue.set_max_wait_ms(max_wait_ms));
        drop(state);
        self.for_keeper.notify_one();
    }

    /// Returns the clock by which IDs are drawn.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    pub(super) fn note_server_id(&self, server_id: u32) {
        self.server_id.store(server_id, Relaxed);
    }

    /// Returns layout and server-id.
    pub fn identity(&self) -> Identity {
        Identity { server_id: self.server_id.load(Relaxed), layout: self.layout }
    }

    /// Returns the time by which waits are measured, ns.
    pub fn now_ns(&self) -> u64 {
        ns(self.born.elapsed())
    }

    /// Returns how long the running save has taken; zero: none.
    fn saving_for(&self) -> Duration {
        match self.saving_since_ns.load(Relaxed) {
            0 => Duration::ZERO,
            since_ns => self.born.elapsed().saturating_sub(Duration::from_nanos(since_ns)),
        }
    }

    /// Makes a save, applies its result to the mint, serves waiting draws, and counts and logs the result.
    ///
    /// # Errors
    ///
    /// Fails if the claim does not save the point. The mint has been given the error already.
    pub async fn save<S: Claim<Point = SavePoint>>(
        &self,
        claim: &mut AcquiredClaim<S>,
        DueSave { point, declarations }: DueSave,
    ) -> Result<(), SaveError<SavePoint>> {
        let began = Instant::now();
        self.saving_since_ns.store(ns(began - self.born).max(1), Relaxed);
        claim.declarations = Arc::clone(&declarations);
        let result = claim.save(point).await;
        let hold = claim.claim.hold();
        self.saves_to_a_store.store(S::MAY_START_WITHOUT, Relaxed);
        self.saving_since_ns.store(0, Relaxed);
        let took = began.elapsed();
        self.stats.longest_save_us.fetch_max((ns(took) / 1000).max(1), Relaxed);
        let mut state = self.lock();
        state.note_declarations(&result, declarations, self.layout);
        let mint = &mut state.mint;
        match &result {
            Ok(()) => {
                mint.saved(point);
                if let Some(hold) = hold {
                    mint.held(hold, self.clock.clocks());
                }
            }
            Err(error) => {
                let text = error.to_string().into();
                match error {
                    SaveError::Io { .. } | SaveError::Store { .. } => mint.save_failed(text),
                    SaveError::Standby { .. } => mint.stand_by(text),
                    SaveError::ClaimLost { what } => mint.claim_lost(what.as_str().into()),
                    SaveError::ClaimRetaken { found, is_watched, .. } if S::MAY_START_WITHOUT => {
                        mint.claim_taken(self.clock.boot_ns(), *found, *is_watched, TAKING_OVER.into());
                    }
                    SaveError::ClaimRetaken { found, .. } => mint.claim_retaken(self.clock.boot_ns(), *found, text),
                }
            }
        }
        // Before a log line is written, whose reader may be slow.
        drop(state);
        // Waiting draws may have waited for this save.
        if self.serve_batch() == NextServe::More {
            self.for_keeper.notify_one();
        }
        if result.is_ok() {
            self.stats.saves.fetch_add(1, Relaxed);
            self.stats.last_save_us.store(ns(took) / 1000, Relaxed);
            self.stats.last_save_unix_ms.store(self.clock.wall_unix_ms().max(0).cast_unsigned(), Relaxed);
        } else if !matches!(result, Err(SaveError::Standby { .. })) {
            self.stats.save_failures.fetch_add(1, Relaxed);
        }
        self.log_save(&result);
        result
    }

    /// Logs when saves begin to fail, fail in another way, or work again.
    fn log_save(&self, result: &Result<(), SaveError<SavePoint>>) {
        let outcome = SaveOutcome::of(result) as u8;
        let before = self.stats.last_save.swap(outcome, Relaxed);
        match result {
            _ if before == outcome => {}
            // The driver of a claim store logs this itself, with the holder and the reason.
            _ if self.saves_to_a_store.load(Relaxed) => {}
            Err(SaveError::Standby { .. } | SaveError::Store { .. }) => {}
            Ok(()) => tracing::warn!("the watermark can be saved again; IDs continue"),
            Err(error @ SaveError::Io { .. }) => tracing::error!(
                "saving the watermark failed: {error}. IDs continue up to the watermark on disk, then requests are \
                 refused until a save succeeds"
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

    /// Reads the clocks, and logs their events.
    pub fn sample(&self) {
        let mut state = self.lock();
        // Not earlier than the last draw by the lane: R continues from this reading.
        let reading = self.clock.reading();
        let events = state.mint.sample(reading);
        // Before the first ID, a correction of the clock may move the start of this life back.
        let start_unix_ms = start_unix_ms(&state.mint, reading.boot_ns, self.layout);
        if let Some(earlier) = state.declarations.since_at_most(start_unix_ms) {
            state.declarations = Arc::new(earlier);
        }
        let (mint, sources) = state.sources();
        mint.watch_hold(self.clock.clocks());
        sources.for_each(|source| source.sample(mint, reading.boot_ns));
        drop(state);
        for event in &events {
            log_clock_event(event);
        }
    }

    /// Closes permanently and refuses waiting draws. Returns what the last act stores.
    ///
    /// Returns `None` if nothing may be written: the clock is absurd, or a panic inside a draw left an unknown state.
    /// Then the next start continues at the last watermark, as after a crash.
    pub fn close(&self) -> Option<SavePoint> {
        let mut state = self.lock();
        let last = state.mint.close();
        let mut wakers = Vec::new();
        state.sources().1.for_each(|source| source.refuse_waiting(&Refusal::Closed, &mut wakers));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        last.filter(|_| !self.has_panicked() || planted(Fault::PoisonedCloseIsStored))
    }

    /// Returns the save that is due, if any.
    pub fn due_save(&self) -> Option<DueSave> {
        let mut state = self.lock();
        let point = state.mint.due_save(self.clock.boot_ns())?;
        Some(DueSave { point, declarations: Arc::clone(&state.declarations) })
    }

    /// Returns the save of a claim that is kept by regular saves, if one is due: see [`Mint::due_beat`].
    pub fn due_beat(&self) -> Option<DueSave> {
        let mut state = self.lock();
        let point = state.mint.due_beat(self.clock.boot_ns())?;
        Some(DueSave { point, declarations: Arc::clone(&state.declarations) })
    }

    /// Returns true if IDs must wait for the next beat, because the hold of the last one is over.
    pub(crate) fn is_past_its_hold(&self) -> bool {
        self.lock().mint.held_for_ms(self.clock.boot_ns()) == Some(0)
    }

    /// Notes that the claim was given up, for this reason: no IDs until it is taken again.
    pub fn stand_by(&self, why: &str) {
        self.lock().mint.stand_by(why.into());
    }

    /// Returns why the clock allows no IDs now.
    pub(crate) fn clock_fault(&self) -> Option<String> {
        match self.lock().mint.can_draw(self.clock.boot_ns()) {
            Err(Blocked::Refused(Refusal::Clock(fault))) => Some(format!("standby: clock {fault}")),
            _ => None,
        }
    }

    /// Returns the declarations of named generators that the last act stores.
    pub fn declarations(&self) -> Arc<Declarations> {
        Arc::clone(&self.lock().declarations)
    }

    /// Waits until the keeper has work.
    pub(crate) async fn keeper_needed(&self) {
        self.for_keeper.notified().await;
    }

    /// Returns the interval, ms, at which [`Issuer::sample`] and [`Issuer::due_save`] should be called. It may
    /// change.
    pub fn sample_interval_ms(&self) -> u64 {
        self.lock().mint.sample_interval_ms()
    }

    /// Returns true if a draw has ended in a panic, as of the last time that the lock was taken.
    pub(crate) fn has_panicked(&self) -> bool {
        self.panicked.load(Relaxed)
    }

    /// Takes the lock, with the lane closed until the guard is dropped.
    pub(super) fn lock(&self) -> IssuerGuard<'_, C> {
        let mut held = self.lock_beside_the_lane();
        self.take_lane(&mut held.state);
        held.has_lane = true;
        held
    }

    /// Takes the lock for operations that neither read nor change the unnamed generator's position. Draws by the lane
    /// continue meanwhile.
    #[inline]
    pub(super) fn lock_beside_the_lane(&self) -> IssuerGuard<'_, C> {
        let state = self.state.lock().unwrap_or_else(|poisoned| self.close_after_panic(poisoned));
        IssuerGuard { issuer: self, has_lane: false, state }
    }

    /// Closes the lane, and moves the mint to its position.
    fn take_lane(&self, state: &mut IssuerState) {
        if let Some(position) = self.lane.close() {
            let (given, ahead) = (self.lane.given(), self.lane.ahead());
            state.mint.follow_lane(position, self.clock.boot_ns(), given, ahead);
        }
    }

    fn open_lane(&self, state: &mut IssuerState) {
        // Waiting draws are served first.
        let is_clear = state.unnamed.queue.is_empty() || planted(Fault::LanePassesTheQueue);
        if is_clear && let Some((position, lane)) = state.mint.lane() {
            self.lane.open(position, &lane);
        }
    }

    /// Handles a panic inside a draw, which left an unknown state: refuses rather than repeats, and lets the keeper end
    /// the process.
    #[cold]
    fn close_after_panic<'a>(
        &'a self,
        poisoned: PoisonError<MutexGuard<'a, IssuerState>>,
    ) -> MutexGuard<'a, IssuerState> {
        let mut state = poisoned.into_inner();
        self.panicked.store(true, Relaxed);
        if !planted(Fault::PoisonDoesNotClose) {
            state.mint.close();
        }
        self.for_keeper.notify_one();
        state
    }
}

/// Guard of the lock. With `has_lane` the lane is closed too, and dropping the guard opens it again, as far as the mint
/// allows.
pub(super) struct IssuerGuard<'a, C: Clock> {
    issuer: &'a Issuer<C>,
    has_lane: bool,
    state: MutexGuard<'a, IssuerState>,
}

impl<C: Clock> Deref for IssuerGuard<'_, C> {
    type Target = IssuerState;

    #[inline]
    fn deref(&self) -> &IssuerState {
        &self.state
    }
}

impl<C: Clock> DerefMut for IssuerGuard<'_, C> {
    #[inline]
    fn deref_mut(&mut self) -> &mut IssuerState {
        &mut self.state
    }
}

impl<C: Clock> Drop for IssuerGuard<'_, C> {
    #[inline]
    fn drop(&mut self) {
        match (std::thread::panicking(), self.has_lane) {
            (false, true) => self.issuer.open_lane(&mut self.state),
            // The state after a panic is unknown: the lane stays closed, and the next taker of the lock finds it
            // poisoned.
            (true, false) => self.issuer.take_lane(&mut self.state),
            (true, true) | (false, false) => {}
        }
    }
}

/// Waits for all IDs of a draw. Dropping it gives up the place at once; IDs it already has are lost, which is harmless.
struct WaitingDraw<'a, C: Clock> {
    issuer: &'a Issuer<C>,
    which: SourceIndex,
    slot: Arc<WaitSlot>,
    ticket: Ticket,
    since: Instant,
    is_over: bool,
}

impl<C: Clock> Future for WaitingDraw<'_, C> {
    type Output = Result<Vec<Reservation>, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.slot.poll(cx);
        self.is_over = result.is_ready();
        result
    }
}

impl<C: Clock> Drop for WaitingDraw<'_, C> {
    fn drop(&mut self) {
        let mut state = self.issuer.lock();
        let (_, source) = state.source(self.which);
        if !self.is_over && !planted(Fault::LeaverKeepsItsPlace) {
            source.queue.leave(self.ticket);
        }
        source.waited_ns = source.waited_ns.saturating_add(ns(self.since.elapsed()));
    }
}

/// Returns a time, Unix ms, before which a generator that is added now gives no ID.
pub(super) fn start_unix_ms(mint: &Mint, boot_ns: u64, layout: Layout) -> i64 {
    let status = mint.status(boot_ns);
    status.position.max(status.reference).unix_ms(layout.epoch())
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

/// Returns declarations in which no generator gives its first ID after the record that was found, or after
/// `start_unix_ms`. The record may be older than the last life, which then gave IDs of names that it lacks.
fn since_behind(
    declarations: Arc<Declarations>,
    found: SavePoint,
    start_unix_ms: i64,
    layout: Layout,
) -> Arc<Declarations> {
    let latest = found.reference.unix_ms(layout.epoch()).min(start_unix_ms);
    declarations.since_at_most(latest).map_or(declarations, Arc::new)
}

/// Returns the declarations after the claim was taken again: those of the save with those in `found`, and those added
/// since. Later IDs have times from `from_unix_ms` on.
fn declared_over(
    found: &Arc<Declarations>,
    saved: &Arc<Declarations>,
    now: &Arc<Declarations>,
    from_unix_ms: i64,
) -> Arc<Declarations> {
    if Arc::ptr_eq(saved, now) {
        return Arc::clone(found);
    }
    // A declaration that conflicts with those found is not saved, and so gives no ID: the claim refuses it.
    found.with(now.generators(), from_unix_ms, random_bits).map_or_else(|_| Arc::clone(now), Arc::new)
}
