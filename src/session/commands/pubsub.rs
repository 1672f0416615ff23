//! `SUBSCRIBE` and related commands: subscriptions are kept, but no message is ever delivered.

use super::{Answer, Call, Outcome};
use crate::command::Verb;
use crate::resp::{Protocol, write_array_header, write_bulk, write_count, write_null, write_push_header};
use crate::session::subscriptions::Listened;

/// `SUBSCRIBE channel ...` and `PSUBSCRIBE pattern ...`: a confirmation for each name.
pub(super) fn subscribe(call: &mut Call<'_>) -> Outcome {
    let kind = kind_of(call);
    for name in call.args.iter().skip(1) {
        call.client.subscribe(kind, name).map_err(|error| error.to_string())?;
        tell(call, Some(name));
    }
    Ok(Answer::Pushed)
}

/// `UNSUBSCRIBE [channel ...]` and `PUNSUBSCRIBE [pattern ...]`: a confirmation for each name. Without names, all are
/// left.
pub(super) fn unsubscribe(call: &mut Call<'_>) -> Outcome {
    let kind = kind_of(call);
    for name in call.args.iter().skip(1) {
        call.client.unsubscribe(kind, name);
        tell(call, Some(name));
    }
    if call.args.len() > 1 {
        return Ok(Answer::Pushed);
    }
    let mut name = call.client.listens_to(kind);
    if name.is_none() {
        tell(call, None);
    }
    while let Some(left) = name {
        call.client.unsubscribe(kind, &left);
        tell(call, Some(&left));
        name = call.client.listens_to(kind);
    }
    Ok(Answer::Pushed)
}

/// `PUBLISH channel message`: always 0 receivers.
pub(super) fn publish(_: &mut Call<'_>) -> Outcome {
    Ok(Answer::Encoded(b":0\r\n"))
}

fn kind_of(call: &Call<'_>) -> Listened {
    match call.command.verb {
        Verb::PSubscribe | Verb::PUnsubscribe => Listened::Patterns,
        _ => Listened::Channels,
    }
}

/// Writes a confirmation: the command, the name, and the number of subscriptions left.
fn tell(call: &mut Call<'_>, name: Option<&[u8]>) {
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
