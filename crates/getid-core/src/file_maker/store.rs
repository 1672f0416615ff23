//! The record on the disk: written whole or not at all, and only while this process alone has it.
//!
//! A save is write, fsync, a check of the file to replace, rename, fsync of the folder ([`FileSaveStep`]). A crash may
//! come between any two: the file then holds the old record or the new one.
//!
//! A lock does not notice that its file is deleted and created again, and some network file systems lose one silently.
//! So a save checks the lock file before it writes, before it renames and at its end. Before it renames it checks the
//! record too: another process's record is not replaced, and [`StateFile`] is lost permanently.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::error::{LockHolder, LockLoss, OpenError, SaveError};
use super::record::{Record, RecordError, TEXT_BYTES_MAX};
use crate::layout::Layout;
use crate::save_point::SavePoint;

/// Attempts to take a lock, [`LOCK_PAUSE`] apart, before it counts as held: 200 ms in all. A child process that is
/// about to run another program still has its parent's files open.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Longest text of a lock file that is read, bytes.
const HOLDER_BYTES_MAX: u64 = 256;

/// Permissions of the lock file. A user who can open it can lock it, and keep its owner out.
const LOCK_MODE: u32 = 0o600;

/// Steps of a save, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileSaveStep {
    /// Writes the text to a new temporary file beside the state file.
    Write,
    /// Makes the temporary file durable, so that the name never leads to half a text.
    SyncFile,
    /// Renames the temporary file to the state file.
    Rename,
    /// Makes the name durable.
    SyncFolder,
}

impl FileSaveStep {
    pub(super) const ALL: [FileSaveStep; 4] =
        [FileSaveStep::Write, FileSaveStep::SyncFile, FileSaveStep::Rename, FileSaveStep::SyncFolder];

    /// Returns the words for an error, between "cannot" and a path.
    fn action(self) -> &'static str {
        match self {
            FileSaveStep::Write => "write a file beside",
            FileSaveStep::SyncFile => "sync the file beside",
            FileSaveStep::Rename => "rename a file to",
            FileSaveStep::SyncFolder => "sync the folder of",
        }
    }
}

/// The disk operations of a save; tests have a simulated disk.
pub(super) trait Disk: Send {
    /// Returns the bytes of the state file, at most one more than a record may have; `None` if there is none.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>>;

    /// Does one step of a save.
    fn run(&mut self, step: FileSaveStep, text: &str) -> io::Result<()>;

    /// Returns how the lock was lost, if it was.
    fn lock_loss(&self) -> io::Result<Option<LockLoss>>;
}

/// The state file of one maker.
#[derive(Debug)]
pub(super) struct StateFile<D> {
    disk: D,
    path: PathBuf,
    server_id: u32,
    layout: Layout,
    /// Random number of this life.
    writer: u64,
    /// The record that was found, until it is replaced.
    found: Option<Record>,
    loss: Option<LockLoss>,
}

