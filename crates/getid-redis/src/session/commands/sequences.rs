//! `INCR`, `INCRBY` and `HINCRBY`: the next values of a sequence.
//!
//! The request is added to the turn, which draws from each sequence once.

use getid_core::server::{CounterDeclaration, Key, NameWord, SEQUENCE_NAME_RULE, is_sequence_name};

use super::series::requested_counter;
use super::{Call, CommandReply, CommandResult, NOT_AN_INTEGER};
use crate::command::{Verb, quoted};
use crate::resp::{Args, ErrorKind, ErrorReply, parse_integer};
use crate::session::benchmark;
use crate::session::turn::{SEALED_COST, counter_cost};
use getid_text::name_hash::hash_of;

/// Field of a sequence, read as a hash, that counts.
pub(in crate::session) const HASH_FIELD: &str = "cur";

/// Error of a server that has no store for sequences.
pub const SEQUENCES_OFF: ErrorReply = ErrorReply::fixed(
    ErrorKind::SequencesOff,
    "ERR sequences are off: the server has no store for them. Set 'sequence-store' in its configuration, and restart \
     it",
);

/// Implements `INCR name`.
#[inline]
pub(super) fn incr(call: &mut Call<'_>) -> CommandResult {
    count(call, 1)
}

/// Implements `INCRBY name n`.
pub(super) fn incr_by(call: &mut Call<'_>) -> CommandResult {
    let values = values_of(call, 2)?;
    count(call, values)
}

/// Implements `HINCRBY name cur n`.
pub(super) fn hash_incr_by(call: &mut Call<'_>) -> CommandResult {
    let values = values_of(call, 3)?;
    if call.arg(2) != HASH_FIELD.as_bytes() {
        let (name, field) = (quoted(call.arg(1)), quoted(call.arg(2)));
        let text = format!(
            "ERR '{field}' is not a field that counts: a sequence is read as a hash whose field {HASH_FIELD} counts, as \
             in HINCRBY {} {HASH_FIELD} 1",
            NameWord(&name)
        );
        return Err(refused(call, text));
    }
    count(call, values)
}

/// Parses the number of values at `at`.
fn values_of(call: &mut Call<'_>, at: usize) -> Result<u32, ErrorReply> {
    let Some(settings) = call.client.settings.sequences else { return Err(refused(call, SEQUENCES_OFF)) };
    let max = settings.incrby_max;
    let Some(count) = parse_integer(call.arg(at)) else { return Err(refused(call, NOT_AN_INTEGER)) };
    let values = u32::try_from(count).ok().filter(|values| (1..=max).contains(values));
    values.ok_or_else(|| {
        let name = quoted(call.arg(1));
        let text = match count {
            0 => format!(
                "ERR a step of 0 gives no value: a sequence gives 1 to {max} values at a time, and GET {} returns \
                 its position",
                NameWord(&name)
            ),
            ..0 => format!(
                "ERR a sequence never goes back: '{name}' takes steps of 1 to {max}, not {count}. SEQUENCE CREATE \
                 makes another one"
            ),
            _ => {
                format!("ERR {count} values of '{name}' are too many for one request: sequence-incrby-max allows {max}")
            }
        };
        refused(call, text)
    })
}

/// Counts the command as failed, and returns its error.
#[cold]
fn refused(call: &mut Call<'_>, error: impl Into<ErrorReply>) -> ErrorReply {
    let error = error.into();
    let is_failed = benchmark::reply(call.command.verb, call.args, &error).is_none();
    call.turn.tally.ids(call.command.verb, 1, u32::from(is_failed));
    error
}

/// Adds a request for values of the sequence that the first argument names.
#[inline]
fn count(call: &mut Call<'_>, values: u32) -> CommandResult {
    let name = call.arg(1);
    let hash = hash_of(name);
    let draw = match call.turn.find_sequence(hash, name) {
        // A request for IDs of a generator has begun the draw.
        Some(draw) if call.turn.is_counter_draw(draw) => return Err(refused(call, is_a_generator(&quoted(name)))),
        Some(draw) => draw,
        None => begin(call, hash, name)?,
    };
    let verb = call.command.verb;
    call.turn.tally.ids(verb, 1, 0);
    call.turn.push_sequence(draw, verb, values);
    call.turn.is_repeatable = !call.transaction.is_open();
    Ok(CommandReply::Pushed)
}

