//! Model of the shell around [`Sequence`]: deadlines, notes, polls, and what a clean stop gives back. The real shell
//! has threads; the model has one event after the other.

use std::collections::{BTreeMap, VecDeque};

use getid_core::server::{
    Fetch, FetchVerdict, Fetched, RowEnd, Run, Segment, Sequence, SequenceRefusal, SequenceRequest, WaitPolicy,
    WaiterId,
};

use super::PlantedMistake;
use super::oracle::Request;
use super::store::{Row, State, Statement, StoreReply};
use super::world::{CONFIRM_MS, Event, World};

/// Longest duration of a statement, and longest wait of a client, ms.
pub(super) const DEADLINE_MS: u64 = 2000;
pub(super) const WAIT_MS: u64 = 1000;

#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) is_up: bool,
    pub(super) is_stopping: bool,
    /// Whether it has no connection to the stores.
    pub(super) is_cut: bool,
    /// Number of the life: answers to an earlier life are dropped.
    pub(super) life: u32,
    pub(super) sequence: Option<Sequence<u64>>,
    /// Statement of the fetch in flight.
    flight: Option<(u64, Fetch)>,
    waiting: BTreeMap<u64, WaitingClient>,
    /// When the last answered poll was sent, of each store.
    confirmed: Vec<Option<u64>>,
    /// Notes about each store's row, which outlive the process.
    notes: Vec<Option<i64>>,
    /// The note before the sequence was loaded.
    kept: Option<i64>,
    pub(super) job: Option<Job>,
    /// Number of values of fetches, in any life, whose outcome is unknown, so that they may still be done; and of
    /// discarded values.
    unknown: u64,
    /// The last store that did not answer.
    avoided: usize,
}

#[derive(Debug)]
struct WaitingClient {
    waiter: WaiterId,
    request: Request,
    runs: Vec<Run>,
}

/// Statements for an operator's command, one after the other.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) steps: VecDeque<(usize, Statement)>,
    pub(super) raises_to: Option<i64>,
    /// With several stores, held rows are altered in a second step, from the highest of them on.
    pub(super) then_alter: Vec<(usize, getid_core::server::Spec)>,
    pub(super) highest: i64,
    /// Whether it changes the end of the rows.
    pub(super) is_end: bool,
}

/// Purpose of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Fetch,
    Poll,
    /// With the number of fetches begun before it.
    GiveBack {
        fetches: u64,
    },
    Job,
    Mark,
}

/// A statement with a waiting caller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) server: usize,
    pub(super) life: u32,
    pub(super) store: usize,
    pub(super) purpose: Purpose,
    pub(super) sent_ms: u64,
}

impl World {
    pub(super) fn start(&mut self, index: usize) {
        let stores = self.stores.len();
        let server = &mut self.servers[index];
        let notes = if server.notes.is_empty() { vec![None; stores] } else { core::mem::take(&mut server.notes) };
        let (life, is_cut, unknown) = (server.life + 1, server.is_cut, server.unknown);
        let confirmed = vec![None; stores];
        *server = Server { is_up: true, is_cut, life, unknown, notes, confirmed, ..Server::default() };
        self.later(0, Event::Poll { server: index, life });
    }

    /// Kills a process, which loses its held values.
    pub(super) fn kill(&mut self, index: usize) {
        self.check_gap(index);
        let server = &mut self.servers[index];
        server.is_up = false;
        server.unknown += server.flight.map_or(0, |(_, fetch)| u64::from(fetch.values));
        server.sequence = None;
        server.flight = None;
        server.waiting.clear();
        server.job = None;
    }

    /// Checks that a kill skips no more values than the status showed.
    fn check_gap(&mut self, index: usize) {
        let is_calm = !self.oracle.is_strict
            && self.servers.len() == 1
            && self.stores.len() == 1
            && !self.has_operator
            && !self.goes_back;
        let now_ms = self.now_ms;
        let server = &mut self.servers[index];
        let (Some(sequence), Some(row)) = (&mut server.sequence, &self.stores[0].row) else { return };
        let Some(last) = sequence.last_given().filter(|_| is_calm) else { return };
        let status = sequence.status(now_ms);
        let gap = (row.next - last).unsigned_abs() / u64::from(row.spec.increment) - 1;
        let shown = status.left + u64::from(status.asked) + server.unknown;
        assert!(gap <= shown, "{gap} values are skipped, and {shown} were shown: {status:?}, {row:?}");
    }

