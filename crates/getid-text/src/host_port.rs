//! Addresses at which clients reach a server: a host and a port, as text.
//!
//! Clients connect to what such a text names, so a wildcard or a group address is no address here. IPv6 stands in
//! brackets, because its colons could be read as a port. A name whose last label is a number is refused: resolvers
//! read it as an IPv4 address, so it is one with a mistake.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::printable::printable_up_to;

/// Longest host name, bytes: RFC 1035's limit.
const HOST_BYTES_MAX: usize = 253;

/// Longest part of a wrong text that an error shows, characters.
const SHOWN_CHARS_MAX: usize = 64;

/// Host and port of a server. Its text is `10.1.0.7:7890`, `[fd00::7]:7890` or `ids-1.example.com:7890`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// IP address without brackets, or host name in lower case.
    pub host: String,
    /// The port, at least 1.
    pub port: u16,
}

/// A host with an optional port, as an operator writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostMaybePort {
    host: String,
    port: Option<u16>,
}

/// Reason why a text is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostPortError {
    /// Neither an IP address nor a host name.
    #[error(
        "'{found}' is not an address of a server; must be a host with or without a port, such as 10.1.0.7, \
         10.1.0.7:7890, [fd00::7]:7890 or ids-1.example.com:7890"
    )]
    Syntax {
        /// The text, cut and without control characters.
        found: String,
    },
    /// An IPv6 address without brackets.
    #[error("'{found}' is an IPv6 address without brackets; must be such as [{ip}] or [{ip}]:7890")]
    Brackets {
        /// The text.
        found: String,
        /// The address.
        ip: Ipv6Addr,
    },
    /// An address that stands for all addresses of a machine, or for a group of machines.
    #[error("'{found}' is not one machine's address; must be one that clients can connect to, such as 10.1.0.7")]
    Wildcard {
        /// The text.
        found: String,
    },
    /// A port that is no number from 1 to 65535.
    #[error("'{found}' has a wrong port after the ':', must be 1 to 65535")]
    Port {
        /// The text, cut and without control characters.
        found: String,
    },
}

impl HostPort {
    /// Parses an address with a port, as another server has written it.
    pub fn parse(text: &str) -> Option<HostPort> {
        let HostMaybePort { host, port } = HostMaybePort::parse(text).ok()?;
        Some(HostPort { host, port: port? })
    }

    /// Returns true if the address names the machine of its reader.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_host(f, &self.host)?;
        write!(f, ":{}", self.port)
    }
}

impl HostMaybePort {
    /// Parses a host with or without a port.
    ///
    /// # Errors
    ///
    /// Fails with the mistake in the text.
    pub fn parse(text: &str) -> Result<HostMaybePort, HostPortError> {
        let found = || printable_up_to(text, SHOWN_CHARS_MAX);
        if let Ok(ip) = text.parse() {
            return Err(HostPortError::Brackets { found: found(), ip });
        }
        // An IPv6 address in brackets has colons of its own.
        let host_end = if text.starts_with('[') { text.find(']').map(|at| at + 1) } else { text.find(':') };
        let (host, rest) = text.split_at(host_end.unwrap_or(text.len()));
        let port = match rest.strip_prefix(':') {
            Some(digits) => Some(port(digits).ok_or_else(|| HostPortError::Port { found: found() })?),
            None if rest.is_empty() => None,
            None => return Err(HostPortError::Syntax { found: found() }),
        };
        let ip = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(ip) => Some(IpAddr::V6(ip.parse().map_err(|_| HostPortError::Syntax { found: found() })?)),
            None if host == "*" => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            None => host.parse().ok().map(IpAddr::V4),
        };
        let host = match ip {
            Some(ip) if !is_one_machine(ip) => return Err(HostPortError::Wildcard { found: found() }),
            Some(ip) => ip.to_string(),
            None if is_host_name(host) => host.to_ascii_lowercase(),
            None => return Err(HostPortError::Syntax { found: found() }),
        };
        Ok(HostMaybePort { host, port })
    }

    /// Returns the port, if one is written.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns true if the host names the machine of its reader.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// Returns the IP address; `None` for a name.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Returns the address with this port, unless one is written.
    pub fn with_default_port(&self, port: u16) -> HostPort {
        HostPort { host: self.host.clone(), port: self.port.unwrap_or(port) }
    }
}

