//! Periods that have begun, until each store has noted them in the rows of their generators.
//!
//! A period that was prepared is drawn from without a statement, for hours where a generator is slow. Other servers
//! must not be in an earlier one meanwhile.
//!
//! Invariant: there is one period for each generator at most, the newest.

use std::sync::Arc;

use super::Sequences;
use super::pool::Pool;
use crate::sql::{Begun, StoreError};
use crate::sync::{Mutex, PoisonError};

/// Those that not all stores have noted, each with the stores that are left, a bit for each.
#[derive(Default)]
pub(super) struct BegunPeriods(Mutex<Vec<(Begun, u8)>>);

impl BegunPeriods {
    pub(super) fn push(&self, begun: Begun, stores: usize) {
        let left =
            (0..stores).fold(0, |left, store| left | 1_u8.checked_shl(u32::try_from(store).unwrap_or(8)).unwrap_or(0));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(other, _)| other.key.name() != begun.key.name());
        all.push((begun, left));
    }

    /// Those that a store has not noted.
    fn of(&self, store: u8) -> Vec<Begun> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|(_, left)| left & (1 << store) != 0).map(|(begun, _)| begun.clone()).collect()
    }

    fn noted(&self, store: u8, noted: &[Begun]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (begun, left) in all.iter_mut() {
            if noted.contains(begun) {
                *left &= !(1 << store);
            }
        }
        all.retain(|(_, left)| *left != 0);
    }
}

impl Sequences {
    /// Has a store note the periods that have begun.
    pub(super) async fn note_begun_periods(&self, pool: &Arc<Pool>) -> Result<(), StoreError> {
        let begun = self.begun.of(pool.index);
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
        self.begun.noted(pool.index, &begun);
        Ok(())
    }
}
