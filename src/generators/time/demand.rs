//! How many IDs a second are asked for. Pure.
//!
//! IDs that were given do not tell: at the borrow limit they are what the layout holds, whatever clients want. So those
//! that were refused count too, and those that are still waited for. It is the demand of the last second and of no
//! earlier one: a burst that is over is no reason to warn anybody.

/// The window, in samples: a second at ten samples a second.
const SAMPLES: usize = 10;

const SECOND_NS: u64 = 1_000_000_000;

/// IDs asked for in the last second, sample by sample.
#[derive(Clone, Debug)]
pub struct Demand {
    /// When, and how many had been given or refused by then.
    samples: [(u64, u64); SAMPLES],
    oldest: usize,
    settled_per_s: u64,
    queued: u64,
}

impl Demand {
    /// Nothing was asked for before `now_ns`.
    pub fn new(now_ns: u64) -> Demand {
        Demand { samples: [(now_ns, 0); SAMPLES], oldest: 0, settled_per_s: 0, queued: 0 }
    }

    /// Notes how many IDs have been given or refused since the start, and how many are waited for now.
    pub fn sample(&mut self, now_ns: u64, settled: u64, queued: u64) {
        self.settled_per_s = self.at(now_ns, settled, 0);
        self.queued = queued;
        self.samples[self.oldest] = (now_ns, settled);
        self.oldest = (self.oldest + 1) % SAMPLES;
    }

    /// IDs a second asked for, were this the next sample.
    pub fn at(&self, now_ns: u64, settled: u64, queued: u64) -> u64 {
        let (then_ns, then_settled) = self.samples[self.oldest];
        // A start or a hasty keeper must not make a rate out of a few ms.
        let elapsed_ns = now_ns.saturating_sub(then_ns).max(SECOND_NS);
        let settled = u128::from(settled.saturating_sub(then_settled)) * u128::from(SECOND_NS) / u128::from(elapsed_ns);
        u64::try_from(settled).unwrap_or(u64::MAX).saturating_add(queued)
    }

    /// IDs asked for in the second before the last sample.
    pub fn per_s(&self) -> u64 {
        self.settled_per_s.saturating_add(self.queued)
    }

    /// Those of them that were given or refused.
    pub fn settled_per_s(&self) -> u64 {
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
