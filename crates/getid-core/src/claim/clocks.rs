//! Time that has passed, measured by clocks of which each may be wrong.

use crate::time::NS_PER_MS;

/// Three clocks of one machine, read together.
///
/// Readings of different machines are never compared. A boot or raw clock that could not be read is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Clocks {
    /// Counts since boot, suspend included (`CLOCK_BOOTTIME`), ns.
    pub boot_ns: u64,
    /// Counts since boot at the uncorrected rate of the hardware (`CLOCK_MONOTONIC_RAW`), ns.
    pub raw_ns: u64,
    /// The wall clock, Unix time in ms, rounded down.
    pub wall_ms: i64,
}

impl Clocks {
    /// Returns the least time that may have passed since `earlier`, ns: by the slower of the boot and the raw clock.
    /// Returns 0 if one of them went back, or could not be read.
    pub fn least_since(self, earlier: Clocks) -> u64 {
        let boot = since(self.boot_ns, earlier.boot_ns);
        let raw = since(self.raw_ns, earlier.raw_ns);
        boot.zip(raw).map_or(0, |(boot, raw)| boot.min(raw))
    }

    /// Returns the most time that may have passed since `earlier`, ns: by the fastest of the three clocks. `None`: one
    /// of them went back, or could not be read.
    pub fn most_since(self, earlier: Clocks) -> Option<u64> {
        let boot = since(self.boot_ns, earlier.boot_ns)?;
        let raw = since(self.raw_ns, earlier.raw_ns)?;
        let wall_ms = u64::try_from(self.wall_ms.checked_sub(earlier.wall_ms)?).ok()?;
        Some(boot.max(raw).max(wall_ms.saturating_mul(NS_PER_MS)))
    }
}

/// Returns the time from `earlier` to `now`, ns; `None` if it is negative, or one of them could not be read.
fn since(now: u64, earlier: u64) -> Option<u64> {
    if now == 0 || earlier == 0 { None } else { now.checked_sub(earlier) }
}

/// How long the holder of a claim may give IDs after one beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The clocks just before the acknowledged beat was sent.
    pub sent: Clocks,
    /// Length of the hold, ms.
    pub for_ms: u64,
}

impl Hold {
    /// Returns true if the hold is over: its time has passed by any of the clocks, or one of them went back.
    pub fn is_over(self, now: Clocks) -> bool {
        self.left_ns(now) == 0
    }

    /// Returns the remaining time, ns, by the clock that went furthest.
    pub fn left_ns(self, now: Clocks) -> u64 {
        let whole_ns = self.for_ms.saturating_mul(NS_PER_MS);
        now.most_since(self.sent).map_or(0, |passed_ns| whole_ns.saturating_sub(passed_ns))
    }

    /// Returns the reading of the boot clock at which the hold ends if all clocks continue at this rate; 0: it is over.
    pub fn until_boot_ns(self, now: Clocks) -> u64 {
        match self.left_ns(now) {
            0 => 0,
            left_ns => now.boot_ns.saturating_add(left_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Clocks = Clocks { boot_ns: 5_000_000_000, raw_ns: 4_000_000_000, wall_ms: 1_000_000 };

    fn after_ms(boot: i64, raw: i64, wall: i64) -> Clocks {
        let moved = |ns: u64, ms: i64| ns.checked_add_signed(ms * 1_000_000).expect("no clock before boot");
        Clocks { boot_ns: moved(SENT.boot_ns, boot), raw_ns: moved(SENT.raw_ns, raw), wall_ms: SENT.wall_ms + wall }
    }

    #[test]
    fn silence_is_counted_by_the_slower_clock_and_not_by_the_wall() {
        assert_eq!(after_ms(70, 50, 10).least_since(SENT), 50_000_000);
        assert_eq!(after_ms(50, 70, -10).least_since(SENT), 50_000_000);
        assert_eq!(after_ms(-1, 70, 70).least_since(SENT), 0);
        assert_eq!(Clocks { raw_ns: 0, ..after_ms(70, 70, 70) }.least_since(SENT), 0);
    }

    #[test]
    fn a_hold_ends_by_the_clock_that_went_furthest() {
        let hold = Hold { sent: SENT, for_ms: 1500 };
        for (boot, raw, wall) in [(1500, 10, 10), (10, 1500, 10), (10, 10, 1500)] {
            assert!(hold.is_over(after_ms(boot, raw, wall)), "{boot} {raw} {wall}");
            let before = after_ms(boot.min(1499), raw.min(1499), wall.min(1499));
            assert_eq!(hold.until_boot_ns(before), before.boot_ns + 1_000_000, "{boot} {raw} {wall}");
        }
        assert_eq!(hold.until_boot_ns(after_ms(1500, 0, 0)), 0);
    }

    #[test]
    fn a_clock_that_went_back_or_fails_ends_a_hold_at_once() {
        let hold = Hold { sent: SENT, for_ms: 1500 };
        assert!(!hold.is_over(SENT));
        for now in [after_ms(-1, 5, 5), after_ms(5, -1, 5), after_ms(5, 5, -1)] {
            assert!(hold.is_over(now), "{now:?}");
            assert_eq!(hold.until_boot_ns(now), 0);
        }
        assert!(hold.is_over(Clocks { boot_ns: 0, ..after_ms(5, 5, 5) }));
        assert!(Hold { sent: Clocks { raw_ns: 0, ..SENT }, for_ms: 1500 }.is_over(after_ms(5, 5, 5)));
    }
}
