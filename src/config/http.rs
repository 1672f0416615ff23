//! The directives of the HTTP port that have words of their own.

use super::parse::address;
use super::value_error::ValueError;
use super::values::{BIND_ADDRESSES_MAX, BindAddr};

/// What is configured of the HTTP port (`http-...`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpConfig {
    /// The port; 0: none (`http-port`).
    pub port: u16,
    /// Addresses to listen on; empty: those of `bind` (`http-bind`).
    pub bind: Vec<BindAddr>,
    /// Whether it speaks TLS, with the files of `tls-...` (`http-tls`).
    pub tls: bool,
    /// Connections at a time (`http-max-clients`).
    pub clients_max: u32,
    /// Seconds after which a connection without a request is closed (`http-timeout`).
    pub timeout_s: u64,
    /// What is answered without a login (`http-open`).
    pub open: HttpOpen,
    /// The named generators that `/readyz` looks at; empty: the unnamed one (`http-ready`).
    pub ready: Vec<String>,
    /// Names of this server in the header `Host`, beside addresses and `localhost` (`http-host`).
    pub hosts: Vec<String>,
    /// The paths of other servers that are answered here (`http-api`).
    pub apis: HttpApis,
}

/// What is answered without a login, wherever the request comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpOpen {
    /// `/livez` and `/readyz`.
    pub probes: bool,
    /// `/metrics`.
    pub metrics: bool,
}

/// The paths of other servers that are answered here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpApis {
    /// Leaf's.
    pub leaf: Option<HttpApi>,
    /// Tinyid's.
    pub tinyid: Option<HttpApi>,
}

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpApi {
    /// The ACL user that its requests are of; `None`: whoever logs in, or the default user.
    pub user: Option<String>,
}

/// Words of `http-ready` and `http-host` at most.
pub(super) const NAMES_MAX: usize = 64;

/// Bytes of a name in `http-host`: RFC 1035's bound of a host name.
const HOST_BYTES_MAX: usize = 253;

const OPEN_WORDS: &[&str] = &["probes", "metrics"];

const API_WORDS: &[&str] = &["leaf", "tinyid", "user"];

/// A lone empty word is no word.
fn listed(words: &[String]) -> &[String] {
    if words == [""] { &[] } else { words }
}

pub(super) fn set_bind(http: &mut HttpConfig, words: &[String]) -> Result<(), ValueError> {
    let words = listed(words);
    if words.len() > BIND_ADDRESSES_MAX {
        return Err(ValueError::Addresses { found: words.len(), max: BIND_ADDRESSES_MAX });
    }
    http.bind = words.iter().map(|word| address(word)).collect::<Result<_, _>>()?;
    Ok(())
}

pub(super) fn set_open(http: &mut HttpConfig, words: &[String]) -> Result<(), ValueError> {
    let mut open = HttpOpen::default();
    for word in listed(words) {
        match word.to_ascii_lowercase().as_str() {
            "probes" => open.probes = true,
            "metrics" => open.metrics = true,
            _ => return Err(ValueError::Word { found: word.clone(), words: OPEN_WORDS }),
        }
    }
    http.open = open;
    Ok(())
}

pub(super) fn open_words(http: &HttpConfig) -> Vec<String> {
    let all = [("probes", http.open.probes), ("metrics", http.open.metrics)];
    all.iter().filter(|(_, is_open)| *is_open).map(|(word, _)| (*word).to_owned()).collect()
}

pub(super) fn set_ready(http: &mut HttpConfig, words: &[String]) {
    http.ready = listed(words).to_vec();
}

pub(super) fn set_hosts(http: &mut HttpConfig, words: &[String]) -> Result<(), ValueError> {
    let is_host = |word: &String| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        word.len() <= HOST_BYTES_MAX && !word.is_empty() && word.bytes().all(is_known)
    };
    if let Some(wrong) = listed(words).iter().find(|word| !is_host(word)) {
        return Err(ValueError::HttpHost { found: wrong.clone() });
    }
    http.hosts = listed(words).iter().map(|word| word.to_ascii_lowercase()).collect();
    Ok(())
}

/// `leaf user shop tinyid`: a user counts for the API in front of it.
pub(super) fn set_apis(http: &mut HttpConfig, words: &[String]) -> Result<(), ValueError> {
    let mut apis = HttpApis::default();
    let mut words = listed(words).iter().peekable();
    while let Some(word) = words.next() {
        let api = match word.to_ascii_lowercase().as_str() {
            "leaf" => &mut apis.leaf,
            "tinyid" => &mut apis.tinyid,
            "user" => return Err(ValueError::HttpApiUser),
            _ => return Err(ValueError::Word { found: word.clone(), words: API_WORDS }),
        };
        let api = api.get_or_insert_default();
        if words.next_if(|word| word.eq_ignore_ascii_case("user")).is_some() {
            api.user = Some(words.next().ok_or(ValueError::HttpApiUser)?.clone());
        }
    }
    http.apis = apis;
    Ok(())
}

pub(super) fn api_words(http: &HttpConfig) -> Vec<String> {
    let apis = [("leaf", &http.apis.leaf), ("tinyid", &http.apis.tinyid)];
    let mut words = Vec::new();
    for (word, api) in apis {
        let Some(api) = api else { continue };
        words.push(word.to_owned());
        words.extend(api.user.iter().flat_map(|user| ["user".to_owned(), user.clone()]));
    }
    words
}
