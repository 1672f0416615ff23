//! A line: where one named generator is, in units of its own, under the R, B and watermark that all share.
//!
//! [`crate::slots`] counts whole ms since the server's epoch, and nothing else may cost an instruction there. A line
//! has its own epoch, unit and widths, so it does the same in general: `first = max(next, now << counter_bits)`, where
//! `now` is the unit that R lies in. The bounds come from the mint as ticks of the server, and a slot lies below a
//! bound if its unit *begins* before it. So a unit that has begun is whole, however long it is, and a line whose unit
//! is a second has the same rules as one whose unit is 100 ns:
//!
//! - It is given only if its unit begins before the watermark and before R + B.
//! - A start at P begins with the first unit that begins at or after P.
//! - The position that is saved is the first ms after the beginning of the last unit that was used.
//!
//! Together: a unit that one life used begins before P, and no later life uses it.
//!
//! Instants are counted in steps of 100 ns since the line's epoch. In an `i64` they reach 29,000 years to either side,
//! from the year 1582 of UUIDs to the end of any server's time.
//!
//! What is not here: the bounds, and what a draw at a bound is told ([`crate::mint`]).

use crate::checks::{Fault, planted};
use crate::scheme::Reservation;
use crate::time::{Epoch, Slot, Tick};

const STEP_NS: u64 = 100;
const STEPS_PER_MS: i64 = 10_000;

/// Years 0 to 9999 and more lie within so many ms of 1970.
const EPOCH_MS_MAX: u64 = 1 << 48;

/// The time and the counter of one named generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSpec {
    /// When its units start to count, Unix time in ms; within 2^48 ms of 1970.
    pub epoch_unix_ms: i64,
    /// Its unit, ns: a multiple of 100, at least 100.
    pub unit_ns: u64,
    /// Width of the time field, 1..=64.
    pub time_bits: u32,
    /// Width of the counter; with the time at most 64.
    pub counter_bits: u32,
    /// A unit that was not borrowed begins with a counter of 0 up to this, by chance; 0: always with 0.
    pub counter_start: u64,
    /// What that chance comes from: random, another in each life.
    pub seed: u64,
}

/// Next slot and IDs given. A slot is `unit << counter_bits | counter`.
///
/// Invariant: `next` only grows while IDs are given; every slot given lies below `next` and below `end`.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    spec: LineSpec,
    /// The unit, in steps.
    unit: u64,
    /// The server's epoch, in steps since the line's.
    origin: i64,
    /// The first unit that no ID can carry: of this layout, or because the server's own time ends.
    end: u64,
    next: u64,
    count: u64,
    /// The largest reservation, B/2 worth.
    piece_max: u32,
}

impl Line {
    /// A line of a server whose ticks count from `server_epoch`. It begins where [`Line::start_at`] says.
    ///
    /// # Panics
    ///
    /// When a number is out of the range that [`LineSpec`] states: it comes from a declaration that was checked.
    pub(crate) fn new(spec: LineSpec, server_epoch: Epoch) -> Line {
        assert!(spec.epoch_unix_ms.unsigned_abs() <= EPOCH_MS_MAX, "an epoch that can be written");
        assert!(spec.unit_ns >= STEP_NS && spec.unit_ns.is_multiple_of(STEP_NS), "a unit of whole steps");
        let widths_fit = (1..=64).contains(&spec.time_bits) && spec.counter_bits <= 64 - spec.time_bits;
        assert!(widths_fit, "time and counter in 64 bits");
        let counter_max = (1_u64 << spec.counter_bits) - 1;
        let spec = LineSpec { counter_start: spec.counter_start.min(counter_max), ..spec };
        // Both are below 2^48 ms and a bit: the difference fits.
        let origin = (server_epoch.unix_ms().cast_signed() - spec.epoch_unix_ms) * STEPS_PER_MS;
        let mut line =
            Line { spec, unit: spec.unit_ns / STEP_NS, origin, end: u64::MAX, next: 0, count: 0, piece_max: 1 };
        // So that the slot after the last one can be counted, a layout of 64 bits goes without its last unit.
        let units = if spec.time_bits == 64 { u64::MAX } else { 1 << spec.time_bits };
        line.end = units.min(u64::MAX >> spec.counter_bits).min(line.first_unit_from(line.steps(Tick::END)));
        line
    }

    /// A tick of the server, in steps since this line's epoch.
    fn steps(&self, tick: Tick) -> i64 {
        tick.0.cast_signed() * STEPS_PER_MS + self.origin
    }

    /// R, in steps since this line's epoch; `None` before it.
    #[inline]
    fn now(&self, now_ns: u64) -> Option<u64> {
        let now = (now_ns / STEP_NS).cast_signed() + self.origin;
        u64::try_from(now).ok()
    }

    /// The first unit that begins at or after `steps`.
    fn first_unit_from(&self, steps: i64) -> u64 {
        let steps = u64::try_from(steps).unwrap_or(0);
        if planted(Fault::LineStartsInsideAUnit) { steps / self.unit } else { steps.div_ceil(self.unit) }
    }

    /// Whether R has not reached this line's epoch.
    pub(crate) fn is_before_epoch(&self, now_ns: u64) -> bool {
        self.now(now_ns).is_none()
    }

    /// The first slot of a draw, `now` in steps.
    #[inline]
    fn first(&self, now: u64) -> u64 {
        let unit = (now / self.unit).min(self.end);
        let begin = unit << self.spec.counter_bits;
        if self.next > begin && !planted(Fault::ForgetsNext) {
            return self.next;
        }
        begin + self.counter_start(unit)
    }

