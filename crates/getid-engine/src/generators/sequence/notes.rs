//! Notes about each row of a store, by which this server notices a store that went back.
//!
//! A database that fails over may lose commits, and a backup may be restored. Only the servers that had the values can
//! notice. So each reservation is noted here, by the store's own uuid, after its commit and before a value of it is
//! given. A row below its note is refused. A noted row that is missing is not begun at its start.
//!
//! Invariant: a note is never above its row at the time of the write, and is lowered before values are given back.

use getid_core::server::Key;
use getid_core::server::beat::{Nonce, NotedServer};

use getid_store::sql::{LedgerNote, NotedRow, SequenceRow};
#[cfg(feature = "sqlite")]
use getid_system::patience::patience;

/// A reservation to note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowNote {
    pub(super) key: Key,
    /// The row's `next` before the reservation.
    pub(super) found_next: i64,
    /// The row's `next` after the reservation.
    pub(super) next: i64,
    pub(super) generation: u64,
    pub(super) created_unix_ms: i64,
    /// The row's increment and offset, if there are several stores.
    pub(super) lane: Option<(u32, u32)>,
}

impl RowNote {
    /// Returns the note of a row whose `next` was `found_next` before. `has_lanes`: there are several stores.
    pub(super) fn of(row: &SequenceRow, found_next: i64, has_lanes: bool) -> RowNote {
        RowNote {
            key: row.key.clone(),
            found_next,
            next: row.next,
            generation: row.generation,
            created_unix_ms: row.created_unix_ms,
            lane: has_lanes.then_some((row.spec.increment, row.spec.offset)),
        }
    }
}

/// This server's nonce in a store, and its highest known beat.
pub(super) type OwnBeat = (Nonce, u64);

/// A page of notes of rows.
#[derive(Default)]
pub(super) struct NotedPage {
    pub(super) rows: Vec<NotedRow>,
    /// Key at which it ends; `None`: there are no more.
    pub(super) last: Option<String>,
}

/// The notes of a server: a SQLite file in `dir`. Each note is on disk before a value is given.
///
/// If notes cannot be written, sequences continue, and the log reports it: only a store that also loses its own writes
/// would then do harm. A SQLite store that is restored together with these notes is not noticed.
///
/// For a shared store the notes also contain the beats of all servers ([`getid_core::server::beat`]). For a single
/// store they also list by name which counters of generators were begun, since those rows are begun automatically.
#[derive(Clone, Default)]
pub struct SequenceNotes {
    #[cfg(feature = "sqlite")]
    file: Option<std::sync::Arc<file::NotesFile>>,
}

#[cfg(not(feature = "sqlite"))]
#[expect(clippy::unused_async, reason = "the other ones wait for their file")]
impl SequenceNotes {
    /// Returns the file name that notes would have.
    pub fn file_name(server_id: u32) -> String {
        format!("sequence-notes-{server_id}.sqlite")
    }

    /// Makes notes without a file: no store needs them.
    pub fn in_file(_path: std::path::PathBuf) -> SequenceNotes {
        SequenceNotes::default()
    }

    /// Notes nothing.
    pub(super) async fn check(&self, _uuid: &str, had: Vec<RowNote>, _own: Option<OwnBeat>) -> Vec<Option<i64>> {
        vec![None; had.len()]
    }

    /// Notes nothing.
    pub async fn note_row(&self, _uuid: &str, _row: &SequenceRow) -> bool {
        true
    }

    /// Returns no servers.
    pub(super) async fn servers(&self, _uuid: &str) -> (Option<OwnBeat>, Vec<NotedServer>) {
        (None, Vec::new())
    }

    /// Notes nothing.
    pub(super) async fn note_servers(&self, _uuid: &str, _own: OwnBeat, _others: Vec<NotedServer>) -> bool {
        true
    }

    /// Returns an empty page.
    pub(super) async fn rows_after(&self, _uuid: &str, _after: &str) -> Option<NotedPage> {
        Some(NotedPage::default())
    }

    /// Lowers nothing.
    pub(super) async fn lower(&self, _uuid: &str, _to: Vec<(Key, i64)>) -> bool {
        true
    }

    /// Notes nothing.
    pub(super) async fn note_ledgers(
        &self,
        _uuid: &str,
        _ledgers: Vec<LedgerNote>,
        _had: Vec<RowNote>,
        _own: Option<OwnBeat>,
    ) {
    }

    /// Returns no ledgers.
    pub(super) async fn ledgers(&self, _uuid: &str) -> Option<Vec<LedgerNote>> {
        Some(Vec::new())
    }

    /// Returns 0 for each key.
    pub(super) async fn highest(&self, keys: Vec<Key>) -> Vec<i64> {
        vec![0; keys.len()]
    }

