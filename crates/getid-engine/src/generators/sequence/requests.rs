//! Request keys in the store: lookups and claims that arrive together share a statement and a commit, and requests that
//! have ended are removed.
//!
//! A lookup needs only the store's answer. A claim also needs this server's credentials, as a reservation does, so that
//! nothing is claimed in a store that may have lost writes.
//!
//! Elsewhere: what a claim decides ([`getid_core::server::request_key`]), and the draw before it.
//!
//! Invariant: a claim is answered only after its transaction is committed.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use getid_core::server::request_key::{ClaimVerdict, RequestRow, RequestScope};
use tokio::time::{Instant, sleep};

use super::Sequences;
use super::batcher::{BatchError, BatchLimits, Batcher, Replies};
use super::pool::{STATEMENT_DEADLINE, StorePool};
use getid_store::sql::{ClaimBatch, ClaimResult, Connection, REQUESTS_MAX, StoreError, TableKind};
use getid_system::clock::wall_unix_ms;
use getid_text::plural::thousands;

/// Cost of a request without its reply, bytes: a statement has its texts as hexadecimal digits in MySQL.
const COST_BYTES: usize = 512;

/// Bounds of a batch: [`REQUESTS_MAX`] requests, or 128 KiB of replies. MySQL accepts a statement of 1 MiB.
const LIMITS: BatchLimits = BatchLimits { cost_max: REQUESTS_MAX * COST_BYTES, waiting_max: 10_000 };

/// Interval at which ended requests are removed.
const REMOVED_EVERY: Duration = Duration::from_mins(1);

/// Most removals in one interval, each of some hundreds of requests.
const REMOVALS_MAX: u32 = 100;

/// Share of `request-max` at which a warning is logged, in percent.
const WARNED_PERCENT: u64 = 80;

/// Returns true if so many requests are close enough to `request-max` for a warning.
pub fn is_near_request_max(requests: u64, max: u64) -> bool {
    requests.saturating_mul(100) >= max.saturating_mul(WARNED_PERCENT)
}

/// Reason why a request is not looked up or claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// There are several stores, and no row in one of them is known to the others.
    SeveralStores {
        /// Number of stores.
        stores: usize,
    },
    /// The store has tables of Leaf or Tinyid.
    ForeignTable,
    /// Too many requests wait for the store.
    Busy {
        /// Number of requests that wait.
        waiting: usize,
    },
    /// The store has not answered in time, and nothing was done.
    Late,
    /// The store has refused: its error.
    Refused(Arc<str>),
    /// The outcome is unknown: the error of the store, or empty.
    Unknown(Arc<str>),
    /// The server stops.
    Closed,
}

impl RequestError {
    fn from_batch(error: BatchError) -> RequestError {
        match error {
            BatchError::Busy { waiting } => RequestError::Busy { waiting },
            BatchError::Late => RequestError::Late,
            BatchError::Unknown => RequestError::Unknown(Arc::default()),
            BatchError::Closed => RequestError::Closed,
        }
    }

    fn from_store(error: &StoreError, shown: &str) -> RequestError {
        let reason = error.to_string();
        let reason = if reason.contains(shown) { reason } else { format!("{shown}: {reason}") };
        match error {
            StoreError::Refused(_) | StoreError::Locked(_) => RequestError::Refused(reason.into()),
            StoreError::Unknown(_) => RequestError::Unknown(reason.into()),
        }
    }
}

/// The text of an error reply, without `-`.
impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::SeveralStores { stores } => write!(
                f,
                "ERR REQUEST needs a single 'sequence-store', and this server has {stores}: with several of them no store \
                 knows all requests"
            ),
            RequestError::ForeignTable => f.write_str(
                "ERR REQUEST needs getid's own tables (sequence-table native): those of Leaf and Tinyid keep no requests",
            ),
            RequestError::Busy { waiting } => {
                write!(f, "BUSY {} requests wait for the store already: repeat this one", thousands(*waiting as u64))
            }
            RequestError::Late => f.write_str("BUSY the store has not answered in time: repeat the request"),
            RequestError::Refused(reason) => write!(f, "MISCONF sequence store {reason}"),
            RequestError::Unknown(reason) if reason.is_empty() => {
                f.write_str("MISCONF the store has not answered in time. Repeat the request: it gets its ids")
            }
            RequestError::Unknown(reason) => {
                write!(f, "MISCONF sequence store {reason}. Repeat the request: it gets its ids")
            }
            RequestError::Closed => f.write_str("ERR server is shutting down"),
        }
    }
}

