//! State of a sequence: a local supply of its values.
//!
//! The supply is a queue of segments, ranges that a reply brought. Almost every call takes the next value of the first
//! segment in a few instructions; the fields of that fast path are moved from and to the segment by `settle` and `arm`.
//! Values ascend, and no segment is used longer than `hold`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::connection::{Failure, Reply, encode, unexpected};
use crate::core::{BACKOFF_FIRST, BACKOFF_LAST, CallQueue, Caller, Core, Span, Stamp, Started, Waiter};
use crate::error::{Error, Result, check_duration, check_number};

/// Most values of one request.
const COUNT_MAX: u64 = 10_000_000;
const PREFETCH_FIRST: u64 = 16;
const PREFETCH_MAX: u64 = 10_000_000;
const HOLD_MAX: Duration = Duration::from_mins(1);
const HORIZON: Duration = Duration::from_millis(100);
/// Longest time for which calls compare one clock only.
const CHECK: Duration = Duration::from_millis(1);
/// Number of fetches whose shortest time sizes the prefetch.
const FETCHES_KEPT: usize = 8;

/// Options of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceOptions {
    pub(crate) prefetch_max: u64,
    pub(crate) hold: Duration,
    pub(crate) is_fresh: bool,
}

impl Default for SequenceOptions {
    fn default() -> SequenceOptions {
        SequenceOptions { prefetch_max: 10_000, hold: HOLD_MAX, is_fresh: false }
    }
}

impl SequenceOptions {
    /// Sets the most values that are fetched ahead of the calls: 0 to 10,000,000, by default 10,000.
    #[must_use]
    pub fn prefetch_max(mut self, values: u64) -> SequenceOptions {
        self.prefetch_max = values;
        self
    }

    /// Sets how long after its request a value may be returned: 10 ms to 60 s, by default 60 s.
    #[must_use]
    pub fn hold(mut self, hold: Duration) -> SequenceOptions {
        self.hold = hold;
        self
    }

    /// Returns values only to calls that were waiting when their request was sent: for serial numbers in the order of
    /// commits, and timestamps.
    #[must_use]
    pub fn fresh(mut self, is_fresh: bool) -> SequenceOptions {
        self.is_fresh = is_fresh;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_number("prefetch_max", self.prefetch_max, 0..=PREFETCH_MAX)?;
        check_duration("hold", self.hold, Duration::from_millis(10)..=HOLD_MAX)?;
        Ok(())
    }
}

/// Counters of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceStats {
    /// Values returned.
    pub values: u64,
    /// Ranges fetched.
    pub fetches: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Values fetched and never returned.
    pub dropped: u64,
    /// Calls that waited.
    pub waits: u64,
    /// Values in memory now.
    pub held: u64,
    /// Values that the next request asks for ahead of the calls.
    pub prefetch: u64,
    /// Shortest of the last eight fetches.
    pub fetch_time: Option<Duration>,
}

/// A range of values, and when its request was sent.
#[derive(Debug)]
struct Segment {
    next: i64,
    left: u64,
    step: i64,
    size: u64,
    sent: Stamp,
}

pub(crate) struct SequenceState {
    // The fast path.
    next: i64,
    step: i64,
    budget: u64,
    armed: u64,
    check_at: Instant,
    options: SequenceOptions,
    prefetch_max: u64,
    /// Newest value that any process before this one received.
    kept: Arc<AtomicI64>,
    newest: Option<i64>,
    segments: VecDeque<Segment>,
    wall_ns: i64,
    prefetch: u64,
    last_sent: Option<Instant>,
    is_sized: bool,
    is_wanted: bool,
    durations: VecDeque<Duration>,
    serial: Option<u64>,
    is_above_due: bool,
    dropped_wait: Duration,
    job_serial: u64,
    /// Whether the last range had fewer values than its request asked for.
    is_short: bool,
    count: u64,
    sent: Stamp,
    returned: u64,
    dropped: u64,
    fetches: u64,
    waits: u64,
}

