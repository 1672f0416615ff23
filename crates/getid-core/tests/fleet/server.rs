//! A server as its keeper sees it: the mint, the machine of its claim, and one call of the store at a time.

use getid_core::claim::{Ask, Claimant, Clocks, Event, Options, Read, Seen, Wish, Wrote};
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
    ask: Ask,
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
    pub(crate) wish: Wish,
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
pub(crate) enum Then {
    /// Send this wish.
    Send(Wish),
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
            ask: Ask::Watch,
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
        (self.saving, self.call, self.ask) = (None, None, Ask::Watch);
        (self.is_up, self.is_stopping, self.next_beat_ns) = (true, false, now_ns);
    }

    /// Does the keeper's work, ten times a second.
    pub(crate) fn step(&mut self, now_ns: u64) -> Then {
        let _ = self.mint.sample(self.clock.reading(now_ns));
        let clocks = self.clock.clocks(now_ns);
        self.mint.watch_hold(clocks);
        let is_past_hold = self.mint.held_for_ms(clocks.boot_ns) == Some(0);
        if self.call.is_some() {
            return Then::Rest;
        }
        if self.is_stopping {
            let point = self.mint.close().unwrap_or(SavePoint::NOTHING);
            self.ask = Ask::Release { point, term: self.term };
            return self.wish(now_ns);
        }
        if is_past_hold || now_ns >= self.next_beat_ns {
            self.saving = self.mint.wanted_beat(clocks.boot_ns);
        } else {
            // The watermark is near.
            self.saving = self.mint.wanted_save(clocks.boot_ns);
            if self.saving.is_none() {
                return Then::Rest;
            }
        }
        self.ask = self.saving.map_or(Ask::Watch, |point| Ask::Save { point, term: self.term });
        self.next_beat_ns = now_ns + self.claimant.pace_ms() * 1_000_000;
        self.wish(now_ns)
    }

    fn wish(&mut self, now_ns: u64) -> Then {
        match self.claimant.wish(self.ask) {
            Wish::Nothing if self.is_stopping => {
                self.is_up = false;
                Then::Rest
            }
            Wish::Nothing => {
                // The mint has an older term.
                if self.claimant.is_holder() && self.term != self.claimant.term() {
                    self.retake(now_ns);
                } else if self.saving.take().is_some() {
                    self.mint.save_failed("nothing to do".into());
                }
                Then::Rest
            }
            wish => Then::Send(wish),
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
    pub(crate) fn answered(&mut self, answer: Answer, now_ns: u64) -> Then {
        let Some(Call { wish, sent, .. }) = self.call.take() else { return Then::Rest };
        let now = self.clock.clocks(now_ns);
        let seen = |row: Row| Seen {
            stamp: row.stamp,
            holder: row.holder,
            timeout_ms: row.timeout_ms,
            point: row.point,
            is_this_folder: row.folder == self.folder,
            is_moved: false,
        };
        let event = match (wish, answer) {
            (Wish::Write(_), Answer::Written) => self.claimant.wrote(sent, now, Wrote::Done),
            (Wish::Write(_), Answer::Conflict(row)) => self.claimant.wrote(sent, now, Wrote::Conflict(Some(seen(row)))),
            (Wish::Write(_), Answer::NotDone) => self.claimant.wrote(sent, now, Wrote::NotDone),
            (Wish::Write(_), _) => self.claimant.wrote(sent, now, Wrote::Unknown),
            (_, Answer::Row(row)) => self.claimant.read(sent, now, Read::Record(seen(row))),
            _ => self.claimant.read(sent, now, Read::Failed),
        };
        self.obey(event, now_ns)
    }

    fn obey(&mut self, event: Event, now_ns: u64) -> Then {
        match event {
            Event::Saved { point, hold } if self.saving == Some(point) => {
                self.saving = None;
                self.mint.saved(point);
                self.mint.held(hold, self.clock.clocks(now_ns));
                Then::Rest
            }
            Event::Again | Event::WritesItselfIn { .. } | Event::Saved { .. } => self.wish(now_ns),
            Event::Taken { .. } => {
                self.takeovers += 1;
                self.retake(now_ns);
                Then::Rest
            }
            Event::Released if self.is_stopping => {
                self.is_up = false;
                Then::Rest
            }
            Event::Released | Event::Standby(_) | Event::Lost(_) => {
                self.losses += u64::from(matches!(event, Event::Lost(_)));
                self.saving = None;
                self.mint.stand_by(format!("{event:?}").as_str().into());
                Then::Rest
            }
            Event::Away => {
                if self.saving.take().is_some() {
                    self.mint.save_failed("the store is away".into());
                }
                // A stop does not wait for an unreachable store.
                self.is_up &= !self.is_stopping;
                Then::Rest
            }
        }
    }
}

fn process(me: u128, setup: Setup, clock: &mut MachineClock, noted: u64, now_ns: u64) -> (Claimant, Mint) {
    let options = Options {
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
