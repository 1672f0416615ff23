//! The mint's policy, scene by scene: starts, the watermark ahead of need, the borrow limit, failing saves, the last
//! act.

use std::sync::Arc;

use getid_core::{
    Blocked, BorrowPolicy, ClockEvent, Epoch, Layout, Limits, Mint, Overload, Reading, Refusal, Reservation, SavePoint,
    Slot, Tick,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
/// 2026-01-01, in ticks.
const T0: u64 = 347_155_200_000;
const HOUR: u64 = 3_600_000;

/// A mint, its clocks, and a disk whose syncs take `sync_ms`.
pub(crate) struct Scene {
    pub(crate) mint: Mint,
    pub(crate) wall: i64,
    pub(crate) boot_ns: u64,
    pub(crate) sync_ms: u64,
    pub(crate) flight: Option<(SavePoint, u64)>,
    pub(crate) disk: Option<SavePoint>,
    pub(crate) saves: u64,
    pub(crate) events: Vec<ClockEvent>,
}

impl Scene {
    pub(crate) fn start(found: Option<SavePoint>, limits: Limits) -> Scene {
        Scene::start_at(T0.cast_signed(), found, Layout::default(), limits)
    }

    pub(crate) fn start_at(wall: i64, found: Option<SavePoint>, layout: Layout, limits: Limits) -> Scene {
        let boot_ns = 1_000_000_000;
        let mint = Mint::new(layout, limits, found, reading(wall, boot_ns));
        let mut scene = Scene { mint, wall, boot_ns, sync_ms: 5, flight: None, disk: found, saves: 0, events: vec![] };
        scene.keep();
        scene
    }

    /// Returns a server that has long been running, without load.
    pub(crate) fn running(limits: Limits) -> Scene {
        let mut scene = Scene::start(None, limits);
        scene.pass(10).one().expect("served");
        scene.pass(5000).one().expect("served");
        scene
    }

    /// Lets real time pass, ms by ms; the keeper runs every 100 ms.
    pub(crate) fn pass(&mut self, ms: u64) -> &mut Scene {
        for _ in 0..ms {
            self.wall += 1;
            self.boot_ns += MS;
            self.land();
            if self.boot_ns.is_multiple_of(100 * MS) {
                self.keep();
            }
        }
        self
    }

    pub(crate) fn land(&mut self) {
        if let Some((point, at)) = self.flight
            && at <= self.boot_ns
        {
            self.disk = Some(point);
            self.flight = None;
            self.mint.saved(point);
        }
    }

    pub(crate) fn keep(&mut self) {
        self.events.extend(self.mint.sample(reading(self.wall, self.boot_ns)));
        self.save();
    }

    pub(crate) fn save(&mut self) {
        if let Some(point) = self.mint.due_save(self.boot_ns) {
            self.saves += 1;
            self.flight = Some((point, self.boot_ns + self.sync_ms * MS));
        }
    }

    pub(crate) fn draw(&mut self, n: u32) -> Result<Reservation, Blocked> {
        let drawn = self.mint.draw(self.boot_ns, n, false);
        if self.mint.is_save_due() {
            self.save();
        }
        drawn
    }

    pub(crate) fn one(&mut self) -> Result<Reservation, Blocked> {
        self.draw(1)
    }

    pub(crate) fn r(&self) -> u64 {
        self.mint.status(self.boot_ns).reference.0
    }

    pub(crate) fn position(&self) -> u64 {
        self.mint.status(self.boot_ns).position.0
    }

    pub(crate) fn watermark(&self) -> u64 {
        self.mint.status(self.boot_ns).watermark.0
    }
}

fn reading(wall: i64, boot_ns: u64) -> Reading {
    Reading { wall_unix_ms: wall + Tick(0).unix_ms(Epoch::DEFAULT), boot_ns }
}

fn point(watermark: u64, reference: u64) -> SavePoint {
    SavePoint { watermark: Tick(watermark), reference: Tick(reference), max_borrow_ms: 3000 }
}

fn tick_of(reservation: Reservation) -> u64 {
    reservation.first.tick(9).0
}

const ERROR: Limits =
    Limits { max_borrow_ms: 3000, lead_ms: 3000, max_clock_jump_ms: 3_600_000, policy: BorrowPolicy::Error };

#[test]
fn no_id_before_the_first_save() {
    let mut scene = Scene::start(Some(point(T0, T0)), Limits::default());
    assert_eq!(scene.flight, Some((point(T0 + 3200, T0), scene.boot_ns + 5 * MS)));
    scene.pass(4);
    assert_eq!(scene.one(), Err(Blocked::Watermark));
    scene.pass(1).one().expect("served");
}

#[test]
fn a_start_without_a_record_begins_past_what_a_lost_run_gave() {
    let mut scene = Scene::start(None, Limits::default());
    assert_eq!(scene.position(), T0 + 3000);
    scene.pass(6);
    assert_eq!(scene.disk, Some(point(T0 + 3200, T0)));
    let first = scene.one().expect("ids come at once");
    assert_eq!(tick_of(first), T0 + 3000);
    // At the layout's rate, and no faster.
    let mut given = 1;
    for _ in 0..1000 {
        while let Ok(some) = scene.draw(100) {
            given += u64::from(some.len);
        }
        scene.pass(1);
    }
    assert!((512_000..=516_000).contains(&given), "{given}");
    // R catches up within B.
    scene.pass(3000);
    assert!(scene.position() <= scene.r() + 1001);
}

/// The record may be older than the last IDs, and another may be newer: P = max(watermark, R + B) in each case.
#[test]
fn a_start_with_a_record_begins_past_what_anybody_gave_by_a_right_clock() {
    for (found, first) in [
        // A crash during borrowing, and an instant restart.
        (point(T0 + 2500, T0 - 100), T0 + 3000),
        // At the borrow limit.
        (point(T0 + 3004, T0), T0 + 3004),
        // A clean stop a moment ago.
        (point(T0, T0), T0 + 3000),
        // A crash long ago, or a folder that was restored.
        (point(T0 - HOUR, T0 - HOUR - 3000), T0 + 3000),
        // A record a day ahead of the clock: R starts there.
        (point(T0 + 24 * HOUR, T0 + 24 * HOUR), T0 + 24 * HOUR + 3000),
        // The B of the last life was larger, or smaller.
        (SavePoint { max_borrow_ms: 10_000, ..point(T0, T0) }, T0 + 10_000),
        (SavePoint { max_borrow_ms: 100, ..point(T0, T0) }, T0 + 3000),
        (SavePoint { max_borrow_ms: 0, ..point(T0, T0) }, T0 + 3000),
    ] {
        let mut scene = Scene::start(Some(found), Limits::default());
        scene.pass(6);
        assert_eq!(tick_of(scene.one().expect("no wait")), first, "{found:?}");
    }
}

/// A life that finds a larger B than the configured one begins with it, gives IDs at once, and the B comes down once it
/// is passed.
#[test]
fn a_larger_b_of_the_record_is_the_limit_until_it_is_passed() {
    let found = SavePoint { max_borrow_ms: 10_000, ..point(T0, T0) };
    let mut scene = Scene::start(Some(found), Limits::default());
    for ms in 0..30_000 {
        scene.pass(1);
        if ms > 6 {
            // IDs beyond the start in its first seven seconds, 14 ms worth, cause one wait.
            assert!(scene.one().is_ok() || (6990..7020).contains(&ms), "{ms}");
        }
        let status = scene.mint.status(scene.boot_ns);
        assert_eq!(status.max_borrow_ms, if status.reference.0 < T0 + 7000 { 10_000 } else { 3000 }, "{status:?}");
        if let Some(disk) = scene.disk.filter(|disk| *disk != found) {
            assert!(disk.reference.0 + disk.max_borrow_ms >= T0 + 10_000, "{disk:?}");
            assert!(disk.max_borrow_ms >= status.max_borrow_ms.min(3000));
        }
    }
    assert_eq!(scene.disk.map(|disk| disk.max_borrow_ms), Some(3000), "no later life begins 10 s ahead");
}

/// R is where the last life left it, idle or not: P does not slip below R + B while the clock is behind.
#[test]
fn a_start_behind_the_record_does_not_slip_while_no_id_is_drawn() {
    for idle_ms in [10, 1000, 2000, 3000, 3300, 10_000] {
        let found = point(T0 + HOUR, T0 + HOUR);
        let mut scene = Scene::start(Some(found), Limits::default());
        scene.pass(idle_ms);
        let first = tick_of(scene.one().expect("no wait"));
        assert!(first >= T0 + HOUR + 3000, "{first}, idle for {idle_ms} ms");
    }
}

#[test]
fn a_crash_at_the_borrow_limit_costs_200_ms_at_most() {
    let mut scene = Scene::start(Some(point(T0 + 3200, T0)), Limits::default());
    scene.pass(10);
    assert!(matches!(scene.one(), Err(Blocked::Borrow { .. })));
    scene.pass(192).one().expect("served");
}

#[test]
fn restarts_in_a_loop_stay_with_the_clock() {
    let mut scene = Scene::start(None, Limits::default());
    for _ in 0..100 {
        scene.pass(100);
        // As many IDs as possible, then kill -9.
        while scene.draw(1000).is_ok() {}
        assert!(scene.watermark() <= scene.r() + 3200);
        let (wall, found) = (scene.wall, scene.disk);
        scene = Scene::start_at(wall, found, Layout::default(), Limits::default());
    }
    assert_eq!(scene.r(), T0 + 10_000);
    scene.pass(201).one().expect("served");
}

#[test]
fn one_write_a_second_when_busy_and_fewer_when_idle() {
    let mut scene = Scene::running(Limits::default());
    scene.saves = 0;
    for _ in 0..60_000 {
        scene.one().expect("no wait for a healthy disk");
        scene.pass(1);
    }
    assert!((50..=61).contains(&scene.saves), "{} in a busy minute", scene.saves);
    scene.saves = 0;
    for _ in 0..60_000 {
        scene.pass(1);
        assert!(scene.watermark() > scene.r() + 1000, "ahead while idle too");
    }
    assert!((25..=45).contains(&scene.saves), "{} in an idle minute", scene.saves);
    scene.pass(HOUR);
    scene.one().expect("the first after a quiet hour");
}

#[test]
fn a_sync_of_300_ms_delays_no_draw() {
    // Twice the layout's rate, until the borrow limit is near.
    let mut scene = Scene::running(Limits::default());
    scene.sync_ms = 300;
    for _ in 0..20 {
        scene.pass(5000);
        for _ in 0..2200 {
            assert_eq!(scene.draw(1024).map(|some| some.len), Ok(1024));
            scene.pass(1);
        }
    }
}

#[test]
fn at_the_borrow_limit_saves_are_100_ms_apart_and_the_rate_is_the_layouts() {
    for sync_ms in [5, 300] {
        let mut scene = Scene::running(Limits::default());
        scene.sync_ms = sync_ms;
        while scene.draw(5000).is_ok() {}
        scene.pass(5000);
        while scene.draw(5000).is_ok() {}
        scene.saves = 0;
        let (mut given, before) = (0, scene.boot_ns);
        for _ in 0..10_000 {
            while let Ok(some) = scene.draw(100) {
                given += u64::from(some.len);
            }
            scene.pass(1);
        }
        let ms = (scene.boot_ns - before) / MS;
        assert!(given >= ms * 512 * 98 / 100 - 300 * 512, "{given} in {ms} ms, sync {sync_ms} ms");
        assert!(scene.saves <= 101, "{} saves in 10 s", scene.saves);
    }
}

#[test]
fn after_a_suspend_one_sync_is_waited_for() {
    let mut scene = Scene::running(Limits::default());
    scene.wall += HOUR.cast_signed();
    scene.boot_ns += HOUR * MS;
    assert_eq!(scene.one(), Err(Blocked::Watermark));
    scene.save();
    scene.pass(5).one().expect("one sync later");
}

#[test]
fn a_draw_larger_than_half_the_limit_comes_in_pieces() {
    let mut scene = Scene::running(Limits::default());
    scene.pass(1000);
    let first = scene.draw(10_000_000).expect("a piece");
    assert_eq!(first.len, 1500 * 512);
    let (mut given, mut next) = (first.len, first.first.0 + u64::from(first.len));
    let mut ms = 0;
    while given < 10_000_000 {
        match scene.mint.draw(scene.boot_ns, 10_000_000 - given, true) {
            Ok(piece) => {
                assert!(piece.first.0 >= next, "ascending");
                next = piece.first.0 + u64::from(piece.len);
                given += piece.len;
            }
            Err(Blocked::Watermark | Blocked::Borrow { .. }) => {
                scene.save();
                scene.pass(1);
                ms += 1;
            }
            Err(refused) => panic!("{refused:?}"),
        }
    }
    assert!(ms < 17_100, "the layout's rate: {ms} ms");
}

/// A server saves and serves before its keeper takes the first sample.
#[test]
fn a_life_needs_no_sample_to_begin() {
    let boot_ns = 1_000_000_000;
    let longer = SavePoint { max_borrow_ms: 10_000, ..point(T0, T0) };
    for (found, first) in
        [(None, T0 + 3000), (Some(point(T0 - HOUR, T0 - HOUR)), T0 + 3000), (Some(longer), T0 + 10_000)]
    {
        let mut mint = Mint::new(Layout::default(), Limits::default(), found, reading(T0.cast_signed(), boot_ns));
        let wanted = mint.due_save(boot_ns).expect("a first save");
        mint.saved(wanted);
        let drawn = mint.draw(boot_ns + MS, 1, false).expect("room for one");
        assert_eq!(tick_of(drawn), first, "{found:?}");
    }
}

/// A claim is retaken before the first ID: both records are bounds, for draws and at a clean stop.
#[test]
fn two_records_of_a_life_without_an_id_both_hold() {
    let one = SavePoint { max_borrow_ms: 5000, ..point(T0 + 20_000, T0 - 200) };
    let other = SavePoint { max_borrow_ms: 4000, ..point(T0 + 10_000, T0 - 100) };
    for (first, second) in [(one, other), (other, one)] {
        let mut scene = Scene::start(Some(first), Limits::default());
        scene.flight = None;
        scene.mint.claim_retaken(scene.boot_ns, Some(second), Arc::from("retaken"));
        assert_eq!(scene.position(), T0 + 20_000);
        scene.keep();
        assert_eq!(scene.position(), T0 + 20_000, "after a sample");
        let both = SavePoint { max_borrow_ms: 5000, ..point(T0 + 20_000, T0 - 100) };
        assert_eq!(scene.mint.close(), Some(both));
    }
}

#[test]
fn a_record_with_numbers_out_of_range_ends_nothing_but_the_ids() {
    let all = SavePoint { watermark: Tick(u64::MAX), reference: Tick(u64::MAX), max_borrow_ms: u64::MAX };
    let borrow = SavePoint { max_borrow_ms: u64::MAX, ..point(T0, T0) };
    let mut scene = Scene::start(Some(borrow), Limits::default());
    assert_eq!(scene.mint.start_max_borrow_ms(), 1 << 40);
    scene.flight = None;
    scene.mint.claim_retaken(scene.boot_ns, Some(all), Arc::from("retaken"));
    assert_eq!(scene.mint.start_max_borrow_ms(), 1 << 40);
    assert_eq!(scene.watermark(), Tick::END.0);
    let mut scene = Scene::start(Some(all), Limits::default());
    assert_eq!(scene.position(), Tick::END.0);
    assert!(matches!(scene.pass(6).one(), Err(Blocked::Refused(Refusal::EndOfTime { .. }))));
}

/// The highest borrow counts the last ID of a draw, however it was drawn.
#[test]
fn the_highest_borrow_is_that_of_the_last_id() {
    for rest in [false, true] {
        let mut scene = Scene::start(None, Limits::default());
        scene.pass(6);
        let (boot_ns, ahead_ms) = (scene.boot_ns, T0 + 3000 - scene.r());
        let drawn = scene.mint.draw(boot_ns, 1024, rest);
        assert_eq!(drawn.expect("two ms of room").len, 1024);
        assert_eq!(scene.mint.status(boot_ns).highest_borrow_ms, ahead_ms + 1);
    }
}

#[test]
fn a_draw_of_one_more_than_half_the_limit_is_cut() {
    let mut scene = Scene::running(Limits::default());
    scene.pass(1000);
    let piece_max = scene.mint.piece_max();
    assert_eq!(piece_max, 1500 * 512);
    let drawn = scene.draw(piece_max + 1).expect("a piece");
    assert_eq!(drawn.len, piece_max);
}

#[test]
fn a_wait_lasts_for_several_slots() {
    let layout = Layout::new(Epoch::DEFAULT, 2, 0, 19).expect("adds up");
    let mut scene = Scene::start_at(T0.cast_signed(), None, layout, Limits::default());
    scene.pass(10);
    while scene.draw(5000).is_ok() {}
    scene.pass(10);
    let (mut wakes, mut given) = (0, 0);
    while given < 1000 {
        match scene.mint.draw(scene.boot_ns, 1000 - given, true) {
            Ok(piece) => given += piece.len,
            Err(Blocked::Borrow { until_boot_ns }) => {
                wakes += 1;
                scene.pass((until_boot_ns - scene.boot_ns).div_ceil(MS));
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(wakes <= 101, "{wakes} wakes for 1000 ids");
    // The wait for one ID is no longer than it must be.
    assert_eq!(scene.one(), Err(Blocked::Borrow { until_boot_ns: scene.boot_ns + MS }));
}

/// Ten ms worth of slots at once, whatever a ms holds, and less if less is missing.
#[test]
fn a_large_draw_at_the_borrow_limit_comes_again_every_ten_ms() {
    let mut scene = Scene::start(None, Limits::default());
    // Right at the start the position is at the limit.
    for (n, ms) in [(1, 1), (512, 1), (513, 2), (5120, 10), (5121, 10), (50_000, 10)] {
        let until_boot_ns = scene.boot_ns + ms * MS;
        assert_eq!(scene.draw(n), Err(Blocked::Borrow { until_boot_ns }), "{n}");
        assert_eq!(scene.mint.late_ms(scene.boot_ns), 0, "the first free slot is the next within the limit");
    }
}

#[test]
fn how_late_the_first_free_slot_is() {
    let scene = Scene::start(Some(point(T0 + 10_000, T0)), Limits::default());
    assert_eq!(scene.mint.late_ms(scene.boot_ns), 7000);
    assert_eq!(scene.mint.late_ms(scene.boot_ns + 6999 * MS), 1);
    assert_eq!(scene.mint.late_ms(scene.boot_ns + 7000 * MS), 0);
}

/// If only a save is missing, a draw that fits below the borrow limit waits for it, whatever the policy.
#[test]
fn policy_error_refuses_what_does_not_fit_and_nothing_else() {
    let mut scene = Scene::start(None, ERROR);
    scene.pass(1);
    assert_eq!(scene.draw(512), Err(Blocked::Watermark), "to the last slot below the limit");
    for (n, ahead_ms) in [(513, 3000), (1024, 3000), (1025, 3001)] {
        let busy = Refusal::Busy { ahead_ms, max_borrow_ms: 3000 };
        assert_eq!(scene.draw(n), Err(Blocked::Refused(busy)), "{n}");
    }
}

#[test]
fn policy_error_returns_busy_and_uses_no_slot() {
    let mut scene = Scene::running(ERROR);
    loop {
        match scene.draw(512) {
            Ok(_) => {}
            Err(Blocked::Watermark) => {
                scene.save();
                scene.pass(1);
            }
            Err(_) => break,
        }
    }
    while scene.one().is_ok() {}
    let Err(Blocked::Refused(refusal)) = scene.one() else { panic!("not busy") };
    assert_eq!(refusal.to_string(), "BUSY ids are 3000 ms ahead of the clock; id-max-borrow-ms allows 3000");
    let issued = scene.mint.status(scene.boot_ns).ids_issued;
    scene.pass(1);
    let Err(Blocked::Refused(Refusal::Busy { ahead_ms: 3000, .. })) = scene.draw(1000) else { panic!("not busy") };
    assert_eq!(scene.mint.status(scene.boot_ns).ids_issued, issued, "not a part of it");
    assert_eq!(scene.draw(512).expect("fits").len, 512);
    // A draw that has begun waits, whatever the policy: otherwise its first IDs are lost.
    assert!(matches!(scene.mint.draw(scene.boot_ns, 10, true), Err(Blocked::Borrow { .. })));
    assert!(scene.mint.status(scene.boot_ns).refusals >= 3);
}

#[test]
fn a_failing_disk_lets_ids_go_on_up_to_the_watermark() {
    let mut scene = Scene::running(Limits::default());
    scene.sync_ms = u64::MAX / MS / 2;
    while scene.flight.is_none() {
        scene.pass(1).one().expect("served");
    }
    let error: Arc<str> = Arc::from("No space left on device (os error 28)");
    scene.flight = None;
    scene.mint.save_failed(Arc::clone(&error));
    let watermark = scene.watermark();
    let mut tries = 0;
    while scene.r() < watermark {
        assert!(tick_of(scene.one().expect("up to the watermark")) < watermark);
        scene.pass(1);
        if scene.flight.take().is_some() {
            tries += 1;
            scene.mint.save_failed(Arc::clone(&error));
        }
    }
    assert!((3..=9).contains(&tries), "{tries} tries in two seconds");
    let Err(Blocked::Refused(refusal)) = scene.one() else { panic!("not refused") };
    assert_eq!(refusal.to_string(), "MISCONF state can't be saved: No space left on device (os error 28)");
    scene.sync_ms = 5;
    scene.pass(400).one().expect("by itself, once a save works");
    assert_eq!(scene.mint.status(scene.boot_ns).save_error, None);
}

/// The time of the next try is on the clock that went back, and would arrive only with it.
#[test]
fn a_failed_save_is_tried_again_although_the_boot_time_clock_went_back() {
    let mut scene = Scene::running(Limits::default());
    scene.pass(60_000).one().expect("served");
    scene.sync_ms = u64::MAX / MS / 2;
    while scene.flight.is_none() {
        scene.pass(1).one().expect("served");
    }
    scene.flight = None;
    scene.mint.save_failed(Arc::from("No space left on device (os error 28)"));
    scene.sync_ms = 5;
    scene.boot_ns -= 60_000 * MS;
    scene.pass(2000);
    assert_eq!(scene.mint.status(scene.boot_ns).save_error, None);
    scene.one().expect("served");
}

/// While a save with a smaller B than the disk's is under way, the smaller one is the limit: the next life may find it.
#[test]
fn a_limit_that_is_raised_while_a_smaller_one_is_being_saved_waits_for_the_disk() {
    let found = SavePoint { max_borrow_ms: 10_000, ..point(T0, T0) };
    let mut scene = Scene::start(Some(found), Limits::default());
    let limit = |scene: &Scene| scene.mint.status(scene.boot_ns).max_borrow_ms;
    scene.pass(20).one().expect("served");
    while scene.flight.is_none_or(|(point, _)| point.max_borrow_ms >= 8000) {
        scene.pass(1);
        assert!(scene.boot_ns < 60_000 * MS, "the inherited limit is never left behind");
    }
    let stored_ms = scene.flight.map_or(0, |(point, _)| point.max_borrow_ms);
    scene.mint.set_limits(Limits { max_borrow_ms: 8000, ..Limits::default() });
    assert!(limit(&scene) <= stored_ms, "{} ms, and the disk may hold {stored_ms}", limit(&scene));
    scene.pass(1000);
    assert_eq!((limit(&scene), scene.disk.map(|disk| disk.max_borrow_ms)), (8000, Some(8000)));
}

#[test]
fn a_lost_claim_stops_ids_until_a_save_works() {
    let mut scene = Scene::running(Limits { max_borrow_ms: 60_000, lead_ms: 60_000, ..Limits::default() });
    scene.pass(70_000);
    scene.flight = None;
    let saves = scene.saves;
    scene.mint.claim_lost(Arc::from("getid-0.lock is not the file that was opened"));
    let Err(Blocked::Refused(refusal)) = scene.one() else { panic!("not refused") };
    assert_eq!(refusal.to_string(), "MISCONF claim lost: getid-0.lock is not the file that was opened");
    // However far the watermark is ahead, only a save shows whether the claim is back.
    scene.pass(300);
    assert!(scene.saves > saves, "a save is wanted at once");
    scene.pass(200).one().expect("served again");
}

#[test]
fn a_clean_stop_stores_the_first_tick_without_an_id() {
    let mut scene = Scene::running(Limits::default());
    scene.pass(100);
    let last = tick_of(scene.draw(600).expect("served")) + 1;
    let stored = scene.mint.close().expect("sane clock");
    assert_eq!(stored, point(last + 1, scene.r()), "600 ids use a tick and a part of the next");
    assert_eq!(scene.one(), Err(Blocked::Refused(Refusal::Closed)));
    assert_eq!(scene.mint.due_save(scene.boot_ns), None);
    // The next life has another shard-range.
    let layout = Layout::new(Epoch::DEFAULT, 2, 3, 16).expect("adds up");
    let next = Scene::start_at(scene.wall - 10_000, Some(stored), layout, Limits::default());
    assert_eq!(next.position(), scene.r() + 3000, "set back while down: past R + B as it was");
    let mut next = Scene::start_at(scene.wall - 10_000, Some(point(last + 1, last - 3000)), layout, Limits::default());
    next.pass(6);
    assert_eq!(next.one().expect("served").first, Slot((last + 1) << 3), "at the borrow limit: right there");
}

/// A clock is wrong at boot, and the server stops before it is corrected: the next life finds what this one found.
#[test]
fn a_life_without_an_id_leaves_no_trace_at_a_clean_stop() {
    const YEARS: u64 = 74 * 365 * 24 * HOUR;
    let record = point(T0 - 5000, T0 - 8000);
    for (found, wrong) in [(None, YEARS), (Some(SavePoint::NOTHING), YEARS), (Some(record), YEARS / 100), (None, 10)] {
        let mut scene = Scene::start_at((T0 + wrong).cast_signed(), found, Layout::default(), Limits::default());
        for _ in 0..50 {
            scene.pass(100);
            let disk = scene.disk.expect("saved");
            assert!(disk.watermark.0 >= T0 + wrong + 3000, "while it runs, a kill may have come after an ID");
        }
        let killed = scene.disk;
        let stored = scene.mint.close();
        assert_eq!(stored, Some(found.unwrap_or(SavePoint::NOTHING)));
        assert_eq!(scene.mint.close(), stored, "called again");
        let mut next = Scene::start_at(T0.cast_signed(), stored, Layout::default(), Limits::default());
        next.pass(6);
        assert_eq!(tick_of(next.one().expect("served")), T0 + 3000);
        // After a kill, the record holds.
        let next = Scene::start_at(T0.cast_signed(), killed, Layout::default(), Limits::default());
        assert!(next.position() >= T0 + wrong);
    }
}

/// A life without an ID whose clock is out of all bounds when it stops; an untouched disk is not written.
#[test]
fn a_life_without_an_id_and_with_an_absurd_clock() {
    for found in [None, Some(point(T0, T0))] {
        let mut scene = Scene::start(found, Limits::default());
        scene.pass(1000);
        scene.wall = Tick::END.0.cast_signed();
        scene.keep();
        assert_eq!(scene.mint.close(), Some(found.unwrap_or(SavePoint::NOTHING)));
        let scene = Scene::start_at(Tick::END.0.cast_signed(), found, Layout::default(), Limits::default());
        assert_eq!(scene.mint.clone().close(), None);
    }
}

/// A serial number shows R, and a value of a sequence is given in its order. Both count as IDs for the clock, for the
/// record and for the last act, even without an ID of a generator.
#[test]
fn a_life_that_gave_serial_numbers_alone_keeps_its_time() {
    const YEAR: u64 = 365 * 24 * HOUR;
    for found in [None, Some(SavePoint::NOTHING), Some(point(T0 - 5000, T0 - 8000))] {
        for (is_stopped, back) in [(true, YEAR), (false, YEAR), (true, 10 * 1000)] {
            let mut scene = Scene::start(found, Limits::default());
            scene.pass(100);
            let shown = scene.mint.give_reference(scene.boot_ns).expect("the clock is right").0;
            scene.pass(5000);
            let shown = scene.mint.give_reference(scene.boot_ns).expect("the clock is right").0.max(shown);
            // In this life R continues.
            scene.wall -= back.cast_signed();
            scene.pass(2000);
            let later = scene.mint.give_reference(scene.boot_ns).expect("the clock is right").0;
            assert!(later >= shown + 1800, "{later} {shown}");
            let killed = scene.disk.expect("saved");
            assert!(killed.reference.0 + 2000 >= later, "the record is as young as with IDs: {killed:?} {later}");
            let stored = if is_stopped { scene.mint.close().expect("a point") } else { killed };
            assert!(!stored.is_nothing() && stored.watermark.0 >= T0 + 3000, "{stored:?}");
            // It continues in the next life too, with a clock that is still back.
            let mut next = Scene::start_at(scene.wall, Some(stored), Layout::default(), Limits::default());
            next.pass(10);
            let again = next.mint.give_reference(next.boot_ns).expect("the clock is right").0;
            let least = if is_stopped { later } else { killed.reference.0 };
            assert!(again >= least, "{again} {least}");
        }
    }
}

/// A clock out of all bounds gives no serial number, and such a request leaves no trace of it.
#[test]
fn an_absurd_clock_gives_no_time_to_show() {
    let absurd = (T0 + 500 * 24 * HOUR).cast_signed();
    let found = Some(point(T0 - 5000, T0 - 8000));
    let mut scene = Scene::start_at(absurd, found, Layout::default(), Limits::default());
    scene.pass(200);
    assert!(matches!(scene.mint.give_reference(scene.boot_ns), Err(Refusal::Clock(_))));
    scene.wall = T0.cast_signed();
    scene.pass(200);
    assert!(scene.mint.give_reference(scene.boot_ns).expect("right again").0 < T0 + 1000);
    assert!(tick_of(scene.pass(10).one().expect("served")) < T0 + 10_000);
}

/// In another epoch too, a record without IDs stays one.
#[test]
fn nothing_stays_nothing_in_another_epoch() {
    assert_eq!(SavePoint::NOTHING.in_earlier_epoch(HOUR), SavePoint::NOTHING);
    assert_eq!(point(7, 5).in_earlier_epoch(HOUR), point(7 + HOUR, 5 + HOUR));
}

#[test]
fn a_wrong_clock_at_boot_leaves_no_trace() {
    const YEARS: i64 = 74 * 365 * 24 * 3_600_000;
    for found in [None, Some(point(T0 - 5000, T0 - 8000))] {
        // With a record it must be within 400 days.
        let wrong = if found.is_some() { YEARS / 100 } else { YEARS };
        let mut scene = Scene::start_at(T0.cast_signed() + wrong, found, Layout::default(), Limits::default());
        scene.pass(10_000);
        assert!(scene.disk.expect("saved").watermark.0 > T0 + wrong.cast_unsigned());
        scene.wall -= wrong;
        scene.keep();
        assert!(scene.watermark() <= scene.wall.cast_unsigned() + 3200, "lowered before the save has even begun");
        assert_eq!(scene.one(), Err(Blocked::Watermark), "the disk has the times of the wrong clock");
        let first = tick_of(scene.pass(10).one().expect("served"));
        assert!(first < scene.watermark());
        let disk = scene.disk.expect("saved");
        assert!(
            disk.watermark.0 <= scene.wall.cast_unsigned() + 3200 && disk.reference.0 <= scene.wall.cast_unsigned()
        );
        assert!(first < disk.watermark.0);
        assert_eq!(scene.events.len(), 1, "{:?}", scene.events);
    }
}

/// The clock is corrected while the save of the wrong watermark is in flight: another save brings it down.
#[test]
fn a_wrong_watermark_in_flight_is_brought_down_too() {
    let mut scene = Scene::start_at((T0 + 1000 * HOUR).cast_signed(), None, Layout::default(), Limits::default());
    scene.wall = T0.cast_signed();
    scene.pass(4).keep();
    assert_eq!(scene.one(), Err(Blocked::Watermark));
    scene.pass(1);
    assert!(scene.disk.expect("saved").watermark.0 > T0 + 999 * HOUR);
    assert_eq!(scene.one(), Err(Blocked::Watermark), "not by a watermark that must come down");
    scene.pass(110).one().expect("served");
    assert!(scene.disk.expect("saved").watermark.0 < T0 + 3300);
}

/// A lowering save that fails may have reached the disk or not: no ID is given until one succeeds.
#[test]
fn no_id_before_a_lowering_save_succeeds() {
    let mut scene = Scene::start_at((T0 + 1000 * HOUR).cast_signed(), None, Layout::default(), Limits::default());
    scene.pass(1000);
    scene.wall = T0.cast_signed();
    scene.sync_ms = 10_000;
    scene.keep();
    let (lowered, _) = scene.flight.take().expect("a lowering save");
    scene.mint.save_failed(Arc::from("Input/output error (os error 5)"));
    assert!(matches!(scene.one(), Err(Blocked::Refused(Refusal::Save { .. }))));
    scene.sync_ms = 1;
    scene.pass(1000);
    let first = tick_of(scene.one().expect("served"));
    assert!(first < lowered.watermark.0 + 1000 && scene.disk.expect("saved").watermark.0 > first);
}

#[test]
fn an_absurd_clock_writes_nothing() {
    for (wall, found) in [
        (-1_000_000, None),
        (Tick::END.0.cast_signed(), None),
        ((T0 + 401 * 24 * HOUR).cast_signed(), Some(point(T0, T0))),
    ] {
        let mut scene = Scene::start_at(wall, found, Layout::default(), Limits::default());
        scene.pass(1000);
        assert_eq!((scene.saves, scene.disk), (0, found));
        let Err(Blocked::Refused(refusal)) = scene.one() else { panic!("not refused") };
        assert!(refusal.to_string().starts_with("MISCONF clock reads "), "{refusal}");
        assert_eq!(scene.mint.clone().close(), None);
        scene.wall = T0.cast_signed() + 10_000;
        scene.keep();
        scene.pass(10).one().expect("by itself, once it is sane");
    }
}

#[test]
fn a_draw_across_the_end_of_the_42_bits_is_refused_whole() {
    let end = Tick::END.0;
    let found = Some(point(end - 5000, end - 5000));
    let mut scene = Scene::start_at((end - 5000).cast_signed(), found, Layout::default(), Limits::default());
    scene.pass(4010).one().expect("served");
    scene.pass(5);
    let room = u32::try_from((end - scene.r()) * 512).expect("small");
    for n in [room + 1, u32::MAX] {
        let Err(Blocked::Refused(refusal)) = scene.draw(n) else { panic!("not refused") };
        assert_eq!(refusal.to_string(), "MISCONF end of time: no id can carry a time after 2154-05-14T23:35:11.103Z");
    }
    let mut given = 0;
    while given < room {
        match scene.draw(room - given) {
            Ok(some) => given += some.len,
            Err(Blocked::Watermark) => {
                scene.save();
                let (point, _) = scene.flight.take().expect("a save");
                scene.mint.saved(point);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(matches!(scene.one(), Err(Blocked::Refused(Refusal::EndOfTime { .. }))));
    assert_eq!(scene.position(), end);
    scene.pass(2000);
    assert!(matches!(scene.one(), Err(Blocked::Refused(Refusal::Clock(_)))));
}

#[test]
fn set_back_while_running_costs_a_tenth_of_the_rate() {
    let mut scene = Scene::running(Limits::default());
    let greedy = |scene: &mut Scene, ms: u64| {
        let mut given = 0;
        for _ in 0..ms {
            while let Ok(some) = scene.draw(100) {
                given += u64::from(some.len);
            }
            scene.pass(1);
        }
        given
    };
    greedy(&mut scene, 2000);
    let before = greedy(&mut scene, 10_000);
    assert!((5_110_000..=5_130_000).contains(&before), "{before} in 10 s");
    scene.wall -= 60_000;
    greedy(&mut scene, 2000);
    let given = greedy(&mut scene, 10_000);
    assert!((4_600_000..=4_620_000).contains(&given), "{given} in 10 s");
}

#[test]
fn status_shows_the_borrowed_time() {
    let mut scene = Scene::running(Limits::default());
    scene.pass(2000);
    for _ in 0..1000 {
        scene.draw(1000).expect("borrowed");
        scene.pass(1);
    }
    let status = scene.mint.status(scene.boot_ns);
    assert!((900..=960).contains(&status.borrow_ms), "{}", status.borrow_ms);
    assert!(status.highest_borrow_ms >= status.borrow_ms);
    assert_eq!(status.capacity_per_s, 512_000);
    scene.pass(3000);
    let status = scene.mint.status(scene.boot_ns);
    assert_eq!(status.borrow_ms, 0);
}

#[test]
fn the_smallest_limits_still_serve() {
    for (max_borrow_ms, lead_ms) in [(0, 0), (1, 1), (2, 1), (100, 100), (u64::MAX, u64::MAX), (u64::MAX, 1)] {
        let limits = Limits { max_borrow_ms, lead_ms, ..Limits::default() };
        let mut scene = Scene::start(Some(point(T0, T0)), limits);
        scene.sync_ms = 0;
        scene.boot_ns += MS;
        scene.keep();
        scene.land();
        let mut given = 0;
        for _ in 0..300 {
            if scene.one().is_ok() {
                given += 1;
            }
            scene.wall += 1;
            scene.boot_ns += MS;
            scene.keep();
            scene.land();
        }
        assert!(given > 100, "{limits:?}: {given}");
    }
}

#[test]
fn limits_change_while_running() {
    let mut scene = Scene::running(Limits::default());
    scene.pass(1000);
    while scene.draw(5000).is_ok() {}
    scene.mint.set_limits(Limits { max_borrow_ms: 100, lead_ms: 100, ..Limits::default() });
    assert!(matches!(scene.one(), Err(Blocked::Borrow { .. })));
    scene.pass(3000).one().expect("time has caught up");
    assert_eq!(scene.mint.sample_interval_ms(), 10);
    assert_eq!(scene.mint.piece_max(), 50 * 512);
}

#[test]
fn a_lower_limit_before_the_first_id_takes_nothing_from_the_start() {
    // Another run may have given IDs up to the limit with which this one was started.
    let mut scene = Scene::start(None, Limits::default());
    scene.mint.set_limits(Limits { max_borrow_ms: 100, lead_ms: 100, ..Limits::default() });
    scene.pass(200);
    assert_eq!(scene.position(), T0 + 3000);
    let first = scene.one().expect("the limit of the start is the limit until it is passed");
    assert_eq!(tick_of(first), T0 + 3000);
    scene.pass(3000);
    assert_eq!(scene.mint.status(scene.boot_ns).max_borrow_ms, 100);

    // And as far as a server may that has not noticed yet that its folder is gone.
    let text: std::sync::Arc<str> = "gone".into();
    scene.mint.claim_retaken(scene.boot_ns, None, text);
    assert_eq!(scene.position(), scene.r() + 3200);
}

#[test]
fn a_higher_limit_taken_back_before_the_first_id_leaves_no_trace() {
    let long = Limits { max_borrow_ms: 60_000, lead_ms: 60_000, ..Limits::default() };
    for found in [None, Some(point(T0 - HOUR, T0 - HOUR))] {
        let mut scene = Scene::start(found, Limits::default());
        let position = scene.position();
        scene.mint.set_limits(long);
        scene.pass(400);
        assert_eq!(scene.position().max(scene.r()), position.max(scene.r()));
        assert!(scene.disk.expect("saved").watermark.0 > T0 + 60_000, "as far ahead as the limit allows");
        scene.mint.set_limits(Limits::default());
        scene.pass(200);
        assert!(scene.one().is_ok(), "no wait");
        assert!(scene.disk.expect("saved").watermark.0 <= scene.r() + 3200, "brought down: no id was given");
    }

    // The clock is corrected meanwhile: the position moves with it, as far ahead as at the start.
    let mut scene = Scene::start(None, Limits::default());
    scene.mint.set_limits(long);
    scene.wall -= HOUR.cast_signed();
    scene.pass(400);
    assert_eq!(scene.position(), T0 - HOUR + 3000);
}

/// Without a state file, a server refuses limits above those of its start.
#[test]
fn what_lies_further_ahead_than_the_limit_of_the_start_needs_the_record() {
    for has_record in [true, false] {
        let mut scene = Scene::start(None, Limits::default());
        scene.mint.set_limits(Limits { max_borrow_ms: 60_000, lead_ms: 60_000, ..Limits::default() });
        assert_eq!(scene.mint.start_max_borrow_ms(), 3000);
        scene.pass(400);
        let mut last = 0;
        for _ in 0..2000 {
            match scene.draw(100_000) {
                Ok(drawn) => last = drawn.first.0 + u64::from(drawn.len) - 1,
                Err(_) => drop(scene.pass(1)),
            }
        }
        let found = scene.disk.filter(|_| has_record);
        let mut next = Scene::start_at(scene.wall, found, Layout::default(), Limits::default());
        next.pass(65_000 * u64::from(has_record) + 10);
        let first = next.one().expect("when time has caught up").first.0;
        assert_eq!(first > last, has_record, "{first} after {last}");
    }
}

#[test]
fn a_jump_that_is_held_is_followed_once_it_is_allowed() {
    let mut scene = Scene::running(Limits::default());
    let before = scene.r();
    scene.wall += (2 * HOUR).cast_signed();
    scene.pass(200);
    assert!(scene.mint.status(scene.boot_ns).holds_jump && scene.r() < before + 1000);
    scene.mint.set_limits(Limits { max_clock_jump_ms: 3 * HOUR, ..Limits::default() });
    scene.pass(200);
    assert!(!scene.mint.status(scene.boot_ns).holds_jump);
    assert!(scene.r() >= before + 2 * HOUR);
    soon(&mut scene).expect("served");
}

/// Returns an ID after at most one save, which a short lead may need.
fn soon(scene: &mut Scene) -> Option<Reservation> {
    (0..100).find_map(|_| {
        scene.pass(1).keep();
        scene.one().ok()
    })
}

/// An event of a server whose limits are changed.
#[derive(Clone, Debug)]
enum Step {
    Limits(Limits),
    Draw(u32),
    Pass(u64),
    /// The server is killed at once, and started again.
    Kill {
        /// Whether the save in flight reached the disk.
        landed: bool,
        /// Whether the next life uses the changed limits, or those of the first start.
        keeps_limits: bool,
    },
    /// The claim was lost and has been taken again, with the record or without one.
    Retake {
        has_record: bool,
    },
}

fn limits() -> impl Strategy<Value = Limits> {
    let policy = prop_oneof![Just(BorrowPolicy::Wait), Just(BorrowPolicy::Error)];
    (100u64..10_000, 1u64..=100, policy).prop_map(|(max_borrow_ms, percent, policy)| Limits {
        max_borrow_ms,
        lead_ms: (max_borrow_ms * percent / 100).max(100),
        max_clock_jump_ms: 3_600_000,
        policy,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => limits().prop_map(Step::Limits),
        6 => (1u32..2_000_000).prop_map(Step::Draw),
        4 => (1u64..400).prop_map(Step::Pass),
        1 => any::<[bool; 2]>().prop_map(|[landed, keeps_limits]| Step::Kill { landed, keeps_limits }),
        1 => any::<bool>().prop_map(|has_record| Step::Retake { has_record }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However limits change while running: IDs ascend, over lives too; each is below the disk's watermark and below R
    /// + B.
    #[test]
    fn limits_that_change_while_running_repeat_nothing(
        first in limits(), steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut scene = Scene::start(None, first);
        let mut last = 0;
        let mut others_until_ns = 0;
        for step in steps {
            match step {
                Step::Limits(limits) => scene.mint.set_limits(limits),
                Step::Pass(ms) => drop(scene.pass(ms)),
                Step::Kill { landed, keeps_limits } => {
                    // A server on a removed folder notices within 200 ms.
                    while scene.boot_ns < others_until_ns {
                        scene.pass(1);
                    }
                    others_until_ns = 0;
                    let found = if landed { scene.flight.map(|(point, _)| point).or(scene.disk) } else { scene.disk };
                    let limits = match (found, keeps_limits) {
                        // The largest limit so far covers the loss of the record.
                        (None, _) => Limits { max_borrow_ms: 10_000, ..first },
                        (Some(_), true) => scene.mint.limits(),
                        (Some(_), false) => first,
                    };
                    scene = Scene::start_at(scene.wall + 1, found, Layout::default(), limits);
                }
                Step::Retake { has_record } => {
                    scene.flight = None;
                    others_until_ns = scene.boot_ns + 200 * MS;
                    scene.disk = scene.disk.filter(|_| has_record);
                    scene.mint.claim_retaken(scene.boot_ns, scene.disk, Arc::from("retaken"));
                    // Past all IDs that another server may have given with the same limits.
                    let max_borrow_ms = scene.mint.start_max_borrow_ms().max(scene.mint.limits().max_borrow_ms);
                    let others = (scene.r() + max_borrow_ms + 200).max(scene.disk.map_or(0, |disk| disk.watermark.0));
                    last = last.max((others << 9) - 1);
                }
                Step::Draw(n) => {
                    let (now, max_borrow_ms) = (scene.r(), scene.mint.status(scene.boot_ns).max_borrow_ms);
                    let Ok(drawn) = scene.draw(n) else { continue };
                    prop_assert!(drawn.first.0 > last);
                    last = drawn.first.0 + u64::from(drawn.len) - 1;
                    let tick = last >> 9;
                    prop_assert!(tick < now + max_borrow_ms);
                    // A save that begins after the draw may lower the limit.
                    let in_force_ms = scene.mint.status(scene.boot_ns).max_borrow_ms;
                    for disk in [scene.disk, scene.flight.map(|(point, _)| point)].into_iter().flatten() {
                        prop_assert!(tick < disk.watermark.0);
                        prop_assert!(tick < now + disk.max_borrow_ms, "{tick} at {now} {disk:?}");
                        prop_assert!(in_force_ms <= disk.max_borrow_ms, "{in_force_ms} {disk:?}");
                    }
                    prop_assert!(scene.disk.is_some(), "saved before the first");
                }
            }
        }
        // Service resumes when time has caught up with the highest limit.
        scene.pass(11_000);
        prop_assert!(soon(&mut scene).is_some());
    }
    /// Limits that change before the first ID do not change the start of a life without a record. Once they are
    /// restored, they do not change its time either.
    #[test]
    fn limits_that_change_before_the_first_id_leave_no_trace(
        first in limits(), changes in prop::collection::vec((limits(), 1u64..400, -5000i64..5000), 1..8),
    ) {
        let mut scene = Scene::start(None, first);
        let mut start = T0.cast_signed();
        for (limits, ms, by) in changes {
            scene.mint.set_limits(limits);
            // The clock is corrected too, and the start with it.
            (scene.wall, start) = (scene.wall + by, start + by);
            scene.pass(ms).keep();
            let expected = start.cast_unsigned() + first.max_borrow_ms;
            prop_assert!(scene.position().abs_diff(expected) <= 1, "{} and not {expected}", scene.position());
        }
        scene.mint.set_limits(first);
        let served = soon(&mut scene);
        prop_assert!(served.is_some_and(|drawn| tick_of(drawn) >= start.cast_unsigned() + first.max_borrow_ms - 1));
    }

    /// Without a state file: limits may change up to that of the start, and the next life begins past all IDs.
    #[test]
    fn limits_up_to_that_of_the_start_repeat_nothing_without_a_record(
        first in limits(), steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut scene = Scene::start(None, first);
        let mut last = 0;
        for step in steps {
            match step {
                Step::Limits(limits) => {
                    let max_borrow_ms = limits.max_borrow_ms.min(scene.mint.start_max_borrow_ms());
                    scene.mint.set_limits(Limits { max_borrow_ms, ..limits });
                }
                Step::Pass(ms) => drop(scene.pass(ms)),
                Step::Kill { .. } => scene = Scene::start_at(scene.wall, None, Layout::default(), first),
                Step::Retake { .. } => {}
                Step::Draw(n) => {
                    let Ok(drawn) = scene.draw(n) else { continue };
                    prop_assert!(drawn.first.0 > last);
                    last = drawn.first.0 + u64::from(drawn.len) - 1;
                }
            }
        }
        scene.pass(11_000);
        prop_assert!(soon(&mut scene).is_some());
    }
}

#[test]
fn at_the_limit_ids_are_given_and_far_beyond_it_none_are() {
    let busy = |ahead_ms| Refusal::Busy { ahead_ms, max_borrow_ms: 3000 };
    assert!(busy(3001).is_overload() && busy(4000).is_overload());
    assert!(!busy(4001).is_overload() && !busy(u64::MAX).is_overload());
    assert!(!Refusal::SaveTimeout.is_overload() && !Refusal::Closed.is_overload());
}

#[test]
fn retaken_with_a_reference_ahead() {
    let mut scene = Scene::start(None, Limits::default());
    scene.flight = None;
    scene.mint.claim_retaken(scene.boot_ns, Some(point(T0 + HOUR, T0 + HOUR)), Arc::from("retaken"));
    assert_eq!(scene.r(), T0 + HOUR);
    scene.keep();
    assert!(scene.r() >= T0 + HOUR, "not below it after a sample");
    scene.pass(10_000);
    assert!(scene.position() >= T0 + HOUR + 3200, "{} does not slip", scene.position() - T0 - HOUR);
}

#[test]
fn retaken_while_running_with_a_larger_b_serves_at_once() {
    let mut scene = Scene::running(Limits::default());
    scene.pass(2000).one().expect("served");
    scene.flight = None;
    let r = scene.r();
    scene.mint.claim_retaken(
        scene.boot_ns,
        Some(SavePoint { max_borrow_ms: 10_000, ..point(r, r) }),
        Arc::from("retaken"),
    );
    assert_eq!(scene.one(), Err(Blocked::Refused(Refusal::ClaimLost(Arc::from("retaken")))));
    scene.save();
    assert!(scene.flight.is_some(), "a save at once");
    scene.pass(210).one().expect("served");
}

#[test]
fn a_claim_lost_with_a_save_in_flight() {
    let mut scene = Scene::running(Limits::default());
    scene.sync_ms = 100_000;
    while scene.flight.is_none() {
        scene.pass(1).one().expect("served");
    }
    scene.flight = None;
    scene.sync_ms = 5;
    scene.mint.claim_lost(Arc::from("gone"));
    scene.pass(500).one().expect("another save");
}

#[test]
fn a_raised_limit_counts_as_soon_as_it_is_saved() {
    let mut scene = Scene::running(Limits::default());
    scene.pass(3000);
    scene.flight = None;
    scene.mint.set_limits(Limits { max_borrow_ms: 8000, ..Limits::default() });
    while scene.flight.is_none_or(|(point, _)| point.max_borrow_ms < 8000) {
        scene.pass(1);
    }
    scene.pass(5);
    assert_eq!(scene.mint.status(scene.boot_ns).max_borrow_ms, 8000);
}

#[test]
fn an_absurd_clock_stores_nothing_at_the_end() {
    let mut scene = Scene::running(Limits::default());
    scene.wall = Tick::END.0.cast_signed();
    scene.keep();
    assert_eq!(scene.mint.close(), None);
}

#[test]
fn borrowing_and_overload() {
    let mut scene = Scene::running(Limits::default());
    scene.pass(3000).one().expect("served");
    scene.pass(10);
    assert_eq!(scene.mint.borrowing(scene.boot_ns, 600_000), None, "nothing is borrowed");
    scene.draw(100_000).expect("borrowed");
    assert_eq!(scene.mint.borrowing(scene.boot_ns, 512_000), None, "within the layout's capacity");
    let text = scene.mint.borrowing(scene.boot_ns, 512_001).expect("more than it holds");
    let shortage = Layout::default().shortage(512_001).expect("the same");
    assert!(
        text.starts_with("borrowing: ids are ") && text.ends_with(&format!(" ms ahead of the clock: {shortage}")),
        "{text}"
    );
    let begins = "512001 ids a second are requested, the layout holds 512000; shard-range 10 would hold it; ";
    assert!(shortage.starts_with(begins), "{shortage}");
    assert_eq!(Layout::default().shortage(512_000), None);
    let of = |late_ms| Overload { wait_ms: 1, max_wait_ms: 2000, late_ms, asked_per_s: 1 };
    assert!(matches!(scene.mint.overload(of(2000)), Refusal::Overload { .. }));
    assert!(matches!(scene.mint.overload(of(2001)), Refusal::Busy { ahead_ms: 5001, .. }));
}
