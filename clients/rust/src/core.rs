//! State of a client in one process: the objects, the calls that wait for them, and the jobs that are due.
//!
//! Everything here runs under the client's lock and is pure: it takes the time from the client's clock, and returns
//! requests to send and calls to wake. A job is one request for one object. Each job has the generation of its begin;
//! closing, discarding and a fork raise it, so that a late reply changes nothing.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::address::Target;
use crate::clock::Clock;
use crate::connection::{Connection, Failure, Reply, ServerError, Socket};
use crate::error::{Error, Result};
use crate::event::{Event, EventKind};
use crate::sequence::SequenceState;
use crate::signal::Signal;
use crate::worker::WorkerState;

/// Most calls that wait for one object.
pub(crate) const WAITERS_MAX: usize = 10_000;
/// Most events that wait for the callback; the oldest are dropped.
const EVENTS_MAX: usize = 1000;
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_millis(10);
pub(crate) const BACKOFF_LAST: Duration = Duration::from_secs(1);
const LOADING_WAIT: Duration = Duration::from_millis(200);
/// Longest sleep of the background thread.
const IDLE: Duration = Duration::from_hours(1);

/// How an error reply is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    NextAddress,
    Loading,
    SameAddress,
    Refused,
}

impl Remedy {
    pub(crate) fn of(error: &ServerError) -> Remedy {
        match error.code() {
            "LOADING" => Remedy::Loading,
            "MISCONF" => Remedy::NextAddress,
            "TRYAGAIN" | "BUSY" | "EXHAUSTED" => Remedy::SameAddress,
            _ if error.is_full() => Remedy::NextAddress,
            _ => Remedy::Refused,
        }
    }
}

/// Time by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) mono: Instant,
    pub(crate) wall_ns: i64,
}

/// Values of a range that were taken for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: i64,
    pub(crate) count: u64,
    pub(crate) step: i64,
}

impl Span {
    pub(crate) fn values(self) -> impl Iterator<Item = i64> {
        (0..self.count).map(move |index| self.first.wrapping_add(self.step.wrapping_mul(index.cast_signed())))
    }
}

/// Kind of a call that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Caller<'a> {
    Blocking,
    Task(&'a Waker, Instant),
}

/// What wakes a call.
#[derive(Debug)]
pub(crate) enum Wake {
    Thread(Arc<Signal>),
    Task(Waker),
}

impl Waiter {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Wake {
    /// Wakes the call. Runs without a lock.
    pub(crate) fn wake(self) {
        match self {
            Wake::Thread(signal) => signal.set(),
            Wake::Task(waker) => waker.wake(),
        }
    }
}

/// A call that waits for `need` values.
#[derive(Debug)]
pub(crate) struct Waiter {
    id: u64,
    pub(crate) need: u64,
    pub(crate) spans: Vec<Span>,
    pub(crate) sent: Option<Stamp>,
    pub(crate) is_warm_up: bool,
    pub(crate) is_sent: bool,
    deadline: Option<Instant>,
    wake: Wake,
}

/// Begin of a call.
#[derive(Debug)]
pub(crate) enum Started {
    Done(Vec<Span>),
    Waiting(u64, Option<Arc<Signal>>),
}

/// State that all objects of a client share.
pub(crate) struct Core {
    pub(crate) clock: Clock,
    pub(crate) target: Arc<Target>,
    pub(crate) address: usize,
    pub(crate) generation: u64,
    /// Number of the connection.
    pub(crate) serial: u64,
    pub(crate) is_closed: bool,
    pub(crate) has_listener: bool,
    pub(crate) events: VecDeque<Event>,
    pub(crate) woken: Vec<Wake>,
    queue: BTreeSet<(Instant, usize)>,
    deadlines: BTreeSet<(Instant, usize, u64)>,
    waiters_made: u64,
}

impl Core {
    pub(crate) fn event(&mut self, kind: EventKind, object: &str, reason: &str, difference_ms: i64) {
        if !self.has_listener {
            return;
        }
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        let (address, object, reason) = (self.address_text(), object.to_owned(), reason.to_owned());
        self.events.push_back(Event { kind, address, object, reason, difference_ms });
    }

