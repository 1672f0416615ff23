//! A few servers, one claim, one store, and a network that loses and delays: every possible next event is an
//! [`Action`]. The servers' machine is the real one; of the mint the model has a position, a gate and a hold.
//!
//! One step of time is a millisecond. A server gives all that it may at once. Giving less leaves more to do harm with
//! later, and the search covers both, because giving is an action that may come at any time.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use getid_core::server::checks::{Fault, plant, planted};
use getid_core::server::claim::{
    ClaimEvent, ClaimLoss, ClaimOptions, ClaimRequest, ClaimSnapshot, Claimant, Clocks, Hold, ReadAnswer, RecordWrite,
    Stamp, StandbyReason, StoreAction, TakeCause, WriteAnswer,
};
use getid_core::{Epoch, SavePoint, Tick};

/// `claim-timeout-ms` of all servers.
const TIMEOUT_MS: u64 = 4;
/// B and the lead of all servers, ms.
const BORROW_MS: u64 = 4;
const LEAD_MS: u64 = 4;

/// Bounds of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    pub(super) servers: u8,
    /// Whether the first server has the claim already.
    pub(super) is_claimed: bool,
    /// A server that has seen this many beats writes no more.
    pub(super) beats: u64,
    /// End of the search, ms.
    pub(super) end_ms: u8,
    /// How many of each kind of event may happen.
    pub(super) losses: u8,
    pub(super) crashes: u8,
    pub(super) releases: u8,
    pub(super) takes: u8,
    pub(super) rollbacks: u8,
    /// A start begins this much past R + B, ms.
    pub(super) slack_ms: u64,
    /// Rate of each server's clocks, percent, and how far its wall clock is ahead, ms.
    pub(super) clocks: [(u64, i64); 3],
    pub(super) fault: Option<Fault>,
    /// Events that were met, a bit for each.
    pub(super) met: &'static AtomicU16,
}

impl Scope {
    fn met(&self, met: MetEvent) {
        self.met.fetch_or(1 << met as u16, Relaxed);
    }

    pub(super) fn has_met(&self, met: MetEvent) -> bool {
        self.met.load(Relaxed) & 1 << met as u16 != 0
    }

    /// Returns the same scope with this mistake planted.
    pub(super) fn with(self, fault: Fault) -> Scope {
        Scope { fault: Some(fault), ..self }
    }

    /// Returns a scope with nothing but time and two servers.
    pub(super) fn calm() -> Scope {
        Scope {
            servers: 2,
            is_claimed: false,
            beats: 6,
            end_ms: 6,
            losses: 0,
            crashes: 0,
            releases: 0,
            takes: 0,
            rollbacks: 0,
            slack_ms: 0,
            clocks: [(100, 0); 3],
            fault: None,
            met: Box::leak(Box::default()),
        }
    }
}

/// State of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) now_ms: u8,
    store: Option<ClaimSnapshot>,
    /// The record before the last write, and before the one before it.
    older: [Option<ClaimSnapshot>; 2],
    pub(super) servers: Vec<Server>,
    /// Ticks that were given, a bit for each.
    given: u128,
    pub(super) left: FaultBudget,
    pub(super) wrong: Option<Violation>,
}

/// Number of faults that may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FaultBudget {
    losses: u8,
    crashes: u8,
    releases: u8,
    takes: u8,
    rollbacks: u8,
}

/// Returns the start of a mint that has taken a claim, as in `Mint::new` and `Mint::claim_retaken`.
fn first_tick(found: SavePoint, reference: u64, slack_ms: u64) -> u64 {
    let watermark = if planted(Fault::StartForgetsWatermark) { 0 } else { found.watermark.0 };
    let ahead_ms = if planted(Fault::StartsAtClock) { 0 } else { BORROW_MS.max(found.max_borrow_ms) + slack_ms };
    watermark.max(reference + ahead_ms)
}

/// Violations that must never occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Violation {
    /// A tick was given twice.
    Twice,
    /// A tick was given after a later one.
    Late,
    /// Two servers may give the same ticks.
    Overlap,
    /// A server believes that it has a claim which the store never had under its name.
    Imagined,
}

