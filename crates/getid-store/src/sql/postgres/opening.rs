//! Setup and checks of a new connection: the server's version, settings that may lose commits, and whether the tables
//! exist and may be used.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row as SqlRow};

use super::{failures, statements};
use crate::sql::{StoreError, StoreInfo, check_pinned};
use getid_text::printable::printable_up_to;
use getid_text::store_url::ServerAddress;

/// First version with `MATERIALIZED`, as `server_version_num`.
const VERSION_MIN: i32 = 120_000;

/// Properties of an existing table.
struct TableInfo {
    name: String,
    persistence: String,
    may_read: bool,
    may_write: bool,
    may_insert: bool,
}

/// Tables of sequences.
const TABLES: [&str; 4] = ["getid_store", "getid_sequence", "getid_beat", "getid_generator"];

/// Tables that earlier builds lacked.
const ADDED: [&str; 2] = ["getid_beat", "getid_generator"];

pub(super) async fn open(client: &Client, address: &ServerAddress) -> Result<StoreInfo, StoreError> {
    client.batch_execute(statements::SETTINGS).await.map_err(|error| failures::of_statement(&error))?;
    let mut info = server(client, address).await?;
    let mut tables = tables(client).await?;
    let lacks = |name: &&&str| tables.iter().all(|table| table.name != **name);
    let missing = TABLES.iter().filter(lacks).collect::<Vec<_>>();
    // A table that was lost is not created again: its values would begin at their starts.
    if tables.is_empty() || !missing.is_empty() && missing.iter().all(|name| ADDED.contains(name)) {
        let has_store = tables.iter().any(|table| table.name == "getid_store");
        let found = if has_store && address.uuid.is_some() { uuid(client).await? } else { String::new() };
        check_pinned(address, &found)?;
        create_tables(client, address).await?;
        tables = self::tables(client).await?;
    }
    check(&tables, address)?;
    for table in tables.iter().filter(|table| table.persistence != "p") {
        info.warnings.push(format!(
            "the table {0} is not logged: a crash of the database empties it; ALTER TABLE {0} SET LOGGED",
            table.name
        ));
    }
    info.uuid = uuid(client).await?;
    check_pinned(address, &info.uuid)?;
    Ok(info)
}

/// Returns facts about the server. A server that cannot be written is refused.
pub(super) async fn server(client: &Client, address: &ServerAddress) -> Result<StoreInfo, StoreError> {
    let row = first(client, statements::SERVER).await?;
    let version: String = get(&row, 1)?;
    let version = printable_up_to(&version, 40);
    if get::<i32>(&row, 0)? < VERSION_MIN {
        return refused(format!("{} is version {version}, must be 12 or newer", failures::place(address)));
    }
    if get::<bool>(&row, 2)? {
        return refused(format!(
            "{} is a standby (pg_is_in_recovery), which cannot be written: name the primary",
            failures::place(address)
        ));
    }
    let mut warnings = Vec::new();
    let mut weak = |setting: &str, index: usize, what: &str| {
        let is_off = get::<String>(&row, index)? == "off";
        if is_off {
            warnings.push(format!("{setting} is off: {what}; set {setting} = on in postgresql.conf"));
        }
        Ok::<(), StoreError>(())
    };
    weak("fsync", 3, "a power failure of the database may lose commits, or destroy it")?;
    weak("full_page_writes", 4, "a power failure of the database may destroy it")?;
    let commit: String = get(&row, 6)?;
    if !["on", "remote_apply"].contains(&&*commit) {
        let commit = printable_up_to(&commit, 40);
        warnings.push(format!(
            "synchronous_commit stays {commit} though it was set to on: a crash of the database may lose commits"
        ));
    }
    let unix_ms = get(&row, 5)?;
    Ok(StoreInfo { product: format!("PostgreSQL {version}"), uuid: String::new(), unix_ms, warnings })
}

async fn tables(client: &Client) -> Result<Vec<TableInfo>, StoreError> {
    let rows = client.query_typed(statements::TABLES, &[]).await.map_err(|error| failures::of_statement(&error))?;
    let found = |row: &SqlRow| {
        Ok(TableInfo {
            name: get(row, 0)?,
            persistence: get(row, 1)?,
            may_read: get(row, 2)?,
            may_write: get(row, 3)?,
            may_insert: get(row, 4)?,
        })
    };
    rows.iter().map(found).collect()
}

/// Creates the missing tables, in one transaction.
async fn create_tables(client: &Client, address: &ServerAddress) -> Result<(), StoreError> {
    let script = format!("BEGIN; {}; {} COMMIT", statements::SCHEMA_LOCK, statements::SCHEMA);
    let Err(error) = client.batch_execute(&script).await else { return Ok(()) };
    match failures::of_statement(&error) {
        StoreError::Refused(message) => refused(format!(
            "the database '{}' lacks a table of getid_beat, getid_generator, getid_sequence and getid_store, and '{}' \
             may not create it: {message}; let its owner run what 'getid sequence schema --store URL' prints",
            address.database, address.user
        )),
        unknown @ StoreError::Unknown(_) => Err(unknown),
    }
}

fn check(tables: &[TableInfo], address: &ServerAddress) -> Result<(), StoreError> {
    let ServerAddress { database, user, .. } = address;
    for name in TABLES {
        let Some(table) = tables.iter().find(|table| table.name == name) else {
            return refused(format!(
                "the database '{database}' has no table {name}, though it has others: put it back from a \
                 backup, or, if no value of it was ever given, run what 'getid sequence schema --store URL' prints"
            ));
        };
        // A server inserts its own row. The other tables need no INSERT where no sequence and no period is created.
        let may_insert = table.may_insert || name != "getid_beat";
        let rights = [(table.may_read, "SELECT"), (table.may_write, "UPDATE"), (may_insert, "INSERT")];
        if let Some((_, right)) = rights.into_iter().find(|(may, _)| !may) {
            return refused(format!(
                "'{user}' may not {right} the table {name} of the database '{database}': its owner may GRANT SELECT, \
                 INSERT, UPDATE ON getid_beat, getid_generator, getid_sequence, getid_store TO \"{user}\""
            ));
        }
    }
    Ok(())
}

async fn uuid(client: &Client) -> Result<String, StoreError> {
    let rows = client.query_typed(statements::STORE, &[]).await.map_err(|error| failures::of_statement(&error))?;
    match rows.first() {
        Some(row) => get(row, 0),
        None => refused(
            "the table getid_store has no row: run the INSERT that 'getid sequence schema --store URL' prints"
                .to_owned(),
        ),
    }
}

async fn first(client: &Client, sql: &str) -> Result<SqlRow, StoreError> {
    let none: &[(&(dyn tokio_postgres::types::ToSql + Sync), Type)] = &[];
    client.query_typed_one(sql, none).await.map_err(|error| failures::of_statement(&error))
}

fn refused<T>(what: String) -> Result<T, StoreError> {
    Err(StoreError::Refused(what))
}

/// Returns a column of a row. The statement has changed nothing, so its failure has no consequences.
fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a SqlRow, index: usize) -> Result<T, StoreError> {
    row.try_get(index)
        .map_err(|error| StoreError::Refused(format!("the answer of the database has no {index}: {error}")))
}
