//! The fetch queues: sequences that need a fetch, now or at a later time.
//!
//! A queue stores only the hash of a name, so that a request that uses up the values in memory allocates nothing.
//!
//! Sequences whose rows are known and those that may be new have a queue each, and batches of both take turns: clients
//! can invent names, and their creation takes longer. A client waits for the names of one turn at a time, 128 at most,
//! so within a queue no client passes the others.
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
    /// Due fetches, by [`FetchKind`].
    now: [VecDeque<u64>; 2],
    /// Time in ms, kind and hash.
    later: BinaryHeap<Reverse<(u64, FetchKind, u64)>>,
    /// Kind of the last batch.
    last: FetchKind,
}

/// Whether the store has confirmed the row of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FetchKind {
    /// It has, in this life.
    #[default]
    Known,
    /// It has not: the row may not exist.
    New,
}

impl FetchQueue {
    /// Queues a fetch. The caller has set `is_queued`.
    pub(super) fn push(&self, kind: FetchKind, hash: u64) {
        self.lock().now[kind as usize].push_back(hash);
        self.ready.notify_one();
    }

    /// Queues a fetch for a later time. The caller has set `is_queued`.
    pub(super) fn push_later(&self, at_ms: u64, kind: FetchKind, hash: u64) {
        let mut queues = self.lock();
        let is_soonest = queues.later.peek().is_none_or(|Reverse((soonest_ms, ..))| at_ms < *soonest_ms);
        queues.later.push(Reverse((at_ms, kind, hash)));
        drop(queues);
        if is_soonest {
            self.sooner.notify_one();
        }
    }

    /// Returns the kind of the next batch: not that of the last one, unless only fetches of that kind are due.
    pub(super) fn next_kind(&self) -> FetchKind {
        let mut queues = self.lock();
        let other = if queues.last == FetchKind::Known { FetchKind::New } else { FetchKind::Known };
        if !queues.now[other as usize].is_empty() {
            queues.last = other;
        }
        queues.last
    }

    /// Removes and returns the next due fetch of this kind.
    pub(super) fn pop(&self, kind: FetchKind) -> Option<u64> {
        self.lock().now[kind as usize].pop_front()
    }

    /// Removes and returns a due fetch.
    pub(super) fn pop_any(&self) -> Option<u64> {
        self.lock().now.iter_mut().find_map(VecDeque::pop_front)
    }

    /// Puts a fetch back at the front.
    pub(super) fn put_back(&self, kind: FetchKind, hash: u64) {
        self.lock().now[kind as usize].push_front(hash);
        self.ready.notify_one();
    }

    /// Returns true if a fetch is due.
    pub(super) fn has_due(&self) -> bool {
        self.lock().now.iter().any(|queue| !queue.is_empty())
    }

    /// Moves the fetches that are due to the first queue. Returns when the next one is due.
    pub(super) fn advance(&self, now_ms: u64) -> Option<u64> {
        let mut queues = self.lock();
        let mut moved = false;
        let next = loop {
            match queues.later.peek() {
                Some(&Reverse((at_ms, kind, hash))) if at_ms <= now_ms => {
                    queues.later.pop();
                    queues.now[kind as usize].push_back(hash);
                    moved = true;
                }
                next => break next.map(|Reverse((at_ms, ..))| *at_ms),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_both_kinds_take_turns() {
        let queue = FetchQueue::default();
        (0..6).for_each(|hash| queue.push(if hash < 4 { FetchKind::New } else { FetchKind::Known }, hash));
        queue.push_later(5, FetchKind::Known, 6);
        assert_eq!(queue.advance(5), None);
        let batch = || {
            let kind = queue.next_kind();
            let hash = queue.pop(kind)?;
            Some((kind, hash))
        };
        let batches: Vec<_> = std::iter::from_fn(batch).collect();
        let new = [0, 1, 2, 3].map(|hash| (FetchKind::New, hash));
        let known = [4, 5, 6].map(|hash| (FetchKind::Known, hash));
        assert_eq!(batches, [new[0], known[0], new[1], known[1], new[2], known[2], new[3]]);
        assert!(!queue.has_due() && queue.pop_any().is_none());
    }
}
