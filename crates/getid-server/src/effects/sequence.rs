//! `SEQUENCE`: the operator's commands for sequences.

use std::sync::Arc;

use getid_core::server::beat::AwaitedServer;
use getid_core::server::{CounterDeclaration, Key, Run, SequenceRefusal, SequenceStatus, Spec, WaitPolicy};

use super::chunks::{Items, Page};
use super::keys::pattern_of;
use super::{EffectReply, numbers};
use crate::Server;
use crate::audit::AuditAction;
use crate::error_replies::{of_counter, of_sequence, of_sequence_store, of_standby};
use crate::registry::Client;
use getid_engine::generators::sequence::{
    CounterOpening, CreateOptions, RaiseReport, RangeRequest, SequenceError, SequenceView, Sequences, StoreStatus,
};
use getid_redis::resp::{ErrorReply, Value};
use getid_redis::session::{SEQUENCES_OFF, SequenceEffect, SeriesCursor, SeriesReader};
use getid_store::sql::{RowState, SequenceRow, TableKind};
use getid_text::timestamp;

type SequenceResult = Result<Value, ErrorReply>;

pub(super) async fn perform(server: &Arc<Server>, effect: SequenceEffect, client: &Client) -> EffectReply {
    // A standby describes sequences, and changes them for operators; it gives no values.
    if matches!(effect, SequenceEffect::Next { .. })
        && let Some(refusal) = server.generators.standby_refusal()
    {
        return Value::Error(of_standby(&refusal)).into();
    }
    let Some(sequences) = server.generators.sequences() else { return Value::Error(SEQUENCES_OFF).into() };
    let act = |what: &'static str, key: &Key| server.audit(AuditAction::Sequence { what, name: key.as_str() }, client);
    let outcome = match effect {
        SequenceEffect::Create { key, spec, is_fresh } => {
            let made = create(sequences, &key, spec, is_fresh).await;
            made.inspect(|_| act("SEQUENCE CREATE", &key))
        }
        SequenceEffect::Info(key) => info(server, sequences, &key).await,
        SequenceEffect::List { pattern, after, count, hidden } => {
            let listed = list(sequences, pattern, &after, count, hidden).await;
            return listed.unwrap_or_else(|error| Value::Error(error).into());
        }
        SequenceEffect::Alter { key, words } => {
            let altered = sequences.alter(&key, words).await.map(|_| changed(sequences));
            altered.map_err(|error| of_sequence(&error, key.as_str())).inspect(|_| act("SEQUENCE ALTER", &key))
        }
        SequenceEffect::Raise { key, last } => {
            let raised = match gapless(server, &key) {
                Some(counter) => numbers::raise(server, sequences, (&counter, key.series()), last, client).await,
                None => raise(server, sequences, &key, last).await,
            };
            raised.inspect(|_| act("SEQUENCE RAISE", &key))
        }
        SequenceEffect::Confirm(key) => {
            confirm(server, sequences, &key).await.inspect(|_| act("SEQUENCE CONFIRM", &key))
        }
        SequenceEffect::Declare(key) => {
            declare(server, sequences, &key).await.inspect(|_| act("SEQUENCE DECLARE", &key))
        }
        SequenceEffect::Drop(key) => {
            let dropped = sequences.drop_sequence(&key).await.map(holds);
            dropped.map_err(|error| of_sequence(&error, key.as_str())).inspect(|_| act("SEQUENCE DROP", &key))
        }
        SequenceEffect::Adopt { key, table, id } => {
            adopt(sequences, &key, table, id).await.inspect(|_| act("SEQUENCE ADOPT", &key))
        }
        SequenceEffect::CreateSeries(key) => {
            create_series(server, sequences, &key).await.inspect(|_| act("SERIES CREATE", &key))
        }
        SequenceEffect::ListSeries { name, after, count, reader } => {
            list_series(server, sequences, &name, after, count, &reader).await
        }
        SequenceEffect::Next { key, values, above } => {
            next(sequences, &key, range_request(server, values, above)).await
        }
        SequenceEffect::Release { nonce, margin } => release(server, sequences, &nonce, margin, client).await,
        SequenceEffect::Backup(name) => backup(server, sequences, &name, client).await,
        SequenceEffect::Stores => Ok(Value::Array(sequences.stores().iter().map(store).collect())),
    };
    outcome.unwrap_or_else(Value::Error).into()
}

/// Removes a server that never runs again from a shared store.
async fn release(
    server: &Server,
    sequences: &Arc<Sequences>,
    nonce: &str,
    margin: u32,
    client: &Client,
) -> SequenceResult {
    let released = sequences.release(nonce, margin).await.map(|()| Value::OK);
    released
        .map_err(|error| of_sequence_store(&error))
        .inspect(|_| server.audit(AuditAction::Sequence { what: "SEQUENCE STORES CONFIRM", name: nonce }, client))
}

