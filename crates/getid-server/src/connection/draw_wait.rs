//! The wait of a turn for IDs or values, and its ends: the result, `CLIENT UNBLOCK`, or a client that has finished
//! sending.

use std::future::{Future, poll_fn};
use std::io;
use std::task::Poll;

use tokio::io::Interest;

use super::state::ClientConnection;
use super::wait::Wait;
use crate::registry::Client;
use crate::transport::Transport;
use getid_redis::session::Unblock;

/// End of a wait.
pub(super) enum DrawWait<R> {
    /// The awaited result.
    Ready(R),
    /// Another end before it.
    Early(DrawWaitEnd),
}

/// Result of a wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DrawWaitEnd {
    Drawn,
    /// The refusal is in the place of the draw's IDs.
    Refused,
    /// Ended by `CLIENT UNBLOCK`.
    Unblocked(Unblock),
    /// The client has finished sending; nothing else has happened.
    HalfClosed,
}

impl<T: Transport> ClientConnection<T> {
    /// Waits for IDs or values. An error ends the connection.
    pub(super) async fn wait_for<F: Future + Unpin>(
        &mut self,
        draw: F,
        ends_half_closed: bool,
    ) -> io::Result<DrawWait<F::Output>> {
        self.publish();
        let client = &*self.admission.client;
        // The client is not idle until it is served, however long that takes.
        let _waiting = client.ids_wait_guard();
        let ids = async {
            tokio::select! {
                biased;
                // A reset is noticed at once, the end of a client's input when its turn for a check comes.
                _ = self.io.ready(Interest::ERROR) => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
                drawn = draw => Ok(DrawWait::Ready(drawn)),
                how = unblocked(client) => Ok(DrawWait::Early(DrawWaitEnd::Unblocked(how))),
            }
        };
        let waited = match Wait::unless_cut_off(client).until_or_gone(&self.io, ids, ends_half_closed).await? {
            Some(result) => {
                self.note_active();
                result?
            }
            None => DrawWait::Early(DrawWaitEnd::HalfClosed),
        };
        // `CLIENT UNBLOCK` has reported the end of the wait, even if the IDs came at that moment.
        Ok(client.end_wait().map_or(waited, |how| DrawWait::Early(DrawWaitEnd::Unblocked(how))))
    }
}

/// Resolves when `CLIENT UNBLOCK` ends the client's wait, which wakes the task.
async fn unblocked(client: &Client) -> Unblock {
    poll_fn(|_| client.unblocked().map_or(Poll::Pending, Poll::Ready)).await
}
