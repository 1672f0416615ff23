//! Commands about keys, which find a sequence and answer as Redis would.
//!
//! A name that is not in memory is looked up in the store, and a store may have a million names. So requests for many
//! names have bounds, and names are listed a page at a time.

use std::sync::Arc;

use getid_core::server::{EndChange, EndCondition, Key, NameWord, SequenceRefusal};

use super::EffectReply;
use super::chunks::{Items, Page};
use crate::Server;
use crate::audit::AuditAction;
use crate::error_replies::of_sequence;
use crate::registry::Client;
use getid_engine::generators::sequence::{CreateOptions, SequenceError, SequenceView, Sequences};
use getid_redis::command::key_slot;
use getid_redis::resp::{ErrorReply, Value};
use getid_redis::session::{
    EndTime, HashFields, HashQuery, KeyProperty, KeyScan, KeysEffect, SEQUENCES_OFF, SetCondition, SetSequence, TtlForm,
};
use getid_store::sql::NamePage;
use getid_system::noise;
use getid_text::glob::Pattern;
use getid_text::name_hash::hash_of;

/// Maximum number of rows that `KEYS` reads, with at most 12 MB of names.
const KEYS_MAX: usize = 100_000;

/// Number of rows in a page.
const PAGE_ROWS: u32 = 1000;

/// Maximum number of names of one `MGET`, `EXISTS`, `TOUCH`, `DEL` that are not in memory: each is a statement.
const LOOKUPS_MAX: usize = 256;

type KeysResult = Result<EffectReply, ErrorReply>;

pub(super) async fn perform(server: &Arc<Server>, effect: KeysEffect, client: &Client) -> EffectReply {
    let Some(sequences) = server.generators.sequences() else { return Value::Error(SEQUENCES_OFF).into() };
    let outcome = match effect {
        KeysEffect::Property { key, property: KeyProperty::Ttl(form) } => ttl(sequences, &key, form).await,
        KeysEffect::Property { key, property } => {
            find(sequences, &key).await.map(|found| property.answer(key.as_str(), found.map(|view| view.last)).into())
        }
        KeysEffect::Values(keys) => values(sequences, keys).await,
        KeysEffect::Count(keys) => count(sequences, &keys).await,
        KeysEffect::Set(set) => set_to(server, sequences, set, client).await,
        KeysEffect::Expire { key, end, condition } => {
            let is_set = expire(server, sequences, &key, end, condition, client).await;
            is_set.map(|is_set| Value::Integer(is_set.unwrap_or(false).into()).into())
        }
        KeysEffect::Persist(key) => persist(server, sequences, &key, client).await,
        KeysEffect::GetExpire { key, end } => get_expire(server, sequences, &key, end, client).await,
        KeysEffect::Delete(keys) => delete(server, sequences, keys, client).await,
        KeysEffect::GetDelete(key) => get_delete(server, sequences, key, client).await,
        KeysEffect::Hash { key, query } => hash(sequences, &key, &query).await,
        KeysEffect::Names(pattern) => names(server, sequences, &pattern).await,
        KeysEffect::Scan(request) => scan(server, sequences, request).await,
        KeysEffect::Size => size(sequences).await,
        KeysEffect::Random => random(sequences).await,
    };
    outcome.unwrap_or_else(|error| Value::Error(error).into())
}

async fn find(sequences: &Arc<Sequences>, key: &Key) -> Result<Option<SequenceView>, ErrorReply> {
    sequences.find(key).await.map_err(|error| of_sequence(&error, key.as_str()))
}

async fn values(sequences: &Arc<Sequences>, keys: Vec<Option<Key>>) -> KeysResult {
    check_lookups(sequences, "MGET", keys.iter().flatten())?;
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        let found = match key {
            Some(key) => find(sequences, &key).await?,
            None => None,
        };
        values.push(found.map_or(Value::Null, |view| Value::bulk(view.last.to_string())));
    }
    Ok(Value::Array(values).into())
}

async fn count(sequences: &Arc<Sequences>, keys: &[Key]) -> KeysResult {
    check_lookups(sequences, "EXISTS", keys.iter())?;
    let mut count = 0;
    for key in keys {
        count += i64::from(find(sequences, key).await?.is_some());
    }
    Ok(Value::Integer(count).into())
}

