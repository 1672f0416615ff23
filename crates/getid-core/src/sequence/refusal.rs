//! Why a sequence gives nothing, as one sentence with the remedy.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// Why a request gets no value. [`SequenceRefusal::of`] makes it the text of an error reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SequenceRefusal {
    /// The store has no row of it, and none is made.
    NoSuch,
    /// It was dropped.
    Dropped {
        /// The last value that counts as given.
        last: i64,
    },
    /// There is no value up to its max for this request.
    AtMax {
        /// The last value it may have.
        max: i64,
    },
    /// Its row was found lower than what had been given.
    WentBack,
    /// A generator's counter was begun, and its row is there no more.
    Lost {
        /// The store's address without a password.
        store: Arc<str>,
    },
    /// Another server has begun a later period of the generator: the request is for its counter.
    Newer {
        /// The newest period, as [`Reset::period`](crate::Reset::period) writes it.
        period: Arc<str>,
    },
    /// One request asks for more than a reservation may have.
    TooLarge {
        /// How many values.
        values: u32,
        /// How many there may be.
        max: u32,
    },
    /// There was no value in memory, and it may not wait, or has waited long enough.
    Busy {
        /// How long it waited, ms.
        waited_ms: u64,
    },
    /// Its store cannot be used: the store's address without a password, and what was said.
    Store(Arc<str>),
    /// The store could not be asked for so long whether another server has raised it.
    Unconfirmed {
        /// Seconds (`sequence-ride-out-s`).
        ride_out_s: u64,
        /// The store's address, and what was said last.
        said: Arc<str>,
    },
    /// Its row has what nobody can count by: what, and the remedy.
    BadRow(Arc<str>),
    /// The server stops.
    Closed,
}

impl SequenceRefusal {
    /// The text of the error reply, without `-`.
    pub fn of(&self, name: &str) -> String {
        alloc::format!("{}", Named { name, refusal: self })
    }

    /// Whether it is the store's or the operator's to mend, and nothing is wrong with the request.
    pub fn is_misconf(&self) -> bool {
        use SequenceRefusal::{Closed, Lost, Store, Unconfirmed, WentBack};
        matches!(self, WentBack | Lost { .. } | Store(_) | Unconfirmed { .. } | Closed)
    }
}

struct Named<'a> {
    name: &'a str,
    refusal: &'a SequenceRefusal,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.refusal {
            SequenceRefusal::NoSuch => write!(
                f,
                "ERR no such sequence '{name}': 'SEQUENCE CREATE {name}' makes it, and with 'sequence-create on-first-use' \
                 so does INCR"
            ),
            SequenceRefusal::Dropped { last } => write!(
                f,
                "ERR no such sequence '{name}': it was dropped at {last}, and 'SEQUENCE CREATE {name}' goes on above that"
            ),
            SequenceRefusal::AtMax { max } => write!(
                f,
                "ERR sequence '{name}' has no more values up to its max {max}: 'SEQUENCE ALTER {name} max N' gives it more"
            ),
            SequenceRefusal::WentBack => write!(
                f,
                "MISCONF sequence '{name}': its store went back below what had been given, as a backup does that is put \
                 back. 'SEQUENCE INFO {name}' tells how far; 'SEQUENCE RAISE {name} N', above all that was given, or \
                 'SEQUENCE CONFIRM {name}' lets it go on"
            ),
            SequenceRefusal::Lost { store } => write!(
                f,
                "MISCONF sequence '{name}': {store} has no row of it, and this server has given values of it: the store \
                 was lost, or is another one. Put the right one back; else 'SEQUENCE RAISE {name} N', above all that \
                 was given, lets it go on"
            ),
            SequenceRefusal::Newer { period } => write!(
                f,
                "BUSY generator '{name}': another server has begun its period {period}, and this one continues there with \
                 the next request"
            ),
            SequenceRefusal::TooLarge { values, max } => {
                write!(f, "ERR {values} values of sequence '{name}' are too many for one request: it may ask for {max}")
            }
            SequenceRefusal::Busy { waited_ms: 0 } => {
                write!(f, "BUSY sequence '{name}': no value in memory, and its policy is not to wait for the store")
            }
            SequenceRefusal::Busy { waited_ms } => {
                write!(f, "BUSY sequence '{name}': its store has given no values within {waited_ms} ms")
            }
            SequenceRefusal::Store(said) => write!(f, "MISCONF sequence store {said}"),
            SequenceRefusal::Unconfirmed { ride_out_s, said } => write!(
                f,
                "MISCONF sequence '{name}': for {ride_out_s} s its store could not be asked whether another server has \
                 raised it: {said}"
            ),
            SequenceRefusal::BadRow(what) => write!(f, "ERR sequence '{name}': {what}"),
            SequenceRefusal::Closed => f.write_str("ERR server is shutting down"),
        }
    }
}
