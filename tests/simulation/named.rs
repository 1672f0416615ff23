//! Named generators of a story: their declarations, and the IDs that were seen.
//!
//! They are judged by their slots: two IDs of one slot could be equal, in any layout.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use getid_core::{Declaration, NamedGenerator, Reservation, no_dates};

use crate::random::Random;

/// Units of 100 ns, 1 ms, 10 ms and a second, with and without a random start, and epochs before the server's and after
/// it. All have room for every server-id, and end after the server does.
const POOL: [(&str, i64); 8] = [
    ("ticks layout time:59@100ns server-id:21", -12_219_292_800_000),
    ("one layout time:43@1ms counter:1 server-id:21", 1_700_000_000_000),
    ("chance layout time:43@1ms counter:5 server-id:21 counter-start 0..2", 1_735_689_600_000),
    ("ten layout time:40@10ms counter:4 server-id:21", 1_409_529_600_123),
    ("ten-by-chance layout time:40@10ms counter:4 server-id:21 counter-start 0..4", 0),
    ("second layout time:36@1s counter:7 server-id:21", 0),
    ("odd layout time:36@1234567800ns counter:2 server-id:21", 1_463_673_600_000),
    ("v7 uuid7", 0),
];

/// The generators of a story, with their present declarations.
pub(crate) struct Pool {
    rng: Random,
    epochs_unix_ms: Vec<i64>,
    /// Whether the story has any.
    is_used: bool,
}

impl Pool {
    pub(crate) fn new(seed: u64) -> Pool {
        // A separate random generator: so the rest of a seed's story stays the same.
        let mut rng = Random(!seed);
        let is_used = !rng.one_in(4);
        Pool { is_used, epochs_unix_ms: POOL.iter().map(|&(_, epoch_unix_ms)| epoch_unix_ms).collect(), rng }
    }

    /// Returns the generators in a server's present configuration.
    pub(crate) fn choose(&mut self) -> Vec<Arc<Declaration>> {
        if !self.is_used {
            return Vec::new();
        }
        self.change();
        let likely = self.rng.within(1, 4);
        let mut chosen = Vec::new();
        for (&(words, _), epoch_unix_ms) in POOL.iter().zip(&self.epochs_unix_ms) {
            if self.rng.one_in(likely) {
                // Unchanged, or with a harmless change, which may be changed back.
                let words = if self.rng.one_in(3) { words.replace("0..", "0..1") } else { words.to_owned() };
                chosen.push(declared(&words, *epoch_unix_ms));
            }
        }
        chosen
    }

    /// Sometimes moves an epoch back, which is harmless.
    fn change(&mut self) {
        if self.rng.one_in(6) {
            let changed = self.rng.index(POOL.len() - 1);
            self.epochs_unix_ms[changed] -= self.rng.pick(&[1, 999, 3500, 86_400_000]);
        }
    }

    /// Returns a forbidden declaration of one of `configured`: with a later epoch.
    pub(crate) fn later(&mut self, configured: &[Arc<Declaration>]) -> Option<Arc<Declaration>> {
        let (words, _) = POOL[self.rng.index(POOL.len() - 1)];
        let known = configured.iter().find(|known| words.starts_with(&format!("{} ", known.name())))?;
        Some(declared(words, known.layout().epoch_unix_ms() + 1))
    }

    pub(crate) fn rng(&mut self) -> &mut Random {
        &mut self.rng
    }

    /// Returns true once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.is_used && self.rng.one_in(n)
    }
}

fn declared(words: &str, epoch_unix_ms: i64) -> Arc<Declaration> {
    let epoch = format!(" epoch {epoch_unix_ms}");
    let epoch = if words.ends_with("uuid7") { "" } else { &epoch };
    let words = format!("{words}{epoch}");
    Arc::new(Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).expect("a declaration"))
}

/// IDs that were seen of each generator, by name.
#[derive(Default)]
pub(crate) struct Series(BTreeMap<String, SeriesView>);

#[derive(Default)]
struct SeriesView {
    /// The slot after the last one in any reply.
    end: u64,
    given: Vec<GivenNamed>,
}

/// One reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GivenNamed {
    first: u64,
    end: u64,
    /// Beginning of its last unit, ns since 1970.
    begin_ns: i128,
}

/// The slots after the last ones in replies of one server.
#[derive(Clone, Default)]
pub(crate) struct ReplyEnds(Arc<Mutex<BTreeMap<String, u64>>>);

impl ReplyEnds {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn of(&self, name: &str) -> u64 {
        self.lock().get(name).copied().unwrap_or(0)
    }
}

impl Series {
    /// Sets the ends of a server that knows all earlier IDs.
    pub(crate) fn store_ends(&self, ends: &ReplyEnds) {
        *ends.lock() = self.0.iter().map(|(name, seen)| (name.clone(), seen.end)).collect();
    }

    /// Checks the reply to a request. `asked` is the end of its server's replies at the time of the request.
    pub(crate) fn reply(
        &mut self,
        generator: &NamedGenerator,
        (asked, ends): (u64, &ReplyEnds),
        drawn: &[Reservation],
        ceiling_unix_ms: i64,
    ) -> Result<(), String> {
        let declaration = generator.declaration();
        let (name, layout) = (declaration.name(), declaration.layout());
        let seen = self.0.entry(name.to_owned()).or_default();
        let mut last = asked;
        for reservation in drawn {
            let (first, end) = (reservation.first.0, reservation.first.0 + u64::from(reservation.len));
            if first < last {
                return Err(format!("promise 2: slot {first} of {name} came after {last}"));
            }
            let begin_ns = layout.unix_ns((end - 1) >> layout.counter_bits());
            if begin_ns >= i128::from(ceiling_unix_ms) * 1_000_000 {
                return Err(format!("{name}: a unit that begins at {begin_ns} ns, not before {ceiling_unix_ms} ms"));
            }
            last = end;
            seen.given.push(GivenNamed { first, end, begin_ns });
        }
        seen.end = seen.end.max(last);
        let mut ends = ends.lock();
        let known = ends.entry(name.to_owned()).or_default();
        *known = last.max(*known);
        Ok(())
    }

    /// Returns the first ms after the beginning of every unit given, Unix time.
    pub(crate) fn end_unix_ms(&self) -> Option<i64> {
        let begins_ns = self.0.values().flat_map(|seen| &seen.given).map(|given| given.begin_ns);
        begins_ns.max().map(|ns| i64::try_from(ns.div_euclid(1_000_000)).expect("a time") + 1)
    }

    /// Allows units from `unix_ms` on to repeat. Returns whether there were any.
    pub(crate) fn forget_from(&mut self, unix_ms: i64) -> bool {
        let from_ns = i128::from(unix_ms) * 1_000_000;
        let mut any = false;
        for seen in self.0.values_mut() {
            let before = seen.given.len();
            seen.given.retain(|given| given.begin_ns < from_ns);
            if seen.given.len() < before {
                any = true;
                seen.end = seen.given.iter().map(|given| given.end).max().unwrap_or(0);
            }
        }
        any
    }

    /// Checks that no slot was used twice.
    pub(crate) fn verdict(&mut self) -> Result<(), String> {
        for (name, seen) in &mut self.0 {
            seen.given.sort_unstable();
            for pair in seen.given.windows(2) {
                if pair[1].first < pair[0].end {
                    return Err(format!("promise 1: {:?} and {:?} of {name} overlap", pair[0], pair[1]));
                }
            }
        }
        Ok(())
    }
}
