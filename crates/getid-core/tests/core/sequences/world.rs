//! Lives of servers that share a sequence: events in the order of simulated time.

use std::collections::{BTreeMap, VecDeque};

use getid_core::server::{RESERVED_MAX, SequencePolicy, SequenceRequest, Spec, VALUE_MAX, WaitPolicy};

use super::PlantedMistake;
use super::oracle::Oracle;
use super::server::{Call, DEADLINE_MS, Job, Purpose, Server, WAIT_MS};
use super::store::{CallerAnswer, Fate, Row, State, Statement, Store, StoreHealth, StoreReply};
use crate::random::Random;

/// How long an answer about other servers' changes is valid, ms.
pub(super) const CONFIRM_MS: u64 = 5000;

/// Longest time of a world before all faults end, ms.
const LIFE_MS: u64 = 30_000;

#[derive(Clone, Debug)]
pub(super) enum Event {
    Execute {
        store: usize,
        statement: Statement,
        token: u64,
        answer: Option<u64>,
    },
    Answer {
        token: u64,
        reply: StoreReply,
    },
    Error {
        token: u64,
        is_unknown: bool,
    },
    Request {
        server: usize,
    },
    WaitOver {
        server: usize,
        life: u32,
        arrival: u64,
    },
    GivesUp {
        server: usize,
        life: u32,
        arrival: u64,
    },
    Pump {
        server: usize,
        life: u32,
    },
    Poll {
        server: usize,
        life: u32,
    },
    HealthChange {
        store: usize,
    },
    /// A server loses its connection to the stores, or gets it back.
    Cut {
        server: usize,
    },
    /// The only row is deleted.
    Lose,
    Life {
        server: usize,
    },
    Operator,
    GoBack,
}

pub(super) struct World {
    pub(super) rng: Random,
    pub(super) now_ms: u64,
    pub(super) stores: Vec<Store>,
    pub(super) servers: Vec<Server>,
    pub(super) oracle: Oracle,
    pub(super) policy: SequencePolicy,
    pub(super) wrong: Option<PlantedMistake>,
    /// Whether the store is shared, and not the file of a single server.
    pub(super) is_shared: bool,
    /// Whether the stores always answer soon.
    pub(super) is_healthy: bool,
    pub(super) has_operator: bool,
    /// Whether stores lose committed writes.
    pub(super) goes_back: bool,
    /// Whether the row of a server's own file is deleted.
    loses_row: bool,
    pub(super) refusals: u64,
    pub(super) fetches: u64,
    end_ms: u64,
    /// Largest number of values of a request, as a power of two.
    request_bits: u32,
    pace_ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    calls: BTreeMap<u64, Call>,
    tokens: u64,
}

/// Result of a world.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorldTotals {
    pub(super) values: u64,
    pub(super) served: u64,
    pub(super) refusals: u64,
}

impl World {
    pub(super) fn new(seed: u64, wrong: Option<PlantedMistake>) -> World {
        let mut rng = Random(seed);
        let stores = rng.pick(&[1, 1, 1, 2, 3]);
        let goes_back = rng.one_in(4);
        let servers = if goes_back { 1 } else { rng.pick(&[1, 1, 2, 3]) };
        let is_shared = goes_back || servers > 1 || stores > 1 || rng.one_in(2);
        let loses_row = !is_shared && rng.one_in(4);
        let is_strict = stores == 1 && rng.one_in(3);
        let cache = if is_strict { 0 } else { rng.pick(&[1, 10, 100, 100, 5000]) };
        let increment = stores * rng.pick(&[1, 1, 3]);
        let max = if rng.one_in(6) { rng.within(100, 10_000).cast_signed() } else { VALUE_MAX };
        let start = rng.pick(&[0, 1, 1, 1000]);
        let spec = Spec { start, increment, cache, max: max.max(start + 10), ..Spec::default() };
        let waits = rng.pick(&[WaitPolicy::Wait, WaitPolicy::Wait, WaitPolicy::Error]);
        let stores: Vec<Store> = (1..=stores)
            .map(|n| {
                Store::new(Spec { offset: if wrong == Some(PlantedMistake::SameOffsets) { 1 } else { n }, ..spec })
            })
            .collect();
        let end_ms = rng.within(5000, LIFE_MS);
        World {
            now_ms: 1_000_000,
            servers: (0..servers).map(|_| Server::default()).collect(),
            oracle: Oracle::new(servers, is_strict),
            policy: SequencePolicy { ride_out_ms: rng.pick(&[1000, 10_000]), waits },
            wrong,
            is_shared,
            is_healthy: !goes_back && !loses_row && rng.one_in(4),
            has_operator: !loses_row && rng.one_in(2),
            goes_back,
            loses_row,
            refusals: 0,
            fetches: 0,
            end_ms: 1_000_000 + end_ms,
            request_bits: rng.pick(&[0, 4, 10, 18]),
            pace_ms: rng.pick(&[20, 100, 400]),
            events: BTreeMap::new(),
            calls: BTreeMap::new(),
            tokens: 0,
            stores,
            rng,
        }
    }

