//! `CLIENT PAUSE`: requests of all clients that are held until a time, or until `CLIENT UNPAUSE`.
//!
//! Connections read one atomic before each turn. One with a held request waits here, and the first that finds the time
//! over ends the pause for all: a pause without a held request needs no timer.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use getid_redis::session::Pause;

/// Longest pause; longer ones are shortened to it.
const PAUSE_MAX: Duration = Duration::from_hours(100 * 365 * 24);

#[derive(Debug, Default)]
pub struct Pauses {
    /// Copy of `current`: 0 without a pause, 1 for [`Pause::Write`], 2 for [`Pause::All`].
    holds: AtomicU8,
    current: Mutex<Option<ActivePause>>,
    changed: Notify,
}

#[derive(Clone, Copy, Debug)]
struct ActivePause {
    holds: Pause,
    until: Instant,
}

impl Pauses {
    /// Returns which requests are held. May still return a pause whose time is over; [`Pauses::over`] ends it then.
    #[inline]
    pub fn holds(&self) -> Option<Pause> {
        match self.holds.load(Relaxed) {
            0 => None,
            1 => Some(Pause::Write),
            _ => Some(Pause::All),
        }
    }

    /// Returns which requests are held, and for how many milliseconds more.
    pub fn remaining(&self) -> Option<(Pause, u64)> {
        let current = self.lock_unless_over();
        let left = |current: ActivePause| current.until.saturating_duration_since(Instant::now()).as_millis();
        current.map(|current| (current.holds, u64::try_from(left(current)).unwrap_or(u64::MAX)))
    }

    /// Begins a pause. A running one becomes longer or wider, never shorter or narrower, as in Redis.
    pub fn begin(&self, holds: Pause, timeout_ms: u64) {
        let until = Instant::now() + Duration::from_millis(timeout_ms).min(PAUSE_MAX);
        let mut current = self.lock_unless_over();
        let holds = current.map_or(holds, |current| current.holds.max(holds));
        let until = current.map_or(until, |current| current.until.max(until));
        *current = Some(ActivePause { holds, until });
        self.holds.store(if holds == Pause::Write { 1 } else { 2 }, Relaxed);
        drop(current);
        self.changed.notify_waiters();
    }

    pub fn end(&self) {
        self.set_none(&mut self.lock());
    }

    /// Resolves once there is no pause, or another one. Held requests can then be checked again.
    pub async fn over(&self) {
        // Registered before the check, so that a change between the check and the sleep is noticed.
        let changed = self.changed.notified();
        let Some(current) = *self.lock_unless_over() else { return };
        if tokio::time::timeout_at(current.until, changed).await.is_err() {
            drop(self.lock_unless_over());
        }
    }

    /// Locks the pause, and ends it if its time is over.
    fn lock_unless_over(&self) -> MutexGuard<'_, Option<ActivePause>> {
        let mut current = self.lock();
        if current.is_some_and(|current| current.until <= Instant::now()) {
            self.set_none(&mut current);
        }
        current
    }

    fn set_none(&self, current: &mut Option<ActivePause>) {
        *current = None;
        self.holds.store(0, Relaxed);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Option<ActivePause>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_by_itself() {
        let pauses = Pauses::default();
        assert_eq!((pauses.holds(), pauses.remaining()), (None, None));
        pauses.over().await;
        pauses.begin(Pause::Write, 1000);
        assert_eq!(pauses.remaining(), Some((Pause::Write, 1000)));
        let begun = Instant::now();
        pauses.over().await;
        assert_eq!((begun.elapsed().as_millis(), pauses.holds()), (1000, None));
    }

    #[tokio::test(start_paused = true)]
    async fn another_pause_makes_it_longer_or_wider_only() {
        let pauses = Pauses::default();
        pauses.begin(Pause::All, 500);
        pauses.begin(Pause::Write, 100);
        assert_eq!(pauses.remaining(), Some((Pause::All, 500)));
        pauses.begin(Pause::Write, 900);
        assert_eq!(pauses.remaining(), Some((Pause::All, 900)));
        tokio::time::sleep(Duration::from_millis(900)).await;
        pauses.begin(Pause::Write, 100);
        assert_eq!(pauses.remaining(), Some((Pause::Write, 100)), "the previous pause is over");
        pauses.begin(Pause::All, u64::MAX);
        assert_eq!(pauses.holds(), Some(Pause::All));
    }

    #[tokio::test(start_paused = true)]
    async fn unpause_wakes_waiting_clients_at_once() {
        let pauses = Pauses::default();
        pauses.begin(Pause::All, 60_000);
        let begun = Instant::now();
        tokio::join!(pauses.over(), pauses.over(), async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            pauses.end();
        });
        assert_eq!((begun.elapsed().as_millis(), pauses.holds()), (5, None));
    }
}
