//! Records that servers share ([`crate::records`]), in the table `getid_record` of a SQL database: the common part of
//! SQLite, MySQL and PostgreSQL.
//!
//! A write is a transaction with an UPDATE that names the stamp it replaces, or with an INSERT that does nothing if the
//! record exists. Of two concurrent writes the second waits for the first, and finds another stamp. Each packet first
//! checks that the database still takes writes: a former primary keeps its connections when it becomes a replica.
//!
//! Each call runs on a separate thread, to its end or to its deadline. So neither the caller's runtime nor a dropped
//! call matters, and no other work of this process delays a beat. One or two connections are kept. A connection without
//! an answer in time is not used again: its statement may still be done.
//!
//! Not here: how a connection is opened and its table created (`records` of each database).

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::packet::{Cell, Link, Packet, PacketFailureKind, RecordDialect, SqlRow};
use super::{OpenError, StoreError, StoreFuture};
use crate::records::{
    self, DamagedRow, Key, LIST_MAX, RecordPage, RecordRow, RecordStore, RecordStoreError, RecordStoreInfo, Stamp,
    TEXT_BYTES_MAX, WriteResult,
};
use getid_system::{io_threads, threads};
#[cfg(any(feature = "mysql", feature = "postgres"))]
use getid_text::plural::counted;
use getid_text::printable::printable_up_to;

/// Most connections: one serves beats while the other one waits.
const CONNECTIONS_MAX: usize = 2;

/// Longest time to open a connection, which may exceed that of a call: opening continues for the next call.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Idle time after which a connection is not used again: a firewall or proxy may have cut it.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Time for which a refused connection is not tried again, so that a wrong password is not tried ten times a second.
const REFUSED_FOR: Duration = Duration::from_secs(1);

/// Columns of a record's row, in the order in which they are read.
pub(super) const COLUMNS: &str = "record_key, writer, beat, text";

/// A database with that table. Creating one opens nothing.
pub(super) trait RecordServer: Send + Sync + 'static {
    /// Returns the address, without a password.
    fn shown(&self) -> &str;

    /// Returns the SQL that creates the table.
    fn schema(&self) -> &'static str;

    /// Returns the maximum of connections.
    fn connections_max(&self) -> usize {
        CONNECTIONS_MAX
    }

    /// Opens a connection, checks the table, and creates it if it is missing and the user has the permission.
    fn connect(&self) -> records::RecordFuture<'_, Box<dyn RecordConnection>>;
}

/// An open connection, for one statement at a time. After [`StoreError::Unknown`] it is not used again.
pub(super) trait RecordConnection: Send + 'static {
    /// Returns what was found when it was opened.
    fn info(&self) -> &RecordStoreInfo;

    /// Returns true if the connection is known to be unusable.
    fn has_ended(&self) -> bool {
        false
    }

    /// Returns the row of a key.
    fn read(&mut self, key: Key) -> StoreFuture<'_, Option<RawRecord>>;

    /// Returns the rows of a range, in the order of their keys.
    fn list(&mut self, range: KeyRange) -> StoreFuture<'_, Vec<RawRecord>>;

    /// Does [`RecordStore::write`]; returns true if it was done.
    fn write(&mut self, key: Key, expect: ExpectedRow, new: RecordRow) -> StoreFuture<'_, bool>;
}

/// Expected state of a row before a write.
#[derive(Clone, Debug)]
pub(super) enum ExpectedRow {
    /// The row does not exist.
    Absent,
    /// The row has these columns.
    Exists { writer: String, beat: i64 },
}

/// Most bytes of a packet apart from the text of a record.
pub(super) const PACKET_BYTES: usize = 4096;

/// An open connection to a database.
pub(super) struct SqlRecordConnection<L> {
    link: L,
    info: RecordStoreInfo,
}

impl<L: Link + RecordDialect> SqlRecordConnection<L> {
    /// Returns the connection of a link whose table was checked.
    pub(super) fn new(link: L) -> SqlRecordConnection<L> {
        let info = link.info();
        let info = RecordStoreInfo { product: info.product.clone(), warnings: info.warnings.clone() };
        SqlRecordConnection { link, info }
    }