/// Copies the server's own store into a new file of its folder.
async fn backup(server: &Server, sequences: &Arc<Sequences>, name: &str, client: &Client) -> SequenceResult {
    let folder = server.config.get().state_dir.clone();
    let copied = sequences.backup(&folder, name).await;
    copied
        .map(|bytes| Value::Simple(format!("OK {bytes} bytes in {name}").into()))
        .map_err(|error| of_sequence_store(&error))
        .inspect(|_| server.audit(AuditAction::Sequence { what: "SEQUENCE BACKUP", name }, client))
}

async fn create(sequences: &Arc<Sequences>, key: &Key, spec: Spec, is_fresh: bool) -> SequenceResult {
    let how = CreateOptions { above_dropped: !is_fresh, is_fresh };
    match sequences.create(key.clone(), spec, None, how).await {
        Ok(_) => Ok(Value::OK),
        Err(error) => Err(of_sequence(&error, key.as_str())),
    }
}

/// Returns the sequence behind a name: a counter's current one, with the options of its new row, or the sequence
/// itself.
fn counted_by(server: &Server, key: &Key) -> Result<(Key, Option<Spec>), ErrorReply> {
    Ok(counter_of(server, key)?
        .map_or_else(|| (key.clone(), None), |(key, counter_opening)| (key, Some(counter_opening.spec))))
}

/// Returns the gapless generator of this name, whose counter only its ledger changes.
fn gapless(server: &Server, key: &Key) -> Option<Arc<CounterDeclaration>> {
    let counters = &server.settings.get().counters;
    let counter = counters.get(counters.find(key.name().as_bytes())?)?;
    counter.gapless().map(|_| Arc::clone(counter))
}

/// Returns the current sequence of the counter with this name, or with this name and key; `None` if it is no counter.
fn counter_of(server: &Server, key: &Key) -> Result<Option<(Key, CounterOpening)>, ErrorReply> {
    let counters = &server.settings.get().counters;
    let declared = counters.find(key.name().as_bytes()).and_then(|place| counters.get(place));
    let Some(declaration) = declared else { return Ok(None) };
    let counter = server.generators.counter(declaration, key.series());
    let counter = counter.map_err(|refusal| of_counter(&refusal, key.as_str()))?;
    Ok(Some((Key::parse(&counter.key).unwrap_or_else(|| key.clone()), counter.counter_opening)))
}

/// A change of a generator's counter that is made in its newest period.
#[derive(Clone, Copy)]
enum CounterChange {
    /// This server's declaration replaces the store's.
    Declare,
    /// The series of a key is created.
    CreateSeries,
}

/// Replaces the declaration of a counter.
async fn declare(server: &Server, sequences: &Arc<Sequences>, key: &Key) -> SequenceResult {
    change_counter(server, sequences, key, CounterChange::Declare).await.map(|()| changed(sequences))
}

/// Creates the series of a key.
async fn create_series(server: &Server, sequences: &Arc<Sequences>, key: &Key) -> SequenceResult {
    change_counter(server, sequences, key, CounterChange::CreateSeries).await.map(|()| Value::OK)
}

/// Changes a counter. Its period here may be older than the newest one in the store: then it is changed there.
async fn change_counter(
    server: &Server,
    sequences: &Arc<Sequences>,
    key: &Key,
    change: CounterChange,
) -> Result<(), ErrorReply> {
    for _ in 0..2 {
        let Some((counted, counter_opening)) = counter_of(server, key)? else {
            return Err(format!(
                "ERR '{key}' is not a generator of counted numbers: 'generator {key} sequence' or 'generator {key} serial \
                 TEMPLATE' in the configuration declares one"
            )
            .into());
        };
        let begins = counter_opening.spec;
        let outcome = match change {
            CounterChange::Declare => sequences.declare(counted, counter_opening).await,
            CounterChange::CreateSeries => sequences.create_series(counted, counter_opening).await,
        };
        match outcome {
            Err(SequenceError::Refused(SequenceRefusal::Newer { period })) => {
                server.generators.advance_period(key.name(), &period);
            }
            changed => return changed.map_err(|error| error_reply(&error, key, Some(begins))),
        }
    }
    Err(format!("ERR sequence '{key}': its periods changed meanwhile: repeat the command").into())
}

