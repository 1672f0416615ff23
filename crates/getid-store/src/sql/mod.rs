//! Stores of sequences, and of records that servers share: SQLite, MySQL and PostgreSQL, behind one trait for each of
//! both.
//!
//! A [`Store`] is a database, named by its address; a [`Connection`] to it runs one statement at a time. A decision of
//! the database itself is returned as a value: done, a [`Verdict`], or [`StoreError::Refused`], after which nothing has
//! changed. Every other failure (a socket that ends, a deadline, a dropped task) is [`StoreError::Unknown`]: the
//! statement may have been done, or may still be. Its connection is not used again.
//!
//! Not here: when to reserve, how much, and for which client ([`getid_core::server::Sequence`],
//! `generators::sequence`).
//!
//! Invariant: a value belongs to at most one successful reservation, whatever fails.

#[cfg(feature = "sqlite")]
mod beats;
#[cfg(feature = "sqlite")]
mod connection;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "sqlite")]
mod native;
#[cfg(feature = "sqlite")]
mod numbers;
mod open;
mod open_error;
#[cfg(feature = "sqlite")]
mod packet;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod purpose;
#[cfg(feature = "sqlite")]
mod records;
#[cfg(feature = "sqlite")]
mod requests;
mod row_error;
#[cfg(feature = "sqlite")]
mod script;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use getid_core::server::beat::{BeatAnswer, BeatRequest, Credentials};
use getid_core::server::checks::{Fault, planted};
use getid_core::server::ledger::{LedgerCounts, LedgerPage, LedgerQuery, NumberAnswer, NumberRefusal, NumberRequest};
use getid_core::server::request_key::{ClaimVerdict, RequestRow, RequestScope};
use getid_core::server::{CivilDay, EndChange, GAPLESS, Key, Reset, Spec, VALUE_MAX, is_sequence_name};

pub use self::open::{open, open_all, open_records};
pub use self::open_error::{OpenError, same_store};
pub use self::row_error::RowError;

/// Future answer of a database.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A database that keeps sequences. Creating one opens nothing.
pub trait Store: Send + Sync {
    /// Returns the store's address, without a password.
    fn shown(&self) -> &str;

    /// Returns the kind of its tables.
    fn table(&self) -> TableKind;

    /// Returns true if other servers may use the same rows. False for a file that this process has locked.
    fn is_shared(&self) -> bool;

    /// Returns how many connections may be open at a time, 1 or 2.
    fn connections_max(&self) -> usize;

    /// Returns the SQL that creates its tables, for an administrator: one statement at a time, each with its semicolon.
    fn schema(&self) -> String;

    /// Opens a connection. Missing native tables are created if the user has the permission; else the error names the
    /// missing table and the command that prints its SQL. The caller sets the deadline.
    fn connect(&self) -> StoreFuture<'_, Box<dyn Connection>>;
}

/// An open connection, for one statement at a time. Each method is a single transaction. The caller sets the deadline,
/// and drops a connection that has returned [`StoreError::Unknown`] or whose answer it no longer awaits.
pub trait Connection: Send {
    /// Returns what was found when the connection was opened.
    fn info(&self) -> &StoreInfo;

