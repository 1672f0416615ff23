//! Time zones by name, such as `Asia/Shanghai`, and civil times in them.
//!
//! The zone database is part of the program, so that a name has the same meaning on every server.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use getid_core::server::{CivilDay, CivilTime, CounterDeclaration, CounterKind, CounterReading, Reset, UnknownZone};

use super::printable::printable_up_to;
use super::suggest::did_you_mean;

/// A time zone of the built-in database.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// Returns the zone of this name.
    ///
    /// # Errors
    ///
    /// Fails if there is no such zone.
    pub fn named(name: &str) -> Result<Zone, UnknownZone> {
        if name.eq_ignore_ascii_case("utc") {
            return Ok(Zone(TimeZone::UTC));
        }
        TimeZone::get(name)
            .map(Zone)
            .map_err(|_| UnknownZone { name: printable_up_to(name, 64), similar: similar(name) })
    }

    /// Checks that there is a zone of this name, as declarations of serial numbers require.
    ///
    /// # Errors
    ///
    /// Fails if there is no such zone.
    pub fn check(name: &str) -> Result<(), UnknownZone> {
        Zone::named(name).map(|_| ())
    }

    /// Returns the civil time in the zone. Years before 0 and after 9999, which no serial number shows, are clamped to
    /// these ends.
    pub fn stamp(&self, unix_ms: i64) -> CivilTime {
        let time = Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::MAX);
        let there = self.0.to_datetime(time);
        let small = |number: i8| u8::try_from(number).unwrap_or_default();
        CivilTime {
            year: u16::try_from(there.year()).unwrap_or_default(),
            month: small(there.month()),
            day: small(there.day()),
            hour: small(there.hour()),
        }
    }

    /// Returns the begin and the end (exclusive) of the period that contains a time, Unix ms. Without resets, or beyond
    /// the calendar, the period has no bounds.
    pub fn period(&self, reset: Reset, stamp: CivilTime) -> (i64, i64) {
        let ends = || Some((self.begins(reset, stamp)?, self.unix_ms(next_of(reset, stamp)?)?));
        ends().unwrap_or((i64::MIN, i64::MAX))
    }

    /// Returns the begin of the period that contains a time, Unix ms; `None` without resets or beyond the calendar.
    pub fn begins(&self, reset: Reset, stamp: CivilTime) -> Option<i64> {
        let day = stamp.date().filter(|_| reset != Reset::Never)?;
        let hour = if reset == Reset::Hour { stamp.hour } else { 0 };
        self.unix_ms(time_of(reset.first_day(day), hour)?)
    }

    /// Returns the first instant at which clocks in the zone showed, or would have shown, this time.
    fn unix_ms(&self, time: DateTime) -> Option<i64> {
        Some(self.0.to_ambiguous_timestamp(time).compatible().ok()?.as_millisecond())
    }
}

/// Returns the zone that `name` probably means: that of a city, `Shanghai`; of an offset, `UTC+8`, whose sign the zones
/// `Etc/GMT` have the other way round; or of a slip of the fingers.
fn similar(name: &str) -> Option<String> {
    let offset = name.strip_prefix("UTC").or_else(|| name.strip_prefix("GMT")).and_then(|text| text.parse::<i8>().ok());
    if let Some(hours @ (-12..=-1 | 1..=14)) = offset {
        return Some(format!("Etc/GMT{:+}", -hours));
    }
    let known: Vec<String> = jiff::tz::db().available().map(|zone| zone.as_str().to_owned()).collect();
    let city = name.replace(' ', "_");
    let of_city =
        known.iter().find(|zone| zone.rsplit('/').next().is_some_and(|last| last.eq_ignore_ascii_case(&city)));
    of_city.cloned().or_else(|| did_you_mean(name, known.iter().map(String::as_str)).map(str::to_owned))
}

/// Returns the begin of the period in a serial number, Unix ms; `None` if the number shows no year. A year of two
/// digits is the nearest to now.
pub fn shown_unix_ms(counter: &CounterDeclaration, read: CounterReading, now_unix_ms: i64) -> Option<i64> {
    let CounterKind::Serial(serial) = counter.kind() else { return None };
    let zone = Zone::named(serial.zone.as_deref()?).ok()?;
    let mut stamp = read.stamp;
    if serial.template.has_short_years() {
        let now = zone.stamp(now_unix_ms).year;
        let century = now - now % 100;
        let mut years = [century.saturating_sub(100), century, century + 100].map(|century| century + stamp.year % 100);
        years.sort_by_key(|year| year.abs_diff(now));
        stamp = years.into_iter().find_map(|year| serial.template.time_in(stamp, year))?;
    }
    zone.begins(serial.template.finest(), stamp)
}

