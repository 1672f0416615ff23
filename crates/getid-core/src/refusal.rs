//! Why a draw gets no IDs.

use alloc::sync::Arc;
use core::fmt;

use crate::clock_event::ClockFault;
use crate::layout::Layout;
use crate::time::UtcMs;

/// Why a draw got nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// A save must succeed first. It is wanted now, or in flight.
    Watermark,
    /// Time must catch up first.
    Borrow {
        /// When to come again, by the boot-time clock; at least 1 ms and at most 1 s from now.
        until_boot_ns: u64,
    },
    /// Waiting does not help.
    Refused(Refusal),
}

/// Why a request gets no IDs. `Display` is the error reply without its `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The wall clock is absurd.
    Clock(ClockFault),
    /// At the borrow limit, under `id-borrow-policy error`.
    Busy {
        /// How far ahead of R the answer would lie.
        ahead_ms: u64,
        /// `id-max-borrow-ms`.
        max_borrow_ms: u64,
    },
    /// More is waited for than the layout gives within `id-max-wait-ms`. Made by the owner of the queue.
    Overload {
        /// How long the draw would wait, ms.
        wait_ms: u64,
        /// `id-max-wait-ms`.
        max_wait_ms: u64,
        /// IDs asked for in the last second.
        asked_per_s: u64,
        /// What they are asked of.
        layout: Layout,
    },
    /// As [`Refusal::Overload`], of a named generator.
    NamedOverload {
        /// How long the draw would wait, ms.
        wait_ms: u64,
        /// `id-max-wait-ms`.
        max_wait_ms: u64,
        /// IDs asked for in the last second.
        asked_per_s: u64,
        /// What its layout holds.
        capacity_per_s: u64,
    },
    /// R has not reached the epoch of a named generator.
    BeforeEpoch {
        /// R.
        reference_unix_ms: i64,
        /// The generator's epoch.
        epoch_unix_ms: i64,
    },
    /// The draw would cross the end of the time field.
    EndOfTime {
        /// The last instant an ID can carry.
        last_unix_ms: i64,
    },
    /// The watermark is reached and the last save failed.
    Save {
        /// The OS error.
        error: Arc<str>,
    },
    /// The watermark is reached and a save has been hanging for a second. Made by the owner of the timer.
    SaveTimeout,
    /// As [`Refusal::SaveTimeout`], where the watermark is kept in a claim store.
    StoreTimeout,
    /// Lock or state folder are no longer ours.
    ClaimLost(Arc<str>),
    /// Another server has the claim to this server-id, or nobody has it yet: this one waits for it.
    Standby(Arc<str>),
    /// Its generator has been declared in another way since it was asked for. Made by the owner of the registry.
    Redeclared,
    /// The server is stopping.
    Closed,
}

/// A server whose next ID is no further past the borrow limit than this gives IDs all the time, ms.
const NEAR_MS: u64 = 1000;

impl Refusal {
    /// Whether IDs are given all the same, though not to everybody at once: more is asked for than the layout holds.
    /// False where the position lies far ahead of the clock: then none are given until time has caught up.
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
                "BUSY this would wait {wait_ms} ms and id-max-wait-ms allows {max_wait_ms}: {asked_per_s} ids a second are \
                 asked for, the layout holds {capacity_per_s}; a wider counter or more servers hold more"
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
            Refusal::Redeclared => write!(f, "BUSY the generator has just been declared in another way; ask again"),
            Refusal::Closed => write!(f, "ERR server is shutting down"),
        }
    }
}

impl core::error::Error for Refusal {}

/// How a draw would have to wait.
#[derive(Clone, Copy, Debug)]
pub struct Overload {
    /// For those before it in the queue, and itself, ms.
    pub wait_ms: u64,
    /// How long a draw may wait, ms (`id-max-wait-ms`).
    pub max_wait_ms: u64,
    /// [`Mint::late_ms`](crate::Mint::late_ms).
    pub late_ms: u64,
    /// How many are asked for in a second.
    pub asked_per_s: u64,
}
