//! Commands about keys and hashes, with which libraries and people read a sequence. Commands that would lower, hide or
//! retype a sequence are refused, with a remedy.
//!
//! Syntax is checked first, in Redis's order and with its errors; only then is a command refused to a sequence.

use getid_core::server::{CounterKind, END_UNIX_MS_MAX, EndCondition, Key, VALUE_MAX};

use super::sequences::{SEQUENCES_OFF, is_a_generator, not_a_name};
use super::series::{has_no_series, needs_key, series_key};
use super::{Call, CommandReply, CommandResult, NOT_AN_INTEGER, SYNTAX};
use crate::command::{Verb, quoted, series_of, split_series};
use crate::resp::{ErrorReply, Value, parse_integer};
use crate::session::effect::Effect;
use crate::session::sequence_effect::{
    BEGINS_AGAIN, EndTime, HashQuery, KeyProperty, KeyScan, KeysEffect, MAY_END, SetCondition, SetReply, SetSequence,
    TtlForm,
};

/// Default number of names that one `SCAN` reads, each time by a statement. Redis reads 10, out of its memory.
const SCAN_COUNT: u32 = 100;
/// Maximum number of names that one `SCAN` reads.
const SCAN_COUNT_MAX: u32 = 1_000;

/// Options of `EXPIRE` and related commands.
const CONDITIONS: [&str; 4] = ["nx", "xx", "gt", "lt"];

/// `GET`, `TYPE`, `TTL` and other reads of one key.
pub(super) fn read(call: &mut Call<'_>) -> CommandResult {
    let (property, at) = match call.command.verb {
        Verb::Type => (KeyProperty::Type, 1),
        verb @ (Verb::Ttl | Verb::PTtl | Verb::ExpireTime | Verb::PExpireTime) => {
            let is_ms = matches!(verb, Verb::PTtl | Verb::PExpireTime);
            let is_time = matches!(verb, Verb::ExpireTime | Verb::PExpireTime);
            (KeyProperty::Ttl(TtlForm { is_ms, is_time }), 1)
        }
        Verb::StrLen => (KeyProperty::Len, 1),
        Verb::ObjectEncoding => (KeyProperty::Encoding, 2),
        Verb::ObjectRefCount => (KeyProperty::RefCount, 2),
        Verb::ObjectIdleTime => (KeyProperty::Idle, 2),
        Verb::ObjectFreq => (KeyProperty::Freq, 2),
        _ => (KeyProperty::Value, 1),
    };
    read_property(call, at, property)
}

fn read_property(call: &mut Call<'_>, at: usize, property: KeyProperty) -> CommandResult {
    call.check_store()?;
    let name = call.arg(at);
    if matches!(property, KeyProperty::Value | KeyProperty::Len) {
        call.check_no_generator(name)?;
    }
    match key_of(name) {
        Some(key) => Ok(effect(KeysEffect::Property { key, property })),
        None => Ok(CommandReply::Value(property.answer("", None))),
    }
}

/// Implements `MGET key ...`.
pub(super) fn values(call: &mut Call<'_>) -> CommandResult {
    call.check_store()?;
    Ok(effect(KeysEffect::Values(call.args.iter().skip(1).map(key_of).collect())))
}

/// `EXISTS key ...` and `TOUCH key ...`
pub(super) fn count(call: &mut Call<'_>) -> CommandResult {
    call.check_store()?;
    Ok(effect(KeysEffect::Count(call.args.iter().skip(1).filter_map(key_of).collect())))
}

/// `DEL key ...` and `UNLINK key ...`
pub(super) fn delete(call: &mut Call<'_>) -> CommandResult {
    call.check_store()?;
    Ok(effect(KeysEffect::Delete(call.args.iter().skip(1).filter_map(key_of).collect())))
}

/// Implements `GETDEL key`.
pub(super) fn get_delete(call: &mut Call<'_>) -> CommandResult {
    call.check_store()?;
    call.check_no_generator(call.arg(1))?;
    Ok(key_of(call.arg(1)).map_or(CommandReply::Value(Value::Null), |key| effect(KeysEffect::GetDelete(key))))
}

/// Implements `PERSIST key`.
pub(super) fn persist(call: &mut Call<'_>) -> CommandResult {
    call.check_store()?;
    call.check_no_generator(call.arg(1))?;
    Ok(key_of(call.arg(1)).map_or(CommandReply::Encoded(b":0\r\n"), |key| effect(KeysEffect::Persist(key))))
}

