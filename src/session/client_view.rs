//! What others may see of a session: `CLIENT LIST` and `CLIENT INFO` are made of it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use crate::resp::Protocol;

/// The visible side of a session. Cheap to clone, so that a registry of connections can keep a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientView {
    /// The connection's number, as `CLIENT ID` and `HELLO` say it.
    pub id: u64,
    /// What it calls itself: one for all that have said nothing of it.
    pub names: Arc<Names>,
    /// The user it is, authenticated or not: the default one at first, as in Redis.
    pub user: Arc<str>,
    /// Which user of that name: see [`crate::acl::User::incarnation`].
    pub incarnation: u64,
    /// The database of `SELECT`. It means nothing here beyond being remembered.
    pub database: u32,
    /// RESP2 or RESP3.
    pub protocol: Protocol,
    /// How many commands wait for `EXEC`; `None` outside of `MULTI`.
    pub queued: Option<u32>,
    /// The full name of the command that ran last (`client|list`), `NULL` before the first, as Redis has it.
    pub last_command: &'static str,
    /// `CLIENT NO-EVICT ON`.
    pub no_evict: bool,
    /// `CLIENT NO-TOUCH ON`.
    pub no_touch: bool,
    /// Behind `MONITOR`.
    pub monitors: bool,
    /// How many channels it listens to, and how many patterns.
    pub subscriptions: [u16; 2],
    /// Whether it has logged in, or need not.
    pub authenticated: bool,
}

/// What a client calls itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// `CLIENT SETNAME`; empty when never set.
    pub name: Arc<str>,
    /// `CLIENT SETINFO LIB-NAME`; empty when never set.
    pub lib_name: Arc<str>,
    /// `CLIENT SETINFO LIB-VER`; empty when never set.
    pub lib_version: Arc<str>,
}

static NO_NAMES: LazyLock<Arc<Names>> = LazyLock::new(Arc::default);

/// `last_command` before the first.
pub(super) const NO_COMMAND: &str = "NULL";

impl ClientView {
    /// Whether it listens to any channel or pattern.
    pub fn listens(&self) -> bool {
        self.subscriptions != [0; 2]
    }

    /// That of a connection that has said nothing yet.
    pub(super) fn new(id: u64, user: Arc<str>) -> ClientView {
        ClientView {
            id,
            names: Arc::clone(&NO_NAMES),
            user,
            incarnation: 0,
            database: 0,
            protocol: Protocol::Resp2,
            queued: None,
            last_command: NO_COMMAND,
            no_evict: false,
            no_touch: false,
            monitors: false,
            subscriptions: [0; 2],
            authenticated: false,
        }
    }
}

/// A view that remembers whether it may have changed since somebody last looked: nearly all requests change nothing,
/// and comparing it with what others were shown costs more than drawing an ID.
///
/// Whoever takes it mutably counts as one who changes it.
#[derive(Debug)]
pub(super) struct Watched {
    view: ClientView,
    has_changed: bool,
}

impl Watched {
    /// One that nobody has looked at.
    pub(super) fn new(view: ClientView) -> Watched {
        Watched { view, has_changed: true }
    }

    /// The view if it may have changed since the last call.
    #[inline]
    pub(super) fn take_changed(&mut self) -> Option<&ClientView> {
        std::mem::take(&mut self.has_changed).then_some(&self.view)
    }

    /// What it calls itself, to be changed.
    pub(super) fn names_mut(&mut self) -> &mut Names {
        Arc::make_mut(&mut self.names)
    }

    /// This command ran last; mostly it is the one that ran before.
    #[inline]
    pub(super) fn set_last_command(&mut self, name: &'static str) {
        if !std::ptr::eq(self.view.last_command, name) {
            self.has_changed = true;
            self.view.last_command = name;
        }
    }
}

impl Deref for Watched {
    type Target = ClientView;

    #[inline]
    fn deref(&self) -> &ClientView {
        &self.view
    }
}

impl DerefMut for Watched {
    fn deref_mut(&mut self) -> &mut ClientView {
        self.has_changed = true;
        &mut self.view
    }
}
