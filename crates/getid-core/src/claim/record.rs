//! A claim's record as the machine sees it, the actions on it, and their results.

use core::fmt;

use super::clocks::Hold;
use crate::save_point::SavePoint;

/// Stamp of a record: its last writer and a number that grows with each write. No two writes of a record have the same
/// stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp {
    /// The process that wrote the record: a random number. Present also if the record names no holder.
    pub writer: u128,
    /// Grows by at least 1 with each write of any process. At most [`Stamp::BEAT_MAX`].
    pub beat: u64,
}

impl Stamp {
    /// Largest number that every store holds as a signed integer.
    pub const BEAT_MAX: u64 = i64::MAX as u64;
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "beat {} of {:032x}", self.beat, self.writer)
    }
}

/// A claim's record as a read shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimSnapshot {
    /// Stamp of the record.
    pub stamp: Stamp,
    /// The process that has the claim; `None`: the claim is free.
    pub holder: Option<u128>,
    /// How long its holder may be silent, ms. A reader of a text must bound it (`claim-timeout-ms`).
    pub timeout_ms: u64,
    /// Upper bound of the holder's position.
    pub point: SavePoint,
    /// Whether its holder ran in the folder whose lock this process has now, on this boot of this machine: then the
    /// holder has ended.
    pub is_this_folder: bool,
    /// Whether it was moved to another store, or is being moved: then no server may take it.
    pub is_moved: bool,
}

impl ClaimSnapshot {
    /// Returns how long its holder may be silent, ns; at least 1 ms.
    pub(super) fn timeout_ns(self) -> u64 {
        self.timeout_ms.max(1).saturating_mul(1_000_000)
    }

    /// Returns true if `me` wrote the record and has the claim by it.
    pub(super) fn is_held_by(self, me: u128) -> bool {
        self.stamp.writer == me && self.holder == Some(me)
    }
}

/// A request to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimRequest {
    /// Look, and take the claim if it is free to take; a holder does nothing.
    Watch,
    /// Save this point, for a mint whose term is `term`. A server without the claim takes it first, and returns that
    /// event instead.
    Save {
        /// The point to save.
        point: SavePoint,
        /// [`Claimant::term`](super::Claimant::term) as the mint knows it.
        term: u64,
    },
    /// Give the claim up, with the exact position: the last act, or a step down.
    Release {
        /// The point to save. It is not used if the mint has an older term.
        point: SavePoint,
        /// [`Claimant::term`](super::Claimant::term) as the mint knows it.
        term: u64,
    },
}

/// The next action in the store. Each gets one answer, by [`Claimant::read`](super::Claimant::read) or
/// [`Claimant::wrote`](super::Claimant::wrote).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreAction {
    /// Do nothing.
    Nothing,
    /// Read the record.
    Read,
    /// Write the record, if it has the stamp `expect`.
    Write(RecordWrite),
}

/// A write that is done only if the record has the stamp `expect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordWrite {
    /// The stamp that the write replaces; `None`: there must be no record.
    pub expect: Option<Stamp>,
    /// The stamp that the write sets. No other write ever had it.
    pub new: Stamp,
    /// Purpose of the write.
    pub act: WritePurpose,
    /// The point that the write stores.
    pub point: SavePoint,
    /// The time-out that the write stores, ms.
    pub timeout_ms: u64,
}

impl RecordWrite {
    /// Returns the record that the write leaves, as the writer sees it.
    pub fn leaves(self) -> ClaimSnapshot {
        ClaimSnapshot {
            stamp: self.new,
            holder: (!matches!(self.act, WritePurpose::Release)).then_some(self.new.writer),
            timeout_ms: self.timeout_ms,
            point: self.point,
            is_this_folder: true,
            is_moved: false,
        }
    }
}

/// Purpose of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WritePurpose {
    /// Takes the claim, and changes nothing else.
    Take(TakeCause),
    /// Saves a point, and is a beat.
    Save,
    /// Removes the holder's name.
    Release,
}

