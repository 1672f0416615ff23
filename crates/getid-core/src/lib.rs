//! The ID core: pure and synchronous, no I/O, no clock of its own, no dependencies.

#[doc(hidden)]
pub mod checks;
pub mod generator;
pub mod layout;
pub mod mint;
pub mod reference;
pub mod scheme;
pub mod source;
pub mod time;

pub use generator::Generator;
pub use layout::{Id, Layout, LayoutError, Parts};
pub use mint::{Blocked, BorrowPolicy, Limits, Mint, Refusal, SavePoint, Status};
pub use reference::{ClockEvent, ClockFault, Reading, ReferenceClock, Severity};
pub use scheme::{RandomCycle, Reservation, Scheme};
pub use source::{Core, Overload, Piece};
pub use time::{Epoch, Slot, Tick, UtcMs};
