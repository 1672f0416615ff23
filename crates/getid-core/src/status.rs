//! The state of a mint for INFO.

use alloc::sync::Arc;

use crate::time::{Slot, Tick};

/// State of a mint at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Number of IDs that the unnamed generator gave in this life.
    pub ids_issued: u64,
    /// Number of IDs that lines gave in this life.
    pub line_ids_issued: u64,
    /// P, the first tick without an ID.
    pub position: Tick,
    /// R, the reference clock.
    pub reference: Tick,
    /// The watermark, durable.
    pub watermark: Tick,
    /// How far the next ID is ahead of R, ms.
    pub borrow_ms: u64,
    /// How far the next ID may be ahead of R now, ms: not always the configured limit (see
    /// [`Mint::set_limits`](crate::Mint::set_limits)).
    pub max_borrow_ms: u64,
    /// Largest distance of an ID of this life ahead of R, ms.
    pub highest_borrow_ms: u64,
    /// W - R, wall clock less reference clock, ms.
    pub clock_offset_ms: i64,
    /// Number of times the wall clock was seen set back.
    pub rollbacks: u64,
    /// Number of jumps of the wall clock ahead.
    pub jumps: u64,
    /// Whether a jump ahead is being held.
    pub holds_jump: bool,
    /// Number of refused draws.
    pub refusals: u64,
    /// Capacity of the layout without borrowing, IDs a second.
    pub capacity_per_s: u64,
    /// Whether a save is in flight.
    pub is_saving: bool,
    /// Number of successful saves.
    pub saves: u64,
    /// Why the last save failed; `None` once one has succeeded.
    pub save_error: Option<Arc<str>>,
}

/// State of a line at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineStatus {
    /// Number of IDs given in this life.
    pub ids_issued: u64,
    /// The first slot that was not given, `unit << counter_bits | counter`; the clock may already be past it.
    pub next: Slot,
    /// How far the unit of `next` begins ahead of R, ms.
    pub ahead_ms: u64,
    /// The last instant that its IDs can carry, Unix ms.
    pub last_unix_ms: i64,
    /// Capacity of its layout without borrowing, IDs a second.
    pub capacity_per_s: u64,
    /// Whether the disk holds its declaration: before that it gives nothing.
    pub is_declared: bool,
}
