//! SQL statements. Each statement that reserves is a transaction of its own, and one round trip: no partial state is
//! possible.
//!
//! All are sent as unnamed statements with typed parameters. So a pooler that assigns each transaction another
//! connection to the database needs no state about them.

/// SQL of the tables. Times are Unix ms; `super::super::native` describes the other columns.
pub(super) const SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS getid_store (
  id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
  uuid uuid NOT NULL,
  changes bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS getid_sequence (
  name text COLLATE \"C\" NOT NULL,
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
  state text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'dropped', 'went-back')),
  created bigint NOT NULL DEFAULT 0,
  updated bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (name, period)
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
  updated bigint NOT NULL DEFAULT 0
);
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

/// Query for the tokens of Tinyid's clients, whatever the types of the table's columns.
pub(super) const TOKENS: &str = "\
SELECT token::text, biz_type::text FROM tiny_id_token WHERE token <> '' AND biz_type <> '' ORDER BY 1, 2 LIMIT $1";

macro_rules! now_ms {
    () => {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    };
}

/// Sets `synchronous_commit` to `on` for this transaction, unless it is stronger. With a weaker default an acknowledged
/// commit could be lost.
macro_rules! safe {
    () => {
        "set_config('synchronous_commit', CASE current_setting('synchronous_commit') \
         WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)"
    };
}

pub(super) use safe;

/// Adds 1 to a server's beat.
macro_rules! beat_sql {
    ($nonce:literal, $life:literal, $at_least:literal, $states:literal) => {
        concat!(
            "UPDATE getid_beat SET beat = beat + 1, updated = ",
            now_ms!(),
            " WHERE nonce = ",
            $nonce,
            " AND life = ",
            $life,
            " AND beat >= ",
            $at_least,
            " AND state IN (",
            $states,
            ") RETURNING beat"
        )
    };
}

/// Columns of `RawServer`, in its order.
macro_rules! server {
    () => {
        "nonce::text, life::text, beat::bigint, acknowledged::bigint, state::text, address::text"
    };
}

/// Expression for the instance of the database: a promoted standby has another start time.
macro_rules! instance {
    () => {
        "extract(epoch FROM pg_postmaster_start_time())::text"
    };
}

/// Columns of `RawRow`, in its order. The casts accept other types of integers and texts.
macro_rules! row {
    () => {
        "name::text, period::text, next::bigint, version::bigint, generation::bigint, start::bigint, \
         increment::bigint, offset_::bigint, cache::bigint, max_value::bigint, policy::text, state::text, \
         created::bigint, updated::bigint"
    };
}

/// Condition that `RawRow::read` accepts a row. A row that it refuses is neither used nor written.
macro_rules! readable {
    () => {
        "next BETWEEN 0 AND 9100000000000000000 AND version >= 0 AND generation >= 0 \
         AND start BETWEEN 0 AND 9000000000000000000 AND increment BETWEEN 1 AND 1000000 \
         AND offset_ BETWEEN 1 AND increment AND cache BETWEEN 0 AND 10000000 \
         AND max_value BETWEEN 0 AND 9000000000000000000 AND policy IN ('', 'wait', 'error')"
    };
}

/// Query for facts about the server, sent first.
pub(super) const SERVER: &str = concat!(
    "SELECT current_setting('server_version_num')::int, split_part(current_setting('server_version'), ' ', 1), ",
    "pg_is_in_recovery(), current_setting('fsync'), current_setting('full_page_writes'), ",
    now_ms!(),
    ", ",
    safe!()
);

/// Query for the tables: which exist, their persistence, and the user's permissions.
pub(super) const TABLES: &str = "\
SELECT c.relname::text, c.relpersistence::text, has_any_column_privilege(c.oid, 'SELECT'),
  has_any_column_privilege(c.oid, 'UPDATE'), has_any_column_privilege(c.oid, 'INSERT')
FROM pg_class c WHERE c.oid IN (to_regclass('getid_store'), to_regclass('getid_sequence'), to_regclass('getid_beat'),
  to_regclass('getid_generator'))";

/// Lock of a creation of the tables, until the transaction ends: two at a time would fail.
pub(super) const SCHEMA_LOCK: &str = "SELECT pg_advisory_xact_lock(7310313044195110228)";

/// Query for the store's row, which names all columns of the other table, so that a missing one is detected.
pub(super) const STORE: &str = concat!(
    "SELECT t.uuid::text, (SELECT count(*) FROM (SELECT ",
    row!(),
    ", s.changed FROM getid_sequence s LIMIT 1) AS any_row) FROM getid_store t WHERE t.id = 1"
);

