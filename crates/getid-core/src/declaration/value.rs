//! The value of a parsed declaration.

use alloc::borrow::ToOwned as _;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::seal::SealDeclaration;
use crate::advice::QuietEvenness;
use crate::checks::{Fault, planted};
use crate::fields::{Field, FieldLayout, ID_BITS_MAX, INTEGER_BITS_MAX, Role};
use crate::format::Format;
use crate::kind::nano_id::NanoId;
use crate::kind::{Kind, Shape};
use crate::number::{Number, low_bits, low_bits_64, low_ones};
use crate::radix::Radix;

/// Longest name of a generator, bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// Longest name of a field, bytes.
pub(super) const FIELD_NAME_BYTES_MAX: usize = 32;

/// Most words of a declaration without its name: every field of the widest layout, and a value for each.
pub const WORDS_MAX: usize = 4 * ID_BITS_MAX as usize;

/// Words of options that were added after declarations had been recorded. Where a field has such a name, the word is
/// the field's value, and the option can't be given.
pub(super) const FIELD_OPTIONS: [&str; 5] = ["alphabet", "length", "seal", "key-file", "answer"];

/// Names of the options that are not fields.
pub const OPTIONS: [&str; 12] = [
    "epoch",
    "counter-start",
    "one-server",
    "format",
    "pad",
    "prefix",
    "overflow",
    "alphabet",
    "length",
    "seal",
    "key-file",
    "answer",
];

/// Longest prefix of a `TypeID`, bytes (its specification, version 0.3).
pub(super) const TYPE_PREFIX_BYTES_MAX: usize = 63;

/// Word of the option `format` for numbers without a text.
pub(super) const INTEGER: &str = "integer";

/// The record's word for a format in which IDs were written before.
pub(super) const FORMERLY: &str = "formerly";

/// The document for which a declaration is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeclarationDocument {
    /// The record of a server.
    Recorded,
    /// A configuration.
    Declared,
    /// The common record of a fleet.
    Common,
}

/// A valid declaration of a named generator: the kind of its IDs, their fields, and how they are written.
///
/// It reads and writes IDs of other systems too. A tweet of 2022:
///
/// ```
/// use getid_core::{Declaration, FieldLayout, Role, UtcMs, no_dates};
///
/// let tweets = Declaration::parse(&["tweets", "twitter"], no_dates).expect("a kind of the table");
/// let id = tweets.read("1541815603606036480").expect("an ID of this kind");
///
/// let layout = tweets.layout();
/// let tick = layout.tick_of(id).expect("an ID of this kind has a time");
/// assert_eq!(UtcMs(layout.unix_ms(tick)).to_string(), "2022-06-28T16:07:40.105Z");
///
/// let fields = layout.places().filter(|(field, _)| field.role != Role::Time);
/// let values: Vec<_> = fields.map(|(field, shift)| (&*field.name, FieldLayout::value(field, shift, id))).collect();
/// assert_eq!(values, [("datacenter", 11), ("worker", 26), ("counter", 0)]);
/// ```
///
/// [`NamedGenerator::number`](crate::NamedGenerator::number) composes an ID from a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    pub(super) name: String,
    pub(super) kind: &'static Kind,
    pub(super) layout: FieldLayout,
    pub(super) format: Option<Format>,
    /// The text before the text of a text kind, with the `_` of a `TypeID`.
    pub(super) prefix: String,
    /// The texts of a `nanoid`.
    pub(super) nano_id: Option<NanoId>,
    pub(super) counter_start: u64,
    pub(super) one_server: Option<u32>,
    /// Worker fields whose values were set by hand. Sorted by name, as `drawn` is, so that the written order makes no
    /// difference.
    pub(super) by_hand: BTreeSet<String>,
    /// Known values of fields that are drawn once.
    pub(super) drawn: BTreeMap<String, u64>,
    /// Former formats of this name's IDs, each different from the present one.
    pub(super) former: Vec<Format>,
    /// How its IDs are sealed. No part of a record: a seal changes no ID.
    pub(super) seal: Option<SealDeclaration>,
}

impl Declaration {
    /// Returns the declaration as one line, equal for declarations with equal meaning: its fields in full, its epoch in
    /// Unix ms, known drawn values.
    pub fn to_text(&self) -> String {
        let mut text = self.words(DeclarationDocument::Recorded);
        for former in &self.former {
            text = format!("{text} {FORMERLY} {}", former.former_text());
        }
        text
    }

