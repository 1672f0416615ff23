//! Fields of templates that show the time, and the proof that two periods never show the same.
//!
//! Whether a counter may begin again is decided by a walk over all days of 400 years, after which the calendar repeats:
//! two days that show the same fields must lie in one period. A rule by hand misses cases such as December 30, 2024,
//! which `{yyyy}{week}` shows as January 1, 2024. The walk takes some milliseconds, and depends only on the fields and
//! the start of the fiscal year, so its results are kept.
//!
//! Invariant: years that a template shows never decrease from one day to the next, so the days that show the same years
//! are one run, and the walk compares the days of a run only.

use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use super::calendar::CivilDay;
use super::reset::{CivilTime, FiscalStart, Reset};

/// A field of a template that shows a part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DateField {
    /// The last two digits of the year.
    ShortYear,
    /// The year.
    Year,
    /// The year to which the week belongs by ISO 8601.
    WeekYear,
    /// The fiscal year.
    FiscalYear,
    /// The quarter of the year.
    Quarter,
    /// The month.
    Month,
    /// The week by ISO 8601.
    Week,
    /// The day of the month.
    Day,
    /// The hour.
    Hour,
}

/// Number of fields.
const FIELDS: usize = 9;

impl DateField {
    /// All fields.
    pub(super) const ALL: [DateField; FIELDS] = [
        DateField::ShortYear,
        DateField::Year,
        DateField::WeekYear,
        DateField::FiscalYear,
        DateField::Quarter,
        DateField::Month,
        DateField::Week,
        DateField::Day,
        DateField::Hour,
    ];

    /// Returns the word in a template.
    pub(super) const fn word(self) -> &'static str {
        match self {
            DateField::Year => "yyyy",
            DateField::ShortYear => "yy",
            DateField::WeekYear => "week-year",
            DateField::FiscalYear => "fiscal-year",
            DateField::Quarter => "quarter",
            DateField::Month => "MM",
            DateField::Week => "week",
            DateField::Day => "dd",
            DateField::Hour => "HH",
        }
    }

    /// Returns true if several of such fields may stand in one brace.
    pub(super) const fn has_letters_only(self) -> bool {
        use DateField::{Day, Hour, Month, ShortYear, Year};
        matches!(self, Year | ShortYear | Month | Day | Hour)
    }

    /// Returns the number of its digits.
    pub(super) const fn digits(self) -> usize {
        match self {
            DateField::Year | DateField::WeekYear | DateField::FiscalYear => 4,
            DateField::Quarter => 1,
            _ => 2,
        }
    }

    /// Returns true if it shows a kind of year.
    pub(super) const fn is_year(self) -> bool {
        use DateField::{FiscalYear, ShortYear, WeekYear, Year};
        matches!(self, Year | ShortYear | WeekYear | FiscalYear)
    }

    /// Returns the interval after which a counter begins again by default if this is the finest field.
    pub(super) const fn reset(self, fiscal_start: FiscalStart) -> Reset {
        match self {
            DateField::Year | DateField::ShortYear | DateField::WeekYear => Reset::Year,
            DateField::FiscalYear => Reset::FiscalYear(fiscal_start),
            DateField::Quarter => Reset::Quarter,
            DateField::Month => Reset::Month,
            DateField::Week => Reset::Week,
            DateField::Day => Reset::Day,
            DateField::Hour => Reset::Hour,
        }
    }

    /// Returns the interval after which the field changes at the earliest.
    const fn step(self, fiscal_start: FiscalStart) -> Reset {
        match self {
            DateField::WeekYear => Reset::Week,
            _ => self.reset(fiscal_start),
        }
    }

    /// Returns its largest number.
    const fn max(self) -> u16 {
        match self {
            DateField::Year | DateField::WeekYear | DateField::FiscalYear => 9999,
            DateField::ShortYear => 99,
            DateField::Quarter => 4,
            DateField::Month => 12,
            DateField::Week => 53,
            DateField::Day => 31,
            DateField::Hour => 23,
        }
    }

    /// Returns its number at a time.
    pub(super) fn at(self, stamp: CivilTime, fiscal: FiscalYears) -> u16 {
        match (self, stamp.date()) {
            (DateField::Hour, _) => stamp.hour.into(),
            (_, Some(day)) => self.of(day, fiscal),
            // No clock shows such a day.
            (_, None) => 0,
        }
    }

    /// Returns its number on a day; 0 for the hour.
    fn of(self, day: CivilDay, fiscal: FiscalYears) -> u16 {
        match self {
            DateField::Year => day.year(),
            DateField::ShortYear => day.year() % 100,
            DateField::WeekYear => day.iso_week().0,
            DateField::FiscalYear => fiscal.name_of(day),
            DateField::Quarter => day.quarter().into(),
            DateField::Month => day.month().into(),
            DateField::Week => day.iso_week().1.into(),
            DateField::Day => day.day().into(),
            DateField::Hour => 0,
        }
    }
}