/// Reserves for each of `$1` (names) and `$2` (periods) at most `$3` values, none below `$4`. Returns the row as found,
/// and, if it was written, its new `next`, `version` and `updated`; then the server's beat, and the instance.
///
/// `own` adds 1 to the beat of the server with the nonce `$5` and the life `$6`, if it is at least `$7`; else no rows
/// are returned. An empty nonce is that of a tool. `found` locks the rows in the order of their keys, which all servers
/// keep, and reads them once locked. `accepted` writes those that have a `first`. The SQL computes the same as
/// `native::apply_reservation`, and the results are compared.
pub(super) const RESERVE: &str = concat!(
    "WITH safe AS MATERIALIZED (SELECT ",
    safe!(),
    "), own AS (",
    beat_sql!("$5", "$6", "$7", "'live', 'doubt'"),
    "), requested AS MATERIALIZED (\
     SELECT a.* FROM safe, unnest($1, $2, $3, $4) WITH ORDINALITY AS a(of_name, of_period, most, lowest, nth) \
     WHERE $5 = '' OR EXISTS (SELECT 1 FROM own)\
     ), found AS MATERIALIZED (\
     SELECT a.nth, a.most, greatest(s.next, a.lowest, s.start, 0) AS low, s.* \
     FROM requested a JOIN getid_sequence s ON s.name = a.of_name AND s.period = a.of_period \
     ORDER BY s.name, s.period FOR UPDATE OF s\
     ), sized AS MATERIALIZED (\
     SELECT f.*, CASE WHEN state = 'live' AND ",
    readable!(),
    " THEN low + ((offset_ - low) % increment + increment) % increment END AS first FROM found f\
     ), accepted AS (\
     UPDATE getid_sequence s SET version = s.version + 1, updated = ",
    now_ms!(),
    ", next = z.first + least(z.most, (z.max_value - z.first) / z.increment + 1) * z.increment \
     FROM sized z WHERE s.name = z.name AND s.period = z.period AND z.first <= z.max_value \
     RETURNING z.nth, s.next AS new_next, s.version AS new_version, s.updated AS new_updated\
     ) SELECT a.nth::bigint, new_next::bigint, new_version::bigint, new_updated::bigint, ",
    row!(),
    ", (SELECT beat FROM own), ",
    instance!(),
    " FROM requested a LEFT JOIN found f ON f.nth = a.nth LEFT JOIN accepted t ON t.nth = a.nth"
);

/// Adds 1 to the beat of the server with the nonce `$1` and the life `$2`, if it is at least `$3` and live.
pub(super) const BEAT_LIVE: &str = beat_sql!("$1", "$2", "$3", "'live', 'doubt'");

/// Adds 1 to a server's beat as [`BEAT_LIVE`] does, even if the server compares its notes (`returning`).
pub(super) const BEAT_COMPARING: &str = beat_sql!("$1", "$2", "$3", "'live', 'doubt', 'returning'");

/// Query for the rows of the servers `$1`, locked in the order in which all servers lock them.
pub(super) const LOCK_SERVERS: &str =
    concat!("SELECT ", server!(), " FROM getid_beat WHERE nonce = ANY ($1) ORDER BY nonce FOR UPDATE");

/// Query for the rows of servers, at most `$1`: all if `$2`, else those of live and returning servers, and of `$3`.
pub(super) const SERVERS: &str = concat!(
    "SELECT ",
    server!(),
    ", ",
    instance!(),
    " FROM getid_beat WHERE $2 OR state NOT IN ('left', 'gone', 'released') \
     OR nonce = ANY ($3) LIMIT $1"
);

/// Writes rows of servers.
pub(super) const WRITE_SERVERS: &str = concat!(
    "INSERT INTO getid_beat (nonce, life, beat, acknowledged, state, address, updated) \
     SELECT a.nonce, a.life, a.beat, a.acknowledged, a.state, a.address, ",
    now_ms!(),
    " FROM (SELECT ",
    safe!(),
    ") AS safe, unnest($1, $2, $3, $4, $5, $6) AS a(nonce, life, beat, acknowledged, state, address) \
     ON CONFLICT (nonce) DO UPDATE SET life = excluded.life, beat = excluded.beat, \
     acknowledged = excluded.acknowledged, state = excluded.state, address = excluded.address, \
     updated = excluded.updated"
);

