//! What an issuer needs of what it issues from: a pure value that hands out its wishes and is told what happened.
//!
//! [`Mint`](crate::Mint) is the first of them. Whatever else gives numbers by a durable mark (a sequence, a claim in a
//! cluster) has the same seams: draws that a mark bounds, a clock that is sampled, one save at a time, and a claim that
//! can be lost and retaken. Locks, queues, timers and disks are the issuer's.
//!
//! Invariant of every implementation: nothing is given that a life which finds any point the disk may hold could give
//! again. What is wanted counts as "may be on disk" from the moment it is handed out until the next save has succeeded.

use std::fmt::Debug;
use std::sync::Arc;

use crate::clock::{ClockEvent, Reading};
use crate::mint::{Blocked, Refusal};

/// A core, as an issuer sees it. Times are ns of a clock that is never set and counts suspend ([`Reading::boot_ns`]).
pub trait Core: Debug + Send + 'static {
    /// What a save stores, and the next life finds.
    type Point: Copy + Debug + PartialEq + Send + 'static;

    /// What one draw gives.
    type Drawn: Piece;

    /// What it says of itself, for INFO.
    type Status;

    /// Up to `n` at once; fewer where a bound cuts them, never none. `begun`: it is the rest of a draw that was cut.
    ///
    /// # Errors
    ///
    /// [`Blocked`]: what to wait for, or that waiting does not help. Nothing was used.
    fn draw(&mut self, boot_ns: u64, n: u64, begun: bool) -> Result<Self::Drawn, Blocked>;

    /// What a draw of one at `boot_ns` would come to, without drawing.
    ///
    /// # Errors
    ///
    /// As [`Core::draw`].
    fn next_draw(&self, boot_ns: u64) -> Result<(), Blocked>;

    /// Whether a draw that has not begun is served whole or refused, rather than piece by piece.
    fn is_drawn_whole(&self) -> bool;

    /// How long, ms, until time has come so far that anything can be drawn, whoever waits; 0: it has.
    fn late_ms(&mut self, boot_ns: u64) -> u64;

    /// How many were given in this life.
    fn issued(&self) -> u64;

    /// The refusal of a draw that would have to wait too long.
    fn overload(&self, overload: Overload) -> Refusal;

    /// The warning to log while more is asked for than there is, if so. `asked_per_s`: in the last second.
    fn borrowing(&self, boot_ns: u64, asked_per_s: u64) -> Option<String>;

    /// What it says of itself.
    fn status(&self, boot_ns: u64) -> Self::Status;

    /// A hint after a draw, one comparison: whether to ask [`Core::wanted`] now rather than at the next sample.
    fn is_save_due(&self) -> bool;

    /// Takes a reading of the clocks, every [`Core::sample_every_ms`], and says what to log.
    fn sample(&mut self, reading: Reading) -> Vec<ClockEvent>;

    /// How often, ms, [`Core::sample`] and [`Core::wanted`] should be called. It may change.
    fn sample_every_ms(&self) -> u64;

    /// The point to save now, if any. It ends in exactly one of [`Core::saved`], [`Core::failed`], [`Core::lost`] and
    /// [`Core::retaken`], and until then no other is wanted.
    fn wanted(&mut self, boot_ns: u64) -> Option<Self::Point>;

    /// The point that was wanted is durable.
    fn saved(&mut self, point: Self::Point);

    /// The save has failed with this text; the disk may hold the old point or the new one.
    fn failed(&mut self, error: Arc<str>);

    /// The claim is somebody else's, for now: nothing is given until a save has succeeded.
    fn lost(&mut self, text: Arc<str>);

    /// The claim had been lost and was taken again, with `found` on the disk: it goes on as a start that finds it.
    fn retaken(&mut self, boot_ns: u64, found: Option<Self::Point>, text: Arc<str>);

    /// Closes for good, and says what to store as the last act; `None`: nothing. May be called again.
    fn close(&mut self) -> Option<Self::Point>;
}

/// What a draw gives at once: so many neighbours.
pub trait Piece: Copy + Debug + Send + 'static {
    /// How many, at least 1.
    fn ids(&self) -> u32;

    /// Makes `next` a part of this piece where it begins at this one's end. False: it does not, and nothing has changed.
    fn append(&mut self, next: Self) -> bool;
}

/// How a draw would have to wait.
#[derive(Clone, Copy, Debug)]
pub struct Overload {
    /// For those before it in the queue, and itself, ms.
    pub wait_ms: u64,
    /// How long a draw may wait, ms (`id-max-wait-ms`).
    pub max_wait_ms: u64,
    /// [`Core::late_ms`].
    pub late_ms: u64,
    /// How many are asked for in a second.
    pub asked_per_s: u64,
}
