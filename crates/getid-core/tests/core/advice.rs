//! Advice about layouts before use: evenness, and proposals.

use getid_core::server::Composer;
use getid_core::{Declaration, Evenness, Number, QuietEvenness, RandomCycle, Role, evenness, propose};

use crate::random::Random;

fn declared(words: &str) -> Declaration {
    crate::support::declared(&format!("t {words}"))
}

fn of(words: &str, ids_per_s: f64, modulus: u64) -> Evenness {
    let declaration = declared(words);
    evenness(declaration.layout(), declaration.counter_start(), ids_per_s, modulus)
}

#[test]
fn evenness_is_that_of_the_lowest_bits() {
    // (declaration, IDs a second, modulus, remainders reached, fullest, emptiest), the last two in percent
    for (words, rate, modulus, reached, fullest, emptiest) in [
        ("fork", 1.0, 1024, 1024, 100, 100),
        ("fork", 0.0, 2048, 1024, 200, 0),
        ("twitter", 0.0, 1024, 1, 102_400, 0),
        ("twitter", 0.0, 1000, 125, 800, 0),
        ("twitter", 0.0, 1023, 1023, 100, 100),
        ("twitter", 10_000_000.0, 1024, 1024, 100, 100),
        ("leaf", 0.0, 100, 100, 100, 100),
        ("leaf", 0.0, 64, 64, 128, 64),
        ("leaf counter-start 0..127", 0.0, 64, 64, 100, 100),
        ("leaf counter-start 0..9", 0.0, 16, 10, 160, 0),
        ("sonyflake", 1_000_000.0, 1024, 1, 102_400, 0),
        ("uuid4", 1.0, 1024, 1024, 100, 100),
        ("timestamp-ms", 1.0, 1024, 1024, 100, 100),
        ("js53", 0.0, 1, 1, 100, 100),
    ] {
        let got = of(words, rate, modulus);
        let percent = |share: f64| format!("{:.0}", share * 100.0);
        let shares = (got.reached, percent(got.fullest), percent(got.emptiest));
        assert_eq!(shares, (reached, fullest.to_string(), emptiest.to_string()), "{words} {rate} {modulus}");
    }
}

/// Returns IDs of one server at random times, `ids_per_s` on average, as a line gives them.
fn simulated(declaration: &Declaration, ids_per_s: f64, count: usize, random: &mut Random) -> Vec<Number> {
    let layout = declaration.layout();
    let cycle = RandomCycle::new(random.permutation(1 << layout.bits_of(Role::Random)));
    let composer = Composer::new(layout, 1, |_| Some(1), cycle).unwrap();
    let (bits, start) = (layout.counter_bits(), declaration.counter_start() + 1);
    let unit_ns = f64::from(u32::try_from(layout.unit().ns()).unwrap());
    let (mut now_units, mut next) = (1e9, 0);
    (0..count as u64)
        .map(|given| {
            let chance = (f64::from(u32::try_from(random.next() >> 32).unwrap()) + 0.5) / 4_294_967_296.0;
            now_units += -chance.ln() / ids_per_s * 1e9 / unit_ns;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "10^9 and some more")]
            let begin = (now_units as u64) << bits;
            next = if next > begin { next } else { begin + random.below(start) } + 1;
            let noise = u128::from(random.next()) << 64 | u128::from(random.next());
            composer.number(next - 1, given, noise, Number::ZERO)
        })
        .collect()
}

/// Returns the number of IDs of each remainder.
fn remainders(ids: &[Number], modulus: u64) -> Vec<u32> {
    let mut counts = vec![0; usize::try_from(modulus).unwrap()];
    for id in ids {
        counts[usize::try_from(id % Number::from(modulus)).unwrap()] += 1;
    }
    counts
}

