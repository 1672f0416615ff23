//! Worker ids: leases of numbers that other programs put into IDs which they make themselves.
//!
//! [`getid_core::server::worker`] decides which milliseconds a lease has, and which program gets which id. This module
//! writes each lease to a store that servers share, before it answers the program. Several servers lease from one pool:
//! each write names the record that it replaces.
//!
//! As with sequences, a thread of its own calls the store, so a call that hangs delays no other client. The number of
//! waiting requests is bounded, and each has a deadline.

mod counts;
mod error;
mod lease_pool;
mod record;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use getid_core::server::worker::{InstanceRequest, Lease, PoolRules, TokenDigest};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedMutexGuard, Semaphore};
use tokio::time::{sleep, timeout};

pub use self::counts::PoolCounts;
pub use self::error::WorkerError;
use self::lease_pool::{LeasePool, stored_name};
pub use self::record::is_holder_name;
use getid_store::records::RecordStore;
use getid_system::{io_threads, threads};

/// Maximum number of requests that wait for a store. A further request is refused as busy.
const WAITING_MAX: usize = 1024;

/// Maximum number of requests that run store calls at a time.
const RUNNING_MAX: usize = 32;

/// Time limit of a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of the store work that is due without a request.
const TEND_EVERY: Duration = Duration::from_secs(1);

/// The server's clock and role, as pools use them.
pub trait Host: Send + Sync + 'static {
    /// Returns R in Unix ms.
    fn now_ms(&self) -> u64;

    /// Returns true if this server may lease. A standby may not.
    fn may_lease(&self) -> bool;
}

/// Configuration of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Name of the pool.
    pub name: String,
    /// Size and lease times of the pool.
    pub rules: PoolRules,
}

/// The worker pools of a server.
pub struct Workers {
    pools: BTreeMap<String, Arc<LeasePool>>,
    host: Arc<dyn Host>,
    handle: Handle,
    waiting: Arc<Semaphore>,
    running: Arc<Semaphore>,
    ended: Notify,
}

/// A lease as it is returned to its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedLease {
    /// The worker id.
    pub id: u32,
    /// Token to renew or release the lease: 32 hex digits.
    pub token: String,
    /// First millisecond of the lease, Unix time.
    pub not_before_ms: u64,
    /// End of the lease, exclusive, Unix ms.
    pub not_after_ms: u64,
    /// Length of the lease and of each renewal, ms: renewals are due by it.
    pub lease_ms: u64,
}

impl GrantedLease {
    fn new(id: u32, token: &LeaseToken, lease: &Lease) -> GrantedLease {
        let Lease { not_before_ms, not_after_ms, ttl_ms: lease_ms, .. } = *lease;
        GrantedLease { id, token: token.text(), not_before_ms, not_after_ms, lease_ms }
    }
}

/// A program's request for a machine id, which it proves by the name of its instance alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRequest {
    /// Name of the instance: any bytes.
    pub instance: Vec<u8>,
    /// Number of machine ids that its layout has: it takes one below.
    pub ids: u32,
    /// Silence after which another instance may get the id, ms; `None`: never.
    pub guard_ms: Option<u64>,
    /// Time on the instance's clock, Unix ms; `None`: R.
    pub now_ms: Option<u64>,
}

/// Machine id of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineId {
    /// The machine id.
    pub id: u32,
    /// Unix time in ms before which the instance must not make an ID with it.
    pub from_ms: u64,
}

/// Secret that authorizes a holder to renew or release its lease.
#[derive(Clone, Copy, Default)]
pub struct LeaseToken(u128);

impl LeaseToken {
    /// Returns a random token, which cannot be guessed.
    fn random() -> LeaseToken {
        LeaseToken(rand::random())
    }