    /// Runs a query for records.
    async fn select(&mut self, condition: &str) -> Result<Vec<RawRecord>, StoreError> {
        let mut packet = Packet::new();
        let read_only = L::IS_READ_ONLY.map(|query| packet.add(query));
        let rows = packet.add(format!("SELECT {COLUMNS} FROM getid_record WHERE {condition}"));
        let done = self.link.run(packet).await?;
        self.check_writable(read_only.and_then(|at| done[at].rows.first()))?;
        Ok(done[rows].rows.iter().map(RawRecord::of).collect())
    }

    async fn write_row(&mut self, key: &Key, expect: &ExpectedRow, new: &RecordRow) -> Result<bool, StoreError> {
        let (bytes, bytes_max) = (2 * new.text.len() + PACKET_BYTES, self.link.packet_bytes_max());
        if bytes > bytes_max {
            return Err(StoreError::Refused(format!(
                "the record '{key}' needs a packet of {bytes} bytes, and max_allowed_packet is {bytes_max}: set it to 16M"
            )));
        }
        let is_absent = matches!(expect, ExpectedRow::Absent);
        let mut packet = Packet::transaction().creating(is_absent);
        let read_only = L::IS_READ_ONLY.map(|query| packet.add(query));
        let (writer, beat, text) = (writer_column(new.stamp), beat_column(new.stamp), L::text(&new.text));
        let now = L::WRITTEN_AT;
        let written = packet.add(match expect {
            // A key that was edited may end with blanks, which MySQL does not compare.
            ExpectedRow::Exists { writer: was, beat: was_beat } => format!(
                "UPDATE getid_record SET record_key = '{key}', writer = '{writer}', beat = {beat}, text = {text}, \
                 written_at = {now} WHERE record_key = '{key}' AND writer = {} AND beat = {was_beat}",
                L::key_text(was)
            ),
            ExpectedRow::Absent => format!(
                "INSERT INTO getid_record ({COLUMNS}, written_at) VALUES ('{key}', '{writer}', {beat}, {text}, {now}){}",
                L::IF_ABSENT
            ),
        });
        match self.link.run(packet).await {
            Ok(done) => {
                let affected = done[written].affected;
                if affected > 0 {
                    self.check_writable(read_only.and_then(|at| done[at].rows.first()))?;
                }
                Ok(affected == 1)
            }
            Err(failure) if is_absent && failure.kind == PacketFailureKind::Duplicate => Ok(false),
            Err(failure) => Err(failure.error),
        }
    }

    /// Fails if the database takes no writes: reads from it may be outdated.
    fn check_writable(&self, row: Option<&SqlRow>) -> Result<(), StoreError> {
        let is_on = |value: &Cell| match value {
            Cell::Null => false,
            Cell::Number(number) => *number != 0,
            Cell::Text(text) => !["0", "OFF", "f"].contains(&&**text),
        };
        if row.is_some_and(|row| row.0.iter().any(is_on)) { Err(self.link.read_only_error()) } else { Ok(()) }
    }
}

impl<L: Link + RecordDialect> RecordConnection for SqlRecordConnection<L> {
    fn info(&self) -> &RecordStoreInfo {
        &self.info
    }

    fn has_ended(&self) -> bool {
        self.link.has_ended()
    }

    fn read(&mut self, key: Key) -> StoreFuture<'_, Option<RawRecord>> {
        Box::pin(async move { Ok(self.select(&format!("record_key = '{key}'")).await?.pop()) })
    }

    fn list(&mut self, range: KeyRange) -> StoreFuture<'_, Vec<RawRecord>> {
        let KeyRange { from, below, after, limit } = range;
        let [from, below, after] = [from, below, after].map(|text| L::key_text(&text));
        Box::pin(async move {
            self.select(&format!(
                "record_key >= {from} AND record_key < {below} AND record_key > {after} ORDER BY record_key LIMIT {limit}"
            ))
            .await
        })
    }

    fn write(&mut self, key: Key, expect: ExpectedRow, new: RecordRow) -> StoreFuture<'_, bool> {
        Box::pin(async move { self.write_row(&key, &expect, &new).await })
    }
}

