//! Membership of one server in a shared store: when it may reserve, and which beats it sends until then.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::row::{BeatAnswer, BeatKind, BeatRequest, Nonce, RestoredServer, ServerRow, ServerState};
use crate::checks::{Fault, planted};

/// Time without a new beat after which a server counts as gone, ms of the observer's monotonic clock.
pub const STILL_MS: u64 = 60_000;

/// Longest time between two answers that counts as observed, ms. A beat counts as still only in observed time. Servers
/// ask at least every 16 s.
const UNSEEN_MS_MAX: u64 = 20_000;

/// Joins that fail because another process beats, before a nonce counts as copied. An ended process leaves at most two
/// statements under way.
const CONTESTED_MAX: u8 = 3;

/// What a reservation must prove about its server: see [`Member::credentials`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Nonce of the server.
    pub nonce: Nonce,
    /// Nonce of the process.
    pub life: Nonce,
    /// Lowest beat that the row may have.
    pub at_least: u64,
}

/// A server as noted by another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedServer {
    /// Nonce of the noted server.
    pub nonce: Nonce,
    /// Highest beat that was seen of it.
    pub beat: u64,
    /// Whether a beat of it was seen, and neither that it left nor that it is gone.
    pub is_live: bool,
    /// Where an operator finds the noted server.
    pub address: String,
}

/// A server that blocks a store, because it has not acknowledged the round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedServer {
    /// Nonce of the awaited server.
    pub nonce: Nonce,
    /// Where an operator finds the awaited server.
    pub address: String,
    /// Time since its beat was last seen to move, ms; `None`: never in this life.
    pub seen_ms_ago: Option<u64>,
}

/// Work for the shell before its next ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberTask {
    /// Compare the notes of this store with its rows, and raise rows that are too low, page by page
    /// ([`Member::comparing`]); then call [`Member::compared`].
    pub compares: bool,
    /// Another process uses this nonce: call [`Member::renew`].
    pub is_copied: bool,
}

/// What this server knows about another server.
#[derive(Clone, Debug)]
struct OtherServer {
    beat: u64,
    state: ServerState,
    address: String,
    /// When its beat moved last, when it was seen first, or when a doubt of this server ended.
    still_since_ms: u64,
    /// When its beat was seen to move; `None`: not in this life.
    moved_ms: Option<u64>,
    /// Whether its beat was seen to move, in this life or in an earlier one.
    has_moved: bool,
    /// Whether it was live by the notes when the present doubt began: then it does not age.
    is_pinned: bool,
    /// Whether the table lacks it, or has it with a lower beat.
    is_lower: bool,
    is_noted: bool,
}

/// Phase of a server on its way to reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberPhase {
    /// Its row was not read yet.
    Unknown,
    /// Its row may become live.
    Joining,
    /// Its row lacks beats that it noted: it must be written as returning.
    Behind,
    /// Its row is returning, and its notes are compared. If the store goes back meanwhile, the row is lost with it.
    Returning { is_compared: bool },
    /// It must start a round.
    Doubt,
    /// It started a round. `was_complete`: by the last answer no server was missing.
    Round { number: u64, was_complete: bool },
    /// It may reserve.
    Cleared,
}

/// Membership of a server in one store.
#[derive(Clone, Debug)]
pub struct Member {
    nonce: Nonce,
    life: Nonce,
    address: String,
    /// This server's highest known beat.
    beat: u64,
    /// Life and beat of its row at the last read.
    seen: Option<(Nonce, u64)>,
    others: BTreeMap<Nonce, OtherServer>,
    /// The round that the next beat acknowledges.
    due: u64,
    phase: MemberPhase,
    /// Whether the store lost beats of this server. Until the round is complete, servers that left count as well.
    went_back: bool,
    /// Whether it has notes of an earlier time, which may hold what the store lost.
    has_notes: bool,
    /// Whether beats of this server were lost, or another instance of the database answers: see [`Member::take_loss`].
    has_loss: bool,
    /// Whether [`Member::doubt`] was called since the last ask.
    has_doubt: bool,
    /// Number of times in a row that another process beat while this one was about to join.
    contested: u8,
    missing: Vec<Nonce>,
    released: Vec<Nonce>,
    /// Whether the next ask reads the rows of all servers.
    wants_all: bool,
    instance: String,
    now_ms: u64,
}

