//! The operator's requests: to read, create and change sequences. Each runs to its end on the driver's thread, even if
//! its client has gone.
//!
//! With several stores a sequence has a row in each. All rows have the same increment and different offsets, so that no
//! two have a common value. A change that could break this needs all stores.

use std::future::Future;
use std::sync::Arc;

use getid_core::server::{Key, SequenceRefusal, SequenceStatus, Spec, VALUE_MAX};
use tokio::time::timeout;

use super::notes::RowNote;
use super::pool::{JobQueue, REQUEST_DEADLINE, RunningStatement, StorePool};
use super::table::{SHARDS, Table};
use super::{SequenceError, Sequences};
use getid_store::sql::{Connection, CreateRequest, NamePage, RowChange, RowPage, RowState, SequenceRow, Verdict};
use getid_text::glob::Pattern;
use getid_text::name_hash::hash_of;

/// Maximum number of rows in a page.
const PAGE_MAX: u32 = 1000;

/// Number of names that are compared with a pattern before other tasks of the thread run.
const MATCHES_PER_SLICE: usize = 32;

/// A sequence as an operator sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceView {
    /// Name of the sequence.
    pub key: Key,
    /// Value for `GET`: the last value given here, otherwise the one before the row's next.
    pub last: i64,
    /// Rows of the sequence, with the index of each one's store; empty if only memory was read.
    pub rows: Vec<(u8, SequenceRow)>,
    /// Status on this server, if the sequence is in memory.
    pub status: Option<SequenceStatus>,
    /// End of a sequence that has ended, Unix ms.
    pub ended_unix_ms: Option<i64>,
}

/// Longest time for which a client with a local supply returns values after it requested them, seconds: the maximum of
/// the option `hold` of getid's client packages. A dropped sequence begins again only after that time, because a client
/// does not learn of the drop.
const CLIENT_HOLD_S: u64 = 60;

/// Conditions for the creation of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Whether it may take the name of a dropped one, and continue above it.
    pub above_dropped: bool,
    /// Whether it may take such a name and begin at its start, once no server and no client's supply can have values of
    /// the dropped one.
    pub is_fresh: bool,
}

/// Result of a raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaiseReport {
    /// Seconds from now until no server gives a lower value; 0 if no other server has the store.
    pub effective_in_s: u64,
}

pub(super) type VerbResult<T> = Result<T, SequenceError>;

