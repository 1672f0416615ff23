//! Clocks: of the machine, and one that a test moves. The only place that reads the machine's clocks for values.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::signal::Signal;

/// Clock of a client.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The machine's clocks.
    System,
    /// Clocks that a test moves.
    Test(Arc<TestClock>),
}

impl Clock {
    /// Returns monotonic time.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Clock::System => Instant::now(),
            Clock::Test(clock) => clock.now(),
        }
    }

    /// Returns Unix time in nanoseconds.
    #[inline]
    pub(crate) fn wall_ns(&self) -> i64 {
        match self {
            Clock::System => machine_wall_ns(),
            Clock::Test(clock) => clock.wall_ns(),
        }
    }

    /// Returns Unix time in milliseconds.
    #[inline]
    pub(crate) fn wall_ms(&self) -> i64 {
        self.wall_ns().div_euclid(1_000_000)
    }

    /// Wakes a background thread after each shift of a test clock.
    pub(crate) fn watch(&self, signal: &Arc<Signal>) {
        if let Clock::Test(clock) = self {
            clock.signals.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(signal));
        }
    }
}

#[allow(clippy::disallowed_methods)]
fn machine_wall_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().cast_signed().saturating_mul(1_000_000_000).saturating_add(i64::from(since.subsec_nanos()))
}

/// Clock of this machine plus distances that a test adds, for tests of this crate and its conformance suite.
#[doc(hidden)]
#[derive(Debug)]
pub struct TestClock {
    frozen: Option<(Instant, i64)>,
    wall_ms: AtomicI64,
    mono_ms: AtomicI64,
    signals: Mutex<Vec<Weak<Signal>>>,
}

impl TestClock {
    /// Makes a clock that runs with the machine's.
    pub fn running() -> Arc<TestClock> {
        TestClock::from_frozen(None)
    }

    /// Makes a clock that moves by shifts alone.
    pub fn frozen(wall_ms: i64) -> Arc<TestClock> {
        TestClock::from_frozen(Some((Instant::now(), wall_ms * 1_000_000)))
    }

    fn from_frozen(frozen: Option<(Instant, i64)>) -> Arc<TestClock> {
        let (wall_ms, mono_ms) = (AtomicI64::new(0), AtomicI64::new(0));
        Arc::new(TestClock { frozen, wall_ms, mono_ms, signals: Mutex::default() })
    }

    /// Adds distances to the wall clock and to the monotonic clock, and wakes the clients.
    pub fn shift(&self, wall_ms: i64, mono_ms: i64) {
        self.wall_ms.fetch_add(wall_ms, Ordering::SeqCst);
        self.mono_ms.fetch_add(mono_ms, Ordering::SeqCst);
        let mut signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        signals.retain(|signal| signal.upgrade().inspect(|signal| signal.set()).is_some());
    }

    fn now(&self) -> Instant {
        let mono_ms = self.mono_ms.load(Ordering::SeqCst);
        let base = self.frozen.map_or_else(Instant::now, |(instant, _)| instant);
        let distance = Duration::from_millis(mono_ms.unsigned_abs());
        let moved = if mono_ms < 0 { base.checked_sub(distance) } else { base.checked_add(distance) };
        moved.unwrap_or(base)
    }

    fn wall_ns(&self) -> i64 {
        let shift_ns = self.wall_ms.load(Ordering::SeqCst).saturating_mul(1_000_000);
        self.frozen.map_or_else(machine_wall_ns, |(_, ns)| ns).saturating_add(shift_ns)
    }
}
