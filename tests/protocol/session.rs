//! Conversations with a [`Session`], and properties for any input.
//!
//! The conversations are in `tests/protocol/transcripts/*.txt`; the shell is a fake with canned replies and counted
//! IDs. Each conversation is sent in one piece, byte by byte, and as arrays of bulk strings, and must return the same
//! bytes. Those marked `redis` also run against a real `redis-server`:
//!
//! ```text
//! cargo test --test protocol session:: -- --ignored
//! ```

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::shell::{Conversation, Feed, Options, Shell, as_arrays, conversations, settings, show};
use crate::support::redis::RedisServer;
use crate::support::talk;
use getid_redis::acl::Users;
use getid_redis::command::{Command, TABLE, Verb};
use getid_redis::resp::{Protocol, Value, encode};
use getid_redis::session::{
    ReplyPiece, Session, Settings, TRANSACTION_BYTES_MAX, TURN_BYTES_MAX, TURN_IDS_MAX, TURN_NS_MAX, Timing, Turn,
};
use proptest::prelude::*;
use redis_protocol::resp2::decode::decode as decode_resp2;
use redis_protocol::resp2::types::{OwnedFrame as Frame2, Resp2Frame as _};
use redis_protocol::resp3::decode::complete::decode as decode_resp3;

/// Runs one conversation in every way it can be sent. Returns the first difference.
fn check(conversation: &Conversation) -> Result<(), String> {
    let mut expected = conversation.expected.clone();
    if conversation.closes {
        expected.extend_from_slice(b"(close)");
    }
    for feed in Feed::ALL {
        let sent = match feed {
            Feed::Arrays if conversation.is_raw => continue,
            Feed::Arrays => as_arrays(&conversation.sent),
            Feed::Whole | Feed::Bytes => conversation.sent.concat(),
        };
        let mut shell = Shell::new(&conversation.options);
        let mut got = shell.talk(&sent, if feed == Feed::Bytes { 1 } else { sent.len() });
        if shell.closed {
            got.extend_from_slice(b"(close)");
        }
        if got != expected {
            return Err(difference(&format!("{}, sent {feed:?}", conversation.title), &expected, &got));
        }
    }
    Ok(())
}

fn difference(title: &str, expected: &[u8], got: &[u8]) -> String {
    format!("{title}\n--- expected\n{}\n--- got\n{}\n\n", show(expected), show(got))
}

#[test]
fn transcripts_hold() {
    let all = conversations();
    assert!(all.len() > 50, "only {} conversations were found", all.len());
    let failures: String = all.iter().filter_map(|conversation| check(conversation).err()).collect();
    assert!(failures.is_empty(), "\n{failures}");
}

