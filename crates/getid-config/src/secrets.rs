//! Which directives hold a secret, and how their values are hidden in output.

use std::sync::LazyLock;

use super::directive::{Directive, Secrecy};
use super::ignored::IGNORED_DIRECTIVES;
use getid_redis::acl::REDACTED;
use getid_text::store_url::{StoreUrl, without_password};
use getid_text::suggest::is_near;

/// Directives that are not [`Secrecy::Open`], by their rows: getid's own, and those of Redis without a meaning here,
/// which may contain the password of another server.
static SECRETS: LazyLock<Vec<(&str, Secrecy)>> = LazyLock::new(|| {
    let own = Directive::ALL.iter().map(|row| (row.name, row.secrecy));
    let known = IGNORED_DIRECTIVES.iter().filter(|row| row.is_secret).map(|row| (row.name, Secrecy::Secret));
    own.filter(|(_, secrecy)| *secrecy != Secrecy::Open).chain(known).collect()
});

/// Returns the names of directives that hold a secret.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SECRETS.iter().map(|(name, _)| *name)
}

/// Whether a word may be such a name with a typing error: then the secret was sent all the same.
pub fn may_be_secret_directive(word: &[u8]) -> bool {
    str::from_utf8(word).is_ok_and(is_secret)
}

/// Whether these words of a directive contain a password, or a digest of one.
pub(super) fn is_in(directive: &str, words: &[String]) -> bool {
    match SECRETS.iter().find(|(name, _)| *name == directive) {
        Some((_, Secrecy::Secret)) => words.iter().any(|word| !word.is_empty()),
        Some((_, Secrecy::Passwords)) => {
            words.iter().skip(1).any(|rule| rule.starts_with('>') || rule.starts_with('#'))
        }
        Some((_, Secrecy::Addresses)) => words.iter().any(|word| match StoreUrl::parse(word) {
            Ok(url) => url.has_password(),
            Err(_) => without_password(word) != *word,
        }),
        Some((_, Secrecy::Open)) | None => false,
    }
}

/// Returns the value of a directive as users without the right to its secrets see it.
pub fn hidden(name: &[u8], value: String) -> String {
    let is_name = |(secret, _): &&(&str, Secrecy)| secret.as_bytes().eq_ignore_ascii_case(name);
    match SECRETS.iter().find(is_name) {
        Some((_, Secrecy::Addresses)) => value.lines().map(without_password).collect::<Vec<_>>().join("\n"),
        Some(_) if !value.is_empty() => REDACTED.to_owned(),
        _ => value,
    }
}

/// Returns a line of a redis.conf with its values hidden if they may be secret.
pub(super) fn without_secrets(line: &str) -> String {
    let trimmed = line.trim_start();
    let start = trimmed.trim_start_matches(['"', '\'', '-']);
    let name_bytes = start.find(|character: char| !is_of_name(character)).unwrap_or(start.len());
    let (name, rest) = start.split_at(name_bytes);
    if rest.trim().is_empty() || !is_secret(name) {
        return line.to_owned();
    }
    format!("{name} (hidden)")
}

/// Whether a line of a TOML file may show a secret.
///
/// It is stricter than [`without_secrets`], because a value may continue over lines, and a table may be on one line.
pub(super) fn may_show_secret(line: &str) -> bool {
    line.split(|character: char| !is_of_name(character)).any(is_secret)
}

/// Whether this is the name of a directive with a secret, or may be one with a typing error.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let name = name.strip_prefix("getid-").unwrap_or(&name);
    // A TOML file may have a table of users.
    name.contains("pass") || names().chain(["users"]).any(|secret| is_near(name, secret))
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_')
}

#[cfg(test)]
mod tests {
    use super::super::row::ValueShape;
    use super::*;

    /// Words in names of possible secrets.
    const SUSPICIOUS: [&str; 7] = ["pass", "auth", "secret", "key", "token", "user", "acl"];

    /// Suspicious names that are shown all the same: paths, words to choose from, numbers.
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
    fn secrets_are_hidden_and_nothing_else_is() {
        for (line, expected) in [
            ("requirepass hunter2", "requirepass (hidden)"),
            ("  RequirePass \"hunter2", "RequirePass (hidden)"),
            ("\"requirepass\" hunter2", "requirepass (hidden)"),
            ("requirpas hunter2", "requirpas (hidden)"),
            ("requirepass=hunter2", "requirepass (hidden)"),
            ("masterauth hunter2", "masterauth (hidden)"),
            ("user alice on >hunter2", "user (hidden)"),
            ("tls-key-file-pass hunter2", "tls-key-file-pass (hidden)"),
            ("--requirepass hunter2", "requirepass (hidden)"),
            ("GETID_REQUIREPASS=hunter2", "GETID_REQUIREPASS (hidden)"),
            ("port 7890", "port 7890"),
            ("tls-auth-clients perhaps", "tls-auth-clients perhaps"),
            ("requirepass", "requirepass"),
        ] {
            assert_eq!(without_secrets(line), expected);
        }
    }

    #[test]
    fn every_directive_that_may_be_a_secret_is_listed() {
        for row in Directive::ALL {
            let is_text = matches!(row.shape, ValueShape::Text { .. });
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
    fn a_secret_row_is_secret_everywhere() {
        let names: Vec<_> = names().collect();
        assert!(["requirepass", "user", "masterauth", "tls-key-file-pass"].iter().all(|name| names.contains(name)));
        for name in names {
            assert!(may_be_secret_directive(name.to_uppercase().as_bytes()), "{name}");
            assert!(may_be_secret_directive(&name.as_bytes()[1..]), "{name}, mistyped");
            assert!(is_secret(name) && may_show_secret(&format!("{name} = 'x'")), "{name}");
            assert_eq!(without_secrets(&format!("{name} x >x")), format!("{name} (hidden)"));
            assert!(is_in(name, &["x".to_owned(), ">mysql://a:x@h".to_owned()]), "{name}");
            assert!(!hidden(name.as_bytes(), "mysql://a:hunter2@h/b".to_owned()).contains("hunter"), "{name}");
            assert!(!is_in(name, &[String::new()]), "{name}");
        }
        for row in Directive::ALL.iter().filter(|row| row.secrecy == Secrecy::Open) {
            let names_a_secret = row.name == "requirepass-file";
            assert_eq!(may_be_secret_directive(row.name.as_bytes()), names_a_secret, "{}", row.name);
            assert!(
                !super::names().any(|name| name == row.name) && !is_in(row.name, &["x".to_owned(), ">x".to_owned()])
            );
        }
    }
}
