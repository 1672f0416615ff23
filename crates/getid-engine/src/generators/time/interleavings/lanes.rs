//! The atomic words of the lane under shuttle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::claim::{Identity, NoClaim};
use getid_core::server::checks::Fault;
use getid_core::{Layout, Limits, Reservation, SavePoint};
use getid_system::clock::Clock;
use shuttle::future::block_on;
use shuttle::thread;

use super::super::{Issuer, NextServe};
use super::{MS, WALL_UNIX_MS, check_orders, must_find, orders};

/// A clock that stands still unless it is moved.
#[derive(Clone)]
struct StillClock(Arc<AtomicU64>);

impl Clock for StillClock {
    fn boot_ns(&self) -> u64 {
        self.0.load(SeqCst)
    }

    fn wall_unix_us(&self) -> i64 {
        WALL_UNIX_MS * 1000 + (self.0.load(SeqCst) / 1000).cast_signed()
    }
}

/// A server that has given one ID and may give 4 slots a ms; a claim that stores nothing.
struct Scene {
    issuer: Arc<Issuer<StillClock>>,
    clock: StillClock,
    claim: crate::claim::AcquiredClaim<NoClaim>,
}

fn layout() -> Layout {
    Layout::new(Layout::default().epoch(), 16, 2, 3).expect("21")
}

impl Scene {
    fn new(max_borrow_ms: u64) -> Scene {
        let identity = Identity { server_id: 0, layout: layout() };
        let now = identity.layout.epoch().tick_at(WALL_UNIX_MS).expect("a tick");
        let limits = Limits { max_borrow_ms, lead_ms: max_borrow_ms, ..Limits::default() };
        let found = SavePoint { watermark: now, reference: now, max_borrow_ms: 0 };
        let clock = StillClock(Arc::new(AtomicU64::new(MS)));
        let claim = NoClaim::acquired(Some(found));
        let issuer = Arc::new(Issuer::new(clock.clone(), identity, limits, Some(found)));
        let mut scene = Scene { issuer, clock, claim };
        scene.save();
        for _ in 0..=max_borrow_ms {
            scene.tick();
        }
        block_on(scene.issuer.draw(1, &mut Vec::new())).expect("an ID");
        scene
    }

    fn tick(&mut self) {
        self.clock.0.fetch_add(MS, SeqCst);
        self.issuer.sample();
        self.save();
    }

    fn save(&mut self) {
        if let Some(point) = self.issuer.due_save() {
            block_on(self.issuer.save(&mut self.claim, point)).expect("no store fails less");
        }
    }
}

/// Starts a thread with three draws, one after another, and returns their results.
fn drawing(issuer: &Arc<Issuer<StillClock>>, of: [u32; 3]) -> thread::JoinHandle<Vec<Reservation>> {
    let issuer = Arc::clone(issuer);
    thread::spawn(move || of.into_iter().filter_map(|n| issuer.try_draw(n).expect("no refusal")).collect())
}

/// Checks that no slot is given twice, each thread's ascend, and the random cycle advances by one for each ID.
fn judge(drawn: &[Vec<Reservation>]) -> u64 {
    let mut all = drawn.concat();
    for each in drawn {
        assert!(each.is_sorted_by_key(|piece| piece.first), "{each:?}");
    }
    all.sort_unstable_by_key(|piece| piece.first);
    for pair in all.windows(2) {
        assert!(pair[0].first.0 + u64::from(pair[0].len) <= pair[1].first.0, "{pair:?} overlap");
        let ends = pair[0].count + u64::from(pair[0].len);
        assert_eq!(ends % 8, pair[1].count % 8, "{pair:?}: the random cycle");
    }
    all.iter().map(|piece| u64::from(piece.len)).sum()
}

/// Threads that draw, beside a thread that does all work under the lock.
fn draws_beside_the_keeper() {
    let mut scene = Scene::new(20);
    let issuer = Arc::clone(&scene.issuer);
    let before = issuer.status().mint.ids_issued;
    let drawing = [drawing(&issuer, [1, 3, 2]), drawing(&issuer, [2, 1, 5]), drawing(&issuer, [4, 1, 1])];
    let mut mine = Vec::new();
    for max_borrow_ms in [3, 20] {
        scene.tick();
        issuer.set_limits(Limits { max_borrow_ms, lead_ms: max_borrow_ms, ..Limits::default() });
        scene.save();
        mine.extend(issuer.try_draw(1).expect("no refusal"));
        assert!(issuer.status().mint.position <= issuer.status().mint.watermark);
    }
    let [a, b, c] = drawing.map(|thread| thread.join().expect("a thread"));
    let ids = judge(&[a, b, c, mine]);
    assert_eq!(issuer.status().mint.ids_issued - before, ids, "each is counted");
}

/// The last act stores where IDs end, whatever is under way.
fn draws_beside_the_last_act() {
    let scene = Scene::new(20);
    let issuer = Arc::clone(&scene.issuer);
    let threads = [1, 2].map(|n| {
        let issuer = Arc::clone(&issuer);
        thread::spawn(move || (0..4).map_while(|_| issuer.try_draw(n).ok().flatten()).collect::<Vec<_>>())
    });
    let last = issuer.close().expect("a right clock");
    let drawn = threads.map(|thread| thread.join().expect("a thread"));
    judge(&drawn);
    for piece in drawn.concat() {
        assert!((piece.first.0 + u64::from(piece.len)) <= last.watermark.0 << 2, "{piece:?} and {last:?}");
    }
}

/// A draw that comes while others wait does not get their slots.
fn no_draw_passes_the_waiting_ones() {
    let mut scene = Scene::new(3);
    let issuer = Arc::clone(&scene.issuer);
    let waiting = Arc::clone(&issuer);
    let large = thread::spawn(move || {
        let mut drawn = Vec::new();
        block_on(waiting.draw(40, &mut drawn)).expect("ids");
        drawn
    });
    for _ in 0..100 {
        if issuer.status().waiting == 1 {
            break;
        }
        thread::yield_now();
    }
    let mut small = None;
    for _ in 0..40 {
        // Time makes room, and before a waiting draw is served another one comes.
        scene.clock.0.fetch_add(MS, SeqCst);
        let waited = issuer.status().waiting == 1;
        if waited {
            small = issuer.try_draw(1).expect("no refusal");
            assert_eq!(small, None, "others wait");
        }
        scene.issuer.sample();
        scene.save();
        while issuer.serve() == NextServe::More {}
    }
    judge(&[large.join().expect("a thread"), small.into_iter().collect()]);
}

const SCENES: [(&str, fn()); 3] = [
    ("draws beside the keeper", draws_beside_the_keeper),
    ("draws beside the last act", draws_beside_the_last_act),
    ("no draw passes the waiting ones", no_draw_passes_the_waiting_ones),
];

#[test]
fn the_real_issuer_under_many_orders_of_threads() {
    for (name, scene) in SCENES {
        println!("{name}");
        check_orders(scene, orders());
    }
}

#[test]
fn faults_of_sharing_are_found() {
    for fault in [Fault::ClosedLaneIsUsed, Fault::HolderLeavesTheLaneOpen, Fault::LaneIsNotCounted] {
        must_find(fault, draws_beside_the_keeper);
    }
    must_find(Fault::LanePassesTheQueue, no_draw_passes_the_waiting_ones);
}
