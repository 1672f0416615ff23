//! A client's socket: bytes in, turns, bytes out.
//!
//! One read, one draw and one write a turn; everything the bytes mean is decided by the
//! [`Session`](crate::session::Session), which is pure. A reply that the client does not take stops the reading: a
//! client that sends and never reads costs one turn's input and output, and no more IDs.
//!
//! Invariant: before every read, all complete requests that arrived are answered.
//!
//! Steps that are rare are boxed where they are awaited: their state would otherwise be part of every idle connection.

mod after_turn;
mod buffers;
mod draw;
#[cfg(feature = "http")]
mod local;
mod pace;
mod sequences;
mod state;
mod wait;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use buffers::{Buffers, FLUSH_BYTES, READ_BYTES};
use draw::{Draw, Outcome};
#[cfg(feature = "http")]
pub use local::LocalClient;
use pace::{SHORT_TURN_NS, SLICE_NS, give_way};
pub use state::Connection;

use crate::logging::throttle::throttled;
use crate::server::panic_watch::PanicWatch;
use crate::server::registry::Stop;
use crate::server::transport::Transport;
use crate::session::Beside;
use crate::system::{clock, noise};

/// Replies to a client that has to log in and has not are gathered up to this before they are written: it is not worth
/// a large buffer.
const UNAUTHENTICATED_FLUSH_BYTES: usize = 2 * 1024;

/// A client that has sent so much without the server waiting for it lets others go first before its next read, bytes.
/// What that took is not always known: commands are not timed that give IDs or are refused, and many that are small.
const UNBROKEN_BYTES: usize = READ_BYTES;

/// Time for the peer to take the end of its stream.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);

impl<T: Transport> Connection<T> {
    /// Serves the client until it goes, breaks the protocol, or is told to stop.
    pub async fn run(mut self: Box<Self>) {
        let watch = PanicWatch::new(&self.server, self.admission.client.id);
        let result = self.serve().await;
        drop(watch);
        // Of an answer that an error cut short.
        self.server.metrics.add_read(std::mem::take(&mut self.work));
        let client = &self.admission.client;
        match result {
            Ok(()) => throttled!(self.server.throttle, Left, "client {} left", client.id),
            Err(error) => {
                throttled!(self.server.throttle, Left, "client {} at {} is gone: {error}", client.id, client.peer);
            }
        }
    }

    async fn serve(&mut self) -> io::Result<()> {
        if T::NAMES_USERS && !self.log_in_by_certificate() {
            return Ok(());
        }
        while let Some(mut buffers) = self.read().await? {
            let is_open = self.answer(&mut buffers).await?;
            buffers.give_back();
            if !is_open {
                break;
            }
        }
        // Tells the peer that this is the end, where the transport has a way to say so; it may be gone already.
        let _ = Box::pin(tokio::time::timeout(SHUTDOWN_TIMEOUT, self.io.shutdown())).await;
        Ok(())
    }

    /// Waits for bytes, or for lines that a monitor is to be sent, which are put out then; `None` at the end of the
    /// stream, or when told to stop.
    async fn read(&mut self) -> io::Result<Option<Box<Buffers>>> {
        let Connection { admission, io, rest, work, monitoring, session, unbroken_bytes, .. } = self;
        let client = &admission.client;
        poll_fn(|cx| {
            if client.stopping_or_wake(cx.waker()) != Stop::No {
                return Poll::Ready(Ok(None));
            }
            let mut buffers = Buffers::take();
            if session.is_authenticated() {
                buffers.resume(rest);
            } else {
                buffers.resume_unauthenticated(rest);
            }
            // Requests first: lines may come as fast as they are written, and one of the requests may be RESET.
            match poll_read(Pin::new(&mut *io), cx, &mut buffers.input) {
                Poll::Ready(Ok(n)) if n > 0 => {
                    work.reads += 1;
                    work.input_bytes += n as u64;
                    *unbroken_bytes += n;
                    rest.clear();
                    Poll::Ready(Ok(Some(buffers)))
                }
                Poll::Pending if monitoring.as_ref().is_some_and(|lines| lines.take(&mut buffers.output)) => {
                    rest.clear();
                    Poll::Ready(Ok(Some(buffers)))
                }
                end_or_pending => {
                    *unbroken_bytes = 0;
                    buffers.suspend(rest);
                    buffers.give_back();
                    end_or_pending.map_ok(|_| None)
                }
            }
        })
        .await
    }

