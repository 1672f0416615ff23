//! Number of IDs that a turn needs.
//!
//! The unnamed generator has a field of its own, so that a `GETID` costs one addition. Named generators and sequences
//! are lists beside it ([`Turn::named_draws`](super::Turn::named_draws),
//! [`Turn::sequence_draws`](super::Turn::sequence_draws)). Each of them is in its list once: a turn draws from each in
//! one step, at whatever position its commands are.

/// Numbers of IDs, of generators and of sequences in a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// Number of IDs of the unnamed generator.
    pub unnamed: u32,
    /// Number of named generators to draw from.
    pub named: u32,
    /// Number of sequences to draw from.
    pub sequences: u32,
}

impl Draws {
    /// Returns true if there is nothing to draw.
    #[inline]
    pub fn is_empty(self) -> bool {
        self == Draws::default()
    }
}
