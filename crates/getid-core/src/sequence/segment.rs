//! Ranges of values: what a store has reserved, what a client asks for, and what it gets.

/// A range of values that a store has reserved for this server: `first`, `first + increment`, ... up to `last`.
///
/// Invariants: `increment >= 1`, and `last - first` is a multiple of it; `last < first` means that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first value that is left.
    pub first: i64,
    /// The last one, inclusive.
    pub last: i64,
    /// How far values are apart, at least 1.
    pub increment: u32,
}

impl Segment {
    /// No values.
    pub const EMPTY: Segment = Segment { first: 1, last: 0, increment: 1 };

    /// How many values are left.
    #[inline]
    pub fn left(&self) -> u64 {
        if self.last < self.first { 0 } else { (self.last - self.first).unsigned_abs() / u64::from(self.increment) + 1 }
    }

    /// Takes `n` values off its front, 1 to `left()` of them; returns the first of them.
    #[inline]
    pub fn take(&mut self, n: u64) -> i64 {
        debug_assert!((1..=self.left()).contains(&n));
        let first = self.first;
        self.first += i64::try_from(n * u64::from(self.increment)).unwrap_or(i64::MAX);
        first
    }

    /// Whether `next` goes on where this one ends, so that both are one range.
    pub fn adjoins(&self, next: &Segment) -> bool {
        self.increment == next.increment && self.last.checked_add(i64::from(self.increment)) == Some(next.first)
    }
}

/// What one command, or several alike behind each other, ask of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// How many consecutive values each of them gets, at least 1: those of `INCRBY name values`.
    pub values: u32,
    /// How many commands, at least 1.
    pub times: u32,
}

/// Values that were given for (a part of) one [`Ask`]: `times` commands that get `values` each, all consecutive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first value of the first command.
    pub first: i64,
    /// How far values are apart.
    pub increment: u32,
    /// How many values each command has.
    pub values: u32,
    /// How many commands.
    pub times: u32,
}

impl Run {
    /// The last value of command `nth`, which is below `times`: the reply of `INCRBY`.
    #[inline]
    pub fn last_of(&self, nth: u32) -> i64 {
        let values = (u64::from(nth) + 1) * u64::from(self.values) - 1;
        self.first + i64::try_from(values * u64::from(self.increment)).unwrap_or(i64::MAX)
    }
}
