//! Text for people: patterns, numbers with what they count, bytes made fit to be shown, times.

pub mod glob;
pub mod plural;
pub mod printable;
pub mod timestamp;