    /// The counter with which a unit begins that was not borrowed. Decided by the unit, so that asking twice is the
    /// same as asking once.
    #[inline]
    fn counter_start(&self, unit: u64) -> u64 {
        if self.spec.counter_start == 0 || unit == self.end {
            return 0;
        }
        scrambled(unit ^ self.spec.seed) % (self.spec.counter_start + 1)
    }

    /// All `n` slots, in units that begin before `ceiling`, or none.
    #[inline]
    pub(crate) fn reserve(&mut self, now_ns: u64, n: u32, ceiling: Tick) -> Option<Reservation> {
        let first = self.first(self.now(now_ns)?);
        let next = first.checked_add(u64::from(n))?;
        let last = (next - 1) >> self.spec.counter_bits;
        // A unit below the end begins before it, in steps, too.
        if last >= self.end || (last * self.unit).cast_signed() >= self.steps(ceiling) {
            return None;
        }
        let reservation = Reservation { first: Slot(first), count: self.count, len: n };
        self.next = next;
        self.count += u64::from(n);
        Some(reservation)
    }

    /// How many slots a draw could have in units that begin before `ceiling`; 0 before the epoch.
    pub(crate) fn room(&self, now_ns: u64, ceiling: Tick) -> u64 {
        let Some(now) = self.now(now_ns) else { return 0 };
        let steps = u64::try_from(self.steps(ceiling)).unwrap_or(0);
        let end = steps.div_ceil(self.unit).min(self.end) << self.spec.counter_bits;
        end.saturating_sub(self.first(now))
    }

    /// The first ms after the beginning of the unit that a draw of `n` ends in: a bound has to be at least that.
    pub(crate) fn position_with(&self, now_ns: u64, n: u32) -> Tick {
        let first = self.first(self.now(now_ns).unwrap_or(0));
        self.after_begin_of(first.saturating_add(u64::from(n.saturating_sub(1))) >> self.spec.counter_bits)
    }

    /// The first ms after the beginning of the last unit that was used, rounded up to whole ms.
    #[inline]
    pub(crate) fn position(&self) -> Tick {
        self.after_begin_of(self.next.saturating_sub(1) >> self.spec.counter_bits)
    }

    #[inline]
    fn after_begin_of(&self, unit: u64) -> Tick {
        let begin = (unit.min(self.end) * self.unit).cast_signed() - self.origin;
        let after = begin.div_euclid(STEPS_PER_MS) + i64::from(!planted(Fault::LinePositionRoundsDown));
        Tick(u64::try_from(after).unwrap_or(0)).min(Tick::END)
    }

    /// How far the unit of the next slot begins after `tick`, ms, rounded up.
    pub(crate) fn ahead_ms(&self, tick: Tick) -> u64 {
        let begin = ((self.next >> self.spec.counter_bits) * self.unit).cast_signed();
        u64::try_from(begin - self.steps(tick)).unwrap_or(0).div_ceil(STEPS_PER_MS.unsigned_abs())
    }

    /// Moves the position, up or down: only while no ID was given.
    pub(crate) fn start_at(&mut self, position: Tick) {
        assert!(self.count == 0, "the position moves freely only before the first id");
        self.next = 0;
        self.skip_to(position);
    }

    /// Moves the position up to the first unit that begins at or after `position`, at any time; never down.
    pub(crate) fn skip_to(&mut self, position: Tick) {
        let unit = self.first_unit_from(self.steps(position)).min(self.end);
        self.next = self.next.max(unit << self.spec.counter_bits);
    }

    /// Slots in `ms`, in whole units, at least one.
    pub(crate) fn slots_in(&self, ms: u64) -> u32 {
        let units = (ms.saturating_mul(STEPS_PER_MS.unsigned_abs()) / self.unit).max(1);
        let slots = u128::from(units) << self.spec.counter_bits;
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// No reservation is larger than half of B from here on.
    pub(crate) fn limit_pieces(&mut self, max_borrow_ms: u64) {
        self.piece_max = self.slots_in(max_borrow_ms / 2);
    }

    /// The largest reservation.
    #[inline]
    pub(crate) fn piece_max(&self) -> u32 {
        self.piece_max
    }

    /// The first slot that was not given; the clock may already be past it.
    pub(crate) fn next(&self) -> Slot {
        Slot(self.next)
    }

    /// IDs given so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// When its units start to count, Unix ms.
    pub(crate) fn epoch_unix_ms(&self) -> i64 {
        self.spec.epoch_unix_ms
    }

    /// What it holds in a second without borrowing.
    pub(crate) fn capacity_per_s(&self) -> u64 {
        let per_s = (1_000_000_000_u128 << self.spec.counter_bits) / u128::from(self.spec.unit_ns);
        u64::try_from(per_s).unwrap_or(u64::MAX)
    }

    /// The last instant that an ID can carry, Unix ms: when the last unit begins.
    pub(crate) fn last_unix_ms(&self) -> i64 {
        let begin_steps = (i128::from(self.end) - 1) * i128::from(self.unit);
        let unix_ms = begin_steps.div_euclid(i128::from(STEPS_PER_MS)) + i128::from(self.spec.epoch_unix_ms);
        i64::try_from(unix_ms).unwrap_or(i64::MAX)
    }
}

/// Every bit of the result depends on every bit of `value` (the finalizer of `SplitMix64`).
#[inline]
fn scrambled(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
