//! What PostgreSQL adds: it is killed, paused, cut off; its settings, its rights and its errors.

use std::sync::Arc;

use getid::records::{RecordStore, RecordStoreError, Written};

use super::{DEADLINE, SHORT, cut_after_sending, cut_cable, is_away, killed_under_writes, open, records, says};
use crate::contract::{Place, Records, check_all, row, stamp};
use crate::support::postgres::{OWNER_PASSWORD, Pooler, PostgresServer};
use crate::support::proxy::{Proxy, Target};
use crate::support::{eventually, free_port};

struct Database {
    server: PostgresServer,
    url: String,
}

impl Place for Database {
    fn clear(&self) {
        self.server.psql("DROP TABLE IF EXISTS getid_record");
    }

    fn store(&self) -> Arc<dyn RecordStore> {
        open(&self.url, std::path::Path::new("."), DEADLINE)
    }
}

fn through(proxy: &Proxy) -> String {
    format!("postgres://postgres:{OWNER_PASSWORD}@127.0.0.1:{}/postgres", proxy.port)
}

#[test]
#[ignore = "needs postgresql"]
fn postgres_keeps_the_contract() {
    let server = PostgresServer::start(&[]);
    let url = server.url();
    check_all(&Database { server, url });
}

/// Each transaction gets another connection of the pooler's.
#[test]
#[ignore = "needs postgresql"]
fn postgres_behind_a_pooler_keeps_the_contract() {
    let server = PostgresServer::start(&[]);
    let pooler = Pooler::start(&server);
    let url = pooler.url();
    check_all(&Database { server, url });
}

#[test]
#[ignore = "needs postgresql"]
fn postgres_is_killed_under_writes() {
    let mut server = PostgresServer::start(&[]);
    let url = server.url();
    killed_under_writes(&url, || {
        server.stop_immediate();
        server.start_again();
    });
}

#[test]
#[ignore = "needs postgresql"]
fn the_way_to_postgres_is_cut() {
    let server = PostgresServer::start(&[]);
    let proxy = Proxy::to(Target::Port(server.port));
    cut_after_sending(&proxy, &through(&proxy));
    server.psql("DROP TABLE getid_record");
    cut_cable(&proxy, &through(&proxy));
}

/// A statement that waits for another's transaction is not done, and says so.
#[test]
#[ignore = "needs postgresql"]
fn a_row_that_somebody_has_locked() {
    let server = PostgresServer::start(&[]);
    let store = records(&server.url());
    store.put("claim/1", None, &row(1, 1, "1"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let locks = "BEGIN; SELECT 1 FROM getid_record FOR UPDATE; SELECT pg_sleep(60)";
            assert!(server.try_psql("postgres", locks).is_err(), "it is ended here below");
        });
        let holder = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        eventually("the lock", || server.psql(&format!("SELECT count(*) {holder}")) == "1");
        let written = store.write("claim/1", Some(stamp(1, 1)), &row(1, 2, "2"));
        let found = store.read("claim/1");
        server.psql(&format!("SELECT pg_terminate_backend(pid) {holder}"));
        let error = written.unwrap_err();
        assert!(
            matches!(&error, RecordStoreError::Refused(said) if said.contains("another transaction has it")),
            "{error:?}"
        );
        assert_eq!(found, Ok(Some(row(1, 1, "1"))));
    });
    // The lock ends a while after its client.
    let done = Ok(Written::Done);
    eventually("a write", || store.write("claim/1", Some(stamp(1, 1)), &row(1, 2, "2")) == done);
}

#[test]
#[ignore = "needs postgresql"]
fn postgres_stands_still() {
    let server = PostgresServer::start(&[]);
    let store = Records(open(&server.url(), std::path::Path::new("."), SHORT));
    eventually("a first answer", || store.read("claim/1").is_ok());
    server.pause();
    is_late(&store);
    server.resume();
    eventually("an answer", || store.read("claim/1").is_ok());
}

fn is_late(store: &Records) {
    let error = store.write("claim/1", None, &row(1, 1, "")).unwrap_err();
    assert!(matches!(&error, RecordStoreError::Unknown(said) if said.contains("within 500 ms")), "{error:?}");
    for _ in 0..2 {
        let error = store.read("claim/1").unwrap_err();
        assert!(matches!(&error, RecordStoreError::Away(said) if said.contains("within 500 ms")), "{error:?}");
    }
}

