//! Intervals after which a counter begins again, and the texts of their periods.
//!
//! The text of a period is a letter for the interval and the period's first day, and for an hour the hour:
//! `Y20260101`, `F20260406`, `Q20261001`, `M20261101`, `W20261123`, `D20261122`, `H20261122T23`. So a text alone has
//! the interval and the begin of its period, and the texts of one interval are in the order of their times.
//!
//! Invariant: each hour is in exactly one period of each interval.

use alloc::format;
use alloc::string::String;
use core::fmt;

use super::calendar::CivilDay;

/// A civil time in the zone of a serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CivilTime {
    /// Year, 0 to 9999.
    pub year: u16,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
}

impl CivilTime {
    /// Stamp of a template that shows no time.
    pub const FIRST: CivilTime = CivilTime { year: 0, month: 1, day: 1, hour: 0 };

    /// Returns an hour of a day.
    pub const fn at(day: CivilDay, hour: u8) -> CivilTime {
        CivilTime { year: day.year(), month: day.month(), day: day.day(), hour }
    }

    /// Returns its day; `None` if the calendar has no such day.
    pub fn date(self) -> Option<CivilDay> {
        CivilDay::new(self.year, self.month, self.day)
    }
}

/// The day of each year on which a fiscal year starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FiscalStart {
    month: u8,
    day: u8,
}

impl FiscalStart {
    /// The fiscal year that is the calendar year.
    pub const JANUARY: FiscalStart = FiscalStart { month: 1, day: 1 };

    /// Returns the start on this day of each year; `None` for February 29, which most years lack, and for other days
    /// that do not exist.
    pub fn new(month: u8, day: u8) -> Option<FiscalStart> {
        // No leap year.
        CivilDay::new(2001, month, day).map(|_| FiscalStart { month, day })
    }

    /// Parses a start written as `MM-dd`.
    pub fn parse(text: &str) -> Option<FiscalStart> {
        let (month, day) = text.split_once('-').filter(|_| text.len() == 5)?;
        let date = CivilDay::parse(&format!("2001{month}{day}"))?;
        FiscalStart::new(date.month(), date.day())
    }

    /// Returns the first day of the fiscal year that starts in a year.
    pub fn in_year(self, year: u16) -> Option<CivilDay> {
        CivilDay::new(year, self.month, self.day)
    }

    /// Returns the calendar year in which the fiscal year of a day started.
    pub fn year_of(self, day: CivilDay) -> u16 {
        day.year().saturating_sub(u16::from((day.month(), day.day()) < (self.month, self.day)))
    }

    /// Returns a number below 512 that no other start has.
    pub(super) fn number(self) -> u32 {
        u32::from(self.month) << 5 | u32::from(self.day)
    }
}

impl fmt::Display for FiscalStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FiscalStart { month, day } = self;
        write!(f, "{month:02}-{day:02}")
    }
}

/// Interval after which a counter begins again. A finer one is greater. Years count as finer than fiscal years, and
/// weeks as finer than months, although neither divides the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reset {
    /// The counter never begins again.
    Never,
    /// The counter begins again each fiscal year.
    FiscalYear(FiscalStart),
    /// The counter begins again each year.
    Year,
    /// The counter begins again each quarter.
    Quarter,
    /// The counter begins again each month.
    Month,
    /// The counter begins again each week, on Monday.
    Week,
    /// The counter begins again each day.
    Day,
    /// The counter begins again each hour.
    Hour,
}

impl Reset {
    /// Words of all intervals, the coarsest first.
    pub const WORDS: [&str; 8] = ["never", "fiscal-year", "year", "quarter", "month", "week", "day", "hour"];

    /// Returns all intervals, the coarsest first.
    pub const fn all(fiscal_start: FiscalStart) -> [Reset; 8] {
        use Reset::{Day, FiscalYear, Hour, Month, Never, Quarter, Week, Year};
        [Never, FiscalYear(fiscal_start), Year, Quarter, Month, Week, Day, Hour]
    }

    /// Parses the text of an interval: its word, and for a fiscal year its start behind it.
    pub fn parse(text: &str) -> Option<Reset> {
        let (word, start) = text.split_once(' ').map_or((text, None), |(word, start)| (word, Some(start)));
        let fiscal_start = start.map_or(Some(FiscalStart::JANUARY), FiscalStart::parse)?;
        let reset = Reset::all(fiscal_start).into_iter().find(|reset| reset.word() == word)?;
        (matches!(reset, Reset::FiscalYear(_)) == start.is_some()).then_some(reset)
    }

