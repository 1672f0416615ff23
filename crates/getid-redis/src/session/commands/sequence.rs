//! `SEQUENCE`: the operator's commands for sequences.

use getid_core::server::{Key, NameWord, RESERVED_MAX, Spec, VALUE_MAX};

use super::keys::last_value;
use super::{Call, CommandReply, CommandResult, LIST_COUNT, LIST_COUNT_MAX, NOT_AN_INTEGER, SYNTAX};
use crate::command::{RequestKey, quoted};
use crate::resp::{ErrorReply, parse_integer};
use crate::session::effect::Effect;
use crate::session::sequence_effect::SequenceEffect;

/// Maximum length of a cursor, bytes: a name and a period, as databases have them.
const CURSOR_BYTES_MAX: usize = 600;

/// Maximum length of a backup's name, bytes.
const BACKUP_BYTES_MAX: usize = 128;
/// Required end of a backup's name.
const BACKUP_ENDING: &str = ".backup";

/// Maximum number of words after the name in `CREATE` and `ALTER`: all options, and a few to spare.
const WORDS_MAX: usize = 32;

/// Default table of `SEQUENCE ADOPT`.
const ADOPTED_TABLE: &str = "id_generator";
/// Default row of `SEQUENCE ADOPT`.
const ADOPTED_ID: i64 = 1;

/// Implements `SEQUENCE CREATE name [option value ...] [FRESH]`.
pub(super) fn create(call: &mut Call<'_>) -> CommandResult {
    let key = call.sequence_at(2)?;
    let mut words = words_from(call, 3)?;
    let before = words.len();
    words.retain(|word| !word.eq_ignore_ascii_case("fresh"));
    let spec = Spec::default().with(&words).map_err(|error| format!("ERR sequence '{key}': {error}"))?;
    let is_fresh = words.len() < before;
    call.check_store()?;
    Ok(effect(SequenceEffect::Create { key, spec, is_fresh }))
}

/// Implements `SEQUENCE ALTER name option value ...`.
pub(super) fn alter(call: &mut Call<'_>) -> CommandResult {
    let key = call.sequence_at(2)?;
    let words = words_from(call, 3)?;
    if words.iter().step_by(2).any(|word| word.eq_ignore_ascii_case("start")) {
        return Err(format!(
            "ERR sequence '{key}' has begun, so its start cannot change: SEQUENCE RAISE {} n continues it above n",
            NameWord(key.as_str())
        )
        .into());
    }
    let words = words.into_iter().map(str::to_owned).collect();
    call.check_store()?;
    Ok(effect(SequenceEffect::Alter { key, words }))
}

/// Returns the words after a name, which must be UTF-8.
fn words_from<'a>(call: &Call<'a>, at: usize) -> Result<Vec<&'a str>, ErrorReply> {
    if call.args.len() > at + WORDS_MAX {
        return Err(SYNTAX);
    }
    let words = call.args.iter().skip(at);
    words
        .map(|word| {
            str::from_utf8(word).map_err(|_| ErrorReply::from(format!("ERR '{}' is not an option", quoted(word))))
        })
        .collect()
}

/// Implements `SEQUENCE INFO name`.
pub(super) fn info(call: &mut Call<'_>) -> CommandResult {
    key_effect(call, call.counter_at(2)?, SequenceEffect::Info)
}

/// Implements `SEQUENCE CONFIRM name`.
pub(super) fn confirm(call: &mut Call<'_>) -> CommandResult {
    key_effect(call, call.counter_at(2)?, SequenceEffect::Confirm)
}

/// Implements `SEQUENCE DECLARE name`.
pub(super) fn declare(call: &mut Call<'_>) -> CommandResult {
    key_effect(call, call.generator_or_sequence_at(2)?, SequenceEffect::Declare)
}

/// Implements `SEQUENCE DROP name`.
pub(super) fn drop_sequence(call: &mut Call<'_>) -> CommandResult {
    key_effect(call, call.sequence_at(2)?, SequenceEffect::Drop)
}

