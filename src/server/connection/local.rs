//! A client without a socket: what the HTTP port asks, as commands.
//!
//! It is a connection like any other, so that whatever holds for a command holds for a request over HTTP: users and
//! their permissions, the protected mode, `CLIENT PAUSE`, limits, statistics, `MONITOR`, `SLOWLOG`, `ACL LOG`. Only
//! its bytes come from the caller and go to the caller.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

use super::buffers::Buffers;
use super::{Connection, Step};
use crate::acl::{Origin, Proof};
use crate::resp::Protocol;
use crate::server::Server;
use crate::server::registry::{Client, Ends, Stop};
use crate::server::transport::Transport;
use crate::session::{ClientView, Session};

/// What `CLIENT LIST` shows of it as `lib-name`.
const LIBRARY: &str = "http";

/// A client that speaks RESP3 in this process.
///
/// One whose [`ask`](LocalClient::ask) was let go of in the middle has a request under way, and is to be dropped.
pub struct LocalClient {
    connection: Box<Connection<Sink>>,
}

impl LocalClient {
    /// A client that has said nothing yet; `None` when the server stops. Must be made and used on one task.
    pub fn new(server: &Arc<Server>, origin: Origin, ends: Ends) -> Option<LocalClient> {
        let uptime_s = server.metrics.uptime_s.load(Relaxed);
        let session = Session::new(server.clients.next_id(), server.settings.get()).from(origin);
        let session = session.speaking(Protocol::Resp3, LIBRARY);
        let admission = server.clients.admit_http(session.view().clone(), ends, uptime_s)?;
        // Behind the admission: either this sees that the server stops, or the client is told.
        if server.is_stopping() {
            return None;
        }
        let connection = Connection::new(Arc::clone(server), admission, session, Sink::default());
        Some(LocalClient { connection })
    }

    /// As others see it.
    pub fn client(&self) -> &Arc<Client> {
        &self.connection.admission.client
    }

    /// Who it is by now.
    pub fn view(&self) -> &ClientView {
        self.connection.session.view()
    }

    /// Whether it has logged in, or needs not.
    pub fn is_authenticated(&self) -> bool {
        self.connection.session.is_authenticated()
    }

    /// [`Session::may_run`].
    pub fn may_run(&self, command: &str, key: Option<&[u8]>) -> bool {
        self.connection.session.may_run(command, key)
    }

    /// Logs in as this user without a password; false if there is none, or it is off.
    pub fn log_in_as(&mut self, user: &str) -> bool {
        self.connection.follow_settings();
        let is_user = self.connection.session.log_in_as(user);
        self.connection.publish();
        is_user && self.connection.confirm(Some(&Proof::Name))
    }

    /// Logs in as the user that the client's certificate names, if there is one of that name. False when the user has
    /// gone meanwhile.
    pub fn log_in_by_certificate(&mut self, user: &str) -> bool {
        self.connection.log_in_by_name(user)
    }

    /// How many passwords were wrong; each makes the answer to the next one later.
    pub fn wrong_logins(&self) -> u32 {
        self.connection.wrong_logins
    }

    /// Begins with so many.
    pub fn set_wrong_logins(&mut self, wrong: u32) {
        self.connection.wrong_logins = wrong;
    }

    /// The reply to a request, both as bytes of RESP.
    ///
    /// # Errors
    ///
    /// When the client was told to end (`CLIENT KILL`, a stop, a user that was deleted): it is of no use any more.
    pub async fn ask(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        if self.client().stopping() != Stop::No {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let mut buffers = Buffers::take();
        buffers.input.extend_from_slice(request);
        buffers.work.reads += 1;
        buffers.work.input_bytes += request.len() as u64;
        let is_open = self.connection.answer(Step::Read, &mut buffers).await?;
        buffers.give_back();
        let reply = std::mem::take(&mut self.connection.io.0);
        if reply.is_empty() && !is_open {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(reply)
    }
}

/// Where the replies go.
#[derive(Debug, Default)]
struct Sink(Vec<u8>);

impl AsyncRead for Sink {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // Nothing comes this way.
        Poll::Pending
    }
}

impl AsyncWrite for Sink {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Transport for Sink {
    /// It has no socket that could be ready, or gone: whoever waits for a reply lets go of it.
    async fn ready(&self, _: Interest) -> io::Result<Ready> {
        std::future::pending().await
    }
}
