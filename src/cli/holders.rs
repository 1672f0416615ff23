//! Holders of claims: their descriptions, and the check that none beats before a tool writes.

use std::collections::BTreeMap;

use super::claim_store::{ClaimStore, ClaimStoreError, TIMEOUT_MS_MAX, WatchOutcome};
use super::record_text::duration;
use getid_engine::claim::fleet::{ClaimHolder, ClaimRecord, FreeClaim, Holding, ReleaseReason};
use getid_engine::claim::{Mark, RecordLocation};
use getid_store::records::{RecordRow, Stamp};
use getid_text::printable::printable_up_to;

/// Reason why a claim counts as held.
#[derive(Debug, thiserror::Error)]
pub(super) enum HolderError {
    /// The holder has written while it was watched. `effect` follows from that.
    #[error("server-id {server_id} is held by {holder}, which wrote it just now, {effect}")]
    Beats { server_id: u32, holder: String, effect: String },
    #[error(transparent)]
    Store(#[from] ClaimStoreError),
}

/// A record that was moved, so that no server starts with it here.
#[derive(Debug, thiserror::Error)]
#[error("{here}: server-id {server_id}: {mark}. To continue, {}", .mark.remedy(*.server_id, .here))]
pub(super) struct MovedRecord {
    pub(super) here: RecordLocation,
    pub(super) server_id: u32,
    pub(super) mark: Mark,
}

/// Checks that a claim has no holder: it is free, or its holder was silent for its whole time-out. Otherwise fails with
/// a sentence that names the holder, followed by `why`.
pub(super) fn check_unclaimed(
    store: &ClaimStore,
    server_id: u32,
    row: &RecordRow,
    claim: &ClaimRecord,
    why: &str,
) -> Result<(), HolderError> {
    let Some(holder) = claim.holder() else { return Ok(()) };
    let timeout_ms = timeout_ms(claim);
    let watched = store.watch(&BTreeMap::from([(server_id, (row.clone(), timeout_ms))]))?;
    match watched.get(&server_id) {
        Some(WatchOutcome::Silent(_)) => Ok(()),
        _ => Err(HolderError::Beats { server_id, holder: describe_holder(holder), effect: why.to_owned() }),
    }
}

/// Time-out of a record's holder, ms.
pub(super) fn timeout_ms(claim: &ClaimRecord) -> u64 {
    claim.timeout_ms.clamp(1, TIMEOUT_MS_MAX)
}

/// Describes a holder by name, address and host.
pub(super) fn describe_holder(holder: &ClaimHolder) -> String {
    let shown = |text: &str| printable_up_to(text, 200);
    let name = if holder.name.is_empty() { "a server without a name".to_owned() } else { shown(&holder.name) };
    let places: Vec<_> = [&holder.address, &holder.host]
        .into_iter()
        .filter(|place| !place.is_empty() && **place != holder.name)
        .map(|place| shown(place))
        .collect();
    if places.is_empty() { name } else { format!("{name} ({})", places.join(", ")) }
}

/// Describes why a claim has no holder.
pub(super) fn describe_release(freed: &FreeClaim) -> String {
    let by = if freed.by.is_empty() { "its holder".to_owned() } else { printable_up_to(&freed.by, 200) };
    match freed.why {
        ReleaseReason::New => "no server ever held it".to_owned(),
        ReleaseReason::Stopped => format!("{by} stopped"),
        ReleaseReason::Clock => format!("{by} released it, because its clock was absurd"),
        ReleaseReason::Operator => format!("an operator took it from {by}"),
        ReleaseReason::Advanced => "it was advanced by an operator".to_owned(),
        ReleaseReason::Moved => "it was moved here".to_owned(),
    }
}

/// Returns this claim without a holder, as the next record to write.
pub(super) fn freed(claim: &ClaimRecord, why: ReleaseReason, beats: u64, now_unix_ms: i64) -> ClaimRecord {
    let by = match &claim.holding {
        Holding::Held(holder) => holder.name.clone(),
        Holding::Free(freed) => freed.by.clone(),
    };
    let beat = claim.beat.saturating_add(beats).min(Stamp::BEAT_MAX);
    let holding = Holding::Free(FreeClaim { why, by, since_unix_ms: now_unix_ms });
    ClaimRecord { beat, holding, ..claim.clone() }
}

/// Formats a claim's time-out.
pub(super) fn timeout_words(claim: &ClaimRecord) -> String {
    duration(timeout_ms(claim))
}
