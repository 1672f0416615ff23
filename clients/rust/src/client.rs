//! Client: one connection, one background thread, and the objects that share them.
//!
//! The background thread runs the jobs, one after another; where it does not take one up, a blocking call runs it in
//! its own thread. One lock guards all state, and no input, output, wait or callback runs while it is held. A fork
//! makes a new [`Process`] from what is immutable or atomic, because the child's copy of the lock may be held for ever.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::address::Target;
use crate::clock::{Clock, TestClock};
use crate::connection::{CONNECT_TIMEOUT, Connection, Failure, REPLY_TIMEOUT, Reply, Socket, Tick, unexpected};
use crate::core::{BACKOFF_FIRST, Release, Source, State, Supply, Wake};
use crate::error::{Error, Result, check_name, check_timeout};
use crate::event::{Event, EventKind};
use crate::layout::Layout;
use crate::sequence::{SequenceOptions, SequenceState, other_options};
use crate::signal::Signal;
use crate::source::{Sequence, Supplier, Worker};
use crate::system;
use crate::tls::{HAS_TLS, TlsConfig};
use crate::worker::{WorkerOptions, WorkerState};

/// Most objects of a client.
const OBJECTS_MAX: usize = 10_000;
const CHUNK: usize = 100;
/// Most forks between the process that made a client and one that uses it.
const FORKS_MAX: usize = 64;
/// Time after which a blocking call does a job that the background thread has not taken up.
const HELP_AFTER: Duration = Duration::from_millis(50);
const HELP_AFTER_MAX: Duration = Duration::from_millis(400);
/// Time after which a thread that could not be started is tried again.
const THREAD_RETRY: Duration = Duration::from_secs(1);
/// Time-out of calls.
const TIMEOUT: Duration = Duration::from_secs(5);

type Listener = Box<dyn Fn(&Event) + Send + Sync>;

/// Settings of a client.
struct Settings {
    target: Arc<Target>,
    clock: Clock,
    listener: Option<Listener>,
    tls: Option<TlsConfig>,
    timeout: Duration,
}

/// Makes a [`Client`] with other settings than the default ones. Made by [`Client::builder`].
#[must_use]
pub struct ClientBuilder {
    url: Option<String>,
    clock: Clock,
    listener: Option<Listener>,
    tls: Option<TlsConfig>,
    timeout: Duration,
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl ClientBuilder {
    /// Sets the addresses of the servers and the login. Without a URL the environment variable `GETID_URL` has it, else
    /// it is `getid://127.0.0.1:7890`.
    pub fn url(mut self, url: impl Into<String>) -> ClientBuilder {
        self.url = Some(url.into());
        self
    }

    /// Sets the time-out of calls, by default 5 s, at most one day.
    pub fn timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.timeout = timeout;
        self
    }

    /// Sets the function that gets each event, on the background thread. Its panics are ignored. It may call the
    /// client, but not wait for it.
    pub fn on_event(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> ClientBuilder {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Sets the settings of TLS for `getids://`, by default the certificate authorities that the system trusts.
    #[cfg(feature = "rustls")]
    pub fn tls_config(mut self, config: Arc<rustls::ClientConfig>) -> ClientBuilder {
        self.tls = Some(config);
        self
    }

    /// Replaces the machine's clocks, for tests of this crate.
    #[doc(hidden)]
    pub fn clock(mut self, clock: Arc<TestClock>) -> ClientBuilder {
        self.clock = Clock::Test(clock);
        self
    }

    /// Makes the client. It connects at the first use of an object.
    pub fn connect(self) -> Result<Client> {
        let from_environment = || std::env::var("GETID_URL").ok().filter(|url| !url.is_empty());
        let url = self.url.or_else(from_environment).unwrap_or_else(|| "getid://127.0.0.1:7890".into());
        let target = Arc::new(Target::parse(&url)?);
        if target.is_tls && !HAS_TLS {
            let remedy = "run 'cargo add getid-client --features rustls'";
            return Err(Error::Usage(format!("url has TLS, which this build has not: {remedy}")));
        }
        if self.tls.is_some() && !target.is_tls {
            return Err(Error::Usage("tls_config is given and the url has no TLS: write 'getids://'".into()));
        }
        let timeout = check_timeout(self.timeout)?;
        if !system::detect_forks() {
            return Err(Error::Unavailable("this system has no memory to detect forks: free some of it".into()));
        }
        let settings =
            Arc::new(Settings { target, clock: self.clock, listener: self.listener, tls: self.tls, timeout });
        Ok(Client { handle: Handle::new(settings) })
    }
}

/// Client of getid servers, with one connection. Clones are the same client.
///
/// It connects at the first use of an object. After the last clone and the last object are dropped, its thread ends;
/// only [`Client::close`] releases leases.
///
/// ```no_run
/// use getid_client::Client;
///
/// let client = Client::connect("getid://127.0.0.1:7890")?;
/// let orders = client.sequence("orders")?;
/// println!("{}", orders.next()?);
/// client.close()?;
/// # Ok::<(), getid_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<_> = self.handle.settings.target.addresses.iter().map(ToString::to_string).collect();
        f.debug_struct("Client").field("addresses", &addresses).finish()
    }
}

