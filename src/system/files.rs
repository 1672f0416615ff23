//! Files that an operator names, opened and written with care.
//!
//! - **Read**: without waiting for anybody. A named pipe has somebody at its other end, or never will; opening one must
//!   not hold up a start or a change. So what is read must be a regular file (`/dev/null` is taken for an empty one). A
//!   link is followed: Kubernetes gives files by links.
//! - **Written**: not through a link in the last place of a path, which somebody else may have put there; made by
//!   ourselves, exclusively, under a name of our own, and renamed.
//!
//! A regular file on a disk that hangs still hangs: such work belongs on a thread that may wait.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{AccessFlags, eaccess};

/// The first `bytes_max + 1` bytes of a regular file: one more than allowed shows that it is too large.
///
/// # Errors
///
/// The operating system's, and a sentence for what is no regular file.
pub fn read(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits() | OFlag::O_NOCTTY.bits()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() && !is_null(&found) {
        return Err(not_regular(&found));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn not_regular(found: &fs::Metadata) -> io::Error {
    let kind = found.file_type();
    let what = if kind.is_dir() {
        // The system's own words, which reading it would have had.
        return Errno::EISDIR.into();
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    io::Error::other(format!("it is {what}, must be a regular file"))
}

/// `/dev/null`: an empty file by another name.
fn is_null(found: &fs::Metadata) -> bool {
    found.file_type().is_char_device() && found.rdev() == nix::sys::stat::makedev(1, 3)
}

/// Opens a file to write behind what is in it; makes it when it is not there, for others to read.
///
/// A regular file, a device, or a pipe that has a reader: one that has none is an error at once.
///
/// # Errors
///
/// The operating system's, and a sentence for a link, except for the system's own in `/dev` and `/proc`.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let follow = if is_systems(path) { OFlag::empty() } else { OFlag::O_NOFOLLOW };
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | follow;
    let opened = File::options().append(true).create(true).mode(0o644).custom_flags(flags.bits()).open(path);
    opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => io::Error::other(IS_LINK),
        Some(Errno::ENXIO) => io::Error::other(IS_NOT_READ),
        _ => error,
    })
}

const IS_LINK: &str = "it is a symbolic link, which is not followed; name the file that it leads to";
const IS_NOT_READ: &str = "it is a socket, or a named pipe that nobody reads; a regular file is expected";

/// Whether a link of this name is the system's, such as `/dev/stdout`. In other folders below `/dev` everybody may make
/// one.
fn is_systems(path: &Path) -> bool {
    let is_plain = !path.components().any(|part| part == Component::ParentDir);
    is_plain
        && (path.starts_with("/proc") || ["/dev", "/dev/fd"].iter().any(|dir| path.parent() == Some(Path::new(dir))))
}

/// Whether [`open_to_append`] could open a file there, as far as that can be told without making or opening anything: a
/// pipe's reader would see its end. `soon` is a folder that is going to be made.
///
/// # Errors
///
/// As [`open_to_append`].
pub fn can_append(path: &Path, soon: Option<&Path>) -> io::Result<()> {
    let found = if is_systems(path) { fs::metadata(path) } else { fs::symlink_metadata(path) };
    match found {
        Ok(found) if found.is_symlink() => Err(io::Error::other(IS_LINK)),
        Ok(found) if found.is_dir() => Err(Errno::EISDIR.into()),
        Ok(found) if found.file_type().is_socket() => Err(io::Error::other(IS_NOT_READ)),
        Ok(_) => Ok(eaccess(path, AccessFlags::W_OK)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => can_make(path, soon),
        Err(error) => Err(error),
    }
}

/// Whether this process could make a file of this name, which is not there: its folder is one, and lets it. `soon` is a
/// folder that is going to be made.
///
/// # Errors
///
/// The operating system's.
pub fn can_make(path: &Path, soon: Option<&Path>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if soon == Some(folder) {
        return Ok(());
    }
    if !fs::metadata(folder)?.is_dir() {
        return Err(Errno::ENOTDIR.into());
    }
    Ok(eaccess(folder, AccessFlags::W_OK | AccessFlags::X_OK)?)
}

/// Who may read and write a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// A file that is there keeps its mode, a new one is for its owner alone.
    AsBefore,
    /// Nobody but the owner, whatever it was: there are secrets in it.
    OwnerOnly,
    /// Everybody may read it, as far as the umask allows.
    Everybody,
}

