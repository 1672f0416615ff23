//! Real time, and a queue of all events in it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use getid_core::server::claim::StoreAction;

use crate::judge::Judge;
use crate::random::Random;
use crate::server::{Answer, Call, NextStep, Server};
use crate::store::Store;

pub(crate) const MS: u64 = 1_000_000;

/// Returns a number from `-most` to `most`.
pub(crate) fn signed(random: &mut Random, most: u64) -> i64 {
    i64::try_from(random.below(2 * most + 1)).expect("small") - i64::try_from(most).expect("small")
}

/// Returns a random number of a process.
pub(crate) fn instance(random: &mut Random) -> u128 {
    (u128::from(random.next()) << 64) | u128::from(random.next())
}

/// Kinds of events. Of all events at one time draws come first: a process that continues after a pause gives IDs before
/// it reads anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    Draw,
    Reaches { number: u64 },
    Answered { number: u64 },
    Deadline { number: u64 },
    Step,
    Starts,
}

/// State of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreState {
    Well,
    /// It refuses requests at once.
    Refuses,
    /// It executes requests once it continues.
    Stands,
    /// It delays requests and answers by up to this time each, ms.
    Slow(u64),
}

/// A call on its way.
struct Flight {
    action: StoreAction,
    /// Number of the sender's folder.
    folder: u64,
    answer: Option<Answer>,
}

pub(crate) struct World {
    pub(crate) now_ns: u64,
    queue: BinaryHeap<Reverse<(u64, EventKind, usize)>>,
    /// Calls on their way, by number.
    calls: BTreeMap<u64, Flight>,
    number: u64,
    pub(crate) random: Random,
    pub(crate) servers: Vec<Server>,
    pub(crate) store: Store,
    pub(crate) state: StoreState,
    pub(crate) state_until_ns: u64,
    pub(crate) judges: Vec<Judge>,
    /// When each claim last gave an ID, ns.
    pub(crate) given_ns: Vec<u64>,
    pub(crate) in_order: bool,
    pub(crate) sample_ms: u64,
    pub(crate) draw_every_ms: u64,
    /// Whether some draws take all possible IDs, up to the borrow limit.
    pub(crate) is_greedy: bool,
    /// Time after which a call has no answer, ns.
    deadline_ns: u64,
}

impl World {
    pub(crate) fn new(seed: u64, store: Store, claims: usize, timeout_ms: u64) -> World {
        World {
            now_ns: 0,
            queue: BinaryHeap::new(),
            calls: BTreeMap::new(),
            number: 0,
            random: Random(seed),
            servers: Vec::new(),
            store,
            state: StoreState::Well,
            state_until_ns: 0,
            judges: (0..claims).map(|_| Judge::default()).collect(),
            given_ns: vec![0; claims],
            in_order: true,
            sample_ms: 100,
            draw_every_ms: 60,
            is_greedy: true,
            deadline_ns: timeout_ms / 2 * MS,
        }
    }

    pub(crate) fn add(&mut self, server: Server) {
        let who = self.servers.len();
        self.servers.push(server);
        self.at(self.now_ns, EventKind::Step, who);
        let draw_ns = self.now_ns + self.random.below(self.draw_every_ms * MS);
        self.at(draw_ns, EventKind::Draw, who);
    }

    fn at(&mut self, ns: u64, what: EventKind, who: usize) {
        self.queue.push(Reverse((ns, what, who)));
    }

    /// Kills a process; another one starts in its place after `down_ms`.
    pub(crate) fn kill(&mut self, who: usize, down_ms: u64) {
        self.servers[who].is_up = false;
        self.servers[who].call = None;
        self.at(self.now_ns + down_ms * MS, EventKind::Starts, who);
    }

    /// Stops a process as SIGTERM does; another one starts in its place after `down_ms`.
    pub(crate) fn stop(&mut self, who: usize, down_ms: u64) {
        self.servers[who].is_stopping = true;
        self.at(self.now_ns + down_ms * MS, EventKind::Starts, who);
    }

    /// Plays events until this time.
    ///
    /// # Errors
    ///
    /// Fails if a promise is broken.
    pub(crate) fn run(&mut self, until_ns: u64) -> Result<(), String> {
        while let Some(&Reverse((ns, what, who))) = self.queue.peek() {
            if ns > until_ns {
                break;
            }
            self.queue.pop();
            self.now_ns = self.now_ns.max(ns);
            let paused_until_ns = self.servers[who].paused_until_ns;
            let is_of_process = !matches!(what, EventKind::Reaches { .. });
            if is_of_process && paused_until_ns > self.now_ns {
                self.at(paused_until_ns, what, who);
                continue;
            }
            self.happens(what, who)?;
        }
        self.now_ns = self.now_ns.max(until_ns);
        Ok(())
    }

