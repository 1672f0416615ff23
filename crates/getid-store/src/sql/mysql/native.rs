//! getid's own tables in MySQL: their SQL, and the operations of a connection.
//!
//! A reservation is one packet with a transaction: the rows are locked and read, MySQL computes each new `next` as
//! [`native::apply_reservation`] does, and the rows are read again. A range counts only if the function, applied to the
//! row before, agrees with MySQL's result.
//!
//! Every other change locks and reads a row, changes it by the functions of [`native`], and writes it.
//!
//! Locks are taken in one order everywhere: rows of servers, the row of `getid_store`, rows of generators, then the
//! rows of sequences in the order of their keys. So getid's own transactions don't end in deadlocks.
//!
//! Invariant: no statement creates a row by accident. A reservation is an UPDATE. Only creations, opened periods, and
//! comparisons that find lost rows use INSERT.

use std::collections::BTreeMap;

use getid_core::server::beat::{BeatAnswer, BeatRequest, Credentials};
use getid_core::server::{Key, RESERVED_MAX, VALUE_MAX};

use super::beats;
use super::link::{MysqlLink, NOW, Packet, StatementResult, hex, number, text};
use super::tinyid::tokens;
use crate::sql::native::{
    self, COLUMNS, GENERATOR_COLUMNS, OtherRowsChange, PrunePlan, RawRow, column, policy_word, state_word,
};
use crate::sql::{
    BegunPeriod, Changes, Comparison, Connection, CreateRequest, GENERATORS_MAX, Generator, GiveBackRequest, NotedRow,
    OpenPeriodRequest, PRUNED_MAX, PruneRequest, PruneResult, Reservation, Reservations, ReserveRequest, RowChange,
    RowPage, SequenceRow, ServerBeat, StoreError, StoreFuture, StoreInfo, Token, Verdict,
};

/// SQL of the tables, one statement each. Names are ASCII and compare byte for byte.
pub(super) const TABLES: [&str; 4] = [
    beats::TABLE,
    GENERATORS,
    "CREATE TABLE IF NOT EXISTS getid_store (
  id      TINYINT  NOT NULL PRIMARY KEY,
  uuid    CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  changes BIGINT   NOT NULL
) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS getid_sequence (
  name       VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  period     VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  next       BIGINT       NOT NULL,
  version    BIGINT       NOT NULL DEFAULT 0,
  generation BIGINT       NOT NULL DEFAULT 0,
  changed    BIGINT       NOT NULL DEFAULT 0,
  start      BIGINT       NOT NULL,
  increment  INT          NOT NULL,
  offset_    INT          NOT NULL,
  cache      INT          NOT NULL,
  max_value  BIGINT       NOT NULL,
  policy     VARCHAR(8)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  state      VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'live',
  created    BIGINT       NOT NULL,
  updated    BIGINT       NOT NULL,
  PRIMARY KEY (name, period),
  KEY getid_sequence_changed (changed)
) ENGINE=InnoDB",
];

/// SQL of the table of generators, which stores of earlier builds lack.
pub(super) const GENERATORS: &str = "CREATE TABLE IF NOT EXISTS getid_generator (
  name           VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  declaration    VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reset          VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  newest         VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  closed_through VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  updated        BIGINT       NOT NULL DEFAULT 0
) ENGINE=InnoDB";

/// Locks the row of the store, which each change of rows holds to its end.
const LOCK_STORE: &str = "SELECT changes FROM getid_store WHERE id = 1 FOR UPDATE";

/// SQL of the store's row, for the printed schema. A connection that creates the tables draws the UUID itself, so that
/// it is the same on a replica.
pub(super) const ROW: &str =
    "INSERT IGNORE INTO getid_store (id, uuid, changes) VALUES (1, REPLACE(UUID(), '-', ''), 0);\n";

/// Tries of a reservation whose row is changed by others.
const TRIES: usize = 3;

/// Most rows of one answer of [`Connection::changes`].
const ROWS_MAX: usize = 1000;

/// A connection to getid's own tables.
pub(super) struct NativeConnection {
    link: MysqlLink,
    info: StoreInfo,
    /// Number of rows at the last count plus those created here since, and how many more may be created before the next
    /// count.
    counted: Option<(u64, u64)>,
}