impl Member {
    /// Creates the membership of a new process from its folder: nonce, noted beat (0: it never joined), noted servers.
    pub fn new(
        nonce: Nonce,
        life: Nonce,
        address: String,
        beat: u64,
        servers: Vec<NotedServer>,
        now_ms: u64,
    ) -> Member {
        let other = |noted: NotedServer| {
            let other = OtherServer {
                beat: noted.beat,
                state: if noted.is_live { ServerState::Live } else { ServerState::Left },
                address: noted.address,
                still_since_ms: now_ms,
                moved_ms: None,
                has_moved: noted.is_live,
                is_pinned: noted.is_live,
                is_lower: false,
                is_noted: true,
            };
            (noted.nonce, other)
        };
        let has_notes = beat > 0 || !servers.is_empty();
        Member {
            nonce,
            life,
            address,
            beat,
            seen: None,
            others: servers.into_iter().filter(|server| server.nonce != nonce).map(other).collect(),
            due: 0,
            phase: MemberPhase::Unknown,
            went_back: false,
            has_notes,
            has_loss: false,
            has_doubt: false,
            contested: 0,
            missing: Vec::new(),
            released: Vec::new(),
            wants_all: true,
            instance: String::new(),
            now_ms,
        }
    }

    /// Returns the folder's nonce.
    pub fn nonce(&self) -> Nonce {
        self.nonce
    }

    /// Returns this server's highest known beat, which is noted before values are given.
    pub fn beat(&self) -> u64 {
        self.beat
    }

    /// Returns the number of other servers that are live.
    pub fn others_live(&self) -> usize {
        self.others.values().filter(|other| other.state.is_live()).count()
    }

    /// Returns true if this server may reserve.
    pub fn is_cleared(&self) -> bool {
        self.phase == MemberPhase::Cleared
    }

    /// Returns true if the store may have lost writes of any server since the last call.
    pub fn take_loss(&mut self) -> bool {
        core::mem::take(&mut self.has_loss)
    }

    /// Returns what a reservation must prove; `None`: nothing may be reserved now.
    pub fn credentials(&self) -> Option<Credentials> {
        let at_least = if planted(Fault::LowerBeatReserves) { 0 } else { self.beat };
        self.is_cleared().then_some(Credentials { nonce: self.nonce, life: self.life, at_least })
    }

    /// Records the answer to a reservation, and returns whether its values count. They do not if another instance of
    /// the database answered: then a doubt begins.
    pub fn reserved(&mut self, beat: u64, instance: &str) -> bool {
        if !self.is_cleared() {
            return false;
        }
        if self.instance != instance && !planted(Fault::AnotherInstanceReserves) {
            self.has_loss = true;
            self.doubt();
            return false;
        }
        self.beat = self.beat.max(beat);
        true
    }

    /// Records that a connection broke, or that a statement failed: reservations under way do not count.
    pub fn doubt(&mut self) {
        if planted(Fault::BrokenConnectionIsTrusted) {
            return;
        }
        self.has_doubt = true;
        self.released.clear();
        self.begin_doubt();
    }

    fn begin_doubt(&mut self) {
        if !matches!(self.phase, MemberPhase::Cleared | MemberPhase::Round { .. }) {
            return;
        }
        self.phase = MemberPhase::Doubt;
        for other in self.others.values_mut() {
            other.is_pinned |= other.has_moved && other.state.is_live();
        }
    }

    /// Records an operator's declaration that a server has stopped. The next beat releases it, unless a doubt begins
    /// before. Returns whether it can be released.
    pub fn release(&mut self, nonce: Nonce) -> bool {
        let is_joined = matches!(self.phase, MemberPhase::Round { .. } | MemberPhase::Cleared);
        let can = is_joined && nonce != self.nonce && self.others.contains_key(&nonce);
        if can && !self.released.contains(&nonce) {
            self.released.push(nonce);
        }
        can
    }

