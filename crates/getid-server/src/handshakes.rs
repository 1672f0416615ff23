//! Running TLS handshakes, which have a bound of their own and take no place of `maxclients`.
//!
//! A handshake that makes no progress must not keep others out, and one that only needs a little more time must not be
//! ended. So at the maximum number, the oldest one of the address that has the most is ended, if its grace period is
//! over: [`GracePeriods::normal`], or [`GracePeriods::in_rush`] while that address has just come, or others from there
//! finish theirs. Until one has ended, the next connection waits, and later ones wait in the system's queue. A flood
//! from one address costs only that address, and thousands of clients that reconnect at once take turns.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::tls;
use getid_redis::acl::LoginSource;

/// Times for which a handshake keeps its place though other connections wait for one.
#[derive(Clone, Copy, Debug)]
pub struct GracePeriods {
    /// Grace period of a handshake, from the first time that the server waits for the client.
    pub normal: Duration,
    /// Grace period of a handshake from an address in a rush: handshakes from it complete, or its first one began less
    /// than this long ago.
    pub in_rush: Duration,
    /// An address is in a rush for this long after its last completed handshake.
    pub rush: Duration,
}

/// Grace periods of a server. The normal one is longer than two round trips to the other side of the world. In a rush,
/// one program that opens a thousand connections needs 1 ms or more for each, and may begin all before it finishes one.
const GRACE_PERIODS: GracePeriods =
    GracePeriods { normal: Duration::from_secs(1), in_rush: Duration::from_secs(3), rush: Duration::from_secs(1) };

impl Default for GracePeriods {
    fn default() -> GracePeriods {
        GRACE_PERIODS
    }
}

/// Interval at which a waiting connection looks for a place.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Returns the maximum number of running handshakes for so many places for clients: an eighth, at least 64 and at most
/// 1024.
pub fn handshakes_max(clients_max: u32) -> u32 {
    (clients_max / 8).clamp(64, 1024)
}

#[derive(Debug, Default)]
pub struct Handshakes {
    under_way: Mutex<HandshakeTable>,
    /// Notified when a handshake ends.
    freed: Notify,
}

impl Handshakes {
    /// Creates an empty set of handshakes with these grace periods.
    pub fn new(grace_periods: GracePeriods) -> Handshakes {
        Handshakes {
            under_way: Mutex::new(HandshakeTable { grace_periods, ..HandshakeTable::default() }),
            freed: Notify::new(),
        }
    }

    pub fn count(&self) -> usize {
        self.lock().count
    }

    /// Waits for a place for a handshake of a client from `source`, until fewer than `count_max` are running.
    pub async fn begin(self: &Arc<Self>, source: LoginSource, count_max: usize) -> HandshakeSlot {
        loop {
            let freed = self.freed.notified();
            {
                let mut under_way = self.lock();
                let now = Instant::now();
                match under_way.step(count_max, now) {
                    AdmissionStep::Begin => {
                        let (number, handshake) = under_way.add(source, now);
                        return HandshakeSlot { all: Arc::clone(self), source, number, handshake, count_max };
                    }
                    AdmissionStep::End(handshake) => under_way.end(&handshake),
                    AdmissionStep::Wait => {}
                }
            }
            // If none may end, the oldest keeps its grace period.
            let _ = tokio::time::timeout(RETRY_INTERVAL, freed).await;
        }
    }

    /// Ends all running handshakes.
    pub fn end_all(&self) {
        let under_way = self.lock();
        under_way
            .by_source
            .values()
            .flat_map(|of| of.by_number.values())
            .for_each(|handshake| handshake.end.notify_one());
    }

