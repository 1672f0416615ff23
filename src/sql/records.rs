//! Records that servers share ([`crate::records`]), in the table `getid_record` of a SQL database: what SQLite, MySQL
//! and PostgreSQL have in common.
//!
//! Everything that is asked is done on a thread of its own, to its end or to its deadline. So it does not matter on
//! which runtime a caller waits, or whether he still does, and nothing else that this process does delays a beat. One
//! or two connections are kept. A connection without an answer in time is used no more: what it was told may still be
//! done.
//!
//! Not here: what a database is told (`records` of each).

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Answer, StoreError};
use crate::records::{
    self, About, BadRow, Key, LIST_MAX, Listed, RecordStore, RecordStoreError, Row, Stamp, TEXT_BYTES_MAX, Written,
};
use crate::system::{io_threads, threads};
#[cfg(any(feature = "mysql", feature = "postgres"))]
use crate::text::plural::counted;
use crate::text::printable::printable_up_to;

/// Connections at most, one of them for beats while the other one waits.
const CONNECTIONS_MAX: usize = 2;

/// Opening a connection may take longer than a call: it goes on, and is there for the next one.
const CONNECT: Duration = Duration::from_secs(10);

/// A connection that nobody has used for so long may have been cut by what is between: it is used no more.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// So long nobody asks again who was refused: a wrong password is not tried ten times a second.
const REFUSED: Duration = Duration::from_secs(1);

/// How many columns a row of records has, and their order wherever one is read.
pub(super) const COLUMNS: &str = "record_key, writer, beat, text";

/// A database with that table. Making one opens nothing.
pub(super) trait RecordServer: Send + Sync + 'static {
    /// Its address as it may be shown: without a password.
    fn shown(&self) -> &str;

    /// The SQL that makes the table.
    fn schema(&self) -> &'static str;

    /// How many connections there may be.
    fn connections_max(&self) -> usize {
        CONNECTIONS_MAX
    }

    /// Opens a connection, looks at what is there, and makes the table where it is missing and the user may.
    fn connect(&self) -> records::Answer<'_, Box<dyn RecordConnection>>;
}

/// An open connection to it, for one statement at a time. After [`StoreError::Unknown`] it is used no more.
pub(super) trait RecordConnection: Send + 'static {
    /// What was found when it was opened.
    fn about(&self) -> &About;

    /// Whether it is known that nobody answers on it any more.
    fn has_ended(&self) -> bool {
        false
    }

    /// The row of a key.
    fn read(&mut self, key: Key) -> Answer<'_, Option<RawRecord>>;

    /// The rows of a range, in the order of their keys.
    fn list(&mut self, range: Range) -> Answer<'_, Vec<RawRecord>>;

    /// [`RecordStore::write`]: whether it was done.
    fn write(&mut self, key: Key, expect: Expected, new: Row) -> Answer<'_, bool>;
}

/// What a write replaces.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// Nothing.
    Absent,
    /// The row with these columns.
    Row { writer: String, beat: i64 },
}

impl From<Option<Stamp>> for Expected {
    fn from(expect: Option<Stamp>) -> Expected {
        expect.map_or(Expected::Absent, |was| Expected::Row { writer: writer_column(was), beat: beat_column(was) })
    }
}

/// Which records a list has.
#[derive(Clone, Debug)]
pub(super) struct Range {
    /// From this key on.
    pub(super) from: String,
    /// Up to this one, exclusive.
    pub(super) below: String,
    /// Those behind this one.
    pub(super) after: String,
    /// How many at most.
    pub(super) limit: u32,
}

impl Range {
    fn new(prefix: &str, after: &str, limit: usize) -> Range {
        // No character of a key is past 'z', which is before '~'.
        let limit = u32::try_from(limit.min(LIST_MAX)).unwrap_or(u32::MAX);
        Range { from: prefix.to_owned(), below: format!("{prefix}~"), after: after.to_owned(), limit }
    }
}

/// A row as a database has it.
#[derive(Clone, Debug)]
pub(super) struct RawRecord {
    pub(super) key: String,
    pub(super) writer: String,
    pub(super) beat: i64,
    pub(super) text: String,
}

