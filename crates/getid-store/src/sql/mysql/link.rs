//! A connection to MySQL, and packets of statements for it: a packet is one round trip, however many statements it has.
//!
//! A transaction is sent as a whole, with its COMMIT. So no row stays locked because this process stops halfway, and
//! other users of Leaf's or Tinyid's rows do not wait. MySQL runs a packet statement by statement and stops at the
//! first error.
//!
//! Values are part of the text. They are numbers, and names of the characters that [`getid_core::server::Key`] permits,
//! none of which ends a literal.
//!
//! Invariant: after an answer no transaction is open, unless the packet leaves it open on purpose. A connection whose
//! answer was dropped runs nothing more.

use std::fmt;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error, FromValueError, Row as SqlRow, Value};

use super::errors::ErrorContext;
use crate::sql::StoreError;

/// Statements that are sent together.
#[derive(Debug, Default)]
pub(super) struct Packet {
    sql: String,
    statements: usize,
    commit: Option<usize>,
    /// Whether it continues a transaction that is open.
    continues: bool,
    leaves_open: bool,
}

impl Packet {
    pub(super) fn new() -> Packet {
        Packet::default()
    }

    /// Creates a packet that begins a transaction, which [`Packet::commit`] ends.
    pub(super) fn transaction() -> Packet {
        let mut packet = Packet::new();
        packet.add(format_args!("START TRANSACTION"));
        packet
    }

    /// Creates a packet that begins a transaction and leaves it open with its locks, until [`MysqlLink::rollback`] or a
    /// packet of [`Packet::within`]. If this process stops meanwhile, the server ends the connection.
    pub(super) fn locking() -> Packet {
        let mut packet = Packet { leaves_open: true, ..Packet::new() };
        packet.add(format_args!("SET SESSION wait_timeout = {LOCKS_HELD_S}"));
        packet.add(format_args!("START TRANSACTION"));
        packet
    }

    /// Creates a packet that continues such a transaction, and ends it.
    pub(super) fn within() -> Packet {
        Packet { continues: true, ..Packet::new() }
    }

    /// Adds a statement; returns its index.
    pub(super) fn add(&mut self, statement: fmt::Arguments<'_>) -> usize {
        use fmt::Write as _;
        let separator = if self.sql.is_empty() { "" } else { ";\n" };
        // Writing to a string cannot fail.
        let _ = write!(self.sql, "{separator}{statement}");
        self.statements += 1;
        self.statements - 1
    }

    /// Ends the transaction.
    pub(super) fn commit(&mut self) {
        self.commit = Some(self.add(format_args!("COMMIT")));
        if self.continues {
            self.add(format_args!("SET SESSION wait_timeout = DEFAULT"));
        }
    }
}

/// Result of a statement.
#[derive(Debug)]
pub(super) struct StatementResult {
    pub(super) affected: u64,
    pub(super) rows: Vec<SqlRow>,
}

impl StatementResult {
    /// Returns the number in the first column of the first row.
    pub(super) fn number(&self) -> Option<i64> {
        number(self.rows.first()?, 0)
    }
}

/// An open connection.
pub(super) struct MysqlLink {
    conn: Conn,
    state: TransactionState,
    pub(super) context: ErrorContext,
}

/// State of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TransactionState {
    Free,
    /// In a transaction that the next packet continues.
    Open,
    /// Running a packet. If the state is still this at the next packet, the answer was dropped.
    Busy,
}

impl MysqlLink {
    pub(super) fn new(conn: Conn, context: ErrorContext) -> MysqlLink {
        MysqlLink { conn, state: TransactionState::Free, context }
    }

    /// Runs a packet. Returns the result of each statement; after an error the transaction is rolled back.
    pub(super) async fn run(&mut self, packet: &Packet) -> Result<Vec<StatementResult>, StoreError> {
        self.run_raw(packet).await.map_err(|(at, error)| {
            let commits = packet.commit.is_some_and(|commit| at >= commit);
            self.context.failed(&error, commits)
        })
    }

    /// Runs a packet as [`MysqlLink::run`] does, with the server's own error and the index of its statement.
    pub(super) async fn run_raw(&mut self, packet: &Packet) -> Result<Vec<StatementResult>, (usize, Error)> {
        self.begin(if packet.continues { TransactionState::Open } else { TransactionState::Free })
            .map_err(|error| (0, error))?;
        let result = match self.send(packet).await {
            Ok(done) => Ok(done),
            Err((at, error @ Error::Server(_))) => match self.conn.query_drop(ROLLBACK).await {
                Ok(()) => Err((at, error)),
                // The connection failed, so the error is not the database's decision.
                Err(failed) => return Err((packet.statements, failed)),
            },
            Err(failed) => return Err(failed),
        };
        self.state = if packet.leaves_open && result.is_ok() { TransactionState::Open } else { TransactionState::Free };
        result
    }

    /// Ends a transaction that an earlier packet has left open.
    pub(super) async fn rollback(&mut self) -> Result<(), StoreError> {
        self.begin(TransactionState::Open).map_err(|error| self.context.failed(&error, true))?;
        self.conn.query_drop(ROLLBACK).await.map_err(|error| self.context.failed(&error, true))?;
        self.state = TransactionState::Free;
        Ok(())
    }

    fn begin(&mut self, from: TransactionState) -> Result<(), Error> {
        if self.state != from {
            return Err(Error::Driver(DriverError::ConnectionClosed));
        }
        self.state = TransactionState::Busy;
        Ok(())
    }

    async fn send(&mut self, packet: &Packet) -> Result<Vec<StatementResult>, (usize, Error)> {
        let mut result = self.conn.query_iter(packet.sql.as_str()).await.map_err(|error| (0, error))?;
        let mut all = Vec::with_capacity(packet.statements);
        for at in 0..packet.statements {
            let has_result = result.columns().is_some();
            let affected = result.affected_rows();
            // An error of a later statement arrives here.
            let rows = result.collect().await.map_err(|error| (at, error))?;
            if !has_result {
                // A proxy between this process and the server has answered for fewer statements than were sent.
                return Err((at, Error::Driver(DriverError::PacketOutOfOrder)));
            }
            all.push(StatementResult { affected, rows });
        }
        Ok(all)
    }
}

/// Ends a transaction of [`Packet::locking`]; without one it has no effect.
const ROLLBACK: &str = "ROLLBACK; SET SESSION wait_timeout = DEFAULT";

/// Longest time for which locks may be held between two packets, in seconds.
const LOCKS_HELD_S: u32 = 10;

/// Returns the number in a column; `None` if it has none.
pub(super) fn number(row: &SqlRow, column: usize) -> Option<i64> {
    row.as_ref(column).and_then(|value| mysql_async::from_value_opt(value.clone()).ok())
}

/// Returns the text in a column, whatever its bytes; `None` for NULL.
pub(super) fn text(row: &SqlRow, column: usize) -> Option<String> {
    let value: Result<Vec<u8>, FromValueError> = match row.as_ref(column)? {
        Value::NULL => return None,
        value => mysql_async::from_value_opt(value.clone()),
    };
    value.ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        use fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Expression for the Unix time by the server's clock, in ms.
pub(super) const NOW: &str = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)";

/// Returns the expression for a column's time in Unix ms.
pub(super) fn unix_ms_of(column: &str) -> String {
    format!("(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column}) DIV 1000)")
}
