//! An open connection to getid's own tables in any of the databases: the one implementation of [`Connection`] for them.
//!
//! A change locks and reads rows in one packet, changes them by the functions of [`native`], and writes them in a
//! second packet, which ends the transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use getid_core::server::beat::{BeatAnswer, BeatRequest, Credentials};
use getid_core::server::ledger::{LedgerCounts, LedgerPage, LedgerQuery, NumberRequest};
use getid_core::server::request_key::{RequestRow, RequestScope};
use getid_core::server::{Key, Spec};

use super::beats::{self, BeatStatements};
use super::native::{
    self, COLUMNS, FoundRows, GENERATOR_COLUMNS, OtherRowsChange, PeriodOpening, PrunePlan, RawRow, column,
};
use super::numbers;
use super::packet::{Link, Packet, PacketFailureKind, SqlRow, StatementResult};
use super::requests;
use super::script::{self, COUNT, IS_SEQUENCE, by_key, is_row};
use super::{
    BegunPeriod, Changes, ClaimBatch, ClaimResult, Comparison, Connection, CreateRequest, GENERATORS_MAX, Generator,
    GiveBackRequest, LedgerNote, NamePage, NotedRow, NumberAnswers, OpenPeriodRequest, PRUNED_MAX, PruneRequest,
    PruneResult, Reservation, Reservations, ReserveRequest, RowChange, RowPage, RowState, SequenceRow, ServerBeat,
    StoreError, StoreFuture, StoreInfo, TOKENS_MAX, Token, Verdict, declares_ledger, no_maximums,
};

/// Most rows of one answer.
const ROWS_MAX: u32 = 1000;

/// Number of rows that one statement counts in parts: some 20 ms. A count of a million can exceed a statement's
/// deadline, after which the store counts as down.
const COUNTED_PER_STATEMENT: u64 = 20_000;

/// Most generators between whose names one page of sequences reads: two round trips each.
const GENERATORS_PER_PAGE: usize = 16;

/// Most begun periods that one transaction records. A declaration has at most 512 bytes, which MySQL gets as 1,024
/// digits, so that 200 statements have less than 300 KiB: MySQL takes 1 MiB or more.
const BEGUN_MAX: usize = 200;

/// How a database reserves values of several rows.
pub(super) trait ReserveLink: Link {
    /// Does [`Connection::reserve_as`].
    fn reserve(
        &mut self,
        server: Option<Credentials>,
        asks: &[ReserveRequest],
    ) -> impl Future<Output = Result<Reservations, StoreError>> + Send {
        script::reserve(self, server, asks)
    }
}

/// A connection to getid's own tables.
pub(super) struct SqlConnection<L> {
    pub(super) link: L,
    counted: Option<RowCount>,
    counting: Option<Counting>,
}

/// A count of rows that has begun.
struct Counting {
    /// Number of rows up to `after`.
    rows: u64,
    /// Number of the last change before the count began; `None` if the tables are absent.
    change: Option<i64>,
    /// Name of the last counted row.
    after: String,
}

/// Number of rows at a moment. The number of changes since is an upper bound of the rows created since.
#[derive(Clone, Copy)]
struct RowCount {
    rows: u64,
    /// Number of the last change that the count includes.
    change: i64,
    /// Whether the count stopped at its limit: `rows` is a lower bound then.
    is_stopped: bool,
}

/// Rows that [`SqlConnection::lock`] has locked.
struct LockedRows {
    /// Number of the last change.
    changes: i64,
    /// The database's time.
    now: i64,
    /// Rows by the text of their keys.
    rows: BTreeMap<String, RawRow>,
    /// Names whose numbers have a ledger.
    with_ledger: BTreeSet<String>,
    /// State of the requesting server.
    server: Option<ServerBeat>,
}

/// A reservation whose row is written, with the version of the row before it, if it existed.
type WrittenRow = (Option<u64>, Reservation);

impl<L: Link> SqlConnection<L> {
    pub(super) fn new(link: L) -> SqlConnection<L> {
        SqlConnection { link, counted: None, counting: None }
    }

    /// Begins a transaction and locks the store's row and these rows. Returns `None`, without a transaction, if there
    /// is no file.
    async fn lock(
        &mut self,
        server: Option<Credentials>,
        keys: &[&Key],
        creates: bool,
    ) -> Result<Option<LockedRows>, StoreError> {
        let mut packet = Packet::locking().creating(creates);
        let own = of_shared::<L>(server).map(|server| BeatStatements::add::<L>(&mut packet, server, beats::LIVE));
        let changes = packet.add(script::lock_store_sql::<L>());
        let now = packet.add(format!("SELECT {}", L::NOW));
        let rows = packet.add(script::lock_rows_sql::<L>(keys.iter().copied()));
        let ledgers = LedgerReads::add::<L>(&mut packet, keys);
        let done = self.link.run(packet).await?;
        let server = own.map(|own| own.read(&done)).transpose()?;
        let Some(changes) = done[changes].number() else {
            self.link.rollback().await?;
            return absent::<L, _>(done[now].rows.is_empty(), None);
        };
        let (now, rows, with_ledger) = (done[now].number().unwrap_or(0), by_key(&done[rows]), ledgers.read(&done));
        Ok(Some(LockedRows { changes, now, rows, with_ledger, server }))
    }

    async fn create_each(&mut self, new: &[CreateRequest]) -> Result<Reservations, StoreError> {
        let Some(first) = new.first() else { return Ok(Reservations { server: None, each: Vec::new() }) };
        let rows_max = new.iter().map(|new| new.rows_max).max().unwrap_or(0);
        if rows_max > 0 && self.counted.is_none() {
            self.count_rows().await?;
        }
        let keys: Vec<&Key> = new.iter().map(|new| &new.key).collect();
        let locked = self.lock(first.server, &keys, true).await?;
        let Some(mut locked) = locked else { return Err(lost()) };
        let mut there = if rows_max > 0 { self.count_up_to(rows_max, locked.changes).await? } else { 0 };
        let mut decided: Vec<Result<WrittenRow, Verdict>> = Vec::with_capacity(new.len());
        let mut places = HashMap::with_capacity(new.len());
        for new in new {
            if let Some(earlier) = places.insert(&new.key, decided.len()) {
                decided.push(Err(match &decided[earlier] {
                    Ok((_, made)) => Verdict::Exists(Box::new(made.row.clone())),
                    Err(verdict) => verdict.clone(),
                }));
                continue;
            }
            let made = match locked.rows.remove(new.key.as_str()).map(RawRow::read).transpose() {
                // Its counter is opened by a server that declares it.
                _ if locked.with_ledger.contains(new.key.name()) => Err(numbers::has_ledger()),
                Err(bad) => Err(Verdict::BadRow(bad.to_string())),
                Ok(found) => native::apply_creation(found.as_ref(), new, there, locked.now)
                    .and_then(|row| native::first_reservation(row, new.values, locked.now))
                    .map(|made| (found.as_ref().map(|row| row.version), made)),
            };
            there += u64::from(made.is_ok());
            decided.push(made);
        }
        let is_more = |made: &Result<WrittenRow, Verdict>| made.as_ref().is_ok_and(|(_, made)| made.row.key.is_plain());
        let more = i64::try_from(decided.iter().filter(|made| is_more(made)).count()).unwrap_or(i64::MAX);
        let each = self.write_rows(locked.changes, decided, more).await?;
        Ok(Reservations { server: locked.server, each })
    }

