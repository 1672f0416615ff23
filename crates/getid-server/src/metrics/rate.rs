//! The rate at which a counter grows.

use std::sync::Mutex;

/// Number of samples in a rate.
const RATE_SAMPLES: usize = 16;

/// The mean rate over the last 16 samples, as `instantaneous_ops_per_sec` is defined in Redis.
#[derive(Debug, Default)]
pub struct Rate {
    samples: Mutex<RateSamples>,
}

#[derive(Debug, Default)]
struct RateSamples {
    per_s: [u64; RATE_SAMPLES],
    next: usize,
    last_total: u64,
}

impl Rate {
    /// Adds a sample: the counter is at `total`, `elapsed_ms` after the last sample.
    pub fn sample(&self, total: u64, elapsed_ms: u64) {
        let Ok(mut samples) = self.samples.lock() else { return };
        let per_s = total.saturating_sub(samples.last_total) * 1000 / elapsed_ms.max(1);
        samples.last_total = total;
        let next = samples.next;
        samples.per_s[next] = per_s;
        samples.next = (next + 1) % RATE_SAMPLES;
    }

    /// Clears the samples, but keeps the last counter value.
    pub(super) fn reset(&self) {
        if let Ok(mut samples) = self.samples.lock() {
            samples.per_s = [0; RATE_SAMPLES];
        }
    }

    /// Returns the mean of the samples, per second.
    pub fn per_s(&self) -> u64 {
        self.samples.lock().map_or(0, |samples| samples.per_s.iter().sum::<u64>() / RATE_SAMPLES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_a_mean_that_fades() {
        let rate = Rate::default();
        let mut total = 0;
        for _ in 0..RATE_SAMPLES {
            total += 500;
            rate.sample(total, 100);
        }
        assert_eq!(rate.per_s(), 5000);
        for _ in 0..RATE_SAMPLES {
            rate.sample(total, 100);
        }
        assert_eq!(rate.per_s(), 0);
    }
}
