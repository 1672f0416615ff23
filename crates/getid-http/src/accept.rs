//! Accepts HTTP connections up to a bound, and serves each until it ends or the server stops.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::answer::RequestHandler;
use super::caller::Caller;
use super::gate::Gate;
use super::head::{FIELDS_MAX, HEAD_BYTES_MAX};
use super::problem;
use super::slots::{CloseSignal, ConnectionSlot, ConnectionTimeout, ConnectionTimeouts, SlotAdmission, SlotGuard};
use super::state::Http;
use getid_redis::acl::{LoginSource, Origin};
use getid_server::Server;
use getid_server::accept::{refuse_at_once, set_options};
use getid_server::handshakes::{HandshakeFailure, Handshakes, handshakes_max};
use getid_server::listen::REFUSALS_MAX;
use getid_server::logging::throttle::throttled;
use getid_server::metrics::Counter;
use getid_server::panic_watch::PanicWatch;
use getid_server::registry::{ConnectionAddr, SocketInfo, StopMode};
use getid_server::tls;

/// Pause after a failed `accept`, most often for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time for a refused TLS client to read its response.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(100);

/// Bytes that are read and discarded of the request of a refused TLS client.
const READ_BYTES: usize = 4096;

/// Buffer in which hyper reads a whole head, and writes.
const BUFFER_BYTES_MAX: usize = HEAD_BYTES_MAX + 4096;

/// State that all connections share.
struct Port {
    handler: RequestHandler,
    handshakes: Arc<Handshakes>,
    /// TLS connections that are being refused for lack of a slot.
    refusals: AtomicUsize,
    /// Whether the last `accept` failed.
    is_failing: AtomicBool,
}

/// Accepts on all listeners until the server stops, and then waits until its connections have ended.
pub(super) async fn run(http: Arc<Http>, listeners: Vec<std::net::TcpListener>) {
    let port = Arc::new(Port {
        handler: RequestHandler::new(http),
        handshakes: Arc::default(),
        refusals: AtomicUsize::new(0),
        is_failing: AtomicBool::new(false),
    });
    let mut tasks = tokio::task::JoinSet::new();
    for listener in listeners {
        match TcpListener::from_std(listener) {
            Ok(listener) => drop(tasks.spawn(Arc::clone(&port).accept_all(listener))),
            Err(error) => tracing::error!("the HTTP port cannot be served: {error}"),
        }
    }
    tasks.spawn(Arc::clone(&port).sweep());
    port.server().stop_requested().await;
    tasks.shutdown().await;
    port.handshakes.end_all();
    port.handler.slots.end_all(CloseSignal::Drain);
    let timeout_s = port.server().config.get().shutdown_timeout_s;
    if tokio::time::timeout(Duration::from_secs(timeout_s), port.handler.slots.wait_until_empty()).await.is_err() {
        port.handler.slots.end_all(CloseSignal::Abort);
        let _ = tokio::time::timeout(REFUSAL_TIMEOUT, port.handler.slots.wait_until_empty()).await;
    }
}

impl Port {
    fn server(&self) -> &Arc<Server> {
        &self.handler.http.server
    }

