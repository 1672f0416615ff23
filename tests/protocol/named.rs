//! Properties of turns that draw from named generators, in any order. The conversations are in
//! `tests/protocol/transcripts/generators.txt`.

use std::sync::Arc;

use crate::shell::{GENERATORS, Options, Shell, as_arrays, generators, settings, show};
use getid_core::server::NamedGenerators;
use getid_core::{Declaration, NamedGenerator, Reservation, Slot, no_dates};
use getid_redis::command::Verb;
use getid_redis::session::{
    DrawSource, ExtraDraws, NamedDrawResults, SequenceDrawResults, Session, Settings, TURN_BYTES_MAX, TURN_IDS_MAX,
    Turn,
};
use proptest::prelude::*;

fn options() -> Options {
    Options { generators: true, ..Options::default() }
}

/// Returns requests, each repeated a random number of times in a row.
fn requests() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let lines = [
        "GETID",
        "GETID tweets",
        "getid tweets",
        "GETID trace",
        "GETID short",
        "GETID narrow",
        "GETID v4",
        "GETID lua shard 1",
        "GETID lua shard 2",
        "GETID lua",
        "GETID broken",
        "GETID noname",
        "GETID slow",
        "MGETID 3 tweets",
        "MGETID 2 trace",
        "MGETID 2",
        "MGETID 2 broken",
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

    /// A pipeline, in which repeated requests are counted, has the same replies as single requests.
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

#[test]
fn repeated_requests_are_counted_and_shown_one_by_one() {
    for is_watched in [false, true] {
        let mut session = Session::new(1, Arc::new(settings(&options())));
        let mut turn = Turn::default();
        turn.tally.watch(is_watched);
        let request = b"*2\r\n$5\r\nGETID\r\n$6\r\ntweets\r\n";
        let used = session.read(&request.repeat(50), &mut turn);
        assert_eq!((used, turn.commands, turn.replies().len()), (50 * request.len(), 50, 1));
        assert_eq!(turn.named_draws().iter().map(|draw| draw.ids).collect::<Vec<_>>(), [50]);
        let [calls] = turn.tally.calls() else { panic!("{:?}", turn.tally.calls()) };
        assert_eq!((calls.verb, calls.calls, calls.failed), (Verb::GetId, 50, 0));
        let shown: Vec<_> = turn.tally.shown().map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect();
        assert_eq!(shown, vec![r#""GETID" "tweets""#; if is_watched { 50 } else { 0 }]);
    }
}

/// Returns settings with these declarations, by their places from 1 on.
fn settings_of(lines: &[String]) -> Settings {
    let generators = lines.iter().enumerate().map(|(place, line)| {
        let words: Vec<&str> = line.split(' ').collect();
        let declaration = Declaration::parse(&words, no_dates).unwrap();
        (place + 1, Arc::new(NamedGenerator::new(declaration, 0, None).unwrap()))
    });
    settings(&Options::default()).with_generators(Arc::new(NamedGenerators::new(generators)))
}

/// Reads `input` in turns and serves each. Returns the number of turns, the most IDs of a turn and the most reply bytes
/// of a turn.
fn largest_turn(settings: Settings, input: &[u8]) -> (u32, u32, usize) {
    let mut session = Session::new(1, Arc::new(settings));
    let (mut turn, mut named, mut used) = (Turn::default(), NamedDrawResults::default(), 0);
    let (mut turns, mut ids_max, mut bytes_max) = (0, 0, 0);
    loop {
        used += session.read(&input[used..], &mut turn);
        let draws = turn.named_draws();
        named.begin(draws.len());
        for (at, draw) in draws.iter().enumerate() {
            named.part(at).unwrap().reservations.push(Reservation { first: Slot(1 << 40), count: 0, len: draw.ids });
        }
        ids_max = ids_max.max(draws.iter().map(|draw| draw.ids).sum());
        let mut output = Vec::new();
        let unnamed = Reservation { first: Slot(1 << 40), count: 0, len: turn.draws.unnamed };
        let sequences = &mut SequenceDrawResults::default();
        let mut extra = ExtraDraws { named: &mut named, sequences, noise: &mut || u128::MAX };
        session.write_with_extra(&turn, Ok(&[unnamed]), &mut extra, &mut output);
        bytes_max = bytes_max.max(output.len());
        turns += 1;
        if !turn.more {
            assert_eq!(used, input.len());
            return (turns, ids_max, bytes_max);
        }
    }
}

#[test]
fn turns_are_bounded_for_any_requests() {
    // The largest turn of the unnamed generator.
    let bytes_most = (TURN_IDS_MAX as usize + 100) * 26 + TURN_BYTES_MAX;
    let prefix = "p".repeat(64);
    let wide = format!(
        "wide layout time:41@1ms worker:64 counter:12 epoch 0 worker 1 one-server 0 format decimal pad 64 prefix {prefix}"
    );
    let lines =
        [wide, "tweets twitter".into(), "v4 uuid4".into(), "slow layout time:31@10s server-id:8 epoch 0".into()];
    let turns = |request: &str| largest_turn(settings_of(&lines), request.repeat(10_000).as_bytes());
    for (request, ids_most) in [("GETID wide\r\n", 1366), ("GETID tweets\r\n", TURN_IDS_MAX), ("GETID v4\r\n", 4096)] {
        let (turns, ids, bytes) = turns(request);
        assert!(ids <= ids_most && ids * 11 > ids_most * 10, "{request}: {ids} IDs a turn");
        assert!(bytes <= bytes_most, "{request}: {bytes} bytes a turn");
        assert_eq!(turns, 10_000_u32.div_ceil(ids), "{request}");
    }
    // 100 IDs of the widest, with the bound reached just before them.
    let (_, _, bytes) = turns("GETID tweets\r\nMGETID 100 wide\r\n");
    assert!(bytes <= bytes_most + 100 * 140, "{bytes}");
    // A generator of an ID every ten seconds has draws of one ID.
    assert_eq!(largest_turn(settings_of(&lines), "GETID slow\r\n".repeat(30).as_bytes()).1, 1);
    // The unnamed generator behind it has too.
    let mixed = "GETID slow\r\nGETID\r\n".repeat(30);
    assert_eq!(largest_turn(settings_of(&lines), mixed.as_bytes()).0, 31);
}

#[test]
fn a_turn_draws_from_a_bounded_number_of_generators() {
    let lines: Vec<String> = (0..1000).map(|number| format!("g{number} twitter")).collect();
    let input: String = (0..1000).map(|number| format!("GETID g{number}\r\n")).collect::<Vec<_>>().concat();
    let (turns, ids, _) = largest_turn(settings_of(&lines), input.as_bytes());
    assert_eq!((turns, ids), (1000_u32.div_ceil(64), 64));
}

/// A client that gets its replies one by one gets the same replies.
#[test]
fn replies_in_parts_are_those_of_the_whole() {
    let lines = [
        "PING",
        "GETID tweets",
        "GETID tweets",
        "GETID",
        "MGETID 3 trace",
        "GETID lua shard 7",
        "GETID short",
        "GETID tweets",
        "MGETID 2",
        "MGETID 2 tweets",
        "PING",
    ];
    let input = lines.map(|line| format!("{line}\r\n")).concat();
    let expected = Shell::new(&options()).talk(input.as_bytes(), usize::MAX);
    for most in [1, 2, 100] {
        let mut session = Session::new(1, Arc::new(settings(&options())));
        let mut first = Shell::new(&options());
        let (mut turn, mut named, mut drawn) = (Turn::default(), NamedDrawResults::default(), Vec::new());
        session.read(input.as_bytes(), &mut turn);
        named.begin(turn.named_draws().len());
        let mut noise = first.noise();
        let mut output = Vec::new();
        while let Some((source, wanted)) = turn.next_ids(most) {
            let left = match source {
                DrawSource::Unnamed => drawn.iter().map(|drawn: &Reservation| drawn.len).sum(),
                DrawSource::Named(at) => named.part(at).unwrap().left(),
                DrawSource::Sequence(_) => unreachable!("no sequence is asked"),
            };
            for _ in left..wanted {
                match source {
                    DrawSource::Unnamed => drawn.extend(first.draw(1)),
                    DrawSource::Sequence(_) => {}
                    DrawSource::Named(at) => {
                        let generator = turn.named_draws()[at].generator;
                        named.part(at).unwrap().reservations.extend(first.draw_of(generator, 1));
                    }
                }
            }
            let sequences = &mut SequenceDrawResults::default();
            let mut extra = ExtraDraws { named: &mut named, sequences, noise: &mut noise };
            session.write_next(&mut turn, &mut drawn, &mut extra, &mut output);
        }
        let left: u32 = turn.named_draws().iter().map(|draw| draw.ids).sum();
        assert_eq!((left, turn.draws.unnamed), (0, 0), "nothing is left to draw");
        let sequences = &mut SequenceDrawResults::default();
        let mut extra = ExtraDraws { named: &mut named, sequences, noise: &mut noise };
        session.write_with_extra(&turn, Ok(&drawn), &mut extra, &mut output);
        assert_eq!(show(&output), show(&expected), "at most {most} at a time");
    }
}

/// Errors quote a wrong name or value, up to a bounded length.
#[test]
fn errors_are_short_whatever_was_sent() {
    let long = "x".repeat(30_000);
    for request in [
        format!("GETID {long}"),
        format!("MGETID 1 {long}"),
        format!("GETID {}", &long[..128]),
        format!("GETID lua {long} 1"),
        format!("GETID lua shard {long}"),
        format!("GETID lua shard {}", "9".repeat(30_000)),
        format!("DECODEID {long} trace"),
        format!("DECODEID {long}"),
        format!("DECODEID 1 {long}"),
        format!("DECODEID {}1", "0".repeat(30_000)),
        format!("DECODEID {}1 tweets", "0".repeat(30_000)),
        format!("IDSPAN 1 2 {long}"),
        format!("ENCODEID {long} TIME now"),
        format!("ENCODEID tweets {long} now"),
        format!("ENCODEID tweets TIME {long}"),
        format!("ENCODEID tweets TIME now {long} 1 FORCE"),
        format!("ENCODEID tweets TIME now worker {long}"),
        format!("ENCODEID tweets TIME now worker {}", "9".repeat(30_000)),
    ] {
        let reply = Shell::new(&options()).talk(format!("{request}\r\n").as_bytes(), usize::MAX);
        assert!(reply.starts_with(b"-ERR ") && reply.len() < 500, "{} bytes: {}", reply.len(), show(&reply));
    }
    // A wrong name is compared with so many names, so a turn of them ends soon.
    let mut shell = Shell::new(&options());
    let turns = shell.turns;
    shell.talk(&b"GETID twets\r\n".repeat(1000), usize::MAX);
    assert!(shell.turns - turns > 50, "{} turns", shell.turns - turns);
    // So does one of IDs that every generator and every kind reads.
    let turns = shell.turns;
    shell.talk(&b"DECODEID 787043147958976551\r\n".repeat(1000), usize::MAX);
    assert!(shell.turns - turns > 15, "{} turns", shell.turns - turns);
}

/// Every generator's first ID is decoded to its time, and is in the span of that time.
#[test]
fn issued_ids_are_decoded_and_in_their_span() {
    for line in GENERATORS {
        let (name, kind) = line.split_once(' ').unwrap();
        if name == "broken" || name == "elsewhere" || name == "narrow" {
            continue;
        }
        let fields = if name == "lua" { " shard 9" } else { "" };
        let mut shell = Shell::new(&options());
        let reply = shell.talk(format!("GETID {name}{fields}\r\n").as_bytes(), usize::MAX);
        let reply = show(&reply);
        let id = reply.lines().last().unwrap().trim_start_matches(':').to_owned();
        let lines = show(&shell.talk(format!("DECODEID {id} {name}\r\n").as_bytes(), usize::MAX));
        let lines: Vec<&str> = lines.lines().collect();
        if let Some(word) = ["uuid4", "nanoid"].into_iter().find(|word| kind.starts_with(word)) {
            let note = format!("a {word} holds no time");
            assert!(lines.contains(&note.as_str()), "{name}: {lines:?}");
            continue;
        }
        let at = lines.iter().position(|line| *line == "unix_ms").unwrap();
        let unix_ms: i64 = lines[at + 1].trim_start_matches(':').parse().unwrap();
        assert!((0..10_000).contains(&(1_488_793_021_966 - unix_ms)), "{name}: {unix_ms}");
        let span = show(&shell.talk(format!("IDSPAN {unix_ms} {unix_ms} {name}\r\n").as_bytes(), usize::MAX));
        let bounds: Vec<&str> = span.lines().filter(|line| !line.starts_with(['*', '$'])).collect();
        let bounds = bounds.iter().map(|bound| bound.trim_start_matches(':')).collect::<Vec<_>>();
        assert!(bounds[0] <= &*id && &*id <= bounds[1], "{name}: {id} in {bounds:?}");
        assert_eq!(bounds[0].len(), id.len(), "{name}");
    }
    assert_eq!(generators().iter().len(), GENERATORS.len());
}
