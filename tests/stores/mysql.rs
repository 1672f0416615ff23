//! What MySQL adds to the contract, tried with a real MariaDB: it is killed, paused, cut off; its settings, its rights
//! and its errors. `others` has the tables of Leaf and Tinyid.

mod others;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use getid::sql::{Reserve, Store, StoreError, Table, Verdict, open};
use getid::text::store_url::StoreUrl;

use crate::contract;
use crate::db::{Creation, Db, Place, ask, create, creation, is_over_time, range};
use crate::support::mariadb::{MariadbServer, PASSWORD};
use crate::support::tls::Authority;
use crate::support::{self, PATIENCE, eventually};

/// A database of its own, in a server of its own.
struct Database {
    server: MariadbServer,
}

impl Place for Database {
    fn clear(&self) {
        self.server.sql("DROP TABLE IF EXISTS getid_sequence; DROP TABLE IF EXISTS getid_store;");
    }

    fn store(&self) -> Box<dyn Store> {
        store(&self.server.url(), Table::Native)
    }

    fn sql(&self, statements: &str) -> Result<(), String> {
        self.server.try_sql(statements).map(drop)
    }

    fn insert_many(&self) -> u32 {
        self.server.sql(
            "INSERT INTO getid_sequence (name, next, start, increment, offset_, cache, max_value, created, updated) \
             SELECT CONCAT('many-', LPAD(seq, 7, '0')), 1, 1, 1, 1, 100, 9000000000000000000, 1, 1 \
             FROM seq_1_to_1000000",
        );
        1_000_000
    }
}

fn store(url: &str, table: Table) -> Box<dyn Store> {
    open(&StoreUrl::parse(url).unwrap(), table, Path::new("."), 0).unwrap()
}

#[track_caller]
fn db(url: &str) -> Db {
    Db::opened(&*store(url, Table::Native))
}

/// Why it cannot be opened. Whatever it is, no password is in it.
#[track_caller]
fn refusal(url: &str, table: Table) -> String {
    let error = match Db::of(&*store(url, table)) {
        Ok(_) => panic!("{url} is opened"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!error.contains("secret"), "{error}");
    error
}

#[track_caller]
fn says(url: &str, expected: &[&str]) {
    let said = refusal(url, Table::Native);
    for expected in expected {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
#[ignore = "needs mariadb"]
fn mysql_keeps_the_contract() {
    contract::check_all(&Database { server: MariadbServer::start(&[]) });
}

/// What was reserved in a test by all who took part, each value once.
#[derive(Default)]
struct Given {
    values: Mutex<BTreeSet<i64>>,
}

impl Given {
    #[track_caller]
    fn add(&self, first: i64, last: i64) {
        self.add_all(first..=last);
    }

    #[track_caller]
    fn add_all(&self, mut new: impl Iterator<Item = i64>) {
        let mut values = self.values.lock().unwrap();
        let twice = new.find(|value| !values.insert(*value));
        assert_eq!(twice, None, "it was given before");
    }

    fn max(&self) -> i64 {
        self.values.lock().unwrap().last().copied().unwrap_or(0)
    }

    fn count(&self) -> usize {
        self.values.lock().unwrap().len()
    }
}

/// One who reserves three at a time until `stop`, and connects again whenever the outcome is unknown; how often it was.
fn works_through(url: &str, given: &Given, stop: &AtomicBool) -> u32 {
    let mut unknown = 0;
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut db) = Db::of(&*store(url, Table::Native)) else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        while !stop.load(Ordering::Relaxed) {
            match db.try_reserve(&[ask("orders", 3)]) {
                Ok(answers) => {
                    let (first, last) = range(answers[0].as_ref().unwrap());
                    given.add(first, last);
                }
                Err(StoreError::Unknown(_)) => {
                    unknown += 1;
                    break;
                }
                Err(error) if is_over_time(&error) => {}
                Err(StoreError::Refused(said)) => panic!("{said}"),
            }
        }
    }
    unknown
}

#[test]
#[ignore = "needs mariadb"]
fn the_database_is_killed_under_load() {
    let mut server = MariadbServer::start(&[]);
    let url = server.url();
    db(&url).create("orders", "");
    let (given, stop) = (Given::default(), AtomicBool::new(false));
    let lost = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(|| works_through(&url, &given, &stop))).collect();
        for round in 0..4 {
            let before = given.max();
            eventually("values under load", || given.max() > before + 300);
            server.kill();
            let at_end = given.max();
            server.start_again();
            let next: i64 = server.sql("SELECT next FROM getid_sequence WHERE name = 'orders'").parse().unwrap();
            assert!(next > at_end, "round {round}: {at_end} was given, and the row is at {next}");
        }
        let before = given.max();
        eventually("values after the last start", || given.max() > before + 300);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u32>()
    });
    assert!(lost >= 4, "each kill cut statements: {lost}");
    // What is missing is of statements whose outcome nobody knows: of each, one reservation at most.
    let missing = given.max() - i64::try_from(given.count()).unwrap();
    assert!(missing <= i64::from(lost) * 3, "{missing} values are missing after {lost} unknown outcomes");
}

