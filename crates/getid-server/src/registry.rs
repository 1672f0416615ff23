//! The connected clients, for CLIENT LIST and for ending connections.
//!
//! A connection's task reads one atomic each time it is polled; a caller that ends the connection sets it and wakes the
//! task. That costs nothing per request, unlike a channel or a notification that must be polled along with the socket.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
#[cfg(feature = "http")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use getid_redis::acl::LoginSource;
use getid_redis::resp::Protocol;
use getid_redis::session::{ClientView, Unblock};

/// One end of a connection.
#[derive(Clone, Debug)]
pub enum ConnectionAddr {
    Tcp(SocketAddr),
    /// A Unix socket, by its listening path.
    Unix(Arc<PathBuf>),
}

impl fmt::Display for ConnectionAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionAddr::Tcp(address) => address.fmt(f),
            // As in Redis's CLIENT LIST.
            ConnectionAddr::Unix(path) => write!(f, "{}:0", path.display()),
        }
    }
}

impl ConnectionAddr {
    /// Returns the source under which logins from here are counted.
    pub fn source(&self) -> LoginSource {
        match self {
            ConnectionAddr::Tcp(address) => LoginSource::of(address.ip()),
            ConnectionAddr::Unix(_) => LoginSource::Unix,
        }
    }

    /// Returns the text for MONITOR.
    pub(crate) fn for_monitors(&self) -> impl fmt::Display {
        fmt::from_fn(move |f| match self {
            ConnectionAddr::Tcp(address) => write!(f, "{address}"),
            ConnectionAddr::Unix(path) => write!(f, "unix:{}", path.display()),
        })
    }
}

/// Both ends of a connection, and its socket's descriptor.
#[derive(Clone, Debug)]
pub struct SocketInfo {
    pub peer: ConnectionAddr,
    pub local: ConnectionAddr,
    pub fd: i32,
}

/// How a connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum StopMode {
    No = 0,
    /// Answer the input that has arrived, up to one read more, then close.
    Drain = 1,
    /// Answer the last read, then close. The connection sets this itself.
    Drained = 2,
    /// Close as soon as the current reply is written.
    AfterReply = 3,
    Now = 4,
}

/// A connected client, as others see it.
#[derive(Debug)]
pub struct Client {
    /// Number of the connection, unique in this process and increasing.
    pub id: u64,
    pub peer: ConnectionAddr,
    pub local: ConnectionAddr,
    /// The socket's descriptor, for CLIENT LIST.
    pub fd: i32,
    /// Time of the connection, in seconds of uptime.
    since_s: u32,
    /// Whether it came by the HTTP port, which has places of its own.
    pub is_http: bool,
    active_s: AtomicU32,
    input_bytes: AtomicUsize,
    output_bytes: AtomicUsize,
    held: HeldMemory,
    /// Time since which a required login is missing, in seconds of uptime; [`AUTHENTICATED`] if the client has logged
    /// in, or needs no login.
    unauthenticated_since_s: AtomicU32,
    /// Shared with lists that are being written; then it is replaced, otherwise changed in place.
    view: Mutex<Arc<ClientView>>,
    /// One of the constants of [`wait`].
    wait: AtomicU8,
    stop: AtomicU8,
    waker: OnceLock<Waker>,
}

impl Client {
    /// Notes that the client was active, in seconds of uptime, and the size of its incomplete request, bytes.
    pub fn touch(&self, uptime_s: u64, input_bytes: usize) {
        self.note_active(uptime_s);
        self.input_bytes.store(input_bytes, Ordering::Relaxed);
    }