impl SequenceState {
    /// Makes the state. `kept` has the newest value that an object of this client received, -1 for none.
    pub(crate) fn new(options: SequenceOptions, kept: Arc<AtomicI64>, now: Instant) -> SequenceState {
        let prefetch_max = if options.is_fresh { 0 } else { options.prefetch_max };
        let newest = kept.load(Ordering::Relaxed);
        SequenceState {
            next: 0,
            step: 1,
            budget: 0,
            armed: 0,
            check_at: now,
            options,
            prefetch_max,
            kept,
            newest: (newest >= 0).then_some(newest),
            segments: VecDeque::new(),
            wall_ns: 0,
            prefetch: PREFETCH_FIRST.min(prefetch_max),
            last_sent: None,
            is_sized: false,
            is_wanted: false,
            durations: VecDeque::new(),
            serial: None,
            is_above_due: false,
            dropped_wait: BACKOFF_FIRST,
            job_serial: 0,
            is_short: false,
            count: 0,
            sent: Stamp { mono: now, wall_ns: 0 },
            returned: 0,
            dropped: 0,
            fetches: 0,
            waits: 0,
        }
    }

    pub(crate) fn options(&self) -> &SequenceOptions {
        &self.options
    }

    pub(crate) fn stats(&mut self, failures: u64) -> SequenceStats {
        SequenceStats {
            values: self.returned + (self.armed - self.budget),
            fetches: self.fetches,
            failures,
            dropped: self.dropped,
            waits: self.waits,
            held: self.held() - (self.armed - self.budget),
            prefetch: self.prefetch,
            fetch_time: self.durations.iter().min().copied(),
        }
    }

    // Calls.

    #[inline]
    pub(crate) fn fast(&mut self, now: Instant) -> Option<i64> {
        if self.budget == 0 || now >= self.check_at {
            return None;
        }
        self.budget -= 1;
        let value = self.next;
        self.next = value.wrapping_add(self.step);
        Some(value)
    }

    pub(crate) fn start(
        &mut self,
        calls: &mut CallQueue,
        core: &mut Core,
        n: u64,
        caller: Caller<'_>,
    ) -> Result<Started> {
        self.settle();
        self.check_ages(core);
        let (mut spans, mut sent, mut need) = (Vec::new(), None, n);
        if calls.waiters.iter().all(|waiter| waiter.is_warm_up) {
            self.fill(calls, core, &mut spans, &mut sent, &mut need);
        }
        let started =
            if need == 0 { Ok(Started::Done(spans)) } else { self.wait(calls, core, need, spans, sent, caller) };
        self.arm(calls, core);
        started
    }

    fn wait(
        &mut self,
        calls: &mut CallQueue,
        core: &mut Core,
        need: u64,
        spans: Vec<Span>,
        sent: Option<Stamp>,
        caller: Caller<'_>,
    ) -> Result<Started> {
        let taken = spans.clone();
        let (waiter, signal) = match calls.enqueue(core, caller, need, spans, false) {
            Ok(queued) => queued,
            Err(error) => {
                self.drop_spans(&taken);
                return Err(error);
            }
        };
        waiter.sent = sent;
        let id = waiter.id();
        self.waits += 1;
        want(calls, core);
        Ok(Started::Waiting(id, signal))
    }

    pub(crate) fn try_next(&mut self, calls: &mut CallQueue, core: &mut Core) -> Option<i64> {
        self.settle();
        self.check_ages(core);
        let value = if self.segments.is_empty() { None } else { Some(self.pop(calls, core, 1).first) };
        if value.is_none() && !self.options.is_fresh {
            self.is_wanted = true;
            want(calls, core);
        }
        self.arm(calls, core);
        value
    }

