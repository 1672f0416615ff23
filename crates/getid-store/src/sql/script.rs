//! Statements on getid's own tables, and a reservation by them.
//!
//! A reservation is one packet with a transaction: the rows are locked and read, the database computes each new `next`
//! as [`native::apply_reservation`] does, and the rows are read again. A range counts only if the function, applied to
//! the row before, agrees with the database's result.
//!
//! Locks are taken in one order everywhere: rows of servers, the row of `getid_store`, rows of generators, then the
//! rows of sequences in the order of their keys. So getid's own transactions don't end in deadlocks.
//!
//! Invariant: no statement creates a row by accident. A reservation is an UPDATE. Only creations, opened periods, and
//! comparisons that find lost rows use INSERT.

use std::collections::{BTreeMap, BTreeSet};

use getid_core::server::beat::Credentials;
use getid_core::server::{Key, RESERVED_MAX, VALUE_MAX};

use super::beats::{self, BeatStatements};
use super::native::{self, COLUMNS, GENERATOR_COLUMNS, RawRow, column, policy_word, state_word};
use super::packet::{Dialect, Link, Packet, SqlRow, StatementResult};
use super::{
    Generator, GiveBackRequest, Reservation, Reservations, ReserveRequest, SequenceRow, ServerBeat, StoreError, Verdict,
};

/// Tries of a reservation whose row is changed by others.
const TRIES: usize = 3;

/// Reserves values by an UPDATE of each row.
pub(super) async fn reserve<L: Link>(
    link: &mut L,
    server: Option<Credentials>,
    asks: &[ReserveRequest],
) -> Result<Reservations, StoreError> {
    let mut answers: Vec<Option<Result<Reservation, Verdict>>> = vec![None; asks.len()];
    let mut beaten = None;
    for _ in 0..TRIES {
        let left = unanswered(asks, &answers);
        if left.is_empty() {
            break;
        }
        beaten = try_reserve(link, server, asks, &left, &mut answers).await?.or(beaten);
    }
    let moved = |ask: &ReserveRequest| {
        Verdict::BadRow(format!(
            "the row of '{}' was changed by other servers {TRIES} times during a reservation",
            ask.key
        ))
    };
    let each = answers.into_iter().zip(asks).map(|(answer, ask)| answer.unwrap_or_else(|| Err(moved(ask))));
    Ok(Reservations { server: beaten, each: each.collect() })
}

/// Returns the indexes of the requests without an answer, in the order of their keys. A second request for the same key
/// follows the first.
pub(super) fn unanswered<T>(asks: &[ReserveRequest], answers: &[Option<T>]) -> Vec<usize> {
    let mut left: Vec<usize> = (0..asks.len()).filter(|at| answers[*at].is_none()).collect();
    left.sort_by_key(|at| &asks[*at].key);
    left.dedup_by_key(|at| &asks[*at].key);
    left
}

/// Runs one transaction for the remaining requests, in the order of their keys.
async fn try_reserve<L: Link>(
    link: &mut L,
    server: Option<Credentials>,
    asks: &[ReserveRequest],
    left: &[usize],
    answers: &mut [Option<Result<Reservation, Verdict>>],
) -> Result<Option<ServerBeat>, StoreError> {
    let keys = || left.iter().map(|at| &asks[*at].key);
    let mut packet = Packet::transaction();
    let own = server.map(|server| BeatStatements::add::<L>(&mut packet, server, beats::LIVE));
    let before = packet.add(lock_rows_sql::<L>(keys()));
    let updates = reserve_sqls::<L>(left.iter().map(|at| &asks[*at]));
    let updates: Vec<usize> = updates.into_iter().map(|update| packet.add(update)).collect();
    let after = packet.add(format!("SELECT {COLUMNS} FROM {}", L::rows_of(keys())));
    let done = link.run(packet).await?;
    let beaten = own.map(|own| own.read(&done)).transpose()?;
    let (before, after) = (by_key(&done[before]), by_key(&done[after]));
    let listed: BTreeSet<String> = match &updates[..] {
        [update] if L::UPDATES_BY_LIST => done[*update].rows.iter().map(key_text).collect(),
        _ => BTreeSet::new(),
    };
    for (nth, at) in left.iter().enumerate() {
        let ask = &asks[*at];
        let is_updated = if L::UPDATES_BY_LIST {
            listed.contains(ask.key.as_str())
        } else {
            updates.get(nth).is_some_and(|update| done[*update].affected == 1)
        };
        answers[*at] = match (before.get(ask.key.as_str()), after.get(ask.key.as_str())) {
            (Some(before), Some(after)) => answer_of(ask, before, after, is_updated),
            _ => Some(Err(Verdict::NoSuch)),
        };
    }
    Ok(beaten)
}

