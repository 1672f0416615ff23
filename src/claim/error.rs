//! Why a claim could not be taken, and why a save failed: values that become one sentence, with path, cause and remedy.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use getid_core::SavePoint;

use super::declarations::Declarations;
use super::envelope::{RecordError, Term};
use super::record::Mismatch;
use crate::system::ownership;

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
    /// The claim store did not take it, or nobody knows whether it did.
    #[error("{text}")]
    Store {
        /// Which store, what it said, and what helps.
        text: String,
    },
    /// Another server has the claim, or nobody has it yet. Nothing was written. This one waits for it, and asks again
    /// at each save.
    #[error("{what}")]
    Standby {
        /// Who has it, as in "standby for server-id 3: held by host-a ...".
        what: String,
    },
    /// Lock file or folder are no longer the ones that were opened, another process holds the new ones, or the record
    /// there is another process's. Nothing was written. The store looks again at each save.
    #[error("claim lost: {what}")]
    ClaimLost {
        /// What was found instead, and what helps.
        what: String,
    },
    /// The claim had been lost (folder or lock file deleted and created again) and has been taken again. Nothing was
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
        /// The caller's declarations, and those that were found and that it did not know.
        declarations: Arc<Declarations>,
        /// The new life.
        term: Term,
        /// What was found was written while this server looked on, as a standby of a claim store: no other one gives
        /// IDs past it.
        is_watched: bool,
    },
}

/// Why a server must not start on what it found. `Display` is one sentence with path, cause and remedy.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The folder cannot be opened.
    #[error("cannot open the folder {}: {source}; {}", path.display(), folder_remedy(path, source))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The thread that saves cannot be started.
    #[error(
        "cannot start a thread to save to {}: {source}; raise the limit of processes (ulimit -u, TasksMax=)",
        path.display()
    )]
    Thread {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The claim store, or what is in it, is not for this server.
    #[error("{why}")]
    Store {
        /// What was found, where, and the remedy.
        why: String,
    },
    /// A file in the folder cannot be used.
    #[error("cannot {action} {}: {source}; {}", path.display(), file_remedy(path, source))]
    Io {
        /// What failed, as in "cannot lock ...".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process holds the claim.
    #[error(
        "{whose} is in use: {} is locked by {holder}; stop that process, or set another server-id or dir",
        path.display()
    )]
    Held {
        /// The lock file.
        path: PathBuf,
        /// What it is the lock of, such as "server-id 0".
        whose: String,
        /// The other process, as "pid 123".
        holder: String,
    },
    /// The record does not read: damaged, or of a newer format.
    #[error("cannot use the record {}: {source}; to go on, {remedy}", path.display())]
    Record {
        /// The record's file.
        path: PathBuf,
        /// What is wrong.
        source: RecordError,
        /// What to run.
        remedy: String,
    },
    /// The record is not for this configuration.
    #[error("cannot use the record {}: {source}; to go on, {remedy}", path.display())]
    Mismatch {
        /// The record's file.
        path: PathBuf,
        /// What differs.
        source: Mismatch,
        /// What to set or run.
        remedy: String,
    },
}

fn folder_remedy(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "make it, or name another with dir".to_owned(),
        io::ErrorKind::NotADirectory => "dir must name a folder".to_owned(),
        _ => {
            ownership::remedy(path, error).unwrap_or_else(|| "getid must be able to read and write it (dir)".to_owned())
        }
    }
}

fn file_remedy(path: &Path, error: &io::Error) -> String {
    ownership::remedy(path, error).unwrap_or_else(|| "getid must be able to write to its folder (dir)".to_owned())
}
