//! Texts that the servers of a fleet write to their shared store, as strict as those of a folder.
//!
//! All of them are [envelopes](super::envelope). Pure: the callers decide when and by which comparison they are
//! written.

pub mod claim_record;
pub mod cluster_record;
mod word;

use getid_store::records::TEXT_BYTES_MAX;

pub use self::claim_record::{ClaimHolder, ClaimRecord, FreeClaim, Holding, ReleaseReason};
pub use self::cluster_record::{ClusterRecord, IdRanges, IdRangesError, OtherCluster};

/// The text of a record is too long for a claim store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordTooLong {
    /// The record of a claim.
    #[error(
        "the record of server-id {server_id} would have {bytes} bytes, and a claim store accepts {TEXT_BYTES_MAX}: \
         declare fewer generators"
    )]
    Claim {
        /// Server-id of the claim.
        server_id: u32,
        /// Length of the text.
        bytes: usize,
    },
    /// The record of the fleet.
    #[error(
        "the record of the cluster would have {bytes} bytes, and a claim store accepts {TEXT_BYTES_MAX}: declare fewer \
         generators, or forget some with `getid cluster forget-generator`"
    )]
    Cluster {
        /// Length of the text.
        bytes: usize,
    },
}
