//! The table `tiny_id_info` of Tinyid.
//!
//! A segment is Tinyid's own: the row is read, and written by `... SET max_id = ?, version = version + 1 WHERE id = ?
//! AND max_id = ? AND version = ? AND biz_type = ?`, in READ COMMITTED, up to three times if another server was first.
//! The segment is `(old max_id, new max_id]`, of which only values with `v % delta == remainder` count. `max_id` grows
//! by the row's step, or by a multiple of it if more values are needed.
//!
//! Invariant: a row from which no segment can be reserved is not written.

use getid_core::server::beat::Credentials;
use getid_core::server::{INCREMENT_MAX, Key, RESERVED_MAX, Spec, VALUE_MAX};

use super::foreign::{ForeignTable, any_of, by_name, is_row};
use super::high;
use super::link::{MysqlLink, unix_ms_of};
use crate::sql::beats::{self, BeatStatements};
use crate::sql::packet::{Link as _, Packet, SqlRow};
use crate::sql::script::unanswered;
use crate::sql::{
    NotedRow, Reservation, Reservations, ReserveRequest, RowChange, RowError, RowState, SequenceRow, ServerBeat,
    StoreError, Verdict,
};

/// Tries of a reservation, as many as in Tinyid.
const TRIES: usize = 3;

/// The table `tiny_id_info`.
pub(super) struct Tinyid;

/// A row as read from the table.
pub(super) struct TinyidRow {
    id: i64,
    max_id: Option<i64>,
    step: Option<i64>,
    delta: Option<i64>,
    remainder: Option<i64>,
    version: Option<i64>,
    created: i64,
    updated: i64,
}

/// A valid row, from which segments can be reserved.
#[derive(Clone)]
struct ValidRow {
    id: i64,
    max_id: i64,
    step: i64,
    row: SequenceRow,
}

/// Effect of a try on a row.
enum UpdatePlan {
    /// Sets `max_id` to this value.
    Swap(ValidRow, i64),
    Done(Result<Reservation, Verdict>),
}