    async fn change_one(&mut self, key: &Key, change: &RowChange) -> Result<Result<SequenceRow, Verdict>, StoreError> {
        let locked = self.lock(None, &[key], false).await?;
        let Some(mut locked) = locked else { return Ok(Err(Verdict::NoSuch)) };
        let has_ledger = locked.with_ledger.contains(key.name());
        let decided = match locked.rows.remove(key.as_str()).map(RawRow::read) {
            None => Err(Verdict::NoSuch),
            Some(Err(bad)) => Err(Verdict::BadRow(bad.to_string())),
            Some(Ok(row)) => {
                let is_declared = *change == RowChange::Confirm { has_ledger: true };
                let has_ledger = has_ledger || is_declared || row.state == RowState::Ledger;
                let after = match change {
                    _ if !has_ledger => native::apply_change(&row, change, locked.now),
                    RowChange::Confirm { .. } => native::apply_change(&row, change, locked.now)
                        .map(|after| SequenceRow { state: RowState::Ledger, ..after }),
                    _ => Err(numbers::has_ledger()),
                };
                after.map(|after| (Some(row.version), Reservation::empty(after)))
            }
        };
        let is_drop = *change == RowChange::Drop && decided.is_ok() && key.is_plain();
        let written = self.write_rows(locked.changes, vec![decided], -i64::from(is_drop)).await?.pop();
        Ok(written.unwrap_or(Err(Verdict::NoSuch)).map(|written| written.row))
    }

    /// Writes rows, and ends the transaction of [`Self::lock`]. `rows_more`: how many more rows are counted after it.
    async fn write_rows(
        &mut self,
        changes: i64,
        decided: Vec<Result<WrittenRow, Verdict>>,
        rows_more: i64,
    ) -> Result<Vec<Result<Reservation, Verdict>>, StoreError> {
        let mut packet = Packet::commit();
        let mut changed = changes;
        let mut new = Vec::new();
        let mut each = Vec::with_capacity(decided.len());
        for decided in decided {
            each.push(decided.map(|(seen, after)| {
                changed = changed.saturating_add(1);
                let update = seen.map(|seen| packet.add(script::write_sql(changed, Some(seen), &after.row)));
                if update.is_none() {
                    new.push(script::new_row(&after.row, changed));
                }
                (update, after)
            }));
        }
        let insert = (!new.is_empty()).then(|| packet.add(script::insert_sql(&new)));
        if packet.is_empty() {
            self.link.rollback().await?;
            return Ok(each.into_iter().map(|made| made.map(|(_, after)| after)).collect());
        }
        packet.add(format!("UPDATE getid_store SET changes = {changed} WHERE id = 1"));
        let done = self.link.run(packet).await?;
        let is_inserted = insert.is_some_and(|at| done[at].affected == new.len() as u64);
        if let Some(counted) = self.counted.as_mut()
            && counted.change == changes
            && (!counted.is_stopped || rows_more >= 0)
        {
            counted.rows = counted.rows.saturating_add_signed(rows_more);
            counted.change = changed;
        }
        let written = |(update, after): (Option<usize>, Reservation)| {
            if update.map_or(is_inserted, |at| done[at].affected == 1) {
                return Ok(after);
            }
            let key = &after.row.key;
            Err(Verdict::BadRow(format!("the row of '{key}' was changed at the same moment: try it again")))
        };
        Ok(each.into_iter().map(|made| made.and_then(written)).collect())
    }
}

impl<L: Link> SqlConnection<L> {
    /// Counts the rows.
    async fn count_rows(&mut self) -> Result<u64, StoreError> {
        loop {
            if let Some(rows) = self.count_on().await? {
                return Ok(rows);
            }
        }
    }

    /// Counts some more rows. Returns the number of all once they are counted. The number of changes is read before the
    /// first ones, so that none is missed.
    async fn count_on(&mut self) -> Result<Option<u64>, StoreError> {
        let mut packet = Packet::of("SELECT changes FROM getid_store WHERE id = 1");
        if !L::IS_SHARED
            && self.counting.is_none()
            && let Some(counted) = self.counted
        {
            // A file has no other writers, and a count of a million rows would take long.
            if self.link.run(packet.clone()).await?[0].number() == Some(counted.change) {
                return Ok(Some(counted.rows));
            }
        }
        let counting = self.counting.take();
        let (after, before) = counting.as_ref().map_or(("", 0), |begun| (&begun.after, begun.rows));
        packet.add(if L::COUNTS_IN_PARTS {
            script::count_after_sql::<L>(after, COUNTED_PER_STATEMENT)
        } else {
            COUNT.to_owned()
        });
        let done = self.link.run(packet).await?;
        let more = done[1].number().unwrap_or(0).unsigned_abs();
        let rows = before.saturating_add(more);
        let change = counting.map_or_else(|| done[0].number(), |begun| begun.change);
        match done[1].rows.first().and_then(|row| row.text(1)) {
            Some(after) if more >= COUNTED_PER_STATEMENT => {
                self.counting = Some(Counting { rows, change, after });
                Ok(None)
            }
            _ => {
                self.counted = change.map(|change| RowCount { rows, change, is_stopped: false });
                Ok(Some(rows))
            }
        }
    }

