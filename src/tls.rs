//! TLS on `tls-port`: certificates in, encrypted streams out.
//!
//! Everything that can be wrong with certificates is found when they are loaded, at the start or at a reload, never when
//! a client comes. A reload replaces all of it or nothing: connections that are open go on as they are, new ones get
//! what was loaded last.
//!
//! A handshake is a part of its connection: it happens in the connection's task, with the first read or write, and is
//! given [`HANDSHAKE_PATIENCE`]. So a slow client delays nobody, and the place it takes is one of `maxclients`.
//!
//! There is no session resumption: connections of pools live long, and a certificate that is not trusted any more after
//! a reload must not come in again by a ticket.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Timeout;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, InconsistentKeys, InvalidMessage, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use crate::config::{Config, TlsAuthClients};

/// Time for a client to finish its handshake, from its connection on. A handshake takes two round trips.
pub const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of a certificate or key file: all the authorities that Linux distributions trust are 230 KB.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Makes encrypted streams of sockets.
#[derive(Debug)]
pub struct Acceptor {
    loaded: RwLock<Loaded>,
    handshakes: AtomicU64,
    failures: AtomicU64,
}

/// Settings and what was made of their files.
#[derive(Debug)]
pub struct Loaded {
    settings: Settings,
    config: Arc<ServerConfig>,
}

impl Loaded {
    /// Reads the files that `settings` name, for [`Acceptor::install`].
    ///
    /// # Errors
    ///
    /// As [`Acceptor::load`].
    pub fn new(settings: Settings) -> Result<Loaded, TlsError> {
        let config = Arc::new(settings.load()?);
        Ok(Loaded { settings, config })
    }
}

impl Acceptor {
    /// Reads the files that `settings` name. What is not worth an error is logged.
    ///
    /// # Errors
    ///
    /// [`TlsError`] for the first thing that is wrong with one of them.
    pub fn load(settings: Settings) -> Result<Acceptor, TlsError> {
        let loaded = RwLock::new(Loaded::new(settings)?);
        Ok(Acceptor { loaded, handshakes: AtomicU64::new(0), failures: AtomicU64::new(0) })
    }

    /// Reads the same files again, for new connections.
    ///
    /// # Errors
    ///
    /// As [`Acceptor::load`]; then what was loaded before stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.replace(self.settings())
    }

    /// Goes by other settings from now on, for new connections.
    ///
    /// # Errors
    ///
    /// As [`Acceptor::load`]; then the settings stay as they were.
    pub fn replace(&self, settings: Settings) -> Result<(), TlsError> {
        self.install(Loaded::new(settings)?);
        Ok(())
    }

    /// Goes by what was loaded from now on, for new connections.
    pub fn install(&self, loaded: Loaded) {
        // A pair is only replaced whole, so one that a panic left is as good as any.
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
    }

    /// Counts handshakes anew.
    pub fn reset_counters(&self) {
        self.handshakes.store(0, Relaxed);
        self.failures.store(0, Relaxed);
    }

    /// The settings in force.
    pub fn settings(&self) -> Settings {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).settings.clone()
    }

    /// Handshakes that succeeded.
    pub fn handshakes(&self) -> u64 {
        self.handshakes.load(Relaxed)
    }

    /// Handshakes that failed. A peer that goes in the middle of one, as a load balancer's check of the port does, is
    /// not counted.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner).config)
    }
}

/// Which files are loaded, and what is asked of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The server's certificate, and those between it and its authority (`tls-cert-file`).
    pub cert_file: PathBuf,
    /// Its key (`tls-key-file`).
    pub key_file: PathBuf,
    /// Who may sign clients' certificates (`tls-ca-cert-file`).
    pub ca_cert_file: Option<PathBuf>,
    /// Whether clients need a certificate (`tls-auth-clients`).
    pub auth_clients: TlsAuthClients,
}

impl Settings {
    /// Those of a configuration; `None` without `tls-port`.
    pub fn of(config: &Config) -> Option<Settings> {
        // A configuration with a tls-port and without these two does not load.
        let (cert_file, key_file) = config.tls_cert_file.clone().zip(config.tls_key_file.clone())?;
        (config.tls_port != 0).then(|| Settings {
            cert_file,
            key_file,
            ca_cert_file: config.tls_ca_cert_file.clone(),
            auth_clients: config.tls_auth_clients,
        })
    }

