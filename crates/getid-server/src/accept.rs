//! Accepts clients, and at the end closes them in an order that loses nothing: no new clients, replies in flight
//! written, and only then may the caller close the issuer and save its position.
//!
//! One task accepts on each listener. A connection whose address is allowed, and that finds a place, becomes a client
//! and is handed over to the thread that will serve it. Any other gets an error, for which the listener does not wait.

use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::connection::ClientConnection;
use crate::intake::{Intake, REFUSAL_TIMEOUT, refuse_at_once};
use crate::listen::{Listener, OPERATOR_PLACES};
use crate::logging::throttle::{Suppressed, throttled};
use crate::metrics::Counter;
use crate::registry::{Admission, ConnectionAddr, SocketInfo, StopMode};
use crate::transport::Movable;
use crate::{Server, housekeeping, ledgers, master_watch, tls};
use getid_redis::acl::Origin;
use getid_redis::session::Session;
use getid_system::io_threads::IoThreads;
use getid_text::plural::counted;

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
    intake: Arc<Intake>,
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
        let intake = Intake::of_redis(Arc::clone(&server.handshakes));
        Arc::new(ClientAcceptor { server, io_threads, intake })
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
        tasks.spawn(master_watch::run(Arc::clone(server)));
        tasks.spawn(ledgers::run(Arc::clone(server)));

        server.stop_requested().await;
        tasks.shutdown().await;
        self.drain().await;
    }

    /// Lets clients read their running replies, for up to `shutdown-timeout`.
    async fn drain(&self) {
        let server = &self.server;
        self.intake.end_handshakes();
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
                if let Some((stream, peer)) = self.intake.accepted(&self.server, listener.accept().await).await {
                    match self.arrival(&stream, peer) {
                        Some(arrival) => self.accept(stream, arrival),
                        None => refuse_at_once(&stream, DENIED),
                    }
                }
            },
            Listener::Tls { listener, acceptor } => loop {
                if let Some((stream, peer)) = self.intake.accepted(&self.server, listener.accept().await).await {
                    let arrival = self.arrival(&stream, peer);
                    let stream = tls::ClientStream::new(stream, Arc::clone(&acceptor));
                    match arrival {
                        Some(arrival) => self.accept_tls(stream, peer, arrival).await,
                        None => self.intake.refuse_tls(stream, DENIED),
                    }
                }
            },
            Listener::Unix { listener, path, .. } => loop {
                if let Some((stream, _)) = self.intake.accepted(&self.server, listener.accept().await).await {
                    let fd = stream.as_raw_fd();
                    let end = ConnectionAddr::Unix(Arc::clone(&path));
                    self.server.metrics.count(Counter::Connections);
                    self.accept(stream, Arrival { origin: Origin::ThisMachine, peer: end.clone(), local: end, fd });
                }
            },
        }
    }

    /// Sets the options of a connection's socket. Returns `None` if its address is not allowed.
    fn arrival(&self, stream: &TcpStream, peer: SocketAddr) -> Option<Arrival> {
        let server = &self.server;
        server.metrics.count(Counter::Connections);
        let local = stream.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        let config = server.config.get();
        self.intake.set_options(server, stream, peer);
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
        let slot = self.intake.handshake_slot(peer, self.server.config.get().maxclients).await;
        let acceptor = Arc::clone(self);
        self.hand_over(stream, move |mut stream| async move {
            let server = &acceptor.server;
            if acceptor.intake.run_handshake(server, &slot, &mut stream, peer).await {
                match acceptor.admit(arrival) {
                    // In a task of its own, so that this one's memory is not kept for as long as the client stays.
                    Some((admission, session)) => {
                        let connection = ClientConnection::new(Arc::clone(server), admission, session, stream);
                        acceptor.io_threads.spawn_here(connection.run());
                    }
                    None => acceptor.refuse_too_many(stream),
                }
            } else {
                drop(stream);
            }
            // Not before the socket is closed or counts as a client's.
            drop(slot);
        });
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
        self.intake.refuse_tls(stream, TOO_MANY);
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