    /// Refuses all waiting requests, and gives values back once no statement is under way.
    pub(super) fn stop(&mut self, index: usize) {
        let server = &mut self.servers[index];
        server.is_stopping = true;
        server.waiting.clear();
        if let Some(sequence) = &mut server.sequence {
            sequence.refuse(&SequenceRefusal::Closed, &mut |_, _| {});
        }
        if server.flight.is_none() {
            self.finish_stop(index);
        }
    }

    fn finish_stop(&mut self, index: usize) {
        if let Some(sequence) = self.servers[index].sequence.take() {
            self.let_go(index, sequence);
        }
        self.kill(index);
    }

    /// Unloads a sequence.
    pub(super) fn let_go(&mut self, index: usize, mut sequence: Sequence<u64>) {
        let status = sequence.status(self.now_ms);
        let given_back = sequence.give_back();
        if self.is_healthy && self.servers.len() == 1 && self.stores.len() == 1 {
            let values = given_back.map_or(0, |remainder| remainder.values);
            assert_eq!(values, status.left, "a clean stop leaves a gap: {status:?}");
        }
        let (Some(remainder), 1) = (given_back, self.stores.len()) else { return };
        let server = &mut self.servers[index];
        match self.wrong {
            Some(PlantedMistake::NotesAreNotLowered) => {}
            Some(PlantedMistake::NotesAreLoweredTooLittle) => server.notes[0] = Some(remainder.next),
            _ => server.notes[0] = remainder.had_next.or(server.kept),
        }
        let increment = self.stores[0].row.as_ref().map_or(1, |row| i64::from(row.spec.increment));
        let end = remainder.next + i64::try_from(remainder.values).expect("few") * increment;
        let statement = Statement::GiveBack { version: remainder.version, next: remainder.next, end };
        if self.wrong == Some(PlantedMistake::GivesBackTwice) {
            let token = self.token();
            let after_ms = self.rng.within(10, 5000);
            self.later(after_ms, Event::Execute { store: 0, statement: statement.clone(), token, answer: None });
        }
        self.send(index, 0, statement, Purpose::GiveBack { fetches: self.fetches });
    }

    /// Unloads an idle sequence.
    pub(super) fn evict(&mut self, index: usize) {
        let server = &mut self.servers[index];
        if server.waiting.is_empty()
            && server.flight.is_none()
            && let Some(sequence) = server.sequence.take()
        {
            self.let_go(index, sequence);
        }
    }

    fn is_confirmed(&self, index: usize, store: usize) -> bool {
        let at_ms = self.servers[index].confirmed[store];
        !self.is_shared
            || self.wrong == Some(PlantedMistake::GivesUnconfirmed) && at_ms.is_some()
            || at_ms.is_some_and(|at_ms| self.now_ms < at_ms + CONFIRM_MS)
    }

    /// Discards held values of stores that were not reachable for too long. Returns whether there was one.
    fn expire(&mut self, index: usize) -> bool {
        let mut is_any = false;
        for store in 0..self.stores.len() {
            if self.is_confirmed(index, store) {
                is_any = true;
                continue;
            }
            let server = &mut self.servers[index];
            let Some(sequence) = &mut server.sequence else { continue };
            let held = sequence.status(self.now_ms).left;
            sequence.forget_store(u8::try_from(store).expect("few"));
            server.unknown += held - sequence.status(self.now_ms).left;
        }
        is_any
    }

    pub(super) fn ask(&mut self, index: usize, asks: Vec<SequenceRequest>, wait_ms: u64) -> u64 {
        let request = self.oracle.asked(index, self.now_ms, asks);
        let arrival = request.arrival;
        if !self.expire(index) {
            return arrival;
        }
        let server = &mut self.servers[index];
        if server.sequence.is_none() {
            server.kept = server.notes[0];
        }
        let sequence = server.sequence.get_or_insert_with(|| Sequence::new(self.now_ms));
        let (mut runs, mut left) = (vec![], vec![]);
        for ask in &request.asks {
            let times = if left.is_empty() { sequence.draw(self.now_ms, *ask, &mut runs) } else { ask.times };
            if times > 0 {
                left.push(SequenceRequest { times, ..*ask });
            }
        }
        if left.is_empty() {
            self.replied(&request, &runs);
        } else if let Err(refusal) = sequence.may_wait(self.now_ms, &self.policy, &left) {
            self.refused(&request, &refusal);
        } else {
            let waiter = sequence.join(left, arrival);
            server.waiting.insert(arrival, WaitingClient { waiter, request, runs });
            let life = server.life;
            self.later(wait_ms, Event::WaitOver { server: index, life, arrival });
        }
        self.pump(index);
        arrival
    }

