//! Beats in a simulated world: servers around [`Member`], a store that loses its last writes, and clients that receive
//! values. A world is made from a seed; its judge sees every value.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use getid_core::server::beat::{
    BeatAnswer, BeatChanges, BeatRequest, Credentials, Member, Nonce, NotedServer, STILL_MS, ServerRow, ServerState,
};
use getid_core::server::checks::{Fault, plant};

use crate::random::Random;

/// Number of worlds in a run. `GETID_BEAT_WORLDS=FIRST..END` plays others.
const WORLDS: u64 = 1_000;

/// Number of events in a world, before faults end.
const EVENTS: u64 = 600;

/// Most servers of a world in its whole life.
const SERVERS_MAX: usize = 7;

/// Number of states that a store may go back to.
const HISTORY: usize = 60;

/// A simulated store with one sequence.
#[derive(Clone)]
struct Store {
    servers: BTreeMap<Nonce, ServerRow>,
    next: i64,
}

/// The notes of a server, which outlive its process.
#[derive(Clone, Default)]
struct Notes {
    nonce: Nonce,
    beat: u64,
    servers: BTreeMap<Nonce, NotedServer>,
    next: i64,
}

enum Statement {
    Beat(BeatRequest),
    Reserve(Credentials, i64),
    Compare(Credentials, i64),
}

enum Outcome {
    Beat(BeatAnswer),
    /// First and last value and the beat; `None`: the server's row did not allow it.
    Reserved(Option<(i64, i64, u64)>, String),
    /// The beat; `None`: the server's row did not allow it.
    Compared(Option<u64>),
}

/// A statement that was sent.
struct Flight {
    statement: Statement,
    /// The outcome, with the number of times that the store had gone back; `None`: not done yet.
    outcome: Option<(Outcome, u64)>,
}

struct Server {
    notes: Notes,
    /// State of the running process; `None`: no process runs.
    member: Option<Member>,
    flight: Option<Flight>,
    compares: bool,
    /// Whether it never starts again.
    is_dead: bool,
    /// Whether it was cleared when the store lost writes, and has run since then.
    is_witness: bool,
    /// Number of times that the store had gone back at this server's last answered statement.
    losses_seen: u64,
}

struct World {
    random: Random,
    now_ms: u64,
    store: Store,
    instance: u64,
    history: Vec<Store>,
    servers: Vec<Server>,
    given: BTreeSet<i64>,
    /// Whether the store lost writes, and some server does not run, or is not cleared.
    is_unsettled: bool,
    losses: u64,
    seen: EventCounts,
}

/// Counts of events in worlds: a run without events proves nothing.
#[derive(Clone, Copy, Debug, Default)]
struct EventCounts {
    values: u64,
    lost: u64,
    held: u64,
    released: u64,
    gone: u64,
    raised: u64,
}

impl World {
    /// Returns a world without servers.
    fn empty(seed: u64) -> World {
        let store = Store { servers: BTreeMap::new(), next: 1 };
        World {
            random: Random(seed),
            now_ms: 1_000,
            history: vec![store.clone()],
            store,
            instance: 1,
            servers: Vec::new(),
            given: BTreeSet::new(),
            is_unsettled: false,
            losses: 0,
            seen: EventCounts::default(),
        }
    }

    fn new(seed: u64) -> World {
        let mut world = World::empty(seed);
        for _ in 0..world.random.within(1, 4) {
            world.add();
        }
        // No server can notice that the store is older than all servers with knowledge of it.
        world.settle(5);
        world.history = vec![world.store.clone()];
        world
    }

    /// Plays turns without a fault.
    fn settle(&mut self, turns: u64) {
        for turn in 0..turns {
            for at in 0..self.servers.len() {
                self.send(at);
                self.commit(at);
                self.answer(at);
            }
            self.now_ms += 1_000;
            if turn % 20 == 19 {
                self.release_the_dead();
            }
        }
    }

    fn nonce(&mut self) -> Nonce {
        Nonce(u128::from(self.random.next()) << 64 | 1)
    }

    fn add(&mut self) {
        if self.servers.len() < SERVERS_MAX {
            let notes = Notes { nonce: self.nonce(), ..Notes::default() };
            self.servers.push(Server {
                notes,
                member: None,
                flight: None,
                compares: false,
                is_dead: false,
                is_witness: false,
                losses_seen: 0,
            });
            self.start(self.servers.len() - 1);
        }
    }

