//! Passwords, stored as digests.
//!
//! A digest is SHA-256 without salt or rounds, because Redis's ACL files and `#...` rules hold that. So a password must
//! be long and random, as from `ACL GENPASS`.

use std::fmt;

use ring::digest::{SHA256, digest};
use subtle::{Choice, ConstantTimeEq as _};

/// Bytes of a digest.
const DIGEST_BYTES: usize = 32;

/// The SHA-256 digest of a password. `Display` writes it as 64 hex digits.
#[derive(Clone, Copy)]
pub struct Digest([u8; DIGEST_BYTES]);

impl Digest {
    /// Computes the digest of a password, which may be any bytes.
    pub fn of(password: &[u8]) -> Digest {
        let mut bytes = [0; DIGEST_BYTES];
        bytes.copy_from_slice(digest(&SHA256, password).as_ref());
        Digest(bytes)
    }

    /// Parses 64 lowercase hex digits. Returns `None` for anything else, as Redis does.
    pub(crate) fn from_hex(text: &[u8]) -> Option<Digest> {
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; DIGEST_BYTES];
        if text.len() != 2 * DIGEST_BYTES {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = nibble(digits[0])? << 4 | nibble(digits[1])?;
        }
        Some(Digest(bytes))
    }

    /// Whether both are equal. The time depends on the bytes, so logins use [`Digest::is_among`].
    pub(super) fn is(&self, other: &Digest) -> bool {
        self.0 == other.0
    }

    /// Whether it is one of `others`. The time depends on their number alone.
    pub(crate) fn is_among(&self, others: &[Digest]) -> bool {
        others.iter().fold(Choice::from(0), |found, other| found | self.0.ct_eq(&other.0)).into()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Hides the digest: without salt it is nearly the password, and must not reach a log.
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest that `printf pw | sha256sum` and Redis's `ACL LIST` print.
    const PW: &str = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";

    #[test]
    fn a_digest_is_sha_256_in_hex() {
        assert_eq!(Digest::of(b"pw").to_string(), PW);
        assert_eq!(Digest::from_hex(PW.as_bytes()).unwrap().to_string(), PW);
        assert_eq!(format!("{:?}", Digest::of(b"pw")), "Digest(..)");
    }

    #[test]
    fn hex_is_64_small_digits() {
        let with = |text: String| Digest::from_hex(text.as_bytes()).is_some();
        assert!(with(PW.into()));
        assert!(!with(PW.to_uppercase()));
        assert!(!with(PW[1..].into()) && !with(format!("{PW}0")) && !with(format!("{}g", &PW[1..])));
        assert!(!with(String::new()));
    }

    #[test]
    fn only_the_same_digest_is_among_others() {
        let others = [Digest::of(b"a"), Digest::of(b"b")];
        assert!(Digest::of(b"a").is_among(&others) && Digest::of(b"b").is_among(&others));
        assert!(!Digest::of(b"c").is_among(&others) && !Digest::of(b"a").is_among(&[]));
        for bit in 0..256 {
            let mut near = Digest::of(b"a");
            near.0[bit / 8] ^= 1 << (bit % 8);
            assert!(!near.is_among(&others), "bit {bit}");
        }
    }
}
