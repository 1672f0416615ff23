//! A store with blocking calls, for tests: one call, one answer, no `await`.

use std::future::Future;
use std::path::Path;
use std::time::{Duration, Instant};

use getid_core::server::beat::{BeatAnswer, BeatRequest, Credentials};
use getid_core::server::ledger::{LedgerCounts, LedgerPage, LedgerQuery, NumberRequest};
use getid_core::server::request_key::{RequestRow, RequestScope};
use getid_core::server::{CivilDay, Key, Reset, Spec};
use getid_store::sql::{
    BegunPeriod, Changes, ClaimBatch, ClaimResult, Comparison, Connection, CreateRequest, Generator, GiveBackRequest,
    LedgerNote, NotedRow, NumberAnswers, OpenPeriodRequest, PruneRequest, PruneResult, Reservation, Reservations,
    ReserveRequest, RowChange, RowPage, SequenceRow, Store, StoreError, StoreInfo, TableKind, Verdict, open,
};
use getid_text::store_url::StoreUrl;
use tokio::runtime::Runtime;

use crate::support::backend::SqlBackend;
use crate::support::scenarios;

/// An empty database in which scenarios may run any statement.
pub(crate) trait StoreFixture: Sync {
    /// Makes it a database without tables. No client is connected.
    fn clear(&self);

    /// Returns a store in this database, as one server opens it.
    fn store(&self) -> Box<dyn Store>;

    /// Returns the address of the database. Shared stores only.
    fn url(&self) -> String {
        String::new()
    }

    /// Runs SQL statements directly, each with its semicolon, and returns the database's error text if it refuses them.
    /// No client is connected.
    fn sql(&self, statements: &str) -> Result<(), String>;
}

/// The database of a database server that scenarios share.
pub(crate) struct Shared<'a>(pub(crate) &'a dyn SqlBackend);

impl StoreFixture for Shared<'_> {
    fn clear(&self) {
        self.0.clear();
    }

    fn store(&self) -> Box<dyn Store> {
        store(&self.0.url(), TableKind::Native)
    }

    fn url(&self) -> String {
        self.0.url()
    }

    fn sql(&self, statements: &str) -> Result<(), String> {
        self.0.edit(statements)
    }
}

pub(crate) fn store(url: &str, table: TableKind) -> Box<dyn Store> {
    open(&StoreUrl::parse(url).unwrap(), table, Path::new("."), 0).unwrap()
}

/// Connects to getid's own tables.
#[track_caller]
pub(crate) fn db(url: &str) -> Db {
    Db::opened(&*store(url, TableKind::Native))
}

