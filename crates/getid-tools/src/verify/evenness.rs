//! Checks whether IDs spread evenly over `id % modulus`.
//!
//! The promise: any 2^random-range consecutive IDs of a server carry every random value once. So for a modulus that
//! divides 2^random-range there are two tests.
//!
//! - Exact. In a window of 2^random-range over a server's ascending IDs, no random value comes twice. This test applies
//!   if the run got every ID of the server.
//! - Chi-square, otherwise: other clients drew too, or the server was restarted, so the run saw a sample. For df =
//!   modulus - 1 the bound is `df + 2 sqrt(df x) + 2 x` with x = 40, which a chi-square variable exceeds with a
//!   probability below e^-40 (Laurent and Massart 2000, lemma 1). It needs 10 IDs for each residue.
//!
//! A layout with fresh random lowest bits in each ID promises a sample of even ones: only chi-square judges it. Other
//! moduli and layouts have no such promise, so they are reported and not judged.

use serde::Serialize;

use getid_core::Number;

use super::{EvennessPromise, Promises};

/// Largest number of residues that are counted; above it the table would be larger than useful.
pub const MODULUS_MAX: u32 = 1 << 21;

/// IDs for each residue that chi-square needs.
const IDS_PER_RESIDUE_MIN: f64 = 10.0;

/// The exponent of a false alarm's probability.
const ALARM_EXPONENT: f64 = 40.0;

/// Counts the residues of one server's IDs, which arrive in ascending order.
#[derive(Clone, Debug)]
pub(super) struct Evenness {
    promise: EvennessPromise,
    modulus: u32,
    counts: Vec<u64>,
    ids: u64,
    /// For each value of a cycle, the number of IDs when it was last seen; 0 if never.
    last_seen: Vec<u64>,
    /// Number of values that were repeated within the window.
    repeats: u64,
}

impl Evenness {
    /// Returns counters for a modulus of 1 to [`MODULUS_MAX`].
    pub(super) fn new(promises: &Promises, modulus: u32) -> Evenness {
        let modulus = modulus.clamp(1, MODULUS_MAX);
        let promise = promises.evenness();
        let values = if let EvennessPromise::Cycle(bits) = promise { 1_usize << bits } else { 0 };
        Evenness { promise, modulus, counts: vec![0; modulus as usize], ids: 0, last_seen: vec![0; values], repeats: 0 }
    }

    /// Counts the next larger ID.
    pub(super) fn add(&mut self, id: Number) {
        self.ids += 1;
        // 64 bits are divided far faster.
        let residue = match u64::try_from(id) {
            Ok(id) => id % u64::from(self.modulus),
            Err(_) => u64::try_from(id % Number::from(self.modulus)).unwrap_or(0),
        };
        if let Some(count) = usize::try_from(residue).ok().and_then(|residue| self.counts.get_mut(residue)) {
            *count += 1;
        }
        let window = self.last_seen.len() as u64;
        // A mask of at most 21 bits.
        let value = usize::try_from(id.as_u64() & window.saturating_sub(1)).unwrap_or(0);
        if let Some(last) = self.last_seen.get_mut(value) {
            if *last != 0 && self.ids - *last < window {
                self.repeats += 1;
            }
            *last = self.ids;
        }
    }

    /// Returns the verdict. With `exclusive` the run got every ID, so the promise is judged exactly.
    pub(super) fn verdict(&self, exclusive: bool) -> EvennessVerdict {
        let is_cycle = matches!(self.promise, EvennessPromise::Cycle(_));
        let promised = match self.promise {
            EvennessPromise::Cycle(bits) | EvennessPromise::Chance(bits) => {
                self.modulus.is_power_of_two() && self.modulus.trailing_zeros() <= bits
            }
            EvennessPromise::No => false,
        };
        let exact = is_cycle && self.repeats == 0;
        let (chi_square, chi_square_max) = (self.chi_square(), self.chi_square_max());
        let enough = to_f64(self.ids) >= IDS_PER_RESIDUE_MIN * f64::from(self.modulus);
        let even = if !promised {
            None
        } else if exact {
            Some(true)
        } else if exclusive && is_cycle {
            Some(false)
        } else if enough {
            Some(chi_square <= chi_square_max)
        } else {
            None
        };
        EvennessVerdict {
            modulus: self.modulus,
            promise: self.promise,
            promised,
            even,
            exact,
            count_min: self.counts.iter().min().copied().unwrap_or(0),
            count_max: self.counts.iter().max().copied().unwrap_or(0),
            chi_square,
            chi_square_max,
        }
    }

    fn chi_square(&self) -> f64 {
        if self.ids == 0 {
            return 0.0;
        }
        let expected = to_f64(self.ids) / f64::from(self.modulus);
        self.counts.iter().map(|&count| (to_f64(count) - expected).powi(2) / expected).sum()
    }

    fn chi_square_max(&self) -> f64 {
        let df = f64::from(self.modulus - 1);
        df + 2.0 * (df * ALARM_EXPONENT).sqrt() + 2.0 * ALARM_EXPONENT
    }
}

/// Verdict on the evenness of one server's IDs over `id % modulus`.
#[derive(Clone, Debug, Serialize)]
pub struct EvennessVerdict {
    /// Modulus, 1 to [`MODULUS_MAX`].
    pub modulus: u32,
    #[serde(skip)]
    promise: EvennessPromise,
    /// Whether the layout promises evenness over the modulus.
    pub promised: bool,
    /// The verdict; `None` without a promise, or with too few IDs.
    pub even: Option<bool>,
    /// Whether each 2^random-range IDs in a row carried every random value once.
    pub exact: bool,
    pub(crate) count_min: u64,
    /// Number of IDs with the most frequent residue.
    pub count_max: u64,
    pub(crate) chi_square: f64,
    pub(crate) chi_square_max: f64,
}

