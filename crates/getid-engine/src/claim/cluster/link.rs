//! The claim's connection to its store. Each call has a deadline and is counted, and each failure is kept for the log.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::texts;
use getid_store::records::{DamagedRow, Key, RecordPage, RecordRow, Stamp, WriteResult};
use getid_store::records::{RecordStore, RecordStoreError};
use getid_text::printable::printable;

/// Time past a store's own deadline after which this side gives the call up.
const GRACE: Duration = Duration::from_millis(250);

/// Returns the deadline of a call: a quarter of the time-out, so that after a lost call another fits before the hold
/// ends.
pub fn deadline(timeout_ms: u64) -> Duration {
    Duration::from_millis((timeout_ms / 4).clamp(200, 5000))
}

/// The claim store, with its last error and its counters.
pub(super) struct StoreLink {
    store: Arc<dyn RecordStore>,
    shown: String,
    limit: Duration,
    /// Number of calls that failed.
    pub(super) errors: u64,
    /// Error of the last call; empty if it succeeded.
    pub(super) error: String,
    /// Rows that the last list of claims skipped.
    skipped: Vec<DamagedRow>,
}

impl StoreLink {
    pub(super) fn new(store: Arc<dyn RecordStore>, shown: String, timeout_ms: u64) -> StoreLink {
        StoreLink {
            store,
            shown,
            limit: deadline(timeout_ms) + GRACE,
            errors: 0,
            error: String::new(),
            skipped: Vec::new(),
        }
    }

    pub(super) fn store(&self) -> &Arc<dyn RecordStore> {
        &self.store
    }

    pub(super) fn replace(&mut self, store: Arc<dyn RecordStore>) {
        self.store = store;
    }

    /// Address of the store as configured, without a password.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    pub(super) async fn read(&mut self, key: &Key) -> Result<Option<RecordRow>, RecordStoreError> {
        let answer = timeout(self.limit, self.store.read(key)).await;
        self.record_answer(answer.unwrap_or_else(|_| Err(RecordStoreError::Away(self.no_answer()))))
    }

    pub(super) async fn list(
        &mut self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<RecordPage, RecordStoreError> {
        let answer = timeout(self.limit, self.store.list(prefix, after, limit)).await;
        self.record_answer(answer.unwrap_or_else(|_| Err(RecordStoreError::Away(self.no_answer()))))
    }

    /// Logs the rows that a list of all claims skipped, except those that the previous list skipped too.
    pub(super) fn log_skipped(&mut self, skipped: Vec<DamagedRow>) {
        for bad in skipped.iter().filter(|bad| !self.skipped.contains(bad)) {
            let remedy = match bad.server_id() {
                Some(server_id) => texts::advance_command(server_id, &self.shown),
                None => "delete that row".to_owned(),
            };
            tracing::warn!("claim store {}: {}; the row is skipped: {remedy}", self.shown, printable(&bad.what));
        }
        self.skipped = skipped;
    }

    pub(super) async fn write(
        &mut self,
        key: &Key,
        expect: Option<Stamp>,
        new: &RecordRow,
    ) -> Result<WriteResult, RecordStoreError> {
        let answer = timeout(self.limit, self.store.write(key, expect, new)).await;
        self.record_answer(answer.unwrap_or_else(|_| Err(RecordStoreError::Unknown(self.no_answer()))))
    }

    fn no_answer(&self) -> String {
        format!("it has not answered within {} ms", self.limit.as_millis())
    }

    fn record_answer<T>(&mut self, answer: Result<T, RecordStoreError>) -> Result<T, RecordStoreError> {
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
