//! Text for people: patterns, numbers with what they count, text made safe to show, words
//! that were probably meant, times.

pub mod glob;
pub(crate) mod plural;
pub(crate) mod printable;
pub mod suggest;
pub mod timestamp;
