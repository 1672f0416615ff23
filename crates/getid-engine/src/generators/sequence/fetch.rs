//! The reservations of one statement: the choice of sequences, and the handling of the answers.
//!
//! Invariant: each fetch that was begun is answered once, whatever happens to its statement.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use getid_core::server::beat::Credentials;
use getid_core::server::{
    Fetch, FetchVerdict, Fetched, Key, NameWord, STORES_MAX, Segment, SequenceRefusal, VALUE_MAX,
};
use tokio::sync::SemaphorePermit;
use tokio::time::sleep;

use super::Sequences;
use super::error::{SequenceError, refusal_of};
use super::notes::RowNote;
use super::pool::{FetchAnswer, JobQueue, StorePool};
use super::table::{CounterOpening, SequenceEntry, Table};
use super::verbs::row_of;
use getid_store::sql::{
    BATCH_MAX, Connection, CreateRequest, Generator, OpenPeriodRequest, Reservation, ReserveRequest, RowChange,
    RowState, SequenceRow, SeriesBounds, ServerBeat, StoreError, Verdict,
};
use getid_text::plural::{counted, thousands};

/// Distance from a period, by the store's clock, within which its row may be begun, ms.
const OPENS_WITHIN_MS: i64 = 3_600_000;

/// Interval at which a row with the mark of a store that went back is read again.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Number of times such a row is read again.
const LOOKS_MAX: usize = 10;

/// Cost of a counter in a batch, in sequences: the statements that open its period are longer.
const COUNTER_COST: usize = 8;

/// Number of comparisons of a sequence's rows, repeated if one was altered meanwhile.
const COMPARISONS_MAX: usize = 4;

/// Number of sequences that read a marked row again at a time.
pub(super) const LOOKING_MAX: usize = 64;

/// Increment and offset of the row in each store.
type Lanes = [Option<(u32, u32)>; STORES_MAX];

/// A fetch that was begun.
struct PendingFetch {
    hash: u64,
    key: Key,
    fetch: Fetch,
    /// The creation of its row, if it is the counter of a generator, for a period or for all time.
    counter_opening: Option<CounterOpening>,
    /// Whether a missing row of such a counter may be created.
    may_begin: bool,
    /// Whether the notes show that its row was begun.
    is_begun: bool,
    /// Whether the store has confirmed its row in this life.
    is_known: bool,
    /// Whether its row was created with its reservation.
    is_created: bool,
}

/// Reason why a sequence's rows in several stores were not compared.
#[derive(Debug, thiserror::Error)]
enum LaneError {
    #[error("the rows of '{key}' are altered again and again; try again")]
    Altered { key: Key },
    #[error(
        "{store}: it does not answer, and before the first value of '{key}' its rows in all stores are compared: {}",
        error.of(key.name())
    )]
    NoAnswer { store: String, key: Key, error: SequenceError },
}

impl Sequences {
    /// Serves the fetch queue with one statement, up to its maximum size. Returns false if the queue was empty.
    pub(super) async fn fetch(self: &Arc<Self>, pool: &Arc<StorePool>, slot: &SemaphorePermit<'_>) -> bool {
        let mut batch = self.take_batch(pool);
        if batch.is_empty() {
            return false;
        }
        self.counts.fetches.fetch_add(batch.len() as u64, Relaxed);
        self.look_up_begun(&mut batch).await;
        let answers = self.reserve_or_create(pool, slot, &mut batch).await;
        self.note_begun(&mut batch, &answers).await;
        let had = self.note(pool, &batch, &answers).await;
        let is_one = batch.len() == 1;
        let failed = answers.iter().filter(|answer| answer.is_err()).count();
        self.counts.fetches_failed.fetch_add(failed as u64, Relaxed);
        let mut each = answers.into_iter();
        for (asked, had) in batch.into_iter().zip(had) {
            // The statement answers each fetch, or this error is used.
            let none = || Err(StoreError::Unknown(format!("{}: no answer for '{}'", pool.store.shown(), asked.key)));
            let answer = each.next().unwrap_or_else(none);
            match answer {
                Ok(Ok(reserved)) if self.must_compare(pool, &asked, reserved.row.generation) => {
                    self.compare_and_answer(pool, asked, reserved, had, is_one);
                }
                Ok(Err(verdict @ Verdict::WentBack { .. })) if self.has_lanes() && pool.is_native() => {
                    self.reread_and_answer(pool, asked, verdict, had, is_one);
                }
                answer => self.answer(pool, &asked, answer, had, is_one),
            }
        }
        true
    }

    /// Returns true if a sequence has a row in each of several stores, with an increment and an offset for each.
    pub(super) fn has_lanes(&self) -> bool {
        self.pools.len() > 1
    }

    /// Returns true if the sequence's rows in the other stores are still to be compared with this one. A row with a new
    /// generation was altered by another server, so the known state of the others may be older.
    fn must_compare(&self, pool: &StorePool, asked: &PendingFetch, generation: u64) -> bool {
        if !self.has_lanes() || !pool.is_native() {
            return false;
        }
        self.set_generation(pool.index, asked.key.as_str(), generation);
        let mut shard = self.table.shard(asked.hash);
        let entry = Table::find(&mut shard, asked.hash, asked.key.as_str());
        entry.is_some_and(|entry| !entry.rare.as_deref().is_some_and(|rare| rare.is_compared))
    }

    /// Reads the rows of the other stores before the first value of a sequence is given: two rows with the same
    /// increment and offset would give each value twice. It runs beside the fetches, because it waits for connections
    /// that they use.
    ///
    /// If two servers begin rows in two stores at the same time, the one that reads later sees both.
    fn compare_and_answer(
        self: &Arc<Self>,
        pool: &Arc<StorePool>,
        asked: PendingFetch,
        reserved: Reservation,
        had: Option<i64>,
        is_one: bool,
    ) {
        let (own, pool) = (Arc::clone(self), Arc::clone(pool));
        self.handle.spawn(async move {
            let answer = own
                .compare_lanes(&pool, &asked, &reserved.row)
                .await
                .map_or_else(|error| Err(StoreError::Refused(error.to_string())), |()| Ok(Ok(reserved)));
            own.answer(&pool, &asked, answer, had, is_one);
        });
    }

