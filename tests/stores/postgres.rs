//! What PostgreSQL adds to the contract: it is killed, paused, cut off; its settings, its rights and its errors.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::task::Poll;
use std::time::Duration;

use getid::sql::{Reserve, Store, StoreError, Table, Verdict, open};
use getid::text::store_url::StoreUrl;

use crate::contract;
use crate::db::{Creation, Db, Place, ask, create, creation, is_over_time, range};
use crate::support::postgres::{OWNER_PASSWORD, Pooler, PostgresServer};
use crate::support::tls::Authority;
use crate::support::{self, PATIENCE, eventually};

/// A database of its own, in a server of its own.
struct Database {
    server: PostgresServer,
}

impl Database {
    fn new() -> Database {
        Database { server: PostgresServer::start(&[]) }
    }
}

impl Place for Database {
    fn clear(&self) {
        self.server.psql("DROP TABLE IF EXISTS getid_sequence; DROP TABLE IF EXISTS getid_store;");
    }

    fn store(&self) -> Box<dyn Store> {
        store(&self.server.url())
    }

    fn sql(&self, statements: &str) -> Result<(), String> {
        // So that rows can be written that nobody should write.
        let unchecked = "DO $$ DECLARE c text; BEGIN FOR c IN SELECT conname FROM pg_constraint \
                         WHERE conrelid = to_regclass('getid_sequence') AND contype = 'c' LOOP \
                         EXECUTE 'ALTER TABLE getid_sequence DROP CONSTRAINT ' || quote_ident(c); END LOOP; END $$;";
        self.server.try_psql("postgres", &format!("{unchecked}\n{statements}")).map(drop)
    }

    fn insert_many(&self) -> u32 {
        self.server.psql(
            "SET synchronous_commit = off; INSERT INTO getid_sequence (name, next) \
             SELECT 'many-' || lpad(n::text, 7, '0'), 1 FROM generate_series(1, 1000000) AS n; \
             ANALYZE getid_sequence;",
        );
        1_000_000
    }
}

fn store(url: &str) -> Box<dyn Store> {
    open(&StoreUrl::parse(url).unwrap(), Table::Native, std::path::Path::new("."), 0).unwrap()
}

#[track_caller]
fn db(url: &str) -> Db {
    Db::opened(&*store(url))
}

/// Why it cannot be opened. Whatever it is, no password is in it.
#[track_caller]
fn refusal(url: &str) -> String {
    let error = match Db::of(&*store(url)) {
        Ok(_) => panic!("{url} is opened"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!error.contains("secret"), "{error}");
    error
}

#[track_caller]
fn says(url: &str, expected: &[&str]) {
    let said = refusal(url);
    for expected in expected {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
#[ignore = "needs postgresql"]
fn postgres_keeps_the_contract() {
    contract::check_all(&Database::new());
}

/// What was reserved in a test by all who took part, each value once.
#[derive(Default)]
struct Given {
    values: Mutex<BTreeSet<i64>>,
}

impl Given {
    #[track_caller]
    fn add(&self, first: i64, last: i64) {
        let mut values = self.values.lock().unwrap();
        assert!((first..=last).all(|value| values.insert(value)), "{first} to {last} was given before");
    }

    fn max(&self) -> i64 {
        self.values.lock().unwrap().last().copied().unwrap_or(0)
    }
}

#[test]
#[ignore = "needs postgresql"]
fn the_database_is_killed_under_load() {
    let mut server = PostgresServer::start(&[]);
    let url = server.url();
    db(&url).create("orders", "");
    let (given, stop) = (Given::default(), AtomicBool::new(false));
    let lost = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let (url, given, stop) = (&url, &given, &stop);
                scope.spawn(move || {
                    let mut unknown = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let Ok(mut db) = Db::of(&*store(url)) else {
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
                })
            })
            .collect();
        for round in 0..4 {
            let before = given.max();
            eventually("values under load", || given.max() > before + 300);
            server.stop_immediate();
            let at_end = given.max();
            server.start_again();
            let next: i64 = server.psql("SELECT next FROM getid_sequence WHERE name = 'orders'").parse().unwrap();
            assert!(next > at_end, "round {round}: {at_end} was given, and the row is at {next}");
        }
        let before = given.max();
        eventually("values after the last start", || given.max() > before + 300);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u32>()
    });
    assert!(lost >= 4, "each kill cut statements: {lost}");
    // What is missing is of statements whose outcome nobody knows: of each, one reservation at most.
    let missing = given.max() - i64::try_from(given.values.lock().unwrap().len()).unwrap();
    assert!(missing <= i64::from(lost) * 3, "{missing} values are missing after {lost} unknown outcomes");
}

