//! What a SQLite file adds to the contract: it is created, locked, damaged, copied, replaced, and survives kill -9.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use getid_store::sql::{Store, StoreError, TableKind, Verdict, open};
use getid_text::store_url::StoreUrl;
use tempfile::TempDir;

use crate::child::ChildStore;
use crate::contract;
use crate::db::{Db, StoreFixture, ask, create, opening, range, spec};
use crate::support;

/// A SQLite file in its own folder.
pub(crate) struct Folder {
    dir: TempDir,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder { dir: support::folder() }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("sequences-7.sqlite")
    }

    fn by_hand(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.file()).unwrap()
    }
}

pub(crate) fn store_in(dir: &Path) -> Box<dyn Store> {
    open(&StoreUrl::default_file(), TableKind::Native, dir, 7).unwrap()
}

impl StoreFixture for Folder {
    fn clear(&self) {
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    fn store(&self) -> Box<dyn Store> {
        store_in(self.dir.path())
    }

    fn sql(&self, statements: &str) -> Result<(), String> {
        let sqlite = self.by_hand();
        // Without the checks, scenarios can write invalid rows.
        sqlite.pragma_update(None, "ignore_check_constraints", true).unwrap();
        sqlite.execute_batch(statements).map_err(|error| error.to_string())
    }
}

#[test]
fn sqlite_keeps_the_contract() {
    contract::check_all(&Folder::new());
}

/// Asserts that opening the store is refused with an error that contains these words.
#[track_caller]
fn refused(store: &dyn Store, expected: &[&str]) {
    match Db::of(store) {
        Err(StoreError::Refused(message) | StoreError::Locked(message)) => {
            for expected in expected {
                assert!(message.contains(expected), "{message}");
            }
        }
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it is open instead of refused: {expected:?}"),
    }
}

#[test]
fn the_file_is_made_by_the_first_row_and_for_its_owner_alone() {
    let folder = Folder::new();
    let mut db = Db::open(&folder);
    assert_eq!(db.reserve("orders", 1), Err(Verdict::NoSuch));
    assert_eq!(std::fs::read_dir(folder.dir.path()).unwrap().count(), 0, "no sequence was created");
    db.create("orders", "");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.file()), 0o600);
    let log = folder.dir.path().join("sequences-7.sqlite-wal");
    assert_eq!(mode(&log), 0o600);
    drop(db);
    assert!(!log.exists(), "a closed store has no other file");
    assert_eq!(std::fs::read_dir(folder.dir.path()).unwrap().count(), 1);
    // The first period of a serial creates the file, too.
    folder.clear();
    assert_eq!(range(&Db::open(&folder).reserve_in("invoice@Y20260101", 1).unwrap()), (1, 1));
    assert!(folder.file().exists());
}

#[test]
fn a_file_without_its_own_row_is_no_missing_file() {
    let folder = Folder::new();
    Db::open(&folder).create("orders", "");
    folder.sql("DELETE FROM getid_store;").unwrap();
    let mut db = Db::open(&folder);
    let message = match db.try_create(&create("more", "")) {
        Err(StoreError::Refused(message)) => message,
        other => panic!("{other:?}"),
    };
    let (_, remedy) = message.split_once("stop the server, and ").unwrap();
    let opened = db.try_open(&opening("invoice@Y20260101", ""));
    assert!(matches!(opened, Err(StoreError::Refused(_))), "{opened:?}");
    drop(db);
    folder.sql(remedy).unwrap();
    Db::open(&folder).create("more", "");
}

#[test]
fn the_address_names_the_file() {
    let folder = Folder::new();
    let dir = folder.dir.path();
    let absolute = dir.join("there/x.db");
    for (url, path) in [
        ("sqlite:".to_owned(), dir.join("sequences-12.sqlite")),
        ("sqlite:orders.db".to_owned(), dir.join("orders.db")),
        (format!("sqlite:{}", absolute.display()), absolute.clone()),
    ] {
        let url = StoreUrl::parse(&url).unwrap();
        let store = open(&url, TableKind::Native, dir, 12).unwrap();
        assert_eq!(store.shown(), format!("sqlite:{}", path.display()));
        assert!(!store.is_shared());
        let message = open(&url, TableKind::Leaf, dir, 12).err().unwrap();
        assert!(message.to_string().contains("sequence-table leaf is a table in MySQL"), "{message}");
    }
    let url = StoreUrl::parse(&format!("sqlite:{}", absolute.display())).unwrap();
    refused(
        &*open(&url, TableKind::Native, dir, 12).unwrap(),
        &["there/x.db' cannot be created: No such file or directory"],
    );
}

