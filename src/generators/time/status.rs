//! What the issuer counts, and what it says of itself.

use std::sync::atomic::{AtomicU8, AtomicU64};

use getid_core::{Refusal, Status};

use crate::claim::SaveError;

/// What the issuer counts of saves.
#[derive(Debug, Default)]
pub(super) struct Stats {
    pub(super) saves: AtomicU64,
    pub(super) save_failures: AtomicU64,
    pub(super) last_save_unix_ms: AtomicU64,
    pub(super) last_save_us: AtomicU64,
    /// How long the longest save took since it was last asked for, failed ones included; 0: there was none.
    pub(super) longest_save_us: AtomicU64,
    /// How the last save went, as a [`SaveOutcome`]; `Saved` before the first.
    pub(super) last_save: AtomicU8,
}

/// How a save went: for INFO, and to log a change once.
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

/// Everything INFO says about the generator.
#[derive(Clone, Debug, Default)]
pub struct IssuerStatus {
    /// The mint's own figures.
    pub mint: Status,
    /// Draws that are waiting now.
    pub waiting: usize,
    /// IDs that they wait for.
    pub waiting_ids: u64,
    /// IDs that were given or refused in the last second.
    pub asked_per_s: u64,
    /// IDs a second that are asked for: given, refused or waited for in the last second.
    pub demanded_per_s: u64,
    /// How long a large draw would wait now, ms, by what is queued and the layout's rate.
    pub wait_ms: u64,
    /// Draws that had to wait.
    pub waits: u64,
    /// Milliseconds they waited, summed.
    pub waited_ms: u64,
    /// Draws that were refused.
    pub refusals: u64,
    /// Saves of the watermark that succeeded.
    pub saves: u64,
    /// Saves that failed.
    pub save_failures: u64,
    /// When the last save succeeded, Unix ms; 0: never.
    pub last_save_unix_ms: u64,
    /// How long it took, in microseconds.
    pub last_save_us: u64,
    /// Whether the last save did not fail. A save of a standby, and the one that takes a claim again, are no failures.
    pub last_save_ok: bool,
    /// Whether the claim was lost and has not been taken again.
    pub claim_lost: bool,
    /// How long the save in flight has been under way, in ms; 0: none.
    pub saving_ms: u64,
    /// How long IDs go on if the claim store does not answer any more, ms, as far as the claim's time goes; `None`: the
    /// claim does not end by silence.
    pub held_for_ms: Option<u64>,
    /// Why a draw of one ID would be refused now, if it would.
    pub refusing: Option<Refusal>,
}

impl IssuerStatus {
    /// How far the watermark is ahead of the next ID, ms.
    pub fn watermark_lead_ms(&self) -> u64 {
        let next = self.mint.position.max(self.mint.reference);
        self.mint.watermark.0.saturating_sub(next.0)
    }
}