    /// Returns true if the planted mistake can do harm here; most of them can in any world.
    pub(super) fn suits(&self) -> bool {
        let is_crowd = self.servers.len() > 1 && self.stores.len() == 1;
        match self.wrong {
            Some(PlantedMistake::GivesUnconfirmed) => {
                is_crowd && self.has_operator && !self.is_healthy && !self.oracle.is_strict
            }
            Some(PlantedMistake::NotesAreLoweredTooLittle | PlantedMistake::NotesWhatOthersHave) => {
                is_crowd && !self.has_operator && self.is_healthy && !self.oracle.is_strict
            }
            _ => true,
        }
    }

    /// Plays the world to its end, and checks that it serves then.
    pub(super) fn play(mut self) -> WorldTotals {
        for index in 0..self.servers.len() {
            self.start(index);
            self.later(50, Event::Request { server: index });
            let first_ms = self.rng.within(500, 8000);
            self.later(first_ms, Event::Life { server: index });
            self.later(first_ms / 2, Event::Cut { server: index });
        }
        for store in 0..self.stores.len() {
            self.later(0, Event::HealthChange { store });
        }
        if self.has_operator {
            self.later(500, Event::Operator);
        }
        if self.loses_row {
            let after_ms = self.rng.within(0, LIFE_MS);
            self.later(after_ms, Event::Lose);
        }
        if self.goes_back {
            self.later(300, Event::GoBack);
        }
        self.run_until(self.end_ms);
        self.get_well();
        WorldTotals { values: self.oracle.values, served: self.oracle.served, refusals: self.refusals }
    }

    /// Ends all faults: the world serves again.
    fn get_well(&mut self) {
        self.stores.iter_mut().for_each(|store| store.health = StoreHealth::Healthy(5));
        self.servers.iter_mut().for_each(|server| server.is_cut = false);
        for index in 0..self.servers.len() {
            if !self.servers[index].is_up && !self.servers[index].is_stopping {
                self.start(index);
            }
        }
        for _ in 0..20 {
            self.run_until(self.now_ms + 2000);
            self.mend();
            self.run_until(self.now_ms + 1500);
            if (0..self.servers.len()).filter(|&index| self.serves(index)).count() == self.servers.len() {
                return;
            }
            for index in 0..self.servers.len() {
                if !self.servers[index].is_up {
                    self.start(index);
                }
            }
        }
        let rows: Vec<_> = self.stores.iter().map(|store| &store.row).collect();
        panic!("it does not serve again: {:?}, {rows:?}", self.servers);
    }

    fn serves(&mut self, index: usize) -> bool {
        if !self.servers[index].is_up || self.servers[index].is_stopping {
            return false;
        }
        let before = self.oracle.served;
        let arrival = self.ask(index, vec![SequenceRequest { values: 1, times: 1 }], WAIT_MS);
        self.run_until(self.now_ms + WAIT_MS + 1);
        assert!(!self.is_waiting(index, arrival), "it waits for ever");
        self.oracle.served > before
    }

