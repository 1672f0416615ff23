//! State of a worker: a leased worker id, and IDs made with it in process.
//!
//! An ID is made only in a unit of time of which the lease covers each millisecond. So two holders of one worker id
//! never make the same ID, whatever their clocks show. Almost every call counts up inside the millisecond that was last
//! checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::connection::{Failure, Reply, ServerError, encode, unexpected};
use crate::core::{CallQueue, Caller, Core, Release, Span, Started};
use crate::error::{Error, Result, check_number};
use crate::event::EventKind;
use crate::layout::Layout;
use crate::sha256;

const HOLDER_BYTES_MAX: usize = 64;
const TTL_MAX_S: u64 = 86_400;
const TOKEN_BYTES_MAX: usize = 256;
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LAST: Duration = Duration::from_secs(30);
/// Latest end of a lease, Unix milliseconds, so that no sum of times overflows.
const TIME_MS_MAX: i64 = 1 << 50;
/// Shortest time between two renewals.
const RENEW_PAUSE: Duration = Duration::from_secs(1);
/// Distance by which the two clocks move apart before a renewal is due at once.
const JUMP_MS: i64 = 1000;
/// IDs that a call makes under the lock in one piece.
const CHUNK: u64 = 1000;

/// Options of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerOptions {
    pub(crate) name: Option<String>,
    pub(crate) ttl_s: Option<u64>,
}

impl WorkerOptions {
    /// Sets the name that gets a program its last worker id back, by default the host's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> WorkerOptions {
        self.name = Some(name.into());
        self
    }

    /// Sets the length of the lease in seconds, 1 to 86,400, by default the pool's.
    #[must_use]
    pub fn ttl_s(mut self, seconds: u64) -> WorkerOptions {
        self.ttl_s = Some(seconds);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.ttl_s.map_or(Ok(0), |seconds| check_number("ttl_s", seconds, 1..=TTL_MAX_S)).map(drop)
    }
}

/// Counters of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// IDs returned.
    pub values: u64,
    /// Worker id, none without a lease.
    pub worker_id: Option<u32>,
    /// First millisecond of the lease.
    pub not_before_ms: Option<i64>,
    /// Millisecond at which the lease ends.
    pub not_after_ms: Option<i64>,
    /// Leases obtained.
    pub leases: u64,
    /// Renewals that succeeded.
    pub renewals: u64,
    /// Requests that failed.
    pub failures: u64,
    /// How far the clock was past the end that the server had given at the last renewal, in milliseconds.
    pub clock_ahead_ms: i64,
}

/// A leased worker id and its interval of Unix milliseconds.
#[derive(Debug, Clone)]
struct Lease {
    id: i64,
    token: Vec<u8>,
    not_before: i64,
    not_after: i64,
    /// End that the server gave by its own clock: without a `LAST` of this machine's clock.
    given_end: i64,
    length: Duration,
    is_used: bool,
    is_lost: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Lease,
    Renew,
    Release,
}

pub(crate) struct WorkerState {
    // The fast path.
    checked_ms: i64,
    counter: u64,
    counter_max: u64,
    base: i64,
    counter_step: i64,
    returned: u64,
    layout: Layout,
    worker: u32,
    options: WorkerOptions,
    holder: Vec<u8>,
    /// Newest unit in which this process or one before it made an ID.
    kept: Arc<AtomicI64>,
    newest: i64,
    lease: Option<Lease>,
    unfit: Option<Lease>,
    unit: i64,
    end_unit: i64,
    is_wanted: bool,
    job: Job,
    /// Whether the renewal under way sends this machine's clock as `LAST`.
    is_ahead: bool,
    is_last_real: bool,
    sent: Option<Instant>,
    tried_at: Option<Instant>,
    lease_delay: Duration,
    /// Wall time and monotonic time of the last comparison.
    compared: Option<(i64, Instant)>,
    clock_ahead_ms: i64,
    leases: u64,
    renewals: u64,
}

/// Returns the name of a holder as the server takes it: at most 64 bytes of printable ASCII, or none.
pub(crate) fn holder_name(name: Option<&str>) -> Vec<u8> {
    let whole = name.map_or_else(crate::system::host_name, |name| name.as_bytes().to_vec());
    let mut cleaned: Vec<u8> = whole.iter().map(|&byte| if (33..=126).contains(&byte) { byte } else { b'_' }).collect();
    if cleaned.len() > HOLDER_BYTES_MAX {
        cleaned.truncate(55);
        cleaned.extend_from_slice(format!("-{:08x}", sha256::first_word(&whole)).as_bytes());
    }
    cleaned
}

