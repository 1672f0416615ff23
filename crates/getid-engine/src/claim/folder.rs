//! The record as a file in a folder, saved without blocking the runtime.
//!
//! A save is write, fsync, a check of the record to be replaced, rename, fsync of the folder (`SaveStep`). It runs on
//! its own thread: a disk that hangs stops one save and nothing else, and nothing else stops a save.
//!
//! # When the claim is lost
//!
//! The folder, or the lock file in it, may be deleted under a running server. Then nothing can be saved, and a second
//! server may have started in a new folder of the same name. Each save checks again, and continues once the claim is as
//! good as that of a restart:
//!
//! - No other process holds the lock there: this server takes it, so no other server gives IDs from now on.
//! - The record found there is returned ([`SaveError::ClaimRetaken`]), and the caller raises its position like a start
//!   with that record, or without one. So no ID of another server is repeated: a server saves before it gives IDs. The
//!   error is returned until the caller saves in the new term.
//! - The folder that was opened at the start has been deleted. A folder that was only moved, or hidden by a mount, may
//!   reappear with the old record, which a later start would trust. So this server waits until the folder reappears, or
//!   for a restart, by which the operator decides for the new one.
//! - No other process that believes it holds the same lock wrote the record. That happens on network file systems,
//!   which may lose a lock silently. The last writer continues, and the other stops until its restart. This narrows the
//!   gap but does not close it: a moment remains between the check and the rename.
//!
//! A claim that was found lost stays lost even if the folder is put back: another server may have used a folder of that
//! name meanwhile. So it is taken again, too.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use getid_core::{Declaration, Epoch, Layout, SavePoint, Tick};
use nix::unistd::{AccessFlags, eaccess};
use tokio::sync::oneshot;

use super::envelope::salvaged_borrow_ms;
use super::lock::{FileNames, LockLoss, LockedFolder};
use super::saver::SaverThread;
use super::{
    AcquiredClaim, Claim, Conflict, Declarations, Identity, Mismatch, Record, RecordError, RecordLocation, SaveError,
    TakeError, Term, random_bits,
};
use getid_text::shell::shell_word;

const DAY_MS: u64 = 86_400_000;

/// The largest configurable B, in ms (`id-max-borrow-ms`).
pub const BORROW_MS_MAX: u64 = 3_600_000;

/// The place and identity of a server's record.
#[derive(Clone, Debug)]
pub struct Folder {
    /// The directive `dir`.
    pub dir: PathBuf,
    /// Identity of the record.
    pub identity: Identity,
    /// B as configured, in ms (`id-max-borrow-ms`), for the remedies in errors.
    pub max_borrow_ms: u64,
    /// Named generators of the configuration (`generator`).
    pub generators: Vec<Arc<Declaration>>,
}

/// The record of one server in a folder, and the claim to it.
#[derive(Debug)]
pub struct FolderClaim {
    thread: SaverThread,
    saver: SaverState,
    /// Path of the record.
    path: PathBuf,
}

/// Location of the saver: here, or on its thread, which returns it with the result.
#[derive(Debug)]
enum SaverState {
    Idle(Box<Saver>),
    Saving(oneshot::Receiver<(Box<Saver>, Result<(), SaveError>)>),
    /// The thread has ended, which is a defect.
    Gone,
}

impl FolderClaim {
    /// Does [`Claim::take`] on the calling thread, which may wait for up to a second.
    ///
    /// The point is [converted](Record::adopted_by) to the folder's identity. Its times may be ahead of the clock if
    /// the clock was set back; the caller reports that. Files that a crash left half-written are removed.
    ///
    /// # Errors
    ///
    /// [`TakeError`].
    pub fn take_blocking(folder: &Folder) -> Result<AcquiredClaim<FolderClaim>, TakeError> {
        let thread = start_thread(folder)?;
        Ok(acquired(thread, Saver::open(folder)?))
    }

    /// Waits for a save that is still running. The next save reports its result again: a disk error by failing too, and
    /// a claim taken again by its term.
    async fn finish_running_save(&mut self) -> Result<(), SaveError> {
        let SaverState::Saving(running) = &mut self.saver else { return Ok(()) };
        // The receiver stays in place during the wait, so this future can be dropped at any time.
        let Ok((saver, result)) = running.await else {
            self.saver = SaverState::Gone;
            return Err(self.gone_error());
        };
        self.saver = SaverState::Idle(saver);
        result
    }

    fn gone_error(&self) -> SaveError {
        let source = Arc::new(io::Error::other("the thread that saves has ended"));
        SaveError::Io { action: "save", path: self.path.clone(), source }
    }
}

