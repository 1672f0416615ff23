//! The division of an ID's 63 bits.
//!
//! ```text
//!  63        62 .......... 21   20 .. 19    18 ....... 10    9 ........ 0
//!   0        milliseconds       server-id   shard            random
//!   sign     time: 42 bits      id-range 2  shard-range 9    random-range 10
//! ```
//!
//! The constructor of a [`Layout`] checks the widths, so no later code does. Invariant: `server_bits + shard_bits +
//! random_bits == 21`.

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::time::{Epoch, Tick};

/// Bits below the tick, divided among server, shard and random.
pub const LOW_BITS: u32 = 21;

/// The bit widths of server, shard and random, and the epoch: all that is needed to read an ID.
///
/// ```
/// use getid_core::{Epoch, Id, Layout, Parts, Tick};
///
/// // 32 servers, each with 64,000 IDs a second.
/// let layout = Layout::new(Epoch::DEFAULT, 5, 6, 10)?;
/// assert_eq!(layout.capacity_per_s(), 64_000);
///
/// let parts = Parts { tick: Tick(375_289_487_795), server: 31, shard: 2, random: 7 };
/// let id = layout.compose(parts);
/// assert_eq!(layout.split(id), parts);
/// # Ok::<(), getid_core::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    epoch: Epoch,
    server_bits: u32,
    shard_bits: u32,
    random_bits: u32,
}

impl Layout {
    /// Creates a layout of `id-range`, `shard-range` and `random-range` bits, each 0..=21.
    ///
    /// # Errors
    ///
    /// Fails with [`LayoutError`] if a width is over 21 or they do not add up to 21.
    pub fn new(epoch: Epoch, id_range: u32, shard_range: u32, random_range: u32) -> Result<Layout, LayoutError> {
        for (name, value) in [("id-range", id_range), ("shard-range", shard_range), ("random-range", random_range)] {
            if value > LOW_BITS {
                return Err(LayoutError::Width { name, value });
            }
        }
        let sum = id_range + shard_range + random_range;
        if sum != LOW_BITS {
            return Err(LayoutError::Sum { sum });
        }
        Ok(Layout { epoch, server_bits: id_range, shard_bits: shard_range, random_bits: random_range })
    }

    /// Returns the epoch of ticks.
    pub const fn epoch(self) -> Epoch {
        self.epoch
    }

    /// Returns the width of the server-id, `id-range`.
    pub const fn server_bits(self) -> u32 {
        self.server_bits
    }

    /// Returns the width of the shard, `shard-range`.
    pub const fn shard_bits(self) -> u32 {
        self.shard_bits
    }

    /// Returns the width of the random part, `random-range`.
    pub const fn random_bits(self) -> u32 {
        self.random_bits
    }

    /// Returns how many IDs a server can give each second without borrowing, `2^shard_bits * 1000`.
    pub const fn capacity_per_s(self) -> u64 {
        (1 << self.shard_bits) * 1000
    }

    /// Returns the smallest `shard-range` that gives `ids_per_s` without borrowing; `None` if even 21 bits do not.
    pub fn shard_range_for(ids_per_s: u64) -> Option<u32> {
        (0..=LOW_BITS).find(|bits| (1000 << bits) >= ids_per_s)
    }

    /// Returns the warning that clients draw more IDs a second than the layout holds, with a remedy; `None`: it holds
    /// them.
    pub fn shortage(self, asked_per_s: u64) -> Option<String> {
        (asked_per_s > self.capacity_per_s()).then(|| self.demand(asked_per_s))
    }

    /// Returns a sentence: the demanded IDs a second, the layout's capacity, and the sufficient `shard-range`.
    pub(crate) fn demand(self, asked_per_s: u64) -> String {
        let (capacity_per_s, remedy) = (self.capacity_per_s(), self.remedy_for(asked_per_s));
        format!("{asked_per_s} ids a second are requested, the layout holds {capacity_per_s}; {remedy}")
    }

    /// Returns the remedy for an operator whose clients draw `ids_per_s`, as one clause.
    pub fn remedy_for(self, ids_per_s: u64) -> String {
        let sum = LOW_BITS - self.server_bits();
        match Layout::shard_range_for(ids_per_s) {
            Some(shard_range) if shard_range <= self.shard_bits() => "try again in a moment".into(),
            Some(shard_range) if shard_range <= sum => format!(
                "shard-range {shard_range} would hold it; it grows at random-range's cost, which would be {}",
                sum - shard_range
            ),
            _ => "no shard-range with this id-range holds it: spread the load over more servers".into(),
        }
    }

