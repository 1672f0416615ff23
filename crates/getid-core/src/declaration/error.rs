//! Mistakes in a declaration, as sentences.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::seal::SealMistake;
use super::value::{INTEGER, NAME_BYTES_MAX, OPTIONS, RESERVED_NAME, TYPE_PREFIX_BYTES_MAX, WORDS_MAX};
use crate::alphabet::AlphabetError;
use crate::fields::FieldsError;
use crate::format::{Notation, PAD_MAX, PREFIX_BYTES_MAX};
use crate::kind::nano_id::CHANCE_BITS_MIN;
use crate::kind::{KINDS, Kind, Shape};
use crate::printable::Quoted;
use crate::sqids::SqidsError;

/// A mistake in a declaration. `Display` shows the word that was read and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text of each describes it")]
pub enum DeclarationError {
    Name { name: String },
    Reserved { name: String },
    NoKind,
    Kind { word: String },
    TooLong,
    NoFields,
    NoTime,
    Field { word: String },
    FieldIsOption { name: String },
    FixedFields { kind: &'static str, word: String },
    NoSuchField { name: String, fields: Vec<&'static str> },
    Unit { text: String },
    NoUnit { word: String },
    NoValue { option: String },
    Twice { option: String },
    Option { name: String, fields: Vec<String> },
    NotForKind { option: &'static str, kind: &'static str },
    Number { option: String, text: String, max: u64 },
    Address { name: String, text: String },
    NoConstant { name: String },
    Missing { name: String, max: u64 },
    CounterStart { text: String, last: u64 },
    NoCounter,
    NotWithRequest { name: String },
    Pad { text: String },
    Epoch { text: String, error: EpochError },
    Format { word: String },
    Prefix { text: String },
    TypePrefix { text: String },
    IntegerText { option: &'static str },
    Alphabet { error: AlphabetError },
    Length { text: String, characters: usize, least: u32, most: u32 },
    Chance { bits: u32 },
    Overflow { word: String },
    Sqids(SqidsError),
    Seal(SealMistake),
    Fields(FieldsError),
}

impl DeclarationError {
    /// Returns the option with the mistake, which may be `kind` or `layout` (all fields); `None`: the whole
    /// declaration.
    pub fn option(&self) -> Option<&str> {
        Some(match self {
            Self::Name { .. } | Self::Reserved { .. } | Self::NoKind | Self::TooLong | Self::Missing { .. } => {
                return None;
            }
            Self::Kind { .. } => "kind",
            Self::NoValue { option } | Self::Twice { option } | Self::Number { option, .. } => option,
            Self::Option { name, .. }
            | Self::Address { name, .. }
            | Self::NoConstant { name }
            | Self::Fields(FieldsError::Value { name, .. }) => name,
            Self::NotForKind { option, .. } | Self::IntegerText { option } => option,
            Self::CounterStart { .. } | Self::NoCounter => "counter-start",
            Self::Pad { .. } => "pad",
            Self::Epoch { .. } => "epoch",
            Self::Format { .. } => "format",
            Self::Prefix { .. } | Self::TypePrefix { .. } => "prefix",
            Self::Alphabet { .. } => "alphabet",
            Self::Length { .. } => "length",
            Self::Overflow { .. } => "overflow",
            Self::Sqids(error) => error.option(),
            Self::Seal(mistake) => mistake.option(),
            Self::NoFields
            | Self::NoTime
            | Self::Field { .. }
            | Self::FieldIsOption { .. }
            | Self::FixedFields { .. }
            | Self::NoSuchField { .. }
            | Self::Unit { .. }
            | Self::NoUnit { .. }
            | Self::NotWithRequest { .. }
            | Self::Chance { .. }
            | Self::Fields(_) => "layout",
        })
    }
}

impl DeclarationError {
    /// Returns true if it is a mistake whatever the kind is.
    pub(super) fn is_of_every_kind(&self) -> bool {
        match self {
            Self::Number { option, .. } => OPTIONS.contains(&option.as_str()),
            Self::Field { .. }
            | Self::FieldIsOption { .. }
            | Self::Unit { .. }
            | Self::NoValue { .. }
            | Self::Twice { .. }
            | Self::Epoch { .. }
            | Self::Format { .. }
            | Self::Pad { .. }
            | Self::Prefix { .. }
            | Self::IntegerText { .. }
            | Self::Alphabet { .. }
            | Self::Overflow { .. }
            | Self::Sqids(_)
            | Self::Fields(FieldsError::Twice { .. }) => true,
            _ => false,
        }
    }
}

impl fmt::Display for DeclarationError {
    #[expect(clippy::too_many_lines, reason = "a sentence for each")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name } => write!(
                f,
                "the generator's name is {}, must be 1 to {NAME_BYTES_MAX} bytes of A-Z a-z 0-9 _ . : -",
                Quoted(name)
            ),
            Self::Reserved { name } => write!(f, "the generator's name {} {RESERVED_NAME}", Quoted(name)),
            Self::NoKind => f.write_str("the kind is missing, as in: generator tweets twitter"),
            Self::Kind { word } => write!(f, "{} is not a kind of generator", Quoted(word)),
            Self::TooLong => write!(f, "the declaration has more than {WORDS_MAX} words"),
            Self::NoFields => f.write_str(
                "the layout has no fields, must have some, as in: layout time:41@1ms server-id:10 counter:12",
            ),
            Self::NoTime => f.write_str("the layout has no time, must have one, as in: time:41@1ms"),
            Self::Field { word } => write!(
                f,
                "{} is not a field, must be NAME:BITS, time:BITS@UNIT, or NAME:BITS? for one that comes with the request",
                Quoted(word)
            ),
            Self::FieldIsOption { name } => write!(f, "{} is an option and can't be a field's name", Quoted(name)),
            Self::FixedFields { kind, word } => write!(f, "{}: the fields of {kind} can't be changed", Quoted(word)),
            Self::NoSuchField { name, fields } => {
                write!(f, "the kind has no field {}, it has {}", Quoted(name), fields.join(", "))
            }
            Self::Unit { text } => write!(
                f,
                "the unit is {}, must be a whole number of ns, us, ms or s: a multiple of 100ns, at most a day",
                Quoted(text)
            ),
            Self::NoUnit { word } => write!(f, "{} has no unit, must have one, as in time:41@1ms", Quoted(word)),
            Self::NoValue { option } => write!(f, "{} has no value behind it", Quoted(option)),
            Self::Twice { option } => write!(f, "{} is given twice, must be given once", Quoted(option)),
            Self::Option { name, fields } => {
                write!(f, "{} is not an option; there are {}", Quoted(name), OPTIONS.join(", "))?;
                if fields.is_empty() { Ok(()) } else { write!(f, ", and the fields {}", fields.join(", ")) }
            }
            Self::NotForKind { option: "alphabet", kind } if is_kind(kind, |kind| kind.shape == Shape::Number) => {
                f.write_str("alphabet needs 'format sqids' or 'seal'")
            }
            Self::NotForKind { option: option @ ("alphabet" | "length"), kind } => {
                write!(f, "{option} is not an option of {kind}")
            }
            Self::NotForKind { option: "epoch", kind } if is_kind(kind, |kind| !kind.has_time()) => {
                write!(f, "epoch is for kinds with a time, and {kind} has none")
            }
            Self::NotForKind { option: "epoch", kind } => {
                write!(f, "epoch is for integers with a time, and {kind} is none: its epoch can't be changed")
            }
            Self::NotForKind { option, kind } => {
                write!(f, "{option} is for integers, and {kind} is written in its own way")
            }
            Self::Number { option, text, max } => {
                write!(f, "{option} is {}, must be a whole number from 0 to {max}", Quoted(text))
            }
            Self::Address { name, text } => write!(
                f,
                "{name} is {}, must be an IPv4 address such as 10.1.2.3, or its number from 0 to {}",
                Quoted(text),
                u32::MAX
            ),
            Self::NoConstant { name } => write!(f, "the field {} can't be given a value", Quoted(name)),
            Self::Missing { name, max } => {
                write!(f, "the field '{name}' has no value, must have one, as in: {name} 0 (up to {max})")
            }
            Self::CounterStart { text, last } => {
                write!(f, "counter-start is {}, must be 0..N with N at most {last}, as in 0..9", Quoted(text))
            }
            Self::NoCounter => f.write_str("counter-start needs a counter, and the layout has none"),
            Self::NotWithRequest { name } => write!(f, "the field {} can't come with the request", Quoted(name)),
            Self::Pad { text } => write!(f, "pad is {}, must be a whole number from 1 to {PAD_MAX}", Quoted(text)),
            Self::Epoch { text, error } => write!(f, "epoch is {}: {error}", Quoted(text)),
            Self::Format { word } => {
                write!(f, "format is {}, must be one of {}, or {INTEGER}", Quoted(word), Notation::WORDS.join(", "))
            }
            Self::Prefix { text } => write!(
                f,
                "prefix is {}, must be up to {PREFIX_BYTES_MAX} printable ASCII characters without spaces and quotes",
                Quoted(text)
            ),
            Self::TypePrefix { text } => write!(
                f,
                "prefix is {}, must be up to {TYPE_PREFIX_BYTES_MAX} small letters and _, a letter first and last: a \
                 TypeID has another _ behind its prefix by itself",
                Quoted(text)
            ),
            Self::IntegerText { option } => {
                write!(f, "{option} is for texts, and the format is {INTEGER}: remove one of them")
            }
            Self::Alphabet { error } => write!(f, "alphabet: {error}"),
            Self::Length { text, characters, least, most } => write!(
                f,
                "length is {}, must be {least} to {most} for an alphabet of {characters} characters: a shorter text has \
                 fewer than {CHANCE_BITS_MIN} random bits, so two of 1.3 billion would be equal with a chance of one \
                 half; a longer one has more than {} bits",
                Quoted(text),
                u128::BITS
            ),
            Self::Chance { bits } => write!(
                f,
                "the noise has {bits} bits, must have at least {CHANCE_BITS_MIN}: with fewer, two of 1.3 billion IDs \
                 would be equal with a chance of more than one half"
            ),
            Self::Overflow { word } => write!(f, "overflow is {}, must be error or grow", Quoted(word)),
            Self::Sqids(error) => error.fmt(f),
            Self::Seal(mistake) => mistake.fmt(f),
            Self::Fields(error) => error.fmt(f),
        }
    }
}

/// Returns true if the kind of this word is in the table and meets the condition.
fn is_kind(word: &str, condition: fn(&Kind) -> bool) -> bool {
    KINDS.iter().any(|kind| kind.word == word && condition(kind))
}

impl core::error::Error for DeclarationError {}

/// Why an `epoch` is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochError {
    /// The text is no number, and dates are not accepted.
    NoNumber,
    /// The text is neither a number nor a time with a zone.
    NoTime,
    /// The time lies outside the years that RFC 3339 can write.
    Range,
}

impl fmt::Display for EpochError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNumber => "must be a number of Unix ms",
            Self::NoTime => "must be a time with a zone, such as 2016-01-01T00:00:00+08:00, or Unix milliseconds",
            Self::Range => "must lie in the years 1 to 9999",
        })
    }
}

impl core::error::Error for EpochError {}
