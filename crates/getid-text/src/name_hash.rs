//! The hash of a name, computed once a request. The turn finds its draw from a sequence by the hash, and the registry
//! finds the sequence.
//!
//! The seed is random for each process, so that a client cannot send names whose hashes collide.

use std::hash::BuildHasher as _;
use std::sync::LazyLock;

use hashbrown::DefaultHashBuilder;

static HASHER: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);

/// Returns the hash of this name in this process.
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
