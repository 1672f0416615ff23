//! What SQLite adds: one file that servers of one machine share.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use getid_store::records::{RecordStore, RecordStoreError};

use super::{DEADLINE, open};
use crate::contract::{Records, StoreFixture, check_all, row, stamp};
use crate::support::folder;

struct Folder(tempfile::TempDir);

impl StoreFixture for Folder {
    fn clear(&self) {
        if let Ok(sqlite) = rusqlite::Connection::open(self.0.path().join("records.sqlite")) {
            // The table may not exist yet.
            let _ = sqlite.execute("DELETE FROM getid_record", []);
        }
    }

    fn store(&self) -> Arc<dyn RecordStore> {
        open("sqlite:", self.0.path(), DEADLINE)
    }

    fn spoil(&self, key: &str) {
        let sqlite = rusqlite::Connection::open(self.0.path().join("records.sqlite")).unwrap();
        let spoil = format!("UPDATE getid_record SET beat = 0 WHERE record_key = '{key}'");
        assert!(sqlite.execute(&spoil, []).is_err(), "the table rejects such a beat");
        sqlite.pragma_update(None, "ignore_check_constraints", true).unwrap();
        sqlite.execute(&spoil, []).unwrap();
    }
}

fn records(url: &str, dir: &Path) -> Records {
    Records(open(url, dir, DEADLINE))
}

#[test]
fn sqlite_keeps_the_contract() {
    let folder = Folder(folder());
    // A read does not create the file.
    assert_eq!(Records(folder.store()).read("claim/1"), Ok(None));
    assert!(!folder.0.path().join("records.sqlite").exists());
    Records(folder.store()).put("claim/1", None, &row(1, 1, ""));
    check_all(&folder);
}

#[test]
fn records_are_beside_the_sequences() {
    let folder = folder();
    records("sqlite:orders.db", folder.path()).put("worker/a", None, &row(1, 1, "here"));
    assert!(folder.path().join("orders.db.records").exists() && !folder.path().join("orders.db").exists());
    let again = records("sqlite:orders.db", folder.path());
    assert_eq!(again.read("worker/a"), Ok(Some(row(1, 1, "here"))));
    assert!(again.0.schema().contains("CREATE TABLE IF NOT EXISTS getid_record"));
}

#[test]
fn a_file_that_was_replaced_is_refused() {
    let folder = folder();
    let store = records("sqlite:", folder.path());
    store.put("claim/1", None, &row(1, 1, "1"));
    let (file, old) = (folder.path().join("records.sqlite"), folder.path().join("old"));
    fs::copy(&file, &old).unwrap();
    fs::rename(&old, &file).unwrap();
    for error in [store.read("claim/1").unwrap_err(), store.write("a", None, &row(1, 1, "")).unwrap_err()] {
        assert!(matches!(&error, RecordStoreError::Refused(message) if message.contains("replaced")), "{error:?}");
    }
    fs::remove_file(&file).unwrap();
    let error = store.write("claim/1", Some(stamp(1, 1)), &row(1, 2, "2")).unwrap_err();
    assert!(matches!(&error, RecordStoreError::Refused(message) if message.contains("removed")), "{error:?}");
}

#[test]
fn foreign_files_are_left_unchanged() {
    let folder = folder();
    let file = folder.path().join("records.sqlite");
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1);").unwrap();
    drop(other);
    let before = fs::read(&file).unwrap();
    let message = records("sqlite:", folder.path()).read("claim/1").unwrap_err().to_string();
    assert!(message.contains("is a SQLite file of another program"), "{message}");
    assert_eq!(fs::read(&file).unwrap(), before);
    fs::write(&file, "no SQLite file at all, but long enough to be looked at ".repeat(20)).unwrap();
    let message = records("sqlite:", folder.path()).read("claim/1").unwrap_err().to_string();
    assert!(message.contains("is not a SQLite file"), "{message}");
}

#[test]
fn an_edited_row_is_refused_by_name() {
    let folder = folder();
    let store = records("sqlite:", folder.path());
    store.put("claim/1", None, &row(1, 1, "1"));
    let sqlite = rusqlite::Connection::open(folder.path().join("records.sqlite")).unwrap();
    let writer = |to: &str| sqlite.execute("UPDATE getid_record SET writer = ?1", [to]);
    for refused in ["x2345678901234567890123456789012", "ABCDEF78901234567890123456789012", "1"] {
        assert!(writer(refused).is_err(), "{refused}");
        sqlite.pragma_update(None, "ignore_check_constraints", true).unwrap();
        writer(refused).unwrap();
        sqlite.pragma_update(None, "ignore_check_constraints", false).unwrap();
        let message = store.bad("claim/1").what;
        assert!(
            message.contains(&format!("the row 'claim/1' of the table getid_record has the writer '{refused}")),
            "{message}"
        );
    }
    // A key with invalid characters, and a text with invalid UTF-8.
    writer(&format!("{:032x}", 1)).unwrap();
    for key in ["'a b'", "CAST(x'61ff' AS TEXT)"] {
        sqlite.execute(&format!("UPDATE getid_record SET record_key = {key}"), []).unwrap();
        let listed = store.listed("", "", 10);
        assert!(
            listed.rows.is_empty() && listed.bad[0].what.contains("has a record_key that is not a valid key"),
            "{listed:?}"
        );
    }
}

#[test]
fn invalid_records_are_refused_before_a_write() {
    let folder = folder();
    let store = records("sqlite:", folder.path());
    for (new, expected) in [
        (row(1, 0, ""), "would have the beat 0"),
        (row(1, 1, "a\0b"), "contains NUL"),
        (row(1, 1, &"x".repeat(512 * 1024 + 1)), "has 524289 bytes, must have at most 524288"),
    ] {
        let message = store.write("claim/1", None, &new).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    assert_eq!(store.read("claim/1"), Ok(None));
}
