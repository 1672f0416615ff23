//! Whom a tool trusts, and who it says it is.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::ClientError;
use crate::tools::address::Address;

/// Bytes of a certificate or key file: all the authorities that Linux distributions trust are 230 KB.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Which files say whom to trust.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    /// Who may have signed the server's certificate; without it, those whom this system trusts.
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) client: Option<(PathBuf, PathBuf)>,
    /// The name that the certificate must have, where it is not the host's.
    pub(crate) server_name: Option<String>,
    /// Anybody may be the server.
    pub(crate) insecure: bool,
}

#[derive(Clone)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsFileError {
    #[error("{}: {error}", .path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{}: there is no {what} in it; it must be PEM", .path.display())]
    Content { path: PathBuf, what: &'static str },
    #[error("the client's certificate {}: {error}", .path.display())]
    Client { path: PathBuf, error: rustls::Error },
    #[error("this system has no certificates of authorities{0}: --cacert FILE names who signed the server's")]
    NoAuthorities(String),
    #[error("TLS: {0}")]
    Other(#[from] rustls::Error),
}

impl Tls {
    pub(crate) fn load(files: &TlsFiles) -> Result<Tls, TlsFileError> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let builder = if files.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody { provider }))
        } else {
            builder.with_root_certificates(roots(files.authorities.as_deref())?)
        };
        let config = match &files.client {
            None => builder.with_no_client_auth(),
            Some((path, key)) => builder
                .with_client_auth_cert(certificates(path)?, read_key(key)?)
                .map_err(|error| TlsFileError::Client { path: path.clone(), error })?,
        };
        Ok(Tls { config: Arc::new(config), server_name: files.server_name.clone() })
    }

    pub(super) fn connection(&self, address: &Address) -> Result<ClientConnection, ClientError> {
        let host = match (&self.server_name, address) {
            (Some(name), _) => name,
            (None, Address::Tcp { host, .. }) => host,
            (None, Address::Unix(_)) => "localhost",
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| ClientError::ServerName(host.to_owned()))?;
        ClientConnection::new(Arc::clone(&self.config), name).map_err(ClientError::Tls)
    }
}

fn roots(path: Option<&Path>) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = path else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = found.errors.first().map_or(String::new(), |error| format!(" ({error})"));
            return Err(TlsFileError::NoAuthorities(why));
        }
        return Ok(roots);
    };
    let (added, _) = roots.add_parsable_certificates(certificates(path)?);
    if added == 0 {
        return Err(TlsFileError::Content { path: path.to_owned(), what: "certificate of an authority" });
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let bytes = read(path)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().unwrap_or_default();
    if certificates.is_empty() {
        return Err(TlsFileError::Content { path: path.to_owned(), what: "certificate" });
    }
    Ok(certificates)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|_| TlsFileError::Content { path: path.to_owned(), what: "private key" })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    let failed = |error| TlsFileError::Io { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Takes every certificate, as `--insecure` says. That the server has the certificate's key is still checked.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
