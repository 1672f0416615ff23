//! The row of a server in a store, the requests for those rows, and the changes that result.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::checks::{Fault, planted};

/// A random identity: of a folder of notes, or of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub u128);

impl Nonce {
    /// Nonce of the row that counts rounds; no server has it.
    pub const ROUNDS: Nonce = Nonce(0);

    /// Parses 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Nonce> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u128::from_str_radix(text, 16).ok().map(Nonce)).flatten()
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// State of a server in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerState {
    /// The server beats.
    Live,
    /// The server beats, and doubts whether the store has all that it noted.
    Doubt,
    /// The server stopped cleanly, and gives nothing any more.
    Left,
    /// Another server saw its beat stand still.
    Gone,
    /// An operator declared that the server has stopped: no server waits for it, whatever its beat is.
    Released,
    /// The store lost beats of the server, and its notes are not compared with the rows yet.
    Returning,
}

impl ServerState {
    /// All states, in the order of declaration.
    pub const ALL: [ServerState; 6] = [
        ServerState::Live,
        ServerState::Doubt,
        ServerState::Left,
        ServerState::Gone,
        ServerState::Released,
        ServerState::Returning,
    ];

    /// Returns the word that stores keep.
    pub fn word(self) -> &'static str {
        match self {
            ServerState::Live => "live",
            ServerState::Doubt => "doubt",
            ServerState::Left => "left",
            ServerState::Gone => "gone",
            ServerState::Released => "released",
            ServerState::Returning => "returning",
        }
    }

    /// Returns true if a server in this state beats.
    pub fn is_live(self) -> bool {
        matches!(self, ServerState::Live | ServerState::Doubt)
    }

    /// Returns the state that a word names.
    pub fn parse(word: &str) -> Option<ServerState> {
        ServerState::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// The row of a server in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRow {
    /// Identity of the server's folder of notes; the primary key.
    pub nonce: Nonce,
    /// Identity of the process that wrote the row.
    pub life: Nonce,
    /// Number of beats and reservations of this server. In the row [`Nonce::ROUNDS`], the number of rounds.
    pub beat: u64,
    /// The latest round that this server has acknowledged.
    pub acknowledged: u64,
    /// State of the server: it decides whether other servers wait for it.
    pub state: ServerState,
    /// Where an operator finds the server, such as `server-id 3 on web-7`.
    pub address: String,
}

/// A server that was noted with a higher beat than the table has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredServer {
    /// Nonce of the noted server.
    pub nonce: Nonce,
    /// Its beat by the note.
    pub beat: u64,
    /// Where an operator finds the noted server.
    pub address: String,
}

/// How a server's own row changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeatKind {
    /// No change: the rows are only read.
    Look,
    /// The beat grows by 1, if the row is live, of this life, and not below `at_least`.
    Beat {
        /// The beat that this server noted.
        at_least: u64,
        /// New state: live, or in doubt.
        state: ServerState,
    },
    /// [`BeatKind::Beat`] of a returning row, which becomes in doubt.
    Resume {
        /// The beat that this server noted.
        at_least: u64,
    },
    /// The row becomes one of this life, with a beat above `noted`, if it is still as it was seen.
    Join {
        /// Life and beat of the row as it was seen; `None`: there was no row.
        seen: Option<(Nonce, u64)>,
        /// The beat that this server noted.
        noted: u64,
        /// New state: live, in doubt, or returning.
        state: ServerState,
    },
    /// A last [`BeatKind::Beat`], with which the server leaves.
    Leave {
        /// The beat that this server noted.
        at_least: u64,
    },
}

/// A server's request for the rows, done in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeatRequest {
    /// Nonce of the server.
    pub nonce: Nonce,
    /// Nonce of the process.
    pub life: Nonce,
    /// Where an operator finds the server.
    pub address: String,
    /// How the server's row changes. If it cannot, no other row changes either.
    pub kind: BeatKind,
    /// The round that the server acknowledges; the row keeps a later one.
    pub acknowledged: u64,
    /// Whether the server starts a round. It does not acknowledge that one: another round may have begun just before
    /// it.
    pub starts_round: bool,
    /// Servers to mark as returning, where the store lacks beats of them.
    pub restored: Vec<RestoredServer>,
    /// Servers to mark as gone, if their beats are still these.
    pub gone: Vec<(Nonce, u64)>,
    /// Servers that an operator releases.
    pub released: Vec<Nonce>,
    /// Whether rows of servers that left, are gone or released are read too. There may be many of them.
    pub reads_all: bool,
}