/// Implements `SET key n [NX|XX] [GET] [KEEPTTL|EX s|PX ms|EXAT s|PXAT ms]`.
pub(super) fn set(call: &mut Call<'_>) -> CommandResult {
    let options = SetOptions::read(call)?;
    if options.end.is_some() {
        call.check_can_end(1)?;
    }
    let condition = match (options.nx, options.xx) {
        (true, _) => SetCondition::New,
        (_, true) => SetCondition::Old,
        _ => SetCondition::Any,
    };
    set_to(call, 2, condition, if options.get { SetReply::Old } else { SetReply::Ok }, options.end)
}

/// Implements `SETNX key n`.
pub(super) fn set_new(call: &mut Call<'_>) -> CommandResult {
    set_to(call, 2, SetCondition::New, SetReply::Count, None)
}

/// Implements `GETSET key n`.
pub(super) fn get_set(call: &mut Call<'_>) -> CommandResult {
    set_to(call, 2, SetCondition::Any, SetReply::Old, None)
}

fn set_to(
    call: &mut Call<'_>,
    at: usize,
    condition: SetCondition,
    reply: SetReply,
    end: Option<EndTime>,
) -> CommandResult {
    call.check_store()?;
    let key = call.sequence_at(1)?;
    let last = last_value(call.arg(at))?;
    Ok(effect(KeysEffect::Set(SetSequence { key, last, condition, reply, end })))
}

/// Parsed options of `SET`.
#[derive(Default)]
struct SetOptions {
    nx: bool,
    xx: bool,
    get: bool,
    keeps: bool,
    end: Option<EndTime>,
}

impl SetOptions {
    /// Parses the options in Redis's order, with its errors.
    fn read(call: &Call<'_>) -> Result<SetOptions, ErrorReply> {
        let mut read = SetOptions::default();
        let mut expiry = None;
        let mut words = call.args.iter().skip(3);
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let has_expiry = expiry.is_some() || read.keeps;
            if is("nx") && !read.xx {
                read.nx = true;
            } else if is("xx") && !read.nx {
                read.xx = true;
            } else if is("get") {
                read.get = true;
            } else if is("keepttl") && expiry.is_none() {
                read.keeps = true;
            } else if let Some(form) = EndForm::of_option(word).filter(|_| !has_expiry) {
                expiry = Some((form, words.next().ok_or(SYNTAX)?));
            } else {
                return Err(SYNTAX);
            }
        }
        if let Some((form, expiry)) = expiry {
            read.end = Some(form.later_end(call, expiry)?);
        }
        Ok(read)
    }
}

/// Unit and meaning of an expiry.
#[derive(Clone, Copy)]
struct EndForm {
    is_ms: bool,
    is_time: bool,
}

impl EndForm {
    /// Returns the form of an option of `SET` or `GETEX`.
    fn of_option(word: &[u8]) -> Option<EndForm> {
        let forms = [("ex", false, false), ("px", true, false), ("exat", false, true), ("pxat", true, true)];
        let found = forms.into_iter().find(|(name, ..)| word.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, is_ms, is_time)| EndForm { is_ms, is_time })
    }

    /// Returns the form of a command that takes an expiry.
    fn of_command(verb: Verb) -> EndForm {
        EndForm {
            is_ms: matches!(verb, Verb::PExpire | Verb::PExpireAt | Verb::PSetEx),
            is_time: matches!(verb, Verb::ExpireAt | Verb::PExpireAt),
        }
    }

    /// Parses an expiry. Fails with Redis's error for one that its clock cannot have, which here ends with the year
    /// 9999.
    fn end(self, call: &Call<'_>, expiry: &[u8]) -> Result<EndTime, ErrorReply> {
        let number = parse_integer(expiry).ok_or(NOT_AN_INTEGER)?;
        let ms = if self.is_ms { Some(number) } else { number.checked_mul(1000) };
        let ms = ms.filter(|ms| *ms <= END_UNIX_MS_MAX).ok_or_else(|| invalid_expiry(call))?;
        Ok(if self.is_time { EndTime::At(ms) } else { EndTime::After(ms) })
    }

    /// Parses an expiry that must be above 0.
    fn later_end(self, call: &Call<'_>, expiry: &[u8]) -> Result<EndTime, ErrorReply> {
        match self.end(call, expiry)? {
            EndTime::After(..=0) | EndTime::At(..=0) => Err(invalid_expiry(call)),
            end => Ok(end),
        }
    }
}

