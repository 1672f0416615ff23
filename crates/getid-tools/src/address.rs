//! Names of servers: `HOST:PORT`, the path of a Unix socket, or a URL as Redis's clients accept it.

use std::fmt;
use std::path::PathBuf;

use getid_text::percent::decode;
use getid_text::printable::printable;

/// Address of a server: a TCP port or a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP port of a host.
    Tcp {
        /// Host name, or IP address without brackets.
        host: String,
        /// Port, 1 to 65535.
        port: u16,
    },
    /// Path of a Unix socket.
    Unix(PathBuf),
}

/// A server as one word names it, with its login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// TCP port or Unix socket of the server.
    pub address: Address,
    /// Whether the URL was `rediss://`.
    pub tls: bool,
    /// User of the URL, decoded; `None` without one.
    pub user: Option<String>,
    /// Password of the URL, decoded; `None` without one.
    pub password: Option<String>,
    /// Database of the URL; 0 without one.
    pub database: u32,
}

/// Why a word names no server. It never quotes a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerAddressError {
    /// The word has none of the accepted forms. Holds the word without login and database.
    #[error(
        "'{}' is no server: write HOST:PORT, a Unix socket's path with a / in it, redis://HOST:PORT or rediss://HOST:PORT",
        printable(.0)
    )]
    Syntax(String),
    /// The URL has another scheme than `redis`, `rediss` and `unix`. Holds the scheme.
    #[error("'{}://' is no server's URL: write redis://, rediss:// (TLS) or unix://", printable(.0))]
    Scheme(String),
    /// The port is not a number from 1 to 65535. Holds its text.
    #[error("the port '{}' is out of range: must be 1 to 65535", printable(.0))]
    Port(String),
    /// The database is not a number from 0 to 2147483647. Holds its text.
    #[error("the database '{}' of the URL is out of range: must be 0 to 2147483647", printable(.0))]
    Database(String),
    /// The URL has a query or a fragment. Holds its first character, `?` or `#`.
    #[error(
        "a URL ends with the database here: '{char}' is not understood (in a user or password write it as %{code:02X})",
        char = .0,
        code = u32::from(*.0)
    )]
    Query(char),
    /// The user or the password has an invalid percent-encoding, or is not UTF-8.
    #[error("user and password of a URL are percent-encoded UTF-8: % itself is %25")]
    Encoding,
}

/// Whether a word can only mean a server: no command and no count has a colon or a slash.
pub fn names_server(word: &str) -> bool {
    word.contains([':', '/'])
}

impl ServerAddress {
    /// Parses `HOST:PORT`, `[ADDRESS]:PORT`, a path with a slash in it, `redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]`,
    /// `rediss://` alike, or `unix://[[USER]:PASSWORD@]PATH`. Without a port, a URL means `port_default`.
    ///
    /// # Errors
    ///
    /// Fails if the word has none of these forms, or a part of it is out of range or wrongly encoded.
    pub fn parse(word: &str, port_default: u16) -> Result<ServerAddress, ServerAddressError> {
        if let Some((scheme, rest)) = word.split_once("://") {
            return ServerAddress::parse_url(scheme, rest, port_default);
        }
        let address = if word.contains('/') {
            Address::Unix(word.into())
        } else {
            let shown = || ServerAddressError::Syntax(word.rsplit_once('@').map_or(word, |(_, host)| host).to_owned());
            parse_host_port(word, None)?.ok_or_else(shown)?
        };
        Ok(ServerAddress { address, tls: false, user: None, password: None, database: 0 })
    }

    fn parse_url(scheme: &str, rest: &str, port_default: u16) -> Result<ServerAddress, ServerAddressError> {
        let scheme = scheme.to_ascii_lowercase();
        if !["redis", "rediss", "unix"].contains(&scheme.as_str()) {
            return Err(ServerAddressError::Scheme(scheme));
        }
        // A password may contain slashes that were not encoded; a host contains no @.
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, rest),
        };
        if let Some(char) = rest.chars().find(|char| ['?', '#'].contains(char)) {
            return Err(ServerAddressError::Query(char));
        }
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (decoded(user)?, decoded(password)?),
            None => (None, None),
        };
        let (address, database) = if scheme == "unix" {
            if !rest.starts_with('/') {
                return Err(ServerAddressError::Syntax(format!("unix://{rest}")));
            }
            (Address::Unix(rest.into()), 0)
        } else {
            let (host, database) = rest.split_once('/').unwrap_or((rest, ""));
            let address = parse_host_port(host, Some(port_default))?;
            let address = address.ok_or_else(|| ServerAddressError::Syntax(format!("{scheme}://{host}")))?;
            (address, parse_database(database)?)
        };
        Ok(ServerAddress { address, tls: scheme == "rediss", user, password, database })
    }
}

