//! One server: its sockets, its clients, and what they may ask of it as a whole.
//!
//! Sessions know nothing of each other; where a command needs the server (INFO, CLIENT LIST, CONFIG GET, SHUTDOWN), it
//! comes here as an [`Effect`]. The rest of this file opens sockets and, at the end, closes them in an order that
//! loses nothing: no new clients, replies in flight written, the issuer closed, its position on disk.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use crate::clients::{Client, Clients, Endpoint, Stop};
use crate::clock::{Clock, SystemClock};
use crate::command;
use crate::config::{BindAddr, Config};
use crate::connection::{Connection, Transport};
use crate::info;
use crate::io_threads::IoThreads;
use crate::issuer::Issuer;
use crate::metrics::Metrics;
use crate::resp::Value;
use crate::session::{ClientFilter, ClientKind, Effect, Rules, Session, Shutdown};
use crate::tls;

/// Pause after an `accept` that failed, most often for want of descriptors: one is free once a client goes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A port that is taken is asked for this often, for a second in all.
const BIND_TRIES: u32 = 20;
const BIND_PAUSE: Duration = Duration::from_millis(50);

/// Time for a refused client to take its error.
const REFUSAL_PATIENCE: Duration = Duration::from_millis(100);

/// Everything the connections of a process share.
pub struct Server<C: Clock = SystemClock> {
    /// The configuration it was started with.
    pub config: Config,
    /// Gives the IDs.
    pub issuer: Arc<Issuer<C>>,
    /// What INFO counts.
    pub metrics: Metrics,
    /// Who is connected.
    pub clients: Arc<Clients>,
    /// What differs from process to process.
    pub process: Process,
    /// Certificates, with `tls-port`.
    pub tls: Option<Arc<tls::Acceptor>>,
    rules: Arc<Rules>,
    io_threads: IoThreads,
    /// `maxclients`, or what the limit of open files leaves of it.
    clients_max: usize,
    /// Whether the last `accept` failed: one line in the log for each time that begins and ends.
    accept_fails: AtomicBool,
    stopping: AtomicBool,
    stop: Notify,
}

/// Facts about this process, for INFO.
#[derive(Clone, Debug)]
pub struct Process {
    /// 40 hex digits, new at each start, as Redis's `run_id`.
    pub run_id: String,
    /// The configuration file, absolute; empty without one.
    pub config_file: String,
    /// The program, absolute.
    pub executable: String,
    /// `port`, or `tls-port` where that is 0, as in Redis; 0: no TCP.
    pub tcp_port: u16,
}

impl<C: Clock> Server<C> {
    /// A server that has not opened anything yet.
    pub fn new(
        config: Config,
        rules: Arc<Rules>,
        issuer: Arc<Issuer<C>>,
        process: Process,
        clients_max: usize,
        io_threads: IoThreads,
        tls: Option<Arc<tls::Acceptor>>,
    ) -> Arc<Server<C>> {
        Arc::new(Server {
            config,
            issuer,
            metrics: Metrics::new(io_threads.count()),
            clients: Arc::default(),
            process,
            tls,
            rules,
            io_threads,
            clients_max,
            accept_fails: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
        })
    }

    /// `maxclients` as in force.
    pub fn clients_max(&self) -> usize {
        self.clients_max
    }

    /// Asks the server to stop, as SIGTERM does.
    pub fn request_stop(&self) {
        self.stopping.store(true, Relaxed);
        self.stop.notify_waiters();
    }

    /// Ends all connections without waiting for anything.
    pub fn cut_off_clients(&self) {
        self.clients.stop_all(Stop::Now);
    }

    /// Whether [`Server::request_stop`] was called.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Resolves once [`Server::request_stop`] was called.
    pub async fn stop_requested(&self) {
        loop {
            let stop = self.stop.notified();
            if self.stopping.load(Relaxed) {
                return;
            }
            stop.await;
        }
    }