/// Adds a draw from a sequence that is new in this turn. Its name is checked here.
fn begin(call: &mut Call<'_>, hash: u64, name: &[u8]) -> Result<usize, ErrorReply> {
    let settings = &call.client.settings;
    if settings.sequences.is_none() {
        return Err(refused(call, SEQUENCES_OFF));
    }
    let Some(text) = str::from_utf8(name).ok().filter(|name| is_sequence_name(name)) else {
        return Err(refused(call, not_a_name(name)));
    };
    let is_generator = !settings.generators.is_empty() && settings.generators.find(name).is_some();
    if is_generator || (!settings.counters.is_empty() && settings.counters.find(name).is_some()) {
        return Err(refused(call, is_a_generator(text)));
    }
    Ok(call.turn.add_sequence(hash, text, None))
}

/// Handles `GETID name [key k]` and `MGETID count name [key k]` of a counter, at `place` in the settings. `words`
/// follow the name.
pub(super) fn ids_of_counter(call: &mut Call<'_>, place: usize, values: u32, words: Args<'_>) -> CommandResult {
    let settings = &call.client.settings;
    let Some(counter) = settings.counters.get(place) else { return Err(refused(call, SEQUENCES_OFF)) };
    if settings.sequences.is_none() {
        return Err(refused(call, SEQUENCES_OFF));
    }
    if counter.gapless().is_some() {
        let error = needs_request(counter, call.command.verb);
        return Err(refused(call, error));
    }
    let series = match requested_counter(counter, words) {
        Ok(series) => series,
        Err(error) => return Err(refused(call, error)),
    };
    let name = counter.name();
    let is_sealed = settings.sealers.answering(name).is_some();
    let cost = if is_sealed { SEALED_COST } else { counter_cost(counter) };
    let name = series.as_ref().map_or(name, Key::as_str);
    let hash = hash_of(name.as_bytes());
    let draw = match call.turn.find_sequence(hash, name.as_bytes()) {
        Some(draw) => draw,
        None => call.turn.add_sequence(hash, name, Some(place)),
    };
    let verb = call.command.verb;
    call.turn.tally.ids(verb, 1, 0);
    call.turn.push_sequence(draw, verb, values);
    call.turn.count_ids(cost.saturating_mul(values));
    Ok(CommandReply::Pushed)
}

/// Returns the error for a draw from a gapless generator without a request.
#[cold]
pub(super) fn needs_request(counter: &CounterDeclaration, verb: Verb) -> ErrorReply {
    let name = counter.name();
    let (key, key_word) = if counter.series().is_some() { (" key ACME", " KEY ACME") } else { ("", "") };
    let text = if verb == Verb::MGetId {
        format!(
            "ERR generator '{name}' is gapless, and each of its numbers has a request of its own: send GETID \
             {name}{key} REQUEST r for each"
        )
    } else {
        format!(
            "ERR generator '{name}' is gapless, and each of its numbers has a request: GETID {name}{key} REQUEST r \
             gives one and commits it, NUMBER RESERVE {name} REQUEST r{key_word} reserves it"
        )
    };
    ErrorReply::new(ErrorKind::Conflict, text)
}

/// Returns the error for an invalid name of a sequence.
#[cold]
pub(super) fn not_a_name(name: &[u8]) -> ErrorReply {
    format!("ERR '{}' cannot be the name of a sequence: it has {SEQUENCE_NAME_RULE}", quoted(name)).into()
}

/// Returns the error for a generator's name in the place of a sequence's.
#[cold]
pub(super) fn is_a_generator(name: &str) -> ErrorReply {
    ErrorReply::new(
        ErrorKind::Conflict,
        format!(
            "WRONGTYPE Operation against a key holding the wrong kind of value: '{name}' is a generator; use GETID \
             {name}"
        ),
    )
}
