//! The places of the HTTP port (`http-max-clients`): their owners, time limits and evictions.
//!
//! If all places are taken, the longest idle connection makes room. If none is idle, it is one that is stuck in a
//! request or reads no response, of the address with the most connections. A new connection is refused only if all
//! others work. The last places are for addresses with few connections, so that one address with many requests does not
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

use super::PortBounds;
use super::head::Fault;
use crate::acl::Source;

/// How long a client may still send what is not read, µs, so that it receives the response.
const LINGER_US_MAX: u64 = 2_000_000;

/// How long a connection that is neither idle nor working may keep its place while others wait, µs. An honest client
/// sends a head or a body at once, or within a round trip.
const GRACE_US: u64 = 100_000;

/// Places that are kept for addresses with fewer than [`FEW`] connections: a quarter, up to this bound.
const RESERVED_MAX: usize = 16;
const FEW: usize = 8;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
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

impl Phase {
    fn of(number: u8) -> Phase {
        match number {
            0 => Phase::Idle,
            1 => Phase::Head,
            2 => Phase::Body,
            3 => Phase::Answering,
            4 => Phase::Responding,
            _ => Phase::Lingering,
        }
    }
}

/// A signal to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Told {
    Nothing = 0,
    /// Answer the request as late, in whatever phase.
    Late = 1,
    /// End after the current response, if any.
    End = 2,
    /// End at once.
    CutOff = 3,
}

/// Why a connection is signalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    HeadLate,
    BodyLate,
    AnswerLate,
    Idle,
    OutputLate,
    Lingers,
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct Place {
    source: Source,
    begun: Instant,
    phase: AtomicU8,
    since_us: AtomicU64,
    /// Since when the client has read nothing of the bytes that wait for it; 0: none wait.
    stalled_us: AtomicU64,
    told: AtomicU8,
    /// Whether it was evicted, and counts as closed.
    is_evicted: AtomicBool,
    /// Whether a head was refused; `refusal` is the reason.
    is_refused: AtomicBool,
    refusal: Mutex<Option<Fault>>,
    /// Whether bytes of the next request are in this process.
    pub(super) has_more: AtomicBool,
    waker: OnceLock<Waker>,
}

impl Place {
    /// Returns the port's time in microseconds, never 0.
    fn now_us(&self) -> u64 {
        us_since(self.begun)
    }

    pub(super) fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Relaxed))
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
        self.since_us.store(self.now_us(), Relaxed);
    }

    /// Enters the response, whose time is limited not by the phase but by the client's reads.
    pub(super) fn begin_response(&self) {
        self.phase.store(Phase::Responding as u8, Relaxed);
    }

    /// Records that the client did not read the bytes that wait for it.
    pub(super) fn note_stalled(&self) {
        if self.stalled_us.load(Relaxed) == 0 {
            self.stalled_us.store(self.now_us(), Relaxed);
        }
    }

    /// Records that the client read something.
    pub(super) fn note_taken(&self) {
        if self.stalled_us.load(Relaxed) != 0 {
            self.stalled_us.store(0, Relaxed);
        }
    }

    pub(super) fn told(&self) -> Told {
        match self.told.load(Relaxed) {
            0 => Told::Nothing,
            1 => Told::Late,
            2 => Told::End,
            _ => Told::CutOff,
        }
    }

    pub(super) fn tell(&self, told: Told) {
        self.told.fetch_max(told as u8, Relaxed);
        self.wake();
    }

    pub(super) fn refuse(&self, fault: Fault) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
        self.is_refused.store(true, Relaxed);
    }

    pub(super) fn refusal(&self) -> Option<Fault> {
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

    /// Returns the signal for the deadline that it has missed at `now_us`, if any.
    fn due(&self, now_us: u64, limits: Limits) -> Option<(Told, Reason)> {
        let is_over = |since_us: u64, us_max: u64| now_us.saturating_sub(since_us) > us_max;
        let bounds = limits.bounds;
        let since_us = self.since_us.load(Relaxed);
        let stalled_us = self.stalled_us.load(Relaxed);
        if stalled_us != 0 && limits.output_us > 0 && is_over(stalled_us, limits.output_us) {
            return Some((Told::CutOff, Reason::OutputLate));
        }
        let (us_max, told, reason) = match self.phase() {
            Phase::Idle => (limits.idle_us, Told::End, Reason::Idle),
            Phase::Head => (us_of(bounds.head), Told::Late, Reason::HeadLate),
            Phase::Body => (us_of(bounds.body), Told::Late, Reason::BodyLate),
            Phase::Answering => (us_of(bounds.answer), Told::Late, Reason::AnswerLate),
            Phase::Lingering => (LINGER_US_MAX, Told::CutOff, Reason::Lingers),
            Phase::Responding => return None,
        };
        is_over(since_us, us_max).then_some((told, reason))
    }

    /// Whether it keeps memory for a response that is not read, or for a body that does not arrive.
    fn is_stuck(&self, now_us: u64, stuck: Duration) -> bool {
        let had_grace = |since_us: u64| now_us.saturating_sub(since_us) >= us_of(stuck);
        match self.stalled_us.load(Relaxed) {
            0 => self.phase() == Phase::Body && had_grace(self.since_us.load(Relaxed)),
            since_us => had_grace(since_us),
        }
    }

    /// Returns its eviction order, the smallest first; `None` if it is not evictable.
    fn ends_before(&self, now_us: u64, of_source: usize) -> Option<(u8, usize, u64)> {
        let since_us = self.since_us.load(Relaxed);
        let stalled_us = self.stalled_us.load(Relaxed);
        let had_grace = |since_us: u64| now_us.saturating_sub(since_us) >= GRACE_US;
        match self.phase() {
            _ if stalled_us != 0 => had_grace(stalled_us).then_some((1, usize::MAX - of_source, stalled_us)),
            Phase::Idle => Some((0, 0, since_us)),
            Phase::Head | Phase::Body | Phase::Lingering => {
                had_grace(since_us).then_some((1, usize::MAX - of_source, since_us))
            }
            Phase::Answering | Phase::Responding => None,
        }
    }
}

