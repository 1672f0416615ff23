//! What MySQL adds, tried with a real MariaDB: its settings, its rights and its errors.

use getid::records::RecordStoreError;

use super::{Shared, check_faults, records, says};
use crate::contract::{check_all, row, stamp};
use crate::support::backend::Backend as _;
use crate::support::eventually;
use crate::support::mariadb::MariadbServer;

/// Where statements are replicated as they are, another isolation is set.
#[test]
#[ignore = "needs mariadb"]
fn mysql_that_logs_statements_keeps_the_contract() {
    let server = MariadbServer::start(&["--log-bin=bin", "--binlog-format=STATEMENT", "--server-id=1"]);
    check_all(&Shared::new(&server));
}

#[test]
#[ignore = "needs mariadb"]
fn faults_and_errors_of_mysql() {
    let mut server = MariadbServer::start(&[]);
    check_faults(&mut server);
    for scenario in [what_mysql_refuses_has_a_remedy, mysql_becomes_a_replica] {
        server.clear();
        scenario(&mut server);
    }
}

fn what_mysql_refuses_has_a_remedy(server: &mut MariadbServer) {
    server.sql("CREATE USER app@localhost IDENTIFIED BY 'app-secret'; GRANT SELECT ON ids.* TO app@localhost");
    let app = server.url_of("app:app-secret", "ids", "");
    says(&app, &["the table getid_record is missing", "'app' cannot make it", "`getid claim schema --store 'mysql://"]);
    says(&server.url_of("app:wrong-secret", "ids", ""), &["does not let 'app' in"]);
    says(&server.url_of("app:app-secret", "absent", ""), &["absent", "GRANT SELECT, INSERT, UPDATE, CREATE ON"]);
    // What is printed is enough.
    server.sql(&records(&server.url()).0.schema());
    says(&app, &["UPDATE command denied", "GRANT SELECT, INSERT, UPDATE ON `ids`.* TO 'app'"]);
    server.sql("GRANT UPDATE ON ids.* TO app@localhost");
    says(&app, &["INSERT command denied", "GRANT SELECT, INSERT, UPDATE ON `ids`.* TO 'app'"]);
    server.sql("GRANT INSERT ON ids.* TO app@localhost");
    let store = records(&app);
    store.put("claim/1", None, &row(1, 1, "1"));
    // The table goes away, and comes back as somebody else made it.
    server.sql("DROP TABLE getid_record");
    let error = store.read("claim/1").unwrap_err();
    assert!(matches!(&error, RecordStoreError::Refused(said) if said.contains("getid claim schema")), "{error:?}");
    server.sql("CREATE TABLE getid_record (record_key VARCHAR(200) PRIMARY KEY)");
    says(&app, &["prints it as it must be"]);
    let schema = records(&server.url()).0.schema();
    server.sql(&format!("DROP TABLE getid_record; {}", schema.replacen("ascii_bin", "ascii_general_ci", 1)));
    says(&app, &["compares by ascii_general_ci, must compare byte for byte"]);
}

/// A server that takes no writes any more is named so, also by a user whom that does not stop.
fn mysql_becomes_a_replica(server: &mut MariadbServer) {
    server.sql("GRANT ALL ON *.* TO getid@localhost");
    let store = records(&server.url());
    store.put("claim/1", None, &row(1, 1, "1"));
    server.sql("SET GLOBAL read_only = 1");
    let error = store.write("claim/1", Some(stamp(1, 1)), &row(1, 2, "2")).unwrap_err();
    assert!(
        matches!(&error, RecordStoreError::Unknown(said) if said.contains("takes no writes any more")),
        "{error:?}"
    );
    let error = store.read("claim/1").unwrap_err();
    assert!(matches!(&error, RecordStoreError::Refused(said) if said.contains("has read_only on")), "{error:?}");
    server.sql("SET GLOBAL read_only = 0");
    eventually("an answer", || store.read("claim/1").is_ok());
    server.sql("SET GLOBAL read_only = 1");
    let error = store.read("claim/1").unwrap_err();
    assert!(matches!(error, RecordStoreError::Refused(_)), "nothing is read of a replica: {error:?}");
}

#[test]
#[ignore = "needs mariadb"]
fn weak_settings_of_mysql_are_warned_of() {
    let server = MariadbServer::start(&["--innodb-flush-log-at-trx-commit=2", "--max-allowed-packet=1M"]);
    let store = records(&server.url());
    let about = store.about().unwrap();
    assert!(about.product.starts_with("MariaDB "), "{about:?}");
    // What tells of replicas is there under these names.
    for name in ["Slaves_connected", "Rpl_semi_sync_master_status"] {
        assert_ne!(server.sql(&format!("SHOW GLOBAL STATUS LIKE '{name}'")), "", "{name}");
    }
    let expected = ["may take back records that were written; set it to 1", "max_allowed_packet is 1048576 bytes"];
    for expected in expected {
        assert!(about.warnings.iter().any(|warning| warning.contains(expected)), "{about:?}");
    }
    let error = store.write("cluster", None, &row(1, 1, &"x".repeat(512 * 1024))).unwrap_err();
    assert!(matches!(&error, RecordStoreError::Refused(said) if said.contains("set it to 16M")), "{error:?}");
    store.put("cluster", None, &row(1, 1, &"x".repeat(256 * 1024)));
    server.sql("ALTER TABLE getid_record ENGINE=MyISAM");
    let warnings = records(&server.url()).about().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("is a table of MyISAM")), "{warnings:?}");
}
