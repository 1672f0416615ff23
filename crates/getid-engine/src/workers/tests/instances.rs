//! Machine ids of instances, which show their names instead of tokens.

use super::*;

/// Silence after which another instance may get an id, ms.
const GUARD_MS: u64 = 40_000;

fn request(instance: &str, guard_ms: Option<u64>, now_ms: u64) -> MachineRequest {
    MachineRequest { instance: instance.as_bytes().to_vec(), ids: 1024, guard_ms, now_ms: Some(now_ms) }
}

impl TestFleet {
    /// Sends an instance's request, with R on its clock.
    async fn distribute(&self, server: usize, instance: &str) -> Result<u32, WorkerError> {
        let request = request(instance, Some(GUARD_MS), self.clock.now_ms());
        Ok(self.servers[server].distribute("orders", &request).await?.id)
    }

    async fn guard(&self, server: usize, instance: &str) -> bool {
        self.servers[server].guard("orders", instance.as_bytes(), None).await.unwrap()
    }

    async fn revert(&self, server: usize, instance: &str) -> bool {
        self.servers[server].revert("orders", instance.as_bytes(), None).await.unwrap()
    }
}

fn is_used_up<T>(result: &Result<T, WorkerError>) -> bool {
    matches!(result, Err(WorkerError::NoLease { why: NoLease::Exhausted { .. }, .. }))
}