    fn start(&mut self, at: usize) {
        let life = self.nonce();
        let now_ms = self.now_ms;
        let server = &mut self.servers[at];
        if server.member.is_none() && !server.is_dead {
            let Notes { nonce, beat, servers, .. } = server.notes.clone();
            let servers = servers.into_values().collect();
            server.member = Some(Member::new(nonce, life, format!("server {at}"), beat, servers, now_ms));
            server.compares = false;
        }
    }

    fn kill(&mut self, at: usize) {
        self.servers[at].member = None;
        self.servers[at].flight = None;
        self.servers[at].is_witness = false;
    }

    /// Stops a server cleanly.
    fn stop(&mut self, at: usize) {
        if self.servers[at].flight.is_none()
            && let Some(member) = &self.servers[at].member
        {
            if let Some(ask) = member.leave() {
                let _ = self.beat(&ask);
            }
            self.kill(at);
        }
    }

    /// Sends the server's next statement.
    fn send(&mut self, at: usize) {
        let now_ms = self.now_ms;
        let reserves = self.random.one_in(2);
        let values = i64::try_from(self.random.within(1, 3)).expect("small");
        let server = &mut self.servers[at];
        let (Some(member), None) = (&mut server.member, &server.flight) else { return };
        let statement = match member.credentials().filter(|_| reserves) {
            Some(credentials) => Statement::Reserve(credentials, values),
            None => match member.comparing().filter(|_| server.compares) {
                Some(credentials) => Statement::Compare(credentials, server.notes.next),
                None => Statement::Beat(member.ask(now_ms)),
            },
        };
        server.flight = Some(Flight { statement, outcome: None });
    }

    /// Executes the statement in the store.
    fn commit(&mut self, at: usize) {
        let Some(Flight { statement, .. }) = self.servers[at].flight.take_if(|own| own.outcome.is_none()) else {
            return;
        };
        let outcome = match &statement {
            Statement::Beat(ask) => Outcome::Beat(self.beat(ask)),
            Statement::Reserve(credentials, values) => {
                Outcome::Reserved(self.reserve(credentials, *values), self.instance.to_string())
            }
            Statement::Compare(credentials, next) => {
                let beat = self.may(credentials, |state| state == ServerState::Returning);
                if beat.is_some() {
                    self.seen.raised += u64::from(*next > self.store.next);
                    self.store.next = self.store.next.max(*next);
                }
                Outcome::Compared(beat)
            }
        };
        self.remember();
        self.servers[at].flight = Some(Flight { statement, outcome: Some((outcome, self.losses)) });
    }

    fn remember(&mut self) {
        self.history.push(self.store.clone());
        if self.history.len() > HISTORY {
            self.history.remove(0);
        }
    }

    fn beat(&mut self, ask: &BeatRequest) -> BeatAnswer {
        let found: Vec<ServerRow> =
            ask.locks().iter().filter_map(|nonce| self.store.servers.get(nonce)).cloned().collect();
        let BeatChanges { is_done, rows } = ask.apply(&found);
        self.seen.gone += u64::try_from(rows.iter().filter(|row| row.state == ServerState::Gone).count()).expect("few");
        self.store.servers.extend(rows.into_iter().map(|row| (row.nonce, row)));
        let round = self.store.servers.get(&Nonce::ROUNDS).map_or(0, |row| row.beat);
        let is_read = |row: &&ServerRow| {
            let is_present = row.state.is_live() || row.state == ServerState::Returning;
            let has_left = !is_present && row.nonce != ask.nonce;
            row.nonce != Nonce::ROUNDS && (ask.reads_all || !has_left)
        };
        let rows = self.store.servers.values().filter(is_read).cloned().collect();
        BeatAnswer { is_done, rows, round, instance: self.instance.to_string() }
    }

    fn reserve(&mut self, credentials: &Credentials, values: i64) -> Option<(i64, i64, u64)> {
        let beat = self.may(credentials, ServerState::is_live)?;
        let first = self.store.next;
        self.store.next += values;
        Some((first, first + values - 1, beat))
    }

    /// Returns the server's new beat, 1 more than before, if its row allows it.
    fn may(&mut self, credentials: &Credentials, is_right: fn(ServerState) -> bool) -> Option<u64> {
        let own = self.store.servers.get_mut(&credentials.nonce)?;
        let may = own.life == credentials.life && own.beat >= credentials.at_least && is_right(own.state);
        may.then(|| {
            own.beat += 1;
            own.beat
        })
    }

