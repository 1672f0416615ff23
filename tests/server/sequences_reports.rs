//! Reports about sequences for operators: INFO, `SEQUENCE INFO`, log lines, and mistakes in a store's address.

use std::process::{Command, Output};

use crate::support::postgres::PostgresServer;
use crate::support::{Server, Wire, eventually, folder, getid, refused};

/// Returns the value of a field of `INFO sequences`.
fn info_field(wire: &mut Wire, field: &str) -> Option<String> {
    let text = wire.ask_bulk("INFO sequences");
    text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned))
}

fn number(wire: &mut Wire, field: &str) -> u64 {
    let text = info_field(wire, field).unwrap_or_else(|| panic!("no {field}"));
    text.parse().unwrap_or_else(|_| panic!("{field}: {text}"))
}

/// Returns one number of a comma-separated line of `name=value`.
fn part(line: &str, name: &str) -> Option<i64> {
    line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

#[test]
fn info_reports_sequences_and_their_store() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    assert_eq!([number(&mut wire, "sequences_in_memory"), number(&mut wire, "sequences_given")], [0, 0]);
    assert_eq!(wire.ask("SEQUENCE CREATE shop:orders"), "+OK");
    assert!((1..=3).all(|value| wire.ask("INCR shop:orders") == format!(":{value}")));
    assert!(wire.ask("INCR missing").starts_with("-ERR no such"));
    // A segment that is fetched ahead may arrive between two readings.
    let (mut line, mut last, mut until, mut left) = (String::new(), 0, 0, 0);
    eventually("nothing is fetched any more", || {
        line = info_field(&mut wire, "sequence_shop/orders").expect("a line");
        [last, until, left] =
            ["last", "until", "left"].map(|name| part(&line, name).unwrap_or_else(|| panic!("{line}")));
        wire.send("SEQUENCE INFO shop:orders\r\n");
        let info = String::from_utf8(wire.reply()).unwrap();
        info.contains(&format!("\r\n:{until}\r\n")) && i64::try_from(number(&mut wire, "sequences_held")) == Ok(left)
    });
    assert_eq!((last, left), (3, until - 3), "{line}");
    for field in ["segment", "fetched_ms_ago", "fetch_ms", "waited", "waiting", "errors"] {
        assert!(part(&line, field).is_some(), "{field}: {line}");
    }
    for field in ["rate_10s=", "rate_5min=", "rate_30min="] {
        assert!(line.contains(field), "{field}: {line}");
    }
    assert_eq!(info_field(&mut wire, "sequence_missing"), None, "the sequence does not exist");
    for (field, expected) in [
        ("sequences_given", 3),
        ("sequences_held", u64::try_from(left).unwrap()),
        ("sequences_waiting", 0),
        ("sequences_refused", 1),
        ("sequences_fetches_failed", 0),
        ("sequences_regressed", 0),
    ] {
        assert_eq!(number(&mut wire, field), expected, "{field}");
    }
    assert!(number(&mut wire, "sequences_waited") >= 1 && number(&mut wire, "sequences_fetches") >= 2);
    let store = info_field(&mut wire, "sequences_store_0").expect("a line");
    for expected in ["address=sqlite:", ",state=up,for_s=", ",database=SQLite ", ",errors=0,", ",reserved="] {
        assert!(store.contains(expected), "{expected}: {store}");
    }
    assert!(!store.contains("reason="), "{store}");
    // `SEQUENCE INFO` reports one sequence, however many there are.
    wire.send("SEQUENCE INFO shop:orders\r\n");
    let info = String::from_utf8(wire.reply()).unwrap().replace("\r\n", " ");
    for expected in [
        "$15 last_given_here :3 ".to_owned(),
        format!("reserved_until :{until} "),
        format!("a_kill_skips :{left} "),
        "raise_effective_in_s :0".to_owned(),
        "$5 state $4 live ".to_owned(),
        "generation :".to_owned(),
        "version :".to_owned(),
        "updated $".to_owned(),
    ] {
        assert!(info.contains(&expected), "{expected}: {info}");
    }
    // The values of a dropped sequence stay in the count.
    assert_eq!(wire.ask("SEQUENCE DROP shop:orders"), "+OK");
    assert_eq!([number(&mut wire, "sequences_given"), number(&mut wire, "sequences_held")], [3, 0]);
}