/// Checks the number of names that need a look-up in the store.
fn check_lookups<'a>(
    sequences: &Sequences,
    command: &str,
    keys: impl Iterator<Item = &'a Key>,
) -> Result<(), ErrorReply> {
    let is_in_memory = |key: &&Key| {
        let name = key.as_str();
        sequences.last_given_now(hash_of(name.as_bytes()), name).is_some()
    };
    let lookups = keys.filter(|key| !is_in_memory(key)).count();
    if lookups <= LOOKUPS_MAX {
        return Ok(());
    }
    Err(format!(
        "ERR {command} needs {lookups} look-ups in the store, and one request may need at most {LOOKUPS_MAX}: name fewer \
         sequences"
    )
    .into())
}

async fn ttl(sequences: &Arc<Sequences>, key: &Key, form: TtlForm) -> KeysResult {
    let end = sequences.end_of(key).await.map_err(|error| of_sequence(&error, key.as_str()))?;
    Ok(end.map_or(Value::Integer(-2), |ends_unix_ms| form.answer(ends_unix_ms, sequences.unix_ms())).into())
}

/// Sets the end of a sequence. Returns `None` if there is none, and otherwise whether the condition is met.
async fn expire(
    server: &Server,
    sequences: &Arc<Sequences>,
    key: &Key,
    end: EndTime,
    condition: EndCondition,
    client: &Client,
) -> Result<Option<bool>, ErrorReply> {
    let now_unix_ms = sequences.unix_ms();
    let change = EndChange { unix_ms: end.unix_ms(now_unix_ms), condition };
    let is_set = sequences.expire(key, change).await.map_err(|error| of_sequence(&error, key.as_str()))?;
    // Programs repeat the end of a counter with each of its values. An end now is an operator's.
    if is_set == Some(true) && change.unix_ms <= now_unix_ms {
        server.audit(AuditAction::Sequence { what: "EXPIRE that ends a sequence", name: key.as_str() }, client);
    }
    Ok(is_set)
}

async fn persist(server: &Server, sequences: &Arc<Sequences>, key: &Key, client: &Client) -> KeysResult {
    let persisted = sequences.persist(key).await.map_err(|error| of_sequence(&error, key.as_str()))?;
    let had_end = persisted == Some(true);
    if had_end {
        server.audit(AuditAction::Sequence { what: "PERSIST", name: key.as_str() }, client);
    }
    Ok(Value::Integer(had_end.into()).into())
}

async fn get_expire(
    server: &Server,
    sequences: &Arc<Sequences>,
    key: &Key,
    end: Option<EndTime>,
    client: &Client,
) -> KeysResult {
    let found = find(sequences, key).await?;
    if found.is_some() {
        match end {
            Some(end) => drop(expire(server, sequences, key, end, EndCondition::default(), client).await?),
            None => drop(persist(server, sequences, key, client).await?),
        }
    }
    Ok(found.map_or(Value::Null, |view| Value::bulk(view.last.to_string())).into())
}

/// Implements `SET`: makes or raises a sequence, and then sets its end, if the command has one.
async fn set_to(server: &Server, sequences: &Arc<Sequences>, set: SetSequence, client: &Client) -> KeysResult {
    if set.condition == SetCondition::New {
        check_segments(server, sequences, &set.key).await?;
    }
    let (is_set, old) = raise_to(server, sequences, &set, client).await?;
    if let Some(end) = set.end.filter(|_| is_set) {
        expire(server, sequences, &set.key, end, EndCondition::default(), client).await?;
    }
    Ok(set.reply.answer(is_set, old).into())
}

/// Fails if CosId cannot count by the sequence, which it creates at each start: it takes all numbers of a segment, of
/// which others belong to other stores if they are more than 1 apart.
pub(super) async fn check_segments(server: &Server, sequences: &Arc<Sequences>, key: &Key) -> Result<(), ErrorReply> {
    if !(key.as_str().starts_with("cosid:{") && key.as_str().ends_with("}.adder")) {
        return Ok(());
    }
    let found = sequences.inspect(key).await.map_err(|error| of_sequence(&error, key.as_str()))?;
    let found = found.and_then(|view| view.rows.first().map(|(_, row)| row.spec.increment as usize));
    match found.unwrap_or_else(|| server.config.get().sequences.stores.len()) {
        0 | 1 => Ok(()),
        increment => Err(format!(
            "ERR sequence '{key}' counts by {increment}, and CosId takes every number of a segment: give its servers one \
             sequence-store, and the sequence increment 1"
        )
        .into()),
    }
}

