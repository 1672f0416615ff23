//! `DECODEID` and `IDSPAN` of named generators: the fields of an ID, and the IDs of a span of time.

use std::fmt::Display;
use std::sync::{Arc, LazyLock};

use getid_core::server::{CheckDigit, CounterDeclaration, CounterKind, CounterReading, NS_PER_MS, Reset, counter_doc};
use getid_core::{
    Declaration, FieldLayout, FieldNotation, Id, KindReaders, KindReading, Layout, NamedGenerator, Number, Role,
    most_plausible,
};

use super::ids::{SpanError, describe_id, quoted};
use crate::resp::{ErrorKind, ErrorReply, Value};
use getid_text::timestamp::{TimeSpec, format_rfc3339, plausibility};
use getid_text::zone::shown_unix_ms;

/// Largest number of generators in which `DECODEID` without a name shows a reading.
const READINGS_MAX: usize = 100;

/// Readers of all kinds, made at the first `DECODEID` without a name.
pub static KIND_READERS: LazyLock<KindReaders> = LazyLock::new(KindReaders::new);

/// An ID as a named generator reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedId {
    /// The number of an ID of a generator by the clock.
    Number(Arc<NamedGenerator>, Number),
    /// The counted value of an ID of a generator over a sequence.
    Counted(Arc<CounterDeclaration>, CounterReading),
}

impl NamedId {
    fn generator(&self) -> &str {
        match self {
            NamedId::Number(generator, _) => generator.declaration().name(),
            NamedId::Counted(counter, _) => counter.name(),
        }
    }

    /// Returns the time that the ID holds, Unix ms.
    fn unix_ms(&self, now_unix_ms: i64) -> Option<i64> {
        match self {
            NamedId::Number(generator, number) => {
                let layout = generator.declaration().layout();
                layout.tick_of(*number).map(|tick| layout.unix_ms(tick))
            }
            NamedId::Counted(counter, read) => shown_unix_ms(counter, *read, now_unix_ms),
        }
    }
}

/// Keys in `DECODEID` of a named generator that are not fields. A field of one of these names gets
/// [`RENAMED_SUFFIX`] appended.
pub(super) const OWN_NAMES: [&str; 8] =
    ["generator", "kind", "description", "time", "unix_ms", "tick", "ahead_ms", "note"];

/// End of the shown name of a field whose own name is one of [`OWN_NAMES`].
pub(super) const RENAMED_SUFFIX: &str = "_";

/// Parses the number of an ID as a client writes it.
///
/// # Errors
///
/// Returns the error reply if it is not an ID of this generator.
pub fn parse_named_id(generator: &NamedGenerator, text: &[u8]) -> Result<Number, ErrorReply> {
    let declaration = generator.declaration();
    str::from_utf8(text).ok().and_then(|text| declaration.read(text)).ok_or_else(|| {
        let (text, name) = (quoted(text), declaration.name());
        format!("ERR '{text}' is not an id of generator '{name}': expected {}", expected(declaration)).into()
    })
}

fn expected(declaration: &Declaration) -> String {
    declaration.format().map_or_else(|| declaration.description(), |format| format!("an id of {format}"))
}

/// Replies to `DECODEID id name` with the fields of the ID. `ahead_ms` is the time by which it lies ahead of
/// `now_unix_ms`, negative for an ID of the past.
pub fn describe_named_id(id: &NamedId, now_unix_ms: i64) -> Value {
    match id {
        NamedId::Number(generator, number) => describe_number(generator.declaration(), *number, now_unix_ms),
        NamedId::Counted(counter, read) => describe_counter_id(counter, *read, now_unix_ms),
    }
}

fn describe_number(declaration: &Declaration, number: Number, now_unix_ms: i64) -> Value {
    let kind = declaration.kind();
    let named = [("generator", declaration.name()), ("kind", kind.word), ("description", kind.doc)];
    let mut fields = named.map(|(name, value)| (Value::from(name), Value::from(value))).to_vec();
    push_fields(declaration, number, now_unix_ms, &mut fields);
    Value::Map(fields)
}