/// Returns the error of opening a store, which must not contain a password.
#[track_caller]
pub(crate) fn refusal(url: &str, table: TableKind) -> String {
    let error = match Db::of(&*store(url, table)) {
        Ok(_) => panic!("{url} is opened"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!error.contains("secret"), "{error}");
    error
}

/// Asserts that opening the store fails with an error that contains these words.
#[track_caller]
pub(crate) fn assert_refused(url: &str, expected: &[&str]) {
    let message = refusal(url, TableKind::Native);
    for expected in expected {
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

/// The longest time of a statement before its test fails. It is not a measure of speed: a disk may be busy.
const DEADLINE: Duration = Duration::from_mins(1);

/// A connection with its own runtime.
pub(crate) struct Db {
    runtime: Runtime,
    connection: Option<Box<dyn Connection>>,
}

impl Db {
    #[track_caller]
    pub(crate) fn open(place: &dyn StoreFixture) -> Db {
        Db::opened(&*place.store())
    }

    #[track_caller]
    pub(crate) fn opened(store: &dyn Store) -> Db {
        answered(|| Db::of(store))
    }

    pub(crate) fn of(store: &dyn Store) -> Result<Db, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connection = runtime.block_on(in_time(store.connect()))?;
        Ok(Db { runtime, connection: Some(connection) })
    }

    /// Opens a second connection; `None` for a file, which has one.
    #[track_caller]
    pub(crate) fn open_second(place: &dyn StoreFixture) -> Option<Db> {
        let store = place.store();
        store.is_shared().then(|| Db::opened(&*store))
    }

    pub(crate) fn find_requests(&mut self, scopes: &[RequestScope]) -> Vec<Option<RequestRow>> {
        let connection = self.connection.as_mut().unwrap();
        self.runtime.block_on(in_time(connection.find_requests(scopes))).unwrap()
    }

    pub(crate) fn claim_requests(
        &mut self,
        server: Option<Credentials>,
        ask: &ClaimBatch,
    ) -> Result<Vec<ClaimResult>, StoreError> {
        let connection = self.connection.as_mut().unwrap();
        self.runtime.block_on(in_time(connection.claim_requests(server, ask)))
    }

    pub(crate) fn remove_requests(&mut self, server_unix_ms: i64) -> u64 {
        let connection = self.connection.as_mut().unwrap();
        self.runtime.block_on(in_time(connection.remove_requests(server_unix_ms))).unwrap()
    }

    pub(crate) fn count_requests(&mut self) -> Vec<(String, u64)> {
        let connection = self.connection.as_mut().unwrap();
        self.runtime.block_on(in_time(connection.count_requests())).unwrap()
    }

    pub(crate) fn info(&self) -> &StoreInfo {
        self.connection.as_ref().unwrap().info()
    }

    pub(crate) fn maximum(&mut self, table: &str, id: i64) -> Result<Result<Option<i64>, Verdict>, StoreError> {
        let connection = self.connection.as_mut().unwrap();
        self.runtime.block_on(in_time(connection.maximum(table, id)))
    }

    /// Reserves, and returns the answer or the error.
    pub(crate) fn try_reserve(
        &mut self,
        asks: &[ReserveRequest],
    ) -> Result<Vec<Result<Reservation, Verdict>>, StoreError> {
        let connection = self.connection.as_mut().unwrap();
        self.runtime.block_on(in_time(connection.reserve(asks)))
    }

    #[track_caller]
    pub(crate) fn reserve_all(&mut self, asks: &[ReserveRequest]) -> Vec<Result<Reservation, Verdict>> {
        let answers = answered(|| self.try_reserve(asks));
        assert_eq!(answers.len(), asks.len());
        answers
    }

    /// Reserves for a server, and returns the answer or the error.
    pub(crate) fn try_reserve_as(
        &mut self,
        server: Credentials,
        asks: &[ReserveRequest],
    ) -> Result<Reservations, StoreError> {
        let connection = self.connection.as_mut().unwrap();
        self.runtime.block_on(in_time(connection.reserve_as(Some(server), asks)))
    }

    #[track_caller]
    pub(crate) fn beat(&mut self, ask: &BeatRequest) -> BeatAnswer {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.beat(ask))))
    }

    #[track_caller]
    pub(crate) fn compare(&mut self, server: Credentials, notes: &[NotedRow]) -> Option<Comparison> {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.compare(server, notes))))
    }

    #[track_caller]
    pub(crate) fn reserve_of(&mut self, ask: &ReserveRequest) -> Result<Reservation, Verdict> {
        self.reserve_all(std::slice::from_ref(ask)).remove(0)
    }

    /// Reserves `values` values of a sequence.
    #[track_caller]
    pub(crate) fn reserve(&mut self, name: &str, values: u32) -> Result<Reservation, Verdict> {
        self.reserve_of(&ask(name, values))
    }

    #[track_caller]
    fn give_back_by(&mut self, server: Option<Credentials>, ends: &[GiveBackRequest]) -> Vec<bool> {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.give_back(server, ends))))
    }

    #[track_caller]
    pub(crate) fn give_back_all(&mut self, ends: &[GiveBackRequest]) -> Vec<bool> {
        self.give_back_by(None, ends)
    }

    /// Gives back all reserved values from `next` on, for a server. Returns whether the row took them.
    #[track_caller]
    pub(crate) fn give_back_as(&mut self, server: Credentials, of: &SequenceRow, next: i64) -> bool {
        self.give_back_by(Some(server), &[end_of(of, next)]).remove(0)
    }

    /// Gives back all reserved values from `next` on. Returns whether the row took them.
    #[track_caller]
    pub(crate) fn give_back(&mut self, of: &SequenceRow, next: i64) -> bool {
        self.give_back_by(None, &[end_of(of, next)]).remove(0)
    }

    pub(crate) fn try_create(&mut self, new: &CreateRequest) -> Result<Result<SequenceRow, Verdict>, StoreError> {
        let connection = self.connection.as_mut().unwrap();
        self.runtime.block_on(in_time(connection.create(new)))
    }

    pub(crate) fn backup(&mut self, to: &Path) -> Result<(), StoreError> {
        let connection = self.connection.as_mut().unwrap();
        self.runtime.block_on(in_time(connection.backup(to)))
    }

    #[track_caller]
    pub(crate) fn create_all(&mut self, new: &[CreateRequest]) -> Vec<Result<Reservation, Verdict>> {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.create_all(new)))).each
    }

    #[track_caller]
    pub(crate) fn create_of(&mut self, new: &CreateRequest) -> Result<SequenceRow, Verdict> {
        answered(|| self.try_create(new))
    }

    /// Creates a sequence with these options.
    #[track_caller]
    pub(crate) fn create(&mut self, name: &str, options: &str) -> SequenceRow {
        self.create_of(&create(name, options)).unwrap()
    }

    #[track_caller]
    pub(crate) fn change(&mut self, name: &str, change: &RowChange) -> Result<SequenceRow, Verdict> {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.change(&key(name), change))))
    }

    #[track_caller]
    pub(crate) fn raise(&mut self, name: &str, last: i64) -> Result<SequenceRow, Verdict> {
        self.change(name, &RowChange::Raise { last, settles: None })
    }

    #[track_caller]
    pub(crate) fn row(&mut self, name: &str) -> Option<SequenceRow> {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.row(&key(name)))))
    }

    /// Returns the keys of a listing as text.
    #[track_caller]
    pub(crate) fn list(&mut self, after: &str, limit: u32, periods: bool) -> Vec<String> {
        let connection = self.connection.as_mut().unwrap();
        let listed = answered(|| self.runtime.block_on(in_time(connection.list(after, limit, periods))));
        assert_eq!(listed.bad, []);
        let names: Vec<String> = listed.rows.iter().map(|row| row.key.to_string()).collect();
        if !periods {
            let page = answered(|| self.runtime.block_on(in_time(connection.names(after, limit))));
            let listed_alone: Vec<String> = page.names.iter().map(ToString::to_string).collect();
            assert_eq!((&listed_alone, page.next), (&names, listed.next), "the names alone");
        }
        names
    }

    /// Returns one page of the listing, with all rows.
    #[track_caller]
    pub(crate) fn page(&mut self, after: &str, limit: u32) -> RowPage {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.list(after, limit, false))))
    }

    #[track_caller]
    pub(crate) fn count(&mut self) -> u64 {
        let connection = self.connection.as_mut().unwrap();
        loop {
            if let Some(rows) = answered(|| self.runtime.block_on(in_time(connection.count()))) {
                return rows;
            }
        }
    }

    #[track_caller]
    pub(crate) fn changes(&mut self, seen: Option<u64>) -> Changes {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.changes(seen))))
    }

    pub(crate) fn try_open(&mut self, ask: &OpenPeriodRequest) -> Result<Result<Generator, Verdict>, StoreError> {
        let connection = self.connection.as_mut().unwrap();
        self.runtime.block_on(in_time(connection.open_period(ask)))
    }

    /// Returns the keys of a generator after a key, at most `limit`.
    #[track_caller]
    pub(crate) fn series(&mut self, name: &str, after: &str, limit: u32) -> Vec<String> {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.series(name, after, limit))))
    }

    #[track_caller]
    pub(crate) fn open_period(&mut self, ask: &OpenPeriodRequest) -> Result<Generator, Verdict> {
        answered(|| self.try_open(ask))
    }

    /// Opens a period and reserves `values` values of it.
    #[track_caller]
    pub(crate) fn reserve_in(&mut self, period: &str, values: u32) -> Result<Reservation, Verdict> {
        self.open_period(&opening(period, ""))?;
        self.reserve(period, values)
    }

    #[track_caller]
    pub(crate) fn begin_periods(&mut self, begun: &[BegunPeriod]) {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.begin_periods(begun))));
    }

    #[track_caller]
    pub(crate) fn number(&mut self, asks: &[NumberRequest], noted: &[LedgerNote]) -> NumberAnswers {
        self.number_within(asks, noted, u64::MAX)
    }

    /// As [`Db::number`], with a maximum of requests that have released their numbers.
    #[track_caller]
    pub(crate) fn number_within(
        &mut self,
        asks: &[NumberRequest],
        noted: &[LedgerNote],
        released_max: u64,
    ) -> NumberAnswers {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.number(None, asks, noted, released_max))))
    }

    #[track_caller]
    pub(crate) fn compare_ledgers(&mut self, noted: &[LedgerNote]) -> usize {
        let connection = self.connection.as_mut().unwrap();
        let compared = answered(|| self.runtime.block_on(in_time(connection.compare_ledgers(None, noted))));
        compared.map_or(0, |compared| compared.raised)
    }

    #[track_caller]
    pub(crate) fn ledger(&mut self, query: &LedgerQuery) -> LedgerPage {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.ledger(query))))
    }

    #[track_caller]
    pub(crate) fn ledger_counts(&mut self, name: &str) -> LedgerCounts {
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.ledger_counts(name))))
    }

    #[track_caller]
    pub(crate) fn generators(&mut self, names: Option<&[&str]>) -> Vec<Generator> {
        let names: Option<Vec<String>> = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.generators(names.as_deref()))))
    }

    #[track_caller]
    pub(crate) fn prune(&mut self, name: &str, through: &str, deletes: bool) -> Result<PruneResult, Verdict> {
        let ask = PruneRequest { name: name.to_owned(), through: CivilDay::parse(through).unwrap(), deletes };
        let connection = self.connection.as_mut().unwrap();
        answered(|| self.runtime.block_on(in_time(connection.prune(&ask))))
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // Dropping the connection may need its runtime.
        let _inside = self.runtime.enter();
        self.connection = None;
    }
}