    /// Returns an upper bound for the number of rows inside a transaction of [`Self::lock`], or a number that is not
    /// below `rows_max`. Rows are counted again only near the limit, and only after a change.
    async fn count_up_to(&mut self, rows_max: u64, changes: i64) -> Result<u64, StoreError> {
        if let Some(counted) = self.counted {
            let rows = counted.rows.saturating_add(changes.saturating_sub(counted.change).max(0).unsigned_abs());
            let is_current = counted.change == changes;
            let is_enough =
                if counted.is_stopped { is_current && rows >= rows_max } else { is_current || rows < rows_max };
            if is_enough {
                return Ok(rows);
            }
        }
        let limit = rows_max.saturating_add(1);
        let mut packet = Packet::within();
        packet.add(if L::IS_SHARED { script::count_up_to_sql(limit) } else { COUNT.to_owned() });
        let rows = self.link.run(packet).await?[0].number().unwrap_or(0).unsigned_abs();
        self.counted = Some(RowCount { rows, change: changes, is_stopped: L::IS_SHARED && rows >= limit });
        Ok(rows)
    }

    /// Returns these columns, of which the name is the first, of rows of sequences after a cursor, at most `limit`, and
    /// the cursor of the next page. A generator may have millions of rows of keys and periods under its name, which no
    /// statement reads: each ends before the name of a generator, and the next one begins behind it.
    async fn sequences_after(
        &mut self,
        columns: &str,
        after: &str,
        limit: u32,
    ) -> Result<(Vec<SqlRow>, Option<String>), StoreError> {
        let [mut after, ..] = RowPage::cursor(after).map(str::to_owned);
        let mut rows: Vec<SqlRow> = Vec::new();
        for _ in 0..GENERATORS_PER_PAGE {
            let generator = self.link.run(Packet::of(script::next_generator_sql::<L>(&after))).await?[0].text();
            let left = limit.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX));
            let mut condition = format!("{} AND {IS_SEQUENCE}", L::compared("name", ">", &after));
            if let Some(generator) = &generator {
                condition = format!("{} AND {condition}", L::compared("name", "<", generator));
            }
            let mut packet = Packet::of(script::list_sql(columns, &condition, left));
            if let Some(generator) = &generator {
                packet.add(script::listed_sql::<L>(columns, generator));
            }
            rows.extend(self.link.run(packet).await?.into_iter().flat_map(|done| done.rows));
            if rows.len() >= limit as usize {
                rows.truncate(limit as usize);
                let last = rows.last().and_then(|row| row.text(0));
                return Ok((rows, last.map(|name| RowPage::cursor_of(&name, "", ""))));
            }
            let Some(generator) = generator else { return Ok((rows, None)) };
            after = generator;
        }
        Ok((rows, Some(after)))
    }

    async fn compare_all(&mut self, server: Credentials, notes: &[NotedRow]) -> Result<Option<Comparison>, StoreError> {
        let names: Vec<String> = notes.iter().map(|note| note.key.name().to_owned()).collect();
        let mut packet = Packet::locking();
        let own = BeatStatements::add::<L>(&mut packet, server, beats::COMPARING);
        // Comparisons of two servers follow one another: each reads the rows that the other has inserted.
        let store = packet.add(script::lock_store_sql::<L>());
        let closed = packet.add(script::generators_sql::<L>(Some(&names), L::FOR_SHARE));
        let rows = packet.add(script::lock_rows_sql::<L>(notes.iter().map(|note| &note.key)));
        let done = self.link.run(packet).await?;
        let Ok(beaten) = own.read(&done) else {
            self.link.rollback().await?;
            return Ok(None);
        };
        if done[store].number().is_none() {
            self.link.rollback().await?;
            return Err(lost());
        }
        let found: Vec<RawRow> = done[rows].rows.iter().map(RawRow::of).collect();
        let closed: Vec<Generator> = done[closed].rows.iter().map(Generator::of).collect();
        let notes = &native::without_closed(notes, &closed);
        let lost_rows = native::lost_rows(notes, &found);
        let raised = native::lower_than(notes, found);
        let mut packet = Packet::commit();
        for row in &lost_rows {
            let created = if row.created_unix_ms == 0 { L::NOW } else { &row.created_unix_ms.to_string() };
            packet.add(script::insert_sql(&[script::inserted_row(row, 0, created, L::NOW)]) + L::OR_NOTHING);
        }
        for (key, next) in &raised {
            packet.add(format!(
                "UPDATE getid_sequence SET next = {next}, version = version + 1, updated = {} WHERE {}",
                L::NOW,
                is_row(key)
            ));
        }
        let done = self.link.run(packet).await?;
        if done.iter().take(lost_rows.len()).any(|inserted| inserted.affected == 0) {
            // The row of another client may have a lower `next`. The next comparison reads it.
            return Err(StoreError::Unknown(
                "a row that getid_sequence had lost was inserted by another client at the same moment: the rows are \
                 compared again"
                    .to_owned(),
            ));
        }
        Ok(Some(Comparison { beat: beaten.beat, raised: raised.len() + lost_rows.len() }))
    }

    async fn give_back_all(
        &mut self,
        server: Option<Credentials>,
        ends: &[GiveBackRequest],
    ) -> Result<Vec<bool>, StoreError> {
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by_key(|at| &ends[*at].key);
        let mut packet = Packet::transaction();
        let is_allowed = match of_shared::<L>(server) {
            Some(server) => beats::add_condition::<L>(&mut packet, server),
            None => "TRUE".to_owned(),
        };
        let mut updates = vec![0; ends.len()];
        for at in order {
            updates[at] = packet.add(script::give_back_sql::<L>(&ends[at], &is_allowed));
        }
        let done = self.link.run(packet).await?;
        Ok(updates.into_iter().map(|at| done[at].affected == 1).collect())
    }

    /// Opens counters in one transaction. The store's row is locked first, so that openings follow one another.
    async fn open_all(&mut self, asks: &[OpenPeriodRequest]) -> Result<Vec<Result<Generator, Verdict>>, StoreError> {
        let Some(first) = asks.first() else { return Ok(Vec::new()) };
        // All servers lock rows in the same order.
        let mut order: Vec<usize> = (0..asks.len()).collect();
        order.sort_by_key(|at| &asks[*at].key);
        let mut names: Vec<String> = order.iter().map(|at| asks[*at].key.name().to_owned()).collect();
        names.dedup();
        let mut packet = Packet::locking().creating(asks.iter().any(|ask| ask.may_begin));
        let own = of_shared::<L>(first.server).map(|server| BeatStatements::add::<L>(&mut packet, server, beats::LIVE));
        let changes = packet.add(script::lock_store_sql::<L>());
        let now = packet.add(format!("SELECT {}", L::NOW));
        let found = packet.add(script::generators_sql::<L>(Some(&names), &format!(" ORDER BY name{}", L::FOR_UPDATE)));
        let reads: Vec<OpeningReads> = order.iter().map(|at| OpeningReads::add::<L>(&mut packet, &asks[*at])).collect();
        let done = self.link.run(packet).await?;
        if let Some(own) = own {
            own.read(&done)?;
        }
        let Some(next) = done[changes].number().map(|changes| changes.saturating_add(1)) else {
            self.link.rollback().await?;
            return absent::<L, _>(done[now].rows.is_empty(), vec![Err(Verdict::NoSuch); asks.len()]);
        };
        let now = done[now].number().unwrap_or(0);
        let found: Vec<Generator> = done[found].rows.iter().map(Generator::of).collect();
        let mut generators: BTreeMap<String, Generator> =
            found.iter().map(|found| (found.name.clone(), found.clone())).collect();
        let mut packet = OpeningPacket::new();
        let mut begun: BTreeSet<Key> = BTreeSet::new();
        let mut answers: Vec<Option<Result<Generator, Verdict>>> = vec![None; asks.len()];
        for (at, reads) in order.into_iter().zip(reads) {
            let ask = &asks[at];
            let found = generators.get(ask.key.name());
            let opening = reads.read(&done).and_then(|rows| {
                reads.check_ledger(&done, found, ask)?;
                let rows = FoundRows { has_key: rows.has_key || begun.contains(&ask.key.series_key()), ..rows };
                let opening = native::apply_period_opening(found, &rows, ask, now)?;
                Ok((rows.row.map(|row| row.version), opening))
            });
            answers[at] = Some(opening.map(|(seen, opening)| {
                // Another period of a new key finds the row of the key.
                begun.extend(opening.key_row.as_ref().map(|row| row.key.clone()));
                packet.add::<L>(ask, &opening, seen, next);
                generators.insert(ask.key.name().to_owned(), opening.generator.clone());
                opening.generator
            }));
        }
        let changed = generators.values().filter(|generator| !found.contains(generator));
        let rows = packet.finish::<L>(changed, next);
        if let Some((packet, written)) = rows {
            let done = self.link.run(packet).await?;
            // Each write changes the version of its row, so that MySQL counts it too.
            if let Some((_, key)) = written.iter().find(|(at, _)| done[*at].affected != 1) {
                let what = format!("the row of '{key}' was changed while its period was opened");
                return Err(StoreError::Unknown(what));
            }
        } else {
            self.link.rollback().await?;
        }
        Ok(answers.into_iter().map(|answer| answer.unwrap_or(Err(Verdict::NoSuch))).collect())
    }

    async fn prune_one(&mut self, ask: &PruneRequest) -> Result<Result<PruneResult, Verdict>, StoreError> {
        let mut packet = Packet::locking();
        packet.add(script::lock_store_sql::<L>());
        let found = packet.add(script::generators_sql::<L>(Some(std::slice::from_ref(&ask.name)), L::FOR_UPDATE));
        let found = self.link.run(packet).await?[found].rows.first().map(Generator::of);
        let Some(plan) = found.as_ref().and_then(|found| PrunePlan::new(found, ask.through)) else {
            self.link.rollback().await?;
            return Ok(found.map(|_| PruneResult::default()).ok_or(Verdict::NoSuch));
        };
        let mut packet = Packet::commit();
        let count = packet.add(format!(
            "SELECT COUNT(*), COALESCE(MIN(period), ''), COALESCE(MAX(period), '') FROM getid_sequence WHERE {}",
            plan.condition
        ));
        let deleted = ask.deletes.then(|| {
            packet.add(script::write_generator_sql::<L>(&plan.closed));
            packet.add(L::delete_sql(&plan.condition, PRUNED_MAX))
        });
        let done = self.link.run(packet).await?;
        let period = |at| done[count].rows.first().and_then(|row| row.text(at)).unwrap_or_default();
        let rows = done[count].number().unwrap_or(0).unsigned_abs();
        let deleted = deleted.map_or(0, |deleted| done[deleted].affected);
        Ok(Ok(PruneResult { rows, first: period(1), last: period(2), deleted }))
    }

    async fn changes_since(&mut self, seen: Option<u64>) -> Result<Changes, StoreError> {
        // The answer has a row, with NULL, if the store has no row of its own; it has none if there is no file.
        let mut packet = Packet::of("SELECT (SELECT changes FROM getid_store WHERE id = 1)");
        if let Some(seen) = seen {
            // This SELECT follows the one of `changes`: every row with a number up to it is committed and visible.
            packet.add(format!(
                "SELECT name, series, period, generation, changed FROM getid_sequence WHERE changed > {} \
                 ORDER BY changed LIMIT {ROWS_MAX}",
                column(seen)
            ));
        }
        let done = self.link.run(packet).await?;
        let Some(upto) = done[0].number() else {
            return absent::<L, _>(done[0].rows.is_empty(), Changes::default());
        };
        let mut changes = Changes { upto: upto.unsigned_abs(), rows: Vec::new() };
        let rows = done.get(1).map_or(&[][..], |done| &done.rows);
        for row in rows {
            let [name, series, period] = [0, 1, 2].map(|at| row.text(at).unwrap_or_default());
            let key = Key::of(&name, &series, &period);
            changes.rows.extend(key.zip(row.number(3).map(i64::unsigned_abs)));
        }
        if rows.len() >= ROWS_MAX as usize
            && let Some(last) = rows.last().and_then(|row| row.number(4))
        {
            changes.upto = last.unsigned_abs();
        }
        Ok(changes)
    }
}