/// Between a client and the database; it can drop what one of them says.
struct Proxy {
    port: u16,
    /// From now on replies go nowhere. After the first of them, the connection ends.
    drops_replies: Arc<AtomicBool>,
    /// From now on the connection ends instead of passing a request on.
    drops_requests: Arc<AtomicBool>,
    cut: Arc<AtomicU16>,
}

impl Proxy {
    fn to(port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            drops_replies: Arc::default(),
            drops_requests: Arc::default(),
            cut: Arc::default(),
        };
        let (replies, requests, cut) =
            (Arc::clone(&proxy.drops_replies), Arc::clone(&proxy.drops_requests), Arc::clone(&proxy.cut));
        // It ends with the process: tests of a binary are few.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let (drops_replies, drops_requests) = (Arc::clone(&replies), Arc::clone(&requests));
                let (cut_of_replies, cut_of_requests) = (Arc::clone(&cut), Arc::clone(&cut));
                std::thread::spawn(move || pass(client, server, &drops_requests, &cut_of_requests));
                std::thread::spawn(move || pass(back.0, back.1, &drops_replies, &cut_of_replies));
            }
        });
        proxy
    }
}

/// Passes bytes on until one side ends, or `drops` says that it is to end here.
fn pass(mut from: TcpStream, mut to: TcpStream, drops: &AtomicBool, cut: &AtomicU16) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(read) = from.read(&mut bytes) {
        if read == 0 {
            break;
        }
        if drops.load(Ordering::SeqCst) {
            cut.fetch_add(1, Ordering::SeqCst);
            break;
        }
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(std::net::Shutdown::Both);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// The database has committed, and nobody hears of it.
#[test]
#[ignore = "needs postgresql"]
fn the_reply_to_a_commit_is_lost() {
    let server = PostgresServer::start(&[]);
    db(&server.url()).create("orders", "");
    let proxy = Proxy::to(server.port);
    let url = format!("postgres://postgres:{OWNER_PASSWORD}@127.0.0.1:{}/postgres", proxy.port);
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
        let next: i64 = server.psql("SELECT next FROM getid_sequence").parse().unwrap();
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
#[ignore = "needs postgresql"]
fn a_request_is_lost() {
    let server = PostgresServer::start(&[]);
    db(&server.url()).create("orders", "");
    let proxy = Proxy::to(server.port);
    let url = format!("postgres://postgres:{OWNER_PASSWORD}@127.0.0.1:{}/postgres", proxy.port);
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
#[ignore = "needs postgresql"]
fn the_database_stands_still() {
    let server = PostgresServer::start(&[]);
    let url = server.url();
    db(&url).create("orders", "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store(&url);
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

/// Whoever lets go of an answer, at whatever point, leaves a connection that says nothing inside of what is half-way.
#[test]
#[ignore = "needs postgresql"]
fn a_statement_that_was_let_go() {
    let server = PostgresServer::start(&[]);
    let url = server.url();
    db(&url).create("orders", "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store(&url);
        let (mut made, mut let_go, mut refused) = (0, 0, 0);
        while made < 3 {
            for trial in 0..3 {
                let mut connection = store.connect().await.unwrap();
                let new = create(&format!("s{let_go}-{refused}-{trial}"), "");
                // It goes on as far as so many messages bring it.
                let created = polled(connection.create(&new), 1 + let_go / 3).await;
                let after = connection.reserve(&[ask("orders", 1)]).await;
                match creation(created, &after) {
                    Creation::Made => made += 1,
                    Creation::LetGo => let_go += 1,
                    Creation::Refused => refused += 1,
                }
            }
            assert!(let_go + refused < 300, "no creation comes to its end");
        }
        assert!(let_go >= 9, "{let_go}: there are several statements to let go of");
        let mut connection = store.connect().await.unwrap();
        assert!(connection.count().await.unwrap() > made, "and 'orders'");
        assert!(connection.reserve(&[ask("orders", 1)]).await.unwrap()[0].is_ok(), "no lock stays behind");
    });
}

/// What a future comes to when it is looked at so many times, or `None`.
async fn polled<T>(mut future: Pin<Box<dyn Future<Output = T> + Send + '_>>, mut times: u32) -> Option<T> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => {
            times = times.saturating_sub(1);
            if times == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await
}

#[test]
#[ignore = "needs postgresql"]
fn a_session_that_the_database_ends_is_told_why() {
    let server = PostgresServer::start(&[]);
    let mut client = db(&server.url());
    client.create("orders", "");
    server.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'getid'");
    let error = client.try_reserve(&[ask("orders", 1)]).unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    assert!(error.to_string().contains("terminating connection due to administrator command"), "{error}");
}

/// Another transaction has the row: this one waits for a second at most, and can go on.
#[test]
#[ignore = "needs postgresql"]
fn a_row_that_somebody_else_has_locked() {
    let server = PostgresServer::start(&[]);
    let mut client = db(&server.url());
    client.create("orders", "");
    client.create("others", "");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let locks = "BEGIN; UPDATE getid_sequence SET cache = 5 WHERE name = 'orders'; SELECT pg_sleep(60)";
            assert!(server.try_psql("postgres", locks).is_err(), "it is ended here below");
        });
        let holder = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        eventually("the lock", || server.psql(&format!("SELECT count(*) {holder}")) == "1");
        let error = client.try_reserve(&[ask("others", 1), ask("orders", 1)]).unwrap_err();
        let others = client.reserve("others", 1);
        server.psql(&format!("SELECT pg_terminate_backend(pid) {holder}"));
        assert!(matches!(&error, StoreError::Refused(said) if said.contains("lock timeout")), "{error:?}");
        assert_eq!(range(&others.unwrap()), (1, 1), "nothing of the batch was done");
    });
    assert_eq!(range(&client.reserve("orders", 1).unwrap()), (1, 1));
}

