//! Why a request about worker ids was not done.

use std::fmt;

use getid_core::worker::{LeaseRefusal, NoLease, NotNew};

/// Why not. `Display` is the text of an error reply, without `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerError {
    /// There is no such pool.
    NoSuchPool {
        /// As it was asked for; it may be a name by now.
        pool: String,
    },
    /// No id is to be had.
    NoLease {
        /// Of which pool.
        pool: String,
        /// Why.
        why: NoLease,
    },
    /// A lease does not go on.
    Lease {
        /// Of which pool.
        pool: String,
        /// Of which id.
        id: u32,
        /// Why.
        why: LeaseRefusal,
    },
    /// A pool was said to be new, and is not.
    NotNew {
        /// Which pool.
        pool: String,
        /// What contradicts it.
        why: NotNew,
    },
    /// Nobody has this id.
    NotLeased {
        /// Of which pool.
        pool: String,
        /// Which.
        id: u32,
    },
    /// Too many requests wait for the store.
    Busy,
    /// The store cannot be asked, or says no; nothing was done.
    Store {
        /// What it said, with its address.
        said: String,
    },
    /// Nobody knows whether it was done.
    Unknown {
        /// What was said.
        said: String,
    },
    /// What was found in the store is not what this program writes.
    Record {
        /// Under which key.
        key: String,
        /// What is wrong with it.
        said: String,
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
            WorkerError::NoLease { pool, why: why @ NoLease::Exhausted { .. } } => {
                write!(f, "EXHAUSTED worker pool '{pool}' {why}")
            }
            WorkerError::Lease { pool, id, why } => {
                let code = match why {
                    LeaseRefusal::WrongToken => "WRONGTOKEN",
                    LeaseRefusal::Over { .. } | LeaseRefusal::Released => "EXPIRED",
                    LeaseRefusal::Revoked { .. } | LeaseRefusal::PoolSmaller { .. } => "REVOKED",
                    LeaseRefusal::LastAhead { .. } => "ERR",
                };
                write!(f, "{code} worker id {id} of pool '{pool}': {why}")
            }
            WorkerError::NotNew { pool, why } => write!(f, "ERR worker pool '{pool}' {why}"),
            WorkerError::NotLeased { pool, id } => {
                write!(
                    f,
                    "ERR worker id {id} of pool '{pool}' was never leased: 'WORKERID LIST {pool}' tells which were"
                )
            }
            WorkerError::Busy => {
                f.write_str("BUSY too many requests about worker ids wait for the store: try again in a second")
            }
            WorkerError::Store { said } => {
                write!(f, "MISCONF worker ids: the store cannot be asked, and nothing was done. {said}")
            }
            WorkerError::Unknown { said } => write!(
                f,
                "MISCONF worker ids: the store was asked, and nobody knows whether it has done it: ask again. A lease \
                 that was given in vain ends by itself. {said}"
            ),
            WorkerError::Record { key, said } => write!(
                f,
                "MISCONF worker ids: the record '{key}' is not to be used: {said}. Restore it, or take it away while no \
                 program has a lease of it"
            ),
        }
    }
}

impl std::error::Error for WorkerError {}
