//! An open SQLite file and its operations; every call blocks.
//!
//! - **Created at the first need.** A read of a missing file finds no rows; an operation that creates a row creates the
//!   file.
//! - **Locked** while it is open, so that no other process reserves from it.
//! - **Durable.** A commit is in the log (WAL) on disk when it returns. An opened file begins with an empty log. The
//!   log of an earlier life is moved into the file first, and synced again, in case its sync failed.
//! - **Identified.** After a file was opened, another file in its place is refused until the process ends: it may be
//!   older.
//!
//! An error of SQLite itself (disk full, locked, damaged) has rolled the transaction back. After an I/O error the state
//! on disk is unknown.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use getid_core::server::Key;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};

use super::super::native::{self, COLUMNS, RawRow, SCHEMA_VERSION, column};
use super::super::{
    BACKUP_TIME_MAX, BegunPeriod, Changes, CreateRequest, Generator, GiveBackRequest, OpenPeriodRequest, PruneRequest,
    PruneResult, Reservation, ReserveRequest, RowChange, RowPage, RowState, SequenceRow, StoreError, StoreInfo,
    TOKENS_MAX, Token, Verdict,
};
use super::rows::{self, APPLICATION_ID, SCHEMA, SqliteResult, find, insert, raw, reserve, write_all, write_next};
use getid_system::clock::wall_unix_ms;
use getid_system::files::{self, FileId};

/// Longest wait of an open for a lock: an earlier connection of this process may be about to close.
const BUSY: Duration = Duration::from_secs(1);

/// Bytes of the log that are kept when it restarts.
const LOG_BYTES: i64 = 4 * 1024 * 1024;

/// Most rows of one answer.
const ROWS_MAX: u32 = 1000;

/// Age in ms above which an unclean end causes a warning: a backup may have been restored.
const LONG_AGO_MS: i64 = 60 * 60 * 1000;

/// Most sequences that such a warning names.
const NAMED_MAX: usize = 5;

/// The path of a file, and the file if it exists.
pub(super) struct SequenceFile {
    path: PathBuf,
    seen: Arc<OnceLock<FileId>>,
    open: Option<Database>,
}

/// An open file.
struct Database {
    sqlite: Connection,
    /// Number of rows that [`SequenceFile::count`] returns, once it was called.
    rows: Option<u64>,
}

/// Checks that the file may be absent: none was `seen` before, else the error is `replaced`; and that one can be
/// created.
pub(super) fn check_absence(
    path: &Path,
    seen: &OnceLock<FileId>,
    replaced: impl FnOnce() -> StoreError,
) -> Result<(), StoreError> {
    match seen.get() {
        Some(_) => Err(replaced()),
        None => check_creatable(path),
    }
}

/// Checks that an absent file can be created: its log is gone too, and the folder is writable.
fn check_creatable(path: &Path) -> Result<(), StoreError> {
    let log = sibling_path(path, "-wal");
    if std::fs::metadata(&log).is_ok_and(|found| found.len() > 0) {
        return Err(StoreError::Refused(format!(
            "'{}' is missing, and its log '{}' is there: put the file back that it belongs to",
            path.display(),
            log.display()
        )));
    }
    files::check_create(path, None).map_err(|error| file_error(path, "created", &error))
}

/// Creates a file for this user alone, unless it exists by now.
pub(super) fn create_empty(path: &Path) -> Result<(), StoreError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made.and_then(|_| sync_folder(path)) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(file_error(path, "created", &error)),
        _ => Ok(()),
    }
}

impl SequenceFile {
    /// Opens the file if it exists.
    pub(super) fn open(path: &Path, seen: Arc<OnceLock<FileId>>) -> Result<(SequenceFile, StoreInfo), StoreError> {
        let path = files::resolve_links(path).map_err(|error| file_error(path, "opened", &error))?;
        let mut file = SequenceFile { path, seen, open: None };
        let product = format!("SQLite {}", rusqlite::version());
        let mut info = StoreInfo { product, unix_ms: wall_unix_ms(), ..StoreInfo::default() };
        match std::fs::symlink_metadata(&file.path) {
            Ok(_) => file.open_existing(&mut info)?,
            Err(error) if error.kind() == ErrorKind::NotFound => file.check_absence()?,
            Err(error) => return Err(file_error(&file.path, "opened", &error)),
        }
        Ok((file, info))
    }

