//! Declarations of generators over sequences: `short sequence format base62 pad 7`, and `invoice serial
//! "INV{yyyyMMdd}-{n:6}" zone Asia/Shanghai`.
//!
//! Their numbers come from the sequence store, so the record of the clock's generators does not contain them.

use alloc::borrow::ToOwned as _;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

use super::check_digit::CheckDigit;
use super::date_field::FiscalYears;
use super::reset::{CivilTime, FiscalStart, Reset};
use super::template::{TEMPLATE_BYTES_MAX, Template, TemplateError};
use crate::alphabet::{Alphabet, AlphabetError};
use crate::declaration::{
    RESERVED_NAME, SEAL, SEAL_OPTIONS, SealDeclaration, SealMistake, SealWords, is_name, is_reserved_name,
};
use crate::format::{Format, Notation, PAD_MAX, PREFIX_BYTES_MAX, is_plain};
use crate::kind::Shape;
use crate::radix::Radix;
use crate::sequence::{CACHE_DEFAULT, RESERVED_MAX, Series, Spec, VALUE_MAX};
use crate::sqids::{SqidsCode, SqidsError};

/// Words of the kinds of such generators.
pub const COUNTER_KINDS: [&str; 2] = ["sequence", "serial"];

/// Returns the description of a kind of [`COUNTER_KINDS`], in one line.
pub fn counter_doc(word: &str) -> &'static str {
    match word {
        "serial" => "a template over a counter that begins again with each day, week, month, quarter or year",
        _ => "the values of the sequence of that name, as integers or in a format",
    }
}

/// Option with the first day of the fiscal year.
const FISCAL_START: &str = "fiscal-start";

/// Option with the calendar year after which a fiscal year is named.
const FISCAL_NAME: &str = "fiscal-name";

/// Option of a serial whose numbers have no gaps: a word without a value.
pub const GAPLESS: &str = "gapless";

/// Width of a sequence's values, bits.
const VALUE_BITS: u32 = 63;

/// Checks that a time zone of this name exists.
pub type ZoneCheck = fn(&str) -> Result<(), UnknownZone>;

/// Error of a [`ZoneCheck`]: no time zone has the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownZone {
    /// The name, fit to be shown.
    pub name: String,
    /// Name of the zone that was probably meant.
    pub similar: Option<String>,
}

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        write!(f, "must be the name of a time zone, such as Asia/Shanghai or UTC, and there is none called '{name}'")?;
        self.similar.as_ref().map_or(Ok(()), |zone| write!(f, "; did you mean {zone}?"))
    }
}

impl core::error::Error for UnknownZone {}

/// Declaration of a generator whose numbers come from a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterDeclaration {
    name: String,
    kind: CounterKind,
    seal: Option<SealDeclaration>,
}

/// Kind of a generator over a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// The sequence of this name, as an integer, or in a format.
    Sequence(Option<Format>),
    /// A serial number from a template.
    Serial(Serial),
}

/// Declaration of a serial number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serial {
    /// Template of its texts.
    pub template: Template,
    /// How often the counter begins again.
    pub reset: Reset,
    /// Time zone of its periods; `None`: it needs none.
    pub zone: Option<String>,
    /// Whether a counter of more digits is written in full; otherwise it is refused.
    pub grows: bool,
    /// Smallest reservation, values.
    pub cache: u32,
    /// Rules of its keys, if it has a series for each key.
    pub series: Option<SeriesRules>,
    /// Use of released numbers, if a ledger keeps the numbers without gaps; `None`: there is no ledger.
    pub gapless: Option<ReleasedNumbers>,
}

/// Use of numbers that their requests have released, in a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleasedNumbers {
    /// The lowest released number of a period goes to the next request.
    Reused,
    /// A released number becomes void.
    Void,
}

/// Rules of a serial's keys, each of which has a series of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesRules {
    /// Whether small letters differ from capitals; otherwise they become capitals.
    pub is_exact: bool,
    /// Whether a key must be created before its first number; otherwise the first request creates it.
    pub is_declared: bool,
    /// Most keys.
    pub keys_max: u32,
}

impl SeriesRules {
    /// Parses a key, as a client writes it; `None` if it is not valid.
    pub fn key(&self, text: &str) -> Option<Series> {
        Series::parse(text, self.is_exact)
    }
}