    /// Serves on `listeners` until asked to stop; returns when all clients are gone, at the latest after
    /// `shutdown-timeout`.
    pub async fn run(self: &Arc<Self>, listeners: Vec<Listener>) {
        let mut tasks = tokio::task::JoinSet::new();
        for listener in listeners {
            let server = Arc::clone(self);
            tasks.spawn(async move { server.accept_all(listener).await });
        }
        let server = Arc::clone(self);
        tasks.spawn(async move { server.keep_house().await });

        self.stop_requested().await;
        tasks.shutdown().await;
        let connected = self.clients.len();
        tracing::info!("stopping: no new clients; {connected} connected get their replies");
        self.clients.stop_all(Stop::Drain);
        let patience = Duration::from_secs(self.config.shutdown_timeout_s);
        if tokio::time::timeout(patience, self.clients.all_gone()).await.is_err() {
            tracing::warn!(
                "{} clients did not take their replies within shutdown-timeout {} s and are cut off",
                self.clients.len(),
                self.config.shutdown_timeout_s
            );
            self.clients.stop_all(Stop::Now);
            let _ = tokio::time::timeout(REFUSAL_PATIENCE, self.clients.all_gone()).await;
        }
    }

    /// Does what a command asks of the server; `None`: no reply, and the connection ends.
    pub fn perform(&self, effect: Effect, client: &Client) -> Option<Value> {
        let uptime_s = self.metrics.uptime_s.load(Relaxed);
        Some(match effect {
            Effect::Info { sections } => Value::text(info::text(self, &sections)),
            Effect::ClientInfo => Value::text(client.line(uptime_s) + "\n"),
            Effect::ClientList(filter) => Value::text(self.client_list(&filter)),
            Effect::ConfigGet { patterns } => self.config_get(&patterns),
            Effect::Time => {
                let now_us = self.issuer.clock().wall_unix_us();
                let seconds = now_us.div_euclid(1_000_000).to_string();
                let micros = now_us.rem_euclid(1_000_000).to_string();
                Value::Array(vec![Value::bulk(seconds), Value::bulk(micros)])
            }
            Effect::DecodeId(id) => {
                command::describe_id(self.issuer.identity().layout, id, self.issuer.clock().wall_unix_ms())
            }
            // Stopping closes the issuer for good, so there is no way back and nothing to abort.
            Effect::Shutdown(Shutdown { abort: true, .. }) => Value::error("ERR No shutdown in progress."),
            Effect::Shutdown(how) => {
                tracing::warn!("client {} at {} asked for SHUTDOWN", client.id, client.peer);
                if how.now {
                    self.clients.stop_all(Stop::Now);
                }
                self.request_stop();
                return None;
            }
        })
    }

    fn client_list(&self, filter: &ClientFilter) -> String {
        let uptime_s = self.metrics.uptime_s.load(Relaxed);
        let clients = match filter {
            ClientFilter::All | ClientFilter::Kind(ClientKind::Normal) => self.clients.all(),
            ClientFilter::Kind(ClientKind::Master | ClientKind::Replica | ClientKind::PubSub) => Vec::new(),
            ClientFilter::Ids(ids) => ids.iter().filter_map(|id| self.clients.get(*id)).collect(),
        };
        clients.iter().map(|client| client.line(uptime_s) + "\n").collect()
    }

