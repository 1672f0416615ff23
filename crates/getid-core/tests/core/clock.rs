//! Every rule of the reference clock, with a simulated clock: a scene, and its expected result.

use crate::random::Random;

use getid_core::server::ReferenceClock;
use getid_core::server::checks::{Fault, plant};
use getid_core::{ClockEvent, ClockFault, Epoch, Reading, SavePoint, Severity, Tick};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const MIN: i64 = 60_000;
/// 2026-01-01, in ticks.
const T0: i64 = 347_155_200_000;

/// A machine: its clocks, and a keeper that samples ten times a second. All times in ms, wall times in ticks.
struct Scene {
    clock: ReferenceClock,
    wall: i64,
    boot_ns: u64,
    given: bool,
    events: Vec<ClockEvent>,
    last_r: u64,
}

impl Scene {
    fn start(wall: i64, found: Option<(i64, i64)>) -> Scene {
        Scene::start_with(wall, found, 3_600_000)
    }

    fn start_with(wall: i64, found: Option<(i64, i64)>, max_jump_ms: u64) -> Scene {
        let tick = |ms: i64| Tick(ms.cast_unsigned());
        let found = found.map(|(w, r)| SavePoint { watermark: tick(w), reference: tick(r), max_borrow_ms: 0 });
        let boot_ns = 5_000_000_000;
        let clock = ReferenceClock::new(Epoch::DEFAULT, max_jump_ms, found, reading(wall, boot_ns));
        Scene { clock, wall, boot_ns, given: false, events: vec![], last_r: 0 }
    }

    /// Returns a life that has given an ID.
    fn running(wall: i64) -> Scene {
        let mut scene = Scene::start(wall, None);
        scene.given = true;
        scene
    }

    /// Lets real time pass, with samples; wall and boot clock advance together.
    fn pass(&mut self, ms: i64) -> &mut Scene {
        let mut left = ms;
        while left > 0 {
            let step = left.min(100);
            self.wall += step;
            self.boot_ns += step.cast_unsigned() * 1_000_000;
            self.sample();
            left -= step;
        }
        self
    }

    /// Lets real time pass without a sample: the process is stopped, or the machine suspended.
    fn sleep(&mut self, ms: i64) -> &mut Scene {
        self.wall += ms;
        self.boot_ns += ms.cast_unsigned() * 1_000_000;
        self
    }

    fn step_wall(&mut self, ms: i64) -> &mut Scene {
        self.wall += ms;
        self
    }

    fn sample(&mut self) {
        self.events.extend(self.clock.sample(reading(self.wall, self.boot_ns), self.given));
        let r = self.clock.at(self.boot_ns).0;
        assert!(!self.given || r >= self.last_r, "R went back from {} to {r}", self.last_r);
        self.last_r = r;
    }

    fn r(&self) -> i64 {
        self.clock.at(self.boot_ns).0.cast_signed()
    }

    /// Returns R - W.
    fn ahead(&self) -> i64 {
        self.r() - self.wall
    }

    fn expect(&mut self, events: &[ClockEvent]) {
        assert_eq!(std::mem::take(&mut self.events), events);
    }
}

fn reading(wall: i64, boot_ns: u64) -> Reading {
    Reading { wall_unix_ms: wall + Tick(0).unix_ms(Epoch::DEFAULT), boot_ns }
}

#[test]
fn a_quiet_clock_is_followed_in_silence() {
    let mut scene = Scene::running(T0);
    scene.pass(10 * MIN);
    assert_eq!(scene.ahead(), 0);
    scene.sleep(55).expect(&[]);
    assert_eq!(scene.ahead(), 0, "carried between samples");
}

