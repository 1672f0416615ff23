//! A connection to MySQL, and packets of statements for it: each is one round trip, however many statements it has.
//!
//! A transaction travels as a whole, with its COMMIT. So no row stays locked because this process has stopped in the
//! middle, and no row of Leaf's or Tinyid's is waited for by those who share it. MySQL runs a packet statement by
//! statement and stops at the first error.
//!
//! Values stand in the text. They are numbers, and names of the characters that [`getid_core::Key`] allows: none of
//! them ends a literal.
//!
//! Invariant: after an answer, whatever it is, no transaction is open, unless the packet has left it so by intent; and
//! a connection of whose answer somebody has let go runs nothing any more.

use std::fmt;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error, FromValueError, Row, Value};

use super::errors::Who;
use crate::sql::StoreError;

/// Statements that are sent together.
#[derive(Debug, Default)]
pub(super) struct Packet {
    sql: String,
    statements: usize,
    commit: Option<usize>,
    /// It goes on with a transaction that is open, or leaves one open.
    goes_on: bool,
    leaves_open: bool,
}

impl Packet {
    pub(super) fn new() -> Packet {
        Packet::default()
    }

    /// One that begins a transaction, and ends it by [`Packet::commit`].
    pub(super) fn transaction() -> Packet {
        let mut packet = Packet::new();
        packet.add(format_args!("START TRANSACTION"));
        packet
    }

    /// One that begins a transaction and leaves it open, with what it has locked: until [`Link::rollback`], or until a
    /// packet that is made by [`Packet::within`]. If this process stops in the middle the server ends the connection.
    pub(super) fn locking() -> Packet {
        let mut packet = Packet { leaves_open: true, ..Packet::new() };
        packet.add(format_args!("SET SESSION wait_timeout = {LOCKS_HELD_S}"));
        packet.add(format_args!("START TRANSACTION"));
        packet
    }

    /// One that goes on with such a transaction, and ends it.
    pub(super) fn within() -> Packet {
        Packet { goes_on: true, ..Packet::new() }
    }

    /// Adds a statement; returns which one it is.
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
        if self.goes_on {
            self.add(format_args!("SET SESSION wait_timeout = DEFAULT"));
        }
    }
}

/// What a statement has done.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) affected: u64,
    pub(super) rows: Vec<Row>,
}

impl Done {
    /// The number in the first column of the first row.
    pub(super) fn number(&self) -> Option<i64> {
        number(self.rows.first()?, 0)
    }
}

/// An open connection.
pub(super) struct Link {
    conn: Conn,
    state: State,
    pub(super) who: Who,
}

/// Where a connection is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// In a transaction that the next packet goes on with.
    Open,
    /// In a packet. If that is so when the next one comes, somebody has let go of its answer.
    Busy,
}

impl Link {
    pub(super) fn new(conn: Conn, who: Who) -> Link {
        Link { conn, state: State::Free, who }
    }

    /// Runs a packet: what each of its statements has done, or what went wrong, and then the transaction is rolled
    /// back.
    pub(super) async fn run(&mut self, packet: &Packet) -> Result<Vec<Done>, StoreError> {
        self.run_raw(packet).await.map_err(|(at, error)| {
            let commits = packet.commit.is_some_and(|commit| at >= commit);
            self.who.failed(&error, commits)
        })
    }

    /// The same with the server's own error, and which statement it is of.
    pub(super) async fn run_raw(&mut self, packet: &Packet) -> Result<Vec<Done>, (usize, Error)> {
        self.begin(if packet.goes_on { State::Open } else { State::Free }).map_err(|error| (0, error))?;
        let result = match self.send(packet).await {
            Ok(done) => Ok(done),
            Err((at, error @ Error::Server(_))) => match self.conn.query_drop(ROLLBACK).await {
                Ok(()) => Err((at, error)),
                // Not the verdict that it would be on a connection that still works.
                Err(failed) => return Err((packet.statements, failed)),
            },
            Err(failed) => return Err(failed),
        };
        self.state = if packet.leaves_open && result.is_ok() { State::Open } else { State::Free };
        result
    }

    /// Ends a transaction that an earlier packet has left open.
    pub(super) async fn rollback(&mut self) -> Result<(), StoreError> {
        self.begin(State::Open).map_err(|error| self.who.failed(&error, true))?;
        self.conn.query_drop(ROLLBACK).await.map_err(|error| self.who.failed(&error, true))?;
        self.state = State::Free;
        Ok(())
    }

    fn begin(&mut self, from: State) -> Result<(), Error> {
        if self.state != from {
            return Err(Error::Driver(DriverError::ConnectionClosed));
        }
        self.state = State::Busy;
        Ok(())
    }

    async fn send(&mut self, packet: &Packet) -> Result<Vec<Done>, (usize, Error)> {
        let mut result = self.conn.query_iter(packet.sql.as_str()).await.map_err(|error| (0, error))?;
        let mut all = Vec::with_capacity(packet.statements);
        for at in 0..packet.statements {
            let is_there = result.columns().is_some();
            let affected = result.affected_rows();
            // An error of this statement comes here, where it was not the first.
            let rows = result.collect().await.map_err(|error| (at, error))?;
            if !is_there {
                // Somebody between us and the server has answered for fewer statements than there are.
                return Err((at, Error::Driver(DriverError::PacketOutOfOrder)));
            }
            all.push(Done { affected, rows });
        }
        Ok(all)
    }
}

/// (It ends what [`Packet::locking`] has begun, and is nothing to one that has begun nothing.)
const ROLLBACK: &str = "ROLLBACK; SET SESSION wait_timeout = DEFAULT";

/// How long locks may be held between two packets, seconds.
const LOCKS_HELD_S: u32 = 10;

/// The number in a column; `None` if it has none.
pub(super) fn number(row: &Row, column: usize) -> Option<i64> {
    row.as_ref(column).and_then(|value| mysql_async::from_value_opt(value.clone()).ok())
}

/// The text in a column, whatever bytes it has; `None` for NULL.
pub(super) fn text(row: &Row, column: usize) -> Option<String> {
    let value: Result<Vec<u8>, FromValueError> = match row.as_ref(column)? {
        Value::NULL => return None,
        value => mysql_async::from_value_opt(value.clone()),
    };
    value.ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        use fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Unix time by the server's clock, ms.
pub(super) const NOW: &str = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)";

/// A time in a column as Unix ms.
pub(super) fn unix_ms_of(column: &str) -> String {
    format!("(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column}) DIV 1000)")
}