/// Between a client on TCP and the database's socket; it can drop what one of them says.
struct Proxy {
    port: u16,
    /// From now on a reply ends the connection instead of being passed on.
    drops_replies: Arc<AtomicBool>,
    /// The same with requests.
    drops_requests: Arc<AtomicBool>,
    cut: Arc<AtomicU16>,
}

impl Proxy {
    fn to(server: &MariadbServer) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Proxy { port, drops_replies: Arc::default(), drops_requests: Arc::default(), cut: Arc::default() };
        let (replies, requests, cut) =
            (Arc::clone(&proxy.drops_replies), Arc::clone(&proxy.drops_requests), Arc::clone(&proxy.cut));
        let socket: PathBuf = server.socket();
        // It ends with the process: tests of a binary are few.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = UnixStream::connect(&socket) else { continue };
                client.set_nodelay(true).unwrap();
                let (client_to, server_to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let end = || {
                    let (client, server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                    move || {
                        let _ = client.shutdown(std::net::Shutdown::Both);
                        let _ = server.shutdown(std::net::Shutdown::Both);
                    }
                };
                let (ends_requests, ends_replies) = (end(), end());
                let (drops, cuts) = (Arc::clone(&requests), Arc::clone(&cut));
                std::thread::spawn(move || pass(client, server_to, &drops, &cuts, ends_requests));
                let (drops, cuts) = (Arc::clone(&replies), Arc::clone(&cut));
                std::thread::spawn(move || pass(server, client_to, &drops, &cuts, ends_replies));
            }
        });
        proxy
    }

    fn url(&self) -> String {
        format!("mysql://getid:{PASSWORD}@127.0.0.1:{}/ids", self.port)
    }
}

/// Passes bytes on until one side ends, or `drops` says that it is to end here.
fn pass(mut from: impl Read, mut to: impl Write, drops: &AtomicBool, cut: &AtomicU16, end: impl Fn()) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if drops.load(Ordering::SeqCst) {
            cut.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    end();
}

/// The database has committed, and nobody hears of it.
#[test]
#[ignore = "needs mariadb"]
fn the_reply_to_a_commit_is_lost() {
    let server = MariadbServer::start(&[]);
    db(&server.url()).create("orders", "");
    let proxy = Proxy::to(&server);
    let url = proxy.url();
    let given = Given::default();
    for round in 1..=5_u16 {
        let mut client = db(&url);
        let answers = client.try_reserve(&[ask("orders", 10)]).unwrap();
        let (first, last) = range(answers[0].as_ref().unwrap());
        given.add(first, last);
        let version = answers[0].as_ref().unwrap().row.version;
        proxy.drops_replies.store(true, Ordering::SeqCst);
        let error = client.try_reserve(&[ask("orders", 10)]).unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
        assert_eq!(proxy.cut.load(Ordering::SeqCst), round, "it was a reply that got lost");
        proxy.drops_replies.store(false, Ordering::SeqCst);
        let error = client.try_reserve(&[ask("orders", 10)]).unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)), "the connection is used no more: {error:?}");
        // The reply is one for the whole packet, so it is behind the COMMIT.
        let next: i64 = server.sql("SELECT next FROM getid_sequence").parse().unwrap();
        assert_eq!(next, last + 11, "what nobody heard of was committed");
        let got = db(&url).reserve("orders", 10).unwrap();
        assert_eq!((got.first, got.row.version), (last + 11, version + 2), "and is not given again");
        given.add(got.first, got.last);
        // What was left of the one before that is not given back by a version that is old.
        assert!(!db(&server.url()).give_back(&answers[0].as_ref().unwrap().row, first + 5));
    }
}

