//! Signal: wakes one thread. Not `thread::park`, whose token a program may use for its own purposes.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Wakes the thread that waits, or the next one to wait.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Sets the signal.
    pub(crate) fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    /// Returns whether the signal was set before `deadline`, and clears it.
    pub(crate) fn wait_until(&self, deadline: Instant) -> bool {
        let mut is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_set {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            is_set = self.changed.wait_timeout(is_set, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut *is_set)
    }
}
