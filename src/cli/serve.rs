//! `getid serve`: from words on a command line to a server, and back to an exit code.
//!
//! Order matters here. Sockets are bound before the state is touched, so that a start that fails for a busy port leaves
//! no trace; the first save succeeds before the first client is accepted; and at the end the issuer's position is
//! stored after the last reply was written.

use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::access;
use super::sources::sources;
use crate::clock::{Clock as _, SystemClock};
use crate::config::load::{self, RealFiles};
use crate::config::{Config, Sources, StateKind, Warning};
use crate::id::SavePoint;
use crate::io_threads::{self, IoThreads};
use crate::issuer::{Issuer, Keeper};
use crate::logging::{Log, LogOptions, SYSLOG_SOCKET, SyslogOptions};
use crate::server::{self, Listener, Process, Server};
use crate::session::Rules;
use crate::supervision::{Notifier, PidFile, watchdog_every};
use crate::timestamp;
use crate::tls;
use crate::watermark::{FileStore, Identity, NoStore, WatermarkStore};

/// The last save gets at least this long, however short `shutdown-timeout` is: it is what a restart resumes from.
const LAST_SAVE_PATIENCE: Duration = Duration::from_secs(2);

/// Runs a server until it is told to stop. `words` are what stood behind `serve`.
pub fn run(words: Vec<String>) -> ExitCode {
    match prepare(words).and_then(Prepared::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(text)) => {
            // Nothing to fall back on when standard error is gone.
            let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// Why a server did not start, or did not end well: for standard error.
struct Failure(String);

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.to_string())
    }
}

/// A configuration that can be run.
struct Prepared {
    config: Config,
    warnings: Vec<Warning>,
    rules: Arc<Rules>,
    log: Log,
    config_file: String,
    sources: Sources,
    started_in: PathBuf,
    /// Loaded when the log is there to tell what is wrong with them.
    tls: Option<Arc<tls::Acceptor>>,
}

fn prepare(words: Vec<String>) -> Result<Prepared, Failure> {
    let mut sources = sources(words);
    let (config, warnings) = Config::load(&sources, &RealFiles)?;
    let config_file = sources.file.take().map(|file| std::path::absolute(&file).unwrap_or(file));
    // The rest of the environment is nobody's business.
    sources.environment.retain(|(name, _)| name.as_encoded_bytes().starts_with(b"GETID_"));
    // A folder that is gone has no files.
    let started_in = std::env::current_dir().unwrap_or_default();
    let mut rules = server::rules(&config)?;
    // As in Redis, relative paths of the log, the pid file and the socket are relative to `dir`.
    load::check_dir(&config)?;
    std::env::set_current_dir(&config.dir)
        .map_err(|error| format!("dir: '{}' cannot be entered: {error}", config.dir.display()))?;
    if let Some(users) = access::load_file(&config)? {
        rules.users = Arc::new(users);
    }
    let log = Log::start(log_options(&config))?;
    let config_file = config_file.map_or_else(String::new, |file| file.display().to_string());
    Ok(Prepared { config, warnings, rules: Arc::new(rules), log, config_file, sources, started_in, tls: None })
}

impl Prepared {
    fn run(mut self) -> Result<(), Failure> {
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
        for warning in access::warnings(&self.config, &self.rules.users) {
            tracing::warn!("{warning}");
        }
        let runtime = io_threads::runtime()?;
        let io_threads = IoThreads::start(self.config.io_threads)?;
        let result = runtime.block_on(async {
            let maxclients = self.config.maxclients;
            // As in Redis, this is what it is from now on.
            self.config.maxclients = server::room_for_clients(maxclients);
            if self.config.maxclients < maxclients {
                tracing::warn!(
                    "maxclients {maxclients} needs more open files than the limit allows: maxclients is {} now. Raise the \
                     limit with ulimit -n or LimitNOFILE=",
                    self.config.maxclients
                );
            }
            self.tls = tls::Settings::of(&self.config).map(tls::Acceptor::load).transpose()?.map(Arc::new);
            let listeners = server::listen(&self.config, self.tls.as_ref())?;
            let identity = Identity { server_id: self.config.server_id, layout: self.config.layout };
            match self.config.id_state {
                StateKind::File => {
                    // Not `dir` itself: the check that the folder is still the same one goes by its name.
                    let dir = std::env::current_dir()?;
                    let (store, record) = FileStore::open(&dir, identity)?;
                    let found = record.map(|record| record.point);
                    self.serve(listeners, io_threads, identity, store, found).await
                }
                StateKind::None => self.serve(listeners, io_threads, identity, NoStore, None).await,
            }
        });
        let log_is_elsewhere = self.config.logfile.is_some() || self.config.syslog_enabled;
        if let (Err(Failure(text)), true) = (&result, log_is_elsewhere) {
            // In the log too, which somebody looks at later.
            tracing::error!("{}", text.trim_end());
        }
        // A task that hangs (a sync that never returns) must not keep the process alive.
        runtime.shutdown_background();
        result
    }

