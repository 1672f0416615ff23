//! The events in a life of the server, chosen from the seed.

use std::time::Duration;

use crate::judge::Layout;
use crate::random::Random;

const MINUTE_S: i64 = 60;
const YEAR_S: i64 = 31_556_952;

/// Clock offset in seconds to a time before the epoch, which no ID can hold.
const TOO_EARLY_S: i64 = -20 * YEAR_S;

/// Clock offset in seconds past the last instant of 42 bits.
const TOO_LATE_S: i64 = 150 * YEAR_S;

/// A fault of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DiskFault {
    /// A write finds no room.
    Full,
    /// A sync fails.
    Sync,
    /// A file cannot be opened for writing.
    ReadOnly,
    /// A sync does not return.
    Stall,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The wall clock is set to this offset in seconds.
    Clock(i64),
    Disk(DiskFault, Duration),
    /// The process is paused (SIGSTOP, SIGCONT).
    Pause(Duration),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LifeEnd {
    /// Ends by SIGKILL.
    Kill,
    /// Ends by SIGKILL during a pause.
    KillPaused(Duration),
    /// Ends by SIGKILL while the disk fails.
    KillInFault(DiskFault, Duration),
    /// Ends by SIGTERM: a clean stop.
    Stop,
}

#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) layout: Layout,
    /// Values of `id-max-borrow-ms` and `id-watermark-lead-ms`.
    pub(crate) limits_ms: (u32, u32),
    /// Clock offset at the start, in seconds.
    pub(crate) clock_s: i64,
    /// The first start is on a full disk.
    pub(crate) on_full_disk: bool,
    /// Time from the start to a kill, whether or not an ID was issued.
    pub(crate) killed_early: Option<Duration>,
    /// Events, each with the time since the end of the one before.
    pub(crate) events: Vec<(Duration, Event)>,
    pub(crate) end: LifeEnd,
}

impl Life {
    pub(crate) fn random(random: &mut Random) -> Life {
        let killed_early = random.one_in(6).then(|| millis(random, 1, 400));
        let events = (0..random.below(5)).map(|_| (millis(random, 30, 1200), event(random))).collect();
        Life {
            // Half of the layouts are wide, so that the clock does not limit the number of IDs.
            layout: Layout { shard_bits: random.pick(&[9, 9, 12, 16, 19, 19]) },
            limits_ms: random.pick(&[(3000, 3000), (500, 400), (500, 400), (10_000, 1000)]),
            clock_s: if random.one_in(2) { 0 } else { clock_s(random) },
            on_full_disk: random.one_in(12),
            killed_early,
            events,
            end: match random.below(8) {
                0..=3 => LifeEnd::Kill,
                4 => LifeEnd::KillPaused(millis(random, 1, 500)),
                5 => LifeEnd::KillInFault(fault(random), millis(random, 1, 1500)),
                _ => LifeEnd::Stop,
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

/// Returns a clock offset, in most cases at most an hour ahead: IDs keep the largest time that the clock once had.
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

/// Returns true if a server may refuse at this clock offset.
pub(crate) fn is_absurd(clock_s: i64) -> bool {
    clock_s <= TOO_EARLY_S || clock_s >= TOO_LATE_S
}

impl DiskFault {
    pub(crate) fn text(self) -> &'static str {
        match self {
            DiskFault::Full => "full disks",
            DiskFault::Sync => "failing syncs",
            DiskFault::ReadOnly => "read-only disks",
            DiskFault::Stall => "hanging syncs",
        }
    }
}