    /// Notes the size of output that waits for the client, bytes. Only to be called if there is some.
    pub(crate) fn note_output(&self, bytes: usize) {
        self.output_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the size of output that waits for the client, bytes.
    pub(crate) fn output_bytes(&self) -> usize {
        self.output_bytes.load(Ordering::Relaxed)
    }

    /// Notes the size of the input, bytes, the current request included.
    pub(crate) fn note_input(&self, bytes: usize) {
        self.input_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the memory of its buffers while it waits, bytes.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.held.bytes.load(Ordering::Relaxed)
    }

    /// Returns how long a required login is missing, in seconds; `None` if the client has logged in, or needs no login.
    pub(crate) fn unauthenticated_s(&self, uptime_s: u64) -> Option<u64> {
        let since_s = self.unauthenticated_since_s.load(Ordering::Relaxed);
        (since_s != AUTHENTICATED).then(|| uptime_s.saturating_sub(since_s.into()))
    }

    /// Notes that the client is not idle, in seconds of uptime.
    pub fn note_active(&self, uptime_s: u64) {
        self.active_s.store(saturated_s(uptime_s), Ordering::Relaxed);
    }

    /// Returns the seconds without a request or a byte written.
    pub(crate) fn idle_s(&self, uptime_s: u64) -> u64 {
        uptime_s.saturating_sub(self.active_s.load(Ordering::Relaxed).into())
    }

    /// Marks the client as waiting for IDs, until the guard is dropped. [`Client::unblock`] may end the wait.
    pub fn ids_wait_guard(&self) -> impl Drop {
        self.begin_wait(wait::FOR_IDS)
    }

    /// Marks the client's requests as held, until the guard is dropped.
    pub fn hold_guard(&self) -> impl Drop {
        self.begin_wait(wait::HELD)
    }

    fn begin_wait(&self, what: u8) -> ClientWaitGuard<'_> {
        self.wait.store(what, Ordering::Relaxed);
        ClientWaitGuard(self)
    }

    /// Returns true if the client waits for the server: then it is not idle.
    pub fn is_waiting(&self) -> bool {
        self.wait.load(Ordering::Relaxed) != wait::NONE
    }