/// Whatever the role, the database and the server have as their defaults, a session is as it must be.
#[test]
#[ignore = "needs postgresql"]
fn another_isolation_and_time_zone_and_all_that() {
    let server = PostgresServer::start(&["synchronous_commit = off", "timezone = 'Asia/Kathmandu'"]);
    server.psql(
        "CREATE ROLE app LOGIN PASSWORD 'app-secret'; GRANT CREATE ON SCHEMA public TO app; \
         ALTER ROLE app SET default_transaction_isolation = 'serializable'; \
         ALTER ROLE app SET default_transaction_read_only = on; \
         ALTER ROLE app SET default_transaction_deferrable = on; \
         ALTER ROLE app SET synchronous_commit = local; ALTER ROLE app SET timezone = 'America/St_Johns'; \
         ALTER ROLE app SET DateStyle = 'SQL, DMY'; ALTER ROLE app SET extra_float_digits = 0; \
         ALTER ROLE app SET statement_timeout = '1ms'; ALTER ROLE app SET standard_conforming_strings = off; \
         ALTER ROLE app SET client_encoding = 'LATIN1'; ALTER ROLE app SET enable_indexscan = off;",
    );
    let url = server.url_of("app:app-secret", "postgres", "");
    let mut client = db(&url);
    assert_eq!(client.about().warnings, [""; 0]);
    let now = getid::system::clock::wall_unix_ms();
    assert!((client.about().unix_ms - now).abs() < 60_000);
    client.create("orders", "");
    // What a transaction that writes is like, as its trigger sees it.
    server.psql(
        "CREATE TABLE seen (commit text, isolation text); GRANT INSERT ON seen TO app; \
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES \
         (current_setting('synchronous_commit'), current_setting('transaction_isolation')); RETURN NEW; END $$; \
         CREATE TRIGGER note BEFORE INSERT OR UPDATE ON getid_sequence FOR EACH ROW EXECUTE FUNCTION note()",
    );
    let reserved = client.reserve("orders", 5).unwrap();
    assert!(client.give_back(&reserved.row, 3));
    client.raise("orders", 10).unwrap();
    client.create("others", "");
    client.reserve_of(&Reserve { opens: Some(getid_core::Spec::default()), ..ask("p@2026", 1) }).unwrap();
    assert_eq!(server.psql("SELECT count(*) FROM seen"), "6");
    assert_eq!(server.psql("SELECT DISTINCT commit, isolation FROM seen"), "on|read committed");
    // Two at once are not refused for it.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let url = &url;
            scope.spawn(move || {
                let mut client = db(url);
                (0..50).for_each(|_| drop(client.reserve("orders", 1).unwrap()));
            });
        }
    });
    // A stronger setting stays.
    server.psql("ALTER ROLE app SET synchronous_commit = remote_apply; DELETE FROM seen");
    db(&url).reserve("orders", 1).unwrap();
    assert_eq!(server.psql("SELECT commit FROM seen"), "remote_apply");
}

