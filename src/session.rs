//! One client's side of the protocol: bytes in, a [`Turn`] out; a turn and its IDs in, bytes out.

mod effect;
mod profile;
mod rules;
mod turn;

use std::sync::Arc;

pub use effect::{ClientFilter, ClientKind, Effect, Shutdown};
pub use profile::Profile;
pub use rules::{PASSWORD_BYTES_MAX, Password, Rules};
pub use turn::{Reply, TURN_BYTES_MAX, TURN_IDS_MAX, Turn};

use crate::id::Reservation;
use crate::resp::{Protocol, Value};

/// One client's protocol state.
#[derive(Debug)]
pub struct Session {
    rules: Arc<Rules>,
    profile: Profile,
}

impl Session {
    /// The session of connection number `id`.
    pub fn new(id: u64, rules: Arc<Rules>) -> Session {
        let none: Arc<str> = Arc::from("");
        let profile = Profile {
            id,
            name: none.clone(),
            lib_name: none.clone(),
            lib_version: none.clone(),
            user: none,
            database: 0,
            protocol: Protocol::Resp2,
            queued: None,
            last_command: "NULL",
            no_evict: false,
            no_touch: false,
        };
        Session { rules, profile }
    }

    /// What others may see of it.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Goes by other rules from the next read on.
    pub fn set_rules(&mut self, rules: Arc<Rules>) {
        self.rules = rules;
    }

    /// Takes every complete command of `input`, as far as the turn's bounds allow, and returns how many bytes it used.
    pub fn read(&mut self, input: &[u8], turn: &mut Turn) -> usize {
        turn.clear();
        input.len()
    }

    /// Appends the turn's replies in order. `drawn` holds exactly `turn.ids` IDs, or the text of a RESP error (without
    /// `-`) which then stands in place of every reply that needs IDs.
    pub fn write(&self, turn: &Turn, drawn: Result<&[Reservation], &str>, output: &mut Vec<u8>) {
        let _ = (turn, drawn, output);
    }

    /// Appends the shell's answer to an effect.
    pub fn reply(&mut self, answer: &Value, output: &mut Vec<u8>) {
        let _ = (answer, output);
    }
}
