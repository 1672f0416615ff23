//! TLS on `tls-port`: certificates in, encrypted streams out.
//!
//! Everything that can be wrong with certificates is found when they are loaded, at the start or at a reload, never
//! when a client comes. A reload replaces all of it or nothing: connections that are open go on as they are, new ones
//! get what was loaded last.
//!
//! A handshake has a task of its own and is given [`HANDSHAKE_PATIENCE`], so a slow client delays nobody. Only when it
//! is done does the client take a place of `maxclients`; how many may be under way, the server says.
//!
//! A client may go on with an earlier session for a while (`tls-session-caching`). What that takes is kept here and not
//! with the client, and goes with the certificates that it was made with: after a reload nobody comes in by a
//! certificate that is not trusted any more.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Timeout;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{
    NoClientAuth, NoServerSessionStorage, ServerSessionMemoryCache, StoresServerSessions, WebPkiClientVerifier,
};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    self, CipherSuite, InconsistentKeys, InvalidMessage, RootCertStore, ServerConfig, SupportedCipherSuite,
    SupportedProtocolVersion,
};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use crate::config::{Config, TlsAuthClients, TlsAuthClientsUser};
use crate::system::files;

/// Time for a client to finish its handshake, from its connection on. A handshake takes two round trips.
pub const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of a certificate or key file: all the authorities that Linux distributions trust are 230 KB.
const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Files of `tls-ca-cert-dir` that are read, at most.
const AUTHORITY_FILES_MAX: usize = 1000;

/// Bytes of them together.
const AUTHORITY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The largest session that is kept, bytes: one with a client's chain of certificates is 1 to 3 KB.
const SESSION_BYTES_MAX: usize = 4096;

/// A certificate that ends sooner than this is warned of, seconds.
const ENDS_SOON_S: i64 = 30 * DAY_S;

/// A warning of that is repeated after this long, seconds.
const WARN_EVERY_S: i64 = DAY_S;

const DAY_S: i64 = 24 * 3600;

/// Makes encrypted streams of sockets.
#[derive(Debug)]
pub struct Acceptor {
    loaded: RwLock<Loaded>,
    handshakes: AtomicU64,
    failures: AtomicU64,
    /// Handshakes that went on with an earlier session.
    resumed: AtomicU64,
    /// When the certificate's end is to be looked at next, Unix seconds.
    look_at_end_s: AtomicI64,
}

/// Settings and what was made of their files.
#[derive(Debug)]
pub struct Loaded {
    settings: Settings,
    config: Arc<ServerConfig>,
    note: Option<String>,
    /// The last second of the server's certificate, Unix time, if it can be read.
    ends_s: Option<i64>,
}

impl Loaded {
    /// What is not worth an error, and was not logged yet.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// What an operator should know of it at `now_s`, Unix time.
    pub fn warnings(&self, now_s: i64) -> Vec<String> {
        self.note.iter().cloned().chain(self.end_warning(now_s)).collect()
    }

    fn end_warning(&self, now_s: i64) -> Option<String> {
        end_warning(self.ends_s?, now_s, &self.settings.cert_file)
    }

    fn logged(self) -> Loaded {
        if let Some(note) = &self.note {
            tracing::warn!("{note}");
        }
        self
    }

    /// Reads the files that `settings` name, for [`Acceptor::install`].
    ///
    /// # Errors
    ///
    /// As [`Acceptor::load`].
    pub fn new(settings: Settings) -> Result<Loaded, TlsError> {
        let mut note = None;
        let (config, ends_s) = settings.load(&mut note)?;
        Ok(Loaded { settings, config: Arc::new(config), note, ends_s })
    }
}

impl Acceptor {
    /// Reads the files that `settings` name. What is not worth an error is logged.
    ///
    /// # Errors
    ///
    /// [`TlsError`] for the first thing that is wrong with one of them.
    pub fn load(settings: Settings) -> Result<Acceptor, TlsError> {
        let loaded = RwLock::new(Loaded::new(settings)?.logged());
        Ok(Acceptor {
            loaded,
            handshakes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            look_at_end_s: AtomicI64::new(i64::MIN),
        })
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
        self.install(Loaded::new(settings)?.logged());
        Ok(())
    }

    /// Goes by what was loaded from now on, for new connections.
    pub fn install(&self, loaded: Loaded) {
        // A pair is only replaced whole, so one that a panic left is as good as any.
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        self.look_at_end_s.store(i64::MIN, Relaxed);
    }

