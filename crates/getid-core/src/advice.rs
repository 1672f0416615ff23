//! Advice about a layout before use: how evenly its IDs spread over tables, and which layout suits a load.
//!
//! Rows are often put into one of `n` tables by `id % n`. A layout whose lowest bits are a counter fills few of them
//! while IDs are rare: the counter is 0 in nearly all of them. A random field, or a counter that begins at a random
//! value, makes it even; and the odd part of `n` is made even by the time, which passes through all remainders.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::fields::{FieldLayout, INTEGER_BITS_MAX, Role};
use crate::layout::LOW_BITS;
use crate::number::low_bits_64;
use crate::time::{Epoch, UtcMs};

/// Largest `n` of `id % n` for which evenness is computed.
pub const MODULUS_MAX: u64 = 1 << 20;

/// Largest number of servers in a proposal, which is the number of server-ids.
pub const SERVERS_MAX: u64 = 1 << LOW_BITS;

/// Highest rate in a proposal, IDs a second.
pub const IDS_PER_S_MAX: u64 = 1_000_000_000;

/// Smallest width of the time field in a proposal, in bits of milliseconds: such IDs end in 2084.
const TIME_BITS_MIN: u32 = 41;
/// Largest width of the time field in a proposal, as in the unnamed generator: such IDs end in 2154.
const TIME_BITS_MAX: u32 = 42;

/// IDs in a unit above which the variation of their number from unit to unit is negligible.
const MANY_IN_A_UNIT: f64 = 500.0;

/// How evenly the IDs of one server spread over `id % modulus`, in the long run.
#[derive(Clone, Debug, PartialEq)]
pub struct Evenness {
    /// The `n` of `id % n`.
    pub modulus: u64,
    /// Number of remainders that IDs have, `1..=modulus`.
    pub reached: u64,
    /// Load of the fullest remainder, as a multiple of an even load: 1 or more.
    pub fullest: f64,
    /// Load of the emptiest remainder, as a fraction of an even load: 0 to 1.
    pub emptiest: f64,
    /// Names of fields among the lowest bits that are equal in all IDs of a server, or come with the request.
    pub same: Vec<String>,
}

impl Evenness {
    /// Returns true if each remainder's load is within 5 % of an even load.
    pub fn is_even(&self) -> bool {
        self.fullest <= 1.05 && self.emptiest >= 0.95
    }
}

impl fmt::Display for Evenness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_even() {
            return f.write_str("even");
        }
        let Evenness { modulus, reached, fullest, emptiest, same } = self;
        if reached < modulus {
            write!(f, "{reached} of {modulus} remainders have IDs")?;
        } else {
            write!(f, "the emptiest remainder has {emptiest:.2} of its share")?;
        }
        write!(f, ", the fullest has {fullest:.2} times its share")?;
        match same.as_slice() {
            [] => Ok(()),
            [field] => write!(f, "; '{field}' is equal in all of a server's IDs"),
            fields => write!(f, "; '{}' are equal in all of a server's IDs", fields.join("', '")),
        }
    }
}

/// Returns how evenly the IDs of one server spread over `id % modulus` at `ids_per_s`, at random times. A unit's
/// counter begins at a random value of `0..=counter_start`.
///
///  `modulus` is clamped to 1 to [`MODULUS_MAX`]. A rate that is not a number, or negative, counts as 0.
pub fn evenness(layout: &FieldLayout, counter_start: u64, ids_per_s: f64, modulus: u64) -> Evenness {
    let modulus = modulus.clamp(1, MODULUS_MAX);
    // Time makes the odd part of the modulus even. Only these bits of an ID decide about the rest.
    let decisive = modulus.trailing_zeros();
    let (mut fixed_bits, mut same) = (0, Vec::new());
    let mut counter_bits = 0;
    for (field, shift) in layout.places().filter(|&(_, shift)| shift < decisive) {
        let bits = field.bits.min(decisive - shift);
        match field.role {
            Role::Time | Role::Random | Role::Noise => {}
            Role::Counter => counter_bits = bits,
            Role::Constant(_) | Role::Server | Role::Drawn | Role::Request => {
                fixed_bits += bits;
                same.push(field.name.clone());
            }
        }
    }
    // Bits above all fields are 0.
    fixed_bits += decisive.saturating_sub(layout.bits());
    let shares = counter_shares(layout, counter_start, ids_per_s, counter_bits);
    // A sum that should be 0 leaves a smaller rounding error.
    let counters_reached = shares.iter().filter(|&&share| share > 1e-9).count() as u64;
    let (fewest, most) = shares.iter().fold((f64::MAX, 0.0_f64), |(min, max), &share| (min.min(share), max.max(share)));
    Evenness {
        modulus,
        reached: (modulus >> (fixed_bits + counter_bits)) * counters_reached,
        fullest: most * exact(1 << fixed_bits),
        emptiest: if fixed_bits > 0 { 0.0 } else { fewest.max(0.0) },
        same,
    }
}

