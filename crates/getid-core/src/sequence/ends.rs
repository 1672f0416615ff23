//! The end of a sequence: a time in its row from which on it gives no values (`EXPIRE`).
//!
//! Unlike a key of Redis, a sequence that has ended keeps its row and its position: nothing begins again. Programs send
//! `EXPIRE` with each `INCR`, so an end that is close to the present one is not written.
//!
//! Invariant: the same [`EndChange::decide`] answers from memory and inside the store's transaction.

/// Latest end, Unix ms: the end of the year 9999.
pub const END_UNIX_MS_MAX: i64 = 253_402_300_799_999;

/// Divisor of the time that is left until an end: an end that differs by less than this share is not written.
const CLOSE_SHARE: i64 = 10;

/// The end of a row, as a server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowEnd {
    /// The end in Unix ms, by the store's clock.
    pub unix_ms: i64,
    /// The same moment by the clock of the arguments of [`Sequence`](super::Sequence), ms.
    pub at_ms: u64,
}

/// Options of `EXPIRE`, as in Redis. A sequence without an end counts as one that ends last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndCondition {
    /// `NX`: it has no end.
    pub is_new: bool,
    /// `XX`: it has an end.
    pub is_old: bool,
    /// `GT`: the new end is later.
    pub is_later: bool,
    /// `LT`: the new end is earlier.
    pub is_earlier: bool,
}

/// A new end for a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndChange {
    /// The new end, Unix ms. One that is not after now ends the sequence now.
    pub unix_ms: i64,
    /// Condition for the change.
    pub condition: EndCondition,
}

/// Outcome of [`EndChange::decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndDecision {
    /// The condition is not met.
    Unmet,
    /// The present end is close to the new one, and stays.
    Kept,
    /// The end becomes this one, Unix ms.
    Written(i64),
    /// The sequence has ended at this time, Unix ms.
    Ended(i64),
}

impl EndChange {
    /// Decides by the present end, Unix ms, 0 for none, and the time.
    pub fn decide(&self, present_unix_ms: i64, now_unix_ms: i64) -> EndDecision {
        let EndCondition { is_new, is_old, is_later, is_earlier } = self.condition;
        let has_end = present_unix_ms > 0;
        if has_end && present_unix_ms <= now_unix_ms {
            return EndDecision::Ended(present_unix_ms);
        }
        let present = if has_end { present_unix_ms } else { i64::MAX };
        let is_unmet = is_new && has_end
            || is_old && !has_end
            || is_later && self.unix_ms <= present
            || is_earlier && self.unix_ms >= present;
        if is_unmet {
            return EndDecision::Unmet;
        }
        let end = self.unix_ms.clamp(now_unix_ms.max(1), END_UNIX_MS_MAX.max(now_unix_ms));
        let left_ms = end.saturating_sub(now_unix_ms);
        if has_end && present.abs_diff(end) <= (left_ms / CLOSE_SHARE).unsigned_abs() {
            return EndDecision::Kept;
        }
        EndDecision::Written(end)
    }
}

#[cfg(test)]
mod tests {
    use super::{EndChange, EndCondition, EndDecision};

    const NONE: EndCondition = EndCondition { is_new: false, is_old: false, is_later: false, is_earlier: false };
    const NX: EndCondition = EndCondition { is_new: true, ..NONE };
    const XX: EndCondition = EndCondition { is_old: true, ..NONE };
    const GT: EndCondition = EndCondition { is_later: true, ..NONE };
    const LT: EndCondition = EndCondition { is_earlier: true, ..NONE };

    #[test]
    fn an_end_is_written_unless_the_present_one_is_within_a_tenth_of_the_time_left() {
        use EndDecision::{Ended, Kept, Unmet, Written};
        for (condition, present, new, expected) in [
            (NONE, 0, 2_000, Written(2_000)),
            (NONE, 2_000, 2_000, Kept),
            // 1,100 are left, of which 110 are a tenth.
            (NONE, 1_990, 2_100, Kept),
            (NONE, 1_989, 2_100, Written(2_100)),
            (NONE, 2_100, 2_000, Kept),
            (NONE, 2_101, 2_000, Written(2_000)),
            (NONE, 0, 1_000, Written(1_000)),
            (NONE, 0, -5, Written(1_000)),
            (NONE, 1_001, 0, Written(1_000)),
            (NONE, 1_000, 9_000, Ended(1_000)),
            (NX, 999, 9_000, Ended(999)),
            (NX, 0, 9_000, Written(9_000)),
            (NX, 9_000, 5_000, Unmet),
            (XX, 0, 9_000, Unmet),
            (XX, 5_000, 9_000, Written(9_000)),
            (GT, 0, 9_000, Unmet),
            (GT, 5_000, 9_000, Written(9_000)),
            (GT, 9_000, 5_000, Unmet),
            (GT, 9_000, 9_000, Unmet),
            (LT, 0, 9_000, Written(9_000)),
            (LT, 5_000, 9_000, Unmet),
            (LT, 9_000, 5_000, Written(5_000)),
            (NONE, 0, i64::MAX, Written(super::END_UNIX_MS_MAX)),
        ] {
            let change = EndChange { unix_ms: new, condition };
            assert_eq!(change.decide(present, 1_000), expected, "{condition:?} {present} {new}");
        }
    }
}
