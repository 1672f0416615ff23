//! The load: threads, each with its connections and one epoll.
//!
//! No async runtime here, for the generator must cost less than what it measures: a wake-up is one `epoll_wait` for all
//! connections that are ready, and for each of them one read, one look at the clock, one write.
//!
//! Sockets are level-triggered: what one read leaves comes again. Reading and writing go on at the same time, for a
//! server that waits for its client to read would stand still with a client that only writes.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::super::ping::push_request;
use super::usage::ThreadTime;
use crate::bench::{ErrorReplies, Replies, Share, Workload};

/// Bytes of one read, shared by the connections of a thread. The replies to 16 `MGETID 100` are 40 KB.
const READ_BYTES: usize = 64 * 1024;

/// Connections looked at in one wake-up.
const EVENTS_MAX: usize = 1024;

/// How often a thread that hears nothing looks whether it is waiting too long.
const LOOK_MS: u8 = 100;

/// The longest latency that is told apart, in ns: the longest timeout.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// What all threads share.
pub(super) struct Plan {
    pub(super) target: Target,
    pub(super) workload: Workload,
    /// For a connection, and for a reply.
    pub(super) timeout: Duration,
    pub(super) login: Option<Login>,
    /// Units not sent yet, in a run that goes by their number.
    pub(super) units_left: AtomicU64,
}

/// What AUTH says.
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: String,
}

/// Where the server is.
pub(super) enum Target {
    Tcp { name: String, addresses: Vec<SocketAddr> },
    Unix(PathBuf),
}

/// How long a run goes.
#[derive(Clone, Copy)]
pub(super) enum Until {
    /// No batch is sent from then on.
    Time(Instant),
    /// So many units of the workload, by all connections together.
    Units(u64),
}

/// What came of a run.
pub(super) struct Tally {
    /// Replies, and so requests.
    pub(super) replies: u64,
    pub(super) errors: ErrorReplies,
    pub(super) latency_ns: Histogram<u64>,
    /// From the first write to the last reply.
    pub(super) elapsed: Duration,
    /// CPU time of all threads.
    pub(super) cpu: Duration,
    /// What the busiest thread did.
    pub(super) share: Share,
}

/// The threads, with their connections open.
pub(super) struct Crew {
    orders: Vec<Sender<Until>>,
    results: Receiver<Result<Part, String>>,
    plan: Arc<Plan>,
}

impl Crew {
    /// Opens all connections and logs in.
    pub(super) fn connect(plan: &Arc<Plan>, connections: u32, threads: u32) -> Result<Crew, String> {
        let threads = threads.min(connections);
        let (ready, connected) = channel();
        let (report, results) = channel();
        let mut orders = Vec::new();
        for thread in 0..threads {
            let (order, inbox) = channel();
            orders.push(order);
            let (plan, ready, report) = (Arc::clone(plan), ready.clone(), report.clone());
            let own = connections / threads + u32::from(thread < connections % threads);
            thread::Builder::new()
                .name(format!("load-{thread}"))
                .spawn(move || work(plan, own, &ready, &inbox, &report))
                .map_err(|error| format!("starting thread {thread}: {error}"))?;
        }
        for _ in 0..threads {
            connected.recv().unwrap_or_else(|_| Err(DIED.to_owned()))?;
        }
        Ok(Crew { orders, results, plan: Arc::clone(plan) })
    }

    /// One run, from idle to idle.
    pub(super) fn run(&self, until: Until) -> Result<Tally, String> {
        if let Until::Units(units) = until {
            self.plan.units_left.store(units, Relaxed);
        }
        for order in &self.orders {
            order.send(until).map_err(|_| DIED.to_owned())?;
        }
        let mut sum: Option<Part> = None;
        for _ in &self.orders {
            let part = self.results.recv().unwrap_or_else(|_| Err(DIED.to_owned()))?;
            match &mut sum {
                Some(sum) => sum.absorb(&part),
                None => sum = Some(part),
            }
        }
        let Part { replies, errors, latency_ns, started, ended, cpu_ns, busiest } =
            sum.ok_or_else(|| DIED.to_owned())?;
        let elapsed = ended.duration_since(started);
        let cpu = Duration::from_nanos(cpu_ns);
        Ok(Tally { replies, errors, latency_ns, elapsed, cpu, share: busiest.share(elapsed) })
    }
}

/// Seen only if a thread panicked, which has said why on standard error.
const DIED: &str = "a thread of the load generator died";

/// A thread: connects, then runs as often as it is told.
fn work(
    plan: Arc<Plan>,
    connections: u32,
    ready: &Sender<Result<(), String>>,
    orders: &Receiver<Until>,
    report: &Sender<Result<Part, String>>,
) {
    let mut load = match Load::connect(plan, connections) {
        Ok(load) => load,
        // Nobody listens any more when another thread has failed first.
        Err(message) => return drop(ready.send(Err(message))),
    };
    let _ = ready.send(Ok(()));
    for until in orders {
        if report.send(load.run(until)).is_err() {
            break;
        }
    }
}