impl<L: ReserveLink> Connection for SqlConnection<L> {
    fn info(&self) -> &StoreInfo {
        self.link.info()
    }

    fn reserve_as<'a>(
        &'a mut self,
        server: Option<Credentials>,
        asks: &'a [ReserveRequest],
    ) -> StoreFuture<'a, Reservations> {
        Box::pin(self.link.reserve(of_shared::<L>(server), asks))
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

    fn create_all<'a>(&'a mut self, new: &'a [CreateRequest]) -> StoreFuture<'a, Reservations> {
        Box::pin(self.create_each(new))
    }

    fn change<'a>(&'a mut self, key: &'a Key, change: &'a RowChange) -> StoreFuture<'a, Result<SequenceRow, Verdict>> {
        Box::pin(self.change_one(key, change))
    }

    fn row<'a>(&'a mut self, key: &'a Key) -> StoreFuture<'a, Option<SequenceRow>> {
        Box::pin(async move {
            let select = format!("SELECT {COLUMNS} FROM getid_sequence WHERE {}", is_row(key));
            let done = self.link.run(Packet::of(select)).await?;
            let row = done[0].rows.first().map(RawRow::of).map(RawRow::read).transpose();
            row.map_err(|bad| StoreError::Refused(bad.to_string()))
        })
    }

    fn list<'a>(&'a mut self, after: &'a str, limit: u32, periods: bool) -> StoreFuture<'a, RowPage> {
        Box::pin(async move {
            let limit = limit.min(ROWS_MAX);
            if periods {
                let list = script::list_sql(COLUMNS, &L::is_after(RowPage::cursor(after)), limit);
                let done = self.link.run(Packet::of(list)).await?;
                return Ok(RowPage::new(limit, native::listed(&done[0].rows)));
            }
            let (rows, next) = self.sequences_after(COLUMNS, after, limit).await?;
            Ok(RowPage::with_next(next, native::listed(&rows)))
        })
    }

    fn names<'a>(&'a mut self, after: &'a str, limit: u32) -> StoreFuture<'a, NamePage> {
        Box::pin(async move {
            let (rows, next) = self.sequences_after("name", after, limit.min(ROWS_MAX)).await?;
            Ok(NamePage { names: rows.iter().filter_map(|row| Key::new(&row.text(0)?)).collect(), next })
        })
    }

    fn count(&mut self) -> StoreFuture<'_, Option<u64>> {
        Box::pin(self.count_on())
    }

    fn changes(&mut self, seen: Option<u64>) -> StoreFuture<'_, Changes> {
        Box::pin(self.changes_since(seen))
    }

    fn generators<'a>(&'a mut self, names: Option<&'a [String]>) -> StoreFuture<'a, Vec<Generator>> {
        Box::pin(async move {
            let select = script::generators_sql::<L>(names, &format!(" ORDER BY name LIMIT {GENERATORS_MAX}"));
            Ok(self.link.run(Packet::of(select)).await?[0].rows.iter().map(Generator::of).collect())
        })
    }

    fn series<'a>(&'a mut self, name: &'a str, after: &'a str, limit: u32) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move {
            let select = script::series_sql::<L>(name, after, limit.min(ROWS_MAX));
            Ok(self.link.run(Packet::of(select)).await?[0].rows.iter().filter_map(|row| row.text(0)).collect())
        })
    }

    fn open_period<'a>(&'a mut self, ask: &'a OpenPeriodRequest) -> StoreFuture<'a, Result<Generator, Verdict>> {
        Box::pin(async move {
            let opened = self.open_all(std::slice::from_ref(ask)).await?.pop();
            opened.ok_or_else(|| StoreError::Unknown(format!("no answer for the period of '{}'", ask.key)))
        })
    }

    fn open_periods<'a>(
        &'a mut self,
        asks: &'a [OpenPeriodRequest],
    ) -> StoreFuture<'a, Vec<Result<Generator, Verdict>>> {
        Box::pin(self.open_all(asks))
    }

    fn begin_periods<'a>(&'a mut self, begun: &'a [BegunPeriod]) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut begun: Vec<&BegunPeriod> = begun.iter().collect();
            begun.sort_by_key(|begun| &begun.key);
            for (nth, part) in begun.chunks(BEGUN_MAX).enumerate() {
                match self.link.run(begun_packet::<L>(part)).await {
                    Ok(_) => {}
                    // Earlier parts are committed, so this is no refusal of the whole.
                    Err(failure) if nth > 0 => return Err(StoreError::Unknown(failure.error.to_string())),
                    Err(failure) => return Err(failure.error),
                }
            }
            Ok(())
        })
    }

    fn prune<'a>(&'a mut self, ask: &'a PruneRequest) -> StoreFuture<'a, Result<PruneResult, Verdict>> {
        Box::pin(self.prune_one(ask))
    }

    fn find_requests<'a>(&'a mut self, scopes: &'a [RequestScope]) -> StoreFuture<'a, Vec<Option<RequestRow>>> {
        Box::pin(requests::find(&mut self.link, scopes))
    }

    fn claim_requests<'a>(
        &'a mut self,
        server: Option<Credentials>,
        ask: &'a ClaimBatch,
    ) -> StoreFuture<'a, Vec<ClaimResult>> {
        Box::pin(requests::claim(&mut self.link, of_shared::<L>(server), ask))
    }

    fn remove_requests(&mut self, server_unix_ms: i64) -> StoreFuture<'_, u64> {
        Box::pin(requests::remove(&mut self.link, server_unix_ms))
    }

    fn count_requests(&mut self) -> StoreFuture<'_, Vec<(String, u64)>> {
        Box::pin(requests::count(&mut self.link))
    }

    fn number<'a>(
        &'a mut self,
        server: Option<Credentials>,
        asks: &'a [NumberRequest],
        noted: &'a [LedgerNote],
        released_max: u64,
    ) -> StoreFuture<'a, NumberAnswers> {
        Box::pin(numbers::number(&mut self.link, of_shared::<L>(server), asks, noted, released_max))
    }

    fn compare_ledgers<'a>(
        &'a mut self,
        server: Option<Credentials>,
        noted: &'a [LedgerNote],
    ) -> StoreFuture<'a, Option<Comparison>> {
        Box::pin(numbers::compare(&mut self.link, of_shared::<L>(server), noted))
    }

    fn ledger<'a>(&'a mut self, query: &'a LedgerQuery) -> StoreFuture<'a, LedgerPage> {
        Box::pin(numbers::page(&mut self.link, query))
    }

    fn ledger_counts<'a>(&'a mut self, name: &'a str) -> StoreFuture<'a, LedgerCounts> {
        Box::pin(numbers::counts(&mut self.link, name))
    }

    fn maximum<'a>(&'a mut self, table: &'a str, id: i64) -> StoreFuture<'a, Result<Option<i64>, Verdict>> {
        Box::pin(async move {
            let Some(select) = L::maximum_sql(table, id) else { return Ok(Err(no_maximums())) };
            let done = self.link.run(Packet::of(select)).await?;
            let Some(row) = done[0].rows.first() else { return Ok(Ok(None)) };
            let number = row.number(0).ok_or_else(|| {
                Verdict::BadRow(format!(
                    "the row with id {id} of {table} has current_max_id {}, must be a number: UPDATE it by hand",
                    row.shown(0).escape_debug()
                ))
            });
            Ok(number.map(Some))
        })
    }

    fn backup<'a>(&'a mut self, to: &'a Path) -> StoreFuture<'a, ()> {
        Box::pin(self.link.backup(to))
    }

    fn tokens(&mut self) -> StoreFuture<'_, Option<Vec<Token>>> {
        Box::pin(tokens(&mut self.link))
    }
}

