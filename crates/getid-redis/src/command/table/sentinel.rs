//! `SENTINEL`: the read-only commands by which clients in Sentinel mode find the server that gives IDs, with the rows
//! of Redis 7.0's Sentinel. There they are `@admin` and `@dangerous`, of another process than the one that applications
//! use. Here an application's own user runs them, and they change nothing, so they have no such flag.

use super::{Argument, Command, NONE, SLOW, Verb, argument, help_row, row};

const NAME: Argument = argument("master-name", "string");

pub(super) const SENTINEL: Command = row(Verb::Sentinel, "sentinel", -2, SLOW, NONE)
    .docs("2.8.4", "sentinel", "A container for Sentinel commands")
    .costs("Depends on subcommand.")
    .with(&[
        row(Verb::SentinelCkQuorum, "sentinel|ckquorum", 3, SLOW, NONE)
            .docs("2.8.4", "sentinel", "Check for a Sentinel quorum")
            .costs("")
            .takes(&[NAME])
            .help(&["CKQUORUM <master-name>", "    Check if a standby can take over from the specified master."]),
        row(Verb::SentinelGetMasterAddrByName, "sentinel|get-master-addr-by-name", 3, SLOW, NONE)
            .docs("2.8.4", "sentinel", "Get port and address of a master")
            .takes(&[NAME])
            .help(&[
                "GET-MASTER-ADDR-BY-NAME <master-name>",
                "    Return the ip and port number of the master with that name.",
            ]),
        help_row(Verb::SentinelHelp, "sentinel|help", NONE, "6.2.0", "sentinel"),
        row(Verb::SentinelMaster, "sentinel|master", 3, SLOW, NONE)
            .docs("2.8.4", "sentinel", "Shows the state of a master")
            .takes(&[NAME])
            .help(&["MASTER <master-name>", "    Show the state and info of the specified master."]),
        row(Verb::SentinelMasters, "sentinel|masters", 2, SLOW, NONE)
            .docs("2.8.4", "sentinel", "List the monitored masters")
            .costs("O(N) where N is the number of masters")
            .help(&["MASTERS", "    Show a list of monitored masters and their state."]),
        row(Verb::SentinelMyId, "sentinel|myid", 2, SLOW, NONE)
            .docs("6.2.0", "sentinel", "Get the Sentinel instance ID")
            .help(&["MYID", "    Return the ID of the Sentinel instance."]),
        row(Verb::SentinelReplicas, "sentinel|replicas", 3, SLOW, NONE)
            .docs("5.0.0", "sentinel", "List the monitored replicas")
            .costs("O(N) where N is the number of replicas")
            .takes(&[NAME])
            .help(&["REPLICAS <master-name>", "    Show a list of replicas for this master: always empty."]),
        row(Verb::SentinelSentinels, "sentinel|sentinels", 3, SLOW, NONE)
            .docs("2.8.4", "sentinel", "List the Sentinel instances")
            .costs("O(N) where N is the number of Sentinels")
            .takes(&[NAME])
            .help(&[
                "SENTINELS <master-name>",
                "    Show a list of Sentinel instances for this master and their state.",
            ]),
        row(Verb::SentinelSlaves, "sentinel|slaves", 3, SLOW, NONE)
            .docs("2.8.0", "sentinel", "List the monitored slaves")
            .costs("O(N) where N is the number of slaves")
            .takes(&[NAME])
            .help(&["SLAVES <master-name>", "    Show a list of replicas for this master: always empty."]),
    ]);

/// Subcommands of Redis's Sentinel that getid does not have: the claim store decides which server is the master.
const ABSENT: [&str; 12] = [
    "config",
    "debug",
    "failover",
    "flushconfig",
    "info-cache",
    "is-master-down-by-addr",
    "monitor",
    "pending-scripts",
    "remove",
    "reset",
    "set",
    "simulate-failure",
];

/// Returns the error text of a subcommand of Redis's Sentinel that getid does not have.
pub(in crate::command) fn absent(name: &[u8]) -> Option<String> {
    let name = ABSENT.iter().find(|absent| absent.as_bytes().eq_ignore_ascii_case(name))?;
    let name = name.to_ascii_uppercase();
    Some(format!(
        "ERR SENTINEL {name} is not available: the claim store decides which server is the master. If the holder stops, \
         a standby takes over at once"
    ))
}