#[test]
fn a_second_process_is_refused() {
    let folder = Folder::new();
    let mut db = Db::open(&folder);
    db.create("orders", "");
    let expected = ["sequences-7.sqlite' is locked", "use the SEQUENCE commands", "stop it first"];
    // Each process waits one second for the lock, so both wait at the same time.
    let mut other = ChildStore::start(folder.dir.path(), |_| {});
    other.send("open");
    refused(&*folder.store(), &expected);
    let message = other.answer().unwrap();
    assert!(expected.iter().all(|expected| message.contains(expected)) && message.starts_with("refused"), "{message}");
    assert_eq!(range(&db.reserve("orders", 5).unwrap()), (1, 5), "and the first process continues");
    drop(db);
    assert_eq!(other.ask("open"), "open ");
    assert_eq!(other.ask("reserve orders 5"), "6 10");
    other.kill();
    assert_eq!(range(&Db::open(&folder).reserve("orders", 5).unwrap()), (11, 15), "a lock ends with its process");
}

#[test]
fn no_value_twice_over_kills() {
    const LIVES: usize = 12;
    let folder = Folder::new();
    Db::open(&folder).create("orders", "");
    let (mut last, mut given, mut skipped) = (0, 0, 0);
    for life in 0..LIVES {
        let mut child = ChildStore::start(folder.dir.path(), |_| {});
        assert_eq!(child.ask("open"), "open ");
        child.send("loop orders 3");
        for _ in 0..20 + life * 7 {
            let range = child.answer().unwrap();
            let (first, to) = range.split_once(' ').unwrap();
            let (first, to): (i64, i64) = (first.parse().unwrap(), to.parse().unwrap());
            assert!(first > last && to == first + 2, "{range} after {last}");
            (skipped, given, last) = (skipped + first - last - 1, given + 3, to);
        }
        child.kill();
        while let Some(range) = child.answer() {
            // The line may be printed completely or in part before the kill.
            last = range.split_once(' ').and_then(|(_, to)| to.parse().ok()).unwrap_or(last).max(last);
        }
    }
    let next = Db::open(&folder).reserve("orders", 1).unwrap();
    assert!(next.first > last, "{next:?} after {last}");
    let lives = i64::try_from(LIVES).unwrap();
    assert!(
        skipped <= lives * 3,
        "a kill skips only the running reservation: {skipped} in {LIVES} lives, {given} given"
    );
}

/// Starts a child process whose disk operations are logged, and fail as the file `fail` directs.
fn watched(folder: &Folder, work: &Path) -> ChildStore {
    let library = support::preload::layer(work, "fail");
    ChildStore::start(folder.dir.path(), |command| {
        command.env("LD_PRELOAD", library).env("GETID_TEST_FAIL_DIR", folder.dir.path());
        command.env("GETID_TEST_FAIL", work.join("fail")).env("GETID_TEST_FAIL_LOG", work.join("log"));
    })
}

/// Returns the disk operations since the last call.
fn done_since(work: &Path) -> Vec<String> {
    let log = work.join("log");
    let done = std::fs::read_to_string(&log).unwrap_or_default().lines().map(str::to_owned).collect();
    let _ = std::fs::remove_file(&log);
    done
}

#[test]
fn an_answered_statement_is_on_disk() {
    let (folder, work) = (Folder::new(), support::folder());
    let mut child = watched(&folder, work.path());
    assert_eq!(child.ask("open"), "open ");
    assert_eq!(done_since(work.path()), [""; 0]);
    assert_eq!(child.ask("create orders"), "Ok(1)");
    let done = done_since(work.path());
    assert_eq!(done[0], "sync .", "the new file's name: {done:?}");
    child.ask("close");
    child.ask("open");
    done_since(work.path());
    assert_eq!(child.ask("reserve orders 1"), "1 1");
    let done = done_since(work.path());
    assert!(done.contains(&"sync .".to_owned()), "the new log's name: {done:?}");
    for n in 0..64 {
        child.ask(&format!("create s{n}"));
    }
    let is_sync = |done: &&String| done.starts_with("sync ");
    let log = "sync sequences-7.sqlite-wal";
    done_since(work.path());
    for round in 2..1500 {
        assert_eq!(child.ask("reserve orders 1"), format!("{round} {round}"));
        let done = done_since(work.path());
        let writes = done.iter().filter(|done| *done == "write sequences-7.sqlite-wal").count();
        assert!(writes > 0, "{done:?}");
        let last_write = done.iter().rposition(|done| done == "write sequences-7.sqlite-wal");
        let last_sync = done.iter().rposition(|done| done == log);
        assert!(last_sync > last_write, "the log is synced after the last write to it: {done:?}");
    }
    child.ask("batch");
    done_since(work.path());
    assert_eq!(child.ask("batch"), "64");
    let done = done_since(work.path());
    assert_eq!(done.iter().filter(is_sync).count(), 1, "one sync for all of them: {done:?}");
    assert_eq!(child.ask("reserve missing 1"), "NoSuch");
    assert_eq!(done_since(work.path()), [""; 0], "a statement without a write syncs nothing");
}

