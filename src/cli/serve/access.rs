//! Users at a start: the ACL file, and warnings about the users.

use getid_config::{Config, ConfigReport, exposed_in_dir};
use getid_redis::acl::{Origin, Protection, Users};
use getid_server::acl_file::{self, AclFileError};
use getid_server::config_files::RealFiles;
use getid_text::printable::printable;

/// Returns the users of `aclfile`; `None` without one. Its path is relative to `dir`, which must be the working folder.
pub(super) fn load_file(config: &Config) -> Result<Option<Users>, ConfigReport> {
    let Some(path) = &config.aclfile else { return Ok(None) };
    acl_file::load_users(path).map(Some).map_err(|error| match error {
        AclFileError::Io(error) => {
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            let help = if missing { "; create it, empty for the default user alone" } else { "" };
            ConfigReport::from_sentence(format!("aclfile: '{}' cannot be read: {error}{help}", path.display()))
        }
        AclFileError::Faults(faults) => {
            let faults = faults.into_iter().map(|fault| (fault.line, fault.sentence));
            ConfigReport::from_lines(path, "aclfile", faults)
        }
    })
}

/// Fails if `http-api` names a user that does not exist.
pub(super) fn check_http_users(config: &Config, users: &Users) -> Result<(), ConfigReport> {
    let missing = config.http.apis.users().find(|user| users.get(user.as_bytes()).is_none());
    missing.map_or(Ok(()), |user| {
        Err(ConfigReport::from_sentence(format!(
            "http-api names the user '{}', which is not in aclfile; define it there",
            printable(user)
        )))
    })
}

/// Returns warnings about what keeps the programs of other servers, which have no login, from being served.
pub(super) fn api_warnings(config: &Config, users: &Users) -> Vec<String> {
    let apis = &config.http.apis;
    let mut warnings = Vec::new();
    for (word, _) in apis.on().filter(|(_, api)| api.user.is_none() && !users.default_user().is_open()) {
        warnings.push(format!(
            "http-api {word} names no user, and the default user needs a password, which programs of that API do not \
             send: set 'http-api {word} user NAME', which logs them in as that user"
        ));
    }
    for (word, _) in apis.on().filter(|(word, _)| *word != "leaf" && config.sequence_stores().is_empty()) {
        warnings
            .push(format!("http-api {word} has no values: they are those of sequences, and sequence-store is none"));
    }
    if apis.cosid.is_some() && config.sequence_stores().len() > 1 {
        warnings.push(
            "http-api cosid gives no segments: CosId takes every number of a segment, and with several sequence-store \
             lines each store has others. Keep one of them"
                .to_owned(),
        );
    }
    warnings
}

/// Returns warnings about settings that may not be intended.
pub(super) fn warnings(config: &Config, users: &Users) -> Vec<String> {
    let mut warnings = Vec::new();
    let by = match &config.aclfile {
        Some(_) => Some("aclfile"),
        None => config.users.iter().any(|line| line.name == getid_redis::acl::DEFAULT_USER).then_some("a user line"),
    };
    if let (Some(by), Some(_)) = (by, &config.requirepass) {
        let open = if users.default_user().is_open() { ", who needs no password" } else { "" };
        warnings.push(format!("requirepass is ignored: {by} defines the default user{open}"));
    }
    let bind =
        if config.bind.iter().all(|bind| Origin::of(bind.ip) != Origin::Elsewhere) { "http-bind" } else { "bind" };
    if config.is_reached_from_elsewhere() && users.default_user().is_open() {
        match config.protection() {
            Protection::Connections => {}
            Protection::Commands => warnings.push(format!(
                "{bind} accepts other machines and no password is needed: every client that reaches the port gets IDs. \
                 Commands that change the server or affect other clients (CONFIG SET, ACL, SHUTDOWN, MONITOR, CLIENT KILL and \
                 similar) are refused to other machines without a login. Set requirepass to require a login, or bind loopback \
                 addresses only"
            )),
            Protection::Nothing => warnings.push(format!(
                "protected-mode is no, {bind} accepts other machines and no password is needed: every client that reaches the \
                 port may run every command, including CONFIG SET, ACL SETUSER and SHUTDOWN. Remove protected-mode no, or set \
                 requirepass"
            )),
        }
    }
    warnings.extend(exposed_in_dir(config, &RealFiles));
    let disabled = users.iter().filter(|user| !user.is_enabled());
    warnings.extend(disabled.map(|user| {
        format!("the user '{}' is disabled: its rules do not contain 'on'. Check that this is intended", user.name())
    }));
    warnings
}
