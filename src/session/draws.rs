//! How many IDs a turn needs of which generator.
//!
//! A generator is told by its index in the server's registry (`generators`), the unnamed one being 0. It has a field of
//! its own here, so that a `GETID` costs one addition. Named generators will be a list beside it, each of them in it
//! once: a turn draws from a generator in one go, wherever its commands stand.

/// The index of the generator that has no name.
const UNNAMED: usize = 0;

/// Numbers of IDs by generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draws {
    /// IDs of the unnamed generator.
    pub unnamed: u32,
}

impl Draws {
    /// Whether there is nothing to draw.
    #[inline]
    pub fn is_empty(self) -> bool {
        self == Draws::default()
    }

    /// Each generator that is drawn from, with the number of IDs; the unnamed one first.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = (usize, u32)> {
        [(UNNAMED, self.unnamed)].into_iter().filter(|&(_, ids)| ids > 0)
    }

    /// The same, to take off what was drawn.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut u32)> {
        [(UNNAMED, &mut self.unnamed)].into_iter().filter(|(_, ids)| **ids > 0)
    }

    /// The number of IDs of all generators together.
    #[inline]
    pub fn ids(self) -> u32 {
        self.unnamed
    }
}