impl Claim for FolderClaim {
    type Config = Folder;
    type Point = SavePoint;

    async fn take(folder: Folder) -> Result<AcquiredClaim<FolderClaim>, TakeError> {
        let thread = start_thread(&folder)?;
        let place = folder.clone();
        match thread.run(move || Saver::open(&place)).await {
            Ok(saver) => Ok(acquired(thread, saver?)),
            Err(ended) => Err(TakeError::Folder { path: folder.dir, source: io::Error::other(ended) }),
        }
    }

    async fn save(&mut self, point: SavePoint, declarations: Arc<Declarations>, term: Term) -> Result<(), SaveError> {
        let _ = self.finish_running_save().await;
        let SaverState::Idle(mut saver) = std::mem::replace(&mut self.saver, SaverState::Gone) else {
            return Err(self.gone_error());
        };
        self.saver = SaverState::Saving(self.thread.run(move || {
            // A panic can only leave a file that the next save removes.
            let result = catch_unwind(AssertUnwindSafe(|| saver.save(point, declarations, term)));
            let result = result.unwrap_or_else(|_| {
                let source = Arc::new(io::Error::other("the save panicked"));
                Err(SaveError::Io { action: "finish the save of", path: saver.locked.state_path(), source })
            });
            (saver, result)
        }));
        self.finish_running_save().await
    }
}

fn start_thread(folder: &Folder) -> Result<SaverThread, TakeError> {
    SaverThread::start().map_err(|source| TakeError::Thread { path: folder.dir.clone(), source })
}

fn acquired(thread: SaverThread, (saver, point): (Saver, Option<SavePoint>)) -> AcquiredClaim<FolderClaim> {
    let (term, path, is_copy) = (saver.locked.owner().term, saver.locked.state_path(), saver.locked.is_copy());
    let declarations = Arc::clone(&saver.declarations);
    AcquiredClaim {
        claim: FolderClaim { thread, saver: SaverState::Idle(Box::new(saver)), path },
        point,
        declarations,
        term,
        is_copy,
    }
}

/// The state of the saving thread.
#[derive(Debug)]
struct Saver {
    locked: LockedFolder,
    folder: Folder,
    /// Watermark that was found when the claim was taken. No lower one is written, whatever the caller passes.
    floor: Tick,
    /// Latest point found since the caller last got it; `None` if none.
    found: Option<SavePoint>,
    /// Declarations of the caller, with those found since it last got them.
    declarations: Arc<Declarations>,
    /// Whether the claim was found lost and is not retaken yet.
    is_lost: bool,
}

impl Saver {
    fn open(folder: &Folder) -> Result<(Saver, Option<SavePoint>), TakeError> {
        let locked = LockedFolder::lock(&folder.dir, FileNames::of(folder.identity.server_id))?;
        for warning in locked.warnings() {
            tracing::warn!("{warning}");
        }
        let found = read_record(&locked, folder)?;
        let point = found.as_ref().map(|record| record.point);
        let declarations = found.map(|record| record.declarations).unwrap_or_default();
        let floor = point.map_or(Tick(0), |point| point.watermark);
        let folder = folder.clone();
        Ok((Saver { locked, folder, floor, found: None, declarations, is_lost: false }, point))
    }

    fn save(&mut self, mut point: SavePoint, declarations: Arc<Declarations>, term: Term) -> Result<(), SaveError> {
        if let Some(lost) = self.locked.check()? {
            return Err(self.retake(lost));
        }
        if self.is_lost {
            let lost = self.locked.check_owner()?.unwrap_or(LockLoss::Temporary);
            return Err(self.retake(lost));
        }
        let owner = self.locked.owner();
        if term != owner.term {
            // A dropped save has already found the loss.
            return Err(self.retaken_error());
        }
        self.found = None;
        self.declare(declarations, point)?;
        point.watermark = point.watermark.max(self.floor);
        let declarations = Arc::clone(&self.declarations);
        let record = Record { identity: self.folder.identity, point, declarations, owner };
        match self.locked.save(&record.to_text())? {
            None => {
                self.locked.mark_original();
                Ok(())
            }
            Some(lost) => Err(self.retake(lost)),
        }
    }

    /// Sets the caller's declarations. They must be compatible with those found, or nothing more is saved.
    fn declare(&mut self, declarations: Arc<Declarations>, point: SavePoint) -> Result<(), SaveError> {
        if !Arc::ptr_eq(&declarations, &self.declarations) {
            let from_unix_ms = point.watermark.unix_ms(self.folder.identity.layout.epoch());
            let followed = self.declarations.with(declarations.generators(), from_unix_ms, |_| 0);
            followed.map_err(|conflict| SaveError::ClaimLost { what: conflict.to_string() })?;
            self.declarations = declarations;
        }
        Ok(())
    }