    async fn compare_lanes(&self, pool: &StorePool, asked: &PendingFetch, row: &SequenceRow) -> Result<(), LaneError> {
        for _ in 0..COMPARISONS_MAX {
            let alterations = self.alterations(asked);
            let lanes = self.lanes_of_others(pool, row).await?;
            if self.set_lanes(asked, alterations, &lanes) {
                return Ok(());
            }
        }
        Err(LaneError::Altered { key: asked.key.clone() })
    }

    fn alterations(&self, asked: &PendingFetch) -> Option<u32> {
        let mut shard = self.table.shard(asked.hash);
        Table::find(&mut shard, asked.hash, asked.key.as_str()).map(|entry| entry.rare().alterations)
    }

    /// Waits briefly for the mark of a row to disappear: an `ALTER` of the increment puts it on all rows while it
    /// changes them. Then the verdict is on a row of an older generation, and refuses nothing. A mark that stays
    /// refuses as with one store, half a second later. It runs beside the fetches.
    fn reread_and_answer(
        self: &Arc<Self>,
        pool: &Arc<StorePool>,
        asked: PendingFetch,
        verdict: Verdict,
        had: Option<i64>,
        is_one: bool,
    ) {
        let (own, pool) = (Arc::clone(self), Arc::clone(pool));
        self.handle.spawn(async move {
            // Each read is a job of the store, so only few sequences read again if a store lost thousands of rows.
            if let Ok(_place) = own.reread_slots.try_acquire() {
                for _ in 0..LOOKS_MAX {
                    sleep(LOOK_EVERY).await;
                    match row_of(JobQueue::Fetches, &pool, &asked.key).await {
                        Ok(Some(row)) if row.state == RowState::WentBack => {}
                        Ok(Some(row)) => {
                            own.set_generation(pool.index, asked.key.as_str(), row.generation);
                            break;
                        }
                        Ok(None) | Err(_) => break,
                    }
                }
            }
            own.answer(&pool, &asked, Ok(Err(verdict)), had, is_one);
        });
    }

    /// Returns increment and offset of a sequence's row in each other store; `None` where it has no row. If a store
    /// does not answer, this server's notes count instead.
    async fn lanes_of_others(&self, pool: &StorePool, row: &SequenceRow) -> Result<Lanes, LaneError> {
        let mut lanes = Lanes::default();
        for (other, lane) in self.pools.iter().zip(&mut lanes).filter(|(other, _)| other.index != pool.index) {
            match row_of(JobQueue::Fetches, other, &row.key).await {
                Ok(found) => {
                    let found = found.filter(|found| found.state != RowState::Dropped);
                    *lane = found.map(|found| (found.spec.increment, found.spec.offset));
                }
                Err(error) => {
                    let (store, key) = (other.store.shown().to_owned(), row.key.clone());
                    return self.noted_lanes(pool, row).await.ok_or(LaneError::NoAnswer { store, key, error });
                }
            }
        }
        Ok(lanes)
    }

    /// Returns increment and offset of the rows in the other stores from the notes; `None` unless the notes have
    /// exactly one row for each, or if the own row was altered since.
    async fn noted_lanes(&self, pool: &StorePool, row: &SequenceRow) -> Option<Lanes> {
        let uuid = pool.about()?.uuid.clone();
        let noted = self.notes.lanes(&uuid, row.key.clone(), row.generation).await;
        // A store that was replaced by another one has left a note too.
        if noted.len() + 1 != self.pools.len() {
            return None;
        }
        let mut lanes = Lanes::default();
        let others = self.pools.iter().zip(&mut lanes).filter(|(other, _)| other.index != pool.index);
        others.zip(noted).for_each(|((_, lane), noted)| *lane = Some(noted));
        Some(lanes)
    }

    /// Sets the lanes of the rows in the other stores. Does nothing and returns `false` if a row was altered since they
    /// were read.
    fn set_lanes(&self, asked: &PendingFetch, alterations: Option<u32>, lanes: &Lanes) -> bool {
        let mut shard = self.table.shard(asked.hash);
        let Some(entry) = Table::find(&mut shard, asked.hash, asked.key.as_str()) else { return true };
        let rare = entry.rare();
        if alterations != Some(rare.alterations) {
            return false;
        }
        rare.is_compared = true;
        for (known, lane) in rare.rows.iter_mut().zip(lanes) {
            *known = lane.or(*known);
        }
        true
    }

    /// Fails the queued fetches that only a store could serve, since none is up.
    pub(super) fn fail_queued_fetches(&self, reason: &Arc<str>) {
        while let Some(hash) = self.fetch_queue.pop_any() {
            let now_ms = self.now_ms();
            let mut shard = self.table.shard(hash);
            let Some(entry) = queued_entry(&mut shard, hash) else { continue };
            entry.flags.is_queued = false;
            if entry.sequence.begin_fetch(now_ms, &self.policy()).is_none() {
                let is_missing = self.rest(entry, hash, now_ms);
                drop(shard);
                self.remember_missing(is_missing, hash, now_ms);
                continue;
            }
            // A sequence with values in memory continues with them, and fetches again soon.
            let answer = if entry.sequence.holds_values() {
                Fetched::Failed { is_unknown: false, reason: Arc::clone(reason) }
            } else {
                Fetched::Refused(SequenceRefusal::Store(Arc::clone(reason)))
            };
            let deliveries = self.apply_answer(entry, now_ms, answer).1;
            let is_missing = self.rest(entry, hash, now_ms);
            drop(shard);
            deliver(deliveries);
            self.remember_missing(is_missing, hash, now_ms);
        }
    }

