//! Reasons why a draw gets no IDs.

use alloc::sync::Arc;
use core::fmt;

use crate::clock_event::ClockFault;
use crate::layout::Layout;
use crate::time::UtcMs;

/// Reason why a draw got nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// A save must succeed first. It is wanted already, or in flight.
    Watermark,
    /// Time must catch up first.
    Borrow {
        /// When to try again, by the boot-time clock, ns; at least 1 ms and at most 1 s from now.
        until_boot_ns: u64,
    },
    /// Waiting does not help.
    Refused(Refusal),
}

/// Reason why a request gets no IDs. `Display` is the error reply without its `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The wall clock is out of all bounds.
    Clock(ClockFault),
    /// The borrow limit is reached, under `id-borrow-policy error`.
    Busy {
        /// How far ahead of R the ID would lie, ms.
        ahead_ms: u64,
        /// Largest allowed distance, ms (`id-max-borrow-ms`).
        max_borrow_ms: u64,
    },
    /// The queue is longer than the layout serves within `id-max-wait-ms`. Created by the owner of the queue.
    Overload {
        /// How long the draw would wait, ms.
        wait_ms: u64,
        /// Longest allowed wait, ms (`id-max-wait-ms`).
        max_wait_ms: u64,
        /// IDs requested in the last second.
        asked_per_s: u64,
        /// The layout that limits the rate.
        layout: Layout,
    },
    /// The queue of a named generator is longer than its layout serves within `id-max-wait-ms`.
    NamedOverload {
        /// How long the draw would wait, ms.
        wait_ms: u64,
        /// Longest allowed wait, ms (`id-max-wait-ms`).
        max_wait_ms: u64,
        /// IDs requested in the last second.
        asked_per_s: u64,
        /// Capacity of the layout, IDs a second.
        capacity_per_s: u64,
    },
    /// R has not reached the epoch of a named generator.
    BeforeEpoch {
        /// R, Unix ms.
        reference_unix_ms: i64,
        /// The generator's epoch, Unix ms.
        epoch_unix_ms: i64,
    },
    /// The draw would cross the end of the time field.
    EndOfTime {
        /// The last instant an ID can carry, Unix ms.
        last_unix_ms: i64,
    },
    /// The watermark is reached and the last save failed.
    Save {
        /// The OS error.
        error: Arc<str>,
    },
    /// The watermark is reached and a save has not ended for a second. Created by the owner of the timer.
    SaveTimeout,
    /// The watermark is reached and a save in a claim store has not ended for a second.
    StoreTimeout,
    /// Lock or state folder belong to another process.
    ClaimLost(Arc<str>),
    /// This server waits for the claim to its server-id, which another server has or no server has yet.
    Standby(Arc<str>),
    /// The generator was declared differently after the request came. Created by the owner of the registry.
    Redeclared,
    /// The server is stopping.
    Closed,
}

/// Distance of the next ID past the borrow limit up to which a server still gives IDs all the time, ms.
const NEAR_MS: u64 = 1000;

impl Refusal {
    /// Returns true if IDs are still given, though not to all requests at once: the demand exceeds the layout's
    /// capacity. Returns false if the position is far ahead of the clock: then no IDs are given until time has caught
    /// up.
    pub fn is_overload(&self) -> bool {
        match self {
            Refusal::Busy { ahead_ms, max_borrow_ms } => ahead_ms.saturating_sub(*max_borrow_ms) <= NEAR_MS,
            Refusal::Overload { .. } | Refusal::NamedOverload { .. } => true,
            _ => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Clock(fault) => write!(f, "MISCONF clock {fault}"),
            Refusal::Busy { ahead_ms, max_borrow_ms } => {
                write!(f, "BUSY ids are {ahead_ms} ms ahead of the clock; id-max-borrow-ms allows {max_borrow_ms}")
            }
            Refusal::Overload { wait_ms, max_wait_ms, asked_per_s, layout } => write!(
                f,
                "BUSY this would wait {wait_ms} ms and id-max-wait-ms allows {max_wait_ms}: {}",
                layout.demand(*asked_per_s)
            ),
            Refusal::NamedOverload { wait_ms, max_wait_ms, asked_per_s, capacity_per_s } => write!(
                f,
                "BUSY this would wait {wait_ms} ms and id-max-wait-ms allows {max_wait_ms}: {asked_per_s} ids a second \
                 are requested, the layout holds {capacity_per_s}; a wider counter or more servers hold more"
            ),
            Refusal::BeforeEpoch { reference_unix_ms, epoch_unix_ms } => write!(
                f,
                "MISCONF it is {}, before the epoch of this generator, {}",
                UtcMs(*reference_unix_ms),
                UtcMs(*epoch_unix_ms)
            ),
            Refusal::EndOfTime { last_unix_ms } => {
                write!(f, "MISCONF end of time: no id can carry a time after {}", UtcMs(*last_unix_ms))
            }
            Refusal::Save { error } => write!(f, "MISCONF state can't be saved: {error}"),
            Refusal::SaveTimeout => write!(f, "MISCONF state can't be saved: the disk has not answered for 1 s"),
            Refusal::StoreTimeout => {
                write!(f, "MISCONF state can't be saved: the claim store has not answered for 1 s")
            }
            Refusal::ClaimLost(text) => write!(f, "MISCONF claim lost: {text}"),
            Refusal::Standby(text) => write!(f, "LOADING {text}"),
            Refusal::Redeclared => write!(f, "BUSY the generator has just been declared in another way; try again"),
            Refusal::Closed => write!(f, "ERR server is shutting down"),
        }
    }
}

impl core::error::Error for Refusal {}

/// The wait that a draw would have.
#[derive(Clone, Copy, Debug)]
pub struct Overload {
    /// Wait for the draws before it in the queue, and itself, ms.
    pub wait_ms: u64,
    /// How long a draw may wait, ms (`id-max-wait-ms`).
    pub max_wait_ms: u64,
    /// Distance of the first free slot past the borrow limit, ms: [`Mint::late_ms`](crate::Mint::late_ms).
    pub late_ms: u64,
    /// IDs requested in a second.
    pub asked_per_s: u64,
}
