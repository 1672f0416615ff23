//! Turns slots into IDs, with data that never changes while a server runs.
//!
//! A [`Reservation`] is the result of a draw: consecutive slots, and the number of IDs given before them. The
//! [`Scheme`] turns it into IDs without any shared state, so this can be done outside the lock around the mint.
//!
//! Invariant: the random part counts IDs given, not slots. At one ID per ms every slot is a multiple of
//! `2^shard_bits`, and a cycle over slots would visit very few values.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::checks::{Fault, planted};
use crate::layout::{Id, LOW_BITS, Layout};
use crate::time::{Slot, Tick};

/// A permutation of `0..2^random_bits`, visited in order, one step per ID given.
///
/// Any `2^random_bits` consecutive IDs carry every value exactly once, so IDs spread evenly over `id % 1024` tables.
/// The purpose is evenness, not secrecy.
#[derive(Clone, Debug)]
pub struct RandomCycle {
    /// One period, followed by the first values of the next, so that eight in a row are always adjacent.
    values: Box<[u32]>,
    /// The period less one: a power of two less one, and so the mask of a place in it.
    mask: usize,
}

impl RandomCycle {
    /// Creates a cycle over `values`; `None` unless they are a permutation of `0..2^r` for some r of 0..=21.
    pub fn new(mut values: Vec<u32>) -> Option<RandomCycle> {
        let len = values.len();
        if !len.is_power_of_two() || len > 1 << LOW_BITS {
            return None;
        }
        let mut seen = vec![false; len];
        for &value in &values {
            let place = seen.get_mut(value as usize)?;
            if core::mem::replace(place, true) {
                return None;
            }
        }
        values.reserve_exact(IdBatch8::LEN - 1);
        (0..IdBatch8::LEN - 1).for_each(|place| values.push(values[place]));
        Some(RandomCycle { values: values.into_boxed_slice(), mask: len - 1 })
    }

    /// Returns the random part of the ID with number `count` (0 is the first).
    #[inline]
    pub fn value_at(&self, count: u64) -> u32 {
        self.values[self.place_of(count)]
    }

    /// Returns the random parts of eight IDs from number `count` on.
    #[inline]
    fn values_at(&self, count: u64) -> &[u32; IdBatch8::LEN] {
        self.values[self.place_of(count)..].first_chunk().expect("a period is followed by the first values of the next")
    }

    /// Returns the place of `count` in the period; upper bits do not matter.
    #[inline]
    fn place_of(&self, count: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "the mask has 21 bits")]
        let count = count as usize;
        count & self.mask
    }

    /// Returns the number of values in the cycle, `2^random_bits`.
    pub fn period(&self) -> usize {
        self.mask + 1
    }
}

/// Layout, server-id and random cycle together.
#[derive(Clone, Debug)]
pub struct Scheme {
    layout: Layout,
    server_id: u32,
    cycle: RandomCycle,
    server_part: u64,
}

impl Scheme {
    /// Creates the scheme of one server; `None` if `server_id` or the cycle's length does not fit the layout.
    pub fn new(layout: Layout, server_id: u32, cycle: RandomCycle) -> Option<Scheme> {
        let fits = layout.has_server(server_id) && cycle.period() == 1 << layout.random_bits();
        let server_part = u64::from(server_id) << (LOW_BITS - layout.server_bits());
        fits.then_some(Scheme { layout, server_id, cycle, server_part })
    }

    /// Returns the layout of its IDs.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the server-id in its IDs.
    pub fn server_id(&self) -> u32 {
        self.server_id
    }

    /// Returns the ID at `slot`, given as number `count`.
    #[inline]
    pub fn id(&self, slot: Slot, count: u64) -> Id {
        let shard_bits = self.layout.shard_bits();
        debug_assert!(slot.tick(shard_bits) <= Tick::LAST, "no slot past the 42 bits is given");
        let random = u64::from(self.cycle.value_at(count));
        // Without the mask, a counter of 32 bits spills into server and tick, as in the fork.
        let shard = if planted(Fault::NoMask) { slot.0 & u64::from(u32::MAX) } else { slot.shard(shard_bits) };
        let number =
            (slot.tick(shard_bits).0 << LOW_BITS) | self.server_part | (shard << self.layout.random_bits()) | random;
        Id::from_number(number)
    }

    /// Removes the first eight slots of a reservation, or all of fewer. Returns their IDs, and how many slots were
    /// removed. Each ID equals [`Scheme::id`], but is computed over plain arrays, which become vector instructions.
    #[expect(clippy::inline_always, reason = "it is compiled for the processors that its caller is compiled for")]
    #[inline(always)]
    pub fn take_batch(&self, run: &mut Reservation) -> (IdBatch8, usize) {
        let (shard_bits, random_bits) = (self.layout.shard_bits(), self.layout.random_bits());
        let shards = (1 << shard_bits) - 1;
        #[expect(clippy::cast_possible_truncation, reason = "a shard has 21 bits")]
        let shard = run.first.shard(shard_bits) as u32;
        let mut above = *self.cycle.values_at(run.count);
        for (above, shard) in above.iter_mut().zip(shard..) {
            // The last shard of a tick is followed by the first of the next one.
            *above += (shard >> shard_bits << LOW_BITS) + ((shard & shards) << random_bits);
        }
        let base = run.first.tick(shard_bits).0 << LOW_BITS | self.server_part;
        (IdBatch8 { base, above }, run.drop_front(8) as usize)
    }

    /// Returns the IDs of a reservation, ascending.
    pub fn ids(&self, reservation: Reservation) -> impl ExactSizeIterator<Item = Id> + '_ {
        (0..reservation.len).map(move |i| {
            let step = u64::from(i);
            self.id(Slot(reservation.first.0 + step), reservation.count.wrapping_add(step))
        })
    }
}

/// Eight IDs of adjacent slots, computed to be written together: each is `base` plus one of `above`, which ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdBatch8 {
    /// A number at or below the first of them.
    pub base: u64,
    /// Distance of each ID above `base`. The IDs have at most eight ticks, so these numbers have 24 bits.
    pub above: [u32; IdBatch8::LEN],
}

impl IdBatch8 {
    /// Number of IDs.
    pub const LEN: usize = 8;
}

/// `len` consecutive slots taken in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// First slot.
    pub first: Slot,
    /// Number of IDs that this server gave before the first of these, modulo the random cycle's period: it may be
    /// smaller by any number of periods.
    pub count: u64,
    /// Number of slots.
    pub len: u32,
}

impl Reservation {
    /// Removes up to `count` slots from its front, and returns how many were removed.
    #[inline]
    pub fn drop_front(&mut self, count: u32) -> u32 {
        let count = count.min(self.len);
        self.first.0 += u64::from(count);
        self.count = self.count.wrapping_add(u64::from(count));
        self.len -= count;
        count
    }

    /// Appends `next` if it begins at this one's end. Returns false, and changes nothing, if it does not.
    pub fn append(&mut self, next: Reservation) -> bool {
        let len = u64::from(self.len);
        let adjoins = self.first.0.checked_add(len) == Some(next.first.0) && self.count.wrapping_add(len) == next.count;
        match self.len.checked_add(next.len) {
            Some(sum) if adjoins => {
                self.len = sum;
                true
            }
            _ => false,
        }
    }
}