    fn take_batch(&self, pool: &StorePool) -> Vec<PendingFetch> {
        let mut batch = Vec::new();
        let policy = self.policy();
        let (mut cost, mut is_alone) = (0, false);
        let kind = self.fetch_queue.next_kind();
        while cost < BATCH_MAX
            && !is_alone
            && !self.is_closed.load(Relaxed)
            && let Some(hash) = self.fetch_queue.pop(kind)
        {
            let now_ms = self.now_ms();
            let mut shard = self.table.shard(hash);
            let Some(entry) = queued_entry(&mut shard, hash) else { continue };
            is_alone = entry.flags.is_alone;
            if is_alone && !batch.is_empty() {
                self.fetch_queue.put_back(kind, hash);
                break;
            }
            entry.flags.is_queued = false;
            if let Some(fetch) = entry.sequence.begin_fetch(now_ms, &policy) {
                entry.flags.is_fetching = true;
                self.fetching.fetch_add(1, Relaxed);
                let rare = entry.rare.as_deref();
                let is_begun = rare.is_some_and(|rare| rare.is_begun);
                let counter_opening = rare.and_then(|rare| rare.counter_opening.clone());
                let may_begin = !is_begun
                    && counter_opening.as_ref().is_some_and(|counter_opening| may_open(pool, counter_opening));
                cost += if counter_opening.is_some() { COUNTER_COST } else { 1 };
                let (key, is_known) = (entry.key.clone(), entry.flags.is_known);
                let is_created = false;
                batch.push(PendingFetch {
                    hash,
                    key,
                    fetch,
                    counter_opening,
                    may_begin,
                    is_begun,
                    is_known,
                    is_created,
                });
            } else {
                let is_missing = self.rest(entry, hash, now_ms);
                drop(shard);
                self.remember_missing(is_missing, hash, now_ms);
            }
        }
        if self.fetch_queue.has_due() {
            // Another connection may serve the rest.
            self.fetch_queue.ready.notify_one();
        }
        batch
    }

    /// Looks up which counters were begun before. Such a counter is not begun again: if its row is missing, the store
    /// was lost. With several stores, each begins its row above all values given ([`Sequences::reserve`]).
    async fn look_up_begun(&self, batch: &mut [PendingFetch]) {
        if self.pools.len() > 1 {
            return;
        }
        let mut counters: Vec<_> = batch.iter_mut().filter(|asked| asked.is_counter() && !asked.is_begun).collect();
        let keys = counters.iter().map(|asked| asked.key.clone()).collect();
        for (asked, is_begun) in counters.iter_mut().zip(self.notes.begun(keys).await) {
            asked.is_begun = is_begun;
            asked.may_begin &= !is_begun;
        }
    }

    /// Reserves for each fetch of the batch. With `sequence-create on-first-use` missing rows are created.
    ///
    /// A name that this life has not used is first created together with its reservation, unless it is noted. So a
    /// batch of new names is one transaction. An existing row refuses that, and is reserved from.
    async fn reserve_or_create(
        &self,
        pool: &StorePool,
        slot: &SemaphorePermit<'_>,
        batch: &mut [PendingFetch],
    ) -> Vec<FetchAnswer> {
        let creates = self.settings().creates_on_first_use && self.pools.len() == 1;
        let mut answers: Vec<Option<FetchAnswer>> = vec![None; batch.len()];
        let is_new = |at: &usize| creates && pool.is_native() && !batch[*at].is_known && batch[*at].is_creatable();
        let new: Vec<usize> = (0..batch.len()).filter(is_new).collect();
        let noted = self.notes.highest(new.iter().map(|at| batch[*at].key.clone()).collect()).await;
        let new: Vec<usize> = new.into_iter().zip(noted).filter(|(_, noted)| *noted == 0).map(|(at, _)| at).collect();
        if !new.is_empty() {
            let asked: Vec<&PendingFetch> = new.iter().map(|at| &batch[*at]).collect();
            let created = self.create_for(pool, slot, &asked).await;
            for (at, created) in new.into_iter().zip(created) {
                // Any other answer may be for a row that exists.
                let is_final =
                    matches!(created, Ok(Ok(_) | Err(Verdict::TooMany { .. })) | Err(StoreError::Unknown(_)));
                batch[at].is_created = matches!(created, Ok(Ok(_)));
                answers[at] = Some(created).filter(|_| is_final);
            }
        }
        self.reserve_unanswered(pool, slot, batch, &mut answers).await;
        let is_missing = |at: &usize| matches!(answers[*at], Some(Ok(Err(Verdict::NoSuch))));
        let missing: Vec<usize> = (0..batch.len()).filter(is_missing).collect();
        self.look_up_lost(batch, &missing).await;
        let missing: Vec<usize> = missing.into_iter().filter(|at| creates && batch[*at].is_creatable()).collect();
        if !missing.is_empty() {
            let asked: Vec<&PendingFetch> = missing.iter().map(|at| &batch[*at]).collect();
            let created = self.create_for(pool, slot, &asked).await;
            for (at, created) in missing.into_iter().zip(created) {
                batch[at].is_created = matches!(created, Ok(Ok(_)));
                answers[at] = match created {
                    // Another server was faster.
                    Ok(Err(Verdict::Exists(_))) => None,
                    Ok(answer) => Some(Ok(answer)),
                    Err(error) => {
                        tracing::warn!("creating the sequence '{}' failed: {error}", batch[at].key);
                        Some(match error {
                            StoreError::Refused(reason) | StoreError::Locked(reason) => {
                                Ok(Err(Verdict::BadRow(format!("it was not made: {reason}"))))
                            }
                            // The row may exist: the next request finds out.
                            unknown @ StoreError::Unknown(_) => Err(unknown),
                        })
                    }
                };
            }
            self.reserve_unanswered(pool, slot, batch, &mut answers).await;
        }
        let none = || Err(StoreError::Unknown(format!("{}: a fetch has no answer", pool.store.shown())));
        answers.into_iter().map(|answer| answer.unwrap_or_else(none)).collect()
    }

    /// Marks those of these fetches that this server's notes know: the row that they miss was lost, or the store is
    /// another one.
    async fn look_up_lost(&self, batch: &mut [PendingFetch], missing: &[usize]) {
        let missing: Vec<usize> =
            missing.iter().copied().filter(|at| !batch[*at].is_counter() && !batch[*at].is_begun).collect();
        let keys = missing.iter().map(|at| batch[*at].key.clone()).collect();
        for (at, noted) in missing.into_iter().zip(self.notes.highest(keys).await) {
            batch[at].is_begun = noted > 0;
        }
    }

