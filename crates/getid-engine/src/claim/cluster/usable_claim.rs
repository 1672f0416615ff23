//! The record of a claim as this server uses it, parsed once for each stamp.

use std::sync::Arc;

use getid_core::SavePoint;
use getid_core::server::claim as machine;

use super::texts::advance_command;
use crate::claim::envelope::RecordError;
use crate::claim::fleet::ClaimRecord;
use crate::claim::{Conflict, Declarations, Identity, Mismatch, random_bits};
use getid_store::records::{Key, RecordRow, Stamp};

/// Range of time-outs in a record, in ms: the configurable values. A value written by hand is clamped to it.
const TIMEOUT_MS: std::ops::RangeInclusive<u64> = 500..=600_000;

/// A valid record of a claim with its stamp.
#[derive(Clone, Debug)]
pub(super) struct UsableClaim {
    pub(super) stamp: Stamp,
    pub(super) claim: ClaimRecord,
    /// Point at which the next holder begins, in ticks of this server's epoch.
    pub(super) point: SavePoint,
}

/// Reason why this server cannot use a claim's record. `Display` is one sentence with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnusableClaim {
    #[error(
        "cannot use the record {} of {store}: {source}; to continue, {}{}",
        Key::of_claim(*server_id),
        if let RecordError::Version { .. } = source { "start the getid that wrote it, or " } else { "" },
        advance_command(*server_id, store)
    )]
    Record { server_id: u32, store: String, source: RecordError },
    #[error(
        "cannot use the record {} of {store}: {source}; set this server's id-epoch to the fleet's",
        Key::of_claim(*server_id)
    )]
    Mismatch { server_id: u32, store: String, source: Mismatch },
}

impl UsableClaim {
    /// Parses the record of `identity` from a row of `store`.
    ///
    /// # Errors
    ///
    /// [`UnusableClaim`] if the record cannot be parsed, or is that of another configuration.
    pub(super) fn of_row(row: &RecordRow, identity: Identity, store: &str) -> Result<UsableClaim, UnusableClaim> {
        let server_id = identity.server_id;
        let store = || store.to_owned();
        let claim = ClaimRecord::of_row(row, server_id).map_err(|source| UnusableClaim::Record {
            server_id,
            store: store(),
            source,
        })?;
        let adopted = claim.record.adopted_by(identity).map_err(|source| UnusableClaim::Mismatch {
            server_id,
            store: store(),
            source,
        })?;
        Ok(UsableClaim { stamp: row.stamp, point: adopted.point, claim })
    }

    /// Returns the record as input of the machine. `is_this_folder`: its holder ran in the folder that this process has
    /// locked.
    pub(super) fn seen(&self, is_this_folder: bool) -> machine::ClaimSnapshot {
        machine::ClaimSnapshot {
            stamp: self.stamp,
            holder: self.claim.holder().map(|holder| holder.instance),
            timeout_ms: self.claim.timeout_ms.clamp(*TIMEOUT_MS.start(), *TIMEOUT_MS.end()),
            point: self.point,
            is_this_folder,
            is_moved: self.claim.mark.is_some(),
        }
    }

    /// Returns the record's declarations merged with those of a server that takes it over.
    pub(super) fn declared(&self, mine: &Declarations, identity: Identity) -> Result<Arc<Declarations>, Conflict> {
        let recorded = &self.claim.record.declarations;
        if self.point.is_nothing() {
            return Ok(Arc::new(mine.clone()));
        }
        let epoch = identity.layout.epoch();
        let from_unix_ms = self.point.watermark.unix_ms(epoch);
        let (was, is) = (self.claim.record.identity.layout, identity.layout);
        let recorded = Declarations::clone(recorded).with_unnamed_layout(was, is);
        recorded.with(mine.generators(), from_unix_ms, random_bits).map(Arc::new)
    }
}
