//! An open SQLite file; every call blocks.
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

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::super::native::{self, COLUMNS, RawRow, SCHEMA_VERSION};
use super::super::packet::{SentPacket, StatementResult};
use super::super::{BACKUP_TIME_MAX, StoreError, StoreInfo};
use super::statements::{self, APPLICATION_ID, SCHEMA};
use getid_system::clock::wall_unix_ms;
use getid_system::files::{self, FileId};

/// Longest wait of an open for a lock: an earlier connection of this process may be about to close.
const BUSY: Duration = Duration::from_secs(1);

/// Bytes of the log that are kept when it restarts.
const LOG_BYTES: i64 = 4 * 1024 * 1024;

/// Age in ms above which an unclean end causes a warning: a backup may have been restored.
const LONG_AGO_MS: i64 = 60 * 60 * 1000;

/// Most sequences that such a warning names.
const NAMED_MAX: usize = 5;

/// The path of a file, and the file if it exists.
pub(super) struct SequenceFile {
    path: PathBuf,
    seen: Arc<OnceLock<FileId>>,
    open: Option<Connection>,
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
        if let Some(sqlite) = self.open {
            // The next open repeats what fails here.
            let _ = sqlite.close();
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
        let sqlite = self.prepare().map_err(|error| error.of_file(&self.path))?;
        if let Some(id) = id {
            let _ = self.seen.set(id);
        }
        self.open = Some(sqlite);
        self.fill_info(info, unclean_ms)
    }

