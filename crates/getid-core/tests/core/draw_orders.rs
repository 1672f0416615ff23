//! Draws under the mint's lock, checked over all orders of their steps.
//!
//! Few steps lie between points at which another thread may run. So all orders are tried instead of a model checker's
//! selection: draws, the keeper's saves (begun, landed on the disk, succeeded, failed), ticks of the clock, and after
//! each step the state that a crash would leave.
//!
//! Checked in every reachable state: no two draws overlap, their order is the real-time order, no tick is at or past R
//! + B or a watermark that the disk may hold.

use getid_core::{Blocked, Layout, Limits, Mint, Reading, Reservation, SavePoint, Tick};

const MS: u64 = 1_000_000;
/// Start of 2026-01-01 in Unix ms.
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
