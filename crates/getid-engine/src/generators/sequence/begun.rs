//! Periods in use, until each store has noted them in the rows of their generators.
//!
//! A prepared period is drawn from without a statement, for hours if a generator is slow. Meanwhile other servers must
//! not use an earlier one. A server whose clock is ahead must not move them into a later one: so a period waits until
//! it has begun by the store's clock.
//!
//! Invariant: a store has at most one waiting period for each generator, the newest.

use std::sync::Arc;

use super::Sequences;
use super::pool::StorePool;
use getid_store::sql::{BegunPeriod, StoreError};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The waiting periods of each store, with their begin, Unix ms.
pub(super) struct BegunPeriods(Vec<Mutex<Vec<(i64, BegunPeriod)>>>);

impl BegunPeriods {
    /// Makes an empty list for each of `stores` stores.
    pub(super) fn new(stores: usize) -> BegunPeriods {
        BegunPeriods((0..stores).map(|_| Mutex::default()).collect())
    }

    pub(super) fn push(&self, from_unix_ms: i64, begun: &BegunPeriod) {
        for mut waiting in self.0.iter().map(lock) {
            waiting.retain(|(_, other)| other.key.name() != begun.key.name());
            waiting.push((from_unix_ms, begun.clone()));
        }
    }

    /// Returns the periods of a store that have begun by its clock.
    fn due(&self, store: u8, now_unix_ms: i64) -> Vec<BegunPeriod> {
        let waiting = self.0.get(usize::from(store)).map(lock);
        let due = waiting.iter().flat_map(|waiting| waiting.iter()).filter(|(from, _)| *from <= now_unix_ms);
        due.map(|(_, begun)| begun.clone()).collect()
    }

    fn remove(&self, store: u8, noted: &[BegunPeriod]) {
        if let Some(mut waiting) = self.0.get(usize::from(store)).map(lock) {
            waiting.retain(|(_, begun)| !noted.contains(begun));
        }
    }
}

fn lock(waiting: &Mutex<Vec<(i64, BegunPeriod)>>) -> MutexGuard<'_, Vec<(i64, BegunPeriod)>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sequences {
    /// Notes the begun periods in a store.
    pub(super) async fn note_begun_periods(&self, pool: &Arc<StorePool>) -> Result<(), StoreError> {
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