#[test]
fn jitter_drift_and_smear_do_not_log() {
    let mut rng = Random(1);
    let mut scene = Scene::running(T0);
    for _ in 0..6000 {
        // A few ms of reading skew in either direction.
        let skew = rng.below(7).cast_signed() - 3;
        scene.step_wall(skew).pass(100).step_wall(-skew);
        assert!((-4..=4).contains(&scene.ahead()), "{}", scene.ahead());
    }
    // A leap second smeared over a day, in steps of 1 ms, in both directions.
    for _ in 0..1000 {
        scene.step_wall(-1).pass(864);
    }
    for _ in 0..1000 {
        scene.step_wall(1).pass(864);
    }
    assert!((-1..=1).contains(&scene.ahead()));
    scene.expect(&[]);
}

#[test]
fn set_back_goes_on_at_90_percent_until_caught_up() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(-60_000);
    let (r, at) = (scene.r(), scene.wall);
    scene.pass(100);
    scene.expect(&[ClockEvent::SetBack { by_ms: 59_999 }]);
    scene.pass(99_900);
    let gone = scene.wall - at;
    assert!(((scene.r() - r) - gone * 9 / 10).abs() <= 11, "{} of {gone}", scene.r() - r);
    assert_eq!(scene.clock.offset_ms(), scene.wall - scene.r());
    scene.pass(500_100);
    scene.expect(&[ClockEvent::CaughtUp]);
    assert!((0..=1).contains(&scene.ahead()));
    scene.pass(10 * MIN);
    assert!((0..=1).contains(&scene.ahead()), "it ends at W, and stays there");
    scene.expect(&[]);
    assert_eq!(scene.clock.rollbacks(), 1);
}

#[test]
fn a_late_sample_does_not_let_the_slew_pass_w() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(-1000);
    scene.pass(100);
    scene.sleep(HOUR);
    assert!((0..=1).contains(&scene.ahead()), "R never runs below W: {}", scene.ahead());
    scene.pass(100);
    scene.expect(&[ClockEvent::SetBack { by_ms: 999 }, ClockEvent::CaughtUp]);
}

#[test]
fn set_back_twice_is_two_events_and_one_end() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(-1000).pass(1000).step_wall(-1000).pass(60_000);
    scene.expect(&[ClockEvent::SetBack { by_ms: 999 }, ClockEvent::SetBack { by_ms: 1899 }, ClockEvent::CaughtUp]);
    assert_eq!(scene.clock.rollbacks(), 2);
}

#[test]
fn set_back_to_1970_and_put_right() {
    let mut scene = Scene::running(T0);
    scene.pass(1000);
    let back = scene.wall + Tick(0).unix_ms(Epoch::DEFAULT);
    scene.step_wall(-back).pass(MIN);
    assert!(scene.clock.fault().is_none(), "only a clock set back");
    scene.step_wall(back).pass(MIN);
    assert_eq!(scene.ahead(), 0);
    let [ClockEvent::SetBack { .. }, ClockEvent::CaughtUp, ClockEvent::JumpFollowed { by_ms: 6000..=6011 }] =
        scene.events[..]
    else {
        panic!("{:?}", scene.events)
    };
}

#[test]
fn a_jump_within_the_limit_is_followed_at_once() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(HOUR).pass(100);
    assert_eq!(scene.ahead(), 0);
    scene.expect(&[ClockEvent::JumpFollowed { by_ms: HOUR.cast_unsigned() }]);
    scene.step_wall(50).pass(100).expect(&[]);
    assert_eq!((scene.ahead(), scene.clock.jumps()), (0, 1), "small ones in silence");
}

#[test]
fn a_larger_jump_is_followed_after_ten_minutes() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(2 * HOUR).pass(10 * MIN - 100);
    assert_eq!(scene.ahead(), -2 * HOUR);
    assert_eq!((scene.clock.offset_ms(), scene.clock.holds_jump()), (2 * HOUR, true));
    let by_ms = (2 * HOUR).cast_unsigned();
    scene.expect(&[ClockEvent::JumpHeld { by_ms, too_far: false }]);
    scene.pass(300);
    assert_eq!(scene.ahead(), 0);
    scene.expect(&[ClockEvent::JumpFollowed { by_ms }]);
    assert_eq!((scene.clock.jumps(), scene.clock.holds_jump()), (1, false));
}