    fn replied(&mut self, request: &Request, runs: &[Run]) {
        self.oracle.replied(request, runs);
        let has_ended = self.stores.iter().all(|store| store.has_ended_everywhere(self.now_ms, CONFIRM_MS));
        let is_forgotten = !self.is_shared || self.goes_back;
        assert!(!has_ended || is_forgotten, "{runs:?} were given after the end at {}", self.now_ms);
    }

    fn refused(&mut self, request: &Request, refusal: &SequenceRefusal) {
        let is_policy = self.policy.waits == WaitPolicy::Error;
        let is_busy = match refusal {
            SequenceRefusal::Busy { waited_ms: 0 } => !is_policy,
            SequenceRefusal::Busy { .. } | SequenceRefusal::Store(_) => true,
            _ => false,
        };
        assert!(!(self.is_healthy && is_busy), "the store is well, and {request:?} is refused: {refusal:?}");
        let is_odd = matches!(refusal, SequenceRefusal::WentBack | SequenceRefusal::NoSuch);
        assert!(!(self.is_healthy && !self.has_operator && is_odd), "nothing went back, and {request:?}: {refusal:?}");
        self.refusals += 1;
    }

    pub(super) fn wait_is_over(&mut self, index: usize, arrival: u64, gave_up: bool) {
        let Some(waiting) = self.servers[index].waiting.remove(&arrival) else { return };
        let Some(sequence) = &mut self.servers[index].sequence else { return };
        assert_eq!(sequence.leave(waiting.waiter), Some(arrival), "it waited");
        let refusal = sequence.after_wait(WAIT_MS);
        if !gave_up {
            self.refused(&waiting.request, &refusal);
        }
        self.serve(index);
    }

    pub(super) fn serve(&mut self, index: usize) {
        let is_any = self.expire(index);
        let now_ms = self.now_ms;
        let Server { sequence: Some(sequence), .. } = &mut self.servers[index] else { return };
        let mut served = vec![];
        if is_any {
            sequence.serve(now_ms, &mut |arrival, result| served.push((arrival, result)));
        } else {
            let reason = "not asked".into();
            let refusal = SequenceRefusal::Unconfirmed { ride_out_s: 0, reason };
            sequence.refuse(&refusal, &mut |arrival, result| served.push((arrival, result)));
        }
        for (arrival, result) in served {
            let mut waiting = self.servers[index].waiting.remove(&arrival).expect("it waits");
            match result {
                Ok(runs) => {
                    waiting.runs.extend(runs);
                    self.replied(&waiting.request, &waiting.runs);
                }
                Err(refusal) => self.refused(&waiting.request, &refusal),
            }
        }
        self.pump(index);
    }

    /// Begins a fetch, if one is wanted.
    pub(super) fn pump(&mut self, index: usize) {
        let stores = self.stores.len();
        let avoided = self.servers[index].avoided;
        let first = if self.rng.one_in(4) { self.rng.index(stores) } else { (avoided + 1) % stores };
        let Some(store) = (0..stores).map(|n| (first + n) % stores).find(|&n| self.is_confirmed(index, n)) else {
            return;
        };
        let server = &mut self.servers[index];
        if !server.is_up || server.is_stopping {
            return;
        }
        let Some(sequence) = &mut server.sequence else { return };
        if let Some(fetch) = sequence.begin_fetch(self.now_ms, &self.policy) {
            // Not below values that an earlier life had from any store either.
            let had = server.notes.iter().flatten().max().copied().unwrap_or(0);
            let had = if self.wrong == Some(PlantedMistake::FloorForgetsEarlierLives) { 0 } else { had };
            let floor = if stores == 1 { 0 } else { fetch.floor.max(had) };
            let token = self.send(index, store, Statement::Reserve { values: fetch.values, floor }, Purpose::Fetch);
            self.servers[index].flight = Some((token, fetch));
            self.fetches += 1;
        } else if let Some(at_ms) = sequence.retry_at_ms() {
            let life = server.life;
            self.later(at_ms.saturating_sub(self.now_ms).max(1), Event::Pump { server: index, life });
        }
    }

