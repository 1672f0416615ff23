//! Times as people write them: Unix milliseconds or RFC 3339.
//!
//! `DECODEID`, `IDSPAN`, `getid decode`, `getid span` and `id-epoch` all read and write times. They share this module so
//! that what one of them prints another one reads. Pure: the current time never comes from here.

use std::fmt;

use jiff::Timestamp;

/// A time given as Unix milliseconds (`1488793021966`) or RFC 3339 (`2017-03-06T09:37:01.966Z`), as Unix milliseconds.
///
/// A number, with or without a minus, is Unix milliseconds. RFC 3339 needs its offset (`Z`, `+08:00`), for a time of
/// day without one means another instant on each machine; a blank may stand in place of the `T`. What is finer than a
/// millisecond is cut off, towards the past.
///
/// # Errors
///
/// [`TimeError`] when the text is neither, or beyond the years -9999 to 9999.
pub fn parse_unix_ms(text: &str) -> Result<i64, TimeError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let unix_ms: i64 = text.parse().map_err(|_| TimeError::Range { text: shortened(text) })?;
        return match Timestamp::from_millisecond(unix_ms) {
            Ok(_) => Ok(unix_ms),
            Err(_) => Err(TimeError::Range { text: shortened(text) }),
        };
    }
    let timestamp: Timestamp = text.parse().map_err(|_| TimeError::Syntax { text: shortened(text) })?;
    let unix_ms = timestamp.as_nanosecond().div_euclid(1_000_000);
    i64::try_from(unix_ms).map_err(|_| TimeError::Range { text: shortened(text) })
}

/// Unix milliseconds as RFC 3339 in UTC, always with three digits of a second: `2017-03-06T09:37:01.966Z`.
///
/// Beyond the years -9999 to 9999, which no ID can carry, the bare number.
pub fn format_rfc3339(unix_ms: i64) -> String {
    match Timestamp::from_millisecond(unix_ms) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => unix_ms.to_string(),
    }
}

/// Why a text is no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// Neither a number nor RFC 3339.
    Syntax {
        /// The text, cut after 64 characters.
        text: String,
    },
    /// Beyond the years -9999 to 9999.
    Range {
        /// The text, cut after 64 characters.
        text: String,
    },
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeError::Syntax { text } => {
                write!(f, "'{text}' is no time: write Unix milliseconds or RFC 3339, as 2017-03-06T09:37:01.966Z")
            }
            TimeError::Range { text } => write!(f, "'{text}' lies beyond the years -9999 to 9999"),
        }
    }
}

impl std::error::Error for TimeError {}

/// Error messages quote what a client sent; this keeps them to one short, printable line.
fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 64;
    let mut short: String =
        text.chars().take(CHARS_MAX).map(|char| if char.is_control() { '?' } else { char }).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn finer_than_a_millisecond_is_cut_towards_the_past() {
        assert_eq!(parse_unix_ms("2017-03-06T09:37:01.966999Z"), Ok(1_488_793_021_966));
        assert_eq!(parse_unix_ms("1969-12-31T23:59:59.9999Z"), Ok(-1));
    }

    #[test]
    fn what_is_no_time_is_named() {
        for text in ["", "-", "now", "+5", "1.5", "2017-03-06", "2017-03-06T09:37:01", "0x10", "12 ", "２"] {
            assert_eq!(parse_unix_ms(text), Err(TimeError::Syntax { text: text.to_owned() }), "{text:?}");
        }
        for text in ["99999999999999999999", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(parse_unix_ms(text), Err(TimeError::Range { text: text.to_owned() }), "{text:?}");
        }
        let long = parse_unix_ms(&"x\n".repeat(1000)).unwrap_err().to_string();
        assert!(long.len() < 200 && !long.contains('\n'), "{long}");
    }

    #[test]
    fn every_number_is_formatted() {
        assert_eq!(format_rfc3339(i64::MAX), i64::MAX.to_string());
        assert_eq!(format_rfc3339(i64::MIN), i64::MIN.to_string());
        assert_eq!(format_rfc3339(253_402_207_199_999), "9999-12-30T21:59:59.999Z");
    }
}
