//! State machine of one sequence on one server: its segments, its next fetch, and its waiting draws.
//!
//! It holds two segments at most: values are taken from the current one, and the next is fetched before that is used
//! up. Their size follows demand. The store answers with a segment, with a verdict, or not at all. A fetch without an
//! answer may have been done, so values that it may have reserved are never given.
//!
//! Invariants: values are taken from `current` before `ahead`; all of `ahead` is above `current`; each value taken is
//! above all taken before; at most one fetch is in flight; held segments were reserved under `generation`.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::ends::RowEnd;
use super::rate::Rate;
use super::refusal::SequenceRefusal;
use super::segment::{Run, Segment, SequenceRequest};
use super::spec::{CACHE_DEFAULT, RESERVED_MAX, Spec, WaitPolicy};
use super::waiting::{WaitQueue, WaiterId};
use crate::checks::{Fault, planted};

/// Most stores of one server.
pub const STORES_MAX: usize = 4;

/// Pause after the first failed fetch, ms, and its upper bound; it doubles with each further failure.
const BACK_OFF_MS: (u64, u64) = (100, 5_000);

/// Time for which a verdict of the store (no such row, the max is reached) is used, ms. Then the store is asked again.
const VERDICT_MS: u64 = 1_000;

/// Time of failing fetches after which no draw waits for the next, ms.
const FAILING_MS: u64 = 1_000;

/// Time, ms, in which half a segment must be used to make the next one larger: [`GROWTH`] times the recent use, and
/// [`GROWTH`] times its size at most.
const SHORT_MS: u64 = 1_000;
const GROWTH: u64 = 8;

/// Divisor of the values up to a sequence's max that one segment of this server may hold. Other servers need the rest.
const SHARE_OF_REST: u64 = 8;

/// No share of its max: [`Spec::used_share`] is at most 10,000.
const SHARE_UNKNOWN: u16 = u16::MAX;

/// Time without a request after which a sequence may leave memory, ms.
const IDLE_MS: u64 = 600_000;

/// Settings that an operator may change while a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequencePolicy {
    /// Milliseconds for which a segment lasts at the recent rate (`sequence-ride-out-s`).
    pub ride_out_ms: u64,
    /// Behaviour of a request without values in memory, if its sequence has no own policy (`sequence-policy`).
    pub waits: WaitPolicy,
}

/// A request to the store for the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Number of values to reserve, 1 to [`RESERVED_MAX`].
    pub values: u32,
    /// Lower bound above all values that this server has had. With several stores no value below it is acceptable.
    pub floor: i64,
}

/// Outcome of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The reservation is committed.
    Reserved {
        /// Index of the store, below [`STORES_MAX`].
        store: u8,
        /// The reserved values; empty if the row has reached its max.
        segment: Segment,
        /// Version of the row after the reservation.
        version: u64,
        /// Generation of the row.
        generation: u64,
        /// Options in the row.
        spec: Spec,
        /// End of the row; `None` if it has none.
        end: Option<RowEnd>,
    },
    /// The store's verdict.
    Refused(SequenceRefusal),
    /// There is no answer, or the database failed: it is asked again after a pause.
    Failed {
        /// Whether the reservation may have been done.
        is_unknown: bool,
        /// Address of the store without a password, and its error.
        reason: Arc<str>,
    },
}

/// Whether a reservation was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchVerdict {
    /// The reservation was taken.
    Yes,
    /// The reservation is of an older generation, and discarded: another fetch is necessary.
    Outdated,
    /// The reservation is discarded: its values are below those this server has had, or its generation is older than
    /// one known at the time of the request. So the store went back, or has no order. The fetch is still in flight: the
    /// caller must call [`Sequence::fetched`] again with its result.
    Backwards {
        /// Lowest acceptable first value.
        floor: i64,
    },
}

/// Values that a clean stop gives back: the row's `next` becomes `next` if its version is still `version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// Index of the store.
    pub store: u8,
    /// Version of the row after the last reservation.
    pub version: u64,
    /// First value that was not given.
    pub next: i64,
    /// Number of values to give back.
    pub values: u64,
    /// Lower bound of every correct row: it is above all values given or skipped here. It may be below `next`, for
    /// another server may give back the values in between. `None`: nothing was given here.
    pub had_next: Option<i64>,
}

/// State of a sequence for INFO.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceStatus {
    /// Last value given here.
    pub last_given: Option<i64>,
    /// Last held value.
    pub reserved_until: Option<i64>,
    /// Number of values held, or given to draws that still wait for more. They are skipped if the process is killed
    /// now, with those of a fetch in flight.
    pub left: u64,
    /// Number of values in a fetch in flight.
    pub asked: u32,
    /// Values given since the sequence was loaded.
    pub used: u64,
    /// Values a second over 10 s, 5 min and 30 min.
    pub per_s: [f64; 3],
    /// Whether no values are held: each value is in the store before its reply (`cache 0`).
    pub is_uncached: bool,
    /// Share of the values up to the max that all servers had reserved when this one reserved last, in ten-thousandths;
    /// `None` before that.
    pub used_share: Option<u16>,
    /// Values of the last reservation.
    pub segment_values: u32,
    /// Time of the last reservation, by the clock of the arguments, up to 63 ms early; `None` before the first.
    pub fetched_ms: Option<u64>,
    /// Duration of the last reservation, ms.
    pub fetch_took_ms: u32,
    /// Draws that had to wait.
    pub waits: u32,
    /// Draws that wait now.
    pub waiting: usize,
    /// Fetches that failed.
    pub errors: u32,
}

/// A held segment, and the store that reserved it. The fields of [`Segment`] are its own, so that it has no gaps.
#[derive(Clone, Copy, Debug)]
struct HeldSegment {
    first: i64,
    last: i64,
    increment: u32,
    store: u8,
}

impl HeldSegment {
    const EMPTY: HeldSegment = HeldSegment::of(Segment::EMPTY, 0);

    const fn of(segment: Segment, store: u8) -> HeldSegment {
        let Segment { first, last, increment } = segment;
        HeldSegment { first, last, increment, store }
    }

    #[inline]
    fn segment(&self) -> Segment {
        Segment { first: self.first, last: self.last, increment: self.increment }
    }

