//! The units of time in IDs.
//!
//! A service that numbers rows by time needs one unit and one origin, or two servers order rows differently. The unit
//! is the millisecond, the origin is the [`Epoch`]. The position is a [`Slot`]: tick and shard as one number, so that
//! carrying into the next millisecond is plain addition.
//!
//! The module has no clock: times are arguments.

use core::fmt;

/// Nanoseconds in a millisecond.
pub const NS_PER_MS: u64 = 1_000_000;

/// Width of a tick in an ID, bits. 2^42 ms last 139 years.
pub(crate) const TICK_BITS: u32 = 42;
/// The Unix time in milliseconds at which ticks start to count (`id-epoch`).
///
/// The default is 1420041600000, 2015-01-01 00:00 +08:00, as in the Redis fork that getid replaces. All servers whose
/// IDs meet in one table must share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The default epoch, 2015-01-01 00:00 +08:00.
    pub const DEFAULT: Epoch = Epoch(1_420_041_600_000);

    /// Latest epoch that leaves room for 2^42 ms before the end of the dates that RFC 3339 can write (year 9999).
    pub const UNIX_MS_MAX: u64 = 249_000_000_000_000;

    /// Creates an epoch at `unix_ms`, 0..=[`Epoch::UNIX_MS_MAX`]; `None` beyond.
    pub const fn from_unix_ms(unix_ms: u64) -> Option<Epoch> {
        if unix_ms <= Self::UNIX_MS_MAX { Some(Epoch(unix_ms)) } else { None }
    }

    /// Returns the epoch as Unix time in milliseconds.
    pub const fn unix_ms(self) -> u64 {
        self.0
    }

    /// Returns the tick at a Unix time in milliseconds; `None` before the epoch or past the end of the 42 bits.
    pub fn tick_at(self, unix_ms: i64) -> Option<Tick> {
        let since = unix_ms.checked_sub_unsigned(self.0)?;
        let tick = Tick(u64::try_from(since).ok()?);
        (tick <= Tick::LAST).then_some(tick)
    }
}

impl Default for Epoch {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Whole milliseconds since the [`Epoch`].
///
/// An ID can carry 0..=[`Tick::LAST`]. Exclusive bounds (a watermark, the end of time) may be one more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The last tick that fits 42 bits: in the year 2154 with the default epoch.
    pub const LAST: Tick = Tick((1 << TICK_BITS) - 1);

    /// The first tick that no ID can carry.
    pub const END: Tick = Tick(1 << TICK_BITS);

    /// Returns the tick at a number of ns since the epoch.
    pub(crate) const fn of_ns(ns: u64) -> Tick {
        Tick(ns / 1_000_000)
    }

    /// Returns this tick as Unix time in milliseconds.
    pub const fn unix_ms(self, epoch: Epoch) -> i64 {
        // Both are far below 2^62: 2^42 and Epoch::UNIX_MS_MAX.
        (self.0 + epoch.0).cast_signed()
    }

    /// Returns the tick `ms` later, at most [`Tick::END`].
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Tick {
        let sum = self.0.saturating_add(ms);
        if sum < Self::END.0 { Tick(sum) } else { Self::END }
    }

    /// Returns the milliseconds from `earlier` to this tick; 0 if `earlier` is later.
    pub const fn ms_since(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Tick and shard as one number, `tick << shard_bits | shard`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u64);

impl Slot {
    /// Returns the first slot of a tick.
    pub const fn first_of(tick: Tick, shard_bits: u32) -> Slot {
        Slot(tick.0 << shard_bits)
    }

    /// Returns the tick of this slot.
    pub const fn tick(self, shard_bits: u32) -> Tick {
        Tick(self.0 >> shard_bits)
    }

    /// Returns the shard within its tick, 0..2^`shard_bits`.
    pub const fn shard(self, shard_bits: u32) -> u64 {
        self.0 & ((1 << shard_bits) - 1)
    }
}

/// A Unix time in ms that displays as RFC 3339 in UTC, for messages: `2017-03-06T09:37:01.966Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcMs(pub i64);

impl fmt::Display for UtcMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY_MS: i64 = 86_400_000;
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY_MS));
        let ms = self.0.rem_euclid(DAY_MS);
        let (h, m, s, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
    }
}

/// Returns year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Years are counted from March, so that the leap day comes last, in eras of 400 years (Hinnant, `chrono`-Compatible
/// Low-Level Date Algorithms).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}
