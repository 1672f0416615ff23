//! A server's default store of sequences over its lives: killed, missing, replaced by a copy.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::support::{Server, Wire, eventually, folder};

/// Options with which the first request for a sequence creates it.
const COUNTS: [&str; 2] = ["--sequence-create", "on-first-use"];

fn value(line: &str) -> i64 {
    line.strip_prefix(':').and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("not a value: {line}"))
}

#[test]
fn killed_under_load_no_value_comes_twice() {
    let dir = folder();
    let mut seen = BTreeSet::new();
    for round in 0..8 {
        let server = Server::start_in(dir.path(), &COUNTS);
        let received = AtomicUsize::new(0);
        let lives_of = |wire: &mut Wire| -> Vec<i64> {
            let mut values = Vec::new();
            while wire.try_send("INCR orders\r\n".repeat(20)).is_ok() {
                for _ in 0..20 {
                    match wire.try_line() {
                        Ok(line) if line.starts_with(':') => values.push(value(&line)),
                        _ => return values,
                    }
                }
                received.fetch_add(20, Relaxed);
            }
            values
        };
        let mut wires: Vec<Wire> = (0..4).map(|_| server.connect()).collect();
        let before = seen.last().copied().unwrap_or(0);
        let all: Vec<Vec<i64>> = std::thread::scope(|scope| {
            let clients: Vec<_> = wires.iter_mut().map(|wire| scope.spawn(move || lives_of(wire))).collect();
            eventually("the load has received values", || received.load(Relaxed) >= 300 * (1 + round % 7));
            server.kill();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        for values in all {
            assert!(values.is_sorted_by(|one, next| one < next), "out of order");
            for value in values {
                assert!(value > before && seen.insert(value), "{value} in round {round}");
            }
        }
    }
}

#[test]
fn a_stop_logs_the_values_that_it_returns() {
    let dir = folder();
    let mut server = Server::start_in(dir.path(), &COUNTS);
    let mut wire = server.connect();
    let last = (0..300).map(|_| value(&wire.ask("INCR orders"))).last().unwrap();
    assert_eq!(last, 300);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait_log("of 1 sequence unused and returned to the store");
    assert!(server.wait().success());
    let server = Server::start_in(dir.path(), &COUNTS);
    assert_eq!(value(&server.connect().ask("INCR orders")), 301);
}

#[test]
fn a_store_that_cannot_be_opened_delays_no_id_and_is_reconnected() {
    let dir = folder();
    let blocked = dir.path().join("blocked");
    fs::create_dir(&blocked).unwrap();
    let words = [&COUNTS[..], &["--sequence-store", "sqlite:blocked"]].concat();
    let mut server = Server::start_in(dir.path(), &words);
    let mut wire = server.connect();
    assert!(wire.id() > 0);
    server.wait_log("It is tried again until it answers");
    let mut refused = String::new();
    eventually("clients get an error", || {
        refused = wire.ask("INCR orders");
        refused.starts_with("-MISCONF sequence store sqlite:")
    });
    assert!(refused.contains("blocked"), "{refused}");
    fs::remove_dir(&blocked).unwrap();
    eventually("values are issued", || wire.ask("INCR orders") == ":1");
    server.wait_log("answers again, after");
}

#[test]
fn a_folder_that_is_removed_gives_an_error_in_the_next_life_and_never_a_fresh_1() {
    let dir = folder();
    let own = dir.path().join("own");
    fs::create_dir(&own).unwrap();
    let server = Server::start_in(&own, &[&COUNTS[..], &["--sequence-wait-ms", "200"]].concat());
    let mut wire = server.connect();
    eventually("the first value", || wire.ask("INCR orders") == ":1");
    // The server may create a file in it at this moment.
    eventually("the folder is removed", || fs::remove_dir_all(&own).is_ok());
    // However many values are issued from here on, none is issued twice in this life.
    let mut wire = server.connect();
    let given: Vec<i64> = (0..5_000)
        .map(|_| wire.ask("INCR orders"))
        .take_while(|line| line.starts_with(':'))
        .map(|line| value(&line))
        .collect();
    assert!(given.is_sorted_by(|one, next| one < next) && given.first().is_none_or(|first| *first > 1), "{given:?}");
    server.kill();
    fs::create_dir(&own).unwrap();
    let server = Server::start_in(&own, &[]);
    let mut wire = server.connect();
    eventually("the sequence is refused", || {
        let refused = wire.ask("INCR orders");
        assert!(refused.starts_with('-'), "{refused}");
        refused.starts_with("-ERR no such sequence 'orders'")
    });
}

/// A backup that is taken under load and restored: values issued since are not issued again.
#[test]
fn a_backup_is_taken_while_values_are_issued_and_restored() {
    let dir = folder();
    let server = Server::start_in(dir.path(), &COUNTS);
    let mut wire = server.connect();
    assert!(wire.ask("SEQUENCE BACKUP first.backup").starts_with("-MISCONF sequence store sqlite:"));
    assert_eq!(wire.ask("INCR orders"), ":1");
    for name in ["../x.backup", ".backup", "sequences-0.sqlite-wal", "a b.backup", "-x.backup"] {
        let refused = wire.ask(&format!("SEQUENCE BACKUP \"{name}\""));
        assert!(refused.starts_with(&format!("-ERR '{name}' cannot be the name of a backup")), "{refused}");
    }
    fs::write(dir.path().join(".first.backup.part"), "what a crash has left").unwrap();
    let reply = wire.ask("SEQUENCE BACKUP first.backup");
    assert!(!dir.path().join(".first.backup.part").exists());
    assert!(reply.starts_with("+OK ") && reply.ends_with(" bytes in first.backup"), "{reply}");
    let again = wire.ask("SEQUENCE BACKUP first.backup");
    assert!(again.contains("there is a file") && again.contains("first.backup' already"), "{again}");
    let last = (0..500).map(|_| value(&wire.ask("INCR orders"))).last().unwrap();
    assert_eq!(last, 501);
    drop(wire);
    assert!(server.stop().success());
    let file = dir.path().join("sequences-0.sqlite");
    assert!(!dir.path().join("sequences-0.sqlite-wal").exists(), "a clean stop leaves no log");
    fs::rename(dir.path().join("first.backup"), &file).unwrap();
    let server = Server::start_in(dir.path(), &COUNTS);
    let mut wire = server.connect();
    let refused = wire.ask("INCR orders");
    assert!(refused.starts_with('-') && refused.contains("SEQUENCE RAISE"), "{refused}");
    assert_eq!(wire.ask(&format!("SEQUENCE RAISE orders {last}")), "+OK");
    assert_eq!(value(&wire.ask("INCR orders")), last + 1);
}