impl Sequences {
    /// Finds a sequence in memory, otherwise in the store. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn find(self: &Arc<Self>, key: &Key) -> VerbResult<Option<SequenceView>> {
        if let Some(found) = self.in_memory(key) {
            return Ok(Some(found));
        }
        self.inspect(key).await
    }

    /// Finds a sequence with its current rows from the store. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn inspect(self: &Arc<Self>, key: &Key) -> VerbResult<Option<SequenceView>> {
        let (own, key) = (Arc::clone(self), key.clone());
        self.on_driver(async move {
            let rows = own.rows(&key).await?;
            Ok(own.view(&key, rows))
        })
        .await
    }

    fn in_memory(&self, key: &Key) -> Option<SequenceView> {
        let now_ms = self.now_ms();
        let hash = hash_of(key.as_str().as_bytes());
        let mut shard = self.table.shard(hash);
        let entry = Table::find(&mut shard, hash, key.as_str())?;
        let is_there = entry.sequence.may_wait(now_ms, &self.policy(), &[]).map_or_else(
            |refusal| !matches!(refusal, SequenceRefusal::NoSuch | SequenceRefusal::Dropped { .. }),
            |()| true,
        );
        let last = entry.sequence.last_given().filter(|_| is_there && entry.flags.is_known)?;
        // The store decides whether a sequence with an unknown end has ended.
        let end = entry.sequence.known_end()?;
        let ended_unix_ms = end.filter(|end| end.at_ms <= now_ms).map(|end| end.unix_ms);
        let status = Some(entry.sequence.status(now_ms));
        Some(SequenceView { key: key.clone(), last, rows: Vec::new(), status, ended_unix_ms })
    }

    /// Returns the sequence with these rows, or `None` if all of them are dropped.
    fn view(&self, key: &Key, rows: Vec<(u8, SequenceRow)>) -> Option<SequenceView> {
        let rows: Vec<_> = rows.into_iter().filter(|(_, row)| row.state != RowState::Dropped).collect();
        let of_rows = rows.iter().map(|(_, row)| row.last()).max()?;
        let hash = hash_of(key.as_str().as_bytes());
        let status = self.status_of(hash, key.as_str());
        let last = status.as_ref().and_then(|status| status.last_given).unwrap_or(of_rows);
        let ended_unix_ms = self.ended(&rows);
        Some(SequenceView { key: key.clone(), last, rows, status, ended_unix_ms })
    }

    /// Creates a sequence. With `last`, all values up to it count as given.
    ///
    /// # Errors
    ///
    /// The sequence exists, or existed, or the store fails.
    pub async fn create(
        self: &Arc<Self>,
        key: Key,
        spec: Spec,
        last: Option<i64>,
        how: CreateOptions,
    ) -> VerbResult<SequenceView> {
        let own = Arc::clone(self);
        self.on_driver(async move { own.create_everywhere(key, spec, last, how, 0).await }).await
    }

    pub(super) async fn create_everywhere(
        &self,
        key: Key,
        mut spec: Spec,
        last: Option<i64>,
        how: CreateOptions,
        rows_max: u64,
    ) -> VerbResult<SequenceView> {
        if let Some(last) = last {
            spec.start = spec.start.max(last.saturating_add(1));
        }
        self.check_spec(&spec)?;
        let floor = self.next_anywhere(&key).await?;
        let mut rows = Vec::new();
        let mut there = None;
        for pool in &self.pools {
            let spec = self.spec_of_store(&spec, pool.index);
            let held_s = self.confirmed.ride_out_s().saturating_add(CLIENT_HOLD_S);
            let held_ms = i64::try_from(held_s).unwrap_or(i64::MAX / 1000).saturating_mul(1000);
            let fresh_after_ms = how.is_fresh.then_some(held_ms);
            let above_dropped = how.above_dropped;
            let (key, values, server) = (key.clone(), 0, None);
            let new = CreateRequest { key, spec, above_dropped, fresh_after_ms, floor, values, rows_max, server };
            match self.create_in(pool, new).await? {
                Ok(row) => rows.push((pool.index, row)),
                // One store of several may have failed the last time.
                Err(Verdict::Exists(row)) => there = Some(row),
                Err(verdict) => return Err(SequenceError::from_verdict(verdict)),
            }
        }
        if let (Some(row), true) = (there, rows.is_empty()) {
            return Err(SequenceError::Exists(row));
        }
        self.forget_verdict(&key, &rows);
        self.view(&key, rows).ok_or(SequenceError::Refused(SequenceRefusal::NoSuch))
    }

    /// Returns the highest `next` of a name in this server's notes; 0 without a note.
    pub(super) async fn noted_next(&self, key: &Key) -> i64 {
        self.notes.highest(vec![key.clone()]).await.first().copied().unwrap_or(0)
    }

    /// Returns the highest `next` of a name in any store's row or this server's notes; 0 without one. A new row begins
    /// there, since the old one may be missing because its store was lost.
    ///
    /// # Errors
    ///
    /// A store does not answer: its row may be the highest.
    async fn next_anywhere(&self, key: &Key) -> VerbResult<i64> {
        let mut highest = self.noted_next(key).await;
        // A single store decides about its own row.
        for pool in self.pools.iter().filter(|pool| self.has_lanes() && pool.is_native()) {
            // Its store decides about a dropped row.
            let row = row_of(JobQueue::Clients, pool, key).await?.filter(|row| row.state != RowState::Dropped);
            highest = highest.max(row.map_or(0, |row| row.next));
        }
        Ok(highest)
    }

    /// Checks the options of a row for these stores.
    fn check_spec(&self, spec: &Spec) -> VerbResult<()> {
        let stores = self.pools.len();
        if spec.first_from(spec.start).is_none() {
            return Err(SequenceError::Not(format!(
                "there is no value from {} up to its max {}",
                spec.start, spec.max
            )));
        }
        if stores > 1 && self.pools.iter().all(|pool| pool.is_native()) {
            if spec.cache == 0 {
                let what =
                    "cache 0 needs one sequence-store, and there are several: each value would be in one of them";
                return Err(SequenceError::Not(what.to_owned()));
            }
            if spec.increment > 1 && usize::try_from(spec.increment).is_ok_and(|increment| increment < stores) {
                let what = format!("increment {} is less than the number of sequence-stores, {stores}", spec.increment);
                return Err(SequenceError::Not(what));
            }
        }
        Ok(())
    }

    /// Returns a sequence's options for the row of one store. With several stores, each row has its own offset.
    pub(super) fn spec_of_store(&self, spec: &Spec, index: u8) -> Spec {
        let stores = u32::try_from(self.pools.len()).unwrap_or(1);
        spec.of_store(index.into(), stores).unwrap_or(*spec)
    }

    /// Makes all values up to `last` count as given. With `settles`, removes the mark of a row that went back, even if
    /// the row is past `last`. It also creates a missing row of which this server has had values, above them.
    ///
    /// # Errors
    ///
    /// [`SequenceError::Lower`], or the store fails.
    pub async fn raise(self: &Arc<Self>, key: &Key, last: i64, settles: bool) -> VerbResult<RaiseReport> {
        let raised = RaiseReport { effective_in_s: self.confirmed.ride_out_s() };
        if last > VALUE_MAX {
            return Err(SequenceError::Not(format!("its values end at {VALUE_MAX}")));
        }
        if !settles && self.is_raised_in_memory(key, last) {
            return Ok(raised);
        }
        let (own, key) = (Arc::clone(self), key.clone());
        self.on_driver(async move {
            let noted = own.noted_next(&key).await;
            let change = |_| RowChange::Raise { last, settles: settles.then_some(noted) };
            let each = own.change_everywhere(&key, change).await?;
            let is_lost = each.iter().all(|(_, result)| matches!(result, Err(Verdict::NoSuch))) && noted > 0;
            if is_lost && settles && key.is_plain() {
                let how = CreateOptions { above_dropped: true, ..CreateOptions::default() };
                own.create_everywhere(key, Spec::default(), Some(last), how, 0).await?;
                return Ok(raised);
            }
            let is_past = each.iter().all(|(_, result)| matches!(result, Err(Verdict::Lower { .. })));
            if is_past && own.is_raised_in_memory(&key, last) {
                return Ok(raised);
            }
            own.settle_raise(&key, last, each).await?;
            own.note_given(&key, last);
            Ok(raised)
        })
        .await
    }

    /// Raises a sequence in memory. Returns true if nothing is left to do in the store.
    fn is_raised_in_memory(&self, key: &Key, last: i64) -> bool {
        let now_ms = self.now_ms();
        let hash = hash_of(key.as_str().as_bytes());
        let mut shard = self.table.shard(hash);
        let Some(entry) = Table::find(&mut shard, hash, key.as_str()) else { return false };
        let has_ended = entry.sequence.known_end().flatten().is_some_and(|end| end.at_ms <= now_ms);
        // Other servers with the store may hold lower values.
        let is_own = self.owns_store() && !has_ended;
        let is_raised = is_own && (entry.sequence.last_given() == Some(last) || entry.sequence.skip_to(last));
        self.enqueue_fetch(entry, hash, now_ms);
        is_raised
    }

    fn owns_store(&self) -> bool {
        matches!(self.pools.as_slice(), [only] if !only.store.is_shared())
    }

    /// Notes a raise, so that a store that loses it is noticed. A row that was already higher counts as raised too:
    /// values that servers hold of it may be lower, and they drop them.
    async fn settle_raise(
        &self,
        key: &Key,
        last: i64,
        each: Vec<(u8, Result<SequenceRow, Verdict>)>,
    ) -> VerbResult<()> {
        let is_alone = each.len() == 1;
        let (mut is_raised, mut refused) = (false, None);
        for (index, result) in each {
            let Some(pool) = self.pools.get(usize::from(index)) else { continue };
            let row = match result {
                Err(Verdict::Lower { row }) => {
                    if let Some(at) = self.is_at(key, &row).filter(|at| last <= *at && is_alone) {
                        return if at == last { Ok(()) } else { Err(SequenceError::Lower { last: at }) };
                    }
                    let change = RowChange::Alter { spec: row.spec, next_from: last.saturating_add(1) };
                    self.change(JobQueue::Clients, pool, key, change).await?
                }
                result => result,
            };
            let row = row.map_err(|verdict| refused = Some(verdict));
            is_raised |= row.is_ok();
            if let (Ok(row), Some(about)) = (row, pool.about()) {
                let had = RowNote::of(&row, row.next, self.has_lanes());
                self.notes.check(&about.uuid, vec![had], None).await;
            }
        }
        // One store of several may have lost its row.
        refused.filter(|_| !is_raised).map_or(Ok(()), |verdict| Err(SequenceError::from_verdict(verdict)))
    }

    /// Returns the last value that any server has, if known: the row is marked, or no other server has the store.
    fn is_at(&self, key: &Key, row: &SequenceRow) -> Option<i64> {
        if row.state != RowState::Live {
            return Some(row.last());
        }
        let hash = hash_of(key.as_str().as_bytes());
        let mut shard = self.owns_store().then(|| self.table.shard(hash))?;
        match Table::find(&mut shard, hash, key.as_str()) {
            Some(entry) => entry.sequence.last_given(),
            None => Some(row.last()),
        }
    }

    fn note_given(&self, key: &Key, last: i64) {
        let hash = hash_of(key.as_str().as_bytes());
        let mut shard = self.table.shard(hash);
        if let Some(entry) = Table::find(&mut shard, hash, key.as_str()) {
            entry.sequence.note_given(last);
        }
    }

    /// Changes the options that `words` name. With several stores each must answer, and all rows move past the highest
    /// one before the increment or offset of one changes.
    ///
    /// # Errors
    ///
    /// A word is invalid, or the store fails.
    pub async fn alter(self: &Arc<Self>, key: &Key, words: Vec<String>) -> VerbResult<SequenceView> {
        let (own, key) = (Arc::clone(self), key.clone());
        self.on_driver(async move {
            let rows = own.rows_of_all(&key).await?;
            let Some((_, first)) = rows.first() else { return Err(SequenceError::Refused(SequenceRefusal::NoSuch)) };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let spec = first.spec.with(&words).map_err(|error| SequenceError::Not(error.to_string()))?;
            own.check_spec(&spec)?;
            let at = rows.iter().map(|(_, row)| row.last()).max().unwrap_or_default();
            if spec.max < at && spec.max != first.spec.max {
                return Err(SequenceError::MaxBelow { max: spec.max, last: at });
            }
            let counts_alike = rows.iter().all(|(index, row)| {
                let spec = own.spec_of_store(&spec, *index);
                (row.spec.increment, row.spec.offset) == (spec.increment, spec.offset)
            });
            let next_from = if rows.len() > 1 && !counts_alike { own.hold(&key).await? } else { 0 };
            let alter = |index| RowChange::Alter { spec: own.spec_of_store(&spec, index), next_from };
            all_done(own.change_everywhere(&key, alter).await?)?;
            if rows.len() > 1 && !counts_alike {
                all_done(own.change_everywhere(&key, |_| RowChange::Confirm { has_ledger: false }).await?)?;
            }
            let rows = own.rows(&key).await?;
            own.view(&key, rows).ok_or(SequenceError::Refused(SequenceRefusal::NoSuch))
        })
        .await
    }

    /// Stops reservations from all rows. Returns their highest `next`.
    async fn hold(&self, key: &Key) -> VerbResult<i64> {
        // The mark of a row that went back has this effect too. If the change ends here, the operator repeats it.
        all_done(self.change_everywhere(key, |_| RowChange::WentBack { had_next: 0 }).await?)?;
        let rows = self.rows_of_all(key).await?;
        Ok(rows.iter().map(|(_, row)| row.next).max().unwrap_or_default())
    }

    /// Drops the sequence: no server gives values of it any more. Its last value is kept for a new sequence of its
    /// name.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn drop_sequence(self: &Arc<Self>, key: &Key) -> VerbResult<RaiseReport> {
        let (own, key) = (Arc::clone(self), key.clone());
        self.on_driver(async move {
            let each = own.change_everywhere(&key, |_| RowChange::Drop).await?;
            // One store of several may have dropped it the last time.
            let is_dropped = each.iter().any(|(_, result)| result.is_ok());
            if !is_dropped {
                all_done(each)?;
            }
            own.let_go(&key);
            Ok(RaiseReport { effective_in_s: own.confirmed.ride_out_s() })
        })
        .await
    }

    /// Removes the mark of a store that went back. `has_ledger`: whether the counter's generator is gapless.
    ///
    /// # Errors
    ///
    /// No row is marked, or the store fails.
    pub async fn confirm(self: &Arc<Self>, key: &Key, has_ledger: bool) -> VerbResult<SequenceView> {
        let (own, key) = (Arc::clone(self), key.clone());
        self.on_driver(async move {
            let rows = own.rows(&key).await?;
            if !rows.is_empty() && rows.iter().all(|(_, row)| row.state != RowState::WentBack) {
                return Err(SequenceError::Not(
                    "it is not marked, so there is nothing to confirm: SEQUENCE INFO shows the state of its rows"
                        .to_owned(),
                ));
            }
            all_done(own.change_everywhere(&key, |_| RowChange::Confirm { has_ledger }).await?)?;
            let rows = own.rows(&key).await?;
            own.view(&key, rows).ok_or(SequenceError::Refused(SequenceRefusal::NoSuch))
        })
        .await
    }

    /// Returns sequences with matching names, after a cursor (empty: from the first). A page may be empty and have
    /// others after it.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn list(self: &Arc<Self>, pattern: Option<&Pattern>, after: &str, limit: u32) -> VerbResult<RowPage> {
        let after = after.to_owned();
        let list = move |mut connection: Box<dyn Connection>| -> RunningStatement<RowPage> {
            let after = after.clone();
            Box::pin(async move {
                let listed = connection.list(&after, limit.clamp(1, PAGE_MAX), false).await;
                (connection, listed)
            })
        };
        let mut listed = self.read_any(list).await?;
        listed.rows = matching(listed.rows, pattern, |row| row.key.as_str()).await;
        listed.bad = matching(listed.bad, pattern, |bad| &bad.name).await;
        Ok(listed)
    }

    /// Does [`Sequences::list`] for the names alone, which takes a fraction of the time.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn names(self: &Arc<Self>, pattern: Option<&Pattern>, after: &str, limit: u32) -> VerbResult<NamePage> {
        let after = after.to_owned();
        let list = move |mut connection: Box<dyn Connection>| -> RunningStatement<NamePage> {
            let after = after.clone();
            Box::pin(async move {
                let listed = connection.names(&after, limit.clamp(1, PAGE_MAX)).await;
                (connection, listed)
            })
        };
        let mut listed = self.read_any(list).await?;
        listed.names = matching(listed.names, pattern, |key| key.as_str()).await;
        Ok(listed)
    }

    /// Returns the number of sequences in the store.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn count(self: &Arc<Self>) -> VerbResult<u64> {
        let count = |mut connection: Box<dyn Connection>| -> RunningStatement<Option<u64>> {
            Box::pin(async move {
                let count = connection.count().await;
                (connection, count)
            })
        };
        loop {
            if let Some(rows) = self.read_any(count).await? {
                return Ok(rows);
            }
        }
    }

    /// Returns the maximum in a row of `id_generator`, or a table like it: see
    /// [`getid_store::sql::Connection::maximum`].
    ///
    /// # Errors
    ///
    /// The row does not exist, or the store fails.
    pub async fn maximum_of(self: &Arc<Self>, table: String, id: i64) -> VerbResult<i64> {
        let asked = table.clone();
        let read = move |mut connection: Box<dyn Connection>| -> RunningStatement<_> {
            let table = asked.clone();
            Box::pin(async move {
                let maximum = connection.maximum(&table, id).await;
                (connection, maximum)
            })
        };
        let found = self.read_any(read).await?.map_err(SequenceError::from_verdict)?;
        found.ok_or_else(|| SequenceError::Not(format!("table {table} has no row with id {id} to adopt")))
    }

    /// Runs a statement that only reads, in one store after the other until one has answered.
    async fn read_any<T: Send + 'static>(
        self: &Arc<Self>,
        statement: impl Fn(Box<dyn Connection>) -> RunningStatement<T> + Send + Sync + 'static,
    ) -> VerbResult<T> {
        let own = Arc::clone(self);
        self.on_driver(async move {
            let mut failed = None;
            for pool in &own.pools {
                match pool.run_job(&statement).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            let reason = failed.map_or_else(String::new, |error| error.to_string());
            Err(SequenceError::Refused(SequenceRefusal::Store(reason.into())))
        })
        .await
    }

    /// Returns the rows in the stores that answer. Fails if none answers.
    async fn rows(&self, key: &Key) -> VerbResult<Vec<(u8, SequenceRow)>> {
        let mut rows = Vec::new();
        let mut failed = None;
        let mut answers = 0;
        for pool in &self.pools {
            match row_of(JobQueue::Clients, pool, key).await {
                Ok(row) => {
                    answers += 1;
                    rows.extend(row.map(|row| (pool.index, row)));
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) if answers == 0 => Err(error),
            _ => Ok(rows),
        }
    }

    /// Returns the rows in all stores. Fails if one has none.
    async fn rows_of_all(&self, key: &Key) -> VerbResult<Vec<(u8, SequenceRow)>> {
        let mut rows = Vec::new();
        for pool in &self.pools {
            let row =
                row_of(JobQueue::Clients, pool, key).await?.ok_or(SequenceError::Refused(SequenceRefusal::NoSuch))?;
            if row.state == RowState::Dropped {
                return Err(SequenceError::Refused(SequenceRefusal::Dropped { last: row.last() }));
            }
            rows.push((pool.index, row));
        }
        Ok(rows)
    }

    /// Changes the row in each store, and drops earlier reservations in memory. Returns each store's answer. All stores
    /// must be up before the first is changed.
    pub(super) async fn change_everywhere(
        &self,
        key: &Key,
        change: impl Fn(u8) -> RowChange,
    ) -> VerbResult<Vec<(u8, Result<SequenceRow, Verdict>)>> {
        if let Some(reason) = self.pools.iter().find_map(|pool| pool.down()) {
            return Err(SequenceError::Refused(SequenceRefusal::Store(reason)));
        }
        let mut each = Vec::new();
        for pool in &self.pools {
            let result = self.change(JobQueue::Clients, pool, key, change(pool.index)).await?;
            each.push((pool.index, result));
        }
        Ok(each)
    }

    async fn change(
        &self,
        queue: JobQueue,
        pool: &Arc<StorePool>,
        key: &Key,
        change: RowChange,
    ) -> VerbResult<Result<SequenceRow, Verdict>> {
        let asked = key.clone();
        let is_end = matches!(change, RowChange::Expire(_) | RowChange::Persist);
        let changed = pool.run_queued(queue, move |mut connection| {
            Box::pin(async move {
                let changed = connection.change(&asked, &change).await;
                (connection, changed)
            })
        });
        let changed = changed.await.map_err(SequenceError::from_store)?;
        if let Ok(row) = &changed {
            self.beat_after_change(pool).await;
            if is_end {
                self.end_changed(pool, row);
            } else {
                self.set_generation(pool.index, key.as_str(), row.generation);
            }
        }
        Ok(changed)
    }

    /// Changes a row of one store in the background.
    pub(super) fn change_in_background(self: &Arc<Self>, pool: &Arc<StorePool>, key: &Key, change: RowChange) {
        let (own, pool, key) = (Arc::clone(self), Arc::clone(pool), key.clone());
        self.handle.spawn(async move {
            match own.change(JobQueue::Fetches, &pool, &key, change).await {
                Ok(Ok(_)) => {}
                // It was dropped, or another server was faster.
                Ok(Err(verdict)) => tracing::debug!("the row of '{key}' was not marked: {verdict:?}"),
                Err(error) => tracing::warn!("marking the row of '{key}' failed: {}", error.of(key.name())),
            }
        });
    }

    /// `sequence-create on-first-use`, with several stores: creates a sequence in the background.
    pub(super) fn create_in_background(self: &Arc<Self>, key: &Key) {
        let (own, key) = (Arc::clone(self), key.clone());
        self.handle.spawn(async move {
            let (spec, rows_max) = (own.settings().spec(), own.settings().rows_max);
            let how = CreateOptions::default();
            match own.create_everywhere(key.clone(), spec, None, how, rows_max).await {
                Ok(_) | Err(SequenceError::Exists(_)) => {}
                Err(error) => tracing::warn!("creating the sequence '{key}' failed: {}", error.of(key.name())),
            }
        });
    }

    /// Drops the verdict that the store has no row, since rows exist now.
    fn forget_verdict(&self, key: &Key, rows: &[(u8, SequenceRow)]) {
        for (index, row) in rows {
            self.set_generation(*index, key.as_str(), row.generation);
        }
        self.let_go(key);
        let hash = hash_of(key.as_str().as_bytes());
        let mut shard = self.table.shard(hash);
        // The entry stays if a fetch was running for it.
        if let (Some(entry), Some(next)) =
            (Table::find(&mut shard, hash, key.as_str()), rows.iter().map(|(_, row)| row.next).min())
        {
            entry.sequence.recreated(next);
        }
    }

    /// Removes it from memory, unless a fetch is queued or running for it.
    pub(super) fn let_go(&self, key: &Key) {
        let hash = hash_of(key.as_str().as_bytes());
        let mut shard = self.table.shard(hash);
        self.table.remove(&mut shard, hash, |entry| entry.key == *key && entry.is_at_rest());
    }

    /// Removes all counters of a generator from memory, unless a fetch is queued or running for one.
    pub(super) fn let_go_of_generator(&self, name: &str) {
        for index in 0..SHARDS {
            let mut shard = self.table.nth_shard(index);
            self.table.remove_where(&mut shard, |entry| entry.key.name() == name && entry.is_at_rest());
        }
    }

    /// Returns the keys of a generator's series, after the key `after` (empty: from the first), at most `limit`.
    ///
    /// # Errors
    ///
    /// No store answers.
    pub async fn series(self: &Arc<Self>, name: String, after: String, limit: u32) -> VerbResult<Vec<String>> {
        let list = move |mut connection: Box<dyn Connection>| -> RunningStatement<Vec<String>> {
            let (name, after) = (name.clone(), after.clone());
            Box::pin(async move {
                let keys = connection.series(&name, &after, limit).await;
                (connection, keys)
            })
        };
        self.read_any(list).await
    }

    /// Runs work on the driver's thread, to its end, even if its caller stops waiting.
    pub(super) async fn on_driver<T: Send + 'static>(
        &self,
        work: impl Future<Output = VerbResult<T>> + Send + 'static,
    ) -> VerbResult<T> {
        match timeout(REQUEST_DEADLINE, self.handle.spawn(work)).await {
            Ok(Ok(done)) => done,
            // The thread has ended, or the work panicked, which is logged.
            Ok(Err(_)) => Err(SequenceError::Refused(SequenceRefusal::Closed)),
            Err(_) => {
                Err(SequenceError::Unknown(format!("It has not answered within {} s", REQUEST_DEADLINE.as_secs())))
            }
        }
    }
}