/// Events that a search must have met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetEvent {
    Silent,
    Free,
    SameFolder,
    Late,
    Resumed,
    LostToAnother,
    LostOnPurpose,
    WroteItselfIn,
    RefusedAnOldStore,
    LandedLate,
}

impl MetEvent {
    pub(super) const ALL: [MetEvent; 10] = [
        MetEvent::Silent,
        MetEvent::Free,
        MetEvent::SameFolder,
        MetEvent::Late,
        MetEvent::Resumed,
        MetEvent::LostToAnother,
        MetEvent::LostOnPurpose,
        MetEvent::WroteItselfIn,
        MetEvent::RefusedAnOldStore,
        MetEvent::LandedLate,
    ];
}

/// A server: its folder outlives its processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    lives: u8,
    noted_beat: u64,
    process: Option<Process>,
    /// Writes that are still in the network though their sender has given up.
    late: Vec<RecordWrite>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    machine: Claimant,
    mint: Mint,
    call: Call,
    /// Whether it has asked in this millisecond. It asks once, except when it must act at once.
    asked: bool,
    stops: bool,
    /// Whether the machine must be asked again at once.
    is_ready: bool,
    /// Whether the store has had a record of this process.
    landed: bool,
}

/// The part of a mint that the model needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Mint {
    term: u64,
    position: u64,
    /// The saved watermark; 0: none of this term.
    gate: u64,
    hold: Option<Hold>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Call {
    None,
    Sent { action: StoreAction, at: Clocks },
    Read { answer: ReadAnswer, sent: Clocks },
    Wrote { answer: WriteAnswer, sent: Clocks },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Pass,
    /// A server calls its machine, and sends the result.
    Ask(u8),
    /// A server stops: the last act.
    Stop(u8),
    /// The request reaches the store, which executes it.
    Reach(u8),
    /// The answer reaches the server.
    Answer(u8),
    /// The request or its answer is lost; the request may arrive later still.
    Lose(u8),
    /// A cancelled request arrives.
    Land(u8),
    Give(u8),
    Crash(u8),
    Start(u8),
    /// An operator releases the claim, whichever server has it.
    TakeAway,
    /// The store loses its last two writes.
    RollBack,
}

const OPERATOR: u128 = 999;

impl World {
    pub(super) fn new(scope: &Scope) -> World {
        let free = ClaimSnapshot {
            stamp: Stamp { writer: OPERATOR, beat: 1 },
            holder: None,
            timeout_ms: TIMEOUT_MS,
            point: SavePoint::NOTHING,
            is_this_folder: false,
            is_moved: false,
        };
        let mut world = World {
            now_ms: 0,
            store: Some(free),
            older: [Some(free); 2],
            servers: vec![],
            given: 0,
            left: FaultBudget {
                losses: scope.losses,
                crashes: scope.crashes,
                releases: scope.releases,
                takes: scope.takes,
                rollbacks: scope.rollbacks,
            },
            wrong: None,
        };
        for number in 0..scope.servers {
            world.servers.push(Server { lives: 0, noted_beat: 0, process: None, late: vec![] });
            world.start(scope, number);
            if number == 0 && scope.is_claimed {
                world.work_off(scope, 0);
                world.older = [world.store; 2];
            }
        }
        world
    }

    fn start(&mut self, scope: &Scope, number: u8) {
        let server = &mut self.servers[usize::from(number)];
        server.lives += 1;
        let options = ClaimOptions {
            timeout_ms: TIMEOUT_MS,
            max_ahead_ms: 0,
            max_behind_ms: 0,
            takes_any: false,
            creates: false,
            epoch: Epoch::from_unix_ms(0).unwrap(),
        };
        let me = u128::from(number) * 10 + u128::from(server.lives);
        server.process = Some(Process {
            machine: Claimant::new(me, options, server.noted_beat, None),
            mint: Mint::default(),
            call: Call::None,
            asked: false,
            stops: false,
            is_ready: false,
            landed: false,
        });
        self.look(scope, number);
    }

