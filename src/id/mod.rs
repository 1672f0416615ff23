//! The ID core: pure and synchronous, no I/O, no clock of its own, no dependencies.

pub mod layout;
pub mod scheme;
pub mod time;

pub use layout::{Id, Layout, LayoutError, Parts};
pub use scheme::{RandomCycle, Reservation, Scheme};
pub use time::{Epoch, Slot, Tick};
