//! The table `getid_beat` in any database: a row for each server that uses a shared store, and one that counts rounds.
//! [`BeatRequest::apply`] decides about the rows; the databases lock, read and write them.
//!
//! | `getid_beat` | |
//! |---|---|
//! | `nonce` | 32 hexadecimal digits, the primary key; 32 zeros: the row of rounds |
//! | `life` | identity of the process that wrote the row, 32 hexadecimal digits |
//! | `beat` | grows by 1 with each beat and each reservation of the server; in the row of rounds, with each round |
//! | `acknowledged` | the latest round that the server has acknowledged |
//! | `state` | `live`, `doubt`, `left`, `gone`, `released` or `returning` |
//! | `address` | where an operator finds the server |
//! | `updated` | Unix ms by the database's clock, for operators |
//!
//! The name sorts before those of all other tables. Tools that restore a dump table by table restore it first, so no
//! server finds restored sequences beside its present beat.

use getid_core::server::beat::{BeatAnswer, BeatKind, BeatRequest, Credentials, Nonce, ServerRow, ServerState};

use super::native::column;
use super::packet::{Dialect, Link, Packet, SqlRow, StatementResult};
use super::{ServerBeat, StoreError, no_beats};

/// Most rows of servers in one store.
const SERVERS_MAX: usize = 100_000;

/// Most bytes of an address.
const ADDRESS_BYTES_MAX: usize = 200;

/// A row as read from a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RawServer {
    nonce: String,
    life: String,
    beat: i64,
    acknowledged: i64,
    state: String,
    address: String,
}

impl RawServer {
    /// Returns the row in the order of [`COLUMNS`].
    fn of(row: &SqlRow) -> RawServer {
        let number = |at| row.number(at).unwrap_or(-1);
        RawServer {
            nonce: row.shown(0),
            life: row.shown(1),
            beat: number(2),
            acknowledged: number(3),
            state: row.shown(4),
            address: row.shown(5),
        }
    }

    /// Parses the row. The error of a row that was written by hand has the remedy.
    fn read(self) -> Result<ServerRow, StoreError> {
        let bad = |column: &str, found: &str, expected: &str| {
            StoreError::Refused(format!(
                "the row '{}' of getid_beat has {column} '{}', must be {expected}: DELETE FROM getid_beat WHERE nonce \
                 = '{}'",
                self.nonce.escape_debug(),
                found.escape_debug(),
                self.nonce.escape_debug()
            ))
        };
        let identity =
            |column: &str, found: &str| Nonce::parse(found).ok_or_else(|| bad(column, found, "32 hexadecimal digits"));
        let number =
            |column: &str, found: i64| u64::try_from(found).map_err(|_| bad(column, &found.to_string(), "0 or more"));
        Ok(ServerRow {
            nonce: identity("nonce", &self.nonce)?,
            life: identity("life", &self.life)?,
            beat: number("beat", self.beat)?,
            acknowledged: number("acknowledged", self.acknowledged)?,
            state: ServerState::parse(&self.state)
                .ok_or_else(|| bad("state", &self.state, "live, doubt, left, gone, released or returning"))?,
            address: self.address,
        })
    }
}

/// Columns of [`RawServer`], in its order.
const COLUMNS: &str = "nonce, life, beat, acknowledged, state, address";

/// States of a server that reserves.
pub(super) const LIVE: &str = "'live', 'doubt'";

/// States of a server that compares its notes.
pub(super) const COMPARING: &str = "'live', 'doubt', 'returning'";

/// Positions of the statements in a packet that add 1 to a server's beat.
pub(super) struct BeatStatements {
    update: usize,
    select: usize,
}

impl BeatStatements {
    /// Adds the statements that add 1 to a server's beat.
    pub(super) fn add<D: Dialect>(packet: &mut Packet, server: Credentials, states: &str) -> BeatStatements {
        let update = packet.add(format!(
            "UPDATE getid_beat SET beat = beat + 1, updated = {} WHERE {}",
            D::NOW,
            is_allowed(server, states)
        ));
        let nonce = server.nonce;
        let select = packet.add(format!("SELECT beat, {} FROM getid_beat WHERE nonce = '{nonce}'", D::INSTANCE));
        BeatStatements { update, select }
    }

    /// Reads the result of the statements. Fails if the server's row does not permit the request.
    pub(super) fn read(&self, done: &[StatementResult]) -> Result<ServerBeat, StoreError> {
        let row = done.get(self.select).and_then(|done| done.rows.first());
        let is_done = done.get(self.update).is_some_and(|done| done.affected == 1);
        match (is_done, row.and_then(|row| Some((row.number(0)?, row.text(1)?)))) {
            (true, Some((beat, instance))) => Ok(ServerBeat { beat: beat.unsigned_abs(), instance }),
            _ => Err(server_row_error()),
        }
    }
}