impl fmt::Display for HostMaybePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_host(f, &self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

fn write_host(f: &mut fmt::Formatter<'_>, host: &str) -> fmt::Result {
    if host.contains(':') { write!(f, "[{host}]") } else { f.write_str(host) }
}

fn port(digits: &str) -> Option<u16> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| *port != 0 && is_number)
}

/// Returns true if clients can connect to the address: it is no wildcard and no group.
fn is_one_machine(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Returns true for a host name: labels with dots between them, of which the last is no number.
fn is_host_name(host: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or(host);
    host.len() <= HOST_BYTES_MAX && host.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_loopback(host: &str) -> bool {
    let is_name = host == "localhost" || host.ends_with(".localhost");
    is_name || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back() {
        let long = format!("{}.example", "a".repeat(245));
        for (text, host, port) in [
            ("10.1.0.7", "10.1.0.7", None),
            ("10.1.0.7:7890", "10.1.0.7", Some(7890)),
            ("[fd00::7]", "fd00::7", None),
            ("[FD00:0::7]:1", "fd00::7", Some(1)),
            ("Ids-1.example.com:65535", "ids-1.example.com", Some(65535)),
            ("getid_1", "getid_1", None),
            ("ids.", "ids.", None),
            (long.as_str(), long.as_str(), None),
        ] {
            let parsed = HostMaybePort::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((parsed.host.as_str(), parsed.port), (host, port), "{text}");
            assert_eq!(HostMaybePort::parse(&parsed.to_string()), Ok(parsed.clone()), "{text}");
            let whole = parsed.with_default_port(7890);
            assert_eq!(HostPort::parse(&whole.to_string()), Some(whole), "{text}");
        }
        assert_eq!(HostPort::parse("10.1.0.7"), None);
    }

    #[test]
    fn wrong_addresses_have_their_mistake_in_the_error() {
        let too_long = "a".repeat(254);
        for (text, expected) in [
            ("", "'' is not an address of a server; must be a host with or without a port, such as 10.1.0.7,"),
            ("a b", "'a b' is not an address"),
            (" a", "is not an address"),
            ("a\nb", "'a\\nb' is not an address"),
            ("a..b", "is not an address"),
            ("redis://a:1", "has a wrong port"),
            ("a/b", "is not an address"),
            ("10.1.0.256", "is not an address"),
            ("10.1.7", "is not an address"),
            ("7890", "is not an address"),
            ("[a]:1", "is not an address"),
            ("[::1", "is not an address"),
            ("[::1]7890", "is not an address"),
            ("x[::1]:7890", "has a wrong port"),
            (too_long.as_str(), "aaa...' is not an address"),
            ("fd00::7", "must be such as [fd00::7] or [fd00::7]:7890"),
            ("*", "'*' is not one machine's address; must be one that clients can connect to"),
            ("0.0.0.0:7890", "is not one machine's address"),
            ("[::]", "is not one machine's address"),
            ("[::ffff:0.0.0.0]:1", "is not one machine's address"),
            ("255.255.255.255", "is not one machine's address"),
            ("224.0.0.1", "is not one machine's address"),
            ("a:0", "'a:0' has a wrong port after the ':', must be 1 to 65535"),
            ("a:", "has a wrong port"),
            ("a:65536", "has a wrong port"),
            ("a:+1", "has a wrong port"),
            ("[::1]:x", "has a wrong port"),
        ] {
            let error = HostMaybePort::parse(text).map_or_else(|error| error.to_string(), |found| found.to_string());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn loopback_is_found_in_each_form() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("127.1.2.3", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("LOCALHOST", true),
            ("a.localhost", true),
            ("localhost.example", false),
            ("10.1.0.7", false),
            ("[fd00::7]", false),
        ] {
            assert_eq!(HostMaybePort::parse(host).unwrap().is_loopback(), expected, "{host}");
        }
    }
}