async fn raise(server: &Server, sequences: &Arc<Sequences>, key: &Key, last: i64) -> SequenceResult {
    let (counted, begins) = counted_by(server, key)?;
    let outcome = match (sequences.raise(&counted, last, true).await, begins) {
        // A counter's row is begun automatically, unless this server has had values of it: then its store was lost, and
        // the operator chooses where it continues.
        (Err(SequenceError::Refused(SequenceRefusal::NoSuch)), Some(spec)) => {
            // A key is counted. If its counter was lost, it is not begun, and has its key already.
            let is_series = !key.series().is_empty();
            if is_series && create_series(server, sequences, key).await.is_ok() {
                let raised = sequences.raise(&counted, last, true).await.map(holds);
                return raised.map_err(|error| error_reply(&error, key, begins));
            }
            let how = CreateOptions { above_dropped: true, ..CreateOptions::default() };
            sequences.create(counted, spec, Some(last), how).await.map(|_| changed(sequences))
        }
        (raised, _) => raised.map(holds),
    };
    outcome.map_err(|error| error_reply(&error, key, begins))
}

async fn confirm(server: &Server, sequences: &Arc<Sequences>, key: &Key) -> SequenceResult {
    let (counted, begins) = counted_by(server, key)?;
    let has_ledger = gapless(server, key).is_some();
    let confirmed = sequences.confirm(&counted, has_ledger).await.map(|_| changed(sequences));
    confirmed.map_err(|error| error_reply(&error, key, begins))
}

/// Returns the error reply about a sequence, or about a counter whose row `begins` automatically.
fn error_reply(error: &SequenceError, key: &Key, begins: Option<Spec>) -> ErrorReply {
    match (error, begins) {
        (SequenceError::Refused(SequenceRefusal::NoSuch), Some(_)) => format!(
            "ERR generator '{key}' has no row in its store now: the first GETID begins it, unless this server already \
             reserved values of it; 'SEQUENCE RAISE {key} N' begins it above N"
        )
        .into(),
        _ => of_sequence(error, key.as_str()),
    }
}

/// Returns the answer of a change: the time after which no server gives an older value.
fn holds(raised: RaiseReport) -> Value {
    match raised.effective_in_s {
        0 => Value::OK,
        s => Value::Simple(format!("OK here, and on every server in {s} s").into()),
    }
}

fn changed(sequences: &Sequences) -> Value {
    holds(RaiseReport { effective_in_s: holds_in_s(sequences) })
}

/// Returns the seconds until no server gives values from before a change.
fn holds_in_s(sequences: &Sequences) -> u64 {
    let is_shared = sequences.stores().iter().any(|store| store.is_shared);
    if is_shared { sequences.settings().ride_out_s } else { 0 }
}

async fn info(server: &Server, sequences: &Arc<Sequences>, key: &Key) -> SequenceResult {
    let (counted, begins) = counted_by(server, key)?;
    let view = sequences.inspect(&counted).await;
    let view = view.and_then(|view| view.ok_or(SequenceError::Refused(SequenceRefusal::NoSuch)));
    let view = view.map_err(|error| error_reply(&error, key, begins))?;
    let mut fields = describe(&view, &sequences.stores(), sequences.clock_ms());
    fields.push(("raise_effective_in_s", Value::Integer(holds_in_s(sequences).try_into().unwrap_or(i64::MAX))));
    Ok(Value::map(fields))
}

/// Returns all fields of a sequence.
fn describe(view: &SequenceView, stores: &[StoreStatus], clock_ms: u64) -> Vec<(&'static str, Value)> {
    let mut fields = vec![("name", Value::from(view.key.as_str())), ("last", Value::Integer(view.last))];
    if let Some((_, row)) = view.rows.first() {
        fields.extend(options(&row.spec));
        fields.push(("ends", end_of(row)));
    }
    fields.extend(held(view.status.as_ref(), clock_ms));
    let rows = view.rows.iter().map(|(index, row)| {
        let shown = stores.get(usize::from(*index)).map_or("", |store| store.shown.as_str());
        of_row(row, shown)
    });
    fields.push(("rows", Value::Array(rows.collect())));
    fields
}