/// The request is lost, which looks the same from here.
#[test]
#[ignore = "needs mariadb"]
fn a_request_is_lost() {
    let server = MariadbServer::start(&[]);
    db(&server.url()).create("orders", "");
    let proxy = Proxy::to(&server);
    let url = proxy.url();
    let mut client = db(&url);
    assert_eq!(range(&client.reserve("orders", 10).unwrap()), (1, 10));
    proxy.drops_requests.store(true, Ordering::SeqCst);
    let error = client.try_reserve(&[ask("orders", 10)]).unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    let error = client.try_create(&create("others", "")).unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    proxy.drops_requests.store(false, Ordering::SeqCst);
    assert_eq!(range(&db(&url).reserve("orders", 10).unwrap()), (11, 20));
    assert_eq!(db(&url).row("others"), None);
}

/// A database that stands still: who waited has let go, and its statement is done later.
#[test]
#[ignore = "needs mariadb"]
fn the_database_stands_still() {
    let server = MariadbServer::start(&[]);
    let url = server.url();
    db(&url).create("orders", "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store(&url, Table::Native);
        let mut connection = store.connect().await.unwrap();
        let asks = [ask("orders", 10)];
        let first = connection.reserve(&asks).await.unwrap().remove(0).unwrap();
        assert_eq!(range(&first), (1, 10));
        server.pause();
        let late = tokio::time::timeout(Duration::from_secs(2), connection.reserve(&asks)).await;
        assert!(late.is_err(), "nobody answers");
        // At once: the database stands still all the while.
        let error = tokio::time::timeout(PATIENCE, connection.reserve(&asks)).await.unwrap().unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
        let error = tokio::time::timeout(PATIENCE, connection.row(&asks[0].key)).await.unwrap().unwrap_err();
        assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
        let late = tokio::time::timeout(Duration::from_secs(1), store.connect()).await;
        assert!(late.is_err(), "a new one does not come in either");
        drop(connection);
        server.resume();
        let mut connection = tokio::time::timeout(PATIENCE, store.connect()).await.unwrap().unwrap();
        let next = connection.reserve(&asks).await.unwrap().remove(0).unwrap();
        assert!([11, 21].contains(&next.first), "the lost statement was done or not: {next:?}");
        let after = connection.reserve(&asks).await.unwrap().remove(0).unwrap();
        assert!(after.first > next.last);
    });
}

/// Polls a future so often at most.
async fn polled<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut left) = (std::pin::pin!(future), times);
    std::future::poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        if left == 0 {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await
}

/// Whoever lets go of an answer, at whatever point, leaves a connection that says nothing inside of what is half-way.
#[test]
#[ignore = "needs mariadb"]
fn a_statement_that_was_let_go() {
    let server = MariadbServer::start(&[]);
    let url = server.url();
    db(&url).create("orders", "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store(&url, Table::Native);
        let (mut made, mut let_go) = (0, 0);
        // A packet that has come wakes it: so it is let go before the first, behind the first, and so on.
        for (at, polls) in (1..12).cycle().take(33).enumerate() {
            let mut connection = store.connect().await.unwrap();
            let new = create(&format!("s{at}"), "");
            let created = polled(polls, connection.create(&new)).await;
            let after = connection.reserve(&[ask("orders", 1)]).await;
            match creation(created, &after) {
                Creation::Made => made += 1,
                Creation::LetGo => let_go += 1,
                Creation::Refused => {}
            }
        }
        let mut connection = store.connect().await.unwrap();
        assert!(made > 0 && let_go > 2, "{made} were made, {let_go} were let go");
        assert!(connection.count().await.unwrap() > made, "and 'orders'");
        assert!(connection.reserve(&[ask("orders", 1)]).await.unwrap()[0].is_ok(), "no lock stays behind");
    });
}

