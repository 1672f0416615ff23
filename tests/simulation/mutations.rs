//! Tests of the tests: each fault that can be planted is found, by the stories or by its scene here.
//!
//! The scenes pass without a fault, and fail with it: both are tried.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use getid_core::server::checks::{Fault, plant};
use getid_core::server::claim::{Clocks, Hold};

use getid_core::server::LineSpec;
use getid_core::{
    Blocked, Declaration, Layout, Limits, Mint, NamedGenerator, Reading, Refusal, SavePoint, Tick, no_dates,
};

use crate::clock::START_UNIX_MS;
use crate::disk::SimDisk;
use crate::machine::{Machine, pass, timed};
use crate::scenes;
use crate::story::play;

/// Number of stories in which a fault must be found.
const STORIES: u64 = 60;

const HOUR_MS: u64 = 3_600_000;
const BOOT_NS: u64 = 1_000_000_000_000_000;

/// Faults of the queue, which `interleavings` and the scenes of the queue plant and find.
const OF_THE_QUEUE: [Fault; 7] = [
    Fault::PassesTheQueue,
    Fault::DrawPanics,
    Fault::FirstDoesNotWake,
    Fault::LetsEverybodyWait,
    Fault::ServesWholeDraws,
    Fault::NoDrawIsEldest,
    Fault::LeaverKeepsItsPlace,
];

/// Returns the scene of a fault; `None`: the stories find it soon.
fn scene(fault: Fault) -> Option<fn()> {
    Some(match fault {
        Fault::NoHold | Fault::HoldsForEver => a_jump_is_held_for_ten_minutes,
        Fault::NoBoundOnJumps => no_jump_of_more_than_400_days,
        Fault::FailedReadingCounts => a_reading_that_fails,
        Fault::FaultKeepsGate => an_absurd_clock,
        Fault::StartForgetsBorrow | Fault::LimitDropsAtStart => a_start_with_a_larger_b,
        Fault::StartSlips => a_start_behind_the_record,
        Fault::RaisesBeforeDurable | Fault::StoresConfiguredBorrow => a_limit_that_is_set,
        Fault::InheritsForEver => a_larger_b_comes_down,
        Fault::LowersLate | Fault::StaleSaveCounts | Fault::NeverLowers => a_wrong_clock_at_boot,
        Fault::FailedSaveCounts | Fault::RefusesForEver => a_save_that_fails,
        Fault::LostClaimKeepsGate | Fault::LostForEver => a_claim_that_is_lost,
        Fault::GivesPastItsHold => a_beat_without_an_answer,
        Fault::RetakeForgetsPosition
        | Fault::RetakeWithoutSlack
        | Fault::RetakeForgetsReference
        | Fault::RetakeForgetsBorrow => a_claim_that_is_retaken,
        Fault::StoppedStartLeavesRecord => a_start_that_is_stopped,
        Fault::FreshStopStoresPosition | Fault::FreshSaveStoresFound => a_life_without_an_id,
        Fault::CloseKeepsGate | Fault::CloseStoresWatermark => the_last_act,
        Fault::NoPause => a_start_without_a_record_waits,
        Fault::NoPauseForACopy => a_copy_in_the_place_of_a_running_servers_folder,
        Fault::PoisonDoesNotClose | Fault::PoisonedCloseIsStored => a_panic_inside_a_draw,
        Fault::DroppedKeeperDoesNotClose => a_keeper_that_is_gone,
        Fault::EarlierSaveDeclares => a_line_that_comes_while_a_save_is_under_way,
        Fault::LineWantsNothing => a_unit_longer_than_the_lead,
        Fault::ServersShareLayout => two_servers_with_one_configuration,
        _ => return None,
    })
}

/// Returns the first known story that finds a fault: it is played before all others.
fn likely_seed(fault: Fault) -> u64 {
    match fault {
        Fault::LaterEpochAccepted | Fault::NoMask | Fault::LinesAreFresh => 1,
        Fault::NoWatermarkCheck => 2,
        Fault::NoSlew | Fault::StartForgetsReference => 4,
        Fault::StartsAtWatermark | Fault::StartsAtClock | Fault::LineAddedAtClock => 8,
        Fault::RetakeForgetsLines | Fault::RedeclaredGoesOn => 12,
        Fault::PositionRoundsDown => 13,
        Fault::StartForgetsWatermark => 14,
        Fault::LineStartsInsideAUnit
        | Fault::LineStartsAtClock
        | Fault::LinePositionRoundsDown
        | Fault::LinesAreNotCovered
        | Fault::LineBeforeDeclared
        | Fault::WantedSaveDeclares => 3,
        _ => 0,
    }
}

