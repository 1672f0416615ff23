//! Passwords: the file that one may be in, and files that everybody can read.
//!
//! A password has four places that others don't see: a configuration file for its owner alone, a file of its own
//! (`requirepass-file`), a credential of systemd's, the environment. On a command line everybody sees it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::Config;
use super::builder::Builder;
use super::directive::{Directive, Secrecy};
use super::ignored::IGNORED_DIRECTIVES;
use super::read::{Files, Sources};
use super::report::{Place, Problem, Warning, is_secret};
use crate::acl::PASSWORD_BYTES_MAX;

/// The name of systemd's credential (`LoadCredential=`, `SetCredentialEncrypted=`) that holds the password.
pub const CREDENTIAL: &str = "getid.requirepass";

/// The folder that systemd puts credentials into, by this variable.
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

pub(super) const SEEN_BY_ALL: &str = "everybody on this machine sees the command line, with ps: a password belongs into \
                                      requirepass-file, into GETID_REQUIREPASS or into a configuration file of mode 600";

/// Directives that are not [`Secrecy::Open`], by their rows: getid's own, and those of Redis without a meaning here, which
/// may be the password of another server.
static SECRETS: LazyLock<Vec<(&str, Secrecy)>> = LazyLock::new(|| {
    let own = Directive::ALL.iter().map(|row| (row.name, row.secrecy));
    let known = IGNORED_DIRECTIVES.iter().filter(|row| row.is_secret).map(|row| (row.name, Secrecy::Secret));
    own.filter(|(_, secrecy)| *secrecy != Secrecy::Open).chain(known).collect()
});

/// The names of directives that hold a secret.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SECRETS.iter().map(|(name, _)| *name)
}

/// Whether the directive of this name, in any letter case, holds a secret.
pub fn is_secret_directive(name: &[u8]) -> bool {
    names().any(|secret| secret.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether a word may be meant to be such a name: who mistypes it has sent the secret all the same.
pub fn may_be_secret_directive(word: &[u8]) -> bool {
    str::from_utf8(word).is_ok_and(is_secret)
}

/// Whether these words of a directive have a password in them, or a digest of one.
pub(super) fn is_in(directive: &str, words: &[String]) -> bool {
    match SECRETS.iter().find(|(name, _)| *name == directive) {
        Some((_, Secrecy::Secret)) => words.iter().any(|word| !word.is_empty()),
        Some((_, Secrecy::Passwords)) => {
            words.iter().skip(1).any(|rule| rule.starts_with('>') || rule.starts_with('#'))
        }
        Some((_, Secrecy::Open)) | None => false,
    }
}

/// Why a password file gives no password.
#[derive(Debug, thiserror::Error)]
pub enum PasswordFileError {
    /// It can't be read.
    #[error("'{}' cannot be read: {error}. It must be a file that getid's user may read", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It is no password.
    #[error("'{}' {found}, must have one line with a password of 1 to {PASSWORD_BYTES_MAX} bytes", .path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is in it.
        found: &'static str,
    },
}

/// The password in a file: its one line. The line feed at its end is no part of it.
///
/// # Errors
///
/// [`PasswordFileError`]; never with what is in the file.
pub fn read_password_file(path: &Path, files: &dyn Files) -> Result<String, PasswordFileError> {
    let fail = |found| PasswordFileError::Content { path: path.to_owned(), found };
    // With a line end of two bytes.
    let bytes = files
        .read(path, PASSWORD_BYTES_MAX + 2)
        .map_err(|error| PasswordFileError::Io { path: path.to_owned(), error })?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = str::from_utf8(line).map_err(|_| fail("is not UTF-8"))?;
    if text.is_empty() {
        return Err(fail("is empty"));
    }
    if text.contains(['\n', '\r', '\0']) {
        return Err(fail("has more than one line"));
    }
    if text.len() > PASSWORD_BYTES_MAX {
        return Err(fail("is longer"));
    }
    Ok(text.to_owned())
}

/// Reads the password from the file that the sources name, or from systemd's credential when nothing else gives one.
pub(super) fn read_password(sources: &Sources, files: &dyn Files, builder: &mut Builder) {
    let named = builder.config.requirepass_file.clone();
    let path = match (named, builder.config.requirepass.is_some()) {
        (None, true) => return,
        (None, false) => {
            let Some(path) = credential(sources) else { return };
            // Systemd gives other credentials too.
            if files.read(&path, 0).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                return;
            }
            path
        }
        (Some(_), true) => {
            let places = ["requirepass", "requirepass-file"].iter().filter_map(|name| builder.place_of(name).cloned());
            let sentence = "the password is given both by requirepass and by requirepass-file, must be in one place";
            builder.problem(Problem::new(places.collect(), "", sentence));
            return;
        }
        (Some(path), false) => path,
    };
    match read_password_file(&path, files) {
        Ok(password) => {
            builder.config.requirepass = Some(password);
            builder.config.password_file = Some(path);
        }
        Err(error) => {
            let place = builder.place_of("requirepass-file").cloned();
            let subject = if place.is_some() { "requirepass-file" } else { CREDENTIALS_DIRECTORY };
            builder.problem(Problem::new(place.into_iter().collect(), subject, error.to_string()));
        }
    }
}