    async fn accept_all(self: Arc<Self>, listener: TcpListener) {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.note_accept_error(&error);
                    // Without a pause this would spin: the connection that was not accepted still waits.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if self.is_failing.load(Relaxed) && self.is_failing.swap(false, Relaxed) {
                throttled!(self.server().throttle, AcceptsAgain, "HTTP clients can be accepted again");
            }
            self.server().metrics.count(Counter::HttpConnections);
            let config = self.server().config.get();
            if let Err(error) = set_options(&stream, &config) {
                throttled!(self.server().throttle, SocketOptions, "HTTP client at {peer}: socket options: {error}");
            }
            match self.server().tls.as_ref().filter(|_| config.http.tls) {
                None => self.admit(stream, peer),
                Some(acceptor) => {
                    let count_max = handshakes_max(config.http.clients_max) as usize;
                    let place = self.handshakes.begin(LoginSource::of(peer.ip()), count_max).await;
                    let stream = tls::ClientStream::for_http(stream, Arc::clone(acceptor));
                    tokio::spawn(Arc::clone(&self).run_handshake(stream, peer, place, count_max));
                }
            }
            // Evicted connections release their slots here, before the next connection is accepted.
            tokio::task::yield_now().await;
        }
    }

    fn note_accept_error(&self, error: &io::Error) {
        self.server().metrics.count(Counter::AcceptErrors);
        if !self.is_failing.swap(true, Relaxed) {
            let throttle = &self.server().throttle;
            throttled!(
                throttle,
                AcceptFails,
                "accepting an HTTP client failed: {error}. Retrying every {ACCEPT_PAUSE:?}"
            );
        }
    }

    /// Performs the TLS handshake of a connection, which becomes a client only afterwards.
    async fn run_handshake(
        self: Arc<Self>,
        mut stream: tls::ClientStream,
        peer: SocketAddr,
        place: getid_server::handshakes::HandshakeSlot,
        count_max: usize,
    ) {
        let watch = PanicWatch::new(self.server(), peer);
        let result = place.run(&mut stream).await;
        drop(watch);
        let Server { metrics, throttle, .. } = &**self.server();
        match result {
            Ok(()) => self.admit(stream, peer),
            Err(HandshakeFailure::Failed(error)) => {
                throttled!(throttle, Disconnected, "HTTP client at {peer} is gone: {error}");
                if let Some(socket) = stream.into_plain() {
                    self.refuse(socket, problem::no_tls());
                }
            }
            Err(HandshakeFailure::Evicted) => {
                metrics.count(Counter::HandshakesEvicted);
                throttled!(
                    throttle,
                    HandshakeEvicted,
                    "the stalled TLS handshake of the HTTP client at {peer} is ended: {count_max} handshakes are in \
                     progress, which is the limit, and another client waits"
                );
            }
            Err(HandshakeFailure::Stopped) => {}
        }
        drop(place);
    }

    /// Serves a connection if a slot is free, or can be freed by an eviction.
    fn admit<S: HttpTransport>(self: &Arc<Self>, stream: S, peer: SocketAddr) {
        let Server { metrics, throttle, config, .. } = &**self.server();
        let count_max = config.get().http.clients_max as usize;
        let guard = match self.handler.slots.admit(LoginSource::of(peer.ip()), count_max) {
            SlotAdmission::Admitted(guard) => guard,
            SlotAdmission::AdmittedByEviction(guard) => {
                metrics.count(Counter::HttpEvicted);
                throttled!(
                    throttle,
                    HttpEvicted,
                    "an idle HTTP connection was closed to admit the one from {peer}: all {count_max} connections of \
                     http-max-clients are in use"
                );
                guard
            }
            SlotAdmission::Refused => {
                metrics.count(Counter::HttpRefused);
                throttled!(
                    throttle,
                    HttpRefused,
                    "the HTTP client at {peer} is refused: all {count_max} connections of http-max-clients are busy"
                );
                return self.refuse(stream, problem::no_slot());
            }
        };
        metrics.http.note_connected(self.handler.slots.count());
        tokio::spawn(Arc::clone(self).serve(stream, peer, guard));
    }

    /// Sends a response that answers no request, and closes. The caller does not wait.
    fn refuse<S: HttpTransport>(self: &Arc<Self>, mut stream: S, answer: Vec<u8>) {
        if let Some(socket) = stream.plain() {
            return refuse_at_once(socket, &answer);
        }
        // Each refusal keeps a descriptor meanwhile, so connections above the bound are closed without a response.
        if self.refusals.fetch_add(1, Relaxed) >= REFUSALS_MAX {
            self.refusals.fetch_sub(1, Relaxed);
            return;
        }
        let port = Arc::clone(self);
        tokio::spawn(async move {
            let _ = tokio::time::timeout(REFUSAL_TIMEOUT, async {
                stream.write_all(&answer).await?;
                stream.shutdown().await?;
                // Closing a socket with unread bytes resets the connection, and the response may be lost. Bytes that
                // have arrived are read. It does not wait for more, or a flood would keep the slots of other clients.
                let mut request = [0; READ_BYTES];
                let _ = tokio::time::timeout(Duration::ZERO, stream.read(&mut request)).await;
                Ok::<_, io::Error>(())
            })
            .await;
            drop(stream);
            port.refusals.fetch_sub(1, Relaxed);
        });
    }

    async fn serve<S: HttpTransport>(self: Arc<Self>, mut stream: S, peer: SocketAddr, guard: SlotGuard) {
        let watch = PanicWatch::new(self.server(), peer);
        let local = stream.local();
        let ends = SocketInfo { peer: ConnectionAddr::Tcp(peer), local: ConnectionAddr::Tcp(local), fd: stream.fd() };
        let user = stream.user();
        let server = Arc::clone(self.server());
        let caller = Arc::new(Caller::new(server, Origin::of(peer.ip()), ends, user));
        self.serve_requests(stream, &guard.slot, caller).await;
        drop(watch);
        drop(guard);
        self.server().metrics.http.note_connected(self.handler.slots.count());
    }

    /// Serves requests until the connection ends or is signalled to end.
    async fn serve_requests<S: HttpTransport>(&self, stream: S, slot: &Arc<ConnectionSlot>, caller: Arc<Caller>) {
        let gate = Gate::new(stream, Arc::clone(slot), caller.buffer_memory());
        let service = service_fn(|request: Request<Incoming>| {
            self.handler.answer(request.map(Body::new), Arc::clone(slot), Arc::clone(&caller))
        });
        let mut builder = http1::Builder::new();
        // The sweep checks all time limits together.
        builder.header_read_timeout(None).max_buf_size(BUFFER_BYTES_MAX).max_headers(FIELDS_MAX);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(gate), service));
        let mut is_ending = false;
        poll_fn(|cx| {
            slot.set_waker(cx.waker());
            let signal = match caller.stop_or_wake(cx.waker()) {
                StopMode::No => slot.signal(),
                StopMode::Drain | StopMode::AfterReply => {
                    slot.send_signal(CloseSignal::Drain);
                    slot.signal()
                }
                StopMode::Now => CloseSignal::Abort,
            };
            if signal == CloseSignal::Abort {
                return Poll::Ready(());
            }
            if signal == CloseSignal::Drain && !is_ending {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(cx).map(|_| ())
        })
        .await;
    }

    /// Signals connections that have missed a deadline, at every sweep.
    async fn sweep(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(self.handler.http.bounds.sweep);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let config = self.server().config.get();
            let timeouts = ConnectionTimeouts {
                idle_us: config.http.timeout_s.saturating_mul(1_000_000),
                output_us: config.client_output_timeout_s.saturating_mul(1_000_000),
                bounds: self.handler.http.bounds,
            };
            self.handler.slots.sweep(timeouts, |timeout| self.count_timeout(timeout));
            let http = &self.server().metrics.http;
            http.note_connected(self.handler.slots.count());
            http.streams.store(self.handler.slots.streams() as u64, Relaxed);
        }
    }

    fn count_timeout(&self, timeout: ConnectionTimeout) {
        let Server { metrics, throttle, .. } = &**self.server();
        let counter = match timeout {
            ConnectionTimeout::Head => Counter::HttpHeadsLate,
            ConnectionTimeout::Body => Counter::HttpBodiesLate,
            ConnectionTimeout::Answer => Counter::HttpAnswersLate,
            ConnectionTimeout::Idle => Counter::HttpIdleClosed,
            ConnectionTimeout::Output => {
                throttled!(
                    throttle,
                    OutputLimit,
                    "an HTTP client is closed: it read nothing of its response within client-output-timeout"
                );
                Counter::OutputTimeoutClosed
            }
            ConnectionTimeout::Linger => return,
        };
        metrics.count(counter);
    }
}

/// The transport of a connection: TCP, or TLS over it.
pub(super) trait HttpTransport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn fd(&self) -> i32;

    fn local(&self) -> SocketAddr;

    /// The socket, if the connection is not encrypted.
    fn plain(&self) -> Option<&TcpStream> {
        None
    }

    /// The user that the client's certificate names.
    fn user(&mut self) -> Option<String> {
        None
    }
}

fn local_of(stream: Option<&TcpStream>) -> SocketAddr {
    let unspecified = || SocketAddr::from(([0, 0, 0, 0], 0));
    stream.and_then(|stream| stream.local_addr().ok()).unwrap_or_else(unspecified)
}

impl HttpTransport for TcpStream {
    fn fd(&self) -> i32 {
        self.as_raw_fd()
    }

    fn local(&self) -> SocketAddr {
        local_of(Some(self))
    }

    fn plain(&self) -> Option<&TcpStream> {
        Some(self)
    }
}

impl HttpTransport for tls::ClientStream {
    fn fd(&self) -> i32 {
        self.tcp().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn local(&self) -> SocketAddr {
        local_of(self.tcp())
    }

    fn user(&mut self) -> Option<String> {
        self.take_user()
    }
}
