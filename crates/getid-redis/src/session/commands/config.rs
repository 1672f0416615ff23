//! `CONFIG`: this module parses arguments; the configuration checks values.

use super::{Call, CommandReply, CommandResult, SYNTAX};
use crate::command::Verb;
use crate::session::effect::{ConfigEffect, Effect};

/// Implements `CONFIG GET pattern ...`.
pub(super) fn get(call: &mut Call<'_>) -> CommandResult {
    let shows_secrets = call.client.may(Verb::ConfigSet);
    Ok(effect(ConfigEffect::Get { patterns: call.args_from(2), shows_secrets }))
}

/// Implements `CONFIG SET name value ...`.
pub(super) fn set(call: &mut Call<'_>) -> CommandResult {
    let mut words = call.args.iter().skip(2).map(<[u8]>::to_vec);
    let mut pairs = Vec::new();
    while let Some(name) = words.next() {
        pairs.push((name, words.next().ok_or(SYNTAX)?));
    }
    Ok(effect(ConfigEffect::Set(pairs)))
}

pub(super) fn effect(effect: ConfigEffect) -> CommandReply {
    CommandReply::Effect(Effect::Config(effect))
}
