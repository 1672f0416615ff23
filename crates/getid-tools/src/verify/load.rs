//! The load side: one connection, its requests and their replies.
//!
//! Each connection is a task that keeps `--pipeline` requests in flight and passes every reply to its watch. Reading
//! and writing are concurrent: if the server waits for its client to read, a client that only writes would block
//! forever.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use getid_core::Number;
use hdrhistogram::Histogram;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

use super::{Floor, ReplyTimes, ServerWatch, Watch};
use crate::client::{ClientError, Connection, Endpoint};
use crate::replies::{ErrorReplies, IdReplyCollector, InvalidReply, Replies, Reply, push_request};
use crate::subject::Subject;
use getid_system::clock::wall_unix_ms;
use getid_text::plural::counted;
use getid_text::printable::printable;

const READ_BYTES: usize = 16 * 1024;

/// Pause after an error reply: a refusing server need not get a thousand requests a second.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// Requests of a run, and the counters that its connections share.
pub struct VerifyPlan {
    /// IDs of one MGETID; `None` for GETID.
    pub batch: Option<u32>,
    /// The subject of the IDs.
    pub subject: Arc<Subject>,
    /// The words after the command: the generator's name, and fields with their values.
    pub words: Vec<String>,
    /// Largest number of requests in flight on each connection.
    pub pipeline: usize,
    /// Number of IDs not requested yet.
    pub ids_left: AtomicU64,
    /// Number of IDs that all connections have received.
    pub ids_seen: AtomicU64,
    /// Whether the time is up, so that no more IDs are requested.
    pub stop: AtomicBool,
}

impl VerifyPlan {
    /// Returns the number of IDs of the next request; `None` if there is none.
    fn next_request(&self) -> Option<u32> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let batch_ids = u64::from(self.batch.unwrap_or(1));
        let subtract = |left: u64| (left > 0).then(|| left - left.min(batch_ids));
        let left = self.ids_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract).ok()?;
        u32::try_from(left.min(batch_ids)).ok()
    }

    /// Returns the words of a request for that many IDs.
    pub fn request(&self, ids: u32) -> Vec<String> {
        let command = match self.batch {
            Some(_) => vec!["MGETID".to_owned(), ids.to_string()],
            None => vec!["GETID".to_owned()],
        };
        [command, self.words.clone()].concat()
    }
}

/// Returns a latency histogram from 1 µs to 1 hour, to 1 %.
fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 2).unwrap_or_else(|_| unreachable!("the bounds are constants"))
}

/// One connection that is ready to draw.
pub struct VerifyConnection {
    socket: AsyncFd<Connection>,
    endpoint: Arc<Endpoint>,
    plan: Arc<VerifyPlan>,
    watch: Watch,
    scanner: Replies,
    collector: IdReplyCollector,
    buffer: Vec<u8>,
    output: BytesMut,
    /// The last request: its number of IDs, and its bytes. Nearly all requests are equal.
    request: (u32, Vec<u8>),
    pending: VecDeque<PendingRequest>,
    latency_us: Histogram<u64>,
    requests: u64,
    errors: ErrorReplies,
}

struct PendingRequest {
    floor: Floor,
    sent_at: Instant,
    sent_unix_ms: i64,
    ids: u32,
}

/// Result of one connection.
pub struct ConnectionResult {
    /// The IDs that the connection received, and their violations.
    pub watch: Watch,
    /// Time from each request to its reply, µs, with a precision of 1 %.
    pub latency_us: Histogram<u64>,
    /// Number of requests with a reply, error replies included.
    pub requests: u64,
    /// Error replies with their counts.
    pub errors: ErrorReplies,
    /// The error that broke the connection; `None` if it ended as planned.
    pub disconnect: Option<String>,
}

/// Result of a run over all its connections.
pub struct RunResult {
    /// The servers of the run, in the order of the report.
    pub servers: Vec<Arc<ServerWatch>>,
    /// One watch for each connection that ended.
    pub watches: Vec<Watch>,
    /// Time from the first request until the last connection ended.
    pub elapsed: Duration,
    /// Time from each request to its reply, µs, with a precision of 1 %.
    pub latency_us: Histogram<u64>,
    /// Number of requests with a reply, error replies included.
    pub requests: u64,
    /// Error replies with their counts.
    pub errors: ErrorReplies,
    /// Broken connections, with their errors.
    pub disconnects: Vec<String>,
    /// The report of each server about its layout, if that is at its limit.
    pub at_limit: Vec<Option<String>>,
}

