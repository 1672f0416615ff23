//! Accepts HTTP connections up to a bound, and serves each until it ends or the server stops.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
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
use getid_server::handshakes::HandshakeSlot;
use getid_server::intake::{Intake, REFUSAL_TIMEOUT, refuse_at_once};
use getid_server::logging::throttle::throttled;
use getid_server::metrics::Counter;
use getid_server::panic_watch::PanicWatch;
use getid_server::registry::{ConnectionAddr, SocketInfo, StopMode};
use getid_server::tls;

/// Buffer in which hyper reads a whole head, and writes.
const BUFFER_BYTES_MAX: usize = HEAD_BYTES_MAX + 4096;

/// State that all connections share.
struct Port {
    handler: RequestHandler,
    intake: Arc<Intake>,
}

/// Accepts on all listeners until the server stops, and then waits until its connections have ended.
pub(super) async fn run(http: Arc<Http>, listeners: Vec<std::net::TcpListener>) {
    let port = Arc::new(Port { handler: RequestHandler::new(http), intake: Intake::of_http() });
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
    port.intake.end_handshakes();
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
            let accepted = self.intake.accepted(self.server(), listener.accept().await).await;
            let Some((stream, peer)) = accepted else { continue };
            self.server().metrics.count(Counter::HttpConnections);
            let config = self.server().config.get();
            self.intake.set_options(self.server(), &stream, peer);
            match self.server().tls.as_ref().filter(|_| config.http.tls) {
                None => self.admit(stream, peer),
                Some(acceptor) => {
                    let slot = self.intake.handshake_slot(peer, config.http.clients_max).await;
                    let stream = tls::ClientStream::for_http(stream, Arc::clone(acceptor));
                    tokio::spawn(Arc::clone(&self).run_handshake(stream, peer, slot));
                }
            }
            // Evicted connections release their slots here, before the next connection is accepted.
            tokio::task::yield_now().await;
        }
    }

    /// Performs the TLS handshake of a connection, which becomes a client only afterwards.
    async fn run_handshake(self: Arc<Self>, mut stream: tls::ClientStream, peer: SocketAddr, slot: HandshakeSlot) {
        if self.intake.run_handshake(self.server(), &slot, &mut stream, peer).await {
            self.admit(stream, peer);
        } else if let Some(socket) = stream.into_plain() {
            refuse_at_once(&socket, &problem::no_tls());
        }
        drop(slot);
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
                return stream.refuse(&self.intake, problem::no_slot());
            }
        };
        metrics.http.note_connected(self.handler.slots.count());
        tokio::spawn(Arc::clone(self).serve(stream, peer, guard));
    }

    async fn serve<S: HttpTransport>(self: Arc<Self>, mut stream: S, peer: SocketAddr, guard: SlotGuard) {
        let watch = PanicWatch::new(self.server(), peer);
        let local = stream.local();
        let ends = SocketInfo { peer: ConnectionAddr::Tcp(peer), local: ConnectionAddr::Tcp(local), fd: stream.fd() };
        let user = stream.user();
        let server = Arc::clone(self.server());
        let caller =
            Arc::new(Caller::new(server, Origin::of(peer.ip()), ends, user, Arc::clone(&self.handler.http.keys)));
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
                StopMode::Drain | StopMode::Drained | StopMode::AfterReply => {
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

    /// Sends a response that answers no request, and closes. The caller does not wait.
    fn refuse(self, intake: &Arc<Intake>, answer: Vec<u8>);

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

    fn refuse(self, _: &Arc<Intake>, answer: Vec<u8>) {
        refuse_at_once(&self, &answer);
    }
}

impl HttpTransport for tls::ClientStream {
    fn fd(&self) -> i32 {
        self.tcp().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn local(&self) -> SocketAddr {
        local_of(self.tcp())
    }

    fn refuse(self, intake: &Arc<Intake>, answer: Vec<u8>) {
        intake.refuse_tls(self, answer);
    }

    fn user(&mut self) -> Option<String> {
        self.take_user()
    }
}
