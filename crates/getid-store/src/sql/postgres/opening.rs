//! Setup and checks of a new connection: the server's version, settings that may lose commits, and whether the tables
//! exist and may be used.

use super::link::PostgresLink;
use super::{failures, statements};
use crate::sql::native::COLUMNS;
use crate::sql::packet::{Link as _, Packet, SqlRow};
use crate::sql::purpose::TablePurpose;
use crate::sql::{StoreError, StoreInfo, check_pinned};
use getid_text::printable::printable_up_to;
use getid_text::store_url::ServerAddress;

/// First version with `MATERIALIZED`, as `server_version_num`.
const VERSION_MIN: i64 = 120_000;

/// Properties of an existing table.
pub(super) struct TableInfo {
    name: String,
    persistence: String,
    /// Whether the user may SELECT, INSERT and UPDATE.
    may: [bool; 3],
}

/// Tables of sequences.
const TABLES: [&str; 8] = [
    "getid_store",
    "getid_sequence",
    "getid_beat",
    "getid_generator",
    "getid_number",
    "getid_number_request",
    REQUESTS[0],
    REQUESTS[1],
];

/// Tables that are created beside existing ones.
const ADDED: [&str; 4] = ["getid_beat", "getid_generator", REQUESTS[0], REQUESTS[1]];

/// Tables of request keys. Only a request with a key needs permissions on them.
const REQUESTS: [&str; 2] = ["getid_request", "getid_request_count"];

/// Sets the session up, and checks the tables of sequences.
pub(super) async fn open(link: &mut PostgresLink, address: &ServerAddress) -> Result<(), StoreError> {
    set_up(link, address).await?;
    let mut found = tables(link, &TABLES).await?;
    let lacks = |name: &&&str| found.iter().all(|table| table.name != **name);
    let missing = TABLES.iter().filter(lacks).collect::<Vec<_>>();
    // A table that was lost is not created again: its values would begin at their starts.
    if found.is_empty() || !missing.is_empty() && missing.iter().all(|name| ADDED.contains(name)) {
        let has_store = found.iter().any(|table| table.name == "getid_store");
        let uuid = if has_store && address.uuid.is_some() { uuid(link).await? } else { String::new() };
        check_pinned(address, &uuid)?;
        let lacks = "lacks a table of getid_beat, getid_generator, getid_number, getid_number_request, getid_request, \
                     getid_request_count, getid_sequence and getid_store";
        create_tables(link, address, statements::SCHEMA, lacks, TablePurpose::Sequences).await?;
        found = tables(link, &TABLES).await?;
    }
    for name in TABLES {
        let Some(table) = found.iter_mut().find(|table| table.name == name) else {
            return refused(format!(
                "the database '{}' has no table {name}, though it has others: put it back from a backup, or, if no value \
                 of it was ever given, run what 'getid sequence schema --store URL' prints",
                address.database
            ));
        };
        // A server inserts its own row. The other tables need no INSERT where no sequence and no period is created.
        table.may[1] |= name != "getid_beat";
        table.may = table.may.map(|may| may || REQUESTS.contains(&name));
        check(link, table, address, TablePurpose::Sequences)?;
    }
    link.info.uuid = uuid(link).await?;
    check_pinned(address, &link.info.uuid)
}

/// Sets the session up, and reads facts about the server. A server that cannot be written is refused.
pub(super) async fn set_up(link: &mut PostgresLink, address: &ServerAddress) -> Result<(), StoreError> {
    link.run_script(statements::SETTINGS).await?;
    let row = first(link, statements::SERVER).await?;
    let text = |at| printable_up_to(&row.text(at).unwrap_or_default(), 40);
    let version = text(1);
    if row.number(0).unwrap_or(0) < VERSION_MIN {
        return refused(format!("{} is version {version}, must be 12 or newer", failures::place(address)));
    }
    if text(2) != "f" {
        return refused(format!(
            "{} is a standby (pg_is_in_recovery), which cannot be written: name the primary",
            failures::place(address)
        ));
    }
    let mut warnings = Vec::new();
    for (setting, at, what) in [
        ("fsync", 3, "a power failure of the database may lose commits, or destroy it"),
        ("full_page_writes", 4, "a power failure of the database may destroy it"),
    ] {
        if text(at) == "off" {
            warnings.push(format!("{setting} is off: {what}; set {setting} = on in postgresql.conf"));
        }
    }
    let commit = text(6);
    if !["on", "remote_apply"].contains(&&*commit) {
        warnings.push(format!(
            "synchronous_commit stays {commit} though it was set to on: a crash of the database may lose commits"
        ));
    }
    let (product, unix_ms) = (format!("PostgreSQL {version}"), row.number(5).unwrap_or(0));
    link.info = StoreInfo { product, uuid: String::new(), unix_ms, warnings };
    Ok(())
}

