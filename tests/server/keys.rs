//! Commands about keys and `SEQUENCE` against the real process with its own store: operators, libraries, and misuse.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::support::{Server, Wire, eventually, folder};

/// Encodes words as an array of bulk strings.
fn array_of(words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        let _ = write!(request, "${}\r\n{word}\r\n", word.len());
    }
    request
}

/// Returns a whole reply as text, its parts in one line.
#[track_caller]
fn reply(wire: &mut Wire, words: &[&str]) -> String {
    wire.send(array_of(words));
    let reply = String::from_utf8(wire.reply()).expect("text");
    reply.trim_end().replace("\r\n", " ")
}

/// Sends each line and compares the reply with the text behind `=>`: the whole, or a prefix if that ends in `...`.
#[track_caller]
fn talk(wire: &mut Wire, conversation: &str) {
    for line in conversation.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (sent, expected) = line.split_once(" => ").unwrap_or_else(|| panic!("{line}"));
        let words: Vec<&str> = sent.split(' ').collect();
        let got = reply(wire, &words);
        match expected.strip_suffix("...") {
            Some(beginning) => assert!(got.starts_with(beginning), "{sent}\n  expected {beginning}\n  got      {got}"),
            None => assert_eq!(got, expected, "{sent}"),
        }
    }
}

/// Operators and libraries on one server, each with its own names.
#[test]
fn operators_and_libraries_are_answered_as_they_expect() {
    let server = Server::start(&[]);
    an_operator_makes_changes_raises_and_drops_sequences(&server);
    deleting_has_to_be_allowed(&server);
    libraries_of_java(&server);
    stackexchange_redis_finds_a_server_that_is_alone(&server);
}

fn an_operator_makes_changes_raises_and_drops_sequences(server: &Server) {
    let mut wire = server.connect();
    talk(
        &mut wire,
        "INCR orders => -ERR no such sequence 'orders': 'SEQUENCE CREATE orders' makes it...
         SEQUENCE INFO orders => -ERR no such sequence 'orders'...
         SEQUENCE CREATE orders START 100 CACHE 10 => +OK
         SEQUENCE CREATE orders => -ERR sequence 'orders' is there already...
         GET orders => $2 99
         INCR orders => :100
         SEQUENCE NEXT orders COUNT 3 => *3 :101 :103 :1
         SEQUENCE NEXT orders => *3 :104 :104 :1
         SEQUENCE RAISE orders 50 => -ERR a sequence never goes back: 'orders' is at ...
         SEQUENCE RAISE orders 1000000 => +OK
         INCR orders => :1000001
         SEQUENCE ALTER orders MAX 5 => -ERR sequence 'orders': ...
         SEQUENCE ALTER orders MAX 999999 => -ERR sequence 'orders': max is 999999, and it is at 1...
         SEQUENCE ALTER orders INCREMENT 10 OFFSET 7 POLICY wait => +OK
         SEQUENCE CONFIRM orders => -ERR sequence 'orders': it is not marked...
         SEQUENCE ADOPT other => -ERR sequence 'other': a table of maximums is adopted from a store in MySQL...
         SEQUENCE DROP missing => -ERR no such sequence 'missing'...",
    );
    let ends_in_seven = reply(&mut wire, &["INCR", "orders"]);
    assert!(ends_in_seven.ends_with('7'), "{ends_in_seven}");
    let info = reply(&mut wire, &["SEQUENCE", "INFO", "orders"]);
    for part in ["increment :10", "offset :7", "cache :10", "$4 wait", "reserved_until", "$4 live", "$5 store"] {
        assert!(info.contains(part), "{part}: {info}");
    }
    let last: i64 = ends_in_seven[1..].parse().expect("a number");
    talk(
        &mut wire,
        "SEQUENCE DROP orders => +OK
         INCR orders => -ERR no such sequence 'orders': it was dropped at ...
         GET orders => $-1
         EXISTS orders => :0
         SEQUENCE CREATE orders => +OK",
    );
    let again = reply(&mut wire, &["INCR", "orders"]);
    assert!(again[1..].parse::<i64>().expect("a number") > last, "{again} after {last}");
    talk(
        &mut wire,
        "SEQUENCE DROP orders => +OK
         SEQUENCE CREATE orders START 5 FRESH => -ERR sequence 'orders': it was dropped at ...
         SEQUENCE CREATE other START 5 FRESH => +OK
         INCR other => :5
         INCR other => :6",
    );
    let early = reply(&mut wire, &["SEQUENCE", "CREATE", "orders", "FRESH"]);
    let left = early.split("servers and clients may have values of it for ").nth(1).expect(&early);
    let left: u32 = left.split(' ').next().expect(&early).parse().expect(&early);
    assert!((1..=60).contains(&left), "clients with a local supply have them for a minute: {early}");
    let stores = reply(&mut wire, &["SEQUENCE", "STORES"]);
    assert!(stores.contains("sqlite:") && stores.contains("$2 up"), "{stores}");
}

