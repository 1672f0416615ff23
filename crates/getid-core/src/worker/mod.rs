//! Worker ids: numbers that other programs put into IDs which they make themselves, leased to them for a while.
//!
//! A **pool** has worker ids from 0 on. A **lease** of one says in which milliseconds its holder may make IDs with it:
//! `not_before <= time < not_after`, by the holder's own clock. The next lease of the same id begins where the last one
//! ended, in these milliseconds and not by anybody's clock. So two holders never have one millisecond, however wrong
//! their clocks are, and an id needs no quarantine.
//!
//! R, the server's time, decides only when an id is leased again, and how far a lease reaches. No lease ends later than
//! [`PoolRules::longest_ms`] past R. So a pool that is new, or whose records were lost, is sound from then on: whatever
//! was leased before is over ([`Pool::opened`]).
//!
//! Pure: functions of records, R and a request give the new record, or a refusal. The caller keeps it before it
//! answers.
//!
//! Invariant: of one id, the intervals of all leases are apart, and each begins where an earlier one has ended, or
//! later.

mod choice;
mod refusal;

use alloc::string::String;

pub use choice::{Asked, Chosen, Holders, NoLease, choose};
pub use refusal::{LeaseRefusal, NotNew};

/// Worker ids of a pool at most.
pub const POOL_SIZE_MAX: u32 = 1 << 16;

/// The shortest lease, ms.
pub const LEASE_MS_MIN: u64 = 1_000;

/// The longest, ms: a day.
pub const LEASE_MS_MAX: u64 = 24 * 3600 * 1000;

/// How far past R the newest ID of a holder may lie, ms: farther ahead its clock is not believed.
pub const LAST_AHEAD_MS_MAX: u64 = 3600 * 1000;

/// A lease is given, at the best, that begins so soon after R: the holder waits for it. A second.
const BEGINS_SOON_MS: u64 = 1_000;

/// Bytes of a holder's name at most.
pub const HOLDER_NAME_BYTES_MAX: usize = 64;

/// What an operator has said of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRules {
    /// Worker ids are below it.
    pub size: u32,
    /// How long a lease lasts for which nobody asks otherwise, ms.
    pub lease_ms: u64,
    /// No lease ends later than this past R, ms. At least `lease_ms`.
    pub longest_ms: u64,
}

/// What is kept of a pool as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Before it nothing is leased, and no lease begins, Unix ms.
    pub opens_ms: u64,
    /// How far past R leases may have reached, ms: the largest [`PoolRules::longest_ms`] that the pool ever had.
    pub longest_ms: u64,
}

impl Pool {
    /// A pool of which nobody knows what was leased before: it is new, or its store went back. Everything that may have
    /// been leased is over when it opens.
    pub fn opened(rules: &PoolRules, found: Option<&Pool>, now_ms: u64) -> Pool {
        let longest_ms = found.map_or(0, |pool| pool.longest_ms).max(rules.longest_ms);
        let opens_ms = now_ms.saturating_add(longest_ms).max(found.map_or(0, |pool| pool.opens_ms));
        Pool { opens_ms, longest_ms }
    }

    /// Returns the pool as it is open at once, by the operator's word that no id of it was ever leased; `None` if it is
    /// open already, whatever was leased since: it stays as it is. `writes` counts the writes of its record, `leased`
    /// the ids whose leases are kept.
    ///
    /// The record of a new pool is written once, and again only after leases have changed, `longest` was raised or the
    /// store went back.
    ///
    /// # Errors
    ///
    /// [`NotNew`]: what is kept contradicts the operator.
    pub fn opened_as_new(&self, writes: u64, leased: usize, now_ms: u64) -> Result<Option<Pool>, NotNew> {
        match self.opens_ms {
            opens_ms if opens_ms <= now_ms => Ok(None),
            _ if leased > 0 => Err(NotNew::Leased { leased }),
            opens_ms if writes > 1 => Err(NotNew::Rewritten { opens_ms, now_ms }),
            _ => Ok(Some(Pool { opens_ms: now_ms, ..*self })),
        }
    }

    /// The same after the operator has said otherwise; `None` if nothing is to be kept of that. It is kept before
    /// anything is leased by the new rules.
    pub fn with(&self, rules: &PoolRules) -> Option<Pool> {
        (rules.longest_ms > self.longest_ms).then_some(Pool { longest_ms: rules.longest_ms, ..*self })
    }
}

/// What a holder shows that a lease is its own: 128 random bits, of which only a digest is kept.
#[derive(Clone, Copy, Debug)]
pub struct TokenDigest(pub [u8; 16]);

