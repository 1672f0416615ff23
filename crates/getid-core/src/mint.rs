//! The mint: slots, reference clock, borrow limit and watermark in one place, so that one lock holds it all.
//!
//! Words (see `CONVENTIONS`): R the reference clock, P the position, B `id-max-borrow-ms`, L `id-watermark-lead-ms`.
//! The rules, all of them on the issuing path and none on a timer:
//!
//! - A tick is given only if it is < the watermark on disk and < R + B.
//! - The watermark is saved as `min(max(P, R) + L, R + B + 200 ms)`, in the background, before P reaches it.
//! - Every life starts at P = max(watermark found, R + B), with a record or without one. Nothing that was given with this
//!   server-id by a right clock lies past R + B: not by the life that crashed, nor in another folder, under `id-state
//!   none`, or on a disk that was rolled back since. That B is the larger of the record's and the configured one, and it
//!   is the limit too until R and the configured one have passed where the life began: a start costs no wait.
//!
//! Invariants, at every instant and whatever a save in flight comes to:
//!
//! ```text
//! issued tick < watermark <= every watermark the disk may hold
//! B in force <= every B the disk may hold
//! ```
//!
//! A save that raises the watermark counts once it has succeeded; one that lowers it counts from the moment it is
//! wished for ([`Mint::sample`] lowers, before [`Mint::wanted_save`] can even be asked), because from then on the disk
//! may hold either. It goes down in two cases only: while this life has given no ID and the clock is put right, and
//! in the last act, [`Mint::close`].
//!
//! What is not here: waiting, waking, log lines and the disk. The mint says what it wants and is told what happened.

use std::fmt;
use std::sync::Arc;

use crate::checks::{Fault, Rare, any_planted, planted, saw};
use crate::clock::{ClockEvent, ClockFault, Reading, ReferenceClock};
use crate::layout::Layout;
use crate::scheme::Reservation;
use crate::slots::Slots;
use crate::time::{Slot, Tick, UtcMs};

/// How far past R + B a watermark may be saved, ms: at the borrow limit, the room that one save makes.
///
/// It is also what a crash at the borrow limit costs: the next life waits that long.
pub const SAVE_SLACK_MS: u64 = 200;

/// At the borrow limit a save is not worth its sync for less than this, ms: ten writes a second at most.
const SAVE_GAIN_MS: u64 = 100;

/// After a save failed, the next is wanted this much later, ns.
const SAVE_RETRY_NS: u64 = 250_000_000;

/// A watermark less than this above its cap is left to be overtaken, ms: the clock's jitter before the first ID.
const LOWER_MS_MIN: u64 = 100;

/// At the borrow limit, a draw is told to come back when this much of it can be had at once, ms: not for every slot.
const WAIT_MS_MAX: u64 = 10;

/// A wait is not shorter than this, ns: timers have whole ms.
const WAIT_NS_MIN: u64 = 1_000_000;

/// A wait is not longer than this, ns: R may be pulled ahead meanwhile.
const WAIT_NS_MAX: u64 = 1_000_000_000;

/// 2^40 ms, 34 years: larger limits say the same, and sums of them can't overflow.
const LIMIT_MS_MAX: u64 = 1 << 40;

/// What may be changed while running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How far IDs may run ahead of R, ms, at least 1 (`id-max-borrow-ms`).
    pub max_borrow_ms: u64,
    /// How far the watermark is kept ahead of the position, ms, `1..=max_borrow_ms` (`id-watermark-lead-ms`).
    ///
    /// Larger means fewer saves and a longer jump after a crash.
    pub lead_ms: u64,
    /// A wall clock ahead by no more is followed at once, ms; 0: by whatever it is ahead (`id-max-clock-jump-ms`).
    pub max_clock_jump_ms: u64,
    /// What happens at the borrow limit (`id-borrow-policy`).
    pub policy: BorrowPolicy,
}

impl Default for Limits {
    /// The directives' defaults.
    fn default() -> Self {
        Limits { max_borrow_ms: 3000, lead_ms: 3000, max_clock_jump_ms: 3_600_000, policy: BorrowPolicy::Wait }
    }
}

/// What happens to a request at the borrow limit (`id-borrow-policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BorrowPolicy {
    /// It waits until time catches up.
    #[default]
    Wait,
    /// It gets an error.
    Error,
}

/// What a record stores beside the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Every tick given out is below it.
    pub watermark: Tick,
    /// R when it was saved.
    pub reference: Tick,
    /// B, ms: no tick was given at or past R + B. The largest limit that this life may have used; 0 says nothing.
    pub max_borrow_ms: u64,
}

impl SavePoint {
    /// What a life stores that found no record and gave no ID: a start finds it as good as none.
    pub const NOTHING: SavePoint = SavePoint { watermark: Tick(0), reference: Tick(0), max_borrow_ms: 0 };