    /// Returns no lanes.
    pub(super) async fn lanes(&self, _uuid: &str, _key: Key, _generation: u64) -> Vec<(u32, u32)> {
        Vec::new()
    }

    /// Returns false for each key.
    pub(super) async fn begun(&self, keys: Vec<Key>) -> Vec<bool> {
        vec![false; keys.len()]
    }

    /// Notes nothing.
    pub(super) async fn begin(&self, _keys: Vec<Key>) -> bool {
        false
    }
}

#[cfg(feature = "sqlite")]
impl SequenceNotes {
    /// Returns the name of a server's notes file in its `dir`.
    pub fn file_name(server_id: u32) -> String {
        format!("sequence-notes-{server_id}.sqlite")
    }

    /// Makes notes in this file, which the first note creates.
    pub fn in_file(path: std::path::PathBuf) -> SequenceNotes {
        SequenceNotes { file: Some(std::sync::Arc::new(file::NotesFile::new(path))) }
    }

    /// Notes reservations of one store, and this server's beat after them. Returns the noted value for each row that is
    /// lower than its note.
    pub(super) async fn check(&self, uuid: &str, had: Vec<RowNote>, own: Option<OwnBeat>) -> Vec<Option<i64>> {
        let nothing = vec![None; had.len()];
        if had.is_empty() {
            return nothing;
        }
        let uuid = uuid.to_owned();
        self.on_file(move |file| file.check(&uuid, &had, own)).await.unwrap_or(nothing)
    }

    /// Notes a row that a tool has changed in a server's own file, so that the server notices if the file is replaced
    /// by an older one. Returns true if that succeeded.
    pub async fn note_row(&self, uuid: &str, row: &SequenceRow) -> bool {
        let (uuid, had) = (uuid.to_owned(), [RowNote::of(row, row.next, false)]);
        self.on_file(move |file| file.check(&uuid, &had, None)).await.is_some()
    }

    /// Returns this server's nonce and beat in a store, and the other servers it saw there. Without readable notes it
    /// returns none, and the server joins as a new one.
    pub(super) async fn servers(&self, uuid: &str) -> (Option<OwnBeat>, Vec<NotedServer>) {
        let uuid = uuid.to_owned();
        self.on_file(move |file| file.servers(&uuid)).await.unwrap_or_default()
    }

    /// Notes this server's beat in a store, and other servers. Returns true if that succeeded, or if there is no file,
    /// which then needs no note.
    pub(super) async fn note_servers(&self, uuid: &str, own: OwnBeat, others: Vec<NotedServer>) -> bool {
        let uuid = uuid.to_owned();
        self.file.is_none() || self.on_file(move |file| file.note_servers(&uuid, own, &others)).await.is_some()
    }

    /// Returns the notes of a store's rows, at most [`BATCH_MAX`], in the order of their keys, after the key `after`;
    /// `None` if the notes cannot be read.
    pub(super) async fn rows_after(&self, uuid: &str, after: &str) -> Option<NotedPage> {
        if self.file.is_none() {
            return Some(NotedPage::default());
        }
        let (uuid, after) = (uuid.to_owned(), after.to_owned());
        self.on_file(move |file| file.rows_after(&uuid, &after)).await
    }

    /// Lowers notes, before these values are given back. Returns true if that succeeded.
    pub(super) async fn lower(&self, uuid: &str, to: Vec<(Key, i64)>) -> bool {
        let uuid = uuid.to_owned();
        self.file.is_none() || self.on_file(move |file| file.lower(&uuid, &to)).await.is_some()
    }

    /// Notes changes of ledgers in one store, with the counters that they changed, and this server's beat after them.
    pub(super) async fn note_ledgers(
        &self,
        uuid: &str,
        ledgers: Vec<LedgerNote>,
        had: Vec<RowNote>,
        own: Option<OwnBeat>,
    ) {
        let uuid = uuid.to_owned();
        self.on_file(move |file| file.note_ledgers(&uuid, &ledgers, &had, own)).await;
    }

    /// Returns the notes of a store's ledgers, without counters; `None` if the notes cannot be read.
    pub(super) async fn ledgers(&self, uuid: &str) -> Option<Vec<LedgerNote>> {
        if self.file.is_none() {
            return Some(Vec::new());
        }
        let uuid = uuid.to_owned();
        self.on_file(move |file| file.ledgers(&uuid)).await
    }

    /// Returns for each key a value above all that this server has had of it, from any store in any life; 0 without a
    /// note. With several stores, a life begins above the values that the previous one had from another store.
    pub(super) async fn highest(&self, keys: Vec<Key>) -> Vec<i64> {
        let nothing = vec![0; keys.len()];
        if keys.is_empty() {
            return nothing;
        }
        self.on_file(move |file| file.highest(&keys)).await.unwrap_or(nothing)
    }

