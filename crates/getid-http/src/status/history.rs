//! History of IDs and values: ten minutes by seconds, a day by minutes, and ten minutes of each generator.
//!
//! All of it is lost with the process, and bounded: 7 KB of seconds, 23 KB of minutes, and 300 bytes of steps for each
//! of at most 1,001 generators.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;

use crate::schema::UNNAMED;
use getid_server::Server;

/// Seconds that are kept.
const SECONDS: usize = 600;

/// Minutes that are kept: a day.
const MINUTES: usize = 24 * 60;

/// Points in a minute.
pub(super) const POINTS_OF_MINUTE: u32 = 60;

/// Points in a step of a generator's chart.
pub(super) const POINTS_OF_STEP: u32 = 10;

/// Steps of a generator's chart: ten minutes.
pub(super) const STEPS: usize = 60;

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IssueCounts {
    /// IDs given in this life.
    ids: u64,
    /// Values of sequences given in this life.
    values: u64,
    /// Draws of IDs and of values that were refused in this life.
    refused: u64,
}

/// The counters at a point in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct HistoryPoint {
    at: Instant,
    counts: IssueCounts,
}

/// Rates of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[expect(clippy::struct_field_names, reason = "a unit belongs to a number's name")]
pub(super) struct SecondRates {
    /// IDs, of all generators by the clock.
    pub(super) ids_per_s: u32,
    /// Values of sequences.
    pub(super) values_per_s: u32,
    /// Requests for IDs or values that were refused.
    pub(super) refused_per_s: u32,
}

/// The last ten minutes, the oldest second first.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[expect(clippy::struct_field_names, reason = "a unit belongs to a number's name")]
pub(super) struct RecentRates {
    /// IDs, of all generators by the clock.
    #[schemars(length(max = SECONDS))]
    ids_per_s: Vec<u32>,
    /// Values of sequences.
    #[schemars(length(max = SECONDS))]
    values_per_s: Vec<u32>,
    /// Requests for IDs or values that were refused.
    #[schemars(length(max = SECONDS))]
    refused_per_s: Vec<u32>,
}

/// Rates and refusals of one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MinuteRates {
    ids_per_s: u32,
    ids_per_s_max: u32,
    values_per_s: u32,
    refused: u32,
}

/// The last day, the oldest minute first.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub(super) struct DayHistory {
    /// IDs a second, the mean of each minute.
    #[schemars(length(max = MINUTES))]
    ids_per_s: Vec<u32>,
    /// The most IDs of a second of each minute.
    #[schemars(length(max = MINUTES))]
    ids_per_s_max: Vec<u32>,
    /// Values of sequences a second, the mean of each minute.
    #[schemars(length(max = MINUTES))]
    values_per_s: Vec<u32>,
    /// Requests for IDs or values that were refused in each minute.
    #[schemars(length(max = MINUTES))]
    refused: Vec<u32>,
}

/// The last ten minutes, and the last day.
#[derive(Debug)]
pub(super) struct History {
    before: HistoryPoint,
    seconds: VecDeque<SecondRates>,
    /// Interval between points.
    step: Duration,
    /// The point at which the current minute began.
    minute_began: HistoryPoint,
    /// The most IDs in a second of the current minute.
    minute_max: u32,
    minutes: VecDeque<MinuteRates>,
}

/// IDs and values of each generator in the last ten minutes.
#[derive(Debug, Default)]
pub(super) struct GeneratorCharts(BTreeMap<String, GeneratorChart>);

#[derive(Debug, Default)]
struct GeneratorChart {
    given: u64,
    steps: VecDeque<u32>,
}

impl HistoryPoint {
    /// Reads the counters. They are sums that the issuer and the sequences keep, so this takes a lock or two a second.
    pub(super) fn of(server: &Server) -> HistoryPoint {
        let of_time = server.issuer().status();
        let sequences = server.generators.sequences().map(|sequences| sequences.totals()).unwrap_or_default();
        let counts = IssueCounts {
            ids: of_time.mint.ids_issued + of_time.mint.line_ids_issued,
            values: sequences.given,
            refused: of_time.refusals + sequences.refused,
        };
        HistoryPoint { at: Instant::now(), counts }
    }

