//! Numbers without gaps, on real sockets with the default store.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::support::postgres::PostgresServer;
use crate::support::{Server, Wire, eventually, folder, getid};

const RECEIPT: [&str; 5] = ["--generator", "receipt", "serial", "R{n:6}", "gapless"];

/// Returns the reply without the frames of strings, arrays and maps.
fn text_of(reply: &[u8]) -> String {
    let reply = String::from_utf8_lossy(reply).into_owned();
    let lines: Vec<&str> = reply.lines().filter(|line| !line.starts_with('$') && !line.starts_with('*')).collect();
    lines.join(" ")
}

fn ask(wire: &mut Wire, request: &str) -> String {
    wire.send(format!("{request}\r\n"));
    text_of(&wire.reply())
}

#[track_caller]
fn check(wire: &mut Wire, conversation: &[(&str, &str)]) {
    for (request, expected) in conversation {
        let reply = ask(wire, request);
        // A full stop at the end of an error is its own.
        let is_as_expected = reply == *expected || (expected.starts_with('-') && reply.contains(&expected[1..]));
        assert!(is_as_expected, "{request}: {reply}, expected {expected}");
    }
}

/// Returns the first number and the state of each row of the ledger.
fn ledger(wire: &mut Wire, words: &str) -> Vec<(String, String)> {
    wire.send(format!("NUMBER LEDGER receipt {words}\r\n"));
    let reply = String::from_utf8_lossy(&wire.reply()).into_owned();
    let lines: Vec<&str> = reply.lines().filter(|line| !line.starts_with(['$', '*'])).collect();
    let value = |at: usize| lines.get(at + 1).unwrap_or(&"").to_string();
    let places = |name: &str| -> Vec<usize> { (0..lines.len()).filter(|at| lines[*at] == name).collect() };
    places("text").into_iter().map(value).zip(places("state").into_iter().map(value)).collect()
}

fn rows(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(text, state)| ((*text).to_owned(), (*state).to_owned())).collect()
}

#[test]
fn a_request_has_one_number_and_settles_it() {
    let dir = folder();
    let server = Server::start_in(dir.path(), &RECEIPT);
    let mut wire = server.connect();
    check(
        &mut wire,
        &[
            ("NUMBER RESERVE receipt REQUEST a", "R000001"),
            ("NUMBER RESERVE receipt REQUEST a DUE 60", "R000001"),
            ("NUMBER RESERVE receipt REQUEST b", "R000002"),
            ("NUMBER RESERVE receipt REQUEST c", "R000003"),
            ("NUMBER COMMIT receipt a", "+OK"),
            ("NUMBER COMMIT receipt a", "+OK"),
            ("NUMBER RESERVE receipt REQUEST a", "R000001"),
            ("NUMBER RELEASE receipt b", "+OK"),
            ("NUMBER RELEASE receipt b", "+OK"),
            // The lowest released number comes before the next one.
            ("NUMBER RESERVE receipt REQUEST d", "R000002"),
            ("NUMBER RELEASE receipt b", "+OK"),
            ("NUMBER VOID receipt c REASON \"printed twice\"", "+OK"),
            ("NUMBER VOID receipt c REASON \"printed twice\"", "+OK"),
            ("GETID receipt REQUEST e", "R000004"),
            ("GETID receipt REQUEST e FOR 60", "R000004"),
            ("NUMBER SETTLE receipt R000002 COMMIT REASON \"found in the archive\"", "+OK"),
        ],
    );
    let all =
        rows(&[("R000001", "committed"), ("R000002", "committed"), ("R000003", "void"), ("R000004", "committed")]);
    assert_eq!(ledger(&mut wire, ""), all);
    assert_eq!(ledger(&mut wire, "STATE void"), all[2..3]);
    assert_eq!(ledger(&mut wire, "COUNT 2"), all[..2]);
    let reply = ask(&mut wire, "NUMBER LEDGER receipt STATE void");
    assert!(reply.contains("request c user default reason printed twice"), "{reply}");
    server.kill();
    let server = Server::start_in(dir.path(), &RECEIPT);
    let mut wire = server.connect();
    assert_eq!(ledger(&mut wire, ""), all);
    check(
        &mut wire,
        &[("NUMBER RESERVE receipt REQUEST e", "R000004"), ("NUMBER RESERVE receipt REQUEST f", "R000005")],
    );
}

