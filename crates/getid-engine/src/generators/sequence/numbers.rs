//! Numbers without gaps: requests that arrive together share a transaction of the store, which decides them
//! ([`getid_core::server::ledger`]).
//!
//! A number is in the store, and in the notes of this server, before its client gets it. Nothing is kept in memory but
//! the noted state of ledgers. So a request whose outcome is unknown is repeated, and gets the number that it has.
//!
//! Invariant: nothing is handed out while the store is in doubt, or other servers hold it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use getid_core::server::beat::Credentials;
use getid_core::server::ledger::{
    LedgerCounts, LedgerPage, LedgerQuery, NumberAct, NumberAnswer, NumberRefusal, NumberRequest,
};
use getid_core::server::{Key, SequenceRefusal};
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, sleep};

use super::Sequences;
use super::batcher::{BatchError, BatchLimits, Batcher};
use super::beats::{counters_of, log_marked};
use super::driver::HELD_FAILS_AFTER;
use super::error::{SequenceError, refusal_of};
use super::fetch::{FetchEndGuard, may_open};
use super::notes::RowNote;
use super::pool::{Health, StorePool};
use super::table::CounterOpening;
use getid_store::sql::{
    BegunPeriod, LedgerNote, NUMBERS_MAX, NumberAnswers, NumberVerdict, OpenPeriodRequest, StoreError, Verdict,
};
use getid_text::plural::counted;

/// Most requests that wait for a transaction: one of each client with the default `maxclients`.
const WAITING_MAX: usize = 10_000;

/// Number of counters that one transaction's time suffices to begin, however slow the store is.
const OPENINGS_MIN: usize = 8;

/// Time after which no more counters are begun with one transaction: a fraction of its deadline.
const OPENING_TIME: Duration = Duration::from_millis(500);

/// Bytes of texts of a request that count as one more request in a batch.
const BYTES_PER_COST: usize = 256;

/// Most counters whose noted numbers are kept in memory.
const NOTED_MAX: usize = 10_000;

/// Interval at which a store that other servers hold is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Time after which ledgers that could not be completed are completed again, behind the next batch.
const COMPLETE_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// Reason why a request about a number has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// The ledger does not permit it. Nothing has changed.
    Refused(NumberRefusal),
    /// The counter gives no number, or its store does not answer. Nothing has changed.
    Counter(SequenceRefusal),
    /// The stores of this server keep no ledger: a sentence with the remedy.
    Unsupported(String),
    /// Too many requests wait. Nothing has changed.
    Busy {
        /// Number of requests that wait.
        waiting: usize,
    },
    /// The request waited for the store until its deadline. Nothing has changed.
    Late {
        /// The deadline, ms.
        wait_ms: u64,
    },
    /// The outcome is unknown: the error of the store.
    Unknown(String),
}

impl NumberError {
    /// Returns the text of the error reply, without `-`. `subject` is as in [`NumberRefusal::of`].
    pub fn of(&self, name: &str, subject: &str) -> String {
        match self {
            NumberError::Refused(refusal) => refusal.of(name, subject),
            NumberError::Counter(refusal) => refusal.of(name),
            NumberError::Unsupported(what) => format!("ERR generator '{name}' cannot be gapless here: {what}"),
            NumberError::Busy { waiting } => format!(
                "BUSY {} wait for the ledger of '{name}' and others: nothing was done, try again",
                counted(*waiting as u64, "request")
            ),
            NumberError::Late { wait_ms } => format!(
                "BUSY the ledger of '{name}' had no turn for the request within {wait_ms} ms: nothing was done, try \
                 again"
            ),
            NumberError::Unknown(reason) => format!(
                "MISCONF generator '{name}': the outcome for '{subject}' is unknown. Repeat the request: if it was \
                 done, it has the same number and changes nothing. {reason}"
            ),
        }
    }
}

/// A request, and how its counter is begun.
struct NumberAsk {
    request: NumberRequest,
    counter_opening: CounterOpening,
}

type NumberResult = Result<NumberAnswer, NumberError>;

