//! `GETID`, `MGETID` and the commands about existing IDs.

use std::sync::Arc;

use getid_core::server::CounterDeclaration;
use getid_core::server::request_key;
use getid_core::{NamedGenerator, Number, RequestField};

use super::unknown::unknown_generator;
use super::{Call, CommandReply, CommandResult, NOT_AN_INTEGER};
use crate::command::{
    EncodedGenerator, IdEncoding, IdReadings, KIND_READERS, NamedId, RequestKey, Verb, check_named_span,
    parse_counter_id, parse_id, parse_named_id, parse_span, parse_time, quoted,
};
use crate::resp::{Args, ErrorKind, ErrorReply, parse_integer};
use crate::session::Settings;
use crate::session::effect::{Effect, IdsEffect};
use crate::session::named::{NamedReply, ReplyForm};
use crate::session::turn::{SEALED_COST, named_cost};

/// `GETID [name [field value ...] [REQUEST r [FOR seconds]]]` outside the fast path.
#[inline]
pub(super) fn getid(call: &mut Call<'_>) -> CommandResult {
    check_server_id(call, Verb::GetId)?;
    if call.args.len() > 1 {
        return named(call, 1, 1);
    }
    Ok(unnamed(call, 1))
}

/// Draws from the unnamed generator, `count` IDs for `MGETID`.
#[inline]
fn unnamed(call: &mut Call<'_>, count: u32) -> CommandReply {
    let verb = call.command.verb;
    call.turn.tally.ids(verb, 1, 0);
    if verb == Verb::GetId {
        call.turn.push_each_id(1);
    } else {
        call.turn.push_ids(count);
    }
    CommandReply::Pushed
}

/// Implements `MGETID count [name [field value ...] [REQUEST r [FOR seconds]]]`.
#[inline]
pub(super) fn mgetid(call: &mut Call<'_>) -> CommandResult {
    check_server_id(call, Verb::MGetId)?;
    let counted = parse_integer(call.arg(1));
    match counted.map(u32::try_from) {
        Some(Ok(count @ 1..)) if count <= call.client.settings.id_mgetid_max => {
            if call.args.len() > 2 {
                return named(call, 2, count);
            }
            return Ok(unnamed(call, count));
        }
        _ => call.turn.tally.ids(Verb::MGetId, 1, 1),
    }
    Err(counted.map_or(NOT_AN_INTEGER, |count| format!("ERR parameters error! argv[1] = {count}").into()))
}

/// Refuses a draw without a server-id. A turn's IDs are written with the settings under which it was read.
#[inline]
fn check_server_id(call: &mut Call<'_>, verb: Verb) -> Result<(), ErrorReply> {
    if call.client.settings.has_server_id {
        return Ok(());
    }
    call.turn.tally.ids(verb, 1, 1);
    Err(NO_SERVER_ID)
}

/// Error of a server for which no server-id is free.
const NO_SERVER_ID: ErrorReply =
    ErrorReply::fixed(ErrorKind::Standby, "LOADING standby: no server-id is free for this server (server-id auto)");

