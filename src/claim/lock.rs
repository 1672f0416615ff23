//! The right to one server's record in one folder, as this process holds it; and the file work that needs it.
//!
//! Two processes that write the same record give the same IDs. A lock file of its own, `getid-<server-id>.lock`, keeps
//! the second one off: it is locked with flock, which ends with the process however it ends, and never renamed, as the
//! record's file is at every save (a lock on that would soon be a lock on nothing).
//!
//! A lock does not notice that someone deletes its file, or the whole folder, and creates it again: then two processes
//! hold two locks under one name. So the claim is checked before each save, directly before the rename, and after it.
//! All files are reached through the folder's handle: a write never lands in a folder that merely has the same name.
//!
//! Nor does it notice that a folder is a copy, in the place of one that another process still holds. So the lock file
//! says which file it is: if it holds another number than its own, or none, the writer of the record held another lock.
//!
//! Nor does a lock help where the file system loses it, as one over a network may. So lock file and record name their
//! [`Owner`], and before the rename both are read: what another life has written is not replaced.
//!
//! A save opens files, one at a time. Two descriptors are kept for that, so that a process which has reached its limit
//! can save all the same.
//!
//! Blocks. Everything here runs at the start, in a tool, or on a thread where waiting is allowed.

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
use crate::system::host;

/// How often a lock that is held is tried again, [`LOCK_PAUSE`] apart, before it counts as held: 200 ms in all.
///
/// For `getid state show`, which takes it for an instant to see whether it is free.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Descriptors kept for a save. It opens one file at a time; the second is for when another thread takes the first in
/// the instant between its end and the file's opening.
const SPARES: usize = 2;

/// Permissions of the lock file. Nobody else may open it: who can open it can lock it, and keep this server off.
const LOCK_MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// Permissions that a record may have. What others may write, they may replace by what repeats IDs.
const STATE_MODE: Mode = LOCK_MODE.union(Mode::S_IRGRP).union(Mode::S_IROTH);

/// What a save does, in this order. A crash may come between any two.
///
/// One list for the real and the simulated disk, so that the tests crash what servers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SaveStep {
    /// A new temporary file beside the record's gets the text.
    Write,
    /// The temporary file becomes durable, so that the name never leads to half a text.
    SyncFile,
    /// The record that is about to be replaced is read: it must be the one that this life wrote or found.
    ReadBack,
    /// The temporary file takes the record's name.
    Rename,
    /// The name becomes durable.
    SyncFolder,
}

impl SaveStep {
    /// In this order.
    pub const ALL: [SaveStep; 5] =
        [SaveStep::Write, SaveStep::SyncFile, SaveStep::ReadBack, SaveStep::Rename, SaveStep::SyncFolder];

    /// What an error calls it, between "cannot" and a path.
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

/// An open folder, and in it a lock file that this process has locked.
#[derive(Debug)]
pub(crate) struct LockedFolder {
    /// Absolute, so that it means the same after a change of the working folder.
    dir: PathBuf,
    names: Names,
    folder: File,
    lock: File,
    /// The temporary file, between the steps of a save.
    temp: Option<File>,
    /// Permissions that the record's file had; those of a new one follow the umask.
    mode: Option<Mode>,
    /// This process, in its term.
    owner: Owner,
    /// The lock file is not the one that the last holder had; until the first save of a life has succeeded.
    is_copy: bool,
    /// The owner of the record in the folder: the one that was found, then this one. `None`: none was found that reads.
    written_by: Option<Owner>,
    /// A newer getid wrote the record that was found.
    newer_was_found: bool,
    /// Open, and closed when a file must be opened and none can be.
    spares: Vec<OwnedFd>,
}

/// The names in the folder.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) state: String,
    pub(crate) temp: String,
    pub(crate) lock: String,
    /// What the record is of, for errors.
    whose: String,
}

impl Names {
    pub(crate) fn of(server_id: u32) -> Names {
        let state = format!("getid-{server_id}.state");
        let whose = format!("server-id {server_id}");
        Names { temp: format!("{state}.tmp"), lock: format!("getid-{server_id}.lock"), state, whose }
    }
}