    /// Reserves values for some sequences: one answer for each, in their order. At most [`BATCH_MAX`].
    ///
    /// With `server`, the beat of that server grows by 1 in the same transaction. If its row does not permit that, the
    /// answer is [`StoreError::Unknown`], and the reserved values must not be used.
    fn reserve_as<'a>(
        &'a mut self,
        server: Option<Credentials>,
        asks: &'a [ReserveRequest],
    ) -> StoreFuture<'a, Reservations>;

    /// Does [`Connection::reserve_as`] for a tool, or in a store of one server.
    fn reserve<'a>(&'a mut self, asks: &'a [ReserveRequest]) -> StoreFuture<'a, Vec<Result<Reservation, Verdict>>> {
        Box::pin(async move { Ok(self.reserve_as(None, asks).await?.each) })
    }

    /// Reads and writes the rows of servers, as [`BeatRequest::apply`] decides. Shared stores only.
    fn beat<'a>(&'a mut self, _ask: &'a BeatRequest) -> StoreFuture<'a, BeatAnswer> {
        Box::pin(async { Err(no_beats()) })
    }

    /// Raises rows that are lower than their notes, and adds 1 to the beat of the server in the same transaction.
    /// Returns that beat and the number of raised rows; `None` if the server's row does not permit it. At most
    /// [`BATCH_MAX`] notes. Shared stores only.
    fn compare<'a>(&'a mut self, _server: Credentials, _notes: &'a [NotedRow]) -> StoreFuture<'a, Option<Comparison>> {
        Box::pin(async { Err(no_beats()) })
    }

    /// Gives back the unused ends of reservations. Returns for each whether the row was still as this server had left
    /// it, and so accepted it. Native tables only.
    ///
    /// With `server`, nothing is given back if the row of that server does not permit it, as in
    /// [`Connection::reserve_as`]. A store that lost writes may have another row of the same version.
    fn give_back<'a>(
        &'a mut self,
        server: Option<Credentials>,
        ends: &'a [GiveBackRequest],
    ) -> StoreFuture<'a, Vec<bool>>;

    /// Creates rows in one transaction, and reserves values of each: one answer for each, in their order.
    /// [`Verdict::Exists`] if the row exists, [`Verdict::Dropped`] if it was dropped. With `above_dropped` a new row
    /// continues above the dropped one. At most [`BATCH_MAX`], all with the same `server`, whose beat grows as in
    /// [`Connection::reserve_as`].
    fn create_all<'a>(&'a mut self, new: &'a [CreateRequest]) -> StoreFuture<'a, Reservations>;

    /// Does [`Connection::create_all`] for one row.
    fn create<'a>(&'a mut self, new: &'a CreateRequest) -> StoreFuture<'a, Result<SequenceRow, Verdict>> {
        Box::pin(async move {
            let made = self.create_all(std::slice::from_ref(new)).await?.each.pop();
            let made = made.ok_or_else(|| StoreError::Unknown(format!("no answer for the row of '{}'", new.key)))?;
            Ok(made.map(|reservation| reservation.row))
        })
    }

    /// Changes an existing row, and adds 1 to its generation.
    fn change<'a>(&'a mut self, key: &'a Key, change: &'a RowChange) -> StoreFuture<'a, Result<SequenceRow, Verdict>>;

    /// Returns one row, even a dropped one.
    fn row<'a>(&'a mut self, key: &'a Key) -> StoreFuture<'a, Option<SequenceRow>>;

    /// Lists rows in the order of their names (bytes), from the cursor `after`, at most `limit`. Dropped rows are
    /// omitted, and rows of periods too unless `periods` is true.
    fn list<'a>(&'a mut self, after: &'a str, limit: u32, periods: bool) -> StoreFuture<'a, RowPage>;

    /// Lists names of rows as [`Connection::list`] does, without those of periods.
    fn names<'a>(&'a mut self, after: &'a str, limit: u32) -> StoreFuture<'a, NamePage> {
        Box::pin(async move {
            let RowPage { rows, next, .. } = self.list(after, limit, false).await?;
            Ok(NamePage { names: rows.into_iter().map(|row| row.key).collect(), next })
        })
    }

    /// Counts some more rows, without those of periods and dropped ones. Returns the number of all once they are
    /// counted: rows that are created or dropped meanwhile may be missing or included.
    fn count(&mut self) -> StoreFuture<'_, Option<u64>>;

    /// Returns the rows whose generation has changed since `seen`, the `upto` of an earlier answer. With `None` only
    /// `upto` is returned.
    fn changes(&mut self, seen: Option<u64>) -> StoreFuture<'_, Changes>;

    /// Returns rows of generators: those with these names, or all, in the order of their names, at most
    /// [`GENERATORS_MAX`]. Native tables only.
    fn generators<'a>(&'a mut self, _names: Option<&'a [String]>) -> StoreFuture<'a, Vec<Generator>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Returns the keys of a generator's series in the order of their bytes, after the key `after` (empty: from the
    /// first), at most `limit`. Native tables only.
    fn series<'a>(&'a mut self, _name: &'a str, _after: &'a str, _limit: u32) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Begins a period of a generator, or finds its row, as [`OpenPeriodRequest`] describes. Returns the generator's
    /// row. Native tables only.
    fn open_period<'a>(&'a mut self, _ask: &'a OpenPeriodRequest) -> StoreFuture<'a, Result<Generator, Verdict>> {
        Box::pin(async { Ok(Err(no_generators())) })
    }

    /// Does [`Connection::open_period`] for several counters in one transaction: one answer for each, in their order.
    /// At most [`BATCH_MAX`], none twice, all with the same `server`. Of generators whose declaration changes, only one
    /// counter.
    fn open_periods<'a>(
        &'a mut self,
        asks: &'a [OpenPeriodRequest],
    ) -> StoreFuture<'a, Vec<Result<Generator, Verdict>>> {
        Box::pin(async move {
            let mut opened = Vec::with_capacity(asks.len());
            for ask in asks {
                opened.push(self.open_period(ask).await?);
            }
            Ok(opened)
        })
    }

    /// Records periods that have begun as the newest of their generators. A row with a later period or another
    /// declaration stays unchanged. At most [`GENERATORS_MAX`]. Native tables only.
    fn begin_periods<'a>(&'a mut self, _begun: &'a [BegunPeriod]) -> StoreFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Closes the ended periods of a generator, and deletes their rows, [`PRUNED_MAX`] per call. Native tables only.
    fn prune<'a>(&'a mut self, _ask: &'a PruneRequest) -> StoreFuture<'a, Result<PruneResult, Verdict>> {
        Box::pin(async { Ok(Err(no_generators())) })
    }

    /// Returns the rows of these requests, one for each, in their order. At most [`REQUESTS_MAX`]. Native tables only.
    fn find_requests<'a>(&'a mut self, _scopes: &'a [RequestScope]) -> StoreFuture<'a, Vec<Option<RequestRow>>> {
        Box::pin(async { Err(no_requests()) })
    }

    /// Claims requests in one transaction, as [`judge_claim`](getid_core::server::request_key::judge_claim) decides:
    /// one answer for each, in their order. At most [`REQUESTS_MAX`]. Native tables only.
    ///
    /// With `server`, the beat of that server grows by 1 in the same transaction, as in [`Connection::reserve_as`].
    fn claim_requests<'a>(
        &'a mut self,
        _server: Option<Credentials>,
        _ask: &'a ClaimBatch,
    ) -> StoreFuture<'a, Vec<ClaimResult>> {
        Box::pin(async { Err(no_requests()) })
    }

    /// Removes requests that have ended, some hundreds at most, and returns their number.
    /// [`removable_before`](getid_core::server::request_key::removable_before) decides which. Native tables only.
    fn remove_requests(&mut self, _server_unix_ms: i64) -> StoreFuture<'_, u64> {
        Box::pin(async { Ok(0) })
    }

    /// Returns the names with the most requests, and the number of each, at most 1,000. Native tables only.
    fn count_requests(&mut self) -> StoreFuture<'_, Vec<(String, u64)>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Decides requests about numbers without gaps, one after the other in one transaction: one answer for each, in
    /// their order. At most [`NUMBERS_MAX`]. Native tables only.
    ///
    /// `server` is as in [`Connection::reserve_as`]. `noted` has what this server has noted of the ledgers of these
    /// generators: a ledger with fewer changes was restored, and its reserved and released numbers become unclear.
    /// `released_max` is the maximum of requests of a generator that have released their numbers.
    fn number<'a>(
        &'a mut self,
        _server: Option<Credentials>,
        asks: &'a [NumberRequest],
        _noted: &'a [LedgerNote],
        _released_max: u64,
    ) -> StoreFuture<'a, NumberAnswers> {
        Box::pin(async move {
            let each = asks.iter().map(|_| Err(NumberVerdict::Row(no_generators()))).collect();
            Ok(NumberAnswers { each, ..NumberAnswers::default() })
        })
    }

    /// Marks numbers of ledgers that have fewer changes than noted, and those below the noted counters that a ledger
    /// lacks. Adds 1 to the beat of the server in the same transaction, as [`Connection::compare`] does for rows. At
    /// most [`BATCH_MAX`] notes and counters. `server` is `None` in a store of one server. Native tables only.
    fn compare_ledgers<'a>(
        &'a mut self,
        _server: Option<Credentials>,
        _noted: &'a [LedgerNote],
    ) -> StoreFuture<'a, Option<Comparison>> {
        Box::pin(async { Ok(Some(Comparison::default())) })
    }

    /// Returns a page of a ledger, of at most 1,000 rows. A page of one period of all series may have fewer rows than
    /// its limit, or none, and a cursor nevertheless. Native tables only.
    fn ledger<'a>(&'a mut self, _query: &'a LedgerQuery) -> StoreFuture<'a, LedgerPage> {
        Box::pin(async { Ok(LedgerPage::default()) })
    }

    /// Returns the numbers of a generator by their states. Native tables only.
    fn ledger_counts<'a>(&'a mut self, _name: &'a str) -> StoreFuture<'a, LedgerCounts> {
        Box::pin(async { Ok(LedgerCounts::default()) })
    }

    /// Returns `current_max_id` of the row with this `id` in `id_generator` or a similar table, which keeps the maximum
    /// of a counter in Redis. `None` if there is no such row. The table's name has letters, digits and underscores
    /// only.
    fn maximum<'a>(&'a mut self, _table: &'a str, _id: i64) -> StoreFuture<'a, Result<Option<i64>, Verdict>> {
        Box::pin(async { Ok(Err(no_maximums())) })
    }

    /// Writes a copy of the store, as of one moment, into an empty file. Fails if that takes longer than
    /// [`BACKUP_TIME_MAX`]. For a file that only this server uses.
    fn backup<'a>(&'a mut self, _to: &'a Path) -> StoreFuture<'a, ()> {
        Box::pin(async { Err(no_backup()) })
    }

    /// Returns the tokens of Tinyid's clients, from a table `tiny_id_token` beside any of the tables of sequences: at
    /// most [`TOKENS_MAX`] plus one. `None` if there is no such table.
    fn tokens(&mut self) -> StoreFuture<'_, Option<Vec<Token>>> {
        Box::pin(async { Ok(None) })
    }
}

