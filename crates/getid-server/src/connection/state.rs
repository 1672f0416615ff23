//! State of a connection, and helpers of its loop: writing output, counting memory, following the settings, and
//! publishing the client's state.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;
use tokio::time::{Instant, timeout_at};

use super::buffers::{Buffers, Rest};
use super::pushes::Pushes;
use super::wait::Wait;
use crate::Server;
use crate::intake::SOCKET_BYTES;
use crate::output_limit::OutputLimit;
use crate::registry::{Admission, StopMode};
use crate::transport::Transport;

use getid_redis::session::Session;

/// A client's socket and all its state.
///
/// A connection lives in one allocation from accept to end: an `async fn` that takes it by value would hold a copy of
/// it at each level of calls, and ten thousand idle clients would cost twice as much.
pub struct ClientConnection<T> {
    pub(super) server: Arc<Server>,
    pub(super) io: T,
    pub(super) session: Session,
    /// Version of the session's settings; 0, the first, if it was made with them or with later ones.
    settings: u64,
    /// Beginning of an incomplete request; empty for most connections most of the time.
    pub(super) rest: Option<Box<Rest>>,
    /// Size of the input since the server last waited for the client or let others go first, bytes.
    pub(super) unbroken_bytes: u32,
    /// The last choice of clients to evict for which a read was put off.
    pub(super) put_off_for: u32,
    /// Sources of output without a request, if the client has any.
    pub(super) pushes: Option<Box<Pushes>>,
    /// Number of passwords that the session may try.
    pub(super) login_permits: u32,
    /// Number of wrong passwords.
    pub(super) wrong_logins: u32,
    /// Last, so that the socket is closed when the client counts as gone.
    pub(super) admission: Admission,
}

impl<T: Transport> ClientConnection<T> {
    /// Makes the connection of an admitted client.
    pub fn new(server: Arc<Server>, admission: Admission, session: Session, io: T) -> Box<Self> {
        let mut connection = Box::new(ClientConnection {
            server,
            admission,
            io,
            session,
            settings: 0,
            rest: None,
            unbroken_bytes: 0,
            put_off_for: 0,
            pushes: None,
            login_permits: 0,
            wrong_logins: 0,
        });
        connection.follow_settings();
        if connection.settings != 0 {
            // A client that closes the open default user and ends its connections finds this one from its admission on;
            // or this check resets the login, which no longer is that of the open user.
            connection.session.begin_again();
        }
        connection
    }

    /// Gives the session the current settings, and the current pause.
    #[inline]
    pub(super) fn follow_settings(&mut self) {
        let version = self.server.settings.version();
        if version != self.settings {
            self.settings = version;
            self.session.set_settings(self.server.settings.get());
        }
        self.session.set_pause(self.server.pauses.holds());
    }

    /// Publishes the client's state. Must be called before every wait: a search for clients by name or user, perhaps to
    /// kill them, must find it while it waits.
    #[inline]
    pub(super) fn publish(&mut self) {
        if let Some(view) = self.session.take_changed_view() {
            self.admission.client.publish(view);
        }
    }

    /// Notes that the client is not idle.
    pub(super) fn note_active(&self) {
        self.admission.client.note_active(self.server.metrics.uptime_s.load(Relaxed));
    }

    /// Notes that the client is not idle, and the size of its unused input.
    #[inline]
    pub(super) fn touch(&self, buffers: &Buffers) {
        let uptime_s = self.server.metrics.uptime_s.load(Relaxed);
        self.admission.client.touch(uptime_s, buffers.input.len() - buffers.used);
    }

    /// Counts the client's share of the server's memory from now on: `bytes` of buffers, and the session's memory.
    #[cold]
    pub(super) fn note_held(&self, bytes: usize) {
        if self.admission.note_held(bytes + self.session.memory_bytes()) {
            self.server.evict_clients();
        }
    }

