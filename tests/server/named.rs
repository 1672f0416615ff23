//! Named generators on real sockets: order, waits, pauses, users, and generators that are added and removed.

use std::collections::HashSet;
use std::fs;
use std::net::Shutdown;

use crate::files::with_file;
use crate::support::{Server, Wire, eventually, folder};
use nix::sys::signal::Signal;

/// A generator of an ID per ms, which a new server starts at the borrow limit, so that its clients wait.
const FEW: [&str; 9] =
    ["--generator", "few", "layout", "time:41@1ms", "server-id:2", "epoch", "0", "--id-max-wait-ms", "100000"];

fn array_of(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let args = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), args.collect::<Vec<_>>().concat())
}

#[test]
fn ids_of_all_kinds_are_unique_and_in_order_over_many_connections() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 500;
    let words = "--generator tweets twitter --generator trace uuid7 --generator short leaf format base62";
    let words: Vec<&str> = words.split(' ').chain(["--generator", "v4", "uuid4", "--io-threads", "2"]).collect();
    let server = Server::start(&words);
    let requests =
        ["GETID tweets", "GETID tweets", "GETID", "GETID trace", "GETID short", "MGETID 3 trace", "GETID v4"];
    let pipeline = requests.map(array_of).concat().repeat(ROUNDS);
    let (port, pipeline) = (server.port, &pipeline);
    let all: Vec<Vec<String>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(move || {
                    let mut wire = Wire::connect(port);
                    let sender = wire.stream().try_clone().unwrap();
                    let sending = scope.spawn(move || std::io::Write::write_all(&mut &sender, pipeline.as_bytes()));
                    // IDs per generator: the two integers, and the three kinds of text.
                    let mut ids: [Vec<String>; 5] = Default::default();
                    for _ in 0..ROUNDS {
                        for request in requests {
                            let at = ["GETID", "GETID tweets", "trace", "GETID short", "GETID v4"]
                                .iter()
                                .rposition(|end| request.ends_with(end) || request == *end)
                                .unwrap();
                            let reply = String::from_utf8(wire.reply()).unwrap();
                            let lines = reply.lines().filter(|line| !line.starts_with(['*', '$']));
                            ids[at].extend(lines.map(|line| line.trim_start_matches(':').to_owned()));
                        }
                    }
                    sending.join().unwrap().unwrap();
                    let [unnamed, tweets, trace, short, v4] = ids;
                    for ids in [&unnamed, &tweets, &trace, &short] {
                        assert!(ids.is_sorted_by(|one, next| (one.len(), one) < (next.len(), next)), "out of order");
                    }
                    assert_eq!([unnamed.len(), tweets.len(), trace.len()], [ROUNDS, 2 * ROUNDS, 4 * ROUNDS]);
                    [unnamed, tweets, trace, short, v4].concat()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let ids: Vec<String> = all.concat();
    let unique: HashSet<&String> = ids.iter().collect();
    assert_eq!((unique.len(), ids.len()), (ids.len(), CLIENTS * ROUNDS * 9));
}

/// Two generators wait in one turn; the commands behind them wait with them.
#[test]
fn a_client_that_waits_for_several_generators_gets_all_in_order() {
    let words = [&FEW[..], &["--generator", "less", "layout", "time:41@2ms", "server-id:2", "epoch", "0"]].concat();
    let server = Server::start(&words);
    let mut wire = server.connect();
    wire.send("GETID less\r\nMGETID 40 few\r\nGETID\r\nGETID few\r\nMGETID 20 less\r\nPING\r\n");
    let first_less: u64 = wire.line().trim_start_matches(':').parse().unwrap();
    let few = wire.read_ids(40);
    let unnamed = wire.line();
    let last_few: u64 = wire.line().trim_start_matches(':').parse().unwrap();
    let less = wire.read_ids(20);
    assert_eq!((wire.line(), unnamed.starts_with(':')), ("+PONG".to_owned(), true));
    assert!(few.is_sorted() && few[39] < last_few && first_less < less[0] && less.is_sorted());
}

#[test]
fn a_client_that_has_finished_sending_gets_all_ids_of_named_generators() {
    let server = Server::start(&FEW);
    let mut wire = server.connect();
    wire.send("MGETID 100 few\r\nPING\r\nGETID few\r\nGETID\r\nGETID few\r\n".repeat(5) + "ECHO end\r\n");
    wire.stream().shutdown(Shutdown::Write).expect("shut down");
    let mut last = 0;
    let mut ascend = |id: u64| {
        assert!(id > last, "{id} came after {last}");
        last = id;
    };
    for _ in 0..5 {
        wire.read_ids(100).into_iter().for_each(&mut ascend);
        assert_eq!(wire.line(), "+PONG");
        ascend(wire.line().trim_start_matches(':').parse().unwrap());
        assert!(wire.line().starts_with(':'));
        ascend(wire.line().trim_start_matches(':').parse().unwrap());
    }
    assert_eq!(wire.rest(), "$3\r\nend\r\n");
}

#[test]
fn unblock_ends_the_wait_for_a_named_generator_and_leaves_other_replies() {
    let server = Server::start(&FEW);
    let mut waiting = server.connect();
    let id = waiting.ask("CLIENT ID").trim_start_matches(':').to_owned();
    let mut wire = server.connect();
    // 5,000 IDs take five seconds.
    waiting.send("GETID\r\n".to_owned() + &"MGETID 100 few\r\n".repeat(50));
    eventually("UNBLOCK succeeds", || wire.ask(&format!("CLIENT UNBLOCK {id} ERROR")) == ":1");
    assert!(waiting.line().starts_with(':'), "the unnamed generator's reply stays");
    assert_eq!(waiting.line(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    eventually("all draws are refused", || waiting.line() == "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
}

#[test]
fn a_number_that_its_format_has_no_room_for_is_an_error_that_counts() {
    let server = Server::start(&["--generator", "narrow", "twitter", "format", "decimal", "pad", "17"]);
    let mut wire = server.connect();
    for request in ["GETID narrow", "MGETID 3 narrow", "GETID narrow"] {
        assert!(wire.ask(request).starts_with("-ERR generator 'narrow' is at "), "{request}");
    }
    assert_eq!(wire.info("errorstat_ERR"), "count=3");
    let stats = wire.ask_bulk("INFO commandstats");
    for (command, failed) in [("cmdstat_getid:", "2"), ("cmdstat_mgetid:", "1")] {
        let line = stats.lines().find(|line| line.starts_with(command)).unwrap();
        assert!(line.ends_with(&format!("failed_calls={failed}")), "{line}");
    }
}

#[test]
fn a_pause_holds_named_generators_too() {
    let server = Server::start(&["--generator", "tweets", "twitter"]);
    let (mut wire, mut held) = (server.connect(), server.connect());
    for request in ["GETID tweets", "MGETID 2 tweets", "GETID"] {
        assert_eq!(wire.ask("CLIENT PAUSE 100000 WRITE"), "+OK");
        held.send(format!("PING\r\n{request}\r\n"));
        assert_eq!(held.line(), "+PONG");
        wire.wait_info("blocked_clients", "1");
        assert_eq!(wire.ask("CLIENT UNPAUSE"), "+OK");
        let reply = String::from_utf8(held.reply()).unwrap();
        assert!(reply.starts_with([':', '*']), "{reply}");
    }
}

#[test]
fn a_user_may_draw_from_some_generators_and_denials_are_logged() {
    let server = Server::start(&["--generator", "orders:eu", "twitter", "--generator", "tweets", "twitter"]);
    let (mut admin, mut user) = (server.connect(), server.connect());
    assert_eq!(admin.ask("ACL SETUSER shop on nopass -@all +getid +mgetid ~orders:*"), "+OK");
    assert_eq!(user.ask("AUTH shop x"), "+OK");
    assert!(user.ask("GETID orders:eu").starts_with(':'));
    assert!(user.ask("GETID").starts_with(':'));
    let refused = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    for request in ["GETID tweets", "GETID tweets", "MGETID 5 tweets", "GETID missing"] {
        assert_eq!(user.ask(request), refused, "{request}");
    }
    let pipeline = array_of("GETID tweets").repeat(3) + &array_of("GETID orders:eu");
    user.send(pipeline);
    assert_eq!([user.line(), user.line(), user.line()], [refused; 3]);
    assert!(user.line().starts_with(':'));
    admin.send("ACL LOG\r\n");
    let log = String::from_utf8(admin.reply()).unwrap();
    let log: Vec<&str> = log.split("\r\n").collect();
    let entry = |from: usize| {
        let behind = |name: &str| log[from..].iter().position(|line| *line == name).map(|at| log[from + at + 2]);
        (behind("reason"), behind("object"), behind("username"))
    };
    assert_eq!(entry(0), (Some("key"), Some("tweets"), Some("shop")));
    assert!(log.contains(&"missing"), "{log:?}");
    assert_eq!(admin.info("acl_access_denied_key"), "7");
    assert_eq!(admin.info("acl_access_denied_cmd"), "0");
    // The user's rules change while it is connected.
    assert_eq!(admin.ask("ACL SETUSER shop ~tweets"), "+OK");
    assert!(user.ask("GETID tweets").starts_with(':'));
}

/// The first generator makes names valid, and after the last is removed the fork's error returns.
#[test]
fn names_come_and_go_with_a_reload() {
    let dir = folder();
    let file = dir.path().join("getid.conf");
    let write = |lines: &str| fs::write(&file, lines).unwrap();
    write("");
    let server = Server::try_start_in(dir.path(), &[], |command| with_file(command, &file)).unwrap();
    let mut wire = server.connect();
    let wrong = "-ERR wrong number of arguments for 'getid' command";
    assert_eq!(wire.ask("GETID tweets"), wrong);
    write("generator tweets twitter\n");
    server.signal(Signal::SIGHUP);
    eventually("the generator exists", || wire.ask("GETID tweets").starts_with(':'));
    // Other changes leave it as it is.
    assert_eq!(wire.ask("CONFIG SET id-mgetid-max 50"), "+OK");
    assert_eq!(wire.ask("COMMAND GETKEYS GETID tweets"), "*1");
    wire.line();
    wire.line();
    write("generator other leaf\n");
    server.signal(Signal::SIGHUP);
    eventually("the other generator exists", || wire.ask("GETID other").starts_with(':'));
    assert!(wire.ask("GETID tweets").starts_with("-ERR no generator 'tweets'"));
    write("");
    server.signal(Signal::SIGHUP);
    eventually("the other generator is removed", || wire.ask("GETID other") == wrong);
    assert!(wire.ask("GETID").starts_with(':'));
}