/// Returns the load of each value of the counter's lowest `bits`; 1 is an even load.
fn counter_shares(layout: &FieldLayout, counter_start: u64, ids_per_s: f64, bits: u32) -> Vec<f64> {
    let values = 1_usize << bits;
    let per_unit = ids_per_s.max(0.0) * exact(layout.unit().ns()) / 1e9;
    let mut shares = vec![0.0; values];
    if per_unit > MANY_IN_A_UNIT {
        // A full unit overflows into the next one.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "501 to 2^63")]
        let ids = per_unit.min(exact(1 << layout.counter_bits())) as usize;
        for (value, share) in shares.iter_mut().enumerate() {
            *share = exact((ids / values + usize::from(value < ids % values)) as u64) / exact(ids as u64);
        }
    } else {
        for (index, share) in shares_by_index(per_unit).into_iter().enumerate() {
            shares[index % values] += share;
        }
    }
    // The mean over all starts: whole rounds of the values are even, and the rest is a sliding window.
    let starts = u128::from(counter_start) + 1;
    let left = (starts % values as u128) as usize;
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let (rounds, starts) = ((starts / values as u128) as f64, starts as f64);
    let mut window: f64 = (0..left).map(|back| shares[(values - back) % values]).sum();
    let mut loads = Vec::with_capacity(values);
    for value in 0..values {
        loads.push((rounds + window) / starts * exact(values as u64));
        let next = value + 1;
        window += shares[next % values] - shares[(values + next - left) % values];
    }
    loads
}

/// Returns the share of IDs that are the first, the second, ... of their unit, for `per_unit` IDs on average that
/// arrive at random (Poisson).
fn shares_by_index(per_unit: f64) -> Vec<f64> {
    // Probability of a unit with `index + 1` IDs, divided by the mean. The sum from an index on is its share.
    let mut likely = vec![exp_of_minus(per_unit)];
    let mut count = 1.0;
    while let Some(&last) = likely.last() {
        count += 1.0;
        let next = last * per_unit / count;
        if count > per_unit && next < f64::EPSILON * f64::EPSILON {
            break;
        }
        likely.push(next);
    }
    let mut sum = 0.0;
    for share in likely.iter_mut().rev() {
        sum += *share;
        *share = sum;
    }
    likely
}

/// Returns `e` to the power of `-x`, for 0 to [`MANY_IN_A_UNIT`]: `core` has no `exp`.
fn exp_of_minus(x: f64) -> f64 {
    const HALVINGS: u32 = 10;
    let small = x / exact(1 << HALVINGS);
    let (mut sum, mut term) = (1.0, 1.0);
    for n in 1..20_u32 {
        term *= -small / f64::from(n);
        sum += term;
    }
    (0..HALVINGS).fold(sum, |power, _| power * power)
}

/// Converts a number to a float; only counts above 2^53 lose digits.
#[expect(clippy::cast_precision_loss, reason = "shares need no more")]
fn exact(number: u64) -> f64 {
    number as f64
}

/// Number of tables for which [`QuietEvenness`] is computed by default.
const TABLES: u64 = 1024;

/// How evenly a generator spreads its IDs over `id % n` while it gives few of them: less than one in a unit of time.
///
/// A counter is then at its start in nearly all IDs. So if it has the lowest bits, the IDs are even only with a
/// `counter-start`. `Display` is a clause.
///
/// ```
/// use getid_core::{Declaration, QuietEvenness, no_dates};
///
/// let tweets = Declaration::parse(&["tweets", "twitter"], no_dates).expect("a kind of the table");
/// let evenness = QuietEvenness::of(tweets.layout(), tweets.counter_start(), None);
/// assert_eq!(evenness.to_string(), "even with counter-start 0..1023");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuietEvenness {
    /// Largest power of two `n` for which `id % n` is even, at most `tables`.
    pub even_to: u64,
    /// The power of two up to which `id % n` has to be even.
    pub tables: u64,
    /// The option that makes `id % n` even for a larger power of two.
    pub remedy: Option<CounterStart>,
    /// Field of the lowest bits, if no option makes `id % n` even up to `tables`: it is equal in all of a server's IDs.
    pub same: Option<String>,
}

