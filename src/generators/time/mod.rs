//! IDs by the clock: one owner of the [`Mint`](getid_core::Mint) in a process, and the queue before it.
//!
//! A request for IDs is one linearizable step of tens of nanoseconds: one clock reading, and one exchange of a word,
//! the `lane`. Special cases take a short lock around pure structs, whose holder closes the lane first. Draws of named
//! generators take the lock too, and leave the lane open. A channel to an actor and back would cost more than the rest
//! of a request. Only a draw that would pass the watermark or the borrow limit waits, in a queue under the same lock.
//!
//! Pure code makes all decisions: the mint decides which IDs may be given, [`queue`] whose turn it is and which draw
//! may wait at all, and [`demand`] measures the requests. The [`Issuer`] passes them the time and carries out the
//! results; a `seat` is where a waiting draw gets its IDs.
//!
//! A waiting draw does nothing itself. Any task serves the queue: the keeper, which is woken when time or a save has
//! made room, or a draw that has to wait. It puts the IDs into the seat of the draw whose turn it is, so a connection
//! whose thread is busy delays no other.
//!
//! # Why IDs ascend although draws are served in slices
//!
//! The promise: an ID whose request was sent after the reply with another ID was received is larger. The mint gives
//! slots in ascending order, so every later draw has larger IDs. It remains to show that the later request's IDs are
//! drawn after every ID of that reply. A reply is written when its whole turn has its IDs ([`Issuer::draw`] returns
//! them all or none), so each slice of it was drawn before it was received. The other request was sent after that, and
//! no ID is drawn for a request before it is read. Slices of other draws may lie between those of one draw, which is
//! irrelevant: they are parts of concurrent requests. Within a draw, pieces are in order of time, so they ascend; a
//! connection's next turn begins when the one before has ended, so they ascend over turns.
//!
//! The lane changes none of this: an exchange that succeeds is a draw between two holders of the lock, and each holder
//! begins at the lane's position.
//!
//! Invariant: while a draw waits, only the queue gives IDs. The lane is closed then.

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
