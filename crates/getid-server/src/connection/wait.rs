//! Waits of a client's task for IDs, for the end of a pause, or for its output to be sent. They also end when the
//! client must stop, or its peer is found to be gone.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use crate::registry::{Client, StopMode};
use crate::transport::{PeerState, Transport, peer_state};

/// Time from the first check of a peer to the second. Each later interval is twice as long, since many clients may wait
/// long, up to [`CHECK_INTERVAL_MAX`].
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Longest interval between two checks of a peer.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// A wait of a client's task.
pub(crate) struct Wait<'a> {
    client: &'a Client,
    /// The mildest stop that ends it.
    ended_by: StopMode,
}

impl<'a> Wait<'a> {
    /// Makes a wait that ends when the client is cut off. A milder stop lets the awaited result come first.
    pub(crate) fn unless_cut_off(client: &'a Client) -> Wait<'a> {
        Wait { client, ended_by: StopMode::Now }
    }

    /// Makes a wait that ends with any stop of the client.
    pub(super) fn unless_stopped(client: &'a Client) -> Wait<'a> {
        Wait { client, ended_by: StopMode::Drain }
    }

    /// Waits for `ready`. An error ends the connection.
    #[inline]
    pub(crate) fn until<F: Future + Unpin>(&self, mut ready: F) -> impl Future<Output = io::Result<F::Output>> {
        poll_fn(move |cx| {
            if self.client.stopping_or_wake(cx.waker()) >= self.ended_by {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            Pin::new(&mut ready).poll(cx).map(Ok)
        })
    }

    /// Waits for `ready`, and checks at intervals whether the peer is still there. Returns `None` with
    /// `ends_half_closed` if the client has finished sending. An error ends the connection.
    pub(super) async fn until_or_gone<T: Transport, F: Future>(
        &self,
        io: &T,
        ready: F,
        ends_half_closed: bool,
    ) -> io::Result<Option<F::Output>> {
        let mut ready = pin!(ready);
        let (mut next_check, mut interval) = (Box::pin(tokio::time::sleep(Duration::ZERO)), CHECK_INTERVAL_MIN);
        loop {
            let next = pin!(async {
                tokio::select! {
                    biased;
                    output = &mut ready => Some(output),
                    () = &mut next_check => None,
                }
            });
            if let Some(output) = self.until(next).await? {
                return Ok(Some(output));
            }
            match peer_state(io).await {
                PeerState::Gone => return Err(io::ErrorKind::ConnectionReset.into()),
                PeerState::HalfClosed if ends_half_closed => return Ok(None),
                PeerState::HalfClosed | PeerState::Open => {
                    // From now on, not from when it was due: a late thread must not catch up on checks.
                    next_check.as_mut().reset(Instant::now() + interval);
                    interval = (2 * interval).min(CHECK_INTERVAL_MAX);
                }
            }
        }
    }
}
