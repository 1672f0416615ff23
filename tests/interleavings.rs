//! The concurrent draw, checked by all its interleavings.
//!
//! What threads do together is little: one lock around the mint, one counter beside it. So the steps between which
//! another thread may run are few, and instead of a model checker's clever search all orders are tried: draws, the
//! keeper's saves (begun, landed on the disk, succeeded, failed), ticks of the clock, and after each step the question
//! what a crash now would leave.
//!
//! Checked in every state that can be reached: no two draws overlap, their order is the real-time order, no tick at or
//! past R + B or what the disk may hold; and in the model of the queue: nobody overtakes who waits.
//!
//! At the end, real threads hammer a real issuer for a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use getid::clock::Clock;
use getid::id::{Blocked, Layout, Limits, Mint, Reading, Reservation, SavePoint, Tick};
use getid::issuer::Issuer;
use getid::watermark::{Identity, NoStore};

const MS: u64 = 1_000_000;
/// 2026-01-01.
const WALL_UNIX_MS: i64 = 1_767_225_600_000;

/// What the threads still have to do, and what was seen. Copied at every fork in the road.
#[derive(Clone)]
struct World {
    mint: Mint,
    limits: Limits,
    shard_bits: u32,
    now_ns: u64,
    /// What the disk may hold: the old and, while a save is in flight or has failed, the new.
    disk: Vec<SavePoint>,
    saving: Option<SavePoint>,
    landed: bool,
    /// Slots given so far, in order.
    end: u64,
    /// IDs that each thread's draws ask for, still to come.
    draws: [Vec<u64>; 2],
    saves: u32,
    ticks: u32,
    given: u64,
}

/// Counts states, so that a model in which nothing happens does not pass for a proof.
#[derive(Default, Debug)]
struct Seen {
    states: u64,
    ends: u64,
    blocked: u64,
    given: u64,
}

