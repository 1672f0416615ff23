//! The dialect of PostgreSQL, the SQL of getid's own tables, and a reservation: one statement, which is a transaction
//! of its own.

use std::collections::HashSet;
use std::fmt::Display;

use getid_core::server::beat::Credentials;

use super::failures::unexpected;
use super::link::PostgresLink;
use crate::sql::beats;
use crate::sql::connection::ReserveLink;
use crate::sql::native::{self, COLUMNS, RawRow, column};
use crate::sql::packet::{Dialect, Link as _, Packet, RecordDialect, SqlRow, hex};
use crate::sql::{Reservation, Reservations, ReserveRequest, ServerBeat, StoreError, Verdict};

/// Query that sets `synchronous_commit` to `on` for this transaction, unless it is stronger. With a weaker default an
/// acknowledged commit could be lost.
macro_rules! safe {
    () => {
        "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') \
         WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)"
    };
}

impl Dialect for PostgresLink {
    const IS_SHARED: bool = true;
    const BEGIN: &'static [&'static str] = &["BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", safe!()];
    const NOW: &'static str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    // A promoted standby has another start time.
    const INSTANCE: &'static str = "extract(epoch FROM pg_postmaster_start_time())::text";

    /// The meaning of a backslash in a literal depends on a setting, and NUL ends the message.
    fn text(text: &str) -> String {
        if text.contains(['\\', '\0']) {
            return format!("convert_from(decode('{}', 'hex'), 'UTF8')", hex(text.as_bytes()));
        }
        format!("'{}'", text.replace('\'', "''"))
    }

    /// The type `char(n)` is padded with blanks, which the cast removes.
    fn column_text(column: &str) -> String {
        format!("{column}::text")
    }

    fn maximum_sql(table: &str, id: i64) -> Option<String> {
        Some(format!("SELECT current_max_id::bigint FROM {table} WHERE id = {id}"))
    }
}

impl ReserveLink for PostgresLink {
    /// Reserves values by one statement.
    async fn reserve(
        &mut self,
        server: Option<Credentials>,
        asks: &[ReserveRequest],
    ) -> Result<Reservations, StoreError> {
        let mut keys = HashSet::with_capacity(asks.len());
        if let Some(twice) = asks.iter().find(|ask| !keys.insert(&ask.key)) {
            // One UPDATE writes a row only once.
            return Err(StoreError::Refused(format!("'{}' is twice in one reservation", twice.key)));
        }
        let rows = self.run(Packet::of(reserve_sql(server, asks))).await?.swap_remove(0).rows;
        let beat =
            |row: &SqlRow| Some(ServerBeat { beat: row.number(BEAT)?.unsigned_abs(), instance: row.text(BEAT + 1)? });
        let server = match (server, rows.first()) {
            (Some(_), Some(row)) => Some(beat(row).ok_or_else(|| unexpected("has answered without a beat"))?),
            (Some(_), None) if !asks.is_empty() => return Err(beats::server_row_error()),
            _ => None,
        };
        let mut answers: Vec<Option<Result<Reservation, Verdict>>> = vec![None; asks.len()];
        for row in &rows {
            let nth = row.number(0).and_then(|nth| usize::try_from(nth).ok()).unwrap_or(0).wrapping_sub(1);
            if let (Some(ask), Some(answer)) = (asks.get(nth), answers.get_mut(nth)) {
                *answer = Some(reserved(row, ask)?);
            }
        }
        let each =
            answers.into_iter().collect::<Option<_>>().ok_or_else(|| unexpected("has not answered for each row"))?;
        Ok(Reservations { server, each })
    }
}

impl RecordDialect for PostgresLink {
    const WRITTEN_AT: &'static str = "clock_timestamp()";
    const IS_READ_ONLY: Option<&'static str> = Some("SELECT pg_is_in_recovery()");
}

