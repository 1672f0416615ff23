//! Sequences, step by step.

use getid_core::server::{
    Fetch, FetchVerdict, Fetched, Key, Run, Segment, Sequence, SequencePolicy, SequenceRefusal, SequenceRequest, Spec,
    VALUE_MAX, WaitPolicy,
};

const POLICY: SequencePolicy = SequencePolicy { ride_out_ms: 10_000, waits: WaitPolicy::Wait };

fn ones(times: u32) -> SequenceRequest {
    SequenceRequest { values: 1, times }
}

fn reserved(first: i64, last: i64, cache: u32) -> Fetched {
    let segment = Segment { first, last, increment: 1 };
    let spec = Spec { cache, ..Spec::default() };
    Fetched::Reserved { store: 0, segment, version: 1, generation: 1, spec, end: None }
}

/// Returns the results of serving: for each payload its values, or the refusal.
fn serve(sequence: &mut Sequence<u32>, now_ms: u64) -> Vec<(u32, Result<Vec<i64>, SequenceRefusal>)> {
    let mut served = Vec::new();
    sequence.serve(now_ms, &mut |who, result| served.push((who, result.map(|runs| values(&runs)))));
    served
}

/// Returns the last value of each command.
fn values(runs: &[Run]) -> Vec<i64> {
    runs.iter().flat_map(|run| (0..run.times).map(|nth| run.last_of(nth))).collect()
}

/// Returns a sequence with `first` to `last` in memory.
fn holding(first: i64, last: i64) -> Sequence<u32> {
    let mut sequence = Sequence::new(0);
    sequence.join(vec![ones(1)], 0);
    assert_eq!(sequence.begin_fetch(0, &POLICY), Some(Fetch { values: 1, floor: 0 }));
    assert_eq!(sequence.fetched(5, reserved(first - 1, last, 100)), FetchVerdict::Yes);
    assert_eq!(serve(&mut sequence, 5), [(0, Ok(vec![first - 1]))]);
    sequence
}

#[test]
pub(crate) fn values_come_out_of_memory_in_order() {
    let mut sequence = holding(2, 10);
    let mut runs = Vec::new();
    assert_eq!(sequence.draw(0, ones(3), &mut runs), 0);
    assert_eq!(sequence.draw(0, SequenceRequest { values: 4, times: 1 }, &mut runs), 0);
    assert_eq!(sequence.draw(0, ones(5), &mut runs), 3);
    assert_eq!(values(&runs), [2, 3, 4, 8, 9, 10]);
    assert_eq!(sequence.last_given(), Some(10));
}

#[test]
pub(crate) fn a_range_over_two_segments_is_taken_only_if_they_adjoin() {
    for (second, expected) in [(11, vec![12, 13]), (21, vec![23, 24])] {
        let mut sequence = holding(2, 10);
        let mut runs = Vec::new();
        assert_eq!(sequence.draw(0, ones(7), &mut runs), 0);
        assert!(sequence.wants_fetch(10), "two of ten are left");
        sequence.begin_fetch(10, &POLICY).expect("a fetch");
        assert_eq!(sequence.fetched(15, reserved(second, second + 9, 100)), FetchVerdict::Yes);
        runs.clear();
        // 9, 10 are left of the first.
        assert_eq!(
            sequence.draw(0, SequenceRequest { values: if second == 11 { 4 } else { 3 }, times: 1 }, &mut runs),
            0
        );
        assert_eq!(sequence.draw(0, ones(1), &mut runs), 0);
        assert_eq!(values(&runs), expected);
    }
}

#[test]
pub(crate) fn with_cache_0_a_fetch_is_for_draws_that_came_before_it() {
    let mut sequence = Sequence::new(0);
    sequence.join(vec![ones(2)], 1);
    assert_eq!(sequence.begin_fetch(0, &POLICY), Some(Fetch { values: 2, floor: 0 }));
    sequence.join(vec![ones(1)], 2);
    sequence.fetched(5, reserved(1, 2, 0));
    assert_eq!(serve(&mut sequence, 5), [(1, Ok(vec![1, 2]))]);
    assert!(sequence.wants_fetch(5));
    assert_eq!(sequence.begin_fetch(5, &POLICY), Some(Fetch { values: 1, floor: 3 }));
    // More than needed: the rest is discarded.
    sequence.fetched(6, reserved(3, 9, 0));
    sequence.join(vec![ones(1)], 3);
    assert_eq!(serve(&mut sequence, 6), [(2, Ok(vec![3]))]);
    assert!(!sequence.holds_values());
}