/// What one thread did in a run.
struct Part {
    replies: u64,
    errors: ErrorReplies,
    latency_ns: Histogram<u64>,
    started: Instant,
    ended: Instant,
    cpu_ns: u64,
    busiest: ThreadTime,
}

impl Part {
    fn new(started: Instant) -> Result<Part, String> {
        // Three digits: the report shows no more.
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).map_err(|error| error.to_string())?;
        Ok(Part {
            replies: 0,
            errors: ErrorReplies::default(),
            latency_ns,
            started,
            ended: started,
            cpu_ns: 0,
            busiest: ThreadTime::default(),
        })
    }

    fn absorb(&mut self, other: &Part) {
        self.replies += other.replies;
        self.errors.absorb(&other.errors);
        // Same bounds: it cannot fail.
        let _ = self.latency_ns.add(&other.latency_ns);
        self.started = self.started.min(other.started);
        self.ended = self.ended.max(other.ended);
        self.cpu_ns += other.cpu_ns;
        if other.busiest.ran_ns + other.busiest.waited_ns > self.busiest.ran_ns + self.busiest.waited_ns {
            self.busiest = other.busiest;
        }
    }
}

/// One thread's connections.
struct Load {
    plan: Arc<Plan>,
    epoll: Epoll,
    connections: Vec<Connection>,
    buffer: Vec<u8>,
}

struct Connection {
    stream: Stream,
    replies: Replies,
    /// Of the batch in flight. 0: none is.
    replies_left: u64,
    batch_units: u32,
    written_bytes: usize,
    /// Epoll tells when there is room to write, too.
    awaits_room: bool,
    sent_at: Instant,
}

impl Load {
    fn connect(plan: Arc<Plan>, count: u32) -> Result<Load, String> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|errno| format!("epoll: {}", errno.desc()))?;
        let mut connections = Vec::with_capacity(count as usize);
        for index in 0..count {
            let stream = open(&plan).map_err(|reason| {
                let opened = if index == 0 { String::new() } else { format!(" after {index} connections") };
                format!("{}: {reason}{opened}", plan.target)
            })?;
            epoll
                .add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, u64::from(index)))
                .map_err(|errno| format!("epoll: {}", errno.desc()))?;
            connections.push(Connection {
                stream,
                replies: Replies::default(),
                replies_left: 0,
                batch_units: 0,
                written_bytes: 0,
                awaits_room: false,
                sent_at: Instant::now(),
            });
        }
        Ok(Load { plan, epoll, connections, buffer: vec![0; READ_BYTES] })
    }

    fn run(&mut self, until: Until) -> Result<Part, String> {
        let before = ThreadTime::of_this_thread();
        let mut part = Part::new(Instant::now())?;
        match self.exchange(until, &mut part) {
            Ok(()) => {
                part.busiest = ThreadTime::of_this_thread().since(before);
                part.cpu_ns = part.busiest.ran_ns;
                Ok(part)
            }
            Err(reason) => {
                // What a server says before it hangs up is worth more than that it did.
                let said = part.errors.texts.last().map_or(String::new(), |(text, _)| format!("; it said: {text}"));
                Err(format!("{}: {reason}{said}", self.plan.target))
            }
        }
    }

    fn exchange(&mut self, until: Until, part: &mut Part) -> Result<(), String> {
        let Load { plan, epoll, connections, buffer } = self;
        let mut in_flight = 0_usize;
        for (index, connection) in connections.iter_mut().enumerate() {
            let now = Instant::now();
            let Some(units) = plan.next_batch(until, now) else { break };
            connection.begin(&plan.workload, units, now);
            connection.write(&plan.workload, epoll, index)?;
            in_flight += 1;
        }

        let mut events = vec![EpollEvent::empty(); EVENTS_MAX.min(connections.len())];
        let mut heard_at = Instant::now();
        while in_flight > 0 {
            let ready = match epoll.wait(&mut events, EpollTimeout::from(LOOK_MS)) {
                Ok(ready) => ready,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(format!("epoll: {}", errno.desc())),
            };
            if ready == 0 && heard_at.elapsed() >= plan.timeout {
                return Err(format!("no reply within {} ms", plan.timeout.as_millis()));
            }
            for event in &events[..ready] {
                // Only such numbers were given to epoll.
                #[expect(clippy::cast_possible_truncation, reason = "an index of `connections`")]
                let index = event.data() as usize;
                let connection = &mut connections[index];
                if connection.awaits_room {
                    connection.write(&plan.workload, epoll, index)?;
                }
                let replies = connection.read(buffer, &mut part.errors)?;
                if replies == 0 {
                    continue;
                }
                part.replies += replies;
                connection.replies_left = connection
                    .replies_left
                    .checked_sub(replies)
                    .ok_or("the server sent more replies than there were requests")?;
                if connection.replies_left > 0 {
                    heard_at = Instant::now();
                    continue;
                }
                let now = Instant::now();
                let latency_ns = now.duration_since(connection.sent_at).as_nanos();
                part.latency_ns.saturating_record(u64::try_from(latency_ns).unwrap_or(u64::MAX));
                heard_at = now;
                part.ended = now;
                match plan.next_batch(until, now) {
                    Some(units) => {
                        connection.begin(&plan.workload, units, now);
                        connection.write(&plan.workload, epoll, index)?;
                    }
                    None => in_flight -= 1,
                }
            }
        }
        Ok(())
    }
}

