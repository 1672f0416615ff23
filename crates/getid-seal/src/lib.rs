//! Sealed IDs: the database stores an ordered integer, the public sees a text that reveals nothing of it.
//!
//! A [`Sealer`] has the keys of a key file ([`SealKeys`]), the name of a generator and an alphabet. It permutes the 63
//! bits of an ID by FF1 (NIST SP 800-38G) with AES-256, with the generator's name as tweak. The text also holds the
//! number of the key, so that keys can be replaced, and a small check, so that most mistyped texts are refused.
//!
//! Invariant: all texts of a sealer have one length, and each integer has one text for each key.

mod ff1;
mod keys;
mod sealer;
mod sealers;

pub use getid_core::SEAL_ALPHABET_CHARS_MIN;
pub use keys::{KEY_FILE_BYTES_MAX, KEYS_MAX, KeyFileError, SealKeys};
pub use sealer::{OpenError, Opened, SealError, Sealer, ShortAlphabet};
pub use sealers::Sealers;