#[test]
#[ignore = "needs mariadb"]
fn a_connection_that_somebody_kills_is_unknown() {
    let server = MariadbServer::start(&[]);
    let mut client = db(&server.url());
    client.create("orders", "");
    let id = server.sql("SELECT id FROM information_schema.processlist WHERE user = 'getid'");
    server.sql(&format!("KILL CONNECTION {id}"));
    let error = client.try_reserve(&[ask("orders", 1)]).unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    assert_eq!(range(&db(&server.url()).reserve("orders", 1).unwrap()), (1, 1));
}

/// Another transaction has the row: this one waits for a second, and can go on.
#[test]
#[ignore = "needs mariadb"]
fn a_row_that_somebody_else_has_locked() {
    // (The server's own default is 50 s.)
    let server = MariadbServer::start(&[]);
    let mut client = db(&server.url());
    client.create("orders", "");
    client.create("others", "");
    std::thread::scope(|scope| {
        let holder = "FROM information_schema.processlist WHERE info = 'DO SLEEP(45)'";
        let hold = |locks: &'static str| {
            let held = scope.spawn(|| assert!(server.try_sql(locks).is_err(), "it is ended here below"));
            eventually("the lock", || server.sql(&format!("SELECT count(*) {holder}")) == "1");
            held
        };
        let end = || {
            server.sql(&format!("KILL CONNECTION {}", server.sql(&format!("SELECT id {holder}"))));
            eventually("its end", || server.sql(&format!("SELECT count(*) {holder}")) == "0");
        };
        let held = hold("BEGIN; UPDATE getid_sequence SET cache = 5 WHERE name = 'others'; DO SLEEP(45)");
        let waits = Instant::now();
        let error = client.try_reserve(&[ask("orders", 1), ask("others", 1)]).unwrap_err();
        assert!(waits.elapsed() < PATIENCE, "{:?}", waits.elapsed());
        assert!(matches!(&error, StoreError::Refused(said) if said.contains("(error 1205)")), "{error:?}");
        assert!(error.to_string().contains("another transaction has held the row"), "{error}");
        assert_eq!(range(&client.reserve("orders", 1).unwrap()), (1, 1), "nothing of the batch was done");
        end();
        held.join().unwrap();
        // A whole table, as by whoever alters it.
        let held = hold("LOCK TABLES getid_sequence WRITE; DO SLEEP(45)");
        let waits = Instant::now();
        let error = client.try_reserve(&[ask("orders", 1)]).unwrap_err();
        assert!(waits.elapsed() < PATIENCE, "{:?}", waits.elapsed());
        assert!(matches!(&error, StoreError::Refused(_)), "{error:?}");
        end();
        held.join().unwrap();
    });
    assert_eq!(range(&client.reserve("others", 1).unwrap()), (1, 1));
}