    /// Returns what an operator's raise of all rows must prove, as a page of the comparison does; `None`: not now.
    pub fn raising(&self) -> Option<Credentials> {
        let credentials = Credentials { nonce: self.nonce, life: self.life, at_least: self.beat };
        matches!(self.phase, MemberPhase::Round { .. } | MemberPhase::Cleared).then_some(credentials)
    }

    /// Records the beat of a page of an operator's raise.
    pub fn raised(&mut self, beat: u64) {
        self.beat = self.beat.max(beat);
    }

    /// Returns what a page of the comparison must prove, as a reservation does; `None`: nothing is compared now. A page
    /// adds 1 to the beat in the transaction that reads and raises its rows. So a store that loses the page loses that
    /// beat too.
    pub fn comparing(&self) -> Option<Credentials> {
        let credentials = Credentials { nonce: self.nonce, life: self.life, at_least: self.beat };
        (self.phase == MemberPhase::Returning { is_compared: false }).then_some(credentials)
    }

    /// Records a compared page of notes: the beat of its transaction, or `None` if the server's row did not allow it.
    pub fn page_compared(&mut self, beat: Option<u64>) {
        match (self.phase, beat) {
            (MemberPhase::Returning { is_compared: false }, Some(beat)) => self.beat = self.beat.max(beat),
            (MemberPhase::Returning { .. }, None) => self.phase = MemberPhase::Unknown,
            _ => {}
        }
    }

    /// Records that all pages are compared.
    pub fn compared(&mut self) {
        if let MemberPhase::Returning { is_compared } = &mut self.phase {
            *is_compared = true;
        }
    }

    /// Takes a new nonce, because another process uses the old one. Beats of the old nonce prove nothing about this
    /// server's reservations any more, so its notes are compared.
    pub fn renew(&mut self, nonce: Nonce) {
        (self.nonce, self.beat, self.seen, self.phase) = (nonce, 0, None, MemberPhase::Behind);
        self.contested = 0;
    }

    /// Returns the next ask of the store. Its answer, if there is one, goes to [`Member::answered`].
    pub fn ask(&mut self, now_ms: u64) -> BeatRequest {
        if now_ms.saturating_sub(self.now_ms) > UNSEEN_MS_MAX && !planted(Fault::UnseenCountsAsStill) {
            self.others.values_mut().for_each(|other| other.still_since_ms = now_ms);
        }
        self.now_ms = now_ms;
        self.has_doubt = false;
        let kind = match self.phase {
            MemberPhase::Unknown | MemberPhase::Returning { is_compared: false } => BeatKind::Look,
            MemberPhase::Joining => BeatKind::Join { seen: self.seen, noted: self.beat, state: self.state() },
            MemberPhase::Behind => BeatKind::Join { seen: self.seen, noted: self.beat, state: ServerState::Returning },
            MemberPhase::Returning { is_compared: true } => BeatKind::Resume { at_least: self.beat },
            MemberPhase::Doubt | MemberPhase::Round { .. } | MemberPhase::Cleared => {
                BeatKind::Beat { at_least: self.beat, state: self.state() }
            }
        };
        BeatRequest {
            // A look proves nothing about the rounds that it showed: the store may have gone back since.
            acknowledged: if matches!(kind, BeatKind::Beat { .. }) { self.due } else { 0 },
            starts_round: matches!(
                self.phase,
                MemberPhase::Joining | MemberPhase::Returning { is_compared: true } | MemberPhase::Doubt
            ),
            restored: self.restored(),
            gone: if self.is_cleared() { self.still() } else { Vec::new() },
            released: self.released.clone(),
            reads_all: !self.is_cleared() || self.wants_all,
            ..self.own_ask(kind)
        }
    }

