//! Known scripts: values are drawn as a turn draws them, one request at a time.

use std::sync::Arc;
use std::time::Duration;

use getid_core::server::{Key, Run, SequenceRefusal, SequenceRequest, Spec};
use tokio::time::Instant;

use super::EffectReply;
use super::keys::check_segments;
use crate::Server;
use crate::audit::AuditAction;
use crate::error_replies::{of_sequence, of_standby};
use crate::registry::Client;
use getid_engine::generators::sequence::{CreateOptions, DrawOutcome, SequenceError, Sequences};
use getid_redis::resp::{ErrorReply, Value};
use getid_redis::session::{SEQUENCES_OFF, ScriptEffect};
use getid_text::name_hash::hash_of;

/// Default number of values that Redisson takes at a time.
const REDISSON_ALLOCATION: u32 = 5000;

type ScriptResult = Result<Value, ErrorReply>;

pub(super) async fn perform(server: &Arc<Server>, effect: ScriptEffect, client: &Client) -> EffectReply {
    if let Some(refusal) = server.generators.standby_refusal() {
        return Value::Error(of_standby(&refusal)).into();
    }
    let Some(sequences) = server.generators.sequences() else { return Value::Error(SEQUENCES_OFF).into() };
    let outcome = match effect {
        ScriptEffect::Count { key, values, only_if_present } => count(sequences, &key, values, only_if_present).await,
        ScriptEffect::Init { key, first, allocation } => {
            let made = init(sequences, &key, first, allocation).await;
            if made == Ok(Value::Integer(1)) {
                log_creation(server, &key, client);
            }
            made
        }
        ScriptEffect::CountFrom { key, last, values } => {
            count_from(server, sequences, (&key, last), values, client).await
        }
        ScriptEffect::Allocate(key) => allocate(server, sequences, &key).await,
    };
    outcome.unwrap_or_else(Value::Error).into()
}

/// Draws consecutive values of a sequence, with the wait of a turn.
async fn take(sequences: &Arc<Sequences>, key: &Key, values: u32) -> Result<Run, ErrorReply> {
    let (name, hash) = (key.as_str(), hash_of(key.as_str().as_bytes()));
    let until = Instant::now() + Duration::from_millis(sequences.wait_ms());
    draw_run(sequences, (hash, name), values, until).await.map_err(|refusal| ErrorReply::of_sequence(&refusal, name))
}

/// Draws consecutive values of the sequence with this key, and its hash. Waits until `until` at most.
pub(super) async fn draw_run(
    sequences: &Arc<Sequences>,
    (hash, key): (u64, &str),
    values: u32,
    until: Instant,
) -> Result<Run, SequenceRefusal> {
    let (mut runs, mut left) = (Vec::new(), Vec::new());
    let mut asks = std::iter::once(SequenceRequest { values, times: 1 });
    if sequences.try_draw(sequences.clock_ms(), hash, key, &mut asks, &mut runs, &mut left)? == DrawOutcome::Waits {
        sequences.draw(hash, key, left, until, &mut runs).await?;
    }
    // One request is one run, which a successful draw returns.
    runs.first().copied().ok_or(SequenceRefusal::Closed)
}

async fn count(sequences: &Arc<Sequences>, key: &Key, values: u32, only_if_present: bool) -> ScriptResult {
    if only_if_present {
        let found = sequences.find(key).await.map_err(|error| of_sequence(&error, key.as_str()))?;
        if found.is_none() {
            return Ok(Value::Null);
        }
    }
    Ok(Value::Integer(take(sequences, key, values).await?.last_of(0)))
}

/// Draws values of a sequence, which begins above `last` if it is new.
async fn count_from(
    server: &Arc<Server>,
    sequences: &Arc<Sequences>,
    (key, last): (&Key, i64),
    values: u32,
    client: &Client,
) -> ScriptResult {
    let failed = |error: SequenceError| of_sequence(&error, key.as_str());
    check_segments(server, sequences, key).await?;
    if sequences.find(key).await.map_err(failed)?.is_none() {
        let spec = sequences.settings().spec();
        match sequences.create(key.clone(), spec, Some(last), CreateOptions::default()).await {
            Ok(_) => log_creation(server, key, client),
            // Another client was faster.
            Err(SequenceError::Exists(_)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    count(sequences, key, values, false).await
}

fn log_creation(server: &Server, key: &Key, client: &Client) {
    server.audit(AuditAction::Sequence { what: "EVAL that makes a sequence", name: key.as_str() }, client);
}

async fn init(sequences: &Arc<Sequences>, key: &Key, first: i64, allocation: u32) -> ScriptResult {
    let spec = Spec { start: first, cache: allocation, ..Spec::default() };
    match sequences.create(key.clone(), spec, None, CreateOptions::default()).await {
        Ok(_) => Ok(Value::Integer(1)),
        Err(SequenceError::Exists(_)) => Ok(Value::Integer(0)),
        Err(error) => Err(of_sequence(&error, key.as_str())),
    }
}

/// Implements Redisson's allocation. Redisson keeps its size in a key of its own; here it is the sequence's `cache`.
async fn allocate(server: &Server, sequences: &Arc<Sequences>, key: &Key) -> ScriptResult {
    let view = sequences.inspect(key).await.map_err(|error| of_sequence(&error, key.as_str()))?;
    let spec = view.and_then(|view| view.rows.first().map(|(_, row)| row.spec));
    if let Some(Spec { increment: increment @ 2.., .. }) = spec {
        return Err(format!(
            "ERR sequence '{key}' has increment {increment}, and Redisson counts by 1 within its allocation: use INCR, \
             which adds the increment"
        )
        .into());
    }
    let cache = spec.map(|spec| spec.cache).filter(|&cache| cache > 0);
    let values = cache.unwrap_or(REDISSON_ALLOCATION).min(server.config.get().sequences.incrby_max);
    let run = take(sequences, key, values).await?;
    Ok(Value::Array([run.first, values.into()].map(|number: i64| Value::bulk(number.to_string())).to_vec()))
}