#[test]
pub(crate) fn after_a_failure_it_pauses_and_asks_for_no_more_than_what_waits() {
    let mut sequence = holding(2, 1000);
    let mut runs = Vec::new();
    assert_eq!(sequence.draw(0, ones(999), &mut runs), 0);
    sequence.join(vec![ones(7)], 1);
    assert!(sequence.begin_fetch(6, &POLICY).is_some_and(|fetch| fetch.values > 7));
    let mut now_ms = 10;
    for pause_ms in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
        sequence.fetched(now_ms, Fetched::Failed { is_unknown: true, reason: "it hangs".into() });
        assert_eq!(sequence.retry_at_ms(), Some(now_ms + pause_ms));
        assert!(!sequence.wants_fetch(now_ms + pause_ms - 1));
        now_ms += pause_ms;
        assert_eq!(sequence.begin_fetch(now_ms, &POLICY), Some(Fetch { values: 100, floor: 1001 }));
    }
    assert_eq!(sequence.may_wait(now_ms, &POLICY, &[ones(1)]), Err(SequenceRefusal::Store("it hangs".into())));
    // Values that the lost fetches may have reserved are skipped.
    sequence.fetched(now_ms, reserved(5000, 5099, 100));
    assert_eq!(serve(&mut sequence, now_ms), [(1, Ok((5000..5007).collect()))]);
    assert_eq!(sequence.may_wait(now_ms, &POLICY, &[ones(1)]), Ok(()));
}

#[test]
pub(crate) fn a_new_generation_throws_away_what_is_held_and_what_is_on_its_way() {
    let mut sequence = holding(2, 10);
    sequence.join(vec![ones(20)], 1);
    sequence.begin_fetch(5, &POLICY).expect("a fetch");
    assert!(sequence.set_generation(0, 2));
    assert!(!sequence.set_generation(0, 2));
    assert_eq!(sequence.fetched(6, reserved(11, 40, 100)), FetchVerdict::Outdated);
    assert_eq!(serve(&mut sequence, 6), []);
    // Sent when the new generation was known, and older all the same: the store went back.
    sequence.begin_fetch(6, &POLICY).expect("a fetch");
    assert_eq!(sequence.fetched(7, reserved(41, 70, 100)), FetchVerdict::Backwards { floor: 11 });
    sequence.fetched(7, Fetched::Refused(SequenceRefusal::WentBack));
    assert_eq!(serve(&mut sequence, 7), [(1, Err(SequenceRefusal::WentBack))]);
}

#[test]
pub(crate) fn what_lies_below_is_never_given() {
    let mut sequence = holding(2, 10);
    sequence.join(vec![ones(20)], 1);
    sequence.begin_fetch(5, &POLICY).expect("a fetch");
    assert_eq!(sequence.fetched(6, reserved(10, 40, 100)), FetchVerdict::Backwards { floor: 11 });
    assert!(!sequence.wants_fetch(6));
}

#[test]
pub(crate) fn what_is_given_back_is_the_rows_end_or_nothing() {
    let mut sequence = holding(2, 10);
    let mut runs = Vec::new();
    sequence.draw(0, ones(3), &mut runs);
    let remainder = sequence.give_back().expect("six values");
    assert_eq!((remainder.version, remainder.next, remainder.values), (1, 5, 6));
    assert_eq!(remainder.had_next, Some(5));
    assert_eq!(sequence.give_back(), None);
    assert_eq!(sequence.draw(0, ones(1), &mut runs), 1);

    let mut sequence = holding(2, 10);
    sequence.join(vec![ones(20)], 1);
    sequence.begin_fetch(5, &POLICY).expect("a fetch");
    assert_eq!(sequence.give_back(), None, "a fetch is in flight");

    let mut sequence = holding(2, 10);
    sequence.draw(0, ones(7), &mut runs);
    sequence.begin_fetch(5, &POLICY).expect("a fetch");
    sequence.fetched(6, Fetched::Failed { is_unknown: true, reason: "lost".into() });
    assert_eq!(sequence.give_back(), None, "the last fetch may have been done");
}

