//! Addresses of etcd clusters: several members that are one store, and a prefix for the keys.

use std::path::PathBuf;

use super::error::{COMPACT, COMPACT_EVERY_S_MAX, ENDPOINTS_MAX, Mistake, PREFIX_BYTES_MAX};
use super::parts::{
    AddressParts, StoreTls, decoded, host_and_port, is_loopback, option, set_once, split_address, tls_of,
};
use crate::printable::printable_up_to;

/// Prefix of the keys of an address without one.
const PREFIX_DEFAULT: &str = "getid";

const PORT: u16 = 2379;

/// Options after the `?`.
pub(super) const OPTIONS: [&str; 6] = ["password-file", "tls", "ca-file", "cert-file", "key-file", COMPACT];

/// How often a server compacts an etcd by default, s: as the API server of Kubernetes does.
const COMPACT_EVERY_S: u64 = 300;

/// An etcd cluster, and how to connect to it.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdAddress {
    /// Some or all of its members, at least one: a name, or an IP address without brackets, and a port, by default
    /// 2379.
    pub endpoints: Vec<(String, u16)>,
    /// The begin of every key, before a `/`.
    pub prefix: String,
    /// The user that logs in, if etcd's users are enabled.
    pub user: Option<String>,
    /// The password from the address or from its file.
    pub password: Option<String>,
    /// The file with the password (`password-file=`), relative to the folder of the start.
    pub password_file: Option<PathBuf>,
    /// How connections are encrypted (`tls=`).
    pub tls: StoreTls,
    /// Authorities that may have signed the members' certificates, PEM (`ca-file=`), relative to `dir`; `None`: the
    /// authorities of this system.
    pub ca_file: Option<PathBuf>,
    /// The client certificate, PEM (`cert-file=`), relative to `dir`.
    pub cert_file: Option<PathBuf>,
    /// The key of the client certificate, PEM (`key-file=`), relative to `dir`.
    pub key_file: Option<PathBuf>,
    /// How often a server compacts etcd's history, s; 0: never (`compact-every-s=`).
    pub compact_every_s: u64,
}

impl EtcdAddress {
    /// Whether all members are on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.endpoints.iter().all(|(host, _)| is_loopback(host))
    }
}

/// Parses an address after `etcd:`.
pub(super) fn address(rest: &str) -> Result<EtcdAddress, Mistake> {
    const FORM: &str = "must be etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX";
    let AddressParts { authority, path, options } = split_address(rest, FORM)?;
    let (login, places) = authority.rsplit_once('@').map_or((None, authority), |(login, rest)| (Some(login), rest));
    let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
        None => (None, None),
        Some(("", _)) => return Err(Mistake::NoUserBeforeAt { form: FORM }),
        Some((user, "")) => (Some(decoded(user, "user")?), None),
        Some((user, password)) => (Some(decoded(user, "user")?), Some(decoded(password, "password")?)),
    };
    let endpoints: Vec<_> = places.split(',').map(|place| host_and_port(place, PORT)).collect::<Result<_, _>>()?;
    if let Some(index) = endpoints.iter().position(|(host, _)| host.is_empty()) {
        return Err(match endpoints.len() {
            1 => Mistake::Missing { part: "host", form: FORM },
            _ => Mistake::NoEndpoint { number: index + 1, form: FORM },
        });
    }
    if endpoints.len() > ENDPOINTS_MAX {
        return Err(Mistake::Endpoints { count: endpoints.len() });
    }
    if let Some((host, port)) =
        endpoints.iter().enumerate().find_map(|(at, one)| endpoints[..at].contains(one).then_some(one))
    {
        return Err(Mistake::EndpointTwice { host: host.clone(), port: *port });
    }
    let mut found = EtcdAddress {
        endpoints,
        prefix: prefix(path)?,
        user,
        password,
        password_file: None,
        tls: StoreTls::No,
        ca_file: None,
        cert_file: None,
        key_file: None,
        compact_every_s: COMPACT_EVERY_S,
    };
    let (mut tls, mut compact_every_s) = (None, None);
    for pair in options.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = option(pair, &OPTIONS)?;
        match name {
            "tls" => set_once(&mut tls, tls_of(&value)?, name)?,
            "password-file" => set_once(&mut found.password_file, value.into(), name)?,
            "ca-file" => set_once(&mut found.ca_file, value.into(), name)?,
            "cert-file" => set_once(&mut found.cert_file, value.into(), name)?,
            COMPACT => set_once(&mut compact_every_s, seconds_of(&value)?, name)?,
            _ => set_once(&mut found.key_file, value.into(), name)?,
        }
    }
    found.tls = tls.unwrap_or(if found.is_local() { StoreTls::No } else { StoreTls::Verify });
    found.compact_every_s = compact_every_s.unwrap_or(COMPACT_EVERY_S);
    check(&found)?;
    Ok(found)
}