    pub(crate) fn warm_up(&mut self, calls: &mut CallQueue, core: &mut Core, n: u64) -> Result<Started> {
        self.settle();
        self.check_ages(core);
        let started = if self.options.is_fresh || self.held() >= n {
            Ok(Started::Done(Vec::new()))
        } else {
            let queued = calls.enqueue(core, Caller::Blocking, n, Vec::new(), true);
            queued.map(|(waiter, signal)| Started::Waiting(waiter.id(), signal))
        };
        if matches!(started, Ok(Started::Waiting(..))) {
            want(calls, core);
        }
        self.arm(calls, core);
        started
    }

    /// Moves values from the segments to a call.
    fn fill(
        &mut self,
        calls: &mut CallQueue,
        core: &mut Core,
        spans: &mut Vec<Span>,
        sent: &mut Option<Stamp>,
        need: &mut u64,
    ) {
        while *need > 0 && !self.segments.is_empty() {
            if spans.is_empty() {
                *sent = Some(self.segments[0].sent);
            }
            let span = self.pop(calls, core, *need);
            *need -= span.count;
            spans.push(span);
        }
    }

    /// Takes up to `n` values of the first segment. Starts a fetch where few are left.
    fn pop(&mut self, calls: &mut CallQueue, core: &mut Core, n: u64) -> Span {
        let segment = &mut self.segments[0];
        let span = Span { first: segment.next, count: n.min(segment.left), step: segment.step };
        segment.skip(span.count);
        self.returned += span.count;
        if segment.left == 0 {
            self.segments.pop_front();
        }
        if self.prefetch_max > 0 && self.is_low() {
            want(calls, core);
        }
        span
    }

    fn is_low(&self) -> bool {
        match self.segments.len() {
            0 => true,
            1 => self.segments[0].left * 2 <= self.segments[0].size,
            _ => false,
        }
    }

    fn held(&self) -> u64 {
        self.segments.iter().map(|segment| segment.left).sum()
    }

    /// Counts values of a call that ended without them.
    pub(crate) fn drop_spans(&mut self, spans: &[Span]) -> u64 {
        let count = spans.iter().map(|span| span.count).sum();
        self.returned -= count;
        self.dropped += count;
        count
    }

    fn lose(&mut self, waiter: &mut Waiter) {
        waiter.need += self.drop_spans(&waiter.spans);
        waiter.spans.clear();
    }

    // Segments.

    /// Moves the state of the fast path into the first segment, and stops the fast path.
    pub(crate) fn settle(&mut self) {
        let used = self.armed - self.budget;
        (self.armed, self.budget) = (0, 0);
        if let Some(segment) = self.segments.front_mut() {
            segment.skip(used);
            self.returned += used;
            if segment.left == 0 {
                self.segments.pop_front();
            }
        }
    }

    /// Prepares the fast path: the number of values for which no call has anything else to do.
    fn arm(&mut self, calls: &CallQueue, core: &Core) {
        let Some(segment) = self.segments.front() else { return };
        let is_asking = calls.due.is_some() || calls.has_job;
        let is_whole = is_asking || self.segments.len() > 1 || self.prefetch_max == 0;
        let kept = if is_whole { 0 } else { segment.size / 2 + 1 };
        (self.next, self.step) = (segment.next, segment.step);
        self.budget = segment.left.saturating_sub(kept);
        self.armed = self.budget;
        self.check_at = (core.clock.now() + CHECK).min(segment.sent.mono + self.options.hold);
    }

    /// Drops segments that are too old by either clock, and all of them if the wall clock went back.
    fn check_ages(&mut self, core: &Core) {
        let wall_ns = core.clock.wall_ns();
        let went_back = wall_ns < std::mem::replace(&mut self.wall_ns, wall_ns);
        while let Some(segment) = self.segments.front()
            && (went_back || self.is_old(core, segment.sent))
        {
            self.dropped += segment.left;
            self.segments.pop_front();
        }
    }

    fn is_old(&self, core: &Core, sent: Stamp) -> bool {
        let mono = core.clock.now().saturating_duration_since(sent.mono);
        let wall_ns = u64::try_from(core.clock.wall_ns() - sent.wall_ns).unwrap_or(0);
        mono.max(Duration::from_nanos(wall_ns)) >= self.options.hold
    }

