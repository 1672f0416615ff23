//! The table `leaf_alloc` of Leaf, shared with Leaf's own servers.
//!
//! A segment is Leaf's own transaction: `UPDATE leaf_alloc SET max_id = max_id + step`, then the row is read; the
//! segment is `[max_id - step, max_id)`. As in Leaf, a larger step may replace the column's if more values are needed,
//! but never a smaller one. So other users of the row notice no difference.
//!
//! Not here: giving back, creating, changing. The table has no version, no generation and no tombstones; its operator
//! does these in SQL.
//!
//! Leaf has no order over several databases. getid has one on each server. A segment below earlier ones is discarded,
//! and the next step is as long as the distance, at most 10,000,000.

use std::collections::BTreeMap;

use getid_core::server::beat::{BeatAnswer, BeatRequest, Credentials};
use getid_core::server::{Key, RESERVED_MAX, SEQUENCE_NAME_RULE, Spec, VALUE_MAX};

use super::link::{MysqlLink, Packet, hex, number, text, unix_ms_of};
use super::tinyid::tokens;
use super::{beats, high};
use crate::sql::{
    Changes, Comparison, Connection, CreateRequest, GiveBackRequest, NotedRow, Reservation, Reservations,
    ReserveRequest, RowChange, RowPage, RowState, SequenceRow, StoreError, StoreFuture, StoreInfo, Token, Verdict,
};
use getid_text::plural::counted;
use getid_text::printable::printable_up_to;

pub(super) const TABLE: &str = "leaf_alloc";

/// Columns that are read and written.
pub(super) const COLUMNS: &str = "biz_tag, max_id, step, update_time";

/// SQL of Leaf's table.
pub(super) const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     VARCHAR(128) NOT NULL DEFAULT '',
  max_id      BIGINT       NOT NULL DEFAULT 1,
  step        INT          NOT NULL,
  description VARCHAR(256) DEFAULT NULL,
  update_time TIMESTAMP    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB;
";

/// Segments that are discarded, or lost to others, before a reservation fails.
pub(super) const TRIES: usize = 4;

/// Pattern of names that sequences can have, apart from the three exceptions in [`is_name`]. Other names are not
/// listed.
const NAMES: &str = "'^[A-Za-z0-9_.:{}#-]([A-Za-z0-9_.:{}# -]{0,126}[A-Za-z0-9_.:{}#-])?$'";

/// Most names in a warning; [`NAME_CHARS_MAX`] is the most characters of each.
const UNSERVED_SHOWN_MAX: usize = 5;
const NAME_CHARS_MAX: usize = 64;

/// A connection to `leaf_alloc`.
pub(super) struct LeafConnection {
    link: MysqlLink,
    info: StoreInfo,
}

/// A row as read from the table.
struct LeafRow {
    name: String,
    max_id: Option<i64>,
    step: Option<i64>,
    updated: i64,
}

/// Values that are still needed, and the result of the last try.
struct SegmentRequest {
    values: i64,
    last_seen: Option<i64>,
}

impl LeafConnection {
    pub(super) fn new(link: MysqlLink, info: StoreInfo) -> LeafConnection {
        LeafConnection { link, info }
    }

    async fn reserve_all(
        &mut self,
        server: Option<Credentials>,
        asks: &[ReserveRequest],
    ) -> Result<Reservations, StoreError> {
        let mut beaten = None;
        let mut answers: Vec<Option<Result<Reservation, Verdict>>> = vec![None; asks.len()];
        let request =
            |ask: &ReserveRequest| SegmentRequest { values: ask.values.clamp(1, RESERVED_MAX).into(), last_seen: None };
        let mut requests: Vec<SegmentRequest> = asks.iter().map(request).collect();
        for _ in 0..TRIES {
            let mut left: Vec<usize> = (0..asks.len()).filter(|at| answers[*at].is_none()).collect();
            left.sort_by_key(|at| asks[*at].key.as_str());
            // A second request for the same key follows the first.
            left.dedup_by_key(|at| &asks[*at].key);
            if left.is_empty() {
                break;
            }
            let mut packet = Packet::transaction();
            let own = server.map(|server| beats::add_own(&mut packet, server, beats::LIVE));
            let known = high::add_read(&mut packet, TABLE, left.iter().map(|at| &asks[*at].key));
            let add = |at: &usize| add_update(&mut packet, &asks[*at].key, requests[*at].values);
            let updates: Vec<(usize, usize)> = left.iter().map(add).collect();
            let select =
                packet.add(format_args!("{} WHERE {}", select_sql(), any_of(left.iter().map(|at| &asks[*at]))));
            for at in &left {
                high::add_write(&mut packet, &asks[*at].key, TABLE, "max_id", &is_row(&asks[*at].key));
            }
            packet.commit();
            let done = self.link.run(&packet).await?;
            let known = high::of(&done[known]);
            beaten = own.map(|own| own.read(&done)).transpose()?.or(beaten);
            let after = by_name(&done[select].rows);
            for (at, (before, update)) in left.into_iter().zip(updates) {
                let before = by_name(&done[before].rows).remove(asks[at].key.as_str());
                let rows = before.zip(after.get(asks[at].key.as_str()));
                let high = known.get(asks[at].key.as_str()).copied().unwrap_or(0);
                let ask = ReserveRequest { floor: asks[at].floor.max(high), ..asks[at].clone() };
                let answer = answer_of(&ask, rows, done[update].affected == 1, &mut requests[at]);
                answers[at] = answer.map(|answer| answer.map(|got| high::found(got, high)));
            }
        }
        let all = answers.into_iter().zip(asks.iter().zip(&requests));
        let each = all
            .map(|(answer, (ask, request))| answer.unwrap_or_else(|| Err(no_values_verdict(ask, request))))
            .collect();
        Ok(Reservations { server: beaten, each })
    }

