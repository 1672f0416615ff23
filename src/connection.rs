//! A client's socket: bytes in, turns, bytes out.
//!
//! One read, one draw and one write a turn; everything the bytes mean is decided by the [`Session`], which is pure. A
//! reply that the client does not take stops the reading: a client that sends and never reads costs one turn's input
//! and output, and no more IDs.
//!
//! Buffers belong to whoever works: a connection that has nothing to say holds none, so that ten thousand idle clients
//! cost little. Invariant: before every read, all complete requests that arrived are answered.

mod patience;

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

pub use patience::CutOff;
use patience::Patience;

use crate::clients::{Admission, Client, Stop};
use crate::clock::{self, Clock};
use crate::id::{Refusal, Reservation};
use crate::metrics::{MeasuredDraw, Work};
use crate::resp::Value;
use crate::server::{Monitoring, Performed, Server};
use crate::session::{Calls, ErrorCode, Reply, Session, Turn, Unblock};
use crate::telemetry::bucket_of;
use crate::tls;

/// Room for one read: 16 KiB, as Redis's. A thousand `GETID` as arrays are 14 KB.
const READ_BYTES: usize = 16 * 1024;

/// Replies of several turns are gathered up to this before they are written.
const FLUSH_BYTES: usize = 64 * 1024;

/// The beginning of a request up to this size is copied out of the buffer, so that a client that drips bytes costs
/// what it sent; a larger one keeps the buffer.
const REST_COPIED_MAX: usize = 1024;

/// A buffer that grew past this is given back to the system rather than kept for the next connection.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// Buffers kept for the next connection that has something to say, per thread.
const KEPT_BUFFERS_MAX: usize = 64;

/// How often a client that waits for IDs is looked at, to see whether it is still there.
const HANGUP_CHECK: Duration = Duration::from_millis(100);

/// The same for one that `CLIENT PAUSE` holds. It takes no place that another waits for, and thousands may be held.
const HELD_CHECK: Duration = Duration::from_secs(1);

/// Lines for monitors are gathered up to this before they are given to them.
const FED_BYTES: usize = 16 * 1024;

/// Draws that do not wait are measured now and then; all of them, if commands from this time on are to be told.
const MEASURE_ALL_BELOW_NS: u64 = 100_000;

/// A byte stream that a client can be on.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + Sync + Sized {
    /// The socket that carries it; `None` if it is closed already.
    fn socket(&self) -> Option<BorrowedFd<'_>>;
}

impl Transport for TcpStream {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

impl Transport for UnixStream {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

impl Transport for tls::Stream {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        tls::Stream::socket(self)
    }
}

/// A client's socket and all that belongs to it.
///
/// It lives in one allocation from accept to end: an `async fn` that takes it by value would hold a copy of it at each
/// level of calls, and ten thousand idle clients would cost twice as much.
pub struct Connection<C: Clock, T> {
    server: Arc<Server<C>>,
    io: T,
    session: Session,
    /// The version of the rules that the session was last given; 0, the first, when it was made with them or with later ones.
    rules: u64,
    /// The beginning of a request whose end has not come; empty for most connections most of the time.
    rest: Vec<u8>,
    /// What was done since it was last counted.
    work: Work,
    /// Behind `MONITOR`.
    monitoring: Option<Monitoring>,
    /// Last, so that the socket is closed when the client counts as gone.
    admission: Admission,
}

/// What a connection works with while it has something to say.
#[derive(Debug, Default)]
struct Buffers {
    input: Vec<u8>,
    output: Vec<u8>,
    turn: Turn,
    drawn: Vec<Reservation>,
}

impl<C: Clock, T: Transport> Connection<C, T> {
    /// A connection of a client that was admitted.
    pub fn new(server: Arc<Server<C>>, admission: Admission, session: Session, io: T) -> Box<Self> {
        let work = Work::default();
        Box::new(Connection { server, admission, io, session, rules: 0, rest: Vec::new(), work, monitoring: None })
    }

