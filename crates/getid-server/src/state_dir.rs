//! The folder of the state: its path, with or without the directive `dir`, and how it is made and entered.
//!
//! A server that kept its state in its working folder would find no record after a start from another folder. It could
//! then repeat IDs that were given before a clock was set back. So the default folder depends only on the user: root
//! has one for the machine, other users the folder for programs' state of the XDG Base Directory Specification.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

use getid_config::{Config, ConfigReport, StateKind};
use getid_system::ownership;

/// The folder of `dir` at a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dir {
    /// Absolute path.
    pub path: PathBuf,
    /// Whether the folder must still be made.
    pub is_missing: bool,
    /// A record of this server in the working folder of the start, which was the default once.
    pub left_behind: Option<PathBuf>,
}

impl Dir {
    /// Finds the folder, and makes nothing: the one of `dir`, else the default folder of the user. Without state no
    /// folder is needed, so it is the working folder of the start.
    ///
    /// # Errors
    ///
    /// Returns a report with the folder's name, the operating system's reason, and the remedy.
    pub fn find(config: &Config, environment: &[(OsString, OsString)], started_in: &Path) -> Result<Dir, ConfigReport> {
        let found = |path: PathBuf| Dir { path, is_missing: false, left_behind: None };
        let path = match &config.dir {
            Some(dir) => started_in.join(dir),
            None if config.id_state == StateKind::None => return Ok(found(started_in.to_owned())),
            None => default_dir(nix::unistd::geteuid().is_root(), environment).ok_or_else(|| {
                ConfigReport::from_sentence(
                    "dir: the folder of the state is not configured, and without XDG_STATE_HOME and HOME there is no \
                     default; set it, as with --dir /var/lib/getid or GETID_DIR",
                )
            })?,
        };
        let shown = path.display();
        let is_missing = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => false,
            Ok(_) => return Err(ConfigReport::from_sentence(format!("dir: '{shown}' is not a folder"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // One level is made for a configured folder: if more is missing, the path is probably wrong.
                let parent = path.parent().unwrap_or(Path::new("/"));
                if config.dir.is_some() && !parent.is_dir() {
                    return Err(ConfigReport::from_sentence(format!(
                        "dir: '{shown}' cannot be used: {error}, and its parent folder '{}' does not exist",
                        parent.display()
                    )));
                }
                true
            }
            Err(error) => return Err(ConfigReport::from_sentence(format!("dir: '{shown}' cannot be used: {error}"))),
        };
        let record = started_in.join(format!("getid-{}.state", config.server_id));
        let is_elsewhere = fs::canonicalize(&path).ok() != fs::canonicalize(started_in).ok();
        let left_behind = (config.dir.is_none() && is_elsewhere && record.is_file()).then_some(record);
        Ok(Dir { path, is_missing, left_behind })
    }

    /// Makes a missing folder, for its owner alone, and enters it, because relative paths begin there as in Redis.
    /// Returns its path without links.
    ///
    /// # Errors
    ///
    /// Returns a report with the folder's name and the operating system's reason.
    pub fn enter(&self) -> Result<PathBuf, ConfigReport> {
        self.make()?;
        let entered = std::env::set_current_dir(&self.path).and_then(|()| std::env::current_dir());
        entered.map_err(|error| self.report("entered", &error))
    }

    /// Makes a missing folder, for its owner alone.
    ///
    /// # Errors
    ///
    /// Fails as [`Dir::enter`] does.
    pub fn make(&self) -> Result<(), ConfigReport> {
        if self.is_missing {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
            made.map_err(|error| self.report("made", &error))?;
        }
        Ok(())
    }

    /// Checks whether a missing folder could be made, and makes nothing.
    ///
    /// # Errors
    ///
    /// Fails as [`Dir::make`] does.
    pub fn can_make(&self) -> Result<(), ConfigReport> {
        let is_there = |folder: &&Path| fs::symlink_metadata(folder).is_ok();
        match self.path.ancestors().skip(1).find(is_there) {
            Some(parent) if self.is_missing => eaccess(parent, AccessFlags::W_OK | AccessFlags::X_OK)
                .map_err(|errno| self.report("made", &errno.into())),
            _ => Ok(()),
        }
    }

    /// Checks whether files can be made in the folder, for a server that keeps some there. A start that failed at its
    /// first file would only name that file.
    ///
    /// # Errors
    ///
    /// Returns a report with the folder's name, the operating system's reason, the folder's owner, and this process's
    /// user.
    pub fn can_write(&self) -> Result<(), ConfigReport> {
        ownership::check_writable(&self.path).map_err(|error| self.report("written", &error))
    }

    fn report(&self, what: &str, error: &io::Error) -> ConfigReport {
        let path = self.path.display();
        let remedy = ownership::remedy(&self.path, error).unwrap_or_else(|| "check its owner".to_owned());
        ConfigReport::from_sentence(format!(
            "dir: '{path}' cannot be {what}: {error}; {remedy}; or set another folder with dir"
        ))
    }
}

/// The default folder of root.
const ROOT_DIR: &str = "/var/lib/getid";

/// Returns the default folder of the user with this environment; `None` if it names no home.
///
/// As the specification requires, a relative path in `XDG_STATE_HOME` is ignored.
fn default_dir(is_root: bool, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    if is_root {
        return Some(PathBuf::from(ROOT_DIR));
    }
    let absolute = |name: &str| {
        let value = environment.iter().find(|(key, _)| key == OsStr::new(name)).map(|(_, value)| Path::new(value));
        value.filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME").map(Path::to_owned);
    state.or_else(|| Some(absolute("HOME")?.join(".local/state"))).map(|folder| folder.join("getid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(is_root: bool, environment: &[(&str, &str)], expected: Option<&str>) {
        let environment: Vec<_> = environment.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        assert_eq!(default_dir(is_root, &environment).as_deref(), expected.map(Path::new), "{environment:?}");
    }

    #[test]
    fn root_has_the_machines_folder_and_others_their_own() {
        check(true, &[], Some("/var/lib/getid"));
        check(true, &[("HOME", "/root"), ("XDG_STATE_HOME", "/x")], Some("/var/lib/getid"));
        check(false, &[("HOME", "/home/ann")], Some("/home/ann/.local/state/getid"));
        check(false, &[("HOME", "/home/ann"), ("XDG_STATE_HOME", "/state")], Some("/state/getid"));
        check(false, &[("XDG_STATE_HOME", "/state")], Some("/state/getid"));
        for not_absolute in ["", "state", "./state"] {
            check(
                false,
                &[("HOME", "/home/ann"), ("XDG_STATE_HOME", not_absolute)],
                Some("/home/ann/.local/state/getid"),
            );
            check(false, &[("HOME", not_absolute)], None);
        }
        check(false, &[], None);
    }
}