    #[inline]
    fn left(&self) -> u64 {
        self.segment().left()
    }
}

/// State of the fetch.
#[derive(Clone, Copy, Debug)]
enum FetchState {
    /// No fetch is under way.
    Idle,
    /// A fetch is under way.
    InFlight(FetchInFlight),
    /// The last fetch failed: the next one is not before this time.
    Pausing { until_ms: u64 },
}

#[derive(Clone, Copy, Debug)]
struct FetchInFlight {
    since_ms: u64,
    values: u32,
    /// Tickets of draws that came before the fetch was sent are below this one.
    before: WaiterId,
    /// Number of changes of generations known when it was sent.
    changes: u16,
}

/// Why fetches fail, or the store's verdict.
#[derive(Debug)]
enum FetchTrouble {
    Failing { since_ms: u64, times: u32, reason: Arc<str> },
    Verdict { until_ms: u64, refusal: SequenceRefusal },
}

/// State of a sequence that fetches, that draws wait for, or whose last fetch brought no values.
#[derive(Debug)]
struct BusyState<T> {
    asking: FetchState,
    trouble: Option<FetchTrouble>,
    waiting: WaitQueue<T>,
    /// Number of values missing for draws that may not wait.
    requested: u32,
}

impl<T> BusyState<T> {
    const fn new() -> BusyState<T> {
        BusyState { asking: FetchState::Idle, trouble: None, waiting: WaitQueue::new(), requested: 0 }
    }

    fn is_over(&self) -> bool {
        let is_idle = matches!(self.asking, FetchState::Idle);
        is_idle && self.trouble.is_none() && self.waiting.is_empty() && self.requested == 0
    }
}

/// State of a sequence with rows in several stores, with an end, or with failed fetches or many waits.
#[derive(Debug, Default)]
struct RareState {
    /// Generations of all stores, if there is more than one.
    generations: Option<[u64; STORES_MAX]>,
    /// End of the row; `None` if it has none, or it is unknown.
    end: Option<RowEnd>,
    /// Number of fetches that failed.
    errors: u32,
    /// High half of the number of draws that ever waited.
    joined_high: u32,
}

/// An optional number in 8 bytes: a million sequences are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OptU64(u64);

impl OptU64 {
    const NONE: OptU64 = OptU64(u64::MAX);

    /// Creates a number. Values, versions and times never come near the end of the range.
    fn of(number: u64) -> OptU64 {
        OptU64(number)
    }

    fn get(self) -> Option<u64> {
        (self != OptU64::NONE).then_some(self.0)
    }
}

/// A time in 4 bytes, in units of 64 ms: enough for eight years.
#[derive(Clone, Copy, Debug)]
struct CoarseTime(u32);

impl CoarseTime {
    const NONE: CoarseTime = CoarseTime(u32::MAX);

    fn of(now_ms: u64) -> CoarseTime {
        CoarseTime(u32::try_from(now_ms >> 6).unwrap_or(u32::MAX))
    }

    /// Returns the begin of the unit, ms.
    fn get_ms(self) -> Option<u64> {
        (self.0 != u32::MAX).then_some(u64::from(self.0) << 6)
    }
}

/// A number of values that leaves room for `None` in 4 bytes.
#[derive(Clone, Copy, Debug)]
struct OptCount(NonZeroU32);

impl OptCount {
    /// Creates a number, clamped to its range: larger ones have the same effect.
    fn of(values: u64) -> OptCount {
        let above = u32::try_from(values).unwrap_or(u32::MAX).saturating_add(1);
        OptCount(NonZeroU32::new(above).unwrap_or(NonZeroU32::MAX))
    }

    fn get(self) -> u64 {
        u64::from(self.0.get()) - 1
    }
}

/// State machine of one sequence on one server. `T` is the caller's data of each waiting draw.
///
/// A million of them are held, so what a quiet or ordinary sequence does not need is in boxes, and times and sizes for
/// reports are coarse. A draw of one among many waits for memory more than for anything else: the fields that it needs
/// are the first 96 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Sequence<T> {
    current: HeldSegment,
    /// The second segment; boxed, since segments of a store without other servers adjoin.
    ahead: Option<Box<HeldSegment>>,
    /// State that sequences have now and then.
    busy: Option<Box<BusyState<T>>>,
    /// State that few sequences have.
    rare: Option<Box<RareState>>,
    last_given: OptU64,
    rate: Rate,
    /// Number of values left in both segments at which the next segment is fetched. `None`: nothing is fetched ahead.
    fetch_at: Option<OptCount>,
    cache: Option<OptCount>,
    /// Lower bound above all values that this server has had.
    floor: i64,
    /// Version of the row, if it is certain that the row is as the last reservation left it.
    version: OptU64,
    generation: u64,
    /// Low half of the number of draws that ever waited, so that no two have the same ticket.
    joined: u32,
    segment_values: u32,
    /// Time of the last reservation's answer.
    fetched: CoarseTime,
    /// Number of times that a new generation was found.
    changes: u16,
    /// [`SequenceStatus::used_share`]; [`SHARE_UNKNOWN`] before the first reservation.
    used_share: u16,
    took_ms: u16,
    slowest_ms: u16,
    /// Binary logarithm of the values that demand may reserve at a time: a share of those up to the max.
    demand_max_log2: u8,
    policy: Option<WaitPolicy>,
    /// Whether the end is that of the row under the known generations.
    is_end_known: bool,
    /// Whether no store has more values up to the max than those that servers hold.
    is_at_max: bool,
}

impl<T> Sequence<T> {
    /// Creates a sequence with unknown state.
    pub fn new(now_ms: u64) -> Sequence<T> {
        Sequence {
            current: HeldSegment::EMPTY,
            ahead: None,
            busy: None,
            rare: None,
            last_given: OptU64::NONE,
            rate: Rate::new(now_ms),
            fetch_at: None,
            cache: None,
            floor: 0,
            version: OptU64::NONE,
            generation: 0,
            joined: 0,
            segment_values: 0,
            fetched: CoarseTime::NONE,
            changes: 0,
            used_share: SHARE_UNKNOWN,
            took_ms: 0,
            slowest_ms: 0,
            demand_max_log2: 63,
            policy: None,
            is_end_known: false,
            is_at_max: false,
        }
    }