    /// Returns increments and offsets of a sequence's rows in other stores than this one. Returns none if the own row
    /// has another generation than its note, because an ALTER changes the rows of all stores.
    pub(super) async fn lanes(&self, uuid: &str, key: Key, generation: u64) -> Vec<(u32, u32)> {
        let uuid = uuid.to_owned();
        self.on_file(move |file| file.lanes(&uuid, &key, generation)).await.unwrap_or_default()
    }

    /// Returns for each counter whether this server has ever had values of it; false too if the notes cannot be read.
    pub(super) async fn begun(&self, keys: Vec<Key>) -> Vec<bool> {
        let nothing = vec![false; keys.len()];
        if keys.is_empty() {
            return nothing;
        }
        self.on_file(move |file| file.begun(&keys)).await.unwrap_or(nothing)
    }

    /// Notes that this server is about to have values of these counters. Returns true if that succeeded.
    pub(super) async fn begin(&self, keys: Vec<Key>) -> bool {
        !keys.is_empty() && self.on_file(move |file| file.begin(&keys)).await.is_some()
    }

    /// Runs work on the file with a deadline and on a blocking thread, since disks can hang.
    async fn on_file<T: Send + 'static>(
        &self,
        work: impl FnOnce(&file::NotesFile) -> rusqlite::Result<T> + Send + 'static,
    ) -> Option<T> {
        let file = std::sync::Arc::clone(self.file.as_ref()?);
        let done = {
            let file = std::sync::Arc::clone(&file);
            tokio::task::spawn_blocking(move || work(&file))
        };
        let deadline = patience(file::DEADLINE);
        let result = match tokio::time::timeout(deadline, done).await {
            Ok(Ok(result)) => result.map_err(NotesError::Sqlite),
            Ok(Err(_)) => Err(NotesError::Panicked),
            Err(_) => Err(NotesError::Late(deadline)),
        };
        match result {
            Ok(done) => {
                file.note_success();
                Some(done)
            }
            Err(reason) => {
                file.complain(&reason);
                None
            }
        }
    }
}

/// Reason why notes cannot be read or written.
#[cfg(feature = "sqlite")]
#[derive(Debug, thiserror::Error)]
enum NotesError {
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    #[error("the work on the notes panicked; please report the log lines above")]
    Panicked,
    #[error("no answer within {} ms", .0.as_millis())]
    Late(std::time::Duration),
}

#[cfg(feature = "sqlite")]
mod file {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::Duration;

    use getid_core::server::Key;
    use getid_core::server::beat::{Nonce, NotedServer};
    use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

    use super::{NotedPage, NotesError, OwnBeat, RowNote};
    use getid_store::sql::{BATCH_MAX, LedgerNote, NotedRow};
    use std::sync::{Mutex, PoisonError};

