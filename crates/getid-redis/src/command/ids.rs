//! `DECODEID` and `IDSPAN`: decode an ID, and find the IDs of a span of time.

use std::str;

use getid_core::{Id, Layout};

use super::quote;
use crate::resp::{Value, parse_integer};
use getid_text::printable::printable;
use getid_text::timestamp::{TimeSpec, format_rfc3339};

/// Largest part of an argument that an error text quotes, bytes.
const QUOTED_BYTES_MAX: usize = 64;

/// Parses an ID as a client writes it: the digits of a Redis integer, 0 to 2^63 - 1.
///
/// # Errors
///
/// Returns [`IdArgumentError`], whose `Display` is the reply's text.
pub fn parse_id(text: &[u8]) -> Result<Id, IdArgumentError> {
    if let Some(number) = parse_integer(text) {
        let number = u64::try_from(number).map_err(|_| IdArgumentError::Negative { number })?;
        return Id::new(number).ok_or_else(|| IdArgumentError::TooLarge { text: quoted(text) });
    }
    let digits = text.first() != Some(&b'0') && !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    Err(if digits {
        IdArgumentError::TooLarge { text: quoted(text) }
    } else {
        IdArgumentError::NotAnInteger { text: quoted(text) }
    })
}

/// Why an argument is not an ID. `Display` is the text of an error reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdArgumentError {
    /// The argument is no integer, or is below -2^63.
    #[error("ERR '{text}' is not an id: one of the unnamed generator is an integer of 0 to 9223372036854775807")]
    NotAnInteger {
        /// The beginning of the argument.
        text: String,
    },
    /// The argument is below 0.
    #[error("ERR {number} is not an id: an id is never negative")]
    Negative {
        /// The number of the argument.
        number: i64,
    },
    /// The argument is 2^63 or above.
    #[error("ERR {text} is not an id: one of the unnamed generator has 63 bits, so it is at most 9223372036854775807")]
    TooLarge {
        /// The beginning of the argument.
        text: String,
    },
}

/// Replies to `DECODEID` with the fields of `id` under this layout. `ahead_ms` is the time by which it lies ahead of
/// `now_unix_ms`, negative for an ID of the past.
pub(super) fn describe_id(layout: Layout, id: Id, now_unix_ms: i64) -> Value {
    let parts = layout.split(id);
    let unix_ms = parts.tick.unix_ms(layout.epoch());
    Value::map([
        ("time", Value::from(format_rfc3339(unix_ms).as_str())),
        ("unix_ms", Value::Integer(unix_ms)),
        ("server_id", Value::Integer(i64::from(parts.server))),
        ("shard", Value::Integer(i64::from(parts.shard))),
        ("random", Value::Integer(i64::from(parts.random))),
        ("ahead_ms", Value::Integer(unix_ms.saturating_sub(now_unix_ms))),
    ])
}

/// Parses the two times of `IDSPAN`, each as [`TimeSpec::parse`] does.
///
/// # Errors
///
/// Returns [`SpanError`], whose `Display` is the reply's text.
pub fn parse_span(from: &[u8], to: &[u8]) -> Result<[TimeSpec; 2], SpanError> {
    Ok([parse_time(from)?, parse_time(to)?])
}

/// Parses a time as [`TimeSpec::parse`] does.
///
/// # Errors
///
/// Returns [`SpanError::Time`], whose `Display` is the reply's text.
pub fn parse_time(text: &[u8]) -> Result<TimeSpec, SpanError> {
    let text = String::from_utf8_lossy(quote(text, TIME_BYTES_MAX));
    TimeSpec::parse(&text).map_err(|error| SpanError::Time(error.to_string()))
}

/// Replies to `IDSPAN` with the lowest and the highest ID that can carry a time of `from` to `to`, both inclusive,
/// where `now` is `now_unix_ms`. The reply is an error if there is none.
pub fn describe_span(layout: Layout, times: [TimeSpec; 2], now_unix_ms: i64) -> Value {
    match span(layout, times, now_unix_ms) {
        Ok((lowest, highest)) => {
            Value::Array([lowest, highest].map(|id| Value::Integer(id.get().cast_signed())).to_vec())
        }
        Err(error) => Value::error(error.to_string()),
    }
}

fn span(layout: Layout, [from, to]: [TimeSpec; 2], now_unix_ms: i64) -> Result<(Id, Id), SpanError> {
    let tick = |time: TimeSpec| {
        let unix_ms = time.unix_ms(now_unix_ms);
        layout.epoch().tick_at(unix_ms).ok_or_else(|| {
            let (first, last) = (layout.first_unix_ms(), layout.last_unix_ms());
            SpanError::OutOfRange {
                time: format_rfc3339(unix_ms),
                relation: if unix_ms < first { "before the first" } else { "after the last" },
                bound: format_rfc3339(if unix_ms < first { first } else { last }),
            }
        })
    };
    let (from, to) = (tick(from)?, tick(to)?);
    if from > to {
        let [from, to] = [from, to].map(|tick| format_rfc3339(tick.unix_ms(layout.epoch())));
        return Err(SpanError::Backwards { from, to });
    }
    Ok(layout.span(from, to))
}

/// Largest part of an argument that is parsed as a time, bytes: longer than any time, so a cut text is no time.
const TIME_BYTES_MAX: usize = 300;

/// Why two arguments are no span of time. `Display` is the text of an error reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// One of the arguments is no time.
    #[error("ERR {0}")]
    Time(String),
    /// No ID can carry one of the times.
    #[error("ERR {time} is {relation} time an id can carry, {bound}")]
    OutOfRange {
        /// The time out of range.
        time: String,
        /// Whether the time is before the first or after the last one.
        relation: &'static str,
        /// The limit that the time exceeds.
        bound: String,
    },
    /// The first time is after the second.
    #[error("ERR the span ends before it begins: from {from} to {to}")]
    Backwards {
        /// The first time.
        from: String,
        /// The second time.
        to: String,
    },
}

/// Returns the beginning of a client's argument, escaped for an error text.
pub fn quoted(text: &[u8]) -> String {
    let text = quote(text, QUOTED_BYTES_MAX);
    str::from_utf8(text).map_or_else(|_| text.escape_ascii().to_string(), |text| printable(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_strictly() {
        assert_eq!(parse_id(b"144182182078841378").unwrap().get(), 144_182_182_078_841_378);
        assert_eq!(parse_id(b"0").unwrap().get(), 0);
        assert_eq!(parse_id(b"9223372036854775807").unwrap().get(), i64::MAX.cast_unsigned());
        for text in ["", "abc", "03", "+3", " 3", "1.5", "-", "-9223372036854775809", "\u{e9}"] {
            let text = text.to_owned();
            assert_eq!(parse_id(text.as_bytes()), Err(IdArgumentError::NotAnInteger { text }));
        }
        assert_eq!(parse_id(b"-1"), Err(IdArgumentError::Negative { number: -1 }));
        for text in ["9223372036854775808", "99999999999999999999"] {
            assert_eq!(parse_id(text.as_bytes()), Err(IdArgumentError::TooLarge { text: text.to_owned() }));
        }
        assert!(parse_id(&[b'9'; 5000]).unwrap_err().to_string().len() < 200);
        assert!(parse_id(&[0xff; 5000]).unwrap_err().to_string().len() < 400);
    }
}
