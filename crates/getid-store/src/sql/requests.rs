//! The tables of request keys in any database. [`judge_claim`] decides about a claim; the databases lock, read and
//! write the rows.
//!
//! | `getid_request` | a row for each request ([`RequestRow`]) |
//! |---|---|
//! | `owner`, `name`, `request` | [`RequestScope`], the primary key, compared byte for byte |
//! | `fingerprint` | the arguments of the request |
//! | `reply` | its reply |
//! | `made`, `kept_until` | Unix ms; `kept_until` has an index |
//!
//! | `getid_request_count` | a row for each generator or sequence with requests |
//! |---|---|
//! | `name` | the primary key |
//! | `requests` | number of its rows in `getid_request` |
//!
//! Locks are taken in one order: the row of the server, the rows of `getid_request_count` by their names, the rows of
//! requests. So the claims of one name follow one another, and each reads what the others have committed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use getid_core::server::beat::Credentials;
use getid_core::server::request_key::{
    ClaimVerdict, Fingerprint, RequestRow, RequestScope, judge_claim, removable_before,
};

use super::beats::{self, BeatStatements};
use super::packet::{Dialect, Link, Packet, SqlRow, StatementResult};
use super::script::or;
use super::{ClaimBatch, ClaimResult, StoreError};

/// Columns of [`RequestRow`], in the order of `row_of`.
const COLUMNS: &str = "owner, name, request, fingerprint, reply, made, kept_until";

/// Most requests that one call removes.
const REMOVED_MAX: u32 = 500;

/// Most names in the answer of [`count`].
const NAMES_MAX: u32 = 1_000;

/// Does [`Connection::find_requests`](super::Connection::find_requests).
pub(super) async fn find<L: Link>(
    link: &mut L,
    scopes: &[RequestScope],
) -> Result<Vec<Option<RequestRow>>, StoreError> {
    let done = link.run(Packet::of(select_sql::<L>(scopes.iter()))).await?;
    let found = rows_of(&done[0]);
    Ok(scopes.iter().map(|scope| found.get(scope).cloned()).collect())
}

/// Does [`Connection::claim_requests`](super::Connection::claim_requests).
pub(super) async fn claim<L: Link>(
    link: &mut L,
    server: Option<Credentials>,
    ask: &ClaimBatch,
) -> Result<Vec<ClaimResult>, StoreError> {
    let names: BTreeSet<&str> = ask.rows.iter().map(|row| row.scope.name()).collect();
    let mut packet = Packet::locking().creating(true);
    let own = server.map(|server| BeatStatements::add::<L>(&mut packet, server, beats::LIVE));
    packet.add(insert_counts_sql::<L>(&names));
    // What other servers have committed while this one waited for the counts.
    let counts = packet.add(counts_sql::<L>(&names) + L::CURRENT);
    let found = packet.add(select_sql::<L>(ask.rows.iter().map(|row| &row.scope)) + L::CURRENT);
    let now = packet.add(format!("SELECT {}", L::NOW));
    let done = link.run(packet).await?;
    if let Some(own) = own {
        own.read(&done)?;
    }
    let count = |row: &SqlRow| Some((row.text(0)?, row.number(1)?.max(0).unsigned_abs()));
    let mut counts: BTreeMap<String, u64> = done[counts].rows.iter().filter_map(count).collect();
    let before = counts.clone();
    let mut found = rows_of(&done[found]);
    let now = done[now].number().unwrap_or(0);
    let mut made = Vec::new();
    let each = ask.rows.iter().map(|new| {
        let requests = counts.entry(new.scope.name().to_owned()).or_default();
        let verdict = judge_claim(found.get(&new.scope), new, *requests, ask.rows_max, now);
        if let ClaimVerdict::Made { row } = &verdict {
            *requests += 1;
            found.insert(row.scope.clone(), row.clone());
            made.push(row.clone());
        }
        ClaimResult { verdict, requests: *requests }
    });
    let each = each.collect();
    if made.is_empty() {
        link.rollback().await?;
        return Ok(each);
    }
    let mut packet = Packet::commit();
    packet.add(insert_sql::<L>(&made));
    for (name, requests) in &counts {
        let more = requests.saturating_sub(before.get(name).copied().unwrap_or(0));
        if more > 0 {
            packet.add(add_sql::<L>(name, "+", more));
        }
    }
    link.run(packet).await?;
    Ok(each)
}

