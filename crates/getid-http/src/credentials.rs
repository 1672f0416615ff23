//! Parses the header `Authorization`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The user of a `Bearer` token without a colon, and of an empty name.
const DEFAULT_USER: &str = "default";

/// A user and a password.
#[derive(PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The password, as it was sent.
    pub password: String,
}

/// The header has neither of the two forms. `Display` is the detail of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Authorization must be 'Basic' and base64 of user:password, or 'Bearer user:password'")]
pub struct Malformed;

impl Credentials {
    /// Parses `Basic base64(user:password)`, `Bearer user:password`, or `Bearer password` of the default user.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for anything else.
    pub fn read(header: &[u8]) -> Result<Credentials, Malformed> {
        let header = std::str::from_utf8(header).map_err(|_| Malformed)?;
        let (scheme, value) = header.split_once(' ').ok_or(Malformed)?;
        let value = value.trim_matches(' ');
        let text = if scheme.eq_ignore_ascii_case("basic") {
            String::from_utf8(STANDARD.decode(value).map_err(|_| Malformed)?).map_err(|_| Malformed)?
        } else if scheme.eq_ignore_ascii_case("bearer") {
            value.to_owned()
        } else {
            return Err(Malformed);
        };
        let (user, password) = text.split_once(':').unwrap_or((DEFAULT_USER, &text));
        let user = if user.is_empty() { DEFAULT_USER } else { user };
        Ok(Credentials { user: user.to_owned(), password: password.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_nothing_else() {
        for (header, expected) in [
            ("Basic YXBwOnNlY3JldA==", Some(("app", "secret"))),
            ("basic  YXBwOmE6Yg==", Some(("app", "a:b"))),
            ("Basic OnNlY3JldA==", Some(("default", "secret"))),
            ("Basic YXBwOg==", Some(("app", ""))),
            ("Bearer app:secret", Some(("app", "secret"))),
            ("bearer secret", Some(("default", "secret"))),
            ("Bearer größe:ü", Some(("größe", "ü"))),
            ("Basic YXBwOnNlY3JldA", None),
            ("Basic !", None),
            ("Basic /w==", None),
            ("Digest username=app", None),
            ("Basic", None),
            ("", None),
        ] {
            let read = Credentials::read(header.as_bytes());
            let read = read.as_ref().ok().map(|own| (own.user.as_str(), own.password.as_str()));
            assert_eq!(read, expected, "{header:?}");
        }
        assert!(Credentials::read(b"Bearer \xff:x").is_err());
    }
}
