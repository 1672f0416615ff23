//! The sockets on which clients connect, and the number of clients for which there are descriptors.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::handshakes::handshakes_max;
use crate::tls;
use getid_config::{BindAddr, Config};
use getid_system::files::{self, FileId};

/// Number of attempts to bind a port in use, within a second in all.
const BIND_TRIES: u32 = 20;
const BIND_PAUSE: Duration = Duration::from_millis(50);

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    /// TLS over TCP, one address.
    Tls {
        listener: TcpListener,
        acceptor: Arc<tls::Acceptor>,
    },
    Unix {
        listener: UnixListener,
        path: Arc<PathBuf>,
        file: SocketFile,
    },
}

/// Reason why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("could not listen on {address}: {source}. {}", listen_remedy(.source, .directive))]
    Tcp { address: SocketAddr, directive: &'static str, source: io::Error },
    #[error("could not listen on unixsocket {}: {source}", .path.display())]
    Unix { path: PathBuf, source: io::Error },
    #[error("unixsocket {}: the file at this path is not a socket; choose another path or move the file", .path.display())]
    NotASocket { path: PathBuf },
    #[error("unixsocket {}: another server is listening on it; stop it or choose another path", .path.display())]
    InUse { path: PathBuf },
    #[error(
        "no socket could be opened: no port is set or no address of bind exists, and unixsocket is not set; set port, \
         tls-port, bind or unixsocket"
    )]
    Nothing,
    #[error("no address for http-port exists; set http-bind, or http-port 0")]
    NoHttp,
}

fn listen_remedy(error: &io::Error, directive: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "Another program, perhaps another getid, uses this port: stop it, or set another port with {directive}"
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("Ports below 1024 need a privilege: set another port with {directive}")
        }
        io::ErrorKind::AddrNotAvailable => {
            let bind = if directive == "http-port" { "http-bind, or bind where that is not set" } else { "bind" };
            format!("This machine has no such address: correct {bind}, or write -ADDRESS to make the address optional")
        }
        _ => format!("Check bind and {directive}"),
    }
}

/// Opens every socket of the configuration, that of `tls-port` if there are certificates. Must be called inside a
/// runtime.
///
/// # Errors
///
/// [`ListenError`] for the first that cannot be opened, unless it is optional (`-::1`) and this machine has no such
/// address.
pub fn listen(config: &Config, tls: Option<&Arc<tls::Acceptor>>) -> Result<Vec<Listener>, ListenError> {
    let mut listeners: Vec<Listener> =
        listen_port(config, config.port, "port")?.into_iter().map(Listener::Tcp).collect();
    if let Some(acceptor) = tls {
        let opened = listen_port(config, config.tls_port, "tls-port")?.into_iter();
        listeners.extend(opened.map(|listener| Listener::Tls { listener, acceptor: Arc::clone(acceptor) }));
    }
    if let Some(path) = &config.unixsocket {
        listeners.push(listen_unix(path, config.unixsocketperm, config.tcp_backlog)?);
    }
    if listeners.is_empty() { Err(ListenError::Nothing) } else { Ok(listeners) }
}

/// Opens `http-port`; empty without one. The sockets do not belong to a runtime yet.
///
/// # Errors
///
/// [`ListenError`] for the first that cannot be opened, as in [`listen`].
pub fn listen_http(config: &Config) -> Result<Vec<std::net::TcpListener>, ListenError> {
    let listeners = listen_on(config.http_bind(), config.http.port, "http-port", config.tcp_backlog)?;
    let detach = |listener: TcpListener| {
        let source = |source| ListenError::Tcp {
            address: ([0, 0, 0, 0], config.http.port).into(),
            directive: "http-port",
            source,
        };
        listener.into_std().map_err(source)
    };
    let listeners = listeners.into_iter().map(detach).collect::<Result<Vec<_>, _>>()?;
    if listeners.is_empty() && config.http.port != 0 { Err(ListenError::NoHttp) } else { Ok(listeners) }
}

/// Opens one port on each address of `bind`.
fn listen_port(config: &Config, port: u16, directive: &'static str) -> Result<Vec<TcpListener>, ListenError> {
    listen_on(&config.bind, port, directive, config.tcp_backlog)
}

