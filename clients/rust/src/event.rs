//! Events: what a client reports to its `on_event`.

use std::fmt;

/// Kind of an [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// A connection was made.
    Connected,
    /// A connection was lost.
    Disconnected,
    /// A request for values or for a lease failed.
    FetchFailed,
    /// A worker id was leased.
    Leased,
    /// A lease was renewed.
    Renewed,
    /// A renewal failed. It is tried again.
    RenewFailed,
    /// The server renews a lease no more. It is used to its end.
    LeaseLost,
    /// A lease was released.
    Released,
    /// The clock is past the end of a lease that was just given.
    Clock,
}

impl EventKind {
    /// Returns the event's name, as other languages and documents write it.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Connected => "connected",
            EventKind::Disconnected => "disconnected",
            EventKind::FetchFailed => "fetch_failed",
            EventKind::Leased => "leased",
            EventKind::Renewed => "renewed",
            EventKind::RenewFailed => "renew_failed",
            EventKind::LeaseLost => "lease_lost",
            EventKind::Released => "released",
            EventKind::Clock => "clock",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Event of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// Address of the server.
    pub address: String,
    /// Name of the sequence or pool; empty for events of the connection.
    pub object: String,
    /// Reason of a failure, else empty.
    pub reason: String,
    /// Of [`EventKind::Clock`]: how far the clock is past the end of the lease, in milliseconds.
    pub difference_ms: i64,
}
