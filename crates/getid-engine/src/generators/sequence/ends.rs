//! The ends of sequences (`EXPIRE`, `PERSIST`), which are times in their rows.
//!
//! An end is a time of the store's clock. A server converts it to its own clock, which is never set, when it reads the
//! row; so values in memory end when the store's do, as exactly as the server knows the store's clock.

use std::sync::Arc;

use getid_core::server::{EndChange, EndDecision, Key, RowEnd};

use super::pool::StorePool;
use super::table::Table;
use super::verbs::VerbResult;
use super::{SequenceError, Sequences};
use getid_store::sql::{RowChange, SequenceRow, Verdict};
use getid_text::name_hash::hash_of;

impl Sequences {
    /// Returns the time by the clock of the first store that has answered, Unix ms; before that by the own clock.
    pub fn unix_ms(&self) -> i64 {
        self.pools.iter().find_map(|pool| pool.unix_ms()).unwrap_or_else(|| self.clock.wall_unix_ms())
    }

    /// Returns the end of a row of this store; `None` if it has none.
    pub(super) fn row_end(&self, pool: &StorePool, ends_unix_ms: i64) -> Option<RowEnd> {
        let left_ms = ends_unix_ms.saturating_sub(pool.unix_ms().unwrap_or_else(|| self.clock.wall_unix_ms()));
        let at_ms = self.now_ms().saturating_add(left_ms.max(0).unsigned_abs());
        (ends_unix_ms > 0).then_some(RowEnd { unix_ms: ends_unix_ms, at_ms })
    }

    /// Sets the end of a sequence. Returns `None` if there is no such sequence, and otherwise whether the condition is
    /// met. An end that is close to the present one needs no statement if this server knows the present one.
    ///
    /// # Errors
    ///
    /// The sequence has ended, the tables have no ends, or the store fails.
    pub async fn expire(self: &Arc<Self>, key: &Key, change: EndChange) -> VerbResult<Option<bool>> {
        if let Some(end) = self.known_end(key) {
            match change.decide(end.map_or(0, |end| end.unix_ms), self.unix_ms()) {
                EndDecision::Unmet => return Ok(Some(false)),
                EndDecision::Kept => return Ok(Some(true)),
                // The store decides.
                EndDecision::Written(_) | EndDecision::Ended(_) => {}
            }
        }
        self.change_end(key, RowChange::Expire(change)).await
    }

    /// Removes the end of a sequence, which then continues above its last value. Returns `None` if there is no such
    /// sequence, and otherwise whether it had an end.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn persist(self: &Arc<Self>, key: &Key) -> VerbResult<Option<bool>> {
        match self.end_of(key).await? {
            Some(0) => Ok(Some(false)),
            Some(_) => self.change_end(key, RowChange::Persist).await,
            None => Ok(None),
        }
    }

    /// Returns the end of a sequence, Unix ms, 0 for none; `None` if there is no such sequence.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn end_of(self: &Arc<Self>, key: &Key) -> VerbResult<Option<i64>> {
        if let Some(end) = self.known_end(key) {
            return Ok(Some(end.map_or(0, |end| end.unix_ms)));
        }
        Ok(self.inspect(key).await?.map(|view| earliest_end(&view.rows)))
    }

    /// Returns the end of the row of a sequence in memory; `None` if this server does not know it.
    #[expect(clippy::option_option, reason = "a known row may have no end")]
    fn known_end(&self, key: &Key) -> Option<Option<RowEnd>> {
        let hash = hash_of(key.as_str().as_bytes());
        let mut shard = self.table.shard(hash);
        let entry = Table::find(&mut shard, hash, key.as_str()).filter(|entry| entry.flags.is_known)?;
        entry.sequence.known_end()
    }

    async fn change_end(self: &Arc<Self>, key: &Key, change: RowChange) -> VerbResult<Option<bool>> {
        let (own, key) = (Arc::clone(self), key.clone());
        self.on_driver(async move {
            let mut outcome = None;
            for (_, result) in own.change_everywhere(&key, |_| change.clone()).await? {
                match result {
                    Ok(_) => outcome = Some(true),
                    Err(Verdict::EndKept { is_met }) => outcome = Some(is_met || outcome == Some(true)),
                    Err(Verdict::NoSuch | Verdict::Dropped { .. }) => {}
                    Err(verdict) => return Err(SequenceError::from_verdict(verdict)),
                }
            }
            Ok(outcome)
        })
        .await
    }

    /// Records the end of a row that this server has changed. Held values stay, unless the row had another change.
    pub(super) fn end_changed(&self, pool: &StorePool, row: &SequenceRow) {
        let end = self.row_end(pool, row.ends_unix_ms);
        let now_ms = self.now_ms();
        let hash = hash_of(row.key.as_str().as_bytes());
        let mut shard = self.table.shard(hash);
        let Some(entry) = Table::find(&mut shard, hash, row.key.as_str()) else { return };
        if entry.sequence.end_changed(pool.index, row.version, row.generation, end) {
            entry.forget_lanes();
        }
        self.enqueue_fetch(entry, hash, now_ms);
    }

    /// Returns the end of rows that have ended by their stores' clocks, Unix ms.
    pub(super) fn ended(&self, rows: &[(u8, SequenceRow)]) -> Option<i64> {
        let has_ended = |(index, row): &&(u8, SequenceRow)| {
            let now_unix_ms = self.pools.get(usize::from(*index)).and_then(|pool| pool.unix_ms());
            row.ends_unix_ms > 0 && now_unix_ms.is_some_and(|now_unix_ms| row.ends_unix_ms <= now_unix_ms)
        };
        rows.iter().find(has_ended).map(|(_, row)| row.ends_unix_ms)
    }
}

/// Returns the earliest end of a sequence's rows, Unix ms; 0 if none has an end.
fn earliest_end(rows: &[(u8, SequenceRow)]) -> i64 {
    rows.iter().map(|(_, row)| row.ends_unix_ms).filter(|ends| *ends > 0).min().unwrap_or(0)
}
