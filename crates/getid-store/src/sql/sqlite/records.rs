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

use rusqlite::{Connection, ErrorCode, OpenFlags, Row as SqliteRow, TransactionBehavior, params};

use super::file::{check_absence, create_empty, file_error, not_writable, store_error};
use crate::records::{self, Key, RecordRow, RecordStoreError, RecordStoreInfo};
use crate::sql::records::{
    COLUMNS, ExpectedRow, KeyRange, RawRecord, RecordConnection, RecordServer, beat_column, writer_column,
};
use crate::sql::{StoreError, StoreFuture};
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
        let info = RecordStoreInfo { product: format!("SQLite {}", rusqlite::version()), warnings: Vec::new() };
        Ok(Box::new(SqliteRecordConnection { info, file: Some(file) }))
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
struct SqliteRecordConnection {
    info: RecordStoreInfo,
    /// The open file; `None` while a statement runs.
    file: Option<RecordFile>,
}

impl SqliteRecordConnection {
    /// Runs `statement` on a blocking thread. If the future is dropped early, the connection has no file afterwards.
    async fn run<T: Send + 'static>(
        &mut self,
        statement: impl FnOnce(&mut RecordFile) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let ended = || StoreError::Unknown("the last statement has not ended".to_owned());
        let mut file = self.file.take().ok_or_else(ended)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = statement(&mut file);
            (file, done)
        });
        let (file, done) = done.await.map_err(|_| ended())?;
        self.file = Some(file);
        done
    }
}

impl RecordConnection for SqliteRecordConnection {
    fn info(&self) -> &RecordStoreInfo {
        &self.info
    }

    fn has_ended(&self) -> bool {
        self.file.is_none()
    }