    fn clocks(&self, scope: &Scope, number: u8) -> Clocks {
        let (percent, ahead_ms) = scope.clocks[usize::from(number)];
        let passed_ns = u64::from(self.now_ms) * percent * 10_000;
        let ns = 1_000_000_000 + passed_ns;
        let wall_ms = 10 + ahead_ms + i64::try_from(passed_ns / 1_000_000).unwrap();
        Clocks { boot_ns: ns, raw_ns: ns, wall_ms }
    }

    fn count(&self) -> u8 {
        u8::try_from(self.servers.len()).unwrap()
    }

    /// Returns R of a server, which is its wall clock.
    fn reference(&self, scope: &Scope, number: u8) -> u64 {
        u64::try_from(self.clocks(scope, number).wall_ms).unwrap()
    }

    pub(super) fn actions(&self, scope: &Scope, actions: &mut Vec<Action>) {
        if self.wrong.is_some() {
            return;
        }
        if self.now_ms < scope.end_ms {
            actions.push(Action::Pass);
        }
        for (number, server) in (0..).zip(&self.servers) {
            self.actions_of(scope, number, server, actions);
        }
        if self.left.takes > 0 && self.store.is_some_and(|seen| seen.holder.is_some()) {
            actions.push(Action::TakeAway);
        }
        if self.left.rollbacks > 0 && self.older[1] != self.store {
            actions.push(Action::RollBack);
        }
    }

    fn actions_of(&self, scope: &Scope, number: u8, server: &Server, actions: &mut Vec<Action>) {
        if !server.late.is_empty() {
            actions.push(Action::Land(number));
        }
        let Some(process) = &server.process else {
            actions.push(Action::Start(number));
            return;
        };
        match &process.call {
            Call::None
                if process.machine.noted_beat() < scope.beats
                    && (process.is_ready || (!process.asked && process.machine.is_holder())) =>
            {
                actions.push(Action::Ask(number));
                if self.left.releases > 0 && process.machine.is_holder() && !process.stops {
                    actions.push(Action::Stop(number));
                }
            }
            Call::None => {}
            Call::Sent { .. } => actions.push(Action::Reach(number)),
            Call::Read { .. } | Call::Wrote { .. } => actions.push(Action::Answer(number)),
        }
        if self.left.losses > 0 && process.call != Call::None {
            actions.push(Action::Lose(number));
        }
        if self.may_give(scope, number).is_some() {
            actions.push(Action::Give(number));
        }
        if self.left.crashes > 0 {
            actions.push(Action::Crash(number));
        }
    }

    /// Returns the ticks that a server may give now.
    fn may_give(&self, scope: &Scope, number: u8) -> Option<(u64, u64)> {
        let process = self.servers[usize::from(number)].process.as_ref()?;
        let mint = &process.mint;
        let is_held = mint.hold.is_some_and(|hold| !hold.is_over(self.clocks(scope, number)));
        let reference = self.reference(scope, number);
        let first = mint.position.max(reference);
        // One more than R + B: a step of time is large here, and a start costs a mint no wait.
        let end = mint.gate.min(reference + BORROW_MS + 1);
        (is_held && !process.stops && first < end).then_some((first, end))
    }

    pub(super) fn next(&self, scope: &Scope, action: Action) -> World {
        let _planted = scope.fault.map(plant);
        let mut next = self.clone();
        match action {
            Action::Pass => next.pass(scope),
            Action::Ask(number) => next.ask(scope, number, false),
            Action::Stop(number) => next.ask(scope, number, true),
            Action::Reach(number) => next.reach(scope, number),
            Action::Answer(number) => next.answer(scope, number),
            Action::Lose(number) => next.lose(scope, number),
            Action::Land(number) => {
                let write = next.servers[usize::from(number)].late.remove(0);
                if next.write(scope, number, write) == WriteAnswer::Done {
                    scope.met(MetEvent::LandedLate);
                }
            }
            Action::Give(number) => next.give(scope, number),
            Action::Crash(number) => {
                next.left.crashes -= 1;
                next.crash(number);
            }
            Action::Start(number) => next.start(scope, number),
            Action::TakeAway => next.take_away(scope),
            Action::RollBack => {
                next.left.rollbacks -= 1;
                next.store = next.older[1];
                next.older = [next.store; 2];
            }
        }
        next.check_overlap();
        next
    }

