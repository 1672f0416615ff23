//! Where sequences, and records that servers share, are kept: SQLite, MySQL and PostgreSQL behind one trait for each,
//! and what each of them says in SQL.
//!
//! A [`Store`] is a database that is named by its address; a [`Connection`] to it runs one statement at a time. What
//! the database itself has decided comes back as a value: done, or a [`Verdict`], or [`StoreError::Refused`], and then
//! nothing has changed. Whatever else happens (a socket that ends, a deadline, a task that is dropped) is
//! [`StoreError::Unknown`]: the statement may have been done, or may still be. Its connection is used no more.
//!
//! Not here: when to reserve, how much, and who gets it ([`getid_core::sequence`](getid_core), `generators::sequence`).
//!
//! Invariant: a value is inside of at most one reservation that succeeded, whatever fails.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod beats;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "sqlite")]
mod native;
mod open;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod purpose;
#[cfg(feature = "sqlite")]
mod records;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use getid_core::beat::{BeatAnswer, BeatAsk, Credentials};
use getid_core::{Key, Reset, Spec, VALUE_MAX};

pub use self::open::{open, open_all, open_records, same_store};

/// What a database answers, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A database that keeps sequences. Making one opens nothing.
pub trait Store: Send + Sync {
    /// Its address as it may be shown: without a password.
    fn shown(&self) -> &str;

    /// What its tables are.
    fn table(&self) -> Table;

    /// Whether other servers may have the same rows. Not, for a file that this process has locked.
    fn is_shared(&self) -> bool;

    /// How many connections may be open at a time, 1 or 2.
    fn connections_max(&self) -> usize;

    /// The SQL that makes its tables, for who may do so, a statement at a time, each with its semicolon.
    fn schema(&self) -> String;

    /// Opens a connection. Native tables are made where they are missing and the user may make them; else the error
    /// says which is missing, and how the SQL for it is printed. The caller sets the deadline.
    fn connect(&self) -> Answer<'_, Box<dyn Connection>>;
}

/// An open connection, for one statement at a time. Each method is a single transaction; the caller sets the deadline,
/// and lets go of a connection that has said [`StoreError::Unknown`] or whose answer it no longer waits for.
pub trait Connection: Send {
    /// What was found when it was opened.
    fn about(&self) -> &About;

    /// Reserves values for each of some sequences: one answer for each, in their order. At most [`BATCH_MAX`].
    ///
    /// With `server`, the beat of that server grows by 1 in the same transaction. If its row does not allow that the
    /// answer is [`StoreError::Unknown`], and nothing that was reserved may be used.
    fn reserve_as<'a>(&'a mut self, server: Option<Credentials>, asks: &'a [Reserve]) -> Answer<'a, Reservations>;

    /// [`Connection::reserve_as`] for a tool, or in a store of one server.
    fn reserve<'a>(&'a mut self, asks: &'a [Reserve]) -> Answer<'a, Vec<Result<Reserved, Verdict>>> {
        Box::pin(async move { Ok(self.reserve_as(None, asks).await?.each) })
    }

    /// Reads and writes the rows of servers, as [`BeatAsk::apply`] says. Shared stores only.
    fn beat<'a>(&'a mut self, _ask: &'a BeatAsk) -> Answer<'a, BeatAnswer> {
        Box::pin(async { Err(no_beats()) })
    }

    /// Raises rows that are lower than their notes, and adds 1 to the beat of the server in the same transaction.
    /// Returns that beat, and how many rows were raised; `None` if the server's row does not allow it. At most
    /// [`BATCH_MAX`] notes. Shared stores only.
    fn compare<'a>(&'a mut self, _server: Credentials, _notes: &'a [NotedRow]) -> Answer<'a, Option<Compared>> {
        Box::pin(async { Err(no_beats()) })
    }

    /// Gives back the end of reservations of which nothing was given: whether the row was still as this server had left
    /// it, and so took it. Native tables only.
    ///
    /// With `server`, nothing is given back if the row of that server does not allow it, as in
    /// [`Connection::reserve_as`]: a store that lost writes may have another row of the same version.
    fn give_back<'a>(&'a mut self, server: Option<Credentials>, ends: &'a [GiveBack]) -> Answer<'a, Vec<bool>>;

