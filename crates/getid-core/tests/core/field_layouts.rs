//! Layouts of any fields: numbers are composed and split, grow with slots, carry as large integers do, and end at the
//! right place. The unnamed generator's layout is one of them.

use getid_core::server::{Composer, request_bits};
use getid_core::{Epoch, Field, FieldLayout, FieldsError, Number, Parts, RandomCycle, Role, Scheme, Slot, Tick, Unit};
use proptest::prelude::*;

use crate::random::Random;
use crate::support::splits;

/// A valid layout with values for its fields.
#[derive(Clone, Debug)]
struct AnyLayout {
    layout: FieldLayout,
    server_id: u32,
    drawn: u64,
    requests: Vec<u64>,
    seed: u64,
}

impl AnyLayout {
    fn of(seed: u64) -> AnyLayout {
        let mut random = Random(seed);
        let mut left = 160;
        let mut take = |random: &mut Random, max: u32| {
            let bits = u32::try_from(random.within(1, u64::from(max.min(left.min(64)).max(1)))).unwrap();
            left = left.saturating_sub(bits);
            bits
        };
        let mut fields = Vec::new();
        let mut add = |name: &str, bits, role| fields.push(Field { name: name.to_owned(), bits, role });
        if random.one_in(4) {
            add("zeros", take(&mut random, 3), Role::Constant(0));
        }
        let time_bits = take(&mut random, 64);
        add("time", time_bits, Role::Time);
        let mut low: Vec<(&str, u32, Role)> = Vec::new();
        if random.one_in(2) {
            let bits = take(&mut random, 9);
            low.push(("constant", bits, Role::Constant(random.below(1 << bits))));
        }
        for (name, role, max) in [
            ("server-id", Role::Server, 12),
            ("worker", Role::Server, 7),
            ("drawn", Role::Drawn, 14),
            ("request", Role::Request, 12),
            ("other", Role::Request, 3),
        ] {
            if random.one_in(3) {
                low.push((name, take(&mut random, max), role));
            }
        }
        if time_bits < 64 && random.one_in(2) {
            low.push(("counter", take(&mut random, 64 - time_bits), Role::Counter));
        }
        for place in (1..low.len()).rev() {
            low.swap(place, random.index(place + 1));
        }
        let counter = low.iter().position(|(.., role)| *role == Role::Counter).map_or(0, |place| place + 1);
        for (name, role, max) in [("random", Role::Random, 6), ("noise", Role::Noise, 64)] {
            if random.one_in(3) {
                let place = counter + random.index(low.len() + 1 - counter);
                low.insert(place, (name, take(&mut random, max), role));
            }
        }
        for (name, bits, role) in low {
            add(name, bits, role);
        }
        let unit =
            Unit::from_ns(random.pick(&[100, 1000, 1_000_000, 10_000_000, 1_000_000_000, 86_400_000_000_000])).unwrap();
        let epoch = random.pick(&[-12_219_292_800_000, -1, 0, 1_420_041_600_000]);
        let layout = FieldLayout::new(fields, epoch, unit).unwrap_or_else(|errors| panic!("{seed}: {errors:?}"));
        let server_bits = layout.bits_of(Role::Server);
        let server_id = u32::try_from(random.below(1 << server_bits)).unwrap();
        let requests = layout.fields().iter().filter(|field| field.role == Role::Request);
        let requests: Vec<_> = requests.map(|field| random.below(1 << field.bits)).collect();
        let drawn = layout.field("drawn").map_or(0, |field| random.below(1 << field.bits));
        AnyLayout { layout, server_id, drawn, requests, seed: random.next() }
    }

    fn composer(&self) -> Composer {
        let period = 1 << self.layout.bits_of(Role::Random);
        let cycle = RandomCycle::new(Random(self.seed).permutation(period));
        Composer::new(&self.layout, self.server_id, |_| Some(self.drawn), cycle).unwrap()
    }

    fn number(&self, slot: u64, count: u64, noise: u128) -> Number {
        self.composer().number(slot, count, noise, request_bits(&self.layout, &self.requests).unwrap())
    }

    fn slots(&self) -> u128 {
        1 << (self.layout.time_bits() + self.layout.counter_bits())
    }

    fn field(&self, name: &str, number: Number) -> Option<u128> {
        let (field, shift) = self.layout.places().find(|(field, _)| field.name == name)?;
        Some(FieldLayout::value(field, shift, number))
    }
}

