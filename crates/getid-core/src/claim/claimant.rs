//! State machine of one server and one claim.

use super::clocks::{Clocks, Hold};
use super::record::{
    ClaimEvent, ClaimLoss, ClaimRequest, ClaimSnapshot, ReadAnswer, RecordWrite, Stamp, StandbyReason, StoreAction,
    TakeCause, WriteAnswer, WritePurpose,
};
use super::watch::Watch;
use crate::checks::{Fault, planted};
use crate::save_point::SavePoint;
use crate::time::Epoch;

/// Interval between the reads of a standby, ms.
const POLL_MS: u64 = 100;

/// Options that may change while the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimOptions {
    /// How long this server may be silent as a holder, ms (`claim-timeout-ms`). Its records contain it.
    pub timeout_ms: u64,
    /// Limit for a wall clock ahead of the record's time, ms; 0: no limit (`claim-max-clock-ahead-ms`). Past it no
    /// claim is taken over: IDs would be ahead with the clock, and stay so.
    pub max_ahead_ms: u64,
    /// Limit for a wall clock behind the record's time, ms; 0: no limit (`id-max-clock-jump-ms`). Past it no claim is
    /// taken over. Below it IDs continue from the record's time, at no cost.
    pub max_behind_ms: u64,
    /// Whether both limits are lifted (`claim-takeover any`).
    pub takes_any: bool,
    /// Whether a missing record may be created (`server-id auto`, for ids of the cluster record's list).
    pub creates: bool,
    /// The instant at which ticks start to count.
    pub epoch: Epoch,
}

/// State machine of one server and one claim, as holder or as standby.
///
/// The driver calls [`Claimant::next_action`], does what it returns, and passes the result back; one thing at a time.
///
/// Invariants: [`ClaimEvent::Saved`] is returned only for a point that the store held under a stamp of this process. So
/// two processes never save to the same record at once, whatever clocks and networks do. A claim of another process is
/// taken only by a write that names the stamp that was watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    me: u128,
    options: ClaimOptions,
    /// Highest beat that the store is known to have had.
    noted_beat: u64,
    /// Highest beat of a write that was sent.
    tried_beat: u64,
    /// Number of times the claim was taken.
    term: u64,
    /// The last write that was sent, until its answer is known.
    attempt: Option<Attempt>,
    state: ClaimantState,
}

