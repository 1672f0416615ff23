//! `CLUSTER` and the commands of cluster clients: replies of a server that emulates a Redis Cluster
//! (`cluster-emulation`), and of one that is in no cluster. Libraries use them to find out which.

use super::{CONNECTION, Command, CommandFlags, FAST, NONE, Verb, argument, help_row, row};

pub(super) const CLUSTER: Command = row(Verb::Cluster, "cluster", -2, CommandFlags::NONE, NONE)
    .docs("3.0.0", "cluster", "A container for cluster commands")
    .with(&[
        row(Verb::ClusterInfo, "cluster|info", 2, CommandFlags::STALE, NONE)
            .docs("3.0.0", "cluster", "Provides info about Redis Cluster node state")
            .help(&["INFO", "    Provides info about Redis Cluster node state."]),
        row(Verb::ClusterNodes, "cluster|nodes", 2, CommandFlags::STALE, NONE)
            .docs("3.0.0", "cluster", "Get Cluster config for the node")
            .costs("O(N) where N is the total number of Cluster nodes")
            .help(&["NODES", "    Get Cluster config for the node."]),
        row(Verb::ClusterSlots, "cluster|slots", 2, CommandFlags::STALE, NONE)
            .docs("3.0.0", "cluster", "Get array of Cluster slot to node mappings")
            .costs("O(N) where N is the total number of Cluster nodes")
            .help(&["SLOTS", "    Get array of Cluster slot to node mappings."]),
        row(Verb::ClusterShards, "cluster|shards", 2, CommandFlags::STALE, NONE)
            .docs("7.0.0", "cluster", "Get array of cluster slots to node mappings")
            .costs("O(N) where N is the total number of cluster nodes")
            .help(&["SHARDS", "    Get array of cluster slots to node mappings."]),
        row(Verb::ClusterMyId, "cluster|myid", 2, CommandFlags::STALE, NONE)
            .docs("3.0.0", "cluster", "Return the node id")
            .help(&["MYID", "    Return the node id."]),
        row(Verb::ClusterKeySlot, "cluster|keyslot", 3, CommandFlags::STALE, NONE)
            .docs("3.0.0", "cluster", "Returns the hash slot of the specified key")
            .costs("O(N) where N is the number of bytes in the key")
            .takes(&[argument("key", "string")])
            .help(&["KEYSLOT <key>", "    Returns the hash slot of the specified key."]),
        row(Verb::ClusterCountKeysInSlot, "cluster|countkeysinslot", 3, CommandFlags::STALE, NONE)
            .docs("3.0.0", "cluster", "Return the number of local keys in the specified hash slot")
            .takes(&[argument("slot", "integer")])
            .help(&["COUNTKEYSINSLOT <slot>", "    Return the number of local keys in the specified hash slot."]),
        row(Verb::ClusterGetKeysInSlot, "cluster|getkeysinslot", 4, CommandFlags::STALE, NONE)
            .docs("3.0.0", "cluster", "Return local key names in the specified hash slot")
            .costs("O(log(N)) where N is the number of requested keys")
            .takes(&[argument("slot", "integer"), argument("count", "integer")])
            .help(&["GETKEYSINSLOT <slot> <count>", "    Return local key names in the specified hash slot."]),
        row(Verb::ClusterReplicas, "cluster|replicas", 3, CommandFlags::ADMIN.and(CommandFlags::STALE), NONE)
            .docs("5.0.0", "cluster", "List replica nodes of the specified master node")
            .takes(&[argument("node-id", "string")])
            .help(&["REPLICAS <node-id>", "    List replica nodes of the specified master node."]),
        row(Verb::ClusterSlaves, "cluster|slaves", 3, CommandFlags::ADMIN.and(CommandFlags::STALE), NONE)
            .docs("3.0.0", "cluster", "List replica nodes of the specified master node")
            .takes(&[argument("node-id", "string")])
            .help(&["SLAVES <node-id>", "    List replica nodes of the specified master node."]),
        row(Verb::ClusterLinks, "cluster|links", 2, CommandFlags::STALE, NONE)
            .docs("7.0.0", "cluster", "Returns a list of all TCP links to and from peer nodes in cluster")
            .costs("O(N) where N is the total number of Cluster nodes")
            .help(&["LINKS", "    Returns a list of all TCP links to and from peer nodes in cluster."]),
        help_row(Verb::ClusterHelp, "cluster|help", NONE, "5.0.0", "cluster"),
    ]);

pub(super) const READONLY: Command = row(Verb::ReadOnly, "readonly", 1, FAST, CONNECTION).docs(
    "3.0.0",
    "cluster",
    "Enables read queries for a connection to a cluster replica node",
);
pub(super) const READWRITE: Command = row(Verb::ReadWrite, "readwrite", 1, FAST, CONNECTION).docs(
    "3.0.0",
    "cluster",
    "Disables read queries for a connection to a cluster replica node",
);
pub(super) const ASKING: Command = row(Verb::Asking, "asking", 1, CommandFlags::FAST, CONNECTION).docs(
    "3.0.0",
    "cluster",
    "Sent by cluster clients after an -ASK redirect",
);

/// Subcommands of `CLUSTER` that change a Redis Cluster.
const ABSENT: [&str; 15] = [
    "addslots",
    "addslotsrange",
    "bumpepoch",
    "delslots",
    "delslotsrange",
    "failover",
    "flushslots",
    "forget",
    "meet",
    "migration",
    "replicate",
    "reset",
    "saveconfig",
    "set-config-epoch",
    "setslot",
];

/// Returns the error text of a subcommand of Redis's `CLUSTER` that getid does not have.
pub(in crate::command) fn absent(name: &[u8]) -> Option<String> {
    let name = ABSENT.iter().find(|absent| absent.as_bytes().eq_ignore_ascii_case(name))?;
    let name = name.to_ascii_uppercase();
    Some(format!(
        "ERR CLUSTER {name} is not supported: the holder of the claim has all slots. announce-peers lists the other \
         servers, and 'getid claim' moves a claim. Try CLUSTER HELP."
    ))
}