fn any_layout() -> impl Strategy<Value = AnyLayout> {
    any::<u64>().prop_map(AnyLayout::of)
}

proptest! {
    #[test]
    fn what_is_composed_is_what_is_read(any in any_layout(), slot: u64, count: u64, noise: u128) {
        let slot = u64::try_from(u128::from(slot) % any.slots()).unwrap();
        let number = any.number(slot, count, noise);
        prop_assert!(number >> any.layout.bits() == 0);
        let (mut server, mut requests) = (0, any.requests.iter());
        for (field, shift) in any.layout.places() {
            let value = FieldLayout::value(field, shift, number);
            let expected = match field.role {
                Role::Time => u128::from(slot).checked_shr(any.layout.counter_bits()).unwrap_or(0),
                Role::Counter => u128::from(slot) % (1 << field.bits),
                Role::Constant(value) => value.into(),
                Role::Drawn => any.drawn.into(),
                Role::Request => u128::from(*requests.next().unwrap()),
                Role::Noise => noise % (1 << field.bits),
                Role::Random => {
                    let values = Random(any.seed).permutation(1 << field.bits);
                    values[usize::try_from(count % (1 << field.bits)).unwrap()].into()
                }
                Role::Server => {
                    server = server << field.bits | value;
                    continue;
                }
            };
            prop_assert_eq!(value, expected, "{}", field.name);
        }
        if any.layout.bits_of(Role::Server) > 0 {
            prop_assert_eq!(server, u128::from(any.server_id));
        }
        prop_assert_eq!(any.layout.tick_of(number), Some(u64::try_from(any.field("time", number).unwrap()).unwrap()));
    }

    /// Random and request fields may have any values, if they are equal in both numbers.
    #[test]
    fn numbers_are_in_the_order_of_their_slots(
        any in any_layout(), slots: (u64, u64), counts: (u64, u64), noise: (u128, u128), near: bool,
    ) {
        let slot = |slot: u64| u64::try_from(u128::from(slot) % any.slots()).unwrap();
        let (first, mut second) = (slot(slots.0), slot(slots.1));
        if near {
            second = slot(first.wrapping_add(1 + slots.1 % 3));
        }
        prop_assume!(first != second);
        let (low, high) = (first.min(second), first.max(second));
        prop_assert!(any.number(low, counts.0, noise.0) < any.number(high, counts.1, noise.1));
    }

    /// In later units the order holds for any values of the request.
    #[test]
    fn numbers_of_later_units_are_larger_whatever_is_asked(any in any_layout(), slot: u64, requests: Vec<u64>) {
        let bits = any.layout.counter_bits();
        let slot = u64::try_from(u128::from(slot) % any.slots()).unwrap();
        prop_assume!(any.layout.last_tick() > 0);
        let tick = (slot >> bits).min(any.layout.last_tick() - 1);
        let mut other = any.clone();
        for (value, new) in other.requests.iter_mut().zip(requests) {
            *value = new % (*value + 1);
        }
        let last = tick << bits | ((1_u64 << bits) - 1);
        prop_assert!(any.number(last, 0, u128::MAX) < other.number((tick + 1) << bits, 0, 0));
    }

    /// The last value of the counter is followed by the first one of the next unit, as in a number of two digits.
    #[test]
    fn a_counter_carries_as_a_large_integer(any in any_layout(), slot: u64, n: u32) {
        let slot = u128::from(slot) % any.slots();
        prop_assume!(slot + u128::from(n) < any.slots());
        let values = 1_u128 << any.layout.counter_bits();
        let (tick, counter) = (slot / values, slot % values);
        let sum = counter + u128::from(n);
        let number = any.number(u64::try_from(slot + u128::from(n)).unwrap(), 0, 0);
        prop_assert_eq!(any.field("time", number).unwrap(), tick + sum / values);
        prop_assert_eq!(any.field("counter", number).unwrap_or(0), sum % values);
    }

    #[test]
    fn a_time_ends_with_its_last_unit(any in any_layout(), before: u64) {
        let layout = &any.layout;
        let last = layout.last_tick();
        let number = any.number(u64::try_from(any.slots() - 1).unwrap(), 0, 0);
        prop_assert_eq!(layout.tick_of(number), Some(last));
        let begin_ns = layout.unix_ns(last);
        let unit_ns = i128::from(layout.unit().ns());
        prop_assert_eq!(layout.tick_at(begin_ns), Some(last));
        prop_assert_eq!(layout.tick_at(begin_ns + unit_ns - 1), Some(last));
        prop_assert_eq!(layout.tick_at(begin_ns + unit_ns), None);
        prop_assert_eq!(layout.tick_at(layout.unix_ns(0) - 1), None);
        prop_assert_eq!(layout.tick_at(layout.unix_ns(0)), Some(0));
        let end_ms = i64::try_from((begin_ns + unit_ns).div_euclid(1_000_000)).unwrap_or(i64::MAX);
        prop_assert_eq!(layout.end_unix_ms(), end_ms);
        let tick = before % last.max(1);
        prop_assert_eq!(layout.tick_at(layout.unix_ns(tick) + unit_ns / 2), Some(tick));
    }

    #[test]
    fn a_span_has_the_numbers_of_its_ticks(any in any_layout(), slot: u64, ends: (u64, u64), near: bool, noise: u128) {
        let slot = u64::try_from(u128::from(slot) % any.slots()).unwrap();
        let number = any.number(slot, 0, noise);
        let tick = any.layout.tick_of(number).unwrap();
        let (from, to) = if near { (tick.saturating_sub(ends.0 % 2), tick.wrapping_add(ends.1 % 2)) } else { ends };
        let last = any.layout.last_tick();
        let (low, high) = any.layout.span(from, to).unwrap();
        prop_assert_eq!((low..=high).contains(&number), (from.min(last)..=to.min(last)).contains(&tick));
    }

    /// A layout is refused exactly if it breaks one of the rules, each checked here separately.
    #[test]
    fn layouts_are_right_by_the_rules(seed: u64) {
        let mut random = Random(seed);
        let mut fields = AnyLayout::of(random.next()).layout.fields().to_vec();
        for _ in 0..random.below(3) {
            let place = random.index(fields.len());
            match random.below(5) {
                0 => fields[place].bits = u32::try_from(random.below(140)).unwrap(),
                1 => fields.push(fields[place].clone()),
                2 => {
                    let other = random.index(fields.len());
                    fields.swap(place, other);
                }
                3 => fields[place].role = random.pick(&[Role::Time, Role::Noise, Role::Constant(3), Role::Counter]),
                _ => fields[place].name = "time".to_owned(),
            }
        }
        let at = |role| fields.iter().position(|field| field.role == role);
        let sum = |is_in: fn(&Field) -> bool| fields.iter().filter(|field| is_in(field)).map(|field| field.bits).sum::<u32>();
        let max = |role| match role {
            Role::Counter => 63,
            Role::Random => 21,
            Role::Noise => 128,
            _ => 64,
        };
        let is_right = fields.iter().enumerate().all(|(index, field)| {
            let is_above_time = at(Role::Time).is_some_and(|time| index < time);
            let is_above_counter = at(Role::Counter).is_some_and(|counter| index < counter);
            let is_single = |role| fields.iter().filter(|field| field.role == role).count() <= 1;
            (1..=max(field.role)).contains(&field.bits)
                && fields.iter().filter(|other| other.name == field.name).count() == 1
                && [Role::Time, Role::Counter, Role::Random, Role::Noise].into_iter().all(is_single)
                && match field.role {
                    Role::Constant(value) => (field.bits >= 64 || value >> field.bits == 0) && (!is_above_time || value == 0),
                    Role::Time => true,
                    Role::Random | Role::Noise => !is_above_time && !is_above_counter,
                    _ => !is_above_time,
                }
        });
        let is_right = is_right && sum(|_| true) <= 160 && sum(|f| matches!(f.role, Role::Time | Role::Counter)) <= 64;
        let made = FieldLayout::new(fields.clone(), 0, Unit::MS);
        prop_assert_eq!(made.is_ok(), is_right, "{:?}: {:?}", fields, made);
    }
}