/// Query for the rows of `$1` (names) and `$2` (periods), locked in the order of their keys.
pub(super) const LOCK_ROWS: &str = concat!(
    "SELECT ",
    row!(),
    " FROM getid_sequence s WHERE (s.name, s.period) IN (SELECT * FROM unnest($1, $2)) \
     ORDER BY s.name, s.period FOR UPDATE"
);

/// Raises the rows of `$1` (names) and `$2` (periods) to `$3`.
pub(super) const RAISE_ROWS: &str = concat!(
    "UPDATE getid_sequence s SET next = a.next, version = s.version + 1, updated = ",
    now_ms!(),
    " FROM (SELECT ",
    safe!(),
    ") AS safe, unnest($1, $2, $3) AS a(name, period, next) WHERE s.name = a.name AND s.period = a.period"
);

/// Gives values from `$4` on back to each of `$1` (names) and `$2` (periods) whose version is still `$3`. Returns the
/// positions of the rows that changed, from 1. The rule is that of `native::apply_give_back`. `own` locks the server's
/// row; its beat stays.
pub(super) const GIVE_BACK: &str = concat!(
    "WITH safe AS MATERIALIZED (SELECT ",
    safe!(),
    "), own AS (",
    "SELECT 1 FROM getid_beat WHERE nonce = $5 AND life = $6 AND beat >= $7 AND state IN ('live', 'doubt') FOR UPDATE",
    "), requested AS MATERIALIZED (\
     SELECT a.* FROM safe, unnest($1, $2, $3, $4) WITH ORDINALITY AS a(name, period, seen, back, nth) \
     WHERE $5 = '' OR EXISTS (SELECT 1 FROM own)\
     ), found AS MATERIALIZED (\
     SELECT a.nth, a.back, s.name, s.period \
     FROM requested a JOIN getid_sequence s ON s.name = a.name AND s.period = a.period \
     WHERE s.version = a.seen AND s.state = 'live' AND a.back < s.next AND a.back >= s.start \
     AND (a.back - s.offset_) % nullif(s.increment, 0) = 0 \
     ORDER BY s.name, s.period FOR UPDATE OF s\
     ) UPDATE getid_sequence s SET next = f.back, version = s.version + 1, updated = ",
    now_ms!(),
    " FROM found f WHERE s.name = f.name AND s.period = f.period RETURNING f.nth::bigint"
);

/// Inserts new rows without reservations, with the creation time `$12`, or the present time if that is 0. Existing rows
/// stay as they are.
pub(super) const INSERT: &str = concat!(
    "INSERT INTO getid_sequence (name, period, next, version, generation, changed, start, increment, offset_, cache, \
     max_value, policy, state, created, updated) \
     SELECT a.name, a.period, a.next, a.version, a.generation, a.changed, a.start, a.increment, a.offset_, a.cache, \
     a.max_value, a.policy, 'live', coalesce(nullif(a.made, 0), n.now), coalesce(nullif(a.made, 0), n.now) \
     FROM (SELECT ",
    now_ms!(),
    " AS now, ",
    safe!(),
    ") AS n, unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) AS a(name, period, next, version, \
     generation, changed, start, increment, offset_, cache, max_value, made, policy) ON CONFLICT DO NOTHING"
);

/// Begins a transaction that changes a row.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// Takes the next number of a change. It locks the store's row until the end, so numbers are in the order of commits.
pub(super) const TICK: &str =
    concat!("UPDATE getid_store SET changes = changes + 1 WHERE id = 1 RETURNING changes, ", now_ms!(), ", ", safe!());

/// Counts more changes in a transaction that took one number already.
pub(super) const MORE_CHANGES: &str = "UPDATE getid_store SET changes = changes + $1 WHERE id = 1";

/// Query for one row, which it locks.
pub(super) const LOCK_ROW: &str =
    concat!("SELECT ", row!(), " FROM getid_sequence s WHERE s.name = $1 AND s.period = $2 FOR UPDATE");

/// Query for one row.
pub(super) const ROW: &str = concat!("SELECT ", row!(), " FROM getid_sequence s WHERE s.name = $1 AND s.period = $2");

/// Writes all columns of a locked row.
pub(super) const WRITE_ROW: &str = "\
UPDATE getid_sequence SET next = $3, version = $4, generation = $5, changed = $6, start = $7, increment = $8,
  offset_ = $9, cache = $10, max_value = $11, policy = $12, state = $13, created = $14, updated = $15