    async fn serve<S: WatermarkStore>(
        &mut self,
        listeners: Vec<Listener>,
        io_threads: IoThreads,
        identity: Identity,
        store: S,
        found: Option<SavePoint>,
    ) -> Result<(), Failure> {
        let config = &self.config;
        let mut signals = Signals::listen();
        let start = Issuer::start(SystemClock::new(), identity, server::limits(config), found, store);
        let (issuer, keeper) = tokio::select! {
            started = start => {
                started.map_err(|error| format!("the first save of the state failed: {error}. Nothing was served"))?
            }
            // The disk may hang: a start can be stopped as well.
            name = signals.stop() => {
                tracing::warn!("{name} received, stopping. Nothing was served");
                return Ok(());
            }
        };
        let (stop_keeper, stopped) = oneshot::channel::<()>();
        let process = Process {
            run_id: run_id(),
            config_file: self.config_file.clone(),
            sources: self.sources.clone(),
            started_in: self.started_in.clone(),
            executable: std::env::current_exe().map_or_else(|_| String::new(), |path| path.display().to_string()),
            tcp_port: listeners.iter().find_map(Listener::port).unwrap_or(0),
        };
        let server = Server::new(
            config.clone(),
            Arc::clone(&self.rules),
            issuer,
            process,
            io_threads,
            self.tls.clone(),
            self.log.clone(),
        );
        let keeper = tokio::spawn(keep(keeper, stopped, StopsServer(Arc::clone(&server))));
        banner(&server, &listeners, found);
        let pid_file = config.pidfile.as_deref().and_then(write_pid_file);
        let (notifier, warning) = Notifier::open(config.supervised, std::env::var_os("NOTIFY_SOCKET"));
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        courtesy("systemd was not told of the start", notifier.ready("Serving IDs"));
        let notifier = Arc::new(notifier);
        tokio::spawn(keep_watchdog_quiet(Arc::clone(&notifier)));
        let signals = tokio::spawn(obey_signals(signals, Arc::clone(&server)));

        server.run(listeners).await;
        courtesy("systemd was not told of the stop", notifier.stopping());
        signals.abort();
        // The receiver is gone only if the keeper has ended, and then there is nothing to stop.
        let _ = stop_keeper.send(());
        if let Some(file) = pid_file {
            courtesy("pidfile", file.remove());
        }
        let patience = Duration::from_secs(server.config.get().shutdown_timeout_s).max(LAST_SAVE_PATIENCE);
        match tokio::time::timeout(patience, keeper).await {
            Ok(Ok(Ok(()))) => {
                tracing::warn!("the position is stored; bye");
                Ok(())
            }
            Ok(Ok(Err(error))) => Err(Failure(format!(
                "the last save failed: {error}. The next start goes on at the last watermark, as after a crash"
            ))),
            Ok(Err(panic)) => Err(Failure(format!("the keeper of the watermark ran into a bug: {panic}"))),
            Err(_) => Err(Failure(format!(
                "the last save did not end within {} s. The next start goes on at the last watermark, as after a crash",
                patience.as_secs()
            ))),
        }
    }
}

async fn keep<S: WatermarkStore>(
    keeper: Keeper<SystemClock, S>,
    stopped: oneshot::Receiver<()>,
    _whatever_happens: StopsServer,
) -> Result<(), crate::watermark::SaveError> {
    keeper
        .run(async {
            // A sender that is dropped means the end as well.
            let _ = stopped.await;
        })
        .await
}

/// Stops the server when dropped. A keeper that ends in a panic leaves a server that can only refuse: better it ends with
/// an error, and its supervisor starts it again.
struct StopsServer(Arc<Server>);

impl Drop for StopsServer {
    fn drop(&mut self) {
        self.0.request_stop();
    }
}

/// Tells a watchdog (`WatchdogSec=`) that the server is alive, from the thread that takes in clients: if that hangs, so
/// does this.
async fn keep_watchdog_quiet(notifier: Arc<Notifier>) {
    let (usec, pid) = (std::env::var_os("WATCHDOG_USEC"), std::env::var_os("WATCHDOG_PID"));
    let Some(every) = watchdog_every(usec.as_deref(), pid.as_deref()).filter(|_| notifier.is_heard()) else { return };
    let mut tick = tokio::time::interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failed = false;
    loop {
        tick.tick().await;
        let result = notifier.alive();
        // Said once: it may come every few seconds.
        if result.is_err() && !failed {
            courtesy("systemd's watchdog was not told that the server is alive", result.as_ref().copied());
        }
        failed = result.is_err();
    }
}

