//! What MySQL adds, tested with a real MariaDB: its settings, its privileges and its errors. `others` tests the tables
//! of Leaf and Tinyid.

mod others;

use std::io::Write;
use std::net::TcpListener;

use getid_store::sql::{BegunPeriod, StoreError, TableKind, Verdict};

use crate::db::{ask, assert_refused, create, db, is_over_time, key, range, store};
use crate::faults::{self, GivenRanges};
use crate::numbers::rights_suffice_for_numbers;
use crate::requests::rights_suffice_for_requests;
use crate::support::backend::{Backend, while_locked};
use crate::support::mariadb::{MariadbServer, PASSWORD};
use crate::support::scenarios::{scenarios, selected_scenarios};
use crate::support::tls::Authority;
use crate::support::{self, eventually};

type Scenario = fn(&MariadbServer);

const SCENARIOS: &[(&str, Scenario)] = scenarios![
    Scenario;
    a_table_that_is_locked,
    a_deadlock_is_refused,
    no_value_twice_in_a_table_without_transactions,
    a_trigger_that_changes_rows_is_noticed,
    rights_and_tables_that_are_missing_are_named,
    refused_logins_name_the_reason,
];

/// Runs these scenarios on a server, each in an empty database.
fn check_all(server: &MariadbServer, scenarios: &[(&str, Scenario)]) {
    for scenario in selected_scenarios(&server.url(), scenarios) {
        server.clear();
        scenario(server);
    }
}

#[test]
#[ignore = "needs mariadb"]
fn faults() {
    faults::check_all(&mut MariadbServer::start(&[]));
}

#[test]
#[ignore = "needs mariadb"]
fn errors() {
    check_all(&MariadbServer::start(&[]), SCENARIOS);
}

#[test]
#[ignore = "needs mariadb"]
fn tables_of_others() {
    check_all(&MariadbServer::start(&[]), others::SCENARIOS);
}

/// Another connection alters the table.
fn a_table_that_is_locked(server: &MariadbServer) {
    let mut client = db(&server.url());
    client.create("orders", "");
    while_locked(server, "LOCK TABLES getid_sequence WRITE", || {
        let error = client.try_reserve(&[ask("orders", 1)]).unwrap_err();
        assert!(matches!(&error, StoreError::Refused(_)), "{error:?}");
    });
    assert_eq!(range(&client.reserve("orders", 1).unwrap()), (1, 1));
}

/// Two transactions wait for each other: the database rolls one of them back completely.
fn a_deadlock_is_refused(server: &MariadbServer) {
    let mut client = db(&server.url());
    for name in ["a", "b", "c1", "c2", "c3", "c4"] {
        client.create(name, "");
    }
    let (mut refused, mut given) = (0, Vec::new());
    std::thread::scope(|scope| {
        for round in 0..20 {
            if round >= 5 && refused > 0 {
                break;
            }
            // The other transaction has done more work than this one, so the database keeps the other one.
            let other = scope.spawn(|| {
                server.sql(
                    "BEGIN; UPDATE getid_sequence SET cache = cache + 1 WHERE name LIKE 'c%'; \
                     UPDATE getid_sequence SET cache = cache + 1 WHERE name = 'b'; DO SLEEP(0.7); \
                     UPDATE getid_sequence SET cache = cache + 1 WHERE name = 'a'; COMMIT",
                )
            });
            // On a machine that stalls, this connection may not see it.
            eventually("the lock", || {
                let running = "SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'DO SLEEP%'";
                other.is_finished() || server.sql(running) == "1"
            });
            match client.try_reserve(&[ask("a", 1), ask("b", 1)]) {
                Ok(answers) => given.push(answers[0].as_ref().unwrap().first),
                // The other transaction stalled as long as this one waits.
                Err(error) if is_over_time(&error) => {}
                Err(StoreError::Refused(message)) => {
                    assert!(message.contains("(error 1213)"), "{message}");
                    refused += 1;
                }
                Err(error) => panic!("{error:?}"),
            }
            other.join().unwrap();
            let first = client.reserve("a", 1).unwrap().first;
            given.push(first);
            assert_eq!(given, (1..=first).collect::<Vec<_>>(), "round {round}: nothing of what was refused was done");
        }
    });
    assert!(refused > 0);
}

