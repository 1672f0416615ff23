//! Counting sequences on real sockets, with a server's default store: order, waits, refusals.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Shutdown, TcpListener};
use std::time::Duration;

use crate::support::{Server, Wire, eventually, folder};

/// Options with which the first request for a sequence creates it.
const COUNTS: [&str; 2] = ["--sequence-create", "on-first-use"];

fn value(line: &str) -> i64 {
    line.strip_prefix(':').and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("not a value: {line}"))
}

#[test]
fn values_of_fifty_connections_are_unique_and_ascend_on_each() {
    const CLIENTS: usize = 50;
    const ROUNDS: usize = 15;
    const DEPTH: usize = 20;
    let server = Server::start(&[&COUNTS[..], &["--io-threads", "2"]].concat());
    let port = server.port;
    let all: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn(move || {
                    let mut wire = Wire::connect(port);
                    let depth = if number % 2 == 0 { 1 } else { DEPTH };
                    let mut values = Vec::new();
                    for _ in 0..ROUNDS * DEPTH / depth {
                        wire.send("INCR orders\r\n".repeat(depth));
                        (0..depth).for_each(|_| values.push(value(&wire.line())));
                    }
                    values
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for values in &all {
        assert!(values.is_sorted_by(|one, next| one < next), "out of order: {values:?}");
    }
    let mut values = all.concat();
    values.sort_unstable();
    // One server, one store and no failure: so no value is skipped.
    assert!(
        values.iter().copied().eq(1..=i64::try_from(CLIENTS * ROUNDS * DEPTH).unwrap()),
        "a value is missing or twice"
    );
}

/// On any connection, a value requested after another's reply is larger.
#[test]
fn a_value_requested_after_another_reply_is_larger() {
    let server = Server::start(&[&COUNTS[..], &["--io-threads", "4"]].concat());
    let mut wires: Vec<Wire> = (0..8).map(|_| server.connect()).collect();
    let mut last = 0;
    for round in 0..1_000_usize {
        let wire = &mut wires[round * 7 % 8];
        let request = ["INCR orders", "INCRBY orders 3", "HINCRBY orders cur 2"][round % 3];
        let next = value(&wire.ask(request));
        assert!(next > last, "{next} came after {last}");
        last = next;
    }
}

/// In a pipeline over many names, each reply is the same as for the request alone.
#[test]
fn a_pipeline_over_many_sequences_is_answered_in_order() {
    let server = Server::start(&COUNTS);
    let mut wire = server.connect();
    let mut expected = BTreeMap::<usize, i64>::new();
    for round in 0..3 {
        let (mut sent, mut asked) = (String::new(), Vec::new());
        for number in 0..3_000_usize {
            let name = number * (round + 7) % 500;
            let (request, values) = match number % 4 {
                0 => (format!("INCRBY s:{name} 5"), 5),
                1 => (format!("HINCRBY s:{name} cur 2"), 2),
                _ => (format!("INCR s:{name}"), 1),
            };
            asked.push((name, values));
            write!(sent, "{request}\r\n").unwrap();
        }
        wire.send(sent);
        for (name, values) in asked {
            let reply = wire.line();
            // The creation exceeded the time-out of a statement, because the machine stalled.
            if !reply.contains("it was not made: ") {
                let last = expected.entry(name).or_default();
                *last += values;
                assert_eq!(value(&reply), *last);
            }
        }
    }
}

#[test]
fn in_a_transaction_values_follow_each_other() {
    let server = Server::start(&COUNTS);
    let (mut wire, mut other) = (server.connect(), server.connect());
    wire.send("MULTI\r\nINCR orders\r\nINCRBY users 7\r\nGETID\r\n");
    for queued in ["+OK", "+QUEUED", "+QUEUED", "+QUEUED"] {
        assert_eq!(wire.line(), queued);
    }
    assert_eq!(other.ask("INCR orders"), ":1");
    wire.send("INCR orders\r\nEXEC\r\n");
    assert_eq!([wire.line(), wire.line(), wire.line(), wire.line()], ["+QUEUED", "*4", ":2", ":7"]);
    assert!(wire.line().len() > 15);
    assert_eq!([wire.line(), other.ask("INCR orders")], [":3", ":4"]);
}

/// The default: a lost store must give an error, never 1 again.
#[test]
fn a_sequence_that_was_not_created_is_an_error_that_counts() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    let text = "-ERR no such sequence 'orders': 'SEQUENCE CREATE orders' makes it, and with 'sequence-create on-first-use' so does INCR";
    for request in ["INCR orders", "INCR orders", "INCRBY orders 5", "HINCRBY orders cur 1"] {
        assert_eq!(wire.ask(request), text);
    }
    wire.send("GETID\r\nINCR orders\r\nPING\r\nINCR orders\r\nINCR users\r\nGETID\r\n");
    assert!(wire.line().starts_with(':'));
    assert_eq!([wire.line(), wire.line(), wire.line()], [text, "+PONG", text]);
    assert!(wire.line().starts_with("-ERR no such sequence 'users'") && wire.line().starts_with(':'));
    let stats = wire.ask_bulk("INFO commandstats");
    for (command, calls) in [("incr", 5), ("incrby", 1), ("hincrby", 1)] {
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:"))).unwrap();
        assert!(
            line.contains(&format!("calls={calls},")) && line.ends_with(&format!("failed_calls={calls}")),
            "{line}"
        );
    }
    assert_eq!(wire.info("errorstat_ERR"), "count=7");
}

/// `redis-benchmark` ends at the first error. Its counter counts only if the sequence was created.
#[test]
fn the_counter_of_redis_benchmark_may_be_missing() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    let missing = |name: &str| {
        format!(
            "+NOTSTORED an error for all but redis-benchmark: no such sequence '{name}': 'SEQUENCE CREATE {name}' makes \
             it, and with 'sequence-create on-first-use' so does INCR"
        )
    };
    for name in ["counter:__rand_int__", "counter:000000000440"] {
        wire.send(format!("{}PING\r\nMULTI\r\nINCR {name}\r\nEXEC\r\n", format!("INCR {name}\r\n").repeat(3)));
        let lines: Vec<_> = (0..8).map(|_| wire.line()).collect();
        let text = missing(name);
        assert_eq!(lines, [&*text, &*text, &*text, "+PONG", "+OK", "+QUEUED", "*1", &*text]);
        for other in [format!("INCRBY {name} 1"), format!("HINCRBY {name} cur 1"), format!("INCR {name}0")] {
            assert!(wire.ask(&other).starts_with("-ERR no such sequence"), "{other}");
        }
    }
    assert!(wire.ask_bulk("INFO commandstats").contains("cmdstat_incr:calls=10,"));
    assert_eq!(wire.info("errorstat_ERR"), "count=6");
    assert_eq!([wire.ask("DBSIZE"), wire.ask("SEQUENCE CREATE counter:__rand_int__")], [":0", "+OK"]);
    assert_eq!([wire.ask("INCR counter:__rand_int__"), wire.ask("INCR counter:__rand_int__")], [":1", ":2"]);
}

