//! The load: threads, each with its connections and one epoll.
//!
//! There is no async runtime, because the generator must cost less than the server that it measures. A wake-up is one
//! `epoll_wait` for all ready connections, and for each of them one read, one clock reading, and one write.
//!
//! Sockets are level-triggered: bytes that one read leaves cause another wake-up. Reading and writing are concurrent,
//! because a server that waits for its client to read would stall a client that only writes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::usage::ThreadTime;
use super::{Share, Workload};
use crate::client::{self, ClientError, Endpoint};
use crate::replies::{ErrorReplies, Replies, ReplyCounter};
use getid_text::printable::printable;

/// Size of the read buffer that the connections of a thread share. The replies to 16 `MGETID 100` are 40 KB.
const READ_BYTES: usize = 64 * 1024;

/// Largest number of connections handled in one wake-up.
const EVENTS_MAX: usize = 1024;

/// How often a thread without events checks its time-out, ms.
const TIMEOUT_CHECK_MS: u8 = 100;

/// Longest latency that the histogram distinguishes, ns: the longest time-out.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Settings and shared counters of the runs of a [`LoadGenerator`].
pub struct BenchPlan {
    /// Measured server.
    pub endpoint: Endpoint,
    /// Requests of each connection.
    pub workload: Workload,
    /// Whether the run continues although every request gets an error.
    pub keep_going: bool,
    /// Units not sent yet, in a run of a number of units.
    pub units_left: AtomicU64,
    /// Whether the threads update `replies_seen`.
    pub shows_progress: bool,
    /// Replies of this run, updated with a short delay.
    pub replies_seen: AtomicU64,
}

/// Reason why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A thread cannot be started.
    #[error("starting thread {thread}: {error}")]
    Thread {
        /// Number of the thread, from 0.
        thread: u32,
        /// The system's error.
        error: io::Error,
    },
    /// A thread panicked, and has printed the reason on standard error.
    #[error("a thread of the load generator panicked; please report the lines above")]
    Panicked,
    /// The kernel refuses epoll.
    #[error(transparent)]
    Epoll(#[from] EpollError),
    /// A connection cannot be opened.
    #[error("{endpoint}: {error}{}", if *.open == 0 { String::new() } else { format!(" (after {open} connections)") })]
    Connect {
        /// Address of the server.
        endpoint: String,
        /// Reason of the failure.
        error: ClientError,
        /// Number of connections that this thread had opened before.
        open: u32,
    },
    /// The run failed.
    #[error(
        "{endpoint}: {error}{}",
        .last.as_ref().map(|last| format!("; the server's last error: {}", printable(last))).unwrap_or_default()
    )]
    Run {
        /// Address of the server.
        endpoint: String,
        /// Reason of the failure.
        error: LoadError,
        /// The server's last error reply. It explains more than the fact that the server closed the connection.
        last: Option<String>,
    },
    /// Every request would get the same error.
    #[error(
        "{endpoint}: {}\n  Every request gets an error, so this run is ended; --keep-going measures it all the same",
        printable(.text)
    )]
    Refused {
        /// Address of the server.
        endpoint: String,
        /// The error reply.
        text: String,
    },
}

/// An error of epoll.
#[derive(Debug, thiserror::Error)]
#[error("epoll: {}", .0.desc())]
pub struct EpollError(Errno);

/// Reason why one thread ends its run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A connection failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A socket cannot be written.
    #[error("writing: {0}")]
    Write(io::Error),
    /// The kernel refuses epoll.
    #[error(transparent)]
    Epoll(#[from] EpollError),
    /// Every request would get this error.
    #[error("{0}")]
    Refused(String),
}

/// Condition that ends a run.
#[derive(Clone, Copy)]
pub enum RunEnd {
    /// No batch is sent from this time on.
    Time(Instant),
    /// Number of units of the workload, for all connections together.
    Units(u64),
}

/// Result of a run, over all threads of the generator.
pub struct BenchTally {
    /// Number of replies, which is the number of requests.
    pub replies: u64,
    /// Number of integers and strings in the replies.
    pub values: u64,
    /// Error replies, and errors inside replies.
    pub errors: ErrorReplies,
    /// Latency of each batch, from its write to its last reply, ns.
    pub latency_ns: Histogram<u64>,
    /// Time from the first write to the last reply.
    pub elapsed: Duration,
    /// CPU time of the generator's threads.
    pub cpu: Duration,
    /// Shares of the generator's busiest thread in `elapsed`.
    pub share: Share,
}