/// A session has the settings that getid needs, whatever the server's defaults are.
#[test]
#[ignore = "needs mariadb"]
fn another_isolation_and_time_zone_and_all_that() {
    for (binlog, isolation) in [("ROW", "READ-COMMITTED"), ("STATEMENT", "REPEATABLE-READ")] {
        let server = MariadbServer::start(&[
            "--autocommit=0",
            "--transaction-isolation=SERIALIZABLE",
            "--completion-type=RELEASE",
            "--sql-mode=ANSI,NO_UNSIGNED_SUBTRACTION,NO_BACKSLASH_ESCAPES,ERROR_FOR_DIVISION_BY_ZERO",
            "--default-time-zone=+05:45",
            "--innodb-lock-wait-timeout=100",
            "--innodb-rollback-on-timeout=1",
            "--character-set-server=utf16",
            "--collation-server=utf16_turkish_ci",
            "--default-storage-engine=MyISAM",
            "--lower-case-table-names=1",
            "--max-statement-time=0.5",
            "--max-join-size=1",
            "--max-sort-length=64",
            "--log-bin=log",
            "--sync-binlog=1",
            &format!("--binlog-format={binlog}"),
        ]);
        server.sql(
            "SET GLOBAL sql_safe_updates = 1; SET GLOBAL tx_read_only = 1; \
             SET GLOBAL init_connect = 'SET autocommit = 0, sql_select_limit = 1, sql_auto_is_null = 1, \
             character_set_results = utf16'",
        );
        let url = server.url();
        let mut client = db(&url);
        assert_eq!(client.info().warnings, [""; 0]);
        let now = getid_system::clock::wall_unix_ms();
        assert!((client.info().unix_ms - now).abs() < 60_000, "{}", client.info().unix_ms);
        let row = client.create("orders", "");
        assert!((row.created_unix_ms - now).abs() < 60_000, "{row:?}");
        // The settings of a writing transaction, as a trigger sees them.
        server.sql(
            "SET SESSION TRANSACTION READ WRITE; CREATE TABLE seen (isolation text, tz text) ENGINE=InnoDB; \
             CREATE TRIGGER note BEFORE UPDATE ON getid_sequence FOR EACH ROW \
             INSERT INTO seen VALUES (@@session.tx_isolation, @@session.time_zone); COMMIT",
        );
        let reserved = client.reserve("orders", 5).unwrap();
        assert!(client.give_back(&reserved.row, 3));
        client.raise("orders", 10).unwrap();
        client.create("others", "");
        client.reserve_in("p@Y20260101", 1).unwrap();
        assert_eq!(client.list("", 9, true), ["orders", "others", "p@Y20260101"]);
        assert_eq!(client.count(), 2);
        let two = client.try_reserve(&[ask("orders", 1), ask("others", 1)]).unwrap();
        assert!(two.iter().all(Result::is_ok), "{two:?}");
        assert_eq!(server.sql("SELECT DISTINCT isolation, tz FROM seen"), format!("{isolation}\t+00:00"));
        assert_eq!(server.sql("SELECT count(*) FROM seen"), "6");
        drop(client);
        // The rows are committed and visible to all. Two concurrent reservations are not refused because of the
        // isolation.
        assert_eq!(server.sql("SELECT count(*) FROM getid_sequence"), "3");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut client = db(&url);
                    (0..50).for_each(|_| drop(client.reserve("orders", 1).unwrap()));
                });
            }
        });
    }
}