/// With fixed seeds, 100,000 IDs and at most 32 remainders, a share is accurate to about a twentieth.
#[test]
fn evenness_is_what_a_simulation_counts() {
    let mut random = Random(1024);
    for words in [
        "fork",
        "twitter",
        "leaf counter-start 0..99",
        "leaf counter-start 0..9",
        "sonyflake",
        "baidu",
        "timestamp-ms",
        "uuid7",
        "js53 counter-start 0..511",
        "layout time:41@1ms server-id:2 counter:12 noise:3",
    ] {
        let declaration = declared(words);
        for rate in [3.0, 300.0, 1000.0, 2500.0, 100_000.0] {
            let ids = simulated(&declaration, rate, 100_000, &mut random);
            for modulus in [2, 7, 10, 16, 30, 32] {
                let expected = evenness(declaration.layout(), declaration.counter_start(), rate, modulus);
                let counts = remainders(&ids, modulus);
                let share = |count: u32| f64::from(count) * f64::from(u32::try_from(modulus).unwrap()) / 100_000.0;
                let fullest = share(*counts.iter().max().unwrap());
                let emptiest = share(*counts.iter().min().unwrap());
                let case = format!("{words}, {rate} a second, % {modulus}: {fullest} {emptiest} {expected:?}");
                assert!((fullest - expected.fullest).abs() <= 0.08 * expected.fullest, "{case}");
                assert!((emptiest - expected.emptiest).abs() <= 0.08, "{case}");
                // A reported remainder may be rare, but no other occurs.
                let reached = counts.iter().filter(|&&count| count > 0).count() as u64;
                assert!(reached <= expected.reached, "{case}");
            }
        }
    }
}

/// The random field is exactly even at any rate, not just on average.
#[test]
fn any_round_of_the_random_field_has_each_value_once() {
    let mut random = Random(2);
    for (words, bits) in [
        ("fork", 10),
        ("fork server-id:2 counter:15 random:4", 4),
        (
            "layout time:41@1ms server-id:2 \
        counter:3 random:6 idc:2 idc 3",
            8,
        ),
    ] {
        for rate in [1.0, 1000.0, 30_000.0] {
            let ids = simulated(&declared(words), rate, 5000, &mut random);
            let period = 1 << declared(words).layout().bits_of(Role::Random);
            for round in ids.windows(period) {
                let mut low: Vec<_> = round.iter().map(|id| id % (1 << bits)).collect();
                low.sort_unstable();
                low.dedup();
                assert_eq!(low.len(), period, "{words} at {rate} a second");
            }
        }
    }
}

/// Chi-squared of remainders, in standard deviations above its mean: below 5 for fixed seeds. A counter at the bottom
/// fails this test.
#[test]
fn remainders_pass_a_test_of_chance() {
    let mut random = Random(3);
    let mut deviation = |words: &str, modulus: u64| {
        let ids = simulated(&declared(words), 20.0, 100_000, &mut random);
        let expected = 100_000.0 / f64::from(u32::try_from(modulus).unwrap());
        let counts = remainders(&ids, modulus);
        let chi: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        let freedom = f64::from(u32::try_from(modulus).unwrap()) - 1.0;
        (chi - freedom) / (2.0 * freedom).sqrt()
    };
    for words in ["fork", "leaf counter-start 0..4095", "uuid4", "uuid7", "layout time:41@1ms server-id:2 noise:10"] {
        for modulus in [3, 7, 10, 16, 100, 1000, 1024] {
            let found = deviation(words, modulus);
            assert!(found < 5.0, "{words} % {modulus}: {found}");
        }
    }
    assert!(deviation("leaf counter-start 0..99", 64) > 100.0);
    assert!(deviation("twitter", 10) > 100.0);
}

#[test]
fn absurd_rates_and_moduli_are_taken_as_the_nearest() {
    for rate in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, f64::MAX] {
        for modulus in [0, 1, 2, u64::MAX] {
            let got = of("twitter counter-start 0..4095", rate, modulus);
            assert!(got.fullest >= 1.0 - 1e-9 && got.emptiest <= 1.0 + 1e-9, "{rate} {modulus} {got:?}");
        }
    }
}

