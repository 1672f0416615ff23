//! CLIENT over real connections: what one client does to another.

#![allow(missing_docs, reason = "a test file")]

mod common;

use std::time::{Duration, Instant};

use common::{Server, Wire};

/// Waits until `is_so`.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < common::PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn id_of(wire: &mut Wire) -> u64 {
    let reply = wire.ask("CLIENT ID");
    reply.strip_prefix(':').and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{reply}"))
}

fn addr_of(wire: &mut Wire, field: &str) -> String {
    let line = wire.ask_bulk("CLIENT INFO");
    let found = line.split(' ').find_map(|pair| pair.strip_prefix(field)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {field} in {line}")).to_owned()
}

/// A client that is cut off reads the end of the stream, and nothing before it.
#[track_caller]
fn assert_gone(mut wire: Wire) {
    assert_eq!(wire.rest(), "");
}

#[test]
fn kill_by_id_and_by_address() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    let (mut by_id, mut by_addr, mut by_old_form) = (server.connect(), server.connect(), server.connect());

    let id = id_of(&mut by_id);
    assert_eq!(wire.ask(&format!("CLIENT KILL ID {id}")), ":1");
    // Whoever was killed is neither listed nor killed again, even before its task has run.
    assert_eq!(wire.ask(&format!("CLIENT KILL ID {id}")), ":0");
    assert!(!wire.ask_bulk("CLIENT LIST").contains(&format!("id={id} ")));
    assert_gone(by_id);

    let addr = addr_of(&mut by_addr, "addr");
    assert_eq!(wire.ask(&format!("CLIENT KILL LADDR {addr}")), ":0");
    assert_eq!(wire.ask(&format!("CLIENT KILL ADDR {addr} ID {id}")), ":0", "all filters must hold");
    assert_eq!(wire.ask(&format!("CLIENT KILL ADDR {addr}")), ":1");
    assert_gone(by_addr);

    let addr = addr_of(&mut by_old_form, "addr");
    assert_eq!(wire.ask(&format!("CLIENT KILL {addr}")), "+OK");
    assert_eq!(wire.ask(&format!("CLIENT KILL {addr}")), "-ERR No such client");
    assert_gone(by_old_form);
    wire.id();
}

#[test]
fn kill_by_kind_by_user_and_by_our_end() {
    let server = Server::start(&["--requirepass", "secret"]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("AUTH secret"), "+OK");
    let (stranger, mut known) = (server.connect(), server.connect());
    assert_eq!(known.ask("AUTH secret"), "+OK");
    eventually("all are connected", || wire.info("connected_clients") == "3");
    for nobody in ["TYPE master", "TYPE pubsub", "TYPE replica", "LADDR 127.0.0.1:1"] {
        assert_eq!(wire.ask(&format!("CLIENT KILL {nobody} SKIPME yes")), ":0", "{nobody}");
    }
    // Without SKIPME its own connection is left alone.
    assert_eq!(wire.ask("CLIENT KILL TYPE normal USER default"), ":2");
    assert_gone(stranger);
    assert_gone(known);
    let other = server.connect();
    eventually("it is connected", || wire.info("connected_clients") == "2");
    let laddr = addr_of(&mut wire, "laddr");
    assert_eq!(wire.ask(&format!("CLIENT KILL LADDR {laddr}")), ":1");
    assert_gone(other);
}

#[test]
fn who_kills_itself_gets_the_reply_and_nothing_behind_it() {
    let server = Server::start(&[]);
    for (kill, reply) in [("CLIENT KILL ID {id} SKIPME no", ":1\r\n"), ("CLIENT KILL {addr}", "+OK\r\n")] {
        let mut wire = server.connect();
        let (id, addr) = (id_of(&mut wire), addr_of(&mut wire, "addr"));
        let kill = kill.replace("{id}", &id.to_string()).replace("{addr}", &addr);
        wire.send(format!("PING\r\n{kill}\r\nGETID\r\nPING\r\n"));
        assert_eq!(wire.rest(), format!("+PONG\r\n{reply}"));
    }
    // In a transaction the array breaks off, as in Redis: its other commands have no reader any more.
    let mut wire = server.connect();
    let id = id_of(&mut wire);
    wire.send(format!("MULTI\r\nCLIENT KILL ID {id} SKIPME no\r\nGETID\r\nEXEC\r\n"));
    assert_eq!(wire.rest(), "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n");
}

#[test]
fn a_killed_client_gives_its_place_back() {
    let server = Server::start(&["--maxclients", "2"]);
    let mut wire = server.connect();
    let mut other = server.connect();
    other.id();
    assert_eq!(server.connect().rest(), "-ERR max number of clients reached\r\n");
    let id = id_of(&mut other);
    assert_eq!(wire.ask(&format!("CLIENT KILL ID {id}")), ":1");
    assert_gone(other);
    eventually("there is room again", || wire.info("connected_clients") == "1");
    assert_eq!(server.connect().ask("PING"), "+PONG");
    assert_eq!(wire.info("rejected_connections"), "1");
}

#[test]
fn who_waits_for_ids_can_be_killed() {
    let narrow = ["--id-range", "2", "--shard-range", "0", "--random-range", "19"];
    let server = Server::start(&narrow);
    let mut waiting = server.connect();
    let id = id_of(&mut waiting);
    waiting.send("GETID\r\n".repeat(20_000));
    let mut wire = server.connect();
    eventually("it waits", || wire.info("blocked_clients") == "1");
    assert_eq!(wire.ask(&format!("CLIENT KILL ID {id}")), ":1");
    eventually("its place in the queue is given back", || wire.info("blocked_clients") == "0");
}

#[test]
fn with_more_threads_a_client_of_another_thread_is_killed_at_once() {
    let server = Server::start(&["--io-threads", "3"]);
    let mut wires: Vec<Wire> = (0..6).map(|_| server.connect()).collect();
    let ids: Vec<u64> = wires.iter_mut().map(id_of).collect();
    let mut first = wires.remove(0);
    for id in &ids[1..] {
        assert_eq!(first.ask(&format!("CLIENT KILL ID {id}")), ":1");
    }
    wires.into_iter().for_each(assert_gone);
    first.id();
}