/// A remedy is a line that works, whatever the name has in it.
#[test]
fn remedies_work_for_names_with_blanks_and_braces() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    for name in ["orders", "{cart} #7", "my orders", "#1", "a:{b}", "makes it"] {
        let missing = wire.ask(&format!("INCR \"{name}\""));
        let (_, behind) = missing.split_once(": '").unwrap_or_else(|| panic!("{missing}"));
        let (remedy, _) = behind.split_once("' makes it, and").unwrap_or_else(|| panic!("{missing}"));
        assert_eq!(wire.ask(remedy), "+OK", "{remedy}");
        assert_eq!([wire.ask(&format!("INCR \"{name}\"")), wire.ask(&format!("INCRBY \"{name}\" 5"))], [":1", ":6"]);
        let watch = wire.ask(&format!("WATCH \"{name}\""));
        let (_, behind) = watch.split_once("Instead: ").unwrap_or_else(|| panic!("{watch}"));
        let (remedy, _) = behind.split_once(" takes the next").unwrap_or_else(|| panic!("{watch}"));
        assert_eq!(wire.ask(remedy), ":7", "{remedy}");
    }
    assert_eq!(wire.ask("DBSIZE"), ":6");
}

#[test]
fn a_server_without_a_store_names_the_remedy() {
    let server = Server::start(&["--sequence-store", "none"]);
    let mut wire = server.connect();
    assert!(wire.ask("INCR orders").starts_with("-ERR sequences are off: the server has no store for them."));
    assert!(wire.ask("GETID").starts_with(':'));
}

