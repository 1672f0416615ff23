//! The task of a client: a future that is small while the client is idle.
//!
//! Ten thousand idle clients are ten thousand of these, and each request is one poll of one. So it is written by hand:
//! what can be done at once is done by plain calls, and what has to wait is a future that is made for that wait and
//! gone after it. The state of an `async fn` would have room for every wait, all the time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::buffers::Buffers;
use super::state::Connection;
use super::{Answered, Later, Step};
use crate::logging::throttle::throttled;
use crate::server::panic_watch::PanicWatch;
use crate::server::transport::Transport;

/// Time for the peer to take the end of its stream.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);

/// Serves a client until it goes, breaks the protocol, or is told to stop.
pub struct Task<T: Transport> {
    state: State<T>,
}

/// What a halted task waits for. The connection comes back unless that was the end.
type Halted<T> = Pin<Box<dyn Future<Output = Option<Box<Connection<T>>>> + Send>>;

/// What a client's task does.
enum State<T> {
    /// It reads, and answers what that brings at once.
    Reads(Box<Connection<T>>),
    /// It waits for something else than the client's bytes.
    Waits(Halted<T>),
    Ended,
}

/// Why a task can't go on reading at once.
enum Halt {
    /// A turn has to wait for something.
    Answer(Later, Box<Buffers>),
    /// The connection ends.
    End(io::Result<()>),
}

impl<T: Transport + 'static> Connection<T> {
    /// The client's task.
    pub fn run(mut self: Box<Self>) -> Task<T> {
        let is_welcome = !T::NAMES_USERS || self.log_in_by_certificate();
        let state = if is_welcome { State::Reads(self) } else { State::Waits(Box::pin(self.halt(Halt::End(Ok(()))))) };
        Task { state }
    }

    /// Reads and answers for as long as nothing has to be waited for but the client.
    fn serve(&mut self, cx: &mut Context<'_>) -> Poll<Halt> {
        let mut buffers = Buffers::take();
        loop {
            match self.read(&mut buffers, cx) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(end) => {
                    buffers.give_back();
                    return Poll::Ready(Halt::End(end.map(drop)));
                }
                Poll::Pending => {
                    buffers.give_back();
                    return Poll::Pending;
                }
            }
            match self.answer_now(Step::Read, &mut buffers, cx) {
                Ok(Answered::All { gives_way: false }) => buffers.clear(),
                Ok(Answered::All { gives_way: true }) => {
                    buffers.give_back();
                    // Its first look says that others are first, and has this task polled again after them.
                    let _ = std::pin::pin!(tokio::task::yield_now()).poll(cx);
                    return Poll::Pending;
                }
                Ok(Answered::Part(later)) => return Poll::Ready(Halt::Answer(later, buffers)),
                end => {
                    self.count_work(&mut buffers);
                    return Poll::Ready(Halt::End(end.map(drop)));
                }
            }
        }
    }

    /// Does what halted the task. Returns the connection, if that goes on.
    async fn halt(mut self: Box<Self>, halt: Halt) -> Option<Box<Self>> {
        let watch = PanicWatch::new(&self.server, self.admission.client.id);
        let end = match halt {
            Halt::Answer(later, mut buffers) => match self.answer_later(later, &mut buffers).await {
                Ok(true) => {
                    buffers.give_back();
                    return Some(self);
                }
                end => {
                    // Of an answer that an error cut short.
                    self.count_work(&mut buffers);
                    end.map(drop)
                }
            },
            Halt::End(end) => end,
        };
        // Nothing of it is answered any more, and a peer that does not take its end must not keep it.
        self.rest = None;
        self.admission.release_held();
        if end.is_ok() {
            // Tells the peer that this is the end, where the transport has a way to say so; it may be gone already.
            let _ = Box::pin(tokio::time::timeout(SHUTDOWN_TIMEOUT, self.io.shutdown())).await;
        }
        drop(watch);
        let client = &self.admission.client;
        match end {
            Ok(()) => throttled!(self.server.throttle, Left, "client {} left", client.id),
            Err(error) => {
                throttled!(self.server.throttle, Left, "client {} at {} is gone: {error}", client.id, client.peer);
            }
        }
        None
    }
}

impl<T: Transport + 'static> Future for Task<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.state {
                State::Reads(connection) => {
                    let halt = ready!(connection.serve(cx));
                    if let State::Reads(connection) = std::mem::replace(&mut self.state, State::Ended) {
                        self.state = State::Waits(Box::pin(connection.halt(halt)));
                    }
                }
                State::Waits(halted) => {
                    self.state = ready!(halted.as_mut().poll(cx)).map_or(State::Ended, State::Reads);
                }
                State::Ended => return Poll::Ready(()),
            }
        }
    }
}

impl<T: Transport> Drop for Task<T> {
    fn drop(&mut self) {
        if let State::Reads(connection) = &self.state {
            // Other states watch themselves.
            drop(PanicWatch::new(&connection.server, connection.admission.client.id));
        }
    }
}
