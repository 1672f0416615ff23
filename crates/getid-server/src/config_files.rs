//! The files of this machine, from which the configuration is read.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use getid_config::Files;
use getid_system::files;
use getid_text::glob;

/// Files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

/// Files of this machine, with relative paths from this folder, for a process that has left its first working folder.
#[derive(Clone, Debug)]
pub struct FilesFrom(pub PathBuf);

impl Files for FilesFrom {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        RealFiles.read(&self.0.join(path), bytes_max)
    }

    fn read_with_mode(&self, path: &Path, bytes_max: usize) -> io::Result<(Vec<u8>, u32)> {
        RealFiles.read_with_mode(&self.0.join(path), bytes_max)
    }

    fn matching(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        matching_from(self.0.clone(), pattern)
    }

    fn mode(&self, path: &Path) -> Option<u32> {
        RealFiles.mode(&self.0.join(path))
    }
}

impl Files for RealFiles {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        files::read(path, bytes_max)
    }

    fn read_with_mode(&self, path: &Path, bytes_max: usize) -> io::Result<(Vec<u8>, u32)> {
        files::read_with_mode(path, bytes_max)
    }

    fn matching(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        matching_from(PathBuf::new(), pattern)
    }

    fn mode(&self, path: &Path) -> Option<u32> {
        fs::metadata(path).ok().map(|found| found.mode() & 0o7777)
    }
}

/// Finds paths as glob(3) does: each part of the path is matched alone, and only a dot matches a leading dot.
fn matching_from(folder: PathBuf, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = vec![folder];
    for part in Path::new(pattern).components() {
        let mut next = Vec::new();
        for folder in &found {
            match part {
                Component::Normal(part) if glob::is_pattern(&part.to_string_lossy()) => {
                    next.extend(matching_in(folder, part.as_encoded_bytes())?);
                }
                part => {
                    let path = folder.join(part);
                    if path.symlink_metadata().is_ok() {
                        next.push(path);
                    }
                }
            }
        }
        found = next;
    }
    found.sort();
    Ok(found)
}

fn matching_in(folder: &Path, pattern: &[u8]) -> io::Result<Vec<PathBuf>> {
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = match fs::read_dir(listed) {
        // conf.d/*/x.conf ignores the files in conf.d.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let parsed =
        glob::Pattern::new(pattern, false).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut paths = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let bytes = name.as_encoded_bytes();
        if (!bytes.starts_with(b".") || pattern.starts_with(b".")) && parsed.matches(bytes) {
            paths.push(folder.join(name));
        }
    }
    Ok(paths)
}