    /// Returns the state for its row. A server without notes has nothing that a store could have lost.
    fn state(&self) -> ServerState {
        match self.phase {
            MemberPhase::Cleared | MemberPhase::Round { was_complete: true, .. } => ServerState::Live,
            _ if !self.has_notes => ServerState::Live,
            _ => ServerState::Doubt,
        }
    }

    /// Returns the last ask of a clean stop, after everything was given back; `None`: the server has no live row.
    pub fn leave(&self) -> Option<BeatRequest> {
        let is_joined = matches!(self.phase, MemberPhase::Doubt | MemberPhase::Round { .. } | MemberPhase::Cleared);
        is_joined.then(|| self.own_ask(BeatKind::Leave { at_least: self.beat }))
    }

    fn own_ask(&self, kind: BeatKind) -> BeatRequest {
        BeatRequest {
            nonce: self.nonce,
            life: self.life,
            address: self.address.clone(),
            kind,
            acknowledged: 0,
            starts_round: false,
            restored: Vec::new(),
            gone: Vec::new(),
            released: Vec::new(),
            reads_all: true,
        }
    }

    /// Returns servers that are live by their rows, and whose beats stood still for too long.
    fn still(&self) -> Vec<(Nonce, u64)> {
        let is_still =
            |other: &OtherServer| other.state.is_live() && self.now_ms.saturating_sub(other.still_since_ms) >= STILL_MS;
        self.others.iter().filter(|(_, other)| is_still(other)).map(|(nonce, other)| (*nonce, other.beat)).collect()
    }

    fn restored(&self) -> Vec<RestoredServer> {
        if planted(Fault::LostServersStayLost) || !self.went_back {
            return Vec::new();
        }
        let lower = self.others.iter().filter(|(_, other)| other.is_lower);
        let restored = |(nonce, other): (&Nonce, &OtherServer)| RestoredServer {
            nonce: *nonce,
            beat: other.beat,
            address: other.address.clone(),
        };
        lower.map(restored).collect()
    }

    /// Returns servers whose notes are out of date. Write them before the next ask, see [`Member::has_noted`].
    pub fn unnoted(&self) -> Vec<NotedServer> {
        let noted = |(nonce, other): (&Nonce, &OtherServer)| NotedServer {
            nonce: *nonce,
            beat: other.beat,
            is_live: other.state.is_live() && other.has_moved,
            address: other.address.clone(),
        };
        self.others.iter().filter(|(_, other)| !other.is_noted).map(noted).collect()
    }

    /// Records that the servers of [`Member::unnoted`] are noted.
    pub fn has_noted(&mut self) {
        self.others.values_mut().for_each(|other| other.is_noted = true);
    }

    /// Returns the servers that the present round waits for, by the last answer.
    pub fn awaited(&self) -> Vec<AwaitedServer> {
        let awaited = |nonce: &Nonce| {
            let other = self.others.get(nonce)?;
            let seen_ms_ago = other.moved_ms.map(|moved_ms| self.now_ms.saturating_sub(moved_ms));
            Some(AwaitedServer { nonce: *nonce, address: other.address.clone(), seen_ms_ago })
        };
        self.missing.iter().filter_map(awaited).collect()
    }

    /// Records the answer to an ask. The shell does what [`MemberTask`] names and notes [`Member::unnoted`] before it
    /// asks again.
    pub fn answered(&mut self, ask: &BeatRequest, answer: &BeatAnswer) -> MemberTask {
        let own = answer.rows.iter().find(|row| row.nonce == self.nonce);
        let is_lower = self.learn(ask.reads_all, &answer.rows);
        let is_moved =
            !self.instance.is_empty() && self.instance != answer.instance && !planted(Fault::AnotherInstanceReserves);
        self.instance.clone_from(&answer.instance);
        self.has_loss |= is_moved || is_lower;
        let next = match ask.kind {
            BeatKind::Look => self.looked(own),
            BeatKind::Leave { .. } => MemberTask::default(),
            BeatKind::Join { .. } | BeatKind::Beat { .. } | BeatKind::Resume { .. } if answer.is_done => {
                self.released.retain(|nonce| !ask.released.contains(nonce));
                self.beat = self.beat.max(own.map_or(0, |own| own.beat));
                self.has_beaten(ask, answer, is_lower, is_moved)
            }
            BeatKind::Join { seen, .. } => self.could_not_join(seen, own),
            BeatKind::Beat { .. } | BeatKind::Resume { .. } => self.could_not_beat(own),
        };
        self.seen = own.map(|own| (own.life, own.beat));
        if self.has_doubt {
            self.begin_doubt();
        }
        if !matches!(self.phase, MemberPhase::Doubt | MemberPhase::Round { .. } | MemberPhase::Cleared) {
            self.due = 0;
        } else if own.is_some_and(|own| answer.round > own.acknowledged) {
            self.due = answer.round;
        }
        next
    }