/// Threads with open connections to the server, which send the load of one run after another.
pub struct LoadGenerator {
    orders: Vec<Sender<RunEnd>>,
    results: Receiver<Result<ThreadTally, BenchError>>,
    plan: Arc<BenchPlan>,
}

impl LoadGenerator {
    /// Starts the threads, at most one for each connection, and opens all connections.
    ///
    /// # Errors
    ///
    /// Fails if a thread cannot be started, or a connection cannot be opened.
    pub fn connect(plan: &Arc<BenchPlan>, connections: u32, threads: u32) -> Result<LoadGenerator, BenchError> {
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
                .spawn(move || run_thread(plan, own, &ready, &inbox, &report))
                .map_err(|error| BenchError::Thread { thread, error })?;
        }
        for _ in 0..threads {
            connected.recv().unwrap_or(Err(BenchError::Panicked))?;
        }
        Ok(LoadGenerator { orders, results, plan: Arc::clone(plan) })
    }

    /// Runs once, from idle to idle. `progress` gets the number of replies, a few times a second.
    ///
    /// # Errors
    ///
    /// Fails if a connection or thread fails, a reply is invalid, or no reply arrives within the time-out. Fails with
    /// [`BenchError::Refused`] if every request would get an error, unless the plan keeps going.
    pub fn run(&self, run_end: RunEnd, mut progress: impl FnMut(u64)) -> Result<BenchTally, BenchError> {
        if let RunEnd::Units(units) = run_end {
            self.plan.units_left.store(units, Relaxed);
        }
        self.plan.replies_seen.store(0, Relaxed);
        for order in &self.orders {
            order.send(run_end).map_err(|_| BenchError::Panicked)?;
        }
        let mut sum: Option<ThreadTally> = None;
        let mut left = self.orders.len();
        while left > 0 {
            let tally = match self.results.recv_timeout(PROGRESS_INTERVAL) {
                Ok(tally) => tally?,
                Err(RecvTimeoutError::Timeout) => {
                    progress(self.plan.replies_seen.load(Relaxed));
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(BenchError::Panicked),
            };
            left -= 1;
            match &mut sum {
                Some(sum) => sum.absorb(&tally),
                None => sum = Some(tally),
            }
        }
        let ThreadTally { replies, counts, latency_ns, started, ended, cpu_ns, busiest } =
            sum.ok_or(BenchError::Panicked)?;
        let elapsed = ended.duration_since(started);
        let cpu = Duration::from_nanos(cpu_ns);
        let ReplyCounter { values, errors } = counts;
        Ok(BenchTally { replies, values, errors, latency_ns, elapsed, cpu, share: busiest.share(elapsed) })
    }
}

fn run_thread(
    plan: Arc<BenchPlan>,
    connections: u32,
    ready: &Sender<Result<(), BenchError>>,
    orders: &Receiver<RunEnd>,
    report: &Sender<Result<ThreadTally, BenchError>>,
) {
    let mut load = match LoadThread::connect(plan, connections) {
        Ok(load) => load,
        // The receiver is gone if another thread has failed first.
        Err(error) => return drop(ready.send(Err(error))),
    };
    let _ = ready.send(Ok(()));
    for run_end in orders {
        if report.send(load.run(run_end)).is_err() {
            break;
        }
    }
}

struct ThreadTally {
    replies: u64,
    counts: ReplyCounter,
    latency_ns: Histogram<u64>,
    started: Instant,
    ended: Instant,
    cpu_ns: u64,
    busiest: ThreadTime,
}

impl ThreadTally {
    fn new(started: Instant) -> ThreadTally {
        // Three digits: the report shows no more.
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3);
        ThreadTally {
            replies: 0,
            counts: ReplyCounter::default(),
            latency_ns: latency_ns.unwrap_or_else(|_| unreachable!("the bounds are constants")),
            started,
            ended: started,
            cpu_ns: 0,
            busiest: ThreadTime::default(),
        }
    }

    fn absorb(&mut self, other: &ThreadTally) {
        self.replies += other.replies;
        self.counts.values += other.counts.values;
        self.counts.errors.absorb(&other.counts.errors);
        // It cannot fail, because the bounds are the same.
        let _ = self.latency_ns.add(&other.latency_ns);
        self.started = self.started.min(other.started);
        self.ended = self.ended.max(other.ended);
        self.cpu_ns += other.cpu_ns;
        if other.busiest.ran_ns + other.busiest.waited_ns > self.busiest.ran_ns + self.busiest.waited_ns {
            self.busiest = other.busiest;
        }
    }
}