/// Draws from the generator that the argument at `at` names. Values of its fields follow.
#[inline(never)]
fn named(call: &mut Call<'_>, at: usize, count: u32) -> CommandResult {
    let verb = call.command.verb;
    let Call { args, client, turn, transaction, .. } = call;
    let settings = &client.settings;
    let found = settings.generators.find(args.get(at).unwrap_or_default()).and_then(|place| {
        let (index, generator) = settings.generators.get(place)?;
        Some((place, index, generator))
    });
    let Some((place, index, generator)) = found else {
        if let Some(place) = settings.counters.find(args.get(at).unwrap_or_default()) {
            return counted(call, place, at, count);
        }
        if args.get(at) == Some(UNNAMED) {
            // Clients in cluster mode need a key, and this name is one.
            if settings.cluster.is_some() && args.len() == at + 1 {
                return Ok(unnamed(call, count));
            }
            return super::requests::of_unnamed(call, at, count);
        }
        turn.tally.ids(verb, 1, 1);
        let name = args.get(at).unwrap_or_default();
        return Err(unknown_generator(call, name));
    };
    let is_field = |word: &[u8]| generator.request_fields().iter().any(|field| field.name.as_bytes() == word);
    let parsed = RequestKey::parse(args.behind(at + 1), is_field)
        .and_then(|(words, key)| request_of(generator, words).map(|request| (request, words, key)));
    let (request, words, key) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            turn.tally.ids(verb, 1, 1);
            return Err(error);
        }
    };
    if let Some(key) = key {
        let generator = Arc::clone(generator);
        return super::requests::of_generator(call, (index, &generator), count, &key, request, words);
    }
    turn.tally.ids(verb, 1, 0);
    let form = if verb == Verb::GetId { ReplyForm::Each } else { ReplyForm::Array };
    turn.push_named([place, index], NamedReply { draw: 0, count, form, request }, || {
        let is_sealed = settings.sealers.answering(generator.declaration().name()).is_some();
        let cost = named_cost(generator, settings.turn_ids_max, settings.id_max_wait_ms);
        if is_sealed { cost.max(SEALED_COST) } else { cost }
    });
    turn.is_repeatable = form == ReplyForm::Each && !transaction.is_open();
    Ok(CommandReply::Pushed)
}

/// Draws from the counter at `place`, which the argument at `at` names.
fn counted(call: &mut Call<'_>, place: usize, at: usize, count: u32) -> CommandResult {
    let (words, key) = RequestKey::parse(call.args.behind(at + 1), |_| false)
        .inspect_err(|_| call.turn.tally.ids(call.command.verb, 1, 1))?;
    match (key, call.client.settings.counters.get(place)) {
        (Some(key), Some(counter)) => {
            let counter = Arc::clone(counter);
            super::requests::of_counter(call, &counter, count, &key, words)
        }
        _ => super::sequences::ids_of_counter(call, place, count, words),
    }
}

/// Returns the request's field values, placed in the ID: all fields of the generator, each once, in any order.
fn request_of(generator: &NamedGenerator, words: Args<'_>) -> Result<Number, ErrorReply> {
    let name = generator.declaration().name();
    if let Some(server_id) = generator.foreign_to() {
        let text = format!("ERR generator '{name}' belongs to server-id {server_id}");
        return Err(ErrorReply::new(ErrorKind::Conflict, text));
    }
    let fields = generator.request_fields();
    let (mut request, mut present) = (Number::ZERO, Number::ZERO);
    for at in (0..words.len()).step_by(2) {
        let word = words.get(at).unwrap_or_default();
        let Some(place) = fields.iter().position(|field| field.name.as_bytes() == word) else {
            return Err(unknown_field(generator, word).into());
        };
        let RequestField { name: field, max, .. } = &fields[place];
        let Some(value) = words.get(at + 1) else {
            let text = format!("ERR field '{field}' of generator '{name}' has no value: it takes 0 to {max}");
            return Err(text.into());
        };
        if present >> place & 1 == 1 {
            return Err(format!("ERR field '{field}' of generator '{name}' is given twice").into());
        }
        present |= Number::ONE << place;
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let number = str::from_utf8(value).ok().filter(|_| is_number).and_then(|text| text.parse::<u64>().ok());
        request |= match number {
            Some(value) if value <= *max => fields[place].place(value),
            _ => {
                let (value, why) = (quoted(value), if is_number { "out of range" } else { "not a number" });
                let text = format!("ERR '{value}' is {why}: field '{field}' of generator '{name}' takes 0 to {max}");
                return Err(text.into());
            }
        };
    }
    let missing = fields.iter().enumerate().find(|(place, _)| present >> *place & 1 == 0);
    missing.map_or(Ok(request), |(_, RequestField { name: field, max, .. })| {
        Err(format!(
            "ERR generator '{name}' needs a value for its field '{field}' with each request, 0 to {max}: GETID {name} \
             {field} 0"
        )
        .into())
    })
}