/// Rows that an operator wrote by hand.
#[test]
fn lists_name_rows_that_cannot_be_read() {
    let dir = folder();
    let server = Server::start_in(dir.path(), &[]);
    let mut wire = server.connect();
    for name in ["a", "b", "c"] {
        assert_eq!(wire.ask(&format!("SEQUENCE CREATE {name}")), "+OK");
    }
    drop(wire);
    assert!(server.stop().success());
    let file = rusqlite::Connection::open(dir.path().join("sequences-0.sqlite")).unwrap();
    file.execute_batch("UPDATE getid_sequence SET name = 'a/b' WHERE name = 'b'").unwrap();
    drop(file);
    let server = Server::start_in(dir.path(), &[]);
    let mut wire = server.connect();
    let listed = reply(&mut wire, &["SEQUENCE", "LIST"]);
    assert!(listed.starts_with("*3 $0  *2 ") && listed.contains("*1 $"), "{listed}");
    assert!(listed.contains("the row 'a/b' of getid_sequence has a name that is not valid"), "{listed}");
    talk(
        &mut wire,
        "KEYS * => *2 $1 a $1 c
         SEQUENCE LIST CURSOR a COUNT 1 => *3 $5 a/b/@ *0 *1 ...
         SEQUENCE LIST CURSOR a/b/@ COUNT 1 => *2 $1 c *1 ...",
    );
}

fn deleting_has_to_be_allowed(server: &Server) {
    let mut wire = server.connect();
    talk(
        &mut wire,
        "CONFIG SET sequence-delete yes => +OK
         SET a 10 => +OK
         SET b 20 => +OK
         DEL a nope => :1
         GETDEL b => $2 20
         GETDEL b => $-1
         EXISTS a b => :0
         SET a 5 => -ERR no such sequence 'a': it was dropped at ...
         CONFIG SET sequence-delete no => +OK
         SET c 1 => +OK
         UNLINK c => -ERR sequence 'c' is not deleted...",
    );
}

