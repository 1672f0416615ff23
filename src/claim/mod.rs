//! The right to one server-id, with its watermark: what a server writes down so that its next run repeats no ID.
//!
//! A generator that lives in memory forgets with its process how far it had come. So it may only give IDs below a
//! watermark that is already durable, and the next run starts there. A [`Claim`] is the right to write that watermark
//! and the way to write it: taken at the start, saved to while running, released at the end.
//!
//! When to save, how far ahead, and what to tell clients meanwhile is not decided here: that is the mint's and the
//! issuer's.
//!
//! Invariants: after `save` has returned `Ok`, a crash at any later moment leaves a record that is at least that new;
//! and nothing is saved for a caller that has not been told what was found when a lost claim was taken again.

pub mod cluster;
pub mod declarations;
pub mod envelope;
mod error;
pub mod fleet;
pub mod folder;
pub mod listing;
pub(crate) mod lock;
pub mod machine;
pub mod mark;
pub mod record;
mod saver;
pub mod status;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use getid_core::SavePoint;
use getid_core::claim::Hold;

pub use self::declarations::{Conflict, Declarations, Forgotten};
pub use self::envelope::{Owner, RecordError, Term};
pub use self::error::{SaveError, TakeError};
pub use self::folder::{Folder, FolderClaim, check_record};
pub use self::lock::SaveStep;
pub use self::machine::{MachineClaim, MachineError};
pub use self::mark::{Mark, Place};
pub use self::record::{Identity, MarkedRecord, Mismatch, Record};

/// The right to write one record, and the way to do it.
///
/// Each holder has a number, a [`Term`]. A claim that was lost and is taken again begins a new term, as a start does:
/// with what was found. So each save says for which term it speaks, and a save of a term that has ended is refused and
/// told so. However many saves are dropped on the way, no holder goes on without knowing.
pub trait Claim: Sized + Send + 'static {
    /// Where the record is, and what it is a record of.
    type Place: Send + 'static;
    /// What is saved: where the next run starts.
    type Point: Copy + Send + 'static;

    /// Whether a server may run without having it: a standby, which waits for it. Then [`Claim::take`] finds nothing,
    /// saves tell [`SaveError::Standby`] until the claim is there, and [`SaveError::ClaimRetaken`] once it is.
    const MAY_COME_LATER: bool = false;

    /// Takes the claim, and reads what the last holder left.
    ///
    /// # Errors
    ///
    /// [`TakeError`], whose text names path, cause and remedy.
    fn take(place: Self::Place) -> impl Future<Output = Result<Taken<Self>, TakeError>> + Send;

    /// Makes `point` and `declarations` durable, and is fenced: it succeeds only if the record is still the one that
    /// this holder wrote or found last. `Ok` means that no crash can undo it. `term` is the one that `take` gave, or
    /// [`SaveError::ClaimRetaken`] since.
    ///
    /// A claim that ends by silence is renewed by the same call, with the newest point, at regular times: a renewal
    /// that did not save, or was not fenced, would be no renewal. A lock in a folder is held until it is released, and
    /// needs none.
    ///
    /// May be dropped before it is done (a time-out): the save then goes on by itself, and the next `save` waits for it
    /// first. After an error the record is the old one or this one.
    ///
    /// # Errors
    ///
    /// [`SaveError`]. The caller tries again as long as it lives: each call starts from the beginning.
    fn save(
        &mut self,
        point: Self::Point,
        declarations: Arc<Declarations>,
        term: Term,
    ) -> impl Future<Output = Result<(), SaveError<Self::Point>>> + Send;

    /// How long after a save began the next one is to begin at the latest, whether there is anything to store or not: a
    /// beat of a holder, a look of a standby. `None`: there is no need for it.
    fn pace(&self) -> Option<Duration> {
        None
    }

    /// How long IDs may be given since the last save that succeeded; `None`: until the claim is lost.
    fn hold(&self) -> Option<Hold> {
        None
    }

    /// Gives the claim up for a while, because IDs cannot be given with it: the clock is absurd, as `why` says. To be
    /// called at the [pace](Claim::pace) in the place of saves, as long as that is so. Not for a claim that does not
    /// end by silence.
    fn step_down(&mut self, _why: &str) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// The last act: saves as [`Claim::save`] does, and gives the claim up whatever comes of that, so that the
    /// next holder need not wait. Dropping a claim gives it up without a word: a lock ends with it, and a claim that
    /// ends by silence does after its time-out.
    ///
    /// # Errors
    ///
    /// As [`Claim::save`].
    fn release(
        mut self,
        point: Self::Point,
        declarations: Arc<Declarations>,
        term: Term,
    ) -> impl Future<Output = Result<(), SaveError<Self::Point>>> + Send {
        async move { self.save(point, declarations, term).await }
    }
}

/// A claim that was taken, and what was found.
#[derive(Debug)]
pub struct Taken<S: Claim> {
    /// Where to save.
    pub claim: S,
    /// What the last holder left; `None`: there was no record.
    pub point: Option<S::Point>,
    /// How named generators were declared: what each save stores beside its point.
    pub declarations: Arc<Declarations>,
    /// The number of this holder.
    pub term: Term,
    /// The claim that was taken is not the one that the writer of the record had: folder or lock file are others. That
    /// server may still be running, and learns of it at its next save only.
    pub is_copy: bool,
}

impl<S: Claim> Taken<S> {
    /// [`Claim::save`] with these declarations for this term; the new ones, once an error has told that the claim was
    /// taken again.
    ///
    /// # Errors
    ///
    /// As [`Claim::save`].
    pub async fn save(&mut self, point: S::Point) -> Result<(), SaveError<S::Point>> {
        let result = self.claim.save(point, Arc::clone(&self.declarations), self.term).await;
        if let Err(SaveError::ClaimRetaken { declarations, term, .. }) = &result {
            self.declarations = Arc::clone(declarations);
            self.term = *term;
        }
        result
    }

    /// [`Claim::release`] with these declarations for this term.
    ///
    /// # Errors
    ///
    /// As [`Claim::release`].
    pub async fn release(self, point: S::Point) -> Result<(), SaveError<S::Point>> {
        self.claim.release(point, self.declarations, self.term).await
    }
}

/// The claim of `id-state none`: nothing is locked, every save succeeds, and nothing is kept.
///
/// Each start is then a start without a record.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoClaim;

impl NoClaim {
    /// As a first start has it, or with a point that a test wants it to have found.
    pub fn taken(point: Option<SavePoint>) -> Taken<NoClaim> {
        Taken { claim: NoClaim, point, declarations: Arc::default(), term: Term::default(), is_copy: false }
    }
}

impl Claim for NoClaim {
    type Place = ();
    type Point = SavePoint;

    async fn take((): ()) -> Result<Taken<NoClaim>, TakeError> {
        Ok(NoClaim::taken(None))
    }

    async fn save(&mut self, _: SavePoint, _: Arc<Declarations>, _: Term) -> Result<(), SaveError> {
        Ok(())
    }
}
