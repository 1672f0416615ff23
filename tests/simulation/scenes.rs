//! Named scenes: restarts, disks, the borrow limit, the queue.

use std::io::ErrorKind;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use getid_core::server::checks::{Fault, plant};
use getid_core::{BorrowPolicy, Declaration, Epoch, Layout, Refusal, SavePoint, no_dates};
use getid_engine::claim::{Identity, Mismatch, NoClaim, Record, SaveError, SaveStep};
use getid_engine::generators::{Keeper, KeeperError};
use getid_redis::session::turn_ids_max;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock::START_UNIX_MS;
use crate::disk::{SimDisk, StepFault};
use crate::machine::{Machine, Server, layout, pass, timed};

/// More saves than any scene has.
const MANY: usize = 5000;

impl Machine {
    /// Returns a server that has been up for a while: a start without a record begins at the borrow limit.
    async fn settled(&self) -> Server {
        let server = self.start().await;
        pass(4000).await;
        server
    }

    fn done(&self) {
        self.oracle.verdict().expect("nothing that breaks a promise");
    }

    /// Draws until the borrow limit is reached.
    pub(crate) async fn borrow_all(&self, server: &Server) {
        let shard_bits = self.identity.layout.shard_bits();
        while server.status().mint.borrow_ms + 1 < self.limits.max_borrow_ms {
            let missing_ms = self.limits.max_borrow_ms - server.status().mint.borrow_ms;
            let n = (missing_ms / 2).max(1) << shard_bits;
            server.draw(u32::try_from(n.min(20_000)).expect("small")).await.expect("ids");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn killed_at_the_borrow_limit_it_waits_for_200_ms_at_most() {
    for shard_range in [0, 3, 5] {
        let machine = Machine::new().with_shard_range(shard_range);
        let mut server = machine.start().await;
        for _ in 0..5 {
            machine.borrow_all(&server).await;
            server.kill().await;
            server = machine.start().await;
            let (waited, _) = timed(server.tick()).await;
            assert!(waited <= Duration::from_millis(201), "{waited:?}");
        }
        machine.done();
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_restarts_stay_with_the_clock() {
    let machine = Machine::new();
    for life in 0..100 {
        let server = machine.start().await;
        let (waited, tick) = timed(server.tick()).await;
        assert!(waited <= Duration::from_millis(201), "life {life}: {waited:?}");
        let status = server.status();
        let ahead_ms = tick.ms_since(status.mint.reference);
        assert!(ahead_ms < machine.limits.max_borrow_ms, "life {life}: {ahead_ms} ms ahead");
        assert_eq!(status.mint.clock_offset_ms, 0, "R is W");
        pass(100).await;
        server.kill().await;
    }
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn a_crash_without_borrowing_costs_no_wait() {
    let machine = Machine::new();
    for _ in 0..20 {
        let server = machine.start().await;
        // A start begins at the borrow limit.
        pass(1).await;
        for _ in 0..100 {
            let (waited, _) = timed(server.draw(10)).await;
            assert_eq!(waited, Duration::ZERO);
            pass(50).await;
        }
        server.crash().await;
    }
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_loses_and_repeats_nothing() {
    let mut machine = Machine::new();
    for shard_range in [9, 3, 0, 12, 9] {
        machine = machine.with_shard_range(shard_range);
        let server = machine.start().await;
        server.draw(2000).await.expect("ids");
        let position = server.status().mint.position;
        server.stop().await.expect("a last save");
        assert_eq!(machine.found().map(|point| point.watermark), Some(position));
    }
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn the_settings_may_change_between_lives() {
    let mut machine = Machine::new();
    for shard_range in [9, 0, 21, 9, 3] {
        machine.identity = Identity { server_id: 0, layout: layout(shard_range) };
        let server = machine.start().await;
        server.draw(100).await.expect("ids");
        server.kill().await;
    }
    // Another server-id does not use this record, and has its own: they share nothing.
    let other = Identity { server_id: 1, layout: layout(3) };
    let record = machine.disk.record().expect("a record");
    assert!(matches!(record.adopted_by(other), Err(Mismatch::ServerId { .. })));
    let neighbour = Machine {
        identity: other,
        clock: machine.clock.clone(),
        disk: SimDisk::new(2),
        limits: machine.limits,
        max_wait_ms: machine.max_wait_ms,
        patience: None,
        dropped_saves: std::sync::Arc::default(),
        oracle: crate::oracle::Oracle::default(),
        generators: Vec::new(),
    };
    let (a, b) = (machine.start().await, neighbour.start().await);
    let mut ids = a.draw(1000).await.expect("ids");
    ids.extend(b.draw(1000).await.expect("ids"));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 2000);
    a.kill().await;

    // An earlier epoch makes larger IDs, a later one is refused.
    let epoch = |unix_ms| Layout::new(Epoch::from_unix_ms(unix_ms).expect("an epoch"), 12, 3, 6).expect("21");
    let now = machine.identity.layout.epoch().unix_ms();
    let later = Identity { server_id: 0, layout: epoch(now + 1) };
    assert!(matches!(machine.disk.record().expect("a record").adopted_by(later), Err(Mismatch::Epoch { .. })));
    machine.identity.layout = epoch(now - 86_400_000);
    let server = machine.start().await;
    let (waited, _) = timed(server.draw(100)).await;
    assert!(waited <= Duration::from_millis(200), "{waited:?}");
    machine.done();
    neighbour.done();
}

#[tokio::test(start_paused = true)]
async fn without_a_record_ids_start_past_a_lost_run() {
    let machine = Machine::new().with_shard_range(0);
    let server = machine.start().await;
    machine.borrow_all(&server).await;
    server.kill().await;
    // Four lives without any record: each is past all IDs of the previous one, under any load.
    for _ in 0..3 {
        let server: Server = machine.start_with(NoClaim::acquired(None)).await.expect("a start");
        let (waited, _) = timed(server.draw(1)).await;
        assert!(waited <= Duration::from_millis(2), "IDs come at once: {waited:?}");
        // And at the layout's rate.
        let (waited, _) = timed(server.draw(1000)).await;
        assert!(waited <= Duration::from_millis(1010), "{waited:?}");
        machine.borrow_all(&server).await;
        server.kill().await;
    }
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn one_shard_and_pipelines_of_thousands() {
    let mut machine = Machine::new().with_shard_range(0);
    machine.max_wait_ms = 60_000;
    let server = machine.start().await;
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        let client = server.client();
        clients.spawn(async move {
            for _ in 0..3 {
                client.draw(5000).await.expect("ids at the layout's rate");
            }
        });
    }
    clients.join_all().await;
    // 60,000 at 1000 a second; without a record there is nothing to borrow.
    let took = began.elapsed();
    assert!((59_000..61_500).contains(&took.as_millis()), "{took:?}");
    // Under the policy `error` such a pipeline is larger than the limit, and still served once it has begun.
    server.stop().await.expect("a last save");
    machine.limits.policy = BorrowPolicy::Error;
    let server = machine.start().await;
    pass(4000).await;
    assert_eq!(server.draw(5000).await.expect("ids").len(), 5000);
    assert!(matches!(server.draw(100).await, Err(Refusal::Busy { .. })));
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_never_returns_is_answered_after_a_second_to_all_together() {
    let machine = Machine::new();
    let server = machine.settled().await;
    machine.disk.trouble(SaveStep::SyncFile, StepFault::Hang, 1);
    // Up to the watermark IDs continue.
    let began = Instant::now();
    let end = loop {
        match timed(server.draw(1)).await {
            (waited, Ok(_)) => assert_eq!(waited, Duration::ZERO),
            (waited, Err(refusal)) => break (waited, refusal),
        }
        pass(10).await;
    };
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(end.1, Refusal::SaveTimeout);
    assert!(end.0 <= Duration::from_millis(1001), "{:?}", end.0);

    let mut clients = JoinSet::new();
    let began = Instant::now();
    for i in 0..1000_u64 {
        let client = server.client();
        clients.spawn(async move {
            pass(i % 10).await;
            (timed(client.draw(1 + u32::try_from(i).expect("small"))).await, Instant::now())
        });
    }
    for ((waited, result), _) in clients.join_all().await {
        assert_eq!(result, Err(Refusal::SaveTimeout));
        assert!((990..=1010).contains(&waited.as_millis()), "{waited:?}");
    }
    assert!(began.elapsed() <= Duration::from_millis(1020), "{:?}", began.elapsed());
    assert!(server.status().saving_ms > 3000);
    assert_eq!(server.status().waiting, 0);
    // A stop does no harm: no more IDs are given, and the next life continues.
    assert!(server.stop_within(Duration::from_secs(3)).await.is_none(), "a hanging disk has no last save");
    machine.start().await.draw(100).await.expect("ids");
    machine.done();
}

/// There is one watermark: the record is saved as often for any number of busy generators.
#[tokio::test(start_paused = true)]
async fn twenty_busy_generators_save_as_often_as_one() {
    let mut saves = Vec::new();
    for generators in [0, 1, 20] {
        let mut machine = Machine::new();
        let units = ["100ns", "1ms", "10ms", "1s"];
        let declared = |n: usize| {
            let words = format!("g{n} layout time:38@{} counter:4 server-id:21 epoch 1700000000000", units[n % 4]);
            let words = words.replace("time:38@100ns counter:4", "time:59@100ns");
            Arc::new(Declaration::parse(&words.split(' ').collect::<Vec<_>>(), no_dates).expect("a declaration"))
        };
        machine.generators = (0..generators).map(declared).collect();
        let server = machine.settled().await;
        let before = server.status().saves;
        for _ in 0..300 {
            server.draw(3).await.expect("ids");
            for n in 0..generators {
                server.draw_named(&format!("g{n}"), 1).await.expect("ids");
            }
            pass(100).await;
        }
        saves.push(server.status().saves - before);
        machine.done();
    }
    assert!((25..=31).contains(&saves[0]) && saves.iter().all(|&n| n.abs_diff(saves[0]) <= 1), "{saves:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sync_of_300_ms_delays_no_draw() {
    for (n, pause_ms) in [(1, 1000), (1, 1), (400, 1), (3, 7), (1, 60_000)] {
        let machine = Machine::new();
        let server = machine.settled().await;
        machine.disk.trouble(SaveStep::SyncFile, StepFault::Slow(Duration::from_millis(300)), MANY);
        let (began, saves) = (Instant::now(), server.status().saves);
        while began.elapsed() < Duration::from_secs(if pause_ms > 1000 { 600 } else { 3 }) {
            let (waited, ids) = timed(server.draw(n)).await;
            assert_eq!((waited, ids.is_ok()), (Duration::ZERO, true));
            pass(pause_ms).await;
        }
        // About a write a second at most.
        let saves = server.status().saves - saves;
        assert!(saves <= 1 + began.elapsed().as_secs(), "{saves} in {:?}", began.elapsed());
        assert_eq!(server.status().waits, 0);
        assert!(server.status().last_save_us >= 300_000);
        machine.done();
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_request_after_a_quiet_while_waits_for_nothing() {
    let machine = Machine::new();
    let server = machine.start().await;
    server.tick().await;
    machine.disk.trouble(SaveStep::SyncFile, StepFault::Slow(Duration::from_millis(300)), MANY);
    pass(600_000).await;
    let (waited, _) = timed(server.draw(500)).await;
    assert_eq!(waited, Duration::ZERO);
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn a_suspend_past_the_watermark_costs_one_sync() {
    for asleep_s in [10, 3600, 20 * 3600] {
        let machine = Machine::new();
        let server = machine.settled().await;
        server.tick().await;
        pass(1).await;
        machine.disk.trouble(SaveStep::SyncFile, StepFault::Slow(Duration::from_millis(40)), MANY);
        machine.clock.suspend(Duration::from_secs(asleep_s));
        let saves = server.status().saves;
        let (waited, tick) = timed(server.tick()).await;
        assert_eq!(waited, Duration::from_millis(40));
        assert_eq!(server.status().saves, saves + 1);
        assert!(tick.0 >= server.status().mint.reference.0 - 41, "IDs are at the new time at once");
        machine.done();
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_that_is_freed_serves_again_by_itself() {
    let log = crate::log::capture();
    let machine = Machine::new();
    let server = machine.settled().await;
    for step in SaveStep::ALL {
        machine.disk.trouble(step, StepFault::Fail(ErrorKind::StorageFull), MANY);
        let mut served_ms = 0;
        let refusal = loop {
            match server.draw(1).await {
                Ok(_) => served_ms += 10,
                Err(refusal) => break refusal,
            }
            pass(10).await;
        };
        assert!((1000..=3500).contains(&served_ms), "IDs continue up to the watermark: {served_ms}");
        assert!(matches!(refusal, Refusal::Save { .. }), "{refusal}");
        assert!(!server.status().last_save_ok);
        pass(10_000).await;
        machine.disk.heal();
        // Without a request, the keeper checks by itself.
        pass(400).await;
        assert!(server.status().last_save_ok);
        let (waited, ids) = timed(server.draw(1)).await;
        assert_eq!((waited, ids.is_ok()), (Duration::ZERO, true));
        pass(2500).await;
    }
    // One event, one line.
    let refused = log.lines("IDs are refused from now on: MISCONF state can't be saved: ");
    let given = log.lines("IDs are given again; they were refused for ");
    assert_eq!([refused.len(), given.len()], [SaveStep::ALL.len(); 2], "{refused:#?} {given:#?}");
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_first_save_fails_is_no_start() {
    let machine = Machine::new();
    machine.disk.trouble(SaveStep::SyncFolder, StepFault::Fail(ErrorKind::PermissionDenied), 1);
    assert!(matches!(machine.try_start().await, Err(SaveError::Io { .. })));
    assert_eq!(machine.found(), Some(SavePoint::NOTHING), "it has come to nothing, and leaves no trace");
    machine.done();
}

/// A clock that is wrong at boot, and a stop in the middle of the first save, at any step.
pub(crate) async fn a_start_that_is_stopped_leaves_no_trace() {
    for with_record in [false, true] {
        for step in SaveStep::ALL {
            let machine = Machine::new();
            if with_record {
                let server = machine.start().await;
                server.tick().await;
                server.stop().await.expect("a last save");
            }
            let before = machine.found();
            machine.clock.step_wall(1000 * 3_600_000);
            machine.disk.trouble(step, StepFault::Slow(Duration::from_secs(1)), 1);
            let opened = machine.disk.open(machine.identity);
            let (_, mut keeper) =
                Keeper::prepare(machine.clock.clone(), machine.identity, machine.limits, opened).await;
            let stopped = tokio::time::timeout(Duration::from_millis(500), keeper.first_save()).await;
            assert!(stopped.is_err(), "the disk is slow");
            keeper.give_up().await.expect("a last save");
            machine.disk.kill();
            assert_eq!(machine.found(), Some(before.unwrap_or(SavePoint::NOTHING)), "{step:?}");
        }
    }
}

/// The state folder is deleted and created again under a running server, and a second server starts there.
///
/// The first server notices at its next save, and may give IDs up to its watermark until then. The worst case is the
/// borrow limit, where watermark and limit are 200 ms apart and both servers give as much as time allows.
#[tokio::test(start_paused = true)]
async fn a_recreated_folder_under_a_running_server_and_a_second_one() {
    for at_limit in [true, false] {
        for offset_ms in (0..220).step_by(20) {
            let first = Machine::new().with_shard_range(0);
            let a = first.start().await;
            pass(3500).await;
            if at_limit {
                first.borrow_all(&a).await;
            }
            // It draws all the time; its IDs are compared.
            let client = a.client();
            let greedy = tokio::spawn(async move {
                let mut ids = Vec::new();
                loop {
                    match client.draw(5).await {
                        Ok(some) => ids.extend(some),
                        Err(refusal) => return (ids, refusal),
                    }
                    if !at_limit {
                        pass(10).await;
                    }
                }
            });
            pass(500 + offset_ms).await;

            first.disk.lose_claim("the folder was created again");
            let second = Machine {
                clock: first.clock.clone(),
                disk: SimDisk::new(9),
                identity: first.identity,
                limits: first.limits,
                max_wait_ms: first.max_wait_ms,
                patience: None,
                dropped_saves: std::sync::Arc::default(),
                oracle: crate::oracle::Oracle::default(),
                generators: Vec::new(),
            };
            let b = second.start().await;
            let mut ids = b.draw(1500).await.expect("ids");
            let (others, refusal) = greedy.await.expect("a client");
            assert!(matches!(refusal, Refusal::ClaimLost(_)), "{refusal}");
            let first_of_b = ids[0];
            let last_of_a = others.last().copied().unwrap_or(0);
            // In ticks: not only the random bits differ.
            assert!(last_of_a >> 21 < first_of_b >> 21, "offset {offset_ms}: {last_of_a} and {first_of_b}");

            // The second server stops; the first takes the claim again, by itself, and continues past it.
            second.borrow_all(&b).await;
            ids.extend(b.draw(500).await.expect("ids"));
            b.kill().await;
            let left = second.disk.text().expect("a record");
            first.disk.free_claim(Some(std::str::from_utf8(&left).expect("text")));
            pass(700).await;
            let more = a.draw(100).await.expect("ids");
            assert!(more[0] >> 21 > ids.last().expect("ids") >> 21);
            first.done();
            second.done();
            a.kill().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_taken_again_without_a_record_goes_past_any_other_server() {
    let machine = Machine::new().with_shard_range(0);
    let server = machine.start().await;
    server.draw(100).await.expect("ids");
    machine.disk.lose_claim("another server is there");
    pass(5000).await;
    assert!(matches!(server.draw(1).await, Err(Refusal::ClaimLost(_))));
    machine.disk.free_claim(None);
    pass(400).await;
    let reference = server.status().mint.reference;
    let (waited, tick) = timed(server.tick()).await;
    assert!(waited <= Duration::from_millis(201), "{waited:?}");
    assert!(tick >= reference.plus_ms(machine.limits.max_borrow_ms - 400), "{tick:?}, R {reference:?}");
    machine.done();
}

/// After a lost claim and a stop, no record is written over another server's.
#[tokio::test(start_paused = true)]
async fn a_stop_without_the_claim_writes_nothing() {
    let machine = Machine::new();
    let server = machine.start().await;
    server.draw(100).await.expect("ids");
    machine.disk.lose_claim("another server is there");
    assert!(matches!(server.stop().await, Err(KeeperError::LastSave(SaveError::ClaimLost { .. }))));
    assert_eq!(machine.disk.text(), None);
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn draws_that_wait_are_served_in_rounds_of_slices() {
    let mut machine = Machine::new().with_shard_range(0);
    machine.max_wait_ms = 60_000;
    let server = machine.settled().await;
    machine.borrow_all(&server).await;
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for i in 0..50_u32 {
        let client = server.client();
        clients.spawn(async move {
            let n = if i % 2 == 0 { 300 } else { 1 };
            // Some of the greedy clients cancel while they wait, and free their places.
            if i % 10 == 4 {
                let gone = tokio::time::timeout(Duration::from_millis(500), client.draw(n)).await;
                assert!(gone.is_err());
                return None;
            }
            let (waited, ids) = timed(client.draw(n)).await;
            Some((n, waited, ids.expect("ids")))
        });
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
    assert_eq!(server.status().waiting, 50);
    assert!((25 * 301 - 5..=25 * 301).contains(&server.status().waiting_ids), "{}", server.status().waiting_ids);
    // INFO is answered meanwhile; and slots from passing time go to the waiting clients.
    pass(6).await;
    assert_eq!(server.issuer.try_draw(1), Ok(None));
    let (mut single, mut last) = (Vec::new(), Vec::new());
    while let Some(end) = clients.join_next().await {
        let Some((n, waited, ids)) = end.expect("a client") else { continue };
        assert!(ids.is_sorted() && ids.len() == n as usize);
        if n == 1 {
            // One ID of each of the other 49 comes before it.
            assert!(waited <= Duration::from_millis(55), "{waited:?}");
            single.push(ids[0]);
        } else {
            last.push(ids[299]);
        }
    }
    assert!(single.is_sorted() && single.len() == 25, "{single:?}");
    // The greedy clients end together, in order of arrival; cancelled ones have taken 500 ms worth of rounds and no
    // more.
    assert!(last.is_sorted() && last.len() == 20);
    assert!((last[19] - last[0]) >> 21 < 50, "{last:?}");
    let took = began.elapsed();
    assert!((6_100..=6_180).contains(&took.as_millis()), "{took:?}");
    assert_eq!((server.status().waiting, server.status().waiting_ids), (0, 0));
    machine.done();
}

/// All other clients exceed the capacity; a client that draws one ID waits for a slice or two.
#[tokio::test(start_paused = true)]
async fn a_single_id_beside_a_hundred_greedy_connections() {
    for (shard_range, greedy, n) in [(9, 100, 8_200), (9, 400, 6_000), (3, 100, 60), (12, 100, 60_000)] {
        let mut machine = Machine::new().with_shard_range(shard_range);
        // They are soon at the borrow limit.
        (machine.limits.max_borrow_ms, machine.limits.lead_ms) = (300, 300);
        let server = machine.start().await;
        let mut clients = JoinSet::new();
        for _ in 0..greedy {
            let client = server.client();
            clients.spawn(async move { while client.draw(n).await.is_ok() {} });
        }
        pass(400).await;
        let mut longest = Duration::ZERO;
        for _ in 0..50 {
            let (waited, id) = timed(server.draw(1)).await;
            id.expect("an id");
            longest = longest.max(waited);
            pass(3).await;
        }
        assert!(longest <= Duration::from_millis(3), "{greedy} of {n} with shard-range {shard_range}: {longest:?}");
        clients.abort_all();
        machine.done();
    }
}

/// A draw that would wait too long is refused, all others are served in about that time, and none is starved by clients
/// that keep coming.
#[tokio::test(start_paused = true)]
async fn what_would_wait_too_long_is_refused_at_once() {
    let mut machine = Machine::new().with_shard_range(3);
    machine.max_wait_ms = 2000;
    let server = machine.start().await;
    let mut clients = JoinSet::new();
    for i in 0..300_u64 {
        let client = server.client();
        let n = 1 + u32::try_from(i).expect("small");
        clients.spawn(async move {
            let (mut longest, mut refused) = (Duration::ZERO, 0_u64);
            let end = Instant::now() + Duration::from_secs(10);
            while Instant::now() < end {
                match timed(client.draw(n)).await {
                    (waited, Ok(_)) => longest = longest.max(waited),
                    (waited, Err(Refusal::Overload { wait_ms, max_wait_ms: 2000, asked_per_s, layout })) => {
                        assert_eq!(waited, Duration::ZERO);
                        assert!(wait_ms > 2000 && asked_per_s > layout.capacity_per_s());
                        refused += 1;
                        pass(7).await;
                    }
                    (_, Err(other)) => panic!("{other}"),
                }
            }
            (longest, refused)
        });
    }
    for _ in 0..90 {
        pass(100).await;
        assert!(server.status().waiting_ids <= 2 * 2000 * 8 + 300, "{}", server.status().waiting_ids);
    }
    let ends = clients.join_all().await;
    let (longest, refused) = ends
        .into_iter()
        .fold((Duration::ZERO, 0), |(longest, sum), (waited, refused)| (longest.max(waited), sum + refused));
    println!("{longest:?} at most, {refused} refused");
    assert!(refused > 100);
    // Later draws can delay a draw by 2 s; then it goes first.
    assert!(longest <= Duration::from_secs(4), "{longest:?}");
    assert!(server.status().refusals >= refused);
    machine.done();
}

/// Dozens of pipelines that exceed the layout's capacity in `id-max-wait-ms`: in turns each gets all its IDs.
#[tokio::test(start_paused = true)]
async fn long_pipelines_wait_in_turns() {
    for (shard_range, clients, n) in [(0, 40, 600), (3, 10, 4_500)] {
        let mut machine = Machine::new().with_shard_range(shard_range);
        machine.max_wait_ms = 1000;
        let server = machine.settled().await;
        machine.borrow_all(&server).await;
        let turn = turn_ids_max(machine.identity.layout, machine.max_wait_ms);
        let mut pipelines = JoinSet::new();
        for _ in 0..clients {
            let client = server.client();
            pipelines.spawn(async move {
                let mut missing = n;
                while missing > 0 {
                    let ids = client.draw(missing.min(turn)).await.expect("ids");
                    missing -= u32::try_from(ids.len()).expect("a turn");
                }
            });
        }
        pipelines.join_all().await;
        assert_eq!(server.status().refusals, 0, "shard-range {shard_range}, {turn} a turn");
        machine.done();
    }
}

/// IDs begin far ahead of the clock, as after a state that was moved ahead: a draw that would wait longer than it may
/// is refused.
#[tokio::test(start_paused = true)]
async fn ids_far_ahead_of_the_clock_are_not_waited_for() {
    let machine = Machine::new();
    let server = machine.settled().await;
    server.draw(1).await.expect("an id");
    server.stop().await.expect("a last save");
    machine.clock.step_wall(60_000);
    let server = machine.start().await;
    server.draw(1).await.expect("an id");
    machine.clock.step_wall(-60_000);
    server.kill().await;
    let mut machine = machine;
    machine.limits.max_borrow_ms = 100;
    machine.limits.lead_ms = 100;
    let server = machine.start().await;
    let (waited, answer) = timed(server.draw(1)).await;
    match answer {
        Ok(_) => assert!(waited <= Duration::from_secs(5), "{waited:?}"),
        Err(refusal) => {
            assert!(matches!(refusal, Refusal::Busy { .. }) && waited.is_zero(), "{refusal} after {waited:?}");
        }
    }
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn waiting_does_not_spin() {
    let machine = Machine::new().with_shard_range(0);
    let server = machine.settled().await;
    machine.borrow_all(&server).await;
    for n in [1, 5, 100, 4000] {
        let (polls, took) = polls(server.draw(n)).await;
        let allowed = 4 + took.as_millis() / 5;
        assert!(polls <= allowed, "{n} ids: {polls} polls in {took:?}");
    }
    // The same while the disk hangs: nothing happens until the second is over.
    machine.disk.trouble(SaveStep::Write, StepFault::Hang, 1);
    while server.draw(100).await.is_ok() {}
    let (polls, took) = polls(server.draw(1)).await;
    assert!(polls <= 6, "{polls} polls in {took:?}");
    // And while it fails: refused draws do not make the keeper try more often.
    let machine = Machine::new();
    let server = machine.start().await;
    machine.disk.trouble(SaveStep::Write, StepFault::Fail(ErrorKind::StorageFull), MANY);
    pass(4000).await;
    let failures = server.status().save_failures;
    for _ in 0..1000 {
        assert!(server.draw(1).await.is_err());
        pass(1).await;
    }
    let tries = server.status().save_failures - failures;
    assert!((2..=4).contains(&tries), "{tries} tries in a second");
    machine.done();
}

/// Returns how often `work` was polled, and how long it took.
async fn polls<T>(work: impl Future<Output = T>) -> (u128, Duration) {
    let mut count = 0;
    let mut work = pin!(work);
    let (took, _) = timed(std::future::poll_fn(|context| {
        count += 1;
        work.as_mut().poll(context)
    }))
    .await;
    (count, took)
}

#[tokio::test(start_paused = true)]
async fn a_stop_refuses_waiting_draws() {
    let machine = Machine::new().with_shard_range(0);
    let server = machine.start().await;
    machine.borrow_all(&server).await;
    // Also while a save is under way: draws are closed at once, and the last save comes after it.
    for step in SaveStep::ALL {
        machine.disk.trouble(step, StepFault::Slow(Duration::from_millis(500)), 1);
    }
    let client = server.client();
    let waiting = tokio::spawn(async move { timed(client.draw(10_000)).await });
    pass(300).await;
    let issuer = server.client().issuer;
    server.stop().await.expect("a last save");
    let (waited, result) = waiting.await.expect("a client");
    assert_eq!(result, Err(Refusal::Closed));
    assert!(waited <= Duration::from_millis(320), "{waited:?}");
    assert_eq!(machine.found().map(|point| point.watermark), Some(issuer.status().mint.position));
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn the_numbers_of_info() {
    let mut machine = Machine::new().with_shard_range(0);
    machine.limits.policy = BorrowPolicy::Error;
    let server = machine.start().await;
    let status = server.status();
    assert_eq!((status.waits, status.waited_ms, status.refusals, status.saves), (0, 0, 0, 1));
    assert_eq!(status.last_save_unix_ms, u64::try_from(START_UNIX_MS).expect("after 1970") + 250);
    pass(10_000).await;
    server.draw(1500).await.expect("ids");
    server.draw(1000).await.expect("ids");
    assert!(matches!(server.draw(1000).await, Err(Refusal::Busy { .. })));
    let status = server.status();
    assert_eq!((status.refusals, status.mint.refusals, status.mint.ids_issued), (1, 1, 2500));
    assert!((2495..=2500).contains(&status.mint.borrow_ms), "{}", status.mint.borrow_ms);
    server.stop().await.expect("a last save");

    machine.limits.policy = BorrowPolicy::Wait;
    let server = machine.start().await;
    machine.borrow_all(&server).await;
    let before = server.status();
    let (waited, _) = timed(server.draw(1000)).await;
    let status = server.status();
    assert_eq!(status.waits, before.waits + 1);
    assert_eq!(u128::from(status.waited_ms - before.waited_ms), waited.as_millis());
    assert!((990..=1010).contains(&waited.as_millis()), "{waited:?}");

    machine.disk.trouble(SaveStep::SyncFolder, StepFault::Slow(Duration::from_millis(123)), 1);
    pass(2000).await;
    let status = server.status();
    assert!(status.last_save_ok && status.last_save_us == 123_000 || status.saves > before.saves + 1);
    machine.disk.trouble(SaveStep::Write, StepFault::Fail(ErrorKind::StorageFull), 1);
    pass(2000).await;
    assert_eq!(server.status().save_failures, 1);
    assert!(server.status().last_save_ok);
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn borrowing_is_reported_once_a_second_and_a_broken_disk_once() {
    let log = crate::log::capture();
    let machine = Machine::new().with_shard_range(0);
    let server = machine.settled().await;
    let client = server.client();
    let greedy = tokio::spawn(async move { while client.draw(50).await.is_ok() {} });
    pass(10_000).await;
    let lines = log.lines("borrowing");
    assert!((8..=10).contains(&lines.len()), "{lines:?}");
    assert!(lines[5].contains("ids are 299") && lines[5].contains("the layout holds 1000"), "{}", lines[5]);
    greedy.abort();
    // While nothing is borrowed, nothing is logged.
    pass(10_000).await;
    let quiet = log.lines("borrowing").len();
    pass(5000).await;
    server.draw(3).await.expect("ids");
    pass(5000).await;
    assert_eq!(log.lines("borrowing").len(), quiet);

    machine.disk.trouble(SaveStep::SyncFile, StepFault::Fail(ErrorKind::StorageFull), MANY);
    pass(20_000).await;
    machine.disk.heal();
    pass(5000).await;
    assert_eq!(log.lines("saving the watermark failed").len(), 1);
    assert_eq!(log.lines("can be saved again").len(), 1);
    machine.disk.lose_claim("another server is there");
    pass(5000).await;
    assert_eq!(log.lines("is there. No IDs until the claim").len(), 1, "{:?}", log.lines(""));
    machine.disk.free_claim(None);
    pass(5000).await;
    assert_eq!(log.lines("has been taken again").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_record_has_the_watermark_of_the_status() {
    let machine = Machine::new();
    let server = machine.settled().await;
    for _ in 0..100 {
        server.draw(100).await.expect("ids");
        pass(100).await;
        let mint = server.status().mint;
        let Record { point, .. } = machine.disk.record().expect("a record");
        assert_eq!(point.watermark, mint.watermark);
        assert!(point.watermark <= mint.reference.plus_ms(machine.limits.max_borrow_ms + 200));
        assert!(point.watermark > mint.position);
    }
    machine.done();
}

/// A draw panics: no more IDs are given, nothing is stored, and the keeper ends with an error, which ends the process.
pub(crate) async fn a_panic_inside_a_draw_ends_the_server() {
    let machine = Machine::new().with_shard_range(0);
    let server = machine.settled().await;
    let stored = machine.found();
    server.draw(100).await.expect("ids");
    pass(1000).await;
    let issuer = server.client().issuer;
    let panics = plant(Fault::DrawPanics);
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| issuer.try_draw(7)));
    assert!(panicked.is_err());
    drop(panics);
    assert_eq!(issuer.try_draw(1), Err(Refusal::Closed));
    let ended = tokio::time::timeout(Duration::from_secs(1), server.keeper_ended()).await;
    assert!(matches!(ended, Ok(Err(KeeperError::Bug))), "{ended:?}");
    // The record has a watermark, as after a crash, and no position.
    let found = machine.found().expect("a record").watermark;
    assert!(found >= stored.expect("a record").watermark && found > issuer.status().mint.position);
    let server = machine.start().await;
    server.draw(10).await.expect("ids");
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn after_a_panic_inside_a_draw_there_is_an_end() {
    a_panic_inside_a_draw_ends_the_server().await;
}

/// A dropped keeper leaves no draw waiting, and no IDs are given.
pub(crate) async fn without_its_keeper_a_server_is_closed() {
    let machine = Machine::new().with_shard_range(0);
    let server = machine.settled().await;
    machine.borrow_all(&server).await;
    let client = server.client();
    let waiting = tokio::spawn(async move { client.draw(1000).await });
    pass(100).await;
    server.lose_keeper().await;
    let answer = tokio::time::timeout(Duration::from_secs(1), waiting).await.expect("an answer").expect("a client");
    assert_eq!(answer, Err(Refusal::Closed));
    pass(1000).await;
    assert_eq!(server.draw(1).await, Err(Refusal::Closed));
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_is_gone_closes_the_issuer() {
    without_its_keeper_a_server_is_closed().await;
}

/// The first draw is not delayed for ever by clients that keep coming, and the number of waiting draws is bounded.
pub(crate) async fn the_queue_is_bounded_and_no_draw_starves() {
    let mut machine = Machine::new().with_shard_range(3);
    machine.max_wait_ms = 500;
    let server = machine.settled().await;
    machine.borrow_all(&server).await;
    let client = server.client();
    let old = tokio::spawn(async move { timed(client.draw(3000)).await });
    tokio::task::yield_now().await;
    let mut others = JoinSet::new();
    for _ in 0..200 {
        let client = server.client();
        others.spawn(async move {
            loop {
                if client.draw(16).await.is_err() {
                    pass(1).await;
                }
            }
        });
    }
    for _ in 0..30 {
        pass(100).await;
        assert!(server.status().waiting_ids <= 2 * 500 * 8 + 3000, "{}", server.status().waiting_ids);
    }
    let (waited, ids) =
        tokio::time::timeout(Duration::from_secs(1), old).await.expect("it has its IDs").expect("a client");
    assert_eq!(ids.expect("ids").len(), 3000);
    assert!(waited <= Duration::from_millis(1500), "{waited:?}");
    assert!(server.status().refusals > 0, "more wait than may");
    machine.done();
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_full_refuses_and_serves_the_eldest() {
    the_queue_is_bounded_and_no_draw_starves().await;
}
/// Another folder, no state at all, and a record that is older than the last IDs: with a right clock no ID repeats, at
/// once or after a while, without load or at the borrow limit.
#[tokio::test(start_paused = true)]
async fn no_record_that_is_old_or_elsewhere_makes_ids_repeat() {
    for (greedy, down_ms) in [(false, 0), (true, 0), (false, 700), (true, 700), (true, 4000)] {
        let mut machine = Machine::new().with_shard_range(0);
        let folders = [SimDisk::new(1), SimDisk::new(2)];
        // A, B, A; A, none, A; A as at the beginning, B as a life ago.
        let mut copies: Vec<(usize, Vec<u8>)> = Vec::new();
        for place in [Some(0), Some(1), Some(0), None, Some(0), None, None, Some(1), Some(0), Some(0), Some(1)] {
            let server: Server = match place {
                Some(folder) => {
                    machine.disk = folders[folder].clone();
                    if let Some((_, copy)) = copies.iter().find(|(from, _)| *from == folder) {
                        machine.disk.put_back(Some(copy));
                    }
                    machine.start().await
                }
                None => machine.start_with(NoClaim::acquired(None)).await.expect("a start"),
            };
            let (waited, _) = timed(server.draw(20)).await;
            assert!(waited <= Duration::from_millis(230), "IDs come at once: {waited:?}");
            if greedy {
                machine.borrow_all(&server).await;
            }
            if copies.len() < 2 && copies.iter().all(|(from, _)| Some(*from) != place) {
                copies.extend(place.zip(machine.disk.text()));
            }
            machine.oracle.verdict().expect("no id twice");
            // After a clean stop too: the next life does not see it.
            if down_ms == 0 {
                server.stop().await.expect("a last save");
            } else {
                server.kill().await;
            }
            pass(down_ms).await;
        }
        machine.done();
    }
}

/// A folder is restored as it was six seconds ago.
#[tokio::test(start_paused = true)]
async fn a_folder_that_is_rolled_back_by_six_seconds_repeats_nothing() {
    let machine = Machine::new().with_shard_range(0);
    let server = machine.settled().await;
    let copy = machine.disk.text().expect("a record");
    for _ in 0..6 {
        machine.borrow_all(&server).await;
        pass(1000).await;
    }
    machine.borrow_all(&server).await;
    server.kill().await;
    machine.disk.put_back(Some(&copy));
    let server = machine.start().await;
    machine.borrow_all(&server).await;
    server.draw(2500).await.expect("ids");
    machine.done();
}

/// A clock is wrong at boot, and the server stops before it is corrected.
#[tokio::test(start_paused = true)]
async fn a_stop_without_an_id_after_a_boot_in_2100_leaves_no_trace() {
    for kill in [false, true] {
        let machine = Machine::new();
        machine.clock.set_wall(4_102_444_800_000);
        let server = machine.start().await;
        pass(2000).await;
        if kill {
            server.kill().await;
        } else {
            server.stop().await.expect("a last save");
        }
        machine.clock.put_right();
        let server = machine.start().await;
        pass(1).await;
        let ahead_ms = server.tick().await.unix_ms(machine.identity.layout.epoch()) - START_UNIX_MS;
        // After a kill it is unknown that it gave none.
        assert_eq!(ahead_ms < 10_000, !kill, "{ahead_ms}");
    }
}
