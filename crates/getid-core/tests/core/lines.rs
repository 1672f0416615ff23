//! Named generators in the mint, scene by scene: starts, long units, declarations, saves, ends.

use std::sync::Arc;

use getid_core::server::LineSpec;
use getid_core::server::checks::{Fault, plant};
use getid_core::{Blocked, BorrowPolicy, Declaration, Layout, Limits, Overload, Refusal, SavePoint, Slot, Tick};
use proptest::prelude::*;

use crate::mint::Scene;
use crate::support::declared;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// 2026-01-01, in ticks and as Unix time in ms.
const T0: u64 = 347_155_200_000;
const T0_UNIX_MS: i64 = 1_767_196_800_000;

/// Returns a spec with `counter_bits` in units of `unit_ns` since 1970.
fn spec(unit_ns: u64, counter_bits: u32) -> LineSpec {
    LineSpec { epoch_unix_ms: 0, unit_ns, time_bits: 60 - counter_bits, counter_bits, counter_start: 0, seed: 3 }
}

/// Returns a server that has been up for five seconds, with these lines.
fn running(limits: Limits, specs: &[LineSpec]) -> Scene {
    let mut scene = Scene::start(None, limits);
    // The save that begins with the start does not hold them.
    for &spec in specs {
        scene.mint.add_line(spec);
    }
    scene.pass(5000);
    scene
}

impl Scene {
    fn draw_line(&mut self, line: usize, n: u32) -> Result<Slot, Blocked> {
        let drawn = self.mint.draw_line(self.boot_ns, line, n, false);
        // A waiting draw wakes the keeper.
        if self.mint.is_save_due() || drawn == Err(Blocked::Watermark) {
            self.save();
        }
        drawn.map(|drawn| drawn.first)
    }

    /// Returns the unit of one ID, ns since 1970.
    fn unit_ns(&mut self, line: usize, spec: LineSpec) -> u64 {
        if self.draw_line(line, 1) == Err(Blocked::Watermark) {
            self.pass(self.sync_ms);
        }
        let slot = self.draw_line(line, 1).expect("an id");
        (slot.0 >> spec.counter_bits) * spec.unit_ns
    }
}

/// Returns the line of a declaration in one life.
fn spec_of(declaration: &Declaration, seed: u64) -> LineSpec {
    let layout = declaration.layout();
    LineSpec {
        epoch_unix_ms: layout.epoch_unix_ms(),
        unit_ns: layout.unit().ns(),
        time_bits: layout.time_bits(),
        counter_bits: layout.counter_bits(),
        counter_start: declaration.counter_start(),
        // Different in all bits, as in real lives: units XOR small numbers would be the same units.
        seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15),
    }
}

/// Returns the chi-squared of `id % modulus`, in standard deviations above its mean, of one ID in two milliseconds for
/// each seed. The IDs ascend.
fn deviation(words: &str, modulus: u64, seeds: std::ops::Range<u64>) -> f64 {
    let declaration = declared(&format!("t {words}"));
    let layout = declaration.layout();
    let mut counts = vec![0_u32; usize::try_from(modulus).expect("small")];
    for seed in seeds.clone() {
        let spec = spec_of(&declaration, seed);
        let mut scene = running(Limits::default(), &[spec]);
        let mut before = Slot(0);
        for _ in 0..IDS_OF_A_SEED {
            scene.pass(2);
            let slot = scene.draw_line(0, 1).expect("an id");
            assert!(slot > before, "seed {seed}: {slot:?} comes after {before:?}");
            before = slot;
            let (unit, counter) = (slot.0 >> layout.counter_bits(), slot.0 & 4095);
            let id = u128::from(unit) << 22 | u128::from(counter);
            counts[usize::try_from(id % u128::from(modulus)).expect("small")] += 1;
        }
    }
    let ids = f64::from(u32::try_from(seeds.count()).expect("few") * IDS_OF_A_SEED);
    let freedom = f64::from(u32::try_from(modulus).expect("small")) - 1.0;
    let expected = ids / (freedom + 1.0);
    let chi: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    (chi - freedom) / (2.0 * freedom).sqrt()
}

const IDS_OF_A_SEED: u32 = 2000;