    /// Closes the file: its log is moved into it and removed.
    pub(super) fn close(self) {
        if let Some(database) = self.open {
            // The next open repeats what fails here.
            let _ = database.sqlite.close();
        }
    }

    fn check_absence(&self) -> Result<(), StoreError> {
        check_absence(&self.path, &self.seen, || self.replaced_error())
    }

    fn replaced_error(&self) -> StoreError {
        StoreError::Refused(format!(
            "'{}' was removed or replaced while this process had it open: an older copy would repeat values. Put the \
             file back, or restart and check the position of each sequence with `SEQUENCE LIST`",
            self.path.display()
        ))
    }

    /// Creates a file for rows that are about to be created.
    fn create_file(&mut self) -> Result<(), StoreError> {
        self.check_absence()?;
        // A file that another process has just created is opened, and so is locked or refused.
        create_empty(&self.path)?;
        self.open_existing(&mut StoreInfo::default())
    }

    fn open_existing(&mut self, info: &mut StoreInfo) -> Result<(), StoreError> {
        let id = files::id_of(&self.path);
        if self.seen.get().is_some_and(|seen| Some(*seen) != id) {
            return Err(self.replaced_error());
        }
        let found = std::fs::metadata(&self.path).map_err(|error| file_error(&self.path, "opened", &error))?;
        if !found.is_file() {
            return Err(file_error(&self.path, "opened", &io::Error::other("it is not a regular file")));
        }
        let unclean_ms = unclean_since(&self.path);
        let opened = self.prepare().map_err(|error| self.store_error(&error))?;
        let sqlite = opened.map_err(StoreError::Refused)?;
        if let Some(id) = id {
            let _ = self.seen.set(id);
        }
        self.open = Some(Database { sqlite, rows: None });
        self.fill_info(info, unclean_ms)
    }