/// Fiscal years, and how they are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiscalYears {
    /// First day of each.
    pub start: FiscalStart,
    /// Whether each has the name of the calendar year in which it ends; else of the one in which it starts.
    pub are_named_by_end: bool,
}

impl FiscalYears {
    /// Fiscal years that are the calendar years.
    pub const CALENDAR: FiscalYears = FiscalYears { start: FiscalStart::JANUARY, are_named_by_end: false };

    /// Returns the distance of a fiscal year's name from the year in which it starts.
    fn shift(self) -> u16 {
        u16::from(self.are_named_by_end && self.start != FiscalStart::JANUARY)
    }

    /// Returns the name of the fiscal year of a day, at most 9999.
    fn name_of(self, day: CivilDay) -> u16 {
        (self.start.year_of(day) + self.shift()).min(9999)
    }

    /// Returns the first day of the fiscal year with this name.
    fn first_day(self, name: u16) -> Option<CivilDay> {
        self.start.in_year(name.checked_sub(self.shift())?)
    }
}

/// Numbers of fields, as a text shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShownDate([Option<u16>; FIELDS]);

impl ShownDate {
    /// Returns what a time shows in some fields.
    pub(super) fn at(stamp: CivilTime, fields: impl Iterator<Item = DateField>, fiscal: FiscalYears) -> ShownDate {
        let mut shown = ShownDate::default();
        fields.for_each(|field| shown.0[field as usize] = Some(field.at(stamp, fiscal)));
        shown
    }

    /// Adds the digits of a field. Returns `None` if they are not a number that the field may have.
    pub(super) fn add(&mut self, field: DateField, digits: &str) -> Option<()> {
        let number = digits.parse().ok().filter(|number| *number <= field.max())?;
        self.0[field as usize] = Some(number);
        Some(())
    }

    /// Returns the first time that shows this. Without any kind of year the search ends after the first 28 years, which
    /// have each calendar of a year; years of two digits are 0 to 399.
    pub(super) fn first_time(self, fiscal: FiscalYears) -> Option<CivilTime> {
        match (self.get(DateField::ShortYear), self.first_of_years(fiscal)) {
            (_, Some((first, end))) => self.search(first, end, fiscal),
            (Some(short), None) => (0..4).find_map(|century| self.first_time_in(100 * century + short, fiscal)),
            (None, None) => self.search(CivilDay::of_number(0), CivilDay::new(28, 1, 1), fiscal),
        }
    }

    /// Returns the first time of a year that shows this.
    pub(super) fn first_time_in(self, year: u16, fiscal: FiscalYears) -> Option<CivilTime> {
        self.search(CivilDay::new(year, 1, 1)?, CivilDay::new(year + 1, 1, 1), fiscal)
    }

    fn get(self, field: DateField) -> Option<u16> {
        self.0[field as usize]
    }

