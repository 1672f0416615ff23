//! One connection to a member: TCP, optionally TLS, HTTP/1.1, one request at a time.

use std::future::{Future, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, AlertDescription, ClientConfig};

use super::failure::MemberFailure;
use getid_system::trust::{Trust, TrustError, certificates, read_pem};
use getid_text::store_url::{EtcdAddress, StoreTls};

/// Most bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The answer of a member.
pub(super) struct MemberReply {
    pub(super) status: u16,
    pub(super) body: Bytes,
    /// Whether the connection takes another request.
    pub(super) is_reusable: bool,
}

/// A connection with one user at a time.
pub(super) struct MemberLink {
    sender: SendRequest<Full<Bytes>>,
    /// Future that moves the bytes. It is polled while a request is in progress, so it needs no task. `None` after it
    /// has ended.
    io: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    /// Runtime that watches the socket.
    runtime: runtime::Id,
    /// Whether the connection has had an answer before.
    is_proven: bool,
}

/// Reason why a request failed.
pub(super) enum ExchangeError {
    /// The request was not sent.
    Unsent(String),
    /// The request may have been sent.
    Sent(String),
    /// The member rejects this client's certificate, or its absence; nothing was done.
    NoCertificate(String),
    /// The answer is longer than permitted.
    TooLong,
}

impl MemberLink {
    /// Connects to a member. `place` is its name in errors.
    pub(super) async fn open(
        address: &EtcdAddress,
        host: &str,
        port: u16,
        place: &str,
    ) -> Result<MemberLink, MemberFailure> {
        let socket = TcpStream::connect((host, port)).await;
        let socket = socket.map_err(|error| MemberFailure::Away(format!("{place} is not reached: {error}")))?;
        // A request is one write, and the next waits for its answer.
        let _ = socket.set_nodelay(true);
        if address.tls == StoreTls::No {
            return MemberLink::of(socket, place).await;
        }
        let config = tls_config(address).await.map_err(|error| MemberFailure::Unfit(error.to_string()))?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| MemberFailure::Unfit(format!("{place}: a certificate cannot have the name '{host}'")))?;
        match TlsConnector::from(config).connect(name, socket).await {
            Ok(socket) => MemberLink::of(socket, place).await,
            Err(error) => Err(tls_failure(&error, place)),
        }
    }

    async fn of(
        socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        place: &str,
    ) -> Result<MemberLink, MemberFailure> {
        let made = http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(socket)).await;
        let (sender, io) = made.map_err(|error| MemberFailure::Away(format!("{place}: {error}")))?;
        Ok(MemberLink { sender, io: Some(Box::pin(io)), runtime: runtime::Handle::current().id(), is_proven: false })
    }

    /// Returns true if the connection may be used here: its socket wakes no task of another runtime.
    pub(super) fn is_of_this_runtime(&self) -> bool {
        self.runtime == runtime::Handle::current().id()
    }

    /// Returns true if the connection has had an answer before.
    pub(super) fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Returns true if the member has not closed the connection.
    pub(super) async fn is_open(&mut self) -> bool {
        // Let the runtime poll its sockets.
        tokio::task::yield_now().await;
        let Some(io) = &mut self.io else { return false };
        poll_fn(|context| Poll::Ready(io.as_mut().poll(context).is_pending())).await
    }

    /// Sends a request, and waits for the whole answer of at most `bytes_max` bytes. A caller that stops waiting must
    /// drop the link.
    pub(super) async fn ask(
        &mut self,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<MemberReply, ExchangeError> {
        let MemberLink { sender, io, is_proven, .. } = self;
        let mut exchange = pin!(exchange(sender, request, bytes_max, !*is_proven));
        let reply = loop {
            let Some(running) = io else { break exchange.await };
            tokio::select! {
                biased;
                reply = &mut exchange => break reply,
                // Drop the future, so that `exchange` learns that no answer will arrive.
                _ = running => *io = None,
            }
        }?;
        *is_proven = true;
        Ok(MemberReply { is_reusable: reply.is_reusable && io.is_some(), ..reply })
    }
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
    bytes_max: usize,
    is_first: bool,
) -> Result<MemberReply, ExchangeError> {
    sender.ready().await.map_err(|error| broken(&error, true, is_first))?;
    let response = sender.try_send_request(request).await;
    let response = response.map_err(|mut failed| {
        let is_unsent = failed.take_message().is_some();
        broken(failed.error(), is_unsent, is_first)
    })?;
    let status = response.status().as_u16();
    let closes = response.headers().get_all(hyper::header::CONNECTION).iter().any(|value| value == "close");
    match Limited::new(response.into_body(), bytes_max).collect().await {
        Ok(body) => Ok(MemberReply { status, body: body.to_bytes(), is_reusable: !closes }),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(ExchangeError::TooLong),
        Err(error) => Err(ExchangeError::Sent(with_sources(error.as_ref()))),
    }
}