impl RunResult {
    /// Returns the result of a run over these servers, before any connection has ended.
    pub fn of(servers: Vec<Arc<ServerWatch>>) -> RunResult {
        RunResult {
            servers,
            watches: Vec::new(),
            elapsed: Duration::ZERO,
            latency_us: new_histogram(),
            requests: 0,
            errors: ErrorReplies::default(),
            disconnects: Vec::new(),
            at_limit: Vec::new(),
        }
    }

    /// Returns the number of IDs that all connections received.
    pub fn ids(&self) -> u64 {
        self.watches.iter().map(|watch| watch.ids.len() as u64).sum()
    }

    /// Adds the result of one connection.
    pub fn absorb(&mut self, outcome: ConnectionResult) {
        let ConnectionResult { watch, latency_us, requests, errors, disconnect } = outcome;
        if let Some(reason) = disconnect {
            self.disconnects.push(format!("{} connection {}: {reason}", watch.server.name, watch.connection));
        }
        self.errors.absorb(&errors);
        self.requests += requests;
        // It cannot fail, because the bounds are the same.
        let _ = self.latency_us.add(latency_us);
        self.watches.push(watch);
    }
}

impl VerifyConnection {
    /// Connects, logs in, and checks that the server answers.
    ///
    /// # Errors
    ///
    /// Fails if the connection cannot be opened, or if the server refuses the login or PING.
    pub async fn connect(
        endpoint: &Arc<Endpoint>,
        plan: &Arc<VerifyPlan>,
        watch: Watch,
    ) -> Result<VerifyConnection, ClientError> {
        let to = Arc::clone(endpoint);
        let connecting = tokio::task::spawn_blocking(move || {
            let mut ping = Vec::new();
            push_request(&mut ping, &["PING"]);
            let mut connection = to.connect()?;
            match to.request(&mut connection, &ping, 1)?.pop() {
                Some(Reply::Error(text)) => Err(ClientError::Refused { command: "PING", text }),
                _ => Ok(connection),
            }
        });
        let connection = connecting.await.map_err(|error| ClientError::Io(error.into()))??;
        connection.set_nonblocking().map_err(ClientError::Io)?;
        Ok(VerifyConnection {
            socket: register(connection).map_err(ClientError::Io)?,
            endpoint: Arc::clone(endpoint),
            plan: Arc::clone(plan),
            watch,
            scanner: Replies::default(),
            collector: IdReplyCollector::of(Arc::clone(&plan.subject)),
            buffer: vec![0; READ_BYTES],
            output: BytesMut::new(),
            request: (0, Vec::new()),
            pending: VecDeque::new(),
            latency_us: new_histogram(),
            requests: 0,
            errors: ErrorReplies::default(),
        })
    }

    /// Draws until the plan stops it, or the connection breaks.
    pub async fn run(mut self) -> ConnectionResult {
        let disconnect = self.draw().await.err().map(|error| error.to_string());
        let VerifyConnection { watch, latency_us, requests, errors, .. } = self;
        ConnectionResult { watch, latency_us, requests, errors, disconnect }
    }

    async fn draw(&mut self) -> Result<(), ClientError> {
        loop {
            self.fill_pipeline();
            if self.pending.is_empty() {
                return Ok(());
            }
            self.exchange().await?;
            if self.handle_replies()? {
                tokio::time::sleep(ERROR_PAUSE).await;
            }
        }
    }

    /// Fills the pipeline. The floor is noted before a byte is sent.
    fn fill_pipeline(&mut self) {
        if self.pending.len() >= self.plan.pipeline {
            return;
        }
        let floor = self.watch.server.floor();
        let (sent_at, sent_unix_ms) = (Instant::now(), wall_unix_ms());
        while self.pending.len() < self.plan.pipeline
            && let Some(ids) = self.plan.next_request()
        {
            if self.request.0 != ids {
                self.request = (ids, Vec::new());
                push_request(&mut self.request.1, &self.plan.request(ids));
            }
            self.output.extend_from_slice(&self.request.1);
            self.pending.push_back(PendingRequest { floor, sent_at, sent_unix_ms, ids });
        }
    }