    /// Delivers the answer to the server.
    fn answer(&mut self, at: usize) {
        let new = self.nonce();
        let server = &mut self.servers[at];
        let Some(member) = &mut server.member else { return };
        let Some(Flight { statement, outcome: Some((outcome, losses)) }) =
            server.flight.take_if(|own| own.outcome.is_some())
        else {
            return;
        };
        server.losses_seen = losses;
        match (statement, outcome) {
            (Statement::Beat(ask), Outcome::Beat(answer)) => {
                let next = member.answered(&ask, &answer);
                server.compares = next.compares;
                if next.is_copied {
                    member.renew(new);
                }
                server.notes.nonce = member.nonce();
                server.notes.beat = member.beat();
                for noted in member.unnoted() {
                    server.notes.servers.insert(noted.nonce, noted);
                }
                member.has_noted();
                self.seen.held += u64::from(!member.awaited().is_empty());
            }
            (Statement::Reserve(..), Outcome::Reserved(None, _)) => member.doubt(),
            (Statement::Reserve(..), Outcome::Reserved(Some((first, last, beat)), instance)) => {
                if member.reserved(beat, &instance) {
                    server.notes.beat = member.beat();
                    server.notes.next = server.notes.next.max(last + 1);
                    for value in first..=last {
                        assert!(self.given.insert(value), "value {value} twice");
                        self.seen.values += 1;
                    }
                }
            }
            (_, Outcome::Compared(beat)) => {
                member.page_compared(beat);
                server.compares = beat.is_none() && member.comparing().is_some();
                if beat.is_some() {
                    member.compared();
                    server.notes.beat = member.beat();
                }
            }
            _ => unreachable!("an answer to another statement"),
        }
    }

    /// Breaks the server's connection: it does not learn the outcome of its statement.
    fn cut(&mut self, at: usize) {
        self.servers[at].flight = None;
        if let Some(member) = &mut self.servers[at].member {
            member.doubt();
        }
    }

    /// Fails the store over to a replica that lacks its last writes. A pooler hides that from some servers, which see
    /// only another instance.
    fn fail_over(&mut self) {
        self.go_back(self.random.clone().index(self.history.len()));
        self.instance += 1;
        for at in 0..self.servers.len() {
            match self.random.below(4) {
                // A pooler is in between: the other instance executes statements that are under way.
                0 => {}
                // Answers that were sent still arrive.
                1 => {
                    self.answer(at);
                    self.cut(at);
                }
                _ => self.cut(at),
            }
        }
    }

    /// Replaces the store by an older copy, under running servers with open connections. The copy is older than the
    /// last beat of each of them.
    fn restore(&mut self) {
        let is_older = |copy: &Store, server: &Server| {
            let nonce = server.notes.nonce;
            let beat = |store: &Store| store.servers.get(&nonce).map_or(0, |row| row.beat);
            server.member.is_none() || beat(copy) < beat(&self.store).min(server.notes.beat)
        };
        let older = |copy: &Store| self.servers.iter().all(|server| is_older(copy, server));
        if let Some(at) = self.history.iter().rposition(older) {
            self.go_back(at);
        }
    }

    fn go_back(&mut self, at: usize) {
        if !self.is_unsettled {
            for server in &mut self.servers {
                server.is_witness = server.member.as_ref().is_some_and(Member::is_cleared);
            }
        }
        self.is_unsettled = true;
        self.losses += 1;
        let lost = self.store.next - self.history[at].next;
        self.seen.lost += lost.unsigned_abs();
        self.history.truncate(at + 1);
        self.store = self.history[at].clone();
    }

    /// Releases servers that will never run again, as an operator does, and raises the sequence past all their values.
    fn release_the_dead(&mut self) {
        let dead: Vec<Nonce> =
            self.servers.iter().filter(|server| server.is_dead).map(|server| server.notes.nonce).collect();
        let holds = |server: &Server| {
            let awaited = server.member.as_ref().map(Member::awaited).unwrap_or_default();
            awaited.iter().any(|awaited| dead.contains(&awaited.nonce))
        };
        let Some(at) = self.servers.iter().position(holds) else { return };
        let Some(raising) = self.servers[at].member.as_ref().and_then(Member::raising) else { return };
        if self.servers[at].flight.is_some() {
            return;
        }
        let Some(beat) = self.may(&raising, ServerState::is_live) else { return };
        self.store.next = self.store.next.max(self.given.last().map_or(0, |last| last + 1));
        self.remember();
        if let Some(member) = &mut self.servers[at].member {
            member.raised(beat);
            let released = dead.iter().filter(|nonce| member.release(**nonce)).count();
            self.seen.released += released as u64;
        }
    }