/// Status of request keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestsStatus {
    /// Number of requests in the store, as this server last read it.
    pub kept: u64,
    /// Number of requests of the generator or sequence with the most.
    pub kept_most: u64,
    /// Largest number of requests of one generator or sequence (`request-max`).
    pub max: u64,
    /// Number of requests that were answered with the IDs of an earlier one.
    pub found: u64,
    /// Number of requests that were kept with new IDs.
    pub made: u64,
    /// Number of requests that got an error from the store, or had other arguments.
    pub refused: u64,
    /// Number of ended requests that this server has removed.
    pub removed: u64,
}

type LookupOutcome = Result<Option<RequestRow>, RequestError>;
type ClaimOutcome = Result<ClaimVerdict, RequestError>;

/// The queues of request keys, and their counters.
pub(super) struct RequestKeys {
    lookups: Batcher<RequestScope, LookupOutcome>,
    claims: Batcher<RequestRow, ClaimOutcome>,
    /// Number of requests of each generator or sequence.
    kept: Mutex<HashMap<String, KeptRequests>>,
    found: AtomicU64,
    made: AtomicU64,
    refused: AtomicU64,
    removed: AtomicU64,
}

/// Requests of a generator or sequence.
struct KeptRequests {
    requests: u64,
    /// Whether the log has a warning that they are near the maximum.
    is_warned: bool,
}

impl Default for RequestKeys {
    fn default() -> RequestKeys {
        RequestKeys {
            lookups: Batcher::new(LIMITS),
            claims: Batcher::new(LIMITS),
            kept: Mutex::default(),
            found: AtomicU64::default(),
            made: AtomicU64::default(),
            refused: AtomicU64::default(),
            removed: AtomicU64::default(),
        }
    }
}

impl RequestKeys {
    /// Refuses all requests from now on.
    pub(super) fn close(&self) {
        self.lookups.close();
        self.claims.close();
    }

    fn count<'a, T>(&'a self, outcome: &Result<T, RequestError>, counter: impl FnOnce(&T) -> Option<&'a AtomicU64>) {
        let counter = outcome.as_ref().map_or(Some(&self.refused), counter);
        if let Some(counter) = counter {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Notes the number of requests of a name. Logs when it gets near the maximum. A warning that `may_warn` holds back
    /// follows at the next number.
    fn note_kept(&self, name: &str, requests: u64, max: u64, may_warn: impl FnOnce() -> bool) {
        let is_near = is_near_request_max(requests, max);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let was_warned = kept.get(name).is_some_and(|kept| kept.is_warned);
        let warns = is_near && !was_warned && may_warn();
        let now = KeptRequests { requests, is_warned: is_near && (was_warned || warns) };
        if let Some(kept) = kept.get_mut(name) {
            *kept = now;
        } else {
            kept.insert(name.to_owned(), now);
        }
        drop(kept);
        if warns {
            let (requests, max) = (thousands(requests), thousands(max));
            tracing::warn!(
                "'{name}' has {requests} kept requests (REQUEST), and 'request-max' allows {max}: further ones are \
                 refused then. Use a shorter FOR, or raise 'request-max'"
            );
        }
    }
}

impl Sequences {
    /// Looks a request up in the store.
    ///
    /// # Errors
    ///
    /// [`RequestError`]: the store cannot keep requests, or fails.
    pub async fn find_request(&self, scope: RequestScope) -> LookupOutcome {
        let found = async {
            self.check_request_store()?;
            let owner = scope.owner().to_owned();
            let call = self.requests.lookups.call(&owner, COST_BYTES, scope, self.request_deadline());
            call.await.unwrap_or_else(|error| Err(RequestError::from_batch(error)))
        };
        let found = found.await;
        self.requests.count(&found, |_| None);
        found
    }

    /// Claims a request for the reply of a row, whose times are those of this machine's clock.
    ///
    /// # Errors
    ///
    /// [`RequestError`]: the store cannot keep requests, or fails, or its writes are in doubt.
    pub async fn claim_request(&self, row: RequestRow) -> ClaimOutcome {
        let claimed = async {
            self.check_request_store()?;
            let (owner, cost) = (row.scope.owner().to_owned(), COST_BYTES + row.reply.len());
            let call = self.requests.claims.call(&owner, cost, row, self.request_deadline());
            call.await.unwrap_or_else(|error| Err(RequestError::from_batch(error)))
        };
        let claimed = claimed.await;
        self.note_verdict(&claimed);
        claimed
    }

