//! How many IDs a turn needs.
//!
//! The unnamed generator has a field of its own, so that a `GETID` costs one addition. Named generators are a list
//! beside it ([`Turn::named_draws`](super::Turn::named_draws)), each of them in it once: a turn draws from a generator
//! in one go, wherever its commands stand.

/// Numbers of IDs and of generators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// IDs of the unnamed generator.
    pub unnamed: u32,
    /// How many named generators are asked.
    pub named: u32,
}

impl Draws {
    /// Whether there is nothing to draw.
    #[inline]
    pub fn is_empty(self) -> bool {
        self == Draws::default()
    }
}