    /// Does what an operator does in the end: all rows have the same options, from the highest on, and give values.
    fn mend(&mut self) {
        let rows = self.stores.iter().filter_map(|store| store.row.as_ref());
        let is_well = |row: &Row| row.state == State::Live && row.spec.max == VALUE_MAX && row.ends_ms == 0;
        if rows.clone().filter(|row| is_well(row)).count() == self.stores.len() && self.agree() {
            return;
        }
        let next_from = rows.clone().map(|row| row.next).max().unwrap_or(0);
        // The operator who creates a lost row again starts above all values that any server may have in memory.
        let start = if self.loses_row { self.oracle.highest_replied() + 2 * i64::from(RESERVED_MAX) } else { 0 };
        let known = rows.map(|row| row.spec).next().unwrap_or_default();
        let increment = 7 * u32::try_from(self.stores.len()).expect("few");
        for (store, offset) in self.stores.iter_mut().zip(1..) {
            let spec = Spec { increment, offset, max: VALUE_MAX, ..known };
            store.execute(&Statement::Create { spec: Spec { start, ..spec } }, None);
            store.execute(&Statement::Alter { spec, next_from }, None);
            store.execute(&Statement::Confirm, None);
            store.execute(&Statement::Expire { ends_ms: 0 }, None);
        }
    }

    /// Returns true if all rows have the same increment.
    fn agree(&self) -> bool {
        let increments = self.stores.iter().map(|store| store.row.as_ref().map(|row| row.spec.increment));
        increments.clone().zip(increments.skip(1)).all(|(a, b)| a == b)
    }

    fn run_until(&mut self, until_ms: u64) {
        while self.events.first_key_value().is_some_and(|((at_ms, _), _)| *at_ms <= until_ms) {
            let Some(((at_ms, _), event)) = self.events.pop_first() else { return };
            self.now_ms = at_ms;
            self.happen(event);
        }
        self.now_ms = until_ms;
    }

    pub(super) fn token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    pub(super) fn later(&mut self, after_ms: u64, event: Event) {
        let token = self.token();
        self.events.insert((self.now_ms + after_ms, token), event);
    }

    pub(super) fn send(&mut self, server: usize, store: usize, statement: Statement, purpose: Purpose) -> u64 {
        let token = self.token();
        let life = self.servers[server].life;
        self.calls.insert(token, Call { server, life, store, purpose, sent_ms: self.now_ms });
        let Fate { done_ms, outcome } = if self.servers[server].is_cut {
            Fate { done_ms: None, outcome: CallerAnswer::Nothing }
        } else {
            self.stores[store].fate(self.now_ms, &mut self.rng)
        };
        let answer = if let CallerAnswer::Answer(after_ms) = outcome { Some(after_ms) } else { None };
        if let Some(done_ms) = done_ms {
            self.later(done_ms - self.now_ms, Event::Execute { store, statement, token, answer });
        }
        if let CallerAnswer::Error { is_unknown, at_ms } = outcome {
            self.later(at_ms - self.now_ms, Event::Error { token, is_unknown });
        }
        self.later(DEADLINE_MS, Event::Error { token, is_unknown: true });
        token
    }