#[test]
#[ignore = "needs postgresql"]
fn what_postgres_refuses_has_a_remedy() {
    let server = PostgresServer::start(&[]);
    server.psql("CREATE ROLE app LOGIN PASSWORD 'app-secret'; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let app = server.url_of("app:app-secret", "postgres", "");
    says(&app, &["has no table getid_record, and 'app' may not make it", "getid claim schema --store URL"]);
    says(&server.url_of("app:wrong-secret", "postgres", ""), &["the user is 'app' and the password that of the"]);
    says(&server.url_of("nobody:app-secret", "postgres", ""), &["nobody"]);
    says(&server.url_of("app:app-secret", "absent", ""), &["CREATE DATABASE \"absent\""]);
    says(&server.url_of("app:app-secret", "postgres", "?tls=verify"), &["has no TLS", "tls=no"]);
    // What is printed is enough.
    let schema = records(&server.url()).0.schema();
    server.psql(&format!("SET ROLE postgres; {schema}"));
    for (grant, expected) in
        [("SELECT", "may not INSERT the table getid_record"), ("INSERT", "may not UPDATE the table getid_record")]
    {
        server.psql(&format!("GRANT {grant} ON getid_record TO app"));
        says(&app, &[expected, "GRANT SELECT, INSERT, UPDATE ON getid_record TO \"app\""]);
    }
    server.psql("GRANT UPDATE ON getid_record TO app");
    records(&app).put("claim/1", None, &row(1, 1, "1"));
    // A right that is taken away while a connection is open.
    let store = records(&app);
    assert!(store.read("claim/1").is_ok());
    server.psql("REVOKE UPDATE ON getid_record FROM app");
    let error = store.write("claim/1", Some(stamp(1, 1)), &row(1, 2, "2")).unwrap_err();
    assert!(matches!(&error, RecordStoreError::Refused(said) if said.contains("GRANT SELECT, INSERT, UPDATE ON")));
    // The table goes away.
    let store = records(&server.url());
    assert!(store.read("claim/1").is_ok());
    server.psql("DROP TABLE getid_record");
    let error = store.read("claim/1").unwrap_err();
    assert!(matches!(&error, RecordStoreError::Refused(said) if said.contains("getid claim schema")), "{error:?}");
    server.psql("CREATE TABLE getid_record (record_key text PRIMARY KEY)");
    says(&server.url(), &["prints getid_record as they must be"]);
}

#[test]
#[ignore = "needs postgresql"]
fn postgres_is_not_there() {
    let nobody = format!("postgres://a:a-secret@127.0.0.1:{}/b", free_port());
    is_away(&records(&nobody), "cannot be reached");
    is_away(&records("postgres://a:a-secret@no-such-host.invalid/b?tls=no"), "cannot be reached");
    let mut server = PostgresServer::start(&[]);
    let store = records(&server.url());
    store.put("claim/1", None, &row(1, 1, "1"));
    server.stop_immediate();
    is_away(&store, "cannot be reached");
    server.start_again();
    eventually("an answer", || store.read("claim/1") == Ok(Some(row(1, 1, "1"))));
}

#[test]
#[ignore = "needs postgresql"]
fn postgres_becomes_a_standby() {
    let mut server = PostgresServer::start(&[]);
    let store = records(&server.url());
    store.put("claim/1", None, &row(1, 1, "1"));
    server.stop_immediate();
    server.start_as_standby();
    says(&server.url(), &["is a standby (pg_is_in_recovery)", "name the primary"]);
    eventually("its refusal", || matches!(store.read("claim/1"), Err(RecordStoreError::Refused(_))));
}

#[test]
#[ignore = "needs postgresql"]
fn a_replica_that_no_commit_waits_for_is_warned_of() {
    let server = PostgresServer::start(&[]);
    let about = || records(&server.url()).about().unwrap();
    assert_eq!(about().warnings, [""; 0]);
    let mut replica = server.replica();
    eventually("a warning", || about().warnings.iter().any(|warning| warning.contains("it has 1 replica, and")));
    replica.kill().unwrap();
    replica.wait().unwrap();
}

#[test]
#[ignore = "needs postgresql"]
fn weak_settings_of_postgres_are_warned_of() {
    let server = PostgresServer::start(&["fsync = off", "synchronous_commit = off"]);
    let store = records(&server.url());
    let about = store.about().unwrap();
    assert!(about.product.starts_with("PostgreSQL "), "{about:?}");
    assert!(about.warnings.iter().any(|warning| warning.starts_with("fsync is off")), "{about:?}");
    assert_eq!(about.warnings.len(), 1, "synchronous_commit is put on: {about:?}");
    server.psql("ALTER TABLE getid_record SET UNLOGGED");
    let warnings = records(&server.url()).about().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("is not logged")), "{warnings:?}");
    server.psql("ALTER SYSTEM SET default_transaction_read_only = on; SELECT pg_reload_conf()");
    store.put("claim/1", None, &row(1, 1, "our sessions may write nevertheless"));
}
