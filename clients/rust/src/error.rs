//! Errors of the client, and the checks of arguments.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Result of the crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a client. Programs branch on the variant; the text is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The time-out of the call passed without a value. The text names the last failure and the address.
    Unavailable(String),
    /// The server returned an error that a repetition does not mend, such as `NOPERM` or an unknown name.
    Refused {
        /// First word of the server's error, such as `NOPERM`; empty if the client found the reason.
        code: String,
        /// Object, address and reason.
        message: String,
    },
    /// The clock of this machine is past the end of a lease that was just given.
    Clock {
        /// How far the clock is past the end of the lease, at least, in milliseconds.
        difference_ms: i64,
        /// Object, difference and remedy.
        message: String,
    },
    /// The client is closed.
    Closed,
    /// An argument is wrong. The text names the argument, its value and its range.
    Usage(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unavailable(message)
            | Error::Refused { message, .. }
            | Error::Clock { message, .. }
            | Error::Usage(message) => f.write_str(message),
            Error::Closed => f.write_str("the client is closed: make another one"),
        }
    }
}

impl std::error::Error for Error {}

/// Longest time-out: one day.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_hours(24);

/// Longest name of a sequence or worker pool, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Most values of one `take`.
pub(crate) const TAKE_MAX: u64 = 1_000_000;

pub(crate) fn check_number(argument: &str, value: u64, range: RangeInclusive<u64>) -> Result<u64> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(Error::Usage(format!("{argument} is {value}, must be {} to {}", range.start(), range.end())))
}

pub(crate) fn check_duration(argument: &str, value: Duration, range: RangeInclusive<Duration>) -> Result<Duration> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(Error::Usage(format!("{argument} is {value:?}, must be {:?} to {:?}", range.start(), range.end())))
}

pub(crate) fn check_timeout(value: Duration) -> Result<Duration> {
    check_duration("timeout", value, Duration::ZERO..=TIMEOUT_MAX)
}

pub(crate) fn check_count(n: usize) -> Result<u64> {
    check_number("n", n as u64, 1..=TAKE_MAX)
}

pub(crate) fn check_name(argument: &str, name: &str) -> Result<()> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::Usage(format!("{argument} has {} bytes, must have 1 to {NAME_BYTES_MAX}", name.len())))
}