/// The bytes of Spring's `RedisAtomicLong`, Redisson's `RAtomicLong` and `RIdGenerator`, and `CosId`'s
/// `SpringRedisIdSegmentDistributor` for the namespace `shop` and the name `order`.
fn libraries_of_java(server: &Server) {
    let mut spring = server.connect();
    talk(
        &mut spring,
        "SETNX spring 0 => :1
         GET spring => $1 0
         INCR spring => :1
         INCRBY spring 10 => :11
         SET spring 11 => +OK
         SET spring 20 => +OK
         INCR spring => :21
         HINCRBY spring cur 4 => :25",
    );
    let mut redisson = server.connect();
    let init = "redis.call('setnx', KEYS[1], ARGV[1]); return redis.call('setnx', KEYS[2], ARGV[2]); ";
    let init_sha1 = "3c1028765bf9c80606aa6fce12132bf9e3d5a9a1";
    let next_sha1 = "e57ac7b74498ebd39874c49d73184be9513f8789";
    talk(
        &mut redisson,
        "CLIENT SETNAME redisson => +OK
         SET atomic 0 => +OK
         INCR atomic => :1
         INCRBY atomic 5 => :6
         GET atomic => $1 6
         EXISTS atomic => :1
         EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 atomic => -NOSCRIPT No matching script. Please use EVAL.",
    );
    assert_eq!(reply(&mut redisson, &["SCRIPT", "LOAD", init]), format!("$40 {init_sha1}"));
    let keys = ["2", "ids", "{ids}:allocation"];
    let call = |sha1: &'static str, args: &[&'static str]| -> Vec<&str> {
        ["EVALSHA", sha1].into_iter().chain(keys).chain(args.iter().copied()).collect()
    };
    // Before creation: creation is explicit.
    assert!(reply(&mut redisson, &call(next_sha1, &[])).starts_with("-ERR no such sequence 'ids'"));
    assert_eq!(reply(&mut redisson, &call(init_sha1, &["1000", "50"])), ":1");
    assert_eq!(reply(&mut redisson, &call(init_sha1, &["1", "7"])), ":0");
    assert_eq!(reply(&mut redisson, &["EVAL", init, "2", "ids", "{ids}:allocation", "1", "7"]), ":0");
    assert_eq!(reply(&mut redisson, &call(next_sha1, &[])), "*2 $4 1000 $2 50");
    assert_eq!(reply(&mut redisson, &call(next_sha1, &[])), "*2 $4 1050 $2 50");
    assert_eq!(reply(&mut redisson, &["INCR", "ids"]), ":1100");
    let mut cosid = server.connect();
    talk(
        &mut cosid,
        "SETNX cosid:{shop.order}.adder 0 => :1
         INCRBY cosid:{shop.order}.adder 100 => :100
         INCRBY cosid:{shop.order}.adder 100 => :200
         SETNX cosid:{shop.order}.adder 0 => :0
         GET cosid:{shop.order}.adder => $3 200
         SCAN 0 MATCH cosid:* => *2 $1 0 *1 $24 cosid:{shop.order}.adder",
    );
}

/// The commands of StackExchange.Redis on connect, and on its second connection, which subscribes. It takes a server
/// with masters for a Sentinel until `INFO server` has `redis_mode:standalone`.
fn stackexchange_redis_finds_a_server_that_is_alone(server: &Server) {
    let mut first = server.connect();
    talk(
        &mut first,
        "CLIENT SETNAME web1 => +OK
         CLIENT SETINFO lib-name SE.Redis => +OK
         CLIENT SETINFO lib-ver 2.8.16 => +OK
         CLIENT ID => :...
         CONFIG GET timeout => *2 $7 timeout ...
         CONFIG GET slave-read-only => *...
         CONFIG GET databases => *2 $9 databases $2 16
         SENTINEL MASTERS => *2 *40 $4 name $5 getid ...
         INFO replication => $...
         INFO server => $...
         CLUSTER NODES => -ERR This instance has cluster support disabled
         ECHO 0123456789abcdef => $16 0123456789abcdef
         GET __Booksleeve_TieBreak => $-1",
    );
    assert!(first.ask_bulk("INFO server").contains("\nredis_mode:standalone\r\n"));
    let mut second = server.connect();
    talk(
        &mut second,
        "CLIENT SETNAME web1 => +OK
         SUBSCRIBE __Booksleeve_MasterChanged => *3 $9 subscribe $26 __Booksleeve_MasterChanged :1
         PING => *2 $4 pong $0
         GET a => -ERR Can't execute 'get': only ...",
    );
    let list = first.ask_bulk("CLIENT LIST TYPE pubsub");
    assert!(list.lines().count() == 1 && list.contains(" flags=P ") && list.contains(" sub=1 psub=0 "), "{list}");
    eventually("no other client is connected", || first.ask_bulk("CLIENT LIST TYPE normal").lines().count() == 1);
    assert_eq!(first.ask("CLIENT KILL TYPE pubsub"), ":1");
    assert_eq!(second.rest(), "");
}

