//! A server as its keeper sees it: the mint, the machine of its claim, and one call of the store at a time.

use getid_core::server::claim::{
    ClaimEvent, ClaimOptions, ClaimRequest, ClaimSnapshot, Claimant, Clocks, ReadAnswer, StoreAction, WriteAnswer,
};
use getid_core::{Epoch, Layout, Limits, Mint, SavePoint};

use crate::clock::MachineClock;
use crate::store::Row;

/// Settings of a story for all its servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) timeout_ms: u64,
    pub(crate) limits: Limits,
}

/// Returns a layout with few IDs a ms, so that the borrow limit is reached.
pub(crate) fn layout() -> Layout {
    Layout::new(Epoch::DEFAULT, 10, 1, 10).expect("they sum to 21")
}

/// A machine with its folder, and the process that runs there.
pub(crate) struct Server {
    pub(crate) claim: usize,
    /// Number of its folder, on this boot.
    pub(crate) folder: u64,
    pub(crate) clock: MachineClock,
    pub(crate) claimant: Claimant,
    pub(crate) mint: Mint,
    setup: Setup,
    /// The term that the mint has.
    term: u64,
    /// The save that the mint waits for.
    saving: Option<SavePoint>,
    ask: ClaimRequest,
    pub(crate) call: Option<Call>,
    /// Whether the process runs.
    pub(crate) is_up: bool,
    /// End of a pause of the process, ns.
    pub(crate) paused_until_ns: u64,
    /// End of the time in which its requests do not reach the store, ns.
    pub(crate) cut_to_ns: u64,
    /// End of the time in which the store's answers do not reach it, ns.
    pub(crate) cut_from_ns: u64,
    pub(crate) next_beat_ns: u64,
    /// Whether it ends with the next answer: a clean stop.
    pub(crate) is_stopping: bool,
    pub(crate) takeovers: u64,
    pub(crate) losses: u64,
}

/// A call of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) number: u64,
    pub(crate) action: StoreAction,
    pub(crate) sent: Clocks,
}

/// Result of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// The record, from a read.
    Row(Row),
    Written,
    Conflict(Row),
    NotDone,
    Nothing,
}

/// Next step of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// Send this action.
    Send(StoreAction),
    Rest,
}

impl Server {
    pub(crate) fn new(
        claim: usize,
        me: u128,
        folder: u64,
        mut clock: MachineClock,
        setup: Setup,
        now_ns: u64,
    ) -> Server {
        let (claimant, mint) = process(me, setup, &mut clock, 0, now_ns);
        Server {
            claim,
            folder,
            clock,
            claimant,
            mint,
            setup,
            term: 0,
            saving: None,
            ask: ClaimRequest::Watch,
            call: None,
            is_up: true,
            paused_until_ns: 0,
            cut_to_ns: 0,
            cut_from_ns: 0,
            next_beat_ns: now_ns,
            is_stopping: false,
            takeovers: 0,
            losses: 0,
        }
    }

    /// Starts another process in its place. `noted`: whether the folder's notes exist.
    pub(crate) fn start(&mut self, me: u128, noted: bool, now_ns: u64) {
        let beat = if noted { self.claimant.noted_beat() } else { 0 };
        let (claimant, mint) = process(me, self.setup, &mut self.clock, beat, now_ns);
        (self.claimant, self.mint, self.term) = (claimant, mint, 0);
        (self.saving, self.call, self.ask) = (None, None, ClaimRequest::Watch);
        (self.is_up, self.is_stopping, self.next_beat_ns) = (true, false, now_ns);
    }

    /// Does the keeper's work, ten times a second.
    pub(crate) fn step(&mut self, now_ns: u64) -> NextStep {
        let _ = self.mint.sample(self.clock.reading(now_ns));
        let clocks = self.clock.clocks(now_ns);
        self.mint.watch_hold(clocks);
        let is_past_hold = self.mint.held_for_ms(clocks.boot_ns) == Some(0);
        if self.call.is_some() {
            return NextStep::Rest;
        }
        if self.is_stopping {
            let point = self.mint.close().unwrap_or(SavePoint::NOTHING);
            self.ask = ClaimRequest::Release { point, term: self.term };
            return self.next_action(now_ns);
        }
        if is_past_hold || now_ns >= self.next_beat_ns {
            self.saving = self.mint.due_beat(clocks.boot_ns);
        } else {
            // The watermark is near.
            self.saving = self.mint.due_save(clocks.boot_ns);
            if self.saving.is_none() {
                return NextStep::Rest;
            }
        }
        self.ask = self.saving.map_or(ClaimRequest::Watch, |point| ClaimRequest::Save { point, term: self.term });
        self.next_beat_ns = now_ns + self.claimant.pace_ms() * 1_000_000;
        self.next_action(now_ns)
    }

