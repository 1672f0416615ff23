//! The concurrent draw, checked over all its interleavings.
//!
//! Threads share little work under the lock: the mint, and one counter beside it. So there are few steps between which
//! another thread may run, and all orders are tried instead of a model checker's selection: draws, the keeper's saves
//! (begun, landed on the disk, succeeded, failed), ticks of the clock, and after each step the state that a crash would
//! leave.
//!
//! Checked in every reachable state: no two draws overlap, their order is the real-time order, no tick is at or past R
//! + B or a watermark that the disk may hold.
//!
//! The queue is more complex: seats, wakers, and every draw serves others. So its own source runs under shuttle (`mod
//! queue`), and so does the lane, on which draws take no lock (`mod lanes`). Pauses between any two steps of a draw on
//! the lane are searched in `getid-core`: `core::lanes::model`.
//!
//! At the end, real threads use a real issuer for a moment.
//!
//! This is a separate binary because that source names its imports by `crate::...`, so these names must be found at the
//! root.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

// The names by which the issuer's source, below, imports the rest of the crate.
use getid::{claim, system};

use getid_engine::claim::Identity;
use getid_system::clock::Clock;
use getid_core::checks::{Fault, plant};
use getid_core::{Blocked, Layout, Limits, Mint, Reading, Reservation, SavePoint, Tick};
use roomy::roomy_issuer;

mod lanes;
#[path = "../support/roomy.rs"]
mod roomy;

/// The issuer with shuttle's locks.
#[path = "../../src/generators/time/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the crate's own source, of which this uses a part")]
mod time;

mod sync {
    pub(crate) use shuttle::sync::atomic::AtomicU64;
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;

    pub(crate) fn thread_number() -> usize {
        shuttle::current::me().into()
    }
}

/// Returns the number of thread orders to try for each scene, or `GETID_SIM_ORDERS`.
fn orders() -> usize {
    std::env::var("GETID_SIM_ORDERS").map_or(100, |text| text.parse().expect("GETID_SIM_ORDERS: a number"))
}

/// Plays a scene under this number of thread orders, from a seed: `SHUTTLE_RANDOM_SEED`, or the same in each run.
fn check_orders(scene: fn(), orders: usize) {
    shuttle::check_random_with_seed(scene, 1, orders);
}

/// Plays a fault's scene with the fault planted, and checks that it fails.
fn must_find(fault: Fault, scene: fn()) {
    let played = std::panic::catch_unwind(|| {
        let _planted = plant(fault);
        check_orders(scene, 1000);
    });
    assert!(played.is_err(), "{fault:?} was not found");
}

const MS: u64 = 1_000_000;
/// 2026-01-01.
const WALL_UNIX_MS: i64 = 1_767_225_600_000;

/// The remaining work of the threads, and the results so far. Copied at every branch.
#[derive(Clone)]
struct World {
    mint: Mint,
    limits: Limits,
    shard_bits: u32,
    now_ns: u64,
    /// Points that the disk may hold: the old one and, while a save is in flight or has failed, the new one.
    disk: Vec<SavePoint>,
    saving: Option<SavePoint>,
    landed: bool,
    /// End of the slots given so far.
    end: u64,
    /// Numbers of IDs of each thread's draws, still to come.
    draws: [Vec<u32>; 2],
    saves: u32,
    ticks: u32,
    given: u64,
}

/// Counts states, so that a model without events does not pass for a proof.
#[derive(Default, Debug)]
struct EventCounts {
    states: u64,
    ends: u64,
    blocked: u64,
    given: u64,
}

impl World {
    fn new(shard_bits: u32, limits: Limits, draws: [Vec<u32>; 2]) -> World {
        let layout = Layout::new(Layout::default().epoch(), 21 - shard_bits, shard_bits, 0).expect("21");
        let reading = Reading { wall_unix_ms: WALL_UNIX_MS, boot_ns: 0 };
        let now = layout.epoch().tick_at(WALL_UNIX_MS).expect("a tick");
        // The last life stopped at the clock.
        let found = SavePoint { watermark: now, reference: now, max_borrow_ms: 0 };
        let mint = Mint::new(layout, limits, Some(found), reading);
        World {
            mint,
            limits,
            shard_bits,
            now_ns: 0,
            disk: vec![found],
            saving: None,
            landed: false,
            end: 0,
            draws,
            saves: 2,
            ticks: 2,
            given: 0,
        }
    }

