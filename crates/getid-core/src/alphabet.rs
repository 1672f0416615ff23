//! Alphabets: the characters that texts of IDs consist of, in the order of their values.
//!
//! Invariant: 2 to 64 characters of `A-Z a-z 0-9 _ -`, none of them twice. So a text needs no quotes in a configuration
//! and no escapes in a URL.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use core::fmt;

use crate::radix::Radix;

/// Most characters of an alphabet: all that a URL takes without an escape, apart from `.` and `~`.
pub const ALPHABET_CHARS_MAX: usize = 64;

/// The characters of texts. The place of a character is its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alphabet(String);

impl Alphabet {
    /// Parses the word of a [`Radix`], such as `base58`, or the characters themselves.
    ///
    /// # Errors
    ///
    /// Fails for fewer than 2 or more than 64 characters, for another character than `A-Z a-z 0-9 _ -`, and for one
    /// that occurs twice.
    pub fn parse(text: &str) -> Result<Alphabet, AlphabetError> {
        if let Some(radix) = Radix::of_word(text) {
            return Ok(Alphabet(radix.alphabet().iter().copied().map(char::from).collect()));
        }
        let is_allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if let Some(character) = text.chars().find(|c| !is_allowed(c)) {
            return Err(AlphabetError::Character { character });
        }
        if !(2..=ALPHABET_CHARS_MAX).contains(&text.len()) {
            return Err(AlphabetError::Length { chars: text.len() });
        }
        let twice = text.char_indices().find(|&(at, c)| text[..at].contains(c));
        match twice {
            Some((_, character)) => Err(AlphabetError::Twice { character }),
            None => Ok(Alphabet(text.to_owned())),
        }
    }

    /// Returns the characters, in the order of their values.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the characters, in the order of their values.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns the number of characters, 2 to 64.
    #[expect(clippy::len_without_is_empty, reason = "an alphabet is never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the value of a character; `None` if it is another one. Capitals and small letters differ.
    pub fn value(&self, character: u8) -> Option<usize> {
        self.as_bytes().iter().position(|&known| known == character)
    }
}

/// Writes the alphabet as it is declared: by the word of a [`Radix`] if it has one.
impl fmt::Display for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Radix::ALL.into_iter().find(|radix| radix.alphabet() == self.as_bytes()) {
            Some(radix) => f.write_str(radix.word()),
            None => f.write_str(self.as_str()),
        }
    }
}

/// Reason why a text is not an alphabet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlphabetError {
    /// It has too few or too many characters.
    Length {
        /// Number of characters.
        chars: usize,
    },
    /// It has a character that is not allowed.
    Character {
        /// The first of them.
        character: char,
    },
    /// It has a character twice.
    Twice {
        /// The first of them.
        character: char,
    },
}

impl fmt::Display for AlphabetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlphabetError::Length { chars } => {
                write!(f, "it has {chars} characters, must have 2 to {ALPHABET_CHARS_MAX}, or be a word such as base58")
            }
            AlphabetError::Character { character } => {
                write!(f, "it has the character '{}', must have only A-Z a-z 0-9 _ -", character.escape_debug())
            }
            AlphabetError::Twice { character } => {
                write!(f, "it has the character '{character}' twice, must have each once")
            }
        }
    }
}

impl core::error::Error for AlphabetError {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn words_and_characters_are_alphabets() {
        let base58 = Alphabet::parse("base58").unwrap();
        assert_eq!((base58.len(), base58.to_string().as_str()), (58, "base58"));
        assert_eq!(Alphabet::parse(base58.as_str()), Ok(base58.clone()));
        assert_eq!((base58.value(b'1'), base58.value(b'z'), base58.value(b'0')), (Some(0), Some(57), None));
        let own = Alphabet::parse("zyx-_").unwrap();
        assert_eq!((own.to_string().as_str(), own.value(b'-'), own.value(b'Z')), ("zyx-_", Some(3), None));
    }

    #[test]
    fn wrong_alphabets_are_refused() {
        let long = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-0";
        for (text, error) in [
            ("", AlphabetError::Length { chars: 0 }),
            ("a", AlphabetError::Length { chars: 1 }),
            (long, AlphabetError::Length { chars: 65 }),
            ("abca", AlphabetError::Twice { character: 'a' }),
            ("ab c", AlphabetError::Character { character: ' ' }),
            ("abä", AlphabetError::Character { character: 'ä' }),
        ] {
            assert_eq!(Alphabet::parse(text), Err(error), "{text}");
        }
    }
}
