//! Worker ids: leases of numbers that other programs put into IDs which they make themselves.
//!
//! Which milliseconds a lease has, and who gets which id, is decided in [`getid_core::worker`]. Here a lease becomes a
//! record in a store that servers share, before anybody is told of it. Several servers lease from one pool: each write
//! names the record that it replaces.
//!
//! The store is asked by a thread of its own, as sequences' are: nothing that hangs there holds up a client that asks
//! for something else. Requests that wait are bounded, and each has a deadline.

mod counts;
mod desk;
mod error;
mod record;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use getid_core::worker::{Lease, PoolRules, TokenDigest};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};

pub use self::counts::PoolCounts;
use self::desk::Desk;
pub use self::error::WorkerError;
pub use self::record::is_holder_name;
use crate::records::RecordStore;
use crate::system::{io_threads, threads};

/// Requests that may wait for a store at a time; one more is told to try again.
const WAITING_MAX: usize = 1024;

/// Requests that are at a store at a time.
const RUNNING_MAX: usize = 32;

/// How long a request waits for its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How often what is due without a request is looked at.
const TEND_EVERY: Duration = Duration::from_secs(1);

/// What a pool needs to know of its server.
pub trait Host: Send + Sync + 'static {
    /// R, Unix ms.
    fn now_ms(&self) -> u64;

    /// Whether this server may lease: a standby may not.
    fn may_lease(&self) -> bool;
}

/// A pool as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its name.
    pub name: String,
    /// What its leases go by.
    pub rules: PoolRules,
}

/// The pools of a server.
pub struct Workers {
    desks: BTreeMap<String, Arc<Desk>>,
    host: Arc<dyn Host>,
    handle: Handle,
    waiting: Arc<Semaphore>,
    running: Arc<Semaphore>,
    ended: Notify,
}

/// What a program is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The worker id.
    pub id: u32,
    /// What it shows to renew or release: 32 hex digits.
    pub token: String,
    /// Its first millisecond, Unix time.
    pub not_before_ms: u64,
    /// The millisecond after its last.
    pub not_after_ms: u64,
}

impl Granted {
    fn new(id: u32, token: &Token, lease: &Lease) -> Granted {
        let Lease { not_before_ms, not_after_ms, .. } = *lease;
        Granted { id, token: token.text(), not_before_ms, not_after_ms }
    }
}

/// What a holder shows.
#[derive(Clone, Copy, Default)]
pub struct Token(u128);

impl Token {
    /// One that nobody can guess.
    fn random() -> Token {
        Token(rand::random())
    }

    /// Of 32 lower-case hex digits; `None` for anything else.
    pub fn parse(text: &[u8]) -> Option<Token> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let text =
            std::str::from_utf8(text).ok().filter(|text| text.len() == 32 && text.as_bytes().iter().all(is_digit));
        u128::from_str_radix(text?, 16).ok().map(Token)
    }

    fn text(self) -> String {
        format!("{:032x}", self.0)
    }

    /// What of it is kept.
    fn digest(self) -> TokenDigest {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.0.to_be_bytes());
        let mut half = [0; 16];
        half.copy_from_slice(&digest.as_ref()[..16]);
        TokenDigest(half)
    }
}

/// Without what it is.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A lease, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The worker id.
    pub id: u32,
    /// Who has it, as it calls itself; empty: it does not say.
    pub name: String,
    /// `held`, `revoked`, `over` or `released`.
    pub state: &'static str,
    /// Its first millisecond, Unix time.
    pub not_before_ms: u64,
    /// The millisecond after its last.
    pub not_after_ms: u64,
    /// For how long it is renewed, ms.
    pub ttl_ms: u64,
}

/// A pool, as it is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Its name.
    pub name: String,
    /// What its leases go by.
    pub rules: PoolRules,
    /// The address of its store, without a password.
    pub store: String,
    /// Whether its leases were read.
    pub is_known: bool,
    /// Ids that are leased, as far as this server knows.
    pub leased: u32,
    /// Before it nothing is leased, Unix ms; 0: not known yet.
    pub opens_ms: u64,
    /// What this server has done.
    pub counts: PoolCounts,
}

impl PoolView {
    /// Ids that are free, as far as this server knows.
    pub fn free(&self) -> u32 {
        self.rules.size.saturating_sub(self.leased)
    }
}

