//! The reference clock: wall readings in, a time that never goes back out.
//!
//! IDs follow the wall clock, but wall clocks are set back, leap, and are wrong at boot. The reference clock R starts
//! at the wall clock W, is carried on by a clock that counts time since boot (suspend included), and is pulled to W:
//!
//! - W behind: R continues at 90 % of real speed until W has caught up.
//! - W ahead by up to `id-max-clock-jump-ms`: followed at once. By more: once the jump has lasted for ten minutes, and
//!   never by more than 400 days. One bad NTP answer would burn years of IDs; a machine that was paused is really that
//!   late.
//! - Before this life's first ID, R follows W both ways, but not below where the last life left it.
//! - A W out of all bounds is a [`ClockFault`]: no IDs until it is right.
//!
//! [`ReferenceClock::sample`] is called about ten times a second. Between samples R is a straight line (or, while it
//! slews, two), so that reading it costs a few instructions and no wall clock.
//!
//! W is read in whole ms, so a reading means "somewhere in this ms": R inside that ms is left alone. Differences
//! smaller than [`NOTICE_MS`] are corrected without an event.
//!
//! IDs of a generator, serial numbers and values of a sequence all count as IDs here.
//!
//! Invariant: R never goes back once an ID was given, for any readings.

use alloc::vec::Vec;

use crate::checks::{Fault, Rare, planted, saw};
use crate::clock_event::{ClockEvent, ClockFault, JUMP_MS_MAX, JUMP_STEADY_MS};
use crate::save_point::SavePoint;
use crate::time::{Epoch, NS_PER_MS, Tick};

/// Difference between clocks that causes an event, ms. NTP itself slews smaller ones (RFC 5905, STEPT).
const NOTICE_MS: u64 = 128;

/// Change of a held jump's size that does not restart its ten minutes.
const JUMP_NOISE_NS: u64 = 1_000_000_000;

/// Boot-time readings of several threads overtake each other by less than this. A larger difference is a clock that
/// went back.
const OVERTAKE_NS: u64 = 1_000_000_000;

/// Time for which a boot-time clock that went back must continue before it is believed, ns. Its next reading may be
/// good again, and would move R ahead by all that the clock went back.
const BACK_STEADY_NS: u64 = 1_000_000_000;

/// Replaces a missing boot-time reading: R does not move until there is one.
const NEVER_READ: u64 = u64::MAX;

const NOTICE_NS: u64 = NOTICE_MS * NS_PER_MS;
const END_NS: u64 = Tick::END.0 * NS_PER_MS;

/// Wall clock and boot-time clock, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Wall clock, Unix time in ms, rounded down.
    pub wall_unix_ms: i64,
    /// A clock that counts suspend and is never set (`CLOCK_BOOTTIME`), ns; 0: it could not be read.
    pub boot_ns: u64,
}

/// The reference clock R, in ns since the epoch.
#[derive(Clone, Debug)]
pub struct ReferenceClock {
    epoch: Epoch,
    max_jump_ms: u64,
    /// R at the last sample.
    base_ns: u64,
    /// The boot-time reading of the last sample, or [`NEVER_READ`].
    base_boot_ns: u64,
    /// The first reading of a boot-time clock that went back, while it is not believed.
    back_boot_ns: Option<u64>,
    /// Time that R must lose after the last sample to meet W, ns: a tenth of real time until it is 0.
    behind_ns: u64,
    /// Latest boot-time reading: R does not go back when threads overtake each other.
    seen_boot_ns: u64,
    /// Real time since start.
    lived_ns: u64,
    /// `lived_ns` when the life began, or its claim was retaken.
    restarted_ns: u64,
    /// The R found at that time: the life began no earlier.
    restart_floor_ns: u64,
    /// The R that the last life left, carried on at 90 %: a lower bound of R.
    floor_ns: u64,
    /// Position of the last life: the later of the watermark and the R found at start.
    found: Option<Tick>,
    /// The part of `behind_ns` that was reported in an event.
    reported_behind_ns: u64,
    held: Option<PendingJump>,
    fault: Option<ClockFault>,
    /// The fault that was reported in an event.
    reported_fault: Option<ClockFault>,
    offset_ms: i64,
    rollbacks: u64,
    jumps: u64,
}

