//! `SEQUENCE BACKUP`: a copy of the store that is a file of this server's own, while it is in use.
//!
//! Nobody else can open that file, so the server copies it itself. The copy is a new file for this user alone; one that
//! did not come to its end is removed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use getid_core::SequenceRefusal;

use super::{SequenceError, Sequences};
use crate::text::plural::counted;

impl Sequences {
    /// Writes a copy of the store into a new file in a folder. Returns the bytes of the copy.
    ///
    /// # Errors
    ///
    /// There are several stores, the store is no file of this server's own, there is such a file, or it cannot be
    /// written.
    pub async fn backup(self: &Arc<Self>, folder: &Path, name: &str) -> Result<u64, SequenceError> {
        let [pool] = &self.pools[..] else {
            let count = counted(self.pools.len() as u64, "sequence-store");
            return Err(SequenceError::Not(format!(
                "there are {count}, and a backup is of one: the others would be of another moment"
            )));
        };
        let (pool, folder, path) = (Arc::clone(pool), folder.to_owned(), folder.join(name));
        self.on_driver(async move {
            if pool.store.is_shared() {
                // It says by which tools.
                let asked = path.clone();
                return copy(&pool, asked).await.map(|()| 0);
            }
            blocking(&path, make_new).await?;
            let copied = match copy(&pool, path.clone()).await {
                Ok(()) => blocking(&path, move |path| sync(&folder, path)).await,
                Err(error) => Err(error),
            };
            if copied.is_err() {
                let _ = blocking(&path, |path| fs::remove_file(path)).await;
            }
            copied
        })
        .await
    }
}

async fn copy(pool: &Arc<super::pool::Pool>, path: PathBuf) -> Result<(), SequenceError> {
    let copied = pool.run_job(move |mut connection| {
        Box::pin(async move {
            let copied = connection.backup(&path).await;
            (connection, copied)
        })
    });
    copied.await.map_err(SequenceError::from_store)
}

fn make_new(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// Has the copy, and its name, on disk. Returns its bytes.
fn sync(folder: &Path, path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    file.sync_all()?;
    File::open(folder)?.sync_all()?;
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