    #[inline]
    fn asking(&self) -> FetchState {
        self.busy.as_deref().map_or(FetchState::Idle, |busy| busy.asking)
    }

    fn trouble(&self) -> Option<&FetchTrouble> {
        self.busy.as_deref().and_then(|busy| busy.trouble.as_ref())
    }

    fn busy_mut(&mut self) -> &mut BusyState<T> {
        self.busy.get_or_insert_with(|| Box::new(BusyState::new()))
    }

    /// Releases the memory of a fetch and its draws once they have ended.
    fn forget_busy(&mut self) {
        if self.busy.as_deref().is_some_and(BusyState::is_over) {
            self.busy = None;
        }
    }

    fn forget_trouble(&mut self) {
        if let Some(busy) = &mut self.busy {
            busy.trouble = None;
        }
        self.forget_busy();
    }

    fn forget_verdict(&mut self) {
        if matches!(self.trouble(), Some(FetchTrouble::Verdict { .. })) {
            self.forget_trouble();
        }
    }

    #[inline]
    fn ahead(&self) -> HeldSegment {
        self.ahead.as_deref().copied().unwrap_or(HeldSegment::EMPTY)
    }

    /// Makes the second segment the first one.
    fn advance(&mut self) {
        self.current = self.ahead.take().map_or(HeldSegment::EMPTY, |ahead| *ahead);
    }

    fn held_mut(&mut self) -> impl Iterator<Item = &mut HeldSegment> {
        core::iter::once(&mut self.current).chain(self.ahead.as_deref_mut())
    }

    /// Gives the values for one ask that are available now, and returns how many of its commands are left. No draw
    /// passes the waiting ones.
    #[inline]
    pub fn draw(&mut self, now_ms: u64, ask: SequenceRequest, runs: &mut Vec<Run>) -> u32 {
        if self.rare.is_some() && self.has_ended(now_ms) {
            return ask.times;
        }
        let must_wait = self.has_waiters() && !planted(Fault::PassesThoseWhoWait);
        if must_wait || self.is_uncached() { ask.times } else { self.take(ask, runs) }
    }

    /// Takes held values for an ask, and returns how many commands are left.
    fn take(&mut self, ask: SequenceRequest, runs: &mut Vec<Run>) -> u32 {
        let mut times = ask.times;
        while times > 0 {
            let mut segment = self.current.segment();
            let left = segment.left();
            // Nearly all commands ask for one value, and a division costs as much as the rest.
            let fitting = if ask.values == 1 { left } else { left / u64::from(ask.values) };
            if fitting == 0 {
                // The rest of the first segment is skipped only if the second has enough.
                if self.ahead().left() < u64::from(ask.values) {
                    break;
                }
                self.advance();
                continue;
            }
            let increment = segment.increment;
            let fitting = u32::try_from(fitting).unwrap_or(u32::MAX).min(times);
            let values = u64::from(fitting) * u64::from(ask.values);
            let first = segment.take(values);
            self.current.first = segment.first;
            let run = Run { first, increment, values: ask.values, times: fitting };
            self.last_given = OptU64::of(run.last_of(fitting - 1).unsigned_abs());
            self.rate.add(values);
            times -= fitting;
            push(runs, run);
        }
        times
    }

    /// Gives the values of one range that are available now; `None` if the draw must wait. The range has `values`
    /// values, or at least one if the store has no more up to the max.
    pub fn draw_range(&mut self, now_ms: u64, values: u32) -> Option<Run> {
        let (ask, mut runs) = (SequenceRequest { values, times: 1 }, Vec::new());
        if self.draw(now_ms, ask, &mut runs) > 0 {
            if self.has_waiters() || self.is_uncached() || self.has_ended(now_ms) {
                return None;
            }
            self.take_rest(ask, &mut runs);
        }
        runs.pop()
    }

    /// Takes fewer values than a range has, if there are no more up to the max. Returns how many commands are left.
    fn take_rest(&mut self, ask: SequenceRequest, runs: &mut Vec<Run>) -> u32 {
        let next = if self.current.left() > 0 { self.current } else { self.ahead() };
        let values = u32::try_from(next.left()).unwrap_or(u32::MAX).min(ask.values);
        if !self.is_at_max || values == 0 {
            return ask.times;
        }
        self.take(SequenceRequest { values, ..ask }, runs)
    }

    /// Discards the held values up to `last`, which another server of the store gave to a client. Returns true if a
    /// fetch is in flight, whose values may be lower as well.
    ///
    /// The row is not raised: `last` comes from a client.
    pub fn discard_up_to(&mut self, last: i64) -> bool {
        self.skip(last);
        matches!(self.asking(), FetchState::InFlight(_)) && !self.is_uncached()
    }

    /// Returns true if the store's row is known to be above `value`: this server has had a higher one.
    pub fn is_above(&self, value: i64) -> bool {
        value < self.floor
    }

    /// Checks whether a draw may wait for missing values. A draw that may not wait still causes a fetch, so that later
    /// ones find values, and a store that is reachable again is noticed.
    ///
    /// # Errors
    ///
    /// Fails with the refusal for the draw.
    pub fn may_wait(
        &mut self,
        now_ms: u64,
        policy: &SequencePolicy,
        missing: &[SequenceRequest],
    ) -> Result<(), SequenceRefusal> {
        self.note_ended(now_ms);
        match self.trouble() {
            Some(FetchTrouble::Verdict { until_ms, refusal })
                if now_ms < *until_ms && !planted(Fault::VerdictIsNotBelieved) =>
            {
                return Err(refusal.clone());
            }
            Some(FetchTrouble::Failing { since_ms, times, reason })
                if *times > 1
                    && now_ms.saturating_sub(*since_ms) >= FAILING_MS
                    && !planted(Fault::FailingStoreIsWaitedFor) =>
            {
                let refusal = SequenceRefusal::Store(Arc::clone(reason));
                if !planted(Fault::RefusedDrawWantsNothing) {
                    self.request(1);
                }
                return Err(refusal);
            }
            _ => {}
        }
        // If nothing is fetched ahead, nothing can be in memory: a first request, `cache 0`, after a verdict.
        let is_ahead = self.fetch_at.is_some();
        match self.policy.unwrap_or(policy.waits) {
            WaitPolicy::Error if is_ahead && !planted(Fault::PolicyErrorWaits) => {
                let values = missing.iter().map(|ask| u64::from(ask.values) * u64::from(ask.times)).sum::<u64>();
                if !planted(Fault::RefusedDrawWantsNothing) {
                    self.request(u32::try_from(values).unwrap_or(u32::MAX).min(RESERVED_MAX));
                }
                Err(SequenceRefusal::Busy { waited_ms: 0 })
            }
            WaitPolicy::Wait | WaitPolicy::Error => Ok(()),
        }
    }