/// R as a straight line: boot time plus a difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StraightLine {
    /// First boot time for which the line holds, ns.
    pub(crate) from_boot_ns: u64,
    /// The boot time at which R is at the end of the 42 bits, ns.
    pub(crate) end_boot_ns: u64,
    /// R less boot time, ns, wrapping.
    pub(crate) offset: u64,
}

/// A jump ahead that is not followed yet, all in ns.
#[derive(Clone, Copy, Debug)]
struct PendingJump {
    /// How far W is ahead of R.
    ahead: u64,
    /// How long W has been this far ahead.
    lasted: u64,
    /// The size that was reported in an event.
    reported: u64,
}

impl ReferenceClock {
    /// Starts R at W, or where the last life left it if that is later.
    pub fn new(epoch: Epoch, max_jump_ms: u64, found: Option<SavePoint>, reading: Reading) -> ReferenceClock {
        let floor_ns = found.map_or(0, |point| point.reference.min(Tick::END).0 * NS_PER_MS);
        let floor_ns = if planted(Fault::StartForgetsReference) { 0 } else { floor_ns };
        let mut clock = ReferenceClock {
            epoch,
            max_jump_ms,
            base_ns: floor_ns,
            base_boot_ns: if reading.boot_ns == 0 { NEVER_READ } else { reading.boot_ns },
            back_boot_ns: None,
            behind_ns: 0,
            seen_boot_ns: reading.boot_ns,
            lived_ns: 0,
            restarted_ns: 0,
            restart_floor_ns: floor_ns,
            floor_ns,
            // A life that gave no ID for long ends with a watermark far behind its clock, though the clock was right.
            found: found.filter(|point| !point.is_nothing()).map(|point| point.watermark.max(point.reference)),
            reported_behind_ns: 0,
            held: None,
            fault: None,
            reported_fault: None,
            offset_ms: 0,
            rollbacks: 0,
            jumps: 0,
        };
        let wall_ms = clock.wall_ms(reading);
        clock.fault = clock.judge(wall_ms, reading.wall_unix_ms, false);
        if clock.fault.is_none() {
            clock.follow_both_ways(wall_ms);
        }
        clock.note_offset(wall_ms);
        clock
    }

    /// Returns R for a draw. Readings of several threads may overtake each other; R does not.
    #[inline]
    pub fn advance(&mut self, boot_ns: u64) -> Tick {
        Tick::of_ns(self.advance_ns(boot_ns))
    }

    /// Returns R for a draw, ns since the epoch.
    #[inline]
    pub(crate) fn advance_ns(&mut self, boot_ns: u64) -> u64 {
        self.seen_boot_ns = self.seen_boot_ns.max(boot_ns);
        self.ns_at(self.seen_boot_ns)
    }

    /// Returns R at `boot_ns`, or at the latest reading so far if that is later.
    pub fn at(&self, boot_ns: u64) -> Tick {
        Tick::of_ns(self.read_ns(boot_ns))
    }

    /// Returns [`ReferenceClock::at`] in ns since the epoch.
    pub(crate) fn read_ns(&self, boot_ns: u64) -> u64 {
        self.ns_at(boot_ns.max(self.seen_boot_ns))
    }

    /// Returns R as the straight line between two samples; `None` while it slews, or has no reading to start from.
    pub(crate) fn straight(&self) -> Option<StraightLine> {
        let slews = self.behind_ns != 0 && !planted(Fault::LaneOpensWhileSlewing);
        let is_straight = !slews && self.base_boot_ns != NEVER_READ && self.back_boot_ns.is_none();
        is_straight.then(|| StraightLine {
            from_boot_ns: self.base_boot_ns,
            end_boot_ns: self.base_boot_ns.saturating_add(END_NS - self.base_ns),
            offset: self.base_ns.wrapping_sub(self.base_boot_ns),
        })
    }

    /// Returns the boot time at which R will be at `tick`, if W stays on its course.
    pub fn boot_ns_at(&self, tick: Tick) -> u64 {
        let ahead = (tick.0.saturating_mul(NS_PER_MS)).saturating_sub(self.base_ns);
        // The inverse of `ns_at`: while R slews, 9/10 of real time; then all of it, less what was lost.
        let slewing = u64::try_from((u128::from(ahead) * 10).div_ceil(9)).unwrap_or(u64::MAX);
        let met = ahead.saturating_add(self.behind_ns);
        self.base_boot_ns.saturating_add(slewing.min(met))
    }