#[test]
pub(crate) fn waiting_draws_are_served_in_rounds_and_none_passes() {
    let mut sequence = Sequence::new(0);
    sequence.join(vec![ones(200)], 1);
    sequence.begin_fetch(0, &POLICY).expect("a fetch");
    let gone = sequence.join(vec![ones(50)], 2);
    sequence.join(vec![ones(1)], 3);
    assert_eq!(sequence.leave(gone), Some(2));
    assert_eq!(sequence.leave(gone), None);
    let mut runs = Vec::new();
    assert_eq!(sequence.draw(0, ones(1), &mut runs), 1);
    sequence.fetched(5, reserved(1, 210, 100));
    let served = serve(&mut sequence, 5);
    assert_eq!(served[0], (3, Ok(vec![65])));
    let expected: Vec<i64> = (1..=64).chain(66..=201).collect();
    assert_eq!(served[1], (1, Ok(expected)));
    assert_eq!(sequence.draw(0, ones(1), &mut runs), 0);
}

#[test]
pub(crate) fn a_set_inside_of_what_is_held_skips() {
    let mut sequence = holding(2, 10);
    assert!(sequence.skip_to(5) && sequence.skip_to(5));
    assert!(!sequence.skip_to(4), "it never goes back");
    assert!(!sequence.skip_to(11), "the store must decide that");
    let mut runs = Vec::new();
    assert_eq!(sequence.draw(0, ones(1), &mut runs), 0);
    assert_eq!(values(&runs), [6]);
}

#[test]
pub(crate) fn at_its_max_it_refuses_and_gives_what_is_left() {
    let mut sequence = holding(2, 3);
    let mut runs = Vec::new();
    sequence.join(vec![ones(5)], 1);
    sequence.begin_fetch(5, &POLICY).expect("a fetch");
    let spec = Spec { max: 3, ..Spec::default() };
    let empty = Fetched::Reserved { store: 0, segment: Segment::EMPTY, version: 1, generation: 1, spec, end: None };
    sequence.fetched(6, empty);
    let refusal = SequenceRefusal::AtMax { max: 3 };
    assert_eq!(serve(&mut sequence, 6), [(1, Err(refusal.clone()))]);
    assert_eq!(sequence.may_wait(7, &POLICY, &[ones(1)]), Err(refusal));
    assert_eq!(sequence.draw(0, ones(1), &mut runs), 1);
}

#[test]
pub(crate) fn from_idle_to_200000_a_second_takes_few_fetches() {
    let mut sequence: Sequence<u32> = Sequence::new(0);
    let (mut now_ms, mut next, mut missed_ms, mut fetches) = (0, 1, 0, 0);
    let mut in_flight: Option<(u64, u32)> = None;
    let mut runs = Vec::new();
    while now_ms < 30_000 {
        if in_flight.is_some_and(|(at, _)| now_ms >= at)
            && let Some((_, values)) = in_flight.take()
        {
            sequence.fetched(now_ms, reserved(next, next + i64::from(values) - 1, 100));
            next += i64::from(values);
            serve(&mut sequence, now_ms);
        }
        runs.clear();
        let left = sequence.draw(0, ones(200), &mut runs);
        if left > 0 {
            sequence.join(vec![ones(left)], 0);
            missed_ms = now_ms;
        }
        if let Some(fetch) = sequence.begin_fetch(now_ms, &POLICY) {
            in_flight = Some((now_ms + 5, fetch.values));
            fetches += 1;
        }
        now_ms += 1;
    }
    assert!(missed_ms < 250, "a request waited after {missed_ms} ms");
    assert!(fetches < 25, "{fetches} fetches in 30 s");
}

/// `sequence-ride-out-s` 900, its default.
const RIDE_OUT: SequencePolicy = SequencePolicy { ride_out_ms: 900_000, waits: WaitPolicy::Wait };

/// A sequence with one request a tick, and the row that answers its fetches at once.
struct Steady {
    sequence: Sequence<u32>,
    now_ms: u64,
    next: i64,
    max: i64,
    largest: u32,
}

