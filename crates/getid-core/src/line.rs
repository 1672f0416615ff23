//! A line: the position of one named generator, in its own units, under the R, B and watermark that all generators
//! share.
//!
//! [`crate::slots`] counts whole ms since the server's epoch, and must stay cheap. A line has its own epoch, unit and
//! widths, so it does the same in general: `first = max(next, now << counter_bits)`, where `now` is the unit that R
//! lies in. The bounds come from the mint as ticks of the server, and a slot lies below a bound if its unit *begins*
//! before it. So a unit that has begun may be used whole, however long it is, and a unit of a second has the same rules
//! as one of 100 ns:
//!
//! - A slot is given only if its unit begins before the watermark and before R + B.
//! - A start at P begins with the first unit that begins at or after P.
//! - The position that is saved is the first ms after the beginning of the last unit that was used.
//!
//! Together: a unit that one life used begins before P, and no later life uses it.
//!
//! Instants are counted in steps of 100 ns since the line's epoch. In an `i64` they reach 29,000 years to either side,
//! from the year 1582 of UUIDs to the end of any server's time.
//!
//! [`crate::mint`] has the bounds, and the refusals at a bound.

use crate::checks::{Fault, planted};
use crate::scheme::Reservation;
use crate::time::{Epoch, Slot, Tick};

const STEP_NS: u64 = 100;
const STEPS_PER_MS: i64 = 10_000;

/// Largest distance of an epoch from 1970, ms: it covers the years 0 to 9999 and more.
const EPOCH_MS_MAX: u64 = 1 << 48;

/// The time and the counter of one named generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineSpec {
    /// Epoch of its units, Unix time in ms; within 2^48 ms of 1970.
    pub epoch_unix_ms: i64,
    /// Length of its unit, ns: a multiple of 100, at least 100.
    pub unit_ns: u64,
    /// Width of the time field, bits, 1..=64.
    pub time_bits: u32,
    /// Width of the counter, bits; with the time at most 64.
    pub counter_bits: u32,
    /// Highest random start of a unit that was not borrowed; 0: units start at 0.
    pub counter_start: u64,
    /// Random seed of these starts, different in each life.
    pub seed: u64,
}

/// Next slot and number of IDs given. A slot is `unit << counter_bits | counter`.
///
/// Invariant: `next` only grows while IDs are given; every slot given lies below `next` and below `end`.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    spec: LineSpec,
    /// Length of the unit, in steps.
    unit: u64,
    /// Server's epoch, in steps since the line's.
    origin: i64,
    /// First unit that no ID can carry, by this layout or by the end of the server's time.
    end: u64,
    next: u64,
    count: u64,
    /// Largest reservation: half of B.
    piece_max: u32,
}

impl Line {
    /// Creates a line of a server whose ticks count from `server_epoch`. [`Line::start_at`] sets its position.
    ///
    /// # Panics
    ///
    /// Panics if a number is out of the range of [`LineSpec`]: the declaration was checked.
    pub(crate) fn new(spec: LineSpec, server_epoch: Epoch) -> Line {
        assert!(spec.epoch_unix_ms.unsigned_abs() <= EPOCH_MS_MAX, "an epoch that can be written");
        assert!(spec.unit_ns >= STEP_NS && spec.unit_ns.is_multiple_of(STEP_NS), "a unit of whole steps");
        let widths_fit = (1..=64).contains(&spec.time_bits) && spec.counter_bits <= 64 - spec.time_bits;
        assert!(widths_fit, "time and counter in 64 bits");
        let counter_max = (1_u64 << spec.counter_bits) - 1;
        let spec = LineSpec { counter_start: spec.counter_start.min(counter_max), ..spec };
        // Both are below 2^48 ms and a bit: the difference fits.
        let origin = (server_epoch.unix_ms().cast_signed() - spec.epoch_unix_ms) * STEPS_PER_MS;
        let mut line =
            Line { spec, unit: spec.unit_ns / STEP_NS, origin, end: u64::MAX, next: 0, count: 0, piece_max: 1 };
        // A layout of 64 bits does not use its last unit, so that the slot after the last one can be counted.
        let units = if spec.time_bits == 64 { u64::MAX } else { 1 << spec.time_bits };
        line.end = units.min(u64::MAX >> spec.counter_bits).min(line.first_unit_from(line.steps(Tick::END)));
        line
    }