/// A row of `tiny_id_token`: a client with this token may request this bizType. One token may have several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The secret token.
    pub token: String,
    /// Name of a sequence.
    pub biz_type: String,
}

/// Most rows of `tiny_id_token` that are used.
pub const TOKENS_MAX: usize = 10_000;

/// Longest time of a backup: reservations wait during it.
pub const BACKUP_TIME_MAX: Duration = Duration::from_secs(1);

/// Most sequences of one [`Connection::reserve`]. MySQL takes 1 MiB or more, and its statements have 1,080 bytes for
/// each sequence, and 2 * 190 bytes that read the row: 374 KB.
pub const BATCH_MAX: usize = 256;

/// Most requests of one [`Connection::find_requests`] or [`Connection::claim_requests`].
pub const REQUESTS_MAX: usize = 256;

/// Requests to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimBatch {
    /// The new rows. Their times are those of the server's clock.
    pub rows: Vec<RequestRow>,
    /// Most rows of one generator or sequence (`request-max`).
    pub rows_max: u64,
}

/// Answer to the claim of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimResult {
    /// What the store has done.
    pub verdict: ClaimVerdict,
    /// Number of rows of the generator or sequence after it.
    pub requests: u64,
}

/// Most requests of one [`Connection::number`]. With texts of the usual lengths a packet has less than 256 KiB.
pub const NUMBERS_MAX: usize = 256;