    /// Notes the counters whose rows now exist, before a value of them is given.
    async fn note_begun(&self, batch: &mut [PendingFetch], answers: &[FetchAnswer]) {
        if self.pools.len() > 1 {
            return;
        }
        let asked = batch.iter_mut().zip(answers);
        let begun =
            asked.filter(|(asked, answer)| asked.is_counter() && !asked.is_begun && matches!(answer, Ok(Ok(_))));
        let begun: Vec<_> = begun.map(|(asked, _)| asked).collect();
        let keys = begun.iter().map(|asked| asked.key.clone()).collect();
        if self.notes.begin(keys).await {
            for asked in begun {
                asked.is_begun = true;
            }
        }
    }

    /// Reserves for the fetches without an answer.
    async fn reserve_unanswered(
        &self,
        pool: &StorePool,
        slot: &SemaphorePermit<'_>,
        batch: &[PendingFetch],
        answers: &mut [Option<FetchAnswer>],
    ) {
        let left: Vec<usize> = (0..batch.len()).filter(|at| answers[*at].is_none()).collect();
        if !left.is_empty() {
            let asked: Vec<&PendingFetch> = left.iter().map(|at| &batch[*at]).collect();
            let each = self.reserve(pool, slot, &asked).await;
            left.into_iter().zip(each).for_each(|(at, answer)| answers[at] = Some(answer));
        }
    }

