//! Events that delayed clients, for LATENCY. For each kind it keeps the last 160 seconds with an event, with the
//! longest one of each second, as in Redis.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

/// Largest number of samples kept of an event.
pub const SAMPLES_MAX: usize = 160;

/// The longest event of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySample {
    /// Time of the event, Unix seconds.
    pub unix_s: i64,
    /// Duration of the event, ms.
    pub ms: u64,
}

/// All samples of one kind of event.
#[derive(Clone, Debug, Default)]
pub struct LatencyEvent {
    samples: VecDeque<LatencySample>,
    max_ms: u64,
}

/// Statistics of an event's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencySpread {
    /// Number of samples, at least 1.
    pub samples: usize,
    /// Mean duration, ms.
    pub mean_ms: u64,
    /// Mean absolute deviation from the mean, ms.
    pub deviation_ms: u64,
    /// Mean time between samples, up to now, s.
    pub period_s: f64,
}

impl LatencyEvent {
    /// Returns the samples, oldest first; at least one.
    pub fn samples(&self) -> impl ExactSizeIterator<Item = LatencySample> {
        self.samples.iter().copied()
    }

    /// Returns the newest sample.
    pub fn latest(&self) -> Option<LatencySample> {
        self.samples.back().copied()
    }

    /// Returns the longest duration since the start, or since the reset, ms.
    pub fn max_ms(&self) -> u64 {
        self.max_ms
    }