/// Two that wait for each other: the database ends one of them, and nothing of that one has happened.
#[test]
#[ignore = "needs mariadb"]
fn a_deadlock_is_refused() {
    let server = MariadbServer::start(&["--innodb-print-all-deadlocks=1"]);
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
            // It has done more than we have, so it is the one that stays.
            let other = scope.spawn(|| {
                server.sql(
                    "BEGIN; UPDATE getid_sequence SET cache = cache + 1 WHERE name LIKE 'c%'; \
                     UPDATE getid_sequence SET cache = cache + 1 WHERE name = 'b'; DO SLEEP(0.7); \
                     UPDATE getid_sequence SET cache = cache + 1 WHERE name = 'a'; COMMIT",
                )
            });
            // A machine that stands still sees nothing of it.
            eventually("the lock", || {
                let running = "SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'DO SLEEP%'";
                other.is_finished() || server.sql(running) == "1"
            });
            match client.try_reserve(&[ask("a", 1), ask("b", 1)]) {
                Ok(answers) => given.push(answers[0].as_ref().unwrap().first),
                // The other one stood still for as long as we wait.
                Err(error) if is_over_time(&error) => {}
                Err(StoreError::Refused(said)) => {
                    assert!(said.contains("(error 1213)"), "{said}");
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

/// Whatever the server has as its defaults, a session is as it must be.
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
            "--log-bin=log",
            "--sync-binlog=1",
            &format!("--binlog-format={binlog}"),
        ]);
        server.sql(
            "SET GLOBAL sql_safe_updates = 1; SET GLOBAL tx_read_only = 1; \
             SET GLOBAL init_connect = 'SET autocommit = 0'",
        );
        let url = server.url();
        let mut client = db(&url);
        assert_eq!(client.about().warnings, [""; 0]);
        let now = getid::system::clock::wall_unix_ms();
        assert!((client.about().unix_ms - now).abs() < 60_000, "{}", client.about().unix_ms);
        let row = client.create("orders", "");
        assert!((row.created_unix_ms - now).abs() < 60_000, "{row:?}");
        // What a transaction that writes is like, as a trigger sees it.
        server.sql(
            "SET SESSION TRANSACTION READ WRITE; CREATE TABLE seen (isolation text, tz text) ENGINE=InnoDB; \
             CREATE TRIGGER note BEFORE UPDATE ON getid_sequence FOR EACH ROW \
             INSERT INTO seen VALUES (@@session.tx_isolation, @@session.time_zone); COMMIT",
        );
        let reserved = client.reserve("orders", 5).unwrap();
        assert!(client.give_back(&reserved.row, 3));
        client.raise("orders", 10).unwrap();
        client.create("others", "");
        client.reserve_of(&Reserve { opens: Some(getid_core::Spec::default()), ..ask("p@2026", 1) }).unwrap();
        assert_eq!(client.list("", 9, true), ["orders", "others", "p@2026"]);
        assert_eq!(server.sql("SELECT DISTINCT isolation, tz FROM seen"), format!("{isolation}\t+00:00"));
        assert_eq!(server.sql("SELECT count(*) FROM seen"), "4");
        drop(client);
        // Committed, for all to see; and two at once are not refused for it.
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
    let warnings = db(&url).about().warnings.clone();
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
    assert_eq!(db(&url).about().warnings.len(), 1, "the one that needs a restart");
    // A replica that takes writes; then one that takes none, which is no store.
    server.sql(
        "CHANGE MASTER TO MASTER_HOST = 'db.invalid', MASTER_USER = 'x'; \
         GRANT REPLICA MONITOR ON *.* TO getid@localhost",
    );
    let warnings = db(&url).about().warnings.clone();
    assert!(warnings[1].contains("it is a replica of another server"), "{warnings:?}");
    let mut client = db(&url);
    client.create("orders", "");
    server.sql("SET GLOBAL read_only = 1");
    says(&url, &["read_only on", "takes no writes", "Name the primary"]);
    // Who is connected already lets go: what it is connected to is not the primary any more.
    let error = client.try_reserve(&[ask("orders", 1)]).unwrap_err();
    assert!(matches!(&error, StoreError::Unknown(said) if said.contains("name the primary")), "{error:?}");
    server.sql("SET GLOBAL read_only = 0");
    assert_eq!(range(&db(&url).reserve("orders", 1).unwrap()), (1, 1));
}

