//! Opens what clients come in by, and finds out for how many of them there is room.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use crate::config::{BindAddr, Config};
use crate::tls;

/// A port that is taken is asked for this often, for a second in all.
const BIND_TRIES: u32 = 20;
const BIND_PAUSE: Duration = Duration::from_millis(50);

/// A socket that clients come in by.
#[derive(Debug)]
pub enum Listener {
    /// TCP, one address.
    Tcp(TcpListener),
    /// TLS over TCP, one address.
    Tls {
        /// The socket.
        listener: TcpListener,
        /// Makes streams of its connections.
        acceptor: Arc<tls::Acceptor>,
    },
    /// A Unix socket.
    Unix {
        /// The socket.
        listener: UnixListener,
        /// Where it is.
        path: Arc<PathBuf>,
        /// Takes the file away again.
        file: SocketFile,
    },
}

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A TCP address.
    #[error("could not listen on {address}: {source}. {}", listen_remedy(.source, .directive))]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// The directive that its port is from.
        directive: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A Unix socket.
    #[error("could not listen on unixsocket {}: {source}", .path.display())]
    Unix {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something else is there.
    #[error("unixsocket {}: there is a file that is not a socket; choose another path or move it away", .path.display())]
    NotASocket {
        /// Its path.
        path: PathBuf,
    },
    /// Another server is there.
    #[error("unixsocket {}: another server is listening on it; stop it or choose another path", .path.display())]
    InUse {
        /// Its path.
        path: PathBuf,
    },
    /// No address at all.
    #[error(
        "nothing to listen on: there is no port or no address of bind could be opened, and there is no unixsocket; set one of \
         port, tls-port, bind and unixsocket"
    )]
    Nothing,
}

fn listen_remedy(error: &io::Error, directive: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("Another program has this port: stop it, or set another with {directive}"),
        io::ErrorKind::PermissionDenied => format!("Ports below 1024 need a privilege: set another with {directive}"),
        io::ErrorKind::AddrNotAvailable => {
            "This machine has no such address: correct bind, or write it as -ADDRESS".to_owned()
        }
        _ => format!("Check bind and {directive}"),
    }
}

/// Opens every socket that the configuration names, that of `tls-port` if there are certificates. Must be called inside a
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
        listeners.push(listen_unix(path, config.unixsocketperm)?);
    }
    if listeners.is_empty() { Err(ListenError::Nothing) } else { Ok(listeners) }
}

/// Opens one port on each address of `bind`.
fn listen_port(config: &Config, port: u16, directive: &'static str) -> Result<Vec<TcpListener>, ListenError> {
    let mut listeners = Vec::new();
    // As in Redis, port 0 means none.
    if port == 0 {
        return Ok(listeners);
    }
    for bind in &config.bind {
        let address = SocketAddr::new(bind.ip, port);
        match listen_patiently(address, config.tcp_backlog) {
            Ok(listener) => listeners.push(listener),
            Err(source) if may_be_missing(*bind, &source) => {
                tracing::debug!("not listening on {address}: {source}; bind says it is optional");
            }
            Err(source) => return Err(ListenError::Tcp { address, directive, source }),
        }
    }
    Ok(listeners)
}

fn may_be_missing(bind: BindAddr, error: &io::Error) -> bool {
    let no_such_family = nix::errno::Errno::EAFNOSUPPORT as i32;
    let no_protocol = nix::errno::Errno::EPROTONOSUPPORT as i32;
    bind.optional
        && (error.kind() == io::ErrorKind::AddrNotAvailable
            || error.raw_os_error().is_some_and(|code| code == no_such_family || code == no_protocol))
}

/// As [`listen_tcp`], but a port that is taken is asked for again for a while: a server that was killed an instant ago
/// is still ending.
fn listen_patiently(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
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
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // So that `bind * -::*` is two sockets and neither is in the other's way.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    TcpListener::from_std(socket.into())
}

fn listen_unix(path: &Path, mode: Option<u32>) -> Result<Listener, ListenError> {
    let fail = |source| ListenError::Unix { path: path.to_owned(), source };
    if let Ok(there) = std::fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(ListenError::NotASocket { path: path.to_owned() });
        }
        // A socket that a crash left behind refuses connections; one that takes them belongs to somebody.
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(ListenError::InUse { path: path.to_owned() });
        }
        std::fs::remove_file(path).map_err(fail)?;
    }
    let listener = UnixListener::bind(path).map_err(fail)?;
    if let Some(mode) = mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(fail)?;
    }
    let path = Arc::new(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    Ok(Listener::Unix { listener, file: SocketFile(Arc::clone(&path)), path })
}

/// Removes the file of a Unix socket when the socket is closed.
#[derive(Debug)]
pub struct SocketFile(Arc<PathBuf>);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may be gone already; nothing depends on it.
        let _ = std::fs::remove_file(&*self.0);
    }
}

impl Listener {
    /// Where it listens, for people.
    pub fn address(&self) -> String {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map_or_else(|_| "?".to_owned(), |a| a.to_string()),
            Listener::Tls { listener, .. } => {
                listener.local_addr().map_or_else(|_| "?".to_owned(), |a| format!("tls://{a}"))
            }
            Listener::Unix { path, .. } => path.display().to_string(),
        }
    }

    /// Its TCP port, if it has one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Listener::Tcp(listener) | Listener::Tls { listener, .. } => {
                listener.local_addr().ok().map(|address| address.port())
            }
            Listener::Unix { .. } => None,
        }
    }
}

/// Raises the limit of open files to what `clients_max` needs; returns how many of them there is room for.
pub fn room_for_clients(clients_max: u32) -> u32 {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    /// Descriptors for everything that is no client: sockets, log, state. Redis reserves as many.
    const RESERVED: u64 = 32;
    let wanted = u64::from(clients_max) + RESERVED;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return clients_max };
    if soft >= wanted {
        return clients_max;
    }
    let raised = wanted.min(hard);
    let in_force = if setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() { raised } else { soft };
    if in_force >= wanted {
        return clients_max;
    }
    u32::try_from(in_force.saturating_sub(RESERVED)).unwrap_or(clients_max).max(1)
}