    /// Returns the rates since an earlier point.
    fn per_s_since(&self, before: &HistoryPoint) -> SecondRates {
        let ms = self.at.duration_since(before.at).as_millis().max(1);
        let per_s = |of: fn(&IssueCounts) -> u64| {
            let more = u128::from(of(&self.counts).saturating_sub(of(&before.counts)));
            u32::try_from((more * 1000 + ms / 2) / ms).unwrap_or(u32::MAX)
        };
        SecondRates {
            ids_per_s: per_s(|counts| counts.ids),
            values_per_s: per_s(|counts| counts.values),
            refused_per_s: per_s(|counts| counts.refused),
        }
    }
}

/// Appends an element, and drops the oldest beyond `len_max`.
fn push<T>(all: &mut VecDeque<T>, newest: T, len_max: usize) {
    if all.len() == len_max {
        all.pop_front();
    }
    all.push_back(newest);
}

impl GeneratorCharts {
    /// Adds a step from each generator's counter in this life. A generator that is missing loses its chart.
    pub(super) fn note(&mut self, given: BTreeMap<String, u64>) {
        self.0.retain(|name, _| given.contains_key(name));
        for (name, given) in given {
            let chart = self.0.entry(name).or_insert_with(|| GeneratorChart { given, steps: VecDeque::new() });
            let more = given.saturating_sub(std::mem::replace(&mut chart.given, given));
            push(&mut chart.steps, u32::try_from(more).unwrap_or(u32::MAX), STEPS);
        }
    }

    /// Returns the steps of a generator, the oldest first; empty for a name without a chart.
    pub(super) fn of(&self, name: &str) -> Vec<u32> {
        self.0.get(name).map(|chart| chart.steps.iter().copied().collect()).unwrap_or_default()
    }

    /// Returns each generator's counter in this life.
    pub(super) fn given(server: &Server) -> BTreeMap<String, u64> {
        let mut given = BTreeMap::from([(UNNAMED.to_owned(), server.issuer().status().mint.ids_issued)]);
        let named = server.named_generators();
        given.extend(named.iter().map(|own| (own.generator.declaration().name().to_owned(), own.issued)));
        for counter in server.settings.get().counters.iter() {
            let used = server.generators.counter_status(counter.name()).map_or(0, |(_, status)| status.used);
            given.insert(counter.name().to_owned(), used);
        }
        given
    }
}

impl History {
    /// Returns an empty history that begins at this point.
    pub(super) fn since(point: HistoryPoint, step: Duration) -> History {
        History {
            before: point,
            seconds: VecDeque::new(),
            step,
            minute_began: point,
            minute_max: 0,
            minutes: VecDeque::new(),
        }
    }

    /// Adds the next point; returns the rates since the point before.
    pub(super) fn note(&mut self, point: &HistoryPoint) -> SecondRates {
        let second = point.per_s_since(&std::mem::replace(&mut self.before, *point));
        push(&mut self.seconds, second, SECONDS);
        self.minute_max = self.minute_max.max(second.ids_per_s);
        if point.at.duration_since(self.minute_began.at) >= self.step * POINTS_OF_MINUTE {
            let began = std::mem::replace(&mut self.minute_began, *point);
            let SecondRates { ids_per_s, values_per_s, .. } = point.per_s_since(&began);
            let refused = point.counts.refused.saturating_sub(began.counts.refused);
            let minute = MinuteRates {
                ids_per_s,
                ids_per_s_max: std::mem::take(&mut self.minute_max),
                values_per_s,
                refused: u32::try_from(refused).unwrap_or(u32::MAX),
            };
            push(&mut self.minutes, minute, MINUTES);
        }
        second
    }

