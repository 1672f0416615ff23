//! The connections to one store, and its health.
//!
//! A statement has a deadline. One without an answer by then may still be done, so it is not dropped but abandoned,
//! with its connection, until its end is known. With [`ABANDONED_MAX`] abandoned statements the store gets no other. An
//! unknown outcome makes the store count as down until it has answered a harmless query.
//!
//! Elsewhere: the statements, and the meaning of their answers.
//!
//! Invariant: `slots` has as many permits as there are connections that may be open and are not abandoned.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use getid_core::server::beat::{Credentials, Member};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, timeout};

use super::batcher::{BatchLimits, Batcher};
use getid_store::sql::{
    BATCH_MAX, Connection, CreateRequest, Reservation, Store, StoreError, StoreInfo, TableKind, Verdict, same_store,
};
use getid_system::clock::wall_unix_ms;
use getid_system::patience::patience;
use getid_text::plural::counted;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Time limit of a statement.
pub(super) const STATEMENT_DEADLINE: Duration = Duration::from_secs(2);

/// Time limit of opening a connection: a handshake, a login and some statements.
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Time limit of a client's request: some statements, and those of earlier requests, of which there may be thousands.
pub(super) const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// Maximum number of abandoned statements.
pub(super) const ABANDONED_MAX: usize = 4;

/// Maximum number of jobs that wait for one store: one of each client with the default `maxclients`. A job whose client
/// has timed out is not begun any more.
const JOBS_MAX: usize = 10_000;

/// Bounds of the creations that wait: the rows of one transaction, and as many waiting rows as jobs.
const CREATION_LIMITS: BatchLimits = BatchLimits { cost_max: BATCH_MAX, waiting_max: JOBS_MAX };

/// Answer to one reservation.
pub(super) type FetchAnswer = Result<Result<Reservation, Verdict>, StoreError>;

/// A running statement, with its connection.
pub(super) type RunningStatement<T> =
    Pin<Box<dyn Future<Output = (Box<dyn Connection>, Result<T, StoreError>)> + Send>>;

/// Health of a store.
#[derive(Clone, Debug)]
pub(super) enum Health {
    /// The store was not queried yet.
    Opening,
    /// The store answers.
    Up {
        /// Time since which it answers.
        since: Instant,
    },
    /// The store does not answer.
    Down {
        /// Time since which it does not answer.
        since: Instant,
        /// Address and error of the store.
        reason: Arc<str>,
    },
}

/// Queue of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobQueue {
    /// Jobs of clients' requests.
    Clients,
    /// Jobs for sequences whose values are being fetched.
    Fetches,
}

/// A store and its connections.
pub(super) struct StorePool {
    pub(super) index: u8,
    pub(super) store: Arc<dyn Store>,
    slots: Semaphore,
    /// Permit for clients' jobs, which run one by one, so that a connection is left for fetches.
    jobs: Semaphore,
    /// Permit for jobs of fetches, which do not wait for clients' jobs.
    fetch_jobs: Semaphore,
    jobs_waiting: AtomicUsize,
    /// Creations of rows that wait.
    pub(super) creations: Batcher<CreateRequest, FetchAnswer>,
    idle: Mutex<Vec<Box<dyn Connection>>>,
    health: Mutex<Health>,
    about: Mutex<Option<StoreReport>>,
    places: Arc<StoreUuids>,
    abandoned: Arc<AtomicUsize>,
    /// Notified when the store is to be probed.
    pub(super) probe: Notify,
    is_closed: AtomicBool,
    changed: watch::Sender<()>,
    /// This server's membership among those that share the store; `None` before the store has answered, or if it is not
    /// shared.
    member: Mutex<Option<Member>>,
    /// Time since which this server has known that the store lost its beats, until it has compared its notes.
    behind_since: Mutex<Option<Instant>>,
    held_since: Mutex<Option<Instant>>,
    /// Whether the notes could not be read when they were to be compared.
    pub(super) has_unread_notes: AtomicBool,
    pub(super) counts: StoreCounts,
}

/// The store behind the address of each pool: one store at two addresses would not be two.
#[derive(Default)]
pub(super) struct StoreUuids(Mutex<BTreeMap<u8, (String, String)>>);

impl StoreUuids {
    /// Notes the uuid of a pool's store. Fails if it is that of another pool.
    fn note(&self, index: u8, shown: &str, uuid: &str) -> Result<(), StoreError> {
        let mut places = lock(&self.0);
        let same = places.iter().find(|(other, (_, found))| **other != index && found == uuid && !uuid.is_empty());
        if let Some((_, (other, _))) = same {
            return Err(StoreError::Refused(same_store(shown, other, uuid)));
        }
        places.insert(index, (shown.to_owned(), uuid.to_owned()));
        Ok(())
    }
}

