//! Worker ids over the wire, in the file of a server's default store.

use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use crate::support::program::{PATIENCE, both, finish};
use crate::support::{Server, Wire, eventually, folder, getid};

/// Two pools with leases longer than any test.
const POOLS: [&str; 4] = ["--worker-pool", "orders size 3 lease 10m", "--worker-pool", "quick size 3 lease 10m"];

/// Returns a folder in which the pools `orders`, `quick` and `small` are open.
///
/// A new pool opens after its longest lease. One server waits for that, with leases of one second, and each test gets a
/// copy of its store.
fn folder_with_open_pools() -> TempDir {
    /// Files of the store by name: the process may end before SQLite has moved its log into the file.
    static STORE: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    let files = STORE.get_or_init(|| {
        let dir = folder();
        let pools = ["orders", "quick", "small"];
        let words = pools.map(|pool| ["--worker-pool".to_owned(), format!("{pool} size 3 lease 1s longest 1s")]);
        let server = Server::start_in(dir.path(), &words.as_flattened().iter().map(String::as_str).collect::<Vec<_>>());
        let mut wire = server.connect();
        for pool in pools {
            let mut granted = String::new();
            eventually("the pool is open", || {
                granted = send_request(&mut wire, &format!("WORKERID LEASE {pool}"));
                granted.starts_with("*5")
            });
            let Granted { id, token, .. } = Granted::read(&granted);
            assert_eq!(send_request(&mut wire, &format!("WORKERID RELEASE {pool} {id} {token}")), "+OK\r\n");
        }
        assert!(server.stop().success());
        let names = ["records.sqlite", "records.sqlite-wal"];
        names.iter().filter_map(|name| Some(((*name).to_owned(), fs::read(dir.path().join(name)).ok()?))).collect()
    });
    let dir = folder();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// A granted lease.
#[derive(Debug)]
struct Granted {
    id: u64,
    token: String,
    not_before: u64,
    not_after: u64,
    lease_ms: u64,
}

fn send_request(wire: &mut Wire, request: &str) -> String {
    wire.send(format!("{request}\r\n"));
    String::from_utf8(wire.reply()).unwrap()
}

impl Granted {
    fn read(reply: &str) -> Granted {
        let lines: Vec<&str> = reply.split("\r\n").collect();
        let ["*5", id, "$32", token, from, until, length, ""] = lines.as_slice() else { panic!("{reply}") };
        let number = |line: &str| line.strip_prefix(':').unwrap().parse().unwrap();
        let [not_before, not_after, lease_ms] = [from, until, length].map(|line| number(line));
        Granted { id: number(id), token: (*token).to_owned(), not_before, not_after, lease_ms }
    }
}

fn lease(wire: &mut Wire, request: &str) -> Granted {
    Granted::read(&send_request(wire, &format!("WORKERID LEASE {request}")))
}

#[expect(clippy::disallowed_methods, reason = "a test compares leases with the real clock")]
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

#[test]
fn a_worker_id_is_leased_renewed_and_released() {
    let dir = folder_with_open_pools();
    let server = Server::start_in(dir.path(), &POOLS);
    let mut wire = server.connect();
    let granted = lease(&mut wire, "quick NAME api-1 TTL 300");
    assert!(granted.not_before <= now_ms() && granted.not_after <= now_ms() + 300_000, "{granted:?}");
    assert_eq!([granted.lease_ms, lease(&mut wire, "quick").lease_ms], [300_000, 600_000], "TTL, or that of the pool");
    let Granted { id, token, not_after, .. } = &granted;
    eventually("a later end", || {
        let reply = send_request(&mut wire, &format!("WORKERID RENEW quick {id} {token} LAST {}", now_ms()));
        reply.strip_prefix("*1\r\n:").unwrap().trim_end().parse::<u64>().unwrap() > *not_after
    });
    let last = now_ms();
    let release = format!("WORKERID RELEASE quick {id} {token} LAST {last}");
    assert_eq!(send_request(&mut wire, &release), "+OK\r\n");
    assert_eq!(send_request(&mut wire, &release), "+OK\r\n", "sent again, as after a lost reply");
    let again = lease(&mut wire, "quick NAME api-1");
    assert_eq!((again.id, again.not_before), (*id, last + 1));
    let over = send_request(&mut wire, &format!("WORKERID RENEW quick {id} {token}"));
    assert!(over.starts_with(&format!("-EXPIRED worker id {id} of pool 'quick': this lease ended by ")), "{over}");
}

/// A new pool may have leases of another server or of a lost store.
#[test]
fn a_new_pool_leases_nothing_before_its_longest_lease_is_over() {
    let server = Server::start(&["--worker-pool", "orders size 3 lease 1h"]);
    let mut wire = server.connect();
    let refused = send_request(&mut wire, "WORKERID LEASE orders");
    assert!(refused.starts_with("-TRYAGAIN worker pool 'orders' leases nothing before "), "{refused}");
    assert!(refused.contains("it is new here, or its records were lost"), "{refused}");
    assert!(refused.ends_with("'getid worker init orders --new' opens it at once\r\n"), "{refused}");
}

/// Follows the advice of the error above.
#[test]
fn the_tool_opens_a_new_pool_at_once_and_leaves_an_open_one_as_it_is() {
    let words = ["--worker-pool", "orders size 3 lease 1h", "--user", "app on nopass ~orders +@all -@dangerous"];
    let mut server = Server::start(&words);
    let port = server.port.to_string();
    let init = |more: &[&str]| {
        let words = [&["worker", "init", "orders", "--port", &port, "--timeout-ms", "20000"], more].concat();
        let output = finish(getid().args(words).env_remove("REDISCLI_AUTH"), "", PATIENCE, false);
        (output.status.code(), both(&output))
    };
    let (code, text) = init(&[]);
    assert!(code == Some(2) && text.contains("add --new if no id of it was ever leased"), "{text}");
    let (code, text) = init(&["--new", "--user", "app", "--password", "x"]);
    assert!(code == Some(1) && text.contains("NOPERM"), "{text}");
    let mut wire = server.connect();
    assert!(send_request(&mut wire, "WORKERID LEASE orders").starts_with("-TRYAGAIN"));
    for _ in 0..2 {
        let (code, text) = init(&["--new"]);
        assert!(code == Some(0) && text.ends_with(": worker pool 'orders' is open\n"), "{text}");
    }
    server.wait_log("WORKERID INIT");
    let leased = lease(&mut wire, "orders");
    let (code, text) = init(&["--new"]);
    assert!(code == Some(0) && text.ends_with(": worker pool 'orders' is open\n"), "{text}");
    assert_ne!(lease(&mut wire, "orders").id, leased.id, "a lease stays");
    assert_eq!(send_request(&mut wire, "WORKERID INIT orders OLD"), "-ERR syntax error\r\n");
}

#[test]
fn a_restart_restores_all_leases() {
    let dir = folder_with_open_pools();
    let server = Server::start_in(dir.path(), &POOLS);
    let mut wire = server.connect();
    let granted: Vec<_> = (0..3).map(|_| lease(&mut wire, "orders NAME a")).collect();
    server.kill();
    let server = Server::start_in(dir.path(), &POOLS);
    let mut wire = server.connect();
    for Granted { id, token, .. } in &granted {
        let renewed = send_request(&mut wire, &format!("WORKERID RENEW orders {id} {token}"));
        assert!(renewed.starts_with("*1\r\n:"), "{renewed}");
    }
    let full = send_request(&mut wire, "WORKERID LEASE orders NAME a");
    assert!(full.starts_with("-EXHAUSTED worker pool 'orders' is used up: all 3 ids are leased, 3 by 'a'; "), "{full}");
    // After the pool shrank, leases above its size are revoked.
    server.stop();
    let server = Server::start_in(dir.path(), &["--worker-pool", "orders size 1 lease 10m"]);
    let mut wire = server.connect();
    for Granted { id, token, .. } in granted.iter().filter(|granted| granted.id > 0) {
        let refused = send_request(&mut wire, &format!("WORKERID RENEW orders {id} {token}"));
        assert!(
            refused.starts_with(&format!("-REVOKED worker id {id} of pool 'orders': the pool has 1 ids now")),
            "{refused}"
        );
        assert_eq!(send_request(&mut wire, &format!("WORKERID RELEASE orders {id} {token}")), "+OK\r\n");
    }
}

#[test]
fn an_operator_lists_and_revokes_leases() {
    let dir = folder_with_open_pools();
    let mut server = Server::start_in(dir.path(), &POOLS);
    let mut wire = server.connect();
    let granted: Vec<_> = ["a", "b", "c"].map(|name| lease(&mut wire, &format!("quick NAME {name}"))).into();
    let page = send_request(&mut wire, "WORKERID LIST quick COUNT 2");
    assert!(page.starts_with("*2\r\n$1\r\n2\r\n*2\r\n*12\r\n") && page.contains("held"), "{page}");
    let page = send_request(&mut wire, "WORKERID LIST quick CURSOR 2 COUNT 2");
    assert!(page.starts_with("*2\r\n$0\r\n\r\n*1\r\n"), "{page}");
    let Granted { id, token, not_after, .. } = &granted[1];
    assert_eq!(send_request(&mut wire, &format!("WORKERID REVOKE quick {id}")), format!(":{not_after}\r\n"));
    let refused = send_request(&mut wire, &format!("WORKERID RENEW quick {id} {token}"));
    let expected = format!("-REVOKED worker id {id} of pool 'quick': this lease was revoked by an operator");
    assert!(refused.starts_with(&expected), "{refused}");
    server.wait_log(&format!("pool=quick worker_id={id}"));
    let info = wire.info("worker_pool_quick");
    assert!(
        info.starts_with("known=yes,size=3,leased=3,free=0,leases=3,renewals=0,releases=0,revocations=1,"),
        "{info}"
    );
    // RESP3 has maps.
    assert!(wire.ask("HELLO 3").starts_with('%'));
}

#[test]
fn mistakes_get_error_replies() {
    let dir = folder_with_open_pools();
    let server = Server::start_in(dir.path(), &POOLS);
    let mut wire = server.connect();
    let granted = lease(&mut wire, "quick");
    let Granted { id, token, .. } = &granted;
    let none = "0".repeat(32);
    let long = "x".repeat(65);
    let far = now_ms() + 2 * 3_600_000;
    let wrong: [(String, String); 20] = [
        ("LEASE other".to_owned(), "-ERR no such worker pool 'other': 'worker-pool other size 1024".to_owned()),
        (format!("LEASE {long}"), "-ERR no worker pool can have the name 'xxx".to_owned()),
        ("LEASE \"a\\r\\nb\"".to_owned(), "-ERR no worker pool can have the name 'a".to_owned()),
        (format!("LEASE quick NAME {long}"), "-ERR 'xxx".to_owned()),
        ("LEASE quick NAME \"a b\"".to_owned(), "-ERR 'a b' cannot be the NAME".to_owned()),
        ("LEASE quick NAME -".to_owned(), "-ERR '-' cannot be the NAME".to_owned()),
        ("LEASE quick NAME".to_owned(), "-ERR syntax error".to_owned()),
        ("LEASE quick NAME a NAME b".to_owned(), "-ERR syntax error".to_owned()),
        ("LEASE quick FOR 7".to_owned(), "-ERR syntax error".to_owned()),
        ("LEASE quick TTL 0".to_owned(), "-ERR TTL is 0, must be 1 to 86400 seconds".to_owned()),
        ("LEASE quick TTL 99999999999999999".to_owned(), "-ERR TTL is 99999999999999999, must be".to_owned()),
        ("LEASE quick TTL x".to_owned(), "-ERR value is not an integer or out of range".to_owned()),
        (
            format!("RENEW quick {id} {none}"),
            format!("-WRONGTOKEN worker id {id} of pool 'quick': the token is not that of its lease"),
        ),
        (format!("RENEW quick {id} {}", "Z".repeat(32)), format!("-WRONGTOKEN worker id {id} of pool 'quick': the")),
        (
            format!("RENEW quick {id} short"),
            format!("-WRONGTOKEN worker id {id} of pool 'quick': the token has 5 bytes"),
        ),
        (format!("RENEW quick 70000 {none}"), "-ERR 70000 is not a worker id: expected 0 to 65535".to_owned()),
        (format!("RENEW quick 65535 {none}"), "-WRONGTOKEN worker id 65535 of pool 'quick'".to_owned()),
        (format!("RENEW quick {id} {token} LAST -1"), "-ERR LAST is -1, must be Unix time in milliseconds".to_owned()),
        (
            format!("RELEASE quick {id} {token} LAST {far}"),
            format!("-ERR worker id {id} of pool 'quick': LAST is {far}"),
        ),
        ("REVOKE quick 60000".to_owned(), "-ERR worker id 60000 of pool 'quick' was never leased".to_owned()),
    ];
    for (request, expected) in wrong {
        let reply = send_request(&mut wire, &format!("WORKERID {request}"));
        assert!(reply.starts_with(&expected), "{request}: {reply}");
    }
    assert_eq!(
        send_request(&mut wire, "WORKERID LEASE"),
        "-ERR wrong number of arguments for 'workerid|lease' command\r\n"
    );
    let plain = Server::start(&[]);
    let off = send_request(&mut plain.connect(), "WORKERID LEASE orders");
    assert!(off.starts_with("-ERR there are no worker pools: 'worker-pool orders size 1024 lease 30s'"), "{off}");
}

#[test]
fn acl_rules_decide_on_leases() {
    let words =
        ["--user", "app on nopass ~quick +workerid -workerid|revoke", "--user", "reader on nopass %R~quick +@all"];
    let dir = folder_with_open_pools();
    let server = Server::start_in(dir.path(), &[&POOLS[..], &words].concat());
    let mut admin = server.connect();
    let granted = lease(&mut admin, "quick");
    let mut app = server.connect();
    assert_eq!(send_request(&mut app, "AUTH app x"), "+OK\r\n");
    assert!(send_request(&mut app, "WORKERID LEASE orders").starts_with("-NOPERM"));
    assert!(send_request(&mut app, "WORKERID REVOKE quick 0").starts_with("-NOPERM"));
    assert!(!send_request(&mut app, "WORKERID LEASE quick").starts_with("-NOPERM"));
    let mut reader = server.connect();
    assert_eq!(send_request(&mut reader, "AUTH reader x"), "+OK\r\n");
    assert!(send_request(&mut reader, "WORKERID LIST quick").starts_with('*'));
    assert!(send_request(&mut reader, "WORKERID LEASE quick").starts_with("-NOPERM"));
    // MONITOR and the slow log show no token.
    let mut monitor = server.connect();
    assert_eq!(send_request(&mut monitor, "MONITOR"), "+OK\r\n");
    let Granted { id, token, .. } = &granted;
    send_request(&mut app, &format!("WORKERID RENEW quick {id} {token}"));
    let shown = monitor.line();
    assert!(shown.contains("\"RENEW\" \"quick\"") && !shown.contains(token.as_str()), "{shown}");
}

#[test]
fn a_flood_of_leases_is_bounded_and_leaves_others_alone() {
    let dir = folder_with_open_pools();
    let server = Server::start_in(dir.path(), &["--worker-pool", "small size 8 lease 1s longest 1s"]);
    let mut wire = server.connect();
    let port = server.port;
    std::thread::scope(|scope| {
        for number in 0..16 {
            scope.spawn(move || {
                let mut wire = Wire::connect(port);
                for round in 0..50 {
                    wire.send(format!("WORKERID LEASE small NAME flood-{number}-{round}\r\n"));
                }
                for _ in 0..50 {
                    let reply = String::from_utf8(wire.reply()).unwrap();
                    let is_known =
                        ["*5", "-EXHAUSTED", "-TRYAGAIN", "-BUSY"].iter().any(|word| reply.starts_with(word));
                    assert!(is_known, "{reply}");
                }
            });
        }
        // IDs continue during the flood.
        for _ in 0..100 {
            wire.id();
        }
    });
    let pool = wire.info("worker_pool_small");
    assert!(pool.contains("size=8,leased="), "{pool}");
    eventually("all ids are free again", || wire.info("worker_pool_small").contains("leased=0,free=8"));
}

#[test]
fn two_servers_lease_from_one_pool() {
    let dir = folder_with_open_pools();
    // The records of the sequence store `shared` are in `shared.records`.
    let path = dir.path().join("shared");
    for log in ["", "-wal"] {
        // A log exists if the server ended before SQLite moved it into the file.
        let _ = fs::rename(
            dir.path().join(format!("records.sqlite{log}")),
            dir.path().join(format!("shared.records{log}")),
        );
    }
    let store = format!("sqlite:{}", path.display());
    let pool = ["--sequence-store", &store, "--worker-pool", "orders size 8 lease 10m"];
    let servers = ["0", "1"].map(|id| Server::start(&[&["--server-id", id][..], &pool].concat()));
    let mut wires = servers.each_ref().map(Server::connect);
    let Granted { id, token, .. } = lease(&mut wires[0], "orders NAME a");
    let renewed = send_request(&mut wires[1], &format!("WORKERID RENEW orders {id} {token}"));
    assert!(renewed.starts_with("*1\r\n:"), "{renewed}");
    let mut ids = vec![id];
    for number in 0..7 {
        ids.push(lease(&mut wires[number % 2], "orders").id);
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..8).collect::<Vec<_>>());
}
