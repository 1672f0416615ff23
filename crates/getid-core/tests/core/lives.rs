//! Thousands of lives of a mint: clocks that step and freeze, saves that fail, tear, hang or come late, crashes and
//! restarts with what the disk then holds, a shard-range that changes between lives.
//!
//! The oracle is one number: each ID must be larger than every one before it, in all lives. So none comes twice.
//! Beside it stand the bounds that make it hold, checked at every draw: below whatever the disk may hold, below R + B.
//!
//! A failure names its seed; `GETID_SEED=<seed> cargo test --test core lives::` replays it alone.

use std::sync::Arc;

use crate::support::Rng;
use getid_core::checks::{Fault, plant};
use getid_core::{
    Blocked, BorrowPolicy, Epoch, Id, Layout, Limits, Mint, RandomCycle, Reading, Refusal, SavePoint, Scheme, Tick,
};

const SEEDS: u64 = 250;
const LIVES_PER_SEED: u64 = 12;
const STEPS_PER_LIFE: u64 = 60;
const SERVER: u32 = 1;
/// 2026-01-01.
const START_UNIX_MS: i64 = 1_767_225_600_000;
const MS: u64 = 1_000_000;

/// What outlives a life.
struct World {
    rng: Rng,
    /// True time; boot clocks of all lives count from it.
    now_ns: u64,
    /// How wrong the wall clock is.
    wall_error_ms: i64,
    disk: Option<SavePoint>,
    last: Option<Id>,
    ids: u64,
    saves: u64,
}

/// A save under way, and what will come of it.
struct Flight {
    point: SavePoint,
    /// When the disk changes; never, if it tears on the old side.
    lands_ns: Option<u64>,
    ends_ns: u64,
    works: bool,
}

struct Life {
    mint: Mint,
    scheme: Scheme,
    limits: Limits,
    flight: Option<Flight>,
    sampled_ns: u64,
    drew: bool,
    reference: Tick,
}

