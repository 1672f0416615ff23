//! Counts a client's task that ends in a panic, and logs its client. Only this client is cut off.

use std::fmt;
use std::sync::Arc;

use crate::Server;
use crate::logging::throttle::throttled;
use crate::metrics::Counter;

/// Watches its thread until it is dropped.
pub struct PanicWatch<W: fmt::Display> {
    server: Arc<Server>,
    client: W,
}

impl<W: fmt::Display> PanicWatch<W> {
    pub fn new(server: &Arc<Server>, client: W) -> Self {
        PanicWatch { server: Arc::clone(server), client }
    }
}

impl<W: fmt::Display> Drop for PanicWatch<W> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.server.metrics.count(Counter::Panics);
            let client = &self.client;
            throttled!(
                self.server.throttle,
                Bug,
                "the task of client {client} panicked, and its connection is closed; please report the log lines above"
            );
        }
    }
}
