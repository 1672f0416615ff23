//! IDs by the clock: one owner of the [`Mint`](getid_core::Mint) in a process, and the queue before it.
//!
//! A request for IDs is one linearizable step of tens of nanoseconds: one clock reading, and one exchange of a word,
//! the `lane`. Special cases take a short lock around pure structs, whose holder closes the lane first. Draws of named
//! generators take the lock too, and leave the lane open. Only a draw that would pass the watermark or the borrow limit
//! waits, in a queue under the same lock.
//!
//! Pure code makes all decisions: the mint, [`queue`] and [`demand`]. The [`Issuer`] passes them the time and carries
//! out the results.
//!
//! Invariant: while a draw waits, only the queue gives IDs. The lane is closed then.

pub mod demand;
#[cfg(test)]
mod interleavings;
mod issuer;
mod lane;
mod named;
mod named_status;
pub mod queue;
mod source;
mod status;
mod sync;
mod wait_slot;

pub use self::issuer::{DueSave, NextServe};
pub use self::issuer::{Issuer, MAX_WAIT_MS};
pub use self::named::{DeclareError, random_cycle};
pub use self::named_status::NamedStatus;
pub use self::status::IssuerStatus;
