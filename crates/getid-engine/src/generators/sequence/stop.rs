//! A clean stop, which gives back values that were reserved and not given.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use getid_core::server::SequenceRefusal;
use tokio::time::{Instant, timeout_at};

use super::Sequences;
use super::fetch::deliver;
use super::table::SHARDS;

/// Result of a clean stop for the values in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Number of values that the store has taken back.
    pub given_back: u64,
    /// Number of values that are skipped.
    pub lost: u64,
    /// Number of sequences with values in memory.
    pub sequences: u64,
}

impl Sequences {
    /// Stops giving values, waits for running fetches, and gives back the values in memory, within `timeout`. Must be
    /// called after the last reply.
    pub async fn stop(self: &Arc<Self>, timeout: Duration) -> StopReport {
        self.is_closed.store(true, Relaxed);
        self.requests.close();
        self.numbers.close();
        let deadline = Instant::now() + timeout;
        let own = Arc::clone(self);
        let stopping = self.handle.spawn(async move { own.give_all_back(deadline).await });
        // Without the thread, all values are skipped.
        stopping.await.unwrap_or_default()
    }

    async fn give_all_back(&self, deadline: Instant) -> StopReport {
        // After this, every holder of a shard's lock sees that it is closed.
        for index in 0..SHARDS {
            let mut deliveries = Vec::new();
            for entry in self.table.nth_shard(index).iter_mut() {
                entry
                    .sequence
                    .refuse(&SequenceRefusal::Closed, &mut |sender, result| deliveries.push((sender, result)));
            }
            deliver(deliveries);
        }
        let all_fetched = async {
            loop {
                let fetched = self.fetched.notified();
                if self.fetching.load(Relaxed) == 0 {
                    return;
                }
                fetched.await;
            }
        };
        // A running fetch prevents only its own sequence from being given back.
        let _ = timeout_at(deadline, all_fetched).await;
        let mut stopped = StopReport::default();
        let mut all = Vec::new();
        let now_ms = self.now_ms();
        for index in 0..SHARDS {
            for entry in self.table.nth_shard(index).iter_mut() {
                let held = entry.sequence.status(now_ms).left;
                stopped.lost += held;
                stopped.sequences += u64::from(held > 0);
                all.extend(entry.sequence.give_back().map(|remainder| (entry.key.clone(), remainder)));
            }
        }
        if self.can_give_back() {
            let taken = AtomicU64::new(0);
            let _ = timeout_at(deadline, self.give_back(all, &taken)).await;
            stopped.given_back = taken.load(Relaxed);
            stopped.lost = stopped.lost.saturating_sub(stopped.given_back);
        }
        for pool in &self.pools {
            if pool.is_up() && pool.store.is_shared() {
                let left = timeout_at(deadline, self.leave(pool)).await;
                if !matches!(left, Ok(Ok(()))) {
                    tracing::warn!(
                        "this server has not left the sequence store {}: servers that start, or are in doubt, wait \
                         for it for a minute or longer",
                        pool.store.shown()
                    );
                }
            }
            // At once: a beat would join it again.
            pool.close();
        }
        self.ended.notify_one();
        stopped
    }
}
