//! What others may see of a session: `CLIENT LIST` and `CLIENT INFO` are made of it.

use std::sync::Arc;

use crate::resp::Protocol;

/// The visible side of a session. Cheap to clone, so that a registry of connections can keep a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The connection's number, as `CLIENT ID` and `HELLO` say it.
    pub id: u64,
    /// `CLIENT SETNAME`; empty when never set.
    pub name: Arc<str>,
    /// `CLIENT SETINFO LIB-NAME`; empty when never set.
    pub lib_name: Arc<str>,
    /// `CLIENT SETINFO LIB-VER`; empty when never set.
    pub lib_version: Arc<str>,
    /// The user it is, authenticated or not: the default one at first, as in Redis.
    pub user: Arc<str>,
    /// The database of `SELECT`. It means nothing here beyond being remembered.
    pub database: u32,
    /// RESP2 or RESP3.
    pub protocol: Protocol,
    /// How many commands wait for `EXEC`; `None` outside of `MULTI`.
    pub queued: Option<usize>,
    /// The full name of the command that ran last (`client|list`), `NULL` before the first, as Redis has it.
    pub last_command: &'static str,
    /// `CLIENT NO-EVICT ON`.
    pub no_evict: bool,
    /// `CLIENT NO-TOUCH ON`.
    pub no_touch: bool,
    /// Behind `MONITOR`.
    pub monitors: bool,
}

impl Profile {
    /// That of a connection that has said nothing yet.
    pub(super) fn new(id: u64, user: Arc<str>) -> Profile {
        // Empty ones share an allocation that is made at compile time.
        let none: Arc<str> = Arc::default();
        Profile {
            id,
            name: none.clone(),
            lib_name: none.clone(),
            lib_version: none,
            user,
            database: 0,
            protocol: Protocol::Resp2,
            queued: None,
            last_command: "NULL",
            no_evict: false,
            no_touch: false,
            monitors: false,
        }
    }
}
