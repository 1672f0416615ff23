//! A server's life: open everything, save once, serve, drain, save a last time.
//!
//! The order matters. Sockets are bound before the state is touched, so a start that fails for a busy port leaves no
//! trace. The first save succeeds before the first client is accepted. The issuer's last position is stored after the
//! last reply was written.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use getid_core::SavePoint;
use rand::RngExt as _;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::error::{ServeError, warn_on_error};
use super::fleet::FleetMember;
use super::keeper_thread::{KeeperThread, StopServerGuard};
use super::signals::{self, Signals};
use super::startup::{self, LoadPurpose, Startup};
use super::supervision::Supervision;
use super::{memory, messages, sequences, workers};
use getid_config::{Config, StateKind};
use getid_engine::claim::lock;
use getid_engine::claim::{AcquiredClaim, Claim, Folder, FolderClaim, Identity, MachineClaim, MachineError, NoClaim};
use getid_engine::generators::{Generators, Keeper, KeeperError};
use getid_server::accept::ClientAcceptor;
use getid_server::listen::{self, ClientLimits, Listener};
use getid_server::logging::{Log, LogOptions, SYSLOG_SOCKET, SyslogOptions};
use getid_server::tls;
use getid_server::{Process, Server, settings};
use getid_system::clock::{Clock as _, SystemClock};
use getid_system::host;
use getid_system::io_threads::{self, IoThreads};
use getid_system::usage;

/// Shortest time-out of the last save, whatever `shutdown-timeout` is: a restart resumes from that save.
const LAST_SAVE_TIMEOUT_MIN: Duration = Duration::from_secs(2);

/// Longest time for the last lines of the log: their reader may be stuck.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);

/// Flushes the log when dropped, after a panic too.
struct LogFlushGuard(Log);

impl Drop for LogFlushGuard {
    fn drop(&mut self) {
        self.0.flush(LAST_LINES_TIMEOUT);
    }
}

/// A valid configuration, and its log.
pub(super) struct PreparedServer {
    startup: Startup,
    log: Log,
}

/// Reads the configuration and opens the log.
pub(super) fn prepare(words: Vec<String>) -> Result<PreparedServer, ServeError> {
    let startup = Startup::load(words, LoadPurpose::Start)?;
    let log = Log::start(log_options(&startup.config))?;
    log.log_panics();
    Ok(PreparedServer { startup, log })
}

/// Everything that is opened before the state is touched.
struct StartResources {
    listeners: Vec<Listener>,
    http: Vec<TcpListener>,
    io_threads: IoThreads,
    tls: Option<Arc<tls::Acceptor>>,
    identity: Identity,
    /// Set with a claim store that servers share.
    fleet: Option<FleetMember>,
}

impl PreparedServer {
    pub(super) fn run(self) -> Result<(), ServeError> {
        let _last_lines = LogFlushGuard(self.log.clone());
        let config = &self.startup.config;
        let starts = format!("getid {} starts, pid {}", env!("CARGO_PKG_VERSION"), std::process::id());
        let alarms: Vec<_> = self.startup.alarms.iter().cloned().chain(state_in_use(config)).collect();
        if alarms.is_empty() {
            tracing::info!("{starts}");
        } else {
            // In one line with the start, because readers who check for the start do not read further.
            tracing::warn!("{starts}; {}", alarms.join("; "));
        }
        for warning in &self.startup.warnings {
            tracing::warn!("{warning}");
        }
        for overridden in &self.startup.overridden {
            tracing::info!("{overridden}");
        }
        if self.startup.makes_dir {
            tracing::info!("created the missing folder {}", config.state_dir.display());
        }
        // Before anything is opened. Otherwise the first failure for lack of descriptors would hide the cause.
        ClientLimits::of(config).fitting(listen::files_at_start(config), config.tls_port != 0)?;
        let runtime = runtime_of(config)().map_err(ServeError::Runtime)?;
        let io_threads = IoThreads::start(config.io_threads)
            .map_err(|error| ServeError::thread(format!("the {} threads of io-threads", config.io_threads), error))?;
        let log_is_elsewhere = config.logfile.is_some() || config.syslog_enabled;
        let result = runtime.block_on(self.open_and_serve(io_threads));
        if let (Err(error), true) = (&result, log_is_elsewhere) {
            // Also in the log, for later readers.
            tracing::error!("{}", error.to_string().trim_end());
        }
        // A task that hangs (a sync that never returns) must not keep the process alive.
        runtime.shutdown_background();
        result
    }

