//! Key files: one key a line, `NUMBER HEX`, optionally with `open-only`.
//!
//! The number of the key is in each text, so texts of older keys can still be opened. The last key without `open-only`
//! seals. So a new key reaches all servers as `open-only` first, and no server gets a text that it cannot open.
//!
//! Invariants: 1 to 16 keys, each number once, one of them seals. No error and no `Debug` shows a key.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::ff1::{KEY_BYTES, Permutation};

/// Largest size of a key file, bytes: 16 lines of a key, and comments.
pub const KEY_FILE_BYTES_MAX: usize = 16 * 1024;

/// Largest number of keys: a text has room for the numbers 0 to 15.
pub const KEYS_MAX: u8 = 16;

/// Name in the digest of a key. No generator has it.
const DIGEST_NAME: &[u8] = b"digest of a key";

/// The word of a key that opens texts but seals none.
const OPEN_ONLY: &str = "open-only";

/// One key: its number, and what is derived from its bytes.
pub(crate) struct SealKey {
    pub(crate) number: u8,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    pub(crate) permutation: Permutation,
}

impl SealKey {
    fn new(number: u8, bytes: Zeroizing<[u8; KEY_BYTES]>) -> SealKey {
        SealKey { number, permutation: Permutation::new(&bytes), bytes }
    }

    /// Returns the first 8 bytes of HMAC-SHA256 over the name, a zero byte and the ID, as a number.
    pub(crate) fn mac(&self, name: &[u8], id: u64) -> u64 {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.bytes).expect("HMAC takes keys of every length");
        mac.update(name);
        mac.update(&[0]);
        mac.update(&id.to_be_bytes());
        let mac = mac.finalize().into_bytes();
        mac.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}

/// The keys of a key file. A clone shares them.
#[derive(Clone)]
pub struct SealKeys {
    keys: Arc<[SealKey]>,
    /// Place of the key that seals.
    sealing: usize,
}

impl SealKeys {
    /// Parses the content of a key file.
    ///
    /// # Errors
    ///
    /// Fails with the first mistake, which never quotes a key.
    pub fn parse(content: &[u8]) -> Result<SealKeys, KeyFileError> {
        if content.len() > KEY_FILE_BYTES_MAX {
            return Err(KeyFileError::TooLarge);
        }
        let mut keys: Vec<SealKey> = Vec::new();
        let mut sealing = None;
        for (at, line) in content.split(|&byte| byte == b'\n').enumerate() {
            let Some((key, seals)) = parse_line(line, at + 1)? else { continue };
            if keys.iter().any(|known| known.number == key.number) {
                return Err(KeyFileError::Twice { line: at + 1, number: key.number });
            }
            if seals {
                sealing = Some(keys.len());
            }
            keys.push(key);
        }
        match sealing {
            Some(sealing) => Ok(SealKeys { keys: keys.into(), sealing }),
            None if keys.is_empty() => Err(KeyFileError::Empty),
            None => Err(KeyFileError::NoneSeals),
        }
    }

    /// Returns the number of the key that seals.
    pub fn sealing(&self) -> u8 {
        self.sealing_key().number
    }

    /// Returns the numbers of all keys, in the order of the file.
    pub fn numbers(&self) -> impl Iterator<Item = u8> {
        self.keys.iter().map(|key| key.number)
    }

    /// Returns the number and a digest of each key, by which another key under the number is found. A digest reveals
    /// nothing of its key.
    pub(crate) fn digests(&self) -> impl Iterator<Item = (u8, u64)> {
        self.keys.iter().map(|key| (key.number, key.mac(DIGEST_NAME, 0)))
    }

    pub(crate) fn sealing_key(&self) -> &SealKey {
        &self.keys[self.sealing]
    }

    pub(crate) fn key(&self, number: u8) -> Option<&SealKey> {
        self.keys.iter().find(|key| key.number == number)
    }
}

/// Two values are equal if they have the same keys in the same order, and seal by the same.
impl PartialEq for SealKeys {
    fn eq(&self, other: &SealKeys) -> bool {
        let is_same = |(one, other): (&SealKey, &SealKey)| one.number == other.number && *one.bytes == *other.bytes;
        self.sealing == other.sealing
            && self.keys.len() == other.keys.len()
            && self.keys.iter().zip(&*other.keys).all(is_same)
    }
}

impl Eq for SealKeys {}

/// Shows the numbers of the keys.
impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.numbers()).finish()
    }
}

/// Parses a line. Returns `None` for an empty one and for a comment, else the key and whether it seals.
fn parse_line(line: &[u8], at: usize) -> Result<Option<(SealKey, bool)>, KeyFileError> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (Some(number), Some(hex)) = (words.next(), words.next()) else {
        return Err(KeyFileError::Words { line: at });
    };
    let seals = match words.next() {
        None => true,
        Some(word) if word == OPEN_ONLY.as_bytes() => false,
        Some(_) => return Err(KeyFileError::Words { line: at }),
    };
    if words.next().is_some() {
        return Err(KeyFileError::Words { line: at });
    }
    let number = key_number(number).ok_or(KeyFileError::Number { line: at })?;
    if hex.len() != 2 * KEY_BYTES {
        return Err(KeyFileError::Length { line: at, number, digits: hex.len() });
    }
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    for (byte, digits) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
        let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        let pair = (value(digits[0]), value(digits[1]));
        let (Some(high), Some(low)) = pair else { return Err(KeyFileError::Hex { line: at, number }) };
        *byte = high << 4 | low;
    }
    Ok(Some((SealKey::new(number, bytes), seals)))
}

