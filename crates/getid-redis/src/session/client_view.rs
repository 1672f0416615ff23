//! The public state of a session, from which `CLIENT LIST` and `CLIENT INFO` are made.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use crate::resp::Protocol;

/// The public state of a session. Cheap to clone, so that a registry of connections can keep a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientView {
    /// Number of the connection, as in `CLIENT ID` and `HELLO`.
    pub id: u64,
    /// Names that the client gave itself. Clients without one share a value.
    pub names: Arc<ClientNames>,
    /// Current user, authenticated or not. At first the default user, as in Redis.
    pub user: Arc<str>,
    /// Incarnation of the user: see [`crate::acl::User::incarnation`].
    pub incarnation: u64,
    /// Database of `SELECT`. It has no effect here beyond being remembered.
    pub database: u32,
    /// Protocol version, RESP2 or RESP3.
    pub protocol: Protocol,
    /// Number of commands queued for `EXEC`; `None` outside `MULTI`.
    pub queued: Option<u32>,
    /// Full name of the last command (`client|list`). `NULL` before the first, as in Redis.
    pub last_command: &'static str,
    /// State of `CLIENT NO-EVICT`.
    pub no_evict: bool,
    /// State of `CLIENT NO-TOUCH`.
    pub no_touch: bool,
    /// Whether the client runs `MONITOR`.
    pub monitors: bool,
    /// Number of subscribed channels and patterns.
    pub subscriptions: [u16; 2],
    /// Whether the client has logged in, or needs no login.
    pub authenticated: bool,
}

/// Names that a client gave itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientNames {
    /// Name of `CLIENT SETNAME`; empty if never set.
    pub name: Arc<str>,
    /// Value of `CLIENT SETINFO LIB-NAME`; empty if never set.
    pub lib_name: Arc<str>,
    /// Value of `CLIENT SETINFO LIB-VER`; empty if never set.
    pub lib_version: Arc<str>,
}

static NO_NAMES: LazyLock<Arc<ClientNames>> = LazyLock::new(Arc::default);

/// Value of `last_command` before the first command.
pub(super) const NO_COMMAND: &str = "NULL";

impl ClientView {
    /// Returns true if the client is subscribed to any channel or pattern.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions != [0; 2]
    }

    /// Returns the view of a new connection.
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

/// A view with a flag that it may have changed since it was last read. Nearly all requests change nothing, and a
/// comparison with the published copy costs more than drawing an ID.
///
/// Every mutable access counts as a change.
#[derive(Debug)]
pub(super) struct TrackedView {
    view: ClientView,
    has_changed: bool,
}

impl TrackedView {
    /// Makes a view that counts as changed.
    pub(super) fn new(view: ClientView) -> TrackedView {
        TrackedView { view, has_changed: true }
    }

    /// Returns the view if it may have changed since the last call.
    #[inline]
    pub(super) fn take_changed(&mut self) -> Option<&ClientView> {
        std::mem::take(&mut self.has_changed).then_some(&self.view)
    }

    /// Returns the client's names for a change.
    pub(super) fn names_mut(&mut self) -> &mut ClientNames {
        Arc::make_mut(&mut self.names)
    }

    /// Sets the last command, which is mostly the same as before.
    #[inline]
    pub(super) fn set_last_command(&mut self, name: &'static str) {
        if !std::ptr::eq(self.view.last_command, name) {
            self.has_changed = true;
            self.view.last_command = name;
        }
    }
}

impl Deref for TrackedView {
    type Target = ClientView;

    #[inline]
    fn deref(&self) -> &ClientView {
        &self.view
    }
}

impl DerefMut for TrackedView {
    fn deref_mut(&mut self) -> &mut ClientView {
        self.has_changed = true;
        &mut self.view
    }
}