type Broken = String;

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(what()) }
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng(seed);
        let wall_error_ms = if rng.one_in(8) { rng.below(100_000_000_000).cast_signed() - 50_000_000_000 } else { 0 };
        World { rng, now_ns: 10_000_000_000, wall_error_ms, disk: None, last: None, ids: 0, saves: 0 }
    }

    fn reading(&self) -> Reading {
        let true_ms = START_UNIX_MS + (self.now_ns / MS).cast_signed();
        Reading { wall_unix_ms: true_ms.saturating_add(self.wall_error_ms), boot_ns: self.now_ns }
    }

    fn wander(&mut self) {
        let rng = &mut self.rng;
        let step = |rng: &mut Rng, max: u64| rng.below(max).cast_signed();
        self.wall_error_ms += match rng.below(40) {
            0 => -step(rng, 5000),
            1 => step(rng, 5000),
            2 => -step(rng, 100_000_000),
            3 => step(rng, 10_000_000),
            4 => step(rng, 10) - 5,
            5 => -self.wall_error_ms,
            6 if rng.one_in(4) => 20_000_000_000,
            7 if rng.one_in(10) => 10_000_000_000_000,
            8 if rng.one_in(10) => -3_000_000_000_000,
            _ => 0,
        };
        self.wall_error_ms = self.wall_error_ms.clamp(-3_000_000_000_000, 10_000_000_000_000);
    }

    fn limits(&mut self) -> Limits {
        let max_borrow_ms = self.rng.pick(&[1, 2, 100, 3000, 3000, 3000, 60_000]);
        Limits {
            max_borrow_ms,
            lead_ms: self.rng.range(1, max_borrow_ms),
            max_clock_jump_ms: self.rng.pick(&[0, 3_600_000, 3_600_000, 10]),
            policy: if self.rng.one_in(3) { BorrowPolicy::Error } else { BorrowPolicy::Wait },
        }
    }

    fn live(&mut self, schemes: &[Scheme]) -> Result<(), Broken> {
        let scheme = self.rng.pick(schemes);
        let limits = self.limits();
        let mint = Mint::new(scheme.layout(), limits, self.disk, self.reading());
        let limits = mint.limits();
        let reference = self.disk.map_or(Tick(0), |point| point.reference);
        let mut life = Life { mint, scheme, limits, flight: None, sampled_ns: self.now_ns, drew: false, reference };
        let calm = self.rng.one_in(4);
        for _ in 0..self.rng.below(STEPS_PER_LIFE) {
            self.step(&mut life, calm)?;
        }
        if self.rng.one_in(4) {
            self.expect_service(&mut life)?;
        }
        if self.rng.one_in(3) {
            self.stop(life)
        } else {
            // kill -9: a save in flight may or may not have reached the disk.
            if let Some(flight) = life.flight
                && self.rng.one_in(2)
            {
                self.disk = Some(flight.point);
            }
            Ok(())
        }
    }

    fn step(&mut self, life: &mut Life, calm: bool) -> Result<(), Broken> {
        self.now_ns += match self.rng.below(20) {
            0 => self.rng.below(5000) * MS,
            1 if self.rng.one_in(10) => self.rng.below(1_000_000) * MS,
            2..=8 => self.rng.below(30 * MS),
            9..=14 => self.rng.below(MS),
            _ => 0,
        };
        if !calm {
            self.wander();
        }
        self.disk_works(life);
        if self.rng.one_in(100) {
            // `CONFIG SET`; the next life starts by others again.
            life.mint.set_limits(self.limits());
            life.limits = life.mint.limits();
        }
        if self.rng.one_in(4) {
            return self.keep(life, calm);
        }
        let n = self.rng.skewed(12);
        self.draw(life, u32::try_from(n).expect("small")).map(drop)
    }

    /// The keeper's round: sample, then save if wanted.
    fn keep(&mut self, life: &mut Life, calm: bool) -> Result<(), Broken> {
        for event in life.mint.sample(self.reading()) {
            assert!(!event.to_string().is_empty());
        }
        life.sampled_ns = self.now_ns;
        self.check_reference(life)?;
        if !calm && self.rng.one_in(50) && life.flight.is_none() {
            life.mint.claim_lost(Arc::from("the lock was taken"));
        }
        self.begin_save(life, calm)
    }

    fn begin_save(&mut self, life: &mut Life, calm: bool) -> Result<(), Broken> {
        let Some(point) = life.mint.wanted_save(self.now_ns) else { return Ok(()) };
        self.saves += 1;
        check(life.flight.is_none(), || "two saves at once".to_owned())?;
        let status = life.mint.status(self.now_ns);
        let cap = status.reference.plus_ms(life.limits.max_borrow_ms.max(status.max_borrow_ms) + 200);
        let known = status.position.max(self.disk.map_or(Tick(0), |disk| disk.watermark));
        check(point.watermark <= cap.max(known), || format!("watermark {point:?} past its cap {cap:?}"))?;
        check(point.watermark >= status.position, || format!("watermark {point:?} below {:?}", status.position))?;
        let took = if calm { 5 * MS } else { self.rng.skewed(32) };
        let works = calm || !self.rng.one_in(4);
        let lands = works || self.rng.one_in(2);
        let lands_ns = lands.then(|| self.now_ns + self.rng.below(took));
        life.flight = Some(Flight { point, lands_ns, ends_ns: self.now_ns + took, works });
        Ok(())
    }

    fn disk_works(&mut self, life: &mut Life) {
        let Some(flight) = &life.flight else { return };
        if flight.lands_ns.is_some_and(|at| at <= self.now_ns) {
            self.disk = Some(flight.point);
        }
        if flight.ends_ns > self.now_ns {
            return;
        }
        if flight.works {
            life.mint.saved(flight.point);
        } else {
            life.mint.save_failed(Arc::from("No space left on device (os error 28)"));
        }
        life.flight = None;
    }

    fn check_reference(&self, life: &mut Life) -> Result<(), Broken> {
        let reference = life.mint.status(self.now_ns).reference;
        check(!life.drew || reference >= life.reference, || {
            format!("R went back from {:?} to {reference:?}", life.reference)
        })?;
        life.reference = reference;
        Ok(())
    }

    fn draw(&mut self, life: &mut Life, n: u32) -> Result<bool, Broken> {
        let max_borrow_ms = life.mint.status(self.now_ns).max_borrow_ms;
        let drawn = life.mint.draw(self.now_ns, n, false);
        self.check_reference(life)?;
        let shard_bits = life.scheme.layout().shard_bits();
        let reservation = match drawn {
            Ok(reservation) => reservation,
            Err(Blocked::Borrow { until_boot_ns }) => {
                let wait_ns = until_boot_ns.saturating_sub(self.now_ns);
                check((MS..=1000 * MS).contains(&wait_ns), || format!("a wait of {wait_ns} ns"))?;
                return Ok(false);
            }
            Err(Blocked::Refused(refusal)) => {
                check(refusal != Refusal::Closed, || "closed while open".to_owned())?;
                return Ok(false);
            }
            Err(Blocked::Watermark) => return Ok(false),
        };
        life.drew = true;
        check(reservation.len > 0 && reservation.len <= n, || format!("{n} asked, {reservation:?}"))?;
        let end = reservation.first.0 + u64::from(reservation.len);
        let last_tick = getid_core::Slot(end - 1).tick(shard_bits);
        let borrow_end = Tick(life.reference.0 + max_borrow_ms);
        check(last_tick < borrow_end, || format!("{last_tick:?} at or past R + B, {borrow_end:?}"))?;
        let may_hold = [self.disk, life.flight.as_ref().map(|flight| flight.point)];
        for point in may_hold.into_iter().flatten() {
            check(last_tick < point.watermark, || format!("{last_tick:?} at or past the watermark of {point:?}"))?;
            check(max_borrow_ms <= point.max_borrow_ms, || format!("B {max_borrow_ms} with {point:?}"))?;
        }
        check(self.disk.is_some(), || "an id before the first save".to_owned())?;
        for (slot, id) in (reservation.first.0..).zip(life.scheme.ids(reservation)) {
            check(self.last < Some(id), || format!("{id} after {:?}", self.last))?;
            self.last = Some(id);
            let parts = life.scheme.layout().split(id);
            let tick = getid_core::Slot(slot).tick(shard_bits);
            check((parts.tick, parts.server) == (tick, SERVER), || format!("{id} says {parts:?}, not {tick:?}"))?;
        }
        self.ids += u64::from(reservation.len);
        Ok(true)
    }

    /// With a healthy disk and a sane clock, a life that is not at the end of time serves again by itself.
    fn expect_service(&mut self, life: &mut Life) -> Result<(), Broken> {
        if !(-400 * 86_400_000..=400 * 86_400_000).contains(&self.wall_error_ms) {
            self.wall_error_ms = 0;
        }
        for _ in 0..200 {
            self.now_ns += 50 * MS;
            if let Some(flight) = &mut life.flight {
                flight.ends_ns = flight.ends_ns.min(self.now_ns);
                flight.works = true;
                flight.lands_ns = Some(self.now_ns);
            }
            self.disk_works(life);
            self.keep(life, true)?;
        }
        self.now_ns += 1000 * MS;
        self.disk_works(life);
        self.keep(life, true)?;
        self.now_ns += 6 * MS;
        self.disk_works(life);
        let status = life.mint.status(self.now_ns);
        // A record from a life with a larger B, or far ahead of a clock that was set back, has to be waited for.
        if status.position.ms_since(status.reference) >= status.max_borrow_ms || life.limits.lead_ms < 50 {
            return Ok(());
        }
        let served = self.draw(life, 1)?;
        let next = life.mint.can_draw(self.now_ns);
        check(served || matches!(next, Err(Blocked::Refused(_))), || format!("no service: {status:?}"))?;
        let absurd = matches!(
            next,
            Ok(()) | Err(Blocked::Watermark | Blocked::Borrow { .. } | Blocked::Refused(Refusal::Clock(_)))
        );
        check(absurd, || format!("still refusing: {next:?}, {status:?}"))
    }

    fn stop(&mut self, mut life: Life) -> Result<(), Broken> {
        if let Some(flight) = life.flight.take() {
            self.now_ns = self.now_ns.max(flight.ends_ns);
            if flight.lands_ns.is_some() {
                self.disk = Some(flight.point);
            }
        }
        let point = life.mint.close();
        let closed = life.mint.draw(self.now_ns, 1, false) == Err(Blocked::Refused(Refusal::Closed));
        check(closed, || "drawn after close".to_owned())?;
        if let Some(point) = point {
            let after_last = self.last.map_or(Tick(0), |id| Tick((id.get() >> 21) + 1));
            check(point.watermark >= after_last, || format!("{point:?} stored, {after_last:?} needed"))?;
            check(!life.drew || point.watermark == after_last, || format!("{point:?} loses from {after_last:?}"))?;
            if !self.rng.one_in(5) {
                self.disk = Some(point);
            }
        }
        Ok(())
    }
}

