//! IDs, layouts, slots and cycles: vectors, and properties over every legal split of the 21 bits.

use crate::random::Random;
use crate::support::{scheme, splits};

use getid_core::server::Slots;
use getid_core::{Epoch, Id, Layout, LayoutError, Parts, RandomCycle, Reservation, Scheme, Slot, Tick, UtcMs};

/// Vectors of DESIGN, section 1.
#[test]
fn known_good_vectors() {
    let layout = Layout::default();
    for (number, tick, utc, shard, random) in [
        (144_182_182_078_841_378, 68_751_421_966, "2017-03-06T09:37:01.966Z", 0, 546),
        (144_182_328_657_183_537, 68_751_491_860, "2017-03-06T09:38:11.860Z", 0, 817),
        (144_182_328_657_188_278, 68_751_491_860, "2017-03-06T09:38:11.860Z", 5, 438),
        (144_182_328_657_192_148, 68_751_491_860, "2017-03-06T09:38:11.860Z", 9, 212),
    ] {
        let id = Id::new(number).expect("63 bits");
        let parts = Parts { tick: Tick(tick), server: 0, shard, random };
        assert_eq!(layout.split(id), parts);
        assert_eq!(layout.compose(parts), id);
        assert_eq!(UtcMs(Tick(tick).unix_ms(layout.epoch())).to_string(), utc);
        assert_eq!(id.to_string(), number.to_string());
    }
}

#[test]
fn there_are_253_splits_and_no_other() {
    assert_eq!(splits().count(), 253);
    let made = (0..=23)
        .flat_map(|a| (0..=23).flat_map(move |b| (0..=23).map(move |c| (a, b, c))))
        .filter(|&(a, b, c)| Layout::new(Epoch::DEFAULT, a, b, c).is_ok())
        .count();
    assert_eq!(made, 253);
    let text = |a, b, c| Layout::new(Epoch::DEFAULT, a, b, c).expect_err("wrong").to_string();
    assert_eq!(text(2, 9, 11), "id-range + shard-range + random-range is 22, must be 21");
    assert_eq!(text(2, 9, 9), "id-range + shard-range + random-range is 20, must be 21");
    assert_eq!(text(22, 0, 0), "id-range is 22, must be 0 to 21");
    assert_eq!(text(0, 0, u32::MAX), "random-range is 4294967295, must be 0 to 21");
    assert_eq!(
        Layout::new(Epoch::DEFAULT, u32::MAX, 1, 21),
        Err(LayoutError::Width { name: "id-range", value: u32::MAX }),
        "no sum is made of widths that could overflow it"
    );
}

#[test]
fn capacity_and_the_shard_range_that_holds_a_rate() {
    assert_eq!(Layout::default().capacity_per_s(), 512_000);
    for (rate, range) in
        [(0, Some(0)), (1000, Some(0)), (1001, Some(1)), (512_000, Some(9)), (512_001, Some(10)), (u64::MAX, None)]
    {
        assert_eq!(Layout::shard_range_for(rate), range, "{rate}");
    }
    for layout in splits() {
        assert_eq!(Layout::shard_range_for(layout.capacity_per_s()), Some(layout.shard_bits()));
    }
}

#[test]
fn first_and_last_instant() {
    let layout = Layout::default();
    assert_eq!(UtcMs(layout.first_unix_ms()).to_string(), "2014-12-31T16:00:00.000Z");
    assert_eq!(UtcMs(layout.last_unix_ms()).to_string(), "2154-05-14T23:35:11.103Z");
    let epoch = layout.epoch();
    assert_eq!(epoch.tick_at(layout.first_unix_ms()), Some(Tick(0)));
    assert_eq!(epoch.tick_at(layout.first_unix_ms() - 1), None);
    assert_eq!(epoch.tick_at(layout.last_unix_ms()), Some(Tick::LAST));
    assert_eq!(epoch.tick_at(layout.last_unix_ms() + 1), None);
    assert_eq!(epoch.tick_at(i64::MIN), None);
    assert_eq!(epoch.tick_at(i64::MAX), None);
    assert_eq!(epoch.tick_at(1_262_304_000_000), None, "2010");
    assert_eq!(Epoch::from_unix_ms(Epoch::UNIX_MS_MAX + 1), None);
    let far = Epoch::from_unix_ms(Epoch::UNIX_MS_MAX).expect("in range");
    assert_eq!(UtcMs(Tick::LAST.unix_ms(far)).to_string().len(), 24, "still a year of four digits");
}