/// Returns the error of opening a connection, during which nothing is written.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn opening_error(error: StoreError) -> RecordStoreError {
    match error {
        StoreError::Refused(message) | StoreError::Locked(message) => RecordStoreError::Refused(message),
        StoreError::Unknown(message) => RecordStoreError::Away(message),
    }
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
impl From<super::ConnectError> for RecordStoreError {
    fn from(failure: super::ConnectError) -> RecordStoreError {
        let message = failure.error.to_string();
        if failure.is_away { RecordStoreError::Away(message) } else { RecordStoreError::Refused(message) }
    }
}

impl From<Option<Stamp>> for ExpectedRow {
    fn from(expect: Option<Stamp>) -> ExpectedRow {
        expect.map_or(ExpectedRow::Absent, |was| ExpectedRow::Exists {
            writer: writer_column(was),
            beat: beat_column(was),
        })
    }
}

/// Range of the records in a list.
#[derive(Clone, Debug)]
pub(super) struct KeyRange {
    /// First key, inclusive.
    pub(super) from: String,
    /// Last key, exclusive.
    pub(super) below: String,
    /// Key after which the records begin.
    pub(super) after: String,
    /// Most records.
    pub(super) limit: u32,
}

impl KeyRange {
    fn new(prefix: &str, after: &str, limit: usize) -> KeyRange {
        // No character of a key is above 'z', which is below '~'.
        let limit = u32::try_from(limit.min(LIST_MAX)).unwrap_or(u32::MAX);
        KeyRange { from: prefix.to_owned(), below: format!("{prefix}~"), after: after.to_owned(), limit }
    }
}

/// A row as read from a database.
#[derive(Clone, Debug)]
pub(super) struct RawRecord {
    pub(super) key: String,
    pub(super) writer: String,
    pub(super) beat: i64,
    pub(super) text: String,
}

impl RawRecord {
    /// Returns the row in the order of [`COLUMNS`]. A column without a number gets one that no row has.
    fn of(row: &SqlRow) -> RawRecord {
        let beat = row.number(2).unwrap_or(i64::MIN);
        RawRecord { key: row.shown(0), writer: row.shown(1), beat, text: row.shown(3) }
    }

    /// Parses the record, or returns the error in the row.
    fn parse(self) -> Result<(Key, RecordRow), DamagedRow> {
        let shown = printable_up_to(&self.key, 80);
        let what = match (self.stamp(), Key::new(&*self.key)) {
            (Ok(stamp), Some(key)) => return Ok((key, RecordRow { stamp, text: self.text })),
            (_, None) => "has a record_key that is not a valid key".to_owned(),
            (Err(bad), Some(_)) => bad.to_string(),
        };
        let what = format!("the row '{shown}' of the table getid_record {what}");
        Err(DamagedRow { key: self.key, what, writer: self.writer, beat: self.beat, text: self.text.into_bytes() })
    }

    /// Returns the stamp, or what the row has in its place.
    fn stamp(&self) -> Result<Stamp, BadStamp> {
        let digits = |text: &&String| text.len() == 32 && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
        let writer = Some(&self.writer).filter(digits).and_then(|text| u128::from_str_radix(text, 16).ok());
        let writer = writer.ok_or_else(|| BadStamp::Writer(printable_up_to(&self.writer, 40)))?;
        let beat = u64::try_from(self.beat).ok().filter(|beat| *beat > 0);
        let beat = beat.ok_or(BadStamp::Beat(self.beat))?;
        Ok(Stamp { writer, beat })
    }
}

/// Error in the stamp of a row.
#[derive(Clone, Debug, thiserror::Error)]
enum BadStamp {
    #[error("has the writer '{0}', which is not 32 lower-case hexadecimal digits")]
    Writer(String),
    #[error("has the beat {0}, which must be 1 at least")]
    Beat(i64),
}

/// Returns the warning about replicas that may lack acknowledged writes.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn replicas_lag(replicas: u64, remedy: &str) -> String {
    format!(
        "it has {}, and a commit waits for none: a failover may lose the last writes; {remedy}",
        counted(replicas, "replica")
    )
}

/// Returns the writer as stored in the table.
fn writer_column(stamp: Stamp) -> String {
    format!("{:032x}", stamp.writer)
}