/// Returns those of `all` whose names match. The task yields in between, since a pattern may take 50 us for a name.
async fn matching<T>(all: Vec<T>, pattern: Option<&Pattern>, name: fn(&T) -> &str) -> Vec<T> {
    let Some(pattern) = pattern else { return all };
    let mut found = Vec::new();
    for (nth, one) in all.into_iter().enumerate() {
        if pattern.matches(name(&one).as_bytes()) {
            found.push(one);
        }
        if nth % MATCHES_PER_SLICE == MATCHES_PER_SLICE - 1 {
            tokio::task::yield_now().await;
        }
    }
    found
}

/// Reads the row of a sequence in one store.
pub(super) async fn row_of(queue: JobQueue, pool: &Arc<StorePool>, key: &Key) -> VerbResult<Option<SequenceRow>> {
    let key = key.clone();
    let row = pool.run_queued(queue, move |mut connection| {
        Box::pin(async move {
            let row = connection.row(&key).await;
            (connection, row)
        })
    });
    // A read changes nothing, whatever its outcome.
    row.await.map_err(|error| SequenceError::Refused(SequenceRefusal::Store(error.to_string().into())))
}

/// Returns the first verdict as an error, if there is one.
fn all_done(each: Vec<(u8, Result<SequenceRow, Verdict>)>) -> VerbResult<()> {
    each.into_iter().try_for_each(|(_, result)| result.map(drop)).map_err(SequenceError::from_verdict)
}
