//! The lane: a draw as one step on one word, in the normal case.
//!
//! A lock costs two locked instructions, and nearly every draw needs few numbers of the mint that seldom change. So the
//! holder of the lock publishes those as a [`Lane`], and beside it the one number that moves, the [`Position`]: the
//! next slot and the place in the random cycle, in one word. A draw then
//!
//! 1. reads the clock,
//! 2. loads the position; if it is closed, takes the lock instead,
//! 3. loads the lane, and calls [`Lane::draw`],
//! 4. exchanges the position for the one after the draw, if it is still the loaded one.
//!
//! A draw that the lane does not allow takes the lock, and the [`Mint`](crate::Mint) decides it. The holder of the lock
//! closes the lane ([`Position::closed`]), brings the position into the mint ([`Mint::follow_lane`]), and does its
//! work. Then it opens the lane that [`Mint::lane`] returns, if there is one.
//!
//! [`Mint::follow_lane`]: crate::Mint::follow_lane
//! [`Mint::lane`]: crate::Mint::lane
//!
//! # Why a draw on an old lane repeats nothing
//!
//! A thread may stand still between any two of its steps. Meanwhile the lane may have been closed, changed and opened
//! again with the same position. Then the exchange succeeds although the loaded lane is old, or partly old. So each
//! number must be harmless when it is old:
//!
//! - **Position.** It only grows while IDs are given, and a lane is opened only in a life that has given one. An
//!   exchange that succeeds means that no ID was given since the position was loaded.
//! - **`below`**, which is the watermark or less, and **`borrow`**. If one of them is lower than when the lane was open
//!   before, or the claim was taken again, the mint moves the position by a slot before it opens the lane. So with the
//!   same position both are at least the loaded values, and the present lane allows the draw. The hint when to save may
//!   come down: only the hint is late then.
//! - **`offset_ns`.** The clock was read before the position was loaded, and R never goes back in a life that has given
//!   an ID. So R as this draw computes it is at most the R of now, and a lower R allows less.
//! - **`from_boot_ns`, `until_boot_ns`.** The reading was within them when it was taken. A draw that ends later equals
//!   one that had the lock in time and whose reply was late.
//! - **`piece_max`** only bounds how long a draw keeps other draws waiting.
//!
//! After the last act the lane stays closed for ever, so the stored position is final.

use crate::checks::{Fault, Rare, planted, saw};
use crate::scheme::Reservation;
use crate::slots::Slots;
use crate::time::Slot;

/// Longest time that a lane is open without the lock, ns. The lock then follows what the clock of the draws has done.
pub(crate) const LANE_NS_MAX: u64 = 1_000_000_000;

/// The bit of a position that marks a closed lane. Positions of an open lane never have it.
const CLOSED: u64 = 1 << 63;

/// Next slot and place in the random cycle, `next << random_bits | place`, and whether the lane is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(u64);

impl Position {
    /// Position of a lane that was never open; it holds nothing else.
    pub const NONE: Position = Position(CLOSED);

    /// Returns the position of an open lane with the next slot `next` after `count` IDs; `None` at the end of the 42
    /// bits.
    pub(crate) fn open(next: Slot, count: u64, random_bits: u32) -> Option<Position> {
        let word = (next.0 << random_bits) | (count & mask(random_bits));
        // A position has 42 bits of tick and 21 below them.
        (word < CLOSED).then_some(Position(word))
    }

    /// Returns the word that threads share.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Returns the position in a shared word.
    #[inline]
    pub const fn of_word(word: u64) -> Position {
        Position(word)
    }

    /// Returns this position with the lane closed.
    #[must_use]
    pub const fn closed(self) -> Position {
        Position(self.0 | CLOSED)
    }

    /// Returns true if the lane is closed.
    #[inline]
    pub const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Returns the next slot.
    pub(crate) const fn next(self, random_bits: u32) -> Slot {
        Slot((self.0 & !CLOSED) >> random_bits)
    }

    /// Returns the number of IDs given, modulo the random cycle's period.
    pub(crate) const fn count(self, random_bits: u32) -> u64 {
        self.0 & mask(random_bits)
    }
}

const fn mask(random_bits: u32) -> u64 {
    (1 << random_bits) - 1
}

/// Bounds of a draw without the lock. Places are in the units of a [`Position`], one slot being `2^random_bits`, so
/// that a draw shifts little; bounds are exclusive unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Number of bits of a position below its tick.
    pub below_tick_bits: u32,
    /// Number of bits of a position below its slot.
    pub random_bits: u32,
    /// First reading of the boot-time clock for which the lane is valid, ns, inclusive.
    pub from_boot_ns: u64,
    /// End of the readings for which the lane is valid, ns.
    pub until_boot_ns: u64,
    /// R less boot time, ns, wrapping.
    pub offset_ns: u64,
    /// End of the slots that may be given.
    pub below: u64,
    /// Largest distance of a slot from the beginning of R's ms.
    pub borrow: u64,
    /// Largest draw, IDs, inclusive.
    pub piece_max: u64,
}

/// A draw that the lane allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneDraw {
    /// The slots that the draw takes, once the position is exchanged.
    pub reservation: Reservation,
    /// The position after it.
    pub position: Position,
    /// End of the draw, counted from the beginning of R's ms, in units of a [`Position`].
    pub ahead: u64,
}

impl Lane {
    /// Returns a draw of all `n` slots at this position and time; `None`: only the mint, under the lock, can decide.
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

/// The bounds with which a lane was opened, for as long as its position may stay the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneOpening {
    gate: Slot,
    borrow_ms: u64,
}

impl LaneOpening {
    /// Bounds before the first lane.
    pub(crate) const NOTHING: LaneOpening = LaneOpening { gate: Slot(0), borrow_ms: 0 };

    /// Bounds after which every new lane moves the position.
    pub(crate) const ANYTHING: LaneOpening = LaneOpening { gate: Slot(u64::MAX), borrow_ms: u64::MAX };

    /// Records the bounds of a lane that is about to open. If an old lane allowed more, `slots` moves by a slot, so
    /// that no draw by the old lane succeeds.
    pub(crate) fn reopen(&mut self, gate: Slot, borrow_ms: u64, slots: &mut Slots) {
        let is_lower = gate < self.gate || borrow_ms < self.borrow_ms;
        if is_lower && !planted(Fault::LowerLaneOpensInPlace) {
            saw(Rare::LaneMovedOn);
            slots.skip_one();
        }
        *self = LaneOpening { gate, borrow_ms };
    }
}
