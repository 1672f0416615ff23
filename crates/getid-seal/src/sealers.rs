//! The sealers of a server, by the names of its generators.
//!
//! Invariant: sorted by name, each name once.

use std::sync::Arc;

use crate::sealer::Sealer;

/// The sealers of a server's generators. A change creates a new value; a clone shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sealers(Arc<[Sealer]>);

impl Sealers {
    /// Creates the collection; of several sealers with one name it keeps the first.
    pub fn new(sealers: impl IntoIterator<Item = Sealer>) -> Sealers {
        let mut sealers: Vec<_> = sealers.into_iter().collect();
        sealers.sort_by(|one, other| one.name().cmp(other.name()));
        sealers.dedup_by(|one, other| one.name() == other.name());
        Sealers(sealers.into())
    }

    /// Returns the sealer of the generator with this name.
    pub fn find(&self, name: &[u8]) -> Option<&Sealer> {
        let place = self.0.binary_search_by(|known| known.name().as_bytes().cmp(name)).ok()?;
        self.0.get(place)
    }

    /// Returns the sealer of the generator with this name, if its IDs are answered as sealed texts.
    #[inline]
    pub fn answering(&self, name: &str) -> Option<&Sealer> {
        if self.0.is_empty() {
            return None;
        }
        self.find(name.as_bytes()).filter(|sealer| sealer.answers_sealed())
    }

    /// Returns all sealers, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Sealer> {
        self.0.iter()
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
}