#[tokio::test(start_paused = true)]
async fn an_instance_keeps_its_id_while_it_is_guarded() {
    let fleet = TestFleet::open(1, 2).await;
    assert_eq!(fleet.distribute(0, "a").await, Ok(0));
    assert_eq!(fleet.distribute(0, "b").await, Ok(1));
    assert_eq!(fleet.distribute(0, "a").await, Ok(0), "an instance has one id");
    assert!(is_used_up(&fleet.distribute(0, "c").await));
    fleet.pass(GUARD_MS - 1);
    assert!(fleet.guard(0, "b").await);
    assert!(is_used_up(&fleet.distribute(0, "c").await));
    fleet.pass(1);
    assert_eq!(fleet.distribute(0, "c").await, Ok(0), "'a' was silent for as long as it asked for");
    assert!(!fleet.guard(0, "a").await && !fleet.revert(0, "a").await && !fleet.guard(0, "stranger").await);
    assert!(is_used_up(&fleet.distribute(0, "a").await));
    assert!(fleet.revert(0, "b").await && !fleet.guard(0, "b").await);
    fleet.pass(1);
    assert_eq!(fleet.distribute(0, "a").await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn an_id_that_was_not_taken_comes_back_to_its_instance() {
    let fleet = TestFleet::open(1, 4).await;
    assert_eq!(fleet.distribute(0, "a").await, Ok(0));
    fleet.pass(3 * GUARD_MS);
    assert!(fleet.guard(0, "a").await, "a late guard renews what no other instance has got");
    fleet.pass(3 * GUARD_MS);
    assert_eq!(fleet.distribute(0, "b").await, Ok(1), "ids that were never leased come first");
    assert_eq!(fleet.distribute(0, "a").await, Ok(0));
}

#[tokio::test(start_paused = true)]
async fn a_stable_instance_keeps_its_id_for_ever() {
    let fleet = TestFleet::open(2, 1).await;
    let stable = request("a", None, NOW + 60_000);
    assert_eq!(fleet.servers[0].distribute("orders", &stable).await.unwrap().id, 0);
    fleet.pass(1_000 * GUARD_MS);
    grow_old().await;
    for server in 0..2 {
        assert!(is_used_up(&fleet.distribute(server, "b").await));
        let (_, leases) = fleet.servers[server].leases("orders", 0, 9).await.unwrap();
        assert_eq!((leases.len(), leases[0].state, &*leases[0].name), (1, "kept", "a"));
        assert!(fleet.guard(server, "a").await);
    }
    let refused = fleet.distribute(0, "b").await.unwrap_err().to_string();
    assert!(refused.contains("1 by 'a'; none falls free by itself: WORKERID REVOKE ends the lease"), "{refused}");
    // An operator who knows that the instance is gone frees its id.
    fleet.servers[0].revoke("orders", 0).await.unwrap();
    assert!(!fleet.guard(0, "a").await);
    fleet.pass(GUARD_MS);
    assert_eq!(fleet.distribute(0, "b").await, Ok(0));
}

#[tokio::test(start_paused = true)]
async fn the_reported_time_of_an_id_never_decreases() {
    let fleet = TestFleet::open(1, 1).await;
    let server = &fleet.servers[0];
    let ahead = NOW + 60_000 + 5_000;
    assert_eq!(server.distribute("orders", &request("a", Some(GUARD_MS), ahead)).await.unwrap().from_ms, ahead);
    assert_eq!(server.guard("orders", b"a", Some(ahead + 700)).await, Ok(true));
    assert_eq!(server.guard("orders", b"a", Some(ahead - 900)).await, Ok(true));
    // The instance is started again, and its clock went back.
    let again = server.distribute("orders", &request("a", Some(GUARD_MS), ahead - 3_000)).await.unwrap();
    assert_eq!(again, MachineId { id: 0, from_ms: ahead + 700 });
    // Another instance begins after the newest ID of the one before.
    assert_eq!(server.revert("orders", b"a", Some(ahead + 800)).await, Ok(true));
    let other = server.distribute("orders", &request("b", Some(GUARD_MS), ahead + 400)).await.unwrap();
    assert_eq!(other, MachineId { id: 0, from_ms: ahead + 801 });
    // A clock that cannot be right changes nothing.
    let far = NOW + 60_000 + 3_600_001;
    for refused in [
        server.distribute("orders", &request("b", None, far)).await.map(|_| true),
        server.guard("orders", b"b", Some(far)).await,
        server.revert("orders", b"b", Some(far)).await,
    ] {
        assert!(matches!(refused, Err(WorkerError::Lease { why: LeaseRefusal::LastAhead { .. }, .. })), "{refused:?}");
    }
    assert_eq!(server.distribute("orders", &request("b", Some(GUARD_MS), ahead)).await.unwrap().from_ms, ahead + 801);
}

#[tokio::test(start_paused = true)]
async fn a_name_has_one_id_at_all_servers() {
    let fleet = TestFleet::open(2, 8).await;
    assert_eq!(fleet.distribute(0, "a").await, Ok(0));
    assert_eq!(fleet.distribute(1, "a").await, Ok(0));
    // The answer of the store is lost, or the write is done late.
    fleet.store.loses_answer.store(true, Relaxed);
    assert_eq!(fleet.distribute(0, "b").await, Ok(1));
    fleet.store.delays.store(true, Relaxed);
    assert_eq!(fleet.distribute(0, "c").await, Ok(2));
    assert_eq!(fleet.distribute(1, "b").await, Ok(1));
    assert_eq!(fleet.distribute(1, "c").await, Ok(2));
    // All at once, at both servers.
    let names = ["a", "b", "c", "d", "e"];
    let requests = names.iter().flat_map(|name| fleet.servers.iter().map(move |server| (Arc::clone(server), *name)));
    let requests: Vec<_> = requests
        .map(|(server, name)| {
            let request = request(name, Some(GUARD_MS), fleet.clock.now_ms());
            tokio::spawn(async move { server.distribute("orders", &request).await.unwrap().id })
        })
        .collect();
    let mut ids = Vec::new();
    for request in requests {
        ids.push(request.await.unwrap());
    }
    for (at, pair) in ids.chunks(2).enumerate() {
        assert!(ids.iter().enumerate().all(|(other, id)| other / 2 == at || !pair.contains(id)), "{ids:?}");
    }
    for (server, name) in [(0, "d"), (1, "e")] {
        grow_old().await;
        assert!(fleet.guard(server, name).await);
    }
}

/// Writes a lease to the store, as another server does that is asked at the same time.
fn plant(fleet: &TestFleet, id: u32, change: impl FnOnce(&mut Lease)) {
    let key = Key::new(format!("worker/orders/{id}")).unwrap();
    let row = fleet.store.rows.get(&key).unwrap();
    let mut lease = super::super::record::read_lease("orders", id, &row.text).unwrap();
    change(&mut lease);
    let stamp = Stamp { beat: row.stamp.beat + 1, ..row.stamp };
    let text = super::super::record::lease_text("orders", id, &lease, stamp);
    fleet.store.rows.set(key, Some(RecordRow { stamp, text }));
}

#[tokio::test(start_paused = true)]
async fn two_ids_of_one_name_are_renewed_together() {
    let fleet = TestFleet::open(1, 2).await;
    assert_eq!(fleet.distribute(0, "a").await, Ok(0));
    assert_eq!(fleet.distribute(0, "b").await, Ok(1));
    plant(&fleet, 1, |lease| lease.name = "a".to_owned());
    // Guards come once a minute, and this server has no reason to list the leases but them.
    tokio::time::advance(Duration::from_mins(1)).await;
    fleet.pass(GUARD_MS - 1);
    assert!(fleet.guard(0, "a").await);
    fleet.pass(1);
    assert!(is_used_up(&fleet.distribute(0, "c").await));
    assert!(fleet.revert(0, "a").await);
    fleet.pass(1);
    let free = [fleet.distribute(0, "c").await, fleet.distribute(0, "d").await];
    assert!(matches!(free, [Ok(0), Ok(1)] | [Ok(1), Ok(0)]), "{free:?}");
}

/// The first server has an old copy of the instance's lease.
#[tokio::test(start_paused = true)]
async fn an_instance_that_has_another_id_by_now_is_found() {
    for is_revert in [false, true] {
        let fleet = TestFleet::open(2, 4).await;
        assert_eq!(fleet.distribute(0, "a").await, Ok(0));
        assert!(fleet.revert(1, "a").await);
        for (instance, id) in [("b", 1), ("c", 2), ("d", 3), ("e", 0)] {
            fleet.pass(1);
            assert_eq!(fleet.distribute(1, instance).await, Ok(id));
        }
        assert!(fleet.revert(1, "b").await);
        fleet.pass(1);
        assert_eq!(fleet.distribute(1, "a").await, Ok(1));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(if is_revert { fleet.revert(0, "a").await } else { fleet.guard(0, "a").await });
    }
}

#[tokio::test(start_paused = true)]
async fn a_stable_instance_keeps_the_id_that_another_request_got_for_it() {
    let fleet = TestFleet::open(2, 1).await;
    let stable = request("a", None, NOW + 60_000);
    // The second server's write is done first, so that of the first one conflicts.
    fleet.store.delays.store(true, Relaxed);
    assert_eq!(fleet.distribute(1, "a").await, Ok(0));
    assert_eq!(fleet.servers[0].distribute("orders", &stable).await.unwrap().id, 0);
    let (_, leases) = fleet.servers[0].leases("orders", 0, 9).await.unwrap();
    assert_eq!(leases[0].state, "kept");
}

#[tokio::test(start_paused = true)]
async fn a_pool_with_shorter_leases_does_not_shorten_those_of_instances() {
    let mut fleet = TestFleet::open(1, 1).await;
    assert_eq!(fleet.distribute(0, "a").await, Ok(0));
    let rules = PoolRules { size: 1, lease_ms: 1_000, longest_ms: 1_000 };
    let specs = [PoolSpec { name: "orders".to_owned(), rules }];
    let store: Arc<dyn RecordStore> = Arc::clone(&fleet.store) as _;
    let host: Arc<dyn Host> = Arc::clone(&fleet.clock) as _;
    fleet.servers = vec![Workers::on(Handle::current(), &specs, &store, &host)];
    fleet.pass(GUARD_MS - 1);
    assert!(fleet.guard(0, "a").await);
    fleet.pass(GUARD_MS - 1);
    let short = request("b", Some(1_000), fleet.clock.now_ms());
    assert!(is_used_up(&fleet.servers[0].distribute("orders", &short).await));
}

#[tokio::test(start_paused = true)]
async fn an_id_whose_turn_comes_too_late_for_the_instance_is_left() {
    let fleet = TestFleet::open(1, 2).await;
    let now_ms = fleet.clock.now_ms();
    assert_eq!(fleet.distribute(0, "a").await, Ok(0));
    assert_eq!(fleet.servers[0].revert("orders", b"a", Some(now_ms + 5_000)).await, Ok(true));
    // Its clock was corrected, and CosId waits for half a second at most.
    let again = fleet.servers[0].distribute("orders", &request("a", Some(GUARD_MS), now_ms)).await.unwrap();
    assert_eq!(again, MachineId { id: 1, from_ms: now_ms });
    let late = request("b", Some(GUARD_MS), now_ms + 4_501);
    assert!(is_used_up(&fleet.servers[0].distribute("orders", &request("b", None, now_ms + 4_400)).await));
    assert_eq!(
        fleet.servers[0].distribute("orders", &late).await.unwrap(),
        MachineId { id: 0, from_ms: now_ms + 5_001 }
    );
}

#[tokio::test(start_paused = true)]
async fn a_pool_has_leases_of_one_kind() {
    let fleet = TestFleet::open(1, 2).await;
    let granted = fleet.lease(0, "a").await.unwrap();
    assert!(!fleet.guard(0, "a").await && !fleet.revert(0, "a").await);
    let refused = fleet.distribute(0, "a").await.unwrap_err().to_string();
    assert!(refused.starts_with("ERR worker pool 'orders' has leases with tokens (WORKERID LEASE)"), "{refused}");
    assert_eq!(fleet.servers[0].release("orders", 0, token(&granted), Some(NOW)).await, Ok(()));
    assert_eq!(fleet.distribute(0, "a").await, Ok(0));
    for token in [LeaseToken::default(), token(&granted)] {
        assert!(fleet.servers[0].renew("orders", 0, token, None).await.is_err());
    }
    let refused = fleet.lease(0, "b").await.unwrap_err().to_string();
    assert!(refused.starts_with("ERR worker pool 'orders' has leases of CosId's instances"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_layout_with_fewer_ids_gets_one_of_those() {
    let fleet = TestFleet::open(1, 8).await;
    let narrow = |instance: &str| MachineRequest { ids: 2, ..request(instance, Some(GUARD_MS), fleet.clock.now_ms()) };
    for (instance, id) in [("a", 0), ("b", 1), ("c", 2)] {
        assert_eq!(fleet.distribute(0, instance).await, Ok(id));
    }
    assert!(is_used_up(&fleet.servers[0].distribute("orders", &narrow("d")).await));
    assert!(is_used_up(&fleet.servers[0].distribute("orders", &narrow("c")).await), "its own id does not fit");
    assert!(fleet.guard(0, "c").await);
    let none = MachineRequest { ids: 0, ..narrow("a") };
    assert!(is_used_up(&fleet.servers[0].distribute("orders", &none).await));
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_new_or_went_back_gives_no_id_and_continues_guards() {
    let fleet = TestFleet::new(1, 4);
    let closed = |result: Result<u32, WorkerError>| {
        let text = result.unwrap_err().to_string();
        assert!(text.starts_with("TRYAGAIN worker pool 'orders' leases nothing before"), "{text}");
    };
    closed(fleet.distribute(0, "a").await);
    fleet.pass(60_000);
    assert_eq!(fleet.distribute(0, "a").await, Ok(0));
    let rows = fleet.store.all();
    assert_eq!(fleet.distribute(0, "b").await, Ok(1));
    fleet.store.restore(&rows);
    tokio::time::advance(Duration::from_secs(6)).await;
    // The store may have lost that 'a' gave its id back, and 'b' got it.
    closed(fleet.distribute(0, "a").await);
    assert!(fleet.guard(0, "a").await && !fleet.guard(0, "b").await);
    fleet.pass(60_000);
    assert_eq!(fleet.distribute(0, "b").await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_guard_longer_than_the_pools_leases_is_refused() {
    let fleet = TestFleet::open(1, 4).await;
    let long = request("a", Some(60_001), NOW + 60_000);
    let refused = fleet.servers[0].distribute("orders", &long).await.unwrap_err().to_string();
    assert!(refused.starts_with("ERR worker pool 'orders' has leases of 60000 ms at most, and the instance's"));
    fleet.store.is_away.store(true, Relaxed);
    let refused = fleet.distribute(0, "a").await.unwrap_err().to_string();
    assert!(refused.starts_with("MISCONF worker ids: the store is unavailable"), "{refused}");
    fleet.store.is_away.store(false, Relaxed);
    assert_eq!(fleet.distribute(0, "a").await, Ok(0), "nothing was lost");
}

#[tokio::test(start_paused = true)]
async fn names_without_an_id_take_no_memory_and_few_reads() {
    let fleet = TestFleet::open(1, 2).await;
    assert_eq!(fleet.distribute(0, "a").await, Ok(0));
    assert_eq!(fleet.distribute(0, "b").await, Ok(1));
    let lists = fleet.store.lists.load(Relaxed);
    for number in 0..1_000 {
        assert!(!fleet.guard(0, &format!("stranger-{number}")).await);
    }
    assert!(fleet.store.lists.load(Relaxed) <= lists + 1);
    for number in 0..1_000 {
        assert!(is_used_up(&fleet.distribute(0, &format!("stranger-{number}")).await));
    }
    // A request for an id lists once; a known instance's needs none.
    assert!(fleet.store.lists.load(Relaxed) <= lists + 1_001);
    let lists = fleet.store.lists.load(Relaxed);
    assert_eq!(fleet.distribute(0, "a").await, Ok(0));
    assert_eq!(fleet.store.lists.load(Relaxed), lists);
    assert_eq!(fleet.servers[0].pools()[0].leased, 2);
    assert_eq!(fleet.servers[0].leases("orders", 0, 9).await.unwrap().1.len(), 2);
}