impl NativeConnection {
    pub(super) fn new(link: MysqlLink, info: StoreInfo) -> NativeConnection {
        NativeConnection { link, info, counted: None }
    }

    async fn reserve_all(
        &mut self,
        server: Option<Credentials>,
        asks: &[ReserveRequest],
    ) -> Result<Reservations, StoreError> {
        let mut answers: Vec<Option<Result<Reservation, Verdict>>> = vec![None; asks.len()];
        let mut beaten = None;
        for _ in 0..TRIES {
            let mut left: Vec<usize> = (0..asks.len()).filter(|at| answers[*at].is_none()).collect();
            left.sort_by_key(|at| &asks[*at].key);
            // A second request for the same key follows the first.
            left.dedup_by_key(|at| &asks[*at].key);
            if left.is_empty() {
                break;
            }
            beaten = self.try_reserve(server, asks, &left, &mut answers).await?.or(beaten);
        }
        let each = answers.into_iter().zip(asks).map(|(answer, ask)| answer.unwrap_or_else(|| Err(moved(&ask.key))));
        Ok(Reservations { server: beaten, each: each.collect() })
    }

    /// Runs one transaction for the remaining requests, in the order of their keys.
    async fn try_reserve(
        &mut self,
        server: Option<Credentials>,
        asks: &[ReserveRequest],
        left: &[usize],
        answers: &mut [Option<Result<Reservation, Verdict>>],
    ) -> Result<Option<ServerBeat>, StoreError> {
        let any: Vec<String> = left.iter().map(|at| format!("({})", is_row(&asks[*at].key))).collect();
        let any = any.join(" OR ");
        let mut packet = Packet::transaction();
        let own = server.map(|server| beats::add_own(&mut packet, server, beats::LIVE));
        // Without the index the statement would wait for locks of other rows.
        let before = packet.add(format_args!(
            "SELECT {COLUMNS} FROM getid_sequence FORCE INDEX (PRIMARY) WHERE {any} ORDER BY name, period FOR UPDATE"
        ));
        let first = before + 1;
        for at in left {
            packet.add(format_args!("{}", reserve_sql(&asks[*at])));
        }
        let after = packet.add(format_args!("SELECT {COLUMNS} FROM getid_sequence WHERE {any}"));
        packet.commit();
        let done = self.link.run(&packet).await?;
        let beaten = own.map(|own| own.read(&done)).transpose()?;
        let (before, after) = (by_key(&done[before]), by_key(&done[after]));
        for (at, updated) in left.iter().zip(&done[first..]) {
            let ask = &asks[*at];
            answers[*at] = match (before.get(ask.key.as_str()), after.get(ask.key.as_str())) {
                (Some(before), Some(after)) => answer_of(ask, before, after, updated.affected == 1),
                _ => Some(Err(Verdict::NoSuch)),
            };
        }
        Ok(beaten)
    }

    async fn compare_all(&mut self, server: Credentials, notes: &[NotedRow]) -> Result<Option<Comparison>, StoreError> {
        let any: Vec<String> = notes.iter().map(|note| format!("({})", is_row(&note.key))).collect();
        let mut packet = Packet::locking();
        let own = beats::add_own(&mut packet, server, beats::COMPARING);
        let names: Vec<String> = notes.iter().map(|note| note.key.name().to_owned()).collect();
        let closed = packet.add(format_args!(
            "SELECT {GENERATOR_COLUMNS} FROM getid_generator WHERE closed_through <> '' AND ({}) LOCK IN SHARE MODE",
            generators_sql(&names)
        ));
        let rows = packet.add(format_args!(
            "SELECT {COLUMNS} FROM getid_sequence FORCE INDEX (PRIMARY) WHERE {} ORDER BY name, period FOR UPDATE",
            if any.is_empty() { "FALSE".to_owned() } else { any.join(" OR ") }
        ));
        let done = self.link.run(&packet).await?;
        let Ok(beaten) = own.read(&done) else {
            self.link.rollback().await?;
            return Ok(None);
        };
        let found: Vec<RawRow> = done[rows].rows.iter().map(raw_row).collect();
        let closed: Vec<Generator> = done[closed].rows.iter().map(generator).collect();
        let notes = &native::without_closed(notes, &closed);
        let lost = native::lost_rows(notes, &found);
        let raised = native::lower_than(notes, found);
        let mut packet = Packet::within();
        for row in &lost {
            packet.add(format_args!("{} ON DUPLICATE KEY UPDATE version = version", insert_sql(row, 0, NOW)));
        }
        for (key, next) in &raised {
            packet.add(format_args!(
                "UPDATE getid_sequence SET next = {next}, version = version + 1, updated = {NOW} WHERE {}",
                is_row(key)
            ));
        }
        packet.commit();
        self.link.run(&packet).await?;
        Ok(Some(Comparison { beat: beaten.beat, raised: raised.len() + lost.len() }))
    }

