//! The registry of generators, each with a name and a kind.
//!
//! Commands and the configuration identify a generator by its name; internally it has an index. The unnamed generator
//! has index 0, which needs no table; the others keep theirs for a life. The session writes IDs as numbers or texts. It
//! also maps names to indices, because it needs them while it reads a request.
//!
//! Clock, watermark and borrow limit are shared by all generators that carry time: they are positions in one mint,
//! which one issuer owns. A draw is `try_draw` or `draw`. `try_draw` is one step that gives up to n IDs at once and
//! never waits. `draw` is a future that gives all of them or a refusal, waits in a fair queue of that generator, and
//! can be dropped.

pub mod end_of_life;
mod keeper;
mod periods;
mod refusals;
pub mod sequence;
pub mod time;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use getid_core::server::{CounterDeclaration, NamedGenerators, SequenceRefusal, SequenceStatus};
use getid_core::{Declaration, Refusal, Reservation};

pub use self::keeper::{Keeper, KeeperError};
use self::periods::Periods;
pub use self::periods::SerialCounter;
use self::sequence::Sequences;
use self::time::Issuer;
pub use self::time::{DeclareError, NamedStatus, random_cycle};
use crate::claim::status::{ClaimView, StandbyRefusal};
use getid_text::name_hash::hash_of;

/// Reason why a counter has no sequence to draw from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterRefusal {
    /// The clock is absurd, and a serial number shows the time.
    Clock(Refusal),
    /// Memory holds no more sequences.
    Sequence(SequenceRefusal),
}

/// The generators of a server, by index.
pub struct Generators {
    issuer: Arc<Issuer>,
    named: Mutex<Arc<NamedGenerators>>,
    sequences: OnceLock<Arc<Sequences>>,
    periods: Periods,
    claim: OnceLock<Arc<ClaimView>>,
}

impl Generators {
    /// Makes the registry of a server without named generators.
    pub fn new(issuer: Arc<Issuer>) -> Generators {
        Generators {
            issuer,
            named: Mutex::default(),
            sequences: OnceLock::new(),
            periods: Periods::default(),
            claim: OnceLock::new(),
        }
    }

    /// Ties the generators to a claim in a cluster store: they give only while it is held. Called once, before the
    /// first request.
    pub fn set_claim(&self, claim: Arc<ClaimView>) {
        // A second call would be an error of the start.
        let _ = self.claim.set(claim);
    }

    /// Returns the claim in a cluster store; `None` if the claim is in a folder, or there is none.
    pub fn claim(&self) -> Option<&Arc<ClaimView>> {
        self.claim.get()
    }

    /// Returns why a standby refuses values that only a holder gives; `None` if this server is no standby. The issuer
    /// itself refuses IDs.
    pub fn standby_refusal(&self) -> Option<StandbyRefusal> {
        self.claim.get().and_then(|claim| claim.refusal())
    }

    /// Sets the sequences, once. Their first value counts as an ID for the server's clock and its record.
    pub fn set_sequences(&self, sequences: Arc<Sequences>) {
        let issuer = Arc::clone(&self.issuer);
        sequences.at_first_value(Box::new(move || issuer.give_reference_unix_ms().is_ok()));
        // A second call would be an error of the start, and the first ones are in use.
        let _ = self.sequences.set(sequences);
    }

    /// Returns the sequences, if there is a store for them.
    #[inline]
    pub fn sequences(&self) -> Option<&Arc<Sequences>> {
        self.sequences.get()
    }

    /// Returns the current sequence of a counter, by the server's reference clock: that of a key, which is empty if the
    /// counter has no series. Begins its row if there is none yet. Without a key, a counter with series begins nothing.
    ///
    /// # Errors
    ///
    /// [`CounterRefusal`] if the clock is absurd or memory is full.
    pub fn counter(&self, declaration: &Arc<CounterDeclaration>, key: &str) -> Result<SerialCounter, CounterRefusal> {
        let reference = || self.issuer.give_reference_unix_ms();
        let mut counter = self.periods.at(declaration, reference).map_err(CounterRefusal::Clock)?;
        if declaration.series().is_some() {
            if key.is_empty() {
                return Ok(counter);
            }
            counter = counter.of_series(key);
        }
        if let Some(sequences) = self.sequences() {
            let opened = sequences.open_period(counter.hash, &counter.key, counter.counter_opening.clone());
            opened.map_err(CounterRefusal::Sequence)?;
        }
        Ok(counter)
    }

