//! Choice of the worker id for a program.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use super::lease::{BEGINS_SOON_MS, Lease, LeaseState, PoolRules, PoolState, TokenDigest, end_of};

/// Largest number of groups of holders in an error.
const HOLDERS_MAX: usize = 3;

/// The lease to give, once it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenLease {
    /// Worker id of the lease.
    pub id: u32,
    /// New lease, which replaces the stored one of the id.
    pub lease: Lease,
}

/// Reason why there is no lease. `Display` continues after "pool orders ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLease {
    /// Earlier leases of the pool are unknown, and may last until it opens.
    NotOpen {
        /// When the pool opens, Unix ms.
        opens_ms: u64,
        /// R, Unix ms.
        now_ms: u64,
    },
    /// The pool has leases of the other kind: holders with a token stop at the end of a lease, and instances do not.
    OtherKind {
        /// Whether the pool has leases of instances.
        has_instances: bool,
    },
    /// All ids are leased.
    Exhausted {
        /// Number of ids that are leased, or not free yet.
        leased: u32,
        /// The names with the most leases.
        holders: Vec<Holders>,
        /// When the next id falls free if it is not renewed, Unix ms; [`u64::MAX`] if all are kept for their names.
        next_free_ms: u64,
        /// R, Unix ms.
        now_ms: u64,
    },
}

impl fmt::Display for NoLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoLease::NotOpen { opens_ms, now_ms } => {
                write!(f, "leases nothing before {opens_ms}, {} ms from now: ", opens_ms.saturating_sub(*now_ms))?;
                f.write_str("it is new here, or its records were lost, and earlier leases may still be valid")
            }
            NoLease::OtherKind { has_instances: true } => f.write_str(
                "has leases of CosId's instances, which do not stop at the end of a lease: take another pool",
            ),
            NoLease::OtherKind { has_instances: false } => f.write_str(
                "has leases with tokens (WORKERID LEASE), and instances of CosId have none: give their namespace a pool \
                 of its own",
            ),
            NoLease::Exhausted { leased, holders, next_free_ms, now_ms } => {
                write!(f, "is used up: all {leased} ids are leased")?;
                for Holders { name, count } in holders {
                    match name.as_str() {
                        "" => write!(f, ", {count} by holders without a name")?,
                        name => write!(f, ", {count} by '{name}'")?,
                    }
                }
                if *next_free_ms == u64::MAX {
                    return f.write_str(
                        "; none falls free by itself: WORKERID REVOKE ends the lease of a program that is gone",
                    );
                }
                let in_ms = next_free_ms.saturating_sub(*now_ms);
                write!(f, "; the next falls free in {in_ms} ms, unless it is renewed. ")?;
                f.write_str("Make the pool larger (worker-pool), release ids at a clean stop, or try again then")
            }
        }
    }
}

/// Holders with one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holders {
    /// Their name; empty: holders without a name.
    pub name: String,
    /// Number of ids that they hold.
    pub count: u32,
}

/// Rank of an id in the choice; the least is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum IdRank {
    /// The id had this name before.
    Own,
    /// The id was never leased.
    New,
    /// The id is free: the one that has been free for longest comes first.
    Free,
    /// The id was released, and its next lease begins a while ahead.
    Later,
}

