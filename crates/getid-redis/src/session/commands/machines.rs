//! CosId's scripts of machine ids, by their meaning: a machine id is a worker id of the pool that has the name of the
//! instance's namespace.
//!
//! The scripts have one key, `{namespace}`, and the name of the instance as their first argument. Times are of the
//! instance's clock, Unix ms.

use super::workers::{effect, pool_named};
use super::{Call, CommandResult, NOT_AN_INTEGER};
use crate::command::quoted;
use crate::resp::{ErrorReply, parse_integer};
use crate::session::scripts::MachineScript;
use crate::session::worker_effect::WorkerEffect;

/// Longest name of an instance, bytes.
const INSTANCE_BYTES_MAX: usize = 1024;

/// Position of the first argument after the key.
const FIRST: usize = 4;

/// Runs a script of machine ids with one key and the arguments that it takes.
pub(super) fn run(call: &mut Call<'_>, script: MachineScript) -> CommandResult {
    let (pool, instance) = (namespace(call.arg(3))?, instance(call.arg(FIRST))?);
    Ok(effect(match script {
        MachineScript::Distribute => distribute(call, pool, instance)?,
        MachineScript::Guard | MachineScript::RevertStable => {
            WorkerEffect::Guard { pool, instance, last_ms: time(call.arg(FIRST + 1))? }
        }
        MachineScript::Revert => WorkerEffect::Revert { pool, instance, last_ms: time(call.arg(FIRST + 1))? },
    }))
}

/// Parses the arguments of the script that gives a machine id: the largest id, the time, and the time before which
/// silent instances have lost theirs. That one is 0 for an instance that keeps its id for ever.
fn distribute(call: &Call<'_>, pool: String, instance: Vec<u8>) -> Result<WorkerEffect, ErrorReply> {
    let [last, now_ms, safe_ms] = [1, 2, 3].map(|at| call.arg(FIRST + at));
    let last = parse_integer(last).ok_or(NOT_AN_INTEGER)?;
    let (now_ms, safe_ms) = (time(now_ms)?, time(safe_ms)?);
    let ids = i32::try_from(last).ok().and_then(|last| u32::try_from(last).ok()).map(|last| last + 1);
    let ids = ids.ok_or_else(|| {
        format!("ERR the largest machine id is {last}, must be 0 to {}: CosId sends 2^machineBit - 1", i32::MAX)
    })?;
    // Both times are of one clock and one moment, so their distance is the duration that the program is set to.
    let guard_ms = match safe_ms {
        0 => None,
        safe_ms => Some(now_ms.checked_sub(safe_ms).ok_or_else(|| {
            format!(
                "ERR instances count as gone that were silent since {safe_ms}, which is after the instance's time \
                 {now_ms}: its clock was set back in between. Start it again"
            )
        })?),
    };
    Ok(WorkerEffect::Distribute { pool, instance, ids, guard_ms, now_ms })
}

/// Returns the pool of a key `{namespace}`.
fn namespace(key: &[u8]) -> Result<String, ErrorReply> {
    let name = key.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    pool_named(name.ok_or_else(|| {
        format!("ERR '{}' cannot be the key of a script of machine ids: expected {{namespace}}", quoted(key))
    })?)
}

fn instance(name: &[u8]) -> Result<Vec<u8>, ErrorReply> {
    if (1..=INSTANCE_BYTES_MAX).contains(&name.len()) {
        return Ok(name.to_vec());
    }
    let bytes = name.len();
    Err(format!(
        "ERR the name of the instance has {bytes} bytes, must have 1 to {INSTANCE_BYTES_MAX}: set \
         cosid.machine.instance-id"
    )
    .into())
}

fn time(text: &[u8]) -> Result<u64, ErrorReply> {
    let time = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
    u64::try_from(time).map_err(|_| format!("ERR {time} cannot be a time: expected Unix time in milliseconds").into())
}