impl RawRecord {
    /// The record, or what is wrong with the row.
    fn parse(self) -> Result<(Key, Row), BadRow> {
        let shown = printable_up_to(&self.key, 80);
        let what = match (self.stamp(), Key::new(&*self.key)) {
            (Ok(stamp), Some(key)) => return Ok((key, Row { stamp, text: self.text })),
            (_, None) => "has a record_key that is no key".to_owned(),
            (Err(what), Some(_)) => what,
        };
        let what = format!("the row '{shown}' of the table getid_record {what}");
        Err(BadRow { key: self.key, what, writer: self.writer, beat: self.beat, text: self.text.into_bytes() })
    }

    fn stamp(&self) -> Result<Stamp, String> {
        let digits = |text: &&String| text.len() == 32 && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
        let writer = Some(&self.writer).filter(digits).and_then(|text| u128::from_str_radix(text, 16).ok());
        let writer = writer.ok_or_else(|| {
            let found = printable_up_to(&self.writer, 40);
            format!("has the writer '{found}', which is not 32 lower-case hexadecimal digits")
        })?;
        let beat = u64::try_from(self.beat).ok().filter(|beat| *beat > 0);
        let beat = beat.ok_or_else(|| format!("has the beat {}, which must be 1 at least", self.beat))?;
        Ok(Stamp { writer, beat })
    }
}

/// The warning of a server whose replicas may lack what it has acknowledged.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn replicas_lag(replicas: u64, remedy: &str) -> String {
    format!(
        "it has {}, and a commit waits for none: a failover may lose the last writes; {remedy}",
        counted(replicas, "replica")
    )
}

/// How a writer stands in the table.
pub(super) fn writer_column(stamp: Stamp) -> String {
    format!("{:032x}", stamp.writer)
}

/// How a beat stands there.
pub(super) fn beat_column(stamp: Stamp) -> i64 {
    i64::try_from(stamp.beat).unwrap_or(i64::MAX)
}

/// Records in a database. The thread ends when this is dropped.
pub(super) struct SqlRecords {
    shared: Arc<Shared>,
    runtime: Handle,
    /// Never sent: the thread hears of its end.
    _end: oneshot::Sender<()>,
}

/// What calls have in common.
struct Shared {
    server: Box<dyn RecordServer>,
    deadline: Duration,
    idle: Mutex<Vec<Idle>>,
    places: Arc<Semaphore>,
    refused: Mutex<Option<(Instant, RecordStoreError)>>,
}

/// A connection that nobody uses.
struct Idle {
    connection: Box<dyn RecordConnection>,
    since: Instant,
}

/// A connection that a call uses, and its place.
struct Lent {
    connection: Box<dyn RecordConnection>,
    /// Whether it was opened before this call.
    was_idle: bool,
    _place: OwnedSemaphorePermit,
}

impl SqlRecords {
    /// # Errors
    ///
    /// A sentence: there is no thread to be had.
    pub(super) fn new(server: Box<dyn RecordServer>, deadline: Duration) -> Result<SqlRecords, String> {
        let failed = |error: io::Error| format!("no thread could be made for '{}': {error}", server.shown());
        let places = Arc::new(Semaphore::new(server.connections_max()));
        let (end, ended) = oneshot::channel::<()>();
        let (ready, is_ready) = mpsc::sync_channel(1);
        let run = move || {
            // Made here, as it may not be dropped on a thread that has one of its own, which the caller may be.
            let runtime = match io_threads::blocking_runtime() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _ = ready.send(Ok(runtime.handle().clone()));
            runtime.block_on(async {
                // It ends with an error: nothing is ever sent.
                let _ = ended.await;
            });
        };
        threads::spawn("getid-records", run).map_err(failed)?;
        let handle = is_ready.recv().map_err(io::Error::other).and_then(|made| made).map_err(failed)?;
        let shared = Shared { server, deadline, idle: Mutex::default(), places, refused: Mutex::default() };
        Ok(SqlRecords { shared: Arc::new(shared), runtime: handle, _end: end })
    }

    /// Has `work` done on the thread.
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
    /// What ends a connection may need its runtime.
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        lock(&self.shared.idle).clear();
    }
}