    /// Serves the client until it goes, breaks the protocol, or is told to stop.
    pub async fn run(mut self: Box<Self>) {
        let watch = PanicWatch { server: Arc::clone(&self.server), client_id: self.admission.client.id };
        let result = self.serve().await;
        drop(watch);
        // Of an answer that an error cut short.
        self.server.metrics.add_read(std::mem::take(&mut self.work));
        let client = &self.admission.client;
        match result {
            Ok(()) => tracing::trace!("client {} left", client.id),
            Err(error) => tracing::debug!("client {} at {} is gone: {error}", client.id, client.peer),
        }
    }

    async fn serve(&mut self) -> io::Result<()> {
        while let Some(mut buffers) = self.read().await? {
            let open = self.answer(&mut buffers).await?;
            buffers.give_back();
            if !open {
                break;
            }
        }
        // Tells the peer that this is the end, where the transport has a way to say so; it may be gone already.
        let _ = Box::pin(tokio::time::timeout(HANGUP_CHECK, self.io.shutdown())).await;
        Ok(())
    }

    /// Waits for bytes, or for lines that a monitor is to be sent, which are put out then; `None` at the end of the stream,
    /// or when told to stop.
    async fn read(&mut self) -> io::Result<Option<Box<Buffers>>> {
        let Connection { admission, io, rest, work, monitoring, .. } = self;
        let client = &admission.client;
        poll_fn(|cx| {
            client.wake_by(cx.waker());
            if client.stopping() != Stop::No {
                return Poll::Ready(Ok(None));
            }
            let mut buffers = Buffers::take();
            buffers.resume(rest);
            // Requests first: lines may come as fast as they are written, and one of the requests may be RESET.
            match poll_read(Pin::new(&mut *io), cx, &mut buffers.input) {
                Poll::Ready(Ok(n)) if n > 0 => {
                    work.reads += 1;
                    work.input_bytes += n as u64;
                    rest.clear();
                    Poll::Ready(Ok(Some(buffers)))
                }
                Poll::Pending if monitoring.as_ref().is_some_and(|lines| lines.take(&mut buffers.output)) => {
                    rest.clear();
                    Poll::Ready(Ok(Some(buffers)))
                }
                end_or_pending => {
                    buffers.suspend(0, rest);
                    buffers.give_back();
                    end_or_pending.map_ok(|_| None)
                }
            }
        })
        .await
    }