/// A trigger that writes something else than what was asked: what comes of it is given to nobody.
#[test]
#[ignore = "needs postgresql"]
fn a_trigger_that_changes_rows_is_noticed() {
    let server = PostgresServer::start(&[]);
    let mut client = db(&server.url());
    client.create("orders", "");
    server.psql(
        "CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.next := OLD.next; RETURN NEW; \
         END $$; \
         CREATE TRIGGER meddle BEFORE UPDATE ON getid_sequence FOR EACH ROW EXECUTE FUNCTION meddle()",
    );
    let error = client.try_reserve(&[ask("orders", 5)]).unwrap_err();
    assert!(matches!(&error, StoreError::Unknown(said) if said.contains("trigger")), "{error:?}");
}

#[test]
#[ignore = "needs postgresql"]
fn settings_that_lose_commits_are_warned_of() {
    let mut server = PostgresServer::start(&["fsync = off", "full_page_writes = off"]);
    let url = server.url();
    drop(db(&url));
    server.psql("ALTER TABLE getid_sequence SET UNLOGGED");
    let warnings = db(&url).about().warnings.clone();
    for (warning, expected) in warnings.iter().zip([
        ("fsync is off", "set fsync = on in postgresql.conf"),
        ("full_page_writes is off", "set full_page_writes = on in postgresql.conf"),
        ("getid_sequence is not logged", "ALTER TABLE getid_sequence SET LOGGED"),
    ]) {
        assert!(warning.contains(expected.0) && warning.contains(expected.1), "{warning}");
    }
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    server.psql("ALTER TABLE getid_sequence SET LOGGED");
    assert_eq!(db(&url).about().warnings.len(), 2);
    // A standby is no store: what was read there could not be written.
    server.stop_immediate();
    std::fs::write(server.dir().join("data/standby.signal"), "").unwrap();
    server.start_again();
    says(&url, &["is a standby", "name the primary", "127.0.0.1"]);
}

#[test]
#[ignore = "needs postgresql"]
fn rights_and_tables_that_are_missing_are_named() {
    let server = PostgresServer::start(&[]);
    server.psql("CREATE ROLE app LOGIN PASSWORD 'app-secret'; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let url = server.url_of("app:app-secret", "postgres", "");
    let schema = "getid sequence schema --store URL";
    says(&url, &["'postgres' has no table getid_sequence, and 'app' may not make it", "permission denied", schema]);
    server.psql(&store(&url).schema());
    server.psql(&store(&url).schema());
    says(&url, &["'app' may not SELECT the table getid_store", "GRANT SELECT, INSERT, UPDATE, DELETE"]);
    server.psql("GRANT SELECT, UPDATE ON getid_store TO app; GRANT SELECT ON getid_sequence TO app");
    says(&url, &["'app' may not UPDATE the table getid_sequence", "TO \"app\""]);
    // Who may not make rows may still have the values of those that there are.
    server.psql("GRANT UPDATE ON getid_sequence TO app");
    db(&server.url()).create("orders", "");
    let mut client = db(&url);
    assert_eq!(range(&client.reserve("orders", 2).unwrap()), (1, 2));
    let error = client.try_create(&create("others", "")).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, StoreError::Refused(_)) && said.contains("GRANT") && said.contains("42501"), "{said}");
    assert_eq!(range(&client.reserve("orders", 2).unwrap()), (3, 4), "and the session goes on");
    server.psql("GRANT INSERT ON getid_sequence TO app");
    client.create("others", "");
    // One table of two, no row, a column less.
    server.psql("ALTER TABLE getid_sequence RENAME COLUMN offset_ TO remainder");
    says(&url, &["offset_", "does not exist", schema]);
    server.psql("ALTER TABLE getid_sequence RENAME COLUMN remainder TO offset_; DELETE FROM getid_store");
    says(&url, &["the table getid_store has no row", schema]);
    server.psql("ALTER TABLE getid_store RENAME TO gone");
    says(&url, &["'postgres' has no table getid_store, though it has the other one", schema]);
    says(&server.url(), &["'postgres' has no table getid_store, though it has the other one", schema]);
    server.psql("ALTER TABLE gone RENAME TO getid_store; DROP TABLE getid_sequence");
    says(&server.url(), &["has no table getid_sequence, though it has the other one", "backup"]);
}