    /// Reserves for each of these fetches in one statement. If that fails, each has its error.
    async fn reserve(&self, pool: &StorePool, slot: &SemaphorePermit<'_>, batch: &[&PendingFetch]) -> Vec<FetchAnswer> {
        let is_alone = self.pools.len() == 1;
        let had = if is_alone {
            vec![0; batch.len()]
        } else {
            self.notes.highest(batch.iter().map(|asked| asked.key.clone()).collect()).await
        };
        let server = match pool.credentials() {
            Ok(server) => server,
            Err(error) => return vec![Err(error); batch.len()],
        };
        let asks = batch.iter().zip(had).map(|(asked, had)| {
            let floor = if is_alone { 0 } else { asked.fetch.floor.max(had) };
            let reserve = ReserveRequest { key: asked.key.clone(), values: asked.fetch.values, floor };
            let counter_opening = asked.counter_opening.as_ref().filter(|_| pool.is_native());
            let may_begin = asked.may_begin;
            let opening = counter_opening.map(|counter_opening| OpenPeriodRequest {
                floor,
                may_begin,
                ..self.opening(pool, server, &asked.key, counter_opening)
            });
            (reserve, opening)
        });
        let mut asks: Vec<_> = asks.enumerate().collect();
        // All servers lock rows in the same order.
        asks.sort_by(|(_, a), (_, b)| a.0.key.cmp(&b.0.key));
        let (places, asks): (Vec<usize>, Vec<(ReserveRequest, Option<OpenPeriodRequest>)>) = asks.into_iter().unzip();
        let answers = pool
            .run(slot, move |mut connection| {
                Box::pin(async move {
                    let answers = reserve_with_periods(&mut *connection, server, &asks).await;
                    (connection, answers)
                })
            })
            .await;
        let answers = match answers {
            Ok(reserved) if self.take_beat(pool, reserved.server.as_ref()) => {
                self.note_keys(batch, &reserved.generators);
                reserved.answers
            }
            Ok(_) => return vec![Err(broken_connection(pool)); batch.len()],
            Err(error) => return vec![Err(error); batch.len()],
        };
        let mut sorted: Vec<_> = places.into_iter().zip(answers).collect();
        sorted.sort_by_key(|(place, _)| *place);
        sorted.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Notes the numbers of keys that were read with a batch.
    fn note_keys(&self, batch: &[&PendingFetch], generators: &[Generator]) {
        let openings =
            batch.iter().filter_map(|asked| Some((asked.key.name(), asked.counter_opening.as_ref()?.series?)));
        let mut last = "";
        for (name, bounds) in openings {
            if name != last
                && let Some(generator) = generators.iter().rev().find(|generator| generator.name == name)
            {
                self.keys.note(generator, bounds.max);
            }
            last = name;
        }
    }

    /// Returns how the counter of a generator is found, or begun, in a store.
    pub(super) fn opening(
        &self,
        pool: &StorePool,
        server: Option<Credentials>,
        key: &Key,
        counter_opening: &CounterOpening,
    ) -> OpenPeriodRequest {
        OpenPeriodRequest {
            key: key.clone(),
            declaration: counter_opening.declaration.to_string(),
            reset: counter_opening.reset,
            spec: self.spec_of_store(&counter_opening.spec, pool.index),
            floor: 0,
            may_begin: may_open(pool, counter_opening),
            is_serial: counter_opening.is_serial,
            from_unix_ms: counter_opening.from_unix_ms,
            has_begun: pool.unix_ms().is_some_and(|now_ms| counter_opening.from_unix_ms <= now_ms),
            // In a store that is not shared, the server's configuration is the only declaration. A sequence may be
            // declared in several formats.
            redeclares: !pool.store.is_shared() || !counter_opening.is_serial,
            series: counter_opening.series,
            restores_row: false,
            server,
        }
    }

    /// `SEQUENCE DECLARE`: makes this server's declaration valid for all servers, in each store.
    ///
    /// # Errors
    ///
    /// A store has no rows of generators, or does not answer.
    pub async fn declare(self: &Arc<Self>, key: Key, counter_opening: CounterOpening) -> Result<(), SequenceError> {
        let own = Arc::clone(self);
        self.on_driver(async move {
            own.open_everywhere(&key, &counter_opening, true).await?;
            if counter_opening.series.is_some() {
                own.let_go_of_generator(key.name());
            } else {
                own.let_go(&key);
            }
            Ok(())
        })
        .await
    }

    /// `SERIES CREATE`: makes the counter of a key in each store, also where keys are declared.
    ///
    /// # Errors
    ///
    /// The generator has its maximum of keys, or a store does not answer.
    pub async fn create_series(
        self: &Arc<Self>,
        key: Key,
        counter_opening: CounterOpening,
    ) -> Result<(), SequenceError> {
        let own = Arc::clone(self);
        let series = counter_opening.series.map(|bounds| SeriesBounds { may_begin: true, ..bounds });
        let counter_opening = CounterOpening { series, ..counter_opening };
        self.on_driver(async move {
            own.open_everywhere(&key, &counter_opening, false).await?;
            own.let_go(&key);
            Ok(())
        })
        .await
    }

    /// Opens the counter of a generator in each store, one after the other.
    async fn open_everywhere(
        &self,
        key: &Key,
        counter_opening: &CounterOpening,
        redeclares: bool,
    ) -> Result<(), SequenceError> {
        let is_begun = self.notes.begun(vec![key.clone()]).await == [true];
        let floor = self.noted_next(key).await;
        for pool in &self.pools {
            let server = pool.credentials().map_err(SequenceError::from_store)?;
            let opening = self.opening(pool, server, key, counter_opening);
            let (may_begin, redeclares) = (opening.may_begin && !is_begun, redeclares || opening.redeclares);
            let ask = OpenPeriodRequest { redeclares, floor, may_begin, ..opening };
            let opened = pool.run_job(move |mut connection| {
                Box::pin(async move {
                    let opened = connection.open_period(&ask).await;
                    (connection, opened)
                })
            });
            let opened = opened.await.map_err(SequenceError::from_store)?.map_err(SequenceError::from_verdict)?;
            if let Some(bounds) = counter_opening.series {
                self.keys.note(&opened, bounds.max);
            }
            self.beat_after_change(pool).await;
        }
        Ok(())
    }

    /// Creates the rows of these fetches, and reserves the values of each. [`Verdict::Exists`]: the row is to be
    /// reserved from. If the outcome is unknown, another connection looks up the rows.
    async fn create_for(
        &self,
        pool: &StorePool,
        slot: &SemaphorePermit<'_>,
        new: &[&PendingFetch],
    ) -> Vec<FetchAnswer> {
        let settings = self.settings();
        let row = |asked: &&PendingFetch| CreateRequest {
            key: asked.key.clone(),
            spec: settings.spec(),
            above_dropped: false,
            fresh_after_ms: None,
            floor: 0,
            values: asked.fetch.values,
            rows_max: settings.rows_max,
            server: None,
        };
        let created = self.create_rows(pool, slot, new.iter().map(row).collect()).await;
        let Some(Err(unknown @ StoreError::Unknown(_))) = created.last() else { return created };
        let keys: Vec<Key> = new.iter().map(|asked| asked.key.clone()).collect();
        let found = pool.run(slot, |mut connection| {
            Box::pin(async move {
                let mut rows = Vec::with_capacity(keys.len());
                for key in &keys {
                    rows.push(connection.row(key).await);
                }
                (connection, Ok(rows))
            })
        });
        // A missing row may still be created by the statement whose answer was lost.
        let answer = |found| match found {
            Ok(Some(row)) => Ok(Err(Verdict::Exists(Box::new(row)))),
            _ => Err(unknown.clone()),
        };
        found.await.map_or_else(|_| created.clone(), |rows| rows.into_iter().map(answer).collect())
    }

    /// Notes the reservations for the next life. Returns for each the noted value if its row is lower; another server
    /// may have marked the row for that already.
    async fn note(&self, pool: &StorePool, batch: &[PendingFetch], answers: &[FetchAnswer]) -> Vec<Option<i64>> {
        let nothing = vec![None; batch.len()];
        let Some(about) = pool.about() else { return nothing };
        let reserved = |place: usize| answers.get(place)?.as_ref().ok()?.as_ref().ok();
        let had = (0..batch.len()).filter_map(|place| {
            // An empty reservation, at the max, holds nothing of the row: other servers may give values back.
            let reserved = reserved(place).filter(|reserved| !reserved.is_empty())?;
            Some((place, RowNote::of(&reserved.row, reserved.found_next, self.has_lanes())))
        });
        let (places, had): (Vec<usize>, Vec<RowNote>) = had.unzip();
        let mut all = nothing;
        let own = pool.member().as_ref().map(|member| (member.nonce(), member.beat()));
        for (place, lower) in places.into_iter().zip(self.notes.check(&about.uuid, had, own).await) {
            all[place] = lower;
        }
        let marked: Vec<(usize, i64)> = (0..batch.len())
            .filter_map(|place| match answers.get(place)? {
                Ok(Err(Verdict::WentBack { next })) => Some((place, *next)),
                _ => None,
            })
            .collect();
        let highest = self.notes.highest(marked.iter().map(|(place, _)| batch[*place].key.clone()).collect()).await;
        for ((place, next), noted) in marked.into_iter().zip(highest) {
            all[place] = Some(noted.max(batch[place].fetch.floor)).filter(|had| *had > next);
        }
        all
    }

    fn answer(
        self: &Arc<Self>,
        pool: &Arc<StorePool>,
        asked: &PendingFetch,
        answer: FetchAnswer,
        had: Option<i64>,
        is_one: bool,
    ) {
        let now_ms = self.now_ms();
        // A stop waits for running fetches.
        let _answered = FetchEndGuard(self);
        let mut shard = self.table.shard(asked.hash);
        let Some(entry) = Table::find(&mut shard, asked.hash, asked.key.as_str()) else { return };
        entry.flags.is_fetching = false;
        if asked.is_begun {
            entry.rare().is_begun = true;
        }
        let is_refusal = matches!(answer, Err(StoreError::Refused(_) | StoreError::Locked(_)));
        entry.flags.is_alone = is_refusal && (entry.flags.is_alone || !is_one);
        let (mut went_back, mut found_next) = (None, 0);
        let fetched = match answer {
            Ok(Ok(reserved)) => {
                self.table.note_known(entry);
                (went_back, found_next) = (had, reserved.found_next);
                self.reserved(pool, entry, now_ms, &reserved, had)
            }
            Ok(Err(Verdict::NoSuch)) if self.creates_row(entry) && !asked.is_begun => {
                self.create_in_background(&asked.key);
                let reason = format!("{}: it is being made", pool.store.shown()).into();
                Fetched::Failed { is_unknown: false, reason }
            }
            Ok(Err(verdict)) => {
                if let (Verdict::WentBack { .. }, Some(had_next)) = (&verdict, had) {
                    self.change_in_background(pool, &asked.key, RowChange::HadMore { had_next });
                }
                Fetched::Refused(self.refusal_of_fetch(pool, entry, verdict))
            }
            Err(error) => Fetched::Failed {
                is_unknown: matches!(error, StoreError::Unknown(_)),
                reason: error.to_string().into(),
            },
        };
        let (taken, mut deliveries) = self.apply_answer(entry, now_ms, fetched);
        if let FetchVerdict::Backwards { floor } = taken {
            let again = self.backwards(pool);
            if matches!(again, Fetched::Refused(_)) {
                went_back = Some(floor);
            }
            deliveries.extend(self.apply_answer(entry, now_ms, again).1);
        }
        if asked.is_created {
            entry.sequence.rest_after_creation();
        }
        let is_missing = self.rest(entry, asked.hash, now_ms);
        drop(shard);
        deliver(deliveries);
        self.remember_missing(is_missing, asked.hash, now_ms);
        if let Some(had_next) = went_back {
            self.mark_went_back(pool, &asked.key, had_next, found_next);
        }
    }

    /// Returns the result of a confirmed reservation. `had`: the noted value, if the row is lower.
    fn reserved(
        &self,
        pool: &StorePool,
        entry: &mut SequenceEntry,
        now_ms: u64,
        reserved: &Reservation,
        had: Option<i64>,
    ) -> Fetched {
        if had.is_some() {
            return Fetched::Refused(SequenceRefusal::WentBack);
        }
        if !self.confirmed.is_store_good(pool.index, now_ms) {
            let reason = format!("{}: changes by other servers could not be read", pool.store.shown()).into();
            return Fetched::Failed { is_unknown: true, reason };
        }
        self.check_row(pool, entry, reserved).unwrap_or_else(|refusal| {
            // Requests are served from memory, and may not see the refusal for long.
            if self.counts.may_warn(now_ms) {
                tracing::error!("{}", refusal.of(entry.key.name()));
            }
            Fetched::Refused(refusal)
        })
    }

    /// Returns the answer to a fetch whose reservation is below values already given.
    fn backwards(&self, pool: &StorePool) -> Fetched {
        if pool.is_native() || self.pools.len() == 1 {
            return Fetched::Refused(SequenceRefusal::WentBack);
        }
        // Tables of other programs have no order over several databases: the fetch asks for a higher range.
        let reason = format!("{}: it is behind the other stores", pool.store.shown()).into();
        Fetched::Failed { is_unknown: false, reason }
    }

    /// Returns true if a request for a missing sequence creates it, in all stores.
    fn creates_row(&self, entry: &SequenceEntry) -> bool {
        self.settings().creates_on_first_use && self.pools.len() > 1 && entry.key.is_plain()
    }

    fn refusal_of_fetch(&self, pool: &StorePool, entry: &mut SequenceEntry, verdict: Verdict) -> SequenceRefusal {
        let is_missing = matches!(verdict, Verdict::NoSuch);
        // Clients can invent keys, as they can invent names.
        if !is_missing && !matches!(verdict, Verdict::NoSeries | Verdict::TooManySeries { .. }) {
            self.table.note_known(entry);
        }
        let rare = entry.rare.as_deref();
        if is_missing && rare.is_some_and(|rare| rare.is_begun) {
            let refusal = SequenceRefusal::Lost { store: pool.store.shown().into() };
            if self.counts.may_warn(self.now_ms()) {
                tracing::error!("{}", refusal.of(entry.key.name()));
            }
            return refusal;
        }
        if is_missing && rare.is_some_and(|rare| rare.counter_opening.is_some()) {
            let what = "its period has not begun: it is more than an hour away by the store's clock. Check the clock \
             of this machine and that of the store's";
            return SequenceRefusal::BadRow(what.into());
        }
        refusal_of(verdict)
    }

    /// Checks a reservation's row. Refuses it if this server cannot draw from such a row.
    fn check_row(
        &self,
        pool: &StorePool,
        entry: &mut SequenceEntry,
        reserved: &Reservation,
    ) -> Result<Fetched, SequenceRefusal> {
        let spec = reserved.row.spec;
        if self.pools.len() > 1 && pool.is_native() {
            if spec.cache == 0 {
                let what =
                    "its cache is 0, which needs one store, and there are several: 'SEQUENCE ALTER' gives it another";
                return Err(SequenceRefusal::BadRow(what.into()));
            }
            let own = (spec.increment, spec.offset % spec.increment);
            let rows = &mut entry.rare().rows;
            let others = rows.iter().enumerate().filter(|(index, _)| *index != usize::from(pool.index));
            let other = others.filter_map(|(index, row)| Some((index, (*row)?)));
            let odd = other.clone().find(|(_, other)| other.0 != own.0 || other.1 == own.1);
            let disagreement = odd.map(|(index, (increment, offset))| {
                let other = self.pools.get(index).map_or("", |pool| pool.store.shown());
                format!(
                    "its rows disagree: increment {} offset {} in {}, increment {increment} offset {offset} in \
                     {other}. 'SEQUENCE ALTER' corrects them",
                    own.0,
                    own.1,
                    pool.store.shown()
                )
            });
            // The other rows stay known until they change: the next store must not be taken for the only one.
            rows[usize::from(pool.index)] = Some(own);
            if let Some(what) = disagreement {
                // Another server may hold the same values, from the other row.
                (0..).zip(&self.pools).for_each(|(store, _)| entry.sequence.forget_store(store));
                return Err(SequenceRefusal::BadRow(what.into()));
            }
        }
        let segment = Segment { first: reserved.first, last: reserved.last, increment: spec.increment };
        pool.counts.reserved.fetch_add(segment.left(), Relaxed);
        self.warn_of_end(entry, reserved);
        Ok(Fetched::Reserved {
            store: pool.index,
            segment,
            version: reserved.row.version,
            generation: reserved.row.generation,
            spec,
            end: self.row_end(pool, reserved.row.ends_unix_ms),
        })
    }

    /// Logs once when 80, and when 95 percent of the values up to the max are reserved.
    fn warn_of_end(&self, entry: &mut SequenceEntry, reserved: &Reservation) {
        let spec = reserved.row.spec;
        let percent = spec.used_share(reserved.last) / 100;
        let reached = if percent >= 95 {
            95
        } else if percent >= 80 {
            80
        } else {
            0
        };
        // A warning that is held back, because of many others, follows at the next reservation.
        if reached > entry.flags.warned && !self.counts.may_warn(self.now_ms()) {
            return;
        }
        let is_news = reached > entry.flags.warned;
        entry.flags.warned = reached;
        if !is_news {
            return;
        }
        let left = spec.max.saturating_sub(reserved.row.next).max(0).unsigned_abs() / u64::from(spec.increment);
        // The long averages begin at 0, so the highest of the three is used.
        let per_s = entry.sequence.status(self.now_ms()).per_s.into_iter().fold(0.0, f64::max);
        let days = days_left(left, per_s)
            .map_or_else(String::new, |days| format!(", {} at the present rate", counted(days, "day")));
        let end =
            if spec.max == VALUE_MAX { "the last possible value".to_owned() } else { format!("its max {}", spec.max) };
        tracing::warn!(
            "the sequence '{}' has used {reached} % of its values up to {end}: {} are left{days}. 'SEQUENCE ALTER \
             {} max N' gives it more",
            entry.key,
            thousands(left),
            NameWord(entry.key.name())
        );
    }

    /// Gives an answer to its sequence, and serves the waiting draws.
    fn apply_answer(
        &self,
        entry: &mut SequenceEntry,
        now_ms: u64,
        answer: Fetched,
    ) -> (FetchVerdict, Vec<DrawDelivery>) {
        let taken = entry.sequence.fetched(now_ms, answer);
        let deliveries = self.serve(entry, now_ms);
        (taken, deliveries)
    }

    /// Queues the sequence if it needs another fetch. Returns true if it is not known to exist.
    fn rest(&self, entry: &mut SequenceEntry, hash: u64, now_ms: u64) -> bool {
        self.enqueue_fetch(entry, hash, now_ms);
        !entry.flags.is_known
    }

    /// Serves the waiting draws, or refuses them if nothing may be given.
    pub(super) fn serve(&self, entry: &mut SequenceEntry, now_ms: u64) -> Vec<DrawDelivery> {
        let mut deliveries = Vec::new();
        if let Err(refusal) = self.may_give(now_ms) {
            entry.sequence.refuse(&refusal, &mut |sender, result| deliveries.push((sender, result)));
        }
        entry.sequence.serve(now_ms, &mut |sender, result| deliveries.push((sender, result)));
        deliveries
    }

    /// Puts the mark on a row that is lower than this server's note.
    fn mark_went_back(self: &Arc<Self>, pool: &Arc<StorePool>, key: &Key, had_next: i64, found_next: i64) {
        self.counts.went_back.fetch_add(1, Relaxed);
        tracing::error!(
            "the sequence '{key}' went back: its next value in {} is {found_next}, and this server has noted \
             {had_next}. It gives no value before SEQUENCE RAISE or CONFIRM. Check whether a backup was restored, or a \
             failover lost transactions",
            pool.store.shown()
        );
        self.change_in_background(pool, key, RowChange::WentBack { had_next });
    }
}

impl PendingFetch {
    fn is_counter(&self) -> bool {
        self.counter_opening.is_some()
    }

