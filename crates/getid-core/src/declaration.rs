//! What is declared of a named generator: `tweets twitter datacenter 3 epoch 2016-01-01T00:00:00Z format base62`.
//!
//! The same words are in configuration files, on command lines and in the record, so they are read here, and only here.
//! All mistakes of a declaration are reported together.
//!
//! What may change between two lives is decided here too ([`Declaration::may_replace`]): nothing by which an ID could
//! be given again.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::checks::{Fault, planted};
use crate::fields::{Field, FieldLayout, FieldsError, ID_BITS_MAX, INTEGER_BITS_MAX, Role, low_bits, low_bits_64};
use crate::format::{Format, PAD_MAX, PREFIX_BYTES_MAX, Radix};
use crate::kind::{Kind, Shape};
use crate::unit::Unit;

/// The most bytes of a generator's name.
pub const NAME_BYTES_MAX: usize = 128;

/// The most bytes of a field's name.
pub const FIELD_NAME_BYTES_MAX: usize = 32;

/// The most words of a declaration, its name not counted: every field of the widest layout, and a value for each.
pub const WORDS_MAX: usize = 4 * ID_BITS_MAX as usize;

/// A named generator as it is declared; all of it is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    name: String,
    kind: &'static Kind,
    layout: FieldLayout,
    format: Option<Format>,
    counter_start: u64,
    one_server: Option<u32>,
    by_hand: Vec<String>,
    /// Fields that are drawn once, whose values are known.
    drawn: Vec<(String, u64)>,
}

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

    /// All of it in one line, the same for declarations that mean the same: its fields in full, its epoch in Unix ms,
    /// drawn values that are known.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {}", self.name, self.kind.word);
        let mut add = |part: String| {
            text.push(' ');
            text.push_str(&part);
        };
        if self.kind.shape == Shape::Number {
            add(format!("{} epoch {}", self.layout, self.layout.epoch_unix_ms()));
        }
        for field in self.layout.fields() {
            match field.role {
                Role::Constant(value) => add(format!("{} {value}", field.name)),
                Role::Drawn => {
                    if let Some(value) = self.drawn_value(&field.name) {
                        add(format!("{} {value}", field.name));
                    }
                }
                _ => {}
            }
        }
        if self.counter_start > 0 {
            add(format!("counter-start 0..{}", self.counter_start));
        }
        if let Some(server_id) = self.one_server {
            add(format!("one-server {server_id}"));
        }
        if let Some(format) = &self.format {
            add(format.to_string());
        }
        text
    }

    /// What it is called, 1 to 128 bytes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its kind.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Its fields.
    pub fn layout(&self) -> &FieldLayout {
        &self.layout
    }

    /// The Unix time in ms at which its last tick ends; `None` for a kind without time.
    pub fn ends_unix_ms(&self) -> Option<i64> {
        self.layout.has_time().then(|| self.layout.end_unix_ms())
    }

    /// How its numbers are written, if not in the way of its kind.
    pub fn format(&self) -> Option<&Format> {
        self.format.as_ref()
    }

    /// A unit that was not borrowed begins at a random value up to this; 0: at 0.
    pub fn counter_start(&self) -> u64 {
        self.counter_start
    }

    /// The server it belongs to (`one-server`).
    pub fn one_server(&self) -> Option<u32> {
        self.one_server
    }

    /// Worker fields of its kind whose values were given by hand: servers must differ in them.
    pub fn by_hand(&self) -> &[String] {
        &self.by_hand
    }

    /// How many bits tell its servers apart: the server-id's, and those of worker fields given by hand.
    pub fn server_bits(&self) -> u32 {
        let is_servers = |field: &&Field| field.role == Role::Server || self.by_hand.contains(&field.name);
        self.layout.fields().iter().filter(is_servers).map(|field| field.bits).sum()
    }

    /// Whether several servers with this declaration could give the same ID, were it not `one-server`: it has no
    /// server-id of `id_range` bits, and nothing in it is random.
    pub fn is_same_on_servers(&self, id_range: u32) -> bool {
        if planted(Fault::ServersShareLayout) {
            return false;
        }
        // What is drawn or noise differs by chance, in kinds that are made for it.
        self.kind.shape == Shape::Number && self.server_bits() < id_range.max(1)
    }

    /// Whether its IDs are integers on the wire.
    pub fn is_integer(&self) -> bool {
        self.kind.shape == Shape::Number && self.format.is_none() && self.layout.bits() <= INTEGER_BITS_MAX
    }

    /// Whether a server's IDs ascend: in the order of numbers, and of texts unless a format may grow.
    pub fn is_ordered(&self) -> bool {
        self.kind.shape.is_ordered()
    }

    /// The fields whose values are drawn once, with the width of each, bits.
    pub fn drawn_fields(&self) -> impl Iterator<Item = (&str, u32)> {
        let is_drawn = |field: &&Field| field.role == Role::Drawn;
        self.layout.fields().iter().filter(is_drawn).map(|field| (field.name.as_str(), field.bits))
    }

    /// The value of a drawn field, if it is known.
    pub fn drawn_value(&self, name: &str) -> Option<u64> {
        self.drawn.iter().find(|(known, _)| known == name).map(|&(_, value)| value)
    }

    /// Gives each drawn field whose value is not known one from `draw`, which is told name and width.
    pub fn draw_missing(&mut self, mut draw: impl FnMut(&str, u32) -> u64) {
        let missing: Vec<_> = self.drawn_fields().map(|(name, bits)| (name.to_owned(), bits)).collect();
        for (name, bits) in missing {
            if self.drawn_value(&name).is_none() {
                let value = draw(&name, bits) & low_bits_64(bits);
                // A node that is not a network card's says so by this bit (RFC 9562, section 6.10).
                let value = if name == "node" { value | 1 << 40 } else { value };
                self.drawn.push((name, value));
            }
        }
    }

    /// The drawn values that an earlier life had, for those that are not given.
    pub fn keep_drawn(&mut self, old: &Declaration) {
        let kept: Vec<_> =
            self.drawn_fields().filter_map(|(name, _)| Some((name.to_owned(), old.drawn_value(name)?))).collect();
        for (name, value) in kept {
            if self.drawn_value(&name).is_none() {
                self.drawn.push((name, value));
            }
        }
    }

    /// Appends the ID of a number as text; false, and nothing is appended, when its format refuses it.
    #[must_use]
    pub fn write(&self, number: u128, out: &mut Vec<u8>) -> bool {
        if let Some(format) = &self.format {
            return format.write(number, out);
        }
        self.kind.shape.write(number, out);
        true
    }

    /// The number of an ID; `None` for what this generator does not write.
    pub fn read(&self, id: &str) -> Option<u128> {
        let number = match &self.format {
            Some(format) => format.read(id),
            None => self.kind.shape.read(id),
        };
        number.filter(|&number| number <= low_bits(self.layout.bits()))
    }

    /// The most bytes of an ID as text.
    pub fn id_bytes_max(&self) -> usize {
        let bits = self.layout.bits();
        self.format.as_ref().map_or_else(|| self.kind.shape.bytes_max(bits), |format| format.bytes_max(bits))
    }

    /// Whether this declaration may take the place of an older one of the same name, so that no ID is given again.
    ///
    /// An earlier epoch and other values of constants are harmless: all new IDs are larger, or differ where the old
    /// ones were equal. So are other widths of counter, random and noise, as long as everything below the time is as
    /// wide as before and constants stay in their places.
    ///
    /// # Errors
    ///
    /// What could make an ID repeat.
    pub fn may_replace(&self, old: &Declaration) -> Result<(), Change> {
        if self.kind.shape != old.kind.shape || self.layout.has_time() != old.layout.has_time() {
            return Err(Change::Kind { old: old.kind.word, new: self.kind.word });
        }
        let below = |declaration: &Declaration| {
            declaration.layout.shift_of(Role::Time).unwrap_or_else(|| declaration.layout.bits())
        };
        if below(self) != below(old) {
            return Err(Change::Width { old: below(old), new: below(self) });
        }
        if self.layout.unit() != old.layout.unit() {
            return Err(Change::Unit { old: old.layout.unit(), new: self.layout.unit() });
        }
        let (old_ms, new_ms) = (old.layout.epoch_unix_ms(), self.layout.epoch_unix_ms());
        if new_ms > old_ms && !planted(Fault::LaterEpochAccepted) {
            return Err(Change::Epoch { old_unix_ms: old_ms, new_unix_ms: new_ms });
        }
        let fixed = |declaration: &Declaration| -> Vec<(String, u32, u32)> {
            let is_fixed = |role| matches!(role, Role::Constant(_) | Role::Server | Role::Drawn);
            let below = below(declaration);
            let places = declaration.layout.places().filter(|&(field, shift)| is_fixed(field.role) && shift < below);
            places.map(|(field, shift)| (field.name.clone(), shift, field.bits)).collect()
        };
        let (was, is) = (fixed(old), fixed(self));
        if let Some(moved) =
            was.iter().find(|place| !is.contains(place)).or(is.iter().find(|place| !was.contains(place)))
        {
            return Err(Change::Place { field: moved.0.clone() });
        }
        if self.format != old.format && !is_apart(self.format.as_ref(), old.format.as_ref()) {
            let text = |format: &Option<Format>| format.as_ref().map_or("none".to_owned(), ToString::to_string);
            return Err(Change::Format { old: text(&old.format), new: text(&self.format) });
        }
        Ok(())
    }
}