    /// Time limit of one note. Unit tests wait longer: a busy test machine can stop them for seconds.
    pub(super) const DEADLINE: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 1 });

    const SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS had (
  store      TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  next       INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  created    INTEGER NOT NULL,
  PRIMARY KEY (store, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lane (
  store      TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  increment  INTEGER NOT NULL,
  offset_    INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  PRIMARY KEY (store, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS server (
  store   TEXT    NOT NULL,
  nonce   TEXT    NOT NULL,
  beat    INTEGER NOT NULL,
  is_live INTEGER NOT NULL,
  is_own  INTEGER NOT NULL,
  address TEXT    NOT NULL,
  PRIMARY KEY (store, nonce)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ledger (
  store   TEXT    NOT NULL,
  name    TEXT    NOT NULL,
  changes INTEGER NOT NULL,
  PRIMARY KEY (store, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS begun (
  name   TEXT NOT NULL,
  period TEXT NOT NULL,
  PRIMARY KEY (name, period)
) STRICT, WITHOUT ROWID";

    const PUT_SERVER: &str = "\
INSERT INTO server (store, nonce, beat, is_live, is_own, address) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE
SET beat = max(beat, excluded.beat), is_live = excluded.is_live, is_own = excluded.is_own, address = excluded.address";

    fn column(number: u64) -> i64 {
        i64::try_from(number).unwrap_or(i64::MAX)
    }

    fn raise_beat(transaction: &Transaction<'_>, uuid: &str, own: Option<OwnBeat>) -> rusqlite::Result<()> {
        let Some((nonce, beat)) = own else { return Ok(()) };
        let raise = "UPDATE server SET beat = max(beat, ?3) WHERE store = ?1 AND nonce = ?2";
        transaction.prepare_cached(raise)?.execute(params![uuid, nonce.to_string(), column(beat)]).map(drop)
    }

    /// Number of noted periods of one name, and of each key of a name: a server moves only to later ones. A generator
    /// has at most `keys-max` keys, so its notes are bounded.
    const PERIODS_KEPT: u32 = 8;

    /// Removes the notes of older periods than the newest ones of a counter that is noted for the first time.
    fn forget_older(transaction: &Transaction<'_>, uuid: &str, key: &Key) -> rusqlite::Result<()> {
        let (owner, period) = (key.without_period(), key.period());
        if period.is_empty() {
            return Ok(());
        }
        // Periods of one reset begin with the same character, have the same length, and sort by time.
        let mut forget = transaction.prepare_cached(
            "DELETE FROM had WHERE store = ?1 AND key >= ?2 AND key < ?2 || '~' AND length(key) = ?3 AND key NOT IN \
             (SELECT key FROM had WHERE store = ?1 AND key >= ?2 AND key < ?2 || '~' AND length(key) = ?3 \
             ORDER BY key DESC LIMIT ?4)",
        )?;
        let alike = format!("{owner}@{}", period.get(..1).unwrap_or_default());
        let length = i64::try_from(key.as_str().len()).unwrap_or(i64::MAX);
        forget.execute(params![uuid, alike, length, PERIODS_KEPT]).map(drop)
    }

    pub(super) struct NotesFile {
        path: PathBuf,
        open: Mutex<Option<Connection>>,
        has_complained: AtomicBool,
    }

    impl NotesFile {
        pub(super) fn new(path: PathBuf) -> NotesFile {
            NotesFile { path, open: Mutex::default(), has_complained: AtomicBool::new(false) }
        }

        /// Logs an error once, until the notes work again.
        pub(super) fn complain(&self, reason: &NotesError) {
            if !self.has_complained.swap(true, Relaxed) {
                tracing::error!(
                    "reserved sequence values cannot be noted in '{}': {reason}. Sequences continue, but committed \
                     writes that their store loses meanwhile go unnoticed",
                    self.path.display()
                );
            }
        }

        pub(super) fn note_success(&self) {
            if self.has_complained.swap(false, Relaxed) {
                tracing::warn!("reserved sequence values are noted again in '{}'", self.path.display());
            }
        }

        pub(super) fn servers(&self, uuid: &str) -> rusqlite::Result<(Option<OwnBeat>, Vec<NotedServer>)> {
            self.transact(|transaction| {
                let mut find = transaction
                    .prepare_cached("SELECT nonce, beat, is_live, is_own, address FROM server WHERE store = ?1")?;
                let mut rows = find.query([uuid])?;
                let (mut own, mut others) = (None, Vec::new());
                while let Some(row) = rows.next()? {
                    let Some(nonce) = Nonce::parse(&row.get::<_, String>(0)?) else { continue };
                    let beat = row.get::<_, i64>(1)?.unsigned_abs();
                    if row.get(3)? {
                        own = Some((nonce, beat));
                    } else {
                        others.push(NotedServer { nonce, beat, is_live: row.get(2)?, address: row.get(4)? });
                    }
                }
                Ok((own, others))
            })
        }

        pub(super) fn note_servers(&self, uuid: &str, own: OwnBeat, others: &[NotedServer]) -> rusqlite::Result<()> {
            self.transact(|transaction| {
                let (nonce, beat) = (own.0.to_string(), column(own.1));
                // An earlier nonce, whose folder was copied, now counts as another server.
                let before = "UPDATE server SET is_own = 0 WHERE store = ?1 AND nonce <> ?2 AND is_own";
                transaction.prepare_cached(before)?.execute(params![uuid, nonce])?;
                transaction.prepare_cached(PUT_SERVER)?.execute(params![uuid, nonce, beat, true, true, ""])?;
                let mut put = transaction.prepare_cached(PUT_SERVER)?;
                others.iter().try_for_each(|other| {
                    let (nonce, beat) = (other.nonce.to_string(), column(other.beat));
                    put.execute(params![uuid, nonce, beat, other.is_live, false, other.address]).map(drop)
                })
            })
        }

        pub(super) fn rows_after(&self, uuid: &str, after: &str) -> rusqlite::Result<NotedPage> {
            self.transact(|transaction| {
                let mut find = transaction.prepare_cached(
                    "SELECT key, next, generation, created FROM had WHERE store = ?1 AND key > ?2 ORDER BY key LIMIT ?3",
                )?;
                let mut rows = find.query(params![uuid, after, i64::try_from(BATCH_MAX).unwrap_or(i64::MAX)])?;
                let mut page = NotedPage::default();
                while let Some(row) = rows.next()? {
                    let text = row.get::<_, String>(0)?;
                    // A key that cannot be parsed does not end the page.
                    if let Some(key) = Key::parse(&text) {
                        let generation = row.get::<_, i64>(2)?.unsigned_abs();
                        page.rows.push(NotedRow { key, next: row.get(1)?, generation, created_unix_ms: row.get(3)? });
                    }
                    page.last = Some(text);
                }
                Ok(page)
            })
        }

        pub(super) fn check(
            &self,
            uuid: &str,
            had: &[RowNote],
            own: Option<OwnBeat>,
        ) -> rusqlite::Result<Vec<Option<i64>>> {
            self.transact(|transaction| {
                raise_beat(transaction, uuid, own)?;
                let mut find = transaction
                    .prepare_cached("SELECT next, generation, created FROM had WHERE store = ?1 AND key = ?2")?;
                let mut put = transaction.prepare_cached(
                    "INSERT INTO had VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET next = excluded.next, \
                     generation = excluded.generation, created = excluded.created",
                )?;
                let mut put_lane = transaction.prepare_cached(
                    "INSERT INTO lane VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET increment = \
                     excluded.increment, offset_ = excluded.offset_, generation = excluded.generation",
                )?;
                let mut lower = Vec::with_capacity(had.len());
                for had in had {
                    let generation = i64::try_from(had.generation).unwrap_or(i64::MAX);
                    let noted = find
                        .query_row(params![uuid, had.key.as_str()], |row| {
                            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
                        })
                        .optional()?;
                    // A row that was dropped and created again, as opposed to one that was lost and created again.
                    let is_another = noted.is_some_and(|(_, noted_generation, noted_created)| {
                        generation > noted_generation && had.created_unix_ms != noted_created
                    });
                    let had_next = noted.map(|(next, ..)| next).filter(|next| had.found_next < *next && !is_another);
                    if had_next.is_none() {
                        put.execute(params![uuid, had.key.as_str(), had.next, generation, had.created_unix_ms])?;
                        if let Some((increment, offset)) = had.lane {
                            put_lane.execute(params![uuid, had.key.as_str(), increment, offset, generation])?;
                        }
                    }
                    if noted.is_none() {
                        forget_older(transaction, uuid, &had.key)?;
                    }
                    lower.push(had_next);
                }
                Ok(lower)
            })
        }

        /// Notes ledgers and their counters. A note never goes back: the store has marked what it has lost.
        pub(super) fn note_ledgers(
            &self,
            uuid: &str,
            ledgers: &[LedgerNote],
            had: &[RowNote],
            own: Option<OwnBeat>,
        ) -> rusqlite::Result<()> {
            self.transact(|transaction| {
                raise_beat(transaction, uuid, own)?;
                let mut put = transaction.prepare_cached(
                    "INSERT INTO ledger VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET \
                     changes = max(changes, excluded.changes)",
                )?;
                for ledger in ledgers {
                    put.execute(params![uuid, ledger.name, column(ledger.changes)])?;
                }
                let mut put = transaction.prepare_cached(
                    "INSERT INTO had VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET \
                     next = max(next, excluded.next), generation = excluded.generation, created = excluded.created",
                )?;
                let mut find = transaction.prepare_cached("SELECT 1 FROM had WHERE store = ?1 AND key = ?2")?;
                had.iter().try_for_each(|had| {
                    let generation = column(had.generation);
                    let is_new = !find.exists([uuid, had.key.as_str()])?;
                    put.execute(params![uuid, had.key.as_str(), had.next, generation, had.created_unix_ms])?;
                    if is_new { forget_older(transaction, uuid, &had.key) } else { Ok(()) }
                })
            })
        }

        pub(super) fn ledgers(&self, uuid: &str) -> rusqlite::Result<Vec<LedgerNote>> {
            self.transact(|transaction| {
                let mut find = transaction.prepare_cached("SELECT name, changes FROM ledger WHERE store = ?1")?;
                let notes = find.query_map([uuid], |row| {
                    let changes = row.get::<_, i64>(1)?.unsigned_abs();
                    Ok(LedgerNote { changes, ..LedgerNote::of(&row.get::<_, String>(0)?) })
                })?;
                let notes: Vec<LedgerNote> = notes.collect::<rusqlite::Result<_>>()?;
                // A name that is not a generator's is not written into SQL.
                Ok(notes.into_iter().filter(|note| Key::new(&note.name).is_some()).collect())
            })
        }

        pub(super) fn lower(&self, uuid: &str, to: &[(Key, i64)]) -> rusqlite::Result<()> {
            self.transact(|transaction| {
                let mut lower = transaction
                    .prepare_cached("UPDATE had SET next = ?3 WHERE store = ?1 AND key = ?2 AND next > ?3")?;
                to.iter().try_for_each(|(key, next)| lower.execute(params![uuid, key.as_str(), next]).map(drop))
            })
        }

        pub(super) fn highest(&self, keys: &[Key]) -> rusqlite::Result<Vec<i64>> {
            self.transact(|transaction| {
                // The stores are few, and the primary key begins with them: a search by the key alone reads all notes.
                let mut find = transaction.prepare_cached(
                    "WITH RECURSIVE stores (store) AS (SELECT min(store) FROM had UNION ALL \
                     SELECT (SELECT min(store) FROM had WHERE had.store > stores.store) FROM stores \
                     WHERE stores.store IS NOT NULL) SELECT coalesce(max(next), 0) FROM stores \
                     CROSS JOIN had ON had.store = stores.store AND had.key = ?1",
                )?;
                keys.iter().map(|key| find.query_row(params![key.as_str()], |row| row.get(0))).collect()
            })
        }

        pub(super) fn lanes(&self, uuid: &str, key: &Key, generation: u64) -> rusqlite::Result<Vec<(u32, u32)>> {
            let generation = i64::try_from(generation).unwrap_or(i64::MAX);
            self.transact(|transaction| {
                let mut find = transaction.prepare_cached(
                    "SELECT increment, offset_ FROM lane WHERE key = ?2 AND store <> ?1 AND EXISTS \
                     (SELECT 1 FROM lane WHERE store = ?1 AND key = ?2 AND generation = ?3)",
                )?;
                let found =
                    find.query_map(params![uuid, key.as_str(), generation], |row| Ok((row.get(0)?, row.get(1)?)))?;
                found.collect()
            })
        }

        pub(super) fn begun(&self, keys: &[Key]) -> rusqlite::Result<Vec<bool>> {
            self.transact(|transaction| {
                let mut find = transaction.prepare_cached("SELECT 1 FROM begun WHERE name = ?1 AND period = ?2")?;
                keys.iter().map(|key| find.exists([key.without_period(), key.period()])).collect()
            })
        }

        pub(super) fn begin(&self, keys: &[Key]) -> rusqlite::Result<()> {
            self.transact(|transaction| {
                let mut put = transaction.prepare_cached("INSERT OR IGNORE INTO begun VALUES (?1, ?2)")?;
                // Periods of one reset have the same length, and sort by time.
                let mut forget = transaction.prepare_cached(
                    "DELETE FROM begun WHERE name = ?1 AND substr(period, 1, 1) = substr(?2, 1, 1) AND period NOT IN \
                     (SELECT period FROM begun WHERE name = ?1 AND substr(period, 1, 1) = substr(?2, 1, 1) \
                     ORDER BY period DESC LIMIT ?3)",
                )?;
                keys.iter().try_for_each(|key| {
                    put.execute([key.without_period(), key.period()])?;
                    forget.execute(params![key.without_period(), key.period(), PERIODS_KEPT]).map(drop)
                })
            })
        }

        fn transact<T>(&self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let done = self.try_transact(&mut open, work);
            if done.is_err() {
                // It is reopened the next time, since the file may be another one by then.
                *open = None;
            }
            done
        }

        fn try_transact<T>(
            &self,
            open: &mut Option<Connection>,
            work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
        ) -> rusqlite::Result<T> {
            let connection = match open {
                Some(connection) => connection,
                None => open.insert(self.open_file()?),
            };
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        }

        fn open_file(&self) -> rusqlite::Result<Connection> {
            let connection = Connection::open(&self.path)?;
            connection.busy_timeout(DEADLINE / 2)?;
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.execute_batch(SCHEMA)?;
            Ok(connection)
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;

    fn had(found_next: i64, next: i64, generation: u64, created_unix_ms: i64) -> Vec<RowNote> {
        let key = Key::new("orders").expect("a name");
        vec![RowNote { key, found_next, next, generation, created_unix_ms, lane: None }]
    }

    #[tokio::test]
    async fn a_row_below_its_note_is_found_in_another_life_too() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = || SequenceNotes::in_file(dir.path().join("notes"));
        let first = notes();
        assert_eq!(first.check("a", had(1, 101, 0, 5), None).await, [None]);
        assert_eq!(first.check("a", had(101, 201, 0, 5), None).await, [None]);
        drop(first);
        let second = notes();
        assert_eq!(second.check("a", had(101, 151, 0, 5), None).await, [Some(201)]);
        assert_eq!(second.check("b", had(1, 51, 0, 5), None).await, [None], "another store");
        assert_eq!(second.check("a", had(201, 301, 0, 5), None).await, [None], "the row was raised past its note");
        assert_eq!(second.check("a", had(300, 301, 1, 5), None).await, [Some(301)], "a raise does not lower");
    }

    #[tokio::test]
    async fn a_row_that_was_lost_and_made_again_is_found_and_one_that_was_dropped_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = SequenceNotes::in_file(dir.path().join("notes"));
        assert_eq!(notes.check("a", had(1, 101, 1, 5), None).await, [None]);
        assert_eq!(notes.check("a", had(1, 101, 0, 9), None).await, [Some(101)]);
        assert_eq!(notes.check("a", had(1, 51, 3, 9), None).await, [None]);
        assert_eq!(notes.check("a", had(1, 51, 3, 9), None).await, [Some(51)]);
    }

    /// A at 1, 3, 5 had up to 199 in another life, B at 2, 4, 6 up to 40: from B it must be 200, not 42.
    #[tokio::test]
    async fn of_several_stores_a_life_begins_above_all_that_was_had() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = || SequenceNotes::in_file(dir.path().join("notes"));
        assert_eq!(notes().check("a", had(1, 201, 0, 5), None).await, [None]);
        assert_eq!(notes().check("b", had(2, 42, 0, 5), None).await, [None]);
        let keys = || ["orders", "others"].map(|name| Key::new(name).expect("a name")).to_vec();
        assert_eq!(notes().highest(keys()).await, [201, 0]);
        assert_eq!(SequenceNotes::default().highest(keys()).await, [0, 0]);
    }

    #[tokio::test]
    async fn rows_of_other_stores_are_known_until_the_own_row_is_altered() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = SequenceNotes::in_file(dir.path().join("notes"));
        let orders = || Key::new("orders").expect("a name");
        for (store, lane) in [("a", (2, 1)), ("b", (2, 2))] {
            let had = had(1, 201, 4, 5).into_iter().map(|had| RowNote { lane: Some(lane), ..had }).collect();
            assert_eq!(notes.check(store, had, None).await, [None]);
        }
        assert_eq!(notes.lanes("a", orders(), 4).await, [(2, 2)]);
        assert_eq!(notes.lanes("b", orders(), 4).await, [(2, 1)]);
        assert_eq!(notes.lanes("a", orders(), 5).await, [], "the own row was altered");
        assert_eq!(notes.lanes("c", orders(), 4).await, [], "the own row was never noted");
    }

    #[tokio::test]
    async fn a_counter_that_was_begun_is_known_in_another_life() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = || SequenceNotes::in_file(dir.path().join("notes"));
        let keys = |texts: &[&str]| texts.iter().filter_map(|text| Key::parse(text)).collect::<Vec<_>>();
        let some = ["short", "invoice@D20261122"];
        assert_eq!(notes().begun(keys(&some)).await, [false, false]);
        assert!(notes().begin(keys(&some)).await);
        assert!(notes().begin(keys(&some)).await, "twice");
        let asked = keys(&["invoice", "invoice@D20261122", "invoice@D20261123", "short", "short@D20261122"]);
        assert_eq!(notes().begun(asked.clone()).await, [false, true, false, true, false]);
        assert_eq!(SequenceNotes::default().begun(asked).await, [false; 5]);
    }

    #[tokio::test]
    async fn the_newest_periods_of_a_name_are_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = SequenceNotes::in_file(dir.path().join("notes"));
        let hours: Vec<Key> = (0..24).filter_map(|hour| Key::parse(&format!("a@H20261122T{hour:02}"))).collect();
        let others: Vec<Key> = ["a", "a@Y20260101", "b@H20261122T00"].into_iter().filter_map(Key::parse).collect();
        assert!(notes.begin(others.clone()).await);
        for hour in &hours {
            assert!(notes.begin(vec![hour.clone()]).await);
        }
        assert_eq!(notes.begun(others).await, [true; 3]);
        let kept = notes.begun(hours).await;
        assert_eq!(kept.iter().position(|is_kept| *is_kept), Some(16), "{kept:?}");
        assert!(kept[16..].iter().all(|is_kept| *is_kept), "{kept:?}");
    }

    /// CosId counts each day under a name of its own.
    #[tokio::test]
    async fn names_with_a_date_are_no_periods_of_one_counter() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = SequenceNotes::in_file(dir.path().join("notes"));
        let days: Vec<Key> = (10..30).filter_map(|day| Key::new(&format!("cosid:{{a@202611{day}}}.adder"))).collect();
        for key in &days {
            let had = RowNote { key: key.clone(), ..had(1, 101, 0, 5).swap_remove(0) };
            assert_eq!(notes.check("s", vec![had], None).await, [None]);
        }
        assert_eq!(notes.highest(days).await, [101; 20]);
    }

    /// Each key of a generator has its own newest periods, in both kinds of notes.
    #[tokio::test]
    async fn the_newest_periods_of_each_key_are_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = SequenceNotes::in_file(dir.path().join("notes"));
        let key = |text: &str| Key::parse(text).expect("a key");
        let of_month = |owner: &str, month: u32| key(&format!("{owner}@M2026{month:02}01"));
        let had = |key: &Key| RowNote { key: key.clone(), ..had(1, 101, 0, 5).swap_remove(0) };
        let others =
            ["a", "a@M20260101", "a/B@M20260101", "a/A-1@M20260101", "a/A@Y20200101", "a/A@Q20260101"].map(key);
        for key in &others {
            assert!(notes.begin(vec![key.clone()]).await);
            assert_eq!(notes.check("s", vec![had(key)], None).await, [None]);
        }
        let months: Vec<Key> = (1..=12).map(|month| of_month("a/A", month)).collect();
        for key in &months {
            assert!(notes.begin(vec![key.clone()]).await);
            assert_eq!(notes.check("s", vec![had(key)], None).await, [None]);
        }
        let newest: Vec<bool> = (1..=12).map(|month| month > 4).collect();
        assert_eq!(notes.begun(months.clone()).await, newest);
        assert_eq!(notes.highest(months).await.iter().map(|next| *next > 0).collect::<Vec<_>>(), newest);
        assert_eq!(notes.begun(others.to_vec()).await, [true; 6]);
        assert_eq!(notes.highest(others.to_vec()).await, [101; 6]);
    }

    #[tokio::test]
    async fn a_note_is_lowered_before_values_are_given_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = SequenceNotes::in_file(dir.path().join("notes"));
        let orders = Key::new("orders").expect("a name");
        assert_eq!(notes.check("a", had(1, 101, 0, 5), None).await, [None]);
        assert!(notes.lower("a", vec![(orders.clone(), 40)]).await);
        assert_eq!(notes.check("a", had(40, 140, 0, 5), None).await, [None]);
        assert!(notes.lower("a", vec![(orders, 500)]).await, "lower does not raise a note");
        assert_eq!(notes.check("a", had(139, 240, 0, 5), None).await, [Some(140)]);
    }

    #[tokio::test]
    async fn a_note_of_a_ledger_or_its_counter_is_not_lowered() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = || SequenceNotes::in_file(dir.path().join("notes"));
        let ledger = |name: &str, changes| LedgerNote { changes, ..LedgerNote::of(name) };
        notes().note_ledgers("a", vec![ledger("i", 7), ledger("it's", 9)], had(1, 101, 0, 5), None).await;
        notes().note_ledgers("a", vec![ledger("i", 3)], had(1, 51, 0, 5), None).await;
        let noted = notes().ledgers("a").await.expect("notes");
        assert_eq!(noted, [ledger("i", 7)], "a name that is no generator's is left out");
        assert_eq!(notes().ledgers("b").await, Some(Vec::new()), "another store");
        assert_eq!(notes().highest(vec![Key::new("orders").expect("a name")]).await, [101]);
    }

    #[tokio::test]
    async fn the_newest_counters_of_a_ledger_are_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = SequenceNotes::in_file(dir.path().join("notes"));
        let of_day = |day: u32| Key::parse(&format!("i/A@D202601{day:02}")).expect("a key");
        let others = ["i", "i/B@D20260101", "i@D20260101"].map(|text| Key::parse(text).expect("a key"));
        for key in others.iter().cloned().chain((1..=12).map(of_day)) {
            let had = vec![RowNote { key, ..had(1, 101, 0, 5).swap_remove(0) }];
            notes.note_ledgers("s", vec![LedgerNote { changes: 1, ..LedgerNote::of("i") }], had, None).await;
        }
        let kept = notes.highest((1..=12).map(of_day).collect()).await;
        assert_eq!(kept, [&[0; 4][..], &[101; 8]].concat());
        assert_eq!(notes.highest(others.to_vec()).await, [101; 3]);
    }

    #[tokio::test]
    async fn notes_that_cannot_be_written_report_it_and_delay_nothing() {
        let notes = SequenceNotes::in_file("/nowhere/at/all".into());
        assert_eq!(notes.check("a", had(1, 101, 0, 5), None).await, [None]);
        let orders = || Key::new("orders").expect("a name");
        assert!(!notes.lower("a", vec![(orders(), 40)]).await);
        assert_eq!(notes.begun(vec![orders()]).await, [false]);
        assert!(!notes.begin(vec![orders()]).await);
    }
}
