//! Rows of servers in MySQL: in `getid_beat`, beside getid's own tables, or beside those of Leaf and Tinyid.

use getid_core::server::beat::{BeatAnswer, BeatKind, BeatRequest, Credentials, Nonce, ServerRow};

use super::link::{MysqlLink, NOW, Packet, StatementResult, hex, number, text};
use crate::sql::beats::{self, ADDRESS_BYTES_MAX, RawServer, SERVERS_MAX};
use crate::sql::native::column;
use crate::sql::{Comparison, ServerBeat, StoreError};

/// SQL of the table.
pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS getid_beat (
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

/// States of a server that reserves.
pub(super) const LIVE: &str = "'live', 'doubt'";

/// States of a server that compares its notes.
pub(super) const COMPARING: &str = "'live', 'doubt', 'returning'";

/// Columns of [`RawServer`], in its order.
const COLUMNS: &str = "nonce, life, beat, acknowledged, state, address";

/// Expression for the instance of the database. A promoted replica is another instance.
const INSTANCE: &str = "CONCAT(@@hostname, ' ', @@port, ' ', @@server_id)";

/// Positions of the statements in a packet that add 1 to a server's beat.
pub(super) struct BeatStatements {
    update: usize,
    select: usize,
}

/// Adds the statements that add 1 to a server's beat.
pub(super) fn add_own(packet: &mut Packet, server: Credentials, states: &str) -> BeatStatements {
    let Credentials { nonce, life, at_least } = server;
    let update = packet.add(format_args!(
        "UPDATE getid_beat SET beat = beat + 1, updated = {NOW} WHERE nonce = '{nonce}' AND life = '{life}' \
         AND beat >= {} AND state IN ({states})",
        column(at_least)
    ));
    let select = packet.add(format_args!("SELECT beat, {INSTANCE} FROM getid_beat WHERE nonce = '{nonce}'"));
    BeatStatements { update, select }
}

/// Locks the row of a server, and returns the condition that it permits a reservation, for later statements of the
/// packet. Its beat stays: giving values back needs no proof.
pub(super) fn add_condition(packet: &mut Packet, server: Credentials) -> String {
    let Credentials { nonce, life, at_least } = server;
    packet.add(format_args!("SELECT beat FROM getid_beat WHERE nonce = '{nonce}' FOR UPDATE"));
    format!(
        "EXISTS (SELECT 1 FROM getid_beat WHERE nonce = '{nonce}' AND life = '{life}' AND beat >= {} \
         AND state IN ({LIVE}))",
        column(at_least)
    )
}

impl BeatStatements {
    /// Reads the result of the statements. Fails if the server's row does not permit the request.
    pub(super) fn read(&self, done: &[StatementResult]) -> Result<ServerBeat, StoreError> {
        let row = done.get(self.select).and_then(|done| done.rows.first());
        let is_done = done.get(self.update).is_some_and(|done| done.affected == 1);
        match (is_done, row.and_then(|row| Some((number(row, 0)?, text(row, 1)?)))) {
            (true, Some((beat, instance))) => Ok(ServerBeat { beat: beat.unsigned_abs(), instance }),
            _ => Err(beats::server_row_error()),
        }
    }
}

/// Raises rows by these statements and adds 1 to the server's beat, in one transaction. Returns `None` if the server's
/// row does not permit it.
pub(super) async fn compare(
    link: &mut MysqlLink,
    server: Credentials,
    raises: impl Iterator<Item = String>,
) -> Result<Option<Comparison>, StoreError> {
    let mut packet = Packet::transaction();
    let own = add_own(&mut packet, server, COMPARING);
    let raises: Vec<usize> = raises.map(|raise| packet.add(format_args!("{raise}"))).collect();
    packet.commit();
    let done = link.run(&packet).await?;
    let Ok(beaten) = own.read(&done) else { return Ok(None) };
    let raised = raises.into_iter().filter(|at| done[*at].affected > 0).count();
    Ok(Some(Comparison { beat: beaten.beat, raised }))
}

/// Reads and writes the rows of servers.
pub(super) async fn beat(link: &mut MysqlLink, ask: &BeatRequest) -> Result<BeatAnswer, StoreError> {
    let which = if ask.reads_all {
        "TRUE".to_owned()
    } else {
        format!("(state NOT IN ('left', 'gone', 'released') OR nonce IN ('{}', '{}'))", ask.nonce, Nonce::ROUNDS)
    };
    let all = format!("SELECT {COLUMNS}, {INSTANCE} FROM getid_beat WHERE {which} LIMIT {}", SERVERS_MAX + 2);
    if ask.kind == BeatKind::Look {
        let mut packet = Packet::new();
        let rows = packet.add(format_args!("{all}"));
        return answer(true, &link.run(&packet).await?[rows]);
    }
    let keys: Vec<String> = ask.locks().iter().map(|nonce| format!("'{nonce}'")).collect();
    let mut packet = Packet::locking();
    let found = packet.add(format_args!(
        "SELECT {COLUMNS} FROM getid_beat WHERE nonce IN ({}) ORDER BY nonce FOR UPDATE",
        keys.join(", ")
    ));
    let done = link.run(&packet).await?;
    let found: Result<Vec<ServerRow>, StoreError> = done[found].rows.iter().map(|row| raw(row).read()).collect();
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            link.rollback().await?;
            return Err(error);
        }
    };
    let applied = ask.apply(&found);
    let mut packet = Packet::within();
    if !applied.rows.is_empty() {
        packet.add(format_args!("{}", write_sql(&applied.rows)));
    }
    let rows = packet.add(format_args!("{all}"));
    packet.commit();
    answer(applied.is_done, &link.run(&packet).await?[rows])
}

fn answer(is_done: bool, done: &StatementResult) -> Result<BeatAnswer, StoreError> {
    let instance = done.rows.first().and_then(|row| text(row, 6)).unwrap_or_default();
    let (rows, round) = beats::answer(done.rows.iter().map(raw).collect())?;
    Ok(BeatAnswer { is_done, rows, round, instance })
}

fn write_sql(rows: &[ServerRow]) -> String {
    let values = |row: &ServerRow| {
        let ServerRow { nonce, life, beat, acknowledged, state, address } = row;
        let end = address.floor_char_boundary(ADDRESS_BYTES_MAX);
        let address = hex(&address.as_bytes()[..end]);
        let address = if address.is_empty() { "''".to_owned() } else { format!("CONVERT(x'{address}' USING utf8mb4)") };
        let (beat, acknowledged, state) = (column(*beat), column(*acknowledged), state.word());
        format!("('{nonce}', '{life}', {beat}, {acknowledged}, '{state}', {address}, {NOW})")
    };
    let values: Vec<String> = rows.iter().map(values).collect();
    format!(
        "INSERT INTO getid_beat ({COLUMNS}, updated) VALUES {} ON DUPLICATE KEY UPDATE life = VALUES(life), \
         beat = VALUES(beat), acknowledged = VALUES(acknowledged), state = VALUES(state), address = VALUES(address), \
         updated = VALUES(updated)",
        values.join(", ")
    )
}

fn raw(row: &mysql_async::Row) -> RawServer {
    let text = |at| text(row, at).unwrap_or_else(|| "NULL".to_owned());
    let number = |at| number(row, at).unwrap_or(-1);
    RawServer {
        nonce: text(0),
        life: text(1),
        beat: number(2),
        acknowledged: number(3),
        state: text(4),
        address: text(5),
    }
}
