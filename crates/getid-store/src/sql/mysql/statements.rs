//! The dialect of MySQL and MariaDB, and the SQL of getid's own tables.

use getid_core::server::Key;

use super::link::MysqlLink;
use crate::sql::connection::ReserveLink;
use crate::sql::packet::{Dialect, RecordDialect, hex};
use crate::sql::script;

impl ReserveLink for MysqlLink {}

impl Dialect for MysqlLink {
    const IS_SHARED: bool = true;
    const BEGIN: &'static [&'static str] = &["START TRANSACTION"];
    // If this process stops between two packets, the server ends the connection after this time, in seconds.
    const HOLD: [&'static [&'static str]; 2] =
        [&["SET SESSION wait_timeout = 10"], &["SET SESSION wait_timeout = DEFAULT"]];
    const NOW: &'static str = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)";
    const INSTANCE: &'static str = "CONCAT(@@hostname, ' ', @@port, ' ', @@server_id)";
    const FOR_SHARE: &'static str = " LOCK IN SHARE MODE";
    const BY_KEY: &'static str = " FORCE INDEX (PRIMARY)";
    const BY_STATE: &'static str = " FORCE INDEX (getid_number_state)";
    const CURRENT: &'static str = Self::FOR_SHARE;
    const OR_NOTHING: &'static str = " ON DUPLICATE KEY UPDATE version = version";
    const GREATEST_LEAST: [&'static str; 2] = ["GREATEST", "LEAST"];
    const DIV: &'static str = "DIV";

    /// A comparison of several columns at a time would not use the index.
    fn rows_of<'a>(keys: impl Iterator<Item = &'a Key>) -> String {
        format!("getid_sequence{} WHERE {}", Self::BY_KEY, script::or(keys.map(script::is_row)))
    }

    /// A list of literals would be a table without the collation of the column, and the index would not be used.
    fn names_with_numbers_sql(names: &[&str]) -> Vec<String> {
        let of_name = |name| format!("SELECT name FROM getid_number WHERE name = '{name}' LIMIT 1{}", Self::CURRENT);
        names.iter().map(of_name).collect()
    }

    /// Hexadecimal digits cannot end a literal.
    fn text(text: &str) -> String {
        if text.is_empty() { "''".to_owned() } else { format!("_utf8mb4 x'{}'", hex(text.as_bytes())) }
    }

    /// A text that is not a valid name is written in hexadecimal digits, and compared without the index.
    fn compared(column: &str, operator: &str, with: &str) -> String {
        // A comparison would ignore a blank at the end.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-{}# ".contains(&byte);
        if with.bytes().all(is_plain) && !with.ends_with(' ') {
            return format!("{column} {operator} '{with}'");
        }
        format!("CAST({column} AS BINARY) {operator} x'{}'", hex(with.as_bytes()))
    }

    /// A comparison of two columns at a time would not use the index.
    fn is_after([name, series, period]: [&str; 3]) -> String {
        let compared = Self::compared;
        format!(
            "({} OR ({} AND ({} OR ({} AND {}))))",
            compared("name", ">", name),
            compared("name", "=", name),
            compared("series", ">", series),
            compared("series", "=", series),
            compared("period", ">", period)
        )
    }

    /// A comparison of several columns at a time would not use the index.
    fn is_behind(of: &[(&str, &str)]) -> String {
        let Some(((column, literal), rest)) = of.split_first() else { return "FALSE".to_owned() };
        format!("({column} > {literal} OR ({column} = {literal} AND {}))", Self::is_behind(rest))
    }

    fn or_overwrite(_key: &str, columns: &[&str]) -> String {
        let columns: Vec<String> = columns.iter().map(|column| format!("{column} = VALUES({column})")).collect();
        format!(" ON DUPLICATE KEY UPDATE {}", columns.join(", "))
    }

    fn delete_sql(condition: &str, limit: u64) -> String {
        format!("DELETE FROM getid_sequence WHERE {condition} LIMIT {limit}")
    }

    fn maximum_sql(table: &str, id: i64) -> Option<String> {
        Some(format!("SELECT current_max_id FROM `{table}` WHERE id = {id}"))
    }
}

impl RecordDialect for MysqlLink {
    const WRITTEN_AT: &'static str = "UTC_TIMESTAMP(3)";
    // MariaDB has words for `read_only`.
    const IS_READ_ONLY: Option<&'static str> = Some("SELECT @@global.read_only, @@global.innodb_read_only");
    // An INSERT that ignores the key would ignore other errors too.
    const IF_ABSENT: &'static str = "";

    fn key_text(text: &str) -> String {
        format!("CONVERT(x'{}' USING ascii)", hex(text.as_bytes()))
    }
}

