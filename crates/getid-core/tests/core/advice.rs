//! What is said of layouts before they are used: evenness, and proposals.

use getid_core::{Declaration, Evenness, evenness, no_dates, propose};

fn declared(words: &str) -> Declaration {
    let words: Vec<_> = ["t"].into_iter().chain(words.split(' ')).collect();
    Declaration::parse(&words, no_dates).unwrap_or_else(|errors| panic!("{words:?}: {errors:?}"))
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
        ("leaf counter-start 0..99", 0.0, 100, 100, 100, 100),
        ("leaf counter-start 0..99", 0.0, 64, 64, 128, 64),
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

/// One ID in a ms on average: a unit has two in a quarter of all, and so on.
#[test]
fn ids_that_come_by_chance_share_units() {
    let got = of("twitter", 1000.0, 2);
    // The chance that the counter is even: (1 - P(X > 1) + P(X > 2) ...) for a mean of 1, that is (1 + e^-2)/2 + ...
    let simulated = {
        let mut random = crate::random::Random(7);
        let (mut even, mut all) = (0.0, 0.0);
        let mut units = vec![0_u32; 1 << 16];
        for _ in 0..1 << 16 {
            units[random.index(1 << 16)] += 1;
        }
        for ids in units {
            even += f64::from(ids.div_ceil(2));
            all += f64::from(ids);
        }
        2.0 * even / all
    };
    assert!((got.fullest - simulated).abs() < 0.02, "{got:?} {simulated}");
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