/// Signals, caught from the moment it is made on: until then they end the process, or do nothing to one that has pid 1.
struct Signals {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
    hangup: Option<Signal>,
}

impl Signals {
    fn listen() -> Signals {
        let listen = |kind| {
            signal(kind)
                .inspect_err(|error| tracing::error!("a signal cannot be received: {error}. SHUTDOWN stops the server"))
                .ok()
        };
        Signals {
            terminate: listen(SignalKind::terminate()),
            interrupt: listen(SignalKind::interrupt()),
            hangup: listen(SignalKind::hangup()),
        }
    }

    /// Waits for SIGTERM or SIGINT, and says which.
    async fn stop(&mut self) -> &'static str {
        tokio::select! {
            () = next(&mut self.terminate) => "SIGTERM",
            () = next(&mut self.interrupt) => "SIGINT",
        }
    }
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Waits for a task, if there is one.
async fn ended(task: &mut Option<JoinHandle<()>>) {
    match task {
        // It has logged what went wrong.
        Some(task) => drop(task.await),
        None => std::future::pending().await,
    }
}

/// SIGTERM and SIGINT stop the server, the second one at once; SIGHUP opens the log anew and loads certificates again.
async fn obey_signals(mut signals: Signals, server: Arc<Server>) {
    // Beside this, so that a disk that hangs keeps nobody from stopping the server; and one at a time.
    let mut reopening: Option<JoinHandle<()>> = None;
    loop {
        let name = tokio::select! {
            () = next(&mut signals.terminate) => "SIGTERM",
            () = next(&mut signals.interrupt) => "SIGINT",
            () = next(&mut signals.hangup), if reopening.is_none() => {
                reopening = Some(tokio::spawn(Arc::clone(&server).reopen_files()));
                continue;
            }
            () = ended(&mut reopening) => {
                reopening = None;
                continue;
            }
        };
        if server.is_stopping() {
            tracing::warn!("{name} received again, stopping at once");
            server.cut_off_clients();
        } else {
            tracing::warn!("{name} received, stopping");
            server.request_stop();
        }
    }
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

fn write_pid_file(path: &Path) -> Option<PidFile> {
    let written = PidFile::write(path);
    match written {
        Ok(file) => Some(file),
        Err(error) => {
            courtesy("pidfile", Err::<(), _>(error));
            None
        }
    }
}

/// Logs what went wrong where it does not matter to clients: as in Redis, the server serves all the same.
fn courtesy<E: Display>(what: &str, result: Result<(), E>) {
    if let Err(error) = result {
        tracing::warn!("{what}: {error}");
    }
}

/// 40 hex digits.
fn run_id() -> String {
    let mut rng = rand::rng();
    (0..40).map(|_| char::from(b"0123456789abcdef"[rng.random_range(0..16)])).collect()
}

/// What an operator wants to know at a start.
fn banner(server: &Server, listeners: &[Listener], found: Option<SavePoint>) {
    let config = server.config.get();
    let layout = config.layout;
    let addresses: Vec<String> = listeners.iter().map(Listener::address).collect();
    tracing::info!("getid {} listens on {}", env!("CARGO_PKG_VERSION"), addresses.join(", "));
    tracing::info!(
        "server-id {} of {}; layout id-range {} shard-range {} random-range {}: {} ids a second without borrowing, until {}",
        config.server_id,
        1_u64 << layout.server_bits(),
        layout.server_bits(),
        layout.shard_bits(),
        layout.random_bits(),
        layout.capacity_per_s(),
        timestamp::format_rfc3339(layout.last_unix_ms()),
    );
    if !config.server_id_given {
        tracing::warn!("server-id was never set and is 0: two servers with one server-id give the same IDs");
    }
    let status = server.issuer.status().mint;
    match (config.id_state, found) {
        (StateKind::File, Some(point)) => tracing::info!(
            "state found: going on at {}",
            timestamp::format_rfc3339(point.watermark.unix_ms(layout.epoch()))
        ),
        (StateKind::File, None) => tracing::warn!(
            "no state found, as at a first start: IDs begin {} ms ahead of the clock, past any that a lost run gave, \
             unless the clock was set back since",
            config.id_max_borrow_ms
        ),
        (StateKind::None, _) => tracing::warn!(
            "id-state none: nothing is remembered; a clock that is set back between two lives makes IDs repeat"
        ),
    }
    let ahead_ms = status.position.ms_since(status.reference);
    if ahead_ms > config.id_max_borrow_ms {
        tracing::warn!(
            "IDs begin {ahead_ms} ms ahead of the clock and id-max-borrow-ms allows {}: requests wait until time has come \
             that far",
            config.id_max_borrow_ms
        );
    }
    if let Some(refusal) = status.refusing {
        tracing::error!("no IDs for now: {refusal}");
    }
}