    /// Raises rows like Leaf's own reservation: other users of a row see a segment that was taken.
    async fn compare_all(&mut self, server: Credentials, notes: &[NotedRow]) -> Result<Option<Comparison>, StoreError> {
        let raise = |note: &NotedRow| {
            let next = note.next;
            format!("UPDATE leaf_alloc SET max_id = {next} WHERE {} AND max_id < {next}", is_row(&note.key))
        };
        beats::compare(&mut self.link, server, notes.iter().map(raise)).await
    }

    async fn rows(&mut self, condition: String) -> Result<Vec<LeafRow>, StoreError> {
        let mut packet = Packet::new();
        packet.add(format_args!("{} WHERE {condition}", select_sql()));
        Ok(self.link.run(&packet).await?[0].rows.iter().map(leaf_row).collect())
    }
}

impl Connection for LeafConnection {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn reserve_as<'a>(
        &'a mut self,
        server: Option<Credentials>,
        asks: &'a [ReserveRequest],
    ) -> StoreFuture<'a, Reservations> {
        Box::pin(self.reserve_all(server, asks))
    }

    fn beat<'a>(&'a mut self, ask: &'a BeatRequest) -> StoreFuture<'a, BeatAnswer> {
        Box::pin(beats::beat(&mut self.link, ask))
    }

    fn compare<'a>(&'a mut self, server: Credentials, notes: &'a [NotedRow]) -> StoreFuture<'a, Option<Comparison>> {
        Box::pin(self.compare_all(server, notes))
    }

    fn give_back<'a>(&'a mut self, _: Option<Credentials>, ends: &'a [GiveBackRequest]) -> StoreFuture<'a, Vec<bool>> {
        Box::pin(async { Ok(vec![false; ends.len()]) })
    }

    fn create_all<'a>(&'a mut self, new: &'a [CreateRequest]) -> StoreFuture<'a, Vec<Result<SequenceRow, Verdict>>> {
        let verdict = |new: &CreateRequest| {
            Err(Verdict::Unsupported(format!(
                "leaf_alloc is Leaf's: INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('{}', 1, 1000)",
                new.key.name()
            )))
        };
        Box::pin(async move { Ok(new.iter().map(verdict).collect()) })
    }

    fn change<'a>(&'a mut self, key: &'a Key, change: &'a RowChange) -> StoreFuture<'a, Result<SequenceRow, Verdict>> {
        let name = key.name();
        let verdict = Verdict::Unsupported(match change {
            RowChange::Raise { last, .. } => format!(
                "leaf_alloc is Leaf's: UPDATE leaf_alloc SET max_id = {next} WHERE biz_tag = '{name}' \
                 AND max_id < {next}",
                next = last.saturating_add(1)
            ),
            RowChange::WentBack { had_next } | RowChange::HadMore { had_next } => format!(
                "leaf_alloc has no mark for a row that went back: UPDATE leaf_alloc SET max_id = {had_next} \
                 WHERE biz_tag = '{name}' AND max_id < {had_next}, and higher if other servers have higher values"
            ),
            RowChange::Alter { .. } => format!(
                "leaf_alloc has a step and no other options: UPDATE leaf_alloc SET step = 1000 WHERE biz_tag = '{name}'"
            ),
            RowChange::Drop => format!(
                "leaf_alloc has no tombstones, and a row that is created again begins at its start: note its max_id, \
                 then DELETE FROM leaf_alloc WHERE biz_tag = '{name}'"
            ),
            RowChange::Confirm => "leaf_alloc has no mark to remove".to_owned(),
        });
        Box::pin(async { Ok(Err(verdict)) })
    }

    fn row<'a>(&'a mut self, key: &'a Key) -> StoreFuture<'a, Option<SequenceRow>> {
        Box::pin(async move {
            let rows = self.rows(is_row(key)).await?;
            let Some(row) = rows.into_iter().find(|row| row.name == key.as_str()) else { return Ok(None) };
            row.checked(key).map(|(_, _, row)| Some(row)).map_err(StoreError::Refused)
        })
    }

    fn list<'a>(&'a mut self, after: &'a str, limit: u32, _: bool) -> StoreFuture<'a, RowPage> {
        Box::pin(async move {
            let rows = self.rows(after_sql("biz_tag", after, limit)).await?;
            let each = rows.into_iter().map(|row| {
                let shown = Key::new(&row.name).map(|key| Ok(row.shown(key)));
                (row.name, String::new(), shown)
            });
            Ok(RowPage::new(limit, each))
        })
    }

    fn count(&mut self) -> StoreFuture<'_, u64> {
        Box::pin(count(&mut self.link, TABLE, "biz_tag"))
    }

    fn changes(&mut self, _: Option<u64>) -> StoreFuture<'_, Changes> {
        Box::pin(no_changes(&mut self.link))
    }

    fn tokens(&mut self) -> StoreFuture<'_, Option<Vec<Token>>> {
        Box::pin(tokens(&mut self.link))
    }
}

