//! The text of a sealed ID.
//!
//! With a key of number `K`, an alphabet of `n` characters and texts of `L`:
//!
//! - `P` is the ID's 63 bits, the most significant first, permuted by FF1 with radix 2 and the generator's name as
//!   tweak.
//! - `check` is the first 8 bytes of HMAC-SHA256 over the name, a zero byte and the 8 bytes of the ID, modulo `C`.
//! - The text is the number `(K * C + check) * 2^63 + P` in the alphabet, padded to `L` by its first character.
//!
//! `L` is the smallest length with at least 8 values of `check`: `C = n^L / 2^63 / 16`. So a text is as short as a
//! check allows, and the check uses what is left of the last character.

use std::fmt;

use getid_core::{Alphabet, SEAL_ALPHABET_CHARS_MIN};

use crate::ff1::ID_BITS;
use crate::keys::{KEYS_MAX, SealKeys};

/// Fewest values of the check. A text that was mistyped is refused with a chance of 7 in 8 or more.
const CHECKS_MIN: u128 = 8;

/// Seals and opens the IDs of one generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealer {
    keys: SealKeys,
    name: String,
    alphabet: Alphabet,
    shape: TextShape,
    answers_sealed: bool,
}

/// Length of a text, and the number of values that its check may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TextShape {
    chars: usize,
    checks: u128,
}

impl TextShape {
    /// Returns the shortest texts of an alphabet of 10 to 64 characters. Their numbers are below `64 * 2^70`.
    fn of(alphabet_chars: usize) -> TextShape {
        let radix = alphabet_chars as u128;
        let checks_of = |texts: u128| (texts >> ID_BITS) / u128::from(KEYS_MAX);
        let (mut chars, mut texts) = (0, 1);
        while checks_of(texts) < CHECKS_MIN {
            texts *= radix;
            chars += 1;
        }
        TextShape { chars, checks: checks_of(texts) }
    }
}

/// An opened text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The ID, at most 63 bits.
    pub id: u64,
    /// Number of the key that sealed it.
    pub key: u8,
}

impl Sealer {
    /// Creates the sealer of the generator `name`.
    ///
    /// # Errors
    ///
    /// Fails for an alphabet of fewer than 10 characters.
    pub fn new(keys: SealKeys, name: &str, alphabet: Alphabet) -> Result<Sealer, ShortAlphabet> {
        if alphabet.len() < SEAL_ALPHABET_CHARS_MIN {
            return Err(ShortAlphabet { chars: alphabet.len() });
        }
        let shape = TextShape::of(alphabet.len());
        Ok(Sealer { keys, name: name.to_owned(), alphabet, shape, answers_sealed: false })
    }

    /// Returns the sealer with the choice whether requests for IDs are answered with sealed texts.
    #[must_use]
    pub fn answering(self, answers_sealed: bool) -> Sealer {
        Sealer { answers_sealed, ..self }
    }

    /// Returns true if requests for IDs are answered with sealed texts.
    pub fn answers_sealed(&self) -> bool {
        self.answers_sealed
    }

    /// Returns the name of the generator.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the keys.
    pub fn keys(&self) -> &SealKeys {
        &self.keys
    }

    /// Returns the characters of the texts.
    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// Returns a sentence about the generator's keys, for a log: their numbers, and the one that seals.
    pub fn summary(&self) -> String {
        let (name, sealing) = (&self.name, self.keys.sealing());
        let numbers: Vec<_> = self.keys.numbers().map(|number| number.to_string()).collect();
        let answer = if self.answers_sealed { "sealed texts" } else { "integers" };
        format!("generator {name} seals by key {sealing}, opens texts of {}, answers with {answer}", numbers.join(", "))
    }

    /// Returns the length of each text, characters and bytes: 12 of `base58`, 22 of 10 characters.
    pub fn text_chars(&self) -> usize {
        self.shape.chars
    }

    /// Returns the text of an ID, by the key that seals.
    ///
    /// # Errors
    ///
    /// Fails for an ID of more than 63 bits.
    pub fn seal(&self, id: u64) -> Result<String, SealError> {
        if id >> ID_BITS != 0 {
            return Err(SealError { id });
        }
        let key = self.keys.sealing_key();
        let permuted = key.permutation.encrypt(self.name.as_bytes(), id);
        let check = u128::from(key.mac(self.name.as_bytes(), id)) % self.shape.checks;
        let head = u128::from(key.number) * self.shape.checks + check;
        Ok(self.write(head << ID_BITS | u128::from(permuted)))
    }

