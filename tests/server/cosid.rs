//! Programs with `CosId`: the bytes that its classes send, as recorded from `cosid-spring-redis` 3.2.1.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{Server, Wire, eventually, folder};

const DISTRIBUTE: &str = "abb225fa62a528a2bd6ba2b023aaeb3f832c8a18";
/// That of CosId 1.9.0 to 3.0.5.
const DISTRIBUTE_BEFORE: &str = "bad2854510c56cf1ad461246e07b8a39f23739ec";
const GUARD: &str = "d3f3370f1163c867dbeea875b97779b29266f0fe";
const REVERT: &str = "72d5184b7ec1e4dbe0764750825570b6d9a972ea";
const REVERT_STABLE: &str = "c3bf4d20993e8e1d2207c6c136eb406b2f16f69c";
const GENERATE: &str = "d91bb5bde37639c07cd90d1f2570ebd353cbf58c";

/// CosId's default `safe-guard-duration`, ms.
const SAFE_MS: u64 = 300_000;

const POOL: [&str; 2] = ["--worker-pool", "shop size 4 lease 5m longest 10m"];

#[expect(clippy::disallowed_methods, reason = "CosId's instances send the time on their clocks")]
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// Returns a time after the pool was opened: no machine id is valid before that.
fn after_opening() -> u64 {
    now_ms() + 1_000
}

fn array_of(words: &[&str]) -> String {
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), words.collect::<String>())
}

fn reply(wire: &mut Wire, words: &[&str]) -> String {
    wire.send(array_of(words));
    String::from_utf8(wire.reply()).unwrap()
}

/// Asks for the machine id of an instance, with 2 machine bits. Returns the id and the time from which it is valid.
fn distribute(wire: &mut Wire, instance: &str, now_ms: u64, safe_ms: u64) -> [i64; 2] {
    let (now, safe) = (now_ms.to_string(), safe_ms.to_string());
    let found = reply(wire, &["EVALSHA", DISTRIBUTE, "1", "{shop}", instance, "3", &now, &safe]);
    let parts: Vec<i64> = found.split("\r\n").filter_map(|line| line.strip_prefix(':')?.parse().ok()).collect();
    parts.try_into().unwrap_or_else(|_| panic!("{found}"))
}

fn change(wire: &mut Wire, sha1: &str, instance: &str, last_ms: u64) -> String {
    reply(wire, &["EVALSHA", sha1, "1", "{shop}", instance, &last_ms.to_string()])
}

fn open(wire: &mut Wire) {
    assert_eq!(reply(wire, &["WORKERID", "INIT", "shop", "NEW"]), "+OK\r\n");
}

