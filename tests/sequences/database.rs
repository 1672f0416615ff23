//! A database in memory that executes statements on command: late, twice as slow, or without an answer.
//!
//! Its rows follow rules that are written here a second time, so that a mistake in the product's own is not repeated.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use getid_core::server::beat::{BeatAnswer, BeatRequest, Credentials, Nonce, ServerRow, ServerState};
use getid_core::server::{EndDecision, Key};
use getid_store::sql::{
    BegunPeriod, Changes, Comparison, Connection, CreateRequest, Generator, GiveBackRequest, NotedRow,
    OpenPeriodRequest, Reservation, Reservations, ReserveRequest, RowChange, RowPage, RowState, SequenceRow,
    SeriesBounds, ServerBeat, Store, StoreError, StoreFuture, StoreInfo, TableKind, Verdict,
};
use tokio::time::{Instant, sleep};

use crate::support::Random;

/// Frequency of faults, in a thousand statements.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Replies that are lost after the commit.
    pub(crate) lost_after: u32,
    /// Connections that end before anything was done.
    pub(crate) lost_before: u32,
    /// Statements that the database refuses: a deadlock, or a lock time-out.
    pub(crate) refused: u32,
    /// Statements that are done long after all callers have given up, without a reply.
    pub(crate) late: u32,
}

pub(crate) struct Database {
    state: Mutex<State>,
}

pub(crate) struct State {
    began: Instant,
    pub(crate) rows: BTreeMap<Key, SequenceRow>,
    pub(crate) generators: BTreeMap<String, Generator>,
    /// Value of `changes` at the last change of each row.
    changed: BTreeMap<Key, u64>,
    changes: u64,
    pub(crate) uuid: String,
    servers: BTreeMap<Nonce, ServerRow>,
    /// Number of the instance, which grows with each failover.
    instance: u64,
    pub(crate) faults: Faults,
    pub(crate) latency: Duration,
    /// Whether connections are refused, and statements end.
    pub(crate) is_down: bool,
    /// Statements of these sequences are refused.
    pub(crate) locked: Vec<Key>,
    /// Whether no statement is answered, until this is false again.
    pub(crate) is_stopped: bool,
    /// Makes the answer to the next creation be lost, after it was done (`true`) or before.
    pub(crate) creations_lost: Option<bool>,
    /// Pause after a drop with which the last row was to be created.
    pub(crate) fresh_after_ms: Option<i64>,
    pub(crate) statements: u64,
    pub(crate) reservations: u64,
    random: Random,
}

impl Database {
    pub(crate) fn new(seed: u64) -> Arc<Database> {
        let state = State {
            began: Instant::now(),
            rows: BTreeMap::new(),
            generators: BTreeMap::new(),
            changed: BTreeMap::new(),
            changes: 0,
            uuid: format!("uuid-{seed}"),
            servers: BTreeMap::new(),
            instance: 1,
            faults: Faults::default(),
            latency: Duration::from_millis(2),
            is_down: false,
            locked: Vec::new(),
            is_stopped: false,
            creations_lost: None,
            fresh_after_ms: None,
            statements: 0,
            reservations: 0,
            random: Random(seed),
        };
        Arc::new(Database { state: Mutex::new(state) })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test has panicked")
    }

    pub(crate) fn store(self: &Arc<Self>, is_shared: bool) -> Box<dyn Store> {
        Box::new(SimStore { database: Arc::clone(self), is_shared, table: TableKind::Native })
    }

    /// Creates a row directly, without a statement.
    pub(crate) fn put(&self, name: &str, words: &[&str]) {
        let spec = getid_core::server::Spec::default().with(words).expect("options");
        let key = Key::new(name).expect("a name");
        let mut state = self.state();
        state
            .create(&CreateRequest {
                key,
                spec,
                above_dropped: false,
                fresh_after_ms: None,
                floor: 0,
                values: 0,
                rows_max: 0,
                server: None,
            })
            .expect("a new row");
    }

    pub(crate) fn next(&self, name: &str) -> i64 {
        self.state().rows[&Key::new(name).expect("a name")].next
    }
}

/// A replica's copy of a database.
#[derive(Clone)]
pub(crate) struct Replica {
    rows: BTreeMap<Key, SequenceRow>,
    generators: BTreeMap<String, Generator>,
    changed: BTreeMap<Key, u64>,
    changes: u64,
    servers: BTreeMap<Nonce, ServerRow>,
}