/// Leaf draws the first count of a new millisecond by `nextInt(100)`, and counts on from there.
#[test]
fn a_millisecond_of_leaf_begins_at_0_to_99() {
    let mut scene = running(Limits::default(), &[spec_of(&declared("t leaf"), 1)]);
    let mut seen = [false; 100];
    for _ in 0..IDS_OF_A_SEED {
        scene.pass(2);
        let first = scene.draw_line(0, 1).expect("an id");
        seen[usize::try_from(first.0 & 4095).expect("12 bits")] = true;
        assert_eq!(scene.draw_line(0, 1), Ok(Slot(first.0 + 1)));
    }
    assert!(seen.iter().all(|seen| *seen), "{seen:?}");
}

#[test]
fn quiet_leaf_ids_are_even_as_leafs_are() {
    for modulus in [2, 3, 4, 5, 7, 10, 20, 25, 50, 100] {
        let found = deviation("leaf", modulus, 1..6);
        assert!(found < 5.0, "id % {modulus} is {found:.1} standard deviations from even");
    }
    // 128 has more remainders than there are starts.
    assert!(deviation("leaf", 128, 1..6) > 10.0);
    assert!(deviation("leaf counter-start 0..127", 128, 1..6) < 5.0);
    assert!(deviation("leaf counter-start 0..0", 10, 1..6) > 50.0, "the test detects unevenness");
}

/// Returns a tick's Unix time in ns.
fn unix_ns(tick: u64) -> u64 {
    (tick - T0 + T0_UNIX_MS.unsigned_abs()) * MS
}

#[test]
fn a_start_begins_with_the_first_unit_at_or_after_p() {
    for unit_ns in [100, 700, MS, 10 * MS, SECOND, 1234 * MS + 500_100] {
        for found in [None, Some(SavePoint { watermark: Tick(T0 + 3150), reference: Tick(T0), max_borrow_ms: 3000 })] {
            let spec = spec(unit_ns, 4);
            let mut scene = Scene::start(found, Limits::default());
            let line = scene.mint.add_line(spec);
            let p = unix_ns(if found.is_some() { T0 + 3150 } else { T0 + 3000 });
            // It needs a save, and at most a unit.
            scene.pass(210 + unit_ns.div_ceil(MS));
            let unit = scene.unit_ns(line, spec);
            assert!(unit >= p && unit < p + unit_ns, "{unit_ns}: {unit} and P is {p}");
        }
    }
}

#[test]
fn a_line_gives_nothing_before_a_save_that_holds_its_declaration() {
    let mut scene = running(Limits::default(), &[]);
    scene.one().expect("served");
    // A save without it is under way.
    while scene.flight.is_none() {
        scene.pass(1);
    }
    let (point, _) = scene.flight.take().expect("a save");
    let line = scene.mint.add_line(spec(MS, 12));
    assert_eq!((scene.mint.lines_in_save(), scene.mint.line_status(scene.boot_ns, line).is_declared), (0, false));
    assert_eq!(scene.mint.due_save(scene.boot_ns), None, "one at a time");
    scene.mint.saved(point);
    scene.pass(2);
    assert_eq!(scene.draw_line(line, 1), Err(Blocked::Watermark));
    // No other reason makes a save worth it.
    let (point, _) = scene.flight.take().expect("it is due at once");
    assert_eq!(scene.mint.lines_in_save(), 1);
    scene.mint.save_failed(Arc::from("full"));
    assert!(matches!(scene.draw_line(line, 1), Err(Blocked::Refused(Refusal::Save { .. }))), "{point:?}");
    scene.one().expect("the others continue");
    scene.pass(1000);
    scene.draw_line(line, 1).expect("a save has succeeded");
    assert!(scene.mint.line_status(scene.boot_ns, line).is_declared);
}

#[test]
fn a_line_that_is_added_later_begins_at_r_plus_b() {
    let mut scene = running(Limits::default(), &[]);
    scene.one().expect("served");
    scene.pass(2000);
    let (spec, r) = (spec(MS, 12), scene.r());
    let line = scene.mint.add_line(spec);
    scene.pass(100);
    let unit = scene.unit_ns(line, spec);
    assert!((unix_ns(r + 2900)..=unix_ns(r + 3000)).contains(&unit));
    // By the largest B so far: a removed generator may have given IDs that far ahead under this name.
    scene.mint.set_limits(Limits { max_borrow_ms: 500, ..Limits::default() });
    scene.pass(100);
    let (again, r) = (scene.mint.add_line(spec), scene.r());
    scene.pass(4000);
    scene.mint.set_limits(Limits::default());
    let next = scene.mint.line_status(scene.boot_ns, again).next.0 >> spec.counter_bits;
    // R at its last reading.
    assert!((unix_ns(r + 2900)..=unix_ns(r + 3000)).contains(&(next * MS)));
}