    fn lock(&self) -> MutexGuard<'_, HandshakeTable> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running handshake.
#[derive(Debug, Default)]
struct RunningHandshake {
    /// Time of the server's first wait for the client. Later bytes do not change it.
    waits_since: OnceLock<Instant>,
    /// Whether it was ended to free its place for another one.
    is_evicted: OnceLock<()>,
    end: Notify,
}

/// All running handshakes, and the choice of the one to end at the maximum number.
#[derive(Debug, Default)]
struct HandshakeTable {
    grace_periods: GracePeriods,
    by_source: HashMap<LoginSource, SourceHandshakes>,
    count: usize,
    /// Number of handshakes that were ended and are still there.
    ending: usize,
    last_number: u64,
}

/// Handshakes from one address, at least one.
#[derive(Debug)]
struct SourceHandshakes {
    /// Time since which there has always been one.
    since: Instant,
    /// The handshakes by number, so the oldest first.
    by_number: BTreeMap<u64, Arc<RunningHandshake>>,
    /// Time of the last completed handshake.
    completed_at: Option<Instant>,
}

/// Next step of a new connection.
#[derive(Debug)]
enum AdmissionStep {
    /// There is a place.
    Begin,
    /// This handshake must end.
    End(Arc<RunningHandshake>),
    /// No place is free, and no handshake may be ended yet.
    Wait,
}

impl HandshakeTable {
    fn step(&self, count_max: usize, now: Instant) -> AdmissionStep {
        if self.count < count_max {
            return AdmissionStep::Begin;
        }
        // The place of that one is enough.
        if self.ending > 0 {
            return AdmissionStep::Wait;
        }
        let oldest = |of: &SourceHandshakes| Reverse(of.by_number.keys().next().copied());
        let Some(most) = self.by_source.values().max_by_key(|of| (of.by_number.len(), oldest(of))) else {
            return AdmissionStep::Wait;
        };
        let is_within = |since: Instant, span| now.saturating_duration_since(since) < span;
        let GracePeriods { normal, in_rush, rush } = self.grace_periods;
        let is_in_rush = is_within(most.since, in_rush) || most.completed_at.is_some_and(|at| is_within(at, rush));
        let grace = if is_in_rush { in_rush } else { normal };
        let had_grace = |handshake: &&Arc<RunningHandshake>| {
            handshake.waits_since.get().is_some_and(|since| !is_within(*since, grace))
        };
        match most.by_number.values().find(had_grace) {
            Some(handshake) => AdmissionStep::End(Arc::clone(handshake)),
            None => AdmissionStep::Wait,
        }
    }

    fn add(&mut self, source: LoginSource, now: Instant) -> (u64, Arc<RunningHandshake>) {
        self.last_number += 1;
        self.count += 1;
        let handshake = Arc::<RunningHandshake>::default();
        let of = self.by_source.entry(source);
        let of = of.or_insert_with(|| SourceHandshakes { since: now, by_number: BTreeMap::new(), completed_at: None });
        of.by_number.insert(self.last_number, Arc::clone(&handshake));
        (self.last_number, handshake)
    }

    fn end(&mut self, handshake: &RunningHandshake) {
        if handshake.is_evicted.set(()).is_ok() {
            self.ending += 1;
        }
        handshake.end.notify_one();
    }

    fn record_completed(&mut self, source: LoginSource, now: Instant) {
        if let Some(of) = self.by_source.get_mut(&source) {
            of.completed_at = Some(now);
        }
    }