impl ForeignTable for Tinyid {
    const TABLE: &'static str = "tiny_id_info";
    const COLUMNS: &'static str = "id, biz_type, max_id, step, delta, remainder, create_time, update_time, version";
    const NAME: &'static str = "biz_type";
    const NO_ROW: &'static str = "id = 0";
    const SCHEMA: &'static str = "CREATE TABLE IF NOT EXISTS tiny_id_info (
  id          BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  biz_type    VARCHAR(63)     NOT NULL DEFAULT '',
  begin_id    BIGINT          NOT NULL DEFAULT 0,
  max_id      BIGINT          NOT NULL DEFAULT 0,
  step        INT             DEFAULT 0,
  delta       INT             NOT NULL DEFAULT 1,
  remainder   INT             NOT NULL DEFAULT 0,
  create_time TIMESTAMP       NOT NULL DEFAULT CURRENT_TIMESTAMP,
  update_time TIMESTAMP       NOT NULL DEFAULT CURRENT_TIMESTAMP,
  version     BIGINT          NOT NULL DEFAULT 0,
  PRIMARY KEY (id),
  UNIQUE KEY uniq_biz_type (biz_type)
) ENGINE=InnoDB;
";
    type Row = TinyidRow;

    fn select_sql() -> String {
        format!(
            "SELECT id, biz_type, max_id, step, delta, remainder, version, {}, {} FROM tiny_id_info",
            unix_ms_of("create_time"),
            unix_ms_of("update_time")
        )
    }

    fn row(row: &SqlRow) -> (String, TinyidRow) {
        let read = TinyidRow {
            id: row.number(0).unwrap_or(0),
            max_id: row.number(2),
            step: row.number(3),
            delta: row.number(4),
            remainder: row.number(5),
            version: row.number(6),
            created: row.number(7).unwrap_or(0),
            updated: row.number(8).unwrap_or(0),
        };
        (row.text(1).unwrap_or_default(), read)
    }

    fn shown(row: &TinyidRow, key: Key) -> SequenceRow {
        let small = |number: Option<i64>| u32::try_from(number.unwrap_or(0).max(0)).unwrap_or(u32::MAX);
        let increment = small(row.delta).clamp(1, INCREMENT_MAX);
        let remainder = small(row.remainder) % increment;
        let offset = if remainder == 0 { increment } else { remainder };
        let cache = (small(row.step) / increment).min(RESERVED_MAX);
        let spec = Spec { start: 0, increment, offset, cache, ..Spec::default() };
        SequenceRow {
            key,
            next: spec.next_from(row.max_id.unwrap_or(0).clamp(0, VALUE_MAX) + 1),
            version: row.version.unwrap_or(0).unsigned_abs(),
            generation: 0,
            spec,
            state: RowState::Live,
            created_unix_ms: row.created,
            updated_unix_ms: row.updated,
            ends_unix_ms: 0,
        }
    }

    fn check(row: &TinyidRow, key: &Key) -> Result<(), RowError> {
        row.checked(key).map(drop)
    }

    fn raise_sql(note: &NotedRow) -> String {
        format!(
            "UPDATE tiny_id_info SET max_id = {0}, update_time = NOW(), version = version + 1 WHERE {1} AND max_id < {0}",
            note.next - 1,
            is_row::<Tinyid>(&note.key)
        )
    }

    fn how_to_create(name: &str) -> String {
        format!(
            "tiny_id_info is Tinyid's: INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step, delta, remainder) \
             VALUES ('{name}', 0, 0, 1000, 1, 0)"
        )
    }

    fn how_to_change(name: &str, change: &RowChange) -> String {
        let raise = |last: i64| {
            format!(
                "UPDATE tiny_id_info SET max_id = {last}, version = version + 1 WHERE biz_type = '{name}' \
                 AND max_id < {last}"
            )
        };
        match change {
            RowChange::Raise { last, .. } => format!("tiny_id_info is Tinyid's: {}", raise(*last)),
            RowChange::WentBack { had_next } | RowChange::HadMore { had_next } => format!(
                "tiny_id_info has no mark for a row that went back: {}, and higher if other servers have higher values",
                raise(had_next.saturating_sub(1))
            ),
            RowChange::Alter { .. } => format!(
                "tiny_id_info has a step, a delta and a remainder: UPDATE tiny_id_info SET step = 1000, version = \
                 version + 1 WHERE biz_type = '{name}'; delta and remainder only with all of its servers stopped"
            ),
            RowChange::Drop => format!(
                "tiny_id_info has no tombstones, and a row that is created again begins at its start: note its max_id, \
                 then DELETE FROM tiny_id_info WHERE biz_type = '{name}'"
            ),
            RowChange::Confirm { .. } => "tiny_id_info has no mark to remove".to_owned(),
            RowChange::Expire(_) | RowChange::Persist => format!(
                "tiny_id_info has no column for the end of a row: omit the expiry of '{name}', or count it in getid's own tables \
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
        let mut last_seen: Vec<Option<i64>> = vec![None; asks.len()];
        for _ in 0..TRIES {
            let left = unanswered(asks, &answers);
            if left.is_empty() {
                break;
            }
            beaten = try_reserve(link, server, asks, &left, &mut last_seen, &mut answers).await?.or(beaten);
        }
        let all = answers.into_iter().zip(asks.iter().zip(last_seen));
        let each =
            all.map(|(answer, (ask, last))| answer.unwrap_or_else(|| Err(no_values_verdict(ask, last)))).collect();
        Ok(Reservations { server: beaten, each })
    }
}

/// Reads the rows of the remaining requests, and updates them.
async fn try_reserve(
    link: &mut MysqlLink,
    server: Option<Credentials>,
    asks: &[ReserveRequest],
    left: &[usize],
    last_seen: &mut [Option<i64>],
    answers: &mut [Option<Result<Reservation, Verdict>>],
) -> Result<Option<ServerBeat>, StoreError> {
    let keys = || left.iter().map(|at| &asks[*at].key);
    let mut look = Packet::new();
    let rows = look.add(format!("{} WHERE {}", Tinyid::select_sql(), any_of::<Tinyid>(keys())));
    let known = high::add_read(&mut look, Tinyid::TABLE, keys());
    let done = link.run(look).await?;
    let rows = by_name::<Tinyid>(&done[rows].rows);
    let known = high::of(&done[known]);
    let floor = |at: usize| known.get(asks[at].key.as_str()).copied().unwrap_or(0).max(asks[at].floor);
    let raised: Vec<ReserveRequest> =
        asks.iter().enumerate().map(|(at, ask)| ReserveRequest { floor: floor(at), ..ask.clone() }).collect();
    let asks = &raised;
    let mut packet = Packet::transaction();
    let own = server.map(|server| BeatStatements::add::<MysqlLink>(&mut packet, server, beats::LIVE));
    let mut swaps = Vec::new();
    for at in left {
        match plan(&asks[*at], rows.get(asks[*at].key.as_str())) {
            UpdatePlan::Done(answer) => answers[*at] = Some(answer),
            UpdatePlan::Swap(row, max_id) => {
                let swap = packet.add(format!(
                    "UPDATE tiny_id_info SET max_id = {max_id}, update_time = NOW(), version = version + 1 \
                     WHERE id = {} AND max_id = {} AND version = {} AND biz_type = '{}'",
                    row.id, row.max_id, row.row.version, row.row.key
                ));
                high::add_write(&mut packet, &row.row.key, Tinyid::TABLE, "max_id + 1", &format!("id = {}", row.id));
                swaps.push((*at, swap, row, max_id));
            }
        }
    }
    if swaps.is_empty() {
        return Ok(None);
    }
    let done = link.run(packet).await?;
    let beaten = own.map(|own| own.read(&done)).transpose()?;
    for (at, swap, row, max_id) in swaps {
        if done[swap].affected == 1 {
            let high = known.get(asks[at].key.as_str()).copied().unwrap_or(0);
            let got = segment(&asks[at], row, max_id, &mut last_seen[at]);
            answers[at] = got.map(|got| Ok(high::found(got, high)));
        }
    }
    Ok(beaten)
}

impl TinyidRow {
    /// Returns the row if it is valid, or the error in it with the remedy.
    fn checked(&self, key: &Key) -> Result<ValidRow, RowError> {
        let bad = |column: &'static str, found: Option<i64>, rule: &str, good: &str| RowError::Foreign {
            table: Tinyid::TABLE,
            key: key.clone(),
            column,
            found,
            rule: rule.to_owned(),
            remedy: format!(
                "UPDATE tiny_id_info SET {column} = {good}, version = version + 1 WHERE biz_type = '{key}'"
            ),
        };
        let Some(step) = self.step.filter(|step| *step > 0) else {
            return Err(bad("step", self.step, "so its segments are empty", "1000"));
        };
        let delta_max = i64::from(INCREMENT_MAX);
        let Some(delta) = self.delta.filter(|delta| (1..=delta_max).contains(delta)) else {
            return Err(bad("delta", self.delta, &format!("must be 1 to {delta_max}"), "1"));
        };
        if !self.remainder.is_some_and(|remainder| (0..delta).contains(&remainder)) {
            let why = format!("which no value has with delta {delta}, must be below it");
            return Err(bad("remainder", self.remainder, &why, "0"));
        }
        let Some(max_id) = self.max_id.filter(|max_id| (0..=VALUE_MAX).contains(max_id)) else {
            return Err(bad("max_id", self.max_id, &format!("must be 0 to {VALUE_MAX}"), "..."));
        };
        if self.version.is_none() {
            return Err(bad("version", None, "must be a number", "0"));
        }
        Ok(ValidRow { id: self.id, max_id, step, row: Tinyid::shown(self, key.clone()) })
    }
}

