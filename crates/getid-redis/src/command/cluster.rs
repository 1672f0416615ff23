//! The nodes of an emulated Redis Cluster, and the replies of `CLUSTER` about them.
//!
//! Clients in cluster mode ask a server for all nodes, and need one master for each of 16,384 hash slots. Here the
//! holder of the claim is the master of all slots, and the other servers with its server-id are its replicas. The
//! claim names the holder only, so replicas are those that the configuration lists. Nothing is known of their health.
//!
//! Invariants: no node has an empty host, which some libraries take for no node or for the asked server. The id of a
//! node depends on its address only, so all servers return the same one. A list of nodes has a master, or is an error:
//! redis-rb keeps a list of replicas only, and then fails for ever.

use std::fmt::Write as _;

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::key_slot::SLOTS;
use crate::resp::{ErrorKind, ErrorReply, Value};
use getid_text::host_port::HostPort;

/// A command about an emulated cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterQuery {
    /// `INFO`: answer a verbatim text.
    Info,
    /// `MYID`: answer the id of this server's node.
    MyId,
    /// `NODES`: answer a verbatim text, one line for each node.
    Nodes,
    /// `SLOTS`: answer the only range of slots and its nodes.
    Slots,
    /// `SHARDS`: answer the only shard and its nodes.
    Shards,
    /// `REPLICAS` and `SLAVES`: answer the lines of the replicas of the node with this id, as sent.
    Replicas(Vec<u8>),
    /// `COUNTKEYSINSLOT` and `GETKEYSINSLOT`: answer the number of sequences in the slot, or up to `count` names.
    Keys {
        /// The slot, below [`SLOTS`].
        slot: u16,
        /// Largest number of names; `None` for their number.
        count: Option<usize>,
    },
}

/// The nodes as one server knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// The master first, then replicas.
    nodes: Vec<ClusterNode>,
    /// Id of the server that replies.
    own_id: String,
    /// Epoch of the master, see [`ClusterMaster::epoch`]; 0 without one.
    epoch: u64,
    /// Whether the port of each node is for TLS.
    is_tls: bool,
    /// Reason why there is no master.
    down: Option<String>,
}

/// The master of an emulated cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMaster {
    /// Its address for clients.
    pub address: HostPort,
    /// The same number on each server, and another one for each master: the time by its clock since which it is the
    /// holder, Unix ms. It may be smaller than the one before, if the clocks of the two masters differ.
    pub epoch: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ClusterNode {
    id: String,
    address: HostPort,
    is_master: bool,
}

impl ClusterView {
    /// Returns the view of the server with the address `own`, which may be among `peers`. `run_id` replaces the node id
    /// of a server without an address. Without a master, the reason is `Err`.
    pub fn new(
        own: Option<&HostPort>,
        master: Result<ClusterMaster, String>,
        peers: &[HostPort],
        run_id: &str,
    ) -> ClusterView {
        let (master, down) = master.map_or_else(|why| (None, Some(why)), |master| (Some(master), None));
        let mut nodes: Vec<ClusterNode> = Vec::new();
        let epoch = master.as_ref().map_or(0, |master| master.epoch);
        let master = master.as_ref().map(|master| &master.address);
        for address in master.into_iter().chain(peers).chain(own) {
            if nodes.iter().all(|node| node.address != *address) {
                let is_master = master == Some(address);
                nodes.push(ClusterNode { id: node_id(address), address: address.clone(), is_master });
            }
        }
        ClusterView { nodes, own_id: own.map_or_else(|| run_id.to_owned(), node_id), epoch, is_tls: false, down }
    }

    /// Sets whether the port of each node is for TLS.
    #[must_use]
    pub fn with_tls(self, is_tls: bool) -> ClusterView {
        ClusterView { is_tls, ..self }
    }

    /// Returns the reply of a server without sequences.
    pub fn reply(&self, query: &ClusterQuery) -> Value {
        match query {
            ClusterQuery::Info => Value::text(self.info()),
            ClusterQuery::MyId => Value::from(self.own_id.as_str()),
            ClusterQuery::Nodes => self.check_up().map_or_else(Value::Error, |()| {
                Value::text(self.nodes.iter().map(|node| self.line(node) + "\n").collect::<String>())
            }),
            ClusterQuery::Slots => self.check_up().map_or_else(Value::Error, |()| self.slots()),
            ClusterQuery::Shards => self.check_up().map_or_else(Value::Error, |()| self.shards()),
            ClusterQuery::Replicas(id) => self.replicas(id).unwrap_or_else(Value::Error),
            ClusterQuery::Keys { count: None, .. } => Value::Integer(0),
            ClusterQuery::Keys { .. } => Value::Array(Vec::new()),
        }
    }

    fn check_up(&self) -> Result<(), ErrorReply> {
        let down = |why: &String| Err(ErrorReply::new(ErrorKind::Standby, format!("CLUSTERDOWN {why}")));
        self.down.as_ref().map_or(Ok(()), down)
    }

