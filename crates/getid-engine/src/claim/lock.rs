//! The lock that gives this process one server's record in one folder, and the file operations that need it.
//!
//! Two processes that write the same record give the same IDs. A separate lock file, `getid-<server-id>.lock`, excludes
//! the second one. It is locked with flock, which ends with the process, and is never renamed. A lock on the record's
//! file would soon be on a deleted file, because each save replaces that file by a rename.
//!
//! A lock does not detect that its file, or the whole folder, is deleted and created again: then two processes hold two
//! locks under one name. So the claim is checked before each save, directly before the rename, and after it. All files
//! are reached through the folder's handle: a write never goes to a folder that merely has the same name.
//!
//! Nor does it detect that a folder is a copy of one that another process still holds. So the lock file contains its
//! own device and inode number. If they differ or are missing, the writer of the record held another lock.
//!
//! Nor does a lock help if the file system loses it, as a network file system may. So lock file and record name their
//! [`Owner`], and both are read before the rename: a record of another life is not replaced.
//!
//! A save opens files, one at a time. Two spare descriptors let a process at its descriptor limit save all the same.
//!
//! Blocks. This code runs at the start, in a tool, or on a thread that may wait.

use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, fstatat, stat};
use nix::sys::statfs::{FsType, fstatfs};
use nix::unistd::{Gid, Uid, UnlinkatFlags, dup3, fchown, geteuid, unlinkat};
use rand::RngExt as _;

use super::envelope::{Envelope, Owner, RecordError, TEXT_BYTES_MAX, Term, number};
use super::error::{SaveError, TakeError};
use getid_system::host;

/// Tries to lock a file, [`LOCK_PAUSE`] apart, before it counts as held: 200 ms in all.
///
/// `getid state show` takes the lock for a moment to see whether it is free.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Descriptors reserved for a save, which opens one file at a time. The second is needed if another thread takes the
/// first between its close and the file's open.
const SPARES: usize = 2;

/// Permissions of the lock file. No other user may open it: a user who can open it can lock it, and keep this server
/// out.
const LOCK_MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// Permissions that a record may have. A user with write permission could replace it by one that repeats IDs.
const STATE_MODE: Mode = LOCK_MODE.union(Mode::S_IRGRP).union(Mode::S_IROTH);

/// Steps of a save, in this order. A crash may occur between any two.
///
/// The real and the simulated disk share this list, so that the tests crash the steps that servers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SaveStep {
    /// Write the text to a new temporary file beside the record's.
    Write,
    /// Sync the temporary file, so that the name never refers to half a text.
    SyncFile,
    /// Read the record to be replaced: this life must have written or found it.
    ReadBack,
    /// Rename the temporary file to the record's name.
    Rename,
    /// Sync the folder, so that the name is durable.
    SyncFolder,
}

impl SaveStep {
    /// All steps, in order.
    pub const ALL: [SaveStep; 5] =
        [SaveStep::Write, SaveStep::SyncFile, SaveStep::ReadBack, SaveStep::Rename, SaveStep::SyncFolder];

    /// Returns the step's name in an error, between "cannot" and a path.
    pub fn action(self) -> &'static str {
        match self {
            SaveStep::Write => "write",
            SaveStep::SyncFile => "sync",
            SaveStep::ReadBack => "read back",
            SaveStep::Rename => "rename a file to",
            SaveStep::SyncFolder => "sync the folder",
        }
    }
}

/// An open folder whose lock file this process has locked.
#[derive(Debug)]
pub struct LockedFolder {
    /// Absolute path, so that it stays valid if the working directory changes.
    dir: PathBuf,
    names: FileNames,
    folder: File,
    lock: File,
    /// Temporary file, between the steps of a save.
    temp: Option<File>,
    /// Permissions of the record's file; `None` for a new one, which follows the umask.
    mode: Option<Mode>,
    /// This process in its present term.
    owner: Owner,
    /// Whether the lock file is not that of the last holder. Cleared by the first successful save of a life.
    is_copy: bool,
    /// Owner of the record in the folder: the one found, then this process. `None` if no valid record was found.
    written_by: Option<Owner>,
    /// Whether the record that was found has another version of the format.
    has_other_version: bool,
    /// Open descriptors. One is closed if a file must be opened at the descriptor limit.
    spares: Vec<OwnedFd>,
}