/// Returns the condition that a row is that of this server, as it left it or later, in one of these states.
pub(super) fn is_allowed(server: Credentials, states: &str) -> String {
    let Credentials { nonce, life, at_least } = server;
    format!("nonce = '{nonce}' AND life = '{life}' AND beat >= {} AND state IN ({states})", column(at_least))
}

/// Locks the row of a server, and returns the condition that it permits a reservation, for later statements of the
/// packet. Its beat stays: giving values back needs no proof.
pub(super) fn add_condition<D: Dialect>(packet: &mut Packet, server: Credentials) -> String {
    packet.add(format!("SELECT beat FROM getid_beat WHERE nonce = '{}'{}", server.nonce, D::FOR_UPDATE));
    format!("EXISTS (SELECT 1 FROM getid_beat WHERE {})", is_allowed(server, LIVE))
}

/// Reads and writes the rows of servers.
pub(super) async fn beat<L: Link>(link: &mut L, ask: &BeatRequest) -> Result<BeatAnswer, StoreError> {
    if !L::IS_SHARED {
        return Err(no_beats());
    }
    let which = if ask.reads_all {
        "TRUE".to_owned()
    } else {
        format!("(state NOT IN ('left', 'gone', 'released') OR nonce IN ('{}', '{}'))", ask.nonce, Nonce::ROUNDS)
    };
    let (instance, limit) = (L::INSTANCE, SERVERS_MAX + 2);
    let all = format!("SELECT {COLUMNS}, {instance} FROM getid_beat WHERE {which} LIMIT {limit}");
    if ask.kind == BeatKind::Look {
        // The transaction is for writes, so that a standby refuses it.
        let mut packet = Packet::transaction();
        let rows = packet.add(all);
        return answer(true, &link.run(packet).await?[rows]);
    }
    let keys: Vec<String> = ask.locks().iter().map(|nonce| format!("'{nonce}'")).collect();
    let mut packet = Packet::locking();
    packet.add(format!(
        "SELECT {COLUMNS} FROM getid_beat WHERE nonce IN ({}) ORDER BY nonce{}",
        keys.join(", "),
        L::FOR_UPDATE
    ));
    let found = link.run(packet).await?.swap_remove(0).rows;
    let found: Result<Vec<ServerRow>, StoreError> = found.iter().map(|row| RawServer::of(row).read()).collect();
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
        packet.add(write_sql::<L>(&applied.rows));
    }
    let rows = packet.add(all);
    // The rows are parsed before the COMMIT: after a refusal nothing has changed.
    match answer(applied.is_done, &link.run(packet).await?[rows]) {
        Ok(answer) => {
            link.run(Packet::commit()).await?;
            Ok(answer)
        }
        Err(error) => {
            link.rollback().await?;
            Err(error)
        }
    }
}

/// Parses the rows of all servers.
fn answer(is_done: bool, done: &StatementResult) -> Result<BeatAnswer, StoreError> {
    if done.rows.len() > SERVERS_MAX {
        return Err(StoreError::Refused(format!(
            "the table getid_beat has more than {SERVERS_MAX} rows of servers: DELETE FROM getid_beat WHERE state = \
             'left'"
        )));
    }
    let instance = done.rows.first().and_then(|row| row.text(6)).unwrap_or_default();
    let rows: Vec<ServerRow> = done.rows.iter().map(|row| RawServer::of(row).read()).collect::<Result<_, _>>()?;
    let round = rows.iter().find(|row| row.nonce == Nonce::ROUNDS).map_or(0, |row| row.beat);
    let rows = rows.into_iter().filter(|row| row.nonce != Nonce::ROUNDS).collect();
    Ok(BeatAnswer { is_done, rows, round, instance })
}

/// Returns the statement that writes rows of servers.
fn write_sql<D: Dialect>(rows: &[ServerRow]) -> String {
    let values = |row: &ServerRow| {
        let ServerRow { nonce, life, beat, acknowledged, state, address } = row;
        let address = D::text(&address[..address.floor_char_boundary(ADDRESS_BYTES_MAX)]);
        let (beat, acknowledged, state) = (column(*beat), column(*acknowledged), state.word());
        format!("('{nonce}', '{life}', {beat}, {acknowledged}, '{state}', {address}, {})", D::NOW)
    };
    let values: Vec<String> = rows.iter().map(values).collect();
    let columns = ["life", "beat", "acknowledged", "state", "address", "updated"];
    format!(
        "INSERT INTO getid_beat ({COLUMNS}, updated) VALUES {}{}",
        values.join(", "),
        D::or_overwrite("nonce", &columns)
    )
}

/// Returns the error if a server's row does not permit its request: the server must read the rows again.
pub(super) fn server_row_error() -> StoreError {
    StoreError::Unknown(
        "the row of this server in getid_beat is not as this server left it: the store may have lost writes".to_owned(),
    )
}
