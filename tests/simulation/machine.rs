//! A computer with its clocks and its disk, and a server that lives on it, dies and is started again.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use getid_core::{Declaration, Layout, Limits, NamedGenerator, RandomCycle, Refusal, SavePoint, Scheme, Tick};
use getid_engine::claim::{AcquiredClaim, Claim, Declarations, Identity, Record, SaveError, TakeError, Term};
use getid_engine::generators::time::{Issuer, IssuerStatus, MAX_WAIT_MS};
use getid_engine::generators::{Keeper, KeeperError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::clock::{START_UNIX_MS, SimClock};
use crate::disk::{SimClaim, SimDisk};
use crate::oracle::{Line, Oracle};

pub(crate) struct Machine {
    pub(crate) clock: SimClock,
    pub(crate) disk: SimDisk,
    pub(crate) identity: Identity,
    pub(crate) limits: Limits,
    pub(crate) max_wait_ms: u64,
    /// How long a server waits for a save before it drops it and continues.
    pub(crate) patience: Option<Duration>,
    /// Number of dropped saves.
    pub(crate) dropped_saves: Arc<AtomicU64>,
    pub(crate) oracle: Oracle,
    /// Named generators in the configuration of the next start.
    pub(crate) generators: Vec<Arc<Declaration>>,
}

impl Machine {
    /// Creates a computer with a right clock and an empty disk; the default layout and limits.
    pub(crate) fn new() -> Machine {
        Machine {
            clock: SimClock::new(START_UNIX_MS),
            disk: SimDisk::new(1),
            identity: Identity { server_id: 0, layout: Layout::default() },
            limits: Limits::default(),
            max_wait_ms: MAX_WAIT_MS,
            patience: None,
            dropped_saves: Arc::default(),
            oracle: Oracle::default(),
            generators: Vec::new(),
        }
    }

    pub(crate) fn with_shard_range(mut self, shard_range: u32) -> Machine {
        self.identity.layout = layout(shard_range);
        self
    }

    /// Returns the disk's point for this configuration.
    pub(crate) fn found(&self) -> Option<SavePoint> {
        self.disk.record().map(|record| record.adopted_by(self.identity).expect("a record of this server").point)
    }

    pub(crate) async fn start(&self) -> Server {
        self.try_start().await.expect("a disk that works")
    }

    pub(crate) async fn try_start(&self) -> Result<Server, SaveError> {
        let server = self.start_on(self.disk.open(self.identity)).await?;
        server.has_record(true);
        Ok(server)
    }

    async fn start_on(&self, opened: AcquiredClaim<SimClaim>) -> Result<Server, SaveError> {
        let Some(patience) = self.patience else { return self.start_with(opened).await };
        let AcquiredClaim { claim, point, declarations, term, is_copy } = opened;
        let dropped = Arc::clone(&self.dropped_saves);
        let save_began = Arc::default();
        let began = Arc::clone(&save_began);
        let claim = ImpatientClaim { claim: Arc::new(tokio::sync::Mutex::new(claim)), patience, dropped, began };
        let server = self.start_with(AcquiredClaim { claim, point, declarations, term, is_copy }).await?;
        Ok(Server { save_began, ..server })
    }

    pub(crate) async fn start_with(
        &self,
        claim: AcquiredClaim<impl Claim<Point = SavePoint>>,
    ) -> Result<Server, SaveError> {
        let (issuer, mut keeper) = Keeper::prepare(self.clock.clone(), self.identity, self.limits, claim).await;
        let named = vec![issuer.declare(&self.generators).expect("declarations that may follow what was found")];
        if let Err(error) = keeper.first_save().await {
            let _ = keeper.give_up().await;
            return Err(error);
        }
        issuer.set_max_wait_ms(self.max_wait_ms);
        let (stop, stopped) = oneshot::channel::<()>();
        let keeper = tokio::spawn(keeper.run(async {
            let _ = stopped.await;
        }));
        let view = View {
            scheme: scheme(self.identity),
            oracle: self.oracle.clone(),
            line: self.oracle.line(),
            named: Arc::new(Mutex::new(named)),
            record: Arc::default(),
            max_borrow_ms: Arc::new(AtomicU64::new(issuer.start_max_borrow_ms())),
            reference: Arc::default(),
        };
        Ok(Server { issuer, keeper, stop, view, disk: self.disk.clone(), save_began: Arc::default() })
    }
}

/// Drops a save that takes long. The save itself continues, as a store's may, and the next one waits for it.
struct ImpatientClaim<S> {
    claim: Arc<tokio::sync::Mutex<S>>,
    patience: Duration,
    dropped: Arc<AtomicU64>,
    /// When the running save began.
    began: Arc<Mutex<Option<Instant>>>,
}

impl<S: Claim> Claim for ImpatientClaim<S> {
    type Config = ();
    type Point = S::Point;

    async fn take((): ()) -> Result<AcquiredClaim<Self>, TakeError> {
        unreachable!("it is made of a claim that is open")
    }

    async fn save(
        &mut self,
        point: S::Point,
        declarations: Arc<Declarations>,
        term: Term,
    ) -> Result<(), SaveError<S::Point>> {
        let claim = Arc::clone(&self.claim);
        let began = Arc::clone(&self.began);
        let save = tokio::spawn(async move {
            let mut claim = claim.lock().await;
            *began.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            let saved = claim.save(point, declarations, term).await;
            *began.lock().unwrap_or_else(PoisonError::into_inner) = None;
            saved
        });
        if let Ok(saved) = tokio::time::timeout(self.patience, save).await {
            return saved.expect("a save that ends");
        }
        self.dropped.fetch_add(1, Relaxed);
        let source = Arc::new(std::io::ErrorKind::TimedOut.into());
        Err(SaveError::Io { action: "wait for", path: "the disk".into(), source })
    }
}

/// One life of a server.
pub(crate) struct Server {
    pub(crate) issuer: Arc<Issuer<SimClock>>,
    keeper: JoinHandle<Result<(), KeeperError>>,
    stop: oneshot::Sender<()>,
    view: View,
    disk: SimDisk,
    /// When the save began that an impatient server has dropped, or waits for.
    save_began: Arc<Mutex<Option<Instant>>>,
}

impl Server {
    /// Returns how long the running save has been under way.
    pub(crate) fn saving(&self) -> Duration {
        let dropped = *self.save_began.lock().unwrap_or_else(PoisonError::into_inner);
        Duration::from_millis(self.status().saving_ms).max(dropped.map_or(Duration::ZERO, |began| began.elapsed()))
    }

    /// Returns a separate client, for another task.
    pub(crate) fn client(&self) -> Client {
        Client { issuer: Arc::clone(&self.issuer), view: self.view.clone() }
    }

    pub(crate) async fn draw(&self, n: u32) -> Result<Vec<u64>, Refusal> {
        self.client().draw(n).await
    }

    pub(crate) async fn draw_named(&self, name: &str, n: u32) -> Result<(), Refusal> {
        self.client().draw_named(name, n).await
    }

    /// Draws one ID and returns its tick.
    pub(crate) async fn tick(&self) -> Tick {
        let id = self.draw(1).await.expect("an id")[0];
        Tick(id >> 21)
    }

    pub(crate) fn status(&self) -> IssuerStatus {
        self.issuer.status()
    }

    /// Returns the time from which serial numbers take their periods.
    pub(crate) fn reference_unix_ms(&self) -> i64 {
        self.issuer.reference_unix_ms()
    }

    /// Changes limits, as CONFIG SET does.
    pub(crate) fn set_limits(&self, limits: Limits) {
        self.may_borrow(limits.max_borrow_ms);
        self.issuer.set_limits(limits);
    }

    /// Reloads the configuration, with these named generators.
    pub(crate) fn declare(&self, generators: &[Arc<Declaration>]) {
        match self.issuer.declare(generators) {
            Ok(named) => self.view.named.lock().unwrap_or_else(PoisonError::into_inner).push(named),
            Err(error) => self.view.oracle.report(|| format!("a harmless change is refused: {error}")),
        }
    }

    /// Sets whether its disk must hold the declarations of all generators that give IDs: not while the folder may be
    /// another one.
    pub(crate) fn has_record(&self, has_record: bool) {
        *self.view.record.lock().unwrap_or_else(PoisonError::into_inner) =
            has_record.then(|| (self.disk.clone(), BTreeSet::new()));
    }

    /// Returns its generators.
    pub(crate) fn generators(&self) -> Vec<Arc<Declaration>> {
        let named = self.view.configured();
        named.iter().map(|(_, generator)| Arc::new(generator.declaration().clone())).collect()
    }

    /// Returns the names of its generators.
    pub(crate) fn names(&self) -> Vec<String> {
        self.generators().iter().map(|declaration| declaration.name().to_owned()).collect()
    }

    /// Allows a borrow limit up to this from here on.
    pub(crate) fn may_borrow(&self, max_borrow_ms: u64) {
        self.view.max_borrow_ms.fetch_max(max_borrow_ms, Relaxed);
    }

    /// Notes that another server may have given IDs meanwhile, and that this one knows it.
    pub(crate) fn catch_up(&self) {
        self.view.oracle.catch_up(&self.view.line);
    }

    /// Ends it as kill -9 does: all writes are there, durable or not.
    pub(crate) async fn kill(self) {
        let disk = self.disk.clone();
        self.vanish().await;
        disk.kill();
    }

    /// Ends it by a power failure.
    pub(crate) async fn crash(self) {
        let disk = self.disk.clone();
        self.vanish().await;
        disk.crash();
    }

    /// Ends it as SIGTERM does, and returns the result of the last save.
    pub(crate) async fn stop(self) -> Result<(), KeeperError> {
        let _ = self.stop.send(());
        let result = self.keeper.await.expect("a keeper without bugs");
        self.disk.kill();
        result
    }

    /// Ends it as SIGTERM does, within `patience`. Returns `None` if it was killed then.
    pub(crate) async fn stop_within(self, patience: Duration) -> Option<Result<(), KeeperError>> {
        let Server { issuer, mut keeper, stop, disk, view, .. } = self;
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

    /// Returns how the keeper ended, without a signal.
    pub(crate) async fn keeper_ended(self) -> Result<(), KeeperError> {
        // The sender lives until the end has come: no signal has stopped the keeper.
        let result = self.keeper.await.expect("a keeper without bugs");
        drop(self.stop);
        result
    }

    /// Removes the keeper's task, but not the server.
    pub(crate) async fn lose_keeper(&self) {
        self.keeper.abort();
        while !self.keeper.is_finished() {
            tokio::task::yield_now().await;
        }
    }

    async fn vanish(self) {
        self.keeper.abort();
        match self.keeper.await {
            Err(end) if end.is_cancelled() => {}
            end => self.view.oracle.report(|| format!("the keeper ended by itself: {end:?}")),
        }
    }
}

pub(crate) struct Client {
    pub(crate) issuer: Arc<Issuer<SimClock>>,
    view: View,
}

/// A disk that holds declarations, and the names for which that was checked.
type DeclaredDisk = (SimDisk, BTreeSet<String>);

/// A named generator, with the index from which it is drawn.
type Indexed = (usize, Arc<NamedGenerator>);

/// Data for judging a life's IDs.
#[derive(Clone)]
struct View {
    scheme: Arc<Scheme>,
    oracle: Oracle,
    line: Line,
    /// The named generators of this life, in earlier configurations and in the present one.
    named: Arc<Mutex<Vec<Vec<Indexed>>>>,
    /// The record that must have their declarations.
    record: Arc<Mutex<Option<DeclaredDisk>>>,
    /// Largest B that may have been in force in this life.
    max_borrow_ms: Arc<AtomicU64>,
    /// R at the last reply of this life.
    reference: Arc<AtomicU64>,
}

impl View {
    fn configured(&self) -> Vec<Indexed> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).last().cloned().unwrap_or_default()
    }

    /// Checks that every state a crash now could leave has the declaration of a generator that has given IDs.
    fn check_declared(&self, name: &str) {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((disk, seen)) = &mut *record else { return };
        for text in if seen.insert(name.to_owned()) { disk.after_crash() } else { Vec::new() } {
            let record = text.and_then(|text| Record::parse(&text).ok());
            if record.as_ref().is_none_or(|record| record.declarations.find(name).is_none()) {
                self.oracle.report(|| format!("{name} gave IDs, and a crash leaves {record:?}"));
            }
        }
    }

    /// Returns R + B, by the latest reply.
    fn ceiling(&self, issuer: &Issuer<SimClock>) -> Tick {
        let now = issuer.status().mint.reference;
        let before = self.reference.swap(now.0, Relaxed);
        if now.0 < before {
            self.oracle.report(|| format!("R went back from {before} to {}", now.0));
        }
        now.plus_ms(self.max_borrow_ms.load(Relaxed))
    }
}

