//! Times as people write them: Unix milliseconds, RFC 3339, a date, a date with a time, `now`.
//!
//! `DECODEID`, `IDSPAN`, `id-epoch` and the tools read and write times with this module. So each can read what another
//! prints, and a time without a zone means UTC everywhere. Pure: the caller passes the current time.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use jiff::civil;
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::tz::Offset;

use crate::printable::printable_up_to;

/// A time further ahead than this, ms, is implausible in an ID of a declared generator: clocks are seldom wrong by a
/// day.
pub const GENERATOR_AHEAD_MAX_MS: i64 = 24 * 3600 * 1000;

/// Returns a sort key for the times that several generators read from one ID, the most plausible first: past times and
/// those up to [`GENERATOR_AHEAD_MAX_MS`] ahead, the nearest to now first; then later times; then readings without a
/// time.
pub fn plausibility(unix_ms: Option<i64>, now_unix_ms: i64) -> (u8, u64) {
    match unix_ms {
        None => (2, 0),
        Some(unix_ms) => {
            let is_ahead = unix_ms > now_unix_ms.saturating_add(GENERATOR_AHEAD_MAX_MS);
            (u8::from(is_ahead), unix_ms.abs_diff(now_unix_ms))
        }
    }
}

/// A time as it was written: fixed, or the time of evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSpec {
    /// A fixed time, Unix milliseconds.
    At(i64),
    /// The time at which it is evaluated, written `now`.
    Now,
}

impl TimeSpec {
    /// Parses a time in one of these forms:
    ///
    /// - `1488793021966`: Unix milliseconds, optionally with a minus
    /// - `2017-03-06T09:37:01.966+08:00`: RFC 3339; a blank may replace the `T`, and one may precede the zone
    /// - `2017-03-06 09:37:01`, `2017-03-06 09:37`: a time without a zone, which means UTC
    /// - `2017-03-06`: the first millisecond of that day, in UTC or the zone that follows
    /// - `now`
    ///
    /// A zone is `Z`, `UTC` or an offset such as `+08:00`. Fractions of a millisecond are rounded towards the past.
    ///
    /// # Errors
    ///
    /// [`TimeError`] if the text has none of these forms, or is beyond the years -9999 to 9999.
    pub fn parse(text: &str) -> Result<TimeSpec, TimeError> {
        if text.eq_ignore_ascii_case("now") {
            return Ok(TimeSpec::Now);
        }
        let unix_ms = if is_integer(text) { parse_number(text) } else { parse_date(text, ZoneRule::Utc) };
        unix_ms.map(TimeSpec::At)
    }

    /// Returns the time in Unix milliseconds; `now_unix_ms` is the current time.
    pub fn unix_ms(self, now_unix_ms: i64) -> i64 {
        match self {
            TimeSpec::At(unix_ms) => unix_ms,
            TimeSpec::Now => now_unix_ms,
        }
    }
}

/// Parses a fixed time in a form of [`TimeSpec::parse`]. Returns Unix milliseconds.
///
/// # Errors
///
/// Those of [`TimeSpec::parse`]; [`TimeError::NotFixed`] for `now`.
pub fn parse_unix_ms(text: &str) -> Result<i64, TimeError> {
    match TimeSpec::parse(text) {
        Ok(TimeSpec::At(unix_ms)) => Ok(unix_ms),
        Ok(TimeSpec::Now) => Err(TimeError::NotFixed),
        Err(TimeError::Syntax { text, .. }) => Err(TimeError::Syntax { text, takes_now: false }),
        Err(error) => Err(error),
    }
}

/// Parses a date with a zone, which has the same meaning for all readers. Returns Unix milliseconds.
///
/// # Errors
///
/// Those of [`parse_unix_ms`]; [`TimeError::NoZone`].
pub fn parse_zoned(text: &str) -> Result<i64, TimeError> {
    parse_date(text, ZoneRule::Required)
}

