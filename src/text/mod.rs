//! Text for people: patterns, numbers with what they count, text made safe to show, times.

pub mod glob;
pub(crate) mod plural;
pub(crate) mod printable;
pub mod timestamp;