/// Without transactions, what two servers do at a time mixes; a range that may not be ours is given to nobody.
#[test]
#[ignore = "needs mariadb"]
fn no_value_twice_in_a_table_without_transactions() {
    let server = MariadbServer::start(&[]);
    let url = server.url();
    db(&url).create("orders", "");
    server.sql("ALTER TABLE getid_sequence ENGINE=MyISAM");
    let given = Given::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = db(&url);
                for _ in 0..300 {
                    match client.reserve("orders", 7) {
                        Ok(got) => given.add(got.first, got.last),
                        Err(Verdict::BadRow(said)) => assert!(said.contains("changed by others"), "{said}"),
                        Err(verdict) => panic!("{verdict:?}"),
                    }
                }
            });
        }
    });
    assert!(given.count() > 1000, "{}", given.count());
}

/// A trigger that writes something else than what was asked: what comes of it is given to nobody.
#[test]
#[ignore = "needs mariadb"]
fn a_trigger_that_changes_rows_is_noticed() {
    let server = MariadbServer::start(&[]);
    let mut client = db(&server.url());
    client.create("orders", "");
    server.sql("CREATE TRIGGER meddle BEFORE UPDATE ON getid_sequence FOR EACH ROW SET NEW.next = OLD.next");
    let answer = client.reserve("orders", 5);
    assert!(matches!(&answer, Err(Verdict::BadRow(said)) if said.contains("'orders'")), "{answer:?}");
}

#[test]
#[ignore = "needs mariadb"]
fn rights_and_tables_that_are_missing_are_named() {
    let server = MariadbServer::start(&[]);
    server.sql("CREATE USER app@localhost IDENTIFIED BY 'app-secret'; GRANT SELECT ON ids.* TO app@localhost");
    let url = server.url_of("app:app-secret", "ids", "");
    let schema = "`getid sequence schema --store 'mysql://app:***@";
    says(&url, &["getid_store is missing in the database 'ids'", "'app' cannot make it", "(error 1142)", schema]);
    server.sql(&store(&url, Table::Native).schema());
    server.sql(&store(&url, Table::Native).schema());
    says(&url, &["UPDATE command denied", "GRANT SELECT, INSERT, UPDATE, DELETE ON `ids`.* TO 'app'"]);
    // Who may not make rows may still have the values of those that there are.
    server.sql("GRANT UPDATE ON ids.* TO app@localhost");
    db(&server.url()).create("orders", "");
    let mut client = db(&url);
    let warnings = client.about().warnings.join("\n");
    assert!(warnings.contains("INSERT command denied") && warnings.contains("GRANT DELETE"), "{warnings}");
    assert_eq!(range(&client.reserve("orders", 2).unwrap()), (1, 2));
    let error = client.try_create(&create("others", "")).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, StoreError::Refused(_)) && said.contains("GRANT") && said.contains("1142"), "{said}");
    assert_eq!(range(&client.reserve("orders", 2).unwrap()), (3, 4), "and the session goes on");
    // A column less, no row, one table of two.
    let owner = server.url();
    server.sql("ALTER TABLE getid_sequence CHANGE offset_ remainder INT NOT NULL");
    says(&owner, &["offset_", "(error 1054)", "of another version", "getid sequence schema"]);
    server.sql("ALTER TABLE getid_sequence CHANGE remainder offset_ INT NOT NULL; DELETE FROM getid_store");
    says(&owner, &["getid_store in the database 'ids' has lost its row", "INSERT INTO getid_store SELECT 1, '"]);
    let error = client.try_create(&create("others", "")).unwrap_err();
    assert!(matches!(&error, StoreError::Unknown(said) if said.contains("lost its row")), "{error:?}");
    server.sql("ALTER TABLE getid_store RENAME TO gone");
    says(&owner, &["'ids' has the table getid_sequence, and has lost getid_store", "backup"]);
    server.sql("ALTER TABLE gone RENAME TO getid_store; DROP TABLE getid_sequence");
    says(&owner, &["'ids' has the table getid_store, and has lost getid_sequence", "backup"]);
}

