//! The watermark policy: below which tick IDs may be given by the disk's record, and when to save a higher one.
//!
//! A watermark on disk is a promise to the next life: no tick at or past it was given. So it must be ahead of the
//! position before the position gets there, without a write for every ID:
//!
//! - It is saved as `min(max(P, R) + L, R + B + 200 ms)`, in the background, before P reaches it.
//! - A save that raises it counts once it has succeeded. A save that lowers it counts from the moment it is wanted:
//!   from then on the disk may hold either.
//! - It goes down in two cases only: when the clock is corrected before this life's first ID, and in the last act of a
//!   clean stop.
//! - The saved B follows the same rules: it bounds how far this life may give IDs past R.
//!
//! Invariant, at every instant and whatever the outcome of a save in flight:
//!
//! ```text
//! lowest <= every watermark the disk may hold <= highest
//! lowest_borrow_ms <= every B the disk may hold
//! ```
//!
//! The policy does not decide which IDs are given ([`crate::mint`] does), and has no disk. It returns the wanted save
//! and takes its outcome.

use alloc::sync::Arc;

use crate::checks::{Fault, Rare, planted, saw};
use crate::refusal::{Blocked, Refusal};
use crate::save_point::SavePoint;
use crate::time::Tick;

/// Largest distance of a saved watermark past R + B, ms: at the borrow limit, the room that one save makes.
///
/// It is also what a crash at the borrow limit costs: the next life waits that long.
pub const SAVE_SLACK_MS: u64 = 200;

/// Smallest gain of a save at the borrow limit, ms: ten writes a second at most.
const SAVE_GAIN_MS: u64 = 100;

/// Pause between the beginnings of a failed save and the next one, ns.
const SAVE_RETRY_NS: u64 = 250_000_000;

/// Smallest distance above the cap from which a watermark is lowered, ms: it covers the clock's jitter before the first
/// ID.
const LOWER_MS_MIN: u64 = 100;

/// The points that the disk may hold, and the save in flight.
#[derive(Clone, Debug)]
pub(crate) struct Watermark {
    /// Lowest watermark that the disk may hold: the bound of draws.
    lowest: Tick,
    /// Highest watermark that the disk may hold.
    highest: Tick,
    /// Lowest B that the disk may hold, ms.
    lowest_borrow_ms: u64,
    /// Whether the watermark was lowered, and no later save has succeeded yet.
    lowering: bool,
    saving: Option<SaveInFlight>,
    /// Boot time before which no save is wanted, ns.
    retry_at_ns: u64,
    saves: u64,
    save_error: Option<Arc<str>>,
    /// Why no IDs are given: the claim is not, or no longer, this server's.
    claim_lost: Option<Refusal>,
    /// Number of IDs given when the last save began: it shows whether the server is busy.
    issued_at_save: u64,
    /// Whether a save has begun in this life.
    has_begun: bool,
}

#[derive(Clone, Copy, Debug)]
struct SaveInFlight {
    point: SavePoint,
    /// Whether the watermark was lowered since it began: then its point may be too high.
    stale: bool,
}

/// Input of the policy: the position of time and IDs, and their limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// R, the reference clock.
    pub(crate) now: Tick,
    /// P, the position.
    pub(crate) position: Tick,
    /// Number of IDs given in this life, and of other uses of R.
    pub(crate) issued: u64,
    /// L, the lead, ms.
    pub(crate) lead_ms: u64,
    /// The B in force once a save that begins now has succeeded, ms.
    pub(crate) max_borrow_ms: u64,
    /// Whether the disk lacks a declaration.
    pub(crate) undeclared: bool,
}

impl Progress {
    /// Returns the watermark of a save that begins now.
    fn target(&self) -> Tick {
        let lead = self.position.max(self.now).plus_ms(self.lead_ms);
        // With a smaller B than the last life's, or a record that was moved ahead, P may be past the cap.
        lead.min(self.cap()).max(self.position)
    }