    /// Makes new rows in one transaction: one answer for each, in their order. [`Verdict::Exists`] if there is one,
    /// [`Verdict::Dropped`] if there was one, unless `above_dropped`: then the new one goes on above what the old one
    /// had. At most [`BATCH_MAX`], none twice, all with the same `rows_max` and `server`.
    fn create_all<'a>(&'a mut self, new: &'a [Create]) -> Answer<'a, Vec<Result<Row, Verdict>>>;

    /// [`Connection::create_all`] for one row.
    fn create<'a>(&'a mut self, new: &'a Create) -> Answer<'a, Result<Row, Verdict>> {
        Box::pin(async move {
            let made = self.create_all(std::slice::from_ref(new)).await?.pop();
            made.ok_or_else(|| StoreError::Unknown(format!("no answer for the row of '{}'", new.key)))
        })
    }

    /// Changes a row that is there, and adds one to its generation.
    fn change<'a>(&'a mut self, key: &'a Key, change: &'a RowChange) -> Answer<'a, Result<Row, Verdict>>;

    /// One row, a dropped one too.
    fn row<'a>(&'a mut self, key: &'a Key) -> Answer<'a, Option<Row>>;

    /// Rows in the order of their names (bytes), those after the cursor `after`, at most `limit`; without those of
    /// periods unless asked for, and without dropped ones.
    fn list<'a>(&'a mut self, after: &'a str, limit: u32, periods: bool) -> Answer<'a, Listed>;

    /// How many rows there are, without those of periods and dropped ones.
    fn count(&mut self) -> Answer<'_, u64>;

    /// Rows whose generation has changed since `seen`, which is what an earlier answer said as `upto`; with `None`
    /// only `upto` is asked for.
    fn changes(&mut self, seen: Option<u64>) -> Answer<'_, Changes>;

    /// Rows of generators: those with these names, else all, in the order of their names and [`GENERATORS_MAX`] at
    /// most. Native tables only.
    fn generators<'a>(&'a mut self, _names: Option<&'a [String]>) -> Answer<'a, Vec<Generator>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Begins a period of a generator, or finds its row, as [`Opening`] describes. Returns the generator's row.
    /// Native tables only.
    fn open_period<'a>(&'a mut self, _ask: &'a Opening) -> Answer<'a, Result<Generator, Verdict>> {
        Box::pin(async { Ok(Err(no_generators())) })
    }

    /// Notes that periods have begun, as their generators' newest ones: never an earlier one than the row has, and not
    /// where the row has another declaration. At most [`GENERATORS_MAX`]. Native tables only.
    fn begin_periods<'a>(&'a mut self, _begun: &'a [Begun]) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Closes the ended periods of a generator, and deletes their rows, [`PRUNED_MAX`] in one call. Native tables only.
    fn prune<'a>(&'a mut self, _ask: &'a Prune) -> Answer<'a, Result<Pruned, Verdict>> {
        Box::pin(async { Ok(Err(no_generators())) })
    }

    /// `current_max_id` of the row with this `id` in `id_generator`, or a table like it, which keeps the maximum of a
    /// counter in Redis; `None`: there is no such row. The table's name is letters, digits and underscores.
    fn maximum<'a>(&'a mut self, _table: &'a str, _id: i64) -> Answer<'a, Result<Option<i64>, Verdict>> {
        let said = "a table of maximums is adopted from a store in MySQL or PostgreSQL with 'sequence-table native'";
        Box::pin(async move { Ok(Err(Verdict::Unsupported(said.to_owned()))) })
    }

    /// Writes a copy of the store into an empty file, as it is at one moment. Fails if that takes longer than
    /// [`BACKUP_TIME_MAX`]. Files of this server's own only.
    fn backup<'a>(&'a mut self, _to: &'a Path) -> Answer<'a, ()> {
        let said =
            "it is kept by a database server, whose own tools make backups: mysqldump --single-transaction, pg_dump";
        Box::pin(async move { Err(StoreError::Refused(said.to_owned())) })
    }

    /// The tokens of Tinyid's clients, which are in a table `tiny_id_token` beside any of the tables of sequences:
    /// [`TOKENS_MAX`] and one at most. `None`: there is no such table.
    fn tokens(&mut self) -> Answer<'_, Option<Vec<Token>>> {
        Box::pin(async { Ok(None) })
    }
}