impl Steady {
    fn new(max: i64) -> Steady {
        Steady { sequence: Sequence::new(0), now_ms: 0, next: 1, max, largest: 0 }
    }

    /// Draws one value each `every_ms`, for `ms`. With `answers` false the store is down. Returns the number of values.
    fn draw(&mut self, every_ms: u64, ms: u64, answers: bool) -> u64 {
        let mut values = 0;
        for _ in 0..ms / every_ms {
            self.now_ms += every_ms;
            let mut runs = Vec::new();
            let left = self.sequence.draw(self.now_ms, ones(1), &mut runs);
            values += u64::from(1 - left);
            if left > 0 && !answers {
                return values;
            }
            if left > 0 {
                self.sequence.join(vec![ones(left)], 0);
            }
            let Some(fetch) = self.sequence.begin_fetch(self.now_ms, &RIDE_OUT) else { continue };
            if !answers {
                self.sequence.fetched(self.now_ms, Fetched::Failed { is_unknown: true, reason: "down".into() });
                continue;
            }
            self.largest = self.largest.max(fetch.values);
            let last = (self.next + i64::from(fetch.values) - 1).min(self.max);
            let segment = Segment { first: self.next, last, increment: 1 };
            let spec = Spec { max: self.max, ..Spec::default() };
            self.next = last + 1;
            self.sequence.fetched(
                self.now_ms,
                Fetched::Reserved { store: 0, segment, version: 1, generation: 1, spec, end: None },
            );
            serve(&mut self.sequence, self.now_ms);
        }
        values
    }
}

#[test]
pub(crate) fn a_busy_sequence_rides_out_a_quarter_of_an_hour_without_its_store() {
    let mut steady = Steady::new(getid_core::server::VALUE_MAX);
    steady.draw(10, 3_600_000, true);
    let values = steady.draw(10, 7_200_000, false);
    // At 100 values a second: at least half of a segment of 900 s, at most one and a half.
    assert!((44_000..150_000).contains(&values), "{values} values without the store");
}

#[test]
pub(crate) fn a_burst_of_seconds_does_not_reserve_minutes_of_itself() {
    let mut steady = Steady::new(getid_core::server::VALUE_MAX);
    steady.draw(10_000, 3_600_000, true);
    steady.draw(1, 10_000, true);
    // 10 s at 1,000 a second are 10,000 values; 900 s would be 900,000.
    assert!((1_000..60_000).contains(&steady.largest), "{} values at a time", steady.largest);
}

#[test]
pub(crate) fn near_the_max_a_server_reserves_an_eighth_of_the_rest() {
    let mut steady = Steady::new(100_000);
    steady.draw(10, 300_000, true);
    // Other servers may have the rest: this server has drawn 30,000, and at its rate 900 s are 90,000.
    assert!(steady.next <= 45_000, "the row is at {}", steady.next);
    let given = 30_000 + steady.draw(10, 7_200_000, true);
    assert!(given >= 99_999, "{given} of 100,000 values were given");
}

#[test]
fn the_share_of_the_max_is_that_of_all_servers() {
    let spec = Spec { start: 101, max: 1100, ..Spec::default() };
    let of = |last: &[i64]| last.iter().map(|&last| spec.used_share(last)).collect::<Vec<_>>();
    assert_eq!(of(&[0, 100, 101, 600, 1099, 1100, i64::MAX]), [0, 0, 10, 5000, 9990, 10_000, 10_000]);
    assert_eq!((Spec::default().used_share(1_000_000), Spec::default().used_share(VALUE_MAX)), (0, 10_000));
    assert_eq!(Spec { start: 7, max: 7, ..spec }.used_share(7), 10_000);
}

#[test]
pub(crate) fn one_is_small() {
    assert!(size_of::<Sequence<Box<u8>>>() <= 144, "{}", size_of::<Sequence<Box<u8>>>());
}

const AT_ONCE: SequencePolicy = SequencePolicy { ride_out_ms: 10_000, waits: WaitPolicy::Error };

