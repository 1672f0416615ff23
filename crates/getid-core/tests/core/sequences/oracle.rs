//! Record of all values given, by which server and for which request; and so, of the values that may not be given.

use std::collections::BTreeMap;

use getid_core::server::{Run, SequenceRequest};

/// A request of a client.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) server: usize,
    /// Number in the order of all requests.
    pub(super) arrival: u64,
    pub(super) at_ms: u64,
    pub(super) asks: Vec<SequenceRequest>,
    /// Lower bound: above all values that this server had replied when the request came.
    floor: i64,
    /// Lower bound: above all values that any server had replied.
    floor_of_all: i64,
}

/// A raise: values up to `last` count as given, for all requests from a time on.
#[derive(Clone, Copy, Debug)]
struct Raise {
    last: i64,
    server: usize,
    here_ms: u64,
    everywhere_ms: u64,
    /// Arrival of the first request after it.
    arrival: u64,
}

#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// By increment and remainder: first values, and the last ones of their ranges.
    given: BTreeMap<(i64, i64), BTreeMap<i64, i64>>,
    /// Largest value that each server has replied.
    highest_replied: Vec<i64>,
    raises: Vec<Raise>,
    /// Requests for one value: their arrivals and values, of each server.
    singles: Vec<Vec<(u64, i64)>>,
    arrivals: u64,
    /// Whether values ascend over all servers (`cache 0`).
    pub(super) is_strict: bool,
    pub(super) values: u64,
    pub(super) served: u64,
}

impl Oracle {
    pub(super) fn new(servers: usize, is_strict: bool) -> Oracle {
        Oracle { highest_replied: vec![-1; servers], singles: vec![vec![]; servers], is_strict, ..Oracle::default() }
    }

    /// Returns the largest value that any server has replied.
    pub(super) fn highest_replied(&self) -> i64 {
        self.highest_replied.iter().copied().max().unwrap_or(-1)
    }

    pub(super) fn asked(&mut self, server: usize, at_ms: u64, asks: Vec<SequenceRequest>) -> Request {
        self.arrivals += 1;
        let floor_of_all = self.highest_replied();
        Request { server, arrival: self.arrivals, at_ms, asks, floor: self.highest_replied[server], floor_of_all }
    }

    /// Records that a raise was answered.
    pub(super) fn raised(&mut self, server: usize, last: i64, now_ms: u64, confirm_ms: u64) {
        let arrival = self.arrivals + 1;
        self.raises.push(Raise { last, server, here_ms: now_ms, everywhere_ms: now_ms + confirm_ms, arrival });
    }

    /// Records that a request was served in full.
    pub(super) fn replied(&mut self, request: &Request, runs: &[Run]) {
        check_ranges(&request.asks, runs);
        let above = if self.is_strict { request.floor_of_all } else { request.floor };
        for raise in &self.raises {
            let here = raise.server == request.server && request.arrival >= raise.arrival;
            if here || request.at_ms > raise.everywhere_ms {
                let low = runs.iter().map(|run| run.first).min().unwrap_or(i64::MAX);
                assert!(low > raise.last, "{low} is below a raise: {raise:?} (since {}), {request:?}", raise.here_ms);
            }
        }
        let mut last = above;
        for run in runs {
            assert!(run.first > last, "{run:?} is not above {last}: {request:?}");
            last = run.last_of(run.times - 1);
            self.note(run, last);
            self.values += u64::from(run.values) * u64::from(run.times);
        }
        self.served += 1;
        self.highest_replied[request.server] = self.highest_replied[request.server].max(last);
        if let [SequenceRequest { values: 1, times: 1 }] = *request.asks {
            self.note_single(request, last);
        }
    }

    /// Checks that no value repeats.
    fn note(&mut self, run: &Run, last: i64) {
        let increment = i64::from(run.increment);
        let lattice = (increment, run.first % increment);
        for (other, ranges) in &self.given {
            // Other remainders of one increment interleave.
            if other.0 == increment && *other != lattice {
                continue;
            }
            let before = ranges.range(..=last).next_back();
            let is_free = before.is_none_or(|(_, &end)| end < run.first);
            assert!(is_free, "{run:?} was given before: {before:?} by steps of {other:?}");
        }
        self.given.entry(lattice).or_default().insert(run.first, last);
    }

    /// Checks that a later request gets a larger value, whether it waits or not.
    fn note_single(&mut self, request: &Request, value: i64) {
        let singles = &mut self.singles[request.server];
        let at = singles.partition_point(|(arrival, _)| *arrival < request.arrival);
        let is_between = at.checked_sub(1).is_none_or(|before| singles[before].1 < value)
            && singles.get(at).is_none_or(|after| value < after.1);
        assert!(is_between, "{value} was passed, or passed others: {request:?}");
        singles.insert(at, (request.arrival, value));
    }
}

/// Checks that each command has its own range, in the order of commands.
fn check_ranges(asks: &[SequenceRequest], runs: &[Run]) {
    let mut runs = runs.iter().copied();
    let mut run: Option<Run> = None;
    for ask in asks {
        let mut times = ask.times;
        while times > 0 {
            let of = run.take().or_else(|| runs.next()).expect("a range for each command");
            assert_eq!(of.values, ask.values, "{of:?} for {ask:?}");
            let common = of.times.min(times);
            times -= common;
            if of.times > common {
                let first = of.last_of(common - 1) + i64::from(of.increment);
                run = Some(Run { first, times: of.times - common, ..of });
            }
        }
    }
    assert!(run.is_none() && runs.next().is_none(), "more values than requested");
}