#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    let (folder, work) = (Folder::new(), support::folder());
    let mut child = watched(&folder, work.path());
    child.ask("open");
    child.ask("create orders");
    assert_eq!(child.ask("reserve orders 10"), "1 10");
    for _ in 0..3 {
        std::fs::write(work.path().join("fail"), "full").unwrap();
        let message = child.ask("reserve orders 10");
        assert!(message.starts_with("refused") && message.contains("the disk is full: make room in"), "{message}");
        let message = child.ask("create others");
        assert!(message.starts_with("refused") && message.contains("the disk is full"), "{message}");
        std::fs::remove_file(work.path().join("fail")).unwrap();
    }
    assert_eq!(child.ask("reserve orders 10"), "11 20", "without a new connection, and without a gap");
    child.kill();
    assert_eq!(range(&Db::open(&folder).reserve("orders", 10).unwrap()), (21, 30));
}

#[test]
fn a_failed_sync_leaves_the_outcome_unknown() {
    let (folder, work) = (Folder::new(), support::folder());
    let mut child = watched(&folder, work.path());
    child.ask("open");
    child.ask("create orders");
    assert_eq!(child.ask("reserve orders 10"), "1 10");
    std::fs::write(work.path().join("fail"), "sync").unwrap();
    let message = child.ask("reserve orders 10");
    assert!(message.starts_with("unknown") && message.contains("sequences-7.sqlite': disk I/O error"), "{message}");
    child.ask("close");
    let message = child.ask("open");
    assert!(message.starts_with("unknown") || message.starts_with("refused"), "it still fails: {message}");
    std::fs::remove_file(work.path().join("fail")).unwrap();
    done_since(work.path());
    assert_eq!(child.ask("open"), "open ");
    let done = done_since(work.path());
    assert!(done.iter().any(|done| done == "sync sequences-7.sqlite"), "the log is synced: {done:?}");
    let message = child.ask("reserve orders 10");
    let (first, _) = message.split_once(' ').unwrap();
    assert!(matches!(first, "11" | "21"), "done or not, none of the first ten is given again: {message}");
}

#[test]
fn an_unwritable_file_is_reported() {
    let (folder, work) = (Folder::new(), support::folder());
    let mut child = watched(&folder, work.path());
    let fail = |how: Option<&str>| match how {
        Some(how) => std::fs::write(work.path().join("fail"), how).unwrap(),
        None => std::fs::remove_file(work.path().join("fail")).unwrap(),
    };
    child.ask("open");
    fail(Some("read-only"));
    let message = child.ask("create orders");
    assert!(
        message.starts_with("refused") && message.contains("cannot be created: Read-only file system"),
        "{message}"
    );
    fail(None);
    assert_eq!(child.ask("create orders"), "Ok(1)");
    child.ask("close");
    fail(Some("read-only"));
    let message = child.ask("open");
    assert!(message.starts_with("refused") && message.contains("cannot be written"), "{message}");
    assert!(message.contains("give this user the right to write"), "{message}");
    fail(None);
    assert_eq!(child.ask("open"), "open ");
    assert_eq!(child.ask("reserve orders 1"), "1 1");
}

