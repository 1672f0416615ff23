//! `CLUSTER`: the nodes of the emulated Redis Cluster, and the names of sequences in a slot.

use std::sync::Arc;

use super::{EffectReply, keys};
use crate::Server;
use crate::registry::Client;
use getid_redis::command::{ClusterMaster, ClusterQuery, ClusterView};
use getid_redis::resp::Value;

pub(super) async fn perform(server: &Arc<Server>, query: ClusterQuery, client: &Client) -> EffectReply {
    match (&query, server.generators.sequences()) {
        (ClusterQuery::Keys { slot, count }, Some(sequences)) => {
            keys::in_slot(server, sequences, *slot, *count).await.unwrap_or_else(|error| Value::Error(error).into())
        }
        _ => view(server, client).reply(&query).into(),
    }
}

/// Returns the nodes as this server knows them. A server without a claim store is the only one.
fn view(server: &Server, client: &Client) -> ClusterView {
    let master = server.own_master(&client.local);
    let (own, peers) = if server.claim().is_some() {
        (server.process.announced.clone(), server.config.get().announced_peers())
    } else {
        (master.as_ref().and_then(|master| master.address.clone()), Vec::new())
    };
    let server_id = || server.own_server_id().map_or_else(|| "none".to_owned(), |server_id| server_id.to_string());
    let master = match master {
        Some(master) => match master.address {
            Some(address) => Ok(ClusterMaster { address, epoch: master.since_unix_ms }),
            None => Err(format!(
                "the holder of server-id {}, {}, has announced no address; set announce-address there",
                master.server_id, master.name
            )),
        },
        None => Err(format!("no server is known to hold the claim of server-id {}", server_id())),
    };
    ClusterView::new(own.as_ref(), master, &peers, &server.process.run_id).with_tls(server.config.get().announces_tls())
}
