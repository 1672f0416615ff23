//! What a server writes down so that its next life repeats no ID.
//!
//! A generator that lives in memory forgets with its process how far it had come. So it may only give IDs before a
//! [watermark](Record) that is already on disk, and the next life starts there. This module is the way to that disk:
//! the [`Record`], the [`WatermarkStore`] it is saved to, a store in a folder ([`FileStore`]), one that keeps nothing
//! ([`NoStore`]), and a disk that crashes on command, for tests ([`sim`]).
//!
//! When to save, how far ahead, and what to tell clients meanwhile is not decided here: that is the mint's (`id`) and
//! the issuer's.
//!
//! Invariant: after `save` has returned `Ok`, a crash at any later moment leaves a record that is at least that new.

pub(crate) mod claim;
pub mod file;
pub mod record;
#[doc(hidden)]
pub mod sim;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub use file::{FileStore, OpenError};
pub use record::{Identity, Mismatch, Record, RecordError};

use crate::id::SavePoint;

/// Somewhere durable for one server's record.
pub trait WatermarkStore: Send + 'static {
    /// Makes `record` durable; it has `Ok` only when no crash can undo it.
    ///
    /// May be dropped before it is done (a time-out): the save then goes on by itself, and the next `save` waits for it
    /// first. After an error the record on disk is the old one or this one.
    ///
    /// # Errors
    ///
    /// [`SaveError`]. The caller tries again as long as it lives: each call starts from the beginning.
    fn save(&mut self, record: &Record) -> impl Future<Output = Result<(), SaveError>> + Send;
}

/// Why a record was not saved. `Display` is the sentence for log and reply, without `MISCONF`.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SaveError {
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
    /// Lock file or folder are no longer the ones that were opened, or another process holds the new ones. Nothing was
    /// written. The store looks again at each save.
    #[error("claim lost: {what}")]
    ClaimLost {
        /// What was found instead, and what helps.
        what: String,
    },
    /// The claim had been lost (folder or lock file deleted and made anew) and has just been taken again. Nothing was
    /// written.
    ///
    /// Another server may have given IDs in between, so the caller must now do what it does at a start with the record
    /// `found` (raise its position past the watermark, and its reference clock; without a record past the borrow
    /// limit), and only then save again. A caller that saves again without that may repeat IDs.
    #[error("the claim was lost and has been taken again; the position must be raised before the next save")]
    ClaimRetaken {
        /// What the folder held when the claim was taken again, in ticks of the configured epoch.
        found: Option<SavePoint>,
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
    /// The temporary file takes the record's name.
    Rename,
    /// The name becomes durable.
    SyncFolder,
}

impl SaveStep {
    /// All steps, in order.
    pub const ALL: [SaveStep; 4] = [SaveStep::Write, SaveStep::SyncFile, SaveStep::Rename, SaveStep::SyncFolder];

    /// What an error calls it, between "cannot" and a path.
    fn action(self) -> &'static str {
        match self {
            SaveStep::Write => "write",
            SaveStep::SyncFile => "sync",
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

impl WatermarkStore for NoStore {
    async fn save(&mut self, _record: &Record) -> Result<(), SaveError> {
        Ok(())
    }
}
