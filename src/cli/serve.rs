//! `getid serve`: from words on a command line to a server, and back to an exit code.
//!
//! Order matters here. Sockets are bound before the state is touched, so that a start that fails for a busy port leaves
//! no trace; the first save succeeds before the first client is accepted; and at the end the issuer's position is
//! stored after the last reply was written.

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use getid_core::SavePoint;
use rand::RngExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::startup::{self, Purpose, Startup};
use crate::claim::{FileStore, Folder, Identity, MachineClaim, MachineError, NoStore, Opened, Store};
use crate::cli::supervision::{Notifier, PidFile, watchdog_every};
use crate::config::{Config, Sources, StateKind};
use crate::generators::time::{Issuer, Keeper, KeeperError};
use crate::logging::{self, Log, LogOptions, SYSLOG_SOCKET, SyslogOptions};
use crate::server::tls;
use crate::server::{self, Listener, Process, Server};
use crate::session::Settings;
use crate::system::allocator;
use crate::system::clock::{Clock as _, SystemClock};
use crate::system::io_threads::{self, IoThreads};
use crate::text::timestamp;

/// The last save gets at least this long, however short `shutdown-timeout` is: it is what a restart resumes from.
const LAST_SAVE_PATIENCE: Duration = Duration::from_secs(2);

/// The last lines of the log get this long: nobody may read them.
const LAST_LINES_PATIENCE: Duration = Duration::from_secs(1);

/// Writes what is left of the log when dropped, after a panic too.
struct FlushesLog(Log);

impl Drop for FlushesLog {
    fn drop(&mut self) {
        self.0.flush(LAST_LINES_PATIENCE);
    }
}

