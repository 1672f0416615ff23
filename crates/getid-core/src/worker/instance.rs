//! Leases whose holder is known by its name, without a token: machine ids of CosId's instances.
//!
//! An instance reports the time on its clock about once a minute, and does not stop at the end of its lease. The lease
//! only decides when another instance may get the id: after the silence that its own instance requested, or never
//! ([`LeaseState::Kept`]). R measures the silence, since clocks of programs differ. As instances do not stop, a pool
//! that lost records is sound only once all its instances were started again.
//!
//! `not_before` of such a lease is the newest time that was reported for the id. The next program with the id begins
//! there, or at the end of the lease if it is another instance.
//!
//! Invariant: an id has one lease, and a lease one name. The reported time of an id never decreases.

use super::choice::{ChosenLease, LeaseRequest, NoLease, choose, exhausted};
use super::lease::{LEASE_MS_MIN, Lease, LeaseState, PoolRules, PoolState, TokenDigest, check_last, end_of};
use super::refusal::LeaseRefusal;

/// Longest time for which CosId's program waits for the begin of its lease, ms. It does not start if that is later.
const WAIT_MS_MAX: u64 = 500;

/// An instance's request for a machine id.
#[derive(Clone, Copy, Debug)]
pub struct InstanceRequest<'a> {
    /// Name of the instance.
    pub name: &'a str,
    /// Number of machine ids that its layout has: it takes one below.
    pub ids: u32,
    /// Silence after which another instance may get the id, ms; `None`: never.
    pub guard_ms: Option<u64>,
    /// Time on the instance's clock, Unix ms.
    pub from_ms: u64,
}

impl InstanceRequest<'_> {
    /// Returns the lease for this instance: it begins at its clock's time, or later.
    fn lease_of(&self, lease: &Lease, rules: &PoolRules, now_ms: u64) -> Lease {
        let not_before_ms = lease.not_before_ms.max(self.from_ms);
        let ttl_ms = self.guard_ms.map_or(rules.lease_ms, |guard_ms| guard_ms.max(LEASE_MS_MIN));
        let not_after_ms = renewed_end(lease, rules, not_before_ms, ttl_ms, now_ms);
        let state = if self.guard_ms.is_some() { LeaseState::Held } else { LeaseState::Kept };
        Lease { state, not_before_ms, not_after_ms, ttl_ms, ..lease.clone() }
    }
}

/// Chooses an id for an instance that has none, and creates its lease, as [`choose`] does for a holder with a token.
///
/// # Errors
///
/// Fails with [`NoLease`]: all ids are leased, or the pool is not open yet.
pub fn choose_for_instance<'a>(
    rules: &PoolRules,
    pool: &PoolState,
    leases: impl Iterator<Item = (u32, Option<&'a Lease>)> + Clone,
    asked: &InstanceRequest<'_>,
    now_ms: u64,
) -> Result<ChosenLease, NoLease> {
    let rules = PoolRules { size: rules.size.min(asked.ids), ..*rules };
    let in_time = leases.clone().map(|(id, lease)| {
        let begins_in_time = |lease: &Lease| lease.not_after_ms <= asked.from_ms.saturating_add(WAIT_MS_MAX);
        (id, lease.filter(|lease| lease.is_live(now_ms) || begins_in_time(lease)))
    });
    let request = LeaseRequest { name: asked.name, ttl_ms: asked.guard_ms, token: TokenDigest::NONE };
    let chosen = choose(&rules, pool, in_time, &request, now_ms).map_err(|why| match why {
        NoLease::Exhausted { .. } => exhausted(&rules, leases, now_ms),
        why => why,
    });
    let ChosenLease { id, lease } = chosen?;
    Ok(ChosenLease { id, lease: asked.lease_of(&lease, &rules, now_ms) })
}

/// Returns the end of a renewed lease. A pool whose `longest` is shorter by now does not shorten it: the instance does
/// not stop at the end.
fn renewed_end(lease: &Lease, rules: &PoolRules, from_ms: u64, ttl_ms: u64, now_ms: u64) -> u64 {
    let rules = PoolRules { longest_ms: rules.longest_ms.max(ttl_ms), ..*rules };
    end_of(&rules, from_ms, ttl_ms, now_ms).max(lease.not_after_ms).max(from_ms)
}

impl Lease {
    /// Returns true if both leases have the same holder, state, begin and duration.
    pub fn has_terms_of(&self, other: &Lease) -> bool {
        let terms = |lease: &Lease| (lease.state, lease.not_before_ms, lease.ttl_ms);
        self.name == other.name && terms(self) == terms(other)
    }

    /// Returns true if the instance `name` has this lease. It may be past its end, if no other holder followed.
    pub fn is_of_instance(&self, name: &str) -> bool {
        let is_held = matches!(self.state, LeaseState::Held | LeaseState::Kept);
        is_held && self.token == TokenDigest::NONE && self.name == name
    }

    /// Begins this lease again for its own instance, which was started again.
    ///
    /// # Errors
    ///
    /// Fails with [`LeaseRefusal`] as [`Lease::guarded`] does.
    pub fn begun_again(
        &self,
        rules: &PoolRules,
        id: u32,
        asked: &InstanceRequest<'_>,
        now_ms: u64,
    ) -> Result<Lease, LeaseRefusal> {
        self.check_instance(rules, id, asked.name, asked.from_ms, now_ms)?;
        Ok(asked.lease_of(self, rules, now_ms))
    }

    /// Renews this lease of the instance `name`, which reports its clock's time `last_ms`.
    ///
    /// # Errors
    ///
    /// Fails with [`LeaseRefusal`]: another holder has the lease, or it was given back or revoked, or the instance's
    /// clock is out of bounds.
    pub fn guarded(
        &self,
        rules: &PoolRules,
        id: u32,
        name: &str,
        last_ms: u64,
        now_ms: u64,
    ) -> Result<Lease, LeaseRefusal> {
        self.check_instance(rules, id, name, last_ms, now_ms)?;
        let not_before_ms = self.not_before_ms.max(last_ms);
        let not_after_ms = renewed_end(self, rules, not_before_ms, self.ttl_ms, now_ms);
        Ok(Lease { not_before_ms, not_after_ms, ..self.clone() })
    }

    /// Ends this lease of the instance `name`, whose newest ID is not past `last_ms`: the id is free.
    ///
    /// # Errors
    ///
    /// Fails with [`LeaseRefusal`] as [`Lease::guarded`] does.
    pub fn reverted(&self, name: &str, last_ms: u64, now_ms: u64) -> Result<Lease, LeaseRefusal> {
        self.check_holder(name, last_ms, now_ms)?;
        let not_after_ms = self.not_before_ms.max(last_ms).saturating_add(1);
        Ok(Lease { state: LeaseState::Released, not_after_ms, ..self.clone() })
    }

    fn check_instance(
        &self,
        rules: &PoolRules,
        id: u32,
        name: &str,
        last_ms: u64,
        now_ms: u64,
    ) -> Result<(), LeaseRefusal> {
        self.check_holder(name, last_ms, now_ms)?;
        if id >= rules.size {
            return Err(LeaseRefusal::PoolSmaller { size: rules.size, not_after_ms: self.not_after_ms });
        }
        Ok(())
    }

    fn check_holder(&self, name: &str, last_ms: u64, now_ms: u64) -> Result<(), LeaseRefusal> {
        check_last(Some(last_ms), now_ms)?;
        if self.is_of_instance(name) { Ok(()) } else { Err(LeaseRefusal::OtherInstance) }
    }
}