    /// Explores every step that some thread could take next; each creates a new world.
    fn explore(&self, seen: &mut EventCounts) {
        seen.states += 1;
        let mut stuck = true;
        let mut step = |take: &dyn Fn(&mut World, &mut EventCounts)| {
            let mut next = self.clone();
            take(&mut next, seen);
            next.check();
            next.explore(seen);
            stuck = false;
        };
        for thread in 0..self.draws.len() {
            if !self.draws[thread].is_empty() {
                step(&|world, seen| world.draw(thread, seen));
            }
        }
        if self.ticks > 0 {
            step(&|world, _| {
                world.ticks -= 1;
                world.now_ns += MS;
                let wall_unix_ms = WALL_UNIX_MS + i64::try_from(world.now_ns / MS).expect("small");
                world.mint.sample(Reading { wall_unix_ms, boot_ns: world.now_ns });
            });
        }
        match self.saving {
            None if self.saves > 0 => step(&|world, _| {
                world.saves -= 1;
                world.saving = world.mint.due_save(world.now_ns);
                world.landed = false;
            }),
            Some(point) => {
                if self.landed {
                    step(&|world, _| {
                        world.disk = vec![point];
                        world.saving = None;
                        world.mint.saved(point);
                    });
                } else {
                    // The rename: from here on the disk may hold either point.
                    step(&|world, _| {
                        world.disk.push(point);
                        world.landed = true;
                    });
                }
                step(&|world, _| {
                    world.saving = None;
                    world.mint.save_failed("the disk is full".into());
                });
            }
            None => {}
        }
        if stuck {
            seen.ends += 1;
            seen.given += self.given;
        }
    }

    fn draw(&mut self, thread: usize, seen: &mut EventCounts) {
        let n = self.draws[thread].remove(0);
        match self.mint.draw(self.now_ns, n, false) {
            Ok(Reservation { first, len, .. }) => {
                assert!(len <= n && len > 0);
                assert!(first.0 >= self.end, "{first:?} was given before: they overlap, or their order is wrong");
                self.end = first.0 + u64::from(len);
                self.given += u64::from(len);
            }
            Err(Blocked::Watermark | Blocked::Borrow { .. } | Blocked::Refused(_)) => seen.blocked += 1,
        }
    }

    fn check(&self) {
        let Some(last) = self.end.checked_sub(1) else { return };
        let tick = Tick(last >> self.shard_bits);
        let reference = self.mint.status(self.now_ns).reference;
        assert!(tick < reference.plus_ms(self.limits.max_borrow_ms), "{tick:?} is past R + B");
        for point in &self.disk {
            assert!(tick < point.watermark, "{tick:?} was given, and a crash now leaves {point:?}");
        }
    }
}

fn check_all_orders(shard_bits: u32, limits: Limits, draws: [Vec<u32>; 2]) -> EventCounts {
    let mut seen = EventCounts::default();
    World::new(shard_bits, limits, draws).explore(&mut seen);
    println!("shard-range {shard_bits}, {limits:?}: {seen:?}");
    assert!(seen.ends > 10_000 && seen.blocked > 1000 && seen.given > 1000, "{seen:?}");
    seen
}

#[test]
fn every_order_of_draws_saves_and_ticks() {
    let limits = |max_borrow_ms, lead_ms| Limits { max_borrow_ms, lead_ms, ..Limits::default() };
    // Small limits, so that few steps lead to each of them; odd numbers, so that ticks are partly used.
    check_all_orders(0, limits(2, 1), [vec![1, 2], vec![3]]);
    check_all_orders(1, limits(3, 2), [vec![3, 5], vec![1]]);
    check_all_orders(2, limits(2, 2), [vec![3, 9], vec![7]]);
    check_all_orders(0, limits(1, 1), [vec![1, 1], vec![1]]);
}

/// The queue: the issuer's own source, compiled with shuttle's locks instead of the system's, under thread orders that
/// shuttle picks at each lock and each wake-up. It reports a thread that is never woken as a deadlock.
mod queue {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
    use std::task::Poll;