impl Client {
    /// Makes a client of the servers at `url`: `getid://[user:password@]host[:port][,host[:port]...][?order=given]`,
    /// `getids://` for TLS, or `getid+unix:///path/of/socket`.
    pub fn connect(url: &str) -> Result<Client> {
        Client::builder().url(url).connect()
    }

    /// Makes a client of the servers that the environment variable `GETID_URL` names, else of `127.0.0.1:7890`.
    pub fn from_env() -> Result<Client> {
        Client::builder().connect()
    }

    /// Returns the settings of a client that is not made yet.
    pub fn builder() -> ClientBuilder {
        ClientBuilder { url: None, clock: Clock::System, listener: None, tls: None, timeout: TIMEOUT }
    }

    /// Returns the local supply of a sequence, the same object each time.
    pub fn sequence(&self, name: &str) -> Result<Sequence> {
        self.sequence_with(name, SequenceOptions::default())
    }

    /// Returns the local supply of a sequence with options.
    pub fn sequence_with(&self, name: &str, options: SequenceOptions) -> Result<Sequence> {
        check_name("name", name)?;
        options.check()?;
        let index = self.handle.object(name, Kind::Sequence(options))?;
        Ok(Sequence(Supplier::new(Arc::clone(&self.handle), index, name)))
    }

    /// Returns the generator of IDs with a worker id of a pool, the same object each time. One pool serves one layout.
    pub fn worker(&self, pool: &str, layout: Layout) -> Result<Worker> {
        self.worker_with(pool, layout, WorkerOptions::default())
    }

    /// Returns the generator of IDs with a worker id of a pool, with options.
    pub fn worker_with(&self, pool: &str, layout: Layout, options: WorkerOptions) -> Result<Worker> {
        check_name("pool", pool)?;
        options.check()?;
        let index = self.handle.object(pool, Kind::Worker(layout, options))?;
        Ok(Worker(Supplier::new(Arc::clone(&self.handle), index, pool)))
    }

    /// Drops all values and leases, and closes the connection, without a message: before a snapshot of the process.
    /// Calls that wait continue to wait.
    pub fn discard(&self) -> Result<()> {
        let process = self.handle.process()?;
        let mut state = process.state();
        let result = state.discard();
        process.abort(state);
        result
    }

    /// Ends all calls and releases the leases, within 2 s. See [`Client::close_timeout`].
    pub fn close(&self) -> Result<bool> {
        self.close_timeout(Duration::from_secs(2))
    }

    /// Ends all calls and releases the leases, within `timeout`. Returns whether all leases were released; a second
    /// call returns the same. Afterwards every call fails with [`Error::Closed`].
    pub fn close_timeout(&self, timeout: Duration) -> Result<bool> {
        let deadline = Instant::now() + check_timeout(timeout)?;
        let process = self.handle.process()?;
        let mut state = process.state();
        if state.core.is_closed {
            return Ok(state.is_released);
        }
        let (releases, address) = (state.close(), state.core.address);
        process.is_closed.store(true, Ordering::Release);
        process.abort(state);
        let is_released = process.release(releases, address, deadline);
        let mut state = process.state();
        (state.is_released, state.is_finished) = (is_released, true);
        drop(state);
        process.signal.set();
        Ok(is_released)
    }
}

