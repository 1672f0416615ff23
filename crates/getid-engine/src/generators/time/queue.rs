//! The queue of draws that wait for IDs: deficit round robin, and admission by the expected wait. Pure.
//!
//! With first come, first served by whole turns, a request for one ID would wait for 8,192 of each greedy neighbour. So
//! IDs are given in slices, which go in turn to three kinds of draws: see [`FairQueue`].
//!
//! Invariants: `queued` is the sum of the IDs that the waiting draws miss, each of which misses at least one; `small`
//! and `by_turn` contain each of them once, together. With at most one draw of more than a slice that found the queue
//! empty, `queued` is at most twice the layout's capacity in `id-max-wait-ms`, plus one draw.

use std::collections::{BTreeMap, BTreeSet};

use getid_core::server::checks::{Fault, planted};

/// Number of slices in a millisecond of the layout's capacity. A slice is at least one ID: with a hundred connections
/// in the queue, a request for one ID waits about 6 ms, whatever the layout.
const SLICES_PER_MS: u64 = 16;

/// Maximum number of IDs of a small draw, unless a slice is smaller.
const SMALL_MAX: u32 = 8;

/// Order of the slices, if each kind has a draw.
const ORDER: [DrawKind; 4] = [DrawKind::Small, DrawKind::Round, DrawKind::Small, DrawKind::Eldest];

/// Kind of the draw that gets a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrawKind {
    /// The oldest of the small draws.
    Small,
    /// The next draw in the round.
    Round,
    /// The draw of the others that has waited longest, if that is too long.
    Eldest,
}

/// Number of a draw in the queue; a later one is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Waiting draws, each with a `T` of the caller's. Slices of IDs go in turn to three kinds of draws:
///
/// - **Small draws**, of at most 8 IDs, get every second slice, the oldest first. So a request for one ID waits for
///   other small ones only, however many greedy clients there are.
/// - **The rounds** of all others: each gets one slice a round, and goes to the end of the round. A connection waits
///   with one draw at a time, so rounds over draws are rounds over connections.
/// - **The eldest of the others**, once it has waited for `id-max-wait-ms`, gets every second slice that small draws
///   leave. Later draws get slices too, so a large draw may wait longer than was foreseen. No draw starves.
///
/// If one kind has no draw, the others get its slices. Two rules bound the queue:
///
/// - **Admission.** A draw that would wait longer than `id-max-wait-ms`, by the queued IDs and the layout's rate, is
///   not admitted. A draw of one slice counts at most one slice of each other draw before it. A small draw counts at
///   most twice the IDs that small draws miss. Small draws are admitted while that is little, or a few greedy clients
///   could exclude everyone else. A draw that finds the queue empty is always admitted, or it could never be served.
/// - **Leaving.** A draw that is given up leaves at once, and its IDs no longer count.
#[derive(Debug)]
pub struct FairQueue<T> {
    ids_per_s: u64,
    /// Maximum number of IDs of a draw before the next has its turn.
    slice: u32,
    /// The setting `id-max-wait-ms`.
    max_wait_ms: u64,
    by_arrival: BTreeMap<Ticket, DrawWaiter<T>>,
    /// Each draw that is not small, by its place in the rounds.
    by_turn: BTreeMap<u64, Ticket>,
    /// Draws that are not small, by their arrival.
    others: BTreeSet<Ticket>,
    /// Small draws by their arrival.
    small: BTreeSet<Ticket>,
    arrivals: u64,
    turns: u64,
    queued: u64,
    /// Number of IDs that small draws miss.
    small_queued: u64,
    /// Current place in [`ORDER`], and rest of its slice.
    at: usize,
    slice_left: u32,
}

#[derive(Debug)]
struct DrawWaiter<T> {
    missing: u32,
    /// Whether the draw has some IDs already.
    begun: bool,
    is_small: bool,
    /// Rest of its slice of this round, at least 1.
    slice_left: u32,
    turn: u64,
    since_ns: u64,
    payload: T,
}

/// The turn of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawTurn {
    /// The draw.
    pub ticket: Ticket,
    /// Number of IDs it may have now, at least 1.
    pub ids: u32,
    /// Number of IDs it misses in all.
    pub missing: u32,
    /// Whether the draw has some IDs already.
    pub begun: bool,
}