    /// Opens, locks and checks the file, and creates its tables.
    fn prepare(&self) -> Result<Connection, FileError> {
        let mut sqlite = open_sqlite(&self.path, BUSY)?;
        // Set before the first read of the file, which takes the lock then. The log's index stays in memory.
        sqlite.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
        let is_new = is_new(&sqlite, APPLICATION_ID, "tables", SCHEMA_VERSION)?;
        start_log(&sqlite)?;
        sqlite.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES, |_| Ok(()))?;
        // The log may contain a write that was never synced; this checkpoint syncs it.
        sqlite.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        let transaction = sqlite.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if is_new {
            transaction.execute_batch(SCHEMA)?;
        }
        transaction.execute_batch(statements::GENERATORS)?;
        transaction.execute_batch(statements::REQUESTS)?;
        transaction.commit()?;
        Ok(sqlite)
    }

    /// Returns the store's id; `None` if the file does not exist yet, or cannot be read.
    pub(super) fn uuid(&self) -> Option<String> {
        let select = "SELECT uuid FROM getid_store WHERE id = 1";
        self.open.as_ref()?.query_row(select, [], |row| row.get(0)).ok()
    }

    /// Reports what was found, and warns if the file may be an old one.
    fn fill_info(&mut self, info: &mut StoreInfo, unclean_ms: Option<i64>) -> Result<(), StoreError> {
        let inode = std::fs::metadata(&self.path).map_or(0, |found| std::os::unix::fs::MetadataExt::ino(&found));
        let inode = inode.cast_signed();
        let path = self.path.display().to_string();
        let found = self.run_one("SELECT uuid, inode FROM getid_store WHERE id = 1".to_owned())?.rows.pop();
        let noted = found.as_ref().and_then(|row| row.number(1)).unwrap_or(0);
        info.uuid = found.and_then(|row| row.text(0)).unwrap_or_default();
        if noted != inode {
            self.run_one(format!("UPDATE getid_store SET inode = {inode} WHERE id = 1"))?;
        }
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
        let select = format!(
            "SELECT {COLUMNS} FROM getid_sequence WHERE period = '' AND state <> 'dropped' ORDER BY name LIMIT {}",
            NAMED_MAX + 1
        );
        let rows = self.run_one(select).unwrap_or_default().rows;
        // Reading a row that cannot be parsed reports it.
        let rows: Vec<_> = rows.iter().filter_map(|row| RawRow::of(row).read().ok()).collect();
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

    /// Runs a packet. A missing file is created if the packet creates it; else it answers no rows.
    ///
    /// A transaction that has written nothing costs no sync.
    pub(super) fn run(&mut self, packet: &SentPacket) -> Result<Vec<StatementResult>, StoreError> {
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
        let done = statements::run(sqlite, packet);
        let is_over = sqlite.is_autocommit();
        done.map_err(|error| match store_error(&self.path, &error) {
            StoreError::Refused(text) | StoreError::Locked(text) if !is_over => StoreError::Unknown(text),
            error => error,
        })
    }

    fn run_one(&mut self, statement: String) -> Result<StatementResult, StoreError> {
        let packet = SentPacket { statements: vec![statement], commit: None, creates: false };
        Ok(self.run(&packet)?.swap_remove(0))
    }

    /// Writes a copy into `to`, an empty file, unless that takes longer than [`BACKUP_TIME_MAX`].
    pub(super) fn backup(&mut self, to: &Path) -> Result<(), StoreError> {
        if self.seen.get().copied() != files::id_of(&self.path) {
            return Err(self.replaced_error());
        }
        let Some(sqlite) = &self.open else {
            return Err(StoreError::Refused(format!(
                "'{}' does not exist yet: there is nothing to back up before the first sequence",
                self.path.display()
            )));
        };
        let Some(text) = to.to_str() else {
            return Err(StoreError::Refused(format!("the backup '{}' needs a path that is UTF-8", to.display())));
        };
        let interrupt = sqlite.get_interrupt_handle();
        let (done, is_done) = sync_channel::<()>(0);
        let copied = thread::scope(|scope| {
            let in_time = thread::Builder::new().name("getid-backup".to_owned()).spawn_scoped(scope, move || {
                // Nothing is ever sent: the wait ends when the sender is dropped, or after the time.
                if is_done.recv_timeout(BACKUP_TIME_MAX) == Err(RecvTimeoutError::Timeout) {
                    interrupt.interrupt();
                }
            });
            let copied = in_time.map_err(|error| error.to_string()).and_then(|_| {
                let copied = sqlite.execute("VACUUM INTO ?1", [text]);
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
}

/// Reason why a file cannot be used.
pub(super) enum FileError {
    Sqlite(rusqlite::Error),
    /// The file can only be read.
    ReadOnly,
    /// The file belongs to another program.
    Foreign,
    /// The file has newer tables.
    Newer {
        what: &'static str,
        version: i64,
        version_max: i64,
    },
    /// The file cannot have a log.
    NoLog {
        mode: String,
    },
}

impl From<rusqlite::Error> for FileError {
    fn from(error: rusqlite::Error) -> FileError {
        FileError::Sqlite(error)
    }
}

impl FileError {
    /// Returns the error as that of a store.
    pub(super) fn of_file(self, path: &Path) -> StoreError {
        let shown = path.display();
        StoreError::Refused(match self {
            FileError::Sqlite(error) => return store_error(path, &error),
            FileError::ReadOnly => not_writable(path, "it can only be read"),
            FileError::Foreign => format!("'{shown}' is a SQLite file of another program: name another file"),
            FileError::Newer { what, version, version_max } => format!(
                "'{shown}' was written by a newer getid ({what} of version {version}, this one supports {version_max}): \
                 start that one"
            ),
            FileError::NoLog { mode } => {
                format!("'{shown}' cannot have a log beside it (journal_mode is {mode}): use a local disk")
            }
        })
    }
}

/// Opens an existing file.
pub(super) fn open_sqlite(path: &Path, busy: Duration) -> Result<Connection, FileError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let sqlite = Connection::open_with_flags(path, flags)?;
    // SQLite opens a file read-only if it may not write to it.
    if sqlite.is_readonly("main")? {
        return Err(FileError::ReadOnly);
    }
    sqlite.busy_timeout(busy)?;
    sqlite.pragma_update(None, "trusted_schema", false)?;
    Ok(sqlite)
}

/// Returns true if the file is empty. Fails if it is not getid's. `what`: its tables, in an error.
pub(super) fn is_new(
    sqlite: &Connection,
    application_id: i64,
    what: &'static str,
    version_max: i64,
) -> Result<bool, FileError> {
    let number = |name: &str| sqlite.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    let tables: i64 = sqlite.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let is_new = application == 0 && version == 0 && tables == 0;
    if !is_new && application != application_id {
        return Err(FileError::Foreign);
    }
    if version > version_max {
        return Err(FileError::Newer { what, version, version_max });
    }
    Ok(is_new)
}

/// Starts a log (WAL) beside the file, which each commit syncs.
pub(super) fn start_log(sqlite: &Connection) -> Result<(), FileError> {
    let mode: String = sqlite.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(FileError::NoLog { mode });
    }
    sqlite.pragma_update(None, "synchronous", "FULL")?;
    sqlite.pragma_update(None, "fullfsync", true)?;
    Ok(())
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
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            return StoreError::Locked(format!(
                "'{shown}' is locked: another process has it open (use the SEQUENCE commands of the running server, or \
                 stop it first), or an earlier statement has not ended yet"
            ));
        }
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

fn not_writable(path: &Path, why: &str) -> String {
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
