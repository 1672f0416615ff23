//! The table `getid_high`, beside those of Leaf and Tinyid: for each row the first value above all that getid's servers
//! have reserved of it. Their tables have no place for that, and `max_id` is lowered by hand at times. A reservation
//! begins above it, whatever `max_id` is, and whichever server asks.
//!
//! Invariant: it is written in the transaction that reserves.

use std::collections::BTreeMap;

use getid_core::Key;

use super::link::{Done, Packet, number, text};
use crate::sql::Reserved;

/// The table.
pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS getid_high (
  name VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  next BIGINT       NOT NULL
) ENGINE=InnoDB";

/// Adds a statement that reads what is known of these sequences.
pub(super) fn add_read<'a>(packet: &mut Packet, keys: impl Iterator<Item = &'a Key>) -> usize {
    let names: Vec<String> = keys.map(|key| format!("'{key}'")).collect();
    packet.add(format_args!("SELECT name, next FROM getid_high WHERE name IN ({})", names.join(", ")))
}

/// The values that it has read, by name.
pub(super) fn of(done: &Done) -> BTreeMap<String, i64> {
    done.rows.iter().filter_map(|row| Some((text(row, 0)?, number(row, 1)?))).collect()
}

/// A reservation of a row that somebody lowered: it was found where getid's servers had left it.
pub(super) fn found(got: Reserved, high: i64) -> Reserved {
    Reserved { found_next: got.found_next.max(high.min(got.first)), ..got }
}

/// Adds a statement that notes where the row `condition` of `table` is; `next` is the first free value there.
pub(super) fn add_write(packet: &mut Packet, key: &Key, table: &str, next: &str, condition: &str) {
    packet.add(format_args!(
        "INSERT INTO getid_high (name, next) SELECT '{key}', {next} FROM {table} WHERE {condition} AND {next} >= 0 \
         ON DUPLICATE KEY UPDATE getid_high.next = GREATEST(getid_high.next, VALUES(next))"
    ));
}