    /// Answers every complete request of the input, in as many turns as it takes. False when the connection is to end.
    async fn answer(&mut self, buffers: &mut Buffers) -> io::Result<bool> {
        let Buffers { input, output, turn, drawn } = buffers;
        let mut used = 0;
        loop {
            self.follow_rules();
            turn.account.watch(self.server.monitors.any());
            used += self.session.read(&input[used..], turn);
            self.work.requests += u64::from(turn.commands);
            drawn.clear();
            let began_ns = self.begins_measured_draw(turn);
            let mut draw = None;
            let refusal = match self.try_draw(turn.ids, drawn) {
                Ok(0) => {
                    draw = began_ns.map(|began| MeasuredDraw { ns: since(began), waited: false });
                    None
                }
                Ok(missing) => {
                    // What is answered already must not wait with the rest.
                    self.flush(output).await?;
                    let began_ns = clock::stopwatch_ns();
                    // Boxed: it is rare, and its state would otherwise be part of every idle connection.
                    let refusal = Box::pin(self.draw_waiting(missing, drawn)).await?;
                    draw = Some(MeasuredDraw { ns: since(began_ns), waited: true });
                    refusal
                }
                Err(refusal) => Some(NoIds::Refused(refusal)),
            };
            match &refusal {
                None => self.session.write(turn, Ok(drawn), output),
                Some(refusal) => {
                    let text = refusal.to_string();
                    self.session.write(turn, Err(&text), output);
                    self.count_refused(turn, &text);
                }
            }
            self.count(turn, draw);
            if !turn.denials.is_empty() {
                self.publish();
                self.server.note_denials(std::mem::take(&mut turn.denials), &self.admission.client);
            }
            if let Some(effect) = turn.effect.take() {
                self.publish();
                let client = &self.admission.client;
                let began_ns = clock::stopwatch_ns();
                let value = match self.server.perform(effect, client) {
                    Performed::Reply(value) => Some(value),
                    Performed::End => None,
                    // Boxed, as above.
                    Performed::Waits(effect) => Some(Box::pin(self.server.perform_waiting(effect, client)).await),
                };
                self.count_effect(turn, value.as_ref(), since(began_ns));
                match value {
                    Some(value) => self.session.reply(&value, output),
                    None => turn.close = true,
                }
                // It may have killed itself: whatever stands behind that in the input is not answered.
                turn.close |= self.admission.client.stopping() == Stop::AfterReply;
                self.follow_monitor();
            }
            if let Some(breach) = turn.broken {
                self.server.note_breach(breach, &self.admission.client);
            }
            if self.monitoring.is_some() && (turn.close || !self.session.profile().monitors) {
                self.monitoring = None;
            }
            let last = turn.close || !turn.more;
            if last || output.len() >= FLUSH_BYTES {
                self.admission.client.touch(self.server.metrics.uptime_s.load(Relaxed), input.len() - used);
                self.flush(output).await?;
            } else {
                // Replies that nobody hears never come to the socket, where others get their turn, and a wish to end is seen.
                tokio::task::consume_budget().await;
                if self.admission.client.stopping() == Stop::Now {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
            if last {
                break;
            }
            if turn.held {
                self.publish();
                self.admission.client.touch(self.server.metrics.uptime_s.load(Relaxed), input.len() - used);
                self.flush(output).await?;
                // Boxed for the same reason as above.
                Box::pin(self.wait_for_unpause()).await?;
            }
        }
        self.publish();
        self.session.release_memory();
        self.server.metrics.add_read(std::mem::take(&mut self.work));
        let open = !turn.close;
        buffers.suspend(used, &mut self.rest);
        Ok(open)
    }

    /// Shows others who the client is by now. To be called before every wait: who is looked for by name or user, perhaps to
    /// be killed, must be found while it waits.
    fn publish(&self) {
        self.admission.client.publish(self.session.profile());
    }

    /// Monitors from now on, if the session says so.
    fn follow_monitor(&mut self) {
        if self.session.profile().monitors && self.monitoring.is_none() {
            self.monitoring = Some(self.server.monitors.add(&self.admission.client));
        }
    }

    /// Whether the turn's draw is measured: when it begins.
    #[inline]
    fn begins_measured_draw(&self, turn: &Turn) -> Option<u64> {
        if turn.ids == 0 {
            return None;
        }
        let own = self.server.metrics.own_commands()?;
        let is_measured = own.is_measured_next() || self.session.rules().timing.noted_ns < MEASURE_ALL_BELOW_NS;
        is_measured.then(clock::stopwatch_ns)
    }

    /// Counts what a turn did, but for its effect.
    #[inline]
    fn count(&self, turn: &mut Turn, draw: Option<MeasuredDraw>) {
        let Some(own) = self.server.metrics.own_commands() else { return };
        own.add(turn.account.calls());
        if let Some(draw) = draw {
            self.count_draw(turn, draw);
        }
        if turn.account.has_more() {
            self.count_more(turn);
        }
    }

    #[cold]
    fn count_draw(&self, turn: &Turn, draw: MeasuredDraw) {
        let Some(own) = self.server.metrics.own_commands() else { return };
        let share_ns = own.charge(turn.account.calls(), draw);
        if draw.waited {
            self.server.note_draw_wait(draw.ns);
        }
        if share_ns >= self.session.rules().timing.noted_ns {
            self.server.note_ids(&self.admission.client, &self.session.profile().name, turn.replies(), share_ns);
        }
    }

    /// Errors, slow commands, and what monitors are shown.
    #[cold]
    fn count_more(&self, turn: &mut Turn) {
        let Some(own) = self.server.metrics.own_commands() else { return };
        for &(code, count) in turn.account.errors() {
            own.add_error(code, count);
        }
        for noted in turn.account.take_noted() {
            self.server.note(&self.admission.client, &self.session.profile().name, noted);
        }
        let mut shown = turn.account.shown().peekable();
        if shown.peek().is_some() {
            let now_us = self.server.issuer.clock().wall_unix_us();
            let (unix_s, us) = (now_us.div_euclid(1_000_000), now_us.rem_euclid(1_000_000));
            let mut lines = Vec::new();
            for (database, args) in shown {
                if lines.len() >= FED_BYTES {
                    self.server.monitors.feed(&lines);
                    lines.clear();
                }
                let peer = self.admission.client.peer.for_monitors();
                // Writing to a Vec cannot fail.
                let _ = write!(lines, "+{unix_s}.{us:06} [{database} {peer}] ");
                lines.extend_from_slice(args);
                lines.extend_from_slice(b"\r\n");
            }
            self.server.monitors.feed(&lines);
        }
    }

    /// ID commands of a turn that got an error for want of IDs.
    #[cold]
    fn count_refused(&self, turn: &Turn, text: &str) {
        let Some(own) = self.server.metrics.own_commands() else { return };
        let (mut getids, mut mgetids) = (0, 0);
        for reply in turn.replies() {
            match *reply {
                Reply::Integers { count } => getids += count,
                Reply::Bulks { .. } => mgetids += 1,
                Reply::Unheard { .. } | Reply::Encoded { .. } => {}
            }
        }
        own.refuse(getids, mgetids, ErrorCode::of(text.as_bytes()));
    }

    /// The command whose effect was performed.
    fn count_effect(&self, turn: &mut Turn, value: Option<&Value>, performed_ns: u64) {
        let (Some(own), Some(mut asker)) = (self.server.metrics.own_commands(), turn.account.take_asker()) else {
            return;
        };
        asker.ns += performed_ns;
        let mut failed = 0;
        if let Some(Value::Error(text)) = value {
            own.add_error(ErrorCode::of(text.as_bytes()), 1);
            failed = 1;
        }
        let (verb, ns) = (asker.command.verb, asker.ns);
        own.add(&[Calls { verb, calls: 1, failed, rejected: 0, ns, bucket: bucket_of(ns) }]);
        if ns >= self.session.rules().timing.noted_ns {
            self.server.note(&self.admission.client, &self.session.profile().name, asker);
        }
    }

    /// Goes by the rules, and the pause, that are in force by now.
    #[inline]
    fn follow_rules(&mut self) {
        let version = self.server.rules.version();
        if version != self.rules {
            self.rules = version;
            self.session.set_rules(self.server.rules.get());
        }
        self.session.set_pause(self.server.pauses.holds());
    }

    /// Draws `n` IDs as far as that goes without waiting; returns how many are missing.
    #[inline]
    fn try_draw(&self, n: u32, drawn: &mut Vec<Reservation>) -> Result<u32, Refusal> {
        if n == 0 {
            return Ok(0);
        }
        let Some(reservation) = self.server.issuer.try_draw(n)? else { return Ok(n) };
        drawn.push(reservation);
        Ok(n - reservation.len)
    }

    /// Draws `n` more IDs, in turn with others. `Some` text goes to the client; an error ends the connection.
    async fn draw_waiting(&self, n: u32, drawn: &mut Vec<Reservation>) -> io::Result<Option<NoIds>> {
        let client = &self.admission.client;
        self.publish();
        // Until it is served it is not idle, however long that takes.
        let _waiting = client.waits_for_ids();
        let mut draw = pin!(self.server.issuer.draw(n, drawn));
        let mut look = tokio::time::interval(HANGUP_CHECK);
        loop {
            let result = or_stopped(client, async {
                tokio::select! {
                    result = &mut draw => Some(result.err().map(NoIds::Refused)),
                    how = unblocked(client) => Some(Some(NoIds::Unblocked(how))),
                    _ = look.tick() => None,
                }
            })
            .await;
            match result {
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
                Some(Some(result)) => {
                    client.note_active(self.server.metrics.uptime_s.load(Relaxed));
                    return Ok(result);
                }
                // Nobody is there to read the answer: the place in the queue goes to the next.
                Some(None) if self.io.socket().is_none_or(hung_up) => return Err(io::ErrorKind::ConnectionReset.into()),
                Some(None) => {}
            }
        }
    }

    /// Waits while `CLIENT PAUSE` holds the next request. An error ends the connection: the server stops, which is no time
    /// to let a held request go on, or nobody is there any more.
    async fn wait_for_unpause(&self) -> io::Result<()> {
        let client = &self.admission.client;
        let _held = client.is_held();
        let mut over = pin!(self.server.pauses.over());
        let mut look = tokio::time::interval(HELD_CHECK);
        loop {
            let is_over = poll_fn(|cx| {
                client.wake_by(cx.waker());
                if client.stopping() != Stop::No {
                    return Poll::Ready(None);
                }
                if over.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Some(true));
                }
                look.poll_tick(cx).map(|_| Some(false))
            })
            .await;
            match is_over {
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
                Some(true) => {
                    client.note_active(self.server.metrics.uptime_s.load(Relaxed));
                    return Ok(());
                }
                Some(false) if self.io.socket().is_none_or(hung_up) => {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                Some(false) => {}
            }
        }
    }

    async fn flush(&mut self, output: &mut Vec<u8>) -> io::Result<()> {
        if output.is_empty() {
            return Ok(());
        }
        let mut written = 0;
        let client = &self.admission.client;
        let at_once = poll_fn(|cx| {
            client.wake_by(cx.waker());
            if client.stopping() == Stop::Now {
                return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
            }
            match poll_write(&mut self.io, cx, output, &mut written) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending => Poll::Ready(None),
            }
        })
        .await;
        let result = match at_once {
            Some(result) => result,
            // Boxed for the same reason as a draw that waits.
            None => Box::pin(self.flush_slowly(output, &mut written)).await,
        };
        self.work.output_bytes += written as u64;
        self.work.writes += 1;
        output.clear();
        result
    }