/// The option `counter-start 0..last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterStart {
    /// Highest start of the counter.
    pub last: u64,
    /// Largest power of two `n` for which `id % n` is even with the option.
    pub even_to: u64,
}

impl QuietEvenness {
    /// Computes the evenness over `id % modulus`, by default over up to 1,024 tables. A unit's counter begins at a
    /// random value of `0..=counter_start`.
    pub fn of(layout: &FieldLayout, counter_start: u64, modulus: Option<u64>) -> QuietEvenness {
        // Time makes the odd part of the modulus even.
        let decisive = modulus.unwrap_or(TABLES).clamp(1, MODULUS_MAX).trailing_zeros();
        let (now, _) = even_bits(layout, counter_start, decisive);
        let (most, same) = even_bits(layout, u64::MAX, decisive);
        let below_counter = layout.shift_of(Role::Counter).unwrap_or(0);
        // Bits above the counter are those of the time.
        let counted = most.saturating_sub(below_counter).min(layout.counter_bits());
        let remedy = CounterStart { last: low_bits_64(counted), even_to: 1 << most };
        QuietEvenness {
            even_to: 1 << now,
            tables: 1 << decisive,
            remedy: (most > now).then_some(remedy),
            same: same.map(str::to_owned),
        }
    }

    /// Returns true if the option `counter-start` is not needed, or does not help.
    pub fn is_even(&self) -> bool {
        self.even_to == self.tables
    }
}

impl fmt::Display for QuietEvenness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QuietEvenness { even_to, tables, remedy, same } = self;
        if self.is_even() {
            return f.write_str("even");
        }
        match (even_to, remedy) {
            (1, None) => f.write_str("uneven")?,
            (1, Some(_)) => {}
            (even_to, _) => write!(f, "even up to id % {even_to}")?,
        }
        if let Some(CounterStart { last, even_to: to }) = remedy {
            let comma = if *even_to > 1 { ", " } else { "" };
            write!(f, "{comma}even with counter-start 0..{last}")?;
            if to < tables {
                write!(f, " up to id % {to}")?;
            }
        }
        same.iter().try_for_each(|field| write!(f, "; '{field}' is equal in all of a server's IDs"))
    }
}

/// Returns how many of the lowest `decisive` bits are even together in a quiet generator, and the first field that is
/// not.
fn even_bits(layout: &FieldLayout, counter_start: u64, decisive: u32) -> (u32, Option<&str>) {
    let mut even = 0;
    for (field, _) in layout.places().rev().take_while(|&(_, shift)| shift < decisive) {
        let bits = field.bits.min(decisive - even);
        match field.role {
            Role::Time | Role::Random | Role::Noise => even += bits,
            Role::Counter => {
                let starts = u128::from(counter_start.min(low_bits_64(field.bits))) + 1;
                let counted = (0..=bits).rev().find(|&bits| is_even_over(starts, bits)).unwrap_or(0);
                even += counted;
                if counted < bits {
                    return (even, None);
                }
            }
            Role::Constant(_) | Role::Server | Role::Drawn | Role::Request => return (even, Some(&field.name)),
        }
    }
    (even, None)
}

/// Returns true if `0..starts`, modulo 2^bits, has each value within 5 % of an even share.
fn is_even_over(starts: u128, bits: u32) -> bool {
    let most = starts.div_ceil(1 << bits) << bits;
    let fewest = starts >> bits << bits;
    most * 20 <= starts * 21 && fewest * 20 >= starts * 19
}

/// A layout for a load, with the reasons for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The words to declare: `layout time:42@1ms server-id:5 counter:6 random:10`.
    pub words: String,
    /// A sentence for each field.
    pub reasons: Vec<String>,
}

/// Error: no layout of 63 bits suits the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoProposal {
    /// Number of bits that the servers need.
    pub server_bits: u32,
    /// Number of bits that the counter needs, if each server gives at most twice its part of the IDs.
    pub counter_bits: u32,
}

impl fmt::Display for NoProposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoProposal { server_bits, counter_bits } = self;
        write!(
            f,
            "no layout of {INTEGER_BITS_MAX} bits holds it: the servers need {server_bits} bits, the counter \
             {counter_bits}, the time {TIME_BITS_MIN}; ask for fewer servers, fewer IDs a second or fewer tables"
        )
    }
}

impl core::error::Error for NoProposal {}