#[test]
#[ignore = "needs mariadb"]
fn settings_that_lose_commits_are_warned_of() {
    let server = MariadbServer::start(&[
        "--innodb-flush-log-at-trx-commit=2",
        "--innodb-doublewrite=0",
        "--log-bin=log",
        "--sync-binlog=0",
        "--server-id=7",
    ]);
    let url = server.url();
    drop(db(&url));
    server.sql("ALTER TABLE getid_sequence ENGINE=MyISAM");
    let warnings = db(&url).info().warnings.clone();
    for (warning, expected) in warnings.iter().zip([
        ("innodb_flush_log_at_trx_commit is 2", "set it to 1"),
        ("sync_binlog is 0 with log_bin", "set it to 1"),
        ("innodb_doublewrite is off", "set it to ON"),
        ("getid_sequence is a table of MyISAM", "ALTER TABLE getid_sequence ENGINE=InnoDB"),
    ]) {
        assert!(warning.contains(expected.0) && warning.contains(expected.1), "{warning}");
    }
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    server.sql(
        "ALTER TABLE getid_sequence ENGINE=InnoDB; SET GLOBAL innodb_flush_log_at_trx_commit = 1; \
         SET GLOBAL sync_binlog = 1",
    );
    assert_eq!(db(&url).info().warnings.len(), 1, "the warning that needs a restart");
    // First a replica that accepts writes, then a read-only replica, which is refused as a store.
    server.sql(
        "CHANGE MASTER TO MASTER_HOST = 'db.invalid', MASTER_USER = 'x'; \
         GRANT REPLICA MONITOR ON *.* TO getid@localhost",
    );
    let warnings = db(&url).info().warnings.clone();
    assert!(warnings[1].contains("it is a replica of another server"), "{warnings:?}");
    let mut client = db(&url);
    client.create("orders", "");
    server.sql("SET GLOBAL read_only = 1");
    assert_refused(&url, &["read_only on", "accepts no writes", "name the primary"]);
    // An existing connection ends: its server is no longer the primary.
    let error = client.try_reserve(&[ask("orders", 1)]).unwrap_err();
    assert!(matches!(&error, StoreError::Unknown(message) if message.contains("name the primary")), "{error:?}");
    server.sql("SET GLOBAL read_only = 0");
    assert_eq!(range(&db(&url).reserve("orders", 1).unwrap()), (1, 1));
}

/// Without transactions, statements of two servers interleave. A range that may belong to another server is not given.
fn no_value_twice_in_a_table_without_transactions(server: &MariadbServer) {
    let url = server.url();
    db(&url).create("orders", "");
    server.sql("ALTER TABLE getid_sequence ENGINE=MyISAM");
    let given = GivenRanges::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = db(&url);
                for _ in 0..300 {
                    match client.reserve("orders", 7) {
                        Ok(got) => given.add(got.first, got.last),
                        Err(Verdict::BadRow(message)) => {
                            assert!(message.contains("changed by other servers"), "{message}");
                        }
                        Err(verdict) => panic!("{verdict:?}"),
                    }
                }
            });
        }
    });
    assert!(given.count() > 1000, "{}", given.count());
}

/// A trigger writes a value that differs from the statement's: no such value is given.
fn a_trigger_that_changes_rows_is_noticed(server: &MariadbServer) {
    let mut client = db(&server.url());
    client.create("orders", "");
    server.sql("CREATE TRIGGER meddle BEFORE UPDATE ON getid_sequence FOR EACH ROW SET NEW.next = OLD.next");
    let answer = client.reserve("orders", 5);
    assert!(matches!(&answer, Err(Verdict::BadRow(message)) if message.contains("'orders'")), "{answer:?}");
}