#[test]
pub(crate) fn a_store_that_is_back_is_noticed_though_no_draw_may_wait_for_it() {
    let mut sequence: Sequence<u32> = Sequence::new(0);
    let waiter = sequence.join(vec![ones(1)], 1);
    for now_ms in [0, 100, 300, 700, 1500] {
        sequence.begin_fetch(now_ms, &POLICY).expect("a fetch");
        sequence.fetched(now_ms, Fetched::Failed { is_unknown: true, reason: "down".into() });
    }
    sequence.leave(waiter);
    assert!(!sequence.wants_fetch(10_000), "no request needs any");
    assert_eq!(sequence.may_wait(10_000, &POLICY, &[ones(500)]), Err(SequenceRefusal::Store("down".into())));
    // To test whether it is back needs only one value.
    assert_eq!(sequence.begin_fetch(10_000, &POLICY), Some(Fetch { values: 1, floor: 0 }));
    sequence.fetched(10_005, reserved(1, 1, 100));
    assert_eq!(sequence.may_wait(10_005, &POLICY, &[ones(500)]), Ok(()));
}

#[test]
pub(crate) fn with_policy_error_a_large_range_is_there_for_the_next_draw() {
    let mut sequence = holding(2, 101);
    let large = SequenceRequest { values: 500, times: 1 };
    let mut runs = Vec::new();
    assert_eq!(sequence.draw(0, large, &mut runs), 1);
    assert!(!sequence.wants_fetch(10));
    assert_eq!(sequence.may_wait(10, &AT_ONCE, &[large]), Err(SequenceRefusal::Busy { waited_ms: 0 }));
    let fetch = sequence.begin_fetch(10, &AT_ONCE).expect("a fetch");
    sequence.fetched(15, reserved(200, 200 + i64::from(fetch.values) - 1, 100));
    assert_eq!(sequence.draw(0, large, &mut runs), 0);
    assert_eq!(values(&runs), [699]);
}

#[test]
pub(crate) fn with_policy_error_a_sequence_at_its_max_goes_on_once_it_was_given_more() {
    let mut sequence = holding(2, 1);
    sequence.begin_fetch(5, &AT_ONCE).expect("a fetch");
    let spec = Spec { max: 1, ..Spec::default() };
    sequence.fetched(
        6,
        Fetched::Reserved { store: 0, segment: Segment::EMPTY, version: 1, generation: 1, spec, end: None },
    );
    assert_eq!(sequence.may_wait(7, &AT_ONCE, &[ones(1)]), Err(SequenceRefusal::AtMax { max: 1 }));
    sequence.set_generation(0, 2);
    assert_eq!(sequence.may_wait(8, &AT_ONCE, &[ones(1)]), Ok(()), "nothing can be in memory: a fetch begins");
}

#[test]
pub(crate) fn a_ticket_of_a_served_draw_is_not_used_again() {
    let mut sequence = Sequence::new(0);
    let first = sequence.join(vec![ones(1)], 1);
    sequence.begin_fetch(0, &POLICY).expect("a fetch");
    sequence.fetched(5, reserved(1, 1, 100));
    assert_eq!(serve(&mut sequence, 5), [(1, Ok(vec![1]))]);
    let second = sequence.join(vec![ones(1)], 2);
    assert_eq!(sequence.leave(first), None);
    assert_eq!(sequence.leave(second), Some(2));
}

#[test]
pub(crate) fn at_the_max_requests_that_fit_are_served() {
    let mut sequence = holding(2, 4);
    sequence.join(vec![SequenceRequest { values: 5, times: 1 }], 1);
    sequence.join(vec![ones(2)], 2);
    sequence.join(vec![ones(2)], 3);
    sequence.begin_fetch(5, &POLICY).expect("a fetch");
    let spec = Spec { max: 4, ..Spec::default() };
    sequence.fetched(
        6,
        Fetched::Reserved { store: 0, segment: Segment::EMPTY, version: 1, generation: 1, spec, end: None },
    );
    let refusal = SequenceRefusal::AtMax { max: 4 };
    assert_eq!(serve(&mut sequence, 6), [(1, Err(refusal.clone())), (2, Ok(vec![2, 3])), (3, Err(refusal))]);
}

