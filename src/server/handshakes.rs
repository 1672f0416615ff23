//! TLS handshakes under way: they have a bound of their own and take no place of `maxclients`.
//!
//! A handshake that does not go on must not keep others out, and one that only needs a little more time must not be
//! ended. So when there are as many as there may be, the oldest one of the address that has the most is ended, if its
//! grace period is over: [`GracePeriods::normal`], or [`GracePeriods::in_rush`] while that address has just come, or
//! others from there finish theirs. Until one has ended, the next connection waits, and those behind it wait in the
//! system's queue. A flood from one address costs that address, and thousands of clients that come back at once take
//! turns.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::acl::Source;
use crate::server::tls;

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

/// How often a connection looks for a place while there is none.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Handshakes under way at a time with so many places for clients: an eighth, at least 64 and at most 1024.
pub fn handshakes_max(clients_max: u32) -> u32 {
    (clients_max / 8).clamp(64, 1024)
}

#[derive(Debug, Default)]
pub struct Handshakes {
    under_way: Mutex<UnderWay>,
    /// One has ended, in whatever way.
    freed: Notify,
}

impl Handshakes {
    /// Creates an empty set of handshakes with these grace periods.
    pub fn new(grace_periods: GracePeriods) -> Handshakes {
        Handshakes { under_way: Mutex::new(UnderWay { grace_periods, ..UnderWay::default() }), freed: Notify::new() }
    }

    pub fn count(&self) -> usize {
        self.lock().count
    }

    /// A place for a handshake of a client from `source`, as soon as fewer than `count_max` are under way.
    pub async fn begin(self: &Arc<Self>, source: Source, count_max: usize) -> Place {
        loop {
            let freed = self.freed.notified();
            {
                let mut under_way = self.lock();
                let now = Instant::now();
                match under_way.step(count_max, now) {
                    Step::Begin => {
                        let (number, handshake) = under_way.add(source, now);
                        return Place { all: Arc::clone(self), source, number, handshake };
                    }
                    Step::End(handshake) => under_way.end(&handshake),
                    Step::Wait => {}
                }
            }
            // None may end: then the oldest is given its time.
            let _ = tokio::time::timeout(LOOK_AGAIN, freed).await;
        }
    }

