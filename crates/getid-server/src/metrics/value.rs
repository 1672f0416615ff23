//! The value of a metric, and its text in INFO.

use std::fmt::{self, Write as _};

use getid_text::printable::printable;

/// The value of a metric at one moment. `Display` is INFO's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricValue {
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
    Parts(Vec<(&'static str, MetricValue)>),
    /// A value for each label, such as a command's name; INFO has a line for each.
    Family(Vec<(String, MetricValue)>),
}

impl MetricValue {
    /// Converts nanoseconds to a number of microseconds.
    pub fn us(ns: u64) -> MetricValue {
        MetricValue::Decimal { units: ns, decimals: 3 }
    }

    /// Converts microseconds to a number of seconds.
    pub fn s(us: u64) -> MetricValue {
        MetricValue::Decimal { units: us, decimals: 6 }
    }

    /// Returns a number given in hundredths.
    pub fn hundredths(units: u64) -> MetricValue {
        MetricValue::Decimal { units, decimals: 2 }
    }

    /// Returns a part of a whole as text, such as `12.34%`.
    pub fn percent(part: u64, whole: u64) -> MetricValue {
        MetricValue::Text(format!("{}%", MetricValue::hundredths(part * 10_000 / whole.max(1))))
    }

    /// Returns bytes in Redis's form for people, such as `1.50M`.
    #[expect(clippy::cast_precision_loss, reason = "two decimals for people")]
    pub fn human(bytes: u64) -> MetricValue {
        let float = bytes as f64;
        MetricValue::Text(match bytes {
            0..1024 => format!("{bytes}B"),
            1024..1_048_576 => format!("{:.2}K", float / 1024.0),
            1_048_576..1_073_741_824 => format!("{:.2}M", float / 1_048_576.0),
            _ => format!("{:.2}G", float / 1_073_741_824.0),
        })
    }
}

impl fmt::Display for MetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricValue::Absent | MetricValue::Family(_) => Ok(()),
            MetricValue::Integer(integer) => integer.fmt(f),
            MetricValue::Decimal { units, decimals } => {
                let one = 10_u64.pow(*decimals);
                write!(f, "{}.{:0width$}", units / one, units % one, width = *decimals as usize)
            }
            MetricValue::Text(text) => write_text(f, text),
            MetricValue::Parts(parts) => parts.iter().enumerate().try_for_each(|(at, (name, value))| {
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
        impl From<$integer> for MetricValue {
            fn from(integer: $integer) -> MetricValue {
                MetricValue::Integer(integer.into())
            }
        }
    )*};
}

from_integer!(bool, u16, u32, u64, i64);

impl From<usize> for MetricValue {
    fn from(integer: usize) -> MetricValue {
        MetricValue::from(integer as u64)
    }
}

impl From<&str> for MetricValue {
    fn from(text: &str) -> MetricValue {
        MetricValue::Text(text.to_owned())
    }
}

impl From<String> for MetricValue {
    fn from(text: String) -> MetricValue {
        MetricValue::Text(text)
    }
}

impl<T: Into<MetricValue>> From<Option<T>> for MetricValue {
    fn from(value: Option<T>) -> MetricValue {
        value.map_or(MetricValue::Absent, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_redis_writes_them() {
        for (value, text) in [
            (MetricValue::from(-5_i64), "-5"),
            (MetricValue::from(true), "1"),
            (MetricValue::us(1_234_005), "1234.005"),
            (MetricValue::s(1_000_005), "1.000005"),
            (MetricValue::hundredths(7), "0.07"),
            (MetricValue::percent(1, 3), "33.33%"),
            (MetricValue::human(1023), "1023B"),
            (MetricValue::human(1_572_864), "1.50M"),
            (MetricValue::Parts(vec![("calls", 3_u64.into()), ("usec", MetricValue::us(5))]), "calls=3,usec=0.005"),
            (None::<u64>.into(), ""),
            ("a, b=1\n# c:d".into(), "a; b:1\\n# c:d"),
            (MetricValue::Parts(vec![("error", "x=1, y".into()), ("calls", 3_u64.into())]), "error=x:1; y,calls=3"),
        ] {
            assert_eq!(value.to_string(), text);
        }
    }
}
