//! A connection to PostgreSQL: a socket that a task serves.
//!
//! A packet is one message of the simple query protocol. So a pooler that assigns each transaction another connection
//! to the database needs no state about statements.

use std::sync::{Arc, OnceLock};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleColumn, SimpleQueryMessage, SimpleQueryRow};

use super::failures::{self, unexpected};
use crate::sql::packet::{Cell, Failure, Link, LinkState, PacketFailureKind, SentPacket, SqlRow, StatementResult};
use crate::sql::purpose::TablePurpose;
use crate::sql::{StoreError, StoreInfo};

/// An open session, and the task that serves its socket.
pub(super) struct PostgresLink {
    client: Client,
    task: JoinHandle<()>,
    /// Error that ended the connection, once it has ended.
    end: Arc<OnceLock<String>>,
    state: LinkState,
    purpose: TablePurpose,
    pub(super) info: StoreInfo,
}

impl PostgresLink {
    pub(super) fn new<S, T>(
        client: Client,
        mut socket: tokio_postgres::Connection<S, T>,
        purpose: TablePurpose,
    ) -> PostgresLink
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let end = Arc::new(OnceLock::new());
        let task_end = Arc::clone(&end);
        let task = tokio::spawn(async move {
            // The error is set before the socket is dropped, which is when waiting statements fail.
            if let Err(error) = (&mut socket).await {
                let _ = task_end.set(failures::of_end(&error));
            }
        });
        PostgresLink { client, task, end, state: LinkState::Free, purpose, info: StoreInfo::default() }
    }

    /// Runs a text of several statements.
    pub(super) async fn run_script(&mut self, sql: &str) -> Result<(), StoreError> {
        self.begin(LinkState::Free)?;
        let done = self.client.batch_execute(sql).await.map_err(|error| self.failure(&error).error);
        if !matches!(done, Err(StoreError::Unknown(_))) {
            self.state = LinkState::Free;
        }
        done
    }

    fn failure(&self, error: &tokio_postgres::Error) -> Failure {
        let is_no_table = error.code() == Some(&SqlState::UNDEFINED_TABLE);
        let kind = if is_no_table { PacketFailureKind::NoTable } else { PacketFailureKind::Other };
        let error = match (failures::of_statement(error, self.purpose), self.end.get()) {
            (StoreError::Unknown(message), Some(end)) if !message.contains(end.as_str()) => {
                StoreError::Unknown(format!("{message}: {end}"))
            }
            (error, _) => error,
        };
        Failure { kind, error }
    }
}

impl Link for PostgresLink {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn has_ended(&self) -> bool {
        self.state == LinkState::Busy || self.client.is_closed()
    }

    fn state(&mut self) -> &mut LinkState {
        &mut self.state
    }

    async fn send(&mut self, packet: SentPacket) -> Result<Vec<StatementResult>, Failure> {
        let sent = self.client.simple_query(&packet.statements.join(";\n")).await;
        let mut all = Vec::with_capacity(packet.statements.len());
        let mut rows = Vec::new();
        for message in sent.map_err(|error| self.failure(&error))? {
            match message {
                SimpleQueryMessage::Row(row) => {
                    rows.push(texts(&row)?);
                }
                SimpleQueryMessage::CommandComplete(affected) => {
                    all.push(StatementResult { affected, rows: std::mem::take(&mut rows) });
                }
                _ => {}
            }
        }
        if all.len() == packet.statements.len() {
            Ok(all)
        } else {
            Err(unexpected("has not answered each statement").into())
        }
    }

    fn read_only_error(&self) -> StoreError {
        StoreError::Unknown("the server has become a standby (pg_is_in_recovery): name the primary".to_owned())
    }
}

/// Returns the texts of a row. Fails if one is not UTF-8, which a database with the encoding `SQL_ASCII` permits.
fn texts(row: &SimpleQueryRow) -> Result<SqlRow, StoreError> {
    let text = |(at, column): (usize, &SimpleColumn)| {
        let text = row.try_get(at).map_err(|_| {
            unexpected(&format!(
                "has returned a text in the column {} that is not UTF-8: correct the row by hand",
                column.name()
            ))
        })?;
        Ok(text.map_or(Cell::Null, |text| Cell::Text(text.to_owned())))
    };
    row.columns().iter().enumerate().map(text).collect::<Result<_, _>>().map(SqlRow)
}

impl Drop for PostgresLink {
    /// Closes the socket at once if an answer is outstanding; otherwise the session ends in order.
    fn drop(&mut self) {
        if self.state != LinkState::Free {
            self.task.abort();
        }
    }
}
