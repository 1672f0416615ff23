//! The IDs of one connection, as plain numbers: 8 bytes each, or 16 if they are wider.

#[derive(Clone, Debug)]
pub(crate) enum Ids {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
}

impl Ids {
    pub(crate) fn new(is_narrow: bool) -> Ids {
        if is_narrow { Ids::Narrow(Vec::new()) } else { Ids::Wide(Vec::new()) }
    }

    /// Adds a number; a narrow list holds 64 bits.
    pub(crate) fn push(&mut self, number: u128) {
        match self {
            Ids::Narrow(ids) => ids.push(u64::try_from(number).unwrap_or(u64::MAX)),
            Ids::Wide(ids) => ids.push(number),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Ids::Narrow(ids) => ids.len(),
            Ids::Wide(ids) => ids.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<u128> {
        match self {
            Ids::Narrow(ids) => ids.get(index).copied().map(u128::from),
            Ids::Wide(ids) => ids.get(index).copied(),
        }
    }

    pub(crate) fn last(&self) -> Option<u128> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Sorts the IDs, unless they are sorted.
    pub(crate) fn sort(&mut self) {
        match self {
            Ids::Narrow(ids) if !ids.is_sorted() => ids.sort_unstable(),
            Ids::Wide(ids) if !ids.is_sorted() => ids.sort_unstable(),
            _ => {}
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u128> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}
