//! The machine's clocks, behind a trait that tests replace by simulated ones.

use std::sync::{Condvar, LockResult, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::time::ClockId;

use crate::clock::Reading;

/// A source of time with waiting.
pub(super) trait Clock: Send + Sync {
    /// Returns nanoseconds of a clock that counts suspend and is never set; 0: it could not be read.
    fn boot_ns(&self) -> u64;

    /// Returns the wall clock, Unix time in milliseconds.
    fn wall_unix_ms(&self) -> i64;

    /// Waits for `duration`.
    fn sleep(&self, duration: Duration);

    /// Waits until `event` is notified, for at most `at_most`; it may end sooner.
    fn wait<'a, T>(
        &self,
        event: &Condvar,
        guard: MutexGuard<'a, T>,
        at_most: Duration,
    ) -> LockResult<MutexGuard<'a, T>>;

    /// Returns both clocks, read one right after the other.
    fn reading(&self) -> Reading {
        Reading { wall_unix_ms: self.wall_unix_ms(), boot_ns: self.boot_ns() }
    }
}

/// `CLOCK_REALTIME` and `CLOCK_BOOTTIME`, or `CLOCK_MONOTONIC` where there is no clock that counts suspend.
///
/// They are read through libc, so that libfaketime and other preloads reach them.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemClock {
    carrier: ClockId,
}

impl SystemClock {
    /// Detects the clocks of this machine.
    pub(super) fn new() -> SystemClock {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if ClockId::CLOCK_BOOTTIME.now().is_ok() {
            return SystemClock { carrier: ClockId::CLOCK_BOOTTIME };
        }
        SystemClock { carrier: ClockId::CLOCK_MONOTONIC }
    }
}

impl Clock for SystemClock {
    #[inline]
    fn boot_ns(&self) -> u64 {
        self.carrier.now().map_or(0, |time| {
            let seconds = time.tv_sec().max(0).cast_unsigned();
            let nanos = time.tv_nsec().max(0).cast_unsigned();
            seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
        })
    }

    fn wall_unix_ms(&self) -> i64 {
        // A wall clock that cannot be read is as wrong as one before the epoch, and gets the same refusal.
        ClockId::CLOCK_REALTIME
            .now()
            .map_or(i64::MIN, |time| time.tv_sec().saturating_mul(1000).saturating_add(time.tv_nsec() / 1_000_000))
    }

    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }

    fn wait<'a, T>(
        &self,
        event: &Condvar,
        guard: MutexGuard<'a, T>,
        at_most: Duration,
    ) -> LockResult<MutexGuard<'a, T>> {
        match event.wait_timeout(guard, at_most) {
            Ok((guard, _)) => Ok(guard),
            Err(error) => Err(PoisonError::new(error.into_inner().0)),
        }
    }
}
