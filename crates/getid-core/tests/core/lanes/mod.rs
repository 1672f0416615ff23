//! Draws on a lane equal those of the mint, and none succeeds outside of the normal case.

use std::sync::Arc;

use getid_core::server::checks::{Fault, plant};
use getid_core::server::claim::{Clocks, Hold};
use getid_core::server::{Lane, Position};
use getid_core::{Blocked, Epoch, Limits, Reading, Reservation, SavePoint, Tick};
use proptest::prelude::*;

use crate::mint::Scene;

mod model;

const MS: u64 = 1_000_000;
const HOUR: u64 = 3_600_000;

/// Faults in how the server's threads share a lane: `interleavings` finds them, with the server's own source.
const OF_SHARING: [Fault; 4] =
    [Fault::ClosedLaneIsUsed, Fault::HolderLeavesTheLaneOpen, Fault::LanePassesTheQueue, Fault::LaneIsNotCounted];

/// A lane beside its mint, used by one thread.
struct LaneBesideMint {
    scene: Scene,
    open: Option<(Position, Lane)>,
    given: u64,
    ahead: u64,
}

impl LaneBesideMint {
    fn of(scene: Scene) -> LaneBesideMint {
        let mut beside = LaneBesideMint { scene, open: None, given: 0, ahead: 0 };
        beside.open = beside.scene.mint.lane();
        beside
    }

    /// Does the work of the lock's holder: see [`Mint::follow_lane`](getid_core::Mint::follow_lane).
    fn locked<T>(&mut self, work: impl FnOnce(&mut Scene) -> T) -> T {
        if let Some((position, _)) = self.open.take() {
            self.scene.mint.follow_lane(position, self.scene.boot_ns, self.given, self.ahead);
        }
        let result = work(&mut self.scene);
        self.open = self.scene.mint.lane();
        result
    }

    fn draw(&mut self, n: u32) -> Option<Reservation> {
        let (position, lane) = self.open.as_mut()?;
        let drawn = lane.draw(*position, self.scene.boot_ns, n)?;
        *position = drawn.position;
        self.given += u64::from(n);
        self.ahead = self.ahead.max(drawn.ahead);
        Some(drawn.reservation)
    }
}

fn pass(ms: u64) -> impl FnOnce(&mut Scene) {
    move |scene| {
        scene.pass(ms);
    }
}

/// Returns a server that has long been running, and was just sampled.
fn at_ease() -> LaneBesideMint {
    let mut scene = Scene::start(None, Limits::default());
    // Past the start of its life.
    scene.pass(5000).one().expect("served");
    scene.pass(101);
    LaneBesideMint::of(scene)
}

fn no_lane_before_the_first_id() {
    let mut beside = LaneBesideMint::of(Scene::start(None, Limits::default()));
    assert_eq!(beside.open, None, "no save has succeeded");
    beside.locked(pass(10));
    assert_eq!(beside.open, None, "no ID was given");
    // A wrong clock may still be corrected.
    beside.locked(|scene| {
        scene.wall -= 500;
        scene.keep();
        scene.pass(10).one().expect("served");
    });
    assert!(beside.open.is_some());
}

#[test]
fn no_lane_while_the_watermark_comes_down() {
    let mut scene = Scene::start(None, Limits::default());
    scene.pass(10);
    // The clock was wrong at boot.
    scene.wall -= HOUR.cast_signed();
    scene.sync_ms = 1000;
    scene.keep();
    let mut beside = LaneBesideMint::of(scene);
    beside.locked(|scene| assert_eq!(scene.pass(100).one(), Err(Blocked::Watermark)));
    assert_eq!(beside.open, None, "the disk still holds what was stored by the wrong clock");
    beside.locked(|scene| {
        scene.pass(2000).one().expect("served");
    });
    assert!(beside.open.is_some());
}

fn no_lane_while_the_clock_slews() {
    let mut beside = at_ease();
    beside.locked(|scene| {
        scene.wall -= 2;
        scene.keep();
        scene.pass(5);
    });
    assert_eq!(beside.open, None);
    beside.locked(pass(1000));
    assert!(beside.open.is_some());
}

fn where_a_save_is_due_the_lock_hears_of_it() {
    let mut beside = at_ease();
    // The hint holds until the keeper checks whether to save.
    beside.locked(|scene| {
        let wall_unix_ms = scene.wall + Tick(0).unix_ms(Epoch::DEFAULT);
        scene.mint.sample(Reading { wall_unix_ms, boot_ns: scene.boot_ns });
    });
    while beside.draw(300).is_some() {}
    let watermark = beside.scene.watermark();
    let drawn = beside.locked(|scene| scene.mint.draw(scene.boot_ns, 300, false)).expect("below the watermark");
    assert!(drawn.first.tick(9).0 + 500 < watermark, "{drawn:?}: long before {watermark} is reached");
    assert!(beside.scene.mint.is_save_due());
    assert!(beside.draw(300).is_some(), "draws continue meanwhile");
}