    fn happens(&mut self, what: EventKind, who: usize) -> Result<(), String> {
        let now_ns = self.now_ns;
        match what {
            EventKind::Step => {
                self.at(now_ns + self.sample_ms * MS, EventKind::Step, who);
                self.step(who);
            }
            EventKind::Draw => {
                let wait_ns = self.random.below(2 * self.draw_every_ms * MS);
                self.at(now_ns + wait_ns, EventKind::Draw, who);
                return self.draw(who);
            }
            EventKind::Reaches { number } => self.reaches(number, who),
            EventKind::Answered { number } => {
                let answer = self.calls.remove(&number).and_then(|flight| flight.answer);
                self.answer(who, number, answer.unwrap_or(Answer::Nothing));
            }
            EventKind::Deadline { number } => self.answer(who, number, Answer::Nothing),
            EventKind::Starts if !self.servers[who].is_up => {
                let (me, noted) = (instance(&mut self.random), !self.random.one_in(4));
                self.servers[who].start(me, noted, now_ns);
            }
            // The process has not stopped yet.
            EventKind::Starts => self.at(now_ns + 50 * MS, EventKind::Starts, who),
        }
        Ok(())
    }

    fn step(&mut self, who: usize) {
        if !self.servers[who].is_up {
            return;
        }
        let then = self.servers[who].step(self.now_ns);
        self.follow(who, then);
    }

    fn follow(&mut self, who: usize, then: NextStep) {
        let NextStep::Send(action) = then else {
            // A claim that was just taken is saved at once.
            let server = &self.servers[who];
            if server.is_up
                && server.call.is_none()
                && server.next_beat_ns <= self.now_ns
                && server.claimant.is_holder()
            {
                let then = self.servers[who].step(self.now_ns);
                if then != NextStep::Rest {
                    self.follow(who, then);
                }
            }
            return;
        };
        self.number += 1;
        let number = self.number;
        let sent = self.servers[who].clock.clocks(self.now_ns);
        self.servers[who].call = Some(Call { number, action, sent });
        self.calls.insert(number, Flight { action, folder: self.servers[who].folder, answer: None });
        let there_ns = self.latency_ns();
        self.at(self.now_ns + self.deadline_ns, EventKind::Deadline { number }, who);
        if self.servers[who].cut_to_ns <= self.now_ns && !self.loses() {
            self.at(self.now_ns + there_ns, EventKind::Reaches { number }, who);
        } else {
            self.calls.remove(&number);
        }
    }

    fn latency_ns(&mut self) -> u64 {
        match self.state {
            StoreState::Slow(ms) => self.random.below(ms * MS),
            _ => MS / 5 + self.random.below(2 * MS),
        }
    }

    /// Returns whether a message is lost: the network is bad while the store is slow.
    fn loses(&mut self) -> bool {
        matches!(self.state, StoreState::Slow(_)) && self.random.one_in(10)
    }

    /// Executes a call at the store, whether its sender still waits for it or not.
    fn reaches(&mut self, number: u64, who: usize) {
        if self.state == StoreState::Stands && self.state_until_ns > self.now_ns {
            let late_ns = self.random.below(20 * MS);
            self.at(self.state_until_ns + late_ns, EventKind::Reaches { number }, who);
            return;
        }
        let (claim, cut_from_ns) = (self.servers[who].claim, self.servers[who].cut_from_ns);
        let back_ns = self.now_ns + self.latency_ns();
        let is_lost = cut_from_ns > back_ns || self.loses();
        let Some(flight) = self.calls.get_mut(&number) else { return };
        flight.answer = Some(match flight.action {
            _ if self.state == StoreState::Refuses => Answer::NotDone,
            StoreAction::Write(write) => match self.store.write(claim, write, flight.folder, self.now_ns) {
                Ok(()) => Answer::Written,
                Err(row) => Answer::Conflict(row),
            },
            _ => Answer::Row(self.store.row(claim)),
        });
        if is_lost {
            self.calls.remove(&number);
        } else {
            self.at(back_ns, EventKind::Answered { number }, who);
        }
    }

    /// Delivers the answer to its sender, if it still waits.
    fn answer(&mut self, who: usize, number: u64, answer: Answer) {
        let server = &mut self.servers[who];
        if !server.is_up || server.call.is_none_or(|call| call.number != number) {
            return;
        }
        let then = server.answered(answer, self.now_ns);
        self.follow(who, then);
    }

    fn draw(&mut self, who: usize) -> Result<(), String> {
        let server = &mut self.servers[who];
        if !server.is_up {
            return Ok(());
        }
        let boot_ns = server.clock.clocks(self.now_ns).boot_ns;
        // Sometimes all possible IDs.
        let n = if self.is_greedy && self.random.one_in(20) {
            server.mint.piece_max()
        } else {
            1 + (self.random.next() % 8) as u32
        };
        let claim = server.claim;
        if let Ok(drawn) = server.mint.draw(boot_ns, n, false) {
            self.judges[claim]
                .judge(drawn, self.in_order)
                .map_err(|why| format!("claim {claim}, server {who} at {} ms: {why}", self.now_ns / MS))?;
            self.given_ns[claim] = self.now_ns;
        }
        Ok(())
    }
}
