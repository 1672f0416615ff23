//! Files with secrets: the password file, and files that every user can read.
//!
//! A password can be in four places that other users don't see: a configuration file readable only by its owner, a file
//! of its own (`requirepass-file`), a credential of systemd, the environment. A command line is visible to every user.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::builder::Builder;
use super::directive::{ChangeMode, Directive};
use super::files::Files;
use super::read::Sources;
use super::report::{ConfigProblem, SettingPlace, Warning};
use super::row::ValueShape;
use super::values::{Config, ConfigValues, SequenceConfig};
use getid_redis::acl::PASSWORD_BYTES_MAX;
use getid_text::store_url::StoreUrl;

/// The directives with addresses of stores.
const SEQUENCES: &str = "sequence-store";
const CLAIMS: &str = "claim-store";

/// The name of systemd's credential (`LoadCredential=`, `SetCredentialEncrypted=`) with the password.
const CREDENTIAL: &str = "getid.requirepass";

/// The variable with the folder of systemd's credentials.
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// Why a password file gives no password.
#[derive(Debug, thiserror::Error)]
pub enum PasswordFileError {
    /// The file cannot be read.
    #[error("'{}' cannot be read: {error}. It must be a file that getid's user may read", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The content is no password.
    #[error("'{}' {found}, must have one line with a password of 1 to {PASSWORD_BYTES_MAX} bytes", .path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Description of the content.
        found: &'static str,
    },
}

/// Returns the password in a file, which is its only line. The line feed at its end is not part of it.
///
/// # Errors
///
/// Returns [`PasswordFileError`], which never quotes the content of the file.
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

/// Reads the password from the file of the sources, or from systemd's credential if no source sets one.
pub(super) fn read_password(sources: &Sources, files: &dyn Files, builder: &mut Builder) {
    let named = builder.values.config.requirepass_file.clone();
    let path = match (named, builder.values.config.requirepass.is_some()) {
        (None, true) => return,
        (None, false) => {
            let Some(path) = credential(sources) else { return };
            // systemd may provide other credentials only.
            if files.read(&path, 0).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                return;
            }
            path
        }
        (Some(_), true) => {
            let places = ["requirepass", "requirepass-file"].iter().filter_map(|name| builder.place_of(name).cloned());
            let sentence = "the password is given both by requirepass and by requirepass-file, must be in one place";
            builder.problem(ConfigProblem::new(places.collect(), "", sentence));
            return;
        }
        (Some(path), false) => path,
    };
    match read_password_file(&path, files) {
        Ok(password) => {
            builder.values.config.requirepass = Some(password);
            builder.values.config.password_file = Some(path);
        }
        Err(error) => {
            let place = builder.place_of("requirepass-file").cloned();
            let subject = if place.is_some() { "requirepass-file" } else { CREDENTIALS_DIRECTORY };
            builder.problem(ConfigProblem::new(place.into_iter().collect(), subject, error.to_string()));
        }
    }
}

/// Reads the password of an address with `password-file`.
///
/// # Errors
///
/// Fails if the file cannot be read, or contains no password.
pub fn read_store_password(url: &mut StoreUrl, files: &dyn Files) -> Result<(), PasswordFileError> {
    let Some(path) = url.password_file() else { return Ok(()) };
    let password = read_password_file(path, files)?;
    url.set_password(password);
    Ok(())
}

/// Reads the passwords of all addresses of stores with `password-file`.
pub(super) fn read_store_passwords(files: &dyn Files, builder: &mut Builder) {
    let [sequences, claims] = [SEQUENCES, CLAIMS].map(|name| (name, builder.place_of(name).cloned()));
    let Config { sequences: SequenceConfig { stores, .. }, claim, .. } = &mut builder.values.config;
    let stores = stores.iter_mut().map(|url| (url, &sequences));
    let mut problems = Vec::new();
    for (url, (name, place)) in stores.chain(claim.store.iter_mut().map(|url| (url, &claims))) {
        if let Err(error) = read_store_password(url, files) {
            let places = place.clone().into_iter().collect();
            problems.push(ConfigProblem::new(places, *name, format!("{}: {error}", url.shown())));
        }
    }
    for problem in problems {
        builder.problem(problem);
    }
}

fn credential(sources: &Sources) -> Option<PathBuf> {
    let found = sources.environment.iter().find(|(name, _)| name == OsStr::new(CREDENTIALS_DIRECTORY));
    let (_, folder) = found.filter(|(_, folder)| !folder.is_empty())?;
    Some(Path::new(folder).join(CREDENTIAL))
}

/// Returns warnings about lines with a password, and password files, that every user of the machine can read.
pub(super) fn exposed(builder: &Builder, files: &dyn Files) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (name, place) in builder.secrets() {
        let sentence = place.file().and_then(|path| is_open(path, "a password", files));
        warnings.extend(sentence.map(|sentence| Warning { place: place.clone(), subject: name.clone(), sentence }));
    }
    let name = "requirepass-file";
    if let Some(sentence) =
        builder.values.config.password_file.as_ref().and_then(|path| is_open(path, "a password", files))
    {
        let place = builder.place_of(name).cloned().unwrap_or_else(|| SettingPlace::in_environment(""));
        warnings.push(Warning { place, subject: name.to_owned(), sentence });
    }
    let Config { sequences, claim, .. } = &builder.values.config;
    let stores = sequences.stores.iter().map(|url| (SEQUENCES, url));
    for (name, url) in stores.chain(claim.store.iter().map(|url| (CLAIMS, url))) {
        if let Some(sentence) = url.password_file().and_then(|path| is_open(path, "a password", files)) {
            let place = builder.place_of(name).cloned().unwrap_or_else(|| SettingPlace::in_environment(""));
            warnings.push(Warning { place, subject: name.to_owned(), sentence });
        }
    }
    warnings
}

/// Returns warnings about files with secrets whose paths are relative to `dir`. To be called after that folder was
/// entered.
pub fn exposed_in_dir(config: &Config, files: &dyn Files) -> Vec<String> {
    let values = ConfigValues::of(config);
    let is_used = |row: &&Directive| row.change != ChangeMode::Certificates || config.tls_port != 0;
    let open = Directive::ALL.iter().filter(is_used).filter_map(|row| match row.shape {
        ValueShape::Path { in_dir: true, holds: Some(what), get, .. } => {
            Some(format!("{}: {}", row.name, is_open(get(&values)?, what, files)?))
        }
        _ => None,
    });
    let mut warnings: Vec<_> = open.collect();
    // A user who can write to the state's folder can remove the server's lock file.
    if let Some(mode) = files.mode(&config.state_dir).filter(|mode| mode & 0o002 != 0) {
        let shown = config.state_dir.display();
        warnings.push(format!(
            "dir: every user of this machine can write to {shown} (mode {mode:o}), and remove the state file: chmod o-w \
             {shown}"
        ));
    }
    warnings
}

fn is_open(path: &Path, what: &str, files: &dyn Files) -> Option<String> {
    let mode = files.mode(path).filter(|mode| mode & 0o004 != 0)?;
    let shown = path.display();
    Some(format!("every user of this machine can read {shown} (mode {mode:o}), which holds {what}: chmod o= {shown}"))
}