impl State {
    /// Returns a replica of the present state.
    pub(crate) fn replica(&self) -> Replica {
        Replica {
            rows: self.rows.clone(),
            generators: self.generators.clone(),
            changed: self.changed.clone(),
            changes: self.changes,
            servers: self.servers.clone(),
        }
    }

    /// Fails the database over to a replica: later writes are lost.
    pub(crate) fn fail_over(&mut self, to: &Replica) {
        self.restore(to);
        self.instance += 1;
    }

    /// Replaces the database by a copy, in the same process.
    pub(crate) fn restore(&mut self, from: &Replica) {
        let Replica { rows, generators, changed, changes, servers } = from.clone();
        (self.rows, self.generators) = (rows, generators);
        (self.changed, self.changes, self.servers) = (changed, changes, servers);
    }

    /// Returns the servers that have a row, and their states.
    pub(crate) fn servers(&self) -> Vec<(Nonce, ServerState)> {
        let servers = self.servers.values().filter(|row| row.nonce != Nonce::ROUNDS);
        servers.map(|row| (row.nonce, row.state)).collect()
    }

    fn beat(&mut self, ask: &BeatRequest) -> BeatAnswer {
        let found: Vec<ServerRow> = ask.locks().iter().filter_map(|nonce| self.servers.get(nonce)).cloned().collect();
        let applied = ask.apply(&found);
        self.servers.extend(applied.rows.into_iter().map(|row| (row.nonce, row)));
        BeatAnswer {
            is_done: applied.is_done,
            round: self.servers.get(&Nonce::ROUNDS).map_or(0, |row| row.beat),
            rows: self
                .servers
                .values()
                .filter(|row| row.nonce != Nonce::ROUNDS)
                .filter(|row| {
                    let is_present = row.state.is_live() || row.state == ServerState::Returning;
                    ask.reads_all || is_present || row.nonce == ask.nonce
                })
                .cloned()
                .collect(),
            instance: self.instance.to_string(),
        }
    }

    /// Returns a server's new beat, 1 more than before; `None`: its row does not allow it.
    fn own_beat(&mut self, server: Credentials, is_right: fn(ServerState) -> bool) -> Option<u64> {
        let own = self.servers.get_mut(&server.nonce)?;
        let may = own.life == server.life && own.beat >= server.at_least && is_right(own.state);
        may.then(|| {
            own.beat += 1;
            own.beat
        })
    }

    fn reserve_as(&mut self, server: Option<Credentials>, asks: &[ReserveRequest]) -> Result<Reservations, StoreError> {
        let server = self.beaten(server)?;
        Ok(Reservations { server, each: asks.iter().map(|ask| self.reserve(ask)).collect() })
    }

    /// Adds 1 to the beat of a server that reserves.
    fn beaten(&mut self, server: Option<Credentials>) -> Result<Option<ServerBeat>, StoreError> {
        let Some(server) = server else { return Ok(None) };
        let beat = self.own_beat(server, ServerState::is_live).ok_or_else(not_allowed)?;
        Ok(Some(ServerBeat { beat, instance: self.instance.to_string() }))
    }

    fn create_and_reserve(&mut self, new: &CreateRequest) -> Result<Reservation, Verdict> {
        let row = self.create(new)?;
        if new.values == 0 {
            return Ok(Reservation::empty(row));
        }
        self.reserve(&ReserveRequest { key: new.key.clone(), values: new.values, floor: 0 })
    }

    fn compare(&mut self, server: Credentials, notes: &[NotedRow]) -> Option<Comparison> {
        let beat = self.own_beat(server, |state| state.is_live() || state == ServerState::Returning)?;
        let mut raised = 0;
        for note in notes {
            if !self.rows.contains_key(&note.key) {
                let row = new_row(&note.key, getid_core::server::Spec::default(), note.next);
                self.rows.insert(note.key.clone(), SequenceRow { state: RowState::WentBack, ..row });
                raised += 1;
            }
            if let Some(row) = self.rows.get_mut(&note.key)
                && row.next < note.next
                && !note.is_older_than(row.generation, row.created_unix_ms)
            {
                row.next = note.next;
                row.version += 1;
                raised += 1;
            }
        }
        Some(Comparison { beat, raised })
    }

