//! Lives of a mint with named generators: units from 100 ns to seconds under one watermark, kills, failed saves, clocks
//! that are set, retaken claims, generators that are removed and return. No ID repeats, all ascend.
//!
//! There are two worlds. With a right clock any record may be found at a start: an old one, another folder's, none.
//! With a wild clock it is the last one, or no server could notice. Each fault of the lines is found in one of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use getid_core::server::LineSpec;
use getid_core::server::checks::{Fault, plant};
use getid_core::{Blocked, BorrowPolicy, Epoch, Layout, Limits, Mint, Reading, Refusal, SavePoint};

use crate::random::Random;

const MS: u64 = 1_000_000;
const HOUR_MS: i64 = 3_600_000;
/// Start of 2026-01-01 in Unix ms.
const START_UNIX_MS: i64 = 1_767_225_600_000;

fn spec(epoch_unix_ms: i64, unit_ns: u64, time_bits: u32, counter_bits: u32) -> LineSpec {
    LineSpec { epoch_unix_ms, unit_ns, time_bits, counter_bits, counter_start: 0, seed: 5 }
}

/// Returns generators of every unit, with epochs before the server's and after it.
fn specs() -> Vec<LineSpec> {
    let second = 1000 * MS;
    vec![
        spec(-12_219_292_800_000, 100, 60, 0),
        spec(0, MS, 48, 12),
        LineSpec { counter_start: 9, ..spec(1_451_577_600_000, MS, 39, 7) },
        spec(1_409_529_600_000, 10 * MS, 39, 2),
        LineSpec { counter_start: 3, ..spec(1_735_689_600_123, 10 * MS, 39, 8) },
        spec(0, second, 32, 4),
        LineSpec { counter_start: 200, ..spec(1_463_673_600_000, second, 35, 13) },
        spec(START_UNIX_MS - 100, 1234 * MS + 500_100, 40, 1),
    ]
}

/// Content of a disk: a save point, and the names of declared generators.
#[derive(Clone, Debug, Default)]
struct Record {
    point: Option<SavePoint>,
    declared: Vec<usize>,
}

#[derive(Debug)]
struct Generator {
    spec: LineSpec,
    /// The slot after the last one given, in any life.
    end: u64,
    /// Its line in this life, and whether it is configured now.
    line: Option<usize>,
    is_configured: bool,
}

struct World {
    rng: Random,
    wild_clock: bool,
    epoch_unix_ms: u64,
    shard_bits: u32,
    limits: Limits,
    wall_unix_ms: i64,
    boot_ns: u64,
    disk: Record,
    /// Records of earlier times.
    copies: Vec<Record>,
    generators: Vec<Generator>,
    /// The last slot of the unnamed generator, with 21 bits of shard.
    unnamed_end: u64,
    given: u64,
    /// Beginning of the last unit given in this life, ns since 1970.
    begin_max_ns: i128,
    /// Whether a second server runs while the first one has lost its claim.
    is_second: bool,
}