#[test]
fn a_proposal_can_be_declared_and_holds_the_load() {
    for servers in [1, 2, 3, 20, 1000, 1 << 14] {
        for ids_per_s in [1, 1000, 50_000, 1_000_000, 40_000_000] {
            for modulus in [1, 2, 7, 100, 1000, 1024, 4096] {
                let case = format!("{servers} servers, {ids_per_s} a second, {modulus} tables");
                let Ok(proposal) = propose(servers, ids_per_s, modulus) else { continue };
                let declaration = declared(&proposal.words);
                let layout = declaration.layout();
                assert!(declaration.is_integer() && layout.time_bits() >= 41, "{case}: {proposal:?}");
                assert!(1 << declaration.server_bits() >= servers, "{case}: {proposal:?}");
                assert!(layout.capacity_per_s().unwrap() * servers >= ids_per_s, "{case}: {proposal:?}");
                for rate in [0.0, 1000.0, 50_000.0] {
                    let evenness = evenness(layout, declaration.counter_start(), rate, modulus);
                    assert!(evenness.is_even(), "{case}: {proposal:?}: {evenness:?}");
                }
            }
        }
    }
}

#[test]
fn the_proposal_of_the_documents() {
    let proposal = propose(20, 50_000, 1024).unwrap();
    assert_eq!(proposal.words, "layout time:42@1ms server-id:5 counter:6 random:10");
    assert_eq!(propose(1 << 21, 1_000_000_000, 1 << 20).unwrap_err().server_bits, 21);
}

/// The sentence for a quiet generator agrees with the shares of each remainder.
#[test]
fn a_quiet_generators_evenness_and_its_remedy() {
    for (words, sentence) in [
        ("fork", "even"),
        ("twitter", "even with counter-start 0..1023"),
        ("twitter counter-start 0..1023", "even"),
        ("twitter counter-start 0..99", "even up to id % 8, even with counter-start 0..1023"),
        ("leaf", "even up to id % 8, even with counter-start 0..1023"),
        ("baidu time:30", "even with counter-start 0..1023"),
        ("sonyflake", "uneven; 'machine' is equal in all of a server's IDs"),
        ("js53", "even with counter-start 0..511 up to id % 512; 'server-id' is equal in all of a server's IDs"),
        ("timestamp-ms", "even"),
        // The counter is narrower than the tables, and the time above it is even.
        ("layout time:41@1ms counter:4 one-server 0", "even with counter-start 0..15"),
    ] {
        let declaration = declared(words);
        let (layout, start) = (declaration.layout(), declaration.counter_start());
        let quiet = QuietEvenness::of(layout, start, None);
        assert_eq!(quiet.to_string(), sentence, "{words}");
        let is_even = |start: u64, modulus: u64| evenness(layout, start, 0.0, modulus).is_even();
        assert!(is_even(start, quiet.even_to), "{words}");
        assert!(quiet.is_even() || !is_even(start, 2 * quiet.even_to), "{words}");
        if let Some(remedy) = quiet.remedy {
            assert!(is_even(remedy.last, remedy.even_to) && !is_even(remedy.last / 2, remedy.even_to), "{words}");
        }
    }
    let mastodon = declared("mastodon");
    let remedy = QuietEvenness::of(mastodon.layout(), 0, Some(1 << 20)).remedy.expect("a remedy");
    assert_eq!((remedy.last, remedy.even_to), ((1 << 16) - 1, 1 << 20));
    let twitter = declared("twitter");
    let of = |modulus: u64| QuietEvenness::of(twitter.layout(), 0, Some(modulus)).to_string();
    assert_eq!(of(1023), "even", "time makes an odd modulus even");
    assert_eq!(of(100), "even with counter-start 0..3");
    assert_eq!(
        of(1 << 20),
        "even with counter-start 0..4095 up to id % 4096; 'worker' is equal in all of a server's IDs"
    );
}
