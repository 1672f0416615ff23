//! The directives of the HTTP port with words of their own.

use super::parse::{addresses, listed};
use super::report::DirectiveConflict;
use super::value_error::ValueError;
use super::values::{BindAddr, Config, ConfigValues, HttpApis, HttpOpen};
use getid_redis::acl::DEFAULT_USER;
use getid_text::suggest::did_you_mean;

/// Largest number of words in `http-ready` and `http-host`.
pub(super) const NAMES_MAX: usize = 64;

/// Longest name in `http-host`, bytes: RFC 1035's limit of a host name.
const HOST_BYTES_MAX: usize = 253;

const OPEN_WORDS: &[&str] = &["probes", "metrics"];

const API_WORDS: &[&str] = &["leaf", "tinyid", "cosid", "user"];

pub(super) fn set_bind(values: &mut ConfigValues, words: &[String]) -> Result<(), ValueError> {
    values.config.http.bind = addresses(words)?;
    Ok(())
}

pub(super) fn set_open(values: &mut ConfigValues, words: &[String]) -> Result<(), ValueError> {
    let mut open = HttpOpen::default();
    for word in listed(words) {
        match word.to_ascii_lowercase().as_str() {
            "probes" => open.probes = true,
            "metrics" => open.metrics = true,
            _ => return Err(ValueError::Word { found: word.clone(), words: OPEN_WORDS }),
        }
    }
    values.config.http.open = open;
    Ok(())
}

pub(super) fn open_words(values: &ConfigValues) -> Vec<String> {
    let all = [("probes", values.config.http.open.probes), ("metrics", values.config.http.open.metrics)];
    all.iter().filter(|(_, is_open)| *is_open).map(|(word, _)| (*word).to_owned()).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "the type of a setter in the table of directives")]
pub(super) fn set_ready(values: &mut ConfigValues, words: &[String]) -> Result<(), ValueError> {
    values.config.http.ready = listed(words).to_vec();
    Ok(())
}

pub(super) fn set_hosts(values: &mut ConfigValues, words: &[String]) -> Result<(), ValueError> {
    let is_host = |word: &String| {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        word.len() <= HOST_BYTES_MAX && !word.is_empty() && word.bytes().all(is_known)
    };
    if let Some(wrong) = listed(words).iter().find(|word| !is_host(word)) {
        return Err(ValueError::HttpHost { found: wrong.clone() });
    }
    values.config.http.hosts = listed(words).iter().map(|word| word.to_ascii_lowercase()).collect();
    Ok(())
}

/// Parses `leaf user shop tinyid`: a user belongs to the API before it.
pub(super) fn set_apis(values: &mut ConfigValues, words: &[String]) -> Result<(), ValueError> {
    let mut apis = HttpApis::default();
    let mut words = listed(words).iter().peekable();
    while let Some(word) = words.next() {
        let api = match word.to_ascii_lowercase().as_str() {
            "leaf" => &mut apis.leaf,
            "tinyid" => &mut apis.tinyid,
            "cosid" => &mut apis.cosid,
            "user" => return Err(ValueError::HttpApiUser),
            _ => return Err(ValueError::Word { found: word.clone(), words: API_WORDS }),
        };
        let api = api.get_or_insert_default();
        if words.next_if(|word| word.eq_ignore_ascii_case("user")).is_some() {
            api.user = Some(words.next().ok_or(ValueError::HttpApiUser)?.clone());
        }
    }
    values.config.http.apis = apis;
    Ok(())
}

pub(super) fn api_words(values: &ConfigValues) -> Vec<String> {
    let mut words = Vec::new();
    for (word, api) in values.config.http.apis.on() {
        words.push(word.to_owned());
        words.extend(api.user.iter().flat_map(|user| ["user".to_owned(), user.clone()]));
    }
    words
}

/// Returns conflicts of the HTTP directives with the rest of a configuration.
pub(super) fn conflicts(config: &Config) -> Vec<DirectiveConflict> {
    let mut found = Vec::new();
    found.extend(missing_feature(config));
    found.extend(port_conflict(config));
    found.extend(config.http.ready.iter().filter_map(|name| ready_conflict(config, name)));
    // Users of an ACL file are only known at the start.
    if config.aclfile.is_none() {
        found.extend(config.http.apis.users().filter_map(|user| unknown_user(config, user)));
    }
    found
}

fn missing_feature(config: &Config) -> Option<DirectiveConflict> {
    (!cfg!(feature = "http") && config.http.port != 0).then(|| {
        DirectiveConflict::new(
            &["http-port"],
            format!("http-port is {}, but this getid was built without the feature 'http'", config.http.port),
            "set http-port 0, or build getid with the features that it has by default",
        )
    })
}

fn port_conflict(config: &Config) -> Option<DirectiveConflict> {
    let port = config.http.port;
    let is_shared = |one: &BindAddr, other: &BindAddr| {
        let is_any = one.ip.is_unspecified() || other.ip.is_unspecified();
        one.ip == other.ip || (is_any && one.ip.is_ipv4() == other.ip.is_ipv4())
    };
    let is_met = config.http_bind().iter().any(|one| config.bind.iter().any(|other| is_shared(one, other)));
    let (name, directives): (_, &[_]) = match port {
        0 => return None,
        _ if !is_met => return None,
        _ if port == config.port => ("port", &["port", "http-port", "bind", "http-bind"]),
        _ if port == config.tls_port => ("tls-port", &["tls-port", "http-port", "bind", "http-bind"]),
        _ => return None,
    };
    Some(DirectiveConflict::new(
        directives,
        format!("{name} and http-port are both {port}, must differ"),
        "write 'http-port 7880', or give http-bind another address",
    ))
}

/// Returns the error about a generator that `/readyz` cannot check.
fn ready_conflict(config: &Config, name: &str) -> Option<DirectiveConflict> {
    let names = config.generators.iter().map(|declaration| declaration.name());
    if names.clone().any(|known| known == name) {
        return None;
    }
    let is_counter = config.counters.iter().any(|counter| counter.name() == name);
    let (sentence, help) = if is_counter {
        let why = "a database that is down must not take this server out of service";
        (format!("http-ready names '{name}', which is a counter: {why}"), "remove it from http-ready".to_owned())
    } else if name == "-" {
        // Paths use `-` for the unnamed generator; the directive has no word for it.
        let help = "write 'http-ready \"\"' for the unnamed generator".to_owned();
        (format!("http-ready names '{name}', which no generator line declares"), help)
    } else {
        let help = did_you_mean(name, names).map(|meant| format!("did you mean '{meant}'?"));
        let help =
            help.unwrap_or_else(|| format!("declare it ('generator {name} KIND'), or remove it from http-ready"));
        (format!("http-ready names '{name}', which no generator line declares"), help)
    };
    Some(DirectiveConflict::new(&["http-ready"], sentence, help))
}

fn unknown_user(config: &Config, user: &str) -> Option<DirectiveConflict> {
    if user == DEFAULT_USER || config.users.iter().any(|line| line.name == user) {
        return None;
    }
    let names = config.users.iter().map(|line| line.name.as_str());
    let help = did_you_mean(user, names).map(|meant| format!("did you mean '{meant}'?"));
    // A user without a password and without nopass cannot log in.
    let help = help.unwrap_or_else(|| format!("define it ('user {user} on ~PATTERN +incr ...')"));
    let sentence = format!("http-api names the user '{user}', which no user line defines");
    Some(DirectiveConflict::new(&["http-api", "user"], sentence, help))
}