    async fn give_back_all(
        &mut self,
        server: Option<Credentials>,
        ends: &[GiveBackRequest],
    ) -> Result<Vec<bool>, StoreError> {
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by_key(|at| &ends[*at].key);
        let mut packet = Packet::transaction();
        let allowed = server.map_or("TRUE".to_owned(), |server| beats::add_condition(&mut packet, server));
        let mut updates = vec![0; ends.len()];
        for at in order {
            let GiveBackRequest { key, version, next } = &ends[at];
            updates[at] = packet.add(format_args!(
                "UPDATE getid_sequence SET version = version + 1, updated = {NOW}, next = {next} \
                 WHERE {} AND state = 'live' AND version = {} AND next > {next} AND start <= {next} \
                 AND MOD({next}, increment) = MOD(offset_, increment) AND {allowed}",
                is_row(key),
                column(*version)
            ));
        }
        packet.commit();
        let done = self.link.run(&packet).await?;
        Ok(updates.into_iter().map(|at| done[at].affected == 1).collect())
    }

    /// Begins a transaction and locks the store's row and these rows. Returns `changes`, the server's time, and the
    /// rows.
    async fn lock(
        &mut self,
        server: Option<Credentials>,
        keys: impl Iterator<Item = &Key>,
    ) -> Result<LockedRows, StoreError> {
        let any: Vec<String> = keys.map(|key| format!("({})", is_row(key))).collect();
        let mut packet = Packet::locking();
        let own = server.map(|server| beats::add_own(&mut packet, server, beats::LIVE));
        let changes = packet.add(format_args!("{LOCK_STORE}"));
        let now = packet.add(format_args!("SELECT {NOW}"));
        let rows = packet.add(format_args!(
            "SELECT {COLUMNS} FROM getid_sequence FORCE INDEX (PRIMARY) WHERE {} ORDER BY name, period FOR UPDATE",
            any.join(" OR ")
        ));
        let done = self.link.run(&packet).await?;
        if let Some(own) = own {
            own.read(&done)?;
        }
        let (changes, now) = (done[changes].number(), done[now].number().unwrap_or(0));
        let changes = changes.ok_or_else(lost)?;
        Ok(LockedRows { changes, now, rows: by_key(&done[rows]) })
    }

    async fn change_one(&mut self, key: &Key, change: &RowChange) -> Result<Result<SequenceRow, Verdict>, StoreError> {
        let mut locked = self.lock(None, std::iter::once(key)).await?;
        let decided = match locked.rows.remove(key.as_str()).map(RawRow::read) {
            None => Err(Verdict::NoSuch),
            Some(Err(text)) => Err(Verdict::BadRow(text)),
            Some(Ok(row)) => native::apply_change(&row, change, locked.now).map(|after| (row.version, after)),
        };
        let decided = vec![decided.map(|(seen, after)| (Some(seen), after))];
        Ok(self.write_rows(locked.changes, decided).await?.pop().unwrap_or(Err(Verdict::NoSuch)))
    }

