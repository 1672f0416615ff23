//! `GETID`, `MGETID` and the commands about IDs that exist already.

use super::{Answer, Call, NOT_AN_INTEGER, Outcome};
use crate::command::{Verb, parse_id, parse_span};
use crate::resp::parse_integer;
use crate::session::effect::{Effect, IdsEffect};

/// `GETID` that did not come by the fast path.
#[inline]
pub(super) fn getid(call: &mut Call<'_>) -> Outcome {
    call.turn.tally.ids(Verb::GetId, 1, 0);
    call.turn.push_each_id(1);
    Ok(Answer::Pushed)
}

/// `MGETID count`
#[inline]
pub(super) fn mgetid(call: &mut Call<'_>) -> Outcome {
    let counted = parse_integer(call.arg(1));
    match counted.map(u32::try_from) {
        Some(Ok(count @ 1..)) if count <= call.client.settings.id_mgetid_max => {
            call.turn.tally.ids(Verb::MGetId, 1, 0);
            call.turn.push_ids(count);
            return Ok(Answer::Pushed);
        }
        _ => call.turn.tally.ids(Verb::MGetId, 1, 1),
    }
    Err(counted.map_or(NOT_AN_INTEGER.into(), |count| format!("ERR parameters error! argv[1] = {count}").into()))
}

/// `DECODEID id`
pub(super) fn decode(call: &mut Call<'_>) -> Outcome {
    let id = parse_id(call.arg(1)).map_err(|error| error.to_string())?;
    Ok(Answer::Effect(Effect::Ids(IdsEffect::Decode(id))))
}

/// `IDREADY`
pub(super) fn ready(call: &mut Call<'_>) -> Outcome {
    let tells_why = call.client.is_authenticated();
    Ok(Answer::Effect(Effect::Ids(IdsEffect::Ready { tells_why })))
}

/// `IDSPAN from to`
pub(super) fn span(call: &mut Call<'_>) -> Outcome {
    let times = parse_span(call.arg(1), call.arg(2)).map_err(|error| error.to_string())?;
    Ok(Answer::Effect(Effect::Ids(IdsEffect::Span(times))))
}