/// Returns the effect of a try on a row: its new `max_id` if the row is valid.
fn plan(ask: &ReserveRequest, row: Option<&TinyidRow>) -> UpdatePlan {
    let Some(row) = row else { return UpdatePlan::Done(Err(Verdict::NoSuch)) };
    let good = match row.checked(&ask.key) {
        Ok(good) => good,
        Err(bad) => return UpdatePlan::Done(Err(Verdict::BadRow(bad.to_string()))),
    };
    let ValidRow { max_id, step, row, .. } = &good;
    let delta = i64::from(row.spec.increment);
    // Both terms are at most 10^7 values, 10^13; a step alone may be larger.
    let needed = i64::from(ask.values.clamp(1, RESERVED_MAX)) * delta;
    let up = (ask.floor - max_id - 1).clamp(0, i64::from(RESERVED_MAX) * delta);
    let steps = (needed + up - 1) / step + 1;
    let steps = steps.min((VALUE_MAX - max_id) / step);
    if steps == 0 {
        let (next, row) = (row.next, row.clone());
        return UpdatePlan::Done(Ok(Reservation { first: next, last: next - delta, found_next: next, row }));
    }
    let next_max_id = max_id + steps * step;
    UpdatePlan::Swap(good, next_max_id)
}

/// Returns the segment of a successful update; `None` if all of it is below this server's values of other databases.
fn segment(ask: &ReserveRequest, before: ValidRow, max_id: i64, last_seen: &mut Option<i64>) -> Option<Reservation> {
    let found_next = before.row.next;
    let mut row = before.row;
    row.next = row.spec.next_from(max_id + 1);
    row.version += 1;
    let first = row.spec.next_from(found_next.max(ask.floor));
    let last = row.next - i64::from(row.spec.increment);
    if last < first {
        *last_seen = Some(max_id);
        return None;
    }
    Some(Reservation { first, last, found_next, row })
}

/// Returns why there are no values after several tries.
fn no_values_verdict(ask: &ReserveRequest, last_seen: Option<i64>) -> Verdict {
    let ReserveRequest { key, floor, .. } = ask;
    match last_seen {
        None => Verdict::Contended(format!(
            "get next segmentId conflict: the row '{key}' of tiny_id_info was changed by others {TRIES} times between \
             reading and writing it"
        )),
        Some(last) => Verdict::BadRow(format!(
            "the row '{key}' of tiny_id_info is at {last}, and this server has received values up to {had} of another \
             database: UPDATE tiny_id_info SET max_id = {had}, version = version + 1 WHERE biz_type = '{key}' AND \
             max_id < {had}",
            had = floor - 1
        )),
    }
}
