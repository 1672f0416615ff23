//! Readings of an ID by kinds: the fields that a number or a text has in each kind that no generator declares.
//!
//! Many kinds read the same integer, and nothing in it names its kind. Its time does: IDs that people look up are
//! recent. So readings are ordered by the distance of their times from now, and times far ahead are left out.
//!
//! All of it is derived from the table of kinds: the declarations, and the forms of their texts, which are collected
//! from texts that each kind writes.
//!
//! Invariant: an ID has at most [`KIND_READINGS_MAX`] readings.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use crate::declaration::{Declaration, no_dates};
use crate::fields::FieldLayout;
use crate::kind::KINDS;
use crate::number::{Number, low_ones};

/// Largest number of readings of an ID by kinds.
pub const KIND_READINGS_MAX: usize = 8;

/// A time further ahead of now than this, ms, is implausible in an ID of a kind that no generator declares: 400 days,
/// because a clock may be a year wrong.
const KIND_AHEAD_MAX_MS: i64 = 400 * 24 * 3600 * 1000;

/// Largest number of forms in a sentence about a text that no kind reads.
const FORMS_MAX: usize = 3;

/// Largest number of kinds of one form that the sentence names.
const FORM_KINDS_MAX: usize = 4;

/// Largest part of a text that is compared with the forms, bytes: longer than the ID of any kind.
const COMPARED_BYTES_MAX: usize = 128;

/// Number of texts from which the characters of a form are collected. Each has at least 13 characters if it is not an
/// integer, so a character of 64 is missed with a chance below `(63/64)^(13 * 256)`, which is 10^-22.
const SAMPLES: u64 = 256;

/// Reads the IDs of one kind.
#[derive(Debug, PartialEq, Eq)]
pub struct KindReader {
    declaration: Declaration,
    /// Words of other kinds whose IDs have the same fields.
    same: Vec<&'static str>,
    form: TextForm,
}

impl KindReader {
    /// Returns the declaration of the kind without options. Its name is the word of the kind.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// Returns the description of the kind in one line, with the kinds whose IDs have the same fields.
    pub fn description(&self) -> String {
        let doc = self.declaration.kind().doc;
        if self.same.is_empty() { doc.to_string() } else { format!("{doc}; the same as {}", self.same.join(", ")) }
    }
}

/// An ID as one kind reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindReading<'a> {
    /// The kind.
    pub reader: &'a KindReader,
    /// The number of the ID.
    pub number: Number,
}

impl KindReading<'_> {
    /// Returns the time that the ID holds, Unix ms; `None` if IDs of the kind hold no time.
    pub fn unix_ms(&self) -> Option<i64> {
        let layout = self.reader.declaration.layout();
        layout.tick_of(self.number).map(|tick| layout.unix_ms(tick))
    }

    /// Returns true if a generator of this declaration reads the same fields in the number.
    pub fn is_of(&self, declaration: &Declaration, number: Number) -> bool {
        self.number == number && reads_alike(&self.reader.declaration, declaration)
    }

    /// Returns true if the layout of integers reads the same fields in the number.
    pub fn is_of_layout(&self, layout: &FieldLayout) -> bool {
        self.reader.declaration.is_integer() && has_same_fields(self.reader.declaration.layout(), layout)
    }
}

/// Readers of all kinds.
#[derive(Debug)]
pub struct KindReaders {
    readers: Vec<KindReader>,
}

impl Default for KindReaders {
    fn default() -> KindReaders {
        KindReaders::new()
    }
}

impl KindReaders {
    /// Creates the readers of all kinds that have fields of their own. Kinds with the same fields and texts share one.
    pub fn new() -> KindReaders {
        let mut readers: Vec<KindReader> = Vec::new();
        for kind in KINDS.iter().filter(|kind| !kind.fields.is_empty()) {
            let Ok(declaration) = Declaration::parse(&[kind.word, kind.word], no_dates) else { continue };
            let is_same = |known: &&mut KindReader| {
                let known = &known.declaration;
                known.format() == declaration.format() && reads_alike(known, &declaration)
            };
            if let Some(known) = readers.iter_mut().find(is_same) {
                known.same.push(kind.word);
            } else {
                let form = TextForm::of(&declaration);
                readers.push(KindReader { declaration, same: Vec::new(), form });
            }
        }
        KindReaders { readers }
    }