/// Default of [`SeriesRules::keys_max`].
const KEYS_MAX_DEFAULT: u32 = 100_000;

/// Largest [`SeriesRules::keys_max`].
const KEYS_MAX: u32 = 10_000_000;

/// Options about the keys of a serial.
const KEY_OPTIONS: [&str; 3] = ["key-case", "keys", "keys-max"];

impl Serial {
    /// Returns the first options of a period's row.
    pub fn spec(&self) -> Spec {
        let max = 10_i64.checked_pow(self.template.digits()).map_or(VALUE_MAX, |bound| (bound - 1).min(VALUE_MAX));
        Spec { max: if self.grows { VALUE_MAX } else { max }, cache: self.cache, ..Spec::default() }
    }

    /// Returns the options of its fiscal years with their values, if it has any.
    pub fn fiscal_options(&self) -> impl Iterator<Item = (&'static str, String)> {
        let fiscal = self.template.fiscal_years();
        let is_fiscal = self.template.has_fiscal_year() || matches!(self.reset, Reset::FiscalYear(_));
        let start = is_fiscal.then(|| (FISCAL_START, fiscal.start.to_string()));
        let name = fiscal.are_named_by_end.then(|| (FISCAL_NAME, "end".to_owned()));
        start.into_iter().chain(name)
    }

    /// Appends the text of a value of the series with this key, which is empty if it has no series. Returns false if
    /// the value has too many digits.
    #[must_use]
    pub fn write(&self, stamp: CivilTime, key: &str, value: i64, out: &mut Vec<u8>) -> bool {
        self.template.write(stamp, key, value, self.grows, out)
    }
}

/// Parts of an ID of such a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterReading {
    /// Value of the counter.
    pub value: i64,
    /// Time in the text, as [`Template::read`] returns it; [`CivilTime::FIRST`] of a sequence.
    pub stamp: CivilTime,
    /// Key of the series in the text; none if the template shows none.
    pub series: Series,
}

