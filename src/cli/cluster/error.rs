//! Reasons why the record of a fleet is not shown or changed.

use getid_core::LayoutError;

use crate::cli::claim_store::{ClaimStoreError, LeftOutRow};
use crate::cli::exit::{Cause, EXIT_FAILED, EXIT_NEGATIVE, ToolError};
use crate::cli::holders::HolderError;
use getid_engine::claim::RecordError;
use getid_engine::claim::fleet::OtherCluster;

/// Largest number of server-ids or generators that an error names.
const NAMED_MAX: usize = 10;

#[derive(Debug, thiserror::Error)]
pub(super) enum ClusterError {
    #[error(transparent)]
    Store(#[from] ClaimStoreError),
    #[error("{shown}: there is no fleet record here{remedy}")]
    NoRecord { shown: String, remedy: &'static str },
    #[error(transparent)]
    Other(#[from] OtherCluster),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error("{flag}: server-id {last} does not fit id-range {bits}: at most {most}")]
    TooLarge { flag: &'static str, last: u32, bits: u32, most: u64 },
    #[error("--new names more than {max} server-ids; name fewer of them at a time")]
    TooMany { max: usize },
    #[error(
        "--new: 'server-id auto' may take {}, so no server may name it in its configuration; the first holder creates its \
         record",
        list_ids(.0)
    )]
    NewIsAuto(Vec<u32>),
    #[error(
        "--auto: there is already a record of {}, which servers name in their configuration: omit it",
        list_ids(.0)
    )]
    AutoIsNamed(Vec<u32>),
    #[error("{0}")]
    NewRecord(Cause),
    #[error("{shown}: another process wrote the record 'cluster' at the same time; run the command again")]
    InitConflict { shown: String },
    #[error(
        "another process wrote the record '{0}' at the same time, such as a server that starts; run the command again"
    )]
    ForgetConflict(String),
    #[error("no generator '{name}' in this fleet: it has {}", list_names(.known))]
    NoGenerator { name: String, known: Vec<String> },
    #[error("--past-id {id}: generator '{name}' gives no such IDs ({declaration})")]
    ForeignId { id: String, name: String, declaration: String },
    #[error("generator '{0}' gives IDs by the clock: name the largest in any table with --past-id ID")]
    NoPastId(String),
    #[error(transparent)]
    Held(#[from] HolderError),
    #[error(transparent)]
    DamagedRow(#[from] LeftOutRow),
    #[error("{shown}: cannot use the record of server-id {server_id}: {error}")]
    Unusable { shown: String, server_id: u32, error: RecordError },
}

impl ClusterError {
    /// Returns the error for a record that cannot be written as a row.
    pub(super) fn new_record(error: impl Into<Cause>) -> ClusterError {
        ClusterError::NewRecord(error.into())
    }
}

impl ToolError for ClusterError {
    fn exit_code(&self) -> u8 {
        match self {
            ClusterError::Store(_)
            | ClusterError::Layout(_)
            | ClusterError::ForeignId { .. }
            | ClusterError::NoPastId(_)
            | ClusterError::Unusable { .. } => EXIT_FAILED,
            _ => EXIT_NEGATIVE,
        }
    }
}

fn list_ids(ids: &[u32]) -> String {
    let some: Vec<_> = ids.iter().take(NAMED_MAX).map(u32::to_string).collect();
    let more = ids.len().saturating_sub(NAMED_MAX);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("server-id {}{and_more}", some.join(", "))
}

fn list_names(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names[..names.len().min(NAMED_MAX)].join(", ") }
}
