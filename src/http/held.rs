//! What buffers of a connection take of the memory that all clients of both ports share (`maxmemory-clients`).
//!
//! A part is counted where its buffer is: what was read and not handed over and hyper's own buffer by the gate, a body
//! while it comes and is answered, a large response until it is taken. The connection that holds the most is closed
//! with the clients that do ([`Server::evict_clients`](crate::server::Server::evict_clients)).

use std::sync::Arc;

use crate::server::Server;
use crate::server::registry::HttpAdmission;

/// Bytes of one buffer that count as held by a connection, until the value is dropped.
pub(super) struct Held {
    server: Arc<Server>,
    admission: Arc<HttpAdmission>,
    bytes: usize,
}

impl Held {
    /// Counts nothing yet.
    pub(super) fn new(server: Arc<Server>, admission: Arc<HttpAdmission>) -> Held {
        Held { server, admission, bytes: 0 }
    }

    /// Whether a read is to be put off until others have left, as
    /// [`Clients::puts_off`](crate::server::registry::Clients::puts_off) says.
    pub(super) fn puts_off(&self, seen: &mut u32) -> bool {
        self.server.clients.puts_off(seen)
    }

    /// Counts `bytes` from now on. If all clients then hold more than they may, the largest are closed, which may be
    /// this one.
    pub(super) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if before != bytes && self.admission.change_held(before, bytes) {
            self.server.evict_clients();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}
