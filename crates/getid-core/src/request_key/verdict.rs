//! What a store does with a claim, and which rows it removes.

use alloc::string::String;

use super::{Fingerprint, KEPT_AFTER_MS, RequestRow};
use crate::checks::{Fault, planted};

/// Answer to a claim of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// The request is new: its row is written, with this reply.
    Made {
        /// The row that is written.
        row: RequestRow,
    },
    /// The request was made before, with this reply.
    Found {
        /// The reply, as its row has it.
        reply: String,
    },
    /// The request was made before, with other arguments.
    OtherArguments,
    /// The generator has its maximum of rows.
    TooMany {
        /// The maximum.
        max: u64,
    },
}

impl RequestRow {
    /// Returns the reply to a request with these arguments.
    pub fn answer(&self, fingerprint: &Fingerprint) -> ClaimVerdict {
        if self.fingerprint != *fingerprint && !planted(Fault::RequestArgumentsIgnored) {
            return ClaimVerdict::OtherArguments;
        }
        ClaimVerdict::Found { reply: self.reply.clone() }
    }
}

/// Returns the answer to a claim, inside the transaction that writes the row.
///
/// `found` is the row of the same scope, `rows` the number of rows of its generator, `store_unix_ms` the time by the
/// store's clock. The times of `new` are those of the server's clock, and the row ends by the clock that is ahead.
pub fn judge_claim(
    found: Option<&RequestRow>,
    new: &RequestRow,
    rows: u64,
    rows_max: u64,
    store_unix_ms: i64,
) -> ClaimVerdict {
    if let Some(found) = found {
        if planted(Fault::RequestLoserAnswered) {
            return ClaimVerdict::Made { row: new.clone() };
        }
        return found.answer(&new.fingerprint);
    }
    if rows >= rows_max {
        return ClaimVerdict::TooMany { max: rows_max };
    }
    let ahead_ms = store_unix_ms.saturating_sub(new.made_unix_ms).max(0);
    let until_unix_ms = new.until_unix_ms.saturating_add(ahead_ms);
    ClaimVerdict::Made { row: RequestRow { made_unix_ms: store_unix_ms, until_unix_ms, ..new.clone() } }
}

/// Returns the time before which the end of a row must lie if it is removed now, Unix ms, by the clocks of the server
/// and of the store.
pub fn removable_before(server_unix_ms: i64, store_unix_ms: i64) -> i64 {
    if planted(Fault::RequestRemovedEarly) {
        return server_unix_ms.max(store_unix_ms);
    }
    server_unix_ms.min(store_unix_ms).saturating_sub(KEPT_AFTER_MS)
}
