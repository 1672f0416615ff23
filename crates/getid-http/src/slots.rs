//! The connection slots of the HTTP port (`http-max-clients`): their owners, time limits and evictions.
//!
//! If all slots are in use, the longest idle connection makes room. If none is idle, it is one that is stuck in a
//! request or reads no response, of the address with the most connections. A new connection is refused only if all
//! others work. The last slots are for addresses with few connections, so that one address with many requests does not
//! block another's probes.
//!
//! All times are checked together once a second, so that a request sets no timer.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::bounds::PortBounds;
use super::head::RequestFault;
use getid_redis::acl::LoginSource;

/// How long a client may still send what is not read, µs, so that it receives the response.
const LINGER_US_MAX: u64 = 2_000_000;

/// How long a connection that is neither idle nor working may keep its slot while others wait, µs. An honest client
/// sends a head or a body at once, or within a round trip.
const GRACE_US: u64 = 100_000;

/// Slots that are kept for addresses with fewer than [`FEW_CONNECTIONS`] connections: a quarter, up to this bound.
const RESERVED_MAX: usize = 16;
const FEW_CONNECTIONS: usize = 8;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ConnectionPhase {
    /// No bytes have arrived since it connected or since its last request.
    Idle = 0,
    /// A head is incomplete.
    Head = 1,
    /// A body is incomplete.
    Body = 2,
    /// The handler works on a request.
    Answering = 3,
    /// The response is being sent, which may be an endless stream.
    Responding = 4,
    /// The last response was sent, and the client still sends.
    Lingering = 5,
}

impl ConnectionPhase {
    fn of(number: u8) -> ConnectionPhase {
        match number {
            0 => ConnectionPhase::Idle,
            1 => ConnectionPhase::Head,
            2 => ConnectionPhase::Body,
            3 => ConnectionPhase::Answering,
            4 => ConnectionPhase::Responding,
            _ => ConnectionPhase::Lingering,
        }
    }
}

/// A signal to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum CloseSignal {
    None = 0,
    /// The request has timed out: answer it with an error, in any phase.
    TimedOut = 1,
    /// End after the current response, if any.
    Drain = 2,
    /// End at once.
    Abort = 3,
}

/// The deadline that a connection has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionTimeout {
    Head,
    Body,
    Answer,
    Idle,
    Output,
    Linger,
}

/// The slot of one connection.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    source: LoginSource,
    /// The instant at which the port's time is 0.
    epoch: Instant,
    phase: AtomicU8,
    since_us: AtomicU64,
    /// Since when the client has read nothing of the bytes that wait for it; 0: none wait.
    stalled_us: AtomicU64,
    signal: AtomicU8,
    /// Whether it was evicted, and counts as closed.
    is_evicted: AtomicBool,
    /// Whether a head was refused; `refusal` is the reason.
    is_refused: AtomicBool,
    refusal: Mutex<Option<RequestFault>>,
    /// Whether bytes of the next request are in this process.
    pub(super) has_more: AtomicBool,
    waker: OnceLock<Waker>,
}

impl ConnectionSlot {
    /// Returns the port's time in microseconds, never 0.
    fn now_us(&self) -> u64 {
        us_since(self.epoch)
    }

    pub(super) fn phase(&self) -> ConnectionPhase {
        ConnectionPhase::of(self.phase.load(Relaxed))
    }

    pub(super) fn enter(&self, phase: ConnectionPhase) {
        self.phase.store(phase as u8, Relaxed);
        self.since_us.store(self.now_us(), Relaxed);
    }

    /// Enters the response, whose time is limited not by the phase but by the client's reads.
    pub(super) fn begin_response(&self) {
        self.phase.store(ConnectionPhase::Responding as u8, Relaxed);
    }

    /// Records that the client did not read the bytes that wait for it.
    pub(super) fn note_stalled(&self) {
        if self.stalled_us.load(Relaxed) == 0 {
            self.stalled_us.store(self.now_us(), Relaxed);
        }
    }

    /// Records that the client read something.
    pub(super) fn note_read(&self) {
        if self.stalled_us.load(Relaxed) != 0 {
            self.stalled_us.store(0, Relaxed);
        }
    }