/// Whether no text of the new format can be one of the old format: it has a prefix that the old one has not.
fn is_apart(new: Option<&Format>, old: Option<&Format>) -> bool {
    let integer = Format { radix: Radix::Decimal, pad: 1, prefix: String::new(), grows: true };
    let old = old.unwrap_or(&integer);
    let Some(new) = new.filter(|new| !new.prefix.is_empty() && new.prefix != old.prefix) else { return false };
    let (shorter, longer, digits) = if new.prefix.len() < old.prefix.len() {
        (&new.prefix, &old.prefix, new.radix)
    } else {
        (&old.prefix, &new.prefix, old.radix)
    };
    // Where one begins with the other, what follows must have something that is no digit there.
    longer.strip_prefix(shorter.as_str()).is_none_or(|rest| {
        let is_digit = |byte: &u8| digits.alphabet().contains(byte);
        !rest.bytes().all(|byte| is_digit(&byte)) || (!new.grows && !old.grows && lengths_differ(new, old))
    })
}

fn lengths_differ(a: &Format, b: &Format) -> bool {
    a.prefix.len() + a.pad as usize != b.prefix.len() + b.pad as usize
}

/// Whether `name` may be a generator's: 1 to 128 bytes of `A-Z a-z 0-9 _ . : -`.
pub fn is_name(name: &str) -> bool {
    let is_in_range = (1..=NAME_BYTES_MAX).contains(&name.len());
    is_in_range && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
}