    /// The last second of the server's certificate, Unix time.
    pub fn ends_s(&self) -> Option<i64> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).ends_s
    }

    /// What is to be said of the certificate's end at `now_s`, Unix time: once a day, and after each reload, when it is
    /// near.
    pub fn warning(&self, now_s: i64) -> Option<String> {
        let next_s = self.look_at_end_s.load(Relaxed);
        // A clock that was set back looks again.
        if now_s < next_s && next_s - now_s <= WARN_EVERY_S {
            return None;
        }
        self.look_at_end_s.store(now_s.saturating_add(WARN_EVERY_S), Relaxed);
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).end_warning(now_s)
    }

    /// Counts handshakes anew.
    pub fn reset_counters(&self) {
        self.handshakes.store(0, Relaxed);
        self.failures.store(0, Relaxed);
        self.resumed.store(0, Relaxed);
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

    /// Of those that succeeded, how many went on with an earlier session.
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Relaxed)
    }

    /// What a handshake goes by, and whether the client's certificate says who it is.
    fn config(&self) -> (Arc<ServerConfig>, bool) {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&loaded.config), loaded.settings.auth_clients_user == TlsAuthClientsUser::CommonName)
    }
}

/// What is to be said of a certificate that ends at `ends_s` when it is `now_s`, both Unix time; nothing if that is far
/// off.
fn end_warning(ends_s: i64, now_s: i64, path: &Path) -> Option<String> {
    let path = path.display();
    let left_s = ends_s.saturating_sub(now_s);
    match left_s {
        ..0 => Some(format!(
            "tls-cert-file {path}: the certificate has ended: clients refuse it. Renew it; SIGHUP loads it"
        )),
        0..DAY_S => Some(format!("tls-cert-file {path}: the certificate ends within a day. Renew it; SIGHUP loads it")),
        DAY_S..ENDS_SOON_S => Some(format!(
            "tls-cert-file {path}: the certificate ends in {} days. Renew it; SIGHUP loads it",
            left_s / DAY_S
        )),
        _ => None,
    }
}

/// The last second of a certificate, Unix time.
fn end_of(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// The common name of a certificate's subject. One that has several says nothing: whose is it?
fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    match (names.next(), names.next()) {
        (Some(name), None) => name.as_str().ok().map(str::to_owned),
        _ => None,
    }
}

/// Sessions that clients may go on with: so many, and each for a while.
#[derive(Debug)]
struct Sessions {
    cache: Arc<ServerSessionMemoryCache>,
    timeout: Duration,
    /// Ages count from here.
    started: Instant,
}

impl Sessions {
    fn new(count_max: usize, timeout: Duration) -> Sessions {
        Sessions { cache: ServerSessionMemoryCache::new(count_max), timeout, started: Instant::now() }
    }

