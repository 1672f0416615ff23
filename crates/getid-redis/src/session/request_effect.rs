//! Effects of commands with a request key: the draw, and the reply that is kept.
//!
//! The server reads the kept reply, or draws from the [`RequestSource`] and keeps the result. IDs become texts here, by
//! the rules of a turn's replies, so that a kept reply is what the command would have answered without a request.

use std::sync::Arc;

use getid_core::server::request_key::{Fingerprint, RequestReply, RequestScope};
use getid_core::server::{CivilTime, CounterDeclaration, CounterKind, Key, Run};
use getid_core::{NamedGenerator, Number, Reservation, Scheme};
use getid_seal::Sealer;

use super::sequences::{too_many_digits, write_counter_text};
use crate::command::{RequestKey, too_wide};
use crate::resp::{ErrorReply, Value};

/// A command with a request key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestEffect {
    /// Scope of the request.
    pub scope: RequestScope,
    /// Arguments of the request.
    pub fingerprint: Fingerprint,
    /// Time for which the request is kept at least, s.
    pub for_s: u32,
    /// Number of IDs or values.
    pub count: u32,
    /// Where they are drawn.
    pub source: RequestSource,
    /// Form of the reply.
    pub form: RequestForm,
}

/// Where the IDs of a request are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestSource {
    /// The unnamed generator.
    Unnamed,
    /// A named generator by the clock.
    Named {
        /// The generator's index in the server's registry.
        index: usize,
        /// The generator.
        generator: Arc<NamedGenerator>,
        /// The request's field values, placed in the ID.
        fields: Number,
    },
    /// A generator over a sequence.
    Counter {
        /// The generator.
        counter: Arc<CounterDeclaration>,
        /// The key of its series; empty if it has none.
        series: String,
    },
    /// A sequence.
    Sequence {
        /// Name of the sequence.
        key: Key,
        /// Value above which all values are.
        above: Option<i64>,
    },
}

/// Form of a reply with a kept request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestForm {
    /// One ID: an integer, or a bulk string.
    One,
    /// An array of bulk strings.
    Array,
    /// The first value, the last one and the increment.
    Range,
}

impl RequestEffect {
    /// Creates the effect. `fields` are the names and values of the request's fields.
    pub(super) fn new(
        scope: RequestScope,
        key: &RequestKey,
        count: u32,
        fields: &[(&str, u64)],
        source: RequestSource,
        form: RequestForm,
    ) -> RequestEffect {
        let series = if let RequestSource::Counter { series, .. } = &source { series } else { "" };
        let fingerprint = Fingerprint::new(count, series, fields);
        RequestEffect { scope, fingerprint, for_s: key.for_s, count, source, form }
    }
}

impl RequestForm {
    /// Returns the reply; `None` if the kept one was made by a command with another form: the request has other
    /// arguments.
    pub fn answer(self, reply: &RequestReply) -> Option<Value> {
        let integer = |id: u64| i64::try_from(id).map_or_else(|_| Value::bulk(id.to_string()), Value::Integer);
        match (self, reply) {
            (RequestForm::One, RequestReply::Integers(ids)) => ids.first().map(|id| integer(*id)),
            (RequestForm::One, RequestReply::Texts(ids)) => ids.first().map(|id| Value::from(id.as_str())),
            (RequestForm::Array, RequestReply::Integers(ids)) => {
                Some(Value::Array(ids.iter().map(|id| Value::bulk(id.to_string())).collect()))
            }
            (RequestForm::Array, RequestReply::Texts(ids)) => {
                Some(Value::Array(ids.iter().map(|id| Value::from(id.as_str())).collect()))
            }
            (RequestForm::Range, RequestReply::Range { first, last, increment }) => {
                let numbers = [*first, *last, i64::from(*increment)];
                Some(Value::Array(numbers.map(Value::Integer).to_vec()))
            }
            _ => None,
        }
    }
}

/// Returns the IDs of the unnamed generator for drawn slots.
pub fn unnamed_reply(scheme: &Scheme, drawn: &[Reservation]) -> RequestReply {
    RequestReply::Integers(drawn.iter().flat_map(|drawn| scheme.ids(*drawn)).map(getid_core::Id::get).collect())
}

/// Returns the IDs of a named generator for drawn slots.
///
/// # Errors
///
/// Returns the error reply if a number has no text in the generator's format.
pub fn named_reply(
    generator: &NamedGenerator,
    sealer: Option<&Sealer>,
    fields: Number,
    drawn: &[Reservation],
    noise: &mut dyn FnMut() -> u128,
) -> Result<RequestReply, ErrorReply> {
    let slots = drawn.iter().flat_map(|drawn| {
        (0..drawn.len).map(|nth| (drawn.first.0 + u64::from(nth), drawn.count.wrapping_add(nth.into())))
    });
    let numbers = slots.map(|(slot, nth)| {
        let noise = if generator.has_noise() { generator.draw_noise(&mut *noise) } else { 0 };
        generator.number(slot, nth, noise, fields)
    });
    // An integer has at most 63 bits.
    let integer = |number: Number| u64::try_from(number).unwrap_or(u64::MAX);
    if let Some(sealer) = sealer {
        return numbers.map(|number| seal(sealer, integer(number))).collect::<Result<_, _>>().map(RequestReply::Texts);
    }
    if generator.is_integer() {
        return Ok(RequestReply::Integers(numbers.map(integer).collect()));
    }
    let text = |number| {
        let mut text = Vec::new();
        let is_written = generator.declaration().write(number, &mut text);
        if is_written { Ok(lossless(text)) } else { Err(too_wide(generator, number)) }
    };
    numbers.map(text).collect::<Result<_, _>>().map(RequestReply::Texts)
}

/// Returns the IDs of a generator over a sequence for a run of its values. `shown` are the date and the key in a text.
///
/// # Errors
///
/// Returns the error reply if a value has no text in the generator's format.
pub fn counter_reply(
    counter: &CounterDeclaration,
    sealer: Option<&Sealer>,
    shown: (CivilTime, &str),
    run: &Run,
) -> Result<RequestReply, ErrorReply> {
    let increment = i64::from(run.increment);
    let values = (0..i64::from(run.values)).map(|nth| run.first.saturating_add(nth.saturating_mul(increment)));
    if let Some(sealer) = sealer {
        let texts = values.map(|value| seal(sealer, value.unsigned_abs()));
        return texts.collect::<Result<_, _>>().map(RequestReply::Texts);
    }
    if matches!(counter.kind(), CounterKind::Sequence(None)) {
        return Ok(RequestReply::Integers(values.map(i64::unsigned_abs).collect()));
    }
    let text = |value| {
        let mut text = Vec::new();
        let is_written = write_counter_text(counter, Some(shown), value, &mut text);
        if is_written { Ok(lossless(text)) } else { Err(too_many_digits(counter, value)) }
    };
    values.map(text).collect::<Result<_, _>>().map(RequestReply::Texts)
}

/// Returns the reply for a run of a sequence's values.
pub fn range_reply(run: &Run) -> RequestReply {
    RequestReply::Range { first: run.first, last: run.last_of(0), increment: run.increment }
}

fn seal(sealer: &Sealer, number: u64) -> Result<String, ErrorReply> {
    sealer.seal(number).map_err(|error| ErrorReply::from(format!("ERR {error}")))
}

/// Returns the text of an ID, which is UTF-8.
fn lossless(text: Vec<u8>) -> String {
    String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
