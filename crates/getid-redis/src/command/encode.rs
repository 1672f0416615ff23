//! `ENCODEID`: the ID of a time and values of fields.
//!
//! Such an ID is not given by a generator, and may equal one that is. So without `FORCE` the reply is an ID only if it
//! cannot have been given, and will not be: its time is before the first ID of the generator on this server, and its
//! server-id is this server's. An ID by `FORCE` serves comparisons, as bounds of a query or in a test.
//!
//! The session checks the fields; the server, which has the clock and the record, provides the times.

use std::sync::Arc;

use getid_core::server::NS_PER_MS;
use getid_core::{EncodeError, FieldLayout, Fill, NamedGenerator, Number, Role, Scheme, UtcMs};

use super::ids::quoted;
use super::named_ids::{OWN_NAMES, RENAMED_SUFFIX, no_text, number_value};
use crate::resp::{ErrorKind, ErrorReply, Value};
use getid_text::timestamp::TimeSpec;

/// Words of `ENCODEID` that are no fields, unless the generator has fields of these names.
const HIGHEST: &str = "HIGHEST";
const FORCE: &str = "FORCE";

/// End of a refusal: the word with which an ID is composed that may be given, too.
const REMEDY: &str = "add FORCE for an id that is for comparison only";

/// The request of an `ENCODEID` whose fields are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdEncoding {
    generator: EncodedGenerator,
    time: TimeSpec,
    values: Vec<(String, u128)>,
    fill: Fill,
    is_forced: bool,
}

/// Generator of an ID that is composed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodedGenerator {
    /// The unnamed generator.
    Unnamed {
        /// Its layout, with the names of `DECODEID`.
        layout: FieldLayout,
        /// Server-id of this server.
        server_id: u32,
    },
    /// A named generator.
    Named(Arc<NamedGenerator>),
}

impl EncodedGenerator {
    /// Returns the unnamed generator of a server.
    pub fn unnamed(scheme: &Scheme) -> EncodedGenerator {
        let layout = FieldLayout::of_unnamed(scheme.layout());
        EncodedGenerator::Unnamed { layout, server_id: scheme.server_id() }
    }

    fn layout(&self) -> &FieldLayout {
        match self {
            EncodedGenerator::Unnamed { layout, .. } => layout,
            EncodedGenerator::Named(generator) => generator.declaration().layout(),
        }
    }

    fn name(&self) -> Option<&str> {
        match self {
            EncodedGenerator::Unnamed { .. } => None,
            EncodedGenerator::Named(generator) => Some(generator.declaration().name()),
        }
    }

    /// Returns the generator as the subject of a sentence.
    fn subject(&self) -> String {
        self.name().map_or_else(|| "the unnamed generator".to_owned(), |name| format!("generator '{name}'"))
    }

    /// Returns the values of the fields by which this server's IDs differ from those of others.
    fn own_values(&self) -> Vec<(String, u128)> {
        match self {
            EncodedGenerator::Unnamed { layout, server_id } => {
                let servers = layout.fields().iter().filter(|field| field.role == Role::Server);
                servers.map(|field| (field.name.clone(), u128::from(*server_id))).collect()
            }
            EncodedGenerator::Named(generator) => {
                generator.own_values().map(|(name, value)| (name.to_owned(), value)).collect()
            }
        }
    }

    fn error(&self, error: &EncodeError) -> ErrorReply {
        format!("ERR {}: {error}", self.subject()).into()
    }

    /// Returns an ID as `GETID` replies it.
    fn value(&self, number: Number) -> Result<Value, ErrorReply> {
        let EncodedGenerator::Named(generator) = self else { return Ok(number_value(number.as_u128())) };
        if generator.is_integer() {
            return Ok(number_value(number.as_u128()));
        }
        let mut text = Vec::new();
        let fits = generator.declaration().write(number, &mut text);
        if fits { Ok(Value::bulk(text)) } else { Err(no_text(generator, number)) }
    }
}

