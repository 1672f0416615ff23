//! Access of the configuration to files, and no file of this machine: callers implement it.

use std::io;
use std::path::{Path, PathBuf};

/// Access of the configuration to files; paths are relative to the working folder of the start, as in Redis.
pub trait Files {
    /// Returns the first `bytes_max + 1` bytes of a file: one more than permitted shows that it is too large.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>>;

    /// Reads a file as [`Files::read`] does, and returns its permission bits as for chmod. Files of a machine return
    /// those of the opened file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or its permission bits are unknown.
    fn read_with_mode(&self, path: &Path, bytes_max: usize) -> io::Result<(Vec<u8>, u32)> {
        let mode = self.mode(path);
        let bytes = self.read(path, bytes_max)?;
        Ok((bytes, mode.ok_or_else(|| io::Error::other("its permissions are unknown"))?))
    }

    /// Returns the files that match a pattern, sorted; no match is no error.
    ///
    /// # Errors
    ///
    /// Fails if a folder of the pattern cannot be listed.
    fn matching(&self, pattern: &str) -> io::Result<Vec<PathBuf>>;

    /// Returns the permission bits of a file as for chmod; `None` if unknown.
    fn mode(&self, _path: &Path) -> Option<u32> {
        None
    }
}

/// Whether a file is read as TOML.
pub(super) fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}