/// State of a ledger, as a server notes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerNote {
    /// Name of the generator.
    pub name: String,
    /// Number of changes.
    pub changes: u64,
    /// Whether changes of it may be lost that no server has noted: its reserved and released numbers become unclear.
    pub is_suspect: bool,
    /// Counters of the generator, each with its noted `next`. Numbers below it that the ledger lacks become unclear.
    pub counters: Vec<(Key, i64)>,
}

impl LedgerNote {
    /// Returns the note of a ledger of which nothing was noted.
    pub fn of(name: &str) -> LedgerNote {
        LedgerNote { name: name.to_owned(), changes: 0, is_suspect: false, counters: Vec::new() }
    }
}

/// Answer to [`Connection::number`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberAnswers {
    /// State of the server, if the request named one.
    pub server: Option<ServerBeat>,
    /// One answer for each request.
    pub each: Vec<Result<NumberAnswer, NumberVerdict>>,
    /// The ledgers of the generators after the transaction.
    pub ledgers: Vec<LedgerNote>,
    /// The counters that were changed, each with its `next` before.
    pub counters: Vec<(i64, SequenceRow)>,
}

/// Reason why a request about a number was refused. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberVerdict {
    /// The ledger does not permit it.
    Refused(NumberRefusal),
    /// The row of the generator or of its counter does not permit it.
    Row(Verdict),
}

/// Kind of a store's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// getid's own tables.
    Native,
    /// Leaf's table `leaf_alloc`.
    Leaf,
    /// Tinyid's table `tiny_id_info`.
    Tinyid,
}

/// Facts found when a store is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreInfo {
    /// The database and its version, such as `MariaDB 10.11.6`.
    pub product: String,
    /// Permanent id of the store, drawn when its tables were created. For tables of Leaf and Tinyid it is derived from
    /// the address.
    pub uuid: String,
    /// Time of its clock, in Unix ms. The caller computes the distance to this machine's clock.
    pub unix_ms: i64,
    /// Settings by which a commit may be lost, each as a sentence with its remedy.
    pub warnings: Vec<String>,
}

/// A request for values of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveRequest {
    /// Key of the sequence.
    pub key: Key,
    /// Number of values, 1 to [`getid_core::server::RESERVED_MAX`]. Tables of Leaf and Tinyid may have their own rules
    /// for it.
    pub values: u32,
    /// Lowest acceptable value: the row is raised to it first. 0 accepts any value.
    pub floor: i64,
}

/// The row of a generator that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generator {
    /// Name of the generator.
    pub name: String,
    /// Words that declare it, without its name and `cache`.
    pub declaration: String,
    /// Interval after which its counter begins again: the text of a [`getid_core::server::Reset`].
    pub reset: String,
    /// Newest period that has begun, in the form of [`getid_core::server::Reset::period`]. Empty if none has, or if it
    /// has one counter for all time.
    pub newest: String,
    /// Last day (`yyyyMMdd`) whose periods are closed: they never begin again. Empty if no period is closed.
    pub closed_through: String,
    /// Number of keys of its series; 0 for a generator without series.
    pub keys: u64,
}

