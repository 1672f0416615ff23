//! Which store an address means.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Store, Table};
use crate::records::RecordStore;
use crate::text::store_url::{ServerAddress, StoreKind, StoreUrl};

/// The store of this address. Nothing is opened yet.
///
/// `dir` is where a SQLite file is that is named without a folder; the one of an address without a path is
/// `sequences-<server-id>.sqlite`.
///
/// # Errors
///
/// A sentence: this program was built without such stores, or they have no such tables.
pub fn open(url: &StoreUrl, table: Table, dir: &Path, server_id: u32) -> Result<Box<dyn Store>, String> {
    match url.kind() {
        StoreKind::Sqlite { path } => {
            if table != Table::Native {
                let word = if table == Table::Leaf { "leaf" } else { "tinyid" };
                return Err(format!(
                    "sequence-table {word} is a table in MySQL; '{}' has getid's own (sequence-table native)",
                    url.shown()
                ));
            }
            let path = match path {
                Some(path) => dir.join(path),
                None => dir.join(format!("sequences-{server_id}.sqlite")),
            };
            sqlite(path, url)
        }
        StoreKind::Mysql(address) => mysql(address, table, url),
        StoreKind::Postgres(address) => postgres(address, table, url),
        StoreKind::Etcd(_) => Err(format!("'{}' is etcd, which keeps claims and no sequences", url.shown())),
    }
}

/// The records that servers share in the database of this address. Nothing is opened yet; each call ends within
/// `deadline`.
///
/// In `dir` is the file of `sqlite:`, which is `records.sqlite`, or `PATH.records` beside the sequences in `PATH`.
///
/// # Errors
///
/// A sentence: this program was built without such stores, or there is no thread to be had for it.
pub fn open_records(url: &StoreUrl, dir: &Path, deadline: Duration) -> Result<Arc<dyn RecordStore>, String> {
    if let StoreKind::Mysql(address) | StoreKind::Postgres(address) = url.kind()
        && address.uuid.is_some()
    {
        return Err(format!("'{}' has uuid=, which only the address of a sequence-store has", url.shown()));
    }
    match url.kind() {
        StoreKind::Sqlite { path } => sqlite_records(path.as_deref(), dir, url, deadline),
        StoreKind::Mysql(address) => mysql_records(address, url, deadline),
        StoreKind::Postgres(address) => postgres_records(address, url, deadline),
        StoreKind::Etcd(_) => Err(format!("'{}' is etcd, and no SQL database", url.shown())),
    }
}

#[cfg(feature = "sqlite")]
fn kept(server: Box<dyn super::records::RecordServer>, deadline: Duration) -> Result<Arc<dyn RecordStore>, String> {
    Ok(Arc::new(super::records::SqlRecords::new(server, deadline)?))
}

#[cfg(feature = "sqlite")]
fn sqlite_records(
    path: Option<&Path>,
    dir: &Path,
    _: &StoreUrl,
    deadline: Duration,
) -> Result<Arc<dyn RecordStore>, String> {
    kept(Box::new(super::sqlite::SqliteRecords::new(path, dir)), deadline)
}

#[cfg(not(feature = "sqlite"))]
fn sqlite_records(_: Option<&Path>, _: &Path, url: &StoreUrl, _: Duration) -> Result<Arc<dyn RecordStore>, String> {
    Err(not_built(url, "sqlite"))
}

#[cfg(feature = "mysql")]
fn mysql_records(address: &ServerAddress, url: &StoreUrl, deadline: Duration) -> Result<Arc<dyn RecordStore>, String> {
    kept(Box::new(super::mysql::MysqlRecords::new(address, url.shown())), deadline)
}

#[cfg(not(feature = "mysql"))]
fn mysql_records(_: &ServerAddress, url: &StoreUrl, _: Duration) -> Result<Arc<dyn RecordStore>, String> {
    Err(not_built(url, "mysql"))
}

#[cfg(feature = "postgres")]
fn postgres_records(
    address: &ServerAddress,
    url: &StoreUrl,
    deadline: Duration,
) -> Result<Arc<dyn RecordStore>, String> {
    kept(Box::new(super::postgres::PostgresRecords::new(address, url.shown())?), deadline)
}

#[cfg(not(feature = "postgres"))]
fn postgres_records(_: &ServerAddress, url: &StoreUrl, _: Duration) -> Result<Arc<dyn RecordStore>, String> {
    Err(not_built(url, "postgres"))
}

#[cfg(feature = "sqlite")]
#[expect(clippy::unnecessary_wraps, reason = "the other one fails")]
fn sqlite(path: std::path::PathBuf, _: &StoreUrl) -> Result<Box<dyn Store>, String> {
    Ok(Box::new(super::sqlite::SqliteStore::new(path)))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: std::path::PathBuf, url: &StoreUrl) -> Result<Box<dyn Store>, String> {
    Err(not_built(url, "sqlite"))
}

#[cfg(feature = "mysql")]
#[expect(clippy::unnecessary_wraps, reason = "the other one fails")]
fn mysql(address: &ServerAddress, table: Table, url: &StoreUrl) -> Result<Box<dyn Store>, String> {
    Ok(Box::new(super::mysql::Mysql::new(address, url.shown(), table)))
}

#[cfg(not(feature = "mysql"))]
fn mysql(_: &ServerAddress, _: Table, url: &StoreUrl) -> Result<Box<dyn Store>, String> {
    Err(not_built(url, "mysql"))
}

#[cfg(feature = "postgres")]
fn postgres(address: &ServerAddress, table: Table, url: &StoreUrl) -> Result<Box<dyn Store>, String> {
    Ok(Box::new(super::postgres::Postgres::new(address, url.shown(), table)?))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &ServerAddress, _: Table, url: &StoreUrl) -> Result<Box<dyn Store>, String> {
    Err(not_built(url, "postgres"))
}

#[cfg(not(all(feature = "sqlite", feature = "mysql", feature = "postgres")))]
fn not_built(url: &StoreUrl, feature: &str) -> String {
    format!("'{}': this getid was built without the feature '{feature}'", url.shown())
}