    /// Returns the time since the database began, which is its Unix time.
    fn unix_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).expect("a short life")
    }

    fn touch(&mut self, key: &Key) {
        self.changes += 1;
        self.changed.insert(key.clone(), self.changes);
    }

    fn reserve(&mut self, ask: &ReserveRequest) -> Result<Reservation, Verdict> {
        self.reservations += 1;
        let now_unix_ms = self.unix_ms();
        let row = self.rows.get_mut(&ask.key).ok_or(Verdict::NoSuch)?;
        refused(row)?;
        if row.ends_unix_ms > 0 && row.ends_unix_ms <= now_unix_ms {
            return Err(Verdict::Ended { unix_ms: row.ends_unix_ms });
        }
        let (found_next, increment) = (row.next, i64::from(row.spec.increment));
        let first = row.spec.next_from(row.next.max(ask.floor));
        let mut last = first - increment;
        for _ in 0..ask.values {
            if last + increment > row.spec.max {
                break;
            }
            last += increment;
        }
        if last >= first {
            row.next = last + increment;
            row.version += 1;
        }
        Ok(Reservation { first, last, found_next, row: row.clone() })
    }

    /// Generators never change their reset here.
    fn open_period(&mut self, ask: &OpenPeriodRequest) -> Result<Generator, Verdict> {
        let (name, period) = (ask.key.name().to_owned(), ask.key.period());
        let mut generator = self.generators.get(&name).cloned().unwrap_or_else(|| Generator {
            name: name.clone(),
            declaration: ask.declaration.clone(),
            reset: ask.reset.word().to_owned(),
            ..Generator::default()
        });
        if generator.declaration != ask.declaration && !ask.redeclares {
            let (stored, asked) = (generator.declaration, ask.declaration.clone());
            return Err(Verdict::Declared { stored, configured: asked });
        }
        if *generator.newest > *period {
            return Err(Verdict::Newer { period: generator.newest });
        }
        let is_of_key = |key: &Key| (key.name(), key.series()) == (ask.key.name(), ask.key.series());
        if !ask.key.series().is_empty() && !self.rows.keys().any(is_of_key) {
            let SeriesBounds { max, may_begin } = ask.series.unwrap_or_default();
            if !may_begin {
                return Err(Verdict::NoSeries);
            }
            if generator.keys >= max {
                return Err(Verdict::TooManySeries { max });
            }
            generator.keys += 1;
        }
        if !self.rows.contains_key(&ask.key) {
            if !ask.may_begin {
                return Err(Verdict::NoSuch);
            }
            let row = new_row(&ask.key, ask.spec, ask.spec.next_from(ask.spec.start.max(ask.floor)));
            self.rows.insert(ask.key.clone(), row);
        }
        generator.declaration.clone_from(&ask.declaration);
        if ask.has_begun {
            period.clone_into(&mut generator.newest);
        }
        self.generators.insert(name, generator.clone());
        Ok(generator)
    }

    fn give_back(&mut self, end: &GiveBackRequest) -> bool {
        match self.rows.get_mut(&end.key) {
            Some(row) if row.version == end.version && row.state == RowState::Live && end.next < row.next => {
                row.next = end.next;
                row.version += 1;
                true
            }
            _ => false,
        }
    }

    fn create(&mut self, new: &CreateRequest) -> Result<SequenceRow, Verdict> {
        self.fresh_after_ms = new.fresh_after_ms;
        let mut row = new_row(&new.key, new.spec, new.spec.next_from(new.spec.start.max(new.floor)));
        if let Some(old) = self.rows.get(&new.key) {
            if old.state != RowState::Dropped {
                return Err(Verdict::Exists(Box::new(old.clone())));
            }
            if !new.above_dropped {
                return Err(Verdict::Dropped { last: old.next - i64::from(old.spec.increment) });
            }
            row.next = new.spec.next_from(old.next.max(new.floor));
            row.generation = old.generation + 1;
            row.version = old.version + 1;
        }
        let live = || self.rows.values().filter(|row| row.state != RowState::Dropped).count() as u64;
        if new.rows_max > 0 && live() >= new.rows_max {
            return Err(Verdict::TooMany { max: new.rows_max });
        }
        self.rows.insert(new.key.clone(), row.clone());
        self.touch(&new.key);
        Ok(row)
    }

    fn change(&mut self, key: &Key, change: &RowChange) -> Result<SequenceRow, Verdict> {
        let now_unix_ms = self.unix_ms();
        let row = self.rows.get_mut(key).ok_or(Verdict::NoSuch)?;
        if row.state == RowState::Dropped {
            return Err(Verdict::Dropped { last: row.next - i64::from(row.spec.increment) });
        }
        match change {
            RowChange::Raise { settles: None, .. } if row.ends_unix_ms > 0 && row.ends_unix_ms <= now_unix_ms => {
                return Err(Verdict::Ended { unix_ms: row.ends_unix_ms });
            }
            RowChange::Raise { last, settles } => {
                let noted = settles.filter(|_| row.state == RowState::WentBack);
                let next = row.spec.next_from(row.next.max(last + 1).max(noted.unwrap_or(0)));
                if next == row.next && noted.is_none() {
                    return Err(Verdict::Lower { row: Box::new(row.clone()) });
                }
                row.next = next;
                if noted.is_some() {
                    row.state = RowState::Live;
                }
            }
            RowChange::Alter { spec, next_from } => {
                row.spec = *spec;
                row.next = spec.next_from(row.next.max(*next_from));
            }
            RowChange::Drop => row.state = RowState::Dropped,
            RowChange::WentBack { had_next } => {
                row.next = row.spec.next_from(row.next.max(*had_next));
                row.state = RowState::WentBack;
            }
            RowChange::HadMore { had_next } => {
                let next = row.spec.next_from(row.next.max(*had_next));
                if row.state != RowState::WentBack || next == row.next {
                    return Err(Verdict::Lower { row: Box::new(row.clone()) });
                }
                row.next = next;
            }
            RowChange::Confirm { .. } => row.state = RowState::Live,
            RowChange::Expire(change) => {
                row.ends_unix_ms = match change.decide(row.ends_unix_ms, now_unix_ms) {
                    EndDecision::Written(unix_ms) => unix_ms,
                    EndDecision::Ended(unix_ms) => return Err(Verdict::Ended { unix_ms }),
                    EndDecision::Kept => return Err(Verdict::EndKept { is_met: true }),
                    EndDecision::Unmet => return Err(Verdict::EndKept { is_met: false }),
                };
            }
            RowChange::Persist if row.ends_unix_ms == 0 => return Err(Verdict::EndKept { is_met: false }),
            RowChange::Persist => row.ends_unix_ms = 0,
        }
        row.generation += 1;
        row.version += 1;
        let row = row.clone();
        self.touch(key);
        Ok(row)
    }

    fn changes(&self, seen: Option<u64>) -> Changes {
        let Some(seen) = seen else { return Changes { upto: self.changes, rows: Vec::new() } };
        let mut rows: Vec<(u64, Key)> = self.changed.iter().map(|(key, at)| (*at, key.clone())).collect();
        rows.retain(|(at, _)| *at > seen);
        rows.sort();
        rows.truncate(1000);
        let upto = if rows.len() == 1000 { rows[999].0 } else { self.changes };
        let generation = |key: &Key| self.rows[key].generation;
        Changes { upto, rows: rows.into_iter().map(|(_, key)| (key.clone(), generation(&key))).collect() }
    }
}

