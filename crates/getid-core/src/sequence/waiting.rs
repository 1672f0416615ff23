//! Queue of the draws that wait for values of a sequence.
//!
//! Each waiting draw gets one slice a round, so that a request for one value does not wait for a pipeline of thousands.
//! A connection waits with one draw at a time, so rounds over draws are rounds over connections.
//!
//! Invariant: `waiters` is in the order of arrival, and each of them lacks the values of at least one command.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::segment::{Run, SequenceRequest};
use crate::checks::{Fault, planted};

/// Commands of one waiting draw that are served before the next one has its turn.
const SLICE: u32 = 64;

/// Ticket of a waiting draw; a later one is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId(pub(super) u64);

#[derive(Debug)]
pub(super) struct WaitQueue<T> {
    waiters: VecDeque<QueuedRequest<T>>,
    /// Index of the next draw to serve.
    turn: usize,
}

#[derive(Debug)]
struct QueuedRequest<T> {
    arrival: WaiterId,
    asks: VecDeque<SequenceRequest>,
    /// Whether it takes fewer values if there are no more up to the max.
    is_range: bool,
    runs: Vec<Run>,
    payload: T,
}

impl<T> WaitQueue<T> {
    pub(super) const fn new() -> WaitQueue<T> {
        WaitQueue { waiters: VecDeque::new(), turn: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Returns the number of values given to draws that wait for more.
    pub(super) fn given(&self) -> u64 {
        let runs = self.waiters.iter().flat_map(|entry| &entry.runs);
        runs.map(|run| u64::from(run.values) * u64::from(run.times)).sum()
    }

    /// Enqueues a draw. `arrival` is larger than that of all waiting draws. A draw of a range takes fewer values if
    /// there are no more up to the max.
    pub(super) fn join(&mut self, arrival: WaiterId, asks: Vec<SequenceRequest>, is_range: bool, payload: T) {
        self.waiters.push_back(QueuedRequest { arrival, asks: asks.into(), is_range, runs: Vec::new(), payload });
    }

    pub(super) fn leave(&mut self, waiter: WaiterId) -> Option<T> {
        let at = self.waiters.binary_search_by_key(&waiter, |entry| entry.arrival).ok()?;
        self.remove(at).map(|entry| entry.payload)
    }

    fn remove(&mut self, at: usize) -> Option<QueuedRequest<T>> {
        if at < self.turn {
            self.turn -= 1;
        }
        self.waiters.remove(at)
    }

    /// Returns the number of missing values in all, and the largest number that one command lacks.
    pub(super) fn missing(&self) -> (u64, u32) {
        let asks = self.waiters.iter().flat_map(|entry| &entry.asks);
        asks.fold((0, 0), |(sum, largest), ask| {
            let values = u64::from(ask.values) * u64::from(ask.times);
            (values.saturating_add(sum), largest.max(ask.values))
        })
    }

    /// Serves draws that came before `before`, in rounds, while `take` leaves nothing over. `take` returns how many of
    /// an ask's commands it could not serve; its second argument is true for a draw of a range.
    pub(super) fn serve(
        &mut self,
        before: WaiterId,
        mut take: impl FnMut(SequenceRequest, bool, &mut Vec<Run>) -> u32,
        done: &mut dyn FnMut(T, Vec<Run>),
    ) {
        loop {
            // The draws that may be served are at the front.
            let served = self.waiters.partition_point(|entry| entry.arrival < before);
            if served == 0 {
                return;
            }
            if self.turn >= served {
                self.turn = 0;
            }
            let entry = &mut self.waiters[self.turn];
            let Some(ask) = entry.asks.front_mut() else {
                // No draw waits without asks; if one does, it is complete.
                let Some(entry) = self.remove(self.turn) else { return };
                done(entry.payload, entry.runs);
                continue;
            };
            let slice = if planted(Fault::LargeOneIsServedWhole) { ask.times } else { ask.times.min(SLICE) };
            let left = take(SequenceRequest { times: slice, ..*ask }, entry.is_range, &mut entry.runs);
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

    /// Removes the draw whose turn it is.
    pub(super) fn next_leaves(&mut self) -> Option<T> {
        if self.turn >= self.waiters.len() {
            self.turn = 0;
        }
        self.remove(self.turn).map(|entry| entry.payload)
    }

    /// Removes all draws.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.turn = 0;
        self.waiters.drain(..).map(|entry| entry.payload)
    }
}