/// Returns the result of a reservation, or `None` to try again if the row was changed meanwhile. A transaction excludes
/// that, but a table without transactions or a trigger does not.
fn answer_of(
    ask: &ReserveRequest,
    before: &RawRow,
    after: &RawRow,
    is_updated: bool,
) -> Option<Result<Reservation, Verdict>> {
    let (before, after) = match (before.clone().read(), after.clone().read()) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(bad), _) | (_, Err(bad)) => return Some(Err(Verdict::BadRow(bad.to_string()))),
    };
    match native::apply_reservation(&before, ask, is_updated.then_some(after.updated_unix_ms)) {
        Err(verdict) => Some(Err(verdict)),
        Ok(expected) if expected.last < expected.first => Some(Ok(expected)),
        Ok(expected) => {
            let is_ours = is_updated && (expected.row.next, expected.row.spec) == (after.next, after.spec);
            is_ours.then_some(Ok(Reservation { row: after, ..expected }))
        }
    }
}

/// Returns the UPDATE of each reservation, or one UPDATE for all, which returns the keys of the rows that it changes. A
/// row that gives no values, or has none left, stays as it is.
fn reserve_sqls<'a, D: Dialect>(asks: impl Iterator<Item = &'a ReserveRequest>) -> Vec<String> {
    let numbers = |ask: &ReserveRequest| (ask.values.clamp(1, RESERVED_MAX), ask.floor.clamp(0, VALUE_MAX + 1));
    if !D::UPDATES_BY_LIST {
        let update = |ask: &ReserveRequest| {
            let (values, floor) = numbers(ask);
            reserve_sql::<D>(&values.to_string(), &floor.to_string(), "", &is_row(&ask.key))
        };
        return asks.map(update).collect();
    }
    let row = |ask: &ReserveRequest| {
        let (key, (values, floor)) = (&ask.key, numbers(ask));
        format!("('{}', '{}', '{}', {values}, {floor})", key.name(), key.series(), key.period())
    };
    let from = format!(
        " FROM (SELECT '' AS of_name, '' AS of_series, '' AS of_period, 0 AS most, 0 AS lowest WHERE FALSE \
         UNION ALL VALUES {})",
        asks.map(row).collect::<Vec<_>>().join(", ")
    );
    let which = "name = of_name AND series = of_series AND period = of_period";
    vec![reserve_sql::<D>("most", "lowest", &from, which) + " RETURNING name, series, period"]
}

fn reserve_sql<D: Dialect>(values: &str, floor: &str, list: &str, which: &str) -> String {
    let ([greatest, least], div) = (D::GREATEST_LEAST, D::DIV);
    // The formula of `Spec::next_from` for three numbers.
    let from = format!("{greatest}(next, start, {floor})");
    let first = format!("({from} + (increment + offset_ - {from} % increment) % increment)");
    // MySQL assigns from left to right, so `next` comes last.
    format!(
        "UPDATE getid_sequence SET version = version + 1, updated = {}, next = {first} \
         + {least}({values}, (max_value - {first}) {div} increment + 1) * increment{list} \
         WHERE {which} AND state = 'live' AND increment > 0 AND offset_ BETWEEN 1 AND increment AND next >= 0 \
         AND {first} <= max_value AND (ends = 0 OR ends > {})",
        D::NOW,
        D::NOW
    )
}