/// Error of a draw that is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawNotAdmitted {
    /// Expected wait of the draw, ms.
    pub wait_ms: u64,
    /// The setting `id-max-wait-ms`.
    pub max_wait_ms: u64,
}

impl<T> FairQueue<T> {
    /// Makes an empty queue for a generator with this capacity per second without borrowing.
    pub fn new(ids_per_s: u64, max_wait_ms: u64) -> FairQueue<T> {
        let slice = u32::try_from(ids_per_s / 1000 / SLICES_PER_MS).unwrap_or(u32::MAX).max(1);
        FairQueue {
            ids_per_s: ids_per_s.max(1),
            slice,
            max_wait_ms,
            by_arrival: BTreeMap::new(),
            by_turn: BTreeMap::new(),
            others: BTreeSet::new(),
            small: BTreeSet::new(),
            arrivals: 0,
            turns: 0,
            queued: 0,
            small_queued: 0,
            at: 0,
            slice_left: slice,
        }
    }

    /// Returns true if no draw waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queued == 0
    }

    /// Returns the number of waiting draws.
    pub fn len(&self) -> usize {
        self.by_arrival.len()
    }

    /// Returns the number of IDs they miss in all.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// Returns the time that the generator takes for so many IDs, ms, rounded up.
    pub(crate) fn ms_for(&self, ids: u64) -> u64 {
        let ms = (u128::from(ids) * 1000).div_ceil(u128::from(self.ids_per_s));
        u64::try_from(ms).unwrap_or(u64::MAX)
    }

    /// Changes `id-max-wait-ms`: for later draws, and for the age at which waiting ones go first.
    pub fn set_max_wait_ms(&mut self, max_wait_ms: u64) {
        self.max_wait_ms = max_wait_ms;
    }

    /// Checks whether a draw of `n` may wait. `late_ms` is the time until the first free slot.
    ///
    /// # Errors
    ///
    /// [`DrawNotAdmitted`] if it would wait longer than `id-max-wait-ms`.
    pub fn admit(&self, n: u32, late_ms: u64) -> Result<(), DrawNotAdmitted> {
        let before = if self.is_small(n) {
            self.queued.min(self.small_queued.saturating_mul(2).saturating_add(u64::from(self.slice)))
        } else if n <= self.slice {
            self.queued.min(u64::from(self.slice).saturating_mul(self.len() as u64))
        } else {
            self.queued
        };
        let itself = if self.is_empty() { 0 } else { u64::from(n) };
        let wait_ms = late_ms.saturating_add(self.ms_for(before + itself));
        if planted(Fault::LetsEverybodyWait) {
            return Ok(());
        }
        if wait_ms <= self.max_wait_ms {
            Ok(())
        } else {
            Err(DrawNotAdmitted { wait_ms, max_wait_ms: self.max_wait_ms })
        }
    }

    fn is_small(&self, n: u32) -> bool {
        n <= SMALL_MAX.min(self.slice) && !planted(Fault::ServesWholeDraws)
    }

    /// Adds a draw that misses `n` IDs, at least 1, at the end of the round. `begun`: it has some already.
    pub fn join(&mut self, now_ns: u64, n: u32, begun: bool, payload: T) -> Ticket {
        assert!(n > 0, "a draw of no ids does not wait");
        let ticket = Ticket(self.arrivals);
        let turn = self.turns;
        self.arrivals += 1;
        let is_small = self.is_small(n);
        if is_small {
            self.small.insert(ticket);
            self.small_queued += u64::from(n);
        } else {
            self.turns += 1;
            self.by_turn.insert(turn, ticket);
            self.others.insert(ticket);
        }
        let slice_left = if planted(Fault::ServesWholeDraws) { n } else { self.slice };
        let waiter = DrawWaiter { missing: n, begun, is_small, slice_left, turn, since_ns: now_ns, payload };
        self.by_arrival.insert(ticket, waiter);
        self.queued += u64::from(n);
        ticket
    }

    /// Removes a draw that is given up or refused; `None` if it is no longer in the queue.
    pub fn leave(&mut self, ticket: Ticket) -> Option<T> {
        let waiter = self.by_arrival.remove(&ticket)?;
        if waiter.is_small {
            self.small.remove(&ticket);
            self.small_queued -= u64::from(waiter.missing);
        } else {
            self.by_turn.remove(&waiter.turn);
            self.others.remove(&ticket);
        }
        self.queued -= u64::from(waiter.missing);
        Some(waiter.payload)
    }

    /// Returns the turn at `now_ns`, which lasts until [`FairQueue::give`].
    pub fn turn(&mut self, now_ns: u64) -> Option<DrawTurn> {
        for next in 0..ORDER.len() {
            let at = (self.at + next) % ORDER.len();
            let Some(ticket) = self.next_of(ORDER[at], now_ns) else { continue };
            if next > 0 {
                (self.at, self.slice_left) = (at, self.slice);
            }
            let waiter = self.by_arrival.get(&ticket)?;
            let left = match ORDER[at] {
                DrawKind::Round => waiter.slice_left.min(self.slice_left),
                DrawKind::Small | DrawKind::Eldest => self.slice_left,
            };
            let left = if planted(Fault::ServesWholeDraws) { waiter.slice_left } else { left };
            let DrawWaiter { missing, begun, .. } = *waiter;
            return Some(DrawTurn { ticket, ids: missing.min(left), missing, begun });
        }
        None
    }

    fn next_of(&self, kind: DrawKind, now_ns: u64) -> Option<Ticket> {
        match kind {
            DrawKind::Small => self.small.first().copied(),
            DrawKind::Round => self.by_turn.first_key_value().map(|(_, ticket)| *ticket),
            DrawKind::Eldest => {
                let eldest = *self.others.first()?;
                let waited_ms = now_ns.saturating_sub(self.by_arrival.get(&eldest)?.since_ns) / 1_000_000;
                (waited_ms >= self.max_wait_ms && !planted(Fault::NoDrawIsEldest)).then_some(eldest)
            }
        }
    }

    /// Notes that a draw got `n` IDs, at least 1 and at most the number it misses. Returns its payload, and whether it
    /// has all: then it has left the queue.
    pub fn give(&mut self, ticket: Ticket, n: u32) -> Option<DrawProgress<'_, T>> {
        let missing = self.by_arrival.get(&ticket)?.missing;
        assert!((1..=missing).contains(&n), "{n} ids for a draw that misses {missing}");
        let kind = ORDER[self.at];
        self.slice_left = self.slice_left.saturating_sub(n);
        if self.slice_left == 0 {
            (self.at, self.slice_left) = ((self.at + 1) % ORDER.len(), self.slice);
        }
        if n == missing {
            return self.leave(ticket).map(DrawProgress::All);
        }
        self.queued -= u64::from(n);
        let waiter = self.by_arrival.get_mut(&ticket)?;
        waiter.missing -= n;
        waiter.begun = true;
        if waiter.is_small {
            self.small_queued -= u64::from(n);
            return Some(DrawProgress::Some(&waiter.payload));
        }
        if kind == DrawKind::Round {
            waiter.slice_left = waiter.slice_left.saturating_sub(n);
        }
        if waiter.slice_left == 0 {
            // Its slice is used up: the others first.
            self.by_turn.remove(&waiter.turn);
            waiter.turn = self.turns;
            waiter.slice_left = self.slice;
            self.turns += 1;
            self.by_turn.insert(waiter.turn, ticket);
        }
        Some(DrawProgress::Some(&waiter.payload))
    }

    /// Returns the draw that has waited longest, the number of IDs it misses, and the start of its wait.
    pub(crate) fn eldest(&self) -> Option<(Ticket, u32, u64)> {
        self.by_arrival.first_key_value().map(|(&ticket, waiter)| (ticket, waiter.missing, waiter.since_ns))
    }
}

