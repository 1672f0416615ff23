//! Files that an operator names, opened and written safely.
//!
//! - **Read** without waiting. Opening a named pipe waits for its other end, which may never come, and must not hold up
//!   a start or a change. So the file must be regular (`/dev/null` counts as empty). Links are followed: Kubernetes
//!   provides files as links.
//! - **Written** not through a link as the last part of a path, which another user may have put there. New content goes
//!   to a file that this process creates exclusively, under a name of its own, and renames.
//!
//! A regular file on a disk that hangs still hangs: such work belongs on a thread that may block.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::{AccessFlags, eaccess};

/// Reads the first `bytes_max + 1` bytes of a regular file: one more than allowed shows that it is too large.
///
/// # Errors
///
/// The operating system's error, or a sentence for a file that is not regular.
pub fn read(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    read_with_mode(path, bytes_max).map(|(bytes, _)| bytes)
}

/// Reads a file as [`read`] does, and returns the permission bits of the opened file too.
///
/// # Errors
///
/// As [`read`].
pub fn read_with_mode(path: &Path, bytes_max: usize) -> io::Result<(Vec<u8>, u32)> {
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits() | OFlag::O_NOCTTY.bits()).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() && !is_null(&found) {
        return Err(not_regular(&found));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes)?;
    Ok((bytes, found.mode() & 0o7777))
}

fn not_regular(found: &fs::Metadata) -> io::Error {
    let kind = found.file_type();
    let what = if kind.is_dir() {
        // The system's own error for reading a folder.
        return Errno::EISDIR.into();
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    io::Error::other(format!("it is {what}; a regular file is expected"))
}

/// Whether the file is `/dev/null`, which counts as an empty file.
fn is_null(found: &fs::Metadata) -> bool {
    found.file_type().is_char_device() && found.rdev() == nix::sys::stat::makedev(1, 3)
}

/// Opens a file for appending; creates it readable for all if it does not exist.
///
/// The file may be a regular file, a device, or a pipe that has a reader. A pipe without a reader is an error at once.
///
/// # Errors
///
/// The operating system's error, or a sentence for a link. The system's own links in `/dev` and `/proc` are followed.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let follow = if is_systems(path) { OFlag::empty() } else { OFlag::O_NOFOLLOW };
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | follow;
    let opened = File::options().append(true).create(true).mode(0o644).custom_flags(flags.bits()).open(path);
    opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => io::Error::other(IS_LINK),
        Some(Errno::ENXIO) => io::Error::other(HAS_NO_READER),
        _ => error,
    })
}

const IS_LINK: &str = "it is a symbolic link, which is not followed; name the file that it leads to";
const HAS_NO_READER: &str = "it is a socket, or a named pipe without a reader; a regular file is expected";

/// Whether a link of this name belongs to the system, such as `/dev/stdout`. In other folders below `/dev` all users
/// may create links.
fn is_systems(path: &Path) -> bool {
    let is_plain = !path.components().any(|part| part == Component::ParentDir);
    is_plain
        && (path.starts_with("/proc") || ["/dev", "/dev/fd"].iter().any(|dir| path.parent() == Some(Path::new(dir))))
}

/// Fails if [`open_to_append`] could not open the file, as far as is known without creating or opening anything: the
/// reader of a pipe would see its end. `planned_folder` is a folder that will be created.
///
/// # Errors
///
/// Those of [`open_to_append`].
pub fn check_append(path: &Path, planned_folder: Option<&Path>) -> io::Result<()> {
    let found = if is_systems(path) { fs::metadata(path) } else { fs::symlink_metadata(path) };
    match found {
        Ok(found) if found.is_symlink() => Err(io::Error::other(IS_LINK)),
        Ok(found) if found.is_dir() => Err(Errno::EISDIR.into()),
        Ok(found) if found.file_type().is_socket() => Err(io::Error::other(HAS_NO_READER)),
        Ok(_) => Ok(eaccess(path, AccessFlags::W_OK)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => check_create(path, planned_folder),
        Err(error) => Err(error),
    }
}

/// Fails if this process could not create a file of this name in its folder. The file does not exist.
/// `planned_folder` is a folder that will be created.
///
/// # Errors
///
/// The operating system's error.
pub fn check_create(path: &Path, planned_folder: Option<&Path>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if planned_folder == Some(folder) {
        return Ok(());
    }
    if !fs::metadata(folder)?.is_dir() {
        return Err(Errno::ENOTDIR.into());
    }
    Ok(eaccess(folder, AccessFlags::W_OK | AccessFlags::X_OK)?)
}

/// Permissions of a written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// An existing file keeps its mode; a new one is for its owner only.
    AsBefore,
    /// The file contains secrets: only the owner may access it, whatever its mode was.
    OwnerOnly,
    /// All users may read the file, as far as the umask allows.
    AllUsers,
}