    pub(super) fn signal(&self) -> CloseSignal {
        match self.signal.load(Relaxed) {
            0 => CloseSignal::None,
            1 => CloseSignal::TimedOut,
            2 => CloseSignal::Drain,
            _ => CloseSignal::Abort,
        }
    }

    pub(super) fn send_signal(&self, signal: CloseSignal) {
        self.signal.fetch_max(signal as u8, Relaxed);
        self.wake();
    }

    pub(super) fn refuse(&self, fault: RequestFault) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
        self.is_refused.store(true, Relaxed);
    }

    pub(super) fn refusal(&self) -> Option<RequestFault> {
        if !self.is_refused.load(Relaxed) {
            return None;
        }
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the waker of the connection's task, which stays the same for the task's life.
    pub(super) fn set_waker(&self, waker: &Waker) {
        self.waker.get_or_init(|| waker.clone());
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    /// Returns the deadline that the connection has missed at `now_us`, if any, and the signal for it.
    fn missed_deadline(&self, now_us: u64, timeouts: ConnectionTimeouts) -> Option<(CloseSignal, ConnectionTimeout)> {
        let is_exceeded = |since_us: u64, us_max: u64| now_us.saturating_sub(since_us) > us_max;
        let bounds = timeouts.bounds;
        let since_us = self.since_us.load(Relaxed);
        let stalled_us = self.stalled_us.load(Relaxed);
        if stalled_us != 0 && timeouts.output_us > 0 && is_exceeded(stalled_us, timeouts.output_us) {
            return Some((CloseSignal::Abort, ConnectionTimeout::Output));
        }
        let (us_max, signal, timeout) = match self.phase() {
            ConnectionPhase::Idle => (timeouts.idle_us, CloseSignal::Drain, ConnectionTimeout::Idle),
            ConnectionPhase::Head => (us_of(bounds.head), CloseSignal::TimedOut, ConnectionTimeout::Head),
            ConnectionPhase::Body => (us_of(bounds.body), CloseSignal::TimedOut, ConnectionTimeout::Body),
            ConnectionPhase::Answering => (us_of(bounds.answer), CloseSignal::TimedOut, ConnectionTimeout::Answer),
            ConnectionPhase::Lingering => (LINGER_US_MAX, CloseSignal::Abort, ConnectionTimeout::Linger),
            ConnectionPhase::Responding => return None,
        };
        is_exceeded(since_us, us_max).then_some((signal, timeout))
    }

    /// Whether it keeps memory for a response that is not read, or for a body that does not arrive.
    fn is_stuck(&self, now_us: u64, stuck: Duration) -> bool {
        let has_exceeded_grace = |since_us: u64| now_us.saturating_sub(since_us) >= us_of(stuck);
        match self.stalled_us.load(Relaxed) {
            0 => self.phase() == ConnectionPhase::Body && has_exceeded_grace(self.since_us.load(Relaxed)),
            since_us => has_exceeded_grace(since_us),
        }
    }

    /// Returns its eviction order, the smallest first; `None` if it is not evictable.
    fn eviction_priority(&self, now_us: u64, source_connections: usize) -> Option<(u8, usize, u64)> {
        let since_us = self.since_us.load(Relaxed);
        let stalled_us = self.stalled_us.load(Relaxed);
        let has_exceeded_grace = |since_us: u64| now_us.saturating_sub(since_us) >= GRACE_US;
        match self.phase() {
            _ if stalled_us != 0 => {
                has_exceeded_grace(stalled_us).then_some((1, usize::MAX - source_connections, stalled_us))
            }
            ConnectionPhase::Idle => Some((0, 0, since_us)),
            ConnectionPhase::Head | ConnectionPhase::Body | ConnectionPhase::Lingering => {
                has_exceeded_grace(since_us).then_some((1, usize::MAX - source_connections, since_us))
            }
            ConnectionPhase::Answering | ConnectionPhase::Responding => None,
        }
    }
}

/// Time-outs of connections: those of directives, in µs (0: none), and the port's.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionTimeouts {
    pub(super) idle_us: u64,
    pub(super) output_us: u64,
    pub(super) bounds: PortBounds,
}

