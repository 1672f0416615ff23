//! The record as a file in a folder, saved without ever blocking the runtime.
//!
//! A save is write, fsync, rename, fsync of the folder (`SaveStep`), on a thread of its own: a disk that hangs stops
//! one save and nothing else.
//!
//! # When the claim is lost
//!
//! Someone deletes the folder, or the lock file in it, under a running server. Nothing can be saved then, and a second
//! server may have started in a new folder of the same name. The store looks again at every save, and goes on once it
//! can hold a claim that is as good as the one of a restart:
//!
//! - Nobody else holds the lock there: it takes it. So no other server gives IDs from now on.
//! - It tells what record it found there ([`SaveError::ClaimRetaken`]), and the caller raises its position as a start
//!   with that record (or without one) would. So what another server gave in between is not given again: a server saves
//!   before it gives.
//! - The folder that was opened at the start has been deleted. If it has only been moved, or hidden by a mount, it may
//!   come back with the old record in it, and a later start would believe that; so the store waits for it to come back,
//!   or for a restart, which is the operator's decision for the new one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinHandle;

use super::claim::{Claim, Lost};
use super::{Identity, Mismatch, Record, RecordError, SaveError, WatermarkStore};
use crate::id::reference::JUMP_MS_MAX;
use crate::id::{Epoch, Layout, Tick};

const DAY_MS: u64 = 86_400_000;

/// The record of one server in a folder, and the claim to it.
#[derive(Debug)]
pub struct FileStore {
    /// Shared with the thread that saves.
    saver: Arc<Mutex<Saver>>,
    /// A save whose caller did not wait for its end.
    running: Option<JoinHandle<Result<(), SaveError>>>,
}

impl FileStore {
    /// Takes the claim to `identity`'s record in `dir`, and reads it.
    ///
    /// The record comes back [carried over](Record::adopted_by) to `identity`. Its times may lie ahead of the clock, as
    /// they do when that was set back; to say so is the caller's. Files that a crash left half-written are removed.
    /// Blocks, for up to a second; for the start only.
    ///
    /// # Errors
    ///
    /// [`OpenError`], whose text names path, cause and remedy.
    pub fn open(dir: &Path, identity: Identity) -> Result<(FileStore, Option<Record>), OpenError> {
        let claim = Claim::take(dir, identity.server_id)?;
        let found = read_record(&claim, identity)?;
        let floor = found.map_or(Tick(0), |record| record.point.watermark);
        let saver = Saver { claim, identity, floor };
        Ok((FileStore { saver: Arc::new(Mutex::new(saver)), running: None }, found))
    }

    /// Waits for a save that was left running, whatever became of it: a later one replaces it.
    async fn settle(&mut self) {
        if let Some(running) = &mut self.running {
            // Its caller has not waited for the result. It stays in `running` while this waits, so this too can be
            // dropped at any time.
            let _ = running.await;
            self.running = None;
        }
    }
}

impl WatermarkStore for FileStore {
    async fn save(&mut self, record: &Record) -> Result<(), SaveError> {
        self.settle().await;
        let (saver, record) = (Arc::clone(&self.saver), *record);
        let running = self.running.insert(tokio::task::spawn_blocking(move || {
            // What a panic can leave behind is a file that the next save removes.
            saver.lock().unwrap_or_else(PoisonError::into_inner).save(&record)
        }));
        let result = running.await;
        self.running = None;
        result.unwrap_or_else(|ended| {
            let path = self.saver.lock().unwrap_or_else(PoisonError::into_inner).claim.state_path();
            Err(SaveError::Io { action: "finish the save of", path, source: Arc::new(io::Error::other(ended)) })
        })
    }
}

/// What the saving thread works on.
#[derive(Debug)]
struct Saver {
    claim: Claim,
    identity: Identity,
    /// The watermark that was found when the claim was taken: nothing lower is written, whatever the caller wants.
    floor: Tick,
}

impl Saver {
    fn save(&mut self, record: &Record) -> Result<(), SaveError> {
        assert_eq!(record.identity, self.identity, "the claim is to one server's record");
        if let Some(lost) = self.claim.check()? {
            return Err(self.take_again(lost));
        }
        let mut record = *record;
        record.point.watermark = record.point.watermark.max(self.floor);
        self.claim.save(&record.to_text())
    }

    /// Takes the claim anew where that is as safe as a restart (see the module), and says what it found.
    fn take_again(&mut self, lost: Lost) -> SaveError {
        let what = self.claim.describe(lost);
        if matches!(lost, Lost::FolderGone | Lost::FolderHidden) {
            return SaveError::ClaimLost { what };
        }
        let taken = Claim::take(self.claim.dir(), self.identity.server_id)
            .and_then(|claim| read_record(&claim, self.identity).map(|found| (claim, found)));
        match taken {
            Ok((claim, found)) => {
                self.claim = claim;
                let found = found.map(|record| record.point);
                self.floor = self.floor.max(found.map_or(Tick(0), |point| point.watermark));
                SaveError::ClaimRetaken { found }
            }
            Err(error) => SaveError::ClaimLost { what: format!("{what}, and {error}") },
        }
    }
}

