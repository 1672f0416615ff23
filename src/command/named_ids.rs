//! `DECODEID` and `IDSPAN` of named generators: an ID as their fields, and the IDs of a span of time.

use std::sync::Arc;

use getid_core::{CounterDeclaration, CounterKind, Declaration, FieldLayout, Id, Layout, NamedGenerator, Role, Shape};

use super::ids::{SpanError, describe_id, quoted};
use crate::resp::Value;
use crate::text::timestamp::{Time, format_rfc3339};

const NS_PER_MS: i128 = 1_000_000;

/// An ID as its generator has read it.
pub type NamedId = (Arc<NamedGenerator>, u128);

/// What `DECODEID` of a named generator says beside its fields. A field of one of these names is told with `_` behind.
const OWN_NAMES: [&str; 7] = ["generator", "kind", "time", "unix_ms", "tick", "ahead_ms", "note"];

/// The number of an ID as a client writes it.
///
/// # Errors
///
/// The reply's text, if it is not an ID of this generator.
pub fn parse_named_id(generator: &NamedGenerator, text: &[u8]) -> Result<u128, String> {
    let declaration = generator.declaration();
    str::from_utf8(text).ok().and_then(|text| declaration.read(text)).ok_or_else(|| {
        let (text, name) = (quoted(text), declaration.name());
        format!("ERR '{text}' is not an id of generator '{name}': expected {}", expected(declaration))
    })
}

fn expected(declaration: &Declaration) -> String {
    match (declaration.format(), declaration.kind().shape) {
        (Some(format), _) => format!("an id of {format}"),
        (None, Shape::Uuid(version)) => format!("a UUID of version {version}"),
        (None, Shape::Hibernate) => "a UUID as Hibernate makes them".to_owned(),
        (None, Shape::ObjectId) => "24 hex digits".to_owned(),
        (None, Shape::ObjectIdDecimal) => "29 decimal digits".to_owned(),
        (None, Shape::Number) => format!("a decimal number of at most {} bits", declaration.layout().bits()),
    }
}

/// The reply to `DECODEID id name`: what the number says by the generator's layout. `ahead_ms` is how far its time lies
/// ahead of `now_unix_ms`, negative for one of the past.
pub fn describe_named_id((generator, number): &NamedId, now_unix_ms: i64) -> Value {
    let declaration = generator.declaration();
    let (layout, kind) = (declaration.layout(), declaration.kind().word);
    let mut told =
        vec![(Value::from("generator"), Value::from(declaration.name())), (Value::from("kind"), Value::from(kind))];
    let mut tell = |name: &str, value| told.push((Value::from(name), value));
    let tick = layout.tick_of(*number);
    let unix_ms = tick.map(|tick| unix_ms_of(layout, tick));
    if let (Some(tick), Some(unix_ms)) = (tick, unix_ms) {
        tell("time", Value::from(format_rfc3339(unix_ms).as_str()));
        tell("unix_ms", Value::Integer(unix_ms));
        tell("tick", number_value(u128::from(tick)));
    } else {
        tell("time", Value::Null);
        tell("note", Value::bulk(format!("a {kind} holds no time")));
    }
    for (field, shift) in layout.places().filter(|(field, _)| field.role != Role::Time) {
        let value = number_value(FieldLayout::value(field, shift, *number));
        match field.name.as_str() {
            name if OWN_NAMES.contains(&name) => tell(&format!("{name}_"), value),
            name => tell(name, value),
        }
    }
    if let Some(unix_ms) = unix_ms {
        tell("ahead_ms", Value::Integer(unix_ms.saturating_sub(now_unix_ms)));
    }
    Value::Map(told)
}

/// The reply to `DECODEID id name` of a generator that counts by a sequence.
///
/// # Errors
///
/// The reply's text, if it is not an ID of this generator.
pub fn describe_counter_id(counter: &CounterDeclaration, text: &[u8]) -> Result<Value, String> {
    let (name, kind) = (counter.name(), counter.word());
    let own = [("generator", Value::from(name)), ("kind", Value::from(kind)), ("time", Value::Null)];
    let note = |note: &str| Value::map(own.clone().into_iter().chain([("note", Value::from(note))]));
    let plain = str::from_utf8(text).ok();
    let (value, expected) = match counter.kind() {
        CounterKind::Serial(_) => return Ok(note("a serial number shows its period and its counter itself")),
        CounterKind::Sequence(None) => (plain.and_then(|text| text.parse().ok()), "a decimal number".to_owned()),
        CounterKind::Sequence(Some(format)) => (plain.and_then(|text| format.read(text)), format!("an id of {format}")),
    };
    let value = value.filter(|value| i64::try_from(*value).is_ok());
    let value = value
        .ok_or_else(|| format!("ERR '{}' is not an id of generator '{name}': expected {expected}", quoted(text)))?;
    let Value::Map(mut told) = note("a sequence holds no time") else { return Ok(Value::Null) };
    told.push((Value::from("value"), number_value(value)));
    Ok(Value::Map(told))
}