fn listen_on(
    bind: &[BindAddr],
    port: u16,
    directive: &'static str,
    backlog: u32,
) -> Result<Vec<TcpListener>, ListenError> {
    let mut listeners = Vec::new();
    // As in Redis, port 0 means none.
    if port == 0 {
        return Ok(listeners);
    }
    for bind in bind {
        let address = SocketAddr::new(bind.ip, port);
        match listen_with_retries(address, backlog) {
            Ok(listener) => listeners.push(listener),
            Err(source) if is_optional_and_missing(*bind, &source) => {
                tracing::debug!("not listening on {address}, which is optional in bind: {source}");
            }
            Err(source) => return Err(ListenError::Tcp { address, directive, source }),
        }
    }
    Ok(listeners)
}

fn is_optional_and_missing(bind: BindAddr, error: &io::Error) -> bool {
    let no_such_family = nix::errno::Errno::EAFNOSUPPORT as i32;
    let no_protocol = nix::errno::Errno::EPROTONOSUPPORT as i32;
    bind.optional
        && (error.kind() == io::ErrorKind::AddrNotAvailable
            || error.raw_os_error().is_some_and(|code| code == no_such_family || code == no_protocol))
}

/// Opens a socket as [`listen_tcp`] does, but retries a port in use for a while: a server that was just killed is still
/// ending.
fn listen_with_retries(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let mut tries = 0;
    loop {
        match listen_tcp(address, backlog) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < BIND_TRIES => {
                tries += 1;
                // Nothing else runs yet.
                std::thread::sleep(BIND_PAUSE);
            }
            result => return result,
        }
    }
}

fn listen_tcp(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = bind_tcp(address)?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    TcpListener::from_std(socket.into())
}

fn bind_tcp(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // So that `bind * -::*` is two sockets without a conflict.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Checks in advance whether [`listen`] could open the sockets of the configuration. A port or socket in use by another
/// server is no error, since that server may be the one to restart. `planned_folder` is a folder that
/// the start will make.
///
/// # Errors
///
/// [`ListenError`] as in [`listen`].
pub fn check_listening(config: &Config, planned_folder: Option<&Path>) -> Result<(), ListenError> {
    let mut has_any = config.unixsocket.is_some();
    for (port, directive) in [(config.port, "port"), (config.tls_port, "tls-port")] {
        has_any |= check_port(&config.bind, port, directive)?;
    }
    if config.http.port != 0 && !check_port(config.http_bind(), config.http.port, "http-port")? {
        return Err(ListenError::NoHttp);
    }
    if let Some(path) = &config.unixsocket {
        let fail = |source| ListenError::Unix { path: path.clone(), source };
        unix_address(&std::path::absolute(path).map_err(fail)?).map_err(fail)?;
        match std::fs::symlink_metadata(path) {
            Ok(there) if there.file_type().is_socket() => {}
            Ok(_) => return Err(ListenError::NotASocket { path: path.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                files::check_create(path, planned_folder).map_err(fail)?;
            }
            Err(error) => return Err(fail(error)),
        }
    }
    if has_any { Ok(()) } else { Err(ListenError::Nothing) }
}

/// Returns true if a port could be opened on any of these addresses.
fn check_port(bind: &[BindAddr], port: u16, directive: &'static str) -> Result<bool, ListenError> {
    let mut has_any = false;
    for bind in bind.iter().filter(|_| port != 0) {
        let address = SocketAddr::new(bind.ip, port);
        // It does not listen, and its address can be reused, so it causes no conflict.
        match bind_tcp(address) {
            Err(source) if is_optional_and_missing(*bind, &source) => {}
            Err(source) if source.kind() != io::ErrorKind::AddrInUse => {
                return Err(ListenError::Tcp { address, directive, source });
            }
            _ => has_any = true,
        }
    }
    Ok(has_any)
}

/// Pause before a refused connection is retried: another server may be between `bind` and `listen`.
const STALE_PAUSE: Duration = Duration::from_millis(50);

fn listen_unix(path: &Path, mode: Option<u32>, backlog: u32) -> Result<Listener, ListenError> {
    let fail = |source| ListenError::Unix { path: path.to_owned(), source };
    if let Ok(there) = std::fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(ListenError::NotASocket { path: path.to_owned() });
        }
        // A socket that a crash left behind refuses connections. Any other answer means that a server listens: its
        // queue may be full, or its mode may deny access.
        for _ in 0..2 {
            if !is_refused(path) {
                return Err(ListenError::InUse { path: path.to_owned() });
            }
            std::thread::sleep(STALE_PAUSE);
        }
        let id = FileId::from(&there);
        files::remove_if(path, id).map_err(fail)?;
    }
    let path = std::path::absolute(path).map_err(fail)?;
    let listener = bind_unix(&path, mode, backlog).map_err(fail)?;
    let id = files::id_of(&path);
    let path = Arc::new(path);
    Ok(Listener::Unix { listener, file: SocketFile { path: Arc::clone(&path), id }, path })
}

