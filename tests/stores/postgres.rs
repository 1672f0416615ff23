//! What PostgreSQL adds: its settings, its privileges and its errors.

use std::io::{Read, Write};
use std::net::TcpListener;

use getid_store::sql::{StoreError, TableKind, Verdict};

use crate::db::{Db, ask, assert_refused, create, db, opening, range, refusal, store};
use crate::faults::{self, GivenRanges};
use crate::numbers::rights_suffice_for_numbers;
use crate::requests::rights_suffice_for_requests;
use crate::support::backend::{Backend as _, SqlBackend as _};
use crate::support::postgres::{OWNER_PASSWORD, Pooler, PostgresServer};
use crate::support::scenarios::{scenarios, selected_scenarios};
use crate::support::tls::Authority;
use crate::support::{self, eventually};

type Scenario = fn(&PostgresServer);

/// Scenarios with the database server's default settings.
const SCENARIOS: &[(&str, Scenario)] = scenarios![
    Scenario;
    a_trigger_that_changes_rows_is_noticed,
    rights_and_tables_that_are_missing_are_named,
    a_socket_is_named_by_its_folder_or_its_file,
    the_same_name_twice_in_a_batch_is_refused,
    the_reason_of_an_ended_session_is_reported,
];

/// Scenarios with a database server that does not sync to disk.
const HASTY: &[(&str, Scenario)] = scenarios![
    Scenario;
    another_isolation_and_time_zone_and_all_that,
    through_a_pooler_of_transactions,
];

/// Runs these scenarios on a server, each in an empty database.
fn check_all(server: &PostgresServer, scenarios: &[(&str, Scenario)]) {
    for scenario in selected_scenarios(&server.url(), scenarios) {
        server.clear();
        scenario(server);
    }
}

#[test]
#[ignore = "needs postgresql"]
fn faults() {
    faults::check_all(&mut PostgresServer::start(&[]));
}

#[test]
#[ignore = "needs postgresql"]
fn errors() {
    check_all(&PostgresServer::start(&[]), SCENARIOS);
}

#[test]
#[ignore = "needs postgresql, pgbouncer"]
fn hasty_settings() {
    check_all(&PostgresServer::start(&["synchronous_commit = off", "timezone = 'Asia/Kathmandu'"]), HASTY);
}

/// A session has the settings that getid needs, whatever the defaults of the role, the database and the server are.
fn another_isolation_and_time_zone_and_all_that(server: &PostgresServer) {
    server.psql(
        "CREATE ROLE app LOGIN PASSWORD 'app-secret'; GRANT CREATE ON SCHEMA public TO app; \
         ALTER ROLE app SET default_transaction_isolation = 'serializable'; \
         ALTER ROLE app SET default_transaction_read_only = on; \
         ALTER ROLE app SET default_transaction_deferrable = on; \
         ALTER ROLE app SET synchronous_commit = local; ALTER ROLE app SET timezone = 'America/St_Johns'; \
         ALTER ROLE app SET DateStyle = 'SQL, DMY'; ALTER ROLE app SET extra_float_digits = 0; \
         ALTER ROLE app SET statement_timeout = '1min'; ALTER ROLE app SET standard_conforming_strings = off; \
         ALTER ROLE app SET client_encoding = 'LATIN1'; ALTER ROLE app SET enable_indexscan = off;",
    );
    let url = server.url_of("app:app-secret", "postgres", "");
    let mut client = db(&url);
    assert_eq!(client.info().warnings, [""; 0]);
    let now = getid_system::clock::wall_unix_ms();
    assert!((client.info().unix_ms - now).abs() < 60_000);
    client.create("orders", "");
    // The settings of a writing transaction, as a trigger sees them.
    server.psql(
        "CREATE TABLE seen (commit text, isolation text, timeout text); GRANT INSERT ON seen TO app; \
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES \
         (current_setting('synchronous_commit'), current_setting('transaction_isolation'), \
         current_setting('statement_timeout')); RETURN NEW; END $$; \
         CREATE TRIGGER note BEFORE INSERT OR UPDATE ON getid_sequence FOR EACH ROW EXECUTE FUNCTION note()",
    );
    let reserved = client.reserve("orders", 5).unwrap();
    assert!(client.give_back(&reserved.row, 3));
    client.raise("orders", 10).unwrap();
    client.create("others", "");
    client.reserve_in("p@Y20260101", 1).unwrap();
    assert_eq!(server.psql("SELECT count(*) FROM seen"), "6");
    assert_eq!(server.psql("SELECT DISTINCT * FROM seen"), "on|read committed|2s");
    // Two concurrent reservations are not refused because of the isolation.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let url = &url;
            scope.spawn(move || {
                let mut client = db(url);
                (0..50).for_each(|_| drop(client.reserve("orders", 1).unwrap()));
            });
        }
    });
    // A stronger setting is kept.
    server.psql("ALTER ROLE app SET synchronous_commit = remote_apply; DELETE FROM seen");
    db(&url).reserve("orders", 1).unwrap();
    assert_eq!(server.psql("SELECT commit FROM seen"), "remote_apply");
}

