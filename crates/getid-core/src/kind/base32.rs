//! Numbers of up to 128 bits as texts of a fixed length, five bits a character.
//!
//! ULID, `TypeID` and xid differ in their characters and lengths alone.

use alloc::vec::Vec;

/// Characters of a text of 128 bits. The first has the upper three bits.
pub(super) const CHARS_128: u32 = 26;

/// Characters of an xid: its 96 bits and four bits of 0.
pub(super) const CHARS_XID: u32 = 20;

/// Crockford's characters as small letters, which a `TypeID` has.
pub(super) const CROCKFORD_SMALL: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The characters of `base32hex` (RFC 4648, section 7) as small letters, which an xid has.
pub(super) const HEX_SMALL: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// Appends a number as `chars` of these characters.
pub(super) fn write(alphabet: &[u8], chars: u32, number: u128, out: &mut Vec<u8>) {
    out.extend((0..chars).rev().map(|place| alphabet[(number >> (5 * place)) as usize & 31]));
}

/// Parses a text of exactly `chars` characters; `None` if it has another length, another character, or more than 128
/// bits. `value` returns the value of a character, 0 to 31.
pub(super) fn read(text: &str, chars: u32, value: impl Fn(u8) -> Option<u64>) -> Option<u128> {
    let has_length = text.len() == chars as usize;
    has_length.then_some(text.bytes()).and_then(|mut bytes| {
        bytes.try_fold(0_u128, |number, byte| {
            let value = value(byte)?;
            (number >> 123 == 0).then_some(number << 5 | u128::from(value))
        })
    })
}

/// Returns the value of a character; small letters and capitals differ.
pub(super) fn exact(alphabet: &'static [u8]) -> impl Fn(u8) -> Option<u64> {
    |byte| alphabet.iter().position(|&known| known == byte).map(|place| place as u64)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    fn written(number: u128) -> String {
        let mut text = Vec::new();
        write(CROCKFORD_SMALL, CHARS_128, number, &mut text);
        String::from_utf8(text).unwrap()
    }

    /// Suffixes of `valid.yml` of the `TypeID` specification, which has other UUIDs than those of version 7 too.
    #[test]
    fn suffixes_of_the_typeid_specification() {
        for (suffix, number) in [
            ("00000000000000000000000000", 0),
            ("00000000000000000000000001", 1),
            ("0000000000000000000000000a", 10),
            ("0000000000000000000000000g", 16),
            ("00000000000000000000000010", 32),
            ("7zzzzzzzzzzzzzzzzzzzzzzzzz", u128::MAX),
            ("0123456789abcdefghjkmnpqrs", 0x0110_c853_1d09_52d8_d73e_1194_e95b_5f19),
            ("01h455vb4pex5vsknk084sn02q", 0x0189_0a5d_ac96_774b_bcce_b302_099a_8057),
        ] {
            assert_eq!(written(number), suffix);
            assert_eq!(read(suffix, CHARS_128, exact(CROCKFORD_SMALL)), Some(number), "{suffix}");
        }
    }

    /// Suffixes of `invalid.yml` of the `TypeID` specification.
    #[test]
    fn wrong_suffixes_are_refused() {
        for suffix in [
            "1234567890123456789012345",
            "123456789012345678901234567",
            "1234567890123456789012345 ",
            "0123456789ABCDEFGHJKMNPQRS",
            "123456789-123456789-123456",
            "ooooooiiiiiiuuuuuuulllllll",
            "i23456789ol23456789oi23456",
            "123456789-0123456789-012345",
            "8zzzzzzzzzzzzzzzzzzzzzzzzz",
            "",
            "ä0000000000000000000000000",
        ] {
            assert_eq!(read(suffix, CHARS_128, exact(CROCKFORD_SMALL)), None, "{suffix}");
        }
    }
}
