//! The tables in a SQLite file, and the statements that read and write a row, inside the caller's transaction.

use getid_core::server::Key;
use rusqlite::{OptionalExtension as _, Row as SqliteRow, Transaction, params};

use super::super::native::{
    self, COLUMNS, GENERATOR_COLUMNS, OtherRowsChange, PrunePlan, RawRow, column, policy_word, state_word,
};
use super::super::{
    BegunPeriod, GENERATORS_MAX, Generator, OpenPeriodRequest, PruneRequest, PruneResult, Reservation, ReserveRequest,
    SequenceRow, Verdict,
};

/// Result of a statement.
pub(super) type SqliteResult<T> = rusqlite::Result<T>;

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
  state      TEXT    NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'dropped', 'went-back')),
  created    INTEGER NOT NULL DEFAULT 0,
  updated    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (name, period)
) STRICT, WITHOUT ROWID;
CREATE INDEX getid_sequence_changed ON getid_sequence (changed);
CREATE INDEX getid_sequence_period ON getid_sequence (updated) WHERE period <> '';
PRAGMA application_id = 1734702185;
PRAGMA user_version = 1;
";

/// Application id `geti` in the file's header, which distinguishes getid's files from other SQLite files.
pub(super) const APPLICATION_ID: i64 = 0x6765_7469;

/// SQL of the table of generators, which files of earlier builds lack.
pub(super) const GENERATORS: &str = "\
CREATE TABLE IF NOT EXISTS getid_generator (
  name           TEXT    NOT NULL PRIMARY KEY,
  declaration    TEXT    NOT NULL,
  reset          TEXT    NOT NULL,
  newest         TEXT    NOT NULL DEFAULT '',
  closed_through TEXT    NOT NULL DEFAULT '',
  updated        INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
";

/// Reserves values of one row.
pub(super) fn reserve(
    sqlite: &Transaction<'_>,
    ask: &ReserveRequest,
    now: i64,
) -> SqliteResult<Result<Reservation, Verdict>> {
    let row = match find(sqlite, &ask.key)? {
        Some(Err(bad)) => return Ok(Err(Verdict::BadRow(bad))),
        Some(Ok(row)) => row,
        None => return Ok(Err(Verdict::NoSuch)),
    };
    let reserved = native::apply_reservation(&row, ask, now);
    if let Ok(reserved) = &reserved
        && reserved.row != row
    {
        write_next(sqlite, &reserved.row)?;
    }
    Ok(reserved)
}

/// Returns the row of a generator.
pub(super) fn generator(sqlite: &Transaction<'_>, name: &str) -> SqliteResult<Option<Generator>> {
    let select = format!("SELECT {GENERATOR_COLUMNS} FROM getid_generator WHERE name = ?1");
    sqlite.prepare_cached(&select)?.query_row([name], raw_generator).optional()
}

/// Returns all generators, in the order of their names.
pub(super) fn generators(sqlite: &Transaction<'_>) -> SqliteResult<Vec<Generator>> {
    let select = format!("SELECT {GENERATOR_COLUMNS} FROM getid_generator ORDER BY name LIMIT {GENERATORS_MAX}");
    sqlite.prepare_cached(&select)?.query_map([], raw_generator)?.collect()
}

fn raw_generator(row: &SqliteRow<'_>) -> SqliteResult<Generator> {
    Ok(Generator {
        name: row.get(0)?,
        declaration: row.get(1)?,
        reset: row.get(2)?,
        newest: row.get(3)?,
        closed_through: row.get(4)?,
    })
}