impl<D: Disk> StateFile<D> {
    /// Reads the last life's record. A file that cannot be read is an error, never a first start.
    pub(super) fn open(
        mut disk: D,
        path: PathBuf,
        server_id: u32,
        layout: Layout,
        writer: u64,
    ) -> Result<(StateFile<D>, Option<SavePoint>), OpenError> {
        let read = disk.read();
        let bytes = read.map_err(|source| OpenError::Io { action: "read", path: path.clone(), source })?;
        let found = match bytes.map(|bytes| Record::parse(&bytes)).transpose() {
            Ok(found) => found,
            Err(source) => return Err(OpenError::Record { path, source }),
        };
        if let Some(Record { server_id: recorded, layout: recorded_layout, point, .. }) = found {
            if recorded != server_id {
                return Err(OpenError::ServerId { path, recorded, asked: server_id });
            }
            // Bit widths may change: a tick is the upper 42 bits of an ID in any layout.
            let (recorded, asked) = (recorded_layout.epoch(), layout.epoch());
            if recorded != asked && !point.is_nothing() {
                return Err(OpenError::Epoch { path, recorded, asked });
            }
        }
        let point = found.map(|record| record.point);
        Ok((StateFile { disk, path, server_id, layout, writer, found, loss: None }, point))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `point` so that it survives any crash, and the old one survives until then.
    pub(super) fn save(&mut self, point: SavePoint) -> Result<(), SaveError> {
        let StateFile { server_id, layout, writer, .. } = *self;
        let text = Record { server_id, layout, point, writer }.to_text();
        for step in FileSaveStep::ALL {
            // The sync of the file takes long, and the rename would damage another process's record.
            if matches!(step, FileSaveStep::Write | FileSaveStep::Rename) {
                self.check_lock()?;
            }
            if step == FileSaveStep::Rename {
                self.check_writer()?;
            }
            self.disk.run(step, &text).map_err(|source| self.failed(step.action(), source))?;
            if step == FileSaveStep::Rename {
                self.found = None;
            }
        }
        self.check_lock()
    }

    fn check_lock(&mut self) -> Result<(), SaveError> {
        if self.loss.is_none() {
            self.loss = self.disk.lock_loss().map_err(|source| self.failed("look at the lock file of", source))?;
        }
        match self.loss {
            None => Ok(()),
            Some(loss) => Err(SaveError::Lost { path: self.path.clone(), loss }),
        }
    }

    /// Checks that the present record was written by this life, or is the one that it found.
    ///
    /// A missing or damaged record has no writer, and this process has newer numbers: it is replaced.
    fn check_writer(&mut self) -> Result<(), SaveError> {
        let bytes = self.disk.read().map_err(|source| self.failed("read back", source))?;
        let is_ours = match bytes.map(|bytes| Record::parse(&bytes)) {
            Some(Ok(record)) => record.writer == self.writer || Some(record) == self.found,
            Some(Err(RecordError::Version { .. })) => false,
            Some(Err(_)) | None => true,
        };
        if !is_ours {
            self.loss = Some(LockLoss::Overwritten);
        }
        self.check_lock()
    }

    fn failed(&self, action: &'static str, source: io::Error) -> SaveError {
        SaveError::Io { action, path: self.path.clone(), source }
    }
}

impl StateFile<LockedFolder> {
    /// Writes the lock file's own identity into it: a later start with this lock file is no start with a copy.
    pub(super) fn mark_original(&mut self) {
        self.disk.mark_original();
    }

    /// Releases the lock, even if a child process still has it open.
    pub(super) fn unlock(&self) {
        // The end of the process releases it too.
        let _ = self.disk.lock.unlock();
    }
}

/// The state file's folder, with the lock file that this process has locked.
///
/// The lock is on a separate file, which is never renamed: a save replaces the state file, and a lock on it too. The
/// system releases it when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct LockedFolder {
    state: PathBuf,
    temp: PathBuf,
    lock_path: PathBuf,
    lock: File,
    /// Random number of this process ([`HolderText`]).
    process_token: u64,
    /// The temporary file, between the steps of a save.
    written: Option<File>,
    is_copy: bool,
}

impl LockedFolder {
    /// Locks the state file `path`, which must be absolute. `process_token`: a random number of this process.
    pub(super) fn lock(path: &Path, process_token: u64) -> Result<LockedFolder, OpenError> {
        let beside = |ending: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        let (lock_path, temp) = (beside(".lock"), beside(".tmp"));
        if path.file_name().is_none() {
            return Err(OpenError::NotAFile { path: path.to_owned(), found: "no name of a file" });
        }
        check_regular(path)?;
        check_regular(&lock_path)?;
        let lock = lock_file(path, &lock_path, process_token)?;
        let is_copy = HolderText::read(&lock).file != file_number(&lock.metadata());
        let mut folder =
            LockedFolder { state: path.to_owned(), temp, lock_path, lock, process_token, written: None, is_copy };
        // At once: the last holder's text is not true any more. If the start fails, the next one counts as a start with
        // a copy.
        folder.write_holder("");
        Ok(folder)
    }

