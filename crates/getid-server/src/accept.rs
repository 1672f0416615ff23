//! Accepts clients, and at the end closes them in an order that loses nothing: no new clients, replies in flight
//! written, and only then may the caller close the issuer and save its position.
//!
//! One task accepts on each listener. A connection whose address is allowed, and that finds a place, becomes a client
//! and is handed over to the thread that will serve it. Any other gets an error, for which the listener does not wait.

use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::connection::ClientConnection;
use crate::handshakes::{HandshakeFailure, handshakes_max};
use crate::listen::{Listener, OPERATOR_PLACES, REFUSALS_MAX};
use crate::logging::throttle::{Suppressed, throttled};
use crate::metrics::Counter;
use crate::panic_watch::PanicWatch;
use crate::registry::{Admission, ConnectionAddr, SocketInfo, StopMode};
use crate::transport::Movable;
use crate::{Server, housekeeping, tls};
use getid_config::Config;
use getid_redis::acl::Origin;
use getid_redis::session::Session;
use getid_system::io_threads::IoThreads;
use getid_text::plural::counted;

/// Pause after a failed `accept`, most often for lack of descriptors: one is free once a client leaves.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time for a refused client to finish its TLS handshake and to read its error.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(100);

/// Size of a refused client's input that is read and discarded, bytes.
const REFUSED_INPUT_BYTES: usize = 8 * 1024;

/// Maximum size of replies that the kernel buffers for a client before the network has room for them, bytes; the
/// default is megabytes.
///
/// So a client that never reads costs little of the kernel's memory too, and `client-output-timeout` detects that one
/// reads, however slowly: with megabytes in the kernel, minutes of slow reading would free no room.
const UNSENT_BYTES_MAX: u32 = 128 * 1024;

/// Kernel memory that counts for a connection that reads none of its output, bytes: unsent output, and input behind
/// unanswered requests. A control group is charged for both.
pub const SOCKET_BYTES: usize = UNSENT_BYTES_MAX as usize + 64 * 1024;

/// Redis's answer to a client from another machine while access is not configured.
const DENIED: &[u8] =
    b"-DENIED getid is running in protected mode because protected mode is enabled and no password is \
set for the default user. In this mode connections are only accepted from the loopback interface. To connect from \
other machines, do one of these: 1) set a password, with the directive requirepass or by sending CONFIG SET requirepass \
from the loopback interface, 2) set protected-mode no in either way, if no client outside your network can reach this \
port; CONFIG REWRITE makes a change outlast the next start.\r\n";

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

pub struct ClientAcceptor {
    server: Arc<Server>,
    io_threads: IoThreads,
    /// Whether the last `accept` failed: each begin and each end is logged once.
    is_failing: AtomicBool,
    /// Number of TLS connections that are being refused.
    refusals: Arc<AtomicUsize>,
}

/// A connection from outside, before it is a client.
struct Arrival {
    origin: Origin,
    peer: ConnectionAddr,
    local: ConnectionAddr,
    fd: i32,
}

impl ClientAcceptor {
    pub fn new(server: Arc<Server>, io_threads: IoThreads) -> Arc<ClientAcceptor> {
        Arc::new(ClientAcceptor { server, io_threads, is_failing: AtomicBool::new(false), refusals: Arc::default() })
    }

    /// Serves on `listeners` until the server is asked to stop. Returns when all clients are gone, at the latest after
    /// `shutdown-timeout`.
    pub async fn run(self: &Arc<Self>, listeners: Vec<Listener>) {
        let server = &self.server;
        let mut tasks = tokio::task::JoinSet::new();
        for listener in listeners {
            tasks.spawn(Arc::clone(self).accept_all(listener));
        }
        server.metrics.memory_startup.store(server.metrics.sample_memory(), Relaxed);
        tasks.spawn(housekeeping::run(Arc::clone(server)));

        server.stop_requested().await;
        tasks.shutdown().await;
        self.drain().await;
    }

    /// Lets clients read their running replies, for up to `shutdown-timeout`.
    async fn drain(&self) {
        let server = &self.server;
        server.handshakes.end_all();
        let connected = server.clients.len();
        if connected == 0 {
            tracing::info!("stopping: no new clients are accepted; no client is connected");
        } else {
            let (clients, get) = (counted(connected as u64, "client"), if connected == 1 { "gets" } else { "get" });
            tracing::info!(
                "stopping: no new clients are accepted; {clients} still connected {get} the running replies"
            );
        }
        server.clients.stop_all(StopMode::Drain);
        let timeout_s = server.config.get().shutdown_timeout_s;
        if tokio::time::timeout(Duration::from_secs(timeout_s), server.clients.all_gone()).await.is_err() {
            tracing::warn!(
                "{} did not read all replies within shutdown-timeout {timeout_s} s: disconnected",
                counted(server.clients.len() as u64, "client")
            );
            server.clients.stop_all(StopMode::Now);
            let _ = tokio::time::timeout(REFUSAL_TIMEOUT, server.clients.all_gone()).await;
        }
        server.throttle.end_all().iter().for_each(Suppressed::log);
        server.report_all_logins();
    }

