//! What this server had of each row of a store, so that a store that went back is noticed.
//!
//! A database that fails over may lose what it had committed, and a backup may be put back. Only the servers that had
//! the values can tell. So each reservation is noted here, by the store's own uuid, after the commit that it names and
//! before a value of it is given; a row that is found lower than its note is refused. A row that is missing although it
//! was noted is not begun at its start.
//!
//! The notes are a SQLite file in `dir`, and each note is on disk before a value is given. Where they cannot be written
//! sequences go on, and the log reports it: the store must lose its own writes as well for harm to come of it. A SQLite
//! store of this server's own that is restored together with these notes is not noticed.
//!
//! Of a shared store the notes also have the beats of all servers ([`getid_core::beat`]).
//!
//! Of a store that is the only one it is noted too, by name alone, which counters of generators were begun: their rows
//! are begun without being asked for.
//!
//! Invariant: a note is never above what its row had when it was written, and is lowered before values are given back.

use getid_core::Key;
use getid_core::beat::{Nonce, NotedServer};

use crate::sql::{NotedRow, Row};
#[cfg(feature = "sqlite")]
use crate::system::patience::patience;

/// A reservation, as it is noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Had {
    pub(super) key: Key,
    /// The row's `next` before.
    pub(super) found_next: i64,
    /// And after.
    pub(super) next: i64,
    pub(super) generation: u64,
    pub(super) created_unix_ms: i64,
    /// The row's increment and offset, if there are several stores.
    pub(super) lane: Option<(u32, u32)>,
}

impl Had {
    /// The note of a row whose `next` was `found_next` before. `has_lanes`: there are several stores.
    pub(super) fn of(row: &Row, found_next: i64, has_lanes: bool) -> Had {
        Had {
            key: row.key.clone(),
            found_next,
            next: row.next,
            generation: row.generation,
            created_unix_ms: row.created_unix_ms,
            lane: has_lanes.then_some((row.spec.increment, row.spec.offset)),
        }
    }
}

/// This server in a store: its nonce, and the highest beat that it knows of.
pub(super) type OwnBeat = (Nonce, u64);

/// A page of notes of rows.
#[derive(Default)]
pub(super) struct NotedPage {
    pub(super) rows: Vec<NotedRow>,
    /// The key at which it ends; `None`: there are no more.
    pub(super) last: Option<String>,
}

/// The notes of a server.
#[derive(Clone, Default)]
pub struct Notes {
    #[cfg(feature = "sqlite")]
    file: Option<std::sync::Arc<file::NotesFile>>,
}

#[cfg(not(feature = "sqlite"))]
#[expect(clippy::unused_async, reason = "the other ones wait for their file")]
impl Notes {
    /// See the other one.
    pub fn file_name(server_id: u32) -> String {
        format!("sequence-notes-{server_id}.sqlite")
    }

    /// There is no store that needs them.
    pub fn in_file(_path: std::path::PathBuf) -> Notes {
        Notes::default()
    }

    /// See the other one.
    pub(super) async fn check(&self, _uuid: &str, had: Vec<Had>, _own: Option<OwnBeat>) -> Vec<Option<i64>> {
        vec![None; had.len()]
    }

    /// See the other one.
    pub async fn note_row(&self, _uuid: &str, _row: &Row) -> bool {
        true
    }

    /// See the other one.
    pub(super) async fn servers(&self, _uuid: &str) -> (Option<OwnBeat>, Vec<NotedServer>) {
        (None, Vec::new())
    }

    /// See the other one.
    pub(super) async fn note_servers(&self, _uuid: &str, _own: OwnBeat, _others: Vec<NotedServer>) -> bool {
        true
    }

    /// See the other one.
    pub(super) async fn rows_after(&self, _uuid: &str, _after: &str) -> Option<NotedPage> {
        Some(NotedPage::default())
    }

    /// See the other one.
    pub(super) async fn lower(&self, _uuid: &str, _to: Vec<(Key, i64)>) -> bool {
        true
    }

    /// See the other one.
    pub(super) async fn highest(&self, keys: Vec<Key>) -> Vec<i64> {
        vec![0; keys.len()]
    }

    /// See the other one.
    pub(super) async fn lanes(&self, _uuid: &str, _key: Key, _generation: u64) -> Vec<(u32, u32)> {
        Vec::new()
    }

