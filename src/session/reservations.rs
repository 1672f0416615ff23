//! The IDs of a turn, made from the reservations that were drawn for it.

use getid_core::{Id, Reservation, Scheme};

/// The IDs of a turn, taken off its reservations from the front.
pub(super) struct Ids<'a> {
    scheme: &'a Scheme,
    /// What is left of the first reservation.
    current: Reservation,
    rest: std::slice::Iter<'a, Reservation>,
    /// How many IDs are left altogether.
    pub(super) left: u64,
}

impl<'a> Ids<'a> {
    pub(super) fn new(scheme: &'a Scheme, reservations: &'a [Reservation]) -> Ids<'a> {
        let left = reservations.iter().map(|reservation| u64::from(reservation.len)).sum();
        let current = Reservation { first: getid_core::Slot(0), count: 0, len: 0 };
        Ids { scheme, current, rest: reservations.iter(), left }
    }

    /// What was not taken.
    pub(super) fn into_rest(self) -> Vec<Reservation> {
        let current = (self.current.len > 0).then_some(self.current);
        current.into_iter().chain(self.rest.copied()).collect()
    }

    /// Calls `write` with each of the next `count` IDs.
    #[inline]
    pub(super) fn each(&mut self, mut count: u32, mut write: impl FnMut(Id)) {
        self.left -= u64::from(count);
        while count > 0 {
            if self.current.len == 0 {
                self.current = *self.rest.next().expect("the sum of all lengths was checked");
            }
            let taken = Reservation { len: count.min(self.current.len), ..self.current };
            self.scheme.ids(taken).for_each(&mut write);
            self.current.first.0 += u64::from(taken.len);
            self.current.count = self.current.count.wrapping_add(u64::from(taken.len));
            self.current.len -= taken.len;
            count -= taken.len;
        }
    }
}