fn rights_and_tables_that_are_missing_are_named(server: &MariadbServer) {
    server
        .sql("CREATE OR REPLACE USER app@localhost IDENTIFIED BY 'app-secret'; GRANT SELECT ON ids.* TO app@localhost");
    let url = server.url_of("app:app-secret", "ids", "");
    let schema = "`getid sequence schema --store 'mysql://app@/ids?socket=";
    assert_refused(
        &url,
        &["getid_beat is missing in the database 'ids'", "'app' cannot create it", "(error 1142)", schema],
    );
    server.sql(&store(&url, TableKind::Native).schema());
    server.sql(&store(&url, TableKind::Native).schema());
    assert_refused(&url, &["UPDATE command denied", "GRANT SELECT, INSERT, UPDATE, DELETE ON `ids`.* TO 'app'"]);
    // A user without INSERT may still reserve from existing rows.
    server.sql("GRANT UPDATE ON ids.* TO app@localhost");
    assert_refused(
        &url,
        &["INSERT command denied", "getid_beat", "GRANT SELECT, INSERT, UPDATE, DELETE ON `ids`.* TO 'app'"],
    );
    server.sql("GRANT INSERT ON ids.getid_beat TO app@localhost");
    db(&server.url()).create("orders", "");
    let mut client = db(&url);
    let warnings = client.info().warnings.join("\n");
    assert!(warnings.contains("INSERT command denied") && warnings.contains("GRANT INSERT"), "{warnings}");
    assert_eq!(range(&client.reserve("orders", 2).unwrap()), (1, 2));
    let error = client.try_create(&create("others", "")).unwrap_err();
    let message = error.to_string();
    assert!(
        matches!(error, StoreError::Refused(_)) && message.contains("GRANT") && message.contains("1142"),
        "{message}"
    );
    assert_eq!(range(&client.reserve("orders", 2).unwrap()), (3, 4), "the session stays usable");
    // The documented rights suffice, for periods, series, numbers and requests too.
    server.sql("GRANT INSERT ON ids.* TO app@localhost; GRANT DELETE ON ids.getid_request TO app@localhost");
    let mut periods = db(&url);
    for period in ["invoice@D20260101", "invoice@D20260102"] {
        assert_eq!(range(&periods.reserve_in(period, 2).unwrap()), (1, 2));
    }
    periods.begin_periods(&[BegunPeriod {
        key: key("invoice@D20260103"),
        declaration: "serial X{n:6} reset day".to_owned(),
    }]);
    assert_eq!(periods.generators(None)[0].newest, "D20260103");
    rights_suffice_for_numbers(&mut periods);
    rights_suffice_for_requests(&mut periods);
    drop(periods);
    // A column is missing, then a row, then one of the tables.
    let owner = server.url();
    server.sql("ALTER TABLE getid_sequence CHANGE offset_ remainder INT NOT NULL");
    assert_refused(&owner, &["offset_", "(error 1054)", "of another version", "getid sequence schema"]);
    server.sql("ALTER TABLE getid_sequence CHANGE remainder offset_ INT NOT NULL; DELETE FROM getid_store");
    assert_refused(
        &owner,
        &["getid_store in the database 'ids' has lost its row", "INSERT INTO getid_store SELECT 1, '"],
    );
    let error = client.try_create(&create("others", "")).unwrap_err();
    assert!(matches!(&error, StoreError::Unknown(message) if message.contains("lost its row")), "{error:?}");
    // The transaction ends with its connection.
    drop(client);
    server.sql("ALTER TABLE getid_store RENAME TO gone");
    assert_refused(&owner, &["'ids' has the table getid_sequence, and has lost getid_store", "backup"]);
    server.sql("ALTER TABLE gone RENAME TO getid_store; DROP TABLE getid_sequence");
    assert_refused(&owner, &["'ids' has the table getid_store, and has lost getid_sequence", "backup"]);
}