/// Returns the beat as stored in the table.
fn beat_column(stamp: Stamp) -> i64 {
    i64::try_from(stamp.beat).unwrap_or(i64::MAX)
}

/// Records in a database. The thread ends when this value is dropped.
pub(super) struct SqlRecords {
    shared: Arc<ConnectionPool>,
    runtime: Handle,
    /// Ends the thread when it is dropped; nothing is sent.
    _end: oneshot::Sender<()>,
}

/// State that calls share.
struct ConnectionPool {
    server: Box<dyn RecordServer>,
    deadline: Duration,
    idle: Mutex<Vec<IdleConnection>>,
    permits: Arc<Semaphore>,
    refused: Mutex<Option<(Instant, RecordStoreError)>>,
}

/// An idle connection.
struct IdleConnection {
    connection: Box<dyn RecordConnection>,
    since: Instant,
}

/// A connection that a call uses, with its permit.
struct BorrowedConnection {
    connection: Box<dyn RecordConnection>,
    /// Whether it was opened before this call.
    was_idle: bool,
    _permit: OwnedSemaphorePermit,
}

impl SqlRecords {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails if the thread cannot be started.
    pub(super) fn new(server: Box<dyn RecordServer>, deadline: Duration) -> Result<SqlRecords, OpenError> {
        let failed =
            |error: io::Error| OpenError::Thread { shown: server.shown().to_owned(), error: error.to_string() };
        let permits = Arc::new(Semaphore::new(server.connections_max()));
        let (end, ended) = oneshot::channel::<()>();
        let (ready, is_ready) = mpsc::sync_channel(1);
        let run = move || {
            // The runtime is created here, because it must not be dropped on a thread with another runtime, such as the
            // caller's.
            let runtime = match io_threads::blocking_runtime() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _ = ready.send(Ok(runtime.handle().clone()));
            runtime.block_on(async {
                // Ends with an error: nothing is ever sent.
                let _ = ended.await;
            });
        };
        threads::spawn("getid-records", run).map_err(failed)?;
        let handle = is_ready.recv().map_err(io::Error::other).and_then(|made| made).map_err(failed)?;
        let shared = ConnectionPool { server, deadline, idle: Mutex::default(), permits, refused: Mutex::default() };
        Ok(SqlRecords { shared: Arc::new(shared), runtime: handle, _end: end })
    }

    /// Runs `work` on the thread.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, RecordStoreError>> + Send + 'static,
        ended: fn(String) -> RecordStoreError,
    ) -> Result<T, RecordStoreError> {
        let done = self.runtime.spawn(work).await;
        done.unwrap_or_else(|_| Err(ended(format!("the thread of '{}' has ended", self.shared.server.shown()))))
    }
}

impl Drop for SqlRecords {
    /// Closing a connection may need its runtime.
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        lock(&self.shared.idle).clear();
    }
}

impl RecordStore for SqlRecords {
    fn shown(&self) -> &str {
        self.shared.server.shown()
    }

    fn read<'a>(&'a self, key: &'a Key) -> records::RecordFuture<'a, Option<RecordRow>> {
        let (shared, key) = (Arc::clone(&self.shared), key.clone());
        let work = async move {
            let found = shared.query(move |connection| connection.read(key.clone())).await?;
            row_of(found)
        };
        Box::pin(self.run(work, RecordStoreError::Away))
    }

    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> records::RecordFuture<'a, RecordPage> {
        let (shared, range) = (Arc::clone(&self.shared), KeyRange::new(prefix, after, limit));
        Box::pin(self.run(async move { shared.list(range).await }, RecordStoreError::Away))
    }

    fn write<'a>(
        &'a self,
        key: &'a Key,
        expect: Option<Stamp>,
        new: &'a RecordRow,
    ) -> records::RecordFuture<'a, WriteResult> {
        let (shared, key, new) = (Arc::clone(&self.shared), key.clone(), new.clone());
        Box::pin(self.run(async move { shared.write(key, expect.into(), new).await }, RecordStoreError::Unknown))
    }

    fn mend<'a>(&'a self, key: &'a Key, bad: &'a DamagedRow, new: &'a RecordRow) -> records::RecordFuture<'a, bool> {
        let (shared, key, new) = (Arc::clone(&self.shared), key.clone(), new.clone());
        let expect = ExpectedRow::Exists { writer: bad.writer.clone(), beat: bad.beat };
        let work = async move {
            match shared.write(key, expect, new).await {
                Ok(written) => Ok(written == WriteResult::Done),
                // The row has changed meanwhile.
                Err(RecordStoreError::Damaged(_)) => Ok(false),
                Err(error) => Err(error),
            }
        };
        Box::pin(self.run(work, RecordStoreError::Unknown))
    }

    fn schema(&self) -> String {
        self.shared.server.schema().to_owned()
    }

    fn info(&self) -> records::RecordFuture<'_, RecordStoreInfo> {
        let shared = Arc::clone(&self.shared);
        let work = async move {
            let borrowed = shared.acquire(Instant::now() + shared.deadline).await?;
            let info = borrowed.connection.info().clone();
            shared.release(borrowed);
            Ok(info)
        };
        Box::pin(self.run(work, RecordStoreError::Away))
    }
}