    /// Whether it says that no ID was given so far.
    pub fn is_nothing(&self) -> bool {
        (self.watermark, self.reference) == (Tick(0), Tick(0))
    }

    /// The same instants, in ticks of an epoch that is `shift_ms` earlier; past the 42 bits they stop at [`Tick::END`].
    #[must_use]
    pub fn in_earlier_epoch(self, shift_ms: u64) -> SavePoint {
        if self.is_nothing() {
            return self;
        }
        let (watermark, reference) = (self.watermark.plus_ms(shift_ms), self.reference.plus_ms(shift_ms));
        SavePoint { watermark, reference, ..self }
    }

    /// With every number in its range, whatever a record says.
    fn clamped(self) -> SavePoint {
        SavePoint {
            watermark: self.watermark.min(Tick::END),
            reference: self.reference.min(Tick::END),
            max_borrow_ms: self.max_borrow_ms.min(LIMIT_MS_MAX),
        }
    }

    /// Past both.
    #[must_use]
    pub fn later(self, other: SavePoint) -> SavePoint {
        SavePoint {
            watermark: self.watermark.max(other.watermark),
            reference: self.reference.max(other.reference),
            max_borrow_ms: self.max_borrow_ms.max(other.max_borrow_ms),
        }
    }
}

/// Everything that moves.
#[derive(Clone, Debug)]
pub struct Mint {
    layout: Layout,
    limits: Limits,
    /// Where this life began, and by which B.
    start: Start,
    /// The B in force, ms, on the issuing path.
    max_borrow_ms: u64,
    /// The B that should be in force; it is once the disk holds it.
    wanted_borrow_ms: u64,
    /// The largest B that was configured in this life, from its first ID on.
    highest_borrow_limit_ms: u64,
    /// The lowest B that the disk may hold.
    durable_borrow_ms: u64,
    /// The largest reservation, B/2 worth.
    piece_max: u32,
    slots: Slots,
    clock: ReferenceClock,
    /// The watermark, or 0 while no IDs may be given: the one bound that a draw looks at beside R + B.
    gate: Tick,
    /// The lowest value the disk may hold.
    watermark: Tick,
    /// The highest value the disk may hold.
    highest: Tick,
    /// The watermark was lowered, and a save that began after that has not succeeded yet.
    lowering: bool,
    found: Option<SavePoint>,
    saving: Option<Saving>,
    /// Boot time before which no save is wanted: a save failed.
    retry_at_ns: u64,
    /// A save was wanted: the disk may hold more than was found.
    wanted_any: bool,
    saves: u64,
    save_error: Option<Arc<str>>,
    claim_lost: Option<Arc<str>>,
    closed: bool,
    /// IDs given when the last save was wanted: whether this is a busy server.
    count_at_save: u64,
    /// A draw past this slot makes a save due.
    save_from: Slot,
    highest_borrow_ms: u64,
    refusals: u64,
}

/// Where a life began, or went on after its claim was retaken.
#[derive(Clone, Copy, Debug)]
struct Start {
    position: Tick,
    /// The B that it went by, ms: the larger of the record's and the configured one.
    max_borrow_ms: u64,
    /// What somebody else may still give past R + B, ms.
    slack_ms: u64,
}

/// A save under way.
#[derive(Clone, Copy, Debug)]
struct Saving {
    point: SavePoint,
    /// The watermark was lowered since it began: what it writes may be too high.
    stale: bool,
}

impl Mint {
    /// A mint that starts by what the last life left, if anything.
    ///
    /// It gives no ID before a first save has succeeded: [`Mint::wanted_save`] wants one at once.
    pub fn new(layout: Layout, limits: Limits, found: Option<SavePoint>, reading: Reading) -> Mint {
        let found = found.map(SavePoint::clamped);
        let clock = ReferenceClock::new(layout.epoch(), limits.max_clock_jump_ms, found, reading);
        let watermark = found.map_or(Tick(0), |point| point.watermark);
        let mut mint = Mint {
            layout,
            limits,
            start: Start { position: watermark, max_borrow_ms: 0, slack_ms: 0 },
            max_borrow_ms: 0,
            wanted_borrow_ms: 0,
            highest_borrow_limit_ms: 0,
            // Nothing is given before a save in any case.
            durable_borrow_ms: u64::MAX,
            piece_max: 1,
            slots: Slots::new(layout.shard_bits(), watermark),
            clock,
            gate: Tick(0),
            watermark,
            highest: watermark,
            lowering: false,
            found,
            saving: None,
            retry_at_ns: 0,
            wanted_any: false,
            saves: 0,
            save_error: None,
            claim_lost: None,
            closed: false,
            count_at_save: 0,
            save_from: Slot(u64::MAX),
            highest_borrow_ms: 0,
            refusals: 0,
        };
        mint.set_limits(limits);
        let recorded_ms = found.map_or(0, |point| point.max_borrow_ms);
        let recorded_ms = if planted(Fault::StartForgetsBorrow) { 0 } else { recorded_ms };
        mint.start.max_borrow_ms = mint.limits.max_borrow_ms.max(recorded_ms);
        if recorded_ms > mint.limits.max_borrow_ms {
            saw(Rare::Inherited);
        }
        mint.start_again();
        mint.set_borrow();
        mint.set_gate();
        mint
    }