/// The options that are no fields.
pub const OPTIONS: [&str; 7] = ["epoch", "counter-start", "one-server", "format", "pad", "prefix", "overflow"];

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

/// What is wrong with a declaration. `Display` says what was read and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the sentence of each says it")]
pub enum DeclarationError {
    Name { name: String },
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
    NoConstant { name: String },
    Missing { name: String, max: u64 },
    CounterStart { text: String, last: u64 },
    Epoch { text: String, expected: String },
    Radix { word: String },
    Prefix { text: String },
    Overflow { word: String },
    Fields(FieldsError),
}

impl DeclarationError {
    /// The option that it is about, `kind` and `layout` (all fields) among them; `None`: the declaration as a whole.
    pub fn option(&self) -> Option<&str> {
        Some(match self {
            Self::Name { .. } | Self::NoKind | Self::TooLong | Self::Missing { .. } => return None,
            Self::Kind { .. } => "kind",
            Self::NoValue { option } | Self::Twice { option } | Self::Number { option, .. } => option,
            Self::Option { name, .. } | Self::NoConstant { name } | Self::Fields(FieldsError::Value { name, .. }) => {
                name
            }
            Self::NotForKind { option, .. } => option,
            Self::CounterStart { .. } => "counter-start",
            Self::Epoch { .. } => "epoch",
            Self::Radix { .. } => "format",
            Self::Prefix { .. } => "prefix",
            Self::Overflow { .. } => "overflow",
            Self::NoFields
            | Self::NoTime
            | Self::Field { .. }
            | Self::FieldIsOption { .. }
            | Self::FixedFields { .. }
            | Self::NoSuchField { .. }
            | Self::Unit { .. }
            | Self::NoUnit { .. }
            | Self::Fields(_) => "layout",
        })
    }
}