#[test]
fn a_larger_jump_that_is_taken_back_leaves_no_trace() {
    let mut scene = Scene::running(T0);
    let by_ms = (2 * HOUR).cast_unsigned();
    scene.pass(1000).step_wall(2 * HOUR).pass(5 * MIN).step_wall(-2 * HOUR).pass(100);
    scene.expect(&[ClockEvent::JumpHeld { by_ms, too_far: false }, ClockEvent::JumpTakenBack { by_ms }]);
    assert_eq!(scene.ahead(), 0);
    // Another jump starts its own ten minutes.
    scene.step_wall(2 * HOUR).pass(6 * MIN);
    assert_eq!(scene.ahead(), -2 * HOUR);
}

#[test]
fn a_jump_that_moves_starts_its_ten_minutes_again() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(2 * HOUR).pass(9 * MIN).step_wall(300 * DAY).pass(9 * MIN);
    assert_eq!(scene.ahead(), -2 * HOUR - 300 * DAY);
    let by_ms = (2 * HOUR).cast_unsigned();
    let more = (2 * HOUR + 300 * DAY).cast_unsigned();
    scene.expect(&[
        ClockEvent::JumpHeld { by_ms, too_far: false },
        ClockEvent::JumpHeld { by_ms: more, too_far: false },
    ]);
    scene.step_wall(-300 * DAY).pass(11 * MIN);
    assert_eq!(scene.ahead(), 0);
}

#[test]
fn more_than_400_days_are_never_followed() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(401 * DAY).pass(3 * HOUR);
    assert_eq!(scene.ahead(), -401 * DAY);
    assert!(scene.clock.fault().is_none(), "IDs continue");
    let by_ms = (401 * DAY).cast_unsigned();
    scene.expect(&[ClockEvent::JumpHeld { by_ms, too_far: true }]);
    assert_eq!(ClockEvent::JumpHeld { by_ms, too_far: true }.severity(), Severity::Error);

    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(399 * DAY).pass(11 * MIN);
    assert_eq!(scene.ahead(), 0);
}

#[test]
fn limit_0_follows_any_jump() {
    let mut scene = Scene::start_with(T0, None, 0);
    scene.given = true;
    scene.pass(1000).step_wall(30 * DAY).pass(100);
    assert_eq!(scene.ahead(), 0);
    scene.expect(&[ClockEvent::JumpFollowed { by_ms: (30 * DAY).cast_unsigned() }]);
}

/// 0 switches off the limit, but not the bound of 400 days.
#[test]
fn limit_0_does_not_follow_by_more_than_400_days() {
    let mut scene = Scene::start_with(T0, None, 0);
    scene.given = true;
    scene.pass(1000).step_wall(401 * DAY).pass(20 * MIN);
    assert_eq!(scene.ahead(), -401 * DAY);
    let by_ms = (401 * DAY).cast_unsigned();
    scene.expect(&[ClockEvent::JumpHeld { by_ms, too_far: true }]);
    // The clock wanders, and not each step is reported.
    for _ in 0..100 {
        scene.step_wall(5000).pass(200);
    }
    scene.expect(&[]);
    scene.step_wall(-2 * DAY).pass(100);
    assert_eq!(scene.ahead(), 0, "less is followed");
    // Exactly 400 days are within the bound.
    scene.step_wall(400 * DAY).pass(100);
    assert_eq!(scene.ahead(), 0);
}

#[test]
fn suspend_and_stopped_processes_are_no_jump() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).sleep(30 * DAY).pass(1000);
    assert_eq!(scene.ahead(), 0);
    scene.sleep(20 * MIN).pass(1000).expect(&[]);
}