#[test]
#[ignore = "needs redis-server"]
fn redis_answers_the_same() {
    let servers = [RedisServer::start(&[]), RedisServer::start(&["--requirepass", "secret"])];
    let mut failures = String::new();
    let mut held = 0;
    for conversation in conversations().iter().filter(|conversation| conversation.with_redis) {
        let server = &servers[usize::from(conversation.options.password)];
        let expected = (conversation.expected.len(), conversation.closes);
        let (got, closed) =
            talk(server.port, &conversation.sent.concat(), usize::MAX, expected, Duration::from_millis(20));
        held += 1;
        if got != conversation.expected || closed != conversation.closes {
            let title = format!("{} (ours is expected; redis closed: {closed})", conversation.title);
            failures += &difference(&title, &conversation.expected, &got);
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(held > 30, "only {held} conversations are marked redis");
}

#[test]
fn a_transaction_that_began_before_a_demotion_is_referred_to_the_holder() {
    let options = Options { cluster: true, sequences: true, ..Options::default() };
    let standby = Arc::new(settings(&Options { standby: true, ..options.clone() }));
    let mut shell = Shell::new(&options);
    assert_eq!(show(&shell.talk(b"MULTI\r\nINCR orders\r\n", usize::MAX)), show(b"+OK\r\n+QUEUED\r\n"));
    shell.session.set_settings(Arc::clone(&standby));
    let expected = b"-MOVED 0 10.1.0.7:7890\r\n-ERR EXEC without MULTI\r\n+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n";
    let got = shell.talk(b"EXEC\r\nEXEC\r\nMULTI\r\nPING\r\nEXEC\r\n", usize::MAX);
    assert_eq!(show(&got), show(expected));
}

/// A client of the HTTP port has no socket of its own, and cannot follow `MOVED`.
#[test]
fn a_client_without_a_socket_is_referred_to_no_other_server() {
    let mut shell = Shell::new(&Options { cluster: true, standby: true, ..Options::default() });
    assert_eq!(shell.talk(b"GETID\r\n", usize::MAX), b"-MOVED 0 10.1.0.7:7890\r\n");
    let own = settings(&Options { cluster: true, standby: true, ..Options::default() });
    shell.session = Session::new(7, Arc::new(own)).speaking(Protocol::Resp2, "http");
    assert!(shell.talk(b"GETID\r\n", usize::MAX).starts_with(b":"));
}

#[test]
#[ignore = "needs redis-server"]
fn the_table_agrees_with_redis() {
    // Commands of getid alone, newer than 7.0, only of a Sentinel, or different on purpose (COMMAND GETKEYS without
    // arguments is 7.2's).
    let others = [
        Verb::GetId,
        Verb::MGetId,
        Verb::DecodeId,
        Verb::EncodeId,
        Verb::SealId,
        Verb::OpenId,
        Verb::Generators,
        Verb::IdReady,
        Verb::IdSpan,
        Verb::ClientSetInfo,
        Verb::ClientNoTouch,
        Verb::CommandGetKeys,
        Verb::CommandGetKeysAndFlags,
    ];
    let is_other = |command: &&Command| {
        let container = command.full_name.split('|').next();
        others.contains(&command.verb)
            || container.is_some_and(|name| ["sentinel", "sequence", "series", "number", "workerid"].contains(&name))
    };
    let server = RedisServer::start(&[]);
    let rows = TABLE.iter().flat_map(|command| std::iter::once(command).chain(command.subcommands));
    for command in rows.filter(|command| !is_other(command)) {
        let request = format!("COMMAND INFO {}\r\n", command.full_name);
        let facts = |reply: &[u8]| -> (Frame2, Vec<String>, Vec<String>, Vec<Frame2>) {
            let (frame, _) = decode_resp2(reply).unwrap().expect("a whole reply");
            let Frame2::Array(mut rows) = frame else { panic!("{frame:?}") };
            let Some(Frame2::Array(fields)) = rows.pop() else { panic!("redis has no {}", command.full_name) };
            let keys = vec![fields[3].clone(), fields[4].clone(), fields[5].clone(), key_specs(&fields[8])];
            (fields[1].clone(), words(&fields[2]), words(&fields[6]), keys)
        };
        let mut redis = server.connect();
        redis.send(&request);
        let theirs = redis.reply();
        let ours = Shell::new(&Options::default()).talk(request.as_bytes(), usize::MAX);
        let (mut ours, mut theirs) = (facts(&ours), facts(&theirs));
        if matches!(command.verb, Verb::Watch | Verb::MemoryUsage) {
            // They have keys in Redis, and accept any word here.
            (ours.3, theirs.3) = (Vec::new(), Vec::new());
        }
        assert_eq!(ours, theirs, "{}", command.full_name);
    }
}

/// Removes notes, which are for human readers.
fn key_specs(frame: &Frame2) -> Frame2 {
    let Frame2::Array(specs) = frame else { panic!("{frame:?}") };
    let of_one = |spec: &Frame2| {
        let Frame2::Array(fields) = spec else { panic!("{spec:?}") };
        let pairs = fields.chunks(2).filter(|pair| pair[0].as_str() != Some("notes"));
        let values = pairs.map(|pair| match pair[0].as_str() {
            Some("flags") => {
                Frame2::Array(words(&pair[1]).into_iter().map(|word| Frame2::BulkString(word.into())).collect())
            }
            _ => pair[1].clone(),
        });
        Frame2::Array(values.collect())
    };
    Frame2::Array(specs.iter().map(of_one).collect())
}

fn words(frame: &Frame2) -> Vec<String> {
    let Frame2::Array(words) = frame else { panic!("{frame:?}") };
    let mut words: Vec<String> = words.iter().map(|word| word.as_str().unwrap().to_owned()).collect();
    words.sort();
    words
}

/// Bound of IDs per turn, including the command that exceeds it.
const IDS_A_TURN: u32 = TURN_IDS_MAX + 100 - 1;
/// Bytes per ID: `$19`, 19 digits and two line ends.
const ID_BYTES_MAX: usize = 26;

#[test]
fn a_hundred_thousand_commands_come_in_bounded_turns() {
    // Requests, their number in a row, and their IDs. IDs are slow in a debug build, so MGETID has few.
    let requests: [(&[u8], u32, u32); 4] = [
        (b"*1\r\n$5\r\nGETID\r\n", 2000, 1),
        (b"*2\r\n$6\r\nMGETID\r\n$3\r\n100\r\n", 5, 100),
        (b"ping\r\n", 1000, 0),
        (b"client setname x\r\n", 1000, 0),
    ];
    // One read of a greedy client: far more than a turn may hold.
    let mut input = Vec::new();
    let (mut commands, mut ids) = (0, 0);
    while input.len() < 1 << 20 {
        for (request, times, count) in requests {
            input.extend_from_slice(&request.repeat(times as usize));
            commands += times;
            ids += u64::from(times * count);
        }
    }
    let rounds = 100_000 / commands + 1;
    let mut shell = Shell::new(&Options::default());
    let (mut turns, mut drawn, mut ran) = (0, 0, 0);
    for _ in 0..rounds {
        let mut rest = &input[..];
        while !rest.is_empty() {
            let used = shell.session.read(rest, &mut shell.turn);
            rest = &rest[used..];
            let turn = &shell.turn;
            assert!(turn.draws.unnamed <= IDS_A_TURN, "{} ids in a turn", turn.draws.unnamed);
            assert_eq!(turn.more, !rest.is_empty());
            let integers = turn.replies().iter().filter(|reply| matches!(reply, ReplyPiece::Integers { .. })).count();
            assert!(integers < 50, "runs of GETID were not put together");
            (turns, drawn, ran) = (turns + 1, drawn + u64::from(turn.draws.unnamed), ran + turn.commands);
            let mut output = Vec::new();
            shell.write(&mut output);
            assert!(output.len() <= IDS_A_TURN as usize * ID_BYTES_MAX + TURN_BYTES_MAX + 100, "{}", output.len());
        }
    }
    assert_eq!(drawn, ids * u64::from(rounds));
    assert_eq!(ran, commands * rounds);
    assert!(turns >= drawn / u64::from(IDS_A_TURN), "{turns}");
}

#[test]
fn a_pipeline_of_mgetid_comes_in_bounded_turns() {
    let mut shell = Shell::new(&Options::default());
    let output = shell.talk(&b"MGETID 100\r\n".repeat(500), usize::MAX);
    assert!(shell.ids_a_turn_max <= IDS_A_TURN && shell.ids_a_turn_max >= TURN_IDS_MAX, "{}", shell.ids_a_turn_max);
    assert_eq!(output.split(|&byte| byte == b'$').count() - 1, 50_000);
}

/// With a layout of few IDs a second, pipelines and transactions run in turns that are as small. No ID is lost.
#[test]
fn where_ids_are_few_turns_are_small() {
    let settings = Settings { turn_ids_max: 10, ..settings(&Options::default()) };
    for input in [
        b"*1\r\n$5\r\nGETID\r\n".repeat(500),
        b"GETID\r\n".repeat(500),
        b"MGETID 4\r\n".repeat(125),
        [&b"MULTI\r\n"[..], &b"GETID\r\n".repeat(500), b"EXEC\r\n"].concat(),
    ] {
        let mut session = Session::new(1, Arc::new(settings.clone()));
        let mut turn = Turn::default();
        let (mut rest, mut ids) = (&input[..], 0);
        loop {
            rest = &rest[session.read(rest, &mut turn)..];
            assert!(turn.draws.unnamed < 10 + 4, "{} ids in a turn", turn.draws.unnamed);
            ids += turn.draws.unnamed;
            if !turn.more {
                break;
            }
        }
        assert!(rest.is_empty());
        assert_eq!(ids, 500);
    }
}

#[test]
fn replies_without_ids_end_a_turn_too() {
    let mut shell = Shell::new(&Options::default());
    let input = b"COMMAND DOCS\r\n".repeat(50);
    let one = Shell::new(&Options::default()).talk(b"COMMAND DOCS\r\n", usize::MAX).len();
    let mut rest = &input[..];
    let mut turns = 0;
    while !rest.is_empty() {
        rest = &rest[shell.session.read(rest, &mut shell.turn)..];
        let mut output = Vec::new();
        shell.write(&mut output);
        assert!(output.len() < TURN_BYTES_MAX + one, "{}", output.len());
        turns += 1;
    }
    assert!(turns >= 50 * one / (TURN_BYTES_MAX + one));
}

#[test]
fn a_long_transaction_is_run_over_several_turns() {
    let mut shell = Shell::new(&Options::default());
    let mut input = b"MULTI\r\n".to_vec();
    input.extend(b"GETID\r\nMGETID 100\r\nTIME\r\n".repeat(1000));
    input.extend(b"EXEC\r\nPING\r\n");
    let output = shell.talk(&input, usize::MAX);
    let exec = output.windows(7).position(|window| window == b"*3000\r\n").expect("EXEC's array");
    let (frame, len) = decode_resp2(&output[exec..]).unwrap().expect("a whole array");
    let Frame2::Array(replies) = frame else { panic!("no array") };
    assert_eq!(replies.len(), 3000);
    assert_eq!(&output[exec + len..], b"+PONG\r\n");
    assert!(shell.turns > 3000 / 3, "an effect ends a turn");
    assert!(shell.ids_a_turn_max <= IDS_A_TURN);
}

#[test]
fn the_queue_of_multi_is_bounded() {
    let mut options = Options::default();
    let mut shell = Shell::new(&options);
    let request = b"*2\r\n$4\r\nECHO\r\n$1000\r\n".iter().chain(&[b'x'; 1000]).chain(b"\r\n").copied();
    let request: Vec<u8> = request.collect();
    assert_eq!(shell.talk(b"MULTI\r\n", usize::MAX), b"+OK\r\n");
    let mut queued = 0;
    let error = loop {
        let output = shell.talk(&request, usize::MAX);
        if output != b"+QUEUED\r\n" {
            break output;
        }
        queued += 1;
    };
    let expected = "-ERR transaction is too large: its commands would take more than 16777216 bytes\r\n";
    assert_eq!(show(&error), show(expected.as_bytes()));
    assert_eq!(queued, TRANSACTION_BYTES_MAX / (1000 + 4 + 4 + 4 + 16));
    let output = shell.talk(b"PING\r\nEXEC\r\nPING\r\n", usize::MAX);
    let expected = "+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n+PONG\r\n";
    assert_eq!(show(&output), show(expected.as_bytes()));

    options.request_bytes_max = 2000;
    let mut shell = Shell::new(&options);
    let output = shell.talk(&[b"MULTI\r\n", &request[..], &request[..]].concat(), usize::MAX);
    let expected = "+OK\r\n+QUEUED\r\n-ERR transaction is too large: its commands would take more than 2000 bytes\r\n";
    assert_eq!(show(&output), show(expected.as_bytes()));
}

#[test]
fn a_turn_costs_no_memory_once_warm() {
    let mut session = Session::new(1, Arc::new(settings(&Options::default())));
    let mut turn = Turn::default();
    let input = b"GETID\r\nPING\r\n".repeat(100);
    session.read(&input, &mut turn);
    let before = turn.replies().as_ptr();
    session.read(&input, &mut turn);
    assert_eq!(turn.replies().as_ptr(), before);
    assert_eq!((turn.draws.unnamed, turn.replies().len()), (100, 200));
    // Replies without an ID in between form one piece, and so does a run of GETID.
    session.read(&[b"PING\r\nMULTI\r\nDISCARD\r\n".repeat(100), b"GETID\r\n".repeat(100)].concat(), &mut turn);
    assert_eq!(turn.replies().len(), 2);
}

/// One command of a random mix, which determines the reply.
#[derive(Clone, Debug)]
enum Step {
    GetId,
    MGetId(i64),
    Echo(String),
    Plain(&'static str),
}

fn step() -> impl Strategy<Value = Step> {
    let plain = [
        "ping",
        "time",
        "info server",
        "command count",
        "command info getid nosuch",
        "client list",
        "client setname",
        "client id",
        "config get *",
        "nosuch a b",
        "select 99",
        "decodeid 144182182078841378",
        "decodeid x",
        "encodeid - time now force",
        "encodeid - time x",
        "idspan 1488793021966 2017-03-06T09:37:02Z",
        "multi",
        "exec",
        "discard",
        "watch a",
        "hello 2",
        "reset",
        "",
    ];
    prop_oneof![
        4 => Just(Step::GetId),
        3 => (-1..103_i64).prop_map(Step::MGetId),
        2 => "[a-z]{0,9}".prop_map(Step::Echo),
        4 => prop::sample::select(plain.to_vec()).prop_map(Step::Plain),
    ]
}

proptest! {
    #![proptest_config(crate::cases(64))]

    #[test]
    fn each_command_gets_one_reply_in_order(steps in prop::collection::vec(step(), 1..80), cut in 1..200_usize) {
        let mut input = Vec::new();
        for step in &steps {
            match step {
                Step::GetId => input.extend_from_slice(b"GETID\r\n"),
                Step::MGetId(count) => write!(input, "MGETID {count}\r\n").unwrap(),
                Step::Echo(text) => write!(input, "ECHO \"{text}\"\r\n").unwrap(),
                Step::Plain(line) => write!(input, "{line}\r\n").unwrap(),
            }
        }
        let output = Shell::new(&Options::default()).talk(&input, cut);
        prop_assert_eq!(&output, &Shell::new(&Options::default()).talk(&input, usize::MAX));

        let mut rest = &output[..];
        let mut next = || -> Frame2 {
            let (frame, len) = decode_resp2(rest).expect("RESP").expect("a reply for each command");
            rest = &rest[len..];
            frame
        };
        let mut queued: Option<Vec<&Step>> = None;
        let mut last_id = 0;
        for step in &steps {
            if matches!(step, Step::Plain("")) {
                continue;
            }
            let frame = next();
            let queues = !matches!(step, Step::Plain("multi" | "exec" | "discard" | "watch a" | "reset"));
            if let Some(queued) = queued.as_mut().filter(|_| queues) {
                let rejected = matches!(step, Step::Plain("nosuch a b" | "client setname"));
                prop_assert_eq!(matches!(frame, Frame2::Error(_)), rejected, "{:?}", frame);
                queued.push(step);
                continue;
            }
            match step {
                Step::Plain("multi") if queued.is_none() => queued = Some(Vec::new()),
                Step::Plain("discard" | "reset") => queued = None,
                Step::Plain("exec") => {
                    let Some(steps) = queued.take() else {
                        prop_assert!(matches!(frame, Frame2::Error(_)));
                        continue;
                    };
                    let Frame2::Array(frames) = frame else {
                        let aborts = steps.iter().any(|step| matches!(step, Step::Plain("nosuch a b" | "client setname")));
                        prop_assert!(aborts);
                        continue;
                    };
                    prop_assert_eq!(frames.len(), steps.len());
                    for (step, frame) in steps.iter().zip(&frames) {
                        check_reply(step, frame, &mut last_id);
                    }
                }
                step => check_reply(step, &frame, &mut last_id),
            }
        }
        prop_assert!(rest.is_empty(), "more replies than commands");
    }

    #[test]
    fn any_bytes_are_answered_alike_however_they_are_cut(
        input in prop::collection::vec(prop::sample::select(b"*$12\r\n\"GETIDgetid 'x\x00\xff".to_vec()), 0..200),
        cut in 1..40_usize,
    ) {
        let mut whole = Shell::new(&Options::default());
        let mut pieces = Shell::new(&Options::default());
        prop_assert_eq!(whole.talk(&input, usize::MAX), pieces.talk(&input, cut));
        prop_assert_eq!(whole.closed, pieces.closed);
    }
}

/// Asserts that `frame` can be the reply to `step`. IDs must ascend.
fn check_reply(step: &Step, frame: &Frame2, last_id: &mut i64) {
    let mut ascend = |id: i64| {
        assert!(id > *last_id, "{id} came after {last_id}");
        *last_id = id;
    };
    match (step, frame) {
        (Step::GetId, Frame2::Integer(id)) => ascend(*id),
        (Step::MGetId(count @ 1..=100), Frame2::Array(ids)) => {
            assert_eq!(i64::try_from(ids.len()), Ok(*count));
            for id in ids {
                ascend(id.as_str().unwrap().parse().unwrap());
            }
        }
        (Step::MGetId(count), Frame2::Error(text)) => {
            assert!(!(1..=100).contains(count));
            assert_eq!(text, &format!("ERR parameters error! argv[1] = {count}"));
        }
        (Step::Echo(text), Frame2::BulkString(data)) => assert_eq!(text.as_bytes(), data),
        (Step::Plain("client id"), Frame2::Integer(id)) => assert_eq!(*id, 7),
        (Step::Plain(_), _) => {}
        (step, frame) => panic!("{step:?} was answered {frame:?}"),
    }
}

#[test]
fn everything_is_resp3_after_hello_3() {
    for line in [
        "COMMAND",
        "COMMAND DOCS",
        "COMMAND INFO client getid nosuch",
        "COMMAND LIST",
        "CLIENT HELP",
        "CLIENT GETNAME",
        "INFO",
        "CONFIG GET *",
        "DECODEID 5",
        "LOLWUT",
        "ROLE",
        "HELLO",
    ] {
        let mut shell = Shell::new(&Options::default());
        shell.talk(b"HELLO 3\r\n", usize::MAX);
        let output = shell.talk(format!("{line}\r\n").as_bytes(), usize::MAX);
        let (_, len) = decode_resp3(&output).unwrap().expect(line);
        assert_eq!(len, output.len(), "{line}");
    }
}

#[test]
fn the_answer_to_an_effect_is_in_the_clients_protocol() {
    let mut session = Session::new(1, Arc::new(settings(&Options::default())));
    let mut turn = Turn::default();
    let mut output = Vec::new();
    session.read(b"HELLO 3\r\n", &mut turn);
    session.reply(&Value::Null, &mut output);
    let mut expected = Vec::new();
    encode(&Value::Null, getid_redis::resp::Protocol::Resp3, &mut expected);
    assert_eq!(output, expected);
}

#[test]
fn the_profile_follows_the_conversation() {
    let mut shell = Shell::new(&Options { password: true, ..Options::default() });
    let view = shell.session.view();
    assert_eq!((&*view.user, view.last_command, view.queued), ("default", "NULL", None));
    shell.talk(b"AUTH secret\r\nSELECT 3\r\nCLIENT SETNAME n\r\nCLIENT SETINFO LIB-VER 1\r\nMULTI\r\nPING\r\n", 9);
    let view = shell.session.view().clone();
    assert_eq!((&*view.user, view.database, &*view.names.name, &*view.names.lib_version), ("default", 3, "n", "1"));
    assert_eq!((view.last_command, view.queued), ("ping", Some(1)));
    shell.talk(b"EXEC\r\nCLIENT LIST\r\n", 9);
    assert_eq!((shell.session.view().last_command, shell.session.view().queued), ("client|list", None));
    shell.talk(b"RESET\r\n", 9);
    let view = shell.session.view();
    assert_eq!((&*view.user, view.database, &*view.names.name, &*view.names.lib_version), ("default", 0, "", "1"));
}

/// Other clients see a changed view only if this call returns it.
#[test]
fn a_change_of_the_profile_is_reported_once() {
    let mut shell = Shell::new(&Options { password: true, ..Options::default() });
    let mut shown = shell.session.take_changed_view().cloned();
    assert!(shown.is_some(), "the first view is new");
    assert_eq!(shell.session.take_changed_view(), None);
    let requests: [&[u8]; 16] = [
        b"AUTH secret\r\n",
        b"*1\r\n$5\r\nGETID\r\n",
        b"SELECT 3\r\n",
        b"CLIENT SETNAME n\r\n",
        b"CLIENT SETINFO LIB-NAME a\r\n",
        b"CLIENT SETINFO LIB-VER 1\r\n",
        b"CLIENT NO-EVICT ON\r\n",
        b"CLIENT NO-TOUCH ON\r\n",
        b"HELLO 3\r\n",
        b"MGETID 2\r\n",
        b"MULTI\r\n",
        b"PING\r\n",
        b"EXEC\r\n",
        b"*1\r\n$5\r\nGETID\r\n",
        b"MONITOR\r\n",
        b"RESET\r\n",
    ];
    for request in requests {
        shell.talk(request, 9);
        let text = request.escape_ascii();
        shown = shell.session.take_changed_view().cloned().or(shown);
        assert_eq!(shown.as_ref(), Some(shell.session.view()), "behind {text}");
    }
    shell.talk(b"AUTH secret\r\nGETID\r\n", 9);
    assert!(shell.session.take_changed_view().is_some());
    shell.talk(b"*1\r\n$5\r\nGETID\r\n*1\r\n$5\r\nGETID\r\nGETID\r\n", 9);
    assert_eq!(shell.session.take_changed_view(), None, "the same again");
}

/// The server closes such a client; until then it must not continue as another user, who may have more rights.
#[test]
fn a_deleted_user_has_ended_at_the_next_read() {
    let mut shell = Shell::new(&Options { password: true, ..Options::default() });
    let login = b"AUTH secret\r\nACL SETUSER u on nopass +@all\r\nAUTH u x\r\nGETID\r\n";
    shell.talk(login, usize::MAX);
    let output = shell.talk(b"ACL DELUSER u\r\n*1\r\n$5\r\nGETID\r\nPING\r\n", usize::MAX);
    assert_eq!(show(&output), ":1\n");
    assert!(shell.closed);
}

/// An operator who replaces a password and closes the user's connections finds only visible logins. So a login ends its
/// turn: later requests are read after it is visible, under the settings at that time.
#[test]
fn nothing_runs_after_a_login_that_is_no_longer_valid() {
    let with = |users: Users| Arc::new(Settings { users: Arc::new(users), ..settings(&Options::default()) });
    let before = Users::default().with_user(b"alice", &["on", ">old", ">other", "+@all"]).unwrap();
    let changed = |rules: &[&str]| before.with_user(b"alice", rules).unwrap();
    let exec = b"MULTI\r\nAUTH alice old\r\nGETID\r\nEXEC\r\n".as_slice();
    for request in [b"AUTH alice old\r\n".as_slice(), b"HELLO 3 AUTH alice old\r\n", exec] {
        for (after, holds) in [
            (before.clone(), true),
            (changed(&["<other"]), true),
            (changed(&["resetpass", "nopass"]), true),
            (changed(&["resetpass", ">new"]), false),
            (changed(&["<old"]), false),
            (changed(&["off"]), false),
            (before.without(&["alice"]).0, false),
        ] {
            let what = format!("{} and {:?}", request.escape_ascii(), after.describe_all());
            let mut session = Session::new(1, with(before.clone()));
            let mut turn = Turn::default();
            session.permit_logins(1);
            let input = [request, &b"GETID\r\n".repeat(1500)].concat();
            let used = session.read(&input, &mut turn);
            assert_eq!(used, request.len(), "{what}: a request behind the login was read with it");
            assert_eq!((turn.draws.unnamed, turn.more), (0, true), "{what}");
            // As the server does: the login becomes visible, then the current settings apply.
            assert_eq!(&*session.view().user, "alice", "{what}");
            session.unused_permits();
            let login = turn.login.take().expect("a login");
            session.set_settings(with(after));
            session.confirm_login(&login);
            assert_eq!(session.has_lost_user(), !holds, "{what}");
            session.read(&input[used..], &mut turn);
            assert_eq!((turn.close, turn.draws.unnamed > 0), (!holds, holds), "{what}");
        }
    }
}

/// `RESET` makes a client the default user again, and a connection begins as that user, without a login if none is
/// needed.
#[test]
fn a_client_loses_the_default_user_once_that_has_a_password() {
    let with = |password| Arc::new(settings(&Options { password, ..Options::default() }));
    let mut session = Session::new(1, with(false));
    let mut turn = Turn::default();
    session.read(b"RESET\r\nPING\r\n", &mut turn);
    assert_eq!((turn.commands, turn.more), (1, true));
    let login = turn.login.take().expect("a login");
    session.confirm_login(&login);
    assert!(!session.has_lost_user());
    session.set_settings(with(true));
    session.confirm_login(&login);
    assert!(session.has_lost_user());
    // A connection without a request has to log in, as if it had come later.
    let mut session = Session::new(2, with(false));
    session.set_settings(with(true));
    assert!(session.is_authenticated(), "a client keeps its access");
    session.begin_again();
    assert!(!session.is_authenticated() && !session.has_lost_user());
    // If RESET is no login, there is nothing to confirm.
    session.read(b"RESET\r\nPING\r\n", &mut turn);
    assert!(turn.login.is_none() && !turn.more);
}

/// A pipeline of refusals is one entry for the log, and costs the turn no more.
#[test]
fn refusals_in_a_row_are_counted() {
    let mut shell = Shell::new(&Options::default());
    shell.talk(b"ACL SETUSER u on nopass -@all\r\nAUTH u x\r\n", usize::MAX);
    let used = shell.session.read(&b"TIME\r\n".repeat(100), &mut shell.turn);
    assert_eq!(used, 600);
    let denials = &shell.turn.denials;
    assert_eq!((denials.len(), denials[0].count, &*denials[0].object, &*denials[0].user), (1, 100, "time", "u"));
    // Each login needs a permit.
    let input = b"PING\r\nauth noname x\r\nAUTH noname x\r\n";
    let (mut used, mut denials) = (0, Vec::new());
    for _ in 0..3 {
        used += shell.session.read(&input[used..], &mut shell.turn);
        denials.push(shell.turn.denials.iter().map(|denial| format!("{} {}", denial.object, denial.user)).collect());
        shell.session.permit_logins(shell.turn.logins_held);
    }
    assert_eq!(
        (used, denials),
        (input.len(), [vec!["ping u".to_owned()], vec!["auth noname".into()], vec!["AUTH noname".into()]].to_vec())
    );
    shell.session.unused_permits();
    shell.session.read(b"", &mut shell.turn);
    assert!(shell.turn.denials.is_empty());
}

#[test]
fn new_rules_hold_from_the_next_read_on() {
    let mut shell = Shell::new(&Options::default());
    assert_eq!(shell.talk(b"PING\r\n", 9), b"+PONG\r\n");
    shell.session.set_settings(Arc::new(settings(&Options { password: true, renamed: true, ..Options::default() })));
    // A client that may run commands keeps that right until RESET.
    let output = shell.talk(b"PING\r\nSHUTDOWN\r\nRESET\r\nPING\r\n", 9);
    let expected = "+PONG\r\n-ERR unknown command 'SHUTDOWN', with args beginning with: \r\n+RESET\r\n\
                    -NOAUTH Authentication required.\r\n";
    assert_eq!(show(&output), show(expected.as_bytes()));
}

#[test]
fn repeated_names_do_not_enlarge_a_reply() {
    let reply =
        |names: &str| Shell::new(&Options::default()).talk(format!("COMMAND INFO {names}\r\n").as_bytes(), 1 << 20);
    assert!(reply("getid nosuch getid").starts_with(b"*3\r\n*10\r\n"), "as Redis answers");
    let (once, often) = (reply("client"), reply(&"client ".repeat(5000)));
    assert!(often.len() <= once.len(), "{} bytes for 5,000 names, {} for one", often.len(), once.len());
}

#[test]
fn a_muted_turn_has_a_bound_too() {
    let mut shell = Shell::new(&Options::default());
    shell.talk(b"CLIENT REPLY OFF\r\n", usize::MAX);
    for (request, count) in [("COMMAND\r\n", 40), ("AUTH noname nothing\r\n", 4000)] {
        let turns = shell.turns;
        assert_eq!(shell.talk(request.repeat(count).as_bytes(), usize::MAX), b"");
        let turns = shell.turns - turns;
        assert!(turns >= 3, "{count} of {request:?} took {turns} turns");
    }
}

/// Returns a time that advances by 50 us at each call.
fn hurrying_clock() -> u64 {
    static NS: AtomicU64 = AtomicU64::new(0);
    NS.fetch_add(50_000, Ordering::Relaxed)
}

#[test]
fn a_turn_ends_when_its_commands_took_long() {
    let mut settings = settings(&Options::default());
    settings.timing = Timing { now_ns: hurrying_clock, ..settings.timing };
    let mut session = Session::new(7, Arc::new(settings));
    for input in [
        b"COMMAND COUNT\r\n".repeat(100),
        [&b"MULTI\r\n"[..], &b"COMMAND COUNT\r\n".repeat(100), b"EXEC\r\n"].concat(),
        [&b"CLIENT REPLY OFF\r\n"[..], &b"PING\r\n".repeat(100)].concat(),
    ] {
        let (mut turn, mut used, mut ran) = (Turn::default(), 0, 0);
        loop {
            used += session.read(&input[used..], &mut turn);
            ran += turn.commands;
            // Queued commands take no time.
            assert!(turn.commands <= 2 + u32::try_from(TURN_NS_MAX / 50_000).unwrap(), "{} commands", turn.commands);
            if !turn.more {
                break;
            }
        }
        assert_eq!(used, input.len());
        assert!(ran >= 100, "{ran}");
    }
    // An empty line has no reply, but takes time.
    let (mut turn, empty) = (Turn::default(), b"\r\n".repeat(1 << 20));
    assert!(session.read(&empty, &mut turn) < 100_000);
    assert!(turn.more);
}

fn array_of(args: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        request.extend(format!("${}\r\n", arg.len()).into_bytes());
        request.extend_from_slice(arg);
        request.extend(b"\r\n");
    }
    request
}

/// Sends a request in pieces. Asserts that the reply is that of the whole request, and that little of it is held back.
#[track_caller]
fn check_not_kept(options: &Options, before: &[u8], request: &[u8], answer: &str) {
    let mut whole = Shell::new(options);
    whole.talk(before, usize::MAX);
    assert_eq!(show(&whole.talk(request, usize::MAX)), show(answer.as_bytes()));
    for cut in [1000, 16 << 10, 100_000] {
        let mut shell = Shell::new(options);
        shell.talk(before, usize::MAX);
        let mut got = Vec::new();
        for piece in request.chunks(cut) {
            got.extend(shell.talk(piece, usize::MAX));
            let held = shell.pending().len();
            assert!(held <= 64 * 1024 + cut, "{held} bytes are held");
        }
        assert_eq!(show(&got), show(answer.as_bytes()), "in pieces of {cut}");
        assert_eq!(shell.talk(b"*1\r\n$5\r\nRESET\r\n", usize::MAX), b"+RESET\r\n");
    }
}

#[test]
fn refused_requests_are_not_kept() {
    let (large, small) = (vec![b'x'; 500_000], &b"ab"[..]);
    let (plain, password) = (Options::default(), Options { password: true, ..Options::default() });
    let many = |name: &'static [u8], count: usize| [vec![name], vec![small; count]].concat();
    let quoted = "x".repeat(128);
    check_not_kept(
        &plain,
        b"",
        &array_of(&[b"LINSERT", b"key", &large]),
        &format!("-ERR unknown command 'LINSERT', with args beginning with: 'key' '{}' \r\n", "x".repeat(128 - 6)),
    );
    check_not_kept(
        &plain,
        b"",
        &array_of(&[&large]),
        &format!("-ERR unknown command '{quoted}', with args beginning with: \r\n"),
    );
    check_not_kept(
        &plain,
        b"",
        &array_of(&[b"CLIENT", &large]),
        &format!("-ERR unknown subcommand '{quoted}'. Try CLIENT HELP.\r\n"),
    );
    check_not_kept(
        &plain,
        b"",
        &array_of(&many(b"GETID", 300_000)),
        "-ERR wrong number of arguments for 'getid' command\r\n",
    );
    check_not_kept(
        &plain,
        b"",
        &array_of(&[b"ECHO", &large, &large]),
        "-ERR wrong number of arguments for 'echo' command\r\n",
    );
    check_not_kept(
        &plain,
        b"",
        &array_of(&[b"PING", &large, &large]),
        "-ERR wrong number of arguments for 'ping' command\r\n",
    );
    check_not_kept(
        &plain,
        b"",
        &array_of(&many(b"WATCH", 100_000)),
        "-ERR too many arguments for 'watch' command: 100001, and it takes at most 4096\r\n",
    );
    // A line is short enough to be kept, and may have as many arguments.
    check_not_kept(
        &plain,
        b"",
        format!("WATCH{}\r\n", " k".repeat(5_000)).as_bytes(),
        "-ERR too many arguments for 'watch' command: 5001, and it takes at most 4096\r\n",
    );
    check_not_kept(
        &plain,
        b"",
        &array_of(&[b"WATCH", &large]),
        "-ERR arguments of 'watch' command are too large: it takes at most 65536 bytes\r\n",
    );
    check_not_kept(
        &plain,
        b"MULTI\r\n",
        &array_of(&[b"WATCH", &large]),
        "-ERR arguments of 'watch' command are too large: it takes at most 65536 bytes\r\n",
    );
    check_not_kept(
        &password,
        b"AUTH secret\r\nACL SETUSER default -echo\r\n",
        &array_of(&[b"MULTI", &large]),
        "-ERR wrong number of arguments for 'multi' command\r\n",
    );
    // A request whose reply contains it is kept.
    let mut shell = Shell::new(&plain);
    let echo = array_of(&[b"ECHO", &large]);
    assert_eq!(shell.talk(&echo, 1000).len(), large.len() + "$500000\r\n\r\n".len());
    // The largest permitted number of arguments.
    let most = many(b"WATCH", 4095);
    assert!(shell.talk(&array_of(&most), 1000).starts_with(b"-ERR WATCH is refused to a sequence"));
}

#[test]
fn denied_requests_are_not_kept_and_are_logged() {
    let users = Users::default().with_user(b"default", &[b"-echo".to_vec()]).unwrap();
    let settings = Settings { users: Arc::new(users), ..settings(&Options::default()) };
    let mut session = Session::new(7, Arc::new(settings));
    let request = array_of(&[b"ECHO", &vec![b'x'; 500_000]]);
    let (mut turn, mut output) = (Turn::default(), Vec::new());
    let used = session.read(&request[..100_000], &mut turn);
    assert_eq!((used, turn.denials.len(), turn.is_empty()), (100_000, 0, true));
    assert_eq!(session.read(&request[used..], &mut turn), request.len() - used);
    session.write(&turn, Ok(&[]), &mut output);
    assert_eq!(show(&output), show(b"-NOPERM this user has no permissions to run the 'echo' command\r\n"));
    assert_eq!((turn.denials.len(), turn.denials[0].object.as_str()), (1, "echo"));
}