/// Returns true if no server listens on a socket. Does not wait for a place in a server's queue.
fn is_refused(path: &Path) -> bool {
    let tried = unix_address(path).and_then(|address| {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(&address)
    });
    tried.is_err_and(|error| matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound))
}

/// Maximum length of a Unix socket's path, bytes: `sun_path` of unix(7), without the zero at its end.
const UNIX_PATH_BYTES_MAX: usize = 107;

fn unix_address(path: &Path) -> io::Result<SockAddr> {
    let bytes = path.as_os_str().len();
    if bytes > UNIX_PATH_BYTES_MAX {
        let sentence = format!("the path has {bytes} bytes, that of a socket must have at most {UNIX_PATH_BYTES_MAX}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
    }
    SockAddr::unix(path)
}

/// Opens a socket that has its mode before a client can connect, which is possible only once it listens.
fn bind_unix(path: &Path, mode: Option<u32>, backlog: u32) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&unix_address(path)?)?;
    if let Some(mode) = mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    UnixListener::from_std(socket.into())
}

/// Removes the file of a Unix socket when the socket is closed, unless another server has replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: Arc<PathBuf>,
    id: Option<FileId>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // It may be gone already; nothing depends on it.
            let _ = files::remove_if(&self.path, id);
        }
    }
}

impl Listener {
    pub fn address(&self) -> String {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map_or_else(|_| "?".to_owned(), |a| a.to_string()),
            Listener::Tls { listener, .. } => {
                listener.local_addr().map_or_else(|_| "?".to_owned(), |a| format!("tls://{a}"))
            }
            Listener::Unix { path, .. } => path.display().to_string(),
        }
    }

    /// Returns its TCP port, if it has one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Listener::Tcp(listener) | Listener::Tls { listener, .. } => {
                listener.local_addr().ok().map(|address| address.port())
            }
            Listener::Unix { .. } => None,
        }
    }
}

/// Number of connections beyond `maxclients` for the Unix socket and loopback addresses, so that an operator can
/// connect when every place is taken.
pub(crate) const OPERATOR_PLACES: usize = 16;

/// Maximum number of TLS connections of a port that are sent a refusal at a time; more are closed without one.
pub(crate) const REFUSALS_MAX: usize = 8;

/// Number of descriptors kept free, for files that are written or read while clients are served, and for refusals.
const SPARE_FILES: u64 = 8 + REFUSALS_MAX as u64;

/// Number of descriptors of a thread with a runtime.
const FILES_PER_THREAD: u64 = 4;
/// Number of descriptors that the sockets, the state and the log may still open.
const FILES_AT_START: u64 = 8;
/// Number of descriptors of a store.
const FILES_PER_STORE: u64 = 6;

/// Error of a limit of open files that is too low for even one client. `Display` has the limit and the number needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the limit of open files (RLIMIT_NOFILE) is {limit}, and getid needs at least {needed}: {own} for its sockets, threads, \
     state and log, {OPERATOR_PLACES} for connections of operators, {SPARE_FILES} in reserve, {}and one for a client. Raise \
     it with ulimit -n or LimitNOFILE=", for_handshakes(*.handshakes)
)]
pub struct TooFewFiles {
    limit: u64,
    needed: u64,
    own: u64,
    handshakes: u64,
}

fn for_handshakes(count: u64) -> String {
    if count > 0 { format!("{count} for TLS handshakes, ") } else { String::new() }
}

