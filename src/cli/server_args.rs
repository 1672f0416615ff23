//! The flags by which every tool selects a server, verifies it, and logs in.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use clap::Args;

use super::exit::ToolError;
use getid_tools::address::{Address, ServerAddress, ServerAddressError};
use getid_tools::client::{Endpoint, Login, Tls, TlsFileError, TlsFiles};

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

/// Error of the flags that select a server, or of the environment in their place.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServerArgsError {
    #[error("'{word}' names a server and --host, --port or --unix another: use one of them")]
    TwoServers { word: String },
    #[error(transparent)]
    Address(#[from] ServerAddressError),
    #[error("{0}: TLS works over TCP only")]
    TlsOverUnix(Address),
    #[error(transparent)]
    Tls(#[from] TlsFileError),
    #[error("--host: '{0}' is no host; HOST:PORT and URLs are words of their own")]
    Host(String),
    #[error("the port is 0: name the address of the server by --port or --unix")]
    NoPort,
    #[error("GETID_PORT is '{0}', must be 0 to 65535")]
    PortVariable(String),
    #[error("user '{0}' has no password here: --password-file FILE, or REDISCLI_AUTH in the environment")]
    NoPassword(String),
    #[error("{option}: {}: {error}", .path.display())]
    PasswordFile { option: &'static str, path: PathBuf, error: PasswordFileError },
}

/// Error of a file whose first line is to be a password.
#[derive(Debug, thiserror::Error)]
pub(super) enum PasswordFileError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the password is not UTF-8")]
    NotUtf8,
    #[error("its first line is empty, must be the password")]
    Empty,
}

impl ToolError for ServerArgsError {}

impl ServerArgs {
    /// Returns the server that `word`, or else the flags, or else the environment name.
    pub(super) fn endpoint(&self, word: Option<&str>, timeout_ms: u64) -> Result<Endpoint, ServerArgsError> {
        let place = match word {
            Some(word) => self.named(word)?,
            None => self.default_server()?,
        };
        self.endpoint_at(place, &mut None, self.given_password()?, timeout_ms)
    }

    /// Returns the servers that `words` name; without any, the one of the flags or of the environment.
    pub(super) fn endpoints(&self, words: &[String], timeout_ms: u64) -> Result<Vec<Endpoint>, ServerArgsError> {
        let places = if words.is_empty() {
            vec![self.default_server()?]
        } else {
            words.iter().map(|word| self.named(word)).collect::<Result<_, _>>()?
        };
        let given = self.given_password()?;
        let mut tls = None;
        places.into_iter().map(|place| self.endpoint_at(place, &mut tls, given.clone(), timeout_ms)).collect()
    }

    /// Returns the server that a word names. Fails if flags name another.
    fn named(&self, word: &str) -> Result<ServerAddress, ServerArgsError> {
        if self.host.is_some() || self.port.is_some() || self.unix.is_some() {
            let word = word.rsplit_once('@').map_or(word, |(_, host)| host).to_owned();
            return Err(ServerArgsError::TwoServers { word });
        }
        let port = Some(port_of_environment()?).filter(|port| *port != 0);
        Ok(ServerAddress::parse(word, port.unwrap_or(PORT_DEFAULT))?)
    }

    /// Returns the server of the flags or of the environment.
    fn default_server(&self) -> Result<ServerAddress, ServerArgsError> {
        Ok(ServerAddress { address: self.address()?, tls: false, user: None, password: None, database: 0 })
    }

    /// Returns the client's view of a server. `tls` holds the settings once they are loaded.
    fn endpoint_at(
        &self,
        place: ServerAddress,
        tls: &mut Option<Tls>,
        given: Option<String>,
        timeout_ms: u64,
    ) -> Result<Endpoint, ServerArgsError> {
        let ServerAddress { address, tls: names_tls, user, password, database } = place;
        let uses_tls = names_tls || self.uses_tls();
        if uses_tls && matches!(address, Address::Unix(_)) {
            return Err(ServerArgsError::TlsOverUnix(address));
        }
        if uses_tls && tls.is_none() {
            *tls = Some(Tls::load(&self.tls_files())?);
        }
        let login = self.login(given.or(password), user)?;
        let timeout = Duration::from_millis(self.timeout_ms.unwrap_or(timeout_ms));
        let tls = tls.clone().filter(|_| uses_tls);
        Ok(Endpoint { address, tls, login, database, timeout, addresses: OnceLock::new() })
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

    fn address(&self) -> Result<Address, ServerArgsError> {
        if let Some(path) = &self.unix {
            return Ok(Address::Unix(path.clone()));
        }
        let host = self.host.clone().unwrap_or_else(|| "127.0.0.1".to_owned());
        // With brackets, as copied from a URL.
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).map_or(host.clone(), str::to_owned);
        if host.is_empty() || host.contains(|char: char| char.is_whitespace() || char.is_control() || char == '/') {
            return Err(ServerArgsError::Host(host));
        }
        let port = self.port.map_or_else(port_of_environment, Ok)?;
        match (port, variable("GETID_UNIXSOCKET")) {
            (0, Some(path)) if self.host.is_none() => Ok(Address::Unix(path.into())),
            (0, _) => Err(ServerArgsError::NoPort),
            (port, _) => Ok(Address::Tcp { host, port }),
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
    fn given_password(&self) -> Result<Option<String>, ServerArgsError> {
        match &self.password_file {
            Some(path) => read_password("--password-file", path).map(Some),
            None => Ok(self.password.clone()),
        }
    }

    fn login(&self, password: Option<String>, url_user: Option<String>) -> Result<Option<Login>, ServerArgsError> {
        let password = match password {
            Some(password) => Some(password),
            None => password_of_environment()?,
        };
        match (password, self.user.clone().or(url_user)) {
            (Some(password), user) => Ok(Some(Login { user, password })),
            (None, Some(user)) => Err(ServerArgsError::NoPassword(user)),
            (None, None) => Ok(None),
        }
    }
}

/// Returns the port that a server in this environment listens on.
///
/// In Kubernetes, a service named getid sets `GETID_PORT` in every pod, such as `tcp://10.0.0.7:7890`. The server
/// ignores such a value too.
fn port_of_environment() -> Result<u16, ServerArgsError> {
    match variable("GETID_PORT").filter(|text| !text.contains("://")) {
        Some(text) => text.parse().map_err(|_| ServerArgsError::PortVariable(text)),
        None => Ok(PORT_DEFAULT),
    }
}

/// Returns the password from redis-cli's variable, or from those that set the server's own.
fn password_of_environment() -> Result<Option<String>, ServerArgsError> {
    if let Some(password) = variable("REDISCLI_AUTH") {
        return Ok(Some(password));
    }
    if let Some(path) = variable("GETID_REQUIREPASS_FILE") {
        return read_password("GETID_REQUIREPASS_FILE", Path::new(&path)).map(Some);
    }
    Ok(variable("GETID_REQUIREPASS"))
}

/// Reads the password of the file that an option names.
fn read_password(option: &'static str, path: &Path) -> Result<String, ServerArgsError> {
    first_line(path).map_err(|error| ServerArgsError::PasswordFile { option, path: path.to_owned(), error })
}

fn first_line(path: &Path) -> Result<String, PasswordFileError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(PASSWORD_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| PasswordFileError::NotUtf8)?;
    let line = text.lines().next().filter(|line| !line.is_empty());
    line.map(str::to_owned).ok_or(PasswordFileError::Empty)
}

/// Returns an environment variable that is not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
