//! The hash of a name, computed once a request: the turn finds a sequence by it among those that it asks already, and
//! the registry the sequence itself.
//!
//! Its seed is random for each process, so that nobody can send names that meet in one place.

use std::hash::BuildHasher as _;
use std::sync::LazyLock;

use hashbrown::DefaultHashBuilder;

static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);

/// The hash of this name in this process.
#[inline]
pub fn hash_of(name: &[u8]) -> u64 {
    HASHER.hash_one(name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_name_has_one_hash_and_names_have_their_own() {
        let names: Vec<String> = (0..10_000).map(|number| format!("orders:{number}")).collect();
        let hashes: HashSet<u64> = names.iter().map(|name| hash_of(name.as_bytes())).collect();
        assert_eq!(hashes.len(), names.len());
        assert!(names.iter().all(|name| hashes.contains(&hash_of(name.as_bytes()))));
    }
}
