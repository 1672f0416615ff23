//! The table `tiny_id_info` of Tinyid, shared with Tinyid's own servers.
//!
//! A segment is Tinyid's own: the row is read, and written by `... SET max_id = ?, version = version + 1 WHERE id = ?
//! AND max_id = ? AND version = ? AND biz_type = ?`, in READ COMMITTED, up to three times if another server was first.
//! The segment is `(old max_id, new max_id]`, of which only values with `v % delta == remainder` count. `max_id` grows
//! by the row's step, or by a multiple of it if more values are needed.
//!
//! Not here: giving back, creating, changing, as in [`super::leaf`]. The order over several databases is that of
//! [`super::leaf`] too.
//!
//! Invariant: a row from which no segment can be reserved is not written.

use std::collections::BTreeMap;

use getid_core::server::beat::{BeatAnswer, BeatRequest, Credentials};
use getid_core::server::{INCREMENT_MAX, Key, RESERVED_MAX, Spec, VALUE_MAX};
use mysql_async::Error;

use super::leaf::{after_sql, count, no_changes};
use super::link::{MysqlLink, Packet, number, text, unix_ms_of};
use super::{beats, high};
use crate::sql::{
    Changes, Comparison, Connection, CreateRequest, GiveBackRequest, NotedRow, Reservation, Reservations,
    ReserveRequest, RowChange, RowPage, RowState, SequenceRow, ServerBeat, StoreError, StoreFuture, StoreInfo,
    TOKENS_MAX, Token, Verdict,
};

pub(super) const TABLE: &str = "tiny_id_info";

/// Columns that are read and written.
pub(super) const COLUMNS: &str = "id, biz_type, max_id, step, delta, remainder, create_time, update_time, version";