/// The record in a claimed folder, for the configured server.
fn read_record(claim: &Claim, identity: Identity) -> Result<Option<Record>, OpenError> {
    let Some(bytes) = claim.read()? else { return Ok(None) };
    let remedy = |old_epoch| advance_command(claim.dir(), identity, old_epoch);
    let record = Record::parse(&bytes).map_err(|source| {
        let remedy = match source {
            RecordError::Newer { .. } => format!("start the newer getid that wrote it, or run {}", remedy(None)),
            _ => format!("run {}", remedy(None)),
        };
        OpenError::Record { path: claim.state_path(), source, remedy }
    })?;
    record.adopted_by(identity).map(Some).map_err(|source| {
        let remedy = match source {
            Mismatch::ServerId { recorded, .. } => format!(
                "put each record back under its own name (this one is getid-{recorded}.state), or run {}",
                remedy(None)
            ),
            Mismatch::Epoch { recorded, configured } => format!(
                "set id-epoch back to {}; or, if IDs may run {} days ahead of the clock, run {}",
                recorded.unix_ms(),
                (configured.unix_ms() - recorded.unix_ms()) / DAY_MS,
                remedy(Some(recorded))
            ),
        };
        OpenError::Mismatch { path: claim.state_path(), source, remedy }
    })
}

/// The command that makes a record for `identity`, as the remedy in an error. `old_epoch`: the one it replaces.
fn advance_command(dir: &Path, identity: Identity, old_epoch: Option<Epoch>) -> String {
    let Identity { server_id, layout } = identity;
    let dir = shell_word(&dir.display().to_string());
    let mut words = vec![format!("getid state advance {dir} --server-id {server_id}")];
    let widths = |layout: Layout| (layout.server_bits(), layout.shard_bits(), layout.random_bits());
    if widths(layout) != widths(Layout::default()) {
        let (id, shard, random) = widths(layout);
        words.push(format!("--id-range {id} --shard-range {shard} --random-range {random}"));
    }
    if old_epoch.is_some() || layout.epoch() != Epoch::DEFAULT {
        words.push(format!("--epoch {}", layout.epoch().unix_ms()));
    }
    // IDs of the old epoch say times this far ahead in the new one, which is more than `advance` believes unasked. The
    // largest may be a day off the clock as it is.
    if old_epoch.is_some_and(|old| layout.epoch().unix_ms().saturating_sub(old.unix_ms()) + DAY_MS > JUMP_MS_MAX) {
        words.push("--force".to_owned());
    }
    format!("`{} --past-id ID`, ID being the largest in any table", words.join(" "))
}

/// `text` as one word for a shell.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Why a server must not start on what it found. `Display` is one sentence with path, cause and remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be opened.
    #[error("cannot open the folder {}: {source}; {}", path.display(), folder_remedy(source))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file in the folder cannot be used.
    #[error("cannot {action} {}: {source}; getid must be able to write to its folder (dir)", path.display())]
    Io {
        /// What failed, as in "cannot lock ...".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process holds the claim.
    #[error(
        "server-id {server_id} is in use: {} is locked by {holder}; stop that process, or set another server-id or dir",
        path.display()
    )]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The server-id.
        server_id: u32,
        /// The other process, as "pid 123".
        holder: String,
    },
    /// The record does not read: damaged, or of a newer format.
    #[error("cannot use the record {}: {source}; to go on, {remedy}", path.display())]
    Record {
        /// The record's file.
        path: PathBuf,
        /// What is wrong.
        source: RecordError,
        /// What to run.
        remedy: String,
    },
    /// The record is not for this configuration.
    #[error("cannot use the record {}: {source}; to go on, {remedy}", path.display())]
    Mismatch {
        /// The record's file.
        path: PathBuf,
        /// What differs.
        source: Mismatch,
        /// What to set or run.
        remedy: String,
    },
}

fn folder_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "make it, or name another with dir",
        io::ErrorKind::NotADirectory => "dir must name a folder",
        _ => "getid must be able to read and write it (dir)",
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use tempfile::TempDir;

    use super::*;
    use crate::id::SavePoint;

    /// Callers that give up on a disk that hangs, again and again, leave one thread waiting and not one each.
    #[tokio::test]
    async fn one_save_at_a_time() {
        let dir = TempDir::new().unwrap();
        let identity = Identity { server_id: 0, layout: Layout::default() };
        let record = Record { identity, point: SavePoint { watermark: Tick(10), reference: Tick(0) } };
        let (mut store, _) = FileStore::open(dir.path(), identity).unwrap();

        let saver = Arc::clone(&store.saver);
        let hang = saver.lock().unwrap();
        for _ in 0..3 {
            let mut save = Box::pin(store.save(&record));
            assert!(save.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        // The store's, this test's, and one thread's.
        assert_eq!(Arc::strong_count(&saver), 3);
        drop(hang);
        store.save(&record).await.unwrap();
        assert_eq!(Arc::strong_count(&saver), 2);
    }
}
