//! Thousands of lives.

use std::fmt::Debug;

use getid::id::checks::{Checks, Sound};

use crate::story::{Tally, play};

/// Stories within `cargo test`: over 10,000 lives.
const STORIES: u64 = 1000;

/// Plays stories until one fails; says what they came to.
fn play_all<K: Checks + Debug>(seeds: impl Iterator<Item = u64>) -> Tally {
    let mut total = Tally::default();
    for seed in seeds {
        match play::<K>(seed) {
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
    let total = play_all::<Sound>(seeds);
    println!("{total:?}");
    if stories >= STORIES {
        // Stories in which nothing happens would prove nothing.
        let seen = [
            total.lives > 10_000 / parts,
            total.ids > 500_000,
            total.crashes > 1000,
            total.kills > 1000,
            total.clean_stops > 300,
            total.failed_starts > 50,
            total.lost_disks > 50,
            total.refusals > 1000,
            total.waits > 1000,
        ];
        assert!(seen.iter().all(|&seen| seen), "{total:?}");
    }
}

// In parts, so that they run side by side.

#[test]
fn no_id_twice_and_always_up_part_1() {
    check_part(0, 2);
}

#[test]
fn no_id_twice_and_always_up_part_2() {
    check_part(1, 2);
}

#[test]
fn a_seed_says_everything() {
    for seed in 0..20 {
        assert_eq!(play::<Sound>(seed), play::<Sound>(seed), "seed {seed}");
    }
}

#[test]
fn one_seed() {
    let seed = std::env::var("GETID_SIM_SEED").ok().map_or(0, |text| text.parse().expect("GETID_SIM_SEED: a number"));
    let tally = play_all::<Sound>(std::iter::once(seed));
    println!("seed {seed}: {tally:?}");
}
