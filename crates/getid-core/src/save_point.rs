//! The point that a save stores, and that the next life finds.

use crate::limits::LIMIT_MS_MAX;
use crate::time::Tick;

/// Upper bounds of the IDs given when it was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SavePoint {
    /// Exclusive upper bound of every tick given.
    pub watermark: Tick,
    /// R when it was saved.
    pub reference: Tick,
    /// Largest B that this life may have used, ms: no tick was given at or past R + B. 0: unknown.
    pub max_borrow_ms: u64,
}

impl SavePoint {
    /// The point of a life that found no record and gave nothing: a start treats it as a missing record.
    pub const NOTHING: SavePoint = SavePoint { watermark: Tick(0), reference: Tick(0), max_borrow_ms: 0 };

    /// Returns true if by this point no ID was given so far.
    pub fn is_nothing(&self) -> bool {
        (self.watermark, self.reference) == (Tick(0), Tick(0))
    }

    /// Returns the same instants in ticks of an epoch that is `shift_ms` earlier; past the 42 bits they stop at
    /// [`Tick::END`].
    #[must_use]
    pub fn in_earlier_epoch(self, shift_ms: u64) -> SavePoint {
        if self.is_nothing() {
            return self;
        }
        let (watermark, reference) = (self.watermark.plus_ms(shift_ms), self.reference.plus_ms(shift_ms));
        SavePoint { watermark, reference, ..self }
    }

    /// Returns the later instants and the larger B of both.
    #[must_use]
    pub fn later(self, other: SavePoint) -> SavePoint {
        SavePoint {
            watermark: self.watermark.max(other.watermark),
            reference: self.reference.max(other.reference),
            max_borrow_ms: self.max_borrow_ms.max(other.max_borrow_ms),
        }
    }

    /// Returns the point with every number in its range, whatever the record has.
    pub(crate) fn clamped(self) -> SavePoint {
        SavePoint {
            watermark: self.watermark.min(Tick::END),
            reference: self.reference.min(Tick::END),
            max_borrow_ms: self.max_borrow_ms.min(LIMIT_MS_MAX),
        }
    }
}