#[cold]
fn invalid_expiry(call: &Call<'_>) -> ErrorReply {
    format!("ERR invalid expire time in '{}' command", call.command.full_name).into()
}

/// `SETEX key seconds value` and `PSETEX key ms value`
pub(super) fn set_with_expiry(call: &mut Call<'_>) -> CommandResult {
    let end = EndForm::of_command(call.command.verb).later_end(call, call.arg(2))?;
    call.check_can_end(1)?;
    set_to(call, 3, SetCondition::Any, SetReply::Ok, Some(end))
}

/// `GETEX key [option]`: `GET` if there is no option.
pub(super) fn get_with_expiry(call: &mut Call<'_>) -> CommandResult {
    let end = match (call.args.len(), call.args.get(2).and_then(EndForm::of_option)) {
        (2, _) => return read_property(call, 1, KeyProperty::Value),
        (3, None) if call.arg(2).eq_ignore_ascii_case(b"persist") => None,
        (4, Some(form)) => Some(form.later_end(call, call.arg(3))?),
        _ => return Err(SYNTAX),
    };
    if end.is_some() {
        call.check_can_end(1)?;
    }
    call.check_store()?;
    call.check_no_generator(call.arg(1))?;
    let get = |key| effect(KeysEffect::GetExpire { key, end });
    Ok(key_of(call.arg(1)).map_or(CommandReply::Value(Value::Null), get))
}

/// `EXPIRE key seconds [NX|XX|GT|LT]` and related commands.
pub(super) fn expire(call: &mut Call<'_>) -> CommandResult {
    let mut present = [false; CONDITIONS.len()];
    for word in call.args.iter().skip(3) {
        let at = CONDITIONS.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(word));
        let at = at.ok_or_else(|| {
            let word = String::from_utf8_lossy(word.get(..word.len().min(64)).unwrap_or_default()).into_owned();
            format!("ERR Unsupported option {word}")
        })?;
        present[at] = true;
    }
    let [nx, xx, gt, lt] = present;
    if nx && (xx || gt || lt) {
        return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
    }
    if gt && lt {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    if call.client.settings.expiring.can_end(call.arg(1)) {
        let end = EndForm::of_command(call.command.verb).end(call, call.arg(2))?;
        let condition = EndCondition { is_new: nx, is_old: xx, is_later: gt, is_earlier: lt };
        call.check_store()?;
        call.check_no_generator(call.arg(1))?;
        let expire = |key| effect(KeysEffect::Expire { key, end, condition });
        return Ok(key_of(call.arg(1)).map_or(CommandReply::Encoded(b":0\r\n"), expire));
    }
    parse_integer(call.arg(2)).ok_or(NOT_AN_INTEGER)?;
    // XX and GT need an existing expiry, and Redis answers 0 without one too.
    read_property(call, 1, KeyProperty::Expire { only_new: nx || xx || gt })
}

/// `DECR key`, `DECRBY key n`
pub(super) fn decrease(call: &mut Call<'_>) -> CommandResult {
    if let Some(by) = call.args.get(2) {
        match parse_integer(by) {
            None => return Err(NOT_AN_INTEGER),
            Some(i64::MIN) => return Err("ERR decrement would overflow".into()),
            Some(_) => {}
        }
    }
    refuse(call, "it never goes back", "INCR and INCRBY take values; a sequence cannot be decremented")
}

/// Implements `INCRBYFLOAT key n`.
pub(super) fn increase_by_float(call: &mut Call<'_>) -> CommandResult {
    let text = str::from_utf8(call.arg(2)).ok().filter(|text| !text.starts_with(char::is_whitespace));
    text.and_then(|text| text.parse::<f64>().ok()).ok_or("ERR value is not a valid float")?;
    refuse(call, "it counts in whole numbers", "use INCRBY")
}

/// `APPEND key text`, `SETRANGE key offset text`
pub(super) fn edit(call: &mut Call<'_>) -> CommandResult {
    if call.command.verb == Verb::SetRange {
        match parse_integer(call.arg(2)) {
            None => return Err(NOT_AN_INTEGER),
            Some(..0) => return Err("ERR offset is out of range".into()),
            Some(_) => {}
        }
    }
    refuse(call, "it is a number that only goes up", "SET name n raises it")
}

