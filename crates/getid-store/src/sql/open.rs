//! Selects the store of an address.

use std::fs;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::open_error::OpenError;
use super::{Store, TableKind};
use crate::records::RecordStore;
use getid_text::store_url::{ServerAddress, StoreKind, StoreUrl};

/// Returns the store of this address, without opening a connection.
///
/// `dir` is the folder of a SQLite file that is named without one. An address without a path means
/// `sequences-<server-id>.sqlite`.
///
/// # Errors
///
/// Fails if this program was built without such stores, or if they have no such tables.
pub fn open(url: &StoreUrl, table: TableKind, dir: &Path, server_id: u32) -> Result<Box<dyn Store>, OpenError> {
    match url.kind() {
        StoreKind::Sqlite { path } => {
            if table != TableKind::Native {
                return Err(OpenError::NoTableInFile { shown: url.shown().to_owned(), table });
            }
            sqlite(file_in(dir, path.as_deref(), server_id), url)
        }
        StoreKind::Mysql(address) => mysql(address, table, url),
        StoreKind::Postgres(address) => postgres(address, table, url),
        StoreKind::Etcd(_) => Err(OpenError::NoSequencesInEtcd(url.shown().to_owned())),
    }
}

/// Returns the stores of these addresses, as [`open`] does.
///
/// # Errors
///
/// The errors of [`open`], or if two of them are one file. Whether two are one database is only known once they are
/// connected.
pub fn open_all(
    urls: &[StoreUrl],
    table: TableKind,
    dir: &Path,
    server_id: u32,
) -> Result<Vec<Box<dyn Store>>, OpenError> {
    let mut stores = Vec::<Box<dyn Store>>::new();
    let mut files = Vec::<Option<PathBuf>>::new();
    for url in urls {
        let store = open(url, table, dir, server_id)?;
        let file = match url.kind() {
            StoreKind::Sqlite { path } => Some(real_path(&file_in(dir, path.as_deref(), server_id))),
            _ => None,
        };
        let mut before = stores.iter().zip(&files);
        if let Some((other, _)) = before.find(|(_, found)| file.is_some() && **found == file) {
            let (shown, other) = (store.shown().to_owned(), other.shown().to_owned());
            return Err(OpenError::SameFile { shown, other });
        }
        stores.push(store);
        files.push(file);
    }
    Ok(stores)
}

fn file_in(dir: &Path, path: Option<&Path>, server_id: u32) -> PathBuf {
    path.map_or_else(|| dir.join(format!("sequences-{server_id}.sqlite")), |path| dir.join(path))
}