/// The waiting requests about numbers, and the noted ledgers.
pub(super) struct NumberQueue {
    batcher: Batcher<NumberAsk, NumberResult>,
    noted: Mutex<NotedLedgers>,
    /// Whether the ledgers of a store that only this server uses were completed, or are being completed.
    is_completed: AtomicBool,
}

/// What is noted of ledgers, as far as it was read.
#[derive(Default)]
struct NotedLedgers {
    /// Uuid of the store, and the number of changes of each ledger.
    ledgers: Option<(String, HashMap<String, u64>)>,
    /// First numbers that were not handed out.
    counters: HashMap<Key, i64>,
}

impl Default for NumberQueue {
    fn default() -> NumberQueue {
        let limits = BatchLimits { cost_max: NUMBERS_MAX, waiting_max: WAITING_MAX };
        NumberQueue { batcher: Batcher::new(limits), noted: Mutex::default(), is_completed: AtomicBool::new(false) }
    }
}

impl NumberQueue {
    /// Refuses the waiting requests and all later ones.
    pub(super) fn close(&self) {
        self.batcher.close();
    }

    fn noted(&self) -> MutexGuard<'_, NotedLedgers> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sequences {
    /// Decides a request about a number in the store, and waits for the answer for `sequence-wait-ms` at most. Dropping
    /// the future withdraws a request that no transaction has.
    ///
    /// # Errors
    ///
    /// [`NumberError`].
    pub async fn number(&self, request: NumberRequest, counter_opening: CounterOpening) -> NumberResult {
        self.check_ledger_stores().map_err(NumberError::Unsupported)?;
        let wait_ms = self.wait_ms();
        let deadline = Instant::now() + Duration::from_millis(wait_ms);
        let cost = 1 + (request.request.len() + request.user.len()) / BYTES_PER_COST;
        let user = request.user.clone();
        let called = self.numbers.batcher.call(&user, cost, NumberAsk { request, counter_opening }, deadline);
        called.await.unwrap_or_else(|error| {
            Err(match error {
                BatchError::Busy { waiting } => NumberError::Busy { waiting },
                BatchError::Late => NumberError::Late { wait_ms },
                BatchError::Closed => NumberError::Counter(SequenceRefusal::Closed),
                BatchError::Unknown => NumberError::Unknown(format!("The store has not answered within {wait_ms} ms")),
            })
        })
    }

