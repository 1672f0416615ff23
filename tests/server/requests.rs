//! Requests with a name on real sockets: a repetition has the first reply, over crashes, users, races and transactions.

use std::collections::{HashMap, HashSet};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::support::postgres::PostgresServer;
use crate::support::{Server, Wire, eventually, folder};

const GENERATORS: [&str; 14] = [
    "--generator",
    "tweets",
    "twitter",
    "--generator",
    "invoice",
    "serial",
    "INV{yyyy}-{n:4}",
    "zone",
    "UTC",
    "cache",
    "0",
    "--generator",
    "trace",
    "uuid7",
];

/// Sends a command, and returns its whole reply as text.
fn reply(wire: &mut Wire, command: &str) -> String {
    wire.send(format!("{command}\r\n"));
    String::from_utf8(wire.reply()).unwrap()
}

#[test]
fn a_repeated_request_has_the_first_reply_over_lives_and_connections() {
    let dir = folder();
    let server = Server::start_in(dir.path(), &GENERATORS);
    let mut wire = server.connect();
    assert_eq!(wire.ask("SEQUENCE CREATE orders"), "+OK");
    let commands = [
        "GETID - REQUEST a",
        "MGETID 3 - REQUEST three",
        "GETID tweets REQUEST a",
        "MGETID 100 tweets REQUEST all FOR 60",
        "GETID trace REQUEST a",
        "GETID invoice REQUEST a",
        "MGETID 2 invoice REQUEST two",
        "SEQUENCE NEXT orders COUNT 1000 REQUEST a",
        "SEQUENCE NEXT orders ABOVE 10 COUNT 3 REQUEST above",
    ];
    let first = commands.map(|command| reply(&mut wire, command));
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), commands.len(), "{first:?}");
    assert!(first.iter().all(|reply| !reply.starts_with('-')), "{first:?}");
    assert_eq!(commands.map(|command| reply(&mut server.connect(), command)), first);
    // The numbers behind are not skipped by repetitions.
    assert!(reply(&mut wire, "GETID invoice").ends_with("-0004\r\n"));
    server.kill();
    let server = Server::start_in(dir.path(), &GENERATORS);
    assert_eq!(commands.map(|command| reply(&mut server.connect(), command)), first);
    let mut wire = server.connect();
    // A repetition has the range of the first request, whatever value it is to be above.
    assert_eq!(reply(&mut wire, "SEQUENCE NEXT orders COUNT 3 ABOVE 999999 REQUEST above"), first[8]);
    assert_eq!(wire.ask("SEQUENCE NEXT orders COUNT 999 REQUEST a"), "-ERR request 'a' was made with other arguments");
    assert_eq!(wire.ask("MGETID 2 tweets REQUEST a"), "-ERR request 'a' was made with other arguments");
    let one = reply(&mut wire, "MGETID 1 tweets REQUEST a");
    assert_eq!(one.lines().nth(2), first[2].lines().next().map(|id| id.trim_start_matches(':')));
    assert_eq!((wire.info("requests_made"), wire.info("requests_refused")), ("0".to_owned(), "2".to_owned()));
    assert_eq!(wire.info("requests_found"), "11");
}

/// Clients with a local supply request more under load, and do not know the setting.
#[test]
fn a_range_has_at_most_as_many_values_as_a_request_may_get() {
    let server = Server::start(&["--sequence-incrby-max", "100"]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("SEQUENCE CREATE orders"), "+OK");
    let ranges = [
        ("SEQUENCE NEXT orders COUNT 10000000", "*3\r\n:1\r\n:100\r\n:1\r\n"),
        ("SEQUENCE NEXT orders COUNT 129 REQUEST r", "*3\r\n:101\r\n:200\r\n:1\r\n"),
        ("SEQUENCE NEXT orders COUNT 129 REQUEST r", "*3\r\n:101\r\n:200\r\n:1\r\n"),
        ("SEQUENCE NEXT orders COUNT 100 REQUEST r", "-ERR request 'r' was made with other arguments\r\n"),
        ("SEQUENCE NEXT orders COUNT 129 ABOVE 200", "*3\r\n:201\r\n:300\r\n:1\r\n"),
    ];
    for (command, expected) in ranges {
        assert_eq!(reply(&mut wire, command), expected, "{command}");
    }
    assert!(wire.ask("INCRBY orders 101").starts_with("-ERR 101 values of 'orders' are too many for one request"));
}