    fn config_get(&self, patterns: &[Vec<u8>]) -> Value {
        let mut pairs: Vec<(&'static str, String)> = Vec::new();
        for pattern in patterns {
            for (name, value) in self.config.get(pattern) {
                if !pairs.iter().any(|(other, _)| *other == name) {
                    pairs.push((name, value));
                }
            }
        }
        Value::Map(pairs.into_iter().map(|(name, value)| (Value::bulk(name), Value::bulk(value))).collect())
    }

    async fn accept_all(self: Arc<Self>, listener: Listener) {
        match listener {
            Listener::Tcp(listener) => loop {
                let stream = self.accepted(listener.accept().await).await;
                if let Some((stream, peer)) = stream {
                    self.welcome_tcp(stream, peer, |stream| stream);
                }
            },
            Listener::Tls { listener, acceptor } => loop {
                let stream = self.accepted(listener.accept().await).await;
                if let Some((stream, peer)) = stream {
                    // The handshake is left to the connection's task.
                    self.welcome_tcp(stream, peer, |stream| tls::Stream::new(stream, Arc::clone(&acceptor)));
                }
            },
            Listener::Unix { listener, path, .. } => loop {
                if let Some((stream, _)) = self.accepted(listener.accept().await).await {
                    let fd = stream.as_raw_fd();
                    let end = Endpoint::Unix(Arc::clone(&path));
                    self.welcome(stream, end.clone(), end, fd);
                }
            },
        }
    }

    async fn accepted<T>(&self, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(accepted) => {
                if self.accept_fails.load(Relaxed) && self.accept_fails.swap(false, Relaxed) {
                    tracing::warn!("clients can be accepted again");
                }
                Some(accepted)
            }
            Err(error) => {
                // Without a pause this would spin: the connection that could not be accepted is still there.
                self.metrics.accept_errors.fetch_add(1, Relaxed);
                if !self.accept_fails.swap(true, Relaxed) {
                    tracing::error!("accepting a client failed: {error}. Trying on, every {ACCEPT_PAUSE:?}");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }

    fn welcome_tcp<T: Movable>(
        self: &Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        wrap: impl FnOnce(TcpStream) -> T,
    ) {
        let local = stream.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        if let Err(error) = self.set_options(&stream) {
            tracing::debug!("client at {peer}: socket options: {error}");
        }
        if self.config.protected_mode_effective() && self.config.requirepass.is_none() && !is_loopback(peer.ip()) {
            self.metrics.connections.fetch_add(1, Relaxed);
            self.metrics.connections_rejected.fetch_add(1, Relaxed);
            refuse(wrap(stream), DENIED);
            return;
        }
        let fd = stream.as_raw_fd();
        self.welcome(wrap(stream), Endpoint::Tcp(peer), Endpoint::Tcp(local), fd);
    }

    fn set_options(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let seconds = u64::from(self.config.tcp_keepalive_s);
        if seconds > 0 {
            // As Redis: the first probe after `tcp-keepalive`, then three more a third of it apart.
            let keepalive = TcpKeepalive::new()
                .with_time(Duration::from_secs(seconds))
                .with_interval(Duration::from_secs((seconds / 3).max(1)))
                .with_retries(3);
            socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
        }
        Ok(())
    }

    fn welcome<T: Movable>(self: &Arc<Self>, stream: T, peer: Endpoint, local: Endpoint, fd: i32) {
        self.metrics.connections.fetch_add(1, Relaxed);
        let uptime_s = self.metrics.uptime_s.load(Relaxed);
        let session = Session::new(self.clients.next_id(), Arc::clone(&self.rules));
        let profile = session.profile().clone();
        let Some(admission) = self.clients.admit(profile, peer, local, fd, uptime_s, self.clients_max) else {
            self.metrics.connections_rejected.fetch_add(1, Relaxed);
            refuse(stream, b"-ERR max number of clients reached\r\n");
            return;
        };
        self.metrics.clients_peak.fetch_max(self.clients.len() as u64, Relaxed);
        tracing::trace!("client {} connected from {}", admission.client.id, admission.client.peer);
        let server = Arc::clone(self);
        if self.io_threads.is_alone() {
            tokio::spawn(Connection::new(server, admission, session, stream).run());
            return;
        }
        // The stream leaves this thread's runtime and enters the other's; from then on it stays there.
        let Ok(stream) = stream.leave() else { return };
        self.io_threads.spawn(async move {
            if let Ok(stream) = T::enter(stream) {
                Connection::new(server, admission, session, stream).run().await;
            }
        });
    }

    /// Uptime, rates and idle clients: what is done now and then rather than per request.
    async fn keep_house(self: Arc<Self>) {
        let every = Duration::from_millis(u64::from(1000 / self.config.hz.clamp(1, 500)));
        let started = Instant::now();
        let mut last = started;
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let now = Instant::now();
            let elapsed_ms = u64::try_from(now.duration_since(last).as_millis()).unwrap_or(u64::MAX);
            last = now;
            self.metrics.rate.sample(self.metrics.work().requests, elapsed_ms);
            let uptime_s = now.duration_since(started).as_secs();
            if self.metrics.uptime_s.swap(uptime_s, Relaxed) != uptime_s {
                self.close_idle(uptime_s);
                info::note_memory(&self.metrics);
            }
        }
    }

    fn close_idle(&self, uptime_s: u64) {
        if self.config.timeout_s == 0 {
            return;
        }
        for client in self.clients.all() {
            if client.idle_s(uptime_s) > self.config.timeout_s && !client.is_waiting() {
                self.metrics.idle_closed.fetch_add(1, Relaxed);
                tracing::debug!("client {} at {} was idle and is closed", client.id, client.peer);
                client.stop(Stop::Now);
            }
        }
    }
}

/// Redis's answer to a client from another machine while nobody chose who may come in.
const DENIED: &[u8] =
    b"-DENIED getid is running in protected mode because protected mode is enabled and no password is \
set for the default user. In this mode connections are only accepted from the loopback interface. To connect from \
other machines, do one of these: 1) set a password with the directive requirepass, 2) set 'protected-mode no' once you \
are sure that nobody from outside can reach this port, then start the server again.\r\n";

fn is_loopback(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    }
}

/// Sends an error and closes, without waiting for anybody.
fn refuse(mut stream: impl Transport + 'static, error: &'static [u8]) {
    tokio::spawn(async move {
        let _ = tokio::time::timeout(REFUSAL_PATIENCE, async {
            stream.write_all(error).await?;
            stream.shutdown().await
        })
        .await;
    });
}

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

/// Raises the limit of open files to what `clients_max` needs; returns how many clients there is room for.
pub fn fit_open_files(clients_max: usize) -> usize {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    /// Descriptors for everything that is no client: sockets, log, state. Redis reserves as many.
    const RESERVED: u64 = 32;
    let wanted = clients_max as u64 + RESERVED;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return clients_max };
    if soft >= wanted {
        return clients_max;
    }
    let raised = wanted.min(hard);
    let in_force = if setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() { raised } else { soft };
    if in_force >= wanted {
        return clients_max;
    }
    let room = usize::try_from(in_force.saturating_sub(RESERVED)).unwrap_or(1).max(1);
    tracing::warn!(
        "maxclients {clients_max} needs {wanted} open files, the limit is {in_force}: maxclients is {room} now. Raise it \
         with ulimit -n or LimitNOFILE="
    );
    room
}

