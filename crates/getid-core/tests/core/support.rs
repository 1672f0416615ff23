//! What the tests of the ID core share: a seeded random source, and all legal splits of the 21 bits.

use getid_core::{Epoch, Layout, RandomCycle, Scheme};

/// `SplitMix64`: small, seeded, good enough to walk with.
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `0..below`.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.next() % below
    }

    pub(crate) fn range(&mut self, low: u64, high_inclusive: u64) -> u64 {
        low + self.below(high_inclusive - low + 1)
    }

    /// Small numbers often, large ones sometimes: `1..=2^bits_max`.
    pub(crate) fn skewed(&mut self, bits_max: u32) -> u64 {
        let bits = self.below(u64::from(bits_max) + 1);
        self.below(1 << bits) + 1
    }

    pub(crate) fn permutation(&mut self, len: usize) -> Vec<u32> {
        let mut values: Vec<u32> = (0..u32::try_from(len).expect("small")).collect();
        for i in (1..len).rev() {
            values.swap(i, usize::try_from(self.below(i as u64 + 1)).expect("small"));
        }
        values
    }
}

/// All 253 ways to divide 21 bits among server, shard and random.
pub(crate) fn splits() -> impl Iterator<Item = Layout> {
    (0..=21).flat_map(|server| {
        (0..=21 - server)
            .map(move |shard| Layout::new(Epoch::DEFAULT, server, shard, 21 - server - shard).expect("adds up to 21"))
    })
}

/// A scheme with a random server-id and cycle. Cycles over 2^12 values are an identity, to save time.
pub(crate) fn scheme(layout: Layout, rng: &mut Rng) -> Scheme {
    let period = 1 << layout.random_bits();
    let values = if period <= 1 << 12 { rng.permutation(period) } else { (0..1 << layout.random_bits()).collect() };
    let server_id = u32::try_from(rng.below(1 << layout.server_bits())).expect("21 bits");
    Scheme::new(layout, server_id, RandomCycle::new(values).expect("a permutation")).expect("fits")
}
