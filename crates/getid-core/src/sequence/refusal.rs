//! Reasons why a sequence gives nothing, as one sentence with the remedy.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use super::key::NameWord;
use crate::time::UtcMs;

/// Reason why a request gets no value. [`SequenceRefusal::of`] returns it as the text of an error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceRefusal {
    /// The store has no row of the sequence, and none is created.
    NoSuch,
    /// The sequence was dropped.
    Dropped {
        /// Last value that counts as given.
        last: i64,
    },
    /// The sequence has ended (`EXPIRE`).
    Ended {
        /// The end, Unix ms.
        unix_ms: i64,
    },
    /// The generator has no series of this key, and a request for it creates none (`keys declared`).
    NoSeries,
    /// The key is new, and the generator has its maximum of keys.
    TooManySeries {
        /// The maximum (`keys-max`).
        max: u64,
    },
    /// No value up to the sequence's max is left for this request.
    AtMax {
        /// Largest allowed value.
        max: i64,
    },
    /// A range is to be above a value that no store of the sequence has given to a server.
    NotGiven {
        /// The value.
        above: i64,
    },
    /// The next range is not above a value, which another store has given.
    NotAbove {
        /// The value.
        above: i64,
        /// First value of the range, which is skipped.
        first: i64,
    },
    /// The row is lower than values that were given.
    WentBack,
    /// A generator's counter was begun, and its row is gone.
    Lost {
        /// Address of the store without a password.
        store: Arc<str>,
    },
    /// Another server has begun a later period of the generator, whose counter the request needs.
    Newer {
        /// Newest period, as [`Reset::period`](crate::serial::Reset::period) writes it.
        period: Arc<str>,
    },
    /// One request needs more values than a reservation may have.
    TooLarge {
        /// Number of requested values.
        values: u32,
        /// Largest allowed number.
        max: u32,
    },
    /// No value was in memory, and the request may not wait, or has waited long enough.
    Busy {
        /// How long the request waited, ms.
        waited_ms: u64,
    },
    /// The store cannot be used: its address without a password, and its error.
    Store(Arc<str>),
    /// For a time the store could not confirm that no other server has raised the sequence.
    Unconfirmed {
        /// That time, seconds (`sequence-ride-out-s`).
        ride_out_s: u64,
        /// Address of the store, and its last error.
        reason: Arc<str>,
    },
    /// The row has contents that no server can count by: which, and the remedy.
    BadRow(Arc<str>),
    /// Other writers changed the row in a table of Tinyid at every attempt to reserve values: which row.
    Contended(Arc<str>),
    /// The server stops.
    Closed,
}

impl SequenceRefusal {
    /// Returns the text of the error reply, without `-`.
    pub fn of(&self, name: &str) -> String {
        alloc::format!("{}", NamedRefusal { name, refusal: self })
    }

    /// Returns true if the store or the operator must fix it, and the request is valid.
    pub fn is_misconf(&self) -> bool {
        use SequenceRefusal::{Closed, Lost, Store, Unconfirmed, WentBack};
        matches!(self, WentBack | Lost { .. } | Store(_) | Unconfirmed { .. } | Closed)
    }
}

struct NamedRefusal<'a> {
    name: &'a str,
    refusal: &'a SequenceRefusal,
}

impl NamedRefusal<'_> {
    /// Writes the sentence about a key without a series.
    fn fmt_series(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (generator, key) = self.name.split_once('/').unwrap_or((self.name, ""));
        if let SequenceRefusal::TooManySeries { max } = self.refusal {
            return write!(
                f,
                "ERR generator '{generator}' has no series of the key '{key}' yet, and its maximum of {max} keys: a larger \
                 'keys-max' in its declaration allows more"
            );
        }
        write!(
            f,
            "ERR generator '{generator}' has no series of the key '{key}', and its keys are declared: 'SERIES CREATE \
             {generator} {key}' makes it"
        )
    }

    /// Writes the sentence about a store that lost writes.
    fn fmt_lost(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, word) = (self.name, NameWord(self.name));
        if let SequenceRefusal::Lost { store } = self.refusal {
            return write!(
                f,
                "MISCONF sequence '{name}': {store} has no row of it, and this server has given values of it: the \
                 store was lost, or is another one. Restore the right one; else 'SEQUENCE RAISE {word} N', above all \
                 values given, lets it continue"
            );
        }
        write!(
            f,
            "MISCONF sequence '{name}': its store went back below values that were given, as after the restore of a \
             backup. 'SEQUENCE INFO {word}' shows how far; 'SEQUENCE RAISE {word} N', above all values given, or \
             'SEQUENCE CONFIRM {word}' lets it continue"
        )
    }
}

impl fmt::Display for NamedRefusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, word) = (self.name, NameWord(self.name));
        match self.refusal {
            SequenceRefusal::NoSuch => write!(
                f,
                "ERR no such sequence '{name}': 'SEQUENCE CREATE {word}' makes it, and with 'sequence-create on-first-use' \
                 so does INCR"
            ),
            SequenceRefusal::Dropped { last } => write!(
                f,
                "ERR no such sequence '{name}': it was dropped at {last}, and 'SEQUENCE CREATE {word}' continues above \
                 that"
            ),
            SequenceRefusal::Ended { unix_ms } => write!(
                f,
                "ERR sequence '{name}' ended at {}: 'PERSIST {word}' continues it above its last value",
                UtcMs(*unix_ms)
            ),
            SequenceRefusal::NoSeries | SequenceRefusal::TooManySeries { .. } => self.fmt_series(f),
            SequenceRefusal::AtMax { max } => write!(
                f,
                "ERR sequence '{name}' has no more values up to its max {max}: 'SEQUENCE ALTER {word} max N' gives it more"
            ),
            SequenceRefusal::NotGiven { above } => write!(
                f,
                "TRYAGAIN sequence '{name}': its store has not given {above} to any server yet, so no range is above it. \
                 If that value came from another store, send the request without ABOVE; 'SEQUENCE INFO {word}' shows how \
                 far this one is"
            ),
            SequenceRefusal::NotAbove { above, first } => write!(
                f,
                "TRYAGAIN sequence '{name}': the next range begins at {first}, and not above {above}, which another of its \
                 stores has given. The range is skipped: send the request again"
            ),
            SequenceRefusal::WentBack | SequenceRefusal::Lost { .. } => self.fmt_lost(f),
            SequenceRefusal::Newer { period } => write!(
                f,
                "BUSY generator '{name}': another server has begun its period {period}, and this one continues there with \
                 the next request"
            ),
            SequenceRefusal::TooLarge { values, max } => {
                write!(f, "ERR {values} values of sequence '{name}' are too many for one request: the maximum is {max}")
            }
            SequenceRefusal::Busy { waited_ms: 0 } => {
                write!(f, "BUSY sequence '{name}': no value in memory, and its policy is not to wait for the store")
            }
            SequenceRefusal::Busy { waited_ms } => {
                write!(f, "BUSY sequence '{name}': its store has given no values within {waited_ms} ms")
            }
            SequenceRefusal::Store(reason) => write!(f, "MISCONF sequence store {reason}"),
            SequenceRefusal::Unconfirmed { ride_out_s, reason } => write!(
                f,
                "MISCONF sequence '{name}': for {ride_out_s} s its store has not confirmed that no other server raised \
                 it: {reason}"
            ),
            SequenceRefusal::BadRow(what) | SequenceRefusal::Contended(what) => {
                write!(f, "ERR sequence '{name}': {what}")
            }
            SequenceRefusal::Closed => f.write_str("ERR server is shutting down"),
        }
    }
}