    /// Returns true if the writer of the record may have held another lock, and may hold it still: the folder is a
    /// copy, or the lock file is new.
    pub(super) fn is_copy(&self) -> bool {
        self.is_copy
    }

    fn mark_original(&mut self) {
        let Some((device, inode)) = file_number(&self.lock.metadata()) else { return };
        self.write_holder(&alloc::format!(" device {device} inode {inode}"));
        self.is_copy = false;
    }

    /// Replaces the text of the lock file by that of [`HolderText`].
    ///
    /// The text is for operators, for the error of a second maker, and for the next start. If this fails, the next
    /// start waits once without need.
    fn write_holder(&mut self, file: &str) {
        let line = alloc::format!("pid {} process {}{file}\n", std::process::id(), self.process_token);
        let _ =
            self.lock.set_len(0).and_then(|()| self.lock.rewind()).and_then(|()| self.lock.write_all(line.as_bytes()));
    }

    fn create(&mut self, text: &str) -> io::Result<()> {
        // The file is left by a crash or a failed save. After a failed fsync the system may have dropped unwritten data
        // and call the file clean: so the same file is never used again.
        match fs::remove_file(&self.temp) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut written = File::options().write(true).create_new(true).mode(0o644).open(&self.temp)?;
        written.write_all(text.as_bytes())?;
        self.written = Some(written);
        Ok(())
    }
}

impl Disk for LockedFolder {
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        read(&self.state)
    }

    fn run(&mut self, step: FileSaveStep, text: &str) -> io::Result<()> {
        match step {
            FileSaveStep::Write => self.create(text),
            FileSaveStep::SyncFile => self.written.take().map_or(Ok(()), |written| written.sync_all()),
            FileSaveStep::Rename => fs::rename(&self.temp, &self.state),
            FileSaveStep::SyncFolder => {
                let folder = self.state.parent().filter(|folder| !folder.as_os_str().is_empty());
                File::open(folder.unwrap_or(Path::new("/")))?.sync_all()
            }
        }
    }

    fn lock_loss(&self) -> io::Result<Option<LockLoss>> {
        let found = match fs::symlink_metadata(&self.lock_path) {
            Ok(found) => found,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Some(LockLoss::LockGone));
            }
            Err(error) => return Err(error),
        };
        let held = self.lock.metadata()?;
        let is_same = (found.dev(), found.ino()) == (held.dev(), held.ino());
        Ok((!is_same).then_some(LockLoss::LockReplaced))
    }
}

/// Opens and locks the lock file of `state`.
fn lock_file(state: &Path, path: &Path, process_token: u64) -> Result<File, OpenError> {
    let failed = |action, source| OpenError::Io { action, path: path.to_owned(), source };
    let mut tries = 0;
    loop {
        let options = File::options().read(true).write(true).create(true).truncate(false).mode(LOCK_MODE).open(path);
        let lock = options.map_err(|source| failed("open the lock file", source))?;
        tries += 1;
        match lock.try_lock() {
            // The lock is taken, but its file may just have been deleted: check that the name still leads to it.
            Ok(()) => {
                let named = fs::symlink_metadata(path);
                if file_number(&named).is_some() && file_number(&named) == file_number(&lock.metadata()) {
                    return Ok(lock);
                }
                if tries >= LOCK_TRIES {
                    return Err(failed("keep the lock file", io::ErrorKind::NotFound.into()));
                }
            }
            Err(TryLockError::WouldBlock) if tries < LOCK_TRIES => {}
            Err(TryLockError::WouldBlock) => {
                let holder = HolderText::read(&lock).seen_from(std::process::id(), process_token);
                return Err(OpenError::Held { path: state.to_owned(), holder });
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock", source)),
        }
        thread::sleep(LOCK_PAUSE);
    }
}

/// Refuses anything but a regular file. A link's target may be missing today, which would look like a first start. And
/// opening a pipe would wait for its writer.
fn check_regular(path: &Path) -> Result<(), OpenError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(OpenError::Io { action: "look at", path: path.to_owned(), source }),
    };
    let found = match found {
        found if found.is_file() => return Ok(()),
        found if found.is_dir() => "a folder",
        found if found.is_symlink() => "a symbolic link",
        _ => "no regular file",
    };
    Err(OpenError::NotAFile { path: path.to_owned(), found })
}