/// Returns true if a statement was refused only because of its time limit.
pub(crate) fn is_over_time(error: &StoreError) -> bool {
    matches!(error, StoreError::Refused(message) if scenarios::is_over_time(message))
}

/// The outcome of a creation whose future may have been dropped before its answer.
pub(crate) enum Creation {
    Made,
    LetGo,
    /// An earlier creation held the lock: a database that stalls had not noticed its end yet.
    Refused,
}

/// Judges a creation by its answer, if it arrived, and by what its connection answers `after` it: an error, if the
/// transaction was cut off in the middle.
#[track_caller]
pub(crate) fn creation<T: std::fmt::Debug>(
    created: Option<Result<Result<SequenceRow, Verdict>, StoreError>>,
    after: &Result<T, StoreError>,
) -> Creation {
    match created {
        Some(Err(error)) if is_over_time(&error) => Creation::Refused,
        Some(created) => {
            created.unwrap().unwrap();
            assert!(after.is_ok(), "{after:?}");
            Creation::Made
        }
        None => {
            assert!(matches!(after, Err(StoreError::Unknown(_))), "{after:?}");
            Creation::LetGo
        }
    }
}

/// Repeats a statement that is refused for its time limit, and returns the first other answer.
#[track_caller]
fn answered<T>(mut ask: impl FnMut() -> Result<T, StoreError>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        match ask() {
            Err(error) if is_over_time(&error) && Instant::now() < end => {}
            answer => return answer.unwrap(),
        }
    }
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.expect("a statement hangs")
}