/// Chooses an id and creates its lease. `leases` are all stored ones, in the order of their ids; `None` is an id that
/// is being leased to another program right now. Ids past the pool's size are skipped.
///
/// A name gets its id back if that lease was released or is over. Otherwise a never leased id is taken, then the one
/// that has been free for longest.
///
/// # Errors
///
/// Fails with [`NoLease`]: all ids are leased, or the pool is not open yet.
pub fn choose<'a>(
    rules: &PoolRules,
    pool: &PoolState,
    leases: impl Iterator<Item = (u32, Option<&'a Lease>)> + Clone,
    asked: &LeaseRequest<'_>,
    now_ms: u64,
) -> Result<ChosenLease, NoLease> {
    if now_ms < pool.opens_ms {
        return Err(NoLease::NotOpen { opens_ms: pool.opens_ms, now_ms });
    }
    let has_instances = asked.token != TokenDigest::NONE;
    let is_other = |lease: &Lease| lease.is_live(now_ms) && (lease.token == TokenDigest::NONE) == has_instances;
    if leases.clone().any(|(_, lease)| lease.is_some_and(is_other)) {
        return Err(NoLease::OtherKind { has_instances });
    }
    let soon_ms = BEGINS_SOON_MS.min(rules.longest_ms / 2);
    let ttl_ms = asked.ttl_ms.unwrap_or(rules.lease_ms).min(rules.longest_ms);
    let mut best: Option<(IdRank, u64, u32, Option<&Lease>)> = None;
    let mut take = |found: (IdRank, u64, u32, Option<&'a Lease>)| {
        if best.is_none_or(|best| (found.0, found.1, found.2) < (best.0, best.1, best.2)) {
            best = Some(found);
        }
    };
    let mut new = 0;
    for (id, lease) in leases.clone().filter(|(id, _)| *id < rules.size) {
        // Leases are in the order of ids: the first missing id was never leased.
        if id == new {
            new += 1;
        }
        let Some(lease) = lease.filter(|lease| !lease.is_live(now_ms)) else { continue };
        let from_ms = lease.not_after_ms.max(pool.opens_ms);
        let is_own = !asked.name.is_empty() && lease.name == asked.name;
        let reaches = from_ms.saturating_add(ttl_ms) <= now_ms.saturating_add(rules.longest_ms);
        let begins_soon = from_ms <= now_ms.saturating_add(soon_ms);
        match (is_own, begins_soon, reaches) {
            (true, _, true) | (true, true, _) => take((IdRank::Own, from_ms, id, Some(lease))),
            (false, true, _) => take((IdRank::Free, from_ms, id, Some(lease))),
            (false, false, true) => take((IdRank::Later, from_ms, id, Some(lease))),
            (_, false, false) => {}
        }
    }
    if new < rules.size {
        take((IdRank::New, pool.opens_ms, new, None));
    }
    let Some((_, not_before_ms, id, before)) = best else { return Err(exhausted(rules, leases, now_ms)) };
    let lease = Lease {
        name: asked.name.into(),
        token: asked.token,
        token_before: before.map(|before| before.token),
        state: LeaseState::Held,
        not_before_ms,
        not_after_ms: end_of(rules, not_before_ms, ttl_ms, now_ms).max(not_before_ms),
        ttl_ms,
    };
    Ok(ChosenLease { id, lease })
}

/// A program's request for a lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRequest<'a> {
    /// Name of the holder; empty: none.
    pub name: &'a str,
    /// Requested duration, ms; `None`: the pool's default.
    pub ttl_ms: Option<u64>,
    /// Digest of the token that the holder will show.
    pub token: TokenDigest,
}

pub(super) fn exhausted<'a>(
    rules: &PoolRules,
    kept: impl Iterator<Item = (u32, Option<&'a Lease>)>,
    now_ms: u64,
) -> NoLease {
    let mut names = Vec::new();
    let mut next_free_ms = u64::MAX;
    for (_, lease) in kept.filter(|(id, _)| *id < rules.size) {
        names.push(lease.filter(|lease| lease.is_live(now_ms)).map_or("", |lease| lease.name.as_str()));
        let ends = lease.filter(|lease| lease.state != LeaseState::Kept);
        next_free_ms = next_free_ms.min(ends.map_or(u64::MAX, |lease| lease.not_after_ms));
    }
    let count_of = |names: &[&str]| u32::try_from(names.len()).unwrap_or(u32::MAX);
    let leased = count_of(&names);
    names.sort_unstable();
    let groups = names.chunk_by(|one, other| one == other);
    let mut holders: Vec<_> = groups.map(|same| Holders { name: same[0].into(), count: count_of(same) }).collect();
    holders.sort_by_key(|holders| Reverse(holders.count));
    holders.truncate(HOLDERS_MAX);
    NoLease::Exhausted { leased, holders, next_free_ms, now_ms }
}
