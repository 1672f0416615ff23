//! Histograms of durations. Each power of two has eight buckets, so a percentile is at most an eighth too high, and one
//! command's histogram has 2 KB.

use std::ops::RangeInclusive;

/// Number of bits after a duration's leading bit that select the bucket within its power of two.
const SUB_BITS: u32 = 3;
const SUBS: usize = 1 << SUB_BITS;

/// The last power of two with buckets of its own: 2^35 ns, 34 s. Longer durations are in the last bucket.
const LAST_OCTAVE: u32 = 35;

/// Number of buckets.
pub const BUCKETS: usize = (LAST_OCTAVE - SUB_BITS + 2) as usize * SUBS;

/// The first bound of `LATENCY HISTOGRAM` is 2^10 ns, which Redis shows as 1 us.
const FIRST_BOUND_OCTAVE: u32 = 10;

/// Returns the bucket of a duration, below [`BUCKETS`].
#[inline]
pub fn bucket_of(ns: u64) -> u16 {
    let bucket = match ns.checked_ilog2() {
        None | Some(0..SUB_BITS) => ns,
        Some(octave @ ..=LAST_OCTAVE) => {
            u64::from(octave - SUB_BITS + 1) * SUBS as u64 + (ns >> (octave - SUB_BITS)) % SUBS as u64
        }
        Some(_) => BUCKETS as u64 - 1,
    };
    u16::try_from(bucket).unwrap_or(u16::MAX)
}

/// Returns the first duration past a bucket, ns.
fn end_ns(bucket: usize) -> u64 {
    if bucket < SUBS {
        return bucket as u64 + 1;
    }
    let shift = bucket / SUBS - 1;
    ((SUBS + bucket % SUBS + 1) as u64) << shift
}

/// Counts of durations by bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Box::new([0; BUCKETS]) }
    }
}

impl Histogram {
    /// Adds `count` durations to a bucket; a bucket that does not exist means the last one.
    pub fn add(&mut self, bucket: u16, count: u64) {
        self.counts[usize::from(bucket).min(BUCKETS - 1)] += count;
    }

    /// Subtracts an earlier state of the same histogram.
    pub fn subtract(&mut self, earlier: &Histogram) {
        for (count, earlier) in self.counts.iter_mut().zip(earlier.counts.iter()) {
            *count = count.saturating_sub(*earlier);
        }
    }

    /// Returns the number of durations.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the duration that `per_mille` of 1000 durations do not exceed, ns: the end of its bucket. Returns 0 for
    /// an empty histogram.
    pub fn percentile_ns(&self, per_mille: u64) -> u64 {
        let rank = (self.total() * per_mille).div_ceil(1000).max(1);
        let mut sum = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            sum += count;
            if sum >= rank {
                return end_ns(bucket) - 1;
            }
        }
        0
    }

    /// Returns for each of these powers of two, in ns, the number of durations below it and not below the previous one.
    /// The second value is the number of durations above all of them.
    pub fn between_powers(&self, octaves: RangeInclusive<u32>) -> (Vec<(u64, u64)>, u64) {
        let mut bucket = 0;
        let bounds = octaves.map(|octave| {
            let bound_ns = 1_u64 << octave;
            let mut count = 0;
            while bucket < BUCKETS && end_ns(bucket) <= bound_ns {
                count += self.counts[bucket];
                bucket += 1;
            }
            (bound_ns, count)
        });
        let bounds = bounds.collect();
        (bounds, self.counts[bucket..].iter().sum())
    }

    /// Returns bounds in microseconds, each with the number of durations below it. The bounds are those of Redis's
    /// `LATENCY HISTOGRAM`, which are powers of two in ns. A bound without durations since the previous one is left
    /// out.
    pub fn cumulative_us(&self) -> Vec<(u64, u64)> {
        let mut bounds = Vec::new();
        let (mut bucket, mut sum, mut last) = (0, 0, 0);
        for octave in FIRST_BOUND_OCTAVE..=LAST_OCTAVE + 1 {
            let bound_ns = 1_u64 << octave;
            while bucket < BUCKETS && end_ns(bucket) <= bound_ns {
                sum += self.counts[bucket];
                bucket += 1;
            }
            if sum > last {
                // Redis shows the end of the bucket that begins at the bound, 1/128 of it wide.
                bounds.push(((bound_ns + (bound_ns >> 7) - 1) / 1000, sum));
                last = sum;
            }
        }
        bounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_the_bucket_that_ends_behind_it() {
        for ns in 0..5000 {
            assert!(bucket_of(ns + 1) - bucket_of(ns) <= 1, "no bucket is left out at {ns}");
        }
        for ns in (0..5000).chain((12..37).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let bucket = usize::from(bucket_of(ns));
            if ns < 1 << 36 {
                assert!(ns < end_ns(bucket), "{ns}");
                assert!(bucket == 0 || ns >= end_ns(bucket - 1), "{ns}");
                assert!(end_ns(bucket) - 1 <= ns + ns / 8, "{ns}");
            }
        }
        assert_eq!(usize::from(bucket_of((1 << 36) - 1)), BUCKETS - 1);
        assert_eq!(usize::from(bucket_of(u64::MAX)), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_the_ends_of_buckets() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile_ns(500), 0);
        histogram.add(bucket_of(1000), 990);
        histogram.add(bucket_of(1_000_000), 9);
        histogram.add(bucket_of(3), 1);
        assert_eq!(histogram.total(), 1000);
        assert_eq!(histogram.percentile_ns(1), 3);
        assert_eq!(histogram.percentile_ns(500), 1023);
        assert_eq!(histogram.percentile_ns(991), 1023);
        assert_eq!(histogram.percentile_ns(992), 1_048_575);
        assert_eq!(histogram.percentile_ns(1000), 1_048_575);
    }

    #[test]
    fn every_duration_is_between_two_powers_or_above_all() {
        let mut histogram = Histogram::default();
        for ns in [0, 7, 8, 9, 63, 64, 127, 128, 1 << 40] {
            histogram.add(bucket_of(ns), 1);
        }
        assert_eq!(histogram.between_powers(3..=7), (vec![(8, 2), (16, 2), (32, 0), (64, 1), (128, 2)], 2));
        assert_eq!(histogram.between_powers(2..=2), (vec![(4, 1)], 8));
    }

    #[test]
    fn bounds_are_those_of_redis() {
        let mut histogram = Histogram::default();
        for octave in 0..40 {
            histogram.add(bucket_of(1 << octave), 1);
        }
        let bounds = histogram.cumulative_us();
        let of_redis = [1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16908, 33816, 67633, 135_266];
        let shown_us: Vec<u64> = bounds.iter().map(|bound| bound.0).collect();
        assert_eq!(shown_us[..of_redis.len()], of_redis);
        assert_eq!(bounds[0].1, 10);
        assert_eq!(bounds.last().unwrap().1, 40);
        assert!(bounds.is_sorted());
    }

    #[test]
    fn only_bounds_with_new_durations_are_listed() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.cumulative_us(), []);
        histogram.add(bucket_of(1500), 3);
        histogram.add(bucket_of(100_000), 2);
        assert_eq!(histogram.cumulative_us(), [(2, 3), (132, 5)]);
        let earlier = histogram.clone();
        histogram.add(bucket_of(1500), 1);
        histogram.subtract(&earlier);
        assert_eq!(histogram.cumulative_us(), [(2, 1)]);
    }
}