impl RecordStore for SqlRecords {
    fn shown(&self) -> &str {
        self.shared.server.shown()
    }

    fn read<'a>(&'a self, key: &'a Key) -> records::Answer<'a, Option<Row>> {
        let (shared, key) = (Arc::clone(&self.shared), key.clone());
        let work = async move {
            let found = shared.ask(move |connection| connection.read(key.clone())).await?;
            row_of(found)
        };
        Box::pin(self.run(work, RecordStoreError::Away))
    }

    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> records::Answer<'a, Listed> {
        let (shared, range) = (Arc::clone(&self.shared), Range::new(prefix, after, limit));
        Box::pin(self.run(async move { shared.list(range).await }, RecordStoreError::Away))
    }

    fn write<'a>(&'a self, key: &'a Key, expect: Option<Stamp>, new: &'a Row) -> records::Answer<'a, Written> {
        let (shared, key, new) = (Arc::clone(&self.shared), key.clone(), new.clone());
        Box::pin(self.run(async move { shared.write(key, expect.into(), new).await }, RecordStoreError::Unknown))
    }

    fn mend<'a>(&'a self, key: &'a Key, bad: &'a BadRow, new: &'a Row) -> records::Answer<'a, bool> {
        let (shared, key, new) = (Arc::clone(&self.shared), key.clone(), new.clone());
        let expect = Expected::Row { writer: bad.writer.clone(), beat: bad.beat };
        let work = async move {
            match shared.write(key, expect, new).await {
                Ok(written) => Ok(written == Written::Done),
                // It is another one by now.
                Err(RecordStoreError::Damaged(_)) => Ok(false),
                Err(error) => Err(error),
            }
        };
        Box::pin(self.run(work, RecordStoreError::Unknown))
    }

    fn schema(&self) -> String {
        self.shared.server.schema().to_owned()
    }

    fn about(&self) -> records::Answer<'_, About> {
        let shared = Arc::clone(&self.shared);
        let work = async move {
            let lent = shared.lend(Instant::now() + shared.deadline).await?;
            let about = lent.connection.about().clone();
            shared.put_back(lent);
            Ok(about)
        };
        Box::pin(self.run(work, RecordStoreError::Away))
    }
}

