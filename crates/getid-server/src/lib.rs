//! One server: its sockets, its clients, and the effects of their commands on the server as a whole.
//!
//! Clients share one process, and none may delay or exhaust the others. [`accept`] accepts clients and hands each to a
//! [`connection`], which reads, draws and writes. Sessions are independent of each other; a command that needs the
//! server (INFO, CLIENT LIST, CONFIG GET, SHUTDOWN) becomes an effect (`effects`). This file has the state that
//! connections share ([`Server`]), and nothing that uses it. [`settings`] change it, [`metrics`] and [`logging`] show
//! it.
//!
//! Invariants: before every read, all complete requests that arrived are answered, in order. Every queue has a bound.

#![expect(missing_docs, reason = "only the program of this crate uses the server, and most names suffice")]

pub mod accept;
mod access;
pub mod acl_file;
mod audit;
mod changes;
mod closed;
pub mod config_files;
pub mod connection;
mod cursors;
mod declare;
mod effects;
pub mod error_replies;
mod facts;
pub mod handshakes;
pub mod housekeeping;
pub mod intake;
mod ledgers;
pub mod listen;
pub mod logging;
pub mod master;
pub mod master_events;
mod master_watch;
pub mod metrics;
pub mod monitor;
mod output_limit;
pub mod panic_watch;
pub mod pause;
pub mod registry;
mod reload;
pub mod settings;
mod slow;
pub mod snapshot;
pub mod state_dir;
pub mod tls;
pub mod transport;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::Notify;

use crate::changes::ChangeQueue;
use crate::cursors::Cursors;
use crate::handshakes::Handshakes;
use crate::ledgers::LedgerWatch;
use crate::logging::Log;
use crate::logging::throttle::LogThrottle;
use crate::master::master_of;
use crate::master_events::MasterEvents;
use crate::metrics::Metrics;
use crate::monitor::Monitors;
use crate::pause::Pauses;
use crate::registry::{Clients, StopMode};
use crate::snapshot::Snapshot;
use getid_config::{Config, Sources};
use getid_engine::claim::status::{ClaimRole, ClaimStatus, ClaimView};
use getid_engine::generators::Generators;
use getid_engine::generators::time::Issuer;
use getid_engine::workers::Workers;
use getid_redis::acl::{AclLog, LoginLimiter, LoginLog};
use getid_redis::session::{ClusterSettings, Settings};
use getid_redis::stats::{LatencyEvents, SlowLog};
use getid_system::clock::Clock as _;
use getid_system::usage;
use getid_text::host_port::HostPort;

