//! What is checked while IDs arrive.
//!
//! Real-time order needs no clock. Each server has a floor: the largest ID whose reply any connection has received. A
//! request notes the floor before it is sent; every ID it brings must be above it. This is sound however threads
//! interleave: an ID in the floor was received before the note, and the note was made before the request left, so the
//! promise applies. It may miss a violation that is a few nanoseconds narrow; it never claims one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Findings, Ids, Kind, Promises};

#[derive(Debug)]
pub(crate) struct ServerWatch {
    pub(crate) name: String,
    /// The largest ID received.
    floor: Mutex<Option<u128>>,
    /// The server-id of all its IDs, plus one; 0 until it is known.
    server_id_plus_1: AtomicU64,
}

impl ServerWatch {
    /// A server, with its server-id if that is known beforehand.
    pub(crate) fn new(name: String, server_id: Option<u64>) -> ServerWatch {
        let known = server_id.map_or(0, |id| id.saturating_add(1));
        ServerWatch { name, floor: Mutex::new(None), server_id_plus_1: AtomicU64::new(known) }
    }

    /// The server-id its IDs must have: as given, or as the first of them had it.
    pub(crate) fn server_id(&self) -> Option<u64> {
        self.server_id_plus_1.load(Ordering::Relaxed).checked_sub(1)
    }

    /// To be called right before a request is handed to the socket, or earlier.
    pub(crate) fn ask(&self) -> Asked {
        Asked { floor: *self.floor.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    fn received(&self, largest: Option<u128>) {
        let mut floor = self.floor.lock().unwrap_or_else(PoisonError::into_inner);
        *floor = (*floor).max(largest);
    }

    /// The server-id to expect, which is `seen` if none was seen before.
    fn expect(&self, seen: u64) -> u64 {
        match self.server_id_plus_1.compare_exchange(0, seen + 1, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => seen,
            Err(known) => known - 1,
        }
    }
}

/// What was known when a request was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    floor: Option<u128>,
}

/// When a reply's request left and when the reply came, by the wall clock of the client, Unix ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The request was sent at or after this.
    pub(crate) asked_unix_ms: i64,
    /// The reply was here at this.
    pub(crate) received_unix_ms: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct WatchOptions {
    pub(crate) promises: Arc<Promises>,
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
    pub(crate) ids: Ids,
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
            ids: Ids::new(options.promises.is_narrow()),
            ahead_max_ms: None,
            behind_max_ms: None,
            options,
        }
    }

    /// The IDs of a reply to a request that was `asked`, in the reply's order.
    pub(crate) fn received(&mut self, asked: Asked, seen: Seen, ids: &[u128]) {
        for &id in ids {
            self.check(asked, seen, id);
            self.ids.push(id);
        }
        self.server.received(ids.iter().copied().max());
    }

    fn check(&mut self, asked: Asked, seen: Seen, id: u128) {
        let (server, connection, promises) = (&*self.server, self.connection, &*self.options.promises);
        let place = || format!("{} connection {connection}", server.name);
        if promises.ordered() {
            if let Some(last) = self.ids.last().filter(|&last| id <= last) {
                self.findings.add(Kind::ConnectionOrder, || {
                    format!("{}: {} came after {}", place(), promises.text(id), promises.text(last))
                });
            }
            if let Some(floor) = asked.floor.filter(|&floor| id <= floor) {
                self.findings.add(Kind::RealTimeOrder, || {
                    let (id, floor) = (promises.text(id), promises.text(floor));
                    format!("{}: {id} was asked for after {floor} had been received", place())
                });
            }
        }
        if let Some(seen) = promises.server_of(id) {
            let expected = server.expect(seen);
            if seen != expected {
                self.findings.add(Kind::ServerId, || {
                    let (id, word) = (promises.text(id), promises.server_word());
                    format!("{}: {id} has {word} {seen}, expected {expected}", place())
                });
            }
        }

        // Whatever the unit, the ID was made at some ms of it.
        let Some((first_unix_ms, last_unix_ms)) = promises.unix_ms_of(id) else { return };
        let ahead_ms = first_unix_ms.saturating_sub(seen.received_unix_ms);
        let behind_ms = seen.asked_unix_ms.saturating_sub(last_unix_ms);
        self.ahead_max_ms = self.ahead_max_ms.max(Some(ahead_ms));
        self.behind_max_ms = self.behind_max_ms.max(Some(behind_ms));
        for (distance_ms, side) in [(ahead_ms, "ahead of"), (behind_ms, "behind")] {
            if distance_ms > self.options.clock_tolerance_ms {
                self.findings.add(Kind::Clock, || {
                    format!("{}: {} is {distance_ms} ms {side} the clock", place(), promises.text(id))
                });
            }
        }
    }

    /// A reply that is not what was asked for.
    pub(crate) fn wrong_reply(&mut self, what: &str) {
        self.findings.add(Kind::Reply, || format!("{} connection {}: {what}", self.server.name, self.connection));
    }
}