impl IdEncoding {
    /// Parses the words behind the time: fields with their values, `HIGHEST` and `FORCE`.
    ///
    /// # Errors
    ///
    /// Returns the error reply if the generator's IDs hold no time, or do not have such a field or value. Without
    /// `FORCE` also if the ID would be one of another server.
    pub fn parse<'a>(
        generator: EncodedGenerator,
        time: TimeSpec,
        words: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<IdEncoding, ErrorReply> {
        let layout = generator.layout();
        let wrong = |error: &EncodeError| generator.error(error);
        layout.check_values(&[]).map_err(|error| wrong(&error))?;
        let (mut values, mut fill, mut is_forced) = (Vec::<(String, u128)>::new(), Fill::Lowest, false);
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let is_field = |name: &str| layout.field(name).is_some();
            if word.eq_ignore_ascii_case(HIGHEST.as_bytes()) && !str::from_utf8(word).is_ok_and(is_field) {
                fill = Fill::Highest;
                continue;
            }
            if word.eq_ignore_ascii_case(FORCE.as_bytes()) && !str::from_utf8(word).is_ok_and(is_field) {
                is_forced = true;
                continue;
            }
            let name = str::from_utf8(word).map_or_else(|_| quoted(word), |name| field_name(layout, name).to_owned());
            if values.iter().any(|(before, _)| *before == name) {
                return Err(wrong(&EncodeError::Twice { name }));
            }
            let value = layout.parse_value(&name, "0").and_then(|_| {
                let missing = || EncodeError::NoValue { name: name.clone(), max: max_of(layout, &name) };
                let value = words.next().ok_or_else(missing)?;
                layout.parse_value(&name, &String::from_utf8_lossy(value))
            });
            values.push((name, value.map_err(|error| wrong(&error))?));
        }
        let encoding = IdEncoding { generator, time, values, fill, is_forced };
        let encoding = if is_forced { encoding } else { encoding.of_this_server()? };
        encoding
            .generator
            .layout()
            .check_values(&borrowed(&encoding.values))
            .map_err(|error| encoding.generator.error(&error))?;
        Ok(encoding)
    }

    /// Adds this server's values of the fields that distinguish servers.
    fn of_this_server(mut self) -> Result<IdEncoding, ErrorReply> {
        let subject = self.generator.subject();
        if let EncodedGenerator::Named(generator) = &self.generator
            && let Some(server_id) = generator.foreign_to()
        {
            let text = format!(
                "ERR {subject} belongs to server-id {server_id}, whose ids this server does not know: {REMEDY}"
            );
            return Err(ErrorReply::new(ErrorKind::Conflict, text));
        }
        if let EncodedGenerator::Named(generator) = &self.generator
            && let Some(name) = generator.declaration().by_hand().first()
        {
            let text = format!(
                "ERR field '{name}' of {subject} is set by hand, and this server does not know which servers had this \
                 value before: {REMEDY}"
            );
            return Err(ErrorReply::new(ErrorKind::Conflict, text));
        }
        for (name, own) in self.generator.own_values() {
            match self.values.iter().find(|(given, _)| *given == name) {
                None => self.values.push((name, own)),
                Some((_, value)) if *value == own => {}
                Some((_, value)) => {
                    let text = format!(
                        "ERR field '{name}' of {subject} is {own} on this server, which does not know the ids of \
                         {name} {value}: leave the field out, or {REMEDY}"
                    );
                    return Err(ErrorReply::new(ErrorKind::Conflict, text));
                }
            }
        }
        Ok(self)
    }

    /// Returns true if the ID must not be one that this server gives: then [`IdEncoding::reply`] needs to know since
    /// when its generator gives IDs.
    pub fn is_unique(&self) -> bool {
        !self.is_forced
    }

    /// Returns the name of its generator; `None`: the unnamed one.
    pub fn name(&self) -> Option<&str> {
        self.generator.name()
    }

    /// Returns the reply, where `now` is `now_unix_ms`. `since_unix_ms` is a time before which this server has given no
    /// ID of the generator, and gives none, if it is known.
    pub fn reply(&self, now_unix_ms: i64, since_unix_ms: Option<i64>) -> Value {
        self.encoded(now_unix_ms, since_unix_ms).unwrap_or_else(Value::error)
    }

    fn encoded(&self, now_unix_ms: i64, since_unix_ms: Option<i64>) -> Result<Value, ErrorReply> {
        let layout = self.generator.layout();
        let number = layout.encode(self.time.unix_ms(now_unix_ms), &borrowed(&self.values), self.fill);
        let number = number.map_err(|error| self.generator.error(&error))?;
        if !self.is_forced {
            self.check_never_given(layout, number, since_unix_ms)?;
        }
        self.generator.value(number)
    }

    /// Checks that this server has given no ID of the unit of `number`, and gives none.
    fn check_never_given(&self, layout: &FieldLayout, number: Number, since: Option<i64>) -> Result<(), ErrorReply> {
        let subject = self.generator.subject();
        let refused = |text| Err(ErrorReply::new(ErrorKind::Conflict, text));
        let Some(since) = since else {
            return refused(format!(
                "ERR {subject} may have given ids of any time: the server's record does not show since when it gives \
                 them; {REMEDY}"
            ));
        };
        // The unit in which the first ID may lie. Before its epoch the generator begins with the first unit.
        let first = if since <= layout.epoch_unix_ms() {
            0
        } else {
            layout.tick_at(i128::from(since) * i128::from(NS_PER_MS)).unwrap_or(u64::MAX)
        };
        if layout.tick_of(number).is_some_and(|tick| tick < first) {
            return Ok(());
        }
        if first == 0 {
            return refused(format!(
                "ERR {subject} may have given ids of any time from {} on, the first that an id can carry: {REMEDY}",
                UtcMs(layout.epoch_unix_ms())
            ));
        }
        refused(format!(
            "ERR {subject} itself gives ids from {} on: take an earlier time, or {REMEDY}",
            UtcMs(if first == u64::MAX { since } else { layout.unix_ms(first) })
        ))
    }
}