    use getid_engine::claim::{Identity, NoClaim};
    use getid_core::checks::Fault;
    use getid_core::{Declaration, Layout, Limits, NamedGenerator, Refusal, Reservation, SavePoint, no_dates};
    use shuttle::future::block_on;
    use shuttle::thread;

    use super::time::{Issuer, NextServe};
    use super::{MS, WALL_UNIX_MS};

    /// A clock that the keeper moves when there is nothing else to do.
    #[derive(Clone, Default)]
    struct SteppedClock(Arc<AtomicU64>);

    impl getid_system::clock::Clock for SteppedClock {
        fn boot_ns(&self) -> u64 {
            self.0.load(SeqCst)
        }

        fn wall_unix_us(&self) -> i64 {
            WALL_UNIX_MS * 1000 + (self.0.load(SeqCst) / 1000).cast_signed()
        }
    }

    struct Scene {
        issuer: Arc<Issuer<SteppedClock>>,
        clock: SteppedClock,
        keeper: thread::JoinHandle<()>,
        over: Arc<AtomicBool>,
        /// Whether time stands still.
        is_stopped: Arc<AtomicBool>,
        /// End of the latest reply.
        replied: Arc<AtomicU64>,
    }

    impl Scene {
        /// Creates a server with one ID a millisecond and nothing to borrow: every draw but one has to wait.
        fn new() -> Scene {
            let layout = Layout::new(Layout::default().epoch(), 21, 0, 0).expect("21");
            let now = layout.epoch().tick_at(WALL_UNIX_MS).expect("a tick");
            let limits = Limits { max_borrow_ms: 2, lead_ms: 2, ..Limits::default() };
            let found = SavePoint { watermark: now, reference: now, max_borrow_ms: 2 };
            let clock = SteppedClock::default();
            let identity = Identity { server_id: 0, layout };
            let mut claim = NoClaim::acquired(Some(found));
            let issuer = Arc::new(Issuer::new(clock.clone(), identity, limits, Some(found)));
            let first = issuer.due_save().expect("a start saves");
            block_on(issuer.save(&mut claim, first)).expect("a start");
            let (kept, time) = (Arc::clone(&issuer), clock.clone());
            let over = Arc::new(AtomicBool::new(false));
            let ends = Arc::clone(&over);
            let is_stopped = Arc::new(AtomicBool::new(false));
            let stopped = Arc::clone(&is_stopped);
            let keeper = thread::spawn(move || {
                // As the keeper does, with time that passes as soon as a draw waits for it.
                while !ends.load(SeqCst) {
                    match kept.serve() {
                        NextServe::Idle => block_on(kept.keeper_needed()),
                        NextServe::More => {}
                        // A draw that waits for time is woken by nothing else.
                        NextServe::After(_) if stopped.load(SeqCst) => thread::yield_now(),
                        NextServe::After(_) => {
                            time.0.fetch_add(MS, SeqCst);
                            kept.sample();
                            if let Some(point) = kept.due_save() {
                                block_on(kept.save(&mut claim, point)).expect("no store fails less");
                            }
                        }
                    }
                }
                kept.close();
            });
            Scene { issuer, clock, keeper, over, is_stopped, replied: Arc::default() }
        }

        /// Starts a client in a separate thread, with a draw of `n`, and returns its slots, in order.
        fn draw(&self, n: u32) -> thread::JoinHandle<Vec<u64>> {
            let (issuer, replied) = (Arc::clone(&self.issuer), Arc::clone(&self.replied));
            thread::spawn(move || {
                let asked = replied.load(SeqCst);
                let mut drawn = Vec::new();
                block_on(issuer.draw(n, &mut drawn)).expect("ids");
                let slots = slots(&drawn);
                assert_eq!(slots.len(), n as usize, "as many as it requested");
                assert!(slots.is_sorted() && slots[0] >= asked, "{slots:?} after a reply that ended at {asked}");
                replied.fetch_max(slots[slots.len() - 1] + 1, SeqCst);
                slots
            })
        }

