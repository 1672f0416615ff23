//! When refused draws are worth a log line: when they begin, once a minute while they last, and when they end.
//!
//! A server that refuses may be asked a million times a second, and one that refuses every now and then (at the borrow
//! limit) would begin and end as often. So one run of refusals is what lies less than [`QUIET_MS`] apart.
//!
//! Invariant: two lines at most in any [`QUIET_MS`], however requests come.

/// Refusals are over when there was none for this long, ms.
const QUIET_MS: u64 = 2000;

/// While they last, one line in this time, ms.
const EVERY_MS: u64 = 60_000;

/// Follows refusals from sample to sample.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// Draws refused since the start, as of the last sample.
    counted: u64,
    run: Option<Run>,
    was_standby: bool,
}

/// A run of refusals that is not over.
#[derive(Clone, Copy, Debug)]
struct Run {
    since_ms: u64,
    /// When a refusal was last seen.
    last_ms: u64,
    /// When a line was last logged.
    logged_ms: u64,
    /// Draws refused before the run.
    before: u64,
}

/// What to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalNews {
    /// Draws are refused from now on.
    Begun,
    /// Draws are still refused.
    Lasting {
        /// Draws refused since it began.
        refused: u64,
        /// How long ago it began, ms.
        for_ms: u64,
    },
    /// Draws are served again.
    Over {
        /// Draws refused in all that time.
        refused: u64,
        /// How long it lasted, ms.
        for_ms: u64,
    },
}

impl Refusals {
    /// What a standby refuses is not worth a line, and neither is what it refused between a sample and its takeover.
    /// `refused`: draws in all. A server that has lost its claim gives no IDs again: its run of refusals ends untold.
    pub fn leave_out_standby(&mut self, refused: u64, is_standby: bool) {
        if is_standby {
            self.run = None;
        }
        if std::mem::replace(&mut self.was_standby, is_standby) || is_standby {
            self.counted = refused;
        }
    }

    /// Takes in how many draws were refused in all, and whether one would be `refusing` at `now_ms`, a time that never
    /// goes back.
    pub fn sample(&mut self, now_ms: u64, refused: u64, refusing: bool) -> Option<RefusalNews> {
        let seen = refusing || refused > self.counted;
        let before = std::mem::replace(&mut self.counted, refused);
        let Some(run) = &mut self.run else {
            if seen {
                self.run = Some(Run { since_ms: now_ms, last_ms: now_ms, logged_ms: now_ms, before });
                return Some(RefusalNews::Begun);
            }
            return None;
        };
        if seen {
            run.last_ms = now_ms;
            if now_ms.saturating_sub(run.logged_ms) < EVERY_MS {
                return None;
            }
            run.logged_ms = now_ms;
            let for_ms = now_ms.saturating_sub(run.since_ms);
            return Some(RefusalNews::Lasting { refused: refused.saturating_sub(run.before), for_ms });
        }
        if now_ms.saturating_sub(run.last_ms) < QUIET_MS {
            return None;
        }
        let news = RefusalNews::Over {
            refused: refused.saturating_sub(run.before),
            for_ms: run.last_ms.saturating_sub(run.since_ms),
        };
        self.run = None;
        Some(news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_standby_refuses_is_left_out() {
        let mut refusals = Refusals::default();
        let mut sample = |now_ms: u64, refused: u64, refusing: bool, is_standby: bool| {
            refusals.leave_out_standby(refused, is_standby);
            refusals.sample(now_ms, refused, refusing)
        };
        for now_ms in [0, 100, 200] {
            assert_eq!(sample(now_ms, 10 + now_ms, false, true), None);
        }
        assert_eq!(sample(300, 250, false, false), None, "refused after the last sample as a standby");
        assert_eq!(sample(400, 251, true, false), Some(RefusalNews::Begun));
        assert_eq!(sample(500, 260, false, true), None, "the claim was lost");
        assert_eq!(sample(500 + 2 * QUIET_MS, 260, false, true), None, "it does not give IDs again");
    }

    /// Samples ten times a second from `from_ms` on; says at what time there was which news.
    fn play(
        refusals: &mut Refusals,
        from_ms: u64,
        to_ms: u64,
        refused: impl Fn(u64) -> u64,
        refusing: impl Fn(u64) -> bool,
    ) -> Vec<(u64, RefusalNews)> {
        let times = (from_ms..to_ms).step_by(100);
        times.filter_map(|now| Some((now, refusals.sample(now, refused(now), refusing(now))?))).collect()
    }

    #[test]
    fn a_run_begins_is_told_every_minute_and_ends_once() {
        let broken = |now: u64| (10_000..150_000).contains(&now);
        // Ten draws a second.
        let refused = |now: u64| now.clamp(10_000, 150_000) / 100 - 100;
        let news = play(&mut Refusals::default(), 0, 200_000, refused, broken);
        assert_eq!(
            news,
            [
                (10_000, RefusalNews::Begun),
                (70_000, RefusalNews::Lasting { refused: 600, for_ms: 60_000 }),
                (130_000, RefusalNews::Lasting { refused: 1200, for_ms: 120_000 }),
                (152_000, RefusalNews::Over { refused: 1400, for_ms: 140_000 }),
            ]
        );
    }

    #[test]
    fn refusals_that_nobody_meets_are_told_too() {
        let news = play(&mut Refusals::default(), 0, 20_000, |_| 0, |now| (1000..5000).contains(&now));
        assert_eq!(news, [(1000, RefusalNews::Begun), (6900, RefusalNews::Over { refused: 0, for_ms: 3900 })]);
    }

    #[test]
    fn a_single_draw_between_two_samples_is_seen() {
        let news = play(&mut Refusals::default(), 0, 20_000, |now| u64::from(now >= 3000), |_| false);
        assert_eq!(news, [(3000, RefusalNews::Begun), (5000, RefusalNews::Over { refused: 1, for_ms: 0 })]);
    }

    #[test]
    fn refusals_that_come_and_go_are_one_run() {
        let news = play(&mut Refusals::default(), 0, 61_000, |now| now / 1000, |now| now / 500 % 2 == 0);
        assert_eq!(news, [(0, RefusalNews::Begun), (60_000, RefusalNews::Lasting { refused: 60, for_ms: 60_000 })]);
    }
}