/// The reply to `DECODEID id` where there are named generators: what it says under the unnamed one's layout, if it is
/// an ID of it, and what it could be in each of the others.
pub fn describe_any_id(layout: Layout, id: Option<Id>, named: &[NamedId], now_unix_ms: i64) -> Value {
    let mut told = match id.map(|id| describe_id(layout, id, now_unix_ms)) {
        Some(Value::Map(fields)) => fields,
        _ => Vec::new(),
    };
    let name = |(generator, _): &NamedId| Value::from(generator.declaration().name());
    let each = named.iter().map(|id| (name(id), describe_named_id(id, now_unix_ms)));
    told.push((Value::from("generators"), Value::Map(each.collect())));
    Value::Map(told)
}

/// Whether a span of time has a span of IDs.
///
/// # Errors
///
/// The reply's text, if it has none: the kind holds no time, or its IDs are not in the order of their times.
pub fn check_named_span(generator: &NamedGenerator) -> Result<(), String> {
    let declaration = generator.declaration();
    let (name, kind) = (declaration.name(), declaration.kind().word);
    if !declaration.layout().has_time() {
        return Err(format!("ERR ids of generator '{name}' have no span: a {kind} holds no time"));
    }
    if !declaration.is_ordered() {
        return Err(format!(
            "ERR ids of generator '{name}' have no span: those of {kind} are not in the order of their times"
        ));
    }
    Ok(())
}

/// The reply to `IDSPAN from to name`: the lowest and the highest ID that can carry a time of `from` to `to`, both
/// inclusive, when it is now `now_unix_ms`; or an error that says why there is none.
pub fn describe_named_span(generator: &NamedGenerator, times: [Time; 2], now_unix_ms: i64) -> Value {
    let ids = span(generator.declaration().layout(), times, now_unix_ms).map_err(|error| error.to_string());
    let shown = |number: u128| {
        if generator.is_integer() {
            return Ok(number_value(number));
        }
        let mut text = Vec::new();
        let fits = generator.declaration().write(number, &mut text);
        if fits { Ok(Value::bulk(text)) } else { Err(too_wide(generator, number)) }
    };
    let ids = ids.and_then(|(lowest, highest)| Ok(vec![shown(lowest)?, shown(highest)?]));
    ids.map_or_else(Value::error, Value::Array)
}

/// The reply when a number has more digits than its generator's format may have.
#[cold]
pub fn too_wide(generator: &NamedGenerator, number: u128) -> String {
    let declaration = generator.declaration();
    let (name, pad) = (declaration.name(), declaration.format().map_or(0, |format| format.pad));
    format!(
        "ERR generator '{name}' is at {number}, which has more digits than its format's pad {pad}. Declare a new generator \
         with a larger pad, or this one with 'overflow grow', which gives up the order of its texts"
    )
}

fn span(layout: &FieldLayout, times: [Time; 2], now_unix_ms: i64) -> Result<(u128, u128), SpanError> {
    let [from, to] = times.map(|time| time.unix_ms(now_unix_ms));
    let tick = |unix_ms: i64, unix_ns: i128| {
        layout.tick_at(unix_ns).ok_or_else(|| {
            let (first, last) = (layout.epoch_unix_ms(), unix_ms_of(layout, layout.last_tick()));
            SpanError::OutOfRange {
                time: format_rfc3339(unix_ms),
                relation: if unix_ms < first { "before the first" } else { "after the last" },
                bound: format_rfc3339(if unix_ms < first { first } else { last }),
            }
        })
    };
    let first_ns = |unix_ms: i64| i128::from(unix_ms) * NS_PER_MS;
    if from > to {
        let [from, to] = [from, to].map(format_rfc3339);
        return Err(SpanError::Backwards { from, to });
    }
    // All ticks that begin in the last millisecond are in.
    let ticks = (tick(from, first_ns(from))?, tick(to, first_ns(to) + NS_PER_MS - 1)?);
    // It was looked for before: a layout with time has spans.
    Ok(layout.span(ticks.0, ticks.1).unwrap_or_default())
}

/// The ms that a tick begins in; times that an `i64` can't hold stop at its ends.
fn unix_ms_of(layout: &FieldLayout, tick: u64) -> i64 {
    i64::try_from(layout.unix_ns(tick).div_euclid(NS_PER_MS)).unwrap_or(i64::MAX)
}

/// An integer, or its digits where that has not room for it.
fn number_value(number: u128) -> Value {
    i64::try_from(number).map_or_else(|_| Value::bulk(number.to_string()), Value::Integer)
}