        /// Starts a client that draws `n`, and cancels once it has to wait.
        fn give_up(&self, n: u32) -> thread::JoinHandle<()> {
            let issuer = Arc::clone(&self.issuer);
            thread::spawn(move || {
                let mut drawn = Vec::new();
                let mut draw = Box::pin(issuer.draw(n, &mut drawn));
                block_on(std::future::poll_fn(|cx| {
                    let _ = draw.as_mut().poll(cx);
                    Poll::Ready(())
                }));
            })
        }

        /// Yields until this number waits, or all of them have been served.
        fn until_waiting(&self, n: usize) {
            for _ in 0..100 {
                if self.issuer.status().waiting >= n {
                    return;
                }
                thread::yield_now();
            }
        }

        fn end(self) {
            assert_eq!(
                (self.issuer.status().waiting, self.issuer.status().waiting_ids),
                (0, 0),
                "every place was given back"
            );
            self.over.store(true, SeqCst);
            // This wakes the keeper.
            self.issuer.set_max_wait_ms(1);
            self.keeper.join().expect("a keeper");
            // A keeper that ends has closed it.
            assert_eq!(block_on(self.issuer.draw(1, &mut Vec::new())), Err(Refusal::Closed));
            assert!(self.clock.0.load(SeqCst) < 1000 * MS);
        }
    }

    fn slots(drawn: &[Reservation]) -> Vec<u64> {
        drawn.iter().flat_map(|piece| piece.first.0..piece.first.0 + u64::from(piece.len)).collect()
    }

    fn all_different(drawn: &[Vec<u64>]) {
        let mut all = drawn.concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a slot was given twice");
    }

    /// Large and small draws, and a cancelled one: all others are served, no slot is given twice, IDs ascend.
    fn every_draw_is_served() {
        let scene = Scene::new();
        let clients = [scene.draw(3), scene.draw(1), scene.draw(2)];
        let gone = scene.give_up(2);
        let later = scene.draw(1);
        let mut drawn: Vec<_> = clients.into_iter().map(|client| client.join().expect("a client")).collect();
        gone.join().expect("a client");
        drawn.push(later.join().expect("a client"));
        let last = scene.draw(2).join().expect("a client");
        assert!(drawn.iter().flatten().all(|slot| *slot < last[0]), "an ID after all replies is larger");
        drawn.push(last);
        all_different(&drawn);
        scene.end();
    }

    /// Small draws that come while another waits get every second slice, and no more.
    fn no_draw_passes_the_queue() {
        const SMALL: u64 = 4;
        let scene = Scene::new();
        let large = scene.draw(12);
        scene.until_waiting(1);
        let before = scene.issuer.status();
        let mut small = Vec::new();
        for _ in 0..SMALL {
            small = scene.draw(1).join().expect("a client");
        }
        let large = large.join().expect("a client");
        if before.waiting == 1 {
            let passed = large.iter().filter(|slot| **slot < small[0]).count() as u64;
            let least = (12 - before.waiting_ids + SMALL - 1).min(12);
            assert!(passed >= least, "{small:?} has passed {large:?}, which waited");
        }
        scene.end();
    }

    /// One ID waits for at most one slice of a large draw, which is one ID here.
    fn a_slice_is_small() {
        let scene = Scene::new();
        scene.is_stopped.store(true, SeqCst);
        let large = scene.draw(12);
        scene.until_waiting(1);
        let before = scene.issuer.status();
        let small = scene.draw(1);
        scene.until_waiting(2);
        let both_wait = before.waiting == 1 && scene.issuer.status().waiting == 2;
        scene.is_stopped.store(false, SeqCst);
        let (large, small) = (large.join().expect("a client"), small.join().expect("a client"));
        if both_wait {
            let passed = large.iter().filter(|slot| **slot < small[0]).count() as u64;
            assert!(passed <= 12 - before.waiting_ids + 1, "{small:?} has waited for {large:?}");
        }
        scene.end();
    }

    /// A cancelled draw leaves nothing behind.
    fn a_leaver_leaves() {
        let scene = Scene::new();
        let stays = scene.draw(2);
        let gone = [scene.give_up(50), scene.give_up(40)];
        for gone in gone {
            gone.join().expect("a client");
        }
        assert!(scene.issuer.status().waiting_ids <= 2, "{}", scene.issuer.status().waiting_ids);
        stays.join().expect("a client");
        scene.end();
    }

