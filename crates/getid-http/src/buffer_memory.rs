//! Counts a connection's buffers in the memory that all clients of both ports share (`maxmemory-clients`).
//!
//! Each part is counted by its owner: the gate counts unread input and hyper's buffer. A body is counted until it is
//! answered, a large response until the client has read it. The connection with the largest buffers is closed with the
//! clients that have the largest ([`Server::evict_clients`](getid_server::Server::evict_clients)).

use std::sync::Arc;

use getid_server::Server;
use getid_server::registry::HttpAdmission;

/// Bytes of one buffer that count for a connection until the value is dropped.
pub(super) struct BufferMemory {
    server: Arc<Server>,
    admission: Arc<HttpAdmission>,
    bytes: usize,
}

impl BufferMemory {
    /// Creates a counter of 0 bytes.
    pub(super) fn new(server: Arc<Server>, admission: Arc<HttpAdmission>) -> BufferMemory {
        BufferMemory { server, admission, bytes: 0 }
    }

    /// Whether a read must wait until evicted clients have closed: see
    /// [`Clients::is_read_delayed`](getid_server::registry::Clients::is_read_delayed).
    pub(super) fn is_read_deferred(&self, seen: &mut u32) -> bool {
        self.server.clients.is_read_delayed(seen)
    }

    /// Sets the counted bytes. If all clients then exceed their memory, the largest are closed, possibly including this
    /// one.
    pub(super) fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if before != bytes && self.admission.change_held(before, bytes) {
            self.server.evict_clients();
        }
    }
}

impl Drop for BufferMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}
