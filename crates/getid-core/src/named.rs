//! Named generators as requests see them: their names, the values that come with a request, and how a slot becomes an
//! ID.
//!
//! The position of each in time is a line of the [`Mint`](crate::Mint).
//!
//! Invariant: `generators` is sorted by name, and no name occurs twice.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::composer::Composer;
use crate::declaration::Declaration;
use crate::fields::Role;
use crate::number::{Number, low_bits_64};
use crate::scheme::RandomCycle;

/// A named generator of one server.
#[derive(Clone, Debug)]
pub struct NamedGenerator {
    declaration: Declaration,
    composer: Composer,
    request_fields: Vec<RequestField>,
    foreign_to: Option<u32>,
    capacity_per_s: Option<u64>,
    id_bytes_max: usize,
    is_integer: bool,
}

/// A field whose value comes with each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestField {
    /// Name of the field.
    pub name: String,
    /// Its largest value; the smallest is 0.
    pub max: u64,
    shift: u32,
}

impl RequestField {
    /// Returns a checked value at its place in a number.
    pub fn place(&self, value: u64) -> Number {
        Number::from(value) << self.shift
    }

    /// Returns the value that was placed.
    pub fn value(&self, request: Number) -> u64 {
        (request >> self.shift).as_u64() & self.max
    }
}

/// Two generators of one server with the same declaration are equal.
impl PartialEq for NamedGenerator {
    fn eq(&self, other: &NamedGenerator) -> bool {
        self.declaration == other.declaration
    }
}

impl Eq for NamedGenerator {}

impl NamedGenerator {
    /// Creates the generator of the server with this server-id. `cycle` is for a layout with random bits.
    ///
    /// Returns `None` if the server-id or the cycle does not fit the layout, or a drawn field has no value yet
    /// ([`Declaration::draw_missing`]).
    pub fn new(declaration: Declaration, server_id: u32, cycle: Option<RandomCycle>) -> Option<NamedGenerator> {
        let layout = declaration.layout();
        // If it belongs to another server, that server's id must fit.
        let owner = declaration.one_server().unwrap_or(server_id);
        let composer = Composer::new(layout, owner, |name| declaration.drawn_value(name), cycle)?;
        let requests = layout.places().filter(|(field, _)| field.role == Role::Request);
        let request_fields = requests.map(|(field, shift)| {
            let max = low_bits_64(field.bits);
            RequestField { name: field.name.clone(), max, shift }
        });
        Some(NamedGenerator {
            request_fields: request_fields.collect(),
            foreign_to: declaration.one_server().filter(|&owner| owner != server_id),
            capacity_per_s: layout.capacity_per_s(),
            id_bytes_max: declaration.id_bytes_max(),
            is_integer: declaration.is_integer(),
            composer,
            declaration,
        })
    }

    /// Returns its declaration.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// Returns the fields for which a request must have a value, the most significant first.
    pub fn request_fields(&self) -> &[RequestField] {
        &self.request_fields
    }

    /// Returns the server that it belongs to, if that is another one: this server gives none of its IDs.
    pub fn foreign_to(&self) -> Option<u32> {
        self.foreign_to
    }

    /// Returns how many IDs it gives a second without borrowing; `None`: it has no time, and no such bound.
    pub fn capacity_per_s(&self) -> Option<u64> {
        self.capacity_per_s
    }

    /// Returns the longest text of an ID, bytes.
    pub fn id_bytes_max(&self) -> usize {
        self.id_bytes_max
    }

    /// Returns true if its IDs are integers on the wire.
    #[inline]
    pub fn is_integer(&self) -> bool {
        self.is_integer
    }

    /// Returns true if each ID has its own noise.
    #[inline]
    pub fn has_noise(&self) -> bool {
        self.composer.has_noise()
    }

    /// Draws the noise of one ID; 0 if its IDs have none. `noise` returns fresh random bits.
    #[inline]
    pub fn draw_noise(&self, noise: impl FnMut() -> u128) -> u128 {
        if self.has_noise() { self.declaration.draw_noise(noise) } else { 0 }
    }

    /// Returns the number at `slot`: see [`Composer::number`].
    #[inline]
    pub fn number(&self, slot: u64, count: u64, noise: u128, request: Number) -> Number {
        self.composer.number(slot, count, noise, request)
    }
}

/// The named generators of a server, by name. A change creates a new value.
#[derive(Clone, Debug, Default)]
pub struct NamedGenerators {
    generators: Vec<(usize, Arc<NamedGenerator>)>,
}

impl NamedGenerators {
    /// Creates the collection, each generator with its index in the registry that draws for it.
    pub fn new(generators: impl IntoIterator<Item = (usize, Arc<NamedGenerator>)>) -> NamedGenerators {
        let mut generators: Vec<_> = generators.into_iter().collect();
        let name = |entry: &(usize, Arc<NamedGenerator>)| String::from(entry.1.declaration.name());
        generators.sort_by_key(name);
        generators.dedup_by_key(|entry| name(entry));
        NamedGenerators { generators }
    }

    /// Returns true if there are no generators.
    pub fn is_empty(&self) -> bool {
        self.generators.is_empty()
    }

    /// Returns the place of the generator of this name, for [`NamedGenerators::get`] of the same value.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.generators.binary_search_by(|(_, known)| known.declaration.name().as_bytes().cmp(name)).ok()
    }

    /// Returns the generator at this place, and its index.
    #[inline]
    pub fn get(&self, place: usize) -> Option<(usize, &Arc<NamedGenerator>)> {
        self.generators.get(place).map(|(index, generator)| (*index, generator))
    }

    /// Returns all generators by name, each with its index.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (usize, &Arc<NamedGenerator>)> {
        self.generators.iter().map(|(index, generator)| (*index, generator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &str) -> Arc<NamedGenerator> {
        let words: Vec<_> = words.split(' ').collect();
        let declaration = Declaration::parse(&words, crate::no_dates).unwrap();
        Arc::new(NamedGenerator::new(declaration, 3, None).unwrap())
    }

    #[test]
    fn generators_are_found_by_their_whole_names() {
        let all =
            NamedGenerators::new([(1, named("tweets twitter")), (2, named("a.b js53")), (4, named("t timestamp-ms"))]);
        assert_eq!(all.iter().len(), 3);
        for (name, index) in [("tweets", Some(1)), ("a.b", Some(2)), ("Tweets", None), ("tweet", None), ("", None)] {
            assert_eq!(
                all.find(name.as_bytes()).and_then(|place| all.get(place)).map(|found| found.0),
                index,
                "{name}"
            );
        }
    }

    #[test]
    fn the_server_id_of_another_server_need_not_fit() {
        assert_eq!(named("a layout time:41@1ms server-id:1 counter:12 one-server 1").foreign_to(), Some(1));
    }

    #[test]
    fn a_request_brings_values_of_its_fields() {
        let lua = named("lua redis-lua one-server 0");
        assert_eq!(lua.foreign_to(), Some(0));
        let [shard] = lua.request_fields() else { panic!("one field") };
        assert_eq!((shard.name.as_str(), shard.max, lua.is_integer(), lua.has_noise()), ("shard", 4095, true, false));
        // Fields: time, shard, counter.
        assert_eq!(lua.number((7 << 10) | 5, 0, 0, shard.place(53)), (7 << 22) | (53 << 10) | 5);
    }
}
