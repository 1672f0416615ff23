//! The right to one server's record in one folder, as this process holds it; and the file work that needs it.
//!
//! Two processes that write the same record give the same IDs. A lock file of its own, `getid-<server-id>.lock`, keeps
//! the second one off: it is locked with flock, which ends with the process however it ends, and never renamed, as the
//! record's file is at every save (a lock on that would soon be a lock on nothing).
//!
//! What a lock cannot see is that someone deletes it, or the whole folder, and makes it anew: then two processes hold
//! two locks under one name. So the claim is checked before each save, directly before the rename, and after it. All
//! files are reached through the folder's handle: a write never lands in a folder that merely has the same name.
//!
//! Blocks. Everything here runs at the start, in a tool, or on a thread where waiting is allowed.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, fstatat, stat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, geteuid, unlinkat};

use super::file::OpenError;
use super::record::TEXT_BYTES_MAX;
use super::{SaveError, SaveStep};

/// How often a lock that is held is tried again, [`LOCK_PAUSE`] apart, before it counts as held: 200 ms in all.
///
/// For `getid state show`, which takes it for an instant to see whether it is free.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// An open folder, and in it a lock file that this process has locked.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Absolute, so that it means the same after a change of the working folder.
    dir: PathBuf,
    names: Names,
    folder: File,
    lock: File,
    /// The temporary file, between the steps of a save.
    temp: Option<File>,
    /// Permissions that the record's file had; those of a new one follow the umask.
    mode: Option<Mode>,
}

/// The names in the folder.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) state: String,
    pub(crate) temp: String,
    pub(crate) lock: String,
}

impl Names {
    pub(crate) fn of(server_id: u32) -> Names {
        let state = format!("getid-{server_id}.state");
        Names { temp: format!("{state}.tmp"), lock: format!("getid-{server_id}.lock"), state }
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
}

impl Claim {
    /// Opens the folder and locks the lock file in it.
    pub(crate) fn take(dir: &Path, server_id: u32) -> Result<Claim, OpenError> {
        let dir = std::path::absolute(dir).map_err(|source| OpenError::Folder { path: dir.to_owned(), source })?;
        let names = Names::of(server_id);
        let folder = open(&dir, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(|errno| OpenError::Folder { path: dir.clone(), source: errno.into() })?;

        let lock_path = dir.join(&names.lock);
        let failed = |action, source| OpenError::Io { action, path: lock_path.clone(), source };
        let mut tries = 0;
        let mut lock = loop {
            let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            let lock = openat(&folder, names.lock.as_str(), flags, Mode::from_bits_truncate(0o644))
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
                    return Err(OpenError::Held { path: lock_path, server_id, holder: written_holder(lock) });
                }
                Err(TryLockError::Error(source)) => return Err(failed("lock", source)),
            }
            std::thread::sleep(LOCK_PAUSE);
        };
        give_to_owner(&folder, &lock);
        // Only for the error text of a second process: no reason to fail, even where the disk is full.
        let _ = write_holder(&mut lock);

        let mode = fstatat(&folder, names.state.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
            .ok()
            .map(|found| Mode::from_bits_truncate(found.st_mode & 0o777));
        let claim = Claim { dir, names, folder, lock, temp: None, mode };
        claim.remove_temp();
        Ok(claim)
    }

    /// The folder's absolute path.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The path of the record's file.
    pub(crate) fn state_path(&self) -> PathBuf {
        self.dir.join(&self.names.state)
    }

    /// The bytes of the record's file, `None` where there is none.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, OpenError> {
        read_at(&self.folder, &self.names.state).map_err(|source| OpenError::Io {
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
        }
    }

    /// Writes `text` so that it is the record's file after any crash, and the old one is until then.
    ///
    /// # Errors
    ///
    /// [`SaveError::Io`] and [`SaveError::ClaimLost`].
    pub(crate) fn save(&mut self, text: &str) -> Result<(), SaveError> {
        self.save_watched(text, |_| {})
    }