struct LoadThread {
    plan: Arc<BenchPlan>,
    epoll: Epoll,
    connections: Vec<LoadConnection>,
    buffer: Vec<u8>,
}

struct LoadConnection {
    stream: client::Connection,
    replies: Replies,
    /// Replies of the batch in flight that are still to come; 0 if there is no batch.
    replies_left: u64,
    batch_units: u32,
    written_bytes: usize,
    /// Whether epoll also reports room for writing.
    waits_for_room: bool,
    sent_at: Instant,
}

impl LoadThread {
    fn connect(plan: Arc<BenchPlan>, count: u32) -> Result<LoadThread, BenchError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(EpollError)?;
        let mut connections = Vec::with_capacity(count as usize);
        for index in 0..count {
            let endpoint = || plan.endpoint.to_string();
            let stream =
                open(&plan).map_err(|error| BenchError::Connect { endpoint: endpoint(), error, open: index })?;
            epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, u64::from(index))).map_err(EpollError)?;
            connections.push(LoadConnection {
                stream,
                replies: Replies::default(),
                replies_left: 0,
                batch_units: 0,
                written_bytes: 0,
                waits_for_room: false,
                sent_at: Instant::now(),
            });
        }
        Ok(LoadThread { plan, epoll, connections, buffer: vec![0; READ_BYTES] })
    }

    fn run(&mut self, run_end: RunEnd) -> Result<ThreadTally, BenchError> {
        let before = ThreadTime::of_this_thread();
        let mut tally = ThreadTally::new(Instant::now());
        match self.exchange(run_end, &mut tally) {
            Ok(()) => {
                tally.busiest = ThreadTime::of_this_thread().since(before);
                tally.cpu_ns = tally.busiest.ran_ns;
                Ok(tally)
            }
            Err(LoadError::Refused(text)) => {
                Err(BenchError::Refused { endpoint: self.plan.endpoint.to_string(), text })
            }
            Err(error) => {
                let last = tally.counts.errors.texts.pop().map(|(text, _)| text);
                Err(BenchError::Run { endpoint: self.plan.endpoint.to_string(), error, last })
            }
        }
    }

    /// Sends each connection's first batch. Returns the number of connections that got one.
    fn send_first(&mut self, run_end: RunEnd) -> Result<usize, LoadError> {
        let mut in_flight = 0;
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let now = Instant::now();
            let Some(units) = self.plan.next_batch(run_end, now) else { break };
            connection.begin(&self.plan.workload, units, now);
            connection.write(&self.plan, &self.epoll, index)?;
            in_flight += 1;
        }
        Ok(in_flight)
    }

    fn exchange(&mut self, run_end: RunEnd, tally: &mut ThreadTally) -> Result<(), LoadError> {
        let mut in_flight = self.send_first(run_end)?;
        let LoadThread { plan, epoll, connections, buffer } = self;
        // When each connection may have had a reply, the run is judged: are there any replies but errors?
        let mut judged_after = if plan.keep_going { 0 } else { in_flight as u64 };
        let mut batches = 0;

        let mut events = vec![EpollEvent::empty(); EVENTS_MAX.min(connections.len())];
        let mut last_reply_at = Instant::now();
        while in_flight > 0 {
            let ready = match epoll.wait(&mut events, EpollTimeout::from(TIMEOUT_CHECK_MS)) {
                Ok(ready) => ready,
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(EpollError(errno).into()),
            };
            let replies_before = tally.replies;
            for event in &events[..ready] {
                // Only such numbers were given to epoll.
                #[expect(clippy::cast_possible_truncation, reason = "an index of `connections`")]
                let index = event.data() as usize;
                let connection = &mut connections[index];
                if connection.waits_for_room {
                    connection.write(plan, epoll, index)?;
                }
                loop {
                    let (is_complete, may_have_more) = connection.receive(plan, buffer, tally)?;
                    if is_complete {
                        batches += 1;
                        match plan.next_batch(run_end, tally.ended) {
                            Some(units) => {
                                connection.begin(&plan.workload, units, tally.ended);
                                connection.write(plan, epoll, index)?;
                            }
                            None => in_flight -= 1,
                        }
                    }
                    if !may_have_more {
                        break;
                    }
                }
            }
            if tally.replies > replies_before {
                last_reply_at = Instant::now();
                if plan.shows_progress {
                    plan.replies_seen.fetch_add(tally.replies - replies_before, Relaxed);
                }
            } else if last_reply_at.elapsed() >= plan.endpoint.timeout {
                // Also if bytes arrive all the time that never complete a reply.
                let ms = plan.endpoint.timeout.as_millis();
                let tls = plan.endpoint.tls.is_some();
                return Err(ClientError::Timeout { ms, tls }.into());
            }
            if judged_after > 0 && batches >= judged_after {
                judged_after = 0;
                if let Some(text) = plan.workload.refusal(tally.replies, &tally.counts) {
                    return Err(LoadError::Refused(text.to_owned()));
                }
            }
        }
        Ok(())
    }
}

