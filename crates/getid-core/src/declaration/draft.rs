//! A declaration while its words are read: all its mistakes are gathered.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::DeclarationError;
use super::value::{Declaration, FIELD_NAME_BYTES_MAX, OPTIONS, WORDS_MAX, is_name};
use crate::fields::{Field, FieldLayout, FieldsError, Role, low_bits_64};
use crate::format::{Format, PAD_MAX, PREFIX_BYTES_MAX, Radix};
use crate::kind::{Kind, Shape};
use crate::unit::Unit;

/// How a declaration's `epoch` is read, where it is no number of Unix ms: a time with a zone, as Unix ms. The error
/// says what was expected.
pub type EpochParser = fn(&str) -> Result<i64, String>;

/// For the record, whose epochs are numbers.
///
/// # Errors
///
/// Always.
pub fn no_dates(_: &str) -> Result<i64, String> {
    Err("must be a number of Unix ms".to_owned())
}

impl Declaration {
    /// A declaration from the words behind `generator`, the name first.
    ///
    /// # Errors
    ///
    /// All that is wrong with them.
    pub fn parse(words: &[&str], epoch: EpochParser) -> Result<Declaration, Vec<DeclarationError>> {
        let mut errors = Vec::new();
        let (name, rest) = words.split_first().map_or(("", words), |(name, rest)| (*name, rest));
        if !is_name(name) {
            errors.push(DeclarationError::Name { name: name.to_owned() });
        }
        let Some((word, rest)) = rest.split_first() else {
            errors.push(DeclarationError::NoKind);
            return Err(errors);
        };
        let Some(kind) = Kind::find(word) else {
            errors.push(DeclarationError::Kind { word: (*word).to_owned() });
            return Err(errors);
        };
        if rest.len() > WORDS_MAX {
            errors.push(DeclarationError::TooLong);
            return Err(errors);
        }
        let mut draft = Draft::new(kind, epoch);
        draft.read(rest);
        errors.append(&mut draft.errors);
        draft.finish(name, errors)
    }

    /// A declaration as [`Declaration::to_text`] writes it.
    pub fn from_text(text: &str) -> Option<Declaration> {
        let words: Vec<_> = text.split(' ').collect();
        let declaration = Declaration::parse(&words, no_dates).ok()?;
        (declaration.to_text() == text).then_some(declaration)
    }
}

/// A declaration while it is read.
struct Draft {
    kind: &'static Kind,
    epoch_parser: EpochParser,
    fields: Vec<Field>,
    /// Fields whose widths were given.
    given: Vec<String>,
    epoch_unix_ms: i64,
    unit: Unit,
    /// Options and values of fields, in the order they were given.
    options: Vec<(String, String)>,
    errors: Vec<DeclarationError>,
}

