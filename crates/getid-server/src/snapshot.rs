//! A value replaced as a whole while readers keep using the old one: the configuration, the settings of sessions.
//!
//! Each connection checks before each read whether there is a new one: a number, which is one load where nothing
//! changes.
//!
//! Two libraries have similar types that do not fit. `arc-swap` is read without a lock, but each check costs more than
//! a load, and a change that may fail needs a separate lock. tokio's `watch` makes readers wait while a value is made
//! from the previous one. Its version is visible only to a receiver, which each idle connection would hold.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A value that may be replaced, with the number of its version.
#[derive(Debug)]
pub struct Snapshot<T> {
    current: RwLock<Arc<T>>,
    version: AtomicU64,
    /// Held while a value is made from the previous one.
    making: Mutex<()>,
}

impl<T> Snapshot<T> {
    pub fn new(value: Arc<T>) -> Snapshot<T> {
        Snapshot { current: RwLock::new(value), version: AtomicU64::new(0), making: Mutex::new(()) }
    }

    pub fn get(&self) -> Arc<T> {
        // A value is only replaced as a whole, so it is valid after a panic.
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the version, which changes whenever the value is replaced. If it is read before [`Snapshot::get`], the
    /// value is at least as new.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Replaces the value by one made from it. Concurrent calls run one after the other, each with the previous result.
    /// Readers do not wait for `make`.
    ///
    /// # Errors
    ///
    /// The errors of `make`; then nothing changes.
    pub fn update<E>(&self, make: impl FnOnce(&T) -> Result<T, E>) -> Result<(), E> {
        let _one_at_a_time = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let mut value = Arc::new(make(&self.get())?);
        {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *current, &mut value);
            self.version.fetch_add(1, Ordering::Release);
        }
        // The old value is dropped here, where no reader waits for it.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_a_new_version_and_a_failed_one_is_none() {
        let value = Snapshot::new(Arc::new(1));
        let before = value.version();
        assert_eq!(value.update(|one| Err::<i32, i32>(*one)), Err(1));
        assert_eq!((*value.get(), value.version()), (1, before));
        assert_eq!(value.update(|one| Ok::<i32, i32>(one + 1)), Ok(()));
        assert_eq!(*value.get(), 2);
        assert_ne!(value.version(), before);
    }

    #[test]
    fn readers_do_not_wait_while_the_next_value_is_made() {
        let value = Snapshot::new(Arc::new(1));
        let read = value.update(|one| {
            let seen = std::thread::scope(|scope| {
                let (sender, receiver) = std::sync::mpsc::channel();
                let value = &value;
                scope.spawn(move || sender.send(value.current.try_read().map(|now| **now).ok()));
                receiver.recv().ok().flatten()
            });
            seen.map(|seen| seen + one).ok_or(())
        });
        assert_eq!((read, *value.get()), (Ok(()), 2));
    }
}
