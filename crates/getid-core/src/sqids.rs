//! Short codes of numbers, as the libraries of sqids.org write them.
//!
//! A code is no secret, and codes have no order: it only keeps a reader from seeing at a glance how many there are. The
//! algorithm is that of the crate `sqids`, which needs `std`: without the feature `sqids` no [`SqidsCode`] can be
//! created, and its word is refused. The library shifts the alphabet until a text has no word of its list of words.
//!
//! Invariant: a text has one number, and a number one text. Other texts of a number, which the library reads as well,
//! are not read.

use alloc::string::String;
use core::fmt;

use crate::alphabet::Alphabet;
use crate::number::{Number, low_bits};
use coder::Coder;

/// Fewest characters of an alphabet: one separates, and at least two are digits.
const ALPHABET_CHARS_MIN: usize = 3;

/// Most bits of a number: the library's numbers are `u64`.
const NUMBER_BITS_MAX: u32 = u64::BITS;

/// The alphabet of the specification, in the order in which the library shuffles it.
const ALPHABET: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Writer and reader of codes with one alphabet and one minimum length.
#[derive(Clone, Debug)]
pub struct SqidsCode {
    alphabet: Alphabet,
    chars_min: u8,
    coder: Coder,
}

/// Codes with the same alphabet and minimum length have the same texts.
impl PartialEq for SqidsCode {
    fn eq(&self, other: &SqidsCode) -> bool {
        (&self.alphabet, self.chars_min) == (&other.alphabet, other.chars_min)
    }
}

impl Eq for SqidsCode {}

impl SqidsCode {
    /// The word that declares it.
    pub const WORD: &str = "sqids";

    /// Creates a code; without an alphabet it has that of the specification.
    pub(crate) fn new(alphabet: Option<Alphabet>, chars_min: u8) -> Result<SqidsCode, SqidsError> {
        let alphabet = match alphabet {
            Some(alphabet) if alphabet.len() < ALPHABET_CHARS_MIN => {
                return Err(SqidsError::Short { chars: alphabet.len() });
            }
            Some(alphabet) => alphabet,
            None => Alphabet::parse(ALPHABET).expect("62 characters, each once"),
        };
        let coder = Coder::new(&alphabet, chars_min).ok_or(SqidsError::Missing)?;
        Ok(SqidsCode { alphabet, chars_min, coder })
    }

    /// Checks that all numbers of `bits` bits have a code.
    pub(crate) fn check_bits(bits: u32) -> Result<(), SqidsError> {
        if bits <= NUMBER_BITS_MAX { Ok(()) } else { Err(SqidsError::Width { bits }) }
    }

    /// Returns the alphabet as declared; the library shuffles it.
    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// Returns the alphabet unless it is that of the specification.
    pub(crate) fn own_alphabet(&self) -> Option<&Alphabet> {
        Some(&self.alphabet).filter(|alphabet| alphabet.as_str() != ALPHABET)
    }

    /// Returns the text of a number. `None` if the number is too wide, or if each of its texts has a word of the
    /// library's list, which happens to alphabets of a few letters.
    pub(crate) fn write(&self, number: Number) -> Option<String> {
        self.coder.encode(u64::try_from(number).ok()?)
    }

    /// Returns the number of a text; `None` if [`SqidsCode::write`] does not write the text.
    pub(crate) fn read(&self, text: &str) -> Option<u64> {
        // The library's work grows with the square of the length.
        if text.len() > self.chars_max(NUMBER_BITS_MAX) {
            return None;
        }
        let number = self.coder.decode(text)?;
        let is_own = self.coder.encode(number).is_some_and(|own| own == text);
        is_own.then_some(number)
    }

    /// Returns the length of the longest text of a number of `bits` bits. A text is a character for the shift of the
    /// alphabet, and digits, for which one character of the alphabet is left out; then it is filled up. Another shift
    /// makes the text no longer.
    pub(crate) fn chars_max(&self, bits: u32) -> usize {
        let base = self.alphabet.len() as u128 - 1;
        let (mut number, mut chars) = (low_bits(bits), 2);
        while number >= base {
            number /= base;
            chars += 1;
        }
        chars.max(usize::from(self.chars_min))
    }
}