impl Draft {
    fn new(kind: &'static Kind, epoch_parser: EpochParser) -> Draft {
        Draft {
            kind,
            epoch_parser,
            fields: kind.own_fields(),
            given: Vec::new(),
            epoch_unix_ms: kind.epoch_unix_ms,
            unit: kind.unit,
            options: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Fields (`NAME:BITS`) and options (`NAME value`), in any order.
    fn read(&mut self, words: &[&str]) {
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            if word.contains(':') {
                self.read_field(word);
                continue;
            }
            let Some(&value) = words.next() else {
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

    fn read_field(&mut self, word: &str) {
        let wrong = |errors: &mut Vec<_>| errors.push(DeclarationError::Field { word: word.to_owned() });
        let (name, rest) = word.split_once(':').unwrap_or((word, ""));
        let (rest, is_request) = rest.strip_suffix('?').map_or((rest, false), |rest| (rest, true));
        let (bits, unit) = rest.split_once('@').map_or((rest, None), |(bits, unit)| (bits, Some(unit)));
        let is_named = (1..=FIELD_NAME_BYTES_MAX).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let Some(bits) = bits.parse::<u32>().ok().filter(|_| is_named && !bits.starts_with('+')) else {
            return wrong(&mut self.errors);
        };
        if OPTIONS.contains(&name) {
            return self.errors.push(DeclarationError::FieldIsOption { name: name.to_owned() });
        }
        if self.kind.shape != Shape::Number {
            return self.errors.push(DeclarationError::FixedFields { kind: self.kind.word, word: word.to_owned() });
        }
        if self.given.iter().any(|given| given == name) {
            return self.errors.push(DeclarationError::Fields(FieldsError::Twice { name: name.to_owned() }));
        }
        self.given.push(name.to_owned());
        let role = match name {
            "time" => Role::Time,
            "counter" => Role::Counter,
            "random" => Role::Random,
            "noise" => Role::Noise,
            "server-id" => Role::Server,
            _ if is_request => Role::Request,
            _ => Role::Constant(0),
        };
        match unit {
            Some(text) if role == Role::Time => match Unit::parse(text) {
                Some(unit) => self.unit = unit,
                None => self.errors.push(DeclarationError::Unit { text: text.to_owned() }),
            },
            None if role == Role::Time && self.kind.fields.is_empty() => {
                self.errors.push(DeclarationError::NoUnit { word: word.to_owned() });
            }
            None => {}
            Some(_) => return wrong(&mut self.errors),
        }
        if is_request && matches!(role, Role::Time | Role::Counter | Role::Random | Role::Noise | Role::Server) {
            return wrong(&mut self.errors);
        }
        if self.kind.fields.is_empty() {
            self.fields.push(Field { name: name.to_owned(), bits, role });
        } else if let Some(field) = self.fields.iter_mut().find(|field| field.name == name) {
            if is_request != (field.role == Role::Request) {
                return wrong(&mut self.errors);
            }
            field.bits = bits;
        } else {
            let fields = self.kind.fields.iter().map(|(name, ..)| *name).collect();
            self.errors.push(DeclarationError::NoSuchField { name: name.to_owned(), fields });
        }
    }

    /// Takes an option out.
    fn option(&mut self, name: &str) -> Option<String> {
        let at = self.options.iter().position(|(known, _)| known == name)?;
        Some(self.options.remove(at).1)
    }

    fn finish(mut self, name: &str, mut errors: Vec<DeclarationError>) -> Result<Declaration, Vec<DeclarationError>> {
        if self.kind.fields.is_empty() && self.fields.is_empty() {
            errors.push(DeclarationError::NoFields);
        }
        self.read_epoch();
        let one_server = self.number_option("one-server", u64::from(u32::MAX)).and_then(|n| u32::try_from(n).ok());
        let counter_start = self.read_counter_start();
        let (by_hand, drawn) = self.read_values();
        let format = self.read_format();
        errors.append(&mut self.errors);
        let layout = FieldLayout::new(self.fields, self.epoch_unix_ms, self.unit);
        match layout {
            Ok(layout) => {
                if !layout.has_time() && self.kind.fields.is_empty() && !layout.fields().is_empty() {
                    errors.push(DeclarationError::NoTime);
                }
                if errors.is_empty() {
                    let format = format.map(|format| format.for_bits(layout.bits()));
                    let name = name.to_owned();
                    let kind = self.kind;
                    return Ok(Declaration { name, kind, layout, format, counter_start, one_server, by_hand, drawn });
                }
            }
            Err(wrong) => errors.extend(wrong.into_iter().map(DeclarationError::Fields)),
        }
        Err(errors)
    }

    fn read_epoch(&mut self) {
        let Some(text) = self.option("epoch") else { return };
        if self.kind.shape != Shape::Number {
            self.errors.push(DeclarationError::NotForKind { option: "epoch", kind: self.kind.word });
            return;
        }
        let parsed = match text.parse::<i64>() {
            Ok(unix_ms) => Ok(unix_ms),
            Err(_) => (self.epoch_parser)(&text),
        };
        match parsed {
            Ok(unix_ms) if unix_ms.unsigned_abs() <= crate::Epoch::UNIX_MS_MAX => self.epoch_unix_ms = unix_ms,
            Ok(_) => self
                .errors
                .push(DeclarationError::Epoch { text, expected: "must lie between the years 1 and 9999".to_owned() }),
            Err(expected) => self.errors.push(DeclarationError::Epoch { text, expected }),
        }
    }

    fn number_option(&mut self, option: &'static str, max: u64) -> Option<u64> {
        let text = self.option(option)?;
        let number = text.parse().ok().filter(|&number| number <= max && !text.starts_with('+'));
        if number.is_none() {
            self.errors.push(DeclarationError::Number { option: option.to_owned(), text, max });
        }
        number
    }

    /// `counter-start 0..N`
    fn read_counter_start(&mut self) -> u64 {
        let Some(text) = self.option("counter-start") else { return 0 };
        let bits = self.fields.iter().find(|field| field.role == Role::Counter).map_or(0, |field| field.bits);
        let last = low_bits_64(bits);
        let highest = text.strip_prefix("0..").map(|number| number.strip_prefix('=').unwrap_or(number));
        match highest.and_then(|number| number.parse::<u64>().ok()) {
            Some(highest) if highest <= last => highest,
            _ => {
                self.errors.push(DeclarationError::CounterStart { text, last });
                0
            }
        }
    }

    /// What is left of the options: values of fields. Says which worker fields were given, and the drawn ones.
    fn read_values(&mut self) -> (Vec<String>, Vec<(String, u64)>) {
        let (mut by_hand, mut drawn) = (Vec::new(), Vec::new());
        let is_left = |(name, _): &&(String, String)| !OPTIONS.contains(&name.as_str());
        let values: Vec<_> = self.options.iter().filter(is_left).cloned().collect();
        self.options.retain(|(name, _)| OPTIONS.contains(&name.as_str()));
        for (name, text) in &values {
            let Some(field) = self.fields.iter_mut().find(|field| field.name == *name) else {
                let is_values = |role| matches!(role, Role::Constant(_) | Role::Server | Role::Drawn);
                let fields = self.fields.iter().filter(|field| is_values(field.role));
                let fields = fields.map(|field| field.name.clone()).collect();
                self.errors.push(DeclarationError::Option { name: name.clone(), fields });
                continue;
            };
            let max = low_bits_64(field.bits);
            let number = text.parse().ok().filter(|&number| number <= max && !text.starts_with('+'));
            match (number, field.role) {
                (None, _) => {
                    self.errors.push(DeclarationError::Number { option: name.clone(), text: text.clone(), max });
                }
                (Some(value), Role::Constant(_)) => field.role = Role::Constant(value),
                (Some(value), Role::Server) => {
                    field.role = Role::Constant(value);
                    by_hand.push(name.clone());
                }
                (Some(value), Role::Drawn) => drawn.push((name.clone(), value)),
                (Some(_), _) => self.errors.push(DeclarationError::NoConstant { name: name.clone() }),
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

    fn read_format(&mut self) -> Option<Draught> {
        let (radix, prefix) = (self.option("format"), self.option("prefix"));
        let (pad, overflow) = (self.number_option("pad", u64::from(PAD_MAX)), self.option("overflow"));
        let is_there = radix.is_some() || prefix.is_some() || pad.is_some() || overflow.is_some();
        if !is_there {
            return None;
        }
        if self.kind.shape != Shape::Number {
            self.errors.push(DeclarationError::NotForKind { option: "format", kind: self.kind.word });
            return None;
        }
        let radix = match radix {
            None => Radix::Decimal,
            Some(word) => Radix::ALL.into_iter().find(|radix| radix.word() == word).unwrap_or_else(|| {
                self.errors.push(DeclarationError::Radix { word });
                Radix::Decimal
            }),
        };
        let prefix = prefix.unwrap_or_default();
        let is_printable = prefix.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(&byte));
        if prefix.len() > PREFIX_BYTES_MAX || !is_printable {
            self.errors.push(DeclarationError::Prefix { text: prefix.clone() });
        }
        let grows = match overflow.as_deref() {
            None | Some("error") => false,
            Some("grow") => true,
            Some(word) => {
                self.errors.push(DeclarationError::Overflow { word: word.to_owned() });
                false
            }
        };
        Some(Draught { radix, pad: pad.and_then(|pad| u32::try_from(pad).ok()).filter(|&pad| pad > 0), prefix, grows })
    }
}

/// A format whose default width is not known yet.
struct Draught {
    radix: Radix,
    pad: Option<u32>,
    prefix: String,
    grows: bool,
}

impl Draught {
    fn for_bits(self, bits: u32) -> Format {
        let pad = self.pad.unwrap_or_else(|| self.radix.digits_of(bits));
        Format { radix: self.radix, pad, prefix: self.prefix, grows: self.grows }
    }
}