/// A row of `tiny_id_token`: who has this token may ask for this bizType. One token may have several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The secret.
    pub token: String,
    /// The name of a sequence.
    pub biz_type: String,
}

/// Rows of `tiny_id_token` that count.
pub const TOKENS_MAX: usize = 10_000;

/// How long a backup may take: reservations wait behind it.
pub const BACKUP_TIME_MAX: Duration = Duration::from_secs(1);

/// Sequences of one [`Connection::reserve`] at most.
pub const BATCH_MAX: usize = 64;

/// Which tables a store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Our own.
    Native,
    /// `leaf_alloc`, as Leaf has it.
    Leaf,
    /// `tiny_id_info`, as Tinyid has it.
    Tinyid,
}

/// What is found when a store is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The database and its version, such as `MariaDB 10.11.6`.
    pub product: String,
    /// Which store this is, for ever: drawn when its tables were made. Of tables of others, made from its address.
    pub uuid: String,
    /// How far its clock is ahead of this machine's, ms, is the caller's to find out: its Unix time, ms.
    pub unix_ms: i64,
    /// Settings by which a commit may be lost, each as a sentence with its remedy.
    pub warnings: Vec<String>,
}

/// Values that are wanted of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Which.
    pub key: Key,
    /// How many, 1 to [`getid_core::RESERVED_MAX`]. Tables of others may have rules of their own for that.
    pub values: u32,
    /// None below it is wanted: the row goes up to it first. 0: whatever comes next.
    pub floor: i64,
}

/// The row of a generator that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generator {
    /// Its name.
    pub name: String,
    /// The words that declare it, without its name and `cache`.
    pub declaration: String,
    /// How often its counter begins again: a word of [`getid_core::Reset`].
    pub reset: String,
    /// The newest period that has begun, as [`getid_core::Reset::period`] writes it; empty: none has, or it has one
    /// counter for all time.
    pub newest: String,
    /// The last day (`yyyyMMdd`) whose periods are closed: they are never begun again. Empty: no period is closed.
    pub closed_through: String,
}

/// A period of a generator that a server is about to draw from.
///
/// The counter's row is created if it is missing, and the generator's row is kept. Both happen under one lock, so a
/// period that [`Connection::prune`] has closed is not begun again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Key of the counter's row.
    pub key: Key,
    /// [`Generator::declaration`] of this server.
    pub declaration: String,
    /// How often the counter begins again.
    pub reset: Reset,
    /// Options of the counter's row, if it is created.
    pub spec: Spec,
    /// The first value of a created row is not below it.
    pub floor: i64,
    /// Whether a missing row may be created. Else [`Verdict::NoSuch`].
    pub may_begin: bool,
    /// Whether it is a serial number. The options of its row are those of its declaration; a sequence's are changed by
    /// `SEQUENCE ALTER` alone.
    pub is_serial: bool,
    /// When the period begins, Unix ms; `i64::MIN`: there is only one.
    pub from_unix_ms: i64,
    /// Whether the period has begun by the store's clock. A server creates the row of the next one a little before.
    pub has_begun: bool,
    /// Whether the declaration replaces another one that the generator's row has. Else [`Verdict::Declared`].
    pub redeclares: bool,
    /// The server that asks, as in [`Connection::reserve_as`].
    pub server: Option<Credentials>,
}

impl Generator {
    /// The newest period as one of a generator that begins again so often: the one in which it has begun, or that
    /// begins with it.
    fn newest_as(&self, reset: Reset) -> String {
        let before = Reset::ALL.into_iter().find(|before| before.word() == self.reset);
        let stamp = before.and_then(|before| before.first_of(&self.newest));
        stamp.and_then(|stamp| reset.period(stamp)).unwrap_or_default()
    }
}

impl Opening {
    /// Why the period may not be drawn from, by the row of its generator. A closed period is before the newest one.
    pub fn refused_by(&self, found: &Generator) -> Option<Verdict> {
        if found.declaration != self.declaration && !self.redeclares {
            let (stored, asked) = (found.declaration.clone(), self.declaration.clone());
            return Some(Verdict::Declared { stored, asked });
        }
        let newest = found.newest_as(self.reset);
        (*newest > *self.key.period()).then_some(Verdict::Newer { period: newest })
    }
}