#[test]
fn utc_as_rfc_3339() {
    for (unix_ms, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (951_782_399_999, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (951_868_800_000, "2000-03-01T00:00:00.000Z"),
        (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (1_420_041_600_000, "2014-12-31T16:00:00.000Z"),
    ] {
        assert_eq!(UtcMs(unix_ms).to_string(), text);
    }
    // Every time can be displayed, however absurd.
    assert!(UtcMs(i64::MAX).to_string().starts_with("292278994-08-17"));
    assert!(UtcMs(i64::MIN).to_string().ends_with('Z'));
}

#[test]
fn compose_and_split_are_inverse_under_every_split() {
    let mut rng = Random(11);
    for layout in splits() {
        let widths = [layout.server_bits(), layout.shard_bits(), layout.random_bits()];
        for round in 0..40 {
            let part = |bits: u32, rng: &mut Random| match round {
                0 => 0,
                1 => (1_u32 << bits) - 1,
                _ => u32::try_from(rng.below(1 << bits)).expect("21 bits"),
            };
            let [server, shard, random] = widths.map(|bits| part(bits, &mut rng));
            let tick = if round == 1 { Tick::LAST } else { Tick(rng.below(Tick::END.0)) };
            let parts = Parts { tick, server, shard, random };
            let id = layout.compose(parts);
            assert_eq!(layout.split(id), parts);
            assert_eq!(Id::new(id.get()), Some(id));
            // A composition in large integers: no part overlaps another.
            let sum = (u128::from(tick.0) * (1 << 21))
                + u128::from(server) * (1 << (21 - widths[0]))
                + u128::from(shard) * (1 << widths[2])
                + u128::from(random);
            assert_eq!(u128::from(id.get()), sum);
            let (low, high) = layout.span(tick, tick);
            assert!(low <= id && id <= high);
        }
    }
    assert_eq!(Id::new(1 << 63), None);
    assert_eq!(Id::new(u64::MAX), None);
}

#[test]
#[should_panic(expected = "server-id past id-range")]
fn compose_refuses_a_part_that_does_not_fit() {
    Layout::default().compose(Parts { tick: Tick(1), server: 4, shard: 0, random: 0 });
}

#[test]
fn spans() {
    let layout = Layout::default();
    let numbers = |from, to| layout.span(Tick(from), Tick(to));
    let ids = |low, high| (Id::new(low).expect("63 bits"), Id::new(high).expect("63 bits"));
    assert_eq!(numbers(5, 5), ids(5 << 21, (6 << 21) - 1));
    assert_eq!(numbers(5, 6), ids(5 << 21, (7 << 21) - 1));
    assert_eq!(numbers(0, u64::MAX), ids(0, (1 << 63) - 1), "every id there is");
    let (low, high) = layout.span(Tick(6), Tick(5));
    assert!(low > high, "an empty span finds nothing");
}

#[test]
fn a_cycle_is_a_permutation_or_nothing() {
    for wrong in [vec![], vec![1], vec![0, 0], vec![0, 1, 2], vec![0, 1, 2, 4], vec![0, u32::MAX]] {
        assert!(RandomCycle::new(wrong.clone()).is_none(), "{wrong:?}");
    }
    assert_eq!(RandomCycle::new(vec![0]).expect("2^0 values").value_at(u64::MAX), 0);
    let cycle = RandomCycle::new(vec![2, 0, 3, 1]).expect("a permutation");
    assert_eq!((0..6).map(|count| cycle.value_at(count)).collect::<Vec<_>>(), [2, 0, 3, 1, 2, 0]);
    assert!(Scheme::new(Layout::default(), 0, cycle).is_none(), "too short for random-range 10");
    let whole = || RandomCycle::new((0..1024).collect()).expect("a permutation");
    assert!(Scheme::new(Layout::default(), 3, whole()).is_some());
    assert!(Scheme::new(Layout::default(), 4, whole()).is_none(), "past id-range 2");
}

/// Random requests and clock walks under every split. IDs are in strict order (so unique), their parts decode to the
/// given ones, and the carry equals a naive model in large integers.
#[test]
fn walks_under_every_split() {
    let mut rng = Random(3);
    for layout in splits() {
        let shard_bits = layout.shard_bits();
        let scheme = scheme(layout, &mut rng);
        let mut slots = Slots::new(shard_bits, Tick(0));
        let mut now = rng.below(Tick::END.0 - (1 << 30)) + (1 << 20);
        let mut naive_next = 0_u128;
        let mut last = None;
        let mut given = 0;
        while given < 1200 {
            now = match rng.below(8) {
                0 => now - rng.below(5000).min(now),
                1 => now + rng.below(100_000),
                2..=4 => now + rng.below(3),
                _ => now,
            };
            let n = u32::try_from(rng.skewed(9)).expect("small");
            let reservation = slots.reserve(Tick(now), n, Tick::END).expect("far from the end");
            assert_eq!((reservation.len, reservation.count), (n, given));
            for id in scheme.ids(reservation) {
                let (tick, shard) = naive(&mut naive_next, now, shard_bits);
                let random = scheme.layout().split(id).random;
                let parts = Parts { tick: Tick(tick), server: scheme.server_id(), shard, random };
                assert_eq!(layout.split(id), parts, "{layout:?}");
                assert_eq!(layout.compose(parts), id);
                assert!(last < Some(id), "{layout:?}: {last:?} then {id:?}");
                last = Some(id);
            }
            given += u64::from(n);
        }
    }
}

/// IDs made by eights equal those made one by one, over ends of ticks and of the cycle.
#[test]
fn by_eights_as_one_by_one_under_every_split() {
    let mut rng = Random(11);
    for layout in splits() {
        let shard_bits = layout.shard_bits();
        let scheme = scheme(layout, &mut rng);
        for len in 0..20 {
            let tick = rng.below(Tick::END.0 - 20);
            let shard = (1_u64 << shard_bits).saturating_sub(1 + rng.below(12));
            let first = Slot(tick << shard_bits | shard);
            let count = (1_u64 << layout.random_bits()).wrapping_sub(rng.below(12));
            let mut left = Reservation { first, count, len };
            let one_by_one: Vec<u64> = scheme.ids(left).map(Id::get).collect();
            let mut by_eights = Vec::new();
            while left.len > 0 {
                let (ids, count) = scheme.take_batch(&mut left);
                assert!(ids.above.is_sorted() && ids.above[7] < 1 << 24, "{layout:?}: {ids:?}");
                by_eights.extend(ids.above[..count].iter().map(|&above| ids.base + u64::from(above)));
            }
            assert_eq!(by_eights, one_by_one, "{layout:?} from {first:?}");
        }
    }
}

/// Returns the next slot by a naive carry, one ID at a time.
fn naive(next: &mut u128, now: u64, shard_bits: u32) -> (u64, u32) {
    let per_tick = 2_u128.pow(shard_bits);
    if *next < u128::from(now) * per_tick {
        *next = u128::from(now) * per_tick;
    }
    let (tick, shard) = (*next / per_tick, *next % per_tick);
    *next += 1;
    (u64::try_from(tick).expect("in range"), u32::try_from(shard).expect("in range"))
}

/// Over any 2^random-range consecutive IDs, `id % 2^k` takes every value equally often, for every k up to random-range.
/// It holds at one ID per ms as well as under borrowing.
#[test]
fn even_over_every_power_of_two() {
    let mut rng = Random(5);
    for layout in splits().filter(|layout| layout.random_bits() <= 11) {
        let scheme = scheme(layout, &mut rng);
        let period = 1_u64 << layout.random_bits();
        for one_per_ms in [true, false] {
            let mut slots = Slots::new(layout.shard_bits(), Tick(0));
            let skipped = u32::try_from(rng.within(1, period)).expect("small");
            slots.reserve(Tick(1_000_000), skipped, Tick::END).expect("far from the end");
            let ids: Vec<u64> = (0..period)
                .map(|i| {
                    let now = Tick(2_000_000 + if one_per_ms { i } else { 0 });
                    let one = slots.reserve(now, 1, Tick::END).expect("far from the end");
                    scheme.id(one.first, one.count).get()
                })
                .collect();
            for k in 0..=layout.random_bits() {
                let mut tables = vec![0_u64; 1 << k];
                for id in &ids {
                    tables[usize::try_from(id % (1 << k)).expect("small")] += 1;
                }
                assert!(tables.iter().all(|&ids| ids == period >> k), "{layout:?} modulo 2^{k}");
            }
        }
    }
}

/// Long cycles: a whole period has no random part twice, which implies evenness over every smaller power of two.
#[test]
fn even_over_long_cycles() {
    for random_bits in 12..=17 {
        let layout = Layout::new(Epoch::DEFAULT, 2, 19 - random_bits, random_bits).expect("adds up to 21");
        let period = 1_usize << random_bits;
        let cycle = RandomCycle::new(Random(random_bits.into()).permutation(period)).expect("a permutation");
        let scheme = Scheme::new(layout, 1, cycle).expect("fits");
        let mut slots = Slots::new(layout.shard_bits(), Tick(0));
        let mut seen = vec![false; period];
        for _ in 0..period / 64 {
            let some = slots.reserve(Tick(1_000_000), 64, Tick::END).expect("far from the end");
            for id in scheme.ids(some) {
                let table = usize::try_from(id.get()).expect("64-bit") % period;
                assert!(!std::mem::replace(&mut seen[table], true), "{layout:?}: table {table} twice");
            }
        }
    }
}

#[test]
fn the_end_of_the_42_bits_is_a_wall() {
    for layout in splits() {
        let shard_bits = layout.shard_bits();
        let in_tick = 1_u32 << shard_bits;
        let mut rng = Random(1);
        let scheme = scheme(layout, &mut rng);
        let mut slots = Slots::new(shard_bits, Tick(Tick::LAST.0 - 1));
        assert_eq!(slots.room(Tick(0), Tick::END), 2 * u64::from(in_tick));
        assert_eq!(slots.reserve(Tick(0), 2 * in_tick + 1, Tick::END), None, "whole or not at all");
        assert_eq!(slots.given(), 0);
        let most = slots.reserve(Tick(0), 2 * in_tick - 1, Tick::END).expect("has room");
        let id = scheme.ids(Reservation { first: Slot(most.first.0 + u64::from(most.len) - 1), len: 1, ..most });
        assert!(id.last().expect("one").get() < 1 << 63);
        let last = slots.reserve(Tick(0), 1, Tick::END).expect("the very last");
        assert_eq!(layout.split(scheme.id(last.first, last.count)).tick, Tick::LAST);
        assert_eq!(slots.position(), Tick::END);
        for now in [Tick(0), Tick::LAST, Tick::END, Tick(u64::MAX)] {
            assert_eq!(slots.reserve(now, 1, Tick(u64::MAX)), None);
        }
    }
}

/// A clock past the end must not wrap round to the first slots.
#[test]
fn a_now_past_the_end_does_not_wrap() {
    for layout in splits() {
        for now in [Tick::END, Tick(1 << 43), Tick(1 << 63), Tick(u64::MAX)] {
            let mut slots = Slots::new(layout.shard_bits(), Tick(0));
            assert_eq!(slots.reserve(now, 1, Tick(u64::MAX)), None, "{layout:?} at {now:?}");
        }
    }
}

#[test]
fn a_ceiling_bounds_what_is_taken() {
    let mut slots = Slots::new(2, Tick(0));
    assert_eq!(slots.room(Tick(10), Tick(13)), 12);
    assert_eq!(slots.reserve(Tick(10), 12, Tick(13)).map(|some| (some.first, some.len)), Some((Slot(40), 12)));
    assert_eq!(slots.reserve(Tick(10), 1, Tick(13)), None, "full to the brim");
    assert_eq!(slots.reserve(Tick(10), 1, Tick(5)), None, "a ceiling below the position");
    assert_eq!(slots.reserve(Tick(10), 5, Tick(14)), None, "whole or none");
    assert_eq!(slots.position(), Tick(13));
    slots.reserve(Tick(10), 1, Tick(14)).expect("room for one");
    assert_eq!(slots.position(), Tick(14), "a tick partly used is used");
    assert_eq!(slots.reserve(Tick(20), 1, Tick(21)).expect("room").first, Slot(80), "time moves on");
}
