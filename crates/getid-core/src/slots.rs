//! Slots: the only number that moves for every ID.
//!
//! A draw of `n` IDs is one line, for any `n` and however busy the millisecond is:
//!
//! ```text
//! first = max(next, now_tick << shard_range);   next = first + n
//! ```
//!
//! Tick and shard are one counter, so a full millisecond carries into the next one as in addition, and nothing can
//! spill into the server's bits. [`crate::mint`] decides how far ahead of the clock `next` may run, and what must be on
//! disk before; it passes a ceiling.
//!
//! Invariant: `next` only grows while IDs are given, and every slot given lies below `next` and below the end of the
//! 42 bits.

use crate::checks::{Fault, Rare, any_planted, planted, saw};
use crate::scheme::Reservation;
use crate::time::{Slot, Tick};

/// Next slot and counts of IDs given.
#[derive(Clone, Debug)]
pub struct Slots {
    shard_bits: u32,
    next: Slot,
    /// Number of IDs given. Once a lane was open it is correct only modulo the random cycle's period.
    count: u64,
    /// Number of IDs given by [`Slots::reserve`].
    reserved: u64,
    /// Number of IDs given by lanes.
    by_lanes: u64,
}

impl Slots {
    /// Begins at `position`: no slot below it is given.
    pub fn new(shard_bits: u32, position: Tick) -> Slots {
        let next = Slot::first_of(position.min(Tick::END), shard_bits);
        Slots { shard_bits, next, count: 0, reserved: 0, by_lanes: 0 }
    }

    /// Returns the number of IDs given so far.
    #[inline]
    pub fn given(&self) -> u64 {
        self.reserved + self.by_lanes
    }

    /// Returns the number of IDs given before the next one, modulo the random cycle's period.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the first slot of a draw at `now`.
    #[inline]
    pub fn first(&self, now: Tick) -> Slot {
        if planted(Fault::ForgetsNext) {
            return Slot::first_of(now.min(Tick::END), self.shard_bits);
        }
        // END << 21 is 2^63: no overflow.
        self.next.max(Slot::first_of(now.min(Tick::END), self.shard_bits))
    }

    /// Returns the first slot that was not given; the clock may already be past it.
    #[inline]
    pub fn next(&self) -> Slot {
        self.next
    }

    /// Returns how far the next slot is ahead of `tick`, ms.
    pub fn ahead_ms(&self, tick: Tick) -> u64 {
        self.next.tick(self.shard_bits).ms_since(tick)
    }

    /// Returns the first tick without an ID: a tick that is partly used counts as used.
    pub fn position(&self) -> Tick {
        let mask = if planted(Fault::PositionRoundsDown) { 0 } else { (1 << self.shard_bits) - 1 };
        Tick((self.next.0 + mask) >> self.shard_bits)
    }

    /// Returns how many slots a draw at `now` could have below `ceiling` (exclusive; at most the end of the 42 bits).
    #[inline]
    pub fn room(&self, now: Tick, ceiling: Tick) -> u64 {
        let end = Slot::first_of(ceiling.min(Tick::END), self.shard_bits);
        end.0.saturating_sub(self.first(now).0)
    }

    /// Reserves all `n` slots below `ceiling`, or none.
    #[inline]
    pub fn reserve(&mut self, now: Tick, n: u32, ceiling: Tick) -> Option<Reservation> {
        if u64::from(n) > self.room(now, ceiling) {
            return None;
        }
        let first = self.first(now);
        let reservation = Reservation { first, count: self.count, len: n };
        self.next = Slot(first.0 + u64::from(n));
        // 2^64 IDs are 584,000 years at a million a second.
        self.count += u64::from(n);
        self.reserved += u64::from(n);
        debug_assert!(self.next <= Slot::first_of(Tick::END, self.shard_bits), "every slot given fits the 42 bits");
        Some(reservation)
    }

    /// Moves the position up or down, if the clock turns out to have been wrong. Only before the first ID.
    pub(crate) fn reposition(&mut self, position: Tick) {
        assert!(self.given() == 0, "the position moves freely only before the first id");
        self.next = Slot::first_of(position.min(Tick::END), self.shard_bits);
    }

    /// Moves the position up to `position`, never down. Allowed at any time.
    pub(crate) fn skip_to(&mut self, position: Tick) {
        self.next = self.next.max(Slot::first_of(position.min(Tick::END), self.shard_bits));
    }

    /// Skips a slot, which is never given.
    pub(crate) fn skip_one(&mut self) {
        let end = Slot::first_of(Tick::END, self.shard_bits);
        self.next = Slot(self.next.0 + 1).min(end);
    }

    /// Records that a lane was open, and has come to `next`. `count`: IDs given, modulo `period`, which is a power of
    /// two; `by_lanes`: all IDs that the threads have counted on lanes in this life.
    pub(crate) fn follow_lane(&mut self, next: Slot, count: u64, period: u64, by_lanes: u64) {
        debug_assert!(any_planted() || next >= self.next, "a lane goes ahead");
        if next > self.next {
            saw(Rare::DrawnByALane);
        }
        self.next = self.next.max(next);
        self.count += count.wrapping_sub(self.count) & (period - 1);
        self.by_lanes = self.by_lanes.max(by_lanes);
    }
}
