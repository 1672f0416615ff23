//! `SUBSCRIBE` and its like: a client that listens is kept, and never hears anything.

use super::{Answer, Call, Outcome};
use crate::command::Verb;
use crate::resp::{Protocol, write_array_header, write_bulk, write_count, write_null, write_push_header};
use crate::session::subscriptions::Listened;

/// `SUBSCRIBE channel ...` and `PSUBSCRIBE pattern ...`: a message for each.
pub(super) fn subscribe(call: &mut Call<'_>) -> Outcome {
    let kind = kind_of(call);
    for name in call.args.iter().skip(1) {
        call.client.subscribe(kind, name).map_err(|error| error.to_string())?;
        tell(call, Some(name));
    }
    Ok(Answer::Pushed)
}

/// `UNSUBSCRIBE [channel ...]` and `PUNSUBSCRIBE [pattern ...]`: a message for each; without names all are left.
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

/// `PUBLISH channel message`: nobody hears it.
pub(super) fn publish(_: &mut Call<'_>) -> Outcome {
    Ok(Answer::Encoded(b":0\r\n"))
}

fn kind_of(call: &Call<'_>) -> Listened {
    match call.command.verb {
        Verb::PSubscribe | Verb::PUnsubscribe => Listened::Patterns,
        _ => Listened::Channels,
    }
}

/// What was done, about which name, and to how many it listens now.
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
