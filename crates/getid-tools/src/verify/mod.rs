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
pub mod load;
mod promises;
pub mod record;
pub mod report;
mod watch;

pub use evenness::{EvennessVerdict, MODULUS_MAX};
pub use ids::IdList;
pub use judge::{EarlierRun, JudgeError, JudgeOptions, Judgement, judge};
pub use promises::{EvennessPromise, Promises, layout_text};
pub use watch::{Floor, ReplyTimes, ServerWatch, Watch, WatchOptions};

use std::fmt;

use serde::Serialize;

/// Largest number of examples kept of each kind; further ones are only counted.
pub(crate) const EXAMPLES_MAX: usize = 5;

/// Kind of a violation. Each kind is one check of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ViolationKind {
    /// The ID was received twice, in this run or in earlier ones.
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

impl ViolationKind {
    /// All kinds, in the order of their declaration and of the report.
    pub const ALL: [ViolationKind; 8] = [
        ViolationKind::Duplicate,
        ViolationKind::ConnectionOrder,
        ViolationKind::RealTimeOrder,
        ViolationKind::ServerId,
        ViolationKind::Clock,
        ViolationKind::Evenness,
        ViolationKind::AfterEarlier,
        ViolationKind::Reply,
    ];

    /// Returns the title of the check in the report.
    pub fn title(self) -> &'static str {
        match self {
            ViolationKind::Duplicate => "no id twice",
            ViolationKind::ConnectionOrder => "order on each connection",
            ViolationKind::RealTimeOrder => "real-time order across connections",
            ViolationKind::ServerId => "server-id",
            ViolationKind::Clock => "time against the clock",
            ViolationKind::Evenness => "evenness",
            ViolationKind::AfterEarlier => "later than earlier runs",
            ViolationKind::Reply => "replies as requested",
        }
    }
}

/// Violations: all are counted, and a few examples of each kind are kept.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    violations: [Violations; ViolationKind::ALL.len()],
}

/// Violations of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Violations {
    /// Number of violations.
    pub count: u64,
    /// The first few, one sentence each.
    pub examples: Vec<String>,
}

impl Findings {
    /// Counts a violation. `example` is called only while fewer than 5 examples of the kind are kept.
    pub fn add(&mut self, kind: ViolationKind, example: impl FnOnce() -> String) {
        self.add_many(kind, 1, example);
    }

    /// Counts violations with one common example.
    pub(crate) fn add_many(&mut self, kind: ViolationKind, count: u64, example: impl FnOnce() -> String) {
        let violations = &mut self.violations[kind as usize];
        violations.count += count;
        if violations.examples.len() < EXAMPLES_MAX {
            violations.examples.push(example());
        }
    }

    /// Adds the violations of other findings. Of each kind, at most 5 examples are kept.
    pub fn absorb(&mut self, other: Findings) {
        for (mine, theirs) in self.violations.iter_mut().zip(other.violations) {
            mine.count += theirs.count;
            let room = EXAMPLES_MAX.saturating_sub(mine.examples.len());
            mine.examples.extend(theirs.examples.into_iter().take(room));
        }
    }

    /// Returns the violations of one kind.
    pub fn of(&self, kind: ViolationKind) -> &Violations {
        &self.violations[kind as usize]
    }

    /// Returns the number of violations of all kinds.
    pub fn count(&self) -> u64 {
        self.violations.iter().map(|found| found.count).sum()
    }
}

/// The place where an ID was seen, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdSource<'a> {
    /// A connection of this run.
    Connection {
        /// Name of the server.
        server: &'a str,
        /// The connection's number among those of its server.
        connection: usize,
    },
    /// Name of an earlier run's record.
    Record(&'a str),
}

impl fmt::Display for IdSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdSource::Connection { server, connection } => write!(f, "{server} connection {connection}"),
            IdSource::Record(file) => f.write_str(file),
        }
    }
}
