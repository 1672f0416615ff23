//! Generators over sequences: formats and serial numbers, on real sockets with the default store.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::support::{Server, eventually, folder};

const INVOICE: [&str; 6] = ["--generator", "invoice", "serial", "INV{yyyyMMdd}-{n:6}", "zone", "Asia/Shanghai"];

/// Sends one request and returns its reply, without the frame of a bulk string.
fn ask(server: &Server, request: &str) -> String {
    let mut wire = server.connect();
    wire.send(format!("{request}\r\n"));
    text_of(&wire.reply())
}

fn text_of(reply: &[u8]) -> String {
    let reply = String::from_utf8_lossy(reply).into_owned();
    let lines: Vec<&str> = reply.lines().filter(|line| !line.starts_with('$') && !line.starts_with('*')).collect();
    lines.join(" ")
}

#[test]
fn formats_and_serials_are_given_in_order() {
    let words = "--generator short sequence format base62 pad 7 --generator num sequence --generator tiny serial {n:1}";
    let words: Vec<&str> = words.split(' ').chain(INVOICE).collect();
    let server = Server::start(&words);
    assert_eq!(ask(&server, "GETID short"), "0000001");
    assert_eq!(ask(&server, "MGETID 3 short"), "0000002 0000003 0000004");
    assert_eq!(ask(&server, "GETID num"), ":1");
    assert_eq!(ask(&server, "MGETID 2 num"), "2 3");
    let first = ask(&server, "GETID invoice");
    assert!(first.starts_with("INV20") && first.ends_with("-000001") && first.len() == 18, "{first}");
    assert_eq!(ask(&server, "MGETID 9 tiny"), "1 2 3 4 5 6 7 8 9");
    let reply = ask(&server, "GETID tiny");
    assert!(
        reply.starts_with("-ERR generator 'tiny' has no more numbers now") && reply.contains("overflow grow"),
        "{reply}"
    );
    let reply = ask(&server, "INCR short");
    assert!(reply.starts_with("-WRONGTYPE") && reply.contains("GETID short"), "{reply}");
    let reply = ask(&server, "GETID invoice shard 1");
    assert!(reply.starts_with("-ERR generator 'invoice' takes no fields"), "{reply}");
}

#[test]
fn the_generators_command_lists_counters() {
    let server = Server::start(&[&INVOICE[..], &["--generator", "short", "sequence", "format", "hex"]].concat());
    let reply = ask(&server, "GENERATORS");
    assert!(
        reply.contains("invoice kind serial layout INV{yyyyMMdd}-{n:6} format reset day zone Asia/Shanghai"),
        "{reply}"
    );
    assert!(reply.contains("short kind sequence layout") && reply.contains("hex pad 16"), "{reply}");
}

#[test]
fn pipelines_and_transactions_mix_counters() {
    let server = Server::start(&[&INVOICE[..], &["--generator", "num", "sequence"]].concat());
    let mut wire = server.connect();
    wire.send("GETID num\r\nGETID\r\nGETID invoice\r\nGETID num\r\nMGETID 2 invoice\r\nPING\r\nMULTI\r\nGETID num\r\nGETID invoice\r\nEXEC\r\n");
    let replies: Vec<String> = (0..9).map(|_| text_of(&wire.reply())).collect();
    assert_eq!((replies[0].as_str(), replies[3].as_str()), (":1", ":2"));
    assert!(replies[2].ends_with("-000001"), "{replies:?}");
    assert!(replies[4].ends_with("-000003"), "{replies:?}");
    assert_eq!(&replies[5..], ["+PONG", "+OK", "+QUEUED", "+QUEUED"]);
    let exec = text_of(&wire.reply());
    assert!(exec.starts_with(":3 INV") && exec.ends_with("-000004"), "{exec}");
}

#[test]
fn no_serial_number_twice_over_connections_and_lives() {
    let dir = folder();
    let words = [&INVOICE[..], &["--io-threads", "2"]].concat();
    let mut seen = HashSet::new();
    for is_killed in [true, false, true, false] {
        let server = Server::start_in(dir.path(), &words);
        let port = server.port;
        let all: Vec<String> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(move || {
                        let mut wire = crate::support::Wire::connect(port);
                        wire.send("GETID invoice\r\n".repeat(500));
                        let ids: Vec<String> = (0..500).map(|_| text_of(&wire.reply())).collect();
                        assert!(ids.is_sorted(), "out of order");
                        ids
                    })
                })
                .collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        for id in all {
            assert!(id.starts_with("INV"), "{id}");
            assert!(seen.insert(id.clone()), "{id} twice");
        }
        if is_killed {
            server.kill();
        } else {
            assert!(server.stop().success());
        }
    }
    assert_eq!(seen.len(), 4 * 8 * 500);
}

/// The month's counter begins above those of its days; otherwise `INV20261122-000001` would come twice.
#[test]
fn a_counter_that_begins_again_less_often_continues_above_earlier_values() {
    let dir = folder();
    let mut seen = HashSet::new();
    let template = "INV{yyyyMMdd}-{n:6}";
    for reset in ["day", "month", "day", "never", "month"] {
        let words = ["--generator", "invoice", "serial", template, "zone", "UTC", "reset", reset];
        let server = Server::start_in(dir.path(), &words);
        for _ in 0..5 {
            let id = ask(&server, "GETID invoice");
            assert!(id.starts_with("INV20"), "{id}");
            assert!(seen.insert(id.clone()), "{id} twice");
        }
        server.kill();
    }
}