/// State found at the opening of a connection, and its time.
#[derive(Clone)]
struct StoreReport {
    about: Arc<StoreInfo>,
    at: Instant,
}

/// Counters of a store.
#[derive(Default)]
pub(super) struct StoreCounts {
    pub(super) statements: AtomicU64,
    pub(super) errors: AtomicU64,
    /// Duration of the slowest statement, ms.
    pub(super) slowest_ms: AtomicU64,
    pub(super) reserved: AtomicU64,
}

impl StorePool {
    pub(super) fn new(
        index: u8,
        store: Arc<dyn Store>,
        changed: watch::Sender<()>,
        places: Arc<StoreUuids>,
    ) -> StorePool {
        let connections = connections_of(&*store);
        StorePool {
            index,
            store,
            slots: Semaphore::new(connections),
            jobs: Semaphore::new(1),
            fetch_jobs: Semaphore::new(1),
            jobs_waiting: AtomicUsize::new(0),
            creations: Batcher::new(CREATION_LIMITS),
            idle: Mutex::default(),
            health: Mutex::new(Health::Opening),
            about: Mutex::default(),
            places,
            abandoned: Arc::default(),
            probe: Notify::new(),
            is_closed: AtomicBool::new(false),
            changed,
            member: Mutex::default(),
            behind_since: Mutex::default(),
            held_since: Mutex::default(),
            has_unread_notes: AtomicBool::new(false),
            counts: StoreCounts::default(),
        }
    }

    /// Returns the maximum number of open connections.
    pub(super) fn connections(&self) -> usize {
        connections_of(&*self.store)
    }

    pub(super) fn health(&self) -> Health {
        lock(&self.health).clone()
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(*lock(&self.health), Health::Up { .. })
    }

    /// Returns the error of a store that is down, with its address.
    pub(super) fn down(&self) -> Option<Arc<str>> {
        match &*lock(&self.health) {
            Health::Down { reason, .. } => Some(Arc::clone(reason)),
            Health::Opening | Health::Up { .. } => None,
        }
    }

    /// Returns what the store reported at the opening of the last connection.
    pub(super) fn about(&self) -> Option<Arc<StoreInfo>> {
        lock(&self.about).as_ref().map(|seen| Arc::clone(&seen.about))
    }

    /// Returns the store's clock, Unix ms: for a file this machine's, otherwise the clock reported at the opening of
    /// the last connection, advanced by the time since.
    pub(super) fn unix_ms(&self) -> Option<i64> {
        let seen = lock(&self.about).clone()?;
        if !self.store.is_shared() {
            return Some(wall_unix_ms());
        }
        let passed_ms = i64::try_from(seen.at.elapsed().as_millis()).unwrap_or(i64::MAX);
        Some(seen.about.unix_ms.saturating_add(passed_ms))
    }

    pub(super) fn abandoned(&self) -> usize {
        self.abandoned.load(Relaxed)
    }

    /// Acquires the permit for a connection, in fair order.
    pub(super) async fn slot(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        self.slots.acquire().await.map_err(|_| closed())
    }

    /// Acquires all permits, so that nothing else runs in the store.
    pub(super) async fn all_slots(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let all = u32::try_from(self.connections()).unwrap_or(1);
        self.slots.acquire_many(all).await.map_err(|_| closed())
    }

