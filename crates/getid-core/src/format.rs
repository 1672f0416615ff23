//! Numbers as text whose order is that of the numbers, and as short codes without an order.
//!
//! The alphabets of all radixes are in ASCII order and the width is fixed, so that text sorts as the numbers do.
//! (Columns need a case-sensitive collation.) The codes are those of [`SqidsCode`].

use alloc::borrow::ToOwned as _;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use crate::alphabet::Alphabet;
use crate::fields::low_bits;
use crate::sqids::{SqidsCode, SqidsError};

/// Most digits of `pad`: a number of 128 bits has 39 decimal ones.
pub const PAD_MAX: u32 = 64;

/// Longest prefix, bytes.
pub const PREFIX_BYTES_MAX: usize = 64;

/// The digits of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Radix {
    /// `decimal`: the digits 0 to 9.
    Decimal,
    /// `hex`, small letters
    Hex,
    /// `base32`, Crockford's: no I, L, O and U
    Base32,
    /// `base36`, small letters
    Base36,
    /// `base58`, Bitcoin's: no 0, I, O and l
    Base58,
    /// `base62`: digits, capitals, small letters.
    Base62,
}

impl Radix {
    /// All radixes, in the order of declaration.
    pub const ALL: [Radix; 6] =
        [Radix::Decimal, Radix::Hex, Radix::Base32, Radix::Base36, Radix::Base58, Radix::Base62];

    /// Returns the word that declares it.
    pub const fn word(self) -> &'static str {
        match self {
            Radix::Decimal => "decimal",
            Radix::Hex => "hex",
            Radix::Base32 => "base32",
            Radix::Base36 => "base36",
            Radix::Base58 => "base58",
            Radix::Base62 => "base62",
        }
    }

    /// Returns the radix that this word declares.
    pub(crate) fn of_word(word: &str) -> Option<Radix> {
        Radix::ALL.into_iter().find(|radix| radix.word() == word)
    }

    /// Returns the digits, in ASCII order.
    pub const fn alphabet(self) -> &'static [u8] {
        match self {
            Radix::Decimal => b"0123456789",
            Radix::Hex => b"0123456789abcdef",
            Radix::Base32 => b"0123456789ABCDEFGHJKMNPQRSTVWXYZ",
            Radix::Base36 => b"0123456789abcdefghijklmnopqrstuvwxyz",
            Radix::Base58 => b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
            Radix::Base62 => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        }
    }

    /// Returns the largest number of digits that a number of `bits` bits has.
    pub fn digits_of(self, bits: u32) -> u32 {
        let (mut number, mut digits) = (low_bits(bits), 1);
        while number >= self.base() {
            number /= self.base();
            digits += 1;
        }
        digits
    }

    fn base(self) -> u128 {
        self.alphabet().len() as u128
    }

    /// Returns the value of a digit. Letters of hex, base32 and base36 may be of either case. Base32 also accepts
    /// look-alikes (Crockford: O is 0, I and L are 1).
    fn value(self, digit: u8) -> Option<u128> {
        let digit = match self {
            Radix::Hex | Radix::Base36 => digit.to_ascii_lowercase(),
            Radix::Base32 => match digit.to_ascii_uppercase() {
                b'O' => b'0',
                b'I' | b'L' => b'1',
                upper => upper,
            },
            _ => digit,
        };
        self.alphabet().iter().position(|&known| known == digit).map(|place| place as u128)
    }
}

/// Returns true if texts of IDs may contain all characters: printable ASCII that needs no quotes in a configuration.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(&byte))
}

/// The characters of a format, and what they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Digits {
    /// Digits of a number, the most significant first.
    Radix(Radix),
    /// A code without an order.
    Sqids(SqidsCode),
}

impl Digits {
    /// The words that declare digits.
    pub const WORDS: [&str; 7] = ["decimal", "hex", "base32", "base36", "base58", "base62", SqidsCode::WORD];

    /// Returns the word that declares them.
    pub fn word(&self) -> &'static str {
        match self {
            Digits::Radix(radix) => radix.word(),
            Digits::Sqids(_) => SqidsCode::WORD,
        }
    }

    /// Returns all characters of their texts.
    pub fn alphabet(&self) -> &[u8] {
        match self {
            Digits::Radix(radix) => radix.alphabet(),
            Digits::Sqids(code) => code.alphabet().as_bytes(),
        }
    }
}

/// How the numbers of a generator are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The digits.
    pub digits: Digits,
    /// Smallest number of digits; shorter numbers are padded. Of [`Digits::Sqids`] it is the length that the code was
    /// created with.
    pub pad: u32,
    /// Text before the digits.
    pub prefix: String,
    /// Whether a number of more digits is written in full, which gives up the order of texts; otherwise it is refused.
    /// True of [`Digits::Sqids`].
    pub grows: bool,
}

