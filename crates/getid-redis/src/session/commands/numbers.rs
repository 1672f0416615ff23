//! `NUMBER`: numbers without gaps, and their ledger.

use std::sync::Arc;

use getid_core::server::ledger::{
    DUE_S_DEFAULT, DUE_S_MAX, LedgerQuery, NumberAct, NumberRefusal, NumberState, REASON_BYTES_MAX,
};
use getid_core::server::{CivilDay, CivilTime, CounterDeclaration, CounterKind, Reset, is_unprintable};

use super::sequences::needs_request;
use super::series::{has_no_series, needs_key, series_key};
use super::unknown::unknown_generator;
use super::{Call, CommandReply, CommandResult, NOT_AN_INTEGER, SEQUENCES_OFF, SYNTAX};
use crate::command::{RequestKey, Verb, is_series_word, parse_request, quoted};
use crate::resp::{ErrorKind, ErrorReply, parse_integer};
use crate::session::effect::Effect;
use crate::session::number_effect::{LedgerPageRequest, NumberAction, NumberEffect};

/// Default number of rows in one `LEDGER`.
const LEDGER_COUNT: u32 = 100;
/// Maximum number of rows in one `LEDGER`.
const LEDGER_COUNT_MAX: u32 = 1_000;

/// Longest text that a number can have, bytes.
const TEXT_BYTES_MAX: usize = 128;

/// Day whose period an error message shows.
const EXAMPLE_DAY: &str = "2026-01-05";

/// Maximum length of a cursor, bytes.
const CURSOR_BYTES_MAX: usize = 600;

/// Implements `NUMBER RESERVE name REQUEST r [KEY k] [DUE seconds]`.
pub(super) fn reserve(call: &mut Call<'_>) -> CommandResult {
    let counter = gapless(call)?;
    if !call.args.iter().skip(3).step_by(2).any(|word| word.eq_ignore_ascii_case(b"request")) {
        let name = counter.name();
        let key = if counter.series().is_some() { " KEY ACME" } else { "" };
        return Err(format!(
            "ERR each number is reserved for a request, which repeats safely: NUMBER RESERVE {name} REQUEST r{key}"
        )
        .into());
    }
    let (mut request, mut key, mut due_s) = (None, None, None);
    let mut words = call.args.iter().skip(3);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(SYNTAX)?;
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("request") && request.is_none() {
            request = Some(parse_request(value)?);
        } else if is("key") && key.is_none() {
            key = Some(value);
        } else if is("due") && due_s.is_none() {
            due_s = Some(due(value)?);
        } else {
            return Err(SYNTAX);
        }
    }
    let request = request.ok_or(SYNTAX)?;
    let series = series_of(&counter, key)?;
    let act = NumberAct::Reserve { due_s: due_s.unwrap_or(DUE_S_DEFAULT), commits: false };
    Ok(effect(call, counter, series, request, act))
}

/// Implements `NUMBER COMMIT name r [KEY k]`.
pub(super) fn commit(call: &mut Call<'_>) -> CommandResult {
    of_request(call, NumberAct::Commit, 4)
}

/// Implements `NUMBER RELEASE name r [KEY k]`.
pub(super) fn release(call: &mut Call<'_>) -> CommandResult {
    of_request(call, NumberAct::Release, 4)
}

/// Implements `NUMBER VOID name r REASON s [KEY k]`.
pub(super) fn void(call: &mut Call<'_>) -> CommandResult {
    let reason = reason(call, 4)?;
    of_request(call, NumberAct::Void { reason }, 6)
}

/// Acts on the number of a request. `[KEY k]` is at `key_at`: without it the series is empty, and the request may have
/// a number of any series.
fn of_request(call: &mut Call<'_>, act: NumberAct, key_at: usize) -> CommandResult {
    let counter = gapless(call)?;
    let request = parse_request(call.arg(3))?;
    let series = match call.args.len() - key_at {
        0 => String::new(),
        2 if is_series_word(call.arg(key_at)) => series_of(&counter, Some(call.arg(key_at + 1)))?,
        _ => return Err(SYNTAX),
    };
    Ok(effect(call, counter, series, request, act))
}