/// IDs and serial numbers have the new time from the first draw after a suspend, before any sample, however long it
/// was.
#[test]
fn a_draw_right_after_a_suspend_has_the_new_time() {
    for asleep in [2 * HOUR, 10 * HOUR, 5 * DAY, 500 * DAY] {
        let mut scene = Scene::running(T0);
        scene.pass(1000).sleep(asleep);
        assert_eq!(scene.clock.advance(scene.boot_ns).0.cast_signed(), scene.wall);
        assert_eq!(scene.ahead(), 0);
        scene.pass(1000).expect(&[]);
        assert!(!scene.clock.holds_jump() && scene.clock.jumps() == 0);
    }
}

/// A change that no clock of the machine shows: it was paused from outside, or it booted with a wrong time that was
/// corrected after the first ID. IDs have the old time for ten minutes, and no longer.
#[test]
fn a_jump_that_the_boot_clock_does_not_know_is_believed_after_ten_minutes() {
    for by in [10 * HOUR, 5 * DAY] {
        let mut scene = Scene::running(T0);
        scene.pass(1000).step_wall(by).pass(10 * MIN - 1000);
        assert_eq!(scene.ahead(), -by);
        scene.pass(2000);
        assert_eq!(scene.ahead(), 0);
    }
}

/// A clock was 5 days ahead at boot and is corrected after the first ID: R continues at nine tenths of real speed,
/// which takes fifty days. IDs stay unique and in order; their time is wrong meanwhile.
#[test]
fn a_clock_that_was_days_ahead_at_boot_costs_ten_times_as_long() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(-5 * DAY).pass(1000);
    assert!((scene.ahead() - 5 * DAY).abs() < 1000, "{}", scene.ahead());
    scene.sleep(25 * DAY).sample();
    assert!((scene.ahead() - 5 * DAY / 2).abs() < 1000, "{}", scene.ahead());
    scene.sleep(26 * DAY).sample();
    assert_eq!(scene.ahead(), 0);
    // Before the first ID R follows it back at once.
    let mut scene = Scene::start(T0, None);
    scene.pass(1000).step_wall(-5 * DAY).pass(200);
    assert_eq!(scene.ahead(), 0);
}

/// A virtual machine was paused: its boot clock stood, and its wall clock is then corrected.
#[test]
fn a_paused_machine_is_really_that_late() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(5 * HOUR).pass(11 * MIN);
    assert_eq!(scene.ahead(), 0);
}

#[test]
fn a_boot_clock_that_goes_back_counts_nothing() {
    let mut scene = Scene::running(T0);
    scene.pass(1000);
    let r = scene.r();
    scene.boot_ns -= 3_000_000_000;
    assert_eq!(scene.r(), r);
    scene.sample();
    assert_eq!(scene.r(), r);
    scene.pass(1000);
    assert_eq!((scene.r() - r, scene.ahead()), (1000, 0));
    scene.expect(&[]);
}

/// The kernel refuses a reading, or one is far too early, and the next is good again: R does not move ahead by the
/// uptime.
#[test]
fn a_boot_clock_that_fails_for_a_moment_leaves_no_trace() {
    for (first, bad) in [(5_000_000_000, 0), (5_000_000_000, 1), (0, 0), (3_000_000_000_000_000, 1_000_000_000)] {
        for bad_samples in [1, 5] {
            let mut scene = Scene::start(T0, None);
            scene.clock = ReferenceClock::new(Epoch::DEFAULT, 3_600_000, None, reading(T0, first));
            scene.given = true;
            scene.boot_ns = if first == 0 { 77_000_000_000_000 } else { first };
            // Draws read the clock too, and may come before the first sample.
            assert_eq!(scene.clock.advance(scene.boot_ns), Tick(T0.cast_unsigned()));
            scene.pass(1000);
            for _ in 0..bad_samples {
                scene.wall += 100;
                scene.boot_ns += 100_000_000;
                scene.events.extend(scene.clock.sample(reading(scene.wall, bad), true));
                scene.clock.advance(bad);
                assert!((-100..=0).contains(&(scene.clock.at(0).0.cast_signed() - scene.wall)), "W pulls it on");
            }
            scene.clock.advance(scene.boot_ns);
            scene.pass(1000);
            assert!((0..=600).contains(&scene.ahead()), "{}", scene.ahead());
            assert_eq!(scene.clock.jumps(), 0);
        }
    }
}

