//! The step of a time field.

use core::fmt;

/// The step of a time field: a whole number of 100 ns, at least one.
///
/// It is written as a number and `ns`, `us`, `ms` or `s`: `100ns`, `1us`, `10ms`, `1s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit(u64);

/// Greatest common step of all units, ns: the step of a UUID's time (RFC 9562, section 5.1).
const STEP_NS: u64 = 100;

const SUFFIXES: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

impl Unit {
    /// 100 ns.
    pub const NS_100: Unit = Unit(100);
    /// A microsecond.
    pub const US: Unit = Unit(1_000);
    /// A millisecond.
    pub const MS: Unit = Unit(1_000_000);
    /// 10 ms.
    pub const MS_10: Unit = Unit(10_000_000);
    /// A second.
    pub const S: Unit = Unit(1_000_000_000);
    /// Longest unit: a day, ns.
    pub const NS_MAX: u64 = 86_400 * 1_000_000_000;

    /// Creates a unit of `ns`; `None` unless that is a multiple of 100, from 100 to [`Unit::NS_MAX`].
    pub const fn from_ns(ns: u64) -> Option<Unit> {
        if ns >= STEP_NS && ns <= Self::NS_MAX && ns.is_multiple_of(STEP_NS) { Some(Unit(ns)) } else { None }
    }

    /// Returns its length, ns.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// Parses a unit, such as `10ms`.
    pub fn parse(text: &str) -> Option<Unit> {
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        let (number, suffix) = text.split_at(digits);
        let (_, ns) = SUFFIXES.into_iter().find(|&(name, _)| name == suffix)?;
        Unit::from_ns(number.parse::<u64>().ok()?.checked_mul(ns)?)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |&&(_, ns): &&(&str, u64)| self.0.is_multiple_of(ns);
        let (suffix, ns) = SUFFIXES.iter().rev().find(fits).copied().unwrap_or(("ns", 1));
        write!(f, "{}{suffix}", self.0 / ns)
    }
}