fn new_row(key: &Key, spec: getid_core::server::Spec, next: i64) -> SequenceRow {
    let state = RowState::Live;
    let key = key.clone();
    let (version, generation, created_unix_ms, updated_unix_ms, ends_unix_ms) = (0, 0, 1, 1, 0);
    SequenceRow { key, next, version, generation, spec, state, created_unix_ms, updated_unix_ms, ends_unix_ms }
}

fn refused(row: &SequenceRow) -> Result<(), Verdict> {
    match row.state {
        RowState::Live => Ok(()),
        RowState::Dropped => Err(Verdict::Dropped { last: row.next - i64::from(row.spec.increment) }),
        RowState::WentBack => Err(Verdict::WentBack { next: row.next }),
        RowState::Ledger => panic!("this database keeps no ledgers"),
    }
}

fn not_allowed() -> StoreError {
    StoreError::Unknown("the server's row does not allow it".to_owned())
}

struct SimStore {
    database: Arc<Database>,
    is_shared: bool,
    table: TableKind,
}

impl Store for SimStore {
    fn shown(&self) -> &'static str {
        "sim://database"
    }

    fn table(&self) -> TableKind {
        self.table
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn connections_max(&self) -> usize {
        if self.is_shared { 2 } else { 1 }
    }

    fn schema(&self) -> String {
        String::new()
    }

    fn connect(&self) -> StoreFuture<'_, Box<dyn Connection>> {
        let database = Arc::clone(&self.database);
        Box::pin(async move {
            let latency = database.state().latency;
            sleep(latency).await;
            while database.state().is_stopped {
                sleep(Duration::from_millis(10)).await;
            }
            let state = database.state();
            if state.is_down {
                return Err(StoreError::Refused("connection refused".to_owned()));
            }
            let (product, uuid) = ("Sim 1".to_owned(), state.uuid.clone());
            let about = StoreInfo { product, uuid, unix_ms: state.unix_ms(), ..StoreInfo::default() };
            drop(state);
            Ok(Box::new(SimConnection { database, about }) as Box<dyn Connection>)
        })
    }
}

