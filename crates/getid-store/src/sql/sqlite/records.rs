//! Records that servers of one machine share, in a separate SQLite file beside that of sequences.
//!
//! The file is not locked permanently: each statement is a transaction that waits for others to end theirs. A write is
//! in the log (WAL) on disk before the answer. The first write creates the file.
//!
//! Invariant: once this process has opened a file, another one in its place is refused until the process ends.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use super::file::{FileError, check_absence, create_empty, file_error, is_new, open_sqlite, start_log, store_error};
use super::statements;
use crate::records::{self, RecordStoreError};
use crate::sql::packet::{Dialect, Failure, Link, LinkState, RecordDialect, SentPacket, StatementResult};
use crate::sql::records::{RecordConnection, RecordServer, SqlRecordConnection};
use crate::sql::{StoreError, StoreInfo};
use getid_system::files::{self, FileId};

/// SQL of the table.
const SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS getid_record (
  record_key TEXT    NOT NULL PRIMARY KEY CHECK (record_key <> ''),
  writer     TEXT    NOT NULL CHECK (length(writer) = 32 AND writer NOT GLOB '*[^0-9a-f]*'),
  beat       INTEGER NOT NULL CHECK (beat > 0),
  text       TEXT    NOT NULL,
  written_at TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA application_id = 1734702194;
PRAGMA user_version = 1;
";

/// Application id `getr` in the file's header, which distinguishes getid's files from other SQLite files.
const APPLICATION_ID: i64 = 0x6765_7472;

/// Version of the table.
const VERSION: i64 = 1;

/// Longest wait of a statement for those of others.
const BUSY: Duration = Duration::from_secs(1);

/// A file with records.
pub(in crate::sql) struct SqliteRecords {
    path: PathBuf,
    shown: String,
    seen: Arc<OnceLock<FileId>>,
}

impl SqliteRecords {
    /// Creates the store without opening a file. The records of `sqlite:PATH` are in `PATH.records`: PATH itself
    /// belongs to sequences, and is locked.
    pub(in crate::sql) fn new(path: Option<&Path>, dir: &Path) -> SqliteRecords {
        let path = match path {
            Some(path) => {
                let mut name: OsString = dir.join(path).into();
                name.push(".records");
                name.into()
            }
            None => dir.join("records.sqlite"),
        };
        SqliteRecords { shown: format!("sqlite:{}", path.display()), path, seen: Arc::default() }
    }

    async fn open(&self) -> Result<Box<dyn RecordConnection>, RecordStoreError> {
        let (path, seen) = (self.path.clone(), Arc::clone(&self.seen));
        let opened = tokio::task::spawn_blocking(move || RecordFile::open(&path, seen)).await;
        let file = opened
            .map_err(|_| RecordStoreError::Away("the runtime ends".to_owned()))?
            .map_err(|error| RecordStoreError::Refused(error.to_string()))?;
        let info = StoreInfo { product: format!("SQLite {}", rusqlite::version()), ..StoreInfo::default() };
        Ok(Box::new(SqlRecordConnection::new(RecordLink { info, state: LinkState::Free, file: Some(file) })))
    }
}

impl RecordServer for SqliteRecords {
    fn shown(&self) -> &str {
        &self.shown
    }

    fn schema(&self) -> &'static str {
        SCHEMA
    }

    /// Returns 1: several connections would wait for each other.
    fn connections_max(&self) -> usize {
        1
    }

    fn connect(&self) -> records::RecordFuture<'_, Box<dyn RecordConnection>> {
        Box::pin(self.open())
    }
}

/// An open file.
struct RecordLink {
    info: StoreInfo,
    state: LinkState,
    /// The open file; `None` while a packet runs, or if the future of a packet was dropped.
    file: Option<RecordFile>,
}

impl Dialect for RecordLink {
    const IS_SHARED: bool = true;
    const BEGIN: &'static [&'static str] = statements::BEGIN;
    const NOW: &'static str = "0";

    fn text(text: &str) -> String {
        statements::text(text)
    }

    fn maximum_sql(_table: &str, _id: i64) -> Option<String> {
        None
    }
}

impl RecordDialect for RecordLink {
    const WRITTEN_AT: &'static str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";
}

impl Link for RecordLink {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn has_ended(&self) -> bool {
        self.state == LinkState::Busy
    }

    fn state(&mut self) -> &mut LinkState {
        &mut self.state
    }

    /// Runs the packet on a blocking thread.
    async fn send(&mut self, packet: SentPacket) -> Result<Vec<StatementResult>, Failure> {
        let ended = || StoreError::Unknown("the last statement has not ended".to_owned());
        let mut file = self.file.take().ok_or_else(ended)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = file.run(&packet);
            (file, done)
        });
        let (file, done) = done.await.map_err(|_| ended())?;
        self.file = Some(file);
        Ok(done?)
    }
}

