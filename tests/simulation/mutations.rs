//! Tests of the tests: with a check taken out, the stories must fail, and soon.

use std::fmt::Debug;
use std::time::Instant;

use getid::id::checks::{Checks, NoMask, NoSlew, NoWatermarkCheck};

use crate::story::play;

fn check_is_found<K: Checks + Debug + Default>() {
    let began = Instant::now();
    for seed in 0..200 {
        if let Err(why) = play::<K>(seed) {
            println!("{:?}: found by seed {seed} in {:?}: {why}", K::default(), began.elapsed());
            return;
        }
    }
    panic!("{:?}: 200 stories have not found it", K::default());
}

#[test]
fn without_the_watermark_check() {
    check_is_found::<NoWatermarkCheck>();
}

#[test]
fn without_the_mask() {
    check_is_found::<NoMask>();
}

#[test]
fn without_the_slew() {
    check_is_found::<NoSlew>();
}
