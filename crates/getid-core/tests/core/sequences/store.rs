//! A simulated database: one row, the effects of statements on it, and their delays.

use getid_core::server::{Segment, Spec};

use super::PlantedMistake;
use crate::random::Random;

/// The row of the sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) next: i64,
    pub(super) version: u64,
    pub(super) generation: u64,
    pub(super) spec: Spec,
    pub(super) state: State,
    /// End of the row by the simulated time, ms; 0 for none.
    pub(super) ends_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Live,
    Dropped,
    WentBack,
}

/// A statement for the database.
#[derive(Clone, Debug)]
pub(super) enum Statement {
    Reserve {
        values: u32,
        floor: i64,
    },
    /// `end` is the row's `next` as this server knows it.
    GiveBack {
        version: u64,
        next: i64,
        end: i64,
    },
    Create {
        spec: Spec,
    },
    Raise {
        last: i64,
    },
    /// Sets the options, and raises `next` to at least `next_from`.
    Alter {
        spec: Spec,
        next_from: i64,
    },
    Drop,
    WentBack {
        had_next: i64,
    },
    Confirm,
    /// Sets the end of the row, ms; 0 removes it.
    Expire {
        ends_ms: u64,
    },
    Poll,
}

/// Reply of the database.
#[derive(Clone, Debug)]
pub(super) enum StoreReply {
    Reserved {
        segment: Segment,
        found_next: i64,
        row: Row,
    },
    /// The row after the statement.
    Row(Row),
    NoSuch,
    Refusal(Row),
    Lower,
    /// Reply to a poll: there is no row.
    Nothing,
}

/// Health of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreHealth {
    /// It answers within this time, ms.
    Healthy(u64),
    Slow,
    /// It does not answer; a sent statement may be done much later.
    Dead,
    LosesReplies,
    /// It fails with deadlocks and lock time-outs: nothing is done.
    Refuses,
}

/// Course of a sent statement: when it is done, and when and how the caller gets an answer.
pub(super) struct Fate {
    pub(super) done_ms: Option<u64>,
    pub(super) outcome: CallerAnswer,
}

pub(super) enum CallerAnswer {
    /// The answer arrives this long after it was done, ms.
    Answer(u64),
    /// The database refused it, or the connection broke.
    Error {
        is_unknown: bool,
        at_ms: u64,
    },
    Nothing,
}

#[derive(Debug)]
pub(super) struct Store {
    pub(super) row: Option<Row>,
    pub(super) health: StoreHealth,
    pub(super) now_ms: u64,
    /// When the end of the row was set last.
    end_set_ms: u64,
    /// Rows of earlier times.
    backups: Vec<Option<Row>>,
}

impl Store {
    pub(super) fn new(spec: Spec) -> Store {
        Store { row: Some(fresh(spec)), health: StoreHealth::Healthy(5), now_ms: 0, end_set_ms: 0, backups: vec![None] }
    }

    pub(super) fn fate(&self, now_ms: u64, rng: &mut Random) -> Fate {
        let soon = |rng: &mut Random, most: u64| now_ms + rng.within(0, most);
        match self.health {
            StoreHealth::Healthy(ms) => {
                Fate { done_ms: Some(soon(rng, ms)), outcome: CallerAnswer::Answer(rng.within(0, ms)) }
            }
            StoreHealth::Slow => {
                let done_ms = now_ms + rng.within(10, 4000);
                Fate { done_ms: Some(done_ms), outcome: CallerAnswer::Answer(rng.within(0, 1500)) }
            }
            StoreHealth::Dead => {
                let late = now_ms + rng.within(0, 9000);
                Fate { done_ms: rng.one_in(2).then_some(late), outcome: CallerAnswer::Nothing }
            }
            StoreHealth::LosesReplies => {
                let done_ms = soon(rng, 20);
                let outcome = match rng.below(3) {
                    0 => CallerAnswer::Answer(5),
                    1 => CallerAnswer::Nothing,
                    _ => CallerAnswer::Error { is_unknown: true, at_ms: soon(rng, 20) },
                };
                Fate { done_ms: Some(done_ms), outcome }
            }
            StoreHealth::Refuses => {
                let error = CallerAnswer::Error { is_unknown: false, at_ms: soon(rng, 20) };
                Fate { done_ms: None, outcome: error }
            }
        }
    }

