//! The clocks of one simulated computer.
//!
//! True time is tokio's paused time plus the time that the machine was suspended. The boot-time clock counts it since
//! the last boot; the wall clock follows it too, but can be set, drift, freeze.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use getid_system::clock::Clock;
use tokio::time::Instant;

/// Start of 2026-01-01 in Unix ms.
pub(crate) const START_UNIX_MS: i64 = 1_767_225_600_000;

/// The clocks. Clones belong to the same computer.
#[derive(Clone)]
pub(crate) struct SimClock(Arc<Mutex<State>>);

struct State {
    origin: Instant,
    suspended_ns: u64,
    booted_ns: u64,
    /// The wall clock is at `wall_us` when true time is at `anchor_ns`, and runs at `rate_ppm` of its speed.
    anchor_ns: u64,
    wall_us: i64,
    /// True wall time at the first instant.
    true_wall_us: i64,
    rate_ppm: i64,
    /// Number and size of the next readings of the boot-time clock that go back.
    glitches: u32,
    glitch_ns: u64,
    /// Number of the next readings of the boot-time clock that fail.
    failures: u32,
    /// How far the boot-time clock has jumped ahead since the boot.
    boot_ahead_ns: u64,
}

/// At the first instant the computer had been up for a minute.
const FIRST_NS: u64 = 60_000_000_000;

const TRUE_RATE_PPM: i64 = 1_000_000;

impl SimClock {
    /// Creates the clocks. Call it inside a runtime whose time is paused.
    pub(crate) fn new(wall_unix_ms: i64) -> SimClock {
        let _inside = tokio::runtime::Handle::current();
        crate::log::install();
        SimClock(Arc::new(Mutex::new(State {
            origin: Instant::now(),
            suspended_ns: 0,
            // The computer had been up for a minute.
            booted_ns: 0,
            anchor_ns: FIRST_NS,
            wall_us: wall_unix_ms * 1000,
            true_wall_us: wall_unix_ms * 1000,
            rate_ppm: TRUE_RATE_PPM,
            glitches: 0,
            glitch_ns: 0,
            failures: 0,
            boot_ahead_ns: 0,
        })))
    }

    pub(crate) fn set_wall(&self, unix_ms: i64) {
        let mut state = self.state();
        state.anchor();
        state.wall_us = unix_ms * 1000;
    }

    pub(crate) fn step_wall(&self, ms: i64) {
        let mut state = self.state();
        state.anchor();
        state.wall_us += ms * 1000;
    }

    /// Makes the wall clock fast by `ppm` from now on; -1,000,000: it stands still.
    pub(crate) fn drift(&self, ppm: i64) {
        let mut state = self.state();
        state.anchor();
        state.rate_ppm = TRUE_RATE_PPM + ppm;
    }

    /// Suspends the machine: both clocks advance, but no code runs and no timer advances.
    pub(crate) fn suspend(&self, time: Duration) {
        self.state().suspended_ns += u64::try_from(time.as_nanos()).expect("a time to simulate");
    }

    /// Sets the boot-time clock to 0.
    pub(crate) fn reboot(&self) {
        let mut state = self.state();
        state.booted_ns = state.true_ns();
        state.boot_ahead_ns = 0;
    }

    /// Makes the boot-time clock jump ahead, and stay there.
    pub(crate) fn jump_boot(&self, ms: u64) {
        self.state().boot_ahead_ns += ms * 1_000_000;
    }

    /// Makes the next `readings` of the boot-time clock fail.
    pub(crate) fn fail(&self, readings: u32) {
        self.state().failures = readings;
    }

    /// Corrects the clocks, except for jumps of the boot-time clock.
    pub(crate) fn put_right(&self) {
        let mut state = self.state();
        (state.glitches, state.failures, state.rate_ppm) = (0, 0, TRUE_RATE_PPM);
        state.anchor_ns = state.true_ns();
        state.wall_us = state.true_wall_us;
        let since_ns = state.true_ns() - FIRST_NS;
        state.wall_us += i64::try_from(since_ns / 1000).expect("a time to simulate");
    }

    /// Makes the next `readings` of the boot-time clock `ns` too early.
    pub(crate) fn glitch(&self, readings: u32, ns: u64) {
        let mut state = self.state();
        state.glitches = readings;
        state.glitch_ns = ns;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn true_ns(&self) -> u64 {
        let run = u64::try_from(self.origin.elapsed().as_nanos()).expect("a time to simulate");
        FIRST_NS + run + self.suspended_ns
    }

    fn wall_us(&self) -> i64 {
        let passed_us = (self.true_ns() - self.anchor_ns).cast_signed() / 1000;
        let shown_us = i128::from(passed_us) * i128::from(self.rate_ppm) / i128::from(TRUE_RATE_PPM);
        self.wall_us + i64::try_from(shown_us).expect("a time to simulate")
    }

    fn anchor(&mut self) {
        self.wall_us = self.wall_us();
        self.anchor_ns = self.true_ns();
    }
}

impl Clock for SimClock {
    fn boot_ns(&self) -> u64 {
        let mut state = self.state();
        if state.failures > 0 {
            state.failures -= 1;
            return 0;
        }
        let ns = state.true_ns() - state.booted_ns + state.boot_ahead_ns;
        if state.glitches > 0 {
            state.glitches -= 1;
            return ns.saturating_sub(state.glitch_ns);
        }
        ns
    }

    fn wall_unix_us(&self) -> i64 {
        self.state().wall_us()
    }
}
