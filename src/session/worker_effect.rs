//! What commands about worker ids ask the server for.

use std::fmt;

/// `WORKERID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerEffect {
    /// `LEASE`: answer the id, a token, and the first millisecond and the one after the last.
    Lease {
        /// Of which pool.
        pool: String,
        /// As the holder calls itself; empty: it does not say.
        name: String,
        /// For how long; `None`: as the pool has it.
        ttl_ms: Option<u64>,
    },
    /// `RENEW`: answer the millisecond after the last.
    Renew {
        /// Of which pool.
        pool: String,
        /// Which worker id.
        id: u32,
        /// What the holder shows.
        token: WorkerWord,
        /// The time of its newest ID, Unix ms.
        last_ms: Option<u64>,
    },
    /// `RELEASE`: answer `+OK`.
    Release {
        /// Of which pool.
        pool: String,
        /// Which worker id.
        id: u32,
        /// What the holder shows.
        token: WorkerWord,
        /// The time of its newest ID, Unix ms.
        last_ms: Option<u64>,
    },
    /// `LIST`: answer a cursor, and a map for each lease.
    List {
        /// Of which pool.
        pool: String,
        /// The first id.
        from: u32,
        /// How many.
        count: u32,
    },
    /// `INFO`: answer a map.
    Info {
        /// Which pool.
        pool: String,
    },
    /// `INIT`: open a pool of which no id was ever leased, and answer `+OK`.
    Init {
        /// Which pool.
        pool: String,
    },
    /// `REVOKE`: answer the millisecond after the last.
    Revoke {
        /// Of which pool.
        pool: String,
        /// Which worker id.
        id: u32,
    },
}

/// A token as it was sent.
#[derive(Clone, PartialEq, Eq)]
pub struct WorkerWord(Vec<u8>);

impl WorkerWord {
    /// How many it has.
    pub const BYTES: usize = 32;

    /// Of these bytes.
    pub fn new(bytes: &[u8]) -> WorkerWord {
        WorkerWord(bytes.to_vec())
    }

    /// They.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Without what it is.
impl fmt::Debug for WorkerWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkerWord(..)")
    }
}
