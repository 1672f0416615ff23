//! Reasons why a tool does not show or change sequences.

use getid_core::server::{Key, SEQUENCE_NAME_RULE, SpecError, VALUE_MAX};

use super::stores::{RowRefusal, StoresError};
use crate::cli::exit::{EXIT_FAILED, EXIT_NEGATIVE, ToolError};
use getid_text::glob::PatternTooLong;
use getid_text::plural::counted;
use getid_text::printable::printable_up_to;
use getid_text::shell::shell_word;

#[derive(Debug, thiserror::Error)]
pub(super) enum SequenceError {
    #[error("'{}' is no name of a sequence: it has {SEQUENCE_NAME_RULE}", printable_up_to(.0, 200))]
    Name(String),
    #[error("'{0}': the counter of a key or a period is created by its generator")]
    PeriodCounter(Key),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error("cache 0 needs a single store: the values of several stores have no common order")]
    CacheOfSeveralStores,
    #[error("{shown}: there is a sequence '{key}' already, with other options: {words}")]
    OtherOptions { shown: String, key: Key, words: String },
    #[error("'{0}' is no value of a sequence, 0 to {VALUE_MAX}")]
    Value(String),
    #[error("--pattern: {0}")]
    Pattern(PatternTooLong),
    #[error("--through is '{}', must be a day such as 2025-12-31", printable_up_to(.0, 40))]
    Day(String),
    #[error(
        "'{name}' is a generator, whose counters have names of their own: `getid sequence list --periods --pattern {}` \
         shows them",
        shell_word(&format!("{name}[@/]*"))
    )]
    IsGenerator { name: String },
    #[error("{shown}: no generator '{name}' has a counter there")]
    NoGenerator { shown: String, name: String },
    #[error("{} left out; the lines above give the reasons", counted(*.rows, "row"))]
    LeftOut { rows: u64 },
    #[error(transparent)]
    Refused(#[from] RowRefusal),
    #[error(transparent)]
    Stores(#[from] StoresError),
}

impl ToolError for SequenceError {
    fn exit_code(&self) -> u8 {
        match self {
            SequenceError::OtherOptions { .. }
            | SequenceError::IsGenerator { .. }
            | SequenceError::NoGenerator { .. }
            | SequenceError::LeftOut { .. }
            | SequenceError::Refused(_) => EXIT_NEGATIVE,
            _ => EXIT_FAILED,
        }
    }
}

/// Parses the name of a sequence. Fails with the rule for names.
pub(super) fn parse_key(name: &str) -> Result<Key, SequenceError> {
    Key::parse(name).ok_or_else(|| SequenceError::Name(name.to_owned()))
}