/// Returns the bytes of a file, at most one more than a record may have; `None` if there is none.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The text of a lock's holder about itself. It is empty for an instant after locking, or on a full disk.
struct HolderText {
    pid: Option<u32>,
    /// Random number of the process and its forks: a process of another container may have the same process number.
    process_token: Option<u64>,
    /// Device and inode of the lock file itself.
    file: Option<(u64, u64)>,
}

impl HolderText {
    fn read(lock: &File) -> HolderText {
        let mut text = String::new();
        // The text is only for operators, and for a pause: no reason to fail.
        let _ = lock.take(HOLDER_BYTES_MAX).read_to_string(&mut text);
        let number = |name: &str| {
            let mut words = text.split_whitespace().skip_while(|&word| word != name).skip(1);
            words.next()?.parse::<u64>().ok()
        };
        let pid = number("pid").and_then(|pid| u32::try_from(pid).ok());
        HolderText { pid, process_token: number("process"), file: number("device").zip(number("inode")) }
    }

    /// Returns the holder as seen from the process with this number and this random number.
    fn seen_from(&self, own_pid: u32, own_token: u64) -> LockHolder {
        match self.pid {
            None => LockHolder::Unknown,
            Some(pid) if pid == own_pid && self.process_token == Some(own_token) => LockHolder::ThisProcess,
            Some(pid) if pid == own_pid => LockHolder::OtherContainer { pid },
            Some(pid) => LockHolder::Process { pid },
        }
    }
}

/// Returns device and inode, which no two files have at the same time.
fn file_number(found: &io::Result<Metadata>) -> Option<(u64, u64)> {
    found.as_ref().ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In each container the first process has number 1: the random number distinguishes them.
    #[test]
    fn a_holder_is_this_process_by_both_its_numbers() {
        let holder = |pid, process_token| HolderText { pid, process_token, file: None }.seen_from(1, 10);
        assert_eq!(holder(Some(1), Some(10)), LockHolder::ThisProcess);
        assert_eq!(holder(Some(1), Some(11)), LockHolder::OtherContainer { pid: 1 });
        assert_eq!(holder(Some(1), None), LockHolder::OtherContainer { pid: 1 });
        // A fork has its parent's random number, and cannot share its maker.
        assert_eq!(holder(Some(2), Some(10)), LockHolder::Process { pid: 2 });
        assert_eq!(holder(None, None), LockHolder::Unknown);
    }

    /// The line of the last life is replaced before the first save of the present holder.
    #[test]
    fn a_lock_file_names_its_holder_from_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ids");
        let lock_path = folder.path().join("ids.lock");
        let marked = |token| LockedFolder::lock(&path, token).expect("it is free");
        fs::write(&lock_path, "pid 4294967295 process 9 device 1 inode 1\n").expect("written");
        let mut held = marked(10);
        let pid = std::process::id();
        assert_eq!(fs::read_to_string(&lock_path).expect("read"), alloc::format!("pid {pid} process 10\n"));
        assert!(held.is_copy());
        let refused = |token| LockedFolder::lock(&path, token).map(drop);
        assert!(matches!(refused(10), Err(OpenError::Held { holder: LockHolder::ThisProcess, .. })));
        assert!(matches!(refused(11), Err(OpenError::Held { holder: LockHolder::OtherContainer { .. }, .. })));
        held.mark_original();
        drop(held);
        // A start that fails before its first save leaves a lock file that is not the original's any more.
        assert!(!marked(12).is_copy());
        assert!(marked(13).is_copy());
    }
}