/// A range of `values` is joined, fetched and served.
fn fetched_range(sequence: &mut Sequence<u32>, values: u32, answer: Fetched) -> Vec<(u32, Vec<Run>)> {
    sequence.join_range(values, 1);
    sequence.begin_fetch(5, &POLICY).expect("a fetch");
    sequence.fetched(6, answer);
    let mut served = Vec::new();
    sequence.serve(6, &mut |who, result| served.push((who, result.expect("no refusal"))));
    served
}

fn run(first: i64, values: u32) -> Run {
    Run { first, increment: 1, values, times: 1 }
}

#[test]
fn a_range_has_fewer_values_if_there_are_no_more_up_to_the_max() {
    for cache in [0, 100] {
        let mut sequence = Sequence::new(0);
        let spec = Spec { max: 3, cache, ..Spec::default() };
        let segment = Segment { first: 1, last: 3, increment: 1 };
        let answer = Fetched::Reserved { store: 0, segment, version: 1, generation: 1, spec, end: None };
        assert_eq!(fetched_range(&mut sequence, 5, answer), [(1, vec![run(1, 3)])], "cache {cache}");
        assert_eq!(sequence.draw_range(7, 5), None);
    }
    // Others have reserved the values up to the max: the store has none for this server.
    let mut sequence = holding(2, 4);
    let spec = Spec { max: 1_000, ..Spec::default() };
    let segment = Segment::EMPTY;
    let answer = Fetched::Reserved { store: 0, segment, version: 1, generation: 1, spec, end: None };
    assert_eq!(sequence.draw_range(5, 5), None, "there may be more");
    assert_eq!(fetched_range(&mut sequence, 5, answer), [(1, vec![run(2, 3)])]);
    let mut sequence = holding(2, 4);
    sequence.join(vec![SequenceRequest { values: 5, times: 1 }], 1);
    sequence.begin_fetch(5, &POLICY).expect("a fetch");
    sequence.fetched(6, Fetched::Reserved { store: 0, segment, version: 1, generation: 1, spec, end: None });
    assert_eq!(serve(&mut sequence, 6), [(1, Err(SequenceRefusal::AtMax { max: 1_000 }))], "INCRBY needs all of them");
    assert_eq!([sequence.draw_range(7, 2), sequence.draw_range(7, 5)], [Some(run(2, 2)), Some(run(4, 1))]);
    sequence.set_generation(0, 2);
    assert_eq!(sequence.draw_range(8, 5), None, "the new row may have more");
}

#[test]
fn no_range_passes_waiting_draws() {
    let mut sequence = holding(2, 4);
    sequence.join(vec![SequenceRequest { values: 5, times: 1 }], 1);
    assert_eq!(sequence.draw_range(5, 1), None);
}

#[test]
fn values_up_to_that_of_another_server_are_skipped_and_no_more() {
    let mut sequence = holding(2, 10);
    assert!(!sequence.discard_up_to(5));
    assert_eq!(sequence.draw_range(5, 2), Some(run(6, 2)));
    assert!(!sequence.discard_up_to(0), "nothing goes back");
    assert_eq!(sequence.draw_range(5, 2), Some(run(8, 2)));
    assert!(sequence.is_above(10) && !sequence.is_above(11), "the row is known up to 10");
    sequence.begin_fetch(5, &POLICY).expect("a fetch");
    assert!(sequence.discard_up_to(VALUE_MAX), "values of the fetch in flight may be lower");
    sequence.fetched(6, reserved(11, 110, 100));
    assert!(!sequence.is_above(VALUE_MAX), "the value raises nothing");
    assert_eq!(sequence.draw_range(7, 2), Some(run(11, 2)));
}

#[test]
pub(crate) fn a_set_below_what_others_had_is_refused() {
    let mut sequence = Sequence::new(0);
    let gone = sequence.join(vec![ones(1)], 0);
    sequence.begin_fetch(0, &POLICY).expect("a fetch");
    sequence.leave(gone);
    sequence.fetched(5, reserved(100, 199, 100));
    serve(&mut sequence, 5);
    assert!(!sequence.skip_to(98), "99 may have been given in an earlier life");
    assert!(sequence.skip_to(99) && sequence.skip_to(120));
    assert_eq!(sequence.last_given(), Some(120));
}