fn options(spec: &Spec) -> [(&'static str, Value); 6] {
    let policy = match spec.policy {
        None => "default",
        Some(WaitPolicy::Wait) => "wait",
        Some(WaitPolicy::Error) => "error",
    };
    [
        ("start", Value::Integer(spec.start)),
        ("increment", Value::Integer(spec.increment.into())),
        ("offset", Value::Integer(spec.offset.into())),
        ("cache", Value::Integer(spec.cache.into())),
        ("max", Value::Integer(spec.max)),
        ("policy", Value::from(policy)),
    ]
}

/// Returns this server's state of a sequence; nulls and zeros if it is not in memory.
fn held(status: Option<&SequenceStatus>, clock_ms: u64) -> Vec<(&'static str, Value)> {
    let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let or_null = |number: Option<i64>| number.map_or(Value::Null, Value::Integer);
    let [per_10_s, per_5_min, per_30_min] = status.map_or([0.0; 3], |status| status.per_s);
    let of = |field: fn(&SequenceStatus) -> u64| number(status.map_or(0, field));
    let fetched = status.and_then(|status| status.fetched_ms).map(|at| number(clock_ms.saturating_sub(at)));
    vec![
        ("last_given_here", or_null(status.and_then(|status| status.last_given))),
        ("reserved_until", or_null(status.and_then(|status| status.reserved_until))),
        ("left", of(|status| status.left)),
        // Values in memory, and those of a running fetch.
        ("a_kill_skips", of(|status| status.left.saturating_add(status.asked.into()))),
        ("given", of(|status| status.used)),
        ("per_s_in_10_s", Value::Double(rounded(per_10_s))),
        ("per_s_in_5_min", Value::Double(rounded(per_5_min))),
        ("per_s_in_30_min", Value::Double(rounded(per_30_min))),
        ("reserved_at_a_time", of(|status| status.segment_values.into())),
        ("reserved_ms_ago", fetched.unwrap_or(Value::Null)),
        ("reserved_in_ms", of(|status| status.fetch_took_ms.into())),
        ("waits", of(|status| status.waits.into())),
        ("waiting", of(|status| status.waiting as u64)),
        ("errors", of(|status| status.errors.into())),
    ]
}

fn rounded(per_s: f64) -> f64 {
    (per_s * 1000.0).round() / 1000.0
}

fn of_row(row: &SequenceRow, store: &str) -> Value {
    let time = |unix_ms: i64| match unix_ms {
        0 => Value::Null,
        unix_ms => Value::bulk(timestamp::format_rfc3339(unix_ms)),
    };
    let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let state = match row.state {
        RowState::Live => "live",
        RowState::Dropped => "dropped",
        RowState::WentBack => "went back",
        RowState::Ledger => "ledger",
    };
    Value::map([
        ("store", Value::from(store)),
        ("state", Value::from(state)),
        ("next", Value::Integer(row.next)),
        ("increment", Value::Integer(row.spec.increment.into())),
        ("offset", Value::Integer(row.spec.offset.into())),
        ("version", number(row.version)),
        ("generation", number(row.generation)),
        ("created", time(row.created_unix_ms)),
        ("updated", time(row.updated_unix_ms)),
        ("ends", end_of(row)),
    ])
}

/// Answers a page of names and rows, after the cursor that continues it. Faults of unreadable rows come last, if there
/// are any.
async fn list(
    sequences: &Arc<Sequences>,
    pattern: Option<Vec<u8>>,
    after: &str,
    count: u32,
    hidden: Vec<String>,
) -> Result<EffectReply, ErrorReply> {
    let pattern = pattern.as_deref().map(pattern_of).transpose()?;
    let page = sequences.list(pattern.as_ref(), after, count).await.map_err(|error| of_sequence(&error, "*"))?;
    let bytes = page.rows.iter().map(|row| row.key.as_str().len() + size_of::<SequenceRow>()).sum();
    let items = Items::new(page.rows.into_iter().map(move |row| listed(&row, &hidden)), bytes);
    let unreadable: Vec<_> = page.bad.into_iter().map(|bad| Value::from(bad.error.as_str())).collect();
    let rest = Some(unreadable).filter(|all| !all.is_empty()).map(Value::Array);
    let cursor = Value::from(page.next.as_deref().unwrap_or_default());
    Ok(EffectReply::Chunks(Box::new(Page::new(cursor, items, rest))))
}

/// Answers a page of the keys of a generator's series that `reader` may read, after the cursor that continues it. A
/// page may end at a key that it may not read: then the cursor is a number, which does not reveal the key.
async fn list_series(
    server: &Server,
    sequences: &Arc<Sequences>,
    name: &str,
    after: SeriesCursor,
    count: u32,
    reader: &SeriesReader,
) -> SequenceResult {
    let after = match after {
        SeriesCursor::Key(key) => Some(key),
        SeriesCursor::Number(number) => {
            let series = server.cursors.name_of(number);
            series.and_then(|series| series.strip_prefix(name)?.strip_prefix('/').map(str::to_owned))
        }
    };
    let Some(after) = after else {
        return Err("ERR invalid cursor: it is unknown or too old. Begin again without CURSOR".into());
    };
    let keys = sequences.series(name.to_owned(), after, count).await.map_err(|error| of_sequence(&error, name))?;
    let is_full = keys.len() >= count as usize;
    let may_read = |series: &&String| Key::of(name, series, "").is_some_and(|key| reader.may_read(&key));
    let cursor = match keys.last().filter(|_| is_full) {
        None => SeriesCursor::default(),
        Some(last) if may_read(&last) => SeriesCursor::Key(last.clone()),
        Some(last) => SeriesCursor::Number(server.cursors.of(&format!("{name}/{last}"))),
    };
    let shown = keys.iter().filter(may_read).map(|series| Value::from(series.as_str()));
    Ok(Value::Array(vec![Value::bulk(cursor.to_string()), Value::Array(shown.collect())]))
}

/// Returns the fields of a row. The next value of a `hidden` one is null.
fn listed(row: &SequenceRow, hidden: &[String]) -> Value {
    let is_hidden = hidden.iter().any(|name| name == row.key.as_str());
    let next = if is_hidden { Value::Null } else { Value::Integer(row.next) };
    let mut fields = vec![("name", Value::from(row.key.as_str())), ("next", next)];
    fields.extend(options(&row.spec));
    fields.push(("ends", end_of(row)));
    Value::map(fields)
}

/// Returns the end of a row, or null.
fn end_of(row: &SequenceRow) -> Value {
    match row.ends_unix_ms {
        0 => Value::Null,
        unix_ms => Value::bulk(timestamp::format_rfc3339(unix_ms)),
    }
}

/// Creates a sequence that continues above the maximum in a row of `id_generator`.
async fn adopt(sequences: &Arc<Sequences>, key: &Key, table: String, id: i64) -> SequenceResult {
    let error_reply = |error: SequenceError| of_sequence(&error, key.as_str());
    let max = sequences.maximum_of(table, id).await.map_err(error_reply)?;
    let how = CreateOptions { above_dropped: true, ..CreateOptions::default() };
    let made = sequences.create(key.clone(), Spec::default(), Some(max), how).await.map_err(error_reply)?;
    let first = made.rows.iter().map(|(_, row)| row.next).min().unwrap_or(max.saturating_add(1));
    Ok(Value::Simple(
        format!(
            "OK {key} begins at {first}. Stop the job that raised the maximum and the Redis that counted below it: \
             from now on their values are duplicates"
        )
        .into(),
    ))
}

/// Returns the request for a range of `values`, or of as many as one request may get.
pub(super) fn range_request(server: &Server, values: u32, above: Option<i64>) -> RangeRequest {
    RangeRequest { values: values.min(server.config.get().sequences.incrby_max), above }
}

async fn next(sequences: &Arc<Sequences>, key: &Key, request: RangeRequest) -> SequenceResult {
    let run = sequences.next_range(key, request).await.map_err(|error| of_sequence(&error, key.as_str()))?;
    let Run { first, increment, .. } = run;
    Ok(Value::Array([first, run.last_of(0), increment.into()].map(Value::Integer).to_vec()))
}

/// Returns a server that a store waits for.
fn awaited(server: &AwaitedServer) -> Value {
    let seen = server.seen_ms_ago.map_or(Value::Null, |ms| Value::Integer(i64::try_from(ms).unwrap_or(i64::MAX)));
    Value::map([
        ("nonce", Value::from(server.nonce.to_string().as_str())),
        ("address", Value::from(server.address.as_str())),
        ("seen_ms_ago", seen),
    ])
}

fn store(status: &StoreStatus) -> Value {
    let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let table = match status.table {
        TableKind::Native => "native",
        TableKind::Leaf => "leaf",
        TableKind::Tinyid => "tinyid",
    };
    Value::map([
        ("store", Value::from(status.shown.as_str())),
        ("product", Value::from(status.product.as_str())),
        ("uuid", Value::from(status.uuid.as_str())),
        ("table", Value::from(table)),
        ("shared", Value::from(if status.is_shared { "yes" } else { "no" })),
        ("state", Value::from(status.state())),
        ("servers", number(status.servers as u64)),
        ("waits_for", Value::Array(status.awaited.iter().map(awaited).collect())),
        ("for_ms", number(status.for_ms)),
        ("reason", status.reason.as_deref().map_or(Value::Null, Value::from)),
        ("statements", number(status.statements)),
        ("errors", number(status.errors)),
        ("slowest_ms", number(status.slowest_ms)),
        ("abandoned", number(status.abandoned as u64)),
        ("reserved", number(status.reserved)),
        ("warnings", Value::Array(status.warnings.iter().map(|text| Value::from(text.as_str())).collect())),
    ])
}