    pub(crate) fn forget(&mut self, calls: &mut CallQueue) {
        self.settle();
        self.dropped += self.held();
        self.segments.clear();
        self.is_wanted = false;
        for waiter in &mut calls.waiters {
            waiter.is_sent = false;
            self.lose(waiter);
        }
    }

    // Jobs.

    pub(crate) fn begin(&mut self, calls: &mut CallQueue, core: &Core) -> Option<Vec<u8>> {
        self.settle();
        self.check_ages(core);
        self.count = self.wanted_count(calls, core);
        if self.count > 0 {
            self.sent = Stamp { mono: core.clock.now(), wall_ns: core.clock.wall_ns() };
            self.job_serial = core.serial;
            calls.waiters.iter_mut().for_each(|waiter| waiter.is_sent = true);
        }
        self.arm(calls, core);
        if self.count == 0 {
            return None;
        }
        let (count, above) = (self.count.to_string(), self.newest.map(|newest| newest.to_string()));
        let mut arguments: Vec<&[u8]> = vec![b"SEQUENCE", b"NEXT", calls.name.as_bytes(), b"COUNT", count.as_bytes()];
        if let Some(above) = &above
            && (self.serial != Some(core.serial) || self.is_above_due)
        {
            arguments.extend([b"ABOVE", above.as_bytes()]);
        }
        Some(encode(&arguments))
    }

    /// Returns how many values the next request asks for.
    fn wanted_count(&mut self, calls: &CallQueue, core: &Core) -> u64 {
        let waiting = || calls.waiters.iter();
        let need: u64 = waiting().filter(|waiter| !waiter.is_warm_up).map(|waiter| waiter.need).sum();
        let mut count = need;
        if self.prefetch_max > 0 && (need > 0 || self.is_low()) {
            self.size_prefetch(core.clock.now());
            count += self.prefetch;
        }
        if self.is_wanted && self.segments.is_empty() {
            count = count.max(1);
        }
        let warm_up = waiting().filter(|waiter| waiter.is_warm_up).map(|waiter| waiter.need).max().unwrap_or(0);
        count.max((need + warm_up).saturating_sub(self.held())).min(COUNT_MAX)
    }

    /// Doubles the prefetch if fetches follow each other soon, and halves it if they do not.
    fn size_prefetch(&mut self, now: Instant) {
        let Some(last_sent) = self.last_sent.filter(|_| !self.is_sized) else { return };
        self.is_sized = true;
        let horizon = HORIZON.max(self.durations.iter().min().copied().unwrap_or_default() * 8);
        let since = now.saturating_duration_since(last_sent);
        if since < horizon {
            self.prefetch = (2 * self.prefetch).min(self.prefetch_max);
        } else if since > 4 * horizon {
            self.prefetch = (self.prefetch / 2).max(1);
        }
    }

    pub(crate) fn apply(&mut self, calls: &mut CallQueue, core: &mut Core, reply: &Reply) -> Result<(), Failure> {
        let (mut first, last, step) = self.parse(calls, reply)?;
        calls.succeeded();
        self.settle();
        self.check_ages(core);
        self.note_fetch(core.clock.now());
        let received = size_of(first, last, step);
        self.is_short = received < self.count;
        if let Some(newest) = self.newest.filter(|newest| first <= *newest) {
            let skipped = ((newest - first) / step + 1).min(received.cast_signed());
            first = first.wrapping_add(skipped.wrapping_mul(step));
        }
        let mut kept = if first > last || self.newest.is_some_and(|newest| first <= newest) {
            0
        } else {
            size_of(first, last, step)
        };
        let is_whole_dropped = kept == 0;
        if !is_whole_dropped {
            self.newest = Some(last);
            self.kept.fetch_max(last, Ordering::Relaxed);
        }
        let is_old = self.is_old(core, self.sent);
        if is_old || core.clock.wall_ns() < self.sent.wall_ns {
            kept = 0;
        }
        if is_old {
            let hold = self.options.hold;
            calls.last_failure = format!("values came later than their hold of {hold:?}: set a longer one");
        }
        self.dropped += received - kept;
        if kept > 0 {
            self.segments.push_back(Segment { next: first, left: kept, step, size: kept, sent: self.sent });
        }
        self.serve(calls, core);
        self.is_above_due = is_whole_dropped;
        if kept > 0 {
            self.dropped_wait = BACKOFF_FIRST;
        } else {
            calls.retry_at = Some(core.clock.now() + self.dropped_wait);
            self.dropped_wait = (2 * self.dropped_wait).min(BACKOFF_LAST);
        }
        if !calls.waiters.is_empty() {
            let due = calls.allowed_at(core.clock.now());
            calls.schedule(core, due);
        }
        self.arm(calls, core);
        Ok(())
    }