    /// Returns the declaration for a configuration: [`Declaration::to_text`] without the record's knowledge of earlier
    /// lives, and with the seal.
    pub fn declared_text(&self) -> String {
        self.words(DeclarationDocument::Declared)
    }

    /// Returns the part that must be equal on all servers of a fleet. It is [`Declaration::declared_text`] with a `*`
    /// for the value of each constant, and without values of drawn fields and the seal. Those may differ by server.
    pub fn common_text(&self) -> String {
        self.words(DeclarationDocument::Common)
    }

    fn words(&self, whose: DeclarationDocument) -> String {
        let mut text = format!("{} {}", self.name, self.kind.word);
        let mut add = |part: String| {
            text.push(' ');
            text.push_str(&part);
        };
        if self.kind.shape == Shape::Number {
            add(self.layout.to_string());
            let is_left_out = |(name, ..): &&(&str, u32, Role)| self.layout.field(name).is_none();
            self.kind.fields.iter().filter(is_left_out).for_each(|(name, ..)| add(format!("{name}:0")));
            if self.layout.has_time() {
                add(format!("epoch {}", self.layout.epoch_unix_ms()));
            }
        }
        for field in self.layout.fields() {
            match field.role {
                Role::Constant(_) if whose == DeclarationDocument::Common => add(format!("{} *", field.name)),
                Role::Constant(value) => add(format!("{} {value}", field.name)),
                Role::Drawn if whose != DeclarationDocument::Common => {
                    if let Some(value) = self.drawn_value(&field.name) {
                        // A record has numbers alone, and its texts are compared.
                        let is_recorded = whose == DeclarationDocument::Recorded;
                        let value = if is_recorded { value.to_string() } else { field.declared_value(value) };
                        add(format!("{} {value}", field.name));
                    }
                }
                _ => {}
            }
        }
        // If it is missing, it is 0 in a record, and the kind's default in a configuration.
        let has_own = self.kind.counter_start > 0 && self.layout.counter_bits() > 0;
        if self.counter_start > 0 || (has_own && whose != DeclarationDocument::Recorded) {
            add(format!("counter-start 0..{}", self.counter_start));
        }
        if let Some(server_id) = self.one_server {
            add(format!("one-server {server_id}"));
        }
        if let Some(style) = self.style_text() {
            add(style);
        }
        if let Some(seal) = self.seal.as_ref().filter(|_| whose == DeclarationDocument::Declared) {
            add(seal.to_string());
        }
        text
    }

