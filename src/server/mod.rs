//! One server: its sockets, its clients, and what they may ask of it as a whole.
//!
//! This file has what the connections of a process share, and nothing that uses it. [`accept`] takes clients in and
//! hands each to a [`connection`], which reads, draws and writes. Sessions know nothing of each other; where a command
//! needs the server (INFO, CLIENT LIST, CONFIG GET, SHUTDOWN), it comes here as an effect (`effects`).

#![expect(missing_docs, reason = "only the program of this crate uses the server, and most names say enough")]

pub mod accept;
mod access;
pub mod acl_file;
mod audit;
mod changes;
mod closed;
pub mod connection;
mod cursors;
mod declare;
mod effects;
mod facts;
pub mod handshakes;
pub mod housekeeping;
pub mod listen;
pub(crate) mod monitor;
mod output_limit;
pub mod panic_watch;
pub mod pause;
pub mod registry;
mod reload;
pub mod settings;
mod slow;
pub mod snapshot;
pub mod tls;
pub mod transport;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Notify;

use crate::acl::{AclLog, LoginLimiter, LoginLog};
use crate::claim::status::{ClaimRole, ClaimView};
use crate::config::{Config, Sources};
use crate::generators::Generators;
use crate::generators::time::Issuer;
use crate::logging::Log;
use crate::logging::throttle::LogThrottle;
use crate::metrics::Metrics;
use crate::server::changes::Changes;
use crate::server::cursors::Cursors;
use crate::server::handshakes::Handshakes;
use crate::server::monitor::Monitors;
use crate::server::pause::Pauses;
use crate::server::registry::{Clients, Stop};
use crate::server::snapshot::Snapshot;
use crate::session::Settings;
use crate::stats::{Events, SlowLog};
use crate::system::usage;
use crate::workers::Workers;

/// Everything the connections of a process share.
pub struct Server {
    pub config: Snapshot<Config>,
    /// The settings of sessions; connections look for new ones before each read.
    pub settings: Snapshot<Settings>,
    pub generators: Generators,
    pub metrics: Metrics,
    pub clients: Arc<Clients>,
    /// Connections in the TLS handshake, which are no clients yet.
    pub handshakes: Arc<Handshakes>,
    pub pauses: Pauses,
    /// What differs from process to process.
    pub process: Process,
    /// Certificates, with `tls-port`.
    pub tls: Option<Arc<tls::Acceptor>>,
    /// Clients that see every command.
    pub monitors: Arc<Monitors>,
    slow_log: Mutex<SlowLog>,
    /// What LATENCY tells.
    events: Mutex<Events>,
    /// Refusals, for `ACL LOG`.
    acl_log: Mutex<AclLog>,
    /// How fast passwords are tried, by address.
    login_limiter: Mutex<LoginLimiter>,
    /// Which logins have a line in the log.
    login_log: Mutex<LoginLog>,
    /// What `loglevel` is told to.
    pub log: Log,
    /// Limits the lines that clients cause in the log.
    pub throttle: LogThrottle,
    /// Of settings and users.
    changes: Changes,
    /// What `SCAN` was answered.
    cursors: Cursors,
    /// Pools of worker ids, where there are any.
    workers: OnceLock<Arc<Workers>>,
    /// Held by the client whose `KEYS` is being gathered.
    listing: tokio::sync::Mutex<()>,
    stopping: AtomicBool,
    stop: Notify,
}

/// Facts about this process, for INFO and CONFIG REWRITE.
#[derive(Clone)]
pub struct Process {
    /// 40 hex digits, new at each start, as Redis's `run_id`.
    pub run_id: String,
    /// The configuration file, absolute; empty without one.
    pub config_file: String,
    /// What the configuration was read from. Passwords are in it.
    pub sources: Sources,
    /// The folder the process was started in: paths of `include` begin there.
    pub started_in: PathBuf,
    /// The program, absolute.
    pub executable: String,
    /// `port`, or `tls-port` where that is 0, as in Redis; 0: no TCP.
    pub tcp_port: u16,
}

impl Server {
    pub fn new(
        config: Config,
        settings: Arc<Settings>,
        generators: Generators,
        process: Process,
        io_threads: usize,
        tls: Option<Arc<tls::Acceptor>>,
        log: Log,
    ) -> Arc<Server> {
        let clients = Arc::new(Clients::default());
        clients.set_held_bytes_max(config.maxmemory_clients.bytes(usage::memory_limit_bytes()));
        let server = Arc::new(Server {
            config: Snapshot::new(Arc::new(config)),
            settings: Snapshot::new(settings),
            generators,
            metrics: Metrics::new(io_threads),
            clients,
            handshakes: Arc::default(),
            pauses: Pauses::default(),
            process,
            tls,
            monitors: Arc::default(),
            slow_log: Mutex::default(),
            events: Mutex::default(),
            acl_log: Mutex::default(),
            login_limiter: Mutex::default(),
            login_log: Mutex::default(),
            log,
            throttle: LogThrottle::default(),
            changes: Changes::start(),
            cursors: Cursors::default(),
            workers: OnceLock::new(),
            listing: tokio::sync::Mutex::default(),
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
        });
        server.follow_claim();
        server
    }

    /// The claim of the server-id in a cluster store; `None`: it is kept in a folder, or nowhere.
    pub fn claim(&self) -> Option<&Arc<ClaimView>> {
        self.generators.claim()
    }

    /// Has sessions know at once what the server is to its server-id.
    fn follow_claim(self: &Arc<Server>) {
        let Some(claim) = self.claim() else { return };
        let server = Arc::downgrade(self);
        claim.on_role(move |role| {
            let Some(server) = server.upgrade() else { return };
            let is_standby = role == ClaimRole::Standby;
            let Ok(()) = server
                .settings
                .update(|settings| Ok::<_, Infallible>(Settings { is_standby, ..Settings::clone(settings) }));
        });
    }

    /// The issuer of the unnamed generator: the server's clock, watermark and limits.
    #[inline]
    pub fn issuer(&self) -> &Issuer {
        self.generators.unnamed()
    }

    /// Makes these its pools of worker ids, once.
    pub fn set_workers(&self, workers: Arc<Workers>) {
        // A second time would be a mistake of the start's, and the first ones are being used.
        let _ = self.workers.set(workers);
    }

    /// Pools of worker ids, where there are any.
    pub fn workers(&self) -> Option<&Arc<Workers>> {
        self.workers.get()
    }

    pub fn clients_max(&self) -> usize {
        self.config.get().maxclients as usize
    }

    /// Asks the server to stop, as SIGTERM does.
    pub fn request_stop(&self) {
        self.stopping.store(true, Relaxed);
        self.stop.notify_waiters();
    }

    /// Ends all connections without waiting for anything.
    pub fn cut_off_clients(&self) {
        self.clients.stop_all(Stop::Now);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Resolves once [`Server::request_stop`] was called.
    pub async fn stop_requested(&self) {
        loop {
            let stop = self.stop.notified();
            if self.stopping.load(Relaxed) {
                return;
            }
            stop.await;
        }
    }
}
