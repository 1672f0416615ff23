//! What makes encrypted streams of sockets, by the certificates that were loaded last.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::ServerConfig;

use super::certificates::{TlsError, end_warning};
use super::settings::Settings;
use crate::config::TlsAuthClientsUser;
use crate::system::daily::Daily;

/// Makes encrypted streams of sockets.
#[derive(Debug)]
pub struct Acceptor {
    loaded: RwLock<Loaded>,
    pub(super) handshakes: AtomicU64,
    pub(super) failures: AtomicU64,
    /// Handshakes that went on with an earlier session.
    pub(super) resumed: AtomicU64,
    /// Whether the certificate's end is to be looked at.
    end: Daily,
}

/// Settings and what was made of their files.
#[derive(Debug)]
pub struct Loaded {
    settings: Settings,
    config: Arc<ServerConfig>,
    /// The same for clients of the HTTP port, some of which ask what is spoken there.
    http_config: Arc<ServerConfig>,
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
        let mut http_config = config.clone();
        http_config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Loaded { settings, config: Arc::new(config), http_config: Arc::new(http_config), note, ends_s })
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
            end: Daily::default(),
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

    /// Uses other settings from now on, for new connections.
    ///
    /// # Errors
    ///
    /// As [`Acceptor::load`]; then the settings stay as they were.
    pub fn replace(&self, settings: Settings) -> Result<(), TlsError> {
        self.install(Loaded::new(settings)?.logged());
        Ok(())
    }

    /// Uses what was loaded from now on, for new connections.
    pub fn install(&self, loaded: Loaded) {
        // The value is only replaced as a whole, so one that a panic left is as good as any.
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        self.end.reset();
    }

    /// The last second of the server's certificate, Unix time.
    pub fn ends_s(&self) -> Option<i64> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).ends_s
    }

    /// What is to be said of the certificate's end at `now_s`, Unix time: once a day, and after each reload, when it is
    /// near.
    pub fn warning(&self, now_s: i64) -> Option<String> {
        let is_due = self.end.is_due(now_s);
        is_due.then(|| self.loaded.read().unwrap_or_else(PoisonError::into_inner).end_warning(now_s))?
    }

    pub fn reset_counters(&self) {
        self.handshakes.store(0, Relaxed);
        self.failures.store(0, Relaxed);
        self.resumed.store(0, Relaxed);
    }

    pub fn settings(&self) -> Settings {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).settings.clone()
    }

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

    /// The library's configuration for a handshake, and whether the client's certificate says who it is.
    pub(super) fn config(&self, is_http: bool) -> (Arc<ServerConfig>, bool) {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let config = if is_http { &loaded.http_config } else { &loaded.config };
        (Arc::clone(config), loaded.settings.auth_clients_user == TlsAuthClientsUser::CommonName)
    }
}