#[test]
fn at_most_sixteen_busiest_sequences_have_a_line() {
    let server = Server::start(&["--sequence-create", "on-first-use"]);
    let mut wire = server.connect();
    let longest = "x".repeat(128);
    assert_eq!(wire.ask(&format!("INCR {longest}")), ":1");
    for name in 0..60 {
        assert_eq!(wire.ask(&format!("INCR s:{name:02}")), ":1");
    }
    eventually("the busiest have a line", || {
        wire.ask("INCRBY zone 1000");
        wire.ask(&format!("INCRBY {longest} 1000"));
        info_field(&mut wire, "sequence_zone").is_some()
            && info_field(&mut wire, &format!("sequence_{longest}")).is_some()
    });
    let text = wire.ask_bulk("INFO sequences");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("sequence_")).collect();
    assert_eq!(lines.len(), 16, "{text}");
    assert!(lines.is_sorted() && lines.iter().all(|line| line.len() <= 600), "{text}");
    assert_eq!(number(&mut wire, "sequences_in_memory"), 62);
}

/// Each warning is logged once. The second waits, because the log has at most one of these lines per second.
#[test]
fn a_sequence_near_its_max_is_logged_at_80_and_at_95_percent() {
    let dir = folder();
    let mut server = Server::start_in(dir.path(), &[]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("SEQUENCE CREATE tickets MAX 1000000 CACHE 10"), "+OK");
    assert_eq!(wire.ask("INCR tickets"), ":1");
    assert_eq!(wire.ask("SEQUENCE RAISE tickets 800000"), "+OK");
    assert_eq!(wire.ask("INCR tickets"), ":800001");
    let first = server.wait_log("'tickets' has used 80 % of its values up to its max 1000000");
    assert!(first.contains("'SEQUENCE ALTER tickets max N' gives it more"), "{first}");
    assert_eq!(server.count_log("has used "), 1);
    assert!(server.stop().success());
    // In another life, because there is one warning per second.
    let mut server = Server::start_in(dir.path(), &[]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("SEQUENCE RAISE tickets 950000"), "+OK");
    assert_eq!(wire.ask("INCR tickets"), ":950001");
    server.wait_log("'tickets' has used 95 % of its values up to its max 1000000: 49,998 are left");
    eventually("the sequence reaches its max", || {
        let reply = wire.ask("INCRBY tickets 5000");
        reply.starts_with("-ERR sequence 'tickets' has no more values up to its max 1000000")
    });
    assert_eq!(server.count_log("has used "), 1);
}

#[test]
fn a_store_that_cannot_be_used_is_logged_once_and_reconnected() {
    let dir = folder();
    let missing = dir.path().join("not-yet");
    let url = format!("sqlite:{}", missing.join("ids.sqlite").display());
    let mut server = Server::start(&["--sequence-store", &url]);
    let mut wire = server.connect();
    let line = server.wait_log("It is tried again until it answers");
    assert!(line.contains(&url) && line.contains("No such file or directory"), "{line}");
    eventually("clients get an error", || wire.ask("INCR orders").starts_with("-MISCONF sequence store sqlite:"));
    assert!(wire.ask("GETID").starts_with(':'), "IDs continue");
    let store = info_field(&mut wire, "sequences_store_0").unwrap();
    assert!(store.contains(",state=down,") && store.contains("reason=") && store.contains("No such file"), "{store}");
    // The server retries several times before.
    eventually("the store is retried", || {
        let store = info_field(&mut wire, "sequences_store_0").unwrap();
        part(&store, "errors").is_some_and(|errors| errors >= 3)
    });
    std::fs::create_dir(&missing).unwrap();
    server.wait_log("ids.sqlite answers again, after ");
    assert_eq!(wire.ask("SEQUENCE CREATE orders"), "+OK");
    assert_eq!(wire.ask("INCR orders"), ":1");
    let store = info_field(&mut wire, "sequences_store_0").unwrap();
    assert!(store.contains(",state=up,") && !store.contains("reason="), "{store}");
    assert_eq!(["It is tried again", "answers again"].map(|text| server.count_log(text)), [1, 1]);
}

/// A backup is put back with no other sign of it.
#[test]
fn a_restored_file_is_logged_with_the_position_of_each_sequence() {
    let dir = folder();
    let server = Server::start_in(dir.path(), &[]);
    let mut wire = server.connect();
    assert_eq!(wire.ask("SEQUENCE CREATE orders"), "+OK");
    assert_eq!(wire.ask("INCR orders"), ":1");
    server.stop();
    let file = dir.path().join("sequences-0.sqlite");
    std::fs::copy(&file, dir.path().join("backup")).unwrap();
    std::fs::rename(dir.path().join("backup"), &file).unwrap();
    let mut server = Server::start_in(dir.path(), &[]);
    let line = server.wait_log("is a copy, or was put back");
    assert!(line.contains("'orders' is at 1") && line.contains("RAISE"), "{line}");
    assert_eq!(server.count_log("is a copy, or was put back"), 1);
}

