//! Parser of a declaration's words, which collects all mistakes.

use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::error::{DeclarationError, EpochError};
use super::seal::{SEAL, SealDeclaration, SealMistake, SealWords};
use super::value::{
    Declaration, FIELD_NAME_BYTES_MAX, FIELD_OPTIONS, FORMERLY, INTEGER, OPTIONS, TYPE_PREFIX_BYTES_MAX, WORDS_MAX,
    is_name, is_reserved_name,
};
use crate::alphabet::Alphabet;
use crate::fields::{Field, FieldLayout, FieldNotation, FieldsError, INTEGER_BITS_MAX, Role};
use crate::format::{Format, Notation, PAD_MAX, PREFIX_BYTES_MAX, is_plain};
use crate::kind::nano_id::{CHANCE_BITS_MIN, LENGTH, NanoId};
use crate::kind::{KINDS, Kind, Shape};
use crate::number::low_bits_64;
use crate::radix::Radix;
use crate::sqids::{SqidsCode, SqidsError};
use crate::unit::Unit;

/// The range of epochs, Unix ms: from the year 1 to the year 9999, which RFC 3339 can write.
const EPOCHS: RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

/// Parser of an `epoch` that is no number: a time with a zone becomes Unix ms.
pub type EpochParser = fn(&str) -> Result<i64, EpochError>;

/// Rejects every date: epochs in the record are numbers.
///
/// # Errors
///
/// Fails always.
pub fn no_dates(_: &str) -> Result<i64, EpochError> {
    Err(EpochError::NoNumber)
}

impl Declaration {
    /// Parses the words behind `generator`, the name first.
    ///
    /// # Errors
    ///
    /// Fails with all mistakes. For an unknown kind these are the mistakes that every kind has.
    pub fn parse(words: &[&str], epoch: EpochParser) -> Result<Declaration, Vec<DeclarationError>> {
        let declared = Declaration::read_words(words, epoch, |kind| kind.counter_start);
        // A record may have such a name from before: it is refused only in a configuration.
        let reserved = words.first().filter(|name| is_reserved_name(name)).map(|&name| name.to_owned());
        let Some(name) = reserved else { return declared };
        let mut errors = declared.err().unwrap_or_default();
        errors.insert(0, DeclarationError::Reserved { name });
        Err(errors)
    }

    fn read_words(
        words: &[&str],
        epoch: EpochParser,
        counter_start_of: fn(&Kind) -> u64,
    ) -> Result<Declaration, Vec<DeclarationError>> {
        let mut errors = Vec::new();
        let (name, rest) = words.split_first().map_or(("", words), |(name, rest)| (*name, rest));
        if !is_name(name) {
            errors.push(DeclarationError::Name { name: name.to_owned() });
        }
        let Some((word, rest)) = rest.split_first() else {
            errors.push(DeclarationError::NoKind);
            return Err(errors);
        };
        let kind = Kind::find(word);
        if kind.is_none() {
            errors.push(DeclarationError::Kind { word: (*word).to_owned() });
        }
        if rest.len() > WORDS_MAX {
            errors.push(DeclarationError::TooLong);
            return Err(errors);
        }
        let mut draft = Draft::new(kind.unwrap_or(&KINDS[0]), epoch, counter_start_of);
        draft.read(rest);
        let declaration = draft.finish(name).map_err(|mut wrong| {
            wrong.retain(|error| kind.is_some() || error.is_of_every_kind());
            errors.append(&mut wrong);
        });
        declaration.ok().filter(|_| errors.is_empty()).ok_or(errors)
    }

