//! One server: its sockets, its clients, and what they may ask of it as a whole.
//!
//! Sessions know nothing of each other; where a command needs the server (INFO, CLIENT LIST, CONFIG GET, SHUTDOWN), it
//! comes here as an effect (`perform`). This file takes clients in and, at the end, sends them away in an order that
//! loses nothing: no new clients, replies in flight written, the issuer closed, its position on disk.

mod access;
mod acl_file;
mod audit;
mod changes;
mod closed;
pub mod connection;
mod effects;
mod handshakes;
pub mod info;
mod listen;
mod monitor;
pub mod pause;
pub mod published;
pub mod registry;
mod settings;
mod slow;
pub mod tls;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use acl_file::{ACL_FILE_BYTES_MAX, AclFileError, load_users};
pub use audit::{Act, Actor};
use changes::Changes;
pub use effects::{Performed, Pieces};
pub use handshakes::Handshakes;
use handshakes::Unfinished;
pub use listen::{
    ListenError, Listener, OPERATOR_PLACES, SocketFile, TooFewFiles, check_listening, files_of_a_start, listen,
    open_files, room_for_clients,
};
pub use monitor::{MONITOR_BYTES_MAX, MONITORS_BYTES_MAX, MONITORS_MAX, Monitoring, Monitors};
pub use settings::{limits, session_settings};
pub use slow::timing;
use socket2::TcpKeepalive;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use crate::acl::{AclLog, Guesses, Origin};
use crate::config::{Config, Sources};
use crate::generators::time::Issuer;
use crate::logging::Log;
use crate::logging::throttle::{LogThrottle, Suppressed, throttled};
use crate::metrics::{Counter, Metrics};
use crate::server::connection::{Connection, PanicWatch, Transport};
use crate::server::pause::Pauses;
use crate::server::published::Published;
use crate::server::registry::{Admission, Clients, Endpoint, Stop};
use crate::session::{Session, Settings};
use crate::stats::{Events, SlowLog};
use crate::system::clock::Clock as _;
use crate::system::io_threads::IoThreads;
use crate::text::plural::counted;

/// Pause after an `accept` that failed, most often for want of descriptors: one is free once a client goes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time for a refused client to take its error.
const REFUSAL_PATIENCE: Duration = Duration::from_millis(100);

/// Everything the connections of a process share.
pub struct Server {
    /// The configuration in force.
    pub config: Published<Config>,
    /// What sessions go by; connections look at it before each read.
    pub settings: Published<Settings>,
    /// Gives the IDs.
    pub issuer: Arc<Issuer>,
    /// What INFO counts.
    pub metrics: Metrics,
    /// Who is connected.
    pub clients: Arc<Clients>,
    /// Who is still in the TLS handshake, and no client yet.
    pub handshakes: Arc<Handshakes>,
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
    /// How fast passwords are tried, by address.
    guesses: Mutex<Guesses>,
    io_threads: IoThreads,
    /// What `loglevel` is told to.
    pub log: Log,
    /// Limits the lines that clients cause in the log.
    pub throttle: LogThrottle,
    /// Of settings and users.
    changes: Changes,
    /// Whether the last `accept` failed: one line in the log for each time that begins and ends.
    accept_fails: AtomicBool,
    stopping: AtomicBool,
    stop: Notify,
}

