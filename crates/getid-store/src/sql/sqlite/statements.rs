//! The dialect of SQLite, getid's own tables, and the statements of a packet in an open file.

use rusqlite::{Connection, Statement};

use super::super::packet::{Cell, SentPacket, SqlRow, StatementResult, hex};
use rusqlite::types::ValueRef;

/// Statements that begin a transaction. It has the lock for writes from the start.
pub(super) const BEGIN: &[&str] = &["BEGIN IMMEDIATE"];

/// Returns any text as a literal. NUL would end a statement.
pub(super) fn text(text: &str) -> String {
    if text.contains('\0') {
        return format!("CAST(x'{}' AS TEXT)", hex(text.as_bytes()));
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// SQL of the tables.
pub(super) const SCHEMA: &str = "\
CREATE TABLE getid_store (
  id      INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  uuid    TEXT    NOT NULL,
  changes INTEGER NOT NULL,
  inode   INTEGER NOT NULL
) STRICT;
INSERT INTO getid_store (id, uuid, changes, inode) VALUES (1, lower(hex(randomblob(16))), 0, 0);
CREATE TABLE getid_sequence (
  name       TEXT    NOT NULL,
  series     TEXT    NOT NULL DEFAULT '',
  period     TEXT    NOT NULL DEFAULT '',
  next       INTEGER NOT NULL CHECK (next >= 0),
  version    INTEGER NOT NULL DEFAULT 0 CHECK (version >= 0),
  generation INTEGER NOT NULL DEFAULT 0 CHECK (generation >= 0),
  changed    INTEGER NOT NULL DEFAULT 0,
  start      INTEGER NOT NULL DEFAULT 1 CHECK (start >= 0),
  increment  INTEGER NOT NULL DEFAULT 1 CHECK (increment BETWEEN 1 AND 1000000),
  offset_    INTEGER NOT NULL DEFAULT 1 CHECK (offset_ BETWEEN 1 AND increment),
  cache      INTEGER NOT NULL DEFAULT 100 CHECK (cache BETWEEN 0 AND 10000000),
  max_value  INTEGER NOT NULL DEFAULT 9000000000000000000 CHECK (max_value BETWEEN 0 AND 9000000000000000000),
  policy     TEXT    NOT NULL DEFAULT '' CHECK (policy IN ('', 'wait', 'error')),
  state      TEXT    NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'dropped', 'went-back', 'ledger')),
  created    INTEGER NOT NULL DEFAULT 0,
  updated    INTEGER NOT NULL DEFAULT 0,
  ends       INTEGER NOT NULL DEFAULT 0 CHECK (ends >= 0),
  PRIMARY KEY (name, series, period)
) STRICT, WITHOUT ROWID;
CREATE INDEX getid_sequence_changed ON getid_sequence (changed);
CREATE INDEX getid_sequence_period ON getid_sequence (updated) WHERE period <> '';
PRAGMA application_id = 1734702185;
PRAGMA user_version = 1;
";

/// Application id `geti` in the file's header, which distinguishes getid's files from other SQLite files.
pub(super) const APPLICATION_ID: i64 = 0x6765_7469;

