//! What happens in a life of the server, from the seed.

use std::time::Duration;

use crate::judge::Layout;
use crate::random::Random;

const MINUTE_S: i64 = 60;
const YEAR_S: i64 = 31_556_952;

/// Before the epoch, so that no ID can hold it.
const TOO_EARLY_S: i64 = -20 * YEAR_S;

/// Past the last instant of 42 bits.
const TOO_LATE_S: i64 = 150 * YEAR_S;

/// What is wrong with the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DiskFault {
    /// A write finds no room.
    Full,
    /// A sync fails.
    Sync,
    /// Nothing is opened to be written.
    ReadOnly,
    /// A sync does not come back.
    Stall,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The wall clock is set: from now on it is off by so many seconds.
    Clock(i64),
    Disk(DiskFault, Duration),
    /// The process stands still (SIGSTOP, SIGCONT).
    Pause(Duration),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// SIGKILL.
    Kill,
    /// SIGKILL while it stands still.
    KillPaused(Duration),
    /// SIGKILL while the disk fails.
    KillInFault(DiskFault, Duration),
    /// SIGTERM: a clean stop.
    Stop,
}

#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) layout: Layout,
    /// `id-max-borrow-ms` and `id-watermark-lead-ms`.
    pub(crate) limits_ms: (u32, u32),
    /// The clock at its start is off by so many seconds.
    pub(crate) clock_s: i64,
    /// It is tried first with a disk on which there is no room.
    pub(crate) on_full_disk: bool,
    /// It is killed so long after its start, whether or not it has given an ID.
    pub(crate) killed_early: Option<Duration>,
    /// What happens, each so long after the one before was over.
    pub(crate) events: Vec<(Duration, Event)>,
    pub(crate) end: End,
}

impl Life {
    pub(crate) fn random(random: &mut Random) -> Life {
        let killed_early = random.one_in(6).then(|| millis(random, 1, 400));
        let events = (0..random.below(5)).map(|_| (millis(random, 30, 1200), event(random))).collect();
        Life {
            // Half of them are wide, so that the clock is no bound on how many IDs there are.
            layout: Layout { shard_bits: random.pick(&[9, 9, 12, 16, 19, 19]) },
            limits_ms: random.pick(&[(3000, 3000), (500, 400), (500, 400), (10_000, 1000)]),
            clock_s: if random.one_in(2) { 0 } else { clock_s(random) },
            on_full_disk: random.one_in(12),
            killed_early,
            events,
            end: match random.below(8) {
                0..=3 => End::Kill,
                4 => End::KillPaused(millis(random, 1, 500)),
                5 => End::KillInFault(fault(random), millis(random, 1, 1500)),
                _ => End::Stop,
            },
        }
    }
}

fn millis(random: &mut Random, low: u64, high: u64) -> Duration {
    Duration::from_millis(random.within(low, high))
}

fn fault(random: &mut Random) -> DiskFault {
    random.pick(&[DiskFault::Full, DiskFault::Sync, DiskFault::ReadOnly, DiskFault::Stall])
}

fn event(random: &mut Random) -> Event {
    match random.below(3) {
        0 => Event::Clock(clock_s(random)),
        1 => Event::Disk(fault(random), millis(random, 50, 4000)),
        _ => Event::Pause(millis(random, 1, 3000)),
    }
}

/// Ahead by an hour at most most often: what the clock was once ahead stays with the IDs.
fn clock_s(random: &mut Random) -> i64 {
    let seconds =
        |random: &mut Random, bound: i64| i64::try_from(random.below(bound.unsigned_abs())).unwrap_or_default();
    match random.below(10) {
        0..=2 => -1 - seconds(random, 10),
        3 | 4 => -1 - seconds(random, 600 * MINUTE_S),
        5 => -1 - seconds(random, 2 * YEAR_S),
        6 | 7 => 1 + seconds(random, 30),
        8 => 1 + seconds(random, 150 * MINUTE_S),
        _ => random.pick(&[TOO_EARLY_S, TOO_LATE_S]),
    }
}

/// Whether a server may refuse as long as its clock is so far off.
pub(crate) fn is_absurd(clock_s: i64) -> bool {
    clock_s <= TOO_EARLY_S || clock_s >= TOO_LATE_S
}

impl DiskFault {
    pub(crate) fn text(self) -> &'static str {
        match self {
            DiskFault::Full => "full disks",
            DiskFault::Sync => "syncs that fail",
            DiskFault::ReadOnly => "disks that are read-only",
            DiskFault::Stall => "syncs that do not come back",
        }
    }
}
