//! A connection to MySQL. MySQL runs the statements of a packet one by one and stops at the first error.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error, Row, Value};

use super::errors::ErrorContext;
use crate::sql::packet::{Cell, Failure, Link, LinkState, SentPacket, SqlRow, StatementResult};
use crate::sql::{StoreError, StoreInfo};

/// An open connection.
pub(super) struct MysqlLink {
    conn: Conn,
    state: LinkState,
    pub(super) info: StoreInfo,
    pub(super) context: ErrorContext,
    /// Largest packet that the server takes, in bytes.
    pub(super) packet_bytes_max: usize,
}

impl MysqlLink {
    pub(super) fn new(conn: Conn, context: ErrorContext) -> MysqlLink {
        let (state, info) = (LinkState::Free, StoreInfo::default());
        MysqlLink { conn, state, info, context, packet_bytes_max: usize::MAX }
    }

    /// Runs statements without a transaction. An error is the server's own, with the index of its statement.
    pub(super) async fn run_raw(&mut self, statements: &[String]) -> Result<Vec<StatementResult>, (usize, Error)> {
        self.begin(LinkState::Free).map_err(|_| (0, Error::Driver(DriverError::ConnectionClosed)))?;
        let result = self.query(statements).await;
        if matches!(result, Ok(_) | Err((_, Error::Server(_)))) {
            self.state = LinkState::Free;
        }
        result
    }

    /// Sends the statements as one text. An error has the index of its statement.
    async fn query(&mut self, statements: &[String]) -> Result<Vec<StatementResult>, (usize, Error)> {
        let sent = self.conn.query_iter(statements.join(";\n")).await;
        let mut result = sent.map_err(|error| (0, error))?;
        let mut all = Vec::with_capacity(statements.len());
        for at in 0..statements.len() {
            let has_result = result.columns().is_some();
            let affected = result.affected_rows();
            // An error of a later statement arrives here.
            let rows: Vec<Row> = result.collect().await.map_err(|error| (at, error))?;
            if !has_result {
                // A proxy between this process and the server has answered for fewer statements than were sent.
                return Err((at, Error::Driver(DriverError::PacketOutOfOrder)));
            }
            all.push(StatementResult { affected, rows: rows.into_iter().map(texts).collect() });
        }
        Ok(all)
    }
}

impl Link for MysqlLink {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn state(&mut self) -> &mut LinkState {
        &mut self.state
    }

    async fn send(&mut self, packet: SentPacket) -> Result<Vec<StatementResult>, Failure> {
        self.query(&packet.statements).await.map_err(|(at, error)| {
            let commits = packet.commit.is_some_and(|commit| at >= commit);
            self.context.failure(&error, commits)
        })
    }

    fn packet_bytes_max(&self) -> usize {
        self.packet_bytes_max
    }

    fn read_only_error(&self) -> StoreError {
        StoreError::Unknown(format!(
            "{} accepts no writes any more (read_only); it may be a replica: name the primary",
            self.context.place
        ))
    }
}

/// Returns the texts of a row, whatever their bytes.
fn texts(row: Row) -> SqlRow {
    let text = |value: Value| match value {
        Value::NULL => Cell::Null,
        Value::Bytes(bytes) => Cell::Text(String::from_utf8_lossy(&bytes).into_owned()),
        value => Cell::Text(value.as_sql(true)),
    };
    SqlRow(row.unwrap().into_iter().map(text).collect())
}

/// Returns the expression for a column's time in Unix ms.
pub(super) fn unix_ms_of(column: &str) -> String {
    format!("(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column}) DIV 1000)")
}
