//! Radixes, and the digits of numbers in them.
//!
//! A division of 256 bits takes far longer than one of 64. So [`Digits`] splits a number that exceeds 64 bits into
//! groups of digits, each of which fits 64 bits, and divides only those digit by digit.

use crate::number::{Number, low_ones};

/// Number of digits of a group: 62^10 fits 64 bits, and so does the power of every smaller base.
const GROUP_DIGITS: usize = 10;

/// Room for digits: a number of 256 bits has 78 decimal ones, and a format pads to 64.
const DIGITS_MAX: usize = 128;

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
        // No radix has digits for more than 256 bits that exceed a u32.
        u32::try_from(Digits::of(low_ones(bits), self).len().max(1)).unwrap_or(u32::MAX)
    }

    /// Returns the value of a digit. Letters of hex, base32 and base36 may be of either case. Base32 also accepts
    /// look-alikes (Crockford: O is 0, I and L are 1).
    pub(crate) fn value(self, digit: u8) -> Option<u64> {
        let digit = match self {
            Radix::Hex | Radix::Base36 => digit.to_ascii_lowercase(),
            Radix::Base32 => match digit.to_ascii_uppercase() {
                b'O' => b'0',
                b'I' | b'L' => b'1',
                upper => upper,
            },
            _ => digit,
        };
        self.alphabet().iter().position(|&known| known == digit).map(|place| place as u64)
    }
}

/// The digits of a number, without an allocation.
pub(crate) struct Digits {
    /// The digits at the end, behind digits of value 0.
    bytes: [u8; DIGITS_MAX],
    /// Index of the first digit; `DIGITS_MAX` for the number 0.
    first: usize,
}

impl Digits {
    /// Returns the digits of a number.
    #[inline]
    pub(crate) fn of(number: Number, radix: Radix) -> Digits {
        let alphabet = radix.alphabet();
        let mut digits = Digits { bytes: [alphabet[0]; DIGITS_MAX], first: DIGITS_MAX };
        let mut left = number;
        let small = loop {
            if let Ok(small) = u64::try_from(left) {
                break small;
            }
            let end = digits.first - GROUP_DIGITS;
            digits.push(divide(&mut left, group(radix, GROUP_DIGITS)), alphabet);
            digits.first = end;
        };
        digits.push(small, alphabet);
        digits
    }

    /// Adds the digits of a value before those that are there.
    #[inline]
    fn push(&mut self, mut value: u64, alphabet: &[u8]) {
        let base = alphabet.len() as u64;
        while value > 0 {
            self.first -= 1;
            self.bytes[self.first] = alphabet[usize::try_from(value % base).unwrap_or(0)];
            value /= base;
        }
    }

    /// Returns how many digits there are, without leading ones of value 0.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        DIGITS_MAX - self.first
    }

    /// Returns at least `width` digits, 1 to 128: leading ones of value 0 fill the width.
    #[inline]
    pub(crate) fn padded(&self, width: usize) -> &[u8] {
        &self.bytes[self.first.min(DIGITS_MAX - width.clamp(1, DIGITS_MAX))..]
    }
}

/// Parses digits as [`Radix::value`] reads them. Returns `None` if there is another character, or the number exceeds
/// 256 bits. The work is bounded: a number has at most 128 digits, with leading ones of value 0.
pub(crate) fn parse_digits(digits: &str, radix: Radix) -> Option<Number> {
    if digits.len() > DIGITS_MAX {
        return None;
    }
    digits.as_bytes().chunks(GROUP_DIGITS).try_fold(Number::ZERO, |number, digits| {
        let base = group(radix, 1);
        let value = digits.iter().try_fold(0, |value, &digit| Some(value * base + radix.value(digit)?))?;
        number.checked_mul(group(radix, digits.len()).into())?.checked_add(value.into())
    })
}

/// Returns the number of values that this many digits have, at most [`GROUP_DIGITS`].
#[inline]
fn group(radix: Radix, digits: usize) -> u64 {
    (0..digits).fold(1, |power, _| power * radix.alphabet().len() as u64)
}

/// Divides a number by a divisor of 64 bits, and returns the remainder.
fn divide(number: &mut Number, divisor: u64) -> u64 {
    let divisor = u128::from(divisor);
    let mut remainder = 0;
    // Long division, whose digits have 64 bits.
    let mut half = |half: u128| {
        [half >> u64::BITS, half & u128::from(u64::MAX)].into_iter().fold(0, |quotient, part| {
            let part = remainder << u64::BITS | part;
            remainder = part % divisor;
            (quotient << u64::BITS) | (part / divisor)
        })
    };
    let (high, low) = number.into_words();
    *number = Number::from_words(if high == 0 { 0 } else { half(high) }, half(low));
    // It is smaller than the divisor.
    u64::try_from(remainder).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long run of zeros would be a small number, and a client may send megabytes of them.
    #[test]
    fn the_digits_of_a_number_are_bounded() {
        let text = "0".repeat(1 << 20) + "1";
        assert_eq!(parse_digits(&text, Radix::Decimal), None);
        for radix in Radix::ALL {
            let zeros = |count| (0..count).map(|_| char::from(radix.alphabet()[0])).collect::<alloc::string::String>();
            assert_eq!(parse_digits(&zeros(DIGITS_MAX), radix), Some(Number::ZERO));
            assert_eq!(parse_digits(&zeros(DIGITS_MAX + 1), radix), None);
        }
    }
}