/// Mistake in a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text of each describes it")]
pub enum CounterError {
    Reserved { name: String },
    NoTemplate,
    Template { text: String, error: TemplateError },
    NoValue { option: String },
    Twice { option: String },
    Option { kind: &'static str, name: String },
    NoZone,
    Zone { text: String, error: UnknownZone },
    Reset { text: String },
    FiscalStart { text: String },
    FiscalName { text: String },
    NoFiscalStart,
    UnreadFiscal { option: &'static str },
    Cache { text: String },
    Pad { text: String },
    Format { text: String },
    Prefix { text: String },
    Overflow { text: String },
    UniquePer { text: String },
    KeyCase { text: String },
    Keys { text: String },
    KeysMax { text: String },
    NoKey { option: &'static str },
    GaplessKind,
    GaplessCache { text: String },
    GaplessKey,
    Released { text: String },
    ReleasedAlone,
    Alphabet { error: AlphabetError },
    UnreadAlphabet,
    Sqids(SqidsError),
    Seal(SealMistake),
}

impl CounterError {
    /// Returns the option with the mistake; `None`: the whole declaration.
    pub fn option(&self) -> Option<&str> {
        Some(match self {
            CounterError::Reserved { .. } | CounterError::NoTemplate => return None,
            CounterError::Template { .. } => "template",
            CounterError::NoValue { option } | CounterError::Twice { option } => option,
            CounterError::UnreadFiscal { option } | CounterError::NoKey { option } => option,
            CounterError::Option { name, .. } => name,
            CounterError::NoZone | CounterError::Zone { .. } => "zone",
            CounterError::Reset { .. } => "reset",
            CounterError::FiscalStart { .. } | CounterError::NoFiscalStart => FISCAL_START,
            CounterError::FiscalName { .. } => FISCAL_NAME,
            CounterError::Cache { .. } | CounterError::GaplessCache { .. } => "cache",
            CounterError::Pad { .. } => "pad",
            CounterError::Format { .. } => "format",
            CounterError::Prefix { .. } => "prefix",
            CounterError::Overflow { .. } => "overflow",
            CounterError::UniquePer { .. } => "unique-per",
            CounterError::KeyCase { .. } => "key-case",
            CounterError::Keys { .. } => "keys",
            CounterError::KeysMax { .. } => "keys-max",
            CounterError::GaplessKind | CounterError::GaplessKey => GAPLESS,
            CounterError::Released { .. } | CounterError::ReleasedAlone => "released",
            CounterError::Alphabet { .. } | CounterError::UnreadAlphabet => "alphabet",
            CounterError::Sqids(error) => error.option(),
            CounterError::Seal(mistake) => mistake.option(),
        })
    }
}

impl CounterError {
    /// Writes the sentence about an option of keys, or of numbers without gaps.
    fn fmt_rule(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CounterError::UniquePer { text } => write!(f, "unique-per is '{text}', must be key"),
            CounterError::KeyCase { text } => write!(f, "key-case is '{text}', must be upper or exact"),
            CounterError::Keys { text } => write!(f, "keys is '{text}', must be on-first-use or declared"),
            CounterError::KeysMax { text } => write!(f, "keys-max is '{text}', must be 1 to {KEYS_MAX}"),
            CounterError::NoKey { option } => write!(
                f,
                "{option} is for a serial with a series for each key, and this one has none: show the key in its template, \
                 as in 'INV-{{key}}-{{n:6}}', or add 'unique-per key'"
            ),
            CounterError::GaplessKind => f.write_str(
                "gapless is an option of a serial, and a sequence has no ledger: 'serial \"{n:6}\" gapless' in the place \
                 of the kind declares numbers without gaps",
            ),
            CounterError::GaplessCache { text } => write!(
                f,
                "cache is '{text}', must be 0 or omitted with gapless: each number is in the store before its reply"
            ),
            CounterError::GaplessKey => f.write_str(
                "a ledger finds a number by its text, and with 'unique-per key' two keys have the same: show the key in the \
                 template, as in 'R-{key}-{n:6}'",
            ),
            CounterError::Released { text } => {
                write!(f, "released is '{text}', must be void, or omitted for numbers that other requests get")
            }
            CounterError::ReleasedAlone => {
                f.write_str("released void is for a serial with gapless: add gapless, or remove released")
            }
            // The other mistakes have their sentences in `fmt`.
            _ => Ok(()),
        }
    }
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CounterError::Reserved { name } => write!(f, "the generator's name '{name}' {RESERVED_NAME}"),
            CounterError::NoTemplate => {
                f.write_str("a serial has its template behind the kind, such as 'INV{yyyyMMdd}-{n:6}'")
            }
            CounterError::Template { text, error } => write!(f, "template '{text}': {error}"),
            CounterError::NoValue { option } => write!(f, "{option} has no value"),
            CounterError::Twice { option } => write!(f, "{option} is given twice"),
            CounterError::Option { kind: "serial", name } => {
                write!(
                    f,
                    "'{name}' is not an option of a serial: it has zone, reset, fiscal-start, fiscal-name, overflow, cache, \
                     gapless, released, unique-per, key-case, keys and keys-max"
                )
            }
            CounterError::Option { name, .. } => {
                write!(
                    f,
                    "'{name}' is not an option of a sequence here: it has format, alphabet, pad, prefix, overflow, and seal \
                     with key-file, alphabet and answer"
                )
            }
            CounterError::NoZone => {
                f.write_str("a serial that shows a date has a zone, such as 'zone Asia/Shanghai' or 'zone UTC'")
            }
            CounterError::Zone { text, error } => write!(f, "zone is '{text}', {error}"),
            CounterError::Reset { text } => {
                write!(f, "reset is '{text}', must be ")?;
                write_words(f, &Reset::WORDS)
            }
            CounterError::FiscalStart { .. }
            | CounterError::FiscalName { .. }
            | CounterError::NoFiscalStart
            | CounterError::UnreadFiscal { .. } => self.write_fiscal(f),
            CounterError::Cache { text } => write!(f, "cache is '{text}', must be 0 to {RESERVED_MAX}"),
            CounterError::Pad { text } => write!(f, "pad is '{text}', must be 1 to {PAD_MAX}"),
            CounterError::Format { text } => {
                write!(f, "format is '{text}', must be ")?;
                write_words(f, &Notation::WORDS)
            }
            CounterError::Prefix { text } => write!(
                f,
                "prefix is '{text}', must be at most {PREFIX_BYTES_MAX} bytes of printable ASCII without spaces, quotes and \
                 backslashes"
            ),
            CounterError::Overflow { text } => write!(f, "overflow is '{text}', must be error or grow"),
            CounterError::Alphabet { error } => write!(f, "alphabet: {error}"),
            CounterError::UnreadAlphabet => {
                f.write_str("alphabet is for seal and format sqids, and the sequence has neither")
            }
            CounterError::Sqids(error) => error.fmt(f),
            CounterError::Seal(mistake) => mistake.fmt(f),
            other => other.fmt_rule(f),
        }
    }
}

