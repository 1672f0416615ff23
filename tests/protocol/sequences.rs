//! Properties of turns that draw from sequences, in any order. The conversations are in
//! `tests/protocol/transcripts/sequences.txt`.

use std::sync::Arc;

use crate::shell::{Options, Shell, as_arrays, settings, show};
use getid_core::server::{Run, SequenceRequest};
use getid_redis::command::Verb;
use getid_redis::session::{
    DrawSource, ExtraDraws, NamedDrawResults, SequenceDrawResults, Session, TURN_BYTES_MAX, TURN_IDS_MAX, Turn,
};
use proptest::prelude::*;

fn options() -> Options {
    Options { generators: true, sequences: true, ..Options::default() }
}

/// Returns requests, each repeated a random number of times in a row.
fn requests() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let lines = [
        "INCR orders",
        "incr orders",
        "INCR users",
        "INCR a",
        "INCR b",
        "INCRBY orders 1",
        "INCRBY orders 7",
        "INCRBY users 7",
        "HINCRBY orders cur 7",
        "HINCRBY orders max 7",
        "INCRBY orders 0",
        "INCR noname",
        "INCR nine",
        "INCR tweets",
        "GETID",
        "GETID tweets",
        "MGETID 2 trace",
        "PING",
        "MULTI",
        "EXEC",
        "CLIENT REPLY SKIP",
    ];
    let run = (prop::sample::select(lines.to_vec()), prop_oneof![Just(1_usize), 2..5_usize, Just(40)]);
    let lines = |(line, times): (&str, usize)| vec![format!("{line}\r\n").into_bytes(); times];
    prop::collection::vec(run.prop_map(lines), 1..30).prop_map(|runs| runs.concat())
}

proptest! {
    #![proptest_config(crate::cases(40))]

    /// A pipeline, in which repeated requests are counted, has the same replies as single requests, wherever it is cut.
    #[test]
    fn a_pipeline_is_answered_as_its_requests_one_by_one(requests in requests(), cut in 1..300_usize) {
        let arrays = as_arrays(&requests);
        let mut single = Shell::new(&options());
        let mut expected = Vec::new();
        for request in &requests {
            expected.extend(single.talk(&as_arrays(std::slice::from_ref(request)), usize::MAX));
        }
        for (input, cut) in [(arrays.clone(), usize::MAX), (arrays, cut), (requests.concat(), usize::MAX)] {
            let got = Shell::new(&options()).talk(&input, cut);
            prop_assert_eq!(show(&got), show(&expected));
        }
    }
}

/// Returns a session that has read `input`, and its turn.
fn read(input: &[u8], is_watched: bool) -> (Session, Turn, usize) {
    let mut session = Session::new(1, Arc::new(settings(&options())));
    let mut turn = Turn::default();
    turn.tally.watch(is_watched);
    let used = session.read(input, &mut turn);
    (session, turn, used)
}

fn asks(turn: &Turn) -> Vec<(&str, Vec<SequenceRequest>)> {
    turn.sequence_draws().iter().map(|draw| (turn.sequence_name(draw), turn.sequence_asks(draw).collect())).collect()
}