    pub(crate) fn address_text(&self) -> String {
        self.target.addresses[self.address].to_string()
    }
}

/// The calls that wait for an object, and when its next job begins.
pub(crate) struct CallQueue {
    index: usize,
    kind: &'static str,
    pub(crate) name: String,
    pub(crate) waiters: VecDeque<Waiter>,
    done: HashMap<u64, Result<Vec<Span>>>,
    pub(crate) due: Option<Instant>,
    pub(crate) has_job: bool,
    pub(crate) retry_at: Option<Instant>,
    is_refused: bool,
    tried: Vec<(usize, bool)>,
    backoff: Duration,
    pub(crate) last_failure: String,
    pub(crate) failures: u64,
}

impl CallQueue {
    pub(crate) fn title(&self) -> String {
        format!("{} '{}'", self.kind, self.name)
    }

    /// Sets when the next job begins.
    pub(crate) fn schedule(&mut self, core: &mut Core, due: Instant) {
        self.unschedule(core);
        self.due = Some(due);
        core.queue.insert((due, self.index));
    }

    pub(crate) fn unschedule(&mut self, core: &mut Core) {
        if let Some(due) = self.due.take() {
            core.queue.remove(&(due, self.index));
        }
    }

    /// Returns the first time at which a request is allowed, not before `now`. After a refusal a call that waits gets
    /// its own answer at once; only requests ahead of the calls wait.
    pub(crate) fn allowed_at(&self, now: Instant) -> Instant {
        let is_answered_at_once = self.is_refused && !self.waiters.is_empty();
        self.retry_at.filter(|_| !is_answered_at_once).map_or(now, |at| at.max(now))
    }

    /// Makes sure that the next job begins at `due` or before.
    pub(crate) fn schedule_by(&mut self, core: &mut Core, due: Instant) {
        if !self.has_job && self.due.is_none_or(|at| at > due) {
            self.schedule(core, due);
        }
    }

    /// Queues a call. Fails if too many wait already.
    pub(crate) fn enqueue(
        &mut self,
        core: &mut Core,
        caller: Caller<'_>,
        need: u64,
        spans: Vec<Span>,
        is_warm_up: bool,
    ) -> Result<(&mut Waiter, Option<Arc<Signal>>)> {
        if self.waiters.len() >= WAITERS_MAX {
            let title = self.title();
            return Err(Error::Unavailable(format!(
                "{WAITERS_MAX} calls wait for {title} already: wait for some of them to return"
            )));
        }
        core.waiters_made += 1;
        let id = core.waiters_made;
        let (wake, signal, deadline) = match caller {
            Caller::Blocking => {
                let signal = Arc::new(Signal::default());
                (Wake::Thread(Arc::clone(&signal)), Some(signal), None)
            }
            Caller::Task(waker, deadline) => (Wake::Task(waker.clone()), None, Some(deadline)),
        };
        if let Some(deadline) = deadline {
            core.deadlines.insert((deadline, self.index, id));
        }
        let waiter = Waiter { id, need, spans, sent: None, is_warm_up, is_sent: false, deadline, wake };
        self.waiters.push_back(waiter);
        let last = self.waiters.len() - 1;
        Ok((&mut self.waiters[last], signal))
    }

    /// Ends a waiting call, and wakes it.
    pub(crate) fn finish(&mut self, core: &mut Core, waiter: Waiter, result: Result<Vec<Span>>) {
        if let Some(deadline) = waiter.deadline {
            core.deadlines.remove(&(deadline, self.index, waiter.id));
        }
        self.done.insert(waiter.id, result);
        core.woken.push(waiter.wake);
    }

    pub(crate) fn finish_all(&mut self, core: &mut Core, error: Option<&Error>) {
        for waiter in std::mem::take(&mut self.waiters) {
            self.finish(core, waiter, error.cloned().map_or(Ok(Vec::new()), Err));
        }
    }

    /// Takes the result of a call that was woken.
    fn take_result(&mut self, id: u64) -> Option<Result<Vec<Span>>> {
        self.done.remove(&id)
    }

    /// Removes a call that ends without a result. Returns its values.
    fn remove(&mut self, core: &mut Core, id: u64) -> Vec<Span> {
        if let Some(result) = self.done.remove(&id) {
            return result.unwrap_or_default();
        }
        let Some(place) = self.waiters.iter().position(|waiter| waiter.id == id) else {
            return Vec::new();
        };
        let waiter = self.waiters.remove(place);
        if let Some(deadline) = waiter.as_ref().and_then(|waiter| waiter.deadline) {
            core.deadlines.remove(&(deadline, self.index, id));
        }
        waiter.map(|waiter| waiter.spans).unwrap_or_default()
    }