#[test]
fn readings_that_overtake_each_other_do_not_turn_r_back() {
    let mut scene = Scene::running(T0);
    scene.pass(1000);
    let late = scene.clock.advance(scene.boot_ns + 40_000_000);
    assert_eq!(scene.clock.advance(scene.boot_ns + 10_000_000), late);
    scene.sample();
    assert!(scene.clock.at(0) >= late);
    scene.pass(1000).expect(&[]);
    assert!((0..=1).contains(&scene.ahead()));
}

#[test]
fn before_the_first_id_r_follows_both_ways() {
    // Booted at 2100, corrected ten seconds later.
    let wrong = 75 * 365 * DAY;
    let mut scene = Scene::start(T0 + wrong, None);
    scene.pass(10_000);
    assert_eq!(scene.ahead(), 0);
    scene.step_wall(-wrong).pass(100);
    assert_eq!(scene.ahead(), 0);
    scene.expect(&[ClockEvent::FollowedBeforeFirstId { by_ms: -wrong }]);
    scene.step_wall(2 * HOUR).pass(100);
    assert_eq!(scene.ahead(), 0);
    scene.expect(&[ClockEvent::FollowedBeforeFirstId { by_ms: 2 * HOUR }]);
    assert_eq!((scene.clock.rollbacks(), scene.clock.jumps()), (0, 0));
}

#[test]
fn before_the_first_id_r_does_not_go_below_the_last_life() {
    let mut scene = Scene::start(T0 - HOUR, Some((T0 + 3000, T0)));
    assert_eq!(scene.r(), T0);
    scene.pass(10_000);
    assert_eq!(scene.r(), T0 + 9000, "set back while down: 90 %");
    scene.expect(&[ClockEvent::SetBack { by_ms: 3_599_989 }]);
}

#[test]
fn set_back_while_down_catches_up() {
    let mut scene = Scene::start(T0 - MIN, Some((T0 + 3000, T0)));
    scene.pass(11 * MIN);
    assert!((0..=1).contains(&scene.ahead()), "{}", scene.ahead());
    assert!(matches!(scene.events[..], [ClockEvent::SetBack { .. }, ClockEvent::CaughtUp]), "{:?}", scene.events);
}

#[test]
fn an_absurd_clock_at_start_is_a_fault_until_it_is_sane() {
    let unix_epoch = -Tick(0).unix_ms(Epoch::DEFAULT);
    for (wall, found) in [
        (unix_epoch, None),
        (-MIN, None),
        (-MIN, Some((0, 0))),
        (Tick::LAST.0.cast_signed() + 1, None),
        (Tick::LAST.0.cast_signed() + 1, Some((T0, T0))),
        (i64::MAX / 2, None),
        (T0 + 401 * DAY, Some((T0, T0))),
    ] {
        let mut scene = Scene::start(wall, found);
        assert!(scene.clock.fault().is_some());
        scene.pass(10_000);
        assert!(matches!(scene.events[..], [ClockEvent::Fault(_)]), "once, not per sample: {:?}", scene.events);
        scene.wall = T0 + DAY;
        scene.pass(100);
        assert!(matches!(scene.events[1..], [ClockEvent::FaultOver]), "{:?}", scene.events);
        assert_eq!((scene.ahead(), scene.clock.fault()), (0, None));
    }
}

