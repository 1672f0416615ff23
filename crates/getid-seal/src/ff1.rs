//! Numbers of a fixed count of digits, permuted by FF1 of NIST SP 800-38G with AES-256.
//!
//! The crate `fpe` has the algorithm. Its own numeral strings are vectors of digits or of bytes, and 63 is no whole
//! number of bytes. So this module has numeral strings that are one `u128`, without an allocation.
//!
//! Invariant: a number has fewer than 128 bits, so that no step overflows.

use aes::Aes256Enc;
use fpe::ff1::{FF1, NumeralString, Operations};

/// Bytes of a key of AES-256.
pub(crate) const KEY_BYTES: usize = 32;

/// Bits of an ID.
pub(crate) const ID_BITS: u32 = 63;

/// The permutation of IDs by one key.
pub(crate) struct Permutation(FF1<Aes256Enc>);

impl Permutation {
    /// Expands a key.
    pub(crate) fn new(key: &[u8; KEY_BYTES]) -> Permutation {
        Permutation(FF1::new(key, 2).expect("2 is a radix of FF1"))
    }

    /// Returns the permuted bits of an ID, which has at most 63.
    pub(crate) fn encrypt(&self, tweak: &[u8], id: u64) -> u64 {
        let numerals = Numerals::of_bits(id);
        self.0.encrypt(tweak, &numerals).expect("63 bits are numerals of radix 2").to_bits()
    }

    /// Returns the ID of permuted bits, which are at most 63.
    pub(crate) fn decrypt(&self, tweak: &[u8], permuted: u64) -> u64 {
        let numerals = Numerals::of_bits(permuted);
        self.0.decrypt(tweak, &numerals).expect("63 bits are numerals of radix 2").to_bits()
    }
}

/// A number as `count` digits of `radix`, the most significant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numerals {
    radix: u32,
    count: u32,
    number: u128,
}

impl Numerals {
    fn of_bits(bits: u64) -> Numerals {
        Numerals { radix: 2, count: ID_BITS, number: u128::from(bits) }
    }

    fn to_bits(self) -> u64 {
        u64::try_from(self.number).expect("63 bits")
    }

    /// Returns the number of numeral strings of `count` digits.
    fn modulus(self, count: u32) -> u128 {
        u128::from(self.radix).pow(count)
    }

    fn with(self, number: u128) -> Numerals {
        Numerals { number, ..self }
    }
}

impl NumeralString for Numerals {
    type Ops = Numerals;

    fn is_valid(&self, radix: u32) -> bool {
        self.radix == radix && self.number < self.modulus(self.count)
    }

    fn numeral_count(&self) -> usize {
        self.count as usize
    }

    fn split(&self) -> (Numerals, Numerals) {
        let upper = self.count / 2;
        let lower = self.count - upper;
        let modulus = self.modulus(lower);
        let half = |count, number| Numerals { radix: self.radix, count, number };
        (half(upper, self.number / modulus), half(lower, self.number % modulus))
    }

    fn concat(a: Numerals, b: Numerals) -> Numerals {
        let number = a.number * b.modulus(b.count) + b.number;
        Numerals { radix: a.radix, count: a.count + b.count, number }
    }
}

impl Operations for Numerals {
    type Bytes = Vec<u8>;

    fn numeral_count(&self) -> usize {
        self.count as usize
    }

    fn to_be_bytes(&self, _radix: u32, b: usize) -> Vec<u8> {
        let bytes = self.number.to_be_bytes();
        bytes[bytes.len() - b..].to_vec()
    }

    fn add_mod_exp(self, other: impl Iterator<Item = u8>, _radix: u32, _m: usize) -> Numerals {
        let modulus = self.modulus(self.count);
        self.with((self.number + number_of(other) % modulus) % modulus)
    }

    fn sub_mod_exp(self, other: impl Iterator<Item = u8>, _radix: u32, _m: usize) -> Numerals {
        let modulus = self.modulus(self.count);
        self.with((self.number + modulus - number_of(other) % modulus) % modulus)
    }
}

/// Returns the number of at most 16 bytes, the most significant first: 8 in a round over 63 bits.
fn number_of(bytes: impl Iterator<Item = u8>) -> u128 {
    bytes.fold(0, |number, byte| number << 8 | u128::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key of samples 7 to 9 of NIST's `FF1samples.pdf`.
    const NIST_KEY: [u8; KEY_BYTES] = [
        0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c, 0xef, 0x43,
        0x59, 0xd8, 0xd5, 0x80, 0xaa, 0x4f, 0x7f, 0x03, 0x6d, 0x6f, 0x04, 0xfc, 0x6a, 0x94,
    ];

    fn numerals(text: &str, radix: u32) -> Numerals {
        let number = u128::from_str_radix(text, radix).unwrap();
        Numerals { radix, count: u32::try_from(text.len()).unwrap(), number }
    }

    /// The samples of AES-256 that NIST publishes with SP 800-38G.
    #[test]
    fn samples_of_the_standard() {
        for (radix, tweak, plain, cipher) in [
            (10, "", "0123456789", "6657667009"),
            (10, "9876543210", "0123456789", "1001623463"),
            (36, "7777pqrs777", "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"),
        ] {
            let permutation = FF1::<Aes256Enc>::new(&NIST_KEY, radix).unwrap();
            let (plain, cipher) = (numerals(plain, radix), numerals(cipher, radix));
            assert_eq!(permutation.encrypt(tweak.as_bytes(), &plain).unwrap(), cipher, "{radix} '{tweak}'");
            assert_eq!(permutation.decrypt(tweak.as_bytes(), &cipher).unwrap(), plain, "{radix} '{tweak}'");
        }
    }

    /// Bits of an odd count are split as the standard demands: 31 upper ones and 32 lower ones.
    #[test]
    fn the_lower_half_is_the_longer_one() {
        let bits = Numerals::of_bits(0x7fff_ffff_0000_0000);
        let (a, b) = bits.split();
        assert_eq!((a.count, a.number, b.count, b.number), (31, 0x7fff_ffff, 32, 0));
        assert_eq!(Numerals::concat(a, b), bits);
    }

    #[test]
    fn numbers_of_other_widths_are_invalid() {
        assert!(!Numerals::of_bits(1 << 63).is_valid(2));
        assert!(Numerals::of_bits(u64::MAX >> 1).is_valid(2));
        assert!(!Numerals::of_bits(1).is_valid(10));
    }
}