/// Returns the tokens of Tinyid's clients, whichever tables the sequences are in.
pub(super) async fn tokens<L: Link>(link: &mut L) -> Result<Option<Vec<Token>>, StoreError> {
    if let Some(query) = L::HAS_TOKENS
        && link.run(Packet::of(query)).await?[0].rows.is_empty()
    {
        return Ok(None);
    }
    let select = format!(
        "SELECT {}, {} FROM tiny_id_token WHERE token <> '' AND biz_type <> '' ORDER BY 1, 2 LIMIT {}",
        L::column_text("token"),
        L::column_text("biz_type"),
        TOKENS_MAX + 1
    );
    match link.run(Packet::of(select)).await {
        Ok(done) => {
            let token = |row: &SqlRow| Some(Token { token: row.text(0)?, biz_type: row.text(1)? });
            Ok(Some(done[0].rows.iter().filter_map(token).collect()))
        }
        Err(failure) if failure.kind == PacketFailureKind::NoTable => Ok(None),
        Err(failure) => Err(failure.error),
    }
}

/// Statements that read the rows of a counter before it is opened, by their places in the packet.
struct OpeningReads {
    recent: usize,
    row: usize,
    key_row: usize,
    ledger: usize,
    /// The query for a counter that has given numbers, if they shall have a ledger.
    counted: Option<usize>,
}