    /// Opens, locks and checks the file, and creates its tables; or returns why it cannot be used.
    fn prepare(&self) -> SqliteResult<Result<Connection, String>> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let mut sqlite = Connection::open_with_flags(&self.path, flags)?;
        // SQLite opens a file read-only if it may not write to it.
        if sqlite.is_readonly("main")? {
            return Ok(Err(not_writable(&self.path, "it can only be read")));
        }
        sqlite.busy_timeout(BUSY)?;
        sqlite.pragma_update(None, "trusted_schema", false)?;
        // Set before the first read of the file, which takes the lock then. The log's index stays in memory.
        sqlite.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
        let number =
            |sqlite: &Connection, name: &str| sqlite.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let path = self.path.display();
        let (application, version) = (number(&sqlite, "application_id")?, number(&sqlite, "user_version")?);
        let tables = "SELECT count(*) FROM sqlite_schema";
        let is_new = application == 0 && version == 0 && sqlite.query_row(tables, [], |row| row.get::<_, i64>(0))? == 0;
        if !is_new && application != APPLICATION_ID {
            return Ok(Err(format!("'{path}' is a SQLite file of another program: name another file")));
        }
        if version > SCHEMA_VERSION {
            return Ok(Err(format!(
                "'{path}' was written by a newer getid (tables of version {version}, this one supports \
                 {SCHEMA_VERSION}): start that one"
            )));
        }
        let mode: String = sqlite.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        if mode != "wal" {
            return Ok(Err(format!("'{path}' cannot have a log beside it (journal_mode is {mode}): use a local disk")));
        }
        sqlite.pragma_update(None, "synchronous", "FULL")?;
        sqlite.pragma_update(None, "fullfsync", true)?;
        sqlite.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))?;
        // The log may contain a write that was never synced; this checkpoint syncs it.
        sqlite.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        let transaction = sqlite.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if is_new {
            transaction.execute_batch(SCHEMA)?;
        }
        transaction.execute_batch(rows::GENERATORS)?;
        transaction.commit()?;
        Ok(Ok(sqlite))
    }

    /// Returns the store's id; `None` if the file does not exist yet, or cannot be read.
    pub(super) fn uuid(&mut self) -> Option<String> {
        self.open.as_ref()?;
        let select = "SELECT uuid FROM getid_store WHERE id = 1";
        self.transact(|sqlite, _| sqlite.query_row(select, [], |row| row.get(0))).ok()
    }

    /// Reports what was found, and warns if the file may be an old one.
    fn fill_info(&mut self, info: &mut StoreInfo, unclean_ms: Option<i64>) -> Result<(), StoreError> {
        let inode = std::fs::metadata(&self.path).map_or(0, |found| std::os::unix::fs::MetadataExt::ino(&found));
        let inode = inode.cast_signed();
        let path = self.path.display().to_string();
        let (uuid, noted) = self.transact(|sqlite, _| {
            let (uuid, noted) = sqlite.query_row("SELECT uuid, inode FROM getid_store WHERE id = 1", [], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
            })?;
            if noted != inode {
                sqlite.execute("UPDATE getid_store SET inode = ?1 WHERE id = 1", [inode])?;
            }
            Ok((uuid, noted))
        })?;
        info.uuid = uuid;
        let is_copy = noted != 0 && noted != inode;
        let old_ms = unclean_ms.map(|then| info.unix_ms - then).filter(|ago| *ago > LONG_AGO_MS);
        if !is_copy && old_ms.is_none() {
            return Ok(());
        }
        let found = match old_ms {
            Some(ago) if !is_copy => {
                format!("'{path}' was not closed by its last process, {} hours ago", ago / (60 * 60 * 1000))
            }
            _ => format!("'{path}' is a copy, or was put back"),
        };
        // Reading a row that cannot be parsed reports it.
        let rows = self.list("", ROWS_MAX, false).unwrap_or_default().rows;
        let mut at: Vec<String> =
            rows.iter().take(NAMED_MAX).map(|row| format!("'{}' is at {}", row.key, native::last_of(row))).collect();
        if rows.len() > at.len() {
            at.push("`SEQUENCE LIST` shows the others".to_owned());
        }
        if !at.is_empty() {
            info.warnings.push(format!(
                "{found}: if values were given since it was written, they would be given again. Compare, and RAISE \
                 what is behind: {}",
                at.join(", ")
            ));
        }
        Ok(())
    }

    /// Runs `work` in one transaction: all of it, or nothing.
    ///
    /// A transaction that has written nothing costs no sync.
    fn transact<T>(&mut self, work: impl FnOnce(&Transaction<'_>, i64) -> SqliteResult<T>) -> Result<T, StoreError> {
        if self.seen.get().copied() != files::id_of(&self.path) {
            return Err(self.replaced_error());
        }
        let Some(database) = &mut self.open else {
            return Err(StoreError::Refused(format!("'{}' is not open", self.path.display())));
        };
        let done = database.sqlite.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|transaction| {
            let done = work(&transaction, wall_unix_ms())?;
            transaction.commit()?;
            Ok(done)
        });
        let is_over = database.sqlite.is_autocommit();
        done.map_err(|error| {
            database.rows = None;
            match store_error(&self.path, &error) {
                StoreError::Refused(text) if !is_over => StoreError::Unknown(text),
                error => error,
            }
        })
    }

    fn store_error(&self, error: &rusqlite::Error) -> StoreError {
        store_error(&self.path, error)
    }

    pub(super) fn reserve(&mut self, asks: &[ReserveRequest]) -> Result<Vec<Result<Reservation, Verdict>>, StoreError> {
        if self.open.is_none() {
            return Ok(asks.iter().map(|_| Err(Verdict::NoSuch)).collect());
        }
        self.transact(|sqlite, now| asks.iter().map(|ask| reserve(sqlite, ask, now)).collect())
    }

    pub(super) fn give_back(&mut self, ends: &[GiveBackRequest]) -> Result<Vec<bool>, StoreError> {
        if self.open.is_none() {
            return Ok(vec![false; ends.len()]);
        }
        self.transact(|sqlite, now| {
            let give_back = |end: &GiveBackRequest| {
                let Some(Ok(row)) = find(sqlite, &end.key)? else { return Ok(false) };
                let Some(after) = native::apply_give_back(&row, end, now) else { return Ok(false) };
                write_next(sqlite, &after)?;
                Ok(true)
            };
            ends.iter().map(give_back).collect()
        })
    }

    pub(super) fn create_all(
        &mut self,
        new: &[CreateRequest],
    ) -> Result<Vec<Result<SequenceRow, Verdict>>, StoreError> {
        if self.open.is_none() {
            self.create_file()?;
        }
        let counts = |new: &CreateRequest| u64::from(new.key.period().is_empty());
        let is_limited = new.iter().any(|new| counts(new) > 0 && new.rows_max > 0);
        let before = if is_limited { self.count()? } else { 0 };
        let created = self.transact(|sqlite, now| {
            let mut there = before;
            let mut create_one = |new: &CreateRequest| {
                let found = match find(sqlite, &new.key)? {
                    Some(Err(bad)) => return Ok(Err(Verdict::BadRow(bad))),
                    Some(Ok(row)) => Some(row),
                    None => None,
                };
                let row = match native::apply_creation(found.as_ref(), new, there, now) {
                    Err(verdict) => return Ok(Err(verdict)),
                    Ok(row) => row,
                };
                if found.is_none() {
                    insert(sqlite, &row)?;
                }
                write_all(sqlite, &row)?;
                there += counts(new);
                Ok(Ok(row))
            };
            new.iter().map(&mut create_one).collect::<SqliteResult<Vec<_>>>()
        })?;
        let made = created.iter().zip(new).filter(|(made, _)| made.is_ok());
        self.adjust_count(made.map(|(_, new)| i64::try_from(counts(new)).unwrap_or(0)).sum());
        Ok(created)
    }

    pub(super) fn change(&mut self, key: &Key, change: &RowChange) -> Result<Result<SequenceRow, Verdict>, StoreError> {
        if self.open.is_none() {
            return Ok(Err(Verdict::NoSuch));
        }
        let changed = self.transact(|sqlite, now| {
            let row = match find(sqlite, key)? {
                None => return Ok(Err(Verdict::NoSuch)),
                Some(Err(bad)) => return Ok(Err(Verdict::BadRow(bad))),
                Some(Ok(row)) => row,
            };
            let after = native::apply_change(&row, change, now);
            if let Ok(row) = &after {
                write_all(sqlite, row)?;
            }
            Ok(after)
        })?;
        if key.period().is_empty() && changed.as_ref().is_ok_and(|row| row.state == RowState::Dropped) {
            self.adjust_count(-1);
        }
        Ok(changed)
    }

    pub(super) fn row(&mut self, key: &Key) -> Result<Option<SequenceRow>, StoreError> {
        if self.open.is_none() {
            return Ok(None);
        }
        let found = self.transact(|sqlite, _| find(sqlite, key))?;
        found.transpose().map_err(StoreError::Refused)
    }

    pub(super) fn list(&mut self, after: &str, limit: u32, periods: bool) -> Result<RowPage, StoreError> {
        if self.open.is_none() {
            return Ok(RowPage::default());
        }
        let (name, period) = RowPage::cursor(after);
        let limit = limit.min(ROWS_MAX);
        let rows: Vec<RawRow> = self.transact(|sqlite, _| {
            let mut statement = sqlite.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM getid_sequence WHERE (name, period) > (?1, ?2) AND state <> 'dropped' \
                 AND (?3 OR period = '') ORDER BY name, period LIMIT ?4"
            ))?;
            statement.query_map(params![name, period, periods, limit], raw)?.collect()
        })?;
        Ok(native::page_of(limit, rows))
    }

    pub(super) fn count(&mut self) -> Result<u64, StoreError> {
        let Some(database) = &self.open else { return Ok(0) };
        if let Some(rows) = database.rows {
            return Ok(rows);
        }
        let rows = self.transact(|sqlite, _| {
            let count = "SELECT count(*) FROM getid_sequence WHERE period = '' AND state <> 'dropped'";
            sqlite.query_row(count, [], |row| row.get::<_, i64>(0))
        })?;
        let rows = rows.unsigned_abs();
        if let Some(database) = &mut self.open {
            database.rows = Some(rows);
        }
        Ok(rows)
    }

    /// Updates the count, which would take long with a million rows. No other process writes to the file.
    fn adjust_count(&mut self, more: i64) {
        if let Some(rows) = self.open.as_mut().and_then(|database| database.rows.as_mut()) {
            *rows = rows.saturating_add_signed(more);
        }
    }

    pub(super) fn changes(&mut self, seen: Option<u64>) -> Result<Changes, StoreError> {
        if self.open.is_none() {
            return Ok(Changes::default());
        }
        self.transact(|sqlite, _| {
            let upto: i64 = sqlite.query_row("SELECT changes FROM getid_store WHERE id = 1", [], |row| row.get(0))?;
            let mut changes = Changes { upto: upto.unsigned_abs(), rows: Vec::new() };
            let Some(seen) = seen else { return Ok(changes) };
            let mut statement = sqlite.prepare_cached(
                "SELECT name, period, generation, changed FROM getid_sequence WHERE changed > ?1 \
                 ORDER BY changed LIMIT ?2",
            )?;
            let mut rows = statement.query(params![column(seen), ROWS_MAX])?;
            let (mut read, mut last) = (0, 0);
            while let Some(row) = rows.next()? {
                let (name, period): (String, String) = (row.get(0)?, row.get(1)?);
                let generation: i64 = row.get(2)?;
                (read, last) = (read + 1, row.get::<_, i64>(3)?);
                let key = if period.is_empty() { Key::new(&name) } else { Key::of_period(&name, &period) };
                changes.rows.extend(key.map(|key| (key, generation.unsigned_abs())));
            }
            if read == ROWS_MAX {
                changes.upto = last.unsigned_abs();
            }
            Ok(changes)
        })
    }

    pub(super) fn generators(&mut self, names: Option<&[String]>) -> Result<Vec<Generator>, StoreError> {
        if self.open.is_none() {
            return Ok(Vec::new());
        }
        self.transact(|sqlite, _| match names {
            None => rows::generators(sqlite),
            Some(names) => names.iter().filter_map(|name| rows::generator(sqlite, name).transpose()).collect(),
        })
    }

    pub(super) fn open_period(&mut self, ask: &OpenPeriodRequest) -> Result<Result<Generator, Verdict>, StoreError> {
        if self.open.is_none() {
            if !ask.may_begin {
                return Ok(Err(Verdict::NoSuch));
            }
            self.create_file()?;
        }
        self.transact(|sqlite, now| rows::open_period(sqlite, ask, now))
    }

    pub(super) fn begin_periods(&mut self, begun: &[BegunPeriod]) -> Result<(), StoreError> {
        if self.open.is_none() {
            return Ok(());
        }
        self.transact(|sqlite, now| rows::begin_periods(sqlite, begun, now))
    }

    pub(super) fn prune(&mut self, ask: &PruneRequest) -> Result<Result<PruneResult, Verdict>, StoreError> {
        if self.open.is_none() {
            return Ok(Err(Verdict::NoSuch));
        }
        self.transact(|sqlite, now| rows::prune(sqlite, ask, now))
    }

    /// Writes a copy into `to`, an empty file, unless that takes longer than [`BACKUP_TIME_MAX`].
    pub(super) fn backup(&mut self, to: &Path) -> Result<(), StoreError> {
        if self.seen.get().copied() != files::id_of(&self.path) {
            return Err(self.replaced_error());
        }
        let Some(database) = &self.open else {
            return Err(StoreError::Refused(format!(
                "'{}' does not exist yet: there is nothing to back up before the first sequence",
                self.path.display()
            )));
        };
        let Some(text) = to.to_str() else {
            return Err(StoreError::Refused(format!("the backup '{}' needs a path that is UTF-8", to.display())));
        };
        let interrupt = database.sqlite.get_interrupt_handle();
        let (done, is_done) = sync_channel::<()>(0);
        let copied = thread::scope(|scope| {
            let in_time = thread::Builder::new().name("getid-backup".to_owned()).spawn_scoped(scope, move || {
                // Nothing is ever sent: the wait ends when the sender is dropped, or after the time.
                if is_done.recv_timeout(BACKUP_TIME_MAX) == Err(RecvTimeoutError::Timeout) {
                    interrupt.interrupt();
                }
            });
            let copied = in_time.map_err(|error| error.to_string()).and_then(|_| {
                let copied = database.sqlite.execute("VACUUM INTO ?1", [text]);
                copied.map_err(|error| match error.sqlite_error_code() {
                    Some(ErrorCode::OperationInterrupted) => format!(
                        "it takes longer than {} s, for which no value can be reserved: stop the server and copy the \
                         file",
                        BACKUP_TIME_MAX.as_secs()
                    ),
                    Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
                    _ => error.to_string(),
                })
            });
            drop(done);
            copied
        });
        // The file itself is only read.
        copied.map(drop).map_err(|why| StoreError::Refused(format!("the backup '{}' failed: {why}", to.display())))
    }

    pub(super) fn tokens(&mut self) -> Result<Option<Vec<Token>>, StoreError> {
        if self.open.is_none() {
            return Ok(None);
        }
        self.transact(|sqlite, _| {
            let is_there = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'tiny_id_token')";
            if !sqlite.query_row(is_there, [], |row| row.get::<_, bool>(0))? {
                return Ok(None);
            }
            let mut statement = sqlite.prepare_cached(
                "SELECT CAST(token AS TEXT), CAST(biz_type AS TEXT) FROM tiny_id_token \
                 WHERE token <> '' AND biz_type <> '' ORDER BY token, biz_type LIMIT ?1",
            )?;
            let limit = i64::try_from(TOKENS_MAX).unwrap_or(i64::MAX).saturating_add(1);
            let rows = statement.query_map([limit], |row| Ok(Token { token: row.get(0)?, biz_type: row.get(1)? }))?;
            rows.collect::<Result<_, _>>().map(Some)
        })
    }
}

