//! The IDs of one connection, as plain numbers: 8 bytes each, or 32 if they are wider.

use getid_core::Number;

/// IDs of one connection, in the order of their arrival until they are sorted.
#[derive(Clone, Debug)]
pub enum IdList {
    /// IDs of at most 64 bits, 8 bytes each.
    Narrow(Vec<u64>),
    /// IDs of any width, 32 bytes each.
    Wide(Vec<Number>),
}

impl IdList {
    /// Returns an empty list: a narrow one for IDs of at most 64 bits, else a wide one.
    pub fn new(is_narrow: bool) -> IdList {
        if is_narrow { IdList::Narrow(Vec::new()) } else { IdList::Wide(Vec::new()) }
    }

    /// Adds a number; a narrow list holds 64 bits.
    pub fn push(&mut self, number: Number) {
        match self {
            IdList::Narrow(ids) => ids.push(u64::try_from(number).unwrap_or(u64::MAX)),
            IdList::Wide(ids) => ids.push(number),
        }
    }

    /// Returns the number of IDs.
    pub fn len(&self) -> usize {
        match self {
            IdList::Narrow(ids) => ids.len(),
            IdList::Wide(ids) => ids.len(),
        }
    }

    /// Whether the list holds no ID.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the ID at an index, from 0; `None` past the end.
    pub fn get(&self, index: usize) -> Option<Number> {
        match self {
            IdList::Narrow(ids) => ids.get(index).copied().map(Number::from),
            IdList::Wide(ids) => ids.get(index).copied(),
        }
    }

    /// Returns the last ID; `None` if the list is empty.
    pub fn last(&self) -> Option<Number> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Sorts the IDs, unless they are sorted.
    pub fn sort(&mut self) {
        match self {
            IdList::Narrow(ids) if !ids.is_sorted() => ids.sort_unstable(),
            IdList::Wide(ids) if !ids.is_sorted() => ids.sort_unstable(),
            _ => {}
        }
    }

    /// Returns an iterator over the IDs, from first to last.
    pub fn iter(&self) -> impl Iterator<Item = Number> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}
