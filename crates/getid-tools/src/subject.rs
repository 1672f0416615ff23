//! The subject of a tool: the unnamed generator, or a declaration, whose IDs it reads.
//!
//! The tools handle an ID as a number. The number of a serial has the time that its text shows above its counted value,
//! so numbers sort in the order in which the IDs were given.

use std::fmt;

use getid_core::server::{
    COUNTER_KINDS, CivilTime, CounterDeclaration, CounterError, CounterKind, CounterReading, Series, ZoneCheck,
};
use getid_core::{
    Declaration, DeclarationError, EpochParser, FieldLayout, Id, Kind, Layout, Notation, Number, Shape, no_dates,
};

use super::decoded::text_of;
use getid_text::name_hash::hash_of;
use getid_text::zone::shown_unix_ms;

/// The generator whose IDs are meant.
#[derive(Clone, Debug)]
pub enum Subject {
    /// The unnamed generator.
    Unnamed(Layout),
    /// A generator by the clock. If no generator of a configuration is meant, its name is that of its kind.
    Declared(Box<Declaration>),
    /// A generator over a sequence. If no generator of a configuration is meant, its name is that of its kind.
    Counted(Box<CounterDeclaration>),
}

/// An error in the declaration of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectError {
    /// The declaration of a generator by the clock is invalid.
    Declaration(DeclarationError),
    /// The declaration of a generator over a sequence is invalid.
    Counter(CounterError),
}

impl fmt::Display for SubjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubjectError::Declaration(error) => error.fmt(f),
            SubjectError::Counter(error) => error.fmt(f),
        }
    }
}

impl Subject {
    /// Parses a declaration: a kind and its options, or a line of a configuration (`generator NAME KIND ...`).
    /// Constants need no values, because IDs contain them.
    ///
    /// # Errors
    ///
    /// Returns all errors in the declaration.
    pub fn parse(text: &str, epoch: EpochParser, zone: ZoneCheck) -> Result<Subject, Vec<SubjectError>> {
        // Quotes, which a template has in a configuration, are part of no declaration.
        let words: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
        let mut words = match words.as_slice() {
            ["generator", rest @ ..] => rest.to_vec(),
            words => {
                let counter = words.first().and_then(|word| COUNTER_KINDS.into_iter().find(|kind| kind == word));
                let kind = || words.first().and_then(|word| Kind::find(word)).map_or("layout", |kind| kind.word);
                [&[counter.unwrap_or_else(kind)], words].concat()
            }
        };
        if let Some(counter) = CounterDeclaration::parse(&words, zone) {
            let wrong = |errors: Vec<_>| errors.into_iter().map(SubjectError::Counter).collect::<Vec<_>>();
            return counter.map(|counter| Subject::Counted(Box::new(counter))).map_err(wrong);
        }
        let is_missing = |error: &DeclarationError| matches!(error, DeclarationError::Missing { .. });
        let declared = match Declaration::parse(&words, epoch) {
            Err(errors) if errors.iter().all(is_missing) => {
                let missing = errors.iter().filter_map(|error| match error {
                    DeclarationError::Missing { name, .. } => Some([name.as_str(), "0"]),
                    _ => None,
                });
                words.extend(missing.flatten());
                Declaration::parse(&words, epoch)
            }
            declared => declared,
        };
        match declared {
            Ok(declaration) => Ok(Subject::Declared(Box::new(declaration))),
            Err(errors) => {
                let errors = errors.into_iter().filter(|error| !is_missing(error));
                Err(errors.map(SubjectError::Declaration).collect())
            }
        }
    }

    /// Returns the number of an ID; `None` if the text is no ID of this subject.
    pub fn read(&self, id: &str) -> Option<Number> {
        match self {
            Subject::Unnamed(_) => read_integer(id).map(|id| id.get().into()),
            Subject::Declared(declaration) => declaration.read(id),
            Subject::Counted(counter) => counter.read(id).map(|read| number_of(counter, read)),
        }
    }

