//! Who is connected: what CLIENT LIST shows, and how a connection is told to end.
//!
//! A connection's task looks at one atomic each time it is polled; whoever wants it to end sets that and wakes the
//! task. That costs nothing per request, unlike a channel or a notification that must be polled along with the socket.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use crate::resp::Protocol;
use crate::session::Profile;

/// One end of a connection.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket, by the path it listens on.
    Unix(Arc<PathBuf>),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            // As Redis writes it in CLIENT LIST.
            Endpoint::Unix(path) => write!(f, "{}:0", path.display()),
        }
    }
}

/// How a connection is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stop {
    /// Go on.
    No = 0,
    /// Answer what has been read, then close.
    Drain = 1,
    /// Close as soon as the reply at hand is written.
    AfterReply = 2,
    /// Close now.
    Now = 3,
}

/// A connected client, as others see it.
#[derive(Debug)]
pub struct Client {
    /// Unique in this process, increasing.
    pub id: u64,
    /// The client's end.
    pub peer: Endpoint,
    /// The server's end.
    pub local: Endpoint,
    /// The socket's descriptor, for CLIENT LIST.
    pub fd: i32,
    /// When it connected, in seconds of uptime.
    pub since_s: u64,
    active_s: AtomicU64,
    input_bytes: AtomicUsize,
    profile: Mutex<Profile>,
    waiting: AtomicBool,
    stop: AtomicU8,
    waker: OnceLock<Waker>,
}

impl Client {
    /// Notes that the client did something, in seconds of uptime, and how many bytes of an incomplete request it has.
    pub fn touch(&self, uptime_s: u64, input_bytes: usize) {
        self.note_active(uptime_s);
        self.input_bytes.store(input_bytes, Ordering::Relaxed);
    }

    /// Notes that the client is not idle, in seconds of uptime.
    pub fn note_active(&self, uptime_s: u64) {
        self.active_s.store(uptime_s, Ordering::Relaxed);
    }

    /// Seconds without a request or a byte written.
    pub fn idle_s(&self, uptime_s: u64) -> u64 {
        uptime_s.saturating_sub(self.active_s.load(Ordering::Relaxed))
    }

    /// Says that the client waits for IDs, until the guard is dropped.
    pub fn waits(&self) -> impl Drop {
        self.waiting.store(true, Ordering::Relaxed);
        Waiting(self)
    }

    /// Whether the client waits for IDs: then it is not idle.
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Replaces what the session says of itself.
    pub fn publish(&self, profile: &Profile) {
        let mut published = self.lock_profile();
        if *published != *profile {
            published.clone_from(profile);
        }
    }

    /// Asks the connection to end.
    pub fn stop(&self, how: Stop) {
        self.stop.fetch_max(how as u8, Ordering::AcqRel);
        // Against the fence of `wake_by`: either this sees the waker, or the task sees the wish.
        fence(Ordering::SeqCst);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// How the connection is asked to end.
    #[inline]
    pub fn stopping(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::No,
            1 => Stop::Drain,
            2 => Stop::AfterReply,
            _ => Stop::Now,
        }
    }

    /// Remembers whom [`Client::stop`] wakes: a task's waker stays the same for as long as it lives. To be called
    /// before [`Client::stopping`] is looked at.
    #[inline]
    pub fn wake_by(&self, waker: &Waker) {
        if self.waker.get().is_none() {
            let _ = self.waker.set(waker.clone());
            fence(Ordering::SeqCst);
        }
    }

    /// The line of CLIENT LIST and CLIENT INFO, with the fields of Redis 7.2 in its order.
    pub fn line(&self, uptime_s: u64) -> String {
        let profile = self.lock_profile().clone();
        let mut line = String::with_capacity(256);
        let qbuf = self.input_bytes.load(Ordering::Relaxed);
        // Writing to a String cannot fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub=0 psub=0 ssub=0 multi={} qbuf={qbuf} \
             qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem={qbuf} events=r cmd={} user={} \
             redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.peer,
            self.local,
            self.fd,
            profile.name,
            uptime_s.saturating_sub(self.since_s),
            self.idle_s(uptime_s),
            self.flags(&profile),
            profile.database,
            profile.queued.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX)),
            profile.last_command,
            if profile.user.is_empty() { "(superuser)" } else { &*profile.user },
            match profile.protocol {
                Protocol::Resp2 => 2,
                Protocol::Resp3 => 3,
            },
            profile.lib_name,
            profile.lib_version,
        );
        line
    }

    /// The name of the user it is; empty while it has not authenticated.
    pub fn user(&self) -> Arc<str> {
        Arc::clone(&self.lock_profile().user)
    }

    fn flags(&self, profile: &Profile) -> String {
        let mut flags = String::new();
        if profile.queued.is_some() {
            flags.push('x');
        }
        if self.is_waiting() {
            flags.push('b');
        }
        if matches!(self.peer, Endpoint::Unix(_)) {
            flags.push('U');
        }
        if self.stopping() != Stop::No {
            flags.push('c');
        }
        if flags.is_empty() {
            flags.push('N');
        }
        flags
    }

    fn lock_profile(&self) -> MutexGuard<'_, Profile> {
        // A profile is only replaced whole, so one that a panic left is as good as any.
        self.profile.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`Client::waits`].
struct Waiting<'a>(&'a Client);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.store(false, Ordering::Relaxed);
    }
}

/// All clients of a server.
#[derive(Debug, Default)]
pub struct Clients {
    connected: Mutex<BTreeMap<u64, Arc<Client>>>,
    last_id: AtomicU64,
    gone: tokio::sync::Notify,
}

impl Clients {
    /// A number for a new connection.
    pub fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes a client in, unless `clients_max` are connected already. Its id is its profile's.
    pub fn admit(
        self: &Arc<Self>,
        profile: Profile,
        peer: Endpoint,
        local: Endpoint,
        fd: i32,
        uptime_s: u64,
        clients_max: usize,
    ) -> Option<Admission> {
        let mut connected = self.lock();
        if connected.len() >= clients_max {
            return None;
        }
        let id = profile.id;
        let client = Arc::new(Client {
            id,
            peer,
            local,
            fd,
            since_s: uptime_s,
            active_s: AtomicU64::new(uptime_s),
            input_bytes: AtomicUsize::new(0),
            profile: Mutex::new(profile),
            waiting: AtomicBool::new(false),
            stop: AtomicU8::new(0),
            waker: OnceLock::new(),
        });
        connected.insert(id, Arc::clone(&client));
        Some(Admission { clients: Arc::clone(self), client })
    }

    /// How many are connected.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All, by id.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.lock().values().cloned().collect()
    }

    /// All but those that were told to end at once: who was killed is gone, even if its task has not run since.
    pub fn alive(&self) -> Vec<Arc<Client>> {
        self.lock().values().filter(|client| client.stopping() != Stop::Now).cloned().collect()
    }

    /// The one with this id, if it is alive.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.lock().get(&id).filter(|client| client.stopping() != Stop::Now).cloned()
    }

    /// Asks all to end.
    pub fn stop_all(&self, how: Stop) {
        for client in self.all() {
            client.stop(how);
        }
    }

    /// Resolves once nobody is connected.
    pub async fn all_gone(&self) {
        loop {
            let gone = self.gone.notified();
            if self.is_empty() {
                return;
            }
            gone.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's place among the connected; dropping it gives the place back, after a panic too.
#[derive(Debug)]
pub struct Admission {
    clients: Arc<Clients>,
    /// The client admitted.
    pub client: Arc<Client>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.client.id);
        self.clients.gone.notify_waiters();
    }
}