    /// Parses a text of [`Declaration::to_text`]. Without a `counter-start` units begin at 0, whatever the kind: older
    /// records were written before kinds had their own start.
    pub fn from_text(text: &str) -> Option<Declaration> {
        let words: Vec<_> = text.split(' ').collect();
        // Former formats are at the end, in pairs. (Elsewhere the word may be a prefix.)
        let is_former = |pair: &&[&str]| pair.len() == 2 && pair[0] == FORMERLY;
        let formers = words.rchunks(2).take_while(is_former).count();
        let (words, former) = words.split_at(words.len() - 2 * formers);
        let mut declaration = Declaration::read_words(words, no_dates, |_| 0).ok()?;
        for pair in former.chunks(2) {
            declaration.former.push(Format::from_former_text(pair.get(1)?)?);
        }
        (declaration.to_text() == text).then_some(declaration)
    }
}

/// A declaration under construction.
struct Draft {
    kind: &'static Kind,
    epoch_parser: EpochParser,
    fields: Vec<Field>,
    /// Fields whose widths were given.
    given: Vec<String>,
    epoch_unix_ms: i64,
    unit: Unit,
    /// Default start of the counter; the counter's width may limit it.
    counter_start: u64,
    /// Options and values of fields, in the order they were given.
    options: Vec<(String, String)>,
    errors: Vec<DeclarationError>,
}

