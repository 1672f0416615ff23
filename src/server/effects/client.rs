//! What `CLIENT` asks about other connections, and what is said of those that are closed.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::pieces::ClientLines;
use crate::resp::Value;
use crate::server::registry::{Client, Stop};
use crate::server::{Act, Server};
use crate::session::{ClientFilter, ClientKill, ClientKind, Pause, Unblock};

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
