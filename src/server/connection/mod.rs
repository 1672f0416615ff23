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
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use getid_core::{Refusal, Reservation};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::time::{Instant, MissedTickBehavior};

pub use patience::CutOff;
use patience::Patience;

use crate::acl::Reason;
use crate::logging::throttle::throttled;
use crate::metrics::{Counter, MeasuredDraw, Work};
use crate::resp::Value;
use crate::server::registry::{Admission, Client, Stop};
use crate::server::transport::{Peer, Transport, peer_of};
use crate::server::{Act, Answer, MONITORS_MAX, Monitoring, Pieces, Server};
use crate::session::{Calls, Draws, Effect, ErrorCode, IntrospectEffect, Reply, Session, TURN_NS_MAX, Turn, Unblock};
use crate::stats::bucket_of;
use crate::system::clock::{self, Clock as _};

/// Room for one read: 16 KiB, as Redis's. A thousand `GETID` as arrays are 14 KB.
const READ_BYTES: usize = 16 * 1024;

/// Replies of several turns are gathered up to this before they are written.
const FLUSH_BYTES: usize = 64 * 1024;

/// The beginning of a request up to this size is copied out of the buffer, so that a client that drips bytes costs
/// what it sent; a larger one keeps the buffer.
const REST_COPIED_MAX: usize = 8 * 1024;

/// Room for one read of a client that has to log in and has not: the largest request that it may send.
const STRANGER_READ_BYTES: usize = 8 * 1024;

/// Replies to such a client are gathered up to this before they are written.
const STRANGER_FLUSH_BYTES: usize = 2 * 1024;

/// IDs at a time for a client that may be gone, if a reply of its own does not need more.
const PART_IDS: u32 = 100;

/// A buffer that grew past this is given back to the system rather than kept for the next connection.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// Buffers kept for the next connection that has something to say, per thread.
const KEPT_BUFFERS_MAX: usize = 64;

/// How often a client that waits for IDs is looked at, to see whether it is still there: after this, and then less and less
/// often. Those who wait long are many.
const HANGUP_CHECK: Duration = Duration::from_millis(100);

/// The least often. As often is who is held by `CLIENT PAUSE` looked at, who takes no place that another waits for.
const HELD_CHECK: Duration = Duration::from_secs(1);

/// How long a client that has more to say keeps its thread before others get their turn, in ns. Twenty of them delay the
/// next by some 5 ms.
const SLICE_NS: u64 = TURN_NS_MAX;

/// A client that has sent so much without the server waiting for it lets others go first before its next read, bytes. What
/// that took is not always known: commands are not timed that give IDs or are refused, and many that are small.
const UNBROKEN_BYTES: usize = READ_BYTES;

/// A client that took longer than this lets others go first before its next read, in ns.
const SHORT_TURN_NS: u64 = 100_000;

/// Lines for monitors are gathered up to this before they are given to them.
const FED_BYTES: usize = 16 * 1024;

/// Draws that do not wait are measured now and then; all of them, if commands from this time on are to be told.
const MEASURE_ALL_BELOW_NS: u64 = 100_000;

/// A client's socket and all that belongs to it.
///
/// It lives in one allocation from accept to end: an `async fn` that takes it by value would hold a copy of it at each
/// level of calls, and ten thousand idle clients would cost twice as much.
pub struct Connection<T> {
    server: Arc<Server>,
    io: T,
    session: Session,
    /// The version of the settings that the session was last given; 0, the first, when it was made with them or with later ones.
    settings: u64,
    /// The beginning of a request whose end has not come; empty for most connections most of the time.
    rest: Vec<u8>,
    /// What was done since it was last counted.
    work: Work,
    /// Read since the server last waited for the client or let others go first, bytes.
    unbroken_bytes: usize,
    /// What an answer holds that is being written piece by piece, bytes.
    answer_bytes: usize,
    /// Behind `MONITOR`.
    monitoring: Option<Monitoring>,
    /// Passwords that the session has leave to try.
    leave: u32,
    /// Passwords that were wrong.
    wrong_logins: u32,
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

impl<T: Transport> Connection<T> {
    /// A connection of a client that was admitted.
    pub fn new(server: Arc<Server>, admission: Admission, session: Session, io: T) -> Box<Self> {
        let work = Work::default();
        Box::new(Connection {
            server,
            admission,
            io,
            session,
            settings: 0,
            rest: Vec::new(),
            work,
            unbroken_bytes: 0,
            answer_bytes: 0,
            monitoring: None,
            leave: 0,
            wrong_logins: 0,
        })
    }