/// A write that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    write: RecordWrite,
    /// When it was sent, once it has ended with an unknown outcome.
    unknown_since: Option<Clocks>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ClaimantState {
    Standby(StandbyState),
    Holder(HolderState),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StandbyState {
    watch: Option<Watch>,
    /// Why the claim may be taken, by the newest read.
    ready: Option<TakeCause>,
    waiting: StandbyReason,
    /// While the record has this stamp, other servers go first for a time-out.
    stepped_aside: Option<Stamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct HolderState {
    /// The record's last known stamp.
    stamp: Stamp,
    /// The point that the mint received when the claim was taken.
    found: Option<SavePoint>,
    /// The point in the record from which the claim was taken.
    left: SavePoint,
    /// The hold of the last write that is known to be done.
    hold: Option<Hold>,
    /// Whether that write was a save.
    has_saved: bool,
    /// Whether `found` was written while this server watched.
    is_watched: bool,
}

impl HolderState {
    /// Creates a holder that has just taken the claim, from a record with the point `left`.
    fn new(stamp: Stamp, left: SavePoint, hold: Option<Hold>) -> HolderState {
        HolderState { stamp, found: Some(left), left, hold, has_saved: false, is_watched: false }
    }

    /// Returns true if no other process can have had the claim up to `now`, not even in a store that has forgotten it
    /// since. The wall clock is left out: setting it ends no silence.
    fn was_sure(&self, now: Clocks) -> bool {
        let is_on = |hold: Hold| !hold.is_over(Clocks { wall_ms: hold.sent.wall_ms, ..now });
        self.hold.is_some_and(is_on) || planted(Fault::ResumesWhereItWas)
    }
}

impl Claimant {
    /// Creates a machine without a claim. `me`: a number that no other process ever had. `noted_beat`: highest beat of
    /// this claim in the server's folder, or 0. `watch`: what was read of the record already.
    pub fn new(me: u128, options: ClaimOptions, noted_beat: u64, watch: Option<Watch>) -> Claimant {
        let standby = StandbyState { watch, ready: None, waiting: StandbyReason::Unread, stepped_aside: None };
        Claimant {
            me,
            options,
            noted_beat,
            tried_beat: 0,
            term: 0,
            attempt: None,
            state: ClaimantState::Standby(standby),
        }
    }

    /// Replaces the options, from the next action on.
    pub fn set_options(&mut self, options: ClaimOptions) {
        self.options = options;
    }

    /// Returns the next action in the store.
    pub fn next_action(&mut self, ask: ClaimRequest) -> StoreAction {
        let is_unsure = self.attempt.is_some();
        match &mut self.state {
            ClaimantState::Standby(standby) => {
                let (watch, ready) = (standby.watch, standby.ready.take());
                match (ask, ready) {
                    (ClaimRequest::Release { .. }, _) if !is_unsure => StoreAction::Nothing,
                    (ClaimRequest::Watch | ClaimRequest::Save { .. }, Some(cause)) if !is_unsure => {
                        self.take(cause, watch)
                    }
                    _ => StoreAction::Read,
                }
            }
            ClaimantState::Holder(_) if is_unsure => StoreAction::Read,
            ClaimantState::Holder(holder) => {
                let (expect, left) = (Some(holder.stamp), holder.left);
                match ask {
                    ClaimRequest::Save { point, term } if term == self.term => {
                        self.send(expect, WritePurpose::Save, point)
                    }
                    ClaimRequest::Save { .. } | ClaimRequest::Watch => StoreAction::Nothing,
                    ClaimRequest::Release { point, term } => {
                        let point = if term == self.term { point } else { left };
                        self.send(expect, WritePurpose::Release, point)
                    }
                }
            }
        }
    }

    fn take(&mut self, cause: TakeCause, watch: Option<Watch>) -> StoreAction {
        let expect = watch.map(|watch| watch.stamp());
        let found = watch.map_or(SavePoint::NOTHING, |watch| watch.seen().point);
        self.send(expect, WritePurpose::Take(cause), found)
    }

    fn send(&mut self, expect: Option<Stamp>, act: WritePurpose, point: SavePoint) -> StoreAction {
        let beat = self.noted_beat.max(self.tried_beat).saturating_add(1);
        if beat > Stamp::BEAT_MAX {
            return StoreAction::Nothing;
        }
        self.tried_beat = beat;
        let new = Stamp { writer: self.me, beat };
        let write = RecordWrite { expect, new, act, point, timeout_ms: self.options.timeout_ms };
        self.attempt = Some(Attempt { write, unknown_since: None });
        StoreAction::Write(write)
    }

    /// Handles the answer to [`StoreAction::Read`], which was sent at `sent` and came at `now`.
    pub fn read(&mut self, sent: Clocks, now: Clocks, answer: ReadAnswer) -> ClaimEvent {
        match answer {
            ReadAnswer::Record(seen) => self.sees(sent, now, seen),
            ReadAnswer::Missing => self.sees_nothing(),
            ReadAnswer::Failed => {
                if let ClaimantState::Standby(StandbyState { watch: Some(watch), .. }) = &mut self.state {
                    watch.failed(sent);
                }
                ClaimEvent::Away
            }
        }
    }

    /// Handles the answer to [`StoreAction::Write`], which was sent at `sent` and came at `now`.
    pub fn wrote(&mut self, sent: Clocks, now: Clocks, answer: WriteAnswer) -> ClaimEvent {
        let Some(attempt) = self.attempt else { return ClaimEvent::Again };
        let done = |this: &mut Claimant| this.acknowledged(attempt.write, sent, now);
        match answer {
            WriteAnswer::Done => done(self),
            WriteAnswer::Conflict(_) if attempt.write.act == WritePurpose::Save && planted(Fault::SaveIsNotFenced) => {
                done(self)
            }
            // The reply was late and the write was sent again: the first one had succeeded.
            WriteAnswer::Conflict(Some(seen)) if seen.stamp == attempt.write.new => done(self),
            WriteAnswer::Conflict(Some(seen)) => {
                self.attempt = None;
                self.sees(sent, now, seen)
            }
            WriteAnswer::Conflict(None) => self.sees_nothing(),
            WriteAnswer::NotDone => {
                self.attempt = None;
                ClaimEvent::Away
            }
            WriteAnswer::Unknown
                if matches!(attempt.write.act, WritePurpose::Take(_)) && planted(Fault::UnknownTakeoverCounts) =>
            {
                done(self)
            }
            WriteAnswer::Unknown => {
                self.attempt = Some(Attempt { unknown_since: Some(sent), ..attempt });
                ClaimEvent::Away
            }
        }
    }

    /// Handles a write that the store has done.
    fn acknowledged(&mut self, write: RecordWrite, sent: Clocks, now: Clocks) -> ClaimEvent {
        self.attempt = None;
        self.noted_beat = self.noted_beat.max(write.new.beat);
        let from = if planted(Fault::HoldFromTheReply) { now } else { sent };
        let hold = Hold { sent: from, for_ms: hold_ms(write.timeout_ms) };
        match (write.act, &mut self.state) {
            (WritePurpose::Take(cause), state) => {
                let found = write.expect.map(|_| write.point);
                let watch = if let ClaimantState::Standby(standby) = state { standby.watch } else { None };
                let is_watched = watch.is_some_and(|watch| watch.is_fresh() && Some(watch.stamp()) == write.expect);
                let holder = HolderState { found, is_watched, ..HolderState::new(write.new, write.point, Some(hold)) };
                self.has_taken(holder, cause)
            }
            (WritePurpose::Save, ClaimantState::Holder(holder)) if holder.was_sure(now) => {
                *holder = HolderState { stamp: write.new, hold: Some(hold), has_saved: true, ..*holder };
                ClaimEvent::Saved { point: write.point, hold }
            }
            // The server's own mint has come further than the point that was just saved.
            (WritePurpose::Save, ClaimantState::Holder(_)) => {
                let holder = HolderState { found: None, ..HolderState::new(write.new, write.point, Some(hold)) };
                self.has_taken(holder, TakeCause::Resumed)
            }
            (WritePurpose::Release, ClaimantState::Holder(_)) => {
                self.step_aside(write.leaves(), now);
                ClaimEvent::Released
            }
            // A server that has lost the claim has no write under way.
            (WritePurpose::Save | WritePurpose::Release, ClaimantState::Standby(_)) => ClaimEvent::Again,
        }
    }

    fn has_taken(&mut self, holder: HolderState, cause: TakeCause) -> ClaimEvent {
        self.term += 1;
        self.state = ClaimantState::Holder(holder);
        ClaimEvent::Taken { found: holder.found, cause }
    }

    /// Becomes a standby that lets other servers take the free claim first.
    fn step_aside(&mut self, seen: ClaimSnapshot, now: Clocks) {
        self.state = ClaimantState::Standby(StandbyState {
            watch: Some(Watch::of_new(now, seen)),
            ready: None,
            waiting: StandbyReason::SteppedAside,
            stepped_aside: Some(seen.stamp),
        });
    }

    /// Handles the record as the store showed it, by a read or a conflict.
    fn sees(&mut self, sent: Clocks, now: Clocks, seen: ClaimSnapshot) -> ClaimEvent {
        let attempt = self.attempt.take();
        if let Some(Attempt { write, unknown_since: Some(sent) }) = attempt
            && write.new == seen.stamp
        {
            return self.acknowledged(write, sent, now);
        }
        match self.state {
            ClaimantState::Holder(holder) => self.holder_sees(holder, now, seen),
            ClaimantState::Standby(standby) => self.standby_sees(standby, sent, now, seen),
        }
    }

    fn holder_sees(&mut self, holder: HolderState, now: Clocks, seen: ClaimSnapshot) -> ClaimEvent {
        let (noted, found) = (self.noted_beat, seen.stamp.beat);
        let is_mine = seen.is_held_by(self.me) && !seen.is_moved;
        let went_back = (found < holder.stamp.beat || (found == holder.stamp.beat && seen.stamp != holder.stamp))
            && !planted(Fault::LowerBeatIsAccepted);
        if is_mine && !went_back {
            // The write was not done, or an earlier one was done late: its stamp counts, but it does not extend the
            // hold.
            self.noted_beat = noted.max(found);
            self.state = ClaimantState::Holder(HolderState { stamp: seen.stamp, ..holder });
            return ClaimEvent::Again;
        }
        if is_mine && holder.was_sure(now) {
            self.state = ClaimantState::Holder(HolderState { stamp: seen.stamp, ..holder });
            return ClaimEvent::WritesItselfIn { noted, found };
        }
        self.noted_beat = noted.max(found);
        self.step_aside(seen, now);
        if seen.is_moved {
            ClaimEvent::Lost(ClaimLoss::Moved)
        } else if went_back {
            ClaimEvent::Lost(ClaimLoss::WentBack { noted, found })
        } else if let Some(by) = seen.holder {
            ClaimEvent::Lost(ClaimLoss::TakenBy(by))
        } else if seen.stamp.writer == self.me {
            ClaimEvent::Released
        } else {
            ClaimEvent::Lost(ClaimLoss::ReleasedBy(seen.stamp.writer))
        }
    }

    fn standby_sees(
        &mut self,
        mut standby: StandbyState,
        sent: Clocks,
        now: Clocks,
        seen: ClaimSnapshot,
    ) -> ClaimEvent {
        match &mut standby.watch {
            Some(watch) => watch.saw(sent, now, seen),
            None => standby.watch = Some(Watch::new(now, seen)),
        }
        let went_back = seen.stamp.beat < self.noted_beat && !planted(Fault::LowerBeatIsAccepted);
        self.noted_beat = self.noted_beat.max(seen.stamp.beat);
        if seen.is_held_by(self.me) && !went_back && !seen.is_moved {
            return self.has_taken(HolderState::new(seen.stamp, seen.point, None), TakeCause::Late);
        }
        let watch = standby.watch.unwrap_or(Watch::new(now, seen));
        let may_take = if went_back {
            Err(StandbyReason::WentBack { noted: self.noted_beat, found: seen.stamp.beat })
        } else {
            self.may_take(&watch, standby.stepped_aside, now)
        };
        standby.ready = may_take.ok();
        standby.waiting = may_take.err().unwrap_or(standby.waiting);
        self.state = ClaimantState::Standby(standby);
        may_take.map_or_else(ClaimEvent::Standby, |_| ClaimEvent::Again)
    }

    /// Returns why the record that was read may be taken, or what to wait for.
    fn may_take(&self, watch: &Watch, stepped_aside: Option<Stamp>, now: Clocks) -> Result<TakeCause, StandbyReason> {
        let seen = watch.seen();
        if seen.is_moved {
            return Err(StandbyReason::Moved);
        }
        if self.noted_beat.max(self.tried_beat) >= Stamp::BEAT_MAX {
            return Err(StandbyReason::BeatsUsedUp);
        }
        let is_silent = watch.is_silent();
        let cause = match seen.holder {
            Some(_) if seen.is_this_folder => return Ok(TakeCause::SameFolder),
            Some(_) if is_silent => TakeCause::Silent(watch.silent_ns()),
            Some(by) => {
                return Err(StandbyReason::Held { by, silent_ns: watch.silent_ns(), timeout_ms: seen.timeout_ms });
            }
            None if stepped_aside == Some(seen.stamp) && !is_silent && !planted(Fault::TakesBackAtOnce) => {
                return Err(StandbyReason::SteppedAside);
            }
            None => TakeCause::Free,
        };
        self.apart_from(watch, now).map_or(Ok(cause), |by_ms| Err(StandbyReason::Apart { by_ms }))
    }

    /// Returns how far the wall clock is from the record's time, carried on, if that is too far.
    fn apart_from(&self, watch: &Watch, now: Clocks) -> Option<i64> {
        let ClaimOptions { max_ahead_ms, max_behind_ms, takes_any, epoch, .. } = self.options;
        let by_ms = watch.clock_gap_ms(now, epoch).filter(|_| !takes_any)?;
        let max_ms = if by_ms < 0 { max_behind_ms } else { max_ahead_ms };
        (max_ms != 0 && by_ms.unsigned_abs() > max_ms).then_some(by_ms)
    }

    fn sees_nothing(&mut self) -> ClaimEvent {
        self.attempt = None;
        let standby =
            |ready, waiting| ClaimantState::Standby(StandbyState { watch: None, ready, waiting, stepped_aside: None });
        if let ClaimantState::Holder(_) = self.state {
            self.state = standby(None, StandbyReason::Missing);
            return ClaimEvent::Lost(ClaimLoss::Gone);
        }
        let waiting = match self.noted_beat {
            0 => StandbyReason::Missing,
            noted => StandbyReason::WentBack { noted, found: 0 },
        };
        let ready = (self.options.creates && waiting == StandbyReason::Missing).then_some(TakeCause::New);
        self.state = standby(ready, waiting);
        if ready.is_some() { ClaimEvent::Again } else { ClaimEvent::Standby(waiting) }
    }

    /// Returns the number of this process.
    pub fn own_id(&self) -> u128 {
        self.me
    }

    /// Returns true if this process has the claim, by its last answer.
    pub fn is_holder(&self) -> bool {
        matches!(self.state, ClaimantState::Holder(_))
    }

    /// Returns a holder's term, which grows by 1 with each [`ClaimEvent::Taken`]. A save by a mint with an older term
    /// is not done.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Returns what a holder found when it took the claim, as in [`ClaimEvent::Taken`](super::ClaimEvent::Taken).
    pub fn found(&self) -> Option<SavePoint> {
        if let ClaimantState::Holder(holder) = self.state { holder.found } else { None }
    }

    /// Returns true if what a holder found was written while it watched. A store that has gone back shows no such
    /// record, and no other server gives IDs past it.
    pub fn is_watched(&self) -> bool {
        matches!(self.state, ClaimantState::Holder(holder) if holder.is_watched)
    }

    /// Returns how long a holder may give IDs, once it has saved in this term.
    pub fn hold(&self) -> Option<Hold> {
        if let ClaimantState::Holder(holder) = self.state { holder.hold.filter(|_| holder.has_saved) } else { None }
    }

    /// Returns the highest beat that the store is known to have had, which a server notes in its folder.
    pub fn noted_beat(&self) -> u64 {
        self.noted_beat
    }

    /// Returns what a standby has watched.
    pub fn watch(&self) -> Option<&Watch> {
        if let ClaimantState::Standby(standby) = &self.state { standby.watch.as_ref() } else { None }
    }

    /// Returns how far a standby's wall clock is ahead of the record's time, or (negative) behind, ms; `None`: unknown.
    pub fn clock_gap_ms(&self, now: Clocks) -> Option<i64> {
        self.watch()?.clock_gap_ms(now, self.options.epoch)
    }

    /// Returns how far a standby's wall clock is from the record's time, ms, if that is too far to take the claim
    /// ([`StandbyReason::Apart`]). It is known also while another process has the claim. `None`: it is near enough, or
    /// unknown.
    pub fn apart_by_ms(&self, now: Clocks) -> Option<i64> {
        let watch = self.watch()?;
        let seen = watch.seen();
        // A server takes its own folder's claim whatever the clock is.
        let is_own = seen.holder.is_some() && seen.is_this_folder;
        if is_own { None } else { self.apart_from(watch, now) }
    }

    /// Returns what a standby waits for; `None`: the server is a holder.
    pub fn waiting(&self) -> Option<StandbyReason> {
        if let ClaimantState::Standby(standby) = &self.state { Some(standby.waiting) } else { None }
    }

    /// Returns the interval between two actions, ms: a holder beats each quarter of its time-out.
    pub fn pace_ms(&self) -> u64 {
        if self.is_holder() { (self.options.timeout_ms / 4).max(1) } else { POLL_MS }
    }
}

/// Returns how long a holder gives IDs after a beat, ms: three quarters of its time-out. The rest is a margin for
/// clocks that run at different rates.
fn hold_ms(timeout_ms: u64) -> u64 {
    if planted(Fault::HoldWithoutMargin) { timeout_ms } else { timeout_ms.saturating_mul(3) / 4 }
}