/// Returns the UPDATE that gives the end of a reservation back, as [`native::apply_give_back`] does, if `is_allowed`.
pub(super) fn give_back_sql<D: Dialect>(end: &GiveBackRequest, is_allowed: &str) -> String {
    let GiveBackRequest { key, version, next } = end;
    format!(
        "UPDATE getid_sequence SET version = version + 1, updated = {}, next = {next} WHERE {} AND state = 'live' \
         AND version = {} AND next > {next} AND start <= {next} \
         AND {next} % NULLIF(increment, 0) = offset_ % NULLIF(increment, 0) AND {is_allowed}",
        D::NOW,
        is_row(key),
        column(*version)
    )
}

/// Returns the query that locks and reads the rows of these keys.
pub(super) fn lock_rows_sql<'a, D: Dialect>(keys: impl Iterator<Item = &'a Key>) -> String {
    format!("SELECT {COLUMNS} FROM {} ORDER BY name, series, period{}", D::rows_of(keys), D::FOR_UPDATE)
}

/// Returns the query that locks the row of the store, which each change of rows holds to its end.
pub(super) fn lock_store_sql<D: Dialect>() -> String {
    format!("SELECT changes FROM getid_store WHERE id = 1{}", D::FOR_UPDATE)
}

/// Query for the number of rows, without those of periods and dropped ones.
pub(super) const COUNT: &str =
    "SELECT COUNT(*) FROM getid_sequence WHERE series = '' AND period = '' AND state <> 'dropped'";

/// Returns the query for the number of these rows after a name, up to `limit`, and the name of the last one.
pub(super) fn count_after_sql<D: Dialect>(after: &str, limit: u64) -> String {
    format!(
        "SELECT COUNT(*), MAX(name) FROM (SELECT name FROM getid_sequence WHERE {} AND {IS_SEQUENCE} \
         AND state <> 'dropped' ORDER BY name LIMIT {limit}) AS counted",
        D::compared("name", ">", after)
    )
}

/// Returns the query of [`COUNT`] that stops at `limit`: the row of the store is locked for as long as it runs.
pub(super) fn count_up_to_sql(limit: u64) -> String {
    format!(
        "SELECT COUNT(*) FROM (SELECT 1 AS one FROM getid_sequence WHERE series = '' AND period = '' \
         AND state <> 'dropped' LIMIT {}) AS counted",
        column(limit)
    )
}

/// Condition that a row is a sequence's, and not a key's or a period's.
pub(super) const IS_SEQUENCE: &str = "series = '' AND period = ''";

/// Returns the query of these columns of a list.
pub(super) fn list_sql(columns: &str, condition: &str, limit: u32) -> String {
    format!(
        "SELECT {columns} FROM getid_sequence WHERE {condition} AND state <> 'dropped' \
         ORDER BY name, series, period LIMIT {limit}"
    )
}

/// Returns the query of these columns of a sequence's row in a list. With a LIMIT, PostgreSQL would read the whole
/// table: it expects many rows of this name without a key and a period.
pub(super) fn listed_sql<D: Dialect>(columns: &str, name: &str) -> String {
    let is_named = D::compared("name", "=", name);
    format!("SELECT {columns} FROM getid_sequence WHERE {is_named} AND {IS_SEQUENCE} AND state <> 'dropped'")
}

/// Returns the query for the name of the first generator after this one.
pub(super) fn next_generator_sql<D: Dialect>(after: &str) -> String {
    format!("SELECT name FROM getid_generator WHERE {} ORDER BY name LIMIT 1", D::compared("name", ">", after))
}

/// Returns the query for the keys of a generator's series, after the key `after`, which is empty for the first ones.
pub(super) fn series_sql<D: Dialect>(name: &str, after: &str, limit: u32) -> String {
    format!(
        "SELECT series FROM getid_sequence WHERE {} AND {} AND period = '' ORDER BY series LIMIT {limit}",
        D::compared("name", "=", name),
        D::compared("series", ">", after)
    )
}

/// Returns the query for rows of generators, with an ending.
pub(super) fn generators_sql<D: Dialect>(names: Option<&[String]>, ending: &str) -> String {
    let condition =
        names.map_or("TRUE".to_owned(), |names| or(names.iter().map(|name| D::compared("name", "=", name))));
    format!("SELECT {GENERATOR_COLUMNS} FROM getid_generator WHERE {condition}{ending}")
}

