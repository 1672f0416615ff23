//! Creations of rows: those that arrive while one is under way share the next transaction.
//!
//! Each costs a store a commit, and the server a beat, whatever the number of rows. So a client that imports thousands
//! of names over some connections waits for the store once for all of them.
//!
//! Elsewhere: the conditions of a creation ([`super::verbs`]), and first uses of names ([`super::fetch`]).

use std::sync::Arc;

use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::batcher::BatchError;
use super::fetch::broken_connection;
use super::pool::{FetchAnswer, JobQueue, REQUEST_DEADLINE, StorePool, closed};
use super::verbs::VerbResult;
use super::{SequenceError, Sequences};
use getid_store::sql::{CreateRequest, SequenceRow, StoreError, Verdict};

impl Sequences {
    /// Creates a row in one store, together with others that wait.
    pub(super) async fn create_in(
        &self,
        pool: &StorePool,
        new: CreateRequest,
    ) -> VerbResult<Result<SequenceRow, Verdict>> {
        // A client has one creation at a time, so the order of their arrival is fair.
        let created = pool.creations.call("", 1, new, Instant::now() + REQUEST_DEADLINE).await;
        let created = created.unwrap_or_else(|error| {
            Err(match error {
                BatchError::Busy { waiting } => pool.busy(waiting),
                BatchError::Late => pool.late(),
                BatchError::Unknown => {
                    StoreError::Unknown(format!("{}: it has not answered in time", pool.store.shown()))
                }
                BatchError::Closed => closed(),
            })
        });
        created.map(|created| created.map(|made| made.row)).map_err(SequenceError::from_store)
    }

    /// Serves the queue of creations of a store.
    pub(super) async fn serve_creations(self: Arc<Self>, pool: Arc<StorePool>) {
        loop {
            pool.creations.ready().await;
            let job = pool.job(JobQueue::Clients).await;
            let Some((new, replies)) = pool.creations.next() else { continue };
            let created = match job {
                Ok(job) => self.create_rows(&pool, &job.slot, new).await,
                Err(error) => vec![Err(error); new.len()],
            };
            if created.iter().any(|made| matches!(made, Ok(Ok(_)))) {
                self.beat_after_change(&pool).await;
            }
            replies.send(created);
        }
    }

    /// Creates rows in one transaction, and sets the server of each request. If the store refuses them all, it creates
    /// them one by one, because one of them may be the reason.
    pub(super) async fn create_rows(
        &self,
        pool: &StorePool,
        slot: &SemaphorePermit<'_>,
        new: Vec<CreateRequest>,
    ) -> Vec<FetchAnswer> {
        let refused = match self.create_together(pool, slot, new.clone()).await {
            Ok(each) => return each,
            Err(error @ (StoreError::Refused(_) | StoreError::Locked(_))) if new.len() > 1 => error,
            Err(error) => return vec![Err(error); new.len()],
        };
        let count = new.len();
        let mut each = Vec::with_capacity(count);
        for new in new {
            match self.create_together(pool, slot, vec![new]).await {
                Ok(made) => each.extend(made),
                // The row is not the reason, so the others would fail in the same way.
                Err(error) if error == refused => {
                    each.resize(count, Err(error));
                    break;
                }
                Err(error) => each.push(Err(error)),
            }
        }
        each
    }

    async fn create_together(
        &self,
        pool: &StorePool,
        slot: &SemaphorePermit<'_>,
        mut new: Vec<CreateRequest>,
    ) -> Result<Vec<FetchAnswer>, StoreError> {
        let server = pool.credentials()?;
        for request in &mut new {
            request.server = server;
        }
        let created = pool.run(slot, |mut connection| {
            Box::pin(async move {
                let created = connection.create_all(&new).await;
                (connection, created)
            })
        });
        let created = created.await?;
        if !self.take_beat(pool, created.server.as_ref()) {
            return Err(broken_connection(pool));
        }
        Ok(created.each.into_iter().map(Ok).collect())
    }
}
