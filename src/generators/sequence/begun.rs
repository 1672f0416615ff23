//! Periods that are drawn from, until each store has noted them in the rows of their generators.
//!
//! A period that was prepared is drawn from without a statement, for hours where a generator is slow. Other servers
//! must not be in an earlier one meanwhile. A server whose clock is ahead must not move them into a later one: so a
//! period waits until it has begun by the store's clock.
//!
//! Invariant: a store has one waiting period for each generator at most, the newest.

use std::sync::Arc;

use super::Sequences;
use super::pool::Pool;
use crate::sql::{Begun, StoreError};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// The waiting periods of each store, with when they begin, Unix ms.
pub(super) struct BegunPeriods(Vec<Mutex<Vec<(i64, Begun)>>>);

impl BegunPeriods {
    /// None yet, for so many stores.
    pub(super) fn new(stores: usize) -> BegunPeriods {
        BegunPeriods((0..stores).map(|_| Mutex::default()).collect())
    }

    pub(super) fn push(&self, from_unix_ms: i64, begun: &Begun) {
        for mut waiting in self.0.iter().map(lock) {
            waiting.retain(|(_, other)| other.key.name() != begun.key.name());
            waiting.push((from_unix_ms, begun.clone()));
        }
    }

    /// Those of a store that have begun by its clock.
    fn due(&self, store: u8, now_unix_ms: i64) -> Vec<Begun> {
        let waiting = self.0.get(usize::from(store)).map(lock);
        let due = waiting.iter().flat_map(|waiting| waiting.iter()).filter(|(from, _)| *from <= now_unix_ms);
        due.map(|(_, begun)| begun.clone()).collect()
    }

    fn remove(&self, store: u8, noted: &[Begun]) {
        if let Some(mut waiting) = self.0.get(usize::from(store)).map(lock) {
            waiting.retain(|(_, begun)| !noted.contains(begun));
        }
    }
}

fn lock(waiting: &Mutex<Vec<(i64, Begun)>>) -> MutexGuard<'_, Vec<(i64, Begun)>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sequences {
    /// Has a store note the periods that have begun.
    pub(super) async fn note_begun_periods(&self, pool: &Arc<Pool>) -> Result<(), StoreError> {
        let begun = pool.unix_ms().map(|now_ms| self.begun.due(pool.index, now_ms)).unwrap_or_default();
        if begun.is_empty() {
            return Ok(());
        }
        let slot = pool.slot().await?;
        let sent = begun.clone();
        pool.run(&slot, move |mut connection| {
            Box::pin(async move {
                let noted = connection.begin_periods(&sent).await;
                (connection, noted)
            })
        })
        .await?;
        self.begun.remove(pool.index, &begun);
        Ok(())
    }
}
