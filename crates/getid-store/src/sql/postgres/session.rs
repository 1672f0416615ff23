//! A session: a socket that a task serves, and whether another statement may be sent.

use std::sync::{Arc, OnceLock};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use super::failures;
use crate::sql::StoreError;

/// An open session, and the task that serves its socket.
pub(super) struct PostgresSession {
    pub(super) client: Client,
    task: JoinHandle<()>,
    /// Error that ended the connection, once it has ended.
    end: Arc<OnceLock<String>>,
    /// Whether no more statements may be sent: one is in progress, or had no answer.
    is_spent: bool,
}

impl PostgresSession {
    pub(super) fn new<S, T>(client: Client, socket: tokio_postgres::Connection<S, T>) -> PostgresSession
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let end = Arc::new(OnceLock::new());
        let task_end = Arc::clone(&end);
        let mut socket = socket;
        let task = tokio::spawn(async move {
            // The error is set before the socket is dropped, which is when waiting statements fail.
            if let Err(error) = (&mut socket).await {
                let _ = task_end.set(failures::of_end(&error));
            }
        });
        PostgresSession { client, task, end, is_spent: false }
    }

    /// Marks the session as spent before a statement, until [`PostgresSession::finish`] clears the mark.
    pub(super) fn begin(&mut self) -> Result<(), StoreError> {
        if self.is_spent {
            let message = self.end.get().map_or("the answer to its last statement was dropped", String::as_str);
            return Err(StoreError::Unknown(format!("the connection cannot be used any more: {message}")));
        }
        self.is_spent = true;
        Ok(())
    }

    /// Clears the mark after an answer, so that the next statement may be sent.
    pub(super) fn finish<T>(&mut self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        self.is_spent = matches!(answer, Err(StoreError::Unknown(_)));
        answer.map_err(|error| match (error, self.end.get()) {
            (StoreError::Unknown(message), Some(end)) if !message.contains(end.as_str()) => {
                StoreError::Unknown(format!("{message}: {end}"))
            }
            (error, _) => error,
        })
    }

    /// Whether the connection is known to be unusable.
    pub(super) fn has_ended(&self) -> bool {
        self.is_spent || self.client.is_closed()
    }
}

impl Drop for PostgresSession {
    /// Closes the socket at once if an answer is outstanding; otherwise the session ends in order.
    fn drop(&mut self) {
        if self.is_spent {
            self.task.abort();
        }
    }
}