/// Names of the files in the folder.
#[derive(Clone, Debug)]
pub struct FileNames {
    /// Name of the record's file, such as `getid-3.state`.
    pub state: String,
    /// Name of the file that a save writes and then renames to the record's.
    pub temp: String,
    /// Name of the lock file, such as `getid-3.lock`.
    pub lock: String,
    /// Name of the record's subject, for errors.
    subject: String,
}

impl FileNames {
    /// Returns the names of a server-id's files.
    pub fn of(server_id: u32) -> FileNames {
        let state = format!("getid-{server_id}.state");
        let subject = format!("server-id {server_id}");
        FileNames { temp: format!("{state}.tmp"), lock: format!("getid-{server_id}.lock"), state, subject }
    }
}

/// How a claim was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockLoss {
    /// The path does not exist.
    FolderGone,
    /// The path leads to another folder, and the opened folder was deleted.
    FolderReplaced,
    /// The path leads to another folder, and the opened folder still exists: moved, or hidden by a mount.
    FolderHidden,
    /// The folder has no lock file.
    LockGone,
    /// The folder has another lock file.
    LockReplaced,
    /// Another process has written the record or the lock file, in this term or a later one.
    Overwritten {
        /// Owner that the record or the lock file names.
        by: Owner,
    },
    /// The record is from an earlier life: put back by hand, or written by a holder that has lost its lock.
    OlderRecord {
        /// Owner that the record names.
        by: Owner,
    },
    /// The claim was lost in one of the other ways, and the former state is restored.
    Temporary,
}

