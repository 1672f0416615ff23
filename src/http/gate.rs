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
use super::places::{Phase, Place, Told};

/// What hyper sees of a request that is refused.
const REFUSED: &[u8] = b"GET / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n";

/// Bytes of a read while hyper asks for none.
const READ_BYTES: usize = 1024;

/// Bytes that are read and thrown away behind the last answer.
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// A stream whose requests were looked at.
#[derive(Debug)]
pub(super) struct Gate<S> {
    io: S,
    place: Arc<Place>,
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
    pub(super) fn new(io: S, place: Arc<Place>) -> Gate<S> {
        Gate {
            io,
            place,
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
        if gate.granted > 0 {
            gate.hand_over(buf);
            return Poll::Ready(Ok(()));
        }
        if gate.is_closed {
            return Poll::Pending;
        }
        if !gate.body.has_ended() {
            return gate.poll_body(cx, buf);
        }
        match gate.place.phase() {
            Phase::Idle | Phase::Head => gate.poll_head(cx, buf),
            Phase::Body | Phase::Answering | Phase::Responding | Phase::Lingering => gate.poll_gone(cx),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Gate<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let gate = self.get_mut();
        let polled = Pin::new(&mut gate.io).poll_write(cx, bytes);
        if polled.is_pending() {
            gate.place.note_stalled();
        } else {
            gate.place.note_taken();
        }
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let gate = self.get_mut();
        let polled = Pin::new(&mut gate.io).poll_write_vectored(cx, parts);
        if polled.is_pending() {
            gate.place.note_stalled();
        } else {
            gate.place.note_taken();
        }
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
