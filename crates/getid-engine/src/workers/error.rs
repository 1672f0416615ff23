//! Errors of requests about worker ids.

use std::fmt;

use getid_core::server::worker::{LeaseRefusal, NoLease, NotNewReason};

/// Error of a request about worker ids. `Display` is the text of an error reply, without `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerError {
    /// The pool does not exist.
    NoSuchPool {
        /// Name of the pool as the request gave it. A pool of this name may exist by now.
        pool: String,
    },
    /// No id can be leased.
    NoLease {
        /// Name of the pool.
        pool: String,
        /// Reason of the refusal.
        why: NoLease,
    },
    /// A lease cannot be renewed or released.
    Lease {
        /// Name of the pool.
        pool: String,
        /// Worker id of the lease.
        id: u32,
        /// Reason of the refusal.
        why: LeaseRefusal,
    },
    /// An instance requests a lease that outlasts a longer silence than any lease of the pool.
    GuardTooLong {
        /// Name of the pool.
        pool: String,
        /// Silence that the lease is to outlast, ms.
        guard_ms: u64,
        /// Longest lease of the pool, ms.
        longest_ms: u64,
    },
    /// A request declared a pool new, and it is not new.
    NotNew {
        /// Name of the pool.
        pool: String,
        /// Evidence that the pool is not new.
        why: NotNewReason,
    },
    /// The id is not leased.
    NotLeased {
        /// Name of the pool.
        pool: String,
        /// Worker id of the request.
        id: u32,
    },
    /// Too many requests are waiting for the store.
    Busy,
    /// The store is unreachable or refuses; nothing was done.
    Store {
        /// Error of the store, with its address.
        reason: String,
    },
    /// The outcome of the request is unknown.
    Unknown {
        /// Error of the store or of this server.
        reason: String,
    },
    /// The store contains a record that this program did not write.
    Record {
        /// Key of the record.
        key: String,
        /// Fault of the record.
        reason: String,
    },
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkerError::NoSuchPool { pool } => write!(
                f,
                "ERR no such worker pool '{pool}': 'worker-pool {pool} size 1024 lease 30s' in the configuration makes it"
            ),
            WorkerError::NoLease { pool, why: why @ NoLease::NotOpen { .. } } => {
                write!(
                    f,
                    "TRYAGAIN worker pool '{pool}' {why}. If no id of it was ever leased, 'getid worker init {pool} \
                     --new' opens it at once"
                )
            }
            WorkerError::NoLease { pool, why: why @ NoLease::OtherKind { .. } } => {
                write!(f, "ERR worker pool '{pool}' {why}")
            }
            WorkerError::NoLease { pool, why: why @ NoLease::Exhausted { .. } } => {
                write!(f, "EXHAUSTED worker pool '{pool}' {why}")
            }
            WorkerError::Lease { pool, id, why } => {
                let code = match why {
                    LeaseRefusal::WrongToken => "WRONGTOKEN",
                    LeaseRefusal::Over { .. } | LeaseRefusal::Released | LeaseRefusal::OtherInstance => "EXPIRED",
                    LeaseRefusal::Revoked { .. } | LeaseRefusal::PoolSmaller { .. } => "REVOKED",
                    LeaseRefusal::LastAhead { .. } => "ERR",
                };
                write!(f, "{code} worker id {id} of pool '{pool}': {why}")
            }
            WorkerError::GuardTooLong { pool, guard_ms, longest_ms } => write!(
                f,
                "ERR worker pool '{pool}' has leases of {longest_ms} ms at most, and the instance's \
                 safe-guard-duration is {guard_ms} ms: set 'longest' of 'worker-pool {pool}' to twice that, 24h at \
                 most, or shorten cosid.machine.guarder.safe-guard-duration"
            ),
            WorkerError::NotNew { pool, why } => write!(f, "ERR worker pool '{pool}' {why}"),
            WorkerError::NotLeased { pool, id } => {
                write!(
                    f,
                    "ERR worker id {id} of pool '{pool}' was never leased: 'WORKERID LIST {pool}' lists those that were"
                )
            }
            WorkerError::Busy => {
                f.write_str("BUSY too many requests about worker ids wait for the store: try again in a second")
            }
            WorkerError::Store { reason } => {
                write!(f, "MISCONF worker ids: the store is unavailable, and nothing was done. {reason}")
            }
            WorkerError::Unknown { reason } => write!(
                f,
                "MISCONF worker ids: the outcome of the write is unknown: repeat the request. A lease that was stored \
                 but not returned ends by itself. {reason}"
            ),
            WorkerError::Record { key, reason } => write!(
                f,
                "MISCONF worker ids: the record '{key}' is unusable: {reason}. Restore it, or remove it while no program \
                 has a lease of it"
            ),
        }
    }
}

impl std::error::Error for WorkerError {}
