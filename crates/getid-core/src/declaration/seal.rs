//! The words of a sealed generator: `seal key-file /etc/getid/order.keys alphabet base58 answer sealed`.
//!
//! A seal changes how an ID is shown to the public, and no ID. So it is not part of a record, and may change at any
//! time. The declaration has the path of the keys; another crate reads them.
//!
//! Invariant: the alphabet has 10 characters or more, and the path has no character that a line would need quotes for.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use core::fmt;

use crate::alphabet::{Alphabet, AlphabetError};
use crate::format::is_plain;
use crate::printable::Quoted;
use crate::radix::Radix;

/// The word that declares a seal. It is followed by no value.
pub const SEAL: &str = "seal";

/// Names of the options that only a sealed generator has, apart from `alphabet`.
pub(crate) const SEAL_OPTIONS: [&str; 2] = ["key-file", "answer"];

/// Fewest characters of an alphabet of sealed texts.
pub const SEAL_ALPHABET_CHARS_MIN: usize = 10;

/// Longest path of a key file, bytes.
const PATH_BYTES_MAX: usize = 255;

/// Options of a seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealDeclaration {
    /// Path of the file with the keys.
    pub key_file: String,
    /// Characters of sealed texts, at least 10.
    pub alphabet: Alphabet,
    /// Whether `GETID` and `MGETID` answer with sealed texts. Otherwise they answer with integers.
    pub answers_sealed: bool,
}

/// Words of a seal, as they were given.
#[derive(Debug, Default)]
pub(crate) struct SealWords {
    pub(crate) is_sealed: bool,
    pub(crate) key_file: Option<String>,
    pub(crate) alphabet: Option<String>,
    pub(crate) answer: Option<String>,
}

impl SealWords {
    /// Checks the words, and passes each mistake to `wrong`. Returns `None` without a seal, and after a mistake.
    pub(crate) fn check(self, mut wrong: impl FnMut(SealMistake)) -> Option<SealDeclaration> {
        let SealWords { is_sealed, key_file, alphabet, answer } = self;
        if !is_sealed {
            let given = [("key-file", &key_file), ("answer", &answer)];
            let given = given.into_iter().filter(|(_, text)| text.is_some());
            given.for_each(|(option, _)| wrong(SealMistake::NotSealed { option }));
            return None;
        }
        let key_file = match key_file {
            None => Err(SealMistake::NoKeyFile),
            Some(text) if text.is_empty() || text.len() > PATH_BYTES_MAX || !is_plain(&text) => {
                Err(SealMistake::KeyFile { text })
            }
            Some(path) => Ok(path),
        };
        let alphabet = Alphabet::parse(alphabet.as_deref().unwrap_or(Radix::Base58.word()));
        let alphabet = match alphabet {
            Err(error) => Err(SealMistake::Alphabet { error }),
            Ok(alphabet) if alphabet.len() < SEAL_ALPHABET_CHARS_MIN => {
                Err(SealMistake::ShortAlphabet { chars: alphabet.len() })
            }
            Ok(alphabet) => Ok(alphabet),
        };
        let answers_sealed = match answer.as_deref() {
            None | Some("integer") => Ok(false),
            Some("sealed") => Ok(true),
            Some(word) => Err(SealMistake::Answer { word: word.to_owned() }),
        };
        let key_file = key_file.map_err(&mut wrong).ok();
        let alphabet = alphabet.map_err(&mut wrong).ok();
        let answers_sealed = answers_sealed.map_err(&mut wrong).ok();
        Some(SealDeclaration { key_file: key_file?, alphabet: alphabet?, answers_sealed: answers_sealed? })
    }
}

/// Writes the words that declare the seal.
impl fmt::Display for SealDeclaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SEAL} key-file {} alphabet {}", self.key_file, self.alphabet)?;
        if self.answers_sealed { f.write_str(" answer sealed") } else { Ok(()) }
    }
}

/// Mistake in the words of a seal. `Display` shows the word that was read and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text of each describes it")]
pub enum SealMistake {
    NotSealed { option: &'static str },
    NoKeyFile,
    KeyFile { text: String },
    Alphabet { error: AlphabetError },
    ShortAlphabet { chars: usize },
    Answer { word: String },
    Kind { kind: &'static str },
    Text { kind: &'static str },
    Format { option: &'static str },
    Bits { bits: u32 },
}

impl SealMistake {
    /// Returns the option with the mistake.
    pub fn option(&self) -> &'static str {
        match self {
            Self::NotSealed { option } | Self::Format { option } => option,
            Self::KeyFile { .. } => "key-file",
            Self::Alphabet { .. } | Self::ShortAlphabet { .. } => "alphabet",
            Self::Answer { .. } => "answer",
            Self::NoKeyFile | Self::Kind { .. } | Self::Text { .. } | Self::Bits { .. } => SEAL,
        }
    }
}

impl fmt::Display for SealMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSealed { option } => {
                write!(f, "{option} is for a sealed generator: add 'seal key-file /etc/getid/seal.keys'")
            }
            Self::NoKeyFile => {
                f.write_str("seal has no key-file, must have one, as in: seal key-file /etc/getid/seal.keys")
            }
            Self::KeyFile { text } => write!(
                f,
                "key-file is {}, must be a path of 1 to {PATH_BYTES_MAX} printable ASCII characters without spaces, \
                 quotes and backslashes",
                Quoted(text)
            ),
            Self::Alphabet { error } => write!(f, "alphabet: {error}"),
            Self::ShortAlphabet { chars } => write!(
                f,
                "alphabet: it has {chars} characters, must have at least {SEAL_ALPHABET_CHARS_MIN} for a seal, or be a \
                 word such as base58"
            ),
            Self::Answer { word } => write!(f, "answer is {}, must be sealed or integer", Quoted(word)),
            Self::Kind { kind } => {
                write!(f, "seal is for integers, and {kind} is written in its own way")
            }
            Self::Text { kind } => write!(
                f,
                "seal is for integers, and IDs of {kind} are texts: write '{kind} time:41 format integer' with the seal"
            ),
            Self::Format { option } => {
                write!(f, "{option} is given together with seal, must be alone: a sealed text is written by alphabet")
            }
            Self::Bits { bits } => {
                write!(
                    f,
                    "seal is for integers of at most 63 bits, and the layout has {bits}: give its time fewer bits"
                )
            }
        }
    }
}

impl core::error::Error for SealMistake {}