/// Returns the number of clients for which there are descriptors, at most `clients_max`, while `own` are open for
/// everything else. Raises the limit of open files if needed and allowed. With TLS, some are reserved for handshakes.
///
/// # Errors
///
/// [`TooFewFiles`] if there is none left for a client.
pub(crate) fn room_for_clients(clients_max: u32, own: u64, has_tls: bool) -> Result<u32, TooFewFiles> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(clients_max) };
    let reserved = own + OPERATOR_PLACES as u64 + SPARE_FILES;
    let handshakes = |clients: u32| if has_tls { u64::from(handshakes_max(clients)) } else { 0 };
    let required = u64::from(clients_max) + handshakes(clients_max) + reserved;
    let raised = required.min(hard).max(soft);
    let limit = if raised > soft && setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_err() { soft } else { raised };
    if required <= limit {
        return Ok(clients_max);
    }
    let room = u32::try_from(limit.saturating_sub(reserved)).unwrap_or(u32::MAX);
    // As many handshakes as for more clients than will fit, which is enough.
    match u64::from(room).saturating_sub(handshakes(room)) {
        0 => Err(TooFewFiles { limit, needed: reserved + handshakes(1) + 1, own, handshakes: handshakes(1) }),
        clients => Ok(u32::try_from(clients).unwrap_or(u32::MAX).min(clients_max)),
    }
}

/// Maximum numbers of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Maximum number on the Redis ports.
    pub clients: u32,
    /// Maximum number on the HTTP port; 0 without one.
    pub http: u32,
}

impl ClientLimits {
    /// Returns the numbers of a configuration.
    pub fn of(config: &Config) -> ClientLimits {
        let http = if config.http.port == 0 { 0 } else { config.http.clients_max };
        ClientLimits { clients: config.maxclients, http }
    }

    /// Returns the numbers for which there are descriptors, while `own` are open for everything else; see
    /// `room_for_clients`. If not all fit, the HTTP port gets at most an eighth.
    ///
    /// # Errors
    ///
    /// [`TooFewFiles`] if there is none left for a client.
    pub fn fitting(self, own: u64, has_tls: bool) -> Result<ClientLimits, TooFewFiles> {
        let ClientLimits { clients, http } = self;
        if http == 0 || room_for_clients(clients, own + u64::from(http), has_tls) == Ok(clients) {
            return Ok(ClientLimits { clients: room_for_clients(clients, own, has_tls)?, http });
        }
        let room = room_for_clients(u32::MAX, own, has_tls)?;
        let http = http.min((room / 8).max(1));
        Ok(ClientLimits { clients: room_for_clients(clients, own + u64::from(http), has_tls)?, http })
    }
}

/// Estimates the number of descriptors that a start with this configuration has open in the end, before that start.
pub fn files_at_start(config: &Config) -> u64 {
    open_files() + FILES_PER_THREAD * config.io_threads as u64 + FILES_AT_START + files_still_to_open(config)
}

/// Returns how many of these descriptors are opened last. The stores of sequences have a thread, and each of them its
/// connections or its file with its log, and this server's notes; so have pools of worker ids. The HTTP port has a
/// thread, refused connections, and handshakes.
pub fn files_still_to_open(config: &Config) -> u64 {
    let stores = config.sequence_stores().len() as u64;
    let of_stores = if stores == 0 { 0 } else { FILES_PER_THREAD + FILES_PER_STORE * stores };
    let of_workers = if config.worker_pools.is_empty() { 0 } else { FILES_PER_THREAD + FILES_PER_STORE };
    let of_http = if config.http.port == 0 { 0 } else { FILES_PER_THREAD + http_spare_files(config) };
    of_stores + of_workers + of_http
}

/// Returns the number of descriptors kept free for the HTTP port beside its places: for refused connections, and for
/// handshakes.
pub(super) fn http_spare_files(config: &Config) -> u64 {
    let handshakes = if config.http.tls { u64::from(handshakes_max(config.http.clients_max)) } else { 0 };
    if config.http.port == 0 { 0 } else { REFUSALS_MAX as u64 + handshakes }
}

/// Returns the number of descriptors that this process has open.
pub fn open_files() -> u64 {
    // Reading the folder takes one itself. Without the folder, Redis's estimate is used.
    std::fs::read_dir("/proc/self/fd").map_or(32, |files| (files.count() as u64).saturating_sub(1))
}
