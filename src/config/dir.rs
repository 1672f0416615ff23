//! The folder of the state: which it is, also where nobody names one, and how it is made and entered.
//!
//! A server that kept its state wherever it was started would find no record after a start from another folder, and
//! could then give IDs again that it gave before a clock was set back. So the folder depends on who runs it and on
//! nothing else: root has one for the machine, everybody else the one for programs' state that the XDG Base Directory
//! Specification names.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

use super::enums::StateKind;
use super::report::Report;
use super::values::Config;
use crate::system::ownership;

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
    /// Looks where it is, and makes nothing: what `dir` says, else the default folder of the user. Without a state to
    /// keep, nobody needs a folder of their own: then it is where the process was started.
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

    /// Makes it, for its owner alone, if it is missing; enters it, for relative paths are relative to it as in Redis;
    /// and gives its name without links.
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

    /// Whether files can be made in it. For who keeps some there: a start that fails at the first of them would only
    /// say which.
    ///
    /// # Errors
    ///
    /// A report with the folder's name, the operating system's reason, whose the folder is, and who asks.
    pub fn can_write(&self) -> Result<(), Report> {
        ownership::may_write_in(&self.path).map_err(|error| self.report("written", &error))
    }

    fn report(&self, what: &str, error: &io::Error) -> Report {
        let path = self.path.display();
        let remedy = ownership::remedy(&self.path, error).unwrap_or_else(|| "see to its owner".to_owned());
        Report::from_sentence(format!("dir: '{path}' cannot be {what}: {error}; {remedy}; or name another with dir"))
    }
}

/// Root's.
const OF_ROOT: &str = "/var/lib/getid";

/// The folder of the user who has this environment; `None` when it names no home.
///
/// As the specification says, a relative path in `XDG_STATE_HOME` does not count.
fn default_dir(is_root: bool, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    if is_root {
        return Some(PathBuf::from(OF_ROOT));
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