    /// Up to `n` consecutive slots, ascending; fewer where a bound cuts them, never none. `begun`: it is the rest of a draw
    /// that was cut. Ask for the rest before anyone else's draw if order matters.
    ///
    /// Under [`BorrowPolicy::Error`], a draw of no more than B/2 holds is given as a whole or refused as a whole as far
    /// as the borrow limit goes; a larger one is refused when its first B/2 can't be had, and once begun it waits,
    /// or no such draw could ever be served.
    ///
    /// # Errors
    ///
    /// [`Blocked`], and no slot is used.
    #[inline]
    pub fn draw(&mut self, boot_ns: u64, n: u32, begun: bool) -> Result<Reservation, Blocked> {
        let now = self.clock.advance(boot_ns);
        if (1..=self.piece_max).contains(&n)
            && let Some(reservation) = self.slots.take(now, n, self.ceiling(now))
        {
            self.note_borrow(now, reservation);
            return Ok(reservation);
        }
        self.draw_near_a_bound(now, n, begun)
    }

    /// The exclusive bound of a draw at `now`.
    #[inline]
    fn ceiling(&self, now: Tick) -> Tick {
        if planted(Fault::NoBorrowLimit) {
            return self.gate;
        }
        Tick(now.0 + self.max_borrow_ms).min(self.gate)
    }

    #[inline]
    fn note_borrow(&mut self, now: Tick, reservation: Reservation) {
        let shard_bits = self.layout.shard_bits();
        let last = Slot(reservation.first.0 + u64::from(reservation.len) - 1);
        let borrow_ms = last.tick(shard_bits).ms_since(now);
        self.highest_borrow_ms = self.highest_borrow_ms.max(borrow_ms);
        // Tests that plant a fault want to see it from outside.
        debug_assert!(any_planted() || last.tick(shard_bits) < self.watermark, "issued tick < watermark");
    }

    #[cold]
    fn draw_near_a_bound(&mut self, now: Tick, n: u32, begun: bool) -> Result<Reservation, Blocked> {
        assert!(n > 0, "a draw of no ids");
        let available = self.available(now, n, begun).inspect_err(|blocked| {
            self.refusals += u64::from(matches!(blocked, Blocked::Refused(_)));
        })?;
        // They are there: `available` has looked.
        let reservation = self.slots.take(now, available, self.ceiling(now)).ok_or(Blocked::Watermark)?;
        self.note_borrow(now, reservation);
        Ok(reservation)
    }

    /// What a draw of one ID would come to, without drawing.
    ///
    /// # Errors
    ///
    /// As [`Mint::draw`].
    pub fn can_draw(&self, boot_ns: u64) -> Result<(), Blocked> {
        self.available(self.clock.at(boot_ns), 1, false).map(drop)
    }

    /// How many slots a draw of `n` at `now` would get, at least one, or why none. The one place that decides it.
    fn available(&self, now: Tick, n: u32, begun: bool) -> Result<u32, Blocked> {
        if self.closed {
            return Err(Blocked::Refused(Refusal::Closed));
        }
        if let Some(fault) = self.clock.fault() {
            return Err(Blocked::Refused(Refusal::Clock(fault)));
        }
        if let Some(text) = &self.claim_lost {
            return Err(Blocked::Refused(Refusal::ClaimLost(Arc::clone(text))));
        }
        if u64::from(n) > self.slots.room(now, Tick::END) {
            let last_unix_ms = self.layout.last_unix_ms();
            return Err(Blocked::Refused(Refusal::EndOfTime { last_unix_ms }));
        }
        let piece = n.min(self.piece_max);
        let in_limit = self.slots.room(now, Tick(now.0 + self.max_borrow_ms));
        if in_limit < u64::from(piece) && self.limits.policy == BorrowPolicy::Error && !begun {
            let last = Slot(self.slots.first(now).0 + u64::from(piece) - 1);
            let ahead_ms = last.tick(self.layout.shard_bits()).ms_since(now);
            return Err(Blocked::Refused(Refusal::Busy { ahead_ms, max_borrow_ms: self.max_borrow_ms }));
        }
        if in_limit == 0 {
            return Err(Blocked::Borrow { until_boot_ns: self.time_for(now, piece) });
        }
        match self.slots.room(now, self.ceiling(now)) {
            0 => Err(match &self.save_error {
                Some(error) => Blocked::Refused(Refusal::Save { error: Arc::clone(error) }),
                None => Blocked::Watermark,
            }),
            room => Ok(u32::try_from(room).map_or(piece, |room| room.min(piece))),
        }
    }