#[test]
pub(crate) fn with_cache_0_nothing_of_an_earlier_cache_is_given() {
    let mut sequence = holding(2, 100);
    let mut runs = Vec::new();
    sequence.draw(0, ones(60), &mut runs);
    // 39 are left, and other servers have had 101 to 200.
    sequence.join(vec![SequenceRequest { values: 50, times: 1 }], 1);
    sequence.begin_fetch(10, &POLICY).expect("a fetch");
    // In tables of other programs, whose rows have no generation.
    sequence.fetched(11, reserved(101, 200, 0));
    assert_eq!(serve(&mut sequence, 11), [(1, Ok(vec![150]))]);
    assert_eq!(sequence.status(11).left, 0);
}

#[test]
pub(crate) fn a_raise_is_in_force_with_any_generation() {
    // A store that lost a raise repeats its generations: 1 was the lost one, and is the new one.
    let mut sequence = holding(2, 100);
    sequence.note_given(50);
    let mut runs = Vec::new();
    assert_eq!(sequence.draw(0, ones(1), &mut runs), 0);
    assert_eq!(values(&runs), [51]);
    sequence.note_given(500);
    assert_eq!((sequence.draw(0, ones(1), &mut runs), sequence.last_given()), (1, Some(500)));
    sequence.begin_fetch(10, &POLICY).expect("a fetch");
    assert_eq!(sequence.fetched(11, reserved(101, 200, 100)), FetchVerdict::Backwards { floor: 501 });
}

#[test]
pub(crate) fn a_set_is_the_stores_while_others_may_have_a_part_in_the_rows_end() {
    let mut sequence = holding(2, 100);
    sequence.draw(0, ones(60), &mut Vec::new());
    sequence.begin_fetch(10, &POLICY).expect("a fetch");
    assert!(!sequence.skip_to(70), "a fetch is in flight");
    sequence.fetched(11, Fetched::Failed { is_unknown: true, reason: "lost".into() });
    assert!(!sequence.skip_to(70), "it may have been done");
}

#[test]
pub(crate) fn an_answer_without_a_fetch_is_not_used() {
    let mut sequence: Sequence<u32> = Sequence::new(0);
    sequence.join(vec![ones(1)], 1);
    sequence.begin_fetch(0, &POLICY).expect("a fetch");
    sequence.fetched(2000, Fetched::Failed { is_unknown: true, reason: "no answer".into() });
    assert_eq!(sequence.fetched(2001, reserved(1, 100, 100)), FetchVerdict::Outdated);
    assert_eq!(serve(&mut sequence, 2001), []);
    assert_eq!(sequence.retry_at_ms(), Some(2100), "and the pause continues");
}

#[test]
pub(crate) fn what_is_held_of_a_row_that_is_gone_is_not_given() {
    let lost = SequenceRefusal::Lost { store: "sqlite:/s".into() };
    for refusal in [SequenceRefusal::NoSuch, lost, SequenceRefusal::WentBack] {
        let mut sequence = holding(2, 100);
        sequence.draw(0, ones(60), &mut Vec::new());
        sequence.begin_fetch(10, &POLICY).expect("a fetch");
        sequence.fetched(11, Fetched::Refused(refusal.clone()));
        assert_eq!(sequence.draw(0, ones(1), &mut Vec::new()), 1);
        assert_eq!(sequence.may_wait(11, &POLICY, &[ones(1)]), Err(refusal));
    }
}

#[test]
pub(crate) fn the_status_shows_the_values_that_a_kill_would_skip() {
    let mut sequence = Sequence::new(0);
    sequence.join(vec![ones(10), SequenceRequest { values: 50, times: 1 }], 1);
    let fetch = sequence.begin_fetch(0, &POLICY).expect("a fetch");
    let status = sequence.status(0);
    assert_eq!((status.left, status.asked), (0, fetch.values));
    sequence.fetched(1, reserved(1, 30, 100));
    assert_eq!(serve(&mut sequence, 1), []);
    let status = sequence.status(1);
    assert_eq!((status.left, status.asked), (30, 0), "ten of them are another draw's, still incomplete");
}

