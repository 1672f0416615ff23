//! Information about the server: `COMMAND`, `INFO`, `TIME`, `ROLE`, `LOLWUT`, `MONITOR`, `SLOWLOG`, `LATENCY` and
//! `MEMORY`.

use super::{Call, CommandReply, CommandResult, NOT_AN_INTEGER, OK, SYNTAX};
use crate::command::{self, Verb};
use crate::resp::{Value, parse_integer, write_id};
use crate::session::effect::{Effect, IntrospectEffect};

/// Default number of entries of `SLOWLOG GET`.
const SLOWLOG_ENTRIES: usize = 10;

/// `COMMAND` and `COMMAND INFO [name ...]`
pub(super) fn command_info(call: &mut Call<'_>) -> CommandResult {
    Ok(CommandReply::Value(command::command_info(&call.client.settings.vocabulary, call.args.behind(2).iter())))
}

/// Implements `COMMAND DOCS [name ...]`.
pub(super) fn command_docs(call: &mut Call<'_>) -> CommandResult {
    Ok(CommandReply::Value(command::command_docs(&call.client.settings.vocabulary, call.args.behind(2).iter())))
}

/// Implements `COMMAND LIST [FILTERBY ...]`.
pub(super) fn command_list(call: &mut Call<'_>) -> CommandResult {
    Ok(CommandReply::Value(command::command_list(&call.client.settings.vocabulary, call.args)))
}

/// Implements `COMMAND COUNT`.
pub(super) fn command_count(call: &mut Call<'_>) -> CommandResult {
    let count = call.client.settings.vocabulary.commands().len() as u64;
    call.turn.push_with(|out| write_id(count, out));
    Ok(CommandReply::Pushed)
}

/// `COMMAND GETKEYS` and `COMMAND GETKEYSANDFLAGS`
pub(super) fn command_get_keys(call: &mut Call<'_>) -> CommandResult {
    let flags = call.command.verb == Verb::CommandGetKeysAndFlags;
    Ok(CommandReply::Value(command::command_get_keys(&call.client.settings.vocabulary, call.args, flags)?))
}

/// Implements `INFO [section ...]`.
pub(super) fn info(call: &mut Call<'_>) -> CommandResult {
    let sections = call.args.iter().skip(1).map(|name| String::from_utf8_lossy(name).to_ascii_lowercase());
    Ok(effect(IntrospectEffect::Info(sections.collect())))
}

/// Implements `TIME`.
pub(super) fn time(_: &mut Call<'_>) -> CommandResult {
    Ok(effect(IntrospectEffect::Time))
}

/// Implements `ROLE`.
pub(super) fn role(call: &mut Call<'_>) -> CommandResult {
    let role = [Value::from(call.client.settings.role()), Value::Integer(0), Value::Array(Vec::new())];
    Ok(CommandReply::Value(Value::Array(role.into())))
}

/// Implements `LOLWUT`.
pub(super) fn lolwut(_: &mut Call<'_>) -> CommandResult {
    Ok(CommandReply::Value(Value::text(concat!("getid ver. ", env!("CARGO_PKG_VERSION"), "\n"))))
}

/// Implements `MONITOR`.
pub(super) fn monitor(call: &mut Call<'_>) -> CommandResult {
    // In EXEC, its lines would come between the replies.
    if call.client.view.queued.is_some() {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    // Redis does not answer the second `MONITOR` either.
    if call.client.view.monitors {
        return Ok(CommandReply::Pushed);
    }
    call.client.view.monitors = true;
    Ok(effect(IntrospectEffect::Monitor))
}

/// Implements `SLOWLOG GET [count]`.
pub(super) fn slowlog_get(call: &mut Call<'_>) -> CommandResult {
    let count_max = match call.args.get(2) {
        None => Some(SLOWLOG_ENTRIES),
        Some(_) if call.args.len() > 3 => return Err(call.wrong_number("SLOWLOG")),
        Some(count) => match parse_integer(count) {
            Some(-1) => None,
            Some(count @ 0..) => Some(usize::try_from(count).unwrap_or(usize::MAX)),
            _ => return Err("ERR count should be greater than or equal to -1".into()),
        },
    };
    Ok(effect(IntrospectEffect::SlowLogGet(count_max)))
}

/// Implements `LATENCY GRAPH event`.
pub(super) fn latency_graph(call: &mut Call<'_>) -> CommandResult {
    Ok(effect(IntrospectEffect::LatencyGraph(call.arg(2).to_vec())))
}

/// Implements `LATENCY HISTOGRAM [command ...]`.
pub(super) fn latency_histogram(call: &mut Call<'_>) -> CommandResult {
    Ok(effect(IntrospectEffect::LatencyHistogram(call.args_from(2))))
}

/// Implements `LATENCY HISTORY event`.
pub(super) fn latency_history(call: &mut Call<'_>) -> CommandResult {
    Ok(effect(IntrospectEffect::LatencyHistory(call.arg(2).to_vec())))
}

/// Implements `LATENCY RESET [event ...]`.
pub(super) fn latency_reset(call: &mut Call<'_>) -> CommandResult {
    Ok(effect(IntrospectEffect::LatencyReset(call.args_from(2))))
}

/// Implements `MEMORY MALLOC-STATS`.
pub(super) fn memory_malloc_stats(_: &mut Call<'_>) -> CommandResult {
    Ok(CommandReply::Value(Value::text("Stats not supported for the current allocator")))
}

/// `MEMORY PURGE`: no work to do, since free memory returns to the system automatically.
pub(super) fn memory_purge(_: &mut Call<'_>) -> CommandResult {
    Ok(OK)
}

/// `MEMORY USAGE key [SAMPLES count]`: null, since there is no key.
pub(super) fn memory_usage(call: &mut Call<'_>) -> CommandResult {
    let mut at = 3;
    while let Some(option) = call.args.get(at) {
        match call.args.get(at + 1) {
            Some(count) if option.eq_ignore_ascii_case(b"samples") => match parse_integer(count) {
                Some(0..) => at += 2,
                Some(_) => return Err(SYNTAX),
                None => return Err(NOT_AN_INTEGER),
            },
            _ => return Err(SYNTAX),
        }
    }
    Ok(CommandReply::Value(Value::Null))
}

pub(super) fn effect(effect: IntrospectEffect) -> CommandReply {
    CommandReply::Effect(Effect::Introspect(effect))
}