#[test]
fn foreign_files_are_refused_by_name() {
    let folder = Folder::new();
    let put = |bytes: &[u8]| {
        folder.clear();
        std::fs::write(folder.file(), bytes).unwrap();
    };
    put(&b"these are not the bytes of a database, however long they are ".repeat(100));
    refused(&*folder.store(), &["sequences-7.sqlite' is not a SQLite file"]);
    folder.clear();
    folder.sql("CREATE TABLE cats (name TEXT);").unwrap();
    refused(&*folder.store(), &["is a SQLite file of another program"]);
    folder.clear();
    Db::open(&folder).create("orders", "");
    folder.sql("PRAGMA user_version = 2;").unwrap();
    refused(&*folder.store(), &["was written by a newer getid (tables of version 2, this one supports 1)"]);
    folder.clear();
    Db::open(&folder).create("orders", "");
    folder.sql("DROP TABLE getid_sequence;").unwrap();
    let message = Db::open(&folder).try_reserve(&[ask("orders", 1)]).unwrap_err().to_string();
    assert!(
        message.contains("no such table: getid_sequence") && message.contains("`getid sequence schema`"),
        "{message}"
    );
    // An empty file becomes a new store. A folder is refused.
    put(b"");
    assert_eq!(Db::open(&folder).create("orders", "").next, 1);
    folder.clear();
    std::fs::create_dir(folder.file()).unwrap();
    refused(&*folder.store(), &["cannot be opened: it is not a regular file"]);
    std::fs::remove_dir(folder.file()).unwrap();
}

#[test]
fn a_damaged_file_gives_nothing() {
    let folder = Folder::new();
    let mut db = Db::open(&folder);
    for n in 0..250 {
        db.create(&format!("s{n}"), "");
    }
    drop(db);
    let whole = std::fs::read(folder.file()).unwrap();
    let mut refusals = 0;
    for page in 1..whole.len() / 4096 {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        std::fs::write(folder.file(), bytes).unwrap();
        let mut db = match Db::of(&*folder.store()) {
            Ok(db) => db,
            Err(error) => {
                assert!(error.to_string().contains("is damaged"), "{error}");
                refusals += 1;
                continue;
            }
        };
        for n in 0..250 {
            match db.try_reserve(&[ask(&format!("s{n}"), 1)]) {
                Ok(answers) => assert!(answers[0].as_ref().is_ok_and(|got| range(got) == (1, 1)), "{answers:?}"),
                Err(error) => {
                    assert!(error.to_string().contains("is damaged"), "{error}");
                    refusals += 1;
                }
            }
        }
    }
    assert!(refusals > 100, "{refusals}");
}

#[test]
fn another_file_in_its_place_is_refused_for_this_life() {
    let folder = Folder::new();
    let store = folder.store();
    let mut db = Db::of(&*store).unwrap();
    db.create("orders", "");
    drop(db);
    let old = folder.dir.path().join("old");
    std::fs::copy(folder.file(), &old).unwrap();
    let mut db = Db::of(&*store).unwrap();
    db.reserve("orders", 100).unwrap();
    std::fs::rename(&old, folder.file()).unwrap();
    let replaced = "was removed or replaced while this process had it open";
    let message = db.try_reserve(&[ask("orders", 1)]).unwrap_err();
    assert!(matches!(&message, StoreError::Refused(text) if text.contains(replaced)), "{message:?}");
    drop(db);
    refused(&*store, &[replaced]);
    // An empty file in place of the known one stays empty. Any other empty file gets tables.
    std::fs::remove_file(folder.file()).unwrap();
    std::fs::write(folder.file(), "").unwrap();
    refused(&*store, &[replaced]);
    assert_eq!(std::fs::metadata(folder.file()).unwrap().len(), 0);
    std::fs::remove_file(folder.file()).unwrap();
    refused(&*store, &[replaced]);
    // Removing the folder removes the file.
    let folder = Folder::new();
    let store = folder.store();
    let mut db = Db::of(&*store).unwrap();
    db.create("orders", "");
    std::fs::remove_dir_all(folder.dir.path()).unwrap();
    let message = db.try_reserve(&[ask("orders", 1)]).unwrap_err();
    assert!(matches!(&message, StoreError::Refused(text) if text.contains(replaced)), "{message:?}");
    drop(db);
    refused(&*store, &[replaced]);
    refused(&*folder.store(), &["cannot be created: No such file or directory"]);
    std::fs::create_dir(folder.dir.path()).unwrap();
}

#[test]
fn a_copy_is_warned_about_once_with_each_position() {
    let folder = Folder::new();
    let mut db = Db::open(&folder);
    for (n, name) in ["orders", "a", "b", "c", "d", "e"].iter().enumerate() {
        db.create(name, "");
        db.reserve(name, u32::try_from(n + 1).unwrap() * 100).unwrap();
    }
    drop(db);
    assert_eq!(Db::open(&folder).info().warnings, [""; 0], "its own file");
    let copy = folder.dir.path().join("copy");
    std::fs::copy(folder.file(), &copy).unwrap();
    std::fs::rename(&copy, folder.file()).unwrap();
    let warnings = Db::open(&folder).info().warnings.clone();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    for expected in ["is a copy, or was put back", "RAISE", "'a' is at 200", "'e' is at 600", "shows the others"] {
        assert!(warning.contains(expected), "{warning}");
    }
    assert!(!warning.contains("'orders'"), "five are named: {warning}");
    assert_eq!(Db::open(&folder).info().warnings, [""; 0], "once");
}