#[test]
#[ignore = "needs postgresql"]
fn who_is_not_let_in_is_told_why() {
    let server = PostgresServer::start(&["max_connections = 6", "superuser_reserved_connections = 3"]);
    server.psql("CREATE ROLE app LOGIN PASSWORD 'app-secret'");
    server.psql("CREATE DATABASE shut");
    server.psql("REVOKE CONNECT ON DATABASE shut FROM PUBLIC");
    for (login, database, expected) in [
        ("postgres:wrong-secret", "postgres", &["password authentication failed", "user is 'postgres'"]),
        ("nobody:wrong-secret", "postgres", &["password authentication failed", "user is 'nobody'"]),
        ("app", "postgres", &["wants a password of 'app'", "password-file="]),
        ("app:app-secret", "nowhere", &["\"nowhere\" does not exist", "CREATE DATABASE \"nowhere\""]),
        ("app:app-secret", "shut", &["permission denied", "GRANT CONNECT ON DATABASE \"shut\" TO \"app\""]),
    ] {
        says(&server.url_of(login, database, ""), expected);
    }
    says(&server.url_of("app:app-secret", "postgres", "?tls=yes"), &["127.0.0.1", "has no TLS", "tls=no"]);
    let nobody = support::free_port();
    says(
        &format!("postgres://app:app-secret@127.0.0.1:{nobody}/ids"),
        &[&format!("127.0.0.1:{nobody}"), "refused", "is PostgreSQL running there"],
    );
    says("postgres://app:app-secret@db.invalid/ids?tls=no", &["db.invalid:5432", "cannot be reached"]);
    says("postgres://app:app-secret@/ids?socket=/nowhere", &["/nowhere", "cannot be reached", "No such file"]);
    says("postgres://app:app-secret@/ids?socket=/nowhere&tls=yes", &["there is no TLS on a socket"]);
    // Somebody else listens there.
    let redis = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = redis.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in redis.incoming().map_while(Result::ok) {
            let _ = client.read(&mut [0; 100]);
            let _ = client.write_all(b"-ERR unknown command\r\n");
        }
    });
    says(&format!("postgres://app:app-secret@127.0.0.1:{port}/ids"), &[&format!("127.0.0.1:{port}")]);
    // As many as may come in, and one more.
    let app = server.url_of("app:app-secret", "postgres", "");
    server.psql(&store(&app).schema());
    server.psql("GRANT ALL ON getid_store, getid_sequence TO app");
    let mut in_use: Vec<Db> = Vec::new();
    eventually("those who were here before have left", || {
        in_use.extend(Db::of(&*store(&app)));
        in_use.len() == 3
    });
    // Not "too many" of all: those that were refused have left, too.
    eventually("room for the owner", || server.try_psql("postgres", "").is_ok());
    says(&app, &["remaining connection slots are reserved", "each getid needs two"]);
    drop(in_use);
}

#[test]
#[ignore = "needs postgresql"]
fn a_socket_is_named_by_its_folder_or_its_file() {
    let server = PostgresServer::start(&[]);
    let mut client = db(&server.socket_url());
    client.create("orders", "");
    assert!(client.about().product.starts_with("PostgreSQL 1"), "{}", client.about().product);
    drop(client);
    let file = server.dir().join(format!(".s.PGSQL.{}", server.port));
    let url = format!("postgres://postgres:{OWNER_PASSWORD}@localhost/postgres?socket={}", file.display());
    assert_eq!(range(&db(&url).reserve("orders", 1).unwrap()), (1, 1));
}

#[test]
#[ignore = "needs postgresql"]
fn tls_as_the_address_says() {
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
    says(&url("?tls=verify"), &["UnknownIssuer", "ca-file="]);
    says(&url(&format!("?tls=verify&ca-file={}", other.display())), &["certificate", "ca-file="]);
    says(&url("?tls=verify&ca-file=/nowhere/ca.crt"), &["/nowhere/ca.crt", "No such file"]);
    says(&url(&format!("?tls=verify&ca-file={}", server.dir().join("password").display())), &["no certificate in it"]);
}

#[test]
#[ignore = "needs postgresql"]
fn the_same_name_twice_in_a_batch_is_refused() {
    let server = PostgresServer::start(&[]);
    let mut client = db(&server.url());
    client.create("orders", "");
    let error = client.try_reserve(&[ask("orders", 1), ask("orders", 2)]).unwrap_err();
    assert!(matches!(&error, StoreError::Refused(said) if said.contains("'orders' is twice")), "{error:?}");
    assert_eq!(range(&client.reserve("orders", 1).unwrap()), (1, 1));
    assert_eq!(client.reserve("missing", 1), Err(Verdict::NoSuch));
}

