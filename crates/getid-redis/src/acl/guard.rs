//! Which clients may connect, and which may change the server, without a login.
//!
//! Many servers run with `bind` and without a password, so that everybody on the network gets IDs. That does not permit
//! everybody to stop the server, inspect other clients or create a user. `protected-mode`, `bind` and the client's
//! proof select one of three levels for a client from another machine. It is refused, as in Redis; it may run all but
//! guarded commands; or it may run everything.
//!
//! A login counts only with proof: a password that the user requires, or a certificate. `AUTH` with any word as a user
//! that has `nopass` proves nothing.

use std::net::IpAddr;

use super::permissions::CommandSet;
use crate::command::{Command, rows};
use crate::resp::{ErrorKind, ErrorReply};

/// Where a client connects from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This machine: a loopback address or a Unix socket.
    ThisMachine,
    /// Any other place. An address of this machine that is not a loopback one counts as elsewhere, as in Redis.
    Elsewhere,
}

impl Origin {
    /// Returns the origin of a TCP client by its address.
    pub fn of(peer: IpAddr) -> Origin {
        let is_loopback = match peer {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
        };
        if is_loopback { Origin::ThisMachine } else { Origin::Elsewhere }
    }
}

/// What protects a server that requires no password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Clients from other machines are refused while the default user needs no password: `protected-mode yes`, and the
    /// default without `bind`. Clients that are accepted because there is a password are treated as under
    /// [`Protection::Commands`].
    Connections,
    /// Clients from other machines are served, except for guarded commands, which require a
    /// login: `protected-mode guarded`, and the default with `bind`.
    Commands,
    /// Clients from other machines may run everything: `protected-mode no`.
    Nothing,
}

impl Protection {
    /// The words that `protected-mode` accepts.
    pub const WORDS: &[&str] = &["yes", "no", "guarded"];

    /// Returns the protection for a word of `protected-mode`, in any letter case.
    pub fn from_word(word: &str) -> Option<Protection> {
        let all = [Protection::Connections, Protection::Nothing, Protection::Commands];
        all.into_iter().find(|protection| word.eq_ignore_ascii_case(protection.word()))
    }

    /// Returns the word of `protected-mode` for it. Every value has a word, so a reply of `CONFIG GET` can be set
    /// again.
    pub const fn word(self) -> &'static str {
        match self {
            Protection::Connections => "yes",
            Protection::Commands => "guarded",
            Protection::Nothing => "no",
        }
    }

    /// Returns the protection in force without `protected-mode`; `bind_given` is whether `bind` is configured.
    pub fn without_word(bind_given: bool) -> Protection {
        if bind_given { Protection::Commands } else { Protection::Connections }
    }

    /// Whether a client is refused when it connects; `is_open` is whether the default user needs no password.
    pub fn refuses_connection(self, origin: Origin, is_open: bool) -> bool {
        self == Protection::Connections && origin == Origin::Elsewhere && is_open
    }

    /// Whether a session may not run guarded commands; `has_proved` is whether it has logged in
    /// with a proof that its user requires.
    pub fn guards(self, origin: Origin, has_proved: bool) -> bool {
        self != Protection::Nothing && origin == Origin::Elsewhere && !has_proved
    }
}

/// Returns the commands of `allowed` that a guarded session may run.
pub(super) fn unguarded(allowed: CommandSet) -> CommandSet {
    let mut left = allowed;
    rows().filter(|command| command.is_guarded).for_each(|command| left.set(command.verb, false));
    left
}

/// Returns the error for a guarded command in a guarded session.
pub fn denied(command: &Command) -> ErrorReply {
    let text = format!(
        "DENIED '{}' changes the server, affects other clients, or seals or opens IDs, and requires a login from \
         other machines unless protected-mode is no. Log in with AUTH as a user with a password \
         (requirepass or ACL SETUSER, set from the server's own machine or in its \
         configuration), send it from the loopback interface, or set protected-mode no in \
         the configuration if no other client can reach this port",
        command.full_name.replace('|', " ")
    );
    ErrorReply::new(ErrorKind::NoPermission, text)
}