/// Bounds of the keys of a generator that has a series for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesBounds {
    /// Most keys of the generator (`keys-max`). [`Verdict::TooManySeries`] at that number.
    pub max: u64,
    /// Whether the first request for a key creates it. Else [`Verdict::NoSeries`].
    pub may_begin: bool,
}

impl Default for SeriesBounds {
    fn default() -> SeriesBounds {
        SeriesBounds { max: u64::MAX, may_begin: true }
    }
}

/// Request to open a period of a generator before a server draws from it.
///
/// The counter's row is created if it is missing, and the generator's row is written. Both happen under one lock, so a
/// period that [`Connection::prune`] has closed does not begin again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPeriodRequest {
    /// Key of the counter's row.
    pub key: Key,
    /// The declaration on this server, as in [`Generator::declaration`].
    pub declaration: String,
    /// Interval after which the counter begins again.
    pub reset: Reset,
    /// Options of the counter's row, if it is created.
    pub spec: Spec,
    /// Lower bound for the first value of a created row.
    pub floor: i64,
    /// Whether a missing row may be created. Else [`Verdict::NoSuch`].
    pub may_begin: bool,
    /// Whether it is a serial number. The options of its row are those of its declaration; only `SEQUENCE ALTER`
    /// changes those of a sequence.
    pub is_serial: bool,
    /// Start of the period, in Unix ms; `i64::MIN` if there is only one period.
    pub from_unix_ms: i64,
    /// Whether the period has begun by the store's clock. A server creates the row of the next one shortly before.
    pub has_begun: bool,
    /// Whether the declaration replaces another one in the generator's row. Else [`Verdict::Declared`].
    pub redeclares: bool,
    /// Bounds of the generator's keys, if it has a series for each key. Without a key such a request concerns the
    /// generator's row only.
    pub series: Option<SeriesBounds>,
    /// Whether a missing row is created although its period has begun, with the mark of [`RowState::WentBack`]: an
    /// operator then chooses where the counter continues.
    pub restores_row: bool,
    /// The requesting server, as in [`Connection::reserve_as`].
    pub server: Option<Credentials>,
}

impl Generator {
    /// Returns true if its numbers have a ledger.
    pub fn has_ledger(&self) -> bool {
        declares_ledger(&self.declaration)
    }

    /// Returns the newest period in terms of another `reset`: the one in which it began, or which begins with it.
    fn newest_as(&self, reset: Reset) -> String {
        let newest = Reset::of_period(&self.newest);
        newest.and_then(|(_, stamp)| reset.period(stamp)).unwrap_or_default()
    }

    /// Returns the last day whose periods are closed.
    fn closed_through(&self) -> Option<CivilDay> {
        CivilDay::parse(&self.closed_through)
    }
}

impl OpenPeriodRequest {
    /// Returns why the period must not be drawn from, by the row of its generator. A closed period is before the newest
    /// one, unless the interval has changed since.
    pub fn refused_by(&self, found: &Generator) -> Option<Verdict> {
        if found.declaration != self.declaration && !self.redeclares {
            let (stored, configured) = (found.declaration.clone(), self.declaration.clone());
            return Some(Verdict::Declared { stored, configured });
        }
        let (newest, period) = (found.newest_as(self.reset), self.key.period());
        if *newest > *period && !planted(Fault::EarlierPeriodOpens) {
            return Some(Verdict::Newer { period: newest });
        }
        let closed = found.closed_through().filter(|day| Reset::has_ended(period, *day))?;
        Some(Verdict::BadRow(format!(
            "its period {period} is closed, as all that ended by {closed} are, and does not begin again: set the clock \
             right"
        )))
    }
}

/// A period that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunPeriod {
    /// Key of its counter.
    pub key: Key,
    /// The declaration on the server in which it has begun, as in [`Generator::declaration`].
    pub declaration: String,
}

/// Request to remove ended periods of a generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PruneRequest {
    /// Name of the generator.
    pub name: String,
    /// Last day whose periods are removed, if they ended by its end. The newest period, and others that contain its
    /// begin or are later, stay.
    pub through: CivilDay,
    /// Whether they are closed and deleted. Else they are only counted.
    pub deletes: bool,
}

/// Result of [`Connection::prune`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneResult {
    /// Number of rows to remove, those of later calls included.
    pub rows: u64,
    /// First of their periods.
    pub first: String,
    /// Last of their periods.
    pub last: String,
    /// Number of rows that this call deleted.
    pub deleted: u64,
}

/// Most generators in one answer of [`Connection::generators`].
pub const GENERATORS_MAX: usize = 10_000;

