//! The mint: generator, reference clock, borrow limit and watermark in one place, so that one lock holds it all.
//!
//! Words (see `CONVENTIONS`): R the reference clock, P the position, B `id-max-borrow-ms`, L `id-watermark-lead-ms`.
//! The rules, all of them on the issuing path and none on a timer:
//!
//! - A tick is given only if it is < the watermark on disk and < R + B.
//! - The watermark is saved as `min(max(P, R) + L, R + B + 200 ms)`, in the background, before P reaches it.
//! - With a record, a life starts at P = the watermark found; without one at P = R + B, past anything a lost run gave
//!   out. That B is the one of the start, whatever is set later.
//!
//! Invariant, at every instant and whatever a save in flight comes to:
//!
//! ```text
//! issued tick < watermark <= every value the disk may hold
//! ```
//!
//! A save that raises the watermark counts once it has succeeded; one that lowers it counts from the moment it is
//! wished for ([`Mint::sample`] lowers, before [`Mint::wanted_save`] can even be asked), because from then on the disk
//! may hold either. It goes down in two cases only: while this life has given no ID and the clock is put right, and
//! in the last act, [`Mint::close`].
//!
//! What is not here: waiting, waking, log lines and the disk. The mint says what it wants and is told what happened.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::checks::{Checks, Sound};
use super::generator::Generator;
use super::layout::Layout;
use super::reference::{ClockEvent, ClockFault, Reading, ReferenceClock};
use super::scheme::Reservation;
use super::time::{Slot, Tick, UtcMs};

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

/// The window in which a demanded rate is counted, in samples: a second at ten samples a second.
const RATE_SAMPLES: usize = 10;

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
}

/// Everything that moves.
///
/// `C` is for tests of the tests; see [`super::checks`].
#[derive(Clone, Debug)]
pub struct Mint<C = Sound> {
    layout: Layout,
    limits: Limits,
    /// B as of the start. Where a life without a record begins goes by it and by no later one: a lower B says nothing about
    /// what a lost run had, and a higher one that is taken back must not leave the position out there.
    start_max_borrow_ms: u64,
    /// The largest B of this life: as far as anyone who shared its state may have given IDs.
    highest_max_borrow_ms: u64,
    /// The largest reservation, B/2 worth.
    piece_max: u32,
    generator: Generator,
    reference: ReferenceClock,
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
    demand: Demand,
    checks: PhantomData<C>,
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
        Mint::with_checks(layout, limits, found, reading)
    }
}

impl<C: Checks> Mint<C> {
    /// [`Mint::new`], for tests that take a check out.
    #[doc(hidden)]
    pub fn with_checks(layout: Layout, limits: Limits, found: Option<SavePoint>, reading: Reading) -> Mint<C> {
        let reference = ReferenceClock::new(layout.epoch(), limits.max_clock_jump_ms, found, reading);
        let found = found.map(|point| SavePoint {
            watermark: point.watermark.min(Tick::END),
            reference: point.reference.min(Tick::END),
        });
        let watermark = found.map_or(Tick(0), |point| point.watermark);
        let mut mint = Mint {
            layout,
            limits,
            start_max_borrow_ms: 0,
            highest_max_borrow_ms: 0,
            piece_max: 1,
            generator: Generator::new(layout.shard_bits(), watermark),
            reference,
            gate: Tick(0),
            watermark,
            highest: watermark,
            lowering: false,
            found,
            saving: None,
            retry_at_ns: 0,
            saves: 0,
            save_error: None,
            claim_lost: None,
            closed: false,
            count_at_save: 0,
            save_from: Slot(u64::MAX),
            highest_borrow_ms: 0,
            refusals: 0,
            demand: Demand::new(reading.boot_ns),
            checks: PhantomData,
        };
        mint.set_limits(limits);
        mint.start_max_borrow_ms = mint.limits.max_borrow_ms;
        mint.start_again();
        mint.set_gate();
        mint
    }

