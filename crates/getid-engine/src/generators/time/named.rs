//! Named generators under the issuer's lock: their list in this life, and draws from them.
//!
//! A generator that had a name once keeps its index for the life, with its place in the mint: one that is removed and
//! returns unchanged continues behind itself. One that returns with another declaration gets a new index, whose line
//! begins past all given IDs, and the old one gives nothing any more: both would give the same slots.
//!
//! Invariant: of each name, only the generator with the largest index gives IDs.

use std::sync::Arc;
use std::task::Waker;

use getid_core::server::LineSpec;
use getid_core::server::checks::{Fault, planted};
use getid_core::{Blocked, Declaration, NamedGenerator, RandomCycle, Refusal, Reservation, Role};
use rand::seq::SliceRandom as _;

use super::issuer::{Issuer, IssuerState, SourceIndex, start_unix_ms};
use super::named_status::NamedStatus;
use super::source::{IdSource, IssuerNamed, SourceSlots};
use crate::claim::{Conflict, random_bits};
use getid_system::clock::Clock;

/// Maximum number of generators that have a name in one life, removed and redeclared ones included.
const NAMED_MAX: usize = 10_000;

/// Maximum number of values in the random cycles of all of those: 256 MiB at 4 bytes each. They stay for the life,
/// since clients may still hold earlier generators.
const RANDOM_VALUES_MAX: u64 = 1 << 26;

/// Reason why generators cannot be declared.
#[derive(Debug, thiserror::Error)]
pub enum DeclareError {
    /// IDs of the generators could be given again.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// A generator's fields have no room for the server-id.
    #[error("generator '{name}' has no room for server-id {server_id}")]
    ServerId {
        /// Name of the generator.
        name: String,
        /// The server-id.
        server_id: u32,
    },
    /// The unnamed generator's layout has no room for the server-id.
    #[error("server-id {server_id} does not fit id-range {server_bits}")]
    IdRange {
        /// The server-id.
        server_id: u32,
        /// Width of the server-id, in bits.
        server_bits: u32,
    },
    /// There were too many changes in one life.
    #[error("generators were added or changed {NAMED_MAX} times since the start; restart the server to change more")]
    TooManyChanges,
    /// The generators' random cycles would take too much memory.
    #[error(
        "the random fields of generators that were added or changed since the start take too much memory; restart the \
         server to change more"
    )]
    TooMuchRandom,
}

impl<C: Clock> Issuer<C> {
    /// Replaces the named generators, and returns the index of each. Called at a start, and whenever the configuration
    /// changes.
    ///
    /// A new one gives its first ID once a save with its declaration has succeeded. A client with the index of a
    /// removed one can still draw from it; one that is redeclared gives nothing.
    ///
    /// # Errors
    ///
    /// [`DeclareError`], and nothing has changed.
    pub fn declare(&self, configured: &[Arc<Declaration>]) -> Result<Vec<(usize, Arc<NamedGenerator>)>, DeclareError> {
        loop {
            let known = self.declarations();
            let from_unix_ms = start_unix_ms(&self.lock().mint, self.clock.boot_ns(), self.identity().layout);
            let declarations = Arc::new(known.with(configured, from_unix_ms, random_bits)?);
            // Random cycles are large: they are made without the lock.
            let mut generators = Vec::with_capacity(configured.len());
            for declared in configured {
                // `with` has put it there.
                let Some(resolved) = declarations.find(declared.name()) else { continue };
                generators.push(match self.find(resolved) {
                    Some(known) => known,
                    None => self.generator_of(resolved)?,
                });
            }
            let mut state = self.lock();
            // Another thread has changed them meanwhile.
            if !Arc::ptr_eq(&state.declarations, &known) {
                continue;
            }
            let new = generators.iter().filter(|generator| state.index_of(generator).is_none());
            let all = state.named.iter().map(|named| &named.generator).chain(new);
            may_be_of_one_life(all.map(|generator| generator.declaration()))?;
            if *state.declarations != *declarations {
                state.declarations = declarations;
            }
            let boot_ns = self.clock.boot_ns();
            let mut wakers = Vec::new();
            let indexed = generators.into_iter().map(|generator| {
                let index = state.index_of(&generator);
                let index = index.unwrap_or_else(|| state.add(Arc::clone(&generator), boot_ns, &mut wakers));
                (index, generator)
            });
            let indexed = indexed.collect();
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
            self.for_keeper.notify_one();
            return Ok(indexed);
        }
    }

