//! Numbers as text whose order is that of the numbers, and as short codes without an order.
//!
//! The alphabets of all radixes are in ASCII order and the width is fixed, so that text sorts as the numbers do.
//! (Columns need a case-sensitive collation.) The codes are those of [`SqidsCode`].

use alloc::borrow::ToOwned as _;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use crate::alphabet::Alphabet;
use crate::number::Number;
use crate::radix::{Digits, Radix, parse_digits};
use crate::sqids::{SqidsCode, SqidsError};

/// Most digits of `pad`: a number of 160 bits has 49 decimal ones.
pub const PAD_MAX: u32 = 64;

/// Longest prefix, bytes.
pub const PREFIX_BYTES_MAX: usize = 64;

/// Returns true if texts of IDs may contain all characters: printable ASCII that needs no quotes in a configuration.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(&byte))
}

/// How the digits of a number are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Notation of a number, the most significant first.
    Radix(Radix),
    /// A code without an order.
    Sqids(SqidsCode),
}

impl Notation {
    /// The words that declare a notation.
    pub const WORDS: [&str; 7] = ["decimal", "hex", "base32", "base36", "base58", "base62", SqidsCode::WORD];

    /// Returns the word that declares it.
    pub fn word(&self) -> &'static str {
        match self {
            Notation::Radix(radix) => radix.word(),
            Notation::Sqids(_) => SqidsCode::WORD,
        }
    }

    /// Returns the characters of its texts.
    pub fn alphabet(&self) -> &[u8] {
        match self {
            Notation::Radix(radix) => radix.alphabet(),
            Notation::Sqids(code) => code.alphabet().as_bytes(),
        }
    }
}

/// How the numbers of a generator are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// How digits are written.
    pub notation: Notation,
    /// Smallest number of digits; shorter numbers are padded. Of [`Notation::Sqids`] it is the length that the code was
    /// created with.
    pub pad: u32,
    /// Text before the digits.
    pub prefix: String,
    /// Whether a number of more digits is written in full, which gives up the order of texts; otherwise it is refused.
    /// True of [`Notation::Sqids`].
    pub grows: bool,
}

impl Format {
    /// Creates the format of short codes. `pad` is at most [`PAD_MAX`].
    pub(crate) fn sqids(alphabet: Option<Alphabet>, pad: Option<u32>, prefix: String) -> Result<Format, SqidsError> {
        let pad = pad.unwrap_or(1).clamp(1, PAD_MAX);
        let code = SqidsCode::new(alphabet, u8::try_from(pad).unwrap_or(u8::MAX))?;
        Ok(Format { notation: Notation::Sqids(code), pad, prefix, grows: true })
    }

    /// Returns true if texts of equal length sort as their numbers do.
    pub fn is_ordered(&self) -> bool {
        matches!(self.notation, Notation::Radix(_))
    }

    /// Appends a number. Returns false, and appends nothing, if it has more digits than `pad` and may not grow, or if a
    /// code has no text for it.
    #[must_use]
    pub fn write(&self, number: Number, out: &mut Vec<u8>) -> bool {
        match &self.notation {
            Notation::Radix(radix) => self.write_digits(*radix, number, out),
            Notation::Sqids(code) => match code.write(number) {
                Some(text) => {
                    out.extend_from_slice(self.prefix.as_bytes());
                    out.extend_from_slice(text.as_bytes());
                    true
                }
                None => false,
            },
        }
    }

    fn write_digits(&self, radix: Radix, number: Number, out: &mut Vec<u8>) -> bool {
        let digits = Digits::of(number, radix);
        let pad = self.pad.clamp(1, PAD_MAX) as usize;
        if digits.len() > pad && !self.grows {
            return false;
        }
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(digits.padded(pad));
        true
    }

    /// Parses a text; `None` if this format does not write it. The case of letters is ignored if the radix has one case
    /// only.
    pub fn read(&self, text: &str) -> Option<Number> {
        let digits = text.strip_prefix(self.prefix.as_str())?;
        match &self.notation {
            Notation::Radix(radix) => self.read_digits(*radix, digits),
            Notation::Sqids(code) => code.read(digits).map(Number::from),
        }
    }

    fn read_digits(&self, radix: Radix, digits: &str) -> Option<Number> {
        let pad = self.pad.max(1) as usize;
        if digits.len() < pad || (digits.len() > pad && !self.grows) {
            return None;
        }
        let first = digits.bytes().next().and_then(|digit| radix.value(digit));
        let is_padded_more = digits.len() > pad && first == Some(0);
        if is_padded_more {
            return None;
        }
        parse_digits(digits, radix)
    }

    /// Returns the text by which a record keeps a former format: `base62/11/error/T-`, and `sqids:base58/8/grow/T-` of
    /// a code with an alphabet of its own.
    pub(crate) fn former_text(&self) -> String {
        let overflow = if self.grows { "grow" } else { "error" };
        let word = self.notation.word();
        let word = self.own_alphabet().map_or_else(|| word.to_owned(), |own| alloc::format!("{word}:{own}"));
        alloc::format!("{word}/{}/{overflow}/{}", self.pad, self.prefix)
    }

    /// Parses a text of [`Format::former_text`].
    pub(crate) fn from_former_text(text: &str) -> Option<Format> {
        let mut parts = text.splitn(4, '/');
        let word = parts.next()?;
        let pad = parts.next()?.parse().ok()?;
        let grows = parts.next()? == "grow";
        let prefix = parts.next()?.to_owned();
        let (word, alphabet) = word.split_once(':').map_or((word, None), |(word, own)| (word, Some(own)));
        if word == SqidsCode::WORD {
            let alphabet = alphabet.map(Alphabet::parse).transpose().ok()?;
            return Format::sqids(alphabet, Some(pad), prefix).ok();
        }
        Some(Format { notation: Notation::Radix(Radix::of_word(word)?), pad, prefix, grows })
    }

    /// Returns the longest text, bytes, for numbers of `bits` bits.
    pub fn bytes_max(&self, bits: u32) -> usize {
        let digits = match &self.notation {
            Notation::Radix(radix) => radix.digits_of(bits).max(self.pad) as usize,
            Notation::Sqids(code) => code.chars_max(bits),
        };
        self.prefix.len() + digits
    }

    /// Returns the alphabet of a code, unless it is the library's own.
    fn own_alphabet(&self) -> Option<&Alphabet> {
        match &self.notation {
            Notation::Radix(_) => None,
            Notation::Sqids(code) => code.own_alphabet(),
        }
    }

    /// Returns the options that declare it, each with its value.
    pub(crate) fn options(&self) -> Vec<(&'static str, String)> {
        let is_sqids = matches!(self.notation, Notation::Sqids(_));
        let mut options = Vec::from([("format", self.notation.word().to_owned())]);
        if let Some(alphabet) = self.own_alphabet() {
            options.push(("alphabet", alphabet.to_string()));
        }
        // A code has a character and a digit in any case.
        if !is_sqids || self.pad > 1 {
            options.push(("pad", self.pad.to_string()));
        }
        if !self.prefix.is_empty() {
            options.push(("prefix", self.prefix.clone()));
        }
        if self.grows && !is_sqids {
            options.push(("overflow", "grow".to_owned()));
        }
        options
    }
}

impl fmt::Display for Format {
    /// Writes the format as it is declared: `format base62 pad 11 prefix T-`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (option, value)) in self.options().into_iter().enumerate() {
            let between = if at > 0 { " " } else { "" };
            write!(f, "{between}{option} {value}")?;
        }
        Ok(())
    }
}