    /// Writes what is left of `output` behind `written`, which the socket did not take at once, as long as the client's
    /// limits allow.
    async fn flush_slowly(&mut self, output: &[u8], written: &mut usize) -> io::Result<()> {
        self.publish();
        let Connection { server, admission, io, .. } = self;
        let client = &admission.client;
        let mut patience = Patience::new(Instant::now());
        let result = loop {
            let pending = output.len() - *written;
            client.note_output(pending);
            let config = server.config.get();
            let look_again = match patience.check(Instant::now(), pending, &config) {
                Ok(at) => at,
                Err(reason) => {
                    server.note_cut_off(reason, pending, client);
                    break Err(io::Error::new(io::ErrorKind::TimedOut, reason.to_string()));
                }
            };
            let before = *written;
            let progress = poll_fn(|cx| {
                client.wake_by(cx.waker());
                if client.stopping() == Stop::Now {
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
                }
                match poll_write(io, cx, output, written) {
                    Poll::Ready(result) => Poll::Ready(Some(result)),
                    Poll::Pending if *written > before => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
            });
            match tokio::time::timeout_at(look_again, progress).await {
                Ok(Some(result)) => break result,
                Ok(None) => {
                    patience.note_progress(Instant::now());
                    client.note_active(server.metrics.uptime_s.load(Relaxed));
                }
                Err(_) => {}
            }
        };
        client.note_output(0);
        result
    }
}

fn since(began_ns: u64) -> u64 {
    clock::stopwatch_ns().saturating_sub(began_ns)
}

/// Counts a connection that ends in a panic. Only its own client is cut off.
struct PanicWatch<C: Clock> {
    server: Arc<Server<C>>,
    client_id: u64,
}

impl<C: Clock> Drop for PanicWatch<C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.server.metrics.panics.fetch_add(1, Relaxed);
            tracing::error!("client {} ran into a bug and is closed; please report the lines above", self.client_id);
        }
    }
}