fn seconds_of(value: &str) -> Result<u64, Mistake> {
    let seconds = value.parse().ok().filter(|seconds| *seconds <= COMPACT_EVERY_S_MAX);
    seconds.ok_or_else(|| Mistake::CompactEvery { found: printable_up_to(value, 20) })
}

/// Checks the parts against each other.
fn check(found: &EtcdAddress) -> Result<(), Mistake> {
    Err(match found {
        EtcdAddress { password: Some(_), password_file: Some(_), .. } => Mistake::TwoPasswords,
        EtcdAddress { user: None, password_file: Some(_), .. } => Mistake::PasswordWithoutUser,
        EtcdAddress { user: Some(_), password: None, password_file: None, .. } => Mistake::UserWithoutPassword,
        EtcdAddress { ca_file: Some(_), tls: StoreTls::No | StoreTls::Yes, .. } => Mistake::CaUnused,
        EtcdAddress { cert_file: Some(_), key_file: None, .. } => Mistake::CertWithoutKey,
        EtcdAddress { cert_file: None, key_file: Some(_), .. } => Mistake::KeyWithoutCert,
        EtcdAddress { cert_file: Some(_), tls: StoreTls::No, .. } => Mistake::CertUnused,
        _ => return Ok(()),
    })
}

fn prefix(path: &str) -> Result<String, Mistake> {
    let found = decoded(path.strip_suffix('/').unwrap_or(path), "prefix")?;
    if found.is_empty() && path.is_empty() {
        return Ok(PREFIX_DEFAULT.to_owned());
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte);
    if found.bytes().all(allowed) && found.split('/').all(|part| !part.is_empty()) && found.len() <= PREFIX_BYTES_MAX {
        return Ok(found);
    }
    Err(Mistake::Prefix)
}

#[cfg(test)]
mod tests {
    use super::super::{StoreKind, StoreUrl, without_password};
    use super::*;

    #[track_caller]
    fn read(text: &str) -> EtcdAddress {
        match StoreUrl::parse(text).unwrap().kind {
            StoreKind::Etcd(found) => found,
            _ => panic!("{text} is not an address of etcd"),
        }
    }

    #[test]
    fn members_and_their_defaults() {
        let found = read("etcd://localhost");
        assert!(
            found
                == EtcdAddress {
                    endpoints: vec![("localhost".to_owned(), 2379)],
                    prefix: "getid".to_owned(),
                    user: None,
                    password: None,
                    password_file: None,
                    tls: StoreTls::No,
                    ca_file: None,
                    cert_file: None,
                    key_file: None,
                    compact_every_s: 300,
                }
        );
        assert_eq!(read("etcd://a?compact-every-s=0").compact_every_s, 0);
        let found = read("etcd://ids:s%40%3a%2f@a:1,[::1],c.example:3/team/ids?ca-file=a&cert-file=b&key-file=c");
        let expected = [("a", 1), ("::1", 2379), ("c.example", 3)].map(|(host, port)| (host.to_owned(), port));
        assert_eq!(found.endpoints, expected);
        assert_eq!((found.prefix.as_str(), found.tls), ("team/ids", StoreTls::Verify));
        assert_eq!((found.user.as_deref(), found.password.as_deref()), (Some("ids"), Some("s@:/")));
        let files = [found.ca_file, found.cert_file, found.key_file];
        assert_eq!(files, [Some("a".into()), Some("b".into()), Some("c".into())]);
        assert_eq!(read("etcd://127.0.0.1,h/p/").prefix, "p");
        for (text, tls) in [
            ("etcd://localhost,127.0.0.1,[::1]", StoreTls::No),
            ("etcd://localhost,db1", StoreTls::Verify),
            ("etcd://db1?tls=no", StoreTls::No),
            ("etcd://localhost?tls=yes&cert-file=a&key-file=b", StoreTls::Yes),
        ] {
            assert_eq!(read(text).tls, tls, "{text}");
        }
        for (text, is_in_clear) in
            [("etcd://localhost", false), ("etcd://h", false), ("etcd://h?tls=no", true), ("etcd://h?tls=yes", false)]
        {
            assert_eq!(StoreUrl::parse(text).unwrap().is_in_clear(), is_in_clear, "{text}");
        }
    }

