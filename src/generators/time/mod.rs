//! IDs by the clock: one owner of the [`Mint`](getid_core::Mint) in a process, and the queue before it.
//!
//! Asking for IDs is one linearizable step of tens of nanoseconds: one clock reading, and one exchange of a word, the
//! `lane`. Whatever is special takes a short lock around pure structs, whose holder closes the lane first. Draws of
//! named generators take the lock too, and leave the lane open. A channel to an actor and back would cost more than
//! everything else a request does. Only a draw that would pass the watermark or the borrow limit waits, in a queue
//! under the same lock.
//!
//! All decisions are made by what is pure: the mint says which IDs may be given, [`queue`] whose turn it is and which
//! draw may wait at all, [`demand`] how much is asked for. The [`Issuer`] gives them the time and does what they want
//! done; a `seat` is where a waiting draw gets its IDs.
//!
//! A waiting draw does nothing itself. The queue is served by whichever task comes along: the keeper, which is woken
//! when time or a save has made room, or a draw that has to wait. It puts the IDs into the seat of the draw whose turn
//! it is, so a connection whose thread is busy holds up nobody.
//!
//! # Why IDs ascend although draws are served in slices
//!
//! The promise: an ID whose request was sent after the reply with another ID was received is larger. The mint gives
//! slots in ascending order, so whatever is drawn later is larger, and all that has to be shown is that the later
//! request's IDs are drawn later than every ID of that reply. A reply is written when its whole turn has its IDs
//! ([`Issuer::draw`] returns them all or none), so each slice of it was drawn before it was received. The other request
//! was sent after that, and no ID is drawn for a request before it is read. Slices of other draws may lie between those
//! of one draw, and say nothing about it: they are parts of requests that were under way at the same time. Within a
//! draw, pieces are put in order of time, so they ascend; a connection's next turn begins when the one before has
//! ended, so they ascend over turns.
//!
//! The lane does not change any of this: an exchange that succeeds is a draw between two holders of the lock, and each
//! holder begins where the lane has come to.
//!
//! Invariant: while a draw waits, IDs are given by the queue only. The lane is closed then.

pub mod demand;
mod issuer;
mod lane;
mod named;
mod named_status;
pub mod queue;
mod seat;
mod source;
mod status;

pub use self::issuer::{Issuer, MAX_WAIT_MS};
pub(crate) use self::issuer::{Next, Wanted};
pub use self::named::{DeclareError, random_cycle};
pub use self::named_status::NamedStatus;
pub use self::status::IssuerStatus;