    /// Makes a fetch reserve at least so many values for draws that may not wait.
    fn request(&mut self, values: u32) {
        let busy = self.busy_mut();
        busy.requested = busy.requested.max(values);
    }

    /// Returns the refusal of a draw that has waited as long as it may.
    pub fn after_wait(&self, waited_ms: u64) -> SequenceRefusal {
        match self.trouble() {
            Some(FetchTrouble::Failing { reason, .. }) => SequenceRefusal::Store(Arc::clone(reason)),
            _ => SequenceRefusal::Busy { waited_ms: waited_ms.max(1) },
        }
    }

    /// Enqueues a draw for `asks`, which are not empty.
    pub fn join(&mut self, asks: Vec<SequenceRequest>, payload: T) -> WaiterId {
        self.enqueue(asks, false, payload)
    }

    /// Enqueues a draw of one range, which may have fewer values at the max.
    pub fn join_range(&mut self, values: u32, payload: T) -> WaiterId {
        self.enqueue(alloc::vec![SequenceRequest { values, times: 1 }], true, payload)
    }

    fn enqueue(&mut self, asks: Vec<SequenceRequest>, is_range: bool, payload: T) -> WaiterId {
        let waiter = self.boundary();
        self.joined = self.joined.wrapping_add(1);
        if self.joined == 0 {
            self.rare.get_or_insert_default().joined_high += 1;
        }
        self.busy_mut().waiting.join(waiter, asks, is_range, payload);
        waiter
    }

    /// Returns the number of draws that ever waited.
    fn waits(&self) -> u64 {
        u64::from(self.rare.as_deref().map_or(0, |rare| rare.joined_high)) << 32 | u64::from(self.joined)
    }

    /// Returns the ticket of the next draw that joins.
    fn boundary(&self) -> WaiterId {
        WaiterId(self.waits())
    }

    /// Cancels a waiting draw; `None` if it was served or refused already. Values that it already got are lost.
    ///
    /// Call [`Sequence::serve`] next: there may be enough for the draws behind it.
    pub fn leave(&mut self, waiter: WaiterId) -> Option<T> {
        if planted(Fault::LeaverStays) {
            return None;
        }
        let payload = self.busy.as_mut()?.waiting.leave(waiter);
        self.forget_busy();
        payload
    }

    /// Returns true if a fetch should begin now.
    #[inline]
    pub fn wants_fetch(&self, now_ms: u64) -> bool {
        match self.asking() {
            FetchState::InFlight(_) => false,
            FetchState::Pausing { until_ms } if now_ms < until_ms => false,
            FetchState::Idle | FetchState::Pausing { .. } => self.lacks_values(),
        }
    }

    /// Returns the end of a pause after which a fetch should begin.
    #[inline]
    pub fn retry_at_ms(&self) -> Option<u64> {
        match self.asking() {
            FetchState::Pausing { until_ms } if self.lacks_values() => Some(until_ms),
            _ => None,
        }
    }

    #[inline]
    fn lacks_values(&self) -> bool {
        let is_asked = self.busy.as_deref().is_some_and(|busy| !busy.waiting.is_empty() || busy.requested > 0);
        is_asked || self.fetch_at.is_some_and(|at| self.ahead().left() == 0 && self.current.left() <= at.get())
    }

    #[inline]
    fn has_waiters(&self) -> bool {
        self.busy.as_deref().is_some_and(|busy| !busy.waiting.is_empty())
    }

    /// Begins a fetch, if one is wanted, and returns it. Pass its answer to [`Sequence::fetched`].
    pub fn begin_fetch(&mut self, now_ms: u64, policy: &SequencePolicy) -> Option<Fetch> {
        if !self.wants_fetch(now_ms) {
            return None;
        }
        let lately = self.rate.unsampled();
        self.rate.sample(now_ms);
        let busy = self.busy_mut();
        let (missing, largest) = busy.waiting.missing();
        let missing = missing.saturating_add(core::mem::take(&mut busy.requested).into());
        let cache = self.cache.map_or(0, OptCount::get);
        let is_failing = matches!(self.trouble(), Some(FetchTrouble::Failing { .. }));
        let values = if self.is_uncached() || self.cache.is_none() {
            // For an unknown sequence reserve no more than the waiting draws need: it may have `cache 0`.
            missing
        } else if is_failing && !planted(Fault::RetriesByDemand) {
            missing.max(cache)
        } else {
            let demand = self.by_demand(now_ms, lately, policy).min(1 << self.demand_max_log2);
            demand.max(cache).saturating_add(missing)
        };
        let values = u32::try_from(values).unwrap_or(u32::MAX).clamp(1, RESERVED_MAX).max(largest);
        let asked = FetchInFlight { since_ms: now_ms, values, before: self.boundary(), changes: self.changes };
        self.busy_mut().asking = FetchState::InFlight(asked);
        Some(Fetch { values, floor: self.floor })
    }

    /// Returns the number of values that will be used while a segment is to last.
    fn by_demand(&self, now_ms: u64, lately: u64, policy: &SequencePolicy) -> u64 {
        let steady = self.rate.values_in(policy.ride_out_ms);
        let is_short = self.fetched.get_ms().is_some_and(|fetched| now_ms.saturating_sub(fetched) < SHORT_MS);
        let is_growing = is_short && !planted(Fault::SegmentsDoNotGrow);
        let grown = if is_growing { u64::from(self.segment_values).min(lately) * GROWTH } else { 0 };
        // A segment lasts for several fetches, whatever the policy.
        steady.max(grown).max(self.rate.values_in(4 * u64::from(self.slowest_ms)))
    }