    #[inline]
    fn ns_at(&self, boot_ns: u64) -> u64 {
        let elapsed = boot_ns.saturating_sub(self.base_boot_ns);
        // Nearly always 0: then there is nothing to divide.
        let lost = if self.behind_ns == 0 { 0 } else { (elapsed / 10).min(self.behind_ns) };
        self.base_ns.saturating_add(elapsed - lost).min(END_NS)
    }

    /// Takes a reading, and returns events for the log. `given`: whether this life has given an ID.
    pub fn sample(&mut self, reading: Reading, given: bool) -> Vec<ClockEvent> {
        let mut events = Vec::new();
        let passed_ns = self.carry(reading.boot_ns);
        let wall_ms = self.wall_ms(reading);
        self.note_offset(wall_ms);

        let was_absurd = self.fault.is_some();
        self.fault = self.judge(wall_ms, reading.wall_unix_ms, given);
        self.report_fault(&mut events);
        if self.fault.is_some() {
            self.held = None;
            return events;
        }

        if !given {
            let moved_ns = self.follow_both_ways(wall_ms);
            // After a fault, R has no past to be compared with.
            if moved_ns.unsigned_abs() >= u128::from(NOTICE_NS) && !was_absurd {
                events.push(ClockEvent::FollowedBeforeFirstId { by_ms: clamped_ms(moved_ns) });
            }
        }
        let (wall_low_ns, wall_high_ns) = wall_ns(wall_ms);
        let now_ns = i128::from(self.base_ns);
        if now_ns < wall_low_ns {
            let ahead_ns = clamped_ns(wall_low_ns - now_ns);
            self.behind_ns = 0;
            self.wall_is_ahead(ahead_ns, passed_ns, &mut events);
        } else {
            if let Some(held) = self.held.take() {
                events.push(ClockEvent::JumpTakenBack { by_ms: held.ahead / NS_PER_MS });
            }
            self.behind_ns = clamped_ns((now_ns - wall_high_ns).max(0));
            self.wall_is_behind(&mut events);
            if planted(Fault::NoSlew) {
                self.base_ns -= self.behind_ns.min(self.base_ns);
                self.behind_ns = 0;
            }
        }
        events
    }

    fn report_fault(&mut self, events: &mut Vec<ClockEvent>) {
        let same = |a: ClockFault, b: ClockFault| core::mem::discriminant(&a) == core::mem::discriminant(&b);
        match (self.reported_fault, self.fault) {
            (Some(_), None) => events.push(ClockEvent::FaultOver),
            (reported, Some(fault)) if !reported.is_some_and(|reported| same(reported, fault)) => {
                events.push(ClockEvent::Fault(fault));
            }
            _ => return,
        }
        self.reported_fault = self.fault;
    }

    /// Restarts in the middle of a life, at `boot_ns`, with `reference` found: R is at least that from here on. Returns
    /// R.
    pub(crate) fn restart(&mut self, boot_ns: u64, reference: Tick) -> Tick {
        self.advance(boot_ns);
        self.carry(self.seen_boot_ns);
        let found_ns = reference.min(Tick::END).0 * NS_PER_MS;
        let found_ns = if planted(Fault::RetakeForgetsReference) { 0 } else { found_ns };
        self.floor_ns = self.floor_ns.max(found_ns);
        self.base_ns = self.base_ns.max(found_ns);
        self.restarted_ns = self.lived_ns;
        self.restart_floor_ns = self.floor_ns;
        self.at(0)
    }

    /// Moves the line's base to `boot_ns`, and returns the real time that has passed, ns.
    ///
    /// A failed reading counts as no time, and so does one that went back, until it is believed.
    fn carry(&mut self, boot_ns: u64) -> u64 {
        let overtaken = boot_ns < self.seen_boot_ns && self.seen_boot_ns - boot_ns <= OVERTAKE_NS;
        let unread = (boot_ns == 0 || self.is_back(boot_ns)) && !planted(Fault::FailedReadingCounts);
        if unread {
            saw(Rare::Unread);
        }
        let boot_ns = if overtaken || unread { self.seen_boot_ns } else { boot_ns };
        // R stays where it was last seen, and continues from the new reading.
        let end = boot_ns.max(self.seen_boot_ns);
        let passed_ns = end.saturating_sub(self.base_boot_ns);
        self.base_ns = self.ns_at(end);
        self.behind_ns -= (passed_ns / 10).min(self.behind_ns);
        self.base_boot_ns = if boot_ns == 0 && unread { NEVER_READ } else { boot_ns };
        self.seen_boot_ns = boot_ns;
        self.lived_ns = self.lived_ns.saturating_add(passed_ns);
        self.floor_ns = self.floor_ns.saturating_add(passed_ns - passed_ns / 10).min(END_NS);
        passed_ns
    }