#[test]
fn a_request_belongs_to_its_user_and_its_generator() {
    let server = Server::start(&GENERATORS);
    let mut wire = server.connect();
    assert_eq!(wire.ask("ACL SETUSER shop on >secret ~tweets +getid +mgetid"), "+OK");
    let own = reply(&mut wire, "GETID tweets REQUEST r");
    let mut shop = server.connect();
    assert_eq!(shop.ask("AUTH shop secret"), "+OK");
    let other = reply(&mut shop, "GETID tweets REQUEST r");
    assert!(own.starts_with(':') && other.starts_with(':') && own != other, "{own} {other}");
    assert_eq!(reply(&mut shop, "GETID tweets REQUEST r"), other);
    for refused in ["GETID trace REQUEST r", "GETID - REQUEST r"] {
        assert!(reply(&mut shop, refused).starts_with("-NOPERM"), "{refused}");
    }
}

#[test]
fn connections_that_race_for_one_request_get_one_reply() {
    const CLIENTS: usize = 16;
    const REQUESTS: usize = 40;
    let server = Server::start(&[&GENERATORS[..], &["--io-threads", "2"]].concat());
    let port = server.port;
    let replies: Vec<Vec<String>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(move || {
                    let mut wire = Wire::connect(port);
                    (0..REQUESTS).map(|n| reply(&mut wire, &format!("GETID invoice REQUEST r{n}"))).collect()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(replies.iter().all(|each| *each == replies[0]), "{replies:?}");
    let ids: HashSet<&String> = replies[0].iter().collect();
    assert!(ids.len() == REQUESTS && ids.iter().all(|id| id.starts_with('$')), "{ids:?}");
}

#[test]
fn a_transaction_has_requests_in_their_places() {
    let server = Server::start(&GENERATORS);
    let mut wire = server.connect();
    wire.send("MULTI\r\nGETID tweets REQUEST a\r\nGETID tweets REQUEST a\r\nGETID tweets REQUEST a FOR 5\r\nEXEC\r\n");
    let lines: Vec<String> = (0..8).map(|_| wire.line()).collect();
    assert_eq!((&*lines[4], &lines[5]), ("*3", &lines[6]), "{lines:?}");
    assert_eq!(lines[7], "-ERR FOR is '5', must be 60 to 31622400 seconds");
}

#[test]
fn at_the_maximum_kept_requests_are_answered_and_new_ones_refused() {
    let words = ["--request-max", "2"];
    let mut server = Server::start(&[&GENERATORS[..], &words].concat());
    let mut wire = server.connect();
    let kept = ["a", "b"].map(|request| reply(&mut wire, &format!("GETID invoice REQUEST {request}")));
    let refused = "-ERR request 'c' is not kept: 'invoice' has 2 requests, and 'request-max' allows no more until some \
                   have ended";
    for _ in 0..3 {
        assert_eq!(wire.ask("GETID invoice REQUEST c"), refused);
    }
    assert_eq!(reply(&mut wire, "GETID invoice REQUEST b"), kept[1]);
    assert!(reply(&mut wire, "GETID tweets REQUEST c").starts_with(':'), "each generator has its own");
    assert_eq!((wire.info("requests_kept"), wire.info("requests_kept_most")), ("3".to_owned(), "2".to_owned()));
    server.wait_log("'invoice' has 2 kept requests");
    // It is known to be full, so refused requests draw nothing.
    assert!(reply(&mut wire, "GETID invoice").ends_with("-0003\r\n"));
    assert_eq!(wire.ask("CONFIG SET request-max 3"), "+OK");
    assert!(reply(&mut wire, "GETID invoice REQUEST c").ends_with("-0004\r\n"));
}

#[test]
fn a_server_without_a_store_keeps_no_requests() {
    let server = Server::start(&[&GENERATORS[..3], &["--sequence-store", "none"]].concat());
    let mut wire = server.connect();
    for command in ["GETID - REQUEST r", "GETID tweets REQUEST r", "MGETID 2 tweets REQUEST r"] {
        assert!(
            wire.ask(command).starts_with("-ERR requests are not kept: the server has no store for them"),
            "{command}"
        );
    }
}

/// A request in one of several stores would be unknown to the others.
#[test]
fn several_stores_keep_no_requests() {
    let dir = folder();
    let stores = ["one", "two"].map(|name| format!("sqlite:{}", dir.path().join(name).display()));
    let stores = ["--sequence-store", &stores[0], "--sequence-store", &stores[1]];
    let server = Server::start(&[&GENERATORS[..3], &stores, &["--sequence-create", "on-first-use"]].concat());
    let mut wire = server.connect();
    for command in ["GETID - REQUEST r", "MGETID 2 tweets REQUEST r", "SEQUENCE NEXT orders REQUEST r"] {
        let reply = wire.ask(command);
        let expected = "-ERR REQUEST needs a single 'sequence-store', and this server has 2";
        assert!(reply.starts_with(expected), "{command}: {reply}");
    }
    assert_eq!(wire.info("sequences_given"), "0");
}

/// Returns the ID of a request from the server on this port; `None` for an error, and for a reply that is lost.
fn answer_to(request: usize, port: u16) -> Option<String> {
    let mut wire = Wire::new(TcpStream::connect(("127.0.0.1", port)).ok()?);
    wire.try_send(format!("MGETID 1 invoice REQUEST r{request}\r\n")).ok()?;
    if wire.try_line().ok()? != "*1" {
        return None;
    }
    wire.try_line().ok()?;
    wire.try_line().ok()
}

/// Two servers over one PostgreSQL get the same requests from many clients, which repeat them until they are answered.
/// One server is killed again and again, and the database once: every reply to a request is the same.
#[test]
#[ignore = "needs postgresql"]
fn no_request_has_two_replies_over_servers_that_are_killed() {
    const CLIENTS: usize = 8;
    const REQUESTS: usize = 100;
    let mut database = PostgresServer::start(&[]);
    let url = database.url();
    let words = [&GENERATORS[..], &["--sequence-store", &url, "--sequence-wait-ms", "5000"]].concat();
    let dir = folder();
    let stays = Server::start(&words);
    let dies = Mutex::new(Some(Server::start_in(dir.path(), &words)));
    let ports = || [stays.port, dies.lock().unwrap().as_ref().map_or(stays.port, |server| server.port)];
    let done = AtomicUsize::new(0);
    let replies: Vec<Vec<(usize, String)>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (ports, done) = (&ports, &done);
                scope.spawn(move || {
                    let mut answered = Vec::new();
                    for request in 0..REQUESTS {
                        let (mut nth, mut reply) = (client + request, None);
                        eventually("a request is answered", || {
                            nth += 1;
                            reply = answer_to(request, ports()[nth % 2]);
                            reply.is_some()
                        });
                        answered.push((request, reply.unwrap()));
                        done.fetch_add(1, Relaxed);
                    }
                    answered
                })
            })
            .collect();
        for round in 1..=4 {
            eventually("clients go on", || done.load(Relaxed) >= round * CLIENTS * REQUESTS / 5);
            dies.lock().unwrap().take().unwrap().kill();
            if round == 2 {
                database.stop_immediate();
                database.start_again();
            }
            *dies.lock().unwrap() = Some(Server::start_in(dir.path(), &words));
        }
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let mut of_request = HashMap::new();
    for (request, reply) in replies.into_iter().flatten() {
        let first = of_request.entry(request).or_insert_with(|| reply.clone());
        assert_eq!(*first, reply, "request r{request}");
    }
    let ids: HashSet<&String> = of_request.values().collect();
    assert_eq!((ids.len(), of_request.len()), (REQUESTS, REQUESTS), "an ID belongs to two requests");
}