    /// Returns the first instant an ID can carry, Unix ms: the epoch.
    pub const fn first_unix_ms(self) -> i64 {
        Tick(0).unix_ms(self.epoch)
    }

    /// Returns the last instant an ID can carry, Unix ms.
    pub const fn last_unix_ms(self) -> i64 {
        Tick::LAST.unix_ms(self.epoch)
    }

    /// Returns true if `server_id` fits `id-range`.
    pub const fn has_server(self, server_id: u32) -> bool {
        (server_id as u64) < 1 << self.server_bits
    }

    /// Returns the ID of these parts.
    ///
    /// # Panics
    ///
    /// Panics if a part does not fit its width, which is a bug of the caller: it would change another server's bits, as
    /// in the fork's IDs.
    pub fn compose(self, parts: Parts) -> Id {
        assert!(parts.tick <= Tick::LAST, "tick past the 42 bits");
        assert!(u64::from(parts.server) < 1 << self.server_bits, "server-id past id-range");
        assert!(parts.shard < 1 << self.shard_bits, "shard past shard-range");
        assert!(parts.random < 1 << self.random_bits, "random past random-range");
        Id((parts.tick.0 << LOW_BITS)
            | (u64::from(parts.server) << (LOW_BITS - self.server_bits))
            | (u64::from(parts.shard) << self.random_bits)
            | u64::from(parts.random))
    }

    /// Returns the parts of an ID. Every ID has parts under every layout, even one that it was not made with.
    pub fn split(self, id: Id) -> Parts {
        let low = (id.0 & ((1 << LOW_BITS) - 1)) as u32;
        Parts {
            tick: Tick(id.0 >> LOW_BITS),
            server: low >> (LOW_BITS - self.server_bits),
            shard: (low >> self.random_bits) & ((1 << self.shard_bits) - 1),
            random: low & ((1 << self.random_bits) - 1),
        }
    }

    /// Returns the lowest and the highest ID of any server whose tick lies in `from..=to`: for `WHERE id BETWEEN`.
    ///
    /// If `from` is after `to`, the lowest is above the highest, and `BETWEEN` finds nothing. Ticks past the 42 bits
    /// count as the last.
    pub fn span(self, from: Tick, to: Tick) -> (Id, Id) {
        let (from, to) = (from.min(Tick::LAST), to.min(Tick::LAST));
        (Id(from.0 << LOW_BITS), Id((to.0 << LOW_BITS) | ((1 << LOW_BITS) - 1)))
    }
}

impl Default for Layout {
    /// Returns the fork's layout: id-range 2, shard-range 9, random-range 10, from 2015-01-01 00:00 +08:00.
    fn default() -> Self {
        Layout { epoch: Epoch::DEFAULT, server_bits: 2, shard_bits: 9, random_bits: 10 }
    }
}

/// The parts of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Milliseconds since the epoch.
    pub tick: Tick,
    /// The server that gave the ID, `0..2^id-range`.
    pub server: u32,
    /// The counter inside the tick, `0..2^shard-range`.
    pub shard: u32,
    /// The random part, `0..2^random-range`.
    pub random: u32,
}

/// An ID: 63 bits, never negative as a BIGINT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

impl Id {
    /// Returns the ID of a number; `None` for one over 63 bits.
    pub const fn new(number: u64) -> Option<Id> {
        if number >> 63 == 0 { Some(Id(number)) } else { None }
    }

    /// Returns the ID of a number that the core made, which is never over 63 bits.
    pub(crate) const fn from_number(number: u64) -> Id {
        debug_assert!(number >> 63 == 0);
        Id(number)
    }

    /// Returns the ID as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reason why bit widths are not a valid layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// One width is over 21.
    Width {
        /// Name of the directive.
        name: &'static str,
        /// Value of the directive.
        value: u32,
    },
    /// The widths do not add up.
    Sum {
        /// The sum of the widths.
        sum: u32,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Width { name, value } => write!(f, "{name} is {value}, must be 0 to {LOW_BITS}"),
            LayoutError::Sum { sum } => {
                write!(f, "id-range + shard-range + random-range is {sum}, must be {LOW_BITS}")
            }
        }
    }
}

impl core::error::Error for LayoutError {}