fn us_of(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the time since `epoch`, µs; never 0, which means no time.
fn us_since(epoch: Instant) -> u64 {
    us_of(epoch.elapsed()).saturating_add(1)
}

/// The result for a new connection.
#[derive(Debug)]
pub(super) enum SlotAdmission {
    /// A free slot.
    Admitted(SlotGuard),
    /// The slot of a connection that was evicted for the new one.
    AdmittedByEviction(SlotGuard),
    /// All connections work.
    Refused,
}

#[derive(Debug)]
pub(super) struct ConnectionSlots {
    epoch: Instant,
    table: Mutex<SlotTable>,
    released: Notify,
    streams: AtomicUsize,
}

#[derive(Debug, Default)]
struct SlotTable {
    by_number: BTreeMap<u64, Arc<ConnectionSlot>>,
    by_source: HashMap<LoginSource, usize>,
    last_number: u64,
    /// Evicted connections that have not closed yet.
    evicting: usize,
    is_closed: bool,
}

impl ConnectionSlots {
    pub(super) fn new() -> Arc<ConnectionSlots> {
        let (table, released, streams) = Default::default();
        Arc::new(ConnectionSlots { epoch: Instant::now(), table, released, streams })
    }

    /// Admits a connection from `source` if there is a free slot among `count_max`, or another connection can be
    /// evicted.
    pub(super) fn admit(self: &Arc<Self>, source: LoginSource, count_max: usize) -> SlotAdmission {
        let mut table = self.lock();
        if table.is_closed {
            return SlotAdmission::Refused;
        }
        let count = table.by_number.len().saturating_sub(table.evicting);
        let source_connections = table.by_source.get(&source).copied().unwrap_or(0);
        let reserved = (count_max / 4).min(RESERVED_MAX);
        let is_full = count >= count_max;
        if !is_full && (count + reserved < count_max || source_connections < FEW_CONNECTIONS) {
            return SlotAdmission::Admitted(table.add(self, source));
        }
        let Some(victim) = table.victim(self.epoch, (!is_full).then_some(source)) else {
            return SlotAdmission::Refused;
        };
        table.evicting += 1;
        victim.is_evicted.store(true, Relaxed);
        victim.send_signal(CloseSignal::Abort);
        SlotAdmission::AdmittedByEviction(table.add(self, source))
    }

    /// Signals connections that have missed a deadline. The first signal makes them answer; the next sweep closes them.
    /// Runs every [`PortBounds::sweep`].
    pub(super) fn sweep(&self, timeouts: ConnectionTimeouts, mut note: impl FnMut(ConnectionTimeout)) {
        let now_us = us_since(self.epoch);
        for slot in self.lock().by_number.values() {
            let Some((signal, timeout)) = slot.missed_deadline(now_us, timeouts) else { continue };
            if signal > slot.signal() {
                note(timeout);
                slot.send_signal(signal);
            } else if signal == CloseSignal::TimedOut && slot.signal() == CloseSignal::TimedOut {
                // It was signalled at the sweep before and has not answered since.
                slot.send_signal(CloseSignal::Abort);
            }
        }
    }

    /// Ends connections that for `stuck` have read nothing of their response, or sent nothing of their request. Other
    /// connections need their memory.
    pub(super) fn end_stuck(&self, stuck: Duration) {
        let now_us = us_since(self.epoch);
        self.lock()
            .by_number
            .values()
            .filter(|slot| slot.is_stuck(now_us, stuck))
            .for_each(|slot| slot.send_signal(CloseSignal::Abort));
    }

    /// Signals all connections to end, and admits no new ones.
    pub(super) fn end_all(&self, signal: CloseSignal) {
        let mut table = self.lock();
        table.is_closed = true;
        table.by_number.values().for_each(|slot| slot.send_signal(signal));
    }

    /// Waits until there are no connections.
    pub(super) async fn wait_until_empty(&self) {
        loop {
            let released = self.released.notified();
            if self.lock().by_number.is_empty() {
                return;
            }
            released.await;
        }
    }

    /// Returns the number of connections.
    pub(super) fn count(&self) -> usize {
        self.lock().by_number.len()
    }

    /// Begins a stream if streams take fewer than half of the slots, so that requests find a slot too.
    pub(super) fn begin_stream(self: &Arc<Self>, count_max: usize) -> Option<StreamGuard> {
        let streams = (count_max / 2).max(1);
        let begun = self.streams.fetch_update(Relaxed, Relaxed, |count| (count < streams).then_some(count + 1));
        begun.ok().map(|_| StreamGuard(Arc::clone(self)))
    }

    pub(super) fn streams(&self) -> usize {
        self.streams.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, SlotTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotTable {
    fn add(&mut self, slots: &Arc<ConnectionSlots>, source: LoginSource) -> SlotGuard {
        self.last_number += 1;
        *self.by_source.entry(source).or_default() += 1;
        let slot = Arc::new(ConnectionSlot {
            source,
            epoch: slots.epoch,
            phase: AtomicU8::new(ConnectionPhase::Idle as u8),
            since_us: AtomicU64::new(0),
            stalled_us: AtomicU64::new(0),
            signal: AtomicU8::new(0),
            is_evicted: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            refusal: Mutex::default(),
            has_more: AtomicBool::new(false),
            waker: OnceLock::new(),
        });
        slot.enter(ConnectionPhase::Idle);
        self.by_number.insert(self.last_number, Arc::clone(&slot));
        SlotGuard { slots: Arc::clone(slots), number: self.last_number, slot }
    }

    /// Returns the connection to evict, of source `of` if that is given.
    fn victim(&self, epoch: Instant, of: Option<LoginSource>) -> Option<Arc<ConnectionSlot>> {
        let now_us = us_since(epoch);
        self.by_number
            .values()
            .filter(|slot| slot.signal() < CloseSignal::Abort && of.is_none_or(|source| source == slot.source))
            .filter_map(|slot| {
                let source_connections = self.by_source.get(&slot.source).copied().unwrap_or(0);
                Some((slot.eviction_priority(now_us, source_connections)?, slot))
            })
            .min_by_key(|(order, _)| *order)
            .map(|(_, slot)| Arc::clone(slot))
    }
}

/// A slot in use. Dropping the guard releases the slot, also after a panic.
#[derive(Debug)]
pub(super) struct SlotGuard {
    slots: Arc<ConnectionSlots>,
    number: u64,
    pub(super) slot: Arc<ConnectionSlot>,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let mut table = self.slots.lock();
        table.by_number.remove(&self.number);
        if let Some(count) = table.by_source.get_mut(&self.slot.source) {
            *count -= 1;
            if *count == 0 {
                table.by_source.remove(&self.slot.source);
            }
        }
        table.evicting -= usize::from(self.slot.is_evicted.load(Relaxed));
        drop(table);
        self.slots.released.notify_waiters();
    }
}

/// A stream in progress.
#[derive(Debug)]
pub(super) struct StreamGuard(Arc<ConnectionSlots>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn source(number: u8) -> LoginSource {
        LoginSource::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)))
    }

    fn admitted(admission: SlotAdmission) -> SlotGuard {
        match admission {
            SlotAdmission::Admitted(guard) => guard,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the slot of a connection for which another was evicted.
    fn evicted(admission: SlotAdmission) -> SlotGuard {
        match admission {
            SlotAdmission::AdmittedByEviction(guard) => guard,
            other => panic!("{other:?}"),
        }
    }

    async fn pass(ms: u64) {
        tokio::time::advance(Duration::from_millis(ms)).await;
    }

    fn is_aborted(guard: &SlotGuard) -> bool {
        guard.slot.signal() == CloseSignal::Abort
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_evicted_before_stuck_ones_and_working_ones_never() {
        let slots = ConnectionSlots::new();
        let mut all = Vec::new();
        for number in 0..4 {
            all.push(admitted(slots.admit(source(number), 4)));
            pass(10).await;
        }
        all[0].slot.enter(ConnectionPhase::Answering);
        all[1].slot.enter(ConnectionPhase::Head);
        all[3].slot.enter(ConnectionPhase::Idle);
        // The second idle connection became idle later.
        let one = evicted(slots.admit(source(9), 4));
        assert_eq!(all.iter().map(is_aborted).collect::<Vec<_>>(), [false, false, true, false]);
        one.slot.begin_response();
        let two = evicted(slots.admit(source(9), 4));
        assert!(is_aborted(&all[3]));
        two.slot.enter(ConnectionPhase::Answering);
        // A head that has just begun gets its time.
        assert!(matches!(slots.admit(source(9), 4), SlotAdmission::Refused));
        pass(150).await;
        drop(evicted(slots.admit(source(9), 4)));
        assert!(is_aborted(&all[1]) && !is_aborted(&all[0]) && !is_aborted(&one) && !is_aborted(&two));
        // Evicted connections count as closed, and are counted only once.
        drop(all);
        assert_eq!(slots.count(), 2);
        drop((one, two));
        let again: Vec<_> = (0..4).map(|number| admitted(slots.admit(source(number), 4))).collect();
        assert_eq!(again.len(), slots.count());
    }

    #[tokio::test(start_paused = true)]
    async fn one_busy_address_blocks_no_other() {
        let slots = ConnectionSlots::new();
        let work = |number| {
            let guard = admitted(slots.admit(source(number), 100));
            guard.slot.enter(ConnectionPhase::Answering);
            guard
        };
        let busy: Vec<_> = (0..84).map(|_| work(1)).collect();
        assert!(matches!(slots.admit(source(1), 100), SlotAdmission::Refused));
        let probes: Vec<_> = (2..18).map(work).collect();
        assert_eq!(slots.count(), 100);
        assert!(matches!(slots.admit(source(2), 100), SlotAdmission::Refused));
        // Of stuck connections, one of the address with the most is evicted.
        probes[0].slot.enter(ConnectionPhase::Body);
        pass(150).await;
        busy[7].slot.enter(ConnectionPhase::Body);
        pass(150).await;
        drop(evicted(slots.admit(source(3), 100)));
        assert!(is_aborted(&busy[7]) && !is_aborted(&probes[0]));
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_timeout() {
        let slots = ConnectionSlots::new();
        let timeouts = ConnectionTimeouts { idle_us: 5_000_000, output_us: 3_000_000, bounds: PortBounds::default() };
        let phases = [
            ConnectionPhase::Idle,
            ConnectionPhase::Head,
            ConnectionPhase::Body,
            ConnectionPhase::Answering,
            ConnectionPhase::Responding,
            ConnectionPhase::Lingering,
        ];
        let all = phases.map(|phase| {
            let guard = admitted(slots.admit(source(1), 100));
            guard.slot.enter(phase);
            (phase, guard)
        });
        let stalled = admitted(slots.admit(source(1), 100));
        stalled.slot.begin_response();
        stalled.slot.note_stalled();
        let mut missed = Vec::new();
        for second in 1..=100 {
            pass(1000).await;
            slots.sweep(timeouts, |timeout| missed.push((second, timeout)));
        }
        let expected = [
            (3, ConnectionTimeout::Linger),
            (4, ConnectionTimeout::Output),
            (6, ConnectionTimeout::Idle),
            (11, ConnectionTimeout::Head),
            (31, ConnectionTimeout::Body),
            (61, ConnectionTimeout::Answer),
        ];
        assert_eq!(missed, expected);
        for (phase, guard) in &all {
            let expected = match phase {
                ConnectionPhase::Idle => CloseSignal::Drain,
                ConnectionPhase::Responding => CloseSignal::None,
                // It was signalled that it is late, and did not answer.
                _ => CloseSignal::Abort,
            };
            assert_eq!(guard.slot.signal(), expected, "{phase:?}");
        }
        assert_eq!(stalled.slot.signal(), CloseSignal::Abort);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_leave_slots_for_requests_and_no_client_is_admitted_after_the_end() {
        let slots = ConnectionSlots::new();
        let streams: Vec<_> = (0..3).map_while(|_| slots.begin_stream(4)).collect();
        assert_eq!((streams.len(), slots.streams()), (2, 2));
        drop(streams);
        assert_eq!(slots.streams(), 0);
        let guard = admitted(slots.admit(source(1), 4));
        slots.end_all(CloseSignal::Drain);
        assert_eq!(guard.slot.signal(), CloseSignal::Drain);
        assert!(matches!(slots.admit(source(1), 4), SlotAdmission::Refused));
        drop(guard);
        slots.wait_until_empty().await;
    }
}