    /// Takes the claim again if that is as safe as a restart (see the module). Returns what was found.
    fn retake(&mut self, lost: LockLoss) -> SaveError {
        self.is_lost = true;
        let what = self.locked.describe(lost);
        // The record found must be compatible with the declarations of this life.
        self.folder.generators = self.declarations.generators().to_vec();
        let acquired_record = match lost {
            LockLoss::FolderGone | LockLoss::FolderHidden | LockLoss::Overwritten { .. } => {
                return SaveError::ClaimLost { what };
            }
            LockLoss::OlderRecord { .. } | LockLoss::Temporary => {
                let found = read_record(&self.locked, &self.folder);
                found.inspect(|_| self.locked.begin_term())
            }
            LockLoss::FolderReplaced | LockLoss::LockGone | LockLoss::LockReplaced => {
                LockedFolder::lock(self.locked.dir(), FileNames::of(self.folder.identity.server_id)).and_then(
                    |mut locked| {
                        let found = read_record(&locked, &self.folder)?;
                        locked.raise_term_above(self.locked.owner().term);
                        self.locked = locked;
                        Ok(found)
                    },
                )
            }
        };
        match acquired_record {
            Ok(found) => {
                self.is_lost = false;
                if let Some(Record { point, declarations, .. }) = found {
                    self.declarations = declarations;
                    self.floor = self.floor.max(point.watermark);
                    self.found = Some(self.found.map_or(point, |known| known.later(point)));
                }
                self.retaken_error()
            }
            Err(error) => SaveError::ClaimLost { what: format!("{what}, and {error}") },
        }
    }

    fn retaken_error(&self) -> SaveError {
        let declarations = Arc::clone(&self.declarations);
        SaveError::ClaimRetaken { found: self.found, declarations, term: self.locked.owner().term, is_watched: false }
    }
}

/// Returns the record in a claimed folder, for the configured server.
fn read_record(locked: &LockedFolder, folder: &Folder) -> Result<Option<Record>, TakeError> {
    locked.read()?.map(|bytes| usable(&bytes, locked.dir(), &locked.state_path(), folder)).transpose()
}

/// Checks that a start could claim `folder` and use its present record. Nothing is claimed, and a missing record is
/// accepted.
///
/// # Errors
///
/// Returns the error of such a start.
pub fn check_record(folder: &Folder) -> Result<(), TakeError> {
    let names = FileNames::of(folder.identity.server_id);
    let lock = folder.dir.join(names.lock);
    // A save creates a file, too.
    let makes = eaccess(&folder.dir, AccessFlags::W_OK | AccessFlags::X_OK);
    let opens = if lock.exists() { eaccess(&lock, AccessFlags::R_OK | AccessFlags::W_OK) } else { Ok(()) };
    opens.and(makes).map_err(|errno| TakeError::Io {
        action: "open the lock file",
        path: lock,
        source: errno.into(),
    })?;
    let path = folder.dir.join(names.state);
    match super::lock::read(&path) {
        Ok(Some(bytes)) => usable(&bytes, &folder.dir, &path, folder).map(|_| ()),
        Ok(None) => Ok(()),
        Err(source) => Err(TakeError::Io { action: "read the record", path, source }),
    }
}

/// Parses a record from `path`, in `dir`, if this server may use it.
fn usable(bytes: &[u8], dir: &Path, path: &Path, folder: &Folder) -> Result<Record, TakeError> {
    let &Folder { identity, max_borrow_ms, ref generators, .. } = folder;
    let remedy =
        |recorded_ms: u64, old_epoch| advance_command(dir, identity, max_borrow_ms.max(recorded_ms), old_epoch);
    let record = Record::parse(bytes).map_err(|source| {
        let remedy = remedy(salvaged_borrow_ms(bytes, BORROW_MS_MAX), None);
        let remedy = match &source {
            RecordError::Marked(mark) => mark.remedy(identity.server_id, &RecordLocation::of_folder(dir)),
            RecordError::Version { .. } => format!("start the getid that wrote it, or run {remedy}"),
            _ => format!("run {remedy}"),
        };
        TakeError::Record { path: path.to_owned(), source, remedy }
    })?;
    let recorded_ms = record.point.max_borrow_ms;
    let follow = |mut record: Record| {
        let from_unix_ms = record.point.watermark.unix_ms(identity.layout.epoch());
        record.declarations = Arc::new(record.declarations.with(generators, from_unix_ms, random_bits)?);
        Ok(record)
    };
    record.adopted_by(identity).and_then(follow).map_err(|source| {
        let remedy = match &source {
            Mismatch::Generator(conflict) => generator_remedy(dir, identity.server_id, conflict),
            Mismatch::ServerId { recorded, .. } => format!(
                "put each record back under its own name (this one is getid-{recorded}.state), or run {}",
                remedy(recorded_ms, None)
            ),
            Mismatch::Epoch { recorded, configured } => format!(
                "set id-epoch back to {}; or, if IDs may run {} days ahead of the clock, run {}",
                recorded.unix_ms(),
                (configured.unix_ms() - recorded.unix_ms()) / DAY_MS,
                remedy(recorded_ms, Some(*recorded))
            ),
        };
        TakeError::Mismatch { path: path.to_owned(), source, remedy }
    })
}

