//! `EVAL`, `EVALSHA` and `SCRIPT`: known scripts are replaced by their meaning; all others are refused.

use super::{Call, CommandReply, CommandResult, NOT_AN_INTEGER, OK, machines};
use crate::resp::{ErrorKind, ErrorReply, Value, parse_integer};
use crate::session::effect::Effect;
use crate::session::scripts::{KnownScript, ScriptMeaning, SequenceScript, by_sha1, by_text};
use crate::session::sequence_effect::ScriptEffect;
use getid_core::server::{Key, VALUE_MAX};

/// Redis's answer to an unknown SHA-1. Libraries then send the text.
const NO_SCRIPT: ErrorReply = ErrorReply::fixed(ErrorKind::Invalid, "NOSCRIPT No matching script. Please use EVAL.");

/// Number of hex digits of a SHA-1.
const SHA1_DIGITS: usize = 40;

const UNKNOWN: &str = "ERR only the counting scripts of django-redis (incr, decr) and Redisson (RIdGenerator), and \
                       those of CosId from 1.9 on, are supported: use INCR, INCRBY, SEQUENCE NEXT or WORKERID LEASE instead";

/// Implements `EVAL script numkeys key ... arg ...`.
pub(super) fn eval(call: &mut Call<'_>) -> CommandResult {
    let keys = key_count(call)?;
    let known = by_text(call.arg(1)).ok_or(UNKNOWN)?;
    run(call, known, keys)
}

/// Implements `EVALSHA sha1 numkeys key ... arg ...`.
pub(super) fn eval_sha(call: &mut Call<'_>) -> CommandResult {
    if call.arg(1).len() != SHA1_DIGITS {
        return Err(NO_SCRIPT);
    }
    let keys = key_count(call)?;
    let known = by_sha1(call.arg(1)).ok_or(NO_SCRIPT)?;
    run(call, known, keys)
}

/// Parses the number of keys in Redis's order, with its errors.
fn key_count(call: &Call<'_>) -> Result<usize, ErrorReply> {
    let count = parse_integer(call.arg(2)).ok_or(NOT_AN_INTEGER)?;
    match usize::try_from(count) {
        Ok(count) if count > call.args.len() - 3 => {
            Err("ERR Number of keys can't be greater than number of args".into())
        }
        Ok(count) => Ok(count),
        Err(_) => Err("ERR Number of keys can't be negative".into()),
    }
}

fn run(call: &mut Call<'_>, known: &KnownScript, keys: usize) -> CommandResult {
    let [own_keys, own_args] = known.takes;
    let args = call.args.len() - 3 - keys;
    if [keys, args] != known.takes {
        return Err(format!(
            "ERR script {} takes {own_keys} keys and {own_args} other arguments, and got {keys} and {args}",
            known.meaning
        )
        .into());
    }
    match known.meaning {
        ScriptMeaning::Sequence(script) => count(call, script, keys),
        ScriptMeaning::Machine(script) => machines::run(call, script),
    }
}

/// Runs a script that counts.
fn count(call: &mut Call<'_>, script: SequenceScript, keys: usize) -> CommandResult {
    call.check_store()?;
    let key = call.sequence_at(3)?;
    let number = |at: usize| parse_integer(call.args.get(3 + keys + at).unwrap_or_default()).ok_or(NOT_AN_INTEGER);
    let effect = match script {
        SequenceScript::Count | SequenceScript::CountIfPresent => {
            let values = call.requested_values(number(0)?, &key)?;
            ScriptEffect::Count { key, values, only_if_present: script == SequenceScript::CountIfPresent }
        }
        SequenceScript::Init => {
            let (first, allocation) = (begin(number(0)?, &key)?, number(1)?);
            ScriptEffect::Init { first, allocation: call.requested_values(allocation, &key)?, key }
        }
        SequenceScript::CountFrom => {
            let (last, values) = (begin(number(0)?, &key)?, number(1)?);
            ScriptEffect::CountFrom { last, values: call.requested_values(values, &key)?, key }
        }
        SequenceScript::Allocate => ScriptEffect::Allocate(key),
    };
    Ok(CommandReply::Effect(Effect::Script(effect)))
}

/// Checks the value at which a script begins a sequence.
fn begin(value: i64, key: &Key) -> Result<i64, ErrorReply> {
    if (0..=VALUE_MAX).contains(&value) {
        return Ok(value);
    }
    Err(format!("ERR sequence '{key}' cannot begin at {value}: its values are not negative").into())
}

/// Implements `SCRIPT LOAD script`.
pub(super) fn load(call: &mut Call<'_>) -> CommandResult {
    let known = by_text(call.arg(2)).ok_or(UNKNOWN)?;
    Ok(CommandReply::Value(Value::from(known.sha1)))
}

/// Implements `SCRIPT EXISTS sha1 ...`.
pub(super) fn exists(call: &mut Call<'_>) -> CommandResult {
    let known = call.args.iter().skip(2).map(|sha1| Value::Integer(by_sha1(sha1).is_some().into()));
    Ok(CommandReply::Value(Value::Array(known.collect())))
}

/// `SCRIPT FLUSH [ASYNC|SYNC]`: no effect, since the known scripts are built in.
pub(super) fn flush(call: &mut Call<'_>) -> CommandResult {
    let is_mode = |word: &[u8]| [&b"async"[..], b"sync"].iter().any(|mode| word.eq_ignore_ascii_case(mode));
    match (call.args.get(2), call.args.len()) {
        (None, _) => Ok(OK),
        (Some(mode), 3) if is_mode(mode) => Ok(OK),
        _ => Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into()),
    }
}

/// Implements `SCRIPT KILL`.
pub(super) fn kill(_: &mut Call<'_>) -> CommandResult {
    Err(ErrorReply::fixed(ErrorKind::Invalid, "NOTBUSY No scripts in execution right now."))
}