    fn add(&mut self, sample: LatencySample) {
        self.max_ms = self.max_ms.max(sample.ms);
        if let Some(last) = self.samples.back_mut()
            && last.unix_s == sample.unix_s
        {
            last.ms = last.ms.max(sample.ms);
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Returns the statistics of the samples; `None` without samples.
    pub fn spread(&self, now_unix_s: i64) -> Option<LatencySpread> {
        let samples = self.samples.len();
        let count = u64::try_from(samples).ok().filter(|&count| count > 0)?;
        let mean_ms = self.samples.iter().map(|sample| sample.ms).sum::<u64>() / count;
        let deviation_ms = self.samples.iter().map(|sample| sample.ms.abs_diff(mean_ms)).sum::<u64>() / count;
        let first = self.samples.front()?;
        #[expect(clippy::cast_precision_loss, reason = "two decimals for people")]
        let period_s = (now_unix_s - first.unix_s).max(1) as f64 / samples as f64;
        Some(LatencySpread { samples, mean_ms, deviation_ms, period_s })
    }

    /// Draws the samples as columns of letters, each with its age written downwards below it: `LATENCY GRAPH`.
    pub fn graph(&self, name: &str, now_unix_s: i64) -> String {
        let high = self.samples.iter().map(|sample| sample.ms).max().unwrap_or(0);
        let low = self.samples.iter().map(|sample| sample.ms).min().unwrap_or(0);
        let mut graph = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(graph, "{name} - high {high} ms, low {low} ms (all time high {} ms)", self.max_ms);
        graph.push_str(&"-".repeat(COLUMNS));
        graph.push('\n');
        let columns: Vec<Column> =
            self.samples.iter().map(|sample| Column::of(sample, low, high, now_unix_s)).collect();
        for (at, part) in columns.chunks(COLUMNS).enumerate() {
            if at > 0 {
                graph.push('\n');
            }
            for row in (0..ROWS).rev() {
                push_line(&mut graph, part.iter().map(|column| column.letter(row)));
            }
            push_line(&mut graph, part.iter().map(|_| ' '));
            let longest = part.iter().map(|column| column.label.len()).max().unwrap_or(0);
            for place in 0..longest {
                push_line(&mut graph, part.iter().map(|column| column.label.chars().nth(place).unwrap_or(' ')));
            }
        }
        graph
    }
}

/// Columns of a graph before it continues below.
const COLUMNS: usize = 80;
/// Rows of a graph.
const ROWS: usize = 4;
/// Letters for the top of a column, from low to high; below it is `|`.
const TOPS: [char; 3] = ['_', 'o', '#'];

struct Column {
    step: usize,
    label: String,
}

impl Column {
    fn of(sample: &LatencySample, low: u64, high: u64, now_unix_s: i64) -> Column {
        let steps = TOPS.len() * ROWS;
        let step = (sample.ms - low) * steps as u64 / (high - low).max(1);
        let ago_s = (now_unix_s - sample.unix_s).max(0);
        let label = match ago_s {
            0..60 => format!("{ago_s}s"),
            60..3600 => format!("{}m", ago_s / 60),
            3600..86_400 => format!("{}h", ago_s / 3600),
            _ => format!("{}d", ago_s / 86_400),
        };
        Column { step: usize::try_from(step).unwrap_or(steps).min(steps - 1), label }
    }

    fn letter(&self, row: usize) -> char {
        match self.step.checked_sub(row * TOPS.len()) {
            None => ' ',
            Some(top) => TOPS.get(top).copied().unwrap_or('|'),
        }
    }
}

fn push_line(graph: &mut String, letters: impl Iterator<Item = char>) {
    graph.extend(letters);
    graph.push('\n');
}

/// All events, by name.
#[derive(Clone, Debug, Default)]
pub struct LatencyEvents {
    events: BTreeMap<&'static str, LatencyEvent>,
}

impl LatencyEvents {
    /// Adds an event of `ms` milliseconds.
    pub fn add(&mut self, name: &'static str, unix_s: i64, ms: u64) {
        self.events.entry(name).or_default().add(LatencySample { unix_s, ms });
    }

    /// Returns all events, by name.
    pub fn all(&self) -> impl ExactSizeIterator<Item = (&'static str, &LatencyEvent)> {
        self.events.iter().map(|(name, event)| (*name, event))
    }

    /// Returns the event of this name. Letter case matters, as in Redis.
    pub fn get(&self, name: &[u8]) -> Option<(&'static str, &LatencyEvent)> {
        self.all().find(|(known, _)| known.as_bytes() == name)
    }

    /// Deletes the events of these names, or all without names. Returns the number of deleted events.
    pub fn reset(&mut self, names: &[Vec<u8>]) -> usize {
        let before = self.events.len();
        self.events.retain(|name, _| !names.is_empty() && !names.iter().any(|other| other == name.as_bytes()));
        before - self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(samples: &[(i64, u64)]) -> LatencyEvents {
        let mut events = LatencyEvents::default();
        for &(unix_s, ms) in samples {
            events.add("draw-wait", unix_s, ms);
        }
        events
    }

    fn samples(events: &LatencyEvents) -> Vec<(i64, u64)> {
        let (_, event) = events.get(b"draw-wait").unwrap();
        event.samples().map(|sample| (sample.unix_s, sample.ms)).collect()
    }

    #[test]
    fn a_second_keeps_its_longest_event() {
        let events = events(&[(10, 5), (10, 7), (10, 6), (11, 1)]);
        assert_eq!(samples(&events), [(10, 7), (11, 1)]);
        assert_eq!(events.get(b"draw-wait").unwrap().1.max_ms(), 7);
        assert_eq!(events.get(b"draw-wait").unwrap().1.latest(), Some(LatencySample { unix_s: 11, ms: 1 }));
        assert!(events.get(b"DRAW-WAIT").is_none());
    }

    #[test]
    fn the_last_160_samples_and_the_maximum_are_kept() {
        let many: Vec<(i64, u64)> = (0..200_i64).map(|at| (at, 1000 - at.unsigned_abs())).collect();
        let events = events(&many);
        assert_eq!(samples(&events), many[40..]);
        assert_eq!(events.get(b"draw-wait").unwrap().1.max_ms(), 1000);
    }

    #[test]
    fn reset_returns_the_number_of_deleted_events() {
        let mut events = events(&[(1, 1)]);
        events.add("command", 1, 1);
        assert_eq!(events.reset(&[b"nothing".to_vec(), b"command".to_vec(), b"command".to_vec()]), 1);
        assert_eq!(events.all().len(), 1);
        assert_eq!(events.reset(&[]), 1);
        assert_eq!(events.reset(&[]), 0);
    }

    #[test]
    fn the_spread_of_samples() {
        let events = events(&[(100, 10), (110, 20), (120, 60)]);
        let spread = events.get(b"draw-wait").unwrap().1.spread(130).unwrap();
        assert_eq!(spread, LatencySpread { samples: 3, mean_ms: 30, deviation_ms: 20, period_s: 10.0 });
        assert_eq!(LatencyEvent::default().spread(1), None);
    }

    #[test]
    fn the_graph_is_that_of_redis() {
        let events = events(&[(0, 100), (86_000, 205), (86_390, 150), (86_400, 310)]);
        let graph = events.get(b"draw-wait").unwrap().1.graph("draw-wait", 86_400);
        let mut expected = String::from("draw-wait - high 310 ms, low 100 ms (all time high 310 ms)\n");
        expected += &"-".repeat(80);
        // Steps 0, 6, 2 and 11 of 0 to 11, three to a row.
        expected += "\n   #\n _ |\n | |\n_|#|\n    \n1610\ndm0s\n  s \n";
        assert_eq!(graph, expected);
    }
}
