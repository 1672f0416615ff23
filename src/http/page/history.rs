//! What was given in the last ten minutes, second by second.

use std::collections::VecDeque;

use serde::Serialize;
use tokio::time::Instant;

use crate::server::Server;

/// Seconds that are kept.
const SECONDS: usize = 600;

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// IDs given in this life.
    ids: u64,
    /// Values of sequences given in this life.
    values: u64,
    /// Draws of IDs and of values that were refused in this life.
    refused: u64,
}

/// What the counters were, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    at: Instant,
    counts: Counts,
}

/// What was given in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "a unit belongs to a number's name")]
pub(super) struct Second {
    /// IDs.
    pub(super) ids_per_s: u32,
    /// Values of sequences.
    pub(super) values_per_s: u32,
    /// Draws refused.
    pub(super) refused_per_s: u32,
}

/// The last ten minutes, the oldest second first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "a unit belongs to a number's name")]
pub(super) struct Rates {
    ids_per_s: Vec<u32>,
    values_per_s: Vec<u32>,
    refused_per_s: Vec<u32>,
}

/// The last ten minutes.
#[derive(Debug)]
pub(super) struct History {
    before: Point,
    seconds: VecDeque<Second>,
}

impl Point {
    /// What the counters are now: sums that others keep, so this costs them a lock or two a second.
    pub(super) fn of(server: &Server) -> Point {
        let of_time = server.issuer().status();
        let sequences = server.generators.sequences().map(|sequences| sequences.totals()).unwrap_or_default();
        let counts = Counts {
            ids: of_time.mint.ids_issued + of_time.mint.line_ids_issued,
            values: sequences.given,
            refused: of_time.refusals + sequences.refused,
        };
        Point { at: Instant::now(), counts }
    }
}

impl History {
    /// That of what is given from this point on.
    pub(super) fn since(point: Point) -> History {
        History { before: point, seconds: VecDeque::new() }
    }

    /// Takes the next point; what was given a second since the one before.
    pub(super) fn note(&mut self, point: &Point) -> Second {
        let before = std::mem::replace(&mut self.before, *point);
        let ms = point.at.duration_since(before.at).as_millis().max(1);
        let per_s = |of: fn(&Counts) -> u64| {
            let more = u128::from(of(&point.counts).saturating_sub(of(&before.counts)));
            u32::try_from((more * 1000 + ms / 2) / ms).unwrap_or(u32::MAX)
        };
        let second = Second {
            ids_per_s: per_s(|counts| counts.ids),
            values_per_s: per_s(|counts| counts.values),
            refused_per_s: per_s(|counts| counts.refused),
        };
        if self.seconds.len() == SECONDS {
            self.seconds.pop_front();
        }
        self.seconds.push_back(second);
        second
    }

    /// The last second.
    pub(super) fn last(&self) -> Second {
        self.seconds.back().copied().unwrap_or_default()
    }

    pub(super) fn rates(&self) -> Rates {
        let all = |of: fn(&Second) -> u32| self.seconds.iter().map(of).collect();
        Rates {
            ids_per_s: all(|second| second.ids_per_s),
            values_per_s: all(|second| second.values_per_s),
            refused_per_s: all(|second| second.refused_per_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_of_the_time_that_passed_and_ten_minutes_are_kept() {
        let start = Instant::now();
        let point = |ms: u64, ids: u64, refused: u64| Point {
            at: start + Duration::from_millis(ms),
            counts: Counts { ids, values: 2 * ids, refused },
        };
        let mut history = History::since(point(0, 5_000_000, 7));
        assert_eq!(history.rates(), Rates::default());
        let second = history.note(&point(2000, 5_001_000, 8));
        assert_eq!(second, Second { ids_per_s: 500, values_per_s: 1000, refused_per_s: 1 });
        // A counter that fell, and more than a number holds.
        assert_eq!(history.note(&point(3000, 0, 0)), Second::default());
        assert_eq!(history.note(&point(4000, u64::MAX / 4, 0)).ids_per_s, u32::MAX);
        for second in 5..1000 {
            history.note(&point(second * 1000, u64::MAX / 4 + second, 0));
        }
        let rates = history.rates();
        assert_eq!((rates.ids_per_s.len(), rates.refused_per_s.len()), (SECONDS, SECONDS));
        assert!(rates.ids_per_s.iter().all(|&ids| ids <= 5), "{rates:?}");
        assert_eq!(history.last(), Second { ids_per_s: 1, values_per_s: 2, refused_per_s: 0 });
    }
}