    /// Up to `n` consecutive slots, ascending; fewer where a bound cuts them, never none.
    ///
    /// Call again for the rest, through [`Mint::draw_rest`], before anyone else's draw if order matters.
    /// Under [`BorrowPolicy::Error`], a draw of no more than B/2 holds is given as a whole or refused as a whole as far
    /// as the borrow limit goes; a larger one is refused when its first B/2 can't be had, and once begun it waits,
    /// or no such draw could ever be served.
    ///
    /// # Errors
    ///
    /// [`Blocked`], and no slot is used.
    #[inline]
    pub fn draw(&mut self, boot_ns: u64, n: u64) -> Result<Reservation, Blocked> {
        let now = self.reference.advance(boot_ns);
        if let Ok(whole @ 1..) = u32::try_from(n)
            && whole <= self.piece_max
            && let Some(reservation) = self.generator.take(now, whole, self.ceiling(now))
        {
            self.note_borrow(now, reservation);
            return Ok(reservation);
        }
        self.draw_with_care(now, n, false)
    }

    /// [`Mint::draw`] for the rest of a draw that was cut: waits at the borrow limit under either policy.
    ///
    /// # Errors
    ///
    /// [`Blocked`], and no slot is used.
    pub fn draw_rest(&mut self, boot_ns: u64, n: u64) -> Result<Reservation, Blocked> {
        let now = self.reference.advance(boot_ns);
        self.draw_with_care(now, n, true)
    }

    /// The exclusive bound of a draw at `now`.
    #[inline]
    fn ceiling(&self, now: Tick) -> Tick {
        Tick(now.0 + self.limits.max_borrow_ms).min(self.gate)
    }

    #[inline]
    fn note_borrow(&mut self, now: Tick, reservation: Reservation) {
        let shard_bits = self.layout.shard_bits();
        let last = Slot(reservation.first.0 + u64::from(reservation.len) - 1);
        let borrow_ms = last.tick(shard_bits).ms_since(now);
        self.highest_borrow_ms = self.highest_borrow_ms.max(borrow_ms);
        debug_assert!(!C::WATERMARK || last.tick(shard_bits) < self.watermark, "issued tick < watermark");
    }

    #[cold]
    fn draw_with_care(&mut self, now: Tick, n: u64, begun: bool) -> Result<Reservation, Blocked> {
        assert!(n > 0, "a draw of no ids");
        if let Some(refusal) = self.refusal() {
            return self.refuse(refusal);
        }
        if n > self.generator.room(now, Tick::END) {
            return self.refuse(Refusal::EndOfTime { last_unix_ms: self.layout.last_unix_ms() });
        }
        let piece = n.min(u64::from(self.piece_max));
        let borrow_end = Tick(now.0 + self.limits.max_borrow_ms);
        let in_limit = self.generator.room(now, borrow_end);
        if in_limit < piece && self.limits.policy == BorrowPolicy::Error && !begun {
            let last = Slot(self.generator.first(now).0 + piece - 1);
            let ahead_ms = last.tick(self.layout.shard_bits()).ms_since(now);
            self.demand.refused += n;
            return self.refuse(Refusal::Busy { ahead_ms, max_borrow_ms: self.limits.max_borrow_ms });
        }
        if in_limit == 0 {
            return Err(Blocked::Borrow { until_boot_ns: self.time_for(now, piece) });
        }
        match self.generator.take_piece(now, piece, self.ceiling(now)) {
            Ok(Some(reservation)) => {
                self.note_borrow(now, reservation);
                Ok(reservation)
            }
            Ok(None) => match &self.save_error {
                Some(error) => self.refuse(Refusal::Save { error: Arc::clone(error) }),
                None => Err(Blocked::Watermark),
            },
            Err(_) => self.refuse(Refusal::EndOfTime { last_unix_ms: self.layout.last_unix_ms() }),
        }
    }

    fn refuse(&mut self, refusal: Refusal) -> Result<Reservation, Blocked> {
        self.refusals += 1;
        Err(Blocked::Refused(refusal))
    }

    /// Why no draw at all is served now.
    fn refusal(&self) -> Option<Refusal> {
        if self.closed {
            return Some(Refusal::Closed);
        }
        if let Some(fault) = self.reference.fault() {
            return Some(Refusal::Clock(fault));
        }
        self.claim_lost.clone().map(Refusal::ClaimLost)
    }