/// The number after many errors is the next one.
#[test]
fn an_error_consumes_nothing() {
    let words = ["--generator", "ticket", "serial", "T{n:6}"];
    let server = Server::start(&[&RECEIPT[..], &words].concat());
    let mut wire = server.connect();
    let long = "x".repeat(129);
    let (long_request, long_reason) =
        (format!("NUMBER RESERVE receipt REQUEST {long}"), format!("NUMBER VOID receipt a REASON {long}{long}"));
    check(&mut wire, &[("NUMBER RESERVE receipt REQUEST a", "R000001"), ("NUMBER COMMIT receipt a", "+OK")]);
    check(
        &mut wire,
        &[
            (&long_request, "-cannot be a REQUEST"),
            ("NUMBER RESERVE receipt REQUEST \"\"", "-cannot be a REQUEST"),
            ("NUMBER RESERVE receipt REQUEST \"a\\nb\"", "-cannot be a REQUEST"),
            ("NUMBER RESERVE receipt REQUEST b DUE 0", "-DUE is 0, must be 1 to 31622400 seconds"),
            ("NUMBER RESERVE receipt REQUEST b DUE 31622401", "-DUE is 31622401"),
            ("NUMBER RESERVE receipt REQUEST b KEY acme", "-'receipt' has no"),
            ("NUMBER COMMIT receipt nosuch", "-ERR no number of generator 'receipt' belongs to request 'nosuch'"),
            ("NUMBER RELEASE receipt a", "-ERR number 'R000001' of generator 'receipt' is committed"),
            (&long_reason, "-cannot be the REASON"),
            ("NUMBER VOID receipt a REASON x", "-ERR number 'R000001' of generator 'receipt' is committed"),
            (
                "NUMBER SETTLE receipt R000009 VOID REASON x",
                "-ERR no number of generator 'receipt' has the text 'R000009'",
            ),
            (
                "NUMBER SETTLE receipt R000001 VOID REASON x",
                "-ERR number 'R000001' of generator 'receipt' is committed",
            ),
            ("GETID receipt", "-NUMBER RESERVE receipt REQUEST r reserves it"),
            ("MGETID 2 receipt", "-each of its numbers has a request of its own"),
            ("MGETID 2 receipt REQUEST b", "-each of its numbers has a request of its own"),
            ("INCR receipt", "-WRONGTYPE"),
            ("SEQUENCE NEXT receipt", "-WRONGTYPE"),
            ("NUMBER RESERVE ticket REQUEST b", "-ERR generator 'ticket' is not gapless"),
        ],
    );
    check(&mut wire, &[("NUMBER RESERVE receipt REQUEST b", "R000002")]);
    // Neither do a transaction that is discarded and a connection that ends before its request.
    check(&mut wire, &[("MULTI", "+OK"), ("NUMBER RESERVE receipt REQUEST c", "+QUEUED"), ("DISCARD", "+OK")]);
    let mut cut = server.connect();
    cut.send("NUMBER RESERVE receipt REQUEST ");
    drop(cut);
    check(
        &mut wire,
        &[
            ("MULTI", "+OK"),
            ("NUMBER RESERVE receipt REQUEST d", "+QUEUED"),
            ("NUMBER COMMIT receipt d", "+QUEUED"),
            ("EXEC", "R000003 +OK"),
        ],
    );
}