/// Says that it is PostgreSQL, lets everybody in, and answers every statement with `reply`. Its port.
fn fake(reply: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut bytes = [0; 4096];
            let welcome = [message(b'R', &[0, 0, 0, 0]), message(b'Z', b"I")].concat();
            let mut next = welcome.as_slice();
            while client.read(&mut bytes).is_ok_and(|read| read > 0) && client.write_all(next).is_ok() {
                next = &reply;
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

/// An error that only ends a statement has changed nothing. One that ends the session, or is of what is between, may
/// come after the commit.
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
        let Err(error) = Db::of(&*store(&format!("postgres://app:app-secret@127.0.0.1:{port}/ids"))) else {
            panic!("{severity} {code} is no answer");
        };
        assert_eq!(matches!(error, StoreError::Unknown(_)), is_unknown, "{severity} {code}: {error:?}");
        assert!(error.to_string().contains(&format!("so it is [{code}]")), "{error}");
    }
}

/// Whatever a server says, it ends with an error, and the password is not in it.
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
        let port = fake(reply.clone());
        let url = format!("postgres://app:app-secret@127.0.0.1:{port}/ids");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // A length that is too large is waited for: who connects has a deadline.
        let opened =
            runtime.block_on(async { tokio::time::timeout(Duration::from_millis(300), store(&url).connect()).await });
        if let Ok(opened) = opened {
            let error = opened.err().unwrap_or_else(|| panic!("{reply:?} is no answer"));
            assert!(!format!("{error} {error:?}").contains("secret"), "{reply:?}: {error}");
        }
    }
}

/// A version that is too old, as a server of that version would say it.
#[test]
fn a_version_that_is_too_old_is_named() {
    let values: [&[u8]; 7] =
        [&110_022_i32.to_be_bytes(), b"11.22", &[0], b"on", b"on", &1_767_225_600_000_i64.to_be_bytes(), b"on"];
    let types: [u32; 7] = [23, 25, 16, 25, 25, 20, 25];
    let count = 7_u16.to_be_bytes();
    let mut columns = count.to_vec();
    for kind in types {
        columns.extend(b"c\0");
        columns.extend([0; 6]);
        columns.extend(kind.to_be_bytes());
        columns.extend([0, 8, 255, 255, 255, 255, 0, 1]);
    }
    let mut row = count.to_vec();
    for value in values {
        row.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        row.extend(value);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let replies = [
        [message(b'R', &[0, 0, 0, 0]), message(b'Z', b"I")].concat(),
        [message(b'C', b"SET\0"), message(b'Z', b"I")].concat(),
        [
            message(b'1', b""),
            message(b'2', b""),
            message(b'T', &columns),
            message(b'D', &row),
            message(b'C', b"SELECT 1\0"),
            message(b'Z', b"I"),
        ]
        .concat(),
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
    says(&url, &["is version 11.22, must be 12 or newer", &format!("127.0.0.1:{port}")]);
    server.join().unwrap();
}

/// Several servers that are started at once in front of an empty database.
#[test]
#[ignore = "needs postgresql"]
fn the_tables_are_made_once() {
    let server = PostgresServer::start(&[]);
    for _ in 0..5 {
        server.psql("DROP TABLE IF EXISTS getid_sequence; DROP TABLE IF EXISTS getid_store");
        let url = server.url();
        let uuids: BTreeSet<String> = std::thread::scope(|scope| {
            let openers: Vec<_> = (0..6).map(|_| scope.spawn(|| db(&url).about().uuid.clone())).collect();
            openers.into_iter().map(|opener| opener.join().unwrap()).collect()
        });
        assert_eq!(uuids.len(), 1, "{uuids:?}");
    }
}

/// A pooler gives each transaction another session, where what another statement has set does not hold.
#[test]
#[ignore = "needs postgresql, pgbouncer"]
fn through_a_pooler_of_transactions() {
    let server = PostgresServer::start(&["synchronous_commit = off"]);
    let pooler = Pooler::start(&server);
    db(&pooler.url()).create("orders", "");
    server.psql(
        "CREATE TABLE seen (commit text, pid int); \
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES \
         (current_setting('synchronous_commit'), pg_backend_pid()); RETURN NEW; END $$; \
         CREATE TRIGGER note BEFORE INSERT OR UPDATE ON getid_sequence FOR EACH ROW EXECUTE FUNCTION note()",
    );
    let given = Given::default();
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
    assert!(sessions > 1, "each client has gone over several sessions");
}