    /// Returns true if each server that is not dead runs, had an answer since the last loss, and waits only for dead
    /// ones.
    fn is_settled(&self) -> bool {
        let dead: Vec<Nonce> =
            self.servers.iter().filter(|server| server.is_dead).map(|server| server.notes.nonce).collect();
        let is_well = |member: &Member| {
            let awaited = member.awaited();
            member.is_cleared() || !awaited.is_empty() && awaited.iter().all(|other| dead.contains(&other.nonce))
        };
        let is_settled =
            |server: &Server| server.losses_seen == self.losses && server.member.as_ref().is_some_and(is_well);
        self.servers.iter().filter(|server| !server.is_dead).all(is_settled)
    }

    /// Returns true if each running server had an answer since the store lost writes.
    fn has_beaten(&self) -> bool {
        self.servers.iter().all(|server| server.member.is_none() || server.losses_seen == self.losses)
    }

    /// Plays one event. Servers may be down for a minute and longer, and for ever, but not right after the store lost
    /// writes: then no server with knowledge of them would be left. So time stands still until all other servers are
    /// back; one server that knew all others keeps running; and servers join after the running ones have beaten.
    fn event(&mut self) {
        self.is_unsettled &= !self.is_settled();
        let at = self.random.index(self.servers.len());
        self.now_ms += if self.is_unsettled { 1 } else { self.random.within(1, 400) };
        let has_joined = |server: &Server| server.member.as_ref().is_none_or(|member| member.raising().is_some());
        let has_witness = self.servers.iter().any(|server| server.member.as_ref().is_some_and(Member::is_cleared));
        let may_lose = (has_witness || self.is_unsettled)
            && self.servers.iter().all(|server| server.is_witness || has_joined(server));
        let witnesses = self.servers.iter().filter(|server| server.is_witness).count();
        let may_end = !self.is_unsettled || !self.servers[at].is_witness || witnesses > 1;
        match self.random.below(100) {
            0..=29 => self.send(at),
            30..=59 => self.commit(at),
            60..=86 => self.answer(at),
            87..=88 => self.cut(at),
            89 if may_lose => self.fail_over(),
            90 if may_lose => self.restore(),
            91 if may_end => self.kill(at),
            92 if may_end => self.stop(at),
            93..=95 if self.has_beaten() => self.start(at),
            96 if !self.is_unsettled => self.add(),
            97 if !self.is_unsettled => {
                // Running servers beat meanwhile.
                for _ in 0..self.random.within(1, 8) {
                    self.now_ms += self.random.pick(&[5_000, 15_000, 18_000, STILL_MS]);
                    self.settle(1);
                }
            }
            98 if !self.is_unsettled
                && self.servers.iter().filter(|server| !server.is_dead).count() > 1
                && self.random.one_in(3) =>
            {
                self.kill(at);
                self.servers[at].is_dead = true;
            }
            _ => self.release_the_dead(),
        }
    }

    /// Plays a world with faults, and then without: in the end each running server may reserve.
    fn play(mut self) -> EventCounts {
        for _ in 0..EVENTS {
            self.event();
        }
        for at in 0..self.servers.len() {
            self.start(at);
        }
        self.settle(200);
        for (at, server) in self.servers.iter().enumerate() {
            let is_well = server.member.as_ref().is_none_or(Member::is_cleared);
            assert!(is_well, "server {at} is held for ever by {:?}", server.member.as_ref().map(Member::awaited));
        }
        self.seen
    }
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("GETID_BEAT_WORLDS") else { return 0..WORLDS };
    let (first, end) = text.split_once("..").expect("FIRST..END");
    first.parse().expect("a number")..end.parse().expect("a number")
}

#[test]
fn no_value_twice_by_stores_that_lose_writes() {
    let mut all = EventCounts::default();
    for seed in seeds() {
        let seen = catch_unwind(|| World::new(seed).play()).unwrap_or_else(|_| {
            let next = seed + 1;
            panic!("GETID_BEAT_WORLDS={seed}..{next} cargo test -p getid-core --test core beats::no_value")
        });
        all = EventCounts {
            values: all.values + seen.values,
            lost: all.lost + seen.lost,
            held: all.held + seen.held,
            released: all.released + seen.released,
            gone: all.gone + seen.gone,
            raised: all.raised + seen.raised,
        };
    }
    println!("{all:?}");
    let worlds = seeds().count() as u64;
    assert!(all.values > 20 * worlds, "{all:?}");
    if worlds >= WORLDS {
        assert!(
            [all.lost, all.held, all.released, all.raised].iter().all(|count| *count > 100) && all.gone > 0,
            "{all:?}"
        );
    }
}

