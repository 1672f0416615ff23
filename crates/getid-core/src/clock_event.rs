//! Events of the wall clock for the log, and faults of it for which there are no IDs.

use core::fmt;

use crate::time::UtcMs;

/// How long a large jump must last before it is followed: ten minutes.
pub(crate) const JUMP_STEADY_MS: u64 = 600_000;

/// Largest jump that is ever followed, and how far past the last life's record a clock at start may be: 400 days.
pub const JUMP_MS_MAX: u64 = 400 * 86_400_000;

/// A change of the wall clock: one log line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockEvent {
    /// The wall clock is behind R: R continues at 90 % until it has caught up.
    SetBack {
        /// Distance behind, ms.
        by_ms: u64,
    },
    /// The wall clock has caught up with R.
    CaughtUp,
    /// R followed the wall clock ahead, at once or after ten minutes.
    JumpFollowed {
        /// Distance of the jump, ms.
        by_ms: u64,
    },
    /// The wall clock is further ahead than R follows at once.
    JumpHeld {
        /// Distance of the jump, ms.
        by_ms: u64,
        /// Whether R will never follow: over 400 days.
        too_far: bool,
    },
    /// A held jump has gone away.
    JumpTakenBack {
        /// Distance of the jump, ms.
        by_ms: u64,
    },
    /// The wall clock was put right before this life's first ID, and R with it.
    FollowedBeforeFirstId {
        /// Distance, ms; negative for back.
        by_ms: i64,
    },
    /// No IDs from now on.
    Fault(ClockFault),
    /// The clock is right again.
    FaultOver,
}

/// Severity of a [`ClockEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Good news.
    Notice,
    /// IDs continue, but an operator should check the clock.
    Warning,
    /// The clock is wrong, and stays wrong until an operator acts.
    Error,
}

impl ClockEvent {
    /// Returns the level of its log line.
    pub fn severity(self) -> Severity {
        match self {
            ClockEvent::CaughtUp
            | ClockEvent::JumpTakenBack { .. }
            | ClockEvent::FollowedBeforeFirstId { .. }
            | ClockEvent::FaultOver => Severity::Notice,
            ClockEvent::SetBack { .. } | ClockEvent::JumpFollowed { .. } => Severity::Warning,
            ClockEvent::JumpHeld { .. } | ClockEvent::Fault(_) => Severity::Error,
        }
    }
}

impl fmt::Display for ClockEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockEvent::SetBack { by_ms } => {
                write!(
                    f,
                    "clock is {by_ms} ms behind the ids: ids continue at 90 % of real speed until it has caught up"
                )
            }
            ClockEvent::CaughtUp => write!(f, "clock has caught up with the ids"),
            ClockEvent::JumpFollowed { by_ms } => write!(f, "clock jumped ahead by {by_ms} ms; ids follow"),
            ClockEvent::JumpHeld { by_ms, too_far: false } => {
                let minutes = JUMP_STEADY_MS / 60_000;
                write!(
                    f,
                    "clock jumped ahead by {by_ms} ms, more than id-max-clock-jump-ms: ids follow if it stays so for \
                     {minutes} minutes"
                )
            }
            ClockEvent::JumpHeld { by_ms, too_far: true } => {
                let days = JUMP_MS_MAX / 86_400_000;
                write!(
                    f,
                    "clock jumped ahead by {by_ms} ms, more than {days} days: ids do not follow; set the clock right"
                )
            }
            ClockEvent::JumpTakenBack { by_ms } => write!(f, "clock's jump ahead by {by_ms} ms was taken back"),
            ClockEvent::FollowedBeforeFirstId { by_ms } => {
                write!(f, "clock moved by {by_ms} ms before the first id was given; ids follow")
            }
            ClockEvent::Fault(fault) => write!(f, "no ids: clock {fault}"),
            ClockEvent::FaultOver => write!(f, "clock is right again; ids continue"),
        }
    }
}

/// Fault of the wall clock for which there are no IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockFault {
    /// Past the last instant an ID can carry.
    PastEnd {
        /// Reading of the wall clock, Unix ms.
        wall_unix_ms: i64,
        /// Last instant that an ID can carry, Unix ms.
        last_unix_ms: i64,
    },
    /// More than 400 days past the record that was found at start.
    FarPastRecord {
        /// Reading of the wall clock, Unix ms.
        wall_unix_ms: i64,
        /// Position of the last life: the later of the record's watermark and R, Unix ms.
        record_unix_ms: i64,
    },
    /// Before the epoch, and there is no record with a later time.
    BeforeEpoch {
        /// Reading of the wall clock, Unix ms.
        wall_unix_ms: i64,
        /// The epoch, Unix ms.
        epoch_unix_ms: i64,
    },
}

impl fmt::Display for ClockFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ClockFault::PastEnd { wall_unix_ms, last_unix_ms } => {
                write!(
                    f,
                    "reads {}, past the last instant an id can carry, {}",
                    UtcMs(wall_unix_ms),
                    UtcMs(last_unix_ms)
                )
            }
            ClockFault::FarPastRecord { wall_unix_ms, record_unix_ms } => {
                let days = JUMP_MS_MAX / 86_400_000;
                write!(
                    f,
                    "reads {}, more than {days} days past the state's record, {}; set the clock, or if it is right \
                     use 'getid state advance --to'",
                    UtcMs(wall_unix_ms),
                    UtcMs(record_unix_ms)
                )
            }
            ClockFault::BeforeEpoch { wall_unix_ms, epoch_unix_ms } => {
                write!(f, "reads {}, before the epoch, {}", UtcMs(wall_unix_ms), UtcMs(epoch_unix_ms))
            }
        }
    }
}