#[test]
fn machine_ids_are_leased_over_lettuces_connection() {
    let server = Server::start(&POOL);
    let mut wire = server.connect();
    open(&mut wire);
    // Lettuce's handshake in RESP3, and an array of integers as it reads one.
    let map = reply(&mut wire, &["HELLO", "3"]);
    let fields: usize = map.strip_prefix('%').and_then(|rest| rest.trim_end().parse().ok()).unwrap();
    (0..2 * fields).for_each(|_| drop(wire.reply()));
    assert_eq!(reply(&mut wire, &["CLIENT", "SETINFO", "lib-name", "Lettuce"]), "+OK\r\n");
    assert_eq!(reply(&mut wire, &["CLIENT", "SETINFO", "lib-ver", "6.8.1.RELEASE/a2f9e66"]), "+OK\r\n");
    let now = after_opening();
    let (time, safe) = (now.to_string(), (now - SAFE_MS).to_string());
    for (sha1, instance, id) in [(DISTRIBUTE, "10.0.0.7:4711", 0), (DISTRIBUTE_BEFORE, "10.0.0.8:4711", 1)] {
        let found = reply(&mut wire, &["EVALSHA", sha1, "1", "{shop}", instance, "1023", &time, &safe]);
        assert_eq!(found, format!("*2\r\n:{id}\r\n:{now}\r\n"));
    }
    assert_eq!(change(&mut wire, GUARD, "10.0.0.7:4711", now + 60), ":1\r\n");
    assert_eq!(change(&mut wire, GUARD, "10.0.0.9:4711", now + 60), ":0\r\n");
    // The instance is started again, and its clock went back.
    assert_eq!(distribute(&mut wire, "10.0.0.7:4711", now - 500, now - SAFE_MS), [0, i64::try_from(now + 60).unwrap()]);
    let stable = "shop-0.shop.default.svc.cluster.local-with-a-long-name-that-no-holder-of-a-token-may-have";
    assert_eq!(distribute(&mut wire, stable, now, 0)[0], 2);
    assert_eq!(change(&mut wire, REVERT_STABLE, stable, now + 5), ":1\r\n");
    assert_eq!(distribute(&mut wire, "caf\u{e9} 4", now, now - SAFE_MS)[0], 3);
    // As many as the layout has, and no more. The log has the reason.
    assert_eq!(distribute(&mut wire, "10.0.0.9:4711", now, now - SAFE_MS), [-1, -1]);
    assert_eq!(change(&mut wire, REVERT, "10.0.0.8:4711", now), ":1\r\n");
    assert_eq!(change(&mut wire, REVERT, "10.0.0.8:4711", now), ":0\r\n");
    eventually("the id is free", || distribute(&mut wire, "10.0.0.9:4711", now_ms(), now - SAFE_MS)[0] == 1);
    let mut admin = server.connect();
    let list = reply(&mut admin, &["WORKERID", "LIST", "shop"]);
    for part in ["10.0.0.7:4711", "shop-0.shop.def-", "$4\r\nkept\r\n", "caf___4-", "10.0.0.9:4711"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let info = admin.info("worker_pool_shop");
    assert!(info.contains("size=4,leased=4,free=0,"), "{info}");
    // Machine bits that are wrong, and a clock that is.
    let layout = |bits: &str| array_of(&["EVALSHA", DISTRIBUTE, "1", "{shop}", "other", bits, "0", "0"]);
    wire.send(layout("0"));
    assert_eq!(wire.reply(), b"*2\r\n:-1\r\n:-1\r\n");
    for bits in ["-1", "18446744073709551615"] {
        wire.send(layout(bits));
        assert!(String::from_utf8(wire.reply()).unwrap().starts_with("-ERR "), "{bits}");
    }
    let ahead = change(&mut wire, GUARD, "10.0.0.7:4711", now + 10_000_000);
    assert!(ahead.starts_with("-ERR worker id 0 of pool 'shop': LAST is ") && ahead.contains("check the clock"));
}

#[test]
fn an_instance_keeps_its_id_over_a_restart_of_the_server() {
    let dir = folder();
    let now;
    {
        let server = Server::start_in(dir.path(), &POOL);
        let mut wire = server.connect();
        open(&mut wire);
        now = after_opening();
        assert_eq!(distribute(&mut wire, "a", now, now - SAFE_MS)[0], 0);
        assert_eq!(distribute(&mut wire, "b", now, 0)[0], 1);
        assert_eq!(change(&mut wire, GUARD, "a", now + 7), ":1\r\n");
        // Dropping the server kills it.
    }
    let server = Server::start_in(dir.path(), &POOL);
    let mut wire = server.connect();
    assert_eq!(distribute(&mut wire, "c", now, now - SAFE_MS)[0], 2);
    assert_eq!(change(&mut wire, GUARD, "b", now + 7), ":1\r\n");
    assert_eq!(distribute(&mut wire, "a", now, now - SAFE_MS), [0, i64::try_from(now + 7).unwrap()]);
    assert_eq!(distribute(&mut wire, "b", now, 0), [1, i64::try_from(now + 7).unwrap()]);
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    let server = Server::start(&["--worker-pool", "shop size 4 lease 30s", "--worker-pool", "new size 4 lease 1h"]);
    let mut wire = server.connect();
    open(&mut wire);
    let now = now_ms();
    let (time, safe) = (now.to_string(), (now - SAFE_MS).to_string());
    let mut ask = |key: &str| reply(&mut wire, &["EVALSHA", DISTRIBUTE, "1", key, "a", "1023", &time, &safe]);
    let missing = "-ERR no such worker pool 'other', for the machine ids of CosId's namespace: 'worker-pool other size \
                   1024 lease 5m longest 10m' in the configuration, and a restart, make it\r\n";
    assert_eq!(ask("{other}"), missing);
    assert_eq!(
        ask("{shop}"),
        "-ERR worker pool 'shop' has leases of 60000 ms at most, and the instance's safe-guard-duration is 300000 ms: \
         set 'longest' of 'worker-pool shop' to twice that, 24h at most, or shorten \
         cosid.machine.guarder.safe-guard-duration\r\n"
    );
    let closed = ask("{new}");
    assert!(closed.starts_with("-TRYAGAIN worker pool 'new' leases nothing before "), "{closed}");
    assert!(closed.ends_with("'getid worker init new --new' opens it at once\r\n"), "{closed}");
    let plain = Server::start(&[]);
    let off = reply(&mut plain.connect(), &["EVALSHA", GUARD, "1", "{other}", "a", "1"]);
    assert_eq!(off, missing);
}

#[test]
fn rights_are_those_of_the_key_and_the_command() {
    // As docs/cosid.md has it.
    let rights = "~cosid:{shop.* ~{shop} +@connection +setnx +incrby +evalsha +eval";
    let users = [format!("app on nopass {rights}"), "other on nopass ~{other} ~cosid:{other.* +@all".to_owned()];
    let server = Server::start(&[&POOL[..], &["--user", &users[0], "--user", &users[1]]].concat());
    open(&mut server.connect());
    for (user, is_allowed) in [("app", true), ("other", false)] {
        let mut wire = server.connect();
        assert_eq!(reply(&mut wire, &["AUTH", user, "x"]), "+OK\r\n");
        let (now, safe) = (now_ms().to_string(), (now_ms() - SAFE_MS).to_string());
        for words in [
            &["EVALSHA", DISTRIBUTE, "1", "{shop}", user, "3", &now, &safe][..],
            &["SETNX", "cosid:{shop.order}.adder", "0"],
            &["INCRBY", "cosid:{shop.order}.adder", "10"],
        ] {
            let found = reply(&mut wire, words);
            assert_eq!(found.starts_with("-NOPERM"), !is_allowed, "{found}");
            assert!(!is_allowed || !found.starts_with('-'), "{found}");
        }
    }
}

#[test]
fn a_flood_of_instances_takes_no_more_than_the_pool() {
    let mut server = Server::start(&POOL);
    let mut wire = server.connect();
    open(&mut wire);
    let now = now_ms();
    let (time, safe) = (now.to_string(), (now - SAFE_MS).to_string());
    let instance = |number: usize| format!("{number}-{}", "x".repeat(900));
    let requests = (0..500).map(|number| {
        let guard = array_of(&["EVALSHA", GUARD, "1", "{shop}", &instance(number), &time]);
        guard + &array_of(&["EVALSHA", DISTRIBUTE, "1", "{shop}", &instance(number), "3", &time, &safe])
    });
    wire.send(requests.collect::<String>());
    let mut given = 0;
    for number in 0..500 {
        let guarded = wire.reply();
        assert_eq!(guarded, b":0\r\n", "{number}");
        given += usize::from(wire.reply() != b"*2\r\n:-1\r\n:-1\r\n");
    }
    assert_eq!(given, 4);
    let long = "x".repeat(1025);
    let refused = reply(&mut wire, &["EVALSHA", GUARD, "1", "{shop}", &long, "1"]);
    assert!(refused.starts_with("-ERR the name of the instance has 1025 bytes, must have 1 to 1024"), "{refused}");
    let info = wire.info("worker_pool_shop");
    assert!(info.contains("size=4,leased=4,free=0,"), "{info}");
    server.wait_log("has no machine id, and continues to use its last one, which another instance may have: stop it");
    assert!(server.count_log("has no machine id") <= 11);
    server.wait_log("an instance of CosId got no machine id: worker pool 'shop' is used up: all 4 ids are leased");
    assert!(server.count_log("got no machine id") <= 2);
}

#[test]
fn segments_are_counted_in_groups_too() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    for (name, step, values) in [
        ("cosid:{shop.order}.adder", "100", [1_100, 1_200]),
        ("cosid:{shop.order@2026-11-28}.adder", "10", [1_010, 1_020]),
        ("cosid:{shop.order@2026-11-29}.adder", "10", [1_010, 1_020]),
    ] {
        assert_eq!(reply(&mut wire, &["SETNX", name, "1000"]), ":1\r\n");
        for value in values {
            assert_eq!(reply(&mut wire, &["SETNX", name, "1000"]), ":0\r\n");
            assert_eq!(reply(&mut wire, &["INCRBY", name, step]), format!(":{value}\r\n"));
        }
    }
    let script = ["EVALSHA", GENERATE, "1", "cosid:{shop.bill}.adder", "1000", "100"];
    assert_eq!(reply(&mut wire, &script), ":1100\r\n");
    assert_eq!(reply(&mut wire, &script), ":1200\r\n");
    let names = reply(&mut wire, &["KEYS", "cosid:{shop.order@*"]);
    assert!(names.starts_with("*2\r\n") && names.contains("cosid:{shop.order@2026-11-29}.adder"), "{names}");
    let info = reply(&mut wire, &["SEQUENCE", "INFO", "cosid:{shop.order@2026-11-29}.adder"]);
    assert!(info.contains("cosid:{shop.order@2026-11-29}.adder"), "{info}");
    let refused = reply(&mut wire, &["SETNX", "order@2026", "0"]);
    assert!(refused.starts_with("-ERR 'order@2026' cannot be the name of a sequence"), "{refused}");
}

#[test]
fn segments_are_refused_where_others_own_numbers_of_them() {
    let dir = folder();
    let stores = ["one", "two"].map(|name| format!("sqlite:{}", dir.path().join(name).display()));
    let server = Server::start(&["--sequence-store", &stores[0], "--sequence-store", &stores[1]]);
    let refused = reply(&mut server.connect(), &["SETNX", "cosid:{shop.order}.adder", "0"]);
    assert_eq!(
        refused,
        "-ERR sequence 'cosid:{shop.order}.adder' counts by 2, and CosId takes every number of a segment: give its \
         servers one sequence-store, and the sequence increment 1\r\n"
    );
    assert_eq!(reply(&mut server.connect(), &["SETNX", "orders", "0"]), ":1\r\n");
    let server = Server::start(&[]);
    let mut wire = server.connect();
    let name = "cosid:{shop.order}.adder";
    assert_eq!(reply(&mut wire, &["SEQUENCE", "CREATE", name, "increment", "3"]), "+OK\r\n");
    for words in [&["SETNX", name, "0"][..], &["EVALSHA", GENERATE, "1", name, "0", "10"]] {
        assert!(reply(&mut wire, words).starts_with(&format!("-ERR sequence '{name}' counts by 3, and CosId")));
    }
}