/// A period that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Key of its counter.
    pub key: Key,
    /// [`Generator::declaration`] of the server in which it has begun.
    pub declaration: String,
}

/// Ended periods of a generator that are to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Name of the generator.
    pub name: String,
    /// The last day whose periods are removed, if they ended by its end. The newest period, and others of its day,
    /// stay.
    pub through: Day,
    /// Whether they are closed and deleted. Else they are only counted.
    pub deletes: bool,
}

/// What [`Connection::prune`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of rows that it removes, those of later calls included.
    pub rows: u64,
    /// The first of their periods.
    pub first: String,
    /// The last of them.
    pub last: String,
    /// Number of rows that this call deleted.
    pub deleted: u64,
}

/// A civil day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day(jiff::civil::Date);

impl Day {
    /// The day of a text, `2026-01-31` or `20260131`.
    pub fn parse(text: &str) -> Option<Day> {
        let format = if text.contains('-') { "%Y-%m-%d" } else { "%Y%m%d" };
        jiff::civil::Date::strptime(format, text).ok().filter(|date| (0..=9999).contains(&date.year())).map(Day)
    }

    /// The day of a time in UTC.
    #[cfg(feature = "sqlite")]
    fn of_unix_ms(unix_ms: i64) -> Option<Day> {
        let time = jiff::Timestamp::from_millisecond(unix_ms).ok()?;
        Some(Day(time.to_zoned(jiff::tz::TimeZone::UTC).date()))
    }

    /// It as `yyyyMMdd`.
    pub fn text(&self) -> String {
        self.0.strftime("%Y%m%d").to_string()
    }

    /// The day before the first one of a period; `None`: there is none.
    #[cfg(feature = "sqlite")]
    fn before(period: &str) -> Option<Day> {
        let first = Reset::ALL.into_iter().find_map(|reset| reset.first_of(period))?;
        let day = Day::parse(&format!("{:04}{:02}{:02}", first.year, first.month, first.day))?;
        day.0.yesterday().ok().map(Day)
    }

    /// The last month, and the last year, that have ended by the end of this day, as periods.
    #[cfg(feature = "sqlite")]
    fn month_and_year(&self) -> (String, String) {
        let next = self.0.tomorrow().unwrap_or(self.0);
        let before = next.first_of_month().yesterday().unwrap_or(next);
        (before.strftime("%Y%m").to_string(), format!("{:04}", next.year().saturating_sub(1)))
    }

    /// Whether a period has ended by the end of this day.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    fn ends(&self, period: &str) -> bool {
        let (month, year) = self.month_and_year();
        match period.len() {
            0 => false,
            4 => *period <= *year,
            6 => *period <= *month,
            _ => period.get(..8).is_some_and(|day| *day <= *self.text()),
        }
    }
}

/// Generators of one answer of [`Connection::generators`] at most.
pub const GENERATORS_MAX: usize = 10_000;

/// Rows that one [`Connection::prune`] deletes at most.
pub const PRUNED_MAX: u64 = 5_000;

/// A reservation that was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The first value.
    pub first: i64,
    /// The last one, inclusive; below `first` if the row has reached its max.
    pub last: i64,
    /// What `next` was before.
    pub found_next: i64,
    /// The row as it is now.
    pub row: Row,
}

/// What a transaction showed of the server that asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beaten {
    /// The server's beat after it.
    pub beat: u64,
    /// The instance of the database, as in [`BeatAnswer::instance`].
    pub instance: String,
}

/// The answer to [`Connection::reserve_as`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservations {
    /// What it showed of the server, if there was one.
    pub server: Option<Beaten>,
    /// One answer for each sequence.
    pub each: Vec<Result<Reserved, Verdict>>,
}

/// What a server noted of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedRow {
    /// Key of the row.
    pub key: Key,
    /// The row's `next`.
    pub next: i64,
    /// Its generation.
    pub generation: u64,
    /// When it was made, Unix ms by the database's clock; 0 where tables do not have it.
    pub created_unix_ms: i64,
}

impl NotedRow {
    /// Whether a row of this generation and creation was dropped and made anew since.
    pub fn is_older_than(&self, generation: u64, created_unix_ms: i64) -> bool {
        generation > self.generation && created_unix_ms != self.created_unix_ms
    }
}

