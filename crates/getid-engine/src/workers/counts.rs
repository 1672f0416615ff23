//! Counters of a worker pool, for INFO and metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use getid_core::server::worker::NoLease;

/// A pool's live counters, which requests increment.
#[derive(Debug, Default)]
pub(super) struct LivePoolCounts {
    leases: AtomicU64,
    renewals: AtomicU64,
    releases: AtomicU64,
    revocations: AtomicU64,
    refused: AtomicU64,
    exhausted: AtomicU64,
    errors: AtomicU64,
}

/// A pool's counters since the start of this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Number of leases granted.
    pub leases: u64,
    /// Number of renewals.
    pub renewals: u64,
    /// Number of leases that their holders released.
    pub releases: u64,
    /// Number of leases that an operator revoked.
    pub revocations: u64,
    /// Number of refused renewals and releases.
    pub refused: u64,
    /// Number of lease requests that found no free id.
    pub exhausted: u64,
    /// Number of store calls that failed.
    pub errors: u64,
}

impl LivePoolCounts {
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

    pub(super) fn snapshot(&self) -> PoolCounts {
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