    /// Executes one statement, in a separate transaction.
    pub(super) fn execute(&mut self, statement: &Statement, wrong: Option<PlantedMistake>) -> StoreReply {
        if let Statement::Create { spec } = *statement {
            return self.create(spec);
        }
        if self.row.is_none() && wrong == Some(PlantedMistake::Upsert) && matches!(statement, Statement::Reserve { .. })
        {
            self.row = Some(fresh(Spec::default()));
        }
        if matches!(statement, Statement::Expire { .. }) {
            self.end_set_ms = self.now_ms;
        }
        let now_ms = self.now_ms;
        let Some(row) = &mut self.row else {
            return if matches!(statement, Statement::Poll) { StoreReply::Nothing } else { StoreReply::NoSuch };
        };
        match *statement {
            Statement::Poll => StoreReply::Row(row.clone()),
            Statement::Reserve { .. } if row.state != State::Live => StoreReply::Refusal(row.clone()),
            Statement::Reserve { .. } if row.has_ended(now_ms) => StoreReply::Refusal(row.clone()),
            Statement::Reserve { values, floor } => row.reserve(values, floor),
            Statement::GiveBack { version, next, end } => {
                let is_ours = match wrong {
                    Some(PlantedMistake::GivesBackAnyway) => true,
                    Some(PlantedMistake::GivesBackTwice) => row.next == end,
                    _ => row.version == version,
                };
                if row.state == State::Live && is_ours && next < row.next {
                    row.next = next;
                    row.version += 1;
                }
                StoreReply::Row(row.clone())
            }
            _ if row.state == State::Dropped => StoreReply::Refusal(row.clone()),
            Statement::Drop if wrong == Some(PlantedMistake::DropDeletes) => {
                self.row = None;
                StoreReply::NoSuch
            }
            _ => row.change(statement, wrong),
        }
    }

    fn create(&mut self, spec: Spec) -> StoreReply {
        match &mut self.row {
            None => StoreReply::Row(self.row.insert(fresh(spec)).clone()),
            Some(row) if row.state == State::Dropped => {
                row.next = spec.next_from(row.next);
                (row.spec, row.state, row.ends_ms) = (spec, State::Live, 0);
                (row.version, row.generation) = (row.version + 1, row.generation + 1);
                StoreReply::Row(row.clone())
            }
            Some(row) => StoreReply::Refusal(row.clone()),
        }
    }

    /// Returns true if no server may give values of the row any more: it has ended, and all servers know its end, or
    /// cannot have confirmed anything since.
    pub(super) fn has_ended_everywhere(&self, now_ms: u64, confirm_ms: u64) -> bool {
        self.row.as_ref().is_some_and(|row| row.has_ended(now_ms)) && now_ms >= self.end_set_ms + confirm_ms
    }

    /// Makes a backup, one of which may be restored later.
    pub(super) fn back_up(&mut self) {
        self.backups.push(self.row.clone());
    }

    /// Replaces the state by an older one, as a failover or an operator does.
    pub(super) fn go_back(&mut self, rng: &mut Random) {
        let at = rng.index(self.backups.len());
        self.backups.truncate(at + 1);
        self.row.clone_from(&self.backups[at]);
    }
}

fn fresh(spec: Spec) -> Row {
    Row { next: spec.next_from(spec.start), version: 0, generation: 0, spec, state: State::Live, ends_ms: 0 }
}

impl Row {
    fn has_ended(&self, now_ms: u64) -> bool {
        self.ends_ms > 0 && self.ends_ms <= now_ms
    }

    fn reserve(&mut self, values: u32, floor: i64) -> StoreReply {
        let (spec, found_next) = (self.spec, self.next);
        let increment = i64::from(spec.increment);
        let first = spec.next_from(self.next.max(floor));
        let left = if first > spec.max { 0 } else { (spec.max - first) / increment + 1 };
        let values = left.min(values.into());
        if values > 0 {
            self.next = first + values * increment;
            self.version += 1;
        }
        let segment = Segment { first, last: first + (values - 1) * increment, increment: spec.increment };
        StoreReply::Reserved { segment, found_next, row: self.clone() }
    }

    fn change(&mut self, statement: &Statement, wrong: Option<PlantedMistake>) -> StoreReply {
        let before = self.next;
        let up_to = |row: &mut Row, next: i64| row.next = row.spec.next_from(row.next.max(next));
        match *statement {
            Statement::Raise { last } => {
                up_to(self, last + 1);
                if self.next == before {
                    return StoreReply::Lower;
                }
            }
            Statement::Alter { spec, next_from } => {
                self.spec = spec;
                up_to(self, next_from);
            }
            Statement::Drop => self.state = State::Dropped,
            Statement::WentBack { had_next } => {
                if wrong != Some(PlantedMistake::MarkWithoutARaise) {
                    up_to(self, had_next);
                }
                self.state = State::WentBack;
            }
            Statement::Confirm => self.state = State::Live,
            Statement::Expire { ends_ms } => self.ends_ms = ends_ms,
            Statement::Reserve { .. } | Statement::GiveBack { .. } | Statement::Create { .. } | Statement::Poll => {}
        }
        (self.version, self.generation) = (self.version + 1, self.generation + 1);
        StoreReply::Row(self.clone())
    }
}