    /// The boot time at which `n` slots, or a few ms worth of them, fit below the borrow limit.
    fn time_for(&self, now: Tick, n: u32) -> u64 {
        let shard_bits = self.layout.shard_bits();
        let sensible = u64::from(n).min(WAIT_MS_MAX.min(self.max_borrow_ms) << shard_bits);
        let last = Slot(self.slots.first(now).0 + sensible - 1).tick(shard_bits);
        let reference = Tick((last.0 + 1).saturating_sub(self.max_borrow_ms));
        let seen = self.clock.seen_boot_ns();
        self.clock.boot_ns_at(reference).clamp(seen.saturating_add(WAIT_NS_MIN), seen.saturating_add(WAIT_NS_MAX))
    }

    /// How long, ms, until time has come so far that the first free slot lies within the borrow limit; 0: it does.
    pub fn late_ms(&self, boot_ns: u64) -> u64 {
        let now = self.clock.at(boot_ns);
        let next = self.slots.next().tick(self.layout.shard_bits());
        next.ms_since(Tick(now.0 + self.max_borrow_ms))
    }

    /// IDs given in this life.
    pub fn ids_issued(&self) -> u64 {
        self.slots.count()
    }

    /// Takes a reading of the clocks, about ten times a second, and says what to log.
    pub fn sample(&mut self, reading: Reading) -> Vec<ClockEvent> {
        let fresh = self.is_fresh();
        let events = self.clock.sample(reading, !fresh);
        if fresh && self.clock.fault().is_none() {
            self.start_again();
            self.set_borrow();
            self.lower();
        } else {
            self.set_borrow();
        }
        self.set_gate();
        self.set_save_from();
        events
    }

    /// No ID given yet: the position is what a start at the clock as it is now known would make it.
    fn start_again(&mut self) {
        let others = match self.found {
            Some(_) if planted(Fault::StartsAtWatermark) => Tick(0),
            _ if planted(Fault::StartsAtClock) => self.clock.start(),
            _ => self.clock.start().plus_ms(self.start.max_borrow_ms + self.start.slack_ms),
        };
        let found = self.found.filter(|_| !planted(Fault::StartForgetsWatermark));
        self.start.position = found.map_or(others, |point| point.watermark.max(others));
        self.slots.reposition(self.start.position);
    }

    /// Which B is in force: the configured one once R and it have passed where this life began, and no larger one than
    /// the disk holds, or a life that finds that record might begin below what this one has given.
    fn set_borrow(&mut self) {
        let configured = self.limits.max_borrow_ms;
        self.wanted_borrow_ms = if self.is_past_start() || planted(Fault::LimitDropsAtStart) {
            configured
        } else {
            configured.max(self.start.max_borrow_ms)
        };
        let before_ms = self.max_borrow_ms;
        self.max_borrow_ms = if planted(Fault::RaisesBeforeDurable) {
            self.wanted_borrow_ms
        } else {
            self.wanted_borrow_ms.min(self.durable_borrow_ms)
        };
        if self.max_borrow_ms > before_ms && before_ms > 0 {
            saw(Rare::Raised);
        }
        let half = (self.max_borrow_ms / 2).max(1).min(u64::from(u32::MAX)) << self.layout.shard_bits();
        self.piece_max = u32::try_from(half).unwrap_or(u32::MAX);
    }

    fn is_past_start(&self) -> bool {
        self.clock.at(0).plus_ms(self.limits.max_borrow_ms) >= self.start.position
    }

    /// The B that a save now would store: none that this life's IDs were given by is larger, and R and it reach past all
    /// that was given before this life.
    fn borrow_to_store(&self, now: Tick) -> u64 {
        if planted(Fault::StoresConfiguredBorrow) {
            return self.limits.max_borrow_ms;
        }
        let inherited = if self.is_past_start() && !planted(Fault::InheritsForEver) {
            self.slots.position().ms_since(now).min(self.start.max_borrow_ms)
        } else {
            self.start.max_borrow_ms
        };
        self.highest_borrow_limit_ms.max(inherited)
    }

    /// No ID given yet: a watermark that a wrong clock has left too high comes down.
    fn lower(&mut self) {
        let now = self.clock.at(0);
        let target = self.target(now);
        let cap = now.plus_ms(self.wanted_borrow_ms + SAVE_SLACK_MS).max(target);
        if self.highest > cap.plus_ms(LOWER_MS_MIN) && !planted(Fault::NeverLowers) {
            self.lowering = true;
            saw(Rare::Lowered);
            if !planted(Fault::LowersLate) {
                self.watermark = self.watermark.min(target);
            }
            if let Some(saving) = &mut self.saving {
                saving.stale = true;
            }
        }
    }