impl CounterError {
    /// Writes a mistake in the options of fiscal years.
    fn write_fiscal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CounterError::FiscalStart { text } => {
                write!(f, "fiscal-start is '{text}', must be a day of each year as MM-dd, such as 04-06, and not 02-29")
            }
            CounterError::FiscalName { text } => write!(
                f,
                "fiscal-name is '{text}', must be start or end: the calendar year in which a fiscal year starts or ends"
            ),
            CounterError::NoFiscalStart => f.write_str(
                "{fiscal-year} and 'reset fiscal-year' need the first day of it, such as 'fiscal-start 04-06'",
            ),
            CounterError::UnreadFiscal { option: FISCAL_NAME } => {
                f.write_str("fiscal-name is for {fiscal-year}, which the template does not show")
            }
            CounterError::UnreadFiscal { option } => {
                write!(f, "{option} is for {{fiscal-year}} and 'reset fiscal-year', and the serial has neither")
            }
            _ => Ok(()),
        }
    }
}

/// Writes several words as a choice.
fn write_words(f: &mut fmt::Formatter<'_>, words: &[&str]) -> fmt::Result {
    words.iter().enumerate().try_for_each(|(at, word)| {
        let between = ["", ", ", " or "][usize::from(at > 0) + usize::from(at + 1 == words.len())];
        write!(f, "{between}{word}")
    })
}

impl CounterDeclaration {
    /// Parses the words behind `generator`, the name first and one of [`COUNTER_KINDS`] second.
    ///
    /// Returns `None` if the kind is another one, or the name is not valid;
    /// [`Declaration::parse`](crate::Declaration::parse) reports the mistake.
    ///
    /// # Errors
    ///
    /// Fails with all mistakes in the words.
    pub fn parse(words: &[&str], zone: ZoneCheck) -> Option<Result<CounterDeclaration, Vec<CounterError>>> {
        let (&name, rest) = words.split_first()?;
        let (&kind, rest) = rest.split_first()?;
        let kind = COUNTER_KINDS.into_iter().find(|known| *known == kind).filter(|_| is_name(name))?;
        let mut errors = Vec::new();
        if is_reserved_name(name) {
            errors.push(CounterError::Reserved { name: name.to_owned() });
        }
        let (template, rest) = match (kind, rest.split_first()) {
            ("serial", None) => {
                errors.push(CounterError::NoTemplate);
                return Some(Err(errors));
            }
            ("serial", Some((&template, rest))) => (Some(template), rest),
            _ => (None, rest),
        };
        let mut options = SerialOptions::read(kind, rest, &mut errors);
        let seal = options.seal(&mut errors);
        let kind = match template {
            Some(text) => options.serial(text, zone, &mut errors).map(CounterKind::Serial),
            None => Some(CounterKind::Sequence(options.format(&mut errors))),
        };
        let declared = kind.filter(|_| errors.is_empty());
        Some(declared.map(|kind| CounterDeclaration { name: name.to_owned(), kind, seal }).ok_or(errors))
    }

    /// Returns its name, which is also that of its sequence.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its kind, with format or template.
    pub fn kind(&self) -> &CounterKind {
        &self.kind
    }

    /// Returns how its IDs are sealed, if they are: only those of a sequence without a format can be.
    pub fn seal(&self) -> Option<&SealDeclaration> {
        self.seal.as_ref()
    }

    /// Returns the declaration without its seal, as records have it.
    #[must_use]
    pub fn without_seal(self) -> CounterDeclaration {
        CounterDeclaration { seal: None, ..self }
    }

