//! TLS by rustls, with the feature `rustls`.

use std::io;

use crate::connection::{SharedSocket, Stream};

#[cfg(feature = "rustls")]
pub(crate) type TlsConfig = std::sync::Arc<rustls::ClientConfig>;
#[cfg(not(feature = "rustls"))]
pub(crate) type TlsConfig = std::convert::Infallible;

/// Whether this build has TLS.
pub(crate) const HAS_TLS: bool = cfg!(feature = "rustls");

/// Encrypts a connection. Completes the handshake before the socket's deadline.
#[cfg(feature = "rustls")]
pub(crate) fn wrap(host: &str, mut socket: SharedSocket, tls: Option<&TlsConfig>) -> io::Result<Box<dyn Stream>> {
    use rustls::pki_types::ServerName;

    let config = tls.map_or_else(system_config, |config| Ok(config.clone()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let mut session = rustls::ClientConnection::new(config, name).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut socket)?;
    }
    Ok(Box::new(rustls::StreamOwned::new(session, socket)))
}

/// Returns settings with the certificate authorities that the system trusts.
#[cfg(feature = "rustls")]
fn system_config() -> io::Result<TlsConfig> {
    use std::sync::Arc;

    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(io::Error::other("no certificate authority found: install ca-certificates, or give a tls_config"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

#[cfg(not(feature = "rustls"))]
pub(crate) fn wrap(_: &str, _: SharedSocket, _: Option<&TlsConfig>) -> io::Result<Box<dyn Stream>> {
    Err(io::Error::other("this build has no TLS: run 'cargo add getid-client --features rustls'"))
}