fn no_lane_past_the_hold() {
    let mut beside = at_ease();
    let clocks = |scene: &Scene| Clocks { boot_ns: scene.boot_ns, raw_ns: scene.boot_ns, wall_ms: scene.wall };
    beside.locked(|scene| scene.mint.held(Hold { sent: clocks(scene), for_ms: 500 }, clocks(scene)));
    beside.scene.boot_ns += 500 * MS - 1;
    assert!(beside.draw(1).is_some());
    beside.scene.boot_ns += 1;
    assert_eq!(beside.draw(1), None, "the process was stopped, and the clocks were not read since");
    assert!(beside.locked(|scene| scene.mint.draw(scene.boot_ns, 1, false)).is_err());
}

/// The exchange of a draw on an outdated lane must fail.
fn what_is_lower_moves_on() {
    let lower = Limits { max_borrow_ms: 1000, lead_ms: 1000, ..Limits::default() };
    let mut beside = at_ease();
    let before = beside.open.expect("a lane");
    beside.locked(|scene| scene.mint.set_limits(lower));
    let after = beside.open.expect("a lane");
    assert!(after.1.borrow < before.1.borrow);
    assert_ne!(after.0, before.0, "draws by the larger limit are over");
    beside.locked(|_| ());
    assert_eq!(beside.open, Some(after), "nothing has changed, and no slot is lost");

    let found = SavePoint { watermark: Tick(0), reference: Tick(0), max_borrow_ms: 0 };
    beside.locked(|scene| scene.mint.claim_retaken(scene.boot_ns, Some(found), Arc::from("retaken")));
    assert_eq!(beside.open, None);
    beside.locked(pass(5000));
    assert_ne!(beside.open.expect("a lane").0, after.0);
}

fn any_period_of_ids_carries_each_random_value_once() {
    let mut beside = at_ease();
    let mut count = None;
    for step in 0..2000_u32 {
        let n = 1 + step % 7;
        // Lock and lane in turn.
        let drawn = if step % 5 == 0 { beside.locked(|scene| scene.draw(n)).ok() } else { beside.draw(n) };
        let drawn = drawn.unwrap_or_else(|| beside.locked(|scene| scene.pass(100).draw(n)).expect("served"));
        assert_eq!(drawn.len, n);
        let before = count.replace(drawn.count.wrapping_add(n.into()));
        assert!(before.is_none_or(|before| before % 1024 == drawn.count % 1024), "{before:?} and {drawn:?}");
    }
    assert!(beside.given > 1000, "{}", beside.given);
}

fn scene_of(fault: Fault) -> Option<fn()> {
    Some(match fault {
        Fault::LaneOpensFresh => no_lane_before_the_first_id,
        Fault::LaneOpensWhileSlewing => no_lane_while_the_clock_slews,
        Fault::LaneIgnoresSaveFrom => where_a_save_is_due_the_lock_hears_of_it,
        Fault::LaneOutlivesItsHold => no_lane_past_the_hold,
        Fault::LowerLaneOpensInPlace => what_is_lower_moves_on,
        Fault::LaneForgetsTheCycle => any_period_of_ids_carries_each_random_value_once,
        _ => return None,
    })
}

#[test]
fn every_fault_of_lanes_is_found_by_its_scene() {
    for &fault in Fault::OF_LANES.iter().filter(|fault| !OF_SHARING.contains(fault)) {
        let scene = scene_of(fault).expect("each has a scene");
        scene();
        let _planted = plant(fault);
        assert!(std::panic::catch_unwind(scene).is_err(), "{fault:?} is not found");
    }
}

/// If the process is stopped for longer than a lane lasts, or its clock is set back, draws take the lock, which detects
/// that.
#[test]
fn a_lane_is_good_for_the_time_it_was_made_for() {
    let (position, lane) = at_ease().open.expect("a lane");
    let lane = Lane { below: 1 << 62, ..lane };
    let is_drawn = |boot_ns| lane.draw(position, boot_ns, 1).is_some();
    assert!(!is_drawn(0), "the clock could not be read");
    assert!(!is_drawn(lane.from_boot_ns - 1) && is_drawn(lane.from_boot_ns));
    assert!(is_drawn(lane.until_boot_ns - 1) && !is_drawn(lane.until_boot_ns));
    assert!(lane.until_boot_ns - lane.from_boot_ns < 1_200 * MS, "{lane:?}");
}