/// Parses a number 0 to 15, of digits only.
fn key_number(word: &[u8]) -> Option<u8> {
    let is_short = (1..=2).contains(&word.len()) && word.iter().all(u8::is_ascii_digit);
    let number = word.iter().filter(|_| is_short).fold(0, |number, digit| number * 10 + (digit - b'0'));
    (is_short && number < KEYS_MAX).then_some(number)
}

/// Reason why the content of a file is not a list of keys. `Display` is the end of a sentence whose subject is the
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// The file is too large.
    #[error("is larger than {KEY_FILE_BYTES_MAX} bytes, must have one key a line: a number 0 to 15 and 64 hex digits")]
    TooLarge,
    /// The file has no key.
    #[error("has no key, must have one a line: a number 0 to 15 and 64 hex digits, as `openssl rand -hex 32` prints")]
    Empty,
    /// All keys are `open-only`.
    #[error("has no key that seals: remove open-only from the line of one")]
    NoneSeals,
    /// A line is not made of a number and a key.
    #[error("line {line} is not of the form NUMBER HEX or NUMBER HEX open-only")]
    Words {
        /// Number of the line, from 1.
        line: usize,
    },
    /// The number of a key is out of range.
    #[error("line {line} begins with a word that is not a key number, must be 0 to 15")]
    Number {
        /// Number of the line, from 1.
        line: usize,
    },
    /// A key has another size.
    #[error("line {line} has a key {number} of {digits} characters, must have 64 hex digits (256 bits)")]
    Length {
        /// Number of the line, from 1.
        line: usize,
        /// Number of the key.
        number: u8,
        /// Characters of the key.
        digits: usize,
    },
    /// A key has another character than a hex digit.
    #[error("line {line} has a key {number} with a character that is no hex digit, must have 64 of 0-9 a-f")]
    Hex {
        /// Number of the line, from 1.
        line: usize,
        /// Number of the key.
        number: u8,
    },
    /// Two keys have one number.
    #[error(
        "line {line} has the key number {number} a second time, must have each once: give the new key a number of \
             its own"
    )]
    Twice {
        /// Number of the second line, from 1.
        line: usize,
        /// The number.
        number: u8,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn parse(text: &str) -> Result<SealKeys, KeyFileError> {
        SealKeys::parse(text.replace("HEX", HEX).as_bytes())
    }

    #[test]
    fn the_last_key_that_is_not_open_only_seals() {
        for (text, numbers, sealing) in [
            ("0 HEX", &[0][..], 0),
            ("# keys\n\n 0 HEX\r\n\t15  HEX\t\n", &[0, 15], 15),
            ("7 HEX\n3 HEX\n", &[7, 3], 3),
            ("0 HEX\n1 HEX open-only\n", &[0, 1], 0),
            ("0 HEX open-only\n01 HEX\n2 HEX open-only", &[0, 1, 2], 1),
        ] {
            let keys = parse(text).unwrap();
            assert_eq!((keys.numbers().collect::<Vec<_>>(), keys.sealing()), (numbers.to_vec(), sealing), "{text}");
        }
        assert_eq!(parse(&format!("0 {}", HEX.to_uppercase())), parse("0 HEX"));
    }

    #[test]
    fn every_mistake_has_its_sentence_without_the_key() {
        let many = (0..17).map(|number| format!("{number} HEX")).collect::<Vec<_>>().join("\n");
        for (text, error) in [
            ("", KeyFileError::Empty),
            ("# 0 HEX", KeyFileError::Empty),
            ("0 HEX open-only", KeyFileError::NoneSeals),
            ("HEX", KeyFileError::Words { line: 1 }),
            ("0 HEX open", KeyFileError::Words { line: 1 }),
            ("0 HEX open-only 1", KeyFileError::Words { line: 1 }),
            ("0 HEX\n16 HEX", KeyFileError::Number { line: 2 }),
            (&many, KeyFileError::Number { line: 17 }),
            ("-1 HEX", KeyFileError::Number { line: 1 }),
            ("+1 HEX", KeyFileError::Number { line: 1 }),
            ("256 HEX", KeyFileError::Number { line: 1 }),
            ("0 HEX0", KeyFileError::Length { line: 1, number: 0, digits: 65 }),
            ("3 0011", KeyFileError::Length { line: 1, number: 3, digits: 4 }),
            (&format!("3 {}", "0g".repeat(32)), KeyFileError::Hex { line: 1, number: 3 }),
            (&format!("3 {}", "ä".repeat(32)), KeyFileError::Hex { line: 1, number: 3 }),
            ("3 HEX\n03 HEX", KeyFileError::Twice { line: 2, number: 3 }),
            (&"#".repeat(KEY_FILE_BYTES_MAX + 1), KeyFileError::TooLarge),
        ] {
            assert_eq!(parse(text).map(|keys| keys.sealing()), Err(error), "{text}");
            assert!(!error.to_string().contains(&HEX[..4]), "{error}");
        }
        assert!(SealKeys::parse(&[0; KEY_FILE_BYTES_MAX]).is_err());
        assert!(SealKeys::parse(&[0xff; 100]).is_err());
    }

    #[test]
    fn digests_differ_by_key() {
        let other = HEX.replace('0', "1");
        let digests = |text: &str| parse(text).unwrap().digests().collect::<Vec<_>>();
        let old = digests("0 HEX\n1 HEX");
        assert_eq!((old[0].0, old[1].0, old[0].1 == old[1].1), (0, 1, true));
        assert_ne!(digests(&format!("0 {other}"))[0].1, old[0].1);
        assert_eq!(format!("{:?}", parse("0 HEX\n1 HEX").unwrap()), "[0, 1]");
    }
}