/// SQL of the tables. Times are Unix ms; `crate::sql::native` describes the other columns.
pub(super) const SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS getid_store (
  id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
  uuid uuid NOT NULL,
  changes bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS getid_sequence (
  name text COLLATE \"C\" NOT NULL,
  series text COLLATE \"C\" NOT NULL DEFAULT '',
  period text COLLATE \"C\" NOT NULL DEFAULT '',
  next bigint NOT NULL CHECK (next >= 0),
  version bigint NOT NULL DEFAULT 0,
  generation bigint NOT NULL DEFAULT 0,
  changed bigint NOT NULL DEFAULT 0,
  start bigint NOT NULL DEFAULT 1 CHECK (start >= 0),
  increment bigint NOT NULL DEFAULT 1 CHECK (increment BETWEEN 1 AND 1000000),
  offset_ bigint NOT NULL DEFAULT 1 CHECK (offset_ BETWEEN 1 AND increment),
  cache bigint NOT NULL DEFAULT 100 CHECK (cache BETWEEN 0 AND 10000000),
  max_value bigint NOT NULL DEFAULT 9000000000000000000 CHECK (max_value BETWEEN 0 AND 9000000000000000000),
  policy text NOT NULL DEFAULT '' CHECK (policy IN ('', 'wait', 'error')),
  state text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'dropped', 'went-back', 'ledger')),
  created bigint NOT NULL DEFAULT 0,
  updated bigint NOT NULL DEFAULT 0,
  ends bigint NOT NULL DEFAULT 0 CHECK (ends >= 0),
  PRIMARY KEY (name, series, period)
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS getid_sequence_changed ON getid_sequence (changed);
CREATE TABLE IF NOT EXISTS getid_beat (
  nonce text COLLATE \"C\" PRIMARY KEY,
  life text COLLATE \"C\" NOT NULL,
  beat bigint NOT NULL CHECK (beat >= 0),
  acknowledged bigint NOT NULL DEFAULT 0 CHECK (acknowledged >= 0),
  state text NOT NULL CHECK (state IN ('live', 'doubt', 'left', 'gone', 'released', 'returning')),
  address text NOT NULL DEFAULT '',
  updated bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS getid_generator (
  name text COLLATE \"C\" PRIMARY KEY,
  declaration text NOT NULL,
  reset text NOT NULL,
  newest text COLLATE \"C\" NOT NULL DEFAULT '',
  closed_through text COLLATE \"C\" NOT NULL DEFAULT '',
  keys_count bigint NOT NULL DEFAULT 0 CHECK (keys_count >= 0),
  ledger bigint NOT NULL DEFAULT 0,
  requests bigint NOT NULL DEFAULT 0,
  released_requests bigint NOT NULL DEFAULT 0,
  updated bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS getid_request (
  owner text COLLATE \"C\" NOT NULL,
  name text COLLATE \"C\" NOT NULL,
  request text COLLATE \"C\" NOT NULL,
  fingerprint text NOT NULL,
  reply text NOT NULL,
  made bigint NOT NULL,
  kept_until bigint NOT NULL,
  PRIMARY KEY (owner, name, request)
);
CREATE INDEX IF NOT EXISTS getid_request_until ON getid_request (kept_until);
CREATE TABLE IF NOT EXISTS getid_request_count (
  name text COLLATE \"C\" PRIMARY KEY,
  requests bigint NOT NULL
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS getid_number (
  name text COLLATE \"C\" NOT NULL,
  series text COLLATE \"C\" NOT NULL DEFAULT '',
  period text COLLATE \"C\" NOT NULL DEFAULT '',
  number bigint NOT NULL CHECK (number >= 1),
  last bigint NOT NULL CHECK (last >= number),
  text text COLLATE \"C\" NOT NULL,
  state text COLLATE \"C\" NOT NULL CHECK (state IN ('reserved', 'committed', 'released', 'void', 'unclear')),
  since bigint NOT NULL,
  due bigint NOT NULL DEFAULT 0,
  request text COLLATE \"C\" NOT NULL DEFAULT '',
  owner text COLLATE \"C\" NOT NULL DEFAULT '',
  reason text NOT NULL DEFAULT '',
  entry bigint NOT NULL,
  PRIMARY KEY (name, series, period, number),
  CONSTRAINT getid_number_text UNIQUE (name, text)
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS getid_number_state ON getid_number (name, state, series, period, number);
CREATE INDEX IF NOT EXISTS getid_number_entry ON getid_number (name, entry);
CREATE TABLE IF NOT EXISTS getid_number_request (
  name text COLLATE \"C\" NOT NULL,
  request text COLLATE \"C\" NOT NULL,
  owner text COLLATE \"C\" NOT NULL,
  series text COLLATE \"C\" NOT NULL DEFAULT '',
  period text COLLATE \"C\" NOT NULL DEFAULT '',
  number bigint NOT NULL,
  state text NOT NULL CHECK (state IN ('reserved', 'committed', 'released', 'void')),
  PRIMARY KEY (name, request)
) WITH (fillfactor = 80);
INSERT INTO getid_beat (nonce, life, beat, state)
  VALUES (repeat('0', 32), repeat('0', 32), 0, 'left') ON CONFLICT DO NOTHING;
INSERT INTO getid_store (uuid)
  VALUES (md5(random()::text || random()::text || clock_timestamp()::text || pg_backend_pid()::text)::uuid)
  ON CONFLICT DO NOTHING;
";

/// Settings of a session, independent of the defaults of the database and the role. `lock_timeout` limits the wait for
/// a locked row. The last three end the transactions of a session whose client is gone.
pub(super) const SETTINGS: &str = "\
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET default_transaction_deferrable = off;
SET TimeZone = 'UTC';
SET client_min_messages = 'warning';
SET jit = off;
SET lock_timeout = '1s';
SET statement_timeout = '2s';
SET idle_in_transaction_session_timeout = '10s';
";

/// Query for facts about the server, sent first.
pub(super) const SERVER: &str = concat!(
    "SELECT current_setting('server_version_num')::int, split_part(current_setting('server_version'), ' ', 1), \
     pg_is_in_recovery(), current_setting('fsync'), current_setting('full_page_writes'), \
     (extract(epoch FROM clock_timestamp()) * 1000)::bigint, (",
    safe!(),
    ")"
);

/// Query for tables: which exist, their persistence, and the user's permissions.
pub(super) fn tables_sql(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("to_regclass('{name}')")).collect();
    format!(
        "SELECT c.relname::text, c.relpersistence::text, has_any_column_privilege(c.oid, 'SELECT'), \
         has_any_column_privilege(c.oid, 'INSERT'), has_any_column_privilege(c.oid, 'UPDATE') \
         FROM pg_class c WHERE c.oid IN ({})",
        names.join(", ")
    )
}

/// Lock of a creation of the tables, until the transaction ends: two at a time would fail.
pub(super) const SCHEMA_LOCK: &str = "SELECT pg_advisory_xact_lock(7310313044195110228)";

/// Condition that `RawRow::read` accepts a row. A row that it refuses is neither used nor written.
const READABLE: &str = "next BETWEEN 0 AND 9100000000000000000 AND version >= 0 AND generation >= 0 \
                        AND start BETWEEN 0 AND 9000000000000000000 AND increment BETWEEN 1 AND 1000000 \
                        AND offset_ BETWEEN 1 AND increment AND cache BETWEEN 0 AND 10000000 \
                        AND max_value BETWEEN 0 AND 9000000000000000000 AND policy IN ('', 'wait', 'error') \
                        AND ends >= 0";

/// Columns of [`reserve_sql`] before those of the row.
const BEFORE_ROW: usize = 4;

/// Column of the server's beat in [`reserve_sql`], which the instance follows.
const BEAT: usize = BEFORE_ROW + native::COLUMN_COUNT;

/// Returns the statement that reserves. It returns the row as found, and, if it was written, its new `next`, `version`
/// and `updated`; then the server's beat, and the instance.
///
/// `own` adds 1 to the beat of the server; if its row does not permit that, no rows are returned. `found` locks the
/// rows in the order of their keys, which all servers keep, and reads them once locked. `accepted` writes those that
/// have a `first`. The SQL computes the same as [`native::apply_reservation`], and the results are compared.
fn reserve_sql(server: Option<Credentials>, asks: &[ReserveRequest]) -> String {
    let is_own = server.map_or("FALSE".to_owned(), |server| beats::is_allowed(server, beats::LIVE));
    let has_own = if server.is_some() { "EXISTS (SELECT 1 FROM own)" } else { "TRUE" };
    let names = array(asks.iter().map(|ask| format!("'{}'", ask.key.name())), "text");
    let series = array(asks.iter().map(|ask| format!("'{}'", ask.key.series())), "text");
    let periods = array(asks.iter().map(|ask| format!("'{}'", ask.key.period())), "text");
    let values = array(asks.iter().map(native::values_of), "bigint");
    let floors = array(asks.iter().map(native::floor_of), "bigint");
    let (safe, now, instance) = (safe!(), PostgresLink::NOW, PostgresLink::INSTANCE);
    format!(
        "WITH safe AS MATERIALIZED ({safe}), own AS (\
         UPDATE getid_beat SET beat = beat + 1, updated = {now} WHERE {is_own} RETURNING beat\
         ), requested AS MATERIALIZED (\
         SELECT a.* FROM safe, unnest({names}, {series}, {periods}, {values}, {floors}) \
         WITH ORDINALITY AS a(of_name, of_series, of_period, most, lowest, nth) WHERE {has_own}\
         ), found AS MATERIALIZED (\
         SELECT a.nth, a.most, greatest(s.next, a.lowest, s.start, 0) AS low, s.* \
         FROM requested a JOIN getid_sequence s ON s.name = a.of_name AND s.series = a.of_series \
         AND s.period = a.of_period ORDER BY s.name, s.series, s.period FOR UPDATE OF s\
         ), sized AS MATERIALIZED (\
         SELECT f.*, CASE WHEN state = 'live' AND {READABLE} \
         AND (ends = 0 OR ends > {now}) \
         THEN low + ((offset_ - low) % increment + increment) % increment END AS first FROM found f\
         ), accepted AS (\
         UPDATE getid_sequence s SET version = s.version + 1, updated = {now}, \
         next = z.first + least(z.most, (z.max_value - z.first) / z.increment + 1) * z.increment \
         FROM sized z WHERE s.name = z.name AND s.series = z.series AND s.period = z.period \
         AND z.first <= z.max_value \
         RETURNING z.nth, s.next AS new_next, s.version AS new_version, s.updated AS new_updated\
         ) SELECT a.nth, new_next, new_version, new_updated, {COLUMNS}, (SELECT beat FROM own), {instance} \
         FROM requested a LEFT JOIN found f ON f.nth = a.nth LEFT JOIN accepted t ON t.nth = a.nth"
    )
}

/// Returns an array as an expression.
fn array(items: impl Iterator<Item = impl Display>, of: &str) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    format!("ARRAY[{}]::{of}[]", items.join(", "))
}

/// Returns the reservation that the pure rule computes from the row that was found. Fails if the database's result
/// differs.
fn reserved(row: &SqlRow, ask: &ReserveRequest) -> Result<Result<Reservation, Verdict>, StoreError> {
    let written = row.number(1).zip(row.number(2)).zip(row.number(3));
    if row.text(BEFORE_ROW).is_none() {
        return Ok(Err(Verdict::NoSuch));
    }
    let found = match RawRow::from_column(row, BEFORE_ROW).read() {
        Ok(found) => found,
        Err(bad) => return Ok(Err(Verdict::BadRow(bad.to_string()))),
    };
    let reserved = native::apply_reservation(&found, ask, written.map(|(_, updated)| updated));
    let expected = match &reserved {
        Ok(reserved) if reserved.last >= reserved.first => Some((reserved.row.next, column(reserved.row.version))),
        _ => None,
    };
    if written.map(|(written, _)| written) == expected {
        Ok(reserved)
    } else {
        Err(unexpected(&format!("has written the row of '{}' in another way: is there a trigger?", ask.key)))
    }
}

#[cfg(test)]
mod tests {
    use getid_core::server::{INCREMENT_MAX, RESERVED_MAX, Spec, VALUE_MAX};

    use super::*;
    use crate::sql::native::NEXT_MAX;

    /// SQL cannot use Rust constants, so their values are repeated. This test compares them.
    #[test]
    fn the_bounds_in_sql_are_those_of_rows() {
        for bound in [
            format!("next BETWEEN 0 AND {NEXT_MAX} AND"),
            format!("start BETWEEN 0 AND {VALUE_MAX} AND"),
            format!("increment BETWEEN 1 AND {INCREMENT_MAX} "),
            format!("cache BETWEEN 0 AND {RESERVED_MAX} "),
            format!("max_value BETWEEN 0 AND {VALUE_MAX} "),
        ] {
            assert!(READABLE.contains(&bound), "{bound}");
        }
        let default = Spec::default();
        for column in [
            format!("CHECK (increment BETWEEN 1 AND {INCREMENT_MAX})"),
            format!("CHECK (cache BETWEEN 0 AND {RESERVED_MAX})"),
            format!("CHECK (max_value BETWEEN 0 AND {VALUE_MAX})"),
            format!("start bigint NOT NULL DEFAULT {} ", default.start),
            format!("increment bigint NOT NULL DEFAULT {} ", default.increment),
            format!("offset_ bigint NOT NULL DEFAULT {} ", default.offset),
            format!("cache bigint NOT NULL DEFAULT {} ", default.cache),
            format!("max_value bigint NOT NULL DEFAULT {} ", default.max),
        ] {
            assert!(SCHEMA.contains(&column), "{column}");
        }
    }
}