    /// Reads, and writes pending output at the same time. The oldest request must get its reply in time, even if single
    /// bytes keep arriving.
    async fn exchange(&mut self) -> Result<(), ClientError> {
        let timeout = self.endpoint.timeout;
        let oldest = self.pending.front().map_or_else(Instant::now, |pending| pending.sent_at);
        match tokio::time::timeout_at((oldest + timeout).into(), self.transfer()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(TransferError::Stream(error))) => Err(ClientError::InvalidReply(error)),
            Ok(Err(TransferError::Closed)) => Err(ClientError::Closed { tls: self.socket.get_ref().is_tls() }),
            Ok(Err(TransferError::Io(error))) => Err(ClientError::of(error, self.socket.get_ref(), timeout)),
            Err(_) => Err(ClientError::Timeout { ms: timeout.as_millis(), tls: self.socket.get_ref().is_tls() }),
        }
    }

    /// Transfers bytes until a reply is complete.
    async fn transfer(&mut self) -> Result<(), TransferError> {
        let VerifyConnection { socket, scanner, collector, buffer, output, .. } = self;
        loop {
            let has_output = !output.is_empty() || socket.get_ref().has_unsent();
            let interest = if has_output { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            let mut guard = socket.ready_mut(interest).await?;
            if has_output && guard.ready().is_writable() {
                let connection = guard.get_inner_mut();
                let written = if output.is_empty() { connection.flush().map(|()| 0) } else { connection.write(output) };
                match written {
                    Ok(0) if !output.is_empty() => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                    Ok(written) => output.advance(written),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        guard.clear_ready_matching(Ready::WRITABLE);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            if guard.ready().is_readable() {
                match guard.get_inner_mut().read(buffer) {
                    Ok(0) => return Err(TransferError::Closed),
                    Ok(n) => {
                        if scanner.scan(&buffer[..n], collector)? > 0 {
                            return Ok(());
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        guard.clear_ready_matching(Ready::READABLE);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// Passes all complete replies to the watch. Returns true if one of them was an error.
    fn handle_replies(&mut self) -> Result<bool, ClientError> {
        let (received_at, received_unix_ms) = (Instant::now(), wall_unix_ms());
        let mut has_error = false;
        for reply in std::mem::take(&mut self.collector.replies) {
            let Some(pending) = self.pending.pop_front() else {
                self.watch.wrong_reply("a reply without a request");
                return Err(ClientError::TooMany);
            };
            let PendingRequest { floor, sent_at, sent_unix_ms, ids } = pending;
            let times = ReplyTimes { sent_unix_ms, received_unix_ms };
            let latency_us = u64::try_from(received_at.duration_since(sent_at).as_micros()).unwrap_or(u64::MAX);
            self.latency_us.saturating_record(latency_us.max(1));
            self.requests += 1;
            match (reply, self.plan.batch) {
                (Reply::Error(text), _) => {
                    has_error = true;
                    self.errors.add(text.as_bytes());
                }
                (Reply::Id(id), None) => self.handle_ids(floor, times, &[id]),
                (Reply::Ids(list), Some(_)) => {
                    if list.len() != ids as usize {
                        self.watch
                            .wrong_reply(&format!("{} in reply to MGETID {ids}", counted(list.len() as u64, "id")));
                    }
                    self.handle_ids(floor, times, &list);
                }
                (Reply::Other(text) | Reply::Text(text), _) => {
                    self.watch.wrong_reply(&format!("'{}' in place of ids", printable(&text)));
                }
                (Reply::Id(_) | Reply::Ids(_), _) => self.watch.wrong_reply("a reply of the other command's kind"),
            }
        }
        Ok(has_error)
    }

    fn handle_ids(&mut self, floor: Floor, times: ReplyTimes, ids: &[Number]) {
        self.watch.received(floor, times, ids);
        self.plan.ids_seen.fetch_add(ids.len() as u64, Ordering::Relaxed);
    }
}

/// Registers the connection with Tokio's epoll.
#[expect(deprecated, reason = "its other way is unsafe; this one is sound for a type that owns the socket it names")]
fn register(connection: Connection) -> io::Result<AsyncFd<Connection>> {
    AsyncFd::new(connection)
}

enum TransferError {
    Io(io::Error),
    Stream(InvalidReply),
    Closed,
}

impl From<io::Error> for TransferError {
    fn from(error: io::Error) -> TransferError {
        TransferError::Io(error)
    }
}

impl From<InvalidReply> for TransferError {
    fn from(error: InvalidReply) -> TransferError {
        TransferError::Stream(error)
    }
}
