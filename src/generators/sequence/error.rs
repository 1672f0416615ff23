//! Why an operator's request about a sequence was not done.

use getid_core::SequenceRefusal;

use crate::sql::{Row, StoreError, Verdict};

/// Why not. [`SequenceError::of`] makes it the text of an error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceError {
    /// As a request for a value is refused.
    Refused(SequenceRefusal),
    /// There is one of that name.
    Exists(Box<Row>),
    /// It would go back: it is at this value.
    Lower {
        /// The last value that counts as given.
        last: i64,
    },
    /// There are as many as `sequence-max` allows.
    TooMany {
        /// How many.
        max: u64,
    },
    /// What is asked cannot be: a sentence with the remedy.
    Not(String),
    /// Nobody knows whether it was done: what was said.
    Unknown(String),
}

impl SequenceError {
    /// The text of the error reply, without `-`.
    pub fn of(&self, name: &str) -> String {
        match self {
            SequenceError::Refused(refusal) => refusal.of(name),
            SequenceError::Exists(row) => {
                format!("ERR sequence '{name}' is there already, its next value is {}", row.next)
            }
            SequenceError::Lower { last } => format!("ERR a sequence never goes back: '{name}' is at {last}"),
            SequenceError::TooMany { max } => {
                format!("ERR sequence '{name}' was not made: there are {max}, and 'sequence-max' allows no more")
            }
            SequenceError::Not(what) => format!("ERR sequence '{name}': {what}"),
            SequenceError::Unknown(said) => format!(
                "MISCONF sequence '{name}': the store was asked, and nobody knows whether it has done it; 'SEQUENCE \
                 INFO {name}' tells. {said}"
            ),
        }
    }

    /// The text of the error reply to a request about a store.
    pub fn of_store(&self) -> String {
        match self {
            SequenceError::Not(what) => format!("ERR {what}"),
            SequenceError::Unknown(said) => format!(
                "MISCONF the store was asked, and it is not known whether it has done it; 'SEQUENCE STORES' shows it. \
                 {said}"
            ),
            error => error.of("*"),
        }
    }

    /// What a database says with its address, as an answer to a request that changes something.
    pub(super) fn from_store(error: StoreError) -> SequenceError {
        match error {
            StoreError::Refused(said) => SequenceError::Refused(SequenceRefusal::Store(said.into())),
            StoreError::Unknown(said) => SequenceError::Unknown(said),
        }
    }

    /// What a row says.
    pub(super) fn from_verdict(verdict: Verdict) -> SequenceError {
        match verdict {
            Verdict::Exists(row) => SequenceError::Exists(row),
            Verdict::Lower { row } => SequenceError::Lower { last: row.last() },
            Verdict::TooMany { max } => SequenceError::TooMany { max },
            Verdict::Unsupported(what) => SequenceError::Not(what),
            verdict => SequenceError::Refused(refusal_of(verdict)),
        }
    }
}

/// What a request for values is told of a verdict.
pub(super) fn refusal_of(verdict: Verdict) -> SequenceRefusal {
    match verdict {
        Verdict::NoSuch => SequenceRefusal::NoSuch,
        Verdict::Dropped { last } => SequenceRefusal::Dropped { last },
        Verdict::WentBack { .. } => SequenceRefusal::WentBack,
        Verdict::Newer { period } => SequenceRefusal::Newer { period: period.into() },
        Verdict::Declared { stored, asked } => SequenceRefusal::BadRow(
            format!(
                "its store has it declared as '{stored}', and this server as '{asked}'. Change this server's configuration, \
                 or replace the store's by 'SEQUENCE DECLARE' with its name: then servers that declare it otherwise are \
                 refused"
            )
            .into(),
        ),
        Verdict::BadRow(what) | Verdict::Unsupported(what) => SequenceRefusal::BadRow(what.into()),
        Verdict::TooMany { max } => SequenceRefusal::BadRow(
            format!("it was not made: there are {max}, and 'sequence-max' allows no more").into(),
        ),
        // A reservation is never told so.
        Verdict::Exists(row) | Verdict::Lower { row } => {
            SequenceRefusal::BadRow(format!("its row is there, and its next value is {}", row.next).into())
        }
    }
}
