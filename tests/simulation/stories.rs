//! Lives from seeds, many in a row.

use getid_core::server::checks::{Rare, seen};

use crate::story::{Tally, play};

/// Number of stories in `cargo test`: some 2,000 lives.
const STORIES: u64 = 200;

/// Number of stories from which each rare event must occur often: over 10,000 lives.
const ENOUGH: u64 = 1000;

/// Plays stories until one fails; returns their totals.
fn play_all(seeds: impl Iterator<Item = u64>) -> Tally {
    let mut total = Tally::default();
    for seed in seeds {
        match play(seed) {
            Ok(tally) => total.add(tally),
            Err(why) => panic!(
                "seed {seed}: {why}\nto replay it: \
                 GETID_SIM_SEED={seed} cargo test --test simulation -- --nocapture one_seed"
            ),
        }
    }
    total
}

fn check_part(part: u64, parts: u64) {
    let stories = std::env::var("GETID_SIM_STORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(STORIES);
    let seeds = (0..stories).filter(|seed| seed % parts == part);
    println!("seeds {part}, {}, ... below {stories}", part + parts);
    let before = seen();
    let total = play_all(seeds);
    println!("{total:?}");
    let rare: Vec<_> = Rare::ALL.iter().map(|&rare| (rare, seen()[rare as usize] - before[rare as usize])).collect();
    println!("{rare:?}");
    // Stories without events would prove nothing.
    assert!(total.lives > 5 * stories / parts && total.ids > 500 * stories, "{total:?}");
    if stories >= ENOUGH {
        let enough = [
            total.lives > 10_000 / parts,
            total.ids > 500_000,
            total.named_ids > 300_000,
            total.reloads > 1000,
            total.crashes > 1000,
            total.kills > 1000,
            total.clean_stops > 300,
            total.failed_starts > 50,
            total.lost_disks > 50,
            total.put_back > 50,
            total.starts_by_the_clock > 200,
            total.retakes > 50,
            total.overlaps > 50,
            total.limits_set > 500,
            total.fresh_stops > 20,
            total.healed > 500,
            total.refusals > 1000,
            total.waits > 1000,
            total.dropped_saves > 200,
        ];
        assert!(enough.iter().all(|&enough| enough), "{total:?}");
        assert!(rare.iter().all(|&(_, times)| times > 10), "{rare:?}");
    }
}

// Split in parts that run side by side.

#[test]
fn no_id_twice_and_always_ascending_part_1() {
    check_part(0, 2);
}

#[test]
fn no_id_twice_and_always_ascending_part_2() {
    check_part(1, 2);
}

#[test]
fn a_seed_determines_a_story() {
    for seed in 0..4 {
        assert_eq!(play(seed), play(seed), "seed {seed}");
    }
}

#[test]
fn one_seed() {
    let seed = std::env::var("GETID_SIM_SEED").ok().map_or(0, |text| text.parse().expect("GETID_SIM_SEED: a number"));
    let tally = play_all(std::iter::once(seed));
    println!("seed {seed}: {tally:?}");
}
