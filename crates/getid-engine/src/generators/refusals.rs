//! Decides when refused draws are logged: at their begin, once a minute while they last, and at their end.
//!
//! A refusing server may get a million requests a second, and one at the borrow limit may begin and end refusing as
//! often. So refusals less than [`QUIET_MS`] apart are one run.
//!
//! Invariant: at most two lines in any [`QUIET_MS`], whatever the requests.

/// Time without a refusal after which a run has ended, ms.
const QUIET_MS: u64 = 2000;

/// Time between two lines about a lasting run, ms.
const EVERY_MS: u64 = 60_000;

/// Follows refusals from sample to sample.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    /// Number of refused draws since the start, at the last sample.
    counted: u64,
    run: Option<RefusalRun>,
    was_standby: bool,
}

/// A run of refusals that has not ended.
#[derive(Clone, Copy, Debug)]
struct RefusalRun {
    since_ms: u64,
    /// Time of the last refusal seen, ms.
    last_ms: u64,
    /// Time of the last logged line, ms.
    logged_ms: u64,
    /// Number of refused draws before the run.
    before: u64,
}

/// A line to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusalNews {
    /// Draws are refused from now on.
    Begun,
    /// Draws are still refused.
    Lasting {
        /// Draws refused since the begin of the run.
        refused: u64,
        /// Time since the begin of the run, ms.
        for_ms: u64,
    },
    /// Draws are served again.
    Over {
        /// Draws refused in the whole run.
        refused: u64,
        /// Duration of the run, ms.
        for_ms: u64,
    },
}

impl Refusals {
    /// Excludes refusals of a standby, including those between the last sample and its takeover. `refused` is the
    /// number of all refused draws. If a server loses its claim, its run of refusals ends without a line, because it
    /// does not give IDs again.
    pub(crate) fn leave_out_standby(&mut self, refused: u64, is_standby: bool) {
        if is_standby {
            self.run = None;
        }
        if std::mem::replace(&mut self.was_standby, is_standby) || is_standby {
            self.counted = refused;
        }
    }

    /// Records the number of all refused draws, and whether a draw at `now_ms` would be refused. `now_ms` must not
    /// decrease. Returns the line to log, if there is one.
    pub(super) fn sample(&mut self, now_ms: u64, refused: u64, is_refusing: bool) -> Option<RefusalNews> {
        let is_refused = is_refusing || refused > self.counted;
        let before = std::mem::replace(&mut self.counted, refused);
        let Some(run) = &mut self.run else {
            if is_refused {
                self.run = Some(RefusalRun { since_ms: now_ms, last_ms: now_ms, logged_ms: now_ms, before });
                return Some(RefusalNews::Begun);
            }
            return None;
        };
        if is_refused {
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
    fn refusals_of_a_standby_are_left_out() {
        let mut refusals = Refusals::default();
        let mut sample = |now_ms: u64, refused: u64, is_refusing: bool, is_standby: bool| {
            refusals.leave_out_standby(refused, is_standby);
            refusals.sample(now_ms, refused, is_refusing)
        };
        for now_ms in [0, 100, 200] {
            assert_eq!(sample(now_ms, 10 + now_ms, false, true), None);
        }
        assert_eq!(sample(300, 250, false, false), None, "refused after the last sample as a standby");
        assert_eq!(sample(400, 251, true, false), Some(RefusalNews::Begun));
        assert_eq!(sample(500, 260, false, true), None, "the claim was lost");
        assert_eq!(sample(500 + 2 * QUIET_MS, 260, false, true), None, "it does not give IDs again");
    }

    /// Samples ten times a second from `from_ms` on. Returns each line with its time.
    fn play(
        refusals: &mut Refusals,
        from_ms: u64,
        to_ms: u64,
        refused: impl Fn(u64) -> u64,
        is_refusing: impl Fn(u64) -> bool,
    ) -> Vec<(u64, RefusalNews)> {
        let times = (from_ms..to_ms).step_by(100);
        times.filter_map(|now| Some((now, refusals.sample(now, refused(now), is_refusing(now))?))).collect()
    }

    #[test]
    fn a_run_begins_is_logged_every_minute_and_ends_once() {
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
    fn refusals_without_requests_are_logged_too() {
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