/// Why a claim may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TakeCause {
    /// There was no record, and one may be made (`server-id auto`).
    New,
    /// The claim was free: released, or never used.
    Free,
    /// Its holder ran in this very folder, and is gone.
    SameFolder,
    /// Its holder was silent for this long, ns.
    Silent(u64),
    /// It was this server's all the time, by the store, but its hold had ended. Another server may have had the claim
    /// meanwhile, in a store that has forgotten it since. Nothing new to this server was found.
    Resumed,
    /// An earlier attempt with an unknown outcome had succeeded.
    Late,
}

/// The answer to [`StoreAction::Read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadAnswer {
    /// The record was read.
    Record(ClaimSnapshot),
    /// There is no record.
    Missing,
    /// The store did not answer.
    Failed,
}

/// The answer to [`StoreAction::Write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteAnswer {
    /// The write was done.
    Done,
    /// The write was not done: the record is another one, or there is none.
    Conflict(Option<ClaimSnapshot>),
    /// The write was not done, and will not be: the store refused, or was not reachable.
    NotDone,
    /// The outcome is unknown: the write may be done, now or later.
    Unknown,
}

/// Result of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimEvent {
    /// Call [`Claimant::next_action`](super::Claimant::next_action) again at once: there is more to do.
    Again,
    /// This point is saved, and IDs may be given until the hold ends. It may belong to an earlier write with an unknown
    /// outcome.
    Saved {
        /// The saved point.
        point: SavePoint,
        /// How long it allows to give IDs.
        hold: Hold,
    },
    /// The claim was taken: the mint starts again from what was found, and its first save makes IDs possible.
    Taken {
        /// What the last holder left; `None`: no other server has left anything.
        found: Option<SavePoint>,
        /// Why it could be taken.
        cause: TakeCause,
    },
    /// The claim was given up.
    Released,
    /// Another server has the claim, or it is not free to take.
    Standby(StandbyReason),
    /// This server had the claim, and has lost it.
    Lost(ClaimLoss),
    /// The store has lost its last writes. While the hold lasts no other server can have the claim, and this server
    /// writes itself in. Call [`Claimant::next_action`](super::Claimant::next_action) again at once.
    WritesItselfIn {
        /// Beat that the store had before.
        noted: u64,
        /// Beat that the store has now.
        found: u64,
    },
    /// The store did not answer, or the outcome is unknown.
    Away,
}

/// Why a server without a claim does not take it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StandbyReason {
    /// Nothing has been read yet.
    Unread,
    /// Another process has the claim.
    Held {
        /// The process that has it.
        by: u128,
        /// How long it has been silent, ns.
        silent_ns: u64,
        /// How long it may be silent, ms.
        timeout_ms: u64,
    },
    /// It could be taken, but this server's wall clock is too far from the record's time.
    Apart {
        /// Wall clock less the record's time, ms: negative if the clock is behind.
        by_ms: i64,
    },
    /// It was taken from this server on purpose, or this server has given it up: other servers go first for a time-out.
    SteppedAside,
    /// The claim was moved to another store, or is being moved.
    Moved,
    /// There is no record.
    Missing,
    /// The store has lost its last writes.
    WentBack {
        /// Highest beat that this server has seen.
        noted: u64,
        /// Beat in the store; 0: there is no record.
        found: u64,
    },
    /// All beats that a store can hold are used up.
    BeatsUsedUp,
}

/// How a claim was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimLoss {
    /// Another process has it.
    TakenBy(u128),
    /// It was released on purpose (`getid claim take` or `release`), by this writer.
    ReleasedBy(u128),
    /// The claim was moved to another store, or is being moved.
    Moved,
    /// Its record is gone.
    Gone,
    /// The store has lost its last writes, and another server may have had the claim since.
    WentBack {
        /// Highest beat that this server has seen.
        noted: u64,
        /// Beat in the store.
        found: u64,
    },
}
