//! Slots: the only number that moves for every ID.
//!
//! Giving `n` IDs is one line, however many and however busy the millisecond is:
//!
//! ```text
//! first = max(next, now_tick << shard_range);   next = first + n
//! ```
//!
//! Tick and shard are one counter, so a full millisecond carries into the next one as in addition, and nothing can
//! spill into the server's bits. How far ahead of the clock `next` may run, and what must be on disk before, is decided
//! by [`crate::mint`], which passes a ceiling.
//!
//! Invariant: `next` only grows while IDs are given, and every slot given lies below `next` and below the end of the
//! 42 bits.

use crate::checks::{Fault, planted};
use crate::scheme::Reservation;
use crate::time::{Slot, Tick};

/// Next slot and IDs given.
#[derive(Clone, Debug)]
pub struct Slots {
    shard_bits: u32,
    next: Slot,
    count: u64,
}

impl Slots {
    /// Begins at `position`: no slot below it is given.
    pub fn new(shard_bits: u32, position: Tick) -> Slots {
        Slots { shard_bits, next: Slot::first_of(position.min(Tick::END), shard_bits), count: 0 }
    }

    /// IDs given so far.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first slot of a draw at `now`.
    #[inline]
    pub fn first(&self, now: Tick) -> Slot {
        if planted(Fault::ForgetsNext) {
            return Slot::first_of(now.min(Tick::END), self.shard_bits);
        }
        // END << 21 is 2^63: no overflow.
        self.next.max(Slot::first_of(now.min(Tick::END), self.shard_bits))
    }

    /// The first slot that was not given; the clock may already be past it.
    #[inline]
    pub fn next(&self) -> Slot {
        self.next
    }

    /// How far the next slot lies ahead of `tick`, ms.
    pub fn ahead_ms(&self, tick: Tick) -> u64 {
        self.next.tick(self.shard_bits).ms_since(tick)
    }

    /// The first tick without an ID: a tick that is partly used counts as used.
    pub fn position(&self) -> Tick {
        let mask = if planted(Fault::PositionRoundsDown) { 0 } else { (1 << self.shard_bits) - 1 };
        Tick((self.next.0 + mask) >> self.shard_bits)
    }

    /// How many slots a draw at `now` could have below `ceiling` (exclusive; at most the end of the 42 bits).
    #[inline]
    pub fn room(&self, now: Tick, ceiling: Tick) -> u64 {
        let end = Slot::first_of(ceiling.min(Tick::END), self.shard_bits);
        end.0.saturating_sub(self.first(now).0)
    }

    /// All `n` slots below `ceiling`, or none.
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
        debug_assert!(self.next <= Slot::first_of(Tick::END, self.shard_bits), "every slot given fits the 42 bits");
        Some(reservation)
    }

    /// Moves the position, up or down: only while no ID was given, when the clock turns out to have been wrong.
    pub(crate) fn reposition(&mut self, position: Tick) {
        assert!(self.count == 0, "the position moves freely only before the first id");
        self.next = Slot::first_of(position.min(Tick::END), self.shard_bits);
    }

    /// Moves the position up to `position`, at any time; never down.
    pub(crate) fn skip_to(&mut self, position: Tick) {
        self.next = self.next.max(Slot::first_of(position.min(Tick::END), self.shard_bits));
    }
}
