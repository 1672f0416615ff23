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
use crate::sequence::{CACHE_DEFAULT, RESERVED_MAX, Spec, VALUE_MAX};
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
}

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

    /// Appends the text of a value. Returns false if it has too many digits.
    #[must_use]
    pub fn write(&self, stamp: CivilTime, value: i64, out: &mut Vec<u8>) -> bool {
        self.template.write(stamp, value, self.grows, out)
    }
}

/// Parts of an ID of such a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterReading {
    /// Value of the counter.
    pub value: i64,
    /// Time in the text, as [`Template::read`] returns it; [`CivilTime::FIRST`] of a sequence.
    pub stamp: CivilTime,
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
            CounterError::Option { name, .. } => name,
            CounterError::NoZone | CounterError::Zone { .. } => "zone",
            CounterError::Reset { .. } => "reset",
            CounterError::FiscalStart { .. } | CounterError::NoFiscalStart => FISCAL_START,
            CounterError::FiscalName { .. } => FISCAL_NAME,
            CounterError::UnreadFiscal { option } => option,
            CounterError::Cache { .. } => "cache",
            CounterError::Pad { .. } => "pad",
            CounterError::Format { .. } => "format",
            CounterError::Prefix { .. } => "prefix",
            CounterError::Overflow { .. } => "overflow",
            CounterError::Alphabet { .. } | CounterError::UnreadAlphabet => "alphabet",
            CounterError::Sqids(error) => error.option(),
            CounterError::Seal(mistake) => mistake.option(),
        })
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
                    "'{name}' is not an option of a serial: it has zone, reset, fiscal-start, fiscal-name, overflow \
                     and cache"
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
                let (stamp, value) = serial.template.read(id, serial.grows)?;
                return Some(CounterReading { value, stamp });
            }
        };
        Some(CounterReading { value: i64::try_from(number).ok()?, stamp: CivilTime::FIRST })
    }

    /// Returns the longest text of an ID, bytes.
    pub fn id_bytes_max(&self) -> usize {
        match &self.kind {
            CounterKind::Sequence(None) => 19,
            CounterKind::Sequence(Some(format)) => format.bytes_max(VALUE_BITS),
            CounterKind::Serial(_) => TEMPLATE_BYTES_MAX,
        }
    }

    /// Returns the part of the declaration that all servers with one store share: without its name, and without
    /// `cache` and the seal, which each server may set for itself.
    pub fn shared_text(&self) -> String {
        let mut shared = self.clone().without_seal();
        if let CounterKind::Serial(serial) = &mut shared.kind {
            serial.cache = CACHE_DEFAULT;
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
                let Serial { template, reset, zone, grows, cache } = serial;
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
                if *cache != CACHE_DEFAULT {
                    add("cache", &cache.to_string());
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
pub struct NamedCounters(Vec<Arc<CounterDeclaration>>);

impl NamedCounters {
    /// Creates the collection; of several counters with one name it keeps the first.
    pub fn new(counters: impl IntoIterator<Item = Arc<CounterDeclaration>>) -> NamedCounters {
        let mut counters: Vec<_> = counters.into_iter().collect();
        counters.sort_by(|one, other| one.name.cmp(&other.name));
        counters.dedup_by(|one, other| one.name == other.name);
        NamedCounters(counters)
    }

    /// Returns true if there are no counters.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the place of the counter of this name, for [`NamedCounters::get`] of the same value.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.0.binary_search_by(|known| known.name.as_bytes().cmp(name)).ok()
    }

    /// Returns the counter at this place.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&Arc<CounterDeclaration>> {
        self.0.get(place)
    }

    /// Returns all counters, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<CounterDeclaration>> {
        self.0.iter()
    }
}

/// Options while they are parsed.
struct SerialOptions<'a>(Vec<(&'a str, &'a str)>);

impl<'a> SerialOptions<'a> {
    fn read(kind: &'static str, words: &[&'a str], errors: &mut Vec<CounterError>) -> SerialOptions<'a> {
        let known: &[&str] = if kind == "serial" {
            &["zone", "reset", FISCAL_START, FISCAL_NAME, "overflow", "cache"]
        } else {
            &["format", "alphabet", "pad", "prefix", "overflow", SEAL, SEAL_OPTIONS[0], SEAL_OPTIONS[1]]
        };
        let mut options: Vec<(&str, &str)> = Vec::new();
        let mut words = words.iter().copied();
        while let Some(option) = words.next() {
            let value = if option == SEAL { Some("") } else { words.next() };
            if !known.contains(&option) {
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
        let zone_name = self.get("zone");
        match zone_name.map(zone) {
            Some(Err(error)) => {
                let text = zone_name.unwrap_or_default().to_owned();
                errors.push(CounterError::Zone { text, error });
            }
            None if template.has_date() => errors.push(CounterError::NoZone),
            _ => {}
        }
        let cache = self.number("cache", 0..=RESERVED_MAX, |text| CounterError::Cache { text }, errors);
        let zone = zone_name.map(str::to_owned);
        Some(Serial { template, reset, zone, grows, cache: cache.unwrap_or(CACHE_DEFAULT) })
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