    pub(super) fn poll(&mut self, index: usize) {
        if !self.is_shared {
            return;
        }
        for store in 0..self.stores.len() {
            self.send(index, store, Statement::Poll, Purpose::Poll);
        }
        let life = self.servers[index].life;
        self.later(1000, Event::Poll { server: index, life });
    }

    pub(super) fn answered(&mut self, token: u64, call: Call, reply: StoreReply) {
        let Call { server: index, store, .. } = call;
        match call.purpose {
            Purpose::Fetch => self.fetched(index, store, token, reply),
            Purpose::Poll => {
                if let StoreReply::Row(row) = reply
                    && self.wrong != Some(PlantedMistake::PollsAreIgnored)
                {
                    self.learn(index, store, row.generation);
                }
                // From the sending of the poll: it does not cover later changes.
                self.servers[index].confirmed[store] = Some(call.sent_ms);
                self.serve(index);
            }
            Purpose::GiveBack { .. } => {}
            Purpose::Mark => {
                if let StoreReply::Row(row) = reply {
                    self.learn(index, store, row.generation);
                    self.serve(index);
                }
            }
            Purpose::Job => self.job_answered(index, store, reply),
        }
    }

    /// Records the own change of a row's end.
    fn end_changed(&mut self, index: usize, store: usize, row: &Row) {
        let Some(sequence) = &mut self.servers[index].sequence else { return };
        sequence.end_changed(u8::try_from(store).expect("few"), row.version, row.generation, end_of(row));
    }

    fn learn(&mut self, index: usize, store: usize, generation: u64) {
        if let Some(sequence) = &mut self.servers[index].sequence {
            sequence.set_generation(u8::try_from(store).expect("few"), generation);
        }
    }

    pub(super) fn failed(&mut self, token: u64, call: Call, is_unknown: bool) {
        let server = &mut self.servers[call.server];
        server.avoided = call.store;
        match call.purpose {
            Purpose::Fetch => {
                let Some((_, fetch)) = server.flight.filter(|(own, _)| *own == token) else { return };
                if is_unknown {
                    server.unknown += u64::from(fetch.values);
                }
                if is_unknown && self.wrong == Some(PlantedMistake::UsesRangeOfLostReply) {
                    self.guess(call.server, call.store, token, fetch);
                } else {
                    self.deliver(call.server, Fetched::Failed { is_unknown, reason: "lost".into() });
                }
            }
            Purpose::Job => server.job = None,
            Purpose::Poll | Purpose::GiveBack { .. } | Purpose::Mark => {}
        }
    }

    /// Simulates a shell that computes the content of a lost reply.
    fn guess(&mut self, index: usize, store: usize, token: u64, fetch: Fetch) {
        let Some(mut row) = self.stores[store].row.clone() else {
            self.deliver(index, Fetched::Failed { is_unknown: true, reason: "lost".into() });
            return;
        };
        let first = row.spec.next_from(fetch.floor);
        let last = first + i64::from(fetch.values - 1) * i64::from(row.spec.increment);
        row.next = last + i64::from(row.spec.increment);
        let segment = Segment { first, last, increment: row.spec.increment };
        self.fetched(index, store, token, StoreReply::Reserved { segment, found_next: first, row });
    }