    fn load(&self) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let verifier = self.client_verifier(&provider)?;
        let certificates = certificates(What::Certificate, &self.cert_file)?;
        let key = key(&self.key_file)?;
        // The key by itself first, so that a fault of it is not taken for one of the certificate.
        if let Err(error) = provider.key_provider.load_private_key(key.clone_key()) {
            return Err(TlsError::Key { path: self.key_file.clone(), error });
        }
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates, key)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    TlsError::Mismatch { cert: self.cert_file.clone(), key: self.key_file.clone() }
                }
                error => TlsError::Certificate { path: self.cert_file.clone(), error },
            })?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    fn client_verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        if self.auth_clients == TlsAuthClients::No {
            return Ok(Arc::new(NoClientAuth));
        }
        let auth_clients = self.auth_clients;
        let path = self.ca_cert_file.as_deref().ok_or(TlsError::NoAuthority { auth_clients })?;
        let mut roots = RootCertStore::empty();
        let mut last_error = None;
        let mut passed_over = 0;
        for certificate in certificates(What::Authority, path)? {
            if let Err(error) = roots.add(certificate) {
                passed_over += 1;
                last_error = Some(error);
            }
        }
        match last_error {
            // A file of all the authorities of a distribution may have one that nobody can use.
            Some(error) if !roots.is_empty() => {
                tracing::warn!(
                    "tls-ca-cert-file {}: {passed_over} certificates cannot be used and are passed over: {error}",
                    path.display()
                );
            }
            Some(error) => return Err(TlsError::Authority { path: path.to_owned(), error }),
            None => {}
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let builder = match auth_clients {
            TlsAuthClients::Optional => builder.allow_unauthenticated(),
            TlsAuthClients::Yes | TlsAuthClients::No => builder,
        };
        builder.build().map_err(|error| TlsError::Other(rustls::Error::General(error.to_string())))
    }
}

fn certificates(what: What, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(what, path)?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::Pem { what, path: path.to_owned(), error })?;
    if found.is_empty() {
        return Err(TlsError::Nothing { what, path: path.to_owned(), instead: Instead::of(&bytes) });
    }
    Ok(found)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let what = What::Key;
    let bytes = read(what, path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::Nothing { what, path: path.to_owned(), instead: Instead::of(&bytes) },
        error => TlsError::Pem { what, path: path.to_owned(), error },
    })
}

fn read(what: What, path: &Path) -> Result<Vec<u8>, TlsError> {
    let fail = |error| TlsError::Read { what, path: path.to_owned(), error };
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(fail)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(TlsError::TooLarge { what, path: path.to_owned() });
    }
    Ok(bytes)
}

/// Why certificates could not be loaded. What was read, what is wrong with it, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that does not open.
    #[error("{what} {}: cannot be read: {error}. Give a PEM file that getid's user may read", .path.display())]
    Read {
        /// Its directive.
        what: What,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file that is none of these.
    #[error("{what} {}: is larger than {FILE_BYTES_MAX} bytes. Give a PEM file", .path.display())]
    TooLarge {
        /// Its directive.
        what: What,
        /// The file.
        path: PathBuf,
    },
    /// Lines that begin as PEM does and go on otherwise.
    #[error("{what} {}: is damaged: {}. Copy the file again, or export it anew", .path.display(), PemFault(.error))]
    Pem {
        /// Its directive.
        what: What,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: pem::Error,
    },
    /// Nothing of what is looked for.
    #[error("{what} {}: no {} in it, but {instead}", .path.display(), .what.thing())]
    Nothing {
        /// Its directive.
        what: What,
        /// The file.
        path: PathBuf,
        /// What is in it.
        instead: Instead,
    },
    /// A key that nobody can sign with.
    #[error(
        "tls-key-file {}: the key cannot be used: {error}. getid takes RSA keys of 2048 bits and more, ECDSA keys on P-256 \
         and P-384, and Ed25519 keys", .path.display()
    )]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: rustls::Error,
    },
    /// A certificate that nobody can read.
    #[error("tls-cert-file {}: the certificate cannot be used: {error}. It must be X.509 version 3", .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: rustls::Error,
    },
    /// Two that do not belong together.
    #[error(
        "the key in tls-key-file {} is not that of the first certificate in tls-cert-file {}. Give the files that were made \
         together; the server's own certificate stands first in its file, those of authorities behind it",
        .key.display(), .cert.display()
    )]
    Mismatch {
        /// Where the certificate is.
        cert: PathBuf,
        /// Where the key is.
        key: PathBuf,
    },
    /// Nobody to check clients' certificates by.
    #[error(
        "tls-auth-clients is {}, but there is no tls-ca-cert-file to check clients' certificates by. Set it, or set \
         tls-auth-clients no", .auth_clients.word()
    )]
    NoAuthority {
        /// What is asked of clients.
        auth_clients: TlsAuthClients,
    },
    /// An authority that is none.
    #[error("tls-ca-cert-file {}: no certificate in it can be used: {error}. Each must be X.509 version 3", .path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is wrong with the last of them.
        error: rustls::Error,
    },
    /// What the library has against the rest.
    #[error("TLS: {0}")]
    Other(rustls::Error),
}