#[test]
fn sane_clocks_at_start() {
    for (wall, found) in [
        (0, None),
        (Tick::LAST.0.cast_signed() - DAY, None),
        // A record with no ID so far counts as no record.
        (Tick::LAST.0.cast_signed() - DAY, Some((0, 0))),
        (T0 + 400 * DAY, Some((T0, T0))),
        // The last life gave its last ID long ago, and ended yesterday, as an unused spare server does.
        (T0 + 800 * DAY, Some((T0, T0 + 799 * DAY))),
        (-1, Some((T0, T0))),
        (-Tick(0).unix_ms(Epoch::DEFAULT), Some((T0, T0))),
        (i64::MIN / 2, Some((T0, T0))),
    ] {
        let mut scene = Scene::start(wall, found);
        scene.pass(1000);
        assert_eq!(scene.clock.fault(), None, "{wall} {found:?}");
        assert!(scene.r() >= found.map_or(0, |(_, r)| r));
    }
}

#[test]
fn an_idle_server_that_is_up_for_years_is_not_absurd() {
    let mut scene = Scene::start(T0, Some((T0, T0)));
    for _ in 0..900 {
        scene.sleep(DAY).pass(100);
    }
    assert_eq!((scene.ahead(), scene.clock.fault()), (0, None));
}

#[test]
fn a_running_server_whose_clock_passes_the_end_refuses_and_recovers() {
    let mut scene = Scene::running(T0);
    let far = Tick::END.0.cast_signed();
    scene.pass(1000).step_wall(far).pass(1000);
    assert!(matches!(scene.clock.fault(), Some(ClockFault::PastEnd { .. })));
    scene.step_wall(-far).pass(1000);
    assert_eq!((scene.ahead(), scene.clock.fault()), (0, None));
    assert!(matches!(scene.events[..], [ClockEvent::Fault(_), ClockEvent::FaultOver]));
}

#[test]
fn no_reading_overflows() {
    let mut rng = Random(9);
    for round in 0..2000 {
        let any = |rng: &mut Random| match rng.below(5) {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => rng.next().cast_signed(),
            3 => 1_420_041_600_000 + rng.below(Tick::END.0).cast_signed(),
            _ => 1_767_196_800_000,
        };
        let boot = |rng: &mut Random| match rng.below(4) {
            0 => u64::MAX,
            1 => 0,
            2 => rng.next(),
            _ => 1_000_000_000,
        };
        let found = (round % 2 == 0).then(|| SavePoint {
            watermark: Tick(rng.below(Tick::END.0 + 1)),
            reference: Tick(rng.below(Tick::END.0 + 1)),
            max_borrow_ms: 0,
        });
        let first = Reading { wall_unix_ms: any(&mut rng), boot_ns: boot(&mut rng) };
        let mut clock = ReferenceClock::new(Epoch::DEFAULT, rng.below(2) * 3_600_000, found, first);
        let mut last = Tick(0);
        for _ in 0..20 {
            let reading = Reading { wall_unix_ms: any(&mut rng), boot_ns: boot(&mut rng) };
            for event in clock.sample(reading, true) {
                assert!(!event.to_string().is_empty());
            }
            let now = clock.advance(boot(&mut rng));
            assert!(now >= last && now <= Tick::END);
            clock.boot_ns_at(Tick(rng.below(Tick::END.0)));
            last = now;
        }
    }
}

#[test]
fn the_time_for_a_tick_is_when_r_gets_there() {
    let mut rng = Random(4);
    for _ in 0..2000 {
        let mut scene = Scene::running(T0);
        scene.pass(300).step_wall(-rng.below(3000).cast_signed()).pass(300);
        let tick = Tick(scene.clock.at(0).0 + rng.below(10_000));
        let at_ns = scene.clock.boot_ns_at(tick);
        assert!(scene.clock.at(at_ns + 2) >= tick);
        if at_ns > scene.boot_ns + 2_000_000 {
            assert!(scene.clock.at(at_ns - 1_000_000) < tick);
        }
    }
}

