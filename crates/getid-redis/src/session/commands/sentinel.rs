//! `SENTINEL`: reads the name of a master. The server returns the master's address and state, by its claim.

use super::{Call, CommandReply, CommandResult};
use crate::resp::Value;
use crate::session::effect::{Effect, MasterName, SentinelEffect};

/// Redis's error for a name that no master has.
pub const NO_SUCH_MASTER: &str = "ERR No such master with that name";

/// Implements `SENTINEL GET-MASTER-ADDR-BY-NAME name`. Clients ask their next Sentinel if the reply is null.
pub(super) fn address(call: &mut Call<'_>) -> CommandResult {
    let name = MasterName::parse(call.arg(2));
    Ok(name.map_or(CommandReply::Value(Value::NullArray), |name| effect(SentinelEffect::Address(name))))
}

/// Implements `SENTINEL MASTER name`.
pub(super) fn master(call: &mut Call<'_>) -> CommandResult {
    named(call, SentinelEffect::Master)
}

/// Implements `SENTINEL REPLICAS name` and `SENTINEL SLAVES name`.
pub(super) fn replicas(call: &mut Call<'_>) -> CommandResult {
    named(call, SentinelEffect::Replicas)
}

/// Implements `SENTINEL SENTINELS name`.
pub(super) fn sentinels(call: &mut Call<'_>) -> CommandResult {
    named(call, SentinelEffect::Sentinels)
}

/// Implements `SENTINEL CKQUORUM name`.
pub(super) fn check_quorum(call: &mut Call<'_>) -> CommandResult {
    named(call, SentinelEffect::CheckQuorum)
}

fn named(call: &Call<'_>, of: fn(MasterName) -> SentinelEffect) -> CommandResult {
    let name = MasterName::parse(call.arg(2)).ok_or(NO_SUCH_MASTER)?;
    Ok(effect(of(name)))
}

pub(super) fn effect(effect: SentinelEffect) -> CommandReply {
    CommandReply::Effect(Effect::Sentinel(effect))
}