    /// Ends the connection's wait for IDs. Returns false if it does not wait for any.
    pub fn unblock(&self, how: Unblock) -> bool {
        let how = match how {
            Unblock::Timeout => wait::UNBLOCKED,
            Unblock::Error => wait::UNBLOCKED_BY_ERROR,
        };
        let unblocked = self.wait.compare_exchange(wait::FOR_IDS, how, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if unblocked {
            self.wake();
        }
        unblocked
    }

    /// Returns how [`Client::unblock`] has ended the current wait, if it has.
    pub fn unblocked(&self) -> Option<Unblock> {
        wait::unblocked(self.wait.load(Ordering::Acquire))
    }

    /// Ends a wait, and returns how [`Client::unblock`] had ended it, if it had. After this, `unblock` returns false.
    pub(crate) fn end_wait(&self) -> Option<Unblock> {
        wait::unblocked(self.wait.swap(wait::NONE, Ordering::AcqRel))
    }

    /// Returns the size of an incomplete request, bytes.
    pub(crate) fn input_bytes(&self) -> usize {
        self.input_bytes.load(Ordering::Relaxed)
    }

    /// Returns true if the client runs `MONITOR`: then it is not idle either.
    pub(crate) fn is_monitor(&self) -> bool {
        self.lock_view().monitors
    }

    /// Returns whether its state, as it was after its last turn, has a property.
    pub(crate) fn has_view(&self, property: impl FnOnce(&ClientView) -> bool) -> bool {
        property(&self.lock_view())
    }

    /// Returns true if it has subscriptions: then it is not idle, and of another kind.
    pub fn is_subscribed(&self) -> bool {
        self.lock_view().is_subscribed()
    }

    pub fn publish(&self, view: &ClientView) {
        let mut published = self.lock_view();
        if **published != *view {
            if published.authenticated != view.authenticated {
                // It was active just now.
                let since_s = if view.authenticated { AUTHENTICATED } else { self.active_s.load(Ordering::Relaxed) };
                self.unauthenticated_since_s.store(since_s, Ordering::Relaxed);
            }
            Arc::make_mut(&mut published).clone_from(view);
        }
    }

    pub fn stop(&self, how: StopMode) {
        self.stop.fetch_max(how as u8, Ordering::AcqRel);
        self.wake();
    }

    /// Wakes the connection's task, which must end or has something to write.
    pub fn wake(&self) {
        // Pairs with the fence of `stopping_or_wake`: either this sees the waker, or the task sees the request.
        fence(Ordering::SeqCst);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    #[inline]
    pub fn stopping(&self) -> StopMode {
        match self.stop.load(Ordering::Acquire) {
            0 => StopMode::No,
            1 => StopMode::Drain,
            2 => StopMode::Drained,
            3 => StopMode::AfterReply,
            _ => StopMode::Now,
        }
    }

    /// Returns the stop for the connection's own task, which [`Client::stop`] wakes from now on: a task's waker stays
    /// the same for as long as it lives.
    #[inline]
    pub fn stopping_or_wake(&self, waker: &Waker) -> StopMode {
        if self.waker.get().is_none() {
            let _ = self.waker.set(waker.clone());
            fence(Ordering::SeqCst);
        }
        self.stopping()
    }

    /// Returns its current state for CLIENT LIST and CLIENT INFO.
    pub(crate) fn list_entry(&self, uptime_s: u64) -> ListEntry {
        let saturated = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        ListEntry {
            view: self.lock_view().clone(),
            uptime_s,
            idle_s: u32::try_from(self.idle_s(uptime_s)).unwrap_or(u32::MAX),
            input_bytes: saturated(self.input_bytes()),
            output_bytes: saturated(self.output_bytes()),
            held_bytes: saturated(self.held_bytes()),
            is_waiting: self.is_waiting(),
            is_stopping: self.stopping() != StopMode::No,
        }
    }

    /// Returns its line of CLIENT LIST and CLIENT INFO.
    pub fn line(&self, uptime_s: u64) -> String {
        self.list_entry(uptime_s).line(self).to_string()
    }

    /// Returns the name and the incarnation of its user, as of its last login; of the default one while it has not
    /// logged in.
    pub fn user(&self) -> (Arc<str>, u64) {
        let view = self.lock_view();
        (Arc::clone(&view.user), view.incarnation)
    }

    fn lock_view(&self) -> MutexGuard<'_, Arc<ClientView>> {
        // A view is only replaced as a whole, so it is valid after a panic.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State of a client for CLIENT LIST that may change before the list is written.
///
/// Small, since a list has one for each client: the text is made when it is written.
#[derive(Debug)]
pub struct ListEntry {
    view: Arc<ClientView>,
    uptime_s: u64,
    idle_s: u32,
    input_bytes: u32,
    output_bytes: u32,
    held_bytes: u32,
    is_waiting: bool,
    is_stopping: bool,
}

impl ListEntry {
    /// Returns the flags in Redis's order; `N` for none.
    fn flags(&self, client: &Client) -> impl fmt::Display {
        let view = &self.view;
        let all = [
            ('O', view.monitors),
            ('P', view.is_subscribed()),
            ('x', view.queued.is_some()),
            ('b', self.is_waiting),
            ('c', self.is_stopping),
            ('U', matches!(client.peer, ConnectionAddr::Unix(_))),
            ('e', view.no_evict),
            ('T', view.no_touch),
        ];
        fmt::from_fn(move |f| {
            if !all.iter().any(|(_, holds)| *holds) {
                return f.write_char('N');
            }
            all.iter().filter(|(_, holds)| *holds).try_for_each(|(flag, _)| f.write_char(*flag))
        })
    }

    /// Returns the line of `client`, whose entry this is: the fields of Redis 7.2 in its order.
    pub fn line(&self, client: &Client) -> impl fmt::Display {
        fmt::from_fn(move |f| self.write(client, f))
    }

    fn write(&self, client: &Client, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListEntry { view, input_bytes: qbuf, output_bytes: omem, .. } = self;
        // There is one output buffer, and it is not a list.
        let total = u64::from(*qbuf).max(u64::from(self.held_bytes)).max(u64::from(*omem));
        let events = if *omem == 0 { "r" } else { "w" };
        write!(
            f,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub=0 multi={} qbuf={qbuf} \
             qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={omem} oll=0 omem={omem} tot-mem={total} events={events} cmd={} \
             user={} redir=-1 resp={} lib-name={} lib-ver={}",
            client.id,
            client.peer,
            client.local,
            client.fd,
            view.names.name,
            self.uptime_s.saturating_sub(client.since_s.into()),
            self.idle_s,
            self.flags(client),
            view.database,
            view.subscriptions[0],
            view.subscriptions[1],
            view.queued.map_or(-1, i64::from),
            view.last_command,
            view.user,
            match view.protocol {
                Protocol::Resp2 => 2,
                Protocol::Resp3 => 3,
            },
            view.names.lib_name,
            view.names.lib_version,
        )
    }
}

/// A client's wait, as one byte that two threads may change.
mod wait {
    use getid_redis::session::Unblock;

    pub(super) const NONE: u8 = 0;
    pub(super) const FOR_IDS: u8 = 1;
    /// The wait for IDs was ended by `CLIENT UNBLOCK`, with this option.
    pub(super) const UNBLOCKED: u8 = 2;
    pub(super) const UNBLOCKED_BY_ERROR: u8 = 3;
    /// Waiting for the end of `CLIENT PAUSE`.
    pub(super) const HELD: u8 = 4;

    pub(super) fn unblocked(wait: u8) -> Option<Unblock> {
        match wait {
            UNBLOCKED => Some(Unblock::Timeout),
            UNBLOCKED_BY_ERROR => Some(Unblock::Error),
            _ => None,
        }
    }
}

struct ClientWaitGuard<'a>(&'a Client);

impl Drop for ClientWaitGuard<'_> {
    fn drop(&mut self) {
        self.0.wait.store(wait::NONE, Ordering::Relaxed);
    }
}

/// Value of `unauthenticated_since_s` for a client that is logged in: see [`Client::unauthenticated_s`].
const AUTHENTICATED: u32 = u32::MAX;

/// Converts seconds of uptime to their stored form: 136 years are enough.
fn saturated_s(uptime_s: u64) -> u32 {
    u32::try_from(uptime_s).unwrap_or(AUTHENTICATED - 1)
}

#[derive(Debug)]
pub struct Clients {
    connected: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// Number of clients that came by the HTTP port.
    over_http: AtomicUsize,
    /// Connections of the HTTP port, by numbers of their own.
    #[cfg(feature = "http")]
    http: Mutex<BTreeMap<u64, Arc<HttpConnection>>>,
    #[cfg(feature = "http")]
    next_number: AtomicU64,
    memory: ClientsMemory,
    last_id: AtomicU64,
    gone: tokio::sync::Notify,
}

impl Default for Clients {
    fn default() -> Clients {
        Clients {
            connected: Mutex::default(),
            over_http: AtomicUsize::new(0),
            #[cfg(feature = "http")]
            http: Mutex::default(),
            #[cfg(feature = "http")]
            next_number: AtomicU64::new(0),
            memory: ClientsMemory {
                bytes: AtomicUsize::new(0),
                leaving_bytes: AtomicUsize::new(0),
                bytes_max: usize::MAX.into(),
                choices: AtomicU32::new(0),
            },
            last_id: AtomicU64::new(0),
            gone: tokio::sync::Notify::new(),
        }
    }
}

impl Clients {
    /// Returns the memory of all clients' buffers while they wait, those of the HTTP port included, bytes.
    pub fn held_bytes(&self) -> usize {
        self.memory.bytes.load(Ordering::Relaxed)
    }

