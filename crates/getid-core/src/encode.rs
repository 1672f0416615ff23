//! IDs composed of a time and values of fields, for tests, backfills and range queries.
//!
//! A generator makes an ID of a slot, and gives each slot once. Here the fields are free, so such an ID may equal one
//! that a generator gives: the callers decide whether that may be.
//!
//! Invariant: the number of [`Fill::Lowest`] is at most, and that of [`Fill::Highest`] is at least, every number of the
//! same time with the same given values.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::fields::{Field, FieldLayout, FieldNotation, Role};
use crate::layout::Layout;
use crate::number::{Number, low_bits};
use crate::printable::{QUOTED_MAX, Quoted};
use crate::time::{NS_PER_MS, UtcMs};

/// Value of the fields for which none is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// Zero, and the first unit of the millisecond.
    #[default]
    Lowest,
    /// The largest value of each field, and the last unit that begins in the millisecond.
    Highest,
}

impl FieldLayout {
    /// Returns the fields of an unnamed generator, by the names that `DECODEID` replies: `server_id`, `shard`,
    /// `random`.
    pub fn of_unnamed(layout: Layout) -> FieldLayout {
        let fields = FieldLayout::from(layout);
        let renamed = fields.fields().iter().map(|field| match field.role {
            Role::Server => Field::new("server_id", field.bits, field.role),
            Role::Counter => Field::new("shard", field.bits, field.role),
            _ => field.clone(),
        });
        // Only names differ, and none is there twice.
        FieldLayout::new(renamed.collect(), fields.epoch_unix_ms(), fields.unit()).unwrap_or(fields)
    }

    /// Returns the number of the unit of a Unix time in ms, with these values of fields. Constants have their own
    /// value, and the other fields that are not given are filled.
    ///
    /// ```
    /// use getid_core::{Declaration, Fill, no_dates};
    ///
    /// let tweets = Declaration::parse(&["tweets", "twitter"], no_dates).expect("a kind of the table");
    /// let values = [("datacenter", 11), ("worker", 26)];
    /// let number = tweets.layout().encode(1_656_432_460_105, &values, Fill::Lowest);
    /// assert_eq!(number, Ok(1541815603606036480_u64.into()));
    /// ```
    ///
    /// # Errors
    ///
    /// Fails for a layout without time, a time that no ID can carry, and values that the fields do not take.
    pub fn encode(&self, unix_ms: i64, values: &[(&str, u128)], fill: Fill) -> Result<Number, EncodeError> {
        self.check_values(values)?;
        let tick = self.tick_of_ms(unix_ms, fill)?;
        let mut number = Number::ZERO;
        for (field, shift) in self.places() {
            let given = values.iter().find(|(name, _)| *name == field.name).map(|&(_, value)| value);
            let value = match (field.role, given, fill) {
                (Role::Time, ..) => u128::from(tick),
                (Role::Constant(value), ..) => u128::from(value),
                (_, Some(value), _) => value,
                (_, None, Fill::Lowest) => 0,
                (_, None, Fill::Highest) => low_bits(field.bits),
            };
            number |= Number::from(value) << shift;
        }
        Ok(number)
    }