fn is_found(fault: Fault) -> Result<String, String> {
    let began = Instant::now();
    if let Some(scene) = scene(fault) {
        scene();
        let _planted = plant(fault);
        return match catch_unwind(scene) {
            Err(_) => Ok(format!("by its scene in {:?}", began.elapsed())),
            Ok(()) => Err("its scene has not found it".to_owned()),
        };
    }
    let _planted = plant(fault);
    for seed in std::iter::once(likely_seed(fault)).chain(0..STORIES) {
        match catch_unwind(AssertUnwindSafe(|| play(seed))) {
            Ok(Ok(_)) => {}
            Ok(Err(why)) => return Ok(format!("by seed {seed} in {:?}: {why}", began.elapsed())),
            Err(_) => return Ok(format!("by a panic of seed {seed} in {:?}", began.elapsed())),
        }
    }
    Err(format!("{STORIES} stories have not found it in {:?}", began.elapsed()))
}

#[test]
fn every_planted_fault_is_found() {
    let mut missed = Vec::new();
    let others = [
        Fault::OF_SEQUENCES,
        Fault::OF_CLAIMS,
        Fault::OF_LANES,
        Fault::OF_BEATS,
        Fault::OF_REQUESTS,
        Fault::OF_PERIODS,
        &OF_THE_QUEUE,
    ];
    let elsewhere = |fault: &Fault| others.iter().any(|all| all.contains(fault));
    for fault in Fault::ALL.iter().copied().filter(|fault| !elsewhere(fault)) {
        match is_found(fault) {
            Ok(how) => println!("{fault:?}: found {how}"),
            Err(why) => missed.push((fault, why)),
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

fn a_beat_without_an_answer() {
    let mut small = SmallMint::running();
    let clocks =
        |small: &SmallMint| Clocks { boot_ns: small.boot_ns, raw_ns: small.boot_ns, wall_ms: small.wall_unix_ms };
    small.mint.held(Hold { sent: clocks(&small), for_ms: 1500 }, clocks(&small));
    // The process is stopped: only the draw itself reads the clocks.
    small.boot_ns += 1_499_999_999;
    assert!(small.mint.draw(small.boot_ns, 1, false).is_ok());
    small.boot_ns += 1;
    assert_eq!(small.mint.draw(small.boot_ns, 1, false), Err(Blocked::Watermark));
    small.wall_unix_ms += 1500;
    small.mint.held(Hold { sent: clocks(&small), for_ms: 1500 }, clocks(&small));
    assert!(small.mint.draw(small.boot_ns, 1, false).is_ok());
}

/// A mint whose disk answers at once.
struct SmallMint {
    mint: Mint,
    wall_unix_ms: i64,
    boot_ns: u64,
    disk: Option<SavePoint>,
}

impl SmallMint {
    fn start(found: Option<SavePoint>, limits: Limits) -> SmallMint {
        let reading = Reading { wall_unix_ms: START_UNIX_MS, boot_ns: BOOT_NS };
        let mint = Mint::new(Layout::default(), limits, found, reading);
        SmallMint { mint, wall_unix_ms: START_UNIX_MS, boot_ns: BOOT_NS, disk: found }
    }

    fn running() -> SmallMint {
        let mut small = SmallMint::start(None, Limits::default());
        small.pass(4000);
        small.tick();
        small
    }

    fn pass(&mut self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let step = left.min(50);
            left -= step;
            self.wall_unix_ms += step.cast_signed();
            self.boot_ns += step * 1_000_000;
            self.sample();
            self.save();
        }
    }

    fn sample(&mut self) {
        self.mint.sample(Reading { wall_unix_ms: self.wall_unix_ms, boot_ns: self.boot_ns });
    }

    fn save(&mut self) {
        if let Some(point) = self.mint.due_save(self.boot_ns) {
            self.mint.saved(point);
            self.disk = Some(point);
        }
    }

    fn draw(&mut self) -> Result<Tick, Blocked> {
        self.mint.draw(self.boot_ns, 1, false).map(|drawn| drawn.first.tick(9))
    }

    fn tick(&mut self) -> Tick {
        self.draw().expect("an id")
    }

    fn refusal(&mut self) -> Refusal {
        match self.draw() {
            Err(Blocked::Refused(refusal)) => refusal,
            other => panic!("{other:?} and not refused"),
        }
    }

    /// Returns R, ms from the start.
    fn r(&self) -> u64 {
        self.mint.status(self.boot_ns).reference.ms_since(start())
    }

    fn position(&self) -> u64 {
        self.mint.status(self.boot_ns).position.ms_since(start())
    }

    fn watermark(&self) -> u64 {
        self.mint.status(self.boot_ns).watermark.ms_since(start())
    }
}

fn start() -> Tick {
    Layout::default().epoch().tick_at(START_UNIX_MS).expect("a tick")
}

fn found(watermark: u64, reference: u64, max_borrow_ms: u64) -> SavePoint {
    SavePoint { watermark: start().plus_ms(watermark), reference: start().plus_ms(reference), max_borrow_ms }
}

fn borrow(max_borrow_ms: u64) -> Limits {
    Limits { max_borrow_ms, lead_ms: max_borrow_ms, ..Limits::default() }
}

fn a_jump_is_held_for_ten_minutes() {
    let mut small = SmallMint::running();
    small.wall_unix_ms += (2 * HOUR_MS).cast_signed();
    small.pass(1000);
    assert!(small.r() < HOUR_MS);
    small.pass(HOUR_MS / 5);
    assert!(small.r() > 2 * HOUR_MS);
}

fn no_jump_of_more_than_400_days() {
    let mut small = SmallMint::start(None, Limits { max_clock_jump_ms: 0, ..Limits::default() });
    small.pass(100);
    small.tick();
    small.wall_unix_ms += 401 * 24 * HOUR_MS.cast_signed();
    small.pass(1000);
    assert!(small.r() < HOUR_MS);
}

fn a_reading_that_fails() {
    let mut small = SmallMint::running();
    let before = small.r();
    small.mint.sample(Reading { wall_unix_ms: small.wall_unix_ms, boot_ns: 0 });
    small.pass(100);
    assert!(small.r() < before + 200);
}

fn an_absurd_clock() {
    let mut small = SmallMint::running();
    small.wall_unix_ms = 8_000_000_000_000;
    small.sample();
    assert!(matches!(small.refusal(), Refusal::Clock(_)));
}

fn a_start_with_a_larger_b() {
    let mut small = SmallMint::start(Some(found(0, 0, 10_000)), Limits::default());
    small.pass(50);
    assert!(small.tick() >= start().plus_ms(10_000));
}

fn a_start_behind_the_record() {
    let mut small = SmallMint::start(Some(found(HOUR_MS, HOUR_MS, 3000)), Limits::default());
    small.pass(3000);
    assert!(small.tick() >= start().plus_ms(HOUR_MS + 3000));
}

fn a_limit_that_is_set() {
    let mut small = SmallMint::running();
    small.mint.set_limits(borrow(60_000));
    assert_eq!(small.mint.status(small.boot_ns).max_borrow_ms, 3000, "the disk does not have it");
    small.pass(100);
    assert_eq!(small.mint.status(small.boot_ns).max_borrow_ms, 60_000);
    small.tick();
    small.mint.set_limits(borrow(3000));
    small.pass(HOUR_MS / 10);
    assert_eq!(small.disk.expect("saved").max_borrow_ms, 60_000, "it was the limit in this life");
}

fn a_larger_b_comes_down() {
    let mut small = SmallMint::start(Some(found(0, 0, 10_000)), Limits::default());
    small.pass(30_000);
    small.tick();
    small.pass(3000);
    assert_eq!(small.disk.expect("saved").max_borrow_ms, 3000);
}

fn a_wrong_clock_at_boot() {
    for in_flight in [false, true] {
        let mut small = SmallMint::start(None, Limits::default());
        small.wall_unix_ms += (1000 * HOUR_MS).cast_signed();
        small.pass(100);
        small.wall_unix_ms += 400;
        small.pass(2000);
        // A save with the wrong time is under way when the clock is corrected.
        let point = in_flight.then(|| {
            small.wall_unix_ms += HOUR_MS.cast_signed();
            small.sample();
            small.mint.due_save(small.boot_ns).expect("a save")
        });
        small.wall_unix_ms = START_UNIX_MS;
        small.sample();
        assert!(small.watermark() < HOUR_MS, "from now on the disk may hold the lower one");
        if let Some(point) = point {
            small.mint.saved(point);
            assert!(small.watermark() < HOUR_MS, "it was begun by the wrong clock");
        }
        small.pass(1000);
        assert!(small.disk.expect("saved").watermark < start().plus_ms(HOUR_MS));
    }
}

fn a_save_that_fails() {
    let mut small = SmallMint::running();
    let before = small.watermark();
    small.boot_ns += 2_500_000_000;
    small.wall_unix_ms += 2500;
    small.sample();
    small.mint.due_save(small.boot_ns).expect("a save");
    small.mint.save_failed(Arc::from("full"));
    assert_eq!(small.watermark(), before);
    small.pass(5000);
    small.tick();
}

fn a_claim_that_is_lost() {
    let mut small = SmallMint::running();
    small.mint.claim_lost(Arc::from("gone"));
    assert!(matches!(small.refusal(), Refusal::ClaimLost(_)));
    small.pass(1000);
    small.tick();
}

fn a_claim_that_is_retaken() {
    for fresh in [false, true] {
        let mut small = if fresh { SmallMint::start(None, Limits::default()) } else { SmallMint::running() };
        small.mint.claim_retaken(small.boot_ns, Some(found(0, HOUR_MS, 10_000)), Arc::from("retaken"));
        assert!(small.position() >= HOUR_MS + 10_200, "{fresh}: {}", small.position());
        assert_eq!(small.r(), HOUR_MS);
        let mut small = if fresh { SmallMint::start(None, Limits::default()) } else { SmallMint::running() };
        small.mint.claim_retaken(small.boot_ns, Some(found(HOUR_MS, 0, 0)), Arc::from("retaken"));
        assert!(small.position() >= HOUR_MS);
    }
}

fn a_life_without_an_id() {
    let record = found(1, 0, 3000);
    let mut small = SmallMint::start(Some(record), Limits::default());
    small.pass(1000);
    assert!(small.disk.expect("saved").watermark >= start().plus_ms(3000), "it may give an ID at any time");
    assert_eq!(small.mint.close(), Some(record));
}

fn the_last_act() {
    let mut small = SmallMint::running();
    let position = small.position();
    let stored = small.mint.close().expect("a right clock");
    assert_eq!(stored.watermark, start().plus_ms(position));
    assert_eq!(small.refusal(), Refusal::Closed);
}

/// Runs `work` in simulated time.
fn simulated(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(work);
}

fn a_start_without_a_record_waits() {
    simulated(async {
        let (took, _) = timed(Machine::new().start()).await;
        assert!(took >= Duration::from_millis(250));
    });
}

/// The original server is at the borrow limit, and notices only at its next save.
fn a_copy_in_the_place_of_a_running_servers_folder() {
    simulated(async {
        for offset_ms in (0..200).step_by(20) {
            let mut machine = Machine::new().with_shard_range(0);
            let first = machine.start().await;
            let copy = machine.disk.text().expect("a record");
            pass(3500).await;
            machine.borrow_all(&first).await;
            let client = first.client();
            let greedy = tokio::spawn(async move { while client.draw(5).await.is_ok() {} });
            pass(500 + offset_ms).await;

            machine.disk.lose_claim("it is another folder");
            machine.disk = SimDisk::new(9);
            machine.disk.put_back(Some(&copy));
            let second = machine.start().await;
            second.draw(1500).await.expect("ids");
            greedy.await.expect("a client");
            machine.oracle.verdict().expect("no id twice");
            // From now on it is a separate record, and its first writer is gone.
            second.kill().await;
            let (took, _) = timed(machine.start()).await;
            assert!(took < Duration::from_millis(250), "{took:?}");
        }
    });
}

fn a_start_that_is_stopped() {
    simulated(scenes::a_start_that_is_stopped_leaves_no_trace());
}

fn a_panic_inside_a_draw() {
    simulated(async {
        let machine = Machine::new();
        let server = machine.start().await;
        pass(10).await;
        server.tick().await;
        let before = machine.found();
        // A draw of no IDs causes an assertion inside the lock.
        catch_unwind(AssertUnwindSafe(|| drop(server.issuer.try_draw(0)))).expect_err("a panic");
        assert_eq!(server.issuer.try_draw(1), Err(Refusal::Closed));
        drop(server.stop().await);
        assert_eq!(machine.found(), before, "it left no position");
    });
}

fn a_keeper_that_is_gone() {
    simulated(async {
        let server = Machine::new().start().await;
        pass(10).await;
        let issuer = server.client().issuer;
        server.kill().await;
        assert_eq!(issuer.try_draw(1), Err(Refusal::Closed));
    });
}

/// Returns a line of one ID a second.
fn seconds() -> LineSpec {
    LineSpec { epoch_unix_ms: 0, unit_ns: 1_000_000_000, time_bits: 40, counter_bits: 0, counter_start: 0, seed: 0 }
}

fn a_line_that_comes_while_a_save_is_under_way() {
    let mut small = SmallMint::start(None, Limits::default());
    let point = small.mint.due_save(small.boot_ns).expect("a first save");
    small.mint.add_line(seconds());
    small.mint.saved(point);
    small.boot_ns += 1_000_000_000;
    assert_eq!(small.mint.draw_line(small.boot_ns, 0, 1, false), Err(Blocked::Watermark), "no save holds it yet");
    small.save();
    small.mint.draw_line(small.boot_ns, 0, 1, false).expect("now one does");
}

/// The watermark that it needs is further ahead than the lead, and the draw requests it.
fn a_unit_longer_than_the_lead() {
    let mut small = SmallMint::start(None, Limits { max_borrow_ms: 10_000, lead_ms: 100, ..Limits::default() });
    small.mint.add_line(seconds());
    small.pass(11_000);
    for _ in 0..5 {
        if small.mint.draw_line(small.boot_ns, 0, 1, false).is_err() {
            small.save();
            small.mint.draw_line(small.boot_ns, 0, 1, false).expect("there after one save");
        }
    }
}

/// Servers have different IDs, or one of them must not use the declaration.
fn two_servers_with_one_configuration() {
    for words in ["a layout time:41@1ms counter:12", "a layout time:40@1ms counter:12 server-id:1", "a twitter"] {
        let words: Vec<_> = words.split(' ').collect();
        let declaration = Declaration::parse(&words, no_dates).expect("a declaration");
        if declaration.is_same_on_servers(2) {
            continue;
        }
        let numbers = [0, 2].map(|server_id| {
            let generator = NamedGenerator::new(declaration.clone(), server_id, None);
            generator.expect("room for the server-id").number(1 << 20, 0, 0, getid_core::Number::ZERO)
        });
        assert_ne!(numbers[0], numbers[1], "{words:?}");
    }
}

/// Checks that a named scene fails with the fault.
fn fails(fault: Fault, scene: impl AsyncFn()) {
    let played = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let _planted = plant(fault);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(scene());
    }));
    assert!(played.is_err(), "{fault:?} was not found");
}

#[test]
fn with_a_panic_inside_a_draw_that_goes_unheard() {
    fails(Fault::PoisonDoesNotClose, scenes::a_panic_inside_a_draw_ends_the_server);
    fails(Fault::PoisonedCloseIsStored, scenes::a_panic_inside_a_draw_ends_the_server);
}

#[test]
fn with_a_keeper_that_leaves_the_door_open() {
    fails(Fault::DroppedKeeperDoesNotClose, scenes::without_its_keeper_a_server_is_closed);
}

#[test]
fn with_a_queue_without_bounds() {
    fails(Fault::NoDrawIsEldest, scenes::the_queue_is_bounded_and_no_draw_starves);
    fails(Fault::LetsEverybodyWait, scenes::the_queue_is_bounded_and_no_draw_starves);
}