fn key_effect(call: &Call<'_>, key: Key, of: fn(Key) -> SequenceEffect) -> CommandResult {
    call.check_store()?;
    Ok(effect(of(key)))
}

/// Implements `SEQUENCE RAISE name last`.
pub(super) fn raise(call: &mut Call<'_>) -> CommandResult {
    let key = call.counter_at(2)?;
    let last = last_value(call.arg(3))?;
    call.check_store()?;
    Ok(effect(SequenceEffect::Raise { key, last }))
}

/// Implements `SEQUENCE STORES [CONFIRM nonce [RAISE-ALL n]]`.
pub(super) fn stores(call: &mut Call<'_>) -> CommandResult {
    let is = |place: usize, name: &str| call.arg(place).eq_ignore_ascii_case(name.as_bytes());
    let margin = match call.args.len() {
        2 => {
            call.check_store()?;
            return Ok(effect(SequenceEffect::Stores));
        }
        4 if is(2, "confirm") => 0,
        6 if is(2, "confirm") && is(4, "raise-all") => {
            let margin = parse_integer(call.arg(5)).ok_or(NOT_AN_INTEGER)?;
            let allowed = u32::try_from(margin).ok().filter(|margin| (1..=RESERVED_MAX).contains(margin));
            allowed.ok_or_else(|| format!("ERR RAISE-ALL is {margin}, must be 1 to {RESERVED_MAX} values"))?
        }
        _ => return Err(SYNTAX),
    };
    let nonce = String::from_utf8_lossy(call.arg(3)).into_owned();
    call.check_store()?;
    Ok(effect(SequenceEffect::Release { nonce, margin }))
}

/// Implements `SEQUENCE BACKUP file`.
///
/// The required end of the name keeps it apart from all files of a server, SQLite's included.
pub(super) fn backup(call: &mut Call<'_>) -> CommandResult {
    let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    let is_plain = |name: &&str| {
        name.len() <= BACKUP_BYTES_MAX
            && name.bytes().all(|byte| is_known(&byte))
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.ends_with(BACKUP_ENDING)
    };
    let name = str::from_utf8(call.arg(2)).ok().filter(is_plain).ok_or_else(|| {
        format!(
            "ERR '{}' cannot be the name of a backup: it has up to {BACKUP_BYTES_MAX} bytes of A-Z a-z 0-9 _ . -, \
             begins \
             with a letter or a digit, ends in {BACKUP_ENDING}, and is written into dir",
            quoted(call.arg(2))
        )
    })?;
    let name = name.to_owned();
    call.check_store()?;
    Ok(effect(SequenceEffect::Backup(name)))
}

/// Implements `SEQUENCE LIST [pattern] [CURSOR name] [COUNT n]`.
pub(super) fn list(call: &mut Call<'_>) -> CommandResult {
    let (mut pattern, mut after, mut count) = (None, String::new(), LIST_COUNT);
    let mut words = call.args.iter().skip(2);
    let mut is_first = true;
    while let Some(word) = words.next() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("cursor") {
            let cursor = words.next().ok_or(SYNTAX)?;
            // A cursor may belong to a row whose name no sequence can have.
            let name = str::from_utf8(cursor).ok().filter(|text| text.len() <= CURSOR_BYTES_MAX);
            name.ok_or("ERR invalid cursor")?.clone_into(&mut after);
        } else if is("count") {
            count = match parse_integer(words.next().ok_or(SYNTAX)?) {
                None => return Err(NOT_AN_INTEGER),
                Some(..=0) => return Err(SYNTAX),
                Some(count) => u32::try_from(count).unwrap_or(u32::MAX).min(LIST_COUNT_MAX),
            };
        } else if is_first {
            pattern = Some(word.to_vec());
        } else {
            return Err(SYNTAX);
        }
        is_first = false;
    }
    call.check_store()?;
    let counters = call.client.settings.counters.iter().map(|counter| counter.name());
    let hidden = counters.filter(|name| call.client.is_value_hidden(name.as_bytes())).map(str::to_owned).collect();
    Ok(effect(SequenceEffect::List { pattern, after, count, hidden }))
}