    /// Returns the ID of a text, by the key that the text names.
    ///
    /// # Errors
    ///
    /// Fails for a text that no key of this sealer wrote, as far as the check shows: of 8 texts by chance, at least 7
    /// fail.
    pub fn open(&self, text: &[u8]) -> Result<Opened, OpenError> {
        let number = self.read(text)?;
        let (head, permuted) = (number >> ID_BITS, number & ((1 << ID_BITS) - 1));
        let permuted = u64::try_from(permuted).map_err(|_| OpenError::Range)?;
        let number = u8::try_from(head / self.shape.checks).ok().filter(|&number| number < KEYS_MAX);
        let number = number.ok_or(OpenError::Range)?;
        let Some(key) = self.keys.key(number) else {
            return Err(OpenError::Key { number, known: self.keys.numbers().collect() });
        };
        let id = key.permutation.decrypt(self.name.as_bytes(), permuted);
        let check = u128::from(key.mac(self.name.as_bytes(), id)) % self.shape.checks;
        if check != head % self.shape.checks {
            return Err(OpenError::Check { name: self.name.clone(), number });
        }
        Ok(Opened { id, key: number })
    }

    fn write(&self, mut number: u128) -> String {
        let radix = self.alphabet.len() as u128;
        let characters = self.alphabet.as_bytes();
        let mut text = vec![b' '; self.shape.chars];
        for character in text.iter_mut().rev() {
            // The remainder is below the number of characters.
            *character = characters[(number % radix) as usize];
            number /= radix;
        }
        text.into_iter().map(char::from).collect()
    }

    fn read(&self, text: &[u8]) -> Result<u128, OpenError> {
        // A text of another length may be of megabytes; its characters are not looked at.
        if text.len() != self.shape.chars {
            return Err(OpenError::Length { bytes: text.len(), expected: self.shape.chars });
        }
        let radix = self.alphabet.len() as u128;
        text.iter().enumerate().try_fold(0, |number, (at, &byte)| {
            let value = self.alphabet.value(byte).ok_or_else(|| self.wrong_character(byte, at + 1))?;
            Ok(number * radix + value as u128)
        })
    }

    fn wrong_character(&self, byte: u8, place: usize) -> OpenError {
        let other_case = if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
        let meant = (other_case != byte && self.alphabet.value(other_case).is_some()).then(|| char::from(other_case));
        OpenError::Character { byte, place, meant, alphabet: self.alphabet.to_string() }
    }
}

/// Error for an alphabet with too few characters for a seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has {chars} characters, must have at least {SEAL_ALPHABET_CHARS_MIN} for a seal")]
pub struct ShortAlphabet {
    /// Characters of the alphabet.
    pub chars: usize,
}

/// Error for an ID that cannot be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{id} has more than {ID_BITS} bits, must be 0 to {max}", max = u64::MAX >> 1)]
pub struct SealError {
    /// The ID.
    pub id: u64,
}