impl OpeningReads {
    fn add<L: Link>(packet: &mut Packet, ask: &OpenPeriodRequest) -> OpeningReads {
        let (name, series) = (ask.key.name(), ask.key.series());
        let native::RecentRows { since_unix_ms, condition } = native::recent_rows(ask);
        // Reservations from rows that are about to be dropped end before, or find them dropped.
        let recent = packet.add(format!(
            "SELECT next FROM getid_sequence{} WHERE name = '{name}' AND series = '{series}' AND ({condition}) \
             AND updated >= {since_unix_ms} ORDER BY name, series, period{}",
            L::BY_KEY,
            L::FOR_UPDATE
        ));
        let row = packet.add(script::lock_rows_sql::<L>(std::iter::once(&ask.key)));
        let key_row = packet.add(format!(
            "SELECT 1 FROM getid_sequence WHERE name = '{name}' AND series = '{series}' AND period = ''{}",
            L::CURRENT
        ));
        let ledger = packet.add(numbers::has_ledger_sql::<L>(name));
        let counted = declares_ledger(&ask.declaration).then(|| packet.add(numbers::counted_without_sql(name)));
        OpeningReads { recent, row, key_row, ledger, counted }
    }

    /// Fails if the declaration would end the generator's ledger, or begin one behind numbers that were given without
    /// it.
    fn check_ledger(
        &self,
        done: &[StatementResult],
        found: Option<&Generator>,
        ask: &OpenPeriodRequest,
    ) -> Result<(), Verdict> {
        let has_ledger = !done[self.ledger].rows.is_empty();
        if let Some(found) = found.filter(|_| has_ledger) {
            numbers::check_declaration(found, ask)?;
        }
        let counted = self.counted.and_then(|at| done[at].rows.first());
        counted.map_or(Ok(()), |row| Err(numbers::cannot_begin(&ask.key, &row.shown(0))))
    }

    fn read(&self, done: &[StatementResult]) -> Result<FoundRows, Verdict> {
        let highest = done[self.recent].rows.iter().filter_map(|row| row.number(0)).max().unwrap_or(0);
        let has_key = !done[self.key_row].rows.is_empty();
        let row = done[self.row].rows.first().map(RawRow::of).map(RawRow::read).transpose();
        let row = row.map_err(|bad| Verdict::BadRow(bad.to_string()))?;
        Ok(FoundRows { row, highest, has_key })
    }
}

/// Statements that read which names have a ledger, by their places in the packet.
struct LedgerReads {
    generators: usize,
    with_numbers: Vec<usize>,
}

impl LedgerReads {
    fn add<L: Link>(packet: &mut Packet, keys: &[&Key]) -> LedgerReads {
        let mut names: Vec<&str> = keys.iter().map(|key| key.name()).collect();
        names.dedup();
        let listed = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let generators =
            packet.add(format!("SELECT {GENERATOR_COLUMNS} FROM getid_generator WHERE name IN ({listed})"));
        let with_numbers = L::names_with_numbers_sql(&names).into_iter().map(|query| packet.add(query)).collect();
        LedgerReads { generators, with_numbers }
    }

    fn read(self, done: &[StatementResult]) -> BTreeSet<String> {
        let generators = done[self.generators].rows.iter().map(Generator::of);
        let declared = generators.filter(Generator::has_ledger).map(|generator| generator.name);
        let kept = self.with_numbers.into_iter().flat_map(|at| &done[at].rows).filter_map(|row| row.text(0));
        declared.chain(kept).collect()
    }
}

/// The packet that writes the changes of opened periods and ends their transaction.
struct OpeningPacket {
    packet: Packet,
    /// Places of the statements that write the rows of counters, with their keys.
    written: Vec<(usize, Key)>,
}

impl OpeningPacket {
    fn new() -> OpeningPacket {
        OpeningPacket { packet: Packet::commit(), written: Vec::new() }
    }

    /// Adds the changes of an opened period. `seen`: the version of the counter's row; `change`: the number of the
    /// change.
    fn add<L: Link>(&mut self, ask: &OpenPeriodRequest, opening: &PeriodOpening, seen: Option<u64>, change: i64) {
        if let Some(row) = &opening.row {
            self.written.push((self.packet.add(script::write_sql(change, seen, row)), row.key.clone()));
        }
        if let Some(row) = &opening.key_row {
            self.packet.add(script::write_sql(change, None, row));
        }
        let since_unix_ms = native::recent_rows(ask).since_unix_ms;
        let is_other = format!("NOT (series = '{}' AND period = '{}')", ask.key.series(), ask.key.period());
        let state = native::state_word(native::state_of_counter(&ask.declaration));
        let others = match opening.others {
            // All counters of the period follow the new declaration, not only that of one key.
            OtherRowsChange::Renewed if ask.series.is_some() => {
                let Spec { max, cache, .. } = ask.spec;
                let is_recent = format!("(updated >= {since_unix_ms} OR period = '{}')", ask.key.period());
                let set = format!("state = '{state}', max_value = {max}, cache = {cache}");
                Some((set, format!("{is_recent} AND {is_other}")))
            }
            OtherRowsChange::Renewed => {
                Some((format!("state = '{state}'"), format!("updated >= {since_unix_ms} AND {is_other}")))
            }
            OtherRowsChange::Stay => None,
            OtherRowsChange::Dropped { before } => Some(("state = 'dropped'".to_owned(), native::periods_of(before))),
        };
        if let Some((set, condition)) = others {
            // A counter whose numbers the ledger has lost does not begin to count without one.
            self.packet.add(format!(
                "UPDATE getid_sequence SET {set}, version = version + 1, generation = generation + 1, \
                 changed = {change} WHERE name = '{}' AND {condition} \
                 AND (state = 'live' OR state = 'ledger' AND ('{state}' = 'ledger' OR next <= 1))",
                ask.key.name()
            ));
        }
    }