struct SimConnection {
    database: Arc<Database>,
    about: StoreInfo,
}

enum Fate {
    Done,
    LostBefore,
    LostAfter,
    Refused,
    Late,
}

impl SimConnection {
    /// Draws the course of a statement, and its delays before and after it is done.
    fn draw(&self) -> (Fate, Duration, Duration) {
        let mut state = self.database.state();
        state.statements += 1;
        let Faults { lost_after, lost_before, refused, late } = state.faults;
        let mut drawn = u32::try_from(state.random.below(1000)).expect("small");
        let mut is = |of_a_thousand: u32| {
            let hit = drawn < of_a_thousand;
            drawn = if hit { u32::MAX } else { drawn - of_a_thousand };
            hit
        };
        let fate = if state.is_down || is(lost_before) {
            Fate::LostBefore
        } else if is(lost_after) {
            Fate::LostAfter
        } else if is(refused) {
            Fate::Refused
        } else if is(late) {
            Fate::Late
        } else {
            Fate::Done
        };
        let latency = state.latency;
        let jitter_us = state.random.below(u64::try_from(latency.as_micros() / 4).expect("short").max(1));
        let late_ms = if matches!(fate, Fate::Late) { 1_900 + state.random.below(6_000) } else { 0 };
        (fate, latency / 2 + Duration::from_millis(late_ms), latency / 2 + Duration::from_micros(jitter_us))
    }

    /// Executes one transaction, whose course is drawn first.
    async fn transact<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, StoreError> {
        let (fate, before, after) = self.draw();
        let instance = self.database.state().instance;
        sleep(before).await;
        while self.database.state().is_stopped {
            sleep(Duration::from_millis(10)).await;
        }
        let unknown = || StoreError::Unknown("connection reset by peer".to_owned());
        // A statement sent to one instance is not done by the one that replaces it.
        if self.database.state().instance != instance {
            return Err(unknown());
        }
        let done = match fate {
            Fate::LostBefore => return Err(unknown()),
            Fate::Refused => return Err(StoreError::Refused("deadlock found".to_owned())),
            Fate::Done | Fate::Late | Fate::LostAfter => work(&mut self.database.state()),
        };
        sleep(after).await;
        if matches!(fate, Fate::LostAfter) || self.database.state().is_down { Err(unknown()) } else { Ok(done) }
    }
}

impl SimConnection {
    /// Executes a statement whose only fault is a database that is down.
    async fn quietly<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, StoreError> {
        let (latency, instance) = {
            let state = self.database.state();
            (state.latency, state.instance)
        };
        sleep(latency).await;
        while self.database.state().is_stopped {
            sleep(Duration::from_millis(10)).await;
        }
        let mut state = self.database.state();
        if state.is_down || state.instance != instance {
            Err(StoreError::Unknown("broken pipe".to_owned()))
        } else {
            Ok(work(&mut state))
        }
    }
}

impl Connection for SimConnection {
    fn info(&self) -> &StoreInfo {
        &self.about
    }