    /// Returns the word that declares it.
    pub const fn word(self) -> &'static str {
        Reset::WORDS[self.place()]
    }

    /// Returns its place in the order of [`Reset::WORDS`].
    pub(super) const fn place(self) -> usize {
        match self {
            Reset::Never => 0,
            Reset::FiscalYear(_) => 1,
            Reset::Year => 2,
            Reset::Quarter => 3,
            Reset::Month => 4,
            Reset::Week => 5,
            Reset::Day => 6,
            Reset::Hour => 7,
        }
    }

    /// Returns how often it is, for a sentence.
    pub const fn each(self) -> &'static str {
        match self {
            Reset::Never => "never",
            Reset::FiscalYear(_) => "each fiscal year",
            Reset::Year => "each year",
            Reset::Quarter => "each quarter",
            Reset::Month => "each month",
            Reset::Week => "each week",
            Reset::Day => "each day",
            Reset::Hour => "each hour",
        }
    }

    /// Returns the fields that show its periods in full.
    pub const fn shown(self) -> &'static str {
        match self {
            Reset::Never => "",
            Reset::FiscalYear(_) => "{fiscal-year}",
            Reset::Year => "{yyyy}",
            Reset::Quarter => "{yyyy}{quarter}",
            Reset::Month => "{yyyy}{MM}",
            Reset::Week => "{week-year}{week}",
            Reset::Day => "{yyyy}{MM}{dd}",
            Reset::Hour => "{yyyy}{MM}{dd}{HH}",
        }
    }

    /// Returns the letter with which the texts of its periods begin; `None`: there is only one period.
    pub const fn letter(self) -> Option<char> {
        Some(match self {
            Reset::Never => return None,
            Reset::FiscalYear(_) => 'F',
            Reset::Year => 'Y',
            Reset::Quarter => 'Q',
            Reset::Month => 'M',
            Reset::Week => 'W',
            Reset::Day => 'D',
            Reset::Hour => 'H',
        })
    }

    /// Returns the first day of the period that contains a day. The first fiscal year of the calendar, and its first
    /// week, may be shorter.
    pub fn first_day(self, day: CivilDay) -> CivilDay {
        let first = match self {
            Reset::Never => CivilDay::new(0, 1, 1),
            Reset::FiscalYear(start) => {
                start.in_year(start.year_of(day)).filter(|first| *first <= day).or(CivilDay::new(0, 1, 1))
            }
            Reset::Year => CivilDay::new(day.year(), 1, 1),
            Reset::Quarter => CivilDay::new(day.year(), 3 * day.quarter() - 2, 1),
            Reset::Month => CivilDay::new(day.year(), day.month(), 1),
            Reset::Week => Some(day.monday()),
            Reset::Day | Reset::Hour => None,
        };
        first.unwrap_or(day)
    }

    /// Returns the first day after the period that contains a day; for an hour, after its day. `None` beyond the
    /// calendar, and if there is only one period.
    pub fn next_day(self, day: CivilDay) -> Option<CivilDay> {
        let (year, month) = (day.year(), day.month());
        match self {
            Reset::Never => None,
            Reset::FiscalYear(start) => {
                let started = start.year_of(day);
                [started, started + 1].into_iter().find_map(|year| start.in_year(year).filter(|next| *next > day))
            }
            Reset::Year => CivilDay::new(year + 1, 1, 1),
            Reset::Quarter if month > 9 => CivilDay::new(year + 1, 1, 1),
            Reset::Quarter => CivilDay::new(year, 3 * day.quarter() + 1, 1),
            Reset::Month if month == 12 => CivilDay::new(year + 1, 1, 1),
            Reset::Month => CivilDay::new(year, month + 1, 1),
            Reset::Week => day.next_monday(),
            Reset::Day | Reset::Hour => day.tomorrow(),
        }
    }

    /// Returns the text of the period that contains a time; `None`: there is only one period, or the calendar has no
    /// such day.
    pub fn period(self, stamp: CivilTime) -> Option<String> {
        let letter = self.letter()?;
        let first = self.first_day(stamp.date()?).digits();
        Some(match self {
            Reset::Hour => format!("{letter}{first}T{:02}", stamp.hour),
            _ => format!("{letter}{first}"),
        })
    }

    /// Returns the interval of a period, and its first hour; `None`: the text is not one of [`Reset::period`].
    pub fn of_period(period: &str) -> Option<(Reset, CivilTime)> {
        let rest = period.get(1..)?;
        let (date, hour) = rest.split_once('T').map_or((rest, Some(0)), |(date, hour)| (date, hour.parse().ok()));
        let (day, hour) = (CivilDay::parse(date)?, hour.filter(|hour| *hour < 24)?);
        let start = FiscalStart::new(day.month(), day.day()).unwrap_or(FiscalStart::JANUARY);
        let is_of = |reset: &Reset| reset.letter().is_some_and(|letter| period.starts_with(letter));
        let reset = Reset::all(start).into_iter().find(is_of)?;
        let stamp = CivilTime::at(day, hour);
        (reset.period(stamp)? == period).then_some((reset, stamp))
    }

    /// Returns the first hour of one of its periods; `None`: the text is not one of its [`Reset::period`].
    pub fn first_of(self, period: &str) -> Option<CivilTime> {
        Reset::of_period(period).map(|(_, stamp)| stamp).filter(|stamp| self.period(*stamp).as_deref() == Some(period))
    }

    /// Returns for each letter the text below which its periods have ended by the end of a day.
    pub fn ended_by(day: CivilDay) -> impl Iterator<Item = (char, String)> {
        let next = day.tomorrow().unwrap_or(day);
        Reset::all(FiscalStart::JANUARY).into_iter().filter_map(move |reset| {
            let letter = reset.letter()?;
            let bound = match reset {
                // The next year of those that are not below has begun by then. This bound need not be a day.
                Reset::FiscalYear(_) => {
                    let (year, month, day) = (next.year().saturating_sub(1), next.month(), next.day() + 1);
                    format!("{letter}{year:04}{month:02}{day:02}")
                }
                _ => reset.period(CivilTime::at(next, 0))?,
            };
            Some((letter, bound))
        })
    }

    /// Returns true if a period has ended by the end of a day.
    pub fn has_ended(period: &str, day: CivilDay) -> bool {
        Reset::ended_by(day).any(|(letter, bound)| period.starts_with(letter) && *period < *bound)
    }
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reset::FiscalYear(start) => write!(f, "{} {start}", self.word()),
            _ => f.write_str(self.word()),
        }
    }
}