impl Format {
    /// Creates a format of Sqids. `pad` is at most [`PAD_MAX`].
    pub(crate) fn sqids(alphabet: Option<Alphabet>, pad: Option<u32>, prefix: String) -> Result<Format, SqidsError> {
        let pad = pad.unwrap_or(1).clamp(1, PAD_MAX);
        let code = SqidsCode::new(alphabet, u8::try_from(pad).unwrap_or(u8::MAX))?;
        Ok(Format { digits: Digits::Sqids(code), pad, prefix, grows: true })
    }

    /// Returns true if texts of equal length sort as their numbers do.
    pub fn is_ordered(&self) -> bool {
        matches!(self.digits, Digits::Radix(_))
    }

    /// Appends a number. Returns false, and appends nothing, if it has more digits than `pad` and may not grow, or if a
    /// code has no text for it.
    #[must_use]
    pub fn write(&self, number: u128, out: &mut Vec<u8>) -> bool {
        match &self.digits {
            Digits::Radix(radix) => self.write_digits(*radix, number, out),
            Digits::Sqids(code) => match code.write(number) {
                Some(text) => {
                    out.extend_from_slice(self.prefix.as_bytes());
                    out.extend_from_slice(text.as_bytes());
                    true
                }
                None => false,
            },
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "what is cut off was compared or is 0")]
    fn write_digits(&self, radix: Radix, mut number: u128, out: &mut Vec<u8>) -> bool {
        let base = radix.base();
        let alphabet = radix.alphabet();
        let mut digits = [alphabet[0]; 128];
        let mut first = digits.len();
        // Most numbers fit 64 bits, whose division is far cheaper.
        while number > u128::from(u64::MAX) {
            first -= 1;
            digits[first] = alphabet[(number % base) as usize];
            number /= base;
        }
        let (mut small, base) = (number as u64, base as u64);
        while small > 0 {
            first -= 1;
            digits[first] = alphabet[(small % base) as usize];
            small /= base;
        }
        let pad = digits.len() - self.pad.clamp(1, PAD_MAX) as usize;
        if first < pad && !self.grows {
            return false;
        }
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(&digits[first.min(pad)..]);
        true
    }

    /// Parses a text; `None` if this format does not write it. The case of letters is ignored if the radix has one case
    /// only.
    pub fn read(&self, text: &str) -> Option<u128> {
        let digits = text.strip_prefix(self.prefix.as_str())?;
        match &self.digits {
            Digits::Radix(radix) => self.read_digits(*radix, digits),
            Digits::Sqids(code) => code.read(digits),
        }
    }

    fn read_digits(&self, radix: Radix, digits: &str) -> Option<u128> {
        let pad = self.pad.max(1) as usize;
        if digits.len() < pad || (digits.len() > pad && !self.grows) {
            return None;
        }
        let first = digits.bytes().next().and_then(|digit| radix.value(digit));
        let is_padded_more = digits.len() > pad && first == Some(0);
        if is_padded_more {
            return None;
        }
        digits
            .bytes()
            .try_fold(0_u128, |number, digit| number.checked_mul(radix.base())?.checked_add(radix.value(digit)?))
    }

    /// Returns the text by which a record keeps a former format: `base62/11/error/T-`, and `sqids:base58/8/grow/T-` of
    /// a code with an alphabet of its own.
    pub(crate) fn former_text(&self) -> String {
        let overflow = if self.grows { "grow" } else { "error" };
        let word = self.digits.word();
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
        Some(Format { digits: Digits::Radix(Radix::of_word(word)?), pad, prefix, grows })
    }

    /// Returns the longest text, bytes, for numbers of `bits` bits.
    pub fn bytes_max(&self, bits: u32) -> usize {
        let digits = match &self.digits {
            Digits::Radix(radix) => radix.digits_of(bits).max(self.pad) as usize,
            Digits::Sqids(code) => code.chars_max(bits),
        };
        self.prefix.len() + digits
    }

    /// Returns the alphabet of a code, unless it is the library's own.
    fn own_alphabet(&self) -> Option<&Alphabet> {
        match &self.digits {
            Digits::Radix(_) => None,
            Digits::Sqids(code) => code.own_alphabet(),
        }
    }

    /// Returns the options that declare it, each with its value.
    pub(crate) fn options(&self) -> Vec<(&'static str, String)> {
        let is_sqids = matches!(self.digits, Digits::Sqids(_));
        let mut options = Vec::from([("format", self.digits.word().to_owned())]);
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
