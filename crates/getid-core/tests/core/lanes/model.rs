//! Every order of the steps of draws on a lane, and of the work under the lock meanwhile.
//!
//! A draw has the steps of a real one: the clock is read, the position loaded, then the lane, in two parts, then the
//! position exchanged. Between any two of them a thread may stand still. Meanwhile others draw, the keeper saves, the
//! clock ticks or is set back, limits change, the claim goes to another server and returns, or the last act is done.
//! The work of the lock's holder is one step: a thread that finds a closed lane waits for the lock.
//!
//! In every state: no slot is given twice or late, the random cycle advances by one for each ID, and each slot given is
//! below R + B and below every watermark the disk may hold. States are stored, so each is examined once, whatever leads
//! to it.

use std::collections::HashSet;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use getid_core::server::checks::{Fault, plant};
use getid_core::server::{Lane, LaneDraw, Position};
use getid_core::{Epoch, Layout, Limits, Mint, Reading, Reservation, SavePoint, Slot, Tick};

const MS: u64 = 1_000_000;
/// Start of 2026-01-01 in Unix ms.
const WALL_UNIX_MS: i64 = 1_767_225_600_000;
const SHARD_BITS: u32 = 1;
const RANDOM_BITS: u32 = 2;

/// Progress of a draw.
#[derive(Clone, Copy, Debug)]
enum Step {
    Idle,
    HasTime { boot_ns: u64 },
    HasPosition { boot_ns: u64, position: Position },
    HasHalfALane { boot_ns: u64, position: Position, half: Lane },
    Exchanges { position: Position, drawn: LaneDraw },
    TakesTheLock,
}

#[derive(Clone, Debug)]
struct Thread {
    /// Numbers of IDs of its draws, still to come.
    draws: Vec<u32>,
    step: Step,
}

/// An event that happens once, at any time.
#[derive(Clone, Copy, Debug)]
enum Change {
    LowerLimits,
    RaiseLimits,
    SetBack,
    /// The claim goes to another server and returns.
    ClaimRetaken,
    Close,
}

#[derive(Clone, Debug)]
struct World {
    mint: Mint,
    /// The words that threads share.
    position: Position,
    lane: Lane,
    given_by_lanes: u64,
    ahead: u64,

    threads: [Thread; 2],
    now_ns: u64,
    wall_ms: i64,
    /// Points that the disk may hold: the old one and, while a save is in flight or has failed, the new one.
    disk: Vec<SavePoint>,
    saving: Option<SavePoint>,
    landed: bool,
    /// End of the slots given so far.
    end: u64,
    given: u64,
    saves: u32,
    ticks: u32,
    changes: Vec<Change>,
    is_closed: bool,
}

/// Counts of events, so that a model without events cannot pass for a proof.
#[derive(Default, Debug)]
struct EventCounts {
    states: HashSet<u64>,
    by_lane: u64,
    by_lock: u64,
    /// Number of exchanges that failed.
    too_late: u64,
    /// Number of exchanges on a lane that was replaced meanwhile.
    by_an_old_lane: u64,
    refused: u64,
}

fn limits(max_borrow_ms: u64) -> Limits {
    Limits { max_borrow_ms, lead_ms: max_borrow_ms, ..Limits::default() }
}

impl World {
    /// Returns a server that has given an ID, and has room for some.
    fn new(plan: &Plan) -> World {
        let random = RANDOM_BITS;
        let layout = Layout::new(Epoch::DEFAULT, 21 - SHARD_BITS - random, SHARD_BITS, random).expect("21");
        let now = layout.epoch().tick_at(WALL_UNIX_MS).expect("a tick");
        let found = SavePoint { watermark: now, reference: now, max_borrow_ms: 0 };
        let mint = Mint::new(layout, limits(6), Some(found), Reading { wall_unix_ms: WALL_UNIX_MS, boot_ns: MS });
        let nothing = Lane {
            below_tick_bits: SHARD_BITS + RANDOM_BITS,
            random_bits: RANDOM_BITS,
            from_boot_ns: 0,
            until_boot_ns: 0,
            offset_ns: 0,
            below: 0,
            borrow: 0,
            piece_max: 0,
        };
        let mut world = World {
            mint,
            position: Position::NONE,
            lane: nothing,
            given_by_lanes: 0,
            ahead: 0,
            threads: plan.draws.map(|draws| Thread { draws: draws.to_vec(), step: Step::Idle }),
            now_ns: MS,
            wall_ms: WALL_UNIX_MS,
            disk: vec![found],
            saving: None,
            landed: false,
            end: 0,
            given: 0,
            saves: plan.saves,
            ticks: plan.ticks,
            changes: plan.changes.to_vec(),
            is_closed: false,
        };
        for _ in 0..8 {
            world.tick();
            let point = world.mint.due_save(world.now_ns);
            if let Some(point) = point {
                world.mint.saved(point);
                world.disk = vec![point];
            }
        }
        let first = world.locked(|mint, now_ns| mint.draw(now_ns, 1, false)).expect("an ID");
        world.take(first);
        world
    }