    /// See the other one.
    pub(super) async fn begun(&self, keys: Vec<Key>) -> Vec<bool> {
        vec![false; keys.len()]
    }

    /// See the other one.
    pub(super) async fn begin(&self, _keys: Vec<Key>) -> bool {
        false
    }
}

#[cfg(feature = "sqlite")]
impl Notes {
    /// The file of a server's notes in its `dir`.
    pub fn file_name(server_id: u32) -> String {
        format!("sequence-notes-{server_id}.sqlite")
    }

    /// Notes in this file, which is made with the first of them.
    pub fn in_file(path: std::path::PathBuf) -> Notes {
        Notes { file: Some(std::sync::Arc::new(file::NotesFile::new(path))) }
    }

    /// Notes reservations of one store, and the beat of this server after them. For each row that is lower than what
    /// this server had of it: what that was.
    pub(super) async fn check(&self, uuid: &str, had: Vec<Had>, own: Option<OwnBeat>) -> Vec<Option<i64>> {
        let nothing = vec![None; had.len()];
        if had.is_empty() {
            return nothing;
        }
        let uuid = uuid.to_owned();
        self.on_file(move |file| file.check(&uuid, &had, own)).await.unwrap_or(nothing)
    }

    /// Notes a row that a tool has changed in a server's own file, so that the server notices if the file is replaced
    /// by an older one. Whether it is done.
    pub async fn note_row(&self, uuid: &str, row: &Row) -> bool {
        let (uuid, had) = (uuid.to_owned(), [Had::of(row, row.next, false)]);
        self.on_file(move |file| file.check(&uuid, &had, None)).await.is_some()
    }

    /// This server's nonce and beat in a store, and the other servers that it saw there. Without notes, or where they
    /// cannot be read, none: then it joins as a new server.
    pub(super) async fn servers(&self, uuid: &str) -> (Option<OwnBeat>, Vec<NotedServer>) {
        let uuid = uuid.to_owned();
        self.on_file(move |file| file.servers(&uuid)).await.unwrap_or_default()
    }

    /// Notes this server's beat in a store, and other servers; whether it is done. Without a file it is not needed.
    pub(super) async fn note_servers(&self, uuid: &str, own: OwnBeat, others: Vec<NotedServer>) -> bool {
        let uuid = uuid.to_owned();
        self.file.is_none() || self.on_file(move |file| file.note_servers(&uuid, own, &others)).await.is_some()
    }

    /// What this server had of the rows of a store, [`BATCH_MAX`] of them at most, in the order of their keys, behind
    /// the key `after`; `None`: the notes cannot be read.
    pub(super) async fn rows_after(&self, uuid: &str, after: &str) -> Option<NotedPage> {
        if self.file.is_none() {
            return Some(NotedPage::default());
        }
        let (uuid, after) = (uuid.to_owned(), after.to_owned());
        self.on_file(move |file| file.rows_after(&uuid, &after)).await
    }

    /// Lowers notes, before these values are given back; whether it is done.
    pub(super) async fn lower(&self, uuid: &str, to: Vec<(Key, i64)>) -> bool {
        let uuid = uuid.to_owned();
        self.file.is_none() || self.on_file(move |file| file.lower(&uuid, &to)).await.is_some()
    }

    /// For each of these: above all that this server has had of it, of whatever store and in whatever life; 0 where
    /// nothing is noted. Of several stores, a life begins above what the one before had of another.
    pub(super) async fn highest(&self, keys: Vec<Key>) -> Vec<i64> {
        let nothing = vec![0; keys.len()];
        if keys.is_empty() {
            return nothing;
        }
        self.on_file(move |file| file.highest(&keys)).await.unwrap_or(nothing)
    }

    /// Increments and offsets of a sequence's rows in other stores than this one; none if the own row has another
    /// generation than its note, because an ALTER changes the rows of all stores.
    pub(super) async fn lanes(&self, uuid: &str, key: Key, generation: u64) -> Vec<(u32, u32)> {
        let uuid = uuid.to_owned();
        self.on_file(move |file| file.lanes(&uuid, &key, generation)).await.unwrap_or_default()
    }

