//! What is declared of a named generator: `tweets twitter datacenter 3 epoch 2016-01-01T00:00:00Z format base62`.
//!
//! The same words are in configuration files, on command lines and in the record, so they are read here, and only here.
//! All mistakes of a declaration are reported together.
//!
//! What may change between two lives is decided here too ([`Declaration::may_replace`]): nothing by which an ID could
//! be given again.
mod change;
mod draft;
mod error;
mod value;

pub use change::Change;
pub use draft::{EpochParser, no_dates};
pub use error::DeclarationError;
pub use value::{
    Declaration, FIELD_NAME_BYTES_MAX, NAME_BYTES_MAX, OPTIONS, RESERVED_NAME, WORDS_MAX, is_name, is_reserved_name,
};
