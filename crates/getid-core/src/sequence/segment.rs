//! Ranges of values: a store's reservation, a client's request, and its result.

/// A range of values that a store has reserved for this server: `first`, `first + increment`, ... up to `last`.
///
/// Invariants: `increment >= 1`, and `last - first` is a multiple of it; `last < first` means that it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First value that is left.
    pub first: i64,
    /// Last value, inclusive.
    pub last: i64,
    /// Distance between values, at least 1.
    pub increment: u32,
}

impl Segment {
    /// A segment without values.
    pub const EMPTY: Segment = Segment { first: 1, last: 0, increment: 1 };

    /// Returns the number of values left.
    #[inline]
    pub fn left(&self) -> u64 {
        if self.last < self.first {
            return 0;
        }
        let span = (self.last - self.first).unsigned_abs();
        // Nearly all have this increment, and a division costs as much as the rest of a draw.
        if self.increment == 1 { span + 1 } else { span / u64::from(self.increment) + 1 }
    }

    /// Takes `n` values from its front, 1 to `left()` of them; returns the first of them.
    #[inline]
    pub fn take(&mut self, n: u64) -> i64 {
        debug_assert!((1..=self.left()).contains(&n));
        let first = self.first;
        self.first += i64::try_from(n * u64::from(self.increment)).unwrap_or(i64::MAX);
        first
    }

    /// Returns true if `next` continues this segment, so that both are one range.
    pub fn adjoins(&self, next: &Segment) -> bool {
        self.increment == next.increment && self.last.checked_add(i64::from(self.increment)) == Some(next.first)
    }
}

/// Request of one command, or of several equal ones in a row, to a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceRequest {
    /// Number of consecutive values for each command, at least 1: that of `INCRBY name values`.
    pub values: u32,
    /// Number of commands, at least 1.
    pub times: u32,
}

/// Values that were given for (a part of) one [`SequenceRequest`]: `times` commands that get `values` each, all
/// consecutive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First value of the first command.
    pub first: i64,
    /// Distance between values.
    pub increment: u32,
    /// Number of values for each command.
    pub values: u32,
    /// Number of commands.
    pub times: u32,
}

impl Run {
    /// Returns the last value of command `nth`, which is below `times`: the reply of `INCRBY`.
    #[inline]
    pub fn last_of(&self, nth: u32) -> i64 {
        let values = (u64::from(nth) + 1) * u64::from(self.values) - 1;
        self.first + i64::try_from(values * u64::from(self.increment)).unwrap_or(i64::MAX)
    }
}