    /// For each of these counters, whether this server has ever had values of it; false as well where the notes cannot
    /// be read.
    pub(super) async fn begun(&self, keys: Vec<Key>) -> Vec<bool> {
        let nothing = vec![false; keys.len()];
        if keys.is_empty() {
            return nothing;
        }
        self.on_file(move |file| file.begun(&keys)).await.unwrap_or(nothing)
    }

    /// Notes that this server is about to have values of these counters; whether it is done.
    pub(super) async fn begin(&self, keys: Vec<Key>) -> bool {
        !keys.is_empty() && self.on_file(move |file| file.begin(&keys)).await.is_some()
    }

    /// Disks hang: not for long, and not on a thread that has other things to do.
    async fn on_file<T: Send + 'static>(
        &self,
        work: impl FnOnce(&file::NotesFile) -> Result<T, String> + Send + 'static,
    ) -> Option<T> {
        let file = std::sync::Arc::clone(self.file.as_ref()?);
        let done = {
            let file = std::sync::Arc::clone(&file);
            tokio::task::spawn_blocking(move || work(&file))
        };
        let deadline = patience(file::DEADLINE);
        let result = match tokio::time::timeout(deadline, done).await {
            Ok(Ok(result)) => result,
            Ok(Err(_panicked)) => Err("a bug; please report the lines above".to_owned()),
            Err(_) => Err(format!("no answer within {} ms", deadline.as_millis())),
        };
        match result {
            Ok(done) => {
                file.went_well();
                Some(done)
            }
            Err(said) => {
                file.complain(&said);
                None
            }
        }
    }
}

#[cfg(feature = "sqlite")]
mod file {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::Duration;

    use getid_core::Key;
    use getid_core::beat::{Nonce, NotedServer};
    use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

    use super::{Had, NotedPage, OwnBeat};
    use crate::sql::{BATCH_MAX, NotedRow};
    use crate::sync::{Mutex, PoisonError};

    /// How long one note may take. Unit tests wait longer: a machine that runs tests stops them for seconds.
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

    /// Periods of one name that are noted: a server goes on to the next, and never back.
    const PERIODS_KEPT: u32 = 8;

    pub(super) struct NotesFile {
        path: PathBuf,
        open: Mutex<Option<Connection>>,
        has_complained: AtomicBool,
    }

    impl NotesFile {
        pub(super) fn new(path: PathBuf) -> NotesFile {
            NotesFile { path, open: Mutex::default(), has_complained: AtomicBool::new(false) }
        }

        /// Once, until it went well again.
        pub(super) fn complain(&self, said: &str) {
            if !self.has_complained.swap(true, Relaxed) {
                tracing::error!(
                    "what this server had of sequences cannot be noted in '{}': {said}. They go on; should their store \
                     lose what it has committed meanwhile, nobody will notice",
                    self.path.display()
                );
            }
        }

        pub(super) fn went_well(&self) {
            if self.has_complained.swap(false, Relaxed) {
                tracing::warn!("what this server has of sequences is noted again in '{}'", self.path.display());
            }
        }