    /// Returns the readers, in the order of the table of kinds.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &KindReader> {
        self.readers.iter()
    }

    /// Returns the reader whose kind has this word.
    pub fn find(&self, word: &str) -> Option<&KindReader> {
        self.readers.iter().find(|reader| reader.declaration.name() == word)
    }

    /// Returns the readings of a text by all kinds, in the order of the table.
    pub fn read(&self, text: &str) -> Vec<KindReading<'_>> {
        let read = |reader| Some(KindReading { reader, number: KindReader::declaration(reader).read(text)? });
        self.readers.iter().filter_map(read).collect()
    }

    /// Returns the forms of IDs that are nearest to a text which no kind reads.
    pub fn nearest_forms(&self, text: &[u8]) -> NearestForms {
        let compared = &text[..text.len().min(COMPARED_BYTES_MAX)];
        // Integers differ in their length alone.
        let mut forms: BTreeMap<(usize, u128), (usize, Vec<&'static str>)> = BTreeMap::new();
        for KindReader { declaration, form, .. } in &self.readers {
            let (bytes_max, words) = forms.entry((form.bytes_min, form.characters)).or_default();
            *bytes_max = form.bytes_max.max(*bytes_max);
            words.push(declaration.kind().word);
        }
        let form =
            |((bytes_min, characters), (bytes_max, words))| (TextForm { bytes_min, bytes_max, characters }, words);
        let mut nearest: Vec<(TextForm, Vec<&'static str>)> = forms.into_iter().map(form).collect();
        nearest.sort_by_key(|(form, _)| form.distance(compared, text.len()));
        nearest.truncate(FORMS_MAX);
        let described = nearest.into_iter().map(|(form, words)| {
            let more = if words.len() > FORM_KINDS_MAX { " and others" } else { "" };
            let words = words[..words.len().min(FORM_KINDS_MAX)].join(", ");
            format!("{words}{more}: {form}{}", form.difference(compared, text.len()))
        });
        NearestForms { forms: described.collect() }
    }
}

/// Orders readings of one ID, the most plausible first, and leaves out all but [`KIND_READINGS_MAX`].
///
/// Readings whose time is nearest to now come first, then those without a time. Those with a time more than 400 days
/// ahead are left out, unless there are no others. Of equal times, the kind with fewer bits comes first: more of its
/// texts' bits are fixed, as the version of a UUID, and fit by chance less often.
pub fn most_plausible<'a>(mut readings: Vec<KindReading<'a>>, now_unix_ms: i64) -> Vec<KindReading<'a>> {
    let is_ahead = |reading: &KindReading<'a>| {
        reading.unix_ms().is_some_and(|unix_ms| unix_ms > now_unix_ms.saturating_add(KIND_AHEAD_MAX_MS))
    };
    if !readings.iter().all(is_ahead) {
        readings.retain(|reading| !is_ahead(reading));
    }
    readings.sort_by_key(|reading| {
        let distance = reading.unix_ms().map(|unix_ms| unix_ms.abs_diff(now_unix_ms));
        (distance.is_none(), distance, reading.reader.declaration.layout().bits())
    });
    readings.truncate(KIND_READINGS_MAX);
    readings
}

/// Returns true if both declarations read the same fields in a number, and write numbers alike apart from a format.
fn reads_alike(one: &Declaration, other: &Declaration) -> bool {
    one.kind().shape == other.kind().shape && has_same_fields(one.layout(), other.layout())
}

/// Returns true if both layouts have fields of the same names and widths, and the same time.
fn has_same_fields(one: &FieldLayout, other: &FieldLayout) -> bool {
    let fields = |layout: &FieldLayout| -> Vec<(String, u32)> {
        layout.fields().iter().map(|field| (field.name.clone(), field.bits)).collect()
    };
    let is_same_time = (one.epoch_unix_ms(), one.unit()) == (other.epoch_unix_ms(), other.unit());
    (is_same_time || !one.has_time()) && fields(one) == fields(other)
}