/// A few values after each of many changes by an operator: each segment was discarded soon, and the next one was eight
/// times as large, up to hundreds of thousands.
#[test]
fn a_segment_does_not_grow_because_the_one_before_was_thrown_away() {
    let mut sequence = holding(2, 101);
    for generation in 2..20 {
        sequence.set_generation(0, generation);
        sequence.join(vec![ones(1)], 1);
        let fetch = sequence.begin_fetch(10 * generation, &POLICY).expect("a fetch");
        assert!(fetch.values <= 100 + 8 * 20, "{} values after {generation} changes", fetch.values);
        let segment = Segment { first: fetch.floor, last: fetch.floor + i64::from(fetch.values) - 1, increment: 1 };
        let spec = Spec::default();
        let answer = Fetched::Reserved { store: 0, segment, version: generation, generation, spec, end: None };
        sequence.fetched(10 * generation + 1, answer);
        serve(&mut sequence, 10 * generation + 1);
    }
}

/// Dropped at 1200 and created again from 5, while a fetch of the old row was on its way, whose verdict comes late.
#[test]
fn a_row_that_was_created_again_begins_at_its_start() {
    let mut sequence = holding(2, 101);
    sequence.set_generation(0, 2);
    assert!(sequence.begin_fetch(5, &POLICY).is_some());
    sequence.recreated(5);
    sequence.join(vec![ones(1)], 1);
    let dropped = Fetched::Refused(SequenceRefusal::Dropped { last: 1200 });
    assert_eq!(sequence.fetched(6, dropped), FetchVerdict::Outdated);
    assert_eq!(serve(&mut sequence, 6), []);
    assert_eq!(sequence.begin_fetch(6, &POLICY), Some(Fetch { values: 1, floor: 5 }));
    let segment = Segment { first: 5, last: 5, increment: 1 };
    let answer = Fetched::Reserved { store: 0, segment, version: 1, generation: 3, spec: Spec::default(), end: None };
    assert_eq!(sequence.fetched(7, answer), FetchVerdict::Yes);
    assert_eq!(serve(&mut sequence, 7), [(1, Ok(vec![5]))]);
}

#[test]
fn rows_of_several_stores_have_no_value_in_common() {
    for (increment, stores) in [(1, 1), (1, 2), (1, 4), (2, 2), (5, 3), (1_000_000, 4)] {
        for offset in [1, increment] {
            let spec = Spec { increment, offset, ..Spec::default() };
            let rows: Vec<Spec> = (0..stores).map(|index| spec.of_store(index, stores).unwrap()).collect();
            let mut residues: Vec<u32> = rows.iter().map(|row| row.offset % row.increment).collect();
            residues.sort_unstable();
            residues.dedup();
            assert_eq!(residues.len(), rows.len(), "increment {increment} offset {offset} in {stores} stores");
            assert!(
                rows.iter().all(|row| row.increment == rows[0].increment && (1..=row.increment).contains(&row.offset))
            );
        }
    }
    assert_eq!(Spec::default().of_store(0, 1), Some(Spec::default()));
    assert_eq!(Spec { increment: 2, ..Spec::default() }.of_store(0, 3), None);
    assert_eq!(Spec::default().of_store(2, 2), None);
}

#[test]
fn names_of_sequences_are_wider_than_those_of_generators() {
    let longest = "x".repeat(128);
    for good in [
        "a",
        "orders:1",
        "cosid:{ns.name}.adder",
        "cosid:{a.b@26-11-28}.adder",
        "{{@} @}#",
        "a b  c",
        "#1",
        "{}",
        "a-",
        "...",
        "--",
        &longest,
    ] {
        assert_eq!(Key::new(good).as_ref().map(Key::as_str), Some(good), "{good:?}");
    }
    let long = "x".repeat(129);
    for bad in
        ["", ".", "..", "-", " ", " a", "a ", "a@b", "a/b", "a\tb", "a'b", "a\\b", "a\"b", "\u{e9}", "a\u{a0}", &long]
    {
        assert_eq!(Key::new(bad), None, "{bad:?}");
    }
    for bad in ["a@b{c}", "@{}", "{}@", "{a@b", "a/b{@}", "{a@\u{e9}}", "{@} "] {
        assert_eq!(Key::new(bad), None, "{bad:?}");
    }
    assert_eq!(Key::of_period("{a}", "2026"), None, "a period is a generator's");
    assert_eq!(Key::parse("a b@Y20260101"), None);
}