    /// Adds the rows of generators that have changed. Returns the packet with the places of the rows; `None` if there
    /// is nothing to write.
    fn finish<'a, L: Link>(
        mut self,
        changed: impl Iterator<Item = &'a Generator>,
        change: i64,
    ) -> Option<(Packet, Vec<(usize, Key)>)> {
        if !self.packet.is_empty() {
            self.packet.add(format!("UPDATE getid_store SET changes = {change} WHERE id = 1"));
        }
        for generator in changed {
            self.packet.add(script::write_generator_sql::<L>(generator));
        }
        (!self.packet.is_empty()).then_some((self.packet, self.written))
    }
}

/// Returns the transaction that records begun periods. They are in the order of their keys, so that those of two
/// servers do not end in a deadlock.
fn begun_packet<L: Link>(begun: &[&BegunPeriod]) -> Packet {
    let mut packet = Packet::transaction();
    for BegunPeriod { key, declaration } in begun {
        packet.add(format!(
            "UPDATE getid_generator SET newest = '{1}', updated = {2} WHERE name = '{0}' AND newest < '{1}' \
             AND declaration = {3}",
            key.name(),
            key.period(),
            L::NOW,
            L::text(declaration)
        ));
    }
    packet
}

/// Returns the server of a request, if the store has rows of servers.
fn of_shared<L: Link>(server: Option<Credentials>) -> Option<Credentials> {
    server.filter(|_| L::IS_SHARED)
}

/// Returns the answer if the store has no row of its own: that of a missing file, or an error. No file is missing if a
/// statement has returned a row.
fn absent<L: Link, T>(is_missing_file: bool, of_missing_file: T) -> Result<T, StoreError> {
    if L::IS_SHARED {
        return Err(lost());
    }
    if is_missing_file {
        return Ok(of_missing_file);
    }
    Err(StoreError::Refused(
        "the table getid_store has no row, must have one with id 1: stop the server, and \
         INSERT INTO getid_store SELECT 1, lower(hex(randomblob(16))), COALESCE(MAX(changed), 0), 0 \
         FROM getid_sequence"
            .to_owned(),
    ))
}