    fn process(&mut self, number: u8) -> &mut Process {
        self.servers[usize::from(number)].process.as_mut().expect("a live server")
    }

    fn ask(&mut self, scope: &Scope, number: u8, stops: bool) {
        let at = self.clocks(scope, number);
        let reference = self.reference(scope, number);
        self.left.releases -= u8::from(stops);
        let process = self.process(number);
        process.stops |= stops;
        process.asked = true;
        process.is_ready = false;
        let mint = &process.mint;
        let point =
            |watermark| SavePoint { watermark: Tick(watermark), reference: Tick(reference), max_borrow_ms: BORROW_MS };
        let ask = if process.stops {
            ClaimRequest::Release { point: point(mint.position), term: mint.term }
        } else {
            // As in the mint's policy: a lead, but hardly past R + B, or it would grow with each start.
            let wanted = (mint.position.max(reference) + LEAD_MS).min(reference + BORROW_MS + 1);
            ClaimRequest::Save { point: point(wanted.max(mint.position + 1)), term: mint.term }
        };
        match process.machine.next_action(ask) {
            StoreAction::Nothing => {}
            StoreAction::Read if scope.losses == 0 => {
                process.call = Call::Sent { action: StoreAction::Read, at };
                self.reach(scope, number);
                self.answer(scope, number);
            }
            action => process.call = Call::Sent { action, at },
        }
    }

    fn pass(&mut self, scope: &Scope) {
        self.now_ms += 1;
        for number in 0..scope.servers {
            let (now, reference) = (self.clocks(scope, number), self.reference(scope, number));
            let Some(process) = &mut self.servers[usize::from(number)].process else { continue };
            process.asked = false;
            // Equivalent states are made equal.
            let mint = &mut process.mint;
            mint.position = mint.position.max(reference);
            mint.hold = mint.hold.filter(|hold| !hold.is_over(now));
        }
        for number in 0..scope.servers {
            self.look(scope, number);
        }
    }

    /// A standby reads in no time: the result may be old before it is used anyway.
    fn look(&mut self, scope: &Scope, number: u8) {
        let at = self.clocks(scope, number);
        let Some(process) = &mut self.servers[usize::from(number)].process else { return };
        if process.call != Call::None || process.machine.is_holder() || process.is_ready {
            return;
        }
        if process.machine.next_action(ClaimRequest::Watch) == StoreAction::Read {
            process.call = Call::Sent { action: StoreAction::Read, at };
            self.reach(scope, number);
            self.answer(scope, number);
        }
    }

    fn reach(&mut self, scope: &Scope, number: u8) {
        let Call::Sent { action, at } = self.process(number).call.clone() else { return };
        let call = match action {
            StoreAction::Write(write) => {
                let answer = self.write(scope, number, write);
                // Standbys see it at once: the sooner they do, the sooner they take over.
                (0..self.count()).filter(|&other| other != number).for_each(|other| self.look(scope, other));
                Call::Wrote { answer, sent: at }
            }
            StoreAction::Read | StoreAction::Nothing => {
                let answer =
                    self.store.map_or(ReadAnswer::Missing, |seen| ReadAnswer::Record(self.as_seen_by(number, seen)));
                Call::Read { answer, sent: at }
            }
        };
        self.process(number).call = call;
    }

    /// Executes a write in the store.
    fn write(&mut self, scope: &Scope, number: u8, write: RecordWrite) -> WriteAnswer {
        if self.store.map(|seen| seen.stamp) != write.expect {
            return WriteAnswer::Conflict(self.store.map(|seen| self.as_seen_by(number, seen)));
        }
        self.keep_older(scope);
        self.store = Some(write.leaves());
        if let Some(process) = &mut self.servers[usize::from(number)].process
            && process.machine.own_id() == write.new.writer
        {
            process.landed = true;
        }
        WriteAnswer::Done
    }