/// One read into the spare room of `input`.
fn poll_read<T: AsyncRead + Unpin>(
    mut io: Pin<&mut T>,
    cx: &mut Context<'_>,
    input: &mut Vec<u8>,
) -> Poll<io::Result<usize>> {
    pin!(io.read_buf(input)).poll(cx)
}

/// Writes `output` from `written` on, as far as the transport takes it, and then what the transport keeps itself: TLS does.
fn poll_write<T: AsyncWrite + Unpin>(
    io: &mut T,
    cx: &mut Context<'_>,
    output: &[u8],
    written: &mut usize,
) -> Poll<io::Result<()>> {
    while *written < output.len() {
        match ready!(Pin::new(&mut *io).poll_write(cx, &output[*written..]))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            taken => *written += taken,
        }
    }
    Pin::new(io).poll_flush(cx)
}

/// Runs `future` unless the client is told to stop at once: `None` then.
async fn or_stopped<F: Future>(client: &Client, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        client.wake_by(cx.waker());
        if client.stopping() == Stop::Now { Poll::Ready(None) } else { future.as_mut().poll(cx).map(Some) }
    })
    .await
}

/// Resolves when `CLIENT UNBLOCK` ends the client's wait, which wakes the task.
async fn unblocked(client: &Client) -> Unblock {
    poll_fn(|_| client.unblocked().map_or(Poll::Pending, Poll::Ready)).await
}

