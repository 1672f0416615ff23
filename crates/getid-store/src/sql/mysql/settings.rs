//! Settings of a session, and facts about the server: its version, its clock, and settings by which it may lose a
//! commit.

use std::collections::BTreeMap;

use mysql_async::Error;

use super::errors::server_message;
use super::link::MysqlLink;
use crate::sql::packet::{Dialect as _, Link as _, Packet};
use crate::sql::purpose::TablePurpose;
use crate::sql::{StoreError, StoreInfo};

/// Settings of the server that are read. A server omits those that it lacks.
const READ: &str = "'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'binlog_format', 'innodb_doublewrite', \
                    'read_only', 'super_read_only', 'innodb_read_only', 'innodb_lock_wait_timeout'";

/// Settings that the statements rely on, whatever the server's defaults, or its `init_connect`.
const DEFAULTS: [&str; 3] = [
    // Division by zero is NULL, for conditions on rows that were edited by hand.
    "SET SESSION autocommit = 1, completion_type = 0, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
     time_zone = '+00:00', innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, sql_safe_updates = 0",
    // Each answer is complete and in its order. `max_join_size` sets `sql_big_selects`, so it comes first.
    "SET SESSION sql_select_limit = 18446744073709551615, max_join_size = 18446744073709551615, \
     sql_big_selects = 1, sql_auto_is_null = 0, max_sort_length = 1024",
    "SET NAMES utf8mb4",
];