        pub(super) fn servers(&self, uuid: &str) -> Result<(Option<OwnBeat>, Vec<NotedServer>), String> {
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

        pub(super) fn note_servers(&self, uuid: &str, own: OwnBeat, others: &[NotedServer]) -> Result<(), String> {
            self.transact(|transaction| {
                let (nonce, beat) = (own.0.to_string(), column(own.1));
                // One of before, whose folder was copied, is another server from now on.
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

        pub(super) fn rows_after(&self, uuid: &str, after: &str) -> Result<NotedPage, String> {
            self.transact(|transaction| {
                let mut find = transaction.prepare_cached(
                    "SELECT key, next, generation, created FROM had WHERE store = ?1 AND key > ?2 ORDER BY key LIMIT ?3",
                )?;
                let mut rows = find.query(params![uuid, after, i64::try_from(BATCH_MAX).unwrap_or(i64::MAX)])?;
                let mut page = NotedPage::default();
                while let Some(row) = rows.next()? {
                    let text = row.get::<_, String>(0)?;
                    // One that this version cannot read is no end of the page.
                    if let Some(key) = Key::parse(&text) {
                        let generation = row.get::<_, i64>(2)?.unsigned_abs();
                        page.rows.push(NotedRow { key, next: row.get(1)?, generation, created_unix_ms: row.get(3)? });
                    }
                    page.last = Some(text);
                }
                Ok(page)
            })
        }

        pub(super) fn check(&self, uuid: &str, had: &[Had], own: Option<OwnBeat>) -> Result<Vec<Option<i64>>, String> {
            self.transact(|transaction| {
                if let Some((nonce, beat)) = own {
                    let raise = "UPDATE server SET beat = max(beat, ?3) WHERE store = ?1 AND nonce = ?2";
                    transaction.prepare_cached(raise)?.execute(params![uuid, nonce.to_string(), column(beat)])?;
                }
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
                    // One that was dropped and made anew, and not one that was lost and made again.
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
                    lower.push(had_next);
                }
                Ok(lower)
            })
        }

        pub(super) fn lower(&self, uuid: &str, to: &[(Key, i64)]) -> Result<(), String> {
            self.transact(|transaction| {
                let mut lower = transaction
                    .prepare_cached("UPDATE had SET next = ?3 WHERE store = ?1 AND key = ?2 AND next > ?3")?;
                to.iter().try_for_each(|(key, next)| lower.execute(params![uuid, key.as_str(), next]).map(drop))
            })
        }

        pub(super) fn highest(&self, keys: &[Key]) -> Result<Vec<i64>, String> {
            self.transact(|transaction| {
                let mut find = transaction.prepare_cached("SELECT coalesce(max(next), 0) FROM had WHERE key = ?1")?;
                keys.iter().map(|key| find.query_row(params![key.as_str()], |row| row.get(0))).collect()
            })
        }

        pub(super) fn lanes(&self, uuid: &str, key: &Key, generation: u64) -> Result<Vec<(u32, u32)>, String> {
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

        pub(super) fn begun(&self, keys: &[Key]) -> Result<Vec<bool>, String> {
            self.transact(|transaction| {
                let mut find = transaction.prepare_cached("SELECT 1 FROM begun WHERE name = ?1 AND period = ?2")?;
                keys.iter().map(|key| find.exists([key.name(), key.period()])).collect()
            })
        }

        pub(super) fn begin(&self, keys: &[Key]) -> Result<(), String> {
            self.transact(|transaction| {
                let mut put = transaction.prepare_cached("INSERT OR IGNORE INTO begun VALUES (?1, ?2)")?;
                // Periods of one reset are as long as each other, and in the order of their times.
                let mut forget = transaction.prepare_cached(
                    "DELETE FROM begun WHERE name = ?1 AND length(period) = length(?2) AND period NOT IN (SELECT period \
                     FROM begun WHERE name = ?1 AND length(period) = length(?2) ORDER BY period DESC LIMIT ?3)",
                )?;
                keys.iter().try_for_each(|key| {
                    put.execute([key.name(), key.period()])?;
                    forget.execute(params![key.name(), key.period(), PERIODS_KEPT]).map(drop)
                })
            })
        }

        fn transact<T>(&self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, String> {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let done = self.try_transact(&mut open, work);
            if done.is_err() {
                // Opened anew the next time: the file may be another one by then.
                *open = None;
            }
            done.map_err(|error| error.to_string())
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

    fn had(found_next: i64, next: i64, generation: u64, created_unix_ms: i64) -> Vec<Had> {
        let key = Key::new("orders").expect("a name");
        vec![Had { key, found_next, next, generation, created_unix_ms, lane: None }]
    }

    #[tokio::test]
    async fn a_row_below_its_note_is_told_in_another_life_too() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = || Notes::in_file(dir.path().join("notes"));
        let first = notes();
        assert_eq!(first.check("a", had(1, 101, 0, 5), None).await, [None]);
        assert_eq!(first.check("a", had(101, 201, 0, 5), None).await, [None]);
        drop(first);
        let second = notes();
        assert_eq!(second.check("a", had(101, 151, 0, 5), None).await, [Some(201)]);
        assert_eq!(second.check("b", had(1, 51, 0, 5), None).await, [None], "another store");
        assert_eq!(second.check("a", had(201, 301, 0, 5), None).await, [None], "it was raised past it");
        assert_eq!(second.check("a", had(300, 301, 1, 5), None).await, [Some(301)], "a raise does not lower");
    }

    #[tokio::test]
    async fn a_row_that_was_lost_and_made_again_is_told_and_one_that_was_dropped_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = Notes::in_file(dir.path().join("notes"));
        assert_eq!(notes.check("a", had(1, 101, 1, 5), None).await, [None]);
        assert_eq!(notes.check("a", had(1, 101, 0, 9), None).await, [Some(101)]);
        assert_eq!(notes.check("a", had(1, 51, 3, 9), None).await, [None]);
        assert_eq!(notes.check("a", had(1, 51, 3, 9), None).await, [Some(51)]);
    }

    /// A at 1, 3, 5 had up to 199 in another life, B at 2, 4, 6 up to 40: from B it must be 200, not 42.
    #[tokio::test]
    async fn of_several_stores_a_life_begins_above_all_that_was_had() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = || Notes::in_file(dir.path().join("notes"));
        assert_eq!(notes().check("a", had(1, 201, 0, 5), None).await, [None]);
        assert_eq!(notes().check("b", had(2, 42, 0, 5), None).await, [None]);
        let keys = || ["orders", "others"].map(|name| Key::new(name).expect("a name")).to_vec();
        assert_eq!(notes().highest(keys()).await, [201, 0]);
        assert_eq!(Notes::default().highest(keys()).await, [0, 0]);
    }

    #[tokio::test]
    async fn rows_of_other_stores_are_known_until_the_own_row_is_altered() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = Notes::in_file(dir.path().join("notes"));
        let orders = || Key::new("orders").expect("a name");
        for (store, lane) in [("a", (2, 1)), ("b", (2, 2))] {
            let had = had(1, 201, 4, 5).into_iter().map(|had| Had { lane: Some(lane), ..had }).collect();
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
        let notes = || Notes::in_file(dir.path().join("notes"));
        let keys = |texts: &[&str]| texts.iter().filter_map(|text| Key::parse(text)).collect::<Vec<_>>();
        let some = ["short", "invoice@20261122"];
        assert_eq!(notes().begun(keys(&some)).await, [false, false]);
        assert!(notes().begin(keys(&some)).await);
        assert!(notes().begin(keys(&some)).await, "twice");
        let asked = keys(&["invoice", "invoice@20261122", "invoice@20261123", "short", "short@20261122"]);
        assert_eq!(notes().begun(asked.clone()).await, [false, true, false, true, false]);
        assert_eq!(Notes::default().begun(asked).await, [false; 5]);
    }

    #[tokio::test]
    async fn the_newest_periods_of_a_name_are_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = Notes::in_file(dir.path().join("notes"));
        let hours: Vec<Key> = (0..24).filter_map(|hour| Key::parse(&format!("a@20261122{hour:02}"))).collect();
        let others: Vec<Key> = ["a", "a@2026", "b@2026112200"].into_iter().filter_map(Key::parse).collect();
        assert!(notes.begin(others.clone()).await);
        for hour in &hours {
            assert!(notes.begin(vec![hour.clone()]).await);
        }
        assert_eq!(notes.begun(others).await, [true; 3]);
        let kept = notes.begun(hours).await;
        assert_eq!(kept.iter().position(|is_kept| *is_kept), Some(16), "{kept:?}");
        assert!(kept[16..].iter().all(|is_kept| *is_kept), "{kept:?}");
    }

    #[tokio::test]
    async fn a_note_is_lowered_before_values_are_given_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let notes = Notes::in_file(dir.path().join("notes"));
        let orders = Key::new("orders").expect("a name");
        assert_eq!(notes.check("a", had(1, 101, 0, 5), None).await, [None]);
        assert!(notes.lower("a", vec![(orders.clone(), 40)]).await);
        assert_eq!(notes.check("a", had(40, 140, 0, 5), None).await, [None]);
        assert!(notes.lower("a", vec![(orders, 500)]).await, "a note is not raised by it");
        assert_eq!(notes.check("a", had(139, 240, 0, 5), None).await, [Some(140)]);
    }

    #[tokio::test]
    async fn notes_that_cannot_be_written_say_so_and_hold_nothing_up() {
        let notes = Notes::in_file("/nowhere/at/all".into());
        assert_eq!(notes.check("a", had(1, 101, 0, 5), None).await, [None]);
        let orders = || Key::new("orders").expect("a name");
        assert!(!notes.lower("a", vec![(orders(), 40)]).await);
        assert_eq!(notes.begun(vec![orders()]).await, [false]);
        assert!(!notes.begin(vec![orders()]).await);
    }
}