    /// Returns true if the boot-time clock has gone back, and has not continued long enough to be believed.
    fn is_back(&mut self, boot_ns: u64) -> bool {
        if self.seen_boot_ns.saturating_sub(boot_ns) <= OVERTAKE_NS {
            self.back_boot_ns = None;
            return false;
        }
        let since_ns = self.back_boot_ns.map_or(boot_ns, |since| since.min(boot_ns));
        self.back_boot_ns = Some(since_ns);
        if boot_ns - since_ns < BACK_STEADY_NS {
            return true;
        }
        self.back_boot_ns = None;
        false
    }

    fn judge(&self, wall_ms: i128, wall_unix_ms: i64, given: bool) -> Option<ClockFault> {
        if wall_ms > i128::from(Tick::LAST.0) {
            return Some(ClockFault::PastEnd { wall_unix_ms, last_unix_ms: Tick::LAST.unix_ms(self.epoch) });
        }
        // From the first ID on, a jump is measured against R, and held.
        if given {
            return None;
        }
        match self.found {
            None if wall_ms < 0 => {
                Some(ClockFault::BeforeEpoch { wall_unix_ms, epoch_unix_ms: Tick(0).unix_ms(self.epoch) })
            }
            Some(found) => {
                // A server that has been up and idle for 401 days is within bounds.
                let reach = found.0 + JUMP_MS_MAX + self.lived_ns / NS_PER_MS;
                (wall_ms > i128::from(reach))
                    .then_some(ClockFault::FarPastRecord { wall_unix_ms, record_unix_ms: found.unix_ms(self.epoch) })
            }
            None => None,
        }
    }

    /// Before the first ID: sets R to W, but not below the floor. Returns how far R moved.
    fn follow_both_ways(&mut self, wall_ms: i128) -> i128 {
        let before = self.base_ns;
        let (low, high) = wall_ns(wall_ms);
        let at_wall = (low..=high).contains(&i128::from(before)) && before >= self.floor_ns;
        if !at_wall {
            self.base_ns = clamped_ns(low.max(i128::from(self.floor_ns))).min(END_NS);
        }
        self.held = None;
        i128::from(self.base_ns) - i128::from(before)
    }

    fn wall_is_ahead(&mut self, ahead_ns: u64, passed_ns: u64, events: &mut Vec<ClockEvent>) {
        let by_ms = ahead_ns / NS_PER_MS;
        let was_behind = core::mem::take(&mut self.reported_behind_ns) > 0;
        let too_far = by_ms > JUMP_MS_MAX && !planted(Fault::NoBoundOnJumps);
        let is_small = self.max_jump_ms == 0 || ahead_ns <= self.max_jump_ms.saturating_mul(NS_PER_MS);
        if (!is_small || too_far) && !planted(Fault::NoHold) {
            self.hold_jump(ahead_ns, passed_ns, too_far, events);
            return;
        }
        if let Some(held) = self.held.take() {
            events.push(ClockEvent::JumpTakenBack { by_ms: held.ahead / NS_PER_MS });
        }
        self.base_ns += ahead_ns;
        if was_behind {
            events.push(ClockEvent::CaughtUp);
        }
        if ahead_ns >= NOTICE_NS {
            self.jumps += 1;
            events.push(ClockEvent::JumpFollowed { by_ms });
        }
    }

