//! An encrypted stream of a client, and its handshake.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, Timeout, sleep_until, timeout_at};
use tokio_rustls::rustls::{self, InvalidMessage};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use super::acceptor::Acceptor;
use super::certificates::common_name;

/// Time for a client to finish its handshake, from its connection on. A handshake takes two round trips.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A client's encrypted stream. Its handshake begins with the first read or write, on the thread that does it.
#[derive(Debug)]
pub struct ClientStream {
    acceptor: Arc<Acceptor>,
    is_http: bool,
    /// Deadline of the first byte on the HTTP port, from the first poll for it.
    first_byte: Option<Pin<Box<Sleep>>>,
    state: StreamState,
    /// User that the client's certificate names, from the end of the handshake until it is taken.
    user: Option<String>,
}

/// Boxed, so that the stream is small: nothing moves when a handshake ends.
#[derive(Debug)]
enum StreamState {
    Fresh(TcpStream),
    Handshake(Handshake),
    Open(Box<TlsStream<TcpStream>>),
    /// Plain text came on the HTTP port, and is unread.
    Plain(TcpStream),
    Failed,
}

struct Handshake {
    accept: Pin<Box<Timeout<Accept<TcpStream>>>>,
    /// Whether the client's certificate names its user.
    names_user: bool,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake")
    }
}

impl ClientStream {
    /// Makes a stream on a socket that nothing was read from yet.
    pub fn new(socket: TcpStream, acceptor: Arc<Acceptor>) -> ClientStream {
        ClientStream { acceptor, is_http: false, first_byte: None, state: StreamState::Fresh(socket), user: None }
    }

    /// Makes a stream of the HTTP port.
    #[cfg(feature = "http")]
    pub fn for_http(socket: TcpStream, acceptor: Arc<Acceptor>) -> ClientStream {
        ClientStream { is_http: true, ..ClientStream::new(socket, acceptor) }
    }

    /// Returns the socket and the acceptor, if nothing was read or written yet.
    pub(crate) fn into_fresh(self) -> Option<(TcpStream, Arc<Acceptor>)> {
        match self.state {
            StreamState::Fresh(socket) => Some((socket, self.acceptor)),
            _ => None,
        }
    }

    /// Returns the socket of a client whose handshake failed because it sent plain text, as in plain HTTP. Nothing was
    /// written to it or read from it.
    #[cfg(feature = "http")]
    pub fn into_plain(self) -> Option<TcpStream> {
        match self.state {
            StreamState::Plain(socket) => Some(socket),
            _ => None,
        }
    }

    /// Returns the socket below; `None` once a handshake failed.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match &self.state {
            StreamState::Fresh(socket) | StreamState::Plain(socket) => Some(socket),
            StreamState::Handshake(handshake) => handshake.accept.get_ref().get_ref(),
            StreamState::Open(stream) => Some(stream.get_ref().0),
            StreamState::Failed => None,
        }
    }

    /// Runs the handshake, if it is not done.
    ///
    /// # Errors
    ///
    /// The reason why it failed.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_open(cx).map_ok(|_| ())
    }

    /// Returns the name of the user that the client's certificate names, once, after the handshake.
    pub fn take_user(&mut self) -> Option<String> {
        self.user.take()
    }

    /// Returns the stream once its handshake is done.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut TlsStream<TcpStream>>>> {
        if !matches!(self.state, StreamState::Open(_)) {
            ready!(self.poll_handshake(cx))?;
        }
        match &mut self.state {
            StreamState::Open(stream) => Poll::Ready(Ok(Pin::new(&mut **stream))),
            _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    #[cold]
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut handshake = match std::mem::replace(&mut self.state, StreamState::Failed) {
            StreamState::Fresh(socket) => {
                let mut deadline = Instant::now() + HANDSHAKE_TIMEOUT;
                if self.is_http {
                    // rustls answers plain text with an alert, before which no other answer can be sent.
                    let limit = self.first_byte.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
                    deadline = limit.deadline();
                    let mut byte = [0];
                    let mut first = ReadBuf::new(&mut byte);
                    match socket.poll_peek(cx, &mut first) {
                        Poll::Pending if limit.as_mut().poll(cx).is_pending() => {
                            self.state = StreamState::Fresh(socket);
                            return Poll::Pending;
                        }
                        Poll::Pending => return self.failed(late()),
                        Poll::Ready(Ok(_)) if first.filled().iter().any(u8::is_ascii_alphabetic) => {
                            self.state = StreamState::Plain(socket);
                            return self.failed(io::Error::new(io::ErrorKind::InvalidData, PLAIN_TEXT));
                        }
                        // The handshake detects a fault of the socket too.
                        Poll::Ready(_) => self.first_byte = None,
                    }
                }
                let (config, names_user) = self.acceptor.config(self.is_http);
                let accept = TlsAcceptor::from(config).accept(socket);
                Handshake { accept: Box::pin(timeout_at(deadline, accept)), names_user }
            }
            StreamState::Handshake(handshake) => handshake,
            StreamState::Open(_) | StreamState::Plain(_) | StreamState::Failed => {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            }
        };
        let error = match handshake.accept.as_mut().poll(cx) {
            Poll::Pending => {
                self.state = StreamState::Handshake(handshake);
                return Poll::Pending;
            }
            Poll::Ready(Ok(Ok(stream))) => {
                self.acceptor.handshakes.fetch_add(1, Relaxed);
                let session = stream.get_ref().1;
                if session.handshake_kind() == Some(rustls::HandshakeKind::Resumed) {
                    self.acceptor.resumed.fetch_add(1, Relaxed);
                }
                if handshake.names_user {
                    // It was checked against the authorities, now or when the session began.
                    self.user = session.peer_certificates().and_then(<[_]>::first).and_then(common_name);
                }
                // In TLS 1.3 the client sends last. One that leaves Nagle's algorithm on holds its first request back
                // until that is acknowledged, which the kernel would delay by 40 ms. A failure here only makes it slow.
                let _ = SockRef::from(stream.get_ref().0).set_tcp_quickack(true);
                self.state = StreamState::Open(Box::new(stream));
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(Ok(Err(error))) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Poll::Ready(Err(io::Error::new(
                    error.kind(),
                    "the client left before the end of the TLS handshake",
                )));
            }
            Poll::Ready(Ok(Err(error))) => described(&error),
            Poll::Ready(Err(_)) => late(),
        };
        self.failed(error)
    }

    fn failed(&self, error: io::Error) -> Poll<io::Result<()>> {
        self.acceptor.failures.fetch_add(1, Relaxed);
        Poll::Ready(Err(error))
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no TLS handshake within {} s", HANDSHAKE_TIMEOUT.as_secs()))
}