impl Client {
    /// Draws `n` IDs, recorded by the oracle.
    pub(crate) async fn draw(&self, n: u32) -> Result<Vec<u64>, Refusal> {
        let View { scheme, oracle, .. } = &self.view;
        let asked = Oracle::ask(&self.view.line);
        let mut drawn = Vec::new();
        self.issuer.draw(n, &mut drawn).await?;
        let ceiling = self.view.ceiling(&self.issuer);
        Ok(oracle.reply(asked, &self.view.line, scheme, n, &drawn, ceiling))
    }

    /// Draws `n` IDs of a named generator, recorded by the oracle. Nothing if it is not configured.
    pub(crate) async fn draw_named(&self, name: &str, n: u32) -> Result<(), Refusal> {
        let named = self.view.configured();
        let found = named.iter().find(|(_, generator)| generator.declaration().name() == name);
        let Some((index, generator)) = found else { return Ok(()) };
        let asked = Oracle::ask_named(&self.view.line, name);
        let mut drawn = Vec::new();
        self.issuer.draw_named(*index, n, &mut drawn).await?;
        self.view.check_declared(name);
        let ceiling_unix_ms = self.view.ceiling(&self.issuer).unix_ms(self.issuer.identity().layout.epoch());
        self.view.oracle.reply_named(asked, &self.view.line, generator, n, &drawn, ceiling_unix_ms);
        Ok(())
    }
}