    /// `save`; a test does its mischief in `before`.
    fn save_watched(&mut self, text: &str, mut before: impl FnMut(SaveStep)) -> Result<(), SaveError> {
        for step in SaveStep::ALL {
            before(step);
            // The sync of the file is the long part, and the rename is what would hurt another server's record.
            if matches!(step, SaveStep::Write | SaveStep::Rename) {
                self.require()?;
            }
            if let Err(source) = self.perform(step, text) {
                // Frees its blocks on a full disk; the next save begins with a new file in any case, because after a
                // failed fsync the system may have dropped what it could not write and call the old one clean.
                self.temp = None;
                self.remove_temp();
                let path = match step {
                    SaveStep::Write | SaveStep::SyncFile => self.dir.join(&self.names.temp),
                    SaveStep::Rename => self.state_path(),
                    SaveStep::SyncFolder => self.dir.clone(),
                };
                return Err(io_error(step.action(), &path, source));
            }
        }
        self.require()
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

    fn require(&self) -> Result<(), SaveError> {
        match self.check()? {
            None => Ok(()),
            Some(lost) => Err(SaveError::ClaimLost { what: self.describe(lost) }),
        }
    }

    fn perform(&mut self, step: SaveStep, text: &str) -> io::Result<()> {
        match step {
            SaveStep::Write => {
                self.remove_temp();
                let mut temp = self.create(&self.names.temp, OFlag::O_EXCL)?;
                if let Some(mode) = self.mode {
                    fchmod(&temp, mode)?;
                }
                temp.write_all(text.as_bytes())?;
                self.temp = Some(temp);
            }
            SaveStep::SyncFile => {
                if let Some(temp) = self.temp.take() {
                    temp.sync_all()?;
                }
            }
            SaveStep::Rename => {
                let Names { state, temp, .. } = &self.names;
                renameat(&self.folder, temp.as_str(), &self.folder, state.as_str())?;
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

    /// Removes what a crash or a failed save left. Where that fails, the next save fails too, and says why.
    fn remove_temp(&self) {
        let _ = unlinkat(&self.folder, self.names.temp.as_str(), UnlinkatFlags::NoRemoveDir);
    }
}

/// Who holds the claim to `server_id` in `dir`, as "pid 123"; `None` when nobody does.
pub(crate) fn holder(dir: &Path, server_id: u32) -> io::Result<Option<String>> {
    let lock = match File::open(dir.join(Names::of(server_id).lock)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match lock.try_lock_shared() {
        // Let go at once, when the file is closed; a server that starts in this instant tries again.
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(written_holder(lock))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The bytes of a regular file in `folder`, at most one more than a record may have; `None` where there is none.
fn read_at(folder: impl AsFd, name: impl AsRef<Path>) -> io::Result<Option<Vec<u8>>> {
    // A symbolic link is no record: where it leads may be missing today, which would look like a first start. And
    // opening a pipe must not wait for somebody to write to it.
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

fn write_holder(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(format!("pid {}\n", std::process::id()).as_bytes())
}

/// What the holder of a lock wrote about itself. Empty between its lock and its write, or on a full disk.
fn written_holder(lock: File) -> String {
    let mut text = String::new();
    let _ = lock.take(64).read_to_string(&mut text);
    match text.trim().strip_prefix("pid ").map(str::parse::<u32>) {
        Some(Ok(pid)) => format!("pid {pid}"),
        _ => "another process".to_owned(),
    }
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
            (delete_lock, &[SaveStep::Write, SaveStep::SyncFile, SaveStep::Rename]),
        ] {
            for &at in steps {
                let above = TempDir::new().unwrap();
                let dir = above.path().join("dir");
                fs::create_dir(&dir).unwrap();
                let mut first = Claim::take(&dir, 0).unwrap();
                first.save("before").unwrap();
                let mut second = None;
                let saved = first.save_watched("first", |step| {
                    if step == at {
                        mischief(&dir);
                        let mut claim = Claim::take(&dir, 0).unwrap();
                        claim.save("second").unwrap();
                        second = Some(claim);
                    }
                });
                assert!(matches!(saved, Err(SaveError::ClaimLost { .. })), "{at:?}: {saved:?}");
                assert_eq!(fs::read_to_string(dir.join("getid-0.state")).unwrap(), "second", "{at:?}");
                second.unwrap().save("more").unwrap();
            }
        }
    }

    #[test]
    fn files_of_root_belong_to_the_folder() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = TempDir::new().unwrap();
        // Who is not root can give nothing away, and need not.
        let uid = if geteuid().is_root() { 12_345 } else { geteuid().as_raw() };
        let gid = if geteuid().is_root() { 12_345 } else { nix::unistd::getegid().as_raw() };
        std::os::unix::fs::chown(dir.path(), Some(uid), Some(gid)).unwrap();
        let mut claim = Claim::take(dir.path(), 0).unwrap();
        claim.save("text").unwrap();
        for name in ["getid-0.state", "getid-0.lock"] {
            let found = fs::metadata(dir.path().join(name)).unwrap();
            assert_eq!((found.uid(), found.gid()), (uid, gid), "{name}");
        }
    }
}