    async fn create_each(&mut self, new: &[CreateRequest]) -> Result<Vec<Result<SequenceRow, Verdict>>, StoreError> {
        let Some(first) = new.first() else { return Ok(Vec::new()) };
        let mut there = self.rows_for(first).await?;
        let mut locked = self.lock(first.server, new.iter().map(|new| &new.key)).await?;
        let mut decided = Vec::with_capacity(new.len());
        for new in new {
            let made = match locked.rows.remove(new.key.as_str()).map(RawRow::read).transpose() {
                Err(text) => Err(Verdict::BadRow(text)),
                Ok(found) => native::apply_creation(found.as_ref(), new, there, locked.now)
                    .map(|after| (found.as_ref().map(|row| row.version), after)),
            };
            there += u64::from(made.is_ok());
            decided.push(made);
        }
        let made = self.write_rows(locked.changes, decided).await?;
        if let Some((rows, more)) = &mut self.counted {
            let count = made.iter().filter(|made| made.is_ok()).count() as u64;
            (*rows, *more) = (*rows + count, more.saturating_sub(count));
        }
        Ok(made)
    }

    /// Writes rows, each with its previous version if it existed, and ends the transaction of [`Self::lock`].
    async fn write_rows(
        &mut self,
        changes: i64,
        decided: Vec<Result<(Option<u64>, SequenceRow), Verdict>>,
    ) -> Result<Vec<Result<SequenceRow, Verdict>>, StoreError> {
        let mut packet = Packet::within();
        let mut changed = changes;
        let mut each = Vec::with_capacity(decided.len());
        for decided in decided {
            each.push(decided.map(|(seen, after)| {
                changed = changed.saturating_add(1);
                (packet.add(format_args!("{}", write_sql(changed, seen, &after))), after)
            }));
        }
        if changed == changes {
            self.link.rollback().await?;
            return Ok(each.into_iter().map(|made| made.map(|(_, after)| after)).collect());
        }
        packet.add(format_args!("UPDATE getid_store SET changes = {changed} WHERE id = 1"));
        packet.commit();
        let done = self.link.run(&packet).await?;
        let written = |(at, after): (usize, SequenceRow)| {
            if done[at].affected == 1 {
                return Ok(after);
            }
            Err(Verdict::BadRow(format!("the row of '{}' was changed at the same moment: try it again", after.key)))
        };
        Ok(each.into_iter().map(|made| made.and_then(written)).collect())
    }

    /// Returns the number of rows, for a creation with a maximum. Counting reads them all, so a count is reused for a
    /// sixteenth of the free rows. If several servers create at a time, each may exceed the maximum by that number.
    async fn rows_for(&mut self, new: &CreateRequest) -> Result<u64, StoreError> {
        if new.rows_max == 0 {
            return Ok(0);
        }
        if let Some((rows, 1..)) = self.counted
            && rows < new.rows_max
        {
            return Ok(rows);
        }
        let rows = self.count_rows().await?;
        self.counted = Some((rows, new.rows_max.saturating_sub(rows) / 16));
        Ok(rows)
    }

    async fn count_rows(&mut self) -> Result<u64, StoreError> {
        let mut packet = Packet::new();
        packet.add(format_args!("SELECT COUNT(*) FROM getid_sequence WHERE period = '' AND state <> 'dropped'"));
        let done = self.link.run(&packet).await?;
        Ok(done[0].number().unwrap_or(0).unsigned_abs())
    }

    async fn generators_of(&mut self, names: Option<&[String]>) -> Result<Vec<Generator>, StoreError> {
        let condition = names.map_or("TRUE".to_owned(), generators_sql);
        let mut packet = Packet::new();
        packet.add(format_args!(
            "SELECT {GENERATOR_COLUMNS} FROM getid_generator WHERE {condition} ORDER BY name LIMIT {GENERATORS_MAX}"
        ));
        Ok(self.link.run(&packet).await?[0].rows.iter().map(generator).collect())
    }