    /// Handles the answer to the fetch in flight. Call [`Sequence::serve`] next.
    pub fn fetched(&mut self, now_ms: u64, answer: Fetched) -> FetchVerdict {
        let asked = match self.asking() {
            FetchState::InFlight(asked) => asked,
            FetchState::Idle | FetchState::Pausing { .. } if planted(Fault::UninvitedAnswerIsUsed) => {
                FetchInFlight { since_ms: now_ms, values: 1, before: self.boundary(), changes: self.changes }
            }
            // An answer without a fetch in flight is not used.
            FetchState::Idle | FetchState::Pausing { .. } => return FetchVerdict::Outdated,
        };
        self.busy_mut().asking = FetchState::Idle;
        match answer {
            Fetched::Reserved { store, segment, version, generation, spec, end } => {
                // Statements have deadlines of seconds, so the time fits.
                self.took_ms = u16::try_from(now_ms.saturating_sub(asked.since_ms)).unwrap_or(u16::MAX);
                self.slowest_ms = self.took_ms.max(self.slowest_ms - self.slowest_ms / 8);
                let held = HeldSegment::of(segment, store);
                let taken = self.reserved(now_ms, held, version, generation, spec, asked);
                if taken == FetchVerdict::Yes {
                    self.note_end(end);
                }
                taken
            }
            Fetched::Refused(_) if asked.changes != self.changes => FetchVerdict::Outdated,
            Fetched::Refused(refusal) => {
                self.judged(now_ms, refusal);
                FetchVerdict::Yes
            }
            Fetched::Failed { is_unknown, reason } => {
                self.fail(now_ms, is_unknown, reason);
                FetchVerdict::Yes
            }
        }
    }

    /// Fetches nothing before the next draw, if no values are left: the row was created for the last one, and a name
    /// that is used once costs one fetch.
    pub fn rest_after_creation(&mut self) {
        if self.left() == 0 {
            self.fetch_at = None;
        }
    }

    fn judged(&mut self, now_ms: u64, refusal: SequenceRefusal) {
        self.fetch_at = None;
        match refusal {
            // The row of the held values is gone, or cannot be trusted.
            SequenceRefusal::NoSuch | SequenceRefusal::Lost { .. } | SequenceRefusal::WentBack
                if !planted(Fault::VerdictKeepsValues) =>
            {
                self.throw_away();
            }
            SequenceRefusal::Dropped { .. } => {
                self.throw_away();
                // A new row with this name sets where it begins.
                self.floor = 0;
            }
            _ => {}
        }
        let until_ms = if planted(Fault::VerdictLastsForEver) { u64::MAX } else { now_ms + VERDICT_MS };
        let busy = self.busy_mut();
        (busy.requested, busy.trouble) = (0, Some(FetchTrouble::Verdict { until_ms, refusal }));
    }

    fn fail(&mut self, now_ms: u64, is_unknown: bool, reason: Arc<str>) {
        let rare = self.rare.get_or_insert_default();
        rare.errors = rare.errors.saturating_add(1);
        // It may have been done: then the row is not as this server left it.
        if is_unknown && !planted(Fault::UnknownTailIsGivenBack) {
            self.version = OptU64::NONE;
        }
        let (since_ms, times) = match self.trouble() {
            Some(FetchTrouble::Failing { since_ms, times, .. }) => (*since_ms, times.saturating_add(1)),
            _ => (now_ms, 1),
        };
        let (first_ms, last_ms) = BACK_OFF_MS;
        let first_ms = if planted(Fault::NoBackOff) { 0 } else { first_ms };
        let pause_ms = (first_ms << (times - 1).min(16)).min(last_ms);
        let busy = self.busy_mut();
        busy.trouble = Some(FetchTrouble::Failing { since_ms, times, reason });
        busy.asking = FetchState::Pausing { until_ms: now_ms + pause_ms };
    }

    fn reserved(
        &mut self,
        now_ms: u64,
        held: HeldSegment,
        version: u64,
        generation: u64,
        spec: Spec,
        asked: FetchInFlight,
    ) -> FetchVerdict {
        let HeldSegment { first, last, increment, .. } = held;
        if generation < self.generation_of(held.store) && !planted(Fault::OlderAnswerIsUsed) {
            self.version = OptU64::NONE;
            return if asked.changes == self.changes { self.backwards(asked) } else { FetchVerdict::Outdated };
        }
        self.set_generation(held.store, generation);
        if held.left() == 0 {
            (self.cache, self.policy) = (Some(OptCount::of(spec.cache.into())), spec.policy);
            self.used_share = spec.used_share(spec.max);
            self.is_at_max = true;
            self.judged(now_ms, SequenceRefusal::AtMax { max: spec.max });
            return FetchVerdict::Yes;
        }
        if first < self.floor && !planted(Fault::LowerSegmentIsUsed) {
            self.version = OptU64::NONE;
            return self.backwards(asked);
        }
        if !planted(Fault::FloorIsForgotten) {
            self.floor = last.saturating_add(i64::from(increment));
        }
        self.version = OptU64::of(version);
        (self.cache, self.policy) = (Some(OptCount::of(spec.cache.into())), spec.policy);
        self.busy_mut().trouble = None;
        self.fetched = CoarseTime::of(now_ms);
        self.segment_values = u32::try_from(held.left()).unwrap_or(u32::MAX);
        self.used_share = spec.used_share(last);
        self.is_at_max = last.saturating_add(i64::from(increment)) > spec.max;
        let rest = spec.max.saturating_sub(last).unsigned_abs() / u64::from(increment.max(1));
        let share = if planted(Fault::OneServerHoldsTheRest) { rest } else { rest / SHARE_OF_REST };
        self.demand_max_log2 = u8::try_from(share.checked_ilog2().unwrap_or(0)).unwrap_or(63);
        if spec.cache == 0 && !planted(Fault::EarlierCacheIsGiven) {
            // Values left by an earlier cache may be lower than those that other servers have given since.
            self.throw_away();
        }
        self.hold(held);
        let left = self.left();
        let busy = self.busy_mut();
        if u64::from(busy.requested) <= left {
            busy.requested = 0;
        }
        if spec.cache == 0 {
            // Draws that came later need a fetch of their own.
            self.fetch_at = None;
            self.busy_mut().asking = FetchState::InFlight(asked);
        } else {
            let fetches = self.rate.values_in(2 * u64::from(self.slowest_ms));
            let is_forgotten = planted(Fault::NothingIsFetchedAhead);
            self.fetch_at = Some(OptCount::of((held.left() / 2).max(fetches))).filter(|_| !is_forgotten);
        }
        FetchVerdict::Yes
    }

