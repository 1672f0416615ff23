//! Who waits for values of a sequence, and whose turn it is.
//!
//! Whoever waits gets one slice a round, so that a request for one value does not wait for a pipeline of thousands. A
//! connection waits with one draw at a time, so rounds over those who wait are rounds over connections.
//!
//! Invariant: `waiters` is in the order of arrival, and each of them misses at least one command's values.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Ask, Run};
use crate::checks::{Fault, planted};

/// Commands of one waiter that are served before the next one has its turn.
const SLICE: u32 = 64;

/// Names one that waits; a later one is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiter(pub(super) u64);

#[derive(Debug)]
pub(super) struct Waiting<T> {
    waiters: VecDeque<Entry<T>>,
    /// Whose turn it is, as an index.
    turn: usize,
}

#[derive(Debug)]
struct Entry<T> {
    arrival: Waiter,
    asks: VecDeque<Ask>,
    runs: Vec<Run>,
    payload: T,
}

impl<T> Waiting<T> {
    pub(super) fn new() -> Waiting<T> {
        Waiting { waiters: VecDeque::new(), turn: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Values that were given to those who wait for more.
    pub(super) fn given(&self) -> u64 {
        let runs = self.waiters.iter().flat_map(|entry| &entry.runs);
        runs.map(|run| u64::from(run.values) * u64::from(run.times)).sum()
    }

    /// `arrival` is after that of everybody who waits.
    pub(super) fn join(&mut self, arrival: Waiter, asks: Vec<Ask>, payload: T) {
        self.waiters.push_back(Entry { arrival, asks: asks.into(), runs: Vec::new(), payload });
    }

    pub(super) fn leave(&mut self, waiter: Waiter) -> Option<T> {
        let at = self.waiters.binary_search_by_key(&waiter, |entry| entry.arrival).ok()?;
        self.remove(at).map(|entry| entry.payload)
    }

    fn remove(&mut self, at: usize) -> Option<Entry<T>> {
        if at < self.turn {
            self.turn -= 1;
        }
        self.waiters.remove(at)
    }

    /// Values that are missing in all, and the most that one command misses.
    pub(super) fn missing(&self) -> (u64, u32) {
        let asks = self.waiters.iter().flat_map(|entry| &entry.asks);
        asks.fold((0, 0), |(sum, largest), ask| {
            let values = u64::from(ask.values) * u64::from(ask.times);
            (values.saturating_add(sum), largest.max(ask.values))
        })
    }

    /// Gives to those who came before `before`, in rounds, as long as `take` leaves nothing over: it says how many of
    /// an ask's commands it could not serve.
    pub(super) fn serve(
        &mut self,
        before: Waiter,
        mut take: impl FnMut(Ask, &mut Vec<Run>) -> u32,
        done: &mut dyn FnMut(T, Vec<Run>),
    ) {
        loop {
            // Those who may be served are at the front.
            let served = self.waiters.partition_point(|entry| entry.arrival < before);
            if served == 0 {
                return;
            }
            if self.turn >= served {
                self.turn = 0;
            }
            let entry = &mut self.waiters[self.turn];
            let Some(ask) = entry.asks.front_mut() else {
                // Nobody waits for nothing; if one does, it has all it asked for.
                let Some(entry) = self.remove(self.turn) else { return };
                done(entry.payload, entry.runs);
                continue;
            };
            let slice = if planted(Fault::LargeOneIsServedWhole) { ask.times } else { ask.times.min(SLICE) };
            let left = take(Ask { times: slice, ..*ask }, &mut entry.runs);
            ask.times -= slice - left;
            if ask.times == 0 {
                entry.asks.pop_front();
            }
            if entry.asks.is_empty() {
                if let Some(entry) = self.remove(self.turn) {
                    done(entry.payload, entry.runs);
                }
            } else if left == 0 {
                self.turn += 1;
            }
            if left > 0 {
                return;
            }
        }
    }

    /// The one whose turn it is leaves.
    pub(super) fn next_leaves(&mut self) -> Option<T> {
        if self.turn >= self.waiters.len() {
            self.turn = 0;
        }
        self.remove(self.turn).map(|entry| entry.payload)
    }

    /// Everybody leaves.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.turn = 0;
        self.waiters.drain(..).map(|entry| entry.payload)
    }
}