/// Returns those of these tables that exist.
pub(super) async fn tables(link: &mut PostgresLink, names: &[&str]) -> Result<Vec<TableInfo>, StoreError> {
    let done = link.run(Packet::of(statements::tables_sql(names))).await?;
    let info = |row: &SqlRow| TableInfo {
        name: row.text(0).unwrap_or_default(),
        persistence: row.text(1).unwrap_or_default(),
        may: [2, 3, 4].map(|at| row.text(at).is_some_and(|may| may == "t")),
    };
    Ok(done[0].rows.iter().map(info).collect())
}

/// Creates missing tables, in one transaction. `lacks`: what the database lacks, in an error.
pub(super) async fn create_tables(
    link: &mut PostgresLink,
    address: &ServerAddress,
    schema: &str,
    lacks: &str,
    purpose: TablePurpose,
) -> Result<(), StoreError> {
    let script = format!("BEGIN; {}; {schema} COMMIT", statements::SCHEMA_LOCK);
    match link.run_script(&script).await {
        Err(StoreError::Refused(message)) => refused(format!(
            "the database '{}' {lacks}, and '{}' may not create it: {message}; let its owner run what '{} --store URL' \
             prints",
            address.database,
            address.user,
            purpose.schema_command()
        )),
        done => done,
    }
}

/// Checks that a table may be used, and adds a warning if a crash empties it.
pub(super) fn check(
    link: &mut PostgresLink,
    table: &TableInfo,
    address: &ServerAddress,
    purpose: TablePurpose,
) -> Result<(), StoreError> {
    let (ServerAddress { database, user, .. }, name) = (address, &table.name);
    if let Some((_, right)) = table.may.iter().zip(["SELECT", "INSERT", "UPDATE"]).find(|(may, _)| !**may) {
        return refused(format!(
            "'{user}' may not {right} the table {name} of the database '{database}': its owner may GRANT {} ON {} TO \
             \"{user}\"",
            purpose.rights(),
            purpose.tables()
        ));
    }
    if table.persistence != "p" {
        link.info.warnings.push(format!(
            "the table {name} is not logged: a crash of the database empties it; ALTER TABLE {name} SET LOGGED"
        ));
    }
    Ok(())
}

/// Returns the uuid of the store. The query names all columns of `getid_sequence`, so that a missing one is detected.
async fn uuid(link: &mut PostgresLink) -> Result<String, StoreError> {
    let mut packet = Packet::of(format!("SELECT {COLUMNS}, changed FROM getid_sequence LIMIT 0"));
    let store = packet.add("SELECT uuid FROM getid_store WHERE id = 1");
    link.run(packet).await?[store].text().ok_or_else(|| {
        StoreError::Refused(
            "the table getid_store has no row: run the INSERT that 'getid sequence schema --store URL' prints"
                .to_owned(),
        )
    })
}

/// Returns the first row of a query.
pub(super) async fn first(link: &mut PostgresLink, sql: &str) -> Result<SqlRow, StoreError> {
    let row = link.run(Packet::of(sql)).await?.swap_remove(0).rows.pop();
    row.ok_or_else(|| StoreError::Refused("the database has answered without a row".to_owned()))
}

fn refused<T>(what: String) -> Result<T, StoreError> {
    Err(StoreError::Refused(what))
}
