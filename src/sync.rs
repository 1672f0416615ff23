//! The locks and atomic words that decide who is served when, named in one place: `tests/interleavings/` compiles the
//! issuer with others, which try orders of threads that the system would hardly ever show.

pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Before a thread has asked for its number.
const NO_NUMBER: usize = usize::MAX;

static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(NO_NUMBER) };
}

/// A number that the calling thread has to itself: 0, 1, ... in the order in which threads first ask.
#[inline]
pub(crate) fn thread_number() -> usize {
    match NUMBER.get() {
        NO_NUMBER => first_thread_number(),
        number => number,
    }
}

#[cold]
fn first_thread_number() -> usize {
    let number = NEXT_NUMBER.fetch_add(1, Relaxed);
    NUMBER.set(number);
    number
}