    async fn open_one(&mut self, ask: &OpenPeriodRequest) -> Result<Result<Generator, Verdict>, StoreError> {
        let (name, period) = (ask.key.name(), ask.key.period());
        let mut packet = Packet::locking();
        let own = ask.server.map(|server| beats::add_own(&mut packet, server, beats::LIVE));
        let changes = packet.add(format_args!("{LOCK_STORE}"));
        let now = packet.add(format_args!("SELECT {NOW}"));
        let found = packet
            .add(format_args!("SELECT {GENERATOR_COLUMNS} FROM getid_generator WHERE name = '{name}' FOR UPDATE"));
        // Reservations from rows that are about to be dropped end before, or find them dropped.
        let native::RecentRows { since_unix_ms, year } = native::recent_rows(ask);
        let highest = packet.add(format_args!(
            "SELECT COALESCE(MAX(next), 0) FROM getid_sequence FORCE INDEX (PRIMARY) WHERE name = '{name}' \
             AND (period = '' OR period >= '{year}') AND LENGTH(period) <> {} AND updated >= {since_unix_ms} FOR UPDATE",
            period.len()
        ));
        let row =
            packet.add(format_args!("SELECT {COLUMNS} FROM getid_sequence WHERE {} FOR UPDATE", is_row(&ask.key)));
        let done = self.link.run(&packet).await?;
        if let Some(own) = own {
            own.read(&done)?;
        }
        let (now, highest) = (done[now].number().unwrap_or(0), done[highest].number().unwrap_or(0));
        let next = done[changes].number().ok_or_else(lost)?.saturating_add(1);
        let found = done[found].rows.first().map(generator);
        let opening = match done[row].rows.first().map(raw_row).map(RawRow::read).transpose() {
            Err(bad) => Err(Verdict::BadRow(bad)),
            Ok(row) => native::apply_period_opening(found.as_ref(), row.as_ref(), highest, ask, now)
                .map(|opening| (row.map(|row| row.version), opening)),
        };
        let (seen, opening) = match opening {
            Ok(opening) => opening,
            Err(verdict) => {
                self.link.rollback().await?;
                return Ok(Err(verdict));
            }
        };
        let mut packet = Packet::within();
        packet.add(format_args!("UPDATE getid_store SET changes = {next} WHERE id = 1"));
        if let Some(row) = &opening.row {
            packet.add(format_args!("{}", write_sql(next, seen, row)));
        }
        let others = match opening.others {
            OtherRowsChange::Stay => None,
            OtherRowsChange::Renewed => {
                Some((String::new(), format!("updated >= {since_unix_ms} AND period <> '{period}'")))
            }
            OtherRowsChange::Dropped { length } => {
                Some(("state = 'dropped', ".to_owned(), format!("LENGTH(period) = {length}")))
            }
        };
        if let Some((set, condition)) = others {
            packet.add(format_args!(
                "UPDATE getid_sequence SET {set}version = version + 1, generation = generation + 1, changed = {next} \
                 WHERE name = '{name}' AND state = 'live' AND {condition}"
            ));
        }
        packet.add(format_args!("{}", write_generator_sql(&opening.generator)));
        packet.commit();
        self.link.run(&packet).await?;
        Ok(Ok(opening.generator))
    }

    async fn begin_all(&mut self, begun: &[BegunPeriod]) -> Result<(), StoreError> {
        let mut packet = Packet::transaction();
        for BegunPeriod { key, declaration } in begun {
            packet.add(format_args!(
                "UPDATE getid_generator SET newest = '{1}', updated = {NOW} WHERE name = '{0}' AND newest < '{1}' \
                 AND declaration = x'{2}'",
                key.name(),
                key.period(),
                hex(declaration.as_bytes())
            ));
        }
        packet.commit();
        self.link.run(&packet).await.map(drop)
    }

