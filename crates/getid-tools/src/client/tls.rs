//! TLS of the tools: the trusted authorities, and the client's certificate.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{self, ClientConfig};

use crate::address::Address;
use getid_system::trust::{Trust, TrustError, certificates, read_pem};

/// Files with the trusted authorities and the client's certificate.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Authorities that may have signed the server's certificate; `None` for those that the system trusts.
    pub authorities: Option<PathBuf>,
    /// Files with the client's certificate and its private key; `None` to present no certificate.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The name that the certificate must have, if it differs from the host's.
    pub server_name: Option<String>,
    /// Whether any certificate is accepted.
    pub insecure: bool,
}

/// Settings of TLS connections: trust, client certificate and expected server name.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    server_name: Option<String>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// Reason why TLS cannot be set up from files.
#[derive(Debug, thiserror::Error)]
pub enum TlsFileError {
    /// The system has no trusted authorities.
    #[error("{0}: --cacert FILE gives the authority that signed the server's certificate")]
    NoAuthorities(TrustError),
    /// A file cannot be read, or is not PEM.
    #[error("{0}")]
    File(TrustError),
    /// The client's certificate and key cannot be used.
    #[error("the client's certificate {}: {error}", .path.display())]
    Client {
        /// Path of the certificate.
        path: PathBuf,
        /// Reason why rustls refuses the certificate or its key.
        error: rustls::Error,
    },
}

impl From<TrustError> for TlsFileError {
    fn from(error: TrustError) -> TlsFileError {
        match error {
            TrustError::NoAuthorities(_) => TlsFileError::NoAuthorities(error),
            _ => TlsFileError::File(error),
        }
    }
}

impl Tls {
    /// Reads the files and builds the settings.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or parsed, no authority is trusted, or the client's certificate and key are
    /// unusable.
    pub fn load(files: &TlsFiles) -> Result<Tls, TlsFileError> {
        let trust = match &files.authorities {
            _ if files.insecure => Trust::AnyServer,
            Some(path) => Trust::Authorities(path),
            None => Trust::System,
        };
        let builder = trust.builder()?;
        let config = match &files.client {
            None => builder.with_no_client_auth(),
            Some((path, key)) => builder
                .with_client_auth_cert(certificates(path)?, read_key(key)?)
                .map_err(|error| TlsFileError::Client { path: path.clone(), error })?,
        };
        Ok(Tls { config: Arc::new(config), server_name: files.server_name.clone() })
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// Returns the name that the certificate of the server at an address must have.
    pub(super) fn expected_name<'a>(&'a self, address: &'a Address) -> &'a str {
        match (&self.server_name, address) {
            (Some(name), _) => name,
            (None, Address::Tcp { host, .. }) => host,
            (None, Address::Unix(_)) => "localhost",
        }
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    let content = |_| TrustError::Content { path: path.to_owned(), what: "private key" };
    Ok(PrivateKeyDer::from_pem_slice(&read_pem(path)?).map_err(content)?)
}