/// Reason why a text is not opened. `Display` is the end of a sentence whose subject is the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The text has another length.
    Length {
        /// Bytes of the text.
        bytes: usize,
        /// Characters of each sealed text.
        expected: usize,
    },
    /// The text has a character outside the alphabet.
    Character {
        /// The first such byte.
        byte: u8,
        /// Its place, from 1.
        place: usize,
        /// The same letter in the other case, if the alphabet has that one.
        meant: Option<char>,
        /// The alphabet, by its word if it has one.
        alphabet: String,
    },
    /// The text is a number above that of each sealed text.
    Range,
    /// The text names a key that the key file does not have.
    Key {
        /// Number of the key.
        number: u8,
        /// Numbers of the keys of the file.
        known: Vec<u8>,
    },
    /// The check is that of another ID.
    Check {
        /// Name of the generator.
        name: String,
        /// Number of the key that the text names.
        number: u8,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Length { bytes, expected } => {
                let unit = if *bytes == 1 { "byte" } else { "bytes" };
                write!(f, "has {bytes} {unit}, must have {expected} characters")
            }
            OpenError::Character { byte, place, meant, alphabet } => {
                write!(f, "has '{}' at place {place}, must have only characters of {alphabet}", byte.escape_ascii())?;
                match meant {
                    Some(meant) => write!(f, "; '{meant}' would be one: capitals and small letters differ"),
                    None => Ok(()),
                }
            }
            OpenError::Range => f.write_str("is not a sealed text: no key writes a text so high in the alphabet"),
            OpenError::Key { number, known } => {
                write!(f, "is sealed by key {number}, and the key file has only ")?;
                known.iter().enumerate().try_for_each(|(at, known)| {
                    let between = if at > 0 { ", " } else { "" };
                    write!(f, "{between}{known}")
                })
            }
            OpenError::Check { name, number } => write!(
                f,
                "is not sealed by key {number} of generator {name}: a mistyped character, another generator or another \
                 key"
            ),
        }
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer(name: &str, keys: &str, alphabet: &str) -> Sealer {
        let (low, high) = ("000102030405060708090a0b0c0d0e0f", "101112131415161718191a1b1c1d1e1f");
        let keys = keys.replace("HEX", &format!("{low}{high}")).replace("XEH", &format!("{high}{low}"));
        Sealer::new(SealKeys::parse(keys.as_bytes()).unwrap(), name, Alphabet::parse(alphabet).unwrap()).unwrap()
    }

    #[test]
    fn texts_are_as_short_as_a_check_allows() {
        let shape = |chars| (TextShape::of(chars).chars, TextShape::of(chars).checks);
        assert_eq!(shape(58), (12, 9));
        assert_eq!(shape(62), (12, 21));
        assert_eq!(shape(10), (22, 67));
        assert_eq!(shape(36), (14, 41));
        assert_eq!(shape(64), (12, 32));
        for chars in SEAL_ALPHABET_CHARS_MIN..=getid_core::ALPHABET_CHARS_MAX {
            let TextShape { chars: length, checks } = TextShape::of(chars);
            let texts = (chars as u128).checked_pow(u32::try_from(length).unwrap()).unwrap();
            assert!(checks >= CHECKS_MIN && (16 * checks) << ID_BITS <= texts, "{chars}");
            assert!(checks < CHECKS_MIN * 64, "{chars}");
        }
    }

    #[test]
    fn an_alphabet_of_few_characters_is_refused() {
        let keys = sealer("a", "0 HEX", "base58").keys;
        let alphabet = Alphabet::parse("012345678").unwrap();
        assert_eq!(Sealer::new(keys, "a", alphabet), Err(ShortAlphabet { chars: 9 }));
    }

    #[test]
    fn ids_of_64_bits_are_refused() {
        let order = sealer("order", "0 HEX", "base58");
        assert!(order.seal(u64::MAX >> 1).is_ok());
        assert_eq!(order.seal(1 << 63), Err(SealError { id: 1 << 63 }));
    }

    #[test]
    fn a_summary_names_the_keys_by_number() {
        let order = sealer("order", "0 HEX\n3 XEH\n7 XEH open-only", "base58");
        assert_eq!(order.summary(), "generator order seals by key 3, opens texts of 0, 3, 7, answers with integers");
        assert!(order.answering(true).summary().ends_with(", answers with sealed texts"));
    }

    #[test]
    fn each_wrong_text_has_its_sentence() {
        let order = sealer("order", "0 HEX\n3 HEX", "base58");
        let text = order.seal(42).unwrap();
        let open = |text: &str| order.open(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(open(""), "has 0 bytes, must have 12 characters");
        assert_eq!(open("1"), "has 1 byte, must have 12 characters");
        assert_eq!(open(&text[1..]), "has 11 bytes, must have 12 characters");
        assert_eq!(
            open(&format!("{}l", &text[..11])),
            "has 'l' at place 12, must have only characters of base58; 'L' would be one: capitals and small letters \
             differ"
        );
        assert_eq!(open(&format!("\0{}", &text[1..])), "has '\\x00' at place 1, must have only characters of base58");
        assert_eq!(open("zzzzzzzzzzzz"), "is not a sealed text: no key writes a text so high in the alphabet");
        let other = sealer("order", "0 HEX\n5 HEX", "base58").seal(42).unwrap();
        assert_eq!(open(&other), "is sealed by key 5, and the key file has only 0, 3");
        let invoice = sealer("invoice", "3 HEX", "base58");
        let foreign = (0..100).map(|id| invoice.seal(id).unwrap()).find(|text| order.open(text.as_bytes()).is_err());
        assert_eq!(
            open(&foreign.unwrap()),
            "is not sealed by key 3 of generator order: a mistyped character, another generator or another key"
        );
    }

    #[test]
    fn texts_of_each_key_of_the_file_are_opened() {
        let (old, new) = (sealer("order", "0 HEX", "base58"), sealer("order", "0 HEX\n1 XEH", "base58"));
        let text = old.seal(7).unwrap();
        assert_ne!(text, new.seal(7).unwrap());
        assert_eq!(new.open(text.as_bytes()), Ok(Opened { id: 7, key: 0 }));
        assert_eq!(new.open(new.seal(7).unwrap().as_bytes()), Ok(Opened { id: 7, key: 1 }));
    }
}
