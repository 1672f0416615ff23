//! The pid file, for scripts that send signals.
//!
//! The server does not depend on it: if it fails, the caller logs the error and keeps serving, as Redis does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use getid_system::files::{self, FileId, Readers};

/// A file with the process id (`pidfile`), for scripts that send signals.
#[derive(Debug)]
pub(in crate::cli) struct PidFile {
    path: PathBuf,
    id: FileId,
}

/// Largest part of a pid file that is read, bytes: a number has at most ten digits.
const PID_BYTES_MAX: usize = 64;

impl PidFile {
    /// Writes this process's id to `path`. As in Redis, a file left by a crash is replaced, but not the file of a
    /// running getid. The file is a new one: the target of a link of this name is not touched.
    pub(in crate::cli) fn write(path: &Path) -> Result<PidFile, PidFileError> {
        let wrap = |error| PidFileError { path: path.to_owned(), error };
        let path = std::path::absolute(path).map_err(wrap)?;
        if let Some(pid) = running_getid(&path) {
            let sentence =
                format!("it belongs to the running getid with pid {pid}, and is unchanged; name another file");
            return Err(wrap(io::Error::other(sentence)));
        }
        let text = format!("{}\n", std::process::id());
        let written = match files::replace(&path, text.as_bytes(), Readers::AllUsers) {
            // The file was made for this user, in a folder of another user, such as /run.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                files::overwrite(&path, text.as_bytes()).map_err(|_| error)
            }
            written => written,
        };
        written.map_err(wrap)?;
        let id = files::id_of(&path).ok_or_else(|| wrap(io::ErrorKind::NotFound.into()))?;
        Ok(PidFile { path, id })
    }

    /// Checks whether the file could be written, without writing it. A file of a running getid is no error, because
    /// that getid may be about to be restarted. `soon` is a folder that the start will make.
    pub(in crate::cli) fn check(path: &Path, soon: Option<&Path>) -> Result<(), PidFileError> {
        let checked = match files::check_replace(path, soon) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                files::check_overwrite(path).map_err(|_| error)
            }
            checked => checked,
        };
        checked.map_err(|error| PidFileError { path: path.to_owned(), error })
    }

    /// Removes the file at a clean exit, unless it is gone or was replaced.
    pub(in crate::cli) fn remove(self) -> Result<(), PidFileError> {
        files::remove_if(&self.path, self.id).map_err(|error| PidFileError { path: self.path, error })
    }
}

/// Returns the process id in a pid file, if it is another running process with this process's name.
fn running_getid(path: &Path) -> Option<u32> {
    let text = files::read(path, PID_BYTES_MAX).ok()?;
    let pid: u32 = str::from_utf8(&text).ok()?.trim().parse().ok()?;
    let name_of = |pid: &str| fs::read(format!("/proc/{pid}/comm")).ok();
    (pid != std::process::id() && name_of(&pid.to_string())? == name_of("self")?).then_some(pid)
}

#[derive(Debug, thiserror::Error)]
#[error("pid file {}: {error}", path.display())]
pub(in crate::cli) struct PidFileError {
    /// Path of the pid file.
    pub path: PathBuf,
    pub error: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_is_written_and_removed_while_it_is_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("getid.pid");
        fs::write(&path, "1234567890\nleft by a crash\n").unwrap();
        let file = PidFile::write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        file.remove().unwrap();
        assert!(!path.exists());

        // Another file has this name now, even with the same number in it.
        let file = PidFile::write(&path).unwrap();
        let other = PidFile::write(&path).unwrap();
        file.remove().unwrap();
        assert!(path.exists());
        other.remove().unwrap();
        assert!(!path.exists());

        // A link is replaced, and its target stays.
        let victim = dir.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        PidFile::write(&path).unwrap().remove().unwrap();
        assert_eq!((fs::read_to_string(&victim).unwrap().as_str(), path.exists()), ("mine", false));

        let file = PidFile::write(&path).unwrap();
        fs::remove_file(&path).unwrap();
        file.remove().unwrap();

        let error = PidFile::write(&dir.path().join("no/getid.pid")).unwrap_err().to_string();
        assert!(error.contains("no/getid.pid: No such file"), "{error}");
    }
}
