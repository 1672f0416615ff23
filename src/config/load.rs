//! The one place of the configuration that touches the disk.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use super::read::Files;
use super::{Config, Report};
use crate::glob;

/// Files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

/// Files of this machine, relative paths from this folder: what [`RealFiles`] are to a process that has left it since.
#[derive(Clone, Debug)]
pub struct FilesFrom(pub PathBuf);

impl Files for FilesFrom {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        RealFiles.read(&self.0.join(path), bytes_max)
    }

    fn matching(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        matching_from(self.0.clone(), pattern)
    }
}

impl Files for RealFiles {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn matching(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        matching_from(PathBuf::new(), pattern)
    }
}

/// As glob(3): each part of the path is matched by itself, names that begin with a dot only by a dot.
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

/// Puts `bytes` into the place of a file, whole or not at all, on disk when this returns. The file keeps its mode, and its
/// owner where that is allowed; a link to it stays one. A new file is for its owner alone: there may be passwords in it.
///
/// # Errors
///
/// The operating system's; then the file is as it was.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(path)?,
        found => found?,
    };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = folder.join(beside);
    let written = write_as(&path, &beside, bytes).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // There may be none.
        let _ = fs::remove_file(&beside);
    }
    written?;
    File::open(folder)?.sync_all()
}

/// Writes a file that is to take the place of another, as readable as that one and no more.
fn write_as(other: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let old = fs::metadata(other).ok();
    if let Some(old) = &old {
        // Only root may give a file away. Before the mode, which a change of owner may cut.
        let _ = std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()));
    }
    let mode = old.map_or(0o600, |old| old.mode() & 0o7777);
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn matching_in(folder: &Path, pattern: &[u8]) -> io::Result<Vec<PathBuf>> {
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = match fs::read_dir(listed) {
        // conf.d/*/x.conf passes over the files in conf.d.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let bytes = name.as_encoded_bytes();
        if (!bytes.starts_with(b".") || pattern.starts_with(b".")) && glob::matches(pattern, bytes, false) {
            paths.push(folder.join(name));
        }
    }
    Ok(paths)
}

/// Checks that `dir` is a folder, as a start must.
///
/// # Errors
///
/// A report with the folder's name and the operating system's reason.
pub fn check_dir(config: &Config) -> Result<(), Report> {
    let shown = config.dir.display();
    match fs::metadata(&config.dir) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Report::from_sentence(format!("dir: '{shown}' is not a folder"))),
        Err(error) => Err(Report::from_sentence(format!("dir: '{shown}' cannot be used: {error}"))),
    }
}