    pub(crate) fn unavailable(&self, core: &Core) -> Error {
        let reason = match self.last_failure.as_str() {
            "" => format!("{} has not replied yet", core.address_text()),
            failure => failure.to_owned(),
        };
        Error::Unavailable(format!("no value of {} within the time-out: {reason}", self.title()))
    }

    pub(crate) fn succeeded(&mut self) {
        self.tried.clear();
        self.backoff = BACKOFF_FIRST;
        self.retry_at = None;
        self.is_refused = false;
        self.last_failure.clear();
    }

    /// Chooses the address of the next try, and returns the wait before it.
    fn table_delay(&mut self, core: &mut Core, remedy: Remedy) -> Duration {
        if matches!(remedy, Remedy::SameAddress | Remedy::Refused) {
            self.tried.clear();
            return self.back_off();
        }
        let count = core.target.addresses.len();
        self.tried.retain(|(address, _)| *address != core.address);
        self.tried.push((core.address, remedy == Remedy::Loading));
        let following = (1..=count).map(|step| (core.address + step) % count);
        let untried = following.clone().find(|address| self.tried.iter().all(|(tried, _)| tried != address));
        core.address = untried.unwrap_or((core.address + 1) % count);
        if untried.is_some() {
            return Duration::ZERO;
        }
        let are_loading = self.tried.iter().all(|(_, is_loading)| *is_loading);
        self.tried.clear();
        if are_loading { LOADING_WAIT } else { self.back_off() }
    }

    fn back_off(&mut self) -> Duration {
        let delay = self.backoff;
        self.backoff = (2 * delay).min(BACKOFF_LAST);
        delay
    }
}

/// What an object supplies.
pub(crate) enum Supply {
    Sequence(SequenceState),
    Worker(WorkerState),
}

/// State of an object.
pub(crate) struct Source {
    pub(crate) calls: CallQueue,
    pub(crate) supply: Supply,
}

impl Source {
    /// Returns the request that is needed now.
    pub(crate) fn begin(&mut self, core: &mut Core) -> Option<Vec<u8>> {
        match &mut self.supply {
            Supply::Sequence(sequence) => sequence.begin(&mut self.calls, core),
            Supply::Worker(worker) => worker.begin(&self.calls, core),
        }
    }

    fn apply(&mut self, core: &mut Core, reply: &Reply) -> Result<(), Failure> {
        match &mut self.supply {
            Supply::Sequence(sequence) => sequence.apply(&mut self.calls, core, reply),
            Supply::Worker(worker) => worker.apply(&mut self.calls, core, reply),
        }
    }

    /// Drops the segments or the lease.
    fn forget(&mut self) {
        match &mut self.supply {
            Supply::Sequence(sequence) => sequence.forget(&mut self.calls),
            Supply::Worker(worker) => worker.forget(),
        }
    }

    /// Applies the end of a job. Returns the failure that closes the connection.
    pub(crate) fn end_job(&mut self, core: &mut Core, result: Result<Reply, Failure>) -> Option<String> {
        let failure = match result {
            Ok(Reply::Error(error)) => {
                let is_met = match &mut self.supply {
                    Supply::Worker(worker) => worker.meet_error(&mut self.calls, core, &error),
                    Supply::Sequence(_) => false,
                };
                if !is_met {
                    self.fail_by_reply(core, &error, true);
                }
                return None;
            }
            Ok(reply) => self.apply(core, &reply).err()?,
            Err(failure) => failure,
        };
        match failure {
            Failure::Login(error) => {
                self.fail_by_reply(core, &error, false);
                Some(error.text)
            }
            Failure::Lost { reason, is_connect } => {
                let reason = if is_connect { reason } else { format!("{}: {reason}", core.address_text()) };
                if !is_connect {
                    core.event(EventKind::Disconnected, "", &reason, 0);
                }
                self.fail(core, Remedy::NextAddress, &reason, !is_connect, "");
                Some(reason)
            }
        }
    }

    fn fail_by_reply(&mut self, core: &mut Core, error: &ServerError, can_lose: bool) {
        let remedy = Remedy::of(error);
        let reason = format!("{}: {}", core.address_text(), error.text);
        self.fail(core, remedy, &reason, can_lose && remedy != Remedy::Loading, error.code());
    }

