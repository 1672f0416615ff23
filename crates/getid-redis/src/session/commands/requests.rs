//! `REQUEST r [FOR seconds]`: commands whose repetition gets the reply of the first one.
//!
//! Such a command becomes an effect, because the server asks its store for the kept reply before it draws.

use std::sync::Arc;

use getid_core::server::request_key::{REQUEST_IDS_MAX, RequestScope, UNNAMED};
use getid_core::server::{CounterDeclaration, Key};
use getid_core::{NamedGenerator, Number};

use super::series::requested_counter;
use super::{Call, CommandReply, CommandResult};
use crate::command::{RequestKey, Verb, quoted};
use crate::resp::{Args, ErrorKind, ErrorReply};
use crate::session::effect::Effect;
use crate::session::request_effect::{RequestEffect, RequestForm, RequestSource};

/// Error of a server that has no store for requests.
pub const REQUESTS_OFF: ErrorReply = ErrorReply::fixed(
    ErrorKind::SequencesOff,
    "ERR requests are not kept: the server has no store for them. Set 'sequence-store' in its configuration, and restart \
     it",
);

/// Handles `GETID - REQUEST r` and `MGETID count - REQUEST r`.
pub(super) fn of_unnamed(call: &mut Call<'_>, at: usize, count: u32) -> CommandResult {
    let outcome = RequestKey::parse(call.args.behind(at + 1), |_| false).and_then(|(before, key)| {
        if let Some(word) = before.get(0) {
            let word = quoted(word);
            return Err(format!("ERR the unnamed generator takes no fields with a request, and got '{word}'").into());
        }
        key.ok_or(UNNAMED_WITHOUT_REQUEST)
    });
    let key = outcome.inspect_err(|_| call.turn.tally.ids(call.command.verb, 1, 1))?;
    ids(call, UNNAMED, count, &key, &[], RequestSource::Unnamed)
}

const UNNAMED_WITHOUT_REQUEST: ErrorReply = ErrorReply::fixed(
    ErrorKind::Invalid,
    "ERR the name - is for requests to the unnamed generator: GETID - REQUEST r; without a request it is GETID, or MGETID \
     count",
);

/// Handles a request to a named generator by the clock. `words` are its fields and values, which were checked.
pub(super) fn of_generator(
    call: &mut Call<'_>,
    (index, generator): (usize, &Arc<NamedGenerator>),
    count: u32,
    key: &RequestKey,
    fields: Number,
    words: Args<'_>,
) -> CommandResult {
    let pairs: Vec<(&str, u64)> = (0..words.len()).step_by(2).filter_map(|at| field_at(words, at)).collect();
    let source = RequestSource::Named { index, generator: Arc::clone(generator), fields };
    ids(call, generator.declaration().name(), count, key, &pairs, source)
}

/// Returns the name and the value of a field.
fn field_at(words: Args<'_>, at: usize) -> Option<(&str, u64)> {
    let text = |at| words.get(at).and_then(|word| str::from_utf8(word).ok());
    Some((text(at)?, text(at + 1)?.parse().ok()?))
}

/// Handles a request to a generator over a sequence. `words` are those between its name and the request.
pub(super) fn of_counter(
    call: &mut Call<'_>,
    counter: &Arc<CounterDeclaration>,
    count: u32,
    key: &RequestKey,
    words: Args<'_>,
) -> CommandResult {
    let series = requested_counter(counter, words).inspect_err(|_| call.turn.tally.ids(call.command.verb, 1, 1))?;
    let series = series.as_ref().map_or("", Key::series);
    if counter.gapless().is_some() {
        return super::numbers::draw(call, counter, series, key);
    }
    let source = RequestSource::Counter { counter: Arc::clone(counter), series: series.to_owned() };
    ids(call, counter.name(), count, key, &[], source)
}

/// Handles a request for a range of a sequence's values.
pub(super) fn of_sequence(
    call: &mut Call<'_>,
    sequence: Key,
    (values, above): (u32, Option<i64>),
    key: &RequestKey,
) -> CommandReply {
    let scope = RequestScope::new(call.client.user().name(), sequence.as_str(), &key.request);
    let source = RequestSource::Sequence { key: sequence, above };
    reply(RequestEffect::new(scope, key, values, &[], source, RequestForm::Range))
}

/// Returns the effect of a request for IDs. Its time counts as that of a command, not as a draw.
fn ids(
    call: &mut Call<'_>,
    name: &str,
    count: u32,
    key: &RequestKey,
    fields: &[(&str, u64)],
    source: RequestSource,
) -> CommandResult {
    let Call { command, args, client, turn, .. } = call;
    let settings = &client.settings;
    let error = match count {
        _ if settings.sequences.is_none() => Some(REQUESTS_OFF),
        1..=REQUEST_IDS_MAX => None,
        _ => Some(format!("ERR {count} ids are too many for one REQUEST: it has 1 to {REQUEST_IDS_MAX}").into()),
    };
    if let Some(error) = error {
        turn.tally.ids(command.verb, 1, 1);
        return Err(error);
    }
    let start = turn.tally.begin(&settings.timing);
    let scope = RequestScope::new(client.user().name(), name, &key.request);
    let form = if command.verb == Verb::GetId { RequestForm::One } else { RequestForm::Array };
    let effect = RequestEffect::new(scope, key, count, fields, source, form);
    turn.tally.end(start, &settings.timing, command, *args, true);
    Ok(reply(effect))
}

fn reply(effect: RequestEffect) -> CommandReply {
    CommandReply::Effect(Effect::Request(Box::new(effect)))
}
