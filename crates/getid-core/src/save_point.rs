//! What a save stores, and the next life finds.

use crate::limits::LIMIT_MS_MAX;
use crate::time::Tick;

/// How far IDs may have come when it was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SavePoint {
    /// Every tick given out is below it.
    pub watermark: Tick,
    /// R when it was saved.
    pub reference: Tick,
    /// The largest B that this life may have used, ms: no tick was given at or past R + B. 0: nothing is known of it.
    pub max_borrow_ms: u64,
}

impl SavePoint {
    /// What a life stores that found no record and gave nothing: a start treats it as if there were no record.
    pub const NOTHING: SavePoint = SavePoint { watermark: Tick(0), reference: Tick(0), max_borrow_ms: 0 };

    /// Whether it says that no ID was given so far.
    pub fn is_nothing(&self) -> bool {
        (self.watermark, self.reference) == (Tick(0), Tick(0))
    }

    /// The same instants, in ticks of an epoch that is `shift_ms` earlier; past the 42 bits they stop at [`Tick::END`].
    #[must_use]
    pub fn in_earlier_epoch(self, shift_ms: u64) -> SavePoint {
        if self.is_nothing() {
            return self;
        }
        let (watermark, reference) = (self.watermark.plus_ms(shift_ms), self.reference.plus_ms(shift_ms));
        SavePoint { watermark, reference, ..self }
    }

    /// The later instants and the larger B of both.
    #[must_use]
    pub fn later(self, other: SavePoint) -> SavePoint {
        SavePoint {
            watermark: self.watermark.max(other.watermark),
            reference: self.reference.max(other.reference),
            max_borrow_ms: self.max_borrow_ms.max(other.max_borrow_ms),
        }
    }

    /// With every number in its range, whatever a record says.
    pub(crate) fn clamped(self) -> SavePoint {
        SavePoint {
            watermark: self.watermark.min(Tick::END),
            reference: self.reference.min(Tick::END),
            max_borrow_ms: self.max_borrow_ms.min(LIMIT_MS_MAX),
        }
    }
}
