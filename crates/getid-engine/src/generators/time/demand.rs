//! Demand for IDs per second. Pure.
//!
//! The number of given IDs is not the demand: at the borrow limit it is the layout's capacity, whatever clients
//! request. So refused IDs count too, and those still waited for. The demand is that of the last second only: a past
//! burst is no reason for a warning.

/// Length of the window in samples: a second at ten samples a second.
const SAMPLES: usize = 10;

const SECOND_NS: u64 = 1_000_000_000;

/// Number of IDs requested in the last second, by sample.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Time of each sample, and number of IDs given or refused by then.
    samples: [(u64, u64); SAMPLES],
    oldest: usize,
    settled_per_s: u64,
    queued: u64,
}

impl Demand {
    /// Makes a demand without requests before `now_ns`.
    pub fn new(now_ns: u64) -> Demand {
        Demand { samples: [(now_ns, 0); SAMPLES], oldest: 0, settled_per_s: 0, queued: 0 }
    }

    /// Notes the number of IDs given or refused since the start, and of those waited for now.
    pub fn sample(&mut self, now_ns: u64, settled: u64, queued: u64) {
        self.settled_per_s = self.at(now_ns, settled, 0);
        self.queued = queued;
        self.samples[self.oldest] = (now_ns, settled);
        self.oldest = (self.oldest + 1) % SAMPLES;
    }

    /// Returns the IDs requested per second, if this were the next sample.
    pub fn at(&self, now_ns: u64, settled: u64, queued: u64) -> u64 {
        let (then_ns, then_settled) = self.samples[self.oldest];
        // A few ms, at a start or after an early sample, must not give a rate.
        let elapsed_ns = now_ns.saturating_sub(then_ns).max(SECOND_NS);
        let settled = u128::from(settled.saturating_sub(then_settled)) * u128::from(SECOND_NS) / u128::from(elapsed_ns);
        u64::try_from(settled).unwrap_or(u64::MAX).saturating_add(queued)
    }

    /// Returns the IDs requested in the second before the last sample.
    pub fn per_s(&self) -> u64 {
        self.settled_per_s.saturating_add(self.queued)
    }

    /// Returns the IDs given or refused in the second before the last sample.
    pub(crate) fn settled_per_s(&self) -> u64 {
        self.settled_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_refused_and_waited_for_in_the_last_second() {
        let mut demand = Demand::new(0);
        let mut settled = 0;
        for step in 1..=30 {
            settled += 50_000;
            demand.sample(step * SECOND_NS / 10, settled, 0);
        }
        assert_eq!(demand.per_s(), 500_000);
        demand.sample(31 * SECOND_NS / 10, settled + 50_000, 70_000);
        assert_eq!(demand.per_s(), 570_000);
        // Ten samples later none of it is left.
        for step in 32..=42 {
            demand.sample(step * SECOND_NS / 10, settled + 50_000, 0);
        }
        assert_eq!(demand.per_s(), 0);
    }

    #[test]
    fn a_few_ms_make_no_rate() {
        let mut demand = Demand::new(0);
        demand.sample(1_000_000, 1000, 0);
        assert_eq!(demand.per_s(), 1000);
        assert_eq!(demand.at(2_000_000, 2000, 5), 2005);
    }
}
