//! A client without a socket, with which the HTTP port runs commands.
//!
//! It is a connection like any other, so that all rules for commands apply to requests over HTTP: users and their
//! permissions, the protected mode, `CLIENT PAUSE`, limits, statistics, `MONITOR`, `SLOWLOG`, `ACL LOG`. Only its bytes
//! come from the caller and go to the caller.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

use super::buffers::Buffers;
use super::{ClientConnection, TurnStep};
use crate::Server;
use crate::registry::{Client, SocketInfo, StopMode};
use crate::transport::Transport;
use getid_redis::acl::{Origin, Proof};
use getid_redis::resp::{ErrorKind, Protocol};
use getid_redis::session::{ClientView, Session};

/// Value of `lib-name` in `CLIENT LIST`.
const LIBRARY: &str = "http";

/// A client that speaks RESP3 in this process.
///
/// If an [`ask`](LocalClient::ask) was dropped before its end, a request is still running, and the client must be
/// dropped.
pub struct LocalClient {
    connection: Box<ClientConnection<ReplyBuffer>>,
}

impl LocalClient {
    /// Makes a client without a login; `None` when the server stops. Must be made and used on one task.
    pub fn new(server: &Arc<Server>, origin: Origin, ends: SocketInfo) -> Option<LocalClient> {
        let uptime_s = server.metrics.uptime_s.load(Relaxed);
        let session = Session::new(server.clients.next_id(), server.settings.get()).from(origin);
        let session = session.speaking(Protocol::Resp3, LIBRARY);
        let admission = server.clients.admit_http(session.view().clone(), ends, uptime_s)?;
        // After the admission: either this call sees that the server stops, or the client is notified.
        if server.is_stopping() {
            return None;
        }
        let connection = ClientConnection::new(Arc::clone(server), admission, session, ReplyBuffer::default());
        Some(LocalClient { connection })
    }

    /// Returns the client as the registry has it.
    pub fn client(&self) -> &Arc<Client> {
        &self.connection.admission.client
    }

    /// Returns the session's public state.
    pub fn view(&self) -> &ClientView {
        self.connection.session.view()
    }

    /// Returns true if the client has logged in, or needs no login.
    pub fn is_authenticated(&self) -> bool {
        self.connection.session.is_authenticated()
    }

    /// Implements [`Session::may_run`].
    pub fn may_run(&self, command: &str, key: Option<&[u8]>) -> bool {
        self.connection.session.may_run(command, key)
    }

    /// Logs in as this user without a password. Returns false if the user does not exist, or is off.
    pub fn log_in_as(&mut self, user: &str) -> bool {
        self.connection.follow_settings();
        let is_user = self.connection.session.log_in_as(user);
        self.connection.publish();
        is_user && self.connection.confirm(Some(&Proof::Name))
    }

    /// Logs in as the user that the client's certificate names, if there is one of that name. Returns false if the user
    /// has gone meanwhile.
    pub fn log_in_by_certificate(&mut self, user: &str) -> bool {
        self.connection.log_in_by_name(user)
    }

    /// Returns the number of wrong passwords; each delays the answer to the next one.
    pub fn wrong_logins(&self) -> u32 {
        self.connection.wrong_logins
    }

    /// Sets the number of wrong passwords.
    pub fn set_wrong_logins(&mut self, wrong: u32) {
        self.connection.wrong_logins = wrong;
    }

    /// Returns the reply to a request. Both are bytes of RESP.
    ///
    /// # Errors
    ///
    /// Fails if the client must end (`CLIENT KILL`, a stop, a deleted user), after which it cannot be used.
    pub async fn ask(&mut self, request: &[u8]) -> io::Result<LocalReply> {
        if self.client().stopping() != StopMode::No {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let mut buffers = Buffers::take();
        buffers.input.extend_from_slice(request);
        buffers.work.reads += 1;
        buffers.work.input_bytes += request.len() as u64;
        let is_open = self.connection.answer(TurnStep::Read, &mut buffers).await?;
        let error = buffers.turn.error;
        buffers.give_back();
        let bytes = std::mem::take(&mut self.connection.io.0);
        if bytes.is_empty() && !is_open {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(LocalReply { bytes, error })
    }
}

/// Reply to a request of a [`LocalClient`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalReply {
    /// The reply as bytes of RESP.
    pub bytes: Vec<u8>,
    /// Cause of the error, if the reply is an error.
    pub error: Option<ErrorKind>,
}

/// Destination of the replies.
#[derive(Debug, Default)]
struct ReplyBuffer(Vec<u8>);

impl AsyncRead for ReplyBuffer {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // No input comes this way.
        Poll::Pending
    }
}

impl AsyncWrite for ReplyBuffer {
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

impl Transport for ReplyBuffer {
    /// There is no socket that could be ready, or gone: a caller that stops waiting drops the future.
    async fn ready(&self, _: Interest) -> io::Result<Ready> {
        std::future::pending().await
    }
}