impl LeafRow {
    /// Returns `max_id`, step and the row, or the error in it with the remedy.
    fn checked(&self, key: &Key) -> Result<(i64, i64, SequenceRow), String> {
        let set = |what: &str| format!("UPDATE leaf_alloc SET {what} WHERE biz_tag = '{key}'");
        let step = self.step.filter(|step| *step > 0).ok_or_else(|| {
            let found = self.step.map_or_else(|| "NULL".to_owned(), |step| step.to_string());
            format!("the row '{key}' of leaf_alloc has step {found}, so its segments are empty: {}", set("step = 1000"))
        })?;
        let max_id = self.max_id.filter(|max_id| (0..=VALUE_MAX + 1).contains(max_id)).ok_or_else(|| {
            let found = self.max_id.map_or_else(|| "NULL".to_owned(), |max_id| max_id.to_string());
            format!(
                "the row '{key}' of leaf_alloc has max_id {found}, must be 0 to {VALUE_MAX}: {}",
                set("max_id = ...")
            )
        })?;
        Ok((max_id, step, self.shown(key.clone())))
    }

    /// Converts the table's row, valid or not.
    fn shown(&self, key: Key) -> SequenceRow {
        let cache = u32::try_from(self.step.unwrap_or(0).max(0)).unwrap_or(RESERVED_MAX).min(RESERVED_MAX);
        SequenceRow {
            key,
            next: self.max_id.unwrap_or(0),
            version: 0,
            generation: 0,
            spec: Spec { start: 0, cache, ..Spec::default() },
            state: RowState::Live,
            created_unix_ms: 0,
            updated_unix_ms: self.updated,
        }
    }
}

/// Returns the result of a try, or `None` to try again. `rows`: the row before and after.
fn answer_of(
    ask: &ReserveRequest,
    rows: Option<(LeafRow, &LeafRow)>,
    is_updated: bool,
    request: &mut SegmentRequest,
) -> Option<Result<Reservation, Verdict>> {
    let Some((before, after)) = rows else { return Some(Err(Verdict::NoSuch)) };
    let (first, step, row) = match before.checked(&ask.key) {
        Ok(good) => good,
        Err(text) => return Some(Err(Verdict::BadRow(text))),
    };
    let took = step.max(request.values);
    if first > VALUE_MAX - took {
        // No values are left.
        return Some(Ok(Reservation { first, last: first - 1, found_next: first, row }));
    }
    let next = first + took;
    if !is_updated || after.max_id != Some(next) || after.step != Some(step) {
        // In a table without transactions another server interfered: the owner of the values is unclear.
        return None;
    }
    if next <= ask.floor {
        request.last_seen = Some(next - 1);
        request.values = (ask.floor - next).saturating_add(i64::from(ask.values)).min(RESERVED_MAX.into());
        return None;
    }
    let row = after.shown(ask.key.clone());
    Some(Ok(Reservation { first: first.max(ask.floor), last: next - 1, found_next: first, row }))
}

/// Returns why there are no values after several tries.
fn no_values_verdict(ask: &ReserveRequest, request: &SegmentRequest) -> Verdict {
    let ReserveRequest { key, floor, .. } = ask;
    Verdict::BadRow(match request.last_seen {
        None => {
            format!("the row '{key}' of leaf_alloc was changed by other servers {TRIES} times during a reservation")
        }
        Some(last) => format!(
            "the row '{key}' of leaf_alloc is at {last}, and this server has received values up to {} of another database: \
             UPDATE leaf_alloc SET max_id = {floor} WHERE biz_tag = '{key}' AND max_id < {floor}",
            floor - 1
        ),
    })
}