    fn reserve_as<'a>(
        &'a mut self,
        server: Option<Credentials>,
        asks: &'a [ReserveRequest],
    ) -> StoreFuture<'a, Reservations> {
        Box::pin(async move {
            let is_locked = {
                let state = self.database.state();
                asks.iter().any(|ask| state.locked.contains(&ask.key))
            };
            if is_locked {
                sleep(Duration::from_secs(1)).await;
                return Err(StoreError::Refused("lock wait timeout exceeded".to_owned()));
            }
            self.transact(|state| state.reserve_as(server, asks)).await?
        })
    }

    fn beat<'a>(&'a mut self, ask: &'a BeatRequest) -> StoreFuture<'a, BeatAnswer> {
        Box::pin(self.quietly(|state| state.beat(ask)))
    }

    fn compare<'a>(&'a mut self, server: Credentials, notes: &'a [NotedRow]) -> StoreFuture<'a, Option<Comparison>> {
        Box::pin(self.quietly(move |state| state.compare(server, notes)))
    }

    fn give_back<'a>(
        &'a mut self,
        server: Option<Credentials>,
        ends: &'a [GiveBackRequest],
    ) -> StoreFuture<'a, Vec<bool>> {
        Box::pin(self.transact(move |state| {
            let may = server.is_none_or(|server| {
                let own = state.servers.get(&server.nonce);
                own.is_some_and(|own| own.life == server.life && own.beat >= server.at_least && own.state.is_live())
            });
            ends.iter().map(|end| may && state.give_back(end)).collect()
        }))
    }

    fn create_all<'a>(&'a mut self, new: &'a [CreateRequest]) -> StoreFuture<'a, Reservations> {
        Box::pin(async move {
            let server = new.first().and_then(|new| new.server);
            let lost = self.database.state().creations_lost.take();
            if lost != Some(false) {
                let created = self
                    .transact(|state| {
                        let server = state.beaten(server)?;
                        let each = new.iter().map(|new| state.create_and_reserve(new)).collect();
                        Ok::<_, StoreError>(Reservations { server, each })
                    })
                    .await??;
                if lost.is_none() {
                    return Ok(created);
                }
            }
            Err(StoreError::Unknown("connection reset by peer".to_owned()))
        })
    }

    fn change<'a>(&'a mut self, key: &'a Key, change: &'a RowChange) -> StoreFuture<'a, Result<SequenceRow, Verdict>> {
        Box::pin(self.transact(|state| state.change(key, change)))
    }

    fn row<'a>(&'a mut self, key: &'a Key) -> StoreFuture<'a, Option<SequenceRow>> {
        Box::pin(self.transact(|state| state.rows.get(key).cloned()))
    }

    fn list<'a>(&'a mut self, after: &'a str, limit: u32, _periods: bool) -> StoreFuture<'a, RowPage> {
        Box::pin(self.transact(move |state| {
            let rows = state.rows.values().filter(|row| row.key.as_str() > after && row.state != RowState::Dropped);
            let rows = rows.take(usize::try_from(limit).expect("small"));
            RowPage::new(
                limit,
                rows.map(|row| {
                    let key = [row.key.name(), row.key.series(), row.key.period()].map(str::to_owned);
                    (key, Some(Ok(row.clone())))
                }),
            )
        }))
    }

    fn count(&mut self) -> StoreFuture<'_, Option<u64>> {
        Box::pin(self.transact(|state| Some(state.rows.len() as u64)))
    }

    fn generators<'a>(&'a mut self, names: Option<&'a [String]>) -> StoreFuture<'a, Vec<Generator>> {
        Box::pin(self.quietly(move |state| {
            let is_asked = |name: &String| names.is_none_or(|names| names.contains(name));
            let found = state.generators.iter().filter(|(name, _)| is_asked(name));
            found.map(|(_, generator)| generator.clone()).collect()
        }))
    }

    fn open_period<'a>(&'a mut self, ask: &'a OpenPeriodRequest) -> StoreFuture<'a, Result<Generator, Verdict>> {
        Box::pin(async move {
            let opened = self.transact(|state| match ask.server {
                Some(server) if state.own_beat(server, ServerState::is_live).is_none() => Err(not_allowed()),
                _ => Ok(state.open_period(ask)),
            });
            opened.await?
        })
    }

    fn begin_periods<'a>(&'a mut self, begun: &'a [BegunPeriod]) -> StoreFuture<'a, ()> {
        Box::pin(self.quietly(move |state| {
            for BegunPeriod { key, declaration } in begun {
                if let Some(generator) = state.generators.get_mut(key.name())
                    && generator.declaration == *declaration
                    && *generator.newest < *key.period()
                {
                    key.period().clone_into(&mut generator.newest);
                }
            }
        }))
    }

    fn changes(&mut self, seen: Option<u64>) -> StoreFuture<'_, Changes> {
        Box::pin(self.quietly(move |state| state.changes(seen)))
    }
}