/// Converts an error of SQLite into a sentence for a log or a reply.
pub(super) fn store_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    let shown = path.display();
    let folder = path.parent().unwrap_or(Path::new(".")).display();
    let Some(code) = error.sqlite_error_code() else {
        return StoreError::Refused(format!("'{shown}': {error}"));
    };
    StoreError::Refused(match code {
        ErrorCode::DiskFull => format!("'{shown}': the disk is full: make room in {folder}"),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => format!(
            "'{shown}' is locked: another process has it open (use the SEQUENCE commands of the running server, or stop \
             it first), or an earlier statement has not ended yet"
        ),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => not_writable(path, &error.to_string()),
        ErrorCode::CannotOpen => {
            format!("'{shown}' cannot be opened ({error}): it must be a file that this user may read and write")
        }
        ErrorCode::NotADatabase => {
            format!("'{shown}' is not a SQLite file: name another one, or put the right one back")
        }
        ErrorCode::DatabaseCorrupt => format!(
            "'{shown}' is damaged ({error}): put a copy back and RAISE each sequence past all values that were given"
        ),
        ErrorCode::ConstraintViolation
        | ErrorCode::TypeMismatch
        | ErrorCode::TooBig
        | ErrorCode::SchemaChanged
        | ErrorCode::Unknown => {
            format!("'{shown}': {error}: its tables are not as `getid sequence schema` prints them")
        }
        _ => return StoreError::Unknown(format!("'{shown}': {error}: see the system's log for its disk")),
    })
}

pub(super) fn not_writable(path: &Path, why: &str) -> String {
    let folder = path.parent().unwrap_or(Path::new(".")).display();
    let shown = path.display();
    format!("'{shown}' cannot be written ({why}): give this user the right to write the file and in {folder}")
}

pub(super) fn file_error(path: &Path, what: &str, error: &io::Error) -> StoreError {
    StoreError::Refused(format!("'{}' cannot be {what}: {error}", path.display()))
}

/// Returns the name of a file that SQLite keeps beside another one.
fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Returns the time of the last write to a log that still exists, in Unix ms: its last user did not close the file.
fn unclean_since(path: &Path) -> Option<i64> {
    let log = std::fs::metadata(sibling_path(path, "-wal")).ok().filter(|found| found.len() > 0)?;
    std::os::unix::fs::MetadataExt::mtime(&log).checked_mul(1000)
}

/// Makes a new file's name durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder)?.sync_all()
}