/// Implements `NUMBER SETTLE name text COMMIT|VOID REASON s`.
pub(super) fn settle(call: &mut Call<'_>) -> CommandResult {
    let counter = gapless(call)?;
    if !settles_all(call, &counter) {
        let name = counter.name();
        let text = format!(
            "NOPERM NUMBER SETTLE settles numbers of all keys of generator '{name}', and this user has no pattern for \
             all of them, such as ~{name}/*"
        );
        return Err(ErrorReply::new(ErrorKind::NoPermission, text));
    }
    let text = plain_text(call.arg(3), TEXT_BYTES_MAX)
        .ok_or_else(|| ErrorReply::of_number(&NumberRefusal::UnknownText, counter.name(), &quoted(call.arg(3))))?;
    let word = call.arg(4);
    let commits = match word {
        _ if word.eq_ignore_ascii_case(b"commit") => true,
        _ if word.eq_ignore_ascii_case(b"void") => false,
        _ => {
            return Err(format!(
                "ERR '{}' is no way to settle a number: COMMIT or VOID is. NUMBER RELEASE of its request releases it",
                quoted(word)
            )
            .into());
        }
    };
    let act = NumberAct::Settle { text, commits, reason: reason(call, 5)? };
    Ok(effect(call, counter, String::new(), String::new(), act))
}

/// Implements `NUMBER LEDGER name [KEY k] [PERIOD p] [STATE s] [CURSOR c] [COUNT n]`.
pub(super) fn ledger(call: &mut Call<'_>) -> CommandResult {
    let counter = gapless(call)?;
    let mut query = LedgerQuery { name: counter.name().to_owned(), limit: LEDGER_COUNT, ..LedgerQuery::default() };
    let mut words = call.args.iter().skip(3);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(SYNTAX)?;
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("key") && query.series.is_none() {
            query.series = Some(series_of(&counter, Some(value))?);
        } else if is("period") && query.period.is_none() {
            query.period = Some(period(&counter, value)?);
        } else if is("state") && query.state.is_none() {
            query.state = Some(state(value)?);
        } else if is("cursor") {
            let cursor = str::from_utf8(value).ok().filter(|text| is_cursor(text));
            cursor.ok_or("ERR invalid cursor")?.clone_into(&mut query.after);
        } else if is("count") {
            query.limit = count(value)?;
        } else {
            return Err(SYNTAX);
        }
    }
    let shows_all = settles_all(call, &counter);
    if counter.series().is_none() {
        // The counters of a generator without keys are in order of their periods.
        query.series = Some(String::new());
    }
    if counter.series().is_some() && query.series.is_none() && !shows_all {
        let name = counter.name();
        return Err(needs_key(name, &format!("NUMBER LEDGER {name} KEY ACME")));
    }
    Ok(CommandReply::Effect(Effect::Number(NumberEffect::Ledger(LedgerPageRequest { query, shows_all }))))
}

/// Handles `GETID name REQUEST r` of a gapless generator: the number is reserved and committed at once. The request has
/// it for ever, so any time for which the request is kept is kept.
pub(super) fn draw(
    call: &mut Call<'_>,
    counter: &Arc<CounterDeclaration>,
    series: &str,
    key: &RequestKey,
) -> CommandResult {
    let error = match call.command.verb {
        Verb::MGetId => Some(needs_request(counter, Verb::MGetId)),
        _ if call.client.settings.sequences.is_none() => Some(SEQUENCES_OFF),
        _ => None,
    };
    if let Some(error) = error {
        call.turn.tally.ids(call.command.verb, 1, 1);
        return Err(error);
    }
    let timing = &call.client.settings.timing;
    let start = call.turn.tally.begin(timing);
    call.turn.tally.end(start, timing, call.command, call.args, true);
    let act = NumberAct::Reserve { due_s: DUE_S_DEFAULT, commits: true };
    Ok(effect(call, Arc::clone(counter), series.to_owned(), key.request.clone(), act))
}

/// Returns the gapless generator that the argument after the subcommand names.
fn gapless(call: &mut Call<'_>) -> Result<Arc<CounterDeclaration>, ErrorReply> {
    let name = call.arg(2);
    let settings = &call.client.settings;
    let counter = settings.counters.find(name).and_then(|place| settings.counters.get(place)).map(Arc::clone);
    let Some(counter) = counter else {
        if settings.generators.find(name).is_none() {
            return Err(unknown_generator(call, name));
        }
        return Err(not_gapless(&quoted(name)));
    };
    if counter.gapless().is_none() {
        return Err(not_gapless(counter.name()));
    }
    if settings.sequences.is_none() {
        return Err(SEQUENCES_OFF);
    }
    Ok(counter)
}

#[cold]
fn not_gapless(name: &str) -> ErrorReply {
    let text = format!(
        "ERR generator '{name}' is not gapless, so its numbers have no ledger: GETID {name} gives one. A generator of \
         the kind serial has a ledger with 'gapless' in its declaration"
    );
    ErrorReply::new(ErrorKind::Conflict, text)
}

