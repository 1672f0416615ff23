//! Status of a named generator, for INFO, `GENERATORS` and warnings of its end.

use std::sync::Arc;

use getid_core::{NamedGenerator, Refusal};

/// A named generator at one moment.
#[derive(Clone, Debug)]
pub struct NamedStatus {
    /// Declaration and other constants of the generator.
    pub generator: Arc<NamedGenerator>,
    /// Number of IDs given in this life.
    pub issued: u64,
    /// Number of draws of this life that had to wait.
    pub waited: u64,
    /// Number of draws of this life that were refused.
    pub refused: u64,
    /// Number of IDs given or refused in the last second.
    pub asked_per_s: u64,
    /// Distance of the next ID ahead of the reference clock, ms.
    pub ahead_ms: u64,
    /// Time of the next ID, Unix ms; `None` for a kind without time.
    pub position_unix_ms: Option<i64>,
    /// Reason why a draw of one ID would be refused now, if so.
    pub refusing: Option<Refusal>,
}
