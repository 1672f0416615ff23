//! Draws by a lane: when the mint allows one, what it may give, and what became of it. See [`crate::lane`].

use super::Mint;
use crate::checks::{Fault, planted, planted_but_of_lanes};
use crate::lane::{LANE_NS_MAX, Lane, Position};
use crate::time::{Slot, Tick};

impl Mint {
    /// What draws may go by without the lock from now on, and from where; `None`: by nothing, because something is
    /// special. The caller says [`Mint::follow_lane`] before it uses the mint again for anything but lines.
    ///
    /// Nothing is special when an ID was given in this life, R is a straight line, the disk has heard of every
    /// watermark that was lowered, and there is room below the watermark. What is lower than at the last lane makes the
    /// position move by a slot.
    pub fn lane(&mut self) -> Option<(Position, Lane)> {
        let shard_bits = self.layout.shard_bits();
        let random_bits = self.layout.random_bits();
        let is_special = (self.is_fresh() && !planted(Fault::LaneOpensFresh))
            || (self.watermark.is_lowering() && !planted(Fault::LaneOpensWhileLowering))
            || planted_but_of_lanes();
        if is_special {
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
        // Who passes where a save is due goes by the lock, and says so once. It is a hint: where the lane is opened
        // past that place by somebody else, nobody says so, and the keeper asks after its next sample all the same.
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

    /// The lane of [`Mint::lane`] was closed at `position`, and `boot_ns` was read after that. `given`: what lanes
    /// gave in this life, as far as it is counted; `ahead`: the largest of [`LaneDraw`](crate::LaneDraw).
    pub fn follow_lane(&mut self, position: Position, boot_ns: u64, given: u64, ahead: u64) {
        let random_bits = self.layout.random_bits();
        let given = if planted(Fault::LaneIsNotCounted) { 0 } else { given };
        self.slots.follow_lane(position.next(random_bits), position.count(random_bits), 1 << random_bits, given);
        // No draw by the lane has read a later time: R goes on from here.
        self.clock.advance(boot_ns);
        // The last slot's tick.
        let borrow_ms = (ahead >> random_bits).saturating_sub(1) >> self.layout.shard_bits();
        self.highest_borrow_ms = self.highest_borrow_ms.max(borrow_ms);
        debug_assert!(
            planted_but_of_lanes() || self.slots.position() <= self.watermark.lowest(),
            "ticks that lanes gave < watermark"
        );
    }
}