    /// The watermark that a save now would store.
    fn target(&self, now: Tick) -> Tick {
        let position = self.slots.position();
        let lead = position.max(now).plus_ms(self.limits.lead_ms);
        // By the B that is in force once this save has succeeded.
        let cap = now.plus_ms(self.wanted_borrow_ms + SAVE_SLACK_MS);
        // With a smaller B than the last life's, or a record moved ahead, P may lie past the cap.
        lead.min(cap).max(position)
    }

    /// The point to save now, if one is wanted: the caller saves it and tells how it went, by [`Mint::saved`],
    /// [`Mint::save_failed`] or [`Mint::claim_lost`]. One save at a time.
    ///
    /// Wanted when a third of the lead that can be had is used up, half of it on an idle server: with the default lead a
    /// write a second, two in three seconds when idle. After [`Blocked::Watermark`] it is always wanted, unless one is
    /// in flight or failed a moment ago.
    pub fn wanted_save(&mut self, boot_ns: u64) -> Option<SavePoint> {
        let now = self.clock.advance(boot_ns);
        self.save_from = Slot(u64::MAX);
        // Longer than a pause: not the time that it was set by. The boot-time clock has gone back.
        let pause_ns = self.retry_at_ns.saturating_sub(self.clock.seen_boot_ns());
        let pauses = (1..=SAVE_RETRY_NS).contains(&pause_ns);
        if self.saving.is_some() || self.closed || self.clock.fault().is_some() || pauses {
            return None;
        }
        let target = self.target(now);
        let raises_borrow = self.wanted_borrow_ms > self.durable_borrow_ms;
        let must =
            self.saves == 0 || self.lowering || raises_borrow || self.save_error.is_some() || self.claim_lost.is_some();
        if !must && !self.is_worth_saving(now, target) {
            return None;
        }
        if planted(Fault::RefusesForEver) && self.save_error.is_some() {
            return None;
        }
        let watermark = if self.lowering { target } else { target.max(self.watermark) };
        let point = SavePoint { watermark, reference: now, max_borrow_ms: self.borrow_to_store(now) };
        let point = match self.found {
            Some(found) if planted(Fault::FreshSaveStoresFound) && self.is_fresh() => found,
            _ => point,
        };
        self.wanted_any = true;
        // From here on the disk may hold either.
        self.durable_borrow_ms = self.durable_borrow_ms.min(point.max_borrow_ms);
        self.set_borrow();
        if !planted(Fault::LowersLate) {
            self.watermark = self.watermark.min(watermark);
        }
        self.highest = self.highest.max(watermark);
        self.set_gate();
        self.saving = Some(Saving { point, stale: false });
        self.retry_at_ns = self.clock.seen_boot_ns().saturating_add(SAVE_RETRY_NS);
        self.count_at_save = self.slots.count();
        Some(point)
    }

    fn is_worth_saving(&self, now: Tick, target: Tick) -> bool {
        let position = self.slots.position().max(now);
        let remaining_ms = self.watermark.ms_since(position);
        let room_ms = target.ms_since(position);
        let gain_ms = target.ms_since(self.watermark);
        let idle = self.slots.count() == self.count_at_save;
        // Near the borrow limit there is little room, and a slow sync must not eat it all.
        let is_low = if idle {
            remaining_ms * 2 <= room_ms
        } else {
            remaining_ms * 3 <= room_ms * 2 || remaining_ms <= self.limits.lead_ms / 4
        };
        is_low && gain_ms >= SAVE_GAIN_MS.min(self.limits.lead_ms / 4).max(1)
    }

    /// A hint after a draw, one comparison: whether to ask [`Mint::wanted_save`] now rather than at the next sample.
    ///
    /// It fires once per sample at most.
    #[inline]
    pub fn is_save_due(&self) -> bool {
        self.slots.next() >= self.save_from
    }

    fn set_save_from(&mut self) {
        let third = self.limits.lead_ms.min(self.watermark.ms_since(self.clock.at(0))) * 2 / 3;
        let from = Tick(self.watermark.0.saturating_sub(third));
        self.save_from =
            if self.saving.is_some() { Slot(u64::MAX) } else { Slot::first_of(from, self.layout.shard_bits()) };
    }

    /// A save has succeeded.
    pub fn saved(&mut self, point: SavePoint) {
        let saving = self.saving.take();
        debug_assert_eq!(saving.map(|saving| saving.point), Some(point), "the point that was wanted");
        if saving.is_some_and(|saving| (!saving.stale || planted(Fault::StaleSaveCounts)) && saving.point == point) {
            self.watermark = point.watermark;
            self.lowering = false;
        } else {
            saw(Rare::StaleSave);
            // It is on disk, but the watermark has to come down again: another save is wanted.
            self.watermark = self.watermark.min(point.watermark);
        }
        self.highest = point.watermark;
        self.durable_borrow_ms = point.max_borrow_ms;
        self.set_borrow();
        self.saves += 1;
        self.retry_at_ns = 0;
        self.save_error = None;
        if !planted(Fault::LostForEver) {
            self.claim_lost = None;
        }
        self.set_gate();
        self.set_save_from();
    }

