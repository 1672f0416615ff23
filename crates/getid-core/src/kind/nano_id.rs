//! `NanoID`s: texts of random characters, each text as likely as every other.
//!
//! A `NanoID` of length L over n characters is a number below n^L, written with exactly L digits. The number has as
//! many bits of noise as n^L - 1. A number at or above n^L is drawn again ([`NanoId::draw`]), so no text is more likely
//! than another. (A remainder of 128 bits by n^L would favour some texts by up to a factor of two.)
//!
//! Invariant: n^L is at least 2^60 and at most 2^128, the noise of one draw.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::alphabet::Alphabet;
use crate::number::{Number, low_bits};

/// The default alphabet: the characters that a URL takes without an escape.
const CHARACTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

/// Default length, that of the library `nanoid`: 126 bits of the default alphabet.
pub(crate) const LENGTH: u32 = 21;

/// Fewest bits of an ID that is unique by chance alone: of 1.26 billion such IDs two are equal with a chance of one
/// half (`1.18 * 2^(60/2)`, the birthday bound).
pub(crate) const CHANCE_BITS_MIN: u32 = 60;

/// Most draws for one ID. Each is refused with a chance below one half, so all of them are with one below 2^-128.
const DRAWS_MAX: u32 = 128;

/// The texts of one `nanoid` generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NanoId {
    alphabet: Alphabet,
    length: u32,
    /// The largest number, n^L - 1.
    last: u128,
    /// The most digits whose values fit 64 bits, and n to the power of them. A division of 128 bits takes far longer
    /// than one of 64, so a number is first split into groups of as many digits.
    group: (usize, u64),
}

impl NanoId {
    /// Creates the texts of this length; the error is the range of lengths that the alphabet permits.
    pub(crate) fn new(alphabet: Alphabet, length: u32) -> Result<NanoId, RangeInclusive<u32>> {
        let range = lengths(&alphabet);
        match last_of(&alphabet, length).filter(|_| range.contains(&length)) {
            Some(last) => Ok(NanoId { group: group_of(&alphabet), alphabet, length, last }),
            None => Err(range),
        }
    }

    /// Returns the alphabet that a declaration has without one.
    pub(crate) fn default_alphabet() -> Alphabet {
        Alphabet::parse(CHARACTERS).expect("64 different characters of a URL")
    }

    /// Returns the characters of its texts.
    pub(crate) fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// Returns the number of characters of each text.
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// Returns its largest number.
    pub(crate) fn last(&self) -> u128 {
        self.last
    }

    /// Returns the width of its largest number, bits.
    pub(crate) fn bits(&self) -> u32 {
        u128::BITS - self.last.leading_zeros()
    }

    /// Draws a number by `noise`, which returns fresh random bits. All numbers that have a text are equally likely.
    pub(crate) fn draw(&self, mut noise: impl FnMut() -> u128) -> u128 {
        let mask = low_bits(self.bits());
        let drawn = (0..DRAWS_MAX).map(|_| noise() & mask).find(|&number| number <= self.last);
        // The half of the mask is below n^L.
        drawn.unwrap_or(mask >> 1)
    }

    /// Appends the text of a number. Returns false, and appends nothing, if it has none.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "remainders of divisors of 64 and of 7 bits")]
    pub(crate) fn write(&self, number: Number, out: &mut Vec<u8>) -> bool {
        let Some(number) = u128::try_from(number).ok().filter(|&number| number <= self.last) else { return false };
        let (characters, base) = (self.alphabet.as_bytes(), self.alphabet.len() as u64);
        let (digits, power) = self.group;
        let start = out.len();
        out.resize(start + self.length as usize, characters[0]);
        let mut rest = number;
        for places in out[start..].rchunks_mut(digits) {
            // The remainder is below a divisor of 64 bits.
            let mut group = (rest % u128::from(power)) as u64;
            rest /= u128::from(power);
            for place in places.iter_mut().rev() {
                *place = characters[(group % base) as usize];
                group /= base;
            }
        }
        true
    }

    /// Parses a text; `None` if it has another length or another character.
    pub(crate) fn read(&self, text: &str) -> Option<Number> {
        let base = self.alphabet.len() as u128;
        let has_length = text.len() == self.length as usize;
        let number = has_length.then_some(text.bytes()).and_then(|mut bytes| {
            bytes.try_fold(0_u128, |number, byte| {
                let value = self.alphabet.value(byte)? as u128;
                number.checked_mul(base)?.checked_add(value)
            })
        });
        number.map(Number::from)
    }
}

/// Returns the largest number of digits whose values fit 64 bits, and the number of those values.
fn group_of(alphabet: &Alphabet) -> (usize, u64) {
    let base = alphabet.len() as u64;
    let mut group = (1, base);
    while let Some(power) = group.1.checked_mul(base) {
        group = (group.0 + 1, power);
    }
    group
}