#[test]
fn names_are_listed_in_pages_and_each_once() {
    const NAMES: usize = 1100;
    let server = Server::start(&[]);
    let mut wire = server.connect();
    let requests: String = (0..NAMES).map(|number| array_of(&["SET", &format!("seq:{number:04}"), "1"])).collect();
    wire.send(requests);
    assert!((0..NAMES).all(|_| wire.line() == "+OK"));
    assert_eq!(wire.ask("DBSIZE"), format!(":{NAMES}"));
    let all: BTreeSet<String> = (0..NAMES).map(|number| format!("seq:{number:04}")).collect();
    let names = |reply: &str| -> Vec<String> {
        reply.split(' ').filter(|word| word.starts_with("seq:")).map(str::to_owned).collect()
    };
    let keys = names(&reply(&mut wire, &["KEYS", "*"]));
    assert!(keys.len() == NAMES && keys.iter().cloned().collect::<BTreeSet<_>>() == all);
    assert_eq!(names(&reply(&mut wire, &["KEYS", "*:00[01]7"])), ["seq:0007", "seq:0017"]);
    for (count, pattern) in [("7", "*"), ("5000", "*"), ("100", "seq:*9")] {
        let (mut found, mut cursor, mut calls) = (Vec::new(), "0".to_owned(), 0);
        loop {
            let page = reply(&mut wire, &["SCAN", &cursor, "COUNT", count, "MATCH", pattern]);
            found.extend(names(&page));
            cursor = page.split(' ').nth(2).expect("a cursor").to_owned();
            calls += 1;
            if cursor == "0" {
                break;
            }
            assert!(calls < NAMES, "SCAN does not end");
        }
        let expected: Vec<_> = all.iter().filter(|name| pattern == "*" || name.ends_with('9')).cloned().collect();
        assert_eq!(found, expected, "COUNT {count} MATCH {pattern}");
        // A full page may be the last one.
        assert_eq!(calls, NAMES / count.parse::<usize>().expect("a number").min(1000) + 1, "COUNT {count}");
    }
    assert_eq!(names(&reply(&mut wire, &["SCAN", "0", "TYPE", "hash"])), [""; 0]);
    let listed = reply(&mut wire, &["SEQUENCE", "LIST", "seq:1*", "CURSOR", "seq:0999", "COUNT", "50"]);
    assert_eq!(names(&listed).len(), 51, "fifty, and the cursor: {listed}");
    assert!(reply(&mut wire, &["RANDOMKEY"]).contains("seq:"));
}

/// A page of names ends after 16 generators, whatever its size.
#[test]
fn names_of_many_generators_are_listed_each_once() {
    const NAMES: usize = 1700;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_in(dir.path(), &[]);
    let mut wire = server.connect();
    wire.send((0..NAMES).map(|number| array_of(&["SET", &format!("seq:{number:04}"), "1"])).collect::<String>());
    assert!((0..NAMES).all(|_| wire.line() == "+OK"));
    drop(wire);
    assert!(server.stop().success());
    let file = rusqlite::Connection::open(dir.path().join("sequences-0.sqlite")).unwrap();
    let generators = "INSERT INTO getid_generator (name, declaration, reset) SELECT name, '', '' FROM getid_sequence";
    assert_eq!(file.execute(generators, []).unwrap(), NAMES);
    drop(file);
    let server = Server::start_in(dir.path(), &[]);
    let mut wire = server.connect();
    let names = |reply: &str| -> Vec<String> {
        reply.split(' ').filter(|word| word.starts_with("seq:")).map(str::to_owned).collect()
    };
    let all: Vec<String> = (0..NAMES).map(|number| format!("seq:{number:04}")).collect();
    assert_eq!(names(&reply(&mut wire, &["KEYS", "*"])), all);
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    // Each page has a name.
    for _ in 0..NAMES {
        let page = reply(&mut wire, &["SCAN", &cursor, "COUNT", "1000"]);
        found.extend(names(&page));
        cursor = page.split(' ').nth(2).expect("a cursor").to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, all);
}