#[test]
fn a_closed_mint_has_no_lane() {
    let mut beside = at_ease();
    beside.draw(5).expect("by the lane");
    let position = beside.open.expect("a lane").0;
    let last = beside.locked(|scene| scene.mint.close()).expect("a right clock");
    assert_eq!(beside.open, None);
    assert_eq!(last.watermark.0, beside.scene.position(), "{position:?}");
    beside.locked(|_| ());
    assert_eq!(beside.open, None, "nor later");
}

#[test]
fn ids_from_the_lane_are_counted() {
    let mut beside = at_ease();
    let before = beside.scene.mint.status(beside.scene.boot_ns);
    let ids: u32 = (1..=100).filter_map(|n| beside.draw(n)).map(|drawn| drawn.len).sum();
    assert_eq!(ids, 5050);
    beside.locked(|_| ());
    let after = beside.scene.mint.status(beside.scene.boot_ns);
    assert_eq!(after.ids_issued, before.ids_issued + 5050);
    // 512 IDs a ms.
    assert_eq!((after.borrow_ms, after.highest_borrow_ms), (9, 9), "{after:?}");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Draw(u32),
    Pass(u64),
    Nanos(u64),
    Jump(i64),
    Limits(u64, u64),
    Fail,
    Lock,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..2000_u32).prop_map(Step::Draw),
        4 => (1..300_u64).prop_map(Step::Pass),
        4 => (1..2 * MS).prop_map(Step::Nanos),
        1 => (-5000..5000_i64).prop_map(Step::Jump),
        1 => (1..5000_u64, 1..5000_u64).prop_map(|(borrow, lead)| Step::Limits(borrow, lead)),
        1 => Just(Step::Fail),
        2 => Just(Step::Lock),
    ]
}

/// Returns slots, and the place in the random cycle.
fn taken(drawn: Reservation) -> (u64, u32, u64) {
    (drawn.first.0, drawn.len, drawn.count % 1024)
}

/// Draws on the lane, and from a copy of the mint without one; both must agree. Returns whether the lane allowed it.
fn draws_the_same(beside: &mut LaneBesideMint, n: u32) -> Result<bool, TestCaseError> {
    let mut alone = Scene { mint: beside.scene.mint.clone(), events: vec![], ..beside.scene };
    if let Some((position, _)) = beside.open {
        alone.mint.follow_lane(position, alone.boot_ns, beside.given, beside.ahead);
    }
    let Some(drawn) = beside.draw(n) else { return Ok(false) };
    let expected = alone.mint.draw(alone.boot_ns, n, false).map(taken);
    prop_assert_eq!(Ok(taken(drawn)), expected);
    let mut after = beside.scene.mint.clone();
    let (position, _) = beside.open.expect("it has drawn by it");
    after.follow_lane(position, beside.scene.boot_ns, beside.given, beside.ahead);
    prop_assert_eq!(after.status(beside.scene.boot_ns), alone.mint.status(alone.boot_ns));
    Ok(true)
}

proptest! {
    /// Whatever happens between draws: a draw on the lane takes what the mint would have given, and leaves the same
    /// state.
    #[test]
    fn a_draw_by_the_lane_is_the_mints(steps in prop::collection::vec(step(), 1..120)) {
        let mut beside = at_ease();
        let mut by_lane = 0;
        for step in steps {
            match step {
                Step::Draw(n) => {
                    if draws_the_same(&mut beside, n)? {
                        by_lane += 1;
                    } else if n > 0 {
                        let _ = beside.locked(|scene| scene.draw(n));
                    }
                }
                Step::Pass(ms) => beside.locked(pass(ms)),
                Step::Nanos(ns) => beside.scene.boot_ns += ns,
                Step::Jump(ms) => beside.locked(|scene| {
                    scene.wall += ms;
                    scene.keep();
                }),
                Step::Limits(borrow, lead) => {
                    let limits = Limits { max_borrow_ms: borrow, lead_ms: lead, ..Limits::default() };
                    beside.locked(|scene| scene.mint.set_limits(limits));
                }
                Step::Fail => beside.locked(|scene| {
                    if scene.flight.take().is_some() {
                        scene.mint.save_failed(Arc::from("no space"));
                    }
                }),
                Step::Lock => beside.locked(|_| ()),
            }
        }
        // With most seeds some draws use the lane.
        prop_assume!(by_lane > 0);
    }
}