    /// Serves the client until it goes, breaks the protocol, or is told to stop.
    pub async fn run(mut self: Box<Self>) {
        let watch = PanicWatch::new(&self.server, self.admission.client.id);
        let result = self.serve().await;
        drop(watch);
        // Of an answer that an error cut short.
        self.server.metrics.add_read(std::mem::take(&mut self.work));
        let client = &self.admission.client;
        match result {
            Ok(()) => throttled!(self.server.throttle, Left, "client {} left", client.id),
            Err(error) => {
                throttled!(self.server.throttle, Left, "client {} at {} is gone: {error}", client.id, client.peer);
            }
        }
    }

    async fn serve(&mut self) -> io::Result<()> {
        if T::NAMES_USERS && !self.introduce() {
            return Ok(());
        }
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
        let Connection { admission, io, rest, work, monitoring, session, unbroken_bytes, .. } = self;
        let client = &admission.client;
        poll_fn(|cx| {
            client.wake_by(cx.waker());
            if client.stopping() != Stop::No {
                return Poll::Ready(Ok(None));
            }
            let mut buffers = Buffers::take();
            if session.is_authenticated() {
                buffers.resume(rest);
            } else {
                buffers.resume_stranger(rest);
            }
            // Requests first: lines may come as fast as they are written, and one of the requests may be RESET.
            match poll_read(Pin::new(&mut *io), cx, &mut buffers.input) {
                Poll::Ready(Ok(n)) if n > 0 => {
                    work.reads += 1;
                    work.input_bytes += n as u64;
                    *unbroken_bytes += n;
                    rest.clear();
                    Poll::Ready(Ok(Some(buffers)))
                }
                Poll::Pending if monitoring.as_ref().is_some_and(|lines| lines.take(&mut buffers.output)) => {
                    rest.clear();
                    Poll::Ready(Ok(Some(buffers)))
                }
                end_or_pending => {
                    *unbroken_bytes = 0;
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
        let mut used = 0;
        // When others began to wait for this client, as far as it is known to have more to say than IDs.
        let mut busy_since_ns = None;
        // `CLIENT UNBLOCK` ends the wait of all that has been read, be it in several turns.
        let mut unblocked = None;
        loop {
            self.follow_settings();
            let Buffers { input, turn, drawn, .. } = &mut *buffers;
            turn.tally.watch(self.server.monitors.any());
            used += self.session.read(&input[used..], turn);
            self.work.requests += u64::from(turn.commands);
            drawn.clear();
            let began_ns = self.begins_measured_draw(turn);
            let mut draw = None;
            let tried = match unblocked {
                Some(how) if !turn.draws.is_empty() => Err(NoIds::Unblocked(how)),
                _ => self.try_draw(turn.draws, drawn).map_err(NoIds::Refused),
            };
            let refusal = match tried {
                Ok(missing) if missing.is_empty() => {
                    draw = began_ns.map(|began| MeasuredDraw { ns: since(began), waited: false });
                    None
                }
                Ok(missing) => {
                    let began_ns = clock::stopwatch_ns();
                    // Boxed: it is rare, and its state would otherwise be part of every idle connection.
                    let refusal = Box::pin(self.draw_parked(missing, buffers, &mut used)).await?;
                    draw = Some(MeasuredDraw { ns: since(began_ns), waited: true });
                    refusal
                }
                Err(refusal) => Some(refusal),
            };
            if let Some(NoIds::Unblocked(how)) = refusal {
                unblocked = Some(how);
            }
            let Buffers { input, output, turn, drawn } = &mut *buffers;
            match &refusal {
                None => self.session.write(turn, Ok(drawn), output),
                Some(refusal) => {
                    let text = refusal.to_string();
                    self.session.write(turn, Err(&text), output);
                    self.count_refused(turn, &text);
                }
            }
            self.count(turn, draw);
            if turn.has_access_news {
                // Boxed, as above.
                Box::pin(self.take_access_news(turn)).await?;
            }
            if let Some(effect) = turn.effect.take() {
                busy_since_ns.get_or_insert_with(clock::stopwatch_ns);
                // Redis counts the request that asks, too.
                self.admission.client.note_input(input.len());
                // Boxed, as above.
                Box::pin(self.perform(effect, buffers, &mut used)).await?;
            }
            let Buffers { input, output, turn, .. } = &mut *buffers;
            if let Some(breach) = turn.broken {
                self.server.note_breach(breach, &self.admission.client);
            }
            if self.monitoring.is_some() && (turn.close || !self.session.view().monitors) {
                self.monitoring = None;
            }
            let last = turn.close || !turn.more;
            if last || output.len() >= FLUSH_BYTES || self.flushes_early(output.len()) {
                self.admission.client.touch(self.server.metrics.uptime_s.load(Relaxed), input.len() - used);
                self.flush(buffers, &mut used).await?;
            }
            if refusal.is_some() {
                // A refusal costs its client nothing and comes at once, so that a hundred of them could hold the thread: each
                // turn of them is followed by the others' turns.
                tokio::task::yield_now().await;
            }
            let turn = &mut buffers.turn;
            if last {
                if busy_since_ns.is_some() || turn.tally.spent_ns() >= SHORT_TURN_NS {
                    give_way(&mut busy_since_ns, SHORT_TURN_NS).await;
                } else if self.unbroken_bytes >= UNBROKEN_BYTES {
                    self.unbroken_bytes = 0;
                    tokio::task::yield_now().await;
                }
                break;
            }
            busy_since_ns.get_or_insert_with(|| clock::stopwatch_ns().saturating_sub(turn.tally.spent_ns()));
            give_way(&mut busy_since_ns, SLICE_NS).await;
            // Replies that nobody hears never come to the socket, where a wish to end is seen.
            if self.admission.client.stopping() == Stop::Now {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            if turn.held {
                self.publish();
                self.admission.client.touch(self.server.metrics.uptime_s.load(Relaxed), buffers.input.len() - used);
                self.flush(buffers, &mut used).await?;
                buffers.park(&mut used);
                self.note_held(buffers.memory_bytes());
                // Boxed for the same reason as above.
                match buffers.turn.logins_held {
                    0 => Box::pin(self.wait_for_unpause()).await?,
                    logins => Box::pin(self.wait_for_leave(logins)).await?,
                }
            }
        }
        self.publish();
        let open = !buffers.turn.close;
        buffers.suspend(used, &mut self.rest);
        let held = self.session.release_memory() + self.rest.capacity();
        if held != self.admission.client.held_bytes() {
            self.note_held(self.rest.capacity());
        }
        self.server.metrics.add_read(std::mem::take(&mut self.work));
        Ok(open)
    }

    /// Performs what a turn asks of the server, and puts the answer behind its replies.
    async fn perform(&mut self, effect: Effect, buffers: &mut Buffers, used: &mut usize) -> io::Result<()> {
        self.publish();
        let began_ns = clock::stopwatch_ns();
        let is_refused = effect == Effect::Introspect(IntrospectEffect::Monitor) && !self.monitor();
        let answer = if is_refused {
            Answer::Value(Value::error(format!(
                "ERR {MONITORS_MAX} clients monitor, as many as may; CLIENT LIST shows them with the flag O"
            )))
        } else {
            self.server.perform(effect, &self.admission.client).await
        };
        let turn = &mut buffers.turn;
        match answer {
            Answer::Value(value) => {
                self.count_effect(turn, Some(&value), since(began_ns));
                self.session.reply(&value, &mut buffers.output);
            }
            Answer::Pieces(pieces) => {
                let spent_ns = self.reply_in_pieces(pieces, buffers, used).await?;
                self.count_effect(&mut buffers.turn, None, spent_ns);
            }
            Answer::End => {
                self.count_effect(turn, None, since(began_ns));
                turn.close = true;
            }
        }
        // It may have killed itself: whatever stands behind that in the input is not answered.
        buffers.turn.close |= self.admission.client.stopping() == Stop::AfterReply;
        Ok(())
    }

    /// Writes an answer that may be large as it is made, so that there is never more of it than a few pieces, and others go
    /// between them. Returns the time it took to make, in ns.
    async fn reply_in_pieces(
        &mut self,
        mut pieces: Box<dyn Pieces>,
        buffers: &mut Buffers,
        used: &mut usize,
    ) -> io::Result<u64> {
        let Some(protocol) = self.session.answers_in() else { return Ok(0) };
        let mut busy_since_ns = Some(clock::stopwatch_ns());
        let mut spent_ns = 0;
        loop {
            let began_ns = clock::stopwatch_ns();
            let has_more = pieces.write_next(protocol, &mut buffers.output);
            spent_ns += since(began_ns);
            if !has_more {
                self.answer_bytes = 0;
                return Ok(spent_ns);
            }
            if buffers.output.len() >= FLUSH_BYTES {
                self.answer_bytes = pieces.memory_bytes();
                self.flush(buffers, used).await?;
            }
            give_way(&mut busy_since_ns, SLICE_NS).await;
            if self.admission.client.stopping() == Stop::Now {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }

    /// Whether replies go out before there are many: a client that has to log in is not worth a large buffer.
    #[inline]
    fn flushes_early(&self, bytes: usize) -> bool {
        bytes >= STRANGER_FLUSH_BYTES && !self.session.is_authenticated()
    }

    /// Counts what the client holds of the server's memory from now on: `bytes` of buffers, and what its session keeps.
    #[cold]
    fn note_held(&self, bytes: usize) {
        if self.admission.note_held(bytes + self.session.memory_bytes() + self.answer_bytes) {
            self.server.evict_clients();
        }
    }

    /// Shows others who the client is by now. To be called before every wait: who is looked for by name or user, perhaps to
    /// be killed, must be found while it waits.
    #[inline]
    fn publish(&mut self) {
        if let Some(view) = self.session.take_changed_view() {
            self.admission.client.publish(view);
        }
    }

    /// Somebody was refused, or logged in. Others know of it before the client does: who is looked for by user, to be deleted
    /// or killed, must be found from the moment it has its answer.
    ///
    /// The answer to a login that was wrong is late: an error ends the connection meanwhile.
    #[cold]
    async fn take_access_news(&mut self, turn: &mut Turn) -> io::Result<()> {
        let wrong = turn.denials.iter().filter(|denial| denial.reason == Reason::Auth);
        let failures: u64 = wrong.map(|denial| denial.count).sum();
        let left = self.session.settle_leave();
        let kept = if self.session.is_in_exec() { left } else { 0 };
        let leave = std::mem::replace(&mut self.leave, kept);
        // Wrong ones have used theirs.
        let right = leave.saturating_sub(left).saturating_sub(u32::try_from(failures).unwrap_or(u32::MAX));
        let given_back = right + left - kept;
        if given_back > 0 {
            self.server.give_leave_back(self.admission.client.peer.source(), given_back);
        }
        self.publish();
        if right > 0 {
            self.server.audit(Act::Login { user: &self.session.view().user }, &*self.admission.client);
        }
        // Either who deletes the user sees this login, or it is seen here that the user is gone.
        self.follow_settings();
        turn.close |= self.session.has_lost_user();
        if !turn.denials.is_empty() {
            self.server.note_denials(std::mem::take(&mut turn.denials), &self.admission.client);
        }
        if failures == 0 {
            return Ok(());
        }
        let before = u64::from(self.wrong_logins);
        self.wrong_logins = self.wrong_logins.saturating_add(u32::try_from(failures).unwrap_or(u32::MAX));
        let delay = self.server.note_wrong_logins(failures, before, &self.admission.client);
        self.wait(tokio::time::sleep(delay)).await
    }

    /// Takes the user that the client has shown to be in its handshake, if there is one of that name. False when the
    /// connection is to end.
    fn introduce(&mut self) -> bool {
        if let Some(name) = self.io.take_user() {
            self.follow_settings();
            if self.session.log_in_as(&name) {
                self.publish();
                self.server.audit(Act::Login { user: &self.session.view().user }, &*self.admission.client);
                // As behind AUTH: the user may have gone at this moment.
                self.follow_settings();
                return !self.session.has_lost_user();
            }
        }
        true
    }

    /// Waits until the client may try so many passwords. An error ends the connection.
    async fn wait_for_leave(&mut self, logins: u32) -> io::Result<()> {
        let source = self.admission.client.peer.source();
        let wait = self.server.ask_leave(source, logins);
        if !wait.is_zero()
            && let Err(gone) = self.wait(tokio::time::sleep(wait)).await
        {
            self.server.give_leave_back(source, logins);
            return Err(gone);
        }
        self.leave = logins;
        self.session.give_leave(logins);
        Ok(())
    }

    /// Monitors from now on; false if too many do.
    fn monitor(&mut self) -> bool {
        self.monitoring = self.server.monitors.add(&self.admission.client);
        if self.monitoring.is_none() {
            self.session.take_monitoring_back();
        }
        self.monitoring.is_some()
    }

    /// Whether the turn's draw is measured: when it begins.
    #[inline]
    fn begins_measured_draw(&self, turn: &Turn) -> Option<u64> {
        if turn.draws.is_empty() {
            return None;
        }
        let own = self.server.metrics.own_commands()?;
        let is_measured = own.is_measured_next() || self.session.settings().timing.noted_ns < MEASURE_ALL_BELOW_NS;
        is_measured.then(clock::stopwatch_ns)
    }

    /// Counts what a turn did, but for its effect.
    #[inline]
    fn count(&self, turn: &mut Turn, draw: Option<MeasuredDraw>) {
        let Some(own) = self.server.metrics.own_commands() else { return };
        own.add(turn.tally.calls());
        if let Some(draw) = draw {
            self.count_draw(turn, draw);
        }
        if turn.tally.has_more() {
            self.count_more(turn);
        }
    }

    #[cold]
    fn count_draw(&self, turn: &Turn, draw: MeasuredDraw) {
        let Some(own) = self.server.metrics.own_commands() else { return };
        let share_ns = own.charge(turn.tally.calls(), draw);
        if draw.waited {
            self.server.note_draw_wait(draw.ns);
        }
        if share_ns >= self.session.settings().timing.noted_ns {
            self.server.note_ids(&self.admission.client, &self.session.view().names.name, turn.replies(), share_ns);
        }
    }

    /// Errors, slow commands, and what monitors are shown.
    #[cold]
    fn count_more(&self, turn: &mut Turn) {
        let Some(own) = self.server.metrics.own_commands() else { return };
        for &(code, count) in turn.tally.errors() {
            own.add_error(code, count);
        }
        for noted in turn.tally.take_noted() {
            self.server.note(&self.admission.client, &self.session.view().names.name, noted);
        }
        let mut shown = turn.tally.shown().peekable();
        if shown.peek().is_some() {
            let now_us = self.server.issuer().clock().wall_unix_us();
            let (unix_s, us) = (now_us.div_euclid(1_000_000), now_us.rem_euclid(1_000_000));
            let mut lines = Vec::new();
            for (database, args) in shown {
                if lines.len() >= FED_BYTES {
                    self.server.feed_monitors(&lines);
                    lines.clear();
                }
                let peer = self.admission.client.peer.for_monitors();
                // Writing to a Vec cannot fail.
                let _ = write!(lines, "+{unix_s}.{us:06} [{database} {peer}] ");
                lines.extend_from_slice(args);
                lines.extend_from_slice(b"\r\n");
            }
            self.server.feed_monitors(&lines);
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

    /// The command whose effect the server has carried out.
    fn count_effect(&self, turn: &mut Turn, value: Option<&Value>, performed_ns: u64) {
        let (Some(own), Some(mut asker)) = (self.server.metrics.own_commands(), turn.tally.take_asker()) else {
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
        if ns >= self.session.settings().timing.noted_ns {
            self.server.note(&self.admission.client, &self.session.view().names.name, asker);
        }
    }

    /// Goes by the settings, and the pause, that are in force by now.
    #[inline]
    fn follow_settings(&mut self) {
        let version = self.server.settings.version();
        if version != self.settings {
            self.settings = version;
            self.session.set_settings(self.server.settings.get());
        }
        self.session.set_pause(self.server.pauses.holds());
    }

    /// Draws as far as that goes without waiting; returns what is missing.
    #[inline]
    fn try_draw(&self, mut missing: Draws, drawn: &mut Vec<Reservation>) -> Result<Draws, Refusal> {
        for (generator, ids) in missing.iter_mut() {
            if let Some(reservation) = self.server.generators.try_draw(generator, *ids)? {
                *ids -= reservation.len;
                drawn.push(reservation);
            }
        }
        Ok(missing)
    }

    /// Draws the `missing` IDs of a turn, in turn with others. Meanwhile the connection holds what it needs and no more: its
    /// turn, and what it has not read yet. `Some` text goes to the client; an error ends the connection.
    async fn draw_parked(
        &mut self,
        missing: Draws,
        buffers: &mut Buffers,
        used: &mut usize,
    ) -> io::Result<Option<NoIds>> {
        // What is answered already must not wait with the rest.
        self.flush(buffers, used).await?;
        buffers.park(used);
        self.note_held(buffers.memory_bytes());
        match self.draw_waiting(missing, &mut buffers.drawn, true).await? {
            Waited::Drawn => Ok(None),
            Waited::NoIds(why) => Ok(Some(why)),
            Waited::HalfClosed => self.draw_in_parts(buffers, used).await,
        }
    }

    /// The same for a client that has finished sending. Perhaps it reads on; perhaps it is gone altogether, which shows only
    /// when it is sent something. So its replies are sent one by one as their IDs are there, and one that is gone leaves its
    /// place in the queue after the first.
    async fn draw_in_parts(&mut self, buffers: &mut Buffers, used: &mut usize) -> io::Result<Option<NoIds>> {
        while let Some(wanted) = buffers.turn.next_ids(PART_IDS) {
            let drawn: u32 = buffers.drawn.iter().map(|reservation| reservation.len).sum();
            if let Some(missing) = wanted.checked_sub(drawn).filter(|&missing| missing > 0) {
                let missing = Draws { unnamed: missing };
                match self.draw_waiting(missing, &mut buffers.drawn, false).await? {
                    Waited::Drawn | Waited::HalfClosed => {}
                    Waited::NoIds(why) => return Ok(Some(why)),
                }
            }
            self.session.write_next(&mut buffers.turn, &mut buffers.drawn, &mut buffers.output);
            self.flush(buffers, used).await?;
        }
        Ok(None)
    }

    /// Draws what is missing, in turn with others. An error ends the connection.
    async fn draw_waiting(
        &mut self,
        missing: Draws,
        drawn: &mut Vec<Reservation>,
        stops_half_closed: bool,
    ) -> io::Result<Waited> {
        self.publish();
        let client = &self.admission.client;
        // Until it is served it is not idle, however long that takes.
        let _waiting = client.waits_for_ids();
        let mut draw = pin!(async {
            for (generator, ids) in missing.iter() {
                self.server.generators.draw(generator, ids, drawn).await?;
            }
            Ok(())
        });
        // A reset is told at once, the end of what a client sends when its turn to be looked at comes.
        let mut reset = pin!(self.io.ready(Interest::ERROR));
        let (mut look, mut every) = (Box::pin(tokio::time::sleep(Duration::ZERO)), HANGUP_CHECK);
        loop {
            let result = or_stopped(client, async {
                tokio::select! {
                    biased;
                    _ = &mut reset => Some(Err(io::ErrorKind::ConnectionReset.into())),
                    result = &mut draw => Some(Ok(result.map_or_else(|r| Waited::NoIds(NoIds::Refused(r)), |()| Waited::Drawn))),
                    how = unblocked(client) => Some(Ok(Waited::NoIds(NoIds::Unblocked(how)))),
                    () = &mut look => None,
                }
            })
            .await;
            match result {
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
                Some(Some(result)) => {
                    client.note_active(self.server.metrics.uptime_s.load(Relaxed));
                    // Whoever ended the wait was told so, though the IDs may have come at that moment.
                    let unblocked = client.end_wait().map(|how| Waited::NoIds(NoIds::Unblocked(how)));
                    return result.map(|waited| unblocked.unwrap_or(waited));
                }
                Some(None) => match peer_of(&self.io).await {
                    // Nobody is there to read the answer: the place in the queue goes to the next.
                    Peer::Gone => return Err(io::ErrorKind::ConnectionReset.into()),
                    Peer::HalfClosed if stops_half_closed => {
                        let unblocked = client.end_wait().map(|how| Waited::NoIds(NoIds::Unblocked(how)));
                        return Ok(unblocked.unwrap_or(Waited::HalfClosed));
                    }
                    Peer::HalfClosed | Peer::There => {
                        // From now on, not from when it was due: a thread that is late must not catch up on looks.
                        look.as_mut().reset(Instant::now() + every);
                        every = (2 * every).min(HELD_CHECK);
                    }
                },
            }
        }
    }

    /// Waits while `CLIENT PAUSE` holds the next request. An error ends the connection: the server stops, which is no time
    /// to let a held request go on, or nobody is there any more.
    async fn wait_for_unpause(&self) -> io::Result<()> {
        let _held = self.admission.client.is_held();
        self.wait(self.server.pauses.over()).await
    }

    /// Waits for what it is not the client's to end. An error ends the connection, as above.
    async fn wait(&self, over: impl Future<Output = ()>) -> io::Result<()> {
        let client = &self.admission.client;
        let mut over = pin!(over);
        let mut look = tokio::time::interval(HELD_CHECK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
                Some(false) if peer_of(&self.io).await == Peer::Gone => {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                Some(false) => {}
            }
        }
    }

    /// Writes all output. A client that does not take it at once is waited for with no more than what it is owed and what it
    /// has sent; `used` is how much of that was read.
    async fn flush(&mut self, buffers: &mut Buffers, used: &mut usize) -> io::Result<()> {
        let output = &mut buffers.output;
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
        self.work.output_bytes += written as u64;
        self.work.writes += 1;
        let result = if let Some(result) = at_once {
            result
        } else {
            output.drain(..written);
            // Boxed for the same reason as a draw that waits.
            Box::pin(self.flush_slowly(buffers, used)).await
        };
        buffers.output.clear();
        result
    }

    /// Writes the output that the socket did not take at once, as long as the client's limits allow.
    async fn flush_slowly(&mut self, buffers: &mut Buffers, used: &mut usize) -> io::Result<()> {
        self.publish();
        buffers.park(used);
        let output = &buffers.output;
        self.note_held(buffers.memory_bytes());
        let Connection { server, admission, io, work, .. } = self;
        let client = &admission.client;
        let mut patience = Patience::new(Instant::now());
        let mut written = 0;
        let result = loop {
            let pending = output.len() - written;
            client.note_output(pending);
            let config = server.config.get();
            let look_again = match patience.check(Instant::now(), pending, &config) {
                Ok(at) => at,
                Err(reason) => {
                    server.note_cut_off(reason, pending, client);
                    break Err(io::Error::new(io::ErrorKind::TimedOut, reason.to_string()));
                }
            };
            let before = written;
            let progress = poll_fn(|cx| {
                client.wake_by(cx.waker());
                if client.stopping() == Stop::Now {
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
                }
                match poll_write(io, cx, output, &mut written) {
                    Poll::Ready(result) => Poll::Ready(Some(result)),
                    Poll::Pending if written > before => Poll::Ready(None),
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
        work.output_bytes += written as u64;
        client.note_output(0);
        result
    }
}

/// Lets others have their turn if this client had the thread for `slice_ns`; `since_ns` is when it got it, `None`: unknown.
///
/// By the clock, for the work of a command says nothing of the bytes it came in or is answered by. The runtime then looks
/// at its sockets before it comes back here: who asked meanwhile is next.
async fn give_way(since_ns: &mut Option<u64>, slice_ns: u64) {
    let now_ns = clock::stopwatch_ns();
    if since_ns.is_none_or(|since| now_ns.saturating_sub(since) >= slice_ns) {
        tokio::task::yield_now().await;
        *since_ns = Some(clock::stopwatch_ns());
    }
}

fn since(began_ns: u64) -> u64 {
    clock::stopwatch_ns().saturating_sub(began_ns)
}

/// Counts a connection that ends in a panic, and says whose it was. Only its own client is cut off.
pub(crate) struct PanicWatch<W: fmt::Display> {
    server: Arc<Server>,
    whose: W,
}

impl<W: fmt::Display> PanicWatch<W> {
    /// Watches until it is dropped.
    pub(crate) fn new(server: &Arc<Server>, whose: W) -> Self {
        PanicWatch { server: Arc::clone(server), whose }
    }
}

impl<W: fmt::Display> Drop for PanicWatch<W> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.server.metrics.count(Counter::Panics);
            let whose = &self.whose;
            throttled!(
                self.server.throttle,
                Bug,
                "client {whose} ran into a bug and is closed; please report the lines above"
            );
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

/// What became of a wait for IDs.
enum Waited {
    /// They are there.
    Drawn,
    /// There are none, and the client is told why.
    NoIds(NoIds),
    /// The client has finished sending; nothing else has happened.
    HalfClosed,
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

    /// The same for a client that has to log in: less room, of its own.
    #[cold]
    fn resume_stranger(&mut self, rest: &[u8]) {
        self.input = Vec::with_capacity(STRANGER_READ_BYTES.max(rest.len() + 1));
        self.input.extend_from_slice(rest);
    }

    /// Leaves no more than what is needed to go on, for a client that is waited for; what was used of the input is gone.
    #[cold]
    fn park(&mut self, used: &mut usize) {
        let rest = self.input[*used..].to_vec();
        *used = 0;
        let input = std::mem::replace(&mut self.input, rest);
        let mut output = Vec::new();
        if self.output.is_empty() {
            std::mem::swap(&mut self.output, &mut output);
        } else {
            self.output.shrink_to_fit();
        }
        self.turn.shrink();
        self.drawn.shrink_to_fit();
        Box::new(Buffers { input, output, ..Buffers::default() }).give_back();
    }

    /// What it holds, bytes.
    fn memory_bytes(&self) -> usize {
        let drawn = self.drawn.capacity() * size_of::<Reservation>();
        size_of::<Buffers>() + self.input.capacity() + self.output.capacity() + self.turn.memory_bytes() + drawn
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    /// Ten thousand of them are what an idle server holds: what few clients need has a box of its own.
    #[test]
    fn an_idle_connection_is_small() {
        let own = size_of::<Connection<TcpStream>>();
        let (listed, shown) = (size_of::<Client>(), size_of::<crate::session::ClientView>());
        assert!(own <= 528 && listed <= 224 && shown <= 88, "{own} for itself, {listed} and {shown} in the list");
    }
}