    /// Ends all that are under way.
    pub fn end_all(&self) {
        let under_way = self.lock();
        under_way
            .by_source
            .values()
            .flat_map(|of| of.by_number.values())
            .for_each(|handshake| handshake.end.notify_one());
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that is under way.
#[derive(Debug, Default)]
struct Handshake {
    /// When the server waited for the client for the first time. Bytes that drip in do not change it.
    waits_since: OnceLock<Instant>,
    /// Whether it was told to end for another's sake.
    is_evicted: OnceLock<()>,
    end: Notify,
}

/// Which there are, and which of them goes when there are too many.
#[derive(Debug, Default)]
struct UnderWay {
    grace_periods: GracePeriods,
    by_source: HashMap<Source, OfSource>,
    count: usize,
    /// Those that were told to end and are still there.
    ending: usize,
    last_number: u64,
}

/// Those from one address; there is none of these without a handshake.
#[derive(Debug)]
struct OfSource {
    /// Since when there has been one all the time.
    since: Instant,
    /// The oldest first.
    by_number: BTreeMap<u64, Arc<Handshake>>,
    /// When the last one was done.
    done_at: Option<Instant>,
}

/// What a new connection does.
#[derive(Debug)]
enum Step {
    /// There is a place.
    Begin,
    /// This one is to give its place up.
    End(Arc<Handshake>),
    /// None is free, and none may be ended yet.
    Wait,
}

impl UnderWay {
    fn step(&self, count_max: usize, now: Instant) -> Step {
        if self.count < count_max {
            return Step::Begin;
        }
        // That one's place is enough.
        if self.ending > 0 {
            return Step::Wait;
        }
        let oldest = |of: &OfSource| Reverse(of.by_number.keys().next().copied());
        let Some(most) = self.by_source.values().max_by_key(|of| (of.by_number.len(), oldest(of))) else {
            return Step::Wait;
        };
        let is_within = |since: Instant, span| now.saturating_duration_since(since) < span;
        let GracePeriods { normal, in_rush, rush } = self.grace_periods;
        let is_in_rush = is_within(most.since, in_rush) || most.done_at.is_some_and(|at| is_within(at, rush));
        let grace = if is_in_rush { in_rush } else { normal };
        let had_grace =
            |handshake: &&Arc<Handshake>| handshake.waits_since.get().is_some_and(|since| !is_within(*since, grace));
        match most.by_number.values().find(had_grace) {
            Some(handshake) => Step::End(Arc::clone(handshake)),
            None => Step::Wait,
        }
    }

    fn add(&mut self, source: Source, now: Instant) -> (u64, Arc<Handshake>) {
        self.last_number += 1;
        self.count += 1;
        let handshake = Arc::<Handshake>::default();
        let of = self.by_source.entry(source);
        let of = of.or_insert_with(|| OfSource { since: now, by_number: BTreeMap::new(), done_at: None });
        of.by_number.insert(self.last_number, Arc::clone(&handshake));
        (self.last_number, handshake)
    }

    fn end(&mut self, handshake: &Handshake) {
        if handshake.is_evicted.set(()).is_ok() {
            self.ending += 1;
        }
        handshake.end.notify_one();
    }

    fn note_done(&mut self, source: Source, now: Instant) {
        if let Some(of) = self.by_source.get_mut(&source) {
            of.done_at = Some(now);
        }
    }

    fn remove(&mut self, source: Source, number: u64) {
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

/// A handshake's place; dropping it gives the place back, after a panic too.
#[derive(Debug)]
pub struct Place {
    all: Arc<Handshakes>,
    source: Source,
    number: u64,
    handshake: Arc<Handshake>,
}

#[derive(Debug)]
pub enum Unfinished {
    /// It failed, or took too long.
    Failed(io::Error),
    /// Another was given its place.
    Evicted,
    Stopped,
}

impl Place {
    /// Does the handshake of `stream`.
    ///
    /// # Errors
    ///
    /// [`Unfinished`] says why it did not come to its end.
    pub async fn run(&self, stream: &mut tls::Stream) -> Result<(), Unfinished> {
        let handshake = poll_fn(|cx| {
            let polled = stream.poll_ready(cx);
            if polled.is_pending() {
                self.handshake.waits_since.get_or_init(Instant::now);
            }
            polled
        });
        tokio::select! {
            result = handshake => {
                result.map_err(Unfinished::Failed)?;
                self.all.lock().note_done(self.source, Instant::now());
                Ok(())
            }
            () = self.handshake.end.notified() => match self.handshake.is_evicted.get() {
                Some(()) => Err(Unfinished::Evicted),
                None => Err(Unfinished::Stopped),
            },
        }
    }
}

impl Drop for Place {
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

    fn source(last: u8) -> Source {
        Source::of(std::net::Ipv4Addr::new(192, 0, 2, last).into())
    }

    /// Handshakes from these addresses that the server waits for since `at`, in this order.
    fn under_way(of: &[u8], at: Instant) -> UnderWay {
        let mut all = UnderWay::default();
        for last in of {
            all.add(source(*last), at).1.waits_since.set(at).expect("not set yet");
        }
        all
    }

    fn ended(all: &UnderWay, count_max: usize, now: Instant) -> Option<(Source, u64)> {
        let Step::End(chosen) = all.step(count_max, now) else { return None };
        let number =
            |of: &OfSource| of.by_number.iter().find(|(_, one)| Arc::ptr_eq(one, &chosen)).map(|(number, _)| *number);
        all.by_source.iter().find_map(|(source, of)| Some((*source, number(of)?)))
    }

    #[test]
    fn the_oldest_of_the_address_that_has_the_most_goes_and_only_after_its_time() {
        let begun = Instant::now();
        // They have just come.
        let late = begun + GRACE_IN_RUSH;
        let all = under_way(&[1, 2, 3, 2, 1, 2], begun);
        assert!(matches!(all.step(7, begun), Step::Begin));
        assert!(matches!(all.step(6, late - Duration::from_millis(1)), Step::Wait));
        assert_eq!(ended(&all, 6, late), Some((source(2), 2)));
        // A bound that was lowered.
        assert_eq!(ended(&all, 1, late), Some((source(2), 2)));
        // As many from each: the oldest of all.
        assert_eq!(ended(&under_way(&[3, 1, 2], begun), 3, late), Some((source(3), 1)));
    }

    #[test]
    fn one_that_waits_for_the_server_is_not_ended() {
        let begun = Instant::now();
        let mut all = UnderWay::default();
        let (_, first) = all.add(source(1), begun - GRACE_IN_RUSH);
        let (_, second) = all.add(source(1), begun);
        assert!(matches!(all.step(2, begun + 10 * GRACE), Step::Wait));
        second.waits_since.set(begun).expect("not set yet");
        assert_eq!(ended(&all, 2, begun + GRACE), Some((source(1), 2)));
        first.waits_since.set(begun).expect("not set yet");
        assert_eq!(ended(&all, 2, begun + GRACE), Some((source(1), 1)));
    }

    #[test]
    fn who_comes_in_great_number_and_gets_done_has_more_time() {
        let begun = Instant::now();
        let mut all = under_way(&[1, 1, 2], begun);
        assert_eq!(ended(&all, 3, begun + GRACE), None, "all have just come");
        // As after a while of others from there.
        for of in all.by_source.values_mut() {
            of.since -= GRACE_IN_RUSH;
        }
        all.note_done(source(2), begun + GRACE);
        assert_eq!(ended(&all, 3, begun + GRACE), Some((source(1), 1)), "it was another's");
        all.note_done(source(1), begun + GRACE);
        assert_eq!(ended(&all, 3, begun + GRACE), None);
        assert_eq!(ended(&all, 3, begun + GRACE + RUSH), Some((source(1), 1)), "none more was done");
        all.note_done(source(1), begun + GRACE_IN_RUSH);
        assert_eq!(ended(&all, 3, begun + GRACE_IN_RUSH), Some((source(1), 1)));
    }

    #[test]
    fn one_at_a_time_is_ended_and_its_place_is_given_back() {
        let begun = Instant::now();
        let mut all = under_way(&[1, 1], begun);
        let Step::End(chosen) = all.step(2, begun + GRACE_IN_RUSH) else { panic!("none was ended") };
        all.end(&chosen);
        assert!(matches!(all.step(2, begun + GRACE_IN_RUSH), Step::Wait), "its place is not free yet");
        all.remove(source(1), 1);
        assert_eq!((all.count, all.ending), (1, 0));
        assert!(matches!(all.step(2, begun), Step::Begin));
        all.remove(source(1), 1);
        all.remove(source(1), 2);
        assert_eq!((all.count, all.ending, all.by_source.len()), (0, 0, 0));
    }

    #[test]
    fn an_eighth_of_the_clients_may_be_in_their_handshake() {
        assert_eq!([1, 1000, 10_000, u32::MAX].map(handshakes_max), [64, 125, 1024, 1024]);
    }
}