    /// Returns the generator of this name, if its declaration is this one.
    fn find(&self, declaration: &Declaration) -> Option<Arc<NamedGenerator>> {
        let state = self.lock();
        let mut named = state.named.iter().rev().map(|named| &named.generator);
        let known = named.find(|known| match known.declaration() {
            known if planted(Fault::RedeclaredGoesOn) => known == declaration,
            known => known.name() == declaration.name(),
        })?;
        (known.declaration() == declaration).then(|| Arc::clone(known))
    }

    fn generator_of(&self, declaration: &Declaration) -> Result<Arc<NamedGenerator>, DeclareError> {
        generator_of(declaration, self.identity().server_id)
    }

    /// Sets the server-id of this life, if it was not known at the start (`server-id auto`), and returns the named
    /// generators with it. Only before the first ID: holders of earlier generators must not draw from them.
    ///
    /// # Errors
    ///
    /// [`DeclareError::ServerId`], and nothing has changed.
    pub fn set_server_id(&self, server_id: u32) -> Result<Vec<(usize, Arc<NamedGenerator>)>, DeclareError> {
        loop {
            let before: Vec<_> = self.lock().named.iter().map(|named| Arc::clone(&named.generator)).collect();
            // Random cycles are large: they are made without the lock.
            let after = before.iter().map(|known| generator_of(known.declaration(), server_id));
            let after = after.collect::<Result<Vec<_>, _>>()?;
            let mut state = self.lock();
            let is_same = |(named, known): (&IssuerNamed, &Arc<NamedGenerator>)| Arc::ptr_eq(&named.generator, known);
            // Another thread has declared others meanwhile.
            if state.named.len() != before.len() || !state.named.iter().zip(&before).all(is_same) {
                continue;
            }
            for (named, generator) in state.named.iter_mut().zip(&after) {
                named.generator = Arc::clone(generator);
            }
            self.note_server_id(server_id);
            return Ok(after.into_iter().enumerate().collect());
        }
    }

    /// Draws as [`Issuer::try_draw`] does, from the named generator with this index.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]: no IDs now.
    ///
    /// # Panics
    ///
    /// If there is no such index, which [`Issuer::declare`] then did not return.
    #[inline]
    pub(crate) fn try_draw_named(&self, index: usize, n: u32) -> Result<Option<Reservation>, Refusal> {
        let mut state = self.lock_beside_the_lane();
        let IssuerState { mint, named, .. } = &mut *state;
        let source = &mut named[index].source;
        if !source.queue.is_empty() {
            return Ok(None);
        }
        match source.draw(mint, self.clock.boot_ns(), n, false) {
            Ok(reservation) => {
                let save_is_due = mint.is_save_due();
                drop(state);
                if save_is_due {
                    self.for_keeper.notify_one();
                }
                Ok(Some(reservation))
            }
            Err(Blocked::Watermark | Blocked::Borrow { .. }) => {
                drop(state);
                self.for_keeper.notify_one();
                Ok(None)
            }
            Err(Blocked::Refused(refusal)) => {
                source.note_refused(n);
                Err(refusal)
            }
        }
    }

    /// Draws as [`Issuer::draw`] does, from the named generator with this index.
    ///
    /// # Errors
    ///
    /// A [`Refusal`]; the caller then discards `drawn`.
    pub async fn draw_named(&self, index: usize, n: u32, drawn: &mut Vec<Reservation>) -> Result<(), Refusal> {
        self.draw_from(SourceIndex::Named(index), n, drawn).await
    }

    /// Returns the status of the generators with these indices.
    pub fn named_status(&self, indices: impl IntoIterator<Item = usize>) -> Vec<NamedStatus> {
        let state = self.lock();
        let boot_ns = self.clock.boot_ns();
        let reference_unix_ms = state.mint.status(boot_ns).reference.unix_ms(self.identity().layout.epoch());
        let status = indices.into_iter().map(|index| state.named_status(index, boot_ns, reference_unix_ms));
        let statuses: Vec<_> = status.collect();
        drop(state);
        let hangs = |(status, awaits_save): (NamedStatus, bool)| {
            let refusing = self.refusing_for(status.refusing, awaits_save);
            NamedStatus { refusing, ..status }
        };
        statuses.into_iter().map(hangs).collect()
    }
}

fn generator_of(declaration: &Declaration, server_id: u32) -> Result<Arc<NamedGenerator>, DeclareError> {
    let random_bits = declaration.layout().bits_of(Role::Random);
    let cycle = (random_bits > 0).then(|| random_cycle(random_bits));
    let generator = NamedGenerator::new(declaration.clone(), server_id, cycle);
    let name = || declaration.name().to_owned();
    generator.map(Arc::new).ok_or_else(|| DeclareError::ServerId { name: name(), server_id })
}