impl Workers {
    /// The pools, in this store, with a thread that asks it until [`Workers::stop`]. Nothing is waited for.
    ///
    /// # Errors
    ///
    /// The system gives no thread, or no descriptor for its runtime.
    pub fn start(specs: &[PoolSpec], store: Arc<dyn RecordStore>, host: Arc<dyn Host>) -> io::Result<Arc<Workers>> {
        let (ready, is_ready) = std::sync::mpsc::channel();
        let specs = specs.to_vec();
        let run = move || {
            // Made here, as it may not be dropped on a thread that has one of its own.
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

    /// The same on a runtime that is there; [`Workers::tend`] is to be run on it.
    pub fn on(handle: Handle, specs: &[PoolSpec], store: &Arc<dyn RecordStore>, host: &Arc<dyn Host>) -> Arc<Workers> {
        let desk = |spec: &PoolSpec| {
            let desk = Desk::new(spec.name.clone(), spec.rules, Arc::clone(store), Arc::clone(host));
            (spec.name.clone(), Arc::new(desk))
        };
        Arc::new(Workers {
            desks: specs.iter().map(desk).collect(),
            host: Arc::clone(host),
            handle,
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
            ended: Notify::new(),
        })
    }

    /// Does what is due without a request, until [`Workers::stop`].
    pub async fn tend(&self) {
        tokio::select! {
            () = self.ended.notified() => {}
            () = self.tend_for_ever() => {}
        }
    }

    async fn tend_for_ever(&self) {
        let mut failing: BTreeMap<&str, String> = BTreeMap::new();
        loop {
            for (name, desk) in &self.desks {
                if !self.host.may_lease() {
                    break;
                }
                match desk.look_if_due().await {
                    Ok(()) => {
                        if failing.remove(name.as_str()).is_some() {
                            tracing::info!("worker pool '{name}': its store answers again");
                        }
                    }
                    Err(error) => {
                        let said = error.to_string();
                        if failing.insert(name, said.clone()).is_none_or(|before| before != said) {
                            let (_, said) = said.split_once(' ').unwrap_or(("", &said));
                            tracing::warn!(
                                "worker pool '{name}' leases nothing: {said}; it is tried again each second"
                            );
                        }
                    }
                }
            }
            sleep(TEND_EVERY).await;
        }
    }

    /// Ends the thread. Requests that still wait are told that nobody knows.
    pub fn stop(&self) {
        self.ended.notify_one();
    }

    /// Leases an id. `name` is what [`is_holder_name`] admits, or empty.
    ///
    /// # Errors
    ///
    /// [`WorkerError`].
    pub async fn lease(&self, pool: &str, name: String, ttl_ms: Option<u64>) -> Result<Granted, WorkerError> {
        let desk = self.desk(pool)?;
        self.run(async move { desk.lease(&name, ttl_ms).await }).await
    }

    /// Renews a lease: its new end.
    ///
    /// # Errors
    ///
    /// [`WorkerError`].
    pub async fn renew(&self, pool: &str, id: u32, token: Token, last_ms: Option<u64>) -> Result<u64, WorkerError> {
        let desk = self.desk(pool)?;
        let lease = self.run(async move { desk.renew(id, token.digest(), last_ms).await }).await?;
        Ok(lease.not_after_ms)
    }

    /// Gives a lease back.
    ///
    /// # Errors
    ///
    /// [`WorkerError`].
    pub async fn release(&self, pool: &str, id: u32, token: Token, last_ms: Option<u64>) -> Result<(), WorkerError> {
        let desk = self.desk(pool)?;
        self.run(async move { desk.release(id, token.digest(), last_ms).await }).await
    }

    /// Opens a pool at once, by an operator's word that no id of it was ever leased. An open pool stays as it is.
    ///
    /// # Errors
    ///
    /// [`WorkerError::NotNew`] if the store or this server knows better, and others.
    pub async fn open_new(&self, pool: &str) -> Result<(), WorkerError> {
        let desk = self.desk(pool)?;
        self.run(async move { desk.open_new().await }).await
    }

    /// Ends a lease for an operator: when its id is free.
    ///
    /// # Errors
    ///
    /// [`WorkerError`].
    pub async fn revoke(&self, pool: &str, id: u32) -> Result<u64, WorkerError> {
        let desk = self.desk(pool)?;
        let lease = self.run(async move { desk.revoke(id).await }).await?;
        Ok(lease.not_after_ms)
    }

    /// Leases from the id `from` on, at most `count`, and the first id of the next page.
    ///
    /// # Errors
    ///
    /// [`WorkerError`].
    pub async fn leases(
        &self,
        pool: &str,
        from: u32,
        count: usize,
    ) -> Result<(Option<u32>, Vec<LeaseView>), WorkerError> {
        let desk = self.desk(pool)?;
        self.run(async move { desk.leases(from, count).await }).await
    }

    /// What is known of a pool, after a look at the store.
    ///
    /// # Errors
    ///
    /// [`WorkerError`].
    pub async fn look_at(&self, pool: &str) -> Result<PoolView, WorkerError> {
        let desk = self.desk(pool)?;
        self.run(async move { desk.looked_at().await }).await
    }

    /// What is known of all pools, without asking the store.
    pub fn pools(&self) -> Vec<PoolView> {
        self.desks.values().map(|desk| desk.view()).collect()
    }

    fn desk(&self, pool: &str) -> Result<Arc<Desk>, WorkerError> {
        self.desks.get(pool).map(Arc::clone).ok_or_else(|| WorkerError::NoSuchPool { pool: pool.to_owned() })
    }

    /// Has the thread do it, and waits for it.
    async fn run<T: Send + 'static>(
        &self,
        job: impl Future<Output = Result<T, WorkerError>> + Send + 'static,
    ) -> Result<T, WorkerError> {
        let place = Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| WorkerError::Busy)?;
        let running = Arc::clone(&self.running);
        // It goes on if nobody waits for it any more: what was begun is finished, and then remembered.
        let task = self.handle.spawn(async move {
            let _place = place;
            let _permit = running.acquire_owned().await;
            job.await
        });
        match timeout(ANSWER_TIMEOUT, task).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(WorkerError::Unknown { said: "This server stops.".to_owned() }),
            Err(_) => {
                let said = format!("It has not answered for {} s.", ANSWER_TIMEOUT.as_secs());
                Err(WorkerError::Unknown { said })
            }
        }
    }
}

#[cfg(test)]
mod tests;
