//! Numbers as text whose order is that of the numbers.
//!
//! All alphabets are in ASCII order and the width is fixed, so that text sorts as the numbers do. (Columns need a
//! case-sensitive collation.)

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::number::Number;
use crate::radix::{Digits, Radix, parse_digits};

/// Most digits of `pad`: a number of 160 bits has 49 decimal ones.
pub const PAD_MAX: u32 = 64;

/// Longest prefix, bytes.
pub const PREFIX_BYTES_MAX: usize = 64;

/// Returns true if texts of IDs may contain all characters: printable ASCII that needs no quotes in a configuration.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'\\".contains(&byte))
}

/// How the numbers of a generator are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The digits.
    pub radix: Radix,
    /// Smallest number of digits; shorter numbers are padded.
    pub pad: u32,
    /// Text before the digits.
    pub prefix: String,
    /// Whether a number of more digits is written in full, which gives up the order of texts; otherwise it is refused.
    pub grows: bool,
}

impl Format {
    /// Appends a number. Returns false, and appends nothing, if it has more digits than `pad` and may not grow.
    #[must_use]
    pub fn write(&self, number: Number, out: &mut Vec<u8>) -> bool {
        let digits = Digits::of(number, self.radix);
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
        let pad = self.pad.max(1) as usize;
        if digits.len() < pad || (digits.len() > pad && !self.grows) {
            return None;
        }
        let first = digits.bytes().next().and_then(|digit| self.radix.value(digit));
        let is_padded_more = digits.len() > pad && first == Some(0);
        if is_padded_more {
            return None;
        }
        parse_digits(digits, self.radix)
    }

    /// Returns the text by which a record keeps a former format: `base62/11/error/T-`.
    pub(crate) fn former_text(&self) -> String {
        let overflow = if self.grows { "grow" } else { "error" };
        alloc::format!("{}/{}/{overflow}/{}", self.radix.word(), self.pad, self.prefix)
    }

    /// Parses a text of [`Format::former_text`].
    pub(crate) fn from_former_text(text: &str) -> Option<Format> {
        let mut parts = text.splitn(4, '/');
        let word = parts.next()?;
        let radix = Radix::of_word(word)?;
        let pad = parts.next()?.parse().ok()?;
        let grows = parts.next()? == "grow";
        Some(Format { radix, pad, prefix: parts.next()?.to_owned(), grows })
    }

    /// Returns the longest text, bytes, for numbers of `bits` bits.
    pub fn bytes_max(&self, bits: u32) -> usize {
        self.prefix.len() + self.radix.digits_of(bits).max(self.pad) as usize
    }
}

impl fmt::Display for Format {
    /// Writes the format as it is declared: `format base62 pad 11 prefix T-`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "format {} pad {}", self.radix.word(), self.pad)?;
        if !self.prefix.is_empty() {
            write!(f, " prefix {}", self.prefix)?;
        }
        if self.grows { f.write_str(" overflow grow") } else { Ok(()) }
    }
}
