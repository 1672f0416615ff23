//! The mint's data about the lines of named generators.
//!
//! A line has a place for the whole life: none is ever removed. A generator that was removed and returns with the same
//! declaration is the same line, and continues behind its old position.
//!
//! Invariant: every unit given begins before `position`, and `position <= watermark`.

use alloc::vec::Vec;

use crate::checks::{Fault, planted};
use crate::line::Line;
use crate::time::Tick;

/// No save is due because of a line.
const NEVER: Tick = Tick(u64::MAX);

/// All lines of a life.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) all: Vec<Line>,
    /// Number of lines whose declaration the disk has: the first ones.
    declared: usize,
    /// Number of lines in the save in flight, or in the last one.
    saving: usize,
    /// IDs given in this life.
    issued: u64,
    /// The first ms after the beginning of every unit that was given.
    position: Tick,
    /// Beginning of the unit that a draw needs and the watermark does not allow; until the next save is wanted.
    wanted: Tick,
    /// Position from which on a draw makes a save due.
    due_from: Tick,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines {
            all: Vec::new(),
            declared: 0,
            saving: 0,
            issued: 0,
            position: Tick(0),
            wanted: Tick(0),
            due_from: NEVER,
        }
    }
}

impl Lines {
    pub(super) fn issued(&self) -> u64 {
        self.issued
    }

    pub(super) fn position(&self) -> Tick {
        if planted(Fault::LinesAreNotCovered) { Tick(0) } else { self.position }
    }

    pub(super) fn wanted(&self) -> Tick {
        if planted(Fault::LineWantsNothing) { Tick(0) } else { self.wanted }
    }

    /// Returns true if there is a line that no save holds yet.
    pub(super) fn undeclared(&self) -> bool {
        self.declared < self.all.len()
    }

    pub(super) fn set_due_from(&mut self, from: Option<Tick>) {
        self.due_from = from.unwrap_or(NEVER);
    }

    pub(super) fn limit_pieces(&mut self, max_borrow_ms: u64) {
        self.all.iter_mut().for_each(|line| line.limit_pieces(max_borrow_ms));
    }

    pub(super) fn begin_save(&mut self) {
        self.saving = self.all.len();
        self.wanted = Tick(0);
        if planted(Fault::WantedSaveDeclares) {
            self.declared = self.saving;
        }
    }

    pub(super) fn saved(&mut self) {
        self.declared = if planted(Fault::EarlierSaveDeclares) { self.all.len() } else { self.saving };
    }

    /// Moves all lines up after a claim was retaken.
    pub(super) fn skip_to(&mut self, position: Tick) {
        if !planted(Fault::RetakeForgetsLines) {
            self.all.iter_mut().for_each(|line| line.skip_to(position));
        }
    }

    /// Returns the number of lines in the save in flight, or in the last one: the first ones.
    pub(super) fn in_save(&self) -> usize {
        self.saving
    }

    #[inline]
    pub(super) fn is_declared(&self, line: usize) -> bool {
        line < self.declared || planted(Fault::LineBeforeDeclared)
    }

    /// Records that `n` IDs were given, in units that all begin before `position`. Returns whether a save is due.
    #[inline]
    pub(super) fn note_given(&mut self, position: Tick, n: u32) -> bool {
        self.issued += u64::from(n);
        self.position = self.position.max(position);
        position >= self.due_from
    }

    /// Requests that the next save brings the watermark past `needed`, which with a long unit is further ahead than the
    /// lead. Returns whether a save is due.
    pub(super) fn want(&mut self, needed: Tick) -> bool {
        self.wanted = self.wanted.max(needed);
        needed >= self.due_from
    }

    /// Restarts all lines at `position`, before the first ID.
    pub(super) fn restart(&mut self, position: Tick) {
        self.wanted = Tick(0);
        self.all.iter_mut().for_each(|line| line.start_at(position));
    }
}
