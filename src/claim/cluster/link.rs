//! The store as a claim asks it: each call ends, is counted, and its failures are told once.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::texts;
use crate::records::{BadRow, Key, Listed, Row, Stamp, Written};
use crate::records::{RecordStore, RecordStoreError};
use crate::text::printable::printable;

/// A store ends each call by itself, by the deadline that it was opened with. This much later nobody waits any more.
const GRACE: Duration = Duration::from_millis(250);

/// How long a call may take: a quarter of the time-out, so that one that is lost leaves time for another before the
/// hold is over.
pub fn deadline(timeout_ms: u64) -> Duration {
    Duration::from_millis((timeout_ms / 4).clamp(200, 5000))
}

/// The store, and how it has been.
pub(super) struct Link {
    store: Arc<dyn RecordStore>,
    shown: String,
    limit: Duration,
    /// Calls that failed.
    pub(super) errors: u64,
    /// What the last call failed with; empty: it did not.
    pub(super) error: String,
    /// Rows that the last list of claims has skipped.
    skipped: Vec<BadRow>,
}

impl Link {
    pub(super) fn new(store: Arc<dyn RecordStore>, shown: String, timeout_ms: u64) -> Link {
        Link { store, shown, limit: deadline(timeout_ms) + GRACE, errors: 0, error: String::new(), skipped: Vec::new() }
    }

    pub(super) fn store(&self) -> &Arc<dyn RecordStore> {
        &self.store
    }

    pub(super) fn replace(&mut self, store: Arc<dyn RecordStore>) {
        self.store = store;
    }

    /// Its address as it is configured, without a password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) async fn read(&mut self, key: &Key) -> Result<Option<Row>, RecordStoreError> {
        let answer = timeout(self.limit, self.store.read(key)).await;
        self.told(answer.unwrap_or_else(|_| Err(RecordStoreError::Away(self.no_answer()))))
    }

    pub(super) async fn list(&mut self, prefix: &str, after: &str, limit: usize) -> Result<Listed, RecordStoreError> {
        let answer = timeout(self.limit, self.store.list(prefix, after, limit)).await;
        self.told(answer.unwrap_or_else(|_| Err(RecordStoreError::Away(self.no_answer()))))
    }

    /// Logs rows that a list of all claims has skipped, those that the list before had not.
    pub(super) fn tell_skipped(&mut self, skipped: Vec<BadRow>) {
        for bad in skipped.iter().filter(|bad| !self.skipped.contains(bad)) {
            let remedy = match bad.server_id() {
                Some(server_id) => texts::advance_command(server_id, &self.shown),
                None => "take that row away".to_owned(),
            };
            tracing::warn!("claim store {}: {}; it is left out: {remedy}", self.shown, printable(&bad.what));
        }
        self.skipped = skipped;
    }

    pub(super) async fn write(
        &mut self,
        key: &Key,
        expect: Option<Stamp>,
        new: &Row,
    ) -> Result<Written, RecordStoreError> {
        let answer = timeout(self.limit, self.store.write(key, expect, new)).await;
        self.told(answer.unwrap_or_else(|_| Err(RecordStoreError::Unknown(self.no_answer()))))
    }

    fn no_answer(&self) -> String {
        format!("it has not answered within {} ms", self.limit.as_millis())
    }

    fn told<T>(&mut self, answer: Result<T, RecordStoreError>) -> Result<T, RecordStoreError> {
        match &answer {
            // The store has answered.
            Ok(_) | Err(RecordStoreError::Damaged(_)) => self.error.clear(),
            Err(error) => {
                self.errors += 1;
                self.error = format!("claim store {}: {}", self.shown(), printable(&error.to_string()));
            }
        }
        answer
    }
}