#[test]
fn a_file_that_was_left_open_long_ago_is_warned_of() {
    let folder = Folder::new();
    let mut child = ChildStore::start(folder.dir.path(), |_| {});
    child.ask("open");
    child.ask("create orders");
    child.ask("reserve orders 100");
    child.kill();
    let log = folder.dir.path().join("sequences-7.sqlite-wal");
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    let mut db = Db::open(&folder);
    assert_eq!(db.info().warnings, [""; 0], "a crash just now");
    db.reserve("orders", 1).unwrap();
    drop(db);
    let mut child = ChildStore::start(folder.dir.path(), |_| {});
    child.ask("open");
    child.ask("reserve orders 100");
    child.kill();
    let long_ago = std::fs::metadata(&log).unwrap().modified().unwrap() - Duration::from_hours(30);
    std::fs::File::options().write(true).open(&log).unwrap().set_modified(long_ago).unwrap();
    let warnings = Db::open(&folder).info().warnings.clone();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    for expected in ["was not closed by its last process, 30 hours ago", "'orders' is at 201", "RAISE"] {
        assert!(warning.contains(expected), "{warning}");
    }
    assert_eq!(Db::open(&folder).info().warnings, [""; 0]);
}

#[test]
fn a_backup_is_the_store_as_it_was() {
    let folder = Folder::new();
    let to = folder.dir.path().join("copy.backup");
    std::fs::write(&to, "").unwrap();
    let mut db = Db::open(&folder);
    let error = db.backup(&to).unwrap_err();
    assert!(matches!(&error, StoreError::Refused(message) if message.contains("does not exist yet")), "{error:?}");
    db.create("orders", "cache 7");
    db.reserve("orders", 100).unwrap();
    let uuid = db.info().uuid.clone();
    db.backup(&to).unwrap();
    assert_eq!(range(&db.reserve("orders", 1).unwrap()), (101, 101), "it continues");
    let error = db.backup(&to).unwrap_err();
    assert!(matches!(&error, StoreError::Refused(message) if message.contains("copy.backup' failed")), "{error:?}");
    drop(db);
    std::fs::rename(&to, folder.file()).unwrap();
    let mut db = Db::open(&folder);
    assert_eq!((db.info().uuid.clone(), db.info().warnings.len()), (uuid, 1), "a copy is warned of");
    assert_eq!(db.row("orders").unwrap().spec, spec("cache 7"));
    assert_eq!(range(&db.reserve("orders", 1).unwrap()), (101, 101));
}

#[test]
fn a_log_without_its_file_is_refused() {
    let folder = Folder::new();
    let mut child = ChildStore::start(folder.dir.path(), |_| {});
    child.ask("open");
    child.ask("create orders");
    child.kill();
    let aside = folder.dir.path().join("aside");
    std::fs::rename(folder.file(), &aside).unwrap();
    refused(&*folder.store(), &["sequences-7.sqlite' is missing, and its log", "put the file back"]);
    std::fs::rename(&aside, folder.file()).unwrap();
    assert_eq!(range(&Db::open(&folder).reserve("orders", 1).unwrap()), (1, 1));
}

#[test]
fn a_statement_whose_caller_is_gone_is_finished() {
    let folder = Folder::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Db::open(&folder).create("orders", "");
    let store = folder.store();
    for round in 1..=20 {
        let mut connection = runtime.block_on(store.connect()).unwrap();
        // The future is polled once: the statement is sent, and no caller waits for it.
        let asks = [ask("orders", 10)];
        let _ = runtime.block_on(async { tokio::time::timeout(Duration::ZERO, connection.reserve(&asks)).await });
        drop(connection);
        let mut next = 0;
        support::eventually("the statement has ended, and the file is closed", || match Db::of(&*store) {
            Ok(mut db) => {
                next = db.row("orders").unwrap().next;
                true
            }
            Err(StoreError::Locked(_)) => false,
            Err(error) => panic!("{error:?}"),
        });
        assert_eq!(next, round * 10 + 1);
    }
}