    fn keep_older(&mut self, scope: &Scope) {
        if scope.rollbacks > 0 {
            self.older = [self.store, self.older[0]];
        }
    }

    fn as_seen_by(&self, number: u8, seen: ClaimSnapshot) -> ClaimSnapshot {
        let me = self.servers[usize::from(number)].process.as_ref().map(|process| process.machine.own_id());
        let is_this_folder = seen.holder.is_some_and(|holder| holder / 10 == u128::from(number) && Some(holder) != me);
        ClaimSnapshot { is_this_folder, ..seen }
    }

    fn answer(&mut self, scope: &Scope, number: u8) {
        let now = self.clocks(scope, number);
        let process = self.process(number);
        let event = match std::mem::replace(&mut process.call, Call::None) {
            Call::Read { answer, sent } => process.machine.read(sent, now, answer),
            Call::Wrote { answer, sent } => process.machine.wrote(sent, now, answer),
            Call::None | Call::Sent { .. } => return,
        };
        self.happens(scope, number, event);
    }

    fn lose(&mut self, scope: &Scope, number: u8) {
        self.left.losses -= 1;
        let now = self.clocks(scope, number);
        let server = &mut self.servers[usize::from(number)];
        let Some(process) = &mut server.process else { return };
        let event = match std::mem::replace(&mut process.call, Call::None) {
            Call::Sent { action: StoreAction::Write(write), at } => {
                server.late.push(write);
                process.machine.wrote(at, now, WriteAnswer::Unknown)
            }
            Call::Wrote { sent, .. } => process.machine.wrote(sent, now, WriteAnswer::Unknown),
            Call::Sent { at, .. } => process.machine.read(at, now, ReadAnswer::Failed),
            Call::Read { sent, .. } => process.machine.read(sent, now, ReadAnswer::Failed),
            Call::None => return,
        };
        self.happens(scope, number, event);
    }

    /// Applies an event to the server.
    fn happens(&mut self, scope: &Scope, number: u8, event: ClaimEvent) {
        let reference = self.reference(scope, number);
        let process = self.process(number);
        let (noted_beat, term) = (process.machine.noted_beat(), process.machine.term());
        let mut met = None;
        let mut wrong = None;
        match event {
            ClaimEvent::Again => process.is_ready = true,
            ClaimEvent::WritesItselfIn { .. } => {
                process.is_ready = true;
                met = Some(MetEvent::WroteItselfIn);
            }
            ClaimEvent::Saved { point, hold } => {
                process.mint.gate = point.watermark.0;
                process.mint.hold = Some(hold);
            }
            ClaimEvent::Taken { found, cause } => {
                let found = found.unwrap_or(SavePoint::NOTHING);
                let others = first_tick(found, reference, scope.slack_ms);
                let position = process.mint.position.max(others);
                process.mint = Mint { term, position, gate: 0, hold: None };
                process.is_ready = true;
                if !process.landed {
                    wrong = Some(Violation::Imagined);
                }
                met = Some(match cause {
                    TakeCause::Silent(_) => MetEvent::Silent,
                    TakeCause::Free | TakeCause::New => MetEvent::Free,
                    TakeCause::SameFolder => MetEvent::SameFolder,
                    TakeCause::Resumed => MetEvent::Resumed,
                    TakeCause::Late => MetEvent::Late,
                });
            }
            ClaimEvent::Lost(loss) => {
                process.mint.gate = 0;
                met = match loss {
                    ClaimLoss::TakenBy(_) => Some(MetEvent::LostToAnother),
                    ClaimLoss::ReleasedBy(_) => Some(MetEvent::LostOnPurpose),
                    ClaimLoss::WentBack { .. } => Some(MetEvent::RefusedAnOldStore),
                    ClaimLoss::Moved | ClaimLoss::Gone => None,
                };
            }
            ClaimEvent::Standby(StandbyReason::WentBack { .. }) => met = Some(MetEvent::RefusedAnOldStore),
            ClaimEvent::Standby(_) | ClaimEvent::Away | ClaimEvent::Released => {}
        }
        let server = &mut self.servers[usize::from(number)];
        server.noted_beat = server.noted_beat.max(noted_beat);
        if event == ClaimEvent::Released
            || server.process.as_ref().is_some_and(|it| it.stops && !it.machine.is_holder())
        {
            server.process = None;
        }
        if let Some(met) = met {
            scope.met(met);
        }
        self.wrong = self.wrong.or(wrong);
    }