#[test]
#[ignore = "needs mariadb"]
fn who_is_not_let_in_is_told_why() {
    let server = MariadbServer::start(&["--max-connections=10"]);
    server.sql(
        "CREATE USER app@localhost IDENTIFIED BY 'app-secret'; CREATE DATABASE shut; \
         CREATE USER mine@localhost IDENTIFIED VIA unix_socket; CREATE USER one@localhost IDENTIFIED BY 'one-secret' \
         WITH MAX_USER_CONNECTIONS 1; GRANT ALL ON ids.* TO one@localhost",
    );
    let socket = server.socket().display().to_string();
    for (login, database, expected) in [
        ("getid:wrong-secret", "ids", [&*socket, "does not let 'getid' in", "(error 1045)", "check the user"]),
        ("nobody:wrong-secret", "ids", ["does not let 'nobody' in", "(error 1045)", "from which hosts", ""]),
        ("getid", "ids", ["does not let 'getid' in", "using password: NO", "", ""]),
        ("mine", "ids", ["does not let 'mine' in", "1698", "", ""]),
        ("app:app-secret", "shut", ["'app' may not use the database 'shut'", "GRANT SELECT, INSERT, UPDATE", "", ""]),
        ("root", "nowhere", ["no database 'nowhere'", "(error 1049)", "make it", ""]),
    ] {
        says(&server.url_of(login, database, ""), &expected);
    }
    let one = server.url_of("one:one-secret", "ids", "");
    let first = db(&one);
    says(&one, &["as many connections as it may", "max_user_connections"]);
    drop(first);
    let nobody = support::free_port();
    let place = format!("127.0.0.1:{nobody}");
    says(&format!("mysql://app:app-secret@{place}/ids"), &[&place, "cannot be reached", "refused", "is the server up"]);
    says("mysql://app:app-secret@db.invalid/ids?tls=no", &["db.invalid:3306", "is not found", "check the name"]);
    says("mysql://app:app-secret@/ids?socket=/nowhere", &["there is no socket /nowhere"]);
    says("mysql://app:app-secret@/ids?socket=/nowhere&tls=yes", &["there is no TLS on a socket"]);
    let file = server.dir().join("no-such-file");
    let url = server.url_of("app", "ids", &format!("&password-file={}", file.display()));
    says(&url, &["no-such-file cannot be read", "No such file"]);
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    db(&server.url_of("getid", "ids", &format!("&password-file={}", file.display())));
    // A server without TLS, and somebody else who listens there.
    let proxy = Proxy::to(&server);
    says(&format!("{}?tls=yes", proxy.url()), &["offers no TLS", "tls=no"]);
    let redis = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = redis.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in redis.incoming().map_while(Result::ok) {
            let _ = client.write_all(b"-ERR unknown command\r\n");
        }
    });
    says(&format!("mysql://app:app-secret@127.0.0.1:{port}/ids"), &[&format!("127.0.0.1:{port}")]);
}

#[test]
#[ignore = "needs mariadb"]
fn tls_as_the_address_says() {
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
    server.sql("CREATE USER app@localhost IDENTIFIED BY 'app-secret' REQUIRE SSL; GRANT ALL ON ids.* TO app@localhost");
    let proxy = Proxy::to(&server);
    let url = |options: &str| format!("mysql://app:app-secret@127.0.0.1:{}/ids?{options}", proxy.port);
    for options in ["tls=yes".to_owned(), format!("tls=verify&ca-file={}", path("ca.crt"))] {
        // The user may not come in without it.
        db(&url(&options)).count();
    }
    says(&url("tls=no"), &["does not let 'app' in"]);
    says(&url("tls=verify"), &["UnknownIssuer", "ca-file="]);
    says(&url(&format!("tls=verify&ca-file={}", path("other.crt"))), &["certificate", "ca-file="]);
    says(&url("tls=verify&ca-file=/nowhere/ca.crt"), &["/nowhere/ca.crt", "No such file"]);
    says(&url(&format!("tls=verify&ca-file={}", path("empty"))), &["no certificate in it"]);
}