    /// Returns the complete minutes of the last day.
    pub(super) fn day(&self) -> DayHistory {
        let all = |of: fn(&MinuteRates) -> u32| self.minutes.iter().map(of).collect();
        DayHistory {
            ids_per_s: all(|minute| minute.ids_per_s),
            ids_per_s_max: all(|minute| minute.ids_per_s_max),
            values_per_s: all(|minute| minute.values_per_s),
            refused: all(|minute| minute.refused),
        }
    }

    /// Returns the last second.
    pub(super) fn last(&self) -> SecondRates {
        self.seconds.back().copied().unwrap_or_default()
    }

    pub(super) fn rates(&self) -> RecentRates {
        let all = |of: fn(&SecondRates) -> u32| self.seconds.iter().map(of).collect();
        RecentRates {
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
        let point = |ms: u64, ids: u64, refused: u64| HistoryPoint {
            at: start + Duration::from_millis(ms),
            counts: IssueCounts { ids, values: 2 * ids, refused },
        };
        let mut history = History::since(point(0, 5_000_000, 7), Duration::from_secs(1));
        assert_eq!(history.rates(), RecentRates::default());
        let second = history.note(&point(2000, 5_001_000, 8));
        assert_eq!(second, SecondRates { ids_per_s: 500, values_per_s: 1000, refused_per_s: 1 });
        // A counter that fell, and one beyond the bound of a number.
        assert_eq!(history.note(&point(3000, 0, 0)), SecondRates::default());
        assert_eq!(history.note(&point(4000, u64::MAX / 4, 0)).ids_per_s, u32::MAX);
        for second in 5..1000 {
            history.note(&point(second * 1000, u64::MAX / 4 + second, 0));
        }
        let rates = history.rates();
        assert_eq!((rates.ids_per_s.len(), rates.refused_per_s.len()), (SECONDS, SECONDS));
        assert!(rates.ids_per_s.iter().all(|&ids| ids <= 5), "{rates:?}");
        assert_eq!(history.last(), SecondRates { ids_per_s: 1, values_per_s: 2, refused_per_s: 0 });
    }

    #[test]
    fn a_day_is_kept_by_the_minute_with_its_peaks_and_refusals() {
        let start = Instant::now();
        let point = |s: u64, ids: u64, refused: u64| HistoryPoint {
            at: start + Duration::from_secs(s),
            counts: IssueCounts { ids, values: 2 * ids, refused },
        };
        let mut history = History::since(point(0, 0, 0), Duration::from_secs(1));
        for s in 1..60 {
            history.note(&point(s, if s < 30 { 0 } else { 600 }, s));
        }
        assert_eq!(history.day(), DayHistory::default(), "the first minute is not over");
        history.note(&point(60, 600, 60));
        let day = history.day();
        assert_eq!(
            (day.ids_per_s, day.ids_per_s_max, day.values_per_s, day.refused),
            (vec![10], vec![600], vec![20], vec![60])
        );
        for minute in 2..2000 {
            history.note(&point(60 * minute, 600, 60));
        }
        assert_eq!((history.day().ids_per_s.len(), history.day().ids_per_s[0]), (MINUTES, 0));
    }

    #[test]
    fn a_chart_has_steps_of_each_generator_that_is_still_there() {
        let mut charts = GeneratorCharts::default();
        let given = |all: &[(&str, u64)]| all.iter().map(|(name, given)| ((*name).to_owned(), *given)).collect();
        charts.note(given(&[("-", 1000), ("tweets", 5)]));
        charts.note(given(&[("-", 1500), ("tweets", 2)]));
        assert_eq!((charts.of("-"), charts.of("tweets")), (vec![0, 500], vec![0, 0]));
        for step in 0..100 {
            charts.note(given(&[("-", 1500 + step)]));
        }
        assert_eq!((charts.of("-").len(), charts.of("-")[59], charts.of("tweets")), (STEPS, 1, vec![]));
    }
}