/// What an object is, beside its name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Sequence(SequenceOptions),
    Worker(Layout, WorkerOptions),
}

/// What a child of `fork` needs of an object: nothing here is behind a lock.
#[derive(Debug, Clone)]
struct Object {
    name: String,
    kind: Kind,
    /// Newest value or unit, -1 for none.
    newest: Arc<AtomicI64>,
}

impl Object {
    fn title(&self) -> &'static str {
        if matches!(self.kind, Kind::Worker(..)) { "worker pool" } else { "sequence" }
    }

    fn add_to(&self, state: &mut State) {
        let newest = Arc::clone(&self.newest);
        let supply = match &self.kind {
            Kind::Sequence(options) => Supply::Sequence(SequenceState::new(*options, newest, state.core.clock.now())),
            Kind::Worker(layout, options) => Supply::Worker(WorkerState::new(*layout, options.clone(), newest)),
        };
        state.add(self.title(), &self.name, supply);
    }

    fn is_same(&self, source: &Source) -> bool {
        match (&source.supply, &self.kind) {
            (Supply::Sequence(found), Kind::Sequence(options)) => found.options() == options,
            (Supply::Worker(found), Kind::Worker(layout, options)) => {
                found.layout() == *layout && found.options() == options
            }
            _ => false,
        }
    }
}

/// List of objects that grows, and that a child of `fork` reads without a lock.
#[derive(Debug)]
struct ObjectList {
    chunks: Box<[OnceLock<Chunk>]>,
}

type Chunk = Box<[OnceLock<Object>]>;

impl ObjectList {
    fn new() -> ObjectList {
        ObjectList { chunks: (0..OBJECTS_MAX / CHUNK).map(|_| OnceLock::new()).collect() }
    }

    /// Sets an object. The caller has the client's lock.
    fn set(&self, index: usize, object: Object) {
        let chunk = self.chunks[index / CHUNK].get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        let _ = chunk[index % CHUNK].set(object);
    }

    fn iter(&self) -> impl Iterator<Item = &Object> {
        let chunks = self.chunks.iter().map_while(OnceLock::get);
        chunks.flat_map(|chunk| chunk.iter().map_while(OnceLock::get))
    }
}

/// What the clones of a client and its objects share.
pub(crate) struct Handle {
    settings: Arc<Settings>,
    /// Number of forks before the process that made the client.
    forks: usize,
    /// State of this process and of its parents, by the number of forks between them and the first one.
    processes: [OnceLock<Arc<Process>>; FORKS_MAX],
}

