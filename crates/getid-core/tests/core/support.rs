//! Shared by the tests of the ID core: all legal splits of the 21 bits, and declarations.

use crate::random::Random;
use getid_core::{Declaration, Epoch, Layout, RandomCycle, Scheme, no_dates};

/// Returns all 253 ways to divide 21 bits among server, shard and random.
pub(crate) fn splits() -> impl Iterator<Item = Layout> {
    (0..=21).flat_map(|server| {
        (0..=21 - server)
            .map(move |shard| Layout::new(Epoch::DEFAULT, server, shard, 21 - server - shard).expect("adds up to 21"))
    })
}

/// Returns a scheme with a random server-id and cycle. Cycles over 2^12 values are an identity, to save time.
pub(crate) fn scheme(layout: Layout, rng: &mut Random) -> Scheme {
    let period = 1 << layout.random_bits();
    let values = if period <= 1 << 12 { rng.permutation(period) } else { (0..1 << layout.random_bits()).collect() };
    let server_id = u32::try_from(rng.below(1 << layout.server_bits())).expect("21 bits");
    Scheme::new(layout, server_id, RandomCycle::new(values).expect("a permutation")).expect("fits")
}

/// Returns the declaration of these words, the name first.
pub(crate) fn declared(text: &str) -> Declaration {
    Declaration::parse(&text.split(' ').collect::<Vec<_>>(), no_dates)
        .unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}
