//! Mistakes in addresses of stores. No text of them contains a password.

/// The longest address, bytes.
pub(super) const STORE_URL_BYTES_MAX: usize = 2048;

/// The most members of etcd that one address names.
pub(super) const ENDPOINTS_MAX: usize = 16;

/// The longest prefix of keys in etcd, bytes.
pub(super) const PREFIX_BYTES_MAX: usize = 128;

/// Option with the time between two compactions of etcd, s.
pub(super) const COMPACT: &str = "compact-every-s";

/// The longest `compact-every-s`, s.
pub(super) const COMPACT_EVERY_S_MAX: u64 = 86_400;

/// Why a text is not a valid address. `Display` contains no password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{shown}' {mistake}")]
pub struct StoreUrlError {
    pub(super) shown: String,
    pub(super) mistake: Mistake,
}

impl StoreUrlError {
    /// Returns a suggestion for a misspelled scheme.
    pub fn help(&self) -> Option<String> {
        match &self.mistake {
            Mistake::Scheme { meant, .. } => meant.map(|meant| format!("did you mean '{meant}:'?")),
            _ => None,
        }
    }
}

/// The forms that an error lists as expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressForms {
    pub(super) schemes: &'static str,
    pub(super) forms: &'static str,
}

/// A mistake in an address. `form` is the expected form of the whole address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Mistake {
    #[error("is empty, must be {}", .expected.forms)]
    Empty { expected: AddressForms },
    #[error("has {bytes} bytes, must have at most {STORE_URL_BYTES_MAX}")]
    TooLong { bytes: usize },
    #[error("has a blank or a control character in it; write a blank as %20")]
    Blank,
    #[error("has no scheme, must be {}", .expected.forms)]
    NoScheme { expected: AddressForms },
    #[error("has none of the schemes {}; must be {}", .expected.schemes, .expected.forms)]
    Scheme { expected: AddressForms, meant: Option<&'static str> },
    #[error("is etcd, which keeps claims (claim-store) and no sequences; must be {}", .expected.forms)]
    EtcdForSequences { expected: AddressForms },
    #[error("has options, and a SQLite file has none; write '?' in a path as %3F")]
    SqliteOptions,
    #[error("names a host, and SQLite is a file: write sqlite:{path} or sqlite:/{path}")]
    SqliteHost { path: String },
    /// The text is left out: it may have a password.
    #[error("names a user and a host, and SQLite is a file: write sqlite:PATH")]
    SqliteUser,
    #[error("has a NUL in its path")]
    SqliteNul,
    #[error("has no // after the scheme, {form}")]
    NoSlashes { form: &'static str },
    #[error("names no {part}, {form}")]
    Missing { part: &'static str, form: &'static str },
    #[error("names no host as number {number}, {form}")]
    NoEndpoint { number: usize, form: &'static str },
    #[error("has an '@' and names no user before it, {form}")]
    NoUserBeforeAt { form: &'static str },
    #[error("has a '/' or '?' before its '@': in a user or password, '/' is written %2F, '?' %3F, '#' %23, '@' %40")]
    SlashBeforeAt,
    #[error("has a '#' in it, which is written %23")]
    Hash,
    #[error("has a '%' in its {part} that no two hexadecimal digits follow; a '%' is written %25")]
    Escape { part: &'static str },
    #[error("has a {part} that is not UTF-8")]
    NotUtf8 { part: &'static str },
    #[error("has brackets around something other than an IPv6 address, such as [::1]")]
    Brackets,
    #[error("has a path in place of the host; a socket is named after the '?': socket=PATH")]
    PathAsHost,
    /// The text is left out: if the address has no host, it may be the password.
    #[error("has no port after the ':', must be 1 to 65535; an IPv6 address is in brackets: [::1]")]
    Port,
    #[error("names {count} hosts, must name at most {ENDPOINTS_MAX}")]
    Endpoints { count: usize },
    #[error("names {host}:{port} twice")]
    EndpointTwice { host: String, port: u16 },
    #[error(
        "has an invalid prefix, must be 1 to {PREFIX_BYTES_MAX} letters, digits, '.', '_', '-' and ':', in parts that \
         single '/' divide"
    )]
    Prefix,
    #[error("has the option '{name}', must be one of {}{}", .known.join(", "), suggestion(*.meant))]
    Option { name: String, known: &'static [&'static str], meant: Option<&'static str> },
    #[error("has no value after '{name}='")]
    NoValue { name: &'static str },
    #[error("has the option '{name}' twice")]
    OptionTwice { name: &'static str },
    #[error("has tls={found}, must be tls=no, tls=yes or tls=verify")]
    Tls { found: String },
    #[error("has uuid={found}, must be the store's own, 32 hexadecimal digits, as SEQUENCE STORES shows it")]
    Uuid { found: String },
    #[error("has {COMPACT}={found}, must be 0 (never) to {COMPACT_EVERY_S_MAX}")]
    CompactEvery { found: String },
    #[error("has a password and a password-file, must have one of them")]
    TwoPasswords,
    #[error("has a password-file, and names no user before an '@'")]
    PasswordWithoutUser,
    #[error("names a user without a password; write USER:PASSWORD@ or password-file=PATH")]
    UserWithoutPassword,
    #[error("has a socket, which is on this machine, and another host; leave one of them out")]
    SocketAndHost,
    #[error("has a ca-file, which only tls=verify uses")]
    CaUnused,
    #[error("has a cert-file without its key-file")]
    CertWithoutKey,
    #[error("has a key-file without its cert-file")]
    KeyWithoutCert,
    #[error("has a cert-file, which tls=no does not use")]
    CertUnused,
}

fn suggestion(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"))
}