/// Who has come, and from where to where.
struct Arrival {
    origin: Origin,
    peer: Endpoint,
    local: Endpoint,
    fd: i32,
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

impl Server {
    /// A server that has not opened anything yet.
    pub fn new(
        config: Config,
        settings: Arc<Settings>,
        issuer: Arc<Issuer>,
        process: Process,
        io_threads: IoThreads,
        tls: Option<Arc<tls::Acceptor>>,
        log: Log,
    ) -> Arc<Server> {
        let clients = Arc::new(Clients::default());
        clients.set_held_bytes_max(config.maxmemory_clients.bytes(info::memory_limit()));
        Arc::new(Server {
            config: Published::new(Arc::new(config)),
            settings: Published::new(settings),
            issuer,
            metrics: Metrics::new(io_threads.count()),
            clients,
            handshakes: Arc::default(),
            pauses: Pauses::default(),
            process,
            tls,
            monitors: Arc::default(),
            slow_log: Mutex::default(),
            events: Mutex::default(),
            memory_startup: AtomicU64::new(0),
            acl_log: Mutex::default(),
            guesses: Mutex::default(),
            io_threads,
            log,
            throttle: LogThrottle::default(),
            changes: Changes::start(),
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
        self.handshakes.end_all();
        let connected = self.clients.len();
        if connected == 0 {
            tracing::info!("stopping: no new clients, and none is connected");
        } else {
            let (clients, get) = (counted(connected as u64, "client"), if connected == 1 { "gets" } else { "get" });
            tracing::info!("stopping: no new clients; {clients} still connected {get} the replies under way");
        }
        self.clients.stop_all(Stop::Drain);
        let patience_s = self.config.get().shutdown_timeout_s;
        let patience = Duration::from_secs(patience_s);
        if tokio::time::timeout(patience, self.clients.all_gone()).await.is_err() {
            tracing::warn!(
                "{} did not take all replies within shutdown-timeout {patience_s} s: cut off",
                counted(self.clients.len() as u64, "client")
            );
            self.clients.stop_all(Stop::Now);
            let _ = tokio::time::timeout(REFUSAL_PATIENCE, self.clients.all_gone()).await;
        }
        self.throttle.end_all().iter().for_each(Suppressed::log);
    }

    async fn accept_all(self: Arc<Self>, listener: Listener) {
        match listener {
            Listener::Tcp(listener) => loop {
                let stream = self.accepted(listener.accept().await).await;
                if let Some((stream, peer)) = stream {
                    match self.arrival(&stream, peer) {
                        Some(arrival) => self.welcome(stream, arrival),
                        None => refuse(stream, DENIED),
                    }
                }
            },
            Listener::Tls { listener, acceptor } => loop {
                let stream = self.accepted(listener.accept().await).await;
                if let Some((stream, peer)) = stream {
                    let arrival = self.arrival(&stream, peer);
                    let stream = tls::Stream::new(stream, Arc::clone(&acceptor));
                    match arrival {
                        Some(arrival) => self.welcome_tls(stream, peer, arrival).await,
                        None => refuse(stream, DENIED),
                    }
                }
            },
            Listener::Unix { listener, path, .. } => loop {
                if let Some((stream, _)) = self.accepted(listener.accept().await).await {
                    let fd = stream.as_raw_fd();
                    let end = Endpoint::Unix(Arc::clone(&path));
                    self.metrics.count(Counter::Connections);
                    self.welcome(stream, Arrival { origin: Origin::ThisMachine, peer: end.clone(), local: end, fd });
                }
            },
        }
    }

    async fn accepted<T>(&self, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(accepted) => {
                if self.accept_fails.load(Relaxed) && self.accept_fails.swap(false, Relaxed) {
                    throttled!(self.throttle, AcceptsAgain, "clients can be accepted again");
                }
                Some(accepted)
            }
            Err(error) => {
                // Without a pause this would spin: the connection that could not be accepted is still there.
                self.metrics.count(Counter::AcceptErrors);
                if !self.accept_fails.swap(true, Relaxed) {
                    throttled!(
                        self.throttle,
                        AcceptFails,
                        "accepting a client failed: {error}. Trying on, every {ACCEPT_PAUSE:?}"
                    );
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }

    /// Sets the options of a client's socket; `None` if it may not come in from where it is.
    fn arrival(&self, stream: &TcpStream, peer: SocketAddr) -> Option<Arrival> {
        self.metrics.count(Counter::Connections);
        let local = stream.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        let config = self.config.get();
        if let Err(error) = set_options(stream, &config) {
            throttled!(self.throttle, SocketOptions, "client at {peer}: socket options: {error}");
        }
        let origin = Origin::of(peer.ip());
        let is_open = || self.settings.get().users.default_user().is_nopass();
        if config.protection().turns_away(origin, is_open()) {
            self.metrics.count(Counter::ConnectionsRejected);
            return None;
        }
        Some(Arrival { origin, peer: Endpoint::Tcp(peer), local: Endpoint::Tcp(local), fd: stream.as_raw_fd() })
    }

    fn welcome<T: Movable>(self: &Arc<Self>, stream: T, arrival: Arrival) {
        let Some((admission, session)) = self.admit(arrival) else { return self.turn_away(stream) };
        let server = Arc::clone(self);
        self.hand_over(stream, move |stream| Connection::new(server, admission, session, stream).run());
    }

    /// As [`Server::welcome`] for a client that is none until its handshake is done. Returns when that has begun, on the
    /// thread that will serve the client.
    async fn welcome_tls(self: &Arc<Self>, stream: tls::Stream, peer: SocketAddr, arrival: Arrival) {
        // A handshake is much work, and there would be nothing behind it.
        if self.clients.len() >= self.places(arrival.origin) {
            return self.turn_away(stream);
        }
        let count_max = handshakes::handshakes_max(self.config.get().maxclients) as usize;
        let place = self.handshakes.begin(arrival.peer.source(), count_max).await;
        let server = Arc::clone(self);
        self.hand_over(stream, move |mut stream| async move {
            let watch = PanicWatch::new(&server, peer);
            let result = place.run(&mut stream).await;
            drop(watch);
            match result {
                Ok(()) => match server.admit(arrival) {
                    // A task of its own, so that this one's memory is not kept for as long as the client stays.
                    Some((admission, session)) => {
                        drop(tokio::spawn(Connection::new(server, admission, session, stream).run()));
                    }
                    None => server.turn_away(stream),
                },
                Err(unfinished) => {
                    drop(stream);
                    server.note_unfinished(&unfinished, peer, count_max);
                }
            }
            // Not before the socket is closed or counts as a client's.
            drop(place);
        });
    }

    fn note_unfinished(&self, unfinished: &Unfinished, peer: SocketAddr, count_max: usize) {
        match unfinished {
            Unfinished::Failed(error) => throttled!(self.throttle, Left, "client at {peer} is gone: {error}"),
            Unfinished::Evicted => {
                self.metrics.count(Counter::HandshakesEvicted);
                throttled!(
                    self.throttle,
                    HandshakeEvicted,
                    "the TLS handshake of {peer} does not go on and is ended: {count_max} are under way, as many as may be, \
                     and another waits"
                );
            }
            Unfinished::Stopped => {}
        }
    }

    /// How many clients there may be for one from there to be let in.
    fn places(&self, origin: Origin) -> usize {
        // When every place is taken, an operator must be able to look why.
        let more = if origin == Origin::ThisMachine { OPERATOR_PLACES } else { 0 };
        self.clients_max().saturating_add(more)
    }

    /// Makes a client of who has come, if there is a place.
    fn admit(&self, Arrival { origin, peer, local, fd }: Arrival) -> Option<(Admission, Session)> {
        let uptime_s = self.metrics.uptime_s.load(Relaxed);
        let session = Session::new(self.clients.next_id(), self.settings.get()).from(origin);
        let view = session.view().clone();
        let admission = self.clients.admit(view, peer, local, fd, uptime_s, self.places(origin))?;
        // On another thread than the one that stops the server: it may have told all clients before this was one.
        if self.is_stopping() {
            admission.client.stop(Stop::Drain);
        }
        self.metrics.clients_peak.fetch_max(self.clients.len() as u64, Relaxed);
        throttled!(self.throttle, Connected, "client {} connected from {}", admission.client.id, admission.client.peer);
        Some((admission, session))
    }

    /// For want of a place.
    fn turn_away(&self, stream: impl Transport + 'static) {
        self.metrics.count(Counter::ConnectionsRejected);
        refuse(stream, b"-ERR max number of clients reached\r\n");
    }

    /// Starts a client's task on the thread that will serve it.
    fn hand_over<T: Movable, F>(&self, stream: T, task: impl FnOnce(T) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.io_threads.is_alone() {
            tokio::spawn(task(stream));
            return;
        }
        // The stream leaves this thread's runtime and enters the other's; from then on it stays there.
        let Ok(stream) = stream.leave() else { return };
        self.io_threads.spawn(async move {
            if let Ok(stream) = T::enter(stream) {
                task(stream).await;
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
                self.note_event(slow::WATERMARK_SAVE, us / 1000);
            }
            let uptime_s = now.duration_since(started).as_secs();
            if self.metrics.uptime_s.swap(uptime_s, Relaxed) != uptime_s {
                self.close_idle(uptime_s);
                self.close_strangers(uptime_s);
                self.throttle.end_windows(uptime_s).iter().for_each(Suppressed::log);
                self.tell_of_guesses();
                let now_s = self.issuer.clock().wall_unix_ms() / 1000;
                if let Some(warning) = self.tls.as_ref().and_then(|tls| tls.warning(now_s)) {
                    tracing::warn!("{warning}");
                }
                info::note_memory(&self.metrics);
                info::note_main_cpu(&self.metrics);
            }
        }
    }

    /// Closes clients that have to log in and did not do so in time.
    fn close_strangers(&self, uptime_s: u64) {
        let timeout_s = self.config.get().auth_timeout_s;
        // While the default user is open to all nobody has to.
        if timeout_s == 0 || self.settings.get().users.default_user().is_open() {
            return;
        }
        for client in self.clients.all() {
            // One whose login is being answered late is not.
            let is_late = client.stranger_s(uptime_s).is_some_and(|s| s > timeout_s) && !client.is_waiting();
            if is_late && client.stopping() != Stop::Now {
                self.metrics.count(Counter::AuthTimeoutClosed);
                throttled!(
                    self.throttle,
                    AuthTimeout,
                    "client {} at {} is closed: it has not logged in within auth-timeout {timeout_s} s",
                    client.id,
                    client.peer
                );
                client.stop(Stop::Now);
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
                self.metrics.count(Counter::IdleClosed);
                throttled!(self.throttle, Idle, "client {} at {} was idle and is closed", client.id, client.peer);
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

/// Sends an error and closes, without waiting for anybody.
fn refuse(mut stream: impl Transport + 'static, error: &'static [u8]) {
    static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
    // Each keeps a descriptor meanwhile. A flood is closed without a word.
    if UNDER_WAY.fetch_add(1, Relaxed) >= listen::REFUSALS_MAX {
        UNDER_WAY.fetch_sub(1, Relaxed);
        return;
    }
    tokio::spawn(async move {
        let _ = tokio::time::timeout(REFUSAL_PATIENCE, async {
            stream.write_all(error).await?;
            stream.shutdown().await
        })
        .await;
        drop(stream);
        UNDER_WAY.fetch_sub(1, Relaxed);
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