/// With a right clock and one that is set back: an added line begins no earlier than this life did.
#[test]
fn a_line_that_is_added_later_begins_past_the_watermark_found() {
    let found = SavePoint { watermark: Tick(T0 + 60_000), reference: Tick(T0), max_borrow_ms: 3000 };
    let mut scene = Scene::start(Some(found), Limits { max_borrow_ms: 61_000, ..Limits::default() });
    scene.pass(10).one().expect("served");
    let spec = spec(SECOND, 4);
    let line = scene.mint.add_line(spec);
    let next = scene.mint.line_status(scene.boot_ns, line).next.0 >> spec.counter_bits;
    assert!(next * SECOND >= unix_ns(T0 + 61_000));
}

#[test]
fn a_life_in_which_only_a_line_gave_ids_is_not_fresh() {
    let mut scene = running(Limits::default(), &[spec(SECOND, 4)]);
    scene.draw_line(0, 40).expect("ids");
    // IDs were given by this clock, so its corrections are slewed.
    scene.wall -= 60_000;
    let r = scene.r();
    scene.pass(500);
    assert!(scene.r() >= r);
    let next = scene.mint.line_status(scene.boot_ns, 0).next;
    let stored = scene.mint.close().expect("a position");
    let begin = ((next.0 - 1) >> 4) * SECOND;
    assert_eq!(unix_ns(stored.watermark.0), begin + MS, "the first ms that no unit given begins in");
    assert_eq!(scene.draw_line(0, 1), Err(Blocked::Refused(Refusal::Closed)));
}

/// Nothing is past R + B, however long the unit is: so no start repeats it, without a record or with an old one.
#[test]
fn a_long_unit_is_not_repeated_when_the_record_is_lost_or_old() {
    let spec = spec(SECOND, 4);
    let old = SavePoint { watermark: Tick(T0 - 60_000), reference: Tick(T0 - 60_000), max_borrow_ms: 3000 };
    for records in [[None, None], [None, Some(old)], [Some(old), None], [Some(old), Some(old)]] {
        let mut first = Scene::start(records[0], Limits::default());
        first.mint.add_line(spec);
        first.pass(1100);
        // As many IDs as possible.
        for _ in 0..10 {
            while first.draw_line(0, 5).is_ok() {}
            first.pass(5);
        }
        assert!(first.mint.line_status(first.boot_ns, 0).ids_issued >= 16);
        let given = first.mint.line_status(first.boot_ns, 0).next;
        let mut second = Scene::start_at(first.wall, records[1], Layout::default(), Limits::default());
        second.mint.add_line(spec);
        for _ in 0..1100 {
            second.pass(1);
            let _ = second.draw_line(0, 1);
        }
        let status = second.mint.line_status(second.boot_ns, 0);
        assert!(status.ids_issued > 0 && status.next.0 - status.ids_issued >= given.0, "{records:?}");
    }
}

/// It costs the other generators at most 200 ms too.
#[test]
fn a_crash_of_a_long_unit_at_the_borrow_limit_costs_200_ms_at_most() {
    let mut scene = running(Limits::default(), &[spec(1500 * MS, 2)]);
    for _ in 0..2000 {
        while scene.draw_line(0, 1).is_ok() {}
        scene.pass(1);
    }
    let mut next = Scene::start_at(scene.wall, scene.disk, Layout::default(), Limits::default());
    next.pass(201).one().expect("served");
}

/// A unit is longer than the lead: the draw requests its watermark, once.
#[test]
fn a_unit_longer_than_the_lead_is_borrowed_after_one_save() {
    let borrow = || {
        let limits = Limits { lead_ms: 100, max_borrow_ms: 10_000, ..Limits::default() };
        let mut scene = running(limits, &[spec(SECOND, 1)]);
        for _ in 0..5 {
            scene.pass(7);
            // The present unit and the next ones, up to the watermark.
            while scene.draw_line(0, 2).is_ok() {}
            assert_eq!(scene.draw_line(0, 2), Err(Blocked::Watermark));
            scene.pass(6).draw_line(0, 2).expect("one sync later");
        }
    };
    borrow();
    let _planted = plant(Fault::LineWantsNothing);
    std::panic::catch_unwind(borrow).expect_err("it waits until time has come");
}