    /// Returns the word of its kind.
    pub fn word(&self) -> &'static str {
        match self.kind {
            CounterKind::Sequence(_) => "sequence",
            CounterKind::Serial(_) => "serial",
        }
    }

    /// Returns true if its IDs are integers on the wire.
    pub fn is_integer(&self) -> bool {
        matches!(self.kind, CounterKind::Sequence(None))
    }

    /// Parses an ID; `None` for texts that this generator does not write.
    pub fn read(&self, id: &str) -> Option<CounterReading> {
        let number = match &self.kind {
            CounterKind::Sequence(None) => Shape::Number.read(id)?,
            CounterKind::Sequence(Some(format)) => format.read(id)?,
            CounterKind::Serial(serial) => {
                let (stamp, value, key) = serial.template.read(id, serial.grows)?;
                let rules = serial.series.as_ref().filter(|_| !key.is_empty());
                let series = rules.map_or(Some(Series::NONE), |rules| rules.key(key))?;
                return Some(CounterReading { value, stamp, series }).filter(|_| series.as_str() == key);
            }
        };
        Some(CounterReading { value: i64::try_from(number).ok()?, stamp: CivilTime::FIRST, series: Series::NONE })
    }

    /// Returns the check digits of a text that is wrong in them only; `None` for other texts, and for IDs without check
    /// digits.
    pub fn wrong_check(&self, id: &str) -> Option<CheckDigit> {
        match &self.kind {
            CounterKind::Sequence(_) => None,
            CounterKind::Serial(serial) => serial.template.wrong_check(id, serial.grows),
        }
    }

    /// Returns the longest text of an ID, bytes.
    pub fn id_bytes_max(&self) -> usize {
        match &self.kind {
            CounterKind::Sequence(None) => 19,
            CounterKind::Sequence(Some(format)) => format.bytes_max(VALUE_BITS),
            CounterKind::Serial(_) => TEMPLATE_BYTES_MAX,
        }
    }

    /// Returns the rules of its keys, if it has a series for each key.
    pub fn series(&self) -> Option<&SeriesRules> {
        match &self.kind {
            CounterKind::Sequence(_) => None,
            CounterKind::Serial(serial) => serial.series.as_ref(),
        }
    }

    /// Returns the part of the declaration that all servers with one store share: without its name, and without
    /// `cache`, `keys-max` and the seal, which each server may set for itself.
    pub fn shared_text(&self) -> String {
        let mut shared = self.clone().without_seal();
        if let CounterKind::Serial(serial) = &mut shared.kind {
            serial.cache = CACHE_DEFAULT;
            if let Some(series) = &mut serial.series {
                series.keys_max = KEYS_MAX_DEFAULT;
            }
        }
        shared.words().split_off(1).join(" ")
    }

    /// Returns how often its counter begins again.
    pub fn reset(&self) -> Reset {
        match &self.kind {
            CounterKind::Sequence(_) => Reset::Never,
            CounterKind::Serial(serial) => serial.reset,
        }
    }

    /// Returns the use of released numbers, if a ledger keeps its numbers without gaps; `None` without a ledger.
    pub fn gapless(&self) -> Option<ReleasedNumbers> {
        match &self.kind {
            CounterKind::Sequence(_) => None,
            CounterKind::Serial(serial) => serial.gapless,
        }
    }

    /// Returns the words that declare it.
    pub fn words(&self) -> Vec<String> {
        let mut words = [self.name.clone(), self.word().to_owned()].to_vec();
        let mut add = |option: &str, value: &str| words.extend([option.to_owned(), value.to_owned()]);
        match &self.kind {
            CounterKind::Sequence(None) => {}
            CounterKind::Sequence(Some(format)) => {
                format.options().iter().for_each(|(option, value)| add(option, value));
            }
            CounterKind::Serial(serial) => {
                let Serial { template, reset, zone, grows, cache, series, gapless } = serial;
                words.push(template.text().to_owned());
                let mut add = |option: &str, value: &str| words.extend([option.to_owned(), value.to_owned()]);
                if let Some(zone) = zone {
                    add("zone", zone);
                }
                if Ok(*reset) != template.default_reset() {
                    add("reset", reset.word());
                }
                serial.fiscal_options().for_each(|(option, value)| add(option, &value));
                if *grows {
                    add("overflow", "grow");
                }
                if gapless.is_none() && *cache != CACHE_DEFAULT {
                    add("cache", &cache.to_string());
                }
                if series.is_some() && !template.has_key() {
                    add("unique-per", "key");
                }
                if series.is_some_and(|series| series.is_exact) {
                    add("key-case", "exact");
                }
                if series.is_some_and(|series| series.is_declared) {
                    add("keys", "declared");
                }
                if let Some(series) = series.filter(|series| series.keys_max != KEYS_MAX_DEFAULT) {
                    add("keys-max", &series.keys_max.to_string());
                }
                if let Some(released) = gapless {
                    words.push(GAPLESS.to_owned());
                    if *released == ReleasedNumbers::Void {
                        words.extend(["released".to_owned(), "void".to_owned()]);
                    }
                }
            }
        }
        if let Some(seal) = &self.seal {
            words.extend(seal.to_string().split(' ').map(str::to_owned));
        }
        words
    }
}

