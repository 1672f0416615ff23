//! The ID core: pure and synchronous, no I/O, no clock of its own, no dependencies.

#[doc(hidden)]
pub mod checks;
mod clock;
mod layout;
mod mint;
mod scheme;
mod slots;
mod time;

pub use clock::{ClockEvent, ClockFault, JUMP_MS_MAX, Reading, ReferenceClock, Severity};
pub use layout::{Id, LOW_BITS, Layout, LayoutError, Parts};
pub use mint::{Blocked, BorrowPolicy, Limits, Mint, Overload, Refusal, SAVE_SLACK_MS, SavePoint, Status};
pub use scheme::{RandomCycle, Reservation, Scheme};
pub use slots::Slots;
pub use time::{Epoch, Slot, Tick, UtcMs};