    /// Parses 32 lower-case hex digits. Returns `None` for anything else.
    pub fn parse(text: &[u8]) -> Option<LeaseToken> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let text =
            std::str::from_utf8(text).ok().filter(|text| text.len() == 32 && text.as_bytes().iter().all(is_digit));
        u128::from_str_radix(text?, 16).ok().map(LeaseToken)
    }

    fn text(self) -> String {
        format!("{:032x}", self.0)
    }

    /// Returns the stored form of the token.
    fn digest(self) -> TokenDigest {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.0.to_be_bytes());
        let mut half = [0; 16];
        half.copy_from_slice(&digest.as_ref()[..16]);
        TokenDigest(half)
    }
}

/// Does not show the secret.
impl std::fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A lease as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The worker id.
    pub id: u32,
    /// Name that the holder gave itself, or empty.
    pub name: String,
    /// `held`, `revoked`, `over` or `released`.
    pub state: &'static str,
    /// First millisecond of the lease, Unix time.
    pub not_before_ms: u64,
    /// End of the lease, exclusive, Unix ms.
    pub not_after_ms: u64,
    /// Duration of a renewal, ms.
    pub ttl_ms: u64,
}

/// A pool's state, for INFO, metrics and `WORKERID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Name of the pool.
    pub name: String,
    /// Size and lease times of the pool.
    pub rules: PoolRules,
    /// Address of its store, without a password.
    pub store: String,
    /// Whether its leases were read.
    pub is_known: bool,
    /// Number of leased ids that this server has read or written.
    pub leased: u32,
    /// Unix time in ms before which nothing is leased; 0 if not known yet.
    pub opens_ms: u64,
    /// Counters of this server.
    pub counts: PoolCounts,
}

impl PoolView {
    /// Returns the number of ids that are not leased, as far as this server has read.
    pub fn free(&self) -> u32 {
        self.rules.size.saturating_sub(self.leased)
    }
}

impl Workers {
    /// Starts the pools of `specs` in `store`, with a thread that calls it until [`Workers::stop`]. Returns without a
    /// store call.
    ///
    /// # Errors
    ///
    /// The system provides no thread, or no descriptor for its runtime.
    pub fn start(specs: &[PoolSpec], store: Arc<dyn RecordStore>, host: Arc<dyn Host>) -> io::Result<Arc<Workers>> {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let specs = specs.to_vec();
        let run = move || {
            // The thread makes its runtime, because a runtime must not be dropped on a thread that runs another.
            let runtime = match io_threads::blocking_runtime() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let workers = Workers::on(runtime.handle().clone(), &specs, &store, &host);
            let _ = ready.send(Ok(Arc::clone(&workers)));
            runtime.block_on(workers.tend());
            // A call that hangs must not keep the process alive.
            runtime.shutdown_background();
        };
        threads::spawn("getid-workers", run)?;
        is_ready.recv().map_err(io::Error::other)?
    }

    /// Makes the pools on an existing runtime. The caller must run `Workers::tend` on it.
    pub fn on(handle: Handle, specs: &[PoolSpec], store: &Arc<dyn RecordStore>, host: &Arc<dyn Host>) -> Arc<Workers> {
        let lease_pool = |spec: &PoolSpec| {
            let lease_pool = LeasePool::new(spec.name.clone(), spec.rules, Arc::clone(store), Arc::clone(host));
            (spec.name.clone(), Arc::new(lease_pool))
        };
        Arc::new(Workers {
            pools: specs.iter().map(lease_pool).collect(),
            host: Arc::clone(host),
            handle,
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
            ended: Notify::new(),
        })
    }

    /// Does the store work that is due without a request, until [`Workers::stop`].
    pub(crate) async fn tend(&self) {
        tokio::select! {
            () = self.ended.notified() => {}
            () = self.tend_for_ever() => {}
        }
    }

