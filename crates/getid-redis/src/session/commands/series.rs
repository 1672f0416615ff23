//! `SERIES`, and the keys of series in requests for IDs.

use std::sync::Arc;

use getid_core::server::{CounterDeclaration, Key, SERIES_RULE, SeriesRules};

use super::unknown::no_generator;
use super::{Call, CommandReply, CommandResult, LIST_COUNT, LIST_COUNT_MAX, NOT_AN_INTEGER, SYNTAX};
use crate::command::{is_series_word, quoted, series_of};
use crate::resp::{Args, ErrorKind, ErrorReply, parse_integer};
use crate::session::effect::Effect;
use crate::session::sequence_effect::{SequenceEffect, SeriesCursor, SeriesReader};

/// Implements `SERIES CREATE name key`.
pub(super) fn create(call: &mut Call<'_>) -> CommandResult {
    let (counter, rules) = generator_at(call, 2)?;
    let key = series_key(counter, *rules, call.arg(3))?;
    call.check_store()?;
    Ok(effect(SequenceEffect::CreateSeries(key)))
}

/// Implements `SERIES LIST name [CURSOR cursor] [COUNT n]`.
pub(super) fn list(call: &mut Call<'_>) -> CommandResult {
    let name = generator_at(call, 2)?.0.name().to_owned();
    let (mut after, mut count) = (SeriesCursor::default(), LIST_COUNT);
    let mut words = call.args.iter().skip(3);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(SYNTAX)?;
        if word.eq_ignore_ascii_case(b"cursor") {
            after = str::from_utf8(value).ok().and_then(SeriesCursor::parse).ok_or("ERR invalid cursor")?;
        } else if word.eq_ignore_ascii_case(b"count") {
            count = match parse_integer(value) {
                None => return Err(NOT_AN_INTEGER),
                Some(..=0) => return Err(SYNTAX),
                Some(count) => u32::try_from(count).unwrap_or(u32::MAX).min(LIST_COUNT_MAX),
            };
        } else {
            return Err(SYNTAX);
        }
    }
    call.check_store()?;
    let reader = SeriesReader(Arc::clone(call.client.user()));
    Ok(effect(SequenceEffect::ListSeries { name, after, count, reader }))
}

/// Returns the generator with series that the argument at `at` names.
fn generator_at<'a>(call: &'a Call<'_>, at: usize) -> Result<(&'a CounterDeclaration, &'a SeriesRules), ErrorReply> {
    let name = call.arg(at);
    let settings = &call.client.settings;
    series_of(&settings.counters, name).ok_or_else(|| {
        if settings.counters.find(name).is_some() || settings.generators.find(name).is_some() {
            return has_no_series(&quoted(name));
        }
        no_generator(name, &[])
    })
}

/// Returns the error for a key to a generator without series.
#[cold]
pub(super) fn has_no_series(name: &str) -> ErrorReply {
    let text = format!(
        "ERR generator '{name}' has no series, so it takes no key: a serial has one for each key if its template shows \
         {{key}}, or if it is declared 'unique-per key'"
    );
    ErrorReply::new(ErrorKind::Conflict, text)
}

/// Returns the series of a generator that a request names.
pub(super) fn series_key(counter: &CounterDeclaration, rules: SeriesRules, text: &[u8]) -> Result<Key, ErrorReply> {
    let name = counter.name();
    let series = str::from_utf8(text).ok().and_then(|text| rules.key(text));
    let key = series.and_then(|series| Key::of(name, series.as_str(), ""));
    key.ok_or_else(|| {
        format!("ERR '{}' cannot be a key of generator '{name}': it has {SERIES_RULE}", quoted(text)).into()
    })
}

/// Returns the counter that a request for IDs concerns, from the words after the generator's name: the generator's
/// only one, or that of a key.
pub(super) fn requested_counter(counter: &CounterDeclaration, words: Args<'_>) -> Result<Option<Key>, ErrorReply> {
    let name = counter.name();
    let first = words.get(0);
    let has_key = first.is_some_and(is_series_word);
    let Some(rules) = counter.series() else {
        return match first {
            None => Ok(None),
            Some(_) if has_key => Err(has_no_series(name)),
            Some(_) => Err(format!("ERR generator '{name}' takes no fields with a request").into()),
        };
    };
    match (first, words.len()) {
        (None, _) => {
            let request = if counter.gapless().is_some() { " REQUEST r" } else { "" };
            Err(needs_key(name, &format!("GETID {name} key ACME{request}")))
        }
        (Some(_), 2) if has_key => series_key(counter, *rules, words.get(1).unwrap_or_default()).map(Some),
        (Some(_), 1) if has_key => {
            Err(format!("ERR the key of generator '{name}' is missing: it has {SERIES_RULE}").into())
        }
        (Some(_), _) if has_key && words.get(2).is_some_and(is_series_word) => {
            Err(format!("ERR the key of generator '{name}' is given twice").into())
        }
        (Some(word), _) => {
            let other = if has_key { words.get(2).unwrap_or_default() } else { word };
            let other = quoted(other);
            Err(format!("ERR generator '{name}' takes 'key' and a key, and nothing else: it got '{other}'").into())
        }
    }
}

/// Returns the error for a missing key; `example` is a request with one.
#[cold]
pub(super) fn needs_key(name: &str, example: &str) -> ErrorReply {
    format!("ERR generator '{name}' has a series for each key, so a request names its key: {example}").into()
}

fn effect(effect: SequenceEffect) -> CommandReply {
    CommandReply::Effect(Effect::Sequence(effect))
}