#[test]
fn users_settle_their_own_requests_and_administrators_all() {
    let mut server = Server::start(&RECEIPT);
    let mut admin = server.connect();
    for rules in [
        "one on nopass +number +getid ~receipt -number|settle",
        "two on nopass +number +getid ~receipt -number|settle",
        "reader on nopass +number|ledger ~receipt",
        "other on nopass +number ~invoice",
    ] {
        assert_eq!(ask(&mut admin, &format!("ACL SETUSER {rules}")), "+OK");
    }
    let as_user = |name: &str| {
        let mut wire = server.connect();
        assert_eq!(ask(&mut wire, &format!("AUTH {name} x")), "+OK");
        wire
    };
    let (mut one, mut two, mut reader, mut other) =
        (as_user("one"), as_user("two"), as_user("reader"), as_user("other"));
    check(
        &mut one,
        &[("NUMBER RESERVE receipt REQUEST a", "R000001"), ("NUMBER SETTLE receipt R000001 VOID REASON x", "-NOPERM")],
    );
    check(
        &mut two,
        &[
            ("NUMBER COMMIT receipt a", "-NOPERM request 'a' of generator 'receipt' belongs to another user"),
            ("NUMBER RELEASE receipt a", "-NOPERM request 'a'"),
            ("NUMBER VOID receipt a REASON x", "-NOPERM request 'a'"),
            ("NUMBER RESERVE receipt REQUEST a", "-NOPERM request 'a'"),
            ("GETID receipt REQUEST a", "-NOPERM request 'a'"),
            ("NUMBER RESERVE receipt REQUEST b", "R000002"),
        ],
    );
    let shown = ask(&mut one, "NUMBER LEDGER receipt");
    assert!(shown.contains("request a user one") && !shown.contains("user two"), "{shown}");
    let shown = ask(&mut reader, "NUMBER LEDGER receipt");
    assert!(shown.contains("R000002") && !shown.contains("user one") && !shown.contains("user two"), "{shown}");
    check(&mut reader, &[("NUMBER COMMIT receipt a", "-NOPERM")]);
    check(&mut other, &[("NUMBER RESERVE receipt REQUEST c", "-NOPERM"), ("NUMBER LEDGER receipt", "-NOPERM")]);
    let shown = ask(&mut admin, "NUMBER LEDGER receipt");
    assert!(shown.contains("request a user one") && shown.contains("request b user two"), "{shown}");
    check(
        &mut admin,
        &[
            ("NUMBER COMMIT receipt a", "+OK"),
            ("NUMBER SETTLE receipt R000002 VOID REASON \"left the firm\"", "+OK"),
            ("NUMBER RESERVE receipt REQUEST c", "R000003"),
        ],
    );
    check(&mut two, &[("NUMBER COMMIT receipt b", "-ERR number 'R000002' of generator 'receipt' is void")]);
    let line = server.wait_log("NUMBER SETTLE VOID");
    assert!(line.contains("R000002"), "{line}");
}

/// A request of another key is answered as an unknown one, and its key is not begun by that.
#[test]
fn a_user_with_the_right_to_one_key_has_its_numbers() {
    let server = Server::start(&["--generator", "bill serial B-{key}-{n:4} zone UTC gapless"]);
    let mut admin = server.connect();
    for rules in ["acme on nopass +@all -@dangerous ~bill/ACME", "all on nopass +@all -@dangerous ~bill ~bill/*"] {
        assert_eq!(ask(&mut admin, &format!("ACL SETUSER {rules}")), "+OK");
    }
    let (mut acme, mut all) = (server.connect(), server.connect());
    check(&mut acme, &[("AUTH acme x", "+OK"), ("NUMBER RESERVE bill REQUEST a KEY acme", "B-ACME-0001")]);
    check(
        &mut all,
        &[
            ("AUTH all x", "+OK"),
            ("NUMBER RESERVE bill REQUEST g KEY globex", "B-GLOBEX-0001"),
            ("NUMBER COMMIT bill g KEY acme", "-ERR no number of generator 'bill' belongs to request 'g'"),
            ("NUMBER COMMIT bill g KEY new", "-ERR no number of generator 'bill' belongs to request 'g'"),
            ("NUMBER COMMIT bill a KEY globex", "-ERR no number of generator 'bill' belongs to request 'a'"),
            ("NUMBER COMMIT bill a KEY acme", "-NOPERM request 'a' of generator 'bill' belongs to another user"),
            ("NUMBER COMMIT bill g KEY Globex", "+OK"),
            ("NUMBER COMMIT bill g", "+OK"),
        ],
    );
    check(
        &mut acme,
        &[
            ("NUMBER COMMIT bill g KEY acme", "-ERR no number of generator 'bill' belongs to request 'g'"),
            ("NUMBER COMMIT bill g KEY globex", "-NOPERM"),
            ("NUMBER COMMIT bill a", "-NOPERM"),
            ("NUMBER RELEASE bill a KEY acme", "+OK"),
            ("NUMBER RESERVE bill REQUEST b KEY acme", "B-ACME-0001"),
            ("NUMBER VOID bill b REASON torn KEY acme", "+OK"),
            ("GETID bill key acme REQUEST c", "B-ACME-0002"),
            ("NUMBER COMMIT bill c KEY acme", "+OK"),
        ],
    );
    assert_eq!(ask(&mut admin, "SERIES LIST bill").trim(), "ACME GLOBEX", "a commit begins no key");
}

