//! `EXPIRE` of sequences under `sequence-expire`, as programs send it, against the real process.

use crate::support::{Server, Wire, eventually, folder};

const DATED: [&str; 4] = ["--sequence-create", "on-first-use", "--sequence-expire", "*20[0-9][0-9]* limit:*"];

const NAME: &str = "orders:2026-11-27";

/// Returns the number of statements that the store got.
fn statements(wire: &mut Wire) -> u64 {
    wire.send("SEQUENCE STORES\r\n");
    let stores = String::from_utf8(wire.reply()).expect("text").replace("\r\n", " ");
    let (_, rest) = stores.split_once("statements :").expect("a number of statements");
    rest.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[track_caller]
fn ended(reply: &str) {
    let expected = format!("-ERR sequence '{NAME}' ended at 20");
    let remedy = format!("Z: 'PERSIST {NAME}' continues it above its last value");
    assert!(reply.starts_with(&expected) && reply.ends_with(&remedy), "{reply}");
}

#[test]
fn a_dated_counter_ends_and_persist_continues_it() {
    let server = Server::start(&DATED);
    let mut wire = server.connect();
    // One pipeline, as programs send it with the first value of a day.
    wire.send(format!("INCR {NAME}\r\nEXPIRE {NAME} 86400\r\nTTL {NAME}\r\n"));
    assert_eq!([wire.line(), wire.line(), wire.line()], [":1", ":1", ":86400"]);
    wire.send(format!("MULTI\r\nINCR {NAME}\r\nEXPIRE {NAME} 86400\r\nEXEC\r\n"));
    let lines: Vec<String> = (0..6).map(|_| wire.line()).collect();
    assert_eq!(lines[3..], ["*2", ":2", ":1"]);
    // The values in memory stay valid, and the end is not written again.
    let before = statements(&mut wire);
    for value in 3..60 {
        wire.send(format!("INCR {NAME}\r\nEXPIRE {NAME} 86400\r\n"));
        assert_eq!([wire.line(), wire.line()], [format!(":{value}"), ":1".to_owned()]);
    }
    let written = statements(&mut wire) - before;
    assert!(written <= 6, "{written} statements for 57 times INCR and EXPIRE");

    assert_eq!(wire.ask(&format!("EXPIRE {NAME} 100 NX")), ":0");
    assert_eq!(wire.ask(&format!("EXPIRE {NAME} 100 GT")), ":0");
    assert_eq!(wire.ask(&format!("EXPIRE {NAME} 100 LT")), ":1");
    assert_eq!(wire.ask(&format!("EXPIREAT {NAME} 4000000000 XX")), ":1");
    assert_eq!(wire.ask(&format!("EXPIRETIME {NAME}")), ":4000000000");
    assert_eq!(wire.ask(&format!("PEXPIRETIME {NAME}")), ":4000000000000");
    assert_eq!(wire.ask(&format!("SET {NAME} 1000 PX 200")), "+OK");
    eventually("it has ended", || wire.ask(&format!("PTTL {NAME}")) == ":0");
    for use_of in ["INCR {}", "INCRBY {} 5", "SEQUENCE NEXT {}", "SET {} 2000", "SET {} 2000 EX 5", "EXPIRE {} 60"] {
        ended(&wire.ask(&use_of.replace("{}", NAME)));
    }
    // It is there still, with its position.
    for (question, answer) in [("EXISTS {}", ":1"), ("TTL {}", ":0"), ("TYPE {}", "+string"), ("DBSIZE", ":1")] {
        assert_eq!(wire.ask(&question.replace("{}", NAME)), answer);
    }
    wire.send(format!("GET {NAME}\r\n"));
    assert_eq!([wire.line(), wire.line()], ["$4", "1000"]);
    wire.send(format!("SET {NAME} 1 NX EX 60\r\n"));
    assert_eq!(wire.line(), "$-1", "it exists, so a program that would make it learns that");
    assert_eq!([wire.ask(&format!("PERSIST {NAME}")), wire.ask(&format!("PERSIST {NAME}"))], [":1", ":0"]);
    assert_eq!([wire.ask(&format!("INCR {NAME}")), wire.ask(&format!("TTL {NAME}"))], [":1001", ":-1"]);
}

#[test]
fn an_end_is_shown_kept_over_a_restart_and_only_for_names_under_a_pattern() {
    let dir = folder();
    let server = Server::start_in(dir.path(), &DATED);
    let mut wire = server.connect();
    assert_eq!(wire.ask("SET limit:ann 0 EX 86400 NX"), "+OK");
    assert_eq!([wire.ask("INCR limit:ann"), wire.ask("TTL limit:ann")], [":1", ":86400"]);
    assert_eq!(wire.ask("INCR plain"), ":1");
    assert!(wire.ask("EXPIRE plain 60").starts_with("-ERR a sequence never expires"));
    assert_eq!([wire.ask("EXPIRE plain 60 NX"), wire.ask("PERSIST plain"), wire.ask("TTL plain")], [":0", ":0", ":-1"]);
    assert_eq!(
        [wire.ask("TTL missing"), wire.ask("PERSIST missing"), wire.ask("EXPIRE limit:b 5")],
        [":-2", ":0", ":0"]
    );
    assert_eq!(wire.ask("PEXPIREAT limit:ann 4000000000000"), ":1");
    wire.send("SEQUENCE INFO limit:ann\r\n");
    let info = String::from_utf8(wire.reply()).expect("text").replace("\r\n", " ");
    assert_eq!(info.matches("ends $24 2096-10-02T07:06:40.000Z").count(), 2, "{info}");
    wire.send("SEQUENCE LIST\r\n");
    let list = String::from_utf8(wire.reply()).expect("text").replace("\r\n", " ");
    assert!(list.contains("ends $24 2096-10-02T07:06:40.000Z") && list.contains("ends $-1"), "{list}");
    // A pattern that is gone leaves the end, which PERSIST removes.
    assert_eq!(wire.ask("CONFIG SET sequence-expire \"\""), "+OK");
    assert!(wire.ask("EXPIRE limit:ann 60").starts_with("-ERR a sequence never expires"));
    assert!(server.stop().success());
    let server = Server::start_in(dir.path(), &DATED);
    let mut wire = server.connect();
    assert_eq!(wire.ask("PEXPIRETIME limit:ann"), ":4000000000000");
    assert_eq!([wire.ask("INCR limit:ann"), wire.ask("EXPIRE limit:ann 0")], [":2", ":1"]);
    assert!(wire.ask("INCR limit:ann").starts_with("-ERR sequence 'limit:ann' ended at 20"));
    assert_eq!([wire.ask("PERSIST limit:ann"), wire.ask("INCR limit:ann")], [":1", ":3"]);
}

/// A client that invents names, ends and conditions makes no rows, and cannot end a sequence without the right to write
/// its key.
#[test]
fn a_client_without_rights_ends_nothing_and_ends_make_no_rows() {
    let server = Server::start(&DATED);
    let mut wire = server.connect();
    assert_eq!(wire.ask("SET limit:ann 7"), "+OK");
    for n in 0..300 {
        assert_eq!(wire.ask(&format!("EXPIRE limit:{n} {n}")), ":0");
        assert_eq!(wire.ask(&format!("PERSIST limit:{n}")), ":0");
    }
    assert_eq!(wire.ask("DBSIZE"), ":1");
    assert_eq!(wire.ask("ACL SETUSER reader on nopass %R~limit:* +@all"), "+OK");
    assert_eq!(wire.ask("ACL SETUSER other on nopass ~orders:* +@all"), "+OK");
    for user in ["reader", "other"] {
        let mut wire = server.connect();
        assert_eq!(wire.ask(&format!("AUTH {user} x")), "+OK");
        for command in ["EXPIRE limit:ann 1", "PERSIST limit:ann", "SET limit:ann 9 EX 1", "GETEX limit:ann EX 1"] {
            assert!(wire.ask(command).starts_with("-NOPERM"), "{user}: {command}");
        }
    }
    assert_eq!([wire.ask("TTL limit:ann"), wire.ask("INCR limit:ann")], [":-1", ":8"]);
    for wrong in
        ["EXPIRE limit:ann 9223372036854775807", "SET limit:ann 9 EX 9223372036854775", "EXPIREAT limit:ann 1e9"]
    {
        assert!(wire.ask(wrong).starts_with("-ERR "), "{wrong}");
    }
    assert_eq!(wire.ask("GET limit:ann").as_str(), "$1");
}