    fn cap(&self) -> Tick {
        self.now.plus_ms(self.max_borrow_ms + SAVE_SLACK_MS)
    }
}

impl Watermark {
    /// Creates the policy of a life that found `watermark`. A first save is wanted at once.
    pub(crate) fn new(watermark: Tick) -> Watermark {
        Watermark {
            lowest: watermark,
            highest: watermark,
            // Nothing is given before the first save.
            lowest_borrow_ms: u64::MAX,
            lowering: false,
            saving: None,
            retry_at_ns: 0,
            saves: 0,
            save_error: None,
            claim_lost: None,
            issued_at_save: 0,
            has_begun: false,
        }
    }

    /// Returns the watermark to save now, if a save is wanted; [`Watermark::begin`] begins it.
    ///
    /// A save is wanted when a third of the possible lead is used up, half of it on an idle server. With the default
    /// lead that is a write a second, two in three seconds when idle. At the watermark it is always wanted, unless one
    /// is in flight or has just failed.
    ///
    /// `beat`: the claim must be kept by a save now.
    pub(crate) fn wanted(&self, progress: &Progress, boot_ns: u64, beat: bool) -> Option<Tick> {
        // A longer pause was not set at this time: the boot-time clock has gone back.
        let pauses = (1..=SAVE_RETRY_NS).contains(&self.retry_at_ns.saturating_sub(boot_ns)) && !beat;
        let gives_up = planted(Fault::RefusesForEver) && self.save_error.is_some();
        if self.saving.is_some() || pauses || gives_up {
            return None;
        }
        let target = progress.target();
        let must = beat
            || self.saves == 0
            || self.lowering
            || progress.undeclared
            || progress.max_borrow_ms > self.lowest_borrow_ms
            || self.save_error.is_some()
            || self.claim_lost.is_some();
        if !must && !self.is_worth_saving(progress, target) {
            return None;
        }
        Some(if self.lowering { target } else { target.max(self.lowest) })
    }

    fn is_worth_saving(&self, progress: &Progress, target: Tick) -> bool {
        let position = progress.position.max(progress.now);
        let remaining_ms = self.lowest.ms_since(position);
        let room_ms = target.ms_since(position);
        let gain_ms = target.ms_since(self.lowest);
        let is_idle = progress.issued == self.issued_at_save;
        // Near the borrow limit there is little room, and a slow sync must not use it all.
        let is_low = if is_idle {
            remaining_ms * 2 <= room_ms
        } else {
            remaining_ms * 3 <= room_ms * 2 || remaining_ms <= progress.lead_ms / 4
        };
        is_low && gain_ms >= SAVE_GAIN_MS.min(progress.lead_ms / 4).max(1)
    }

    /// Returns the position from which on a draw should request a save before the next sample; `None`: a save is in
    /// flight.
    pub(crate) fn due_from(&self, now: Tick, lead_ms: u64) -> Option<Tick> {
        let left_ms = lead_ms.min(self.lowest.ms_since(now)) * 2 / 3;
        self.saving.is_none().then(|| Tick(self.lowest.0.saturating_sub(left_ms)))
    }

    /// Begins the save of `point`, after `issued` IDs: from here on the disk may hold it.
    pub(crate) fn begin(&mut self, point: SavePoint, issued: u64, boot_ns: u64) {
        if !planted(Fault::LowersLate) {
            self.lowest = self.lowest.min(point.watermark);
        }
        self.highest = self.highest.max(point.watermark);
        self.lowest_borrow_ms = self.lowest_borrow_ms.min(point.max_borrow_ms);
        self.saving = Some(SaveInFlight { point, stale: false });
        self.retry_at_ns = boot_ns.saturating_add(SAVE_RETRY_NS);
        self.issued_at_save = issued;
        self.has_begun = true;
    }

