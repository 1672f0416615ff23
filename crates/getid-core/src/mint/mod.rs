//! The mint: slots, reference clock, borrow limit and watermark in one value, so that one lock holds it all.
//!
//! It decides which IDs may be given now, by two rules. They are checked at each draw and never on a timer:
//!
//! - A tick is given only if it is < the watermark on disk ([`crate::watermark`]) and < R + B.
//! - Every life starts at P = max(watermark found, R + B), with a record or without one. No ID of this server-id by a
//!   right clock lies past R + B: not from the life that crashed, nor from another folder, under `id-state none`, or on
//!   a disk that was rolled back since. That B is the larger of the record's and the configured one. It is also the
//!   limit until R and the configured one have passed the life's start: so a start costs no wait.
//!
//! Both rules hold for the lines of named generators too ([`crate::line`]): a unit may be given if its beginning may.
//! So no unit that begins past R + B is given, however long it is. A line whose unit is a second may wait for up to a
//! second after a start, as the unnamed generator may wait for a ms.
//!
//! Invariants, at every instant and whatever the outcome of a save in flight:
//!
//! ```text
//! issued tick < watermark <= every watermark the disk may hold, and so is the beginning of every unit issued
//! B in force <= every B the disk may hold
//! ```
//!
//! The module does no waiting, waking, logging or disk access. Methods return what to do, and others take the outcome.

mod lanes;
mod lines;
mod named;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::checks::{Fault, Rare, any_planted, planted, saw};
use crate::claim::{Clocks, Hold, HoldWatch};
use crate::clock::{Reading, ReferenceClock};
use crate::clock_event::ClockEvent;
use crate::lane::LaneOpening;
use crate::layout::Layout;
use crate::limits::{BorrowPolicy, Limits};
use crate::refusal::{Blocked, Overload, Refusal};
use crate::save_point::SavePoint;
use crate::scheme::Reservation;
use crate::slots::Slots;
use crate::status::Status;
use crate::time::{Slot, Tick};
use crate::watermark::{Progress, SAVE_SLACK_MS, Watermark};
use lines::Lines;

/// Slots for which a draw at the borrow limit waits at once, in ms of slots: it is not woken for every slot.
const WAIT_MS_MAX: u64 = 10;

/// Shortest wait, ns: timers have whole ms.
const WAIT_NS_MIN: u64 = 1_000_000;

/// Longest wait, ns: R may be pulled ahead meanwhile.
const WAIT_NS_MAX: u64 = 1_000_000_000;

/// All state that changes with draws, saves and time.
///
/// ```
/// use getid_core::{Blocked, Layout, Limits, Mint, RandomCycle, Reading, Scheme};
///
/// let layout = Layout::default();
/// // A real program shuffles the values.
/// let cycle = RandomCycle::new((0..1 << layout.random_bits()).collect()).expect("a power of two");
/// let scheme = Scheme::new(layout, 1, cycle).expect("the layout has this server-id");
///
/// let reading = Reading { wall_unix_ms: 1_767_225_600_000, boot_ns: 5_000_000_000 };
/// let mut mint = Mint::new(layout, Limits::default(), None, reading);
/// // Write the save point to disk, and sync it, before you report it as saved.
/// let point = mint.due_save(reading.boot_ns).expect("a life begins with a save");
/// mint.saved(point);
///
/// // A life begins past all IDs that an earlier one may have given, so its first draw waits for a millisecond.
/// let Err(Blocked::Borrow { until_boot_ns }) = mint.draw(reading.boot_ns, 2, false) else { panic!("it waits") };
/// let reservation = mint.draw(until_boot_ns, 2, false).expect("the watermark is saved");
/// let ids: Vec<_> = scheme.ids(reservation).collect();
/// assert!(ids[0] < ids[1]);
/// ```
#[derive(Clone, Debug)]
pub struct Mint {
    layout: Layout,
    limits: Limits,
    slots: Slots,
    lines: Lines,
    clock: ReferenceClock,
    watermark: Watermark,
    /// The later of the last life's point and of the points found when a claim was retaken.
    found: SavePoint,
    start: MintStart,
    /// The B in force, ms.
    max_borrow_ms: u64,
    /// The B that comes into force as soon as the disk holds it, ms.
    wanted_borrow_ms: u64,
    /// Largest B that was configured in this life, from its first ID on, ms.
    highest_borrow_limit_ms: u64,
    /// Largest reservation: half of B.
    piece_max: u32,
    /// The watermark, or 0 while no IDs may be given: the only bound of a draw beside R + B.
    gate: Tick,
    /// Boot time until which the claim allows IDs, ns, exclusive: `u64::MAX` for a claim that does not end by silence.
    held_until_ns: u64,
    hold: Option<HoldWatch>,
    /// Slot past which a draw makes a save due.
    save_from: Slot,
    closed: bool,
    /// The bounds of the last lane.
    opened: LaneOpening,
    highest_borrow_ms: u64,
    refusals: u64,
    /// Number of calls of [`Mint::give_reference`] that returned R.
    references: u64,
}