/// Adds Leaf's UPDATE, after a SELECT that locks the row. An invalid row stays as it is.
fn add_update(packet: &mut Packet, key: &Key, values: i64) -> (usize, usize) {
    let before = packet.add(format_args!("{} WHERE {} FOR UPDATE", select_sql(), is_row(key)));
    let update = packet.add(format_args!(
        "UPDATE leaf_alloc SET max_id = max_id + GREATEST(step, {values}) \
         WHERE {} AND step > 0 AND max_id BETWEEN 0 AND {VALUE_MAX} - GREATEST(step, {values})",
        is_row(key)
    ));
    (before, update)
}

fn select_sql() -> String {
    format!("SELECT biz_tag, max_id, step, {} FROM leaf_alloc", unix_ms_of("update_time"))
}

/// Returns the condition that a row has this key, by its bytes: Leaf's column compares `Orders` and `orders` as equal.
fn is_row(key: &Key) -> String {
    format!("biz_tag = '{key}' AND CAST(biz_tag AS BINARY) = '{key}'")
}

fn any_of<'a>(asks: impl Iterator<Item = &'a ReserveRequest>) -> String {
    let any: Vec<String> = asks.map(|ask| format!("({})", is_row(&ask.key))).collect();
    any.join(" OR ")
}

fn by_name(rows: &[mysql_async::Row]) -> BTreeMap<String, LeafRow> {
    rows.iter().map(leaf_row).map(|row| (row.name.clone(), row)).collect()
}

fn leaf_row(row: &mysql_async::Row) -> LeafRow {
    LeafRow {
        name: text(row, 0).unwrap_or_default(),
        max_id: number(row, 1),
        step: number(row, 2),
        updated: number(row, 3).unwrap_or(0),
    }
}

/// Returns the condition that a row's name is a valid one of a sequence. Some databases accept a name with a line feed
/// at its end.
fn is_name(column: &str) -> String {
    format!("({column} REGEXP {NAMES} AND {column} NOT IN ('-', '.', '..'))")
}

/// Returns the condition and the order of a list by this column of names.
pub(super) fn after_sql(column: &str, after: &str, limit: u32) -> String {
    // The cursor may be any text.
    let digits = hex(after.as_bytes());
    format!(
        "{} AND CAST({column} AS BINARY) > x'{digits}' ORDER BY CAST({column} AS BINARY) LIMIT {limit}",
        is_name(column)
    )
}

pub(super) async fn count(link: &mut MysqlLink, table: &str, column: &str) -> Result<u64, StoreError> {
    let mut packet = Packet::new();
    packet.add(format_args!("SELECT COUNT(*) FROM {table} WHERE {}", is_name(column)));
    Ok(link.run(&packet).await?[0].number().unwrap_or(0).unsigned_abs())
}

/// Adds a warning about rows whose names are not valid for sequences: requests for them are not served.
pub(super) async fn check_names(
    link: &mut MysqlLink,
    table: &str,
    column: &str,
    info: &mut StoreInfo,
) -> Result<(), StoreError> {
    let is_name = is_name(column);
    let mut packet = Packet::new();
    packet.add(format_args!("SELECT COUNT(*) FROM {table} WHERE NOT {is_name}"));
    packet.add(format_args!(
        "SELECT {column} FROM {table} WHERE NOT {is_name} ORDER BY CAST({column} AS BINARY) LIMIT {UNSERVED_SHOWN_MAX}"
    ));
    let done = match link.run(&packet).await {
        Ok(done) => done,
        // Values are reserved by the table's key, so a table that is too large to search is served.
        Err(StoreError::Refused(message)) => {
            info.warnings.push(format!("{table} was not searched for names that cannot be served: {message}"));
            return Ok(());
        }
        Err(unknown) => return Err(unknown),
    };
    let count = done[0].number().unwrap_or(0).unsigned_abs();
    if count == 0 {
        return Ok(());
    }
    let shown = done[1].rows.iter().map(|row| {
        let name = text(row, 0).unwrap_or_default();
        format!("'{}'", printable_up_to(&name, NAME_CHARS_MAX))
    });
    let shown: Vec<_> = shown.collect();
    let others = count.saturating_sub(shown.len() as u64);
    let more = if others > 0 { format!(" and {others} more") } else { String::new() };
    info.warnings.push(format!(
        "{} of {table} cannot be served, because a name has {SEQUENCE_NAME_RULE}: {column} {}{more}",
        counted(count, "row"),
        shown.join(", ")
    ));
    Ok(())
}

/// Returns no changes: these tables have no generations. The query detects a connection that has ended.
pub(super) async fn no_changes(link: &mut MysqlLink) -> Result<Changes, StoreError> {
    let mut packet = Packet::new();
    packet.add(format_args!("SELECT 1"));
    link.run(&packet).await.map(|_| Changes::default())
}
