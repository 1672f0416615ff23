//! The machine's clocks, read in one place.
//!
//! Pure code takes times as arguments, and they come from here. Both clocks are read through libc, so that libfaketime
//! and other preloads affect them. So a test can set back the clock of an unchanged binary.
//!
//! Deliberately not here: any judgement. [`getid_core::server::ReferenceClock`] interprets jumps of a clock.

use getid_core::Reading;
use getid_core::server::claim::Clocks;
use nix::time::ClockId;

/// A source of time: the system's or a simulated one.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds of a clock that counts suspend and is never set. 0 if it cannot be read: then no time has passed as
    /// far as is known.
    fn boot_ns(&self) -> u64;

    /// The wall clock, Unix time in microseconds.
    fn wall_unix_us(&self) -> i64;

    /// The wall clock, Unix time in milliseconds.
    fn wall_unix_ms(&self) -> i64 {
        self.wall_unix_us().div_euclid(1000)
    }

    /// Nanoseconds of a clock that is never slewed or set (`CLOCK_MONOTONIC_RAW`); 0 if it cannot be read.
    fn raw_ns(&self) -> u64 {
        self.boot_ns()
    }

    /// Three clocks, read in immediate succession.
    fn clocks(&self) -> Clocks {
        Clocks { boot_ns: self.boot_ns(), raw_ns: self.raw_ns(), wall_ms: self.wall_unix_ms() }
    }

    /// The wall clock and the boot clock, read in immediate succession.
    fn reading(&self) -> Reading {
        Reading { wall_unix_ms: self.wall_unix_ms(), boot_ns: self.boot_ns() }
    }
}

/// `CLOCK_REALTIME` and `CLOCK_BOOTTIME`, or `CLOCK_MONOTONIC` where there is no clock that counts suspend.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    carrier: ClockId,
}

impl SystemClock {
    /// Selects the clocks that this machine has.
    pub fn new() -> SystemClock {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if ClockId::CLOCK_BOOTTIME.now().is_ok() {
            return SystemClock { carrier: ClockId::CLOCK_BOOTTIME };
        }
        SystemClock { carrier: ClockId::CLOCK_MONOTONIC }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn boot_ns(&self) -> u64 {
        // The clock existed at `new`. If it ever fails, IDs borrow and finally wait; they do not repeat.
        read_ns(self.carrier)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn raw_ns(&self) -> u64 {
        read_ns(ClockId::CLOCK_MONOTONIC_RAW)
    }

    fn wall_unix_us(&self) -> i64 {
        // An unreadable wall clock is treated like one before the epoch.
        ClockId::CLOCK_REALTIME
            .now()
            .map_or(i64::MIN, |t| t.tv_sec().saturating_mul(1_000_000).saturating_add(t.tv_nsec() / 1000))
    }
}

#[inline]
fn read_ns(clock: ClockId) -> u64 {
    clock.now().map_or(0, |t| {
        let seconds = t.tv_sec().max(0).cast_unsigned();
        let nanos = t.tv_nsec().max(0).cast_unsigned();
        seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
    })
}

/// Returns the wall clock, Unix time in milliseconds, for the tools. A server reads its own [`Clock`].
pub fn wall_unix_ms() -> i64 {
    SystemClock::new().wall_unix_ms()
}

/// Returns nanoseconds of a clock that is never set and stops during suspend, to measure durations. Its zero has no
/// meaning.
#[inline]
pub fn stopwatch_ns() -> u64 {
    // Every machine has this clock. Without it, all durations would be zero.
    read_ns(ClockId::CLOCK_MONOTONIC)
}

/// Returns the nanoseconds since [`stopwatch_ns`] returned `began_ns`.
#[inline]
pub fn since_ns(began_ns: u64) -> u64 {
    stopwatch_ns().saturating_sub(began_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another clock would make a suspend look like a jump of the wall clock, and IDs would carry the old time for ten
    /// minutes.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_reference_clock_is_carried_by_one_that_counts_suspend() {
        assert_eq!(SystemClock::new().carrier, ClockId::CLOCK_BOOTTIME);
    }

    #[test]
    fn clocks_advance_and_are_past_2023() {
        let clock = SystemClock::new();
        let first = clock.boot_ns();
        let reading = clock.reading();
        assert!(first > 0);
        assert!(reading.boot_ns >= first);
        assert!(reading.wall_unix_ms > 1_700_000_000_000, "the wall clock of a build machine is past 2023");
    }
}