/// Where a life began, or continued after its claim was retaken.
#[derive(Clone, Copy, Debug)]
struct MintStart {
    position: Tick,
    /// The B at that time, ms: the larger of the record's and the configured one.
    max_borrow_ms: u64,
    /// How far another server may still give IDs past R + B, ms.
    slack_ms: u64,
}

impl Mint {
    /// Creates a mint that starts from the last life's point, if there is one.
    ///
    /// It gives no ID before a first save has succeeded: [`Mint::due_save`] wants one at once.
    pub fn new(layout: Layout, limits: Limits, found: Option<SavePoint>, reading: Reading) -> Mint {
        let found = found.map_or(SavePoint::NOTHING, SavePoint::clamped);
        let limits = limits.clamped();
        let recorded_ms = if planted(Fault::StartForgetsBorrow) { 0 } else { found.max_borrow_ms };
        if recorded_ms > limits.max_borrow_ms {
            saw(Rare::Inherited);
        }
        let mut mint = Mint {
            layout,
            limits,
            slots: Slots::new(layout.shard_bits(), found.watermark),
            lines: Lines::default(),
            clock: ReferenceClock::new(layout.epoch(), limits.max_clock_jump_ms, Some(found), reading),
            watermark: Watermark::new(found.watermark),
            found,
            start: MintStart {
                position: found.watermark,
                max_borrow_ms: limits.max_borrow_ms.max(recorded_ms),
                slack_ms: 0,
            },
            max_borrow_ms: 0,
            wanted_borrow_ms: 0,
            highest_borrow_limit_ms: limits.max_borrow_ms,
            piece_max: 1,
            gate: Tick(0),
            held_until_ns: u64::MAX,
            hold: None,
            save_from: Slot(u64::MAX),
            closed: false,
            opened: LaneOpening::NOTHING,
            highest_borrow_ms: 0,
            refusals: 0,
            references: 0,
        };
        mint.start_again();
        mint.set_borrow();
        mint.set_gate();
        mint
    }

    /// Reserves up to `n` consecutive slots, ascending; fewer if a bound cuts them, never none.
    ///
    /// `begun`: whether they are the rest of a draw that was cut. To keep the order, draw the rest before anything
    /// else.
    ///
    /// Under [`BorrowPolicy::Error`], the borrow limit gives or refuses a draw of up to B/2 as a whole. A larger one is
    /// refused if its first B/2 can't be had; once begun it waits, or no such draw could ever be served.
    ///
    /// # Errors
    ///
    /// Fails with [`Blocked`], and no slot is used.
    #[inline]
    pub fn draw(&mut self, boot_ns: u64, n: u32, begun: bool) -> Result<Reservation, Blocked> {
        let now = self.clock.advance(boot_ns);
        if (1..=self.piece_max).contains(&n)
            && let Some(reservation) = self.slots.reserve(now, n, self.ceiling(now))
        {
            self.note_borrow(now, reservation);
            return Ok(reservation);
        }
        self.draw_near_a_bound(now, n, begun)
    }

