//! The certificate authorities that this process trusts as the client of a TLS connection: those of a file, those of
//! the system, or none needed.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// The most that is read of a certificate or key file, bytes: all authorities that Linux distributions trust are 230
/// KB.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Which servers a client trusts.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Servers with a certificate for their name from an authority of this system.
    System,
    /// Servers with a certificate for their name from an authority in this PEM file.
    Authorities(&'a Path),
    /// Any server.
    AnyServer,
}

/// Why a trust cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be opened or read.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A file contains nothing of the expected kind.
    #[error("{}: there is no {what} in it; it must be PEM", .path.display())]
    Content {
        /// Path of the file.
        path: PathBuf,
        /// Expected content, such as "certificate".
        what: &'static str,
    },
    /// The system has no usable certificate of an authority. The text is empty, or the system's error in parentheses.
    #[error("this system has no certificates of authorities{0}")]
    NoAuthorities(String),
    /// rustls rejects the settings of the connection.
    #[error("TLS: {0}")]
    Other(#[from] rustls::Error),
}

impl Trust<'_> {
    /// Returns the start of a client configuration with this trust. Reads files.
    ///
    /// # Errors
    ///
    /// Fails if the authorities' certificates cannot be read, or none of them is usable.
    pub fn builder(self) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TrustError> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        Ok(match self {
            Trust::AnyServer => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyServer { provider }))
            }
            Trust::System => builder.with_root_certificates(of_system()?),
            Trust::Authorities(path) => builder.with_root_certificates(of_file(path)?),
        })
    }

    /// Returns the authorities' certificates, for a client that builds its own configuration. Reads files.
    ///
    /// # Errors
    ///
    /// Fails if the authorities' certificates cannot be read, or none of them is usable.
    #[cfg(feature = "mysql")]
    pub fn authorities(self) -> Result<Vec<CertificateDer<'static>>, TrustError> {
        let mut all = match self {
            Trust::AnyServer => Vec::new(),
            Trust::System => rustls_native_certs::load_native_certs().certs,
            Trust::Authorities(path) => certificates(path)?,
        };
        all.retain(|one| RootCertStore::empty().add(one.clone()).is_ok());
        match self {
            Trust::System if all.is_empty() => Err(TrustError::NoAuthorities(String::new())),
            Trust::Authorities(path) if all.is_empty() => Err(no_authority(path)),
            _ => Ok(all),
        }
    }
}

fn of_system() -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or(String::new(), |error| format!(" ({error})"));
        return Err(TrustError::NoAuthorities(why));
    }
    Ok(roots)
}

fn of_file(path: &Path) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates(path)?);
    if added == 0 {
        return Err(no_authority(path));
    }
    Ok(roots)
}

fn no_authority(path: &Path) -> TrustError {
    TrustError::Content { path: path.to_owned(), what: "certificate of an authority" }
}

/// Returns the certificates of a PEM file, at least one.
///
/// # Errors
///
/// Fails if the file cannot be read, contains no certificate, or contains a damaged one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let bytes = read_pem(path)?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&bytes).collect::<Result<_, _>>().unwrap_or_default();
    if certificates.is_empty() {
        return Err(TrustError::Content { path: path.to_owned(), what: "certificate" });
    }
    Ok(certificates)
}

/// Reads a certificate or key file, up to 4 MiB of it.
///
/// # Errors
///
/// Fails if the file cannot be opened or read.
pub fn read_pem(path: &Path) -> Result<Vec<u8>, TrustError> {
    let failed = |error| TrustError::Io { path: path.to_owned(), error };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// A verifier that accepts every certificate. It still checks that the server has the certificate's key.
#[derive(Debug)]
struct AcceptAnyServer {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAnyServer {
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
