//! The lane: a draw as one step on one word, while nothing is special.
//!
//! A lock costs two locked instructions, and nearly every draw needs few numbers of the mint that seldom change. So the
//! holder of the lock publishes those as a [`Lane`], and beside it the one number that moves, the [`Position`]: where
//! the next slot is and how far the random cycle has come, in one word. Whoever draws then
//!
//! 1. reads the clock,
//! 2. loads the position; a closed one means: take the lock,
//! 3. loads the lane, and asks [`Lane::draw`],
//! 4. exchanges the position for the one after the draw, if it is still the one that was loaded.
//!
//! Whatever the lane does not allow goes by the lock, where the [`Mint`](crate::Mint) decides it as ever. Its holder
//! closes the lane ([`Position::closed`]), brings the position into the mint ([`Mint::follow_lane`]), does its work,
//! and opens the lane again with what [`Mint::lane`] says, if it allows one.
//!
//! [`Mint::follow_lane`]: crate::Mint::follow_lane
//! [`Mint::lane`]: crate::Mint::lane
//!
//! # Why a draw by an old lane repeats nothing
//!
//! A thread may stand still between any two of its steps. Meanwhile the lane may have been closed, changed and opened
//! again with the same position, and then the exchange succeeds although the lane is not the one that was loaded, or
//! was loaded in part before the change and in part after it. So each number has to be harmless when it is old:
//!
//! - **Position.** It only grows while IDs are given, and a lane is opened only in a life that has given one. An
//!   exchange that succeeds means that no ID was given since the position was loaded.
//! - **`below`**, which is the watermark or less, and **`borrow`**. Where one of them is lower than when the lane
//!   was open before, or the claim was taken again, the mint moves the position by a slot before it opens the lane. So
//!   with the same position both are at least what was loaded: what is drawn is what the lane of now allows. The hint
//!   when to save may come down: nothing but the hint is late then.
//! - **`offset_ns`.** The clock was read before the position was loaded, and R never goes back in a life that has given
//!   an ID. So R as this draw computes it is at most the R of now, and a lower R allows less.
//! - **`from_boot_ns`, `until_boot_ns`.** The reading was within them when it was taken. A draw that ends later is one
//!   that had the lock in time and whose reply was late.
//! - **`piece_max`** bounds how long a draw occupies others, and nothing else.
//!
//! After the last act the lane stays closed for ever, so the position that it stores is final.

use crate::checks::{Fault, Rare, planted, saw};
use crate::scheme::Reservation;
use crate::slots::Slots;
use crate::time::Slot;

/// No lane is open longer than this without the lock, ns: it sees what the clock that draws are made by has done.
pub(crate) const LANE_NS_MAX: u64 = 1_000_000_000;

/// The bit of a position that says: take the lock. The numbers of an open lane leave it alone.
const CLOSED: u64 = 1 << 63;

/// Next slot and place in the random cycle, `next << random_bits | place`, and whether the lane is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(u64);

impl Position {
    /// That of a lane which was never open: it says nothing but that.
    pub const NONE: Position = Position(CLOSED);

    /// An open lane whose next slot is `next`, `count` IDs being given; `None` at the end of the 42 bits.
    pub(crate) fn open(next: Slot, count: u64, random_bits: u32) -> Option<Position> {
        let word = (next.0 << random_bits) | (count & mask(random_bits));
        // 42 bits of tick and 21 below them.
        (word < CLOSED).then_some(Position(word))
    }

    /// The word that threads share.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// What a shared word says.
    #[inline]
    pub const fn of_word(word: u64) -> Position {
        Position(word)
    }

    /// The same with the lane closed.
    #[must_use]
    pub const fn closed(self) -> Position {
        Position(self.0 | CLOSED)
    }

    /// Whether the lane is closed.
    #[inline]
    pub const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// The next slot.
    pub(crate) const fn next(self, random_bits: u32) -> Slot {
        Slot((self.0 & !CLOSED) >> random_bits)
    }

    /// IDs given, modulo the random cycle's period.
    pub(crate) const fn count(self, random_bits: u32) -> u64 {
        self.0 & mask(random_bits)
    }
}

const fn mask(random_bits: u32) -> u64 {
    (1 << random_bits) - 1
}

/// What a draw without the lock goes by. Places are in the units of a [`Position`], one slot being `2^random_bits`, so
/// that a draw shifts little; bounds are exclusive unless they say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Bits of a position below its tick.
    pub below_tick_bits: u32,
    /// Bits of a position below its slot.
    pub random_bits: u32,
    /// The first reading of the boot-time clock it is good for, ns, inclusive.
    pub from_boot_ns: u64,
    /// The reading from which on it is not, ns.
    pub until_boot_ns: u64,
    /// R less boot time, ns, as a number that wraps.
    pub offset_ns: u64,
    /// No slot from here on is given.
    pub below: u64,
    /// Nor one that lies further than this past the beginning of R's ms.
    pub borrow: u64,
    /// The largest draw, IDs, inclusive.
    pub piece_max: u64,
}

/// A draw that the lane allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneDraw {
    /// What it takes, once the position is exchanged.
    pub reservation: Reservation,
    /// The position after it.
    pub position: Position,
    /// Where it ends, from the beginning of R's ms, as places are told.
    pub ahead: u64,
}

impl Lane {
    /// A draw of all `n` slots at this position and time; `None`: ask the mint, under the lock.
    #[inline]
    pub fn draw(&self, position: Position, boot_ns: u64, n: u32) -> Option<LaneDraw> {
        let is_closed = position.is_closed() && !planted(Fault::ClosedLaneIsUsed);
        let is_in_time = self.from_boot_ns <= boot_ns && boot_ns < self.until_boot_ns;
        let ids = u64::from(n);
        if is_closed || !is_in_time || ids == 0 || ids > self.piece_max {
            return None;
        }
        let mask = mask(self.random_bits);
        // R is below the end of the 42 bits until `until_boot_ns`, and B at most 2^40 ms: the sums have 64 bits.
        let now = (boot_ns.wrapping_add(self.offset_ns) / 1_000_000) << self.below_tick_bits;
        let first = (position.0 & !CLOSED & !mask).max(now);
        let end = first + (ids << self.random_bits);
        if end > (now + self.borrow).min(self.below) {
            return None;
        }
        let step = if planted(Fault::LaneForgetsTheCycle) { 0 } else { ids };
        let count = position.0 & mask;
        Some(LaneDraw {
            reservation: Reservation { first: Slot(first >> self.random_bits), count, len: n },
            position: Position(end | (count.wrapping_add(step) & mask)),
            ahead: end - now,
        })
    }
}

/// What a lane was opened with, for as long as its position may stay the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    gate: Slot,
    borrow_ms: u64,
}

impl Opened {
    /// Before the first lane.
    pub(crate) const NOTHING: Opened = Opened { gate: Slot(0), borrow_ms: 0 };

    /// After what leaves no lane of before as it was.
    pub(crate) const ANYTHING: Opened = Opened { gate: Slot(u64::MAX), borrow_ms: u64::MAX };

    /// A lane is to be opened with these. Where an old one allowed more, `slots` moves on, so that no draw by it
    /// succeeds.
    pub(crate) fn reopen(&mut self, gate: Slot, borrow_ms: u64, slots: &mut Slots) {
        let is_lower = gate < self.gate || borrow_ms < self.borrow_ms;
        if is_lower && !planted(Fault::LowerLaneOpensInPlace) {
            saw(Rare::LaneMovedOn);
            slots.skip_one();
        }
        *self = Opened { gate, borrow_ms };
    }
}