/// Which of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `tls-cert-file`
    Certificate,
    /// `tls-key-file`
    Key,
    /// `tls-ca-cert-file`
    Authority,
}

impl What {
    fn thing(self) -> &'static str {
        match self {
            What::Certificate | What::Authority => "certificate",
            What::Key => "private key",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            What::Certificate => "tls-cert-file",
            What::Key => "tls-key-file",
            What::Authority => "tls-ca-cert-file",
        })
    }
}

/// What a file has instead of what is looked for, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Nothing at all.
    Empty,
    /// A key with a password.
    Encrypted,
    /// The first line of some other section of PEM.
    Section(String),
    /// Bytes that begin as DER does.
    Der,
    /// Anything else.
    Other,
}

/// Characters of a file's line that are shown.
const LINE_CHARS_MAX: usize = 60;

impl Instead {
    fn of(bytes: &[u8]) -> Instead {
        let text = String::from_utf8_lossy(bytes);
        let mut sections = text.lines().filter(|line| line.starts_with("-----BEGIN "));
        // Of old, the word stands inside of the section.
        if text.contains("-----BEGIN ENCRYPTED") || text.contains("Proc-Type: 4,ENCRYPTED") {
            return Instead::Encrypted;
        }
        match (sections.next(), bytes) {
            (Some(line), _) => Instead::Section(line.chars().take(LINE_CHARS_MAX).collect()),
            (None, []) => Instead::Empty,
            (None, [0x30, ..]) => Instead::Der,
            (None, _) => Instead::Other,
        }
    }
}

impl fmt::Display for Instead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Instead::Empty => f.write_str("nothing: the file is empty. Give a PEM file"),
            Instead::Encrypted => f.write_str(
                "a key with a password, which getid cannot ask for. Decrypt it: openssl pkey -in FILE -out NEW",
            ),
            Instead::Section(line) => write!(f, "{line:?}. Give the file that has it"),
            Instead::Der => {
                f.write_str("DER, it seems. Convert it to PEM with openssl x509 or openssl pkey, -inform der")
            }
            Instead::Other => f.write_str("no PEM at all. Expected is text with '-----BEGIN ' at the start of a line"),
        }
    }
}

/// A fault in PEM, without lines as lists of byte values.
struct PemFault<'a>(&'a pem::Error);

impl fmt::Display for PemFault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            pem::Error::MissingSectionEnd { end_marker } => {
                let name = String::from_utf8_lossy(end_marker);
                write!(f, "'-----END {}-----' is missing", name.trim_start_matches("-----END ").trim_end_matches('-'))
            }
            pem::Error::IllegalSectionStart { line } => {
                let line: String = String::from_utf8_lossy(line).chars().take(LINE_CHARS_MAX).collect();
                write!(f, "the line {line:?} begins no section")
            }
            error => error.fmt(f),
        }
    }
}

/// A client's encrypted stream. Its handshake begins with the first read or write, on the thread that does it.
#[derive(Debug)]
pub struct Stream {
    acceptor: Arc<Acceptor>,
    state: State,
}

/// Boxed, so that the stream is small: nothing moves when a handshake ends.
#[derive(Debug)]
enum State {
    Fresh(TcpStream),
    Handshake(Handshake),
    Open(Box<TlsStream<TcpStream>>),
    Failed,
}

struct Handshake(Pin<Box<Timeout<Accept<TcpStream>>>>);

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake")
    }
}

impl Stream {
    /// A stream on a socket that nothing was read from yet.
    pub fn new(socket: TcpStream, acceptor: Arc<Acceptor>) -> Stream {
        Stream { acceptor, state: State::Fresh(socket) }
    }

    /// The opposite, as long as nothing was read or written.
    pub fn into_fresh(self) -> Option<(TcpStream, Arc<Acceptor>)> {
        match self.state {
            State::Fresh(socket) => Some((socket, self.acceptor)),
            _ => None,
        }
    }