WHERE name = $1 AND period = $2";

/// Query for the rows after the key `$1` and `$2`, those of periods too if `$3`, at most `$4`.
pub(super) const LIST: &str = concat!(
    "SELECT ",
    row!(),
    " FROM getid_sequence s WHERE (s.name, s.period) > ($1, $2) AND ($3 OR s.period = '') AND s.state <> 'dropped' \
     ORDER BY s.name, s.period LIMIT $4"
);

/// Columns of a generator.
macro_rules! generator {
    () => {
        "name::text, declaration::text, reset::text, newest::text, closed_through::text"
    };
}

/// Query for the rows of the generators `$1`, or of all if that is NULL, at most `$2`.
pub(super) const GENERATORS: &str = concat!(
    "SELECT ",
    generator!(),
    " FROM getid_generator WHERE $1::text[] IS NULL OR name = ANY ($1) ORDER BY name LIMIT $2"
);

/// Query for the row of the generator `$1`, which it locks.
pub(super) const LOCK_GENERATOR: &str =
    concat!("SELECT ", generator!(), " FROM getid_generator WHERE name = $1 FOR UPDATE");

/// Writes the row of a generator: its name, its columns, and the time.
pub(super) const WRITE_GENERATOR: &str = "\
INSERT INTO getid_generator (name, declaration, reset, newest, closed_through, updated) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (name) DO UPDATE SET declaration = excluded.declaration, reset = excluded.reset,
  newest = excluded.newest, closed_through = excluded.closed_through, updated = excluded.updated";

/// Query for the largest `next` of rows of the name `$1` whose periods have another length than `$2`. The rows were
/// written at `$3` or later, and have no period or one from the year `$4` on. They are locked: a reservation from one
/// of them ends before, or finds it dropped.
pub(super) const HIGHEST_OF_OTHER_PERIODS: &str = "\
SELECT coalesce(max(o.next), 0)::bigint FROM (
  SELECT next FROM getid_sequence WHERE name = $1 AND length(period) <> length($2) AND updated >= $3
    AND (period = '' OR period >= $4) ORDER BY name, period FOR UPDATE
) AS o";

/// Drops the live rows of the name `$1` whose periods have the length `$2`, as the change `$3`.
pub(super) const DROP_PERIODS: &str = "\
UPDATE getid_sequence SET state = 'dropped', version = version + 1, generation = generation + 1, changed = $3
WHERE name = $1 AND length(period) = $2 AND state = 'live'";

/// Gives live rows of the name `$1` a new generation, as the change `$3`: those of other periods than `$2` that were
/// written at `$4` or later.
pub(super) const RENEW_PERIODS: &str = "\
UPDATE getid_sequence SET version = version + 1, generation = generation + 1, changed = $3
WHERE name = $1 AND period <> $2 AND state = 'live' AND updated >= $4";

/// Sets the newest periods of the generators `$1` with the declarations `$3` to `$2`, where these are later.
pub(super) const BEGIN_PERIODS: &str = concat!(
    "UPDATE getid_generator g SET newest = a.period, updated = ",
    now_ms!(),
    " FROM unnest($1, $2, $3) AS a(name, period, declaration) \
     WHERE g.name = a.name AND g.declaration = a.declaration AND g.newest < a.period"
);

/// Query for the number of rows that a full list has, without those of periods.
pub(super) const COUNT: &str = "SELECT count(*) FROM getid_sequence WHERE period = '' AND state <> 'dropped'";

/// Query for the same number as [`COUNT`], at most `$1`.
pub(super) const COUNT_UP_TO: &str = "\
SELECT count(*) FROM (SELECT FROM getid_sequence WHERE period = '' AND state <> 'dropped' LIMIT $1) AS counted";

/// Query for the number of the last change, and the rows that were changed after `$1`, at most `$2`, in order.
pub(super) const CHANGES: &str = "\
SELECT t.changes, c.name::text, c.period::text, c.generation::bigint, c.changed::bigint
FROM getid_store t LEFT JOIN LATERAL (
  SELECT s.name, s.period, s.generation, s.changed
  FROM getid_sequence s WHERE s.changed > $1 ORDER BY s.changed LIMIT $2
) AS c ON true WHERE t.id = 1 ORDER BY c.changed";

/// Query for the number of the last change.
pub(super) const CHANGES_UPTO: &str = "SELECT changes FROM getid_store WHERE id = 1";

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
            assert!(RESERVE.contains(&bound), "{bound}");
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
