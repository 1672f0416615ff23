//! How many IDs a turn needs.
//!
//! The unnamed generator has a field of its own, so that a `GETID` costs one addition. Named generators and sequences
//! are lists beside it ([`Turn::named_draws`](super::Turn::named_draws),
//! [`Turn::sequence_draws`](super::Turn::sequence_draws)), each of them in it once: a turn draws from each in one go,
//! wherever its commands stand.

/// Numbers of IDs, of generators and of sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// IDs of the unnamed generator.
    pub unnamed: u32,
    /// How many named generators are asked.
    pub named: u32,
    /// How many sequences are asked.
    pub sequences: u32,
}

impl Draws {
    /// Whether there is nothing to draw.
    #[inline]
    pub fn is_empty(self) -> bool {
        self == Draws::default()
    }
}
