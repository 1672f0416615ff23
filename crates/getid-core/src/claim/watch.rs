//! How long a record has been silent, observed by one reader.

use super::clocks::Clocks;
use super::record::{ClaimSnapshot, Stamp};
use crate::checks::{Fault, planted};
use crate::time::{Epoch, NS_PER_MS};

/// Longest time between two reads that counts as watched, ns; a quarter of the record's time-out if that is longer. A
/// paused process has not watched.
const GAP_NS: u64 = 1_000_000_000;

/// What a reader knows about one record, and for how long the record has stayed the same.
///
/// Silence is counted from the reply that first showed the record's stamp to the newest read that showed it, by the
/// slower of the boot and the raw clock. Time in which the store could not be read does not count: no server could beat
/// in it. So after an outage holders get a whole time-out again to beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watch {
    seen: ClaimSnapshot,
    /// When a reply first showed this stamp.
    first: Clocks,
    /// Time up to which silence has been counted.
    counted_to: Clocks,
    /// When the first read that failed since then was sent.
    failing_since: Option<Clocks>,
    silent_ns: u64,
    /// Whether this stamp is new: the one before it was seen shortly before.
    is_fresh: bool,
    /// When a reply first showed the record's time, by the boot clock, ns. An operator's write changes the stamp and
    /// leaves the time.
    time_first_ns: u64,
    /// Whether this time is that of the write: the one before it was seen shortly before.
    is_time_fresh: bool,
}

impl Watch {
    /// Begins to watch a record that a reply has just shown.
    pub fn new(now: Clocks, seen: ClaimSnapshot) -> Watch {
        Watch {
            seen,
            first: now,
            counted_to: now,
            failing_since: None,
            silent_ns: 0,
            is_fresh: false,
            time_first_ns: now.boot_ns,
            is_time_fresh: false,
        }
    }

    /// Begins to watch a record that is known to be written just now.
    pub(super) fn of_new(now: Clocks, seen: ClaimSnapshot) -> Watch {
        Watch { is_fresh: true, is_time_fresh: true, ..Watch::new(now, seen) }
    }

    /// Records that a read sent at `sent` has shown `seen` at `now`.
    pub fn saw(&mut self, sent: Clocks, now: Clocks, seen: ClaimSnapshot) {
        if seen.stamp != self.seen.stamp {
            let is_fresh = self.passed_ns(now).is_some();
            let (time_first_ns, is_time_fresh) = if seen.point.reference == self.seen.point.reference {
                (self.time_first_ns, self.is_time_fresh)
            } else {
                // A record that returns from another store is as old as its last save there.
                (now.boot_ns, is_fresh && !self.seen.is_moved)
            };
            *self = Watch { is_fresh, time_first_ns, is_time_fresh, ..Watch::new(now, seen) };
            return;
        }
        self.silent_ns = self.silent_ns.saturating_add(self.passed_ns(sent).unwrap_or(0));
        self.counted_to = sent;
        self.failing_since = None;
        self.seen = seen;
    }

    /// Records that a read sent at `sent` has failed.
    pub fn failed(&mut self, sent: Clocks) {
        self.failing_since.get_or_insert(sent);
    }

    /// Returns the watched part of the time from `counted_to` to `sent`, ns; `None`: too much of it was not watched.
    fn passed_ns(&self, sent: Clocks) -> Option<u64> {
        if planted(Fault::CutOffCountsAsSilence) {
            return Some(sent.least_since(self.counted_to));
        }
        let end = self.failing_since.unwrap_or(sent);
        let gap_ns = end.most_since(self.counted_to)?;
        let limit_ns = GAP_NS.max(self.seen.timeout_ns() / 4);
        (gap_ns <= limit_ns).then(|| end.least_since(self.counted_to))
    }

    /// Returns what the newest read has shown.
    pub fn seen(&self) -> ClaimSnapshot {
        self.seen
    }

    /// Returns the record's stamp.
    pub fn stamp(&self) -> Stamp {
        self.seen.stamp
    }

    /// Returns how long the record has been the same, ns, counting watched time only.
    pub fn silent_ns(&self) -> u64 {
        self.silent_ns
    }

    /// Returns true if the record has been silent for its whole time-out.
    pub fn is_silent(&self) -> bool {
        self.silent_ns >= self.seen.timeout_ns()
    }

    /// Returns true if the record was written while it was watched: a live process has the claim, or just had it.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Returns wall clock less the record's time, carried on by the boot clock, ms; `None`: unknown.
    ///
    /// A time that did not change while this server watched may be of any age. Then a wall clock ahead of it proves
    /// nothing.
    pub(super) fn clock_gap_ms(&self, now: Clocks, epoch: Epoch) -> Option<i64> {
        if self.seen.point.is_nothing() {
            return None;
        }
        let age_ms = now.boot_ns.saturating_sub(self.time_first_ns) / NS_PER_MS;
        let carried_on = self.seen.point.reference.unix_ms(epoch).saturating_add_unsigned(age_ms);
        let gap_ms = now.wall_ms.saturating_sub(carried_on);
        (gap_ms < 0 || self.is_time_fresh).then_some(gap_ms)
    }
}