impl Draft {
    fn new(kind: &'static Kind, epoch_parser: EpochParser, counter_start_of: fn(&Kind) -> u64) -> Draft {
        Draft {
            kind,
            epoch_parser,
            fields: kind.own_fields(),
            given: Vec::new(),
            epoch_unix_ms: kind.epoch_unix_ms,
            unit: kind.unit,
            counter_start: counter_start_of(kind),
            options: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Returns true if its fields are declared, and not those of a preset.
    fn is_free(&self) -> bool {
        self.kind.fields.is_empty()
    }

    /// Reads fields (`NAME:BITS`) and options (`NAME value`), in any order.
    fn read(&mut self, words: &[&str]) {
        let is_seal_field = has_field(words, SEAL);
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            if word.contains(':') {
                if let Err(error) = self.read_field(word) {
                    self.errors.push(error);
                }
                continue;
            }
            let Some(&value) = (if word == SEAL && !is_seal_field { Some(&"") } else { words.next() }) else {
                self.errors.push(DeclarationError::NoValue { option: word.to_owned() });
                return;
            };
            if self.options.iter().any(|(name, _)| name == word) {
                self.errors.push(DeclarationError::Twice { option: word.to_owned() });
            } else {
                self.options.push((word.to_owned(), value.to_owned()));
            }
        }
    }

    fn read_field(&mut self, word: &str) -> Result<(), DeclarationError> {
        let wrong = || DeclarationError::Field { word: word.to_owned() };
        let (name, rest) = word.split_once(':').ok_or_else(wrong)?;
        let (rest, is_request) = rest.strip_suffix('?').map_or((rest, false), |rest| (rest, true));
        let (bits, unit) = rest.split_once('@').map_or((rest, None), |(bits, unit)| (bits, Some(unit)));
        let is_named = (1..=FIELD_NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let bits = bits.parse::<u32>().ok().filter(|_| is_named && !bits.starts_with('+')).ok_or_else(wrong)?;
        let name = name.to_owned();
        let is_option = OPTIONS.contains(&name.as_str()) && !FIELD_OPTIONS.contains(&name.as_str());
        if is_option || name == FORMERLY {
            return Err(DeclarationError::FieldIsOption { name });
        }
        if self.kind.shape != Shape::Number {
            return Err(DeclarationError::FixedFields { kind: self.kind.word, word: word.to_owned() });
        }
        if self.given.contains(&name) {
            return Err(DeclarationError::Fields(FieldsError::Twice { name }));
        }
        self.given.push(name.clone());
        let role = match name.as_str() {
            "time" => Role::Time,
            "counter" => Role::Counter,
            "random" => Role::Random,
            "noise" => Role::Noise,
            "server-id" => Role::Server,
            _ if is_request => Role::Request,
            _ => Role::Constant(0),
        };
        if self.is_free() {
            self.fields.push(Field { name: name.clone(), bits, role });
        } else if let Some(field) = self.fields.iter_mut().find(|field| field.name == name) {
            field.bits = bits;
            if is_request && field.role != Role::Request {
                return Err(DeclarationError::NotWithRequest { name });
            }
        } else {
            let fields = self.kind.fields.iter().map(|(name, ..)| *name).collect();
            return Err(DeclarationError::NoSuchField { name, fields });
        }
        match unit {
            Some(text) if role == Role::Time => {
                self.unit = Unit::parse(text).ok_or_else(|| DeclarationError::Unit { text: text.to_owned() })?;
            }
            Some(_) => return Err(wrong()),
            None if role == Role::Time && self.is_free() => {
                return Err(DeclarationError::NoUnit { word: word.to_owned() });
            }
            None => {}
        }
        let is_made = matches!(role, Role::Time | Role::Counter | Role::Random | Role::Noise | Role::Server);
        if is_request && is_made { Err(DeclarationError::NotWithRequest { name }) } else { Ok(()) }
    }

    /// Removes and returns an option. The word of a field is none.
    fn option(&mut self, name: &str) -> Option<String> {
        if self.fields.iter().any(|field| field.name == name) {
            return None;
        }
        let at = self.options.iter().position(|(known, _)| known == name)?;
        Some(self.options.remove(at).1)
    }

    fn finish(mut self, name: &str) -> Result<Declaration, Vec<DeclarationError>> {
        self.read_epoch();
        let one_server = self.number_option("one-server", u64::from(u32::MAX)).and_then(|n| u32::try_from(n).ok());
        let counter_start = self.read_counter_start();
        let seal = self.read_seal();
        let nano_id = self.read_nano_id();
        let (format, prefix) = self.read_style();
        self.refuse_unread_options();
        let (by_hand, drawn) = self.read_values();
        if self.is_free() {
            if self.fields.is_empty() {
                self.errors.push(DeclarationError::NoFields);
            } else if !self.given.iter().any(|name| name == "time") {
                self.errors.push(DeclarationError::NoTime);
            }
        } else {
            // A preset drops a field of 0 bits. Without its time it would be another kind.
            self.fields.retain(|field| field.bits > 0 || field.role == Role::Time);
            let bits = self.fields.iter().fold(0, |sum: u32, field| sum.saturating_add(field.bits));
            if !self.kind.has_time() && bits < CHANCE_BITS_MIN {
                self.errors.push(DeclarationError::Chance { bits });
            }
        }
        let mut errors = self.errors;
        match FieldLayout::new(self.fields, self.epoch_unix_ms, self.unit) {
            Ok(layout) if errors.is_empty() => {
                let bits = layout.bits();
                if seal.is_some() && bits > INTEGER_BITS_MAX {
                    return Err([DeclarationError::Seal(SealMistake::Bits { bits })].into());
                }
                let format = format.map(|format| format.for_bits(bits)).transpose();
                let format = format.map_err(|error| [DeclarationError::Sqids(error)])?;
                return Ok(Declaration {
                    name: name.to_owned(),
                    kind: self.kind,
                    layout,
                    format,
                    prefix,
                    nano_id,
                    counter_start,
                    one_server,
                    by_hand,
                    drawn,
                    former: Vec::new(),
                    seal,
                });
            }
            Ok(_) => {}
            Err(wrong) => errors.extend(wrong.into_iter().map(DeclarationError::Fields)),
        }
        Err(errors)
    }

    fn read_epoch(&mut self) {
        let Some(text) = self.option("epoch") else { return };
        if self.kind.shape != Shape::Number || !self.kind.has_time() {
            return self.errors.push(DeclarationError::NotForKind { option: "epoch", kind: self.kind.word });
        }
        let number = text.parse::<i64>().ok().filter(|_| !text.starts_with('+'));
        match number.map_or_else(|| (self.epoch_parser)(&text), Ok) {
            Ok(unix_ms) if EPOCHS.contains(&unix_ms) => self.epoch_unix_ms = unix_ms,
            Ok(_) => self.errors.push(DeclarationError::Epoch { text, error: EpochError::Range }),
            Err(error) => self.errors.push(DeclarationError::Epoch { text, error }),
        }
    }

    fn number_option(&mut self, option: &'static str, max: u64) -> Option<u64> {
        let text = self.option(option)?;
        let number = whole_number(&text).filter(|&number| number <= max);
        if number.is_none() {
            self.errors.push(DeclarationError::Number { option: option.to_owned(), text, max });
        }
        number
    }

    /// Reads the option `counter-start 0..N`.
    fn read_counter_start(&mut self) -> u64 {
        let option = self.option("counter-start");
        let is_counter = |field: &&Field| field.role == Role::Counter && field.bits > 0;
        let Some(counter) = self.fields.iter().find(is_counter) else {
            self.errors.extend(option.map(|_| DeclarationError::NoCounter));
            return 0;
        };
        let last = low_bits_64(counter.bits);
        let Some(text) = option else { return self.counter_start.min(last) };
        let highest = text.strip_prefix("0..").map(|number| number.strip_prefix('=').unwrap_or(number));
        let highest = highest.and_then(whole_number).filter(|&highest| highest <= last);
        if highest.is_none() {
            self.errors.push(DeclarationError::CounterStart { text, last });
        }
        highest.unwrap_or(0)
    }

    /// Reads the remaining options, which are values of fields. Returns the worker fields that were set by hand, and
    /// the drawn values.
    fn read_values(&mut self) -> (BTreeSet<String>, BTreeMap<String, u64>) {
        let (mut by_hand, mut drawn) = (BTreeSet::new(), BTreeMap::new());
        let values = core::mem::take(&mut self.options);
        for (name, text) in &values {
            let Some(field) = self.fields.iter_mut().find(|field| field.name == *name) else {
                let has_value = |role| matches!(role, Role::Constant(_) | Role::Server | Role::Drawn);
                let fields = self.fields.iter().filter(|field| has_value(field.role));
                let fields = fields.map(|field| field.name.clone()).collect();
                self.errors.push(DeclarationError::Option { name: name.clone(), fields });
                continue;
            };
            let max = low_bits_64(field.bits);
            let number = field.read_value(text);
            match (field.role, number) {
                (Role::Drawn, None) if field.notation() == FieldNotation::Address => {
                    self.errors.push(DeclarationError::Address { name: name.clone(), text: text.clone() });
                }
                (Role::Constant(_) | Role::Server | Role::Drawn, None) => {
                    self.errors.push(DeclarationError::Number { option: name.clone(), text: text.clone(), max });
                }
                (Role::Constant(_), Some(value)) => field.role = Role::Constant(value),
                (Role::Server, Some(value)) => {
                    field.role = Role::Constant(value);
                    by_hand.insert(name.clone());
                }
                (Role::Drawn, Some(value)) => {
                    drawn.insert(name.clone(), value);
                }
                _ => self.errors.push(DeclarationError::NoConstant { name: name.clone() }),
            }
        }
        for field in &self.fields {
            let is_given = values.iter().any(|(name, _)| *name == field.name);
            if matches!(field.role, Role::Constant(_)) && !is_given {
                let max = low_bits_64(field.bits);
                self.errors.push(DeclarationError::Missing { name: field.name.clone(), max });
            }
        }
        (by_hand, drawn)
    }

    /// Reads the seal, which is for integers.
    fn read_seal(&mut self) -> Option<SealDeclaration> {
        let is_sealed = self.option(SEAL).is_some();
        let words = SealWords {
            is_sealed,
            key_file: self.option("key-file"),
            // Without a seal it is the alphabet of other texts.
            alphabet: if is_sealed { self.option("alphabet") } else { None },
            answer: self.option("answer"),
        };
        let errors = &mut self.errors;
        let seal = words.check(|mistake| errors.push(DeclarationError::Seal(mistake)));
        if !is_sealed {
            return None;
        }
        let kind = self.kind;
        let is_integer = self.options.iter().any(|(name, value)| name == "format" && value == INTEGER);
        if kind.shape != Shape::Number {
            errors.push(DeclarationError::Seal(SealMistake::Kind { kind: kind.word }));
        } else if kind.radix.is_some() && !is_integer {
            errors.push(DeclarationError::Seal(SealMistake::Text { kind: kind.word }));
        }
        // The seal's words would be values of these fields.
        let fields = self.fields.iter().filter(|field| FIELD_OPTIONS.contains(&field.name.as_str()));
        errors.extend(fields.map(|field| DeclarationError::FieldIsOption { name: field.name.clone() }));
        let of_format = ["format", "pad", "prefix", "overflow"].into_iter().find(|&option| {
            let is_integer = option == "format" && is_integer;
            !is_integer && self.options.iter().any(|(name, _)| name == option)
        });
        errors.extend(of_format.map(|option| DeclarationError::Seal(SealMistake::Format { option })));
        seal
    }

    /// Reads the options of a `nanoid`, whose noise gets the width of its texts.
    fn read_nano_id(&mut self) -> Option<NanoId> {
        if self.kind.shape != Shape::NanoId {
            return None;
        }
        let (alphabet, length) = (self.option("alphabet"), self.option("length"));
        let alphabet = match alphabet.map_or_else(|| Ok(NanoId::default_alphabet()), |text| Alphabet::parse(&text)) {
            Ok(alphabet) => alphabet,
            Err(error) => {
                self.errors.push(DeclarationError::Alphabet { error });
                return None;
            }
        };
        let text = length.unwrap_or_else(|| LENGTH.to_string());
        let length = whole_number(&text).and_then(|length| u32::try_from(length).ok()).unwrap_or(0);
        let characters = alphabet.len();
        match NanoId::new(alphabet, length) {
            Ok(nano_id) => {
                self.fields.iter_mut().for_each(|noise| noise.bits = nano_id.bits());
                Some(nano_id)
            }
            Err(range) => {
                let (least, most) = range.into_inner();
                self.errors.push(DeclarationError::Length { text, characters, least, most });
                None
            }
        }
    }

    /// Reads the options by which IDs are written: a format of numbers, or the prefix of a text kind.
    fn read_style(&mut self) -> (Option<FormatDraft>, String) {
        if self.kind.shape == Shape::Number {
            return (self.read_format(), String::new());
        }
        for option in ["format", "pad", "overflow"] {
            if self.option(option).is_some() {
                self.errors.push(DeclarationError::NotForKind { option, kind: self.kind.word });
            }
        }
        (None, self.read_text_prefix())
    }

    /// Reads the prefix of a text kind; that of a `TypeID` gets its `_`.
    fn read_text_prefix(&mut self) -> String {
        let Some(text) = self.option("prefix").filter(|text| !text.is_empty()) else { return String::new() };
        if self.kind.shape != Shape::TypeId {
            self.check_prefix(&text);
            return text;
        }
        let is_letter = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase());
        let has_letters = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let has_ends = is_letter(text.bytes().next()) && is_letter(text.bytes().last());
        if !has_letters || !has_ends || text.len() > TYPE_PREFIX_BYTES_MAX {
            self.errors.push(DeclarationError::TypePrefix { text: text.clone() });
        }
        text + "_"
    }

    fn check_prefix(&mut self, text: &str) {
        if text.len() > PREFIX_BYTES_MAX || !is_plain(text) {
            self.errors.push(DeclarationError::Prefix { text: text.to_owned() });
        }
    }

    /// Reads the format of numbers; `None`: they are integers.
    fn read_format(&mut self) -> Option<FormatDraft> {
        let (word, pad) = (self.option("format"), self.option("pad"));
        let (prefix, overflow) = (self.option("prefix"), self.option("overflow"));
        let given = [("pad", &pad), ("prefix", &prefix), ("overflow", &overflow)];
        let given = given.into_iter().find(|(_, text)| text.is_some()).map(|(option, _)| option);
        let default = self.kind.radix.or(given.map(|_| Radix::Decimal));
        let is_sqids = word.as_deref() == Some(SqidsCode::WORD);
        let radix = match word.as_deref() {
            None => default?,
            Some(INTEGER) => {
                self.errors.extend(given.map(|option| DeclarationError::IntegerText { option }));
                return None;
            }
            Some(_) if is_sqids => Radix::Decimal,
            Some(word) => Radix::of_word(word).unwrap_or_else(|| {
                self.errors.push(DeclarationError::Format { word: word.to_owned() });
                Radix::Decimal
            }),
        };
        let pad = pad.and_then(|text| {
            let pad =
                whole_number(&text).and_then(|pad| u32::try_from(pad).ok()).filter(|pad| (1..=PAD_MAX).contains(pad));
            if pad.is_none() {
                self.errors.push(DeclarationError::Pad { text });
            }
            pad
        });
        let prefix = prefix.unwrap_or_default();
        self.check_prefix(&prefix);
        if is_sqids {
            return self.read_sqids(pad, prefix, overflow.is_some());
        }
        let grows = overflow.as_deref() == Some("grow");
        if let Some(word) = overflow.filter(|word| !["error", "grow"].contains(&word.as_str())) {
            self.errors.push(DeclarationError::Overflow { word });
        }
        Some(FormatDraft::Radix { radix, pad, prefix, grows })
    }

    /// Reads the rest of `format sqids`.
    fn read_sqids(&mut self, pad: Option<u32>, prefix: String, has_overflow: bool) -> Option<FormatDraft> {
        if has_overflow {
            self.errors.push(DeclarationError::Sqids(SqidsError::Overflow));
        }
        let alphabet = self.option("alphabet").map(|text| Alphabet::parse(&text)).transpose();
        let alphabet = alphabet.map_err(|error| self.errors.push(DeclarationError::Alphabet { error })).ok()?;
        let format = Format::sqids(alphabet, pad, prefix);
        format.map_err(|error| self.errors.push(DeclarationError::Sqids(error))).map(FormatDraft::Sqids).ok()
    }

    /// Refuses options that neither the kind nor the format has read.
    fn refuse_unread_options(&mut self) {
        for option in ["alphabet", "length"] {
            if self.option(option).is_some() {
                self.errors.push(DeclarationError::NotForKind { option, kind: self.kind.word });
                return;
            }
        }
    }
}

/// Returns true if one of the words declares a field of this name. A word behind that of an option is its value.
fn has_field(words: &[&str], name: &str) -> bool {
    let is_value = |at: usize| at > 0 && words[at - 1] != SEAL && OPTIONS.contains(&words[at - 1]);
    let is_field = |word: &str| word.split_once(':').is_some_and(|(own, _)| own == name);
    words.iter().enumerate().any(|(at, word)| is_field(word) && !is_value(at))
}

/// Parses digits only: a sign, which Rust's parser accepts, is refused.
fn whole_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// A format before the width of the layout is known.
enum FormatDraft {
    /// Digits, by default as many as the widest number has.
    Radix { radix: Radix, pad: Option<u32>, prefix: String, grows: bool },
    /// Codes, for numbers up to their width.
    Sqids(Format),
}

impl FormatDraft {
    fn for_bits(self, bits: u32) -> Result<Format, SqidsError> {
        match self {
            FormatDraft::Radix { radix, pad, prefix, grows } => {
                let pad = pad.unwrap_or_else(|| radix.digits_of(bits));
                Ok(Format { notation: Notation::Radix(radix), pad, prefix, grows })
            }
            FormatDraft::Sqids(format) => SqidsCode::check_bits(bits).map(|()| format),
        }
    }
}
