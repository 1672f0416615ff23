//! Declarations of named generators: `tweets twitter datacenter 3 epoch 2016-01-01T00:00:00Z format base62`.
//!
//! Configuration files, command lines and the record have the same words, so only this module parses them. All mistakes
//! of a declaration are reported together.
//!
//! The module also decides which changes are allowed between two lives ([`Declaration::may_replace`]): none by which an
//! ID could repeat.
mod change;
mod draft;
mod error;
mod seal;
mod value;

pub use change::Change;
pub use draft::{EpochParser, no_dates};
pub use error::{DeclarationError, EpochError};
pub use seal::{SEAL, SEAL_ALPHABET_CHARS_MIN, SealDeclaration, SealMistake};
pub(crate) use seal::{SEAL_OPTIONS, SealWords};
pub use value::{Declaration, NAME_BYTES_MAX, OPTIONS, RESERVED_NAME, WORDS_MAX, is_name, is_reserved_name};