    /// The socket below; `None` once a handshake failed.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Fresh(socket) => Some(socket.as_fd()),
            State::Handshake(handshake) => handshake.0.get_ref().get_ref().map(AsFd::as_fd),
            State::Open(stream) => Some(stream.get_ref().0.as_fd()),
            State::Failed => None,
        }
    }

    /// The stream once its handshake is done.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut TlsStream<TcpStream>>>> {
        if !matches!(self.state, State::Open(_)) {
            ready!(self.poll_handshake(cx))?;
        }
        match &mut self.state {
            State::Open(stream) => Poll::Ready(Ok(Pin::new(&mut **stream))),
            _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    #[cold]
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut handshake = match std::mem::replace(&mut self.state, State::Failed) {
            State::Fresh(socket) => {
                let accept = TlsAcceptor::from(self.acceptor.config()).accept(socket);
                Handshake(Box::pin(tokio::time::timeout(HANDSHAKE_PATIENCE, accept)))
            }
            State::Handshake(handshake) => handshake,
            State::Open(_) | State::Failed => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        };
        let error = match handshake.0.as_mut().poll(cx) {
            Poll::Pending => {
                self.state = State::Handshake(handshake);
                return Poll::Pending;
            }
            Poll::Ready(Ok(Ok(stream))) => {
                self.acceptor.handshakes.fetch_add(1, Relaxed);
                // In TLS 1.3 the client speaks last. One that leaves Nagle's algorithm on holds its first request back until
                // that is acknowledged, which the kernel would put off by 40 ms. Where it can't be told, it is only slow.
                let _ = SockRef::from(stream.get_ref().0).set_tcp_quickack(true);
                self.state = State::Open(Box::new(stream));
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(Ok(Err(error))) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Poll::Ready(Err(io::Error::new(error.kind(), "it left before the end of the TLS handshake")));
            }
            Poll::Ready(Ok(Err(error))) => described(&error),
            Poll::Ready(Err(_)) => {
                let text = format!("no TLS handshake within {} s", HANDSHAKE_PATIENCE.as_secs());
                io::Error::new(io::ErrorKind::TimedOut, text)
            }
        };
        self.acceptor.failures.fetch_add(1, Relaxed);
        Poll::Ready(Err(error))
    }
}

/// A handshake's error, in the words of who runs a server.
fn described(error: &io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let text = match cause {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "TLS handshake failed: it sent plain text, and this port takes TLS only".to_owned()
        }
        Some(rustls::Error::NoCertificatesPresented) => {
            "TLS handshake failed: it sent no certificate, and tls-auth-clients is yes".to_owned()
        }
        _ => format!("TLS handshake failed: {error}"),
    };
    io::Error::new(error.kind(), text)
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = ready!(self.get_mut().poll_open(cx))?;
        match ready!(stream.poll_read(cx, buf)) {
            // Many clients close their socket without close_notify. Nothing can be cut off unnoticed: a request says how
            // long it is.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            result => Poll::Ready(result),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.get_mut().poll_open(cx))?.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().state {
            State::Open(stream) => Pin::new(&mut **stream).poll_flush(cx),
            State::Fresh(_) | State::Handshake(_) | State::Failed => Poll::Ready(Ok(())),
        }
    }

    /// Sends `close_notify`. A client that is still in its handshake has nothing to wait for.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().state {
            State::Open(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            State::Fresh(_) | State::Handshake(_) | State::Failed => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;

    /// Time is the test's own: it passes at once when nothing else can happen.
    #[tokio::test(start_paused = true)]
    async fn a_handshake_has_a_time_limit_and_then_nothing_more_comes() {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let [cert_file, key_file] = ["crt", "key"].map(|name| folder.path().join(name));
        std::fs::write(&cert_file, made.cert.pem()).unwrap();
        std::fs::write(&key_file, made.signing_key.serialize_pem()).unwrap();
        let settings = Settings { cert_file, key_file, ca_cert_file: None, auth_clients: TlsAuthClients::No };
        let acceptor = Arc::new(Acceptor::load(settings).unwrap());

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let mut stream = Stream::new(socket, Arc::clone(&acceptor));
        let started = Instant::now();
        let error = stream.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.to_string(), "no TLS handshake within 10 s");
        assert!(started.elapsed() >= HANDSHAKE_PATIENCE);
        assert_eq!((acceptor.handshakes(), acceptor.failures()), (0, 1));
        assert!(stream.socket().is_none());
        assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::NotConnected);
        assert_eq!(stream.write(b"x").await.unwrap_err().kind(), io::ErrorKind::NotConnected);
        stream.shutdown().await.unwrap();
    }
}