/// The error of an ended session has the database's reason.
fn the_reason_of_an_ended_session_is_reported(server: &PostgresServer) {
    let mut client = db(&server.url());
    client.create("orders", "");
    server.end_sessions_of_getid();
    let error = client.try_reserve(&[ask("orders", 1)]).unwrap_err();
    assert!(error.to_string().contains("terminating connection due to administrator command"), "{error}");
}

/// A trigger writes a value that differs from the statement's: no such value is given.
fn a_trigger_that_changes_rows_is_noticed(server: &PostgresServer) {
    let mut client = db(&server.url());
    client.create("orders", "");
    server.psql(
        "CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.next := OLD.next; RETURN NEW; \
         END $$; \
         CREATE TRIGGER meddle BEFORE UPDATE ON getid_sequence FOR EACH ROW EXECUTE FUNCTION meddle()",
    );
    let error = client.try_reserve(&[ask("orders", 5)]).unwrap_err();
    assert!(matches!(&error, StoreError::Unknown(message) if message.contains("trigger")), "{error:?}");
}

#[test]
#[ignore = "needs postgresql"]
fn settings_that_lose_commits_are_warned_of() {
    let mut server = PostgresServer::start(&["fsync = off", "full_page_writes = off"]);
    let url = server.url();
    drop(db(&url));
    server.psql("ALTER TABLE getid_sequence SET UNLOGGED");
    let warnings = db(&url).info().warnings.clone();
    for (warning, expected) in warnings.iter().zip([
        ("fsync is off", "set fsync = on in postgresql.conf"),
        ("full_page_writes is off", "set full_page_writes = on in postgresql.conf"),
        ("getid_sequence is not logged", "ALTER TABLE getid_sequence SET LOGGED"),
    ]) {
        assert!(warning.contains(expected.0) && warning.contains(expected.1), "{warning}");
    }
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    server.psql("ALTER TABLE getid_sequence SET LOGGED");
    assert_eq!(db(&url).info().warnings.len(), 2);
    // A standby is refused as a store, because its rows could not be written.
    server.stop_immediate();
    std::fs::write(server.dir().join("data/standby.signal"), "").unwrap();
    server.start_again();
    assert_refused(&url, &["is a standby", "name the primary", "127.0.0.1"]);
}