/// Appends the time of a number, its fields by their names, and by how much it lies ahead of now.
fn push_fields(declaration: &Declaration, number: Number, now_unix_ms: i64, fields: &mut Vec<(Value, Value)>) {
    let layout = declaration.layout();
    let mut push = |name: &str, value| fields.push((Value::from(name), value));
    let tick = layout.tick_of(number);
    let unix_ms = tick.map(|tick| layout.unix_ms(tick));
    if let (Some(tick), Some(unix_ms)) = (tick, unix_ms) {
        push("time", Value::from(format_rfc3339(unix_ms).as_str()));
        push("unix_ms", Value::Integer(unix_ms));
        push("tick", number_value(u128::from(tick)));
    } else {
        push("time", Value::Null);
        push("note", Value::bulk(format!("a {} holds no time", declaration.kind().word)));
    }
    for (field, shift) in layout.places().filter(|(field, _)| field.role != Role::Time) {
        let value = FieldLayout::value(field, shift, number);
        let value = match u64::try_from(value) {
            Ok(value) if field.notation() == FieldNotation::Address => Value::bulk(field.declared_value(value)),
            _ => number_value(value),
        };
        match field.name.as_str() {
            name if OWN_NAMES.contains(&name) => push(&format!("{name}{RENAMED_SUFFIX}"), value),
            name => push(name, value),
        }
    }
    if let Some(unix_ms) = unix_ms {
        push("ahead_ms", Value::Integer(unix_ms.saturating_sub(now_unix_ms)));
    }
}

/// Parses an ID of a generator over a sequence, as a client writes it.
///
/// # Errors
///
/// Returns the error reply if it is not an ID of this generator.
pub fn parse_counter_id(counter: &CounterDeclaration, text: &[u8]) -> Result<CounterReading, ErrorReply> {
    let id = str::from_utf8(text).ok();
    id.and_then(|id| counter.read(id)).ok_or_else(|| {
        if let Some(check) = id.and_then(|id| counter.wrong_check(id)) {
            return wrong_check(counter.name(), text, check);
        }
        let expected = match counter.kind() {
            CounterKind::Sequence(None) => "a decimal number".to_owned(),
            CounterKind::Sequence(Some(format)) => format!("an id of {format}"),
            CounterKind::Serial(serial) => format!("a text of the template {}", serial.template.text()),
        };
        format!("ERR '{}' is not an id of generator '{}': expected {expected}", quoted(text), counter.name()).into()
    })
}

/// Returns the error for an ID that is wrong in its check digits only.
///
/// It does not contain the right ones: any character may be the wrong one, and another check digit would hide that.
fn wrong_check(name: &str, text: &[u8], check: CheckDigit) -> ErrorReply {
    let (text, word) = (quoted(text), check.word());
    format!(
        "ERR '{text}' is not an id of generator '{name}': its check digits ({{{word}}}) do not match the rest, so a \
         character is wrong. Compare it with where it was read"
    )
    .into()
}

/// Replies to `DECODEID id name` of a generator over a sequence. The time of a serial number is the begin of the period
/// that it shows, in its zone.
fn describe_counter_id(counter: &CounterDeclaration, read: CounterReading, now_unix_ms: i64) -> Value {
    let begins_unix_ms = shown_unix_ms(counter, read, now_unix_ms);
    let time = begins_unix_ms.map_or(Value::Null, |unix_ms| Value::from(format_rfc3339(unix_ms).as_str()));
    let note = match (counter.kind(), begins_unix_ms) {
        (CounterKind::Sequence(_), _) => "a sequence holds no time",
        (CounterKind::Serial(serial), None) if serial.template.finest() > Reset::Never => {
            "the period that it shows begins after the last time that can be shown"
        }
        (CounterKind::Serial(_), None) => "a serial without a year holds no time",
        (CounterKind::Serial(_), Some(_)) => "the time is the begin of the period that it shows",
    };
    let mut fields = vec![
        ("generator", Value::from(counter.name())),
        ("kind", Value::from(counter.word())),
        ("description", Value::from(counter_doc(counter.word()))),
        ("time", time),
        ("note", Value::from(note)),
        ("value", Value::Integer(read.value)),
    ];
    if !read.series.is_empty() {
        fields.push(("key", Value::from(read.series.as_str())));
    }
    if let Some(unix_ms) = begins_unix_ms {
        fields.push(("unix_ms", Value::Integer(unix_ms)));
        fields.push(("ahead_ms", Value::Integer(unix_ms.saturating_sub(now_unix_ms))));
    }
    Value::map(fields)
}