/// Returns the series of a key; that of a generator without keys is empty.
fn series_of(counter: &CounterDeclaration, key: Option<&[u8]>) -> Result<String, ErrorReply> {
    let name = counter.name();
    match (counter.series(), key) {
        (None, None) => Ok(String::new()),
        (None, Some(_)) => Err(has_no_series(name)),
        (Some(_), None) => Err(needs_key(name, &format!("NUMBER RESERVE {name} REQUEST r KEY ACME"))),
        (Some(rules), Some(text)) => series_key(counter, *rules, text).map(|key| key.series().to_owned()),
    }
}

/// Returns the reason behind the word `REASON` at `at`.
fn reason(call: &Call<'_>, at: usize) -> Result<String, ErrorReply> {
    if !call.arg(at).eq_ignore_ascii_case(b"reason") {
        return Err(SYNTAX);
    }
    let text = call.arg(at + 1);
    plain_text(text, REASON_BYTES_MAX).ok_or_else(|| {
        let (shown, bytes) = (quoted(text), text.len());
        format!(
            "ERR '{shown}' with {bytes} bytes cannot be the REASON: it has 1 to {REASON_BYTES_MAX} bytes of UTF-8 without \
             control characters"
        )
        .into()
    })
}

/// Returns a text of at most `bytes_max` bytes, if each character is displayed as it is.
fn plain_text(text: &[u8], bytes_max: usize) -> Option<String> {
    let is_plain = |text: &&str| (1..=bytes_max).contains(&text.len()) && !text.contains(is_unprintable);
    str::from_utf8(text).ok().filter(is_plain).map(str::to_owned)
}

fn due(text: &[u8]) -> Result<u32, ErrorReply> {
    let seconds = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
    let allowed = u32::try_from(seconds).ok().filter(|seconds| (1..=DUE_S_MAX).contains(seconds));
    allowed.ok_or_else(|| format!("ERR DUE is {seconds}, must be 1 to {DUE_S_MAX} seconds").into())
}

fn count(text: &[u8]) -> Result<u32, ErrorReply> {
    let count = parse_integer(text).ok_or(NOT_AN_INTEGER)?;
    let allowed = u32::try_from(count).ok().filter(|count| (1..=LEDGER_COUNT_MAX).contains(count));
    allowed.ok_or_else(|| format!("ERR COUNT is {count}, must be 1 to {LEDGER_COUNT_MAX} rows").into())
}

fn state(text: &[u8]) -> Result<NumberState, ErrorReply> {
    let is_word = |state: &NumberState| text.eq_ignore_ascii_case(state.word().as_bytes());
    NumberState::ALL.into_iter().find(is_word).ok_or_else(|| {
        let words = NumberState::ALL.map(NumberState::word).join(", ");
        format!("ERR '{}' is not a state of a number: expected one of {words}", quoted(text)).into()
    })
}

/// Returns a period of the counter. Another text would find no row, and hide a mistake.
fn period(counter: &CounterDeclaration, text: &[u8]) -> Result<String, ErrorReply> {
    let reset = match counter.kind() {
        CounterKind::Serial(serial) => serial.reset,
        CounterKind::Sequence(_) => Reset::Never,
    };
    if let Some(text) = str::from_utf8(text).ok().filter(|text| reset.first_of(text).is_some()) {
        return Ok(text.to_owned());
    }
    let (name, shown) = (counter.name(), quoted(text));
    let example = CivilDay::parse(EXAMPLE_DAY).and_then(|day| reset.period(CivilTime::at(day, 0)));
    Err(match example {
        Some(example) => format!(
            "ERR '{shown}' cannot be the PERIOD: generator '{name}' has periods such as {example}, which the field \
             period of its ledger shows"
        ),
        None => format!("ERR '{shown}' cannot be the PERIOD: the counter of generator '{name}' has none"),
    }
    .into())
}

/// Returns true if the text has the parts of a page's cursor: series, period and number.
fn is_cursor(text: &str) -> bool {
    let mut parts = text.splitn(3, '/').skip(2);
    text.is_empty() || (text.len() <= CURSOR_BYTES_MAX && parts.any(|number| number.parse::<i64>().is_ok()))
}

/// Returns true if the user may settle all numbers of a generator, and so see and change the requests of others. A
/// generator with keys needs a pattern that covers each key.
fn settles_all(call: &Call<'_>, counter: &CounterDeclaration) -> bool {
    let name = counter.name();
    match counter.series() {
        Some(_) => call.client.may_access_series(Verb::NumberSettle, name),
        None => call.client.may_access(Verb::NumberSettle, name.as_bytes()),
    }
}

/// Returns the effect of an act.
fn effect(
    call: &Call<'_>,
    counter: Arc<CounterDeclaration>,
    series: String,
    request: String,
    act: NumberAct,
) -> CommandReply {
    let is_admin = settles_all(call, &counter);
    let action = NumberAction { counter, series, request, act, is_admin };
    CommandReply::Effect(Effect::Number(NumberEffect::Act(action)))
}