fn credential(sources: &Sources) -> Option<PathBuf> {
    let found = sources.environment.iter().find(|(name, _)| name == OsStr::new(CREDENTIALS_DIRECTORY));
    let (_, folder) = found.filter(|(_, folder)| !folder.is_empty())?;
    Some(Path::new(folder).join(CREDENTIAL))
}

/// Lines with a password, and password files, that everybody on the machine can read.
pub(super) fn exposed(builder: &Builder, files: &dyn Files) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (name, place) in builder.secrets() {
        let sentence = place.file().and_then(|path| is_open(path, "a password", files));
        warnings.extend(sentence.map(|sentence| Warning { place: place.clone(), subject: name.clone(), sentence }));
    }
    let name = "requirepass-file";
    if let Some(sentence) = builder.config.password_file.as_ref().and_then(|path| is_open(path, "a password", files)) {
        let place = builder.place_of(name).cloned().unwrap_or_else(|| Place::in_environment(""));
        warnings.push(Warning { place, subject: name.to_owned(), sentence });
    }
    warnings
}

/// The same of the files whose paths are relative to `dir`: to be asked once that has been entered.
pub fn exposed_in_dir(config: &Config, files: &dyn Files) -> Vec<String> {
    let key = config.tls_key_file.as_ref().filter(|_| config.tls_port != 0);
    let named = [("aclfile", config.aclfile.as_ref(), "passwords' digests"), ("tls-key-file", key, "a private key")];
    let open = named.into_iter().filter_map(|(name, path, what)| Some((name, is_open(path?, what, files)?)));
    let mut warnings: Vec<_> = open.map(|(name, sentence)| format!("{name}: {sentence}")).collect();
    // Whoever may write to the state's folder may take the lock file away from under the server.
    if let Some(mode) = files.mode(&config.state_dir).filter(|mode| mode & 0o002 != 0) {
        let shown = config.state_dir.display();
        warnings.push(format!(
            "dir: everybody on this machine can write to {shown} (mode {mode:o}), and take the state file away: chmod o-w \
             {shown}"
        ));
    }
    warnings
}

fn is_open(path: &Path, what: &str, files: &dyn Files) -> Option<String> {
    let mode = files.mode(path).filter(|mode| mode & 0o004 != 0)?;
    let shown = path.display();
    Some(format!("everybody on this machine can read {shown} (mode {mode:o}), which holds {what}: chmod o= {shown}"))
}

#[cfg(test)]
mod tests {
    use super::super::report::{may_show_secret, without_secrets};
    use super::*;

    /// Words in names of what may be a secret.
    const SUSPICIOUS: [&str; 7] = ["pass", "auth", "secret", "key", "token", "user", "acl"];

    /// Suspicious, and shown all the same: paths, words to choose from, numbers.
    const SHOWN: [&str; 9] = [
        "requirepass-file",
        "aclfile",
        "acllog-max-len",
        "auth-timeout",
        "tls-key-file",
        "tls-auth-clients",
        "tls-auth-clients-user",
        "syslog-ident",
        "syslog-facility",
    ];

    #[test]
    fn every_directive_that_may_be_a_secret_was_thought_of() {
        for row in Directive::ALL {
            let is_text = matches!(row.value, super::super::directive::Value::Text { .. });
            let may_be = is_text || SUSPICIOUS.iter().any(|word| row.name.contains(word));
            assert!(
                !may_be || row.secrecy != Secrecy::Open || SHOWN.contains(&row.name),
                "{}: mark the row as secret(), or name it in SHOWN",
                row.name
            );
        }
        for row in IGNORED_DIRECTIVES {
            assert_eq!(
                row.is_secret,
                row.name.ends_with("pass") || row.name.starts_with("masterauth") || row.name == "masteruser",
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn what_its_row_calls_a_secret_is_one_everywhere() {
        let names: Vec<_> = names().collect();
        assert!(["requirepass", "user", "masterauth", "tls-key-file-pass"].iter().all(|name| names.contains(name)));
        for name in names {
            assert!(is_secret_directive(name.to_uppercase().as_bytes()), "{name}");
            assert!(may_be_secret_directive(name.to_uppercase().as_bytes()), "{name}");
            assert!(may_be_secret_directive(&name.as_bytes()[1..]), "{name}, mistyped");
            assert!(is_secret(name) && may_show_secret(&format!("{name} = 'x'")), "{name}");
            assert_eq!(without_secrets(&format!("{name} x >x")), format!("{name} (hidden)"));
            assert!(is_in(name, &["x".to_owned(), ">x".to_owned()]), "{name}");
            assert!(!is_in(name, &[String::new()]), "{name}");
        }
        for row in Directive::ALL.iter().filter(|row| row.secrecy == Secrecy::Open) {
            let names_a_secret = row.name == "requirepass-file";
            assert_eq!(may_be_secret_directive(row.name.as_bytes()), names_a_secret, "{}", row.name);
            assert!(!is_secret_directive(row.name.as_bytes()) && !is_in(row.name, &["x".to_owned(), ">x".to_owned()]));
        }
    }
}