    /// Checks that a claim can succeed now, so that nothing is drawn for one that cannot.
    ///
    /// # Errors
    ///
    /// [`RequestError`]: the store cannot keep requests, or its writes are in doubt.
    pub fn check_can_claim(&self) -> Result<(), RequestError> {
        self.check_request_store()?;
        let Some(pool) = self.pools.first() else { return Ok(()) };
        pool.credentials().map(drop).map_err(|error| RequestError::from_store(&error, pool.store.shown()))
    }

    /// Returns the maximum of kept requests if the generator or sequence has reached it, as this server knows it. So
    /// most refused requests draw nothing; a claim decides.
    pub fn full_of_requests(&self, name: &str) -> Option<u64> {
        let max = self.settings().requests_max;
        let kept = self.requests.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(name).is_some_and(|kept| kept.requests >= max).then_some(max)
    }

    /// Counts the answer to a request that was looked up or claimed.
    pub fn note_verdict(&self, verdict: &ClaimOutcome) {
        let RequestKeys { found, made, refused, .. } = &self.requests;
        self.requests.count(verdict, |verdict| match verdict {
            ClaimVerdict::Made { .. } => Some(made),
            ClaimVerdict::Found { .. } => Some(found),
            ClaimVerdict::OtherArguments | ClaimVerdict::TooMany { .. } => Some(refused),
        });
    }

    /// Returns the status of request keys.
    pub fn requests_status(&self) -> RequestsStatus {
        let RequestKeys { kept, found, made, refused, removed, .. } = &self.requests;
        let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        RequestsStatus {
            kept: kept.values().map(|kept| kept.requests).sum(),
            kept_most: kept.values().map(|kept| kept.requests).max().unwrap_or(0),
            max: self.settings().requests_max,
            found: found.load(Relaxed),
            made: made.load(Relaxed),
            refused: refused.load(Relaxed),
            removed: removed.load(Relaxed),
        }
    }

    /// Checks whether the stores can keep requests.
    fn check_request_store(&self) -> Result<(), RequestError> {
        match &self.pools[..] {
            [pool] if pool.store.table() == TableKind::Native => Ok(()),
            [_] => Err(RequestError::ForeignTable),
            pools => Err(RequestError::SeveralStores { stores: pools.len() }),
        }
    }

    fn request_deadline(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.wait_ms()) + STATEMENT_DEADLINE
    }

    /// Serves the queue of lookups.
    pub(super) async fn serve_lookups(self: Arc<Self>, pool: Arc<StorePool>) {
        loop {
            self.requests.lookups.ready().await;
            let own = Arc::clone(&self);
            let done = pool.run_job(move |mut connection| {
                Box::pin(async move {
                    let done = own.look_up(&mut *connection).await;
                    (connection, done)
                })
            });
            if let Err(error) = done.await {
                fail(&self.requests.lookups, &RequestError::from_store(&error, pool.store.shown()));
            }
        }
    }

    async fn look_up(&self, connection: &mut dyn Connection) -> Result<(), StoreError> {
        let Some((scopes, replies)) = self.requests.lookups.next() else { return Ok(()) };
        let found = connection.find_requests(&scopes).await;
        answer(found, scopes.len(), replies, self.shown())
    }

    /// Serves the queue of claims.
    pub(super) async fn serve_claims(self: Arc<Self>, pool: Arc<StorePool>) {
        loop {
            self.requests.claims.ready().await;
            let (own, of_pool) = (Arc::clone(&self), Arc::clone(&pool));
            let done = pool.run_job(move |mut connection| {
                Box::pin(async move {
                    let done = own.claim(&of_pool, &mut *connection).await;
                    (connection, done)
                })
            });
            if let Err(error) = done.await {
                fail(&self.requests.claims, &RequestError::from_store(&error, pool.store.shown()));
            }
        }
    }

