//! What PostgreSQL adds: its settings, its privileges and its errors.

use getid_store::records::RecordStoreError;

use super::{Shared, assert_refused, check_faults, records};
use crate::contract::{check_all, row, stamp};
use crate::support::backend::Backend as _;
use crate::support::eventually;
use crate::support::postgres::{Pooler, PostgresServer};

/// The pooler gives each transaction another connection.
#[test]
#[ignore = "needs postgresql, pgbouncer"]
fn postgres_behind_a_pooler_keeps_the_contract() {
    let server = PostgresServer::start(&[]);
    let pooler = Pooler::start(&server);
    check_all(&Shared(&server, pooler.url()));
}

#[test]
#[ignore = "needs postgresql"]
fn faults_and_errors_of_postgres() {
    let mut server = PostgresServer::start(&[]);
    check_faults(&mut server);
    for scenario in [
        refusals_of_postgres_have_a_remedy,
        a_replica_that_no_commit_waits_for_is_warned_of,
        postgres_becomes_a_standby,
    ] {
        server.clear();
        scenario(&mut server);
    }
}

fn refusals_of_postgres_have_a_remedy(server: &mut PostgresServer) {
    server.psql("CREATE ROLE app LOGIN PASSWORD 'app-secret'; REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    let app = server.url_of("app:app-secret", "postgres", "");
    assert_refused(&app, &["has no table getid_record, and 'app' may not create it", "getid claim schema --store URL"]);
    assert_refused(
        &server.url_of("app:wrong-secret", "postgres", ""),
        &["the user is 'app' and the password that of the"],
    );
    assert_refused(&server.url_of("stranger:app-secret", "postgres", ""), &["stranger"]);
    assert_refused(&server.url_of("app:app-secret", "absent", ""), &["CREATE DATABASE \"absent\""]);
    assert_refused(&server.url_of("app:app-secret", "postgres", "?tls=verify"), &["has no TLS", "tls=no"]);
    // The printed statements suffice.
    let schema = records(&server.url()).0.schema();
    server.psql(&format!("SET ROLE postgres; {schema}"));
    for (grant, expected) in
        [("SELECT", "may not INSERT the table getid_record"), ("INSERT", "may not UPDATE the table getid_record")]
    {
        server.psql(&format!("GRANT {grant} ON getid_record TO app"));
        assert_refused(&app, &[expected, "GRANT SELECT, INSERT, UPDATE ON getid_record TO \"app\""]);
    }
    server.psql("GRANT UPDATE ON getid_record TO app");
    records(&app).put("claim/1", None, &row(1, 1, "1"));
    // A privilege is revoked while a connection is open.
    let store = records(&app);
    assert!(store.read("claim/1").is_ok());
    server.psql("REVOKE UPDATE ON getid_record FROM app");
    let error = store.write("claim/1", Some(stamp(1, 1)), &row(1, 2, "2")).unwrap_err();
    assert!(
        matches!(&error, RecordStoreError::Refused(message) if message.contains("GRANT SELECT, INSERT, UPDATE ON"))
    );
    // The table is dropped.
    let store = records(&server.url());
    assert!(store.read("claim/1").is_ok());
    server.psql("DROP TABLE getid_record");
    let error = store.read("claim/1").unwrap_err();
    assert!(
        matches!(&error, RecordStoreError::Refused(message) if message.contains("getid claim schema")),
        "{error:?}"
    );
    server.psql("CREATE TABLE getid_record (record_key text PRIMARY KEY)");
    assert_refused(&server.url(), &["prints getid_record as they must be"]);
}

fn postgres_becomes_a_standby(server: &mut PostgresServer) {
    let store = records(&server.url());
    store.put("claim/1", None, &row(1, 1, "1"));
    server.stop_immediate();
    server.start_as_standby();
    assert_refused(&server.url(), &["is a standby (pg_is_in_recovery)", "name the primary"]);
    eventually("the refusal", || matches!(store.read("claim/1"), Err(RecordStoreError::Refused(_))));
}

fn a_replica_that_no_commit_waits_for_is_warned_of(server: &mut PostgresServer) {
    let info = || records(&server.url()).info().unwrap();
    assert_eq!(info().warnings, [""; 0]);
    let mut replica = server.replica();
    eventually("a warning", || info().warnings.iter().any(|warning| warning.contains("it has 1 replica, and")));
    replica.kill().unwrap();
    replica.wait().unwrap();
}

#[test]
#[ignore = "needs postgresql"]
fn weak_settings_of_postgres_are_warned_of() {
    let server = PostgresServer::start(&["fsync = off", "synchronous_commit = off"]);
    let store = records(&server.url());
    let info = store.info().unwrap();
    assert!(info.product.starts_with("PostgreSQL "), "{info:?}");
    assert!(info.warnings.iter().any(|warning| warning.starts_with("fsync is off")), "{info:?}");
    assert_eq!(info.warnings.len(), 1, "synchronous_commit is set to on: {info:?}");
    server.psql("ALTER TABLE getid_record SET UNLOGGED");
    let warnings = records(&server.url()).info().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("is not logged")), "{warnings:?}");
    server.psql("ALTER SYSTEM SET default_transaction_read_only = on; SELECT pg_reload_conf()");
    store.put("claim/1", None, &row(1, 1, "our sessions may write nevertheless"));
}