    /// Holds a jump that is not followed at once, until it has lasted for ten minutes.
    fn hold_jump(&mut self, ahead_ns: u64, passed_ns: u64, too_far: bool, events: &mut Vec<ClockEvent>) {
        let by_ms = ahead_ns / NS_PER_MS;
        let held = match self.held {
            None => {
                saw(Rare::Held);
                self.jumps += 1;
                events.push(ClockEvent::JumpHeld { by_ms, too_far });
                PendingJump { ahead: ahead_ns, lasted: 0, reported: ahead_ns }
            }
            Some(held) if held.ahead.abs_diff(ahead_ns) <= JUMP_NOISE_NS => {
                PendingJump { lasted: held.lasted.saturating_add(passed_ns), ..held }
            }
            // The jump changed: its ten minutes start again. It is reported only if the change is as large as another
            // jump.
            Some(held) => {
                let noise_ms = if self.max_jump_ms == 0 { JUMP_MS_MAX } else { self.max_jump_ms };
                let another = held.reported.abs_diff(ahead_ns) > noise_ms.saturating_mul(NS_PER_MS);
                if another {
                    self.jumps += 1;
                    events.push(ClockEvent::JumpHeld { by_ms, too_far });
                }
                PendingJump { ahead: ahead_ns, lasted: 0, reported: if another { ahead_ns } else { held.reported } }
            }
        };
        if held.lasted >= JUMP_STEADY_MS * NS_PER_MS && !too_far && !planted(Fault::HoldsForEver) {
            saw(Rare::HeldAndFollowed);
            self.held = None;
            self.base_ns += ahead_ns;
            events.push(ClockEvent::JumpFollowed { by_ms });
        } else {
            self.held = Some(held);
        }
    }

    fn wall_is_behind(&mut self, events: &mut Vec<ClockEvent>) {
        if self.behind_ns >= self.reported_behind_ns.saturating_add(NOTICE_NS) {
            self.rollbacks += 1;
            self.reported_behind_ns = self.behind_ns;
            events.push(ClockEvent::SetBack { by_ms: self.behind_ns / NS_PER_MS });
        } else if self.behind_ns == 0 && self.reported_behind_ns > 0 {
            self.reported_behind_ns = 0;
            events.push(ClockEvent::CaughtUp);
        }
        self.reported_behind_ns = self.reported_behind_ns.min(self.behind_ns);
    }

    fn wall_ms(&self, reading: Reading) -> i128 {
        i128::from(reading.wall_unix_ms) - i128::from(self.epoch.unix_ms())
    }

    fn note_offset(&mut self, wall_ms: i128) {
        let offset = wall_ms - i128::from(self.base_ns / NS_PER_MS);
        self.offset_ms = i64::try_from(offset).unwrap_or(if offset < 0 { i64::MIN } else { i64::MAX });
    }

    /// Returns R at the start of the life, by the present clock: max(W, stored R).
    pub(crate) fn start(&self) -> Tick {
        let began_ns = self.base_ns.saturating_sub(self.lived_ns - self.restarted_ns);
        let floor_ns = if planted(Fault::StartSlips) { 0 } else { self.restart_floor_ns };
        Tick(began_ns.max(floor_ns) / NS_PER_MS)
    }

    /// Returns the latest boot-time reading.
    pub fn seen_boot_ns(&self) -> u64 {
        self.seen_boot_ns
    }

    /// Returns why there can be no IDs, as of the last sample.
    #[inline]
    pub fn fault(&self) -> Option<ClockFault> {
        self.fault
    }

    /// Returns W - R at the last sample, ms: negative while the wall clock is set back, positive while a jump is held.
    pub fn offset_ms(&self) -> i64 {
        self.offset_ms
    }

    /// Returns how many times the wall clock was seen set back.
    pub fn rollbacks(&self) -> u64 {
        self.rollbacks
    }

    /// Returns the number of jumps ahead, followed or held.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }

    /// Returns true while a jump ahead is held.
    pub fn holds_jump(&self) -> bool {
        self.held.is_some()
    }

    /// Changes `id-max-clock-jump-ms`.
    pub fn set_max_jump_ms(&mut self, max_jump_ms: u64) {
        self.max_jump_ms = max_jump_ms;
    }
}

/// Returns the first and the last ns of a wall reading's ms.
fn wall_ns(wall_ms: i128) -> (i128, i128) {
    let low = wall_ms * i128::from(NS_PER_MS);
    (low, low + i128::from(NS_PER_MS - 1))
}

fn clamped_ns(ns: i128) -> u64 {
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

fn clamped_ms(ns: i128) -> i64 {
    let ms = ns / i128::from(NS_PER_MS);
    i64::try_from(ms).unwrap_or(if ms < 0 { i64::MIN } else { i64::MAX })
}
