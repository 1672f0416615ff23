//! The fetch queues: sequences that need a fetch, now or at a later time.
//!
//! A queue stores only the hash of a name, so that a request that uses up the values in memory allocates nothing.
//!
//! Invariant: a sequence is in at most one of both queues, as its `is_queued` shows. So both are at most as long as the
//! number of sequences in memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tokio::sync::Notify;

use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(super) struct FetchQueue {
    queues: Mutex<FetchQueues>,
    /// Notified when a fetch is due.
    pub(super) ready: Notify,
    /// Notified when a fetch is queued that is due before all later ones.
    pub(super) sooner: Notify,
}

#[derive(Default)]
struct FetchQueues {
    now: VecDeque<u64>,
    /// Time in ms, and hash.
    later: BinaryHeap<Reverse<(u64, u64)>>,
}

impl FetchQueue {
    /// Queues a fetch. The caller has set `is_queued`.
    pub(super) fn push(&self, hash: u64) {
        self.lock().now.push_back(hash);
        self.ready.notify_one();
    }

    /// Queues a fetch for a later time. The caller has set `is_queued`.
    pub(super) fn push_later(&self, at_ms: u64, hash: u64) {
        let mut queues = self.lock();
        let is_soonest = queues.later.peek().is_none_or(|Reverse((soonest_ms, _))| at_ms < *soonest_ms);
        queues.later.push(Reverse((at_ms, hash)));
        drop(queues);
        if is_soonest {
            self.sooner.notify_one();
        }
    }

    /// Removes and returns the next due fetch.
    pub(super) fn pop(&self) -> Option<u64> {
        self.lock().now.pop_front()
    }

    /// Puts a fetch back at the front.
    pub(super) fn put_back(&self, hash: u64) {
        self.lock().now.push_front(hash);
        self.ready.notify_one();
    }

    /// Returns true if a fetch is due.
    pub(super) fn has_due(&self) -> bool {
        !self.lock().now.is_empty()
    }

    /// Moves the fetches that are due to the first queue. Returns when the next one is due.
    pub(super) fn advance(&self, now_ms: u64) -> Option<u64> {
        let mut queues = self.lock();
        let mut moved = false;
        let next = loop {
            match queues.later.peek() {
                Some(&Reverse((at_ms, hash))) if at_ms <= now_ms => {
                    queues.later.pop();
                    queues.now.push_back(hash);
                    moved = true;
                }
                next => break next.map(|Reverse((at_ms, _))| *at_ms),
            }
        };
        drop(queues);
        if moved {
            self.ready.notify_one();
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, FetchQueues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
