//! The current period of each serial number, by the server's reference clock.
//!
//! A period comes from R in the declared zone. It never goes back on a server, whatever happens to the clock or the
//! declared zone: the last stamp is kept by name.
//!
//! Elsewhere: the rows of periods, and the rule that none is begun long before or after its time ([`super::sequence`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use getid_core::server::checks::{Fault, planted};
use getid_core::server::{CivilTime, CounterDeclaration, CounterKind, Key, Reset, Serial, Spec};

use super::sequence::CounterOpening;
use getid_store::sql::SeriesBounds;
use getid_text::name_hash::hash_of;
use getid_text::zone::Zone;

/// Time before the begin of a period at which its sequence is fetched, ms.
const AHEAD_MS: i64 = 30_000;

/// Range over which the fetches of different names are spread, ms.
const SPREAD_MS: u64 = 20_000;

/// Time since its last use after which a counter is not prepared, ms.
const USED_WITHIN_MS: i64 = 3_600_000;

/// The sequence from which a counter draws.
#[derive(Clone, Debug)]
pub struct SerialCounter {
    /// Text of its key.
    pub key: Arc<str>,
    /// Hash of its key.
    pub hash: u64,
    /// Date parts that the template shows.
    pub stamp: CivilTime,
    /// Specification and time of its row's begin.
    pub counter_opening: CounterOpening,
}

impl SerialCounter {
    /// Returns the counter of one key of a generator with series, in the same period.
    pub(super) fn of_series(self, series: &str) -> SerialCounter {
        let (name, period) = self.key.split_once('@').unwrap_or((&self.key, ""));
        // A key was checked where it was read. An invalid one gives an error at the draw.
        let key: Arc<str> = Key::of(name, series, period).map_or_else(|| "/".into(), |key| key.as_str().into());
        SerialCounter { hash: hash_of(key.as_bytes()), key, ..self }
    }
}

/// All counters used in this life, by name.
#[derive(Debug, Default)]
pub(super) struct Periods(Mutex<HashMap<String, PeriodsState>>);

#[derive(Debug)]
struct PeriodsState {
    declaration: Arc<CounterDeclaration>,
    zone: Option<Zone>,
    counter: SerialCounter,
    /// End of the stamp's validity, Unix ms: the end of the hour.
    until_unix_ms: i64,
    used_unix_ms: i64,
}

impl Periods {
    /// Returns the sequence from which this counter draws now. Calls `now_unix_ms` only if the counter shows the time.
    ///
    /// # Errors
    ///
    /// The error of `now_unix_ms`.
    pub(super) fn at<E>(
        &self,
        declaration: &Arc<CounterDeclaration>,
        now_unix_ms: impl FnOnce() -> Result<i64, E>,
    ) -> Result<SerialCounter, E> {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = states.get_mut(declaration.name()).filter(|_| !planted(Fault::PeriodFollowsTheClock));
        let is_dated = matches!(declaration.kind(), CounterKind::Serial(serial) if serial.zone.is_some());
        let now_unix_ms = if is_dated { now_unix_ms()? } else { 0 };
        Ok(match known {
            Some(state) if Arc::ptr_eq(&state.declaration, declaration) => {
                if now_unix_ms >= state.until_unix_ms {
                    state.advance(now_unix_ms);
                }
                state.used_unix_ms = now_unix_ms;
                state.counter.clone()
            }
            _ => {
                let last = known.map(|state| state.counter.stamp);
                let state = PeriodsState::new(declaration, last, now_unix_ms);
                let counter = state.counter.clone();
                states.insert(declaration.name().to_owned(), state);
                counter
            }
        })
    }

