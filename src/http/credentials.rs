//! What the header `Authorization` says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::problem::Problem;

/// The user that the scheme `Bearer` means without a colon, and Basic with an empty name.
const DEFAULT_USER: &str = "default";

/// A user and a password.
#[derive(PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

impl Credentials {
    /// `Basic base64(user:password)`, `Bearer user:password`, or `Bearer password` of the default user.
    ///
    /// # Errors
    ///
    /// 401 for anything else.
    pub(super) fn read(header: &[u8]) -> Result<Credentials, Problem> {
        let wrong = || Problem::unauthorized("Authorization must be 'Basic ...' or 'Bearer user:password'".to_owned());
        let header = std::str::from_utf8(header).map_err(|_| wrong())?;
        let (scheme, value) = header.split_once(' ').ok_or_else(wrong)?;
        let value = value.trim();
        let text = if scheme.eq_ignore_ascii_case("basic") {
            String::from_utf8(STANDARD.decode(value).map_err(|_| wrong())?).map_err(|_| wrong())?
        } else if scheme.eq_ignore_ascii_case("bearer") {
            value.to_owned()
        } else {
            return Err(wrong());
        };
        let (user, password) = text.split_once(':').unwrap_or((DEFAULT_USER, &text));
        let user = if user.is_empty() { DEFAULT_USER } else { user };
        Ok(Credentials { user: user.to_owned(), password: password.to_owned() })
    }
}
