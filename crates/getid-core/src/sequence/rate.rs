//! Rate at which values are used.
//!
//! It has three exponential averages: the weight of older use decreases with their span. They are updated on reads, so
//! that a draw only adds to a counter.

/// Spans of the averages, ms: 10 s, 5 min and 30 min.
const SPANS_MS: [u64; 3] = [10_000, 300_000, 1_800_000];

/// Shortest interval between two readings that is measured, ms.
const SAMPLE_MS_MIN: u64 = 500;

#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    used: u64,
    sampled_used: u64,
    sampled_ms: u64,
    /// When use of values was last detected.
    used_ms: u64,
    per_ms: [f32; 3],
}

impl Rate {
    pub(super) fn new(now_ms: u64) -> Rate {
        Rate { used: 0, sampled_used: 0, sampled_ms: now_ms, used_ms: now_ms, per_ms: [0.0; 3] }
    }

    #[inline]
    pub(super) fn add(&mut self, values: u64) {
        self.used += values;
    }

    /// Returns the number of values used since the rate was created.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Returns the number of values used since the averages were updated.
    pub(super) fn unsampled(&self) -> u64 {
        self.used - self.sampled_used
    }

    /// Updates the averages.
    #[expect(clippy::cast_precision_loss, reason = "averages are not exact")]
    pub(super) fn sample(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.sampled_ms);
        if passed_ms < SAMPLE_MS_MIN {
            return;
        }
        let now_per_ms = (self.used - self.sampled_used) as f32 / passed_ms as f32;
        for (per_ms, span_ms) in self.per_ms.iter_mut().zip(SPANS_MS) {
            let weight = if passed_ms >= span_ms { 1.0 } else { passed_ms as f32 / span_ms as f32 };
            *per_ms += (now_per_ms - *per_ms) * weight;
        }
        if self.used != self.sampled_used {
            self.used_ms = now_ms;
        }
        (self.sampled_used, self.sampled_ms) = (self.used, now_ms);
    }

    /// Returns how long nothing has been used, ms, by the samples.
    pub(super) fn quiet_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.used_ms)
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