impl Handle {
    fn new(settings: Arc<Settings>) -> Arc<Handle> {
        let forks = system::forks();
        let handle = Handle { settings, forks, processes: [const { OnceLock::new() }; FORKS_MAX] };
        let _ = handle.processes[0].set(Process::new(&handle.settings, forks, None));
        Arc::new(handle)
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// Returns the client's state in this process.
    #[inline]
    pub(crate) fn process(&self) -> Result<&Arc<Process>> {
        let forks = system::forks();
        match self.processes.get(forks - self.forks).and_then(OnceLock::get) {
            Some(process) => Ok(process),
            None => self.start_process(forks),
        }
    }

    /// Makes the state of a forked child, with nothing of its parent but the objects and their newest values.
    #[cold]
    fn start_process(&self, forks: usize) -> Result<&Arc<Process>> {
        let depth = forks - self.forks;
        let Some(place) = self.processes.get(depth) else {
            let message = format!("this process is {depth} forks below the one that made the client, which is too far");
            return Err(Error::Usage(format!("{message}: make another client")));
        };
        // A place of an earlier process that was half set at the fork has no value, and is never waited for.
        let parent = self.processes[..depth].iter().rev().find_map(OnceLock::get);
        Ok(place.get_or_init(|| Process::new(&self.settings, forks, parent)))
    }

    /// Returns the index of an object, which is made if there is none of its name.
    fn object(&self, name: &str, kind: Kind) -> Result<usize> {
        let process = self.process()?;
        let mut state = process.state();
        if state.core.is_closed {
            return Err(Error::Closed);
        }
        let object = Object { name: name.to_owned(), kind, newest: Arc::new(AtomicI64::new(-1)) };
        let key = (matches!(object.kind, Kind::Worker(..)), object.name.clone());
        if let Some(&index) = state.names.get(&key) {
            let is_same = object.is_same(&state.sources[index]);
            return if is_same { Ok(index) } else { Err(other_options(object.title(), name)) };
        }
        let index = state.sources.len();
        if index >= OBJECTS_MAX {
            let message = format!("the client has {OBJECTS_MAX} objects, which is the most: use them again");
            return Err(Error::Usage(message));
        }
        object.add_to(&mut state);
        process.objects.set(index, object);
        Ok(index)
    }
}

impl Drop for Handle {
    /// Ends the background thread. In a child that has not used the client there is none.
    fn drop(&mut self) {
        if let Some(process) = self.processes.get(system::forks() - self.forks).and_then(OnceLock::get) {
            process.is_abandoned.store(true, Ordering::Release);
            process.signal.set();
        }
    }
}

/// End of a job.
enum JobEnd {
    /// Nothing was needed any more.
    NotNeeded,
    Result(Result<Reply, Failure>),
}

/// A client's state in one process.
pub(crate) struct Process {
    own: Weak<Process>,
    settings: Arc<Settings>,
    /// Number of forks before this process.
    forks: usize,
    state: Mutex<State>,
    pub(crate) signal: Arc<Signal>,
    objects: ObjectList,
    /// Descriptor of the connection, for a child to close; -1 for none.
    descriptor: AtomicI32,
    is_closed: AtomicBool,
    is_abandoned: AtomicBool,
}

impl Process {
    fn new(settings: &Arc<Settings>, forks: usize, parent: Option<&Arc<Process>>) -> Arc<Process> {
        let is_closed = parent.is_some_and(|parent| parent.is_closed.load(Ordering::Acquire));
        let state =
            State::new(settings.clock.clone(), Arc::clone(&settings.target), settings.listener.is_some(), is_closed);
        let process = Arc::new_cyclic(|own| Process {
            own: Weak::clone(own),
            settings: Arc::clone(settings),
            forks,
            state: Mutex::new(state),
            signal: Arc::default(),
            objects: ObjectList::new(),
            descriptor: AtomicI32::new(-1),
            is_closed: AtomicBool::new(is_closed),
            is_abandoned: AtomicBool::new(false),
        });
        settings.clock.watch(&process.signal);
        if let Some(parent) = parent {
            process.inherit(parent);
        }
        process
    }

    /// Takes over the objects of the parent process, and closes the descriptor of its connection.
    fn inherit(&self, parent: &Arc<Process>) {
        // The parent's state is never dropped here: its lock may be held, and its connection is not this process's.
        std::mem::forget(Arc::clone(parent));
        let descriptor = parent.descriptor.swap(-1, Ordering::AcqRel);
        if descriptor >= 0 {
            system::close_inherited(descriptor);
        }
        let mut state = self.state();
        for (index, object) in parent.objects.iter().enumerate() {
            object.add_to(&mut state);
            self.objects.set(index, object.clone());
        }
    }

    #[inline]
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.settings.clock
    }

    /// Ends the connection, and wakes the calls that the caller has ended.
    fn abort(&self, mut state: MutexGuard<'_, State>) {
        let (socket, connection) = (self.take_socket(&mut state), state.connection.take());
        let woken = std::mem::take(&mut state.core.woken);
        drop(state);
        if let Some(socket) = socket {
            socket.shut_down();
        }
        drop(connection);
        woken.into_iter().for_each(Wake::wake);
        self.signal.set();
    }

    /// Takes the socket for its end. A child does not close the descriptor from then on, as it may be another one soon.
    fn take_socket(&self, state: &mut State) -> Option<Arc<Socket>> {
        self.descriptor.store(-1, Ordering::Release);
        state.socket.take()
    }

    // The background thread.

