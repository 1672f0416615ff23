//! Tests of pools over a store in memory, with one or two servers.

mod instances;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use getid_core::server::worker::{LeaseRefusal, NoLease, NotNewReason};

use super::*;
use getid_store::records::memory::MemoryStore;
use getid_store::records::{
    DamagedRow, Key, RecordFuture, RecordPage, RecordRow, RecordStoreError, RecordStoreInfo, Stamp, WriteResult,
};

const NOW: u64 = 1_800_000_000_000;

/// R, as set by the test.
struct TestClock(AtomicU64);

impl Host for TestClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn may_lease(&self) -> bool {
        true
    }
}

/// A store in memory with faults that a test switches on.
#[derive(Default)]
struct FaultyStore {
    rows: MemoryStore,
    /// Whether the answer of the next write is lost after the write is done.
    loses_answer: AtomicBool,
    /// Whether every call fails.
    is_away: AtomicBool,
    /// Whether the next write is reported lost, and done when the following write arrives.
    delays: AtomicBool,
    delayed: Mutex<Option<(Key, Option<Stamp>, RecordRow)>>,
    writes: AtomicU64,
    lists: AtomicU64,
}

impl FaultyStore {
    fn away<T>(&self) -> Result<(), Result<T, RecordStoreError>> {
        let gone = || Err(RecordStoreError::Away("rough: no route to host".to_owned()));
        if self.is_away.load(Relaxed) { Err(gone()) } else { Ok(()) }
    }

    /// Returns all rows.
    fn all(&self) -> Vec<(Key, RecordRow)> {
        let keys = (0..8).map(|id| format!("worker/orders/{id}")).chain(["worker/orders".to_owned()]);
        keys.filter_map(|key| Key::new(key).and_then(|key| Some((key.clone(), self.rows.get(&key)?)))).collect()
    }

    /// Restores an older state of the store, which loses later writes.
    fn restore(&self, rows: &[(Key, RecordRow)]) {
        for (key, _) in self.all() {
            self.rows.set(key, None);
        }
        for (key, row) in rows {
            self.rows.set(key.clone(), Some(row.clone()));
        }
    }
}

impl RecordStore for FaultyStore {
    fn shown(&self) -> &'static str {
        "rough"
    }

    fn read<'a>(&'a self, key: &'a Key) -> RecordFuture<'a, Option<RecordRow>> {
        match self.away() {
            Err(error) => Box::pin(async { error }),
            Ok(()) => self.rows.read(key),
        }
    }

    fn list<'a>(&'a self, prefix: &'a str, after: &'a str, limit: usize) -> RecordFuture<'a, RecordPage> {
        if let Err(error) = self.away() {
            return Box::pin(async { error });
        }
        self.lists.fetch_add(1, Relaxed);
        self.rows.list(prefix, after, limit)
    }

    fn write<'a>(&'a self, key: &'a Key, expect: Option<Stamp>, new: &'a RecordRow) -> RecordFuture<'a, WriteResult> {
        if let Err(error) = self.away() {
            return Box::pin(async { error });
        }
        self.writes.fetch_add(1, Relaxed);
        let unknown = || Err(RecordStoreError::Unknown("rough: connection reset".to_owned()));
        if self.delays.swap(false, Relaxed) {
            *self.delayed.lock().unwrap() = Some((key.clone(), expect, new.clone()));
            return Box::pin(async move { unknown() });
        }
        if let Some((key, expect, row)) = self.delayed.lock().unwrap().take() {
            self.rows.write_now(&key, expect, &row);
        }
        let written = self.rows.write_now(key, expect, new);
        if self.loses_answer.swap(false, Relaxed) {
            return Box::pin(async move { unknown() });
        }
        Box::pin(async { Ok(written) })
    }

    fn mend<'a>(&'a self, key: &'a Key, bad: &'a DamagedRow, new: &'a RecordRow) -> RecordFuture<'a, bool> {
        self.rows.mend(key, bad, new)
    }

    fn info(&self) -> RecordFuture<'_, RecordStoreInfo> {
        self.rows.info()
    }
}

struct TestFleet {
    clock: Arc<TestClock>,
    store: Arc<FaultyStore>,
    servers: Vec<Arc<Workers>>,
}

