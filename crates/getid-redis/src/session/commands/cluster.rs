//! `CLUSTER` and the commands of clients in cluster mode.

use super::{Call, CommandReply, CommandResult, NOT_AN_INTEGER, OK, help};
use crate::command::{CLUSTER_DISABLED, ClusterQuery, SLOTS, Verb, key_slot};
use crate::resp::{ErrorReply, Value, parse_integer, write_id};
use crate::session::effect::Effect;

/// Implements `CLUSTER`, `READONLY`, `READWRITE` and `ASKING`. The last three change nothing: a standby always answers
/// requests that only read, and no slot moves.
pub(super) fn cluster(call: &mut Call<'_>) -> CommandResult {
    if call.client.settings.cluster.is_none() {
        return Err(CLUSTER_DISABLED);
    }
    let query = match call.command.verb {
        Verb::ClusterHelp => return help(call),
        Verb::ClusterKeySlot => {
            let slot = key_slot(call.arg(2));
            call.turn.push_with(|out| write_id(slot.into(), out));
            return Ok(CommandReply::Pushed);
        }
        // The cluster bus, which does not exist.
        Verb::ClusterLinks => return Ok(CommandReply::Value(Value::Array(Vec::new()))),
        Verb::ClusterInfo => ClusterQuery::Info,
        Verb::ClusterMyId => ClusterQuery::MyId,
        Verb::ClusterNodes => ClusterQuery::Nodes,
        Verb::ClusterShards => ClusterQuery::Shards,
        Verb::ClusterSlots => ClusterQuery::Slots,
        Verb::ClusterReplicas | Verb::ClusterSlaves => ClusterQuery::Replicas(call.arg(2).to_vec()),
        Verb::ClusterCountKeysInSlot => keys_in_slot(call, "ERR Invalid slot")?,
        Verb::ClusterGetKeysInSlot => keys_in_slot(call, "ERR Invalid slot or number of keys")?,
        _ => return Ok(OK),
    };
    Ok(CommandReply::Effect(Effect::Cluster(query)))
}

/// Parses a slot, and the number of names after it. `invalid` is the error for numbers out of range.
fn keys_in_slot(call: &Call<'_>, invalid: &'static str) -> Result<ClusterQuery, ErrorReply> {
    let slot = parse_integer(call.arg(2)).ok_or(NOT_AN_INTEGER)?;
    let count = call.args.get(3).map(|count| parse_integer(count).ok_or(NOT_AN_INTEGER)).transpose()?;
    let slot = u16::try_from(slot).ok().filter(|slot| *slot < SLOTS).ok_or(invalid)?;
    let count = count.map(|count| usize::try_from(count).map_err(|_| invalid)).transpose()?;
    Ok(ClusterQuery::Keys { slot, count })
}
