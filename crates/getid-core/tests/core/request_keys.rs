//! Request keys in a world with two servers, one store, and clocks apart: crashes, lost replies, races and removals. A
//! request has one reply while it is kept, and no ID belongs to two requests.

use std::collections::HashMap;
use std::fmt::Write as _;

use getid_core::server::checks::{Fault, plant};
use getid_core::server::request_key::{
    ClaimVerdict, Fingerprint, RequestReply, RequestRow, RequestScope, is_request, judge_claim, removable_before,
};

use crate::random::Random;

const HOUR_MS: i64 = 3_600_000;
const START_MS: i64 = 1_800_000_000_000;
const ROWS_MAX: u64 = 12;

/// Largest distance of a clock from the true time.
const APART_MS: u64 = 11 * 3_600_000;

/// A request of a client, under way on a server.
struct Operation {
    server: usize,
    scope: RequestScope,
    fingerprint: Fingerprint,
    for_ms: i64,
    /// The drawn row, once the lookup has found none.
    drawn: Option<RequestRow>,
}

/// First committed reply of a request, and the true time until which it is promised.
struct Promise {
    fingerprint: Fingerprint,
    reply: String,
    until_ms: i64,
}

struct World {
    random: Random,
    true_ms: i64,
    /// Distances of the clocks of both servers and of the store from the true time.
    apart_ms: [i64; 3],
    rows: HashMap<RequestScope, RequestRow>,
    operations: Vec<Operation>,
    next_id: u64,
    promises: HashMap<RequestScope, Promise>,
    owners: HashMap<String, RequestScope>,
    answered: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            random: Random(seed),
            true_ms: START_MS,
            apart_ms: [0; 3],
            rows: HashMap::new(),
            operations: Vec::new(),
            next_id: 1,
            promises: HashMap::new(),
            owners: HashMap::new(),
            answered: 0,
        };
        (0..3).for_each(|clock| world.set_clock(clock));
        world
    }

    fn set_clock(&mut self, clock: usize) {
        let apart_ms = self.random.within(0, 2 * APART_MS).cast_signed();
        self.apart_ms[clock] = apart_ms - APART_MS.cast_signed();
    }

    fn clock_ms(&self, clock: usize) -> i64 {
        self.true_ms + self.apart_ms[clock]
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.below(20) {
            0..=5 => self.begin(),
            6..=14 if !self.operations.is_empty() => {
                let at = self.random.index(self.operations.len());
                let operation = self.operations.swap_remove(at);
                return self.advance(operation);
            }
            // A client that leaves, or a server that crashes: nothing was answered.
            15 if !self.operations.is_empty() => {
                let at = self.random.index(self.operations.len());
                self.operations.swap_remove(at);
            }
            16 => {
                let clock = self.random.index(3);
                self.set_clock(clock);
            }
            17 => self.true_ms += self.random.within(1, 8).cast_signed() * HOUR_MS,
            18 => {
                let server = self.random.index(2);
                self.remove(server);
            }
            _ => self.true_ms += self.random.within(0, 500).cast_signed(),
        }
        Ok(())
    }

    fn begin(&mut self) {
        let (user, name) = (self.random.pick(&["shop", "desk"]), self.random.pick(&["orders", "-"]));
        let request = format!("r{}", self.random.below(4));
        let count = if self.random.one_in(6) { 2 } else { 1 };
        self.operations.push(Operation {
            server: self.random.index(2),
            scope: RequestScope::new(user, name, &request),
            fingerprint: Fingerprint::new(count, "", &[("shard", 5)]),
            for_ms: self.random.within(1, 30).cast_signed() * HOUR_MS,
            drawn: None,
        });
    }

    /// Does the lookup and the draw of an operation, or its claim.
    fn advance(&mut self, mut operation: Operation) -> Result<(), String> {
        let Some(drawn) = &operation.drawn else {
            if let Some(row) = self.rows.get(&operation.scope) {
                let verdict = row.answer(&operation.fingerprint);
                return self.judge(&operation, &verdict);
            }
            let made_unix_ms = self.clock_ms(operation.server);
            operation.drawn = Some(RequestRow {
                scope: operation.scope.clone(),
                fingerprint: operation.fingerprint.clone(),
                reply: RequestReply::Integers(vec![self.next_id]).to_column(),
                made_unix_ms,
                until_unix_ms: made_unix_ms + operation.for_ms,
            });
            self.next_id += 1;
            self.operations.push(operation);
            return Ok(());
        };
        let rows = self.rows.keys().filter(|scope| scope.name() == operation.scope.name()).count() as u64;
        let found = self.rows.get(&operation.scope);
        let verdict = judge_claim(found, drawn, rows, ROWS_MAX, self.clock_ms(2));
        if let ClaimVerdict::Made { row } = &verdict
            && found.is_none()
        {
            let until_ms = self.true_ms + operation.for_ms;
            let promise = Promise { fingerprint: row.fingerprint.clone(), reply: row.reply.clone(), until_ms };
            if let Some(before) = self.promises.insert(operation.scope.clone(), promise)
                && self.true_ms < before.until_ms
            {
                return Err(format!("{:?} was removed too early", operation.scope));
            }
            self.rows.insert(row.scope.clone(), row.clone());
        }
        // The reply of the store may be lost after its commit.
        if self.random.one_in(4) { Ok(()) } else { self.judge(&operation, &verdict) }
    }

    /// Checks an answer to a client.
    fn judge(&mut self, operation: &Operation, verdict: &ClaimVerdict) -> Result<(), String> {
        let promise = self.promises.get(&operation.scope);
        let reply = match verdict {
            ClaimVerdict::Made { row } => &row.reply,
            ClaimVerdict::Found { reply } => reply,
            ClaimVerdict::TooMany { .. } => return Ok(()),
            ClaimVerdict::OtherArguments => {
                let is_other = promise.is_some_and(|promise| promise.fingerprint != operation.fingerprint);
                return if is_other { Ok(()) } else { Err("the same arguments were refused".to_owned()) };
            }
        };
        self.answered += 1;
        let promise = promise.ok_or("an answer without a committed row")?;
        if promise.fingerprint != operation.fingerprint {
            return Err(format!("{:?} with other arguments was answered", operation.scope));
        }
        if promise.reply != *reply {
            return Err(format!("{:?} has two replies", operation.scope));
        }
        let owner = self.owners.entry(reply.clone()).or_insert_with(|| operation.scope.clone());
        if *owner == operation.scope { Ok(()) } else { Err(format!("{reply} belongs to two requests")) }
    }

    /// Removes ended requests, as a server does by its own clock.
    fn remove(&mut self, server: usize) {
        let before = removable_before(self.clock_ms(server), self.clock_ms(2));
        self.rows.retain(|_, row| row.until_unix_ms >= before);
    }
}