/// The mutation: without the slew, R goes back.
#[test]
fn without_the_slew_r_goes_back() {
    let mut scene = Scene::running(T0);
    scene.pass(1000);
    let r = scene.r();
    let _planted = plant(Fault::NoSlew);
    scene.clock.sample(reading(scene.wall - 60_000, scene.boot_ns), true);
    assert!(scene.r() < r - 59_000);
}

#[test]
fn events_read_well() {
    for (event, text) in [
        (
            ClockEvent::SetBack { by_ms: 5000 },
            "clock is 5000 ms behind the ids: ids continue at 90 % of real speed until it has caught up",
        ),
        (
            ClockEvent::JumpHeld { by_ms: 7_200_000, too_far: false },
            "clock jumped ahead by 7200000 ms, more than id-max-clock-jump-ms: ids follow if it stays so for 10 minutes",
        ),
        (
            ClockEvent::JumpHeld { by_ms: 34_646_400_000, too_far: true },
            "clock jumped ahead by 34646400000 ms, more than 400 days: ids do not follow; set the clock right",
        ),
        (
            ClockEvent::Fault(ClockFault::BeforeEpoch { wall_unix_ms: 0, epoch_unix_ms: 1_420_041_600_000 }),
            "no ids: clock reads 1970-01-01T00:00:00.000Z, before the epoch, 2014-12-31T16:00:00.000Z",
        ),
    ] {
        assert_eq!(event.to_string(), text);
    }
}

#[test]
fn sane_at_once() {
    for (wall, found) in [(0, None), (Tick::LAST.0.cast_signed(), None)] {
        assert_eq!(Scene::start(wall, found).clock.fault(), None, "{wall}");
    }
}

#[test]
fn notice_is_128_ms() {
    for (by, given) in [(127, true), (128, true), (127, false), (128, false)] {
        let mut scene = Scene::start(T0, None);
        scene.given = given;
        scene.pass(1000).step_wall(by).pass(100);
        let event = if given {
            ClockEvent::JumpFollowed { by_ms: 128 }
        } else {
            ClockEvent::FollowedBeforeFirstId { by_ms: 128 }
        };
        scene.expect(if by == 128 { std::slice::from_ref(&event) } else { &[] });
    }
}

#[test]
fn a_held_jump_that_moves_by_a_second_stands_and_by_more_than_the_limit_is_another() {
    for (by, follows) in [(1000, true), (1001, false)] {
        let mut scene = Scene::running(T0);
        scene.pass(1000).step_wall(2 * HOUR).pass(9 * MIN).step_wall(by).pass(2 * MIN);
        assert_eq!(scene.ahead() == 0, follows, "{by}");
    }
    for (by, jumps) in [(HOUR, 1), (HOUR + 1, 2)] {
        let mut scene = Scene::running(T0);
        scene.pass(1000).step_wall(2 * HOUR).pass(1000).step_wall(by).pass(1000);
        assert_eq!((scene.events.len() as u64, scene.clock.jumps()), (jumps, jumps), "{by}");
    }
}

#[test]
fn a_fault_ends_a_held_jump() {
    let mut scene = Scene::running(T0);
    let far = Tick::END.0.cast_signed();
    scene.pass(1000).step_wall(2 * HOUR).pass(9 * MIN).step_wall(far).pass(100).step_wall(-far).pass(2 * MIN);
    assert_eq!(scene.ahead(), -2 * HOUR, "its ten minutes start again");
}

#[test]
fn a_held_jump_that_shrinks_is_reported() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(2 * HOUR).pass(1000).step_wall(-HOUR).pass(100);
    let by_ms = (2 * HOUR).cast_unsigned();
    scene.expect(&[
        ClockEvent::JumpHeld { by_ms, too_far: false },
        ClockEvent::JumpTakenBack { by_ms },
        ClockEvent::JumpFollowed { by_ms: by_ms / 2 },
    ]);
}