    /// Explores every step that some thread could take next; each creates a new world.
    fn explore(&self, seen: &mut EventCounts) {
        let mut hasher = HashWriter(DefaultHasher::new());
        write!(hasher, "{self:?}").expect("it takes everything");
        if !seen.states.insert(hasher.0.finish()) {
            return;
        }
        let mut step = |take: &dyn Fn(&mut World, &mut EventCounts)| {
            let mut next = self.clone();
            take(&mut next, seen);
            next.check();
            next.explore(seen);
        };
        for thread in 0..self.threads.len() {
            if !self.threads[thread].draws.is_empty() {
                step(&|world, seen| world.go_on(thread, seen));
            }
        }
        if self.ticks > 0 {
            step(&|world, _| {
                world.ticks -= 1;
                world.tick();
            });
        }
        for at in 0..self.changes.len() {
            step(&|world, _| {
                let change = world.changes.remove(at);
                world.change(change);
            });
        }
        match self.saving {
            None if self.saves > 0 => step(&|world, _| {
                world.saves -= 1;
                world.saving = world.locked(Mint::due_save);
                world.landed = false;
            }),
            Some(point) if self.landed => step(&|world, _| {
                world.disk = vec![point];
                world.saving = None;
                world.locked(|mint, _| mint.saved(point));
            }),
            Some(point) => {
                step(&|world, _| {
                    world.disk.push(point);
                    world.landed = true;
                });
                step(&|world, _| {
                    world.saving = None;
                    world.locked(|mint, _| mint.save_failed("the disk is full".into()));
                });
            }
            None => {}
        }
    }

    /// Does the work of the lock's holder.
    fn locked<T>(&mut self, work: impl FnOnce(&mut Mint, u64) -> T) -> T {
        if !self.position.is_closed() {
            self.mint.follow_lane(self.position, self.now_ns, self.given_by_lanes, self.ahead);
        }
        self.position = self.position.closed();
        let result = work(&mut self.mint, self.now_ns);
        if let Some((position, lane)) = self.mint.lane() {
            self.lane = lane;
            self.position = position;
        }
        result
    }

    fn tick(&mut self) {
        self.now_ns += MS;
        self.wall_ms += 1;
        self.sample();
    }