/// Returns the command that makes a record for `identity`, as the remedy in an error. `old_epoch` is the epoch that it
/// replaces.
///
/// It includes B, which the operator does not know: the margin past the largest ID must cover the IDs in flight.
pub fn advance_command(dir: &Path, identity: Identity, max_borrow_ms: u64, old_epoch: Option<Epoch>) -> String {
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
    words.push(format!("--max-borrow {max_borrow_ms}"));
    // IDs of the old epoch mean times this far ahead in the new one. That may be more than `advance` accepts without
    // `--force`.
    if old_epoch.is_some() {
        words.push("--force".to_owned());
    }
    format!("`{} --past-id ID`, ID being the largest in any table", words.join(" "))
}

/// Returns the remedy for a conflicting declaration of a generator.
pub fn generator_remedy(dir: &Path, server_id: u32, conflict: &Conflict) -> String {
    let forget = |name: &str| {
        let dir = shell_word(&dir.display().to_string());
        format!(
            "`getid state forget {name} {dir} --server-id {server_id} --past-id ID`, ID being its largest in any table"
        )
    };
    match conflict {
        Conflict::Change { recorded, .. } => format!(
            "declare it as before (generator {}), or give it another name; or, if all its IDs are known, run {}",
            recorded.declared_text(),
            forget(recorded.name())
        ),
        Conflict::Forgotten { .. } => "give it another name".to_owned(),
        Conflict::TooMany { .. } => {
            format!("remove it from the configuration, or forget a removed one: {}", forget("NAME"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use tempfile::TempDir;

    use super::*;

    const POINT: SavePoint = SavePoint { watermark: Tick(10), reference: Tick(0), max_borrow_ms: 3000 };

    fn folder() -> (TempDir, Folder) {
        let dir = TempDir::new().unwrap();
        let identity = Identity { server_id: 0, layout: Layout::default() };
        let folder = Folder { dir: dir.path().to_owned(), identity, max_borrow_ms: 3000, generators: Vec::new() };
        (dir, folder)
    }

    /// Callers that repeatedly give up on a disk that hangs leave one save waiting, not one each.
    #[tokio::test]
    async fn one_save_at_a_time() {
        let (dir, folder) = folder();
        let AcquiredClaim { mut claim, term, .. } = FolderClaim::take_blocking(&folder).unwrap();

        let (hang, disk) = std::sync::mpsc::channel::<()>();
        let SaverState::Idle(saver) = std::mem::replace(&mut claim.saver, SaverState::Gone) else { panic!() };
        claim.saver = SaverState::Saving(claim.thread.run(move || {
            let _ = disk.recv();
            (saver, Ok(()))
        }));
        for _ in 0..3 {
            let mut save = Box::pin(claim.save(POINT, Arc::default(), term));
            assert!(save.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert!(!dir.path().join("getid-0.state").exists());
        drop(hang);
        claim.save(POINT, Arc::default(), term).await.unwrap();
        assert!(dir.path().join("getid-0.state").exists());
    }

    /// A thread that has ended is an error, and not a save that never ends.
    #[tokio::test]
    async fn a_thread_that_is_gone() {
        let (_dir, folder) = folder();
        let AcquiredClaim { mut claim, term, .. } = FolderClaim::take(folder).await.unwrap();
        assert!(claim.thread.run(|| panic!("planted")).await.is_err());
        for _ in 0..2 {
            let error = claim.save(POINT, Arc::default(), term).await.unwrap_err().to_string();
            assert!(error.ends_with("getid-0.state: the thread that saves has ended"), "{error}");
        }
    }
}