#[test]
fn an_overdue_number_is_shown_and_logged_and_stays_reserved() {
    let mut server = Server::start(&RECEIPT);
    let mut wire = server.connect();
    check(
        &mut wire,
        &[("NUMBER RESERVE receipt REQUEST a DUE 1", "R000001"), ("NUMBER RESERVE receipt REQUEST b", "R000002")],
    );
    eventually("the number is overdue", || {
        ask(&mut wire, "INFO numbers").contains("numbers_receipt:reserved=2,overdue=1,released=0,unclear=0")
    });
    let line = "generator receipt has 1 reserved number whose requests did not settle them in time";
    server.wait_log(line);
    let reply = ask(&mut wire, "NUMBER LEDGER receipt COUNT 1");
    assert!(reply.contains("state reserved") && reply.contains("overdue yes"), "{reply}");
    check(&mut wire, &[("NUMBER RESERVE receipt REQUEST c", "R000003"), ("NUMBER COMMIT receipt a", "+OK")]);
}

/// Many clients that are killed with their server at any moment: each number has one request and one state.
#[test]
fn no_number_twice_and_none_without_a_state() {
    let dir = folder();
    let mut served = BTreeSet::new();
    for life in 0..2 {
        let server = Server::start_in(dir.path(), &RECEIPT);
        let port = server.port;
        let texts: Vec<String> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|client| {
                    scope.spawn(move || {
                        let mut wire = Wire::connect(port);
                        let requests = (0..25).map(|at| format!("r-{life}-{client}-{at}"));
                        let send = requests
                            .map(|r| format!("NUMBER RESERVE receipt REQUEST {r}\r\nNUMBER COMMIT receipt {r}\r\n"));
                        wire.send(send.collect::<String>());
                        let mut texts = Vec::new();
                        for _ in 0..25 {
                            texts.push(text_of(&wire.reply()));
                            assert_eq!(text_of(&wire.reply()), "+OK");
                        }
                        texts
                    })
                })
                .collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        for text in texts {
            assert!(text.starts_with('R') && served.insert(text.clone()), "{text}");
        }
        server.kill();
    }
    let server = Server::start_in(dir.path(), &RECEIPT);
    let listed = ledger(&mut server.connect(), "COUNT 1000");
    let expected: Vec<_> = (1..=400).map(|number| (format!("R{number:06}"), "committed".to_owned())).collect();
    assert_eq!(listed, expected);
}

