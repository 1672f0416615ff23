//! Properties of all segments, runs, options and keys.

use getid_core::server::{
    Fetched, INCREMENT_MAX, Key, RESERVED_MAX, Run, Segment, Sequence, SequenceRequest, Spec, VALUE_MAX, WaitPolicy,
};
use proptest::prelude::*;

fn specs() -> impl Strategy<Value = Spec> {
    let policies = prop_oneof![Just(None), Just(Some(WaitPolicy::Wait)), Just(Some(WaitPolicy::Error))];
    let increments = prop_oneof![1..=3_u32, 1..=INCREMENT_MAX];
    let starts = prop_oneof![0..=1000_i64, 0..=VALUE_MAX, VALUE_MAX - 2_000_000..=VALUE_MAX];
    (starts.clone(), starts, increments, 1..=INCREMENT_MAX, 0..=RESERVED_MAX, policies).prop_map(
        |(start, max, increment, offset, cache, policy)| {
            let offset = (offset - 1) % increment + 1;
            Spec { start: start.min(max), max: start.max(max), increment, offset, cache, policy }
        },
    )
}

proptest! {
    #[test]
    fn the_next_value_is_the_nearest_of_its_remainder(spec in specs(), value in 0..=VALUE_MAX + 1) {
        let next = spec.next_from(value);
        let increment = i64::from(spec.increment);
        let from = value.max(spec.start);
        prop_assert!(next >= from && next - from < increment);
        prop_assert_eq!((next - i64::from(spec.offset)).rem_euclid(increment), 0);
        prop_assert_eq!(spec.next_from(next), next);
        prop_assert_eq!(spec.first_from(value), (next <= spec.max).then_some(next));
    }

    #[test]
    fn options_written_as_words_are_read_back(spec in specs()) {
        let words = spec.words();
        let read = Spec::default().with(&words.split_whitespace().collect::<Vec<_>>());
        if spec.first_from(spec.start).is_some() {
            prop_assert_eq!(read, Ok(spec));
        } else {
            prop_assert!(read.is_err());
        }
    }

    #[test]
    fn options_are_read_or_refused_whatever_is_written(words in prop::collection::vec(".{0,12}", 0..6)) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match Spec::default().with(&words) {
            Ok(spec) => prop_assert!(spec.first_from(spec.start).is_some() && spec.offset <= spec.increment),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn a_key_is_its_text(text in "[a-zA-Z0-9_.:@-]{0,140}") {
        if let Some(key) = Key::parse(&text) {
            prop_assert_eq!(key.as_str(), &text);
            let is_plain = key.period().is_empty();
            let again = if is_plain { Key::new(key.name()) } else { Key::of_period(key.name(), key.period()) };
            prop_assert_eq!(again, Some(key));
        }
    }

    #[test]
    fn what_is_taken_off_a_segment_was_in_it(
        first in 0..=VALUE_MAX, values in 0..=u64::from(RESERVED_MAX), increment in 1..=INCREMENT_MAX, n in 1..=1000_u64,
    ) {
        let first = first.min(VALUE_MAX - 20_000_000_000_000);
        let last = first + values.cast_signed() * i64::from(increment) - i64::from(increment);
        let mut segment = Segment { first, last, increment };
        prop_assert_eq!(segment.left(), values);
        let n = n.min(values);
        if n > 0 {
            prop_assert_eq!(segment.take(n), first);
            prop_assert_eq!((segment.left(), segment.last), (values - n, last));
            let taken = Segment { first, last: first + (n.cast_signed() - 1) * i64::from(increment), increment };
            prop_assert!(taken.adjoins(&segment) || segment.left() == 0 || taken.last == last);
        }
    }

    #[test]
    fn commands_of_a_run_follow_each_other(
        first in 0..=VALUE_MAX / 2, increment in 1..=1000_u32, values in 1..=1000_u32, times in 1..=100_u32,
    ) {
        let run = Run { first, increment, values, times };
        let ends: Vec<i64> = (0..times).map(|nth| run.last_of(nth)).collect();
        let step = i64::from(increment) * i64::from(values);
        prop_assert_eq!(ends[0], first + step - i64::from(increment));
        prop_assert!(ends.windows(2).all(|pair| pair[1] - pair[0] == step));
    }

    #[test]
    fn a_sequence_gives_what_it_holds_and_no_more(asks in prop::collection::vec((1..=50_u32, 1..=20_u32), 1..40)) {
        let policy = getid_core::server::SequencePolicy { ride_out_ms: 1000, waits: WaitPolicy::Wait };
        let mut sequence: Sequence<()> = Sequence::new(0);
        sequence.join(vec![SequenceRequest { values: 1, times: 1 }], ());
        sequence.begin_fetch(0, &policy);
        let segment = Segment { first: 1, last: 2000, increment: 1 };
        let spec = Spec::default();
        sequence.fetched(0, Fetched::Reserved { store: 0, segment, version: 1, generation: 0, spec, end: None });
        sequence.serve(0, &mut |(), _| {});
        let mut next = 2;
        for (values, times) in asks {
            let mut runs = vec![];
            let left = sequence.draw(0, SequenceRequest { values, times }, &mut runs);
            let given: u32 = runs.iter().map(|run| run.times).sum();
            prop_assert_eq!(given + left, times);
            for run in runs {
                prop_assert_eq!(run.first, next);
                next = run.last_of(run.times - 1) + 1;
            }
            prop_assert!(left == 0 || next + i64::from(values) > 2001);
        }
        prop_assert_eq!(sequence.status(0).left, 2001_u64 - next.unsigned_abs());
    }
}