/// Writes the row of a generator.
pub(super) fn write_generator(sqlite: &Transaction<'_>, generator: &Generator, now: i64) -> SqliteResult<()> {
    let Generator { name, declaration, reset, newest, closed_through } = generator;
    sqlite
        .prepare_cached("INSERT OR REPLACE INTO getid_generator VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(params![name, declaration, reset, newest, closed_through, now])
        .map(drop)
}

/// Opens a period of a generator.
pub(super) fn open_period(
    sqlite: &Transaction<'_>,
    ask: &OpenPeriodRequest,
    now: i64,
) -> SqliteResult<Result<Generator, Verdict>> {
    let (name, period) = (ask.key.name(), ask.key.period());
    let row = match find(sqlite, &ask.key)?.transpose() {
        Ok(row) => row,
        Err(bad) => return Ok(Err(Verdict::BadRow(bad))),
    };
    let recent = native::recent_rows(ask);
    let highest = "SELECT coalesce(max(next), 0) FROM getid_sequence WHERE name = ?1 AND length(period) <> length(?2) \
                   AND updated >= ?3 AND (period = '' OR period >= ?4)";
    let columns = params![name, period, recent.since_unix_ms, recent.year];
    let highest = sqlite.query_row(highest, columns, |row| row.get(0))?;
    let found = generator(sqlite, name)?;
    let opening = match native::apply_period_opening(found.as_ref(), row.as_ref(), highest, ask, now) {
        Ok(opening) => opening,
        Err(verdict) => return Ok(Err(verdict)),
    };
    if let Some(after) = &opening.row {
        if row.is_none() {
            insert(sqlite, after)?;
        }
        write_all(sqlite, after)?;
    }
    match opening.others {
        // Other servers hold no values of this file.
        OtherRowsChange::Stay | OtherRowsChange::Renewed => {}
        OtherRowsChange::Dropped { length } => {
            let drop_others = "UPDATE getid_sequence SET state = 'dropped', version = version + 1, \
                               generation = generation + 1 WHERE name = ?1 AND length(period) = ?2 AND state = 'live'";
            sqlite.execute(drop_others, params![name, i64::try_from(length).unwrap_or(i64::MAX)])?;
        }
    }
    if found.as_ref() != Some(&opening.generator) {
        write_generator(sqlite, &opening.generator, now)?;
    }
    Ok(Ok(opening.generator))
}

/// Records that periods have begun.
pub(super) fn begin_periods(sqlite: &Transaction<'_>, begun: &[BegunPeriod], now: i64) -> SqliteResult<()> {
    let mut statement = sqlite.prepare_cached(
        "UPDATE getid_generator SET newest = ?2, updated = ?4 WHERE name = ?1 AND declaration = ?3 AND newest < ?2",
    )?;
    begun.iter().try_for_each(|begun| {
        let columns = params![begun.key.name(), begun.key.period(), begun.declaration, now];
        statement.execute(columns).map(drop)
    })
}

/// Counts ended periods of a generator, and removes some of them.
pub(super) fn prune(
    sqlite: &Transaction<'_>,
    ask: &PruneRequest,
    now: i64,
) -> SqliteResult<Result<PruneResult, Verdict>> {
    let Some(found) = generator(sqlite, &ask.name)? else { return Ok(Err(Verdict::NoSuch)) };
    let Some(pruning) = PrunePlan::new(&found, &ask.through) else { return Ok(Ok(PruneResult::default())) };
    let count = |row: &SqliteRow<'_>| Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?));
    let (rows, first, last) = sqlite.query_row(&pruning.count_sql(), [], count)?;
    let mut pruned = PruneResult { rows: rows.unsigned_abs(), first, last, deleted: 0 };
    if ask.deletes {
        write_generator(sqlite, &pruning.closed, now)?;
        pruned.deleted = sqlite.execute(&pruning.delete_sql(), [])? as u64;
    }
    Ok(Ok(pruned))
}

/// Returns the row of this key, or the error in it.
pub(super) fn find(sqlite: &Transaction<'_>, key: &Key) -> SqliteResult<Option<Result<SequenceRow, String>>> {
    let select = format!("SELECT {COLUMNS} FROM getid_sequence WHERE name = ?1 AND period = ?2");
    let mut statement = sqlite.prepare_cached(&select)?;
    let found = statement.query_row([key.name(), key.period()], raw).optional()?;
    Ok(found.map(RawRow::read))
}

/// Parses a row in the order of [`COLUMNS`].
pub(super) fn raw(row: &SqliteRow<'_>) -> SqliteResult<RawRow> {
    Ok(RawRow {
        name: row.get(0)?,
        period: row.get(1)?,
        next: row.get(2)?,
        version: row.get(3)?,
        generation: row.get(4)?,
        start: row.get(5)?,
        increment: row.get(6)?,
        offset: row.get(7)?,
        cache: row.get(8)?,
        max: row.get(9)?,
        policy: row.get(10)?,
        state: row.get(11)?,
        created: row.get(12)?,
        updated: row.get(13)?,
    })
}

/// Inserts a new row; fails if it exists.
pub(super) fn insert(sqlite: &Transaction<'_>, row: &SequenceRow) -> SqliteResult<()> {
    let insert = format!(
        "INSERT INTO getid_sequence ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
    );
    let mut statement = sqlite.prepare_cached(&insert)?;
    statement.execute(params![
        row.key.name(),
        row.key.period(),
        row.next,
        column(row.version),
        column(row.generation),
        row.spec.start,
        row.spec.increment,
        row.spec.offset,
        row.spec.cache,
        row.spec.max,
        policy_word(row.spec.policy),
        state_word(row.state),
        row.created_unix_ms,
        row.updated_unix_ms,
    ])?;
    Ok(())
}

/// Writes the columns that a reservation, or giving one back, changes.
pub(super) fn write_next(sqlite: &Transaction<'_>, row: &SequenceRow) -> SqliteResult<()> {
    let mut statement = sqlite.prepare_cached(
        "UPDATE getid_sequence SET next = ?3, version = ?4, updated = ?5 WHERE name = ?1 AND period = ?2",
    )?;
    let columns = params![row.key.name(), row.key.period(), row.next, column(row.version), row.updated_unix_ms];
    one(statement.execute(columns)?)
}

/// Writes all columns that a change or a creation may change, and the row's number in the order of changes.
pub(super) fn write_all(sqlite: &Transaction<'_>, row: &SequenceRow) -> SqliteResult<()> {
    let count = "UPDATE getid_store SET changes = changes + 1 WHERE id = 1 RETURNING changes";
    let changed: i64 = sqlite.query_row(count, [], |row| row.get(0))?;
    let mut statement = sqlite.prepare_cached(
        "UPDATE getid_sequence SET next = ?3, version = ?4, generation = ?5, changed = ?6, start = ?7, increment = ?8, \
         offset_ = ?9, cache = ?10, max_value = ?11, policy = ?12, state = ?13, created = ?14, updated = ?15 \
         WHERE name = ?1 AND period = ?2",
    )?;
    one(statement.execute(params![
        row.key.name(),
        row.key.period(),
        row.next,
        column(row.version),
        column(row.generation),
        changed,
        row.spec.start,
        row.spec.increment,
        row.spec.offset,
        row.spec.cache,
        row.spec.max,
        policy_word(row.spec.policy),
        state_word(row.state),
        row.created_unix_ms,
        row.updated_unix_ms,
    ])?)
}

/// Fails, and so rolls the transaction back, unless one row was written: the row was just read.
fn one(rows: usize) -> SqliteResult<()> {
    if rows == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(rows)) }
}