    async fn open_and_serve(self, io_threads: IoThreads) -> Result<(), ServeError> {
        let config = &self.startup.config;
        // After the log is open, so that it reports errors in the certificates.
        let tls = tls::TlsSettings::of(config).map(tls::Acceptor::load).transpose()?.map(Arc::new);
        let listeners = listen::listen(config, tls.as_ref())?;
        let http = listen::listen_http(config)?;
        let identity = Identity { server_id: config.server_id, layout: config.layout };
        // Held until the last save is done, and the process ends.
        let _claim = claim_machine(config, identity)?;
        let mut opening = StartResources { listeners, http, io_threads, tls, identity, fleet: None };
        match (config.id_state, &config.claim.store) {
            (_, Some(store)) => {
                let (fleet, claim) = FleetMember::begin(config, store).await?;
                opening.fleet = Some(fleet);
                // The claim is large.
                Box::pin(self.serve(opening, claim)).await
            }
            (StateKind::File, None) => {
                let dir = config.state_dir.clone();
                let (max_borrow_ms, generators) = (config.id_max_borrow_ms, config.generators.clone());
                let claim = FolderClaim::take(Folder { dir, identity, max_borrow_ms, generators }).await?;
                self.serve(opening, claim).await
            }
            (StateKind::None, None) => self.serve(opening, NoClaim::acquired(None)).await,
        }
    }

    async fn serve<S: Claim<Point = SavePoint>>(
        mut self,
        opening: StartResources,
        claim: AcquiredClaim<S>,
    ) -> Result<(), ServeError> {
        let found = claim.point;
        let mut signals = Signals::listen();
        // Everything is open except the stores and the HTTP port's thread: the remaining descriptors are for clients.
        let own_files = listen::open_files() + listen::files_still_to_open(&self.startup.config);
        let fitted = startup::fit_clients(&mut self.startup.config, own_files)?;
        for warning in fitted.into_iter().chain(memory::warning(&self.startup.config, usage::memory_limit_bytes())) {
            tracing::warn!("{warning}");
        }
        let config = &self.startup.config;
        // Before the first save: a start without a thread leaves no trace either.
        let thread = KeeperThread::start(runtime_of(config))?;
        let sequences = sequences::start(config)?;
        let begun = begin_life(config, opening.identity, claim, &mut signals).await?;
        let Some((generators, keeper)) = begun else { return Ok(()) };
        generators.unnamed().set_max_wait_ms(config.id_max_wait_ms);
        if let Some(sequences) = &sequences {
            generators.set_sequences(Arc::clone(sequences));
        }
        let StartResources { listeners, http, io_threads, tls, fleet, .. } = opening;
        if let Some(fleet) = &fleet {
            generators.set_claim(Arc::clone(&fleet.view));
        }
        let process = self.process(&listeners);
        let PreparedServer { startup: Startup { config, settings, .. }, log } = self;
        let settings = Arc::new(settings.with_generators(generators.table()));
        let threads = io_threads.count() + usize::from(!http.is_empty());
        let server = Server::new(config, settings, generators, process, threads, tls, log);
        let workers = workers::start(&server)?;
        if let Some(fleet) = &fleet {
            fleet.attach(&server);
        }
        let (stop_keeper, stopped) = oneshot::channel::<()>();
        let keeper = thread.keep(keeper, stopped, StopServerGuard(Arc::clone(&server)));
        messages::banner(&server, found);
        let supervision = Supervision::begin(&server).await;
        let signals = tokio::spawn(signals::handle(signals, Arc::clone(&server)));
        let ready = messages::ready_line(&server, &listeners, &http);
        #[cfg(feature = "http")]
        if !http.is_empty() {
            getid_http::start(Arc::clone(&server), http, io_threads.count(), getid_http::PortBounds::default())
                .map_err(|error| ServeError::thread("the thread of the HTTP port", error))?;
        }
        tracing::info!("{ready}");

        // Kept to the end: the threads end when it is dropped.
        let acceptor = ClientAcceptor::new(Arc::clone(&server), io_threads);
        acceptor.run(listeners).await;
        signals.abort();
        supervision.stopping().await;
        // The receiver is gone only if the keeper has ended, and then there is nothing to stop.
        let _ = stop_keeper.send(());
        supervision.end();
        if let Some(workers) = workers {
            workers.stop();
        }
        let timeout = last_save_timeout(&server.config.get());
        let (saved, ()) =
            tokio::join!(wait_for_last_save(keeper, timeout), sequences::stop(sequences.as_ref(), timeout));
        fleet.map_or(Ok(()), |fleet| fleet.end_result()).and(saved)
    }

    fn process(&self, listeners: &[Listener]) -> Process {
        let Startup { config_file, sources, started_in, .. } = &self.startup;
        Process {
            run_id: run_id(),
            config_file: config_file.as_ref().map_or_else(String::new, |file| file.display().to_string()),
            sources: sources.clone(),
            started_in: started_in.clone(),
            executable: std::env::current_exe().map_or_else(|_| String::new(), |path| path.display().to_string()),
            tcp_port: listeners.iter().find_map(Listener::port).unwrap_or(0),
            announced: self.startup.config.announced_address(&host::name()),
        }
    }
}