/// Returns the largest number with this many digits; `None` above 128 bits.
fn last_of(alphabet: &Alphabet, length: u32) -> Option<u128> {
    let base = alphabet.len() as u128;
    (length <= u128::BITS).then_some(())?;
    (0..length).try_fold(0_u128, |last, _| last.checked_mul(base)?.checked_add(base - 1))
}

/// Returns the lengths that an alphabet permits. The range is never empty: each step multiplies n^L by at most 2^6.
fn lengths(alphabet: &Alphabet) -> RangeInclusive<u32> {
    let fitting = || (1..=u128::BITS).take_while(|&length| last_of(alphabet, length).is_some());
    let is_long = |length: &u32| last_of(alphabet, *length) >= Some(low_bits(CHANCE_BITS_MIN));
    let most = fitting().last().unwrap_or(1);
    fitting().find(is_long).unwrap_or(most)..=most
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    fn nano_id(alphabet: &str, length: u32) -> NanoId {
        NanoId::new(Alphabet::parse(alphabet).unwrap(), length).unwrap()
    }

    #[test]
    fn the_default_texts_use_all_numbers_of_126_bits() {
        let default = NanoId::new(NanoId::default_alphabet(), LENGTH).unwrap();
        assert_eq!((default.bits(), default.last), (126, low_bits(126)));
    }

    #[test]
    fn an_alphabet_permits_lengths_of_60_to_128_bits() {
        for (alphabet, range) in [("01", 60..=128), ("decimal", 19..=38), ("base62", 11..=21), (CHARACTERS, 10..=21)] {
            assert_eq!(lengths(&Alphabet::parse(alphabet).unwrap()), range, "{alphabet}");
            for wrong in [0, range.start() - 1, range.end() + 1, u32::MAX] {
                let refused = NanoId::new(Alphabet::parse(alphabet).unwrap(), wrong);
                assert_eq!(refused, Err(range.clone()), "{alphabet} {wrong}");
            }
        }
    }

    #[test]
    fn texts_are_numbers_in_the_alphabet() {
        let digits = nano_id("decimal", 20);
        let mut text = Vec::new();
        assert!(digits.write(Number::from(42_u8), &mut text) && digits.write(digits.last.into(), &mut text));
        assert_eq!(String::from_utf8(text.clone()).unwrap(), "0000000000000000004299999999999999999999");
        assert!(!digits.write((digits.last + 1).into(), &mut text), "it has 21 digits");
        assert_eq!((text.len(), digits.read("00000000000000000042")), (40, Some(Number::from(42_u8))));
        for wrong in ["42", "000000000000000000042", "0000000000000000004x", "000000000000000000ä", ""] {
            assert_eq!(digits.read(wrong), None, "{wrong}");
        }
        for alphabet in ["01", "decimal", "hex", "base58", CHARACTERS] {
            let own = nano_id(alphabet, *lengths(&Alphabet::parse(alphabet).unwrap()).end());
            for number in [0, 1, u128::from(u64::MAX), own.last / 3, own.last - 1, own.last] {
                let mut text = Vec::new();
                assert!(own.write(number.into(), &mut text));
                let text = String::from_utf8(text).unwrap();
                assert_eq!(own.read(&text), Some(number.into()), "{alphabet} {text}");
            }
        }
        let widest = nano_id("01", 128);
        assert_eq!(widest.read(&"1".repeat(128)), Some(u128::MAX.into()));
    }

    /// A number without a text is drawn again, and the loop ends even if the noise is broken.
    #[test]
    fn a_number_past_the_last_is_drawn_again() {
        let digits = nano_id("decimal", 19);
        let mut noise = [u128::MAX, digits.last + 1, 7].into_iter();
        assert_eq!(digits.draw(|| noise.next().unwrap()), 7);
        assert!(digits.draw(|| u128::MAX) <= digits.last);
    }

    /// Of the 1024 values of 10 bits, each below 1000 is one text, and the others are drawn again.
    #[test]
    fn no_text_is_more_likely_than_another() {
        let alphabet = Alphabet::parse("decimal").unwrap();
        let texts = NanoId { group: group_of(&alphabet), alphabet, length: 3, last: 999 };
        let mut counts = [0_u32; 1000];
        for noise in 0..1024 {
            let mut draws = [noise, 0].into_iter();
            let mut is_first = true;
            let number = texts.draw(|| {
                is_first = draws.len() == 2;
                draws.next().unwrap()
            });
            if is_first {
                counts[usize::try_from(number).unwrap()] += 1;
            }
        }
        assert_eq!(counts, [1; 1000]);
    }
}