    /// Returns a named generator's declaration with this epoch.
    fn declared(name: &str, epoch_unix_ms: i64) -> Arc<Declaration> {
        let epoch = epoch_unix_ms.to_string();
        let words = [name, "layout", "time:41@1ms", "server-id:21", "epoch", &epoch];
        Arc::new(Declaration::parse(&words, no_dates).expect("a declaration"))
    }

    impl Scene {
        /// Changes the configuration to these generators, in this order.
        fn declare(&self, configured: &[Arc<Declaration>]) -> Vec<(usize, Arc<NamedGenerator>)> {
            self.issuer.declare(configured).expect("nothing that could repeat")
        }

        /// Returns the numbers of a client that may be too late, or none.
        fn try_named(
            &self,
            (index, generator): &(usize, Arc<NamedGenerator>),
            n: u32,
        ) -> thread::JoinHandle<Vec<u128>> {
            let (issuer, index, generator) = (Arc::clone(&self.issuer), *index, Arc::clone(generator));
            thread::spawn(move || {
                let mut drawn = Vec::new();
                match block_on(issuer.draw_named(index, n, &mut drawn)) {
                    Ok(()) => slots(&drawn).into_iter().map(|slot| generator.number(slot, 0, 0, 0)).collect(),
                    Err(refusal) => {
                        assert_eq!(refusal, Refusal::Redeclared);
                        Vec::new()
                    }
                }
            })
        }

        /// Starts a client that draws `n` from a named generator, and returns its numbers, in order.
        fn draw_named(
            &self,
            (index, generator): &(usize, Arc<NamedGenerator>),
            n: u32,
        ) -> thread::JoinHandle<Vec<u128>> {
            let (issuer, index, generator) = (Arc::clone(&self.issuer), *index, Arc::clone(generator));
            thread::spawn(move || {
                let mut drawn = Vec::new();
                block_on(issuer.draw_named(index, n, &mut drawn)).expect("ids");
                let numbers: Vec<_> = slots(&drawn).into_iter().map(|slot| generator.number(slot, 0, 0, 0)).collect();
                assert!(numbers.len() == n as usize && numbers.is_sorted(), "{numbers:?} of {n}");
                numbers
            })
        }
    }

    /// Draws from two named generators, while one of them gets an earlier epoch and the other is removed and returns.
    /// No draw waits for another generator for ever, and no number of one name repeats.
    fn a_reload_beside_draws() {
        let scene = Scene::new();
        let (a, b) = (declared("a", 1_000_000_000_000), declared("b", 1_000_000_000_000));
        let first = scene.declare(&[Arc::clone(&a), b]);
        let of_a = [scene.draw_named(&first[0], 3), scene.draw_named(&first[0], 1)];
        let of_b = scene.try_named(&first[1], 2);
        let unnamed = scene.draw(2);
        let earlier = scene.declare(&[declared("b", 999_999_999_999)]);
        let of_new_b = scene.draw_named(&earlier[0], 2);
        let again = scene.declare(&[declared("b", 999_999_999_999), a]);
        assert_eq!((again[0].0, again[1].0), (earlier[0].0, first[0].0), "whatever is as it was keeps its index");
        let of_a_again = scene.draw_named(&again[1], 1);

        let join = |client: thread::JoinHandle<Vec<u128>>| client.join().expect("a client");
        let mut all_of_a: Vec<_> = of_a.into_iter().flat_map(join).chain(join(of_a_again)).collect();
        all_of_a.sort_unstable();
        assert!(all_of_a.windows(2).all(|pair| pair[0] < pair[1]), "{all_of_a:?}");
        let (of_b, of_new_b) = (join(of_b), join(of_new_b));
        assert!(of_b.iter().max() < of_new_b.iter().min(), "{of_b:?} before the change and {of_new_b:?} after it");
        unnamed.join().expect("a client");
        let refusing = scene.issuer.named_status([0, 1, 2]).into_iter().map(|status| status.refusing);
        assert_eq!(refusing.collect::<Vec<_>>(), [None, Some(Refusal::Redeclared), None]);
        scene.end();
    }

