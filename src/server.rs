//! One server: its sockets, its clients, and what they may ask of it as a whole.
//!
//! Sessions know nothing of each other; where a command needs the server (INFO, CLIENT LIST, CONFIG GET, SHUTDOWN), it
//! comes here as an effect (`perform`). This file takes clients in and, at the end, sends them away in an order that
//! loses nothing: no new clients, replies in flight written, the issuer closed, its position on disk.

mod acl;
mod clients;
mod latency;
mod listen;
mod memory;
mod monitor;
mod perform;
mod settings;
mod slowlog;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use acl::{ACL_FILE_BYTES_MAX, AclFileError, load_users};
pub use listen::{ListenError, Listener, SocketFile, listen, room_for_clients};
pub use monitor::{MONITOR_BYTES_MAX, MONITORS_BYTES_MAX, Monitoring, Monitors};
pub use perform::Performed;
pub use settings::{limits, rules};
pub use slowlog::timing;
use socket2::TcpKeepalive;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use crate::acl::AclLog;
use crate::clients::{Clients, Endpoint, Stop};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Sources};
use crate::connection::{Connection, Transport};
use crate::info;
use crate::io_threads::IoThreads;
use crate::issuer::Issuer;
use crate::logging::Log;
use crate::metrics::Metrics;
use crate::pause::Pauses;
use crate::published::Published;
use crate::session::{Rules, Session};
use crate::telemetry::{Events, SlowLog};
use crate::tls;

/// Pause after an `accept` that failed, most often for want of descriptors: one is free once a client goes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time for a refused client to take its error.
const REFUSAL_PATIENCE: Duration = Duration::from_millis(100);

/// Everything the connections of a process share.
pub struct Server<C: Clock = SystemClock> {
    /// The configuration in force.
    pub config: Published<Config>,
    /// What sessions go by; connections look at it before each read.
    pub rules: Published<Rules>,
    /// Gives the IDs.
    pub issuer: Arc<Issuer<C>>,
    /// What INFO counts.
    pub metrics: Metrics,
    /// Who is connected.
    pub clients: Arc<Clients>,
    /// `CLIENT PAUSE`.
    pub pauses: Pauses,
    /// What differs from process to process.
    pub process: Process,
    /// Certificates, with `tls-port`.
    pub tls: Option<Arc<tls::Acceptor>>,
    /// Clients that see every command.
    pub monitors: Arc<Monitors>,
    slow_log: Mutex<SlowLog>,
    /// What LATENCY tells.
    events: Mutex<Events>,
    /// Resident memory when the first client could connect, bytes.
    pub memory_startup: AtomicU64,
    /// Who was refused what.
    acl_log: Mutex<AclLog>,
    io_threads: IoThreads,
    /// What `loglevel` is told to.
    log: Log,
    /// Held while the configuration changes.
    changes: Mutex<()>,
    /// Whether the last `accept` failed: one line in the log for each time that begins and ends.
    accept_fails: AtomicBool,
    stopping: AtomicBool,
    stop: Notify,
}