impl IssuerState {
    /// Returns the index of this very generator.
    fn index_of(&self, generator: &Arc<NamedGenerator>) -> Option<usize> {
        self.named.iter().position(|named| Arc::ptr_eq(&named.generator, generator))
    }

    fn add(&mut self, generator: Arc<NamedGenerator>, boot_ns: u64, wakers: &mut Vec<Waker>) -> usize {
        let declaration = generator.declaration();
        let name = declaration.name();
        let known = self.named.iter_mut().rev().find(|known| known.generator.declaration().name() == name);
        if let Some(known) = known {
            known.source.retire(wakers);
        }
        let layout = declaration.layout();
        let place = if layout.has_time() {
            SourceSlots::Line(self.mint.add_line(LineSpec {
                epoch_unix_ms: layout.epoch_unix_ms(),
                unit_ns: layout.unit().ns(),
                time_bits: layout.time_bits(),
                counter_bits: layout.counter_bits(),
                counter_start: declaration.counter_start(),
                // Different in each life, and the same when a simulated life is repeated.
                seed: boot_ns,
            }))
        } else {
            SourceSlots::Count(0)
        };
        let ids_per_s = generator.capacity_per_s().unwrap_or(u64::MAX);
        let source = IdSource::new(place, ids_per_s, self.max_wait_ms, boot_ns);
        self.named.push(IssuerNamed { generator, source });
        self.named.len() - 1
    }

    /// Returns a generator's status, and whether its next draw would wait for a save.
    fn named_status(&self, index: usize, boot_ns: u64, reference_unix_ms: i64) -> (NamedStatus, bool) {
        let IssuerNamed { generator, source } = &self.named[index];
        let (refusing, awaits_save) = source.refusing(&self.mint, boot_ns);
        let line = match source.place() {
            SourceSlots::Line(line) => Some(self.mint.line_status(boot_ns, line)),
            SourceSlots::Slots | SourceSlots::Count(_) | SourceSlots::Retired => None,
        };
        let position_unix_ms = line.as_ref().map(|line| {
            let layout = generator.declaration().layout();
            layout.unix_ms(line.next.0 >> layout.counter_bits()).max(reference_unix_ms)
        });
        let status = NamedStatus {
            generator: Arc::clone(generator),
            issued: source.issued(&self.mint, boot_ns),
            waited: source.waits,
            refused: source.refusals,
            asked_per_s: source.demand().settled_per_s(),
            ahead_ms: line.map_or(0, |line| line.ahead_ms),
            position_unix_ms,
            refusing,
        };
        (status, awaits_save)
    }
}

/// Checks whether so many generators may have names in one life.
fn may_be_of_one_life<'a>(declarations: impl Iterator<Item = &'a Declaration>) -> Result<(), DeclareError> {
    let (mut count, mut random_values) = (0, 0);
    for declaration in declarations {
        count += 1;
        let random_bits = declaration.layout().bits_of(Role::Random);
        random_values += if random_bits > 0 { 1_u64 << random_bits } else { 0 };
    }
    if count > NAMED_MAX {
        return Err(DeclareError::TooManyChanges);
    }
    if random_values > RANDOM_VALUES_MAX {
        return Err(DeclareError::TooMuchRandom);
    }
    Ok(())
}

/// Returns a new order of all values at each start, so that two lives, or two servers, do not follow the same order.
pub fn random_cycle(bits: u32) -> RandomCycle {
    let mut values: Vec<u32> = (0..1 << bits).collect();
    values.shuffle(&mut rand::rng());
    RandomCycle::new(values).expect("a shuffled range is a permutation")
}

#[cfg(test)]
mod tests {
    use getid_core::no_dates;

    use super::*;

    #[test]
    fn what_a_life_may_declare_is_bounded() {
        let reason = |words: &str, count| {
            let declaration = Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).unwrap();
            may_be_of_one_life(std::iter::repeat_n(&declaration, count)).map_err(|error| error.to_string())
        };
        assert_eq!(reason("g uuid7", 10_000), Ok(()));
        assert!(reason("g uuid7", 10_001).unwrap_err().contains("added or changed 10000 times"));
        // Each takes 8 MiB.
        assert_eq!(reason("g layout time:41@1ms random:21", 32), Ok(()));
        assert!(reason("g layout time:41@1ms random:21", 33).unwrap_err().contains("take too much memory"));
    }
}