impl TestFleet {
    /// Starts servers with one pool that is open for leases.
    async fn open(servers: usize, size: u32) -> TestFleet {
        let fleet = TestFleet::new(servers, size);
        assert!(matches!(
            fleet.servers[0].lease("orders", String::new(), None).await,
            Err(WorkerError::NoLease { why: NoLease::NotOpen { .. }, .. })
        ));
        fleet.pass(60_000);
        fleet
    }

    fn new(servers: usize, size: u32) -> TestFleet {
        let clock = Arc::new(TestClock(AtomicU64::new(NOW)));
        let store = Arc::new(FaultyStore::default());
        let mut fleet = TestFleet { clock, store, servers: Vec::new() };
        for _ in 0..servers {
            fleet.start(size);
        }
        fleet
    }

    fn start(&mut self, size: u32) {
        let rules = PoolRules { size, lease_ms: 30_000, longest_ms: 60_000 };
        let specs = [PoolSpec { name: "orders".to_owned(), rules }];
        let store: Arc<dyn RecordStore> = Arc::clone(&self.store) as _;
        let host: Arc<dyn Host> = Arc::clone(&self.clock) as _;
        self.servers.push(Workers::on(Handle::current(), &specs, &store, &host));
    }

    fn pass(&self, ms: u64) {
        self.clock.0.fetch_add(ms, Relaxed);
    }

    async fn lease(&self, server: usize, name: &str) -> Result<GrantedLease, WorkerError> {
        self.servers[server].lease("orders", name.to_owned(), None).await
    }

    async fn renew(&self, server: usize, granted: &GrantedLease) -> Result<u64, WorkerError> {
        self.servers[server].renew("orders", granted.id, token(granted), None).await
    }
}

fn token(granted: &GrantedLease) -> LeaseToken {
    LeaseToken::parse(granted.token.as_bytes()).unwrap()
}

/// Lets time pass until copies in memory are outdated.
async fn grow_old() {
    tokio::time::advance(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_by_one_write_and_released() {
    let fleet = TestFleet::open(1, 4).await;
    let granted = fleet.lease(0, "a").await.unwrap();
    assert_eq!((granted.id, granted.not_before_ms), (0, NOW + 60_000));
    assert_eq!(granted.not_after_ms, NOW + 90_000);
    fleet.pass(10_000);
    let before = fleet.store.writes.load(Relaxed);
    assert_eq!(fleet.renew(0, &granted).await, Ok(NOW + 100_000));
    assert_eq!(fleet.store.writes.load(Relaxed), before + 1);
    let released = fleet.servers[0].release("orders", 0, token(&granted), Some(NOW + 70_001)).await;
    assert_eq!(released, Ok(()));
    let again = fleet.lease(0, "a").await.unwrap();
    assert_eq!((again.id, again.not_before_ms), (0, NOW + 70_002));
    assert_ne!(again.token, granted.token);
    assert!(matches!(fleet.renew(0, &granted).await, Err(WorkerError::Lease { why: LeaseRefusal::Over { .. }, .. })));
}

#[tokio::test(start_paused = true)]
async fn servers_lease_from_one_pool() {
    let fleet = TestFleet::open(2, 4).await;
    let mut ids = Vec::new();
    for server in [0, 1, 1, 0] {
        ids.push(fleet.lease(server, "").await.unwrap().id);
    }
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3]);
    for server in 0..2 {
        grow_old().await;
        let refused = fleet.lease(server, "").await.unwrap_err();
        assert!(refused.to_string().starts_with("EXHAUSTED worker pool 'orders' is used up: all 4 ids"), "{refused}");
    }
    assert!(matches!(fleet.servers[0].lease("other", String::new(), None).await, Err(WorkerError::NoSuchPool { .. })));
}