/// `CONFIG SET` changes the limits of sessions at once.
#[test]
fn the_largest_step_is_set_while_the_server_runs() {
    let server = Server::start(&COUNTS);
    let mut wire = server.connect();
    assert_eq!(wire.ask("INCRBY orders 500"), ":500");
    assert_eq!(wire.ask("CONFIG SET sequence-incrby-max 400"), "+OK");
    assert_eq!(
        wire.ask("INCRBY orders 500"),
        "-ERR 500 values of 'orders' are too many for one request: sequence-incrby-max allows 400"
    );
    assert_eq!(wire.ask("INCRBY orders 400"), ":900");
}

#[test]
fn a_clean_stop_skips_nothing_and_a_kill_gives_nothing_twice() {
    let dir = folder();
    let count = |wire: &mut Wire| (0..250).map(|_| value(&wire.ask("INCR orders"))).last().unwrap();
    let server = Server::start_in(dir.path(), &COUNTS);
    assert_eq!(count(&mut server.connect()), 250);
    assert!(server.stop().success());
    let server = Server::start_in(dir.path(), &COUNTS);
    assert_eq!(count(&mut server.connect()), 500);
    server.kill();
    let server = Server::start_in(dir.path(), &COUNTS);
    let first = value(&server.connect().ask("INCR orders"));
    assert!(first > 500, "{first} was given already");
}

#[test]
fn a_pause_of_writes_holds_sequences() {
    let server = Server::start(&COUNTS);
    let (mut wire, mut held) = (server.connect(), server.connect());
    for (request, reply) in [("INCR orders", ":1"), ("MULTI\r\nINCR orders\r\nEXEC", "+OK")] {
        assert_eq!(wire.ask("CLIENT PAUSE 100000 WRITE"), "+OK");
        held.send(format!("PING\r\n{request}\r\n"));
        assert_eq!(held.line(), "+PONG");
        wire.wait_info("blocked_clients", "1");
        assert_eq!(wire.ask("CLIENT UNPAUSE"), "+OK");
        assert_eq!(held.line(), reply);
    }
    assert_eq!([held.line(), held.line(), held.line()], ["+QUEUED", "*1", ":2"]);
}

#[test]
fn sequence_commands_are_shown_to_monitors_and_in_the_slow_log() {
    let server = Server::start(&[&COUNTS[..], &["--slowlog-log-slower-than", "0"]].concat());
    let (mut wire, mut monitor) = (server.connect(), server.connect());
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    wire.send("INCR orders\r\nINCR orders\r\nINCRBY orders 5\r\nHINCRBY users cur 7\r\n");
    assert_eq!([value(&wire.line()), value(&wire.line())], [1, 2]);
    assert_eq!([value(&wire.line()), value(&wire.line())], [7, 7]);
    for shown in
        [r#""INCR" "orders""#, r#""INCR" "orders""#, r#""INCRBY" "orders" "5""#, r#""HINCRBY" "users" "cur" "7""#]
    {
        let line = monitor.line();
        assert!(line.ends_with(shown), "{line}");
    }
    wire.send("SLOWLOG GET 10\r\n");
    let log = String::from_utf8(wire.reply()).unwrap().replace("\r\n", " ");
    for shown in ["*2 $4 INCR $6 orders", "*3 $6 INCRBY $6 orders $1 5", "*4 $7 HINCRBY $5 users $3 cur $1 7"] {
        assert!(log.contains(shown), "{shown} is not in {log}");
    }
}

/// Starts a server whose store accepts connections and never sends a byte.
fn with_silent_store(words: &[&str]) -> (Server, TcpListener) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://shop:secret@127.0.0.1:{}/shop?tls=no", silent.local_addr().unwrap().port());
    (Server::start(&[&["--sequence-store", &url][..], words].concat()), silent)
}