    /// Returns the key of the sequence from which this counter drew last, and that sequence's status. `None` if it was
    /// not used in this life, or the sequence has left memory. Begins and fetches nothing.
    pub fn counter_status(&self, name: &str) -> Option<(Arc<str>, SequenceStatus)> {
        let key = self.periods.key_of(name)?;
        let status = self.sequences()?.status_of(hash_of(key.as_bytes()), &key)?;
        Some((key, status))
    }

    /// Moves a counter to a period that another server has begun ([`SequenceRefusal::Newer`]).
    pub fn advance_period(&self, name: &str, period: &str) {
        self.periods.advance_to(name, period);
    }

    /// Fetches the sequences of periods that begin soon, so that no request waits when they do.
    pub fn prepare_periods(&self) {
        let Some(sequences) = self.sequences() else { return };
        for next in self.periods.coming(self.issuer.reference_unix_ms()) {
            // A failure is tried again before the period begins.
            let _ = sequences.prepare_period(next.hash, &next.key, next.counter_opening);
        }
    }

    /// Returns the issuer of the unnamed generator, which has the server's clock, watermark and limits.
    #[inline]
    pub fn unnamed(&self) -> &Arc<Issuer> {
        &self.issuer
    }

    /// Replaces the named generators: see [`Issuer::declare`].
    ///
    /// # Errors
    ///
    /// [`DeclareError`], and nothing has changed.
    pub fn declare(&self, configured: &[Arc<Declaration>]) -> Result<Arc<NamedGenerators>, DeclareError> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let declared = self.issuer.declare(configured)?;
        *named = Arc::new(NamedGenerators::new(declared.into_iter().map(|(index, generator)| (index + 1, generator))));
        Ok(Arc::clone(&named))
    }

    /// Sets the server-id of this life, if it was not known at the start: see [`Issuer::set_server_id`]. Returns the
    /// named generators with it.
    ///
    /// # Errors
    ///
    /// [`DeclareError`], and nothing has changed.
    pub fn set_server_id(&self, server_id: u32) -> Result<Arc<NamedGenerators>, DeclareError> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.issuer.set_server_id(server_id)?;
        // Generators that were removed from the configuration stay removed.
        let configured = named.iter().filter_map(|(index, _)| Some((index, Arc::clone(&all.get(index - 1)?.1))));
        *named = Arc::new(NamedGenerators::new(configured));
        Ok(Arc::clone(&named))
    }

    /// Returns the named generators, each with its index.
    pub fn table(&self) -> Arc<NamedGenerators> {
        Arc::clone(&self.named.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the status of the named generators, by name.
    pub fn named(&self) -> Vec<NamedStatus> {
        let indices: Vec<usize> = self.table().iter().map(|(index, _)| index - 1).collect();
        // Few at a time, so that draws can run in between.
        indices.chunks(50).flat_map(|some| self.issuer.named_status(some.iter().copied())).collect()
    }

    /// Returns the status of the generators with these names; `None` for an unknown name.
    pub fn of_names(&self, names: &[String]) -> Vec<Option<NamedStatus>> {
        let table = self.table();
        let index = |name: &String| Some(table.get(table.find(name.as_bytes())?)?.0 - 1);
        names.iter().map(|name| self.issuer.named_status([index(name)?]).pop()).collect()
    }

    /// Calls [`Issuer::try_draw`] for the generator with this index.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] of the issuer.
    #[inline]
    pub fn try_draw(&self, generator: usize, n: u32) -> Result<Option<Reservation>, Refusal> {
        match generator.checked_sub(1) {
            None => self.issuer.try_draw(n),
            Some(named) => self.issuer.try_draw_named(named, n),
        }
    }

    /// Calls [`Issuer::draw`] for the generator with this index.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] of the issuer.
    pub async fn draw(&self, generator: usize, n: u32, drawn: &mut Vec<Reservation>) -> Result<(), Refusal> {
        match generator.checked_sub(1) {
            None => self.issuer.draw(n, drawn).await,
            Some(named) => self.issuer.draw_named(named, n, drawn).await,
        }
    }
}