/// SQL of the tables of generators and their ledgers, which are created whenever a file is opened.
pub(super) const GENERATORS: &str = "\
CREATE TABLE IF NOT EXISTS getid_generator (
  name           TEXT    NOT NULL PRIMARY KEY,
  declaration    TEXT    NOT NULL,
  reset          TEXT    NOT NULL,
  newest         TEXT    NOT NULL DEFAULT '',
  closed_through TEXT    NOT NULL DEFAULT '',
  keys_count     INTEGER NOT NULL DEFAULT 0 CHECK (keys_count >= 0),
  ledger         INTEGER NOT NULL DEFAULT 0,
  requests       INTEGER NOT NULL DEFAULT 0,
  released_requests INTEGER NOT NULL DEFAULT 0,
  updated        INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS getid_number (
  name    TEXT    NOT NULL,
  series  TEXT    NOT NULL DEFAULT '',
  period  TEXT    NOT NULL DEFAULT '',
  number  INTEGER NOT NULL CHECK (number >= 1),
  last    INTEGER NOT NULL CHECK (last >= number),
  text    TEXT    NOT NULL,
  state   TEXT    NOT NULL CHECK (state IN ('reserved', 'committed', 'released', 'void', 'unclear')),
  since   INTEGER NOT NULL,
  due     INTEGER NOT NULL DEFAULT 0,
  request TEXT    NOT NULL DEFAULT '',
  owner   TEXT    NOT NULL DEFAULT '',
  reason  TEXT    NOT NULL DEFAULT '',
  entry   INTEGER NOT NULL,
  PRIMARY KEY (name, series, period, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS getid_number_text ON getid_number (name, text);
CREATE INDEX IF NOT EXISTS getid_number_state ON getid_number (name, state, series, period, number);
CREATE INDEX IF NOT EXISTS getid_number_entry ON getid_number (name, entry);
CREATE TABLE IF NOT EXISTS getid_number_request (
  name    TEXT    NOT NULL,
  request TEXT    NOT NULL,
  owner   TEXT    NOT NULL,
  series  TEXT    NOT NULL DEFAULT '',
  period  TEXT    NOT NULL DEFAULT '',
  number  INTEGER NOT NULL,
  state   TEXT    NOT NULL CHECK (state IN ('reserved', 'committed', 'released', 'void')),
  PRIMARY KEY (name, request)
) STRICT, WITHOUT ROWID;
";

/// SQL of the tables of request keys, which are created whenever a file is opened.
pub(super) const REQUESTS: &str = "\
CREATE TABLE IF NOT EXISTS getid_request (
  owner       TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  request     TEXT    NOT NULL,
  fingerprint TEXT    NOT NULL,
  reply       TEXT    NOT NULL,
  made        INTEGER NOT NULL,
  kept_until  INTEGER NOT NULL,
  PRIMARY KEY (owner, name, request)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS getid_request_until ON getid_request (kept_until);
CREATE TABLE IF NOT EXISTS getid_request_count (
  name     TEXT    NOT NULL PRIMARY KEY,
  requests INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Runs the statements of a packet, and stops at the first error, which rolls the transaction back.
pub(super) fn run(sqlite: &Connection, packet: &SentPacket) -> rusqlite::Result<Vec<StatementResult>> {
    let done: rusqlite::Result<_> = packet.statements.iter().map(|sql| run_one(&mut sqlite.prepare(sql)?)).collect();
    if done.is_err() && !sqlite.is_autocommit() {
        sqlite.execute_batch("ROLLBACK")?;
    }
    done
}

/// Returns true if a packet only ends a transaction that an error has ended already.
pub(super) fn is_void(sqlite: &Connection, packet: &SentPacket) -> bool {
    sqlite.is_autocommit() && is_rollback(packet)
}

/// Returns true if a packet only ends a transaction.
pub(super) fn is_rollback(packet: &SentPacket) -> bool {
    packet.statements.first().is_some_and(|sql| sql == "ROLLBACK")
}

/// Returns the results of a packet that has nothing to do.
pub(super) fn nothing(packet: &SentPacket) -> Vec<StatementResult> {
    vec![StatementResult::default(); packet.statements.len()]
}

fn run_one(statement: &mut Statement<'_>) -> rusqlite::Result<StatementResult> {
    let columns = statement.column_count();
    if columns == 0 {
        return Ok(StatementResult { affected: statement.execute([])? as u64, rows: Vec::new() });
    }
    let mut rows = Vec::new();
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let mut cells = Vec::with_capacity(columns);
        for at in 0..columns {
            cells.push(cell(row.get_ref(at)?));
        }
        rows.push(SqlRow(cells));
    }
    Ok(StatementResult { affected: 0, rows })
}

/// Returns a value. SQLite permits texts that are not UTF-8: such a text must not hide other rows.
fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Number(number),
        ValueRef::Real(number) => Cell::Text(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cell::Text(String::from_utf8_lossy(bytes).into_owned()),
    }
}