fn schemes() -> Vec<Scheme> {
    [0, 1, 5, 9, 9, 9, 19]
        .into_iter()
        .map(|shard_range| {
            let random_range = 19 - shard_range;
            let layout = Layout::new(Epoch::DEFAULT, 2, shard_range, random_range).expect("adds up");
            let cycle = RandomCycle::new(Rng(1).permutation(1 << random_range)).expect("a permutation");
            Scheme::new(layout, SERVER, cycle).expect("fits")
        })
        .collect()
}

fn run(seed: u64, schemes: &[Scheme]) -> Result<World, Broken> {
    let mut world = World::new(seed);
    for life in 0..LIVES_PER_SEED {
        world.live(schemes).map_err(|what| format!("seed {seed}, life {life}: {what}"))?;
        // Restarts follow at once, or after a while.
        world.now_ns += if world.rng.one_in(2) { 0 } else { world.rng.below(60_000) * MS };
    }
    Ok(world)
}

#[test]
fn no_id_twice_and_always_up_over_all_lives() {
    let schemes = schemes();
    let seeds = match std::env::var("GETID_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("GETID_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    };
    let (mut ids, mut saves) = (0, 0);
    for seed in seeds {
        let world = run(seed, &schemes).unwrap_or_else(|what| panic!("{what}"));
        ids += world.ids;
        saves += world.saves;
    }
    println!("{ids} ids, {saves} saves");
}

/// The test of the test: with a fault planted, a run must fail.
fn is_caught(fault: Fault) -> String {
    let schemes = schemes();
    let _planted = plant(fault);
    let what = (0..SEEDS).find_map(|seed| run(seed, &schemes).err());
    what.unwrap_or_else(|| panic!("no run fails with {fault:?}"))
}

#[test]
fn without_the_watermark_check_it_fails() {
    let what = is_caught(Fault::NoWatermarkCheck);
    assert!(what.contains("watermark") || what.contains("before the first save"), "{what}");
}

#[test]
fn without_the_mask_it_fails() {
    let what = is_caught(Fault::NoMask);
    assert!(what.contains("says") || what.contains("after"), "{what}");
}

#[test]
fn without_the_slew_it_fails() {
    let what = is_caught(Fault::NoSlew);
    assert!(what.contains("R went back"), "{what}");
}