/// The path of a file, and the file if it exists; every call blocks.
struct RecordFile {
    path: PathBuf,
    seen: Arc<OnceLock<FileId>>,
    open: Option<Connection>,
}

impl RecordFile {
    fn open(path: &Path, seen: Arc<OnceLock<FileId>>) -> Result<RecordFile, StoreError> {
        let path = files::resolve_links(path).map_err(|error| file_error(path, "opened", &error))?;
        let mut file = RecordFile { path, seen, open: None };
        file.find()?;
        Ok(file)
    }

    /// Opens the file if it exists. Another server may have created it meanwhile.
    fn find(&mut self) -> Result<(), StoreError> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(_) => self.open_existing(),
            Err(error) if error.kind() == ErrorKind::NotFound => self.check_absence(),
            Err(error) => Err(file_error(&self.path, "opened", &error)),
        }
    }

    fn check_absence(&self) -> Result<(), StoreError> {
        check_absence(&self.path, &self.seen, || self.replaced_error())
    }

    fn replaced_error(&self) -> StoreError {
        StoreError::Refused(format!(
            "'{}' was removed or replaced while this process had it open: an older copy is out of date. Put the file \
             back, or restart",
            self.path.display()
        ))
    }

    fn create_file(&mut self) -> Result<(), StoreError> {
        self.check_absence()?;
        create_empty(&self.path)?;
        self.open_existing()
    }

    fn open_existing(&mut self) -> Result<(), StoreError> {
        let id = files::id_of(&self.path);
        if self.seen.get().is_some_and(|seen| Some(*seen) != id) {
            return Err(self.replaced_error());
        }
        let opened = self.prepare().map_err(|error| match error {
            FileError::Sqlite(error) => self.store_error(&error),
            error => error.of_file(&self.path),
        });
        self.open = Some(opened?);
        if let Some(id) = id {
            let _ = self.seen.set(id);
        }
        Ok(())
    }

    /// Opens and checks the file, and creates its table.
    fn prepare(&self) -> Result<Connection, FileError> {
        let mut sqlite = open_sqlite(&self.path, BUSY)?;
        // The check precedes any change of the file.
        let is_new = |sqlite: &Connection| is_new(sqlite, APPLICATION_ID, "a table", VERSION);
        is_new(&sqlite)?;
        start_log(&sqlite)?;
        // Other processes see the file without the table, or with the whole table.
        let transaction = sqlite.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if is_new(&transaction)? {
            transaction.execute_batch(SCHEMA)?;
        }
        transaction.commit()?;
        // The log of an earlier life may contain a write that was never synced. If others use the log at this time,
        // they sync it.
        sqlite.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(sqlite)
    }

    /// Runs a packet. A missing file is created if the packet creates it; else it answers no rows.
    fn run(&mut self, packet: &SentPacket) -> Result<Vec<StatementResult>, StoreError> {
        if self.open.is_none() && statements::is_rollback(packet) {
            // The transaction that it ends has not begun: finding the file was refused.
            return Ok(statements::nothing(packet));
        }
        if self.open.is_none() {
            self.find()?;
        }
        if self.open.is_none() && packet.creates {
            self.create_file()?;
        }
        let Some(sqlite) = self.open.as_ref().filter(|sqlite| !statements::is_void(sqlite, packet)) else {
            return Ok(statements::nothing(packet));
        };
        // A transaction that is open belongs to the file that was checked at its begin.
        if sqlite.is_autocommit() && self.seen.get().copied() != files::id_of(&self.path) {
            return Err(self.replaced_error());
        }
        statements::run(sqlite, packet).map_err(|error| self.store_error(&error))
    }

    fn store_error(&self, error: &rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(format!(
                "'{}' is locked by another process for over {} s: see which one has it open",
                self.path.display(),
                BUSY.as_secs()
            )),
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Refused(format!(
                "'{}' is damaged ({error}): put a copy back, and see what was written since",
                self.path.display()
            )),
            _ => store_error(&self.path, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::packet::Packet;

    #[tokio::test]
    async fn a_file_that_cannot_be_found_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.sqlite");
        let file = RecordFile::open(&path, Arc::default()).unwrap();
        let mut link = RecordLink { info: StoreInfo::default(), state: LinkState::Free, file: Some(file) };
        // A file of another program has appeared in its place.
        std::fs::write(&path, "of another program").unwrap();
        let mut packet = Packet::transaction();
        packet.add("SELECT 1");
        let failure = link.run(packet).await.unwrap_err();
        assert!(matches!(failure.error, StoreError::Refused(_)), "{failure:?}");
        assert_eq!(link.state, LinkState::Free);
    }
}
