//! Which folder `dir` is where nobody names one.
//!
//! A server that kept its state wherever it was started would find no record after a start from another folder, and could then
//! give IDs again that it gave before a clock was set back. So the folder depends on who runs it and on nothing else: root has
//! one for the machine, everybody else the one for programs' state that the XDG Base Directory Specification names.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Root's.
const OF_ROOT: &str = "/var/lib/getid";

/// The folder of the user who has this environment; `None` when it names no home.
///
/// As the specification says, a relative path in `XDG_STATE_HOME` does not count.
pub fn default_dir(is_root: bool, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
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
