//! The record as a file in a folder.

use std::io;
use std::path::{Path, PathBuf};

use super::{Identity, Mismatch, Record, RecordError, SaveError, WatermarkStore};

/// The record of one server in a folder, and the claim to it.
#[derive(Debug)]
pub struct FileStore {}

impl FileStore {
    /// Takes the claim to `identity`'s record in `dir`, and reads it.
    ///
    /// The record comes back in terms of `identity`: carried over to its epoch and layout. Blocks; for the start only.
    ///
    /// # Errors
    ///
    /// [`OpenError`], whose text names path, cause and remedy.
    pub fn open(dir: &Path, identity: Identity) -> Result<(FileStore, Option<Record>), OpenError> {
        let _ = identity;
        Err(OpenError::Folder { path: dir.to_owned(), source: io::ErrorKind::Unsupported.into() })
    }
}

impl WatermarkStore for FileStore {
    async fn save(&mut self, _record: &Record) -> Result<(), SaveError> {
        Ok(())
    }
}

/// Why a server must not start on what it found.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be used.
    #[error("cannot use the folder {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process holds the claim.
    #[error("server-id {server_id} in {} is held by {holder}", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The server-id.
        server_id: u32,
        /// The other process, as "pid 123".
        holder: String,
    },
    /// The record does not read.
    #[error("{} is damaged: {source}", path.display())]
    Damaged {
        /// The record's file.
        path: PathBuf,
        /// What is wrong.
        source: RecordError,
    },
    /// The record is not for this configuration.
    #[error("{} does not fit: {source}", path.display())]
    Mismatch {
        /// The record's file.
        path: PathBuf,
        /// What differs.
        source: Mismatch,
    },
}
