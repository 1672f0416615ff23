//! The checks: no slot twice, and each ID larger than any whose reply came before its request, whatever happened to the
//! server in between.
//!
//! The judge shares no code with the server. It does not keep IDs: consecutive ones of one connection become one run of
//! slots. Runs are kept for a life of the server, and compared at its end. The next life's IDs must be above all of
//! them, which one number checks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The server-id of every life.
pub(crate) const SERVER_ID: u64 = 1;

/// Bits of the server-id, `id-range`.
pub(crate) const SERVER_BITS: u32 = 2;

/// Bits below the time.
const LOW_BITS: u32 = 21;

/// The place of the counter in an ID. It may change between lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) shard_bits: u32,
}

impl Layout {
    pub(crate) fn random_bits(self) -> u32 {
        LOW_BITS - SERVER_BITS - self.shard_bits
    }

    /// Returns time and counter as one number, or `None` for an ID of another server. Two IDs with one slot differ at
    /// most in their random part; so "no slot twice" is stronger than "no ID twice".
    fn slot(self, id: u64) -> Option<u64> {
        let server_id = id >> (LOW_BITS - SERVER_BITS) & ((1 << SERVER_BITS) - 1);
        let shard = id >> self.random_bits() & ((1 << self.shard_bits) - 1);
        (server_id == SERVER_ID).then_some(id >> LOW_BITS << self.shard_bits | shard)
    }
}

/// Consecutive slots that one connection received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    first: u64,
    last: u64,
}

/// Returns two runs that have a slot in common.
pub(crate) fn overlap(runs: &mut [Run]) -> Option<(Run, Run)> {
    runs.sort_unstable();
    runs.array_windows().find(|[one, next]| next.first <= one.last).map(|&[one, next]| (one, next))
}

/// State shared by all connections of the soak.
#[derive(Default)]
pub(crate) struct Judge {
    /// The largest ID whose reply has come.
    highest: AtomicU64,
    pub(crate) ids: AtomicU64,
    /// Number of runs of this life.
    pub(crate) runs: AtomicU64,
    /// The life is over: clients stop.
    pub(crate) over: AtomicBool,
    refusals: Mutex<BTreeMap<String, u64>>,
    violation: Mutex<Option<String>>,
}

impl Judge {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) fn ids(&self) -> u64 {
        self.ids.load(Ordering::Relaxed)
    }

    /// Reports a violation. Only the first is kept, because later ones may follow from it.
    pub(crate) fn report(&self, violation: impl FnOnce() -> String) {
        self.violation.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(violation);
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.violation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts an error reply by its first word.
    pub(crate) fn refused(&self, reply: &str) {
        let word = reply.split_whitespace().next().unwrap_or_default().to_owned();
        *self.refusals.lock().unwrap_or_else(PoisonError::into_inner).entry(word).or_default() += 1;
    }

    pub(crate) fn refusals(&self) -> BTreeMap<String, u64> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The IDs of one connection in one life.
pub(crate) struct Witness<'a> {
    judge: &'a Judge,
    layout: Layout,
    /// Every later ID must be larger.
    floor: u64,
    ids: u64,
    runs: Vec<Run>,
    runs_reported: usize,
}

impl<'a> Witness<'a> {
    pub(crate) fn new(judge: &'a Judge, layout: Layout) -> Witness<'a> {
        Witness { judge, layout, floor: 0, ids: 0, runs: Vec::new(), runs_reported: 0 }
    }

    /// Called before requests are sent: their IDs must be larger than any whose reply has come, on any connection.
    pub(crate) fn begin_requests(&mut self) {
        self.floor = self.floor.max(self.judge.highest.load(Ordering::SeqCst));
    }

    pub(crate) fn receive_id(&mut self, id: u64) {
        if id <= self.floor {
            self.judge.report(|| format!("ID {id} is not larger than the earlier ID {}", self.floor));
        }
        let Some(slot) = self.layout.slot(id) else {
            self.judge.report(|| format!("ID {id} has another server-id than {SERVER_ID}"));
            return;
        };
        self.floor = id;
        self.ids += 1;
        match self.runs.last_mut() {
            Some(run) if run.last + 1 == slot => run.last = slot,
            _ => self.runs.push(Run { first: slot, last: slot }),
        }
    }

    /// Called when the replies to all requests have come.
    pub(crate) fn end_requests(&mut self) {
        self.judge.highest.fetch_max(self.floor, Ordering::SeqCst);
        self.judge.ids.fetch_add(std::mem::take(&mut self.ids), Ordering::Relaxed);
        self.judge.runs.fetch_add((self.runs.len() - self.runs_reported) as u64, Ordering::Relaxed);
        self.runs_reported = self.runs.len();
    }

    pub(crate) fn refused(&self, reply: &str) {
        self.judge.refused(reply);
    }

    pub(crate) fn into_runs(mut self) -> Vec<Run> {
        self.end_requests();
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { shard_bits: 9 };

    fn id(tick: u64, shard: u64, random: u64) -> u64 {
        tick << 21 | SERVER_ID << 19 | shard << 10 | random
    }

    /// Returns the runs of connections that received these IDs, one after the other.
    fn runs(judge: &Judge, connections: &[&[u64]]) -> Vec<Run> {
        let witness = |ids: &&[u64]| {
            let mut witness = Witness::new(judge, LAYOUT);
            ids.iter().for_each(|&id| witness.receive_id(id));
            witness.into_runs()
        };
        connections.iter().flat_map(witness).collect()
    }

    #[test]
    fn neighbours_are_one_run() {
        let judge = Judge::default();
        let mut found = runs(&judge, &[&[id(5, 510, 3), id(5, 511, 9), id(6, 0, 1), id(6, 2, 0)], &[id(6, 1, 7)]]);
        assert_eq!(found.len(), 3);
        assert_eq!(overlap(&mut found), None);
        assert_eq!((judge.violation(), judge.ids()), (None, 5));
    }

    #[test]
    fn a_slot_on_two_connections_is_found() {
        for random in [3, 4] {
            let judge = Judge::default();
            let mut found = runs(&judge, &[&[id(5, 0, 3), id(5, 1, 3), id(5, 2, 3)], &[id(5, 1, random)]]);
            assert!(overlap(&mut found).is_some(), "{random}");
        }
    }

    #[test]
    fn a_repeat_and_a_step_back_on_one_connection_are_found() {
        for next in [id(5, 1, 3), id(5, 0, 900), id(4, 511, 0)] {
            let judge = Judge::default();
            runs(&judge, &[&[id(5, 1, 3), next]]);
            assert!(judge.violation().is_some_and(|found| found.contains(&next.to_string())), "{next}");
        }
    }

    #[test]
    fn an_id_below_another_connections_reply_is_found() {
        let judge = Judge::default();
        runs(&judge, &[&[id(5, 1, 3)]]);
        let mut before = Witness::new(&judge, LAYOUT);
        before.receive_id(id(5, 0, 3));
        assert_eq!(judge.violation(), None, "its request came before");
        let mut after = Witness::new(&judge, LAYOUT);
        after.begin_requests();
        after.receive_id(id(5, 0, 4));
        assert!(judge.violation().is_some());
    }

    #[test]
    fn another_servers_id_is_found() {
        let judge = Judge::default();
        runs(&judge, &[&[id(5, 1, 3) ^ 1 << 19]]);
        assert!(judge.violation().is_some_and(|found| found.contains("another server-id")));
    }
}
