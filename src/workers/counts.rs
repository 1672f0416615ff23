//! What a pool has done, for INFO and metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use getid_core::worker::NoLease;

/// Counted while requests are answered.
#[derive(Debug, Default)]
pub(super) struct Counts {
    leases: AtomicU64,
    renewals: AtomicU64,
    releases: AtomicU64,
    revocations: AtomicU64,
    refused: AtomicU64,
    exhausted: AtomicU64,
    errors: AtomicU64,
}

/// How often, since the start of this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Ids that were leased.
    pub leases: u64,
    /// Leases that were renewed.
    pub renewals: u64,
    /// Leases that were given back.
    pub releases: u64,
    /// Leases that an operator has ended.
    pub revocations: u64,
    /// Renewals and releases that were refused.
    pub refused: u64,
    /// Requests for an id when there was none.
    pub exhausted: u64,
    /// Calls of the store that failed.
    pub errors: u64,
}

impl Counts {
    pub(super) fn leased(&self) {
        self.leases.fetch_add(1, Relaxed);
    }

    pub(super) fn renewed(&self) {
        self.renewals.fetch_add(1, Relaxed);
    }

    pub(super) fn released(&self) {
        self.releases.fetch_add(1, Relaxed);
    }

    pub(super) fn revoked(&self) {
        self.revocations.fetch_add(1, Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(super) fn failed(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    pub(super) fn no_lease(&self, why: &NoLease) {
        let counter = if matches!(why, NoLease::Exhausted { .. }) { &self.exhausted } else { &self.refused };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn told(&self) -> PoolCounts {
        PoolCounts {
            leases: self.leases.load(Relaxed),
            renewals: self.renewals.load(Relaxed),
            releases: self.releases.load(Relaxed),
            revocations: self.revocations.load(Relaxed),
            refused: self.refused.load(Relaxed),
            exhausted: self.exhausted.load(Relaxed),
            errors: self.errors.load(Relaxed),
        }
    }
}
