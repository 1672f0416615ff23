//! Effects of commands about worker ids.

use std::fmt;

/// Effects of `WORKERID`, and of CosId's scripts of machine ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEffect {
    /// `LEASE`: answer the id, a token, the first millisecond, the exclusive end, and the length in ms.
    Lease {
        /// Name of the pool.
        pool: String,
        /// Name of the holder, or empty.
        name: String,
        /// Duration in ms; `None`: the pool's.
        ttl_ms: Option<u64>,
    },
    /// `RENEW`: answer the new end, exclusive.
    Renew {
        /// Name of the pool.
        pool: String,
        /// The worker id.
        id: u32,
        /// Token of the lease.
        token: WorkerWord,
        /// Time of the holder's newest ID, Unix ms.
        last_ms: Option<u64>,
    },
    /// `RELEASE`: answer `+OK`.
    Release {
        /// Name of the pool.
        pool: String,
        /// The worker id.
        id: u32,
        /// Token of the lease.
        token: WorkerWord,
        /// Time of the holder's newest ID, Unix ms.
        last_ms: Option<u64>,
    },
    /// Answer the machine id of an instance and the Unix time in ms at which it begins, or -1 twice if all are taken.
    Distribute {
        /// Name of the pool.
        pool: String,
        /// Name of the instance.
        instance: Vec<u8>,
        /// Number of machine ids that its layout has.
        ids: u32,
        /// Silence after which another instance may get the id, ms; `None`: never.
        guard_ms: Option<u64>,
        /// Time on the instance's clock, Unix ms.
        now_ms: u64,
    },
    /// Renew the lease of an instance: answer 1, or 0 if it has none.
    Guard {
        /// Name of the pool.
        pool: String,
        /// Name of the instance.
        instance: Vec<u8>,
        /// Time on the instance's clock, Unix ms.
        last_ms: u64,
    },
    /// Give back the machine id of an instance: answer 1, or 0 if it has none.
    Revert {
        /// Name of the pool.
        pool: String,
        /// Name of the instance.
        instance: Vec<u8>,
        /// Time on the instance's clock, Unix ms.
        last_ms: u64,
    },
    /// `LIST`: answer a cursor, and a map for each lease.
    List {
        /// Name of the pool.
        pool: String,
        /// First id of the page.
        from: u32,
        /// Maximum number of leases.
        count: u32,
    },
    /// `INFO`: answer a map.
    Info {
        /// Name of the pool.
        pool: String,
    },
    /// `INIT`: open a pool of which no id was ever leased, and answer `+OK`.
    Init {
        /// Name of the pool.
        pool: String,
    },
    /// `REVOKE`: answer the end of the lease, exclusive.
    Revoke {
        /// Name of the pool.
        pool: String,
        /// The worker id.
        id: u32,
    },
}

/// A token as it was sent.
#[derive(Clone, PartialEq, Eq)]
pub struct WorkerWord(Vec<u8>);

impl WorkerWord {
    /// Length of a token, bytes.
    pub const BYTES: usize = 32;

    /// Makes a token of these bytes.
    pub fn new(bytes: &[u8]) -> WorkerWord {
        WorkerWord(bytes.to_vec())
    }

    /// Returns the bytes of the token.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Does not show the secret.
impl fmt::Debug for WorkerWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkerWord(..)")
    }
}
