//! Draws on a lane: when the mint allows one, its bounds, and its results. See [`crate::lane`].

use super::Mint;
use crate::checks::{Fault, planted, planted_but_of_lanes};
use crate::lane::{LANE_NS_MAX, Lane, Position};
use crate::time::{Slot, Tick};

impl Mint {
    /// Returns the lane for draws without the lock, and its position; `None`: all draws take the lock. The caller must
    /// call [`Mint::follow_lane`] before it uses the mint again for anything but lines.
    ///
    /// A lane needs a given ID in this life, R as a straight line, and room below the watermark's gate, which is closed
    /// while a lowered watermark is not saved. If a bound is lower than at the last lane, the position moves by a slot.
    pub fn lane(&mut self) -> Option<(Position, Lane)> {
        let shard_bits = self.layout.shard_bits();
        let random_bits = self.layout.random_bits();
        if (self.is_fresh() && !planted(Fault::LaneOpensFresh)) || planted_but_of_lanes() {
            return None;
        }
        let straight = self.clock.straight()?;
        let gate = Slot::first_of(self.gate.min(Tick::LAST), shard_bits);
        if self.slots.next() >= gate {
            return None;
        }
        self.opened.reopen(gate, self.max_borrow_ms, &mut self.slots);
        let position = Position::open(self.slots.next(), self.slots.count(), random_bits)?;
        let held_until_ns = if planted(Fault::LaneOutlivesItsHold) { u64::MAX } else { self.held_until_ns };
        let seen_boot_ns = self.clock.seen_boot_ns();
        // A draw that passes the point where a save is due takes the lock, and reports it once. It is a hint: if
        // another draw opens the lane past that point, no draw reports it, but the keeper checks after its next sample
        // anyway.
        let is_passed = self.is_save_due() || planted(Fault::LaneIgnoresSaveFrom);
        let below = if is_passed { gate } else { gate.min(self.save_from) };
        let lane = Lane {
            below_tick_bits: shard_bits + random_bits,
            random_bits,
            from_boot_ns: straight.from_boot_ns,
            until_boot_ns: straight.end_boot_ns.min(held_until_ns).min(seen_boot_ns.saturating_add(LANE_NS_MAX)),
            offset_ns: straight.offset,
            below: below.0 << random_bits,
            borrow: self.max_borrow_ms << (shard_bits + random_bits),
            piece_max: u64::from(self.piece_max),
        };
        Some((position, lane))
    }

    /// Brings the mint up to date after the lane of [`Mint::lane`] was closed at `position`; `boot_ns` was read after
    /// that. `given`: IDs counted on lanes in this life; `ahead`: the largest of [`LaneDraw`](crate::lane::LaneDraw).
    pub fn follow_lane(&mut self, position: Position, boot_ns: u64, given: u64, ahead: u64) {
        let random_bits = self.layout.random_bits();
        let given = if planted(Fault::LaneIsNotCounted) { 0 } else { given };
        self.slots.follow_lane(position.next(random_bits), position.count(random_bits), 1 << random_bits, given);
        // No draw on the lane has read a later time: R continues from here.
        self.clock.advance(boot_ns);
        // The distance of the last slot's tick.
        let borrow_ms = (ahead >> random_bits).saturating_sub(1) >> self.layout.shard_bits();
        self.highest_borrow_ms = self.highest_borrow_ms.max(borrow_ms);
        debug_assert!(
            planted_but_of_lanes() || self.slots.position() <= self.watermark.lowest(),
            "ticks that lanes gave < watermark"
        );
    }
}