impl BenchPlan {
    /// Returns the units of the next batch; `None` if there is none.
    fn next_batch(&self, run_end: RunEnd, now: Instant) -> Option<u32> {
        let depth = self.workload.depth();
        match run_end {
            RunEnd::Time(end) => (now < end).then_some(depth),
            RunEnd::Units(_) => {
                let take = |left: u64| (left > 0).then(|| left.saturating_sub(u64::from(depth)));
                let left = self.units_left.fetch_update(Relaxed, Relaxed, take).ok()?;
                u32::try_from(left).map_or(Some(depth), |left| Some(left.min(depth)))
            }
        }
    }
}

impl LoadConnection {
    fn begin(&mut self, workload: &Workload, units: u32, now: Instant) {
        self.batch_units = units;
        self.replies_left = u64::from(units) * u64::from(workload.unit_requests());
        self.written_bytes = 0;
        self.sent_at = now;
    }

    /// Writes as much of the batch as the socket accepts: nearly always all of it.
    fn write(&mut self, plan: &BenchPlan, epoll: &Epoll, index: usize) -> Result<(), LoadError> {
        let batch = plan.workload.batch(self.batch_units);
        loop {
            let written = if self.written_bytes < batch.len() {
                self.stream.write(&batch[self.written_bytes..])
            } else if self.stream.has_unsent() {
                self.stream.flush().map(|()| 0)
            } else {
                break;
            };
            match written {
                Ok(n) => self.written_bytes += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The server's last error, if there is one, is still to be read.
                Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                    break;
                }
                Err(error) => return Err(LoadError::Write(error)),
            }
        }
        let waits_for_room = self.written_bytes < batch.len() || self.stream.has_unsent();
        if waits_for_room != self.waits_for_room {
            self.waits_for_room = waits_for_room;
            let interest =
                if waits_for_room { EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT } else { EpollFlags::EPOLLIN };
            epoll.modify(&self.stream, &mut EpollEvent::new(interest, index as u64)).map_err(EpollError)?;
        }
        Ok(())
    }

    /// Reads once. Returns whether that completed the batch, and whether more bytes may be waiting.
    fn receive(
        &mut self,
        plan: &BenchPlan,
        buffer: &mut [u8],
        tally: &mut ThreadTally,
    ) -> Result<(bool, bool), ClientError> {
        let (replies, may_have_more) = self.read(plan, buffer, &mut tally.counts)?;
        tally.replies += replies;
        self.replies_left = self.replies_left.checked_sub(replies).ok_or(ClientError::TooMany)?;
        let is_complete = replies > 0 && self.replies_left == 0;
        if is_complete {
            tally.ended = Instant::now();
            let latency_ns = tally.ended.duration_since(self.sent_at).as_nanos();
            tally.latency_ns.saturating_record(u64::try_from(latency_ns).unwrap_or(u64::MAX));
        }
        Ok((is_complete, may_have_more))
    }

    /// Reads once. Returns the number of completed replies, and whether more bytes may be waiting.
    fn read(
        &mut self,
        plan: &BenchPlan,
        buffer: &mut [u8],
        counts: &mut ReplyCounter,
    ) -> Result<(u64, bool), ClientError> {
        match self.stream.read(buffer) {
            Ok(0) => Err(ClientError::Closed { tls: self.stream.is_tls() }),
            Ok(n) => match self.replies.scan(&buffer[..n], counts) {
                Ok(replies) => Ok((replies, self.stream.is_tls())),
                Err(error) => Err(ClientError::InvalidReply(error)),
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((0, false)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok((0, true)),
            Err(error) => Err(ClientError::of(error, &self.stream, plan.endpoint.timeout)),
        }
    }
}

/// Connects and logs in. The returned socket does not block.
fn open(plan: &BenchPlan) -> Result<client::Connection, ClientError> {
    let stream = plan.endpoint.connect()?;
    stream.set_nonblocking().map_err(ClientError::Io)?;
    Ok(stream)
}
