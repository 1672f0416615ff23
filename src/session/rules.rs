//! What all sessions of a server go by, shared and unchanging.

use std::sync::Arc;

use super::account::Timing;
use crate::command::Vocabulary;
use crate::id::Scheme;
use crate::resp::DecodeLimits;

/// What all sessions of a server go by. A changed setting is a new `Rules`, given to [`super::Session::set_rules`].
#[derive(Clone, Debug)]
pub struct Rules {
    /// The commands by the names they go by here.
    pub vocabulary: Vocabulary,
    /// How a reservation becomes IDs.
    pub scheme: Arc<Scheme>,
    /// The most IDs one `MGETID` may ask for (`id-mgetid-max`). A turn holds up to [`super::TURN_IDS_MAX`] more, and counts
    /// them as `u32`: at most 2^31.
    pub id_mgetid_max: u32,
    /// How many databases `SELECT` accepts (`databases`).
    pub databases: u32,
    /// What `AUTH` must bring (`requirepass`); `None` lets everyone in.
    pub password: Option<Password>,
    /// The largest argument, bytes (`proto-max-bulk-len`).
    pub bulk_bytes_max: usize,
    /// The largest request, bytes (`client-query-buffer-limit`); also bounds what `MULTI` queues.
    pub request_bytes_max: usize,
    /// How commands are timed, and which are told one by one.
    pub timing: Timing,
}

impl Rules {
    /// What the decoder allows a client that has authenticated.
    pub(super) fn limits(&self) -> DecodeLimits {
        DecodeLimits {
            bulk_bytes_max: self.bulk_bytes_max,
            request_bytes_max: self.request_bytes_max,
            ..DecodeLimits::default()
        }
    }
}

/// A password that is compared in a time that does not depend on it.
#[derive(Clone)]
pub struct Password {
    padded: Box<[u8; PASSWORD_BYTES_MAX]>,
    len: usize,
}

/// The longest password, bytes; Redis's `CONFIG_AUTHPASS_MAX_LEN`.
pub const PASSWORD_BYTES_MAX: usize = 512;

impl Password {
    /// A password of 1 to [`PASSWORD_BYTES_MAX`] bytes; `None` for any other length.
    pub fn new(secret: &[u8]) -> Option<Password> {
        let mut padded = Box::new([0; PASSWORD_BYTES_MAX]);
        padded.get_mut(..secret.len()).filter(|place| !place.is_empty())?.copy_from_slice(secret);
        Some(Password { padded, len: secret.len() })
    }

    /// Whether `guess` is the password.
    ///
    /// All [`PASSWORD_BYTES_MAX`] bytes are compared whatever they are, so the time tells nothing about where the first
    /// difference is or how long the password is. `black_box` keeps the compiler from ending the loop early.
    pub fn matches(&self, guess: &[u8]) -> bool {
        let mut other = [0; PASSWORD_BYTES_MAX];
        let kept = guess.len().min(PASSWORD_BYTES_MAX);
        other[..kept].copy_from_slice(&guess[..kept]);
        let mut difference = self.len ^ guess.len();
        for (a, b) in self.padded.iter().zip(&other) {
            difference = std::hint::black_box(difference | usize::from(a ^ b));
        }
        difference == 0
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(secret: &[u8], guess: &[u8], fits: bool) {
        assert_eq!(Password::new(secret).unwrap().matches(guess), fits);
    }

    #[test]
    fn only_the_password_itself_fits() {
        check(b"secret", b"secret", true);
        check(b"secret", b"secreT", false);
        check(b"secret", b"Secret", false);
        check(b"secret", b"secre", false);
        check(b"secret", b"secret2", false);
        check(b"secret", b"", false);
        // The padding is no part of it.
        check(b"secret", b"secret\0", false);
        check(b"secret\0", b"secret", false);
        let longest = [b'x'; PASSWORD_BYTES_MAX];
        check(&longest, &longest, true);
        check(&longest, &[b'x'; PASSWORD_BYTES_MAX + 1], false);
        check(&longest, &longest[1..], false);
    }

    #[test]
    fn passwords_have_1_to_512_bytes() {
        assert!(Password::new(b"").is_none());
        assert!(Password::new(&[b'x'; PASSWORD_BYTES_MAX]).is_some());
        assert!(Password::new(&[b'x'; PASSWORD_BYTES_MAX + 1]).is_none());
    }

    #[test]
    fn a_password_is_not_shown() {
        assert_eq!(format!("{:?}", Password::new(b"secret")), "Some(Password(..))");
    }
}
