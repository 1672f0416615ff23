//! What is checked while IDs arrive.
//!
//! Real-time order needs no clock. Each server has a floor: one more than the largest ID whose reply any connection has
//! received. A request notes the floor before it is sent; every ID it brings must reach it. This is sound however
//! threads interleave: an ID in the floor was received before the note, and the note was made before the request
//! left, so the promise applies. It may miss a violation that is a few nanoseconds narrow; it never claims one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use getid_core::{Id, Layout};

use super::{Findings, Kind};

#[derive(Debug)]
pub(crate) struct ServerWatch {
    pub(crate) name: String,
    /// One more than the largest ID received; 0 at first.
    floor: AtomicU64,
    /// The server-id of all its IDs, plus one; 0 until it is known.
    server_id_plus_1: AtomicU64,
}

impl ServerWatch {
    /// A server, with its server-id if that is known beforehand.
    pub(crate) fn new(name: String, server_id: Option<u32>) -> ServerWatch {
        let known = server_id.map_or(0, |id| u64::from(id) + 1);
        ServerWatch { name, floor: AtomicU64::new(0), server_id_plus_1: AtomicU64::new(known) }
    }

    /// The server-id its IDs must have: as given, or as the first of them had it.
    pub(crate) fn server_id(&self) -> Option<u32> {
        self.server_id_plus_1.load(Ordering::Relaxed).checked_sub(1).and_then(|id| u32::try_from(id).ok())
    }

    /// To be called right before a request is handed to the socket, or earlier.
    pub(crate) fn ask(&self) -> Asked {
        Asked { floor: self.floor.load(Ordering::Acquire) }
    }

    fn received(&self, id: Id) {
        self.floor.fetch_max(id.get() + 1, Ordering::AcqRel);
    }

    /// The server-id to expect, which is `seen` if none was seen before.
    fn expect(&self, seen: u32) -> u32 {
        let mine = u64::from(seen) + 1;
        match self.server_id_plus_1.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => seen,
            Err(known) => u32::try_from(known - 1).unwrap_or(u32::MAX),
        }
    }
}

/// What was known when a request was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    floor: u64,
}

/// When a reply's request left and when the reply came, by the wall clock of the client, Unix ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The request was sent at or after this.
    pub(crate) asked_unix_ms: i64,
    /// The reply was here at this.
    pub(crate) received_unix_ms: i64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchOptions {
    pub(crate) layout: Layout,
    /// How far an ID's time may lie ahead of its receipt or behind its request, ms.
    pub(crate) clock_tolerance_ms: i64,
}

/// Watches one connection, and keeps its IDs.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) server: Arc<ServerWatch>,
    /// The connection's number among those of its server.
    pub(crate) connection: usize,
    pub(crate) findings: Findings,
    /// The IDs, in the order of their arrival.
    pub(crate) ids: Vec<u64>,
    /// The farthest an ID lay ahead of its receipt, ms; negative when all lay behind.
    pub(crate) ahead_max_ms: Option<i64>,
    /// The farthest an ID lay behind its request, ms; negative when all lay ahead.
    pub(crate) behind_max_ms: Option<i64>,
    options: WatchOptions,
}

impl Watch {
    pub(crate) fn new(server: Arc<ServerWatch>, connection: usize, options: WatchOptions) -> Watch {
        Watch {
            server,
            connection,
            findings: Findings::default(),
            ids: Vec::new(),
            ahead_max_ms: None,
            behind_max_ms: None,
            options,
        }
    }

    /// One ID of a reply to a request that was `asked`, in the reply's order.
    pub(crate) fn received(&mut self, asked: Asked, seen: Seen, id: Id) {
        let (server, connection) = (&*self.server, self.connection);
        let place = || format!("{} connection {connection}", server.name);
        let parts = self.options.layout.split(id);

        if let Some(last) = self.ids.last().copied().filter(|&last| id.get() <= last) {
            self.findings.add(Kind::ConnectionOrder, || format!("{}: {id} came after {last}", place()));
        }
        if id.get() < asked.floor {
            self.findings.add(Kind::RealTimeOrder, || {
                format!("{}: {id} was asked for after {} had been received", place(), asked.floor - 1)
            });
        }
        let expected = server.expect(parts.server);
        if parts.server != expected {
            self.findings.add(Kind::ServerId, || {
                format!("{}: {id} has server-id {}, expected {expected}", place(), parts.server)
            });
        }

        let id_unix_ms = parts.tick.unix_ms(self.options.layout.epoch());
        let ahead_ms = id_unix_ms.saturating_sub(seen.received_unix_ms);
        let behind_ms = seen.asked_unix_ms.saturating_sub(id_unix_ms);
        self.ahead_max_ms = self.ahead_max_ms.max(Some(ahead_ms));
        self.behind_max_ms = self.behind_max_ms.max(Some(behind_ms));
        for (distance_ms, side) in [(ahead_ms, "ahead of"), (behind_ms, "behind")] {
            if distance_ms > self.options.clock_tolerance_ms {
                self.findings.add(Kind::Clock, || format!("{}: {id} is {distance_ms} ms {side} the clock", place()));
            }
        }

        self.ids.push(id.get());
        server.received(id);
    }

    /// A reply that is not what was asked for.
    pub(crate) fn wrong_reply(&mut self, what: &str) {
        self.findings.add(Kind::Reply, || format!("{} connection {}: {what}", self.server.name, self.connection));
    }
}
