//! The issuer's locks and atomic words, named in one place. Unit tests of this crate have shuttle's in their place,
//! which try thread orders that the system hardly ever produces.

pub(super) use imp::{AtomicU64, Mutex, MutexGuard, thread_number};
pub(super) use std::sync::PoisonError;

#[cfg(not(test))]
mod imp {
    pub(in super::super) use std::sync::atomic::AtomicU64;
    pub(in super::super) use std::sync::{Mutex, MutexGuard};

    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Value of a thread that has no number yet.
    const NO_NUMBER: usize = usize::MAX;

    static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);

    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(NO_NUMBER) };
    }

    /// Returns the calling thread's own number: 0, 1, ... in the order of first calls.
    #[inline]
    pub(in super::super) fn thread_number() -> usize {
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
}

#[cfg(test)]
mod imp {
    pub(in super::super) use shuttle::sync::atomic::AtomicU64;
    pub(in super::super) use shuttle::sync::{Mutex, MutexGuard};

    pub(in super::super) fn thread_number() -> usize {
        shuttle::current::me().into()
    }
}
