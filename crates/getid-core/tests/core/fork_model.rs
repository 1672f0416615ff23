//! Model of the fork's own algorithm: a millisecond, and a counter that is never masked.
//!
//! With a mask added, it must give the same (tick, shard) as ours, step for step: so users who migrate from the fork
//! get the same order and the same borrowing. Without it, it must give the corrupt ID from the fork's own log.

use crate::random::Random;
use crate::support::splits;

use getid_core::server::Slots;
use getid_core::{Id, Layout, Parts, RandomCycle, Scheme, Slot, Tick};

/// Millisecond and counter, as in the fork.
struct Fork {
    shard_bits: u32,
    time: u64,
    counter: u64,
    started: bool,
}

impl Fork {
    fn next(&mut self, now: u64) -> (u64, u64) {
        if !self.started || now > self.time {
            self.started = true;
            self.time = now;
            self.counter = 0;
        } else {
            self.counter += 1;
            if self.counter.trailing_zeros() >= self.shard_bits {
                self.time += 1;
            }
        }
        (self.time, self.counter)
    }
}

#[test]
fn gives_the_same_tick_and_shard_step_for_step() {
    let mut rng = Random(7);
    for layout in splits() {
        let shard_bits = layout.shard_bits();
        let mask = (1 << shard_bits) - 1;
        let mut fork = Fork { shard_bits, time: 0, counter: 0, started: false };
        let mut ours = Slots::new(shard_bits, Tick(0));
        let mut now = 1_000_000_u64;
        for _ in 0..60 {
            match rng.below(10) {
                0 => now -= rng.below(2000).min(now - 500_000),
                1 => now += rng.below(5000),
                2..=5 => now += 1,
                _ => {}
            }
            let n = u32::try_from(rng.skewed(shard_bits.min(9) + 2)).expect("small");
            let given = ours.reserve(Tick(now), n, Tick::END).expect("far from the end");
            for i in 0..u64::from(n) {
                let (time, counter) = fork.next(now);
                let slot = Slot(given.first.0 + i);
                assert_eq!((slot.tick(shard_bits).0, slot.shard(shard_bits)), (time, counter & mask), "{layout:?}");
            }
        }
    }
}

/// Time, counter and random part are from the fork's log.
#[test]
fn the_forks_corrupt_id_is_composed_right() {
    const TIME: u64 = 66_681_044_992;
    const COUNTER: u64 = 2_133_262_345;
    const RANDOM: u32 = 72;
    let as_the_fork = (TIME << 21) | (COUNTER << 10) | u64::from(RANDOM);
    assert_eq!(as_the_fork, 139_842_471_327_704_136, "what the fork gave out");

    let layout = Layout::default();
    let slot = Slot((TIME << layout.shard_bits()) | (COUNTER & 511));
    let cycle = RandomCycle::new((0..1024).map(|value| (value + RANDOM) % 1024).collect()).expect("a permutation");
    let scheme = Scheme::new(layout, 0, cycle).expect("fits");
    let right = scheme.id(slot, 0);
    assert_eq!(right.get(), 139_840_286_867_072_072);
    assert_eq!(layout.split(right), Parts { tick: Tick(TIME), server: 0, shard: 9, random: RANDOM });

    // The corrupt ID has a wrong tick, and shows it when it is read.
    let corrupt = Id::new(as_the_fork).expect("63 bits");
    assert_ne!(layout.split(corrupt).tick, Tick(TIME));
}
