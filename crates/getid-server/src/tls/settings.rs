//! The TLS settings of a configuration, and the library's configuration made from them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoClientAuth, NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    self, CipherSuite, InconsistentKeys, RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion,
};

use super::certificates::{AUTHORITY_BYTES_MAX, AUTHORITY_FILES_MAX, PemFile, TlsError, certificates, end_of, key};
use super::sessions::Sessions;
use getid_config::{Config, TlsAuthClients, TlsAuthClientsUser};

/// Files to load, and requirements for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The server's certificate, and those between it and its authority (`tls-cert-file`).
    pub cert_file: PathBuf,
    /// The server's key (`tls-key-file`).
    pub key_file: PathBuf,
    /// Authorities that may sign clients' certificates (`tls-ca-cert-file`).
    pub(crate) ca_cert_file: Option<PathBuf>,
    /// Folder of further authorities (`tls-ca-cert-dir`).
    pub(crate) ca_cert_dir: Option<PathBuf>,
    /// Whether clients need a certificate (`tls-auth-clients`).
    pub auth_clients: TlsAuthClients,
    /// Whether the certificate names the client's user (`tls-auth-clients-user`).
    pub(crate) auth_clients_user: TlsAuthClientsUser,
    /// Versions; empty: all (`tls-protocols`).
    pub protocols: Vec<&'static str>,
    /// Cipher suites of TLS 1.2; empty: all (`tls-ciphers`).
    pub ciphers: Vec<&'static str>,
    /// Cipher suites of TLS 1.3; empty: all (`tls-ciphersuites`).
    pub ciphersuites: Vec<&'static str>,
    /// Whether the server's order of suites takes precedence (`tls-prefer-server-ciphers`).
    pub(crate) prefers_own_order: bool,
    /// Number of sessions kept, and their lifetime; `None`: none (`tls-session-caching` and related directives).
    pub sessions: Option<(usize, Duration)>,
}

impl TlsSettings {
    /// Returns the settings of a configuration; `None` without TLS.
    pub fn of(config: &Config) -> Option<TlsSettings> {
        // A configuration with TLS and without these two does not load.
        let (cert_file, key_file) = config.tls_cert_file.clone().zip(config.tls_key_file.clone())?;
        config.has_tls().then(|| TlsSettings {
            cert_file,
            key_file,
            ca_cert_file: config.tls_ca_cert_file.clone(),
            ca_cert_dir: config.tls_ca_cert_dir.clone(),
            auth_clients: config.tls_auth_clients,
            auth_clients_user: config.tls_auth_clients_user,
            protocols: config.tls_protocols.clone(),
            ciphers: config.tls_ciphers.clone(),
            ciphersuites: config.tls_ciphersuites.clone(),
            prefers_own_order: config.tls_prefer_server_ciphers,
            sessions: config
                .tls_session_caching
                .then(|| (config.tls_session_cache_size, Duration::from_secs(config.tls_session_cache_timeout_s))),
        })
    }

    fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let is_on = |name| self.protocols.is_empty() || self.protocols.contains(&name);
        let all = [("TLSv1.3", &TLS13), ("TLSv1.2", &TLS12)];
        all.into_iter().filter(|(name, _)| is_on(name)).map(|(_, version)| version).collect()
    }

    /// Returns the library's provider with the chosen suites.
    fn provider(&self) -> CryptoProvider {
        let all = ring::default_provider();
        let cipher_suites =
            [chosen(&all.cipher_suites, true, &self.ciphersuites), chosen(&all.cipher_suites, false, &self.ciphers)];
        CryptoProvider { cipher_suites: cipher_suites.concat(), ..all }
    }

    pub(super) fn load(&self, note: &mut Option<String>) -> Result<(ServerConfig, Option<i64>), TlsError> {
        let provider = Arc::new(self.provider());
        let verifier = self.client_verifier(&provider, note)?;
        let certificates = certificates(PemFile::Certificate, &self.cert_file)?;
        let ends_s = certificates.first().and_then(end_of);
        let key = key(&self.key_file)?;
        // The key separately first, so that its fault is not mistaken for one of the certificate.
        if let Err(error) = provider.key_provider.load_private_key(key.clone_key()) {
            return Err(TlsError::Key { path: self.key_file.clone(), error });
        }
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions())
            .map_err(TlsError::Other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates, key)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    TlsError::Mismatch { cert: self.cert_file.clone(), key: self.key_file.clone() }
                }
                error => TlsError::Certificate { path: self.cert_file.clone(), error },
            })?;
        config.ignore_client_order = self.prefers_own_order;
        if let Some((count_max, timeout)) = self.sessions {
            config.session_storage = Arc::new(Sessions::new(count_max, timeout));
            // The library's default of two would take twice the memory, for clients that nearly all need one.
            config.send_tls13_tickets = 1;
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok((config, ends_s))
    }

    /// Returns the certificates of the authorities for clients', each with its directive and file.
    fn authorities(&self) -> Result<Vec<(PemFile, PathBuf, Vec<CertificateDer<'static>>)>, TlsError> {
        let mut all = Vec::new();
        if let Some(path) = &self.ca_cert_file {
            all.push((PemFile::Authority, path.clone(), certificates(PemFile::Authority, path)?));
        }
        let Some(folder) = &self.ca_cert_dir else { return Ok(all) };
        let what = PemFile::AuthorityDir;
        let fail = |error| TlsError::Folder { path: folder.clone(), error };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            // Follows links, with which such a folder names its files once more by their hash.
            if std::fs::metadata(&path).is_ok_and(|found| found.is_file()) {
                paths.push(path);
            }
            if paths.len() > AUTHORITY_FILES_MAX {
                return Err(TlsError::TooMany { path: folder.clone() });
            }
        }
        paths.sort();
        let (mut bytes, before) = (0, all.len());
        for path in paths {
            match certificates(what, &path) {
                Ok(found) => {
                    bytes += found.iter().map(|certificate| certificate.len()).sum::<usize>();
                    if bytes > AUTHORITY_BYTES_MAX {
                        return Err(TlsError::TooMany { path: folder.clone() });
                    }
                    all.push((what, path, found));
                }
                // It may have keys, revocation lists, and a README.
                Err(TlsError::Nothing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if all.len() == before {
            return Err(TlsError::EmptyFolder { path: folder.clone() });
        }
        Ok(all)
    }

    fn client_verifier(
        &self,
        provider: &Arc<CryptoProvider>,
        note: &mut Option<String>,
    ) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        if self.auth_clients == TlsAuthClients::No {
            return Ok(Arc::new(NoClientAuth));
        }
        let auth_clients = self.auth_clients;
        if self.ca_cert_file.is_none() && self.ca_cert_dir.is_none() {
            return Err(TlsError::NoAuthority { auth_clients });
        }
        let mut roots = RootCertStore::empty();
        let mut last_error = None;
        let mut ignored = 0;
        for (what, path, found) in self.authorities()? {
            for certificate in found {
                if let Err(error) = roots.add(certificate) {
                    ignored += 1;
                    last_error = Some((what, path.clone(), error));
                }
            }
        }
        match last_error {
            // A file with all the authorities of a distribution may have an unusable one.
            Some((what, path, error)) if !roots.is_empty() => {
                *note = Some(format!(
                    "{what} {}: {ignored} certificates cannot be used and are ignored: {error}",
                    path.display()
                ));
            }
            Some((what, path, error)) => return Err(TlsError::Authority { what, path, error }),
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

/// Returns the library's name for a cipher suite of a configuration: [`suites`](getid_config::suites).
fn suite(name: &str) -> Option<CipherSuite> {
    Some(match name {
        "TLS_AES_128_GCM_SHA256" => CipherSuite::TLS13_AES_128_GCM_SHA256,
        "TLS_AES_256_GCM_SHA384" => CipherSuite::TLS13_AES_256_GCM_SHA384,
        "TLS_CHACHA20_POLY1305_SHA256" => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        "ECDHE-ECDSA-AES128-GCM-SHA256" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-ECDSA-AES256-GCM-SHA384" => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-ECDSA-CHACHA20-POLY1305" => CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        "ECDHE-RSA-AES128-GCM-SHA256" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        "ECDHE-RSA-AES256-GCM-SHA384" => CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        "ECDHE-RSA-CHACHA20-POLY1305" => CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        _ => return None,
    })
}

/// Returns the library's suites for TLS 1.3 or 1.2 that are named, in that order; all if none is named.
fn chosen(all: &[SupportedCipherSuite], is_13: bool, names: &[&str]) -> Vec<SupportedCipherSuite> {
    let of_version = all.iter().filter(|suite| suite.tls13().is_some() == is_13).copied();
    if names.is_empty() {
        return of_version.collect();
    }
    let suites = names.iter().filter_map(|name| suite(name));
    suites.filter_map(|name| of_version.clone().find(|suite| suite.suite() == name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use getid_config::suites::{PROTOCOLS, SUITES_12, SUITES_13};

    /// A configuration can name exactly the library's suites.
    #[test]
    fn every_name_is_a_suite_of_the_library() {
        let all = ring::default_provider().cipher_suites;
        for (is_13, names) in [(true, SUITES_13), (false, SUITES_12)] {
            let found = chosen(&all, is_13, names);
            assert_eq!(found.len(), names.len());
            assert_eq!(found, chosen(&all, is_13, &[]), "in the library's order, the best first");
            assert_eq!(chosen(&all, is_13, &names[1..2]), found[1..2]);
        }
        assert_eq!(PROTOCOLS.len(), rustls::ALL_VERSIONS.len());
    }
}