    /// Records the end in a reserved row. Of several stores, the earliest end counts until a generation changes.
    fn note_end(&mut self, end: Option<RowEnd>) {
        let is_earlier = |known: &RowEnd| end.is_none_or(|end| known.unix_ms < end.unix_ms);
        if !self.is_end_known || !self.end().as_ref().is_some_and(is_earlier) {
            self.set_end(end);
        }
        self.is_end_known = true;
    }

    #[inline]
    fn end(&self) -> Option<RowEnd> {
        self.rare.as_deref().and_then(|rare| rare.end)
    }

    fn set_end(&mut self, end: Option<RowEnd>) {
        if end.is_some() || self.rare.is_some() {
            self.rare.get_or_insert_default().end = end;
        }
    }

    fn forget_end(&mut self) {
        self.set_end(None);
        self.is_end_known = false;
    }

    /// Returns true if the end of the row has come. Held values are then kept, and not given.
    #[inline]
    fn has_ended(&self, now_ms: u64) -> bool {
        self.end().is_some_and(|end| end.at_ms <= now_ms) && !planted(Fault::EndIsIgnored)
    }

    /// Notices that the end has come. The verdict lasts as long as one of the store, which then decides.
    fn note_ended(&mut self, now_ms: u64) {
        if self.is_end_known
            && self.has_ended(now_ms)
            && let Some(unix_ms) = self.end().map(|end| end.unix_ms)
        {
            self.is_end_known = false;
            self.judged(now_ms, SequenceRefusal::Ended { unix_ms });
        }
    }

    /// Returns the end of the row, with `None` in it for a row without one; `None` if the end is unknown.
    pub fn known_end(&self) -> Option<Option<RowEnd>> {
        self.is_end_known.then(|| self.end())
    }

    /// Records the end that this server has written into a store's row, which then had this version and generation. If
    /// the row had no other change in between, held values stay valid. Returns true if they were discarded.
    pub fn end_changed(&mut self, store: u8, version: u64, generation: u64, end: Option<RowEnd>) -> bool {
        let known = self.generation_of(store);
        if generation <= known {
            return false;
        }
        let is_next = generation == known + 1;
        if is_next || planted(Fault::EndChangeKeepsOlderValues) {
            let is_own = self.version.get().is_some_and(|own| own + 1 == version);
            self.replace_generation(store, generation);
            self.version = if is_own { OptU64::of(version) } else { OptU64::NONE };
        } else {
            self.set_generation(store, generation);
        }
        self.forget_verdict();
        self.set_end(end);
        self.is_end_known = true;
        !is_next
    }

    fn backwards(&mut self, asked: FetchInFlight) -> FetchVerdict {
        self.busy_mut().asking = FetchState::InFlight(asked);
        FetchVerdict::Backwards { floor: self.floor }
    }

    /// Appends a segment to the held ones.
    fn hold(&mut self, held: HeldSegment) {
        if self.current.left() == 0 {
            self.advance();
        }
        let has_ahead = self.ahead().left() > 0;
        let end = match self.ahead.as_deref_mut() {
            Some(ahead) if has_ahead => ahead,
            _ => &mut self.current,
        };
        if end.left() == 0 {
            *end = held;
        } else if end.store == held.store
            && (end.segment().adjoins(&held.segment()) || planted(Fault::JoinsWhatDoesNotAdjoin))
        {
            end.last = held.last;
        } else {
            if has_ahead {
                // The waiting draw needs more than the first segment has left.
                self.advance();
            }
            self.ahead = Some(Box::new(held));
        }
        if planted(Fault::SecondSegmentFirst)
            && let Some(ahead) = self.ahead.as_deref_mut().filter(|ahead| ahead.left() > 0)
        {
            core::mem::swap(&mut self.current, ahead);
        }
    }

    /// Serves waiting draws from held values, in rounds of slices; after a verdict, refuses those that get none.
    pub fn serve(&mut self, now_ms: u64, done: &mut dyn FnMut(T, Result<Vec<Run>, SequenceRefusal>)) {
        self.note_ended(now_ms);
        let is_uncached = self.is_uncached();
        if let Some(mut busy) = self.busy.take() {
            let before = match busy.asking {
                // With `cache 0` the fetch was for the draws before it.
                FetchState::InFlight(asked) if is_uncached && self.current.left() > 0 => {
                    busy.asking = FetchState::Idle;
                    if planted(Fault::ServesThoseWhoCameLater) { None } else { Some(asked.before) }
                }
                _ => None,
            };
            self.serve_waiting(now_ms, before.unwrap_or(self.boundary()), &mut busy, done);
            self.busy = Some(busy);
            self.forget_busy();
        }
        if is_uncached && !planted(Fault::KeepsTheRestOfCache0) {
            self.throw_away();
        }
    }

    fn serve_waiting(
        &mut self,
        now_ms: u64,
        before: WaiterId,
        busy: &mut BusyState<T>,
        done: &mut dyn FnMut(T, Result<Vec<Run>, SequenceRefusal>),
    ) {
        let BusyState { waiting, trouble, .. } = busy;
        let has_ended = self.has_ended(now_ms);
        let verdict = match trouble {
            Some(FetchTrouble::Verdict { until_ms, refusal }) if now_ms < *until_ms => Some(&*refusal),
            _ => None,
        };
        loop {
            let take = |ask: SequenceRequest, is_range: bool, runs: &mut Vec<Run>| {
                let left = if has_ended { ask.times } else { self.take(ask, runs) };
                if left > 0 && is_range && !has_ended { self.take_rest(ask, runs) } else { left }
            };
            waiting.serve(before, take, &mut |payload, runs| done(payload, Ok(runs)));
            // There is too little for the draw whose turn it is. There may be enough for others.
            let Some(refusal) = verdict else { break };
            if planted(Fault::MaxRefusesEverybody) {
                waiting.drain().for_each(|payload| done(payload, Err(refusal.clone())));
            }
            let Some(payload) = waiting.next_leaves() else { break };
            done(payload, Err(refusal.clone()));
        }
    }