/// A stream that can go from one thread's runtime to another's.
trait Movable: Transport + 'static {
    /// It on its way.
    type Plain: Send;

    fn leave(self) -> io::Result<Self::Plain>;

    fn enter(plain: Self::Plain) -> io::Result<Self>;
}

impl Movable for TcpStream {
    type Plain = std::net::TcpStream;

    fn leave(self) -> io::Result<Self::Plain> {
        self.into_std()
    }

    fn enter(plain: Self::Plain) -> io::Result<Self> {
        TcpStream::from_std(plain)
    }
}

impl Movable for tls::Stream {
    type Plain = (std::net::TcpStream, Arc<tls::Acceptor>);

    fn leave(self) -> io::Result<Self::Plain> {
        let (socket, acceptor) = self.into_fresh().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((socket.into_std()?, acceptor))
    }

    fn enter((socket, acceptor): Self::Plain) -> io::Result<Self> {
        Ok(tls::Stream::new(TcpStream::from_std(socket)?, acceptor))
    }
}

impl Movable for UnixStream {
    type Plain = std::os::unix::net::UnixStream;

    fn leave(self) -> io::Result<Self::Plain> {
        self.into_std()
    }

    fn enter(plain: Self::Plain) -> io::Result<Self> {
        UnixStream::from_std(plain)
    }
}
