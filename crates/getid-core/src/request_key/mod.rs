//! Request keys: a client names its request, and every repetition of it gets the IDs of the first one.
//!
//! A store keeps one row for each request, with the reply. A server reads the row first, and only without one it draws
//! IDs and *claims* the request for them: the first claim writes the row, and each later one gets the reply of that
//! row. So two servers may draw for one request, and only the IDs of one of them are ever answered.
//!
//! This module decides; the statements are those of a store, the draws those of a server. The clocks of both count for
//! the end of a row: it is kept by the one that is ahead at its claim, and removed by the one that is behind.
//!
//! Invariants: while its row exists, a request has one reply. A reply is answered only after its row is committed. A
//! row is removed only [`KEPT_AFTER_MS`] after its end by both clocks.

mod row;
mod verdict;

pub use row::{Fingerprint, RequestReply, RequestRow, RequestScope};
pub use verdict::{ClaimVerdict, judge_claim, removable_before};

pub use crate::ledger::REQUEST_BYTES_MAX;
use crate::printable::is_unprintable;

/// Shortest time for which a request is kept, s.
pub const FOR_S_MIN: u32 = 60;

/// Longest time for which a request is kept: 366 days, s.
pub const FOR_S_MAX: u32 = 31_622_400;

/// Default of the time for which a request is kept: a day, s.
pub const FOR_S_DEFAULT: u32 = 86_400;

/// Largest number of IDs of one request. Ranges of a sequence have no such limit.
pub const REQUEST_IDS_MAX: u32 = 100;

/// Time after its end for which a row stays, ms. It covers clocks that differ.
pub const KEPT_AFTER_MS: i64 = 86_400_000;

/// Name of the unnamed generator in a [`RequestScope`].
pub const UNNAMED: &str = "-";

/// Returns true if a text can name a request: 1 to [`REQUEST_BYTES_MAX`] bytes without control characters.
pub fn is_request(text: &str) -> bool {
    (1..=REQUEST_BYTES_MAX).contains(&text.len()) && !text.contains(is_unprintable)
}