    /// Returns the begin and the end (exclusive) of the days in a shown year of four digits; no end: that of the
    /// calendar.
    fn first_of_years(self, fiscal: FiscalYears) -> Option<(CivilDay, Option<CivilDay>)> {
        if let Some(year) = self.get(DateField::Year) {
            return Some((CivilDay::new(year, 1, 1)?, CivilDay::new(year + 1, 1, 1)));
        }
        if let Some(name) = self.get(DateField::FiscalYear) {
            return Some((fiscal.first_day(name)?, fiscal.first_day(name + 1)));
        }
        // January 4 is in week 1.
        let first_monday = |year| CivilDay::new(year, 1, 4).map(CivilDay::monday);
        let year = self.get(DateField::WeekYear)?;
        Some((first_monday(year)?, first_monday(year + 1)))
    }

    /// Returns the first time from `day` to `end` (exclusive) that shows this. A field that differs is skipped to its
    /// next change, so a year takes less than 200 steps.
    fn search(self, mut day: CivilDay, end: Option<CivilDay>, fiscal: FiscalYears) -> Option<CivilTime> {
        let differs = |field: DateField, day| {
            let number = self.get(field).filter(|_| field != DateField::Hour);
            number.is_some_and(|number| number != field.of(day, fiscal))
        };
        while end.is_none_or(|end| day < end) {
            let Some(field) = DateField::ALL.into_iter().find(|field| differs(*field, day)) else {
                let hour = self.get(DateField::Hour).unwrap_or(0);
                return Some(CivilTime::at(day, u8::try_from(hour).ok()?));
            };
            day = field.step(fiscal.start).next_day(day)?;
        }
        None
    }
}

/// A set of fields, those of a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet(u16);

impl FieldSet {
    /// Returns the set of these fields.
    pub(super) fn of(fields: impl Iterator<Item = DateField>) -> FieldSet {
        FieldSet(fields.fold(0, |set, field| set | 1 << field as u16))
    }

    /// Returns true if the field is in the set.
    pub(super) fn has(self, field: DateField) -> bool {
        self.0 & 1 << field as u16 != 0
    }

    /// Returns true if a field of the set shows a kind of year.
    pub(super) fn has_year(self) -> bool {
        self.fields().any(DateField::is_year)
    }

    /// Returns its fields.
    pub(super) fn fields(self) -> impl Iterator<Item = DateField> {
        DateField::ALL.into_iter().filter(move |field| self.has(*field))
    }

    /// Returns the finest interval of which it shows a part.
    pub(super) fn meant(self, fiscal_start: FiscalStart) -> Reset {
        self.fields().map(|field| field.reset(fiscal_start)).max().unwrap_or(Reset::Never)
    }

    /// Returns two days of different periods that show the same, or twice one day if its hours do; `None` if there are
    /// none. Years of two digits count as whole ones.
    pub(super) fn first_repeat(self, reset: Reset, fiscal_start: FiscalStart) -> Option<[CivilDay; 2]> {
        if self.proven(fiscal_start).has(reset) {
            return None;
        }
        let mut found = None;
        self.walk(fiscal_start, |one, other| {
            found = Some([one, other]).filter(|_| reset.first_day(one) != reset.first_day(other));
            found.is_none()
        });
        let first = CivilDay::new(FIRST_YEAR, 1, 1)?;
        found.or(Some([first, first]))
    }

    /// Returns the intervals whose periods never show the same.
    pub(super) fn proven(self, fiscal_start: FiscalStart) -> ResetSet {
        // The fields without year of two digits and hour are bits 1 to 7.
        let slot = &KNOWN[usize::from(self.of_days().0 >> 1 & 0x7f)];
        let of_start = IS_KNOWN | fiscal_start.number() << 8;
        let known = slot.load(Ordering::Relaxed);
        let of_days = if known & !0xff == of_start {
            ResetSet(u8::try_from(known & 0xff).unwrap_or_default())
        } else {
            let walked = self.proven_by_walk(fiscal_start);
            slot.store(of_start | u32::from(walked.0), Ordering::Relaxed);
            walked
        };
        // Hours of a day differ by the hour alone.
        let has_hours = of_days.has(Reset::Day) && self.has(DateField::Hour);
        if has_hours { of_days.with(Reset::Hour) } else { of_days }
    }