/// The generators over sequences of a server, by name. A change creates a new value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedCounters {
    counters: Vec<Arc<CounterDeclaration>>,
    has_series: bool,
}

impl NamedCounters {
    /// Creates the collection; of several counters with one name it keeps the first.
    pub fn new(counters: impl IntoIterator<Item = Arc<CounterDeclaration>>) -> NamedCounters {
        let mut counters: Vec<_> = counters.into_iter().collect();
        counters.sort_by(|one, other| one.name.cmp(&other.name));
        counters.dedup_by(|one, other| one.name == other.name);
        NamedCounters { has_series: counters.iter().any(|counter| counter.series().is_some()), counters }
    }

    /// Returns true if there are no counters.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// Returns true if one of them has a series for each key.
    #[inline]
    pub fn has_series(&self) -> bool {
        self.has_series
    }

    /// Returns the place of the counter of this name, for [`NamedCounters::get`] of the same value.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.counters.binary_search_by(|known| known.name.as_bytes().cmp(name)).ok()
    }

    /// Returns the counter at this place.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&Arc<CounterDeclaration>> {
        self.counters.get(place)
    }

    /// Returns all counters, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<CounterDeclaration>> {
        self.counters.iter()
    }
}

/// Options while they are parsed.
struct SerialOptions<'a>(Vec<(&'a str, &'a str)>);

