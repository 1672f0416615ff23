//! Rate at which values are used.
//!
//! It has three exponential averages: the weight of older use decreases with their span. They are updated on reads, so
//! that a draw only adds to a counter.

/// Spans of the averages, ms: 10 s, 5 min and 30 min.
const SPANS_MS: [u64; 3] = [10_000, 300_000, 1_800_000];

/// Shortest interval between two readings that is measured, ms.
const SAMPLE_MS_MIN: u64 = 500;

/// Times are the low bits of milliseconds: they count for 49 days, and a sample is taken at least each minute.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Rate {
    used: u64,
    /// Number of values used since the last sample, at most `u32::MAX`: far more than a fetch may reserve.
    unsampled: u32,
    sampled_ms: u32,
    /// When use of values was last detected.
    used_ms: u32,
    per_ms: [f32; 3],
}

/// Longest time by which a reading of the clock may be older than the one before, ms: threads use theirs in any order.
const OUT_OF_ORDER_MS: u32 = 60_000;

/// Returns the low bits of a time.
#[expect(clippy::cast_possible_truncation, reason = "differences of low bits are differences of times")]
fn low(now_ms: u64) -> u32 {
    now_ms as u32
}

/// Returns the time since `then_ms`; 0 for a reading that is older.
fn passed_ms(now_ms: u64, then_ms: u32) -> u64 {
    let passed_ms = low(now_ms).wrapping_sub(then_ms);
    if passed_ms > u32::MAX - OUT_OF_ORDER_MS { 0 } else { passed_ms.into() }
}

impl Rate {
    pub(super) fn new(now_ms: u64) -> Rate {
        Rate { used: 0, unsampled: 0, sampled_ms: low(now_ms), used_ms: low(now_ms), per_ms: [0.0; 3] }
    }

    #[inline]
    pub(super) fn add(&mut self, values: u64) {
        self.used += values;
        self.unsampled = self.unsampled.saturating_add(u32::try_from(values).unwrap_or(u32::MAX));
    }

    /// Returns the number of values used since the rate was created.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Returns the number of values used since the averages were updated.
    pub(super) fn unsampled(&self) -> u64 {
        self.unsampled.into()
    }

    /// Updates the averages.
    #[expect(clippy::cast_precision_loss, reason = "averages are not exact")]
    pub(super) fn sample(&mut self, now_ms: u64) {
        let passed_ms = passed_ms(now_ms, self.sampled_ms);
        if passed_ms < SAMPLE_MS_MIN {
            return;
        }
        let now_per_ms = self.unsampled as f32 / passed_ms as f32;
        for (per_ms, span_ms) in self.per_ms.iter_mut().zip(SPANS_MS) {
            let weight = if passed_ms >= span_ms { 1.0 } else { passed_ms as f32 / span_ms as f32 };
            *per_ms += (now_per_ms - *per_ms) * weight;
        }
        if self.unsampled > 0 {
            self.used_ms = low(now_ms);
        }
        (self.unsampled, self.sampled_ms) = (0, low(now_ms));
    }

    /// Returns how long nothing has been used, ms, by the samples.
    pub(super) fn quiet_ms(&self, now_ms: u64) -> u64 {
        passed_ms(now_ms, self.used_ms)
    }

    /// Returns values a second over 10 s, 5 min and 30 min.
    pub(super) fn per_s(&self) -> [f64; 3] {
        self.per_ms.map(|per_ms| f64::from(per_ms) * 1000.0)
    }

    /// Returns a forecast of the values used in the next `ms` milliseconds. The first 10 s count at the rate of the
    /// last 10 s, the rest at the average of the last 5 minutes, if that is lower. So a burst of seconds does not
    /// reserve values for minutes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a rate is not negative, an average is not exact, and casts saturate"
    )]
    pub(super) fn values_in(&self, ms: u64) -> u64 {
        let [now, lately, _] = self.per_ms.map(f64::from);
        let soon_ms = ms.min(SPANS_MS[0]);
        (now * soon_ms as f64 + now.min(lately) * (ms - soon_ms) as f64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Rate;

    #[test]
    fn times_are_differences_across_the_end_of_the_low_bits_and_out_of_order() {
        let begin_ms = (1 << 32) - 1_500;
        let mut rate = Rate::new(begin_ms);
        rate.add(2_000);
        rate.sample(begin_ms + 2_000);
        assert_eq!((rate.quiet_ms(begin_ms + 2_000), rate.quiet_ms(begin_ms + 602_000)), (0, 600_000));
        // Another thread has read the clock a moment before, and comes later.
        let before = rate.per_s();
        rate.sample(begin_ms + 1_999);
        assert_eq!((rate.per_s(), rate.quiet_ms(begin_ms + 1_999)), (before, 0));
        assert!((190.0..=210.0).contains(&before[0]), "{before:?}");
    }

    #[test]
    fn more_values_than_a_sample_holds_count_as_its_most() {
        let mut rate = Rate::new(0);
        rate.add(u64::from(u32::MAX));
        rate.add(1 << 40);
        assert_eq!((rate.used(), rate.unsampled()), (u64::from(u32::MAX) + (1 << 40), u32::MAX.into()));
    }
}