    /// Returns true if a first use may create its row: it is a plain sequence, and its row is not known as lost.
    fn is_creatable(&self) -> bool {
        !self.is_counter() && !self.is_begun && self.key.is_plain()
    }
}

/// Returns the error of an answer with a beat that this server did not expect.
pub(super) fn broken_connection(pool: &StorePool) -> StoreError {
    let shown = pool.store.shown();
    StoreError::Unknown(format!("{shown}: a connection broke, or another instance of the database answers"))
}

/// Guard that counts a fetch as ended when dropped.
pub(super) struct FetchEndGuard<'a>(&'a Sequences);

impl<'a> FetchEndGuard<'a> {
    /// Counts a fetch as begun.
    pub(super) fn begin(sequences: &'a Sequences) -> FetchEndGuard<'a> {
        sequences.fetching.fetch_add(1, Relaxed);
        FetchEndGuard(sequences)
    }
}

impl Drop for FetchEndGuard<'_> {
    fn drop(&mut self) {
        self.0.fetching.fetch_sub(1, Relaxed);
        self.0.fetched.notify_waiters();
    }
}

/// A waiting draw's channel, and its result.
pub(super) type DrawDelivery = (tokio::sync::oneshot::Sender<super::DrawResult>, super::DrawResult);

/// Sends results to waiting draws, outside of any lock. If a draw has ended meanwhile, its values are skipped.
pub(super) fn deliver(deliveries: Vec<DrawDelivery>) {
    for (sender, result) in deliveries {
        let _ = sender.send(result);
    }
}

