//! How a client's task waits, be it for IDs, for the end of a pause, or for its output to go: until that is there, or
//! the client is told to stop, or its peer is seen to be gone.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use crate::server::registry::{Client, Stop};
use crate::server::transport::{Peer, Transport, peer_of};

/// How long after the first look at a peer the second comes. Each later one takes twice as long, for those who wait
/// long are many, up to [`LOOK_EVERY_MAX`].
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The longest time from one look at a peer to the next.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(1);

/// A wait of a client's task.
pub(in crate::server) struct Wait<'a> {
    client: &'a Client,
    /// The mildest stop that ends it.
    ended_by: Stop,
}

impl<'a> Wait<'a> {
    /// A wait that ends when the client is cut off; if it is only to end soon, what it waits for comes first.
    pub(in crate::server) fn unless_cut_off(client: &'a Client) -> Wait<'a> {
        Wait { client, ended_by: Stop::Now }
    }

    /// A wait that ends when the client is to stop in whatever way.
    pub(super) fn unless_stopped(client: &'a Client) -> Wait<'a> {
        Wait { client, ended_by: Stop::Drain }
    }

    /// Waits for `ready`. An error ends the connection.
    #[inline]
    pub(in crate::server) fn until<F: Future + Unpin>(
        &self,
        mut ready: F,
    ) -> impl Future<Output = io::Result<F::Output>> {
        poll_fn(move |cx| {
            if self.client.stopping_or_wake(cx.waker()) >= self.ended_by {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            Pin::new(&mut ready).poll(cx).map(Ok)
        })
    }

    /// Waits for `ready`, and looks now and then whether somebody is still there to want it. `None`:
    /// `ends_half_closed`, and the client has finished sending. An error ends the connection.
    pub(super) async fn until_or_gone<T: Transport, F: Future>(
        &self,
        io: &T,
        ready: F,
        ends_half_closed: bool,
    ) -> io::Result<Option<F::Output>> {
        let mut ready = pin!(ready);
        let (mut look, mut every) = (Box::pin(tokio::time::sleep(Duration::ZERO)), LOOK_EVERY);
        loop {
            let next = pin!(async {
                tokio::select! {
                    biased;
                    output = &mut ready => Some(output),
                    () = &mut look => None,
                }
            });
            if let Some(output) = self.until(next).await? {
                return Ok(Some(output));
            }
            match peer_of(io).await {
                Peer::Gone => return Err(io::ErrorKind::ConnectionReset.into()),
                Peer::HalfClosed if ends_half_closed => return Ok(None),
                Peer::HalfClosed | Peer::There => {
                    // From now on, not from when it was due: a thread that is late must not catch up on looks.
                    look.as_mut().reset(Instant::now() + every);
                    every = (2 * every).min(LOOK_EVERY_MAX);
                }
            }
        }
    }
}