/// Puts `bytes` into the place of a file, whole or not at all, on disk when this returns.
///
/// They go to a new file beside it, made exclusively, under a name that nobody can guess, which is renamed. The file
/// keeps its owner where that is allowed. `path` itself is replaced, even if it is a link: [`fs::canonicalize`] is the
/// caller's.
///
/// # Errors
///
/// The operating system's; then the file is as it was.
pub fn replace(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let old = replaceable(&path)?;
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{:016x}.tmp", rand::random::<u64>()));
    let beside = folder.join(beside);
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(if readers == Readers::Everybody { 0o644 } else { 0o600 })
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(&beside)?;
    let complete = |file: &mut File| {
        if let Some(old) = &old {
            // Only root may give a file away. Before the mode, which a change of owner may cut.
            let _ = std::os::unix::fs::fchown(&*file, Some(old.uid()), Some(old.gid()));
            if readers == Readers::AsBefore {
                file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
            }
        }
        file.write_all(bytes)?;
        file.sync_all()
    };
    let written = complete(&mut file).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // Ours, since it was made exclusively.
        let _ = fs::remove_file(&beside);
    }
    written?;
    File::open(folder)?.sync_all()
}

/// The regular file that a new one would take the place of; `None` without one. What a link leads to stays.
fn replaceable(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(old) if old.is_file() || old.is_symlink() => Ok(Some(old).filter(fs::Metadata::is_file)),
        // A rename would take the place of a device or a socket that somebody uses.
        Ok(other) => Err(not_regular(&other)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether [`replace`] could be done; nothing is made. `soon` is a folder that is going to be.
///
/// # Errors
///
/// As [`replace`].
pub fn can_replace(path: &Path, soon: Option<&Path>) -> io::Result<()> {
    replaceable(path)?;
    can_make(path, soon)
}

/// Gives a file that is there another content, in its place: for a folder in which nothing may be made. It must be
/// regular, and no link.
///
/// # Errors
///
/// The operating system's, and a sentence for what is no regular file.
pub fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut file = File::options().write(true).custom_flags(flags.bits()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(not_regular(&found));
    }
    file.set_len(0)?;
    file.write_all(bytes)
}

/// Whether [`overwrite`] could be done.
///
/// # Errors
///
/// As [`overwrite`].
pub fn can_overwrite(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_file() { Ok(eaccess(path, AccessFlags::W_OK)?) } else { Err(not_regular(&found)) }
}

/// How many links may follow each other, as in the kernel.
const LINKS_MAX: usize = 40;

/// The file that `path` leads to: a link that root or this process's user made is followed, so that a file that is
/// managed elsewhere stays where it is. One of somebody else is not: it may lead to a file that they want overwritten.
///
/// # Errors
///
/// The operating system's, and a sentence for a link of somebody else. A file that is not there is none.
pub fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let own = nix::unistd::geteuid().as_raw();
    let mut path = std::path::absolute(path)?;
    for _ in 0..LINKS_MAX {
        let found = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            found => found?,
        };
        if !found.is_symlink() {
            return Ok(path);
        }
        if found.uid() != 0 && found.uid() != own {
            return Err(io::Error::other(format!(
                "{} is a symbolic link of the user {}, which is not followed; only root's and getid's own are",
                path.display(),
                found.uid()
            )));
        }
        let to = fs::read_link(&path)?;
        path = path.parent().map_or_else(|| to.clone(), |folder| folder.join(&to));
    }
    Err(io::Error::other(format!("{LINKS_MAX} symbolic links lead to one another")))
}

/// Which file it is, whatever its name says by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl From<&fs::Metadata> for FileId {
    fn from(found: &fs::Metadata) -> FileId {
        FileId { device: found.dev(), inode: found.ino() }
    }
}

/// The file of this name, a link by itself; `None` when there is none.
pub fn id_of(path: &Path) -> Option<FileId> {
    fs::symlink_metadata(path).ok().as_ref().map(FileId::from)
}