/// Most rows that one [`Connection::prune`] deletes.
pub const PRUNED_MAX: u64 = 5_000;

/// A reservation that was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// First value.
    pub first: i64,
    /// Last value, inclusive; below `first` if the row has reached its max.
    pub last: i64,
    /// The row's `next` before the reservation.
    pub found_next: i64,
    /// The row after the reservation.
    pub row: SequenceRow,
}

/// State of the requesting server as of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBeat {
    /// The server's beat after the transaction.
    pub beat: u64,
    /// Instance of the database, as in [`BeatAnswer::instance`].
    pub instance: String,
}

impl Reservation {
    /// Creates the reservation of no values from a row.
    pub fn empty(row: SequenceRow) -> Reservation {
        Reservation { first: row.next, last: row.next - i64::from(row.spec.increment), found_next: row.next, row }
    }

    /// Returns true if it has no values.
    pub fn is_empty(&self) -> bool {
        self.last < self.first
    }
}

/// Answer to [`Connection::reserve_as`] and [`Connection::create_all`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservations {
    /// State of the server, if the request named one.
    pub server: Option<ServerBeat>,
    /// One answer for each sequence.
    pub each: Vec<Result<Reservation, Verdict>>,
}

/// A server's note of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedRow {
    /// Key of the row.
    pub key: Key,
    /// The row's `next`.
    pub next: i64,
    /// The row's generation.
    pub generation: u64,
    /// Creation time, in Unix ms by the database's clock; 0 if the table lacks it.
    pub created_unix_ms: i64,
}

impl NotedRow {
    /// Returns true if the row was dropped and created again since, by its present generation and creation time.
    pub fn is_older_than(&self, generation: u64, created_unix_ms: i64) -> bool {
        generation > self.generation && created_unix_ms != self.created_unix_ms
    }
}

/// Result of [`Connection::compare`] or [`Connection::compare_ledgers`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The server's beat after the comparison; 0 without a server.
    pub beat: u64,
    /// Number of rows that were missing or lower than their notes, or of ledgers that lacked changes or numbers.
    pub raised: usize,
}

/// Returns true if the words of a declaration give its numbers a ledger.
fn declares_ledger(declaration: &str) -> bool {
    // Other generators may have the word as a value, such as a prefix.
    let mut words = declaration.split(' ');
    words.next() == Some("serial") && words.any(|word| word == GAPLESS)
}

fn no_generators() -> Verdict {
    Verdict::Unsupported("only getid's own tables (sequence-table native) have rows of generators".to_owned())
}

fn no_requests() -> StoreError {
    StoreError::Refused(
        "REQUEST needs getid's own tables (sequence-table native): those of Leaf and Tinyid keep no requests"
            .to_owned(),
    )
}

fn no_maximums() -> Verdict {
    Verdict::Unsupported(
        "a table of maximums is adopted from a store in MySQL or PostgreSQL with 'sequence-table native'".to_owned(),
    )
}

fn no_backup() -> StoreError {
    StoreError::Refused(
        "it is kept by a database server, whose own tools make backups: mysqldump --single-transaction, pg_dump"
            .to_owned(),
    )
}

fn no_beats() -> StoreError {
    StoreError::Refused("a store of one server keeps no beats".to_owned())
}

/// The unused end of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveBackRequest {
    /// Key of the sequence.
    pub key: Key,
    /// Version of the row after the last reservation of this server.
    pub version: u64,
    /// First unused value, which becomes the row's `next`.
    pub next: i64,
}

/// A row to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRequest {
    /// Key of the row.
    pub key: Key,
    /// Options of the row.
    pub spec: Spec,
    /// Whether it may take the name of a dropped row, and continue above that.
    pub above_dropped: bool,
    /// Whether it may take such a name and begin at its start if the row was dropped at least so many ms ago. Then no
    /// server has values of it.
    pub fresh_after_ms: Option<i64>,
    /// Lower bound for the first value, because other stores or this server's notes have values of this name. 0 if none
    /// have. Ignored with `fresh_after_ms`.
    pub floor: i64,
    /// Number of values that are reserved with the creation; 0 for none.
    pub values: u32,
    /// Most rows of the store (`sequence-max`), 0 for any number. [`Verdict::TooMany`] at that number.
    pub rows_max: u64,
    /// The requesting server, as in [`Connection::reserve_as`]; `None` for a tool, or in a store of one server.
    pub server: Option<Credentials>,
}