/// Claims this server-id on this machine, if configured and possible.
fn claim_machine(config: &Config, identity: Identity) -> Result<Option<MachineClaim>, MachineError> {
    // Active and standby may run on one machine: their claim in the store keeps them apart.
    if !config.id_machine_claim || config.claim.store.is_some() {
        return Ok(None);
    }
    let dir = std::env::current_dir().ok().filter(|_| config.id_state == StateKind::File);
    match MachineClaim::bind(identity.server_id, identity.layout.epoch(), dir.as_deref()) {
        Ok(claim) => Ok(Some(claim)),
        Err(held @ MachineError::Held { .. }) => Err(held),
        // The machine claim is best effort: an error does not prevent the start.
        Err(error @ MachineError::Io { .. }) => {
            tracing::warn!("{error}");
            Ok(None)
        }
    }
}

/// Returns an error if another server holds this one's state: two pods with one volume and one server-id. The real
/// claim is taken later. It may succeed then, if the other server was just killed and has ended.
fn state_in_use(config: &Config) -> Option<String> {
    let is_in_folder = config.id_state == StateKind::File && config.claim.store.is_none();
    is_in_folder.then(|| lock::held_error(&config.state_dir, config.server_id))?.map(|held| held.to_string())
}

/// Returns the constructor of runtimes for threads that use the claim. A claim in a store needs a blocking pool.
fn runtime_of(config: &Config) -> fn() -> io::Result<Runtime> {
    if config.claim.store.is_some() { io_threads::blocking_runtime } else { io_threads::runtime }
}

/// Prepares the issuer and saves for the first time. Returns `None` if a signal ended the start before that.
async fn begin_life<S: Claim<Point = SavePoint>>(
    config: &Config,
    identity: Identity,
    claim: AcquiredClaim<S>,
    signals: &mut Signals,
) -> Result<Option<(Generators, Keeper<SystemClock, S>)>, ServeError> {
    let nothing_served = |name| tracing::info!("{name} received, stopping. Nothing was served");
    let prepare = Keeper::prepare(SystemClock::new(), identity, settings::limits(config), claim);
    let (issuer, mut keeper) = tokio::select! {
        prepared = prepare => prepared,
        name = signals.stop() => {
            nothing_served(name);
            return Ok(None);
        }
    };
    let generators = Generators::new(issuer);
    // The first save includes their declarations.
    generators.declare(&config.generators)?;
    let saved = tokio::select! {
        saved = keeper.first_save() => saved,
        // The disk may hang, and a signal must still stop the start.
        name = signals.stop() => {
            nothing_served(name);
            let given_up = give_up(keeper, config, signals).await;
            warn_on_error("cannot undo the first save", given_up);
            return Ok(None);
        }
    };
    if let Err(error) = saved {
        // On a failing disk this usually fails too, and the first error gives the reason.
        let _ = give_up(keeper, config, signals).await;
        return Err(ServeError::FirstSave(error.into()));
    }
    Ok(Some((generators, keeper)))
}

/// Ends a start that fails after its first save was begun, so that a wrong clock leaves no trace. A second signal ends
/// it at once.
async fn give_up<S: Claim<Point = SavePoint>>(
    keeper: Keeper<SystemClock, S>,
    config: &Config,
    signals: &mut Signals,
) -> Result<(), ServeError> {
    let timeout = last_save_timeout(config);
    tokio::select! {
        ended = tokio::time::timeout(timeout, keeper.give_up()) => match ended {
            Ok(result) => result.map_err(ServeError::LastSave),
            Err(_) => Err(ServeError::NoAnswer { s: timeout.as_secs() }),
        },
        name = signals.stop() => Err(ServeError::SignalAgain(name)),
    }
}

/// Waits for the last save. Returns an error if the position may not be stored.
async fn wait_for_last_save(
    keeper: oneshot::Receiver<Result<(), KeeperError>>,
    timeout: Duration,
) -> Result<(), ServeError> {
    match tokio::time::timeout(timeout, keeper).await {
        Ok(Ok(Ok(()))) => {
            tracing::info!("the position is stored; bye");
            Ok(())
        }
        Ok(Ok(Err(error))) => Err(ServeError::LastSave(error)),
        Ok(Err(_gone)) => Err(ServeError::KeeperPanicked),
        Err(_) => Err(ServeError::LastSaveTimeout { s: timeout.as_secs() }),
    }
}

fn last_save_timeout(config: &Config) -> Duration {
    Duration::from_secs(config.shutdown_timeout_s).max(LAST_SAVE_TIMEOUT_MIN)
}

fn log_options(config: &Config) -> LogOptions {
    LogOptions {
        level: config.loglevel,
        file: config.logfile.clone(),
        format: config.log_format,
        syslog: config.syslog_enabled.then(|| SyslogOptions {
            ident: config.syslog_ident.clone(),
            facility: config.syslog_facility.number(),
            socket: PathBuf::from(SYSLOG_SOCKET),
        }),
        now_unix_ms: || SystemClock::new().wall_unix_ms(),
    }
}

/// Returns a random run id of 40 hex digits.
fn run_id() -> String {
    let mut rng = rand::rng();
    (0..40).map(|_| char::from(b"0123456789abcdef"[rng.random_range(0..16)])).collect()
}