impl std::fmt::Display for EvennessVerdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let EvennessVerdict {
            modulus,
            promise,
            promised,
            even,
            exact,
            count_min,
            count_max,
            chi_square,
            chi_square_max,
        } = self;
        write!(f, "id % {modulus}: each residue {count_min} to {count_max} times; ")?;
        match (even, exact) {
            (None, _) if !promised => match promise {
                EvennessPromise::Cycle(_) => write!(f, "not judged, for {modulus} does not divide 2^random-range"),
                EvennessPromise::Chance(bits) => write!(f, "not judged, for {modulus} does not divide 2^{bits}"),
                EvennessPromise::No => f.write_str("not judged, for nothing random is in the lowest bits"),
            },
            (None, _) => f.write_str("too few ids to judge"),
            (Some(true), true) => f.write_str("exactly even"),
            (Some(even), _) => {
                let word = if *even { "even" } else { "uneven" };
                write!(f, "{word}, chi-square {chi_square:.0} of at most {chi_square_max:.0}")
            }
        }
    }
}

/// Converts a count. Counts are far below 2^53, so the result is exact.
#[expect(clippy::cast_precision_loss, reason = "counts of IDs are far below 2^53")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Subject;
    use getid_core::{Layout, Parts, Tick, no_dates};

    /// Returns the verdict on IDs with these random values, one a tick.
    fn verdict(modulus: u32, exclusive: bool, values: impl Iterator<Item = u32>) -> EvennessVerdict {
        let layout = Layout::default();
        let mut evenness = Evenness::new(&Promises::of(Subject::Unnamed(layout)).unwrap(), modulus);
        for (tick, random) in (0..).zip(values) {
            evenness.add(layout.compose(Parts { tick: Tick(tick), server: 1, shard: 0, random }).get().into());
        }
        evenness.verdict(exclusive)
    }

    /// Returns a permutation of 0..1024, repeated forever.
    fn cycle() -> impl Iterator<Item = u32> {
        (0_u32..).map(|i| (i.wrapping_mul(389) + 17) % 1024)
    }

    /// Returns pseudorandom numbers (splitmix64).
    fn noise() -> impl Iterator<Item = u32> {
        (1_u64..).map(|i| {
            let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z >> 50) as u32 % 1024
        })
    }

    #[test]
    fn a_cycle_is_exactly_even_from_the_first_id_on() {
        for len in [0, 1, 1023, 1024, 100_000] {
            for modulus in [1, 2, 64, 1024] {
                let verdict = verdict(modulus, true, cycle().take(len));
                assert_eq!((verdict.even, verdict.exact), (Some(true), true), "{len} {modulus}");
            }
        }
    }

    #[test]
    fn samples_and_independent_values_pass_unless_the_run_is_exclusive() {
        for values in [
            Box::new(noise().take(200_000)) as Box<dyn Iterator<Item = u32>>,
            // Two in three, irregularly, as another client leaves them.
            Box::new(cycle().zip(noise()).filter(|(_, n)| n % 3 != 0).map(|(v, _)| v).take(200_000)),
        ] {
            let values: Vec<u32> = values.collect();
            let shared = verdict(1024, false, values.iter().copied());
            assert_eq!((shared.even, shared.exact), (Some(true), false), "{shared}");
            assert_eq!(verdict(1024, true, values.into_iter()).even, Some(false));
        }
    }

    #[test]
    fn skew_is_caught() {
        // One residue is twice as frequent as the others.
        let skewed = verdict(1024, false, noise().map(|v| if v == 7 { 8 } else { v }).take(400_000));
        assert_eq!(skewed.even, Some(false), "{skewed}");
        // The random part counts slots instead of IDs, so only two values come.
        let two = verdict(1024, false, (0..20_000).map(|i| i % 2 * 512));
        assert_eq!(two.even, Some(false), "{two}");
        assert!(two.to_string().contains("uneven"), "{two}");
    }

    #[test]
    fn what_is_not_promised_is_not_judged() {
        assert_eq!(verdict(1000, true, (0..100_000).map(|_| 5)).even, None);
        assert_eq!(verdict(2048, true, cycle().take(100_000)).even, None);
        assert_eq!(verdict(1024, false, noise().take(1000)).even, None);
    }

    /// Returns the verdict on a declaration's IDs, one for each of these lowest 10 bits.
    fn declared(words: &str, values: impl Iterator<Item = u32>) -> EvennessVerdict {
        let promises = Promises::of(Subject::parse(words, no_dates, |_| Ok(())).unwrap()).unwrap();
        let mut evenness = Evenness::new(&promises, 1024);
        for (number, value) in (1_u64..).zip(values) {
            evenness.add(Number::from(number) << 100 | Number::from(value));
        }
        evenness.verdict(true)
    }

    #[test]
    fn what_is_promised_depends_on_the_lowest_bits() {
        // Random bits: a sample is even, and need not be exactly even.
        let chance = declared("uuid7", noise().take(200_000));
        assert_eq!((chance.even, chance.exact), (Some(true), false), "{chance}");
        assert_eq!(declared("uuid7", noise().map(|v| v & !1).take(200_000)).even, Some(false));
        // A counter promises nothing.
        let counted = declared("twitter", (0..200_000).map(|_| 0));
        assert_eq!(counted.even, None);
        assert!(counted.to_string().ends_with("not judged, for nothing random is in the lowest bits"), "{counted}");
        let cycle = declared("layout time:41@1ms server-id:4 counter:8 random:10", cycle().take(5000));
        assert_eq!((cycle.even, cycle.exact), (Some(true), true), "{cycle}");
    }
}