impl World {
    fn new(shard_bits: u32, limits: Limits, draws: [Vec<u64>; 2]) -> World {
        let layout = Layout::new(Layout::default().epoch(), 21 - shard_bits, shard_bits, 0).expect("21");
        let reading = Reading { wall_unix_ms: WALL_UNIX_MS, boot_ns: 0 };
        let now = layout.epoch().tick_at(WALL_UNIX_MS).expect("a tick");
        // The last life stopped where the clock is.
        let found = SavePoint { watermark: now, reference: now };
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

    /// Every step that some thread could take next; each makes a world of its own.
    fn explore(&self, seen: &mut Seen) {
        seen.states += 1;
        let mut stuck = true;
        let mut step = |take: &dyn Fn(&mut World, &mut Seen)| {
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
                world.saving = world.mint.wanted_save(world.now_ns);
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
                    // The rename: from here on the disk may hold either.
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

    fn draw(&mut self, thread: usize, seen: &mut Seen) {
        let n = self.draws[thread].remove(0);
        match self.mint.draw(self.now_ns, n) {
            Ok(Reservation { first, len, .. }) => {
                assert!(u64::from(len) <= n && len > 0);
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

fn check_all_orders(shard_bits: u32, limits: Limits, draws: [Vec<u64>; 2]) -> Seen {
    let mut seen = Seen::default();
    World::new(shard_bits, limits, draws).explore(&mut seen);
    println!("shard-range {shard_bits}, {limits:?}: {seen:?}");
    assert!(seen.ends > 10_000 && seen.blocked > 1000 && seen.given > 1000, "{seen:?}");
    seen
}

#[test]
fn every_order_of_draws_saves_and_ticks() {
    let limits = |max_borrow_ms, lead_ms| Limits { max_borrow_ms, lead_ms, ..Limits::default() };
    // Small limits, so that few steps lead to each of them; odd numbers, so that ticks are used in part.
    check_all_orders(0, limits(2, 1), [vec![1, 2], vec![3]]);
    check_all_orders(1, limits(3, 2), [vec![3, 5], vec![1]]);
    check_all_orders(2, limits(2, 2), [vec![3, 9], vec![7]]);
    check_all_orders(0, limits(1, 1), [vec![1, 1], vec![1]]);
}

/// The queue, with the steps of `Issuer::try_draw` and `Issuer::draw_waiting` between which another thread may run.
mod queue {
    use std::collections::HashSet;

    /// Where a thread is in its draw.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum At {
        /// Not begun.
        Start,
        /// It saw that nobody waits, and goes for the mint.
        Fast,
        /// It has found no room, or that others wait, and takes a place: counted, then in the line.
        Place,
        /// In the line.
        Line,
        Done,
        /// Its client went away.
        Gone,
    }

    #[derive(Clone, PartialEq, Eq, Hash)]
    struct World {
        at: [At; 3],
        waiting: u32,
        /// Who is in line, the head first.
        line: Vec<usize>,
        /// Slots that may be given now, and how many more time will bring.
        room: u32,
        ticks: u32,
        /// Which thread was served, in order.
        served: Vec<usize>,
        /// For each thread, who stood in line, counted, when it began.
        before: [Vec<usize>; 3],
        cancels: u32,
    }

    impl World {
        fn explore(&self, states: &mut HashSet<World>) {
            if !states.insert(self.clone()) {
                return;
            }
            for thread in 0..self.at.len() {
                let mut next = self.clone();
                if next.step(thread) {
                    next.explore(states);
                }
                if self.cancels > 0 && matches!(self.at[thread], At::Line) {
                    let mut next = self.clone();
                    next.cancels -= 1;
                    next.leave(thread, At::Gone);
                    next.explore(states);
                }
            }
            if self.ticks > 0 {
                let mut next = self.clone();
                next.ticks -= 1;
                next.room += 1;
                next.explore(states);
            }
            let over = self.ticks == 0 && self.at.iter().all(|at| matches!(at, At::Done | At::Gone));
            if over {
                assert_eq!((self.waiting, self.line.len()), (0, 0), "every place was given back");
            }
        }

        /// Whether `thread` could take a step.
        fn step(&mut self, thread: usize) -> bool {
            match self.at[thread] {
                At::Start => {
                    self.before[thread].clone_from(&self.line);
                    self.at[thread] = if self.waiting > 0 { At::Place } else { At::Fast };
                }
                At::Fast if self.room > 0 => {
                    self.serve(thread);
                    self.at[thread] = At::Done;
                }
                At::Fast => self.at[thread] = At::Place,
                At::Place => {
                    self.waiting += 1;
                    self.line.push(thread);
                    self.at[thread] = At::Line;
                }
                At::Line if self.line[0] == thread && self.room > 0 => {
                    self.serve(thread);
                    self.leave(thread, At::Done);
                }
                At::Line | At::Done | At::Gone => return false,
            }
            true
        }

        fn serve(&mut self, thread: usize) {
            self.room -= 1;
            for &earlier in &self.before[thread] {
                let had_its_turn = self.served.contains(&earlier) || self.at[earlier] == At::Gone;
                assert!(had_its_turn, "thread {thread} overtook {earlier}, which stood in line when it came");
            }
            self.served.push(thread);
        }

        fn leave(&mut self, thread: usize, to: At) {
            self.line.retain(|&other| other != thread);
            self.waiting -= 1;
            self.at[thread] = to;
        }
    }

    #[test]
    fn nobody_overtakes_who_waits() {
        let mut states = HashSet::new();
        for room in 0..=1 {
            let world = World {
                at: [At::Start; 3],
                waiting: 0,
                line: Vec::new(),
                room,
                ticks: 3,
                served: Vec::new(),
                before: Default::default(),
                cancels: 1,
            };
            world.explore(&mut states);
        }
        println!("{} states", states.len());
        assert!(states.len() > 1000, "{} states", states.len());
    }
}

/// A clock that real threads push on, in steps that none of them can foresee.
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
    let limits = Limits { max_borrow_ms: 60_000, lead_ms: 60_000, ..Limits::default() };
    let runtime = runtime.expect("a runtime");
    let now = layout.epoch().tick_at(WALL_UNIX_MS).expect("a tick");
    let found = SavePoint { watermark: now, reference: now };
    let start = runtime.block_on(Issuer::start(clock.clone(), identity, limits, Some(found), NoStore));
    let (issuer, keeper) = start.expect("a start");

    // The end of the last draw that was finished: a draw that begins now must lie past it.
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
                                assert!(first.0 >= floor, "{first:?} was asked for after {floor} had been answered");
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
    drop(keeper);
}