    /// A save has failed with this text; the disk may hold the old point or the new one.
    ///
    /// IDs go on up to the watermark, then draws are refused with this text until a save succeeds.
    pub fn save_failed(&mut self, error: Arc<str>) {
        if let Some(saving) = self.saving.take()
            && planted(Fault::FailedSaveCounts)
        {
            self.watermark = saving.point.watermark;
            self.set_gate();
        }
        self.save_error = Some(error);
    }

    /// Lock or folder are no longer ours: no IDs until a later save succeeds. Ends a save in flight.
    pub fn claim_lost(&mut self, text: Arc<str>) {
        self.saving = None;
        self.claim_lost = Some(text);
        self.set_gate();
    }

    /// The claim had been lost and was taken again, with `found` in the folder. Ends a save in flight.
    ///
    /// Another server may have given IDs in between, so this goes on as at a start: R is not below the one found, and P is
    /// max(watermark found, R + B + 200 ms), and never below its own. The 200 ms are for a server that does not know yet
    /// that its folder is gone: it may give IDs as far as its watermark reaches. No IDs until a save has succeeded.
    pub fn claim_retaken(&mut self, boot_ns: u64, found: Option<SavePoint>, text: Arc<str>) {
        let found = found.map(SavePoint::clamped);
        let now = self.clock.restart(boot_ns, found.map_or(Tick(0), |point| point.reference));
        let stored_borrow_ms = found.map_or(0, |point| point.max_borrow_ms);
        let stored_borrow_ms = if planted(Fault::RetakeForgetsBorrow) { 0 } else { stored_borrow_ms };
        let own_ms = self.start.max_borrow_ms.max(self.highest_borrow_limit_ms);
        self.start.max_borrow_ms = own_ms.max(stored_borrow_ms);
        self.start.slack_ms = if planted(Fault::RetakeWithoutSlack) { 0 } else { SAVE_SLACK_MS };
        self.watermark = found.map_or(Tick(0), |point| point.watermark);
        self.highest = self.watermark;
        // A correction of the clock before the first ID goes below neither record.
        self.found = match (self.found, found) {
            (Some(first), Some(second)) => Some(first.later(second)),
            (first, second) => first.or(second),
        };
        if self.is_fresh() {
            saw(Rare::RetakenFresh);
            self.start_again();
        } else {
            saw(Rare::Retaken);
            let others = now.plus_ms(self.start.max_borrow_ms + self.start.slack_ms).max(self.watermark);
            if !planted(Fault::RetakeForgetsPosition) {
                self.slots.skip_to(others);
            }
            self.start.position = self.slots.position();
        }
        self.saving = None;
        self.retry_at_ns = 0;
        self.durable_borrow_ms = u64::MAX;
        self.lowering = false;
        self.claim_lost = Some(text);
        self.set_borrow();
        self.set_gate();
    }

    /// Closes for good, and says what to store as the last act.
    ///
    /// P itself, the first tick without an ID. After a life that gave none: what it found, so that a clock that was wrong
    /// at its start leaves no trace; a life that found no record says so ([`SavePoint::NOTHING`]). Only the last act may:
    /// after a kill nobody knows whether an ID was given since a save.
    ///
    /// `None` when nothing may be written: the clock is absurd, or no save was ever wanted and the disk is as it was. A save
    /// in flight must have ended before the returned point is stored. It may be lower than the watermark on disk.
    pub fn close(&mut self) -> Option<SavePoint> {
        let reference = self.clock.at(0);
        self.closed = true;
        self.set_gate();
        if self.is_fresh() && !planted(Fault::FreshStopStoresPosition) {
            saw(Rare::FreshStop);
            return self.wanted_any.then(|| self.found.unwrap_or(SavePoint::NOTHING));
        }
        if self.clock.fault().is_some() {
            return None;
        }
        let max_borrow_ms = self.borrow_to_store(reference);
        let position = self.slots.position();
        let watermark = if planted(Fault::CloseStoresWatermark) { self.watermark } else { position };
        Some(SavePoint { watermark, reference, max_borrow_ms })
    }

    /// Whether this life has given no ID.
    fn is_fresh(&self) -> bool {
        self.slots.count() == 0
    }