/// SQL of Tinyid's table.
pub(super) const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS tiny_id_info (
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

/// Error code of a missing table.
const NO_SUCH_TABLE: u16 = 1146;

/// Tries of a reservation, as many as in Tinyid.
const TRIES: usize = 3;

/// A connection to `tiny_id_info`.
pub(super) struct TinyidConnection {
    link: MysqlLink,
    info: StoreInfo,
}

/// A row as read from the table.
struct TinyidRow {
    id: i64,
    name: String,
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

impl TinyidConnection {
    pub(super) fn new(link: MysqlLink, info: StoreInfo) -> TinyidConnection {
        TinyidConnection { link, info }
    }

    async fn reserve_all(
        &mut self,
        server: Option<Credentials>,
        asks: &[ReserveRequest],
    ) -> Result<Reservations, StoreError> {
        let mut beaten = None;
        let mut answers: Vec<Option<Result<Reservation, Verdict>>> = vec![None; asks.len()];
        let mut last_seen: Vec<Option<i64>> = vec![None; asks.len()];
        for _ in 0..TRIES {
            let mut left: Vec<usize> = (0..asks.len()).filter(|at| answers[*at].is_none()).collect();
            left.sort_by_key(|at| asks[*at].key.as_str());
            // A second request for the same key follows the first.
            left.dedup_by_key(|at| &asks[*at].key);
            if left.is_empty() {
                break;
            }
            beaten = self.try_reserve(server, asks, &left, &mut last_seen, &mut answers).await?.or(beaten);
        }
        let all = answers.into_iter().zip(asks.iter().zip(last_seen));
        let each =
            all.map(|(answer, (ask, last))| answer.unwrap_or_else(|| Err(no_values_verdict(ask, last)))).collect();
        Ok(Reservations { server: beaten, each })
    }

    /// Raises rows like Tinyid's own reservation.
    async fn compare_all(&mut self, server: Credentials, notes: &[NotedRow]) -> Result<Option<Comparison>, StoreError> {
        let raise = |note: &NotedRow| {
            let last = note.next - 1;
            format!(
                "UPDATE tiny_id_info SET max_id = {last}, update_time = NOW(), version = version + 1 WHERE {} \
                 AND max_id < {last}",
                is_row(&note.key)
            )
        };
        beats::compare(&mut self.link, server, notes.iter().map(raise)).await
    }

    /// Reads the rows of the remaining requests, and updates them.
    async fn try_reserve(
        &mut self,
        server: Option<Credentials>,
        asks: &[ReserveRequest],
        left: &[usize],
        last_seen: &mut [Option<i64>],
        answers: &mut [Option<Result<Reservation, Verdict>>],
    ) -> Result<Option<ServerBeat>, StoreError> {
        let any: Vec<String> = left.iter().map(|at| format!("({})", is_row(&asks[*at].key))).collect();
        let mut look = Packet::new();
        let rows = add_select(&mut look, &any.join(" OR "));
        let known = high::add_read(&mut look, TABLE, left.iter().map(|at| &asks[*at].key));
        let done = self.link.run(&look).await?;
        let rows: Vec<TinyidRow> = done[rows].rows.iter().map(tinyid_row).collect();
        let known = high::of(&done[known]);
        let floor = |at: usize| known.get(asks[at].key.as_str()).copied().unwrap_or(0).max(asks[at].floor);
        let raised: Vec<ReserveRequest> =
            asks.iter().enumerate().map(|(at, ask)| ReserveRequest { floor: floor(at), ..ask.clone() }).collect();
        let asks = &raised;
        let rows: BTreeMap<&str, &TinyidRow> = rows.iter().map(|row| (row.name.as_str(), row)).collect();
        let mut packet = Packet::transaction();
        let own = server.map(|server| beats::add_own(&mut packet, server, beats::LIVE));
        let mut swaps = Vec::new();
        for at in left {
            match plan(&asks[*at], rows.get(asks[*at].key.as_str()).copied()) {
                UpdatePlan::Done(answer) => answers[*at] = Some(answer),
                UpdatePlan::Swap(row, max_id) => {
                    let swap = packet.add(format_args!(
                        "UPDATE tiny_id_info SET max_id = {max_id}, update_time = NOW(), version = version + 1 \
                         WHERE id = {} AND max_id = {} AND version = {} AND biz_type = '{}'",
                        row.id, row.max_id, row.row.version, row.row.key
                    ));
                    high::add_write(&mut packet, &row.row.key, TABLE, "max_id + 1", &format!("id = {}", row.id));
                    swaps.push((*at, swap, row, max_id));
                }
            }
        }
        if swaps.is_empty() {
            return Ok(None);
        }
        packet.commit();
        let done = self.link.run(&packet).await?;
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

    async fn rows(&mut self, condition: String) -> Result<Vec<TinyidRow>, StoreError> {
        let mut packet = Packet::new();
        add_select(&mut packet, &condition);
        Ok(self.link.run(&packet).await?[0].rows.iter().map(tinyid_row).collect())
    }
}

impl Connection for TinyidConnection {
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
                "tiny_id_info is Tinyid's: INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step, delta, \
                 remainder) VALUES ('{}', 0, 0, 1000, 1, 0)",
                new.key.name()
            )))
        };
        Box::pin(async move { Ok(new.iter().map(verdict).collect()) })
    }

    fn change<'a>(&'a mut self, key: &'a Key, change: &'a RowChange) -> StoreFuture<'a, Result<SequenceRow, Verdict>> {
        let name = key.name();
        let raise = |last: i64| {
            format!(
                "UPDATE tiny_id_info SET max_id = {last}, version = version + 1 WHERE biz_type = '{name}' \
                 AND max_id < {last}"
            )
        };
        let verdict = Verdict::Unsupported(match change {
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
            RowChange::Confirm => "tiny_id_info has no mark to remove".to_owned(),
        });
        Box::pin(async { Ok(Err(verdict)) })
    }

    fn row<'a>(&'a mut self, key: &'a Key) -> StoreFuture<'a, Option<SequenceRow>> {
        Box::pin(async move {
            let rows = self.rows(is_row(key)).await?;
            let Some(row) = rows.into_iter().find(|row| row.name == key.as_str()) else { return Ok(None) };
            row.checked(key).map(|good| Some(good.row)).map_err(StoreError::Refused)
        })
    }

    fn list<'a>(&'a mut self, after: &'a str, limit: u32, _: bool) -> StoreFuture<'a, RowPage> {
        Box::pin(async move {
            let rows = self.rows(after_sql("biz_type", after, limit)).await?;
            let each = rows.into_iter().map(|row| {
                let shown = Key::new(&row.name).map(|key| Ok(row.shown(key)));
                (row.name, String::new(), shown)
            });
            Ok(RowPage::new(limit, each))
        })
    }

    fn count(&mut self) -> StoreFuture<'_, u64> {
        Box::pin(count(&mut self.link, TABLE, "biz_type"))
    }

    fn changes(&mut self, _: Option<u64>) -> StoreFuture<'_, Changes> {
        Box::pin(no_changes(&mut self.link))
    }

    fn tokens(&mut self) -> StoreFuture<'_, Option<Vec<Token>>> {
        Box::pin(tokens(&mut self.link))
    }
}