    /// The boot time at which `n` slots, or a few ms worth of them, fit below the borrow limit.
    fn time_for(&self, now: Tick, n: u64) -> u64 {
        let shard_bits = self.layout.shard_bits();
        let sensible = n.min(WAIT_MS_MAX.min(self.limits.max_borrow_ms) << shard_bits);
        let last = Slot(self.generator.first(now).0 + sensible - 1).tick(shard_bits);
        let reference = Tick((last.0 + 1).saturating_sub(self.limits.max_borrow_ms));
        let seen = self.reference.seen_boot_ns();
        self.reference.boot_ns_at(reference).clamp(seen.saturating_add(WAIT_NS_MIN), seen.saturating_add(WAIT_NS_MAX))
    }

    /// Takes a reading of the clocks, about ten times a second, and says what to log.
    pub fn sample(&mut self, reading: Reading) -> Vec<ClockEvent> {
        let fresh = self.generator.count() == 0;
        let events = self.reference.sample::<C>(reading, !fresh);
        if fresh && self.reference.fault().is_none() {
            self.start_again();
            self.lower();
        }
        self.demand.sample(self.reference.seen_boot_ns(), self.generator.count());
        if self.generator.next().tick(self.layout.shard_bits()) <= self.reference.at(0) {
            self.demand.highest_per_s = 0;
        }
        self.set_gate();
        self.set_save_from();
        events
    }

    /// No ID given yet: the position is what a start at the clock as it is now known would make it.
    fn start_again(&mut self) {
        let position = match self.found {
            Some(point) => point.watermark,
            None => self.reference.start().plus_ms(self.start_max_borrow_ms),
        };
        self.generator.reposition(position);
    }

    /// No ID given yet: a watermark that a wrong clock has left too high comes down.
    fn lower(&mut self) {
        let now = self.reference.at(0);
        let target = self.target(now);
        let cap = now.plus_ms(self.limits.max_borrow_ms + SAVE_SLACK_MS).max(target);
        if self.highest > cap.plus_ms(LOWER_MS_MIN) {
            self.lowering = true;
            self.watermark = self.watermark.min(target);
            if let Some(saving) = &mut self.saving {
                saving.stale = true;
            }
        }
    }

    /// The watermark that a save now would store.
    fn target(&self, now: Tick) -> Tick {
        let position = self.generator.position();
        let lead = position.max(now).plus_ms(self.limits.lead_ms);
        let cap = now.plus_ms(self.limits.max_borrow_ms + SAVE_SLACK_MS);
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
        let now = self.reference.advance(boot_ns);
        self.save_from = Slot(u64::MAX);
        if self.saving.is_some()
            || self.closed
            || self.reference.fault().is_some()
            || self.reference.seen_boot_ns() < self.retry_at_ns
        {
            return None;
        }
        let target = self.target(now);
        let must = self.saves == 0 || self.lowering || self.save_error.is_some() || self.claim_lost.is_some();
        if !must && !self.is_worth_saving(now, target) {
            return None;
        }
        let watermark = if self.lowering { target } else { target.max(self.watermark) };
        let point = SavePoint { watermark, reference: now };
        // From here on the disk may hold either.
        self.watermark = self.watermark.min(watermark);
        self.highest = self.highest.max(watermark);
        self.set_gate();
        self.saving = Some(Saving { point, stale: false });
        self.retry_at_ns = self.reference.seen_boot_ns().saturating_add(SAVE_RETRY_NS);
        self.count_at_save = self.generator.count();
        Some(point)
    }

    fn is_worth_saving(&self, now: Tick, target: Tick) -> bool {
        let position = self.generator.position().max(now);
        let remaining_ms = self.watermark.ms_since(position);
        let room_ms = target.ms_since(position);
        let gain_ms = target.ms_since(self.watermark);
        let idle = self.generator.count() == self.count_at_save;
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
        self.generator.next() >= self.save_from
    }