    /// Notes a failed job, and schedules the next try if a call waits for it. `can_lose`: the server may have done what
    /// was requested.
    fn fail(&mut self, core: &mut Core, remedy: Remedy, reason: &str, can_lose: bool, code: &str) {
        let calls = &mut self.calls;
        calls.failures += 1;
        reason.clone_into(&mut calls.last_failure);
        let kind = match &self.supply {
            Supply::Worker(worker) if worker.is_renewing() => EventKind::RenewFailed,
            _ => EventKind::FetchFailed,
        };
        core.event(kind, &calls.name, reason, 0);
        let now = core.clock.now();
        let mut delay = calls.table_delay(core, remedy);
        let mut is_needed = false;
        if let Supply::Worker(worker) = &mut self.supply {
            delay = worker.retry_delay(delay, can_lose && remedy != Remedy::Refused, now);
            is_needed = worker.is_renewal_needed(core.clock.wall_ms());
        }
        calls.retry_at = Some(now + delay);
        calls.is_refused = remedy == Remedy::Refused;
        if remedy == Remedy::Refused {
            let message = format!("{}: {reason}", calls.title());
            calls.finish_all(core, Some(&Error::Refused { code: code.to_owned(), message }));
        }
        if is_needed || !calls.waiters.is_empty() {
            calls.schedule(core, now + delay);
        }
    }
}

/// State of a client, under its lock.
pub(crate) struct State {
    pub(crate) core: Core,
    pub(crate) sources: Vec<Source>,
    pub(crate) names: HashMap<(bool, String), usize>,
    /// Whether a thread uses the connection.
    pub(crate) is_busy: bool,
    pub(crate) connection: Option<Connection>,
    /// Socket of the connection, also while a thread uses it.
    pub(crate) socket: Option<Arc<Socket>>,
    pub(crate) has_thread: bool,
    pub(crate) thread_failed_at: Option<Instant>,
    pub(crate) is_finished: bool,
    pub(crate) is_released: bool,
}

impl State {
    pub(crate) fn new(clock: Clock, target: Arc<Target>, has_listener: bool, is_closed: bool) -> State {
        State {
            core: Core {
                clock,
                target,
                address: 0,
                generation: 0,
                serial: 0,
                is_closed,
                has_listener,
                events: VecDeque::new(),
                woken: Vec::new(),
                queue: BTreeSet::new(),
                deadlines: BTreeSet::new(),
                waiters_made: 0,
            },
            sources: Vec::new(),
            names: HashMap::new(),
            is_busy: false,
            connection: None,
            socket: None,
            has_thread: false,
            thread_failed_at: None,
            is_finished: is_closed,
            is_released: is_closed,
        }
    }

    /// Adds an object.
    pub(crate) fn add(&mut self, kind: &'static str, name: &str, supply: Supply) {
        let calls = CallQueue {
            index: self.sources.len(),
            kind,
            name: name.to_owned(),
            waiters: VecDeque::new(),
            done: HashMap::new(),
            due: None,
            has_job: false,
            retry_at: None,
            is_refused: false,
            tried: Vec::new(),
            backoff: BACKOFF_FIRST,
            last_failure: String::new(),
            failures: 0,
        };
        self.names.insert((matches!(supply, Supply::Worker(_)), name.to_owned()), self.sources.len());
        self.sources.push(Source { calls, supply });
    }

    fn check_open(&self) -> Result<()> {
        if self.core.is_closed { Err(Error::Closed) } else { Ok(()) }
    }

    /// Returns the next value if neither a request nor a comparison of the clocks is due.
    #[inline]
    pub(crate) fn fast(&mut self, index: usize) -> Option<i64> {
        match &mut self.sources[index].supply {
            Supply::Sequence(sequence) => sequence.fast(self.core.clock.now()),
            Supply::Worker(worker) => worker.fast(self.core.clock.wall_ms()),
        }
    }

    /// Takes up to `n` values out of memory, or queues the call.
    pub(crate) fn start(&mut self, index: usize, n: u64, caller: Caller<'_>) -> Result<Started> {
        self.check_open()?;
        let (source, core) = (&mut self.sources[index], &mut self.core);
        match &mut source.supply {
            Supply::Sequence(sequence) => sequence.start(&mut source.calls, core, n, caller),
            Supply::Worker(worker) => worker.start(&mut source.calls, core, n, caller),
        }
    }

    /// Takes a value out of memory if there is one. Starts the request for others.
    pub(crate) fn try_next(&mut self, index: usize) -> Result<Option<i64>> {
        self.check_open()?;
        let (source, core) = (&mut self.sources[index], &mut self.core);
        match &mut source.supply {
            Supply::Sequence(sequence) => Ok(sequence.try_next(&mut source.calls, core)),
            Supply::Worker(worker) => worker.draw(&mut source.calls, core),
        }
    }

