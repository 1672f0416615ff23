//! `SEQUENCE BACKUP`: a copy of a store that is a file of this server, while it is in use.
//!
//! No other process can open that file, so the server copies it itself. The copy is a new file that only this user can
//! read. It is written as `.NAME.part`, and gets its name once it is complete and on disk. An incomplete copy is
//! removed at once, or by the next backup of that name.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use getid_core::server::SequenceRefusal;

use super::{SequenceError, Sequences};
use getid_text::plural::counted;

impl Sequences {
    /// Writes a copy of the store into a new file in a folder. Returns the size of the copy, bytes.
    ///
    /// # Errors
    ///
    /// Fails if there are several stores, the store is not a file of this server, the file exists, or it cannot be
    /// written.
    pub async fn backup(self: &Arc<Self>, folder: &Path, name: &str) -> Result<u64, SequenceError> {
        let [pool] = &self.pools[..] else {
            let count = counted(self.pools.len() as u64, "sequence-store");
            return Err(SequenceError::Not(format!(
                "there are {count}, and a backup is of one: the others would be of another moment"
            )));
        };
        let (pool, folder, path) = (Arc::clone(pool), folder.to_owned(), folder.join(name));
        let part = format!(".{name}.part");
        self.on_driver(async move {
            if pool.store.is_shared() {
                // The store returns an error that names the tools for it.
                let asked = path.clone();
                return copy(&pool, asked).await.map(|()| 0);
            }
            let part = folder.join(part);
            let made = part.clone();
            blocking(&path, move |path| make_part(&made, path)).await?;
            let copied = match copy(&pool, part.clone()).await {
                Ok(()) => {
                    let copied = part.clone();
                    blocking(&path, move |path| give_name(&folder, &copied, path)).await
                }
                Err(error) => Err(error),
            };
            if copied.is_err() {
                let _ = blocking(&part, |part| fs::remove_file(part)).await;
            }
            copied
        })
        .await
    }
}

async fn copy(pool: &Arc<super::pool::StorePool>, path: PathBuf) -> Result<(), SequenceError> {
    let copied = pool.run_job(move |mut connection| {
        Box::pin(async move {
            let copied = connection.backup(&path).await;
            (connection, copied)
        })
    });
    copied.await.map_err(SequenceError::from_store)
}

/// Makes the file that the copy is written into. Removes one that a crash has left there.
fn make_part(part: &Path, path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    if fs::symlink_metadata(part).is_ok_and(|found| found.is_file()) {
        fs::remove_file(part)?;
    }
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part).map(drop);
    made.map_err(|error| match error.kind() {
        // This is not the requested file name.
        io::ErrorKind::AlreadyExists => {
            io::Error::other(format!("'{}' is in the way, and is no file: remove it", part.display()))
        }
        _ => error,
    })
}

/// Syncs the copy to disk, then gives it its name. Returns its size in bytes. Never replaces an existing file.
fn give_name(folder: &Path, part: &Path, path: &Path) -> io::Result<u64> {
    let file = File::open(part)?;
    file.sync_all()?;
    // A rename would replace an existing file.
    fs::hard_link(part, path)?;
    fs::remove_file(part)?;
    let named = File::open(folder).and_then(|folder| folder.sync_all());
    named.inspect_err(|_| drop(fs::remove_file(path)))?;
    Ok(file.metadata()?.len())
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, SequenceError> {
    let own = path.to_owned();
    let done = tokio::task::spawn_blocking(move || work(&own)).await;
    let done = done.map_err(|_| SequenceError::Refused(SequenceRefusal::Closed))?;
    done.map_err(|error| {
        SequenceError::Not(match error.kind() {
            io::ErrorKind::AlreadyExists => format!("there is a file '{}' already: name another one", path.display()),
            _ => format!("the backup '{}' cannot be written: {error}", path.display()),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_copy_has_its_name_once_it_is_whole_and_replaces_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let (part, path) = (dir.path().join(".a.backup.part"), dir.path().join("a.backup"));
        fs::write(&part, "what a crash has left").unwrap();
        make_part(&part, &path).unwrap();
        assert!(!path.exists() && fs::read(&part).unwrap().is_empty());
        assert_eq!(fs::metadata(&part).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&part, "whole").unwrap();
        assert_eq!(give_name(dir.path(), &part, &path).unwrap(), 5);
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), part.exists()), ("whole", false));

        // Nor if it appeared meanwhile.
        assert_eq!(make_part(&part, &path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(!part.exists());
        fs::write(&part, "another").unwrap();
        assert_eq!(give_name(dir.path(), &part, &path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");

        // An object that no backup made is kept.
        let (part, path) = (dir.path().join(".b.backup.part"), dir.path().join("b.backup"));
        fs::create_dir(&part).unwrap();
        assert!(make_part(&part, &path).unwrap_err().to_string().contains("is in the way"));
        assert!(part.is_dir());
    }
}