#[tokio::test(start_paused = true)]
async fn what_one_server_leased_another_renews_and_revokes() {
    let fleet = TestFleet::open(2, 4).await;
    let granted = fleet.lease(0, "a").await.unwrap();
    fleet.pass(1_000);
    assert_eq!(fleet.renew(1, &granted).await, Ok(NOW + 91_000));
    // The first server has an old record in memory.
    fleet.pass(1_000);
    assert_eq!(fleet.renew(0, &granted).await, Ok(NOW + 92_000));
    assert_eq!(fleet.servers[1].revoke("orders", 0).await, Ok(NOW + 92_000));
    let refused = fleet.renew(0, &granted).await.unwrap_err();
    assert!(
        refused.to_string().starts_with("REVOKED worker id 0 of pool 'orders': this lease was revoked"),
        "{refused}"
    );
    fleet.pass(90_000);
    // A lease that is over at one server was renewed at another. The record in the store counts.
    let second = fleet.lease(0, "b").await.unwrap();
    fleet.pass(29_999);
    let end = fleet.renew(1, &second).await.unwrap();
    fleet.pass(10_000);
    assert!(fleet.renew(0, &second).await.unwrap() > end);
    let never = fleet.servers[0].revoke("orders", 3).await.unwrap_err();
    assert!(never.to_string().starts_with("ERR worker id 3 of pool 'orders' was never leased"), "{never}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_is_settled_by_reading() {
    let fleet = TestFleet::open(1, 2).await;
    fleet.store.loses_answer.store(true, Relaxed);
    let granted = fleet.lease(0, "a").await.unwrap();
    assert_eq!(granted.id, 0);
    fleet.pass(1_000);
    fleet.store.loses_answer.store(true, Relaxed);
    assert_eq!(fleet.renew(0, &granted).await, Ok(NOW + 91_000));
    // A write that is done late conflicts with one that came in between, or counts.
    fleet.pass(1_000);
    fleet.store.delays.store(true, Relaxed);
    assert_eq!(fleet.renew(0, &granted).await, Ok(NOW + 92_000));
    fleet.store.delays.store(true, Relaxed);
    let second = fleet.lease(0, "b").await.unwrap();
    assert_eq!((second.id, fleet.lease(0, "c").await.is_err()), (1, true));
    assert!(fleet.renew(0, &second).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_gives_nothing_and_comes_back() {
    let fleet = TestFleet::open(1, 2).await;
    let granted = fleet.lease(0, "a").await.unwrap();
    fleet.pass(1_000);
    fleet.store.is_away.store(true, Relaxed);
    let refused = fleet.renew(0, &granted).await.unwrap_err();
    assert!(refused.to_string().starts_with("MISCONF worker ids: the store is unavailable, and nothing was done"));
    grow_old().await;
    assert!(matches!(fleet.lease(0, "b").await, Err(WorkerError::Store { .. })));
    fleet.store.is_away.store(false, Relaxed);
    assert!(fleet.renew(0, &granted).await.is_ok());
    assert_eq!(fleet.lease(0, "b").await.unwrap().id, 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_went_back_leases_nothing_until_all_is_over() {
    let fleet = TestFleet::open(2, 4).await;
    fleet.lease(0, "a").await.unwrap();
    grow_old().await;
    fleet.servers[1].look_at("orders").await.unwrap();
    let old = fleet.store.all();
    let lost = fleet.lease(0, "b").await.unwrap();
    grow_old().await;
    // The pool's record shows that leases have changed.
    fleet.servers[0].look_at("orders").await.unwrap();
    fleet.store.restore(&old);
    grow_old().await;
    let refused = fleet.lease(0, "c").await.unwrap_err();
    let WorkerError::NoLease { why: NoLease::NotOpen { opens_ms, .. }, .. } = refused else { panic!("{refused}") };
    assert!(opens_ms >= lost.not_after_ms);
    grow_old().await;
    assert!(matches!(fleet.lease(1, "c").await, Err(WorkerError::NoLease { why: NoLease::NotOpen { .. }, .. })));
    fleet.pass(60_000);
    grow_old().await;
    for server in 0..2 {
        assert!(fleet.lease(server, "").await.unwrap().not_before_ms >= lost.not_after_ms);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_empty_again_is_noticed_by_a_renewal() {
    let fleet = TestFleet::open(1, 4).await;
    let granted = fleet.lease(0, "a").await.unwrap();
    fleet.pass(1_000);
    fleet.store.restore(&[]);
    assert!(fleet.renew(0, &granted).await.is_err());
    assert!(matches!(fleet.lease(0, "b").await, Err(WorkerError::NoLease { why: NoLease::NotOpen { .. }, .. })));
    fleet.pass(60_000);
    assert!(fleet.lease(0, "b").await.unwrap().not_before_ms >= granted.not_after_ms);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_damaged_costs_its_id_alone() {
    let fleet = TestFleet::open(1, 2).await;
    let granted = fleet.lease(0, "a").await.unwrap();
    let key = Key::new("worker/orders/0").unwrap();
    let row = fleet.store.rows.get(&key).unwrap();
    let text = row.text.replace("ttl 30000", "ttl 60000");
    fleet.store.rows.set(key, Some(RecordRow { text, stamp: Stamp { beat: row.stamp.beat + 1, ..row.stamp } }));
    fleet.pass(1_000);
    assert!(fleet.renew(0, &granted).await.is_err());
    fleet.pass(60_000);
    grow_old().await;
    assert_eq!(fleet.lease(0, "").await.unwrap().id, 1);
    assert!(fleet.lease(0, "").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn many_programs_get_ids_of_their_own() {
    let fleet = TestFleet::open(3, 64).await;
    let all = (0..64).map(|number| {
        let server = Arc::clone(&fleet.servers[number % 3]);
        tokio::spawn(async move { server.lease("orders", format!("p{number}"), None).await })
    });
    let mut ids = Vec::new();
    for task in all.collect::<Vec<_>>() {
        ids.push(task.await.unwrap().unwrap().id);
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..64).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_declared_new_opens_at_once_for_all_servers() {
    let fleet = TestFleet::new(2, 4);
    assert!(fleet.lease(1, "a").await.is_err());
    assert_eq!(fleet.servers[0].open_new("orders").await, Ok(()));
    assert_eq!(fleet.servers[0].open_new("orders").await, Ok(()), "sent again");
    let first = fleet.lease(0, "a").await.unwrap();
    assert_eq!((first.id, first.not_before_ms), (0, NOW));
    grow_old().await;
    assert_eq!(fleet.lease(1, "b").await.unwrap().id, 1);
    for server in 0..2 {
        assert_eq!(fleet.servers[server].open_new("orders").await, Ok(()), "sent again while it is in use");
    }
    assert_eq!(fleet.lease(1, "c").await.unwrap().id, 2, "nothing was forgotten");
    let other = fleet.servers[0].open_new("other").await;
    assert!(matches!(other, Err(WorkerError::NoSuchPool { .. })), "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_store_went_back_is_not_new() {
    let fleet = TestFleet::open(1, 4).await;
    let granted = fleet.lease(0, "a").await.unwrap();
    grow_old().await;
    fleet.servers[0].look_at("orders").await.unwrap();
    fleet.store.restore(&[]);
    let refused = fleet.servers[0].open_new("orders").await.unwrap_err();
    assert!(matches!(refused, WorkerError::NotNew { why: NotNewReason::Rewritten { .. }, .. }), "{refused}");
    fleet.pass(60_000);
    assert_eq!(fleet.servers[0].open_new("orders").await, Ok(()), "it is open by itself");
    assert!(fleet.lease(0, "b").await.unwrap().not_before_ms >= granted.not_after_ms);
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_a_new_pool_that_is_lost_is_settled_by_reading() {
    let fleet = TestFleet::new(1, 4);
    assert!(fleet.lease(0, "a").await.is_err());
    fleet.store.loses_answer.store(true, Relaxed);
    assert_eq!(fleet.servers[0].open_new("orders").await, Ok(()));
    assert_eq!(fleet.lease(0, "a").await.unwrap().not_before_ms, NOW);
}

#[tokio::test(start_paused = true)]
async fn pages_of_leases() {
    let fleet = TestFleet::open(1, 8).await;
    for name in ["a", "b", "c"] {
        fleet.lease(0, name).await.unwrap();
    }
    let (next, page) = fleet.servers[0].leases("orders", 0, 2).await.unwrap();
    assert_eq!((next, page.len(), page[0].name.as_str(), page[0].state), (Some(2), 2, "a", "held"));
    let (next, page) = fleet.servers[0].leases("orders", 2, 2).await.unwrap();
    assert_eq!((next, page.len(), page[0].name.as_str()), (None, 1, "c"));
    let view = fleet.servers[0].look_at("orders").await.unwrap();
    assert_eq!((view.leased, view.counts.leases, view.store.as_str()), (3, 3, "rough"));
}

#[test]
fn tokens() {
    let token = LeaseToken::random();
    assert_eq!(LeaseToken::parse(token.text().as_bytes()).map(LeaseToken::text), Some(token.text()));
    for bad in ["", "7", &"0".repeat(31), &"0".repeat(33), &"A".repeat(32), &format!("+{}", "0".repeat(31))] {
        assert!(LeaseToken::parse(bad.as_bytes()).is_none(), "{bad}");
    }
    assert_ne!(token.digest().0, LeaseToken::random().digest().0);
}