    /// A session without its age, if it is not too old.
    fn fresh(&self, mut value: Vec<u8>) -> Option<Vec<u8>> {
        let age = value.split_off(value.len().checked_sub(size_of::<u64>())?);
        let kept_s = u64::from_le_bytes(age.try_into().ok()?);
        (self.started.elapsed().as_secs().saturating_sub(kept_s) < self.timeout.as_secs()).then_some(value)
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, mut value: Vec<u8>) -> bool {
        if value.len() > SESSION_BYTES_MAX {
            return false;
        }
        value.extend_from_slice(&self.started.elapsed().as_secs().to_le_bytes());
        value.shrink_to_fit();
        self.cache.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(self.cache.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(self.cache.take(key)?)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// The library's name for a cipher suite that a configuration names: [`suites`](crate::config::suites).
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

/// Of what the library has for TLS 1.3 or 1.2, those that are named, in that order; all if none is.
fn chosen(all: &[SupportedCipherSuite], is_13: bool, names: &[&str]) -> Vec<SupportedCipherSuite> {
    let of_version = all.iter().filter(|suite| suite.tls13().is_some() == is_13).copied();
    if names.is_empty() {
        return of_version.collect();
    }
    let wanted = names.iter().filter_map(|name| suite(name));
    wanted.filter_map(|name| of_version.clone().find(|suite| suite.suite() == name)).collect()
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
    /// More of those (`tls-ca-cert-dir`).
    pub ca_cert_dir: Option<PathBuf>,
    /// Whether clients need a certificate (`tls-auth-clients`).
    pub auth_clients: TlsAuthClients,
    /// Whether it says who the client is (`tls-auth-clients-user`).
    pub auth_clients_user: TlsAuthClientsUser,
    /// Versions; empty: all (`tls-protocols`).
    pub protocols: Vec<&'static str>,
    /// Cipher suites of TLS 1.2; empty: all (`tls-ciphers`).
    pub ciphers: Vec<&'static str>,
    /// Cipher suites of TLS 1.3; empty: all (`tls-ciphersuites`).
    pub ciphersuites: Vec<&'static str>,
    /// Whether the server's order of suites counts (`tls-prefer-server-ciphers`).
    pub prefers_own_order: bool,
    /// How many sessions are kept, and for how long; `None`: none (`tls-session-caching` and its sisters).
    pub sessions: Option<(usize, Duration)>,
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

    /// The library with the suites that are chosen.
    fn provider(&self) -> CryptoProvider {
        let all = ring::default_provider();
        let cipher_suites =
            [chosen(&all.cipher_suites, true, &self.ciphersuites), chosen(&all.cipher_suites, false, &self.ciphers)];
        CryptoProvider { cipher_suites: cipher_suites.concat(), ..all }
    }

    fn load(&self, note: &mut Option<String>) -> Result<(ServerConfig, Option<i64>), TlsError> {
        let provider = Arc::new(self.provider());
        let verifier = self.client_verifier(&provider, note)?;
        let certificates = certificates(What::Certificate, &self.cert_file)?;
        let ends_s = certificates.first().and_then(end_of);
        let key = key(&self.key_file)?;
        // The key by itself first, so that a fault of it is not taken for one of the certificate.
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
            // The library's two would be twice the memory for clients that nearly all need one.
            config.send_tls13_tickets = 1;
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok((config, ends_s))
    }

    /// Certificates of those who may sign clients', each with the directive and the file it is from.
    fn authorities(&self) -> Result<Vec<(What, PathBuf, Vec<CertificateDer<'static>>)>, TlsError> {
        let mut all = Vec::new();
        if let Some(path) = &self.ca_cert_file {
            all.push((What::Authority, path.clone(), certificates(What::Authority, path)?));
        }
        let Some(folder) = &self.ca_cert_dir else { return Ok(all) };
        let what = What::AuthorityDir;
        let fail = |error| TlsError::Folder { path: folder.clone(), error };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            // Through links, by which such a folder names its files once more by their hash.
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
                // It may have keys, lists of what was revoked, and a README.
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
        let mut passed_over = 0;
        for (what, path, found) in self.authorities()? {
            for certificate in found {
                if let Err(error) = roots.add(certificate) {
                    passed_over += 1;
                    last_error = Some((what, path.clone(), error));
                }
            }
        }
        match last_error {
            // A file of all the authorities of a distribution may have one that nobody can use.
            Some((what, path, error)) if !roots.is_empty() => {
                *note = Some(format!(
                    "{what} {}: {passed_over} certificates cannot be used and are passed over: {error}",
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
    let bytes = files::read(path, FILE_BYTES_MAX).map_err(fail)?;
    if bytes.len() > FILE_BYTES_MAX {
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
    /// A folder that does not open.
    #[error("tls-ca-cert-dir {}: cannot be read: {error}. Give a folder of PEM files that getid's user may read", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A folder without a certificate.
    #[error("tls-ca-cert-dir {}: no certificate in any of its files. Give a folder of authorities' certificates, PEM", .path.display())]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A folder that is more than one of authorities.
    #[error(
        "tls-ca-cert-dir {}: more than {AUTHORITY_FILES_MAX} files, or {AUTHORITY_BYTES_MAX} bytes of certificates. Give a \
         folder that has authorities' certificates only", .path.display()
    )]
    TooMany {
        /// The folder.
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
        "tls-auth-clients is {}, but there is no tls-ca-cert-file and no tls-ca-cert-dir to check clients' certificates by. \
         Set one, or set tls-auth-clients no", .auth_clients.word()
    )]
    NoAuthority {
        /// What is asked of clients.
        auth_clients: TlsAuthClients,
    },
    /// An authority that is none.
    #[error("{what} {}: no certificate in it can be used: {error}. Each must be X.509 version 3", .path.display())]
    Authority {
        /// Its directive.
        what: What,
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
    /// `tls-ca-cert-dir`
    AuthorityDir,
}

impl What {
    fn thing(self) -> &'static str {
        match self {
            What::Certificate | What::Authority | What::AuthorityDir => "certificate",
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
            What::AuthorityDir => "tls-ca-cert-dir",
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
    /// Whom the client's certificate names, from the end of the handshake until somebody asks.
    user: Option<String>,
}

/// Boxed, so that the stream is small: nothing moves when a handshake ends.
#[derive(Debug)]
enum State {
    Fresh(TcpStream),
    Handshake(Handshake),
    Open(Box<TlsStream<TcpStream>>),
    Failed,
}

struct Handshake {
    accept: Pin<Box<Timeout<Accept<TcpStream>>>>,
    /// Whether the client's certificate says who it is.
    names_user: bool,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshake")
    }
}

impl Stream {
    /// A stream on a socket that nothing was read from yet.
    pub fn new(socket: TcpStream, acceptor: Arc<Acceptor>) -> Stream {
        Stream { acceptor, state: State::Fresh(socket), user: None }
    }

    /// The opposite, as long as nothing was read or written.
    pub fn into_fresh(self) -> Option<(TcpStream, Arc<Acceptor>)> {
        match self.state {
            State::Fresh(socket) => Some((socket, self.acceptor)),
            _ => None,
        }
    }

    /// The socket below; `None` once a handshake failed.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match &self.state {
            State::Fresh(socket) => Some(socket),
            State::Handshake(handshake) => handshake.accept.get_ref().get_ref(),
            State::Open(stream) => Some(stream.get_ref().0),
            State::Failed => None,
        }
    }

    /// Does the handshake, if it is not done.
    ///
    /// # Errors
    ///
    /// Why it failed.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_open(cx).map_ok(|_| ())
    }

    /// The name of the user that the client's certificate says it is, once, behind the handshake.
    pub fn take_user(&mut self) -> Option<String> {
        self.user.take()
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
                let (config, names_user) = self.acceptor.config();
                let accept = TlsAcceptor::from(config).accept(socket);
                Handshake { accept: Box::pin(tokio::time::timeout(HANDSHAKE_PATIENCE, accept)), names_user }
            }
            State::Handshake(handshake) => handshake,
            State::Open(_) | State::Failed => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        };
        let error = match handshake.accept.as_mut().poll(cx) {
            Poll::Pending => {
                self.state = State::Handshake(handshake);
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
                // In TLS 1.3 the client speaks last. One that leaves Nagle's algorithm on holds its first request back
                // until that is acknowledged, which the kernel would put off by 40 ms. Where it can't be told, it is
                // only slow.
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
            // Many clients close their socket without close_notify. Nothing can be cut off unnoticed: a request says
            // how long it is.
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
    use crate::config::suites::{PROTOCOLS, SUITES_12, SUITES_13};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;

    /// What a configuration may name is what the library has, all of it.
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

    #[test]
    fn a_certificate_is_warned_of_a_month_before_its_end() {
        let at = |days: i64| end_warning(1_000_000_000, 1_000_000_000 - days * DAY_S - 10, Path::new("c"));
        assert_eq!([at(400), at(30)], [None, None]);
        assert!(at(29).unwrap().contains("ends in 29 days"));
        assert!(at(0).unwrap().contains("ends within a day"));
        assert!(at(-1).unwrap().contains("has ended"));
    }

    #[test]
    fn a_session_is_kept_for_a_while_and_no_large_one() {
        let sessions = Sessions::new(100, Duration::from_mins(5));
        assert!(sessions.put(vec![1], vec![7; 100]));
        assert_eq!(sessions.get(&[1]), Some(vec![7; 100]));
        assert_eq!(sessions.take(&[1]), Some(vec![7; 100]));
        assert_eq!(sessions.take(&[1]), None);
        assert!(!sessions.put(vec![2], vec![7; SESSION_BYTES_MAX + 1]));
        let short = Sessions::new(100, Duration::ZERO);
        assert!(short.put(vec![1], vec![7; 100]));
        assert_eq!(short.get(&[1]), None);
    }

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
        let settings = Settings::of(&config).unwrap();
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
        assert!(stream.tcp().is_none());
        assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::NotConnected);
        assert_eq!(stream.write(b"x").await.unwrap_err().kind(), io::ErrorKind::NotConnected);
        stream.shutdown().await.unwrap();
    }
}