    fn next_action(&mut self, now_ns: u64) -> NextStep {
        match self.claimant.next_action(self.ask) {
            StoreAction::Nothing if self.is_stopping => {
                self.is_up = false;
                NextStep::Rest
            }
            StoreAction::Nothing => {
                // The mint has an older term.
                if self.claimant.is_holder() && self.term != self.claimant.term() {
                    self.retake(now_ns);
                } else if self.saving.take().is_some() {
                    self.mint.save_failed("nothing to do".into());
                }
                NextStep::Rest
            }
            action => NextStep::Send(action),
        }
    }

    fn retake(&mut self, now_ns: u64) {
        self.saving = None;
        self.term = self.claimant.term();
        let boot_ns = self.clock.clocks(now_ns).boot_ns;
        self.mint.claim_taken(boot_ns, self.claimant.found(), self.claimant.is_watched(), "taken".into());
        self.next_beat_ns = now_ns;
    }

    /// Handles the answer of its call.
    pub(crate) fn answered(&mut self, answer: Answer, now_ns: u64) -> NextStep {
        let Some(Call { action, sent, .. }) = self.call.take() else { return NextStep::Rest };
        let now = self.clock.clocks(now_ns);
        let seen = |row: Row| ClaimSnapshot {
            stamp: row.stamp,
            holder: row.holder,
            timeout_ms: row.timeout_ms,
            point: row.point,
            is_this_folder: row.folder == self.folder,
            is_moved: false,
        };
        let event = match (action, answer) {
            (StoreAction::Write(_), Answer::Written) => self.claimant.wrote(sent, now, WriteAnswer::Done),
            (StoreAction::Write(_), Answer::Conflict(row)) => {
                self.claimant.wrote(sent, now, WriteAnswer::Conflict(Some(seen(row))))
            }
            (StoreAction::Write(_), Answer::NotDone) => self.claimant.wrote(sent, now, WriteAnswer::NotDone),
            (StoreAction::Write(_), _) => self.claimant.wrote(sent, now, WriteAnswer::Unknown),
            (_, Answer::Row(row)) => self.claimant.read(sent, now, ReadAnswer::Record(seen(row))),
            _ => self.claimant.read(sent, now, ReadAnswer::Failed),
        };
        self.obey(event, now_ns)
    }

    fn obey(&mut self, event: ClaimEvent, now_ns: u64) -> NextStep {
        match event {
            ClaimEvent::Saved { point, hold } if self.saving == Some(point) => {
                self.saving = None;
                self.mint.saved(point);
                self.mint.held(hold, self.clock.clocks(now_ns));
                NextStep::Rest
            }
            ClaimEvent::Again | ClaimEvent::WritesItselfIn { .. } | ClaimEvent::Saved { .. } => {
                self.next_action(now_ns)
            }
            ClaimEvent::Taken { .. } => {
                self.takeovers += 1;
                self.retake(now_ns);
                NextStep::Rest
            }
            ClaimEvent::Released if self.is_stopping => {
                self.is_up = false;
                NextStep::Rest
            }
            ClaimEvent::Released | ClaimEvent::Standby(_) | ClaimEvent::Lost(_) => {
                self.losses += u64::from(matches!(event, ClaimEvent::Lost(_)));
                self.saving = None;
                self.mint.stand_by(format!("{event:?}").as_str().into());
                NextStep::Rest
            }
            ClaimEvent::Away => {
                if self.saving.take().is_some() {
                    self.mint.save_failed("the store is away".into());
                }
                // A stop does not wait for an unreachable store.
                self.is_up &= !self.is_stopping;
                NextStep::Rest
            }
        }
    }
}

fn process(me: u128, setup: Setup, clock: &mut MachineClock, noted: u64, now_ns: u64) -> (Claimant, Mint) {
    let options = ClaimOptions {
        timeout_ms: setup.timeout_ms,
        max_ahead_ms: 60_000,
        max_behind_ms: setup.limits.max_clock_jump_ms,
        takes_any: false,
        creates: false,
        epoch: Epoch::DEFAULT,
    };
    let mut mint = Mint::new(layout(), setup.limits, None, clock.reading(now_ns));
    mint.stand_by("not read yet".into());
    (Claimant::new(me, options, noted, None), mint)
}
