//! The ID core: pure and synchronous, no I/O, no clock of its own, no dependencies.

#![no_std]

extern crate alloc;
// Only for what tests plant: it is kept by thread.
#[cfg(feature = "planted-faults")]
extern crate std;

#[doc(hidden)]
pub mod checks;
mod clock;
mod layout;
mod limits;
mod mint;
mod refusal;
mod save_point;
mod scheme;
mod slots;
mod status;
mod time;
mod watermark;

pub use clock::{ClockEvent, ClockFault, JUMP_MS_MAX, Reading, ReferenceClock, Severity};
pub use layout::{Id, LOW_BITS, Layout, LayoutError, Parts};
pub use limits::{BorrowPolicy, Limits};
pub use mint::Mint;
pub use refusal::{Blocked, Overload, Refusal};
pub use save_point::SavePoint;
pub use scheme::{RandomCycle, Reservation, Scheme};
pub use slots::Slots;
pub use status::Status;
pub use time::{Epoch, Slot, Tick, UtcMs};
pub use watermark::SAVE_SLACK_MS;