#[test]
fn mistakes_in_a_stores_address_are_named_at_the_start_and_no_password_is_shown() {
    let dir = folder();
    for (url, expected) in [
        ("mysq://app:hunter2@db/ids", "mysql"),
        ("postgres://app:hunter2@db:70000/ids", "port"),
        ("mysql://app:hunter2@/ids", "host"),
        ("postgres://app:hunter2@db/ids?tsl=no", "tls"),
        ("postgres://app:hunter2@db/ids?tls=maybe", "verify"),
        ("mysql://app:hunter2@db", "database"),
    ] {
        let log = refused(dir.path(), &["--sequence-store", url], |_| {});
        assert!(log.contains("sequence-store") && log.contains(expected) && !log.contains("hunter"), "{url}: {log}");
        let output = checks(&["--sequence-store", url]);
        let text = both(&output);
        assert!(!output.status.success() && text.contains(expected) && !text.contains("hunter"), "{url}: {text}");
    }
}

fn checks(words: &[&str]) -> Output {
    let mut command: Command = getid();
    command.args(["check-config", "--connect"]).args(words).output().unwrap()
}

fn both(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The server's log, `check-config --connect` and the reply to clients report a store's fault in the same words.
#[test]
#[ignore = "needs postgresql"]
fn refusals_of_a_database_are_named_in_the_log_and_by_check_config() {
    let database = PostgresServer::start(&[]);
    database.psql("CREATE ROLE app LOGIN PASSWORD 'app-secret'; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    for (login, expected) in [
        ("app:wrong-secret", "password authentication failed"),
        ("app", "password-file="),
        ("app:app-secret", "getid sequence schema --store URL"),
    ] {
        let url = database.url_of(login, "postgres", "");
        let output = checks(&["--sequence-store", &url]);
        let text = both(&output);
        assert!(!output.status.success() && text.contains(expected) && !text.contains("-secret"), "{login}: {text}");
        let mut server = Server::start(&["--sequence-store", &url]);
        let line = server.wait_log("It is tried again until it answers");
        assert!(line.contains(expected), "{login}: {line}");
        let mut wire = server.connect();
        eventually("clients get an error", || wire.ask("INCR orders").contains(expected));
        assert!(info_field(&mut wire, "sequences_store_0").unwrap().contains("state=down"));
        let all = wire.ask_bulk("INFO everything") + &server.log_so_far();
        assert!(!all.contains("-secret"), "{login}: {all}");
    }
}

#[test]
#[ignore = "needs postgresql"]
fn a_database_that_fails_recovers_and_loses_writes_is_logged_once_each() {
    let mut database = PostgresServer::start(&[]);
    let mut server = Server::start(&["--sequence-store", &database.url(), "--sequence-wait-ms", "5000"]);
    let mut wire = server.connect();
    server.wait_log("sequence store postgres://");
    assert_eq!(wire.ask("SEQUENCE CREATE orders CACHE 0"), "+OK");
    assert_eq!(wire.ask("INCR orders"), ":1");
    wire.send("SEQUENCE INFO orders\r\n");
    let info = String::from_utf8(wire.reply()).unwrap().replace("\r\n", " ");
    assert!(info.contains("raise_effective_in_s :900"), "{info}");
    database.stop_immediate();
    let line = server.wait_log("It is tried again until it answers");
    assert!(line.contains("postgres://postgres:***@127.0.0.1"), "{line}");
    eventually("clients get an error", || wire.ask("INCR orders").starts_with("-MISCONF sequence store postgres://"));
    database.start_again();
    server.wait_log(" answers again, after ");
    eventually("values continue", || wire.ask("INCR orders").starts_with(':'));
    assert_eq!(["It is tried again", " answers again"].map(|text| server.count_log(text)), [1, 1]);
    database.psql("UPDATE getid_sequence SET next = 1");
    eventually("the sequence is refused", || {
        wire.ask("INCR orders").starts_with("-MISCONF sequence 'orders': its store went back")
    });
    server.wait_log("the sequence 'orders' went back: its next value in postgres://");
    assert_eq!(number(&mut wire, "sequences_regressed"), 1);
    assert!(!server.log_so_far().contains("-secret"));
}
