//! The task of a client: a future that is small while the client is idle.
//!
//! Ten thousand idle clients are ten thousand of these, and each request is one poll of one. So it is written by hand:
//! immediate work is plain calls, and each wait is a future that is made for it and dropped after it. The state of an
//! `async fn` would have room for every wait, all the time.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::buffers::Buffers;
use super::state::ClientConnection;
use super::{BlockedStep, InputProgress, TurnStep};
use crate::logging::throttle::throttled;
use crate::panic_watch::PanicWatch;
use crate::transport::Transport;

/// Time for the peer to read the end of its stream.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);

/// Serves a client until it leaves, breaks the protocol, or must stop.
pub struct Task<T: Transport> {
    state: TaskState<T>,
}

/// Future of a halted task. It returns the connection, unless the connection ended.
type HaltFuture<T> = Pin<Box<dyn Future<Output = Option<Box<ClientConnection<T>>>> + Send>>;

/// State of a client's task.
enum TaskState<T> {
    /// Reading, and answering at once.
    Reads(Box<ClientConnection<T>>),
    /// Waiting for something other than the client's bytes.
    Waits(HaltFuture<T>),
    Ended,
}

/// Reason why a task cannot continue reading at once.
enum Halt {
    /// A turn has to wait.
    Answer(BlockedStep, Box<Buffers>),
    /// The connection ends.
    End(io::Result<()>),
}

impl<T: Transport + 'static> ClientConnection<T> {
    /// Returns the client's task.
    pub fn run(mut self: Box<Self>) -> Task<T> {
        let is_admitted = !T::NAMES_USERS || self.log_in_by_certificate();
        let state =
            if is_admitted { TaskState::Reads(self) } else { TaskState::Waits(Box::pin(self.halt(Halt::End(Ok(()))))) };
        Task { state }
    }

    /// Reads and answers while nothing but the client's input has to be waited for.
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
            match self.answer_now(TurnStep::Read, &mut buffers, cx) {
                Ok(InputProgress::Done { is_yield_due: false }) => buffers.clear(),
                Ok(InputProgress::Done { is_yield_due: true }) => {
                    buffers.give_back();
                    // Its first poll lets other tasks run first, and has this one polled again after them.
                    let _ = std::pin::pin!(tokio::task::yield_now()).poll(cx);
                    return Poll::Pending;
                }
                Ok(InputProgress::Blocked(later)) => return Poll::Ready(Halt::Answer(later, buffers)),
                end => {
                    self.count_work(&mut buffers);
                    return Poll::Ready(Halt::End(end.map(drop)));
                }
            }
        }
    }

    /// Handles a halt of the task. Returns the connection, if it continues.
    async fn halt(mut self: Box<Self>, halt: Halt) -> Option<Box<Self>> {
        let watch = PanicWatch::new(&self.server, self.admission.client.id);
        let end = match halt {
            Halt::Answer(later, mut buffers) => match self.answer_later(later, &mut buffers).await {
                Ok(true) => {
                    buffers.give_back();
                    return Some(self);
                }
                end => {
                    // The work of an answer that an error cut short.
                    self.count_work(&mut buffers);
                    end.map(drop)
                }
            },
            Halt::End(end) => end,
        };
        // Its rest is no longer answered, and a peer that does not read the end must not hold memory.
        self.rest = None;
        self.admission.release_held();
        if end.is_ok() {
            // Sends the peer the end of the stream, if the transport can; the peer may be gone already.
            let _ = Box::pin(tokio::time::timeout(SHUTDOWN_TIMEOUT, self.io.shutdown())).await;
        }
        drop(watch);
        let client = &self.admission.client;
        match end {
            Ok(()) => throttled!(self.server.throttle, Disconnected, "client {} disconnected", client.id),
            Err(error) => {
                throttled!(
                    self.server.throttle,
                    Disconnected,
                    "client {} at {} disconnected: {error}",
                    client.id,
                    client.peer
                );
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
                TaskState::Reads(connection) => {
                    let halt = ready!(connection.serve(cx));
                    if let TaskState::Reads(connection) = std::mem::replace(&mut self.state, TaskState::Ended) {
                        self.state = TaskState::Waits(Box::pin(connection.halt(halt)));
                    }
                }
                TaskState::Waits(halted) => {
                    self.state = ready!(halted.as_mut().poll(cx)).map_or(TaskState::Ended, TaskState::Reads);
                }
                TaskState::Ended => return Poll::Ready(()),
            }
        }
    }
}

impl<T: Transport> Drop for Task<T> {
    fn drop(&mut self) {
        if let TaskState::Reads(connection) = &self.state {
            // Other states watch themselves.
            drop(PanicWatch::new(&connection.server, connection.admission.client.id));
        }
    }
}