    /// Updates the other servers from the rows. Returns true if the table lacks beats of a live one, or one is
    /// returning.
    fn learn(&mut self, is_all: bool, rows: &[ServerRow]) -> bool {
        let now_ms = self.now_ms;
        self.others.values_mut().for_each(|other| other.is_lower = true);
        for row in rows.iter().filter(|row| row.nonce != self.nonce && row.nonce != Nonce::ROUNDS) {
            let other = self.others.entry(row.nonce).or_insert_with(|| OtherServer {
                beat: row.beat,
                state: row.state,
                address: row.address.clone(),
                still_since_ms: now_ms,
                moved_ms: None,
                has_moved: false,
                is_pinned: false,
                is_lower: false,
                is_noted: false,
            });
            other.is_lower = row.beat < other.beat && row.state != ServerState::Released;
            if other.is_lower {
                continue;
            }
            let was = (other.beat, other.state);
            if row.beat > other.beat {
                (other.still_since_ms, other.moved_ms, other.has_moved) = (now_ms, Some(now_ms), true);
            }
            (other.beat, other.state) = (other.beat.max(row.beat), row.state);
            if !row.address.is_empty() && row.address != other.address {
                other.address.clone_from(&row.address);
                other.is_noted = false;
            }
            other.is_noted &= was == (other.beat, other.state);
        }
        let is_returning = rows.iter().any(|row| row.state == ServerState::Returning);
        let is_live_lower = |other: &OtherServer| other.is_lower && other.state.is_live();
        if !is_all {
            // A server that is not there has left, or is lost: the next answer has all rows.
            self.wants_all = self.others.values().any(is_live_lower);
            return is_returning;
        }
        self.wants_all = false;
        is_returning || self.others.values().any(is_live_lower)
    }

    fn looked(&mut self, own: Option<&ServerRow>) -> MemberTask {
        let is_whole = self.beat == 0 || own.is_some_and(|own| self.has_all(own));
        let is_returning = own
            .is_some_and(|own| own.state == ServerState::Returning && own.life == self.life && own.beat >= self.beat);
        match self.phase {
            MemberPhase::Unknown if is_whole => self.phase = MemberPhase::Joining,
            MemberPhase::Returning { is_compared: false } if is_returning => {
                return MemberTask { compares: true, ..MemberTask::default() };
            }
            MemberPhase::Unknown | MemberPhase::Returning { is_compared: false } => self.fall_behind(),
            _ => {}
        }
        MemberTask::default()
    }

    /// Returns true if the store has all reservations of this server, by its row.
    fn has_all(&self, own: &ServerRow) -> bool {
        own.beat >= self.beat && !matches!(own.state, ServerState::Released | ServerState::Returning)
    }

    fn fall_behind(&mut self) {
        self.went_back = true;
        self.has_loss = true;
        // The operator's release was based on another state of the store.
        self.released.clear();
        self.phase = if planted(Fault::JoinsWithoutComparing) { MemberPhase::Joining } else { MemberPhase::Behind };
        for other in self.others.values_mut() {
            other.is_pinned |= other.has_moved && other.state.is_live();
        }
    }

