//! Errors of an operator's requests about sequences.

use getid_core::server::{NameWord, SequenceRefusal};

use getid_store::sql::{SequenceRow, StoreError, Verdict};

/// Error of an operator's request. [`SequenceError::of`] returns the text of an error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceError {
    /// A refusal, as for a request for values.
    Refused(SequenceRefusal),
    /// A sequence of that name exists.
    Exists(Box<SequenceRow>),
    /// The request would lower the sequence.
    Lower {
        /// The last given value.
        last: i64,
    },
    /// The number of sequences is at the limit of `sequence-max`.
    TooMany {
        /// The limit.
        max: u64,
    },
    /// The new max is below a value that was given.
    MaxBelow {
        /// The new max.
        max: i64,
        /// The last given value.
        last: i64,
    },
    /// The request is not possible: a sentence with the remedy.
    Not(String),
    /// The outcome is unknown: the error of the store.
    Unknown(String),
}

impl SequenceError {
    /// Returns the text of the error reply, without `-`.
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
            SequenceError::MaxBelow { max, last } => {
                format!("ERR sequence '{name}': max is {max}, and it is at {last} already")
            }
            SequenceError::Not(what) => format!("ERR sequence '{name}': {what}"),
            SequenceError::Unknown(reason) => format!(
                "MISCONF sequence '{name}': the outcome of the change is unknown; 'SEQUENCE INFO {}' shows it. \
                 {reason}",
                NameWord(name)
            ),
        }
    }

    /// Returns the text of the error reply to a request about a store.
    pub fn of_store(&self) -> String {
        match self {
            SequenceError::Not(what) => format!("ERR {what}"),
            SequenceError::Unknown(reason) => format!(
                "MISCONF the outcome of the change is unknown; 'SEQUENCE STORES' shows it. \
                 {reason}"
            ),
            error => error.of("*"),
        }
    }

    /// Converts a database's error, with its address, to the error of a request that changes something.
    pub(super) fn from_store(error: StoreError) -> SequenceError {
        match error {
            StoreError::Refused(reason) | StoreError::Locked(reason) => {
                SequenceError::Refused(SequenceRefusal::Store(reason.into()))
            }
            StoreError::Unknown(reason) => SequenceError::Unknown(reason),
        }
    }

    /// Converts a verdict on a row.
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

/// Returns the refusal of a request for values for a verdict.
pub(super) fn refusal_of(verdict: Verdict) -> SequenceRefusal {
    match verdict {
        Verdict::NoSuch => SequenceRefusal::NoSuch,
        Verdict::Dropped { last } => SequenceRefusal::Dropped { last },
        Verdict::WentBack { .. } => SequenceRefusal::WentBack,
        Verdict::NoSeries => SequenceRefusal::NoSeries,
        Verdict::TooManySeries { max } => SequenceRefusal::TooManySeries { max },
        Verdict::Newer { period } => SequenceRefusal::Newer { period: period.into() },
        Verdict::Declared { stored, configured: asked } => SequenceRefusal::BadRow(
            format!(
                "its store declares it as '{stored}', and this server as '{asked}'. Change this server's \
                 configuration, or replace the store's declaration by 'SEQUENCE DECLARE' with its name: then servers \
                 with another declaration are refused"
            )
            .into(),
        ),
        Verdict::BadRow(what) | Verdict::Unsupported(what) => SequenceRefusal::BadRow(what.into()),
        Verdict::Contended(what) => SequenceRefusal::Contended(what.into()),
        Verdict::TooMany { max } => SequenceRefusal::BadRow(
            format!("it was not made: there are {max}, and 'sequence-max' allows no more").into(),
        ),
        // A reservation never gets these verdicts.
        Verdict::Exists(row) | Verdict::Lower { row } => {
            SequenceRefusal::BadRow(format!("its row is there, and its next value is {}", row.next).into())
        }
    }
}
