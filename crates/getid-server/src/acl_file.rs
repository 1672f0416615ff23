//! The ACL file: read as a whole or not at all, and written so that it can be read again.

use std::io;
use std::path::Path;

use getid_redis::acl::{AclLineError, Users, parse_file};
use getid_system::files::{self, Readers};

/// Maximum size of an ACL file, bytes: more than [`getid_redis::acl::USERS_MAX`] users of an ordinary kind.
pub(crate) const ACL_FILE_BYTES_MAX: usize = 16 << 20;

/// Reason why an ACL file was not loaded.
#[derive(Debug)]
pub enum AclFileError {
    /// The file cannot be read.
    Io(io::Error),
    /// Faults of the file, never empty.
    Faults(Vec<AclLineError>),
}

/// Reads an ACL file.
///
/// # Errors
///
/// [`AclFileError`]: the file is used as a whole or not at all.
pub fn load_users(path: &Path) -> Result<Users, AclFileError> {
    let text = files::read(path, ACL_FILE_BYTES_MAX).map_err(AclFileError::Io)?;
    if text.len() > ACL_FILE_BYTES_MAX {
        return Err(AclFileError::Io(io::ErrorKind::FileTooLarge.into()));
    }
    parse_file(&path.to_string_lossy(), &text).map_err(AclFileError::Faults)
}

/// Writes an ACL file as a whole or not at all, and returns when it is on disk. Users that could not be loaded again
/// are not written.
pub(super) fn save_users(path: &Path, users: &Users) -> io::Result<()> {
    let lines = users.describe_all();
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    if text.len() > ACL_FILE_BYTES_MAX {
        return Err(io::Error::other(format!(
            "it would be larger than {ACL_FILE_BYTES_MAX} bytes and could not be loaded"
        )));
    }
    let loaded = parse_file(&path.to_string_lossy(), text.as_bytes());
    let fault = match loaded {
        Ok(loaded) if loaded.describe_all() == lines => None,
        Ok(_) => Some("the users would be others".to_owned()),
        Err(faults) => Some(faults.into_iter().map(|fault| fault.sentence).collect::<Vec<_>>().join(", ")),
    };
    if let Some(fault) = fault {
        return Err(io::Error::other(format!("it could not be loaded: {fault}")));
    }
    let holds_secret = users.iter().any(|user| user.has_passwords());
    let readers = if holds_secret { Readers::OwnerOnly } else { Readers::AsBefore };
    files::replace(&files::resolve_links(path)?, text.as_bytes(), readers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_that_could_not_be_loaded_again_are_not_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.acl");
        std::fs::write(&path, "user app on\n").unwrap();
        let mut users = Users::default();
        let key_pattern = format!("~{}", "k".repeat(60_000));
        for number in 0..=ACL_FILE_BYTES_MAX / key_pattern.len() {
            users.define(format!("u{number}").as_bytes(), &[&key_pattern]).unwrap();
        }
        let error = save_users(&path, &users).unwrap_err().to_string();
        assert_eq!(error, "it would be larger than 16777216 bytes and could not be loaded");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "user app on\n");
    }
}