impl<'a> SerialOptions<'a> {
    fn read(kind: &'static str, words: &[&'a str], errors: &mut Vec<CounterError>) -> SerialOptions<'a> {
        let known: &[&str] = if kind == "serial" {
            &[
                "zone",
                "reset",
                FISCAL_START,
                FISCAL_NAME,
                "overflow",
                "cache",
                GAPLESS,
                "released",
                "unique-per",
                KEY_OPTIONS[0],
                KEY_OPTIONS[1],
                KEY_OPTIONS[2],
            ]
        } else {
            &["format", "alphabet", "pad", "prefix", "overflow", SEAL, SEAL_OPTIONS[0], SEAL_OPTIONS[1]]
        };
        let mut options: Vec<(&str, &str)> = Vec::new();
        let mut words = words.iter().copied().peekable();
        while let Some(option) = words.next() {
            let is_known = known.contains(&option);
            // What follows an unknown word is its value, unless it is an option.
            let has_value = ![SEAL, GAPLESS].contains(&option)
                && (is_known || words.peek().is_some_and(|next| !known.contains(next)));
            let value = if has_value { words.next() } else { Some("") };
            if !is_known {
                if option == GAPLESS {
                    errors.push(CounterError::GaplessKind);
                    continue;
                }
                errors.push(CounterError::Option { kind, name: option.to_owned() });
                continue;
            }
            match value {
                None => errors.push(CounterError::NoValue { option: option.to_owned() }),
                Some(_) if options.iter().any(|(name, _)| *name == option) => {
                    errors.push(CounterError::Twice { option: option.to_owned() });
                }
                Some(value) => options.push((option, value)),
            }
        }
        SerialOptions(options)
    }

    fn get(&self, option: &str) -> Option<&'a str> {
        self.0.iter().find(|(name, _)| *name == option).map(|(_, value)| *value)
    }

    fn grows(&self, errors: &mut Vec<CounterError>) -> bool {
        match self.get("overflow") {
            None | Some("error") => false,
            Some("grow") => true,
            Some(text) => {
                errors.push(CounterError::Overflow { text: text.to_owned() });
                false
            }
        }
    }

    /// Returns the number of an option; `None` without the option, or if its text is not such a number.
    fn number(
        &self,
        option: &str,
        range: RangeInclusive<u32>,
        wrong: fn(String) -> CounterError,
        errors: &mut Vec<CounterError>,
    ) -> Option<u32> {
        let text = self.get(option)?;
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| is_number && range.contains(number));
        if number.is_none() {
            errors.push(wrong(text.to_owned()));
        }
        number
    }

    fn serial(&mut self, text: &str, zone: ZoneCheck, errors: &mut Vec<CounterError>) -> Option<Serial> {
        let grows = self.grows(errors);
        let wrong = |error| CounterError::Template { text: text.to_owned(), error };
        let template = Template::parse(text).map_err(|error| errors.push(wrong(error))).ok()?;
        let mistakes = errors.len();
        let (template, reset) = self.periods(template, errors);
        // The proof needs the interval and the fiscal year that are declared.
        let reset = match reset {
            Some(reset) if errors.len() == mistakes => template.check_reset(reset).map(|()| reset),
            None if errors.len() == mistakes => template.default_reset(),
            _ => Ok(Reset::Never),
        };
        let reset = reset.map_err(|error| errors.push(wrong(error))).unwrap_or(Reset::Never);
        errors.extend(template.check_overflow(grows).err().map(wrong));
        let zone_name = self.get("zone");
        match zone_name.map(zone) {
            Some(Err(error)) => {
                let text = zone_name.unwrap_or_default().to_owned();
                errors.push(CounterError::Zone { text, error });
            }
            None if template.has_date() => errors.push(CounterError::NoZone),
            _ => {}
        }
        let gapless = self.gapless(errors);
        let cache = self.number("cache", 0..=RESERVED_MAX, |text| CounterError::Cache { text }, errors);
        let cache = if gapless.is_some() { 0 } else { cache.unwrap_or(CACHE_DEFAULT) };
        let zone = zone_name.map(str::to_owned);
        let series = self.series(&template, errors);
        if gapless.is_some() && series.is_some() && !template.has_key() {
            errors.push(CounterError::GaplessKey);
        }
        Some(Serial { template, reset, zone, grows, cache, series, gapless })
    }

    /// Returns the rules of the keys; `None` if the serial has no series.
    fn series(&self, template: &Template, errors: &mut Vec<CounterError>) -> Option<SeriesRules> {
        let unique_per = self.get("unique-per");
        errors.extend(
            unique_per.filter(|word| *word != "key").map(|word| CounterError::UniquePer { text: word.to_owned() }),
        );
        if unique_per.is_none() && !template.has_key() {
            let lone = KEY_OPTIONS.into_iter().find(|option| self.get(option).is_some());
            errors.extend(lone.map(|option| CounterError::NoKey { option }));
            return None;
        }
        let mut is = |option: &str, [no, yes]: [&str; 2], wrong: fn(String) -> CounterError| {
            let word = self.get(option).unwrap_or(no);
            if word != no && word != yes {
                errors.push(wrong(word.to_owned()));
            }
            word == yes
        };
        let is_exact = is(KEY_OPTIONS[0], ["upper", "exact"], |text| CounterError::KeyCase { text });
        let is_declared = is(KEY_OPTIONS[1], ["on-first-use", "declared"], |text| CounterError::Keys { text });
        let keys_max = self.number(KEY_OPTIONS[2], 1..=KEYS_MAX, |text| CounterError::KeysMax { text }, errors);
        Some(SeriesRules { is_exact, is_declared, keys_max: keys_max.unwrap_or(KEYS_MAX_DEFAULT) })
    }

    /// Returns the template with its fiscal years, and the declared interval.
    fn periods(&self, template: Template, errors: &mut Vec<CounterError>) -> (Template, Option<Reset>) {
        let start = self.get(FISCAL_START).map(|text| {
            let wrong = || CounterError::FiscalStart { text: text.to_owned() };
            FiscalStart::parse(text).ok_or_else(wrong)
        });
        let start = start.transpose().unwrap_or_else(|error| {
            errors.push(error);
            Some(FiscalStart::JANUARY)
        });
        let word = self.get("reset");
        let reset = word.and_then(|word| {
            let all = Reset::all(start.unwrap_or(FiscalStart::JANUARY));
            let reset = all.into_iter().find(|reset| reset.word() == word);
            if reset.is_none() {
                errors.push(CounterError::Reset { text: word.to_owned() });
            }
            reset
        });
        let is_named_by_end = match self.get(FISCAL_NAME) {
            None | Some("start") => false,
            Some("end") => true,
            Some(text) => {
                errors.push(CounterError::FiscalName { text: text.to_owned() });
                false
            }
        };
        let is_shown = template.has_fiscal_year();
        let is_read = is_shown || matches!(reset, Some(Reset::FiscalYear(_)));
        match start {
            None if is_read => errors.push(CounterError::NoFiscalStart),
            Some(_) if !is_read => errors.push(CounterError::UnreadFiscal { option: FISCAL_START }),
            _ if !is_shown && self.get(FISCAL_NAME).is_some() => {
                errors.push(CounterError::UnreadFiscal { option: FISCAL_NAME });
            }
            _ => {}
        }
        let start = start.unwrap_or(FiscalStart::JANUARY);
        // A calendar year starts and ends in the same year.
        let are_named_by_end = is_named_by_end && start != FiscalStart::JANUARY;
        (template.with_fiscal_years(FiscalYears { start, are_named_by_end }), reset)
    }

    /// Returns the use of released numbers of a serial with a ledger. Another `cache` than 0 is a mistake there.
    fn gapless(&self, errors: &mut Vec<CounterError>) -> Option<ReleasedNumbers> {
        let is_gapless = self.get(GAPLESS).is_some();
        if let Some(text) = self.get("cache").filter(|text| is_gapless && *text != "0") {
            errors.push(CounterError::GaplessCache { text: text.to_owned() });
        }
        let released = match self.get("released") {
            None => ReleasedNumbers::Reused,
            Some("void") => ReleasedNumbers::Void,
            Some(text) => {
                errors.push(CounterError::Released { text: text.to_owned() });
                ReleasedNumbers::Reused
            }
        };
        if released == ReleasedNumbers::Void && !is_gapless {
            errors.push(CounterError::ReleasedAlone);
        }
        is_gapless.then_some(released)
    }

    /// Removes the options of a seal, and returns it if they declare one.
    fn seal(&mut self, errors: &mut Vec<CounterError>) -> Option<SealDeclaration> {
        let mut take = |option: &str| {
            let at = self.0.iter().position(|(name, _)| *name == option)?;
            Some(self.0.remove(at).1.to_owned())
        };
        let is_sealed = take(SEAL).is_some();
        let words = SealWords {
            is_sealed,
            key_file: take(SEAL_OPTIONS[0]),
            // Without a seal it is the alphabet of a format.
            alphabet: if is_sealed { take("alphabet") } else { None },
            answer: take(SEAL_OPTIONS[1]),
        };
        let seal = words.check(|mistake| errors.push(CounterError::Seal(mistake)));
        // All options that are left are those of a format.
        let of_format = ["format", "pad", "prefix", "overflow"].into_iter().find(|option| self.get(option).is_some());
        if let Some(option) = of_format.filter(|_| is_sealed) {
            errors.push(CounterError::Seal(SealMistake::Format { option }));
        }
        seal
    }

    fn format(&mut self, errors: &mut Vec<CounterError>) -> Option<Format> {
        let grows = self.grows(errors);
        if self.0.is_empty() {
            return None;
        }
        let pad = self.number("pad", 1..=PAD_MAX, |text| CounterError::Pad { text }, errors);
        let prefix = self.get("prefix").unwrap_or_default();
        if prefix.len() > PREFIX_BYTES_MAX || !is_plain(prefix) {
            errors.push(CounterError::Prefix { text: prefix.to_owned() });
        }
        if self.get("format") == Some(SqidsCode::WORD) {
            return self.sqids(pad, prefix, errors);
        }
        if self.get("alphabet").is_some() {
            errors.push(CounterError::UnreadAlphabet);
        }
        let radix = self.get("format").map_or(Radix::Decimal, |word| {
            Radix::of_word(word).unwrap_or_else(|| {
                errors.push(CounterError::Format { text: word.to_owned() });
                Radix::Decimal
            })
        });
        let pad = pad.unwrap_or_else(|| radix.digits_of(VALUE_BITS));
        Some(Format { notation: Notation::Radix(radix), pad, prefix: prefix.to_owned(), grows })
    }

    fn sqids(&self, pad: Option<u32>, prefix: &str, errors: &mut Vec<CounterError>) -> Option<Format> {
        if self.get("overflow").is_some() {
            errors.push(CounterError::Sqids(SqidsError::Overflow));
        }
        let alphabet = self.get("alphabet").map(Alphabet::parse).transpose();
        let alphabet = alphabet.map_err(|error| errors.push(CounterError::Alphabet { error })).ok()?;
        Format::sqids(alphabet, pad, prefix.to_owned()).map_err(|error| errors.push(CounterError::Sqids(error))).ok()
    }
}