#[test]
fn counters_are_added_and_removed_while_the_server_runs() {
    let dir = folder();
    let file = dir.path().join("getid.conf");
    let write = |lines: &str| fs::write(&file, format!("{lines}hz 10\n")).unwrap();
    write("");
    let config = file.to_str().unwrap().to_owned();
    let server = Server::start_in(dir.path(), &["--config", &config]);
    let reply = ask(&server, "GETID num");
    assert!(reply.contains("wrong number of arguments"), "{reply}");
    write("generator num sequence format hex pad 4\n");
    server.signal(Signal::SIGHUP);
    eventually("the generator is there", || ask(&server, "GETID num") == "0001");
    write("generator num sequence format decimal pad 4\n");
    server.signal(Signal::SIGHUP);
    // Under any name it is one sequence.
    eventually("the generator has another format", || {
        let id = ask(&server, "GETID num");
        id.parse::<u32>().is_ok_and(|value| value > 1) && !id.contains(|digit: char| digit.is_ascii_alphabetic())
    });
    write("");
    server.signal(Signal::SIGHUP);
    eventually("the generator is gone", || ask(&server, "GETID num").contains("wrong number of arguments"));
}

/// Removes the sequences' SQLite file with its log from the folder; other files stay.
fn lose_store(dir: &Path) {
    let files = fs::read_dir(dir).unwrap().map(|found| found.unwrap().path());
    let of_store =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sequences-"));
    let lost: Vec<PathBuf> = files.filter(of_store).collect();
    assert!(!lost.is_empty(), "no store file was found");
    for path in lost {
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_store_that_is_lost_gives_an_error_and_never_a_fresh_1() {
    let words = "--generator num sequence --generator year serial {yyyy}-{n:6} zone UTC --generator tiny serial {n:6}";
    for create in ["explicit", "on-first-use"] {
        let dir = folder();
        let words: Vec<&str> = words.split(' ').chain(["--sequence-create", create]).collect();
        let server = Server::start_in(dir.path(), &words);
        let ask_all = |server: &Server| ["num", "year", "tiny"].map(|name| ask(server, &format!("GETID {name}")));
        let [num, year, tiny] = ask_all(&server);
        assert!(num == ":1" && year.ends_with("-000001") && tiny == "000001", "{num} {year} {tiny}");
        server.kill();
        let server = Server::start_in(dir.path(), &words);
        assert!(ask_all(&server).iter().all(|reply| !reply.starts_with('-')), "the store is there");
        server.kill();
        lose_store(dir.path());

        let mut server = Server::start_in(dir.path(), &words);
        for log in ask_all(&server) {
            assert!(log.starts_with("-MISCONF") && log.contains("has no row of it"), "{log}");
        }
        server.wait_log("has no row of it");
        for name in ["num", "year", "tiny"] {
            let reply = ask(&server, &format!("SEQUENCE INFO {name}"));
            assert!(reply.starts_with(&format!("-ERR generator '{name}' has no row")), "{reply}");
            assert_eq!(ask(&server, &format!("SEQUENCE RAISE {name} 500")), "+OK");
        }
        let [num, year, tiny] = ask_all(&server);
        assert!(num == ":501" && year.ends_with("-000501") && tiny == "000501", "{num} {year} {tiny}");
        // A generator without earlier draws begins at 1, in this store as in any other.
        let more: Vec<&str> = words.iter().copied().chain(["--generator", "new", "sequence"]).collect();
        assert!(server.stop().success());
        let server = Server::start_in(dir.path(), &more);
        assert_eq!(ask(&server, "GETID new"), ":1");
        assert_eq!(ask(&server, "GETID num"), ":502");
    }
}

#[test]
fn the_name_of_a_serial_is_not_a_sequences() {
    let server = Server::start(&["--generator", "tiny", "serial", "{n:6}", "--generator", "num", "sequence"]);
    let reply = ask(&server, "SEQUENCE CONFIRM tiny");
    assert!(reply.starts_with("-ERR generator 'tiny' has no row"), "{reply}");
    assert_eq!(
        ask(&server, "SEQUENCE RAISE tiny 41"),
        "+OK",
        "the sequence may start above the values of another program"
    );
    assert_eq!(ask(&server, "GETID tiny"), "000042");
    let reply = ask(&server, "GETID tinny");
    assert!(reply.starts_with("-ERR no generator 'tinny'; did you mean 'tiny'?"), "{reply}");
    assert!(ask(&server, "SEQUENCE INFO tiny").contains("name tiny last :42"));
    assert_eq!(ask(&server, "SEQUENCE RAISE tiny 7"), "-ERR a sequence never goes back: 'tiny' is at 42");
    let refused = "CREATE tiny|ALTER tiny cache 5|DROP tiny|NEXT tiny|ADOPT tiny".split('|');
    let refused = refused.map(|words| format!("SEQUENCE {words}")).chain(["SET tiny 9", "GET tiny"].map(Into::into));
    for request in refused {
        let reply = ask(&server, &request);
        assert!(reply.starts_with("-WRONGTYPE") && reply.contains("GETID tiny"), "{request}: {reply}");
    }
    // A generator of the kind `sequence` draws from the sequence of its name.
    assert_eq!(ask(&server, "SEQUENCE CREATE num START 7"), "+OK");
    assert_eq!(ask(&server, "GETID num"), ":7");
    assert_eq!(ask(&server, "GET num"), "7");
}