    fn set_save_from(&mut self) {
        let third = self.limits.lead_ms.min(self.watermark.ms_since(self.reference.at(0))) * 2 / 3;
        let from = Tick(self.watermark.0.saturating_sub(third));
        self.save_from =
            if self.saving.is_some() { Slot(u64::MAX) } else { Slot::first_of(from, self.layout.shard_bits()) };
    }

    /// A save has succeeded.
    pub fn saved(&mut self, point: SavePoint) {
        let saving = self.saving.take();
        debug_assert_eq!(saving.map(|saving| saving.point), Some(point), "the point that was wanted");
        if saving.is_some_and(|saving| !saving.stale && saving.point == point) {
            self.watermark = point.watermark;
            self.lowering = false;
        } else {
            // It is on disk, but the watermark has to come down again: another save is wanted.
            self.watermark = self.watermark.min(point.watermark);
        }
        self.highest = point.watermark;
        self.saves += 1;
        self.retry_at_ns = 0;
        self.save_error = None;
        self.claim_lost = None;
        self.set_gate();
        self.set_save_from();
    }

    /// A save has failed with this text; the disk may hold the old point or the new one.
    ///
    /// IDs go on up to the watermark, then draws are refused with this text until a save succeeds.
    pub fn save_failed(&mut self, error: Arc<str>) {
        self.saving = None;
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
    /// Another server may have given IDs in between, so this goes on as at a start: past the watermark found, and never
    /// below its own position. Without a record it goes past what a server that does not know yet that its folder is
    /// gone may still give: as far as a watermark reaches. No IDs until a save has succeeded.
    pub fn claim_retaken(&mut self, boot_ns: u64, found: Option<SavePoint>, text: Arc<str>) {
        if let Some(point) = found {
            self.reference.raise(point.reference);
        }
        let now = self.reference.advance(boot_ns);
        let past_others = match found {
            Some(point) => point.watermark,
            None => now.plus_ms(self.highest_max_borrow_ms + SAVE_SLACK_MS),
        };
        self.generator.skip_to(past_others);
        // A correction of the clock before the first ID must not go below this again.
        self.found = Some(SavePoint {
            watermark: self.generator.position(),
            reference: found.map_or(Tick(0), |point| point.reference),
        });
        self.saving = None;
        self.retry_at_ns = 0;
        self.watermark = found.map_or(Tick(0), |point| point.watermark.min(Tick::END));
        self.highest = self.watermark;
        self.lowering = false;
        self.claim_lost = Some(text);
        self.set_gate();
    }

    /// Closes for good, and says what to store as the last act: P itself, the first tick without an ID.
    ///
    /// `None` when nothing may be written: the clock is absurd. A save in flight must have ended before the returned point is
    /// stored. It may be lower than the watermark on disk.
    pub fn close(&mut self) -> Option<SavePoint> {
        let reference = self.reference.at(0);
        self.closed = true;
        self.set_gate();
        if self.reference.fault().is_some() {
            return None;
        }
        Some(SavePoint { watermark: self.generator.position(), reference })
    }

    fn set_gate(&mut self) {
        let open = !self.closed && self.claim_lost.is_none() && self.reference.fault().is_none();
        self.gate = match (open, C::WATERMARK) {
            (false, _) => Tick(0),
            (true, true) => self.watermark,
            (true, false) => Tick::END,
        };
    }

    /// Changes limits while running: bounds of draws and saves to come, and of nothing that was given. A lower borrow limit
    /// makes draws wait until time has caught up; the watermark stays where it is, and P below it. Where this life began
    /// stays too, before its first ID as after.
    ///
    /// A borrow limit above [`Mint::start_max_borrow_ms`] is sound only as long as the next life finds a record: without one
    /// it begins at R + B as configured, below what this one may have given. It is the caller who knows.
    pub fn set_limits(&mut self, limits: Limits) {
        let max_borrow_ms = limits.max_borrow_ms.clamp(1, LIMIT_MS_MAX);
        let lead_ms = limits.lead_ms.clamp(1, max_borrow_ms);
        self.limits = Limits { max_borrow_ms, lead_ms, ..limits };
        self.highest_max_borrow_ms = self.highest_max_borrow_ms.max(max_borrow_ms);
        let half = (max_borrow_ms / 2).max(1).min(u64::from(u32::MAX)) << self.layout.shard_bits();
        self.piece_max = u32::try_from(half).unwrap_or(u32::MAX);
        self.reference.set_max_jump_ms(limits.max_clock_jump_ms);
    }

    /// B as of the start, ms: as far as IDs may run ahead if the next life, started with the same limits, finds no record.
    pub fn start_max_borrow_ms(&self) -> u64 {
        self.start_max_borrow_ms
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// How often [`Mint::sample`] and [`Mint::wanted_save`] should be called, ms: with a short lead more often.
    pub fn keeper_interval_ms(&self) -> u64 {
        (self.limits.lead_ms / 10).clamp(1, 100)
    }

    /// The largest reservation one draw gives, B/2 worth.
    pub fn piece_max(&self) -> u32 {
        self.piece_max
    }

    /// Everything INFO shows.
    pub fn status(&self, boot_ns: u64) -> Status {
        let reference = self.reference.at(boot_ns);
        let next_tick = self.generator.next().tick(self.layout.shard_bits());
        Status {
            ids_issued: self.generator.count(),
            position: self.generator.position(),
            reference,
            watermark: self.watermark,
            borrow_ms: next_tick.ms_since(reference),
            highest_borrow_ms: self.highest_borrow_ms,
            clock_offset_ms: self.reference.offset_ms(),
            rollbacks: self.reference.rollbacks(),
            jumps: self.reference.jumps(),
            holds_jump: self.reference.holds_jump(),
            refusals: self.refusals,
            asked_per_s: self.demand.asked_per_s,
            demanded_per_s: self.demand.highest_per_s,
            capacity_per_s: self.layout.capacity_per_s(),
            is_saving: self.saving.is_some(),
            saves: self.saves,
            save_error: self.save_error.clone(),
            refusing: self.refusal(),
        }
    }
}

/// IDs asked for, second by second.
#[derive(Clone, Debug)]
struct Demand {
    samples: [(u64, u64); RATE_SAMPLES],
    oldest: usize,
    refused: u64,
    asked_per_s: u64,
    highest_per_s: u64,
}

impl Demand {
    fn new(boot_ns: u64) -> Demand {
        Demand { samples: [(boot_ns, 0); RATE_SAMPLES], oldest: 0, refused: 0, asked_per_s: 0, highest_per_s: 0 }
    }

    fn sample(&mut self, boot_ns: u64, issued: u64) {
        let asked = issued.saturating_add(self.refused);
        let (then_ns, then_asked) = std::mem::replace(&mut self.samples[self.oldest], (boot_ns, asked));
        self.oldest = (self.oldest + 1) % RATE_SAMPLES;
        // A start or a hasty keeper must not make a rate out of a few ms.
        let elapsed_ns = boot_ns.saturating_sub(then_ns).max(1_000_000_000);
        let rate = u128::from(asked - then_asked) * 1_000_000_000 / u128::from(elapsed_ns);
        self.asked_per_s = u64::try_from(rate).unwrap_or(u64::MAX);
        self.highest_per_s = self.highest_per_s.max(self.asked_per_s);
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
    /// IDs asked for in the last second.
    pub asked_per_s: u64,
    /// The most IDs asked for in one second since borrowing began; 0 while nothing is borrowed.
    pub demanded_per_s: u64,
    /// What the layout holds without borrowing.
    pub capacity_per_s: u64,
    /// Whether a save is in flight.
    pub is_saving: bool,
    /// Saves that succeeded.
    pub saves: u64,
    /// Why the last save failed; `None` once one has succeeded.
    pub save_error: Option<Arc<str>>,
    /// Why no draw is served, if so.
    pub refusing: Option<Refusal>,
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Clock(fault) => write!(f, "MISCONF clock {fault}"),
            Refusal::Busy { ahead_ms, max_borrow_ms } => {
                write!(f, "BUSY ids are {ahead_ms} ms ahead of the clock; id-max-borrow-ms allows {max_borrow_ms}")
            }
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