/// Returns true if a period is near enough, by the store's clock, to be begun.
pub(super) fn may_open(pool: &StorePool, counter_opening: &CounterOpening) -> bool {
    let from_ms = counter_opening.from_unix_ms.saturating_sub(OPENS_WITHIN_MS);
    let until_ms = counter_opening.until_unix_ms.saturating_add(OPENS_WITHIN_MS);
    pool.unix_ms().is_some_and(|now_ms| (from_ms..=until_ms).contains(&now_ms))
}

/// Returns the queued sequence with this hash.
fn queued_entry(shard: &mut super::table::Shard, hash: u64) -> Option<&mut SequenceEntry> {
    shard.find_mut(hash, |entry| entry.flags.is_queued && entry.hash() == hash)
}

/// Returns the whole days for which so many values last; `None` without use.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a forecast is not exact, and casts saturate"
)]
fn days_left(values: u64, per_s: f64) -> Option<u64> {
    (per_s > 0.0).then(|| (values as f64 / per_s / 86_400.0) as u64)
}

/// Answers to the fetches of a batch.
struct BatchAnswers {
    server: Option<ServerBeat>,
    answers: Vec<FetchAnswer>,
    /// Rows of generators as they were read, later ones behind earlier ones.
    generators: Vec<Generator>,
}

