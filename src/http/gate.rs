//! What stands between a client's socket and hyper: one request at a time goes through, once its head was found to mean
//! the same to everybody.
//!
//! hyper reads what it is given, and would read a head that is bad on its own terms: it answers some with a bare status
//! and some not at all. Here it never sees one. A head that is refused, or late, is replaced by a short one of our own,
//! and the service answers that with what was wrong; so every answer is written by hyper, in its turn, and the
//! connection ends behind it.
//!
//! While a request is answered, nothing goes through; a few bytes are read, so that one who leaves is noticed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framing::Framing;
use super::head::{self, Fault, Scan};
use super::held::Held;
use super::places::{Phase, Place, Told};
use crate::server::accept::SOCKET_BYTES;

/// What hyper sees of a request that is refused.
const REFUSED: &[u8] = b"GET / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n";

/// Bytes of a read while hyper asks for none.
const READ_BYTES: usize = 1024;

/// Bytes that are read and thrown away behind the last answer.
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// A stream whose requests were looked at.
pub(super) struct Gate<S> {
    io: S,
    place: Arc<Place>,
    /// Counts `input` and hyper's buffer.
    held: Held,
    /// The most that hyper had room for at a time, bytes: it keeps its buffer.
    hyper_bytes: usize,
    /// The choice of clients to go for which a read was put off last.
    put_off_for: u32,
    /// What the kernel keeps while the client takes nothing, bytes.
    socket_bytes: usize,
    /// What was read and did not go through yet.
    input: Vec<u8>,
    /// How many bytes of `input` were found to be the beginning of a head.
    seen: usize,
    /// How many bytes of `input` may go through.
    granted: usize,
    /// The rest of the body of the request that went through.
    body: Framing,
    /// Whether nothing goes through any more.
    is_closed: bool,
    lingered_bytes: usize,
    has_shut_down: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Gate<S> {
    pub(super) fn new(io: S, place: Arc<Place>, held: Held) -> Gate<S> {
        Gate {
            io,
            place,
            held,
            hyper_bytes: 0,
            socket_bytes: 0,
            put_off_for: 0,
            input: Vec::new(),
            seen: 0,
            granted: 0,
            body: Framing::length(0),
            is_closed: false,
            lingered_bytes: 0,
            has_shut_down: false,
        }
    }

    /// Reads more into `input`; how many bytes.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut bytes = [0; READ_BYTES];
        let mut read = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut read))?;
        self.input.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }

    /// Lets hyper have a request of our own, and nothing behind it.
    fn refuse(&mut self, fault: Option<Fault>, buf: &mut ReadBuf<'_>) {
        self.is_closed = true;
        self.input = Vec::new();
        (self.seen, self.granted) = (0, 0);
        if let Some(fault) = fault {
            self.place.refuse(fault);
        }
        self.place.enter(Phase::Answering);
        buf.put_slice(REFUSED);
    }

    /// How many of these bytes, which the next head begins with, may go through; `None` if its end is not there.
    fn begin(&mut self, bytes: &[u8]) -> Result<Option<usize>, Fault> {
        match head::scan(bytes, self.seen) {
            Scan::Bad(fault) => Err(fault),
            Scan::Partial => {
                self.seen = bytes.len();
                if self.place.phase() != Phase::Head {
                    self.place.enter(Phase::Head);
                }
                Ok(None)
            }
            Scan::Complete { len, body } => {
                self.seen = 0;
                self.body = body;
                let taken = self.body.take(&bytes[len..])?;
                self.place.enter(if self.body.has_ended() { Phase::Answering } else { Phase::Body });
                Ok(Some(len + taken))
            }
        }
    }

    /// Reads the next head, straight into hyper's buffer: most requests come in one piece, with nothing behind them.
    fn poll_head(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.place.told() == Told::Late {
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
            let granted = self.begin(&buf.filled()[begin..]);
            if granted == Ok(Some(len - begin)) {
                return Poll::Ready(Ok(()));
            }
            self.input.extend_from_slice(&buf.filled()[begin..]);
            buf.set_filled(begin);
            if self.settle(granted, buf) {
                return Poll::Ready(Ok(()));
            }
        } else if self.look(buf) {
            return Poll::Ready(Ok(()));
        }
        while ready!(self.poll_more(cx))? > 0 {
            if self.look(buf) {
                return Poll::Ready(Ok(()));
            }
        }
        // It left in the middle of a head, for which there is nobody to answer.
        self.input = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Looks at what was read; whether something goes through.
    fn look(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let input = std::mem::take(&mut self.input);
        let granted = self.begin(&input);
        self.input = input;
        self.settle(granted, buf)
    }

    fn settle(&mut self, granted: Result<Option<usize>, Fault>, buf: &mut ReadBuf<'_>) -> bool {
        match granted {
            Ok(Some(granted)) => {
                self.granted = granted;
                self.hand_over(buf);
            }
            Ok(None) => return false,
            Err(fault) => self.refuse(Some(fault), buf),
        }
        true
    }

    /// Gives what is granted of the input, as far as there is room.
    fn hand_over(&mut self, buf: &mut ReadBuf<'_>) {
        let count = self.granted.min(buf.remaining());
        buf.put_slice(&self.input[..count]);
        self.granted -= count;
        if count == self.input.len() {
            self.input = Vec::new();
        } else {
            self.input.drain(..count);
        }
        self.place.has_more.store(!self.input.is_empty(), Relaxed);
    }

    /// Reads more of a body, straight into hyper's buffer.
    fn poll_body(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let begin = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let bytes = &buf.filled()[begin..];
        let taken = match self.body.take(bytes) {
            Ok(taken) => taken,
            Err(fault) => {
                self.is_closed = true;
                self.place.refuse(fault);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, fault.answer().1)));
            }
        };
        if taken < bytes.len() {
            self.input.extend_from_slice(&bytes[taken..]);
            self.place.has_more.store(true, Relaxed);
            buf.set_filled(begin + taken);
        }
        if self.body.has_ended() {
            self.place.enter(Phase::Answering);
        }
        Poll::Ready(Ok(()))
    }

    /// Looks whether the client is there while it is answered.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.input.is_empty() {
            // The answer's end wakes the task: these come next.
            return Poll::Pending;
        }
        if ready!(self.poll_more(cx))? == 0 {
            return Poll::Ready(Ok(()));
        }
        self.place.has_more.store(true, Relaxed);
        Poll::Pending
    }

    /// Notes whether the client takes what is written to it.
    fn note_written(&mut self, is_stalled: bool) {
        if is_stalled {
            self.place.note_stalled();
        } else {
            self.place.note_taken();
        }
        let socket_bytes = if is_stalled { SOCKET_BYTES } else { 0 };
        if socket_bytes != self.socket_bytes {
            self.socket_bytes = socket_bytes;
            self.count();
        }
    }

    /// Counts what the connection holds, but for bodies and responses.
    fn count(&mut self) {
        self.held.set(self.hyper_bytes + self.input.capacity() + self.socket_bytes);
    }

    /// Gives hyper what may go through, be it of the input or of the socket.
    fn poll_next(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.granted > 0 {
            self.hand_over(buf);
            return Poll::Ready(Ok(()));
        }
        if self.is_closed {
            return Poll::Pending;
        }
        if !self.body.has_ended() {
            return self.poll_body(cx, buf);
        }
        match self.place.phase() {
            Phase::Idle | Phase::Head => self.poll_head(cx, buf),
            Phase::Body | Phase::Answering | Phase::Responding | Phase::Lingering => self.poll_gone(cx),
        }
    }

    /// Takes what the client still sends: a socket that is closed while something is unread resets the connection, and
    /// the client would lose the answer.
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
        if gate.held.puts_off(&mut gate.put_off_for) {
            // Behind all that are to be polled, and so behind those that are to go.
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
            gate.place.note_stalled();
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let gate = self.get_mut();
        if !gate.has_shut_down {
            if gate.place.phase() != Phase::Lingering {
                gate.place.enter(Phase::Lingering);
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