    fn read(&mut self, key: Key) -> StoreFuture<'_, Option<RawRecord>> {
        Box::pin(self.run(move |file| file.read(&key)))
    }

    fn list(&mut self, range: KeyRange) -> StoreFuture<'_, Vec<RawRecord>> {
        Box::pin(self.run(move |file| file.list(&range)))
    }

    fn write(&mut self, key: Key, expect: ExpectedRow, new: RecordRow) -> StoreFuture<'_, bool> {
        Box::pin(self.run(move |file| file.write(&key, &expect, &new)))
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
        let opened = self.prepare().map_err(|error| self.store_error(&error))?;
        self.open = Some(opened.map_err(StoreError::Refused)?);
        if let Some(id) = id {
            let _ = self.seen.set(id);
        }
        Ok(())
    }

    /// Opens and checks the file, and creates its table; or returns why it cannot be used.
    fn prepare(&self) -> rusqlite::Result<Result<Connection, String>> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let mut sqlite = Connection::open_with_flags(&self.path, flags)?;
        if sqlite.is_readonly("main")? {
            return Ok(Err(not_writable(&self.path, "it can only be read")));
        }
        sqlite.busy_timeout(BUSY)?;
        sqlite.pragma_update(None, "trusted_schema", false)?;
        let path = self.path.display();
        // The check precedes any change of the file.
        if let Err(other) = self.is_new(&sqlite)? {
            return Ok(Err(other));
        }
        let mode: String = sqlite.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        if mode != "wal" {
            return Ok(Err(format!("'{path}' cannot have a log beside it (journal_mode is {mode}): use a local disk")));
        }
        sqlite.pragma_update(None, "synchronous", "FULL")?;
        sqlite.pragma_update(None, "fullfsync", true)?;
        // Other processes see the file without the table, or with the whole table.
        let transaction = sqlite.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let is_new = match self.is_new(&transaction)? {
            Ok(is_new) => is_new,
            Err(other) => return Ok(Err(other)),
        };
        if is_new {
            transaction.execute_batch(SCHEMA)?;
        }
        transaction.commit()?;
        // The log of an earlier life may contain a write that was never synced. If others use the log at this time,
        // they sync it.
        sqlite.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(Ok(sqlite))
    }

    /// Returns true if the file is empty; or the error if it is not getid's.
    fn is_new(&self, sqlite: &Connection) -> rusqlite::Result<Result<bool, String>> {
        let path = self.path.display();
        let number = |name: &str| sqlite.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (application, version) = (number("application_id")?, number("user_version")?);
        let tables: i64 = sqlite.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let is_new = application == 0 && version == 0 && tables == 0;
        if !is_new && application != APPLICATION_ID {
            return Ok(Err(format!("'{path}' is a SQLite file of another program: name another file")));
        }
        if version > VERSION {
            return Ok(Err(format!(
                "'{path}' was written by a newer getid (a table of version {version}, this one supports {VERSION}): \
                 start that one"
            )));
        }
        Ok(Ok(is_new))
    }

    /// Returns the open file; `None` if it does not exist yet.
    fn database(&mut self) -> Result<Option<&mut Connection>, StoreError> {
        if self.open.is_none() {
            self.find()?;
        } else if self.seen.get().copied() != files::id_of(&self.path) {
            return Err(self.replaced_error());
        }
        Ok(self.open.as_mut())
    }

    fn read(&mut self, key: &Key) -> Result<Option<RawRecord>, StoreError> {
        let range = KeyRange { from: key.to_string(), below: format!("{key}~"), after: String::new(), limit: 1 };
        let first = self.list(&range)?.pop();
        Ok(first.filter(|found| found.key == key.as_str()))
    }

    fn list(&mut self, range: &KeyRange) -> Result<Vec<RawRecord>, StoreError> {
        let Some(sqlite) = self.database()? else { return Ok(Vec::new()) };
        let found: rusqlite::Result<Vec<RawRecord>> = (|| {
            let mut statement = sqlite.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM getid_record WHERE record_key >= ?1 AND record_key < ?2 AND record_key > ?3 \
                 ORDER BY record_key LIMIT ?4"
            ))?;
            statement.query_map(params![range.from, range.below, range.after, range.limit], raw)?.collect()
        })();
        found.map_err(|error| self.store_error(&error))
    }

    fn write(&mut self, key: &Key, expect: &ExpectedRow, new: &RecordRow) -> Result<bool, StoreError> {
        if self.database()?.is_none() {
            if matches!(expect, ExpectedRow::Exists { .. }) {
                return Ok(false);
            }
            self.create_file()?;
        }
        let Some(sqlite) = self.database()? else { return Err(self.replaced_error()) };
        let (writer, beat) = (writer_column(new.stamp), beat_column(new.stamp));
        let (key, now) = (key.as_str(), "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')");
        let written = match expect {
            ExpectedRow::Exists { writer: was, beat: was_beat } => sqlite.execute(
                &format!(
                    "UPDATE getid_record SET writer = ?2, beat = ?3, text = ?4, written_at = {now} \
                     WHERE record_key = ?1 AND writer = ?5 AND beat = ?6"
                ),
                params![key, writer, beat, new.text, was, was_beat],
            ),
            ExpectedRow::Absent => sqlite.execute(
                &format!(
                    "INSERT INTO getid_record ({COLUMNS}, written_at) VALUES (?1, ?2, ?3, ?4, {now}) \
                     ON CONFLICT (record_key) DO NOTHING"
                ),
                params![key, writer, beat, new.text],
            ),
        };
        written.map(|rows| rows == 1).map_err(|error| self.store_error(&error))
    }

    fn store_error(&self, error: &rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Refused(format!(
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

/// Parses a row in the order of [`COLUMNS`]. SQLite permits texts that are not UTF-8: such a text must not hide other
/// rows.
fn raw(row: &SqliteRow<'_>) -> rusqlite::Result<RawRecord> {
    let text =
        |at| -> rusqlite::Result<String> { Ok(String::from_utf8_lossy(row.get_ref(at)?.as_bytes()?).into_owned()) };
    Ok(RawRecord { key: text(0)?, writer: text(1)?, beat: row.get(2)?, text: text(3)? })
}