/// How a claim was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The path leads nowhere.
    FolderGone,
    /// The path leads to another folder, and the one that was opened has been deleted.
    FolderReplaced,
    /// The path leads to another folder, and the one that was opened still exists: moved, or hidden by a mount.
    FolderHidden,
    /// There is no lock file in the folder.
    LockGone,
    /// There is another lock file in the folder.
    LockReplaced,
    /// Another process has written the record or the lock file, in this term or a later one.
    Overwritten { by: Owner },
    /// The record is one of an earlier life: put back by hand, or written by a holder that has lost its lock.
    OlderRecord { by: Owner },
    /// In one of the other ways, but now all is as it was.
    ForAWhile,
}

impl LockedFolder {
    /// Opens the folder and locks the lock file in it.
    pub(crate) fn lock(dir: &Path, names: Names) -> Result<LockedFolder, TakeError> {
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
                // Locked; but is it still the one with that name, or did someone delete it just now?
                Ok(()) => match is_at(&lock, &folder, &names.lock) {
                    Ok(true) => break lock,
                    Ok(false) if tries < LOCK_TRIES => {}
                    Ok(false) => return Err(failed("keep the lock file", Errno::ESTALE.into())),
                    Err(errno) => return Err(failed("look at the lock file", errno.into())),
                },
                Err(TryLockError::WouldBlock) if tries < LOCK_TRIES => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = Holder::read(lock).name();
                    return Err(TakeError::Held { path: lock_path, whose: names.whose, holder });
                }
                Err(TryLockError::Error(source)) => return Err(failed("lock", source)),
            }
            std::thread::sleep(LOCK_PAUSE);
        };
        give_to_owner(&folder, &lock);
        // An older getid let all users read it. Another user's file stays as it is.
        if fstat(&lock).is_ok_and(|found| found.st_mode & 0o077 != 0) {
            let _ = fchmod(&lock, LOCK_MODE);
        }

        let mode = fstatat(&folder, names.state.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
            .ok()
            .map(|found| Mode::from_bits_truncate(found.st_mode & STATE_MODE.bits()));
        let last = lock.try_clone().map(Holder::read).unwrap_or_default();
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
            newer_was_found: false,
            spares: Vec::new(),
        };
        locked.begin_term();
        locked.keep_spares();
        locked.remove_temp();
        Ok(locked)
    }

    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Whether the writer of the record may have held another lock, and may hold it still.
    pub(crate) fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// To be called once a record was saved: from now on this lock file is the one that the writer of the record had.
    pub(crate) fn mark_original(&mut self) {
        if std::mem::take(&mut self.is_copy) {
            // Where that fails, the next start waits once more than it needs to.
            let _ = self.write_lock();
        }
    }

    /// A new term begins, later than that of the record in the folder.
    pub(crate) fn begin_term(&mut self) {
        // What does not read is the caller's to judge.
        let found = read_at(&self.folder, &self.names.state).ok().flatten().map(|bytes| owner_in(&bytes));
        self.newer_was_found = matches!(found, Some(Err(RecordError::Newer { .. })));
        self.written_by = found.and_then(Result::ok);
        let last = self.owner.term.max(self.written_by.map_or(Term(0), |by| by.term));
        // 0 stands for no owner.
        self.owner = Owner { term: last.next(), nonce: rand::rng().random_range(1..=u64::MAX) };
        // Only for people who look: no reason to fail, even where the disk is full.
        let _ = self.write_lock();
    }

    /// Makes this term later than `term`, whatever is in the folder.
    pub(crate) fn raise_term_above(&mut self, term: Term) {
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
        // Processes of two containers may have one number: each is 1 in its own.
        if let Some(host) = host_word() {
            let _ = write!(line, " host {host}");
        }
        self.lock.write_all(format!("{line}\n").as_bytes())
    }

    /// What is not as it should be about the folder, and does not keep a server from starting.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let dir = self.dir.display();
        let mut warnings = Vec::new();
        if let Some(kind) = fstatfs(&self.folder).ok().and_then(|found| network_file_system(found.filesystem_type())) {
            warnings.push(format!(
                "{dir} is on a network file system ({kind}), which may lose a lock without a word: two servers that hold \
                 one record are noticed at their next save only, and until then may give the same IDs. Use a local disk, \
                 or a server-id for each server"
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

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn state_path(&self) -> PathBuf {
        self.dir.join(&self.names.state)
    }

    /// The bytes of the record's file, `None` where there is none.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, TakeError> {
        read_at(&self.folder, &self.names.state).map_err(|source| TakeError::Io {
            action: "read the record",
            path: self.state_path(),
            source,
        })
    }

    /// Whether lock file and folder are still the ones that were opened.
    pub(crate) fn check(&self) -> Result<Option<Lost>, SaveError> {
        let failed = |errno: Errno| io_error("look at", &self.dir, errno.into());
        let opened = fstat(&self.folder).map_err(failed)?;
        match stat(&self.dir) {
            Ok(found) if same_file(&found, &opened) => {}
            Ok(_) if opened.st_nlink == 0 => return Ok(Some(Lost::FolderReplaced)),
            Ok(_) => return Ok(Some(Lost::FolderHidden)),
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Ok(Some(Lost::FolderGone)),
            Err(errno) => return Err(failed(errno)),
        }
        match fstatat(&self.folder, self.names.lock.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if same_file(&found, &fstat(&self.lock).map_err(failed)?) => Ok(None),
            Ok(_) => Ok(Some(Lost::LockReplaced)),
            Err(Errno::ENOENT) => Ok(Some(Lost::LockGone)),
            Err(errno) => Err(io_error("look at", &self.dir.join(&self.names.lock), errno.into())),
        }
    }

    /// What `lost` means, as the end of "claim lost: ".
    pub(crate) fn describe(&self, lost: Lost) -> String {
        let dir = self.dir.display();
        let lock = &self.names.lock;
        match lost {
            Lost::FolderGone => format!("the folder {dir} is gone; put it back, or make it anew"),
            Lost::FolderReplaced => format!("the folder {dir} was deleted and made anew"),
            Lost::FolderHidden => format!(
                "{dir} is another folder than at the start, and that one still exists (moved, or hidden by a mount); \
                 put it back, or restart this server"
            ),
            Lost::LockGone => format!("the lock file {dir}/{lock} was deleted"),
            Lost::LockReplaced => format!("the lock file {dir}/{lock} is another one than at the start"),
            Lost::Overwritten { by } => format!(
                "another server (term {}; this one has term {}) has written {dir}/{} or its lock file, although this one \
                 holds the lock, as can happen on a network file system; stop one of the two, then restart this one",
                by.term, self.owner.term, self.names.state
            ),
            Lost::OlderRecord { by } => format!(
                "{dir}/{} is one of an earlier life (term {}; this one has term {})",
                self.names.state, by.term, self.owner.term
            ),
            Lost::ForAWhile => format!("another server may have had a folder {dir} meanwhile"),
        }
    }

    /// Writes `text` so that it is the record's file after any crash, and the old one is until then. Says so where the
    /// claim was lost; the text may then be there or not.
    pub(crate) fn save(&mut self, text: &str) -> Result<Option<Lost>, SaveError> {
        self.save_watched(text, |_| {})
    }

    /// `save`; a test does its mischief in `before`.
    fn save_watched(&mut self, text: &str, mut before: impl FnMut(SaveStep)) -> Result<Option<Lost>, SaveError> {
        for step in SaveStep::ALL {
            before(step);
            // The sync of the file is the long part, and the rename is what would hurt another server's record.
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
                // Frees its blocks on a full disk; the next save begins with a new file in any case, because after a
                // failed fsync the system may have dropped what it could not write and call the old one clean.
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

    /// Whether record and lock file, as they read now, are this process's.
    ///
    /// A record that is gone or damaged has no owner, and this server knows better: it is replaced. So is a lock
    /// file that says nothing.
    pub(crate) fn check_owner(&mut self) -> Result<Option<Lost>, SaveError> {
        let path = self.state_path();
        let bytes = self.with_spares(|locked| read_at(&locked.folder, &locked.names.state));
        match bytes.map_err(|source| io_error("read back", &path, source))?.as_deref().map(owner_in) {
            Some(Ok(by)) if by != self.owner && Some(by) != self.written_by => {
                let older = by.term < self.owner.term;
                return Ok(Some(if older { Lost::OlderRecord { by } } else { Lost::Overwritten { by } }));
            }
            Some(Err(RecordError::Newer { .. })) if !self.newer_was_found => {
                let by = Owner { term: self.owner.term.next(), nonce: 0 };
                return Ok(Some(Lost::Overwritten { by }));
            }
            _ => {}
        }
        let path = self.dir.join(&self.names.lock);
        let lock = self.with_spares(|locked| read_at(&locked.folder, &locked.names.lock));
        match lock.map_err(|source| io_error("read back", &path, source))?.and_then(|text| Holder::of(&text).owner) {
            Some(by) if by != self.owner && by.term >= self.owner.term => Ok(Some(Lost::Overwritten { by })),
            _ => Ok(None),
        }
    }

    /// Puts the record's file, as it is, aside under another name, and returns that.
    pub(crate) fn copy_aside(&self, bytes: &[u8], unix_ms: i64) -> io::Result<PathBuf> {
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
                let Names { state, temp, .. } = &self.names;
                renameat(&self.folder, temp.as_str(), &self.folder, state.as_str())?;
                (self.written_by, self.newer_was_found) = (Some(self.owner), false);
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

    /// Does what opens a file; where the process may open no more of them, with one of the kept descriptors closed.
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

    /// Keeps a descriptor that is no longer needed, if one is missing: in one step, so that no other thread gets its
    /// number.
    fn keep_as_spare(&mut self, file: File) {
        let mut kept = OwnedFd::from(file);
        if self.spares.len() < SPARES && dup3(&self.folder, &mut kept, OFlag::O_CLOEXEC).is_ok() {
            self.spares.push(kept);
        }
    }

    /// As many as there should be, or as many as there can be.
    fn keep_spares(&mut self) {
        while self.spares.len() < SPARES {
            let Ok(spare) = self.folder.try_clone() else { return };
            self.spares.push(spare.into());
        }
    }

    /// Removes what a crash or a failed save left. Where that fails, the next save fails too, and says why.
    fn remove_temp(&self) {
        let _ = unlinkat(&self.folder, self.names.temp.as_str(), UnlinkatFlags::NoRemoveDir);
    }
}

/// The process that holds the claim to `server_id` in `dir`, as "pid 123"; `None` when there is none.
pub(crate) fn holder_of(dir: &Path, server_id: u32) -> io::Result<Option<String>> {
    // Neither a link nor a pipe that nobody writes may lead a start astray.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let path = dir.join(Names::of(server_id).lock);
    let lock = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match lock.try_lock_shared() {
        // Let go at once, when the file is closed; a server that starts in this instant tries again.
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(Holder::read(lock).name())),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// That another process holds the claim to `server_id` in `dir`, as [`LockedFolder::lock`] says it; `None`: nobody
/// does, or this process may not look.
pub(crate) fn held(dir: &Path, server_id: u32) -> Option<TakeError> {
    let holder = holder_of(dir, server_id).ok()??;
    let Names { lock, whose, .. } = Names::of(server_id);
    Some(TakeError::Held { path: dir.join(lock), whose, holder })
}

/// The bytes of a regular file in `folder`, at most one more than a record may have; `None` where there is none.
fn read_at(folder: impl AsFd, name: impl AsRef<Path>) -> io::Result<Option<Vec<u8>>> {
    // A symbolic link is refused: its target may be missing today, which would look like a first start. And opening a
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

/// [`read_at`] for a file that is only looked at, without a claim.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    read_at(nix::fcntl::AT_FDCWD, path)
}

/// The owner of a record, of any kind.
fn owner_in(bytes: &[u8]) -> Result<Owner, RecordError> {
    Envelope::parse(bytes).map(|opened| opened.envelope.owner)
}

/// What the holder of a lock wrote about itself. Empty between its lock and its write, or on a full disk.
#[derive(Default)]
struct Holder {
    pid: Option<u32>,
    /// An older getid wrote none.
    owner: Option<Owner>,
    /// Device and inode of the lock file itself, once a life has begun with it. An older getid wrote none.
    file: Option<(u64, u64)>,
    /// The name of its host, which is that of its container. An older getid wrote none.
    host: Option<String>,
}

/// The name of this host, if it is one word as names of hosts are.
fn host_word() -> Option<String> {
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    Some(host::name()).filter(|name| !name.is_empty() && name.len() <= 64 && name.bytes().all(is_of_names))
}

impl Holder {
    const BYTES_MAX: u64 = 256;

    fn read(mut lock: File) -> Holder {
        let mut text = Vec::new();
        // A descriptor that was cloned has the place of the other one.
        let _ = lock.rewind().and_then(|()| lock.take(Holder::BYTES_MAX).read_to_end(&mut text));
        Holder::of(&text)
    }

    fn of(text: &[u8]) -> Holder {
        let mut holder = Holder::default();
        let (mut term, mut nonce, mut device, mut inode) = (None, None, None, None);
        let text = String::from_utf8_lossy(text);
        // One line, and the pid first: an older getid wrote only that, and scripts look for it there.
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

/// The name of a file system whose locks are kept by another machine, or not at all.
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

/// Files that root makes in another user's folder are that user's, or `sudo getid state advance` would leave a server
/// that cannot open its own record. Where that is not allowed, the server's error will name the file.
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

/// Device and inode, which no two files have at one time.
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

    /// Between two steps of a save, someone takes the folder or the lock away and another server starts and saves. What
    /// that one saved stays, and the save does not count.
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
            // After the rename, the record of a server that was quick enough is lost. Only its next save helps.
            (delete_lock, &[SaveStep::Write, SaveStep::SyncFile, SaveStep::ReadBack, SaveStep::Rename]),
        ] {
            for &at in steps {
                let above = TempDir::new().unwrap();
                let dir = above.path().join("dir");
                fs::create_dir(&dir).unwrap();
                let mut first = LockedFolder::lock(&dir, Names::of(0)).unwrap();
                assert_eq!(first.save("before").unwrap(), None);
                let mut second = None;
                let saved = first.save_watched("first", |step| {
                    if step == at {
                        mischief(&dir);
                        let mut locked = LockedFolder::lock(&dir, Names::of(0)).unwrap();
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

    /// Magic numbers as `stat -f` and `linux/magic.h` have them, and those of disks.
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

    /// Other users who may write to the folder may delete what is in it; in one like /tmp only the owner of a file may.
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
            let locked = LockedFolder::lock(dir.path(), Names::of(0)).unwrap();
            let warnings: Vec<String> =
                locked.warnings().into_iter().filter(|text| text.contains("other users")).collect();
            assert_eq!(warnings, if warns { vec![expected.clone()] } else { Vec::new() }, "{mode:o}");
        }
    }

    #[test]
    fn files_of_root_belong_to_the_folder() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = TempDir::new().unwrap();
        // Only root can give files away, and needs to.
        let uid = if geteuid().is_root() { 12_345 } else { geteuid().as_raw() };
        let gid = if geteuid().is_root() { 12_345 } else { nix::unistd::getegid().as_raw() };
        std::os::unix::fs::chown(dir.path(), Some(uid), Some(gid)).unwrap();
        let mut locked = LockedFolder::lock(dir.path(), Names::of(0)).unwrap();
        locked.save("text").unwrap();
        for name in ["getid-0.state", "getid-0.lock"] {
            let found = fs::metadata(dir.path().join(name)).unwrap();
            assert_eq!((found.uid(), found.gid()), (uid, gid), "{name}");
        }
    }
}
