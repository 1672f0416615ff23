//! The random number generator of all tests: a seed determines every run. The server's tests use it too.

#![allow(dead_code, reason = "each binary uses a part")]

/// Random numbers by the algorithm `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number of `0..bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns an index of a slice of this length.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("small")
    }

    /// Returns a number of `low..=high_inclusive`.
    pub(crate) fn within(&mut self, low: u64, high_inclusive: u64) -> u64 {
        low + self.below(high_inclusive - low + 1)
    }

    /// Returns true once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a number of `1..=2^bits_max`: small ones often, large ones sometimes.
    pub(crate) fn skewed(&mut self, bits_max: u32) -> u64 {
        let bits = self.below(u64::from(bits_max) + 1);
        self.below(1 << bits) + 1
    }

    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())].clone()
    }

    pub(crate) fn permutation(&mut self, len: usize) -> Vec<u32> {
        let mut values: Vec<u32> = (0..u32::try_from(len).expect("small")).collect();
        for i in (1..len).rev() {
            values.swap(i, self.index(i + 1));
        }
        values
    }
}
