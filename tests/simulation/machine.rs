//! A computer with its clocks and its disk, and a server that lives on it, dies and is started again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use getid::id::checks::{Checks, Sound};
use getid::id::{Layout, Limits, RandomCycle, Refusal, SavePoint, Scheme, Tick};
use getid::issuer::{Issuer, IssuerStatus};
use getid::watermark::sim::SimDisk;
use getid::watermark::{Identity, Record, SaveError, WatermarkStore};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::clock::{START_UNIX_MS, SimClock};
use crate::oracle::Oracle;

pub(crate) struct Machine {
    pub(crate) clock: SimClock,
    pub(crate) disk: SimDisk,
    pub(crate) identity: Identity,
    pub(crate) limits: Limits,
    pub(crate) oracle: Oracle,
}

impl Machine {
    /// A computer with a right clock and an empty disk; the default layout and limits.
    pub(crate) fn new() -> Machine {
        Machine {
            clock: SimClock::new(START_UNIX_MS),
            disk: SimDisk::new(1),
            identity: Identity { server_id: 0, layout: Layout::default() },
            limits: Limits::default(),
            oracle: Oracle::default(),
        }
    }

    pub(crate) fn with_shard_range(mut self, shard_range: u32) -> Machine {
        self.identity.layout = layout(shard_range);
        self
    }

    /// What the disk holds for this configuration.
    pub(crate) fn found(&self) -> Option<SavePoint> {
        self.disk.record().map(|record| record.adopted_by(self.identity).expect("a record of this server").point)
    }

    pub(crate) async fn start(&self) -> Server {
        self.try_start().await.expect("a disk that works")
    }

    pub(crate) async fn try_start<K: Checks>(&self) -> Result<Server<K>, SaveError> {
        let store = self.disk.store();
        self.start_with(self.found(), store).await
    }

    pub(crate) async fn start_with<K: Checks>(
        &self,
        found: Option<SavePoint>,
        store: impl WatermarkStore,
    ) -> Result<Server<K>, SaveError> {
        let (issuer, keeper) =
            Issuer::start_with_checks(self.clock.clone(), self.identity, self.limits, found, store).await?;
        let (stop, stopped) = oneshot::channel::<()>();
        let keeper = tokio::spawn(keeper.run(async {
            let _ = stopped.await;
        }));
        let view = View {
            scheme: scheme(self.identity),
            oracle: self.oracle.clone(),
            max_borrow_ms: self.limits.max_borrow_ms,
            reference: Arc::default(),
        };
        Ok(Server { issuer, keeper, stop, view, disk: self.disk.clone() })
    }
}

/// One life of a server.
pub(crate) struct Server<K: Checks = Sound> {
    pub(crate) issuer: Arc<Issuer<SimClock, K>>,
    keeper: JoinHandle<Result<(), SaveError>>,
    stop: oneshot::Sender<()>,
    view: View,
    disk: SimDisk,
}

impl<K: Checks> Server<K> {
    /// A client of its own, for another task.
    pub(crate) fn client(&self) -> Client<K> {
        Client { issuer: Arc::clone(&self.issuer), view: self.view.clone() }
    }

    pub(crate) async fn draw(&self, n: u32) -> Result<Vec<u64>, Refusal> {
        self.client().draw(n).await
    }

    /// One ID's tick.
    pub(crate) async fn tick(&self) -> Tick {
        let id = self.draw(1).await.expect("an id")[0];
        Tick(id >> 21)
    }

    pub(crate) fn status(&self) -> IssuerStatus {
        self.issuer.status()
    }

    /// kill -9: what was written is there, durable or not.
    pub(crate) async fn kill(self) {
        let disk = self.disk.clone();
        self.vanish().await;
        disk.kill();
    }

    /// Power fails.
    pub(crate) async fn crash(self) {
        let disk = self.disk.clone();
        self.vanish().await;
        disk.crash();
    }

    /// SIGTERM, and how the last save went.
    pub(crate) async fn stop(self) -> Result<(), SaveError> {
        let _ = self.stop.send(());
        let result = self.keeper.await.expect("a keeper without bugs");
        self.disk.kill();
        result
    }