fn refused_logins_name_the_reason(server: &MariadbServer) {
    server.sql(
        "CREATE OR REPLACE USER app@localhost IDENTIFIED BY 'app-secret'; CREATE OR REPLACE DATABASE shut; CREATE OR \
         REPLACE USER mine@localhost IDENTIFIED VIA unix_socket; CREATE OR REPLACE USER one@localhost IDENTIFIED BY \
         'one-secret' WITH MAX_USER_CONNECTIONS 1; GRANT ALL ON ids.* TO one@localhost",
    );
    let socket = server.socket().display().to_string();
    for (login, database, expected) in [
        ("getid:wrong-secret", "ids", [&*socket, "rejects the login of 'getid'", "(error 1045)", "check the user"]),
        (
            "stranger:wrong-secret",
            "ids",
            ["rejects the login of 'stranger': Access denied", "(error 1045)", "from which hosts", ""],
        ),
        ("getid", "ids", ["rejects the login of 'getid': Access denied", "using password: NO", "", ""]),
        ("mine", "ids", ["rejects the login of 'mine': Access denied", "1698", "", ""]),
        (
            "app:app-secret",
            "shut",
            ["'app' may not use the database 'shut'", "GRANT SELECT, INSERT, UPDATE, DELETE", "", ""],
        ),
        ("root", "nowhere", ["no database 'nowhere'", "(error 1049)", "create it", ""]),
    ] {
        assert_refused(&server.url_of(login, database, ""), &expected);
    }
    let one = server.url_of("one:one-secret", "ids", "");
    let first = db(&one);
    assert_refused(&one, &["its maximum of connections", "max_user_connections"]);
    drop(first);
    let free_port = support::free_port();
    let place = format!("127.0.0.1:{free_port}");
    assert_refused(
        &format!("mysql://app:app-secret@{place}/ids"),
        &[&place, "cannot be reached", "refused", "is the server up"],
    );
    assert_refused(
        "mysql://app:app-secret@db.invalid/ids?tls=no",
        &["db.invalid:3306", "is not found", "check the name"],
    );
    assert_refused("mysql://app:app-secret@/ids?socket=/nowhere", &["there is no socket /nowhere"]);
    assert_refused("mysql://app:app-secret@/ids?socket=/nowhere&tls=yes", &["there is no TLS on a socket"]);
    let file = server.dir().join("no-such-file");
    let url = server.url_of("app", "ids", &format!("&password-file={}", file.display()));
    assert_refused(&url, &["no-such-file cannot be read", "No such file"]);
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    db(&server.url_of("getid", "ids", &format!("&password-file={}", file.display())));
    // A server without TLS, and another program that listens on the port.
    let (_proxy, url) = server.proxy();
    assert_refused(&format!("{url}?tls=yes"), &["offers no TLS", "tls=no"]);
    let redis = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = redis.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in redis.incoming().map_while(Result::ok) {
            let _ = client.write_all(b"-ERR unknown command\r\n");
        }
    });
    assert_refused(&format!("mysql://app:app-secret@127.0.0.1:{port}/ids"), &[&format!("127.0.0.1:{port}")]);
}

#[test]
#[ignore = "needs mariadb"]
fn tls_follows_the_address() {
    let (authority, stranger) = (Authority::new("ours"), Authority::new("a stranger's"));
    let files = tempfile::tempdir().unwrap();
    let pair = authority.server();
    let path = |name: &str| files.path().join(name).display().to_string();
    for (name, text) in [
        ("server.crt", &pair.cert),
        ("server.key", &pair.key),
        ("ca.crt", &authority.pem),
        ("other.crt", &stranger.pem),
        ("empty", &String::new()),
    ] {
        std::fs::write(path(name), text).unwrap();
    }
    let server = MariadbServer::start(&[
        &format!("--ssl-cert={}", path("server.crt")),
        &format!("--ssl-key={}", path("server.key")),
    ]);
    server.sql(
        "CREATE OR REPLACE USER app@localhost IDENTIFIED BY 'app-secret' REQUIRE SSL; GRANT ALL ON ids.* TO \
                app@localhost",
    );
    let (proxy, _) = server.proxy();
    let url = |options: &str| format!("mysql://app:app-secret@127.0.0.1:{}/ids?{options}", proxy.port);
    for options in ["tls=yes".to_owned(), format!("tls=verify&ca-file={}", path("ca.crt"))] {
        // The user must use TLS.
        db(&url(&options)).count();
    }
    assert_refused(&url("tls=no"), &["rejects the login of 'app': Access denied"]);
    assert_refused(&url("tls=verify"), &["UnknownIssuer", "ca-file="]);
    assert_refused(&url(&format!("tls=verify&ca-file={}", path("other.crt"))), &["certificate", "ca-file="]);
    assert_refused(&url("tls=verify&ca-file=/nowhere/ca.crt"), &["/nowhere/ca.crt", "No such file"]);
    assert_refused(&url(&format!("tls=verify&ca-file={}", path("empty"))), &["no certificate in it"]);
}
