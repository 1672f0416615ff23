//! What MySQL adds, tested with a real MariaDB: its settings, its privileges and its errors.

use std::process::Command;

use getid_store::records::RecordStoreError;

use super::{Shared, assert_refused, check_faults, records};
use crate::contract::{check_all, key, row, stamp, wait};
use crate::support::backend::Backend as _;
use crate::support::eventually;
use crate::support::mariadb::MariadbServer;

/// With `binlog-format=STATEMENT` getid uses another isolation level. Default limits of sessions do not apply to
/// getid's sessions.
#[test]
#[ignore = "needs mariadb"]
fn mysql_that_logs_statements_keeps_the_contract() {
    let server = MariadbServer::start(&[
        "--log-bin=bin",
        "--binlog-format=STATEMENT",
        "--server-id=1",
        "--max-join-size=1",
        "--init-connect=SET sql_select_limit = 1",
    ]);
    check_all(&Shared::new(&server));
}

#[test]
#[ignore = "needs mariadb"]
fn faults_and_errors_of_mysql() {
    let mut server = MariadbServer::start(&[]);
    check_faults(&mut server);
    for scenario in [refusals_of_mysql_have_a_remedy, mysql_becomes_a_replica] {
        server.clear();
        scenario(&mut server);
    }
}

fn refusals_of_mysql_have_a_remedy(server: &mut MariadbServer) {
    server.sql("CREATE USER app@localhost IDENTIFIED BY 'app-secret'; GRANT SELECT ON ids.* TO app@localhost");
    let app = server.url_of("app:app-secret", "ids", "");
    assert_refused(
        &app,
        &["the table getid_record is missing", "'app' cannot create it", "`getid claim schema --store 'mysql://"],
    );
    assert_refused(&server.url_of("app:wrong-secret", "ids", ""), &["rejects the login of 'app'"]);
    assert_refused(
        &server.url_of("app:app-secret", "absent", ""),
        &["absent", "GRANT SELECT, INSERT, UPDATE, CREATE ON"],
    );
    // The printed statements suffice.
    server.sql(&records(&server.url()).0.schema());
    assert_refused(&app, &["UPDATE command denied", "GRANT SELECT, INSERT, UPDATE ON `ids`.* TO 'app'"]);
    server.sql("GRANT UPDATE ON ids.* TO app@localhost");
    assert_refused(&app, &["INSERT command denied", "GRANT SELECT, INSERT, UPDATE ON `ids`.* TO 'app'"]);
    server.sql("GRANT INSERT ON ids.* TO app@localhost");
    let store = records(&app);
    store.put("claim/1", None, &row(1, 1, "1"));
    // The table is dropped, and another program creates it with other columns.
    server.sql("DROP TABLE getid_record");
    let error = store.read("claim/1").unwrap_err();
    assert!(
        matches!(&error, RecordStoreError::Refused(message) if message.contains("getid claim schema")),
        "{error:?}"
    );
    server.sql("CREATE TABLE getid_record (record_key VARCHAR(200) PRIMARY KEY)");
    assert_refused(&app, &["prints it as it must be"]);
    let schema = records(&server.url()).0.schema();
    server.sql(&format!("DROP TABLE getid_record; {}", schema.replacen("ascii_bin", "ascii_general_ci", 1)));
    assert_refused(&app, &["compares by ascii_general_ci, must compare byte for byte"]);
}

/// A server that becomes read-only is refused by name, also if the user's privileges override `read_only`.
fn mysql_becomes_a_replica(server: &mut MariadbServer) {
    server.sql("GRANT ALL ON *.* TO getid@localhost");
    let store = records(&server.url());
    store.put("claim/1", None, &row(1, 1, "1"));
    server.sql("SET GLOBAL read_only = 1");
    let error = store.write("claim/1", Some(stamp(1, 1)), &row(1, 2, "2")).unwrap_err();
    assert!(
        matches!(&error, RecordStoreError::Unknown(message) if message.contains("accepts no writes any more")),
        "{error:?}"
    );
    let error = store.read("claim/1").unwrap_err();
    assert!(matches!(&error, RecordStoreError::Refused(message) if message.contains("has read_only on")), "{error:?}");
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
    let info = store.info().unwrap();
    assert!(info.product.starts_with("MariaDB "), "{info:?}");
    // Variables that report replicas have these names.
    for name in ["Slaves_connected", "Rpl_semi_sync_master_status"] {
        assert_ne!(server.sql(&format!("SHOW GLOBAL STATUS LIKE '{name}'")), "", "{name}");
    }
    let expected = ["may lose records that were written; set it to 1", "max_allowed_packet is 1048576 bytes"];
    for expected in expected {
        assert!(info.warnings.iter().any(|warning| warning.contains(expected)), "{info:?}");
    }
    let error = store.write("cluster", None, &row(1, 1, &"x".repeat(512 * 1024))).unwrap_err();
    assert!(matches!(&error, RecordStoreError::Refused(message) if message.contains("set it to 16M")), "{error:?}");
    store.put("cluster", None, &row(1, 1, &"x".repeat(256 * 1024)));
    server.sql("ALTER TABLE getid_record ENGINE=MyISAM");
    let warnings = records(&server.url()).info().unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("is a table of MyISAM")), "{warnings:?}");
}

