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

use getid_core::server::beat::{Nonce, ServerRow, ServerState};

use super::StoreError;

/// Most rows of servers in one store.
pub(super) const SERVERS_MAX: usize = 100_000;

/// Most bytes of an address.
pub(super) const ADDRESS_BYTES_MAX: usize = 200;

/// A row as read from a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RawServer {
    pub(super) nonce: String,
    pub(super) life: String,
    pub(super) beat: i64,
    pub(super) acknowledged: i64,
    pub(super) state: String,
    pub(super) address: String,
}

impl RawServer {
    /// Parses the row. The error of a row that was written by hand has the remedy.
    pub(super) fn read(self) -> Result<ServerRow, StoreError> {
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

/// Returns the rows of servers, and the number of rounds.
pub(super) fn answer(rows: Vec<RawServer>) -> Result<(Vec<ServerRow>, u64), StoreError> {
    if rows.len() > SERVERS_MAX {
        return Err(StoreError::Refused(format!(
            "the table getid_beat has more than {SERVERS_MAX} rows of servers: DELETE FROM getid_beat WHERE state = \
             'left'"
        )));
    }
    let rows: Vec<ServerRow> = rows.into_iter().map(RawServer::read).collect::<Result<_, _>>()?;
    let round = rows.iter().find(|row| row.nonce == Nonce::ROUNDS).map_or(0, |row| row.beat);
    Ok((rows.into_iter().filter(|row| row.nonce != Nonce::ROUNDS).collect(), round))
}

/// Returns the error if a server's row does not permit its request: the server must read the rows again.
pub(super) fn server_row_error() -> StoreError {
    StoreError::Unknown(
        "the row of this server in getid_beat is not as this server left it: the store may have lost writes".to_owned(),
    )
}
