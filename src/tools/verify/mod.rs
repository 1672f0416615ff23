//! Judges whether servers keep their promises, by the IDs that clients saw.
//!
//! All but `load` is pure: IDs and times go in, findings come out. So a test can plant each fault without a server.
//!
//! - While IDs arrive, a [`Watch`] for each connection checks order on the connection, real-time order across the
//!   connections of one server, the server-id, and the time against the clock.
//! - Afterwards [`judge`] merges the IDs of all connections and earlier [`record`]s in ascending order, and checks
//!   uniqueness, evenness, and that all are later than before.
//!
//! The promises depend on a generator's layout and kind: see [`Promises`]. An ID is kept in 8 bytes, or 16 if it is
//! wider: 100 million take 800 MB, and the merge takes no more.

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

/// Largest number of examples kept of each kind; further ones are only counted.
pub(crate) const EXAMPLES_MAX: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Duplicate,
    /// The ID is not larger than the previous one on its connection.
    ConnectionOrder,
    /// The ID is not larger than one that another connection had received before this one was requested.
    RealTimeOrder,
    /// The ID has another server-id than expected, or than its server's other IDs, or the server-id of another server.
    ServerId,
    /// The ID's time is farther from the clock than tolerated.
    Clock,
    /// Residues of the modulus are too uneven.
    Evenness,
    /// The ID is not larger than all that an earlier run got from this server-id.
    AfterEarlier,
    /// The reply is no ID, or has another number of IDs than requested.
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

/// Violations: all are counted, and a few examples of each kind are kept.
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

    /// Counts violations with one common example.
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

/// The place where an ID was seen, for reports.
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