/// Takes as long for a digest that is nearly right as for any other.
impl PartialEq for TokenDigest {
    fn eq(&self, other: &TokenDigest) -> bool {
        let differing = self.0.iter().zip(other.0).fold(0, |differing, (one, other)| differing | (one ^ other));
        core::hint::black_box(differing) == 0
    }
}

impl Eq for TokenDigest {}

/// What has become of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// It may be renewed while it lasts.
    Held,
    /// Its holder has given it back.
    Released,
    /// An operator has ended it: it lasts until its end, and is not renewed.
    Revoked,
}

/// The latest lease of a worker id. What is not said of it is never known: there is one record for each id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who has it, as it calls itself; empty: it does not say. At most [`HOLDER_NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// What its holder shows.
    pub token: TokenDigest,
    /// What the holder of the lease before showed: it is told that its own is over.
    pub token_before: Option<TokenDigest>,
    /// Whether it is held.
    pub state: LeaseState,
    /// Its first millisecond, Unix time.
    pub not_before_ms: u64,
    /// The millisecond after its last: where the next lease of this id begins, at the earliest.
    pub not_after_ms: u64,
    /// For how long it is given, and given again, ms.
    pub ttl_ms: u64,
}

impl Lease {
    /// Whether somebody may be making IDs by it, or may do so again without asking: R has not come to its end, and it
    /// was not released.
    pub fn is_live(&self, now_ms: u64) -> bool {
        self.state != LeaseState::Released && now_ms < self.not_after_ms
    }

    /// The lease goes on: `last_ms` is the time of the newest ID that its holder has made.
    ///
    /// # Errors
    ///
    /// [`LeaseRefusal`]: it is not the holder's who asks, it is over or revoked, or the holder's clock is absurd.
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
            LeaseState::Held => {}
        }
        if now_ms >= self.not_after_ms {
            return Err(LeaseRefusal::Over { not_after_ms: self.not_after_ms, now_ms, is_leased_again: false });
        }
        if id >= rules.size {
            return Err(LeaseRefusal::PoolSmaller { size: rules.size, not_after_ms: self.not_after_ms });
        }
        let made_ms = last_ms.map_or(0, |last| last.saturating_add(1));
        let not_after_ms = end_of(rules, self.not_before_ms.max(made_ms), self.ttl_ms, now_ms);
        // What the holder was told already stays true, also if another server's R was ahead of this one's.
        Ok(Lease { not_after_ms: not_after_ms.max(self.not_after_ms).max(made_ms), ..self.clone() })
    }

    /// The lease ends: after `last_ms`, the time of the newest ID that its holder has made, or where it would have
    /// ended, if the holder does not say.
    ///
    /// # Errors
    ///
    /// [`LeaseRefusal`]: it is not the holder's who asks, or its clock is absurd.
    pub fn released(&self, token: TokenDigest, last_ms: Option<u64>, now_ms: u64) -> Result<Lease, LeaseRefusal> {
        self.check_token(token)?;
        check_last(last_ms, now_ms)?;
        let not_after_ms = match (last_ms, self.state) {
            (None, _) => self.not_after_ms,
            // A release that is sent once more, as its answer was lost.
            (Some(last), LeaseState::Released) => self.not_after_ms.max(last.saturating_add(1)),
            (Some(last), _) => self.not_before_ms.max(last.saturating_add(1)),
        };
        Ok(Lease { state: LeaseState::Released, not_after_ms, ..self.clone() })
    }

    /// An operator ends it: it is not renewed, and the id is free at its end. A lease that is over or released stays
    /// what it is.
    #[must_use]
    pub fn revoked(&self, now_ms: u64) -> Lease {
        let state = if self.is_live(now_ms) { LeaseState::Revoked } else { self.state };
        Lease { state, ..self.clone() }
    }

    fn check_token(&self, token: TokenDigest) -> Result<(), LeaseRefusal> {
        // Both are compared in any case.
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

/// Where a lease ends: `ttl_ms` after R or after its beginning, but not farther past R than leases of this pool reach.
fn end_of(rules: &PoolRules, from_ms: u64, ttl_ms: u64, now_ms: u64) -> u64 {
    let wanted_ms = now_ms.max(from_ms).saturating_add(ttl_ms);
    wanted_ms.min(now_ms.saturating_add(rules.longest_ms))
}

fn check_last(last_ms: Option<u64>, now_ms: u64) -> Result<(), LeaseRefusal> {
    match last_ms {
        Some(last_ms) if last_ms > now_ms.saturating_add(LAST_AHEAD_MS_MAX) => {
            Err(LeaseRefusal::LastAhead { last_ms, now_ms })
        }
        _ => Ok(()),
    }
}