    /// Returns the key of the sequence from which this counter drew last; `None` if it was not used in this life.
    pub(super) fn key_of(&self, name: &str) -> Option<Arc<str>> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.get(name).map(|state| Arc::clone(&state.counter.key))
    }

    /// Moves to a period that another server has begun, if it is later than this server's.
    pub(super) fn advance_to(&self, name: &str, period: &str) {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = states.get_mut(name) {
            state.advance_to(period);
        }
    }

    /// Returns the sequences of periods that begin soon, for counters in use.
    pub(super) fn coming(&self, now_unix_ms: i64) -> Vec<SerialCounter> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Numbers of a ledger are not fetched ahead. The next counters of keys are fetched when they are asked for, as
        // there may be many of them.
        let is_fetched =
            |state: &&PeriodsState| state.declaration.series().is_none() && state.declaration.gapless().is_none();
        let used = states.values().filter(is_fetched).filter(|state| {
            let is_used = now_unix_ms.saturating_sub(state.used_unix_ms) < USED_WITHIN_MS;
            // Spread over time, since many begin at midnight.
            let spread_ms = i64::try_from(hash_of(state.declaration.name().as_bytes()) % SPREAD_MS).unwrap_or(0);
            is_used && state.counter.counter_opening.until_unix_ms.saturating_sub(now_unix_ms) <= AHEAD_MS - spread_ms
        });
        let next = used.filter_map(|state| {
            let CounterKind::Serial(serial) = state.declaration.kind() else { return None };
            let stamp = state.zone.as_ref()?.stamp(state.counter.counter_opening.until_unix_ms);
            Some(counter(&state.declaration, serial, state.zone.as_ref(), stamp))
        });
        next.filter(|next| next.counter_opening.from_unix_ms > now_unix_ms).collect()
    }
}

impl PeriodsState {
    fn new(declaration: &Arc<CounterDeclaration>, last: Option<CivilTime>, now_unix_ms: i64) -> PeriodsState {
        let name = declaration.name();
        let (zone, counter, until_unix_ms) = match declaration.kind() {
            CounterKind::Sequence(_) => {
                let counter_opening = counter_opening(declaration, Spec::default(), (i64::MIN, i64::MAX));
                let counter = SerialCounter {
                    key: name.into(),
                    hash: hash_of(name.as_bytes()),
                    stamp: CivilTime::FIRST,
                    counter_opening,
                };
                (None, counter, i64::MAX)
            }
            CounterKind::Serial(serial) => {
                // The zone existed when the configuration was read.
                let zone = serial.zone.as_deref().and_then(|zone| Zone::named(zone).ok());
                let (stamp, until_unix_ms) = stamp(zone.as_ref(), now_unix_ms);
                let stamp = stamp.max(last.unwrap_or(stamp));
                (zone.clone(), counter(declaration, serial, zone.as_ref(), stamp), until_unix_ms)
            }
        };
        PeriodsState { declaration: Arc::clone(declaration), zone, counter, until_unix_ms, used_unix_ms: now_unix_ms }
    }

    fn advance(&mut self, now_unix_ms: i64) {
        let (stamp, until_unix_ms) = stamp(self.zone.as_ref(), now_unix_ms);
        self.until_unix_ms = until_unix_ms;
        if stamp > self.counter.stamp
            && let CounterKind::Serial(serial) = self.declaration.kind()
        {
            self.counter = counter(&self.declaration, serial, self.zone.as_ref(), stamp);
        }
    }

    /// Moves to this period, unless it is an earlier one.
    fn advance_to(&mut self, period: &str) {
        if let CounterKind::Serial(serial) = self.declaration.kind()
            && let Some(stamp) = serial.reset.first_of(period).filter(|stamp| *stamp > self.counter.stamp)
        {
            self.counter = counter(&self.declaration, serial, self.zone.as_ref(), stamp);
        }
    }
}

/// Returns the civil time, and the end of the hour in which it is the same.
fn stamp(zone: Option<&Zone>, now_unix_ms: i64) -> (CivilTime, i64) {
    let Some(zone) = zone else { return (CivilTime::FIRST, i64::MAX) };
    let stamp = zone.stamp(now_unix_ms);
    (stamp, zone.period(Reset::Hour, stamp).1)
}