    /// Returns a tick of the server, in steps since this line's epoch.
    fn steps(&self, tick: Tick) -> i64 {
        tick.0.cast_signed() * STEPS_PER_MS + self.origin
    }

    /// Returns R, in steps since this line's epoch; `None` before it.
    #[inline]
    fn now(&self, now_ns: u64) -> Option<u64> {
        let now = (now_ns / STEP_NS).cast_signed() + self.origin;
        u64::try_from(now).ok()
    }

    /// Returns the first unit that begins at or after `steps`.
    fn first_unit_from(&self, steps: i64) -> u64 {
        let steps = u64::try_from(steps).unwrap_or(0);
        if planted(Fault::LineStartsInsideAUnit) { steps / self.unit } else { steps.div_ceil(self.unit) }
    }

    /// Returns true if R has not reached this line's epoch.
    pub(crate) fn is_before_epoch(&self, now_ns: u64) -> bool {
        self.now(now_ns).is_none()
    }

    /// Returns the first slot of a draw, `now` in steps.
    #[inline]
    fn first(&self, now: u64) -> u64 {
        let unit = (now / self.unit).min(self.end);
        let begin = unit << self.spec.counter_bits;
        if self.next > begin && !planted(Fault::ForgetsNext) {
            return self.next;
        }
        begin + self.counter_start(unit)
    }

    /// Returns the first counter of a unit that was not borrowed. It depends on the unit only, so that repeated calls
    /// agree.
    #[inline]
    fn counter_start(&self, unit: u64) -> u64 {
        if self.spec.counter_start == 0 || unit == self.end {
            return 0;
        }
        scrambled(unit ^ self.spec.seed) % (self.spec.counter_start + 1)
    }

    /// Reserves all `n` slots, in units that begin before `ceiling`, or none.
    #[inline]
    pub(crate) fn reserve(&mut self, now_ns: u64, n: u32, ceiling: Tick) -> Option<Reservation> {
        let first = self.first(self.now(now_ns)?);
        let next = first.checked_add(u64::from(n))?;
        let last = (next - 1) >> self.spec.counter_bits;
        // A unit below the end begins before it, so its steps do not overflow either.
        if last >= self.end || (last * self.unit).cast_signed() >= self.steps(ceiling) {
            return None;
        }
        let reservation = Reservation { first: Slot(first), count: self.count, len: n };
        self.next = next;
        self.count += u64::from(n);
        Some(reservation)
    }

    /// Returns how many slots a draw could have in units that begin before `ceiling`; 0 before the epoch.
    pub(crate) fn room(&self, now_ns: u64, ceiling: Tick) -> u64 {
        let Some(now) = self.now(now_ns) else { return 0 };
        let steps = u64::try_from(self.steps(ceiling)).unwrap_or(0);
        let end = steps.div_ceil(self.unit).min(self.end) << self.spec.counter_bits;
        end.saturating_sub(self.first(now))
    }

    /// Returns the beginning of the unit in which a draw of `n` ends, rounded down to whole ms: a bound has to be
    /// later.
    pub(crate) fn begin_with(&self, now_ns: u64, n: u32) -> Tick {
        let first = self.first(self.now(now_ns).unwrap_or(0));
        self.begin_of(first.saturating_add(u64::from(n.saturating_sub(1))) >> self.spec.counter_bits, 0)
    }

    /// Returns the first ms after the beginning of the last unit that was used.
    #[inline]
    pub(crate) fn position(&self) -> Tick {
        let after_ms = i64::from(!planted(Fault::LinePositionRoundsDown));
        self.begin_of(self.next.saturating_sub(1) >> self.spec.counter_bits, after_ms)
    }