/// Plays a world, and returns the number of its answers, or what was broken.
fn play(seed: u64) -> Result<usize, String> {
    let mut world = World::new(seed);
    for step in 0..2_000 {
        world.step().map_err(|broken| format!("seed {seed}, step {step}: {broken}"))?;
    }
    Ok(world.answered)
}

#[test]
fn a_request_has_one_reply_in_every_world() {
    let answered: usize = (0..100).map(|seed| play(seed).unwrap()).sum();
    assert!(answered > 10_000, "only {answered} answers");
}

#[test]
fn each_planted_fault_is_found() {
    for fault in Fault::OF_REQUESTS {
        let _planted = plant(*fault);
        let found = (0..100).find_map(|seed| play(seed).err());
        println!("{fault:?}: {}", found.as_deref().unwrap_or("not found"));
        assert!(found.is_some(), "{fault:?} is not found");
    }
}

#[test]
fn a_full_generator_refuses_new_requests_only() {
    let row = |request: &str, ids: u64| RequestRow {
        scope: RequestScope::new("shop", "orders", request),
        fingerprint: Fingerprint::new(1, "", &[]),
        reply: RequestReply::Integers(vec![ids]).to_column(),
        made_unix_ms: 1_000,
        until_unix_ms: 61_000,
    };
    let (first, second) = (row("a", 1), row("a", 2));
    assert_eq!(judge_claim(None, &first, 5, 5, 1_000), ClaimVerdict::TooMany { max: 5 });
    assert_eq!(judge_claim(Some(&first), &second, 5, 5, 1_000), ClaimVerdict::Found { reply: first.reply.clone() });
    // The row ends by the clock that is ahead.
    for (store_unix_ms, until_unix_ms) in [(1_000, 61_000), (9_000, 69_000), (-4_000, 61_000)] {
        let ClaimVerdict::Made { row } = judge_claim(None, &first, 4, 5, store_unix_ms) else { panic!("not made") };
        assert_eq!((row.made_unix_ms, row.until_unix_ms), (store_unix_ms, until_unix_ms));
    }
}

#[test]
fn a_request_is_a_short_text_without_control_characters() {
    let mut long = "r".repeat(128);
    for request in ["a", "checkout 77", "\u{1f600}", "-", &long] {
        assert!(is_request(request), "{request:?}");
    }
    let _ = long.write_char('r');
    for request in ["", "a\n", "\u{7f}", "\u{85}", "\0", &long] {
        assert!(!is_request(request), "{request:?}");
    }
}