/// `MSET key n ...`, `MSETNX key n ...`
pub(super) fn set_many(call: &mut Call<'_>) -> CommandResult {
    if call.args.len().is_multiple_of(2) {
        return Err(call.command.arity_error());
    }
    refuse(call, "several of them cannot be set at once", "send SET for each")
}

/// `RENAME key newkey`, `RENAMENX key newkey`
pub(super) fn rename(call: &mut Call<'_>) -> CommandResult {
    refuse(
        call,
        "it keeps its name, because under another name it could give its values again",
        "SEQUENCE CREATE newname START n, with n above its last value, and SEQUENCE DROP name",
    )
}

/// Implements `HSET key field value ...`.
pub(super) fn hash_set(call: &mut Call<'_>) -> CommandResult {
    if !call.args.len().is_multiple_of(2) {
        return Err(call.command.arity_error());
    }
    refuse(
        call,
        "its fields are read-only",
        "HINCRBY name cur n takes values, SET name n raises it, SEQUENCE ALTER name MAX n sets its max",
    )
}

/// `HGET`, `HMGET`, `HEXISTS`, `HGETALL`, `HKEYS`, `HVALS`, `HLEN`
pub(super) fn hash(call: &mut Call<'_>) -> CommandResult {
    call.check_store()?;
    call.check_no_generator(call.arg(1))?;
    let query = match call.command.verb {
        Verb::HGet => HashQuery::Field(field(call.arg(2))),
        Verb::HMGet => HashQuery::Fields(call.args.iter().skip(2).map(field).collect()),
        Verb::HExists => HashQuery::Has(field(call.arg(2))),
        Verb::HKeys => HashQuery::Names,
        Verb::HVals => HashQuery::Values,
        Verb::HLen => HashQuery::Len,
        _ => HashQuery::All,
    };
    match key_of(call.arg(1)) {
        Some(key) => Ok(effect(KeysEffect::Hash { key, query })),
        None => Ok(CommandReply::Value(query.answer(None))),
    }
}

/// Returns a field's name, cut to the longest that can exist.
fn field(name: &[u8]) -> Vec<u8> {
    name[..name.len().min(FIELD_BYTES_MAX)].to_vec()
}

/// Upper bound of a field name's length, bytes.
const FIELD_BYTES_MAX: usize = 32;

/// Implements `KEYS pattern`.
pub(super) fn names(call: &mut Call<'_>) -> CommandResult {
    call.check_store()?;
    Ok(effect(KeysEffect::Names(call.arg(1).to_vec())))
}

/// Implements `SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]`.
pub(super) fn scan(call: &mut Call<'_>) -> CommandResult {
    let cursor = str::from_utf8(call.arg(1)).ok().and_then(|text| text.parse().ok()).ok_or("ERR invalid cursor")?;
    let mut scan = KeyScan { cursor, pattern: None, count: SCAN_COUNT, is_of_type: true };
    let mut words = call.args.iter().skip(2);
    while let Some(word) = words.next() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if !["match", "count", "type"].iter().any(|name| is(name)) {
            return Err(SYNTAX);
        }
        let value = words.next().ok_or(SYNTAX)?;
        if is("count") {
            scan.count = match parse_integer(value) {
                None => return Err(NOT_AN_INTEGER),
                Some(..=0) => return Err(SYNTAX),
                Some(count) => u32::try_from(count).unwrap_or(u32::MAX).min(SCAN_COUNT_MAX),
            };
        } else if is("match") {
            scan.pattern = Some(value.to_vec());
        } else {
            scan.is_of_type = value.eq_ignore_ascii_case(b"string");
        }
    }
    call.check_store()?;
    Ok(effect(KeysEffect::Scan(scan)))
}

/// Implements `DBSIZE`.
pub(super) fn size(call: &mut Call<'_>) -> CommandResult {
    call.check_store()?;
    Ok(effect(KeysEffect::Size))
}

/// Implements `RANDOMKEY`.
pub(super) fn random(call: &mut Call<'_>) -> CommandResult {
    call.check_store()?;
    Ok(effect(KeysEffect::Random))
}