#[test]
fn repeated_requests_are_counted_and_shown_one_by_one() {
    for is_watched in [false, true] {
        let request = b"*2\r\n$4\r\nINCR\r\n$6\r\norders\r\n";
        let (_, turn, used) = read(&request.repeat(50), is_watched);
        assert_eq!((used, turn.commands, turn.replies().len()), (50 * request.len(), 50, 1));
        assert_eq!(asks(&turn), [("orders", vec![SequenceRequest { values: 1, times: 50 }])]);
        let [calls] = turn.tally.calls() else { panic!("{:?}", turn.tally.calls()) };
        assert_eq!((calls.verb, calls.calls, calls.failed), (Verb::Incr, 50, 0));
        let shown: Vec<_> = turn.tally.shown().map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect();
        assert_eq!(shown, vec![r#""INCR" "orders""#; if is_watched { 50 } else { 0 }]);
    }
}

#[test]
fn a_sequence_has_one_draw_in_the_order_of_commands() {
    let lines =
        "INCR a\r\nINCR b\r\nINCRBY a 5\r\nINCRBY b 5\r\nHINCRBY a cur 5\r\nINCR a\r\nINCR b\r\nGETID\r\nINCR a\r\n";
    let (_, turn, _) = read(lines.as_bytes(), false);
    let ask = |values, times| SequenceRequest { values, times };
    assert_eq!(
        asks(&turn),
        [("a", vec![ask(1, 1), ask(5, 2), ask(1, 2)]), ("b", vec![ask(1, 1), ask(5, 1), ask(1, 1)])]
    );
    let calls: Vec<_> = turn.tally.calls().iter().map(|calls| (calls.verb, calls.calls)).collect();
    assert_eq!(calls, [(Verb::Incr, 5), (Verb::IncrBy, 2), (Verb::HIncrBy, 1), (Verb::GetId, 1)]);
}

/// A turn draws from at most 128 sequences. Their names stay distinct even if hashes collide.
#[test]
fn a_turn_draws_from_a_bounded_number_of_sequences() {
    let input = (0..1000).map(|number| format!("INCR s{number}\r\n")).collect::<Vec<_>>().concat();
    let mut session = Session::new(1, Arc::new(settings(&options())));
    let (mut turn, mut used, mut next) = (Turn::default(), 0, 0);
    loop {
        used += session.read(&input.as_bytes()[used..], &mut turn);
        for (name, asks) in asks(&turn) {
            assert_eq!((name, asks), (format!("s{next}").as_str(), vec![SequenceRequest { values: 1, times: 1 }]));
            next += 1;
        }
        assert!(turn.draws.sequences <= 128);
        if !turn.more {
            break;
        }
        assert_eq!(turn.draws.sequences, 128);
    }
    assert_eq!(next, 1000);
}

#[test]
fn turns_have_their_bounds() {
    for request in ["INCR a\r\n", "INCRBY a 1000\r\n", "INCR a\r\nINCR b\r\n", "INCR a\r\nHINCRBY a cur 3\r\n"] {
        let input = request.repeat(20_000);
        let mut session = Session::new(1, Arc::new(settings(&options())));
        let (mut turn, mut used, mut turns) = (Turn::default(), 0, 0);
        loop {
            used += session.read(&input.as_bytes()[used..], &mut turn);
            let commands: u32 = asks(&turn).iter().flat_map(|(_, asks)| asks).map(|ask| ask.times).sum();
            assert!(commands <= TURN_IDS_MAX, "{commands} in a turn");
            turns += 1;
            if !turn.more {
                break;
            }
        }
        assert_eq!((used, turns), (input.len(), (input.lines().count()).div_ceil(TURN_IDS_MAX as usize)), "{request}");
    }
}

/// Requests of a muted pipeline that are all unlike stay within the bound of a turn, and keep their order.
#[test]
fn muted_requests_run_in_order_too() {
    let input = format!(
        "CLIENT REPLY OFF\r\n{}CLIENT REPLY ON\r\nINCR a\r\n",
        "INCR a\r\nINCRBY a 5\r\nINCR b\r\n".repeat(3000)
    );
    let mut shell = Shell::new(&options());
    let replies = shell.talk(input.as_bytes(), usize::MAX);
    assert_eq!(show(&replies), "+OK\n:18001\n");
    assert!(shell.turns >= 9000 * 64 / TURN_BYTES_MAX, "{} turns", shell.turns);
}

/// A client that gets its replies one by one gets the same replies.
#[test]
fn replies_in_parts_are_those_of_the_whole() {
    let heard = "PING\r\nINCR a\r\nINCR a\r\nINCR a\r\nINCR a\r\nINCR b\r\nINCRBY a 5\r\nINCRBY a 5\r\nPING\r\nINCR b\r\nINCR a\r\nPING\r\n";
    let muted = "INCR a\r\nINCR b\r\nINCRBY b 5\r\nINCRBY b 5\r\nCLIENT REPLY ON\r\nINCR a\r\nINCR b\r\n";
    for (before, input) in [("", heard), ("CLIENT REPLY OFF\r\n", muted)] {
        let mut whole = Shell::new(&options());
        whole.talk(before.as_bytes(), usize::MAX);
        let expected = whole.talk(input.as_bytes(), usize::MAX);
        for most in [1, 2, 100] {
            let (mut session, mut turn, _) = read(before.as_bytes(), false);
            session.read(input.as_bytes(), &mut turn);
            let (mut named, mut sequences, mut drawn) =
                (NamedDrawResults::default(), SequenceDrawResults::default(), Vec::new());
            sequences.begin(turn.sequence_draws().len());
            for (draw, part) in turn.sequence_draws().iter().zip(sequences.parts_mut()) {
                part.left.extend(turn.sequence_asks(draw));
            }
            let (mut output, mut next) = (Vec::new(), vec![1; turn.sequence_draws().len()]);
            while let Some((source, wanted)) = turn.next_ids(most) {
                let DrawSource::Sequence(at) = source else { panic!("{source:?}") };
                let part = sequences.part(at).unwrap();
                let missing = wanted - part.available();
                for SequenceRequest { values, times } in part.left_of(missing) {
                    part.runs.push(Run { first: next[at], increment: 1, values, times });
                    next[at] += i64::from(values) * i64::from(times);
                }
                getid_redis::session::drop_front(&mut part.left, missing);
                let mut extra = ExtraDraws { named: &mut named, sequences: &mut sequences, noise: &mut || 0 };
                session.write_next(&mut turn, &mut drawn, &mut extra, &mut output);
            }
            assert!(sequences.parts().iter().all(|part| part.left.is_empty() && part.available() == 0));
            let mut extra = ExtraDraws { named: &mut named, sequences: &mut sequences, noise: &mut || 0 };
            session.write_with_extra(&turn, Ok(&drawn), &mut extra, &mut output);
            assert_eq!(show(&output), show(&expected), "at most {most} at a time");
        }
    }
}

/// Runs of values need not end where commands of a kind do.
#[test]
fn runs_may_be_cut_anywhere() {
    let (session, turn, _) = read(b"INCRBY a 3\r\nINCRBY a 3\r\nINCRBY a 3\r\nINCR a\r\nINCRBY a 3\r\n", false);
    let mut sequences = SequenceDrawResults::default();
    sequences.begin(1);
    let run = |first, values, times| Run { first, increment: 2, values, times };
    sequences.part(0).unwrap().runs.extend([run(1, 3, 2), run(101, 3, 1), run(107, 1, 1), run(109, 3, 1)]);
    let mut extra = ExtraDraws { named: &mut NamedDrawResults::default(), sequences: &mut sequences, noise: &mut || 0 };
    let mut output = Vec::new();
    session.write_with_extra(&turn, Ok(&[]), &mut extra, &mut output);
    assert_eq!(show(&output), ":5\n:11\n:105\n:107\n:113\n");
}

/// Errors quote a wrong name, field or step, up to a bounded length.
#[test]
fn errors_are_short_whatever_was_sent() {
    let long = "x".repeat(30_000);
    let nines = "9".repeat(30_000);
    for request in [
        format!("INCR {long}"),
        format!("INCR {}@", &long[..127]),
        format!("INCR {}", &long[..129]),
        format!("INCRBY {long} 1"),
        format!("INCRBY {long} 0"),
        format!("INCRBY {long} -1"),
        format!("INCRBY orders {nines}"),
        format!("INCRBY orders {long}"),
        format!("HINCRBY {long} cur 1"),
        format!("HINCRBY {long} {long} 1"),
    ] {
        let reply = Shell::new(&options()).talk(format!("{request}\r\n").as_bytes(), usize::MAX);
        assert!(reply.starts_with(b"-ERR ") && reply.len() < 400, "{} bytes: {}", reply.len(), show(&reply));
    }
    let longest = format!("INCR {}\r\n", &long[..128]);
    assert_eq!(show(&Shell::new(&options()).talk(longest.as_bytes(), usize::MAX)), ":1\n");
}