/// Servers of a step-by-step scene: each asks, gets an answer and notes it.
struct Scene {
    world: World,
}

impl Scene {
    /// Creates cleared servers, at a time when all have seen each other.
    fn new(servers: usize) -> Scene {
        let mut world = World::empty(1);
        for _ in 0..servers {
            world.add();
            world.settle(3);
        }
        Scene { world }
    }

    /// Plays a turn of one server: its statement is sent, executed and answered.
    fn turn(&mut self, at: usize) {
        let (now_ms, server) = (self.world.now_ms, &mut self.world.servers[at]);
        let Some(member) = &mut server.member else { return };
        let statement = match member.comparing() {
            Some(credentials) => Statement::Compare(credentials, server.notes.next),
            None => Statement::Beat(member.ask(now_ms)),
        };
        server.flight = Some(Flight { statement, outcome: None });
        self.world.commit(at);
        self.world.answer(at);
    }

    fn is_cleared(&self, at: usize) -> bool {
        self.world.servers[at].member.as_ref().is_some_and(Member::is_cleared)
    }

    fn reserve(&mut self, at: usize) {
        for _ in 0..5 {
            (0..self.world.servers.len()).for_each(|at| self.turn(at));
        }
        let credentials = self.world.servers[at].member.as_ref().and_then(Member::credentials).expect("it may reserve");
        self.world.servers[at].flight = Some(Flight { statement: Statement::Reserve(credentials, 1), outcome: None });
        self.world.commit(at);
        self.world.answer(at);
    }
}

/// The store goes back after a server saw that its round is complete, and before it beat again: acknowledgements of
/// that round are lost.
fn a_round_ends_with_a_beat_of_its_starter() {
    let mut scene = Scene::new(2);
    scene.world.cut(0);
    scene.turn(0);
    let before_acknowledged = scene.world.store.clone();
    scene.turn(1);
    scene.turn(1);
    // The answer shows that server 1 has acknowledged.
    let ask = scene.world.servers[0].member.as_mut().unwrap().ask(scene.world.now_ms);
    let answer = scene.world.beat(&ask);
    scene.world.store = before_acknowledged;
    scene.world.servers[0].member.as_mut().unwrap().answered(&ask, &answer);
    assert!(!scene.is_cleared(0), "it may reserve by an acknowledgement that the store has lost");
}

/// A server that beat until the doubt began keeps the round open, however long it stands still.
fn a_server_that_notes_call_live_does_not_age_in_a_doubt() {
    let mut scene = Scene::new(2);
    for _ in 0..3 {
        scene.turn(1);
        scene.turn(0);
    }
    scene.world.kill(1);
    scene.world.cut(0);
    for _ in 0..20 {
        scene.world.now_ms += 10_000;
        scene.turn(0);
    }
    assert!(!scene.is_cleared(0));
    assert_eq!(scene.world.servers[0].member.as_ref().unwrap().awaited().len(), 1);
    scene.world.start(1);
    for _ in 0..10 {
        scene.turn(1);
        scene.turn(0);
    }
    assert!(scene.is_cleared(0) && scene.is_cleared(1));
}

/// A broken connection may lead to another state of the store.
fn a_broken_connection_is_a_doubt() {
    let mut scene = Scene::new(2);
    scene.reserve(0);
    scene.world.cut(0);
    assert!(scene.world.servers[0].member.as_ref().unwrap().credentials().is_none());
}

/// A dead server's last values are lost with its beats. A server that noted those marks it as returning, and a server
/// without notes waits for it as well.
fn a_server_whose_beats_are_lost_is_marked_for_those_without_notes() {
    let mut scene = Scene::new(2);
    for _ in 0..3 {
        scene.turn(1);
        scene.turn(0);
    }
    let before = scene.world.store.clone();
    for _ in 0..3 {
        scene.reserve(1);
        scene.turn(1);
        scene.turn(0);
    }
    scene.world.kill(1);
    scene.world.store = before;
    for _ in 0..6 {
        scene.turn(0);
    }
    // The server with the notes leaves.
    scene.world.stop(0);
    scene.world.add();
    for _ in 0..30 {
        scene.world.now_ms += 10_000;
        scene.turn(2);
    }
    assert!(!scene.is_cleared(2), "{:?}", scene.world.store.servers);
}

