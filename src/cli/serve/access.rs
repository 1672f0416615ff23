//! Users at a start: the ACL file, and what an operator should know about them.

use crate::acl::{Protection, Users};
use crate::config::RealFiles;
use crate::config::{Config, Report, exposed_in_dir};
use crate::server::acl_file::{self, AclFileError};

/// The users of `aclfile`; `None` without one. Its path is relative to `dir`, which must have been entered.
pub(super) fn load_file(config: &Config) -> Result<Option<Users>, Report> {
    let Some(path) = &config.aclfile else { return Ok(None) };
    acl_file::load_users(path).map(Some).map_err(|error| match error {
        AclFileError::Io(error) => {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let help = if missing { "; create it, empty for the default user alone" } else { "" };
            Report::from_sentence(format!("aclfile: '{}' cannot be read: {error}{help}", path.display()))
        }
        AclFileError::Faults(faults) => {
            let faults = faults.into_iter().map(|fault| (fault.line, fault.sentence));
            Report::from_lines(path, "aclfile", faults)
        }
    })
}

/// What may not be meant.
pub(super) fn warnings(config: &Config, users: &Users) -> Vec<String> {
    let mut warnings = Vec::new();
    let by = match &config.aclfile {
        Some(_) => Some("aclfile"),
        None => config.users.iter().any(|line| line.name == crate::acl::DEFAULT_USER).then_some("a user line"),
    };
    if let (Some(by), Some(_)) = (by, &config.requirepass) {
        let open = if users.default_user().is_open() { ", which lets everyone in without a password" } else { "" };
        warnings.push(format!("requirepass is ignored: {by} defines the default user{open}"));
    }
    if config.is_reached_from_elsewhere() && users.default_user().is_open() {
        match config.protection() {
            Protection::Connections => {}
            Protection::Commands => warnings.push(
                "bind lets other machines in and no password is needed: everybody who reaches the port gets IDs. What changes \
                 the server or reaches other clients (CONFIG SET, ACL, SHUTDOWN, MONITOR, CLIENT KILL and the like) is refused \
                 to other machines without a login. Set requirepass to ask for one, or bind loopback addresses only"
                    .to_owned(),
            ),
            Protection::Nothing => warnings.push(
                "protected-mode is no, bind lets other machines in and no password is needed: everybody who reaches the port \
                 may do everything, CONFIG SET, ACL SETUSER and SHUTDOWN included. Take protected-mode no away, or set \
                 requirepass"
                    .to_owned(),
            ),
        }
    }
    warnings.extend(exposed_in_dir(config, &RealFiles));
    let disabled = users.iter().filter(|user| !user.is_enabled());
    warnings.extend(disabled.map(|user| {
        format!(
            "the user '{}' is disabled: there is no 'on' among its rules. Make sure that this is meant",
            user.name()
        )
    }));
    warnings
}