    /// Refuses all waiting draws: the server stops, or the store is gone.
    pub fn refuse(&mut self, refusal: &SequenceRefusal, done: &mut dyn FnMut(T, Result<Vec<Run>, SequenceRefusal>)) {
        if let Some(busy) = &mut self.busy {
            busy.waiting.drain().for_each(|payload| done(payload, Err(refusal.clone())));
        }
        self.forget_busy();
    }

    /// Returns the held segment with the highest values.
    fn end_segment(&self) -> HeldSegment {
        let ahead = self.ahead();
        if ahead.left() > 0 { ahead } else { self.current }
    }

    /// Returns the number of held values.
    fn left(&self) -> u64 {
        self.current.left() + self.ahead().left()
    }

    fn throw_away(&mut self) {
        (self.current, self.ahead) = (HeldSegment::EMPTY, None);
    }

    /// Returns the generation under which values of a store are valid.
    pub fn generation_of(&self, store: u8) -> u64 {
        match self.rare.as_deref().and_then(|rare| rare.generations.as_ref()) {
            Some(all) => all.get(usize::from(store)).copied().unwrap_or_default(),
            None if store == 0 => self.generation,
            None => 0,
        }
    }

    /// Returns the generations of all stores, if there is more than one.
    fn generations_mut(&mut self) -> Option<&mut [u64; STORES_MAX]> {
        self.rare.as_deref_mut().and_then(|rare| rare.generations.as_mut())
    }

    /// Records the generation of this store's row, and discards values of older ones. Returns true if the generation is
    /// new.
    pub fn set_generation(&mut self, store: u8, generation: u64) -> bool {
        if generation <= self.generation_of(store) {
            return false;
        }
        self.replace_generation(store, generation);
        (self.is_end_known, self.is_at_max) = (false, false);
        // Values of other stores are not given after the end.
        if self.generations_mut().is_none() {
            self.set_end(None);
        }
        if planted(Fault::GenerationIsIgnored) {
            return true;
        }
        self.forget_store(store);
        // The verdict was about the former row.
        self.forget_verdict();
        true
    }

    fn replace_generation(&mut self, store: u8, generation: u64) {
        if store > 0 {
            let mut all = [0; STORES_MAX];
            all[0] = self.generation;
            self.rare.get_or_insert_default().generations.get_or_insert(all);
        }
        self.changes = self.changes.wrapping_add(1);
        match self.generations_mut() {
            None => self.generation = generation,
            Some(all) => {
                if let Some(known) = all.get_mut(usize::from(store)) {
                    *known = generation;
                }
            }
        }
    }

    /// Records that the row was created again, and begins with `next`: that may be below values of the former row,
    /// which was dropped. A verdict on that row, which may still arrive, is ignored.
    pub fn recreated(&mut self, next: i64) {
        self.throw_away();
        self.forget_end();
        (self.floor, self.last_given, self.version) = (next, OptU64::NONE, OptU64::NONE);
        (self.fetch_at, self.cache, self.used_share) = (None, None, SHARE_UNKNOWN);
        self.is_at_max = false;
        self.changes = self.changes.wrapping_add(1);
        self.forget_verdict();
    }

    /// Discards the values of a store: its row may have changed unnoticed.
    pub fn forget_store(&mut self, store: u8) {
        for held in self.held_mut().filter(|held| held.store == store) {
            *held = HeldSegment::EMPTY;
        }
        if self.current.left() == 0 {
            self.advance();
        }
        self.version = OptU64::NONE;
    }

    /// Discards the values of a store that lost writes, and its generation, which may be lost as well.
    pub fn lose_store(&mut self, store: u8) {
        self.forget_store(store);
        self.forget_end();
        match self.generations_mut() {
            Some(generations) => {
                if let Some(generation) = generations.get_mut(usize::from(store)) {
                    *generation = 0;
                }
            }
            None if store == 0 => self.generation = 0,
            None => {}
        }
    }

    /// Skips the values up to `last`, if all of the row's end is held here and no other server has a part in it. Only
    /// for a store that is not shared. Returns false, and changes nothing, if it is not.
    pub fn skip_to(&mut self, last: i64) -> bool {
        let held = self.end_segment();
        let is_own = self.version.get().is_some() && matches!(self.asking(), FetchState::Idle);
        let is_end = (is_own || planted(Fault::SkipsWhatOthersHave)) && held.left() > 0;
        let is_known = self.cache.is_some_and(|cache| cache.get() > 0) && !self.has_waiters();
        let next = if self.current.left() > 0 { self.current } else { self.ahead() };
        // While nothing was given here, other servers have had all lower values.
        let lowest = self.last_given().unwrap_or(next.first - i64::from(next.increment));
        let lowest = if planted(Fault::SkipGoesBack) { 0 } else { lowest };
        if !is_end || !is_known || last > held.last || last < lowest {
            return false;
        }
        self.skip(last);
        self.last_given = OptU64::of(last.unsigned_abs());
        true
    }

    /// Discards the values up to `last`.
    fn skip(&mut self, last: i64) {
        for held in self.held_mut().filter(|held| last >= held.first) {
            let increment = i64::from(held.increment);
            let steps = (last.min(held.last) - held.first) / increment + 1;
            held.first = held.first.saturating_add(steps * increment);
        }
    }

    /// Returns the last value given here.
    #[inline]
    pub fn last_given(&self) -> Option<i64> {
        self.last_given.get().and_then(|last| i64::try_from(last).ok())
    }

    /// Returns the number of values given since the sequence was loaded.
    pub fn used(&self) -> u64 {
        self.rate.used()
    }

    /// Records that this server has raised a row. The values up to `last` count as given here, under any generation,
    /// and a store without this raise has gone back.
    pub fn note_given(&mut self, last: i64) {
        if !planted(Fault::RaiseIsForgotten) {
            self.skip(last);
            self.floor = self.floor.max(last.saturating_add(1));
        }
        if self.last_given().is_none_or(|given| given < last) {
            self.last_given = OptU64::of(last.unsigned_abs());
        }
    }