    /// Returns the fields without the hour, and with the short year as a whole one.
    fn of_days(self) -> FieldSet {
        let has_year = self.has(DateField::Year) || self.has(DateField::ShortYear);
        let rest = self.fields().filter(|field| !matches!(field, DateField::ShortYear | DateField::Hour));
        FieldSet::of(rest.chain(has_year.then_some(DateField::Year)))
    }

    fn proven_by_walk(self, fiscal_start: FiscalStart) -> ResetSet {
        let mut left = ResetSet::default();
        for reset in Reset::all(fiscal_start).into_iter().filter(|reset| *reset != Reset::Hour) {
            left = left.with(reset);
        }
        let only_never = ResetSet::default().with(Reset::Never);
        self.walk(fiscal_start, |one, other| {
            for reset in Reset::all(fiscal_start) {
                if left.has(reset) && reset.first_day(one) != reset.first_day(other) {
                    left = left.without(reset);
                }
            }
            left != only_never
        });
        left
    }

    /// Calls `compare` with each day and the last one before it that shows the same, until it returns false.
    fn walk(self, fiscal_start: FiscalStart, mut compare: impl FnMut(CivilDay, CivilDay) -> bool) {
        let fiscal = FiscalYears { start: fiscal_start, are_named_by_end: false };
        let days = self.of_days();
        let of_kind = |is_year| DateField::ALL.into_iter().filter(move |f| days.has(*f) && f.is_year() == is_year);
        let places: usize = of_kind(false).map(|field| usize::from(field.max()) + 1).product();
        let mut last_seen: Vec<Option<(u32, CivilDay)>> = vec![None; places];
        let (mut run, mut years) = (0, [0; FIELDS]);
        let mut next = CivilDay::new(FIRST_YEAR, 1, 1);
        while let Some(day) = next.filter(|day| day.year() <= LAST_YEAR) {
            let mut now = [0; FIELDS];
            of_kind(true).for_each(|field| now[field as usize] = field.of(day, fiscal));
            run += u32::from(now != years);
            years = now;
            let place = of_kind(false)
                .fold(0, |place, field| place * (usize::from(field.max()) + 1) + usize::from(field.of(day, fiscal)));
            if let Some((_, before)) = last_seen[place].filter(|(of_run, _)| *of_run == run)
                && !compare(before, day)
            {
                return;
            }
            last_seen[place] = Some((run, day));
            next = day.tomorrow();
        }
    }
}

/// First year of the walk.
const FIRST_YEAR: u16 = 2000;

/// Last year of the walk: 400 years, and the one in which the calendar begins again.
const LAST_YEAR: u16 = 2400;

/// Results of the walk by the days' fields, each with [`IS_KNOWN`], the start of the fiscal year and the intervals in
/// one word. A declaration is parsed several times, and a server may have a thousand.
static KNOWN: [AtomicU32; 128] = [const { AtomicU32::new(0) }; 128];

/// Mark of a result in [`KNOWN`].
const IS_KNOWN: u32 = 1 << 31;

/// A set of intervals, of which a fiscal year has one start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ResetSet(u8);

impl ResetSet {
    /// Returns true if the interval is in the set.
    pub(super) const fn has(self, reset: Reset) -> bool {
        self.0 & 1 << reset.place() != 0
    }

    const fn with(self, reset: Reset) -> ResetSet {
        ResetSet(self.0 | 1 << reset.place())
    }

    const fn without(self, reset: Reset) -> ResetSet {
        ResetSet(self.0 & !(1 << reset.place()))
    }
}