fn broken(error: &hyper::Error, is_unsent: bool, is_first: bool) -> ExchangeError {
    let tls = std::iter::successors(std::error::Error::source(error), |error| error.source())
        .find_map(|error| error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>());
    match tls {
        // With TLS 1.3 a server checks a client's certificate after the client's part of the handshake.
        Some(rustls::Error::AlertReceived(alert)) if is_first && is_about_certificate(*alert) => {
            ExchangeError::NoCertificate(format!("{alert:?}"))
        }
        _ if is_unsent => ExchangeError::Unsent(with_sources(error)),
        _ => ExchangeError::Sent(with_sources(error)),
    }
}

fn with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn is_about_certificate(alert: AlertDescription) -> bool {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked, CertificateUnknown,
        UnknownCA, UnsupportedCertificate,
    };
    let known = [
        AccessDenied,
        BadCertificate,
        CertificateExpired,
        CertificateRequired,
        CertificateRevoked,
        CertificateUnknown,
        UnknownCA,
        UnsupportedCertificate,
    ];
    known.contains(&alert)
}

/// Reason why there is no TLS configuration.
#[derive(Debug, thiserror::Error)]
enum TlsConfigError {
    #[error("{0}: set ca-file= to the authority that signed those of etcd's members")]
    NoAuthorities(TrustError),
    #[error("{0}")]
    File(TrustError),
    #[error("{}: {error}; key-file= must be this certificate's key", .cert.display())]
    Key { cert: PathBuf, error: rustls::Error },
    #[error("the certificates could not be read: the runtime ends")]
    Ended,
}

impl From<TrustError> for TlsConfigError {
    fn from(error: TrustError) -> TlsConfigError {
        match error {
            TrustError::NoAuthorities(_) => TlsConfigError::NoAuthorities(error),
            _ => TlsConfigError::File(error),
        }
    }
}

/// Builds the TLS configuration from its files, so that a new certificate needs no restart.
async fn tls_config(address: &EtcdAddress) -> Result<Arc<ClientConfig>, TlsConfigError> {
    let (verifies, ca_file) = (address.tls == StoreTls::Verify, address.ca_file.clone());
    let own = address.cert_file.clone().zip(address.key_file.clone());
    let made = tokio::task::spawn_blocking(move || load(verifies, ca_file.as_deref(), own.as_ref()));
    made.await.map_err(|_| TlsConfigError::Ended)?
}

fn load(
    verifies: bool,
    ca_file: Option<&Path>,
    own: Option<&(PathBuf, PathBuf)>,
) -> Result<Arc<ClientConfig>, TlsConfigError> {
    let trust = match ca_file {
        _ if !verifies => Trust::AnyServer,
        Some(path) => Trust::Authorities(path),
        None => Trust::System,
    };
    let builder = trust.builder()?;
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let pem = read_pem(key)?;
            let key = PrivateKeyDer::from_pem_slice(&pem)
                .map_err(|_| TrustError::Content { path: key.clone(), what: "private key" })?;
            let made = builder.with_client_auth_cert(certificates(cert)?, key);
            made.map_err(|error| TlsConfigError::Key { cert: cert.clone(), error })?
        }
    };
    Ok(Arc::new(config))
}

fn tls_failure(error: &io::Error, place: &str) -> MemberFailure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => MemberFailure::Unfit(format!(
            "{place} has an invalid certificate: {error}; set ca-file= to the certificate of its signer; its name must \
             be that of the address"
        )),
        Some(rustls::Error::InvalidMessage(_)) => {
            MemberFailure::Unfit(format!("{place} does not use TLS ({error}): write tls=no, or enable TLS in etcd"))
        }
        Some(rustls::Error::AlertReceived(alert)) if is_about_certificate(*alert) => {
            MemberFailure::Unfit(no_certificate(place, &format!("{alert:?}")))
        }
        // An etcd without TLS behaves in the same way: the connection ends, or breaks with unread bytes.
        _ => MemberFailure::Away(format!(
            "{place} ended the TLS handshake ({error}): if it does not use TLS, write tls=no"
        )),
    }
}

/// Returns the error if a member rejects this client's certificate, or its absence.
pub(super) fn no_certificate(place: &str, alert: &str) -> String {
    format!(
        "{place} rejects this client's certificate ({alert}): set cert-file= and key-file= to one that its \
         --trusted-ca-file has signed"
    )
}