/// A store's answer to a [`BeatRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeatAnswer {
    /// Whether the server's row was changed as requested; true for [`BeatKind::Look`].
    pub is_done: bool,
    /// The rows of servers after the transaction: of all, or of the live and returning ones.
    pub rows: Vec<ServerRow>,
    /// The number of rounds after the transaction.
    pub round: u64,
    /// The instance of the database that answered, such as a time of start: another instance may lack writes.
    pub instance: String,
}

/// The changes that a [`BeatRequest`] makes to the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeatChanges {
    /// Whether the server's row was changed as requested.
    pub is_done: bool,
    /// The rows to write, each with its key.
    pub rows: Vec<ServerRow>,
}

impl BeatRequest {
    /// Returns the keys of the rows to lock and read before [`BeatRequest::apply`], in ascending order.
    pub fn locks(&self) -> Vec<Nonce> {
        let others = self.restored.iter().map(|other| other.nonce).chain(self.gone.iter().map(|(nonce, _)| *nonce));
        let mut keys: Vec<Nonce> = others.chain(self.released.iter().copied()).collect();
        keys.push(self.nonce);
        if self.starts_round {
            keys.push(Nonce::ROUNDS);
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the rows to write. `found` are the rows under the keys of [`BeatRequest::locks`].
    pub fn apply(&self, found: &[ServerRow]) -> BeatChanges {
        let of = |nonce: Nonce| found.iter().find(|row| row.nonce == nonce);
        let own = of(self.nonce);
        let Some(mut own) = self.own_row(own) else {
            return BeatChanges { is_done: self.kind == BeatKind::Look, rows: Vec::new() };
        };
        let mut rows = Vec::new();
        own.acknowledged = own.acknowledged.max(self.acknowledged);
        if self.starts_round {
            let rounds = of(Nonce::ROUNDS).map_or(0, |row| row.beat) + 1;
            if planted(Fault::StartAcknowledges) {
                own.acknowledged = rounds;
            }
            rows.push(ServerRow { beat: rounds, ..ServerRow::empty(Nonce::ROUNDS) });
        }
        rows.push(own);
        let rest = |nonce: Nonce| nonce != self.nonce && nonce != Nonce::ROUNDS;
        for other in self.restored.iter().filter(|other| rest(other.nonce)) {
            match of(other.nonce) {
                None => rows.push(ServerRow {
                    address: other.address.clone(),
                    state: ServerState::Returning,
                    ..ServerRow::empty(other.nonce)
                }),
                Some(row) if row.beat < other.beat && row.state != ServerState::Released => {
                    rows.push(ServerRow { state: ServerState::Returning, ..row.clone() });
                }
                Some(_) => {}
            }
        }
        for (nonce, beat) in self.gone.iter().filter(|(nonce, _)| rest(*nonce)) {
            if let Some(row) = of(*nonce).filter(|row| row.beat == *beat && row.state.is_live()) {
                rows.push(ServerRow { state: ServerState::Gone, ..row.clone() });
            }
        }
        for nonce in self.released.iter().filter(|nonce| rest(**nonce)) {
            let row = of(*nonce).cloned().unwrap_or_else(|| ServerRow::empty(*nonce));
            rows.retain(|other| other.nonce != *nonce);
            rows.push(ServerRow { state: ServerState::Released, ..row });
        }
        BeatChanges { is_done: true, rows }
    }

    /// Returns the server's own new row; `None`: it stays as it is.
    fn own_row(&self, found: Option<&ServerRow>) -> Option<ServerRow> {
        let beats = |at_least: u64, from: fn(ServerState) -> bool, to: ServerState| {
            let own = found?;
            let is_own = own.life == self.life && from(own.state) && own.beat >= at_least;
            is_own.then(|| ServerRow { beat: own.beat + 1, state: to, ..own.clone() })
        };
        match self.kind {
            BeatKind::Look => None,
            BeatKind::Beat { at_least, state } => beats(at_least, ServerState::is_live, state),
            BeatKind::Resume { at_least } => {
                beats(at_least, |state| state == ServerState::Returning, ServerState::Doubt)
            }
            BeatKind::Leave { at_least } => beats(at_least, ServerState::is_live, ServerState::Left),
            BeatKind::Join { seen, noted, state } => {
                (found.map(|own| (own.life, own.beat)) == seen).then(|| ServerRow {
                    nonce: self.nonce,
                    life: self.life,
                    beat: seen.map_or(0, |(_, beat)| beat).max(noted) + 1,
                    acknowledged: found.map_or(0, |own| own.acknowledged),
                    state,
                    address: self.address.clone(),
                })
            }
        }
    }
}

impl ServerRow {
    fn empty(nonce: Nonce) -> ServerRow {
        ServerRow {
            nonce,
            life: Nonce::default(),
            beat: 0,
            acknowledged: 0,
            state: ServerState::Live,
            address: String::new(),
        }
    }
}