/// Returns the name of the field that `DECODEID` shows as `name`.
fn field_name<'a>(layout: &FieldLayout, name: &'a str) -> &'a str {
    let is_field = |name: &&str| layout.field(name).is_some();
    let own = || name.strip_suffix(RENAMED_SUFFIX).filter(|own| OWN_NAMES.contains(own)).filter(is_field);
    if is_field(&name) { name } else { own().unwrap_or(name) }
}

fn borrowed(values: &[(String, u128)]) -> Vec<(&str, u128)> {
    values.iter().map(|(name, value)| (name.as_str(), *value)).collect()
}

fn max_of(layout: &FieldLayout, name: &str) -> u128 {
    layout.field(name).map_or(0, |field| u128::MAX >> (u128::BITS - field.bits))
}

#[cfg(test)]
mod tests {
    use getid_core::{Declaration, KINDS, no_dates};
    use proptest::prelude::*;

    use super::*;
    use crate::command::{NamedId, describe_named_id, parse_time};

    /// Returns the generator of a declaration on server 0.
    fn generator(words: &str) -> Arc<NamedGenerator> {
        let words: Vec<_> = ["g"].into_iter().chain(words.split(' ')).collect();
        let mut declaration = Declaration::parse(&words, no_dates).expect("a declaration");
        declaration.draw_missing(|_, _| 5);
        let random_bits = declaration.layout().bits_of(Role::Random);
        let cycle = (random_bits > 0).then(|| getid_core::RandomCycle::new((0..1 << random_bits).collect()));
        Arc::new(NamedGenerator::new(declaration, 0, cycle.flatten()).expect("server 0 fits"))
    }

