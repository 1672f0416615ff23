//! The audit log: one line for each act that changes the server, affects other clients or logs a user in.
//!
//! All are written here, in one form, with the target `audit`, by which a collector of logs can route them:
//!
//! ```text
//! audit: CONFIG SET user=admin client=7 addr=10.0.0.7:50012 names="timeout, requirepass"
//! ```
//!
//! Never with a password, a value or a rule. Each kind has a bound for each user, and a count
//! ([`crate::logging::throttle`]).

use std::sync::Arc;

use super::Server;
use crate::logging::AUDIT;
use crate::logging::throttle::LineKind;
use crate::logging::throttle::throttled;
use crate::registry::{Client, ConnectionAddr};

/// An act of a client.
#[derive(Clone, Copy, Debug)]
pub enum AuditAction<'a> {
    /// Logged in; the client has this user from then on.
    Login {
        user: &'a str,
    },
    /// Failed to log in `count` times in a row, with this name, which may be any text.
    LoginFailed {
        name: &'a str,
        count: u64,
    },
    ConfigSet {
        names: &'a [&'static str],
    },
    ConfigRewrite,
    ConfigResetStat,
    AclSetUser {
        name: &'a str,
    },
    AclDelUser {
        names: &'a [&'a str],
    },
    AclLoad,
    AclSave,
    AclLogReset,
    ClientKill {
        count: i64,
    },
    ClientPause {
        what: &'static str,
        timeout_ms: u64,
    },
    ClientUnpause,
    Monitor,
    /// Created, changed or dropped a sequence.
    Sequence {
        what: &'static str,
        name: &'a str,
    },
    /// Settled a number without its request.
    Number {
        what: &'static str,
        name: &'a str,
        number: &'a str,
    },
    /// Declared that no id of a pool was ever leased.
    WorkerIdInit {
        pool: &'a str,
    },
    /// Ended a lease of a worker id.
    WorkerIdRevoke {
        pool: &'a str,
        id: u32,
    },
    Shutdown,
    /// Requested a shutdown while the state could not be saved.
    ShutdownRefused,
}

/// The client of an act, as it is at that moment. It may be gone when the act is done.
#[derive(Clone, Debug)]
pub struct Actor {
    user: Arc<str>,
    id: u64,
    addr: ConnectionAddr,
}

impl Actor {
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl From<&Client> for Actor {
    fn from(client: &Client) -> Actor {
        Actor { user: client.user().0, id: client.id, addr: client.peer.clone() }
    }
}

impl Server {
    #[cold]
    pub fn audit(&self, act: AuditAction<'_>, by: impl Into<Actor>) {
        let throttle = &self.throttle;
        let Actor { user, id, addr } = by.into();
        macro_rules! line {
            ($kind:ident, $message:literal $(, $field:ident)*) => {
                throttled!(throttle, $kind, by: &user, target: AUDIT, user = %user, client = id, addr = %addr, $($field,)* $message)
            };
        }
        match act {
            AuditAction::Login { user } => {
                throttled!(throttle, AuditLogin, by: &Arc::from(user), target: AUDIT, user, client = id, addr = %addr, "logged in");
            }
            AuditAction::LoginFailed { name, count } => {
                if throttle.allows_many(LineKind::AuditLoginFailed, count) {
                    tracing::warn!(
                        target: AUDIT, user = %user, client = id, addr = %addr, tried = name, count, "login failed"
                    );
                }
            }
            AuditAction::ConfigSet { names } => {
                let names = names.join(", ");
                line!(AuditConfig, "CONFIG SET", names);
            }
            AuditAction::ConfigRewrite => line!(AuditConfig, "CONFIG REWRITE"),
            AuditAction::ConfigResetStat => line!(AuditConfig, "CONFIG RESETSTAT"),
            AuditAction::AclSetUser { name } => line!(AuditAcl, "ACL SETUSER", name),
            AuditAction::AclDelUser { names } => {
                let names = names.join(", ");
                line!(AuditAcl, "ACL DELUSER", names);
            }
            AuditAction::AclLoad => line!(AuditAcl, "ACL LOAD"),
            AuditAction::AclSave => line!(AuditAcl, "ACL SAVE"),
            AuditAction::AclLogReset => line!(AuditAcl, "ACL LOG RESET"),
            AuditAction::ClientKill { count } => line!(AuditClient, "CLIENT KILL", count),
            AuditAction::ClientPause { what, timeout_ms } => line!(AuditClient, "CLIENT PAUSE", what, timeout_ms),
            AuditAction::ClientUnpause => line!(AuditClient, "CLIENT UNPAUSE"),
            AuditAction::Monitor => line!(AuditMonitor, "MONITOR"),
            AuditAction::Sequence { what, name } => {
                throttled!(throttle, AuditSequence, by: &user, target: AUDIT, user = %user, client = id, addr = %addr, name, "{what}");
            }
            AuditAction::Number { what, name, number } => {
                throttled!(throttle, AuditSequence, by: &user, target: AUDIT, user = %user, client = id, addr = %addr, name, number, "{what}");
            }
            AuditAction::WorkerIdInit { pool } => line!(AuditWorkerId, "WORKERID INIT", pool),
            AuditAction::WorkerIdRevoke { pool, id: worker_id } => {
                throttled!(
                    throttle, AuditWorkerId, by: &user, target: AUDIT, user = %user, client = id, addr = %addr, pool,
                    worker_id, "WORKERID REVOKE"
                );
            }
            AuditAction::Shutdown => line!(AuditShutdown, "SHUTDOWN"),
            AuditAction::ShutdownRefused => {
                line!(
                    ShutdownRefused,
                    "SHUTDOWN refused: the state cannot be saved. SHUTDOWN FORCE stops the server nevertheless"
                );
            }
        }
    }
}
