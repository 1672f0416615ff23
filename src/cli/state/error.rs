//! Reasons why `getid state` does not show or change a record.

use std::io;
use std::path::PathBuf;

use getid_core::{LayoutError, UtcMs};

use crate::cli::claim::ListError;
use crate::cli::claim_store::ClaimStoreError;
use crate::cli::exit::{Cause, EXIT_NEGATIVE, ToolError};
use crate::cli::holders::{HolderError, MovedRecord};
use crate::cli::layout_args::SubjectArgsError;
use crate::cli::record_text::duration;
use crate::cli::tool_config::{ToolConfigError, UrlArgumentError};
use getid_config::ConfigReport;
use getid_engine::claim::fleet::{IdRanges, OtherCluster};
use getid_engine::claim::{MachineError, Mark, Mismatch, RecordError, RecordLocation, SaveError, TakeError};
use getid_text::timestamp::TimeError;

/// Largest number of generators that an error names.
const NAMED_MAX: usize = 10;

#[derive(Debug, thiserror::Error)]
pub(super) enum StateError {
    // What the command selects.
    #[error("configuration:\n{0}")]
    Configuration(ConfigReport),
    #[error(transparent)]
    Config(#[from] ToolConfigError),
    #[error(transparent)]
    Url(#[from] UrlArgumentError),
    #[error(transparent)]
    LayoutArgs(#[from] SubjectArgsError),
    #[error(
        "the server-id is missing: name it with --server-id, or name a configuration with server-id in it by --config"
    )]
    NoServerId,
    #[error("{}: {error}", .path.display())]
    Path { path: PathBuf, error: io::Error },

    // Records and their claims.
    #[error(transparent)]
    Store(#[from] ClaimStoreError),
    #[error(transparent)]
    Held(#[from] HolderError),
    #[error(transparent)]
    Moved(#[from] MovedRecord),
    #[error("{}: {mark}. To continue, {}", .path.display(), .mark.remedy(*.server_id, .here))]
    MovedFile { path: PathBuf, server_id: u32, mark: Mark, here: RecordLocation },
    #[error(transparent)]
    List(#[from] ListError),
    #[error("cannot read the folder {}: {error}", .dir.display())]
    ReadFolder { dir: PathBuf, error: io::Error },
    #[error("no record ({files}) in {}", .dir.display())]
    NoFile { files: String, dir: PathBuf },
    #[error("cannot use the record {}: {error}; `getid state show` shows the remedy", .path.display())]
    UnusableFile { path: PathBuf, error: RecordError },
    #[error("{shown}: cannot use the record of server-id {server_id}: {error}; {remedy}")]
    UnusableRecord { shown: String, server_id: u32, error: RecordError, remedy: &'static str },
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Take(#[from] TakeError),
    #[error(transparent)]
    Save(#[from] SaveError),
    #[error("claim lost: {0}")]
    ClaimLost(String),
    #[error("cannot keep a copy of {what}, so it is unchanged: {error}")]
    Copy { what: String, error: io::Error },
    #[error("{0}")]
    NewRecord(Cause),
    #[error(
        "{shown}: another process wrote the record of server-id {server_id} at the same time, such as a server that starts; \
         stop it, and run the command again"
    )]
    Conflict { shown: String, server_id: u32 },
    #[error(
        "{shown}: another process wrote the record of server-id {server_id} just now; check it with `getid claim show`"
    )]
    NotSilent { shown: String, server_id: u32 },

    // The new record of an advance.
    #[error("there would be no IDs past this record: the time of IDs ends {0}")]
    EndOfTime(UtcMs),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error("server-id {server_id} does not fit id-range {bits}: at most {}", (1_u64 << .bits) - 1)]
    IdRange { server_id: u32, bits: u32 },
    #[error("--epoch is {given}, and this fleet's id-epoch is {found}: omit --epoch")]
    FleetEpoch { given: u64, found: u64 },
    #[error("--id-range is {given}, and this fleet's id-range is {found}: omit --id-range")]
    FleetIdRange { given: u32, found: u32 },
    #[error("--past-id: an ID is not negative")]
    NegativeId,
    #[error("--to: {0}")]
    To(TimeError),
    #[error("--to {text}: the time of IDs is {first} to {last}")]
    ToRange { text: String, first: UtcMs, last: UtcMs },
    #[error(
        "the record would be at {time}, {} ahead of the clock ({now}). IDs would run ahead of it until {until}, and a \
         record never goes back. If the clock is wrong, set it; if this is intended, add --force",
        duration(*.distance_ms)
    )]
    FarAhead { time: UtcMs, distance_ms: u64, now: UtcMs, until: UtcMs },
    #[error(
        "the record would be at {time}, {} behind the clock ({now}), and a server gives no IDs with a clock so far past \
         its record. If the clock is right, use --to with a time near it; if it is wrong, set it, or add --force",
        duration(*.distance_ms)
    )]
    FarBehind { time: UtcMs, distance_ms: u64, now: UtcMs },
    #[error(
        "{shown}: there is no fleet record here, and none of server-id {server_id}; if address and prefix are right, run \
         `getid cluster init`, then this command again"
    )]
    NoFleetForAdvance { shown: String, server_id: u32 },

    // A generator to forget.
    #[error("{}: there is no record, so there is nothing to forget", .0.display())]
    NothingToForget(PathBuf),
    #[error("generator '{name}' was forgotten before, with --past-id {past_id}")]
    ForgottenBefore { name: String, past_id: String },
    #[error("no generator '{name}' in the record: it has {}", list_names(.known))]
    NoGenerator { name: String, known: Vec<String> },
    #[error("--past-id {id}: generator '{name}' gives no such IDs ({declaration})")]
    ForeignId { id: String, name: String, declaration: String },

    // The two ends of a move.
    #[error("--from and --to are the same place: {0}")]
    SamePlace(RecordLocation),
    #[error("{flag} {}: {error}", .dir.display())]
    FolderArgument { flag: &'static str, dir: PathBuf, error: io::Error },
    #[error("{from}: there is no record of server-id {server_id}, so there is nothing to move")]
    NothingToMove { from: RecordLocation, server_id: u32 },
    #[error("{0}: there is no fleet record here; if address and prefix are right, `getid cluster init` creates it")]
    NoFleet(String),
    #[error(
        "{shown}: 'server-id auto' may take server-id {server_id} here ({auto}), and a moved record belongs to a server \
         that names its server-id"
    )]
    AutoServerId { shown: String, server_id: u32, auto: IdRanges },
    #[error(
        "{shown}: this fleet has id-range {fleet}, and the record id-range {record}: start the server once with the \
         fleet's id-range where the record is, then move it"
    )]
    OtherIdRange { shown: String, fleet: u32, record: u32 },
    #[error("{shown}: server-id {server_id} does not fit this fleet's id-range {bits}")]
    OutsideFleet { shown: String, server_id: u32, bits: u32 },
    #[error("{shown}: the record does not fit this fleet's epoch: {error}")]
    OtherEpoch { shown: String, error: Mismatch },
    #[error("{shown}: {error}")]
    OtherDeclarations { shown: String, error: OtherCluster },
    #[error(
        "{to}: there is a record of server-id {server_id} that does not come from {from}: its watermark is lower. IDs \
         given from {from} could repeat. To continue here, run `getid state advance` on it past the watermark of {from}, \
         then this command again"
    )]
    OtherRecord { from: RecordLocation, to: RecordLocation, server_id: u32 },
    #[error(
        "{to}: there is a record of server-id {server_id} already, and two records cannot be merged. Compare them with \
         `getid state show`"
    )]
    Occupied { to: RecordLocation, server_id: u32 },
}

/// Each error is a negative answer: a record is shown or changed as requested, or it is not.
impl ToolError for StateError {
    fn exit_code(&self) -> u8 {
        EXIT_NEGATIVE
    }
}

impl StateError {
    /// Returns the error for a record that cannot be written as a row.
    pub(super) fn new_record(error: impl Into<Cause>) -> StateError {
        StateError::NewRecord(error.into())
    }
}

fn list_names(names: &[String]) -> String {
    match names.len() {
        0 => "none".to_owned(),
        1..=NAMED_MAX => names.join(", "),
        many => format!("{} and {} more", names[..NAMED_MAX].join(", "), many - NAMED_MAX),
    }
}