    async fn accept_all(self: Arc<Self>, listener: Listener) {
        match listener {
            Listener::Tcp(listener) => loop {
                if let Some((stream, peer)) = self.accepted(listener.accept().await).await {
                    match self.arrival(&stream, peer) {
                        Some(arrival) => self.accept(stream, arrival),
                        None => refuse_at_once(&stream, DENIED),
                    }
                }
            },
            Listener::Tls { listener, acceptor } => loop {
                if let Some((stream, peer)) = self.accepted(listener.accept().await).await {
                    let arrival = self.arrival(&stream, peer);
                    let stream = tls::ClientStream::new(stream, Arc::clone(&acceptor));
                    match arrival {
                        Some(arrival) => self.accept_tls(stream, peer, arrival).await,
                        None => self.refuse_tls(stream, DENIED),
                    }
                }
            },
            Listener::Unix { listener, path, .. } => loop {
                if let Some((stream, _)) = self.accepted(listener.accept().await).await {
                    let fd = stream.as_raw_fd();
                    let end = ConnectionAddr::Unix(Arc::clone(&path));
                    self.server.metrics.count(Counter::Connections);
                    self.accept(stream, Arrival { origin: Origin::ThisMachine, peer: end.clone(), local: end, fd });
                }
            },
        }
    }