impl Shared {
    /// Asks for what changes nothing. Where a connection was cut while nobody used it, another one is asked.
    async fn ask<T>(
        self: &Arc<Self>,
        question: impl for<'c> Fn(&'c mut dyn RecordConnection) -> Answer<'c, T>,
    ) -> Result<T, RecordStoreError> {
        let end = Instant::now() + self.deadline;
        loop {
            let mut lent = self.lend(end).await?;
            match timeout_at(end, question(&mut *lent.connection)).await {
                Ok(Err(StoreError::Unknown(_))) if lent.was_idle => {}
                Ok(Err(StoreError::Unknown(said))) => return Err(RecordStoreError::Away(said)),
                Ok(answer) => {
                    self.put_back(lent);
                    return answer.map_err(|error| RecordStoreError::Refused(error.to_string()));
                }
                Err(_) => return Err(RecordStoreError::Away(self.late("has not answered"))),
            }
        }
    }

    /// Lists until there are as many records as were asked for, or no more rows.
    async fn list(self: &Arc<Self>, mut range: Range) -> Result<Listed, RecordStoreError> {
        let (limit, mut listed) = (range.limit, Listed::default());
        loop {
            let asked = range.clone();
            let rows = self.ask(move |connection| connection.list(asked.clone())).await?;
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

    async fn write(self: &Arc<Self>, key: Key, expect: Expected, new: Row) -> Result<Written, RecordStoreError> {
        may_be_written(&key, &new)?;
        let end = Instant::now() + self.deadline;
        let mut lent = self.lend(end).await?;
        match timeout_at(end, lent.connection.write(key.clone(), expect, new)).await {
            Ok(Ok(true)) => {
                self.put_back(lent);
                return Ok(Written::Done);
            }
            Ok(Ok(false)) => {}
            Ok(Err(StoreError::Refused(said))) => {
                self.put_back(lent);
                return Err(RecordStoreError::Refused(said));
            }
            Ok(Err(StoreError::Unknown(said))) => return Err(RecordStoreError::Unknown(said)),
            Err(_) => return Err(RecordStoreError::Unknown(self.late("has not answered"))),
        }
        // It was not done, whatever becomes of the question why.
        match timeout_at(end, lent.connection.read(key)).await {
            Ok(Ok(found)) => {
                self.put_back(lent);
                row_of(found).map(Written::Conflict)
            }
            Ok(Err(StoreError::Refused(said))) => {
                self.put_back(lent);
                Err(RecordStoreError::Refused(said))
            }
            Ok(Err(StoreError::Unknown(said))) => Err(RecordStoreError::Away(said)),
            Err(_) => Err(RecordStoreError::Away(self.late("has not answered"))),
        }
    }

    /// A connection that is free, or a new one.
    async fn lend(self: &Arc<Self>, end: Instant) -> Result<Lent, RecordStoreError> {
        let Ok(Ok(place)) = timeout_at(end, Arc::clone(&self.places).acquire_owned()).await else {
            return Err(RecordStoreError::Away(self.late("has answered on none of its connections")));
        };
        if let Some(connection) = self.take_idle() {
            return Ok(Lent { connection, was_idle: true, _place: place });
        }
        if let Some((at, error)) = &*lock(&self.refused)
            && at.elapsed() < REFUSED
        {
            return Err(error.clone());
        }
        let (told, opened) = oneshot::channel();
        tokio::spawn(Arc::clone(self).connect(place, told));
        match timeout_at(end, opened).await {
            Ok(Ok(lent)) => lent,
            Ok(Err(_)) => Err(RecordStoreError::Away("the runtime ends".to_owned())),
            Err(_) => Err(RecordStoreError::Away(self.late("let nobody in"))),
        }
    }

    /// Opens a connection for who waits for it; if nobody does any more, for the next one.
    async fn connect(
        self: Arc<Self>,
        place: OwnedSemaphorePermit,
        told: oneshot::Sender<Result<Lent, RecordStoreError>>,
    ) {
        let connected = timeout(CONNECT, self.server.connect()).await;
        let connected = connected
            .unwrap_or_else(|_| Err(RecordStoreError::Away(format!("it let nobody in for {} s", CONNECT.as_secs()))));
        if let Err(error @ RecordStoreError::Refused(_)) = &connected {
            *lock(&self.refused) = Some((Instant::now(), error.clone()));
        }
        let lent = connected.map(|connection| Lent { connection, was_idle: false, _place: place });
        if let Err(Ok(lent)) = told.send(lent) {
            self.put_back(lent);
        }
    }

    fn take_idle(&self) -> Option<Box<dyn RecordConnection>> {
        let mut idle = lock(&self.idle);
        while let Some(Idle { connection, since }) = idle.pop() {
            if since.elapsed() < IDLE_MAX && !connection.has_ended() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection for the next call, and closes one that no call has needed for long: a database has but few.
    fn put_back(&self, lent: Lent) {
        let mut idle = lock(&self.idle);
        idle.retain(|idle| idle.since.elapsed() < IDLE_MAX);
        idle.push(Idle { connection: lent.connection, since: Instant::now() });
    }

    fn late(&self, what: &str) -> String {
        format!("{} {what} within {} ms", self.server.shown(), self.deadline.as_millis())
    }
}

/// The record in a row of its key.
fn row_of(found: Option<RawRecord>) -> Result<Option<Row>, RecordStoreError> {
    let found = found.map(RawRecord::parse).transpose().map_err(|bad| RecordStoreError::Damaged(Box::new(bad)))?;
    Ok(found.map(|(_, row)| row))
}

/// What no store takes is refused before it is sent, by the same words everywhere.
fn may_be_written(key: &Key, new: &Row) -> Result<(), RecordStoreError> {
    let bytes = new.text.len();
    if bytes > TEXT_BYTES_MAX {
        return Err(RecordStoreError::Refused(format!(
            "the record '{key}' has {bytes} bytes, must have at most {TEXT_BYTES_MAX}"
        )));
    }
    if new.text.contains('\0') {
        return Err(RecordStoreError::Refused(format!(
            "the record '{key}' has a NUL in it, which PostgreSQL never has"
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