#[cold]
fn unknown_field(generator: &NamedGenerator, word: &[u8]) -> String {
    let (name, word) = (generator.declaration().name(), quoted(word));
    let fields = generator.request_fields().iter().map(|field| format!("{} (0 to {})", field.name, field.max));
    let fields: Vec<String> = fields.collect();
    if fields.is_empty() {
        return format!("ERR generator '{name}' takes no fields with a request, and got '{word}'");
    }
    format!("ERR generator '{name}' takes no field '{word}' with a request; it takes {}", fields.join(", "))
}

/// Implements `DECODEID id [name]`.
pub(super) fn decode(call: &mut Call<'_>) -> CommandResult {
    let text = call.arg(1);
    if call.args.len() > 2 {
        let id = if let Some(counter) = counter_at(call, 2) {
            NamedId::Counted(Arc::clone(counter), parse_counter_id(counter, text)?)
        } else {
            let generator = generator_at(call, 2)?;
            let number = parse_named_id(&generator, text)?;
            NamedId::Number(generator, number)
        };
        return Ok(CommandReply::Effect(Effect::Ids(IdsEffect::DecodeNamed(id))));
    }
    let settings = &call.client.settings;
    let readers = settings.generators.iter().len() + settings.counters.iter().len() + KIND_READERS.iter().len();
    call.turn.count_work(readers * READING_BYTES);
    let readings = readings_of(settings, text);
    if readings.id.is_none() && readings.kinds.is_empty() && readings.named.as_ref().is_none_or(Vec::is_empty) {
        call.turn.count_work(UNREADABLE_ID_BYTES);
        return Err(unreadable(text));
    }
    Ok(CommandReply::Effect(Effect::Ids(IdsEffect::Decode(readings))))
}

/// Size that a text which is no ID adds to a turn's bound, bytes, for the search of the forms that are nearest to it.
const UNREADABLE_ID_BYTES: usize = 4096;

/// Size that each reader of an ID adds to a turn's bound, bytes: a reading takes about 100 ns, and a turn's
/// [`TURN_BYTES_MAX`](crate::session::turn::TURN_BYTES_MAX) bytes about 250 us.
const READING_BYTES: usize = 32;

/// Returns the readings of an ID without a name: at most as many as there are generators and kinds. The shell, which
/// has the clock, knows which of them to omit.
fn readings_of(settings: &Settings, id: &[u8]) -> IdReadings {
    let (generators, counters) = (&settings.generators, &settings.counters);
    let text = str::from_utf8(id).unwrap_or_default();
    let numbers = generators
        .iter()
        .filter_map(|(_, generator)| Some(NamedId::Number(Arc::clone(generator), generator.declaration().read(text)?)));
    let counted =
        counters.iter().filter_map(|counter| Some(NamedId::Counted(Arc::clone(counter), counter.read(text)?)));
    let has_named = !generators.is_empty() || !counters.is_empty();
    let named = has_named.then(|| numbers.chain(counted).collect());
    IdReadings { id: parse_id(id).ok(), named, kinds: KIND_READERS.read(text) }
}

/// Returns the error for a text that neither a generator nor a kind reads.
#[cold]
fn unreadable(id: &[u8]) -> ErrorReply {
    let why = parse_id(id).err().map_or_else(String::new, |error| format!("{error}; "));
    format!("{why}{}", KIND_READERS.nearest_forms(id)).into()
}

/// Returns the counter that the last argument, at `at`, names, if any.
fn counter_at<'a>(call: &'a Call<'_>, at: usize) -> Option<&'a Arc<CounterDeclaration>> {
    let counters = &call.client.settings.counters;
    let place = counters.find(call.arg(at)).filter(|_| call.args.len() == at + 1)?;
    counters.get(place)
}

