//! Text for people: patterns, counted nouns, printable text, percent escapes, suggestions for misspelled words, times,
//! store addresses, and name hashes.

pub mod glob;
pub mod name_hash;
pub mod percent;
pub mod plural;
pub mod printable;
pub mod shell;
pub mod store_url;
pub mod suggest;
pub mod timestamp;
pub mod zone;