/// How much of a word an error quotes, characters.
const QUOTED_MAX: usize = 64;

struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'")?;
        for c in self.0.chars().take(QUOTED_MAX) {
            write!(f, "{}", c.escape_debug())?;
        }
        f.write_str(if self.0.chars().count() > QUOTED_MAX { "...'" } else { "'" })
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
            Self::NotForKind { option, kind } => {
                write!(f, "{option} is for integers, and {kind} is written in its own way")
            }
            Self::Number { option, text, max } => {
                write!(f, "{option} is {}, must be a whole number from 0 to {max}", Quoted(text))
            }
            Self::NoConstant { name } => write!(f, "the field {} can't be given a value", Quoted(name)),
            Self::Missing { name, max } => {
                write!(f, "the field '{name}' has no value, must have one, as in: {name} 0 (up to {max})")
            }
            Self::CounterStart { text, last } => {
                write!(f, "counter-start is {}, must be 0..N with N at most {last}, as in 0..9", Quoted(text))
            }
            Self::Epoch { text, expected } => write!(f, "epoch is {}: {expected}", Quoted(text)),
            Self::Radix { word } => {
                let words: Vec<_> = Radix::ALL.iter().map(|radix| radix.word()).collect();
                write!(f, "format is {}, must be one of {}", Quoted(word), words.join(", "))
            }
            Self::Prefix { text } => write!(
                f,
                "prefix is {}, must be up to {PREFIX_BYTES_MAX} printable ASCII characters without spaces and quotes",
                Quoted(text)
            ),
            Self::Overflow { word } => write!(f, "overflow is {}, must be error or grow", Quoted(word)),
            Self::Fields(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for DeclarationError {}

/// What a new declaration of a name changes that could make an ID repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the sentence of each says it")]
pub enum Change {
    Kind { old: &'static str, new: &'static str },
    Width { old: u32, new: u32 },
    Unit { old: Unit, new: Unit },
    Epoch { old_unix_ms: i64, new_unix_ms: i64 },
    Place { field: String },
    Format { old: String, new: String },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Kind { old, new } => write!(f, "its kind was {old} and is {new} now"),
            Change::Width { old, new } => write!(f, "there were {old} bits below its time and are {new} now"),
            Change::Unit { old, new } => write!(f, "its unit was {old} and is {new} now"),
            Change::Epoch { old_unix_ms, new_unix_ms } => {
                write!(f, "its epoch was {old_unix_ms} (Unix ms) and is {new_unix_ms} now, which is later")
            }
            Change::Place { field } => write!(f, "its field '{field}' has another place or width than before"),
            Change::Format { old, new } => {
                write!(f, "its format was {old} and is {new} now, without a prefix of its own that tells them apart")
            }
        }
    }
}