/// The form of a kind's texts: their lengths and characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TextForm {
    bytes_min: usize,
    bytes_max: usize,
    /// The ASCII characters of the texts, one bit for each.
    characters: u128,
}

impl TextForm {
    /// Collects the form from texts of a declaration's numbers: the lowest, the highest, and others.
    fn of(declaration: &Declaration) -> TextForm {
        let last = low_ones(declaration.layout().bits());
        let mut form = TextForm { bytes_min: usize::MAX, bytes_max: 0, characters: 0 };
        let mut text = Vec::new();
        for sample in 0..SAMPLES {
            let number = match sample {
                0 => Number::ZERO,
                1 => last,
                _ => mixed(sample) & last,
            };
            text.clear();
            if !declaration.write(number, &mut text) {
                continue;
            }
            form.bytes_min = form.bytes_min.min(text.len());
            form.bytes_max = form.bytes_max.max(text.len());
            form.characters = text.iter().fold(form.characters, |all, &byte| all | bit_of(byte));
        }
        form
    }

    /// Returns true if texts of this form have the character. The case of a letter matters only if they have both.
    fn has(&self, byte: u8) -> bool {
        let swapped = if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
        let has_case = |letters: core::ops::RangeInclusive<u8>| {
            letters.fold(0, |all, byte| all | bit_of(byte)) & self.characters != 0
        };
        let is_mixed = has_case(b'a'..=b'z') && has_case(b'A'..=b'Z');
        self.characters & bit_of(byte) != 0 || (!is_mixed && self.characters & bit_of(swapped) != 0)
    }

    /// Returns the number of characters that a text has too many or too few, and of those that this form has not.
    fn distance(&self, compared: &[u8], len: usize) -> usize {
        let foreign = compared.iter().filter(|&&byte| !self.has(byte)).count();
        foreign + self.bytes_min.saturating_sub(len) + len.saturating_sub(self.bytes_max)
    }

    /// Returns a clause with the difference of a text from this form.
    fn difference(&self, compared: &[u8], len: usize) -> String {
        if !(self.bytes_min..=self.bytes_max).contains(&len) {
            return format!(", but this has {len}");
        }
        match compared.iter().find(|&&byte| !self.has(byte)) {
            Some(byte) => format!(", but this has '{}'", byte.escape_ascii()),
            None => ", but its value is out of range".to_string(),
        }
    }
}

