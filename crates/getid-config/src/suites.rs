//! Versions and cipher suites of TLS, by their OpenSSL names, which redis.conf uses.
//!
//! This module only has names. The crate `getid-server` has the suites of the library, and a test compares both.

use super::value_error::ValueError;

/// Versions of `tls-protocols`, by OpenSSL's names.
pub const PROTOCOLS: &[&str] = &["TLSv1.2", "TLSv1.3"];

/// Cipher suites of TLS 1.3, as `tls-ciphersuites` names them, the best first.
pub const SUITES_13: &[&str] = &["TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"];

/// Cipher suites of TLS 1.2, as `tls-ciphers` names them, the best first.
pub const SUITES_12: &[&str] = &[
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-CHACHA20-POLY1305",
];

/// OpenSSL's words for all suites that are strong enough, as all of [`SUITES_12`] are.
const ALL_12: &[&str] = &["DEFAULT", "ALL", "HIGH"];

/// OpenSSL's words for suites outside of [`SUITES_12`]: their exclusion changes nothing.
const NONE_12: &[&str] = &[
    "aNULL", "eNULL", "NULL", "EXPORT", "EXP", "LOW", "MEDIUM", "MD5", "SHA1", "SHA", "RC4", "RC2", "DES", "3DES",
    "IDEA", "SEED", "CAMELLIA", "ARIA", "PSK", "SRP", "DSS", "DH", "EDH", "DHE", "kDHE", "ADH", "AECDH", "kRSA",
    "SSLv2", "SSLv3",
];

/// Returns the names of a list, each once, in their order. An empty list means all names.
fn names(
    text: &str,
    is_between: fn(char) -> bool,
    words: &'static [&'static str],
) -> Result<Vec<&'static str>, ValueError> {
    let mut found = Vec::new();
    for word in text.split(is_between).filter(|word| !word.is_empty()) {
        let known = words.iter().find(|known| known.eq_ignore_ascii_case(word));
        let known = known.copied().ok_or_else(|| ValueError::Word { found: word.to_owned(), words })?;
        if !found.contains(&known) {
            found.push(known);
        }
    }
    Ok(found)
}

/// Parses `tls-protocols`, separated by blanks.
pub(super) fn protocols(text: &str) -> Result<Vec<&'static str>, ValueError> {
    names(text, |character| character.is_ascii_whitespace(), PROTOCOLS)
}

/// Parses `tls-ciphersuites`, separated by colons.
pub(super) fn suites_13(text: &str) -> Result<Vec<&'static str>, ValueError> {
    names(text, |character| character == ':', SUITES_13)
}

/// Parses `tls-ciphers`, separated by colons, including OpenSSL's words with the same effect here.
pub(super) fn suites_12(text: &str) -> Result<Vec<&'static str>, ValueError> {
    let is_in = |words: &[&str], word: &str| words.iter().any(|known| known.eq_ignore_ascii_case(word));
    let (mut named, mut is_all) = (Vec::new(), false);
    for word in text.split(':') {
        if is_in(ALL_12, word) {
            is_all = true;
        } else if !word.strip_prefix(['!', '-']).is_some_and(|word| is_in(NONE_12, word)) {
            named.push(word);
        }
    }
    let named = names(&named.join(":"), |character| character == ':', SUITES_12)?;
    Ok(if is_all { Vec::new() } else { named })
}
