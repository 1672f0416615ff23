//! Sequences in a SQLite file of one server: the default store, which needs no setup.
//!
//! SQLite blocks for as long as the disk takes. So an open file lives on its own thread, and receives statements as
//! closures. A statement whose caller is gone is completed there, and its answer dropped.
//!
//! Not here: operations on the file (`file`), its statements (`rows`), and changes of a row (`native`).
//!
//! Invariant: one process at a time has the file open, and has it locked.

mod file;
mod records;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use getid_core::server::Key;
use getid_core::server::beat::Credentials;
use tokio::sync::oneshot;

use self::file::SequenceFile;
pub(super) use self::records::SqliteRecords;
use super::{
    BegunPeriod, Changes, Connection, CreateRequest, Generator, GiveBackRequest, OpenPeriodRequest, PruneRequest,
    PruneResult, Reservations, ReserveRequest, RowChange, RowPage, SequenceRow, Store, StoreError, StoreFuture,
    StoreInfo, TableKind, Token, Verdict,
};
use getid_system::files::FileId;
use getid_system::threads;

/// Longest wait of a dropped connection for its file to close: the log is moved into the file then, which takes a few
/// writes.
const CLOSE: Duration = Duration::from_secs(1);

/// A file with sequences.
pub(super) struct SqliteStore {
    path: PathBuf,
    shown: String,
    /// Identity of the file when it was first opened. Another one in its place may be an old copy.
    seen: Arc<OnceLock<FileId>>,
}

impl SqliteStore {
    pub(super) fn new(path: PathBuf) -> SqliteStore {
        SqliteStore { shown: format!("sqlite:{}", path.display()), path, seen: Arc::default() }
    }
}

impl Store for SqliteStore {
    fn shown(&self) -> &str {
        &self.shown
    }

    fn table(&self) -> TableKind {
        TableKind::Native
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn connections_max(&self) -> usize {
        1
    }

    fn schema(&self) -> String {
        format!("{}{}", rows::SCHEMA, rows::GENERATORS)
    }

    fn connect(&self) -> StoreFuture<'_, Box<dyn Connection>> {
        let (path, seen) = (self.path.clone(), self.seen.clone());
        Box::pin(async move {
            let (opened, answer) = oneshot::channel();
            let (work, todo) = sync_channel::<FileTask>(1);
            let (closed, is_closed) = sync_channel::<()>(1);
            let run = move || {
                match SequenceFile::open(&path, seen) {
                    Err(error) => drop(opened.send(Err(error))),
                    // If the caller is gone, the file is closed again.
                    Ok((mut file, info)) => {
                        if opened.send(Ok(info)).is_ok() {
                            for work in todo {
                                work(&mut file);
                            }
                        }
                        file.close();
                    }
                }
                drop(closed);
            };
            let no_thread = |error| StoreError::Refused(format!("cannot start a thread for '{}': {error}", self.shown));
            threads::spawn("getid-sqlite", run).map_err(no_thread)?;
            let info = answer.await.unwrap_or_else(|_| Err(ended()))?;
            let connection = SqliteConnection { info, work: Some(work), is_closed, is_busy: false };
            Ok(Box::new(connection) as Box<dyn Connection>)
        })
    }
}

/// A closure that the thread runs.
type FileTask = Box<dyn FnOnce(&mut SequenceFile) + Send>;

/// A connection to the thread that has the file open.
struct SqliteConnection {
    info: StoreInfo,
    /// `None` once the connection is being closed.
    work: Option<SyncSender<FileTask>>,
    /// Disconnected when the file is closed.
    is_closed: Receiver<()>,
    /// Whether a statement was sent and its answer is outstanding or was dropped.
    is_busy: bool,
}

fn ended() -> StoreError {
    StoreError::Unknown("the thread of the SQLite file has ended".to_owned())
}

