//! The value of a metric, and its text in INFO.

use std::fmt::{self, Write as _};

use crate::text::printable::printable;

/// The value of a metric at one moment. `Display` is INFO's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value: INFO omits the line.
    Absent,
    /// A whole number.
    Integer(i128),
    /// `units / 10^decimals`, written with all its decimals.
    Decimal {
        /// The number without its decimal point.
        units: u64,
        /// Number of digits after the point.
        decimals: u32,
    },
    /// A word or a sentence.
    Text(String),
    /// Several values, each with its name: `calls=3,usec=12`.
    Parts(Vec<(&'static str, Value)>),
    /// A value for each label, such as a command's name; INFO has a line for each.
    Family(Vec<(String, Value)>),
}

impl Value {
    /// Converts nanoseconds to a number of microseconds.
    pub fn us(ns: u64) -> Value {
        Value::Decimal { units: ns, decimals: 3 }
    }

    /// Converts microseconds to a number of seconds.
    pub fn s(us: u64) -> Value {
        Value::Decimal { units: us, decimals: 6 }
    }

    /// Returns a number given in hundredths.
    pub fn hundredths(units: u64) -> Value {
        Value::Decimal { units, decimals: 2 }
    }

    /// Returns a part of a whole as text, such as `12.34%`.
    pub fn percent(part: u64, whole: u64) -> Value {
        Value::Text(format!("{}%", Value::hundredths(part * 10_000 / whole.max(1))))
    }

    /// Returns bytes in Redis's form for people, such as `1.50M`.
    #[expect(clippy::cast_precision_loss, reason = "two decimals for people")]
    pub fn human(bytes: u64) -> Value {
        let float = bytes as f64;
        Value::Text(match bytes {
            0..1024 => format!("{bytes}B"),
            1024..1_048_576 => format!("{:.2}K", float / 1024.0),
            1_048_576..1_073_741_824 => format!("{:.2}M", float / 1_048_576.0),
            _ => format!("{:.2}G", float / 1_073_741_824.0),
        })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Absent | Value::Family(_) => Ok(()),
            Value::Integer(integer) => integer.fmt(f),
            Value::Decimal { units, decimals } => {
                let one = 10_u64.pow(*decimals);
                write!(f, "{}.{:0width$}", units / one, units % one, width = *decimals as usize)
            }
            Value::Text(text) => write_text(f, text),
            Value::Parts(parts) => parts.iter().enumerate().try_for_each(|(at, (name, value))| {
                let comma = if at > 0 { "," } else { "" };
                write!(f, "{comma}{name}={value}")
            }),
        }
    }
}

/// Writes a text as one line without `,` and `=`, so that no client parses it as several values. A client such as
/// redis-py parses a value with either as a list, or as fields, and fails if the value has both and is neither.
fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    printable(text).chars().try_for_each(|character| {
        f.write_char(match character {
            ',' => ';',
            '=' => ':',
            character => character,
        })
    })
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value {
            fn from(integer: $integer) -> Value {
                Value::Integer(integer.into())
            }
        }
    )*};
}

from_integer!(bool, u16, u32, u64, i64);

impl From<usize> for Value {
    fn from(integer: usize) -> Value {
        Value::from(integer as u64)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Absent, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_redis_writes_them() {
        for (value, text) in [
            (Value::from(-5_i64), "-5"),
            (Value::from(true), "1"),
            (Value::us(1_234_005), "1234.005"),
            (Value::s(1_000_005), "1.000005"),
            (Value::hundredths(7), "0.07"),
            (Value::percent(1, 3), "33.33%"),
            (Value::human(1023), "1023B"),
            (Value::human(1_572_864), "1.50M"),
            (Value::Parts(vec![("calls", 3_u64.into()), ("usec", Value::us(5))]), "calls=3,usec=0.005"),
            (None::<u64>.into(), ""),
            ("a, b=1\n# c:d".into(), "a; b:1\\n# c:d"),
            (Value::Parts(vec![("said", "x=1, y".into()), ("calls", 3_u64.into())]), "said=x:1; y,calls=3"),
        ] {
            assert_eq!(value.to_string(), text);
        }
    }
}
