//! Which sequences want a fetch, now or at a time.
//!
//! A sequence is told by the hash of its name, so that a request that uses up what is held allocates nothing for it.
//!
//! Invariant: a sequence is in one of both queues at most, which its `is_wished` says; so both are as long at most as
//! there are sequences in memory.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tokio::sync::Notify;

use crate::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(super) struct Wishes {
    queues: Mutex<Queues>,
    /// Notified when there is one that can be fetched.
    pub(super) ready: Notify,
    /// Notified when one is to be fetched sooner than all others that are to be fetched later.
    pub(super) sooner: Notify,
}

#[derive(Default)]
struct Queues {
    now: VecDeque<u64>,
    /// When, in ms, and which.
    later: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Wishes {
    /// One wants a fetch. The caller has set `is_wished`.
    pub(super) fn push(&self, hash: u64) {
        self.lock().now.push_back(hash);
        self.ready.notify_one();
    }

    /// The same, at a time.
    pub(super) fn push_later(&self, at_ms: u64, hash: u64) {
        let mut queues = self.lock();
        let is_soonest = queues.later.peek().is_none_or(|Reverse((soonest_ms, _))| at_ms < *soonest_ms);
        queues.later.push(Reverse((at_ms, hash)));
        drop(queues);
        if is_soonest {
            self.sooner.notify_one();
        }
    }

    /// The next one; it is in no queue any more.
    pub(super) fn pop(&self) -> Option<u64> {
        self.lock().now.pop_front()
    }

    /// Puts it back where it was.
    pub(super) fn put_back(&self, hash: u64) {
        self.lock().now.push_front(hash);
        self.ready.notify_one();
    }

    /// Whether there is one that can be fetched.
    pub(super) fn is_any(&self) -> bool {
        !self.lock().now.is_empty()
    }

    /// Moves those whose time has come to the others; when the next one's comes.
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

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