    fn set_gate(&mut self) {
        let open = (!self.closed || planted(Fault::CloseKeepsGate))
            && (self.claim_lost.is_none() || planted(Fault::LostClaimKeepsGate))
            && (self.clock.fault().is_none() || planted(Fault::FaultKeepsGate));
        self.gate = match open {
            false => Tick(0),
            true if planted(Fault::NoWatermarkCheck) => Tick::END,
            true => self.watermark,
        };
    }

    /// Changes limits while running: bounds of draws and saves to come, and of nothing that was given. A lower borrow limit
    /// makes draws wait until time has caught up; the watermark stays where it is, and P below it. A higher one is in force
    /// once the disk holds it. Where this life began stays too, before its first ID as after.
    ///
    /// A borrow limit above [`Mint::start_max_borrow_ms`] is sound only as long as the next life finds a record that says
    /// so: without one it begins at R + B as configured, below what this one may have given. It is the caller who knows.
    pub fn set_limits(&mut self, limits: Limits) {
        let max_borrow_ms = limits.max_borrow_ms.clamp(1, LIMIT_MS_MAX);
        let lead_ms = limits.lead_ms.clamp(1, max_borrow_ms);
        self.limits = Limits { max_borrow_ms, lead_ms, ..limits };
        // A limit that was taken back before the first ID leaves no trace.
        let used = if self.is_fresh() { 0 } else { self.highest_borrow_limit_ms };
        self.highest_borrow_limit_ms = used.max(max_borrow_ms);
        self.clock.set_max_jump_ms(limits.max_clock_jump_ms);
        self.set_borrow();
    }

    /// B as of the start, ms, the larger of the record's and the configured one: as far as IDs may run ahead if the next
    /// life, started with the same limits, finds no record.
    pub fn start_max_borrow_ms(&self) -> u64 {
        self.start.max_borrow_ms
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// How often [`Mint::sample`] and [`Mint::wanted_save`] should be called, ms: with a short lead more often.
    pub fn sample_interval_ms(&self) -> u64 {
        (self.limits.lead_ms / 10).clamp(1, 100)
    }

    /// The largest reservation one draw gives, B/2 worth.
    pub fn piece_max(&self) -> u32 {
        self.piece_max
    }

    /// Whether a draw that has not begun is served whole or refused, rather than piece by piece.
    pub fn is_drawn_whole(&self) -> bool {
        self.limits.policy == BorrowPolicy::Error
    }

    /// The refusal of a draw that would have to wait too long.
    pub fn overload(&self, overload: Overload) -> Refusal {
        let Overload { wait_ms, max_wait_ms, late_ms, asked_per_s } = overload;
        if late_ms > max_wait_ms {
            // It is not others that it would wait for.
            let max_borrow_ms = self.limits.max_borrow_ms;
            return Refusal::Busy { ahead_ms: max_borrow_ms.saturating_add(late_ms), max_borrow_ms };
        }
        Refusal::Overload { wait_ms, max_wait_ms, asked_per_s, layout: self.layout }
    }

    /// The warning to log while more is asked for than the layout holds, if so. `asked_per_s`: in the last second.
    pub fn borrowing(&self, boot_ns: u64, asked_per_s: u64) -> Option<String> {
        let reference = self.clock.at(boot_ns);
        let borrow_ms = self.slots.next().tick(self.layout.shard_bits()).ms_since(reference);
        let capacity_per_s = self.layout.capacity_per_s();
        (borrow_ms > 0 && asked_per_s > capacity_per_s).then(|| {
            format!(
                "borrowing: {asked_per_s} ids a second are asked for, the layout holds {capacity_per_s}; ids are {borrow_ms} \
                 ms ahead of the clock. {}",
                self.layout.remedy_for(asked_per_s)
            )
        })
    }

    /// Everything INFO shows.
    pub fn status(&self, boot_ns: u64) -> Status {
        let reference = self.clock.at(boot_ns);
        let next_tick = self.slots.next().tick(self.layout.shard_bits());
        Status {
            ids_issued: self.slots.count(),
            position: self.slots.position(),
            reference,
            watermark: self.watermark,
            borrow_ms: next_tick.ms_since(reference),
            max_borrow_ms: self.max_borrow_ms,
            highest_borrow_ms: self.highest_borrow_ms,
            clock_offset_ms: self.clock.offset_ms(),
            rollbacks: self.clock.rollbacks(),
            jumps: self.clock.jumps(),
            holds_jump: self.clock.holds_jump(),
            refusals: self.refusals,
            capacity_per_s: self.layout.capacity_per_s(),
            is_saving: self.saving.is_some(),
            saves: self.saves,
            save_error: self.save_error.clone(),
        }
    }
}

/// What a mint looks like at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// IDs given in this life.
    pub ids_issued: u64,
    /// P, the first tick without an ID.
    pub position: Tick,
    /// R.
    pub reference: Tick,
    /// The watermark, durable.
    pub watermark: Tick,
    /// How far the next ID lies ahead of R, ms.
    pub borrow_ms: u64,
    /// How far it may lie ahead now, ms: not always the configured limit (see [`Mint::set_limits`]).
    pub max_borrow_ms: u64,
    /// The furthest an ID of this life lay ahead of R, ms.
    pub highest_borrow_ms: u64,
    /// W - R, ms.
    pub clock_offset_ms: i64,
    /// Times the wall clock was seen set back.
    pub rollbacks: u64,
    /// Jumps of the wall clock ahead seen.
    pub jumps: u64,
    /// Whether a jump ahead is being held.
    pub holds_jump: bool,
    /// Draws refused.
    pub refusals: u64,
    /// What the layout holds without borrowing.
    pub capacity_per_s: u64,
    /// Whether a save is in flight.
    pub is_saving: bool,
    /// Saves that succeeded.
    pub saves: u64,
    /// Why the last save failed; `None` once one has succeeded.
    pub save_error: Option<Arc<str>>,
}

