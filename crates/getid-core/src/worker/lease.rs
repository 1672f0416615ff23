//! Pools and their leases: when a lease begins and ends, and its renewal and release.

use alloc::string::String;

use super::refusal::{LeaseRefusal, NotNewReason};

/// Most worker ids of a pool.
pub const POOL_SIZE_MAX: u32 = 1 << 16;

/// Shortest lease, ms.
pub const LEASE_MS_MIN: u64 = 1_000;

/// Longest lease, ms: a day.
pub const LEASE_MS_MAX: u64 = 24 * 3600 * 1000;

/// Largest distance of a holder's newest ID past R, ms: a clock further ahead is not believed.
pub const LAST_AHEAD_MS_MAX: u64 = 3600 * 1000;

/// Largest distance past R, ms, of the beginning of a lease that counts as free now: the holder waits for it.
pub(super) const BEGINS_SOON_MS: u64 = 1_000;

/// Longest name of a holder, bytes.
pub const HOLDER_NAME_BYTES_MAX: usize = 64;

/// Settings of a pool by the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRules {
    /// Number of worker ids, which are all below it.
    pub size: u32,
    /// Default duration of a lease, ms.
    pub lease_ms: u64,
    /// Largest distance of a lease's end past R, ms. At least `lease_ms`.
    pub longest_ms: u64,
}

/// Stored state of a pool as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolState {
    /// Time before which nothing is leased, and no lease begins, Unix ms.
    pub opens_ms: u64,
    /// Largest distance of any lease past R, ms: the largest [`PoolRules::longest_ms`] that the pool ever had.
    pub longest_ms: u64,
}

impl PoolState {
    /// Returns a pool whose earlier leases are unknown: it is new, or its store went back. All earlier leases are over
    /// when it opens.
    pub fn opened(rules: &PoolRules, found: Option<&PoolState>, now_ms: u64) -> PoolState {
        let longest_ms = found.map_or(0, |pool| pool.longest_ms).max(rules.longest_ms);
        let opens_ms = now_ms.saturating_add(longest_ms).max(found.map_or(0, |pool| pool.opens_ms));
        PoolState { opens_ms, longest_ms }
    }

    /// Returns the pool as open at once, if the operator declares that no id of it was ever leased. Returns `None` if
    /// it is open already: then it stays as it is. `writes` counts the writes of its record, `leased` the ids with
    /// stored leases.
    ///
    /// The record of a new pool is written once, and again only after leases have changed, `longest` was raised or the
    /// store went back.
    ///
    /// # Errors
    ///
    /// Fails with [`NotNewReason`] if the stored state contradicts the operator.
    pub fn opened_as_new(&self, writes: u64, leased: usize, now_ms: u64) -> Result<Option<PoolState>, NotNewReason> {
        match self.opens_ms {
            opens_ms if opens_ms <= now_ms => Ok(None),
            _ if leased > 0 => Err(NotNewReason::Leased { leased }),
            opens_ms if writes > 1 => Err(NotNewReason::Rewritten { opens_ms, now_ms }),
            _ => Ok(Some(PoolState { opens_ms: now_ms, ..*self })),
        }
    }

    /// Returns the pool for changed rules; `None` if its record stays the same. Store it before anything is leased by
    /// the new rules.
    pub fn with(&self, rules: &PoolRules) -> Option<PoolState> {
        (rules.longest_ms > self.longest_ms).then_some(PoolState { longest_ms: rules.longest_ms, ..*self })
    }
}

/// Digest of the token that proves a lease: the token has 128 random bits, and is not stored.
#[derive(Clone, Copy, Debug)]
pub struct TokenDigest(pub [u8; 16]);

impl TokenDigest {
    /// Digest that no token has: the holder proves its lease by its name alone, as an instance of CosId does.
    pub const NONE: TokenDigest = TokenDigest([0; 16]);
}

/// Compares in constant time: a nearly right digest takes as long as any other.
impl PartialEq for TokenDigest {
    fn eq(&self, other: &TokenDigest) -> bool {
        let differing = self.0.iter().zip(other.0).fold(0, |differing, (one, other)| differing | (one ^ other));
        core::hint::black_box(differing) == 0
    }
}

impl Eq for TokenDigest {}

/// State of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// The lease may be renewed while it lasts.
    Held,
    /// The id stays with the holder's name, also past the end of the lease, until it is given back or revoked.
    Kept,
    /// The holder has given the lease back.
    Released,
    /// An operator has ended the lease: it lasts until its end, and is not renewed.
    Revoked,
}

/// The latest lease of a worker id: the only record about the id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Name of the holder, at most [`HOLDER_NAME_BYTES_MAX`] bytes; empty: none.
    pub name: String,
    /// Digest of the holder's token.
    pub token: TokenDigest,
    /// Digest of the previous holder's token: that holder gets the error that its lease is over.
    pub token_before: Option<TokenDigest>,
    /// Whether it is held, kept, released or revoked.
    pub state: LeaseState,
    /// First millisecond of the lease, Unix time.
    pub not_before_ms: u64,
    /// End of the lease, exclusive, Unix ms: the next lease of this id begins here, or later.
    pub not_after_ms: u64,
    /// Duration of the lease and of each renewal, ms.
    pub ttl_ms: u64,
}