    /// Wakes the background thread, which is started if there is none. Returns whether there is one.
    pub(crate) fn kick(self: &Arc<Self>) -> bool {
        let mut state = self.state();
        let may_start = state.thread_failed_at.is_none_or(|at| at.elapsed() > THREAD_RETRY);
        if !state.has_thread && may_start {
            state.has_thread = true;
            drop(state);
            let process = Arc::clone(self);
            let thread = std::thread::Builder::new().name("getid".into());
            let is_started = thread.spawn(move || process.run_thread()).is_ok();
            state = self.state();
            state.has_thread = is_started;
            state.thread_failed_at = (!is_started).then(Instant::now);
        }
        let has_thread = state.has_thread;
        drop(state);
        self.signal.set();
        has_thread
    }

    fn run_thread(self: Arc<Self>) {
        while let Some(wake_at) = self.work() {
            self.signal.wait_until(wake_at);
        }
    }

    /// Runs all jobs that are due. Returns when the next one is, or none at the end of the client.
    fn work(&self) -> Option<Instant> {
        loop {
            // The callback may have forked: this thread is then the only one of the child, which has its own state.
            if !self.deliver_events() {
                return None;
            }
            self.expire_calls();
            let mut state = self.state();
            if self.is_abandoned.load(Ordering::Acquire) || (state.is_finished && state.core.events.is_empty()) {
                state.has_thread = false;
                let connection = (self.take_socket(&mut state), state.connection.take());
                drop(state);
                drop(connection);
                return None;
            }
            let found = state.take_due(None).map(|index| (index, state.core.generation, state.connection.take()));
            drop(state);
            match found {
                Ok((index, generation, connection)) => self.run_job(index, generation, connection),
                Err(wake_at) => return Some(wake_at),
            }
        }
    }

    /// Ends the asynchronous calls whose time-out has passed.
    fn expire_calls(&self) {
        let mut state = self.state();
        state.expire(Instant::now());
        let woken = std::mem::take(&mut state.core.woken);
        drop(state);
        woken.into_iter().for_each(Wake::wake);
    }

    /// Calls the listener with each event. Returns whether this is still the process of the client.
    fn deliver_events(&self) -> bool {
        let Some(listener) = &self.settings.listener else { return true };
        loop {
            let event = self.state().core.events.pop_front();
            let Some(event) = event else { return true };
            let _ = catch_unwind(AssertUnwindSafe(|| listener(&event)));
            if system::forks() != self.forks {
                return false;
            }
        }
    }

    /// Waits in this thread for a call. Does the job itself where the background thread does not take it up.
    pub(crate) fn wait(self: &Arc<Self>, index: usize, signal: &Signal, deadline: Instant) {
        let has_thread = self.kick();
        let mut pause = if has_thread { HELP_AFTER } else { Duration::ZERO };
        while !signal.wait_until((Instant::now() + pause).min(deadline)) {
            if has_thread && Instant::now() >= deadline {
                return;
            }
            self.help(index);
            if Instant::now() >= deadline {
                return;
            }
            pause = if has_thread { (pause * 2).min(HELP_AFTER_MAX) } else { BACKOFF_FIRST };
        }
    }

    /// Runs the job of an object in this thread if it is due and not taken up.
    pub(crate) fn help(&self, index: usize) {
        let mut state = self.state();
        let Ok(index) = state.take_due(Some(index)) else { return };
        let (generation, connection) = (state.core.generation, state.connection.take());
        drop(state);
        self.run_job(index, generation, connection);
    }

    // Jobs.

    /// Sends the request of an object and applies its reply. This thread alone uses the connection.
    fn run_job(&self, index: usize, generation: u64, mut connection: Option<Connection>) {
        let end = self.request(index, generation, &mut connection);
        let mut state = self.state();
        state.is_busy = false;
        let is_current = state.core.generation == generation;
        let (state_ref, mut is_lost) = (&mut *state, !is_current);
        let (source, core) = (&mut state_ref.sources[index], &mut state_ref.core);
        source.calls.has_job = false;
        if is_current {
            let address = core.address;
            if let JobEnd::Result(result) = end {
                is_lost = source.end_job(core, result).is_some() || core.address != address;
            }
        } else if !source.calls.waiters.is_empty() && !core.is_closed {
            let now = core.clock.now();
            source.calls.schedule(core, now);
        }
        // The socket of an earlier generation was taken at its end.
        let socket = if is_lost && is_current { self.take_socket(&mut state) } else { None };
        if !is_lost {
            state.connection = connection.take();
        }
        let woken = std::mem::take(&mut state.core.woken);
        drop(state);
        drop((socket, connection));
        woken.into_iter().for_each(Wake::wake);
        self.signal.set();
    }