#[test]
fn misuse_is_bounded() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    let many: Vec<&str> = std::iter::once("MGET").chain(std::iter::repeat_n("x", 4095)).collect();
    let refusal = reply(&mut wire, &many);
    assert!(refusal.starts_with("-ERR MGET needs 4095 look-ups in the store"), "{refusal}");
    assert_eq!(reply(&mut wire, &many[..257]).matches("$-1").count(), 256);
    // A sequence in memory costs no store access.
    assert_eq!(reply(&mut wire, &["SET", "y", "5"]), "+OK");
    assert_eq!(reply(&mut wire, &["INCR", "y"]), ":6");
    let known: Vec<&str> = std::iter::once("MGET").chain(std::iter::repeat_n("y", 4095)).collect();
    assert_eq!(reply(&mut wire, &known).matches("$1 6").count(), 4095);
    let more: Vec<&str> = std::iter::once("MGET").chain(std::iter::repeat_n("x", 5000)).collect();
    assert!(reply(&mut wire, &more).starts_with("-ERR too many arguments for 'mget' command"));
    for long in [10_000, 60_000] {
        let refusal = reply(&mut wire, &["SET", "a", &"9".repeat(long)]);
        assert!(refusal.starts_with("-ERR '9999") && refusal.len() < 300, "{refusal}");
        let refusal = reply(&mut wire, &["SET", &"a".repeat(long), "1"]);
        assert!(refusal.contains("cannot be the name of a sequence") && refusal.len() < 300, "{refusal}");
        assert_eq!(reply(&mut wire, &["HGET", "a", &"f".repeat(long)]), "$-1");
    }
    assert!(reply(&mut wire, &["SET", "a", &"9".repeat(100_000)]).starts_with("-ERR arguments of 'set' command"));
    for cursor in ["x", "-1", "1.5", "18446744073709551616", "", " 1"] {
        assert!(reply(&mut wire, &["SCAN", cursor]).starts_with("-ERR invalid cursor"), "{cursor:?}");
    }
    for cursor in ["1", "18446744073709551615", "9007199254740993"] {
        assert!(reply(&mut wire, &["SCAN", cursor]).starts_with("-ERR invalid cursor: it is unknown"), "{cursor}");
    }
    assert_eq!(reply(&mut wire, &["SCAN", "0", "COUNT", "9223372036854775807"]), "*2 $1 0 *1 $1 y");
    let pattern = "a*".repeat(600);
    assert!(reply(&mut wire, &["KEYS", &pattern]).starts_with("-ERR a pattern has at most 1024 bytes"));
    let mut listener = server.connect();
    let channels: Vec<String> = (0..1001).map(|number| number.to_string()).collect();
    let words: Vec<&str> = std::iter::once("SUBSCRIBE").chain(channels.iter().map(String::as_str)).collect();
    listener.send(array_of(&words));
    for _ in 0..1000 {
        assert_eq!(listener.reply().first(), Some(&b'*'));
    }
    assert!(listener.line().starts_with("-ERR a client may subscribe to at most 1000 channels"));
    eventually("the client has all subscriptions", || {
        wire.ask_bulk("CLIENT LIST TYPE pubsub").contains(" sub=1000 psub=0 ")
    });
    // A subscription ends with its connection.
    drop(listener);
    eventually("the listener is gone", || wire.ask_bulk("CLIENT LIST TYPE pubsub").is_empty());
}

#[test]
fn without_a_store_everything_else_works() {
    let server = Server::start(&["--sequence-store", "none"]);
    let mut wire = server.connect();
    talk(
        &mut wire,
        "INCR a => -ERR sequences are off: ...
         GET a => -ERR sequences are off: ...
         SEQUENCE STORES => -ERR sequences are off: ...
         EVALSHA 4d15273b16b10c15e1d9202cbe93c959ab7d250b 1 a 1 => -ERR sequences are off: ...
         SUBSCRIBE a => *3 $9 subscribe $1 a :1
         RESET => +RESET
         GETID => :...",
    );
}