/// Parses `HOST:PORT`. Returns `None` for any other form.
fn parse_host_port(text: &str, port_default: Option<u16>) -> Result<Option<Address>, ServerAddressError> {
    let (host, port) = match text.rsplit_once(':') {
        // [::1] has colons and no port.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    // An address with colons needs its brackets: the last group could be the port.
    if in_brackets.is_none() && host.contains([':', '[', ']']) {
        return Ok(None);
    }
    let host = in_brackets.unwrap_or(host);
    if host.is_empty() || host.contains(|char: char| char.is_whitespace() || char.is_control()) {
        return Ok(None);
    }
    let port = match (port, port_default) {
        (Some(port), _) => parse_port(port)?,
        (None, Some(port)) => port,
        (None, None) => return Ok(None),
    };
    Ok(Some(Address::Tcp { host: host.to_owned(), port }))
}

/// Parses a port, 1 to 65535.
pub(crate) fn parse_port(text: &str) -> Result<u16, ServerAddressError> {
    let port = text.parse().ok().filter(|&port| port > 0 && text.bytes().all(|byte| byte.is_ascii_digit()));
    port.ok_or_else(|| ServerAddressError::Port(text.to_owned()))
}

fn parse_database(text: &str) -> Result<u32, ServerAddressError> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.parse().ok().filter(|&number: &u32| number <= i32::MAX.cast_unsigned());
    number.ok_or_else(|| ServerAddressError::Database(text.to_owned()))
}

/// Decodes percent-encoded text; `None` if it is empty.
fn decoded(text: &str) -> Result<Option<String>, ServerAddressError> {
    let text = decode(text.as_bytes()).and_then(|bytes| String::from_utf8(bytes.into()).ok());
    let text = text.ok_or(ServerAddressError::Encoding)?;
    Ok((!text.is_empty()).then_some(text))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(word: &str, address: &str, tls: bool, user: &str, password: &str, database: u32) {
        let place = ServerAddress::parse(word, 7890).unwrap_or_else(|error| panic!("{word}: {error}"));
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        assert_eq!(place.address.to_string(), address, "{word}");
        assert_eq!(
            (place.tls, place.user, place.password, place.database),
            (tls, text(user), text(password), database),
            "{word}"
        );
    }

    #[test]
    fn servers_have_many_names() {
        check("localhost:7000", "localhost:7000", false, "", "", 0);
        check("10.0.0.5:7890", "10.0.0.5:7890", false, "", "", 0);
        check("[::1]:7000", "[::1]:7000", false, "", "", 0);
        check("/run/getid.sock", "/run/getid.sock", false, "", "", 0);
        check("./s", "./s", false, "", "", 0);
        check("redis://a", "a:7890", false, "", "", 0);
        check("redis://a/", "a:7890", false, "", "", 0);
        check("REDIS://a:7000/3", "a:7000", false, "", "", 3);
        check("rediss://alice:s%3Acr%25t@a:7000", "a:7000", true, "alice", "s:cr%t", 0);
        check("rediss://:pw@[::1]", "[::1]:7890", true, "", "pw", 0);
        check("redis://alice@a", "a:7890", false, "alice", "", 0);
        check("redis://u:a@b/c@host:1", "host:1", false, "u", "a@b/c", 0);
        check("unix:///run/s", "/run/s", false, "", "", 0);
        check("unix://:pw@/run/s", "/run/s", false, "", "pw", 0);
    }

    #[test]
    fn the_error_of_a_bad_name_shows_good_ones() {
        for (word, part) in [
            ("nonsense", "write HOST:PORT"),
            ("", "write HOST:PORT"),
            (":7890", "write HOST:PORT"),
            ("::1", "write HOST:PORT"),
            ("::1:7890", "write HOST:PORT"),
            ("a b:7890", "write HOST:PORT"),
            ("a:", "the port '' is out of range"),
            ("a:0", "the port '0' is out of range"),
            ("a:65536", "the port '65536' is out of range"),
            ("a:+5", "the port '+5' is out of range"),
            ("http://a", "'http://' is no server's URL"),
            ("redis://", "'redis://' is no server"),
            ("unix://s", "'unix://s' is no server"),
            ("redis://a/x", "the database 'x'"),
            ("redis://a/-1", "the database '-1'"),
            ("redis://a?db=1", "write it as %3F"),
            ("redis://:a%2@h", "% itself is %25"),
            ("redis://:%ff@h", "percent-encoded UTF-8"),
        ] {
            let error = ServerAddress::parse(word, 7890).expect_err(word).to_string();
            assert!(error.contains(part), "{word}: {error}");
        }
    }

    #[test]
    fn no_error_quotes_a_password() {
        for word in [
            "redis://u:secret@a/x",
            "redis://u:secret@",
            "redis://u:secret@a:x",
            "redis://u:sec%ret@a",
            "unix://:secret@s",
            "u:secret@a:7890",
        ] {
            let error = ServerAddress::parse(word, 7890).expect_err(word).to_string();
            assert!(!error.contains("sec"), "{word}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_word_is_read_or_refused(word in "\\PC{0,40}|(redis|rediss|unix)://[a-z%:@/\\[\\]0-9?]{0,30}") {
            let _ = ServerAddress::parse(&word, 7890);
        }
    }
}
