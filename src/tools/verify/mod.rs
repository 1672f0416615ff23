//! Whether servers keep their promises, judged from the IDs that clients saw.
//!
//! Pure but for `load`, which has sockets and clocks: IDs and times come in, findings go out, so a test can plant each
//! fault without a server.
//!
//! - While IDs arrive, a [`Watch`] for each connection checks what needs the moment: order on the connection,
//!   real-time order across the connections of one server, the server-id, the time against the clock.
//! - Afterwards [`judge`] merges the IDs of all connections and of earlier [`record`]s in ascending order, in one pass,
//!   and checks what needs them all: no ID twice, evenness, all later than before.
//!
//! Each connection's IDs are kept as plain numbers, 8 bytes each: 100 million take 800 MB, and the merge takes no more.

mod evenness;
mod judge;
pub(crate) mod load;
pub mod record;
pub(crate) mod report;
mod watch;

pub use evenness::{Evenness, EvennessVerdict, MODULUS_MAX};
pub use judge::{Earlier, JudgeError, JudgeOptions, Judged, ServerIds, judge};
pub use watch::{Asked, Seen, ServerWatch, Watch, WatchOptions};

use std::fmt;

use serde::Serialize;

/// Examples kept of each kind; further ones are counted.
pub const EXAMPLES_MAX: usize = 5;

/// What can be wrong with an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Given twice.
    Duplicate,
    /// Not larger than the one before on its connection.
    ConnectionOrder,
    /// Not larger than one whose reply had come, on another connection, before this was asked for.
    RealTimeOrder,
    /// Of another server-id than expected, or than its server's other IDs, or the same as another server's.
    ServerId,
    /// Its time is farther from the clock than tolerated.
    Clock,
    /// Residues of the modulus come too unevenly.
    Evenness,
    /// Not larger than all that an earlier run got from this server-id.
    AfterEarlier,
    /// No ID at all, or not as many as asked for.
    Reply,
}

impl Kind {
    /// All kinds, in the order of a report.
    pub const ALL: [Kind; 8] = [
        Kind::Duplicate,
        Kind::ConnectionOrder,
        Kind::RealTimeOrder,
        Kind::ServerId,
        Kind::Clock,
        Kind::Evenness,
        Kind::AfterEarlier,
        Kind::Reply,
    ];

    /// What was checked, for a report.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Duplicate => "no id twice",
            Kind::ConnectionOrder => "order on each connection",
            Kind::RealTimeOrder => "real-time order across connections",
            Kind::ServerId => "server-id",
            Kind::Clock => "time against the clock",
            Kind::Evenness => "evenness",
            Kind::AfterEarlier => "later than earlier runs",
            Kind::Reply => "replies as asked for",
        }
    }
}

/// Violations found: all counted, a few of each kind with what was seen.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    kinds: [Found; Kind::ALL.len()],
}

/// Violations of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// How many.
    pub count: u64,
    /// The first few, one sentence each.
    pub examples: Vec<String>,
}

impl Findings {
    /// Counts one violation; `example` is asked for only while examples are wanted.
    pub fn add(&mut self, kind: Kind, example: impl FnOnce() -> String) {
        self.add_many(kind, 1, example);
    }

    /// Counts violations that one example stands for.
    pub fn add_many(&mut self, kind: Kind, count: u64, example: impl FnOnce() -> String) {
        let found = &mut self.kinds[kind as usize];
        found.count += count;
        if found.examples.len() < EXAMPLES_MAX {
            found.examples.push(example());
        }
    }

    /// Adds what another place found.
    pub fn absorb(&mut self, other: Findings) {
        for (mine, theirs) in self.kinds.iter_mut().zip(other.kinds) {
            mine.count += theirs.count;
            let room = EXAMPLES_MAX.saturating_sub(mine.examples.len());
            mine.examples.extend(theirs.examples.into_iter().take(room));
        }
    }

    /// The violations of one kind.
    pub fn of(&self, kind: Kind) -> &Found {
        &self.kinds[kind as usize]
    }

    /// All violations.
    pub fn count(&self) -> u64 {
        self.kinds.iter().map(|found| found.count).sum()
    }
}

/// Where an ID was seen, in words of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// On a connection of this run.
    Connection {
        /// The server's name.
        server: &'a str,
        /// The connection's number.
        connection: usize,
    },
    /// In the record of an earlier run.
    Record(&'a str),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Connection { server, connection } => write!(f, "{server} connection {connection}"),
            Place::Record(file) => f.write_str(file),
        }
    }
}