    async fn accepted<T>(&self, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(accepted) => {
                if self.is_failing.load(Relaxed) && self.is_failing.swap(false, Relaxed) {
                    throttled!(self.server.throttle, AcceptsAgain, "clients can be accepted again");
                }
                Some(accepted)
            }
            Err(error) => {
                // Without a pause this would spin: the connection that was not accepted is still there.
                self.server.metrics.count(Counter::AcceptErrors);
                if !self.is_failing.swap(true, Relaxed) {
                    throttled!(
                        self.server.throttle,
                        AcceptFails,
                        "accepting a client failed: {error}. It is retried every {ACCEPT_PAUSE:?}"
                    );
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }

    /// Sets the options of a connection's socket. Returns `None` if its address is not allowed.
    fn arrival(&self, stream: &TcpStream, peer: SocketAddr) -> Option<Arrival> {
        let server = &self.server;
        server.metrics.count(Counter::Connections);
        let local = stream.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        let config = server.config.get();
        if let Err(error) = set_options(stream, &config) {
            throttled!(server.throttle, SocketOptions, "client at {peer}: socket options: {error}");
        }
        let origin = Origin::of(peer.ip());
        let is_open = || server.settings.get().users.default_user().is_nopass();
        if config.protection().refuses_connection(origin, is_open()) {
            server.metrics.count(Counter::ConnectionsRejected);
            return None;
        }
        Some(Arrival {
            origin,
            peer: ConnectionAddr::Tcp(peer),
            local: ConnectionAddr::Tcp(local),
            fd: stream.as_raw_fd(),
        })
    }

    fn accept<T: Movable + AsFd>(&self, stream: T, arrival: Arrival) {
        let Some((admission, session)) = self.admit(arrival) else {
            self.server.metrics.count(Counter::ConnectionsRejected);
            return refuse_at_once(&stream, TOO_MANY);
        };
        let server = Arc::clone(&self.server);
        self.hand_over(stream, move |stream| ClientConnection::new(server, admission, session, stream).run());
    }

    /// Accepts a TLS connection, which is not a client until its handshake is done. Returns when the handshake has
    /// begun, on the thread that will serve the client.
    async fn accept_tls(self: &Arc<Self>, stream: tls::ClientStream, peer: SocketAddr, arrival: Arrival) {
        // A handshake is much work, and useless if there is no place.
        if self.server.clients.len() >= self.clients_max(arrival.origin) {
            return self.refuse_too_many(stream);
        }
        let count_max = handshakes_max(self.server.config.get().maxclients) as usize;
        let place = self.server.handshakes.begin(arrival.peer.source(), count_max).await;
        let acceptor = Arc::clone(self);
        self.hand_over(stream, move |mut stream| async move {
            let server = &acceptor.server;
            let watch = PanicWatch::new(server, peer);
            let result = place.run(&mut stream).await;
            drop(watch);
            match result {
                Ok(()) => match acceptor.admit(arrival) {
                    // In a task of its own, so that this one's memory is not kept for as long as the client stays.
                    Some((admission, session)) => {
                        let connection = ClientConnection::new(Arc::clone(server), admission, session, stream);
                        acceptor.io_threads.spawn_here(connection.run());
                    }
                    None => acceptor.refuse_too_many(stream),
                },
                Err(unfinished) => {
                    drop(stream);
                    acceptor.note_unfinished(&unfinished, peer, count_max);
                }
            }
            // Not before the socket is closed or counts as a client's.
            drop(place);
        });
    }

    fn note_unfinished(&self, unfinished: &HandshakeFailure, peer: SocketAddr, count_max: usize) {
        let Server { metrics, throttle, .. } = &*self.server;
        match unfinished {
            HandshakeFailure::Failed(error) => {
                throttled!(throttle, Disconnected, "client at {peer} disconnected: {error}");
            }
            HandshakeFailure::Evicted => {
                metrics.count(Counter::HandshakesEvicted);
                throttled!(
                    throttle,
                    HandshakeEvicted,
                    "the TLS handshake of {peer} makes no progress and is ended: the maximum of {count_max} handshakes is \
                     running, and another client waits"
                );
            }
            HandshakeFailure::Stopped => {}
        }
    }

    /// Returns the number of places for clients from `origin`.
    fn clients_max(&self, origin: Origin) -> usize {
        // When every place is taken, an operator must be able to connect and find the reason.
        let more = if origin == Origin::ThisMachine { OPERATOR_PLACES } else { 0 };
        self.server.clients_max().saturating_add(more)
    }

    /// Makes a client of a connection, if there is a place.
    fn admit(&self, Arrival { origin, peer, local, fd }: Arrival) -> Option<(Admission, Session)> {
        let server = &self.server;
        let uptime_s = server.metrics.uptime_s.load(Relaxed);
        let session = Session::new(server.clients.next_id(), server.settings.get()).from(origin);
        let view = session.view().clone();
        let admission =
            server.clients.admit(view, SocketInfo { peer, local, fd }, uptime_s, self.clients_max(origin))?;
        // Another thread stops the server, and may have notified all clients before this one was added.
        if server.is_stopping() {
            admission.client.stop(StopMode::Drain);
        }
        server.metrics.clients_peak.fetch_max(server.clients.len() as u64, Relaxed);
        throttled!(
            server.throttle,
            Connected,
            "client {} connected from {}",
            admission.client.id,
            admission.client.peer
        );
        Some((admission, session))
    }

    fn refuse_too_many(&self, stream: tls::ClientStream) {
        self.server.metrics.count(Counter::ConnectionsRejected);
        self.refuse_tls(stream, TOO_MANY);
    }

    /// Sends an error after the handshake and closes; the caller does not wait for that.
    fn refuse_tls(&self, mut stream: tls::ClientStream, error: &'static [u8]) {
        // Each costs a handshake and a descriptor meanwhile. In a flood, the rest is closed without an error.
        if self.refusals.fetch_add(1, Relaxed) >= REFUSALS_MAX {
            self.refusals.fetch_sub(1, Relaxed);
            return;
        }
        let refusals = Arc::clone(&self.refusals);
        tokio::spawn(async move {
            let _ = tokio::time::timeout(REFUSAL_TIMEOUT, async {
                stream.write_all(error).await?;
                stream.shutdown().await
            })
            .await;
            if let Some(socket) = stream.tcp() {
                discard_input(socket);
            }
            drop(stream);
            refusals.fetch_sub(1, Relaxed);
        });
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
        let Ok(stream) = stream.detach() else { return };
        self.io_threads.spawn(move || Some(task(T::attach(stream).ok()?)));
    }
}

/// Sends `text` on a plain socket without earlier output, and ends it. The send buffer is empty, so the kernel takes
/// the text at once; a flood of refused clients holds no descriptors.
pub fn refuse_at_once(socket: &impl AsFd, text: &[u8]) {
    let own = SockRef::from(socket);
    // A client that is gone already needs no text.
    if (&*own).write_all(text).is_ok() && own.shutdown(Shutdown::Write).is_ok() {
        discard_input(socket);
    }
}

/// Reads a refused client's input, without a wait: closing a socket with unread input resets the connection, and the
/// error text may be lost.
fn discard_input(socket: &impl AsFd) {
    let _ = (&*SockRef::from(socket)).read(&mut [0; REFUSED_INPUT_BYTES]);
}

/// Sets the options of a client's socket.
///
/// # Errors
///
/// Fails if the system refuses an option.
pub fn set_options(stream: &TcpStream, config: &Config) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    let seconds = u64::from(config.tcp_keepalive_s);
    if seconds > 0 {
        // As Redis: the first probe after `tcp-keepalive`, then three more a third of it apart.
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(seconds))
            .with_interval(Duration::from_secs((seconds / 3).max(1)))
            .with_retries(3);
        socket.set_tcp_keepalive(&keepalive)?;
    }
    Ok(())
}