    /// SIGTERM, but no longer than `patience`. `None` when it was killed then.
    pub(crate) async fn stop_within(self, patience: Duration) -> Option<Result<(), SaveError>> {
        let Server { issuer, mut keeper, stop, disk, view } = self;
        let _ = stop.send(());
        let ended = tokio::time::timeout(patience, &mut keeper).await;
        if let Ok(Err(bug)) = &ended {
            view.oracle.report(|| format!("the keeper panicked: {bug}"));
        }
        let ended = ended.ok().and_then(Result::ok);
        if ended.is_none() {
            keeper.abort();
            let _ = keeper.await;
        }
        drop(issuer);
        disk.kill();
        ended
    }

    async fn vanish(self) {
        self.keeper.abort();
        match self.keeper.await {
            Err(end) if end.is_cancelled() => {}
            end => self.view.oracle.report(|| format!("the keeper ended by itself: {end:?}")),
        }
    }
}

pub(crate) struct Client<K: Checks = Sound> {
    pub(crate) issuer: Arc<Issuer<SimClock, K>>,
    view: View,
}

/// What it takes to judge a life's IDs.
#[derive(Clone)]
struct View {
    scheme: Arc<Scheme>,
    oracle: Oracle,
    max_borrow_ms: u64,
    /// R at the last reply of this life.
    reference: Arc<AtomicU64>,
}

impl<K: Checks> Client<K> {
    /// `n` IDs, seen by the oracle.
    pub(crate) async fn draw(&self, n: u32) -> Result<Vec<u64>, Refusal> {
        let View { scheme, oracle, .. } = &self.view;
        let asked = oracle.ask();
        let mut drawn = Vec::new();
        self.issuer.draw(n, &mut drawn).await?;
        let now = self.issuer.status().mint.reference;
        let before = self.view.reference.swap(now.0, Relaxed);
        if now.0 < before {
            oracle.report(|| format!("R went back from {before} to {}", now.0));
        }
        Ok(oracle.reply::<K>(asked, scheme, n, &drawn, now.plus_ms(self.view.max_borrow_ms)))
    }
}

/// How long `work` took, in simulated time.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let began = Instant::now();
    let result = work.await;
    (began.elapsed(), result)
}

pub(crate) async fn pass(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// A layout of this shard-range, with some random bits where they fit.
pub(crate) fn layout(shard_range: u32) -> Layout {
    if shard_range == 9 {
        return Layout::default();
    }
    let random = (21 - shard_range).min(6);
    Layout::new(Layout::default().epoch(), 21 - shard_range - random, shard_range, random).expect("a sum of 21")
}

/// Schemes are made once: a cycle of random values is large.
pub(crate) fn scheme(identity: Identity) -> Arc<Scheme> {
    static MADE: LazyLock<Mutex<HashMap<String, Arc<Scheme>>>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let scheme = made.entry(format!("{identity:?}")).or_insert_with(|| {
        let mut rng = crate::rng::Rng(7);
        let mut values: Vec<u32> = (0..1 << identity.layout.random_bits()).collect();
        for i in (1..values.len()).rev() {
            values.swap(i, usize::try_from(rng.below(i as u64 + 1)).expect("an index"));
        }
        let cycle = RandomCycle::new(values).expect("a permutation");
        Arc::new(Scheme::new(identity.layout, identity.server_id, cycle).expect("a server-id that fits"))
    });
    Arc::clone(scheme)
}

/// Whatever a crash now could leave is a record past every ID given.
pub(crate) fn check_disk(machine: &Machine) {
    let end = machine.oracle.tick_end();
    for text in machine.disk.after_crash() {
        let point = text.as_deref().map(|text| Record::parse(text).map(|record| record.adopted_by(machine.identity)));
        match point {
            None if end == Tick(0) => {}
            Some(Ok(Ok(record))) if record.point.watermark >= end => {}
            other => machine.oracle.report(|| format!("ids below {end:?} were given, and a crash leaves {other:?}")),
        }
    }
}