impl ConnectionPool {
    /// Runs a statement that changes nothing. If an idle connection turns out to be cut, the next one is used.
    async fn query<T>(
        self: &Arc<Self>,
        statement: impl for<'c> Fn(&'c mut dyn RecordConnection) -> StoreFuture<'c, T>,
    ) -> Result<T, RecordStoreError> {
        let end = Instant::now() + self.deadline;
        loop {
            let mut borrowed = self.acquire(end).await?;
            match timeout_at(end, statement(&mut *borrowed.connection)).await {
                Ok(Err(StoreError::Unknown(_))) if borrowed.was_idle => {}
                Ok(Err(StoreError::Unknown(message))) => return Err(RecordStoreError::Away(message)),
                Ok(answer) => {
                    self.release(borrowed);
                    return answer.map_err(|error| RecordStoreError::Refused(error.to_string()));
                }
                Err(_) => return Err(RecordStoreError::Away(self.timeout_text("has not answered"))),
            }
        }
    }

    /// Lists until there are as many records as requested, or no more rows.
    async fn list(self: &Arc<Self>, mut range: KeyRange) -> Result<RecordPage, RecordStoreError> {
        let (limit, mut listed) = (range.limit, RecordPage::default());
        loop {
            let part = range.clone();
            let rows = self.query(move |connection| connection.list(part.clone())).await?;
            let is_last = rows.len() < usize::try_from(range.limit).unwrap_or(usize::MAX);
            if let Some(last) = rows.last() {
                range.after.clone_from(&last.key);
            }
            for row in rows {
                match row.parse() {
                    Ok(row) => listed.rows.push(row),
                    Err(bad) => listed.skip(bad)?,
                }
            }
            range.limit = limit.saturating_sub(u32::try_from(listed.rows.len()).unwrap_or(u32::MAX));
            if is_last || range.limit == 0 {
                return Ok(listed);
            }
        }
    }

    async fn write(
        self: &Arc<Self>,
        key: Key,
        expect: ExpectedRow,
        new: RecordRow,
    ) -> Result<WriteResult, RecordStoreError> {
        check_record(&key, &new)?;
        let end = Instant::now() + self.deadline;
        let mut borrowed = self.acquire(end).await?;
        match timeout_at(end, borrowed.connection.write(key.clone(), expect, new)).await {
            Ok(Ok(true)) => {
                self.release(borrowed);
                return Ok(WriteResult::Done);
            }
            Ok(Ok(false)) => {}
            Ok(Err(StoreError::Refused(message) | StoreError::Locked(message))) => {
                self.release(borrowed);
                return Err(RecordStoreError::Refused(message));
            }
            Ok(Err(StoreError::Unknown(message))) => return Err(RecordStoreError::Unknown(message)),
            Err(_) => return Err(RecordStoreError::Unknown(self.timeout_text("has not answered"))),
        }
        // The write was not done, whatever the read returns.
        match timeout_at(end, borrowed.connection.read(key)).await {
            Ok(Ok(found)) => {
                self.release(borrowed);
                row_of(found).map(WriteResult::Conflict)
            }
            Ok(Err(StoreError::Refused(message) | StoreError::Locked(message))) => {
                self.release(borrowed);
                Err(RecordStoreError::Refused(message))
            }
            Ok(Err(StoreError::Unknown(message))) => Err(RecordStoreError::Away(message)),
            Err(_) => Err(RecordStoreError::Away(self.timeout_text("has not answered"))),
        }
    }

    /// Returns an idle connection, or a new one.
    async fn acquire(self: &Arc<Self>, end: Instant) -> Result<BorrowedConnection, RecordStoreError> {
        let Ok(Ok(permit)) = timeout_at(end, Arc::clone(&self.permits).acquire_owned()).await else {
            return Err(RecordStoreError::Away(self.timeout_text("has answered on none of its connections")));
        };
        if let Some(connection) = self.take_idle() {
            return Ok(BorrowedConnection { connection, was_idle: true, _permit: permit });
        }
        if let Some((at, error)) = &*lock(&self.refused)
            && at.elapsed() < REFUSED_FOR
        {
            return Err(error.clone());
        }
        let (sender, opened) = oneshot::channel();
        tokio::spawn(Arc::clone(self).connect(permit, sender));
        match timeout_at(end, opened).await {
            Ok(Ok(borrowed)) => borrowed,
            Ok(Err(_)) => Err(RecordStoreError::Away("the runtime ends".to_owned())),
            Err(_) => Err(RecordStoreError::Away(self.timeout_text("accepted no connection"))),
        }
    }

    /// Opens a connection for the waiting call, or for the next one if that has ended.
    async fn connect(
        self: Arc<Self>,
        permit: OwnedSemaphorePermit,
        sender: oneshot::Sender<Result<BorrowedConnection, RecordStoreError>>,
    ) {
        let connected = timeout(CONNECT_TIME_MAX, self.server.connect()).await;
        let connected = connected.unwrap_or_else(|_| {
            Err(RecordStoreError::Away(format!("it accepted no connection for {} s", CONNECT_TIME_MAX.as_secs())))
        });
        if let Err(error @ RecordStoreError::Refused(_)) = &connected {
            *lock(&self.refused) = Some((Instant::now(), error.clone()));
        }
        let borrowed = connected.map(|connection| BorrowedConnection { connection, was_idle: false, _permit: permit });
        if let Err(Ok(borrowed)) = sender.send(borrowed) {
            self.release(borrowed);
        }
    }

    fn take_idle(&self) -> Option<Box<dyn RecordConnection>> {
        let mut idle = lock(&self.idle);
        while let Some(IdleConnection { connection, since }) = idle.pop() {
            if since.elapsed() < IDLE_MAX && !connection.has_ended() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection for the next call, and closes idle ones that are too old: a database permits only a few.
    fn release(&self, borrowed: BorrowedConnection) {
        let mut idle = lock(&self.idle);
        idle.retain(|idle| idle.since.elapsed() < IDLE_MAX);
        idle.push(IdleConnection { connection: borrowed.connection, since: Instant::now() });
    }

    fn timeout_text(&self, what: &str) -> String {
        format!("{} {what} within {} ms", self.server.shown(), self.deadline.as_millis())
    }
}

/// Parses the record in the row of its key.
fn row_of(found: Option<RawRecord>) -> Result<Option<RecordRow>, RecordStoreError> {
    let found = found.map(RawRecord::parse).transpose().map_err(|bad| RecordStoreError::Damaged(Box::new(bad)))?;
    Ok(found.map(|(_, row)| row))
}

/// Refuses records that not all stores accept before they are sent, with the same texts everywhere.
fn check_record(key: &Key, new: &RecordRow) -> Result<(), RecordStoreError> {
    let bytes = new.text.len();
    if bytes > TEXT_BYTES_MAX {
        return Err(RecordStoreError::Refused(format!(
            "the record '{key}' has {bytes} bytes, must have at most {TEXT_BYTES_MAX}"
        )));
    }
    if new.text.contains('\0') {
        return Err(RecordStoreError::Refused(format!(
            "the record '{key}' contains NUL, which PostgreSQL cannot store"
        )));
    }
    if !(1..=Stamp::BEAT_MAX).contains(&new.stamp.beat) {
        return Err(RecordStoreError::Refused(format!("the record '{key}' would have the beat {}", new.stamp.beat)));
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