    /// Discards the held values, at a clean stop or because the sequence leaves memory, and returns those to give back.
    ///
    /// Returns `None` unless the row's end is known to be this server's: with a fetch in flight or of unknown outcome
    /// it is not.
    pub fn give_back(&mut self) -> Option<Remainder> {
        let is_settled = !matches!(self.asking(), FetchState::InFlight(_)) || planted(Fault::GivesBackInFlight);
        let end = self.end_segment();
        let (version, values) = (self.version.get(), end.left());
        let first = self.current;
        let skipped = (self.ahead().left() > 0 && first.left() > 0)
            .then(|| first.last.saturating_add(i64::from(first.increment)));
        if !planted(Fault::GivesBackAgain) {
            self.version = OptU64::NONE;
        }
        if !planted(Fault::GivesBackAndKeeps) && !planted(Fault::GivesBackAgain) {
            self.throw_away();
        }
        self.fetch_at = None;
        if !is_settled || values == 0 {
            return None;
        }
        let version = version?;
        let had_next = skipped.or(self.last_given().map(|last| last.saturating_add(1)));
        // These values may be reserved again.
        self.floor = had_next.unwrap_or(0);
        Some(Remainder { store: end.store, version, next: end.first, values, had_next })
    }

    /// Makes the first segment be fetched before a request needs it, for a sequence of unknown state whose row has this
    /// `cache`.
    pub fn fetch_ahead(&mut self, cache: u32) {
        if self.cache.is_none() && cache > 0 {
            (self.cache, self.fetch_at) = (Some(OptCount::of(cache.into())), Some(OptCount::of(0)));
        }
    }

    /// Returns true if there was no request for long, and no fetch is under way.
    pub fn is_idle(&mut self, now_ms: u64) -> bool {
        self.rate.sample(now_ms);
        let is_quiet = !self.has_waiters() && !matches!(self.asking(), FetchState::InFlight(_));
        is_quiet && self.rate.quiet_ms(now_ms) >= IDLE_MS
    }

    /// Returns true if it holds values, which would be lost if it left memory as it is.
    pub fn holds_values(&self) -> bool {
        self.left() > 0
    }

    /// Returns its state for INFO.
    pub fn status(&mut self, now_ms: u64) -> SequenceStatus {
        self.rate.sample(now_ms);
        let end = self.end_segment();
        SequenceStatus {
            last_given: self.last_given(),
            reserved_until: (end.left() > 0).then_some(end.last),
            left: self.left() + self.busy.as_deref().map_or(0, |busy| busy.waiting.given()),
            asked: if let FetchState::InFlight(asked) = self.asking() { asked.values } else { 0 },
            used: self.rate.used(),
            per_s: self.rate.per_s(),
            is_uncached: self.is_uncached(),
            used_share: Some(self.used_share).filter(|&share| share != SHARE_UNKNOWN),
            segment_values: self.segment_values,
            fetched_ms: self.fetched.get_ms(),
            fetch_took_ms: self.took_ms.into(),
            waits: u32::try_from(self.waits()).unwrap_or(u32::MAX),
            waiting: self.busy.as_deref().map_or(0, |busy| busy.waiting.len()),
            errors: self.rare.as_deref().map_or(0, |rare| rare.errors),
        }
    }

    /// Returns the `cache` of its row; [`CACHE_DEFAULT`] while that is unknown.
    pub fn cache(&self) -> u32 {
        self.cache.map_or(CACHE_DEFAULT, |cache| u32::try_from(cache.get()).unwrap_or(u32::MAX))
    }

    /// Returns true if each value is in the store before its reply, by the last known options.
    #[inline]
    fn is_uncached(&self) -> bool {
        self.cache.is_some_and(|cache| cache.get() == 0)
    }
}

/// Appends a run, merged with the last one if it continues that.
#[inline]
fn push(runs: &mut Vec<Run>, run: Run) {
    if let Some(last) = runs.last_mut()
        && last.values == run.values
        && last.increment == run.increment
        && last.last_of(last.times - 1).checked_add(i64::from(run.increment)) == Some(run.first)
        && let Some(times) = last.times.checked_add(run.times)
    {
        last.times = times;
        return;
    }
    runs.push(run);
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const ONE: SequenceRequest = SequenceRequest { values: 1, times: 1 };
    const POLICY: SequencePolicy = SequencePolicy { ride_out_ms: 1_000, waits: WaitPolicy::Wait };

    /// A fetch and its draws have boxes; a million sequences at rest have none.
    #[test]
    fn a_sequence_at_rest_needs_no_memory_beside_its_own() {
        let mut sequence: Sequence<u8> = Sequence::new(0);
        for now_ms in 0..1_000 {
            if sequence.draw(now_ms, ONE, &mut Vec::new()) > 0 {
                sequence.join(vec![ONE], 0);
            }
            if let Some(fetch) = sequence.begin_fetch(now_ms, &POLICY) {
                let segment = Segment { first: fetch.floor.max(1), last: fetch.floor + 100, increment: 1 };
                let (store, version, generation, spec, end) = (0, now_ms, 1, Spec::default(), None);
                sequence.fetched(now_ms, Fetched::Reserved { store, segment, version, generation, spec, end });
                sequence.serve(now_ms, &mut |_, _| {});
                assert!(sequence.busy.is_none() && sequence.rare.is_none() && sequence.ahead.is_none(), "{sequence:?}");
            }
        }
        assert!(sequence.used() >= 999);
    }

    #[test]
    fn tickets_stay_in_order_when_the_low_half_of_their_number_begins_again() {
        let mut sequence: Sequence<u8> = Sequence::new(0);
        sequence.joined = u32::MAX;
        let tickets = [1, 2].map(|payload| sequence.join(vec![ONE], payload));
        assert!(tickets[0] < tickets[1] && sequence.boundary() > tickets[1], "{tickets:?}");
        assert_eq!([1, 0].map(|at| sequence.leave(tickets[at])), [Some(2), Some(1)]);
    }
}
