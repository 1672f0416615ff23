//! The Gregorian calendar of the years 0 to 9999: lengths of months, weekdays, weeks of ISO 8601.
//!
//! The core has no calendar of its runtime, and periods of serial numbers depend on nothing else. Days are counted from
//! 0000-01-01, so weekdays and distances are arithmetic. A test compares all of it with `jiff`.
//!
//! Invariant: a [`CivilDay`] exists in the calendar.

use alloc::format;
use alloc::string::String;
use core::fmt;

/// Days from 0000-01-01 to 1970-01-01.
const UNIX_EPOCH: i64 = 719_528;

/// Days of 400 years, after which the calendar repeats, weekdays included.
const CYCLE_DAYS: u32 = 146_097;

/// Number of 9999-12-31.
const NUMBER_MAX: u32 = 25 * CYCLE_DAYS - 1;

/// A day of the calendar. Later days are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CivilDay {
    year: u16,
    month: u8,
    day: u8,
}

impl CivilDay {
    /// Returns the day; `None` if there is none with this date.
    pub fn new(year: u16, month: u8, day: u8) -> Option<CivilDay> {
        let is_day = year <= 9999 && (1..=12).contains(&month) && (1..=days_of_month(year, month)).contains(&day);
        is_day.then_some(CivilDay { year, month, day })
    }

    /// Parses a day such as `2026-01-31` or `20260131`.
    pub fn parse(text: &str) -> Option<CivilDay> {
        let (month, day) = match text.len() {
            8 => (4, 6),
            10 if text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-' => (5, 8),
            _ => return None,
        };
        let number = |at: usize, digits: usize| {
            let digits = text.get(at..at + digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
            digits.parse::<u16>().ok()
        };
        let small = |at: usize| u8::try_from(number(at, 2)?).ok();
        CivilDay::new(number(0, 4)?, small(month)?, small(day)?)
    }

    /// Returns the day as `yyyyMMdd`.
    pub fn digits(self) -> String {
        let CivilDay { year, month, day } = self;
        format!("{year:04}{month:02}{day:02}")
    }

    /// Returns the day of a time in UTC; the first or the last day of the calendar if it is beyond that.
    pub fn of_unix_ms(unix_ms: i64) -> CivilDay {
        let number = (unix_ms.div_euclid(86_400_000) + UNIX_EPOCH).clamp(0, i64::from(NUMBER_MAX));
        CivilDay::of_number(u32::try_from(number).unwrap_or_default())
    }

    /// Returns the day with this number, or the last day of the calendar.
    pub fn of_number(number: u32) -> CivilDay {
        let number = number.min(NUMBER_MAX);
        let about = u16::try_from(u64::from(number) * 400 / u64::from(CYCLE_DAYS)).unwrap_or_default();
        let year = match about {
            _ if days_before(about) > number => about - 1,
            _ if days_before(about + 1) <= number => about + 1,
            _ => about,
        };
        let (mut month, mut left) = (1, number - days_before(year));
        while left >= days_of_month(year, month).into() {
            left -= u32::from(days_of_month(year, month));
            month += 1;
        }
        CivilDay { year, month, day: u8::try_from(left + 1).unwrap_or_default() }
    }

    /// Returns the number of days from 0000-01-01.
    pub fn number(self) -> u32 {
        let months = (1..self.month).map(|month| u32::from(days_of_month(self.year, month)));
        days_before(self.year) + months.sum::<u32>() + u32::from(self.day) - 1
    }

    /// Returns the year, 0 to 9999.
    pub const fn year(self) -> u16 {
        self.year
    }

    /// Returns the month, 1 to 12.
    pub const fn month(self) -> u8 {
        self.month
    }

    /// Returns the day of the month, 1 to 31.
    pub const fn day(self) -> u8 {
        self.day
    }

    /// Returns the quarter of the year, 1 to 4.
    pub const fn quarter(self) -> u8 {
        (self.month - 1) / 3 + 1
    }

    /// Returns the Monday of its week, or the first day of the calendar.
    #[must_use]
    pub fn monday(self) -> CivilDay {
        let number = self.number();
        CivilDay::of_number(number.saturating_sub(weekday(number)))
    }

    /// Returns the Monday after its week; `None` beyond the calendar.
    pub fn next_monday(self) -> Option<CivilDay> {
        let number = self.number();
        Some(number + 7 - weekday(number)).filter(|next| *next <= NUMBER_MAX).map(CivilDay::of_number)
    }

    /// Returns its year and week by ISO 8601: a week belongs to the year of its Thursday. Days of week 52 before the
    /// first Monday of year 0 count to its week 1.
    pub fn iso_week(self) -> (u16, u8) {
        let number = self.number();
        let thursday = (number + 3).saturating_sub(weekday(number)).min(NUMBER_MAX);
        let mut year = self.year;
        if thursday < days_before(year) {
            year -= 1;
        } else if thursday >= days_before(year + 1) {
            year += 1;
        }
        (year, u8::try_from((thursday - days_before(year)) / 7 + 1).unwrap_or_default())
    }

    /// Returns the day after it; `None` after the last one.
    pub fn tomorrow(self) -> Option<CivilDay> {
        let CivilDay { year, month, day } = self;
        let next = [(year, month, day + 1), (year, month + 1, 1), (year + 1, 1, 1)];
        next.into_iter().find_map(|(year, month, day)| CivilDay::new(year, month, day))
    }

    /// Returns the day before it; `None` before the first one.
    pub fn yesterday(self) -> Option<CivilDay> {
        self.number().checked_sub(1).map(CivilDay::of_number)
    }
}

impl fmt::Display for CivilDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CivilDay { year, month, day } = self;
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// Returns the number of days of a month, 1 to 12.
const fn days_of_month(year: u16, month: u8) -> u8 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the number of days from 0000-01-01 to the first day of a year. Years 0, 4, 8 are leap years.
fn days_before(year: u16) -> u32 {
    let year = u32::from(year);
    365 * year + year.div_ceil(4) - year.div_ceil(100) + year.div_ceil(400)
}

/// Returns the days since the last Monday. 0000-01-01 was a Saturday.
const fn weekday(number: u32) -> u32 {
    (number + 5) % 7
}