/// Writes the lengths and the characters: `24 characters of 0-9a-f`.
impl fmt::Display for TextForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bytes_min < self.bytes_max {
            write!(f, "{} to ", self.bytes_min)?;
        }
        write!(f, "{} characters of ", self.bytes_max)?;
        let is_in = |byte: u8| self.characters & bit_of(byte) != 0;
        let mut byte = 0_u8;
        while byte < 128 {
            let first = byte;
            while byte < 128 && is_in(byte) {
                byte += 1;
            }
            match byte - first {
                0 => byte += 1,
                count => {
                    f.write_str(core::str::from_utf8(&[first]).unwrap_or_default())?;
                    // Two neighbours need no dash between them.
                    if count > 2 {
                        f.write_str("-")?;
                    }
                    if count > 1 {
                        f.write_str(core::str::from_utf8(&[byte - 1]).unwrap_or_default())?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the bit of an ASCII character; 0 for another byte.
fn bit_of(byte: u8) -> u128 {
    if byte < 128 { 1 << byte } else { 0 }
}

/// Returns well-mixed bits for each index (`SplitMix64`).
fn mixed(index: u64) -> Number {
    let part = |at: u64| {
        let mut bits = (index * 4 + at).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    };
    let half = |first: u64| u128::from(part(first)) << 64 | u128::from(part(first + 1));
    Number::from_words(half(0), half(2))
}

/// The forms of IDs that are nearest to a text which no kind reads. `Display` is a sentence without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestForms {
    forms: Vec<String>,
}

impl fmt::Display for NearestForms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no kind reads it; nearest forms: {}", self.forms.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-26T20:00:00Z, in Unix ms.
    const NOW: i64 = 1_795_723_200_000;

    fn words(readers: &KindReaders, id: &str) -> Vec<&'static str> {
        let readings = most_plausible(readers.read(id), NOW);
        readings.iter().map(|reading| reading.reader.declaration.kind().word).collect()
    }

    #[test]
    fn every_kind_with_fields_has_a_reader() {
        let readers = KindReaders::new();
        for kind in KINDS.iter().filter(|kind| !kind.fields.is_empty()) {
            let mut known = readers.iter();
            let is_of = |reader: &KindReader| reader.declaration.kind() == kind || reader.same.contains(&kind.word);
            assert!(known.any(is_of), "{}", kind.word);
        }
        assert_eq!(
            readers.find("chronos").map(KindReader::description).unwrap(),
            "Chronos's timestamps, 64 bits; the same as pd"
        );
    }

    #[test]
    fn each_kind_reads_its_own_ids() {
        let readers = KindReaders::new();
        for reader in readers.iter() {
            let mut text = Vec::new();
            let layout = reader.declaration.layout();
            let now = layout.tick_at(i128::from(NOW) * 1_000_000).unwrap_or(0);
            let number = layout.span(now, now).map_or(Number::from(5_u8), |span| span.0 | Number::from(5_u8));
            assert!(reader.declaration.write(number, &mut text));
            let text = String::from_utf8(text).unwrap();
            let readings = readers.read(&text);
            let own = readings.iter().find(|reading| reading.reader == reader);
            assert_eq!(own.map(|reading| reading.number), Some(number), "{text}");
            assert!(most_plausible(readings, NOW).len() <= KIND_READINGS_MAX);
            let form = reader.form;
            assert!((form.bytes_min..=form.bytes_max).contains(&text.len()), "{text}: {form}");
            assert!(text.bytes().all(|byte| form.has(byte)), "{text}: {form}");
        }
    }

    #[test]
    fn the_reading_nearest_to_now_comes_first() {
        let readers = KindReaders::new();
        // A tweet of an hour ago: 506,884,625,343 ms behind the epoch.
        assert_eq!(words(&readers, &(506_884_625_343_u64 << 22).to_string())[..2], ["twitter", "leaf"]);
        // One of 2022 can be newer IDs of other systems.
        assert!(words(&readers, "1541815603606036480").contains(&"twitter"));
        let of_now = most_plausible(readers.read("787043147958976551"), NOW);
        assert_eq!(of_now[0].reader.declaration.name(), "fork");
        let times: Vec<_> = of_now.iter().filter_map(KindReading::unix_ms).collect();
        assert!(times.is_sorted_by_key(|time| time.abs_diff(NOW)), "{times:?}");
        assert!(times.iter().all(|&time| time <= NOW + KIND_AHEAD_MAX_MS), "{times:?}");
        // A kind without a time comes last, if others have a plausible one.
        assert_eq!(words(&readers, "919108f7-52d1-4320-9bac-f847db4148a8"), ["uuid4"]);
        // A TypeID without a prefix may be a ULID in small letters.
        assert_eq!(words(&readers, "01h455vb4pex5vsknk084sn02q"), ["typeid", "ulid"]);
        // No kind has a plausible time for a UUID of version 7 in the year 10889.
        assert_eq!(words(&readers, "ffffffff-ffff-7000-8000-000000000000"), ["uuid7"]);
    }

    #[test]
    fn a_text_that_no_kind_reads_has_its_nearest_forms() {
        let readers = KindReaders::new();
        let sentence = |text: &[u8]| readers.nearest_forms(text).to_string();
        let hex = sentence(b"58bd2dbd000000000500000");
        assert!(hex.contains("objectid: 24 characters of 0-9a-f, but this has 23"), "{hex}");
        let uuid = sentence(b"017f22e2-79b0-7cc3-98c4-dc0c0c07398g");
        assert!(uuid.contains("uuid7 and others: 36 characters of -0-9a-f, but this has 'g'"), "{uuid}");
        let version = sentence(b"017f22e2-79b0-9cc3-98c4-dc0c0c07398f");
        assert!(version.contains("36 characters of -0-9a-f, but its value is out of range"), "{version}");
        // Bounded, whatever it is.
        for text in [&b""[..], &[0xff; 5000], &b"0".repeat(100_000)] {
            let sentence = sentence(text);
            assert!(sentence.is_ascii() && sentence.len() < 600, "{sentence}");
        }
    }
}
