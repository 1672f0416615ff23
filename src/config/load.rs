//! The one place of the configuration that touches the disk.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

use super::read::Files;
use super::{Config, Report, StateKind, default_dir};
use crate::system::files;
use crate::text::glob;

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

    fn mode(&self, path: &Path) -> Option<u32> {
        RealFiles.mode(&self.0.join(path))
    }
}

impl Files for RealFiles {
    fn read(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        files::read(path, bytes_max)
    }

    fn matching(&self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        matching_from(PathBuf::new(), pattern)
    }

    fn mode(&self, path: &Path) -> Option<u32> {
        fs::metadata(path).ok().map(|found| found.mode() & 0o7777)
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

fn matching_in(folder: &Path, pattern: &[u8]) -> io::Result<Vec<PathBuf>> {
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = match fs::read_dir(listed) {
        // conf.d/*/x.conf passes over the files in conf.d.
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

/// The folder that `dir` is at a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dir {
    /// Absolute.
    pub path: PathBuf,
    /// Whether it is still to be made.
    pub is_missing: bool,
    /// A record of this server in the folder the process was started in, where it was kept by default once.
    pub left_behind: Option<PathBuf>,
}

impl Dir {
    /// Looks where it is, and makes nothing: what `dir` says, else the user's [`default_dir`]. Without a state to keep, nobody
    /// needs a folder of their own: then it is where the process was started.
    ///
    /// # Errors
    ///
    /// A report with the folder's name, the operating system's reason, and what to do.
    pub fn find(config: &Config, environment: &[(OsString, OsString)], started_in: &Path) -> Result<Dir, Report> {
        let found = |path: PathBuf| Dir { path, is_missing: false, left_behind: None };
        let path = match &config.dir {
            Some(dir) => started_in.join(dir),
            None if config.id_state == StateKind::None => return Ok(found(started_in.to_owned())),
            None => default_dir(nix::unistd::geteuid().is_root(), environment).ok_or_else(|| {
                Report::from_sentence(
                    "dir: nobody names the folder of the state, and without XDG_STATE_HOME and HOME there is no default \
                     one; name it, as with --dir /var/lib/getid or GETID_DIR",
                )
            })?,
        };
        let shown = path.display();
        let is_missing = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => false,
            Ok(_) => return Err(Report::from_sentence(format!("dir: '{shown}' is not a folder"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // One level is made where somebody named a folder: more of it missing is rather a slip.
                let parent = path.parent().unwrap_or(Path::new("/"));
                if config.dir.is_some() && !parent.is_dir() {
                    return Err(Report::from_sentence(format!(
                        "dir: '{shown}' cannot be used: {error}, and neither is '{}', to make it in",
                        parent.display()
                    )));
                }
                true
            }
            Err(error) => return Err(Report::from_sentence(format!("dir: '{shown}' cannot be used: {error}"))),
        };
        let record = started_in.join(format!("getid-{}.state", config.server_id));
        let is_elsewhere = fs::canonicalize(&path).ok() != fs::canonicalize(started_in).ok();
        let left_behind = (config.dir.is_none() && is_elsewhere && record.is_file()).then_some(record);
        Ok(Dir { path, is_missing, left_behind })
    }

    /// Makes it, for its owner alone, if it is missing; enters it, for relative paths are relative to it as in Redis; and
    /// gives its name without links.
    ///
    /// # Errors
    ///
    /// A report with the folder's name and the operating system's reason.
    pub fn enter(&self) -> Result<PathBuf, Report> {
        self.make()?;
        let entered = std::env::set_current_dir(&self.path).and_then(|()| std::env::current_dir());
        entered.map_err(|error| self.report("entered", &error))
    }

    /// Makes it, for its owner alone, if it is missing.
    ///
    /// # Errors
    ///
    /// As [`Dir::enter`].
    pub fn make(&self) -> Result<(), Report> {
        if self.is_missing {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
            made.map_err(|error| self.report("made", &error))?;
        }
        Ok(())
    }

    /// Whether it could be made, if it is missing; nothing is.
    ///
    /// # Errors
    ///
    /// As [`Dir::make`].
    pub fn can_make(&self) -> Result<(), Report> {
        let is_there = |folder: &&Path| fs::symlink_metadata(folder).is_ok();
        match self.path.ancestors().skip(1).find(is_there) {
            Some(parent) if self.is_missing => eaccess(parent, AccessFlags::W_OK | AccessFlags::X_OK)
                .map_err(|errno| self.report("made", &errno.into())),
            _ => Ok(()),
        }
    }

    fn report(&self, what: &str, error: &io::Error) -> Report {
        let path = self.path.display();
        Report::from_sentence(format!(
            "dir: '{path}' cannot be {what}: {error}; see to its owner, or name another with dir"
        ))
    }
}