impl LockedFolder {
    /// Opens the folder and locks its lock file.
    ///
    /// # Errors
    ///
    /// Fails if the folder or its lock file cannot be opened, or another process holds the lock for 200 ms.
    pub fn lock(dir: &Path, names: FileNames) -> Result<LockedFolder, TakeError> {
        let dir = std::path::absolute(dir).map_err(|source| TakeError::Folder { path: dir.to_owned(), source })?;
        let folder = open(&dir, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(|errno| TakeError::Folder { path: dir.clone(), source: errno.into() })?;

        let lock_path = dir.join(&names.lock);
        let failed = |action, source| TakeError::Io { action, path: lock_path.clone(), source };
        let mut tries = 0;
        let lock = loop {
            let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            let lock = openat(&folder, names.lock.as_str(), flags, LOCK_MODE)
                .map(File::from)
                .map_err(|errno| failed("open the lock file", errno.into()))?;
            tries += 1;
            match lock.try_lock() {
                // Locked; check that the file still has that name and was not deleted meanwhile.
                Ok(()) => match is_at(&lock, &folder, &names.lock) {
                    Ok(true) => break lock,
                    Ok(false) if tries < LOCK_TRIES => {}
                    Ok(false) => return Err(failed("keep the lock file", Errno::ESTALE.into())),
                    Err(errno) => return Err(failed("inspect the lock file", errno.into())),
                },
                Err(TryLockError::WouldBlock) if tries < LOCK_TRIES => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = LockHolder::read(lock).name();
                    return Err(TakeError::Held { path: lock_path, subject: names.subject, holder });
                }
                Err(TryLockError::Error(source)) => return Err(failed("lock", source)),
            }
            std::thread::sleep(LOCK_PAUSE);
        };
        give_to_owner(&folder, &lock);
        // A copied or restored file may be readable for all users. Another user's file stays unchanged.
        if fstat(&lock).is_ok_and(|found| found.st_mode & 0o077 != 0) {
            let _ = fchmod(&lock, LOCK_MODE);
        }

        let mode = fstatat(&folder, names.state.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
            .ok()
            .map(|found| Mode::from_bits_truncate(found.st_mode & STATE_MODE.bits()));
        let last = lock.try_clone().map(LockHolder::read).unwrap_or_default();
        let is_copy = last.file.is_none() || last.file != file_number(&lock);
        let mut locked = LockedFolder {
            dir,
            names,
            folder,
            lock,
            temp: None,
            mode,
            owner: last.owner.unwrap_or_default(),
            is_copy,
            written_by: None,
            has_other_version: false,
            spares: Vec::new(),
        };
        locked.begin_term();
        locked.keep_spares();
        locked.remove_temp();
        Ok(locked)
    }

    /// Returns this process in its present term, as its saves name it in the record.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Returns true if the writer of the record may have held another lock, and may hold it still.
    pub fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// Marks this lock file as the one that the writer of the record held. Called after a record is saved.
    pub fn mark_original(&mut self) {
        if std::mem::take(&mut self.is_copy) {
            // If this fails, the next start waits once more than necessary.
            let _ = self.write_lock();
        }
    }

    /// Begins a new term, later than that of the record in the folder.
    pub fn begin_term(&mut self) {
        // The caller decides about a record that cannot be parsed.
        let found = read_at(&self.folder, &self.names.state).ok().flatten().map(|bytes| owner_in(&bytes));
        self.has_other_version = matches!(found, Some(Err(RecordError::Version { .. })));
        self.written_by = found.and_then(Result::ok);
        let last = self.owner.term.max(self.written_by.map_or(Term(0), |by| by.term));
        // Nonce 0 is reserved for a missing owner.
        self.owner = Owner { term: last.next(), nonce: rand::rng().random_range(1..=u64::MAX) };
        // The content only informs people, so a failure is ignored, even on a full disk.
        let _ = self.write_lock();
    }

    /// Makes this term later than `term`, whatever the folder contains.
    pub fn raise_term_above(&mut self, term: Term) {
        if self.owner.term <= term {
            self.owner.term = term.next();
            let _ = self.write_lock();
        }
    }

    fn write_lock(&mut self) -> io::Result<()> {
        self.lock.set_len(0)?;
        self.lock.rewind()?;
        let Owner { term, nonce } = self.owner;
        let mut line = format!("pid {} term {term} nonce {nonce:016x}", std::process::id());
        if let Some((device, inode)) = file_number(&self.lock).filter(|_| !self.is_copy) {
            // Writing to a String does not fail.
            let _ = write!(line, " device {device} inode {inode}");
        }
        // Processes of two containers may have the same pid: each is 1 in its own.
        if let Some(host) = host_word() {
            let _ = write!(line, " host {host}");
        }
        self.lock.write_all(format!("{line}\n").as_bytes())
    }

    /// Returns problems of the folder that do not prevent a start.
    pub fn warnings(&self) -> Vec<String> {
        let dir = self.dir.display();
        let mut warnings = Vec::new();
        if let Some(kind) = fstatfs(&self.folder).ok().and_then(|found| network_file_system(found.filesystem_type())) {
            warnings.push(format!(
                "{dir} is on a network file system ({kind}), which may lose a lock silently: two servers with one \
                 record detect each other only at their next save, and may give the same IDs until then. Use a local \
                 disk, or a server-id for each server"
            ));
        }
        let sticky = 0o1000;
        if fstat(&self.folder).is_ok_and(|found| found.st_mode & 0o022 != 0 && found.st_mode & sticky == 0) {
            warnings.push(format!(
                "{dir} can be written by other users, who may delete or replace the state in it: chmod 700 {dir}"
            ));
        }
        warnings
    }

    /// Returns the absolute path of the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the record's file.
    pub fn state_path(&self) -> PathBuf {
        self.dir.join(&self.names.state)
    }

    /// Returns the bytes of the record's file, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or is not a regular file.
    pub fn read(&self) -> Result<Option<Vec<u8>>, TakeError> {
        read_at(&self.folder, &self.names.state).map_err(|source| TakeError::Io {
            action: "read the record",
            path: self.state_path(),
            source,
        })
    }

    /// Checks that the lock file and the folder are still the opened ones.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot inspect one of them. A lost lock is no error, but the returned [`LockLoss`].
    pub fn check(&self) -> Result<Option<LockLoss>, SaveError> {
        let failed = |errno: Errno| io_error("inspect", &self.dir, errno.into());
        let opened = fstat(&self.folder).map_err(failed)?;
        match stat(&self.dir) {
            Ok(found) if same_file(&found, &opened) => {}
            Ok(_) if opened.st_nlink == 0 => return Ok(Some(LockLoss::FolderReplaced)),
            Ok(_) => return Ok(Some(LockLoss::FolderHidden)),
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(Some(LockLoss::FolderGone)),
            Err(errno) => return Err(failed(errno)),
        }
        match fstatat(&self.folder, self.names.lock.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if same_file(&found, &fstat(&self.lock).map_err(failed)?) => Ok(None),
            Ok(_) => Ok(Some(LockLoss::LockReplaced)),
            Err(Errno::ENOENT) => Ok(Some(LockLoss::LockGone)),
            Err(errno) => Err(io_error("inspect", &self.dir.join(&self.names.lock), errno.into())),
        }
    }

    /// Returns the meaning of `lost`, as the end of "claim lost: ".
    pub fn describe(&self, lost: LockLoss) -> String {
        let dir = self.dir.display();
        let lock = &self.names.lock;
        match lost {
            LockLoss::FolderGone => format!("the folder {dir} does not exist; put it back, or create it again"),
            LockLoss::FolderReplaced => format!("the folder {dir} was deleted and created again"),
            LockLoss::FolderHidden => format!(
                "{dir} is not the folder that was opened at the start, which still exists (moved, or hidden by a \
                 mount); put it back, or restart this server"
            ),
            LockLoss::LockGone => format!("the lock file {dir}/{lock} was deleted"),
            LockLoss::LockReplaced => format!("the lock file {dir}/{lock} is not the one that was locked at the start"),
            LockLoss::Overwritten { by } => format!(
                "another server (term {}; this one has term {}) has written {dir}/{} or its lock file, although this \
                 one holds the lock, as can happen on a network file system; stop one of the two, then restart this one",
                by.term, self.owner.term, self.names.state
            ),
            LockLoss::OlderRecord { by } => format!(
                "{dir}/{} is one of an earlier life (term {}; this one has term {})",
                self.names.state, by.term, self.owner.term
            ),
            LockLoss::Temporary => format!("another server may have had a folder {dir} meanwhile"),
        }
    }

    /// Writes `text` so that after any crash the record's file is either the old one or the new one. Returns how the
    /// claim was lost, if it was; the text may then be written or not.
    ///
    /// # Errors
    ///
    /// Fails if a step or a check of the claim fails in the system.
    pub fn save(&mut self, text: &str) -> Result<Option<LockLoss>, SaveError> {
        self.save_watched(text, |_| {})
    }

    /// Does [`LockedFolder::save`]; a test interferes in `before`.
    fn save_watched(&mut self, text: &str, mut before: impl FnMut(SaveStep)) -> Result<Option<LockLoss>, SaveError> {
        for step in SaveStep::ALL {
            before(step);
            // The sync of the file takes longest, and the rename could damage another server's record.
            let lost = match step {
                SaveStep::Write | SaveStep::Rename => self.check()?,
                SaveStep::ReadBack => self.check_owner()?,
                SaveStep::SyncFile | SaveStep::SyncFolder => None,
            };
            if lost.is_some() {
                self.temp = None;
                self.remove_temp();
                return Ok(lost);
            }
            if let Err(source) = self.run_step(step, text) {
                // Closing frees its blocks on a full disk. The next save begins with a new file in any case. After a
                // failed fsync the system may have dropped pages that it could not write, and report the old file as
                // clean.
                self.temp = None;
                self.remove_temp();
                let path = match step {
                    SaveStep::Write | SaveStep::SyncFile => self.dir.join(&self.names.temp),
                    SaveStep::ReadBack | SaveStep::Rename => self.state_path(),
                    SaveStep::SyncFolder => self.dir.clone(),
                };
                return Err(io_error(step.action(), &path, source));
            }
        }
        self.keep_spares();
        self.check()
    }

    /// Checks that the record and the lock file, as now on disk, belong to this process.
    ///
    /// A missing or damaged record has no owner and is replaced, because this server knows the right values. So is a
    /// lock file without an owner.
    ///
    /// # Errors
    ///
    /// Fails if the record or the lock file cannot be read back.
    pub fn check_owner(&mut self) -> Result<Option<LockLoss>, SaveError> {
        let path = self.state_path();
        let bytes = self.with_spares(|locked| read_at(&locked.folder, &locked.names.state));
        match bytes.map_err(|source| io_error("read back", &path, source))?.as_deref().map(owner_in) {
            Some(Ok(by)) if by != self.owner && Some(by) != self.written_by => {
                let older = by.term < self.owner.term;
                return Ok(Some(if older { LockLoss::OlderRecord { by } } else { LockLoss::Overwritten { by } }));
            }
            Some(Err(RecordError::Version { .. })) if !self.has_other_version => {
                let by = Owner { term: self.owner.term.next(), nonce: 0 };
                return Ok(Some(LockLoss::Overwritten { by }));
            }
            _ => {}
        }
        let path = self.dir.join(&self.names.lock);
        let lock = self.with_spares(|locked| read_at(&locked.folder, &locked.names.lock));
        match lock.map_err(|source| io_error("read back", &path, source))?.and_then(|text| LockHolder::of(&text).owner)
        {
            Some(by) if by != self.owner && by.term >= self.owner.term => Ok(Some(LockLoss::Overwritten { by })),
            _ => Ok(None),
        }
    }

    /// Copies the record's bytes to another name, and returns its path.
    ///
    /// # Errors
    ///
    /// Fails if the copy cannot be created, written or synced, or already exists.
    pub fn copy_aside(&self, bytes: &[u8], unix_ms: i64) -> io::Result<PathBuf> {
        let name = format!("{}.before-{unix_ms}", self.names.state);
        let mut copy = self.create(&name, OFlag::O_EXCL)?;
        copy.write_all(bytes)?;
        copy.sync_all()?;
        self.folder.sync_all()?;
        Ok(self.dir.join(name))
    }

    fn run_step(&mut self, step: SaveStep, text: &str) -> io::Result<()> {
        match step {
            SaveStep::Write => {
                self.remove_temp();
                let mut temp = self.with_spares(|locked| locked.create(&locked.names.temp, OFlag::O_EXCL))?;
                if let Some(mode) = self.mode {
                    fchmod(&temp, mode)?;
                }
                temp.write_all(text.as_bytes())?;
                self.temp = Some(temp);
            }
            SaveStep::SyncFile => {
                if let Some(temp) = self.temp.take() {
                    temp.sync_all()?;
                    self.keep_as_spare(temp);
                }
            }
            SaveStep::ReadBack => {}
            SaveStep::Rename => {
                let FileNames { state, temp, .. } = &self.names;
                renameat(&self.folder, temp.as_str(), &self.folder, state.as_str())?;
                (self.written_by, self.has_other_version) = (Some(self.owner), false);
            }
            SaveStep::SyncFolder => self.folder.sync_all()?,
        }
        Ok(())
    }

    fn create(&self, name: &str, flags: OFlag) -> io::Result<File> {
        let flags = flags | OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = File::from(openat(&self.folder, name, flags, Mode::from_bits_truncate(0o644))?);
        give_to_owner(&self.folder, &file);
        Ok(file)
    }

    /// Calls `open`. At the descriptor limit it closes a spare descriptor and tries again.
    fn with_spares<T>(&mut self, open: impl Fn(&LockedFolder) -> io::Result<T>) -> io::Result<T> {
        loop {
            let error = match open(self) {
                Ok(opened) => return Ok(opened),
                Err(error) => error,
            };
            let full = [Errno::EMFILE, Errno::ENFILE].map(|errno| Some(errno as i32)).contains(&error.raw_os_error());
            if !full || self.spares.pop().is_none() {
                return Err(error);
            }
        }
    }

    /// Keeps a descriptor that is no longer needed, if a spare is missing. `dup3` does it in one step, so that no other
    /// thread gets its number.
    fn keep_as_spare(&mut self, file: File) {
        let mut spare = OwnedFd::from(file);
        if self.spares.len() < SPARES && dup3(&self.folder, &mut spare, OFlag::O_CLOEXEC).is_ok() {
            self.spares.push(spare);
        }
    }

    /// Opens the missing spare descriptors, as far as possible.
    fn keep_spares(&mut self) {
        while self.spares.len() < SPARES {
            let Ok(spare) = self.folder.try_clone() else { return };
            self.spares.push(spare.into());
        }
    }

    /// Removes the file that a crash or a failed save left. If this fails, the next save fails too, and reports why.
    fn remove_temp(&self) {
        let _ = unlinkat(&self.folder, self.names.temp.as_str(), UnlinkatFlags::NoRemoveDir);
    }
}

/// Returns the process that holds the claim to `server_id` in `dir`, as "pid 123"; `None` if there is none.
///
/// # Errors
///
/// Fails if the lock file exists and cannot be opened or locked.
pub fn holder_of(dir: &Path, server_id: u32) -> io::Result<Option<String>> {
    // A symbolic link, or a pipe without a writer, must not block a start.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let path = dir.join(FileNames::of(server_id).lock);
    let lock = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match lock.try_lock_shared() {
        // The lock ends at once, when the file is closed. A server that starts in this moment tries again.
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(LockHolder::read(lock).name())),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns the error of [`LockedFolder::lock`] if another process holds the claim to `server_id` in `dir`. `None` if no
/// process does, or this process may not read the file.
pub fn held_error(dir: &Path, server_id: u32) -> Option<TakeError> {
    let holder = holder_of(dir, server_id).ok()??;
    let FileNames { lock, subject, .. } = FileNames::of(server_id);
    Some(TakeError::Held { path: dir.join(lock), subject, holder })
}

/// Returns the bytes of a regular file in `folder`, at most one more than a record may have; `None` if it does not
/// exist.
fn read_at(folder: impl AsFd, name: impl AsRef<Path>) -> io::Result<Option<Vec<u8>>> {
    // A symbolic link is refused: its target may be missing for a time, which would look like a first start. Opening a
    // pipe must not wait for a writer.
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match openat(folder, name.as_ref(), flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::ENOENT) => return Ok(None),
        Err(Errno::ELOOP) => return Err(io::Error::other("it is a symbolic link, a regular file is expected")),
        Err(errno) => return Err(errno.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Returns the bytes of a record's file, without a claim: at most one more than a record may have. `None` if the file
/// does not exist.
///
/// # Errors
///
/// Fails if the file cannot be read, or is not a regular file.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    read_at(nix::fcntl::AT_FDCWD, path)
}

/// Returns the owner of a record of any kind.
fn owner_in(bytes: &[u8]) -> Result<Owner, RecordError> {
    Envelope::parse(bytes).map(|opened| opened.envelope.owner)
}

/// Content of a lock file about its holder. Any part may be missing: the file is empty between the lock and the write,
/// or on a full disk.
#[derive(Default)]
struct LockHolder {
    pid: Option<u32>,
    owner: Option<Owner>,
    /// Device and inode of the lock file itself, once a life has begun with it.
    file: Option<(u64, u64)>,
    /// Name of its host or container.
    host: Option<String>,
}

/// Returns the name of this host, if it is one word of the characters of host names.
fn host_word() -> Option<String> {
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    Some(host::name()).filter(|name| !name.is_empty() && name.len() <= 64 && name.bytes().all(is_of_names))
}

impl LockHolder {
    const BYTES_MAX: u64 = 256;

    fn read(mut lock: File) -> LockHolder {
        let mut text = Vec::new();
        // A cloned descriptor shares its offset with the original.
        let _ = lock.rewind().and_then(|()| lock.take(LockHolder::BYTES_MAX).read_to_end(&mut text));
        LockHolder::of(&text)
    }

    fn of(text: &[u8]) -> LockHolder {
        let mut holder = LockHolder::default();
        let (mut term, mut nonce, mut device, mut inode) = (None, None, None, None);
        let text = String::from_utf8_lossy(text);
        // The pid comes first: scripts read it there.
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.chunks_exact(2) {
            match pair[0] {
                "pid" => holder.pid = pair[1].parse().ok(),
                "term" => term = number(pair[1]).map(Term),
                "nonce" => nonce = u64::from_str_radix(pair[1], 16).ok(),
                "device" => device = number(pair[1]),
                "inode" => inode = number(pair[1]),
                "host" => holder.host = Some(pair[1].to_owned()),
                _ => {}
            }
        }
        holder.owner = term.zip(nonce).map(|(term, nonce)| Owner { term, nonce });
        holder.file = device.zip(inode);
        holder
    }

    fn name(&self) -> String {
        let process = self.pid.map_or_else(|| "another process".to_owned(), |pid| format!("pid {pid}"));
        match &self.host {
            Some(host) if host_word().as_ref() != Some(host) => format!("{process} on {host}"),
            _ => process,
        }
    }
}

/// Returns the name of a file system whose locks are kept by another machine, or not at all.
fn network_file_system(kind: FsType) -> Option<&'static str> {
    // From linux/magic.h, statfs(2), and the file systems' own sources. The width of the number differs between
    // machines; the magic itself has 32 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "32 bits of it count")]
    let magic = kind.0 as u32;
    Some(match magic {
        0x6969 => "nfs",
        0xff53_4d42 => "cifs",
        0xfe53_4d42 => "smb",
        0x517b => "smbfs",
        0x0102_1997 => "9p",
        0x6573_5546 => "fuse",
        0x00c3_6400 => "ceph",
        0x5346_414f | 0x6b41_4653 => "afs",
        0x7375_7245 => "coda",
        0x564c => "ncp",
        0x0bd0_0bd0 => "lustre",
        0x0116_1970 => "gfs2",
        0x7461_636f => "ocfs2",
        0x4750_4653 => "gpfs",
        0x786f_4256 => "vboxsf",
        0x013c_661c => "orangefs",
        _ => return None,
    })
}

/// Gives a file that root makes in another user's folder to that user. Otherwise `sudo getid state advance` would leave
/// a server that cannot open its own record. If that is not permitted, the server's error names the file.
fn give_to_owner(folder: &File, file: &File) {
    if let Ok(folder) = fstat(folder)
        && geteuid().is_root()
        && folder.st_uid != 0
    {
        let _ = fchown(file, Some(Uid::from_raw(folder.st_uid)), Some(Gid::from_raw(folder.st_gid)));
    }
}

fn is_at(file: &File, folder: &File, name: &str) -> Result<bool, Errno> {
    match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(same_file(&found, &fstat(file)?)),
        Err(Errno::ENOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Returns device and inode, which identify a file.
fn file_number(file: &File) -> Option<(u64, u64)> {
    fstat(file).ok().map(|found| (found.st_dev, found.st_ino))
}

fn same_file(a: &FileStat, b: &FileStat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> SaveError {
    SaveError::Io { action, path: path.to_owned(), source: Arc::new(source) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// Between two steps of a save the folder or the lock is removed, and another server starts and saves. Its record
    /// stays, and the save does not count.
    #[test]
    fn a_claim_that_is_lost_while_it_saves() {
        type Mischief = fn(&Path);
        let replace_folder: Mischief = |dir| {
            fs::rename(dir, dir.with_extension("away")).unwrap();
            fs::create_dir(dir).unwrap();
        };
        let delete_lock: Mischief = |dir| fs::remove_file(dir.join("getid-0.lock")).unwrap();

        for (mischief, steps) in [
            (replace_folder, &SaveStep::ALL[..]),
            // After the rename, the record of a server that was fast enough is lost until its next save.
            (delete_lock, &[SaveStep::Write, SaveStep::SyncFile, SaveStep::ReadBack, SaveStep::Rename]),
        ] {
            for &at in steps {
                let above = TempDir::new().unwrap();
                let dir = above.path().join("dir");
                fs::create_dir(&dir).unwrap();
                let mut first = LockedFolder::lock(&dir, FileNames::of(0)).unwrap();
                assert_eq!(first.save("before").unwrap(), None);
                let mut second = None;
                let saved = first.save_watched("first", |step| {
                    if step == at {
                        mischief(&dir);
                        let mut locked = LockedFolder::lock(&dir, FileNames::of(0)).unwrap();
                        assert_eq!(locked.save("second").unwrap(), None);
                        second = Some(locked);
                    }
                });
                assert!(matches!(saved, Ok(Some(_))), "{at:?}: {saved:?}");
                assert_eq!(fs::read_to_string(dir.join("getid-0.state")).unwrap(), "second", "{at:?}");
                second.unwrap().save("more").unwrap();
            }
        }
    }

    /// Magic numbers from `stat -f` and `linux/magic.h`, and those of local disks.
    #[test]
    fn file_systems_of_a_network() {
        for (magic, name) in [
            (0x6969_u32, Some("nfs")),
            (0xff53_4d42, Some("cifs")),
            (0xfe53_4d42, Some("smb")),
            (0x0102_1997, Some("9p")),
            (0x6573_5546, Some("fuse")),
            (0x00c3_6400, Some("ceph")),
            (0xef53, None),
            (0x5846_5342, None),
            (0x9123_683e, None),
            (0x0102_1994, None),
            (0x794c_7630, None),
        ] {
            assert_eq!(network_file_system(FsType(magic.into())), name, "{magic:#x}");
        }
    }

    /// Other users with write permission to the folder can delete its files. In a sticky folder like /tmp only a file's
    /// owner can.
    #[test]
    fn a_folder_that_others_can_write() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = TempDir::new().unwrap();
        let expected = format!(
            "{0} can be written by other users, who may delete or replace the state in it: chmod 700 {0}",
            dir.path().display()
        );
        for (mode, warns) in [(0o700, false), (0o755, false), (0o1777, false), (0o777, true), (0o770, true)] {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            let locked = LockedFolder::lock(dir.path(), FileNames::of(0)).unwrap();
            let warnings: Vec<String> =
                locked.warnings().into_iter().filter(|text| text.contains("other users")).collect();
            assert_eq!(warnings, if warns { vec![expected.clone()] } else { Vec::new() }, "{mode:o}");
        }
    }

    #[test]
    fn files_of_root_belong_to_the_folder() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = TempDir::new().unwrap();
        // Only root can change the owner of files.
        let uid = if geteuid().is_root() { 12_345 } else { geteuid().as_raw() };
        let gid = if geteuid().is_root() { 12_345 } else { nix::unistd::getegid().as_raw() };
        std::os::unix::fs::chown(dir.path(), Some(uid), Some(gid)).unwrap();
        let mut locked = LockedFolder::lock(dir.path(), FileNames::of(0)).unwrap();
        locked.save("text").unwrap();
        for name in ["getid-0.state", "getid-0.lock"] {
            let found = fs::metadata(dir.path().join(name)).unwrap();
            assert_eq!((found.uid(), found.gid()), (uid, gid), "{name}");
        }
    }
}