/// Sets the session, and reads facts about the server. A server that takes no writes is refused.
///
/// The session is set first: defaults of the server can break the other statements.
pub(super) async fn of(link: &mut MysqlLink) -> Result<StoreInfo, StoreError> {
    let mut packet = Packet::new();
    for statement in DEFAULTS {
        packet.add(statement);
    }
    let version = packet.add(format!("SELECT VERSION(), {}", MysqlLink::NOW));
    let now = link.run(packet).await?.swap_remove(version);
    let (version, now) = (now.text().unwrap_or_default(), now.rows.first().and_then(|row| row.number(1)));
    let is_mariadb = version.to_ascii_lowercase().contains("mariadb");
    let time_limit = if is_mariadb {
        // In seconds, for any statement.
        "SET SESSION max_statement_time = 2"
    } else {
        // In milliseconds, for SELECT only.
        "SET SESSION max_execution_time = 2000"
    };
    let mut packet = Packet::of(time_limit);
    packet.add(format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({READ})"));
    let done = link.run(packet).await?;
    let mut settings = BTreeMap::new();
    for row in &done[1].rows {
        let (name, value) = (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
        settings.insert(name, value.to_ascii_uppercase());
    }
    let is = |name: &str, value: &str| settings.get(name).is_some_and(|found| found == value);
    for name in ["innodb_read_only", "super_read_only", "read_only"] {
        // MariaDB has words for `read_only`: every value but OFF is on.
        if settings.get(name).is_some_and(|value| value != "OFF" && value != "0") {
            return Err(StoreError::Refused(format!(
                "{} has {name} on, so it accepts no writes; it may be a replica: name the primary",
                link.context.place
            )));
        }
    }
    // STATEMENT cannot log reads of READ COMMITTED, and the server refuses them then.
    let logs_statements = is("binlog_format", "STATEMENT") && is("log_bin", "ON");
    let isolation = if logs_statements { "REPEATABLE READ" } else { "READ COMMITTED" };
    link.run(Packet::of(format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}, READ WRITE"))).await?;
    let product = if is_mariadb { "MariaDB" } else { "MySQL" };
    let mut info = StoreInfo {
        product: format!("{product} {}", version.split('-').next().unwrap_or_default()),
        uuid: String::new(),
        unix_ms: now.unwrap_or(0),
        warnings: warnings(&settings, link.context.purpose),
    };
    if is_replica(link).await? {
        info.warnings.push(
            "it is a replica of another server, and getid's writes to it are lost when it is set up again: name the \
             primary (of two that replicate each other, one only)"
                .to_owned(),
        );
    }
    Ok(info)
}

/// Returns the settings by which this server may lose a commit, each with its remedy.
fn warnings(settings: &BTreeMap<String, String>, purpose: TablePurpose) -> Vec<String> {
    let lost = purpose.what_is_lost();
    let value = |name: &str| settings.get(name).map_or("", String::as_str);
    let mut warnings = Vec::new();
    let flush = value("innodb_flush_log_at_trx_commit");
    if matches!(flush, "0" | "2") {
        warnings.push(format!(
            "innodb_flush_log_at_trx_commit is {flush}: a crash of the machine may lose {lost}; set it to 1"
        ));
    }
    let sync = value("sync_binlog");
    if value("log_bin") == "ON" && sync != "1" && !sync.is_empty() {
        warnings.push(format!(
            "sync_binlog is {sync} with log_bin: a crash of the machine may lose {lost}, here or on its \
             replicas; set it to 1"
        ));
    }
    if matches!(value("innodb_doublewrite"), "OFF" | "0" | "DETECT_ONLY") {
        warnings.push(
            "innodb_doublewrite is off: a crash of the machine may leave a page half written, unless the file system \
             writes 16 KiB at once; set it to ON"
                .to_owned(),
        );
    }
    warnings
}

/// Returns true if the server is a replica and takes writes nevertheless. Without the permission to see that, it
/// returns false.
async fn is_replica(link: &mut MysqlLink) -> Result<bool, StoreError> {
    for statement in ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"] {
        match link.run_raw(&[statement.to_owned()]).await {
            Ok(done) => return Ok(!done[0].rows.is_empty()),
            // The server does not know the word, or the user has no permission.
            Err((_, Error::Server(_))) => {}
            Err((_, error)) => return Err(link.context.failed(&error, false)),
        }
    }
    Ok(false)
}

/// Tables into which every server inserts rows.
const OWN_TABLES: [&str; 2] = ["getid_beat", "getid_high"];

/// Checks that tables can be written, and their engines. Each table has a column and a condition that no row meets.
pub(super) async fn check_tables(link: &mut MysqlLink, tables: &[(&str, &str, &str)]) -> Result<(), StoreError> {
    let names: Vec<String> = tables.iter().map(|(table, ..)| format!("'{table}'")).collect();
    let mut packet = Packet::of(format!(
        "SELECT table_name, engine FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name IN ({}) ORDER BY table_name",
        names.join(", ")
    ));
    for (table, column, condition) in tables {
        // The statement changes nothing, and fails without the permission.
        packet.add(format!("UPDATE {table} SET {column} = {column} WHERE {condition}"));
        if OWN_TABLES.contains(table) {
            packet.add(format!("INSERT INTO {table} SELECT * FROM {table} WHERE {condition}"));
        }
    }
    let done = link.run(packet).await?;
    for row in &done[0].rows {
        let (table, engine) = (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
        if !engine.eq_ignore_ascii_case("InnoDB") {
            link.info.warnings.push(format!(
                "{table} is a table of {engine}, which has no transactions, and a crash may lose {}: ALTER TABLE \
                 {table} ENGINE=InnoDB",
                link.context.purpose.what_is_lost()
            ));
        }
    }
    if tables[0].0 == "getid_store" {
        check_create_permission(link).await?;
    }
    Ok(())
}

/// Adds a warning if the user may not insert rows: then sequences and periods of serial numbers cannot be created.
async fn check_create_permission(link: &mut MysqlLink) -> Result<(), StoreError> {
    let inserts = [
        "INSERT INTO getid_sequence SELECT * FROM getid_sequence WHERE name = '' AND series = '' AND period = ''",
        "INSERT INTO getid_generator SELECT * FROM getid_generator WHERE name = ''",
    ];
    match link.run_raw(&inserts.map(str::to_owned)).await {
        Ok(_) => Ok(()),
        Err((_, Error::Server(error))) if error.code == 1142 => {
            let (user, database) = (&link.context.user, &link.context.database);
            link.info.warnings.push(format!(
                "no sequence, and no period of a serial number, can be created: {}; GRANT INSERT ON `{database}`.* TO \
                 '{user}'",
                server_message(&error)
            ));
            Ok(())
        }
        Err((_, error)) => Err(link.context.failed(&error, false)),
    }
}