    /// Returns the exclusive bound of a draw at `now`.
    #[inline]
    fn ceiling(&self, now: Tick) -> Tick {
        if planted(Fault::NoBorrowLimit) {
            return self.gate;
        }
        // Checked at each draw and never on a timer: here a process that was stopped notices the end of its hold.
        if self.clock.seen_boot_ns() >= self.held_until_ns && !planted(Fault::GivesPastItsHold) {
            return Tick(0);
        }
        Tick(now.0 + self.max_borrow_ms).min(self.gate)
    }

    #[inline]
    fn note_borrow(&mut self, now: Tick, reservation: Reservation) {
        let shard_bits = self.layout.shard_bits();
        let last = Slot(reservation.first.0 + u64::from(reservation.len) - 1);
        let borrow_ms = last.tick(shard_bits).ms_since(now);
        self.highest_borrow_ms = self.highest_borrow_ms.max(borrow_ms);
        // With a planted fault the test must see the violation from outside.
        debug_assert!(any_planted() || last.tick(shard_bits) < self.watermark.lowest(), "issued tick < watermark");
    }

    #[cold]
    fn draw_near_a_bound(&mut self, now: Tick, n: u32, begun: bool) -> Result<Reservation, Blocked> {
        assert!(n > 0, "a draw of no ids");
        let available = self.available(now, n, begun).inspect_err(|blocked| {
            self.refusals += u64::from(matches!(blocked, Blocked::Refused(_)));
        })?;
        // There is room: `available` has checked it.
        let reservation = self.slots.reserve(now, available, self.ceiling(now)).ok_or(Blocked::Watermark)?;
        self.note_borrow(now, reservation);
        Ok(reservation)
    }

    /// Checks whether a draw of one ID would be served, without drawing.
    ///
    /// # Errors
    ///
    /// Fails as [`Mint::draw`] does.
    pub fn can_draw(&self, boot_ns: u64) -> Result<(), Blocked> {
        self.available(self.clock.at(boot_ns), 1, false).map(drop)
    }