/// Implements `SEQUENCE ADOPT name [TABLE table] [ID n]`.
pub(super) fn adopt(call: &mut Call<'_>) -> CommandResult {
    let key = call.sequence_at(2)?;
    let (mut table, mut id) = (ADOPTED_TABLE.to_owned(), ADOPTED_ID);
    let mut words = call.args.iter().skip(3);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(SYNTAX)?;
        if word.eq_ignore_ascii_case(b"table") {
            table = table_name(value)?;
        } else if word.eq_ignore_ascii_case(b"id") {
            id = parse_integer(value).ok_or(NOT_AN_INTEGER)?;
        } else {
            return Err(SYNTAX);
        }
    }
    call.check_store()?;
    Ok(effect(SequenceEffect::Adopt { key, table, id }))
}

/// Checks a table's name, which becomes part of a statement: only letters, digits and underscores.
fn table_name(name: &[u8]) -> Result<String, ErrorReply> {
    let is_plain =
        (1..=64).contains(&name.len()) && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let name = str::from_utf8(name).ok().filter(|_| is_plain).ok_or_else(|| {
        format!("ERR '{}' cannot be the name of the table: it has 1 to 64 bytes of A-Z a-z 0-9 _", quoted(name))
    })?;
    Ok(name.to_owned())
}

/// Implements `SEQUENCE NEXT name [COUNT n] [ABOVE value] [REQUEST r [FOR seconds]]`.
pub(super) fn next(call: &mut Call<'_>) -> CommandResult {
    let key = call.sequence_at(2)?;
    let (words, request) = RequestKey::parse(call.args.behind(3), |_| false)?;
    let (mut count, mut above) = (None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let option = match word {
            word if word.eq_ignore_ascii_case(b"count") => &mut count,
            word if word.eq_ignore_ascii_case(b"above") => &mut above,
            _ => return Err(SYNTAX),
        };
        let number = parse_integer(words.next().ok_or(SYNTAX)?).ok_or(NOT_AN_INTEGER)?;
        if option.replace(number).is_some() {
            return Err(SYNTAX);
        }
    }
    call.check_store()?;
    let count = count.unwrap_or(1);
    // The server returns fewer values than are requested if `sequence-incrby-max` is lower.
    let values = u32::try_from(count).ok().filter(|values| (1..=RESERVED_MAX).contains(values));
    let values = values
        .ok_or_else(|| format!("ERR COUNT is {count}, must be 1 to {RESERVED_MAX}: values of sequence '{key}'"))?;
    if let Some(value) = above.filter(|value| !(0..=VALUE_MAX).contains(value)) {
        return Err(format!("ERR ABOVE is {value}, must be 0 to {VALUE_MAX}: a value of sequence '{key}'").into());
    }
    if let Some(request) = request {
        return Ok(super::requests::of_sequence(call, key, (values, above), &request));
    }
    Ok(effect(SequenceEffect::Next { key, values, above }))
}

impl Call<'_> {
    /// Checks a number of requested values against [`SequenceCommandSettings::incrby_max`].
    ///
    /// [`SequenceCommandSettings::incrby_max`]: crate::session::SequenceSettings::incrby_max
    pub(super) fn requested_values(&self, count: i64, key: &Key) -> Result<u32, ErrorReply> {
        let max = self.client.settings.sequences.map_or(0, |settings| settings.incrby_max);
        u32::try_from(count).ok().filter(|count| (1..=max).contains(count)).ok_or_else(|| {
            format!(
                "ERR {count} values are requested from sequence '{key}', which gives 1 to {max} at a time \
                     (sequence-incrby-max)"
            )
            .into()
        })
    }
}

fn effect(effect: SequenceEffect) -> CommandReply {
    CommandReply::Effect(Effect::Sequence(effect))
}