    async fn tend_for_ever(&self) {
        let mut failing: BTreeMap<&str, String> = BTreeMap::new();
        loop {
            for (name, lease_pool) in &self.pools {
                if !self.host.may_lease() {
                    break;
                }
                match lease_pool.look_if_due().await {
                    Ok(()) => {
                        if failing.remove(name.as_str()).is_some() {
                            tracing::info!("worker pool '{name}': its store answers again");
                        }
                    }
                    Err(error) => {
                        let reason = error.to_string();
                        if failing.insert(name, reason.clone()).is_none_or(|before| before != reason) {
                            let (_, reason) = reason.split_once(' ').unwrap_or(("", &reason));
                            tracing::warn!("worker pool '{name}' leases no ids: {reason}; it is retried every second");
                        }
                    }
                }
            }
            sleep(TEND_EVERY).await;
        }
    }

    /// Ends the thread. Requests that still wait get [`WorkerError::Unknown`].
    pub fn stop(&self) {
        self.ended.notify_one();
    }

    /// Leases an id. `name` is empty, or a name that [`is_holder_name`] accepts.
    ///
    /// # Errors
    ///
    /// [`WorkerError`] for the reason of the refusal.
    pub async fn lease(&self, pool: &str, name: String, ttl_ms: Option<u64>) -> Result<GrantedLease, WorkerError> {
        let lease_pool = self.find(pool)?;
        self.run(async move { lease_pool.lease(&name, ttl_ms).await }).await
    }

    /// Renews a lease and returns its new end in Unix ms.
    ///
    /// # Errors
    ///
    /// [`WorkerError`] for the reason of the refusal.
    pub async fn renew(
        &self,
        pool: &str,
        id: u32,
        token: LeaseToken,
        last_ms: Option<u64>,
    ) -> Result<u64, WorkerError> {
        let lease_pool = self.find(pool)?;
        let lease = self.run(async move { lease_pool.renew(id, token.digest(), last_ms).await }).await?;
        Ok(lease.not_after_ms)
    }

    /// Releases a lease.
    ///
    /// # Errors
    ///
    /// [`WorkerError`] for the reason of the refusal.
    pub async fn release(
        &self,
        pool: &str,
        id: u32,
        token: LeaseToken,
        last_ms: Option<u64>,
    ) -> Result<(), WorkerError> {
        let lease_pool = self.find(pool)?;
        self.run(async move { lease_pool.release(id, token.digest(), last_ms).await }).await
    }

    /// Returns the machine id of an instance, which keeps it until [`Workers::revert`], or until it was silent for its
    /// `guard_ms` and another instance gets the id.
    ///
    /// # Errors
    ///
    /// [`WorkerError`] for the reason of the refusal: [`NoLease::Exhausted`] if all ids are taken.
    ///
    /// [`NoLease::Exhausted`]: getid_core::server::worker::NoLease::Exhausted
    pub async fn distribute(&self, pool: &str, request: &MachineRequest) -> Result<MachineId, WorkerError> {
        let lease_pool = self.find(pool)?;
        let name = stored_name(&request.instance);
        let &MachineRequest { ids, guard_ms, .. } = request;
        let from_ms = request.now_ms.unwrap_or_else(|| self.host.now_ms());
        // One request of a pool at a time, so that the others keep no place of requests that run.
        let turn = Arc::clone(&lease_pool.distributing);
        let job = async move { lease_pool.distribute(&InstanceRequest { name: &name, ids, guard_ms, from_ms }).await };
        self.run_after(async move { Some(turn.lock_owned().await) }, job).await
    }

    /// Reports that an instance lives, and its clock's time, or R. Returns false if it has no machine id.
    ///
    /// # Errors
    ///
    /// [`WorkerError`] for the reason of the refusal.
    pub async fn guard(&self, pool: &str, instance: &[u8], last_ms: Option<u64>) -> Result<bool, WorkerError> {
        let lease_pool = self.find(pool)?;
        let (name, last_ms) = (stored_name(instance), last_ms.unwrap_or_else(|| self.host.now_ms()));
        self.run(async move { lease_pool.guard(&name, last_ms).await }).await
    }