#[test]
fn at_the_borrow_limit_a_line_waits_for_its_unit_alone() {
    let mut scene = running(Limits::default(), &[spec(SECOND, 4), spec(MS, 4)]);
    while scene.draw_line(0, 5).is_ok() {}
    scene.pass(6);
    while scene.draw_line(0, 5).is_ok() {}
    let Err(Blocked::Borrow { until_boot_ns }) = scene.draw_line(0, 1) else { panic!("at the limit") };
    assert_eq!(scene.mint.late_ms_line(scene.boot_ns, 0), (until_boot_ns - scene.boot_ns).div_ceil(MS) - 1);
    assert!(scene.mint.line_status(scene.boot_ns, 0).ahead_ms >= 3000);
    scene.draw_line(1, 100).expect("the others keep their values");
    scene.one().expect("and so has the unnamed one");
    scene.pass((until_boot_ns - scene.boot_ns) / MS - 1);
    assert!(scene.draw_line(0, 1).is_err());
    // The watermark may be too low for it as well.
    if scene.pass(1).draw_line(0, 16) == Err(Blocked::Watermark) {
        scene.pass(5).draw_line(0, 16).expect("a whole unit");
    }
    // A draw that waits too long for time gets one refusal; a draw that waits for others gets the layout's capacity.
    let of = |late_ms| Overload { wait_ms: 1, max_wait_ms: 2000, late_ms, asked_per_s: 90 };
    assert!(matches!(scene.mint.overload_line(0, of(2001)), Refusal::Busy { ahead_ms: 5001, max_borrow_ms: 3000 }));
    let text = scene.mint.overload_line(0, of(2000)).to_string();
    assert!(text.contains("90 ids a second are requested, the layout holds 16;"), "{text}");
}

#[test]
fn under_the_policy_error_a_line_is_refused_what_does_not_fit() {
    let limits = Limits { policy: BorrowPolicy::Error, ..Limits::default() };
    let mut scene = running(limits, &[spec(10 * MS, 0)]);
    scene.pass(5);
    assert_eq!(scene.mint.line_piece_max(0), 150);
    let refused = loop {
        match scene.draw_line(0, 10) {
            Ok(_) => {}
            Err(Blocked::Watermark) => {
                scene.pass(5);
            }
            Err(refused) => break refused,
        }
    };
    let Blocked::Refused(Refusal::Busy { ahead_ms, max_borrow_ms: 3000 }) = refused else { panic!("{refused:?}") };
    assert!((3000..3100).contains(&ahead_ms), "{ahead_ms}");
    while scene.draw_line(0, 1).is_ok() {}
    // The rest of a draw that has begun waits.
    assert!(matches!(scene.mint.draw_line(scene.boot_ns, 0, 10, true), Err(Blocked::Borrow { .. })));
}

