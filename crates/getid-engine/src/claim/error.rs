//! Errors of taking and saving a claim: values that become one sentence, with path, cause and remedy.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use getid_core::SavePoint;

use super::declarations::Declarations;
use super::envelope::{RecordError, Term};
use super::record::Mismatch;
use getid_system::ownership;

/// Reason why a record was not saved. `Display` is the sentence for log and reply, without `MISCONF`.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SaveError<P = SavePoint> {
    /// An I/O error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// Failed action, as in "cannot write ...".
        action: &'static str,
        /// File or folder of the action.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: Arc<io::Error>,
    },
    /// The claim store did not save the record, or the result is unknown.
    #[error("{text}")]
    Store {
        /// The store, its error and the remedy.
        text: String,
    },
    /// Another server holds the claim, or it is still free. Nothing was written. This server waits for it, and tries
    /// again at each save.
    #[error("{what}")]
    Standby {
        /// Holder of the claim, as in "standby for server-id 3: held by host-a ...".
        what: String,
    },
    /// The lock file or the folder is no longer the opened one, another process holds the new one, or another process
    /// wrote the record. Nothing was written. The folder is checked again at each save.
    #[error("claim lost: {what}")]
    ClaimLost {
        /// The state that was found, and the remedy.
        what: String,
    },
    /// The claim was lost (folder or lock file deleted and created again) and has been taken again. Nothing was
    /// written.
    ///
    /// Another server may have given IDs in between. So the caller first does what it does at a start with the record
    /// `found`: it raises its position past the watermark, and its reference clock. Without a record it raises its
    /// position past the borrow limit. Then it saves with the new term. A save with the old term returns this error
    /// again.
    #[error("the claim was lost and has been taken again; the position must be raised before the next save")]
    ClaimRetaken {
        /// Latest point found in the folder since the caller last got this error, in ticks of the configured epoch.
        found: Option<P>,
        /// Declarations of the caller, with those that were found and new to it.
        declarations: Arc<Declarations>,
        /// Term of the new life.
        term: Term,
        /// Whether this server, as a standby of a claim store, watched the writing of `found`. If so, no other server
        /// gives IDs past it.
        is_watched: bool,
    },
}

/// Reason why a server must not start. `Display` is one sentence with path, cause and remedy.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The folder cannot be opened.
    #[error("cannot open the folder {}: {source}; {}", path.display(), folder_remedy(path, source))]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The thread that saves cannot be started.
    #[error(
        "cannot start a thread to save to {}: {source}; raise the limit of processes (ulimit -u, TasksMax=)",
        path.display()
    )]
    Thread {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The claim store or its content does not fit this server.
    #[error("{why}")]
    Store {
        /// Problem, place and remedy.
        why: String,
    },
    /// A file in the folder cannot be used.
    #[error("cannot {action} {}: {source}; {}", path.display(), file_remedy(path, source))]
    Io {
        /// Failed action, as in "cannot lock ...".
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another process holds the claim.
    #[error(
        "{subject} is in use: {} is locked by {holder}; stop that process, or set another server-id or dir",
        path.display()
    )]
    Held {
        /// Path of the lock file.
        path: PathBuf,
        /// Name of what is locked, such as "server-id 0".
        subject: String,
        /// The other process, such as "pid 123".
        holder: String,
    },
    /// The record cannot be parsed: it is damaged, or of another format version.
    #[error("cannot use the record {}: {source}; to continue, {remedy}", path.display())]
    Record {
        /// Path of the record's file.
        path: PathBuf,
        /// Error in the text.
        source: RecordError,
        /// Command that repairs it.
        remedy: String,
    },
    /// The record does not fit this configuration.
    #[error("cannot use the record {}: {source}; to continue, {remedy}", path.display())]
    Mismatch {
        /// Path of the record's file.
        path: PathBuf,
        /// The difference.
        source: Mismatch,
        /// Directive to set or command to run.
        remedy: String,
    },
}

fn folder_remedy(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "create it, or set another one with dir".to_owned(),
        io::ErrorKind::NotADirectory => "dir must name a folder".to_owned(),
        _ => {
            ownership::remedy(path, error).unwrap_or_else(|| "getid must be able to read and write it (dir)".to_owned())
        }
    }
}

fn file_remedy(path: &Path, error: &io::Error) -> String {
    ownership::remedy(path, error).unwrap_or_else(|| "getid must be able to write to its folder (dir)".to_owned())
}
