//! Turns slots into numbers, for layouts of any fields, with data that never changes in a life.

use alloc::vec::Vec;
use core::ops::{BitOr, Shl};

use crate::fields::{FieldLayout, Role};
use crate::number::{Number, low_bits, low_bits_64};
use crate::scheme::RandomCycle;

/// A layout with a server-id and a random cycle: turns slots into numbers without shared state.
#[derive(Clone, Debug)]
pub struct Composer {
    /// Constants, server-id and drawn values, at their places.
    fixed: Number,
    /// Whether numbers exceed 128 bits; the others are composed as a `u128`, which is faster.
    is_wide: bool,
    /// All ones; 0 for a layout without a time, whose numbers ignore the slot.
    slot_mask: u64,
    counter_bits: u32,
    time_shift: u32,
    counter_shift: u32,
    random: Option<(u32, RandomCycle)>,
    noise_shift: u32,
    noise_mask: u128,
}

impl Composer {
    /// Creates the composer of one server.
    ///
    /// `drawn` returns the value of each drawn field, by name. Returns `None` if the server-id, a drawn value or the
    /// cycle does not fit the layout.
    pub fn new(
        layout: &FieldLayout,
        server_id: u32,
        drawn: impl Fn(&str) -> Option<u64>,
        cycle: Option<RandomCycle>,
    ) -> Option<Composer> {
        let mut server_bits_left = layout.bits_of(Role::Server);
        if server_bits_left > 0 && u128::from(server_id) > low_bits(server_bits_left) {
            return None;
        }
        let mut fixed = Number::ZERO;
        for (field, shift) in layout.places() {
            let value = match field.role {
                Role::Constant(value) => u128::from(value),
                Role::Drawn => u128::from(drawn(&field.name)?),
                Role::Server => {
                    server_bits_left -= field.bits;
                    // Bits above the lowest 32 are 0.
                    (u128::from(server_id) >> server_bits_left) & low_bits(field.bits)
                }
                _ => continue,
            };
            if value > low_bits(field.bits) {
                return None;
            }
            fixed |= Number::new(value) << shift;
        }
        let random = match (layout.shift_of(Role::Random), cycle) {
            (Some(shift), Some(cycle)) if cycle.period() == 1 << layout.bits_of(Role::Random) => Some((shift, cycle)),
            (None, _) => None,
            _ => return None,
        };
        Some(Composer {
            fixed,
            is_wide: layout.bits() > u128::BITS,
            slot_mask: if layout.has_time() { u64::MAX } else { 0 },
            counter_bits: layout.counter_bits(),
            time_shift: layout.shift_of(Role::Time).unwrap_or(0),
            counter_shift: layout.shift_of(Role::Counter).unwrap_or(0),
            random,
            noise_shift: layout.shift_of(Role::Noise).unwrap_or(0),
            noise_mask: low_bits(layout.bits_of(Role::Noise)),
        })
    }

    /// Returns the number at `slot`, as number `count` of the cycle. A layout without a time ignores the slot.
    ///
    /// `noise` has fresh random bits, of which the layout's number is used. `request` has the values that came with the
    /// request, at their places ([`request_bits`]).
    #[inline]
    pub fn number(&self, slot: u64, count: u64, noise: u128, request: Number) -> Number {
        let moving = if self.is_wide {
            self.moving::<Number>(slot, count, noise)
        } else {
            Number::new(self.moving(slot, count, noise))
        };
        moving | self.fixed | request
    }

    /// Returns the fields that differ from ID to ID, at their places.
    #[inline]
    fn moving<N>(&self, slot: u64, count: u64, noise: u128) -> N
    where
        N: From<u32> + From<u64> + From<u128> + Shl<u32, Output = N> + BitOr<Output = N>,
    {
        let slot = slot & self.slot_mask;
        let counter = slot & low_bits_64(self.counter_bits);
        let mut number = N::from(slot >> self.counter_bits) << self.time_shift;
        number = number | N::from(counter) << self.counter_shift;
        if let Some((shift, cycle)) = &self.random {
            number = number | N::from(cycle.value_at(count)) << *shift;
        }
        number | N::from(noise & self.noise_mask) << self.noise_shift
    }

    /// Returns true if each number has its own noise.
    pub fn has_noise(&self) -> bool {
        self.noise_mask != 0
    }
}

/// Returns the values of a layout's request fields at their places, most significant field first.
///
/// Returns `None` if the number of values differs from that of fields, or a value does not fit.
pub fn request_bits(layout: &FieldLayout, values: &[u64]) -> Option<Number> {
    let fields: Vec<_> = layout.places().filter(|(field, _)| field.role == Role::Request).collect();
    if fields.len() != values.len() {
        return None;
    }
    fields.into_iter().zip(values).try_fold(Number::ZERO, |bits, ((field, shift), &value)| {
        (u128::from(value) <= low_bits(field.bits)).then(|| bits | Number::from(value) << shift)
    })
}