    fn remove(&mut self, source: LoginSource, number: u64) {
        let Some(of) = self.by_source.get_mut(&source) else { return };
        let Some(handshake) = of.by_number.remove(&number) else { return };
        if of.by_number.is_empty() {
            self.by_source.remove(&source);
        }
        self.count -= 1;
        if handshake.is_evicted.get().is_some() {
            self.ending -= 1;
        }
    }
}

/// A handshake's place; dropping it frees the place, after a panic too.
#[derive(Debug)]
pub struct HandshakeSlot {
    all: Arc<Handshakes>,
    source: LoginSource,
    number: u64,
    handshake: Arc<RunningHandshake>,
    /// Maximum number of running handshakes when this one began.
    pub(crate) count_max: usize,
}

#[derive(Debug)]
pub enum HandshakeFailure {
    /// The handshake failed, or took too long.
    Failed(io::Error),
    /// The place was given to another handshake.
    Evicted,
    Stopped,
}

impl HandshakeSlot {
    /// Runs the handshake of `stream`.
    ///
    /// # Errors
    ///
    /// [`HandshakeFailure`] is the reason why it was not completed.
    pub async fn run(&self, stream: &mut tls::ClientStream) -> Result<(), HandshakeFailure> {
        let handshake = poll_fn(|cx| {
            let polled = stream.poll_ready(cx);
            if polled.is_pending() {
                self.handshake.waits_since.get_or_init(Instant::now);
            }
            polled
        });
        tokio::select! {
            result = handshake => {
                result.map_err(HandshakeFailure::Failed)?;
                self.all.lock().record_completed(self.source, Instant::now());
                Ok(())
            }
            () = self.handshake.end.notified() => match self.handshake.is_evicted.get() {
                Some(()) => Err(HandshakeFailure::Evicted),
                None => Err(HandshakeFailure::Stopped),
            },
        }
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.all.lock().remove(self.source, self.number);
        self.all.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = GRACE_PERIODS.normal;
    const GRACE_IN_RUSH: Duration = GRACE_PERIODS.in_rush;
    const RUSH: Duration = GRACE_PERIODS.rush;

    fn source(last: u8) -> LoginSource {
        LoginSource::of(std::net::Ipv4Addr::new(192, 0, 2, last).into())
    }

    /// Returns handshakes from these addresses, in this order, for which the server has waited since `at`.
    fn under_way(of: &[u8], at: Instant) -> HandshakeTable {
        let mut all = HandshakeTable::default();
        for last in of {
            all.add(source(*last), at).1.waits_since.set(at).expect("not set yet");
        }
        all
    }

    fn ended(all: &HandshakeTable, count_max: usize, now: Instant) -> Option<(LoginSource, u64)> {
        let AdmissionStep::End(chosen) = all.step(count_max, now) else { return None };
        let number = |of: &SourceHandshakes| {
            of.by_number.iter().find(|(_, one)| Arc::ptr_eq(one, &chosen)).map(|(number, _)| *number)
        };
        all.by_source.iter().find_map(|(source, of)| Some((*source, number(of)?)))
    }

    #[test]
    fn the_oldest_of_the_address_with_the_most_ends_after_its_grace_period() {
        let begun = Instant::now();
        // They have just come.
        let late = begun + GRACE_IN_RUSH;
        let all = under_way(&[1, 2, 3, 2, 1, 2], begun);
        assert!(matches!(all.step(7, begun), AdmissionStep::Begin));
        assert!(matches!(all.step(6, late - Duration::from_millis(1)), AdmissionStep::Wait));
        assert_eq!(ended(&all, 6, late), Some((source(2), 2)));
        // With a lowered bound.
        assert_eq!(ended(&all, 1, late), Some((source(2), 2)));
        // With equal numbers from each: the oldest of all.
        assert_eq!(ended(&under_way(&[3, 1, 2], begun), 3, late), Some((source(3), 1)));
    }

    #[test]
    fn a_handshake_that_waits_for_the_server_is_not_ended() {
        let begun = Instant::now();
        let mut all = HandshakeTable::default();
        let (_, first) = all.add(source(1), begun - GRACE_IN_RUSH);
        let (_, second) = all.add(source(1), begun);
        assert!(matches!(all.step(2, begun + 10 * GRACE), AdmissionStep::Wait));
        second.waits_since.set(begun).expect("not set yet");
        assert_eq!(ended(&all, 2, begun + GRACE), Some((source(1), 2)));
        first.waits_since.set(begun).expect("not set yet");
        assert_eq!(ended(&all, 2, begun + GRACE), Some((source(1), 1)));
    }

    #[test]
    fn an_address_with_completed_handshakes_has_a_longer_grace_period() {
        let begun = Instant::now();
        let mut all = under_way(&[1, 1, 2], begun);
        assert_eq!(ended(&all, 3, begun + GRACE), None, "all have just come");
        // As after a while of other handshakes from there.
        for of in all.by_source.values_mut() {
            of.since -= GRACE_IN_RUSH;
        }
        all.record_completed(source(2), begun + GRACE);
        assert_eq!(ended(&all, 3, begun + GRACE), Some((source(1), 1)), "the completed one was from another address");
        all.record_completed(source(1), begun + GRACE);
        assert_eq!(ended(&all, 3, begun + GRACE), None);
        assert_eq!(ended(&all, 3, begun + GRACE + RUSH), Some((source(1), 1)), "no other one completed");
        all.record_completed(source(1), begun + GRACE_IN_RUSH);
        assert_eq!(ended(&all, 3, begun + GRACE_IN_RUSH), Some((source(1), 1)));
    }

    #[test]
    fn handshakes_end_one_at_a_time_and_free_their_slots() {
        let begun = Instant::now();
        let mut all = under_way(&[1, 1], begun);
        let AdmissionStep::End(chosen) = all.step(2, begun + GRACE_IN_RUSH) else { panic!("none was ended") };
        all.end(&chosen);
        assert!(matches!(all.step(2, begun + GRACE_IN_RUSH), AdmissionStep::Wait), "its place is not free yet");
        all.remove(source(1), 1);
        assert_eq!((all.count, all.ending), (1, 0));
        assert!(matches!(all.step(2, begun), AdmissionStep::Begin));
        all.remove(source(1), 1);
        all.remove(source(1), 2);
        assert_eq!((all.count, all.ending, all.by_source.len()), (0, 0, 0));
    }

    #[test]
    fn an_eighth_of_the_clients_may_be_in_their_handshake() {
        assert_eq!([1, 1000, 10_000, u32::MAX].map(handshakes_max), [64, 125, 1024, 1024]);
    }
}
