//! The table `leaf_alloc` of Leaf.
//!
//! A segment is Leaf's own transaction: `UPDATE leaf_alloc SET max_id = max_id + step`, then the row is read; the
//! segment is `[max_id - step, max_id)`. As in Leaf, a larger step may replace the column's if more values are needed,
//! but never a smaller one. So other users of the row notice no difference.
//!
//! After a segment below this server's earlier ones, the next step is as long as the distance, at most 10,000,000.

use getid_core::server::beat::Credentials;
use getid_core::server::{Key, RESERVED_MAX, Spec, VALUE_MAX};

use super::foreign::{ForeignTable, any_of, by_name, is_row};
use super::high;
use super::link::{MysqlLink, unix_ms_of};
use crate::sql::beats::{self, BeatStatements};
use crate::sql::packet::{Link as _, Packet, SqlRow};
use crate::sql::script::unanswered;
use crate::sql::{
    NotedRow, Reservation, Reservations, ReserveRequest, RowChange, RowError, RowState, SequenceRow, StoreError,
    Verdict,
};

/// Segments that are discarded, or lost to others, before a reservation fails.
const TRIES: usize = 4;

/// The table `leaf_alloc`.
pub(super) struct Leaf;

/// A row as read from the table.
pub(super) struct LeafRow {
    max_id: Option<i64>,
    step: Option<i64>,
    updated: i64,
}

/// Values that are still needed, and the result of the last try.
struct SegmentRequest {
    values: i64,
    last_seen: Option<i64>,
}

impl ForeignTable for Leaf {
    const TABLE: &'static str = "leaf_alloc";
    const COLUMNS: &'static str = "biz_tag, max_id, step, update_time";
    const NAME: &'static str = "biz_tag";
    const NO_ROW: &'static str = "biz_tag = ''";
    const SCHEMA: &'static str = "CREATE TABLE IF NOT EXISTS leaf_alloc (
  biz_tag     VARCHAR(128) NOT NULL DEFAULT '',
  max_id      BIGINT       NOT NULL DEFAULT 1,
  step        INT          NOT NULL,
  description VARCHAR(256) DEFAULT NULL,
  update_time TIMESTAMP    NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)
) ENGINE=InnoDB;
";
    type Row = LeafRow;

    fn select_sql() -> String {
        format!("SELECT biz_tag, max_id, step, {} FROM leaf_alloc", unix_ms_of("update_time"))
    }

    fn row(row: &SqlRow) -> (String, LeafRow) {
        let read = LeafRow { max_id: row.number(1), step: row.number(2), updated: row.number(3).unwrap_or(0) };
        (row.text(0).unwrap_or_default(), read)
    }

    fn shown(row: &LeafRow, key: Key) -> SequenceRow {
        let cache = u32::try_from(row.step.unwrap_or(0).max(0)).unwrap_or(RESERVED_MAX).min(RESERVED_MAX);
        SequenceRow {
            key,
            next: row.max_id.unwrap_or(0),
            version: 0,
            generation: 0,
            spec: Spec { start: 0, cache, ..Spec::default() },
            state: RowState::Live,
            created_unix_ms: 0,
            updated_unix_ms: row.updated,
            ends_unix_ms: 0,
        }
    }

    fn check(row: &LeafRow, key: &Key) -> Result<(), RowError> {
        row.checked(key).map(drop)
    }

    fn raise_sql(note: &NotedRow) -> String {
        let next = note.next;
        format!("UPDATE leaf_alloc SET max_id = {next} WHERE {} AND max_id < {next}", is_row::<Leaf>(&note.key))
    }

    fn how_to_create(name: &str) -> String {
        format!("leaf_alloc is Leaf's: INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('{name}', 1, 1000)")
    }

    fn how_to_change(name: &str, change: &RowChange) -> String {
        match change {
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
            RowChange::Confirm { .. } => "leaf_alloc has no mark to remove".to_owned(),
            RowChange::Expire(_) | RowChange::Persist => format!(
                "leaf_alloc has no column for the end of a row: omit the expiry of '{name}', or count it in getid's own tables \
                 (sequence-table native)"
            ),
        }
    }

    async fn reserve(
        link: &mut MysqlLink,
        server: Option<Credentials>,
        asks: &[ReserveRequest],
    ) -> Result<Reservations, StoreError> {
        let mut beaten = None;
        let mut answers: Vec<Option<Result<Reservation, Verdict>>> = vec![None; asks.len()];
        let request =
            |ask: &ReserveRequest| SegmentRequest { values: ask.values.clamp(1, RESERVED_MAX).into(), last_seen: None };
        let mut requests: Vec<SegmentRequest> = asks.iter().map(request).collect();
        for _ in 0..TRIES {
            let left = unanswered(asks, &answers);
            if left.is_empty() {
                break;
            }
            let mut packet = Packet::transaction();
            let own = server.map(|server| BeatStatements::add::<MysqlLink>(&mut packet, server, beats::LIVE));
            let known = high::add_read(&mut packet, Leaf::TABLE, left.iter().map(|at| &asks[*at].key));
            let add = |at: &usize| add_update(&mut packet, &asks[*at].key, requests[*at].values);
            let updates: Vec<(usize, usize)> = left.iter().map(add).collect();
            let any = any_of::<Leaf>(left.iter().map(|at| &asks[*at].key));
            let select = packet.add(format!("{} WHERE {any}", Leaf::select_sql()));
            for at in &left {
                high::add_write(&mut packet, &asks[*at].key, Leaf::TABLE, "max_id", &is_row::<Leaf>(&asks[*at].key));
            }
            let done = link.run(packet).await?;
            let known = high::of(&done[known]);
            beaten = own.map(|own| own.read(&done)).transpose()?.or(beaten);
            let after = by_name::<Leaf>(&done[select].rows);
            for (at, (before, update)) in left.into_iter().zip(updates) {
                let before = by_name::<Leaf>(&done[before].rows).remove(asks[at].key.as_str());
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
}

impl LeafRow {
    /// Returns `max_id`, step and the row, or the error in it with the remedy.
    fn checked(&self, key: &Key) -> Result<(i64, i64, SequenceRow), RowError> {
        let bad = |column: &'static str, found: Option<i64>, rule: String, good: &str| RowError::Foreign {
            table: Leaf::TABLE,
            key: key.clone(),
            column,
            found,
            rule,
            remedy: format!("UPDATE leaf_alloc SET {column} = {good} WHERE biz_tag = '{key}'"),
        };
        let Some(step) = self.step.filter(|step| *step > 0) else {
            return Err(bad("step", self.step, "so its segments are empty".to_owned(), "1000"));
        };
        let Some(max_id) = self.max_id.filter(|max_id| (0..=VALUE_MAX + 1).contains(max_id)) else {
            return Err(bad("max_id", self.max_id, format!("must be 0 to {VALUE_MAX}"), "..."));
        };
        Ok((max_id, step, Leaf::shown(self, key.clone())))
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
        Err(bad) => return Some(Err(Verdict::BadRow(bad.to_string()))),
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
    let row = Leaf::shown(after, ask.key.clone());
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
    let before = packet.add(format!("{} WHERE {} FOR UPDATE", Leaf::select_sql(), is_row::<Leaf>(key)));
    let update = packet.add(format!(
        "UPDATE leaf_alloc SET max_id = max_id + GREATEST(step, {values}) \
         WHERE {} AND step > 0 AND max_id BETWEEN 0 AND {VALUE_MAX} - GREATEST(step, {values})",
        is_row::<Leaf>(key)
    ));
    (before, update)
}