    /// Returns the limit of this memory; `None`: no limit.
    pub(crate) fn held_bytes_max(&self) -> Option<usize> {
        Some(self.memory.bytes_max.load(Ordering::Relaxed)).filter(|&bytes| bytes < usize::MAX)
    }

    /// Sets the limit of this memory; `usize::MAX`: no limit.
    pub fn set_held_bytes_max(&self, bytes: usize) {
        self.memory.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Returns true if a read must be put off until clients chosen for eviction have left: each read takes memory, and
    /// thousands of clients may read before the first of those is gone. `seen` is the reader's note of the last choice
    /// for which it was put off. It is put off once for each, so that a client that cannot leave delays no other.
    #[inline]
    pub fn is_read_delayed(&self, seen: &mut u32) -> bool {
        self.memory.is_clearing() && self.memory.is_new_choice(seen)
    }

    /// Chooses the clients to evict so that the others have enough memory, the largest first, without those that asked
    /// to be spared (`CLIENT NO-EVICT`). They count as gone from now on: it takes a while until the last of them is,
    /// and meanwhile every read would check all clients again.
    pub fn choose_evicted(&self) -> Vec<MemoryHolder> {
        // Held throughout, so that a client cannot leave between being chosen and being counted.
        let connected = self.lock();
        #[cfg(feature = "http")]
        let http = self.lock_http();
        if !self.memory.is_too_much() {
            return Vec::new();
        }
        let clients = connected.values().map(|client| MemoryHolder::Client(Arc::clone(client)));
        #[cfg(feature = "http")]
        let clients = clients.chain(http.values().map(|connection| MemoryHolder::Http(Arc::clone(connection))));
        let to_stay: Vec<MemoryHolder> = clients.filter(|holder| !holder.is_leaving()).collect();
        let held: Vec<usize> = to_stay.iter().map(MemoryHolder::held_bytes).collect();
        let is_evictable = |at: usize| to_stay[at].is_evictable();
        let chosen = choose_largest(&held, self.memory.bytes_max.load(Ordering::Relaxed), is_evictable);
        self.memory.choices.fetch_add(1, Ordering::Relaxed);
        let leave = |at: usize| {
            self.memory.leave(to_stay[at].held(), held[at]);
            to_stay[at].clone()
        };
        chosen.into_iter().map(leave).collect()
    }

    /// Counts the memory of a connection of the HTTP port, from now on until the value is dropped.
    #[cfg(feature = "http")]
    pub fn admit_http_connection(self: &Arc<Self>, peer: ConnectionAddr) -> HttpAdmission {
        let connection = Arc::new(HttpConnection {
            peer,
            held: HeldMemory::default(),
            is_evicted: AtomicBool::new(false),
            waker: OnceLock::new(),
        });
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        self.lock_http().insert(number, Arc::clone(&connection));
        HttpAdmission { clients: Arc::clone(self), number, connection }
    }

    #[cfg(feature = "http")]
    fn lock_http(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<HttpConnection>>> {
        self.http.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Admits a client, unless `clients_max` are connected already. Its id is its view's.
    pub fn admit(
        self: &Arc<Self>,
        view: ClientView,
        ends: SocketInfo,
        uptime_s: u64,
        clients_max: usize,
    ) -> Option<Admission> {
        self.admit_if(view, ends, uptime_s, false, |connected| connected < clients_max)
    }

    /// Admits a client of the HTTP port, which has counted it already.
    #[cfg(feature = "http")]
    pub(crate) fn admit_http(self: &Arc<Self>, view: ClientView, ends: SocketInfo, uptime_s: u64) -> Option<Admission> {
        self.admit_if(view, ends, uptime_s, true, |_| true)
    }

    fn admit_if(
        self: &Arc<Self>,
        view: ClientView,
        SocketInfo { peer, local, fd }: SocketInfo,
        uptime_s: u64,
        is_http: bool,
        has_place: impl FnOnce(usize) -> bool,
    ) -> Option<Admission> {
        let mut connected = self.lock();
        if !has_place(connected.len() - self.over_http.load(Ordering::Relaxed)) {
            return None;
        }
        let id = view.id;
        let client = Arc::new(Client {
            id,
            peer,
            local,
            fd,
            since_s: saturated_s(uptime_s),
            is_http,
            active_s: AtomicU32::new(saturated_s(uptime_s)),
            input_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            held: HeldMemory::default(),
            unauthenticated_since_s: AtomicU32::new(if view.authenticated {
                AUTHENTICATED
            } else {
                saturated_s(uptime_s)
            }),
            view: Mutex::new(Arc::new(view)),
            wait: AtomicU8::new(wait::NONE),
            stop: AtomicU8::new(0),
            waker: OnceLock::new(),
        });
        connected.insert(id, Arc::clone(&client));
        self.over_http.fetch_add(usize::from(is_http), Ordering::Relaxed);
        Some(Admission { clients: Arc::clone(self), client })
    }

    /// Returns the number of clients without those of the HTTP port.
    pub fn len(&self) -> usize {
        self.lock().len() - self.over_http.load(Ordering::Relaxed)
    }

    /// Returns the number of clients that came by the HTTP port.
    pub fn over_http(&self) -> usize {
        self.over_http.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn all(&self) -> Vec<Arc<Client>> {
        self.lock().values().cloned().collect()
    }

    /// Returns the number of clients that wait for the server, for `blocked_clients` of INFO.
    pub fn waiting(&self) -> usize {
        self.lock().values().filter(|client| client.is_waiting()).count()
    }

    /// Returns all clients except those that must end at once: a killed client is gone, even if its task has not seen
    /// it yet.
    pub fn alive(&self) -> Vec<Arc<Client>> {
        self.lock().values().filter(|client| client.stopping() != StopMode::Now).cloned().collect()
    }

    /// Returns the client with this id, if it is alive.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.lock().get(&id).filter(|client| client.stopping() != StopMode::Now).cloned()
    }

    pub(crate) fn stop_all(&self, how: StopMode) {
        for client in self.all() {
            client.stop(how);
        }
    }

    /// Resolves once no client is connected.
    pub(crate) async fn all_gone(&self) {
        self.until_gone(BTreeMap::is_empty).await;
    }

    /// Resolves once none of these is connected.
    pub async fn ended(&self, ids: &[u64]) {
        self.until_gone(|connected| !ids.iter().any(|id| connected.contains_key(id))).await;
    }

    async fn until_gone(&self, is_met: impl Fn(&BTreeMap<u64, Arc<Client>>) -> bool) {
        loop {
            let gone = self.gone.notified();
            if is_met(&self.lock()) {
                return;
            }
            gone.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the indices of the holders to evict for the sum to be within the bound. The sum is a little below it, so
/// that the next byte does not start another eviction.
fn choose_largest(held: &[usize], bytes_max: usize, is_evictable: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut sum: usize = held.iter().sum();
    if sum <= bytes_max {
        return Vec::new();
    }
    let mut largest: Vec<usize> = (0..held.len()).filter(|&at| held[at] > 0).collect();
    largest.sort_unstable_by_key(|&at| std::cmp::Reverse(held[at]));
    let enough = bytes_max - bytes_max / EVICTED_BEYOND;
    let mut gone = Vec::new();
    for at in largest {
        if sum <= enough {
            break;
        }
        if is_evictable(at) {
            sum -= held[at];
            gone.push(at);
        }
    }
    gone
}

/// Part of the bound that is freed beyond the necessary.
const EVICTED_BEYOND: usize = 16;

/// A client's place among the connected; dropping it frees the place, after a panic too.
#[derive(Debug)]
pub struct Admission {
    clients: Arc<Clients>,
    pub client: Arc<Client>,
}

impl Admission {
    /// Notes the memory of the client's buffers. Returns true if that of all clients together exceeds the limit.
    pub fn note_held(&self, bytes: usize) -> bool {
        let before = self.client.held.bytes.swap(bytes, Ordering::Relaxed);
        self.clients.memory.change(&self.client.held, before, bytes)
    }

    /// Counts the client's buffers as gone, because it ends and has none any more.
    pub fn release_held(&self) {
        self.note_held(0);
        self.clients.memory.forget(&self.client.held);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.release_held();
        let mut connected = self.clients.lock();
        connected.remove(&self.client.id);
        // Under the lock, so that both changes are seen together.
        self.clients.over_http.fetch_sub(usize::from(self.client.is_http), Ordering::Relaxed);
        drop(connected);
        // It may have been chosen for eviction meanwhile; now it cannot be any more.
        self.clients.memory.forget(&self.client.held);
        self.clients.gone.notify_waiters();
    }
}

/// A connection of the HTTP port as a holder of memory: its clients come and go with its requests.
#[cfg(feature = "http")]
#[derive(Debug)]
pub struct HttpConnection {
    pub peer: ConnectionAddr,
    held: HeldMemory,
    is_evicted: AtomicBool,
    waker: OnceLock<Waker>,
}

#[cfg(feature = "http")]
impl HttpConnection {
    /// Returns true if it must end because it was among the largest. A later eviction wakes the task of this waker.
    pub fn is_evicted_or_wake(&self, waker: &Waker) -> bool {
        if self.waker.get().is_none() {
            let _ = self.waker.set(waker.clone());
            // As in `Client::stopping_or_wake`.
            fence(Ordering::SeqCst);
        }
        self.is_evicted.load(Ordering::Acquire)
    }
}

/// A connection of the HTTP port among the holders of memory; dropping it removes it.
#[cfg(feature = "http")]
#[derive(Debug)]
pub struct HttpAdmission {
    clients: Arc<Clients>,
    number: u64,
    pub connection: Arc<HttpConnection>,
}

#[cfg(feature = "http")]
impl HttpAdmission {
    /// Counts `now` bytes instead of `before`. Returns true if the memory of all clients together exceeds the limit.
    pub fn change_held(&self, before: usize, now: usize) -> bool {
        let held = &self.connection.held;
        if now > before {
            held.bytes.fetch_add(now - before, Ordering::Relaxed);
        } else {
            held.bytes.fetch_sub(before - now, Ordering::Relaxed);
        }
        self.clients.memory.change(held, before, now)
    }
}

#[cfg(feature = "http")]
impl Drop for HttpAdmission {
    fn drop(&mut self) {
        let left = self.connection.held.bytes.load(Ordering::Relaxed);
        self.change_held(left, 0);
        self.clients.lock_http().remove(&self.number);
        self.clients.memory.forget(&self.connection.held);
    }
}

/// A holder of counted buffers: a client, or a connection of the HTTP port.
#[derive(Clone, Debug)]
pub enum MemoryHolder {
    Client(Arc<Client>),
    #[cfg(feature = "http")]
    Http(Arc<HttpConnection>),
}

impl MemoryHolder {
    fn held(&self) -> &HeldMemory {
        match self {
            MemoryHolder::Client(client) => &client.held,
            #[cfg(feature = "http")]
            MemoryHolder::Http(connection) => &connection.held,
        }
    }

    /// Returns the memory of its buffers while it waits, bytes.
    pub fn held_bytes(&self) -> usize {
        self.held().bytes.load(Ordering::Relaxed)
    }

    fn is_leaving(&self) -> bool {
        let is_stopped = match self {
            MemoryHolder::Client(client) => client.stopping() == StopMode::Now,
            #[cfg(feature = "http")]
            MemoryHolder::Http(_) => false,
        };
        is_stopped || self.held().leaving_bytes.load(Ordering::Relaxed) > 0
    }

    fn is_evictable(&self) -> bool {
        match self {
            MemoryHolder::Client(client) => !client.lock_view().no_evict,
            #[cfg(feature = "http")]
            MemoryHolder::Http(_) => true,
        }
    }

    /// Closes the holder.
    pub fn evict(&self) {
        match self {
            MemoryHolder::Client(client) => client.stop(StopMode::Now),
            #[cfg(feature = "http")]
            MemoryHolder::Http(connection) => {
                connection.is_evicted.store(true, Ordering::Release);
                // Pairs with the fence of `is_evicted_or_wake`.
                fence(Ordering::SeqCst);
                if let Some(waker) = connection.waker.get() {
                    waker.wake_by_ref();
                }
            }
        }
    }
}

impl fmt::Display for MemoryHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemoryHolder::Client(client) => write!(f, "client {} at {}", client.id, client.peer),
            #[cfg(feature = "http")]
            MemoryHolder::Http(connection) => write!(f, "the HTTP client at {}", connection.peer),
        }
    }
}

/// Memory of one holder.
#[derive(Debug, Default)]
struct HeldMemory {
    /// Memory of its buffers while it waits, bytes.
    bytes: AtomicUsize,
    /// Part of it that counts as free already, since the holder was chosen for eviction.
    leaving_bytes: AtomicUsize,
}

/// Memory of all holders together.
#[derive(Debug)]
struct ClientsMemory {
    bytes: AtomicUsize,
    /// Part of it that belongs to holders chosen for eviction that are still there.
    leaving_bytes: AtomicUsize,
    /// Limit of the memory (`maxmemory-clients`); `usize::MAX`: no limit.
    bytes_max: AtomicUsize,
    /// Number of choices for eviction.
    choices: AtomicU32,
}

impl ClientsMemory {
    /// Returns true if the remaining holders exceed the limit.
    fn is_too_much(&self) -> bool {
        let leaving = self.leaving_bytes.load(Ordering::Relaxed);
        self.bytes.load(Ordering::Relaxed).saturating_sub(leaving) > self.bytes_max.load(Ordering::Relaxed)
    }

    /// Returns true if holders to evict have so much memory that the others wait for it.
    #[inline]
    fn is_clearing(&self) -> bool {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        self.leaving_bytes.load(Ordering::Relaxed) > bytes_max / CLEARING_PART
            && self.bytes.load(Ordering::Relaxed) > bytes_max
    }

    /// Returns true if holders were chosen for eviction since this note was made, and updates the note.
    #[cold]
    fn is_new_choice(&self, seen: &mut u32) -> bool {
        let choices = self.choices.load(Ordering::Relaxed);
        std::mem::replace(seen, choices) != choices
    }

    /// Counts `now` bytes of a holder instead of `before`. Returns true if that exceeds the limit.
    fn change(&self, held: &HeldMemory, before: usize, now: usize) -> bool {
        if now <= before {
            self.bytes.fetch_sub(before - now, Ordering::Relaxed);
            return false;
        }
        self.bytes.fetch_add(now - before, Ordering::Relaxed);
        if held.leaving_bytes.load(Ordering::Relaxed) > 0 {
            // Its task will see later that it must end.
            self.leave(held, now - before);
        }
        self.is_too_much()
    }

    /// Counts bytes of a holder as free from now on.
    fn leave(&self, held: &HeldMemory, bytes: usize) {
        held.leaving_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.leaving_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes a holder that is gone, and that cannot be chosen any more.
    fn forget(&self, held: &HeldMemory) {
        self.leaving_bytes.fetch_sub(held.leaving_bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Part of the bound that holders to evict may have before the others wait for them.
const CLEARING_PART: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_evicted_until_the_rest_fits() {
        let check = |held: &[usize], bytes_max, spared: &[usize], expected: &[usize]| {
            assert_eq!(
                choose_largest(held, bytes_max, |at| !spared.contains(&at)),
                expected,
                "{held:?} of {bytes_max}"
            );
        };
        check(&[], 100, &[], &[]);
        check(&[50, 50], 100, &[], &[]);
        check(&[50, 51], 100, &[], &[1]);
        check(&[10, 80, 5, 30], 100, &[], &[1]);
        check(&[10, 80, 5, 30], 100, &[1], &[3, 0]);
        check(&[10, 80, 5, 30], 20, &[1], &[3, 0, 2]);
        check(&[0, 101, 0], 100, &[], &[1]);
        // A little more than needed: 97 of 100 would be full again at once.
        check(&[3, 48, 49, 1], 100, &[], &[2]);
        check(&[90, 4, 4, 4], 100, &[0], &[1, 2]);
    }
}
