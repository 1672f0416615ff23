//! Text for people: patterns, numbers with what they count, text made safe to show, times.

pub mod glob;
pub mod plural;
pub mod printable;
pub mod timestamp;
