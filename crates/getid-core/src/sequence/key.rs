//! Key of a sequence: its name, and for a serial number the period of its counter.

use alloc::boxed::Box;
use alloc::format;
use core::fmt;

use crate::declaration::{NAME_BYTES_MAX, is_name};

/// Longest period, bytes: `20261122T23` has 11.
const PERIOD_BYTES_MAX: usize = 16;

/// End of a sentence about a valid name of a sequence, for errors.
pub const SEQUENCE_NAME_RULE: &str =
    "1 to 128 bytes of A-Z a-z 0-9 _ . : - { } # and blanks inside, and is not '.', '..' or '-'";

/// Returns true if `name` is valid for a sequence, as [`SEQUENCE_NAME_RULE`] describes.
///
/// No such name ends a quoted text in SQL, or equals another one after trailing blanks are cut.
pub fn is_sequence_name(name: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-{}# ".contains(&byte);
    let is_in_range = (1..=NAME_BYTES_MAX).contains(&name.len());
    is_in_range && name.bytes().all(is_known) && name.trim() == name && ![".", "..", "-"].contains(&name)
}

/// A sequence in a store: a name, and a period that is empty unless it counts the serial numbers of that period.
///
/// Its text is `name`, or `name@period`: no name has an `@`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Box<str>);

impl Key {
    /// Creates the key of the sequence of this name; `None` if the name is not valid.
    pub fn new(name: &str) -> Option<Key> {
        is_sequence_name(name).then(|| Key(name.into()))
    }

    /// Creates the key of one period of a serial number, whose name is a generator's; `None` if name or period is not
    /// valid.
    pub fn of_period(name: &str, period: &str) -> Option<Key> {
        let is_period =
            (1..=PERIOD_BYTES_MAX).contains(&period.len()) && period.bytes().all(|b| b.is_ascii_alphanumeric());
        (is_name(name) && is_period).then(|| Key(format!("{name}@{period}").into()))
    }

    /// Parses the text of a key.
    pub fn parse(text: &str) -> Option<Key> {
        match text.split_once('@') {
            None => Key::new(text),
            Some((name, period)) => Key::of_period(name, period),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.0.split('@').next().unwrap_or_default()
    }

    /// Returns its period; empty for a sequence.
    pub fn period(&self) -> &str {
        self.0.split_once('@').map_or("", |(_, period)| period)
    }

    /// Returns its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
