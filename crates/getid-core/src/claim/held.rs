//! A hold that is checked repeatedly, and can only end.

use super::clocks::{Clocks, Hold};

/// A hold with the last reading of the clocks. A clock that went back since then ends the hold, even if it is still
/// later than when the beat was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldWatch {
    hold: Hold,
    seen: Clocks,
    is_over: bool,
}

impl HoldWatch {
    pub(crate) fn new(hold: Hold) -> HoldWatch {
        HoldWatch { hold, seen: hold.sent, is_over: false }
    }

    /// Returns the boot time at which the hold ends, ns; 0: it is over.
    pub(crate) fn until_boot_ns(&mut self, now: Clocks) -> u64 {
        self.is_over |= now.most_since(self.seen).is_none() || self.hold.is_over(now);
        self.seen = now;
        if self.is_over { 0 } else { self.hold.until_boot_ns(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(boot_ms: u64, raw_ms: u64, wall_ms: i64) -> Clocks {
        Clocks { boot_ns: boot_ms * MS, raw_ns: raw_ms * MS, wall_ms }
    }

    #[test]
    fn a_clock_that_goes_back_or_is_not_read_ends_it_for_good() {
        let sent = at(1000, 500, 1_700_000_000_000);
        let good = at(1200, 700, 1_700_000_000_200);
        for bad in [
            at(1199, 700, 1_700_000_000_200),
            at(1200, 699, 1_700_000_000_200),
            at(1200, 700, 1_700_000_000_199),
            at(0, 700, 1_700_000_000_200),
            at(1200, 0, 1_700_000_000_200),
        ] {
            let mut watch = HoldWatch::new(Hold { sent, for_ms: 1500 });
            assert_eq!(watch.until_boot_ns(good), 2500 * MS);
            assert_eq!(watch.until_boot_ns(bad), 0, "{bad:?}");
            assert_eq!(watch.until_boot_ns(at(1300, 800, 1_700_000_000_300)), 0, "{bad:?}");
        }
    }
}
