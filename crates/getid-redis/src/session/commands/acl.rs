//! `ACL`: this module answers questions about the users in the session's settings. Commands that change users, or that
//! need a file or a log, become an effect.

use super::{Call, CommandReply, CommandResult, NOT_AN_INTEGER, OK};
use crate::acl::{self, DEFAULT_USER, DenialReason};
use crate::command::{KEY_BYTES_MAX, Verb, series_name};
use crate::resp::{ErrorReply, Value, parse_integer, write_bulk};
use crate::session::effect::{AclEffect, Effect};

/// Maximum number of bits of `ACL GENPASS`, as in Redis.
const GENPASS_BITS_MAX: usize = 4096;

/// Default number of entries of `ACL LOG`, as in Redis.
const LOG_COUNT: usize = 10;

/// Implements `ACL WHOAMI`.
pub(super) fn who_am_i(call: &mut Call<'_>) -> CommandResult {
    let name = call.client.user().name().as_bytes();
    call.turn.push_with(|out| write_bulk(name, out));
    Ok(CommandReply::Pushed)
}

/// Implements `ACL LIST`.
pub(super) fn list(call: &mut Call<'_>) -> CommandResult {
    Ok(effect(AclEffect::List { shows_secrets: call.client.may(Verb::AclSetUser) }))
}

/// Implements `ACL GETUSER name`.
pub(super) fn get_user(call: &mut Call<'_>) -> CommandResult {
    let user = call.client.settings.users.get(call.arg(2));
    let shows_digests = call.client.may(Verb::AclSetUser);
    Ok(CommandReply::Value(user.map_or(Value::Null, |user| user.to_value(shows_digests))))
}

/// Implements `ACL CAT [category]`.
pub(super) fn cat(call: &mut Call<'_>) -> CommandResult {
    match one_at_most(call)? {
        None => Ok(CommandReply::Value(acl::categories())),
        Some(name) => {
            let commands = acl::commands_in(name);
            let commands = commands.ok_or_else(|| Call::error_quoting("ERR Unknown category '", name, "'"))?;
            Ok(CommandReply::Value(commands))
        }
    }
}

/// Implements `ACL DRYRUN user command ...`.
pub(super) fn dry_run(call: &mut Call<'_>) -> CommandResult {
    let name = call.arg(2);
    let user = call.client.settings.users.get(name);
    let user = user.ok_or_else(|| Call::error_quoting("ERR User '", name, "' not found"))?;
    let request = call.args.behind(3);
    let Ok(command) = call.client.settings.vocabulary.resolve(request) else {
        return Err(Call::error_quoting("ERR Command '", request.name(), "' not found"));
    };
    if !command.accepts(request.len()) {
        return Err(command.arity_error());
    }
    let series = series_name(&call.client.settings.counters, command, request);
    let series = series.as_ref().map(|key| key.as_str().as_bytes());
    let text = match user.check(command, request, series) {
        Ok(()) => return Ok(OK),
        Err((reason @ (DenialReason::Key | DenialReason::Channel), at)) => {
            let kind = if reason == DenialReason::Key { "key" } else { "channel" };
            let name = series.unwrap_or_else(|| request.get(at).unwrap_or_default());
            let name = &name[..name.len().min(KEY_BYTES_MAX)];
            [b"This user has no permissions to access the '", name, b"' ", kind.as_bytes()].concat()
        }
        Err(_) => format!("This user has no permissions to run the '{}' command", command.full_name).into_bytes(),
    };
    call.turn.push_with(|out| write_bulk(&text, out));
    Ok(CommandReply::Pushed)
}

/// Implements `ACL GENPASS [bits]`.
pub(super) fn gen_pass(call: &mut Call<'_>) -> CommandResult {
    let bits = one_at_most(call)?.map_or(Some(256), parse_integer).ok_or(NOT_AN_INTEGER)?;
    match usize::try_from(bits) {
        Ok(bits @ 1..=GENPASS_BITS_MAX) => Ok(effect(AclEffect::GenPass(bits.div_ceil(4)))),
        _ => Err(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {GENPASS_BITS_MAX}"
        )
        .into()),
    }
}

/// Implements `ACL LOG [count | RESET]`.
pub(super) fn log(call: &mut Call<'_>) -> CommandResult {
    match one_at_most(call)? {
        None => Ok(effect(AclEffect::Log(LOG_COUNT))),
        Some(word) if word.eq_ignore_ascii_case(b"reset") => Ok(effect(AclEffect::LogReset)),
        Some(count) => {
            let count = parse_integer(count).ok_or(NOT_AN_INTEGER)?;
            // A negative count means none, as in Redis.
            Ok(effect(AclEffect::Log(usize::try_from(count).unwrap_or(0))))
        }
    }
}

/// Implements `ACL DELUSER name ...`.
pub(super) fn del_user(call: &mut Call<'_>) -> CommandResult {
    if call.args.iter().skip(2).any(|name| name == DEFAULT_USER.as_bytes()) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    Ok(effect(AclEffect::DelUser(call.args_from(2))))
}

/// Implements `ACL SETUSER name [rule ...]`.
pub(super) fn set_user(call: &mut Call<'_>) -> CommandResult {
    Ok(effect(AclEffect::SetUser { name: call.arg(2).to_vec(), rules: call.args_from(3) }))
}

pub(super) fn effect(effect: AclEffect) -> CommandReply {
    CommandReply::Effect(Effect::Acl(effect))
}

/// Returns the argument of a subcommand that takes one or none. The table cannot check this: Redis counts these words
/// in the command, and returns another error.
fn one_at_most<'a>(call: &Call<'a>) -> Result<Option<&'a [u8]>, ErrorReply> {
    if call.args.len() > 3 { Err(call.wrong_number("ACL")) } else { Ok(call.args.get(2)) }
}