/// Returns the first civil time after the period that contains a time.
fn next_of(reset: Reset, stamp: CivilTime) -> Option<DateTime> {
    let day = stamp.date()?;
    match reset {
        Reset::Hour => time_of(day, stamp.hour)?.checked_add(1.hour()).ok(),
        _ => time_of(reset.next_day(day)?, 0),
    }
}

/// Returns an hour of a day.
fn time_of(day: CivilDay, hour: u8) -> Option<DateTime> {
    let small = |number: u8| i8::try_from(number).ok();
    let year = i16::try_from(day.year()).ok()?;
    DateTime::new(year, small(day.month())?, small(day.day())?, small(hour)?, 0, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_and_end_where_the_zone_is() {
        let period = |zone: &str, reset, time: &str| {
            let zone = Zone::named(zone).unwrap();
            let unix_ms = time.parse::<Timestamp>().unwrap().as_millisecond();
            let (from, until) = zone.period(reset, zone.stamp(unix_ms));
            assert!((from..until).contains(&unix_ms), "{time}");
            [from, until].map(|end| Timestamp::from_millisecond(end).unwrap().to_string())
        };
        let fiscal = Reset::parse("fiscal-year 04-06").unwrap();
        for (reset, from, until) in [
            (Reset::Year, "2025-12-31T16:00:00Z", "2026-12-31T16:00:00Z"),
            (fiscal, "2026-04-05T16:00:00Z", "2027-04-05T16:00:00Z"),
            (Reset::Quarter, "2026-09-30T16:00:00Z", "2026-12-31T16:00:00Z"),
            (Reset::Month, "2026-10-31T16:00:00Z", "2026-11-30T16:00:00Z"),
            (Reset::Week, "2026-11-15T16:00:00Z", "2026-11-22T16:00:00Z"),
            (Reset::Day, "2026-11-21T16:00:00Z", "2026-11-22T16:00:00Z"),
            (Reset::Hour, "2026-11-21T16:00:00Z", "2026-11-21T17:00:00Z"),
        ] {
            assert_eq!(period("Asia/Shanghai", reset, "2026-11-21T16:30:00Z"), [from, until]);
        }
        // A day of 25 hours, and a repeated hour.
        let berlin = |reset| period("Europe/Berlin", reset, "2026-10-25T01:30:00Z");
        assert_eq!(berlin(Reset::Day), ["2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"]);
        assert_eq!(berlin(Reset::Hour), ["2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"]);
        let zone = Zone::named("UTC").unwrap();
        assert_eq!(zone.period(Reset::Never, zone.stamp(0)), (i64::MIN, i64::MAX));
    }

    #[test]
    fn an_unknown_zone_gets_a_suggestion() {
        for (name, zone) in [
            ("Shanghai", Some("Asia/Shanghai")),
            ("new york", Some("America/New_York")),
            ("UTC+8", Some("Etc/GMT-8")),
            ("GMT-3", Some("Etc/GMT+3")),
            ("Europe/Berlinn", Some("Europe/Berlin")),
            ("UTC+99", None),
            ("nowhere at all", None),
        ] {
            assert_eq!(similar(name).as_deref(), zone, "{name}");
            assert!(zone.is_none_or(|zone| Zone::named(zone).is_ok()), "{zone:?}");
        }
    }

    fn at(zone: &str, time: &str) -> (u16, u8, u8, u8) {
        let unix_ms = time.parse::<Timestamp>().unwrap().as_millisecond();
        let CivilTime { year, month, day, hour } = Zone::named(zone).unwrap().stamp(unix_ms);
        (year, month, day, hour)
    }

    #[test]
    fn a_day_begins_where_the_zone_is() {
        assert_eq!(at("UTC", "2026-11-21T16:30:00Z"), (2026, 11, 21, 16));
        assert_eq!(at("Asia/Shanghai", "2026-11-21T16:30:00Z"), (2026, 11, 22, 0));
        assert_eq!(at("America/New_York", "2026-11-22T04:59:59Z"), (2026, 11, 21, 23));
        // Clocks are set back at 01:00Z: the hour from 02:00 repeats.
        assert_eq!(at("Europe/Berlin", "2026-10-25T00:30:00Z"), (2026, 10, 25, 2));
        assert_eq!(at("Europe/Berlin", "2026-10-25T01:30:00Z"), (2026, 10, 25, 2));
        assert!(Zone::named("Asia/Shanghai2").unwrap_err().to_string().contains("none called 'Asia/Shanghai2'"));
        assert!(Zone::named("").is_err() && Zone::named("../etc/passwd").is_err());
    }
}
