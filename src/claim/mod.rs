//! What a server writes down so that its next life repeats no ID.
//!
//! A generator that lives in memory forgets with its process how far it had come. So it may only give IDs before a
//! [watermark](Record) that is already on disk, and the next life starts there. This module is the way to that disk:
//! the [`Store`] that a holder saves to, its records ([`envelope`], [`record`]), a store in a folder ([`FileStore`]),
//! one that keeps nothing ([`NoStore`]), and a disk that crashes on command, for tests ([`sim`]).
//!
//! When to save, how far ahead, and what to tell clients meanwhile is not decided here: that is the mint's (`id`) and
//! the issuer's.
//!
//! Invariants: after `save` has returned `Ok`, a crash at any later moment leaves a record that is at least that new;
//! and nothing is saved for a caller that has not heard of what was found when a lost claim was taken again.

pub mod envelope;
pub mod folder;
pub(crate) mod lock;
pub mod machine;
pub mod record;
mod saver;
#[doc(hidden)]
pub mod sim;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub use envelope::{Owner, RecordError, Term};
pub use folder::{FileStore, Folder, OpenError, check_record};
use getid_core::SavePoint;
pub use machine::{MachineClaim, MachineError};
pub use record::{Identity, Mismatch, Record};

/// Somewhere durable for one record, and the right to write it.
///
/// Who opens it holds a claim, for one life of its own: a [`Term`]. A claim that is lost and taken again is another
/// life, with another term, and begins as lives do: with what was found. So each save says for which term it speaks,
/// and one of a term that is over is told so instead of saved. However many saves are dropped on the way, nobody goes
/// on without having heard.
pub trait Store: Sized + Send + 'static {
    /// Where it is, and what it is a record of.
    type Place: Send + 'static;
    /// What is saved: where the next life starts.
    type Point: Copy + Send + 'static;

    /// Takes the claim, and reads what the last life left.
    ///
    /// # Errors
    ///
    /// [`OpenError`], whose text names path, cause and remedy.
    fn open(place: Self::Place) -> impl Future<Output = Result<Opened<Self>, OpenError>> + Send;

    /// Makes `point` durable; it has `Ok` only when no crash can undo it. `term` is the one that `open` gave, or
    /// [`SaveError::ClaimRetaken`] since.
    ///
    /// May be dropped before it is done (a time-out): the save then goes on by itself, and the next `save` waits for it
    /// first. After an error the record on disk is the old one or this one.
    ///
    /// # Errors
    ///
    /// [`SaveError`]. The caller tries again as long as it lives: each call starts from the beginning.
    fn save(
        &mut self,
        point: Self::Point,
        term: Term,
    ) -> impl Future<Output = Result<(), SaveError<Self::Point>>> + Send;

    /// Gives the claim up, once a save that goes on by itself has ended. Dropping a store does the same without waiting
    /// for that.
    fn release(self) -> impl Future<Output = ()> + Send;
}

/// A store that was opened, and the life it was opened for.
#[derive(Debug)]
pub struct Opened<S: Store> {
    /// Where to save.
    pub store: S,
    /// What the last life left; `None`: there was no record.
    pub point: Option<S::Point>,
    /// The number of this life.
    pub term: Term,
    /// The claim that was taken is not the one that the writer of the record had: folder or lock file are others. Whoever
    /// has that one may still be running, and hear of it at its next save only.
    pub is_copy: bool,
}

impl<S: Store> Opened<S> {
    /// [`Store::save`] for this life. Who is told by its error that the claim was taken again is in the new one then.
    ///
    /// # Errors
    ///
    /// As [`Store::save`].
    pub async fn save(&mut self, point: S::Point) -> Result<(), SaveError<S::Point>> {
        let result = self.store.save(point, self.term).await;
        if let Err(SaveError::ClaimRetaken { term, .. }) = &result {
            self.term = *term;
        }
        result
    }
}

/// Why a record was not saved. `Display` is the sentence for log and reply, without `MISCONF`.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SaveError<P = SavePoint> {
    /// The disk did not take it.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What failed, as in "cannot write ...".
        action: &'static str,
        /// What it failed on.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// Lock file or folder are no longer the ones that were opened, another process holds the new ones, or the record
    /// there is another process's. Nothing was written. The store looks again at each save.
    #[error("claim lost: {what}")]
    ClaimLost {
        /// What was found instead, and what helps.
        what: String,
    },
    /// The claim had been lost (folder or lock file deleted and made anew) and has been taken again. Nothing was
    /// written.
    ///
    /// Another server may have given IDs in between, so the caller must now do what it does at a start with the record
    /// `found` (raise its position past the watermark, and its reference clock; without a record past the borrow
    /// limit), and only then save again, with the new term. With the old one it gets this answer again.
    #[error("the claim was lost and has been taken again; the position must be raised before the next save")]
    ClaimRetaken {
        /// What the folder held when the claim was taken again: the latest of all that were found since the caller was
        /// told last. In ticks of the configured epoch.
        found: Option<P>,
        /// The new life.
        term: Term,
    },
}

/// What a save does, in this order. A crash may come between any two.
///
/// One list for the real and the simulated disk, so that the tests crash what servers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SaveStep {
    /// A new temporary file beside the record's gets the text.
    Write,
    /// The temporary file becomes durable, so that the name never leads to half a text.
    SyncFile,
    /// The record that is about to be replaced is read: it must be the one that this life wrote or found.
    ReadBack,
    /// The temporary file takes the record's name.
    Rename,
    /// The name becomes durable.
    SyncFolder,
}

impl SaveStep {
    /// All steps, in order.
    pub const ALL: [SaveStep; 5] =
        [SaveStep::Write, SaveStep::SyncFile, SaveStep::ReadBack, SaveStep::Rename, SaveStep::SyncFolder];

    /// What an error calls it, between "cannot" and a path.
    fn action(self) -> &'static str {
        match self {
            SaveStep::Write => "write",
            SaveStep::SyncFile => "sync",
            SaveStep::ReadBack => "read back",
            SaveStep::Rename => "rename a file to",
            SaveStep::SyncFolder => "sync the folder",
        }
    }
}

/// The store of `id-state none`: every save succeeds and nothing is kept.
///
/// Each start is then a start without a record.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStore;

impl NoStore {
    /// A first life, or what a test wants it to have found.
    pub fn opened(point: Option<SavePoint>) -> Opened<NoStore> {
        Opened { store: NoStore, point, term: Term::default(), is_copy: false }
    }
}

impl Store for NoStore {
    type Place = ();
    type Point = SavePoint;

    async fn open((): ()) -> Result<Opened<NoStore>, OpenError> {
        Ok(NoStore::opened(None))
    }

    async fn save(&mut self, _point: SavePoint, _term: Term) -> Result<(), SaveError> {
        Ok(())
    }

    async fn release(self) {}
}
