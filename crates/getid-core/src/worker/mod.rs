//! Worker ids: numbers that other programs put into IDs of their own, leased to them for a while.
//!
//! A **pool** has worker ids from 0 on. A **lease** of one gives the milliseconds in which its holder may make IDs with
//! it: `not_before <= time < not_after`, by the holder's own clock. The next lease of the same id begins where the last
//! one ended, in these milliseconds and by no clock. So two holders never have one millisecond, however wrong their
//! clocks are, and an id needs no quarantine.
//!
//! R, the server's time, decides only when an id is leased again, and how far a lease reaches. No lease ends later than
//! [`PoolRules::longest_ms`] past R. So a pool that is new, or whose records were lost, is sound after that time: all
//! earlier leases are over ([`PoolState::opened`]).
//!
//! The module is pure: functions of records, R and a request return the new record, or a refusal. The caller stores it
//! before it answers.
//!
//! Invariant: the intervals of all leases of one id are disjoint, and each begins at or after the end of an earlier
//! one.

mod choice;
mod instance;
mod lease;
mod refusal;

pub use choice::{ChosenLease, Holders, LeaseRequest, NoLease, choose};
pub use instance::{InstanceRequest, choose_for_instance};
pub use lease::{
    HOLDER_NAME_BYTES_MAX, LAST_AHEAD_MS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, Lease, LeaseState, POOL_SIZE_MAX, PoolRules,
    PoolState, TokenDigest,
};
pub use refusal::{LeaseRefusal, NotNewReason};
