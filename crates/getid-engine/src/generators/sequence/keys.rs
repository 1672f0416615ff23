//! Numbers of keys of the generators with series, as their stores last reported them.
//!
//! A generator has at most `keys-max` keys, and then refuses new ones: a tenant that was just added gets no numbers. So
//! the log warns before that. The number itself is in the generator's row, which only the transaction of a new key
//! changes.
//!
//! Invariant: there is one entry for each declared generator with series that was used in this life.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use getid_store::sql::Generator;
use getid_text::plural::thousands;

/// Shares of `keys-max` at which the log warns, percent.
const WARNED_AT: [u64; 2] = [80, 95];

/// Numbers of keys, by generator.
#[derive(Debug, Default)]
pub(super) struct KeyCounts(Mutex<BTreeMap<String, KeyCount>>);

#[derive(Clone, Copy, Debug, Default)]
struct KeyCount {
    keys: u64,
    max: u64,
    /// Last logged share, percent; 0 for none.
    warned: u64,
}

impl KeyCounts {
    /// Takes the number of keys from a generator's row, of which at most `max` are allowed here. Logs once when 80, and
    /// when 95 percent are reached.
    pub(super) fn note(&self, generator: &Generator, max: u64) {
        let Generator { name, keys, .. } = generator;
        let mut counts = self.lock();
        let Some(count) = counts.get_mut(name) else {
            let count = KeyCount { keys: *keys, max, warned: share(*keys, max) };
            counts.insert(name.clone(), count);
            drop(counts);
            return warn(name, *keys, max, count.warned);
        };
        let before = std::mem::replace(count, KeyCount { keys: *keys, max, warned: share(*keys, max) });
        let now = *count;
        drop(counts);
        if now.warned > before.warned {
            warn(name, *keys, max, now.warned);
        }
    }

    pub(super) fn of(&self, generator: &str) -> Option<u64> {
        self.lock().get(generator).map(|count| count.keys)
    }

    /// Returns the highest share of its maximum that a generator has, in ten-thousandths; at most 10,000.
    pub(super) fn highest_share(&self) -> u16 {
        let share = |count: &KeyCount| count.keys.saturating_mul(10_000) / count.max.max(1);
        let highest = self.lock().values().map(share).max().unwrap_or(0);
        u16::try_from(highest.min(10_000)).unwrap_or(10_000)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, KeyCount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the highest share of [`WARNED_AT`] that is reached; 0 if none is.
fn share(keys: u64, max: u64) -> u64 {
    let percent = keys.saturating_mul(100) / max.max(1);
    WARNED_AT.into_iter().rev().find(|share| percent >= *share).unwrap_or(0)
}

fn warn(generator: &str, keys: u64, max: u64, share: u64) {
    if share > 0 {
        tracing::warn!(
            "the generator '{generator}' has {} of its {} keys, {share} % or more, and then refuses new ones: a larger \
             'keys-max' in its declaration allows more",
            thousands(keys),
            thousands(max)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_keys_has_two_steps() {
        assert_eq!([0, 79, 80, 94, 95, 100, 200].map(|keys| share(keys, 100)), [0, 0, 80, 80, 95, 95, 95]);
        assert_eq!((share(4, 5), share(0, 0), share(u64::MAX, 1)), (80, 0, 95));
    }

    #[test]
    fn the_last_number_of_keys_is_kept() {
        let counts = KeyCounts::default();
        assert_eq!(counts.of("invoice"), None);
        for keys in [1, 80, 7] {
            counts.note(&Generator { name: "invoice".to_owned(), keys, ..Generator::default() }, 100);
            assert_eq!(counts.of("invoice"), Some(keys));
        }
        assert_eq!((counts.of("other"), counts.highest_share()), (None, 700));
        counts.note(&Generator { name: "other".to_owned(), keys: 9, ..Generator::default() }, 2);
        assert_eq!(counts.highest_share(), 10_000);
    }
}