    /// Fails if the client is cut off. A socket that gets only suppressed replies is never written, where the cut-off
    /// would be noticed.
    pub(super) fn check_cut_off(&self) -> io::Result<()> {
        match self.admission.client.stopping() {
            StopMode::Now => Err(io::ErrorKind::ConnectionAborted.into()),
            StopMode::No | StopMode::Drain | StopMode::Drained | StopMode::AfterReply => Ok(()),
        }
    }

    /// Reduces the client's buffers to the minimum before a wait, and counts them.
    pub(super) fn park(&self, buffers: &mut Buffers) {
        buffers.park();
        self.note_held(buffers.memory_bytes());
    }

    /// Writes all output. A wait for a client that does not read at once holds only its output and its unused input.
    pub(super) async fn flush(&mut self, buffers: &mut Buffers) -> io::Result<()> {
        // Nearly always the socket takes all of it, so this is not a wait yet.
        match poll_fn(|cx| Poll::Ready(self.flush_now(buffers, cx))).await? {
            Poll::Ready(()) => Ok(()),
            // Boxed, since it is rare.
            Poll::Pending => Box::pin(self.flush_slowly(buffers)).await,
        }
    }

    /// Writes the output as far as the socket takes it at once; pending if there is more.
    #[inline]
    pub(super) fn flush_now(&mut self, buffers: &mut Buffers, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        let output = &mut buffers.output;
        if output.is_empty() {
            return Ok(Poll::Ready(()));
        }
        if self.admission.client.stopping_or_wake(cx.waker()) == StopMode::Now {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let mut written = 0;
        let result = poll_write(&mut self.io, cx, output, &mut written);
        buffers.work.output_bytes += written as u64;
        buffers.work.writes += 1;
        match result {
            Poll::Ready(result) => {
                output.clear();
                result.map(Poll::Ready)
            }
            Poll::Pending => {
                output.drain(..written);
                Ok(Poll::Pending)
            }
        }
    }

    /// Writes the output that the socket did not take at once, as long as the client's limits allow.
    pub(super) async fn flush_slowly(&mut self, buffers: &mut Buffers) -> io::Result<()> {
        self.publish();
        buffers.park();
        self.note_held(buffers.memory_bytes() + SOCKET_BYTES);
        let output = &buffers.output;
        let ClientConnection { server, admission, io, .. } = self;
        let client = &admission.client;
        let mut limit = OutputLimit::new(Instant::now());
        let mut written = 0;
        let result = loop {
            // TLS may have taken all of it and hold the rest itself, which is pending as well.
            let pending = (output.len() - written).max(1);
            client.note_output(pending);
            let config = server.config.get();
            let check_again_at = match limit.check(Instant::now(), pending, &config) {
                Ok(at) => at,
                Err(reason) => {
                    server.note_cut_off(reason, pending, client);
                    break Err(io::Error::new(io::ErrorKind::TimedOut, reason.to_string()));
                }
            };
            let before = written;
            let progress = poll_fn(|cx| match poll_write(io, cx, output, &mut written) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending if written > before => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            match Wait::unless_cut_off(client).until(pin!(timeout_at(check_again_at, progress))).await {
                Ok(Ok(Some(result))) => break result,
                Ok(Ok(None)) => {
                    limit.note_progress(Instant::now());
                    client.note_active(server.metrics.uptime_s.load(Relaxed));
                }
                Ok(Err(_timed_out)) => {}
                Err(cut_off) => break Err(cut_off),
            }
        };
        buffers.work.output_bytes += written as u64;
        client.note_output(0);
        buffers.output.clear();
        result
    }
}

/// Writes `output` from `written` on, as far as the transport takes it, and then the transport's own buffer, which TLS
/// has.
fn poll_write<T: AsyncWrite + Unpin>(
    io: &mut T,
    cx: &mut Context<'_>,
    output: &[u8],
    written: &mut usize,
) -> Poll<io::Result<()>> {
    while *written < output.len() {
        match ready!(Pin::new(&mut *io).poll_write(cx, &output[*written..]))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            taken => *written += taken,
        }
    }
    Pin::new(io).poll_flush(cx)
}
