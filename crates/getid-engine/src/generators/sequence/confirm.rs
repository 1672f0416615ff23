//! Time until which values may be given without a new answer about changes by other servers.
//!
//! A server that cannot read which rows were raised could give values below. So the time of each shared store's last
//! answered query is kept. When `sequence-ride-out-s` have passed since, nothing reserved there is given: with one
//! store nothing at all, with several the values of that one are dropped.
//!
//! Invariant: `until_ms` is the earliest time at which values of any store may be outdated.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Time of a store whose values are not held, or that no other server changes.
const NEVER: u64 = u64::MAX;

pub(super) struct Confirmations {
    until_ms: AtomicU64,
    stores: Vec<StoreConfirmation>,
    ride_out_ms: u64,
}

struct StoreConfirmation {
    is_shared: bool,
    /// Time of the last query that was answered.
    at_ms: AtomicU64,
    /// Whether its new reservations are not held.
    is_leaving: AtomicBool,
}

impl Confirmations {
    pub(super) fn new(shared: impl Iterator<Item = bool>, ride_out_s: u64) -> Confirmations {
        let stores = shared
            .map(|is_shared| StoreConfirmation {
                is_shared,
                at_ms: AtomicU64::new(NEVER),
                is_leaving: AtomicBool::new(false),
            })
            .collect();
        Confirmations { until_ms: AtomicU64::new(NEVER), stores, ride_out_ms: ride_out_s.saturating_mul(1000) }
    }

    /// Returns the seconds for which values may be given after an answer of the store; 0 if no store is shared.
    pub(super) fn ride_out_s(&self) -> u64 {
        if self.stores.iter().any(|store| store.is_shared) { self.ride_out_ms / 1000 } else { 0 }
    }

    /// Returns true if values in memory may be given.
    #[inline]
    pub(super) fn is_good(&self, now_ms: u64) -> bool {
        now_ms < self.until_ms.load(Relaxed)
    }

    /// Returns true if new reservations of a store may be held.
    pub(super) fn is_store_good(&self, index: u8, now_ms: u64) -> bool {
        self.stores.get(usize::from(index)).is_some_and(|store| {
            let at_ms = store.at_ms.load(Relaxed);
            let is_confirmed = at_ms != NEVER && now_ms < at_ms.saturating_add(self.ride_out_ms);
            !store.is_shared || is_confirmed && !store.is_leaving.load(Relaxed)
        })
    }

    /// Returns true if the values of a store are too old to be given.
    pub(super) fn is_expired(&self, index: u8, now_ms: u64) -> bool {
        self.stores.get(usize::from(index)).is_some_and(|store| {
            let at_ms = store.at_ms.load(Relaxed);
            at_ms != NEVER && now_ms >= at_ms.saturating_add(self.ride_out_ms)
        })
    }

    /// Notes the answer to a query that was sent at `at_ms`, once its changes are applied.
    pub(super) fn note(&self, index: u8, at_ms: u64) {
        self.set(index, at_ms);
        if let Some(store) = self.stores.get(usize::from(index)) {
            store.is_leaving.store(false, Relaxed);
        }
    }

    /// Stops holding new reservations of a store, until its next answer.
    pub(super) fn leave(&self, index: u8) {
        if let Some(store) = self.stores.get(usize::from(index)) {
            store.is_leaving.store(true, Relaxed);
        }
    }

    /// Notes that no values of a store are held.
    pub(super) fn exclude(&self, index: u8) {
        self.set(index, NEVER);
    }

    fn set(&self, index: u8, at_ms: u64) {
        let Some(store) = self.stores.get(usize::from(index)).filter(|store| store.is_shared) else { return };
        store.at_ms.store(at_ms, Relaxed);
        let at = self.stores.iter().map(|store| store.at_ms.load(Relaxed)).min().unwrap_or(NEVER);
        self.until_ms.store(at.saturating_add(self.ride_out_ms), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_answer_sets_the_time() {
        let confirmed = Confirmations::new([true, true].into_iter(), 10);
        assert!(confirmed.is_good(1 << 40), "nothing is held yet");
        assert!(!confirmed.is_store_good(0, 0), "no query was answered");
        confirmed.note(0, 1_000);
        confirmed.note(1, 5_000);
        assert!(confirmed.is_good(10_999) && !confirmed.is_good(11_000));
        assert!(confirmed.is_expired(0, 11_000) && !confirmed.is_expired(1, 11_000));
        confirmed.leave(1);
        assert!(!confirmed.is_store_good(1, 5_000) && confirmed.is_good(10_999), "values in memory stay valid");
        confirmed.note(1, 5_000);
        confirmed.exclude(0);
        assert!(confirmed.is_good(14_999) && !confirmed.is_good(15_000));
        assert!(!confirmed.is_store_good(0, 1_000) && confirmed.is_store_good(1, 14_999));
        confirmed.note(1, 9_000);
        assert!(confirmed.is_good(18_999));
    }

    #[test]
    fn a_store_that_is_not_shared_is_always_good() {
        let confirmed = Confirmations::new([false].into_iter(), 10);
        confirmed.note(0, 1);
        assert!(confirmed.is_good(1 << 40) && confirmed.is_store_good(0, 1 << 40) && !confirmed.is_expired(0, 1 << 40));
        assert_eq!((confirmed.ride_out_s(), Confirmations::new([true].into_iter(), 7).ride_out_s()), (0, 7));
    }
}