    /// Returns the options by which its IDs are written, as they are declared: `format base62 pad 11`, `prefix user_`;
    /// `None` if there are none.
    fn style_text(&self) -> Option<String> {
        if let Some(format) = &self.format {
            return Some(format.to_string());
        }
        if self.kind.radix.is_some() {
            return Some(format!("format {INTEGER}"));
        }
        let mut parts = Vec::new();
        if let Some(nano_id) = &self.nano_id {
            if *nano_id.alphabet() != NanoId::default_alphabet() {
                parts.push(format!("alphabet {}", nano_id.alphabet()));
            }
            parts.push(format!("length {}", nano_id.length()));
        }
        if !self.prefix.is_empty() {
            // The `_` behind the prefix of a TypeID is not declared.
            let declared = self.prefix.strip_suffix('_').filter(|_| self.kind.shape == Shape::TypeId);
            parts.push(format!("prefix {}", declared.unwrap_or(&self.prefix)));
        }
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    /// Returns how its IDs are written, without the word `format`: `base62 pad 11 prefix T-`, `length 21`. `None` if
    /// the kind alone describes it.
    pub fn written_as(&self) -> Option<String> {
        self.style_text().map(|text| text.strip_prefix("format ").map_or_else(|| text.clone(), str::to_owned))
    }

    /// Returns how its IDs are sealed, if they are.
    pub fn seal(&self) -> Option<&SealDeclaration> {
        self.seal.as_ref()
    }

    /// Returns the declaration without its seal, as records have it.
    #[must_use]
    pub fn without_seal(self) -> Declaration {
        Declaration { seal: None, ..self }
    }

    /// Returns the generator's name, 1 to 128 bytes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the generator's kind.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Returns the layout of the generator's numbers.
    pub fn layout(&self) -> &FieldLayout {
        &self.layout
    }

    /// Returns the Unix time in ms at which its last tick ends; `None` for a kind without time.
    pub fn ends_unix_ms(&self) -> Option<i64> {
        self.layout.has_time().then(|| self.layout.end_unix_ms())
    }

    /// Returns the format of its numbers, if it is not the kind's own.
    pub fn format(&self) -> Option<&Format> {
        self.format.as_ref()
    }

    /// Returns the text before that of each ID; empty without one.
    pub fn prefix(&self) -> &str {
        self.format.as_ref().map_or(&self.prefix, |format| &format.prefix)
    }

    /// Returns the characters of its texts, if they are declared, those of a format, or base62.
    pub fn characters(&self) -> Option<&[u8]> {
        match (&self.format, &self.nano_id) {
            (Some(format), _) => Some(format.notation.alphabet()),
            (None, Some(nano_id)) => Some(nano_id.alphabet().as_bytes()),
            (None, None) => (self.kind.shape == Shape::Ksuid).then(|| Radix::Base62.alphabet()),
        }
    }

    /// Returns the expected form of its IDs, as a noun.
    pub fn description(&self) -> String {
        let before = if self.prefix().is_empty() { String::new() } else { format!("'{}' and ", self.prefix()) };
        match (&self.nano_id, self.kind.shape) {
            (Some(nano_id), _) => format!("{before}{} characters of {}", nano_id.length(), nano_id.alphabet().as_str()),
            (None, Shape::Number) => format!("a decimal number of at most {} bits", self.layout.bits()),
            (None, shape) => format!("{before}{}", shape.description()),
        }
    }

    /// Returns the highest random start of a unit that was not borrowed; 0: units start at 0.
    pub fn counter_start(&self) -> u64 {
        self.counter_start
    }

    /// Returns how evenly its IDs spread over `id % modulus`, by default over up to 1,024 tables, while it gives few of
    /// them. `None` if its IDs are texts of digits other than decimal, which tables place by a hash.
    pub fn quiet_evenness(&self, modulus: Option<u64>) -> Option<QuietEvenness> {
        let is_number = self.kind.shape == Shape::Number && self.format.is_none();
        is_number.then(|| QuietEvenness::of(&self.layout, self.counter_start, modulus))
    }

    /// Returns the only server that may give its IDs (`one-server`).
    pub fn one_server(&self) -> Option<u32> {
        self.one_server
    }

    /// Returns worker fields of its kind whose values were set by hand: servers must differ in them.
    pub fn by_hand(&self) -> &BTreeSet<String> {
        &self.by_hand
    }

    /// Returns the number of bits that distinguish its servers: the server-id's, and those of worker fields set by
    /// hand.
    pub fn server_bits(&self) -> u32 {
        let is_servers = |field: &&Field| field.role == Role::Server || self.by_hand.contains(&field.name);
        self.layout.fields().iter().filter(is_servers).map(|field| field.bits).sum()
    }

    /// Returns true if several servers with this declaration could give the same ID, apart from `one-server`. Then it
    /// has no server-id of `id_range` bits, and nothing in it is random.
    pub fn is_same_on_servers(&self, id_range: u32) -> bool {
        if planted(Fault::ServersShareLayout) {
            return false;
        }
        self.is_number_in_time() && self.server_bits() < id_range
    }

    /// Returns true for numbers that distinguish servers only by a server-id. Drawn values of text kinds, and the noise
    /// of kinds without a time, differ by chance.
    pub(super) fn is_number_in_time(&self) -> bool {
        self.kind.shape == Shape::Number && self.layout.has_time()
    }

    /// Returns true if its IDs are integers on the wire.
    pub fn is_integer(&self) -> bool {
        self.kind.shape == Shape::Number && self.format.is_none() && self.layout.bits() <= INTEGER_BITS_MAX
    }

    /// Returns true if a server's IDs ascend, as numbers. Texts ascend too if all have one width: those of a text kind,
    /// and of a format that does not grow; [`Declaration::has_ordered_texts`] is false of those that never do.
    pub fn is_ordered(&self) -> bool {
        self.kind.shape.is_ordered() && self.layout.has_time()
    }

    /// Returns true if a span of time is a span of its IDs as they are written: its numbers ascend, and its texts sort
    /// as they do, as far as they have one length.
    pub fn has_ordered_texts(&self) -> bool {
        self.is_ordered() && self.format.as_ref().is_none_or(Format::is_ordered)
    }

    /// Returns the fields whose values are drawn once, with the width of each, bits.
    pub fn drawn_fields(&self) -> impl Iterator<Item = (&str, u32)> {
        let is_drawn = |field: &&Field| field.role == Role::Drawn;
        self.layout.fields().iter().filter(is_drawn).map(|field| (field.name.as_str(), field.bits))
    }

    /// Returns the value of a drawn field, if it is known.
    pub fn drawn_value(&self, name: &str) -> Option<u64> {
        self.drawn.get(name).copied()
    }

    /// Sets each drawn field without a value by `draw`, which receives name and width.
    pub fn draw_missing(&mut self, mut draw: impl FnMut(&str, u32) -> u64) {
        let missing: Vec<_> = self.drawn_fields().map(|(name, bits)| (name.to_owned(), bits)).collect();
        for (name, bits) in missing {
            if self.drawn_value(&name).is_none() {
                let value = draw(&name, bits) & low_bits_64(bits);
                // This bit marks a node that is not a network card's address (RFC 9562, section 6.10).
                let value = if name == "node" { value | 1 << 40 } else { value };
                self.drawn.insert(name, value);
            }
        }
    }

    /// Takes over the settled values of earlier lives: drawn values that are not set, and former formats.
    pub fn keep_drawn(&mut self, old: &Declaration) {
        let kept: Vec<_> =
            self.drawn_fields().filter_map(|(name, _)| Some((name.to_owned(), old.drawn_value(name)?))).collect();
        for (name, value) in kept {
            if self.drawn_value(&name).is_none() {
                self.drawn.insert(name, value);
            }
        }
        self.former = self.former_behind(old);
    }

    /// Returns the largest noise of an ID. All values from 0 on are equally likely.
    pub fn noise_max(&self) -> u128 {
        let bits = self.layout.bits_of(Role::Noise).min(u128::BITS);
        self.nano_id.as_ref().map_or_else(|| low_bits(bits), NanoId::last)
    }

    /// Draws the noise of one ID by `noise`, which returns fresh random bits. All texts of a `nanoid` are equally
    /// likely.
    #[inline]
    pub fn draw_noise(&self, mut noise: impl FnMut() -> u128) -> u128 {
        match &self.nano_id {
            None => noise(),
            Some(nano_id) => nano_id.draw(noise),
        }
    }

    /// Appends the ID of a number as text. Returns false, and appends nothing, if its format or alphabet refuses the
    /// number.
    #[must_use]
    pub fn write(&self, number: Number, out: &mut Vec<u8>) -> bool {
        if let Some(format) = &self.format {
            return format.write(number, out);
        }
        let start = out.len();
        out.extend_from_slice(self.prefix.as_bytes());
        if let Some(nano_id) = &self.nano_id {
            let has_text = nano_id.write(number, out);
            out.truncate(if has_text { out.len() } else { start });
            return has_text;
        }
        self.kind.shape.write(number, out);
        true
    }

    /// Parses an ID; `None` for texts that this generator does not write.
    pub fn read(&self, id: &str) -> Option<Number> {
        let number = match (&self.format, &self.nano_id) {
            (Some(format), _) => format.read(id),
            (None, Some(nano_id)) => nano_id.read(id.strip_prefix(self.prefix.as_str())?),
            (None, None) => self.kind.shape.read(id.strip_prefix(self.prefix.as_str())?),
        };
        number.filter(|&number| number <= low_ones(self.layout.bits()))
    }

    /// Returns the longest text of an ID, bytes.
    pub fn id_bytes_max(&self) -> usize {
        let bits = self.layout.bits();
        match (&self.format, &self.nano_id) {
            (Some(format), _) => format.bytes_max(bits),
            (None, Some(nano_id)) => self.prefix.len() + nano_id.length() as usize,
            (None, None) => self.prefix.len() + self.kind.shape.bytes_max(bits),
        }
    }
}

/// Returns true if a path of the HTTP port has another meaning with this name. There `-` is the unnamed generator, and
/// clients and proxies remove `.` and `..` from a path. No new generator, sequence or worker pool may have it.
pub fn is_reserved_name(name: &str) -> bool {
    matches!(name, "-" | "." | "..")
}

/// End of a sentence whose subject is a [reserved](is_reserved_name) name.
pub const RESERVED_NAME: &str =
    "means another thing in a path of the HTTP port, as do - and . and .. alone: take another name";

/// Returns true if `name` is valid for a generator: 1 to 128 bytes of `A-Z a-z 0-9 _ . : -`.
pub fn is_name(name: &str) -> bool {
    let is_in_range = (1..=NAME_BYTES_MAX).contains(&name.len());
    is_in_range && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte))
}