/// A change of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// Raises the row past `last`. [`Verdict::Lower`] if it is past it already; without `settles` [`Verdict::Ended`]
    /// if it has ended.
    Raise {
        /// Last value that counts as given.
        last: i64,
        /// `Some` removes a mark of [`RowState::WentBack`], even if the row is past `last` already. A marked row is
        /// raised past this value too: the row's `next` by this server's notes, 0 without notes.
        settles: Option<i64>,
    },
    /// Changes the options. `next` becomes a value of the new options, at least `next_from` and its present value.
    Alter {
        /// The new options.
        spec: Spec,
        /// Highest `next` of all stores.
        next_from: i64,
    },
    /// Drops the sequence: it gives no more values, and a tombstone keeps its position.
    Drop,
    /// Marks a row that is lower than a server's values: it is raised past them, and gives no values until it is raised
    /// or confirmed.
    WentBack {
        /// The row's `next` in that server's memory.
        had_next: i64,
    },
    /// Raises a marked row past the values of another server, so that one confirmation suffices for all.
    /// [`Verdict::Lower`] if it is past them already, or is not marked.
    HadMore {
        /// The row's `next` in that server's memory.
        had_next: i64,
    },
    /// Removes the mark. Of a gapless generator, no other change is possible.
    Confirm {
        /// Whether the generator is declared gapless. A store that lost all rows of the generator does not know it.
        has_ledger: bool,
    },
    /// Sets the end of the row, as [`EndChange::decide`] decides by the database's clock. [`Verdict::Ended`], or
    /// [`Verdict::EndKept`] if nothing is written.
    Expire(EndChange),
    /// Removes the end. [`Verdict::EndKept`] if the row has none.
    Persist,
}

/// A row of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceRow {
    /// Key of the sequence.
    pub key: Key,
    /// First value that is not reserved.
    pub next: i64,
    /// Grows by one with each write of the row.
    pub version: u64,
    /// Grows by one with each [`RowChange`].
    pub generation: u64,
    /// Options of the sequence.
    pub spec: Spec,
    /// State of the row.
    pub state: RowState,
    /// Creation time, in Unix ms by the database's clock; 0 if unknown.
    pub created_unix_ms: i64,
    /// Time of the last change, in Unix ms by the database's clock.
    pub updated_unix_ms: i64,
    /// Time from which on the row gives no values, in Unix ms by the database's clock; 0 if it has no end.
    pub ends_unix_ms: i64,
}

impl SequenceRow {
    /// Returns the last value that counts as given; one increment below its first value if there is none.
    pub fn last(&self) -> i64 {
        let increment = i64::from(self.spec.increment);
        self.next.min(VALUE_MAX.saturating_add(increment)) - increment
    }
}

/// State of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// The row gives values.
    Live,
    /// The row was dropped.
    Dropped,
    /// The row was found lower than the values that a server had of it.
    WentBack,
    /// The row is the counter of a gapless generator: only the ledger of that moves it.
    Ledger,
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowPage {
    /// Rows that can be read.
    pub rows: Vec<SequenceRow>,
    /// Rows that cannot be read, because they were edited by hand.
    pub bad: Vec<UnreadableRow>,
    /// Cursor of the next page; `None` after the last.
    pub next: Option<String>,
}

/// A page of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamePage {
    /// Names that sequences can have.
    pub names: Vec<Key>,
    /// Cursor of the next page; `None` after the last.
    pub next: Option<String>,
}

/// A row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRow {
    /// Name of the row, which may not be a valid name of a sequence.
    pub name: String,
    /// The error in the row, and the remedy.
    pub error: String,
}

/// A row of a page with its name, series and period. The row is `None` if it is not a sequence's, and is not listed.
pub type ListedRow = ([String; 3], Option<Result<SequenceRow, RowError>>);

impl RowPage {
    /// Builds a page from every row that the database returned: a page with fewer than `limit` is the last one.
    pub fn new(limit: u32, each: impl Iterator<Item = ListedRow>) -> RowPage {
        let each: Vec<ListedRow> = each.collect();
        let last = each.last().filter(|_| each.len() >= limit as usize);
        let next = last.map(|([name, series, period], _)| RowPage::cursor_of(name, series, period));
        RowPage::with_next(next.filter(|next| !next.is_empty()), each.into_iter())
    }

    /// Builds a page from all of its rows and the cursor of the next page, `None` for the last one.
    pub fn with_next(next: Option<String>, each: impl Iterator<Item = ListedRow>) -> RowPage {
        let mut listed = RowPage { next, ..RowPage::default() };
        for ([name, ..], row) in each {
            match row {
                Some(Ok(row)) => listed.rows.push(row),
                Some(Err(bad)) => listed.bad.push(UnreadableRow { name, error: bad.to_string() }),
                None => {}
            }
        }
        listed
    }

    /// Returns the cursor that continues after a row, which may not be a valid one.
    fn cursor_of(name: &str, series: &str, period: &str) -> String {
        if !series.is_empty() || name.contains('/') {
            format!("{name}/{series}@{period}")
        } else if !period.is_empty() || name.contains('@') && !is_sequence_name(name) {
            format!("{name}@{period}")
        } else {
            name.to_owned()
        }
    }