/// What came of [`Connection::compare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The server's beat after it.
    pub beat: u64,
    /// Number of rows that were lower than their notes.
    pub raised: usize,
}

fn no_generators() -> Verdict {
    Verdict::Unsupported("only getid's own tables (sequence-table native) have rows of generators".to_owned())
}

fn no_beats() -> StoreError {
    StoreError::Refused("a store of one server keeps no beats".to_owned())
}

/// The end of what was reserved, of which nothing was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveBack {
    /// Of which sequence.
    pub key: Key,
    /// The row's version as the last reservation of this server has left it.
    pub version: u64,
    /// The first value that was not given: the row's `next` from now on.
    pub next: i64,
}

/// A row to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// Which.
    pub key: Key,
    /// What is said of it.
    pub spec: Spec,
    /// Whether it may take the name of one that was dropped, and goes on above it.
    pub above_dropped: bool,
    /// Whether it may take such a name and begin at its start, if that was dropped so many ms ago: nobody has values of
    /// it then.
    pub fresh_after_ms: Option<i64>,
    /// The first value is not below it: other stores, or the notes of this server, have values of this name. 0: none
    /// have. With `fresh_after_ms` it does not count.
    pub floor: i64,
    /// Rows there may be (`sequence-max`), 0: any number. [`Verdict::TooMany`] if there are.
    pub rows_max: u64,
    /// The server that makes it, as in [`Connection::reserve_as`]; `None` for a tool, or in a store of one server.
    pub server: Option<Credentials>,
}

/// How a row changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// The next value is past `last`, and [`Verdict::Lower`] if it is so already.
    Raise {
        /// The last value that counts as given.
        last: i64,
        /// `Some`: a mark of [`RowState::WentBack`] is removed, also if the row is past `last` already. A marked row
        /// goes past this value too: the row's `next` by the notes of this server, 0 without notes.
        settles: Option<i64>,
    },
    /// Other options. `next` goes up to `next_from`, at least to what it is, and to a value of the new ones.
    Alter {
        /// The new ones.
        spec: Spec,
        /// Of several stores, the highest of all.
        next_from: i64,
    },
    /// Nobody gets anything of it any more; a tombstone keeps how far it was.
    Drop,
    /// The row was found lower than what a server had of it: it goes past that, and gives nothing until it is raised or
    /// confirmed.
    WentBack {
        /// The row's `next` as the server had it.
        had_next: i64,
    },
    /// The row is marked so, and another server had more of it than who marked it: it goes past that as well, so that
    /// one confirmation is enough for all. [`Verdict::Lower`] if it is there already, or is not marked.
    HadMore {
        /// The row's `next` as that server had it.
        had_next: i64,
    },
    /// The mark is taken off.
    Confirm,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Of which sequence.
    pub key: Key,
    /// The first value that nobody has reserved.
    pub next: i64,
    /// One more with each reservation.
    pub version: u64,
    /// One more with each [`RowChange`].
    pub generation: u64,
    /// What is said of it.
    pub spec: Spec,
    /// Whether values may be had of it.
    pub state: RowState,
    /// When it was made, Unix ms by the database's clock; 0 where nobody knows.
    pub created_unix_ms: i64,
    /// When it was changed last.
    pub updated_unix_ms: i64,
}

impl Row {
    /// The last value that counts as given; one below its start if there is none.
    pub fn last(&self) -> i64 {
        let increment = i64::from(self.spec.increment);
        self.next.min(VALUE_MAX.saturating_add(increment)) - increment
    }
}

/// Whether a row gives values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// It does.
    Live,
    /// It was dropped.
    Dropped,
    /// It was found lower than what a server had of it.
    WentBack,
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The rows that can be read.
    pub rows: Vec<Row>,
    /// Those that cannot: somebody has written them by hand.
    pub bad: Vec<BadRow>,
    /// The cursor of the next page; `None` after the last.
    pub next: Option<String>,
}

/// A row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Its name, which may be one that no sequence can have.
    pub name: String,
    /// What is wrong with it, and the remedy.
    pub said: String,
}