/// Returns how long `work` took, in simulated time, and its result.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let began = Instant::now();
    let result = work.await;
    (began.elapsed(), result)
}

pub(crate) async fn pass(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Returns a layout of this shard-range, with some random bits if they fit.
pub(crate) fn layout(shard_range: u32) -> Layout {
    if shard_range == 9 {
        return Layout::default();
    }
    let random = (21 - shard_range).min(6);
    Layout::new(Layout::default().epoch(), 21 - shard_range - random, shard_range, random).expect("a sum of 21")
}

/// Returns a cached scheme: a cycle of random values is large.
pub(crate) fn scheme(identity: Identity) -> Arc<Scheme> {
    static MADE: LazyLock<Mutex<HashMap<String, Arc<Scheme>>>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let scheme = made.entry(format!("{identity:?}")).or_insert_with(|| {
        let mut rng = crate::random::Random(7);
        let mut values: Vec<u32> = (0..1 << identity.layout.random_bits()).collect();
        for i in (1..values.len()).rev() {
            values.swap(i, usize::try_from(rng.below(i as u64 + 1)).expect("an index"));
        }
        let cycle = RandomCycle::new(values).expect("a permutation");
        Arc::new(Scheme::new(identity.layout, identity.server_id, cycle).expect("a server-id that fits"))
    });
    Arc::clone(scheme)
}

/// Checks that every state a crash now could leave is a record past every ID given.
pub(crate) fn check_disk(machine: &Machine) {
    let end = machine.oracle.tick_end(machine.identity.layout.epoch());
    for text in machine.disk.after_crash() {
        let point = text.as_deref().map(|text| Record::parse(text).map(|record| record.adopted_by(machine.identity)));
        match point {
            None if end == Tick(0) => {}
            Some(Ok(Ok(record))) if record.point.watermark >= end => {}
            other => machine.oracle.report(|| format!("ids below {end:?} were given, and a crash leaves {other:?}")),
        }
    }
}