/// Reserves for each request. A generator's counter is compared with the row of its generator before and after: before,
/// so that no values are reserved that may not be given; after, so that a concurrent change is noticed. A missing row
/// is created, and then reserved from.
async fn reserve_with_periods(
    connection: &mut dyn Connection,
    server: Option<Credentials>,
    asks: &[(ReserveRequest, Option<OpenPeriodRequest>)],
) -> Result<BatchAnswers, StoreError> {
    let serials = asks.iter().filter_map(|(_, opening)| opening.as_ref().filter(|opening| opening.is_serial));
    let mut names: Vec<String> = serials.map(|opening| opening.key.name().to_owned()).collect();
    // The counters of a generator's keys are neighbours.
    names.dedup();
    let mut answers: Vec<Option<FetchAnswer>> = vec![None; asks.len()];
    let mut generators = if names.is_empty() { Vec::new() } else { connection.generators(Some(&names)).await? };
    for (answer, (_, opening)) in answers.iter_mut().zip(asks) {
        let verdict = opening.as_ref().and_then(|opening| refused_by(&generators, opening));
        *answer = verdict.map(|verdict| Ok(Err(verdict)));
    }
    let is_undeclared = |opening: &OpenPeriodRequest| {
        let found = generator_of(&generators, opening);
        opening.is_serial && found.is_none_or(|found| found.declaration != opening.declaration)
    };
    let undeclared = |at: &usize| answers[*at].is_none() && asks[*at].1.as_ref().is_some_and(is_undeclared);
    let mut undeclared: Vec<usize> = (0..asks.len()).filter(undeclared).collect();
    // The first counter declares the generator for the others.
    undeclared.dedup_by(|other, first| asks[*other].0.key.name() == asks[*first].0.key.name());
    let mut opened = open_periods(connection, asks, &mut answers, undeclared).await?;
    let mut beaten = reserve_missing(connection, server, asks, &mut answers).await?;
    let missing = |at: &usize| match (&answers[*at], &asks[*at].1) {
        (Some(Ok(Err(Verdict::NoSuch))), Some(opening)) => opening.may_begin,
        (Some(Ok(Err(Verdict::Dropped { .. }))), Some(opening)) => !opening.key.is_plain(),
        _ => false,
    };
    let missing: Vec<usize> = (0..asks.len()).filter(missing).collect();
    if !missing.is_empty() {
        opened.extend(open_periods(connection, asks, &mut answers, missing).await?);
        beaten = reserve_missing(connection, server, asks, &mut answers).await?.or(beaten);
    }
    generators.extend(opened);
    if server.is_some() && !names.is_empty() {
        generators = connection.generators(Some(&names)).await?;
        for (answer, (_, opening)) in answers.iter_mut().zip(asks) {
            if let (Some(Ok(Ok(_))), Some(opening)) = (&answer, opening)
                && let Some(verdict) = refused_by(&generators, opening)
            {
                *answer = Some(Ok(Err(verdict)));
            }
        }
    }
    let none = || Err(StoreError::Unknown("the store has not answered for each row".to_owned()));
    let answers = answers.into_iter().map(|answer| answer.unwrap_or_else(none)).collect();
    Ok(BatchAnswers { server: beaten, answers, generators })
}

/// Reserves for the requests without an answer.
async fn reserve_missing(
    connection: &mut dyn Connection,
    server: Option<Credentials>,
    asks: &[(ReserveRequest, Option<OpenPeriodRequest>)],
    answers: &mut [Option<FetchAnswer>],
) -> Result<Option<ServerBeat>, StoreError> {
    let missing: Vec<usize> = (0..asks.len()).filter(|at| answers[*at].is_none()).collect();
    let reserves: Vec<ReserveRequest> = missing.iter().map(|at| asks[*at].0.clone()).collect();
    if reserves.is_empty() {
        return Ok(None);
    }
    let reserved = connection.reserve_as(server, &reserves).await?;
    for (at, answer) in missing.into_iter().zip(reserved.each) {
        answers[at] = Some(Ok(answer));
    }
    Ok(reserved.server)
}

/// Opens the periods of these requests in one transaction. An opened one then has no answer, and is to be reserved
/// from. Returns the rows of the generators.
async fn open_periods(
    connection: &mut dyn Connection,
    asks: &[(ReserveRequest, Option<OpenPeriodRequest>)],
    answers: &mut [Option<FetchAnswer>],
    which: Vec<usize>,
) -> Result<Vec<Generator>, StoreError> {
    let openings = which.iter().filter_map(|at| asks[*at].1.clone());
    let openings: Vec<OpenPeriodRequest> = openings.collect();
    if openings.is_empty() {
        return Ok(Vec::new());
    }
    match connection.open_periods(&openings).await {
        Ok(each) => {
            let mut opened = Vec::with_capacity(each.len());
            for (at, each) in which.into_iter().zip(each) {
                answers[at] = each.map(|generator| opened.push(generator)).err().map(|verdict| Ok(Err(verdict)));
            }
            Ok(opened)
        }
        Err(error @ StoreError::Unknown(_)) => Err(error),
        Err(error) => {
            for at in which {
                answers[at] = Some(Err(error.clone()));
            }
            Ok(Vec::new())
        }
    }
}

/// Returns why a serial number's counter may not be drawn from, by the rows of generators.
fn refused_by(generators: &[Generator], opening: &OpenPeriodRequest) -> Option<Verdict> {
    generator_of(generators, opening).filter(|_| opening.is_serial).and_then(|found| opening.refused_by(found))
}

fn generator_of<'a>(generators: &'a [Generator], opening: &OpenPeriodRequest) -> Option<&'a Generator> {
    generators.iter().find(|generator| generator.name == opening.key.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_left_are_whole_days_and_none_without_a_rate() {
        assert_eq!([0.0, 1.0, 100.0].map(|per_s| days_left(30 * 86_400 - 1, per_s)), [None, Some(29), Some(0)]);
    }
}