/// Why a draw got nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// A save must succeed first. It is wanted now, or in flight.
    Watermark,
    /// Time must catch up first.
    Borrow {
        /// When to come again, by the boot-time clock; at least 1 ms and at most 1 s from now.
        until_boot_ns: u64,
    },
    /// Waiting does not help.
    Refused(Refusal),
}

/// Why a request gets no IDs. `Display` is the error reply without its `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The wall clock is absurd.
    Clock(ClockFault),
    /// At the borrow limit, under `id-borrow-policy error`.
    Busy {
        /// How far ahead of R the answer would lie.
        ahead_ms: u64,
        /// `id-max-borrow-ms`.
        max_borrow_ms: u64,
    },
    /// More is waited for than the layout gives within `id-max-wait-ms`. Made by the shell, which has the queue.
    Overload {
        /// How long the draw would wait, ms.
        wait_ms: u64,
        /// `id-max-wait-ms`.
        max_wait_ms: u64,
        /// IDs asked for in the last second.
        asked_per_s: u64,
        /// What they are asked of.
        layout: Layout,
    },
    /// The draw would cross the end of the 42 bits.
    EndOfTime {
        /// The last instant an ID can carry.
        last_unix_ms: i64,
    },
    /// The watermark is reached and the last save failed.
    Save {
        /// The OS error.
        error: Arc<str>,
    },
    /// The watermark is reached and a save has been hanging for a second. Made by the shell, which has the timer.
    SaveTimeout,
    /// Lock or state folder are no longer ours.
    ClaimLost(Arc<str>),
    /// The server is stopping.
    Closed,
}

/// A server whose next ID is no further past the borrow limit than this gives IDs all the time, ms.
const NEAR_MS: u64 = 1000;

impl Refusal {
    /// Whether IDs are given all the same, though not to everybody at once: more is asked for than the layout holds. Where the
    /// position lies far ahead of the clock, none are given before time has come that far.
    pub fn is_overload(&self) -> bool {
        match self {
            Refusal::Busy { ahead_ms, max_borrow_ms } => ahead_ms.saturating_sub(*max_borrow_ms) <= NEAR_MS,
            Refusal::Overload { .. } => true,
            _ => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Clock(fault) => write!(f, "MISCONF clock {fault}"),
            Refusal::Busy { ahead_ms, max_borrow_ms } => {
                write!(f, "BUSY ids are {ahead_ms} ms ahead of the clock; id-max-borrow-ms allows {max_borrow_ms}")
            }
            Refusal::Overload { wait_ms, max_wait_ms, asked_per_s, layout } => write!(
                f,
                "BUSY this would wait {wait_ms} ms and id-max-wait-ms allows {max_wait_ms}: {asked_per_s} ids a second are \
                 asked for, the layout holds {}; {}",
                layout.capacity_per_s(),
                layout.remedy_for(*asked_per_s)
            ),
            Refusal::EndOfTime { last_unix_ms } => {
                write!(f, "MISCONF end of time: no id can carry a time after {}", UtcMs(*last_unix_ms))
            }
            Refusal::Save { error } => write!(f, "MISCONF state can't be saved: {error}"),
            Refusal::SaveTimeout => write!(f, "MISCONF state can't be saved: the disk has not answered for 1 s"),
            Refusal::ClaimLost(text) => write!(f, "MISCONF claim lost: {text}"),
            Refusal::Closed => write!(f, "ERR server is shutting down"),
        }
    }
}

impl std::error::Error for Refusal {}

/// How a draw would have to wait.
#[derive(Clone, Copy, Debug)]
pub struct Overload {
    /// For those before it in the queue, and itself, ms.
    pub wait_ms: u64,
    /// How long a draw may wait, ms (`id-max-wait-ms`).
    pub max_wait_ms: u64,
    /// [`Mint::late_ms`].
    pub late_ms: u64,
    /// How many are asked for in a second.
    pub asked_per_s: u64,
}
