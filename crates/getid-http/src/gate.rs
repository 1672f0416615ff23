//! A filter between a client's socket and hyper. It passes one request at a time, once its head is unambiguous.
//!
//! hyper would judge a bad head itself: it answers some with a bare status and some not at all. So hyper never sees one
//! here. The gate replaces a head that is refused or late with a short valid one, and the service answers that with the
//! fault. So hyper writes every response in order, and then the connection ends.
//!
//! While a request is answered, nothing passes. A few bytes are read, so that a disconnect is noticed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::buffer_memory::BufferMemory;
use super::framing::{Framing, InvalidChunks};
use super::head::{self, HeadScan, RequestFault};
use super::slots::{CloseSignal, ConnectionPhase, ConnectionSlot};
use getid_server::intake::SOCKET_BYTES;

/// The request that hyper sees in place of a refused one.
const REFUSED: &[u8] = b"GET / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n";

/// Bytes of one read while hyper requests none.
const READ_BYTES: usize = 1024;

/// Bytes that are read and discarded after the last response.
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// A stream whose requests were checked.
pub(super) struct Gate<S> {
    io: S,
    slot: Arc<ConnectionSlot>,
    /// Counts `input` and hyper's buffer.
    memory: BufferMemory,
    /// The most room that hyper had, bytes: it keeps its buffer.
    hyper_bytes: usize,
    /// The eviction for which a read was last deferred.
    deferred_for: u32,
    /// Bytes that the kernel keeps while the client reads nothing.
    socket_bytes: usize,
    /// Bytes that were read and have not passed yet.
    input: Vec<u8>,
    /// Number of bytes of `input` that are the beginning of an incomplete head.
    scanned: usize,
    /// Number of bytes of `input` that may pass.
    granted: usize,
    /// The rest of the body of the request that passed.
    body: Framing,
    /// Whether the gate passes nothing any more.
    is_closed: bool,
    lingered_bytes: usize,
    has_shut_down: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Gate<S> {
    pub(super) fn new(io: S, slot: Arc<ConnectionSlot>, memory: BufferMemory) -> Gate<S> {
        Gate {
            io,
            slot,
            memory,
            hyper_bytes: 0,
            socket_bytes: 0,
            deferred_for: 0,
            input: Vec::new(),
            scanned: 0,
            granted: 0,
            body: Framing::length(0),
            is_closed: false,
            lingered_bytes: 0,
            has_shut_down: false,
        }
    }

    /// Reads more into `input`; returns the number of bytes.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut bytes = [0; READ_BYTES];
        let mut read = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut read))?;
        self.input.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }

    /// Gives hyper the substitute request, and nothing after it.
    fn refuse(&mut self, fault: Option<RequestFault>, buf: &mut ReadBuf<'_>) {
        self.is_closed = true;
        self.input = Vec::new();
        (self.scanned, self.granted) = (0, 0);
        if let Some(fault) = fault {
            self.slot.refuse(fault);
        }
        self.slot.enter(ConnectionPhase::Answering);
        buf.put_slice(REFUSED);
    }

    /// Returns how many of these bytes, which begin the next head, may pass; `None` if the head is incomplete.
    fn scan_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, RequestFault> {
        match head::scan(bytes, self.scanned) {
            HeadScan::Bad(fault) => Err(fault),
            HeadScan::Partial => {
                self.scanned = bytes.len();
                if self.slot.phase() != ConnectionPhase::Head {
                    self.slot.enter(ConnectionPhase::Head);
                }
                Ok(None)
            }
            HeadScan::Complete { len, body } => {
                self.scanned = 0;
                self.body = body;
                let taken = self.body.consume(&bytes[len..]).map_err(|InvalidChunks| RequestFault::Chunk)?;
                self.slot.enter(if self.body.has_ended() { ConnectionPhase::Answering } else { ConnectionPhase::Body });
                Ok(Some(len + taken))
            }
        }
    }

    /// Reads the next head directly into hyper's buffer: most requests arrive in one piece, with nothing after them.
    fn poll_head(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.slot.signal() == CloseSignal::TimedOut {
            self.refuse(None, buf);
            return Poll::Ready(Ok(()));
        }
        let begin = buf.filled().len();
        if self.input.is_empty() {
            ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
            let len = buf.filled().len();
            if len == begin {
                return Poll::Ready(Ok(()));
            }
            let granted = self.scan_head(&buf.filled()[begin..]);
            if granted == Ok(Some(len - begin)) {
                return Poll::Ready(Ok(()));
            }
            self.input.extend_from_slice(&buf.filled()[begin..]);
            buf.set_filled(begin);
            if self.apply_verdict(granted, buf) {
                return Poll::Ready(Ok(()));
            }
        } else if self.check_input(buf) {
            return Poll::Ready(Ok(()));
        }
        while ready!(self.poll_input(cx))? > 0 {
            if self.check_input(buf) {
                return Poll::Ready(Ok(()));
            }
        }
        // The client disconnected in the middle of a head, so there is no request to answer.
        self.input = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Checks the input; returns whether something passes.
    fn check_input(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let input = std::mem::take(&mut self.input);
        let granted = self.scan_head(&input);
        self.input = input;
        self.apply_verdict(granted, buf)
    }

    fn apply_verdict(&mut self, granted: Result<Option<usize>, RequestFault>, buf: &mut ReadBuf<'_>) -> bool {
        match granted {
            Ok(Some(granted)) => {
                self.granted = granted;
                self.pass_granted(buf);
            }
            Ok(None) => return false,
            Err(fault) => self.refuse(Some(fault), buf),
        }
        true
    }

    /// Gives hyper the granted input, as far as there is room.
    fn pass_granted(&mut self, buf: &mut ReadBuf<'_>) {
        let count = self.granted.min(buf.remaining());
        buf.put_slice(&self.input[..count]);
        self.granted -= count;
        if count == self.input.len() {
            self.input = Vec::new();
        } else {
            self.input.drain(..count);
        }
        self.slot.has_more.store(!self.input.is_empty(), Relaxed);
    }

    /// Reads more of a body, directly into hyper's buffer.
    fn poll_body(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let begin = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let bytes = &buf.filled()[begin..];
        let Ok(taken) = self.body.consume(bytes) else {
            let fault = RequestFault::Chunk;
            self.is_closed = true;
            self.slot.refuse(fault);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, fault.response().1)));
        };
        if taken < bytes.len() {
            self.input.extend_from_slice(&bytes[taken..]);
            self.slot.has_more.store(true, Relaxed);
            buf.set_filled(begin + taken);
        }
        if self.body.has_ended() {
            self.slot.enter(ConnectionPhase::Answering);
        }
        Poll::Ready(Ok(()))
    }

    /// Checks whether the client is still connected while its request is answered.
    fn poll_disconnect(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.input.is_empty() {
            // The response's end wakes the task; these bytes are handled then.
            return Poll::Pending;
        }
        if ready!(self.poll_input(cx))? == 0 {
            return Poll::Ready(Ok(()));
        }
        self.slot.has_more.store(true, Relaxed);
        Poll::Pending
    }

    /// Records whether the client reads what is written to it.
    fn note_written(&mut self, is_stalled: bool) {
        if is_stalled {
            self.slot.note_stalled();
        } else {
            self.slot.note_read();
        }
        let socket_bytes = if is_stalled { SOCKET_BYTES } else { 0 };
        if socket_bytes != self.socket_bytes {
            self.socket_bytes = socket_bytes;
            self.count();
        }
    }

    /// Counts the memory of the connection, without bodies and responses.
    fn count(&mut self) {
        self.memory.set(self.hyper_bytes + self.input.capacity() + self.socket_bytes);
    }

    /// Gives hyper what may pass, from the input or the socket.
    fn poll_next(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.granted > 0 {
            self.pass_granted(buf);
            return Poll::Ready(Ok(()));
        }
        if self.is_closed {
            return Poll::Pending;
        }
        if !self.body.has_ended() {
            return self.poll_body(cx, buf);
        }
        match self.slot.phase() {
            ConnectionPhase::Idle | ConnectionPhase::Head => self.poll_head(cx, buf),
            ConnectionPhase::Body
            | ConnectionPhase::Answering
            | ConnectionPhase::Responding
            | ConnectionPhase::Lingering => self.poll_disconnect(cx),
        }
    }

    /// Discards what the client still sends. Closing a socket with unread bytes resets the connection, and the client
    /// would lose the response.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [0; READ_BYTES];
        while self.lingered_bytes < LINGER_BYTES_MAX {
            let mut read = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut read)) {
                Ok(()) if !read.filled().is_empty() => self.lingered_bytes += read.filled().len(),
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gate<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let gate = self.get_mut();
        if gate.memory.is_read_deferred(&mut gate.deferred_for) {
            // Polled again after all waiting tasks, and so after those that are to close.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        gate.hyper_bytes = gate.hyper_bytes.max(buf.capacity());
        let polled = gate.poll_next(cx, buf);
        gate.count();
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Gate<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let gate = self.get_mut();
        let polled = Pin::new(&mut gate.io).poll_write(cx, bytes);
        gate.note_written(polled.is_pending());
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let gate = self.get_mut();
        let polled = Pin::new(&mut gate.io).poll_write_vectored(cx, parts);
        gate.note_written(polled.is_pending());
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let gate = self.get_mut();
        let polled = Pin::new(&mut gate.io).poll_flush(cx);
        if polled.is_pending() {
            gate.slot.note_stalled();
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let gate = self.get_mut();
        if !gate.has_shut_down {
            if gate.slot.phase() != ConnectionPhase::Lingering {
                gate.slot.enter(ConnectionPhase::Lingering);
            }
            ready!(Pin::new(&mut gate.io).poll_shutdown(cx))?;
            gate.has_shut_down = true;
        }
        if gate.is_closed || !gate.body.has_ended() || !gate.input.is_empty() {
            ready!(gate.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}