/// Treatment of a date without a zone.
#[derive(Clone, Copy)]
enum ZoneRule {
    Utc,
    /// A zone is required.
    Required,
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn parse_number(text: &str) -> Result<i64, TimeError> {
    let unix_ms: Option<i64> = text.parse().ok().filter(|&unix_ms| Timestamp::from_millisecond(unix_ms).is_ok());
    unix_ms.ok_or_else(|| TimeError::Range { text: shortened(text) })
}

fn parse_date(text: &str, zone: ZoneRule) -> Result<i64, TimeError> {
    let syntax = || TimeError::Syntax { text: shortened(text), takes_now: true };
    // The text is longer than any time, so the parser need not see it.
    if text.len() > TEXT_BYTES_MAX {
        return Err(syntax());
    }
    let standard = with_standard_zone(text);
    let pieces = Pieces::parse(standard.as_ref()).map_err(|_| syntax())?;
    // A named zone (`[Asia/Shanghai]`) would need a zone database, which differs between machines.
    if pieces.time_zone_annotation().is_some() {
        return Err(syntax());
    }
    let offset = match (pieces.offset(), zone) {
        (None, ZoneRule::Required) => return Err(TimeError::NoZone { text: shortened(text) }),
        (None, ZoneRule::Utc) | (Some(PiecesOffset::Zulu), _) => Offset::UTC,
        (Some(PiecesOffset::Numeric(numeric)), _) => numeric.offset(),
        (Some(_), _) => return Err(syntax()),
    };
    let time = pieces.time().unwrap_or_else(civil::Time::midnight);
    let timestamp =
        offset.to_timestamp(pieces.date().to_datetime(time)).map_err(|_| TimeError::Range { text: shortened(text) })?;
    let unix_ms = timestamp.as_nanosecond().div_euclid(1_000_000);
    i64::try_from(unix_ms).map_err(|_| TimeError::Range { text: shortened(text) })
}

/// Converts printed zones to RFC 3339: ` UTC` becomes `Z`, a blank before an offset is removed, and a date with a zone
/// becomes its midnight.
fn with_standard_zone(text: &str) -> Cow<'_, str> {
    const DATE_BYTES: usize = "2017-03-06".len();
    let named = text.strip_suffix("UTC").map(|rest| format!("{}Z", rest.trim_end_matches(' ')));
    let text = named.map_or(Cow::Borrowed(text), Cow::Owned);
    let (before, zone) = match text.rfind(['Z', '+', '-']) {
        // The dashes of a date do not begin a zone.
        Some(at) if at >= DATE_BYTES => text.split_at(at),
        _ => return text,
    };
    let before = before.strip_suffix(' ').unwrap_or(before);
    let time = if before.len() == DATE_BYTES { "T00:00" } else { "" };
    Cow::Owned(format!("{before}{time}{zone}"))
}

/// The longest text that is parsed as a date, bytes. RFC 3339 with nanoseconds and an offset takes 35.
const TEXT_BYTES_MAX: usize = 256;

/// Formats Unix milliseconds as RFC 3339 in UTC, always with three digits of a second: `2017-03-06T09:37:01.966Z`.
///
/// Beyond the years -9999 to 9999, which no ID can carry, it returns the bare number.
pub fn format_rfc3339(unix_ms: i64) -> String {
    match Timestamp::from_millisecond(unix_ms) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => unix_ms.to_string(),
    }
}

/// Formats Unix nanoseconds as RFC 3339 in UTC, with as many digits of a second as `step_ns` has, at least three.
///
/// Beyond the years -9999 to 9999, it returns Unix milliseconds as a bare number.
pub fn format_rfc3339_ns(unix_ns: i128, step_ns: u64) -> String {
    let digits = if step_ns.is_multiple_of(1_000_000) {
        3
    } else if step_ns.is_multiple_of(1_000) {
        6
    } else {
        7
    };
    match Timestamp::from_nanosecond(unix_ns) {
        Ok(timestamp) => format!("{timestamp:.digits$}"),
        Err(_) => unix_ns.div_euclid(1_000_000).to_string(),
    }
}

/// Why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// The text has none of the forms of [`TimeSpec::parse`].
    Syntax {
        /// The text, cut after 64 characters.
        text: String,
        /// Whether `now` is accepted too.
        takes_now: bool,
    },
    /// The time is beyond the years -9999 to 9999.
    Range {
        /// The text, cut after 64 characters.
        text: String,
    },
    /// The text is `now`, where a fixed time is required.
    NotFixed,
    /// The date has no zone, where one is required.
    NoZone {
        /// The text, cut after 64 characters.
        text: String,
    },
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeError::Syntax { text, takes_now } => {
                let now = if *takes_now { "now, " } else { "" };
                write!(
                    f,
                    "'{text}' is not a time: write Unix milliseconds, {now}2017-03-06, '2017-03-06 09:37:01' (UTC) or \
                     2017-03-06T09:37:01.966+08:00"
                )
            }
            TimeError::Range { text } => write!(f, "'{text}' lies beyond the years -9999 to 9999"),
            TimeError::NotFixed => {
                write!(f, "'now' is another time at each start; write a fixed one, such as 2017-03-06T09:37:01.966Z")
            }
            TimeError::NoZone { text } => write!(f, "'{text}' has no zone; write {text}Z for UTC, or {text}+08:00"),
        }
    }
}

impl std::error::Error for TimeError {}

