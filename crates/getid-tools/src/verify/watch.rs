//! Checks IDs as they arrive.
//!
//! Real-time order needs no clock. Each server has a floor: the largest ID whose reply any connection has received. A
//! request notes the floor before it is sent, and every ID of its reply must be above it. This is sound for any
//! interleaving of threads: an ID in the floor was received before the note, and the note was made before the request
//! was sent. A violation of a few nanoseconds may be missed, but no false one is reported.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use getid_core::Number;

use super::{Findings, IdList, Promises, ViolationKind};

/// State that the watches of one server share: its floor and its server-id.
#[derive(Debug)]
pub struct ServerWatch {
    /// Name of the server in findings, such as its address.
    pub name: String,
    /// The largest ID received.
    floor: Mutex<Option<Number>>,
    /// The server-id of all its IDs, plus one; 0 until it is known.
    server_id_plus_1: AtomicU64,
}

impl ServerWatch {
    /// Returns a watch of a server, with its server-id if that is known beforehand.
    pub fn new(name: String, server_id: Option<u64>) -> ServerWatch {
        let known = server_id.map_or(0, |id| id.saturating_add(1));
        ServerWatch { name, floor: Mutex::new(None), server_id_plus_1: AtomicU64::new(known) }
    }

    /// Returns the server-id that the server's IDs must have: the given one, or that of its first ID.
    pub fn server_id(&self) -> Option<u64> {
        self.server_id_plus_1.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Notes the floor. To be called right before a request is handed to the socket, or earlier.
    pub fn floor(&self) -> Floor {
        Floor { largest: *self.floor.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    fn received(&self, largest: Option<Number>) {
        let mut floor = self.floor.lock().unwrap_or_else(PoisonError::into_inner);
        *floor = (*floor).max(largest);
    }

    /// Returns the expected server-id, which becomes `seen` if none was known.
    fn expected_server_id(&self, seen: u64) -> u64 {
        match self.server_id_plus_1.compare_exchange(0, seen + 1, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => seen,
            Err(known) => known - 1,
        }
    }
}

/// The floor when a request was sent.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    largest: Option<Number>,
}

/// When a reply's request was sent and when the reply arrived, by the wall clock of the client, Unix ms.
#[derive(Clone, Copy, Debug)]
pub struct ReplyTimes {
    /// The request was sent at or after this time.
    pub(crate) sent_unix_ms: i64,
    /// The reply had arrived by this time.
    pub(crate) received_unix_ms: i64,
}

/// Promises that a [`Watch`] checks, and its tolerance.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Promises about the generator's IDs.
    pub promises: Arc<Promises>,
    /// Largest tolerated time of an ID ahead of its receipt or behind its request, ms.
    pub clock_tolerance_ms: i64,
}

/// Watches one connection, and keeps its IDs.
#[derive(Debug)]
pub struct Watch {
    /// State of the server, shared by all its connections.
    pub server: Arc<ServerWatch>,
    /// The connection's number among those of its server.
    pub connection: usize,
    /// Violations that this connection showed.
    pub findings: Findings,
    /// The IDs, in the order of their arrival.
    pub ids: IdList,
    /// Largest time by which an ID lay ahead of its receipt, ms; negative if all lay behind.
    pub(crate) ahead_max_ms: Option<i64>,
    /// Largest time by which an ID lay behind its request, ms; negative if all lay ahead.
    pub(crate) behind_max_ms: Option<i64>,
    options: WatchOptions,
}

impl Watch {
    /// Returns a watch without IDs, for one connection of a server.
    pub fn new(server: Arc<ServerWatch>, connection: usize, options: WatchOptions) -> Watch {
        Watch {
            server,
            connection,
            findings: Findings::default(),
            ids: IdList::new(options.promises.is_narrow()),
            ahead_max_ms: None,
            behind_max_ms: None,
            options,
        }
    }

    /// Checks and keeps the IDs of a reply, in the reply's order. `floor` was noted before its request.
    pub fn received(&mut self, floor: Floor, times: ReplyTimes, ids: &[Number]) {
        for &id in ids {
            self.check(floor, times, id);
            self.ids.push(id);
        }
        self.server.received(ids.iter().copied().max());
    }

    fn check(&mut self, floor: Floor, times: ReplyTimes, id: Number) {
        let (server, connection, promises) = (&*self.server, self.connection, &*self.options.promises);
        let source = || format!("{} connection {connection}", server.name);
        if promises.ordered() {
            if let Some(last) = self.ids.last().filter(|&last| id <= last) {
                self.findings.add(ViolationKind::ConnectionOrder, || {
                    format!("{}: {} came after {}", source(), promises.text(id), promises.text(last))
                });
            }
            if let Some(floor) = floor.largest.filter(|&floor| id <= floor) {
                self.findings.add(ViolationKind::RealTimeOrder, || {
                    let (id, floor) = (promises.text(id), promises.text(floor));
                    format!("{}: {id} was requested after {floor} had been received", source())
                });
            }
        }
        if let Some(seen) = promises.server_of(id) {
            let expected = server.expected_server_id(seen);
            if seen != expected {
                self.findings.add(ViolationKind::ServerId, || {
                    let (id, word) = (promises.text(id), promises.server_word());
                    format!("{}: {id} has {word} {seen}, expected {expected}", source())
                });
            }
        }

        // The ID was made within its unit, so the nearest ms of the unit counts.
        let Some((first_unix_ms, last_unix_ms)) = promises.unix_ms_of(id) else { return };
        let ahead_ms = first_unix_ms.saturating_sub(times.received_unix_ms);
        let behind_ms = times.sent_unix_ms.saturating_sub(last_unix_ms);
        self.ahead_max_ms = self.ahead_max_ms.max(Some(ahead_ms));
        self.behind_max_ms = self.behind_max_ms.max(Some(behind_ms));
        for (distance_ms, side) in [(ahead_ms, "ahead of"), (behind_ms, "behind")] {
            if distance_ms > self.options.clock_tolerance_ms {
                self.findings.add(ViolationKind::Clock, || {
                    format!("{}: {} is {distance_ms} ms {side} the clock", source(), promises.text(id))
                });
            }
        }
    }

    /// Reports a reply that is not the requested one.
    pub(crate) fn wrong_reply(&mut self, what: &str) {
        self.findings
            .add(ViolationKind::Reply, || format!("{} connection {}: {what}", self.server.name, self.connection));
    }
}