/// Facts about this process, for INFO and CONFIG REWRITE.
#[derive(Clone)]
pub struct Process {
    /// 40 hex digits, new at each start, as Redis's `run_id`.
    pub run_id: String,
    /// The configuration file, absolute; empty without one.
    pub config_file: String,
    /// What the configuration was read from. Passwords are in it.
    pub sources: Sources,
    /// The folder the process was started in: paths of `include` begin there.
    pub started_in: PathBuf,
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
        io_threads: IoThreads,
        tls: Option<Arc<tls::Acceptor>>,
        log: Log,
    ) -> Arc<Server<C>> {
        Arc::new(Server {
            config: Published::new(Arc::new(config)),
            rules: Published::new(rules),
            issuer,
            metrics: Metrics::new(io_threads.count()),
            clients: Arc::default(),
            pauses: Pauses::default(),
            process,
            tls,
            monitors: Arc::default(),
            slow_log: Mutex::default(),
            events: Mutex::default(),
            memory_startup: AtomicU64::new(0),
            acl_log: Mutex::default(),
            io_threads,
            log,
            changes: Mutex::new(()),
            accept_fails: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
        })
    }

    /// `maxclients` as in force.
    pub fn clients_max(&self) -> usize {
        self.config.get().maxclients as usize
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
        self.memory_startup.store(info::note_memory(&self.metrics), Relaxed);
        let server = Arc::clone(self);
        tasks.spawn(async move { server.keep_house().await });

        self.stop_requested().await;
        tasks.shutdown().await;
        let connected = self.clients.len();
        tracing::info!("stopping: no new clients; {connected} connected get their replies");
        self.clients.stop_all(Stop::Drain);
        let patience_s = self.config.get().shutdown_timeout_s;
        let patience = Duration::from_secs(patience_s);
        if tokio::time::timeout(patience, self.clients.all_gone()).await.is_err() {
            tracing::warn!(
                "{} clients did not take their replies within shutdown-timeout {patience_s} s and are cut off",
                self.clients.len()
            );
            self.clients.stop_all(Stop::Now);
            let _ = tokio::time::timeout(REFUSAL_PATIENCE, self.clients.all_gone()).await;
        }
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
        let config = self.config.get();
        if let Err(error) = set_options(&stream, &config) {
            tracing::debug!("client at {peer}: socket options: {error}");
        }
        let is_open = || self.rules.get().users.default_user().is_nopass();
        if config.protected_mode_effective() && !is_loopback(peer.ip()) && is_open() {
            self.metrics.connections.fetch_add(1, Relaxed);
            self.metrics.connections_rejected.fetch_add(1, Relaxed);
            refuse(wrap(stream), DENIED);
            return;
        }
        let fd = stream.as_raw_fd();
        self.welcome(wrap(stream), Endpoint::Tcp(peer), Endpoint::Tcp(local), fd);
    }

    fn welcome<T: Movable>(self: &Arc<Self>, stream: T, peer: Endpoint, local: Endpoint, fd: i32) {
        self.metrics.connections.fetch_add(1, Relaxed);
        let uptime_s = self.metrics.uptime_s.load(Relaxed);
        let session = Session::new(self.clients.next_id(), self.rules.get());
        let profile = session.profile().clone();
        let Some(admission) = self.clients.admit(profile, peer, local, fd, uptime_s, self.clients_max()) else {
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
        let mut hz = self.config.get().hz;
        let started = Instant::now();
        let mut last = started;
        let mut tick = rounds(hz);
        loop {
            tick.tick().await;
            if self.config.get().hz != hz {
                hz = self.config.get().hz;
                tick = rounds(hz);
                tick.reset();
            }
            let now = Instant::now();
            let elapsed_ms = u64::try_from(now.duration_since(last).as_millis()).unwrap_or(u64::MAX);
            last = now;
            let work = self.metrics.work_of_all_time();
            self.metrics.rate.sample(work.requests, elapsed_ms);
            self.metrics.input_rate.sample(work.input_bytes, elapsed_ms);
            self.metrics.output_rate.sample(work.output_bytes, elapsed_ms);
            if let Some(us) = self.issuer.take_longest_save_us() {
                self.note_event(latency::WATERMARK_SAVE, us / 1000);
            }
            let uptime_s = now.duration_since(started).as_secs();
            if self.metrics.uptime_s.swap(uptime_s, Relaxed) != uptime_s {
                self.close_idle(uptime_s);
                info::note_memory(&self.metrics);
                info::note_main_cpu(&self.metrics);
            }
        }
    }

    fn close_idle(&self, uptime_s: u64) {
        let timeout_s = self.config.get().timeout_s;
        if timeout_s == 0 {
            return;
        }
        for client in self.clients.all() {
            if client.idle_s(uptime_s) > timeout_s && !client.is_waiting() && !client.monitors() {
                self.metrics.idle_closed.fetch_add(1, Relaxed);
                tracing::debug!("client {} at {} was idle and is closed", client.id, client.peer);
                client.stop(Stop::Now);
            }
        }
    }
}

/// Replies that the kernel keeps for a client before the network has room for them, bytes; the default is megabytes.
///
/// So a client that never reads costs little of the kernel's memory too, and `client-output-timeout` sees that one reads,
/// however slowly: with megabytes in the kernel, minutes of slow reading would make no room for one byte more.
const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// `hz` times a second.
fn rounds(hz: u32) -> tokio::time::Interval {
    let mut rounds = tokio::time::interval(Duration::from_millis(u64::from(1000 / hz.clamp(1, 500))));
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    rounds
}

fn set_options(stream: &TcpStream, config: &Config) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    let seconds = u64::from(config.tcp_keepalive_s);
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

/// Redis's answer to a client from another machine while nobody chose who may come in.
const DENIED: &[u8] =
    b"-DENIED getid is running in protected mode because protected mode is enabled and no password is \
set for the default user. In this mode connections are only accepted from the loopback interface. To connect from \
other machines, do one of these: 1) set a password, with the directive requirepass or by sending CONFIG SET requirepass \
from the loopback interface, 2) set protected-mode no in either way once you are sure that nobody from outside can reach \
this port; CONFIG REWRITE makes a change outlast the next start.\r\n";

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