/// Time-outs of connections: those of directives, in µs (0: none), and the port's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) idle_us: u64,
    pub(super) output_us: u64,
    pub(super) bounds: PortBounds,
}

fn us_of(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the time since `begun`, µs; never 0, which means no time.
fn us_since(begun: Instant) -> u64 {
    us_of(begun.elapsed()).saturating_add(1)
}

/// The result for a new connection.
#[derive(Debug)]
pub(super) enum Admitted {
    Place(Taken),
    /// A place whose owner was evicted for it.
    Evicted(Taken),
    /// All connections work.
    Refused,
}

#[derive(Debug)]
pub(super) struct Places {
    begun: Instant,
    all: Mutex<All>,
    freed: Notify,
    streams: AtomicUsize,
}

#[derive(Debug, Default)]
struct All {
    by_number: BTreeMap<u64, Arc<Place>>,
    by_source: HashMap<Source, usize>,
    last_number: u64,
    /// Evicted connections that have not closed yet.
    ending: usize,
    has_ended: bool,
}

impl Places {
    pub(super) fn new() -> Arc<Places> {
        let (all, freed, streams) = Default::default();
        Arc::new(Places { begun: Instant::now(), all, freed, streams })
    }

    /// Admits a connection from `source` if there is a free place among `count_max`, or another connection can be
    /// evicted.
    pub(super) fn admit(self: &Arc<Self>, source: Source, count_max: usize) -> Admitted {
        let mut all = self.lock();
        if all.has_ended {
            return Admitted::Refused;
        }
        let count = all.by_number.len().saturating_sub(all.ending);
        let of_source = all.by_source.get(&source).copied().unwrap_or(0);
        let reserved = (count_max / 4).min(RESERVED_MAX);
        let is_full = count >= count_max;
        if !is_full && (count + reserved < count_max || of_source < FEW) {
            return Admitted::Place(all.add(self, source));
        }
        let Some(victim) = all.victim(self.begun, (!is_full).then_some(source)) else { return Admitted::Refused };
        all.ending += 1;
        victim.is_evicted.store(true, Relaxed);
        victim.tell(Told::CutOff);
        Admitted::Evicted(all.add(self, source))
    }

    /// Signals connections that have missed a deadline. The first signal makes them answer; the next sweep closes them.
    /// Runs every [`PortBounds::sweep`].
    pub(super) fn sweep(&self, limits: Limits, mut note: impl FnMut(Reason)) {
        let now_us = us_since(self.begun);
        for place in self.lock().by_number.values() {
            let Some((told, reason)) = place.due(now_us, limits) else { continue };
            if told > place.told() {
                note(reason);
                place.tell(told);
            } else if told == Told::Late && place.told() == Told::Late {
                // It was signalled at the sweep before and has not answered since.
                place.tell(Told::CutOff);
            }
        }
    }

    /// Ends connections that for `stuck` have read nothing of their response, or sent nothing of their request. Other
    /// connections need their memory.
    pub(super) fn end_stuck(&self, stuck: Duration) {
        let now_us = us_since(self.begun);
        self.lock()
            .by_number
            .values()
            .filter(|place| place.is_stuck(now_us, stuck))
            .for_each(|place| place.tell(Told::CutOff));
    }

    /// Signals all connections to end, and admits no new ones.
    pub(super) fn end_all(&self, told: Told) {
        let mut all = self.lock();
        all.has_ended = true;
        all.by_number.values().for_each(|place| place.tell(told));
    }

    /// Waits until there are no connections.
    pub(super) async fn all_gone(&self) {
        loop {
            let freed = self.freed.notified();
            if self.lock().by_number.is_empty() {
                return;
            }
            freed.await;
        }
    }

    /// Returns the number of connections.
    pub(super) fn count(&self) -> usize {
        self.lock().by_number.len()
    }

    /// Begins a stream if streams take fewer than half of the places, so that requests find a place too.
    pub(super) fn begin_stream(self: &Arc<Self>, count_max: usize) -> Option<Stream> {
        let streams = (count_max / 2).max(1);
        let begun = self.streams.fetch_update(Relaxed, Relaxed, |count| (count < streams).then_some(count + 1));
        begun.ok().map(|_| Stream(Arc::clone(self)))
    }

    pub(super) fn streams(&self) -> usize {
        self.streams.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn add(&mut self, places: &Arc<Places>, source: Source) -> Taken {
        self.last_number += 1;
        *self.by_source.entry(source).or_default() += 1;
        let place = Arc::new(Place {
            source,
            begun: places.begun,
            phase: AtomicU8::new(Phase::Idle as u8),
            since_us: AtomicU64::new(0),
            stalled_us: AtomicU64::new(0),
            told: AtomicU8::new(0),
            is_evicted: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            refusal: Mutex::default(),
            has_more: AtomicBool::new(false),
            waker: OnceLock::new(),
        });
        place.enter(Phase::Idle);
        self.by_number.insert(self.last_number, Arc::clone(&place));
        Taken { places: Arc::clone(places), number: self.last_number, place }
    }

    /// Returns the connection to evict, of source `of` if that is given.
    fn victim(&self, begun: Instant, of: Option<Source>) -> Option<Arc<Place>> {
        let now_us = us_since(begun);
        self.by_number
            .values()
            .filter(|place| place.told() < Told::CutOff && of.is_none_or(|source| source == place.source))
            .filter_map(|place| {
                let of_source = self.by_source.get(&place.source).copied().unwrap_or(0);
                Some((place.ends_before(now_us, of_source)?, place))
            })
            .min_by_key(|(order, _)| *order)
            .map(|(_, place)| Arc::clone(place))
    }
}

/// A place that is taken. Dropping it releases the place, also after a panic.
#[derive(Debug)]
pub(super) struct Taken {
    places: Arc<Places>,
    number: u64,
    pub(super) place: Arc<Place>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut all = self.places.lock();
        all.by_number.remove(&self.number);
        if let Some(count) = all.by_source.get_mut(&self.place.source) {
            *count -= 1;
            if *count == 0 {
                all.by_source.remove(&self.place.source);
            }
        }
        all.ending -= usize::from(self.place.is_evicted.load(Relaxed));
        drop(all);
        self.places.freed.notify_waiters();
    }
}

/// A stream in progress.
#[derive(Debug)]
pub(super) struct Stream(Arc<Places>);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn source(number: u8) -> Source {
        Source::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)))
    }

    fn place(admitted: Admitted) -> Taken {
        match admitted {
            Admitted::Place(taken) => taken,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the place of a connection for which another was evicted.
    fn evicted(admitted: Admitted) -> Taken {
        match admitted {
            Admitted::Evicted(taken) => taken,
            other => panic!("{other:?}"),
        }
    }

    async fn pass(ms: u64) {
        tokio::time::advance(Duration::from_millis(ms)).await;
    }

    fn is_cut_off(taken: &Taken) -> bool {
        taken.place.told() == Told::CutOff
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_evicted_before_stuck_ones_and_working_ones_never() {
        let places = Places::new();
        let mut all = Vec::new();
        for number in 0..4 {
            all.push(place(places.admit(source(number), 4)));
            pass(10).await;
        }
        all[0].place.enter(Phase::Answering);
        all[1].place.enter(Phase::Head);
        all[3].place.enter(Phase::Idle);
        // The second idle connection became idle later.
        let one = evicted(places.admit(source(9), 4));
        assert_eq!(all.iter().map(is_cut_off).collect::<Vec<_>>(), [false, false, true, false]);
        one.place.begin_response();
        let two = evicted(places.admit(source(9), 4));
        assert!(is_cut_off(&all[3]));
        two.place.enter(Phase::Answering);
        // A head that has just begun gets its time.
        assert!(matches!(places.admit(source(9), 4), Admitted::Refused));
        pass(150).await;
        drop(evicted(places.admit(source(9), 4)));
        assert!(is_cut_off(&all[1]) && !is_cut_off(&all[0]) && !is_cut_off(&one) && !is_cut_off(&two));
        // Evicted connections count as closed, and are counted only once.
        drop(all);
        assert_eq!(places.count(), 2);
        drop((one, two));
        let again: Vec<_> = (0..4).map(|number| place(places.admit(source(number), 4))).collect();
        assert_eq!(again.len(), places.count());
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_with_much_work_blocks_no_other() {
        let places = Places::new();
        let work = |number| {
            let taken = place(places.admit(source(number), 100));
            taken.place.enter(Phase::Answering);
            taken
        };
        let much: Vec<_> = (0..84).map(|_| work(1)).collect();
        assert!(matches!(places.admit(source(1), 100), Admitted::Refused));
        let probes: Vec<_> = (2..18).map(work).collect();
        assert_eq!(places.count(), 100);
        assert!(matches!(places.admit(source(2), 100), Admitted::Refused));
        // Of stuck connections, one of the address with the most is evicted.
        probes[0].place.enter(Phase::Body);
        pass(150).await;
        much[7].place.enter(Phase::Body);
        pass(150).await;
        drop(evicted(places.admit(source(3), 100)));
        assert!(is_cut_off(&much[7]) && !is_cut_off(&probes[0]));
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_time() {
        let places = Places::new();
        let limits = Limits { idle_us: 5_000_000, output_us: 3_000_000, bounds: PortBounds::default() };
        let phases = [Phase::Idle, Phase::Head, Phase::Body, Phase::Answering, Phase::Responding, Phase::Lingering];
        let all = phases.map(|phase| {
            let taken = place(places.admit(source(1), 100));
            taken.place.enter(phase);
            (phase, taken)
        });
        let stalled = place(places.admit(source(1), 100));
        stalled.place.begin_response();
        stalled.place.note_stalled();
        let mut told = Vec::new();
        for second in 1..=100 {
            pass(1000).await;
            places.sweep(limits, |reason| told.push((second, reason)));
        }
        let expected = [
            (3, Reason::Lingers),
            (4, Reason::OutputLate),
            (6, Reason::Idle),
            (11, Reason::HeadLate),
            (31, Reason::BodyLate),
            (61, Reason::AnswerLate),
        ];
        assert_eq!(told, expected);
        for (phase, taken) in &all {
            let expected = match phase {
                Phase::Idle => Told::End,
                Phase::Responding => Told::Nothing,
                // It was signalled that it is late, and did not answer.
                _ => Told::CutOff,
            };
            assert_eq!(taken.place.told(), expected, "{phase:?}");
        }
        assert_eq!(stalled.place.told(), Told::CutOff);
    }

    #[tokio::test(start_paused = true)]
    async fn streams_leave_places_for_requests_and_no_client_is_admitted_after_the_end() {
        let places = Places::new();
        let streams: Vec<_> = (0..3).map_while(|_| places.begin_stream(4)).collect();
        assert_eq!((streams.len(), places.streams()), (2, 2));
        drop(streams);
        assert_eq!(places.streams(), 0);
        let taken = place(places.admit(source(1), 4));
        places.end_all(Told::End);
        assert_eq!(taken.place.told(), Told::End);
        assert!(matches!(places.admit(source(1), 4), Admitted::Refused));
        drop(taken);
        places.all_gone().await;
    }
}
