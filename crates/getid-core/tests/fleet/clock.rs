//! A machine's clocks, as functions of real time, which no program can read.

use getid_core::Reading;
use getid_core::server::NS_PER_MS;
use getid_core::server::claim::Clocks;

/// Beginning of real time, Unix ms.
pub(crate) const START_UNIX_MS: i64 = 1_790_000_000_000;

/// Three clocks with separate rates.
#[derive(Clone, Debug)]
pub(crate) struct MachineClock {
    /// Real time at which `boot`, `raw` and `wall` had these values, ns.
    since_ns: u64,
    boot_ns: i128,
    raw_ns: i128,
    wall_ns: i128,
    /// Difference of their rates from real time, ppm.
    boot_ppm: i64,
    raw_ppm: i64,
    wall_ppm: i64,
}

impl MachineClock {
    /// Boots a machine at `now_ns`, whose wall clock is `skew_ms` ahead.
    pub(crate) fn new(now_ns: u64, up_ms: u64, skew_ms: i64) -> MachineClock {
        let uptime_ns = i128::from(up_ms) * i128::from(NS_PER_MS);
        let real_ns = i128::from(START_UNIX_MS) * i128::from(NS_PER_MS) + i128::from(now_ns);
        MachineClock {
            since_ns: now_ns,
            boot_ns: uptime_ns,
            raw_ns: uptime_ns / 2 + 1,
            wall_ns: real_ns + i128::from(skew_ms) * i128::from(NS_PER_MS),
            boot_ppm: 1_000_000,
            raw_ppm: 1_000_000,
            wall_ppm: 1_000_000,
        }
    }

    fn carry(&mut self, now_ns: u64) {
        let passed = i128::from(now_ns.saturating_sub(self.since_ns));
        self.boot_ns += passed * i128::from(self.boot_ppm) / 1_000_000;
        self.raw_ns += passed * i128::from(self.raw_ppm) / 1_000_000;
        self.wall_ns += passed * i128::from(self.wall_ppm) / 1_000_000;
        self.since_ns = self.since_ns.max(now_ns);
    }

    /// Sets the rates, ppm of real time.
    pub(crate) fn run(&mut self, now_ns: u64, [boot_ppm, raw_ppm, wall_ppm]: [i64; 3]) {
        self.carry(now_ns);
        (self.boot_ppm, self.raw_ppm, self.wall_ppm) = (boot_ppm, raw_ppm, wall_ppm);
    }

    /// Steps the wall clock.
    pub(crate) fn step_wall(&mut self, now_ns: u64, by_ms: i64) {
        self.carry(now_ns);
        self.wall_ns += i128::from(by_ms) * i128::from(NS_PER_MS);
    }

    /// Sets the wall clock to real time.
    pub(crate) fn set_right(&mut self, now_ns: u64) {
        self.carry(now_ns);
        self.wall_ns = i128::from(START_UNIX_MS) * i128::from(NS_PER_MS) + i128::from(now_ns);
    }

    /// Stops the selected clocks for `ns`.
    pub(crate) fn lose(&mut self, now_ns: u64, ns: u64, [boot, raw, wall]: [bool; 3]) {
        self.carry(now_ns);
        let lost = |clock: &mut i128, loses: bool| *clock -= if loses { i128::from(ns) } else { 0 };
        lost(&mut self.boot_ns, boot);
        lost(&mut self.raw_ns, raw);
        lost(&mut self.wall_ns, wall);
    }

    pub(crate) fn clocks(&mut self, now_ns: u64) -> Clocks {
        self.carry(now_ns);
        Clocks {
            // While it loses time, a machine that was just booted would be before its boot.
            boot_ns: u64::try_from(self.boot_ns.max(1)).expect("after boot"),
            raw_ns: u64::try_from(self.raw_ns.max(1)).expect("after boot"),
            wall_ms: i64::try_from(self.wall_ns.div_euclid(i128::from(NS_PER_MS))).expect("a time"),
        }
    }

    pub(crate) fn reading(&mut self, now_ns: u64) -> Reading {
        let clocks = self.clocks(now_ns);
        Reading { wall_unix_ms: clocks.wall_ms, boot_ns: clocks.boot_ns }
    }
}