    fn fetched(&mut self, index: usize, store: usize, token: u64, reply: StoreReply) {
        let server = &mut self.servers[index];
        if server.flight.is_none_or(|(own, _)| own != token) {
            return;
        }
        let note = &mut server.notes[store];
        let answer = match reply {
            StoreReply::Reserved { segment, found_next, row } => {
                let had = note.filter(|had| found_next < *had && self.wrong != Some(PlantedMistake::NotesAreIgnored));
                if let Some(had_next) = had.filter(|_| self.is_shared) {
                    self.send(index, store, Statement::WentBack { had_next }, Purpose::Mark);
                    Fetched::Refused(SequenceRefusal::WentBack)
                } else {
                    // At the max it has no values of the row: other servers may give theirs back.
                    if segment.left() > 0 || self.wrong == Some(PlantedMistake::NotesWhatOthersHave) {
                        *note = Some(row.next);
                    }
                    let is_read = self.wrong != Some(PlantedMistake::EndIsNotRead);
                    let (store, end) = (u8::try_from(store).expect("few"), end_of(&row).filter(|_| is_read));
                    let Row { version, generation, spec, .. } = row;
                    Fetched::Reserved { store, segment, version, generation, spec, end }
                }
            }
            StoreReply::Refusal(row) if row.state == State::WentBack => {
                // Other servers have found it lower than this server had it, or higher.
                if let Some(had_next) = note.filter(|had| row.next < *had) {
                    self.send(index, store, Statement::WentBack { had_next }, Purpose::Mark);
                }
                Fetched::Refused(SequenceRefusal::WentBack)
            }
            StoreReply::Refusal(row) if row.state == State::Live => {
                Fetched::Refused(SequenceRefusal::Ended { unix_ms: row.ends_ms.cast_signed() })
            }
            StoreReply::Refusal(row) => Fetched::Refused(SequenceRefusal::Dropped { last: row.next }),
            _ => Fetched::Refused(SequenceRefusal::NoSuch),
        };
        let answer = if self.is_confirmed(index, store) {
            answer
        } else {
            // Its reserved values are discarded.
            let server = &mut self.servers[index];
            server.unknown += server.flight.map_or(0, |(_, fetch)| u64::from(fetch.values));
            Fetched::Failed { is_unknown: true, reason: "not asked".into() }
        };
        if let Some(floor) = self.deliver(index, answer) {
            self.send(index, store, Statement::WentBack { had_next: floor }, Purpose::Mark);
            self.deliver(index, Fetched::Refused(SequenceRefusal::WentBack));
        }
    }

    /// Passes the outcome of its fetch to the sequence. Returns the floor if the reservation is below it.
    fn deliver(&mut self, index: usize, answer: Fetched) -> Option<i64> {
        let now_ms = self.now_ms;
        let server = &mut self.servers[index];
        let sequence = server.sequence.as_mut().expect("it has a fetch in flight");
        if let FetchVerdict::Backwards { floor } = sequence.fetched(now_ms, answer) {
            return Some(floor);
        }
        server.flight = None;
        self.serve(index);
        if self.servers[index].is_stopping {
            self.finish_stop(index);
        }
        None
    }

    pub(super) fn job_goes_on(&mut self, index: usize) {
        let Some(job) = &mut self.servers[index].job else { return };
        if let Some((store, statement)) = job.steps.pop_front() {
            self.send(index, store, statement, Purpose::Job);
            return;
        }
        if !job.then_alter.is_empty() {
            let next_from = job.highest;
            for (store, spec) in core::mem::take(&mut job.then_alter) {
                job.steps.push_back((store, Statement::Alter { spec, next_from }));
            }
            (0..self.stores.len()).for_each(|store| job.steps.push_back((store, Statement::Confirm)));
            return self.job_goes_on(index);
        }
        let raises_to = job.raises_to;
        self.servers[index].job = None;
        if let Some(last) = raises_to {
            if let Some(sequence) = &mut self.servers[index].sequence {
                sequence.note_given(last);
            }
            let confirm_ms = if self.is_shared { CONFIRM_MS } else { 0 };
            self.oracle.raised(index, last, self.now_ms, confirm_ms);
        }
    }

    fn job_answered(&mut self, index: usize, store: usize, reply: StoreReply) {
        match reply {
            StoreReply::Row(row) => {
                if self.servers[index].job.as_ref().is_some_and(|job| job.is_end) {
                    self.end_changed(index, store, &row);
                } else {
                    self.learn(index, store, row.generation);
                }
                let server = &mut self.servers[index];
                if self.wrong != Some(PlantedMistake::RaiseIsNotNoted) {
                    server.notes[store] = server.notes[store].max(Some(row.next));
                }
                if let Some(job) = &mut server.job {
                    job.highest = job.highest.max(row.next);
                }
                self.serve(index);
                self.job_goes_on(index);
            }
            StoreReply::Lower if self.wrong == Some(PlantedMistake::RaiseForgetsHigherRows) => self.job_goes_on(index),
            _ => self.servers[index].job = None,
        }
    }

    pub(super) fn is_waiting(&self, index: usize, arrival: u64) -> bool {
        self.servers[index].waiting.contains_key(&arrival)
    }
}

/// Returns the end of a row. The simulated time is that of all clocks.
fn end_of(row: &Row) -> Option<RowEnd> {
    (row.ends_ms > 0).then_some(RowEnd { unix_ms: row.ends_ms.cast_signed(), at_ms: row.ends_ms })
}
