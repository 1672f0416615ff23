//! The IDs of a turn, made from the reservations that were drawn for it.

use getid_core::{Id, Reservation, Scheme};

use crate::resp::IdWriter;

/// The IDs of a turn, taken off its reservations from the front.
pub(super) struct TurnIds<'a> {
    scheme: &'a Scheme,
    /// Rest of the first reservation.
    current: Reservation,
    rest: std::slice::Iter<'a, Reservation>,
    /// Number of IDs left in all reservations.
    pub(super) left: u64,
}

impl<'a> TurnIds<'a> {
    pub(super) fn new(scheme: &'a Scheme, reservations: &'a [Reservation]) -> TurnIds<'a> {
        let left = reservations.iter().map(|reservation| u64::from(reservation.len)).sum();
        let current = Reservation { first: getid_core::Slot(0), count: 0, len: 0 };
        TurnIds { scheme, current, rest: reservations.iter(), left }
    }

    /// Returns the reservations that were not taken.
    pub(super) fn into_rest(self) -> Vec<Reservation> {
        let current = (self.current.len > 0).then_some(self.current);
        current.into_iter().chain(self.rest.copied()).collect()
    }

    /// Appends the next `count` IDs with `lines`. A separate function, because inlined it was two instructions longer
    /// per ID.
    #[inline(never)]
    pub(super) fn write_run(&mut self, count: u32, lines: &mut IdWriter, output: &mut Vec<u8>) {
        let scheme = self.scheme;
        self.pieces(count, |piece| lines.write_run(scheme, piece, output));
    }

    /// Calls `write` with each of the next `count` IDs.
    #[inline]
    pub(super) fn each(&mut self, count: u32, mut write: impl FnMut(Id)) {
        let scheme = self.scheme;
        self.pieces(count, |piece| scheme.ids(piece).for_each(&mut write));
    }

    /// Takes the next `count` IDs, and calls `take` with each run of them.
    #[inline]
    fn pieces(&mut self, mut count: u32, mut take: impl FnMut(Reservation)) {
        self.left -= u64::from(count);
        while count > 0 {
            if self.current.len == 0 {
                self.current = *self.rest.next().expect("the sum of all lengths was checked");
            }
            let mut taken = self.current;
            taken.len = self.current.drop_front(count);
            count -= taken.len;
            take(taken);
        }
    }
}