#[test]
fn errors_of_fields_are_reported_together() {
    let field = |name: &str, bits, role| Field { name: name.to_owned(), bits, role };
    let fields = vec![
        field("a", 1, Role::Constant(2)),
        field("a", 0, Role::Server),
        field("time", 60, Role::Time),
        field("clock", 40, Role::Time),
        field("counter", 10, Role::Counter),
    ];
    let errors = FieldLayout::new(fields, 0, Unit::MS).unwrap_err();
    let sentences: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        sentences,
        [
            "a is 2, must be 0 to 1: the field has 1 bits",
            "'a' has 0 bits, must have 1 to 64",
            "the field 'a' is there twice, must be there once",
            "'clock' has the same role as 'time', must be the only time, counter, random or noise of the layout",
            "time and counter have 110 bits together, must have at most 64",
        ]
    );
    assert!(matches!(errors[3], FieldsError::Second { .. }));
}

#[test]
fn a_composer_refuses_what_does_not_fit() {
    let layout = crate::support::declared("t fork").layout().clone();
    let cycle = |bits: u32| RandomCycle::new((0..1 << bits).collect());
    assert!(Composer::new(&layout, 3, |_| None, cycle(10)).is_some());
    assert!(Composer::new(&layout, 4, |_| None, cycle(10)).is_none(), "a server-id past its bits");
    assert!(Composer::new(&layout, 3, |_| None, cycle(9)).is_none(), "a shorter cycle");
    assert!(Composer::new(&layout, 3, |_| None, None).is_none(), "no cycle");
    let drawn = crate::support::declared("t objectid").layout().clone();
    assert!(Composer::new(&drawn, 0, |_| Some(1 << 40), None).is_none(), "a drawn value past its bits");
    assert!(Composer::new(&drawn, 0, |_| None, None).is_none(), "no drawn value");
    let lua = crate::support::declared("t redis-lua").layout().clone();
    assert_eq!(request_bits(&lua, &[4095]), Some(Number::new(4095 << 10)));
    for values in [&[4096][..], &[], &[1, 2]] {
        assert_eq!(request_bits(&lua, values), None, "{values:?}");
    }
}

