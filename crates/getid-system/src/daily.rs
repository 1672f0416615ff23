//! A check that runs once a day, by the wall clock.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

const DAY_S: i64 = 24 * 3600;

/// When a check is due next: at once, and then a day after each time.
#[derive(Debug)]
pub struct DailySchedule {
    next_unix_s: AtomicI64,
}

impl Default for DailySchedule {
    fn default() -> DailySchedule {
        DailySchedule { next_unix_s: AtomicI64::new(i64::MIN) }
    }
}

impl DailySchedule {
    /// Returns a check that ran at this time.
    pub fn checked_at(now_unix_s: i64) -> DailySchedule {
        DailySchedule { next_unix_s: AtomicI64::new(now_unix_s.saturating_add(DAY_S)) }
    }

    /// Whether the check is due now. `true` counts as running it.
    pub fn is_due(&self, now_unix_s: i64) -> bool {
        let next_s = self.next_unix_s.load(Relaxed);
        // A clock that was set back makes it due.
        let is_due = now_unix_s >= next_s || next_s - now_unix_s > DAY_S;
        if is_due {
            self.next_unix_s.store(now_unix_s.saturating_add(DAY_S), Relaxed);
        }
        is_due
    }

    /// Makes the check due at once, because its subject changed.
    pub fn reset(&self) {
        self.next_unix_s.store(i64::MIN, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_at_once_and_then_once_a_day() {
        let daily = DailySchedule::default();
        let mut is_due_at = |now_s: i64| daily.is_due(now_s);
        assert_eq!([0, 1, DAY_S - 1, DAY_S, DAY_S + 1].map(&mut is_due_at), [true, false, false, true, false]);
        // The clock is set back to before the last check.
        assert_eq!([DAY_S - 1, DAY_S].map(&mut is_due_at), [true, false]);
        assert!(!DailySchedule::checked_at(5).is_due(6));
        daily.reset();
        assert_eq!([0, 1].map(is_due_at), [true, false]);
    }
}