#[test]
fn a_raise_makes_one_range_void() {
    let server = Server::start(&RECEIPT);
    let mut wire = server.connect();
    check(
        &mut wire,
        &[
            ("NUMBER RESERVE receipt REQUEST a", "R000001"),
            ("SEQUENCE RAISE receipt 4000", "+OK"),
            ("NUMBER RESERVE receipt REQUEST b", "R004001"),
            ("SEQUENCE RAISE receipt 10", "-ERR numbers never go back"),
            ("NUMBER RESERVE receipt REQUEST c", "R004002"),
        ],
    );
    let all = [("R000001", "reserved"), ("R000002", "void"), ("R004001", "reserved"), ("R004002", "reserved")];
    assert_eq!(ledger(&mut wire, ""), rows(&all));
    let reply = ask(&mut wire, "NUMBER LEDGER receipt STATE void");
    assert!(reply.contains("number :2 last :4000") && reply.contains("reason SEQUENCE RAISE"), "{reply}");
}

#[test]
fn a_restored_backup_leaves_unclear_numbers_to_an_administrator() {
    let dir = folder();
    let server = Server::start_in(dir.path(), &RECEIPT);
    let mut wire = server.connect();
    check(&mut wire, &[("NUMBER RESERVE receipt REQUEST a", "R000001"), ("NUMBER COMMIT receipt a", "+OK")]);
    let reply = ask(&mut wire, "SEQUENCE BACKUP copy.backup");
    assert!(reply.starts_with("+OK"), "{reply}");
    check(&mut wire, &[("NUMBER RESERVE receipt REQUEST b", "R000002")]);
    assert!(server.stop().success());
    let files: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let has_end = |path: &PathBuf, end: &str| path.to_string_lossy().ends_with(end);
    let is_of_store = |path: &PathBuf| path.to_string_lossy().contains("sequences-");
    let store = files.iter().find(|path| is_of_store(path) && has_end(path, ".sqlite"));
    let copy = files.iter().find(|path| has_end(path, "copy.backup"));
    // The notes may have a log of their own, and stay.
    let logs = files.iter().filter(|path| is_of_store(path) && has_end(path, ".sqlite-wal"));
    logs.for_each(|path| fs::remove_file(path).unwrap());
    fs::rename(copy.unwrap(), store.unwrap()).unwrap();
    let mut server = Server::start_in(dir.path(), &RECEIPT);
    let mut wire = server.connect();
    check(&mut wire, &[("NUMBER RESERVE receipt REQUEST c", "R000003")]);
    let all = rows(&[("R000001", "committed"), ("R000002", "unclear"), ("R000003", "reserved")]);
    assert_eq!(ledger(&mut wire, ""), all);
    server.wait_log("generator receipt has 1 unclear number, because its store went back");
    assert!(ask(&mut wire, "INFO numbers").contains("overdue=0,released=0,unclear=1"));
    check(
        &mut wire,
        &[
            ("NUMBER COMMIT receipt b", "-ERR no number of generator 'receipt' belongs to request 'b'"),
            ("NUMBER SETTLE receipt R000002 COMMIT REASON \"the invoice was sent\"", "+OK"),
            ("NUMBER RESERVE receipt REQUEST d", "R000004"),
        ],
    );
    assert_eq!(ledger(&mut wire, "STATE unclear"), []);
}

/// An error about the key of a series names the key, so that its remedy can be sent as it is.
#[test]
fn errors_name_the_key_of_a_series() {
    let words = ["--generator", "bill", "serial", "B-{key}-{n:5}", "gapless", "keys", "declared", "keys-max", "1"];
    let server = Server::start(&words);
    check(
        &mut server.connect(),
        &[
            (
                "NUMBER RESERVE bill REQUEST a KEY acme",
                "-key 'ACME', and its keys are declared: 'SERIES CREATE bill ACME'",
            ),
            ("SEQUENCE RAISE bill/acme 5", "-'SERIES CREATE bill ACME'"),
            ("SERIES CREATE bill ACME", "+OK"),
            ("NUMBER RESERVE bill REQUEST a KEY acme", "B-ACME-00001"),
            ("SERIES CREATE bill globex", "-has no series of the key 'GLOBEX' yet, and its maximum of 1 keys"),
            ("GETID bill key globex REQUEST b", "-has no series of the key 'GLOBEX'"),
        ],
    );
}

