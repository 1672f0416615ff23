//! What `CLIENT` asks about other connections.

use std::sync::atomic::Ordering::Relaxed;

use super::Server;
use crate::clients::{Client, Stop};
use crate::clock::Clock;
use crate::resp::Value;
use crate::session::{ClientFilter, ClientKill, ClientKind, DEFAULT_USER};

impl<C: Clock> Server<C> {
    pub(super) fn client_list(&self, filter: &ClientFilter) -> String {
        let uptime_s = self.metrics.uptime_s.load(Relaxed);
        let clients = match filter {
            ClientFilter::All | ClientFilter::Kind(ClientKind::Normal) => self.clients.alive(),
            ClientFilter::Kind(ClientKind::Master | ClientKind::Replica | ClientKind::PubSub) => Vec::new(),
            ClientFilter::Ids(ids) => ids.iter().filter_map(|id| self.clients.get(*id)).collect(),
        };
        clients.iter().map(|client| client.line(uptime_s) + "\n").collect()
    }

    /// Ends the connections that `kill` means; `own` is the one that asks.
    pub(super) fn client_kill(&self, kill: &ClientKill, own: &Client) -> Value {
        let mut killed = 0;
        for client in self.clients.alive() {
            let is_own = client.id == own.id;
            if (is_own && kill.skips_own) || !is_meant(kill, &client) {
                continue;
            }
            // Our own reply is still to be written.
            client.stop(if is_own { Stop::AfterReply } else { Stop::Now });
            killed += 1;
        }
        if killed > 0 {
            tracing::debug!("client {} at {} killed {killed} connections", own.id, own.peer);
        }
        match (kill.is_old_form, killed) {
            (true, 0) => Value::error("ERR No such client"),
            (true, _) => Value::OK,
            (false, _) => Value::Integer(killed),
        }
    }
}

fn is_meant(kill: &ClientKill, client: &Client) -> bool {
    let is_user = |wanted: &str| match &*client.user() {
        // Who has not authenticated is the default user without its rights, as in Redis.
        "" => wanted == DEFAULT_USER,
        user => wanted == user,
    };
    let is_at = |wanted: &Option<Vec<u8>>, end: &dyn ToString| {
        wanted.as_ref().is_none_or(|wanted| *wanted == end.to_string().into_bytes())
    };
    kill.id.is_none_or(|id| id == client.id)
        && kill.kind.is_none_or(|kind| kind == ClientKind::Normal)
        && kill.user.as_deref().is_none_or(is_user)
        && is_at(&kill.addr, &client.peer)
        && is_at(&kill.laddr, &client.local)
}