    /// Returns an ID as it is written.
    pub fn text(&self, number: Number) -> String {
        match self {
            Subject::Unnamed(_) => number.to_string(),
            Subject::Declared(declaration) => text_of(declaration, number),
            Subject::Counted(counter) => text_of_counted(counter, reading_of(number)),
        }
    }

    /// Returns the time that an ID holds, Unix ms.
    pub fn unix_ms(&self, number: Number, now_unix_ms: i64) -> Option<i64> {
        match self {
            Subject::Unnamed(layout) => {
                let id = u64::try_from(number).ok().and_then(Id::new)?;
                Some(layout.split(id).tick.unix_ms(layout.epoch()))
            }
            Subject::Declared(declaration) => {
                let layout = declaration.layout();
                layout.tick_of(number).map(|tick| layout.unix_ms(tick))
            }
            Subject::Counted(counter) => shown_unix_ms(counter, reading_of(number), now_unix_ms),
        }
    }

    /// Whether IDs are integers on the wire.
    pub fn is_integer(&self) -> bool {
        match self {
            Subject::Unnamed(_) => true,
            Subject::Declared(declaration) => declaration.is_integer(),
            Subject::Counted(counter) => counter.is_integer(),
        }
    }

    /// Returns the generator's name in requests and reports; `None` for the unnamed generator.
    pub fn name(&self) -> Option<&str> {
        match self {
            Subject::Unnamed(_) => None,
            Subject::Declared(declaration) => Some(declaration.name()),
            Subject::Counted(counter) => Some(counter.name()),
        }
    }

