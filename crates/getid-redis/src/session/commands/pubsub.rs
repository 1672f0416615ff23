//! `SUBSCRIBE` and related commands. Only the server publishes messages; `PUBLISH` reaches no client.

use super::{Call, CommandReply, CommandResult};
use crate::command::Verb;
use crate::resp::{Protocol, write_array_header, write_bulk, write_count, write_null, write_push_header};
use crate::session::subscriptions::SubscriptionKind;

/// `SUBSCRIBE channel ...` and `PSUBSCRIBE pattern ...`: a confirmation for each name.
pub(super) fn subscribe(call: &mut Call<'_>) -> CommandResult {
    let kind = kind_of(call);
    for name in call.args.iter().skip(1) {
        call.client.subscribe(kind, name).map_err(|error| error.to_string())?;
        write_confirmation(call, Some(name));
    }
    call.turn.note_subscription();
    Ok(CommandReply::Pushed)
}

/// `UNSUBSCRIBE [channel ...]` and `PUNSUBSCRIBE [pattern ...]`: a confirmation for each name. Without names, all are
/// left.
pub(super) fn unsubscribe(call: &mut Call<'_>) -> CommandResult {
    let kind = kind_of(call);
    for name in call.args.iter().skip(1) {
        call.client.unsubscribe(kind, name);
        write_confirmation(call, Some(name));
    }
    if call.args.len() > 1 {
        return Ok(CommandReply::Pushed);
    }
    let mut name = call.client.any_subscription(kind);
    if name.is_none() {
        write_confirmation(call, None);
    }
    while let Some(left) = name {
        call.client.unsubscribe(kind, &left);
        write_confirmation(call, Some(&left));
        name = call.client.any_subscription(kind);
    }
    Ok(CommandReply::Pushed)
}

/// `PUBLISH channel message`: always 0 receivers.
pub(super) fn publish(_: &mut Call<'_>) -> CommandResult {
    Ok(CommandReply::Encoded(b":0\r\n"))
}

fn kind_of(call: &Call<'_>) -> SubscriptionKind {
    match call.command.verb {
        Verb::PSubscribe | Verb::PUnsubscribe => SubscriptionKind::Patterns,
        _ => SubscriptionKind::Channels,
    }
}

/// Writes a confirmation: the command, the name, and the number of subscriptions left.
fn write_confirmation(call: &mut Call<'_>, name: Option<&[u8]>) {
    let (protocol, count) = (call.client.view.protocol, call.client.subscriptions());
    let word = call.command.name;
    call.turn.push_with(|out| {
        match protocol {
            Protocol::Resp2 => write_array_header(3, out),
            Protocol::Resp3 => write_push_header(3, out),
        }
        write_bulk(word.as_bytes(), out);
        match name {
            Some(name) => write_bulk(name, out),
            None => write_null(protocol, out),
        }
        write_count(count, out);
    });
}