    /// A declaration is changed and changed back while draws are under way: late draws are refused, and none continues
    /// at the name's old position.
    fn a_change_that_is_taken_back() {
        let scene = Scene::new();
        let declared = |start: &str| {
            let words = format!("g layout time:41@1ms counter:1 server-id:21 counter-start 0..{start}");
            let words: Vec<_> = words.split(' ').collect();
            Arc::new(Declaration::parse(&words, no_dates).expect("a declaration"))
        };
        let mut all = Vec::new();
        let mut late = Vec::new();
        for start in ["0", "1", "0", "0"] {
            let [now] = &scene.declare(&[declared(start)])[..] else { panic!("one") };
            late.push(scene.try_named(now, 1));
            all.extend(scene.draw_named(now, 3).join().expect("a client"));
            late.push(scene.try_named(now, 2));
        }
        all.extend(late.into_iter().flat_map(|client| client.join().expect("a client")));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a number was given twice");
        scene.end();
    }

    const SCENES: [(&str, fn()); 6] = [
        ("every draw is served", every_draw_is_served),
        ("no draw passes the queue", no_draw_passes_the_queue),
        ("a slice is small", a_slice_is_small),
        ("a leaver leaves", a_leaver_leaves),
        ("a reload beside draws", a_reload_beside_draws),
        ("a change that is taken back", a_change_that_is_taken_back),
    ];

    #[test]
    fn the_real_issuer_under_many_orders_of_threads() {
        for (name, scene) in SCENES {
            println!("{name}");
            super::check_orders(scene, super::orders());
        }
    }

    /// Each fault must fail its test.
    #[test]
    fn faults_of_the_queue_are_found() {
        let faults: [(Fault, fn()); 5] = [
            (Fault::PassesTheQueue, no_draw_passes_the_queue),
            (Fault::ServesWholeDraws, a_slice_is_small),
            (Fault::LeaverKeepsItsPlace, a_leaver_leaves),
            (Fault::FirstDoesNotWake, every_draw_is_served),
            (Fault::LineAddedAtClock, a_change_that_is_taken_back),
        ];
        for (fault, scene) in faults {
            super::must_find(fault, scene);
        }
    }
}

/// A clock that real threads push on, in unpredictable steps.
#[derive(Clone, Default)]
struct SharedClock(Arc<AtomicU64>);

impl Clock for SharedClock {
    fn boot_ns(&self) -> u64 {
        self.0.fetch_add(500, SeqCst)
    }

    fn wall_unix_us(&self) -> i64 {
        WALL_UNIX_MS * 1000 + (self.0.load(SeqCst) / 1000).cast_signed()
    }
}

#[test]
fn real_threads_get_disjoint_slots_in_real_time_order() {
    const THREADS: usize = 4;
    const DRAWS: u64 = 20_000;
    let layout = Layout::default();
    let identity = Identity { server_id: 0, layout };
    let clock = SharedClock::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let issuer = roomy_issuer(&runtime, clock.clone(), identity, 60_000);

    // End of the last finished draw: a draw that begins now must be past it.
    let finished = AtomicU64::new(0);
    let mut all: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (issuer, finished) = (&issuer, &finished);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for i in 0..DRAWS {
                        let floor = finished.load(SeqCst);
                        let n = 1 + u32::try_from((i * 7 + thread as u64) % 13).expect("small");
                        match issuer.try_draw(n) {
                            Ok(Some(Reservation { first, len, .. })) => {
                                assert!(first.0 >= floor, "{first:?} was requested after the reply of {floor}");
                                let end = first.0 + u64::from(len);
                                finished.fetch_max(end, SeqCst);
                                mine.push((first.0, end));
                            }
                            Ok(None) => {}
                            Err(refusal) => panic!("{refusal}"),
                        }
                    }
                    mine
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    let ids: u64 = all.iter().map(|(first, end)| end - first).sum();
    assert_eq!(ids, issuer.status().mint.ids_issued, "each ID went to one thread");
    assert_eq!(all.len() as u64, DRAWS * THREADS as u64, "all draws were served");
    all.sort_unstable();
    for pair in all.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{pair:?} overlap");
    }
}