    /// Checks whether each value may be given: its field exists, is no time, and takes the value.
    ///
    /// # Errors
    ///
    /// Fails with the first value that may not.
    pub fn check_values(&self, values: &[(&str, u128)]) -> Result<(), EncodeError> {
        if !self.has_time() {
            return Err(EncodeError::NoTime);
        }
        for (at, &(name, value)) in values.iter().enumerate() {
            let field = self.encoded_field(name)?;
            if values[..at].iter().any(|(before, _)| *before == name) {
                return Err(EncodeError::Twice { name: name.to_owned() });
            }
            let max = low_bits(field.bits);
            match field.role {
                Role::Constant(constant) if value != u128::from(constant) => {
                    return Err(EncodeError::Constant { name: name.to_owned(), constant });
                }
                _ if value > max => {
                    return Err(EncodeError::Range { name: name.to_owned(), text: format!("{value}"), max });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Parses a value of a field: decimal digits, or an IPv4 address where the field holds one.
    ///
    /// # Errors
    ///
    /// Fails if there is no such field, or the text is not a number that it takes.
    pub fn parse_value(&self, name: &str, text: &str) -> Result<u128, EncodeError> {
        let field = self.encoded_field(name)?;
        let max = low_bits(field.bits);
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let shown = || text.chars().take(TEXT_CHARS_MAX).collect();
        if !is_number && field.notation() == FieldNotation::Address {
            let value = field.read_value(text).map(u128::from);
            return value.ok_or_else(|| EncodeError::NotAnAddress { name: name.to_owned(), text: shown(), max });
        }
        if !is_number {
            return Err(EncodeError::NotANumber { name: name.to_owned(), text: shown(), max });
        }
        let number = text.parse().ok().filter(|&value| value <= max);
        number.ok_or_else(|| EncodeError::Range { name: name.to_owned(), text: shown(), max })
    }

    /// Returns the field of this name, which is not the time.
    fn encoded_field(&self, name: &str) -> Result<&Field, EncodeError> {
        let is_free = |field: &&Field| field.role != Role::Time;
        self.field(name).filter(is_free).ok_or_else(|| {
            let fields = self.fields().iter().filter(is_free);
            let fields = fields.map(|field| (field.name.clone(), low_bits(field.bits))).collect();
            EncodeError::Unknown { name: name.chars().take(TEXT_CHARS_MAX).collect(), fields }
        })
    }

    fn tick_of_ms(&self, unix_ms: i64, fill: Fill) -> Result<u64, EncodeError> {
        let begin_ns = i128::from(unix_ms) * i128::from(NS_PER_MS);
        let first = self.tick_at(begin_ns).ok_or_else(|| EncodeError::Time {
            unix_ms,
            first_unix_ms: self.epoch_unix_ms(),
            last_unix_ms: self.end_unix_ms().saturating_sub(1),
        })?;
        Ok(match fill {
            Fill::Lowest => first,
            Fill::Highest => self.tick_at(begin_ns + i128::from(NS_PER_MS) - 1).unwrap_or_else(|| self.last_tick()),
        })
    }
}

/// Longest text of a caller that an error keeps, characters: one more than it quotes, so that a cut is visible.
const TEXT_CHARS_MAX: usize = QUOTED_MAX + 1;

/// Reason why there is no ID of a time and values of fields. `Display` is the end of a sentence about its generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// The kind holds no time.
    NoTime,
    /// No ID can carry the time.
    Time {
        /// The time, Unix ms.
        unix_ms: i64,
        /// First time that an ID can carry, Unix ms.
        first_unix_ms: i64,
        /// Last time that an ID can carry, Unix ms.
        last_unix_ms: i64,
    },
    /// There is no such field, or it is the time.
    Unknown {
        /// The name that was given.
        name: String,
        /// Each field that may be given, with its largest value.
        fields: Vec<(String, u128)>,
    },
    /// A field is given twice.
    Twice {
        /// Name of the field.
        name: String,
    },
    /// A field is given without a value.
    NoValue {
        /// Name of the field.
        name: String,
        /// Largest value of the field.
        max: u128,
    },
    /// The value is not written in decimal digits.
    NotANumber {
        /// Name of the field.
        name: String,
        /// The text that was given.
        text: String,
        /// Largest value of the field.
        max: u128,
    },
    /// The value is neither an IPv4 address nor written in decimal digits.
    NotAnAddress {
        /// Name of the field.
        name: String,
        /// The text that was given.
        text: String,
        /// Largest value of the field.
        max: u128,
    },
    /// The value does not fit the field.
    Range {
        /// Name of the field.
        name: String,
        /// The value that was given.
        text: String,
        /// Largest value of the field.
        max: u128,
    },
    /// The field is a constant of another value.
    Constant {
        /// Name of the field.
        name: String,
        /// Value of the constant.
        constant: u64,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTime => f.write_str("its ids hold no time, so there is no id of a time"),
            Self::Time { unix_ms, first_unix_ms, last_unix_ms } => {
                let (time, is_early) = (UtcMs(*unix_ms), unix_ms < first_unix_ms);
                let bound = UtcMs(if is_early { *first_unix_ms } else { *last_unix_ms });
                let relation = if is_early { "before the first" } else { "after the last" };
                write!(f, "{time} is {relation} time that an id can carry, {bound}")
            }
            Self::Unknown { name, fields } if fields.is_empty() => {
                write!(f, "there is no field {}: its ids have a time and no other field", Quoted(name))
            }
            Self::Unknown { name, fields } => {
                let fields: Vec<_> = fields.iter().map(|(name, max)| format!("{name} (0 to {max})")).collect();
                write!(f, "there is no field {}; the fields are {}", Quoted(name), fields.join(", "))
            }
            Self::Twice { name } => write!(f, "field '{name}' is given twice"),
            Self::NoValue { name, max } => write!(f, "field '{name}' has no value: it takes 0 to {max}"),
            Self::NotANumber { name, text, max } => {
                write!(f, "{} is not a number: field '{name}' takes 0 to {max}", Quoted(text))
            }
            Self::NotAnAddress { name, text, max } => {
                write!(
                    f,
                    "{} is no IPv4 address: field '{name}' takes one such as 10.1.2.3, or 0 to {max}",
                    Quoted(text)
                )
            }
            Self::Range { name, text, max } => {
                write!(f, "{} is out of range: field '{name}' takes 0 to {max}", Quoted(text))
            }
            Self::Constant { name, constant } => {
                write!(f, "field '{name}' is the constant {constant}: leave it out, or give it this value")
            }
        }
    }
}

impl core::error::Error for EncodeError {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use proptest::prelude::*;

    use super::*;
    use crate::declaration::{Declaration, no_dates};
    use crate::kind::KINDS;

    fn layout(words: &str) -> FieldLayout {
        let words: Vec<_> = ["g"].into_iter().chain(words.split(' ')).collect();
        Declaration::parse(&words, no_dates).expect("a declaration").layout().clone()
    }

    /// Returns the layout of each kind with a time, and of one with constants.
    fn layouts() -> Vec<FieldLayout> {
        let kinds = KINDS.iter().filter(|kind| kind.fields.iter().any(|(_, _, role)| *role == Role::Time));
        let own = "layout time:39@100ns idc:2 server-id:7 business:4 counter:7 epoch 1451577600000 idc 1 business 3";
        kinds.map(|kind| layout(kind.word)).chain([layout(own), layout("timestamp-us")]).collect()
    }

    #[test]
    fn ids_of_their_own_systems_are_composed_of_their_fields() {
        let tweet = layout("twitter");
        let values = [("worker", 26), ("datacenter", 11)];
        assert_eq!(tweet.encode(1_656_432_460_105, &values, Fill::Lowest), Ok(1_541_815_603_606_036_480_u64.into()));
        assert_eq!(
            tweet.encode(1_656_432_460_105, &values, Fill::Highest),
            Ok((1_541_815_603_606_036_480_u64 + 4095).into())
        );
        // A millisecond has ten thousand units of a UUID.
        let uuid = layout("uuid6");
        let tick = |fill| uuid.tick_of(uuid.encode(0, &[], fill).expect("in range"));
        assert_eq!(tick(Fill::Highest), tick(Fill::Lowest).map(|tick| tick + 9_999));
        // A second has one unit.
        let seconds = layout("objectid");
        assert_eq!(
            seconds.encode(1999, &[("process", 7), ("counter", 5)], Fill::Lowest),
            Ok(((1_u128 << 64) | (7 << 24) | 5).into())
        );
    }

    #[test]
    fn ids_of_the_unnamed_generator_have_the_names_of_their_parts() {
        let layout = Layout::default();
        let values = [("server_id", 3), ("shard", 5), ("random", 7)];
        let number = FieldLayout::of_unnamed(layout).encode(1_488_793_021_966, &values, Fill::Lowest);
        let tick = layout.epoch().tick_at(1_488_793_021_966).expect("in range");
        let id = layout.compose(crate::layout::Parts { tick, server: 3, shard: 5, random: 7 });
        assert_eq!(number, Ok(id.get().into()));
        // A field without a width does not exist.
        let alone = Layout::new(layout.epoch(), 0, 11, 10).expect("21 bits");
        let names: Vec<_> = FieldLayout::of_unnamed(alone).fields().iter().map(|field| field.name.clone()).collect();
        assert_eq!(names, ["time", "shard", "random"]);
    }

    #[test]
    fn each_mistake_has_its_sentence() {
        let tweet = layout("twitter");
        let own = layout("layout time:39@1ms idc:2 counter:7 epoch 1451577600000 idc 1");
        let now = 1_656_432_460_105;
        for (layout, unix_ms, values, expected) in [
            (&layout("uuid4"), now, &[][..], "its ids hold no time, so there is no id of a time"),
            (
                &tweet,
                0,
                &[],
                "1970-01-01T00:00:00.000Z is before the first time that an id can carry, 2010-11-04T01:42:54.657Z",
            ),
            (
                &tweet,
                4_102_444_800_000,
                &[],
                "2100-01-01T00:00:00.000Z is after the last time that an id can carry, 2080-07-10T17:30:30.208Z",
            ),
            (
                &tweet,
                now,
                &[("time", 1)],
                "there is no field 'time'; the fields are datacenter (0 to 31), worker (0 to 31), counter (0 to 4095)",
            ),
            (
                &layout("timestamp-ms"),
                now,
                &[("x", 1)],
                "there is no field 'x': its ids have a time and no other field",
            ),
            (&tweet, now, &[("worker", 1), ("worker", 1)], "field 'worker' is given twice"),
            (&tweet, now, &[("worker", 32)], "'32' is out of range: field 'worker' takes 0 to 31"),
            (&own, now, &[("idc", 2)], "field 'idc' is the constant 1: leave it out, or give it this value"),
        ] {
            let error = layout.encode(unix_ms, values, Fill::Lowest).expect_err(expected);
            assert_eq!(error.to_string(), expected);
        }
        assert!(own.encode(now, &[("idc", 1)], Fill::Highest).is_ok());
    }

    #[test]
    fn values_are_decimal_digits() {
        let tweet = layout("twitter");
        assert_eq!(tweet.parse_value("worker", "031"), Ok(31));
        for (name, text, expected) in [
            ("worker", "+1", "'+1' is not a number: field 'worker' takes 0 to 31"),
            ("worker", "", "'' is not a number: field 'worker' takes 0 to 31"),
            ("worker", "32", "'32' is out of range: field 'worker' takes 0 to 31"),
        ] {
            assert_eq!(tweet.parse_value(name, text).expect_err(text).to_string(), expected);
        }
        let hibernate = layout("hibernate");
        for text in ["10.1.2.3", "167838211"] {
            assert_eq!(hibernate.parse_value("address", text), Ok(0x0a01_0203));
        }
        assert_eq!(
            hibernate.parse_value("address", "10.1.2").expect_err("three numbers").to_string(),
            "'10.1.2' is no IPv4 address: field 'address' takes one such as 10.1.2.3, or 0 to 4294967295"
        );
        let long = tweet.parse_value("worker", &"9".repeat(5000)).expect_err("too large").to_string();
        assert!(long.len() < 200, "{long}");
        let long = tweet.parse_value(&"x".repeat(5000), "1").expect_err("unknown").to_string();
        assert!(long.len() < 300, "{long}");
    }

    proptest! {
        #[test]
        fn fields_are_read_back_and_other_ids_lie_between_lowest_and_highest(
            which: proptest::sample::Index,
            at: u64,
            values in proptest::collection::vec((any::<u128>(), any::<bool>()), 8),
        ) {
            let layouts = layouts();
            let layout = which.get(&layouts);
            let last_ms = layout.end_unix_ms().clamp(0, i64::MAX / 2).abs_diff(layout.epoch_unix_ms());
            let unix_ms = layout.epoch_unix_ms().saturating_add_unsigned(at % last_ms.max(1));
            let fields: Vec<_> = layout.places().filter(|(field, _)| field.role != Role::Time).collect();
            let value = |(field, value): (&Field, u128)| match field.role {
                Role::Constant(constant) => u128::from(constant),
                _ => value & low_bits(field.bits),
            };
            let all: Vec<_> = fields
                .iter()
                .zip(&values)
                .map(|(&(field, _), &(number, is_given))| (field.name.as_str(), value((field, number)), is_given))
                .collect();
            let given = all.iter().filter(|(.., is_given)| *is_given);
            let given: Vec<_> = given.map(|&(name, value, _)| (name, value)).collect();
            let whole: Vec<_> = all.iter().map(|&(name, value, _)| (name, value)).collect();
            let lowest = layout.encode(unix_ms, &given, Fill::Lowest);
            let highest = layout.encode(unix_ms, &given, Fill::Highest);
            let (lowest, highest) = (lowest.expect("in range"), highest.expect("in range"));
            for fill in [Fill::Lowest, Fill::Highest] {
                let number = layout.encode(unix_ms, &whole, fill).expect("in range");
                prop_assert!((lowest..=highest).contains(&number), "{layout}");
                for ((field, shift), (_, value)) in fields.iter().zip(&whole) {
                    prop_assert_eq!(FieldLayout::value(field, *shift, number), *value, "{}", layout);
                }
                let tick = layout.tick_of(number).expect("a time");
                let unit_ns = i128::from(layout.unit().ns());
                let behind_ns = i128::from(unix_ms) * i128::from(NS_PER_MS) - layout.unix_ns(tick);
                prop_assert!((-i128::from(NS_PER_MS)..unit_ns).contains(&behind_ns), "{layout}");
            }
        }
    }
}