/// Why a turn gets no IDs. `Display` is the text of the error reply.
#[derive(Debug)]
enum NoIds {
    Refused(Refusal),
    Unblocked(Unblock),
}

impl fmt::Display for NoIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoIds::Refused(refusal) => refusal.fmt(f),
            NoIds::Unblocked(how) => how.fmt(f),
        }
    }
}

/// Whether the peer is gone for good. One that only finished sending is not: it still reads.
fn hung_up(fd: BorrowedFd<'_>) -> bool {
    let mut poll = [PollFd::new(fd, PollFlags::empty())];
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    nix::poll::poll(&mut poll, PollTimeout::ZERO).is_ok_and(|n| n > 0)
        && poll[0].revents().is_some_and(|events| events.intersects(gone))
}

thread_local! {
    // Boxed, so that a read that has to wait moves a pointer and not the whole.
    #[expect(clippy::vec_box, reason = "buffers travel as one pointer")]
    static KEPT: RefCell<Vec<Box<Buffers>>> = const { RefCell::new(Vec::new()) };
}

impl Buffers {
    fn take() -> Box<Buffers> {
        KEPT.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    /// Puts the beginning of a request, left over from the last read, in front of the next.
    fn resume(&mut self, rest: &mut Vec<u8>) {
        if rest.len() > REST_COPIED_MAX {
            std::mem::swap(&mut self.input, rest);
        } else {
            self.input.extend_from_slice(rest);
        }
        // Doubling, so that a large request is copied a bounded number of times, and costs at most twice what came.
        self.input.reserve(READ_BYTES.max(self.input.len()));
    }

    /// The opposite: leaves what was not used to the connection.
    fn suspend(&mut self, used: usize, rest: &mut Vec<u8>) {
        if self.input.len() - used > REST_COPIED_MAX {
            self.input.drain(..used);
            *rest = std::mem::take(&mut self.input);
        } else if rest.is_empty() {
            rest.extend_from_slice(&self.input[used..]);
        }
        if rest.is_empty() {
            *rest = Vec::new();
        }
    }

    fn give_back(mut self: Box<Self>) {
        self.input.clear();
        self.output.clear();
        if self.input.capacity() > KEPT_BYTES_MAX {
            self.input = Vec::new();
        }
        if self.output.capacity() > KEPT_BYTES_MAX {
            self.output = Vec::new();
        }
        KEPT.with_borrow_mut(|kept| {
            if kept.len() < KEPT_BUFFERS_MAX {
                kept.push(self);
            }
        });
    }
}
