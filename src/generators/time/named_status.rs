//! What a named generator says of itself, for INFO, `GENERATORS` and warnings of its end.

use std::sync::Arc;

use getid_core::{NamedGenerator, Refusal};

/// A named generator at one moment.
#[derive(Clone, Debug)]
pub struct NamedStatus {
    /// What does not change of it.
    pub generator: Arc<NamedGenerator>,
    /// IDs given in this life.
    pub issued: u64,
    /// Draws of this life that had to wait.
    pub waited: u64,
    /// Draws of this life that were refused.
    pub refused: u64,
    /// IDs that were given or refused in the last second.
    pub asked_per_s: u64,
    /// How far the next ID is ahead of the reference clock, ms.
    pub ahead_ms: u64,
    /// The time of the next ID, Unix ms; `None` for a kind without time.
    pub position_unix_ms: Option<i64>,
    /// Why a draw of one ID would be refused now, if it would.
    pub refusing: Option<Refusal>,
}