impl Lease {
    /// Returns true if a holder may make IDs by the lease, or may do so again without a request. That is so until R
    /// reaches its end or it is released. A kept lease has no end.
    pub fn is_live(&self, now_ms: u64) -> bool {
        match self.state {
            LeaseState::Released => false,
            LeaseState::Kept => true,
            LeaseState::Held | LeaseState::Revoked => now_ms < self.not_after_ms,
        }
    }

    /// Renews the lease: `last_ms` is the time of the newest ID that its holder has made.
    ///
    /// # Errors
    ///
    /// Fails with [`LeaseRefusal`]: the token is wrong, the lease is over or revoked, or the holder's clock is out of
    /// bounds.
    pub fn renewed(
        &self,
        rules: &PoolRules,
        id: u32,
        token: TokenDigest,
        last_ms: Option<u64>,
        now_ms: u64,
    ) -> Result<Lease, LeaseRefusal> {
        self.check_token(token)?;
        check_last(last_ms, now_ms)?;
        match self.state {
            LeaseState::Released => return Err(LeaseRefusal::Released),
            LeaseState::Revoked => return Err(LeaseRefusal::Revoked { not_after_ms: self.not_after_ms }),
            LeaseState::Held | LeaseState::Kept => {}
        }
        if now_ms >= self.not_after_ms {
            return Err(LeaseRefusal::Over { not_after_ms: self.not_after_ms, now_ms, is_leased_again: false });
        }
        if id >= rules.size {
            return Err(LeaseRefusal::PoolSmaller { size: rules.size, not_after_ms: self.not_after_ms });
        }
        let made_ms = last_ms.map_or(0, |last| last.saturating_add(1));
        let not_after_ms = end_of(rules, self.not_before_ms.max(made_ms), self.ttl_ms, now_ms);
        // An end that the holder has received stays true, even if another server's R was ahead of this one's.
        Ok(Lease { not_after_ms: not_after_ms.max(self.not_after_ms).max(made_ms), ..self.clone() })
    }

    /// Ends the lease after `last_ms`, the time of the newest ID that its holder has made. Without that time it ends
    /// where it would have ended.
    ///
    /// # Errors
    ///
    /// Fails with [`LeaseRefusal`]: the token is wrong, or the holder's clock is out of bounds.
    pub fn released(&self, token: TokenDigest, last_ms: Option<u64>, now_ms: u64) -> Result<Lease, LeaseRefusal> {
        self.check_token(token)?;
        check_last(last_ms, now_ms)?;
        let not_after_ms = match (last_ms, self.state) {
            (None, _) => self.not_after_ms,
            // A repeated release, because its answer was lost.
            (Some(last), LeaseState::Released) => self.not_after_ms.max(last.saturating_add(1)),
            (Some(last), _) => self.not_before_ms.max(last.saturating_add(1)),
        };
        Ok(Lease { state: LeaseState::Released, not_after_ms, ..self.clone() })
    }

    /// Ends the lease by an operator: it is not renewed, and the id is free at its end. A lease that is over or
    /// released stays as it is.
    #[must_use]
    pub fn revoked(&self, now_ms: u64) -> Lease {
        let state = if self.is_live(now_ms) { LeaseState::Revoked } else { self.state };
        Lease { state, ..self.clone() }
    }

    fn check_token(&self, token: TokenDigest) -> Result<(), LeaseRefusal> {
        // Both are always compared.
        let (is_own, is_before) = (self.token == token, self.token_before == Some(token));
        match (is_own, is_before) {
            (true, _) => Ok(()),
            (false, true) => {
                Err(LeaseRefusal::Over { not_after_ms: self.not_before_ms, now_ms: 0, is_leased_again: true })
            }
            (false, false) => Err(LeaseRefusal::WrongToken),
        }
    }
}

/// Returns the end of a lease: `ttl_ms` after R or after its beginning, but not past the reach of this pool's leases.
pub(super) fn end_of(rules: &PoolRules, from_ms: u64, ttl_ms: u64, now_ms: u64) -> u64 {
    let wanted_ms = now_ms.max(from_ms).saturating_add(ttl_ms);
    wanted_ms.min(now_ms.saturating_add(rules.longest_ms))
}

pub(super) fn check_last(last_ms: Option<u64>, now_ms: u64) -> Result<(), LeaseRefusal> {
    match last_ms {
        Some(last_ms) if last_ms > now_ms.saturating_add(LAST_AHEAD_MS_MAX) => {
            Err(LeaseRefusal::LastAhead { last_ms, now_ms })
        }
        _ => Ok(()),
    }
}