impl Call<'_> {
    /// Fails if there is no store for sequences.
    pub(super) fn check_store(&self) -> Result<(), ErrorReply> {
        if self.client.settings.sequences.is_some() { Ok(()) } else { Err(SEQUENCES_OFF) }
    }

    /// Fails if the name is a generator's, since no sequence has such a name. A generator of the kind `sequence` is
    /// allowed: it is another notation of its sequence.
    pub(super) fn check_no_generator(&self, name: &[u8]) -> Result<(), ErrorReply> {
        let settings = &self.client.settings;
        let counter = settings.counters.find(name).and_then(|place| settings.counters.get(place));
        let is_serial = counter.is_some_and(|counter| matches!(counter.kind(), CounterKind::Serial(_)));
        if settings.generators.find(name).is_none() && !is_serial {
            return Ok(());
        }
        Err(is_a_generator(&quoted(name)))
    }

    /// Fails if a sequence of the name at `at` may not have an end.
    fn check_can_end(&self, at: usize) -> Result<(), ErrorReply> {
        let name = self.arg(at);
        if self.client.settings.expiring.can_end(name) { Ok(()) } else { Err(never_expires(name)) }
    }

    /// Returns the sequence that the argument at `at` names.
    pub(super) fn sequence_at(&self, at: usize) -> Result<Key, ErrorReply> {
        let name = self.arg(at);
        self.check_no_generator(name)?;
        key_of(name).ok_or_else(|| not_a_name(name))
    }

    /// Returns the sequence or the counter that the argument at `at` names: that of a key as `invoice/ACME`. For a
    /// counter, the command concerns its current period.
    pub(super) fn counter_at(&self, at: usize) -> Result<Key, ErrorReply> {
        let name = self.arg(at);
        let counters = &self.client.settings.counters;
        if let Some((generator, key)) = split_series(name)
            && let Some(counter) = counters.find(generator).and_then(|place| counters.get(place))
        {
            let rules = counter.series().ok_or_else(|| has_no_series(counter.name()))?;
            return series_key(counter, *rules, key);
        }
        if let Some((counter, _)) = series_of(counters, name) {
            let command = self.command.full_name.replace('|', " ").to_ascii_uppercase();
            return Err(needs_key(counter.name(), &format!("{command} {}/ACME", counter.name())));
        }
        self.generator_or_sequence_at(at)
    }

    /// Returns the sequence or the generator over a sequence that the argument at `at` names.
    pub(super) fn generator_or_sequence_at(&self, at: usize) -> Result<Key, ErrorReply> {
        let name = self.arg(at);
        if self.client.settings.counters.find(name).is_some() {
            return key_of(name).ok_or_else(|| not_a_name(name));
        }
        self.sequence_at(at)
    }
}

/// Returns the sequence of this name, if the name is valid.
fn key_of(name: &[u8]) -> Option<Key> {
    Key::new(str::from_utf8(name).ok()?)
}

/// Parses the last given value that `SET` and `SEQUENCE RAISE` take.
pub(super) fn last_value(text: &[u8]) -> Result<i64, ErrorReply> {
    parse_integer(text).filter(|last| (0..=VALUE_MAX).contains(last)).ok_or_else(|| {
        format!(
            "ERR '{}' is not a value of a sequence: expected an integer of 0 to {VALUE_MAX}. This server stores only \
             sequences",
            quoted(text)
        )
        .into()
    })
}

#[cold]
fn never_expires(name: &[u8]) -> ErrorReply {
    format!(
        "ERR a sequence never expires, because a counter that restarts gives its values twice: omit the expiry of \
         '{}'. {BEGINS_AGAIN}. {MAY_END}",
        quoted(name)
    )
    .into()
}

/// Returns the error of a command that sequences do not support.
#[cold]
fn refuse(call: &Call<'_>, why: &str, remedy: &str) -> CommandResult {
    let command = call.command.full_name.to_ascii_uppercase();
    Err(format!("ERR {command} is refused to a sequence such as '{}': {why}. Instead: {remedy}", quoted(call.arg(1)))
        .into())
}

/// Implements the commands of lists, sets, sorted sets, streams and functions, none of which exist.
pub(super) fn refuse_structure(call: &mut Call<'_>) -> CommandResult {
    let things = match call.command.group {
        "list" => "lists",
        "set" => "sets",
        "sorted-set" => "sorted sets",
        "stream" => "streams",
        _ => "functions",
    };
    let command = call.command.full_name.replace('|', " ").to_ascii_uppercase();
    Err(format!(
        "ERR this server is getid, which has no {things}: GETID gives an id, and INCR name counts. Send {command} to a \
         Redis server"
    )
    .into())
}

fn effect(effect: KeysEffect) -> CommandReply {
    CommandReply::Effect(Effect::Keys(effect))
}
