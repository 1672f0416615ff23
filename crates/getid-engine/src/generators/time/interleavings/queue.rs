//! The queue of draws under thread orders that shuttle picks at each lock and each wake-up. Shuttle reports a thread
//! that is never woken as a deadlock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::Poll;

use crate::claim::{Identity, NoClaim};
use getid_core::server::checks::Fault;
use getid_core::{Declaration, Layout, Limits, NamedGenerator, Number, Refusal, Reservation, SavePoint, no_dates};
use shuttle::future::block_on;
use shuttle::thread;

use super::super::{Issuer, NextServe};
use super::{MS, WALL_UNIX_MS, check_orders, must_find, orders};

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
    fn try_named(&self, (index, generator): &(usize, Arc<NamedGenerator>), n: u32) -> thread::JoinHandle<Vec<Number>> {
        let (issuer, index, generator) = (Arc::clone(&self.issuer), *index, Arc::clone(generator));
        thread::spawn(move || {
            let mut drawn = Vec::new();
            match block_on(issuer.draw_named(index, n, &mut drawn)) {
                Ok(()) => slots(&drawn).into_iter().map(|slot| generator.number(slot, 0, 0, Number::ZERO)).collect(),
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::Redeclared);
                    Vec::new()
                }
            }
        })
    }

    /// Starts a client that draws `n` from a named generator, and returns its numbers, in order.
    fn draw_named(&self, (index, generator): &(usize, Arc<NamedGenerator>), n: u32) -> thread::JoinHandle<Vec<Number>> {
        let (issuer, index, generator) = (Arc::clone(&self.issuer), *index, Arc::clone(generator));
        thread::spawn(move || {
            let mut drawn = Vec::new();
            block_on(issuer.draw_named(index, n, &mut drawn)).expect("ids");
            let numbers: Vec<_> =
                slots(&drawn).into_iter().map(|slot| generator.number(slot, 0, 0, Number::ZERO)).collect();
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

    let join = |client: thread::JoinHandle<Vec<Number>>| client.join().expect("a client");
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
        check_orders(scene, orders());
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
        must_find(fault, scene);
    }
}