fn rights_and_tables_that_are_missing_are_named(server: &PostgresServer) {
    server.psql("CREATE ROLE app LOGIN PASSWORD 'app-secret'; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let url = server.url_of("app:app-secret", "postgres", "");
    let schema = "getid sequence schema --store URL";
    assert_refused(
        &url,
        &[
            "'postgres' lacks a table of getid_beat, getid_generator, getid_number, getid_number_request, getid_request, \
             getid_request_count, getid_sequence and getid_store, and 'app' may not create it",
            "permission denied",
            schema,
        ],
    );
    server.psql(&store(&url, TableKind::Native).schema());
    server.psql(&store(&url, TableKind::Native).schema());
    assert_refused(&url, &["'app' may not SELECT the table getid_store", "GRANT SELECT, INSERT, UPDATE, DELETE ON"]);
    server.psql(
        "GRANT SELECT, UPDATE ON getid_store, getid_beat, getid_generator, getid_number, getid_number_request TO app",
    );
    server.psql("GRANT SELECT ON getid_sequence TO app");
    assert_refused(&url, &["'app' may not UPDATE the table getid_sequence", "TO \"app\""]);
    // A user without INSERT may still reserve from existing rows.
    server.psql("GRANT UPDATE ON getid_sequence TO app");
    assert_refused(&url, &["'app' may not INSERT the table getid_beat", "GRANT SELECT, INSERT, UPDATE, DELETE ON"]);
    server.psql("GRANT INSERT ON getid_beat TO app");
    db(&server.url()).create("orders", "");
    let mut client = db(&url);
    assert_eq!(range(&client.reserve("orders", 2).unwrap()), (1, 2));
    let error = client.try_create(&create("others", "")).unwrap_err();
    let message = error.to_string();
    assert!(
        matches!(error, StoreError::Refused(_)) && message.contains("GRANT") && message.contains("42501"),
        "{message}"
    );
    assert_eq!(range(&client.reserve("orders", 2).unwrap()), (3, 4), "the session stays usable");
    let refused = client.try_open(&opening("invoice@Y20260101", "")).unwrap_err().to_string();
    assert!(refused.contains("GRANT") && refused.contains("42501"), "{refused}");
    server.psql("GRANT INSERT ON getid_sequence, getid_generator TO app");
    client.create("others", "");
    client.open_period(&opening("invoice@Y20260101", "")).unwrap();
    // The documented rights suffice, for series, numbers and requests too.
    server.psql(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON getid_beat, getid_generator, getid_number, getid_number_request, \
         getid_request, getid_request_count, getid_sequence, getid_store TO app; GRANT DELETE ON getid_request TO app",
    );
    rights_suffice_for_numbers(&mut client);
    rights_suffice_for_requests(&mut client);
    // A column is missing, then a row, then one of the tables.
    server.psql("ALTER TABLE getid_sequence RENAME COLUMN offset_ TO remainder");
    assert_refused(&url, &["offset_", "does not exist", schema]);
    server.psql("ALTER TABLE getid_sequence RENAME COLUMN remainder TO offset_; DELETE FROM getid_store");
    assert_refused(&url, &["the table getid_store has no row", schema]);
    server.psql("ALTER TABLE getid_store RENAME TO gone");
    assert_refused(&url, &["'postgres' has no table getid_store, though it has others", schema]);
    assert_refused(&server.url(), &["'postgres' has no table getid_store, though it has others", schema]);
    server.psql("ALTER TABLE gone RENAME TO getid_store; DROP TABLE getid_sequence");
    assert_refused(&server.url(), &["has no table getid_sequence, though it has others", "backup"]);
}

#[test]
#[ignore = "needs postgresql"]
fn refused_logins_name_the_reason() {
    let server = PostgresServer::start(&["max_connections = 6", "superuser_reserved_connections = 3"]);
    server.psql("CREATE ROLE app LOGIN PASSWORD 'app-secret'");
    server.psql("CREATE DATABASE shut");
    server.psql("REVOKE CONNECT ON DATABASE shut FROM PUBLIC");
    for (login, database, expected) in [
        ("postgres:wrong-secret", "postgres", &["password authentication failed", "user is 'postgres'"]),
        ("stranger:wrong-secret", "postgres", &["password authentication failed", "user is 'stranger'"]),
        ("app", "postgres", &["requires a password of 'app'", "password-file="]),
        ("app:app-secret", "nowhere", &["\"nowhere\" does not exist", "CREATE DATABASE \"nowhere\""]),
        ("app:app-secret", "shut", &["permission denied", "GRANT CONNECT ON DATABASE \"shut\" TO \"app\""]),
    ] {
        assert_refused(&server.url_of(login, database, ""), expected);
    }
    assert_refused(&server.url_of("app:app-secret", "postgres", "?tls=yes"), &["127.0.0.1", "has no TLS", "tls=no"]);
    let free_port = support::free_port();
    assert_refused(
        &format!("postgres://app:app-secret@127.0.0.1:{free_port}/ids"),
        &[&format!("127.0.0.1:{free_port}"), "refused", "is PostgreSQL running there"],
    );
    assert_refused("postgres://app:app-secret@db.invalid/ids?tls=no", &["db.invalid:5432", "cannot be reached"]);
    assert_refused(
        "postgres://app:app-secret@/ids?socket=/nowhere",
        &["/nowhere", "cannot be reached", "No such file"],
    );
    assert_refused("postgres://app:app-secret@/ids?socket=/nowhere&tls=yes", &["there is no TLS on a socket"]);
    // Another program listens on the port.
    let redis = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = redis.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in redis.incoming().map_while(Result::ok) {
            let _ = client.read(&mut [0; 100]);
            let _ = client.write_all(b"-ERR unknown command\r\n");
        }
    });
    assert_refused(&format!("postgres://app:app-secret@127.0.0.1:{port}/ids"), &[&format!("127.0.0.1:{port}")]);
    // As many connections as the server allows, and one more.
    let app = server.url_of("app:app-secret", "postgres", "");
    server.psql(&store(&app, TableKind::Native).schema());
    server.psql("GRANT ALL ON ALL TABLES IN SCHEMA public TO app");
    let mut in_use: Vec<Db> = Vec::new();
    eventually("earlier connections are closed", || {
        in_use.extend(Db::of(&*store(&app, TableKind::Native)));
        in_use.len() == 3
    });
    // The error is not "too many connections" because of refused connections that are still open.
    eventually("room for the owner", || server.try_psql("postgres", "").is_ok());
    assert_refused(&app, &["remaining connection slots are reserved", "each getid needs two"]);
    drop(in_use);
}