    fn is_alive(&self, server: usize, life: u32) -> bool {
        self.servers[server].is_up && self.servers[server].life == life
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Execute { store, statement, token, answer } => self.execute(store, &statement, token, answer),
            Event::Answer { token, reply } => {
                if let Some(call) = self.calls.remove(&token)
                    && self.is_alive(call.server, call.life)
                {
                    self.answered(token, call, reply);
                }
            }
            Event::Error { token, is_unknown } => {
                if let Some(call) = self.calls.remove(&token)
                    && self.is_alive(call.server, call.life)
                {
                    self.failed(token, call, is_unknown);
                }
            }
            Event::Request { server } => self.client_asks(server),
            Event::WaitOver { server, life, arrival } if self.is_alive(server, life) => {
                self.wait_is_over(server, arrival, false);
            }
            Event::GivesUp { server, life, arrival } if self.is_alive(server, life) => {
                self.wait_is_over(server, arrival, true);
            }
            Event::Pump { server, life } if self.is_alive(server, life) => self.pump(server),
            Event::Poll { server, life } if self.is_alive(server, life) => self.poll(server),
            Event::HealthChange { store } if self.now_ms < self.end_ms => self.change_health(store),
            Event::Cut { server } if self.now_ms < self.end_ms => {
                self.servers[server].is_cut = !self.is_healthy && self.rng.one_in(4);
                let after_ms = self.rng.within(100, 9000);
                self.later(after_ms, Event::Cut { server });
            }
            Event::Lose if self.now_ms < self.end_ms => self.stores[0].row = None,
            Event::Life { server } if self.now_ms < self.end_ms => self.change_life(server),
            Event::Operator if self.now_ms < self.end_ms => self.operate(),
            Event::GoBack if self.now_ms < self.end_ms => {
                let store = self.rng.index(self.stores.len());
                if self.rng.one_in(3) {
                    self.stores[store].go_back(&mut self.rng);
                } else {
                    self.stores[store].back_up();
                }
                let after_ms = self.rng.within(50, 2000);
                self.later(after_ms, Event::GoBack);
            }
            _ => {}
        }
    }

    fn execute(&mut self, store: usize, statement: &Statement, token: u64, answer: Option<u64>) {
        let version = |world: &World| world.stores[store].row.as_ref().map(|row| row.version);
        let before = version(self);
        self.stores[store].now_ms = self.now_ms;
        let reply = self.stores[store].execute(statement, self.wrong);
        // Unless a later fetch has overtaken it.
        if let Some(Call { purpose: Purpose::GiveBack { fetches }, .. }) = self.calls.get(&token)
            && *fetches == self.fetches
            && self.is_healthy
            && self.servers.len() == 1
            && !self.has_operator
        {
            assert_ne!(before, version(self), "a clean stop leaves a gap: the row was not as this server had left it");
        }
        if let Some(after_ms) = answer {
            self.later(after_ms, Event::Answer { token, reply });
        }
    }

    fn client_asks(&mut self, server: usize) {
        if self.now_ms >= self.end_ms {
            return;
        }
        let after_ms = self.rng.skewed(6) * self.pace_ms / 20;
        self.later(after_ms.max(1), Event::Request { server });
        if !self.servers[server].is_up || self.servers[server].is_stopping {
            return;
        }
        let asks = self.invent_asks();
        let arrival = self.ask(server, asks, WAIT_MS);
        if self.rng.one_in(20) && self.is_waiting(server, arrival) {
            let (life, after_ms) = (self.servers[server].life, self.rng.within(0, 300));
            self.later(after_ms, Event::GivesUp { server, life, arrival });
        }
    }

    fn invent_asks(&mut self) -> Vec<SequenceRequest> {
        let rng = &mut self.rng;
        if rng.one_in(2) {
            return vec![SequenceRequest { values: 1, times: 1 }];
        }
        let commands = rng.pick(&[1, 1, 1, 2, 4]);
        let mut small = |bits: u32| u32::try_from(rng.skewed(bits)).expect("small");
        let one = |_| {
            let values = if small(2) == 1 { small(self.request_bits) } else { 1 };
            SequenceRequest { values, times: small(if values > 64 { 2 } else { 7 }) }
        };
        (0..commands).map(one).collect()
    }

    fn change_health(&mut self, store: usize) {
        let well = StoreHealth::Healthy(self.rng.pick(&[0, 5, 30]));
        self.stores[store].health = match self.rng.below(8) {
            _ if self.is_healthy => well,
            0 => StoreHealth::Slow,
            1 => StoreHealth::Dead,
            2 => StoreHealth::LosesReplies,
            3 => StoreHealth::Refuses,
            _ => well,
        };
        let after_ms = self.rng.within(50, 7000);
        self.later(after_ms, Event::HealthChange { store });
    }

    fn change_life(&mut self, index: usize) {
        let server = &self.servers[index];
        if !server.is_up {
            self.start(index);
        } else if !server.is_stopping {
            match self.rng.below(4) {
                0 => self.kill(index),
                1 => self.stop(index),
                _ => self.evict(index),
            }
        }
        let after_ms = self.rng.pick(&[1, 300, 3000, 10_000]);
        let after_ms = self.rng.within(0, after_ms);
        self.later(after_ms, Event::Life { server: index });
    }

    fn operate(&mut self) {
        let after_ms = self.rng.within(100, 4000);
        self.later(after_ms, Event::Operator);
        let index = self.rng.index(self.servers.len());
        // With several stores, one change at a time. The next one starts only once no statement of the last can still
        // be done.
        let is_change = |event: &Event| match event {
            Event::Execute { statement, .. } => {
                !matches!(statement, Statement::Reserve { .. } | Statement::Poll | Statement::GiveBack { .. })
            }
            _ => false,
        };
        let is_free = |server: &Server| server.job.is_none();
        if self.stores.len() > 1 && (self.events.values().any(is_change) || !self.servers.iter().all(is_free)) {
            return;
        }
        if !self.servers[index].is_up || self.servers[index].is_stopping || !is_free(&self.servers[index]) {
            return;
        }
        let Some(job) = self.invent_job(index) else { return };
        self.servers[index].job = Some(job);
        self.job_goes_on(index);
    }

    fn invent_job(&mut self, index: usize) -> Option<Job> {
        let all = 0..self.stores.len();
        let each = |statement: &dyn Fn(usize) -> Statement| -> VecDeque<_> {
            all.clone().map(|store| (store, statement(store))).collect()
        };
        let job = |steps| Job { steps, raises_to: None, then_alter: vec![], highest: 0, is_end: false };
        let rows: Option<Vec<_>> = self.stores.iter().map(|store| store.row.clone()).collect();
        let Some(rows) = rows.filter(|rows| rows.iter().all(|row| row.state != State::Dropped)) else {
            let spec = |store: usize| {
                let offset = u32::try_from(store + 1).expect("few");
                let increment = u32::try_from(all.len()).expect("few");
                let known = self.stores[store].row.as_ref().map(|row| row.spec);
                let cache = if self.oracle.is_strict { 0 } else { 100 };
                known.unwrap_or(Spec { increment, offset, cache, ..Spec::default() })
            };
            return Some(job(each(&|store| Statement::Create { spec: spec(store) })));
        };
        if rows.iter().any(|row| row.state == State::WentBack) && self.rng.one_in(2) {
            // A half finished ALTER is repeated, not confirmed.
            return self.agree().then(|| job(each(&|_| Statement::Confirm)));
        }
        match self.rng.below(11) {
            0 => Some(job(each(&|_| Statement::Drop))),
            8.. => {
                let ends_ms = if self.rng.one_in(2) { 0 } else { self.now_ms + self.rng.within(0, 3000) };
                Some(Job { is_end: true, ..job(each(&|_| Statement::Expire { ends_ms })) })
            }
            1 | 2 => Some(self.alter(&rows.iter().map(|row| row.spec).collect::<Vec<_>>())),
            _ => {
                let next = rows.iter().map(|row| row.next).max().unwrap_or(1);
                let last = (next + self.rng.skewed(12).cast_signed() - self.rng.skewed(10).cast_signed()).max(0);
                if !self.is_shared && self.is_skipped(index, last) {
                    return None;
                }
                let is_alone = rows.len() == 1 || self.wrong == Some(PlantedMistake::RaiseForgetsHigherRows);
                let steps = each(&|store| {
                    // With several stores, a row that is already higher must also discard values that other servers
                    // hold.
                    let (spec, next_from) = (rows[store].spec, last + 1);
                    if is_alone { Statement::Raise { last } } else { Statement::Alter { spec, next_from } }
                });
                Some(Job { raises_to: Some(last), ..job(steps) })
            }
        }
    }

    /// Does a SET within the values that this server holds, up to the row's end, if no other server has a part in it.
    fn is_skipped(&mut self, index: usize, last: i64) -> bool {
        let Some(sequence) = &mut self.servers[index].sequence else { return false };
        let is_skipped = sequence.skip_to(last);
        if is_skipped {
            self.oracle.raised(index, last, self.now_ms, 0);
            self.pump(index);
        }
        is_skipped
    }

    fn alter(&mut self, specs: &[Spec]) -> Job {
        let stores = u32::try_from(specs.len()).expect("few");
        let cache = if self.oracle.is_strict { 0 } else { self.rng.pick(&[1, 20, 100, 1000]) };
        let increment = if self.rng.one_in(2) { specs[0].increment } else { stores + self.rng.pick(&[0, 1, 2, 5]) };
        let max = if self.rng.one_in(3) { VALUE_MAX } else { specs[0].max };
        let altered: Vec<(usize, Spec)> = specs
            .iter()
            .zip(1..)
            .map(|(spec, n)| (usize::try_from(n - 1).expect("few"), Spec { cache, increment, offset: n, max, ..*spec }))
            .collect();
        let held = (0..specs.len()).map(|store| (store, Statement::WentBack { had_next: 0 })).collect();
        let job = Job { steps: held, raises_to: None, then_alter: altered.clone(), highest: 0, is_end: false };
        if specs.len() > 1 && self.wrong != Some(PlantedMistake::AltersWithoutHolding) {
            return job;
        }
        let steps = altered.into_iter().map(|(store, spec)| (store, Statement::Alter { spec, next_from: 0 })).collect();
        Job { steps, then_alter: vec![], ..job }
    }
}