    /// Answers every complete request of the input, in as many turns as it takes. False when the connection is to end.
    async fn answer(&mut self, buffers: &mut Buffers) -> io::Result<bool> {
        loop {
            self.read_turn(buffers);
            let draw = match self.draw_now(buffers) {
                Ok(draw) => draw,
                Err(unfinished) => match self.draw_beside_now(unfinished, buffers) {
                    Ok(draw) => draw,
                    Err(unfinished) => Box::pin(self.draw_later(unfinished, buffers)).await?,
                },
            };
            self.write_turn(&draw, buffers);
            if self.has_more_to_do(&buffers.turn) {
                Box::pin(self.do_more(buffers)).await?;
            }
            let is_last = buffers.turn.close || !buffers.turn.more;
            if is_last || self.is_to_flush(buffers) {
                self.touch(buffers);
                self.flush(buffers).await?;
            }
            if draw.is_refused(&buffers.named, &buffers.sequences) {
                // A refusal costs its client nothing and comes at once, so that a hundred of them could hold the
                // thread: each turn of them is followed by the others' turns.
                tokio::task::yield_now().await;
            }
            self.let_others_go(is_last, buffers).await;
            if is_last {
                break;
            }
            self.check_cut_off()?;
            if buffers.turn.held {
                Box::pin(self.hold(buffers)).await?;
            }
        }
        self.suspend(buffers);
        Ok(!buffers.turn.close)
    }

    /// The next turn: requests become replies, and IDs to draw for them.
    #[inline]
    fn read_turn(&mut self, buffers: &mut Buffers) {
        self.follow_settings();
        let Buffers { input, used, turn, .. } = buffers;
        turn.tally.watch(self.server.monitors.any());
        *used += self.session.read(&input[*used..], turn);
        self.work.requests += u64::from(turn.commands);
    }

    /// Puts the turn's replies into the output, and counts them.
    #[inline]
    fn write_turn(&self, draw: &Draw, buffers: &mut Buffers) {
        let Buffers { output, turn, drawn, named, sequences, .. } = buffers;
        match &draw.outcome {
            Outcome::Drawn => self.session.write(turn, Ok(drawn), output),
            Outcome::Refused(refusal) => {
                let text = refusal.to_string();
                self.session.write(turn, Err(&text), output);
                self.count_refused(turn, &text);
            }
            Outcome::Beside(refusal) => {
                let text = refusal.as_ref().map(ToString::to_string);
                let drawn = text.as_deref().map_or(Ok(&drawn[..]), Err);
                let mut beside = Beside { named, sequences, noise: &mut noise::bits };
                self.session.write_beside(turn, drawn, &mut beside, output);
                if let Some(text) = &text {
                    self.count_refused(turn, text);
                }
                if turn.draws.named > 0 {
                    self.count_named_refused(turn, named);
                }
                if sequences.parts().iter().any(|part| part.refused.is_some()) {
                    self.count_refused_values(sequences);
                }
            }
        }
        self.count(turn, draw.measured);
    }

    /// Whether replies go out though there are more to come.
    #[inline]
    fn is_to_flush(&self, buffers: &Buffers) -> bool {
        let bytes = buffers.output.len();
        bytes >= FLUSH_BYTES || (bytes >= UNAUTHENTICATED_FLUSH_BYTES && !self.session.is_authenticated())
    }

    /// Lets others have their turn, if this client had its own for long or has sent much.
    #[inline]
    async fn let_others_go(&mut self, is_last: bool, buffers: &mut Buffers) {
        let Buffers { busy_since_ns, turn, .. } = buffers;
        let spent_ns = turn.tally.spent_ns();
        if !is_last {
            busy_since_ns.get_or_insert_with(|| clock::stopwatch_ns().saturating_sub(spent_ns));
            give_way(busy_since_ns, SLICE_NS).await;
        } else if self.unbroken_bytes >= UNBROKEN_BYTES {
            self.unbroken_bytes = 0;
            tokio::task::yield_now().await;
        } else if busy_since_ns.is_some() || spent_ns >= SHORT_TURN_NS {
            give_way(busy_since_ns, SHORT_TURN_NS).await;
        }
    }

    /// Keeps what the next read begins with, and counts what was done.
    #[inline]
    fn suspend(&mut self, buffers: &mut Buffers) {
        self.publish();
        buffers.suspend(&mut self.rest);
        let held = self.session.release_memory() + self.rest.capacity();
        if held != self.admission.client.held_bytes() {
            self.note_held(self.rest.capacity());
        }
        self.server.metrics.add_read(std::mem::take(&mut self.work));
    }
}

/// One read into the spare room of `input`.
fn poll_read<T: AsyncRead + Unpin>(
    mut io: Pin<&mut T>,
    cx: &mut Context<'_>,
    input: &mut Vec<u8>,
) -> Poll<io::Result<usize>> {
    pin!(io.read_buf(input)).poll(cx)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;
    use crate::server::registry::Client;
    use crate::session::ClientView;

    /// Ten thousand of them are what an idle server holds: what few clients need has a box of its own.
    #[test]
    fn an_idle_connection_is_small() {
        let own = size_of::<Connection<TcpStream>>();
        let (listed, shown) = (size_of::<Client>(), size_of::<ClientView>());
        assert!(own <= 528 && listed <= 224 && shown <= 88, "{own} for itself, {listed} and {shown} in the list");
        // And what the runtime keeps for each, whatever it waits for.
        let task = size_of_future(Connection::<TcpStream>::run);
        assert!(task <= 328, "{task} for its task");
    }

    fn size_of_future<A, F: Future>(_: fn(A) -> F) -> usize {
        size_of::<F>()
    }
}