    /// Records that the save in flight has succeeded.
    pub(crate) fn saved(&mut self, point: SavePoint) {
        let saving = self.saving.take();
        debug_assert_eq!(saving.map(|saving| saving.point), Some(point), "the point that was wanted");
        if saving.is_some_and(|saving| (!saving.stale || planted(Fault::StaleSaveCounts)) && saving.point == point) {
            self.lowest = point.watermark;
            self.lowering = false;
        } else {
            saw(Rare::StaleSave);
            // The point is on disk, but the watermark must come down again: another save is wanted.
            self.lowest = self.lowest.min(point.watermark);
        }
        self.highest = point.watermark;
        self.lowest_borrow_ms = point.max_borrow_ms;
        self.saves += 1;
        self.retry_at_ns = 0;
        self.save_error = None;
        if !planted(Fault::LostForEver) {
            self.claim_lost = None;
        }
    }

    /// Records that the save in flight has failed; the disk may hold the old point or the new one.
    pub(crate) fn failed(&mut self, error: Arc<str>) {
        if let Some(saving) = self.saving.take()
            && planted(Fault::FailedSaveCounts)
        {
            self.lowest = saving.point.watermark;
        }
        if matches!(self.claim_lost, Some(Refusal::Standby(_))) {
            // The server has the claim now, but the store does not answer.
            self.claim_lost = Some(Refusal::Save { error: Arc::clone(&error) });
        }
        self.save_error = Some(error);
    }

    /// Lowers a watermark that a wrong clock has left too high. Only before the first ID.
    pub(crate) fn lower(&mut self, progress: &Progress) {
        let target = progress.target();
        let cap = progress.cap().max(target);
        if self.highest <= cap.plus_ms(LOWER_MS_MIN) || planted(Fault::NeverLowers) {
            return;
        }
        saw(Rare::Lowered);
        self.lowering = true;
        if !planted(Fault::LowersLate) {
            self.lowest = self.lowest.min(target);
        }
        if let Some(saving) = &mut self.saving {
            saving.stale = true;
        }
    }

    /// Records that the claim is not this server's: no IDs until a save has succeeded. Ends a save in flight.
    pub(crate) fn claim_lost(&mut self, why: Refusal) {
        self.saving = None;
        self.claim_lost = Some(why);
    }

    /// Records that the claim was taken again, with `watermark` on the disk. The policy starts again, with this life's
    /// counters. `why`: the refusal of draws until a save has succeeded.
    pub(crate) fn claim_retaken(&mut self, watermark: Tick, why: Refusal) {
        *self = Watermark {
            saves: self.saves,
            save_error: self.save_error.take(),
            claim_lost: Some(why),
            issued_at_save: self.issued_at_save,
            has_begun: self.has_begun,
            ..Watermark::new(watermark)
        };
    }

    /// Returns the exclusive bound of the ticks that may be given; 0: none.
    pub(crate) fn gate(&self) -> Tick {
        match self.claim_lost {
            Some(_) if !planted(Fault::LostClaimKeepsGate) => Tick(0),
            _ if planted(Fault::NoWatermarkCheck) => Tick::END,
            // Until the disk has the lower point, it may have times of first IDs that are later than the next ID.
            _ if self.lowering && !planted(Fault::LowersLate) => Tick(0),
            _ => self.lowest,
        }
    }

    /// Returns why a draw at the gate gets nothing: a save is wanted, or has failed.
    pub(crate) fn blocked(&self) -> Blocked {
        match &self.save_error {
            Some(error) => Blocked::Refused(Refusal::Save { error: Arc::clone(error) }),
            None => Blocked::Watermark,
        }
    }

    pub(crate) fn lowest(&self) -> Tick {
        self.lowest
    }

    pub(crate) fn lowest_borrow_ms(&self) -> u64 {
        self.lowest_borrow_ms
    }