    fn crash(&mut self, number: u8) {
        let server = &mut self.servers[usize::from(number)];
        if let Some(Process { call: Call::Sent { action: StoreAction::Write(write), .. }, .. }) = server.process.take()
        {
            server.late.push(write);
        }
    }

    fn take_away(&mut self, scope: &Scope) {
        self.left.takes -= 1;
        let Some(seen) = self.store else { return };
        self.keep_older(scope);
        let stamp = Stamp { writer: OPERATOR, beat: seen.stamp.beat + 1 };
        self.store = Some(ClaimSnapshot { stamp, holder: None, ..seen });
    }

    fn give(&mut self, scope: &Scope, number: u8) {
        let Some((first, end)) = self.may_give(scope, number) else { return };
        let ticks: u128 = (1 << end) - (1 << first);
        if self.given & ticks != 0 {
            self.wrong = Some(Violation::Twice);
        } else if self.given >= 1 << first {
            self.wrong = Some(Violation::Late);
        }
        self.given |= ticks;
        if scope.takes == 0 {
            // No lower tick may be given any more: states that differ only below are equivalent.
            self.given |= (1 << first) - 1;
        }
        self.process(number).mint.position = end;
    }

    /// Checks that no two mints have a tick in common that both may give, now or after a renewal of their holds.
    fn check_overlap(&mut self) {
        let range = |server: &Server| {
            let process = server.process.as_ref()?;
            let mint = &process.mint;
            (mint.position < mint.gate && !process.stops).then_some((mint.position, mint.gate))
        };
        let ranges: Vec<_> = self.servers.iter().filter_map(range).collect();
        for (n, one) in ranges.iter().enumerate() {
            if ranges[..n].iter().any(|other| one.0 < other.1 && other.0 < one.1) {
                self.wrong = self.wrong.or(Some(Violation::Overlap));
            }
        }
    }

    /// Returns true if some server gives IDs within three time-outs, provided that from here on nothing fails and all
    /// act in turn.
    pub(super) fn comes_to_give(&self, scope: &Scope) -> bool {
        let scope = &Scope { beats: u64::MAX, ..*scope };
        let mut world = self.clone();
        for _ in 0..3 * TIMEOUT_MS {
            for number in 0..scope.servers {
                if world.servers[usize::from(number)].process.is_none() {
                    world.start(scope, number);
                }
                world.work_off(scope, number);
            }
            if world.given != self.given {
                return true;
            }
            world.pass(scope);
        }
        false
    }

    /// Returns true for one state in `some`, the same ones in each run.
    pub(super) fn is_one_of(&self, some: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish().is_multiple_of(some)
    }

    /// Returns a step of `seed`'s walk; `None`: no action is left.
    pub(super) fn walk(&self, scope: &Scope, seed: u64) -> Option<World> {
        let mut actions = vec![];
        self.actions(scope, &mut actions);
        let count = u64::try_from(actions.len()).ok().filter(|&count| count > 0)?;
        Some(self.next(scope, actions[usize::try_from(seed % count).ok()?]))
    }

    fn work_off(&mut self, scope: &Scope, number: u8) {
        for _ in 0..8 {
            let mut actions = vec![];
            let server = &self.servers[usize::from(number)];
            self.actions_of(scope, number, server, &mut actions);
            let wanted = |action: &Action| {
                !matches!(action, Action::Stop(_) | Action::Lose(_) | Action::Crash(_) | Action::Land(_))
            };
            let Some(action) = actions.into_iter().rev().find(wanted) else { return };
            *self = self.next(scope, action);
        }
    }
}