/// The readings of an ID whose generator is not named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdReadings {
    /// The ID, if it is one of the unnamed generator.
    pub id: Option<Id>,
    /// Meaning of the text in each named generator that could have given it; `None` on a server without any.
    pub named: Option<Vec<NamedId>>,
    /// Readings by all kinds, in the order of their table.
    pub kinds: Vec<KindReading<'static>>,
}

/// Replies to `DECODEID id`: the fields under the unnamed generator's layout, if the ID is one of it; `generators` with
/// readings in at most `READINGS_MAX` named generators, if there are any; `kinds` with readings by kinds that none of
/// these generators has. Generators whose time is nearest to now come first, then those more than a day ahead, then
/// those without a time. Kinds are in the order of [`most_plausible`].
pub fn describe_any_id(layout: Layout, readings: &IdReadings, now_unix_ms: i64) -> Value {
    let mut fields = match readings.id.map(|id| describe_id(layout, id, now_unix_ms)) {
        Some(Value::Map(fields)) => fields,
        _ => Vec::new(),
    };
    let mut named: Vec<_> = readings.named.iter().flatten().collect();
    let kinds = undeclared(layout, readings, &named);
    if readings.named.is_some() {
        named.sort_by_cached_key(|id| plausibility(id.unix_ms(now_unix_ms), now_unix_ms));
        let each = named.into_iter().take(READINGS_MAX);
        let each = each.map(|id| (Value::from(id.generator()), describe_named_id(id, now_unix_ms)));
        fields.push((Value::from("generators"), Value::Map(each.collect())));
    }
    let each = most_plausible(kinds, now_unix_ms).into_iter().map(|reading| {
        let declaration = reading.reader.declaration();
        let mut fields = vec![(Value::from("description"), Value::bulk(reading.reader.description()))];
        push_fields(declaration, reading.number, now_unix_ms, &mut fields);
        (Value::from(declaration.kind().word), Value::Map(fields))
    });
    fields.push((Value::from("kinds"), Value::Map(each.collect())));
    Value::Map(fields)
}

/// Returns the readings by kinds that are not those of the unnamed generator or of a named one.
fn undeclared(layout: Layout, readings: &IdReadings, named: &[&NamedId]) -> Vec<KindReading<'static>> {
    let unnamed = readings.id.map(|_| FieldLayout::from(layout));
    let is_declared = |reading: &KindReading<'_>| {
        unnamed.as_ref().is_some_and(|layout| reading.is_of_layout(layout))
            || named.iter().any(|id| match id {
                NamedId::Number(generator, number) => reading.is_of(generator.declaration(), *number),
                NamedId::Counted(..) => false,
            })
    };
    readings.kinds.iter().filter(|reading| !is_declared(reading)).cloned().collect()
}

/// Checks whether a generator has a span of IDs for a span of time.
///
/// # Errors
///
/// Returns the error reply if it has none: the kind holds no time, or its IDs are not in the order of their times.
pub fn check_named_span(generator: &NamedGenerator) -> Result<(), ErrorReply> {
    let declaration = generator.declaration();
    let name = declaration.name();
    let mut kind = declaration.kind().word;
    if !declaration.layout().has_time() {
        return Err(format!("ERR ids of generator '{name}' have no span: a {kind} holds no time").into());
    }
    if !declaration.has_ordered_texts() {
        if declaration.is_ordered() {
            kind = declaration.format().map_or(kind, |format| format.notation.word());
        }
        return Err(format!(
            "ERR ids of generator '{name}' have no span: those of {kind} are not in the order of their times"
        )
        .into());
    }
    Ok(())
}