#[test]
fn a_slot_means_nothing_without_a_time() {
    let layout = crate::support::declared("t uuid4").layout().clone();
    let composer = Composer::new(&layout, 0, |_| None, None).unwrap();
    assert_eq!(composer.number(u64::MAX, 0, 5, Number::ZERO), 5, "all bits are noise");
}

#[test]
fn the_unnamed_layout_is_one_of_them() {
    let mut random = Random(21);
    for layout in splits() {
        let fields = FieldLayout::from(layout);
        assert_eq!((fields.bits(), fields.time_bits(), fields.unit()), (63, 42, Unit::MS));
        assert_eq!(fields.counter_bits(), layout.shard_bits());
        assert_eq!(fields.capacity_per_s(), Some(layout.capacity_per_s()));
        assert_eq!(fields.epoch_unix_ms(), layout.first_unix_ms());
        assert_eq!(fields.end_unix_ms(), layout.last_unix_ms() + 1);
        let scheme = crate::support::scheme(layout, &mut random);
        let cycle = RandomCycle::new((0..scheme_period(&scheme)).map(|n| scheme_value(&scheme, n)).collect());
        let composer = Composer::new(&fields, scheme.server_id(), |_| None, cycle).unwrap();
        for _ in 0..50 {
            let slot = random.below(1 << (42 + layout.shard_bits()));
            let count = random.next();
            let id = scheme.id(Slot(slot), count);
            let number = composer.number(slot, count, 0, Number::ZERO);
            assert_eq!(number, u128::from(id.get()));
            let parts = layout.split(id);
            let value = |name: &str| {
                let place = fields.places().find(|(field, _)| field.name == name);
                place.map_or(0, |(field, shift)| u32::try_from(FieldLayout::value(field, shift, number)).unwrap())
            };
            let read = Parts {
                tick: Tick(fields.tick_of(number).unwrap()),
                server: value("server-id"),
                shard: value("counter"),
                random: value("random"),
            };
            assert_eq!(read, parts);
            let (from, to) = (random.below(1 << 43), random.below(1 << 43));
            let (low, high) = layout.span(Tick(from), Tick(to));
            assert_eq!(fields.span(from, to), Some((low.get().into(), high.get().into())));
            let unix_ms = parts.tick.unix_ms(layout.epoch());
            assert_eq!(
                fields.tick_at(i128::from(unix_ms) * 1_000_000),
                layout.epoch().tick_at(unix_ms).map(|tick| tick.0)
            );
        }
    }
    let kind = crate::support::declared("t fork");
    assert_eq!(FieldLayout::from(getid_core::Layout::default()), *kind.layout());
    assert_eq!(Epoch::DEFAULT.unix_ms().cast_signed(), kind.layout().epoch_unix_ms());
}

fn scheme_period(scheme: &Scheme) -> u32 {
    1 << scheme.layout().random_bits()
}

fn scheme_value(scheme: &Scheme, count: u32) -> u32 {
    scheme.layout().split(scheme.id(Slot(0), count.into())).random
}
