//! The sweep, which removes from memory sequences without a request for ten minutes, and names that the store does not
//! have.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use getid_core::server::{Key, Remainder};
use tokio::time::sleep;

use super::Sequences;
use super::table::{ENTRIES_MAX, SHARDS};
use getid_store::sql::GiveBackRequest;

/// Interval at which a part of the sequences is swept: all of them take 16 s.
const EVERY: Duration = Duration::from_millis(250);
const SHARDS_EACH: usize = SHARDS / 64;

/// Maximum number of sequences whose values one transaction gives back: 160 KiB of SQL. Two syncs of a disk each.
const GIVEN_BACK_MAX: usize = 512;

/// Time for which a missing name is remembered, ms. As long as its verdict is valid.
const MISSING_MS: u64 = 1_000;

/// Maximum number of remembered missing names. The oldest is forgotten first.
const MISSING_MAX: usize = 4096;

/// Names that the store does not have, by the time of their removal.
#[derive(Default)]
pub(super) struct MissingNames(VecDeque<(u64, u64)>);

/// Values of one sequence to give back.
pub(super) type ReturnedValues = (Key, Remainder);

impl Sequences {
    /// Remembers for a second that the store has no such name. Called without a shard's lock.
    pub(super) fn remember_missing(&self, is_missing: bool, hash: u64, now_ms: u64) {
        if !is_missing {
            return;
        }
        let mut missing = self.missing();
        missing.0.push_back((now_ms + MISSING_MS, hash));
        let oldest = if missing.0.len() > MISSING_MAX { missing.0.pop_front() } else { None };
        drop(missing);
        if let Some((_, hash)) = oldest {
            self.forget_missing(hash);
        }
    }

    fn forget_missing(&self, hash: u64) {
        let mut shard = self.table.shard(hash);
        self.table.remove(&mut shard, hash, |entry| !entry.flags.is_known && entry.is_at_rest());
    }

    pub(super) async fn sweep_for_ever(self: Arc<Self>) {
        let mut at = 0;
        loop {
            sleep(EVERY).await;
            self.throw_away_expired();
            let now_ms = self.now_ms();
            loop {
                let mut missing = self.missing();
                let Some((_, hash)) = missing.0.pop_front_if(|(until_ms, _)| *until_ms <= now_ms) else { break };
                drop(missing);
                self.forget_missing(hash);
            }
            for _ in 0..SHARDS_EACH {
                let leaving = self.sweep(at, now_ms);
                self.tally(at, now_ms);
                at = (at + 1) % SHARDS;
                if !leaving.is_empty() {
                    self.give_back(leaving, &AtomicU64::new(0)).await;
                }
                tokio::task::yield_now().await;
            }
        }
    }

    /// Removes the idle sequences of one shard. Returns their values that can be given back.
    pub(super) fn sweep(&self, index: usize, now_ms: u64) -> Vec<ReturnedValues> {
        let can_give_back = self.can_give_back();
        // Values that cannot be given back would be lost, so the sequence stays while there is room.
        let is_full = self.table.count() > ENTRIES_MAX / 4 * 3;
        let mut leaving = Vec::new();
        let mut shard = self.table.nth_shard(index);
        self.table.remove_where(&mut shard, |entry| {
            if !entry.is_at_rest() || !entry.sequence.is_idle(now_ms) {
                return false;
            }
            if !entry.sequence.holds_values() {
                return true;
            }
            if can_give_back {
                leaving.extend(entry.sequence.give_back().map(|remainder| (entry.key.clone(), remainder)));
            }
            can_give_back || is_full
        });
        leaving
    }

    /// Returns true if values that were not given can go back to the store.
    pub(super) fn can_give_back(&self) -> bool {
        matches!(self.pools.as_slice(), [only] if only.is_native() && only.is_up() && only.held().is_none())
    }

    /// Gives back the values of removed sequences, each once. `taken` counts the values that the store takes.
    pub(super) async fn give_back(&self, mut leaving: Vec<ReturnedValues>, taken: &AtomicU64) {
        let [pool] = self.pools.as_slice() else { return };
        leaving.sort_by(|(a, _), (b, _)| a.cmp(b));
        for batch in leaving.chunks(GIVEN_BACK_MAX) {
            if let Some(about) = pool.about() {
                // The values given, not those below: another server may give those back too, and the row is right then.
                let had_next = |own: &Remainder| own.had_next.unwrap_or(own.next);
                let lowered = batch.iter().map(|(key, own)| (key.clone(), had_next(own))).collect();
                if !self.notes.lower(&about.uuid, lowered).await {
                    return;
                }
            }
            let ends: Vec<GiveBackRequest> = batch
                .iter()
                .map(|(key, own)| GiveBackRequest { key: key.clone(), version: own.version, next: own.next })
                .collect();
            let Ok(slot) = pool.slot().await else { return };
            let Ok(server) = pool.credentials() else { return };
            let answer = pool.run(&slot, move |mut connection| {
                Box::pin(async move {
                    let answer = connection.give_back(server, &ends).await;
                    (connection, answer)
                })
            });
            match answer.await {
                Ok(each) => {
                    let values =
                        batch.iter().zip(each).map(|((_, own), is_taken)| if is_taken { own.values } else { 0 });
                    taken.fetch_add(values.sum(), Relaxed);
                }
                // Never a second time, since the outcome is unknown.
                Err(error) => {
                    tracing::warn!("values of sequences were not given back, and are skipped: {error}");
                    return;
                }
            }
        }
    }

    fn missing(&self) -> std::sync::MutexGuard<'_, MissingNames> {
        self.missing.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