    /// Returns true if a save has begun in this life: then the disk may hold more than was found.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    pub(crate) fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    pub(crate) fn saves(&self) -> u64 {
        self.saves
    }

    /// Returns why the last save failed; `None` once one has succeeded.
    pub(crate) fn save_error(&self) -> Option<&Arc<str>> {
        self.save_error.as_ref()
    }

    /// Returns why there are no IDs, while the claim is not this server's.
    pub(crate) fn claim_refusal(&self) -> Option<&Refusal> {
        self.claim_lost.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    const RETRY: u64 = SAVE_RETRY_NS;

    fn progress(now: u64, position: u64, issued: u64) -> Progress {
        Progress {
            now: Tick(now),
            position: Tick(position),
            issued,
            lead_ms: 3000,
            max_borrow_ms: 3000,
            undeclared: false,
        }
    }

    fn point(watermark: Tick) -> SavePoint {
        SavePoint { watermark, reference: Tick(0), max_borrow_ms: 3000 }
    }

    /// Returns a policy whose first save, of 13,000, has succeeded, with its gate open.
    fn running() -> Watermark {
        let mut watermark = Watermark::new(Tick(0));
        let wanted = watermark.wanted(&progress(10_000, 10_000, 0), 1, false).expect("a first save");
        assert_eq!((wanted, watermark.gate()), (Tick(13_000), Tick(0)));
        watermark.begin(point(wanted), 0, 1);
        assert_eq!((watermark.gate(), watermark.due_from(Tick(10_000), 3000)), (Tick(0), None), "in flight");
        watermark.saved(point(wanted));
        assert_eq!((watermark.gate(), watermark.due_from(Tick(10_000), 3000)), (wanted, Some(Tick(11_000))));
        watermark
    }

    #[test]
    fn a_third_of_the_lead_is_worth_a_save_and_half_of_it_when_idle() {
        let watermark = running();
        for (issued, first) in [(1, 11_000), (0, 11_500)] {
            assert_eq!(watermark.wanted(&progress(first - 1, first - 1, issued), 1, false), None);
            assert_eq!(watermark.wanted(&progress(first, first, issued), 1, false), Some(Tick(first + 3000)));
        }
        // At the borrow limit: 200 ms past it, and not for less than 100.
        assert_eq!(watermark.wanted(&progress(9899, 12_899, 1), 1, false), None);
        assert_eq!(watermark.wanted(&progress(9900, 12_900, 1), 1, false), Some(Tick(13_100)));
        // B is raised on the disk before it is in force.
        let raised = Progress { max_borrow_ms: 3001, ..progress(10_000, 10_000, 0) };
        assert_eq!(watermark.wanted(&raised, 1, false), Some(Tick(13_000)));
    }

    #[test]
    fn a_beat_is_wanted_though_the_watermark_need_not_move_and_does_not_pause() {
        let mut watermark = running();
        let at = progress(10_100, 10_100, 1);
        assert_eq!(watermark.wanted(&at, 1, false), None);
        assert_eq!(watermark.wanted(&at, 1, true), Some(Tick(13_100)));
        watermark.begin(point(Tick(13_100)), 1, 1);
        assert_eq!(watermark.wanted(&at, 1, true), None, "one is in flight");
        watermark.failed("the store is away".into());
        assert_eq!(watermark.wanted(&at, 2, false), None, "it pauses");
        assert_eq!(watermark.wanted(&at, 2, true), Some(Tick(13_100)));
    }

    #[test]
    fn a_save_that_failed_counts_as_both_and_is_tried_again() {
        let mut watermark = running();
        watermark.begin(point(Tick(14_500)), 1, 1);
        watermark.failed("no space".into());
        assert_eq!(watermark.gate(), Tick(13_000));
        assert!(matches!(watermark.blocked(), Blocked::Refused(Refusal::Save { .. })));
        let at = progress(11_500, 11_500, 1);
        assert_eq!(watermark.wanted(&at, RETRY, false), None, "it pauses");
        assert_eq!(watermark.wanted(&at, 1 + RETRY, false), Some(Tick(14_500)));
        watermark.begin(point(Tick(14_500)), 1, 1 + RETRY);
        watermark.saved(point(Tick(14_500)));
        assert_eq!((watermark.gate(), watermark.blocked()), (Tick(14_500), Blocked::Watermark));
    }

    #[test]
    fn without_the_claim_the_gate_is_shut_until_a_save_succeeds() {
        let mut watermark = running();
        watermark.claim_lost(Refusal::ClaimLost("taken".into()));
        assert_eq!(watermark.gate(), Tick(0));
        watermark.claim_retaken(Tick(20_000), Refusal::ClaimLost("taken again".into()));
        let wanted = watermark.wanted(&progress(10_000, 20_000, 1), 1, false).expect("a save");
        assert_eq!((wanted, watermark.gate()), (Tick(20_000), Tick(0)));
        watermark.begin(point(wanted), 1, 1);
        watermark.saved(point(wanted));
        assert_eq!(watermark.gate(), Tick(20_000));
    }

    #[test]
    fn a_standby_that_has_taken_its_claim_and_cannot_save_reports_it() {
        let mut watermark = running();
        watermark.claim_retaken(Tick(20_000), Refusal::Standby("the first save is under way".into()));
        watermark.begin(point(Tick(20_000)), 1, 1);
        watermark.failed("the store is away".into());
        assert_eq!(watermark.claim_refusal(), Some(&Refusal::Save { error: "the store is away".into() }));
        assert_eq!(watermark.gate(), Tick(0));
        watermark.begin(point(Tick(20_000)), 1, 1 + RETRY);
        watermark.saved(point(Tick(20_000)));
        assert_eq!((watermark.claim_refusal(), watermark.gate()), (None, Tick(20_000)));
    }

    #[derive(Clone, Copy, Debug)]
    enum WatermarkStep {
        Want { now: u64, ahead: u64, max_borrow_ms: u64 },
        Lower { now: u64 },
        Succeed,
        Fail,
    }

    fn step() -> impl Strategy<Value = WatermarkStep> {
        prop_oneof![
            (0..100_000_u64, 0..4000_u64, 1..5000_u64).prop_map(|(now, ahead, max_borrow_ms)| WatermarkStep::Want {
                now,
                ahead,
                max_borrow_ms
            }),
            (0..100_000_u64).prop_map(|now| WatermarkStep::Lower { now }),
            Just(WatermarkStep::Succeed),
            Just(WatermarkStep::Fail),
        ]
    }

    proptest! {
        /// However the clock moves and saves end, the watermark in force is never above one that the disk may hold.
        #[test]
        fn what_the_disk_may_hold_lies_between_the_bounds(steps in prop::collection::vec(step(), 1..200)) {
            let mut watermark = Watermark::new(Tick(0));
            let mut disk = vec![];
            let mut flight = None;
            for (i, step) in (0..).zip(steps) {
                match step {
                    WatermarkStep::Want { now, ahead, max_borrow_ms } => {
                        let progress = Progress { max_borrow_ms, ..progress(now, now + ahead, i) };
                        let Some(wanted) = watermark.wanted(&progress, i * RETRY, false) else { continue };
                        let point = SavePoint { max_borrow_ms, ..point(wanted) };
                        watermark.begin(point, i, i * RETRY);
                        flight = Some(point);
                        disk.push(point);
                    }
                    WatermarkStep::Lower { now } => watermark.lower(&progress(now, now, 0)),
                    WatermarkStep::Succeed => if let Some(point) = flight.take() {
                        watermark.saved(point);
                        disk = vec![point];
                    },
                    WatermarkStep::Fail => if flight.take().is_some() {
                        watermark.failed("no space".into());
                    },
                }
                for point in &disk {
                    prop_assert!(watermark.lowest <= point.watermark && point.watermark <= watermark.highest);
                    prop_assert!(watermark.lowest_borrow_ms <= point.max_borrow_ms);
                }
            }
        }
    }
}
