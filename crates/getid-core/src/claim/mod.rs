//! The claim on a server-id in a store that servers share: when to beat, when to stop, when to take over.
//!
//! Rules and numbers are those of `docs/fleet.md`. Nothing here reads a clock or speaks to a store: readings and answers
//! come in as values, and what is to be read or written goes out as one.

mod clocks;

pub use self::clocks::{Clocks, Hold};
