//! Clients that the server closes: each is counted, and the log has the reason.

use super::Server;
use crate::logging::throttle::throttled;
use crate::metrics::Counter;
use crate::output_limit::CutOffReason;
use crate::registry::Client;
use getid_redis::session::Breach;

impl Server {
    /// Closes the largest clients if all together hold more than `maxmemory-clients`.
    #[cold]
    pub fn evict_clients(&self) {
        for holder in self.clients.choose_evicted() {
            self.metrics.count(Counter::Evicted);
            throttled!(
                self.throttle,
                Evicted,
                "{holder}, whose buffers take {} bytes, is closed: the buffers of all clients exceed maxmemory-clients {}",
                holder.held_bytes(),
                self.clients.held_bytes_max().unwrap_or(0)
            );
            holder.evict();
        }
    }

    /// Counts a connection that ends because of its client's input, and logs it at a limited rate.
    #[cold]
    pub(super) fn note_breach(&self, breach: Breach, client: &Client) {
        let metrics = &self.metrics;
        metrics.count(Counter::ProtocolErrors);
        match breach {
            Breach::Protocol => {}
            Breach::TooLarge => {
                metrics.count(Counter::InputLimitClosed);
                throttled!(
                    self.throttle,
                    InputLimit,
                    "client {} at {} is closed: its request is larger than client-query-buffer-limit",
                    client.id,
                    client.peer
                );
            }
            Breach::Http => {
                metrics.count(Counter::HttpClosed);
                throttled!(
                    self.throttle,
                    Http,
                    "Possible SECURITY ATTACK detected. It looks like somebody is sending HTTP requests to getid. This is \
                     likely due to an attacker attempting to use Cross Protocol Scripting to compromise your getid \
                     instance. Connection from {} aborted.",
                    client.peer
                );
            }
        }
    }

    /// Counts a client that is closed because it does not read its replies, and logs it at a limited rate.
    #[cold]
    pub(super) fn note_cut_off(&self, reason: CutOffReason, pending_bytes: usize, client: &Client) {
        let counter = match reason {
            CutOffReason::HardLimit { .. } | CutOffReason::SoftLimit { .. } => Counter::OutputLimitClosed,
            CutOffReason::Timeout { .. } => Counter::OutputTimeoutClosed,
        };
        self.metrics.count(counter);
        throttled!(
            self.throttle,
            OutputLimit,
            "client {} at {} is closed with {pending_bytes} bytes of unread output: {reason}",
            client.id,
            client.peer
        );
    }

    /// Logs that a subscriber is closed because it missed messages, at a limited rate.
    #[cold]
    pub(super) fn note_missed(&self, client: &Client) {
        throttled!(
            self.throttle,
            SubscriberMissed,
            "client {} at {} is closed: it did not read its messages for so long that some are no longer kept",
            client.id,
            client.peer
        );
    }

    /// Gives lines to all monitors, and closes those that are too far behind.
    pub(super) fn feed_monitors(&self, lines: &[u8]) {
        for client in self.monitors.feed(lines) {
            throttled!(
                self.throttle,
                MonitorDropped,
                "client {} at {} does not keep up with MONITOR and is closed",
                client.id,
                client.peer
            );
        }
    }
}
