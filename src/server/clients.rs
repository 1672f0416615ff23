//! What `CLIENT` asks about other connections, and what is said of those that are closed.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::pieces::ClientLines;
use super::{Act, Server};
use crate::logging::throttle::throttled;
use crate::metrics::Counter;
use crate::resp::Value;
use crate::server::connection::CutOff;
use crate::server::registry::{Client, Stop};
use crate::session::{Breach, ClientFilter, ClientKill, ClientKind, Pause, Unblock};

/// How long `CLIENT KILL` waits for the connections that it ends.
const KILL_PATIENCE: Duration = Duration::from_millis(100);

impl Server {
    pub(super) fn client_list(&self, filter: &ClientFilter) -> ClientLines {
        let uptime_s = self.metrics.uptime_s.load(Relaxed);
        let clients = match filter {
            ClientFilter::All | ClientFilter::Kind(ClientKind::Normal) => self.clients.alive(),
            ClientFilter::Kind(ClientKind::Master | ClientKind::Replica | ClientKind::PubSub) => Vec::new(),
            ClientFilter::Ids(ids) => {
                // A client that is named a thousand times has one line: else a small request has a huge reply.
                let mut named = HashSet::new();
                ids.iter().filter(|id| named.insert(**id)).filter_map(|id| self.clients.get(*id)).collect()
            }
        };
        ClientLines::new(clients, uptime_s)
    }

    /// Closes the largest clients if all together hold more than `maxmemory-clients`.
    #[cold]
    pub(crate) fn evict_clients(&self) {
        for client in self.clients.choose_too_large() {
            self.metrics.count(Counter::Evicted);
            throttled!(
                self.throttle,
                Evicted,
                "client {} at {} is closed with {} bytes: the buffers of all clients together take more than \
                 maxmemory-clients {}",
                client.id,
                client.peer,
                client.held_bytes(),
                self.clients.held_bytes_max().unwrap_or(0)
            );
            client.stop(Stop::Now);
        }
    }

    pub(super) fn client_pause(&self, holds: Pause, timeout_ms: u64, own: &Client) -> Value {
        let what = if holds == Pause::All { "requests" } else { "requests for ids" };
        self.audit(Act::ClientPause { what, timeout_ms }, own);
        self.pauses.begin(holds, timeout_ms);
        Value::OK
    }

    pub(super) fn client_unpause(&self, own: &Client) -> Value {
        if self.pauses.remaining().is_some() {
            self.audit(Act::ClientUnpause, own);
        }
        self.pauses.end();
        Value::OK
    }

    pub(super) fn client_unblock(&self, id: i64, how: Unblock) -> Value {
        let client = u64::try_from(id).ok().and_then(|id| self.clients.get(id));
        Value::Integer(client.is_some_and(|client| client.unblock(how)).into())
    }

    /// Counts a connection that ends for what its client sent, and says so now and then.
    #[cold]
    pub(crate) fn note_breach(&self, breach: Breach, client: &Client) {
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

    /// Counts a client that is closed because it does not take its replies, and says so now and then.
    #[cold]
    pub(crate) fn note_cut_off(&self, reason: CutOff, pending_bytes: usize, client: &Client) {
        let counter = match reason {
            CutOff::HardLimit { .. } | CutOff::SoftLimit { .. } => Counter::OutputLimitClosed,
            CutOff::Timeout { .. } => Counter::OutputTimeoutClosed,
        };
        self.metrics.count(counter);
        throttled!(
            self.throttle,
            OutputLimit,
            "client {} at {} is closed with {pending_bytes} bytes of output waiting: {reason}",
            client.id,
            client.peer
        );
    }

    /// Ends the connections that `kill` means; `own` is the one that asks.
    ///
    /// As in Redis, they are closed when the answer comes: a client that asked for it may be in a hurry to see that.
    pub(super) async fn client_kill(&self, kill: &ClientKill, own: &Client) -> Value {
        let mut killed = 0;
        let mut others = Vec::new();
        for client in self.clients.alive() {
            let is_own = client.id == own.id;
            if (is_own && kill.skips_own) || !is_meant(kill, &client) {
                continue;
            }
            killed += 1;
            if is_own {
                // The reply is still to be written.
                client.stop(Stop::AfterReply);
            } else {
                client.stop(Stop::Now);
                others.push(client.id);
            }
        }
        // One that hangs in a busy thread, or waits for us to end, ends a little later.
        let _ = tokio::time::timeout(KILL_PATIENCE, self.clients.ended(&others)).await;
        self.audit(Act::ClientKill { count: killed }, own);
        match (kill.is_old_form, killed) {
            (true, 0) => Value::error("ERR No such client"),
            (true, _) => Value::OK,
            (false, _) => Value::Integer(killed),
        }
    }
}

fn is_meant(kill: &ClientKill, client: &Client) -> bool {
    let is_at = |wanted: &Option<Vec<u8>>, end: &dyn ToString| {
        wanted.as_ref().is_none_or(|wanted| *wanted == end.to_string().into_bytes())
    };
    kill.id.is_none_or(|id| id == client.id)
        && kill.kind.is_none_or(|kind| kind == ClientKind::Normal)
        && kill.user.as_deref().is_none_or(|user| *user == *client.user().0)
        && is_at(&kill.addr, &client.peer)
        && is_at(&kill.laddr, &client.local)
}
