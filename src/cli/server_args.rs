//! The flags by which every tool selects a server, verifies it, and logs in.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use clap::Args;

use getid_tools::address::{Address, ServerAddress};
use getid_tools::client::{Endpoint, Login, Tls, TlsFiles};

/// Default port of a server.
const PORT_DEFAULT: u16 = 7890;

/// Default time-out for a connection, and for a reply, ms.
pub(super) const TIMEOUT_MS_DEFAULT: u64 = 10_000;

/// Largest part of a password file that is read, bytes.
const PASSWORD_BYTES_MAX: u64 = 64 * 1024;

/// Help text about the options that name a server.
pub(super) const SERVER_HELP: &str = "\
A server is named by a word or by flags: HOST:PORT, the path of a Unix socket (with a / in it), redis://[USER:PASSWORD@]HOST[:PORT],
rediss:// (TLS), unix://PATH; or -p, --host, --unix. Without any, it is where `getid serve` in the same environment listens:
GETID_PORT (7890), or GETID_UNIXSOCKET when GETID_PORT is 0.

The password comes from the first of --password-file, --password, the URL, REDISCLI_AUTH (as with redis-cli),
GETID_REQUIREPASS_FILE (a file's name) and GETID_REQUIREPASS. A command line shows in `ps`; files and the environment do not.";

/// Flags that select a server, and the login.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Server")]
pub(super) struct ServerArgs {
    /// Host name or address [default: 127.0.0.1]
    #[arg(long)]
    host: Option<String>,
    /// Port [default: `GETID_PORT` or 7890]
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Unix socket, in place of host and port
    #[arg(long, visible_alias = "unixsocket", value_name = "PATH", conflicts_with_all = ["host", "port"])]
    unix: Option<PathBuf>,
    /// Speak TLS; any of the four flags that follow does too
    #[arg(long)]
    tls: bool,
    /// Trust a server whose certificate one of these has signed (PEM) [default: those that this system trusts]
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// This client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Accept any certificate: an attacker in between may read and change everything, the password too
    #[arg(long, conflicts_with = "cacert")]
    insecure: bool,
    /// The name in the server's certificate [default: the host]
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// User, where the server has users (ACL) [default: the default user]
    #[arg(long)]
    user: Option<String>,
    /// Password; every user can read it in `ps`
    #[arg(long, conflicts_with = "password_file")]
    password: Option<String>,
    /// File whose first line is the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Milliseconds for a connection, and for a reply [default: 10000; `ping`: 1000 for all of it]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    timeout_ms: Option<u64>,
}

impl ServerArgs {
    /// Returns the server that `word`, or else the flags, or else the environment name.
    pub(super) fn endpoint(&self, word: Option<&str>, timeout_ms: u64) -> Result<Endpoint, String> {
        let words: Vec<String> = word.into_iter().map(str::to_owned).collect();
        let mut endpoints = self.endpoints(&words, timeout_ms)?;
        endpoints.pop().ok_or_else(|| "no server was named".to_owned())
    }

    /// Returns the servers that `words` name; without any, the one of the flags or of the environment.
    pub(super) fn endpoints(&self, words: &[String], timeout_ms: u64) -> Result<Vec<Endpoint>, String> {
        let by_flags = self.host.is_some() || self.port.is_some() || self.unix.is_some();
        if let (Some(word), true) = (words.first(), by_flags) {
            let word = word.rsplit_once('@').map_or(word.as_str(), |(_, host)| host);
            return Err(format!("'{word}' names a server and --host, --port or --unix another: use one of them"));
        }
        let places = if words.is_empty() {
            vec![ServerAddress { address: self.address()?, tls: false, user: None, password: None, database: 0 }]
        } else {
            let port = self.port_of_environment()?;
            let port = if port == 0 { PORT_DEFAULT } else { port };
            let places = words.iter().map(|word| ServerAddress::parse(word, port).map_err(|error| error.to_string()));
            places.collect::<Result<_, _>>()?
        };
        let given = self.given_password()?;
        let mut tls = None;
        let timeout = Duration::from_millis(self.timeout_ms.unwrap_or(timeout_ms));
        let endpoints = places.into_iter().map(|place| {
            let tls = if place.tls || self.uses_tls() {
                if matches!(place.address, Address::Unix(_)) {
                    return Err(format!("{}: TLS works over TCP only", place.address));
                }
                if tls.is_none() {
                    tls = Some(Tls::load(&self.tls_files()).map_err(|error| error.to_string())?);
                }
                tls.clone()
            } else {
                None
            };
            let login = self.login(given.clone().or(place.password), place.user)?;
            let database = place.database;
            Ok(Endpoint { address: place.address, tls, login, database, timeout, addresses: OnceLock::new() })
        });
        endpoints.collect()
    }

    /// Returns the flags for another server, which has another login. The TLS flags apply to both, if `word` asks for
    /// TLS.
    pub(super) fn for_other_server(&self, word: &str) -> ServerArgs {
        let ServerArgs { cacert, cert, key, insecure, timeout_ms, .. } = self.clone();
        if word.starts_with("rediss://") {
            ServerArgs { cacert, cert, key, insecure, timeout_ms, ..ServerArgs::default() }
        } else {
            ServerArgs { timeout_ms, ..ServerArgs::default() }
        }
    }

    fn address(&self) -> Result<Address, String> {
        if let Some(path) = &self.unix {
            return Ok(Address::Unix(path.clone()));
        }
        let host = self.host.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
        // With brackets, as copied from a URL.
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).map_or(host.clone(), str::to_owned);
        if host.is_empty() || host.contains(|char: char| char.is_whitespace() || char.is_control() || char == '/') {
            return Err(format!("--host: '{host}' is no host; HOST:PORT and URLs are words of their own"));
        }
        let port = self.port.map_or_else(|| self.port_of_environment(), Ok)?;
        match (port, variable("GETID_UNIXSOCKET")) {
            (0, Some(path)) if self.host.is_none() => Ok(Address::Unix(path.into())),
            (0, _) => Err("the port is 0: name the address of the server by --port or --unix".to_owned()),
            (port, _) => Ok(Address::Tcp { host, port }),
        }
    }

    /// Returns the port that a server in this environment listens on.
    ///
    /// In Kubernetes, a service named getid sets `GETID_PORT` in every pod, such as `tcp://10.0.0.7:7890`. The server
    /// ignores such a value too.
    #[expect(clippy::unused_self, reason = "reads as what it is of")]
    fn port_of_environment(&self) -> Result<u16, String> {
        match variable("GETID_PORT").filter(|text| !text.contains("://")) {
            Some(text) => text.parse().map_err(|_| format!("GETID_PORT is '{text}', must be 0 to 65535")),
            None => Ok(PORT_DEFAULT),
        }
    }

    fn uses_tls(&self) -> bool {
        self.tls || self.insecure || self.sni.is_some() || self.cacert.is_some() || self.cert.is_some()
    }

    fn tls_files(&self) -> TlsFiles {
        TlsFiles {
            authorities: self.cacert.clone(),
            client: self.cert.clone().zip(self.key.clone()),
            server_name: self.sni.clone(),
            insecure: self.insecure,
        }
    }

    /// Returns the password of the flags, which is the same for all servers.
    fn given_password(&self) -> Result<Option<String>, String> {
        match &self.password_file {
            Some(path) => read_password("--password-file", path).map(Some),
            None => Ok(self.password.clone()),
        }
    }

    fn login(&self, password: Option<String>, url_user: Option<String>) -> Result<Option<Login>, String> {
        let password = match password {
            Some(password) => Some(password),
            None => password_of_environment()?,
        };
        match (password, self.user.clone().or(url_user)) {
            (Some(password), user) => Ok(Some(Login { user, password })),
            (None, Some(user)) => Err(format!(
                "user '{user}' has no password here: --password-file FILE, or REDISCLI_AUTH in the environment"
            )),
            (None, None) => Ok(None),
        }
    }
}

/// Returns the password from redis-cli's variable, or from those that set the server's own.
fn password_of_environment() -> Result<Option<String>, String> {
    if let Some(password) = variable("REDISCLI_AUTH") {
        return Ok(Some(password));
    }
    if let Some(path) = variable("GETID_REQUIREPASS_FILE") {
        return read_password("GETID_REQUIREPASS_FILE", Path::new(&path)).map(Some);
    }
    Ok(variable("GETID_REQUIREPASS"))
}

fn read_password(name: &str, path: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{name}: {}: {error}", path.display());
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PASSWORD_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| failed(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| failed(&"the password is not UTF-8"))?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(failed(&"its first line is empty, must be the password")),
    }
}

/// Returns an environment variable that is not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