    /// Splits a cursor, which may be any text, into name, series and period.
    pub fn cursor(after: &str) -> [&str; 3] {
        let Some((key, period)) = after.rsplit_once('@').filter(|_| !is_sequence_name(after)) else {
            return [after, "", ""];
        };
        let (name, series) = key.rsplit_once('/').unwrap_or((key, ""));
        [name, series, period]
    }
}

/// Changes in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Value of `seen` for the next call.
    pub upto: u64,
    /// Changed rows with their generations, at most 1,000. If there are more, `upto` is where the next call continues.
    pub rows: Vec<(Key, u64)>,
}

/// Reason why a completed statement changed nothing: the state of the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is no row.
    NoSuch,
    /// The row exists.
    Exists(Box<SequenceRow>),
    /// The row was dropped.
    Dropped {
        /// Last value that counts as given.
        last: i64,
    },
    /// The row has ended.
    Ended {
        /// Its end, Unix ms.
        unix_ms: i64,
    },
    /// The end of the row is as before.
    EndKept {
        /// Whether the condition of the change is met, and the end close to the requested one.
        is_met: bool,
    },
    /// The row has the mark of a store that went back.
    WentBack {
        /// First value that is not reserved.
        next: i64,
    },
    /// The change would lower the row.
    Lower {
        /// The present row.
        row: Box<SequenceRow>,
    },
    /// The store has its maximum of rows.
    TooMany {
        /// The maximum.
        max: u64,
    },
    /// The key has no series, and a request for it creates none.
    NoSeries,
    /// The generator has its maximum of keys.
    TooManySeries {
        /// The maximum.
        max: u64,
    },
    /// The generator has begun a later period than the requested one.
    Newer {
        /// The generator's newest period.
        period: String,
    },
    /// The generator's row has another declaration than the requesting server.
    Declared {
        /// Declaration in the row.
        stored: String,
        /// Declaration of the server.
        configured: String,
    },
    /// The row cannot be used, such as a step of 0 or a remainder that is not below delta. The text has the remedy.
    BadRow(String),
    /// Other writers changed the row at every attempt to reserve values. The text names the row.
    Contended(String),
    /// These tables lack the operation. The text names an alternative.
    Unsupported(String),
}

/// Reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database refused the statement, and nothing has changed. The text has its error, and the remedy if known,
    /// without passwords.
    #[error("{0}")]
    Refused(String),
    /// Another process has the file open, or an earlier statement holds its lock. Nothing has changed.
    #[error("{0}")]
    Locked(String),
    /// The result of the statement is unknown.
    #[error("{0}")]
    Unknown(String),
}

/// Reason why there is no connection to a server.
#[cfg(any(feature = "mysql", feature = "postgres"))]
struct ConnectError {
    error: StoreError,
    /// Whether no server that could refuse it has answered: the same address may work in a moment.
    is_away: bool,
}

/// Fails if a store differs from the `uuid=` of its address. `found` is empty if the database has no tables of getid.
/// Without it a server without notes cannot distinguish an empty replacement from a new store.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn check_pinned(address: &getid_text::store_url::ServerAddress, found: &str) -> Result<(), StoreError> {
    let Some(uuid) = &address.uuid else { return Ok(()) };
    if found.replace('-', "") == *uuid {
        return Ok(());
    }
    let found = if found.is_empty() { "has no tables of getid".to_owned() } else { format!("is the store {found}") };
    Err(StoreError::Refused(format!(
        "the address has uuid={uuid}, and the database '{}' {found}: restore the right one; to use this one, omit uuid= \
         or change it",
        address.database
    )))
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
impl ConnectError {
    fn refused(error: StoreError) -> ConnectError {
        ConnectError { error, is_away: false }
    }
}

#[cfg(test)]
mod tests {
    use super::{RowError, RowPage};

    #[test]
    fn a_full_page_has_another_after_it_whatever_its_rows_are() {
        let key = |name: &str| [name, "", ""].map(str::to_owned);
        let unlisted = |name: &str| (key(name), None);
        let error = || RowError::Name { name: "-".to_owned(), series: String::new(), period: String::new() };
        let bad = |name: &str| (key(name), Some(Err(error())));
        for (rows, next) in [
            (vec![bad("a"), unlisted("b")], Some("b")),
            (vec![unlisted("-"), unlisted(".")], Some(".")),
            (vec![unlisted("-")], None),
            (vec![], None),
        ] {
            let listed = RowPage::new(2, rows.into_iter());
            assert!(listed.rows.is_empty() && listed.next.as_deref() == next, "{listed:?}");
        }
    }
}