    /// Returns the beginning of a unit, rounded down to whole ms, plus `and_ms`.
    #[inline]
    fn begin_of(&self, unit: u64, and_ms: i64) -> Tick {
        let begin = (unit.min(self.end) * self.unit).cast_signed() - self.origin;
        let tick = begin.div_euclid(STEPS_PER_MS) + and_ms;
        Tick(u64::try_from(tick).unwrap_or(0)).min(Tick::END)
    }

    /// Returns how far the unit of the next slot begins after `tick`, ms, rounded up.
    pub(crate) fn ahead_ms(&self, tick: Tick) -> u64 {
        let begin = ((self.next >> self.spec.counter_bits) * self.unit).cast_signed();
        u64::try_from(begin - self.steps(tick)).unwrap_or(0).div_ceil(STEPS_PER_MS.unsigned_abs())
    }

    /// Moves the position up or down. Only before the first ID.
    pub(crate) fn start_at(&mut self, position: Tick) {
        assert!(self.count == 0, "the position moves freely only before the first id");
        self.next = 0;
        self.skip_to(position);
    }

    /// Moves the position up to the first unit that begins at or after `position`, never down. Allowed at any time.
    pub(crate) fn skip_to(&mut self, position: Tick) {
        let unit = self.first_unit_from(self.steps(position)).min(self.end);
        self.next = self.next.max(unit << self.spec.counter_bits);
    }