/// Returns the generator that the last argument, at `at`, names.
fn generator_at(call: &mut Call<'_>, at: usize) -> Result<Arc<NamedGenerator>, ErrorReply> {
    if call.args.len() > at + 1 {
        return Err(call.command.arity_error());
    }
    find_generator(call, at)
}

/// Returns the generator that the argument at `at` names.
fn find_generator(call: &mut Call<'_>, at: usize) -> Result<Arc<NamedGenerator>, ErrorReply> {
    let (name, generators) = (call.arg(at), &call.client.settings.generators);
    let found = generators.find(name).and_then(|place| generators.get(place)).map(|(_, found)| Arc::clone(found));
    found.ok_or_else(|| unknown_generator(call, name))
}

/// Name of the unnamed generator where a name is required, as in paths of the HTTP port.
const UNNAMED: &[u8] = request_key::UNNAMED.as_bytes();

/// Implements `ENCODEID name TIME t [field value ...] [HIGHEST] [FORCE]`.
pub(super) fn encode(call: &mut Call<'_>) -> CommandResult {
    const WORDS_AT: usize = 4;
    let settings = &call.client.settings;
    if let Some(counter) = settings.counters.find(call.arg(1)).and_then(|place| settings.counters.get(place)) {
        let (name, kind) = (counter.name(), counter.word());
        return Err(format!("ERR generator '{name}': a {kind} holds no time, so there is no id of a time").into());
    }
    let generator = if call.arg(1) == UNNAMED {
        EncodedGenerator::unnamed(&settings.scheme)
    } else {
        EncodedGenerator::Named(find_generator(call, 1)?)
    };
    if !call.arg(2).eq_ignore_ascii_case(b"TIME") {
        let after = "' where TIME is expected: ENCODEID name TIME t [field value ...] [HIGHEST] [FORCE]";
        return Err(Call::error_quoting("ERR '", call.arg(2), after));
    }
    let time = parse_time(call.arg(3)).map_err(|error| error.to_string())?;
    let words = call.args.behind(WORDS_AT);
    let words = (0..words.len()).filter_map(|at| words.get(at));
    let encoding = IdEncoding::parse(generator, time, words)?;
    // The ID has the server-id of this server, which it keeps once it has one.
    if encoding.is_unique() && !call.client.settings.has_server_id {
        return Err(NO_SERVER_ID);
    }
    // Only the holder knows which IDs were given.
    if encoding.is_unique()
        && let Some(error) = call.client.redirect(call.command, call.args)
    {
        return Err(error);
    }
    Ok(CommandReply::Effect(Effect::Ids(IdsEffect::Encode(Box::new(encoding)))))
}

/// Implements `IDREADY`.
pub(super) fn ready(call: &mut Call<'_>) -> CommandResult {
    let shows_reasons = call.client.is_authenticated();
    Ok(CommandReply::Effect(Effect::Ids(IdsEffect::Ready { shows_reasons })))
}

/// Implements `IDSPAN from to [name]`.
pub(super) fn span(call: &mut Call<'_>) -> CommandResult {
    if let Some(counter) = counter_at(call, 3) {
        let (name, kind) = (counter.name(), counter.word());
        return Err(format!("ERR ids of generator '{name}' have no span: a {kind} holds no time").into());
    }
    let generator = if call.args.len() > 3 { Some(generator_at(call, 3)?) } else { None };
    let times = parse_span(call.arg(1), call.arg(2)).map_err(|error| error.to_string())?;
    let effect = match generator {
        None => IdsEffect::Span(times),
        Some(generator) => {
            check_named_span(&generator)?;
            IdsEffect::SpanNamed { generator, times }
        }
    };
    Ok(CommandReply::Effect(Effect::Ids(effect)))
}
