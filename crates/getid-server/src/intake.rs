//! The steps of both ports before a connection is a client's: accepting, socket options, the TLS handshake, refusals.
//!
//! Each port has one [`Intake`], with its own bounds and log texts. It decides itself which connections get a place,
//! and has its own text of a refusal.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::handshakes::{HandshakeFailure, HandshakeSlot, Handshakes, handshakes_max};
use crate::listen::REFUSALS_MAX;
use crate::logging::throttle::throttled;
use crate::metrics::Counter;
use crate::panic_watch::PanicWatch;
use crate::{Server, tls};
use getid_config::Config;
use getid_redis::acl::LoginSource;

/// Pause after a failed `accept`, most often for lack of descriptors: one is free once a client leaves.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time for a refused client to finish its TLS handshake and to read its answer.
pub const REFUSAL_TIMEOUT: Duration = Duration::from_millis(100);

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

/// State of a port's connections that are no clients yet.
#[derive(Debug)]
pub struct Intake {
    handshakes: Arc<Handshakes>,
    /// Name of the port in the log.
    port: &'static str,
    /// Name of one of its clients in the log.
    client: &'static str,
    /// Whether the last `accept` failed: each begin and each end is logged once.
    is_failing: AtomicBool,
    /// Number of TLS connections that are being refused.
    refusals: AtomicUsize,
}

impl Intake {
    /// Creates the intake of the Redis port.
    pub fn of_redis(handshakes: Arc<Handshakes>) -> Arc<Intake> {
        Intake::of(handshakes, "Redis port or its Unix socket", "client")
    }

    /// Creates the intake of the HTTP port.
    pub fn of_http() -> Arc<Intake> {
        Intake::of(Arc::default(), "HTTP port", "HTTP client")
    }

    fn of(handshakes: Arc<Handshakes>, port: &'static str, client: &'static str) -> Arc<Intake> {
        let (is_failing, refusals) = Default::default();
        Arc::new(Intake { handshakes, port, client, is_failing, refusals })
    }

    /// Returns an accepted connection. An error is logged, and a pause follows.
    pub async fn accepted<T>(&self, server: &Server, result: io::Result<T>) -> Option<T> {
        let port = self.port;
        match result {
            Ok(accepted) => {
                if self.is_failing.load(Relaxed) && self.is_failing.swap(false, Relaxed) {
                    throttled!(server.throttle, AcceptsAgain, "clients can be accepted again on the {port}");
                }
                Some(accepted)
            }
            Err(error) => {
                server.metrics.count(Counter::AcceptErrors);
                if !self.is_failing.swap(true, Relaxed) {
                    throttled!(
                        server.throttle,
                        AcceptFails,
                        "accepting a client failed on the {port}: {error}. It is retried every {ACCEPT_PAUSE:?}"
                    );
                }
                // Without a pause this would spin: the connection that was not accepted is still there.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }

    /// Sets the options of a client's socket. A failure is logged.
    pub fn set_options(&self, server: &Server, stream: &TcpStream, peer: SocketAddr) {
        if let Err(error) = set_options(stream, &server.config.get()) {
            throttled!(server.throttle, SocketOptions, "{} at {peer}: socket options: {error}", self.client);
        }
    }

    /// Waits for a slot for a handshake. `clients_max` is the number of places for clients.
    pub async fn handshake_slot(&self, peer: SocketAddr, clients_max: u32) -> HandshakeSlot {
        self.handshakes.begin(LoginSource::of(peer.ip()), handshakes_max(clients_max) as usize).await
    }

    /// Runs a handshake. Returns false if it was not completed, which is logged.
    pub async fn run_handshake(
        &self,
        server: &Arc<Server>,
        slot: &HandshakeSlot,
        stream: &mut tls::ClientStream,
        peer: SocketAddr,
    ) -> bool {
        let watch = PanicWatch::new(server, peer);
        let result = slot.run(stream).await;
        drop(watch);
        let (client, count_max) = (self.client, slot.count_max);
        match &result {
            Ok(()) | Err(HandshakeFailure::Stopped) => {}
            Err(HandshakeFailure::Failed(error)) => {
                throttled!(server.throttle, Disconnected, "{client} at {peer} disconnected: {error}");
            }
            Err(HandshakeFailure::Evicted) => {
                server.metrics.count(Counter::HandshakesEvicted);
                throttled!(
                    server.throttle,
                    HandshakeEvicted,
                    "the TLS handshake of the {client} at {peer} makes no progress and is ended: the maximum of \
                     {count_max} handshakes is running, and another client waits"
                );
            }
        }
        result.is_ok()
    }

    /// Ends all running handshakes.
    pub fn end_handshakes(&self) {
        self.handshakes.end_all();
    }

    /// Sends an answer after the handshake and closes; the caller does not wait for that.
    pub fn refuse_tls(
        self: &Arc<Self>,
        mut stream: tls::ClientStream,
        answer: impl AsRef<[u8]> + Send + Sync + 'static,
    ) {
        // Each costs a handshake and a descriptor meanwhile. In a flood, the rest is closed without an answer.
        if self.refusals.fetch_add(1, Relaxed) >= REFUSALS_MAX {
            self.refusals.fetch_sub(1, Relaxed);
            return;
        }
        let intake = Arc::clone(self);
        tokio::spawn(async move {
            let _ = tokio::time::timeout(REFUSAL_TIMEOUT, async {
                stream.write_all(answer.as_ref()).await?;
                stream.shutdown().await
            })
            .await;
            if let Some(socket) = stream.tcp() {
                discard_input(socket);
            }
            drop(stream);
            intake.refusals.fetch_sub(1, Relaxed);
        });
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
/// answer may be lost.
fn discard_input(socket: &impl AsFd) {
    let _ = (&*SockRef::from(socket)).read(&mut [0; REFUSED_INPUT_BYTES]);
}

fn set_options(stream: &TcpStream, config: &Config) -> io::Result<()> {
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
