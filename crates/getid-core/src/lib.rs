//! The ID core: pure and synchronous, no I/O, no clock of its own, no dependencies.

#[doc(hidden)]
pub mod checks;
mod clock;
mod layout;
mod mint;
mod scheme;
mod slots;
mod source;
mod time;

pub use clock::{ClockEvent, ClockFault, JUMP_MS_MAX, Reading, ReferenceClock, Severity};
pub use layout::{Id, LOW_BITS, Layout, LayoutError, Parts};
pub use mint::{Blocked, BorrowPolicy, Limits, Mint, Refusal, SAVE_SLACK_MS, SavePoint, Status};
pub use scheme::{RandomCycle, Reservation, Scheme};
pub use slots::{EndOfTime, Slots};
pub use source::{Core, Overload, Piece};
pub use time::{Epoch, Slot, Tick, UtcMs};