/// Cuts a client's text to one short, printable line, for an error message.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 64;
    printable_up_to(text, CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_has_come_is_more_plausible_than_one_that_has_not() {
        let now = 1_795_723_200_000;
        let day = GENERATOR_AHEAD_MAX_MS;
        let sorted = [now, now - 1, now + day, now - 9 * day, 0, now + day + 1, now + 9 * day].map(Some);
        assert!(sorted.into_iter().chain([None]).is_sorted_by_key(|time| plausibility(time, now)));
    }

    #[track_caller]
    fn check(text: &str, unix_ms: i64, formatted: &str) {
        assert_eq!(parse_unix_ms(text), Ok(unix_ms));
        assert_eq!(format_rfc3339(unix_ms), formatted);
        assert_eq!(parse_unix_ms(formatted), Ok(unix_ms));
    }

    #[test]
    fn numbers_and_rfc3339_mean_the_same() {
        check("1488793021966", 1_488_793_021_966, "2017-03-06T09:37:01.966Z");
        check("2017-03-06T09:37:01.966Z", 1_488_793_021_966, "2017-03-06T09:37:01.966Z");
        check("2017-03-06 09:37:01.966Z", 1_488_793_021_966, "2017-03-06T09:37:01.966Z");
        check("2015-01-01T00:00:00+08:00", 1_420_041_600_000, "2014-12-31T16:00:00.000Z");
        check("0", 0, "1970-01-01T00:00:00.000Z");
        check("-1", -1, "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn without_a_zone_it_is_utc() {
        let midnight = 1_488_758_400_000;
        for (text, unix_ms) in [
            ("2017-03-06", midnight),
            ("2017-03-06 00:00:00", midnight),
            ("2017-03-06T00:00", midnight),
            ("2017-03-06 00:00:00Z", midnight),
            ("2017-03-06 00:00:00 UTC", midnight),
            ("2017-03-06 UTC", midnight),
            ("2017-03-06Z", midnight),
            ("2017-03-06+08:00", midnight - 8 * 3_600_000),
            ("2017-03-06 -05:00", midnight + 5 * 3_600_000),
            ("2017-03-06 09:37:01.966", 1_488_793_021_966),
            ("2017-03-06 17:37:01.966 +08:00", 1_488_793_021_966),
            ("2017-03-06 17:37:01.966+0800", 1_488_793_021_966),
            ("2017-03-06 17:37:01.966 +08", 1_488_793_021_966),
        ] {
            assert_eq!(TimeSpec::parse(text), Ok(TimeSpec::At(unix_ms)), "{text}");
        }
    }

    #[test]
    fn now_is_the_time_of_evaluation() {
        assert_eq!((TimeSpec::parse("now"), TimeSpec::parse("NOW")), (Ok(TimeSpec::Now), Ok(TimeSpec::Now)));
        assert_eq!((TimeSpec::Now.unix_ms(7), TimeSpec::At(5).unix_ms(7)), (7, 5));
        assert_eq!(parse_unix_ms("now"), Err(TimeError::NotFixed));
    }

    #[test]
    fn finer_than_a_millisecond_is_cut_towards_the_past() {
        assert_eq!(parse_unix_ms("2017-03-06T09:37:01.966999Z"), Ok(1_488_793_021_966));
        assert_eq!(parse_unix_ms("1969-12-31T23:59:59.9999Z"), Ok(-1));
    }

    #[test]
    fn invalid_times_are_quoted_in_errors() {
        for text in [
            "",
            "-",
            "+5",
            "1.5",
            "0x10",
            "12 ",
            "２",
            "yesterday",
            "now ",
            "2017-02-30",
            "2017-03-06T25:00",
            "Z",
            "UTC",
            "2017-03-06 09:37:01  +08:00",
            "2017-03-06T09:37:01 Europe/Rome",
            "2017-03-06T09:37:01Z[Europe/Rome]",
            "10:00",
            "2017-03-06T09:37:01[Europe/Rome]",
            "06.03.2017",
            "03/06/2017",
            "2017-3-6",
            "2017-03-06 nonsense",
        ] {
            assert_eq!(
                parse_unix_ms(text),
                Err(TimeError::Syntax { text: text.to_owned(), takes_now: false }),
                "{text:?}"
            );
        }
        for text in ["99999999999999999999", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(parse_unix_ms(text), Err(TimeError::Range { text: text.to_owned() }), "{text:?}");
        }
        let long = parse_unix_ms(&"x\n".repeat(1000)).unwrap_err().to_string();
        assert!(long.len() < 300 && !long.contains('\n'), "{long}");
    }

    #[test]
    fn a_fine_unit_has_more_digits() {
        let unix_ns = 1_645_557_742_000_000_100;
        for (unit_ns, text) in [
            (100, "2022-02-22T19:22:22.0000001Z"),
            (1_500, "2022-02-22T19:22:22.0000001Z"),
            (1_000, "2022-02-22T19:22:22.000000Z"),
            (1_000_000, "2022-02-22T19:22:22.000Z"),
            (60_000_000_000, "2022-02-22T19:22:22.000Z"),
        ] {
            assert_eq!(format_rfc3339_ns(unix_ns, unit_ns), text);
        }
        assert_eq!(format_rfc3339_ns(i128::MIN, 100), i128::MIN.div_euclid(1_000_000).to_string());
        assert_eq!(format_rfc3339_ns(-1, 100), "1969-12-31T23:59:59.9999999Z");
    }

    #[test]
    fn every_number_is_formatted() {
        assert_eq!(format_rfc3339(i64::MAX), i64::MAX.to_string());
        assert_eq!(format_rfc3339(i64::MIN), i64::MIN.to_string());
        assert_eq!(format_rfc3339(253_402_207_199_999), "9999-12-30T21:59:59.999Z");
    }
}
