//! `CLIENT`, for other connections.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use super::EffectReply;
use super::chunks::ClientLines;
use crate::Server;
use crate::audit::AuditAction;
use crate::registry::{Client, StopMode};
use getid_redis::resp::Value;
use getid_redis::session::{ClientEffect, ClientFilter, ClientKill, ClientKind, Pause, Unblock};

pub(super) async fn perform(server: &Server, effect: ClientEffect, own: &Client) -> EffectReply {
    EffectReply::Value(match effect {
        ClientEffect::Info => Value::text(own.line(server.metrics.uptime_s.load(Relaxed)) + "\n"),
        ClientEffect::List(filter) => return EffectReply::Chunks(Box::new(list(server, &filter))),
        ClientEffect::Kill(options) => kill(server, &options, own).await,
        ClientEffect::Pause { timeout_ms, holds } => pause(server, holds, timeout_ms, own),
        ClientEffect::Unpause => unpause(server, own),
        ClientEffect::Unblock { id, how } => unblock(server, id, how),
    })
}

fn list(server: &Server, filter: &ClientFilter) -> ClientLines {
    let clients = match filter {
        ClientFilter::All => server.clients.alive(),
        ClientFilter::Kind(kind) => {
            let mut clients = server.clients.alive();
            clients.retain(|client| is_of_kind(client, *kind));
            clients
        }
        ClientFilter::Ids(ids) => {
            // A client that is named a thousand times has one line: otherwise a small request would have a huge reply.
            let mut named = HashSet::new();
            ids.iter().filter(|id| named.insert(**id)).filter_map(|id| server.clients.get(*id)).collect()
        }
    };
    ClientLines::new(clients, server.metrics.uptime_s.load(Relaxed))
}

/// As in Redis, the connections are closed when the answer comes: nothing more is done for them.
async fn kill(server: &Server, options: &ClientKill, own: &Client) -> Value {
    let mut killed = 0;
    for client in server.clients.alive() {
        let is_own = client.id == own.id;
        if (is_own && options.skips_own) || !is_selected(options, &client) {
            continue;
        }
        killed += 1;
        // Its own reply is still to be written.
        client.stop(if is_own { StopMode::AfterReply } else { StopMode::Now });
    }
    server.wait_for_cut_off(own).await;
    server.audit(AuditAction::ClientKill { count: killed }, own);
    match (options.is_old_form, killed) {
        (true, 0) => Value::error("ERR No such client"),
        (true, _) => Value::OK,
        (false, _) => Value::Integer(killed),
    }
}

fn pause(server: &Server, holds: Pause, timeout_ms: u64, own: &Client) -> Value {
    let what = if holds == Pause::All { "requests" } else { "requests for ids" };
    server.audit(AuditAction::ClientPause { what, timeout_ms }, own);
    server.pauses.begin(holds, timeout_ms);
    Value::OK
}

fn unpause(server: &Server, own: &Client) -> Value {
    if server.pauses.remaining().is_some() {
        server.audit(AuditAction::ClientUnpause, own);
    }
    server.pauses.end();
    Value::OK
}

fn unblock(server: &Server, id: i64, how: Unblock) -> Value {
    let client = u64::try_from(id).ok().and_then(|id| server.clients.get(id));
    Value::Integer(client.is_some_and(|client| client.unblock(how)).into())
}

fn is_of_kind(client: &Client, kind: ClientKind) -> bool {
    match kind {
        ClientKind::Normal => !client.is_subscribed(),
        ClientKind::PubSub => client.is_subscribed(),
        ClientKind::Master | ClientKind::Replica => false,
    }
}

fn is_selected(options: &ClientKill, client: &Client) -> bool {
    let is_at = |expected: &Option<Vec<u8>>, end: &dyn ToString| {
        expected.as_ref().is_none_or(|expected| *expected == end.to_string().into_bytes())
    };
    options.id.is_none_or(|id| id == client.id)
        && options.kind.is_none_or(|kind| is_of_kind(client, kind))
        && options.user.as_deref().is_none_or(|user| *user == *client.user().0)
        && is_at(&options.addr, &client.peer)
        && is_at(&options.laddr, &client.local)
}