    fn note_fetch(&mut self, now: Instant) {
        if self.durations.len() == FETCHES_KEPT {
            self.durations.pop_front();
        }
        self.durations.push_back(now.saturating_duration_since(self.sent.mono));
        (self.last_sent, self.is_sized, self.is_wanted) = (Some(self.sent.mono), false, false);
        (self.serial, self.is_above_due) = (Some(self.job_serial), false);
        self.fetches += 1;
    }

    /// Gives values to the calls that wait, in their order, and keeps the others.
    fn serve(&mut self, calls: &mut CallQueue, core: &mut Core) {
        for mut waiter in std::mem::take(&mut calls.waiters) {
            if self.is_served(calls, core, &mut waiter) {
                let spans = std::mem::take(&mut waiter.spans);
                calls.finish(core, waiter, Ok(spans));
            } else {
                calls.waiters.push_back(waiter);
            }
        }
        if self.options.is_fresh {
            self.dropped += self.held();
            self.segments.clear();
        }
    }

    fn is_served(&mut self, calls: &mut CallQueue, core: &mut Core, waiter: &mut Waiter) -> bool {
        if waiter.is_warm_up {
            // A server that gives short ranges is not asked again and again: two segments are all there is then.
            return self.held() >= waiter.need || (self.is_short && self.segments.len() > 1);
        }
        if self.options.is_fresh && !waiter.is_sent {
            return false;
        }
        if waiter.sent.is_some_and(|sent| !waiter.spans.is_empty() && self.is_old(core, sent)) {
            self.lose(waiter);
        }
        let Waiter { spans, sent, need, .. } = waiter;
        self.fill(calls, core, spans, sent, need);
        waiter.need == 0
    }

    /// Returns the first value, the last one and the increment of a reply.
    fn parse(&self, calls: &CallQueue, reply: &Reply) -> Result<(i64, i64, i64), Failure> {
        if let Reply::Array(parts) = reply
            && let [Reply::Integer(first), Reply::Integer(last), Reply::Integer(step)] = parts[..]
            && (0..=last).contains(&first)
            && step >= 1
            && (last - first) % step == 0
            && size_of(first, last, step) <= self.count
        {
            return Ok((first, last, step));
        }
        let shown: String = format!("{reply:?}").chars().take(100).collect();
        Err(unexpected(format_args!("{shown} to SEQUENCE NEXT {} COUNT {}", calls.name, self.count)))
    }
}

impl Segment {
    fn skip(&mut self, count: u64) {
        self.next = self.next.wrapping_add(self.step.wrapping_mul(count.cast_signed()));
        self.left -= count;
    }
}

/// Starts a fetch as soon as one is allowed.
fn want(calls: &mut CallQueue, core: &mut Core) {
    let due = calls.allowed_at(core.clock.now());
    calls.schedule_by(core, due);
}

fn size_of(first: i64, last: i64, step: i64) -> u64 {
    ((last - first) / step).cast_unsigned().saturating_add(1)
}

/// Returns the error for options that differ from those of the object of the same name.
pub(crate) fn other_options(kind: &str, name: &str) -> Error {
    Error::Usage(format!("{kind} '{name}' exists with other options: use the same ones, or another client"))
}