#[track_caller]
pub(crate) fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

fn end_of(row: &SequenceRow, next: i64) -> GiveBackRequest {
    GiveBackRequest { key: row.key.clone(), version: row.version, next }
}

/// Parses options as they are written after a name.
#[track_caller]
pub(crate) fn spec(options: &str) -> Spec {
    Spec::default().with(&options.split_whitespace().collect::<Vec<_>>()).unwrap()
}

pub(crate) fn ask(name: &str, values: u32) -> ReserveRequest {
    ReserveRequest { key: key(name), values, floor: 0 }
}

/// Returns the request by which a server opens a period, with these options for its row. The form of the period
/// determines its reset.
pub(crate) fn opening(period: &str, options: &str) -> OpenPeriodRequest {
    let key = key(period);
    let reset = Reset::of_period(key.period()).map_or(Reset::Never, |(reset, _)| reset);
    OpenPeriodRequest {
        declaration: format!("serial X{{n:6}} reset {reset}"),
        key,
        reset,
        spec: spec(options),
        floor: 0,
        may_begin: true,
        is_serial: true,
        from_unix_ms: i64::MIN,
        has_begun: true,
        redeclares: false,
        restores_row: false,
        series: None,
        server: None,
    }
}

pub(crate) fn create(name: &str, options: &str) -> CreateRequest {
    CreateRequest {
        key: key(name),
        spec: spec(options),
        above_dropped: false,
        fresh_after_ms: None,
        floor: 0,
        values: 0,
        rows_max: 0,
        server: None,
    }
}

/// Returns the first and the last value.
pub(crate) fn range(reserved: &Reservation) -> (i64, i64) {
    (reserved.first, reserved.last)
}