/// Reason why numbers can't be written as short codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqidsError {
    /// This build has no Sqids.
    Missing,
    /// The alphabet is too short.
    Short {
        /// Number of characters.
        chars: usize,
    },
    /// The numbers are too wide.
    Width {
        /// Width of the layout, bits.
        bits: u32,
    },
    /// `overflow` is given.
    Overflow,
}

impl SqidsError {
    /// Returns the option with the mistake.
    pub fn option(self) -> &'static str {
        match self {
            SqidsError::Missing | SqidsError::Width { .. } => "format",
            SqidsError::Short { .. } => "alphabet",
            SqidsError::Overflow => "overflow",
        }
    }
}

impl fmt::Display for SqidsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqidsError::Missing => {
                f.write_str("format is 'sqids', which this program is built without: build it with the feature 'sqids'")
            }
            SqidsError::Short { chars } => write!(
                f,
                "the alphabet has {chars} characters, must have at least {ALPHABET_CHARS_MIN} with format sqids"
            ),
            SqidsError::Width { bits } => write!(
                f,
                "format sqids is for numbers of at most {NUMBER_BITS_MAX} bits, and the layout has {bits}: take base62"
            ),
            SqidsError::Overflow => {
                f.write_str("overflow is not for format sqids, whose texts grow with their numbers: leave it out")
            }
        }
    }
}

impl core::error::Error for SqidsError {}

#[cfg(feature = "sqids")]
mod coder {
    use alloc::collections::BTreeSet;
    use alloc::string::String;
    use alloc::sync::Arc;

    use ::sqids::{Sqids, default_blocklist};

    use crate::alphabet::Alphabet;

    /// Letters at the beginning of a word by which it is found. No word of the library's list is shorter.
    const BEGINNING_CHARS: usize = 3;

    /// The library with its settings. Its list of words has tens of kilobytes, so copies share it.
    #[derive(Clone, Debug)]
    pub(super) struct Coder(Arc<Library>);

    /// The library compares a text with each of its 560 words, which takes 20 times as long as to make the text. Most
    /// texts have no beginning of such a word, and so no word.
    #[derive(Debug)]
    struct Library {
        with_words: Sqids,
        without_words: Sqids,
        /// Beginnings of the words, all in small letters.
        beginnings: BTreeSet<[u8; BEGINNING_CHARS]>,
    }

    impl Coder {
        /// Creates a coder for an alphabet of at least 3 characters.
        pub(super) fn new(alphabet: &Alphabet, chars_min: u8) -> Option<Coder> {
            let words = default_blocklist();
            let beginnings = words.iter().filter_map(|word| word.as_bytes().first_chunk().copied()).collect();
            let builder = || Sqids::builder().alphabet(alphabet.as_str().chars().collect()).min_length(chars_min);
            let with_words = builder().blocklist(words).build().ok()?;
            let without_words = builder().blocklist([].into()).build().ok()?;
            Some(Coder(Arc::new(Library { with_words, without_words, beginnings })))
        }

        /// Returns the library's text of a number.
        pub(super) fn encode(&self, number: u64) -> Option<String> {
            let library = &*self.0;
            let text = library.without_words.encode(&[number]).ok()?;
            let small = text.to_ascii_lowercase();
            let mut places = small.as_bytes().windows(BEGINNING_CHARS).filter_map(<[u8]>::first_chunk);
            if places.any(|chars| library.beginnings.contains(chars)) {
                return library.with_words.encode(&[number]).ok();
            }
            Some(text)
        }

        /// Returns the number of one of its texts, whichever the alphabet's shift.
        pub(super) fn decode(&self, text: &str) -> Option<u64> {
            match self.0.without_words.decode(text)[..] {
                [number] => Some(number),
                _ => None,
            }
        }
    }
}

#[cfg(not(feature = "sqids"))]
mod coder {
    use alloc::string::String;

    use crate::alphabet::Alphabet;

    /// No coder exists without the library.
    #[derive(Clone, Debug)]
    pub(super) enum Coder {}

    impl Coder {
        pub(super) fn new(_: &Alphabet, _: u8) -> Option<Coder> {
            None
        }

        pub(super) fn encode(&self, _: u64) -> Option<String> {
            match *self {}
        }

        pub(super) fn decode(&self, _: &str) -> Option<u64> {
            match *self {}
        }
    }
}