impl Listed {
    /// A page of rows that were asked for with this limit, each with its name and its period; `None` for one that is
    /// not a sequence's and not listed.
    ///
    /// `each` has every row that the database returned: a page with fewer than `limit` is the last one.
    pub fn new(limit: u32, each: impl Iterator<Item = (String, String, Option<Result<Row, String>>)>) -> Listed {
        let mut listed = Listed::default();
        let mut last = String::new();
        let mut left = limit;
        for (name, period, row) in each {
            left = left.saturating_sub(1);
            last = if period.is_empty() && !name.contains('@') { name.clone() } else { format!("{name}@{period}") };
            match row {
                Some(Ok(row)) => listed.rows.push(row),
                Some(Err(said)) => listed.bad.push(BadRow { name, said }),
                None => {}
            }
        }
        listed.next = Some(last).filter(|last| left == 0 && !last.is_empty());
        listed
    }

    /// The name and the period of a cursor, which is whatever somebody has typed.
    pub fn cursor(after: &str) -> (&str, &str) {
        after.rsplit_once('@').unwrap_or((after, ""))
    }
}

/// What has changed in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What to ask for the next time.
    pub upto: u64,
    /// The rows and their generations. Never more than 1,000: with more, `upto` is where to go on.
    pub rows: Vec<(Key, u64)>,
}

/// Why a statement that was done has done nothing: what the row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is no row.
    NoSuch,
    /// There is one.
    Exists(Box<Row>),
    /// It was dropped.
    Dropped {
        /// The last value that counts as given.
        last: i64,
    },
    /// It has the mark of a store that went back.
    WentBack {
        /// The first value that nobody has reserved.
        next: i64,
    },
    /// It would go back.
    Lower {
        /// The row as it is.
        row: Box<Row>,
    },
    /// There are as many rows as may be.
    TooMany {
        /// How many.
        max: u64,
    },
    /// The generator has begun a later period than the one that was asked for.
    Newer {
        /// Its newest one.
        period: String,
    },
    /// The generator's row has another declaration than the server that asked.
    Declared {
        /// The one of the row.
        stored: String,
        /// The one of the server.
        asked: String,
    },
    /// The row cannot be used: a step of 0, a remainder that is not below delta. What, and the remedy.
    BadRow(String),
    /// These tables have no such thing: what is done instead.
    Unsupported(String),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database says so itself, and nothing has changed: what it said, and the remedy where one is known. No
    /// passwords are in it.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows whether it was done.
    #[error("{0}")]
    Unknown(String),
}

/// Why there is no connection to a server.
#[cfg(any(feature = "mysql", feature = "postgres"))]
struct NotConnected {
    error: StoreError,
    /// Whether nobody has answered who could refuse it: the same address may do in a moment.
    is_away: bool,
}

/// Refuses a store that is not the one of an address with `uuid=`; `found` is empty where the database has no tables of
/// getid. A server without notes cannot tell an empty replacement from a new store otherwise.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn check_pinned(address: &crate::text::store_url::ServerAddress, found: &str) -> Result<(), StoreError> {
    let Some(uuid) = &address.uuid else { return Ok(()) };
    if found.replace('-', "") == *uuid {
        return Ok(());
    }
    let found = if found.is_empty() { "has no tables of getid".to_owned() } else { format!("is the store {found}") };
    Err(StoreError::Refused(format!(
        "the address has uuid={uuid}, and the database '{}' {found}: put the right one back; to use this one, leave uuid= \
         out or change it",
        address.database
    )))
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
impl NotConnected {
    fn refused(error: StoreError) -> NotConnected {
        NotConnected { error, is_away: false }
    }
}

#[cfg(test)]
mod tests {
    use super::Listed;

    #[test]
    fn a_full_page_has_another_after_it_whatever_its_rows_are() {
        let unlisted = |name: &str| (name.to_owned(), String::new(), None);
        let bad = |name: &str| (name.to_owned(), String::new(), Some(Err("it is wrong".to_owned())));
        for (rows, next) in [
            (vec![bad("a"), unlisted("b")], Some("b")),
            (vec![unlisted("-"), unlisted(".")], Some(".")),
            (vec![unlisted("-")], None),
            (vec![], None),
        ] {
            let listed = Listed::new(2, rows.into_iter());
            assert!(listed.rows.is_empty() && listed.next.as_deref() == next, "{listed:?}");
        }
    }
}
