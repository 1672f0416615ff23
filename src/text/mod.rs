//! Text for people: patterns, numbers with what they count, text made safe to show, words
//! that were probably meant, times, addresses of stores, names by their hash.

pub mod glob;
pub mod name_hash;
pub(crate) mod plural;
pub(crate) mod printable;
pub(crate) mod shell;
pub mod store_url;
pub mod suggest;
pub mod timestamp;
pub mod zone;