    fn sample(&mut self) {
        let reading = Reading { wall_unix_ms: self.wall_ms, boot_ns: self.now_ns };
        self.locked(|mint, _| mint.sample(reading));
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::LowerLimits => self.locked(|mint, _| mint.set_limits(limits(2))),
            Change::RaiseLimits => self.locked(|mint, _| mint.set_limits(limits(9))),
            Change::SetBack => {
                self.wall_ms -= 5;
                self.sample();
            }
            Change::ClaimRetaken => {
                // Another server has begun at the record, and gave all IDs below its own watermark.
                let highest = self.disk.iter().map(|point| point.watermark).max().expect("a record");
                let found = SavePoint { watermark: highest.plus_ms(1), ..self.disk[0] };
                (self.disk, self.saving) = (vec![found], None);
                self.end = found.watermark.0 << SHARD_BITS;
                self.locked(|mint, now_ns| mint.claim_retaken(now_ns, Some(found), Arc::from("retaken")));
            }
            Change::Close => {
                let last = self.locked(|mint, _| mint.close()).expect("a right clock");
                (self.disk, self.saving, self.saves) = (vec![last], None, 0);
                self.is_closed = true;
            }
        }
    }

    fn go_on(&mut self, thread: usize, seen: &mut EventCounts) {
        let n = self.threads[thread].draws[0];
        let next = match self.threads[thread].step {
            Step::Idle => Step::HasTime { boot_ns: self.now_ns },
            Step::HasTime { .. } if self.position.is_closed() => Step::TakesTheLock,
            Step::HasTime { boot_ns } => Step::HasPosition { boot_ns, position: self.position },
            Step::HasPosition { boot_ns, position } => Step::HasHalfALane { boot_ns, position, half: self.lane },
            Step::HasHalfALane { boot_ns, position, half } => {
                let Lane { below, borrow, piece_max, .. } = self.lane;
                let lane = Lane { below, borrow, piece_max, ..half };
                lane.draw(position, boot_ns, n).map_or(Step::TakesTheLock, |drawn| Step::Exchanges { position, drawn })
            }
            Step::Exchanges { position, .. } if position != self.position => {
                seen.too_late += 1;
                Step::TakesTheLock
            }
            Step::Exchanges { drawn, .. } => {
                self.position = drawn.position;
                self.given_by_lanes += u64::from(n);
                self.ahead = self.ahead.max(drawn.ahead);
                seen.by_lane += 1;
                let now = self.reference().0 << self.lane.below_tick_bits;
                let end = (drawn.reservation.first.0 + u64::from(n)) << RANDOM_BITS;
                seen.by_an_old_lane += u64::from(end > self.lane.below.min(now + self.lane.borrow));
                self.take(drawn.reservation);
                return self.next_draw(thread);
            }
            Step::TakesTheLock => {
                match self.locked(|mint, now_ns| mint.draw(now_ns, n, false)) {
                    Ok(reservation) => {
                        seen.by_lock += 1;
                        self.take(reservation);
                    }
                    Err(_) => seen.refused += 1,
                }
                return self.next_draw(thread);
            }
        };
        self.threads[thread].step = next;
    }

    fn next_draw(&mut self, thread: usize) {
        self.threads[thread].draws.remove(0);
        self.threads[thread].step = Step::Idle;
    }

    fn reference(&self) -> Tick {
        self.mint.status(self.now_ns).reference
    }

    fn take(&mut self, Reservation { first, count, len }: Reservation) {
        assert!(!self.is_closed, "{first:?} was given after the last act");
        assert!(first.0 >= self.end, "{first:?} was given before: they overlap, or their order is wrong");
        let period = 1 << RANDOM_BITS;
        assert_eq!(count % period, self.given % period, "the random cycle advances by one for each ID");
        self.end = first.0 + u64::from(len);
        self.given += u64::from(len);
        let status = self.mint.status(self.now_ns);
        let tick = Slot(self.end - 1).tick(SHARD_BITS);
        assert!(tick < status.reference.plus_ms(status.max_borrow_ms), "{tick:?} is past R + B of {status:?}");
    }

    fn check(&self) {
        for point in &self.disk {
            let end = point.watermark.0 << SHARD_BITS;
            assert!(self.end <= end, "slots up to {} were given, and a crash now leaves {point:?}", self.end);
        }
    }
}

/// Hashes what is written to it.
struct HashWriter(DefaultHasher);

impl Write for HashWriter {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// Events to happen, in any order.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Numbers of IDs of each thread's draws, one after the other.
    draws: [&'static [u32]; 2],
    saves: u32,
    ticks: u32,
    changes: &'static [Change],
}

const PLANS: [Plan; 5] = [
    Plan { draws: [&[3, 1], &[2]], saves: 1, ticks: 1, changes: &[] },
    Plan { draws: [&[3], &[5]], saves: 1, ticks: 1, changes: &[Change::LowerLimits, Change::RaiseLimits] },
    Plan { draws: [&[3], &[2]], saves: 0, ticks: 3, changes: &[Change::SetBack] },
    Plan { draws: [&[3], &[2]], saves: 2, ticks: 1, changes: &[Change::ClaimRetaken] },
    Plan { draws: [&[3], &[2]], saves: 1, ticks: 1, changes: &[Change::Close] },
];

fn search(plan: &Plan) -> EventCounts {
    let mut seen = EventCounts::default();
    World::new(plan).explore(&mut seen);
    seen
}

#[test]
fn every_order_of_steps() {
    for plan in PLANS {
        let seen = search(&plan);
        let EventCounts { states, by_lane, by_lock, too_late, by_an_old_lane, refused } = &seen;
        println!(
            "{plan:?}: {} states; {by_lane} draws by the lane, {by_an_old_lane} of them by an old one; {too_late} too \
             late; {by_lock} by the lock, {refused} refused",
            states.len()
        );
        assert!(states.len() > 1000 && *by_lane > 100 && *by_lock > 10 && *too_late > 10, "too little happens");
    }
}

#[test]
fn what_is_wrong_is_found() {
    for fault in [Fault::LowerLaneOpensInPlace, Fault::LaneForgetsTheCycle] {
        let is_found = PLANS.iter().any(|plan| {
            let searched = std::panic::catch_unwind(|| {
                let _planted = plant(fault);
                search(plan);
            });
            searched.is_err()
        });
        assert!(is_found, "{fault:?} was not found");
    }
}
