//! The limits that an operator may change while a mint runs.

/// Largest limit: 2^40 ms, 34 years. Larger ones have the same effect, and sums of them can't overflow.
pub(crate) const LIMIT_MS_MAX: u64 = 1 << 40;

/// Bounds of draws and saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// B: how far IDs may run ahead of R, ms, at least 1 (`id-max-borrow-ms`).
    pub max_borrow_ms: u64,
    /// L: how far the watermark is kept ahead of the position, ms, `1..=max_borrow_ms` (`id-watermark-lead-ms`).
    ///
    /// Larger means fewer saves and a longer jump after a crash.
    pub lead_ms: u64,
    /// Largest distance of a wall clock ahead that is followed at once, ms; 0: any distance (`id-max-clock-jump-ms`).
    pub max_clock_jump_ms: u64,
    /// Behaviour at the borrow limit (`id-borrow-policy`).
    pub policy: BorrowPolicy,
}

impl Limits {
    /// Returns the limits with every number in its range.
    pub(crate) fn clamped(self) -> Limits {
        let max_borrow_ms = self.max_borrow_ms.clamp(1, LIMIT_MS_MAX);
        Limits { max_borrow_ms, lead_ms: self.lead_ms.clamp(1, max_borrow_ms), ..self }
    }
}

impl Default for Limits {
    /// Returns the directives' defaults.
    fn default() -> Self {
        Limits { max_borrow_ms: 3000, lead_ms: 3000, max_clock_jump_ms: 3_600_000, policy: BorrowPolicy::Wait }
    }
}

/// Behaviour of a request at the borrow limit (`id-borrow-policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BorrowPolicy {
    /// The request waits until time has caught up.
    #[default]
    Wait,
    /// The request gets an error.
    Error,
}