impl WorkerState {
    /// Makes the state. `kept` has the newest unit of this object in an earlier process, -1 for none.
    pub(crate) fn new(layout: Layout, options: WorkerOptions, kept: Arc<AtomicI64>) -> WorkerState {
        WorkerState {
            checked_ms: -1,
            counter: 0,
            counter_max: (1 << layout.counter) - 1,
            base: 0,
            counter_step: layout.counter_step(),
            returned: 0,
            layout,
            worker: 0,
            holder: holder_name(options.name.as_deref()),
            options,
            newest: kept.load(Ordering::Relaxed),
            kept,
            lease: None,
            unfit: None,
            unit: -1,
            end_unit: 0,
            is_wanted: false,
            job: Job::Lease,
            is_ahead: false,
            is_last_real: false,
            sent: None,
            tried_at: None,
            lease_delay: RETRY_FIRST,
            compared: None,
            clock_ahead_ms: 0,
            leases: 0,
            renewals: 0,
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn options(&self) -> &WorkerOptions {
        &self.options
    }

    pub(crate) fn stats(&self, failures: u64) -> WorkerStats {
        let lease = self.lease.as_ref();
        WorkerStats {
            values: self.returned,
            worker_id: lease.map(|_| self.worker),
            not_before_ms: lease.map(|lease| lease.not_before),
            not_after_ms: lease.map(|lease| lease.not_after),
            leases: self.leases,
            renewals: self.renewals,
            failures,
            clock_ahead_ms: self.clock_ahead_ms,
        }
    }

    // Calls.

    #[inline]
    pub(crate) fn fast(&mut self, now_ms: i64) -> Option<i64> {
        if now_ms != self.checked_ms || self.counter >= self.counter_max {
            return None;
        }
        self.counter += 1;
        self.returned += 1;
        Some(self.base + self.counter.cast_signed() * self.counter_step)
    }

    /// Makes up to `n` IDs, at most a chunk. Queues the call if none can be made now.
    pub(crate) fn start(
        &mut self,
        calls: &mut CallQueue,
        core: &mut Core,
        n: u64,
        caller: Caller<'_>,
    ) -> Result<Started> {
        let mut spans: Vec<Span> = Vec::new();
        for _ in 0..n.min(CHUNK) {
            let Some(id) = self.draw(calls, core)? else { break };
            match spans.last_mut() {
                Some(span) if id == span.first + span.count.cast_signed() * span.step => span.count += 1,
                _ => spans.push(Span { first: id, count: 1, step: self.counter_step }),
            }
        }
        if !spans.is_empty() {
            return Ok(Started::Done(spans));
        }
        let (waiter, signal) = calls.enqueue(core, caller, 1, Vec::new(), false)?;
        let id = waiter.id();
        self.want(calls, core);
        Ok(Started::Waiting(id, signal))
    }

    pub(crate) fn warm_up(&mut self, calls: &mut CallQueue, core: &mut Core) -> Result<Started> {
        if self.lease.is_some() {
            return Ok(Started::Done(Vec::new()));
        }
        let (waiter, signal) = calls.enqueue(core, Caller::Blocking, 1, Vec::new(), true)?;
        let id = waiter.id();
        self.want(calls, core);
        Ok(Started::Waiting(id, signal))
    }

    /// Returns an ID, or none if the lease covers no further unit. Starts what is due.
    pub(crate) fn draw(&mut self, calls: &mut CallQueue, core: &mut Core) -> Result<Option<i64>> {
        if self.lease.is_none() {
            self.want(calls, core);
            return Ok(None);
        }
        let now_ms = core.clock.wall_ms();
        if now_ms != self.checked_ms {
            self.check_clocks(calls, core, now_ms);
        }
        let clock_unit = (now_ms - self.layout.epoch_ms).div_euclid(self.layout.unit_ms);
        let (mut unit, mut counter) = (clock_unit.max(self.unit), 0);
        if unit == self.unit {
            counter = self.counter + 1;
            if counter > self.counter_max {
                (unit, counter) = (unit + 1, 0);
            }
        }
        if unit >= self.end_unit {
            self.checked_ms = -1;
            self.check_range(calls, unit)?;
            self.want(calls, core);
            return Ok(None);
        }
        if unit != self.unit {
            self.base = self.layout.compose(unit, self.worker, 0);
            self.kept.fetch_max(unit, Ordering::Relaxed);
        }
        (self.unit, self.newest, self.counter, self.checked_ms) = (unit, unit, counter, now_ms);
        if let Some(lease) = &mut self.lease {
            lease.is_used = true;
        }
        self.returned += 1;
        Ok(Some(self.base + counter.cast_signed() * self.counter_step))
    }

    fn check_range(&self, calls: &CallQueue, unit: i64) -> Result<()> {
        if unit < 1 << self.layout.time {
            return Ok(());
        }
        let message = format!(
            "{}: the time of the layout ended: take one with a later epoch or more bits of time",
            calls.title()
        );
        Err(Error::Refused { code: String::new(), message })
    }

    /// Makes a renewal due at once if the wall clock was set. Compares both clocks.
    fn check_clocks(&mut self, calls: &mut CallQueue, core: &mut Core, now_ms: i64) {
        let now = core.clock.now();
        let Some((wall_ms, mono)) = self.compared else {
            self.compared = Some((now_ms, now));
            return;
        };
        let passed_ms = i64::try_from(now.saturating_duration_since(mono).as_millis()).unwrap_or(i64::MAX);
        if (now_ms - wall_ms).saturating_sub(passed_ms).abs() <= JUMP_MS {
            return;
        }
        self.compared = Some((now_ms, now));
        if self.can_renew() {
            let due = self.renewable_at(now);
            calls.schedule_by(core, due);
        }
    }

    /// Starts the lease or renewal without which no ID can be made.
    fn want(&mut self, calls: &mut CallQueue, core: &mut Core) {
        self.is_wanted = true;
        let mut due = calls.allowed_at(core.clock.now());
        if self.can_renew() {
            due = self.renewable_at(due);
        }
        calls.schedule_by(core, due);
    }

    fn renewable_at(&self, at: Instant) -> Instant {
        self.tried_at.map_or(at, |tried| at.max(tried + RENEW_PAUSE))
    }

    fn can_renew(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| !lease.is_lost)
    }

    /// Returns LAST: the last millisecond of the newest ID's unit.
    fn last(&self, lease: &Lease) -> i64 {
        if lease.is_used { self.layout.unit_end_ms(self.newest) } else { lease.not_before - 1 }
    }

    pub(crate) fn forget(&mut self) {
        (self.lease, self.unfit) = (None, None);
        self.checked_ms = -1;
        (self.is_last_real, self.is_wanted) = (false, false);
        (self.tried_at, self.compared) = (None, None);
    }

    /// Returns the releases of what is leased.
    pub(crate) fn releases(&self, pool: &str) -> Vec<Release> {
        let lease = self.lease.as_ref().filter(|lease| !lease.is_lost).map(|lease| (lease, self.last(lease)));
        let unfit = self.unfit.as_ref().map(|lease| (lease, lease.not_before - 1));
        let release = |(lease, last): (&Lease, i64)| Release {
            pool: pool.to_owned(),
            request: encode_of(pool, "RELEASE", lease, Some(last)),
            without_last: encode_of(pool, "RELEASE", lease, None),
        };
        lease.into_iter().chain(unfit).map(release).collect()
    }

    // Jobs.

    pub(crate) fn begin(&mut self, calls: &CallQueue, core: &Core) -> Option<Vec<u8>> {
        self.sent = Some(core.clock.now());
        if let Some(lease) = &self.unfit {
            self.job = Job::Release;
            return Some(encode_of(&calls.name, "RELEASE", lease, Some(lease.not_before - 1)));
        }
        if self.can_renew() {
            return self.begin_renewal(calls, core);
        }
        if calls.waiters.is_empty() && !self.is_wanted {
            return None;
        }
        self.job = Job::Lease;
        let ttl = self.options.ttl_s.map(|seconds| seconds.to_string());
        let mut arguments: Vec<&[u8]> = vec![b"WORKERID", b"LEASE", calls.name.as_bytes()];
        if !self.holder.is_empty() {
            arguments.extend([b"NAME", &self.holder[..]]);
        }
        if let Some(ttl) = &ttl {
            arguments.extend([b"TTL", ttl.as_bytes()]);
        }
        Some(encode(&arguments))
    }

    fn begin_renewal(&mut self, calls: &CallQueue, core: &Core) -> Option<Vec<u8>> {
        let lease = self.lease.as_ref()?;
        self.job = Job::Renew;
        self.tried_at = self.sent;
        let (last, now_ms) = (self.last(lease), core.clock.wall_ms());
        let is_past = now_ms >= lease.not_after && now_ms - 1 > last;
        self.is_ahead = is_past && !std::mem::take(&mut self.is_last_real);
        Some(encode_of(&calls.name, "RENEW", lease, Some(if self.is_ahead { now_ms - 1 } else { last })))
    }

    pub(crate) fn apply(&mut self, calls: &mut CallQueue, core: &mut Core, reply: &Reply) -> Result<(), Failure> {
        match self.job {
            Job::Release => self.apply_release(calls, core, reply),
            Job::Lease => self.apply_lease(calls, core, reply),
            Job::Renew => self.apply_renewal(calls, core, reply),
        }
    }

    fn apply_release(&mut self, calls: &mut CallQueue, core: &mut Core, reply: &Reply) -> Result<(), Failure> {
        if !matches!(reply, Reply::Status(text) if text == "OK") {
            return Err(unexpected("no OK to WORKERID RELEASE"));
        }
        self.unfit = None;
        calls.succeeded();
        core.event(EventKind::Released, &calls.name, "", 0);
        schedule_if_waiting(calls, core);
        Ok(())
    }

    fn apply_lease(&mut self, calls: &mut CallQueue, core: &mut Core, reply: &Reply) -> Result<(), Failure> {
        let lease = parse_lease(reply)?;
        calls.succeeded();
        self.lease_delay = RETRY_FIRST;
        self.is_wanted = false;
        let Some(worker) = u32::try_from(lease.id).ok().filter(|id| *id < 1 << self.layout.worker) else {
            self.refuse_unfit(calls, core, lease);
            return Ok(());
        };
        let (layout, now_ms) = (self.layout, core.clock.wall_ms());
        let first = (lease.not_before - layout.epoch_ms + layout.unit_ms - 1).div_euclid(layout.unit_ms).max(0);
        self.unit = self.newest.max(first - 1);
        (self.worker, self.counter) = (worker, self.counter_max);
        self.leases += 1;
        (self.tried_at, self.compared) = (None, Some((now_ms, core.clock.now())));
        let (length, not_after) = (lease.length, lease.not_after);
        self.lease = Some(lease);
        self.set_end(not_after);
        core.event(EventKind::Leased, &calls.name, "", 0);
        self.schedule_renewal(calls, core, length);
        if now_ms >= not_after {
            let now = core.clock.now();
            calls.schedule(core, now);
        } else {
            calls.finish_all(core, None);
        }
        Ok(())
    }

    fn refuse_unfit(&mut self, calls: &mut CallQueue, core: &mut Core, lease: Lease) {
        let message = format!(
            "{}: worker id {} does not fit the {} bits of the layout: set 'worker-pool {} size {}' on the server, or \
             take a layout with more bits",
            calls.title(),
            lease.id,
            self.layout.worker,
            calls.name,
            1_u32 << self.layout.worker
        );
        (self.unfit, self.lease, self.checked_ms) = (Some(lease), None, -1);
        calls.finish_all(core, Some(&Error::Refused { code: String::new(), message }));
        let now = core.clock.now();
        calls.schedule(core, now);
    }

    fn schedule_renewal(&self, calls: &mut CallQueue, core: &mut Core, length: Duration) {
        let sent = self.sent.unwrap_or_else(|| core.clock.now());
        calls.schedule(core, sent + (length / 3).max(RENEW_PAUSE));
    }

    fn set_end(&mut self, not_after: i64) {
        let covered = (not_after - self.layout.epoch_ms).div_euclid(self.layout.unit_ms);
        self.end_unit = covered.min(1 << self.layout.time);
        self.checked_ms = -1;
    }

    fn apply_renewal(&mut self, calls: &mut CallQueue, core: &mut Core, reply: &Reply) -> Result<(), Failure> {
        let end = match reply {
            Reply::Array(parts) => parts.first(),
            _ => None,
        };
        let lease = self.lease.as_mut().ok_or_else(|| unexpected("a renewal without a lease"))?;
        let Some(&Reply::Integer(end)) =
            end.filter(|end| matches!(end, Reply::Integer(end) if (lease.not_after..=TIME_MS_MAX).contains(end)))
        else {
            return Err(unexpected("no end that is later to WORKERID RENEW"));
        };
        calls.succeeded();
        lease.not_after = end;
        if !self.is_ahead {
            lease.given_end = end;
        }
        let (given_end, length) = (lease.given_end, lease.length);
        self.renewals += 1;
        self.is_wanted = false;
        self.set_end(end);
        core.event(EventKind::Renewed, &calls.name, "", 0);
        self.schedule_renewal(calls, core, length);
        let now_ms = core.clock.wall_ms();
        self.clock_ahead_ms = (now_ms - given_end).max(0);
        if now_ms < end {
            calls.finish_all(core, None);
        } else {
            self.report_clock(calls, core);
        }
        Ok(())
    }

    fn report_clock(&self, calls: &mut CallQueue, core: &mut Core) {
        let difference_ms = self.clock_ahead_ms;
        let message = format!(
            "{}: this machine's clock is at least {}.{:03} s ahead of the server's, past the end of a lease that was \
             just given: set the clock (timedatectl set-ntp true), or give the pool a lease that is longer than the \
             difference",
            calls.title(),
            difference_ms / 1000,
            difference_ms % 1000
        );
        core.event(EventKind::Clock, &calls.name, &message, difference_ms);
        calls.finish_all(core, Some(&Error::Clock { difference_ms, message }));
    }

    /// Takes an error reply. Returns whether the error was expected and is dealt with.
    pub(crate) fn meet_error(&mut self, calls: &mut CallQueue, core: &mut Core, error: &ServerError) -> bool {
        if self.job == Job::Release {
            // Whatever the reason: the id is free at the end of its lease.
            self.unfit = None;
            schedule_if_waiting(calls, core);
            return true;
        }
        let Some(lease) = self.lease.as_mut().filter(|_| self.job == Job::Renew) else {
            return false;
        };
        if matches!(error.code(), "EXPIRED" | "REVOKED" | "WRONGTOKEN") {
            lease.is_lost = true;
            calls.failures += 1;
            calls.last_failure.clone_from(&error.text);
            core.event(EventKind::LeaseLost, &calls.name, &error.text, 0);
            schedule_if_waiting(calls, core);
            return true;
        }
        if self.is_ahead && crate::core::Remedy::of(error) == crate::core::Remedy::Refused {
            self.is_last_real = true;
            let now = core.clock.now();
            calls.schedule(core, now);
            return true;
        }
        false
    }

    /// Whether the job that is under way is a renewal, or would be one if it had come so far.
    pub(crate) fn is_renewing(&self) -> bool {
        self.unfit.is_none() && self.can_renew()
    }

    /// Returns the wait before the next try. `can_lose`: the server may have done what was requested.
    pub(crate) fn retry_delay(&mut self, delay: Duration, can_lose: bool, now: Instant) -> Duration {
        if self.is_renewing() {
            return delay.max(self.renewable_at(now) - now);
        }
        if !can_lose || self.job != Job::Lease {
            return delay;
        }
        let longer = (2 * self.lease_delay).min(RETRY_LAST);
        std::mem::replace(&mut self.lease_delay, longer)
    }

    /// Whether a failed renewal is tried again although no call waits.
    pub(crate) fn is_renewal_needed(&self, now_ms: i64) -> bool {
        self.lease.as_ref().is_some_and(|lease| !lease.is_lost && now_ms < lease.not_after)
    }
}

fn schedule_if_waiting(calls: &mut CallQueue, core: &mut Core) {
    if !calls.waiters.is_empty() {
        let now = core.clock.now();
        calls.schedule(core, now);
    }
}

fn encode_of(pool: &str, command: &str, lease: &Lease, last: Option<i64>) -> Vec<u8> {
    let (id, last) = (lease.id.to_string(), last.map(|last| last.max(0).to_string()));
    let mut arguments: Vec<&[u8]> = vec![b"WORKERID", command.as_bytes(), pool.as_bytes(), id.as_bytes(), &lease.token];
    if let Some(last) = &last {
        arguments.extend([b"LAST", last.as_bytes()]);
    }
    encode(&arguments)
}

fn parse_lease(reply: &Reply) -> Result<Lease, Failure> {
    if let Reply::Array(parts) = reply
        && let [
            Reply::Integer(id),
            Reply::Bulk(token),
            Reply::Integer(not_before),
            Reply::Integer(not_after),
            Reply::Integer(length_ms),
            ..,
        ] = &parts[..]
        && (1..=TOKEN_BYTES_MAX).contains(&token.len())
        && *id >= 0
        && (0..*not_after).contains(not_before)
        && *not_after <= TIME_MS_MAX
        && let Ok(length_ms) = u64::try_from(*length_ms)
    {
        return Ok(Lease {
            id: *id,
            token: token.clone(),
            not_before: *not_before,
            not_after: *not_after,
            given_end: *not_after,
            length: Duration::from_millis(length_ms.clamp(1, TTL_MAX_S * 1000)),
            is_used: false,
            is_lost: false,
        });
    }
    // The reply has a token, which is secret.
    Err(unexpected("no lease of five values to WORKERID LEASE"))
}