    /// Returns the reply to `ENCODEID` at a time long after `since`.
    fn reply(generator: &Arc<NamedGenerator>, time: &str, words: &[&[u8]], since: Option<i64>) -> Value {
        let time = parse_time(time.as_bytes()).expect("a time");
        let encoded = EncodedGenerator::Named(Arc::clone(generator));
        match IdEncoding::parse(encoded, time, words.iter().copied()) {
            Ok(encoding) => encoding.reply(1_795_723_200_000, since),
            Err(error) => Value::error(error),
        }
    }

    fn text(value: &Value) -> String {
        let mut text = Vec::new();
        crate::resp::encode(value, crate::resp::Protocol::Resp3, &mut text);
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn what_is_not_known_to_be_unique_needs_force() {
        let by_hand = generator("twitter worker 3");
        let refused = text(&reply(&by_hand, "2016-01-01", &[], Some(1_700_000_000_000)));
        assert!(refused.starts_with("-ERR field 'worker' of generator 'g' is set by hand"), "{refused}");
        assert!(text(&reply(&by_hand, "2016-01-01", &[b"FORCE"], None)).starts_with(':'));
        let begun_at_its_epoch = text(&reply(&generator("twitter"), "2016-01-01", &[], Some(0)));
        let expected = "may have given ids of any time from 2010-11-04T01:42:54.657Z on";
        let no_earlier = !begun_at_its_epoch.contains("take an earlier time");
        assert!(begun_at_its_epoch.contains(expected) && no_earlier, "{begun_at_its_epoch}");
    }

    proptest! {
        /// The fields that `DECODEID` shows compose the same ID, if its time has whole milliseconds.
        #[test]
        fn shown_fields_compose_the_id(which: proptest::sample::Index, bits: [u128; 2]) {
            let own = "layout time:41@1ms note:5 tick:3? unix_ms:4 server-id:2 counter:5 note 7 unix_ms 2 epoch 0";
            let kinds = KINDS.iter().filter(|kind| {
                kind.unit.ns() >= 1_000_000 && kind.fields.iter().any(|(.., role)| *role == Role::Time)
            });
            let all: Vec<_> = kinds.map(|kind| kind.word).chain([own]).collect();
            let generator = generator(which.get::<&str>(&all));
            let declaration = generator.declaration();
            let layout = declaration.layout();
            let time = layout.shift_of(Role::Time).expect("a time");
            // Times of the next decades, which RFC 3339 can write. Constants have their own value.
            let last = layout.tick_at(2_000_000_000_000 * i128::from(NS_PER_MS)).unwrap_or_else(|| layout.last_tick());
            let mut number = Number::from(bits[0] % (u128::from(last) + 1)) << time;
            for (field, shift) in layout.places().filter(|(field, _)| field.role != Role::Time) {
                let value = if let Role::Constant(value) = field.role { value.into() } else { bits[1] };
                number |= (Number::from(value) << shift) & FieldLayout::mask(field, shift);
            }
            let shown = describe_named_id(&NamedId::Number(Arc::clone(&generator), number), 0);
            let Value::Map(shown) = shown else { panic!("a map") };
            let (mut words, mut unix_ms) = (Vec::new(), String::new());
            for (name, value) in shown {
                let plain = |value: &Value| text(value).trim_start_matches([':', '+', '(']).trim().to_owned();
                let (name, value) = (plain(&name), plain(&value));
                let last_line = |text: &str| text.lines().last().unwrap_or_default().to_owned();
                match last_line(&name).as_str() {
                    "unix_ms" => unix_ms = last_line(&value),
                    "generator" | "kind" | "description" | "time" | "tick" | "ahead_ms" => {}
                    name => words.extend([name.to_owned().into_bytes(), last_line(&value).into_bytes()]),
                }
            }
            words.push(b"FORCE".to_vec());
            let words: Vec<_> = words.iter().map(Vec::as_slice).collect();
            let expected = EncodedGenerator::Named(Arc::clone(&generator)).value(number);
            prop_assert_eq!(Ok(reply(&generator, &unix_ms, &words, None)), expected, "{:?}", words);
        }
    }
}