    #[test]
    fn an_error_names_the_mistake() {
        for (text, expected) in [
            ("etcd:a/b", "has no // after the scheme, must be etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX"),
            ("etcd://", "names no host, must be"),
            ("etcd:///p", "names no host, must be"),
            ("etcd://a,,b", "names no host as number 2"),
            ("etcd://a,b:2379,b", "names b:2379 twice"),
            ("etcd://a:0", "has no port after the ':'"),
            ("etcd://::1", "an IPv6 address is in brackets"),
            ("etcd://@a", "names no user before it"),
            ("etcd://:x@a", "names no user before it"),
            ("etcd://u@a", "names a user without a password; write USER:PASSWORD@ or password-file=PATH"),
            ("etcd://a?password-file=p", "has a password-file, and names no user"),
            ("etcd://u:p@a?password-file=p", "has a password and a password-file"),
            ("etcd://localhost?ca-file=p", "has a ca-file, which only tls=verify uses"),
            ("etcd://a?cert-file=p", "has a cert-file without its key-file"),
            ("etcd://a?key-file=p", "has a key-file without its cert-file"),
            ("etcd://localhost?key-file=p&cert-file=p", "has a cert-file, which tls=no does not use"),
            ("etcd://a?socket=/s", "has the option 'socket', must be one of password-file, tls, ca-file, cert-file"),
            ("etcd://a?tls=no&tls=no", "has the option 'tls' twice"),
            ("etcd://a?compact-every-s=86401", "has compact-every-s=86401, must be 0 (never) to 86400"),
            ("etcd://a?compact-every-s=no", "has compact-every-s=no, must be 0"),
            ("etcd://a?tls=maybe", "has tls=maybe, must be tls=no, tls=yes or tls=verify"),
            ("etcd://a//p", "has an invalid prefix"),
            ("etcd://a/p%20q", "has an invalid prefix"),
            ("etcd://a/p#q", "has a '#' in it"),
        ] {
            let error = StoreUrl::parse(text).err().unwrap_or_else(|| panic!("{text} is accepted")).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let many = (0..=ENDPOINTS_MAX).map(|number| format!("h{number}")).collect::<Vec<_>>().join(",");
        let error = StoreUrl::parse(&format!("etcd://{many}")).unwrap_err().to_string();
        assert!(error.contains("names 17 hosts, must name at most 16"), "{error}");
        assert_eq!(StoreUrl::parse("etdc://a").unwrap_err().help().as_deref(), Some("did you mean 'etcd:'?"));
    }

    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            ("etcd://a:hunter2@h,i:1,[::1]:2/p?tls=no", "etcd://a:***@h,i:1,[::1]:2/p?tls=no"),
            ("etcd://a:hun,ter2@h,i/p", "etcd://a:***@h,i/p"),
            ("etcd://a:hun/ter2@h,i/p", "etcd://a:***@h,i/p"),
            ("etcd://a:p@h?hunter2@h/p", "etcd://a:***@h/p"),
            ("etcd://a:hunter2/p", "etcd://a:***/p"),
            ("etcd://a:hun,ter2/p", "etcd://a:***/p"),
            ("etcd://h:1,a:hun,ter2/p", "etcd://h:1,a:***/p"),
            ("etcd:a:hunter2@h,i", "etcd:a:***@h,i"),
            ("ectd://a:hunter2@h,i:1", "ectd://a:***@h,i:1"),
            ("etcd://h/p?password=hunter2&key-file=k", "etcd://h/p?password=***&key-file=k"),
        ] {
            assert_eq!(without_password(text), shown, "{text}");
            let printed = match StoreUrl::parse(text) {
                Ok(url) => format!("{url:?} {}", url.shown()),
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!printed.contains("hun") && !printed.contains("ter2"), "{text}: {printed}");
        }
        let mut url = StoreUrl::parse("etcd://a@h/b?password-file=p&ca-file=c").unwrap();
        url.set_password("hunter2".to_owned());
        assert!(!format!("{url:?}{}{}", url.shown(), url.text()).contains("hunter2") && !url.has_password());
        url.resolve_paths("/d".as_ref());
        let StoreKind::Etcd(found) = url.kind() else { panic!("{url:?}") };
        assert_eq!((found.password.as_deref(), found.ca_file.as_deref()), (Some("hunter2"), Some("/d/c".as_ref())));
    }

    #[test]
    fn sequences_are_not_in_etcd() {
        let error = StoreUrl::parse_for_sequences("etcd://u:hunter2@h/p").unwrap_err().to_string();
        assert_eq!(
            error,
            "'etcd://u:***@h/p' is etcd, which keeps claims (claim-store) and no sequences; must be sqlite:PATH, \
             mysql://USER@HOST/DATABASE or postgres://USER@HOST/DATABASE"
        );
        assert!(!StoreUrl::parse_for_sequences("").unwrap_err().to_string().contains("etcd"));
        assert!(StoreUrl::parse_for_sequences("sqlite:").is_ok());
    }
}
