//! Numbers of IDs: integers of 256 bits, of which an ID has up to 160.
//!
//! Most IDs fit 64 or 128 bits, but a KSUID has 160. The crate `ethnum` has an integer of 256 bits that behaves as
//! Rust's own do, so every layer above has one type for all IDs.

/// The number of an ID, of at most [`ID_BITS_MAX`](crate::ID_BITS_MAX) bits.
///
/// It is the 256-bit integer of the crate `ethnum`, because IDs such as KSUIDs are wider than a `u128`.
pub type Number = ethnum::U256;

/// Returns a number whose lowest `bits` are ones.
pub(crate) const fn low_ones(bits: u32) -> Number {
    let (high, low) = (bits.saturating_sub(u128::BITS), if bits < u128::BITS { bits } else { u128::BITS });
    Number::from_words(low_bits(high), low_bits(low))
}

/// Returns a value whose lowest `bits` are ones, up to 128.
pub(crate) const fn low_bits(bits: u32) -> u128 {
    if bits >= u128::BITS { u128::MAX } else { (1 << bits) - 1 }
}

/// Returns a value whose lowest `bits` are ones, up to 64.
pub(crate) const fn low_bits_64(bits: u32) -> u64 {
    if bits >= u64::BITS { u64::MAX } else { (1 << bits) - 1 }
}