    fn request(&self, index: usize, generation: u64, connection: &mut Option<Connection>) -> JobEnd {
        if connection.is_none() {
            match self.connect(generation) {
                Ok(opened) => *connection = Some(opened),
                Err(failure) => return JobEnd::Result(Err(failure)),
            }
        }
        let mut state = self.state();
        let state_ref = &mut *state;
        if state_ref.core.generation != generation {
            return JobEnd::NotNeeded;
        }
        let request = state_ref.sources[index].begin(&mut state_ref.core);
        drop(state);
        match (request, connection) {
            (Some(request), Some(connection)) => {
                JobEnd::Result(connection.request(&request, Instant::now() + REPLY_TIMEOUT))
            }
            _ => JobEnd::NotNeeded,
        }
    }

    fn connect(&self, generation: u64) -> Result<Connection, Failure> {
        let address = self.state().core.address;
        let target = &self.settings.target;
        let register = |socket: &Arc<Socket>| {
            let mut state = self.state();
            let is_current = state.core.generation == generation;
            if is_current {
                self.descriptor.store(socket.descriptor(), Ordering::Release);
                state.socket = Some(Arc::clone(socket));
            }
            is_current
        };
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let tls = self.settings.tls.as_ref();
        let connection = Connection::open(target, &target.addresses[address], tls, deadline, self.tick(), &register)?;
        let mut state = self.state();
        if state.core.generation == generation {
            state.core.serial += 1;
            state.core.event(EventKind::Connected, "", "", 0);
        }
        Ok(connection)
    }

    /// Returns what a connection calls while it waits for a reply.
    fn tick(&self) -> Tick {
        let own = Weak::clone(&self.own);
        Box::new(move || {
            if let Some(process) = own.upgrade() {
                process.expire_calls();
            }
        })
    }

    // Release.

    /// Sends the releases on a connection of its own. Returns whether all leases are over.
    fn release(&self, mut releases: Vec<Release>, first: usize, deadline: Instant) -> bool {
        let target = &self.settings.target;
        let count = target.addresses.len();
        for step in 0..count {
            if releases.is_empty() || Instant::now() >= deadline {
                break;
            }
            let address = &target.addresses[(first + step) % count];
            let connect_by = deadline.min(Instant::now() + CONNECT_TIMEOUT);
            let opened =
                Connection::open(target, address, self.settings.tls.as_ref(), connect_by, Box::new(|| ()), &|_| true);
            let Ok(mut connection) = opened else { continue };
            let mut left = Vec::new();
            while let Some(release) = releases.pop() {
                match self.send_release(&mut connection, &release, deadline) {
                    Ok(true) => {}
                    Ok(false) => left.push(release),
                    Err(_) => {
                        left.push(release);
                        break;
                    }
                }
            }
            releases.append(&mut left);
        }
        releases.is_empty()
    }

    /// Returns whether a lease is over. Fails if the connection is lost.
    fn send_release(&self, connection: &mut Connection, release: &Release, deadline: Instant) -> Result<bool, Failure> {
        for request in [&release.request, &release.without_last] {
            match connection.request(request, deadline.min(Instant::now() + REPLY_TIMEOUT))? {
                Reply::Status(text) if text == "OK" => {
                    self.state().core.event(EventKind::Released, &release.pool, "", 0);
                    return Ok(true);
                }
                Reply::Error(error) => match error.code() {
                    "EXPIRED" | "REVOKED" | "WRONGTOKEN" => return Ok(true),
                    // The server refuses a LAST that is more than an hour past its time.
                    "ERR" => {}
                    _ => return Ok(false),
                },
                _ => return Err(unexpected("no OK to WORKERID RELEASE")),
            }
        }
        Ok(false)
    }
}