    /// Handles a join that found another row than expected. If another process beats there repeatedly, the folder of
    /// the notes was copied. Once or twice, it is a statement of a process that has ended.
    fn could_not_join(&mut self, seen: Option<(Nonce, u64)>, own: Option<&ServerRow>) -> MemberTask {
        self.phase = MemberPhase::Unknown;
        let beats = |(life, beat): (Nonce, u64)| {
            life != self.life && own.is_some_and(|own| own.life == life && own.beat > beat)
        };
        self.contested = if seen.is_some_and(beats) { self.contested + 1 } else { 0 };
        MemberTask { is_copied: self.contested >= CONTESTED_MAX, ..MemberTask::default() }
    }

    fn could_not_beat(&mut self, own: Option<&ServerRow>) -> MemberTask {
        let has_all = own.filter(|own| self.has_all(own));
        match has_all {
            None => self.fall_behind(),
            Some(own) if own.life != self.life => {
                self.phase = MemberPhase::Unknown;
                return MemberTask { is_copied: true, ..MemberTask::default() };
            }
            // Another server saw this one stand still.
            Some(_) => self.phase = MemberPhase::Joining,
        }
        MemberTask::default()
    }

    fn has_beaten(&mut self, ask: &BeatRequest, answer: &BeatAnswer, is_lower: bool, is_moved: bool) -> MemberTask {
        match self.phase {
            MemberPhase::Behind => {
                self.phase = MemberPhase::Returning { is_compared: false };
                return MemberTask { compares: true, ..MemberTask::default() };
            }
            _ if ask.starts_round => {
                self.missing = self.missing_of(answer.round, &answer.rows);
                self.phase = MemberPhase::Round { number: answer.round, was_complete: self.missing.is_empty() };
                if planted(Fault::NoServerIsAwaited) {
                    self.clear();
                }
            }
            MemberPhase::Cleared if is_lower || is_moved => self.begin_doubt(),
            MemberPhase::Round { .. } if is_moved => self.begin_doubt(),
            MemberPhase::Round { number, was_complete } => {
                self.missing = self.missing_of(number, &answer.rows);
                let is_complete = self.missing.is_empty();
                self.phase = MemberPhase::Round { number, was_complete: is_complete };
                if is_complete && (was_complete || planted(Fault::ClearedWithoutABeat)) {
                    self.clear();
                }
            }
            _ => {}
        }
        MemberTask::default()
    }

    fn clear(&mut self) {
        self.phase = MemberPhase::Cleared;
        self.went_back = false;
        self.has_notes = true;
        self.missing.clear();
        for other in self.others.values_mut() {
            other.still_since_ms = self.now_ms;
            other.is_pinned = false;
        }
    }

    /// Returns the servers that have not acknowledged this round.
    fn missing_of(&self, round: u64, rows: &[ServerRow]) -> Vec<Nonce> {
        // A server in doubt may wait for a server that this one sees stand still.
        let is_doubted = rows.iter().any(|row| row.nonce != self.nonce && row.state == ServerState::Doubt);
        let by_nonce: BTreeMap<Nonce, &ServerRow> = rows.iter().map(|row| (row.nonce, row)).collect();
        let is_missing = |nonce: &Nonce, other: &OtherServer| {
            let row = by_nonce.get(nonce);
            let is_returning = row.is_some_and(|row| row.state == ServerState::Returning);
            let is_live = row.is_some_and(|row| row.state.is_live());
            if is_returning {
                // Its notes are known to hold what the store lost.
                return true;
            }
            if other.is_lower {
                // A server that left counts too if beats of this server were lost: its last values may be lost with
                // them.
                return is_live || other.state.is_live() || self.went_back;
            }
            let may_age = !(other.is_pinned || is_doubted) || planted(Fault::AgesInDoubt);
            let is_still = may_age && self.now_ms.saturating_sub(other.still_since_ms) >= STILL_MS;
            is_live && row.is_some_and(|row| row.acknowledged < round) && !is_still
        };
        self.others.iter().filter(|(nonce, other)| is_missing(nonce, other)).map(|(nonce, _)| *nonce).collect()
    }
}