/// Proposes a layout for `servers` servers that give `ids_per_s` together, with IDs even over `id % modulus`. A modulus
/// of 1 means no tables.
///
/// Numbers out of range are clamped: to 1 to [`SERVERS_MAX`], [`IDS_PER_S_MAX`] and [`MODULUS_MAX`].
///
/// ```
/// // 20 servers, 100,000 IDs a second, 64 tables.
/// let proposal = getid_core::propose(20, 100_000, 64)?;
/// assert!(proposal.words.starts_with("layout time:"), "{}", proposal.words);
/// # Ok::<(), getid_core::NoProposal>(())
/// ```
///
/// # Errors
///
/// Fails if 63 bits do not suffice, with the number of bits that the load needs.
pub fn propose(servers: u64, ids_per_s: u64, modulus: u64) -> Result<Proposal, NoProposal> {
    let servers = servers.clamp(1, SERVERS_MAX);
    let ids_per_s = ids_per_s.clamp(1, IDS_PER_S_MAX);
    let modulus = modulus.clamp(1, MODULUS_MAX);
    let server_bits = bits_for(servers);
    let table_bits = if modulus.is_multiple_of(2) { bits_for(modulus) } else { 0 };
    // Width for the whole load on each server; where that is too much, for twice a server's part.
    let alone = bits_for(ids_per_s.div_ceil(1000));
    let part = bits_for((2 * ids_per_s).div_ceil(1000 * servers)).min(alone);
    for rate_bits in [alone, part] {
        let with_start = if table_bits > 0 { table_bits.max(rate_bits + 1) } else { rate_bits };
        for (counter_bits, random_bits) in [(rate_bits, table_bits), (with_start, 0)] {
            let time_bits = INTEGER_BITS_MAX.saturating_sub(server_bits + counter_bits + random_bits);
            if time_bits >= TIME_BITS_MIN {
                let widths =
                    Widths { server: server_bits, counter: counter_bits, random: random_bits, tables: table_bits };
                return Ok(widths.proposal(servers, ids_per_s, modulus));
            }
        }
    }
    Err(NoProposal { server_bits, counter_bits: if table_bits > 0 { table_bits.max(part + 1) } else { part } })
}

/// Returns the number of bits that hold `values` values.
fn bits_for(values: u64) -> u32 {
    values.max(1).next_power_of_two().trailing_zeros()
}

struct Widths {
    server: u32,
    counter: u32,
    random: u32,
    /// Number of an ID's lowest bits that decide about its table; 0: the time alone makes the IDs even.
    tables: u32,
}

impl Widths {
    fn proposal(&self, servers: u64, ids_per_s: u64, modulus: u64) -> Proposal {
        let Widths { server: server_bits, counter: counter_bits, random: random_bits, tables: table_bits } = *self;
        let time_bits = (INTEGER_BITS_MAX - server_bits - counter_bits - random_bits).min(TIME_BITS_MAX);
        let mut words = vec![format!("layout time:{time_bits}@1ms")];
        for (name, bits) in [("server-id", server_bits), ("counter", counter_bits), ("random", random_bits)] {
            if bits > 0 {
                words.push(format!("{name}:{bits}"));
            }
        }
        let end = Epoch::DEFAULT.unix_ms().cast_signed() + (1 << time_bits);
        let mut reasons = vec![format!("time:{time_bits}@1ms lasts from 2015 to {}", UtcMs(end))];
        if server_bits > 0 {
            let ids = 1_u64 << server_bits;
            reasons.push(format!(
                "server-id:{server_bits} has room for {ids} servers; id-range may be at most {server_bits}"
            ));
        } else {
            words.push("one-server 0".to_string());
            reasons.push("one-server 0: without a server-id only that server gives these IDs".to_string());
        }
        let capacity = 1000_u64 << counter_bits;
        let whose = if capacity >= ids_per_s {
            "so that one server holds the whole load".to_string()
        } else {
            format!("about twice a server's part of {ids_per_s}, if the load is spread over all {servers}")
        };
        let what =
            if counter_bits > 0 { format!("counter:{counter_bits}") } else { "time without a counter".to_string() };
        reasons.push(format!("{what} gives {capacity} IDs a second on each server, {whose}"));
        if random_bits > 0 {
            let values = 1_u64 << random_bits;
            reasons.push(format!(
                "random:{random_bits} makes id % {modulus} even: any {values} IDs in a row have each of its values once"
            ));
        } else if table_bits > 0 {
            let last = (1_u64 << table_bits) - 1;
            words.push(format!("counter-start 0..{last}"));
            reasons.push(format!(
                "counter-start 0..{last} makes id % {modulus} even, by chance: there is no room for a random field"
            ));
        } else if modulus > 1 {
            reasons.push(format!("id % {modulus} is even without more: {modulus} is odd, and the time sees to it"));
        }
        Proposal { words: words.join(" "), reasons }
    }
}