#[test]
#[ignore = "needs mariadb"]
fn the_table_rejects_rows_that_are_not_records() {
    let server = MariadbServer::start(&[]);
    records(&server.url()).put("claim/1", None, &row(1, 1, "1"));
    for set in ["beat = 0", "writer = 'x'", "writer = UPPER('abcdef78901234567890123456789012')", "record_key = ''"] {
        let refused = server.try_sql(&format!("UPDATE getid_record SET {set}")).unwrap_err();
        assert!(refused.contains("CONSTRAINT"), "{set}: {refused}");
    }
    // A table without the checks, as an earlier getid created it, is used unchanged.
    let schema = records(&server.url()).0.schema();
    let old: String = schema
        .lines()
        .map(|line| line.find(" CHECK").map_or(line.to_owned(), |at| format!("{},", &line[..at])))
        .collect();
    server.sql(&format!("DROP TABLE getid_record; {old}"));
    let store = records(&server.url());
    store.put("claim/1", None, &row(1, 1, "1"));
    // MySQL ignores blanks at the end when it compares.
    server.sql("UPDATE getid_record SET record_key = 'claim/1 '");
    let bad = store.bad("claim/1");
    assert_eq!(store.listed("claim/", "", 10).bad[0].server_id(), Some(1));
    assert_eq!(wait(store.0.mend(&key("claim/1"), &bad, &row(2, 2, "2"))), Ok(true));
    assert_eq!(store.read("claim/1"), Ok(Some(row(2, 2, "2"))));
}

/// The command that a start prints works as printed, in a shell that has only the file named in it.
#[test]
#[ignore = "needs mariadb"]
fn the_printed_command_suffices() {
    let server = MariadbServer::start(&[]);
    server.sql("CREATE USER app@localhost IDENTIFIED BY 'app-secret'; GRANT ALL ON ids.* TO app@localhost");
    let (url, folder) = (server.url_of("app:app-secret", "ids", ""), crate::support::folder());
    std::fs::write(folder.path().join("PASSWORD_FILE"), "app-secret\n").unwrap();
    let getid = |words: &[&str]| {
        let mut getid = Command::new(env!("CARGO_BIN_EXE_getid"));
        getid.args(words).current_dir(folder.path()).env("GETID_CLAIM_STORE", &url).env("GETID_ID_MACHINE_CLAIM", "no");
        getid.envs([
            ("GETID_ID_RANGE", "5"),
            ("GETID_SHARD_RANGE", "6"),
            ("GETID_DIR", folder.path().to_str().unwrap()),
        ]);
        getid.output().unwrap()
    };
    let made = getid(&["cluster", "init", "--new", "20,21"]);
    assert!(made.status.success(), "{made:?}");
    server.sql("ALTER TABLE getid_record MODIFY beat BIGINT NOT NULL");
    for lost in ["DELETE FROM getid_record", "UPDATE getid_record SET beat = 0", "UPDATE getid_record SET text = 'x'"] {
        server.sql(&format!("{lost} WHERE record_key = 'claim/20'"));
        let refused = getid(&["serve", "--server-id", "20", "--port", "0", "--unixsocket", "socket"]);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned() + &String::from_utf8_lossy(&refused.stdout);
        assert!(
            !refused.status.success() && !message.contains("another claim-store") && !message.contains("secret"),
            "{message}"
        );
        let (_, command) = message.split_once("`getid state advance").unwrap_or_else(|| panic!("{lost}: {message}"));
        let (command, _) = command.split_once('`').unwrap();
        let command = command.replace("--past-id ID", "--past-id 1");
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("\"$GETID\" state advance{command}")]).env_clear().current_dir(folder.path());
        let output = shell.env("GETID", env!("CARGO_BIN_EXE_getid")).env("PATH", "/usr/bin:/bin").output().unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
        let shown = getid(&["claim", "show", "20"]);
        assert!(String::from_utf8_lossy(&shown.stdout).contains("id-range 5 shard-range"), "{shown:?}");
    }
}