    async fn claim(&self, pool: &StorePool, connection: &mut dyn Connection) -> Result<(), StoreError> {
        let Some((rows, replies)) = self.requests.claims.next() else { return Ok(()) };
        let server = match pool.credentials() {
            Ok(server) => server,
            Err(held) => {
                let count = rows.len();
                // The store answers, so this is no failure of the connection.
                let _ = answer::<ClaimVerdict>(Err(held), count, replies, self.shown());
                return Ok(());
            }
        };
        let names: Vec<String> = rows.iter().map(|row| row.scope.name().to_owned()).collect();
        let rows_max = self.settings().requests_max;
        let claimed = connection.claim_requests(server, &ClaimBatch { rows, rows_max }).await;
        let verdict = |(name, result): (&String, ClaimResult)| {
            self.requests.note_kept(name, result.requests, rows_max, || self.counts.may_warn(self.now_ms()));
            result.verdict
        };
        let claimed = claimed.map(|each| names.iter().zip(each).map(verdict).collect());
        answer(claimed, names.len(), replies, self.shown())
    }

    fn shown(&self) -> &str {
        self.pools.first().map_or("", |pool| pool.store.shown())
    }

    /// Removes ended requests from time to time, and reads the number of those that are kept.
    pub(super) async fn remove_requests_for_ever(self: Arc<Self>, pool: Arc<StorePool>) {
        let mut is_logged = false;
        loop {
            sleep(REMOVED_EVERY).await;
            if !pool.is_up() || pool.credentials().is_err() {
                continue;
            }
            let removed = self.remove_requests(&pool).await;
            match removed {
                Ok(()) => is_logged = false,
                Err(error) if !is_logged => {
                    is_logged = true;
                    let shown = pool.store.shown();
                    tracing::warn!(
                        "sequence store {shown}: ended requests (REQUEST) cannot be removed: {error}. The user needs the \
                         right to DELETE from getid_request"
                    );
                }
                Err(_) => {}
            }
        }
    }

    async fn remove_requests(&self, pool: &StorePool) -> Result<(), StoreError> {
        for _ in 0..REMOVALS_MAX {
            let removed = pool.run_job(|mut connection| {
                Box::pin(async move {
                    let removed = connection.remove_requests(wall_unix_ms()).await;
                    (connection, removed)
                })
            });
            let removed = removed.await?;
            self.requests.removed.fetch_add(removed, Relaxed);
            if removed == 0 {
                break;
            }
        }
        let counts = pool.run_job(|mut connection| {
            Box::pin(async move {
                let counts = connection.count_requests().await;
                (connection, counts)
            })
        });
        let (counts, max) = (counts.await?, self.settings().requests_max);
        let names: Vec<&String> = counts.iter().map(|(name, _)| name).collect();
        self.requests.kept.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| names.contains(&name));
        for (name, requests) in &counts {
            self.requests.note_kept(name, *requests, max, || self.counts.may_warn(self.now_ms()));
        }
        Ok(())
    }
}

/// Answers the requests of a batch. A failure is that of each of them, and is returned for the pool.
fn answer<T: Clone>(
    done: Result<Vec<T>, StoreError>,
    count: usize,
    replies: Replies<Result<T, RequestError>>,
    shown: &str,
) -> Result<(), StoreError> {
    match done {
        Ok(each) => {
            replies.send(each.into_iter().map(Ok));
            Ok(())
        }
        Err(error) => {
            replies.send(vec![Err(RequestError::from_store(&error, shown)); count]);
            Err(error)
        }
    }
}

/// Fails the waiting requests of a batch, which the store did not get.
fn fail<Ask, T: Clone>(batcher: &Batcher<Ask, Result<T, RequestError>>, error: &RequestError) {
    let Some((asks, replies)) = batcher.next() else { return };
    // Nothing was done with these: they were not sent.
    let error = match error {
        RequestError::Unknown(reason) => RequestError::Refused(Arc::clone(reason)),
        error => error.clone(),
    };
    replies.send(vec![Err(error); asks.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_a_sentence_with_its_remedy() {
        for (error, expected) in [
            (RequestError::SeveralStores { stores: 2 }, "needs a single 'sequence-store', and this server has 2"),
            (RequestError::ForeignTable, "needs getid's own tables"),
            (RequestError::Busy { waiting: 10_000 }, "BUSY 10,000 requests wait"),
            (RequestError::Late, "BUSY the store has not answered in time: repeat"),
            (RequestError::Refused("db: full".into()), "MISCONF sequence store db: full"),
            (RequestError::Unknown("db: cut".into()), "db: cut. Repeat the request: it gets its ids"),
            (RequestError::Unknown(Arc::default()), "in time. Repeat the request: it gets its ids"),
            (RequestError::Closed, "shutting down"),
        ] {
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