    /// Returns this server's membership. Must not be held across an await of a statement.
    pub(super) fn member(&self) -> MutexGuard<'_, Option<Member>> {
        lock(&self.member)
    }

    /// Returns how long this server has known that the store lost its beats; zero if it did not.
    pub(super) fn behind_for(&self, is_behind: bool) -> Duration {
        lasting(&self.behind_since, is_behind)
    }

    /// Returns how long nothing has been reserved though the store answers; zero if values can be reserved.
    pub(super) fn held_for(&self) -> Duration {
        lasting(&self.held_since, self.held().is_some())
    }

    /// Returns the credentials that a reservation must have. `Ok(None)`: the store is this server's own. `Err`: nothing
    /// may be reserved now.
    pub(super) fn credentials(&self) -> Result<Option<Credentials>, StoreError> {
        if !self.store.is_shared() {
            return Ok(None);
        }
        let credentials = lock(&self.member).as_ref().and_then(Member::credentials);
        credentials.map(Some).ok_or_else(|| StoreError::Refused(self.held_text()))
    }

    /// Returns why nothing is reserved though the store answers; `None` if values can be reserved.
    pub(super) fn held(&self) -> Option<Arc<str>> {
        let is_held = self.store.is_shared() && !lock(&self.member).as_ref().is_some_and(Member::is_cleared);
        is_held.then(|| self.held_text().into())
    }

    fn held_text(&self) -> String {
        let shown = self.store.shown();
        let awaited = lock(&self.member).as_ref().map(Member::awaited).unwrap_or_default();
        let Some(first) = awaited.first() else {
            if self.has_unread_notes.load(Relaxed) {
                return format!(
                    "{shown}: it may have lost writes, and the notes of this server (sequence-notes-N.sqlite in its dir) \
                     cannot be read; the log has the reason"
                );
            }
            return format!("{shown}: its servers have not compared their notes yet; try again");
        };
        let others = match awaited.len() - 1 {
            0 => String::new(),
            more => format!(" and {}", counted(more as u64, "other")),
        };
        format!(
            "{shown}: it may have lost writes, and the server '{}'{others} has not compared its notes yet. Start it; if \
             it never runs again, SEQUENCE STORES CONFIRM {} removes it",
            first.address, first.nonce
        )
    }

    /// Runs one statement of a client's request, after earlier ones.
    pub(super) async fn run_job<T: Send + 'static>(
        &self,
        work: impl FnOnce(Box<dyn Connection>) -> RunningStatement<T>,
    ) -> Result<T, StoreError> {
        self.run_queued(JobQueue::Clients, work).await
    }

    /// Runs one statement, after earlier ones of its queue.
    pub(super) async fn run_queued<T: Send + 'static>(
        &self,
        queue: JobQueue,
        work: impl FnOnce(Box<dyn Connection>) -> RunningStatement<T>,
    ) -> Result<T, StoreError> {
        let job = self.job(queue).await?;
        self.run(&job.slot, work).await
    }

    /// Waits for the turn of a job, after earlier ones of its queue.
    pub(super) async fn job(&self, queue: JobQueue) -> Result<Job<'_>, StoreError> {
        if let Some(reason) = self.down() {
            return Err(StoreError::Refused(reason.to_string()));
        }
        let waiting = WaitingJobGuard::join(&self.jobs_waiting);
        if queue == JobQueue::Clients && waiting.before >= JOBS_MAX {
            return Err(self.busy(JOBS_MAX));
        }
        let jobs = match queue {
            JobQueue::Clients => &self.jobs,
            JobQueue::Fetches => &self.fetch_jobs,
        };
        let since = Instant::now();
        let turn = jobs.acquire().await.map_err(|_| closed())?;
        if since.elapsed() >= REQUEST_DEADLINE {
            return Err(self.late());
        }
        // So that jobs behind an unanswered statement do not wait for one each.
        if let Some(reason) = self.down() {
            return Err(StoreError::Refused(reason.to_string()));
        }
        Ok(Job { slot: self.slot().await?, _turn: turn, _waiting: waiting })
    }

    /// Returns the error of a request for which too many others wait.
    pub(super) fn busy(&self, waiting: usize) -> StoreError {
        StoreError::Refused(format!("{}: {waiting} other requests wait for it", self.store.shown()))
    }

    /// Returns the error of a request whose turn did not come in time.
    pub(super) fn late(&self) -> StoreError {
        let shown = self.store.shown();
        StoreError::Refused(format!("{shown}: its turn did not come within {} s", REQUEST_DEADLINE.as_secs()))
    }

    /// Runs one statement, with a deadline.
    ///
    /// An error contains the store's address. After [`StoreError::Unknown`] the connection is gone.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        _slot: &SemaphorePermit<'_>,
        work: impl FnOnce(Box<dyn Connection>) -> RunningStatement<T>,
    ) -> Result<T, StoreError> {
        let idle = lock(&self.idle).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        self.counts.statements.fetch_add(1, Relaxed);
        let began = Instant::now();
        let running = work(connection);
        let answer = match self.bounded(patience(STATEMENT_DEADLINE), running).await {
            Ok((connection, answer)) => {
                let answer = self.learn_uuid(&*connection).and(answer);
                if !matches!(answer, Err(StoreError::Unknown(_))) && !self.is_closed.load(Relaxed) {
                    lock(&self.idle).push(connection);
                }
                answer
            }
            Err(error) => Err(error),
        };
        let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.counts.slowest_ms.fetch_max(took_ms, Relaxed);
        answer.map_err(|error| self.failed(error))
    }

    /// Takes over the uuid of a file, which has one once a statement has made the file.
    fn learn_uuid(&self, connection: &dyn Connection) -> Result<(), StoreError> {
        if let Some(seen) = &mut *lock(&self.about)
            && seen.about.uuid.is_empty()
            && !connection.info().uuid.is_empty()
        {
            seen.about = Arc::new(connection.info().clone());
            self.places.note(self.index, self.store.shown(), &seen.about.uuid)?;
        }
        Ok(())
    }

    /// Opens a connection, if none is idle.
    pub(super) async fn ensure_connected(&self, _slot: &SemaphorePermit<'_>) -> Result<(), StoreError> {
        if lock(&self.idle).is_empty() {
            let connection = self.connect().await?;
            lock(&self.idle).push(connection);
        }
        Ok(())
    }

    async fn connect(&self) -> Result<Box<dyn Connection>, StoreError> {
        let store = Arc::clone(&self.store);
        let opening = async move { store.connect().await };
        let opened = self.bounded(CONNECT_DEADLINE, opening).await.and_then(|opened| opened);
        let connection = opened.map_err(|error| self.failed(error))?;
        self.places
            .note(self.index, self.store.shown(), &connection.info().uuid)
            .map_err(|error| self.failed(error))?;
        let about = Arc::new(connection.info().clone());
        *lock(&self.about) = Some(StoreReport { about, at: Instant::now() });
        Ok(connection)
    }

    /// Waits for a statement, and abandons it after its deadline.
    async fn bounded<T: Send + 'static>(
        &self,
        deadline: Duration,
        running: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.abandoned() >= ABANDONED_MAX {
            return Err(StoreError::Refused(format!(
                "{ABANDONED_MAX} statements have not been answered, and no other is sent before one of them ends"
            )));
        }
        let mut task = tokio::spawn(running);
        match timeout(deadline, &mut task).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_panicked)) => {
                Err(StoreError::Unknown("the statement's task panicked; please report the log lines above".to_owned()))
            }
            Err(_) => {
                self.abandoned.fetch_add(1, Relaxed);
                let abandoned = Arc::clone(&self.abandoned);
                tokio::spawn(async move {
                    // Its connection ends with it.
                    let _ = task.await;
                    abandoned.fetch_sub(1, Relaxed);
                });
                Err(StoreError::Unknown(format!("no answer within {} ms", deadline.as_millis())))
            }
        }
    }

    /// Counts an error, and adds the store's address.
    fn failed(&self, error: StoreError) -> StoreError {
        self.counts.errors.fetch_add(1, Relaxed);
        let shown = self.store.shown();
        let with_address = |reason: String| if reason.contains(shown) { reason } else { format!("{shown}: {reason}") };
        match error {
            StoreError::Refused(reason) => StoreError::Refused(with_address(reason)),
            StoreError::Locked(reason) => StoreError::Locked(with_address(reason)),
            StoreError::Unknown(reason) => {
                let reason = with_address(reason);
                self.set_down(&reason);
                StoreError::Unknown(reason)
            }
        }
    }

    /// Marks the store as down, and has it probed at once.
    pub(super) fn set_down(&self, reason: &str) {
        // The idle connections are probably dead as well.
        lock(&self.idle).clear();
        if let Some(member) = &mut *lock(&self.member) {
            member.doubt();
        }
        let mut health = lock(&self.health);
        let since = match &*health {
            Health::Down { since, .. } => *since,
            Health::Opening | Health::Up { .. } => Instant::now(),
        };
        *health = Health::Down { since, reason: reason.into() };
        drop(health);
        self.changed.send_replace(());
        self.probe.notify_one();
    }

    /// Closes the idle connections, which may lead to another instance of the database.
    pub(super) fn drop_idle(&self) {
        lock(&self.idle).clear();
    }

    /// Marks the store as up.
    pub(super) fn set_up(&self) {
        let mut health = lock(&self.health);
        if !matches!(*health, Health::Up { .. }) {
            *health = Health::Up { since: Instant::now() };
            drop(health);
            self.changed.send_replace(());
        }
    }

    /// Closes all connections, and opens no more.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Relaxed);
        self.slots.close();
        self.jobs.close();
        self.fetch_jobs.close();
        self.creations.close();
        lock(&self.idle).clear();
    }

    /// Returns true if values can be given back to the store, and its rows have all of getid's columns.
    pub(super) fn is_native(&self) -> bool {
        self.store.table() == TableKind::Native
    }
}

/// Returns how long a condition has lasted, from the first call in which it held.
fn lasting(since: &Mutex<Option<Instant>>, is_so: bool) -> Duration {
    let mut since = lock(since);
    *since = is_so.then(|| since.unwrap_or_else(Instant::now));
    since.map_or(Duration::ZERO, |since| since.elapsed())
}

fn connections_of(store: &dyn Store) -> usize {
    store.connections_max().clamp(1, 2)
}

/// Returns the error of a request to a server that stops.
pub(super) fn closed() -> StoreError {
    StoreError::Refused("the server stops".to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The turn of a job, with a connection.
pub(super) struct Job<'a> {
    pub(super) slot: SemaphorePermit<'a>,
    _turn: SemaphorePermit<'a>,
    _waiting: WaitingJobGuard<'a>,
}

/// Counts a waiting job, for as long as it lives.
struct WaitingJobGuard<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl WaitingJobGuard<'_> {
    fn join(count: &AtomicUsize) -> WaitingJobGuard<'_> {
        WaitingJobGuard { count, before: count.fetch_add(1, Relaxed) }
    }
}

impl Drop for WaitingJobGuard<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}