/// Makes or raises a sequence. Returns whether that was done, and the value before.
async fn raise_to(
    server: &Server,
    sequences: &Arc<Sequences>,
    set: &SetSequence,
    client: &Client,
) -> Result<(bool, Option<i64>), ErrorReply> {
    let SetSequence { key, last, condition, .. } = set;
    let (last, condition) = (*last, *condition);
    let error_reply = |error: SequenceError| of_sequence(&error, key.as_str());
    let mut found = find(sequences, key).await?;
    if found.is_none() && condition != SetCondition::Old {
        let created =
            sequences.create(key.clone(), sequences.settings().spec(), Some(last), CreateOptions::default()).await;
        match created {
            Ok(_) => {
                server.audit(AuditAction::Sequence { what: "SET of a new sequence", name: key.as_str() }, client);
                return Ok((true, None));
            }
            // Another client was faster.
            Err(SequenceError::Exists(_)) => found = find(sequences, key).await?,
            Err(error) => return Err(error_reply(error)),
        }
    }
    let Some(view) = found.filter(|_| condition != SetCondition::New) else {
        return Ok((false, found_value(sequences, key).await?));
    };
    if let Some(unix_ms) = view.ended_unix_ms {
        return Err(error_reply(SequenceError::Refused(SequenceRefusal::Ended { unix_ms })));
    }
    if last < view.last {
        return Err(error_reply(SequenceError::Lower { last: view.last }));
    }
    if last > view.last {
        sequences.raise(key, last, false).await.map_err(error_reply)?;
        server.audit(AuditAction::Sequence { what: "SET that raises a sequence", name: key.as_str() }, client);
    }
    Ok((true, Some(view.last)))
}

async fn found_value(sequences: &Arc<Sequences>, key: &Key) -> Result<Option<i64>, ErrorReply> {
    Ok(find(sequences, key).await?.map(|view| view.last))
}

async fn delete(server: &Server, sequences: &Arc<Sequences>, keys: Vec<Key>, client: &Client) -> KeysResult {
    check_lookups(sequences, "DEL", keys.iter())?;
    let mut dropped = 0;
    for key in keys {
        dropped += i64::from(drop_one(server, sequences, &key, client).await?.is_some());
    }
    Ok(Value::Integer(dropped).into())
}

async fn get_delete(server: &Server, sequences: &Arc<Sequences>, key: Key, client: &Client) -> KeysResult {
    let dropped = drop_one(server, sequences, &key, client).await?;
    Ok(dropped.map_or(Value::Null, |last| Value::bulk(last.to_string())).into())
}

/// Drops a sequence if it exists and this is allowed. Returns its last value.
async fn drop_one(
    server: &Server,
    sequences: &Arc<Sequences>,
    key: &Key,
    client: &Client,
) -> Result<Option<i64>, ErrorReply> {
    let Some(view) = find(sequences, key).await? else { return Ok(None) };
    if !server.config.get().sequences.may_delete {
        return Err(format!(
            "ERR sequence '{key}' is not deleted: a counter that begins again repeats its values. 'sequence-delete yes' \
             allows it, and SEQUENCE DROP {} deletes it but keeps its last value",
            NameWord(key.as_str())
        )
        .into());
    }
    sequences.drop_sequence(key).await.map_err(|error| of_sequence(&error, key.as_str()))?;
    server.audit(AuditAction::Sequence { what: "DEL of a sequence", name: key.as_str() }, client);
    Ok(Some(view.last))
}

async fn hash(sequences: &Arc<Sequences>, key: &Key, query: &HashQuery) -> KeysResult {
    let view = if query.needs_max() { sequences.inspect(key).await } else { sequences.find(key).await };
    let view = view.map_err(|error| of_sequence(&error, key.as_str()))?;
    let fields = view.map(|view| {
        let given_in = |per_s: f64, s: f64| {
            #[expect(clippy::cast_possible_truncation, reason = "a rate is far smaller")]
            let values = (per_s * s).round() as i64;
            values
        };
        let [_, recently, long_term] = view.status.as_ref().map_or([0.0; 3], |status| status.per_s);
        HashFields {
            cur: view.last,
            max: view.rows.iter().map(|(_, row)| row.spec.max).max().unwrap_or(view.last),
            recently: given_in(recently, 300.0),
            long_term: given_in(long_term, 1800.0),
        }
    });
    Ok(query.answer(fields.as_ref()).into())
}

/// Parses the pattern of a request.
pub(super) fn pattern_of(pattern: &[u8]) -> Result<Pattern, ErrorReply> {
    Pattern::new(pattern, false).map_err(|error| format!("ERR {error}").into())
}