/// Replies to `IDSPAN from to name` with the lowest and the highest ID that can carry a time of `from` to `to`, both
/// inclusive, where `now` is `now_unix_ms`. The reply is an error if there is none.
pub fn describe_named_span(generator: &NamedGenerator, times: [TimeSpec; 2], now_unix_ms: i64) -> Value {
    let ids =
        span(generator.declaration().layout(), times, now_unix_ms).map_err(|error| ErrorReply::from(error.to_string()));
    let shown = |number: Number| {
        if generator.is_integer() {
            return Ok(number_value(number.as_u128()));
        }
        let mut text = Vec::new();
        let fits = generator.declaration().write(number, &mut text);
        if fits { Ok(Value::bulk(text)) } else { Err(no_text(generator, number)) }
    };
    let ids = ids.and_then(|(lowest, highest)| Ok(vec![shown(lowest)?, shown(highest)?]));
    ids.map_or_else(Value::error, Value::Array)
}

/// Returns the error for a number with more digits than its generator's format permits.
#[cold]
pub fn too_wide(generator: &NamedGenerator, number: Number) -> ErrorReply {
    let declaration = generator.declaration();
    let (name, pad) = (declaration.name(), declaration.format().map_or(0, |format| format.pad));
    if declaration.format().is_some_and(|format| !format.is_ordered()) {
        return no_code(name, number);
    }
    let text = format!(
        "ERR generator '{name}' is at {number}, which has more digits than its format's pad {pad}. Declare a new generator \
         with a larger pad, or this one with 'overflow grow', which gives up the order of its texts"
    );
    ErrorReply::new(ErrorKind::Conflict, text)
}

/// Returns the error for a number without a short code: each of its codes contains a word of the list of Sqids.
#[cold]
pub(crate) fn no_code(name: &str, number: impl Display) -> ErrorReply {
    let text = format!(
        "ERR generator '{name}' is at {number}, which has no short code without a word of the list of Sqids. Ask again \
         for the next number, and declare a new generator with a longer alphabet"
    );
    ErrorReply::new(ErrorKind::Conflict, text)
}

/// Returns the error for a composed ID, or a bound of a span, that its generator's format cannot write.
#[cold]
pub(super) fn no_text(generator: &NamedGenerator, number: Number) -> ErrorReply {
    let declaration = generator.declaration();
    let name = declaration.name();
    let why = match declaration.format() {
        Some(format) if !format.is_ordered() => {
            "each of its short codes contains a word of the list of Sqids. Take another time or value of a field, or \
             declare a new generator with a longer alphabet"
                .to_owned()
        }
        format => format!(
            "it has more digits than its pad {}. Declare a new generator with a larger pad, or this one with 'overflow \
             grow', which gives up the order of its texts",
            format.map_or(0, |format| format.pad)
        ),
    };
    let text = format!("ERR id {number} of generator '{name}' has no text in its format: {why}");
    ErrorReply::new(ErrorKind::Conflict, text)
}

fn span(layout: &FieldLayout, times: [TimeSpec; 2], now_unix_ms: i64) -> Result<(Number, Number), SpanError> {
    let [from, to] = times.map(|time| time.unix_ms(now_unix_ms));
    let tick = |unix_ms: i64, unix_ns: i128| {
        layout.tick_at(unix_ns).ok_or_else(|| {
            let (first, last) = (layout.epoch_unix_ms(), layout.unix_ms(layout.last_tick()));
            SpanError::OutOfRange {
                time: format_rfc3339(unix_ms),
                relation: if unix_ms < first { "before the first" } else { "after the last" },
                bound: format_rfc3339(if unix_ms < first { first } else { last }),
            }
        })
    };
    let first_ns = |unix_ms: i64| i128::from(unix_ms) * i128::from(NS_PER_MS);
    if from > to {
        let [from, to] = [from, to].map(format_rfc3339);
        return Err(SpanError::Backwards { from, to });
    }
    // All ticks that begin in the last millisecond are included.
    let ticks = (tick(from, first_ns(from))?, tick(to, first_ns(to) + i128::from(NS_PER_MS) - 1)?);
    // The caller has checked that the layout has time, so there is a span.
    Ok(layout.span(ticks.0, ticks.1).unwrap_or_default())
}

