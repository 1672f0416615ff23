//! What gives IDs: generators, each with a name and a kind, in one registry.
//!
//! A generator is told by its name where somebody asks (a command, a configuration), and by its index in the registry
//! from there on: 0 is the unnamed one, which is asked without a look at any table; the others have theirs for the
//! life. How an ID is written as a number or a text is the session's, which writes replies; and so is which name has
//! which index, because it must be known while a request is read.
//!
//! Clock, watermark and borrow limit are the server's, for all generators that carry time: they are positions in one
//! mint, which one issuer owns. A draw is `try_draw`, one step that gives up to n at once and never waits, or
//! `draw`, a future that gives all of them or a refusal, waits in a fair queue of that generator, and can be dropped.

pub mod end_of_life;
mod keeper;
mod periods;
pub mod sequence;
pub mod time;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use getid_core::{
    CounterDeclaration, Declaration, NamedGenerators, Refusal, Reservation, SequenceRefusal, SequenceStatus,
};

pub use self::keeper::{Keeper, KeeperError};
pub use self::periods::Counter;
use self::periods::Periods;
use self::sequence::Sequences;
use self::time::Issuer;
pub use self::time::{DeclareError, NamedStatus, random_cycle};
use crate::claim::status::ClaimView;
use crate::text::name_hash::hash_of;

/// Why there is no counter behind a generator that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterRefusal {
    /// A serial number shows the time, and the clock is absurd.
    Clock(Refusal),
    /// There is no room for more sequences in memory.
    Sequence(SequenceRefusal),
}

impl CounterRefusal {
    /// The error reply to whoever asks the generator of this name.
    pub fn of(&self, name: &str) -> String {
        match self {
            CounterRefusal::Clock(refusal) => refusal.to_string(),
            CounterRefusal::Sequence(refusal) => refusal.of(name),
        }
    }
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
    /// The registry of a server that has no named generators yet.
    pub fn new(issuer: Arc<Issuer>) -> Generators {
        Generators {
            issuer,
            named: Mutex::default(),
            sequences: OnceLock::new(),
            periods: Periods::default(),
            claim: OnceLock::new(),
        }
    }

    /// Gives only while this claim of a cluster store is held. Once, before anybody asks.
    pub fn set_claim(&self, claim: Arc<ClaimView>) {
        // A second time would be a mistake of the start's.
        let _ = self.claim.set(claim);
    }

    /// The claim in a cluster store; `None`: it is kept in a folder, or nowhere.
    pub fn claim(&self) -> Option<&Arc<ClaimView>> {
        self.claim.get()
    }

    /// The error reply to whoever asks a standby for what only a holder gives; `None`: this is none. The issuer refuses
    /// IDs by itself.
    pub fn standby_refusal(&self) -> Option<String> {
        self.claim.get().and_then(|claim| claim.refusal())
    }

    /// Makes these its sequences, once. Their first value counts as an ID for the server's clock and its record.
    pub fn set_sequences(&self, sequences: Arc<Sequences>) {
        let issuer = Arc::clone(&self.issuer);
        sequences.at_first_value(Box::new(move || issuer.give_reference_unix_ms().is_ok()));
        // A second time would be a mistake of the start's, and the first ones are being used.
        let _ = self.sequences.set(sequences);
    }

    /// Sequences, where there is a store of them.
    #[inline]
    pub fn sequences(&self) -> Option<&Arc<Sequences>> {
        self.sequences.get()
    }

    /// The counter behind a generator that counts, by the server's reference clock; a row of it is begun where there is
    /// none yet.
    ///
    /// # Errors
    ///
    /// [`CounterRefusal`].
    pub fn counter(&self, declaration: &Arc<CounterDeclaration>) -> Result<Counter, CounterRefusal> {
        let reference = || self.issuer.give_reference_unix_ms();
        let counter = self.periods.at(declaration, reference).map_err(CounterRefusal::Clock)?;
        if let Some(sequences) = self.sequences() {
            let opened = sequences.open_period(counter.hash, &counter.key, counter.opens.clone());
            opened.map_err(CounterRefusal::Sequence)?;
        }
        Ok(counter)
    }

    /// The key of the sequence that this counting generator drew from last, and what is known of that sequence; `None`
    /// if it was not asked in this life, or the sequence has left memory. Nothing is begun or fetched.
    pub fn counter_status(&self, name: &str) -> Option<(Arc<str>, SequenceStatus)> {
        let key = self.periods.key_of(name)?;
        let status = self.sequences()?.status_of(hash_of(key.as_bytes()), &key)?;
        Some((key, status))
    }

    /// Continues with a generator in a period that another server has begun ([`SequenceRefusal::Newer`]).
    pub fn advance_period(&self, name: &str, period: &str) {
        self.periods.advance_to(name, period);
    }

    /// Has the store asked for the counters of periods that begin soon: nobody waits when they do.
    pub fn prepare_periods(&self) {
        let Some(sequences) = self.sequences() else { return };
        for next in self.periods.coming(self.issuer.reference_unix_ms()) {
            // There is time yet to try again.
            let _ = sequences.prepare_period(next.hash, &next.key, next.opens);
        }
    }

    /// The issuer of the unnamed generator, which has the server's clock, watermark and limits.
    #[inline]
    pub fn unnamed(&self) -> &Arc<Issuer> {
        &self.issuer
    }

    /// Makes these the named generators from now on: see [`Issuer::declare`].
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

    /// The server-id of this life, where it was not known at the start: see [`Issuer::set_server_id`]. The named
    /// generators as they are with it.
    ///
    /// # Errors
    ///
    /// [`DeclareError`], and nothing has changed.
    pub fn set_server_id(&self, server_id: u32) -> Result<Arc<NamedGenerators>, DeclareError> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.issuer.set_server_id(server_id)?;
        // Those that were taken out of the configuration stay so.
        let configured = named.iter().filter_map(|(index, _)| Some((index, Arc::clone(&all.get(index - 1)?.1))));
        *named = Arc::new(NamedGenerators::new(configured));
        Ok(Arc::clone(&named))
    }

    /// The named generators, each with its index.
    pub fn table(&self) -> Arc<NamedGenerators> {
        Arc::clone(&self.named.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the named generators say of themselves, by name.
    pub fn named(&self) -> Vec<NamedStatus> {
        let indices: Vec<usize> = self.table().iter().map(|(index, _)| index - 1).collect();
        // Few at a time: draws go on between them.
        indices.chunks(50).flat_map(|some| self.issuer.named_status(some.iter().copied())).collect()
    }

    /// The same of those with these names; `None` for one that is not there.
    pub fn of_names(&self, names: &[String]) -> Vec<Option<NamedStatus>> {
        let table = self.table();
        let index = |name: &String| Some(table.get(table.find(name.as_bytes())?)?.0 - 1);
        names.iter().map(|name| self.issuer.named_status([index(name)?]).pop()).collect()
    }

    /// [`Issuer::try_draw`] from the generator with this index.
    ///
    /// # Errors
    ///
    /// As there.
    #[inline]
    pub fn try_draw(&self, generator: usize, n: u32) -> Result<Option<Reservation>, Refusal> {
        match generator.checked_sub(1) {
            None => self.issuer.try_draw(n),
            Some(named) => self.issuer.try_draw_named(named, n),
        }
    }

    /// [`Issuer::draw`] from the generator with this index.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn draw(&self, generator: usize, n: u32, drawn: &mut Vec<Reservation>) -> Result<(), Refusal> {
        match generator.checked_sub(1) {
            None => self.issuer.draw(n, drawn).await,
            Some(named) => self.issuer.draw_named(named, n, drawn).await,
        }
    }
}