/// Does [`Connection::remove_requests`](super::Connection::remove_requests).
pub(super) async fn remove<L: Link>(link: &mut L, server_unix_ms: i64) -> Result<u64, StoreError> {
    let store_unix_ms = link.run(Packet::of(format!("SELECT {}", L::NOW))).await?[0].number();
    // There is no file yet.
    let Some(store_unix_ms) = store_unix_ms else { return Ok(0) };
    let is_over = format!("kept_until < {}", removable_before(server_unix_ms, store_unix_ms));
    let select = format!("SELECT {COLUMNS} FROM getid_request WHERE {is_over} ORDER BY kept_until LIMIT {REMOVED_MAX}");
    let over = rows_of(&link.run(Packet::of(select)).await?[0]);
    let mut by_name = BTreeMap::<&str, Vec<&RequestScope>>::new();
    for scope in over.keys() {
        by_name.entry(scope.name()).or_default().push(scope);
    }
    if by_name.is_empty() {
        return Ok(0);
    }
    let mut packet = Packet::locking();
    packet.add(counts_sql::<L>(&by_name.keys().copied().collect()) + L::FOR_UPDATE);
    for scopes in by_name.values() {
        let any = or(scopes.iter().map(|scope| is_of::<L>(scope)));
        packet.add(format!("DELETE FROM getid_request WHERE {is_over} AND ({any})"));
    }
    let done = link.run(packet).await?;
    let removed: Vec<u64> = done[1..].iter().map(|done| done.affected).collect();
    let mut packet = Packet::commit();
    for (name, removed) in by_name.keys().zip(&removed) {
        packet.add(add_sql::<L>(name, "-", *removed));
    }
    link.run(packet).await?;
    Ok(removed.iter().sum())
}

/// Does [`Connection::count_requests`](super::Connection::count_requests).
pub(super) async fn count<L: Link>(link: &mut L) -> Result<Vec<(String, u64)>, StoreError> {
    let select = format!(
        "SELECT name, requests FROM getid_request_count WHERE requests > 0 ORDER BY requests DESC, name \
         LIMIT {NAMES_MAX}"
    );
    let done = link.run(Packet::of(select)).await?;
    let count = |row: &SqlRow| Some((row.text(0)?, row.number(1)?.max(0).unsigned_abs()));
    Ok(done[0].rows.iter().filter_map(count).collect())
}

/// Returns the rows of an answer by their scopes.
fn rows_of(done: &StatementResult) -> HashMap<RequestScope, RequestRow> {
    done.rows.iter().map(row_of).map(|row| (row.scope.clone(), row)).collect()
}

/// Returns the row in the order of [`COLUMNS`].
fn row_of(row: &SqlRow) -> RequestRow {
    let text = |at| row.text(at).unwrap_or_default();
    RequestRow {
        scope: RequestScope::of_columns(text(0), text(1), text(2)),
        fingerprint: Fingerprint::of_column(text(3)),
        reply: text(4),
        made_unix_ms: row.number(5).unwrap_or(0),
        until_unix_ms: row.number(6).unwrap_or(i64::MAX),
    }
}

/// Returns the query for the rows of these scopes.
fn select_sql<'a, D: Dialect>(scopes: impl Iterator<Item = &'a RequestScope>) -> String {
    format!("SELECT {COLUMNS} FROM getid_request WHERE {}", or(scopes.map(|scope| is_of::<D>(scope))))
}

/// Returns the condition that a row has this scope.
fn is_of<D: Dialect>(scope: &RequestScope) -> String {
    let [owner, name, request] = [scope.owner(), scope.name(), scope.request()].map(|text| D::text(text));
    format!("owner = {owner} AND name = {name} AND request = {request}")
}

/// Returns the INSERT of new rows.
fn insert_sql<D: Dialect>(rows: &[RequestRow]) -> String {
    let values = |row: &RequestRow| {
        let RequestRow { scope, fingerprint, reply, made_unix_ms, until_unix_ms } = row;
        let texts = [scope.owner(), scope.name(), scope.request(), fingerprint.as_str(), reply];
        let texts = texts.map(|text| D::text(text)).join(", ");
        format!("({texts}, {made_unix_ms}, {until_unix_ms})")
    };
    let values: Vec<String> = rows.iter().map(values).collect();
    format!("INSERT INTO getid_request ({COLUMNS}) VALUES {}", values.join(", "))
}

/// Returns the statement that creates missing rows of counts, and locks all of them.
fn insert_counts_sql<D: Dialect>(names: &BTreeSet<&str>) -> String {
    let values: Vec<String> = names.iter().map(|name| format!("({}, 0)", D::text(name))).collect();
    format!(
        "INSERT INTO getid_request_count (name, requests) VALUES {}{}",
        values.join(", "),
        D::or_overwrite("name", &["name"])
    )
}

/// Returns the query for rows of counts, in the order of their names.
fn counts_sql<D: Dialect>(names: &BTreeSet<&str>) -> String {
    let names: Vec<String> = names.iter().map(|name| D::text(name)).collect();
    format!("SELECT name, requests FROM getid_request_count WHERE name IN ({}) ORDER BY name", names.join(", "))
}

/// Returns the UPDATE that adds to a count, or subtracts from it.
fn add_sql<D: Dialect>(name: &str, operator: &str, requests: u64) -> String {
    format!("UPDATE getid_request_count SET requests = requests {operator} {requests} WHERE name = {}", D::text(name))
}
