//! Texts that the servers of a fleet write to their shared store, as strict as those of a folder.
//!
//! All of them are [envelopes](super::envelope) of version 4, which no older getid reads. Pure: the callers decide when
//! and by which comparison they are written.

pub mod claim_record;
pub mod cluster_record;
mod word;

pub use self::claim_record::{ClaimHolder, ClaimRecord, FreeClaim, Holding, ReleaseReason};
pub use self::cluster_record::{ClusterRecord, IdRanges, OtherCluster};