    /// Queues a call that waits until values or a lease are in memory. Returns nothing if they are.
    pub(crate) fn warm_up(&mut self, index: usize, n: u64) -> Result<Started> {
        self.check_open()?;
        let (source, core) = (&mut self.sources[index], &mut self.core);
        match &mut source.supply {
            Supply::Sequence(sequence) => sequence.warm_up(&mut source.calls, core, n),
            Supply::Worker(worker) => worker.warm_up(&mut source.calls, core),
        }
    }

    /// Returns the result of a waiting call, or keeps its new waker.
    pub(crate) fn poll(&mut self, index: usize, id: u64, waker: Option<&Waker>) -> Option<Result<Vec<Span>>> {
        let calls = &mut self.sources[index].calls;
        let result = calls.take_result(id);
        if let (None, Some(waker)) = (&result, waker)
            && let Some(waiter) = calls.waiters.iter_mut().find(|waiter| waiter.id == id)
        {
            waiter.wake = Wake::Task(waker.clone());
        }
        result
    }

    /// Ends a waiting call that gives up. Its values become a gap.
    pub(crate) fn leave(&mut self, index: usize, id: u64) -> Error {
        let (source, core) = (&mut self.sources[index], &mut self.core);
        let spans = source.calls.remove(core, id);
        if let Supply::Sequence(sequence) = &mut source.supply {
            sequence.drop_spans(&spans);
        }
        source.calls.unavailable(core)
    }

    /// Returns an object whose job begins now, or when there is one.
    pub(crate) fn take_due(&mut self, only: Option<usize>) -> Result<usize, Instant> {
        let now = self.core.clock.now();
        let mut wake_at = Instant::now() + IDLE;
        if let Some((deadline, ..)) = self.core.deadlines.first() {
            wake_at = wake_at.min(*deadline);
        }
        if self.is_busy || self.core.is_closed {
            return Err(wake_at);
        }
        let first = match only {
            Some(index) => self.sources[index].calls.due.map(|due| (due, index)),
            None => self.core.queue.first().copied(),
        };
        let Some((due, index)) = first else {
            return Err(wake_at);
        };
        if due > now {
            return Err(wake_at.min(Instant::now() + (due - now)));
        }
        let calls = &mut self.sources[index].calls;
        calls.unschedule(&mut self.core);
        calls.has_job = true;
        self.is_busy = true;
        Ok(index)
    }

    /// Ends the asynchronous calls whose time-out has passed.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some(&(deadline, index, id)) = self.core.deadlines.first()
            && deadline <= now
        {
            self.core.deadlines.pop_first();
            let (source, core) = (&mut self.sources[index], &mut self.core);
            let Some(place) = source.calls.waiters.iter().position(|waiter| waiter.id == id) else { continue };
            let Some(mut waiter) = source.calls.waiters.remove(place) else { continue };
            if let Supply::Sequence(sequence) = &mut source.supply {
                sequence.drop_spans(&std::mem::take(&mut waiter.spans));
            }
            let error = source.calls.unavailable(core);
            source.calls.finish(core, waiter, Err(error));
        }
    }

    /// Drops all segments and leases. Jobs that are under way end without effect.
    pub(crate) fn discard(&mut self) -> Result<()> {
        self.check_open()?;
        self.core.generation += 1;
        let now = self.core.clock.now();
        for source in &mut self.sources {
            source.forget();
            source.calls.unschedule(&mut self.core);
            if !source.calls.waiters.is_empty() {
                source.calls.schedule(&mut self.core, now);
            }
        }
        Ok(())
    }

    /// Ends all calls. Returns the name of each leased pool with the arguments of its release.
    pub(crate) fn close(&mut self) -> Vec<Release> {
        self.core.is_closed = true;
        self.core.generation += 1;
        let mut releases = Vec::new();
        for source in &mut self.sources {
            if let Supply::Worker(worker) = &mut source.supply {
                releases.extend(worker.releases(&source.calls.name));
            }
            source.forget();
            source.calls.unschedule(&mut self.core);
            source.calls.finish_all(&mut self.core, Some(&Error::Closed));
        }
        releases
    }
}

/// A lease that is to be released.
#[derive(Debug)]
pub(crate) struct Release {
    pub(crate) pool: String,
    /// `WORKERID RELEASE` with `LAST`.
    pub(crate) request: Vec<u8>,
    /// `WORKERID RELEASE` without `LAST`, for a `LAST` that the server refuses.
    pub(crate) without_last: Vec<u8>,
}