    async fn prune_one(&mut self, ask: &PruneRequest) -> Result<Result<PruneResult, Verdict>, StoreError> {
        let mut packet = Packet::locking();
        packet.add(format_args!("{LOCK_STORE}"));
        let names = [ask.name.clone()];
        let found = packet.add(format_args!(
            "SELECT {GENERATOR_COLUMNS} FROM getid_generator WHERE {} FOR UPDATE",
            generators_sql(&names)
        ));
        let found = self.link.run(&packet).await?[found].rows.first().map(generator);
        let pruning = found.as_ref().and_then(|found| PrunePlan::new(found, &ask.through));
        let Some(pruning) = pruning else {
            self.link.rollback().await?;
            return Ok(found.map(|_| PruneResult::default()).ok_or(Verdict::NoSuch));
        };
        let mut packet = Packet::within();
        let count = packet.add(format_args!("{}", pruning.count_sql()));
        let deleted = ask.deletes.then(|| {
            packet.add(format_args!("{}", write_generator_sql(&pruning.closed)));
            packet.add(format_args!("DELETE FROM getid_sequence WHERE {} LIMIT {PRUNED_MAX}", pruning.condition))
        });
        packet.commit();
        let done = self.link.run(&packet).await?;
        let counted = done[count].rows.first();
        let of = |at| counted.and_then(|row| text(row, at)).unwrap_or_default();
        let rows = done[count].number().unwrap_or(0).unsigned_abs();
        let deleted = deleted.map_or(0, |deleted| done[deleted].affected);
        Ok(Ok(PruneResult { rows, first: of(1), last: of(2), deleted }))
    }

    async fn rows(&mut self, condition: String) -> Result<Vec<SequenceRow>, StoreError> {
        let rows = self.raw_rows(condition).await?;
        rows.into_iter().map(|row| row.read().map_err(StoreError::Refused)).collect()
    }

    async fn raw_rows(&mut self, condition: String) -> Result<Vec<RawRow>, StoreError> {
        let mut packet = Packet::new();
        packet.add(format_args!("SELECT {COLUMNS} FROM getid_sequence WHERE {condition}"));
        Ok(self.link.run(&packet).await?[0].rows.iter().map(raw_row).collect())
    }

    async fn changes_since(&mut self, seen: Option<u64>) -> Result<Changes, StoreError> {
        let mut packet = Packet::new();
        packet.add(format_args!("SELECT changes FROM getid_store WHERE id = 1"));
        if let Some(seen) = seen {
            // This SELECT follows the one of `changes`: every row with a number up to it is committed and visible.
            packet.add(format_args!(
                "SELECT name, period, generation, changed FROM getid_sequence WHERE changed > {} \
                 ORDER BY changed LIMIT {ROWS_MAX}",
                column(seen)
            ));
        }
        let done = self.link.run(&packet).await?;
        let upto = done[0].number().ok_or_else(lost)?;
        let mut changes = Changes { upto: upto.unsigned_abs(), rows: Vec::new() };
        let rows = done.get(1).map_or(&[][..], |done| &done.rows);
        for row in rows {
            let (name, period) = (text(row, 0).unwrap_or_default(), text(row, 1).unwrap_or_default());
            let key = if period.is_empty() { Key::new(&name) } else { Key::of_period(&name, &period) };
            if let (Some(key), Some(generation)) = (key, number(row, 2)) {
                changes.rows.push((key, generation.unsigned_abs()));
            }
        }
        if rows.len() == ROWS_MAX
            && let Some(last) = rows.last().and_then(|row| number(row, 3))
        {
            changes.upto = last.unsigned_abs();
        }
        Ok(changes)
    }
}

/// State that [`NativeConnection::lock`] has locked.
struct LockedRows {
    changes: i64,
    now: i64,
    /// Rows by the text of their keys.
    rows: BTreeMap<String, RawRow>,
}

impl Connection for NativeConnection {
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