#[test]
fn a_line_ends_alone() {
    // The last of 2^10 units begins 5600 ms after the start.
    let ending = LineSpec { epoch_unix_ms: T0_UNIX_MS + 5700 - 102_400, time_bits: 10, ..spec(100 * MS, 0) };
    let coming = LineSpec { epoch_unix_ms: T0_UNIX_MS + 60_000, ..spec(MS, 12) };
    let mut scene = running(Limits::default(), &[ending, coming]);
    let last_unix_ms = T0_UNIX_MS + 5600;
    assert_eq!(scene.mint.line_status(scene.boot_ns, 0).last_unix_ms, last_unix_ms);
    let ended = Err(Blocked::Refused(Refusal::EndOfTime { last_unix_ms }));
    assert_eq!(scene.draw_line(0, 8), ended, "there are seven, and none is used up");
    assert_eq!(scene.draw_line(0, 7), Ok(Slot(1017)));
    assert_eq!(scene.draw_line(0, 1), ended);
    scene.one().expect("the server has time");
    let refused = scene.draw_line(1, 1).expect_err("it has not begun");
    let Blocked::Refused(refusal @ Refusal::BeforeEpoch { .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(
        refusal.to_string(),
        "MISCONF it is 2025-12-31T16:00:05.000Z, before the epoch of this generator, 2025-12-31T16:01:00.000Z"
    );
    assert!(scene.mint.can_draw_line(scene.boot_ns, 1).is_err());
    scene.pass(55_000);
    assert_eq!(scene.draw_line(1, 1), Ok(Slot(0)));
    assert_eq!(scene.draw_line(0, 1), ended);
}

#[test]
fn what_is_wrong_with_the_server_is_wrong_with_its_lines() {
    let mut scene = running(Limits::default(), &[spec(MS, 12)]);
    scene.draw_line(0, 1).expect("an id");
    scene.mint.claim_lost(Arc::from("gone"));
    assert!(matches!(scene.draw_line(0, 1), Err(Blocked::Refused(Refusal::ClaimLost(_)))));
    scene.pass(200).draw_line(0, 1).expect("it is there again");
    scene.wall = 8_000_000_000_000;
    scene.pass(200);
    assert!(matches!(scene.draw_line(0, 1), Err(Blocked::Refused(Refusal::Clock(_)))));
}

/// There is one watermark, saved as often as with one generator, busy or idle.
#[test]
fn twenty_lines_save_as_often_as_one_generator() {
    let saves_of = |specs: &[LineSpec], unnamed: bool, n: u32| {
        let mut scene = running(Limits::default(), specs);
        let minute = |scene: &mut Scene, n: u32| {
            scene.saves = 0;
            for _ in 0..60_000 {
                for line in 0..specs.len() {
                    if n > 0 {
                        // Some draws exceed the rest.
                        let _ = scene.draw_line(line, n);
                    }
                }
                if unnamed && n > 0 {
                    scene.one().expect("no wait for a healthy disk");
                }
                scene.pass(1);
            }
            scene.saves
        };
        (minute(&mut scene, n), minute(&mut scene, 0))
    };
    let (busy, idle) = saves_of(&[], true, 1);
    let of_all_units: Vec<_> = (0..20).map(|i| spec([100, MS, 10 * MS, SECOND, 1500 * MS][i % 5], 12)).collect();
    for (specs, unnamed) in [(&of_all_units[..], true), (&of_all_units[..], false), (&of_all_units[3..5], false)] {
        assert_eq!(saves_of(specs, unnamed, 1), (busy, idle), "{} lines", specs.len());
    }
}

/// Within their rate, lines of every unit never wait for a disk that syncs in 300 ms.
#[test]
fn a_sync_of_300_ms_is_felt_by_no_line() {
    let specs = [spec(100, 0), spec(MS, 4), spec(10 * MS, 7), spec(SECOND, 14), spec(1500 * MS, 14)];
    let mut scene = running(Limits::default(), &specs);
    scene.pass(3000);
    scene.sync_ms = 300;
    for ms in 0..60_000 {
        for line in 0..specs.len() {
            assert!(scene.draw_line(line, 10).is_ok(), "line {line} after {ms} ms");
        }
        scene.pass(1);
    }
}

proptest! {
    /// A line with the unnamed generator's layout gets what the unnamed one gets, at any bounds.
    #[test]
    fn a_line_of_the_unnamed_generators_layout_is_the_unnamed_generator(
        asks in prop::collection::vec((0..400_u64, prop_oneof![Just(1_u32), 1..2_000_000_u32]), 1..60),
        lead_ms in 1..3000_u64,
        policy in prop_oneof![Just(BorrowPolicy::Wait), Just(BorrowPolicy::Error)],
    ) {
        let limits = Limits { lead_ms, policy, ..Limits::default() };
        let twin = LineSpec { epoch_unix_ms: 1_420_041_600_000, time_bits: 42, ..spec(MS, 9) };
        let (mut unnamed, mut named) = (Scene::start(None, limits), Scene::start(None, limits));
        for scene in [&mut unnamed, &mut named] {
            scene.mint.add_line(twin);
            scene.pass(300);
        }
        for (ms, n) in asks {
            let one = unnamed.mint.draw(unnamed.boot_ns, n, false);
            prop_assert_eq!(one, named.mint.draw_line(named.boot_ns, 0, n, false));
            for scene in [&mut unnamed, &mut named] {
                scene.save();
            }
            unnamed.pass(ms);
            named.pass(ms);
            prop_assert_eq!(unnamed.disk, named.disk);
        }
    }
}
