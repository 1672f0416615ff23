//! What the mint remembers of the lines of named generators.
//!
//! A line has a place for life: nothing is ever taken out. A generator that was removed and comes back with the same
//! declaration is the same line, and goes on behind itself.
//!
//! Invariant: every unit given begins before `position`, and `position <= watermark`.

use alloc::vec::Vec;

use crate::checks::{Fault, planted};
use crate::line::Line;
use crate::time::Tick;

/// A save is not due for a line's sake.
const NEVER: Tick = Tick(u64::MAX);

/// All lines of a life.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) all: Vec<Line>,
    /// How many of them the disk holds the declaration of: the first ones.
    declared: usize,
    /// How many the save in flight does, or the last one did.
    saving: usize,
    /// IDs given in this life.
    issued: u64,
    /// The first ms after the beginning of every unit that was given.
    position: Tick,
    /// When the unit begins that a draw needs and the watermark does not allow; until the next save is wanted.
    wanted: Tick,
    /// A draw that comes this far makes a save due.
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

    /// Whether there is a line that no save holds yet.
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

    /// At a claim that was retaken.
    pub(super) fn skip_to(&mut self, position: Tick) {
        if !planted(Fault::RetakeForgetsLines) {
            self.all.iter_mut().for_each(|line| line.skip_to(position));
        }
    }

    /// How many the save in flight holds the declaration of, or the last one did: the first ones.
    pub(super) fn in_save(&self) -> usize {
        self.saving
    }

    #[inline]
    pub(super) fn is_declared(&self, line: usize) -> bool {
        line < self.declared || planted(Fault::LineBeforeDeclared)
    }

    /// `n` IDs were given, in units that all begin before `position`. Says whether a save is due.
    #[inline]
    pub(super) fn note_given(&mut self, position: Tick, n: u32) -> bool {
        self.issued += u64::from(n);
        self.position = self.position.max(position);
        position >= self.due_from
    }

    /// The next save is to bring the watermark past `needed`: with a long unit that is further ahead than the lead.
    /// Says whether a save is due.
    pub(super) fn want(&mut self, needed: Tick) -> bool {
        self.wanted = self.wanted.max(needed);
        needed >= self.due_from
    }

    /// No ID was given yet: all begin at `position`.
    pub(super) fn restart(&mut self, position: Tick) {
        self.wanted = Tick(0);
        self.all.iter_mut().for_each(|line| line.start_at(position));
    }
}