/// State that the connections of a process share.
pub struct Server {
    pub config: Snapshot<Config>,
    /// Settings of sessions; connections check for new ones before each read.
    pub settings: Snapshot<Settings>,
    pub generators: Generators,
    pub metrics: Metrics,
    pub clients: Arc<Clients>,
    /// Connections in the TLS handshake, which are not clients yet.
    pub handshakes: Arc<Handshakes>,
    pub pauses: Pauses,
    /// Facts that differ from process to process.
    pub process: Process,
    /// Certificates, with `tls-port`.
    pub tls: Option<Arc<tls::Acceptor>>,
    /// Clients that see every command.
    pub monitors: Arc<Monitors>,
    /// Messages for subscribers about changes of masters.
    pub master_events: Arc<MasterEvents>,
    /// Notified when this server's claim has another holder or this server another role.
    claim_changed: Notify,
    slow_log: Mutex<SlowLog>,
    /// Latency events for LATENCY.
    events: Mutex<LatencyEvents>,
    /// Refusals, for `ACL LOG`.
    acl_log: Mutex<AclLog>,
    /// Limit of the rate of password attempts, by address.
    login_limiter: Mutex<LoginLimiter>,
    /// Logins that have a line in the log.
    login_log: Mutex<LoginLog>,
    /// The log, whose level `loglevel` sets.
    pub log: Log,
    /// Limit of the log lines that clients cause.
    pub throttle: LogThrottle,
    /// Thread for changes of settings and users.
    changes: ChangeQueue,
    /// Cursors of `SCAN` and `SERIES LIST`.
    cursors: Cursors,
    /// Pools of worker ids, if any.
    workers: OnceLock<Arc<Workers>>,
    /// Counts of the ledgers of gapless generators.
    pub ledgers: LedgerWatch,
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
    /// Absolute path of the configuration file; empty without one.
    pub config_file: String,
    /// Sources of the configuration, passwords included.
    pub sources: Sources,
    /// Folder in which the process was started, for relative paths of `include`.
    pub started_in: PathBuf,
    /// Absolute path of the program.
    pub executable: String,
    /// `port`, or `tls-port` where that is 0, as in Redis; 0: no TCP.
    pub tcp_port: u16,
    /// This server's address for clients (`announce-address`); `None` without a TCP port.
    pub announced: Option<HostPort>,
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
            master_events: Arc::default(),
            claim_changed: Notify::new(),
            slow_log: Mutex::default(),
            events: Mutex::default(),
            acl_log: Mutex::default(),
            login_limiter: Mutex::default(),
            login_log: Mutex::default(),
            log,
            throttle: LogThrottle::default(),
            changes: ChangeQueue::start(),
            cursors: Cursors::default(),
            workers: OnceLock::new(),
            ledgers: LedgerWatch::default(),
            listing: tokio::sync::Mutex::default(),
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
        });
        server.follow_claim();
        server
    }

    /// Returns the claim of the server-id in a cluster store; `None` if the claim is in a folder, or there is none.
    pub fn claim(&self) -> Option<&Arc<ClaimView>> {
        self.generators.claim()
    }

    /// Keeps the sessions' settings up to date with the server's role for its server-id.
    fn follow_claim(self: &Arc<Server>) {
        let Some(claim) = self.claim() else { return };
        let server = Arc::downgrade(self);
        claim.on_change(move || {
            let Some(server) = server.upgrade() else { return };
            server.update_role();
            server.claim_changed.notify_one();
        });
    }

    /// Brings the sessions' settings up to date with the server's role for its server-id.
    fn update_role(&self) {
        let Some(claim) = self.claim() else { return };
        let role_settings = |settings: &Settings| {
            let status = claim.status();
            let moved_to = self.claim_redirect(&status);
            (status.role == ClaimRole::Standby, settings.cluster.as_ref().map(|_| ClusterSettings { moved_to }))
        };
        let now = self.settings.get();
        let (is_standby, cluster) = role_settings(&now);
        if now.is_standby != is_standby || now.cluster != cluster {
            // Updates come one after the other, and each reads the status again: an older one never comes last.
            let Ok(()) = self.settings.update(|settings| {
                let (is_standby, cluster) = role_settings(settings);
                Ok::<_, Infallible>(Settings { is_standby, cluster, ..Settings::clone(settings) })
            });
        }
    }

    /// Returns the address of the holder to which a standby refers clients in cluster mode.
    fn claim_redirect(&self, status: &ClaimStatus) -> Option<HostPort> {
        let master = master_of(status, self.issuer().clock().clocks());
        let holder = master.filter(|holder| !holder.is_this_server)?.address?;
        (self.process.announced.as_ref() != Some(&holder)).then_some(holder)
    }

    /// Returns the issuer of the unnamed generator, which has the server's clock, watermark and limits.
    #[inline]
    pub fn issuer(&self) -> &Issuer {
        self.generators.unnamed()
    }

    /// Sets the pools of worker ids, once.
    pub fn set_workers(&self, workers: Arc<Workers>) {
        // A second call would be an error of the start, and the first ones are in use.
        let _ = self.workers.set(workers);
    }

    /// Returns the pools of worker ids, if any.
    pub fn workers(&self) -> Option<&Arc<Workers>> {
        self.workers.get()
    }

    pub fn clients_max(&self) -> usize {
        self.config.get().maxclients as usize
    }

    /// Requests a stop of the server, as SIGTERM does.
    pub fn request_stop(&self) {
        self.stopping.store(true, Relaxed);
        self.stop.notify_waiters();
    }

    /// Ends all connections at once.
    pub fn cut_off_clients(&self) {
        self.clients.stop_all(StopMode::Now);
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