    fn give_back<'a>(
        &'a mut self,
        server: Option<Credentials>,
        ends: &'a [GiveBackRequest],
    ) -> StoreFuture<'a, Vec<bool>> {
        Box::pin(self.give_back_all(server, ends))
    }

    fn create_all<'a>(&'a mut self, new: &'a [CreateRequest]) -> StoreFuture<'a, Vec<Result<SequenceRow, Verdict>>> {
        Box::pin(self.create_each(new))
    }

    fn change<'a>(&'a mut self, key: &'a Key, change: &'a RowChange) -> StoreFuture<'a, Result<SequenceRow, Verdict>> {
        Box::pin(self.change_one(key, change))
    }

    fn row<'a>(&'a mut self, key: &'a Key) -> StoreFuture<'a, Option<SequenceRow>> {
        Box::pin(async move { Ok(self.rows(is_row(key)).await?.pop()) })
    }

    fn list<'a>(&'a mut self, after: &'a str, limit: u32, periods: bool) -> StoreFuture<'a, RowPage> {
        let (name, period) = RowPage::cursor(after);
        let condition = if periods {
            format!(
                "({} OR ({} AND {}))",
                compared("name", ">", name),
                compared("name", "=", name),
                compared("period", ">", period)
            )
        } else {
            format!("{} AND period = ''", compared("name", ">", name))
        };
        Box::pin(async move {
            let page = format!("{condition} AND state <> 'dropped' ORDER BY name, period LIMIT {limit}");
            Ok(native::page_of(limit, self.raw_rows(page).await?))
        })
    }

    fn count(&mut self) -> StoreFuture<'_, u64> {
        Box::pin(self.count_rows())
    }

    fn changes(&mut self, seen: Option<u64>) -> StoreFuture<'_, Changes> {
        Box::pin(self.changes_since(seen))
    }

    fn generators<'a>(&'a mut self, names: Option<&'a [String]>) -> StoreFuture<'a, Vec<Generator>> {
        Box::pin(self.generators_of(names))
    }

    fn open_period<'a>(&'a mut self, ask: &'a OpenPeriodRequest) -> StoreFuture<'a, Result<Generator, Verdict>> {
        Box::pin(self.open_one(ask))
    }

    fn begin_periods<'a>(&'a mut self, begun: &'a [BegunPeriod]) -> StoreFuture<'a, ()> {
        Box::pin(self.begin_all(begun))
    }

    fn prune<'a>(&'a mut self, ask: &'a PruneRequest) -> StoreFuture<'a, Result<PruneResult, Verdict>> {
        Box::pin(self.prune_one(ask))
    }

    fn maximum<'a>(&'a mut self, table: &'a str, id: i64) -> StoreFuture<'a, Result<Option<i64>, Verdict>> {
        Box::pin(async move {
            let mut packet = Packet::new();
            packet.add(format_args!("SELECT current_max_id FROM `{table}` WHERE id = {id}"));
            Ok(Ok(self.link.run(&packet).await?.first().and_then(super::link::StatementResult::number)))
        })
    }

    fn tokens(&mut self) -> StoreFuture<'_, Option<Vec<Token>>> {
        Box::pin(tokens(&mut self.link))
    }
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
        (Err(text), _) | (_, Err(text)) => return Some(Err(Verdict::BadRow(text))),
    };
    match native::apply_reservation(&before, ask, after.updated_unix_ms) {
        Err(verdict) => Some(Err(verdict)),
        Ok(expected) if expected.last < expected.first => Some(Ok(expected)),
        Ok(expected) => {
            let is_ours = is_updated && (expected.row.next, expected.row.spec) == (after.next, after.spec);
            is_ours.then_some(Ok(Reservation { row: after, ..expected }))
        }
    }
}

/// Returns the condition that a generator has one of these names.
fn generators_sql(names: &[String]) -> String {
    let any: Vec<String> = names.iter().map(|name| compared("name", "=", name)).collect();
    if any.is_empty() { "FALSE".to_owned() } else { any.join(" OR ") }
}

/// Parses a row in the order of [`GENERATOR_COLUMNS`].
fn generator(row: &mysql_async::Row) -> Generator {
    let text = |at| text(row, at).unwrap_or_default();
    Generator { name: text(0), declaration: text(1), reset: text(2), newest: text(3), closed_through: text(4) }
}

fn write_generator_sql(generator: &Generator) -> String {
    let texts =
        [&generator.name, &generator.declaration, &generator.reset, &generator.newest, &generator.closed_through];
    let texts =
        texts.map(|text| if text.is_empty() { "''".to_owned() } else { format!("x'{}'", hex(text.as_bytes())) });
    format!(
        "INSERT INTO getid_generator ({GENERATOR_COLUMNS}, updated) VALUES ({}, {NOW}) ON DUPLICATE KEY UPDATE \
         declaration = VALUES(declaration), reset = VALUES(reset), newest = VALUES(newest), \
         closed_through = VALUES(closed_through), updated = VALUES(updated)",
        texts.join(", ")
    )
}