/// State of a running life.
struct Life {
    mint: Mint,
    /// Generators of the lines, in the order of their indices.
    order: Vec<usize>,
    flight: Option<(SavePoint, Vec<usize>)>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Random(seed);
        let max_borrow_ms = rng.pick(&[100, 3000, 3000, 10_000]);
        let lead_ms = rng.pick(&[max_borrow_ms, max_borrow_ms, max_borrow_ms / 3, 1]);
        let policy = rng.pick(&[BorrowPolicy::Wait, BorrowPolicy::Error]);
        let generators = specs().into_iter().map(|spec| Generator { spec, end: 0, line: None, is_configured: false });
        World {
            wild_clock: rng.one_in(2),
            epoch_unix_ms: Epoch::DEFAULT.unix_ms(),
            shard_bits: 9,
            limits: Limits { max_borrow_ms, lead_ms, max_clock_jump_ms: HOUR_MS.unsigned_abs(), policy },
            wall_unix_ms: START_UNIX_MS,
            boot_ns: 1_000_000_000,
            disk: Record::default(),
            copies: vec![],
            generators: generators.collect(),
            unnamed_end: 0,
            given: 0,
            begin_max_ns: i128::MIN,
            is_second: false,
            rng,
        }
    }

    fn play(mut self) -> u64 {
        for _ in 0..self.rng.within(2, 12) {
            self.live();
            self.between_lives();
        }
        self.given
    }

    fn between_lives(&mut self) {
        let down_ms = self.rng.pick(&[0, 0, 1, 50, 2000]);
        self.pass(self.rng.clone().below(down_ms + 1));
        self.rng.next();
        if self.rng.one_in(4) {
            self.boot_ns = 1_000_000_000;
        }
        if self.wild_clock {
            self.step_wall();
            if self.rng.one_in(3) {
                self.limits.max_borrow_ms = self.rng.pick(&[100, 3000, 10_000]);
                self.limits.lead_ms = self.limits.lead_ms.min(self.limits.max_borrow_ms);
            }
        } else if self.rng.one_in(3) {
            self.find_any_record();
        }
        if self.rng.one_in(5) {
            self.shard_bits = self.rng.pick(&[0, 3, 9, 21]);
        }
        if self.rng.one_in(5) {
            // An earlier epoch of the server makes its ticks larger.
            let shift_ms = self.rng.below(100_000);
            self.epoch_unix_ms -= shift_ms;
            let shifted =
                |record: &mut Record| record.point = record.point.map(|point| point.in_earlier_epoch(shift_ms));
            shifted(&mut self.disk);
            self.copies.iter_mut().for_each(shifted);
        }
        if self.rng.one_in(3) {
            // An earlier epoch of a generator is harmless.
            let changed = self.rng.index(self.generators.len());
            self.generators[changed].spec.epoch_unix_ms -= self.rng.below(5000).cast_signed();
        }
    }

    fn step_wall(&mut self) {
        if self.rng.one_in(3) {
            self.wall_unix_ms +=
                self.rng.pick(&[-10 * HOUR_MS, -4000, -1500, -100, 700, 4000, HOUR_MS / 2, 5 * HOUR_MS]);
        }
    }

    fn pass(&mut self, ms: u64) {
        // Out of step with whole ms.
        let ns = if ms == 0 { 0 } else { ms * MS + self.rng.below(MS) };
        let before_ms = self.boot_ns / MS;
        self.boot_ns += ns;
        self.wall_unix_ms += (self.boot_ns / MS - before_ms).cast_signed();
    }

    fn reading(&self) -> Reading {
        Reading { wall_unix_ms: self.wall_unix_ms, boot_ns: self.boot_ns }
    }

    fn layout(&self) -> Layout {
        let epoch = Epoch::from_unix_ms(self.epoch_unix_ms).expect("an epoch");
        Layout::new(epoch, 21 - self.shard_bits, self.shard_bits, 0).expect("21 bits")
    }

    fn live(&mut self) {
        self.begin_max_ns = i128::MIN;
        let mint = Mint::new(self.layout(), self.limits, self.disk.point, self.reading());
        let mut life = Life { mint, order: vec![], flight: None };
        for generator in &mut self.generators {
            generator.line = None;
            generator.is_configured = false;
        }
        for i in 0..self.generators.len() {
            if self.rng.one_in(2) {
                self.add(&mut life, i);
            }
        }
        for _ in 0..self.rng.within(1, 60) {
            self.step(&mut life);
        }
        if self.rng.one_in(3) {
            self.expect_service(&mut life);
        }
        self.end(life);
    }

    fn add(&mut self, life: &mut Life, i: usize) {
        let generator = &mut self.generators[i];
        // A generator that returns continues its line. It may also be added as a new one, thanks to R + B.
        if generator.line.is_none() || self.rng.one_in(2) {
            generator.line = Some(life.mint.add_line(generator.spec));
            life.order.push(i);
        }
        generator.is_configured = true;
    }

    fn step(&mut self, life: &mut Life) {
        match self.rng.below(12) {
            0..4 => self.draw(life),
            4..8 => self.keep(life),
            8 => {
                let i = self.rng.index(self.generators.len());
                self.generators[i].is_configured = false;
                if self.rng.one_in(2) {
                    self.add(life, i);
                }
            }
            9 if self.wild_clock => self.step_wall(),
            9 if self.rng.one_in(3) => {
                // With a right clock, no life knows about a larger limit of another one.
                let max_borrow_ms = self.limits.max_borrow_ms / self.rng.within(1, 3);
                let limits = Limits { max_borrow_ms, ..self.limits };
                life.mint.set_limits(if self.rng.one_in(2) { limits } else { self.limits });
            }
            10 if self.rng.one_in(4) => self.lose_claim(life),
            _ => {
                let ms = self.rng.pick(&[0, 1, 1, 10, 99, 300]);
                self.pass(ms);
                life.mint.sample(self.reading());
            }
        }
        if self.wild_clock && self.rng.one_in(40) {
            let max_borrow_ms = self.rng.pick(&[100, 3000, 10_000]);
            self.limits = Limits { max_borrow_ms, lead_ms: self.limits.lead_ms.min(max_borrow_ms), ..self.limits };
            life.mint.set_limits(self.limits);
        }
    }

    /// The save in flight ends in some way, or one begins.
    fn keep(&mut self, life: &mut Life) {
        life.mint.sample(self.reading());
        if let Some((point, lines)) = life.flight.take() {
            if self.rng.one_in(4) {
                if self.rng.one_in(2) {
                    self.write(point, lines);
                }
                life.mint.save_failed(Arc::from("full"));
            } else {
                self.write(point, lines);
                life.mint.saved(point);
            }
        } else if let Some(point) = life.mint.due_save(self.boot_ns) {
            life.flight = Some((point, life.order[..life.mint.lines_in_save()].to_vec()));
        }
    }

    fn write(&mut self, point: SavePoint, mut declared: Vec<usize>) {
        if self.rng.one_in(3) {
            self.copies.push(self.disk.clone());
        }
        declared.extend(&self.disk.declared);
        self.disk = Record { point: Some(point), declared };
    }

    /// The folder was unavailable and returns; with a right clock it may be another one.
    fn lose_claim(&mut self, life: &mut Life) {
        if let Some((point, lines)) = life.flight.take()
            && self.rng.one_in(2)
        {
            self.write(point, lines);
        }
        life.mint.claim_lost(Arc::from("gone"));
        if !self.wild_clock && !self.is_second && self.rng.one_in(2) {
            self.find_any_record();
            self.run_second_server();
        }
        self.pass(self.rng.clone().below(100));
        life.mint.claim_retaken(self.boot_ns, self.disk.point, Arc::from("taken again"));
    }

    /// Another server lives and dies with the same generators, in another folder.
    fn run_second_server(&mut self) {
        let before: Vec<_> = self.generators.iter().map(|one| (one.line, one.is_configured)).collect();
        let begin_max_ns = self.begin_max_ns;
        self.is_second = true;
        self.live();
        self.is_second = false;
        self.begin_max_ns = self.begin_max_ns.max(begin_max_ns);
        for (generator, before) in self.generators.iter_mut().zip(before) {
            (generator.line, generator.is_configured) = before;
        }
    }

    /// Finds a record; with a right clock it may be any.
    fn find_any_record(&mut self) {
        let found = self.rng.index(self.copies.len() + 1);
        self.disk = self.copies.get(found).cloned().unwrap_or_default();
    }

    /// Draws in bursts, at one instant: each draw gets what is left.
    fn draw(&mut self, life: &mut Life) {
        for _ in 0..self.rng.within(1, 6) {
            let n = u32::try_from(self.rng.skewed(16)).expect("small");
            if self.rng.one_in(6)
                && let Ok(given) = life.mint.draw(self.boot_ns, n, false)
            {
                let unit = 21 - self.shard_bits;
                assert!(given.first.0 << unit >= self.unnamed_end, "the unnamed generator ascends");
                self.unnamed_end = (given.first.0 + u64::from(given.len)) << unit;
            }
            let i = self.rng.index(self.generators.len());
            self.draw_of(life, i, n);
        }
    }

    /// Draws from one generator. Returns whether it got any.
    fn draw_of(&mut self, life: &mut Life, i: usize, n: u32) -> bool {
        let generator = &mut self.generators[i];
        let Some(index) = generator.line.filter(|_| generator.is_configured) else { return true };
        let given = match life.mint.draw_line(self.boot_ns, index, n, false) {
            Ok(given) => given,
            Err(Blocked::Refused(Refusal::BeforeEpoch { .. } | Refusal::Clock(_))) => {
                assert!(self.wild_clock, "it is the right time");
                return true;
            }
            Err(_) => return false,
        };
        self.given += u64::from(given.len);
        let LineSpec { epoch_unix_ms, unit_ns, counter_bits, .. } = generator.spec;
        let (first, end) = (given.first.0, given.first.0 + u64::from(given.len));
        assert!(first >= generator.end, "{:?}: {first} after {}", generator.spec, generator.end);
        generator.end = end;
        let begin_ns =
            i128::from((end - 1) >> counter_bits) * i128::from(unit_ns) + i128::from(epoch_unix_ms) * i128::from(MS);
        self.begin_max_ns = self.begin_max_ns.max(begin_ns);
        let epoch_unix_ms = i128::from(self.epoch_unix_ms);
        let is_below = |tick: u64| begin_ns < (i128::from(tick) + epoch_unix_ms) * i128::from(MS);
        let status = life.mint.status(self.boot_ns);
        assert!(is_below(status.reference.0 + status.max_borrow_ms), "past R + B: {:?}, {status:?}", generator.spec);
        let disk = self.disk.point.expect("no id before a save");
        assert!(is_below(disk.watermark.0), "at or past the watermark: {:?}, {disk:?}", generator.spec);
        if let Some((flight, _)) = &life.flight {
            assert!(
                is_below(flight.watermark.0),
                "past every watermark the disk may hold: {:?}, {flight:?}",
                generator.spec
            );
        }
        assert!(self.disk.declared.contains(&i), "{:?} is not declared", generator.spec);
        true
    }

    /// With a working disk, each draw is served within a bound.
    fn expect_service(&mut self, life: &mut Life) {
        let largest_ms = life.mint.start_max_borrow_ms().max(10_000);
        let mut waiting: Vec<usize> =
            (0..self.generators.len()).filter(|&i| self.generators[i].is_configured).collect();
        for _ in 0..(2 * largest_ms + 5000) / 50 {
            life.mint.sample(self.reading());
            // At once, as far as the mint can decide.
            let wanted = |life: &mut Life, boot_ns| {
                let point = life.mint.due_save(boot_ns)?;
                Some((point, life.order[..life.mint.lines_in_save()].to_vec()))
            };
            for _ in 0..2 {
                if let Some((point, lines)) = life.flight.take().or_else(|| wanted(life, self.boot_ns)) {
                    self.write(point, lines);
                    life.mint.saved(point);
                }
                waiting.retain(|&i| !self.draw_of(life, i, 1));
            }
            if waiting.is_empty() {
                return;
            }
            self.pass(50);
        }
        panic!("no service of {waiting:?}: {:?}", life.mint.status(self.boot_ns));
    }

    fn end(&mut self, mut life: Life) {
        if let Some((point, lines)) = life.flight.take()
            && self.rng.one_in(2)
        {
            self.write(point, lines);
        }
        if self.rng.one_in(3)
            && let Some(point) = life.mint.close()
        {
            let stored_ns = (i128::from(point.watermark.0) + i128::from(self.epoch_unix_ms)) * i128::from(MS);
            assert!(stored_ns > self.begin_max_ns, "it is at or before the last unit given: {point:?}");
            assert!(life.order.is_empty() || life.mint.draw_line(self.boot_ns, 0, 1, false).is_err());
            self.write(point, vec![]);
        }
    }
}

const LIVES: u64 = 3000;

#[test]
fn no_id_twice_and_always_ascending_over_all_lives() {
    let mut given = 0;
    for seed in 0..LIVES {
        given += catch_unwind(|| World::new(seed).play()).unwrap_or_else(|_| panic!("seed {seed}"));
    }
    assert!(given > LIVES * 100, "{given}");
}

#[test]
fn every_fault_of_the_lines_is_found() {
    let mut missed = vec![];
    for fault in [
        Fault::LineStartsInsideAUnit,
        Fault::LineStartsAtClock,
        Fault::LineAddedAtClock,
        Fault::LinePositionRoundsDown,
        Fault::LinesAreNotCovered,
        Fault::LinesAreFresh,
        Fault::LineBeforeDeclared,
        Fault::EarlierSaveDeclares,
        Fault::WantedSaveDeclares,
        Fault::RetakeForgetsLines,
    ] {
        let _planted = plant(fault);
        let found = (0..LIVES).find(|&seed| catch_unwind(AssertUnwindSafe(|| World::new(seed).play())).is_err());
        println!("{fault:?}: found by {found:?}");
        if found.is_none() {
            missed.push(fault);
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}
