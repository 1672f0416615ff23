//! Addresses: reads `getid://user:password@host:7890,host2`. No error shows text that may be a password.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;

use crate::error::{Error, Result};

const PORT: u16 = 7890;
const URL_BYTES_MAX: usize = 16_384;
const HOSTS_MAX: usize = 64;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// All that a URL has: the addresses in the order of use, the arguments of `AUTH`, and whether TLS is used.
pub(crate) struct Target {
    pub(crate) addresses: Vec<Address>,
    pub(crate) login: Vec<Vec<u8>>,
    pub(crate) is_tls: bool,
}

fn usage<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Usage(message.into()))
}

impl Target {
    /// Reads a URL. The addresses are shuffled unless it has `order=given`.
    pub(crate) fn parse(url: &str) -> Result<Target> {
        if url.len() > URL_BYTES_MAX {
            return usage(format!("url has {} bytes, must have at most {URL_BYTES_MAX}", url.len()));
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return usage("scheme of the url is missing, must be 'getid', 'getids' or 'getid+unix'");
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (is_tls, is_socket) = match scheme {
            "getid" => (false, false),
            "getids" => (true, false),
            "getid+unix" => (false, true),
            _ => return usage(format!("scheme of the url is {scheme:?}, must be 'getid', 'getids' or 'getid+unix'")),
        };
        let is_shuffled = parse_query(query)?;
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (parse_login(login)?, place),
            None => (Vec::new(), rest),
        };
        if is_socket {
            return Ok(Target { addresses: vec![parse_path(place)?], login, is_tls });
        }
        let place = place.strip_suffix('/').unwrap_or(place);
        let count = place.split(',').count();
        if count > HOSTS_MAX {
            return usage(format!("url has {count} hosts, must have at most {HOSTS_MAX}"));
        }
        let mut addresses = Vec::with_capacity(count);
        for (index, text) in place.split(',').enumerate() {
            addresses.push(parse_address(text, index + 1)?);
        }
        if is_shuffled {
            shuffle(&mut addresses);
        }
        Ok(Target { addresses, login, is_tls })
    }
}

/// Reads the options. Returns whether the addresses are shuffled.
fn parse_query(query: &str) -> Result<bool> {
    let mut is_shuffled = true;
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if name != "order" {
            // A '?' in a password that is not percent-encoded leads here, so only a plain word is shown.
            let is_word = name.bytes().all(|byte| byte.is_ascii_alphabetic()) && !query.contains('@');
            let found = if is_word { name } else { "(not shown)" };
            return usage(format!(
                "url has the unknown option {found}, must be 'order=given'; write '%3F' for '?' in a login"
            ));
        }
        if value != "given" {
            return usage("option order of the url has an unknown value, must be 'order=given'");
        }
        is_shuffled = false;
    }
    Ok(is_shuffled)
}

fn parse_login(text: &str) -> Result<Vec<Vec<u8>>> {
    let Some((user, password)) = text.split_once(':') else {
        return usage("url has a user without a password, must be 'getid://user:password@host' or without '@'");
    };
    let (user, password) = (decode("user", user)?, decode("password", password)?);
    Ok(if user.is_empty() { vec![password] } else { vec![user, password] })
}

fn decode(part: &str, text: &str) -> Result<Vec<u8>> {
    let mut pieces = text.split('%');
    let mut decoded = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.as_bytes().first_chunk::<2>().filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let Some(byte) = digits.and_then(|_| u8::from_str_radix(&piece[..2], 16).ok()) else {
            return usage(format!("{part} of the url has a '%' without two hex digits: write '%25' for '%'"));
        };
        decoded.push(byte);
        decoded.extend_from_slice(&piece.as_bytes()[2..]);
    }
    Ok(decoded)
}

fn parse_path(text: &str) -> Result<Address> {
    if !text.starts_with('/') {
        return usage("path of the url is not absolute, must be as in 'getid+unix:///run/getid.sock'");
    }
    let Ok(path) = String::from_utf8(decode("path", text)?) else {
        return usage("path of the url is not UTF-8: choose another path for the socket");
    };
    Ok(Address::Unix(path.into()))
}

