//! The sealers of a server, by the names of its generators.
//!
//! A key that takes the place of another one under its number would open that one's texts as other IDs. So the sealers
//! in force remember a digest of each key that they or their predecessors had.
//!
//! Invariant: sorted by name, each name once.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::keys::SealKeys;
use crate::sealer::Sealer;

/// Most generators whose earlier keys are remembered, a few MB. Those in force are never forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// Number and digest of each key that a generator has had, at most one for each number.
type KeyDigests = BTreeMap<u8, u64>;

/// The sealers of a server's generators. A change creates a new value; a clone shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sealers {
    sealers: Arc<[Sealer]>,
    /// The keys since the start, by the names of generators. Those of a removed generator are kept.
    digests: Arc<BTreeMap<String, KeyDigests>>,
}

impl Sealers {
    /// Creates the collection; of several sealers with one name it keeps the first.
    pub fn new(sealers: impl IntoIterator<Item = Sealer>) -> Sealers {
        let mut sealers: Vec<_> = sealers.into_iter().collect();
        sealers.sort_by(|one, other| one.name().cmp(other.name()));
        sealers.dedup_by(|one, other| one.name() == other.name());
        let digests_of = |sealer: &Sealer| (sealer.name().to_owned(), sealer.keys().digests().collect());
        let digests = sealers.iter().map(digests_of).collect::<BTreeMap<_, _>>();
        Sealers { sealers: sealers.into(), digests: digests.into() }
    }

    /// Returns the sealers with the memory of the keys of `earlier` ones, which they replace.
    #[must_use]
    pub fn after(self, earlier: &Sealers) -> Sealers {
        let mut digests = BTreeMap::clone(&self.digests);
        for (name, of_name) in &*earlier.digests {
            if let Some(known) = digests.get_mut(name) {
                for (&number, &digest) in of_name {
                    known.entry(number).or_insert(digest);
                }
            } else if digests.len() < REMEMBERED_MAX {
                digests.insert(name.clone(), of_name.clone());
            }
        }
        Sealers { digests: digests.into(), ..self }
    }

    /// Returns the first number of `keys` under which the generator has had another key. Texts of that key would not
    /// open any more, or would open as other IDs.
    pub fn number_with_other_key(&self, name: &str, keys: &SealKeys) -> Option<u8> {
        let known = self.digests.get(name)?;
        keys.digests().find(|(number, digest)| known.get(number).is_some_and(|known| known != digest)).map(|key| key.0)
    }

    /// Returns the sealer of the generator with this name.
    pub fn find(&self, name: &[u8]) -> Option<&Sealer> {
        let place = self.sealers.binary_search_by(|known| known.name().as_bytes().cmp(name)).ok()?;
        self.sealers.get(place)
    }

    /// Returns the sealer of the generator with this name, if its IDs are answered as sealed texts.
    #[inline]
    pub fn answering(&self, name: &str) -> Option<&Sealer> {
        if self.sealers.is_empty() {
            return None;
        }
        self.find(name.as_bytes()).filter(|sealer| sealer.answers_sealed())
    }

    /// Returns true if no generator is sealed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sealers.is_empty()
    }

    /// Returns all sealers, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Sealer> {
        self.sealers.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SealKeys;

    #[test]
    fn sealers_are_found_by_their_whole_names() {
        let keys = SealKeys::parse(format!("0 {}", "00".repeat(32)).as_bytes()).unwrap();
        let sealer = |name, answers| {
            Sealer::new(keys.clone(), name, getid_core::Alphabet::parse("base58").unwrap()).unwrap().answering(answers)
        };
        let all = Sealers::new([sealer("order", true), sealer("a", false), sealer("order", false)]);
        let names = |name: &str| all.find(name.as_bytes()).map(Sealer::name).map(str::to_owned);
        assert_eq!((names("order"), names("Order"), names("ord"), names("")), (Some("order".into()), None, None, None));
        assert_eq!(all.iter().len(), 2);
        assert!(all.answering("order").is_some() && all.answering("a").is_none() && all.answering("b").is_none());
        assert!(Sealers::default().answering("order").is_none());
    }

    #[test]
    fn another_key_under_a_number_of_earlier_sealers_is_found() {
        let keys = |text: &str| {
            let text = text.replace("OLD", &"00".repeat(32)).replace("NEW", &"11".repeat(32));
            SealKeys::parse(text.as_bytes()).unwrap()
        };
        let sealers = |text: &str| {
            let alphabet = getid_core::Alphabet::parse("base58").unwrap();
            Sealers::new([Sealer::new(keys(text), "order", alphabet).unwrap()])
        };
        let other = |sealers: &Sealers, text: &str| sealers.number_with_other_key("order", &keys(text));
        let first = sealers("0 OLD\n1 OLD");
        assert_eq!(other(&first, "1 OLD\n0 OLD\n2 NEW"), None);
        assert_eq!(other(&first, "0 OLD\n1 NEW"), Some(1));
        // A key that was removed, and a generator that was removed, are remembered.
        for between in [sealers("2 OLD"), Sealers::default()] {
            let later = between.after(&first);
            assert_eq!((other(&later, "0 NEW"), other(&later, "0 OLD\n3 NEW")), (Some(0), None));
            assert_eq!(other(&Sealers::default().after(&later), "0 NEW"), Some(0));
        }
        assert_eq!(first.number_with_other_key("invoice", &keys("0 NEW")), None);
    }
}