/// Error of a client that sends no TLS.
const PLAIN_TEXT: &str = "TLS handshake failed: the client sent plain text, and this port accepts only TLS";

/// Returns a handshake's error, in terms of a server's operator.
fn described(error: &io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let text = match cause {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => PLAIN_TEXT.to_owned(),
        Some(rustls::Error::NoCertificatesPresented) => {
            "TLS handshake failed: the client sent no certificate, and tls-auth-clients is yes".to_owned()
        }
        _ => format!("TLS handshake failed: {error}"),
    };
    io::Error::new(error.kind(), text)
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = ready!(self.get_mut().poll_open(cx))?;
        match ready!(stream.poll_read(cx, buf)) {
            // Many clients close their socket without close_notify. A truncation is noticed nevertheless: a request
            // contains its length.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            result => Poll::Ready(result),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.get_mut().poll_open(cx))?.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().state {
            StreamState::Open(stream) => Pin::new(&mut **stream).poll_flush(cx),
            StreamState::Fresh(_) | StreamState::Handshake(_) | StreamState::Plain(_) | StreamState::Failed => {
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Sends `close_notify`. A client that is still in its handshake has nothing to wait for.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().state {
            StreamState::Open(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            StreamState::Fresh(_) | StreamState::Handshake(_) | StreamState::Plain(_) | StreamState::Failed => {
                Poll::Ready(Ok(()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::super::TlsSettings;
    use super::*;
    use getid_config::{Config, TlsAuthClients};

    /// Time is the test's own: it passes at once when nothing else can happen.
    #[tokio::test(start_paused = true)]
    async fn a_handshake_has_a_time_limit_and_then_nothing_more_comes() {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let [cert_file, key_file] = ["crt", "key"].map(|name| folder.path().join(name));
        std::fs::write(&cert_file, made.cert.pem()).unwrap();
        std::fs::write(&key_file, made.signing_key.serialize_pem()).unwrap();
        let config = Config {
            tls_port: 1,
            tls_cert_file: Some(cert_file),
            tls_key_file: Some(key_file),
            tls_auth_clients: TlsAuthClients::No,
            ..Config::default()
        };
        let settings = TlsSettings::of(&config).unwrap();
        let acceptor = Arc::new(Acceptor::load(settings).unwrap());

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let mut stream = ClientStream::new(socket, Arc::clone(&acceptor));
        let started = Instant::now();
        let error = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.to_string(), "no TLS handshake within 10 s");
        assert!(started.elapsed() >= HANDSHAKE_TIMEOUT);
        assert_eq!((acceptor.handshakes(), acceptor.failures()), (0, 1));
        assert!(stream.tcp().is_none());
        assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::NotConnected);
        assert_eq!(stream.write(b"x").await.unwrap_err().kind(), io::ErrorKind::NotConnected);
        stream.shutdown().await.unwrap();
    }
}