/// Returns an integer, or its digits if an `i64` cannot hold it.
pub(super) fn number_value(number: u128) -> Value {
    i64::try_from(number).map_or_else(|_| Value::bulk(number.to_string()), Value::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-26T20:00:00Z, which is the 27th in Shanghai.
    const NOW: i64 = 1_795_723_200_000;

    fn counted(words: &str, id: &str) -> NamedId {
        let words: Vec<_> = words.split(' ').collect();
        let counter = CounterDeclaration::parse(&words, |_| Ok(())).expect("a counter").expect("valid");
        let read = parse_counter_id(&counter, id.as_bytes()).expect("its ID");
        NamedId::Counted(Arc::new(counter), read)
    }

    fn field_of(id: &NamedId, name: &str) -> Option<Value> {
        let Value::Map(fields) = describe_named_id(id, NOW) else { panic!("a map") };
        fields.into_iter().find(|(own, _)| *own == Value::from(name)).map(|(_, value)| value)
    }

    #[test]
    fn a_serial_number_shows_its_period_and_its_value() {
        for (words, id, time, value) in [
            ("s serial ORD{yyyyMMdd}-{n:6} zone UTC", "ORD20261125-000001", Some("2026-11-25T00:00:00.000Z"), 1),
            ("s serial {yyyyMMddHH}{n:2} zone Asia/Shanghai", "202611270400", Some("2026-11-26T20:00:00.000Z"), 0),
            ("s serial T{yy}{n:7}{luhn} zone UTC reset year", "T2600000018", Some("2026-01-01T00:00:00.000Z"), 1),
            ("s serial {yyMM}{n:2} zone UTC", "771201", Some("1977-12-01T00:00:00.000Z"), 1),
            ("s serial {yyMM}{n:2} zone UTC", "751201", Some("2075-12-01T00:00:00.000Z"), 1),
            ("s serial {week-year}W{week}-{n:2} zone UTC", "2026W48-07", Some("2026-11-23T00:00:00.000Z"), 7),
            ("s serial {yy}W{week}-{n:2} zone UTC reset year", "26W48-07", Some("2026-01-01T00:00:00.000Z"), 7),
            ("s serial {yy}Q{quarter}-{n:2} zone UTC", "26Q4-07", Some("2026-10-01T00:00:00.000Z"), 7),
            (
                "s serial FY{fiscal-year}-{n:2} fiscal-start 04-06 zone UTC",
                "FY2026-07",
                Some("2026-04-06T00:00:00.000Z"),
                7,
            ),
            ("s serial {week}-{n:2} zone UTC", "53-07", None, 7),
            // The last hours of the calendar have no time, because they do not exist in every zone.
            ("s serial ORD{yyyyMMdd}-{n:6} zone UTC", "ORD99991230-000001", Some("9999-12-30T00:00:00.000Z"), 1),
            ("s serial ORD{yyyyMMdd}-{n:6} zone UTC", "ORD99991231-000001", None, 1),
            ("s serial {MM}{n:2} zone UTC reset never", "1207", None, 7),
            ("s serial {n:2}", "42", None, 42),
            ("s sequence format base62 pad 4", "001A", None, 72),
            ("s sequence", "42", None, 42),
            ("s serial INV-{key}-{n:3}", "INV-ACME-1-042", None, 42),
        ] {
            let id = counted(words, id);
            assert_eq!(field_of(&id, "time"), Some(time.map_or(Value::Null, Value::from)), "{words}");
            assert_eq!(field_of(&id, "value"), Some(Value::Integer(value)), "{words}");
            assert_eq!(field_of(&id, "ahead_ms").is_some(), time.is_some(), "{words}");
            let key = words.contains("{key}").then(|| Value::from("ACME-1"));
            assert_eq!(field_of(&id, "key"), key, "{words}");
        }
    }

    #[test]
    fn a_serial_number_that_is_wrong_in_its_check_digits_only_is_refused_by_their_name() {
        let words = ["s", "serial", "T{n:7}{luhn}"];
        let counter = CounterDeclaration::parse(&words, |_| Ok(())).expect("a counter").expect("valid");
        let refused = |id: &[u8]| parse_counter_id(&counter, id).expect_err("no ID").text;
        let head = |id: &str| format!("ERR '{id}' is not an id of generator 's': ");
        for id in ["T00000019", "T00000028", "T0000001x"] {
            let rest = "its check digits ({luhn}) do not match the rest, so a character is wrong. Compare it with where it was \
                        read";
            assert_eq!(refused(id.as_bytes()), (head(id) + rest).as_bytes());
        }
        for (id, shown) in [(&b"U00000018"[..], "U00000018"), (b"T000\xff0018", "T000\\xff0018"), (b"", "")] {
            let rest = "expected a text of the template T{n:7}{luhn}";
            assert_eq!(refused(id), (head(shown) + rest).as_bytes());
        }
    }

    #[test]
    fn the_most_plausible_readings_come_first_and_there_is_a_bound() {
        let day =
            |at: usize, day: u32| counted(&format!("g{at} serial {{yyyyMMdd}}{{n:1}} zone UTC"), &format!("{day}1"));
        let mut ids =
            vec![counted("timeless sequence", "5"), day(1, 20_200_101), day(2, 20_261_126), day(3, 20_300_101)];
        let names = |ids: &[NamedId]| {
            let readings = IdReadings { id: None, named: Some(ids.to_vec()), kinds: Vec::new() };
            let Value::Map(fields) = describe_any_id(Layout::default(), &readings, NOW) else { panic!("a map") };
            let [(_, Value::Map(readings)), (_, Value::Map(kinds))] = &fields[..] else { panic!("{fields:?}") };
            assert_eq!(kinds.len(), 0);
            readings.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&ids), ["g2", "g1", "g3", "timeless"].map(Value::from));
        ids.splice(0..0, (10..10 + READINGS_MAX).map(|at| counted(&format!("g{at} sequence"), "5")));
        let kept = names(&ids);
        assert_eq!((kept.len(), &kept[0]), (READINGS_MAX, &Value::from("g2")));
    }

    /// Returns the words of the kinds by which the reply reads an ID.
    fn kinds_of(id: &str, named: Option<Vec<NamedId>>) -> Vec<Value> {
        let number = id.parse().ok().and_then(Id::new);
        let readings = IdReadings { id: number, named, kinds: KIND_READERS.read(id) };
        let Value::Map(fields) = describe_any_id(Layout::default(), &readings, NOW) else { panic!("a map") };
        let Some((_, Value::Map(kinds))) = fields.last() else { panic!("{fields:?}") };
        assert!(kinds.len() <= getid_core::KIND_READINGS_MAX, "{kinds:?}");
        kinds.iter().map(|(word, _)| word.clone()).collect()
    }

    #[test]
    fn kinds_that_a_generator_declares_are_left_out() {
        let id = "2126055478450454528";
        let all = kinds_of(id, None);
        assert_eq!(all[..2], ["twitter", "leaf"].map(Value::from), "{all:?}");
        let named = |words: &str| {
            let words: Vec<_> = words.split(' ').collect();
            let declaration = Declaration::parse(&words, getid_core::no_dates).expect("valid");
            let number = declaration.read(id).expect("its ID");
            let generator = NamedGenerator::new(declaration, 0, None).expect("valid");
            Some(vec![NamedId::Number(Arc::new(generator), number)])
        };
        assert_eq!(kinds_of(id, named("tweets twitter")), all[1..]);
        assert_eq!(kinds_of(id, named("tweets twitter datacenter 3 worker 1")), all[1..]);
        assert_eq!(kinds_of(id, named("tweets twitter epoch 0")), all, "other times");
        // The unnamed generator has the layout of `fork`.
        assert!(!kinds_of("787043147958976551", None).contains(&Value::from("fork")));
    }

    #[test]
    fn an_address_is_shown_with_dots() {
        let words = ["h", "hibernate", "address", "10.1.2.3"];
        let declaration = Declaration::parse(&words, getid_core::no_dates).expect("valid");
        let id = declaration.read("0a010203-99c8-1d7d-8199-c82cc07b7fff").expect("its ID");
        let Value::Map(fields) = describe_number(&declaration, id, NOW) else { panic!("a map") };
        assert!(fields.contains(&(Value::from("address"), Value::from("10.1.2.3"))), "{fields:?}");
    }
}
