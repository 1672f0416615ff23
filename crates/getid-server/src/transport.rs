//! The byte streams of clients: TCP, TLS over TCP, a Unix socket.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite, Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

use crate::tls;

/// A byte stream of a client.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + Sync + Sized {
    /// Whether the stream may name the client's user.
    const NAMES_USERS: bool = false;

    /// Returns the readiness of the socket as the runtime knows it, without a system call; waits for one of `interest`.
    fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<Ready>> + Send;

    /// Returns the name of the user that the client has proved in its handshake; only the first call gets it.
    fn take_user(&mut self) -> Option<String> {
        None
    }
}

impl Transport for TcpStream {
    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        TcpStream::ready(self, interest).await
    }
}

impl Transport for UnixStream {
    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        UnixStream::ready(self, interest).await
    }
}

impl Transport for tls::ClientStream {
    const NAMES_USERS: bool = true;

    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self.tcp() {
            Some(socket) => socket.ready(interest).await,
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn take_user(&mut self) -> Option<String> {
        tls::ClientStream::take_user(self)
    }
}

/// A stream that can move from one thread's runtime to another's.
pub(super) trait Movable: Transport + 'static {
    /// The stream between the two runtimes.
    type Detached: Send;

    fn detach(self) -> io::Result<Self::Detached>;

    fn attach(detached: Self::Detached) -> io::Result<Self>;
}

impl Movable for TcpStream {
    type Detached = std::net::TcpStream;

    fn detach(self) -> io::Result<Self::Detached> {
        self.into_std()
    }

    fn attach(detached: Self::Detached) -> io::Result<Self> {
        TcpStream::from_std(detached)
    }
}

impl Movable for tls::ClientStream {
    type Detached = (std::net::TcpStream, Arc<tls::Acceptor>);

    fn detach(self) -> io::Result<Self::Detached> {
        let (socket, acceptor) = self.into_fresh().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((socket.into_std()?, acceptor))
    }

    fn attach((socket, acceptor): Self::Detached) -> io::Result<Self> {
        Ok(tls::ClientStream::new(TcpStream::from_std(socket)?, acceptor))
    }
}

impl Movable for UnixStream {
    type Detached = std::os::unix::net::UnixStream;

    fn detach(self) -> io::Result<Self::Detached> {
        self.into_std()
    }

    fn attach(detached: Self::Detached) -> io::Result<Self> {
        UnixStream::from_std(detached)
    }
}

/// State of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerState {
    Open,
    /// The peer has finished sending. It may still read.
    HalfClosed,
    /// The peer has reset the connection, or closed it both ways.
    Gone,
}

/// Returns the peer's state as the runtime knows it, without a system call, since thousands may be checked many times a
/// second.
pub(super) async fn peer_state<T: Transport>(io: &T) -> PeerState {
    // A writable socket is ready, so this does not wait. One that is not may be gone all the same.
    let all = Interest::READABLE | Interest::WRITABLE | Interest::ERROR;
    let ready = poll_fn(|cx| Poll::Ready(pin!(io.ready(all)).poll(cx))).await;
    match ready {
        Poll::Ready(Err(_)) => PeerState::Gone,
        Poll::Ready(Ok(ready)) if ready.is_error() || ready.is_write_closed() => PeerState::Gone,
        Poll::Ready(Ok(ready)) if ready.is_read_closed() => PeerState::HalfClosed,
        Poll::Ready(Ok(_)) | Poll::Pending => PeerState::Open,
    }
}
