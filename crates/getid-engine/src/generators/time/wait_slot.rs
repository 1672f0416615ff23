//! The slot of a waiting draw, where it gets its IDs: a channel that is filled piece by piece, and closed with the
//! draw's result.

use std::task::{Context, Poll, Waker};

use getid_core::{Refusal, Reservation};

use super::sync::{Mutex, MutexGuard, PoisonError};

/// Shared state of the task that serves and the draw that waits.
#[derive(Debug)]
pub(super) struct WaitSlot(Mutex<WaitSlotState>);

#[derive(Debug)]
struct WaitSlotState {
    drawn: Vec<Reservation>,
    end: Option<Result<(), Refusal>>,
    waker: Option<Waker>,
}

impl WaitSlot {
    pub(super) fn new() -> Self {
        WaitSlot(Mutex::new(WaitSlotState { drawn: Vec::new(), end: None, waker: None }))
    }

    /// Adds IDs; neighbours of the last ones are merged with them.
    pub(super) fn put(&self, piece: Reservation) {
        let drawn = &mut self.lock().drawn;
        if !drawn.last_mut().is_some_and(|last| last.append(piece)) {
            drawn.push(piece);
        }
    }

    /// Ends the wait. The caller wakes the returned waker once the issuer's lock is released.
    pub(super) fn end(&self, end: Result<(), Refusal>) -> Option<Waker> {
        let mut slot = self.lock();
        slot.end.get_or_insert(end);
        slot.waker.take()
    }

    /// Returns all IDs that were put, once the wait has ended.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Result<Vec<Reservation>, Refusal>> {
        let mut slot = self.lock();
        let Some(end) = slot.end.take() else {
            if slot.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                slot.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        };
        Poll::Ready(end.map(|()| std::mem::take(&mut slot.drawn)))
    }

    fn lock(&self) -> MutexGuard<'_, WaitSlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
