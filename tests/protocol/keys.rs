//! A fake server with two sequences, which replies to the effects of commands about keys in the transcripts.

use getid_core::server::Key;
use getid_redis::resp::Value;
use getid_redis::session::{HashFields, KeysEffect, ScriptEffect, SequenceEffect, SetCondition, SetSequence};

/// Returns the last value: `orders` is at 1200, `invoices` at 7; there are no others.
fn last(key: &Key) -> Option<i64> {
    match key.as_str() {
        "orders" => Some(1200),
        "invoices" => Some(7),
        _ => None,
    }
}

fn count(keys: &[Key]) -> Value {
    Value::Integer(i64::try_from(keys.iter().filter_map(last).count()).unwrap())
}

pub(crate) fn answer(effect: &KeysEffect) -> Value {
    let value_or_null = |last: Option<i64>| last.map_or(Value::Null, |last| Value::bulk(last.to_string()));
    match effect {
        KeysEffect::Property { key, property } => property.answer(key.as_str(), last(key)),
        KeysEffect::Values(keys) => {
            Value::Array(keys.iter().map(|key| value_or_null(key.as_ref().and_then(last))).collect())
        }
        KeysEffect::Count(keys) | KeysEffect::Delete(keys) => count(keys),
        KeysEffect::Persist(_) => Value::Integer(0),
        effect @ (KeysEffect::Expire { .. } | KeysEffect::GetExpire { .. }) => {
            Value::from(format!("{effect:?}").as_str())
        }
        KeysEffect::Set(effect @ SetSequence { end: Some(_), .. }) => Value::from(format!("{effect:?}").as_str()),
        KeysEffect::Set(SetSequence { key, last: to, condition, reply, end: None }) => {
            let old = last(key);
            let is_set = match condition {
                SetCondition::Any => true,
                SetCondition::New => old.is_none(),
                SetCondition::Old => old.is_some(),
            };
            match old {
                Some(old) if is_set && *to < old => {
                    Value::error(format!("ERR a sequence never goes back: '{key}' is at {old}"))
                }
                old => reply.answer(is_set, old),
            }
        }
        KeysEffect::GetDelete(key) => value_or_null(last(key)),
        KeysEffect::Hash { key, query } => {
            let fields = last(key).map(|cur| HashFields { cur, max: 9_000, recently: 12, long_term: 100 });
            query.answer(fields.as_ref())
        }
        KeysEffect::Names(_) => Value::Array(vec![Value::from("invoices"), Value::from("orders")]),
        KeysEffect::Scan(scan) => Value::from(format!("{scan:?}").as_str()),
        KeysEffect::Size => Value::Integer(2),
        KeysEffect::Random => Value::from("orders"),
    }
}

/// Returns the effect as text for the reader of a transcript.
pub(crate) fn answer_operator(effect: &SequenceEffect) -> Value {
    Value::from(format!("{effect:?}").as_str())
}

pub(crate) fn answer_script(effect: &ScriptEffect) -> Value {
    Value::from(format!("{effect:?}").as_str())
}
