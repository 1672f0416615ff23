//! The acceptor of encrypted streams, with the certificates that were loaded last.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::ServerConfig;

use super::certificates::{TlsError, end_warning};
use super::settings::TlsSettings;
use getid_config::TlsAuthClientsUser;
use getid_system::daily::DailySchedule;

/// Makes encrypted streams from sockets.
#[derive(Debug)]
pub struct Acceptor {
    loaded: RwLock<TlsConfigs>,
    pub(super) handshakes: AtomicU64,
    pub(super) failures: AtomicU64,
    /// Number of handshakes that resumed an earlier session.
    pub(super) resumed: AtomicU64,
    /// Schedule of the warning about the certificate's end.
    end: DailySchedule,
}

/// Settings, and the configurations made from their files.
#[derive(Debug)]
pub struct TlsConfigs {
    settings: TlsSettings,
    config: Arc<ServerConfig>,
    /// Configuration for clients of the HTTP port, some of which negotiate the protocol (ALPN).
    http_config: Arc<ServerConfig>,
    note: Option<String>,
    /// Last second of the server's certificate, Unix time, if it can be read.
    ends_s: Option<i64>,
}

impl TlsConfigs {
    /// Returns a note that is not worth an error, and was not logged yet.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns the warnings for an operator at `now_s`, Unix time.
    pub fn warnings(&self, now_s: i64) -> Vec<String> {
        self.note.iter().cloned().chain(self.end_warning(now_s)).collect()
    }

    fn end_warning(&self, now_s: i64) -> Option<String> {
        end_warning(self.ends_s?, now_s, &self.settings.cert_file)
    }

    fn logged(self) -> TlsConfigs {
        if let Some(note) = &self.note {
            tracing::warn!("{note}");
        }
        self
    }

    /// Reads the files of `settings`, for [`Acceptor::install`].
    ///
    /// # Errors
    ///
    /// [`TlsError`] for the first fault of one of them.
    pub fn new(settings: TlsSettings) -> Result<TlsConfigs, TlsError> {
        let mut note = None;
        let (config, ends_s) = settings.load(&mut note)?;
        let mut http_config = config.clone();
        http_config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConfigs { settings, config: Arc::new(config), http_config: Arc::new(http_config), note, ends_s })
    }
}

impl Acceptor {
    /// Reads the files of `settings`. Logs notes that are not worth an error.
    ///
    /// # Errors
    ///
    /// [`TlsError`] for the first fault of one of them.
    pub fn load(settings: TlsSettings) -> Result<Acceptor, TlsError> {
        let loaded = RwLock::new(TlsConfigs::new(settings)?.logged());
        Ok(Acceptor {
            loaded,
            handshakes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            end: DailySchedule::default(),
        })
    }

    /// Reads the same files again, for new connections.
    ///
    /// # Errors
    ///
    /// [`TlsError`] as for [`Acceptor::load`]; then the previous certificates stay.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.replace(self.settings())
    }

    /// Replaces the settings, for new connections.
    ///
    /// # Errors
    ///
    /// [`TlsError`] as for [`Acceptor::load`]; then the previous settings stay.
    pub fn replace(&self, settings: TlsSettings) -> Result<(), TlsError> {
        self.install(TlsConfigs::new(settings)?.logged());
        Ok(())
    }

    /// Uses loaded certificates from now on, for new connections.
    pub fn install(&self, loaded: TlsConfigs) {
        // The value is only replaced as a whole, so it is valid after a panic.
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        self.end.reset();
    }

    /// Returns the last second of the server's certificate, Unix time.
    pub(crate) fn ends_s(&self) -> Option<i64> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).ends_s
    }

    /// Returns the warning about the certificate's end at `now_s`, Unix time, if the end is near: once a day, and after
    /// each reload.
    pub fn warning(&self, now_s: i64) -> Option<String> {
        let is_due = self.end.is_due(now_s);
        is_due.then(|| self.loaded.read().unwrap_or_else(PoisonError::into_inner).end_warning(now_s))?
    }

    pub(crate) fn reset_counters(&self) {
        self.handshakes.store(0, Relaxed);
        self.failures.store(0, Relaxed);
        self.resumed.store(0, Relaxed);
    }

    pub fn settings(&self) -> TlsSettings {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).settings.clone()
    }

    pub fn handshakes(&self) -> u64 {
        self.handshakes.load(Relaxed)
    }

    /// Returns the number of failed handshakes. A peer that leaves in the middle of one, as a load balancer's check of
    /// the port does, is not counted.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    /// Returns the number of successful handshakes that resumed an earlier session.
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Relaxed)
    }

    /// Returns the library's configuration for a handshake, and whether the client's certificate names its user.
    pub(super) fn config(&self, is_http: bool) -> (Arc<ServerConfig>, bool) {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let config = if is_http { &loaded.http_config } else { &loaded.config };
        (Arc::clone(config), loaded.settings.auth_clients_user == TlsAuthClientsUser::CommonName)
    }
}