#[test]
fn ahead_ends_the_slew() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(-MIN).pass(1000).step_wall(2 * MIN).pass(100).sleep(60);
    assert_eq!(scene.ahead(), 0);
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(-MIN).pass(1000).step_wall(2 * HOUR).pass(100);
    let ahead = scene.ahead();
    scene.pass(1000);
    assert_eq!(scene.ahead(), ahead, "at real speed while a jump is held");
}

#[test]
fn a_second_smaller_set_back_is_reported() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(-MIN).pass(5 * MIN).step_wall(-1000).pass(100);
    assert_eq!((scene.events.len(), scene.clock.rollbacks()), (2, 2));
}

#[test]
fn offset_is_known_at_once() {
    assert_eq!(Scene::start(T0 - HOUR, Some((T0, T0))).clock.offset_ms(), -HOUR);
}

#[test]
fn no_boot_reading_at_start_nor_at_the_first_sample() {
    let mut clock = ReferenceClock::new(Epoch::DEFAULT, 3_600_000, None, reading(T0, 0));
    clock.sample(reading(T0 + 100, 0), true);
    assert_eq!(clock.advance(77_000_000_000_000).0.cast_signed(), T0 + 100);
}

#[test]
fn time_of_failed_readings_is_made_good() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(2 * HOUR).pass(100);
    let ahead = scene.ahead();
    scene.wall += 400;
    scene.boot_ns += 400_000_000;
    scene.clock.sample(reading(scene.wall, 0), true);
    scene.pass(100);
    assert_eq!(scene.ahead(), ahead);
}

#[test]
fn two_bad_readings_far_apart_are_not_one_clock() {
    let mut scene = Scene::running(T0);
    scene.boot_ns += 3_000_000_000_000_000;
    scene.pass(1000);
    let ahead = scene.ahead();
    for bad in [1_000_000_000, 60_000_000_000] {
        scene.clock.sample(reading(scene.wall, bad), true);
        scene.pass(1000);
    }
    assert!((scene.ahead() - ahead).abs() <= 1000, "{} {ahead}", scene.ahead());
}

#[test]
fn back_is_believed_after_a_second() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(2 * HOUR).pass(100);
    scene.boot_ns -= 3_000_000_000;
    scene.sample();
    let r = scene.r();
    scene.pass(900);
    assert_eq!(scene.r(), r);
    scene.pass(100);
    scene.pass(100);
    assert_eq!(scene.r(), r + 100);
}

#[test]
fn exactly_a_second_back_is_an_overtaking() {
    let mut scene = Scene::running(T0);
    scene.pass(2000).step_wall(2 * HOUR).pass(100);
    let ahead = scene.ahead();
    let boot_ns = scene.boot_ns;
    scene.clock.sample(reading(scene.wall, boot_ns - 1_000_000_000), true);
    assert_eq!(scene.ahead(), ahead);
}

#[test]
fn text_of_far_past_record() {
    let text = ClockFault::FarPastRecord { wall_unix_ms: 0, record_unix_ms: 0 }.to_string();
    assert!(text.contains("more than 400 days past"), "{text}");
}

#[test]
fn set_back_notice_to_the_ns() {
    let mut scene = Scene::running(T0);
    scene.pass(1000).step_wall(-128);
    scene.boot_ns += 999_999;
    scene.pass(100).expect(&[ClockEvent::SetBack { by_ms: 128 }]);
}

#[test]
fn a_slew_ends_under_a_fault_too() {
    let mut scene = Scene::running(T0);
    let far = Tick::END.0.cast_signed();
    scene.pass(1000).step_wall(-1000).pass(100);
    scene.step_wall(far).pass(60_000).step_wall(-far);
    assert!((0..=1).contains(&scene.ahead()), "{}", scene.ahead());
}