/// Runs a server until it is told to stop. `words` are what stood behind `serve`.
pub fn run(words: Vec<String>) -> ExitCode {
    allocator::give_large_buffers_back();
    match prepare(words).and_then(Prepared::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(text)) => {
            logging::say(&text);
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

/// A configuration that can be run, and its log.
struct Prepared {
    config: Config,
    warnings: Vec<String>,
    settings: Arc<Settings>,
    log: Log,
    config_file: String,
    sources: Sources,
    started_in: PathBuf,
    makes_dir: bool,
    /// Loaded when the log is there to tell what is wrong with them.
    tls: Option<Arc<tls::Acceptor>>,
}

fn prepare(words: Vec<String>) -> Result<Prepared, Failure> {
    let Startup { config, warnings, settings, config_file, sources, started_in, makes_dir } =
        Startup::load(words, Purpose::Start)?;
    let log = Log::start(log_options(&config))?;
    log.tell_panics();
    let config_file = config_file.map_or_else(String::new, |file| file.display().to_string());
    let settings = Arc::new(settings);
    Ok(Prepared { config, warnings, settings, log, config_file, sources, started_in, makes_dir, tls: None })
}

impl Prepared {
    fn run(mut self) -> Result<(), Failure> {
        let _last_lines = FlushesLog(self.log.clone());
        tracing::info!("getid {} starts, pid {}", env!("CARGO_PKG_VERSION"), std::process::id());
        for warning in &self.warnings {
            tracing::warn!("{warning}");
        }
        if self.makes_dir {
            tracing::info!("the folder {} was not there and has been made", self.config.state_dir.display());
        }
        // Before anything is opened: else the first thing that finds no descriptor would tell of it, in its own words.
        let own_files = server::files_of_a_start(self.config.io_threads);
        server::room_for_clients(self.config.maxclients, own_files, self.config.tls_port != 0)?;
        let runtime = io_threads::runtime()?;
        let io_threads = IoThreads::start(self.config.io_threads)?;
        let result = runtime.block_on(async {
            self.tls = tls::Settings::of(&self.config).map(tls::Acceptor::load).transpose()?.map(Arc::new);
            let listeners = server::listen(&self.config, self.tls.as_ref())?;
            let identity = Identity { server_id: self.config.server_id, layout: self.config.layout };
            // Until the last save is done, and the process with it.
            let _claim = self.claim_machine(identity)?;
            match self.config.id_state {
                StateKind::File => {
                    let dir = self.config.state_dir.clone();
                    let max_borrow_ms = self.config.id_max_borrow_ms;
                    let store = FileStore::open(Folder { dir, identity, max_borrow_ms }).await?;
                    self.serve(listeners, io_threads, identity, store).await
                }
                StateKind::None => self.serve(listeners, io_threads, identity, NoStore::opened(None)).await,
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

    /// The right to this server-id on this machine, if it is asked for and can be had.
    fn claim_machine(&self, identity: Identity) -> Result<Option<MachineClaim>, MachineError> {
        if !self.config.id_machine_claim {
            return Ok(None);
        }
        let dir = std::env::current_dir().ok().filter(|_| self.config.id_state == StateKind::File);
        match MachineClaim::take(identity.server_id, identity.layout.epoch(), dir.as_deref()) {
            Ok(claim) => Ok(Some(claim)),
            Err(held @ MachineError::Held { .. }) => Err(held),
            // What was never promised keeps nobody from starting.
            Err(error @ MachineError::Io { .. }) => {
                tracing::warn!("{error}");
                Ok(None)
            }
        }
    }

    /// The end of a start that comes to nothing, once its first save was begun: a clock that was wrong leaves no trace. A second
    /// signal ends it at once.
    ///
    /// # Errors
    ///
    /// Why what the first save wrote may still be there.
    async fn give_up<S: Store<Point = SavePoint>>(
        &self,
        keeper: Keeper<SystemClock, S>,
        signals: &mut Signals,
    ) -> Result<(), String> {
        let patience = last_save_patience(&self.config);
        tokio::select! {
            ended = tokio::time::timeout(patience, keeper.give_up()) => match ended {
                Ok(result) => result.map_err(|error| error.to_string()),
                Err(_) => Err(format!("the disk has not answered within {} s", patience.as_secs())),
            },
            name = signals.stop() => Err(format!("{name} received again")),
        }
    }

    async fn serve<S: Store<Point = SavePoint>>(
        &mut self,
        listeners: Vec<Listener>,
        io_threads: IoThreads,
        identity: Identity,
        store: Opened<S>,
    ) -> Result<(), Failure> {
        let found = store.point;
        let mut signals = Signals::listen();
        // Everything is open by now: what is left is for clients.
        if let Some(warning) = startup::fit_clients(&mut self.config, server::open_files())? {
            tracing::warn!("{warning}");
        }
        let config = &self.config;
        // Before the first save: a start that gets no thread leaves no trace either.
        let thread = KeeperThread::start()?;
        let nothing_served = |name| tracing::info!("{name} received, stopping. Nothing was served");
        let prepare = Issuer::prepare(SystemClock::new(), identity, server::limits(config), store);
        let (issuer, mut keeper) = tokio::select! {
            prepared = prepare => prepared,
            name = signals.stop() => {
                nothing_served(name);
                return Ok(());
            }
        };
        let saved = tokio::select! {
            saved = keeper.first_save() => saved.map_err(Failure::from),
            // The disk may hang: a start can be stopped as well.
            name = signals.stop() => {
                nothing_served(name);
                courtesy("what the first save wrote could not be taken back", self.give_up(keeper, &mut signals).await);
                return Ok(());
            }
        };
        if let Err(Failure(error)) = saved {
            // On a disk that fails this fails too, as a rule, and the first error says why.
            let _ = self.give_up(keeper, &mut signals).await;
            return Err(Failure(format!("the first save of the state failed: {error}. Nothing was served")));
        }
        issuer.set_max_wait_ms(config.id_max_wait_ms);
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
            Arc::clone(&self.settings),
            issuer,
            process,
            io_threads,
            self.tls.clone(),
            self.log.clone(),
        );
        let keeper = thread.keep(keeper, stopped, StopsServer(Arc::clone(&server)));
        banner(&server, found);
        let pid_file = config.pidfile.as_deref().and_then(write_pid_file);
        let (notifier, warning) = Notifier::open(config.supervised, std::env::var_os("NOTIFY_SOCKET"));
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        courtesy("systemd was not told of the start", notifier.ready(SERVING).await);
        let notifier = Arc::new(notifier);
        tokio::spawn(keep_watchdog_quiet(Arc::clone(&notifier)));
        let status = tokio::spawn(keep_status(Arc::clone(&notifier), Arc::clone(&server)));
        let signals = tokio::spawn(obey_signals(signals, Arc::clone(&server)));
        tracing::info!("{}", ready_line(&server, &listeners));

        server.run(listeners).await;
        signals.abort();
        status.abort();
        courtesy("systemd was not told of the stop", notifier.stopping().await);
        // The receiver is gone only if the keeper has ended, and then there is nothing to stop.
        let _ = stop_keeper.send(());
        if let Some(file) = pid_file {
            courtesy("pidfile", file.remove());
        }
        let patience = last_save_patience(&server.config.get());
        match tokio::time::timeout(patience, keeper).await {
            Ok(Ok(Ok(()))) => {
                tracing::info!("the position is stored; bye");
                Ok(())
            }
            Ok(Ok(Err(error))) => Err(Failure(error.to_string())),
            Ok(Err(_gone)) => Err(Failure(
                "the keeper of the watermark ran into a bug; please report the lines above. The next start goes on at the last \
                 watermark, as after a crash"
                    .to_owned(),
            )),
            Err(_) => Err(Failure(format!(
                "the last save did not end within {} s. The next start goes on at the last watermark, as after a crash",
                patience.as_secs()
            ))),
        }
    }
}

/// A thread of the keeper's own, with a runtime of its own: whatever clients have the other threads and their pools of helpers
/// do, it samples the clock, saves, and serves those who wait. It waits for its keeper, and ends when this is dropped instead.
struct KeeperThread<S: Store<Point = SavePoint>> {
    work: mpsc::Sender<Kept<S>>,
}

/// What a keeper's thread is given.
struct Kept<S: Store<Point = SavePoint>> {
    keeper: Keeper<SystemClock, S>,
    stopped: oneshot::Receiver<()>,
    whatever_happens: StopsServer,
    told: oneshot::Sender<Result<(), KeeperError>>,
}

impl<S: Store<Point = SavePoint>> KeeperThread<S> {
    /// # Errors
    ///
    /// When the system gives no thread, or no descriptor for its runtime.
    fn start() -> Result<Self, Failure> {
        let no_thread = |error| Failure(format!("the keeper of the watermark gets no thread: {error}"));
        let (work, given) = mpsc::channel::<Kept<S>>();
        let (ready, is_ready) = mpsc::channel();
        let run = move || {
            // Made here, as it may not be dropped on a thread that has one of its own.
            let runtime = match io_threads::runtime() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _ = ready.send(Ok(()));
            let Ok(Kept { keeper, stopped, whatever_happens, told }) = given.recv() else { return };
            let stop = async {
                // A sender that is dropped means the end as well.
                let _ = stopped.await;
            };
            let result = runtime.block_on(keeper.run(stop));
            drop(whatever_happens);
            // Nobody listens when the process ends without waiting for the last save.
            let _ = told.send(result);
            // A save that hangs must not keep the process alive.
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("getid-keeper".to_owned()).spawn(run).map_err(no_thread)?;
        is_ready.recv()?.map_err(no_thread)?;
        Ok(KeeperThread { work })
    }

    /// Runs the keeper there. How it ended is received; nothing is after a panic.
    fn keep(
        self,
        keeper: Keeper<SystemClock, S>,
        stopped: oneshot::Receiver<()>,
        whatever_happens: StopsServer,
    ) -> oneshot::Receiver<Result<(), KeeperError>> {
        let (told, ended) = oneshot::channel();
        // Were the thread gone, the keeper would be dropped here, which closes the issuer and stops the server.
        let _ = self.work.send(Kept { keeper, stopped, whatever_happens, told });
        ended
    }
}

/// How long the last save may take.
fn last_save_patience(config: &Config) -> Duration {
    Duration::from_secs(config.shutdown_timeout_s).max(LAST_SAVE_PATIENCE)
}

/// Stops the server when dropped. A keeper that ends in a panic leaves a server that can only refuse: better it ends with
/// an error, and its supervisor starts it again.
struct StopsServer(Arc<Server>);

impl Drop for StopsServer {
    fn drop(&mut self) {
        self.0.request_stop();
    }
}

/// What `systemctl status` shows while IDs are given.
const SERVING: &str = "Serving IDs";

/// Keeps what `systemctl status` shows true: that IDs are given, or why not.
async fn keep_status(notifier: Arc<Notifier>, server: Arc<Server>) {
    if !notifier.is_heard() {
        return;
    }
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = SERVING.to_owned();
    loop {
        tick.tick().await;
        // Overload may begin and end a thousand times a second.
        let status = match server.issuer.refusing().filter(|refusal| !refusal.is_overload()) {
            None => SERVING.to_owned(),
            Some(refusal) => format!("No IDs: {refusal}"),
        };
        if status != told {
            // Said again the next time it changes.
            let _ = notifier.status(&status).await;
            told = status;
        }
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
        let result = notifier.alive().await;
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
        // Their default is to end the process, and none of them means that to a server. They are caught from now on for good,
        // though nobody waits for them. (A write to a reader that has gone, or past `ulimit -f`, is an error then.)
        let ignored = [
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
            SignalKind::alarm(),
            SignalKind::pipe(),
            SignalKind::from_raw(nix::libc::SIGXFSZ),
            SignalKind::from_raw(nix::libc::SIGVTALRM),
        ];
        for kind in ignored {
            drop(signal(kind));
        }
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
            tracing::info!("{name} received, stopping");
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

/// The last line of a start, the one that people and scripts wait for, with what they ask next.
fn ready_line(server: &Server, listeners: &[Listener]) -> String {
    let config = server.config.get();
    let addresses: Vec<String> = listeners.iter().map(Listener::address).collect();
    let file = match server.process.config_file.as_str() {
        "" => "no configuration file".to_owned(),
        file => format!("configuration {file}"),
    };
    let line = format!(
        "Ready to accept connections on {} (pid {}, folder {}, {file})",
        addresses.join(", "),
        std::process::id(),
        config.state_dir.display(),
    );
    let is_read_here = config.logfile.is_none() && std::io::stdout().is_terminal();
    match (is_read_here, server.process.tcp_port) {
        (true, port) if port > 0 && config.port == port => {
            format!("{line}. Next, in another terminal: getid get -p {port}")
        }
        _ => line,
    }
}

/// What an operator wants to know at a start.
fn banner(server: &Server, found: Option<SavePoint>) {
    let config = server.config.get();
    let layout = config.layout;
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
    let refusing = server.issuer.refusing();
    let status = server.issuer.status().mint;
    let dir = config.state_dir.display();
    let begin = timestamp::format_rfc3339(status.position.unix_ms(layout.epoch()));
    match (config.id_state, found) {
        (StateKind::File, Some(point)) if point.is_nothing() => {
            tracing::info!("state found in {dir}: no ID was given so far; going on at {begin}");
        }
        (StateKind::File, Some(_)) => tracing::info!("state found in {dir}: going on at {begin}"),
        (StateKind::File, None) => tracing::warn!(
            "no state found in {dir}, as at a first start: IDs begin {} ms ahead of the clock, past any that a lost run gave, \
             unless the clock was set back since",
            config.id_max_borrow_ms
        ),
        (StateKind::None, _) => {}
    }
    let ahead_ms = status.position.ms_since(status.reference);
    if ahead_ms > status.max_borrow_ms {
        tracing::warn!(
            "IDs begin {ahead_ms} ms ahead of the clock and id-max-borrow-ms allows {}: no IDs before time has come that \
             far",
            status.max_borrow_ms
        );
    }
    if let Some(refusal) = refusing {
        tracing::error!("no IDs for now: {refusal}");
    }
}