/// State of a draw after [`FairQueue::give`].
#[derive(Debug)]
pub enum DrawProgress<'a, T> {
    /// The draw has all its IDs, and has left the queue.
    All(T),
    /// The draw has some of its IDs, and waits for more.
    Some(&'a T),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    /// Serves `n` IDs in the order of turns. Returns the draws and their IDs, piece by piece.
    fn serve(queue: &mut FairQueue<u32>, now_ns: u64, mut n: u32) -> Vec<(u32, u32)> {
        let mut served: Vec<(u32, u32)> = Vec::new();
        while let Some(turn) = queue.turn(now_ns).filter(|_| n > 0) {
            let ids = turn.ids.min(n);
            n -= ids;
            let who = match queue.give(turn.ticket, ids).expect("in the queue") {
                DrawProgress::All(who) | DrawProgress::Some(&who) => who,
            };
            match served.last_mut() {
                Some((last, got)) if *last == who => *got += ids,
                _ => served.push((who, ids)),
            }
        }
        served
    }

    #[test]
    fn rounds_of_slices_and_a_single_id_waits_for_one_slice() {
        let mut queue = FairQueue::new(64_000, 5000);
        assert_eq!(queue.slice, 4);
        for who in 0..3 {
            queue.join(0, 10, false, who);
        }
        // A slice that was cut continues where it was cut.
        assert_eq!(serve(&mut queue, 0, 6), [(0, 4), (1, 2)]);
        queue.join(0, 1, false, 9);
        assert_eq!(serve(&mut queue, 0, 100), [(1, 2), (9, 1), (2, 4), (0, 4), (1, 4), (2, 4), (0, 2), (1, 2), (2, 2)]);
        assert!(queue.is_empty() && queue.turn(0).is_none());
    }

    /// However many greedy draws there are, and however late: small ones get every second slice, the oldest first.
    #[test]
    fn small_draws_have_a_share_of_their_own() {
        for waited_ms in [0, 60_000] {
            let mut queue = FairQueue::new(512_000, 5000);
            for who in 0..700 {
                queue.join(0, 8_000, false, who);
            }
            let now_ns = waited_ms * MS;
            serve(&mut queue, now_ns, 100_000);
            for who in 1000..1040 {
                queue.join(now_ns, 1, false, who);
            }
            let served = serve(&mut queue, now_ns, 3 * 32);
            let small: Vec<u32> = served.iter().map(|(who, _)| *who).filter(|who| *who >= 1000).collect();
            assert!(small.len() >= 32, "{waited_ms}: {served:?}");
            assert!(small.is_sorted(), "the oldest first: {small:?}");
        }
    }

    #[test]
    fn a_draw_that_has_waited_too_long_gets_every_second_slice() {
        let mut queue = FairQueue::new(64_000, 1000);
        queue.join(0, 50, false, 0);
        queue.join(600 * MS, 50, false, 1);
        queue.join(600 * MS, 50, false, 2);
        assert_eq!(serve(&mut queue, 999 * MS, 12), [(0, 4), (1, 4), (2, 4)]);
        let served = serve(&mut queue, 1000 * MS, 48);
        let of = |who: u32| served.iter().filter(|(got, _)| *got == who).map(|(_, ids)| ids).sum::<u32>();
        // Half as the eldest, and a third of the rest as the others.
        assert_eq!((of(0), of(1), of(2)), (32, 8, 8), "{served:?}");
        // It leaves, and the next is not old enough.
        while queue.eldest().is_some_and(|(_, _, since_ns)| since_ns == 0) {
            serve(&mut queue, 1000 * MS, 1);
        }
        let left = queue.slice_left;
        serve(&mut queue, 1000 * MS, left);
        let served = serve(&mut queue, 1599 * MS, 16);
        assert_eq!(served.iter().map(|(_, ids)| *ids).collect::<Vec<_>>(), [4; 4], "{served:?}");
    }

    /// A draw that has some IDs is never refused for the rest, so the queue has to remember it.
    #[test]
    fn a_draw_that_got_some_has_begun() {
        let mut queue = FairQueue::new(16_000, 1000);
        let begun = |queue: &mut FairQueue<u32>| queue.turn(0).map(|turn| (turn.begun, turn.missing));
        let first = queue.join(5, 3, false, 0);
        assert_eq!(begun(&mut queue), Some((false, 3)));
        assert!(matches!(queue.give(first, 1), Some(DrawProgress::Some(0))));
        assert_eq!(begun(&mut queue), Some((true, 2)));
        // It had some of its IDs before it joined.
        let second = queue.join(6, 2, true, 1);
        assert_eq!(queue.eldest(), Some((first, 2, 5)));
        assert_eq!(queue.leave(first), Some(0));
        assert_eq!(begun(&mut queue), Some((true, 2)));
        assert_eq!(queue.eldest(), Some((second, 2, 6)));
        assert_eq!(queue.leave(second), Some(1));
        assert_eq!(queue.eldest(), None);
    }

    #[test]
    fn admission_is_what_is_queued_by_the_layouts_rate() {
        // 512 IDs a ms; 1000 ms hold 512,000.
        let mut queue = FairQueue::new(512_000, 1000);
        // The queue is empty, so any draw is admitted.
        assert_eq!(queue.admit(u32::MAX, 0), Ok(()));
        assert_eq!(queue.admit(1, 1001), Err(DrawNotAdmitted { wait_ms: 1001, max_wait_ms: 1000 }));
        for who in 0..51 {
            assert_eq!(queue.admit(10_000, 0), Ok(()));
            queue.join(0, 10_000, false, who);
        }
        assert_eq!(queue.queued(), 510_000);
        assert_eq!(queue.admit(2_000, 0), Ok(()));
        assert_eq!(queue.admit(2_001, 0), Err(DrawNotAdmitted { wait_ms: 1001, max_wait_ms: 1000 }));
        assert_eq!(queue.admit(2_000, 1), Err(DrawNotAdmitted { wait_ms: 1001, max_wait_ms: 1000 }));
        let last = queue.join(0, 2_000, false, 51);
        // A draw of a slice waits for 52 others of 32, whatever else is queued: 4 ms. A small one does not.
        assert_eq!(queue.admit(32, 996), Ok(()));
        assert_eq!(queue.admit(32, 997), Err(DrawNotAdmitted { wait_ms: 1001, max_wait_ms: 1000 }));
        assert_eq!(queue.admit(8, 999), Ok(()));
        assert_eq!(queue.admit(1, 1000), Err(DrawNotAdmitted { wait_ms: 1001, max_wait_ms: 1000 }));
        assert!(queue.admit(33, 0).is_err());
        assert_eq!(queue.leave(last), Some(51));
        assert_eq!(queue.leave(last), None);
        assert_eq!(queue.admit(33, 0), Ok(()));
        queue.set_max_wait_ms(0);
        assert!(queue.admit(33, 0).is_err());
    }

    #[derive(Clone, Debug)]
    enum QueueStep {
        Ask { n: u32 },
        Leave { which: usize },
        Serve { n: u32 },
        Pass { ms: u64 },
    }

    fn steps() -> impl Strategy<Value = Vec<QueueStep>> {
        let step = prop_oneof![
            3 => prop_oneof![1..3_u32, 1..200_u32].prop_map(|n| QueueStep::Ask { n }),
            1 => any::<usize>().prop_map(|which| QueueStep::Leave { which }),
            3 => (1..60_u32).prop_map(|n| QueueStep::Serve { n }),
            2 => (0..40_u64).prop_map(|ms| QueueStep::Pass { ms }),
        ];
        prop::collection::vec(step, 1..120)
    }

    /// A draw as the test sees it.
    #[derive(Clone, Debug)]
    struct ObservedDraw {
        ticket: Ticket,
        missing: u32,
        is_small: bool,
        since_ns: u64,
        /// IDs that each other draw got since it came, or since its own last slice.
        passed: BTreeMap<u32, u32>,
        /// IDs that draws other than small ones got while this small one was the oldest.
        kept_waiting: u32,
    }

    proptest! {
        /// In any sequence of joins, leaves and services: nothing is lost or given twice; small draws are served in
        /// their order and wait for no more than a slice of the others; no other draw gets two slices while another
        /// waits for its first, except the eldest once it is overdue; and the queue is bounded.
        #[test]
        fn nothing_is_lost_and_no_draw_is_passed_over(shard_bits in 0..8_u32, steps in steps()) {
            let max_wait_ms = 50;
            let per_ms = 1 << shard_bits;
            let mut queue = FairQueue::new(1000 * per_ms, max_wait_ms);
            let slice = queue.slice;
            let mut seen: BTreeMap<u32, ObservedDraw> = BTreeMap::new();
            let mut now_ns = 0;
            for (who, step) in (0_u32..).zip(steps) {
                match step {
                    QueueStep::Ask { n } => {
                        let is_small = n <= SMALL_MAX.min(slice);
                        if queue.admit(n, 0).is_ok() {
                            let ticket = queue.join(now_ns, n, false, who);
                            let (since_ns, passed) = (now_ns, BTreeMap::new());
                            let draw = ObservedDraw { ticket, missing: n, is_small, since_ns, passed, kept_waiting: 0 };
                            seen.insert(who, draw);
                        } else {
                            prop_assert!(!queue.is_empty(), "a draw that finds the queue empty is admitted");
                            let of_small: u64 =
                                seen.values().filter(|seen| seen.is_small).map(|seen| u64::from(seen.missing)).sum();
                            let before = match n {
                                _ if is_small => 2 * of_small + u64::from(slice),
                                n if n <= slice => seen.len() as u64 * u64::from(slice),
                                _ => u64::MAX,
                            };
                            prop_assert!(queue.queued().min(before) + u64::from(n) > max_wait_ms * per_ms);
                        }
                    }
                    QueueStep::Leave { which } => {
                        if let Some(&who) = seen.keys().nth(which % seen.len().max(1)) {
                            let gone = seen.remove(&who).expect("there");
                            prop_assert_eq!(queue.leave(gone.ticket), Some(who));
                        }
                    }
                    QueueStep::Serve { n: mut left } => {
                        while let Some(turn) = queue.turn(now_ns).filter(|_| left > 0) {
                            let (&who, served) = seen.iter().find(|(_, seen)| seen.ticket == turn.ticket).expect("it waits");
                            prop_assert!(turn.ids <= slice);
                            let ids = turn.ids.min(left);
                            left -= ids;
                            let oldest_small = seen.iter().find(|(_, seen)| seen.is_small).map(|(who, _)| *who);
                            let eldest = seen.iter().find(|(_, seen)| !seen.is_small).map(|(who, _)| *who);
                            let is_overdue = eldest.is_some_and(|eldest| now_ns - seen[&eldest].since_ns >= max_wait_ms * MS);
                            if served.is_small {
                                prop_assert_eq!(Some(who), oldest_small);
                            } else if let Some(oldest) = oldest_small {
                                let oldest = seen.get_mut(&oldest).expect("there");
                                oldest.kept_waiting += ids;
                                prop_assert!(oldest.kept_waiting <= slice, "a small draw waits for two slices");
                            }
                            let served = &seen[&who];
                            let is_eldest = is_overdue && Some(who) == eldest;
                            if !served.is_small && !is_eldest {
                                for (_, other) in seen.iter_mut().filter(|(other, seen)| **other != who && !seen.is_small) {
                                    let passed = other.passed.entry(who).or_default();
                                    *passed += ids;
                                    prop_assert!(*passed <= slice, "two slices before another's turn");
                                }
                            }
                            let missing = seen[&who].missing - ids;
                            match queue.give(turn.ticket, ids).expect("in the queue") {
                                DrawProgress::All(payload) => {
                                    prop_assert_eq!((payload, missing), (who, 0));
                                    seen.remove(&who);
                                    for other in seen.values_mut() {
                                        other.passed.remove(&who);
                                    }
                                }
                                DrawProgress::Some(&payload) => {
                                    prop_assert_eq!(payload, who);
                                    let served = seen.get_mut(&who).expect("there");
                                    served.missing = missing;
                                    served.passed.clear();
                                    prop_assert!(missing > 0);
                                }
                            }
                            if let Some(oldest) = oldest_small.filter(|oldest| *oldest == who) {
                                seen.get_mut(&oldest).into_iter().for_each(|oldest| oldest.kept_waiting = 0);
                                if let Some(next) = seen.values_mut().find(|seen| seen.is_small) {
                                    next.kept_waiting = 0;
                                }
                            }
                        }
                    }
                    QueueStep::Pass { ms } => now_ns += ms * MS,
                }
                let queued: u64 = seen.values().map(|seen| u64::from(seen.missing)).sum();
                prop_assert_eq!((queue.queued(), queue.len()), (queued, seen.len()));
                prop_assert_eq!(queue.is_empty(), seen.is_empty());
                prop_assert!(queued <= 2 * max_wait_ms * per_ms + 200 + u64::from(slice));
            }
            while let Some(turn) = queue.turn(now_ns) {
                prop_assert!(queue.give(turn.ticket, turn.ids).is_some());
            }
            prop_assert!(queue.is_empty());
        }
    }
}