/// A request that has released its number is refused by its own history, whatever became of the number.
#[test]
fn a_released_request_gets_no_other_number() {
    let server = Server::start(&RECEIPT);
    let released = "-ERR request 'a' of generator 'receipt' has released its number 'R000001'";
    check(
        &mut server.connect(),
        &[
            ("NUMBER RESERVE receipt REQUEST a", "R000001"),
            ("NUMBER RELEASE receipt a", "+OK"),
            ("NUMBER COMMIT receipt a", released),
            ("GETID receipt REQUEST b", "R000001"),
            ("NUMBER RESERVE receipt REQUEST a", released),
            ("NUMBER COMMIT receipt a", released),
        ],
    );
}

/// A server that does not declare the generator gets nothing of its counter, and does not move it.
#[test]
fn a_counter_with_a_ledger_is_no_sequence() {
    let dir = folder();
    let server = Server::start_in(dir.path(), &RECEIPT);
    check(&mut server.connect(), &[("NUMBER RESERVE receipt REQUEST a", "R000001")]);
    assert!(server.stop().success());
    let server = Server::start_in(dir.path(), &["--sequence-expire", "*"]);
    let mut wire = server.connect();
    for request in [
        "INCR receipt",
        "SEQUENCE NEXT receipt",
        "SET receipt 50",
        "SEQUENCE CREATE receipt",
        "SEQUENCE RAISE receipt 50",
        "SEQUENCE ALTER receipt CACHE 5",
        "SEQUENCE DROP receipt",
        "EXPIRE receipt 60",
    ] {
        let reply = ask(&mut wire, request);
        assert!(reply.starts_with('-') && reply.contains("gapless"), "{request}: {reply}");
    }
    assert!(server.stop().success());
    let server = Server::start_in(dir.path(), &RECEIPT);
    let mut wire = server.connect();
    check(&mut wire, &[("NUMBER RESERVE receipt REQUEST b", "R000002")]);
    assert_eq!(ledger(&mut wire, ""), rows(&[("R000001", "reserved"), ("R000002", "reserved")]));
}

/// A generator that has given numbers without a ledger does not get one.
#[test]
fn gapless_begins_with_the_first_number() {
    let dir = folder();
    let server = Server::start_in(dir.path(), &RECEIPT[..4]);
    check(&mut server.connect(), &[("GETID receipt", "R000001")]);
    assert!(server.stop().success());
    let server = Server::start_in(dir.path(), &RECEIPT);
    let reply = ask(&mut server.connect(), "NUMBER RESERVE receipt REQUEST a");
    assert!(reply.starts_with("-ERR") && reply.contains("gapless"), "{reply}");
}

/// A database whose settings may lose a commit keeps no ledger; `check-config` reports it before a start. Its other
/// counters are given.
#[test]
#[ignore = "needs postgresql"]
fn a_store_that_may_lose_commits_keeps_no_ledger() {
    let database = PostgresServer::start(&["fsync = off"]);
    let url = database.url();
    let words = [&RECEIPT[..], &["--generator", "ticket", "serial", "T{n:4}", "--sequence-store", &url]].concat();
    let expected = "may lose a number that was handed out: fsync is off";
    let output = getid().args(["check-config", "--connect"]).args(&words).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && complaints.contains("generator receipt is gapless"), "{complaints}");
    assert!(complaints.contains(expected) && complaints.contains("set fsync = on"), "{complaints}");
    let server = Server::start(&words);
    let mut wire = server.connect();
    eventually("a serial number is given", || ask(&mut wire, "GETID ticket") == "T0001");
    for request in ["NUMBER RESERVE receipt REQUEST a", "GETID receipt REQUEST a", "NUMBER LEDGER receipt"] {
        let reply = ask(&mut wire, request);
        assert!(reply.starts_with('-') && reply.contains(expected), "{request}: {reply}");
    }
    assert_eq!(database.psql("SELECT count(*) FROM getid_number"), "0");
}