async fn names(server: &Server, sequences: &Arc<Sequences>, pattern: &[u8]) -> KeysResult {
    let pattern = pattern_of(pattern)?;
    let found = collect(server, sequences, ("KEYS", Some(&pattern)), |_| true).await?;
    Ok(EffectReply::Chunks(Box::new(listed(found))))
}

/// Answers up to `count` names of a hash slot, or their number.
pub(super) async fn in_slot(
    server: &Server,
    sequences: &Arc<Sequences>,
    slot: u16,
    count: Option<usize>,
) -> KeysResult {
    let is_in = |name: &Key| key_slot(name.as_str().as_bytes()) == slot;
    let mut found = collect(server, sequences, ("CLUSTER", None), is_in).await?;
    let Some(count) = count else { return Ok(Value::Integer(i64::try_from(found.len()).unwrap_or(i64::MAX)).into()) };
    found.truncate(count);
    Ok(EffectReply::Chunks(Box::new(listed(found))))
}

/// Returns the names of all sequences that match a pattern and a condition.
async fn collect(
    server: &Server,
    sequences: &Arc<Sequences>,
    (command, pattern): (&str, Option<&Pattern>),
    is_listed: impl Fn(&Key) -> bool,
) -> Result<Vec<Key>, ErrorReply> {
    // The collected names do not count in any client's memory yet.
    let _one_at_a_time = server.listing.lock().await;
    let count = sequences.count().await.map_err(|error| of_sequence(&error, "*"))?;
    if count > KEYS_MAX as u64 {
        return Err(format!(
            "ERR there are {count} sequences, and {command} lists at most {KEYS_MAX}: use SCAN or SEQUENCE LIST, which return \
             them in pages"
        )
        .into());
    }
    let (mut found, mut after) = (Vec::new(), String::new());
    // More sequences may be created meanwhile. A page may be short, so pages are not counted.
    while found.len() <= KEYS_MAX {
        let page = sequences.names(pattern, &after, PAGE_ROWS).await;
        let page = page.map_err(|error| of_sequence(&error, "*"))?;
        found.extend(page.names.into_iter().filter(&is_listed));
        let Some(next) = page.next else { break };
        after = next;
    }
    Ok(found)
}

/// Returns an array of names, which are made into values one after the other.
fn listed(names: Vec<Key>) -> Items<impl ExactSizeIterator<Item = Value> + Send> {
    let bytes = names.iter().map(|name| name.as_str().len() + size_of::<Key>()).sum();
    Items::new(names.into_iter().map(|name| Value::from(name.as_str())), bytes)
}

async fn scan(server: &Server, sequences: &Arc<Sequences>, request: KeyScan) -> KeysResult {
    let pattern = request.pattern.as_deref().map(pattern_of).transpose()?;
    let Some(after) = server.cursors.name_of(request.cursor) else {
        return Err("ERR invalid cursor: it is unknown or too old. Begin again with 0".into());
    };
    let page = if request.is_of_type {
        sequences.names(pattern.as_ref(), &after, request.count).await.map_err(|error| of_sequence(&error, "*"))?
    } else {
        NamePage::default()
    };
    let cursor = page.next.map_or(0, |next| server.cursors.of(&next));
    Ok(EffectReply::Chunks(Box::new(Page::new(Value::bulk(cursor.to_string()), listed(page.names), None))))
}

async fn size(sequences: &Arc<Sequences>) -> KeysResult {
    let count = sequences.count().await.map_err(|error| of_sequence(&error, "*"))?;
    Ok(Value::Integer(i64::try_from(count).unwrap_or(i64::MAX)).into())
}

/// Answers the first name after a random word, or the first of all.
async fn random(sequences: &Arc<Sequences>) -> KeysResult {
    const LETTERS: &[u8] = b"#-.0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz{}";
    let bits = noise::bits();
    let letters =
        bits.to_ne_bytes().into_iter().take(8).map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
    let words: [String; 2] = [letters.collect(), String::new()];
    for mut after in words {
        loop {
            // Several, since a row may have a name that no sequence can have.
            let page = sequences.names(None, &after, 10).await.map_err(|error| of_sequence(&error, "*"))?;
            if let Some(name) = page.names.first() {
                return Ok(Value::from(name.as_str()).into());
            }
            let Some(next) = page.next else { break };
            after = next;
        }
    }
    Ok(Value::Null.into())
}