    /// Returns the declaration of a generator by the clock. For the unnamed generator it is an equal named one's.
    pub fn declaration(&self) -> Option<Declaration> {
        let layout = match self {
            Subject::Unnamed(layout) => layout,
            Subject::Declared(declaration) => return Some(Declaration::clone(declaration)),
            Subject::Counted(_) => return None,
        };
        let widths =
            [("server-id", layout.server_bits()), ("counter", layout.shard_bits()), ("random", layout.random_bits())];
        let fields = widths.iter().filter(|(_, bits)| *bits > 0).map(|(name, bits)| format!("{name}:{bits}"));
        let epoch = layout.epoch().unix_ms().to_string();
        let mut words: Vec<String> = ["unnamed", "layout", "time:42@1ms"].map(str::to_owned).to_vec();
        words.extend(fields);
        words.extend(["epoch".to_owned(), epoch]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Declaration::parse(&words, no_dates).ok()
    }

    /// Returns the fields of which an ID is composed, by the names that `getid decode` shows; `None` for IDs that are
    /// counted.
    pub fn fields(&self) -> Option<FieldLayout> {
        match self {
            Subject::Unnamed(layout) => Some(FieldLayout::of_unnamed(*layout)),
            Subject::Declared(declaration) => Some(declaration.layout().clone()),
            Subject::Counted(_) => None,
        }
    }

    /// Returns the expected form of an ID, to follow `must be `.
    pub fn expected(&self) -> String {
        let (declaration, format) = match self {
            Subject::Unnamed(_) => return format!("0 to {}", i64::MAX),
            Subject::Declared(declaration) => (declaration, declaration.format()),
            Subject::Counted(counter) => match counter.kind() {
                CounterKind::Sequence(None) => return format!("0 to {}", i64::MAX),
                CounterKind::Sequence(Some(format)) => return expected_of(format),
                CounterKind::Serial(serial) => return format!("a text of the template {}", serial.template.text()),
            },
        };
        if let Some(format) = format {
            return expected_of(format);
        }
        match declaration.kind().shape {
            Shape::Number => format!("0 to {}", Number::MAX >> (Number::BITS - declaration.layout().bits())),
            Shape::Hibernate if declaration.prefix().is_empty() => {
                "a UUID of version 1 whose last four digits are 7fff or less".to_owned()
            }
            Shape::ObjectIdDecimal if declaration.prefix().is_empty() => {
                format!("29 digits, at most {}", u128::MAX >> 32)
            }
            _ => declaration.description(),
        }
    }

    /// Returns the length of the longest ID, bytes.
    pub fn id_bytes_max(&self) -> usize {
        match self {
            Subject::Unnamed(_) => "9223372036854775807".len(),
            Subject::Declared(declaration) => declaration.id_bytes_max(),
            Subject::Counted(counter) => counter.id_bytes_max(),
        }
    }

    /// Returns the text before or between an ID's digits; for a template, its text.
    pub fn marks(&self) -> &str {
        let format = match self {
            Subject::Unnamed(_) => None,
            Subject::Declared(declaration) => return declaration.prefix(),
            Subject::Counted(counter) => match counter.kind() {
                CounterKind::Sequence(format) => format.as_ref(),
                CounterKind::Serial(serial) => return serial.template.text(),
            },
        };
        format.map_or("", |format| &format.prefix)
    }

    /// Returns a clause for sentences: ` of tweets`, and an empty one for the unnamed generator.
    pub fn of(&self) -> String {
        self.name().map_or_else(String::new, |name| format!(" of {name}"))
    }
}

fn expected_of(format: &getid_core::Format) -> String {
    let behind = if format.prefix.is_empty() { String::new() } else { format!(" behind '{}'", format.prefix) };
    let Notation::Radix(radix) = &format.notation else {
        return format!("a text of '{format}' that its generator writes");
    };
    let or_more = if format.grows { " or more" } else { "" };
    format!("{}{or_more} digits of {}{behind}", format.pad, radix.word())
}

/// Bits of the counted value, below the time that a serial number shows.
const VALUE_BITS: u32 = 64;

/// Bits of the time that a serial number shows.
const STAMP_BITS: u32 = 40;

/// Bits of the hash of the key that a serial number shows: the rest of a number.
const KEY_BITS: u32 = 56;

/// Returns the number of a counted ID: its value, above it the time that a serial number shows, and above that a hash
/// of the key that it shows.
fn number_of(counter: &CounterDeclaration, read: CounterReading) -> Number {
    let CounterReading { value, stamp: CivilTime { year, month, day, hour }, series } = read;
    if let CounterKind::Sequence(_) = counter.kind() {
        return value.unsigned_abs().into();
    }
    let shown = [month, day, hour].into_iter().fold(Number::from(year), |above, part| above << 8 | Number::from(part));
    let key = if series.is_empty() { 0 } else { hash_of(series.as_str().as_bytes()) >> (u64::BITS - KEY_BITS) };
    (Number::from(key) << STAMP_BITS | shown) << VALUE_BITS | Number::from(value.unsigned_abs())
}

/// Returns the reading of a number made by `number_of`, without the key.
pub fn reading_of(number: Number) -> CounterReading {
    let part = |shift: u32| (number >> (VALUE_BITS + shift)).as_u8();
    let year = (number >> (VALUE_BITS + 24)).as_u16();
    let value = i64::try_from(number.as_u64()).unwrap_or(i64::MAX);
    let stamp = CivilTime { year, month: part(16), day: part(8), hour: part(0) };
    CounterReading { value, stamp, series: Series::NONE }
}

/// Returns the text of a reading as its generator writes it, or only its value if that has too many digits.
pub(crate) fn text_of_counted(counter: &CounterDeclaration, read: CounterReading) -> String {
    let mut text = Vec::new();
    let written = match counter.kind() {
        CounterKind::Sequence(None) => false,
        CounterKind::Sequence(Some(format)) => format.write(read.value.unsigned_abs().into(), &mut text),
        // A number has no room for a key.
        CounterKind::Serial(serial) if read.series.is_empty() && serial.template.has_key() => {
            serial.write(read.stamp, "?", read.value, &mut text)
        }
        CounterKind::Serial(serial) => serial.write(read.stamp, read.series.as_str(), read.value, &mut text),
    };
    String::from_utf8(text).ok().filter(|_| written).unwrap_or_else(|| read.value.to_string())
}

/// Parses an ID of the unnamed generator: digits only, 63 bits.
pub(crate) fn read_integer(word: &str) -> Option<Id> {
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    if digits { word.parse().ok().and_then(Id::new) } else { None }
}
