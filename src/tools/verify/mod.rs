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
//! What a generator's IDs promise depends on its layout and kind, and is in [`Promises`].
//!
//! Each connection's IDs are kept as plain numbers, 8 bytes each: 100 million take 800 MB, and the merge takes no more.
//! IDs of more than 64 bits take 16.

mod evenness;
mod ids;
mod judge;
pub(crate) mod load;
mod promises;
pub(crate) mod record;
pub(crate) mod report;
mod watch;

pub(crate) use evenness::{EvennessVerdict, MODULUS_MAX};
pub(crate) use ids::Ids;
pub(crate) use judge::{Earlier, JudgeError, JudgeOptions, Judged, judge};
pub(crate) use promises::{Evenly, Promises, layout_text};
pub(crate) use watch::{Asked, Seen, ServerWatch, Watch, WatchOptions};

use std::fmt;

use serde::Serialize;

/// Examples kept of each kind; further ones are counted.
pub(crate) const EXAMPLES_MAX: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
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
    pub(crate) const ALL: [Kind; 8] = [
        Kind::Duplicate,
        Kind::ConnectionOrder,
        Kind::RealTimeOrder,
        Kind::ServerId,
        Kind::Clock,
        Kind::Evenness,
        Kind::AfterEarlier,
        Kind::Reply,
    ];

    pub(crate) fn title(self) -> &'static str {
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
pub(crate) struct Findings {
    kinds: [Found; Kind::ALL.len()],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    pub(crate) count: u64,
    /// The first few, one sentence each.
    pub(crate) examples: Vec<String>,
}

impl Findings {
    pub(crate) fn add(&mut self, kind: Kind, example: impl FnOnce() -> String) {
        self.add_many(kind, 1, example);
    }

    /// Counts violations that one example stands for.
    pub(crate) fn add_many(&mut self, kind: Kind, count: u64, example: impl FnOnce() -> String) {
        let found = &mut self.kinds[kind as usize];
        found.count += count;
        if found.examples.len() < EXAMPLES_MAX {
            found.examples.push(example());
        }
    }

    pub(crate) fn absorb(&mut self, other: Findings) {
        for (mine, theirs) in self.kinds.iter_mut().zip(other.kinds) {
            mine.count += theirs.count;
            let room = EXAMPLES_MAX.saturating_sub(mine.examples.len());
            mine.examples.extend(theirs.examples.into_iter().take(room));
        }
    }

    pub(crate) fn of(&self, kind: Kind) -> &Found {
        &self.kinds[kind as usize]
    }

    pub(crate) fn count(&self) -> u64 {
        self.kinds.iter().map(|found| found.count).sum()
    }
}

/// Where an ID was seen, in words of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    Connection { server: &'a str, connection: usize },
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
