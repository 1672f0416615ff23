//! The table `getid_high`, beside those of Leaf and Tinyid: for each row the first value above all that getid's servers
//! have reserved from it. Their tables have no column for that, and operators sometimes lower `max_id`. A reservation
//! begins above it, whatever `max_id` is, and whichever server reserves.
//!
//! Invariant: it is written in the transaction that reserves.

use std::collections::BTreeMap;

use getid_core::server::Key;

use crate::sql::Reservation;
use crate::sql::packet::{Packet, StatementResult};

/// SQL of the table.
pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS getid_high (
  of_table VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name     VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  next     BIGINT       NOT NULL,
  PRIMARY KEY (of_table, name)
) ENGINE=InnoDB";

/// Adds a statement that reads the known values of these sequences of a table.
pub(super) fn add_read<'a>(packet: &mut Packet, table: &str, keys: impl Iterator<Item = &'a Key>) -> usize {
    let names: Vec<String> = keys.map(|key| format!("'{key}'")).collect();
    let names = names.join(", ");
    packet.add(format!("SELECT name, next FROM getid_high WHERE of_table = '{table}' AND name IN ({names})"))
}

/// Returns the values that the statement has read, by name.
pub(super) fn of(done: &StatementResult) -> BTreeMap<String, i64> {
    done.rows.iter().filter_map(|row| Some((row.text(0)?, row.number(1)?))).collect()
}

/// Adjusts a reservation from a lowered row: it was found where getid's servers had left it.
pub(super) fn found(got: Reservation, high: i64) -> Reservation {
    Reservation { found_next: got.found_next.max(high.min(got.first)), ..got }
}

/// Adds a statement that records the position of the row of `table` that meets `condition`; `next` is its first free
/// value.
pub(super) fn add_write(packet: &mut Packet, key: &Key, table: &str, next: &str, condition: &str) {
    packet.add(format!(
        "INSERT INTO getid_high (of_table, name, next) SELECT '{table}', '{key}', {next} FROM {table} \
         WHERE {condition} AND {next} >= 0 \
         ON DUPLICATE KEY UPDATE getid_high.next = GREATEST(getid_high.next, VALUES(next))"
    ));
}