/// Removes a file if it is still that one.
///
/// # Errors
///
/// The operating system's. A file that is gone, or that is another one now, is not an error.
pub fn remove_if(path: &Path, id: FileId) -> io::Result<()> {
    if id_of(path) != Some(id) {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn nothing_but_a_regular_file_is_read_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        assert_eq!(read(&at("pipe"), 10).unwrap_err().to_string(), "it is a named pipe, must be a regular file");
        assert_eq!(read(dir.path(), 10).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert!(read(&at("socket"), 10).is_err());
        assert_eq!(read(Path::new("/dev/zero"), 10).unwrap_err().to_string(), "it is a device, must be a regular file");
        assert_eq!(read(Path::new("/dev/null"), 10).unwrap(), b"");
        assert_eq!(read(&at("link"), 10).unwrap(), b"text");
        assert_eq!(read(&at("file"), 2).unwrap(), b"tex");
    }

    #[test]
    fn a_log_is_not_written_through_a_link_and_waits_for_no_reader() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        symlink("file", at("link")).unwrap();
        assert!(open_to_append(&at("pipe")).unwrap_err().to_string().contains("that nobody reads"));
        assert!(open_to_append(&at("link")).unwrap_err().to_string().contains("symbolic link"));
        assert!(!at("file").exists());
        open_to_append(&at("file")).unwrap().write_all(b"a").unwrap();
        open_to_append(&at("file")).unwrap().write_all(b"b").unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"ab");
        open_to_append(Path::new("/dev/null")).unwrap();
    }

    /// Everybody may make a link in `/dev/shm`, and `/dev/..` leads anywhere.
    #[test]
    fn only_the_systems_own_links_are_followed_by_a_log() {
        for (path, is_own) in [
            ("/dev/stdout", true),
            ("/dev/fd/2", true),
            ("/proc/self/fd/1", true),
            ("/dev/shm/getid.log", false),
            ("/dev/../tmp/getid.log", false),
            ("/proc/../tmp/getid.log", false),
            ("/tmp/getid.log", false),
            ("dev/stdout", false),
        ] {
            assert_eq!(is_systems(Path::new(path)), is_own, "{path}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_with_the_mode_that_it_should_have() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        replace(&at("new"), b"1", Readers::AsBefore).unwrap();
        assert_eq!(mode(&at("new")), 0o600);
        fs::set_permissions(at("new"), Permissions::from_mode(0o640)).unwrap();
        replace(&at("new"), b"2", Readers::AsBefore).unwrap();
        assert_eq!((mode(&at("new")), fs::read(at("new")).unwrap()), (0o640, b"2".to_vec()));
        replace(&at("new"), b"3", Readers::OwnerOnly).unwrap();
        assert_eq!(mode(&at("new")), 0o600);
        // What a link leads to is somebody else's.
        fs::write(at("victim"), "mine").unwrap();
        symlink("victim", at("link")).unwrap();
        replace(&at("link"), b"4", Readers::Everybody).unwrap();
        assert_eq!(fs::read(at("victim")).unwrap(), b"mine");
        assert!(fs::symlink_metadata(at("link")).unwrap().is_file());
        symlink("link2", at("link3")).unwrap();
        symlink("victim", at("link2")).unwrap();
        assert_eq!(behind_links(&at("link3")).unwrap(), at("victim"));
        assert_eq!(behind_links(&at("absent")).unwrap(), at("absent"));
        symlink("loop", at("loop")).unwrap();
        assert!(behind_links(&at("loop")).is_err());
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::lchown(at("link2"), Some(12_345), None).unwrap();
            let error = behind_links(&at("link3")).unwrap_err().to_string();
            assert!(error.contains("a symbolic link of the user 12345, which is not followed"), "{error}");
        }
        overwrite(&at("victim"), b"ours").unwrap();
        assert_eq!(fs::read(at("victim")).unwrap(), b"ours");
        assert!(overwrite(&at("link2"), b"x").is_err() && overwrite(&at("absent"), b"x").is_err());
        fs::create_dir(at("folder")).unwrap();
        assert!(replace(&at("folder"), b"5", Readers::AsBefore).is_err());
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 7, "nothing is left behind: {names:?}");
    }
}