    /// Gives back the machine id of an instance, whose newest ID is not past its clock's time, or R. Returns false if
    /// it has none.
    ///
    /// # Errors
    ///
    /// [`WorkerError`] for the reason of the refusal.
    pub async fn revert(&self, pool: &str, instance: &[u8], last_ms: Option<u64>) -> Result<bool, WorkerError> {
        let lease_pool = self.find(pool)?;
        let (name, last_ms) = (stored_name(instance), last_ms.unwrap_or_else(|| self.host.now_ms()));
        self.run(async move { lease_pool.revert(&name, last_ms).await }).await
    }

    /// Opens a pool at once, on an operator's assurance that no id of it was ever leased. An open pool does not change.
    ///
    /// # Errors
    ///
    /// [`WorkerError::NotNew`] if the store or this server has evidence of leases, or another [`WorkerError`].
    pub async fn open_new(&self, pool: &str) -> Result<(), WorkerError> {
        let lease_pool = self.find(pool)?;
        self.run(async move { lease_pool.open_new().await }).await
    }

    /// Ends a lease at an operator's request, and returns the Unix time in ms at which its id is free.
    ///
    /// # Errors
    ///
    /// [`WorkerError`] for the reason of the refusal.
    pub async fn revoke(&self, pool: &str, id: u32) -> Result<u64, WorkerError> {
        let lease_pool = self.find(pool)?;
        let lease = self.run(async move { lease_pool.revoke(id).await }).await?;
        Ok(lease.not_after_ms)
    }

    /// Returns at most `count` leases from the id `from` on, and the first id of the next page.
    ///
    /// # Errors
    ///
    /// [`WorkerError`] if the pool does not exist or the store call fails.
    pub async fn leases(
        &self,
        pool: &str,
        from: u32,
        count: usize,
    ) -> Result<(Option<u32>, Vec<LeaseView>), WorkerError> {
        let lease_pool = self.find(pool)?;
        self.run(async move { lease_pool.leases(from, count).await }).await
    }

    /// Returns a pool's state after a look at the store.
    ///
    /// # Errors
    ///
    /// [`WorkerError`] if the pool does not exist or the store call fails.
    pub async fn look_at(&self, pool: &str) -> Result<PoolView, WorkerError> {
        let lease_pool = self.find(pool)?;
        self.run(async move { lease_pool.looked_at().await }).await
    }

    /// Returns the state of all pools in memory, without a store call.
    pub fn pools(&self) -> Vec<PoolView> {
        self.pools.values().map(|lease_pool| lease_pool.view()).collect()
    }

    fn find(&self, pool: &str) -> Result<Arc<LeasePool>, WorkerError> {
        self.pools.get(pool).map(Arc::clone).ok_or_else(|| WorkerError::NoSuchPool { pool: pool.to_owned() })
    }

    /// Runs a job on the thread and waits for its result.
    async fn run<T: Send + 'static>(
        &self,
        job: impl Future<Output = Result<T, WorkerError>> + Send + 'static,
    ) -> Result<T, WorkerError> {
        self.run_after(async { None }, job).await
    }

    /// Waits for a turn, then runs a job as [`Workers::run`] does. The turn ends with the job.
    async fn run_after<T: Send + 'static>(
        &self,
        turn: impl Future<Output = Option<OwnedMutexGuard<()>>> + Send + 'static,
        job: impl Future<Output = Result<T, WorkerError>> + Send + 'static,
    ) -> Result<T, WorkerError> {
        let place = Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| WorkerError::Busy)?;
        let running = Arc::clone(&self.running);
        // The job continues if its caller stops waiting, so what it began is finished and remembered.
        let task = self.handle.spawn(async move {
            let _place = place;
            let _turn = turn.await;
            let _permit = running.acquire_owned().await;
            job.await
        });
        match timeout(ANSWER_TIMEOUT, task).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(WorkerError::Unknown { reason: "This server stops.".to_owned() }),
            Err(_) => {
                let reason = format!("It has not answered for {} s.", ANSWER_TIMEOUT.as_secs());
                Err(WorkerError::Unknown { reason })
            }
        }
    }
}

#[cfg(test)]
mod tests;