fn a_socket_is_named_by_its_folder_or_its_file(server: &PostgresServer) {
    let mut client = db(&server.socket_url());
    client.create("orders", "");
    assert!(client.info().product.starts_with("PostgreSQL 1"), "{}", client.info().product);
    drop(client);
    let file = server.dir().join(format!(".s.PGSQL.{}", server.port));
    let url = format!("postgres://postgres:{OWNER_PASSWORD}@localhost/postgres?socket={}", file.display());
    assert_eq!(range(&db(&url).reserve("orders", 1).unwrap()), (1, 1));
}

#[test]
#[ignore = "needs postgresql"]
fn tls_follows_the_address() {
    let mut server = PostgresServer::start(&[]);
    let (authority, stranger) = (Authority::new("ours"), Authority::new("a stranger's"));
    let pair = authority.server();
    let data = server.dir().join("data");
    for (name, text) in [("server.crt", &pair.cert), ("server.key", &pair.key)] {
        std::fs::write(data.join(name), text).unwrap();
    }
    server.own("data/server.crt");
    server.own("data/server.key");
    server.psql("ALTER SYSTEM SET ssl = on");
    let ca = server.dir().join("ca.crt");
    std::fs::write(&ca, &authority.pem).unwrap();
    let other = server.dir().join("other.crt");
    std::fs::write(&other, &stranger.pem).unwrap();
    server.stop_immediate();
    server.start_again();
    let url = |options: &str| server.url_of(&format!("postgres:{OWNER_PASSWORD}"), "postgres", options);
    let uses_tls = || {
        server.psql(
            "SELECT bool_or(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'getid'",
        )
    };
    for (options, expected) in [
        ("?tls=no".to_owned(), "f"),
        ("?tls=yes".to_owned(), "t"),
        (format!("?tls=verify&ca-file={}", ca.display()), "t"),
    ] {
        let client = db(&url(&options));
        assert_eq!(uses_tls(), expected, "{options}");
        drop(client);
        eventually("its end", || uses_tls().is_empty());
    }
    assert_refused(&url("?tls=verify"), &["UnknownIssuer", "ca-file="]);
    assert_refused(&url(&format!("?tls=verify&ca-file={}", other.display())), &["certificate", "ca-file="]);
    assert_refused(&url("?tls=verify&ca-file=/nowhere/ca.crt"), &["/nowhere/ca.crt", "No such file"]);
    assert_refused(
        &url(&format!("?tls=verify&ca-file={}", server.dir().join("password").display())),
        &["no certificate in it"],
    );
}

fn the_same_name_twice_in_a_batch_is_refused(server: &PostgresServer) {
    let mut client = db(&server.url());
    client.create("orders", "");
    let error = client.try_reserve(&[ask("orders", 1), ask("orders", 2)]).unwrap_err();
    assert!(matches!(&error, StoreError::Refused(message) if message.contains("'orders' is twice")), "{error:?}");
    assert_eq!(range(&client.reserve("orders", 1).unwrap()), (1, 1));
    assert_eq!(client.reserve("missing", 1), Err(Verdict::NoSuch));
}

/// Starts a fake PostgreSQL that accepts every login, answers the first statement with `reply` and ends the connection.
/// Returns its port.
fn fake(reply: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let welcome = [message(b'R', &[0, 0, 0, 0]), message(b'Z', b"I")].concat();
            for answer in [&welcome, &reply] {
                let is_asked = client.read(&mut [0; 4096]).is_ok_and(|read| read > 0);
                if !is_asked || client.write_all(answer).is_err() {
                    break;
                }
            }
        }
    });
    port
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind], &length[..], body].concat()
}

fn error_message(severity: &str, code: &str) -> Vec<u8> {
    let body = format!("S{severity}\0V{severity}\0C{code}\0Mso it is\0\0");
    [message(b'E', body.as_bytes()), message(b'Z', b"I")].concat()
}