/// Replaces a file's content with `bytes`, all or nothing. The content is on disk when this returns.
///
/// The bytes go to a new file beside it, created exclusively under an unguessable name, which is then renamed. The file
/// keeps its owner where that is allowed. `path` itself is replaced, even if it is a link: the caller may call
/// [`fs::canonicalize`] first.
///
/// # Errors
///
/// The operating system's error; then the file is unchanged.
pub fn replace(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let old = replaceable(&path)?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{:016x}.tmp", rand::random::<u64>()));
    let temporary = folder.join(temporary);
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(if readers == Readers::AllUsers { 0o644 } else { 0o600 })
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(&temporary)?;
    let complete = |file: &mut File| {
        if let Some(old) = &old {
            // Only root may give a file away. The owner comes before the mode, because changing it may clear mode bits.
            let _ = std::os::unix::fs::fchown(&*file, Some(old.uid()), Some(old.gid()));
            if readers == Readers::AsBefore {
                file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
            }
        }
        file.write_all(bytes)?;
        file.sync_all()
    };
    let written = complete(&mut file).and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        // The file is this process's, since it was created exclusively.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(folder)?.sync_all()
}

/// Returns the regular file that a new one would replace; `None` if there is none. The target of a link is not
/// replaced.
fn replaceable(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(old) if old.is_file() || old.is_symlink() => Ok(Some(old).filter(fs::Metadata::is_file)),
        // A rename would replace a device or a socket that is in use.
        Ok(other) => Err(not_regular(&other)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Fails if [`replace`] could not replace the file; creates nothing. `planned_folder` is a folder that will be created.
///
/// # Errors
///
/// Those of [`replace`].
pub fn check_replace(path: &Path, planned_folder: Option<&Path>) -> io::Result<()> {
    replaceable(path)?;
    check_create(path, planned_folder)
}

/// Overwrites an existing file in place, for a folder in which no file may be created. The file must be regular and not
/// a link.
///
/// # Errors
///
/// The operating system's error, or a sentence for a file that is not regular.
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

/// Fails if [`overwrite`] could not write the file.
///
/// # Errors
///
/// Those of [`overwrite`].
pub fn check_overwrite(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_file() { Ok(eaccess(path, AccessFlags::W_OK)?) } else { Err(not_regular(&found)) }
}

/// The longest chain of links that is followed, as in the kernel.
const LINKS_MAX: usize = 40;

/// Returns the file that `path` leads to. Links of root or this process's user are followed, so that a file that is
/// managed elsewhere stays there. Links of other users are refused: they may lead to a file that those users cannot
/// write.
///
/// # Errors
///
/// The operating system's error, or a sentence for a link of another user. A missing file is not an error.
pub fn resolve_links(path: &Path) -> io::Result<PathBuf> {
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

/// Identity of a file, whatever its name is later.
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

/// Returns the identity of the file or the link of this name; `None` if it does not exist.
pub fn id_of(path: &Path) -> Option<FileId> {
    fs::symlink_metadata(path).ok().as_ref().map(FileId::from)
}

/// Removes the file if it still has this identity.
///
/// # Errors
///
/// The operating system's error. A file that is gone or was replaced is not an error.
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
    fn only_regular_files_are_read_and_a_pipe_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        assert_eq!(read(&at("pipe"), 10).unwrap_err().to_string(), "it is a named pipe; a regular file is expected");
        assert_eq!(read(dir.path(), 10).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert!(read(&at("socket"), 10).is_err());
        assert_eq!(
            read(Path::new("/dev/zero"), 10).unwrap_err().to_string(),
            "it is a device; a regular file is expected"
        );
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
        assert!(open_to_append(&at("pipe")).unwrap_err().to_string().contains("without a reader"));
        assert!(open_to_append(&at("link")).unwrap_err().to_string().contains("symbolic link"));
        assert!(!at("file").exists());
        open_to_append(&at("file")).unwrap().write_all(b"a").unwrap();
        open_to_append(&at("file")).unwrap().write_all(b"b").unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"ab");
        open_to_append(Path::new("/dev/null")).unwrap();
    }

    /// All users may create a link in `/dev/shm`, and `/dev/..` leads anywhere.
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
        // The target of a link belongs to another user.
        fs::write(at("victim"), "mine").unwrap();
        symlink("victim", at("link")).unwrap();
        replace(&at("link"), b"4", Readers::AllUsers).unwrap();
        assert_eq!(fs::read(at("victim")).unwrap(), b"mine");
        assert!(fs::symlink_metadata(at("link")).unwrap().is_file());
        symlink("link2", at("link3")).unwrap();
        symlink("victim", at("link2")).unwrap();
        assert_eq!(resolve_links(&at("link3")).unwrap(), at("victim"));
        assert_eq!(resolve_links(&at("absent")).unwrap(), at("absent"));
        symlink("loop", at("loop")).unwrap();
        assert!(resolve_links(&at("loop")).is_err());
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::lchown(at("link2"), Some(12_345), None).unwrap();
            let error = resolve_links(&at("link3")).unwrap_err().to_string();
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