    /// Returns a page of a ledger.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn ledger(self: &Arc<Self>, query: LedgerQuery) -> Result<LedgerPage, SequenceError> {
        let pool = self.ledger_pool()?;
        self.on_driver(async move {
            let page = pool.run_job(move |mut connection| {
                Box::pin(async move {
                    let page = connection.ledger(&query).await;
                    (connection, page)
                })
            });
            page.await.map_err(|error| of_read(&error))
        })
        .await
    }

    /// Returns the numbers of a generator by their states.
    ///
    /// # Errors
    ///
    /// The store fails.
    pub async fn ledger_counts(self: &Arc<Self>, name: &str) -> Result<LedgerCounts, SequenceError> {
        let (pool, name) = (self.ledger_pool()?, name.to_owned());
        self.on_driver(async move {
            let counts = pool.run_job(move |mut connection| {
                Box::pin(async move {
                    let counts = connection.ledger_counts(&name).await;
                    (connection, counts)
                })
            });
            counts.await.map_err(|error| of_read(&error))
        })
        .await
    }

    fn ledger_pool(&self) -> Result<Arc<StorePool>, SequenceError> {
        self.check_ledger_stores().map_err(SequenceError::Not)?;
        let none = || SequenceError::Refused(SequenceRefusal::Closed);
        self.pools.first().map(Arc::clone).ok_or_else(none)
    }

    /// Fails if the stores of this server keep no ledger.
    fn check_ledger_stores(&self) -> Result<(), String> {
        let [pool] = &self.pools[..] else {
            let stores = counted(self.pools.len() as u64, "sequence-store");
            return Err(format!("there are {stores}, and a ledger is in one: configure one, or omit gapless"));
        };
        if !pool.is_native() {
            return Err(
                "only getid's own tables have ledgers: configure 'sequence-table native', or omit gapless".into()
            );
        }
        let warning = pool.about().and_then(|about| about.warnings.iter().find(|_| pool.store.is_shared()).cloned());
        warning.map_or(Ok(()), |warning| {
            Err(format!("{} may lose a number that was handed out: {warning}", pool.store.shown()))
        })
    }

    /// Serves the requests about numbers over a connection of the store, until the server stops.
    pub(super) async fn serve_numbers(self: Arc<Self>, pool: Arc<StorePool>) {
        let batcher = &self.numbers.batcher;
        // Of a shared store, notes are compared before anything is reserved.
        let is_own = !pool.store.is_shared();
        loop {
            batcher.ready().await;
            if self.is_closed.load(Relaxed) {
                batcher.close();
                continue;
            }
            match self.numbers_hold(&pool) {
                Some(Some(reason)) => {
                    if let Some((asks, replies)) = batcher.next() {
                        let refused = || Err(NumberError::Counter(SequenceRefusal::Store(Arc::clone(&reason))));
                        replies.send(asks.iter().map(|_| refused()));
                    }
                    continue;
                }
                Some(None) => {
                    sleep(LOOK_EVERY).await;
                    continue;
                }
                None => {}
            }
            let Ok(slot) = pool.slot().await else { return std::future::pending().await };
            let Some((asks, replies)) = batcher.next() else { continue };
            let _running = FetchEndGuard::begin(&self);
            replies.send(self.number_batch(&pool, &slot, asks).await);
            drop(slot);
            if is_own && pool.is_up() && !self.numbers.is_completed.swap(true, Relaxed) {
                let (own, pool) = (Arc::clone(&self), Arc::clone(&pool));
                self.handle.spawn(async move {
                    if !own.complete_ledgers(&pool).await {
                        sleep(COMPLETE_AGAIN_AFTER).await;
                        own.numbers.is_completed.store(false, Relaxed);
                    }
                });
            }
        }
    }

    /// Completes the ledgers of a store that only this server uses, by its notes, page by page. A request completes the
    /// ledger of its own counter only, and counters of ended periods have none. Returns false if it failed.
    async fn complete_ledgers(&self, pool: &Arc<StorePool>) -> bool {
        let uuid = pool.about().map(|about| about.uuid.clone()).unwrap_or_default();
        let (mut after, mut changed) = (String::new(), 0);
        let Some(ledgers) = self.notes.ledgers(&uuid).await else { return false };
        while let Some(page) = self.notes.rows_after(&uuid, &after).await {
            let counters = counters_of(&ledgers, &page.rows);
            if !counters.is_empty() {
                let compared = pool.run_job(move |mut connection| {
                    Box::pin(async move {
                        let compared = connection.compare_ledgers(None, &counters).await;
                        (connection, compared)
                    })
                });
                match compared.await {
                    Ok(compared) => changed += compared.map_or(0, |compared| compared.raised),
                    Err(error) => {
                        tracing::warn!("ledgers of {} were not compared with the notes: {error}", pool.store.shown());
                        return false;
                    }
                }
            }
            let Some(last) = page.last else { break };
            after = last;
        }
        log_marked(pool, changed);
        true
    }

    /// Returns `None` if numbers can be handed out; else the reason for which requests are refused, if they do not wait
    /// any longer.
    #[expect(clippy::option_option, reason = "requests may wait for a moment, or are refused with a reason")]
    fn numbers_hold(&self, pool: &StorePool) -> Option<Option<Arc<str>>> {
        match pool.health() {
            Health::Opening => Some(None),
            Health::Down { reason, .. } => Some(Some(reason)),
            Health::Up { .. } if pool.held().is_some() => {
                Some(pool.held().filter(|_| pool.held_for() >= HELD_FAILS_AFTER))
            }
            Health::Up { .. } if !self.confirmed.is_store_good(pool.index, self.now_ms()) => Some(None),
            Health::Up { .. } => None,
        }
    }

    /// Decides a batch. Counters that have no row yet are begun, and their requests decided again.
    async fn number_batch(
        &self,
        pool: &Arc<StorePool>,
        slot: &SemaphorePermit<'_>,
        asks: Vec<NumberAsk>,
    ) -> Vec<NumberResult> {
        // What a store is, is known once it has answered.
        if let Err(what) = self.check_ledger_stores() {
            return vec![Err(NumberError::Unsupported(what)); asks.len()];
        }
        let mut results: Vec<Option<NumberResult>> = vec![None; asks.len()];
        let requests: Vec<NumberRequest> = asks.iter().map(|ask| ask.request.clone()).collect();
        let mut left: Vec<usize> = (0..asks.len()).collect();
        for is_again in [false, true] {
            let of_left: Vec<NumberRequest> = left.iter().map(|at| requests[*at].clone()).collect();
            let answers = self.decide_numbers(pool, slot, of_left).await;
            let mut unopened: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
            for (at, answer) in left.into_iter().zip(answers) {
                results[at] = Some(match answer {
                    Ok(answer) => Ok(answer),
                    Err(DecideError::Verdict(NumberVerdict::Row(verdict))) if !is_again && opens(pool, &verdict) => {
                        unopened.entry(requests[at].key.clone()).or_default().push(at);
                        Err(of_verdict(verdict))
                    }
                    Err(DecideError::Verdict(NumberVerdict::Row(verdict))) => Err(of_verdict(verdict)),
                    Err(DecideError::Verdict(NumberVerdict::Refused(refusal))) => Err(NumberError::Refused(refusal)),
                    Err(DecideError::Store(error)) => Err(of_store(error)),
                });
            }
            left = self.open_counters(pool, slot, &asks, unopened, &mut results).await;
            if left.is_empty() {
                break;
            }
        }
        let none = || Err(NumberError::Unknown(format!("{}: no answer", pool.store.shown())));
        if results.iter().any(|result| matches!(result, Some(Ok(_)))) && !self.has_given.load(Relaxed) {
            self.note_first_value();
        }
        results.into_iter().map(|result| result.unwrap_or_else(none)).collect()
    }

    /// Decides requests in one transaction. If it is refused as a whole, each is decided by itself, since a row of one
    /// may be the reason.
    async fn decide_numbers(
        &self,
        pool: &Arc<StorePool>,
        slot: &SemaphorePermit<'_>,
        requests: Vec<NumberRequest>,
    ) -> Vec<Result<NumberAnswer, DecideError>> {
        let count = requests.len();
        match self.try_decide(pool, slot, requests.clone()).await {
            Ok(answers) => answers.each.into_iter().map(|answer| answer.map_err(DecideError::Verdict)).collect(),
            Err(error @ StoreError::Refused(_)) if count > 1 && pool.is_up() => {
                let mut each = Vec::with_capacity(count);
                for request in requests {
                    match self.try_decide(pool, slot, vec![request]).await {
                        Ok(answers) => {
                            each.extend(answers.each.into_iter().map(|answer| answer.map_err(DecideError::Verdict)));
                        }
                        // The others would fail in the same way.
                        Err(again) if again == error && each.is_empty() => break,
                        Err(again) => each.push(Err(DecideError::Store(again))),
                    }
                }
                each.resize(count, Err(DecideError::Store(error)));
                each
            }
            Err(error) => vec![Err(DecideError::Store(error)); count],
        }
    }

    async fn try_decide(
        &self,
        pool: &Arc<StorePool>,
        slot: &SemaphorePermit<'_>,
        requests: Vec<NumberRequest>,
    ) -> Result<NumberAnswers, StoreError> {
        let server = pool.credentials()?;
        let uuid = pool.about().map(|about| about.uuid.clone()).unwrap_or_default();
        let noted = self.noted_of(&uuid, &requests).await;
        let released_max = self.settings().requests_max;
        let answers = pool
            .run(slot, move |mut connection| {
                Box::pin(async move {
                    let answers = connection.number(server, &requests, &noted, released_max).await;
                    (connection, answers)
                })
            })
            .await?;
        // A file has its uuid once a statement has made it.
        let uuid = pool.about().map(|about| about.uuid.clone()).unwrap_or_default();
        self.note_numbers(pool, &uuid, &answers).await;
        if !self.take_beat(pool, answers.server.as_ref()) {
            return Err(StoreError::Unknown(format!(
                "{}: a connection broke, or another instance of the database answers",
                pool.store.shown()
            )));
        }
        Ok(answers)
    }

    /// Returns what is noted of the ledgers of some requests.
    async fn noted_of(&self, uuid: &str, requests: &[NumberRequest]) -> Vec<LedgerNote> {
        let is_read = self.numbers.noted().ledgers.as_ref().is_some_and(|(of, _)| of == uuid);
        if !is_read && let Some(ledgers) = self.notes.ledgers(uuid).await {
            let ledgers = ledgers.into_iter().map(|note| (note.name, note.changes)).collect();
            self.numbers.noted().ledgers = Some((uuid.to_owned(), ledgers));
        }
        let takes =
            requests.iter().filter(|ask| matches!(ask.act, NumberAct::Reserve { .. } | NumberAct::Raise { .. }));
        let unread: Vec<Key> = {
            let noted = self.numbers.noted();
            let mut unread: Vec<Key> =
                takes.map(|ask| ask.key.clone()).filter(|key| !noted.counters.contains_key(key)).collect();
            unread.sort();
            unread.dedup();
            unread
        };
        if !unread.is_empty() {
            let highest = self.notes.highest(unread.clone()).await;
            let mut noted = self.numbers.noted();
            if noted.counters.len() + unread.len() > NOTED_MAX {
                noted.counters.clear();
            }
            noted.counters.extend(unread.into_iter().zip(highest));
        }
        let noted = self.numbers.noted();
        let mut notes: BTreeMap<&str, LedgerNote> = BTreeMap::new();
        for ask in requests {
            let name = ask.key.name();
            let changes = noted.ledgers.as_ref().and_then(|(_, ledgers)| ledgers.get(name).copied()).unwrap_or(0);
            let note = notes.entry(name).or_insert_with(|| LedgerNote { changes, ..LedgerNote::of(name) });
            if let Some(next) = noted.counters.get(&ask.key)
                && note.counters.iter().all(|(key, _)| *key != ask.key)
            {
                note.counters.push((ask.key.clone(), *next));
            }
        }
        notes.into_values().collect()
    }

    /// Notes the result of a transaction, before its answers are used.
    async fn note_numbers(&self, pool: &StorePool, uuid: &str, answers: &NumberAnswers) {
        let changed: Vec<LedgerNote> = {
            let noted = self.numbers.noted();
            let known =
                |note: &LedgerNote| noted.ledgers.as_ref().and_then(|(_, known)| known.get(&note.name).copied());
            answers.ledgers.iter().filter(|note| known(note).unwrap_or(0) < note.changes).cloned().collect()
        };
        if changed.is_empty() && answers.counters.is_empty() {
            return;
        }
        let had = answers.counters.iter().map(|(found_next, row)| RowNote::of(row, *found_next, false)).collect();
        let own = pool.member().as_ref().map(|member| (member.nonce(), member.beat()));
        self.notes.note_ledgers(uuid, changed.clone(), had, own).await;
        let mut noted = self.numbers.noted();
        for (_, row) in &answers.counters {
            noted.counters.insert(row.key.clone(), row.next);
        }
        let (_, ledgers) = noted.ledgers.get_or_insert_with(|| (uuid.to_owned(), HashMap::new()));
        ledgers.extend(changed.into_iter().map(|note| (note.name, note.changes)));
    }

    /// Begins the counters of requests. Returns the requests that are decided again.
    async fn open_counters(
        &self,
        pool: &Arc<StorePool>,
        slot: &SemaphorePermit<'_>,
        asks: &[NumberAsk],
        unopened: BTreeMap<Key, Vec<usize>>,
        results: &mut [Option<NumberResult>],
    ) -> Vec<usize> {
        let (mut again, began) = (Vec::new(), Instant::now());
        for (nth, (key, of_key)) in unopened.into_iter().enumerate() {
            let Some(counter_opening) = of_key.first().and_then(|at| asks.get(*at)).map(|ask| &ask.counter_opening)
            else {
                continue;
            };
            let opened = if nth < OPENINGS_MIN || began.elapsed() < OPENING_TIME {
                self.open_counter(pool, slot, &key, counter_opening, false).await
            } else {
                Err(NumberError::Counter(SequenceRefusal::Store(format!("{nth} other periods are begun first").into())))
            };
            let Err(error) = opened else {
                again.extend(of_key);
                continue;
            };
            // An operator chooses where a counter continues whose row is lost.
            let may_be_lost =
                matches!(error, NumberError::Counter(SequenceRefusal::Lost { .. } | SequenceRefusal::BadRow(_)));
            let (raises, others): (Vec<usize>, Vec<usize>) = of_key
                .into_iter()
                .partition(|at| may_be_lost && matches!(asks[*at].request.act, NumberAct::Raise { .. }));
            for at in others {
                results[at] = Some(Err(error.clone()));
            }
            if raises.is_empty() {
                continue;
            }
            match self.open_counter(pool, slot, &key, counter_opening, true).await {
                Ok(()) => again.extend(raises),
                Err(error) => raises.into_iter().for_each(|at| results[at] = Some(Err(error.clone()))),
            }
        }
        again.sort_unstable();
        again
    }

    /// Begins a counter, or finds its row. `restores_row`: a missing row is created although the counter has begun.
    async fn open_counter(
        &self,
        pool: &Arc<StorePool>,
        slot: &SemaphorePermit<'_>,
        key: &Key,
        counter_opening: &CounterOpening,
        restores_row: bool,
    ) -> Result<(), NumberError> {
        let server: Option<Credentials> = pool.credentials().map_err(of_store)?;
        let is_begun = self.notes.begun(vec![key.clone()]).await == [true];
        let opening = self.opening(pool, server, key, counter_opening);
        let may_begin = !is_begun && may_open(pool, counter_opening);
        let (has_begun, from_unix_ms) = (opening.has_begun, opening.from_unix_ms);
        let ask = OpenPeriodRequest { may_begin, restores_row, ..opening };
        let declaration = ask.declaration.clone();
        let opened = pool.run(slot, move |mut connection| {
            Box::pin(async move {
                let opened = connection.open_period(&ask).await;
                (connection, opened)
            })
        });
        match opened.await.map_err(of_store)? {
            Ok(_) => {}
            Err(Verdict::NoSuch) if is_begun => {
                return Err(NumberError::Counter(SequenceRefusal::Lost { store: pool.store.shown().into() }));
            }
            Err(Verdict::NoSuch) => {
                let what = "its period has not begun: it is more than an hour away by the store's clock. Check the \
                            clock of this machine and that of the store's";
                return Err(NumberError::Counter(SequenceRefusal::BadRow(what.into())));
            }
            Err(verdict) => return Err(of_verdict(verdict)),
        }
        self.notes.begin(vec![key.clone()]).await;
        if !has_begun && !key.period().is_empty() {
            self.begun.push(from_unix_ms, &BegunPeriod { key: key.clone(), declaration });
        }
        Ok(())
    }
}

/// Reason why a request was not decided.
#[derive(Clone)]
enum DecideError {
    Verdict(NumberVerdict),
    Store(StoreError),
}

/// Returns true if a verdict may end once the counter's period is opened.
fn opens(pool: &StorePool, verdict: &Verdict) -> bool {
    match verdict {
        Verdict::NoSuch => true,
        // The configuration of the only server is the declaration.
        Verdict::Declared { .. } => !pool.store.is_shared(),
        _ => false,
    }
}

fn of_verdict(verdict: Verdict) -> NumberError {
    NumberError::Counter(refusal_of(verdict))
}

fn of_store(error: StoreError) -> NumberError {
    match error {
        StoreError::Refused(reason) | StoreError::Locked(reason) => {
            NumberError::Counter(SequenceRefusal::Store(reason.into()))
        }
        StoreError::Unknown(reason) => NumberError::Unknown(reason),
    }
}

/// Returns the error of a read, which changes nothing whatever its outcome.
fn of_read(error: &StoreError) -> SequenceError {
    SequenceError::Refused(SequenceRefusal::Store(error.to_string().into()))
}