impl Plan {
    /// Units of the next batch; `None` when there is to be none.
    fn next_batch(&self, until: Until, now: Instant) -> Option<u32> {
        let depth = self.workload.depth();
        match until {
            Until::Time(end) => (now < end).then_some(depth),
            Until::Units(_) => {
                let take = |left: u64| (left > 0).then(|| left.saturating_sub(u64::from(depth)));
                let left = self.units_left.fetch_update(Relaxed, Relaxed, take).ok()?;
                u32::try_from(left).map_or(Some(depth), |left| Some(left.min(depth)))
            }
        }
    }
}

impl Connection {
    fn begin(&mut self, workload: &Workload, units: u32, now: Instant) {
        self.batch_units = units;
        self.replies_left = u64::from(units) * u64::from(workload.unit_requests());
        self.written_bytes = 0;
        self.sent_at = now;
    }

    /// Writes as much of the batch as there is room for: all of it, nearly always.
    fn write(&mut self, workload: &Workload, epoll: &Epoll, index: usize) -> Result<(), String> {
        let batch = workload.batch(self.batch_units);
        while self.written_bytes < batch.len() {
            match self.stream.write(&batch[self.written_bytes..]) {
                Ok(n) => self.written_bytes += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The server's last words, if it had any, are still to be read.
                Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                    break;
                }
                Err(error) => return Err(format!("writing: {error}")),
            }
        }
        let awaits_room = self.written_bytes < batch.len();
        if awaits_room != self.awaits_room {
            self.awaits_room = awaits_room;
            let interest = if awaits_room { EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT } else { EpollFlags::EPOLLIN };
            epoll
                .modify(&self.stream, &mut EpollEvent::new(interest, index as u64))
                .map_err(|errno| format!("epoll: {}", errno.desc()))?;
        }
        Ok(())
    }

    /// Replies that one read completed.
    fn read(&mut self, buffer: &mut [u8], errors: &mut ErrorReplies) -> Result<u64, String> {
        match self.stream.read(buffer) {
            Ok(0) => Err("the server closed a connection".to_owned()),
            Ok(n) => self.replies.scan(&buffer[..n], errors).map_err(|error| error.to_string()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
            Err(error) => Err(format!("reading: {error}")),
        }
    }
}

/// Connects and logs in; from then on the socket does not block.
fn open(plan: &Plan) -> Result<Stream, String> {
    let mut stream = plan.target.connect(plan.timeout).map_err(|error| error.to_string())?;
    if let Some(login) = &plan.login {
        let words = [Some("AUTH"), login.user.as_deref(), Some(&login.password)];
        let words: Vec<&[u8]> = words.into_iter().flatten().map(str::as_bytes).collect();
        let mut request = Vec::new();
        push_request(&mut request, &words);
        stream.set_timeout(Some(plan.timeout)).map_err(|error| error.to_string())?;
        stream.write_all(&request).map_err(|error| format!("AUTH: {error}"))?;
        let (mut replies, mut errors) = (Replies::default(), ErrorReplies::default());
        let mut buffer = [0; 1024];
        loop {
            let n = stream.read(&mut buffer).map_err(|error| format!("AUTH: {error}"))?;
            if n == 0 {
                return Err("the server closed the connection at AUTH".to_owned());
            }
            if replies.scan(&buffer[..n], &mut errors).map_err(|error| error.to_string())? > 0 {
                break;
            }
        }
        if let Some((text, _)) = errors.texts.first() {
            return Err(format!("AUTH: {text}"));
        }
    }
    stream.set_nonblocking().map_err(|error| error.to_string())?;
    Ok(stream)
}

impl Target {
    pub(super) fn resolve(host: &str, port: u16) -> Result<Target, String> {
        let name = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        match (host, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>) {
            Ok(addresses) if addresses.is_empty() => Err(format!("{name}: the host has no address")),
            Ok(addresses) => Ok(Target::Tcp { name, addresses }),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }

    fn connect(&self, timeout: Duration) -> io::Result<Stream> {
        match self {
            Target::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Target::Tcp { addresses, .. } => {
                let mut last_error = io::Error::from(io::ErrorKind::NotFound);
                for address in addresses {
                    match TcpStream::connect_timeout(address, timeout) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            return Ok(Stream::Tcp(stream));
                        }
                        Err(error) => last_error = error,
                    }
                }
                Err(last_error)
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Tcp { name, .. } => f.write_str(name),
            Target::Unix(path) => path.display().fmt(f),
        }
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout).and(stream.set_write_timeout(timeout)),
            Stream::Unix(stream) => stream.set_read_timeout(timeout).and(stream.set_write_timeout(timeout)),
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(true),
            Stream::Unix(stream) => stream.set_nonblocking(true),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}