/// Returns the path without links and dots, as far as the file or its folder exists.
fn real_path(path: &Path) -> PathBuf {
    let in_folder = || Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?));
    let real = fs::canonicalize(path).ok().or_else(in_folder);
    real.unwrap_or_else(|| path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Returns the records that servers share in the database of this address. Nothing is opened yet; each call ends within
/// `deadline`.
///
/// The file of `sqlite:` is in `dir`: `records.sqlite`, or `PATH.records` beside the sequences in `PATH`.
///
/// # Errors
///
/// Fails if this program was built without such stores, or if no thread can be started.
pub fn open_records(url: &StoreUrl, dir: &Path, deadline: Duration) -> Result<Arc<dyn RecordStore>, OpenError> {
    if let StoreKind::Mysql(address) | StoreKind::Postgres(address) = url.kind()
        && address.uuid.is_some()
    {
        return Err(OpenError::UuidOfRecords(url.shown().to_owned()));
    }
    match url.kind() {
        StoreKind::Sqlite { path } => sqlite_records(path.as_deref(), dir, url, deadline),
        StoreKind::Mysql(address) => mysql_records(address, url, deadline),
        StoreKind::Postgres(address) => postgres_records(address, url, deadline),
        StoreKind::Etcd(_) => Err(OpenError::NotSql(url.shown().to_owned())),
    }
}

#[cfg(feature = "sqlite")]
fn sql_records(
    server: Box<dyn super::records::RecordServer>,
    deadline: Duration,
) -> Result<Arc<dyn RecordStore>, OpenError> {
    Ok(Arc::new(super::records::SqlRecords::new(server, deadline)?))
}

#[cfg(feature = "sqlite")]
fn sqlite_records(
    path: Option<&Path>,
    dir: &Path,
    _: &StoreUrl,
    deadline: Duration,
) -> Result<Arc<dyn RecordStore>, OpenError> {
    sql_records(Box::new(super::sqlite::SqliteRecords::new(path, dir)), deadline)
}

#[cfg(not(feature = "sqlite"))]
fn sqlite_records(_: Option<&Path>, _: &Path, url: &StoreUrl, _: Duration) -> Result<Arc<dyn RecordStore>, OpenError> {
    Err(not_built_error(url, "sqlite"))
}

#[cfg(feature = "mysql")]
fn mysql_records(
    address: &ServerAddress,
    url: &StoreUrl,
    deadline: Duration,
) -> Result<Arc<dyn RecordStore>, OpenError> {
    sql_records(Box::new(super::mysql::MysqlRecords::new(address, url.shown())), deadline)
}

#[cfg(not(feature = "mysql"))]
fn mysql_records(_: &ServerAddress, url: &StoreUrl, _: Duration) -> Result<Arc<dyn RecordStore>, OpenError> {
    Err(not_built_error(url, "mysql"))
}

#[cfg(feature = "postgres")]
fn postgres_records(
    address: &ServerAddress,
    url: &StoreUrl,
    deadline: Duration,
) -> Result<Arc<dyn RecordStore>, OpenError> {
    sql_records(Box::new(super::postgres::PostgresRecords::new(address, url.shown())?), deadline)
}

#[cfg(not(feature = "postgres"))]
fn postgres_records(_: &ServerAddress, url: &StoreUrl, _: Duration) -> Result<Arc<dyn RecordStore>, OpenError> {
    Err(not_built_error(url, "postgres"))
}

#[cfg(feature = "sqlite")]
#[expect(clippy::unnecessary_wraps, reason = "the variant without the feature fails")]
fn sqlite(path: std::path::PathBuf, _: &StoreUrl) -> Result<Box<dyn Store>, OpenError> {
    Ok(Box::new(super::sqlite::SqliteStore::new(path)))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: std::path::PathBuf, url: &StoreUrl) -> Result<Box<dyn Store>, OpenError> {
    Err(not_built_error(url, "sqlite"))
}

#[cfg(feature = "mysql")]
#[expect(clippy::unnecessary_wraps, reason = "the variant without the feature fails")]
fn mysql(address: &ServerAddress, table: TableKind, url: &StoreUrl) -> Result<Box<dyn Store>, OpenError> {
    Ok(Box::new(super::mysql::Mysql::new(address, url.shown(), table)))
}

#[cfg(not(feature = "mysql"))]
fn mysql(_: &ServerAddress, _: TableKind, url: &StoreUrl) -> Result<Box<dyn Store>, OpenError> {
    Err(not_built_error(url, "mysql"))
}

#[cfg(feature = "postgres")]
fn postgres(address: &ServerAddress, table: TableKind, url: &StoreUrl) -> Result<Box<dyn Store>, OpenError> {
    Ok(Box::new(super::postgres::Postgres::new(address, url.shown(), table)?))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &ServerAddress, _: TableKind, url: &StoreUrl) -> Result<Box<dyn Store>, OpenError> {
    Err(not_built_error(url, "postgres"))
}

#[cfg(not(all(feature = "sqlite", feature = "mysql", feature = "postgres")))]
fn not_built_error(url: &StoreUrl, feature: &'static str) -> OpenError {
    OpenError::NotBuilt { shown: url.shown().to_owned(), feature }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    #[test]
    fn two_addresses_of_one_file_are_refused_before_it_exists() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        std::os::unix::fs::symlink("sub", dir.path().join("link")).unwrap();
        let open = |words: [&str; 2]| {
            let urls = words.map(|word| StoreUrl::parse(word).unwrap());
            open_all(&urls, TableKind::Native, dir.path(), 0).map(|stores| stores.len())
        };
        for words in [
            ["sqlite:a", "sqlite:./a"],
            ["sqlite:a", "sqlite:sub/../a"],
            ["sqlite:sub/a", "sqlite:link/a"],
            ["sqlite:sequences-0.sqlite", "sqlite:"],
        ] {
            let message = open(words).unwrap_err().to_string();
            assert!(message.contains(": this is the same store as sqlite:") && !message.contains("uuid"), "{message}");
        }
        assert_eq!(open(["sqlite:a", "sqlite:sub/a"]), Ok(2));
        fs::write(dir.path().join("a"), "").unwrap();
        std::os::unix::fs::symlink("a", dir.path().join("b")).unwrap();
        assert!(open(["sqlite:a", "sqlite:b"]).is_err());
    }
}