    fn info(&self) -> String {
        let (state, slots) = if self.down.is_none() { ("ok", SLOTS) } else { ("fail", 0) };
        let (nodes, size, epoch) = (self.nodes.len(), u8::from(self.down.is_none()), self.epoch);
        format!(
            "cluster_state:{state}\r\ncluster_slots_assigned:{slots}\r\ncluster_slots_ok:{slots}\r\n\
             cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{nodes}\r\ncluster_size:{size}\r\n\
             cluster_current_epoch:{epoch}\r\ncluster_my_epoch:{epoch}\r\ncluster_stats_messages_sent:0\r\n\
             cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n"
        )
    }

    /// Returns the line of a node: id, address, flags, master, two times of pings, epoch, link, slots. Port 0 stands
    /// for the cluster bus, which does not exist.
    fn line(&self, node: &ClusterNode) -> String {
        let HostPort { host, port } = &node.address;
        // Writing to a text cannot fail.
        let mut line = format!("{} {host}:{port}@0", node.id);
        if is_name(host) {
            let _ = write!(line, ",{host}");
        }
        let myself = if node.id == self.own_id { "myself," } else { "" };
        let (role, slots) =
            if node.is_master { ("master", format!(" 0-{}", SLOTS - 1)) } else { ("slave", String::new()) };
        let master = if node.is_master { "-" } else { self.master_id().unwrap_or("-") };
        let _ = write!(line, " {myself}{role} {master} 0 0 {} connected{slots}", self.epoch);
        line
    }

    fn master_id(&self) -> Option<&str> {
        self.nodes.iter().find(|node| node.is_master).map(|node| node.id.as_str())
    }

    fn slots(&self) -> Value {
        let node = |node: &ClusterNode| {
            let HostPort { host, port } = &node.address;
            Value::Array(vec![
                Value::from(host.as_str()),
                Value::Integer((*port).into()),
                Value::from(node.id.as_str()),
                // Facts such as another name of the host.
                Value::Map(Vec::new()),
            ])
        };
        let range = [Value::Integer(0), Value::Integer(i64::from(SLOTS) - 1)];
        Value::Array(vec![Value::Array(range.into_iter().chain(self.nodes.iter().map(node)).collect())])
    }

    fn shards(&self) -> Value {
        let node = |node: &ClusterNode| {
            let HostPort { host, port } = &node.address;
            let name = is_name(host).then(|| ("hostname", Value::from(host.as_str())));
            let fields = [
                ("id", Value::from(node.id.as_str())),
                (if self.is_tls { "tls-port" } else { "port" }, Value::Integer((*port).into())),
                ("ip", Value::from(host.as_str())),
                ("endpoint", Value::from(host.as_str())),
            ];
            let rest = [
                ("role", Value::from(if node.is_master { "master" } else { "replica" })),
                ("replication-offset", Value::Integer(0)),
                ("health", Value::from("online")),
            ];
            Value::map(fields.into_iter().chain(name).chain(rest))
        };
        let slots = vec![Value::Integer(0), Value::Integer(i64::from(SLOTS) - 1)];
        Value::Array(vec![Value::map([
            ("slots", Value::Array(slots)),
            ("nodes", Value::Array(self.nodes.iter().map(node).collect())),
        ])])
    }

    fn replicas(&self, id: &[u8]) -> Result<Value, ErrorReply> {
        let Some(master) = self.nodes.iter().find(|node| node.id.as_bytes().eq_ignore_ascii_case(id)) else {
            return Err([b"ERR Unknown node ", super::quote(id, ID_BYTES_MAX)].concat().into());
        };
        if !master.is_master {
            return Err("ERR The specified node is not a master".into());
        }
        let replicas = self.nodes.iter().filter(|node| !node.is_master);
        Ok(Value::Array(replicas.map(|node| Value::bulk(self.line(node))).collect()))
    }
}

/// Longest part of an unknown id that an error quotes, bytes.
const ID_BYTES_MAX: usize = 128;

/// Returns 40 hexadecimal digits for an address.
pub fn node_id(address: &HostPort) -> String {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, address.to_string().as_bytes());
    hash.as_ref().iter().fold(String::new(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}

/// Returns true if the host is a name, and no IP address.
fn is_name(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(master: Result<ClusterMaster, String>) -> ClusterView {
        let address = |host: &str| HostPort { host: host.to_owned(), port: 7890 };
        ClusterView::new(Some(&address("10.1.0.8")), master, &[address("10.1.0.7"), address("10.1.0.8")], "")
    }

    /// redis-rb keeps the nodes of `CLUSTER NODES`, and looks for no others if none of them is a master.
    #[test]
    fn nodes_without_a_master_are_an_error() {
        let down = view(Err("no holder is known".to_owned()));
        for query in [ClusterQuery::Slots, ClusterQuery::Shards, ClusterQuery::Nodes] {
            let Value::Error(error) = down.reply(&query) else { panic!("{query:?}") };
            assert_eq!(*error.text, b"CLUSTERDOWN no holder is known"[..], "{query:?}");
        }
    }

    #[test]
    fn a_shard_has_the_port_under_the_name_of_its_kind() {
        for (is_tls, expected) in [(false, "port"), (true, "tls-port")] {
            let address = HostPort { host: "10.1.0.7".to_owned(), port: 7890 };
            let up = view(Ok(ClusterMaster { address, epoch: 0 })).with_tls(is_tls);
            let shown = format!("{:?}", up.reply(&ClusterQuery::Shards));
            assert!(shown.contains(&format!("{:?}", Value::from(expected))), "{shown}");
        }
    }
}