/// Returns the tokens of Tinyid's clients, whichever tables the sequences are in.
pub(super) async fn tokens(link: &mut MysqlLink) -> Result<Option<Vec<Token>>, StoreError> {
    let mut packet = Packet::new();
    packet.add(format_args!(
        "SELECT token, biz_type FROM tiny_id_token WHERE token <> '' AND biz_type <> '' ORDER BY token, biz_type \
         LIMIT {}",
        TOKENS_MAX + 1
    ));
    match link.run_raw(&packet).await {
        Ok(done) => {
            let rows = done[0].rows.iter();
            Ok(Some(rows.filter_map(|row| Some(Token { token: text(row, 0)?, biz_type: text(row, 1)? })).collect()))
        }
        Err((_, Error::Server(error))) if error.code == NO_SUCH_TABLE => Ok(None),
        Err((_, error)) => Err(link.context.failed(&error, false)),
    }
}

impl TinyidRow {
    /// Returns the row if it is valid, or the error in it with the remedy.
    fn checked(&self, key: &Key) -> Result<ValidRow, String> {
        let found = |number: Option<i64>| number.map_or_else(|| "NULL".to_owned(), |number| number.to_string());
        let bad = |column: &str, number: Option<i64>, why: &str, good: &str| {
            format!(
                "the row '{key}' of tiny_id_info has {column} {}, {why}: UPDATE tiny_id_info SET {column} = {good}, \
                 version = version + 1 WHERE biz_type = '{key}'",
                found(number)
            )
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
        Ok(ValidRow { id: self.id, max_id, step, row: self.shown(key.clone()) })
    }

    /// Converts the table's row, valid or not.
    fn shown(&self, key: Key) -> SequenceRow {
        let small = |number: Option<i64>| u32::try_from(number.unwrap_or(0).max(0)).unwrap_or(u32::MAX);
        let increment = small(self.delta).clamp(1, INCREMENT_MAX);
        let remainder = small(self.remainder) % increment;
        let offset = if remainder == 0 { increment } else { remainder };
        let cache = (small(self.step) / increment).min(RESERVED_MAX);
        let spec = Spec { start: 0, increment, offset, cache, ..Spec::default() };
        SequenceRow {
            key,
            next: spec.next_from(self.max_id.unwrap_or(0).clamp(0, VALUE_MAX) + 1),
            version: self.version.unwrap_or(0).unsigned_abs(),
            generation: 0,
            spec,
            state: RowState::Live,
            created_unix_ms: self.created,
            updated_unix_ms: self.updated,
        }
    }
}

/// Returns the effect of a try on a row: its new `max_id` if the row is valid.
fn plan(ask: &ReserveRequest, row: Option<&TinyidRow>) -> UpdatePlan {
    let Some(row) = row else { return UpdatePlan::Done(Err(Verdict::NoSuch)) };
    let good = match row.checked(&ask.key) {
        Ok(good) => good,
        Err(text) => return UpdatePlan::Done(Err(Verdict::BadRow(text))),
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

/// Adds the statement that reads rows for [`tinyid_row`].
fn add_select(packet: &mut Packet, condition: &str) -> usize {
    packet.add(format_args!(
        "SELECT id, biz_type, max_id, step, delta, remainder, version, {}, {} FROM tiny_id_info WHERE {condition}",
        unix_ms_of("create_time"),
        unix_ms_of("update_time")
    ))
}

/// Returns the condition that a row has this key, by its bytes: Tinyid's column compares `Orders` and `orders` as
/// equal.
fn is_row(key: &Key) -> String {
    format!("biz_type = '{key}' AND CAST(biz_type AS BINARY) = '{key}'")
}

fn tinyid_row(row: &mysql_async::Row) -> TinyidRow {
    TinyidRow {
        id: number(row, 0).unwrap_or(0),
        name: text(row, 1).unwrap_or_default(),
        max_id: number(row, 2),
        step: number(row, 3),
        delta: number(row, 4),
        remainder: number(row, 5),
        version: number(row, 6),
        created: number(row, 7).unwrap_or(0),
        updated: number(row, 8).unwrap_or(0),
    }
}
