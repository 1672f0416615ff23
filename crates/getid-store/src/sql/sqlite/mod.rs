//! Sequences in a SQLite file of one server: the default store, which needs no setup.
//!
//! SQLite blocks for as long as the disk takes. So an open file lives on its own thread, and receives statements as
//! closures. A statement whose caller is gone is completed there, and its answer dropped.
//!
//! Invariant: one process at a time has the file open, and has it locked.

mod file;
mod records;
mod statements;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use getid_core::server::Key;
use tokio::sync::oneshot;

use self::file::SequenceFile;
pub(super) use self::records::SqliteRecords;
use super::connection::{ReserveLink, SqlConnection};
use super::packet::{Dialect, Failure, Link, LinkState, SentPacket, StatementResult, key_list};
use super::{Connection, Store, StoreError, StoreFuture, StoreInfo, TableKind};
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
        [statements::SCHEMA, statements::GENERATORS, statements::REQUESTS].concat()
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
            let link = SqliteLink { info, work: Some(work), is_closed, state: LinkState::Free };
            Ok(Box::new(SqlConnection::new(link)) as Box<dyn Connection>)
        })
    }
}

/// A closure that the thread runs.
type FileTask = Box<dyn FnOnce(&mut SequenceFile) + Send>;

/// A connection to the thread that has the file open.
struct SqliteLink {
    info: StoreInfo,
    /// `None` once the connection is being closed.
    work: Option<SyncSender<FileTask>>,
    /// Disconnected when the file is closed.
    is_closed: Receiver<()>,
    state: LinkState,
}

fn ended() -> StoreError {
    StoreError::Unknown("the thread of the SQLite file has ended".to_owned())
}

impl SqliteLink {
    /// Runs `statement` on the thread. A file that a statement created gets its uuid here.
    async fn on_thread<T: Send + 'static>(
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
            Some(Ok(())) => {}
            Some(Err(TrySendError::Full(_))) => {
                return Err(StoreError::Refused("the SQLite file is still executing an earlier statement".to_owned()));
            }
            Some(Err(TrySendError::Disconnected(_))) | None => return Err(ended()),
        }
        let (answer, uuid) = answer.await.unwrap_or_else(|_| Err(ended()))?;
        if let Some(uuid) = uuid {
            self.info.uuid = uuid;
        }
        Ok(answer)
    }
}

impl ReserveLink for SqliteLink {}

impl Dialect for SqliteLink {
    const IS_SHARED: bool = false;
    const BEGIN: &'static [&'static str] = statements::BEGIN;
    const NOW: &'static str = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)";
    const FOR_UPDATE: &'static str = "";
    const FOR_SHARE: &'static str = "";
    const BY_STATE: &'static str = " INDEXED BY getid_number_state";
    const UPDATES_BY_LIST: bool = true;
    const HAS_TOKENS: Option<&'static str> = Some("SELECT 1 FROM sqlite_schema WHERE name = 'tiny_id_token'");

    /// A comparison of several columns with a list would read all rows.
    fn rows_of<'a>(keys: impl Iterator<Item = &'a Key>) -> String {
        format!(
            "(SELECT '' AS of_name, '' AS of_series, '' AS of_period WHERE FALSE UNION ALL VALUES {}) \
             CROSS JOIN getid_sequence ON name = of_name AND series = of_series AND period = of_period",
            key_list(keys)
        )
    }

    fn text(text: &str) -> String {
        statements::text(text)
    }

    fn maximum_sql(_table: &str, _id: i64) -> Option<String> {
        None
    }
}

impl Link for SqliteLink {
    fn info(&self) -> &StoreInfo {
        &self.info
    }

    fn state(&mut self) -> &mut LinkState {
        &mut self.state
    }

    async fn send(&mut self, packet: SentPacket) -> Result<Vec<StatementResult>, Failure> {
        Ok(self.on_thread(move |file| file.run(&packet)).await?)
    }

    async fn backup(&mut self, to: &Path) -> Result<(), StoreError> {
        let to = to.to_owned();
        // A dropped connection does not wait for a backup whose answer was dropped.
        self.begin(LinkState::Free)?;
        let done = self.on_thread(move |file| file.backup(&to)).await;
        if !matches!(done, Err(StoreError::Unknown(_))) {
            self.state = LinkState::Free;
        }
        done
    }
}

impl Drop for SqliteLink {
    /// Waits until the file is closed, so that a process may end and the next connection finds it free. It does not
    /// wait while a statement is outstanding, because the disk may hang.
    fn drop(&mut self) {
        self.work = None;
        if self.state != LinkState::Busy {
            // Nothing is ever sent: the wait ends when the sender is dropped, or after the time.
            let _ = self.is_closed.recv_timeout(CLOSE);
        }
    }
}
