//! State machine of one server and one claim.

use super::clocks::{Clocks, Hold};
use super::record::{Act, Ask, Cause, Event, Loss, Read, Seen, Stamp, Waiting, Wish, Write, Wrote};
use super::watch::Watch;
use crate::checks::{Fault, planted};
use crate::save_point::SavePoint;
use crate::time::Epoch;

/// Interval between the reads of a standby, ms.
const POLL_MS: u64 = 100;

/// Options that may change while the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
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
/// The driver calls [`Claimant::wish`], does what it returns, and passes the result back; one thing at a time.
///
/// Invariants: [`Event::Saved`] is returned only for a point that the store held under a stamp of this process. So two
/// processes never save to the same record at once, whatever clocks and networks do. A claim of another process is
/// taken only by a write that names the stamp that was watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    me: u128,
    options: Options,
    /// Highest beat that the store is known to have had.
    noted_beat: u64,
    /// Highest beat of a write that was sent.
    tried_beat: u64,
    /// Number of times the claim was taken.
    term: u64,
    /// The last write that was sent, until its answer is known.
    attempt: Option<Attempt>,
    state: State,
}

/// A write that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    write: Write,
    /// When it was sent, once it has ended with an unknown outcome.
    unknown_since: Option<Clocks>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Standby(Standby),
    Holder(Holder),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Standby {
    watch: Option<Watch>,
    /// Why the claim may be taken, by the newest read.
    ready: Option<Cause>,
    waiting: Waiting,
    /// While the record has this stamp, other servers go first for a time-out.
    stepped_aside: Option<Stamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Holder {
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

impl Holder {
    /// Creates a holder that has just taken the claim, from a record with the point `left`.
    fn new(stamp: Stamp, left: SavePoint, hold: Option<Hold>) -> Holder {
        Holder { stamp, found: Some(left), left, hold, has_saved: false, is_watched: false }
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
    pub fn new(me: u128, options: Options, noted_beat: u64, watch: Option<Watch>) -> Claimant {
        let standby = Standby { watch, ready: None, waiting: Waiting::Unread, stepped_aside: None };
        Claimant { me, options, noted_beat, tried_beat: 0, term: 0, attempt: None, state: State::Standby(standby) }
    }

    /// Replaces the options, from the next wish on.
    pub fn set_options(&mut self, options: Options) {
        self.options = options;
    }

    /// Returns the next action in the store.
    pub fn wish(&mut self, ask: Ask) -> Wish {
        let is_unsure = self.attempt.is_some();
        match &mut self.state {
            State::Standby(standby) => {
                let (watch, ready) = (standby.watch, standby.ready.take());
                match (ask, ready) {
                    (Ask::Release { .. }, _) if !is_unsure => Wish::Nothing,
                    (Ask::Watch | Ask::Save { .. }, Some(cause)) if !is_unsure => self.take(cause, watch),
                    _ => Wish::Read,
                }
            }
            State::Holder(_) if is_unsure => Wish::Read,
            State::Holder(holder) => {
                let (expect, left) = (Some(holder.stamp), holder.left);
                match ask {
                    Ask::Save { point, term } if term == self.term => self.send(expect, Act::Save, point),
                    Ask::Save { .. } | Ask::Watch => Wish::Nothing,
                    Ask::Release { point, term } => {
                        let point = if term == self.term { point } else { left };
                        self.send(expect, Act::Release, point)
                    }
                }
            }
        }
    }

    fn take(&mut self, cause: Cause, watch: Option<Watch>) -> Wish {
        let expect = watch.map(|watch| watch.stamp());
        let found = watch.map_or(SavePoint::NOTHING, |watch| watch.seen().point);
        self.send(expect, Act::Take(cause), found)
    }

    fn send(&mut self, expect: Option<Stamp>, act: Act, point: SavePoint) -> Wish {
        let beat = self.noted_beat.max(self.tried_beat).saturating_add(1);
        if beat > Stamp::BEAT_MAX {
            return Wish::Nothing;
        }
        self.tried_beat = beat;
        let new = Stamp { writer: self.me, beat };
        let write = Write { expect, new, act, point, timeout_ms: self.options.timeout_ms };
        self.attempt = Some(Attempt { write, unknown_since: None });
        Wish::Write(write)
    }

    /// Handles the answer to [`Wish::Read`], which was sent at `sent` and came at `now`.
    pub fn read(&mut self, sent: Clocks, now: Clocks, answer: Read) -> Event {
        match answer {
            Read::Record(seen) => self.sees(sent, now, seen),
            Read::Missing => self.sees_nothing(),
            Read::Failed => {
                if let State::Standby(Standby { watch: Some(watch), .. }) = &mut self.state {
                    watch.failed(sent);
                }
                Event::Away
            }
        }
    }

    /// Handles the answer to [`Wish::Write`], which was sent at `sent` and came at `now`.
    pub fn wrote(&mut self, sent: Clocks, now: Clocks, answer: Wrote) -> Event {
        let Some(attempt) = self.attempt else { return Event::Again };
        let done = |this: &mut Claimant| this.acknowledged(attempt.write, sent, now);
        match answer {
            Wrote::Done => done(self),
            Wrote::Conflict(_) if attempt.write.act == Act::Save && planted(Fault::SaveIsNotFenced) => done(self),
            // The reply was late and the write was sent again: the first one had succeeded.
            Wrote::Conflict(Some(seen)) if seen.stamp == attempt.write.new => done(self),
            Wrote::Conflict(Some(seen)) => {
                self.attempt = None;
                self.sees(sent, now, seen)
            }
            Wrote::Conflict(None) => self.sees_nothing(),
            Wrote::NotDone => {
                self.attempt = None;
                Event::Away
            }
            Wrote::Unknown if matches!(attempt.write.act, Act::Take(_)) && planted(Fault::UnknownTakeoverCounts) => {
                done(self)
            }
            Wrote::Unknown => {
                self.attempt = Some(Attempt { unknown_since: Some(sent), ..attempt });
                Event::Away
            }
        }
    }

    /// Handles a write that the store has done.
    fn acknowledged(&mut self, write: Write, sent: Clocks, now: Clocks) -> Event {
        self.attempt = None;
        self.noted_beat = self.noted_beat.max(write.new.beat);
        let from = if planted(Fault::HoldFromTheReply) { now } else { sent };
        let hold = Hold { sent: from, for_ms: hold_ms(write.timeout_ms) };
        match (write.act, &mut self.state) {
            (Act::Take(cause), state) => {
                let found = write.expect.map(|_| write.point);
                let watch = if let State::Standby(standby) = state { standby.watch } else { None };
                let is_watched = watch.is_some_and(|watch| watch.is_fresh() && Some(watch.stamp()) == write.expect);
                let holder = Holder { found, is_watched, ..Holder::new(write.new, write.point, Some(hold)) };
                self.has_taken(holder, cause)
            }
            (Act::Save, State::Holder(holder)) if holder.was_sure(now) => {
                *holder = Holder { stamp: write.new, hold: Some(hold), has_saved: true, ..*holder };
                Event::Saved { point: write.point, hold }
            }
            // The server's own mint has come further than the point that was just saved.
            (Act::Save, State::Holder(_)) => {
                let holder = Holder { found: None, ..Holder::new(write.new, write.point, Some(hold)) };
                self.has_taken(holder, Cause::Resumed)
            }
            (Act::Release, State::Holder(_)) => {
                self.step_aside(write.leaves(), now);
                Event::Released
            }
            // A server that has lost the claim has no write under way.
            (Act::Save | Act::Release, State::Standby(_)) => Event::Again,
        }
    }

    fn has_taken(&mut self, holder: Holder, cause: Cause) -> Event {
        self.term += 1;
        self.state = State::Holder(holder);
        Event::Taken { found: holder.found, cause }
    }

    /// Becomes a standby that lets other servers take the free claim first.
    fn step_aside(&mut self, seen: Seen, now: Clocks) {
        self.state = State::Standby(Standby {
            watch: Some(Watch::of_new(now, seen)),
            ready: None,
            waiting: Waiting::SteppedAside,
            stepped_aside: Some(seen.stamp),
        });
    }

    /// Handles the record as the store showed it, by a read or a conflict.
    fn sees(&mut self, sent: Clocks, now: Clocks, seen: Seen) -> Event {
        let attempt = self.attempt.take();
        if let Some(Attempt { write, unknown_since: Some(sent) }) = attempt
            && write.new == seen.stamp
        {
            return self.acknowledged(write, sent, now);
        }
        match self.state {
            State::Holder(holder) => self.holder_sees(holder, now, seen),
            State::Standby(standby) => self.standby_sees(standby, sent, now, seen),
        }
    }

    fn holder_sees(&mut self, holder: Holder, now: Clocks, seen: Seen) -> Event {
        let (noted, found) = (self.noted_beat, seen.stamp.beat);
        let is_mine = seen.is_held_by(self.me) && !seen.is_moved;
        let went_back = (found < holder.stamp.beat || (found == holder.stamp.beat && seen.stamp != holder.stamp))
            && !planted(Fault::LowerBeatIsAccepted);
        if is_mine && !went_back {
            // The write was not done, or an earlier one was done late: its stamp counts, but it does not extend the
            // hold.
            self.noted_beat = noted.max(found);
            self.state = State::Holder(Holder { stamp: seen.stamp, ..holder });
            return Event::Again;
        }
        if is_mine && holder.was_sure(now) {
            self.state = State::Holder(Holder { stamp: seen.stamp, ..holder });
            return Event::WritesItselfIn { noted, found };
        }
        self.noted_beat = noted.max(found);
        self.step_aside(seen, now);
        if seen.is_moved {
            Event::Lost(Loss::Moved)
        } else if went_back {
            Event::Lost(Loss::WentBack { noted, found })
        } else if let Some(by) = seen.holder {
            Event::Lost(Loss::TakenBy(by))
        } else if seen.stamp.writer == self.me {
            Event::Released
        } else {
            Event::Lost(Loss::ReleasedBy(seen.stamp.writer))
        }
    }

    fn standby_sees(&mut self, mut standby: Standby, sent: Clocks, now: Clocks, seen: Seen) -> Event {
        match &mut standby.watch {
            Some(watch) => watch.saw(sent, now, seen),
            None => standby.watch = Some(Watch::new(now, seen)),
        }
        let went_back = seen.stamp.beat < self.noted_beat && !planted(Fault::LowerBeatIsAccepted);
        self.noted_beat = self.noted_beat.max(seen.stamp.beat);
        if seen.is_held_by(self.me) && !went_back && !seen.is_moved {
            return self.has_taken(Holder::new(seen.stamp, seen.point, None), Cause::Late);
        }
        let watch = standby.watch.unwrap_or(Watch::new(now, seen));
        let may_take = if went_back {
            Err(Waiting::WentBack { noted: self.noted_beat, found: seen.stamp.beat })
        } else {
            self.may_take(&watch, standby.stepped_aside, now)
        };
        standby.ready = may_take.ok();
        standby.waiting = may_take.err().unwrap_or(standby.waiting);
        self.state = State::Standby(standby);
        may_take.map_or_else(Event::Standby, |_| Event::Again)
    }

    /// Returns why the record that was read may be taken, or what to wait for.
    fn may_take(&self, watch: &Watch, stepped_aside: Option<Stamp>, now: Clocks) -> Result<Cause, Waiting> {
        let seen = watch.seen();
        if seen.is_moved {
            return Err(Waiting::Moved);
        }
        if self.noted_beat.max(self.tried_beat) >= Stamp::BEAT_MAX {
            return Err(Waiting::BeatsUsedUp);
        }
        let is_silent = watch.is_silent();
        let cause = match seen.holder {
            Some(_) if seen.is_this_folder => return Ok(Cause::SameFolder),
            Some(_) if is_silent => Cause::Silent(watch.silent_ns()),
            Some(by) => {
                return Err(Waiting::Held { by, silent_ns: watch.silent_ns(), timeout_ms: seen.timeout_ms });
            }
            None if stepped_aside == Some(seen.stamp) && !is_silent && !planted(Fault::TakesBackAtOnce) => {
                return Err(Waiting::SteppedAside);
            }
            None => Cause::Free,
        };
        self.apart_from(watch, now).map_or(Ok(cause), |by_ms| Err(Waiting::Apart { by_ms }))
    }

    /// Returns how far the wall clock is from the record's time, carried on, if that is too far.
    fn apart_from(&self, watch: &Watch, now: Clocks) -> Option<i64> {
        let Options { max_ahead_ms, max_behind_ms, takes_any, epoch, .. } = self.options;
        let by_ms = watch.clock_gap_ms(now, epoch).filter(|_| !takes_any)?;
        let max_ms = if by_ms < 0 { max_behind_ms } else { max_ahead_ms };
        (max_ms != 0 && by_ms.unsigned_abs() > max_ms).then_some(by_ms)
    }

    fn sees_nothing(&mut self) -> Event {
        self.attempt = None;
        let standby = |ready, waiting| State::Standby(Standby { watch: None, ready, waiting, stepped_aside: None });
        if let State::Holder(_) = self.state {
            self.state = standby(None, Waiting::Missing);
            return Event::Lost(Loss::Gone);
        }
        let waiting = match self.noted_beat {
            0 => Waiting::Missing,
            noted => Waiting::WentBack { noted, found: 0 },
        };
        let ready = (self.options.creates && waiting == Waiting::Missing).then_some(Cause::New);
        self.state = standby(ready, waiting);
        if ready.is_some() { Event::Again } else { Event::Standby(waiting) }
    }

    /// Returns the number of this process.
    pub fn me(&self) -> u128 {
        self.me
    }

    /// Returns true if this process has the claim, by its last answer.
    pub fn is_holder(&self) -> bool {
        matches!(self.state, State::Holder(_))
    }

    /// Returns a holder's term, which grows by 1 with each [`Event::Taken`]. A save by a mint with an older term is not
    /// done.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Returns what a holder found when it took the claim, as in [`Event::Taken`](super::Event::Taken).
    pub fn found(&self) -> Option<SavePoint> {
        if let State::Holder(holder) = self.state { holder.found } else { None }
    }

    /// Returns true if what a holder found was written while it watched. A store that has gone back shows no such
    /// record, and no other server gives IDs past it.
    pub fn is_watched(&self) -> bool {
        matches!(self.state, State::Holder(holder) if holder.is_watched)
    }

    /// Returns how long a holder may give IDs, once it has saved in this term.
    pub fn hold(&self) -> Option<Hold> {
        if let State::Holder(holder) = self.state { holder.hold.filter(|_| holder.has_saved) } else { None }
    }

    /// Returns the highest beat that the store is known to have had, which a server notes in its folder.
    pub fn noted_beat(&self) -> u64 {
        self.noted_beat
    }

    /// Returns what a standby has watched.
    pub fn watch(&self) -> Option<&Watch> {
        if let State::Standby(standby) = &self.state { standby.watch.as_ref() } else { None }
    }

    /// Returns how far a standby's wall clock is ahead of the record's time, or (negative) behind, ms; `None`: unknown.
    pub fn clock_gap_ms(&self, now: Clocks) -> Option<i64> {
        self.watch()?.clock_gap_ms(now, self.options.epoch)
    }

    /// Returns how far a standby's wall clock is from the record's time, ms, if that is too far to take the claim
    /// ([`Waiting::Apart`]). It is known also while another process has the claim. `None`: it is near enough, or
    /// unknown.
    pub fn apart_by_ms(&self, now: Clocks) -> Option<i64> {
        let watch = self.watch()?;
        let seen = watch.seen();
        // A server takes its own folder's claim whatever the clock is.
        let is_own = seen.holder.is_some() && seen.is_this_folder;
        if is_own { None } else { self.apart_from(watch, now) }
    }

    /// Returns what a standby waits for; `None`: the server is a holder.
    pub fn waiting(&self) -> Option<Waiting> {
        if let State::Standby(standby) = &self.state { Some(standby.waiting) } else { None }
    }

    /// Returns the interval between two wishes, ms: a holder beats each quarter of its time-out.
    pub fn pace_ms(&self) -> u64 {
        if self.is_holder() { (self.options.timeout_ms / 4).max(1) } else { POLL_MS }
    }
}

/// Returns how long a holder gives IDs after a beat, ms: three quarters of its time-out. The rest is a margin for
/// clocks that run at different rates.
fn hold_ms(timeout_ms: u64) -> u64 {
    if planted(Fault::HoldWithoutMargin) { timeout_ms } else { timeout_ms.saturating_mul(3) / 4 }
}
