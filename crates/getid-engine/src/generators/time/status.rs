//! The issuer's counters and status.

use std::sync::atomic::{AtomicU8, AtomicU64};

use getid_core::Refusal;
use getid_core::server::Status;

use crate::claim::SaveError;

/// Counters of saves.
#[derive(Debug, Default)]
pub(super) struct SaveStats {
    pub(super) saves: AtomicU64,
    pub(super) save_failures: AtomicU64,
    pub(super) last_save_unix_ms: AtomicU64,
    pub(super) last_save_us: AtomicU64,
    /// Duration of the longest save since the last read of it, failed ones included; 0: there was none.
    pub(super) longest_save_us: AtomicU64,
    /// Outcome of the last save, as a [`SaveOutcome`]; `Saved` before the first.
    pub(super) last_save: AtomicU8,
}

/// Outcome of a save, for INFO and to log a change once.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum SaveOutcome {
    Saved,
    Failed,
    ClaimLost,
    ClaimRetaken,
    /// Another server has the claim.
    StoodBy,
}

impl SaveOutcome {
    pub(super) fn of<P>(result: &Result<(), SaveError<P>>) -> SaveOutcome {
        match result {
            Ok(()) => SaveOutcome::Saved,
            Err(SaveError::Io { .. } | SaveError::Store { .. }) => SaveOutcome::Failed,
            Err(SaveError::ClaimLost { .. }) => SaveOutcome::ClaimLost,
            Err(SaveError::ClaimRetaken { .. }) => SaveOutcome::ClaimRetaken,
            Err(SaveError::Standby { .. }) => SaveOutcome::StoodBy,
        }
    }
}

/// Status of the issuer for INFO.
#[derive(Clone, Debug, Default)]
pub struct IssuerStatus {
    /// Status of the mint.
    pub mint: Status,
    /// Number of draws that wait now.
    pub waiting: usize,
    /// Number of IDs that they wait for.
    pub waiting_ids: u64,
    /// Number of IDs given or refused in the last second.
    pub asked_per_s: u64,
    /// Demand per second: IDs given, refused or waited for in the last second.
    pub demanded_per_s: u64,
    /// Expected wait of a large draw now, ms, by the queued IDs and the layout's rate.
    pub wait_ms: u64,
    /// Number of draws that had to wait.
    pub waits: u64,
    /// Total duration of these waits, ms.
    pub waited_ms: u64,
    /// Number of refused draws.
    pub refusals: u64,
    /// Number of successful saves of the watermark.
    pub saves: u64,
    /// Number of failed saves.
    pub save_failures: u64,
    /// Time of the last successful save, Unix ms; 0: never.
    pub last_save_unix_ms: u64,
    /// Duration of the last successful save, in microseconds.
    pub last_save_us: u64,
    /// Whether the last save did not fail. A save of a standby, and the one that takes a claim again, do not count as
    /// failures.
    pub last_save_ok: bool,
    /// Whether the claim was lost and has not been taken again.
    pub claim_lost: bool,
    /// Duration of the running save so far, in ms; 0: none.
    pub saving_ms: u64,
    /// Time for which IDs continue if the claim store stops answering, ms, as far as the claim's time goes; `None`: the
    /// claim does not end by silence.
    pub held_for_ms: Option<u64>,
    /// Reason why a draw of one ID would be refused now, if so.
    pub refusing: Option<Refusal>,
}

impl IssuerStatus {
    /// Returns the distance of the watermark ahead of the next ID, ms.
    pub fn watermark_lead_ms(&self) -> u64 {
        let next = self.mint.position.max(self.mint.reference);
        self.mint.watermark.0.saturating_sub(next.0)
    }
}