    /// Returns the number of slots in `ms`, in whole units, at least one.
    pub(crate) fn slots_in(&self, ms: u64) -> u32 {
        let units = (ms.saturating_mul(STEPS_PER_MS.unsigned_abs()) / self.unit).max(1);
        let slots = u128::from(units) << self.spec.counter_bits;
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// Limits reservations to half of B.
    pub(crate) fn limit_pieces(&mut self, max_borrow_ms: u64) {
        self.piece_max = self.slots_in(max_borrow_ms / 2);
    }

    /// Returns the largest reservation.
    #[inline]
    pub(crate) fn piece_max(&self) -> u32 {
        self.piece_max
    }

    /// Returns the first slot that was not given; the clock may already be past it.
    pub(crate) fn next(&self) -> Slot {
        Slot(self.next)
    }

    /// Returns the number of IDs given so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the epoch of its units, Unix ms.
    pub(crate) fn epoch_unix_ms(&self) -> i64 {
        self.spec.epoch_unix_ms
    }

    /// Returns its capacity of IDs a second without borrowing.
    pub(crate) fn capacity_per_s(&self) -> u64 {
        let per_s = (1_000_000_000_u128 << self.spec.counter_bits) / u128::from(self.spec.unit_ns);
        u64::try_from(per_s).unwrap_or(u64::MAX)
    }

    /// Returns the last instant that an ID can carry, Unix ms: the beginning of the last unit.
    pub(crate) fn last_unix_ms(&self) -> i64 {
        let begin_steps = (i128::from(self.end) - 1) * i128::from(self.unit);
        let unix_ms = begin_steps.div_euclid(i128::from(STEPS_PER_MS)) + i128::from(self.spec.epoch_unix_ms);
        i64::try_from(unix_ms).unwrap_or(i64::MAX)
    }
}

/// Hashes a number: every bit of the result depends on every bit of `value` (the finalizer of `SplitMix64`).
#[inline]
fn scrambled(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::slots::Slots;

    /// 2026-01-01, in ticks of the default epoch.
    const T0: u64 = 347_155_200_000;
    const MS: u64 = 1_000_000;

    fn spec(epoch_unix_ms: i64, unit_ns: u64, time_bits: u32, counter_bits: u32) -> LineSpec {
        LineSpec { epoch_unix_ms, unit_ns, time_bits, counter_bits, counter_start: 0, seed: 7 }
    }

    fn line(spec: LineSpec) -> Line {
        Line::new(spec, Epoch::DEFAULT)
    }

    /// Generates layouts of real kinds, and any others.
    fn specs() -> impl Strategy<Value = LineSpec> {
        let known = prop_oneof![
            Just(spec(-12_219_292_800_000, 100, 60, 0)),
            Just(spec(0, 1_000_000, 48, 12)),
            Just(spec(0, 1_000_000_000, 32, 24)),
            Just(spec(1_288_834_974_657, 1_000_000, 41, 12)),
            Just(spec(1_409_529_600_000, 10_000_000, 39, 8)),
        ];
        let epochs = prop_oneof![0..2_000_000_000_000_i64, -(1_i64 << 48)..=1_i64 << 48];
        let units = prop_oneof![1..10_u64, Just(10_000), Just(10_000_000), 1..1_000_000_000_u64];
        let any = (epochs, units, 1..=64_u32, 0..=64_u32)
            .prop_map(|(epoch, unit, time, counter)| spec(epoch, unit * 100, time, counter.min(64 - time)));
        prop_oneof![known, any]
    }

    #[derive(Clone, Copy, Debug)]
    struct LineDraw {
        passed_ns: u64,
        n: u32,
        /// Distance of the ceiling ahead of the whole ms of R.
        ceiling_ms: u64,
        skip_ms: Option<u64>,
    }

    fn asks() -> impl Strategy<Value = Vec<LineDraw>> {
        let passed = prop_oneof![Just(0), 0..1000_u64, 0..3 * MS, 0..5000 * MS];
        let n = prop_oneof![Just(1_u32), 1..100_u32, 1..1_000_000_u32, Just(u32::MAX)];
        let skip = prop_oneof![9 => Just(None), 1 => (0..10_000_u64).prop_map(Some)];
        let ask = (passed, n, 0..5000_u64, skip).prop_map(|(passed_ns, n, ceiling_ms, skip_ms)| LineDraw {
            passed_ns,
            n,
            ceiling_ms,
            skip_ms,
        });
        prop::collection::vec(ask, 1..60)
    }

    /// Model of a line in integers that never overflow, with instants in ns since 1970.
    struct Model {
        spec: LineSpec,
        next: i128,
    }

    impl Model {
        fn unix_ns(tick: Tick) -> i128 {
            (i128::from(Epoch::DEFAULT.unix_ms()) + i128::from(tick.0)) * i128::from(MS)
        }

        fn begin_ns(&self, slot: i128) -> i128 {
            (slot >> self.spec.counter_bits) * i128::from(self.spec.unit_ns) + self.epoch_ns()
        }

        fn epoch_ns(&self) -> i128 {
            i128::from(self.spec.epoch_unix_ms) * i128::from(MS)
        }

        fn unit_from(&self, tick: Tick) -> i128 {
            let since = (Model::unix_ns(tick) - self.epoch_ns()).max(0);
            let unit = i128::from(self.spec.unit_ns);
            (since + unit - 1) / unit
        }

        fn skip_to(&mut self, tick: Tick) {
            self.next = self.next.max(self.unit_from(tick) << self.spec.counter_bits);
        }

        fn reserve(&mut self, now_ns: u64, n: u32, ceiling: Tick) -> Option<i128> {
            let since = Model::unix_ns(Tick(0)) + i128::from(now_ns) - self.epoch_ns();
            if since < 0 {
                return None;
            }
            let first = self.next.max((since / i128::from(self.spec.unit_ns)) << self.spec.counter_bits);
            let last = first + i128::from(n) - 1;
            let in_layout = last >> (self.spec.time_bits + self.spec.counter_bits) == 0;
            // A layout of 64 bits does not use its last unit.
            let in_number = (last >> self.spec.counter_bits) < i128::from(u64::MAX >> self.spec.counter_bits);
            let in_time = self.begin_ns(last) < Model::unix_ns(ceiling.min(Tick::END));
            (in_layout && in_number && in_time).then(|| {
                self.next = last + 1;
                first
            })
        }
    }

    proptest! {
        #[test]
        fn a_line_is_the_big_integer_model(spec in specs(), start in 0..2 * T0, asks in asks()) {
            let (mut line, mut model) = (line(spec), Model { spec, next: 0 });
            line.start_at(Tick(start));
            model.skip_to(Tick(start));
            let mut now_ns = (start - start.min(3000)) * MS;
            for LineDraw { passed_ns, n, ceiling_ms, skip_ms } in asks {
                now_ns += passed_ns;
                let ceiling = Tick(now_ns / MS + ceiling_ms);
                if let Some(ms) = skip_ms {
                    line.skip_to(Tick(now_ns / MS).plus_ms(ms));
                    model.skip_to(Tick(now_ns / MS).plus_ms(ms));
                }
                let room = line.room(now_ns, ceiling);
                let with = line.begin_with(now_ns, n);
                let given = line.reserve(now_ns, n, ceiling);
                prop_assert_eq!(given.map(|given| i128::from(given.first.0)), model.reserve(now_ns, n, ceiling));
                prop_assert_eq!(given.is_some(), room >= u64::from(n));
                if given.is_some() {
                    // The position is the first ms after the beginning of the last unit: the saved watermark is larger,
                    // and no later start uses that unit.
                    let (position, begin_ns) = (line.position(), model.begin_ns(model.next - 1));
                    prop_assert!(position <= ceiling && (position == with || position == Tick(with.0 + 1)));
                    prop_assert!(Model::unix_ns(position) > begin_ns || begin_ns < Model::unix_ns(Tick(0)));
                    prop_assert!(position == Tick(0) || Model::unix_ns(position) - i128::from(MS) <= begin_ns);
                    prop_assert!(model.unit_from(position) > (model.next - 1) >> spec.counter_bits);
                }
            }
        }

        /// A line with the unnamed generator's epoch, unit and widths behaves as `Slots`.
        #[test]
        fn a_line_of_the_unnamed_generators_layout_is_slots(
            counter_bits in 0..=21_u32,
            start in prop_oneof![T0..T0 + 5000, Tick::END.0 - 5000..=Tick::END.0],
            asks in asks()
        ) {
            let epoch_unix_ms = Epoch::DEFAULT.unix_ms().cast_signed();
            let mut line = line(spec(epoch_unix_ms, MS, 42, counter_bits));
            let mut slots = Slots::new(counter_bits, Tick(start));
            line.start_at(Tick(start));
            let mut now_ns = (start - 3000) * MS;
            for LineDraw { passed_ns, n, ceiling_ms, skip_ms } in asks {
                now_ns += passed_ns;
                let now = Tick::of_ns(now_ns);
                if let Some(ms) = skip_ms {
                    line.skip_to(now.plus_ms(ms));
                    slots.skip_to(now.plus_ms(ms));
                }
                let ceiling = Tick(now.0 + ceiling_ms);
                prop_assert_eq!(line.room(now_ns, ceiling), slots.room(now, ceiling));
                prop_assert_eq!(line.ahead_ms(ceiling), slots.ahead_ms(ceiling));
                let given = slots.reserve(now, n, ceiling);
                prop_assert_eq!(line.reserve(now_ns, n, ceiling), given);
                prop_assert_eq!((line.next(), line.count()), (slots.next(), slots.given()));
                if given.is_some() {
                    prop_assert_eq!(line.position(), slots.position());
                }
            }
        }

        /// For any unit: a life that begins at the position of another uses none of its units, nor does one with an
        /// earlier epoch.
        #[test]
        fn the_next_life_begins_behind_the_last_unit(spec in specs(), asks in asks(), earlier_ms in 0..100_000_i64) {
            prop_assume!(spec.epoch_unix_ms - earlier_ms >= -(1 << 48));
            let mut line = line(spec);
            line.start_at(Tick(T0));
            let mut now_ns = T0 * MS;
            for LineDraw { passed_ns, n, ceiling_ms, .. } in asks {
                now_ns += passed_ns;
                line.reserve(now_ns, n, Tick(now_ns / MS + ceiling_ms));
            }
            prop_assume!(line.count() > 0);
            let mut later = Line::new(LineSpec { epoch_unix_ms: spec.epoch_unix_ms - earlier_ms, ..spec }, Epoch::DEFAULT);
            later.start_at(line.position());
            prop_assert!(later.next().0 >> spec.counter_bits > (line.next().0 - 1) >> spec.counter_bits
                || later.next().0 >> spec.counter_bits == later.end);
        }

        /// A unit begins with a counter of 0 up to N, unless it was borrowed; further draws in it continue.
        #[test]
        fn a_unit_begins_by_chance(counter_start in 1..16_u64, seed in any::<u64>(), asks in asks()) {
            let mut line = line(LineSpec { counter_start, seed, ..spec(0, 10 * MS, 40, 4) });
            line.start_at(Tick(T0));
            let mut now_ns = T0 * MS;
            let mut next = line.next().0;
            for LineDraw { passed_ns, n, ceiling_ms, .. } in asks {
                now_ns += passed_ns;
                let ceiling = Tick(now_ns / MS + ceiling_ms);
                let unit = line.now(now_ns).expect("after 1970") / line.unit;
                let room = line.room(now_ns, ceiling);
                let Some(given) = line.reserve(now_ns, n, ceiling) else {
                    prop_assert!(room < u64::from(n));
                    continue;
                };
                if next > unit << 4 {
                    prop_assert_eq!(given.first.0, next);
                } else {
                    prop_assert_eq!(given.first.0 >> 4, unit);
                    prop_assert!(given.first.0 & 15 <= counter_start);
                }
                next = given.first.0 + u64::from(n);
            }
        }
    }

    #[test]
    fn a_quiet_line_spreads_over_its_first_counters() {
        let mut line = line(LineSpec { counter_start: 9, ..spec(0, MS, 41, 7) });
        line.start_at(Tick(T0));
        let mut seen = [0_u32; 10];
        for ms in 0..10_000 {
            let given = line.reserve((T0 + ms) * MS, 1, Tick::END).expect("room");
            seen[usize::try_from(given.first.0 & 127).expect("small")] += 1;
        }
        // A thousand each, within five standard deviations.
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }

    #[test]
    fn the_last_unit_is_given_and_nothing_after_it() {
        // 2^10 units of 10 ms, with four IDs each, that end 50 ms after T0.
        let unix_ms = Tick(T0).unix_ms(Epoch::DEFAULT);
        let mut line = line(spec(unix_ms + 50 - 10_240, 10 * MS, 10, 2));
        assert_eq!(line.last_unix_ms(), unix_ms + 40);
        line.start_at(Tick(T0));
        let far = Tick(T0 + 1000);
        assert_eq!(line.room(T0 * MS, far), 20);
        assert_eq!(line.reserve(T0 * MS, 21, far), None);
        let last = line.reserve((T0 + 49) * MS, 4, far).expect("the last unit").first;
        assert_eq!(last, Slot(1023 << 2));
        assert_eq!((line.room((T0 + 49) * MS, far), line.reserve((T0 + 49) * MS, 1, far)), (0, None));
        assert_eq!((line.room((T0 + 50) * MS, far), line.reserve((T0 + 50) * MS, 1, far)), (0, None));
        assert_eq!(line.reserve(u64::MAX, 1, Tick(u64::MAX >> 20)), None, "at any later time");
    }

    #[test]
    fn the_servers_end_is_a_lines_end() {
        for counter_bits in [0, 4] {
            let mut line = line(spec(0, 1000 * MS, 64 - counter_bits, counter_bits));
            assert_eq!(line.last_unix_ms(), Tick::LAST.unix_ms(Epoch::DEFAULT) / 1000 * 1000);
            line.start_at(Tick::END);
            assert_eq!((line.room(Tick::LAST.0 * MS, Tick::END), line.begin_with(0, u32::MAX)), (0, Tick::END));
        }
    }

    #[test]
    fn before_its_epoch_a_line_has_nothing() {
        let unix_ms = Tick(T0).unix_ms(Epoch::DEFAULT);
        let mut line = line(spec(unix_ms + 5, MS, 41, 3));
        line.start_at(Tick(T0 - 3000));
        let before_ns = (T0 + 5) * MS - 1;
        assert!(line.is_before_epoch(before_ns) && !line.is_before_epoch(before_ns + 1));
        assert_eq!((line.room(before_ns, Tick::END), line.reserve(before_ns, 1, Tick::END)), (0, None));
        assert_eq!(line.reserve(before_ns + 1, 1, Tick::END).map(|given| given.first), Some(Slot(0)));
    }
}
