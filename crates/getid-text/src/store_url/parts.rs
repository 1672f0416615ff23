//! Parts of addresses that databases and etcd have in common.

use std::net::IpAddr;

use super::error::Mistake;
use crate::percent::decode;
use crate::printable::printable_up_to;
use crate::suggest::did_you_mean;

/// How a connection to a store is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreTls {
    /// Not encrypted. The default on this machine, and on a socket.
    No,
    /// Encrypted, without checking the server.
    Yes,
    /// Encrypted, and the server must have a valid certificate for its name. The default with another machine.
    Verify,
}

impl StoreTls {
    const WORDS: [(&'static str, StoreTls); 3] =
        [("no", StoreTls::No), ("yes", StoreTls::Yes), ("verify", StoreTls::Verify)];
}

/// The undecoded parts of a server's address after its scheme.
pub(super) struct AddressParts<'a> {
    pub(super) authority: &'a str,
    pub(super) path: &'a str,
    pub(super) options: &'a str,
}

/// Options whose value is a path, in which an '@' may be.
const PATH_OPTIONS: [&str; 5] = ["socket", "ca-file", "cert-file", "key-file", "password-file"];

pub(super) fn split_address<'a>(rest: &'a str, form: &'static str) -> Result<AddressParts<'a>, Mistake> {
    let rest = rest.strip_prefix("//").ok_or(Mistake::NoSlashes { form })?;
    let (rest, options) = rest.split_once('?').map_or((rest, ""), |(rest, options)| (rest, options));
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    // An option without a path has no '@': the text before it is part of a password that has a '?'.
    let mut pairs = options.split('&').filter(|pair| pair.contains('@'));
    let is_cut = pairs.any(|pair| pair.split_once('=').is_none_or(|(name, _)| !PATH_OPTIONS.contains(&name)));
    if is_cut || path.contains('@') || options.contains('@') && !authority.contains('@') {
        return Err(Mistake::SlashBeforeAt);
    }
    if rest.contains('#') {
        return Err(Mistake::Hash);
    }
    Ok(AddressParts { authority, path, options })
}

/// Parses `NAME=VALUE`, where the name is one of `known`.
pub(super) fn option(pair: &str, known: &'static [&'static str]) -> Result<(&'static str, String), Mistake> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let Some(&name) = known.iter().find(|known| **known == name) else {
        let meant = did_you_mean(name, known.iter().copied());
        return Err(Mistake::Option { name: printable_up_to(name, 64), known, meant });
    };
    let value = decoded(value, name)?;
    if value.is_empty() || value.contains('\0') {
        return Err(Mistake::NoValue { name });
    }
    Ok((name, value))
}

pub(super) fn tls_of(value: &str) -> Result<StoreTls, Mistake> {
    let found = StoreTls::WORDS.iter().find(|(word, _)| *word == value).map(|(_, tls)| *tls);
    found.ok_or_else(|| Mistake::Tls { found: printable_up_to(value, 64) })
}

pub(super) fn set_once<T>(place: &mut Option<T>, value: T, name: &'static str) -> Result<(), Mistake> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Mistake::OptionTwice { name }),
    }
}

pub(super) fn host_and_port(place: &str, default_port: u16) -> Result<(String, u16), Mistake> {
    let port = port_of(place);
    let host = port.map_or(place, |port| &place[..place.len() - port.len() - 1]);
    let host = match host.strip_prefix('[') {
        Some(rest) => {
            let address = rest.strip_suffix(']').filter(|address| address.parse::<std::net::Ipv6Addr>().is_ok());
            address.ok_or(Mistake::Brackets)?.to_owned()
        }
        None => decoded(host, "host")?,
    };
    if host.contains(['/', '\0']) {
        return Err(Mistake::PathAsHost);
    }
    let port = match port {
        None | Some("") => default_port,
        Some(digits) => digits
            .parse()
            .ok()
            .filter(|port| *port != 0 && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .ok_or(Mistake::Port)?,
    };
    Ok((host, port))
}

/// Returns the text after the colon of `HOST:PORT`. An IPv6 address in brackets has other colons.
pub(super) fn port_of(authority: &str) -> Option<&str> {
    let behind = match authority.rfind(']') {
        Some(bracket) => &authority[bracket..],
        None => authority,
    };
    behind.split_once(':').map(|(_, port)| port)
}

/// Whether the host is this machine, where a password may be sent unencrypted.
pub(super) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Decodes percent escapes such as `%2F`.
pub(super) fn decoded(text: &str, part: &'static str) -> Result<String, Mistake> {
    let bytes = decode(text.as_bytes()).ok_or(Mistake::Escape { part })?;
    String::from_utf8(bytes.into()).map_err(|_| Mistake::NotUtf8 { part })
}