fn counter(declaration: &CounterDeclaration, serial: &Serial, zone: Option<&Zone>, stamp: CivilTime) -> SerialCounter {
    let name = declaration.name();
    let period = serial.reset.period(stamp);
    let ends = zone.map_or((i64::MIN, i64::MAX), |zone| zone.period(serial.reset, stamp));
    // Keys are made of names and periods. An invalid key gives an error at the draw.
    let key = period.and_then(|period| Key::of_period(name, &period));
    let key: Arc<str> = key.as_ref().map_or(name, Key::as_str).into();
    let counter_opening = counter_opening(declaration, serial.spec(), ends);
    SerialCounter { hash: hash_of(key.as_bytes()), key, stamp, counter_opening }
}

fn counter_opening(
    declaration: &CounterDeclaration,
    spec: Spec,
    (from_unix_ms, until_unix_ms): (i64, i64),
) -> CounterOpening {
    let (text, reset) = (declaration.shared_text().into(), declaration.reset());
    let is_serial = matches!(declaration.kind(), CounterKind::Serial(_));
    let series =
        declaration.series().map(|rules| SeriesBounds { max: rules.keys_max.into(), may_begin: !rules.is_declared });
    CounterOpening { spec, declaration: text, reset, is_serial, from_unix_ms, until_unix_ms, series }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use getid_core::server::checks::plant;
    use getid_store::sql::{Generator, OpenPeriodRequest, Verdict};
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    const MIDNIGHT: i64 = 1_795_305_600_000;
    const HOUR: i64 = 3_600_000;

    fn declared(words: &str) -> Arc<CounterDeclaration> {
        let words: Vec<_> = words.split(' ').collect();
        Arc::new(CounterDeclaration::parse(&words, |_| Ok(())).unwrap().unwrap())
    }

    impl Periods {
        fn now(&self, declaration: &Arc<CounterDeclaration>, now_unix_ms: i64) -> SerialCounter {
            let Ok(counter) = self.at(declaration, || Ok::<_, Infallible>(now_unix_ms));
            counter
        }
    }

    #[test]
    fn a_period_never_goes_back() {
        let periods = Periods::default();
        let serial = declared("i serial {yyyyMMdd}-{n:6} zone UTC");
        let key = |now| periods.now(&serial, now).key.to_string();
        let first = key(MIDNIGHT - 1);
        let second = key(MIDNIGHT);
        assert!(first < second, "{first} {second}");
        assert_eq!(key(MIDNIGHT - 1), second);
        assert_eq!(key(MIDNIGHT - 30 * 24 * HOUR), second);
        // Another declaration of the name does not move the period back either.
        let changed = declared("i serial {yyyyMMdd}-{n:6} zone America/New_York");
        assert_eq!(periods.now(&changed, MIDNIGHT).key.to_string(), second);
        assert_eq!(periods.now(&changed, MIDNIGHT + 5 * HOUR).key.to_string(), second);
        assert!(periods.now(&changed, MIDNIGHT + 29 * HOUR).key.to_string() > second);
    }

    #[test]
    fn a_period_that_another_server_has_begun_is_continued_in() {
        let periods = Periods::default();
        let serial = declared("i serial {yyyyMMddHH}-{n:6} zone UTC reset month");
        let first = periods.now(&serial, MIDNIGHT);
        assert_eq!(&*first.key, "i@M20261101");
        for (period, key, day) in [
            ("M20261001", "i@M20261101", first.stamp.day),
            ("D20261201", "i@M20261101", first.stamp.day),
            ("other", "i@M20261101", first.stamp.day),
            ("M20261201", "i@M20261201", 1),
        ] {
            periods.advance_to("i", period);
            let counter = periods.now(&serial, MIDNIGHT);
            assert_eq!((&*counter.key, counter.stamp.day), (key, day), "{period}");
        }
        // The clock reaches that period later.
        assert_eq!(periods.now(&serial, MIDNIGHT + 13 * 24 * HOUR).stamp.day, 5);
        periods.advance_to("not-asked", "M20261201");
    }

    #[test]
    fn each_key_has_a_counter_in_the_period_of_its_generator() {
        let periods = Periods::default();
        let serial = declared("i serial {key}-{yyyyMMdd}-{n:6} zone UTC keys-max 7");
        let counter = periods.now(&serial, MIDNIGHT);
        assert_eq!(counter.counter_opening.series, Some(SeriesBounds { max: 7, may_begin: true }));
        let [one, other] = ["ACME", "B"].map(|key| counter.clone().of_series(key));
        let day = Key::parse(&counter.key).unwrap().period().to_owned();
        assert_eq!([&*one.key, &*other.key], [format!("i/ACME@{day}"), format!("i/B@{day}")]);
        assert_eq!((one.hash, one.stamp), (hash_of(one.key.as_bytes()), counter.stamp));
        assert!(periods.coming(MIDNIGHT + 24 * HOUR - 10_000).is_empty());
        let all_time = periods.now(&declared("n serial {n:6} unique-per key keys declared"), MIDNIGHT);
        assert_eq!(&*all_time.clone().of_series("ACME").key, "n/ACME");
        assert_eq!(all_time.counter_opening.series, Some(SeriesBounds { max: 100_000, may_begin: false }));
    }

    #[test]
    fn weeks_quarters_and_fiscal_years_begin_on_their_days() {
        for (words, keys) in [
            ("w serial {week-year}{week}-{n:6} zone UTC", ["w@W20261116", "w@W20261123"]),
            ("f serial {fiscal-year}-{n:6} zone UTC fiscal-start 11-23", ["f@F20251123", "f@F20261123"]),
            ("q serial {yyyy}{quarter}-{n:6} zone UTC", ["q@Q20261001", "q@Q20261001"]),
        ] {
            // November 22, 2026 is a Sunday.
            let periods = Periods::default();
            let serial = declared(words);
            let found = [0, 24 * HOUR].map(|passed| periods.now(&serial, MIDNIGHT + passed).key.to_string());
            assert_eq!(found, keys);
        }
    }

    #[test]
    fn what_a_template_shows_moves_inside_of_a_period() {
        let periods = Periods::default();
        let serial = declared("i serial {yyyyMMddHH}-{n:6} zone UTC reset month");
        let stamps = [0, HOUR - 1, HOUR, 25 * HOUR].map(|passed| {
            let counter = periods.now(&serial, MIDNIGHT + passed);
            (counter.key.to_string(), counter.stamp.day, counter.stamp.hour)
        });
        let [(key, day, _), ..] = stamps.clone();
        let expected = [(day, 0), (day, 0), (day, 1), (day + 1, 1)].map(|(day, hour)| (key.clone(), day, hour));
        assert_eq!(stamps, expected);
    }

    #[test]
    fn the_next_period_is_prepared_shortly_before_it_begins() {
        let periods = Periods::default();
        let serial = declared("i serial {yyyyMMdd}-{n:6} zone UTC");
        let today = periods.now(&serial, MIDNIGHT - 2 * HOUR).key;
        assert!(periods.coming(MIDNIGHT - HOUR).is_empty());
        assert!(periods.coming(MIDNIGHT - 1).is_empty(), "the last use is too long ago");
        periods.now(&serial, MIDNIGHT - HOUR / 2);
        assert!(periods.coming(MIDNIGHT - 30_001).is_empty());
        let next = periods.coming(MIDNIGHT - 10_000);
        assert!(next.len() == 1 && next[0].key > today && next[0].counter_opening.from_unix_ms == MIDNIGHT);
        assert_eq!(periods.now(&serial, MIDNIGHT).key, next[0].key);
        // Neither a serial number without periods nor a sequence has a next period.
        periods.now(&declared("n serial {n:6}"), MIDNIGHT);
        periods.now(&declared("s sequence"), MIDNIGHT);
        assert!(periods.coming(MIDNIGHT).is_empty());
    }

    /// A server in a world of periods.
    #[derive(Default)]
    struct PeriodServer {
        periods: Periods,
        /// Distance of its clock from the true time, ms.
        apart_ms: i64,
        /// Latest stamp of this life.
        stamp: Option<CivilTime>,
    }

    impl PeriodServer {
        /// Draws once at this time, from the store with this generator. Returns an error if a period or a stamp goes
        /// back.
        fn draw(
            &mut self,
            generator: &mut Generator,
            declaration: &Arc<CounterDeclaration>,
            now_unix_ms: i64,
        ) -> Result<(), String> {
            // The second try is in the period of the store.
            for _ in 0..2 {
                let SerialCounter { key, stamp, counter_opening, .. } = self.periods.now(declaration, now_unix_ms);
                if Some(stamp) < self.stamp {
                    return Err(format!("{key}: {stamp:?} after {:?}", self.stamp));
                }
                self.stamp = Some(stamp);
                let ask = OpenPeriodRequest {
                    key: Key::parse(&key).unwrap(),
                    declaration: counter_opening.declaration.to_string(),
                    reset: counter_opening.reset,
                    spec: counter_opening.spec,
                    floor: 0,
                    may_begin: true,
                    is_serial: true,
                    from_unix_ms: counter_opening.from_unix_ms,
                    has_begun: true,
                    redeclares: false,
                    restores_row: false,
                    series: None,
                    server: None,
                };
                match ask.refused_by(generator) {
                    None if *ask.key.period() < *generator.newest => {
                        return Err(format!("{key} after {}", generator.newest));
                    }
                    None => {
                        ask.key.period().clone_into(&mut generator.newest);
                        return Ok(());
                    }
                    Some(Verdict::Newer { period }) => self.periods.advance_to("i", &period),
                    Some(verdict) => return Err(format!("{key}: {verdict:?}")),
                }
            }
            Err(format!("nothing is given in {}", generator.newest))
        }
    }

    /// Plays a world of three servers and a store: clocks that are set, restarts and time that passes.
    fn play(seed: u64) -> Result<(), String> {
        let mut random = StdRng::seed_from_u64(seed);
        let words = [
            "i serial {yyyyMMdd}-{n:6} zone Asia/Shanghai",
            "i serial {yyyyMMddHH}-{n:6} zone Europe/Berlin",
            "i serial {yyyyMMddHH}-{n:6} zone UTC reset month",
            "i serial {week-year}{week}-{n:6} zone Europe/Berlin",
            "i serial {yyyy}{quarter}-{n:6} zone UTC",
            "i serial {fiscal-year}-{n:6} zone Europe/London fiscal-start 04-06",
        ];
        let declaration = declared(words[random.random_range(0..words.len())]);
        let mut generator = Generator {
            declaration: declaration.shared_text(),
            reset: declaration.reset().to_string(),
            ..Generator::default()
        };
        let mut servers = [PeriodServer::default(), PeriodServer::default(), PeriodServer::default()];
        let mut now = MIDNIGHT;
        for _ in 0..200 {
            let server = &mut servers[random.random_range(0..3)];
            match random.random_range(0..10) {
                0 => *server = PeriodServer { apart_ms: server.apart_ms, ..PeriodServer::default() },
                1 => server.apart_ms = random.random_range(-40 * 24 * HOUR..40 * 24 * HOUR),
                2..4 => now += random.random_range(0..10 * 24 * HOUR),
                _ => server.draw(&mut generator, &declaration, now + server.apart_ms)?,
            }
        }
        Ok(())
    }

    const WORLDS: u64 = 200;

    #[test]
    fn no_period_goes_back_in_any_world() {
        for seed in 0..WORLDS {
            play(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        }
    }

    #[test]
    fn each_planted_fault_of_periods_is_found() {
        for fault in Fault::OF_PERIODS {
            let _planted = plant(*fault);
            assert!((0..WORLDS).any(|seed| play(seed).is_err()), "{fault:?}");
        }
    }

    /// A counter that shows no time is served whatever the clock shows.
    #[test]
    fn only_counters_that_show_the_time_need_a_clock() {
        let periods = Periods::default();
        for (words, is_refused) in [
            ("i serial {yyyyMMdd}-{n:6} zone UTC", true),
            ("y serial {yyyy}-{n:6} zone UTC reset never", true),
            ("n serial {n:6}", false),
            ("s sequence", false),
        ] {
            for _ in 0..2 {
                assert_eq!(periods.at(&declared(words), || Err("absurd")).is_err(), is_refused, "{words}");
            }
        }
    }
}