/// Returns rows by their keys as text.
fn by_key(done: &StatementResult) -> BTreeMap<String, RawRow> {
    let key = |row: &RawRow| {
        if row.period.is_empty() { row.name.clone() } else { format!("{}@{}", row.name, row.period) }
    };
    done.rows.iter().map(raw_row).map(|row| (key(&row), row)).collect()
}

/// Returns the comparison of a column with any text. A text that is not a valid name is written in hexadecimal digits,
/// and compared without the index.
fn compared(column: &str, operator: &str, with: &str) -> String {
    // A comparison would ignore a blank at the end.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-{}# ".contains(&byte);
    if with.bytes().all(is_plain) && !with.ends_with(' ') {
        return format!("{column} {operator} '{with}'");
    }
    format!("CAST({column} AS BINARY) {operator} x'{}'", hex(with.as_bytes()))
}

/// Returns the error if `getid_store` was emptied. The connection is dropped, and the next one creates the row.
fn lost() -> StoreError {
    StoreError::Unknown("getid_store has lost its row, a new connection makes it again".to_owned())
}

fn moved(key: &Key) -> Verdict {
    Verdict::BadRow(format!("the row of '{key}' was changed by other servers {TRIES} times during a reservation"))
}

/// Returns the condition that a row has this key.
fn is_row(key: &Key) -> String {
    format!("name = '{}' AND period = '{}'", key.name(), key.period())
}

/// Returns the UPDATE of a reservation. It changes nothing if the row gives no values, or has none left.
fn reserve_sql(ask: &ReserveRequest) -> String {
    let values = ask.values.clamp(1, RESERVED_MAX);
    let floor = ask.floor.clamp(0, VALUE_MAX + 1);
    // The formula of `Spec::next_from` for three numbers.
    let from = format!("GREATEST(next, start, {floor})");
    let first = format!("({from} + MOD(increment + offset_ - MOD({from}, increment), increment))");
    // MySQL assigns from left to right, so `next` comes last.
    format!(
        "UPDATE getid_sequence SET version = version + 1, updated = {NOW}, next = {first} \
         + LEAST({values}, (max_value - {first}) DIV increment + 1) * increment \
         WHERE {} AND state = 'live' AND increment > 0 AND offset_ BETWEEN 1 AND increment AND next >= 0 \
         AND {first} <= max_value",
        is_row(&ask.key)
    )
}

fn insert_sql(row: &SequenceRow, changed: i64, now: &str) -> String {
    let SequenceRow { key, next, version, generation, spec, state, .. } = row;
    format!(
        "INSERT INTO getid_sequence ({COLUMNS}, changed) VALUES ('{}', '{}', {next}, {}, {}, {}, {}, {}, {}, {}, '{}', \
         '{}', {now}, {now}, {changed})",
        key.name(),
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

/// Returns the statement that writes the whole row, over the one with this version, or as a new one.
fn write_sql(changed: i64, seen: Option<u64>, row: &SequenceRow) -> String {
    let Some(seen) = seen else { return insert_sql(row, changed, &row.updated_unix_ms.to_string()) };
    let SequenceRow { key, next, version, generation, spec, state, created_unix_ms, updated_unix_ms } = row;
    format!(
        "UPDATE getid_sequence SET next = {next}, version = {}, generation = {}, changed = {changed}, start = {}, \
         increment = {}, offset_ = {}, cache = {}, max_value = {}, policy = '{}', state = '{}', \
         created = {created_unix_ms}, updated = {updated_unix_ms} WHERE {} AND version = {}",
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

/// Parses a row in the order of [`COLUMNS`]. A column without a number gets an invalid one, which [`RawRow::read`]
/// reports.
fn raw_row(row: &mysql_async::Row) -> RawRow {
    let number = |at| number(row, at).unwrap_or(i64::MIN);
    let text = |at| text(row, at).unwrap_or_else(|| "NULL".to_owned());
    RawRow {
        name: text(0),
        period: text(1),
        next: number(2),
        version: number(3),
        generation: number(4),
        start: number(5),
        increment: number(6),
        offset: number(7),
        cache: number(8),
        max: number(9),
        policy: text(10),
        state: text(11),
        created: number(12),
        updated: number(13),
    }
}
