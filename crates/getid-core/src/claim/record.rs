//! A claim's record as the machine sees it, what is to be done with it, and what came of that.

use core::fmt;

use super::clocks::Hold;
use crate::save_point::SavePoint;

/// Who wrote a record last, and how often it was written. No two writes of a record have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp {
    /// The process that wrote it: a random number. Also when what it wrote says that nobody holds the claim.
    pub writer: u128,
    /// One more, at least, with each write, whoever writes. At most [`Stamp::BEAT_MAX`].
    pub beat: u64,
}

impl Stamp {
    /// What every store holds as a signed integer.
    pub const BEAT_MAX: u64 = i64::MAX as u64;
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "beat {} of {:032x}", self.beat, self.writer)
    }
}

/// What a read shows of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// Its stamp.
    pub stamp: Stamp,
    /// The process that has the claim; `None`: nobody, it may be taken at once.
    pub holder: Option<u128>,
    /// How long its holder may be silent, ms. Whoever reads it from a text bounds it (`claim-timeout-ms`).
    pub timeout_ms: u64,
    /// How far its holder may have come.
    pub point: SavePoint,
    /// Whether its holder ran in the folder whose lock this process has now, on this boot of this machine: then it is
    /// gone.
    pub is_this_folder: bool,
    /// Whether it was moved to another store, or is being moved: nobody may take it.
    pub is_moved: bool,
}

impl Seen {
    /// How long its holder may be silent, ns; at least 1 ms.
    pub(super) fn timeout_ns(self) -> u64 {
        self.timeout_ms.max(1).saturating_mul(1_000_000)
    }

    /// Whether `me` wrote it and has the claim by it.
    pub(super) fn is_held_by(self, me: u128) -> bool {
        self.stamp.writer == me && self.holder == Some(me)
    }
}

/// What the machine is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// To look, and to take the claim if it may; a holder has nothing to do.
    Watch,
    /// To save this point, which a mint wants that has been told of term `term`. A server without the claim takes it
    /// first, and tells so instead.
    Save {
        /// What to save.
        point: SavePoint,
        /// [`Claimant::term`](super::Claimant::term) as the mint knows it.
        term: u64,
    },
    /// To give the claim up, with the exact position: the last act, or a step down.
    Release {
        /// What to save. Of a mint that does not know of the term yet it is not used.
        point: SavePoint,
        /// As in `Save`.
        term: u64,
    },
}

/// What is to be done in the store now. Each is answered once, by [`Claimant::read`](super::Claimant::read) or
/// [`Claimant::wrote`](super::Claimant::wrote).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Nothing.
    Nothing,
    /// Read the record.
    Read,
    /// Write the record, if it has the stamp that is named.
    Write(Write),
}

/// A write that is done only if the record has the stamp `expect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The stamp that it replaces; `None`: there must be no record.
    pub expect: Option<Stamp>,
    /// The stamp that it sets. No other write ever had it.
    pub new: Stamp,
    /// What it is for.
    pub act: Act,
    /// The point that it stores.
    pub point: SavePoint,
    /// The time-out that it stores, ms.
    pub timeout_ms: u64,
}

impl Write {
    /// The record that it leaves, as the writer sees it.
    pub fn leaves(self) -> Seen {
        Seen {
            stamp: self.new,
            holder: (!matches!(self.act, Act::Release)).then_some(self.new.writer),
            timeout_ms: self.timeout_ms,
            point: self.point,
            is_this_folder: true,
            is_moved: false,
        }
    }
}

/// What a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// It takes the claim, and changes nothing else.
    Take(Cause),
    /// It saves a point, and is a beat.
    Save,
    /// It names no holder.
    Release,
}

/// Why a claim may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// There was no record, and one may be made (`server-id auto`).
    New,
    /// Nobody had it: released, or never used.
    Free,
    /// Its holder ran in this very folder, and is gone.
    SameFolder,
    /// Its holder was silent for this long, ns.
    Silent(u64),
    /// It was this server's all the time, as far as the store knows, but its hold had ended: somebody may have had the
    /// claim meanwhile, in a store that has forgotten it since. Nothing was found that this server does not know.
    Resumed,
    /// An earlier attempt, of which nobody knew what had become of it, was done after all.
    Late,
}

/// The answer to [`Wish::Read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    /// The record.
    Record(Seen),
    /// There is none.
    Missing,
    /// The store did not answer.
    Failed,
}

/// The answer to [`Wish::Write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrote {
    /// It was done.
    Done,
    /// It was not done: the record is another one, or there is none.
    Conflict(Option<Seen>),
    /// It was not done, and will not be: the store refused, or could not be asked.
    NotDone,
    /// Nobody knows whether it was done, or will be done yet.
    Unknown,
}

/// What came of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// Ask for a wish again at once: there is more to do.
    Again,
    /// This point is saved, and IDs may be given until the hold ends. It may be that of an earlier write, of which
    /// nobody knew what had become of it.
    Saved {
        /// What is saved.
        point: SavePoint,
        /// For how long it allows to give IDs.
        hold: Hold,
    },
    /// The claim was taken: the mint starts again by what was found, and its first save makes IDs possible.
    Taken {
        /// What the last holder left; `None`: nobody else has left anything.
        found: Option<SavePoint>,
        /// Why it could be taken.
        cause: Cause,
    },
    /// The claim was given up.
    Released,
    /// It is not this server's.
    Standby(Waiting),
    /// It was this server's, and is no longer.
    Lost(Loss),
    /// The store has lost its last writes; while the hold lasts nobody else can have the claim, and this server writes
    /// itself in. Ask for a wish again at once.
    WritesItselfIn {
        /// The beat that the store had.
        noted: u64,
        /// The beat that it has now.
        found: u64,
    },
    /// The store did not answer, or nobody knows what it did.
    Away,
}

/// Why a server without a claim does not take it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// Nothing has been read yet.
    Unread,
    /// Somebody has it.
    Held {
        /// The process.
        by: u128,
        /// For how long it has been silent, ns.
        silent_ns: u64,
        /// For how long it may be, ms.
        timeout_ms: u64,
    },
    /// It could be taken, but this server's wall clock is too far from the record's time: by so many ms, ahead or
    /// (negative) behind.
    Apart {
        /// Wall clock less the record's time, ms.
        by_ms: i64,
    },
    /// It was taken from this server on purpose, or this server has given it up: others go first for a time-out.
    SteppedAside,
    /// It is moved to another store, or is being moved.
    Moved,
    /// There is no record.
    Missing,
    /// The store has lost its last writes.
    WentBack {
        /// The highest beat that this server knows of.
        noted: u64,
        /// The beat in the store; 0: there is no record.
        found: u64,
    },
    /// No beat is left that a store could hold.
    BeatsUsedUp,
}

/// How a claim was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Somebody else has it.
    TakenBy(u128),
    /// Somebody has released it on purpose (`getid claim take` or `release`).
    ReleasedBy(u128),
    /// It was moved to another store, or is being moved.
    Moved,
    /// Its record is gone.
    Gone,
    /// The store has lost its last writes, and somebody else may have had the claim since.
    WentBack {
        /// The highest beat that this server knows of.
        noted: u64,
        /// The beat in the store.
        found: u64,
    },
}
