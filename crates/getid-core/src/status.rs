//! What INFO shows of a mint.

use alloc::sync::Arc;

use crate::time::{Slot, Tick};

/// What a mint looks like at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// IDs that the unnamed generator gave in this life.
    pub ids_issued: u64,
    /// IDs that came from lines in this life.
    pub line_ids_issued: u64,
    /// P, the first tick without an ID.
    pub position: Tick,
    /// R.
    pub reference: Tick,
    /// The watermark, durable.
    pub watermark: Tick,
    /// How far the next ID lies ahead of R, ms.
    pub borrow_ms: u64,
    /// How far it may lie ahead now, ms: not always the configured limit (see
    /// [`Mint::set_limits`](crate::Mint::set_limits)).
    pub max_borrow_ms: u64,
    /// The furthest an ID of this life lay ahead of R, ms.
    pub highest_borrow_ms: u64,
    /// W - R, ms.
    pub clock_offset_ms: i64,
    /// Times the wall clock was seen set back.
    pub rollbacks: u64,
    /// Jumps of the wall clock ahead seen.
    pub jumps: u64,
    /// Whether a jump ahead is being held.
    pub holds_jump: bool,
    /// Draws refused.
    pub refusals: u64,
    /// What the layout holds without borrowing.
    pub capacity_per_s: u64,
    /// Whether a save is in flight.
    pub is_saving: bool,
    /// Saves that succeeded.
    pub saves: u64,
    /// Why the last save failed; `None` once one has succeeded.
    pub save_error: Option<Arc<str>>,
}

/// What a line looks like at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineStatus {
    /// IDs given in this life.
    pub ids_issued: u64,
    /// The first slot that was not given, `unit << counter_bits | counter`; the clock may already be past it.
    pub next: Slot,
    /// How far its unit begins ahead of R, ms.
    pub ahead_ms: u64,
    /// The last instant that its IDs can carry, Unix ms.
    pub last_unix_ms: i64,
    /// What its layout holds without borrowing.
    pub capacity_per_s: u64,
    /// Whether the disk holds its declaration: before that it gives nothing.
    pub is_declared: bool,
}