/// Returns the statement that writes the row of a generator.
pub(super) fn write_generator_sql<D: Dialect>(generator: &Generator) -> String {
    let Generator { name, declaration, reset, newest, closed_through, keys } = generator;
    let texts = [name, declaration, reset, newest, closed_through].map(|text| D::text(text)).join(", ");
    let columns = ["declaration", "reset", "newest", "closed_through", "keys_count", "updated"];
    format!(
        "INSERT INTO getid_generator ({GENERATOR_COLUMNS}, updated) VALUES ({texts}, {}, {}){}",
        column(*keys),
        D::NOW,
        D::or_overwrite("name", &columns)
    )
}

/// Returns rows by their keys as text.
pub(super) fn by_key(done: &StatementResult) -> BTreeMap<String, RawRow> {
    done.rows.iter().map(|row| (key_text(row), RawRow::of(row))).collect()
}

/// Returns the text of the key in a row's first three columns.
fn key_text(row: &SqlRow) -> String {
    let [mut text, series, period] = [0, 1, 2].map(|at| row.shown(at));
    for (mark, part) in [('/', series), ('@', period)].into_iter().filter(|(_, part)| !part.is_empty()) {
        text.push(mark);
        text.push_str(&part);
    }
    text
}

/// Returns the condition that a row has this key.
pub(super) fn is_row(key: &Key) -> String {
    format!("name = '{}' AND series = '{}' AND period = '{}'", key.name(), key.series(), key.period())
}

/// Joins conditions, of which one must be true.
pub(super) fn or(conditions: impl Iterator<Item = String>) -> String {
    let any: Vec<String> = conditions.map(|condition| format!("({condition})")).collect();
    if any.is_empty() { "FALSE".to_owned() } else { any.join(" OR ") }
}

/// Returns the INSERT of rows, each as [`inserted_row`] writes it.
pub(super) fn insert_sql(rows: &[String]) -> String {
    format!("INSERT INTO getid_sequence ({COLUMNS}, changed) VALUES {}", rows.join(", "))
}

/// Returns a row of an INSERT, with its times as expressions.
pub(super) fn inserted_row(row: &SequenceRow, changed: i64, created: &str, updated: &str) -> String {
    let SequenceRow { key, next, version, generation, spec, state, ends_unix_ms, .. } = row;
    format!(
        "('{}', '{}', '{}', {next}, {}, {}, {}, {}, {}, {}, {}, '{}', '{}', {created}, {updated}, {ends_unix_ms}, \
         {changed})",
        key.name(),
        key.series(),
        key.period(),
        column(*version),
        column(*generation),
        spec.start,
        spec.increment,
        spec.offset,
        spec.cache,
        spec.max,
        policy_word(spec.policy),
        state_word(*state)
    )
}

/// Returns a row of an INSERT, with its own times.
pub(super) fn new_row(row: &SequenceRow, changed: i64) -> String {
    inserted_row(row, changed, &row.created_unix_ms.to_string(), &row.updated_unix_ms.to_string())
}

/// Returns the statement that writes the whole row, over the one with this version, or as a new one.
pub(super) fn write_sql(changed: i64, seen: Option<u64>, row: &SequenceRow) -> String {
    let SequenceRow { key, next, version, generation, spec, state, created_unix_ms, updated_unix_ms, ends_unix_ms } =
        row;
    let Some(seen) = seen else { return insert_sql(&[new_row(row, changed)]) };
    format!(
        "UPDATE getid_sequence SET next = {next}, version = {}, generation = {}, changed = {changed}, start = {}, \
         increment = {}, offset_ = {}, cache = {}, max_value = {}, policy = '{}', state = '{}', \
         created = {created_unix_ms}, updated = {updated_unix_ms}, ends = {ends_unix_ms} WHERE {} AND version = {}",
        column(*version),
        column(*generation),
        spec.start,
        spec.increment,
        spec.offset,
        spec.cache,
        spec.max,
        policy_word(spec.policy),
        state_word(*state),
        is_row(key),
        column(seen)
    )
}
