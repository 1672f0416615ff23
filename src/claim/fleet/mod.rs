//! What the servers of a fleet write into the store that they share: texts, as strict as those of a folder.
//!
//! All of them are [envelopes](super::envelope) of version 4, which no older getid reads. Pure: when they are written,
//! and by which compare, is not known here.

pub mod claim_record;
pub mod cluster_record;
mod word;

pub use self::claim_record::{ClaimRecord, Freed, Holder, Holding, WhyFree};
pub use self::cluster_record::{ClusterRecord, IdRanges};