/// SQL of the tables, one statement each. Names are ASCII and compare byte for byte.
pub(super) const TABLES: [&str; 8] = [
    BEATS,
    GENERATORS,
    REQUESTS,
    REQUEST_COUNTS,
    NUMBERS,
    NUMBER_REQUESTS,
    "CREATE TABLE IF NOT EXISTS getid_store (
  id      TINYINT  NOT NULL PRIMARY KEY,
  uuid    CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  changes BIGINT   NOT NULL
) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS getid_sequence (
  name       VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  series     VARCHAR(40)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  period     VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  next       BIGINT       NOT NULL,
  version    BIGINT       NOT NULL DEFAULT 0,
  generation BIGINT       NOT NULL DEFAULT 0,
  changed    BIGINT       NOT NULL DEFAULT 0,
  start      BIGINT       NOT NULL,
  increment  INT          NOT NULL,
  offset_    INT          NOT NULL,
  cache      INT          NOT NULL,
  max_value  BIGINT       NOT NULL,
  policy     VARCHAR(8)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  state      VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'live',
  created    BIGINT       NOT NULL,
  updated    BIGINT       NOT NULL,
  ends       BIGINT       NOT NULL DEFAULT 0,
  PRIMARY KEY (name, series, period),
  KEY getid_sequence_changed (changed)
) ENGINE=InnoDB",
];

/// SQL of the table of generators.
pub(super) const GENERATORS: &str = "CREATE TABLE IF NOT EXISTS getid_generator (
  name           VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  declaration    VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reset          VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  newest         VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  closed_through VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  keys_count     BIGINT       NOT NULL DEFAULT 0,
  ledger         BIGINT       NOT NULL DEFAULT 0,
  requests       BIGINT       NOT NULL DEFAULT 0,
  released_requests BIGINT    NOT NULL DEFAULT 0,
  updated        BIGINT       NOT NULL DEFAULT 0
) ENGINE=InnoDB";

/// SQL of the table of request keys. A comparison of its texts must not ignore blanks at the end.
pub(super) const REQUESTS: &str = "CREATE TABLE IF NOT EXISTS getid_request (
  owner       VARBINARY(128) NOT NULL,
  name        VARBINARY(128) NOT NULL,
  request     VARBINARY(128) NOT NULL,
  fingerprint VARBINARY(128) NOT NULL,
  reply       MEDIUMBLOB     NOT NULL,
  made        BIGINT         NOT NULL,
  kept_until  BIGINT         NOT NULL,
  PRIMARY KEY (owner, name, request),
  KEY getid_request_until (kept_until)
) ENGINE=InnoDB";

/// SQL of the table that counts requests.
pub(super) const REQUEST_COUNTS: &str = "CREATE TABLE IF NOT EXISTS getid_request_count (
  name     VARBINARY(128) NOT NULL PRIMARY KEY,
  requests BIGINT         NOT NULL
) ENGINE=InnoDB";

/// SQL of the table of ledgers. Texts of clients compare byte for byte, with blanks at their ends.
pub(super) const NUMBERS: &str = "CREATE TABLE IF NOT EXISTS getid_number (
  name    VARCHAR(128)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  series  VARCHAR(40)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  period  VARCHAR(16)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  number  BIGINT          NOT NULL,
  last    BIGINT          NOT NULL,
  text    VARBINARY(255)  NOT NULL,
  state   VARCHAR(16)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  since   BIGINT          NOT NULL,
  due     BIGINT          NOT NULL DEFAULT 0,
  request VARBINARY(128)  NOT NULL DEFAULT '',
  owner   VARBINARY(1024) NOT NULL DEFAULT '',
  reason  VARBINARY(200)  NOT NULL DEFAULT '',
  entry   BIGINT          NOT NULL,
  PRIMARY KEY (name, series, period, number),
  UNIQUE KEY getid_number_text (name, text),
  KEY getid_number_state (name, state, series, period, number),
  KEY getid_number_entry (name, entry)
) ENGINE=InnoDB";

/// SQL of the table of requests of numbers.
pub(super) const NUMBER_REQUESTS: &str = "CREATE TABLE IF NOT EXISTS getid_number_request (
  name    VARCHAR(128)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  request VARBINARY(128)  NOT NULL,
  owner   VARBINARY(1024) NOT NULL,
  series  VARCHAR(40)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  period  VARCHAR(16)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  number  BIGINT          NOT NULL,
  state   VARCHAR(16)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (name, request)
) ENGINE=InnoDB";

/// SQL of the table of servers.
pub(super) const BEATS: &str = "CREATE TABLE IF NOT EXISTS getid_beat (
  nonce        CHAR(32)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  life         CHAR(32)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  beat         BIGINT       NOT NULL,
  acknowledged BIGINT       NOT NULL DEFAULT 0,
  state        VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  address      VARCHAR(200) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
  updated      BIGINT       NOT NULL DEFAULT 0
) ENGINE=InnoDB";

/// SQL that inserts the row of rounds.
pub(super) const ROUNDS: &str = "INSERT IGNORE INTO getid_beat (nonce, life, beat, state) \
                                 VALUES (REPEAT('0', 32), REPEAT('0', 32), 0, 'left')";

/// SQL of the store's row, for the printed schema. A connection that creates the tables draws the UUID itself, so that
/// it is the same on a replica.
pub(super) const ROW: &str =
    "INSERT IGNORE INTO getid_store (id, uuid, changes) VALUES (1, REPLACE(UUID(), '-', ''), 0);\n";
