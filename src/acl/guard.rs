//! Which clients may connect, and which may change the server, without a login.
//!
//! `bind` without a password is how many servers run: everybody on the network is to have IDs. It does not say that
//! everybody may stop the server, look at other clients or make themselves a user. So there are three answers to a
//! client from another machine, by `protected-mode`, `bind` and what it has proved: it is turned away, as in Redis; it
//! gets everything but what changes the server or reaches other clients; or it gets everything.
//!
//! A login counts when something was proved by it: a password that the user needs, or a certificate. `AUTH` with any
//! word as a user that has `nopass` proves nothing.

use std::net::IpAddr;

use super::permissions::CommandSet;
use crate::command::{Command, rows};

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// On this machine: it came by a loopback address or by a Unix socket.
    ThisMachine,
    /// Anywhere else. An address of this machine that is not a loopback one counts as elsewhere, as in Redis.
    Elsewhere,
}

impl Origin {
    /// By the address of a client on TCP.
    pub fn of(peer: IpAddr) -> Origin {
        let is_loopback = match peer {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
        };
        if is_loopback { Origin::ThisMachine } else { Origin::Elsewhere }
    }
}

/// What protects a server that asks for no password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Clients from other machines are turned away while the default user needs no password: `protected-mode yes`, and
    /// the default without `bind`. Clients that come in when there is a password are treated as under
    /// [`Protection::Commands`].
    Connections,
    /// They are served, but for [guarded](Command::is_guarded) commands, which need a login: `protected-mode guarded`,
    /// and the default with `bind`.
    Commands,
    /// They may do everything: `protected-mode no`.
    Nothing,
}

impl Protection {
    /// The words of `protected-mode`.
    pub const WORDS: &[&str] = &["yes", "no", "guarded"];

    /// What a word of those says, in any letter case.
    pub fn from_word(word: &str) -> Option<Protection> {
        let all = [Protection::Connections, Protection::Nothing, Protection::Commands];
        all.into_iter().find(|protection| word.eq_ignore_ascii_case(protection.word()))
    }

    /// The word that says it: whatever is in force has one, so that an answer of `CONFIG GET` can be given back.
    pub const fn word(self) -> &'static str {
        match self {
            Protection::Connections => "yes",
            Protection::Commands => "guarded",
            Protection::Nothing => "no",
        }
    }

    /// What is in force where nobody wrote `protected-mode`; `bind_given` is whether somebody wrote `bind`.
    pub fn without_word(bind_given: bool) -> Protection {
        if bind_given { Protection::Commands } else { Protection::Connections }
    }

    /// Whether a client is turned away at the door; `is_open` is whether the default user needs no password.
    pub fn turns_away(self, origin: Origin, is_open: bool) -> bool {
        self == Protection::Connections && origin == Origin::Elsewhere && is_open
    }

    /// Whether a session may not run [guarded](Command::is_guarded) commands; `has_proved` is whether it has logged in
    /// by something that its user needs.
    pub fn guards(self, origin: Origin, has_proved: bool) -> bool {
        self != Protection::Nothing && origin == Origin::Elsewhere && !has_proved
    }
}

/// All commands, or those that a guarded session may run if its user may.
pub(super) fn unguarded(allowed: CommandSet) -> CommandSet {
    let mut left = allowed;
    rows().filter(|command| command.is_guarded).for_each(|command| left.set(command.verb, false));
    left
}

/// What a guarded session is told.
pub fn denied(command: &Command) -> String {
    format!(
        "DENIED '{}' changes the server or reaches other clients, and is refused to other machines without a login, because \
         protected-mode is not switched off. Log in with AUTH as a user with a password (requirepass or ACL SETUSER, set from \
         the server's own machine or in its configuration), send it from the loopback interface, or write protected-mode no \
         into the configuration once you are sure that nobody else can reach this port",
        command.full_name.replace('|', " ")
    )
}
