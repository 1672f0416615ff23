//! The right to one server-id, with its watermark: the record by which a server's next run repeats no ID.
//!
//! A generator in memory loses its position with its process. So it may only give IDs below a watermark that is already
//! durable, and the next run starts there. A [`Claim`] is the right to write that watermark and the way to write it:
//! taken at the start, saved while running, released at the end.
//!
//! The mint and the issuer decide when to save, how far ahead, and what to reply to clients meanwhile.
//!
//! Invariants: after `save` has returned `Ok`, a crash at any later moment leaves a record that is at least that new.
//! After a lost claim is taken again, nothing is saved for a caller that has not received what was found.

pub mod cluster;
pub mod declarations;
pub mod envelope;
mod error;
pub mod fleet;
pub mod folder;
pub mod listing;
pub mod lock;
pub mod machine;
pub mod mark;
pub mod record;
mod saver;
pub mod status;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use getid_core::SavePoint;
use getid_core::server::claim::Hold;

pub use self::declarations::{Conflict, Declarations, ForgottenName, TooManyForgotten};
pub use self::envelope::{Owner, RecordError, Term};
pub use self::error::{SaveError, TakeError};
pub use self::folder::{Folder, FolderClaim, check_record};
pub use self::lock::SaveStep;
pub use self::machine::{MachineClaim, MachineError};
pub use self::mark::{Mark, RecordLocation};
pub use self::record::{Identity, MarkedRecord, Mismatch, Record};

/// Returns `bits` random bits, 1 to 64.
pub(crate) fn random_bits(bits: u32) -> u64 {
    rand::random::<u64>() >> (64 - bits.clamp(1, 64))
}

/// The right to write one record, and the way to do it.
///
/// Each holder has a number, a [`Term`]. A claim that was lost and is taken again begins a new term with what was
/// found, as a start does. Each save names its term, and a save of a term that has ended is refused with the new term.
/// So a holder learns of the loss however many saves are dropped.
pub trait Claim: Sized + Send + 'static {
    /// Place and identity of the record.
    type Config: Send + 'static;
    /// Saved position at which the next run starts.
    type Point: Copy + Send + 'static;

    /// Whether a server may run without the claim, as a standby that waits for it. Then [`Claim::take`] finds nothing.
    /// Saves return [`SaveError::Standby`] until the claim is taken, and then [`SaveError::ClaimRetaken`].
    const MAY_START_WITHOUT: bool = false;

    /// Takes the claim, and reads the record of the last holder.
    ///
    /// # Errors
    ///
    /// [`TakeError`], whose text names path, cause and remedy.
    fn take(place: Self::Config) -> impl Future<Output = Result<AcquiredClaim<Self>, TakeError>> + Send;

    /// Makes `point` and `declarations` durable, and is fenced: it succeeds only if the record is still the one that
    /// this holder wrote or found last. `Ok` means that no crash can undo it. `term` is that of `take`, or of the last
    /// [`SaveError::ClaimRetaken`].
    ///
    /// A claim that ends by silence is renewed by the same call, with the newest point, at regular times: a renewal
    /// without a fenced save would be invalid. A lock in a folder is held until it is released, and needs no renewal.
    ///
    /// The future may be dropped early (a time-out): the save then continues, and the next `save` waits for it first.
    /// After an error the record is the old one or this one.
    ///
    /// # Errors
    ///
    /// [`SaveError`]. The caller tries again for its whole life: each call starts from the beginning.
    fn save(
        &mut self,
        point: Self::Point,
        declarations: Arc<Declarations>,
        term: Term,
    ) -> impl Future<Output = Result<(), SaveError<Self::Point>>> + Send;

    /// Returns the longest time from the start of one save to the start of the next, even if there is nothing new to
    /// store. It is the beat of a holder and the check of a standby. `None` if regular saves are not needed.
    fn pace(&self) -> Option<Duration> {
        None
    }

    /// Returns how long IDs may be given after the last successful save; `None` means until the claim is lost.
    fn hold(&self) -> Option<Hold> {
        None
    }

    /// Gives the claim up for a while because IDs cannot be given with it: the clock is absurd, for the reason `why`.
    /// Called at the [pace](Claim::pace) in place of saves while that holds. Has no effect on a claim that does not end
    /// by silence.
    fn step_down(&mut self, _why: &str) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Saves as [`Claim::save`] does, and gives the claim up whatever the result, so that the next holder need not
    /// wait. Dropping a claim gives it up without a save: a lock ends at once, and a claim that ends by silence ends
    /// after its time-out.
    ///
    /// # Errors
    ///
    /// The errors of [`Claim::save`].
    fn release(
        mut self,
        point: Self::Point,
        declarations: Arc<Declarations>,
        term: Term,
    ) -> impl Future<Output = Result<(), SaveError<Self::Point>>> + Send {
        async move { self.save(point, declarations, term).await }
    }
}

/// A claim that was taken, and the record found with it.
#[derive(Debug)]
pub struct AcquiredClaim<S: Claim> {
    /// The claim, which saves.
    pub claim: S,
    /// Position that the last holder left; `None` if there was no record.
    pub point: Option<S::Point>,
    /// Declarations of named generators, which each save stores beside its point.
    pub declarations: Arc<Declarations>,
    /// Number of this holder.
    pub term: Term,
    /// Whether the claim is not the one that the writer of the record held: folder or lock file differ. That server may
    /// still be running, and detects it only at its next save.
    pub is_copy: bool,
}

impl<S: Claim> AcquiredClaim<S> {
    /// Saves with these declarations in this term. After [`SaveError::ClaimRetaken`] it keeps the new ones of both.
    ///
    /// # Errors
    ///
    /// The errors of [`Claim::save`].
    pub async fn save(&mut self, point: S::Point) -> Result<(), SaveError<S::Point>> {
        let result = self.claim.save(point, Arc::clone(&self.declarations), self.term).await;
        if let Err(SaveError::ClaimRetaken { declarations, term, .. }) = &result {
            self.declarations = Arc::clone(declarations);
            self.term = *term;
        }
        result
    }

    /// Releases the claim with these declarations in this term.
    ///
    /// # Errors
    ///
    /// The errors of [`Claim::release`].
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
    /// Returns the claim of a first start, or of a start that found `point` (for tests).
    pub fn acquired(point: Option<SavePoint>) -> AcquiredClaim<NoClaim> {
        AcquiredClaim { claim: NoClaim, point, declarations: Arc::default(), term: Term::default(), is_copy: false }
    }
}

impl Claim for NoClaim {
    type Config = ();
    type Point = SavePoint;

    async fn take((): ()) -> Result<AcquiredClaim<NoClaim>, TakeError> {
        Ok(NoClaim::acquired(None))
    }

    async fn save(&mut self, _: SavePoint, _: Arc<Declarations>, _: Term) -> Result<(), SaveError> {
        Ok(())
    }
}