/// Time in which a server did not observe does not count as silence of other servers.
fn time_in_which_it_did_not_look_is_no_silence() {
    let mut scene = Scene::new(2);
    for _ in 0..3 {
        scene.turn(1);
        scene.turn(0);
    }
    scene.world.now_ms += 10 * STILL_MS;
    scene.turn(0);
    scene.turn(0);
    let state = |scene: &Scene| scene.world.store.servers[&scene.world.servers[1].notes.nonce].state;
    assert!(state(&scene).is_live());
    // For a server that observes all the time it counts.
    for _ in 0..8 {
        scene.world.now_ms += 10_000;
        scene.turn(0);
    }
    assert_eq!(state(&scene), ServerState::Gone);
    // The server returns by a round.
    for _ in 0..6 {
        scene.turn(1);
        scene.turn(0);
    }
    assert!(state(&scene).is_live() && scene.is_cleared(1));
}

/// A server that starts a round does not acknowledge another server's round that it has not seen yet.
fn a_start_acknowledges_nothing_unseen() {
    let mut scene = Scene::new(1);
    // Server 0 has looked, and a new server joins before server 0 starts its round.
    scene.world.cut(0);
    let ask = scene.world.servers[0].member.as_mut().unwrap().ask(scene.world.now_ms);
    scene.world.add();
    scene.turn(1);
    scene.turn(1);
    let answer = scene.world.beat(&ask);
    let own = &scene.world.store.servers[&scene.world.servers[0].notes.nonce];
    assert!(own.acknowledged < 2, "round 2 is of a server that it has not seen: {own:?}");
    scene.world.servers[0].member.as_mut().unwrap().answered(&ask, &answer);
}

#[test]
fn each_rule_holds_step_by_step() {
    a_round_ends_with_a_beat_of_its_starter();
    a_server_that_notes_call_live_does_not_age_in_a_doubt();
    time_in_which_it_did_not_look_is_no_silence();
    a_start_acknowledges_nothing_unseen();
    a_broken_connection_is_a_doubt();
    a_server_whose_beats_are_lost_is_marked_for_those_without_notes();
}

/// A process with a copy of another one's notes finds its row written by that process.
#[test]
fn a_copy_of_notes_takes_another_nonce() {
    let mut scene = Scene::new(1);
    let notes = scene.world.servers[0].notes.clone();
    scene.world.add();
    scene.world.kill(1);
    scene.world.servers[1].notes = notes;
    scene.world.start(1);
    for _ in 0..30 {
        scene.turn(1);
        scene.turn(0);
    }
    let nonces: BTreeSet<Nonce> = scene.world.servers.iter().map(|server| server.notes.nonce).collect();
    assert_eq!(nonces.len(), 2);
    assert!(scene.is_cleared(0) && scene.is_cleared(1));
    scene.reserve(0);
    scene.reserve(1);
}

/// Returns the scene that finds a fault; `None`: the worlds find it.
fn scene(fault: Fault) -> Option<fn()> {
    Some(match fault {
        Fault::ClearedWithoutABeat => a_round_ends_with_a_beat_of_its_starter,
        Fault::AgesInDoubt => a_server_that_notes_call_live_does_not_age_in_a_doubt,
        Fault::UnseenCountsAsStill => time_in_which_it_did_not_look_is_no_silence,
        Fault::StartAcknowledges => a_start_acknowledges_nothing_unseen,
        Fault::BrokenConnectionIsTrusted => a_broken_connection_is_a_doubt,
        Fault::LostServersStayLost => a_server_whose_beats_are_lost_is_marked_for_those_without_notes,
        _ => return None,
    })
}

#[test]
fn every_planted_fault_of_beats_is_found() {
    let is_found = |fault: Fault| {
        let _planted = plant(fault);
        match scene(fault) {
            Some(scene) => catch_unwind(scene).is_err(),
            None => (0..WORLDS).any(|seed| catch_unwind(AssertUnwindSafe(|| World::new(seed).play())).is_err()),
        }
    };
    let missed: Vec<_> = Fault::OF_BEATS.iter().filter(|fault| !is_found(**fault)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
