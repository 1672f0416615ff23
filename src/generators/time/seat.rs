//! A place in the queue, as the future that waits in it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use getid_core::checks::{Fault, planted};
use getid_core::{Refusal, Reservation};
use tokio::time::Instant;

use super::queue::Ticket;
use super::{Issuer, ns};
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::system::clock::Clock;

/// What the one who serves and the one who waits share.
#[derive(Debug)]
pub(super) struct Seat(Mutex<Contents>);

#[derive(Debug)]
struct Contents {
    drawn: Vec<Reservation>,
    /// How it ended.
    end: Option<Result<(), Refusal>>,
    waker: Option<Waker>,
}

impl Seat {
    pub(super) fn new() -> Self {
        Seat(Mutex::new(Contents { drawn: Vec::new(), end: None, waker: None }))
    }

    /// Adds IDs; neighbours of the last ones become one piece with them.
    pub(super) fn put(&self, piece: Reservation) {
        let drawn = &mut self.lock().drawn;
        if !drawn.last_mut().is_some_and(|last| last.append(piece)) {
            drawn.push(piece);
        }
    }

    /// Ends the wait, and says whom to wake, which is better done without holding the issuer's lock.
    pub(super) fn end(&self, end: Result<(), Refusal>) -> Option<Waker> {
        let mut seat = self.lock();
        seat.end.get_or_insert(end);
        seat.waker.take()
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for all IDs of a draw. Dropping it gives the place back at once; IDs it has got already are lost, which is no harm.
pub(super) struct Waiting<'a, C: Clock> {
    pub(super) issuer: &'a Issuer<C>,
    pub(super) seat: Arc<Seat>,
    pub(super) ticket: Ticket,
    pub(super) since: Instant,
    pub(super) is_over: bool,
}

impl<C: Clock> Future for Waiting<'_, C> {
    type Output = Result<Vec<Reservation>, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut seat = self.seat.lock();
        let Some(end) = seat.end.take() else {
            if seat.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
                seat.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        };
        let drawn = std::mem::take(&mut seat.drawn);
        drop(seat);
        self.is_over = true;
        Poll::Ready(end.map(|()| drawn))
    }
}

impl<C: Clock> Drop for Waiting<'_, C> {
    fn drop(&mut self) {
        if !self.is_over && !planted(Fault::LeaverKeepsItsPlace) {
            self.issuer.lock().queue.leave(self.ticket);
        }
        self.issuer.stats.waited_ns.fetch_add(ns(self.since.elapsed()), Relaxed);
    }
}