fn parse_address(text: &str, number: usize) -> Result<Address> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) if port.starts_with(':') => (host, Some(&port[1..])),
            _ => return usage(format!("host {number} of the url is no IPv6 address, must be as in '[::1]:{PORT}'")),
        },
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return usage(format!("host {number} of the url is empty, must be as in 'getid://127.0.0.1:{PORT}'"));
    }
    let number_of = |text: &str| text.parse().ok().filter(|&port: &u16| port > 0 && !text.starts_with('+'));
    match port.map_or(Some(PORT), number_of) {
        Some(port) => Ok(Address::Tcp { host: host.to_owned(), port }),
        None => usage(format!(
            "host {number} of the url has a port that is not 1 to 65535, must be as in 'getid://127.0.0.1:{PORT}' \
             or 'getid://[::1]:{PORT}'"
        )),
    }
}

/// Shuffles by the random keys of the standard library's hash maps.
fn shuffle(addresses: &mut [Address]) {
    for index in (1..addresses.len()).rev() {
        let random = RandomState::new().build_hasher().finish();
        addresses.swap(index, usize::try_from(random % (index as u64 + 1)).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(url: &str) -> String {
        match Target::parse(url) {
            Ok(target) => {
                let addresses: Vec<_> = target.addresses.iter().map(ToString::to_string).collect();
                let login: Vec<_> = target.login.iter().map(|part| String::from_utf8_lossy(part)).collect();
                format!("{} {}{}", addresses.join(","), login.join(":"), if target.is_tls { " tls" } else { "" })
            }
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn urls_are_read() {
        for (url, expected) in [
            ("getid://a", "a:7890 "),
            ("getids://a:1,[::1]:2,b/?order=given", "a:1,[::1]:2,b:7890  tls"),
            ("getid://u%3a:p%40%25@h", "h:7890 u::p@%"),
            ("getid://:pw@h", "h:7890 pw"),
            ("getid+unix:///run/a%20b.sock", "/run/a b.sock "),
            ("getid+unix://u:p@/run/g", "/run/g u:p"),
        ] {
            assert_eq!(show(url), expected, "{url}");
        }
    }

    #[test]
    fn mistakes_name_the_part_and_never_the_password() {
        for (url, part) in [
            ("redis://secret@h", "scheme"),
            ("secret", "scheme"),
            ("getid://", "host 1"),
            ("getid://a,,b", "host 2"),
            ("getid://a:0", "port"),
            ("getid://a:65536", "port"),
            ("getid://a:+1", "port"),
            ("getid://::1", "host 1"),
            ("getid://u:secret:7890", "port"),
            ("getid://[::1", "IPv6"),
            ("getid://secret@h", "without a password"),
            ("getid://u:%zzsecret@h", "hex digits"),
            ("getid://u:%é@h", "hex digits"),
            ("getid://u:p?secret@h", "unknown option"),
            ("getid://a?order=secret", "order"),
            ("getid+unix://run", "absolute"),
            ("getid+unix:///%ff", "UTF-8"),
        ] {
            let error = show(url);
            assert!(error.starts_with("error: ") && error.contains(part), "{url}: {error}");
            assert!(!error.contains("secret") || url.starts_with("redis"), "{url}: {error}");
        }
        assert!(show(&format!("getid://{}", "a,".repeat(70))).contains("71 hosts"));
        assert!(show(&"a".repeat(20_000)).contains("20000 bytes"));
    }

    #[test]
    fn addresses_are_shuffled_once_unless_the_order_is_given() {
        let url = "getid://a,b,c,d,e,f,g,h,i,j";
        let orders: std::collections::HashSet<_> = (0..50).map(|_| show(url)).collect();
        assert!(orders.len() > 10);
        assert!((0..50).all(|_| show(&format!("{url}?order=given")).starts_with("a:7890,b:7890,c:7890,d")));
    }
}