    /// Returns how many slots a draw of `n` at `now` would get, at least one. This is the only place that decides it.
    fn available(&self, now: Tick, n: u32, begun: bool) -> Result<u32, Blocked> {
        self.check_open()?;
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
            0 => Err(self.watermark.blocked()),
            room => Ok(u32::try_from(room).map_or(piece, |room| room.min(piece))),
        }
    }

    /// Checks that IDs may be given at all.
    fn check_open(&self) -> Result<(), Blocked> {
        let fault = self.clock.fault().map(Refusal::Clock);
        let claim_lost = || self.watermark.claim_refusal().cloned();
        let refusal = if self.closed { Some(Refusal::Closed) } else { fault.or_else(claim_lost) };
        refusal.map_or(Ok(()), |refusal| Err(Blocked::Refused(refusal)))
    }

    /// Returns the boot time at which `n` slots, or a few ms worth of them, fit below the borrow limit.
    fn time_for(&self, now: Tick, n: u32) -> u64 {
        let shard_bits = self.layout.shard_bits();
        let sensible = u64::from(n).min(WAIT_MS_MAX.min(self.max_borrow_ms) << shard_bits);
        let last = Slot(self.slots.first(now).0 + sensible - 1).tick(shard_bits);
        self.boot_ns_below(Tick(last.0 + 1))
    }

    /// Returns the boot time at which R + B will be at `limit`, clamped to the range of waits.
    fn boot_ns_below(&self, limit: Tick) -> u64 {
        let reference = Tick(limit.0.saturating_sub(self.max_borrow_ms));
        let seen = self.clock.seen_boot_ns();
        self.clock.boot_ns_at(reference).clamp(seen.saturating_add(WAIT_NS_MIN), seen.saturating_add(WAIT_NS_MAX))
    }

    /// Returns the time until the first free slot is within the borrow limit, ms; 0: it is.
    pub fn late_ms(&self, boot_ns: u64) -> u64 {
        self.slots.ahead_ms(Tick(self.clock.at(boot_ns).0 + self.max_borrow_ms))
    }

    /// Returns R for a serial number, or for a value of a sequence: neither is an ID of a generator here. The call
    /// counts as an ID: from here on R does not go back, and the record and the last act keep it.
    ///
    /// # Errors
    ///
    /// Fails if the clock is out of all bounds; then nothing has changed.
    pub fn give_reference(&mut self, boot_ns: u64) -> Result<Tick, Refusal> {
        if let Some(fault) = self.clock.fault() {
            return Err(Refusal::Clock(fault));
        }
        self.references += 1;
        Ok(self.clock.advance(boot_ns))
    }

    /// Returns the number of IDs that the unnamed generator gave in this life.
    pub fn ids_issued(&self) -> u64 {
        self.slots.given()
    }

    /// Takes a reading of the clocks, about ten times a second, and returns events for the log.
    pub fn sample(&mut self, reading: Reading) -> Vec<ClockEvent> {
        let fresh = self.is_fresh();
        let events = self.clock.sample(reading, !fresh);
        if fresh && self.clock.fault().is_none() {
            self.start_again();
            self.set_borrow();
            self.watermark.lower(&self.progress(self.clock.at(0)));
        } else {
            self.set_borrow();
        }
        self.set_gate();
        self.set_save_from();
        events
    }

    /// Before the first ID: sets the position to that of a start by the clock as it is now.
    fn start_again(&mut self) {
        let others = if planted(Fault::StartsAtWatermark) && !self.found.is_nothing() {
            Tick(0)
        } else if planted(Fault::StartsAtClock) {
            self.clock.start()
        } else {
            self.clock.start().plus_ms(self.start.max_borrow_ms + self.start.slack_ms)
        };
        let found = if planted(Fault::StartForgetsWatermark) { Tick(0) } else { self.found.watermark };
        self.start.position = found.max(others);
        self.slots.reposition(self.start.position);
        self.lines.restart(self.start_of_line());
    }

    /// Sets the B in force: the configured one once R plus it has passed the life's start. It is never larger than the
    /// disk holds, or a life that finds that record might begin below IDs of this one.
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
            self.wanted_borrow_ms.min(self.watermark.lowest_borrow_ms())
        };
        if self.max_borrow_ms > before_ms && before_ms > 0 {
            saw(Rare::Raised);
        }
        let half = (self.max_borrow_ms / 2).max(1).min(u64::from(u32::MAX)) << self.layout.shard_bits();
        self.piece_max = u32::try_from(half).unwrap_or(u32::MAX);
        if self.max_borrow_ms != before_ms {
            self.lines.limit_pieces(self.max_borrow_ms);
        }
    }

    fn is_past_start(&self) -> bool {
        self.clock.at(0).plus_ms(self.limits.max_borrow_ms) >= self.start.position
    }

    /// Returns the B for a save now. It is at least every B by which this life gave IDs, and so large that R + B is
    /// past all IDs of earlier lives.
    fn borrow_to_store(&self, now: Tick) -> u64 {
        if planted(Fault::StoresConfiguredBorrow) {
            return self.limits.max_borrow_ms;
        }
        let inherited = if self.is_past_start() && !planted(Fault::InheritsForEver) {
            self.position().ms_since(now).min(self.start.max_borrow_ms)
        } else {
            self.start.max_borrow_ms
        };
        self.highest_borrow_limit_ms.max(inherited)
    }

    /// Returns P of all generators: the first tick without an ID.
    fn position(&self) -> Tick {
        self.slots.position().max(self.lines.position())
    }

    /// Returns the number of IDs of all generators in this life, which make a save worth more.
    fn issued(&self) -> u64 {
        self.slots.given() + self.lines.issued() + self.references
    }

    /// Returns the input of the watermark's policy.
    fn progress(&self, now: Tick) -> Progress {
        Progress {
            now,
            position: self.position().max(self.lines.wanted()),
            issued: self.issued(),
            lead_ms: self.limits.lead_ms,
            max_borrow_ms: self.wanted_borrow_ms,
            undeclared: self.lines.undeclared(),
        }
    }

    /// Returns the point to save now, if a save is wanted. The caller saves it and reports the outcome by
    /// [`Mint::saved`], [`Mint::save_failed`], [`Mint::claim_lost`] or [`Mint::claim_retaken`]; until then no other
    /// save is wanted.
    pub fn due_save(&mut self, boot_ns: u64) -> Option<SavePoint> {
        self.save_wanted(boot_ns, false)
    }

    /// Returns the point to save for a claim that is kept by regular saves, when one is due. `None` while a save is
    /// under way, if the clock is out of all bounds, or after [`Mint::close`].
    pub fn due_beat(&mut self, boot_ns: u64) -> Option<SavePoint> {
        self.save_wanted(boot_ns, true)
    }

    fn save_wanted(&mut self, boot_ns: u64, beat: bool) -> Option<SavePoint> {
        let reference = self.clock.advance(boot_ns);
        self.save_from = Slot(u64::MAX);
        self.lines.set_due_from(None);
        if self.closed || self.clock.fault().is_some() {
            return None;
        }
        let watermark = self.watermark.wanted(&self.progress(reference), self.clock.seen_boot_ns(), beat)?;
        let point = SavePoint { watermark, reference, max_borrow_ms: self.borrow_to_store(reference) };
        let stores_found = planted(Fault::FreshSaveStoresFound) && self.is_fresh() && !self.found.is_nothing();
        let point = if stores_found { self.found } else { point };
        self.watermark.begin(point, self.issued(), self.clock.seen_boot_ns());
        self.lines.begin_save();
        self.set_borrow();
        self.set_gate();
        Some(point)
    }

    /// Returns true if [`Mint::due_save`] should be called now rather than at the next sample: a hint after a draw,
    /// of one comparison. True until that call, once per sample at most.
    #[inline]
    pub fn is_save_due(&self) -> bool {
        self.slots.next() >= self.save_from
    }

    fn set_save_from(&mut self) {
        let from = self.watermark.due_from(self.clock.at(0), self.limits.lead_ms);
        self.save_from = from.map_or(Slot(u64::MAX), |tick| Slot::first_of(tick, self.layout.shard_bits()));
        self.lines.set_due_from(from);
    }

    /// Records that a save has succeeded.
    pub fn saved(&mut self, point: SavePoint) {
        self.watermark.saved(point);
        self.lines.saved();
        self.set_borrow();
        self.set_gate();
        self.set_save_from();
    }

    /// Records that a save has failed with this text; the disk may hold the old point or the new one. IDs continue up
    /// to the watermark, then draws are refused with this text until a save succeeds.
    pub fn save_failed(&mut self, error: Arc<str>) {
        self.watermark.failed(error);
        self.set_gate();
    }

    /// Records that lock or folder belong to another process: no IDs until a later save succeeds. Ends a save in
    /// flight.
    pub fn claim_lost(&mut self, text: Arc<str>) {
        self.watermark.claim_lost(Refusal::ClaimLost(text));
        self.set_gate();
    }

    /// Records that this server waits for its claim, which another server has or no server has yet. There are no IDs
    /// until it is taken ([`Mint::claim_taken`]) and a save has succeeded. Ends a save in flight.
    pub fn stand_by(&mut self, text: Arc<str>) {
        self.watermark.claim_lost(Refusal::Standby(text));
        self.set_gate();
    }

    /// Returns why this server, as a standby, gives nothing at all: not even IDs without a watermark.
    pub fn standby(&self) -> Option<&Refusal> {
        self.watermark.claim_refusal().filter(|refusal| matches!(refusal, Refusal::Standby(_)))
    }

    /// Records an acknowledged beat: IDs may be given until this hold ends. Without a call they may be given for ever,
    /// as with a claim that does not end by silence.
    pub fn held(&mut self, hold: Hold, now: Clocks) {
        self.hold = Some(HoldWatch::new(hold));
        self.watch_hold(now);
    }

    /// Reads the clocks, about ten times a second. A clock that is faster than the one of the draws ends the hold
    /// sooner, and one that went back ends it at once.
    pub fn watch_hold(&mut self, now: Clocks) {
        if let Some(hold) = &mut self.hold {
            self.held_until_ns = hold.until_boot_ns(now);
        }
    }

    /// Returns how long IDs may be given without another acknowledged beat, ms; `None`: for ever.
    pub fn held_for_ms(&self, boot_ns: u64) -> Option<u64> {
        self.hold?;
        Some(self.held_until_ns.saturating_sub(self.clock.seen_boot_ns().max(boot_ns)) / 1_000_000)
    }

    /// Records that the claim was lost and taken again, with `found` on the disk. Ends a save in flight.
    ///
    /// Another server may have given IDs in between, so the mint continues as at a start. R is at least the one found,
    /// and P at least max(watermark found, R + B + 200 ms). The 200 ms are for a server that has not noticed yet that
    /// it has lost its folder: it may give IDs up to its watermark. No IDs until a save has succeeded.
    pub fn claim_retaken(&mut self, boot_ns: u64, found: Option<SavePoint>, text: Arc<str>) {
        self.begin_again(boot_ns, found, SAVE_SLACK_MS, Refusal::ClaimLost(text));
    }

    /// Records that a standby has taken its claim, with `found` in the claim store. It continues as after
    /// [`Mint::claim_retaken`].
    ///
    /// `is_watched`: what was found was written while this server watched, so the store has not gone back. Then no
    /// server gives IDs past it, and P is at least max(watermark found, R + B) alone: the first ID need not wait.
    pub fn claim_taken(&mut self, boot_ns: u64, found: Option<SavePoint>, is_watched: bool, text: Arc<str>) {
        let slack_ms = if is_watched { 0 } else { SAVE_SLACK_MS };
        self.begin_again(boot_ns, found, slack_ms, Refusal::Standby(text));
    }

    fn begin_again(&mut self, boot_ns: u64, found: Option<SavePoint>, slack_ms: u64, why: Refusal) {
        let found = found.map_or(SavePoint::NOTHING, SavePoint::clamped);
        let now = self.clock.restart(boot_ns, found.reference);
        let recorded_ms = if planted(Fault::RetakeForgetsBorrow) { 0 } else { found.max_borrow_ms };
        let own_ms = self.start.max_borrow_ms.max(self.highest_borrow_limit_ms);
        self.start.max_borrow_ms = own_ms.max(recorded_ms);
        self.start.slack_ms = if planted(Fault::RetakeWithoutSlack) { 0 } else { slack_ms };
        self.watermark.claim_retaken(found.watermark, why);
        // A correction of the clock before the first ID stays above both records.
        self.found = self.found.later(found);
        if self.is_fresh() {
            saw(Rare::RetakenFresh);
            self.start_again();
        } else {
            saw(Rare::Retaken);
            let others = now.plus_ms(self.start.max_borrow_ms + self.start.slack_ms).max(found.watermark);
            if !planted(Fault::RetakeForgetsPosition) {
                self.slots.skip_to(others);
                self.lines.skip_to(others);
            }
            self.start.position = self.position();
        }
        self.opened = LaneOpening::ANYTHING;
        self.set_borrow();
        self.set_gate();
    }

    /// Closes the mint permanently, and returns the point to store as the last act.
    ///
    /// That is P itself, the first tick without an ID. After a life without IDs it is the point that was found, so that
    /// a clock that was wrong at the start leaves no trace. A life that found no record stores [`SavePoint::NOTHING`].
    /// Only the last act may do so: after a kill it is unknown whether an ID was given since a save.
    ///
    /// Returns `None` if nothing may be written: the clock is out of all bounds, or no save was ever wanted and the
    /// disk is as it was. A save in flight must have ended before the point is stored. The point may be lower than the
    /// watermark on disk.
    pub fn close(&mut self) -> Option<SavePoint> {
        let reference = self.clock.at(0);
        self.closed = true;
        self.set_gate();
        if self.is_fresh() && !planted(Fault::FreshStopStoresPosition) {
            saw(Rare::FreshStop);
            return self.watermark.has_begun().then_some(self.found);
        }
        if self.clock.fault().is_some() {
            return None;
        }
        let max_borrow_ms = self.borrow_to_store(reference);
        let position = self.position();
        let watermark = if planted(Fault::CloseStoresWatermark) { self.watermark.lowest() } else { position };
        Some(SavePoint { watermark, reference, max_borrow_ms })
    }

    /// Returns true if this life has given no ID, of any generator, and nothing else by R.
    fn is_fresh(&self) -> bool {
        self.slots.given() == 0 && (self.lines.issued() == 0 || planted(Fault::LinesAreFresh)) && self.references == 0
    }

    fn set_gate(&mut self) {
        let open = (!self.closed || planted(Fault::CloseKeepsGate))
            && (self.clock.fault().is_none() || planted(Fault::FaultKeepsGate));
        self.gate = if open { self.watermark.gate() } else { Tick(0) };
    }

    /// Changes limits while running, for later draws and saves. A lower borrow limit makes draws wait until time has
    /// caught up; the watermark stays, with P below it. A higher one is in force once the disk holds it. The start of
    /// this life does not change, before its first ID or after.
    ///
    /// A borrow limit above [`Mint::start_max_borrow_ms`] is sound only if the next life will find a record with it;
    /// the caller must ensure that. Without a record that life begins at R + B as configured, below IDs that this one
    /// may have given.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits.clamped();
        // A limit that was withdrawn before the first ID leaves no trace.
        let used = if self.is_fresh() { 0 } else { self.highest_borrow_limit_ms };
        self.highest_borrow_limit_ms = used.max(self.limits.max_borrow_ms);
        self.clock.set_max_jump_ms(limits.max_clock_jump_ms);
        self.set_borrow();
    }

    /// Returns the B of the start, ms, the larger of the record's and the configured one. It is how far IDs may run
    /// ahead if the next life, started with the same limits, might find no record.
    pub fn start_max_borrow_ms(&self) -> u64 {
        self.start.max_borrow_ms
    }

    /// Returns the limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the interval for [`Mint::sample`] and [`Mint::due_save`], ms: shorter with a short lead.
    pub fn sample_interval_ms(&self) -> u64 {
        (self.limits.lead_ms / 10).clamp(1, 100)
    }

    /// Returns the largest reservation of one draw: half of B.
    pub fn piece_max(&self) -> u32 {
        self.piece_max
    }

    /// Returns the refusal of a draw that would have to wait too long.
    pub fn overload(&self, overload: Overload) -> Refusal {
        let Overload { wait_ms, max_wait_ms, late_ms, asked_per_s } = overload;
        let layout = self.layout;
        let too_late = self.too_late(late_ms, max_wait_ms);
        too_late.unwrap_or(Refusal::Overload { wait_ms, max_wait_ms, asked_per_s, layout })
    }

    /// Returns the refusal of a draw that would wait too long for time, not for other draws.
    fn too_late(&self, late_ms: u64, max_wait_ms: u64) -> Option<Refusal> {
        let max_borrow_ms = self.limits.max_borrow_ms;
        let ahead_ms = max_borrow_ms.saturating_add(late_ms);
        (late_ms > max_wait_ms).then_some(Refusal::Busy { ahead_ms, max_borrow_ms })
    }

    /// Returns the warning for the log if clients draw more than the layout holds. `asked_per_s`: in the last second.
    pub fn borrowing(&self, boot_ns: u64, asked_per_s: u64) -> Option<String> {
        let borrow_ms = self.slots.ahead_ms(self.clock.at(boot_ns));
        let shortage = self.layout.shortage(asked_per_s).filter(|_| borrow_ms > 0)?;
        Some(format!("borrowing: ids are {borrow_ms} ms ahead of the clock: {shortage}"))
    }

    /// Returns the state for INFO.
    pub fn status(&self, boot_ns: u64) -> Status {
        let reference = self.clock.at(boot_ns);
        Status {
            ids_issued: self.slots.given(),
            line_ids_issued: self.lines.issued(),
            position: self.slots.position(),
            reference,
            watermark: self.watermark.lowest(),
            borrow_ms: self.slots.ahead_ms(reference),
            max_borrow_ms: self.max_borrow_ms,
            highest_borrow_ms: self.highest_borrow_ms,
            clock_offset_ms: self.clock.offset_ms(),
            rollbacks: self.clock.rollbacks(),
            jumps: self.clock.jumps(),
            holds_jump: self.clock.holds_jump(),
            refusals: self.refusals,
            capacity_per_s: self.layout.capacity_per_s(),
            is_saving: self.watermark.is_saving(),
            saves: self.watermark.saves(),
            save_error: self.watermark.save_error().cloned(),
        }
    }
}