/// An error that ends only its statement has changed nothing. An error that ends the session, or comes from a program
/// in between, may come after the commit.
#[test]
fn which_errors_leave_the_outcome_unknown() {
    for (severity, code, is_unknown) in [
        ("ERROR", "40001", false),
        ("ERROR", "40P01", false),
        ("ERROR", "55P03", false),
        ("ERROR", "57014", false),
        ("ERROR", "53100", false),
        ("ERROR", "XX000", false),
        ("ERROR", "40003", true),
        ("ERROR", "08006", true),
        ("ERROR", "08P01", true),
        ("ERROR", "57P01", true),
        ("ERROR", "57P02", true),
        ("ERROR", "57P03", true),
        ("FATAL", "57P05", true),
        ("FATAL", "25P03", true),
        ("FATAL", "58000", true),
        ("PANIC", "XX000", true),
    ] {
        let port = fake(error_message(severity, code));
        let url = format!("postgres://app:app-secret@127.0.0.1:{port}/ids");
        let Err(error) = Db::of(&*store(&url, TableKind::Native)) else {
            panic!("{severity} {code} is no answer");
        };
        assert_eq!(matches!(error, StoreError::Unknown(_)), is_unknown, "{severity} {code}: {error:?}");
        assert!(error.to_string().contains(&format!("so it is [{code}]")), "{error}");
    }
}

/// Any unexpected answer of a server becomes an error without the password.
#[test]
fn a_server_that_answers_something_else() {
    let mut random = support::Random(13);
    let mut replies = vec![message(b'Z', b"I"), message(b'C', b"SET\0"), vec![b'E', 0, 0, 0, 0], vec![0; 64]];
    for kind in b"123ACDEGHIKNRSTZdnst" {
        let body: Vec<u8> = (0..random.below(40)).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
        replies.push(message(*kind, &body));
        replies.push([message(*kind, &body), message(b'Z', b"I")].concat());
    }
    for reply in replies {
        let port = fake(reply);
        let url = format!("postgres://app:app-secret@127.0.0.1:{port}/ids");
        refusal(&url, TableKind::Native);
    }
}

/// A server version that is too old is refused with its version.
#[test]
fn a_version_that_is_too_old_is_named() {
    let values = ["110022", "11.22", "f", "on", "on", "1767225600000", "on"];
    let count = 7_u16.to_be_bytes();
    let (mut columns, mut row) = (count.to_vec(), count.to_vec());
    for value in values {
        // Name, table, column, type (text), length, modifier, format (text).
        columns.extend(b"c\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0");
        row.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        row.extend(value.as_bytes());
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let replies = [
        [message(b'R', &[0, 0, 0, 0]), message(b'Z', b"I")].concat(),
        [message(b'C', b"SET\0"), message(b'Z', b"I")].concat(),
        [message(b'T', &columns), message(b'D', &row), message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat(),
    ];
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        for reply in replies {
            let mut bytes = [0; 16 * 1024];
            assert!(client.read(&mut bytes).unwrap() > 0);
            client.write_all(&reply).unwrap();
        }
    });
    let url = format!("postgres://app:app-secret@127.0.0.1:{port}/ids");
    assert_refused(&url, &["is version 11.22, must be 12 or newer", &format!("127.0.0.1:{port}")]);
    server.join().unwrap();
}

/// A pooler gives each transaction another session, so settings of an earlier statement are not in force.
fn through_a_pooler_of_transactions(server: &PostgresServer) {
    let pooler = Pooler::start(server);
    db(&pooler.url()).create("orders", "");
    server.psql(
        "CREATE TABLE seen (commit text, pid int); \
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES \
         (current_setting('synchronous_commit'), pg_backend_pid()); RETURN NEW; END $$; \
         CREATE TRIGGER note BEFORE INSERT OR UPDATE ON getid_sequence FOR EACH ROW EXECUTE FUNCTION note()",
    );
    let given = GivenRanges::default();
    std::thread::scope(|scope| {
        for who in 0..4 {
            let (pooler, given) = (&pooler, &given);
            scope.spawn(move || {
                let mut client = db(&pooler.url());
                client.create(&format!("of-{who}"), "");
                for n in 0..40 {
                    let got = client.reserve("orders", 3).unwrap();
                    let is_back = n % 5 == 0 && client.give_back(&got.row, got.first + 1);
                    given.add(got.first, if is_back { got.first } else { got.last });
                    client.raise(&format!("of-{who}"), (n + 1) * 100).unwrap();
                }
            });
        }
    });
    assert_eq!(server.psql("SELECT DISTINCT commit FROM seen"), "on");
    let sessions: u32 = server.psql("SELECT count(DISTINCT pid) FROM seen").parse().unwrap();
    assert!(sessions > 1, "each client has used several sessions");
}