#[test]
#[cfg(feature = "postgres")]
fn a_turn_waits_for_all_its_sequences_together() {
    let (server, _silent) = with_silent_store(&["--sequence-wait-ms", "300"]);
    let mut wire = server.connect();
    // Serial waits would take 30 s, longer than the read time-out of this client.
    let names = (0..100).map(|number| format!("INCR s:{number}\r\n")).collect::<Vec<_>>().concat();
    wire.send(format!("GETID\r\nPING\r\n{names}GETID\r\n"));
    assert!(wire.line().starts_with(':'));
    assert_eq!(wire.line(), "+PONG");
    for number in 0..100 {
        let line = wire.line();
        assert!(line.starts_with("-BUSY sequence ") || line.starts_with("-MISCONF sequence "), "s:{number}: {line}");
        assert!(!line.contains("secret"), "{line}");
    }
    assert!(wire.line().starts_with(':'));
}

#[test]
#[cfg(feature = "postgres")]
fn unblock_ends_the_wait_for_values_and_leaves_other_replies() {
    let (server, _silent) = with_silent_store(&["--sequence-wait-ms", "60000"]);
    let mut waiting = server.connect();
    let id = waiting.ask("CLIENT ID").trim_start_matches(':').to_owned();
    let mut wire = server.connect();
    waiting.send("GETID\r\nINCR orders\r\nPING\r\nINCR users\r\n");
    eventually("UNBLOCK succeeds", || wire.ask(&format!("CLIENT UNBLOCK {id} ERROR")) == ":1");
    assert!(waiting.line().starts_with(':'), "the unnamed generator's reply stays");
    let unblocked = "-UNBLOCKED client unblocked via CLIENT UNBLOCK";
    assert_eq!([waiting.line(), waiting.line(), waiting.line()], [unblocked, "+PONG", unblocked]);
    assert!(waiting.ask("GETID").starts_with(':'));
}

/// A client whose connection breaks while it waits for a value is removed at once, before the store responds.
#[test]
#[cfg(feature = "postgres")]
fn a_client_that_resets_while_it_waits_is_removed() {
    let (server, _silent) = with_silent_store(&["--sequence-wait-ms", "60000"]);
    let mut wire = server.connect();
    let mut waiting = server.connect();
    waiting.send("PING\r\nINCR orders\r\n");
    wire.wait_info("blocked_clients", "1");
    // A reset is needed: a client that only finished sending still waits for its reply.
    socket2::SockRef::from(waiting.stream()).set_linger(Some(Duration::ZERO)).unwrap();
    drop(waiting);
    wire.wait_info("connected_clients", "1");
}

#[test]
fn a_client_that_has_finished_sending_gets_all_values() {
    let server = Server::start(&COUNTS);
    let mut wire = server.connect();
    wire.send("INCR orders\r\nPING\r\nINCRBY users 5\r\nGETID\r\nINCR orders\r\n".repeat(500) + "ECHO end\r\n");
    wire.stream().shutdown(Shutdown::Write).unwrap();
    for round in 0..500 {
        assert_eq!(value(&wire.line()), 2 * round + 1);
        assert_eq!(wire.line(), "+PONG");
        assert_eq!(value(&wire.line()), 5 * round + 5);
        assert!(wire.line().starts_with(':'));
        assert_eq!(value(&wire.line()), 2 * round + 2);
    }
    assert_eq!(wire.rest(), "$3\r\nend\r\n");
}

/// Regression: the list of missing names was locked while a name's shard was locked. A client with more names than the
/// list holds stalled the server forever.
#[test]
fn ten_thousand_unknown_names_stall_no_client() {
    const NAMES: usize = 10_000;
    let server = Server::start(&[]);
    let mut wire = server.connect();
    let requests = (0..NAMES).map(|name| format!("INCR unknown:{name}\r\n")).collect::<Vec<_>>().concat();
    let sender = wire.stream().try_clone().unwrap();
    let sending = std::thread::spawn(move || std::io::Write::write_all(&mut &sender, requests.as_bytes()));
    let mut other = server.connect();
    for _ in 0..20 {
        assert!(other.ask("GETID").starts_with(':'));
    }
    for _ in 0..NAMES {
        let reply = wire.line();
        assert!(reply.starts_with("-ERR no such sequence") || reply.starts_with("-ERR sequence 'unknown:"), "{reply}");
    }
    sending.join().unwrap().unwrap();
    assert!(other.ask("GETID").starts_with(':'));
}