/// Returns the error if `getid_store` was emptied. The connection is dropped, and the next one creates the row.
fn lost() -> StoreError {
    StoreError::Unknown(
        "getid_store has lost its row: a new connection makes it again, or names how to put it back".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use getid_core::server::Reset;
    use getid_core::server::beat::{BeatKind, Nonce};

    use super::super::packet::{Cell, Dialect, Failure, LinkState, SentPacket};
    use super::*;

    /// A link that answers each statement with a function, and keeps what was sent.
    struct ScriptedLink {
        info: StoreInfo,
        state: LinkState,
        sent: Vec<Vec<String>>,
        answer: fn(&str) -> StatementResult,
    }

    impl Dialect for ScriptedLink {
        const IS_SHARED: bool = true;
        const COUNTS_IN_PARTS: bool = true;
        const BEGIN: &'static [&'static str] = &["BEGIN"];
        const NOW: &'static str = "0";

        fn text(text: &str) -> String {
            format!("'{text}'")
        }

        fn maximum_sql(table: &str, id: i64) -> Option<String> {
            Some(format!("SELECT current_max_id FROM {table} WHERE id = {id}"))
        }
    }

    impl ReserveLink for ScriptedLink {}

    impl Link for ScriptedLink {
        fn info(&self) -> &StoreInfo {
            &self.info
        }

        fn state(&mut self) -> &mut LinkState {
            &mut self.state
        }

        async fn send(&mut self, packet: SentPacket) -> Result<Vec<StatementResult>, Failure> {
            let done = packet.statements.iter().map(|sql| (self.answer)(sql)).collect();
            self.sent.push(packet.statements);
            Ok(done)
        }
    }

    fn connection(answer: fn(&str) -> StatementResult) -> SqlConnection<ScriptedLink> {
        SqlConnection::new(ScriptedLink {
            info: StoreInfo::default(),
            state: LinkState::Free,
            sent: Vec::new(),
            answer,
        })
    }

    fn row(columns: &[&str]) -> StatementResult {
        let row = SqlRow(columns.iter().map(|&text| Cell::Text(text.to_owned())).collect());
        StatementResult { affected: 0, rows: vec![row] }
    }

    fn changed(affected: u64) -> StatementResult {
        StatementResult { affected, rows: Vec::new() }
    }

    const SERVER: Credentials = Credentials { nonce: Nonce(1), life: Nonce(2), at_least: 3 };

    #[tokio::test]
    async fn a_lost_row_that_another_client_inserts_makes_the_comparison_unknown() {
        let mut connection = connection(|sql| match sql {
            sql if sql.starts_with("UPDATE getid_beat") => changed(1),
            sql if sql.starts_with("SELECT beat") => row(&["4", "instance"]),
            sql if sql.starts_with("SELECT changes") => row(&["9"]),
            _ => StatementResult::default(),
        });
        let key = Key::new("orders").unwrap();
        let notes = [NotedRow { key, next: 400, generation: 0, created_unix_ms: 5 }];
        let compared = connection.compare(SERVER, &notes).await;
        assert!(matches!(compared, Err(StoreError::Unknown(_))), "{compared:?}");
        let [locking, writing] = &connection.link.sent[..] else { panic!("{:?}", connection.link.sent) };
        let place = |begin: &str| locking.iter().position(|sql| sql.starts_with(begin)).unwrap();
        let store = place("SELECT changes FROM getid_store");
        assert!(place("SELECT beat") < store && store < place("SELECT name"), "{locking:?}");
        assert!(writing[0].starts_with("INSERT INTO getid_sequence"), "{writing:?}");
    }

    #[tokio::test]
    async fn an_opened_period_without_its_row_is_unknown() {
        let mut connection = connection(|sql| match sql {
            sql if sql.starts_with("SELECT changes") => row(&["9"]),
            "SELECT 0" => row(&["5"]),
            _ => StatementResult::default(),
        });
        let ask = OpenPeriodRequest {
            key: Key::of_period("invoice", "Y20260101").unwrap(),
            declaration: "serial X{n:6} reset yearly".to_owned(),
            reset: Reset::Year,
            spec: Spec::default(),
            floor: 0,
            may_begin: true,
            is_serial: true,
            from_unix_ms: i64::MIN,
            has_begun: true,
            redeclares: false,
            restores_row: false,
            series: None,
            server: None,
        };
        let opened = connection.open_period(&ask).await;
        assert!(matches!(opened, Err(StoreError::Unknown(_))), "{opened:?}");
    }

    #[tokio::test]
    async fn a_bad_row_of_a_server_rolls_the_beat_back() {
        let mut connection = connection(|sql| match sql {
            sql if sql.contains("WHERE TRUE") => row(&["it is no nonce", "", "1", "0", "live", "", "instance"]),
            _ => StatementResult::default(),
        });
        let ask = BeatRequest {
            nonce: Nonce(1),
            life: Nonce(2),
            address: String::new(),
            kind: BeatKind::Leave { at_least: 1 },
            acknowledged: 0,
            starts_round: false,
            restored: Vec::new(),
            gone: Vec::new(),
            released: Vec::new(),
            reads_all: true,
        };
        let answer = connection.beat(&ask).await;
        assert!(matches!(answer, Err(StoreError::Refused(_))), "{answer:?}");
        assert_eq!(connection.link.sent.last().unwrap(), &["ROLLBACK"]);
        let look = BeatRequest { kind: BeatKind::Look, ..ask };
        connection.beat(&look).await.unwrap_err();
        assert_eq!(connection.link.sent.last().unwrap()[0], "BEGIN");
    }

    #[tokio::test]
    async fn begun_periods_are_recorded_in_order_and_in_parts() {
        let mut connection = connection(|_| changed(1));
        let begun = |n: usize| BegunPeriod {
            key: Key::of_period(&format!("g{n:03}"), "Y20260101").unwrap(),
            declaration: String::new(),
        };
        let begun: Vec<BegunPeriod> = (0..=BEGUN_MAX).rev().map(begun).collect();
        connection.begin_periods(&begun).await.unwrap();
        let sizes: Vec<usize> = connection.link.sent.iter().map(Vec::len).collect();
        assert_eq!(sizes, [BEGUN_MAX + 2, 3], "with BEGIN and COMMIT");
        let all = connection.link.sent.concat();
        let updates: Vec<&String> = all.iter().filter(|sql| sql.starts_with("UPDATE")).collect();
        assert!(updates.is_sorted() && updates.len() == begun.len(), "{updates:?}");
    }

    #[tokio::test]
    async fn a_list_reads_no_rows_of_periods() {
        let mut connection = connection(|sql| match sql {
            sql if sql.contains("getid_generator") && sql.contains("> 'b'") => row(&["d"]),
            sql if sql.contains("getid_generator") && sql.contains("> 'd'") => StatementResult::default(),
            sql if sql.contains("name < 'd'") => row(&["c"]),
            sql if sql.contains("name = 'd'") => row(&["d"]),
            sql if sql.contains("name > 'd'") => row(&["e"]),
            sql => panic!("{sql}"),
        });
        let names = |page: &NamePage| page.names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let page = connection.names("b", 9).await.unwrap();
        assert_eq!((page.next.as_deref(), names(&page)), (None, ["c", "d", "e"].map(String::from).to_vec()));
        let page = connection.names("b", 1).await.unwrap();
        assert_eq!((page.next.as_deref(), names(&page)), (Some("c"), vec!["c".to_owned()]));
        for sql in connection.link.sent.concat().iter().filter(|sql| sql.contains("getid_sequence")) {
            assert!(sql.contains(IS_SEQUENCE) && sql.contains("name < 'd'") != sql.contains("'d' AND series"), "{sql}");
        }
    }

    #[tokio::test]
    async fn a_page_ends_after_some_generators_and_has_a_cursor() {
        let mut connection = connection(|sql| match sql {
            sql if sql.contains("getid_generator") => row(&["g"]),
            _ => StatementResult::default(),
        });
        let page = connection.names("", 9).await.unwrap();
        assert_eq!((page.names.len(), page.next.as_deref()), (0, Some("g")));
        assert_eq!(connection.link.sent.len(), 2 * GENERATORS_PER_PAGE);
    }

    #[tokio::test]
    async fn many_rows_are_counted_by_several_statements() {
        let mut connection = connection(|sql| match sql {
            sql if sql.starts_with("SELECT changes") => row(&["9"]),
            sql if sql.contains("name > ''") => row(&[&COUNTED_PER_STATEMENT.to_string(), "m"]),
            sql if sql.contains("name > 'm'") => row(&["3", "z"]),
            sql => panic!("{sql}"),
        });
        for _ in 0..2 {
            assert_eq!(connection.count().await.unwrap(), None);
            assert_eq!(connection.count().await.unwrap(), Some(COUNTED_PER_STATEMENT + 3));
        }
        assert_eq!(connection.count_rows().await.unwrap(), COUNTED_PER_STATEMENT + 3);
    }

    #[tokio::test]
    async fn at_the_limit_rows_are_counted_once() {
        let mut connection = connection(|sql| match sql {
            sql if sql.starts_with("SELECT changes") => row(&["9"]),
            sql if sql.starts_with("SELECT COUNT") => row(&["3"]),
            _ => StatementResult::default(),
        });
        let new = CreateRequest {
            key: Key::new("orders").unwrap(),
            spec: Spec::default(),
            above_dropped: false,
            fresh_after_ms: None,
            floor: 0,
            values: 0,
            rows_max: 2,
            server: None,
        };
        for _ in 0..3 {
            let made = connection.create_all(std::slice::from_ref(&new)).await.unwrap();
            assert_eq!(made.each, [Err(Verdict::TooMany { max: 2 })]);
        }
        let counts = connection.link.sent.concat().iter().filter(|sql| sql.starts_with("SELECT COUNT")).count();
        assert_eq!(counts, 1);
    }
}