impl SqliteConnection {
    /// Runs `statement` on the thread. A file that a statement created gets its uuid here.
    async fn run<T: Send + 'static>(
        &mut self,
        statement: impl FnOnce(&mut SequenceFile) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (done, answer) = oneshot::channel();
        let is_unnamed = self.info.uuid.is_empty();
        let work: FileTask = Box::new(move |file| {
            let answer = statement(file);
            let uuid = if is_unnamed { file.uuid() } else { None };
            drop(done.send(answer.map(|answer| (answer, uuid))));
        });
        let sent = self.work.as_ref().map(|thread| thread.try_send(work));
        match sent {
            Some(Ok(())) => self.is_busy = true,
            Some(Err(TrySendError::Full(_))) => {
                return Err(StoreError::Refused("the SQLite file is still executing an earlier statement".to_owned()));
            }
            Some(Err(TrySendError::Disconnected(_))) | None => return Err(ended()),
        }
        let answer = answer.await.unwrap_or_else(|_| Err(ended()));
        self.is_busy = false;
        let (answer, uuid) = answer?;
        if let Some(uuid) = uuid {
            self.info.uuid = uuid;
        }
        Ok(answer)
    }
}

impl Connection for SqliteConnection {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn reserve_as<'a>(
        &'a mut self,
        _: Option<Credentials>,
        asks: &'a [ReserveRequest],
    ) -> StoreFuture<'a, Reservations> {
        let asks = asks.to_vec();
        Box::pin(self.run(move |file| Ok(Reservations { server: None, each: file.reserve(&asks)? })))
    }

    fn give_back<'a>(&'a mut self, _: Option<Credentials>, ends: &'a [GiveBackRequest]) -> StoreFuture<'a, Vec<bool>> {
        let ends = ends.to_vec();
        Box::pin(self.run(move |file| file.give_back(&ends)))
    }

    fn create_all<'a>(&'a mut self, new: &'a [CreateRequest]) -> StoreFuture<'a, Vec<Result<SequenceRow, Verdict>>> {
        let new = new.to_vec();
        Box::pin(self.run(move |file| file.create_all(&new)))
    }

    fn change<'a>(&'a mut self, key: &'a Key, change: &'a RowChange) -> StoreFuture<'a, Result<SequenceRow, Verdict>> {
        let (key, change) = (key.clone(), change.clone());
        Box::pin(self.run(move |file| file.change(&key, &change)))
    }

    fn row<'a>(&'a mut self, key: &'a Key) -> StoreFuture<'a, Option<SequenceRow>> {
        let key = key.clone();
        Box::pin(self.run(move |file| file.row(&key)))
    }

    fn list<'a>(&'a mut self, after: &'a str, limit: u32, periods: bool) -> StoreFuture<'a, RowPage> {
        let after = after.to_owned();
        Box::pin(self.run(move |file| file.list(&after, limit, periods)))
    }

    fn count(&mut self) -> StoreFuture<'_, u64> {
        Box::pin(self.run(SequenceFile::count))
    }

    fn changes(&mut self, seen: Option<u64>) -> StoreFuture<'_, Changes> {
        Box::pin(self.run(move |file| file.changes(seen)))
    }

    fn generators<'a>(&'a mut self, names: Option<&'a [String]>) -> StoreFuture<'a, Vec<Generator>> {
        let names = names.map(<[String]>::to_vec);
        Box::pin(self.run(move |file| file.generators(names.as_deref())))
    }

    fn open_period<'a>(&'a mut self, ask: &'a OpenPeriodRequest) -> StoreFuture<'a, Result<Generator, Verdict>> {
        let ask = ask.clone();
        Box::pin(self.run(move |file| file.open_period(&ask)))
    }

    fn begin_periods<'a>(&'a mut self, begun: &'a [BegunPeriod]) -> StoreFuture<'a, ()> {
        let begun = begun.to_vec();
        Box::pin(self.run(move |file| file.begin_periods(&begun)))
    }

    fn prune<'a>(&'a mut self, ask: &'a PruneRequest) -> StoreFuture<'a, Result<PruneResult, Verdict>> {
        let ask = ask.clone();
        Box::pin(self.run(move |file| file.prune(&ask)))
    }

    fn backup<'a>(&'a mut self, to: &'a Path) -> StoreFuture<'a, ()> {
        let to = to.to_owned();
        Box::pin(self.run(move |file| file.backup(&to)))
    }

    fn tokens(&mut self) -> StoreFuture<'_, Option<Vec<Token>>> {
        Box::pin(self.run(SequenceFile::tokens))
    }
}

impl Drop for SqliteConnection {
    /// Waits until the file is closed, so that a process may end and the next connection finds it free. It does not
    /// wait while a statement is outstanding, because the disk may hang.
    fn drop(&mut self) {
        self.work = None;
        if !self.is_busy {
            // Nothing is ever sent: the wait ends when the sender is dropped, or after the time.
            let _ = self.is_closed.recv_timeout(CLOSE);
        }
    }
}
